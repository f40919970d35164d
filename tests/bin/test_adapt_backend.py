"""adapt-backend: a bundle for a place; of a mistake one line, exit 1 and nothing written."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from joint_models import joint_bundle, place_pool, utterances
from kaldi_files import write_scp
from random_models import DIM

from dcaplda.bin.adapt_backend import main
from dcaplda.runtime import Backend
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.tables.vector_writer import write_vectors

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return joint_bundle(tmp_path_factory.mktemp("joint") / "bundle")


def table(folder: Path, rows: np.ndarray) -> str:
    vectors = {f"p{i}": np.asarray(row, np.float32) for i, row in enumerate(rows)}
    return f"scp:{write_scp(folder, vectors, 'pool')}"


def files(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its hash."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_it_writes_the_bundle_of_the_place(bundle: Path, tmp_path: Path, capsys) -> None:
    before = files(bundle)
    pool = place_pool(20)
    assert main([str(bundle), table(tmp_path, pool), str(tmp_path / "office")]) == 0
    assert files(bundle) == before
    office, parent = Backend.load(tmp_path / "office"), Backend.load(bundle)
    expected = adapted(parent.joint.scorer, pool)
    np.testing.assert_allclose(office.joint.scorer.centre, expected.centre, atol=1e-12)
    assert office.info.fingerprint == parent.adapted(pool).info.fingerprint
    log = capsys.readouterr().err
    assert f"adapted with 20 utterances, worth {expected.heard:.1f} people" in log
    assert f"{100 * expected.known:.0f} % of the place's offset is known" in log


def test_a_pool_may_have_any_format(bundle: Path, tmp_path: Path) -> None:
    pool = np.asarray(place_pool(20), np.float32)
    assert main([str(bundle), table(tmp_path, pool), str(tmp_path / "scp")]) == 0
    for name in ("pool.npz", "pool.h5"):
        write_vectors(f"{tmp_path}/{name}", [f"p{i}" for i in range(20)], pool)
        assert main([str(bundle), f"{tmp_path}/{name}", str(tmp_path / "other")]) == 0
        assert Backend.load(tmp_path / "other").info.fingerprint == (
            Backend.load(tmp_path / "scp").info.fingerprint
        )


def test_a_pool_that_tells_little_says_so_without_a_report(bundle, tmp_path: Path, capsys) -> None:
    assert main([str(bundle), table(tmp_path, place_pool(1)), str(tmp_path / "place")]) == 0
    assert "WARNING: Collect more" in capsys.readouterr().err


def test_durations_are_noted_in_the_manifest(bundle: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "utt2dur").write_text("".join(f"p{i} {i + 2}.5\n" for i in range(20)))
    given = [str(bundle), table(tmp_path, place_pool(20)), str(tmp_path / "office")]
    assert main([f"--durations={tmp_path / 'utt2dur'}", *given]) == 0
    told = Backend.load(tmp_path / "office").info.manifest["adaptation"]["seconds"]
    assert told == {"total": 240.0, "least": 2.5, "most": 21.5}
    assert "240 s of speech, 2.5 to 21.5 s per utterance" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("p0 3.0\np1 4.0\n", "1 of 3 utterances have no duration, the first is 'p2'"),
        ("p0 3.0\np1 0\np2 1.0\n", "'p1' has 0 seconds"),
    ],
)
def test_bad_durations_are_refused(bundle, tmp_path: Path, capsys, lines: str, words: str) -> None:
    (tmp_path / "utt2dur").write_text(lines)
    given = [str(bundle), table(tmp_path, place_pool(3)), str(tmp_path / "office")]
    refuse([f"--durations={tmp_path / 'utt2dur'}", *given], words, capsys)
    assert not (tmp_path / "office").exists()


def refuse(arguments: list[str], words: str, capsys) -> None:
    """Status 1, and one line of error, which is the last."""
    assert main(["--print-args=false", *arguments]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "ERROR" in line] == lines[-1:]
    assert words in lines[-1]


def with_nan() -> np.ndarray:
    pool = place_pool(6)
    pool[2, 5] = np.nan
    return pool


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (with_nan(), "'p2' holds nan"),
        (np.zeros((2, DIM)), "'p0' is all zero"),
        (place_pool(4)[:, :-1], "23 values"),
        (utterances(8, 1, people=1)[0], "the 8 utterances seem to be of one person"),
    ],
    ids=["nan", "zero", "size", "one person"],
)
def test_bad_pools(bundle: Path, tmp_path: Path, capsys, pool, words: str) -> None:
    given = table(tmp_path, pool)
    before = files(tmp_path)
    refuse([str(bundle), given, str(tmp_path / "office")], words, capsys)
    assert files(tmp_path) == before and not (tmp_path / "office").exists()


@pytest.mark.parametrize("name", ["scp:{}", "ark:{}"])
def test_an_empty_table(bundle: Path, tmp_path: Path, capsys, name: str) -> None:
    (tmp_path / "empty").write_bytes(b"")
    given = name.format(tmp_path / "empty")
    refuse([str(bundle), given, str(tmp_path / "office")], "", capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_table_that_is_not_there(bundle: Path, tmp_path: Path, capsys) -> None:
    refuse([str(bundle), "scp:nowhere.scp", str(tmp_path / "office")], "nowhere.scp", capsys)
    assert not list(tmp_path.iterdir())


def test_a_bundle_without_joint(small_bundle: Path, tmp_path: Path, capsys) -> None:
    given = table(tmp_path, place_pool(6))
    words = "(d-plda-dsd) cannot be adapted; train with model.joint = true"
    refuse([str(small_bundle), given, str(tmp_path / "office")], words, capsys)
    assert not (tmp_path / "office").exists()


def test_a_bundle_that_is_adapted_already(bundle: Path, tmp_path: Path, capsys) -> None:
    given = table(tmp_path, place_pool(6))
    assert main([str(bundle), given, str(tmp_path / "office")]) == 0
    before = files(tmp_path)
    refuse([str(tmp_path / "office"), given, str(tmp_path / "again")], "adapted already", capsys)
    assert files(tmp_path) == before and not (tmp_path / "again").exists()


def test_no_bundle(tmp_path: Path, capsys) -> None:
    given = table(tmp_path, place_pool(6))
    refuse([str(tmp_path), given, str(tmp_path / "office")], "has no model.json", capsys)
    assert not (tmp_path / "office").exists()


def test_a_target_that_is_no_bundle(bundle: Path, tmp_path: Path, capsys) -> None:
    given = table(tmp_path, place_pool(6))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("keep")
    before = files(tmp_path)
    refuse([str(bundle), given, str(tmp_path / "mine")], "not empty and not a bundle", capsys)
    refuse([str(bundle), given, str(tmp_path / "mine/notes")], "is a file", capsys)
    refuse([str(bundle), given, str(tmp_path / "mine/notes/deep")], "notes", capsys)
    assert files(tmp_path) == before


def test_the_bundle_itself_is_not_overwritten(bundle: Path, tmp_path: Path, capsys) -> None:
    """What is adapted cannot be adapted again, so its parent must stay."""
    before = files(bundle)
    given = table(tmp_path, place_pool(6))
    for same in (str(bundle), f"{bundle}/", f"{bundle}/../bundle"):
        refuse([str(bundle), given, same], "is the bundle to be adapted", capsys)
    assert files(bundle) == before


def test_usage(capsys) -> None:
    assert main(["a", "b"]) == 1
    assert "expected 3 arguments, found 2" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "<bundle-dir> <unlabelled-rspecifier> <adapted-bundle-dir>" in capsys.readouterr().out
