"""The file of rows beside a gallery: used where it fits, made again where not, and erased."""

import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from random_models import DIM

from dcaplda.export import parity
from dcaplda.runtime import Backend
from dcaplda.runtime.gallery import side
from dcaplda.runtime.gallery.database.store import GalleryStore
from dcaplda.runtime.gallery.speakers import Gallery
from dcaplda.runtime.gallery.stored.layout import Kind
from dcaplda.runtime.gallery.stored.rows_file import open_rows

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(side, "LEAST", 100)


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=1)


@pytest.fixture(scope="module")
def prints(backend: Backend) -> np.ndarray:
    return backend.voiceprints(*parity.random_side(DIM, 700, 5))


def filled(path: Path, backend: Backend, prints: np.ndarray, **settings) -> None:
    """Closed again; those who open it next leave the file of rows."""
    with Gallery.open(path, backend, **settings) as gallery:
        gallery.add_many((f"s{i}", row) for i, row in enumerate(prints))
    with Gallery.open(path, backend):
        pass
    assert rows_path(path).exists()


def rows_path(path: Path) -> Path:
    return path.with_name(path.name + "-rows")


def reads_speakers(monkeypatch) -> list[int]:
    """How many speakers were read out of databases from now on, gallery by gallery."""
    read: list[int] = []
    real = GalleryStore.read_changes

    def counted(self, since, take):
        def noted(changes):
            read.append(0)

            def some():
                for rows in changes.speakers:
                    read[-1] += len(rows)
                    yield rows

            return take(changes._replace(speakers=some()))

        return real(self, since, noted)

    monkeypatch.setattr(GalleryStore, "read_changes", counted)
    return read


def told(path: Path, backend: Backend, probes: np.ndarray) -> tuple:
    with Gallery.open(path, backend) as gallery:
        return list(gallery), gallery.search_many(probes, 7)


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_a_gallery_opens_from_it_alone_and_is_the_same(
    backend, prints, tmp_path, monkeypatch, storage: str
) -> None:
    path = tmp_path / "g.db"
    filled(path, backend, prints[:500], storage=storage)
    read = reads_speakers(monkeypatch)
    with_file = told(path, backend, prints[500:520])
    assert read == [0]
    rows_path(path).unlink()
    assert told(path, backend, prints[500:520]) == with_file
    assert 500 in read


def test_speakers_of_several_voiceprints_and_odd_names(backend, prints, tmp_path) -> None:
    path = tmp_path / "g.db"
    names = [f"ünï{i}-\U0001f600" for i in range(150)]
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((name, prints[i : i + 1 + i % 4]) for i, name in enumerate(names))
    first, second = (told(path, backend, prints[500:520]) for _ in range(2))
    assert rows_path(path).exists()
    assert first == second
    assert second[0] == names


def test_news_are_read_from_the_database(backend, prints, tmp_path, monkeypatch) -> None:
    path = tmp_path / "g.db"
    filled(path, backend, prints[:500])
    with Gallery.open(path, backend) as gallery:
        gallery.remove("s3", "s499")
        gallery.add("new", prints[600])
        gallery.replace("s7", prints[601])
    read = reads_speakers(monkeypatch)
    with_file = told(path, backend, prints[595:605])
    assert read == [2]
    rows_path(path).unlink()
    assert told(path, backend, prints[595:605]) == with_file
    assert "s3" not in with_file[0] and "new" in with_file[0]


def test_who_is_removed_is_in_no_file(backend, prints, tmp_path) -> None:
    path = tmp_path / "g.db"
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((f"person{i}q", row) for i, row in enumerate(prints[:300]))
    with Gallery.open(path, backend) as gallery, Gallery.open(path, backend) as other:
        assert prints[17].tobytes() in rows_path(path).read_bytes()
        gallery.remove("person17q")
        content = rows_path(path).read_bytes()
        assert prints[17].tobytes() not in content and b"person17q" not in content
        assert prints[16].tobytes() in content and b"person18q" in content
        assert "person17q" not in list(other)
    assert "person17q" not in told(path, backend, prints[:1])[0]


