import multiprocessing
import os
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
from child_tasks import add_and_search, make_gallery
from golden import EXTRACTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_models import DIM, random_model

from dcaplda.export import parity
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, DcapldaError, InputError
from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.blocks import Shape, VoiceprintBlocks, widen
from dcaplda.runtime.gallery.database.schema import PAGE_BYTES
from dcaplda.runtime.gallery.search import Match
from dcaplda.runtime.gallery.speakers import Gallery
from dcaplda.runtime.gallery.top_matches import search_blocks
from dcaplda.runtime.verification import Speaker

pytestmark = pytest.mark.torch

KALDI_FILES = {"transform": "transform.mat", "mean": "mean.vec", "plda": "plda"}


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=2)


@pytest.fixture(scope="module")
def prints(backend: Backend) -> np.ndarray:
    return backend.voiceprints(*parity.random_side(DIM, 3000, 7))


def filled(path: Path, backend: Backend, prints: np.ndarray, **settings) -> Gallery:
    gallery = Gallery.open(path, backend, **settings)
    gallery.add_many((f"s{i}", row) for i, row in enumerate(prints))
    return gallery


def expected(llrs: np.ndarray, names: list[str], top_k: int) -> list[Match]:
    """By a full sort; equal LLRs in the order of the names."""
    order = sorted(range(len(llrs)), key=lambda i: (-llrs[i], i))[:top_k]
    return [Match(names[i], float(llrs[i])) for i in order]


@pytest.mark.parametrize("top_k", [1, 10, 5000])
def test_search_is_the_full_sort(backend, prints, tmp_path, top_k: int) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:2500])
    names = [f"s{i}" for i in range(2500)]
    truth = backend.compare(prints[:2500], prints[2500:2510]).T
    for found, llrs in zip(gallery.search_many(prints[2500:2510], top_k), truth, strict=True):
        wanted = expected(llrs, names, top_k)
        assert [m.speaker for m in found] == [m.speaker for m in wanted]
        np.testing.assert_allclose([m.llr for m in found], [m.llr for m in wanted], atol=1e-4)


def test_one_probe_and_many_probes_agree(backend, prints, tmp_path) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:500])
    many = gallery.search_many(prints[500:800], 3)
    for row in (0, 17, 299):
        one = gallery.search(prints[500 + row], 3)
        assert [m.speaker for m in one] == [m.speaker for m in many[row]]


def test_speakers_are_probes_too(backend, prints, tmp_path) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:50])
    x, d = parity.random_side(DIM, 4, 3)
    speakers = [backend.enroll(x[i], d[i]) for i in range(4)]
    by_matrix = gallery.search_many(backend.voiceprints(x, d), 3)
    assert gallery.search_many(speakers, 3) == by_matrix
    with pytest.raises(InputError, match="probe: 2 voiceprints"):
        gallery.search_many([speakers[0], backend.enroll(x[:2], d[:2])])


def test_speakers_of_several_voiceprints_score_their_mean(backend, prints, tmp_path) -> None:
    gallery = Gallery.open(tmp_path / "g.db", backend)
    sizes = np.random.default_rng(0).integers(1, 5, 60)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    for i in range(60):
        gallery.add(f"s{i}", prints[edges[i] : edges[i + 1]])
    llrs = backend.compare(prints[: edges[-1]], prints[-1:])[:, 0]
    means = np.array([llrs[edges[i] : edges[i + 1]].mean() for i in range(60)])
    found = gallery.search(prints[-1], 5)
    best = np.argsort(-means)[:5]
    assert [m.speaker for m in found] == [f"s{i}" for i in best]
    np.testing.assert_allclose([m.llr for m in found], means[best], atol=1e-4)


def test_a_search_equals_a_verification(backend, tmp_path) -> None:
    x, d = parity.random_side(DIM, 5, 3)
    gallery = Gallery.open(tmp_path / "g.db", backend)
    ann = backend.enroll(x[:4], d[:4])
    gallery.add("ann", ann)
    (match,) = gallery.search(backend.enroll(x[4], d[4]))
    assert match.llr == pytest.approx(backend.verify(ann, x[4], d[4], prior=0.5).llr, abs=1e-4)


