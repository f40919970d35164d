"""The running evidence of a call is that of all segments at once."""

import numpy as np
import pytest
from joint_models import joint_bundle, joint_torch_model, one_side, place_pool, utterances
from random_models import DIM

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, DcapldaError, InputError

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def backend(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("n", [1, 4])
def test_every_step_is_verify_of_all_segments_so_far(backend: Backend, n: int, adapted) -> None:
    """Within 1e-5 of verify, and within 1e-4 of the closed form in float64."""
    if adapted:
        backend = backend.adapted(place_pool(15))
    ann, enrolment = backend.enroll(*utterances(n, 1)), one_side(backend.joint, *utterances(n, 1))
    segments, seconds = utterances(6, 2)
    call = backend.evidence(ann, prior=0.01, cost_miss=10.0)
    assert call.utterances == 0
    for row in range(6):
        answer = call.add(segments[row], float(seconds[row]))
        heard = segments[: row + 1], seconds[: row + 1]
        expected = backend.verify(ann, *heard, prior=0.01, cost_miss=10.0)
        assert answer.llr == pytest.approx(expected.llr, rel=1e-5, abs=1e-5)
        assert answer.threshold == expected.threshold == pytest.approx(np.log(99.0 / 10.0))
        assert answer.posterior == pytest.approx(1.0 / (1.0 + 99.0 * np.exp(-answer.llr)))
        assert answer.accept == (answer.llr >= answer.threshold)
        exact = backend.joint.llrs(enrolment, one_side(backend.joint, *heard))[0, 0]
        assert answer.llr == pytest.approx(exact, abs=1e-4)
        assert call.utterances == row + 1


def test_segments_in_any_portions_are_the_same_evidence(backend: Backend) -> None:
    """1 + 4 + 1 segments and 6 at once: within 1e-9, since float32 rows are read once."""
    ann, (x, d) = backend.enroll(*utterances(3, 1)), utterances(6, 2)
    call, whole = backend.evidence(ann, prior=0.1), backend.evidence(ann, prior=0.1)
    for rows in (slice(0, 1), slice(1, 5), slice(5, 6)):
        answer = call.add(x[rows], d[rows])
    assert answer.llr == pytest.approx(whole.add(x, d).llr, abs=1e-9)
    assert call.utterances == whole.utterances == 6


def test_a_bad_segment_is_refused_and_not_heard(backend: Backend) -> None:
    ann, (x, d) = backend.enroll(*utterances(2, 1)), utterances(2, 2)
    call = backend.evidence(ann, prior=0.1)
    call.add(x[0], d[0])
    for bad, seconds in (
        (np.full(DIM, np.nan), 3.0),
        (np.zeros(DIM), 3.0),
        (x[1], None),
        (x[1], -1.0),
        (x[1][:-1], 3.0),
    ):
        with pytest.raises(InputError) as error:
            call.add(bad, seconds)
        assert "\n" not in str(error.value)
    assert call.utterances == 1
    expected = backend.verify(ann, x, d, prior=0.1).llr
    assert call.add(x[1], d[1]).llr == pytest.approx(expected, abs=1e-5)


def test_a_speaker_of_several_voiceprints_is_averaged(backend: Backend) -> None:
    """As verify does: the mean of the LLRs against each voiceprint."""
    (x, d), (y, e) = utterances(3, 1), utterances(2, 2)
    call = backend.evidence(backend.enroll(x, d, multi_enroll="scores"), prior=0.1)
    singles = [
        backend.verify(backend.enroll(*one), y, e, prior=0.1).llr for one in zip(x, d, strict=True)
    ]
    assert call.add(y, e).llr == pytest.approx(np.mean(singles), abs=1e-5)


@pytest.mark.parametrize(("prior", "cost"), [(0.0, 1.0), (1.5, 1.0), (0.1, -1.0), (0.1, np.nan)])
def test_a_bad_prior_or_cost_is_refused_at_once(backend: Backend, prior, cost) -> None:
    with pytest.raises(DcapldaError):
        backend.evidence(backend.enroll(*utterances(1, 1)), prior=prior, cost_miss=cost)


def test_warnings_are_those_of_all_segments_at_once(tmp_path) -> None:
    """One line names the worst duration of a call, however many of its segments are short."""
    statistics = {"durations": {"min": 5.0, "max": 100.0}}
    export_model(joint_torch_model(), tmp_path / "bundle", {"statistics": statistics})
    backend = Backend.load(tmp_path / "bundle")
    ann, (x, _) = backend.enroll(utterances(1, 1)[0], 2.0), utterances(4, 2)
    call, seconds = backend.evidence(ann, prior=0.1), np.array([20.0, 3.0, 1.0, 4.0])
    assert len(ann.warnings) == 1
    for row in range(4):
        found = call.add(x[row], seconds[row]).warnings
        whole = backend.verify(ann, x[: row + 1], seconds[: row + 1], prior=0.1).warnings
        assert found == whole
    assert found[:1] == ann.warnings
    assert [line for line in found if "duration 1.0 s" in line] == list(found[1:])
