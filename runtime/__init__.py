"""Scoring with an exported bundle: numpy and onnxruntime, nothing else."""
