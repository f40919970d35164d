"""score-dense and cluster-utterances: Kaldi's layout byte by byte, names, RTTM, bad input."""

import struct

import numpy as np
import pytest
from joint_models import joint_bundle, utterances

from dcaplda.bin.cluster_utterances import main as cluster
from dcaplda.bin.score_dense import main as dense
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.tables.vector_writer import write_vectors

pytestmark = pytest.mark.torch

NAMES = [f"a-{k}" for k in range(7)] + [f"b-{k}" for k in range(5)]


@pytest.fixture
def case(tmp_path):
    embeddings, _ = utterances(12, 3, people=3)
    seconds = np.full(12, 10.0)  # the calibration of such a model by durations is random
    write_vectors(f"ark,scp:{tmp_path}/x.ark,{tmp_path}/x.scp", NAMES, embeddings)
    lines = zip(NAMES, seconds, strict=True)
    (tmp_path / "utt2dur").write_text("".join(f"{k} {s:.2f}\n" for k, s in lines))
    (tmp_path / "reco2utt").write_text(f"a {' '.join(NAMES[:7])}\nb {' '.join(NAMES[7:])}\n")
    spans = (f"{k} {k[0]} {2 * int(k[2:])}.5 {2 * int(k[2:]) + 2}\n" for k in NAMES)
    (tmp_path / "segments").write_text("".join(spans))
    joint_bundle(tmp_path / "bundle", calibrated=False)
    return tmp_path


def command(case, *options, out="out"):
    tables = [f"{case}/reco2utt", f"scp:{case}/x.scp", out]
    return [*options, f"--durations={case}/utt2dur", f"{case}/bundle", *tables]


def llrs_of(case, names):
    backend = Backend.load(case / "bundle")
    rows = {name: row for row, name in enumerate(NAMES)}
    embeddings = utterances(12, 3, people=3)[0][[rows[name] for name in names]]
    table = dict(line.split() for line in (case / "utt2dur").read_text().splitlines())
    seconds = np.array([float(table[name]) for name in names])
    return backend.score(embeddings, seconds, embeddings, seconds)


def test_matrices_have_kaldis_layout(case):
    """Key, blank, \\0B, `FM `, \\4 and a 32-bit number of rows, the same of columns, floats."""
    assert dense(command(case, out=f"ark:{case}/llrs.ark")) == 0
    data = (case / "llrs.ark").read_bytes()
    wanted = b""
    for key, names in (("a", NAMES[:7]), ("b", NAMES[7:])):
        start = len(wanted) + len(key) + 1 + 5 + 10
        n = len(names)
        found = np.frombuffer(data, "<f4", n * n, start).reshape(n, n)
        np.testing.assert_allclose(found, llrs_of(case, names), atol=1e-4)
        head = b"\0BFM " + b"\4" + struct.pack("<i", n) + b"\4" + struct.pack("<i", n)
        wanted += key.encode() + b" " + head + found.tobytes()
    assert data == wanted


def test_speakers_are_named_by_recording(case):
    assert cluster(command(case, "--num-speakers=3", out=f"{case}/utt2spk")) == 0
    found = dict(line.split() for line in (case / "utt2spk").read_text().splitlines())
    assert list(found) == NAMES
    assert [found[f"a-{k}"] for k in range(7)] == [f"a-{k % 3 + 1}" for k in range(7)]
    # utterance 7 is the second voice, 8 the third, 9 the first
    assert [found[f"b-{k}"] for k in range(5)] == ["b-1", "b-2", "b-3", "b-1", "b-2"]


def test_rttm_tells_when(case):
    options = [f"--segments={case}/segments", f"--rttm={case}/hyp.rttm", "--num-speakers=3"]
    assert cluster(command(case, *options, out=f"{case}/utt2spk")) == 0
    lines = (case / "hyp.rttm").read_text().splitlines()
    assert lines[0] == "SPEAKER a 1 0.500 1.500 <NA> <NA> a-1 <NA> <NA>"
    assert len(lines) == 12 and lines[7].startswith("SPEAKER b 1 0.500 1.500 <NA> <NA> b-1")


def test_times_are_of_the_recordings_that_segments_names(case):
    """Both recordings clustered as one: RTTM still tells where the time is counted."""
    (case / "reco2utt").write_text(f"all {' '.join(NAMES)}\n")
    options = [f"--segments={case}/segments", f"--rttm={case}/hyp.rttm", "--num-speakers=3"]
    assert cluster(command(case, *options, out=f"{case}/utt2spk")) == 0
    lines = [line.split() for line in (case / "hyp.rttm").read_text().splitlines()]
    assert [line[1] for line in lines] == ["a"] * 7 + ["b"] * 5
    assert {line[7] for line in lines} == {"all-1", "all-2", "all-3"}


def test_numbers_of_speakers_by_recording(case):
    (case / "counts").write_text("a 1\nb 5\n")
    options = f"--reco2num-spk={case}/counts"
    assert cluster(command(case, options, out=f"{case}/utt2spk")) == 0
    found = [line.split()[1] for line in (case / "utt2spk").read_text().splitlines()]
    assert set(found[:7]) == {"a-1"} and len(set(found[7:])) == 5


def test_people_of_several_recordings_get_one_name(case):
    options = ["--num-speakers=3", "--across-prior=0.999999999"]
    assert cluster(command(case, *options, out=f"{case}/utt2spk")) == 0
    found = [line.split()[1] for line in (case / "utt2spk").read_text().splitlines()]
    assert all(name.startswith("person-") for name in found)
    assert len(set(found)) < 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("reco2utt", "a a-0\nb a-0\n"), "'a-0' is in it twice"),
        (("reco2utt", "a a-0 nobody\n"), "1 utterances cannot be compared, the first is 'nobody'"),
        (("segments", "a-0 a -1 3\n"), "goes from -1 to 3 s"),
        (("segments", "a-0 a 0 3\n"), "'a-1' has no start and end"),
        (("counts", "a 2\n"), "'b': not in it; expected the number of its speakers"),
        (("counts", "a 2\nb 9\n"), "recording 'b': 9 speakers of 5 utterances"),
    ],
)
def test_bad_tables_are_one_line(case, capsys, change, words):
    name, text = change
    (case / name).write_text(text)
    options = {
        "segments": [f"--segments={case}/segments", f"--rttm={case}/hyp.rttm"],
        "counts": [f"--reco2num-spk={case}/counts"],
    }.get(name, [])
    assert cluster(command(case, *options, out=f"{case}/utt2spk")) == 1
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said
    assert not (case / "utt2spk").exists() and not (case / "hyp.rttm").exists()


@pytest.mark.parametrize(
    "option", ["--prior=0", "--prior=1", "--across-prior=1", "--link=ward", "--rttm=x"]
)
def test_odd_options_are_refused(case, capsys, option):
    assert cluster(command(case, option)) == 1
    assert option.split("=")[0] in capsys.readouterr().err
