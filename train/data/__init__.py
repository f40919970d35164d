"""Labelled vectors, and the batches drawn from them: directories, folds, disturbances.

In: Kaldi data directories. Out: `labelled.TrainingData`, `batches.Batch`. Nothing here
knows of models.
"""
