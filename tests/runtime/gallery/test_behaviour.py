"""What a gallery promises, wherever it is kept: every test runs on SQLite and on PostgreSQL."""

import multiprocessing
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from gallery_places import KINDS, Home, home_of
from joint_models import joint_bundle, utterances
from random_models import DIM, random_model

from dcaplda.export import parity
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, DcapldaError, GalleryError, InputError
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch


@pytest.fixture(params=KINDS)
def home(request, tmp_path: Path) -> Home:
    return home_of(request.param, request, tmp_path)


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=1)


@pytest.fixture(scope="module")
def joint(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


@pytest.fixture(params=["backend", "joint"])
def any_backend(request) -> Backend:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def prints(backend: Backend) -> np.ndarray:
    return backend.voiceprints(*parity.random_side(DIM, 400, 7))


def fill(gallery: Gallery, prints: np.ndarray) -> Gallery:
    gallery.add_many((f"s{i}", row) for i, row in enumerate(prints))
    return gallery


# Searching, and what others see


def test_search_is_the_full_sort(home, backend, prints) -> None:
    gallery = fill(home.open(backend), prints[:300])
    truth = backend.compare(prints[:300], prints[300:303]).T
    for found, llrs in zip(gallery.search_many(prints[300:303], 10), truth, strict=True):
        order = sorted(range(300), key=lambda i: (-llrs[i], i))[:10]
        assert [m.speaker for m in found] == [f"s{i}" for i in order]
        np.testing.assert_allclose([m.llr for m in found], llrs[order], atol=1e-4)


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_what_was_added_is_there_when_opened_again(home, backend, prints, storage) -> None:
    with fill(home.open(backend, storage=storage), prints[:20]) as gallery:
        gallery.remove("s3", "s4")
        gallery.replace("s5", prints[60:62])
        gallery.add("new", prints[70])
        before, names = gallery.search_many(prints[100:103], 60), list(gallery)
    again = home.open(backend, create=False)
    assert again.storage == storage and len(again) == 19
    assert list(again) == names and names[-2:] == ["s5", "new"]
    assert again.get("s4") is None and "s3" not in again and "s5" in again
    np.testing.assert_array_equal(
        np.asarray(again.get("s5")), prints[60:62].astype(storage).astype(np.float32)
    )
    assert again.search_many(prints[100:103], 60) == before


def test_other_handles_see_changes_at_their_next_search(home, backend, prints) -> None:
    writer = fill(home.open(backend), prints[:20])
    reader = home.open(backend)
    assert len(reader.search(prints[100], 100)) == 20
    writer.add("new", prints[101])
    assert len(reader.search(prints[100], 100)) == 21
    writer.remove("new", "s0")
    assert {m.speaker for m in reader.search(prints[100], 100)} == {f"s{i}" for i in range(1, 20)}
    reader.replace("s1", prints[102])
    writer.rename("s2", "renamed")
    np.testing.assert_array_equal(writer.get("s1").voiceprints[0], prints[102])
    assert writer.search(prints[100], 100) == reader.search(prints[100], 100)
    assert list(reader)[-2:] == ["s1", "renamed"]


def test_a_gallery_survives_a_fork(home, backend, prints) -> None:
    gallery = fill(home.open(backend), prints[:30])
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child() -> None:
        gallery.add("from-child", prints[31])
        send.send(len(gallery.search(prints[-1], 100)))

    process = context.Process(target=child)
    process.start()
    assert receive.poll(30) and receive.recv() == 31
    process.join(10)
    assert "from-child" in gallery and len(gallery.search(prints[-1], 100)) == 31


def test_threads_search_while_one_changes(home, backend, prints) -> None:
    gallery = fill(home.open(backend), prints[:50])
    truth = {f"s{i}": llr for i, llr in enumerate(backend.compare(prints[:50], prints[-1:])[:, 0])}
    stop, wrong = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            found = dict(gallery.search(prints[-1], 10_000))
            if any(abs(found.get(name, np.inf) - llr) > 1e-4 for name, llr in truth.items()):
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(8):
        gallery.add_many((f"x{i}-{j}", prints[100 + j]) for j in range(10))
        gallery.remove(*(f"x{i}-{j}" for j in range(0, 10, 2)))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and len(gallery) == 50 + 8 * 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, v: g.add("s1", v[0]), "'s1' is already there; replace"),
        (lambda g, v: g.add_many([("n", v[0]), ("n", v[1])]), "'n' is already there"),
        (lambda g, v: g.remove("x"), "no speaker 'x'"),
        (lambda g, v: g.remove("s1", "s1"), "no speaker 's1'"),
        (lambda g, v: g.replace("x", v[0]), "no speaker 'x'"),
        (lambda g, v: g.add(" two words", v[0]), "without blanks around"),
        (lambda g, v: g.add("n", v[0] * np.nan), "speaker 'n': row 0 holds nan"),
        (lambda g, v: g.add("n", v[0], source="a\nb"), "source 'a.nb': expected a line"),
        (lambda g, v: g.add("n", v[0], source="\ud800"), "source '.*': expected a line|no text"),
        (lambda g, v: g.add("n", v[0], time=datetime(2026, 1, 1)), "has no zone"),
        (lambda g, v: g.add("n", v[0], time=float("nan")), "time is nan"),
        (lambda g, v: g.add("n", v[0], tags=["x"]), "tags: expected names and values"),
        (lambda g, v: g.add("n", v[0], tags={"x": 5}), "tag 'x' 5: expected a line"),
        (lambda g, v: g.tag("x", {"a": "b"}), "no speaker 'x'"),
        (lambda g, v: g.tags("x"), "no speaker 'x'"),
        (lambda g, v: g.rename("s1", "s2"), "'s2' is already there"),
        (lambda g, v: g.rename("x", "y"), "no speaker 'x'"),
        (lambda g, v: g.rename("s1", "two words "), "without blanks around"),
        (lambda g, v: g.merge("s1", "s1"), "with itself"),
        (lambda g, v: g.merge("s1", "x"), "no speaker 'x'"),
        (lambda g, v: g.split("s1", "new", [-1]), "1 of 1 utterances cannot be parted"),
        (lambda g, v: g.split("s1", "new", [99]), "no utterance 99"),
        (lambda g, v: g.remove_utterance("s1", -1), "at least one must stay"),
        (lambda g, v: g.remove_utterance("s1", 7), "no utterance 7"),
        (lambda g, v: g.remove_utterance("s1", True), "no utterance True"),
        (lambda g, v: g.utterances("x"), "no speaker 'x'"),
        (lambda g, v: g.add_utterance("x", np.ones(DIM), 3.0), "no speaker 'x'"),
        (lambda g, v: g.add_utterance("s1", np.zeros(DIM), 3.0), "all zero"),
        (lambda g, v: g.add_utterance("s1", np.ones(DIM)), "durations: missing"),
        (lambda g, v: g.add_utterance("s1", np.ones(DIM), 3.0, sessions=["a"]), "several utter"),
        (lambda g, v: g.coherence("x"), "no speaker 'x'"),
        (lambda g, v: g.verify("x", np.ones(DIM), 3.0, prior=0.5), "no speaker 'x'"),
        (lambda g, v: g.add_verified("s1", np.ones(DIM), 3.0, least_llr="5"), "least_llr is '5'"),
        (lambda g, v: g.search(v[0], tags={"a": None}), "tags: 'a' has no value"),
    ],
)
def test_bad_calls_change_nothing_and_are_named(home, backend, prints, call, message) -> None:
    gallery = fill(home.open(backend), prints[:3])
    with pytest.raises(DcapldaError, match=message) as caught:
        call(gallery, prints)
    assert "\n" not in str(caught.value)
    assert list(gallery) == ["s0", "s1", "s2"]
    assert list(home.open(backend)) == ["s0", "s1", "s2"]


