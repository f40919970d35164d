"""Who spoke when: LLRs among the utterances of a recording, and clusters by them.

In: embeddings and seconds of speech of one recording (or archive). Out: a matrix of LLRs, and the
number of the speaker of each utterance.
"""
