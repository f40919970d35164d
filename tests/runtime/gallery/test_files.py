"""Files of galleries: versions of before, what is left of the erased, copies."""

import multiprocessing
import shutil
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest
from child_tasks import add_speaker, listed
from joint_models import joint_bundle, place_pool, utterances
from random_models import DIM

from dcaplda.export import parity
from dcaplda.runtime import Backend, GalleryError
from dcaplda.runtime.gallery.database.sums import speaker_crc
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=1)


@pytest.fixture(scope="module")
def prints(backend: Backend) -> np.ndarray:
    return backend.voiceprints(*parity.random_side(DIM, 60, 7))


def old_gallery(path: Path, fingerprint: str, rows: dict[str, np.ndarray], version: int) -> None:
    """A file as versions 1 and 2 wrote it, statement by statement."""
    connection = sqlite3.connect(path, isolation_level=None)
    script = [
        "PRAGMA page_size = 16384",
        "BEGIN",
        "CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE speakers(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
        "warnings TEXT, voiceprints BLOB NOT NULL)",
        "CREATE TABLE removals(step INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL)",
        "INSERT INTO settings SELECT 'speakers', count(*) FROM speakers",
        "CREATE TRIGGER speaker_added AFTER INSERT ON speakers BEGIN UPDATE settings SET "
        "value = CAST(value AS INTEGER) + 1 WHERE name = 'speakers'; END",
        "CREATE TRIGGER speaker_removed AFTER DELETE ON speakers BEGIN UPDATE settings SET "
        "value = CAST(value AS INTEGER) - 1 WHERE name = 'speakers'; END",
        "CREATE TABLE sums(number INTEGER PRIMARY KEY, crc INTEGER NOT NULL)",
        "PRAGMA application_id = 1684234567",
    ]
    if version == 2:
        script.append("CREATE TABLE placed(number INTEGER PRIMARY KEY, place TEXT NOT NULL)")
    for statement in script:
        connection.execute(statement)
    settings = {"version": version, "fingerprint": fingerprint, "storage": "float32"}
    connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
    for number, (name, row) in enumerate(rows.items(), 1):
        query = "INSERT INTO speakers(id, voiceprints) VALUES (?, ?)"
        connection.execute(query, (name, row.tobytes()))
        crc = speaker_crc(number, name, row.tobytes(), "")
        connection.execute("INSERT INTO sums VALUES (?, ?)", (number, crc))
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


