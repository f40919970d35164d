"""Which extractor made embeddings, and whether that is the one that a model was trained with.

In: tables of embeddings, model.json. Out: agreement, a warning where it cannot be known, a refusal.
"""
