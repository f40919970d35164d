"""LDA and PLDA from covariances: what a backend is before anything calibrates it.

In: labelled data of `train/data`. Out: `generative.Generative`, LDA and PLDA with the offsets of
domains, and `form.PldaForm`, the second-order form of a score or of a calibration.
"""
