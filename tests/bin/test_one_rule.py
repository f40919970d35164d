"""One range of seconds, one rule for ids, no LLR that is not finite: in every tool alike."""

import json
from pathlib import Path

import numpy as np
import pytest
from kaldi_files import binary_ark, random_vectors, text_ark, write_scp
from random_models import DIM

from dcaplda.bin.adapt_backend import main as adapt
from dcaplda.bin.calibrate_scores import main as calibrate
from dcaplda.bin.compute_durations import main as durations
from dcaplda.bin.copy_vectors import main as copy
from dcaplda.bin.enroll_speakers import main as enroll
from dcaplda.bin.eval_scores import main as evaluate
from dcaplda.bin.make_trials import main as make_trials
from dcaplda.bin.score_trials import main as score
from dcaplda.bin.search_speakers import main as search
from dcaplda.bin.train_backend import main as train
from dcaplda.runtime import Backend
from dcaplda.runtime.tables.vector_writer import write_vectors

pytestmark = pytest.mark.torch

RANGE = "expected from 0.001 to 10,000,000 seconds of speech"


def fails(main, capfd, *arguments: object) -> str:
    """Run a tool that has to fail; its one line."""
    capfd.readouterr()
    assert main([str(word) for word in arguments]) == 1
    errors = [line for line in capfd.readouterr().err.splitlines() if "ERROR" in line]
    assert len(errors) == 1, errors
    return errors[0]


@pytest.fixture
def table(tmp_path: Path) -> str:
    vectors = random_vectors(6, DIM)
    (tmp_path / "trials").write_text("".join(f"u0 u{i} target\n" for i in range(1, 6)))
    (tmp_path / "scores").write_text("".join(f"u0 u{i} {i}\n" for i in range(1, 6)))
    (tmp_path / "utt2spk").write_text("".join(f"u{i} s{i // 3}\n" for i in range(6)))
    return f"scp:{write_scp(tmp_path, vectors)}"


@pytest.mark.parametrize("value", ["1e-300", "0.0001", "1e300", "2e7", "-1"])
def test_one_range_of_seconds(small_bundle, table, tmp_path, capfd, value: str) -> None:
    lines = [f"u{i} 5\n" for i in range(5)] + [f"u5 {value}\n"]
    utt2dur = tmp_path / "utt2dur"
    utt2dur.write_text("".join(lines))
    told = f"'u5' has {float(value):g} seconds"
    out, given = tmp_path / "out", f"--durations={utt2dur}"
    trials, scores = tmp_path / "trials", tmp_path / "scores"
    for line in (
        fails(score, capfd, given, small_bundle, table, table, trials, out),
        fails(enroll, capfd, given, small_bundle, table, f"ark:{out}"),
        fails(search, capfd, given, small_bundle, table, table, out),
        fails(adapt, capfd, given, small_bundle, table, out),
        fails(evaluate, capfd, f"--utt2dur={utt2dur}", trials, scores),
        fails(train, capfd, tmp_path, table, tmp_path / "run"),
    ):
        assert told in line and RANGE in line and str(utt2dur) in line
    assert not out.exists()
    if float(value) > 1:
        line = fails(make_trials, capfd, "--min-seconds=1", tmp_path, out)
        assert told in line and RANGE in line


def test_compute_durations_writes_none_outside(tmp_path, capfd) -> None:
    (tmp_path / "segments").write_text("a rec 0 5\nb rec 1 1.00001\n")
    line = fails(durations, capfd, f"--segments={tmp_path}/segments", tmp_path / "out")
    assert "'b' has 1e-05 seconds" in line and RANGE in line
    (tmp_path / "frames").write_text("a 5\n")
    given = [f"--num-frames={tmp_path}/frames", "--frame-shift=1e300", tmp_path / "out"]
    assert RANGE in fails(durations, capfd, *given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["1e-9", "1e9", "-1"])
def test_the_least_duration_is_of_the_range(small_bundle, table, tmp_path, capfd, value) -> None:
    given = [f"--min-duration={value}", "--short=zero", small_bundle, table, table]
    assert RANGE in fails(score, capfd, *given, tmp_path / "trials", tmp_path / "out")


CONTROLS = [b"\0", b"\x0c", b"\x1b", b"\x7f", "\x85".encode(), b"\x01"]


