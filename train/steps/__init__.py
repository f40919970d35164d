"""The training itself: loss, optimizer step, loop, averaging, checkpoints, log.

In: a model at its start, data, a recipe. Out: the trained model and the state to go on from.
"""
