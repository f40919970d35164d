"""Numbers from scores: metrics, calibration, curves, intervals; no files, no ids.

In: arrays of target and nontarget scores. Out: figures. A new metric is a function in `scalars.py`
and a line in `measure.py`.
"""
