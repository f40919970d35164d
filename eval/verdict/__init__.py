"""Can scores be used as they are, and which system is best: grades and sentences.

In: `eval.results.Result` and limits. Out: a grade with its reasons in words. Nothing is drawn.
"""
