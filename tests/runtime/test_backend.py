import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from bundles import edit_manifest, put_right
from random_models import DIM, random_model

from dcaplda.export import parity
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, BundleError, DcapldaError, InputError

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=2)


def side(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return parity.random_side(DIM, count, seed)


def expected(enroll, test) -> np.ndarray:
    return parity.torch_llrs(random_model("d-plda-dsd"), enroll, test)


def test_score_equals_torch(backend: Backend) -> None:
    """Sizes on either side of a tile's edge; within 1e-4."""
    enroll, test = side(515, 1), side(1030, 2)
    np.testing.assert_allclose(backend.score(*enroll, *test), expected(enroll, test), atol=1e-4)


def test_compare_writes_where_it_is_told(backend: Backend) -> None:
    enroll, test = backend.voiceprints(*side(3, 1)), backend.voiceprints(*side(4, 2))
    out = np.zeros((3, 4), dtype=np.float32)
    assert backend.compare(enroll, test, out=out) is out
    np.testing.assert_array_equal(out, backend.compare(enroll, test))
    with pytest.raises(InputError, match="out: expected float32"):
        backend.compare(enroll, test, out=out.T)


def test_blocks_cover_every_cell_once(backend: Backend) -> None:
    enroll, test = backend.voiceprints(*side(600, 1)), backend.voiceprints(*side(1100, 2))
    full = np.full((600, 1100), np.nan)
    for rows, columns, llrs in backend.compare_blocks(enroll, test):
        assert np.isnan(full[rows, columns]).all()
        full[rows, columns] = llrs
    np.testing.assert_allclose(full, backend.compare(enroll, test), atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 256, 257, 1000])
def test_pairs_are_the_diagonal(backend: Backend, count: int) -> None:
    enroll, test = backend.voiceprints(*side(count, 1)), backend.voiceprints(*side(count, 2))
    diagonal = np.diagonal(backend.compare(enroll, test))
    np.testing.assert_allclose(backend.compare_pairs(enroll, test), diagonal, atol=2e-5)


def test_groups_average_before_any_form(backend: Backend) -> None:
    """Against torch with w, m and e averaged; groups in any order and of any size."""
    rng = np.random.default_rng(3)
    numbers = rng.permutation(np.repeat(np.arange(9), [1, 2, 3, 700, 5, 1, 1, 600, 2]))
    enroll, test = side(len(numbers), 1), side(5, 2)
    found = backend.compare(
        backend.voiceprints(*enroll, groups=numbers), backend.voiceprints(*test)
    )
    np.testing.assert_allclose(found, expected((*enroll, numbers), test), atol=1e-4)


def test_a_voiceprint_does_not_depend_on_its_batch(backend: Backend) -> None:
    x, d = side(700)
    whole = backend.voiceprints(x, d)
    for begin, end in ((0, 1), (5, 6), (3, 10), (77, 300), (200, 700)):
        np.testing.assert_array_equal(
            backend.voiceprints(x[begin:end], d[begin:end]), whole[begin:end]
        )


def test_base_install_takes_lists_and_single_vectors(backend: Backend) -> None:
    x, d = side(2)
    one = backend.voiceprints(x[0].tolist(), float(d[0]))
    np.testing.assert_array_equal(one, backend.voiceprints(x[:1], d[:1]))


