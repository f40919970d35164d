"""Several utterances through the graphs against the closed form, and speakers that change."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from joint_models import joint_bundle, one_side, place_pool, single_sides, utterances
from random_models import DIM

from dcaplda.runtime import Backend, InputError
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.several import merged_voiceprints, offsets_to_groups
from dcaplda.runtime.verification import Speaker

pytestmark = pytest.mark.torch
NUMBERS = (1, 2, 3, 4, 5, 10)


@pytest.fixture(scope="module")
def backend(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


@pytest.fixture(scope="module")
def office(backend: Backend) -> Backend:
    return backend.adapted(place_pool(20))


@pytest.fixture(scope="module")
def plain(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=1)


def speakers() -> list[tuple[np.ndarray, np.ndarray]]:
    return [utterances(n, 100 + n) for n in NUMBERS]


def closed_form(backend: Backend, tests: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """LLRs of all speakers and single tests, in float64, of the parent's scorer and the pool."""
    joint = backend.joint
    assert joint is not None
    single = single_sides(joint.scorer, *tests)
    return np.concatenate([joint.llrs(one_side(joint, *s), single) for s in speakers()])


def enrolled(backend: Backend) -> np.ndarray:
    rows = [np.asarray(backend.enroll(*s)) for s in speakers()]
    assert all(row.shape == (1, backend.info.voiceprint_dim) for row in rows)
    return np.concatenate(rows)


@pytest.mark.parametrize("place", ["backend", "office"])
def test_every_graph_gives_the_closed_form(request, place: str) -> None:
    """compare, pairs, search, verify and backend for 1 to 5 and 10 utterances, within 1e-4."""
    backend = request.getfixturevalue(place)
    tests = utterances(7, 200)
    expected = closed_form(backend, tests)
    assert np.ptp(expected) > 1.0
    rows, single = enrolled(backend), backend.voiceprints(*tests)
    np.testing.assert_allclose(backend.compare(rows, single), expected, atol=1e-4)
    i, j = np.divmod(np.arange(expected.size), len(single))
    np.testing.assert_allclose(
        backend.compare_pairs(rows[i], single[j]), expected.ravel(), atol=1e-4
    )
    searched = [backend.search_tile(single[[k]], rows)[0] for k in range(len(single))]
    np.testing.assert_allclose(np.transpose(searched), expected, atol=1e-4)
    verified = [
        [backend.verify(row[None], x, d, prior=0.1).llr for x, d in zip(*tests, strict=True)]
        for row in rows
    ]
    np.testing.assert_allclose(verified, expected, atol=1e-4)
    listed = backend.score_trials(rows, single, i, j)
    np.testing.assert_allclose(listed, expected.ravel(), atol=1e-4)


def test_the_adapted_scorer_is_the_posterior_of_the_pool(backend: Backend, office: Backend) -> None:
    """What the adapted bundle holds is what the parent's scorer makes of the same utterances."""
    expected = adapted(backend.joint.scorer, place_pool(20))
    found = office.joint.scorer
    for name in ("bias", "centre", "offset", "quadratics"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)
    assert found.known == expected.known > 0.2
    tests = utterances(3, 7)
    assert np.abs(closed_form(backend, tests) - closed_form(office, tests)).max() > 0.1


@pytest.mark.parametrize("place", ["backend", "office"])
@pytest.mark.parametrize(("n", "m"), [(1, 2), (3, 2), (2, 5), (10, 4)])
def test_several_tests_are_taken_together(request, place: str, n: int, m: int) -> None:
    backend = request.getfixturevalue(place)
    enroll, test = utterances(n, 1), utterances(m, 2)
    joint = backend.joint
    expected = joint.llrs(one_side(joint, *enroll), one_side(joint, *test))[0, 0]
    found = backend.verify(backend.enroll(*enroll), *test, prior=0.01)
    assert found.llr == pytest.approx(expected, abs=1e-4)
    assert found.accept == (found.llr >= found.threshold)
    assert found.posterior == pytest.approx(
        1.0 / (1.0 + 99.0 * np.exp(-found.llr)), rel=1e-9, abs=1e-300
    )


