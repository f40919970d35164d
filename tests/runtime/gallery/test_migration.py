"""Galleries taken over by a new model, or moved elsewhere; on SQLite and on PostgreSQL."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from gallery_places import KINDS, Home, home_of
from joint_models import joint_bundle, place_pool, utterances
from random_models import random_model

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, GalleryError
from dcaplda.runtime.gallery import migration
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch

SPEAKERS = 30


@pytest.fixture(params=KINDS)
def home(request, tmp_path: Path) -> Home:
    return home_of(request.param, request, tmp_path)


@pytest.fixture(scope="module")
def old(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=1)


@pytest.fixture(scope="module")
def new(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch) -> None:
    monkeypatch.setattr(migration, "AT_ONCE", 4)


def heard(number: int) -> tuple[np.ndarray, np.ndarray]:
    return utterances(1 + number % 3, 100 + number)


def fill(gallery: Gallery) -> Gallery:
    for number in range(SPEAKERS):
        speaker = gallery.backend.enroll(*heard(number))
        tags = {"tenant": "acme"} if number % 2 else None
        gallery.add(f"s{number}", speaker, source=f"call {number}", tags=tags)
    return gallery


def contents(gallery: Gallery) -> list[tuple]:
    """All that a gallery has, in its order, but for the numbers of speakers."""
    found = []
    for name in gallery:
        speaker = gallery.get(name)
        rows = [
            (it.number, it.seconds, it.time, it.source, it.embedding.tobytes(), it.session)
            for it in gallery.utterances(name)
        ]
        found.append((name, speaker.voiceprints.tobytes(), rows, gallery.tags(name), speaker.way))
    return found


def test_every_speaker_is_as_enrolled_with_the_new_model(home, old, new) -> None:
    gallery = fill(home.open(old, keep_embeddings=True))
    steps: list[tuple[int, int]] = []
    done = gallery.migrate(new, home.name("later"), progress=lambda *it: steps.append(it))
    assert (done.moved, done.left) == (SPEAKERS, ()) and steps[-1] == (SPEAKERS, SPEAKERS)
    home.opened.append(done.gallery)
    assert list(done.gallery) == list(gallery)
    for number in range(SPEAKERS):
        name = f"s{number}"
        expected = new.enroll(*heard(number))
        found = done.gallery.get(name)
        np.testing.assert_array_equal(found.voiceprints, expected.voiceprints)
        assert (found.way, found.model) == ("joint", new.info.fingerprint)
        before, after = gallery.utterances(name), done.gallery.utterances(name)
        for one, two in zip(before, after, strict=True):
            assert (one.number, one.time, one.source) == (two.number, two.time, two.source)
        assert gallery.tags(name) == done.gallery.tags(name)
    probe = new.enroll(*utterances(1, 1))
    assert len(done.gallery.search(probe, 99)) == SPEAKERS
    # The old one can be searched, but what came into it now would be nowhere.
    assert len(gallery.search(old.enroll(*utterances(1, 1)), 99)) == SPEAKERS
    for act in (
        lambda: gallery.add("late", old.enroll(*utterances(1, 1))),
        lambda: gallery.tag("s1", {"a": "b"}),
        lambda: gallery.remove("s1"),
    ):
        with pytest.raises(GalleryError, match="was migrated to .*; change that one"):
            act()
    done.gallery.add_utterance("s1", *utterances(1, 7))


def test_whoever_has_no_embeddings_is_named(home, old, new) -> None:
    gallery = fill(home.open(old, keep_embeddings=True))
    for number in range(8):
        gallery.add(f"bare{number}", old.enroll(*utterances(1, number)).voiceprints)
    with pytest.raises(GalleryError) as caught:
        gallery.migrate(new, home.name("later"))
    text = str(caught.value)
    assert "8 of 38 speakers cannot be taken over" in text and "\n" not in text
    assert "'bare0', 'bare1', 'bare2', 'bare3', 'bare4' and 3 more" in text
    with pytest.raises(GalleryError, match="no such gallery"):
        home.open(new, "later", create=False)
    gallery.add("still", old.enroll(*utterances(1, 1)))
    done = gallery.migrate(new, home.name("later"), missing="leave")
    home.opened.append(done.gallery)
    assert done.left == tuple(f"bare{number}" for number in range(8))
    assert done.moved == SPEAKERS + 1


def die_after(batches: int, gallery: Gallery, new: Backend, path: str) -> int:
    """Migrate in a child that kills itself after some batches; its exit status."""
    pid = os.fork()
    if pid == 0:
        left = [batches]

        def count(*_: int) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            gallery.migrate(new, path, progress=count)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def test_killed_three_times_it_ends_as_if_it_had_not_been(home, old, new) -> None:
    gallery = fill(home.open(old, keep_embeddings=True))
    twin = home.open(old, "twin", keep_embeddings=True)
    for batches in (1, 2, 3):
        assert die_after(batches, gallery, new, home.name("later")) == signal.SIGKILL
        with pytest.raises(GalleryError, match="no such gallery"):
            home.open(new, "later", create=False)
        gallery.search(old.enroll(*utterances(1, 1)))
    done = gallery.migrate(new, home.name("later"))
    home.opened.append(done.gallery)
    # The twin has the very rows of the gallery, times and numbers too.
    for name in gallery:
        kept = gallery._store.look(lambda it, name=name: it.life(name))
        twin._store.change((), [(name, kept.entry)])
    assert contents(twin) == contents(gallery)
    at_once = twin.migrate(new, home.name("at_once"))
    home.opened.append(at_once.gallery)
    assert contents(done.gallery) == contents(at_once.gallery)
    probes = new.voiceprints(*utterances(5, 1))
    assert done.gallery.search_many(probes, 99) == at_once.gallery.search_many(probes, 99)


def test_what_others_change_meanwhile_is_followed(home, old, new) -> None:
    gallery = fill(home.open(old, keep_embeddings=True))
    other, steps = home.open(old), [0]

    def interfere(*_: int) -> None:
        steps[0] += 1
        if steps[0] == 3:
            other.remove("s0", "s29")
            other.add("late", old.enroll(*utterances(2, 1)))
            other.add_utterance("s1", *utterances(1, 2))
            other.tag("s2", {"vip": "yes"})
            other.rename("s3", "renamed")
        if steps[0] == 9:
            other.tag("s4", {"vip": "no"})

    done = gallery.migrate(new, home.name("later"), progress=interfere)
    home.opened.append(done.gallery)
    assert list(done.gallery) == list(gallery) and "s0" not in done.gallery
    assert len(done.gallery.utterances("s1")) == 3
    assert done.gallery.tags("s2") == {"vip": "yes"} and done.gallery.tags("s4")["vip"] == "no"
    expected = np.concatenate([heard(1)[0], utterances(1, 2)[0]])
    seconds = np.concatenate([heard(1)[1], utterances(1, 2)[1]])
    again = new.enroll(expected, seconds)
    np.testing.assert_allclose(np.asarray(done.gallery.get("s1")), again.voiceprints, atol=1e-5)


def test_mistakes_are_one_line(home, old, new, tmp_path) -> None:
    gallery = fill(home.open(old, keep_embeddings=True))
    with pytest.raises(GalleryError, match="is there already; name a new"):
        gallery.migrate(new, home.name("callers"))
    with pytest.raises(Exception, match="missing = 'x': expected refuse or leave"):
        gallery.migrate(new, home.name("later"), missing="x")
    assert die_after(1, gallery, new, home.name("later")) == signal.SIGKILL
    export_model(random_model("d-plda-dsd", seed=3), tmp_path / "third")
    third = Backend.load(tmp_path / "third")
    with pytest.raises(GalleryError, match="left of a migration to another model; remove it"):
        gallery.migrate(third, home.name("later"))


def test_an_adapted_model_takes_over(home, new) -> None:
    """And a gallery of several places moves with them."""
    office = new.adapted(place_pool(20, seed=50))
    gallery = fill(home.open(new, keep_embeddings=True))
    done = gallery.migrate(office, home.name("office"))
    home.opened.append(done.gallery)
    for number in (0, 1, 2):
        expected = office.enroll(*heard(number)).voiceprints
        np.testing.assert_array_equal(np.asarray(done.gallery.get(f"s{number}")), expected)
    placed = home.open(new, "placed", places={"office": office})
    placed.add("ann", office.enroll(*utterances(2, 1)))
    placed.add("bob", new.enroll(*utterances(2, 2)))
    placed.add_utterance("ann", *utterances(1, 3))
    both = zip(utterances(2, 1), utterances(1, 3), strict=True)
    whole = office.enroll(*(np.concatenate(pair) for pair in both))
    np.testing.assert_allclose(np.asarray(placed.get("ann")), whole.voiceprints, atol=1e-5)
    copy = placed.migrate(new, home.name("copy")).gallery
    home.opened.append(copy)
    probe = office.enroll(*utterances(1, 4))
    assert copy.search(probe, 9) == placed.search(probe, 9)


def test_from_file_to_server_and_back(request, old, tmp_path) -> None:
    file = home_of("sqlite", request, tmp_path)
    server = home_of("postgres", request, tmp_path)
    gallery = fill(file.open(old, keep_embeddings=True))
    moved = gallery.migrate(old, server.name("moved")).gallery
    back = moved.migrate(old, file.name("back")).gallery
    assert contents(gallery) == contents(moved) == contents(back)
    probes = old.voiceprints(*utterances(5, 1))
    found = [it.search_many(probes, 99) for it in (gallery, moved, back)]
    assert found[0] == found[1] == found[2]
    moved.close()
    back.close()