def test_a_model_that_tells_its_sides_apart_keeps_them(tmp_path) -> None:
    """Kaldi's PLDA counts the utterances of an enrolment, so the gallery must be that side."""
    from dcaplda.bin.import_model import main as import_model

    root = EXTRACTS / "kaldi"
    files = [f"--{name}={root / file}" for name, file in KALDI_FILES.items()]
    assert import_model(["--from=kaldi", *files, str(tmp_path / "kaldi")]) == 0
    backend = Backend.load(tmp_path / "kaldi")
    x = np.random.default_rng(0).standard_normal((40, backend.info.embedding_dim))
    speakers = [backend.enroll(x[i : i + 3], multi_enroll="voiceprints") for i in range(0, 30, 3)]
    probe = backend.enroll(x[35])
    llrs = backend.compare(np.concatenate(speakers), probe.voiceprints)[:, 0]
    swapped = backend.compare(probe.voiceprints, np.concatenate(speakers))[0]
    assert np.abs(llrs - swapped).max() > 0.01
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        gallery.add_many((f"s{i}", it) for i, it in enumerate(speakers))
        found = dict(gallery.search(probe, 10))
    for i, llr in enumerate(llrs):
        assert found[f"s{i}"] == pytest.approx(llr, abs=1e-4)


class Model:
    """What a gallery ought to be: a dictionary of rows, in the order of their last arrival."""

    def __init__(self, blocks: VoiceprintBlocks) -> None:
        self.blocks = blocks
        self.speakers: dict[int, np.ndarray] = {}
        self.next = 1

    def add(self, sizes: list[int], rng: np.random.Generator) -> None:
        rows = []
        for size in sizes:
            matrix = rng.standard_normal((size, self.blocks.width)).astype(np.float32)
            self.speakers[self.next] = matrix
            rows.append((self.next, f"s{self.next}", matrix.tobytes()))
            self.next += 1
        self.blocks.append(rows)

    def remove(self, numbers: list[int]) -> None:
        self.blocks.remove(numbers)
        for number in numbers:
            self.speakers.pop(number, None)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_blocks_are_a_dictionary_and_snapshots_stay(data: st.DataObject) -> None:
    """Any order of additions and removals, with blocks of 8 rows and speakers of up to 20."""
    rng = np.random.default_rng(0)
    blocks = VoiceprintBlocks("g", Shape(3, np.dtype(np.float32)))
    blocks.block_rows = 8
    model = Model(blocks)
    snapshots = []
    for _ in range(data.draw(st.integers(1, 12))):
        if model.speakers and data.draw(st.booleans()):
            known = st.sampled_from(sorted(model.speakers))
            model.remove(data.draw(st.lists(known, min_size=1, max_size=9, unique=True)))
        else:
            model.add(data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=12)), rng)
        truth = {number: rows.copy() for number, rows in model.speakers.items()}
        snapshots.append((blocks.blocks, truth))
    for taken, truth in snapshots:
        found = {}
        for block in taken:
            assert block.used <= len(block.rows)
            for i, number in enumerate(block.numbers.tolist()):
                found[number] = block.rows[block.offsets[i] : block.offsets[i + 1]]
                assert block.ids[i] == f"s{number}"
        assert list(found) == sorted(truth)
        assert all(np.array_equal(found[number], truth[number]) for number in truth)


def test_two_versions_of_a_block_do_not_share_what_is_new() -> None:
    """As when a search in a handler of signals comes into the middle of another."""
    shape = Shape(3, np.dtype(np.float32))
    base = VoiceprintBlocks("g", shape)
    base.append([(1, "a", np.full(3, 1, np.float32).tobytes())])
    versions = []
    for number in (2, 3):
        made = VoiceprintBlocks("g", shape)
        made.blocks = base.blocks
        made.append([(number, f"s{number}", np.full(3, number, np.float32).tobytes())])
        versions.append(made)
    for number, made in zip((2, 3), versions, strict=True):
        (block,) = made.blocks
        assert block.ids[: len(block.numbers)] == ["a", f"s{number}"]
        assert block.rows[: block.used].tolist() == [[1.0] * 3, [float(number)] * 3]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 40), st.integers(1, 12), st.integers(1, 4), st.integers(1, 2), st.integers(0, 9)
)
def test_top_matches_survive_ties(count, top_k, n_probes, threads, seed) -> None:
    """LLRs from three values only: almost all are ties, which go by order of arrival."""
    rng = np.random.default_rng(seed)
    blocks = VoiceprintBlocks("g", Shape(4, np.dtype(np.float32)))
    blocks.block_rows = 5
    rows = rng.integers(0, 2, (count, 4)).astype(np.float32)
    if count:
        blocks.append([(i + 1, f"s{i}", row.tobytes()) for i, row in enumerate(rows)])
    probes = rng.integers(0, 2, (n_probes, 4)).astype(np.float32)
    found = search_blocks(lambda a, b: a @ b.T, blocks.blocks, probes, top_k, threads, True)
    for probe in range(n_probes):
        llrs = rows @ probes[probe]
        order = np.lexsort((np.arange(count), -llrs))[:top_k]
        assert found.places[probe].tolist() == order.tolist()
        assert found.llrs[probe].tolist() == llrs[order].tolist()
        if count:
            assert found.mean_likelihood_ratio is not None
            mean = np.log(np.mean(np.exp(llrs)))
            assert found.mean_likelihood_ratio[probe] == pytest.approx(mean, abs=1e-5)