@pytest.mark.parametrize("place", ["backend", "office"])
def test_several_utterances_stand_on_either_side(request, place: str) -> None:
    """1 to 10 against 1 to 10 utterances, as matrix and as pairs: the closed form within 1e-4."""
    backend = request.getfixturevalue(place)
    rows, joint = enrolled(backend), backend.joint
    sides = [one_side(joint, *s) for s in speakers()]
    expected = np.array([[joint.llrs(a, b)[0, 0] for b in sides] for a in sides])
    np.testing.assert_allclose(backend.compare(rows, rows), expected, rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(expected, expected.T, atol=1e-8)
    i, j = np.divmod(np.arange(expected.size), len(rows))
    found = backend.compare_pairs(rows[i], rows[j])
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-6, atol=1e-4)
    single = rows[:1]
    np.testing.assert_allclose(backend.compare(single, rows)[0], expected[0], atol=1e-4)
    np.testing.assert_allclose(backend.search_tile(rows[3:4], single)[0], expected[0, 3], atol=1e-4)


def test_one_row_of_a_matrix_is_one_utterance(backend: Backend) -> None:
    ann, (x, d) = backend.enroll(*utterances(3, 1)), utterances(1, 2)
    assert backend.verify(ann, x, d, prior=0.1) == backend.verify(ann, x[0], d[0], prior=0.1)


def test_a_group_of_one_keeps_its_bytes(backend: Backend) -> None:
    singles = backend.voiceprints(*utterances(6, 3))
    made = merged_voiceprints(backend, singles, np.array([0, 1, 1, 2, 3, 3]), 4)
    assert made[0].tobytes() == singles[0].tobytes()
    assert made[2].tobytes() == singles[3].tobytes()
    assert made.shape == (4, singles.shape[1]) and made.dtype == np.float32
    assert backend.enroll(*utterances(1, 3)).voiceprints.tobytes() == singles_of(backend, 1)


def singles_of(backend: Backend, count: int) -> bytes:
    return backend.voiceprints(*utterances(count, 3)).tobytes()


def test_a_row_made_of_one_utterance_is_the_graph_s(backend: Backend) -> None:
    """What `rows` writes out for one utterance is what voiceprint.onnx makes of it, 1e-5."""
    embeddings, seconds = utterances(4, 3)
    joint = backend.joint
    made = joint.rows(single_sides(joint.scorer, embeddings, seconds))
    np.testing.assert_allclose(made, backend.voiceprints(embeddings, seconds), rtol=1e-5, atol=2e-5)


def test_groups_in_any_order_are_those_of_enrolments(backend: Backend) -> None:
    embeddings, seconds = utterances(6, 4)
    groups = np.array([2, 0, 1, 2, 0, 2])
    made = merged_voiceprints(backend, backend.voiceprints(embeddings, seconds), groups, 3)
    for number in range(3):
        chosen = groups == number
        row = backend.enroll(embeddings[chosen], seconds[chosen]).voiceprints[0]
        np.testing.assert_allclose(made[number], row, rtol=1e-6, atol=1e-6)


def test_offsets_number_the_rows() -> None:
    assert offsets_to_groups(np.array([0, 2, 3, 6])).tolist() == [0, 0, 1, 2, 2, 2]


@pytest.mark.parametrize("place", ["backend", "office"])
def test_one_by_one_is_all_at_once(request, place: str) -> None:
    """Rows within 1e-5 relative: each step is rounded to float32 once."""
    backend = request.getfixturevalue(place)
    embeddings, seconds = utterances(10, 5)
    ann = backend.enroll(embeddings[0], seconds[0])
    for row in range(1, 10):
        ann = backend.add_utterances(ann, embeddings[row], float(seconds[row]))
    whole = backend.enroll(embeddings, seconds)
    np.testing.assert_allclose(ann.voiceprints, whole.voiceprints, rtol=1e-5, atol=2e-5)
    test = utterances(1, 6)
    found, expected = (backend.verify(s, *test, prior=0.1).llr for s in (ann, whole))
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("stay", "gone"), [(1, 1), (1, 9), (4, 2), (9, 1)])
def test_adding_and_giving_back_returns_the_former_row(backend: Backend, stay, gone) -> None:
    """Within 1e-4: what is taken away is taken from float32, times (stay + gone) / stay."""
    embeddings, seconds = utterances(stay + gone, 8)
    former = backend.enroll(embeddings[:stay], seconds[:stay])
    more = backend.add_utterances(former, embeddings[stay:], seconds[stay:])
    assert np.abs(more.voiceprints - former.voiceprints).max() > 0.01
    back = backend.remove_utterances(more, embeddings[stay:], seconds[stay:])
    np.testing.assert_allclose(back.voiceprints, former.voiceprints, rtol=1e-4, atol=1e-4)
    assert back.model == former.model == backend.info.fingerprint


