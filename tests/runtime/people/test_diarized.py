"""Names for diarized speakers: the assignment against scipy, the script on RTTM."""

import json
import runpy
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_models import utterances
from scipy.optimize import linear_sum_assignment

from dcaplda.runtime import Backend, Gallery, InputError, SpeakerManager, name_speakers
from dcaplda.runtime.people.assignment import best_assignment
from dcaplda.runtime.values import as_word

pytestmark = pytest.mark.torch
SCRIPT = Path(__file__).parents[3] / "examples/diarization/name_speakers.py"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 6), st.integers(0, 8), st.integers(0, 2**32 - 1))
def test_the_assignment_is_the_best_there_is(rows: int, columns: int, seed: int) -> None:
    """Sums of gains as scipy's, with a free place for each row; infinities are never taken."""
    rng = np.random.default_rng(seed)
    gains = np.round(rng.normal(0, 2, (rows, columns)), int(rng.integers(0, 3)))
    gains[rng.random(gains.shape) < 0.2] = -np.inf
    found = best_assignment(gains)
    taken = [column for column in found if column is not None]
    assert len(set(taken)) == len(taken) and len(found) == rows
    total = sum(gains[row, column] for row, column in enumerate(found) if column is not None)
    free = np.concatenate([np.where(np.isinf(gains), -1e9, gains), np.zeros((rows, rows))], axis=1)
    best = free[linear_sum_assignment(free, maximize=True)].sum()
    assert total == pytest.approx(best, abs=1e-9)


@pytest.fixture
def world(small_bundle, tmp_path):
    """A gallery of four, and three utterances of each of six people."""
    backend = Backend.load(small_bundle)
    x, seconds = utterances(18, 5, people=6)
    gallery = Gallery.open(tmp_path / "g.db", backend)
    gallery.add_many((f"p{i}", backend.enroll(x[i], seconds[i])) for i in range(4))
    return backend, gallery, x, seconds


def gains_of(world, labels: dict, prior: float) -> np.ndarray:
    backend, gallery, *_ = world
    llrs = [
        [backend.verify(gallery.get(name), x, s, prior=0.5).llr for name in gallery]
        for x, s in labels.values()
    ]
    return np.array(llrs) + np.log(prior / len(gallery) / (1 - prior))


def test_names_are_the_best_assignment_and_used_once(world) -> None:
    """Two labels of one voice: one of them takes the name, by scipy on LLRs of verify."""
    _, gallery, x, seconds = world
    rows = {"A": 6, "B": 12, "C": 7, "D": 10}
    labels = {label: (x[row], float(seconds[row])) for label, row in rows.items()}
    for prior in (0.01, 0.5, 0.99):
        gains = gains_of(world, labels, prior)
        free = np.concatenate([gains, np.zeros((4, 4))], axis=1)
        chosen = linear_sum_assignment(free, maximize=True)[1]
        expected = [f"p{i}" if i < 4 else None for i in chosen]
        found = name_speakers(gallery, labels, prior=prior)
        assert [it.speaker for it in found.values()] == expected
        names = [it.speaker for it in found.values() if it.speaker]
        assert len(set(names)) == len(names)
        for row, it in enumerate(found.values()):
            best = gains[row].max() if it.speaker is None else gains[row, int(it.speaker[1])]
            llr = best - np.log(prior / 4 / (1 - prior))
            assert it.llr == pytest.approx(llr, abs=1e-3)


def test_names_with_blanks_are_names_and_one_word_in_tables(world) -> None:
    """RTTM takes one word; its blanks and per cents are those of the web's addresses."""
    backend, gallery, x, seconds = world
    SpeakerManager(backend, gallery).add("Dr. Eve 100%", x[4], seconds[4])
    assert list(gallery)[-1] == "Dr. Eve 100%"
    named = name_speakers(gallery, {"A": (x[4], float(seconds[4]))}, prior=1 - 1e-9)
    best = gallery.search(backend.enroll(x[4], seconds[4]), 1)[0].speaker
    assert named["A"].speaker == best
    assert as_word("Dr. Eve 100%") == "Dr.%20Eve%20100%25"
    assert unquote(as_word("Dr. Eve 100%")) == "Dr. Eve 100%"


