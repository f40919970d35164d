"""Which dcaplda this is: by the checkout it runs from, else by the installed package."""

import importlib.metadata
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def version() -> str:
    """The version; "unknown" for files that were copied out of both."""
    try:
        found = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
        if found["name"] == "dcaplda":
            return str(found["version"])
    except (OSError, KeyError, ValueError):
        pass  # installed: there is no such file, or it belongs to somebody else
    try:
        return importlib.metadata.version("dcaplda")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
