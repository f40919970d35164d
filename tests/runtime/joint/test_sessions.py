"""Sessions in the effective number: joint voiceprints against Gaussian densities written out."""

from pathlib import Path

import numpy as np
import pytest
from joint_models import joint_bundle, joint_model, one_side, single_sides, utterances
from scipy.stats import multivariate_normal

from dcaplda.runtime import Backend, InputError

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def backend(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


def written_out(joint, enroll: np.ndarray, sessions: list[int], test: np.ndarray) -> float:
    """LLR before calibration: samples of one session share the part `correlation` of variance 1."""
    scorer = joint.scorer
    x = scorer.projected(np.concatenate([enroll, test]))
    n, m = len(enroll), len(test)
    side = np.repeat([0, 1], [n, m])
    session = np.array([*sessions, *[-1] * m])
    same_side, same_session = side[:, None] == side, session[:, None] == session
    total = 0.0
    for axis in range(x.shape[1]):
        logs = []
        for one_speaker in (True, False):
            covariance = np.full((n + m, n + m), scorer.offset[axis])
            covariance += scorer.between[axis] * (same_side | one_speaker)
            covariance += scorer.correlation * (same_side & same_session)
            covariance += (1.0 - scorer.correlation) * np.eye(n + m)
            logs.append(covariance)
        mean = np.zeros(2)
        # The closed form is that of the two sides' means.
        take = np.zeros((2, n + m))
        take[0, :n], take[1, n:] = 1.0 / n, 1.0 / m
        values = take @ x[:, axis]
        densities = [multivariate_normal(mean, take @ c @ take.T).logpdf(values) for c in logs]
        total += densities[0] - densities[1]
    return total


@pytest.mark.parametrize("sessions", [[0], [0, 0], [0, 1], [0, 0, 1], [2, 7, 2, 2, 1], [0] * 5])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("correlation", [0.0, 0.1, 0.6])
def test_the_score_is_that_of_the_densities(sessions, m, correlation) -> None:
    joint = joint_model(correlation=correlation)
    (enroll, seconds), (test, more) = utterances(len(sessions), 1), utterances(m, 2)
    singles = single_sides(joint.scorer, enroll, seconds)
    side = joint.merged(singles, np.zeros(len(singles), np.int64), 1, np.array(sessions))
    other = one_side(joint, test, more)
    alpha = joint.scale.values(side.conditions, other.conditions)[0, 0]
    shift = joint.shift.values(side.conditions, other.conditions)[0, 0]
    expected = alpha * written_out(joint, enroll, sessions, test) + shift
    assert joint.llrs(side, other)[0, 0] == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_equal_sessions_are_all_that_utterances_of_any_numbers_say() -> None:
    """With as many of each session the mean is sufficient: the density of all values agrees."""
    joint = joint_model(correlation=0.4)
    scorer = joint.scorer
    (enroll, seconds), (test, more) = utterances(4, 1), utterances(1, 2)
    sessions = np.array([0, 1, 0, 1])
    singles = single_sides(scorer, enroll, seconds)
    side, other = joint.merged(singles, np.zeros(4, int), 1, sessions), one_side(joint, test, more)
    x = scorer.projected(np.concatenate([enroll, test]))
    session = np.array([0, 1, 0, 1, 2])
    enrolled = np.array([True] * 4 + [False])
    same_side = enrolled[:, None] == enrolled
    score = 0.0
    for axis in range(x.shape[1]):
        for one_speaker, sign in ((True, 1.0), (False, -1.0)):
            covariance = scorer.offset[axis] + scorer.between[axis] * (same_side | one_speaker)
            covariance = covariance + 0.4 * (session[:, None] == session) + 0.6 * np.eye(5)
            score += sign * multivariate_normal(np.zeros(5), covariance).logpdf(x[:, axis])
    alpha = joint.scale.values(side.conditions, other.conditions)[0, 0]
    shift = joint.shift.values(side.conditions, other.conditions)[0, 0]
    assert joint.llrs(side, other)[0, 0] == pytest.approx(alpha * score + shift, rel=1e-8)


def test_one_session_is_what_not_telling_is(backend: Backend) -> None:
    calls = utterances(4, 1)
    told = backend.enroll(*calls, sessions=["monday"] * 4)
    np.testing.assert_array_equal(told.voiceprints, backend.enroll(*calls).voiceprints)
    apart = backend.enroll(*calls, sessions=[1, 2, 3, 4])
    spread = backend.joint.sides(apart.voiceprints).spread[0]
    assert spread == pytest.approx(0.25, rel=1e-6)
    assert spread < backend.joint.sides(told.voiceprints).spread[0]


@pytest.mark.parametrize("first", [["a", "a"], ["a", "b"], None])
def test_sessions_that_come_later_are_as_if_all_had_come_at_once(backend, first) -> None:
    calls, seconds = utterances(5, 3)
    at_once = [*(first or ["x", "x"]), "c", "c", "d"]
    whole = backend.enroll(calls, seconds, sessions=at_once)
    start = backend.enroll(calls[:2], seconds[:2], sessions=first)
    later = backend.add_utterances(start, calls[2:], seconds[2:], sessions=["c", "c", "d"])
    np.testing.assert_allclose(later.voiceprints, whole.voiceprints, rtol=1e-4, atol=1e-4)
    back = backend.remove_utterances(later, calls[2:], seconds[2:], sessions=["c", "c", "d"])
    np.testing.assert_allclose(back.voiceprints, start.voiceprints, rtol=1e-3, atol=1e-3)


def test_what_is_not_told_may_be_of_the_largest_session(backend) -> None:
    """h = ((2 + 1)^2 + 1) / 4^2 would be two sessions; untold it is at most (sqrt(5) + 1)^2."""
    calls, seconds = utterances(4, 3)
    start = backend.enroll(calls[:3], seconds[:3], sessions=[0, 0, 1])
    later = backend.add_utterances(start, calls[3:], seconds[3:])
    (share,) = backend.joint.one_session(backend.joint.sides(later.voiceprints))
    assert share == pytest.approx((np.sqrt(5) + 1) ** 2 / 16, rel=1e-5)
    assert share > 10 / 16
    back = backend.remove_utterances(later, calls[3:], seconds[3:])
    (share,) = backend.joint.one_session(backend.joint.sides(back.voiceprints))
    assert share == pytest.approx(5 / 9, rel=1e-5)


def test_mistakes_are_one_line(backend, small_bundle: Path) -> None:
    calls, seconds = utterances(2, 3)
    for wrong in ("monday", ["a"], [["a", "b"]]):
        with pytest.raises(InputError, match="sessions: expected a list of 2"):
            backend.enroll(calls, seconds, sessions=wrong)
    with pytest.raises(InputError, match="sessions: multi_enroll='scores' takes utterances one by"):
        backend.enroll(calls, seconds, multi_enroll="scores", sessions=[0, 1])
    plain = Backend.load(small_bundle)
    width = plain.info.embedding_dim
    with pytest.raises(InputError, match="sessions count in joint voiceprints"):
        plain.enroll(np.ones((2, width)), [3.0, 4.0], sessions=[0, 1])
