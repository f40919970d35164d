"""Many recordings: lists of them, the work in blocks that survive an interruption, the tables.

In: wav.scp with pipes and segments, or a folder. Out: xvector.ark, utt2dur and their kin.
"""