def test_identify_is_bayes_rule(backend, prints, tmp_path) -> None:
    """Written out: prior / N for each speaker, the rest for nobody; within 1e-4."""
    gallery = filled(tmp_path / "g.db", backend, prints[:200])
    for row in range(200, 260):
        llrs = backend.compare(prints[:200], prints[row : row + 1])[:, 0].astype(np.float64)
        for prior, miss, fa in ((0.5, 1, 1), (0.99, 20, 1), (0.1, 1, 5)):
            weights = prior / 200 * np.exp(llrs)
            truth = weights.max() / (weights.sum() + 1 - prior)
            answer = gallery.identify(prints[row], prior=prior, cost_miss=miss, cost_fa=fa)
            assert answer.posterior == pytest.approx(truth, abs=1e-4)
            assert answer.llr == pytest.approx(llrs.max(), abs=1e-4)
            if abs(truth * miss - (1 - truth) * fa) > 1e-3:
                named = truth * miss > (1 - truth) * fa
                assert answer.speaker == (f"s{llrs.argmax()}" if named else None)


def test_identify_against_one_speaker_is_a_verification(backend, tmp_path) -> None:
    x, d = parity.random_side(DIM, 10, 3)
    for row in range(1, 10):
        with Gallery.open(tmp_path / f"{row}.db", backend) as gallery:
            gallery.add("ann", backend.enroll(x[0], d[0]))
            found = gallery.identify(backend.enroll(x[row], d[row]), prior=0.3, cost_miss=4)
        answer = backend.verify(backend.enroll(x[0], d[0]), x[row], d[row], prior=0.3, cost_miss=4)
        assert found.posterior == pytest.approx(answer.posterior, abs=1e-5)
        assert (found.speaker == "ann") == answer.accept


def test_changes_are_there_when_opened_again(backend, prints, tmp_path) -> None:
    path = tmp_path / "g.db"
    with filled(path, backend, prints[:50]) as gallery:
        gallery.remove("s3", "s4")
        gallery.replace("s5", prints[60:62])
        gallery.add("new", prints[70])
        before = gallery.search_many(prints[100:103], 60)
        names = list(gallery)
    with Gallery.open(path, backend, create=False) as gallery:
        assert len(gallery) == 49
        assert "s3" not in gallery and "s5" in gallery
        assert not any(name in gallery for name in ("\ud800", "a\0", "", 5, None))
        assert gallery.get("\ud800") is None
        assert list(gallery) == names
        assert gallery.get("s4") is None
        found = gallery.get("s5")
        assert found is not None
        np.testing.assert_array_equal(found.voiceprints, prints[60:62])
        assert gallery.search_many(prints[100:103], 60) == before


def test_an_empty_gallery_finds_nobody(backend, prints, tmp_path) -> None:
    gallery = Gallery.open(tmp_path / "g.db", backend)
    assert len(gallery) == 0
    assert gallery.search(prints[0]) == []
    assert gallery.search_many(prints[:2]) == [[], []]
    assert gallery.identify(prints[0], prior=0.5).speaker is None
    gallery.add("a", prints[0])
    gallery.remove("a")
    assert gallery.search(prints[0]) == []


def test_other_handles_see_changes_at_their_next_search(backend, prints, tmp_path) -> None:
    writer = filled(tmp_path / "g.db", backend, prints[:20])
    reader = Gallery.open(tmp_path / "g.db", backend)
    assert len(reader.search(prints[500], 100)) == 20
    writer.add("new", prints[600])
    assert len(reader.search(prints[500], 100)) == 21
    writer.remove("new", "s0")
    assert {m.speaker for m in reader.search(prints[500], 100)} == {f"s{i}" for i in range(1, 20)}
    reader.replace("s1", prints[601])
    np.testing.assert_array_equal(writer.get("s1").voiceprints[0], prints[601])
    assert writer.search(prints[500], 100) == reader.search(prints[500], 100)


def test_a_gallery_survives_a_fork(backend, prints, tmp_path) -> None:
    """Parent and child both go on with it, and see each other's changes."""
    gallery = filled(tmp_path / "g.db", backend, prints[:30])
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child() -> None:
        gallery.add("from-child", prints[31])
        send.send(len(gallery.search(prints[-1], 100)))

    process = context.Process(target=child)
    process.start()
    assert receive.poll(30) and receive.recv() == 31
    process.join(10)
    assert "from-child" in {m.speaker for m in gallery.search(prints[-1], 100)}
    gallery.add("from-parent", prints[32])
    assert len(gallery) == 32


