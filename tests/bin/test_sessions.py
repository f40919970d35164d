"""--sessions of the tools that enrol: one line for a mistake, and what the API gives."""

from pathlib import Path

import numpy as np
import pytest
from joint_models import joint_bundle, joint_torch_model, utterances
from kaldi_files import write_scp

from dcaplda.bin import enroll_speakers, score_trials, search_speakers
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.runtime.tables.vectors import read_vectors

pytestmark = pytest.mark.torch

NAMES = ["a1", "a2", "a3", "b1", "b2", "t1", "t2"]
SESSIONS = ["s1", "s1", "s2", "s1", "s2", "s9", "s9"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return joint_bundle(tmp_path_factory.mktemp("joint") / "bundle")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vectors, seconds = utterances(len(NAMES), 6)
    text = {
        "utt2dur": "".join(f"{n} {s}\n" for n, s in zip(NAMES, seconds, strict=True)),
        "utt2sess": "".join(f"{n} {s}\n" for n, s in zip(NAMES, SESSIONS, strict=True)),
        "few": "a1 s1\n",
        "spk2utt": "ann a1 a2 a3\nbob b1 b2\n",
        "trials": "ann t1\nbob t2\nann t2\nbob t1\n",
    }
    for name, content in text.items():
        (tmp_path / name).write_text(content)
    write_scp(tmp_path, dict(zip(NAMES, vectors, strict=True)), "all")
    return tmp_path


def told(folder: Path, *more: str) -> list[str]:
    return [f"--durations={folder}/utt2dur", f"--spk2utt={folder}/spk2utt", *more]


def test_all_three_tools_give_what_enroll_gives(bundle: Path, folder: Path) -> None:
    backend = Backend.load(bundle, threads=1)
    vectors, seconds = utterances(len(NAMES), 6)
    ann = backend.enroll(vectors[:3], seconds[:3], sessions=SESSIONS[:3])
    bob = backend.enroll(vectors[3:5], seconds[3:5], sessions=SESSIONS[3:5])
    tests = backend.voiceprints(vectors[5:], seconds[5:])
    expected = np.concatenate([backend.compare(ann, tests), backend.compare(bob, tests)])
    options = told(folder, f"--sessions={folder}/utt2sess")
    table, model = f"scp:{folder}/all.scp", str(bundle)
    scores = f"{folder}/scores"
    assert score_trials.main([*options, model, table, table, f"{folder}/trials", scores]) == 0
    llrs = [float(line.split()[2]) for line in (folder / "scores").read_text().splitlines()]
    np.testing.assert_allclose(
        llrs, [expected[k] for k in ((0, 0), (1, 1), (0, 1), (1, 0))], rtol=1e-5
    )
    assert enroll_speakers.main([*options, model, table, f"ark:{folder}/prints.ark"]) == 0
    made = read_vectors(f"ark:{folder}/prints.ark")
    np.testing.assert_allclose(made.matrix, np.concatenate([ann, bob]), rtol=1e-6)
    few = dict(zip(NAMES[5:], vectors[5:], strict=True))
    tested = f"scp:{write_scp(folder, few, 'tests')}"
    assert search_speakers.main([*options, model, table, tested, f"{folder}/found"]) == 0
    found = {tuple(line.split()[:2]): line.split()[2] for line in open(folder / "found")}
    assert float(found["t2", "ann"]) == pytest.approx(expected[0, 1], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--spk2utt="], "--sessions needs --spk2utt"),
        (["--multi-enroll=scores"], "counts in joint voiceprints; this model takes several"),
        (["--sessions={folder}/few"], "few': 'a2' has no session; add it"),
        (["--sessions={folder}/nofile"], "nofile"),
        (["--enroll-voiceprints"], "--sessions belongs to enroll-speakers"),
    ],
)
def test_mistakes_are_one_line_and_no_file(bundle, folder, capsys, options, message) -> None:
    given = told(
        folder, f"--sessions={folder}/utt2sess", *(o.format(folder=folder) for o in options)
    )
    table, target = f"scp:{folder}/all.scp", f"{folder}/scores"
    assert score_trials.main([*given, str(bundle), table, table, f"{folder}/trials", target]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (folder / "scores").exists()


def test_a_model_without_correlation_says_that_sessions_change_nothing(folder, capsys) -> None:
    export_model(joint_torch_model(correlation=0.0), folder / "plain")
    table = f"scp:{folder}/all.scp"
    for name, more in (("with", [f"--sessions={folder}/utt2sess"]), ("without", [])):
        arguments = [str(folder / "plain"), table, f"ark:{folder}/{name}.ark"]
        assert enroll_speakers.main([*told(folder, *more), *arguments]) == 0
        said = "changes nothing: this model was trained with init.sample_correlation = 0"
        assert (said in capsys.readouterr().err) == bool(more)
    with_them, without = (read_vectors(f"ark:{folder}/{n}.ark").matrix for n in ("with", "without"))
    np.testing.assert_array_equal(with_them, without)
