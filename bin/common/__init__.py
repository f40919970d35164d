"""What the tools share: options in Kaldi's manner, utterances, the sides of a trial list, cohorts.

In: command lines. Out: checked options and loaded tables.
"""