def test_processes_write_in_turns(small_bundle: Path, backend, prints, tmp_path) -> None:
    path = tmp_path / "g.db"
    tasks = [(str(small_bundle), str(path), k, prints[50 * k : 50 * k + 50]) for k in range(3)]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map_async(add_and_search, tasks).get(timeout=90) == [True] * 3
    with Gallery.open(path, backend) as gallery:
        assert sorted(gallery) == sorted(f"p{k}-{i}" for k in range(3) for i in range(50))


def test_processes_that_make_one_gallery_at_once_wait_for_each_other(
    small_bundle: Path, tmp_path
) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        for number in range(8):
            path, when = str(tmp_path / f"{number}.db"), time.time() + (2.0 if not number else 0.2)
            tasks = [(str(small_bundle), path, when)] * 4
            made = pool.map_async(make_gallery, tasks, chunksize=1).get(timeout=90)
            assert made == ["float32"] * 4


def test_float16_is_close_and_smaller(backend, prints, tmp_path) -> None:
    """Relative rounding of 2^-11 per value; here LLRs change by less than 0.05."""
    small = filled(tmp_path / "h.db", backend, prints[:2000], storage="float16")
    full = filled(tmp_path / "f.db", backend, prints[:2000])
    assert small.storage == Gallery.open(tmp_path / "h.db", backend).storage == "float16"
    a, b = dict(small.search(prints[-1], 2000)), dict(full.search(prints[-1], 2000))
    differences = [abs(a[name] - b[name]) for name in b]
    assert 0 < max(differences) < 0.05
    rounded = prints[:1].astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(small.get("s0").voiceprints, rounded)
    small.close()
    full.close()
    Gallery.open(tmp_path / "e.db", backend).close()
    empty = os.path.getsize(tmp_path / "e.db")
    data = [os.path.getsize(tmp_path / name) - empty for name in ("h.db", "f.db")]
    assert data[0] < 0.75 * data[1]  # the ids are stored as well


