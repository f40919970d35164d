"""A simulated world of speakers and recordings, and the exact LLR of its trials.

In: a world's TOML. Out: embeddings, trials, oracle scores. Nothing is evaluated here.
"""