def test_an_empty_gallery_and_no_labels(small_bundle, tmp_path, world) -> None:
    backend, gallery, x, _ = world
    with Gallery.open(tmp_path / "empty.db", backend) as empty:
        named = name_speakers(empty, {"A": (x[0], 3.0)}, prior=0.5)
    assert named["A"].speaker is None and named["A"].llr == -np.inf
    assert name_speakers(gallery, {}, prior=0.5) == {}


def script(monkeypatch, *words) -> int:
    monkeypatch.setattr(sys, "argv", ["name_speakers.py", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return int(ended.value.code or 0)


@pytest.mark.parametrize("form", ["npz", "json"])
def test_the_script_writes_rttm_with_names(
    world, tmp_path, monkeypatch, small_bundle, form
) -> None:
    _, gallery, x, seconds = world
    turns = [
        "SPEAKER m 1 0.000 {:.3f} <NA> <NA> S0 <NA> <NA>",
        ";; a note",
        "SPEAKER m 1 50.5 2 <NA> <NA> S1",
    ]
    (tmp_path / "m.rttm").write_text("\n".join(turns).format(seconds[6]) + "\n")
    labels = {"S0": x[6], "S1": x[10]}
    if form == "npz":
        np.savez(tmp_path / "m.npz", **labels)
    else:
        (tmp_path / "m.json").write_text(json.dumps({k: v.tolist() for k, v in labels.items()}))
    heard = {"S0": (x[6], round(float(seconds[6]), 3)), "S1": (x[10], 2.0)}
    expected = {k: v.speaker or k for k, v in name_speakers(gallery, heard, prior=0.9).items()}
    words = [small_bundle, tmp_path / "g.db", tmp_path / "m.rttm", tmp_path / f"m.{form}"]
    assert script(monkeypatch, *words, tmp_path / "out", "--prior=0.9") == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[1] == f"SPEAKER m 1 50.500 2.000 <NA> <NA> {expected['S1']} <NA> <NA>"
    assert lines[0].split()[7] == expected["S0"] and len(lines) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "SPEAKER m 1 -0.5 2 <NA> <NA> S0",
            "line 1: expected a start of 0 s or later, found '-0.5'",
        ),
        ("SPEAKER m 1 0.5 -2 <NA> <NA> S0", "line 1: expected seconds above 0, found '-2'"),
        ("SPEAKER m 1 0.5 nan <NA> <NA> S0", "found 'nan'"),
        ("SPEAKER m 1 0.5 2", "5 words; a SPEAKER line of RTTM has 8"),
        ("SPKR-INFO m 1", "no SPEAKER line in it"),
        ("SPEAKER m 1 0.5 2 <NA> <NA> S9", "no embedding of 'm/S9'"),
        (
            "SPEAKER m 1 0.5 2 <NA> <NA> S0\nSPEAKER n 1 0.5 2 <NA> <NA> S0",
            "'S0' of which recording? Call it 'm/S0'",
        ),
    ],
)
def test_bad_rttm_is_one_line(
    world, tmp_path, monkeypatch, small_bundle, line, words, capsys
) -> None:
    (tmp_path / "m.rttm").write_text(line + "\n")
    np.savez(tmp_path / "m.npz", S0=world[2][6])
    files = [small_bundle, tmp_path / "g.db", tmp_path / "m.rttm", tmp_path / "m.npz"]
    assert script(monkeypatch, *files, tmp_path / "out") == 1
    told = [text for text in capsys.readouterr().err.splitlines() if "ERROR" in text]
    assert len(told) == 1 and words in told[0]
    assert not (tmp_path / "out").exists()


def test_a_bad_embedding_is_told_by_its_label(world) -> None:
    _, gallery, x, seconds = world
    for bad, words in (
        (x[1] * np.nan, "speaker 'S1': embeddings: row 0 holds nan"),
        (x[1][:-1], "speaker 'S1': embeddings: "),
        (x[:2], "speaker 'S1': an array of 2 dimensions; expected one embedding"),
    ):
        with pytest.raises(InputError, match=words):
            name_speakers(gallery, {"S0": (x[0], 2.0), "S1": (bad, 2.0)}, prior=0.5)
