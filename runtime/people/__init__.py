"""People by name, over a gallery: a manager with the verbs of others, names for diarized speakers.

In: embeddings and seconds of speech. Out: names, or nobody.
"""
