"""Codes of galleries on a server, and of galleries with speakers of several places."""

import os
from pathlib import Path

import numpy as np
import pytest
from coded_world import mild_bundle, people
from gallery_places import Home, home_of
from joint_models import utterances

from dcaplda.runtime import Backend, GalleryError
from dcaplda.runtime.gallery import coded_search, side
from dcaplda.runtime.gallery.memory import CodedMemory
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch
pytest.importorskip("faiss")

PEOPLE, PLACED = 1200, 30


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(side, "LEAST_CODED", 100)
    monkeypatch.setattr(side, "TAIL", 100)
    monkeypatch.setattr(coded_search, "CANDIDATES", 60)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Backend, first utterances, second utterances."""
    backend = mild_bundle(tmp_path_factory.mktemp("b") / "m")
    return backend, *people(backend, PEOPLE)


@pytest.fixture
def home(request, tmp_path: Path) -> Home:
    return home_of("postgres", request, tmp_path)


def by_codes(address: str, backend: Backend, folder: Path, **settings) -> Gallery:
    gallery = Gallery.open(f"{address}&files={folder}", backend, index="codes", **settings)
    assert isinstance(gallery._mirror.now(), CodedMemory)
    return gallery


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


def made(folder: Path) -> dict[str, int]:
    """Files of rows and codes, and when they were written."""
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("*-*")}


def test_a_server_is_searched_by_codes(world, home, tmp_path) -> None:
    backend, first, second = world
    exact = home.open(backend)
    exact.add_many((f"s{i}", row) for i, row in enumerate(first[:-1]))
    address, folder = home.name("callers"), tmp_path / "files"
    with by_codes(address, backend, folder) as gallery:
        right = exact.search_many(second[:300], 5)
        quick = gallery.search_many(second[:300], 5)
        clear = [a[0].llr > np.log(PEOPLE) for a in right]
        assert sum(clear) > 100
        for a, b, is_clear in zip(right, quick, clear, strict=True):
            if is_clear:
                assert a[0].speaker == b[0].speaker
                assert b[0].llr == pytest.approx(a[0].llr, abs=1e-3 + 1e-5 * abs(a[0].llr))
        # What another process changes is in the next search, and out of the files.
        gone = first[7].tobytes()
        assert gone in content(folder)
        exact.remove("s7")
        exact.add("late", first[-1])
        assert gallery.search(second[-1], 1)[0].speaker == "late"
        assert "s7" not in [it.speaker for it in gallery.search(first[7], 20)]
        assert len(gallery) == PEOPLE - 1
        assert gone not in content(folder)
    before = made(folder)
    assert len(before) == 2 and not any(f.stat().st_mode & 0o077 for f in folder.iterdir())
    with by_codes(address, backend, folder) as again:
        assert again.search(second[-1], 1)[0].speaker == "late"
        found = again.identify(second[-1], prior=0.5)
        other = exact.identify(second[-1], prior=0.5)
        assert found.speaker == other.speaker
        assert abs(found.posterior - other.posterior) <= found.posterior_error + 1e-6
    assert made(folder) == before


def test_codes_follow_a_server_that_was_set_back(world, home, postgres, tmp_path) -> None:
    """Files of a day that did not happen are made again."""
    backend, first, second = world
    exact = home.open(backend)
    exact.add_many((f"s{i}", row) for i, row in enumerate(first[:300]))
    address, folder = home.name("callers"), tmp_path / "files"
    by_codes(address, backend, folder).close()
    schema = address.partition("gallery=")[2]
    for table in ("speakers", "sums"):
        postgres.execute(f"DELETE FROM {schema}.{table} WHERE number > 200")
    postgres.execute(f"UPDATE {schema}.counters SET count = 200, speakers = 200, change = 1")
    with by_codes(address, backend, folder) as gallery:
        assert len(gallery) == 200
        assert gallery.search(second[250], 1)[0].speaker != "s250"


def test_an_account_that_may_only_search_has_codes(world, home, postgres, tmp_path) -> None:
    backend, first, second = world
    exact = home.open(backend)
    exact.add_many((f"s{i}", row) for i, row in enumerate(first[:300]))
    if not postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'seeker'"):
        postgres.execute("CREATE ROLE seeker LOGIN")
    exact.grant("seeker", "search")
    address = home.name("callers").replace("owner@", "seeker@")
    with by_codes(address, backend, tmp_path / "files") as gallery:
        assert gallery.search(second[5], 1)[0].speaker == "s5"
        with pytest.raises(GalleryError, match="may not do that"):
            gallery.remove("s5")


def test_a_folder_that_cannot_be_is_said_in_a_line(world, home, tmp_path, monkeypatch) -> None:
    backend, first, _ = world
    home.open(backend).add("ann", first[0])
    (tmp_path / "file").write_text("")
    with pytest.raises(GalleryError, match=r"no files can be kept in .*; name another folder"):
        Gallery.open(f"{home.name('callers')}&files={tmp_path}/file/x", backend, index="codes")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with Gallery.open(home.name("callers"), backend, index="codes"):
        assert os.listdir(tmp_path / "cache" / "dcaplda")
    assert (tmp_path / "cache" / "dcaplda").stat().st_mode & 0o077 == 0


def fill(gallery: Gallery, parent: Backend, places: dict[str, Backend]) -> None:
    """Speakers of three places by turns at first, then many of the model itself."""
    models = [*places.values(), parent]
    for number in range(PLACED):
        model = models[number % 3]
        gallery.add(f"p{number}", model.enroll(*utterances(1 + number % 2, 100 + number)))
    calls, seconds = utterances(400, 7, people=400)
    gallery.add_many((f"s{i}", row) for i, row in enumerate(parent.voiceprints(calls, seconds)))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("candidates", [20, 600])
def test_speakers_of_several_places(
    kind, candidates, request, parent, places, tmp_path, monkeypatch
) -> None:
    """Against the same gallery searched exactly, for probes of every place."""
    monkeypatch.setattr(coded_search, "CANDIDATES", candidates)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = home_of(kind, request, tmp_path)
    exact = home.open(parent, places=places)
    fill(exact, parent, places)
    gallery = home.open(parent, places=places, index="codes")
    exact.add("later", places["phone"].enroll(*utterances(1, 900)))
    exact.remove("p1", "s3")
    memory = gallery._mirror.now()
    assert isinstance(memory, CodedMemory) and len(memory.others) == 2
    assert len(gallery) == len(exact) == PLACED + 400 - 1
    probes = [
        model.enroll(*utterances(count, seed))
        for model in (parent, *places.values())
        for count, seed in ((1, 103), (1, 900), (2, 5))
    ]
    compared = 0
    for probe in probes:
        right, found = exact.search(probe, 8), gallery.search(probe, 8)
        proved = gallery.search(probe, 8, prove=True)
        assert [it.speaker for it in proved] == [it.speaker for it in right]
        assert proved.exact
        everybody = {it.speaker: it.llr for it in exact.search(probe, len(exact))}
        for match in found:
            compared += match.speaker.startswith("p")
            assert match.llr == pytest.approx(everybody[match.speaker], abs=1e-3, rel=1e-4)
        if found.exact:
            assert [it.speaker for it in found] == [it.speaker for it in right]
        one, other = gallery.identify(probe, prior=0.5), exact.identify(probe, prior=0.5)
        assert abs(one.posterior - other.posterior) <= one.posterior_error + 1e-5
    assert compared  # speakers of other places are among the best
    with Gallery.open(home.name("callers"), parent, places=places, index="codes") as again:
        assert sorted(again) == sorted(exact)


def test_the_file_of_rows_serves_several_places_too(
    parent, places, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(side, "LEAST", 100)
    with Gallery.open(tmp_path / "g.db", parent, places=places) as gallery:
        fill(gallery, parent, places)
    Gallery.open(tmp_path / "g.db", parent, places=places).close()
    assert (tmp_path / "g.db-rows").exists()
    with Gallery.open(tmp_path / "g.db", parent, places=places) as gallery:
        assert len(list(gallery)) == len(gallery) == PLACED + 400
        gallery.remove("p0", "p2")
        probe = places["phone"].enroll(*utterances(1, 101))
        assert {it.speaker for it in gallery.search(probe, 500)} >= {"p1", "p3", "s0"}
