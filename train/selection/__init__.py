"""Which model is best: development sets, and a model's losses on them.

In: development sets of a recipe and a model. Out: `losses.Losses`.
"""
