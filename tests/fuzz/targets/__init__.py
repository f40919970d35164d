"""All targets, by name, and where each is defined: a process imports what its own needs."""

import importlib
from pathlib import Path

from fuzz.target import Target

TARGETS = {
    "manifest": "bundle.Manifest",
    "files": "bundle.Files",
    "onnx": "bundle.Onnx",
    "joint": "bundle.Joint",
    "training": "models.Training",
    "model": "models.Model",
    "pth": "models.Pth",
    "pyannote": "foreign.Pyannote",
    "rttm": "foreign.Rttm",
    "npz": "tables.Npz",
    "npy": "tables.Npy",
    "archives": "tables.Archives",
    "scp": "tables.Scp",
    "words": "tables.Words",
    "trials": "tables.Trials",
    "scores": "tables.Scores",
    "plda": "tables.Plda",
    "options": "settings.Options",
    "recipe": "settings.Recipe",
    "world": "settings.World",
    "gallery": "gallery.GalleryPages",
}
PLANTED = {
    f"planted-{name.lower()}": f"planted.{name}"
    for name in ("Hang", "Crash", "Memory", "Traceback", "Wrong", "Fine")
}
"""Targets with a fault of their own: what the fuzzer must find, for its tests."""


def make_target(name: str, folder: Path) -> Target:
    module, _, cls = {**TARGETS, **PLANTED}[name].partition(".")
    made = getattr(importlib.import_module(f"fuzz.targets.{module}"), cls)(folder)
    assert isinstance(made, Target) and made.name == name
    return made
