"""Start values before the first step: LDA, PLDA, offsets, the first calibration.

In: labelled data of `train/data`. Out: `values.Start`, which `values.build_model`
turns into a model.
"""