def test_widening_is_numpys_own_conversion() -> None:
    """All 63,488 finite halves, bit for bit."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(-1, 64)
    out = np.empty(finite.shape, np.float32)
    widen(finite, out)
    np.testing.assert_array_equal(out.view(np.uint32), finite.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 6.4e4])
def test_rows_that_are_not_finite_or_too_long_are_refused(dtype, value) -> None:
    blocks = VoiceprintBlocks("g.db", Shape(4, np.dtype(dtype)))
    largest = np.full(4, 4.9e4, dtype)  # of length 98,000, the limit is 100,000
    blocks.append([(1, "a", largest.tobytes()), (2, "b", (-largest).tobytes())])
    bad = np.array([6.4e4, 6.4e4, value, 6.4e4], dtype)
    with pytest.raises(GalleryError, match="g.db: a voiceprint of 'd' is not finite"):
        blocks.append([(3, "c", largest.tobytes() * 2), (4, "d", bad.tobytes())])
    blocks.append([(3, "c", largest.tobytes())])
    assert blocks.blocks[0].ids == ["a", "b", "c"] and len(blocks) == 3


def test_float16_refuses_what_it_cannot_hold(backend, prints, tmp_path) -> None:
    gallery = Gallery.open(tmp_path / "g.db", backend, storage="float16")
    large = prints[0].copy()
    large[3] = 7e4
    with pytest.raises(InputError, match="'ann': 70000 is more than float16 can hold"):
        gallery.add("ann", large)
    assert len(gallery) == 0


def test_a_gallery_of_another_model_is_refused(backend, prints, tmp_path) -> None:
    filled(tmp_path / "g.db", backend, prints[:2]).close()
    export_model(random_model("d-plda-dsd", seed=9), tmp_path / "other")
    with pytest.raises(GalleryError, match="another model.*enrol again"):
        Gallery.open(tmp_path / "g.db", Backend.load(tmp_path / "other"))


def foreign(path: Path, kind: str) -> None:
    if kind == "text":
        path.write_text("utt1 3.0\n" * 500)
    elif kind == "other sqlite":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE t(x)")
    elif kind == "directory":
        path.mkdir()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "not a gallery"),
        ("other sqlite", "an SQLite file, but not a gallery"),
        ("directory", "unable to open"),
    ],
)
def test_other_files_are_refused_and_not_touched(backend, tmp_path, kind, message) -> None:
    path = tmp_path / "g.db"
    foreign(path, kind)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(GalleryError, match=message) as caught:
        Gallery.open(path, backend)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE settings SET value = 99 WHERE name = 'version'", "version 99 is newer.*upgrade"),
        ("UPDATE speakers SET voiceprints = x'0011' WHERE id = 's1'", "'s1' has 2 bytes.*damaged"),
        ("UPDATE speakers SET voiceprints = x'' WHERE id = 's1'", "'s1' has 0 bytes.*damaged"),
        ("DELETE FROM settings WHERE name = 'storage'", "damaged"),
        ("DROP TABLE removals", "no such table"),
        *(
            (f"UPDATE settings SET value = {value} WHERE name = 'version'", "settings are damaged")
            for value in ("'x'", "''", "'1e400'", "'-1'", "0", "x'31'", "'٣'", f"'{'9' * 50}'")
        ),
        ("UPDATE settings SET value = 'int8' WHERE name = 'storage'", "settings are damaged"),
        ("UPDATE settings SET value = x'00' WHERE name = 'storage'", "settings are damaged"),
        ("UPDATE settings SET value = x'00' WHERE name = 'fingerprint'", "settings are damaged"),
        ("UPDATE settings SET value = 'many' WHERE name = 'speakers'", "settings are damaged"),
        ("UPDATE settings SET value = 2 WHERE name = 'speakers'", "other speakers than its sett"),
        ("UPDATE speakers SET voiceprints = 'text' WHERE id = 's1'", "'s1' holds something else"),
        ("UPDATE speakers SET voiceprints = 7 WHERE id = 's1'", "'s1' holds something else"),
        ("UPDATE speakers SET id = x'00' WHERE id = 's1'", "holds something else"),
        ("UPDATE speakers SET id = CAST(x'ff0a' AS TEXT) WHERE id = 's1'", "decode to UTF-8"),
        ("UPDATE speakers SET voiceprints = zeroblob(0) WHERE id = 's1'", "'s1' has 0 bytes"),
        (f"UPDATE speakers SET voiceprints = x'{'ffff7f7f' * 50}' WHERE id = 's1'", "'s1'"),
        ("DROP TABLE speakers", "no such table|other speakers"),
        ("DROP TABLE settings", "no such table"),
        ("INSERT INTO placed VALUES (1, x'00')", "'s0' was enr"),
        ("INSERT INTO placed VALUES (1, 5)", "'s0' was enrol"),
    ],
)
def test_a_damaged_gallery_is_refused(backend, prints, tmp_path, statement, message) -> None:
    """With checksums, and as a gallery of before there were any."""
    for name, before, words in (
        ("new", "", f"{message}|is not as it was written"),
        ("old", "DROP TABLE sums; ", message),
    ):
        path = tmp_path / name
        filled(path, backend, prints[:3]).close()
        with sqlite3.connect(path) as connection:
            connection.executescript(before + statement)
        with pytest.raises(GalleryError, match=words) as caught:
            Gallery.open(path, backend)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["'{'", "'5'", "'[1]'", "'[[\"a\"]]'", "x'00'", "7.5", "'null'", f"'{'[' * 100_000}'"]
)
def test_damaged_warnings_are_one_line(backend, prints, tmp_path, value) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:3])
    with sqlite3.connect(tmp_path / "g.db") as connection:
        connection.execute(f"UPDATE speakers SET warnings = {value} WHERE id = 's1'")
    with pytest.raises(GalleryError, match="the warnings of 's1' are damaged"):
        gallery.get("s1")
    with pytest.raises(GalleryError, match="the warnings of 's1' are damaged"):
        gallery.identify(prints[1], prior=0.5)
    assert len(gallery.search(prints[1])) == 3, "who needs no warnings is not hindered"


def test_a_blob_that_is_damaged_later_is_one_line(backend, prints, tmp_path) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:3])
    for value, message in (("x'0011'", "has 2 bytes"), ("7", "something else")):
        with sqlite3.connect(tmp_path / "g.db") as connection:
            connection.execute(f"UPDATE speakers SET voiceprints = {value} WHERE id = 's1'")
        with pytest.raises(GalleryError, match=f"{message}|not as it was written"):
            gallery.get("s1")


@pytest.mark.parametrize("path", ["", ":memory:", b"", b":memory:", None, 7, "a\0b", ["g.db"]])
def test_a_name_that_is_no_file_is_refused(backend, path) -> None:
    """SQLite keeps the first two in memory: acknowledged, and lost at the end."""
    with pytest.raises(GalleryError, match="names no file; name one to keep it in"):
        Gallery.open(path, backend)


def test_a_copy_of_the_file_alone_is_whole(backend, prints, tmp_path) -> None:
    """While the gallery is open and its log in use: backups are made like that."""
    gallery = filled(tmp_path / "g.db", backend, prints[:50])
    changes = [
        lambda: gallery.add("new", prints[60]),
        lambda: gallery.remove("s3", "s4"),
        lambda: gallery.replace("s5", prints[61:63]),
    ]
    for number, change in enumerate(changes):
        change()
        copy = tmp_path / f"copy{number}.db"
        shutil.copyfile(tmp_path / "g.db", copy)
        with Gallery.open(copy, backend, create=False) as other:
            assert list(other) == list(gallery)
            assert other.search_many(prints[100:103], 60) == gallery.search_many(
                prints[100:103], 60
            )


def test_a_file_whose_contents_were_all_in_its_log_is_noticed(backend, tmp_path) -> None:
    """What is left of a gallery of before that was copied without its log."""
    with sqlite3.connect(tmp_path / "whole.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        shutil.copyfile(tmp_path / "whole.db", tmp_path / "g.db")
    before = (tmp_path / "g.db").read_bytes()
    for create in (True, False):
        with pytest.raises(GalleryError, match="nothing in it.*g.db-wal.*copy both files"):
            Gallery.open(tmp_path / "g.db", backend, create=create)
    assert (tmp_path / "g.db").read_bytes() == before


def test_a_copy_that_lacks_speakers_is_noticed(backend, prints, tmp_path) -> None:
    """Rows that vanish behind the back of SQLite's triggers, as in a torn copy."""
    filled(tmp_path / "g.db", backend, prints[:20]).close()
    with sqlite3.connect(tmp_path / "g.db") as connection:
        (trigger,) = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE name = 'speaker_removed'"
        ).fetchone()
        connection.execute("DROP TRIGGER speaker_removed")
        connection.execute("DELETE FROM speakers WHERE id = 's7'")
        connection.execute(trigger)
    with pytest.raises(GalleryError, match="other speakers than its settings count"):
        Gallery.open(tmp_path / "g.db", backend)