def test_a_gallery_of_another_model_is_refused(home, backend, tmp_path) -> None:
    home.open(backend).close()
    export_model(random_model("d-plda-dsd", seed=3), tmp_path / "other")
    with pytest.raises(GalleryError, match="was made with another model .* or enrol again"):
        home.open(Backend.load(tmp_path / "other"))
    with pytest.raises(GalleryError, match="no such gallery"):
        home.open(backend, "elsewhere", create=False)


# The life of a speaker


def stored(gallery: Gallery, name: str) -> tuple:
    """All that decides what a speaker is, bit for bit."""
    found = gallery.get(name)
    assert found is not None
    return found.voiceprints.tobytes(), found.warnings, found.way, found.model


@pytest.mark.parametrize("way", ["auto", "scores"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_an_utterance_added_and_removed_leaves_the_bytes(home, any_backend, count, way) -> None:
    gallery = home.open(any_backend)
    x, d = utterances(count + 2, 3)
    enrolled = any_backend.enroll(x[:count], d[:count], multi_enroll=way)
    gallery.add("ann", enrolled, source="first calls")
    gallery.add("bare", enrolled.voiceprints)  # voiceprints alone
    for name in ("ann", "bare"):
        before = stored(gallery, name)
        whole = gallery.add_utterance(name, x[count:], d[count:], source="later")
        # A single voiceprint alone does not tell how it was enrolled.
        how = "auto" if name == "bare" and count == 1 else way
        expected = any_backend.enroll(x, d, multi_enroll=how)
        np.testing.assert_allclose(whole.voiceprints, expected.voiceprints, rtol=1e-4, atol=1e-4)
        assert stored(gallery, name) != before
        new = [it.number for it in gallery.utterances(name) if it.source == "later"]
        assert len(new) == 2
        gallery.remove_utterance(name, new[0])
        gallery.remove_utterance(name, new[1])
        assert stored(gallery, name)[0] == before[0]
        assert stored(gallery, name)[1] == before[1]


def test_utterances_say_when_how_long_and_whence(home, backend) -> None:
    gallery = home.open(backend)
    x, d = utterances(3, 3)
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    begin = datetime.now(UTC)
    gallery.add("ann", backend.enroll(x[:2], d[:2]), source="call 7", time=when)
    gallery.add_utterance("ann", x[2], float(d[2]), source="call 9")
    one, two, three = gallery.utterances("ann")
    assert [it.source for it in (one, two, three)] == ["call 7", "call 7", "call 9"]
    assert one.time == two.time == when and three.time is not None
    assert begin <= three.time <= datetime.now(UTC)
    np.testing.assert_allclose([it.seconds for it in (one, two, three)], d, rtol=1e-6)
    assert len({one.number, two.number, three.number}) == 3 and one.embedding is None
    kept = gallery.get("ann")
    assert repr(kept) == f"Speaker('ann', 3 utterances, {d.sum():.1f} s, model {kept.model[:4]}...)"
    assert "array" not in repr(kept) + repr(one) and str(one.number) in repr(one)


@pytest.mark.parametrize("keep", [False, True])
def test_embeddings_are_kept_only_if_asked_for(home, backend, keep) -> None:
    gallery = home.open(backend, keep_embeddings=keep)
    x, d = utterances(2, 3)
    gallery.add("ann", backend.enroll(x[0], d[0]))
    gallery.add_utterance("ann", x[1], float(d[1]))
    found = [it.embedding for it in home.open(backend).utterances("ann")]
    if keep:
        np.testing.assert_array_equal(found, x)
    else:
        assert found == [None, None]
    assert home.open(backend, keep_embeddings=not keep).keep_embeddings is not keep
    assert home.open(backend).keep_embeddings is not keep


def test_sessions_are_kept(home, joint) -> None:
    """As Backend.enroll with all sessions at once, within float32's rounding."""
    gallery = home.open(joint)
    x, d = utterances(5, 3)
    gallery.add("ann", joint.enroll(x[:2], d[:2], sessions=["a", "a"]))
    gallery.add_utterance("ann", x[2:], d[2:], sessions=["x", "x", "y"])
    whole = joint.enroll(x, d, sessions=[0, 0, 1, 1, 2])
    np.testing.assert_allclose(np.asarray(gallery.get("ann")), whole.voiceprints, atol=1e-5)


def test_two_ids_become_one_and_part_again(home, any_backend) -> None:
    """Merged: as if enrolled together; parted: each with the bytes of before."""
    gallery = home.open(any_backend, keep_embeddings=True)
    x, d = utterances(5, 3)
    gallery.add("ann", any_backend.enroll(x[:3], d[:3]), tags={"tenant": "acme", "a": "1"})
    gallery.add("anne", any_backend.enroll(x[3:], d[3:]), tags={"tenant": "other", "b": "2"})
    before = {name: stored(gallery, name) for name in ("ann", "anne")}
    theirs = [it.number for it in gallery.utterances("anne")]
    gallery.merge("ann", "anne")
    assert list(gallery) == ["ann"]
    assert gallery.tags("ann") == {"tenant": "acme", "a": "1", "b": "2"}
    whole = any_backend.enroll(x, d)
    np.testing.assert_allclose(np.asarray(gallery.get("ann")), whole.voiceprints, atol=1e-5)
    gallery.split("ann", "anne", theirs)
    assert {name: stored(gallery, name) for name in ("ann", "anne")} == before
    assert [it.number for it in gallery.utterances("anne")] == theirs
    np.testing.assert_array_equal([it.embedding for it in gallery.utterances("anne")], x[3:])


def test_merging_speakers_that_came_as_voiceprints(home, backend, prints) -> None:
    gallery = home.open(backend)
    gallery.add("a", prints[:2])
    gallery.add("b", backend.enroll(*utterances(2, 3)))
    gallery.add("c", prints[2:4])
    rows = [np.asarray(gallery.get(name)) for name in "bac"]
    gallery.merge("a", "b")
    np.testing.assert_array_equal(np.asarray(gallery.get("a")), np.concatenate(rows[:2]))
    gallery.merge("a", "c")
    np.testing.assert_array_equal(np.asarray(gallery.get("a")), np.concatenate(rows))
    assert list(gallery) == ["a"] and len(gallery.utterances("a")) == 6


def test_a_renamed_speaker_keeps_everything(home, backend, prints) -> None:
    gallery = home.open(backend)
    x, d = utterances(2, 3)
    gallery.add("ann", backend.enroll(x, d), source="s", tags={"tenant": "acme"})
    before = stored(gallery, "ann"), [it.number for it in gallery.utterances("ann")]
    gallery.rename("ann", "änne")
    assert "ann" not in gallery and list(gallery) == ["änne"]
    assert (stored(gallery, "änne"), [it.number for it in gallery.utterances("änne")]) == before
    assert gallery.tags("änne") == {"tenant": "acme"}
    gallery.add("ann", prints[0])
    assert gallery.tags("ann") == {}


def test_coherence_finds_the_stranger(home, any_backend) -> None:
    """Against the LLRs of Backend.verify with a speaker of the others; within 1e-3."""
    x, d = utterances(6, 8, people=2)  # 0 and 1 take turns
    own, stranger = [0, 2, 4], 1
    rows = [*own[:2], stranger, own[2]]
    gallery = home.open(any_backend)
    gallery.add("ann", any_backend.enroll(x[rows], d[rows]))
    found = gallery.coherence("ann")
    for place, (utterance, llr) in enumerate(found):
        rest = [row for k, row in enumerate(rows) if k != place]
        others = any_backend.enroll(x[rest], d[rest])
        truth = any_backend.verify(others, x[rows[place]], float(d[rows[place]]), prior=0.5).llr
        assert llr == pytest.approx(truth, abs=1e-3, rel=1e-4)
        assert utterance.number == gallery.utterances("ann")[place].number
    if any_backend.joint is not None:
        assert int(np.argmin([llr for _, llr in found])) == 2
    gallery.add("bob", any_backend.enroll(x[0], d[0]))
    assert gallery.coherence("bob") == []


def test_only_what_is_sure_and_agrees_is_learnt(home, joint) -> None:
    x, d = utterances(8, 8, people=2)
    gallery = home.open(joint)
    gallery.add("ann", joint.enroll(x[[0, 2]], d[[0, 2]]))
    before = stored(gallery, "ann")
    for row, above in ((1, 0.5), (4, 100)):
        truth = joint.verify(gallery.get("ann"), x[row], float(d[row]), prior=0.5).llr
        least = truth + above
        answer = gallery.add_verified("ann", x[row], float(d[row]), least_llr=least)
        assert not answer.added and f"is below {least:g}" in answer.reason
        assert answer.llr == pytest.approx(truth) and stored(gallery, "ann") == before
    llr = joint.verify(gallery.get("ann"), x[4], float(d[4]), prior=0.5).llr
    refused = gallery.add_verified("ann", x[4], float(d[4]), least_llr=llr - 1, agree=1e6)
    assert not refused.added and "agrees with the others by" in refused.reason
    assert stored(gallery, "ann") == before
    answer = gallery.add_verified("ann", x[4], float(d[4]), least_llr=llr - 1, source="call 4")
    assert answer.added and answer.llr == pytest.approx(llr) and answer.reason == ""
    agreed = [it.llr for it in gallery.coherence("ann")]
    assert answer.least_agreement == pytest.approx(min(agreed), abs=1e-3)
    assert [it.source for it in gallery.utterances("ann")] == ["", "", "call 4"]


def test_two_processes_change_one_speaker(home, backend) -> None:
    """Neither loses the other's utterance."""
    x, d = utterances(21, 3)
    galleries = [home.open(backend), home.open(backend)]
    galleries[0].add("ann", backend.enroll(x[0], d[0]))

    def more(gallery: Gallery, rows: range) -> None:
        for row in rows:
            gallery.add_utterance("ann", x[row], float(d[row]), source=str(row))

    threads = [
        threading.Thread(target=more, args=(gallery, range(1 + k, 21, 2)))
        for k, gallery in enumerate(galleries)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sources = [it.source for it in galleries[0].utterances("ann")]
    assert sorted(sources[1:], key=int) == [str(row) for row in range(1, 21)]
    assert len(np.asarray(galleries[1].get("ann"))) == 21


# Tags


def test_a_search_asks_for_tags(home, backend, prints) -> None:
    """As a search of a gallery of those speakers alone, and so is the probability."""
    gallery, alone = home.open(backend), home.open(backend, "alone")
    for i, row in enumerate(prints[:60]):
        tags = {"tenant": "acme" if i % 3 else "other", "language": "de" if i % 2 else "en"}
        gallery.add(f"s{i}", row, tags=tags)
        if i % 3 and i % 2:
            alone.add(f"s{i}", row)
    asked = {"tenant": "acme", "language": "de"}
    assert gallery.search_many(prints[100:103], 99, tags=asked) == alone.search_many(
        prints[100:103], 99
    )
    probe = prints[100]
    one, two = (
        gallery.identify(probe, prior=0.9, tags=asked),
        alone.identify(probe, prior=0.9),
    )
    assert (one.speaker, one.posterior, one.speakers) == (two.speaker, two.posterior, len(alone))
    assert gallery.search(probe, tags={"tenant": "nobody"}) == []
    assert len(gallery.search(probe, 99, tags={})) == 60
    reader = home.open(backend)
    assert "s1" in dict(reader.search(probe, 99, tags=asked))
    gallery.tag("s1", {"language": "en", "vip": "yes"})
    assert gallery.tags("s1") == {"language": "en", "tenant": "acme", "vip": "yes"}
    gallery.tag("s1", {"vip": None})
    assert gallery.tags("s1") == {"language": "en", "tenant": "acme"}
    for handle in (gallery, reader):
        assert "s1" not in dict(handle.search(probe, 99, tags=asked))
    gallery.replace("s5", prints[70])
    assert "s5" in dict(reader.search(probe, 99, tags=asked))
    gallery.remove("s5")
    assert "s5" not in dict(reader.search(probe, 99, tags=asked))


# Decisions


def test_decisions_are_logged_without_vectors(home, backend) -> None:
    gallery = home.open(backend, audit=True)
    x, d = utterances(4, 3)
    gallery.add("ann", backend.enroll(x[:2], d[:2]))
    begin = time.time()
    answer = gallery.verify("ann", x[2], float(d[2]), prior=0.01, cost_miss=10)
    named = gallery.identify(backend.enroll(x[3], d[3]), prior=0.5, cost_fa=3)
    assert (answer.speaker, answer.prior, answer.cost_miss) == ("ann", 0.01, 10.0)
    assert answer.model == backend.info.fingerprint and begin <= answer.time <= time.time()
    assert answer.seconds == pytest.approx(float(d[2]))
    first, second = gallery.decisions()
    assert first == (
        answer.time, "verify", "ann", "accept" if answer.accept else "reject", answer.llr,
        answer.threshold, answer.posterior, 0.01, 10.0, 1.0, answer.seconds, answer.model,
    )  # fmt: skip
    assert second.kind == "identify" and second.speaker == "ann" and second.threshold == 0.75
    assert second.decision == ("reject" if named.speaker is None else "accept")
    gallery.note(backend.verify(gallery.get("ann"), x[2], float(d[2]), prior=0.5))
    assert len(gallery.decisions("ann")) == 3 and gallery.decisions("bob") == []
    assert len(gallery.decisions(since=answer.time + 1e-6)) == 2
    quiet = home.open(backend)
    quiet.verify("ann", x[2], float(d[2]), prior=0.01)
    assert len(quiet.decisions()) == 3
    gallery.erase("ann")
    assert len(gallery.decisions("ann")) == 3
    gallery.add("ann", backend.enroll(x[:2], d[:2]))
    gallery.erase("ann", decisions=True)
    assert gallery.decisions() == []


# Copies


def test_a_backup_is_of_one_moment_while_others_write(home, backend, prints, tmp_path) -> None:
    """Pairs are added and removed together: no copy has one without the other."""
    gallery = fill(home.open(backend), prints[:30])
    x, d = utterances(2, 3)
    gallery.add("ann", backend.enroll(x, d), source="calls", tags={"tenant": "acme"})
    writer, stop = home.open(backend), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            writer.add_many([(f"a{number}", prints[50]), (f"b{number}", prints[51])])
            if number > 3:
                writer.remove(f"a{number - 3}", f"b{number - 3}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for copy in range(4):
            gallery.backup(str(tmp_path / f"copy{copy}.db"))
    finally:
        stop.set()
        thread.join()
    for copy in range(4):
        with Gallery.open(tmp_path / f"copy{copy}.db", backend, create=False) as found:
            names = set(found)
            assert {f"s{i}" for i in range(30)} | {"ann"} <= names
            moving = {name for name in names if name[0] in "ab" and name != "ann"}
            assert {name[1:] for name in moving if name[0] == "a"} == {
                name[1:] for name in moving if name[0] == "b"
            }
            assert stored(found, "ann") == stored(gallery, "ann")
            assert [it.source for it in found.utterances("ann")] == ["calls", "calls"]
            assert found.tags("ann") == {"tenant": "acme"}
            found.add("late", prints[60])
    assert not list(tmp_path.glob(".*"))


def test_a_gallery_that_was_closed_says_so(home, backend, prints) -> None:
    gallery = home.open(backend)
    gallery.close()
    for act in (lambda: gallery.add("a", prints[0]), lambda: gallery.utterances("a")):
        with pytest.raises(GalleryError, match="was closed"):
            act()
    assert "Gallery(" in repr(gallery)


def test_an_extractor_is_agreed_on(home, small_bundle, tmp_path) -> None:
    from dcaplda.runtime.extractors.note import ExtractorNote

    one, two = Backend.load(small_bundle), Backend.load(small_bundle)
    one.extractor = ExtractorNote("1" * 64, "", "a")
    two.extractor = ExtractorNote("2" * 64, "", "b")
    home.open(one)
    with pytest.raises(GalleryError, match="holds speakers of extractor 111111111111"):
        home.open(two)
    third = Backend.load(small_bundle)
    home.open(third)
    assert third.extractor is not None and third.extractor.fingerprint == "1" * 64


def test_an_embedding_is_no_probe(home, backend) -> None:
    gallery = home.open(backend)
    for act in (lambda: gallery.search(np.ones(DIM)), lambda: gallery.add("n", np.ones(DIM))):
        with pytest.raises(InputError, match=r"24 values per row, as an embedding.*enroll\("):
            act()
