"""Galleries opened with index='codes' against the same galleries searched exactly."""

import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from child_tasks import add_speaker
from coded_world import mild_bundle, people
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joint_models import joint_bundle, utterances

from dcaplda.runtime import Backend, InputError
from dcaplda.runtime.gallery import coded_search, side
from dcaplda.runtime.gallery.memory import CodedMemory
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch
pytest.importorskip("faiss")

PEOPLE = 3000


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(side, "LEAST_CODED", 500)
    monkeypatch.setattr(side, "TAIL", 400)
    monkeypatch.setattr(coded_search, "CANDIDATES", 60)
    monkeypatch.setattr(coded_search, "PROOF_ROWS", 200)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Backend, first utterances, second utterances."""
    backend = mild_bundle(tmp_path_factory.mktemp("b") / "m")
    return backend, *people(backend, PEOPLE)


def filled(path: Path, backend: Backend, prints: np.ndarray, **settings) -> Path:
    with Gallery.open(path, backend, **settings) as gallery:
        gallery.add_many((f"s{i}", row) for i, row in enumerate(prints))
    return path


def coded(path: Path, backend: Backend) -> Gallery:
    gallery = Gallery.open(path, backend, index="codes")
    assert isinstance(gallery._mirror.now(), CodedMemory)
    return gallery


def names(found) -> list[str]:
    return [match.speaker for match in found]


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_the_first_of_clear_matches_is_that_of_exact_search(world, tmp_path, storage: str) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first, storage=storage)
    with Gallery.open(path, backend) as exact, coded(path, backend) as gallery:
        right, quick = exact.search_many(second[:300], 5), gallery.search_many(second[:300], 5)
        one = [gallery.search(row, 5) for row in second[:20]]
    clear = [a[0].llr > np.log(PEOPLE) for a in right]
    assert sum(clear) > 100
    for a, b, is_clear in zip(right, quick, clear, strict=True):
        if is_clear:
            assert a[0].speaker == b[0].speaker
            assert b[0].llr == pytest.approx(a[0].llr, abs=1e-3 + 1e-5 * abs(a[0].llr))
        if b.exact:
            assert names(a) == names(b)
        assert b.exact == (b.missed == 0.0)
    assert [names(it) for it in one] == [names(it) for it in quick[:20]]


def test_missed_is_what_is_missed(world, tmp_path, monkeypatch) -> None:
    backend, first, _ = world
    monkeypatch.setattr(coded_search, "CANDIDATES", 4)  # too few, so that some are missed
    path = filled(tmp_path / "g.db", backend, first)
    with Gallery.open(path, backend) as exact, coded(path, backend) as gallery:
        strangers = people(backend, 600, seed=9)[0]  # whom nobody matches clearly
        right, quick = exact.search_many(strangers, 1), gallery.search_many(strangers, 1)
    wrong = sum(names(a) != names(b) for a, b in zip(right, quick, strict=True))
    told = sum(min(b.missed, 1.0) for b in quick)
    # An estimate that takes the worst calibration for everybody: more than there are, not less.
    assert 3 <= wrong <= told


@pytest.mark.parametrize(("least", "most"), [(10, 10), (10, 60), (30, 90)])
def test_what_is_proved_is_right(world, tmp_path, monkeypatch, least: int, most: int) -> None:
    backend, first, second = world
    monkeypatch.setattr(coded_search, "CANDIDATES", least)
    monkeypatch.setattr(coded_search, "PROOF_ROWS", most)
    path = filled(tmp_path / "g.db", backend, first)
    probes = np.concatenate([second[:300], people(backend, 200, seed=9)[0]])
    with Gallery.open(path, backend) as exact, coded(path, backend) as gallery:
        for top_k in (1, 2):
            right, quick = exact.search_many(probes, top_k), gallery.search_many(probes, top_k)
            proved = [it.proved for it in quick]
            assert 0.02 < np.mean(np.array(proved) > 0) < 0.98
            for a, b in zip(right, quick, strict=True):
                assert names(a)[: b.proved] == names(b)[: b.proved]
                assert b.exact == (b.proved == top_k) == (b.missed == 0.0)
                assert a.exact and a.proved == top_k


def test_more_are_compared_where_that_proves_the_first(world, tmp_path, monkeypatch) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first)
    monkeypatch.setattr(coded_search, "CANDIDATES", 10)
    compared: list[int] = []
    usual = coded_search._Search._compared

    def counted(self, number, speakers):
        compared[-1] += len(speakers)
        return usual(self, number, speakers)

    monkeypatch.setattr(coded_search._Search, "_compared", counted)
    with coded(path, backend) as gallery:
        found = []
        for probe in second[:200]:
            compared.append(0)
            found.append(gallery.search(probe, 2))
    proved = np.array([it.proved > 0 for it in found])
    rows = np.array(compared)
    assert rows.max() <= 200 and (rows >= 10).all()
    assert (rows[proved] > 10).any() and (rows[~proved] == 10).all()


def test_proved_searches_are_exact(world, tmp_path, monkeypatch) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first)
    with Gallery.open(path, backend) as exact, coded(path, backend) as gallery:
        right = exact.search_many(second[:100], 3)
        monkeypatch.setattr(coded_search, "PROOF_ROWS", 100)
        for share in (2, 8, 10_000):
            monkeypatch.setattr(coded_search, "PROOF_SHARE", share)
            proved = gallery.search_many(second[:50], 3, prove=True)
            proved += [gallery.search(probe, 3, prove=True) for probe in second[50:100]]
            assert all(it.exact and it.proved == 3 for it in proved)
            assert [names(a) for a in right] == [names(b) for b in proved]
        # With as many candidates as there are people nothing is left to prove.
        everybody = gallery.search(second[0], PEOPLE)
        assert everybody.exact and len(everybody) == PEOPLE
        assert names(everybody)[:3] == names(right[0])


def test_identify_sums_over_everybody_within_its_error(world, tmp_path) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first)
    # Also of strangers, who are nobody.
    strangers = people(backend, 200, seed=9)[0]
    probes = np.concatenate([second[:200], strangers])
    for prior in (0.5, 0.01):
        with Gallery.open(path, backend) as exact, coded(path, backend) as gallery:
            right, quick = exact.ranked(probes, 1, prior), gallery.ranked(probes, 1, prior)
        truth = np.array([it.posterior for it in right])
        made = np.array([it.posterior for it in quick])
        error = np.array([it.posterior_error for it in quick])
        assert np.mean(np.abs(made - truth) <= error + 1e-4) >= 0.99
        assert np.abs(made - truth).max() < 0.05
    with coded(path, backend) as gallery:
        answer = gallery.identify(second[3], prior=0.5)
        assert answer.posterior == pytest.approx(quick_posterior(gallery, second[3]))
        assert answer.posterior_error >= 0.0


def quick_posterior(gallery: Gallery, probe: np.ndarray) -> float:
    (ranking,) = gallery.ranked(probe[None], 1, 0.5)
    assert ranking.posterior is not None
    return ranking.posterior


def test_news_are_found_at_once_and_in_every_process(world, tmp_path) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first[:1500])
    with coded(path, backend) as gallery, coded(path, backend) as other:
        for it in (gallery, other):
            assert it.search(second[2000], 1)[0].speaker != "new"
        gallery.add("new", first[2000])
        gallery.remove("s7")
        gallery.replace("s8", first[2001])
        for it in (gallery, other):
            assert len(it) == 1500
            assert it.search(second[2000], 1)[0].speaker == "new"
            assert it.search(second[2001], 1)[0].speaker == "s8"
            assert "s7" not in names(it.search(second[7], 1500))
            assert set(it) == ({f"s{i}" for i in range(1500)} - {"s7"}) | {"new"}
    with coded(path, backend) as gallery, Gallery.open(path, backend) as exact:
        probes = second[:50]
        right = exact.search_many(probes, 2000)
        assert [names(it) for it in gallery.search_many(probes, 2000)] == [
            names(it) for it in right
        ]


def test_who_is_removed_is_in_no_file(world, tmp_path) -> None:
    backend, first, _ = world
    path = filled(tmp_path / "g.db", backend, first[:1500])
    with coded(path, backend) as gallery:
        memory = gallery._mirror.now()
        found = memory.coded
        items = found.quantizer.items(found.forms, first[33:34])
        code = found.quantizer.encoded(items).codes.tobytes()
        rows, codes = tmp_path / "g.db-rows", tmp_path / "g.db-codes"
        assert code in codes.read_bytes() and first[33].tobytes() in rows.read_bytes()
        gallery.remove("s33")
        assert code not in codes.read_bytes() and first[33].tobytes() not in rows.read_bytes()
    with coded(path, backend) as gallery:  # both files are still good
        assert (len(gallery), len(gallery._mirror.now().gone)) == (1499, 1)


def test_a_gallery_that_grows_gets_new_codes_aside(world, tmp_path) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first[:1000])
    with coded(path, backend) as gallery:
        gallery.remove("s1")
        gallery.add_many((f"s{i}", first[i]) for i in range(1000, 1600))
        gallery._mirror._side.keeper.wait()
        gallery.remove("s2")
        gallery.add("s1700", first[1700])
        memory = gallery._mirror.now()
        assert len(memory.coded.rows_file) == 1599 and len(memory.gone) == 1
        assert sum(len(block.numbers) for block in memory.tail) == 1
        assert len(gallery) == 1599
        for i in (5, 1200, 1700):
            assert gallery.search(second[i], 1)[0].speaker == f"s{i}"


def test_a_small_gallery_is_exact_until_it_has_grown(world, tmp_path) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first[:300])
    with Gallery.open(path, backend, index="codes") as gallery:
        assert gallery.search(second[3], 3).exact
        gallery.add_many((f"s{i}", first[i]) for i in range(300, 900))
        gallery._mirror._side.keeper.wait()
        assert gallery.search(second[700], 1)[0].speaker == "s700"
        assert isinstance(gallery._mirror.now(), CodedMemory)


def test_speakers_of_several_voiceprints_score_their_mean(world, tmp_path) -> None:
    backend, first, second = world
    path = tmp_path / "g.db"
    with Gallery.open(path, backend) as gallery:
        gallery.add_many((f"s{i}", first[i : i + 1 + i % 3]) for i in range(0, 2400, 3))
    with Gallery.open(path, backend) as exact, coded(path, backend) as gallery:
        probes = second[:90]
        right = exact.search_many(probes, 900)
        for a, b in zip(right, gallery.search_many(probes, 900), strict=True):
            assert b.exact
            np.testing.assert_allclose([m.llr for m in a], [m.llr for m in b], atol=2e-3)
        posterior = [it.posterior for it in exact.ranked(probes, 1, 0.5)]
        quick = [it.posterior for it in gallery.ranked(probes, 1, 0.5)]
        np.testing.assert_allclose(quick, posterior, atol=0.05)


@pytest.mark.parametrize("part", ["codes", "rows"])
def test_damaged_files_do_not_change_answers(world, tmp_path, part: str) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first[:1500])
    with coded(path, backend) as gallery:
        right = [names(it) for it in gallery.search_many(second[:100], 1)]
    beside = tmp_path / f"g.db-{part}"
    content = np.frombuffer(beside.read_bytes(), np.uint8).copy()
    # Of the rows a bit in every tenth row; of the codes one somewhere.
    width = first.shape[1] * 4
    places = range(4096 + 8, 4096 + 1500 * width, 10 * width) if part == "rows" else [20_000]
    for place in places:
        content[place] ^= 0x40
    beside.write_bytes(content.tobytes())
    with coded(path, backend) as gallery:
        assert [names(it) for it in gallery.search_many(second[:100], 1)] == right


@given(st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_byte_of_the_files_can_mislead(world, tmp_path_factory, data) -> None:
    backend, first, second = world
    folder = tmp_path_factory.mktemp("g")
    path = filled(folder / "g.db", backend, first[:600])
    with coded(path, backend) as gallery:
        right = gallery.search_many(second[:20], 2)
    beside = folder / data.draw(st.sampled_from(["g.db-rows", "g.db-codes"]))
    content = bytearray(beside.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    beside.write_bytes(bytes(content[:end]))
    with coded(path, backend) as gallery:
        assert gallery.search_many(second[:20], 2) == right


def test_joint_bundles_and_their_speakers_of_several_utterances(tmp_path) -> None:
    backend = Backend.load(joint_bundle(tmp_path / "m"), threads=1)
    x, d = utterances(1600, 3, people=800)
    path = tmp_path / "g.db"
    with Gallery.open(path, backend) as gallery:
        gallery.add_many(
            (f"s{i}", backend.enroll(x[i : i + 1 + i % 2], d[i : i + 1 + i % 2]))
            for i in range(1000)
        )
    probes = backend.voiceprints(x[1000:1040], d[1000:1040])
    with Gallery.open(path, backend) as exact, coded(path, backend) as gallery:
        right = exact.search_many(probes, 1000)
        assert [names(it)[:10] for it in gallery.search_many(probes, 1000)] == [
            names(it)[:10] for it in right
        ]
        several = backend.enroll(x[:2], d[:2])
        for it in (exact, gallery):
            with pytest.raises(InputError, match="both sides have voiceprints of several"):
                it.search(several)


def test_what_cannot_be_is_said_in_a_line(world, tmp_path, monkeypatch) -> None:
    backend, first, _ = world
    path = filled(tmp_path / "g.db", backend, first[:600])
    with pytest.raises(InputError, match="index = 'hnsw': expected 'codes', or None"):
        Gallery.open(path, backend, index="hnsw")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"needs faiss: pip install 'dcaplda\[index\]'"):
        Gallery.open(path, backend, index="codes")


def search_in_child(gallery: Gallery, probe: np.ndarray, answers) -> None:
    answers.put(names(gallery.search(probe, 3)))


def test_codes_survive_a_fork(world, tmp_path) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first[:1000])
    context = multiprocessing.get_context("fork")
    with coded(path, backend) as gallery:
        wanted = names(gallery.search(second[4], 3))
        answers = context.Queue()
        child = context.Process(target=search_in_child, args=(gallery, second[4], answers))
        child.start()
        assert answers.get(timeout=60) == wanted
        child.join()


def test_changes_of_another_process_are_in_the_next_search(world, tmp_path) -> None:
    backend, first, second = world
    path = filled(tmp_path / "g.db", backend, first[:1000])
    with coded(path, backend) as gallery:
        assert gallery.search(second[2000], 1)[0].speaker != "late"
        task = (os.fspath(backend.directory), os.fspath(path), "late", first[2000])
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(add_speaker, (task,))
        assert gallery.search(second[2000], 1)[0].speaker == "late"