def test_galleries_of_before_learn_to_count(backend, prints, tmp_path) -> None:
    """A gallery without the count opens, and has it after the first change."""
    filled(tmp_path / "g.db", backend, prints[:5]).close()
    with sqlite3.connect(tmp_path / "g.db") as connection:
        connection.execute("DELETE FROM settings WHERE name = 'speakers'")
        connection.execute("DROP TRIGGER speaker_added")
        connection.execute("DROP TRIGGER speaker_removed")
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        assert len(gallery) == 5
        gallery.remove("s0", "s1")
        gallery.add("new", prints[9])
    with sqlite3.connect(tmp_path / "g.db") as connection:
        query = "SELECT value FROM settings WHERE name = 'speakers'"
        assert connection.execute(query).fetchone() == ("4",)
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        assert list(gallery) == ["s2", "s3", "s4", "new"]


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_goes_away_while_it_is_open_is_noticed(backend, prints, tmp_path, how) -> None:
    """Changes would be acknowledged, and be in no file."""
    filled(tmp_path / "other.db", backend, prints[:3]).close()
    gallery = filled(tmp_path / "g.db", backend, prints[:5])
    if how == "removed":
        (tmp_path / "g.db").unlink()
    else:
        os.replace(tmp_path / "other.db", tmp_path / "g.db")
    for act in (lambda: gallery.add("new", prints[9]), lambda: gallery.search(prints[9])):
        with pytest.raises(GalleryError, match="was removed or replaced while it was open"):
            act()
    assert (tmp_path / "g.db").exists() == (how == "replaced")


