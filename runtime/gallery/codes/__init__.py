"""Codes of voiceprints: all speakers of a very large gallery looked through in a few bytes each.

In: rows of voiceprints and a model's score. Out: for a probe the rows that are worth an exact
comparison, a bound for all others, and an estimate of what they add up to. Needs faiss (extra
`index`), which is imported when codes are made or used.
"""
