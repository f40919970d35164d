"""The paper's equations in torch, and nothing else: preprocessing, score, calibration stages.

In: embeddings and seconds. Out: LLRs (`backend.Backend`). `forms` has the same equations as thin
products; a new duration feature goes into `durations.py`.
"""
