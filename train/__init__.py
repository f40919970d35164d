"""The model in torch, its start values and its training."""