def version_of(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        query = "SELECT value FROM settings WHERE name = 'version'"
        return connection.execute(query).fetchone()[0]
    finally:
        connection.close()


@pytest.mark.parametrize("version", [1, 2])
def test_galleries_of_before_open_and_live_on(backend, prints, tmp_path, version) -> None:
    path = tmp_path / "g.db"
    rows = {"ann": prints[:2], "bob": prints[2:3], "eve": prints[3:4]}
    old_gallery(path, backend.info.fingerprint, rows, version)
    with Gallery.open(path, backend) as gallery:
        assert list(gallery) == list(rows)
        np.testing.assert_array_equal(np.asarray(gallery.get("ann")), rows["ann"])
        assert len(gallery.utterances("ann")) == 2 and gallery.tags("ann") == {}
        assert gallery.decisions() == [] and gallery.search(prints[9], tags={"a": "b"}) == []
        gallery.verify("ann", np.ones(DIM), 9.0, prior=0.5)
        assert version_of(path) == str(version), "whoever only reads leaves it as it is"
        gallery.add_utterance("ann", np.ones(DIM), 9.0, source="new")
        assert version_of(path) == "3"
        assert [it.source for it in gallery.utterances("ann")] == ["", "", "new"]
        gallery.remove_utterance("ann", gallery.utterances("ann")[-1].number)
        np.testing.assert_array_equal(np.asarray(gallery.get("ann")), rows["ann"])
    with Gallery.open(path, backend, create=False) as gallery:
        assert list(gallery) == ["bob", "eve", "ann"]
        gallery.tag("bob", {"tenant": "acme"})
        assert [it.speaker for it in gallery.search(prints[9], tags={"tenant": "acme"})] == ["bob"]


def test_an_upgrade_that_fails_leaves_the_old_one(backend, prints, tmp_path, monkeypatch) -> None:
    """In one transaction with the change that asked for it."""
    from dcaplda.runtime.gallery.database import tables

    path = tmp_path / "g.db"
    old_gallery(path, backend.info.fingerprint, {"ann": prints[:1]}, 1)
    with Gallery.open(path, backend) as gallery:

        def fail(*_: object) -> int:
            raise GalleryError("no")

        monkeypatch.setattr(tables.Tables, "_put", fail)
        with pytest.raises(GalleryError, match="no"):
            gallery.add("bob", prints[1])
        monkeypatch.undo()
        assert version_of(path) == "1" and list(gallery) == ["ann"]
        names = {
            name for (name,) in sqlite3.connect(path).execute("SELECT name FROM sqlite_schema")
        }
        assert "utterances" not in names
        gallery.add("bob", prints[1])
        assert version_of(path) == "3" and list(gallery) == ["ann", "bob"]


def test_a_gallery_of_a_later_version_is_refused(backend, tmp_path) -> None:
    Gallery.open(tmp_path / "g.db", backend).close()
    with sqlite3.connect(tmp_path / "g.db") as connection:
        connection.execute("UPDATE settings SET value = '4' WHERE name = 'version'")
    with pytest.raises(GalleryError, match=r"format version 4 is newer .*\(3\); upgrade dcaplda"):
        Gallery.open(tmp_path / "g.db", backend)


def pieces(rows: np.ndarray) -> list[bytes]:
    """What must be found nowhere: any 16 bytes of a vector would give it away."""
    data = rows.tobytes()
    return [data[begin : begin + 16] for begin in range(0, len(data) - 16, 16)]


def found_in(folder: Path, wanted: list[bytes]) -> list[str]:
    return [
        path.name
        for path in folder.iterdir()
        if any(piece in path.read_bytes() for piece in wanted)
    ]


@pytest.mark.parametrize("how", ["erase", "remove", "remove_utterance", "replace"])
def test_erased_vectors_are_nowhere_in_the_files(tmp_path, how) -> None:
    """Voiceprints and embeddings, in file and log, while the gallery is open by two."""
    backend = Backend.load(joint_bundle(tmp_path / "bundle"), threads=1)
    folder = tmp_path / "files"
    folder.mkdir()
    x, d = utterances(40, 3)
    gallery = Gallery.open(folder / "g.db", backend, keep_embeddings=True)
    reader = Gallery.open(folder / "g.db", backend)
    for number in range(30):
        gallery.add(f"s{number}", backend.enroll(x[number], d[number]))
    gallery.add("ann", backend.enroll(x[30:33], d[30:33]))
    gone = gallery.utterances("ann")[1 if how == "remove_utterance" else 0]
    speaker = gallery.get("ann")
    # The ones, zeros and counts that all voiceprints have in common are no secret.
    axes = backend.joint.layout.axes
    wanted = pieces(gone.voiceprint[:axes]) + pieces(gone.embedding)
    if how != "remove_utterance":
        wanted += pieces(speaker.voiceprints[0, :axes])
    reader.search(speaker if len(speaker.voiceprints) > 1 else backend.enroll(x[5], d[5]))
    assert found_in(folder, wanted) != []
    {
        "erase": lambda: gallery.erase("ann"),
        "remove": lambda: gallery.remove("ann"),
        "remove_utterance": lambda: gallery.remove_utterance("ann", gone.number),
        "replace": lambda: gallery.replace("ann", backend.enroll(x[35], d[35])),
    }[how]()
    assert found_in(folder, wanted) == []
    assert len(reader.search(backend.enroll(x[5], d[5]), 99)) == len(gallery)
    gallery.close()
    reader.close()
    assert found_in(folder, wanted) == []


def test_what_versions_of_before_left_in_free_pages_is_erased_too(
    backend, prints, tmp_path
) -> None:
    path = tmp_path / "files" / "g.db"
    path.parent.mkdir()
    rows = {f"s{i}": prints[i : i + 1] for i in range(50)}
    old_gallery(path, backend.info.fingerprint, rows, 1)
    connection = sqlite3.connect(path, isolation_level=None)  # as they removed
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute("DELETE FROM speakers WHERE number < 49")
    connection.execute("DELETE FROM sums WHERE number < 49")
    connection.close()
    wanted = pieces(prints[3:4, :20])
    assert found_in(path.parent, wanted) == ["g.db"]
    with Gallery.open(path, backend) as gallery:
        gallery.erase("s48")
        assert list(gallery) == ["s49"]
        assert found_in(path.parent, wanted + pieces(prints[48:49, :20])) == []


def test_erasing_waits_for_a_reader_and_says_if_that_is_too_long(
    backend, prints, tmp_path, monkeypatch
) -> None:
    from dcaplda.runtime.gallery.database import store

    gallery = Gallery.open(tmp_path / "g.db", backend)
    gallery.add_many([("ann", prints[0]), ("bob", prints[1]), ("eve", prints[2])])
    reader = sqlite3.connect(tmp_path / "g.db", isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM speakers").fetchall()
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.2)
    with pytest.raises(GalleryError, match="they are removed, but another process has been read"):
        gallery.erase("ann")
    assert list(gallery) == ["bob", "eve"]
    monkeypatch.setattr(store, "BUSY_SECONDS", 30.0)
    leave = threading.Timer(0.3, lambda: reader.execute("ROLLBACK"))
    leave.start()
    gallery.erase("bob")
    leave.join()
    wanted = pieces(prints[:2, :20])
    assert found_in(tmp_path, wanted) == []
    reader.close()


def test_a_copy_of_the_file_alone_is_whole_for_all_that_is_kept(backend, tmp_path) -> None:
    """`cp` of a gallery in use, without its log."""
    x, d = utterances(4, 3)
    gallery = Gallery.open(tmp_path / "g.db", backend, keep_embeddings=True, audit=True)
    gallery.add("ann", backend.enroll(x[:2], d[:2]), tags={"tenant": "acme"})
    gallery.add_utterance("ann", x[2], float(d[2]), source="late")
    gallery.verify("ann", x[3], float(d[3]), prior=0.5)
    shutil.copyfile(tmp_path / "g.db", tmp_path / "copy.db")
    with Gallery.open(tmp_path / "copy.db", backend, create=False) as copy:
        assert [it.source for it in copy.utterances("ann")] == ["", "", "late"]
        assert copy.tags("ann") == {"tenant": "acme"} and len(copy.decisions()) == 1


def test_a_process_that_copies_its_own_gallery_loses_no_change(
    backend, prints, small_bundle, tmp_path
) -> None:
    """Closing the copied file takes SQLite's locks away from the process: others, who take
    themselves for the last ones, remove the log under it."""
    path = tmp_path / "g.db"
    model, name = str(small_bundle), str(path)
    context = multiprocessing.get_context("spawn")
    with Gallery.open(path, backend) as gallery, Gallery.open(path, backend) as second:
        gallery.add("first", prints[0])
        assert list(second) == ["first"]
        shutil.copy(path, tmp_path / "copy.db")
        with context.Pool(1) as pool:
            assert pool.apply(listed, ((model, name),)) == ["first"]
            pool.apply(add_speaker, ((model, name, "theirs", prints[1]),))
            gallery.add("ours", prints[2])
            assert pool.apply(listed, ((model, name),)) == ["first", "theirs", "ours"]
            second.remove("first")
            assert pool.apply(listed, ((model, name),)) == ["theirs", "ours"]
        assert list(gallery) == list(second) == ["theirs", "ours"]
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_servers_of_another_kind_are_no_files(backend, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GalleryError, match="only postgresql:// is known") as caught:
        Gallery.open("mysql://voices:secret@db/voices", backend)
    assert "secret" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_a_bit_that_flipped_in_an_utterance_is_found(backend, tmp_path) -> None:
    x, d = utterances(2, 3)
    with Gallery.open(tmp_path / "g.db", backend, keep_embeddings=True) as gallery:
        gallery.add("ann", backend.enroll(x, d))
    content = bytearray((tmp_path / "g.db").read_bytes())
    content[bytes(content).index(x[1].tobytes()) + 5] ^= 1
    (tmp_path / "g.db").write_bytes(content)
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        with pytest.raises(GalleryError, match="utterance 2 of 'ann' is not as it was written"):
            gallery.utterances("ann")


def test_a_backup_is_refused_where_it_cannot_be(backend, tmp_path) -> None:
    gallery = Gallery.open(tmp_path / "g.db", backend)
    with pytest.raises(GalleryError, match="no folder"):
        gallery.backup(str(tmp_path / "nowhere" / "copy.db"))
    with pytest.raises(GalleryError, match="is there already"):
        gallery.backup(str(tmp_path / "g.db"))


def test_a_gallery_of_places_of_before_opens(tmp_path) -> None:
    """Version 2 with a speaker of a place."""
    parent = Backend.load(joint_bundle(tmp_path / "bundle"), threads=1)
    office = parent.adapted(place_pool(20, seed=50))
    ann, bob = office.enroll(*utterances(2, 1)), parent.enroll(*utterances(1, 2))
    path = tmp_path / "g.db"
    rows = {"ann": ann.voiceprints, "bob": bob.voiceprints}
    old_gallery(path, parent.info.fingerprint, rows, 2)
    with sqlite3.connect(path) as connection:
        fingerprint = office.info.fingerprint
        connection.execute("INSERT INTO placed VALUES (1, ?)", (fingerprint,))
        crc = speaker_crc(1, "ann", ann.voiceprints.tobytes(), fingerprint)
        connection.execute("UPDATE sums SET crc = ? WHERE number = 1", (crc,))
    with Gallery.open(path, parent, places={"office": office}) as gallery:
        (whole,) = gallery.utterances("ann")
        assert whole.count == 2
        gallery.add_utterance("ann", *utterances(1, 3))
        expected = office.add_utterances(ann, *utterances(1, 3))
        np.testing.assert_array_equal(np.asarray(gallery.get("ann")), expected.voiceprints)
