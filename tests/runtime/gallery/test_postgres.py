"""What only a gallery on a server has: accounts, falls of the server, addresses, followers."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from gallery_places import Home, home_of
from interruptions import CHANGES, Interruption, in_memory
from postgres_server import Server, running_server, why_not
from random_models import DIM

from dcaplda.export import parity
from dcaplda.runtime import Backend, GalleryError
from dcaplda.runtime.gallery.database.address import parse_address
from dcaplda.runtime.gallery.postgres import connection as server_connection
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch


@pytest.fixture
def home(request, tmp_path: Path) -> Home:
    return home_of("postgres", request, tmp_path)


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=1)


@pytest.fixture(scope="module")
def prints(backend: Backend) -> np.ndarray:
    return backend.voiceprints(*parity.random_side(DIM, 60, 7))


def role(server: Server, name: str) -> None:
    if not server.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"):
        server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")


def test_an_account_that_may_search_cannot_enrol(home, postgres, backend, prints) -> None:
    gallery = home.open(backend, audit=True)
    gallery.add("ann", backend.enroll(*parity.random_side(DIM, 2, 3)))
    role(postgres, "clerk")
    clerk = home.name("callers").replace("owner@", "clerk@")
    with pytest.raises(GalleryError, match="may not do that .*; use one that may, or grant it"):
        Gallery.open(clerk, backend)
    gallery.grant("clerk", "search")
    with Gallery.open(clerk, backend, audit=True) as reader:
        assert reader.search(prints[0], 5)[0].speaker == "ann"
        reader.verify("ann", np.ones(DIM), 9.0, prior=0.5)
        reader.identify(prints[0], prior=0.5)
        for act in (
            lambda: reader.add("bob", prints[1]),
            lambda: reader.remove("ann"),
            lambda: reader.replace("ann", prints[1]),
            lambda: reader.rename("ann", "bob"),
            lambda: reader.tag("ann", {"a": "b"}),
            lambda: reader.add_utterance("ann", np.ones(DIM), 9.0),
            lambda: reader.erase("ann", decisions=True),
            lambda: reader.grant("clerk", "enrol"),
        ):
            with pytest.raises(GalleryError, match="this account may not do that") as caught:
                act()
            assert "\n" not in str(caught.value)
        assert list(reader) == ["ann"] and len(gallery.decisions()) == 2
        gallery.grant("clerk", "enrol")
        reader.add("bob", prints[1])
    assert list(gallery) == ["ann", "bob"]
    with pytest.raises(GalleryError, match="expected search or enrol"):
        gallery.grant("clerk", "everything")


def test_bad_addresses_are_one_line(home, postgres, backend, monkeypatch) -> None:
    monkeypatch.setattr(server_connection, "FIRST_PATIENCE", 0.2)
    folder = postgres.folder
    for address, message in (
        (f"postgresql://owner@/postgres?host={folder}/none", "cannot be reached"),
        ("postgresql://owner:secret@127.0.0.1:9/postgres", "cannot be reached"),
        (f"postgresql://nobody-here@/postgres?host={folder}", "cannot be reached.*does not exist"),
        (f"postgresql://owner@/nowhere?host={folder}", "cannot be reached.*does not exist"),
        (postgres.url("postgres", gallery="No-Name"), "is no name: small letters"),
        (postgres.url("postgres", lag="soon"), "lag='soon': expected seconds"),
        (postgres.url("postgres", nonsense="1"), "nonsense"),
    ):
        with pytest.raises(GalleryError, match=message) as caught:
            Gallery.open(address, backend)
        assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


def test_a_wrong_password_is_one_line(backend) -> None:
    if why_not():
        pytest.skip(why_not())
    with running_server() as server:
        role(server, "locked")
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
        server.execute("SELECT pg_reload_conf()")
        begin = time.monotonic()
        for password in ("wrong", ""):
            user = f"locked:{password}" if password else "locked"
            with pytest.raises(GalleryError, match="cannot be reached.*password") as caught:
                Gallery.open(server.url("postgres", user), backend)
            assert "\n" not in str(caught.value) and "wrong" not in str(caught.value)
        assert time.monotonic() - begin < server_connection.PATIENCE


def test_a_gallery_of_another_version_is_refused(home, postgres, backend, prints) -> None:
    gallery = home.open(backend)
    gallery.add("ann", prints[0])
    schema = parse_address(home.name("callers")).gallery
    postgres.execute(f"UPDATE {schema}.settings SET value = '9' WHERE name = 'version'")
    with pytest.raises(GalleryError, match="format version 9 is newer.*upgrade dcaplda"):
        home.open(backend)
    postgres.execute(f"UPDATE {schema}.settings SET value = '3' WHERE name = 'version'")
    assert list(home.open(backend)) == ["ann"]


def test_a_gallery_that_goes_away_or_is_replaced_is_noticed(
    home, postgres, backend, prints
) -> None:
    gallery = home.open(backend)
    gallery.add("ann", prints[0])
    schema = parse_address(home.name("callers")).gallery
    postgres.execute(f"DROP SCHEMA {schema} CASCADE")
    for act in (lambda: gallery.search(prints[0]), lambda: gallery.add("b", prints[1])):
        with pytest.raises(GalleryError, match="was removed while it was open; open it again"):
            act()
    home.open(backend).add("eve", prints[2])
    for act in (lambda: gallery.search(prints[0]), lambda: gallery.add("b", prints[1])):
        with pytest.raises(GalleryError, match="was replaced while it was open; open it again"):
            act()


def test_a_value_that_changed_on_the_server_is_found(home, postgres, backend, prints) -> None:
    home.open(backend).add_many([("ann", prints[0]), ("bob", prints[1])])
    schema = parse_address(home.name("callers")).gallery
    postgres.execute(
        f"UPDATE {schema}.speakers SET voiceprints = set_byte(voiceprints, 2, 77) WHERE id = 'bob'"
    )
    with pytest.raises(GalleryError, match="'bob' is not as it was written"):
        home.open(backend)


def test_a_server_set_back_to_an_earlier_day_is_read_anew(home, postgres, backend, prints) -> None:
    gallery = home.open(backend)
    gallery.add_many([("ann", prints[0]), ("bob", prints[1])])
    schema = parse_address(home.name("callers")).gallery
    postgres.execute(f"CREATE TABLE {schema}.day AS SELECT * FROM {schema}.counters")
    gallery.remove("bob")
    gallery.add("eve", prints[2])
    # As restored: bob is back, eve was never there, and the numbers are those of that day.
    row = prints[1].tobytes().hex()
    from dcaplda.runtime.gallery.database.sums import speaker_crc

    crc = speaker_crc(2, "bob", prints[1].tobytes(), "")
    for statement in (
        f"DELETE FROM {schema}.speakers WHERE id = 'eve'",
        f"DELETE FROM {schema}.removals",
        f"INSERT INTO {schema}.speakers VALUES (2, 'bob', NULL, '\\x{row}', NULL)",
        f"INSERT INTO {schema}.sums VALUES (2, {crc})",
        f"DELETE FROM {schema}.counters",
        f"INSERT INTO {schema}.counters SELECT * FROM {schema}.day",
    ):
        postgres.execute(statement)
    assert {match.speaker for match in gallery.search(prints[5])} == {"ann", "bob"}


def test_changes_are_told_to_those_who_listen(home, backend, prints) -> None:
    """With a lag no search asks the server, and yet changes are known within a second."""
    writer = home.open(backend)
    writer.add("ann", prints[0])
    with Gallery.open(home.name("callers") + "&lag=3600", backend) as listener:
        assert len(listener.search(prints[5])) == 1
        asked = listener._store._connection.opened, listener._store._asked
        for _ in range(5):
            listener.search(prints[5])
        assert (listener._store._connection.opened, listener._store._asked) == asked
        for number in range(3):
            writer.add(f"late{number}", prints[number + 1])
            last = time.monotonic() + 10
            while len(listener.search(prints[5])) < 2 + number:
                assert time.monotonic() < last, "never told"
        # A lost connection: what happened meanwhile is asked for.
        listener._store._connection.disconnect()
        writer.remove("late0")
        assert {it.speaker for it in listener.search(prints[5])} == {"ann", "late1", "late2"}


def test_whoever_loses_the_connection_in_a_commit_writes_once(home, backend, prints) -> None:
    """The commit arrives, the answer does not: the change is not made a second time."""
    import psycopg

    gallery = home.open(backend)
    connection = gallery._store._connection
    lost = []

    class Cut:
        """A connection that breaks behind its first commit."""

        def __init__(self, real) -> None:
            self.real = real

        def __getattr__(self, name):
            return getattr(self.real, name)

        def execute(self, query, *values, **more):
            found = self.real.execute(query, *values, **more)
            if query == "COMMIT" and not lost:
                lost.append(query)
                self.real.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return found

    ready = connection._ready
    connection._ready = lambda: Cut(ready())
    gallery.add("ann", prints[0])
    gallery.add("bob", prints[1])
    assert lost and list(gallery) == ["ann", "bob"]
    assert list(home.open(backend)) == ["ann", "bob"]


def test_a_server_that_falls_and_comes_back_is_waited_for(backend, prints) -> None:
    """Searches and changes that meet it down end well; nobody opens anything again."""
    if why_not():
        pytest.skip(why_not())
    with running_server() as server:
        gallery = Gallery.open(server.url("postgres"), backend)
        gallery.add("ann", prints[0])
        for number, fall in enumerate((server.stop, server.kill)):
            fall()
            back = threading.Timer(0.7, server.start)
            back.start()
            gallery.add(f"late{number}", prints[number + 1])
            back.join()
            fall()
            server.start()
            assert len(gallery.search(prints[5])) == 2 + number
        server.stop()
        server_connection_patience = server_connection.PATIENCE
        try:
            server_connection.PATIENCE = 0.3
            with pytest.raises(GalleryError, match="cannot be reached.*look at server") as caught:
                gallery.search(prints[5])
            assert "\n" not in str(caught.value)
        finally:
            server_connection.PATIENCE = server_connection_patience
        server.start()
        assert list(gallery) == ["ann", "late0", "late1"]
        gallery.close()


def test_without_psycopg_the_extra_is_named(backend, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(GalleryError, match=r"pip install 'dcaplda\[postgres\]'"):
        Gallery.open("postgresql://owner@localhost/x", backend)


@pytest.mark.parametrize("name", ["add", "remove", "add_utterance", "rename"])
def test_memory_is_the_server_wherever_one_is_interrupted(home, backend, prints, name) -> None:
    """Ctrl-C at every 97th bytecode: wholly or not at all, and nobody else is kept waiting."""
    change, undo = CHANGES[name]
    gallery, other = home.open(backend), home.open(backend)
    gallery.add_many((f"s{k}", prints[k]) for k in range(3))
    before = in_memory(gallery)
    change(gallery, prints)
    after = in_memory(gallery)
    undo(gallery, prints)
    done = undone = at = 0
    while True:
        caught = Interruption(at).hits(lambda: change(gallery, prints))
        stored = in_memory(other)
        if caught is None:
            assert stored == after
            break
        assert stored in (before, after), f"half a change, interrupted at bytecode {at}"
        assert list(in_memory(gallery).items()) == list(stored.items()), f"stale at {at}"
        other.tag("s2", {"at": str(at)})  # others can write
        if stored == after:
            done += 1
            undo(gallery, prints)
        else:
            undone += 1
        at += 97
    assert done and undone


def where(server: Server, looked_for: list[bytes]) -> set[str]:
    """Folders of the server's files in which one of some pieces is."""
    data = server.folder / "data"
    files = [it for it in data.rglob("*") if it.is_file()]
    found = [it for it in files if any(piece in it.read_bytes() for piece in looked_for)]
    return {it.relative_to(data).parts[0] for it in found}


