"""Held-out figures in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

USELESS = 0.95
"""Cllr at 0.5 from which on LLRs say next to nothing; 1 is what no score at all costs."""
GOOD, FAIR = 1.15, 1.4
"""Actual over minimum Cllr: up to GOOD the LLRs can be used as they are."""
FEW_TARGETS = 200


def verdict(parts: Sequence[dict[str, Any]]) -> str:
    """One or two sentences about new people, and about new domains where they were tried."""
    sentences = []
    for kind, whom in (("people", "new people of these domains"), ("domain", "new domains")):
        chosen = [part for part in parts if part["kind"] == kind]
        if chosen:
            sentences.append(_sentence(whom, chosen))
    if not any(part["kind"] == "domain" for part in parts):
        sentences.append("What new domains cost is not known: fewer than three could take turns.")
    if sum(part["targets"] for part in parts) < FEW_TARGETS:
        sentences.append("Few target trials: the figures are rough.")
    return " ".join(sentences)


def _sentence(whom: str, parts: Sequence[dict[str, Any]]) -> str:
    actual, minimum = (float(np.mean([p[key] for p in parts])) for key in ("cllr", "min_cllr"))
    figures = f"held-out Cllr {actual:.3f} (minimum {minimum:.3f}) on {whom}"
    if actual >= USELESS:
        return f"Not usable: {figures}, where no score at all costs 1."
    ratio = actual / max(minimum, 1e-9)
    if ratio <= GOOD or actual - minimum < 0.01:
        return f"Good: {figures}; the LLRs can be used as they are."
    worst = max(parts, key=lambda part: part["cllr"] - part["min_cllr"])
    lost = f"{100 * (1 - minimum / actual):.0f} % of it is miscalibration, most in {worst['name']}"
    if ratio <= FAIR:
        return f"Usable: {figures}; {lost}."
    return f"With care: {figures}; {lost}: adapt to the place, or calibrate on data of it."
