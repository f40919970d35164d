"""A model's LLR as inner products: what a probe brings, what a speaker brings.

search.onnx compares a probe t with a row e form by form, sum_k weights[f, k] t[order[k]] e[k]: the
score s first, then scales and shifts of the calibration, LLR = alpha s + beta one stage after the
other. Codes are made of what the score has of a row: the values that meet one of the probe
(`cross`), and what the row adds by itself (`own`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.bundle.agreement import read_graph
from dcaplda.runtime.bundle.graph_facts import read_facts
from dcaplda.runtime.bundle.manifest import SEARCH
from dcaplda.runtime.errors import InputError

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Index = NDArray[np.int64]

TOLERANCE = 1e-3
"""Of an LLR made of the forms against the graph's, in parts of the largest."""


@dataclass(frozen=True, eq=False)
class Forms:
    """Weights (F, K) and order (K,) of search.onnx, and which columns play which part."""

    weights: Float64
    order: Index
    cross: Index
    """Columns of the score in which both sides differ from utterance to utterance."""
    own: Index
    """Columns that meet a 1 of the probe."""
    alone: Index
    """Columns that are 1 and meet what the probe adds by itself."""
    conditions: Index
    """Columns of the calibration."""

    def sides(self, probe: Float32) -> Float64:
        """What a probe (K,) brings to each form, by the columns of a row: (F, K)."""
        return self.weights * probe.astype(np.float64)[self.order]

    def llrs(self, probe: Float32, rows: Float32) -> Float64:
        """LLRs of a probe (K,) with rows (n, K), written out."""
        return combined(rows.astype(np.float64) @ self.sides(probe).T)


def combined(values: Float64) -> Float64:
    """LLRs from the values (n, F) of score, scale, shift, scale, shift."""
    llr = values[:, 0]
    for stage in range(1, values.shape[1], 2):
        llr = values[:, stage] * llr + values[:, stage + 1]
    return llr


def read_forms(backend: "Backend") -> Forms:
    """The forms of a bundle."""
    info = backend.info
    width = info.voiceprint_dim
    if SEARCH not in info.further_graphs:
        raise InputError(f"{backend.directory}: has no graph for searches; {_WAY}")
    place = f"{backend.directory}: graph '{SEARCH}'"
    content = read_graph(backend.directory, info, SEARCH)
    constants = [content[slice(*it)] for it in read_facts(content, place).constants.values()]
    orders = [np.frombuffer(it, "<i8") for it in constants if len(it) == 8 * width]
    weights = [
        np.frombuffer(it, "<f4").reshape(-1, width)
        for it in constants
        if len(it) % (4 * width) == 0 and (len(it) // (4 * width)) % 2
    ]
    if len(orders) != 1 or len(weights) != 1 or set(orders[0]) != set(range(width)):
        raise InputError(f"{backend.directory}: compares in a way that codes do not know; {_WAY}")
    weight, order = weights[0].astype(np.float64), orders[0].astype(np.int64)
    is_one = np.isin(np.arange(width), backend.ones)
    used, meets_one = weight[0] != 0, is_one[order]
    return Forms(
        weights=weight,
        order=order,
        cross=np.flatnonzero(used & ~is_one & ~meets_one),
        own=np.flatnonzero(used & ~is_one & meets_one),
        alone=np.flatnonzero(used & is_one),
        conditions=np.flatnonzero((weight[1:] != 0).any(axis=0)),
    )


_WAY = "open the gallery without index='codes', or export the model again"


def check_forms(backend: "Backend", forms: Forms, rows: Float32) -> None:
    """Compare LLRs of the forms with the graph's on some rows (n, K), each a probe too."""
    for probe in rows[:4]:
        graph = backend.search_tile(probe[None], rows)[0]
        written = forms.llrs(probe, rows)
        if np.abs(graph - written).max() > TOLERANCE * (1.0 + np.abs(graph).max()):
            raise InputError(
                f"{backend.directory}: compares in a way that codes do not know; {_WAY}"
            )
