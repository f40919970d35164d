"""Results for people: tables, words, pictures, the HTML page.

In: `eval.results.Result`. Out: text, JSON, CSV, images, one page. Nothing is measured here.
"""
