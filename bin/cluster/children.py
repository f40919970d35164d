"""Tools as processes of their own, from this very source, installed or a checkout."""

import sys
from pathlib import Path


def start_of(tool: str) -> list[str]:
    """The words that start a tool; its options and arguments follow."""
    return [sys.executable, str(Path(__file__).parents[1] / "_checkout.py"), tool]
