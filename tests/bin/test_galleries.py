"""export-gallery, import-gallery and migrate-gallery: there and back, and what they refuse."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from gallery_places import home_of
from joint_models import joint_bundle, utterances
from kaldi_files import write_scp

from dcaplda.bin import export_gallery, import_gallery, migrate_gallery, score_trials
from dcaplda.runtime import Backend
from dcaplda.runtime.gallery.speakers import Gallery
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_words
from dcaplda.runtime.tables.vectors import read_vectors

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def other_bundle(tmp_path_factory) -> Path:
    return joint_bundle(tmp_path_factory.mktemp("joint") / "bundle")


@pytest.fixture(params=["plain", "joint"])
def bundle(request, small_bundle: Path, other_bundle: Path) -> Path:
    return small_bundle if request.param == "plain" else other_bundle


def filled(path: Path | str, bundle: Path, keep: bool = True) -> Gallery:
    backend = Backend.load(bundle, threads=1)
    gallery = Gallery.open(path, backend, keep_embeddings=keep)
    for number in range(6):
        x, d = utterances(1 + number % 3, 100 + number)
        tags = {"tenant": "acme & sons"} if number % 2 else None
        gallery.add(f"s{number}", backend.enroll(x, d), source=f"call {number}", tags=tags)
    gallery.add_utterance("s1", *utterances(1, 7), source="späť")
    return gallery


def contents(gallery: Gallery) -> dict[str, tuple]:
    """All but the numbers of utterances, which each gallery gives itself."""
    found = {}
    for name in gallery:
        speaker = gallery.get(name)
        rows = [
            (it.seconds, it.length, it.time, it.source, it.session, it.voiceprint.tobytes(),
             None if it.embedding is None else it.embedding.tobytes())
            for it in gallery.utterances(name)
        ]  # fmt: skip
        found[name] = speaker.voiceprints.tobytes(), speaker.way, gallery.tags(name), rows
    return found


@pytest.mark.parametrize("kind", ["kaldi", "parquet"])
@pytest.mark.parametrize("keep", [True, False])
def test_there_and_back_is_bit_by_bit(bundle: Path, tmp_path: Path, kind: str, keep: bool) -> None:
    gallery = filled(tmp_path / "g.db", bundle, keep)
    folder = tmp_path / "tables"
    arguments = [f"--format={kind}", str(bundle), str(tmp_path / "g.db"), str(folder)]
    assert export_gallery.main(arguments) == 0
    shutil.move(folder, tmp_path / "moved")  # tables hold wherever they are
    options = ["--keep-embeddings"] if keep else []
    back = [*options, str(bundle), str(tmp_path / "moved"), str(tmp_path / "back.db")]
    assert import_gallery.main(back) == 0
    with Gallery.open(tmp_path / "back.db", gallery.backend, create=False) as found:
        assert list(found) == list(gallery)
        assert contents(found) == contents(gallery)
    gallery.close()


@pytest.mark.parametrize("kind", ["kaldi", "parquet"])
def test_names_with_blanks_are_one_word_in_tables(bundle: Path, tmp_path: Path, kind: str) -> None:
    """And names again in the gallery that is made of them; %20 itself is told from a blank."""
    with filled(tmp_path / "g.db", bundle) as gallery:
        gallery.rename("s2", "Ann Lee 100%")
        gallery.rename("s4", "Ann%20Lee%20100%25")
        names, before = list(gallery), contents(gallery)
    folder = tmp_path / "tables"
    arguments = [f"--format={kind}", str(bundle), str(tmp_path / "g.db"), str(folder)]
    assert export_gallery.main(arguments) == 0
    spk2utt = read_lists(str(folder / "spk2utt"))
    assert len(spk2utt) == 6 and "Ann%20Lee%20100%25" in spk2utt
    assert read_words(str(folder / "utt2spk")).keys() == {u for us in spk2utt.values() for u in us}
    back = ["--keep-embeddings", str(bundle), str(folder), str(tmp_path / "back.db")]
    assert import_gallery.main(back) == 0
    with Gallery.open(tmp_path / "back.db", Backend.load(bundle, threads=1), create=False) as found:
        assert list(found) == names
        assert contents(found) == before


def test_embeddings_that_are_left_out_are_told(bundle: Path, tmp_path: Path, capsys) -> None:
    filled(tmp_path / "g.db", bundle).close()
    folder = str(tmp_path / "tables")
    assert export_gallery.main([str(bundle), str(tmp_path / "g.db"), folder]) == 0
    for options, told in (([], True), (["--keep-embeddings"], False)):
        capsys.readouterr()
        back = [*options, str(bundle), folder, str(tmp_path / f"back{told}.db")]
        assert import_gallery.main(back) == 0
        assert ("--keep-embeddings keeps them" in capsys.readouterr().err) == told


def test_the_tables_are_kaldis(bundle: Path, tmp_path: Path) -> None:
    """And other tools take them: score-trials enrols the folder's speakers."""
    gallery = filled(tmp_path / "g.db", bundle)
    folder = tmp_path / "tables"
    assert export_gallery.main([str(bundle), str(tmp_path / "g.db"), str(folder)]) == 0
    utt2spk, spk2utt = read_words(str(folder / "utt2spk")), read_lists(str(folder / "spk2utt"))
    assert set(spk2utt) == set(gallery) and len(utt2spk) == 13
    lines = (folder / "utt2spk").read_bytes().splitlines()
    assert lines == sorted(lines)
    seconds = read_durations(str(folder / "utt2dur"))
    table = read_vectors(f"scp:{folder / 'embeddings.scp'}")
    for row, key in enumerate(table.ids):
        speaker, number = key.rsplit("-", 1)
        assert utt2spk[key] == speaker
        (it,) = [it for it in gallery.utterances(speaker) if it.number == int(number)]
        np.testing.assert_array_equal(table.matrix[row], it.embedding)
        assert seconds[key] == it.seconds
    trials = tmp_path / "trials"
    trials.write_text("".join(f"{name} {key}\n" for name in spk2utt for key in utt2spk))
    scp = f"scp:{folder / 'embeddings.scp'}"
    options = [f"--durations={folder / 'utt2dur'}", f"--spk2utt={folder / 'spk2utt'}"]
    scores = tmp_path / "scores"
    assert score_trials.main([*options, str(bundle), scp, scp, str(trials), str(scores)]) == 0
    for line in scores.read_text().splitlines():
        name, key, llr = line.split()
        owner, number = key.rsplit("-", 1)
        (it,) = [it for it in gallery.utterances(owner) if it.number == int(number)]
        truth = gallery.verify(name, it.embedding, it.seconds, prior=0.5).llr
        assert float(llr) == pytest.approx(truth, abs=1e-3, rel=1e-4)


