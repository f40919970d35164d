"""The hash of an extractor from extractor.json through bundles to every tool that scores."""

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from kaldi_files import random_vectors, write_scp
from random_models import DIM, random_model

from dcaplda.bin.adapt_backend import main as adapt
from dcaplda.bin.enroll_speakers import main as enroll
from dcaplda.bin.score_trials import main as score
from dcaplda.bin.search_speakers import main as search
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, DcapldaError, Gallery
from dcaplda.runtime.extractors.note import note_beside, read_note

pytestmark = pytest.mark.torch
OURS, OTHER = "a" * 64, "b" * 64


def write_note(folder: Path, fingerprint: str, vad: str = "silero") -> Path:
    told = {"format": "dcaplda-extractor", "format_version": 1, "fingerprint": fingerprint}
    path = folder / "extractor.json"
    path.write_text(json.dumps({**told, "speech": {"name": vad}}))
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that says what it was trained with."""
    directory = tmp_path_factory.mktemp("known") / "bundle"
    told = read_note(str(write_note(directory.parent, OURS))).to_dict()
    export_model(random_model("d-plda-dsd"), directory, {"extractor": told})
    return directory


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that does not."""
    directory = tmp_path_factory.mktemp("unknown") / "bundle"
    export_model(random_model("d-plda-dsd"), directory)
    return directory


class Table:
    """Embeddings, durations and trials in a folder."""

    def __init__(self, folder: Path, fingerprint: str = "", vad: str = "silero") -> None:
        folder.mkdir()
        vectors = random_vectors(4, DIM)
        self.folder = folder
        self.scp = f"scp:{write_scp(folder, vectors)}"
        (folder / "utt2dur").write_text("".join(f"{name} 9\n" for name in vectors))
        (folder / "trials").write_text("u0 u1\nu2 u3\n")
        self.durations = f"--durations={folder}/utt2dur"
        if fingerprint:
            write_note(folder, fingerprint, vad)


def tools(bundle: Path, table: Table) -> dict[str, int]:
    """Status of every tool that takes embeddings."""
    out, options = table.folder / "out", [table.durations, str(bundle), table.scp]
    trials = [table.scp, str(table.folder / "trials"), str(out)]
    return {
        "score": score([*options, *trials]),
        "enroll": enroll([*options, f"ark:{out}.ark"]),
        "search": search([*options, table.scp, f"{out}.matches"]),
    }


@pytest.mark.parametrize(
    ("known", "note", "status", "words"),
    [
        (True, OURS, 0, ""),
        (True, OTHER, 1, "embeddings of extractor bbbbbbbbbbbb"),
        (True, "", 0, "nothing tells which extractor made these embeddings"),
        (False, OURS, 0, "the model does not tell with which it was trained"),
        (False, "", 0, ""),
    ],
)
def test_tools_refuse_another_extractor_and_warn_where_it_is_unknown(
    known: bool,
    note: str,
    status: int,
    words: str,
    bundle: Path,
    silent: Path,
    tmp_path: Path,
    capsys,
) -> None:
    found = tools(bundle if known else silent, Table(tmp_path / "data", note))
    assert set(found.values()) == {status}, found
    told = capsys.readouterr().err
    # Once per tool; with both sides unknown nothing can be said.
    assert told.count(words) >= 3 if words else ("extractor" not in told)
    assert ("WARNING" in told) == (status == 0 and bool(words))


def test_two_sides_of_two_extractors_are_refused_though_the_model_knows_none(
    silent: Path, tmp_path: Path, capsys
) -> None:
    one, two = Table(tmp_path / "one", OURS), Table(tmp_path / "two", OTHER)
    trials = str(one.folder / "trials")
    arguments = [one.durations, str(silent), one.scp, two.scp, trials, f"{tmp_path}/scores"]
    assert score(arguments) == 1
    assert "one/extractor.json is of aaaaaaaaaaaa" in capsys.readouterr().err


