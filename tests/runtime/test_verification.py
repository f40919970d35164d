import doctest
import multiprocessing
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from child_tasks import verify_one
from random_models import DIM, random_model

import dcaplda.runtime.backend
import dcaplda.runtime.gallery.speakers
import dcaplda.runtime.people.diarized
import dcaplda.runtime.people.manager
import dcaplda.runtime.records.speaker
from dcaplda.export import parity
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, InputError
from dcaplda.runtime.gallery.speakers import Gallery
from dcaplda.runtime.verification import Speaker

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=2)


def side(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return parity.random_side(DIM, count, seed)


def torch_llrs(enroll, test) -> np.ndarray:
    return parity.torch_llrs(random_model("d-plda-dsd"), enroll, test)


def test_llr_of_one_utterance_is_torchs(backend: Backend) -> None:
    (x, d), (y, e) = side(1, 1), side(1, 2)
    answer = backend.verify(backend.enroll(x, d), y, e, prior=0.1)
    assert answer.llr == pytest.approx(torch_llrs((x, d), (y, e))[0, 0], abs=1e-4)


def test_llr_of_several_utterances_is_the_mean(backend: Backend) -> None:
    (x, d), (y, e) = side(4, 1), side(1, 2)
    answer = backend.verify(backend.enroll(x, d), y[0], e[0], prior=0.1)
    assert answer.llr == pytest.approx(torch_llrs((x, d), (y, e)).mean(), abs=1e-4)


def test_voiceprint_averaging_is_torchs(backend: Backend) -> None:
    (x, d), (y, e) = side(4, 1), side(1, 2)
    ann = backend.enroll(x, d, multi_enroll="voiceprints")
    assert ann.voiceprints.shape == (1, backend.info.voiceprint_dim)
    truth = torch_llrs((x, d, np.zeros(4, np.int64)), (y, e))[0, 0]
    assert backend.verify(ann, y, e, prior=0.1).llr == pytest.approx(truth, abs=1e-4)


@pytest.mark.parametrize(("prior", "miss", "fa"), [(0.5, 1, 1), (0.01, 10, 1), (0.9, 1, 100)])
def test_decision_minimizes_the_expected_cost(backend: Backend, prior, miss, fa) -> None:
    """Written out: accepting costs fa * P(different), rejecting miss * P(same)."""
    (x, d), (y, e) = side(1, 1), side(20, 2)
    ann = backend.enroll(x, d)
    for row in range(20):
        answer = backend.verify(ann, y[row], e[row], prior=prior, cost_miss=miss, cost_fa=fa)
        same = prior * np.exp(answer.llr) / (prior * np.exp(answer.llr) + 1 - prior)
        assert answer.posterior == pytest.approx(same, rel=1e-9)
        assert answer.accept == (fa * (1 - same) <= miss * same)
        assert answer.threshold == pytest.approx(np.log(fa / miss * (1 - prior) / prior))


def test_result_is_frozen(backend: Backend) -> None:
    (x, d) = side(1)
    answer = backend.verify(backend.enroll(x, d), x, d, prior=0.5)
    with pytest.raises(AttributeError):
        answer.llr = 3.0  # type: ignore[misc]


class Wrapped:
    """Something that is no array but can become one."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)


def test_anything_that_becomes_an_array_will_do(backend: Backend) -> None:
    import torch

    (x, d), (y, e) = side(2, 1), side(1, 2)
    answers = {
        backend.verify(backend.enroll(kind(x), d.tolist()), kind(y[0]), float(e[0]), prior=0.5).llr
        for kind in (np.asarray, np.ndarray.tolist, Wrapped, torch.tensor, np.float64)
    }
    assert len(answers) == 1
    ann = backend.enroll(x, d)
    for form in (ann, ann.voiceprints, ann.voiceprints.tolist(), Wrapped(ann.voiceprints)):
        assert backend.verify(form, y, e, prior=0.5).llr in answers


@pytest.mark.parametrize("kind", ["nan", "inf", "zero", "short", "strided", "tiny"])
def test_the_quick_look_at_an_embedding_sees_what_the_long_one_does(backend, kind: str) -> None:
    """One float32 vector takes a shortcut, a list does not: same answer or same refusal."""
    x, d = side(2)
    one = x[1].astype(np.float32)
    if kind == "strided":
        one = np.repeat(one, 2)[::2]
    elif kind == "short":
        one = one[:-1]
    elif kind == "tiny":
        one *= 1e-30  # its square is zero in float32
    else:
        one[3 if kind != "zero" else slice(None)] = {"nan": np.nan, "inf": -np.inf, "zero": 0}[kind]
    answers = []
    for given in (one, one.tolist()):
        try:
            answers.append(backend.verify(backend.enroll(x[0], d[0]), given, 9.0, prior=0.5).llr)
        except InputError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    assert isinstance(answers[0], float) == (kind in ("strided", "tiny"))


def test_many_threads_and_two_models_at_once(small_bundle: Path, tmp_path: Path) -> None:
    export_model(random_model("d-plda-sd", seed=5), tmp_path / "other")
    backends = [Backend.load(small_bundle), Backend.load(tmp_path / "other")]
    (x, d), (y, e) = side(8, 1), side(8, 2)

    def answer(k: int) -> float:
        b = backends[k % 2]
        return b.verify(b.enroll(x[k], d[k]), y[k], e[k], prior=0.5).llr

    truth = [answer(k) for k in range(8)]
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(100) if answer(k) != truth[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_backend_can_be_sent_to_other_processes(backend: Backend, method: str) -> None:
    task = (backend, *side(2))
    with multiprocessing.get_context(method).Pool(2) as pool:
        answers = pool.map_async(verify_one, [task] * 4).get(timeout=60)
    assert answers == [verify_one(task)] * 4


def test_a_backend_survives_a_fork(backend: Backend) -> None:
    """The child uses the sessions that it inherited."""
    task = (backend, *side(2))
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(verify_one(task)))
    child.start()
    assert receive.poll(30)
    assert receive.recv() == verify_one(task)
    child.join(10)


def test_a_pickled_backend_keeps_its_threads(backend: Backend) -> None:
    again = pickle.loads(pickle.dumps(backend))
    assert again.threads == backend.threads
    assert again.info.fingerprint == backend.info.fingerprint


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, x, d: b.verify(b.enroll(x, d), x, d, prior=0.5), "one utterance at a time"),
        (lambda b, x, d: b.verify(x, x[0], d[0], prior=0.5), "speaker: 24 values per row"),
        (lambda b, x, d: b.verify(b.enroll(x, d), x[0], None, prior=0.5), "durations: missing"),
        (lambda b, x, d: b.verify(b.enroll(x, d), x[0] * np.nan, 3, prior=0.5), "holds nan"),
        (lambda b, x, d: b.verify(b.enroll(x, d), x[0], -1, prior=0.5), "has -1 seconds"),
        (lambda b, x, d: b.verify(b.enroll(x, d), x[0], 3, prior=1.0), "prior"),
        (lambda b, x, d: b.verify(b.enroll(x, d), x[0], 3, prior=0.1, cost_fa=0), "cost of a"),
        (lambda b, x, d: b.enroll(np.sign(x) * 3e38, d), "embeddings: .* too large to be scored"),
        (
            lambda b, x, d: b.verify(b.enroll(x, d), np.sign(x[0]) * 3e38, 3, prior=0.1),
            "embedding: .* too large to be scored",
        ),
        (
            lambda b, x, d: b.verify(b.enroll(x[0], 3), np.sign(x[0]) * 3e38, 3, prior=0.1),
            "embedding: .* too large to be scored",
        ),
        (
            lambda b, x, d: b.enroll(x, d, multi_enroll="mean"),
            "expected one of auto, joint, scores, voiceprints",
        ),
        (lambda b, x, d: b.enroll(x[:, :5], d), "5 values per row, the model takes 24"),
        (lambda b, x, d: b.enroll(x[:0], d[:0]), "empty"),
    ],
)
def test_bad_calls_are_named(backend: Backend, call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(backend, *side(3))


def test_a_speaker_of_another_model_is_refused(backend: Backend, tmp_path: Path) -> None:
    export_model(random_model("d-plda-dsd", seed=5), tmp_path / "other")
    x, d = side(2)
    stranger = Backend.load(tmp_path / "other").enroll(x[0], d[0])
    with pytest.raises(InputError, match="another model"):
        backend.verify(stranger, x[1], d[1], prior=0.5)
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        with pytest.raises(InputError, match="'ann': enrolled with another model"):
            gallery.add("ann", stranger)
        with pytest.raises(InputError, match="probe: enrolled with another model"):
            gallery.search(stranger)
    # A speaker that says nothing of its model is taken as voiceprints are.
    backend.verify(Speaker(stranger.voiceprints), x[1], d[1], prior=0.5)


@pytest.mark.parametrize("llr", [-2000.0, -30.0, 0.0, 30.0, 2000.0])
def test_posterior_of_any_llr_is_that_of_the_arrays(llr: float) -> None:
    from dcaplda.runtime.decision import log_odds, posterior
    from dcaplda.runtime.verification import _sigmoid

    assert _sigmoid(llr + log_odds(0.01)) == pytest.approx(float(posterior(llr, 0.01)), rel=1e-12)


def test_threshold_is_equation_3() -> None:
    assert Backend.threshold(0.5) == 0.0
    assert Backend.threshold(0.01, 10, 1) == pytest.approx(np.log(0.1 * 99), abs=1e-12)


@pytest.mark.parametrize(
    "module",
    [
        dcaplda.runtime.backend,
        dcaplda.runtime.records.speaker,
        dcaplda.runtime.gallery.speakers,
        dcaplda.runtime.people.manager,
        dcaplda.runtime.people.diarized,
    ],
    ids=lambda module: module.__name__,
)
def test_examples_in_docstrings_run(module, backend: Backend, tmp_path: Path) -> None:
    """Ann is the one whom the random model finds most like herself."""
    x, d = side(200, 4)
    prints = backend.voiceprints(x, d)
    best = int(backend.compare_pairs(prints, prints).argmax())
    calls, seconds = np.repeat(x[best : best + 1], 3, axis=0), np.repeat(d[best], 3)
    path = tmp_path / "gallery.db"
    names = {
        "Backend": Backend,
        "Gallery": Gallery,
        "Speaker": Speaker,
        "np": np,
        "backend": backend,
        "calls": calls,
        "seconds": seconds,
        "call": calls[0],
        "ann": backend.enroll(calls, seconds),
        "path": path,
        "gallery": Gallery.open(tmp_path / "another.db", backend),
    }
    names["gallery"].add("ann", backend.enroll(calls, seconds, multi_enroll="voiceprints"))
    found = doctest.testmod(module, extraglobs=names)
    assert found.attempted > 0
    assert found.failed == 0


def test_import_takes_no_gallery_and_no_sqlite() -> None:
    """What a product does not use costs it nothing."""
    program = "import sys; import dcaplda.runtime; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
