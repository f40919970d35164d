"""Where somebody speaks: detectors, and the stretches that follow from what they say of windows.

In: samples at one rate. Out: stretches of speech, in samples; also while the signal still comes.
"""