def test_a_speaker_of_several_voiceprints_is_averaged_by_verify(backend: Backend) -> None:
    """`scores` on a joint bundle: the mean of the LLRs against each, also of several tests."""
    enroll, test = utterances(3, 1), utterances(2, 2)
    ann = backend.enroll(*enroll, multi_enroll="scores")
    assert len(ann.voiceprints) == 3
    joint = backend.joint
    expected = joint.llrs(single_sides(joint.scorer, *enroll), one_side(joint, *test)).mean()
    assert backend.verify(ann, *test, prior=0.1).llr == pytest.approx(expected, abs=1e-4)


def one_line(error: pytest.ExceptionInfo) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("kind", "way"), [("plain", "scores"), ("backend", "scores")])
def test_a_speaker_of_several_voiceprints_gets_one_more_and_gives_it_back(
    request, kind: str, way: str
) -> None:
    """Bit for bit: as if enrolled with all, and as before."""
    backend, (x, d) = request.getfixturevalue(kind), utterances(4, 1)
    ann = backend.enroll(x[:3], d[:3], multi_enroll=way)
    more = backend.add_utterances(ann, x[3], d[3])
    whole = backend.enroll(x, d, multi_enroll=way)
    np.testing.assert_allclose(more.voiceprints, whole.voiceprints, rtol=1e-5, atol=1e-5)
    assert (more.model, more.warnings) == (whole.model, whole.warnings)
    back = backend.remove_utterances(more, x[3], d[3])
    assert back.voiceprints.tobytes() == ann.voiceprints.tobytes()
    assert back.seconds == pytest.approx(float(d[:3].sum()))
    with pytest.raises(InputError, match="embedding 0 is none of its utterances") as error:
        backend.remove_utterances(ann, x[3], d[3])
    one_line(error)
    with pytest.raises(InputError, match="at least one must stay"):
        backend.remove_utterances(ann, x[:3], d[:3])


def test_averaged_inputs_are_averaged_again(plain: Backend) -> None:
    x, d = utterances(4, 1)
    ann = plain.enroll(x[:3], d[:3], multi_enroll="voiceprints")
    more = plain.add_utterances(ann, x[3], d[3])
    whole = plain.enroll(x, d, multi_enroll="voiceprints")
    assert more.voiceprints.tobytes() == whole.voiceprints.tobytes()
    bare = Speaker(ann.voiceprints, (), ann.model, utterances=ann.utterances[:1], way=ann.way)
    lost = replace(bare, utterances=tuple(replace(it, embedding=None) for it in ann.utterances))
    with pytest.raises(InputError, match="takes the embeddings of all utterances; keep them"):
        plain.add_utterances(lost, x[3], d[3])


def test_the_last_utterance_stays(backend: Backend) -> None:
    ann = backend.enroll(*utterances(2, 1))
    with pytest.raises(InputError, match="has 2 utterances, 2 cannot be taken") as error:
        backend.remove_utterances(ann, *utterances(2, 1))
    assert "at least one must stay" in one_line(error)


def test_speakers_of_another_model_are_refused(backend: Backend, office: Backend) -> None:
    """In both directions, and by everything that takes a speaker."""
    for here, there in ((backend, office), (office, backend)):
        ann = there.enroll(*utterances(2, 1))
        for use in (
            lambda b, s: b.verify(s, *utterances(1, 2), prior=0.1),
            lambda b, s: b.verify(s, *utterances(2, 2), prior=0.1),
            lambda b, s: b.evidence(s, prior=0.1),
            lambda b, s: b.add_utterances(s, *utterances(1, 2)),
            lambda b, s: b.remove_utterances(s, *utterances(1, 2)),
        ):
            with pytest.raises(InputError, match="enrolled with another model") as error:
                use(here, ann)
            assert "enrol again" in one_line(error)