@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("recycled", [False, True])
def test_erased_vectors_are_nowhere_in_the_files(backend, recycled: bool) -> None:
    """Segments of the log that the server uses again keep bytes until it does."""
    calls, seconds = parity.random_side(DIM, 3, 5)
    with running_server() as server:
        server.execute(f"ALTER SYSTEM SET wal_recycle = {'on' if recycled else 'off'}")
        server.stop()
        server.start()
        address = server.url("postgres", gallery="erased")
        with Gallery.open(address, backend, keep_embeddings=True) as gallery:
            kept: dict[str, list[bytes]] = {}
            for number, name in enumerate(("ann", "bob", "eve")):
                gallery.add(name, backend.enroll(calls * (1 + number), seconds))
                speaker = gallery.get(name)
                parts = [speaker.voiceprints, *(it.embedding for it in speaker.utterances)]
                kept[name] = [np.asarray(it, np.float32).tobytes()[:64] for it in parts]
            server.execute("CHECKPOINT")
            for piece in (piece for pieces in kept.values() for piece in pieces):
                assert where(server, [piece]) >= {"base", "pg_wal"}
            gallery.remove_utterance("bob", 6)
            gallery.erase("ann")
            assert where(server, [*kept["ann"], kept["bob"][3]]) <= (
                {"pg_wal"} if recycled else set()
            )
            assert where(server, kept["eve"]) >= {"base"} and list(gallery) == ["eve", "bob"]


def test_who_does_not_own_the_tables_cannot_erase(home, postgres, backend, prints) -> None:
    gallery = home.open(backend)
    gallery.add_many([("ann", prints[0]), ("bob", prints[1])])
    role(postgres, "adder")
    gallery.grant("adder", "enrol")
    with Gallery.open(home.name("callers").replace("owner@", "adder@"), backend) as other:
        other.remove("bob")
        with pytest.raises(GalleryError, match="only the owner .* may write anew"):
            other.erase("ann")
    assert len(gallery) == 0
    gallery.scrub()
