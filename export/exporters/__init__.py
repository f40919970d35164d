"""Models for other programs: the PLDA of a trained model in the files that diarizers read.

In: a torch model. Out: a folder. A new target is a writer in `targets.py`.
"""