def test_another_model_enrols_the_embeddings(small_bundle, other_bundle, tmp_path, capsys) -> None:
    gallery = filled(tmp_path / "g.db", small_bundle)
    folder = tmp_path / "tables"
    assert export_gallery.main([str(small_bundle), gallery.path, str(folder)]) == 0
    assert import_gallery.main([str(other_bundle), str(folder), str(tmp_path / "new.db")]) == 0
    other = Backend.load(other_bundle)
    with Gallery.open(tmp_path / "new.db", other, create=False) as found:
        for number in (0, 2, 3):
            expected = other.enroll(*utterances(1 + number % 3, 100 + number))
            np.testing.assert_array_equal(np.asarray(found.get(f"s{number}")), expected.voiceprints)
            assert found.utterances(f"s{number}")[0].source == f"call {number}"
    without = filled(tmp_path / "w.db", small_bundle, keep=False)
    assert export_gallery.main([str(small_bundle), without.path, str(tmp_path / "w")]) == 0
    assert import_gallery.main([str(other_bundle), str(tmp_path / "w"), str(tmp_path / "n")]) == 1
    assert "embeddings of 6 of 6 speakers are not in them" in capsys.readouterr().err
    assert not (tmp_path / "n").exists()


def test_anybodys_kaldi_tables_come_in(small_bundle, tmp_path, capsys) -> None:
    x, d = utterances(5, 3)
    names = [f"u{i}" for i in range(5)]
    write_scp(tmp_path, dict(zip(names, x, strict=True)))
    (tmp_path / "utt2spk").write_text("u0 ann\nu1 ann\nu2 bob\nu3 bob\nu4 eve\n")
    lines = [f"{name} {float(s)!r}\n" for name, s in zip(names, d, strict=True)]
    (tmp_path / "utt2dur").write_text("".join(lines))
    options = [f"--utt2spk={tmp_path}/utt2spk", f"--durations={tmp_path}/utt2dur"]
    arguments = [str(small_bundle), f"scp:{tmp_path}/x.scp", str(tmp_path / "g.db")]
    assert import_gallery.main([*options, *arguments]) == 0
    backend = Backend.load(small_bundle)
    with Gallery.open(tmp_path / "g.db", backend, create=False) as gallery:
        assert list(gallery) == ["ann", "bob", "eve"]
        expected = backend.enroll(x[2:4], d[2:4]).voiceprints
        np.testing.assert_array_equal(np.asarray(gallery.get("bob")), expected)
        assert gallery.utterances("bob")[1].source.endswith("x.scp u3")
    assert import_gallery.main([*options, *arguments]) == 1
    assert "'ann' is already there" in capsys.readouterr().err
    assert import_gallery.main([options[0], *arguments]) == 1
    assert "give --durations=utt2dur" in capsys.readouterr().err
    (tmp_path / "utt2spk").write_text("u0 ann\nu9 bob\n")
    assert import_gallery.main([*options, *arguments[:2], str(tmp_path / "n.db")]) == 1
    assert "'u9'" in capsys.readouterr().err and not (tmp_path / "n.db").exists()


