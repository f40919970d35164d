"""Start values before the first step: the first calibration, joint models and their steps.

In: labelled data of `train/data`, LDA and PLDA of `train/plda`. Out: `values.Start`, which
`values.build_model` turns into a model.
"""