@pytest.mark.parametrize("control", CONTROLS, ids=repr)
def test_no_table_takes_a_control_character(small_bundle, table, tmp_path, capfd, control) -> None:
    """In ids of trials, scores, durations, archives of text and of binary vectors."""
    name = b"u" + control + b"1"
    bad, out = tmp_path / "bad", tmp_path / "out"
    trials, scores = tmp_path / "trials", tmp_path / "scores"
    bad.write_bytes(trials.read_bytes() + b"u0 " + name + b" target\n")
    utt2dur = tmp_path / "utt2dur"
    utt2dur.write_text("".join(f"u{i} 5\n" for i in range(6)))
    given = f"--durations={utt2dur}"
    for line in (
        fails(score, capfd, given, small_bundle, table, table, bad, out),
        fails(evaluate, capfd, bad, scores),
    ):
        assert "bad' line 6: control character" in line
    bad.write_bytes(b"enroll test label\nu0 u1 target\nu0 " + name + b" target\n")
    for line in (
        fails(score, capfd, "--header", given, small_bundle, table, table, bad, out),
        fails(evaluate, capfd, "--header", bad, scores),
    ):
        assert "bad' line 3: control character" in line
    bad.write_bytes(scores.read_bytes() + b"u0 " + name + b" 1.5\n")
    assert "bad' line 6: control character" in fails(evaluate, capfd, trials, bad)
    apply = f"--apply={tmp_path}/c.json"
    (tmp_path / "c.json").write_text(
        '{"format": "dcaplda-calibration", "alpha": 1, "beta": 0, "prior": 0.5, "n_target": 1, '
        '"n_nontarget": 1, "cllr": 0}'
    )
    assert "control character" in fails(calibrate, capfd, apply, bad, out)
    bad.write_bytes(name + b" 5\n")
    line = fails(score, capfd, f"--durations={bad}", small_bundle, table, table, trials, out)
    assert "control character" in line
    vector = np.ones(3, np.float32)
    bad.write_bytes(binary_ark({"a": vector}) + name + binary_ark({"": vector}))
    assert "bad'" in fails(copy, capfd, f"ark:{bad}", f"ark:{out}")
    bad.write_bytes(text_ark({"a": vector}).replace(b"1 1", b"1" + control + b"1"))
    assert "bad'" in fails(copy, capfd, f"ark:{bad}", f"ark:{out}")
    bad.write_bytes(text_ark({"a": vector}).replace(b"1 1", b"1 " + control + b"1"))
    assert "bad'" in fails(copy, capfd, f"ark:{bad}", f"ark:{out}")
    assert not out.exists()


@pytest.mark.parametrize("name", ["ä", "名前", "a\u00a0b", "\u2028", "«x»"])
def test_letters_of_any_script_are_fine(small_bundle, tmp_path, name: str) -> None:
    """Also those whose UTF-8 begins like that of a control character."""
    vectors = dict(zip(["u0", name], random_vectors(2, DIM).values(), strict=True))
    table = f"scp:{write_scp(tmp_path, vectors)}"
    (tmp_path / "utt2dur").write_text(f"u0 5\n{name} 6\n")
    (tmp_path / "trials").write_text(f"u0 {name} target\n{name} u0 nontarget\n")
    scores = tmp_path / "scores"
    given = [f"--durations={tmp_path}/utt2dur", str(small_bundle), table, table]
    assert score([*given, f"{tmp_path}/trials", str(scores)]) == 0
    assert [line.split(" ")[:2] for line in scores.read_text().split("\n")[:-1]] == [
        ["u0", name],
        [name, "u0"],
    ]
    assert evaluate([f"{tmp_path}/trials", str(scores)]) == 0


@pytest.mark.parametrize("factor", [1e14, 1e30, 2.0])
def test_voiceprints_that_are_none_are_not_scored(
    small_bundle, table, tmp_path, capfd, factor: float
) -> None:
    """They once gave -inf and exit 0, or two LLRs of one pair."""
    backend = Backend.load(small_bundle)
    names = [f"u{i}" for i in range(6)]
    made = backend.voiceprints(np.stack(list(random_vectors(6, DIM).values())), np.full(6, 5.0))
    made[3] *= np.float32(factor)
    write_vectors(f"ark:{tmp_path}/vp", names, made)
    (tmp_path / "utt2dur").write_text("".join(f"u{i} 5\n" for i in range(6)))
    (tmp_path / "trials").write_text("".join(f"u{i} u0\n" for i in range(6)))
    given = [f"--durations={tmp_path}/utt2dur", "--enroll-voiceprints", small_bundle]
    tables = [f"ark:{tmp_path}/vp", table]
    for main, rest in (
        (score, [tmp_path / "trials", tmp_path / "out"]),
        (search, [tmp_path / "out"]),
    ):
        line = fails(main, capfd, *given, *tables, *rest)
        assert "vp': 'u3' " in line and ("has length" in line or "no voiceprint of this" in line)
    assert not (tmp_path / "out").exists()


def test_a_score_that_is_not_finite_is_not_calibrated(tmp_path, capfd) -> None:
    saved = tmp_path / "c.json"
    told = {"format": "dcaplda-calibration", "prior": 0.5, "n_target": 1, "n_nontarget": 1}
    for alpha, line, words in (
        (2.0, "a b -inf\n", "'a' 'b' has the score -inf, whose LLR would be -inf"),
        (2.0, "a b 1e300\n", "whose LLR would be inf"),
    ):
        saved.write_text(json.dumps({**told, "alpha": alpha, "beta": 0.0, "cllr": 0.1}))
        (tmp_path / "scores").write_text("a a 1.5\n" + line)
        found = fails(calibrate, capfd, f"--apply={saved}", tmp_path / "scores", tmp_path / "out")
        assert words in found
    saved.write_text(json.dumps({**told, "alpha": 10**400, "beta": 0.0, "cllr": 0.1}))
    given = [f"--apply={saved}", tmp_path / "scores", tmp_path / "out"]
    assert "expected a number; fit the calibration again" in fails(calibrate, capfd, *given)
    assert not (tmp_path / "out").exists()


def test_a_score_file_never_holds_what_is_not_finite(tmp_path) -> None:
    from dcaplda.runtime import InputError
    from dcaplda.runtime.trials.lists import Trials
    from dcaplda.runtime.trials.score_file import write_scores

    index = np.zeros(3, np.int32), np.array([0, 1, 0], np.int32)
    trials = Trials("t", ["e"], ["a", "b"], *index)
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match=f"'e' 'b' has the score {value}"):
            write_scores(f"{tmp_path}/out", trials, np.array([1, value, 2], np.float32))
    assert not (tmp_path / "out").exists()
