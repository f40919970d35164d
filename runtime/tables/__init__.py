"""Kaldi's tables and files, read strictly and written whole.

In: specifiers and file names of the user. Out: ids with vectors, numbers, words; one-line errors.
Nothing here knows of models.
"""