def test_another_speech_detection_is_worth_a_word(bundle: Path, tmp_path: Path, capsys) -> None:
    assert tools(bundle, Table(tmp_path / "data", OURS, "none"))["score"] == 0
    told = capsys.readouterr().err
    assert "speech was detected by none, in " in told and "/bundle/model.json by silero" in told


def test_adaptation_refuses_another_extractor(bundle: Path, tmp_path: Path, capsys) -> None:
    table = Table(tmp_path / "data", OTHER)
    assert adapt([str(bundle), table.scp, str(tmp_path / "adapted")]) == 1
    assert "embeddings of extractor bbbbbbbbbbbb" in capsys.readouterr().err


def test_a_note_is_found_beside_the_table_or_its_archive(tmp_path: Path) -> None:
    table = Table(tmp_path / "exp", OURS)
    assert note_beside(table.scp).fingerprint == OURS
    moved = tmp_path / "data"
    moved.mkdir()
    (moved / "xvector.scp").write_text(Path(table.scp.removeprefix("scp:")).read_text())
    assert note_beside(f"scp:{moved}/xvector.scp").fingerprint == OURS
    np.savez(table.folder / "x.npz", ids=["a"], vectors=np.ones((1, 3), np.float32))
    assert note_beside(f"{table.folder}/x.npz").fingerprint == OURS
    assert note_beside("scp:cat x.scp |") is None and note_beside("ark:-") is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "is not the note of an extractor"),
        ('{"format": "dcaplda-extractor", "format_version": 9}', "format version 9"),
        ('{"format": "dcaplda-extractor", "format_version": 1}', "has no fingerprint"),
    ],
)
def test_a_damaged_note_is_one_line(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "extractor.json").write_text(content)
    with pytest.raises(DcapldaError, match=words):
        read_note(str(tmp_path))


def test_a_backend_is_loaded_for_an_extractor(bundle: Path, silent: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backend = Backend.load(bundle, extractor=OURS)
        assert backend.extractor.fingerprint == OURS
        with pytest.raises(DcapldaError, match="is of aaaaaaaaaaaa"):
            Backend.load(bundle, extractor=OTHER)
        with pytest.raises(DcapldaError, match="expected an Extractor"):
            Backend.load(bundle, extractor=7)
    with pytest.warns(UserWarning, match="does not tell with which extractor"):
        told = Backend.load(silent, extractor=OTHER)
    again = pickle.loads(pickle.dumps(told))
    assert again.extractor == told.extractor and again.extractor.fingerprint == OTHER


def test_a_gallery_keeps_to_one_extractor(silent: Path, tmp_path: Path) -> None:
    path = tmp_path / "callers.db"
    with pytest.warns(UserWarning):
        ours, other = (Backend.load(silent, extractor=name) for name in (OURS, OTHER))
    with Gallery.open(path, ours) as gallery:
        gallery.add("ann", ours.enroll(np.ones(DIM), 9.0))
    with pytest.raises(DcapldaError, match="speakers of extractor aaaaaaaaaaaa, not of bbbb"):
        Gallery.open(path, other)
    # Who does not say is told by the gallery.
    unsaid = Backend.load(silent)
    with Gallery.open(path, unsaid) as gallery:
        assert len(gallery) == 1 and unsaid.extractor.fingerprint == OURS


def test_a_gallery_tells_search_speakers_what_it_holds(
    silent: Path, tmp_path: Path, capsys
) -> None:
    ours, other = Table(tmp_path / "ours", OURS), Table(tmp_path / "other", OTHER)
    database = f"{tmp_path}/callers.db"
    out = f"{tmp_path}/matches"
    kept = [ours.durations, f"--gallery-out={database}", str(silent), ours.scp, ours.scp, out]
    assert search(kept) == 0
    assert search([other.durations, str(silent), database, other.scp, out]) == 1
    assert "is of aaaaaaaaaaaa" in capsys.readouterr().err
