"""Inputs that cannot be right: the tools name the likely cause, and refuse them with --strict."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from golden import FULL, needs_full_golden
from joint_models import joint_torch_model, place_pool
from random_models import DIM, random_model, statistics

from dcaplda.bin.adapt_backend import main as adapt
from dcaplda.bin.enroll_speakers import main as enroll
from dcaplda.bin.score_trials import main as score
from dcaplda.bin.search_speakers import main as search
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.runtime.tables.text_tables import read_durations
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.runtime.tables.vectors import read_vectors

pytestmark = pytest.mark.torch

IDS = [f"u{i}" for i in range(60)]
REAL = FULL / "real"


def training_set(dim: int = DIM) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((4000, dim)).astype(np.float32)


class Inputs:
    """Embeddings and seconds as training had them, and what people make of them by mistake."""

    def __init__(self, folder: Path, ids: list[str], matrix: np.ndarray, seconds: np.ndarray):
        self.folder = folder
        tables = {
            "right": (matrix, seconds),
            "milliseconds": (matrix, np.round(seconds * 1000)),
            "frames": (matrix, np.round(seconds * 100)),
            "normalized": (matrix / np.linalg.norm(matrix, axis=1, keepdims=True), seconds),
        }
        for name, (vectors, times) in tables.items():
            write_vectors(f"{folder}/{name}.npz", ids, vectors.astype(np.float32))
            lines = (f"{key} {value:.10g}\n" for key, value in zip(ids, times, strict=True))
            (folder / f"{name}.dur").write_text("".join(lines))
        (folder / "trials").write_text("".join(f"{ids[0]} {name}\n" for name in ids[1:]))

    def run(self, tool: str, bundle: Path, name: str, *options: str) -> int:
        table, out = f"{self.folder}/{name}.npz", str(self.folder / "out")
        Path(out).unlink(missing_ok=True)
        given = [f"--durations={self.folder}/{name}.dur", *options, str(bundle)]
        arguments: dict[str, tuple[Callable[..., int], list[str]]] = {
            "score-trials": (score, [table, table, f"{self.folder}/trials", out]),
            "enroll-speakers": (enroll, [table, f"ark:{out}"]),
            "search-speakers": (search, [table, table, out]),
        }
        main, rest = arguments[tool]
        status = main([*given, *rest])
        assert Path(out).exists() == (status == 0)
        return status


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("b") / "bundle"
    model = random_model("d-plda-dsd")
    export_model(model, directory, statistics(model, training_set()))
    return directory


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Inputs:
    seconds = np.round(np.exp(np.random.default_rng(2).uniform(np.log(4), np.log(240), 60)), 2)
    return Inputs(tmp_path_factory.mktemp("in"), IDS, training_set()[:60], seconds)


CAUSES = {
    "milliseconds": "milliseconds.dur': {n} of {n} durations lie outside .* look like milliseconds",
    "frames": "frames.dur': .* durations lie outside .* they look like frames of 10 ms",
    "normalized": "normalized.npz': all {n} embeddings have length 1, .*: were they normalized?",
}


@pytest.mark.parametrize("tool", ["score-trials", "enroll-speakers", "search-speakers"])
@pytest.mark.parametrize("name", ["right", *CAUSES])
def test_mistakes_are_named_and_refused_with_strict(bundle, inputs, tool, name, capsys) -> None:
    assert inputs.run(tool, bundle, name) == 0
    usual = capsys.readouterr().err
    status = inputs.run(tool, bundle, name, "--strict")
    strict = capsys.readouterr().err
    if name == "right":
        assert status == 0 and "WARNING" not in usual + strict and "outside" not in usual
        return
    cause = CAUSES[name].format(n=60)
    assert re.search(f"{tool}: WARNING: .*{cause}", usual), usual
    assert status == 1 and re.search(f"{tool}: ERROR: --strict: .*{cause}", strict), strict
    assert strict.count("ERROR") == 1 and "Traceback" not in strict


def test_everything_wrong_is_said_at_once(bundle, inputs, capsys) -> None:
    given = [f"--durations={inputs.folder}/milliseconds.dur", "--strict", str(bundle)]
    tables = [f"{inputs.folder}/normalized.npz"] * 2
    assert score([*given, *tables, f"{inputs.folder}/trials", "-"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "were they normalized?" in last and "look like milliseconds" in last


def test_side_information_unlike_training_is_said(tmp_path, capsys) -> None:
    """Embeddings of usual lengths, on the other side of the origin than all of training."""
    away = 6.0 * np.random.default_rng(5).standard_normal(DIM)
    model = random_model("d-plda-dsd")
    export_model(model, tmp_path / "bundle", statistics(model, training_set() + away))
    inputs = Inputs(tmp_path, IDS, training_set()[:60] + away, np.full(60, 20.5))
    write_vectors(f"{tmp_path}/odd.npz", IDS, (training_set()[:60] - away).astype(np.float32))
    assert inputs.run("score-trials", tmp_path / "bundle", "right", "--strict") == 0
    capsys.readouterr()
    given = [f"--durations={tmp_path}/right.dur", str(tmp_path / "bundle"), f"{tmp_path}/odd.npz"]
    rest = [f"{tmp_path}/right.npz", f"{tmp_path}/trials", f"{tmp_path}/scores"]
    assert score([*given, *rest]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "WARNING" in line]
    assert "odd.npz': 1 of 1 utterances have side-information farther off" in line
    assert "another extractor" in line
    assert score(["--strict", *given, *rest]) == 1


def test_segments_that_count_as_short_are_nobodys_mistake(bundle, inputs, tmp_path, capsys) -> None:
    """--short=zero takes durations of nothing; they are not held against the table."""
    lines = (inputs.folder / "right.dur").read_text().splitlines()
    lines[1:20] = [f"{line.split()[0]} 0" for line in lines[1:20]]
    (tmp_path / "utt2dur").write_text("\n".join(lines) + "\n")
    given = [f"--durations={tmp_path}/utt2dur", "--strict", "--min-duration=1", "--short=zero"]
    tables = [f"{inputs.folder}/right.npz"] * 2
    rest = [str(bundle), *tables, f"{inputs.folder}/trials", f"{tmp_path}/out"]
    assert score([*given, *rest]) == 0, capsys.readouterr().err


def test_a_bundle_that_knows_nothing_says_so_and_cannot_be_strict(
    small_bundle, inputs, capsys
) -> None:
    for tool in ("score-trials", "enroll-speakers", "search-speakers"):
        assert inputs.run(tool, small_bundle, "normalized") == 0
        err = capsys.readouterr().err
        assert err.count("this bundle does not tell what training saw: inputs were not") == 1
        assert "all 60 embeddings have length 1; this bundle does not tell" in err
        assert "WARNING" not in err
        assert inputs.run(tool, small_bundle, "right", "--strict") == 1
        assert "--strict: this bundle does not tell" in capsys.readouterr().err
    assert inputs.run("score-trials", small_bundle, "milliseconds") == 0
    assert "are they frames or milliseconds?" in capsys.readouterr().err


def test_a_cohort_and_a_pool_are_looked_at_too(bundle, inputs, capsys) -> None:
    options = ["--score-norm=s", f"--cohort={inputs.folder}/normalized.npz"]
    options.append(f"--cohort-durations={inputs.folder}/right.dur")
    assert inputs.run("score-trials", bundle, "right", *options) == 0
    assert "normalized.npz': all 60 embeddings have length 1" in capsys.readouterr().err
    assert inputs.run("score-trials", bundle, "right", "--strict", *options) == 1


def test_adapt_backend_refuses_a_pool_that_was_normalized(tmp_path, capsys) -> None:
    model = joint_torch_model()
    export_model(model, tmp_path / "bundle", statistics(model, training_set()))
    pool = np.asarray(place_pool(30), np.float64)
    pool *= (np.linspace(4, 6, 30) / np.linalg.norm(pool, axis=1))[:, None]
    ids = IDS[:30]
    folder = Inputs(tmp_path, ids, pool, np.full(30, 20.5)).folder
    arguments = [str(tmp_path / "bundle"), f"{folder}/normalized.npz", str(tmp_path / "office")]
    assert adapt(["--strict", *arguments]) == 1
    assert "were they normalized?" in capsys.readouterr().err
    assert not (tmp_path / "office").exists()
    given = ["--strict", f"--durations={folder}/milliseconds.dur", arguments[0]]
    assert adapt([*given, f"{folder}/right.npz", arguments[2]]) == 1
    assert "look like milliseconds" in capsys.readouterr().err
    given[1] = f"--durations={folder}/right.dur"
    assert adapt([*given, f"{folder}/right.npz", arguments[2]]) == 0
    assert "WARNING: 'r" not in capsys.readouterr().err


@needs_full_golden
def test_real_corpora_that_training_did_not_see_pass(tmp_path, capsys) -> None:
    """Ranges of the real training set; two corpora unseen by it, right and with each mistake."""
    train = read_vectors(f"scp:{REAL}/train/xvector.scp", f"{REAL}/train")
    trained = list(read_durations(f"{REAL}/train/utt2dur").values())
    model = random_model("d-plda-dsd", embedding_dim=train.matrix.shape[1])
    told = statistics(model, train.matrix, (min(trained), max(trained)))
    export_model(model, tmp_path / "bundle", told)
    for corpus in ("dev_unseen", "dev_seen", "cohort_libri"):
        table = read_vectors(f"scp:{REAL}/{corpus}/xvector.scp", f"{REAL}/{corpus}")
        times = read_durations(f"{REAL}/{corpus}/utt2dur")
        (tmp_path / corpus).mkdir()
        seconds = np.array([times[name] for name in table.ids])
        inputs = Inputs(tmp_path / corpus, table.ids, table.matrix, seconds)
        assert inputs.run("score-trials", tmp_path / "bundle", "right", "--strict") == 0
        err = capsys.readouterr().err
        assert "WARNING" not in err, err
        for name, cause in CAUSES.items():
            assert inputs.run("score-trials", tmp_path / "bundle", name, "--strict") == 1
            assert re.search(cause.format(n=len(table.ids)), capsys.readouterr().err)


def test_utterances_from_elsewhere_are_counted_of_an_adapted_bundle(tmp_path, capsys) -> None:
    """Those of the place raise no word; those of another one a line, and status 1 with --strict."""
    model, bundle = joint_torch_model(), tmp_path / "parent"
    export_model(model, bundle, statistics(model, training_set()))
    pool = place_pool(40)
    write_vectors(f"{tmp_path}/pool.npz", [f"p{i}" for i in range(40)], pool)
    assert adapt([str(bundle), f"{tmp_path}/pool.npz", str(tmp_path / "office")]) == 0
    scorer = Backend.load(tmp_path / "office", threads=1).joint.scorer
    drawn = np.concatenate([place_pool(200, 50) - 2 * sign * pool.mean(axis=0) for sign in (0, 1)])
    inside = scorer.inside(drawn)
    for name, chosen in (("here", inside), ("there", ~inside)):
        vectors = drawn[chosen][: len(IDS)].astype(np.float64)
        vectors *= 4.9 / np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors *= np.linspace(0.9, 1.1, len(IDS))[:, None]
        folder = tmp_path / name
        folder.mkdir()
        inputs = Inputs(folder, IDS, vectors, np.full(len(IDS), 20.5))
        capsys.readouterr()
        assert inputs.run("score-trials", tmp_path / "office", "right") == 0
        said = capsys.readouterr().err
        line = "60 of 60 do not sound of the place that this bundle was adapted to"
        assert (line in said) == (name == "there")
        strict = inputs.run("score-trials", tmp_path / "office", "right", "--strict=true")
        assert (strict == 1 and line in capsys.readouterr().err) or name == "here"
        (folder / "utt2place").write_text("".join(f"{utterance} office\n" for utterance in IDS))
        told = f"--places={folder / 'utt2place'}", f"--place-bundles=office={tmp_path / 'office'}"
        line = "60 of 60 do not sound of place 'office' and are scored as of an unknown one: were"
        assert inputs.run("score-trials", bundle, "right", *told) == 0
        assert (line in capsys.readouterr().err) == (name == "there")
        strict = inputs.run("score-trials", bundle, "right", *told, "--strict=true")
        assert (strict == 1 and line in capsys.readouterr().err) or name == "here"
