"""Every metric of a thousand draws of speakers at once: what intervals are made of.

In: scores, the speakers of their trials, and how often each draw has each speaker. Out: a row of
metrics for each draw, the same as `metrics.measure.WeightedMeasure` gives one by one.
"""