def test_a_model_that_is_not_joint_says_so(plain: Backend) -> None:
    ann = plain.enroll(*utterances(2, 1))
    assert len(ann.voiceprints) == 2
    for use in (
        lambda: plain.enroll(*utterances(2, 1), multi_enroll="joint"),
        lambda: plain.verify(ann, *utterances(2, 2), prior=0.1),
        lambda: plain.evidence(ann, prior=0.1),
        lambda: plain.add_utterances(ann, *utterances(1, 2), sessions=["a"]),
    ):
        with pytest.raises(InputError, match="was not trained for several utterances") as error:
            use()
        assert "d-plda-dsd" in one_line(error)


def test_a_way_that_is_none_is_named(backend: Backend) -> None:
    with pytest.raises(InputError, match="multi_enroll = 'mean': expected one of auto, joint"):
        backend.enroll(*utterances(2, 1), multi_enroll="mean")


@pytest.mark.parametrize(
    ("tests", "seconds", "words"),
    [
        (np.full((2, DIM), np.nan), [1.0, 2.0], "row 0 holds nan"),
        (np.ones((2, DIM - 1)), [1.0, 2.0], "23 values per row, the model takes 24"),
        (np.ones((2, DIM)), [1.0], "1 durations for 2 embeddings"),
        (np.ones((2, DIM)), [1.0, 0.0], "row 1 has 0 seconds"),
        (np.ones((2, DIM)), None, "missing"),
        (np.zeros((2, DIM)), [1.0, 2.0], "all zero"),
        ([[1.0, 2.0], [3.0]], [1.0, 2.0], "not an array of numbers"),
        (np.ones((2, 2, DIM)), [1.0, 2.0], "expected a matrix"),
        (np.ones((0, DIM)), [], "empty"),
    ],
)
def test_bad_tests_are_one_line(backend: Backend, tests, seconds, words: str) -> None:
    ann = backend.enroll(*utterances(2, 1))
    for use in (
        lambda: backend.verify(ann, tests, seconds, prior=0.1),
        lambda: backend.evidence(ann, prior=0.1).add(tests, seconds),
        lambda: backend.add_utterances(ann, tests, seconds),
        lambda: backend.remove_utterances(ann, tests, seconds),
    ):
        with pytest.raises(InputError, match=words) as error:
            use()
        one_line(error)


class Wrapped:
    """Something that is no array but can become one."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)


def test_whatever_becomes_an_array_is_taken(backend: Backend) -> None:
    ann, (x, d) = backend.enroll(*utterances(2, 1)), utterances(3, 2)
    expected = backend.verify(ann, x, d, prior=0.1).llr
    for tests, seconds in ((x.tolist(), d.tolist()), (Wrapped(x), Wrapped(d)), (tuple(x), d)):
        assert backend.verify(ann, tests, seconds, prior=0.1).llr == pytest.approx(expected)


def test_voiceprints_alone_are_a_speaker(backend: Backend) -> None:
    """As a table gives them: without fingerprint, for verify and for changes."""
    ann = backend.enroll(*utterances(2, 1))
    bare, more = Speaker(ann.voiceprints), utterances(1, 2)
    assert backend.verify(bare, *more, prior=0.1) == backend.verify(ann, *more, prior=0.1)
    for speaker in (bare, ann.voiceprints):
        changed = backend.add_utterances(speaker, *more)
        np.testing.assert_array_equal(
            changed.voiceprints, backend.add_utterances(ann, *more).voiceprints
        )
    other = ann.voiceprints.copy()
    other[:, backend.joint.layout.tail] = 0.0
    with pytest.raises(InputError, match="number of utterances is not kept"):
        backend.add_utterances(Speaker(other), *more)
    with pytest.raises(InputError, match="no voiceprint of this model"):
        backend.add_utterances(Speaker(np.zeros_like(ann.voiceprints)), *more)
