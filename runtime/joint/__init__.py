"""Several utterances and new places under one model: w = mu + o + y + e (place, speaker, sample).

In: projected vectors, numbers of utterances, unlabelled utterances of a place. Out: LLRs before
calibration (`scorer.JointScorer`), voiceprints of several utterances (`rows`), the posterior of a
place's offset (`place`). numpy only; training and the runtime share it.
"""
