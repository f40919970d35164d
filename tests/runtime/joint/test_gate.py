"""Utterances that do not sound of the adapted place are scored as if nobody had adapted."""

from dataclasses import replace

import numpy as np
import pytest
from joint_models import (
    closed_to_all,
    joint_bundle,
    joint_model,
    one_side,
    open_to_all,
    place_pool,
    single_sides,
    utterances,
)
from scipy.stats import norm

from dcaplda.runtime import Backend
from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.joint import place
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.joint.rows import JointModel, read_joint
from dcaplda.runtime.joint.scorer import JointScorer, quadratic_basis

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def parent(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


def mixed_utterances(scorer: JointScorer, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the place and of elsewhere, both kinds for certain, none near the edge."""
    there = np.random.default_rng(51).standard_normal(scorer.weight.shape[1])
    x, seconds = utterances(8 * count, seed)
    x = (x + np.outer(np.arange(len(x)) % 2, 2.0 * there)).astype(np.float32)
    w = x @ scorer.weight.T + scorer.elsewhere.bias
    along = (w / np.linalg.norm(w, axis=1, keepdims=True)) @ scorer.gate - scorer.edge
    clear = np.flatnonzero(np.abs(along) > 1e-4)
    inside = clear[along[clear] > 0][: count // 2]
    outside = clear[along[clear] < 0][: count - count // 2]
    chosen = np.sort(np.concatenate([inside, outside]))
    assert len(chosen) == count and len(inside) and len(outside)
    return x[chosen], seconds[chosen]


@pytest.mark.parametrize("way", [open_to_all, closed_to_all])
def test_an_open_gate_is_the_place_and_a_closed_one_the_parent(way) -> None:
    """Within 1e-10, three utterances against two."""
    joint = joint_model()
    found = adapted(joint.scorer, place_pool(12))
    plain = replace(found, gate=None) if way is open_to_all else joint.scorer
    enroll, test = utterances(3, 1), utterances(2, 2)
    llrs = []
    for scorer in (way(found), plain):
        model = joint.adapted(scorer)
        llrs.append(model.llrs(one_side(model, *enroll), one_side(model, *test)).item())
    assert llrs[0] == pytest.approx(llrs[1], abs=1e-10)
    other = joint.adapted(closed_to_all(found) if way is open_to_all else open_to_all(found))
    assert abs(other.llrs(one_side(other, *enroll), one_side(other, *test)).item() - llrs[0]) > 0.01


def test_graphs_choose_as_the_scorer_does(parent) -> None:
    """Every pair of utterances of the place and of elsewhere: within 1e-4 of the closed form."""
    office = parent.adapted(place_pool(15))
    x, seconds = mixed_utterances(office.joint.scorer, 8, 1)
    y, times = mixed_utterances(office.joint.scorer, 6, 2)
    exact = office.joint.llrs(
        single_sides(office.joint.scorer, x, seconds), single_sides(office.joint.scorer, y, times)
    )
    np.testing.assert_allclose(office.score(x, seconds, y, times), exact, atol=1e-4, rtol=1e-5)
    prints = office.voiceprints(x, seconds), office.voiceprints(y, times)
    np.testing.assert_allclose(office.compare(*prints), exact, atol=1e-4, rtol=1e-5)
    outside = ~office.joint.scorer.inside(x), ~office.joint.scorer.inside(y)
    before = parent.score(x, seconds, y, times)
    chosen = np.ix_(*outside)
    np.testing.assert_allclose(exact[chosen], before[chosen], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_rows_of_several_meet_single_ones_of_either_kind(parent, n: int) -> None:
    """A row of n utterances against single tests by the graphs: within 1e-3 of the closed form.

    The sums of squares are those of few combinations of axes (QUADRATICS).
    """
    office = parent.adapted(place_pool(15))
    joint: JointModel = office.joint
    tests = single_sides(joint.scorer, *mixed_utterances(joint.scorer, 6, 4))
    for seed in (10, 11):
        x, seconds = mixed_utterances(joint.scorer, 8, seed)
        inside = joint.scorer.inside(x)
        for kind in (inside, ~inside):
            several = np.resize(np.flatnonzero(kind), n)
            enrolled = one_side(joint, x[several], seconds[several])
            rows = joint.rows(enrolled), joint.rows(tests)
            exact = joint.llrs(enrolled, tests)
            np.testing.assert_allclose(office.compare(*rows), exact, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("odds", [1.0, 3.0])
def test_the_edge_is_where_both_are_as_likely(odds: float) -> None:
    """Against scipy's densities, 1e-9 relative."""
    for here, spread, elsewhere in ((3.0, 1.0, 2.0), (0.4, 0.5, 4.0), (5.0, 2.0, 2.0)):
        edge = place._crossing(here, spread, elsewhere, odds)
        of_place = norm(here, np.sqrt(spread)).pdf(edge)
        of_other = norm(0.0, np.sqrt(elsewhere)).pdf(edge)
        assert edge < here and odds * of_place == pytest.approx(of_other, rel=1e-9)


def drawn_scorer(axes: int = 60) -> JointScorer:
    """LDA and turn change nothing but lengths; speakers 0.5, places 0.5, samples 1."""
    between, offset = np.full(axes, 0.5), np.full(axes, 0.5)
    scale = np.sqrt(2.0 * axes)
    return JointScorer(
        weight=np.eye(axes),
        bias=np.zeros(axes),
        turn=scale * np.eye(axes),
        centre=np.zeros(axes),
        between=between,
        offset=offset,
        correlation=0.0,
        embedding_mean=np.zeros(axes),
        quadratics=quadratic_basis(between, offset),
        prior_offset=offset,
        same_score=40.0,
        length=scale,
        usual=np.zeros(2),
        reach=np.full(2, 10.0),
    )


@pytest.mark.parametrize("heard", [10, 30])
def test_most_utterances_are_told_apart(rng, heard: int) -> None:
    """Drawn from the model itself: nine of ten of the place are inside, of others outside."""
    scorer = drawn_scorer()
    right, wrong = [], []
    for _ in range(20):
        here, there = np.sqrt(0.5) * rng.standard_normal((2, 1, 60))

        def people(offset: np.ndarray, count: int) -> np.ndarray:
            return offset + np.sqrt(1.5) * rng.standard_normal((count, 60))

        found = adapted(scorer, people(here, heard))
        right.append(found.inside(people(here, 50)).mean())
        wrong.append(found.inside(people(there, 50)).mean())
    assert np.mean(right) > 0.9 and np.mean(wrong) < 0.1


def test_a_pool_that_nothing_sets_apart_takes_all_in() -> None:
    scorer = drawn_scorer()
    pool = np.random.default_rng(0).standard_normal((20, 60))
    found = adapted(scorer, np.concatenate([pool, -pool]))
    assert found.inside(np.random.default_rng(1).standard_normal((50, 60))).all()


def test_what_adaptation_leaves_is_whole_or_refused() -> None:
    joint = joint_model()
    arrays = joint.adapted(adapted(joint.scorer, place_pool(12))).arrays()
    again = read_joint(arrays, "here").scorer
    x = mixed_utterances(again, 8, 1)[0]
    assert again.inside(x).any() and not again.inside(x).all()
    for name in ("gate", "parent_bias", "parent_centre"):
        damaged = {key: value for key, value in arrays.items() if key != name}
        with pytest.raises(BundleError, match="^here: a part of what adaptation leaves is missing"):
            read_joint(damaged, "here")
