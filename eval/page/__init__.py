"""The page of `eval-scores --report`: which system, where it fails, and each set on demand.

In: results with their curves, verdicts, model cards. Out: one HTML file. Nothing is measured here.
"""
