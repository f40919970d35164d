import json
from pathlib import Path

import numpy as np
import pytest
from kaldi_files import random_vectors, write_scp
from random_models import DIM, random_model

from dcaplda.bin.enroll_speakers import main as enroll
from dcaplda.bin.score_trials import main as score
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.runtime.tables.vectors import read_vectors

pytestmark = pytest.mark.torch
MEMBERS = {"m1": ["u0", "u3", "u7"], "m2": ["u1"], "m3": ["u3", "u4"]}


class Case:
    """Tables and trials of models against utterances."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.folder, self.bundle = folder, str(bundle)
        self.vectors = random_vectors(10, DIM)
        self.scp = f"scp:{write_scp(folder, self.vectors)}"
        self.seconds = {key: 3.0 + 2 * row for row, key in enumerate(self.vectors)}
        (folder / "utt2dur").write_text("".join(f"{k} {s}\n" for k, s in self.seconds.items()))
        self.durations = f"--durations={folder}/utt2dur"
        lines = [f"{model} {' '.join(words)}\n" for model, words in MEMBERS.items()]
        (folder / "spk2utt").write_text("".join(lines))
        self.spk2utt = f"--spk2utt={folder}/spk2utt"
        self.trials = str(folder / "trials")
        Path(self.trials).write_text("".join(f"{m} u{t}\n" for m in MEMBERS for t in range(10)))
        self.prints = f"ark,scp:{folder}/vp.ark,{folder}/vp.scp"

    def scores(self, *options: str, table: str = "") -> np.ndarray:
        out = self.folder / "scores"
        table = table or self.scp
        arguments = [self.durations, *options, self.bundle, table, self.scp, self.trials, str(out)]
        assert score(arguments) == 0
        return np.array([float(line.split()[2]) for line in out.read_text().splitlines()])


@pytest.fixture
def case(tmp_path: Path, small_bundle: Path) -> Case:
    return Case(tmp_path, small_bundle)


def test_speakers_enrolled_once_score_as_averaged_inputs(case: Case, capfd) -> None:
    assert enroll([case.durations, case.spk2utt, case.bundle, case.scp, case.prints]) == 0
    found = case.scores("--enroll-voiceprints", table=f"scp:{case.folder}/vp.scp")
    expected = case.scores(case.spk2utt, "--multi-enroll=voiceprints")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert "cannot tell which model" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["vp.npz", "npy:vp/", "vp.h5", "vp.parquet"])
def test_voiceprints_of_any_format_carry_the_note_of_their_model(
    case: Case, capfd, name: str, monkeypatch
) -> None:
    expected = case.scores(case.spk2utt, "--multi-enroll=voiceprints")
    monkeypatch.chdir(case.folder)
    assert enroll([case.durations, case.spk2utt, case.bundle, case.scp, name]) == 0
    found = case.scores("--enroll-voiceprints", table=name)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert "cannot tell which model" not in capfd.readouterr().err
    (note,) = Path().glob("vp*.json")
    note.write_text('{"model_fingerprint": "another"}')
    arguments = [case.durations, "--enroll-voiceprints", case.bundle, name, case.scp, case.trials]
    assert score([*arguments, "out"]) == 1
    assert "voiceprints of another model" in capfd.readouterr().err


def test_utterances_enrolled_once_score_as_averaged_scores(case: Case) -> None:
    assert enroll([case.durations, case.bundle, case.scp, f"ark,t:{case.folder}/vp.txt"]) == 0
    table = f"ark,t:{case.folder}/vp.txt"
    found = case.scores("--enroll-voiceprints", case.spk2utt, table=table)
    np.testing.assert_allclose(found, case.scores(case.spk2utt), atol=1e-5)


def test_the_table_holds_what_the_runtime_computes(case: Case) -> None:
    assert enroll([case.durations, case.bundle, case.scp, case.prints]) == 0
    table = read_vectors(f"scp:{case.folder}/vp.scp")
    matrix = np.stack(list(case.vectors.values()))
    expected = Backend.load(case.bundle).voiceprints(matrix, list(case.seconds.values()))
    assert table.ids == list(case.vectors)
    np.testing.assert_allclose(table.matrix, expected, atol=1e-6)


def test_voiceprints_of_another_model_are_refused(case: Case, tmp_path: Path, capfd) -> None:
    other = tmp_path / "other"
    export_model(random_model("d-plda-dsd", seed=1), other)
    assert enroll([case.durations, str(other), case.scp, case.prints]) == 0
    arguments = ["--enroll-voiceprints", case.durations, case.bundle, f"scp:{tmp_path}/vp.scp"]
    Path(case.trials).write_text("u1 u2\n")
    assert score([*arguments, case.scp, case.trials, str(tmp_path / "s")]) == 1
    assert "voiceprints of another model" in capfd.readouterr().err
    assert not (tmp_path / "s").exists()


def test_voiceprints_of_unknown_origin_are_taken_with_a_warning(case: Case, capfd) -> None:
    assert enroll([case.durations, case.spk2utt, case.bundle, case.scp, case.prints]) == 0
    note = case.folder / "vp.ark.json"
    assert json.loads(note.read_text())["model_fingerprint"]
    note.unlink()
    case.scores("--enroll-voiceprints", table=f"ark:{case.folder}/vp.ark")
    assert "cannot tell which model made these voiceprints" in capfd.readouterr().err


def test_voiceprints_can_go_through_a_pipe(case: Case) -> None:
    target = f"ark:| gzip -c > {case.folder}/vp.gz"
    assert enroll([case.durations, case.spk2utt, case.bundle, case.scp, target]) == 0
    assert read_vectors(f"ark:{case.folder}/vp.gz").ids == list(MEMBERS)


def test_missing_utterances_are_an_error_or_left_out(case: Case, capfd) -> None:
    with (case.folder / "spk2utt").open("a") as stream:
        stream.write("m4 ghost\nm5 u2 spirit\n")
    arguments = [case.durations, case.spk2utt, case.bundle, case.scp, case.prints]
    assert enroll(arguments) == 1
    assert "'m4': not in 'scp:" in capfd.readouterr().err
    assert not (case.folder / "vp.ark").exists()
    assert enroll(["--allow-missing", *arguments]) == 0
    assert read_vectors(f"scp:{case.folder}/vp.scp").ids == [*MEMBERS, "m5"]
    errors = capfd.readouterr().err
    assert "'m5'" in errors and "'m4'" in errors


def test_a_missing_duration_is_an_error(case: Case, capfd) -> None:
    (case.folder / "utt2dur").write_text("u0 5\n")
    assert enroll([case.durations, case.bundle, case.scp, case.prints]) == 1
    assert "9 cannot be enrolled, the first is 'u1'" in capfd.readouterr().err
    assert enroll([case.bundle, case.scp, case.prints]) == 1
    assert "give --durations" in capfd.readouterr().err


@pytest.mark.parametrize("target", ["x", "scp:x", "ark,scp:x.gz,y", "ark:no/where/x"])
def test_bad_outputs(case: Case, capfd, monkeypatch, target: str) -> None:
    monkeypatch.chdir(case.folder)
    before = sorted(path.name for path in case.folder.iterdir())
    assert enroll([case.durations, case.bundle, case.scp, target]) == 1
    assert "ERROR" in capfd.readouterr().err
    assert sorted(path.name for path in case.folder.iterdir()) == before