def test_a_search_in_whose_middle_speakers_are_erased_is_made_again(
    backend, prints, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "g.db"
    filled(path, backend, prints[:300])
    with Gallery.open(path, backend) as gallery, Gallery.open(path, backend) as other:
        best = gallery.search(prints[400], 3)
        real, done = Backend.search_tile, []

        def interrupted(self, probe, rows):
            if not done:  # between the look at the database and the comparison
                done.append(other.remove(best[0].speaker))
            return real(self, probe, rows)

        monkeypatch.setattr(Backend, "search_tile", interrupted)
        found = gallery.search(prints[400], 2)
        assert done and [m.speaker for m in found] == [m.speaker for m in best[1:]]
        np.testing.assert_allclose([m.llr for m in found], [m.llr for m in best[1:]], rtol=1e-5)
        assert best[0].speaker not in list(gallery)


def test_removals_by_one_who_could_not_erase_are_made_up_for(
    backend, prints, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "g.db"
    filled(path, backend, prints[:300])
    with monkeypatch.context() as patched:
        patched.setattr(side.SideFile, "erase", lambda self, numbers: None)  # killed before it
        with Gallery.open(path, backend) as gallery:
            gallery.remove("s17")
    assert prints[17].tobytes() in rows_path(path).read_bytes()
    with Gallery.open(path, backend):
        assert prints[17].tobytes() not in rows_path(path).read_bytes()


@pytest.mark.parametrize("where", ["header", "rows", "tables", "ids", "cut"])
def test_a_damaged_file_is_not_used(backend, prints, tmp_path, where: str) -> None:
    path = tmp_path / "g.db"
    filled(path, backend, prints[:300])
    right = told(path, backend, prints[300:310])
    kind = Kind(backend.info.fingerprint, "float32", backend.info.voiceprint_dim)
    header = open_rows(rows_path(path), kind).header
    places = {
        "header": 30,
        "rows": 4096 + 200 * kind.row_bytes + 5,
        "tables": header.places()["numbers"][0] + 11,
        "ids": header.places()["ids"][0] + 100,
        "cut": -1,
    }
    content = bytearray(rows_path(path).read_bytes())
    content[places[where]] ^= 0x10
    rows_path(path).write_bytes(content[:-1] if where == "cut" else content)
    assert told(path, backend, prints[300:310]) == right
    # It was made again, and is good now.
    found = open_rows(rows_path(path), kind)
    assert not len(found.altered(0, len(found), found.rows))


def test_another_past_with_the_same_numbers_is_noticed(backend, prints, tmp_path) -> None:
    path, kept = tmp_path / "g.db", tmp_path / "kept.db"
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((f"s{i}", row) for i, row in enumerate(prints[:200]))
    shutil.copy(path, kept)
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((f"t{i}", row) for i, row in enumerate(prints[200:400]))
    told(path, backend, prints[:1])
    shutil.copy(kept, path)  # an old copy is restored, and other people come
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((f"t{i}", row) for i, row in enumerate(prints[400:600]))
    with Gallery.open(path, backend) as gallery:
        assert list(gallery)[250] == "t50"
        rows = np.concatenate([block.rows[: block.used] for block in gallery.blocks()])
        np.testing.assert_array_equal(rows[250], prints[450])


def test_it_may_be_read_by_those_who_may_read_the_gallery(backend, prints, tmp_path) -> None:
    path = tmp_path / "g.db"
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((f"s{i}", row) for i, row in enumerate(prints[:200]))
    os.chmod(path, 0o600)
    told(path, backend, prints[:1])
    assert stat.S_IMODE(rows_path(path).stat().st_mode) == 0o600


def test_a_gallery_works_where_it_cannot_be_written(backend, prints, tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "g.db"
    monkeypatch.setattr(side, "write_rows", full)
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((f"s{i}", row) for i, row in enumerate(prints[:200]))
    assert len(told(path, backend, prints[:1])[0]) == 200
    assert not rows_path(path).exists()