def test_a_relative_name_stays_the_same_file(backend, prints, tmp_path, monkeypatch) -> None:
    """Through a change of directory and a fork, after which the file is opened again."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    gallery = filled(Path("g.db"), backend, prints[:5])
    monkeypatch.chdir(tmp_path / "elsewhere")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if len(gallery.search(prints[0], 9)) == 5 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    gallery.add("new", prints[9])
    assert not (tmp_path / "elsewhere" / "g.db").exists()
    with Gallery.open(tmp_path / "g.db", backend) as again:
        assert len(again) == 6


def test_what_makes_the_speakers_may_use_the_gallery(backend, prints, tmp_path) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:5])
    gallery.add_many((f"n{len(gallery)}-{k}", prints[k]) for k in range(5, 9))
    assert list(gallery)[5:] == ["n5-5", "n5-6", "n5-7", "n5-8"]


# Voiceprints that no model makes


@pytest.mark.parametrize("factor", [1e14, 1e5, 3e38, np.nan, 0.5, 1.0001])
@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_voiceprints_that_are_none_come_in_nowhere(
    backend, prints, tmp_path, factor, storage
) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:5], storage=storage)
    with np.errstate(over="ignore"):
        strange = (prints[6] * np.float32(factor)).astype(np.float32)
    speaker = Speaker(strange[None], (), backend.info.fingerprint)
    for act in (
        lambda: gallery.add("x", strange),
        lambda: gallery.add("x", speaker),
        lambda: gallery.replace("s1", strange),
        lambda: gallery.search(strange),
        lambda: gallery.search_many(strange[None]),
        lambda: gallery.ranked(strange[None], 1),
        lambda: gallery.identify(speaker, prior=0.5),
        lambda: backend.verify(speaker, np.ones(DIM), 9.0, prior=0.5),
        lambda: backend.verify(strange, np.ones(DIM), 9.0, prior=0.5),
        lambda: backend.compare(strange, prints[:3]),
        lambda: backend.compare_pairs(strange, prints[:1]),
        lambda: list(backend.compare_blocks(prints[:3], strange)),
        lambda: backend.score_trials(strange, prints[:1], [0], [0]),
    ):
        with pytest.raises(InputError, match="has length|holds (nan|-?inf)|no voiceprint of this"):
            act()
    assert list(gallery) == [f"s{i}" for i in range(5)]
    assert gallery.identify(prints[7], prior=0.5).posterior <= 1.0


def test_in_a_file_they_are_damage(backend, prints, tmp_path) -> None:
    filled(tmp_path / "g.db", backend, prints[:3]).close()
    for value in (3e38, 1e14, np.nan, -np.inf, 1.0001):
        with np.errstate(over="ignore"):
            data = (prints[0] * np.float32(value)).tobytes()
        with sqlite3.connect(tmp_path / "g.db") as connection:
            connection.execute("UPDATE speakers SET voiceprints = ? WHERE id = 's1'", (data,))
            connection.execute("DELETE FROM sums")  # as of a gallery of before
        with pytest.raises(GalleryError, match="a voiceprint of 's1' is (not finite|none of)"):
            Gallery.open(tmp_path / "g.db", backend)


def test_a_bit_that_flipped_in_a_voiceprint_is_found(backend, prints, tmp_path) -> None:
    """SQLite itself has no checksum of what it stores; the file is damaged as a disk would."""
    path = tmp_path / "g.db"
    filled(path, backend, prints[:30]).close()
    content = bytearray(path.read_bytes())
    stored = prints[7].tobytes()
    place = bytes(content).index(stored) + 6
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(GalleryError, match="'s7' is not as it was written; restore a copy"):
        Gallery.open(path, backend)


def test_an_index_that_lost_a_speaker_is_found(backend, prints, tmp_path) -> None:
    """Searches read the table, `get` and `add` the index of ids: they must agree."""
    path = tmp_path / "g.db"
    filled(path, backend, prints[:30]).close()
    content = path.read_bytes()
    places = [n for n in range(len(content)) if content.startswith(b"s17", n)]
    assert len(places) == 2, "once in the table, once in the index"
    for place in places:
        damaged = bytearray(content)
        damaged[place + 1] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(GalleryError, match="index of ids is damaged|not as it was written"):
            Gallery.open(path, backend)


def test_a_copy_of_two_moments_is_noticed(backend, prints, tmp_path) -> None:
    """Any one page of a later moment among those of an earlier one: refused, or as it was."""
    path = tmp_path / "g.db"
    filled(path, backend, prints[:30]).close()
    before = path.read_bytes()
    with Gallery.open(path, backend) as gallery:
        gallery.add("late", prints[40])
    after = path.read_bytes()
    refused = 0
    for page in range(0, len(before), PAGE_BYTES):
        torn = before[:page] + after[page : page + PAGE_BYTES] + before[page + PAGE_BYTES :]
        (tmp_path / "torn.db").write_bytes(torn)
        try:
            with Gallery.open(tmp_path / "torn.db", backend, create=False) as gallery:
                assert list(gallery) == [f"s{i}" for i in range(30)]
                gallery.add("late", prints[40])  # nobody has the id
        except GalleryError as error:
            assert "restore a copy" in str(error)
            refused += 1
    assert refused >= 2, "the table's and the index's at least"


def test_a_gallery_without_checksums_is_read_and_gets_them(backend, prints, tmp_path) -> None:
    path = tmp_path / "g.db"
    filled(path, backend, prints[:3]).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE sums")
    with Gallery.open(path, backend) as gallery:
        assert list(gallery) == ["s0", "s1", "s2"]
        gallery.add("new", prints[5])
        gallery.remove("s0")
    with sqlite3.connect(path) as connection:
        assert [n for (n,) in connection.execute("SELECT number FROM sums")] == [4]
    with Gallery.open(path, backend) as gallery:
        assert np.array_equal(np.asarray(gallery.get("new")), prints[5:6])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.floats(-3, 5.5), st.floats(-3, 5.5))
def test_what_passes_is_compared_alike_in_every_way(backend, seed, enroll, test) -> None:
    """Any direction and length that is let in: dense, in pairs, by score_trials, in a search.

    All LLRs are finite and agree within float32's rounding of the terms that they are made of.
    """
    rng = np.random.default_rng(seed)
    sides = []
    for power in (enroll, test):
        row = rng.standard_normal(backend.info.voiceprint_dim)
        row *= 10.0**power / np.linalg.norm(row)
        row[backend.ones] = 1.0
        sides.append(row.astype(np.float32)[None])
    try:
        dense = backend.tile(*sides).item()
        found = [
            dense,
            backend.compare_pairs(*sides).item(),
            backend.compare(np.repeat(sides[0], 3, 0), sides[1])[1, 0],
            backend.score_trials(*sides, [0], [0])[0],
        ]
    except InputError as error:
        assert "has length" in str(error) and max(enroll, test) > 4.99 or "an LLR is" in str(error)
        return
    assert np.isfinite(found).all()
    scale = max(1.0, (10.0**enroll + 10.0**test) ** 2) ** 3
    np.testing.assert_allclose(found, dense, rtol=1e-3, atol=1e-5 * scale)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, v: g.add("s1", v[0]), "'s1' is already there; replace"),
        (lambda g, v: g.add_many([("n", v[0]), ("n", v[1])]), "'n' is already there"),
        (lambda g, v: g.remove("x"), "no speaker 'x'"),
        (lambda g, v: g.remove("s1", "s1"), "no speaker 's1'"),
        (lambda g, v: g.replace("x", v[0]), "no speaker 'x'"),
        (lambda g, v: g.add(" two words", v[0]), "without blanks around"),
        (lambda g, v: g.add("", v[0]), "expected a name without control"),
        (lambda g, v: g.add(7, v[0]), "expected a name without control"),
        (lambda g, v: g.add("n", v[0][:5]), "speaker 'n': 5 values per row"),
        (lambda g, v: g.add("n", v[0] * np.nan), "speaker 'n': row 0 holds nan"),
        (lambda g, v: g.search(v[:2]), "probe: 2 voiceprints"),
        (lambda g, v: g.search(v[0], 0), "top_k = 0"),
        (lambda g, v: g.search(v[0], 2.5), "top_k = 2.5: expected a whole number"),
        (lambda g, v: g.search(v[0], 10**400), "top_k = 1000.*: expected a whole number"),
        (lambda g, v: g.search(v[0], True), "top_k = True"),
        (lambda g, v: g.search(v[0], "3"), "top_k = '3'"),
        (lambda g, v: g.search_many(v[:2], np.float64(3)), "top_k = "),
        (lambda g, v: g.search(v[0] + 1j), "probe: holds complex numbers"),
        (lambda g, v: g.search(np.ma.array(v[0], mask=v[0] > 0)), "probe: some values are masked"),
        (lambda g, v: g.add("\ud800", v[0]), "expected a name without control"),
        (lambda g, v: g.add("a\0b", v[0]), "expected a name without control"),
        (lambda g, v: g.add("\x1b[2J", v[0]), "expected a name without control"),
        (lambda g, v: g.add("x" * 5000, v[0]), "expected a name without control"),
        (lambda g, v: g.remove("\ud800"), "expected a name without control"),
        (lambda g, v: g.remove(None), "expected a name without control"),
        (lambda g, v: g.replace("a\0", v[0]), "expected a name without control"),
        (lambda g, v: g.add("n", Speaker(v[:1], (5,))), "speaker: warnings are"),
        (lambda g, v: g.identify(v[0], prior=10**400), "prior"),
        (lambda g, v: g.identify(v[0], prior="0.5"), "prior"),
        (lambda g, v: g.identify(v[0], prior=0.5, cost_miss=1e308, cost_fa=1e308), "cost of a"),
        (lambda g, v: g.search(v[0] * np.inf), "probe: row 0 holds"),
        (lambda g, v: g.identify(v[0], prior=0), "prior"),
        (lambda g, v: g.identify(v[0], prior=0.5, cost_fa=-1), "cost of a"),
    ],
)
def test_bad_calls_change_nothing_and_are_named(backend, prints, tmp_path, call, message) -> None:
    gallery = filled(tmp_path / "g.db", backend, prints[:3])
    with pytest.raises(DcapldaError, match=message) as caught:
        call(gallery, prints)
    assert "\n" not in str(caught.value)
    assert list(gallery) == ["s0", "s1", "s2"]
    assert list(Gallery.open(tmp_path / "g.db", backend)) == ["s0", "s1", "s2"]


def test_a_missing_gallery_is_made_only_if_wanted(backend, tmp_path) -> None:
    with pytest.raises(GalleryError, match="no such gallery"):
        Gallery.open(tmp_path / "g.db", backend, create=False)
    assert not (tmp_path / "g.db").exists()
    with pytest.raises(GalleryError, match="storage = 'int8'"):
        Gallery.open(tmp_path / "g.db", backend, storage="int8")


def test_a_closed_gallery_says_so(backend, prints, tmp_path) -> None:
    gallery = Gallery.open(tmp_path / "g.db", backend)
    gallery.close()
    with pytest.raises(GalleryError, match="was closed"):
        gallery.add("a", prints[0])
