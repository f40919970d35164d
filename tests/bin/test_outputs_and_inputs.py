"""No tool replaces a file that it reads, whatever names the user mixed up."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from random_models import random_model

from dcaplda.bin.calibrate_scores import main as calibrate_scores
from dcaplda.bin.copy_vectors import main as copy_vectors
from dcaplda.bin.enroll_speakers import main as enroll_speakers
from dcaplda.bin.eval_scores import main as eval_scores
from dcaplda.bin.make_trials import main as make_trials
from dcaplda.bin.score_trials import main as score_trials
from dcaplda.bin.train_backend import main as train_backend
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.files import note_input, noting_inputs, replacing
from dcaplda.runtime.tables.vector_writer import write_vectors

pytestmark = pytest.mark.torch


@pytest.fixture
def case(tmp_path: Path, monkeypatch) -> Path:
    """A bundle, vectors, durations, trials and scores, in the working directory."""
    monkeypatch.chdir(tmp_path)
    ids = [f"u{number}" for number in range(6)]
    vectors = np.random.default_rng(0).standard_normal((6, 12)).astype(np.float32)
    export_model(random_model("plda-dd", embedding_dim=12), tmp_path / "model")
    write_vectors("ark,scp:x.ark,x.scp", ids, vectors)
    Path("utt2dur").write_text("".join(f"{name} 5.0\n" for name in ids))
    trials = [("u0", "u1", "target"), ("u2", "u3", "nontarget"), ("u4", "u5", "nontarget")]
    Path("trials").write_text("".join(" ".join(words) + "\n" for words in trials))
    lines = [
        f"{a} {b} {score}\n" for (a, b, _), score in zip(trials, (2.0, -1.0, 3.0), strict=True)
    ]
    Path("scores").write_text("".join(lines))
    os.link("utt2dur", "linked")
    return tmp_path


SCORE = ["--durations=utt2dur", "model", "scp:x.scp", "scp:x.scp", "trials"]
MIXED_UP = [
    (score_trials, [*SCORE, "trials"]),
    (score_trials, [*SCORE, "utt2dur"]),
    (score_trials, [*SCORE, "./trials"]),
    (score_trials, [*SCORE, "linked"]),
    (score_trials, [*SCORE, "x.scp"]),
    (score_trials, [*SCORE, "x.ark"]),  # behind the scp: known only once it is read
    (calibrate_scores, ["trials", "scores", "scores"]),
    (calibrate_scores, ["trials", "scores", "trials"]),
    (eval_scores, ["--json=scores", "trials", "scores"]),
    (eval_scores, ["--report=trials", "trials", "scores"]),
    (enroll_speakers, ["--durations=utt2dur", "model", "scp:x.scp", "ark:x.ark"]),
    (enroll_speakers, ["--durations=utt2dur", "model", "ark:x.ark", "ark,scp:y.ark,x.ark"]),
    (copy_vectors, ["scp:x.scp", "ark:x.ark"]),
]


@pytest.mark.parametrize(("tool", "arguments"), MIXED_UP)
def test_an_input_is_never_replaced(case: Path, capsys, tool, arguments: list[str]) -> None:
    before = {path.name: path.read_bytes() for path in case.iterdir() if path.is_file()}
    assert tool(arguments) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "ERROR" in said and "input" in said and "name another file" in said
    after = {path.name: path.read_bytes() for path in case.iterdir() if path.is_file()}
    assert after == before


def test_other_names_are_written_and_older_outputs_replaced(case: Path) -> None:
    Path("out").write_text("older")
    assert score_trials([*SCORE, "out"]) == 0
    assert len(Path("out").read_text().splitlines()) == 3
    assert score_trials([*SCORE, "out"]) == 0


@pytest.mark.parametrize("ending", ["npz", "h5", "parquet"])
def test_other_formats_are_inputs_too(case: Path, capsys, ending: str) -> None:
    assert copy_vectors(["scp:x.scp", f"x.{ending}"]) == 0
    before = Path(f"x.{ending}").read_bytes()
    os.link(f"x.{ending}", f"y.{ending}")
    assert copy_vectors([f"x.{ending}", f"y.{ending}"]) == 1
    assert "input" in capsys.readouterr().err
    assert Path(f"x.{ending}").read_bytes() == before


def test_a_program_may_write_what_it_has_read(tmp_path: Path) -> None:
    """Only tools note what they read; and only while they run."""
    place = tmp_path / "x"
    place.write_text("one")
    with noting_inputs():
        note_input(place.stat())
        with pytest.raises(UsageError, match="is an input"), replacing(place):
            raise AssertionError("not reached")
    note_input(place.stat())
    with replacing(place) as beside:
        beside.write_text("two")
    assert place.read_text() == "two"


def test_the_bundle_to_be_calibrated_stays(case: Path, capsys) -> None:
    before = Path("model/model.json").read_bytes()
    assert calibrate_scores(["--bundle=model", "trials", "scores", "./model"]) == 1
    assert "is the bundle to be calibrated" in capsys.readouterr().err
    assert Path("model/model.json").read_bytes() == before


def test_lists_that_came_with_the_data_stay(tmp_path: Path, capsys) -> None:
    data = tmp_path / "data"
    data.mkdir()
    lines = [
        (f"s{s}-{k}-{u}", f"s{s}", f"s{s}-{k}") for s in range(8) for k in range(3) for u in "ab"
    ]
    (data / "utt2spk").write_text("".join(f"{u} {s}\n" for u, s, _ in lines))
    (data / "utt2sess").write_text("".join(f"{u} {k}\n" for u, _, k in lines))
    assert make_trials([str(data), str(data)]) == 0, "lists may lie with the data"
    made = (data / "trials_single").read_text()
    assert make_trials(["--seed=2", str(data), str(data)]) == 1
    assert "trials_single" in capsys.readouterr().err.splitlines()[-1]
    assert (data / "trials_single").read_text() == made
    assert make_trials(["--seed=2", str(data), str(tmp_path / "out")]) == 0
    assert make_trials(["--seed=3", str(data), str(tmp_path / "out")]) == 0


def test_a_model_is_not_written_among_its_data(case: Path, capsys) -> None:
    assert train_backend([".", "scp:x.scp", str(case)]) == 1
    assert "is the data directory" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line_that_names_the_file(case: Path, capsys, monkeypatch) -> None:
    """Polars has errors of its own, which name no file."""
    import polars as pl

    def full(frame: pl.DataFrame, place: Path, **options) -> None:
        with open("/dev/full", "wb") as stream:
            shutil.copyfileobj(open("x.ark", "rb"), stream)

    def polars_says(frame: pl.DataFrame, place: Path, **options) -> None:
        raise pl.exceptions.ComputeError("No space left on device (os error 28)")

    for way in (full, polars_says):
        monkeypatch.setattr(pl.DataFrame, "write_parquet", way)
        assert copy_vectors(["scp:x.scp", "out.parquet"]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.endswith("out.parquet: the disk is full")
    assert not Path("out.parquet").exists()
