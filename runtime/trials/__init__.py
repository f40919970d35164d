"""From a trial list to a score file: lists, the plan of what to compare, tiles, normalization.

In: trial files, voiceprints and a function that compares them. Out: `lists.Trials`, LLRs, score
files.
"""