def test_damaged_tables_are_one_line(small_bundle, tmp_path, capsys) -> None:
    gallery = filled(tmp_path / "g.db", small_bundle)
    folder = tmp_path / "tables"
    assert export_gallery.main([str(small_bundle), gallery.path, str(folder)]) == 0
    lines = (folder / "utterances.jsonl").read_text().splitlines()
    first = json.loads(lines[0])

    def edited(**changes: object) -> str:
        return "\n".join([json.dumps({**first, **changes}), *lines[1:]]) + "\n"

    for file, text, message in (
        ("utterances.jsonl", "\n".join(lines[1:]) + "\n", "'s0' has no utterance"),
        ("utterances.jsonl", "\n".join([*lines[:1], *lines[2:]]) + "\n", "some of its lines are"),
        ("utterances.jsonl", "x\n", "line 1: "),
        ("utterances.jsonl", edited(speaker="nobody"), "is of 'nobody', who is not in"),
        ("utterances.jsonl", edited(seconds=-1), "-1 seconds; expected from 0.001"),
        ("utterances.jsonl", edited(seconds="x"), "expected a number"),
        ("utterances.jsonl", edited(time="2026-01-01"), "is none with a zone"),
        ("utterances.jsonl", edited(utterance="other"), "'other' has no voiceprint"),
        ("speakers.jsonl", "", "is of 's0', who is not in"),
        ("gallery.json", "{}", "'format' is missing"),
        ("gallery.json", '{"format": "x"}', "is not of a gallery"),
    ):
        broken = tmp_path / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(folder, broken)
        (broken / file).write_text(text)
        target = tmp_path / "new.db"
        assert import_gallery.main([str(small_bundle), str(broken), str(target)]) == 1
        said = capsys.readouterr().err
        assert message in said and "Traceback" not in said, said
        assert not target.exists()
    assert export_gallery.main([str(small_bundle), gallery.path, str(folder)]) == 1
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_migrate_and_backup(kind, request, small_bundle, other_bundle, tmp_path, capsys) -> None:
    home = home_of(kind, request, tmp_path)
    gallery = filled(home.name("old"), small_bundle)
    copy = tmp_path / "copy.db"
    assert export_gallery.main([str(small_bundle), home.name("old"), str(copy)]) == 0
    with Gallery.open(copy, gallery.backend, create=False) as found:
        assert contents(found) == contents(gallery)
    bare = gallery.backend.enroll(*utterances(1, 1)).voiceprints
    gallery.add("bare", bare)
    arguments = [str(small_bundle), home.name("old"), str(other_bundle), home.name("new")]
    assert migrate_gallery.main(arguments) == 1
    assert "1 of 7 speakers cannot be taken over" in capsys.readouterr().err
    assert migrate_gallery.main(["--missing=leave", *arguments]) == 0
    said = capsys.readouterr().err
    assert "1 speakers must be enrolled again: 'bare'" in said and "migrated 6 speakers" in said
    with Gallery.open(home.name("new"), Backend.load(other_bundle), create=False) as found:
        assert list(found) == list(gallery)[:-1]
    assert migrate_gallery.main(arguments) == 1
    assert "is there already" in capsys.readouterr().err
    gallery.close()
