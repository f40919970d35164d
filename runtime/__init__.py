"""Scoring with an exported bundle: numpy and onnxruntime, nothing else."""

from dcaplda.runtime.backend import Backend
from dcaplda.runtime.bundle import ModelInfo
from dcaplda.runtime.errors import BundleError, DcapldaError, InputError

__all__ = ["Backend", "BundleError", "DcapldaError", "InputError", "ModelInfo"]
