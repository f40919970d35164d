"""Many utterances looked at together: what a place looks like (`place`), and whether a table of
inputs can be right (`mistakes`). In: embeddings, seconds and what the bundle knows. Out: words.
"""