def test_many_threads_get_the_right_answers(small_bundle: Path) -> None:
    """Eight threads share one backend, each with its own data."""
    backend = Backend.load(small_bundle, threads=2)
    data = [(side(20 + k, k), side(30 + k, 100 + k)) for k in range(8)]
    truth = [backend.score(*e, *t) for e, t in data]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(30):
            if not np.array_equal(backend.score(*data[k][0], *data[k][1]), truth[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def bad_row(value: float) -> np.ndarray:
    x = side(3)[0]
    x[1, 4] = value
    return x


@pytest.mark.parametrize(
    ("embeddings", "seconds", "message"),
    [
        (np.ones((3, DIM + 1)), [1, 1, 1], "25 values per row, the model takes 24"),
        (np.ones((2, 3, DIM)), [1, 1], "expected a matrix"),
        (np.ones((0, DIM)), [], "empty"),
        (bad_row(np.nan), [1, 1, 1], "row 1 holds nan"),
        (bad_row(-np.inf), [1, 1, 1], "row 1 holds -inf"),
        (np.vstack([np.ones((2, DIM)), np.zeros((1, DIM))]), [1, 1, 1], "row 2 is all zero"),
        (bad_row(1e20), [1, 1, 1], "row 1 has length 1e\\+20, too large"),
        ([["a"] * DIM], [1], "holds text; expected real numbers"),
        (np.ones((2, DIM)), None, "durations: missing"),
        (np.ones((2, DIM)), [1, 2, 3], "3 durations for 2"),
        (np.ones((2, DIM)), [1, 0], "row 1 has 0 seconds"),
        (np.ones((2, DIM)), [-2, 1], "row 0 has -2 seconds"),
        (np.ones((2, DIM)), [1, np.nan], "row 1 has nan seconds"),
        (np.ones((2, DIM)), [1, np.inf], "row 1 has inf seconds"),
        (np.ones((2, DIM)), [1, 1e-300], "row 1 has 1e-300 seconds.*from 0.001 to 10,000,000"),
        (np.ones((2, DIM)), [1, 1e300], "row 1 has 1e.300 seconds.*from 0.001 to 10,000,000"),
        (np.ones((2, DIM)) + 1j, [1, 1], "embeddings: holds complex numbers"),
        (np.ma.masked_equal(np.eye(2, DIM), 1), [1, 1], "embeddings: some values are masked"),
        (np.ones((2, DIM)), ["long", "short"], "durations: holds text"),
    ],
)
def test_bad_input_is_named(backend: Backend, embeddings, seconds, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        backend.voiceprints(embeddings, seconds)
    assert isinstance(caught.value, DcapldaError)
    assert "\n" not in str(caught.value)


def test_ids_are_used_in_messages(backend: Backend) -> None:
    with pytest.raises(InputError, match="'b' holds nan"):
        backend.voiceprints(bad_row(np.nan), [1, 1, 1], ids=["a", "b", "c"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, v: b.compare(v[:, :-1], v), "enroll: .* the model takes"),
        (lambda b, v: b.compare(v, v[:0]), "test: empty"),
        (lambda b, v: b.compare_pairs(v, v[:2]), "3 enrolment rows but 2"),
        (lambda b, v: b.score_trials(v, v, [0, 3], [0, 0]), "enroll_index: 3 is outside 0 to 2"),
        (lambda b, v: b.score_trials(v, v, [0], [-1]), "test_index: -1 is outside"),
        (lambda b, v: b.score_trials(v, v, [0, 1], [0]), "2 enrolment but 1 test"),
        (lambda b, v: b.score_trials(v, v, [0], [0], groups=[0, 2]), "offsets from 0 to 3"),
        (lambda b, v: b.score_trials(v, v, [0], [0], groups=[0, 0, 3]), "no enrolment row"),
        (lambda b, v: b.score_trials(v, v, [0], [0], part=(0, 2)), "the list has 1 trials"),
        (lambda b, v: b.voiceprints(*side(2), groups=[0, 2]), "no row has number 1"),
        (lambda b, v: b.voiceprints(*side(2), groups=[-1, 0]), "numbered from 0"),
        (lambda b, v: b.voiceprints(*side(2), groups=[0.5, 1]), "whole numbers"),
        (lambda b, v: b.voiceprints(*side(2), extra={"num_utts": [1, 1]}), "not an input"),
    ],
)
def test_bad_calls_are_named(backend: Backend, call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(backend, backend.voiceprints(*side(3)))


def test_model_without_duration_stage_needs_no_durations(tmp_path) -> None:
    from dcaplda.export.bundle_writer import export_model

    export_model(random_model("d-plda-sd"), tmp_path / "b")
    backend = Backend.load(tmp_path / "b")
    (x, d), (y, f) = side(3, 1), side(4, 2)
    np.testing.assert_array_equal(backend.score(x, None, y, None), backend.score(x, d, y, f))


def damage(directory: Path, kind: str) -> None:
    if kind == "no manifest":
        (directory / "model.json").unlink()
    elif kind == "no graph":
        (directory / "pairs.onnx").unlink()
    elif kind == "no backend":
        (directory / "backend.onnx").unlink()
    elif kind == "altered graph":
        content = bytearray((directory / "compare.onnx").read_bytes())
        content[len(content) // 2] ^= 1
        (directory / "compare.onnx").write_bytes(content)
    elif kind == "not json":
        (directory / "model.json").write_text("{")
        put_right(directory)
    elif kind == "foreign json":
        (directory / "model.json").write_text("{}")
        put_right(directory)
    elif kind == "newer":
        edit_manifest(directory, lambda m: m.update(format_version=99))
    elif kind == "no key":
        edit_manifest(directory, lambda m: m.pop("voiceprint_dim"))
    elif kind == "outside":
        edit_manifest(directory, lambda m: m["graphs"]["pairs"].update(file="../pairs.onnx"))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no manifest", "has no model.json"),
        ("no graph", "pairs.onnx: missing"),
        ("no backend", "backend.onnx: missing"),
        ("altered graph", "compare.onnx: its sha256"),
        ("not json", "not valid JSON"),
        ("foreign json", "not the manifest"),
        ("newer", "format version 99 is newer.*upgrade"),
        ("no key", "'voiceprint_dim'"),
        ("outside", "outside the bundle"),
    ],
)
def test_damaged_bundle_is_refused(small_bundle: Path, tmp_path, kind: str, message: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(small_bundle, copy)
    damage(copy, kind)
    with pytest.raises(BundleError, match=message) as caught:
        Backend.load(copy)
    assert "\n" not in str(caught.value)


def test_missing_directory_is_refused(tmp_path) -> None:
    with pytest.raises(BundleError, match="has no model.json"):
        Backend.load(tmp_path / "nowhere")


@pytest.mark.parametrize("variant", ["plda", "plda-dd", "d-plda-dsd"])
def test_two_steps_give_the_llrs_of_one(tmp_path, variant):
    export_model(random_model(variant), tmp_path / "bundle")
    backend = Backend.load(tmp_path / "bundle", threads=1)
    x, seconds = parity.random_side(DIM, 700, seed=3)
    prints = backend.voiceprints(x, seconds)
    once = backend.tile(prints, prints)
    twice = backend.prepared_tile(backend.prepared(prints), prints)
    np.testing.assert_allclose(twice, once, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(backend.compare(prints, prints), once, atol=1e-5, rtol=1e-5)


def test_a_bundle_of_before_compares_in_one_step(tmp_path):
    export_model(random_model("d-plda-dsd"), tmp_path / "bundle")
    new = Backend.load(tmp_path / "bundle", threads=1)
    edit_manifest(
        tmp_path / "bundle", lambda m: [m["graphs"].pop(name) for name in ("prepare", "tile")]
    )
    old = Backend.load(tmp_path / "bundle", threads=1)
    assert not {"prepare", "tile"} & old.info.further_graphs
    x, seconds = parity.random_side(DIM, 30, seed=3)
    prints = old.voiceprints(x, seconds)
    np.testing.assert_allclose(
        old.compare(prints, prints), new.compare(prints, prints), atol=1e-5, rtol=1e-5
    )
