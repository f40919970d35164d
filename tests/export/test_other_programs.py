"""Files that meet the other program's own code, where it is installed (pip install --no-deps).

Only the one module is loaded: the packages import audio libraries that nothing here needs.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from dcaplda.export.exporters.equivalent import Equivalent
from dcaplda.export.exporters.targets import write_pyannote
from dcaplda.export.importers.diarizers import read_pyannote
from dcaplda.export.importers.kaldi_bundle import export_backend
from dcaplda.export.importers.speechbrain import read_speechbrain
from dcaplda.runtime import Backend
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda

pytestmark = pytest.mark.torch
DIM, RANK = 20, 8


def module_of(package: str, name: str):
    """One file of an installed package."""
    found = importlib.util.find_spec(package.split(".")[0])
    for place in [] if found is None else found.submodule_search_locations or []:
        path = Path(place, *package.split(".")[1:], name)
        if path.is_file():
            spec = importlib.util.spec_from_file_location(f"theirs_{path.stem}", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            return module
    pytest.skip(f"{package} is not installed: its own code cannot be asked")


def our_scores(backend, x: np.ndarray, folder: Path) -> np.ndarray:
    export_backend(backend, folder)
    bundle = Backend.load(folder)
    rows = bundle.voiceprints(x, None, extra={"num_utts": np.ones(len(x), np.float32)})
    return bundle.compare(rows, rows)


@pytest.fixture
def exported(rng, tmp_path) -> Path:
    """A PLDA as export-onnx writes it for pyannote."""
    transform = np.linalg.qr(rng.standard_normal((RANK, RANK)))[0] * rng.uniform(2, 4, (RANK, 1))
    plda = KaldiPlda(0.1 * rng.standard_normal(RANK), transform, np.linspace(6.0, 0.5, RANK))
    weight, mean = rng.standard_normal((RANK, DIM)), rng.standard_normal(DIM)
    write_pyannote(Equivalent(mean, weight, plda, 0.0, 0, 0), tmp_path)
    return tmp_path


def test_pyannotes_space_scores_as_our_import(exported, rng):
    """Two Gaussians on what its functions make of vectors; our bundle within 2e-4."""
    theirs = module_of("pyannote.audio", "utils/vbx.py")
    x = rng.standard_normal((12, DIM)).astype(np.float32)
    names = exported / "xvec_transform.npz", exported / "plda.npz"
    reduce, turn, psi = theirs.vbx_setup(*names)
    u = turn(reduce(x.astype(np.float64)))
    expected = np.zeros((12, 12))
    for axis, b in enumerate(psi):
        one, other = u[:, axis][:, None], u[:, axis][None, :]
        around, left = b / (1.0 + b) * one, 1.0 + b / (1.0 + b)
        expected += norm.logpdf(other, around, np.sqrt(left))
        expected -= norm.logpdf(other, 0.0, np.sqrt(1.0 + b))
    found = our_scores(read_pyannote(str(exported)), x, exported / "bundle")
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_pyannotes_vbx_is_ours_without_a_loop(exported, rng, monkeypatch):
    """Its shares have 1e-8 added, so 1e-6."""
    theirs = module_of("pyannote.audio", "utils/vbx.py")
    egs = Path(__file__).parents[2] / "egs" / "recordings" / "local"
    monkeypatch.syspath_prepend(egs)
    import vbx

    plda = vbx.read_plda(exported)
    x = plda.turned(plda.reduced(rng.standard_normal((30, DIM))))
    first = rng.integers(0, 4, 30)
    start = np.exp(vbx.SMOOTHING * np.eye(4)[first])
    start /= start.sum(axis=1, keepdims=True)
    for fa, fb in ((0.07, 0.8), (1.0, 1.0), (0.3, 17.0)):
        gamma, _, bounds = theirs.VBx(
            x, plda.phi, Fa=fa, Fb=fb, pi=4, gamma=start, maxIters=vbx.MOST_ROUNDS
        )
        found = vbx.vb_hmm(x, plda.phi, first, vbx.Settings(fa, fb, 0.0))
        np.testing.assert_allclose(found.posterior, gamma, atol=1e-6)
        np.testing.assert_allclose(found.bounds, np.ravel(bounds), atol=1e-4)


def test_speechbrains_plda_scores_as_our_import(rng, tmp_path):
    """A PLDA that it trained itself, its fast_PLDA_scoring, within 2e-4."""
    theirs = module_of("speechbrain", "processing/PLDA_LDA.py")

    def statistics(ids, people, x):
        nothing = np.array([None] * len(ids))
        return theirs.StatObject_SB(
            modelset=np.array(people, dtype="|O"),
            segset=np.array(ids, dtype="|O"),
            start=nothing,
            stop=nothing,
            stat0=np.ones((len(ids), 1)),
            stat1=x.astype(np.float64),
        )

    people = rng.standard_normal((40, DIM))
    who = np.repeat(np.arange(40), 6)
    x = people[who] + 0.5 * rng.standard_normal((240, DIM))
    plda = theirs.PLDA(rank_f=5, nb_iter=4)
    plda.plda(statistics([f"u{i}" for i in range(240)], [f"p{w:02d}" for w in who], x))
    np.savez(tmp_path / "plda.npz", mean=plda.mean, F=plda.F, Sigma=plda.Sigma)
    tests = (people[:9] + 0.5 * rng.standard_normal((9, DIM))).astype(np.float32)
    names = [f"t{i}" for i in range(9)]
    trials = theirs.Ndx()
    trials.modelset = trials.segset = np.array(names, dtype="|O")
    trials.trialmask = np.ones((9, 9), bool)
    sides = statistics(names, names, tests)
    expected = theirs.fast_PLDA_scoring(
        sides, sides, trials, plda.mean, plda.F, plda.Sigma, check_missing=False
    )
    found = our_scores(read_speechbrain(str(tmp_path / "plda.npz")), tests, tmp_path / "bundle")
    np.testing.assert_allclose(found, expected.scoremat, atol=2e-4)
