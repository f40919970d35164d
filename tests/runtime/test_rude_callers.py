"""Calls with anything at all: an answer, or one line; never a traceback of somewhere inside."""

import math
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joint_models import joint_bundle
from random_models import DIM

from dcaplda.runtime import Backend, DcapldaError, Gallery
from dcaplda.runtime.verification import Speaker

pytestmark = pytest.mark.torch

CALLS = 3000


class Rude:
    """Fails at whatever is asked of it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise KeyError("x")

    def __float__(self) -> float:
        raise RuntimeError("no")

    def __index__(self) -> int:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise ValueError("hidden")


ANYTHING: list[Any] = [None, True, 0, 1, -1, 2, 0.5, math.nan, math.inf, 1e-300, 1e300, 10**400]
ANYTHING += [10**5000, "0.5", "", "x", b"1", 1j, np.float16(1), np.int64(3), np.array(0.5)]
ANYTHING += [np.array([0.5]), np.ma.masked, np.ma.array([1.0], mask=[True]), [0.5], (1, 2), {}]
ANYTHING += [set(), object(), Rude(), np.datetime64("2020"), "\ud800", lambda: 0, range(3), 2.5]


class Caller:
    """Draws arguments: good ones, odd ones and anything."""

    def __init__(self, backend: Backend, path: Path, seed: int) -> None:
        self.choose, self.backend = random.Random(seed), backend
        rng = np.random.default_rng(seed)
        self.x = rng.standard_normal((4, DIM)).astype(np.float32)
        self.v = backend.voiceprints(self.x, np.full(4, 9.0))
        self.rng = rng
        self.gallery = Gallery.open(path, backend)

    def any(self) -> Any:
        return self.choose.choice(ANYTHING)

    def matrix(self, width: int) -> Any:
        made = self.rng.standard_normal((self.choose.choice([1, 2, 3]), width))
        changes = [made, made[0], made.tolist(), made * 1e-30, made * 1e20, made * 1e38, made * 0]
        changes += [made + 1j, np.ma.array(made, mask=made > 0), made.astype(str), made[:, 1:]]
        changes += [made.astype(object), made[None], made[:0], np.where(made > 1, np.nan, made)]
        changes += [made > 0, made.T, [*made.tolist(), [1.0]], made.astype(">f8")]
        return self.choose.choice(changes)

    def embedding(self) -> Any:
        return self.choose.choice([self.x[0], self.x[:2], self.matrix(DIM), self.any()])

    def seconds(self) -> Any:
        return self.choose.choice([9.0, [9.0, 3.0], self.any()])

    def voiceprint(self) -> Any:
        width = self.backend.info.voiceprint_dim
        kinds = [self.v[0], self.v[1:3], self.v[0] * 2, self.matrix(width), self.any()]
        return self.choose.choice([*kinds, Speaker(self.v[:1]), Speaker(self.matrix(width))])

    def number(self, good: Any) -> Any:
        return self.choose.choice([good, self.any()])

    def call(self) -> Any:
        b, g, v = self.backend, self.gallery, self.voiceprint
        costs = {"cost_miss": self.number(1.0), "cost_fa": self.number(1.0)}
        name, way = self.number("ann"), self.number("auto")
        groups, sessions = self.number(None), self.number(None)
        return self.choose.choice(
            [
                lambda: b.voiceprints(self.embedding(), self.seconds(), groups=groups),
                lambda: b.enroll(
                    self.embedding(), self.seconds(), multi_enroll=way, sessions=sessions
                ),
                lambda: b.verify(
                    v(), self.embedding(), self.seconds(), prior=self.number(0.1), **costs
                ),
                lambda: b.compare(v(), v()),
                lambda: b.compare_pairs(v(), v()),
                lambda: b.score_trials(self.v, self.v, self.number([0]), self.number([1])),
                lambda: b.add_utterances(v(), self.embedding(), self.seconds()),
                lambda: b.evidence(v(), prior=0.1).add(self.embedding(), self.seconds()),
                lambda: b.threshold(self.any(), self.any(), self.any()),
                lambda: Backend.load(b.directory, threads=self.any()),
                lambda: Gallery.open(self.any(), b),
                lambda: Speaker(self.v[:1], self.any(), self.any(), self.any()),
                lambda: g.add(name, v()),
                lambda: g.replace(name, v()),
                lambda: g.remove(name),
                lambda: g.get(name),
                lambda: name in g,
                lambda: g.search(v(), self.number(3)),
                lambda: g.search_many(v(), self.number(3)),
                lambda: g.identify(v(), prior=self.number(0.5), **costs),
            ]
        )()


@pytest.mark.parametrize("kind", ["d-plda-dsd", "joint"])
def test_an_answer_or_one_line(kind, small_bundle, tmp_path, monkeypatch) -> None:
    directory = small_bundle if kind == "d-plda-dsd" else joint_bundle(tmp_path / "joint")
    monkeypatch.chdir(tmp_path)  # some names of galleries are good ones
    caller = Caller(Backend.load(directory, threads=1), tmp_path / "g.db", seed=1)
    answers = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(CALLS):
            try:
                answer = caller.call()
            except DcapldaError as error:
                text = str(error)
                assert "\n" not in text and len(text) < 500
                continue
            answers += 1
            if isinstance(answer, np.ndarray):
                assert np.isfinite(answer).all()
            for found in answer if isinstance(answer, list) else [answer]:
                if hasattr(found, "llr") and found.llr != -math.inf:
                    assert math.isfinite(found.llr)
    assert CALLS / 50 < answers < CALLS / 2
