"""Every graph of a bundle against the torch model, on random trials; a difference ends export."""

import copy
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray

from dcaplda.export.graphs import names
from dcaplda.runtime.errors import ModelError
from dcaplda.train.model.backend import Backend

ABSOLUTE, RELATIVE = 1e-4, 1e-5
"""Largest difference allowed: ABSOLUTE + RELATIVE * |llr|, that of float32 arithmetic."""


def random_side(dim: int, count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Embeddings of unit variance and durations of 1 to 300 s."""
    rng = np.random.default_rng(seed)
    embeddings = rng.standard_normal((count, dim)).astype(np.float32)
    return embeddings, np.exp(rng.uniform(0.0, np.log(300.0), count)).astype(np.float32)


def torch_llrs(model: Backend, enroll: Any, test: Any) -> NDArray[np.float64]:
    """The readable model in float64; a group of rows is averaged where `enroll` has groups."""
    model = copy.deepcopy(model).double().eval()
    sides = []
    with torch.no_grad():
        for embeddings, seconds, *groups in (enroll, test):
            inputs = model.inputs(torch.tensor(embeddings).double(), torch.tensor(seconds).double())
            if groups:
                number = torch.tensor(groups[0])
                members = torch.nn.functional.one_hot(number).double().T
                members = members / members.sum(dim=1, keepdim=True)
                inputs = {name: members @ value for name, value in inputs.items()}
            sides.append(inputs)
        return model.llrs(*sides).numpy()


def graph_llrs(run: Any, enroll: Any, test: Any) -> dict[str, NDArray[np.float32]]:
    """LLRs of all ways through the graphs; `run(graph, inputs)` evaluates one graph.

    `pairs` holds the diagonal, `groups` the enrolment averaged over pairs of rows.
    """
    x = {names.EMBEDDINGS: enroll[0], names.DURATIONS: enroll[1]}
    y = {names.EMBEDDINGS: test[0], names.DURATIONS: test[1]}
    whole = {names.ENROLL_PREFIX + k: v for k, v in x.items()}
    whole |= {names.TEST_PREFIX + k: v for k, v in y.items()}
    prints = {"enroll": run(names.VOICEPRINT, x), "test": run(names.VOICEPRINT, y)}
    averaged = run(names.AVERAGE, {**x, names.GROUPS: np.arange(len(enroll[0])) // 2})
    count = min(len(p) for p in prints.values())
    return {
        names.BACKEND: run(names.BACKEND, whole),
        names.COMPARE: run(names.COMPARE, prints),
        names.PAIRS: run(names.PAIRS, {side: p[:count] for side, p in prints.items()}),
        names.GROUPS: run(names.COMPARE, {**prints, "enroll": averaged}),
        names.SEARCH: np.concatenate(
            [
                run(names.SEARCH, {"enroll": prints["enroll"], "test": prints["test"][[row]]})
                for row in range(len(test[0]))
            ]
        ).T,
        names.TILE: run(
            names.TILE,
            {
                names.PREPARED: run(names.PREPARE, {"enroll": prints["enroll"]}),
                "test": prints["test"],
            },
        ),
        names.VERIFY: np.stack(
            [
                run(
                    names.VERIFY,
                    {
                        names.ENROLL: prints["enroll"],
                        names.EMBEDDINGS: test[0][[row]],
                        names.DURATIONS: test[1][[row]],
                    },
                )
                for row in range(len(test[0]))
            ],
            axis=1,
        ),
    }


def expected_llrs(model: Backend, enroll: Any, test: Any) -> dict[str, NDArray[np.float64]]:
    """What graph_llrs has to give, from torch."""
    full = torch_llrs(model, enroll, test)
    grouped = torch_llrs(model, (*enroll, np.arange(len(enroll[0])) // 2), test)
    return {
        names.BACKEND: full,
        names.COMPARE: full,
        names.PAIRS: np.diagonal(full),
        names.GROUPS: grouped,
        names.SEARCH: full,
        names.TILE: full,
        names.VERIFY: full,
    }


def check(model: Backend, graphs: dict[str, onnx.ModelProto]) -> dict[str, float]:
    """Largest difference of each way of scoring; a ModelError if one is too large."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = {
        name: onnxruntime.InferenceSession(graph.SerializeToString(), options)
        for name, graph in graphs.items()
    }
    dim = model.config.embedding_dim
    enroll, test = random_side(dim, 24, seed=1), random_side(dim, 17, seed=2)
    found = graph_llrs(lambda name, inputs: sessions[name].run(None, inputs)[0], enroll, test)
    differences = {}
    for name, expected in expected_llrs(model, enroll, test).items():
        difference = np.abs(found[name] - expected)
        differences[name] = float(difference.max())
        if not (difference <= ABSOLUTE + RELATIVE * np.abs(expected)).all():
            raise ModelError(
                f"export: graph '{name}' differs from torch by {differences[name]:.3g} "
                f"(allowed {ABSOLUTE:g} + {RELATIVE:g} * |llr|); the model cannot be exported"
            )
    return differences
