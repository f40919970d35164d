"""Clusters by LLRs: against scipy's average linkage, and against the definition written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_models import joint_model, single_sides, utterances
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from dcaplda.runtime.clustering.linkage import average_link, by_the_book
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.joint.rows import joined_sides


def same_partition(one, other):
    return (np.equal.outer(one, one) == np.equal.outer(other, other)).all()


def random_llrs(rng, n):
    llrs = rng.normal(0, 4, (n, n))
    return llrs + llrs.T


@given(st.integers(2, 30), st.floats(-6, 6), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_average_link_is_scipys(n, threshold, seed):
    llrs = random_llrs(np.random.default_rng(seed), n)
    distances = 100.0 - llrs  # scipy wants distances; order and means are kept
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average")
    wanted = fcluster(tree, 100.0 - threshold - 1e-9, "distance")
    assert same_partition(average_link(llrs, threshold), wanted)


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_a_number_of_speakers_is_kept(count):
    llrs = random_llrs(np.random.default_rng(count), 12)
    distances = 100.0 - llrs
    np.fill_diagonal(distances, 0.0)
    wanted = fcluster(linkage(squareform(distances, checks=False), "average"), count, "maxclust")
    found = average_link(llrs, 0.0, count)
    assert len(set(found)) == count and same_partition(found, wanted)


def test_labels_count_from_the_first_utterance():
    llrs = np.full((4, 4), -5.0)
    llrs[1, 3] = llrs[3, 1] = 9.0
    assert average_link(llrs, 0.0).tolist() == [0, 1, 2, 1]


def written_out(model, sides, threshold):
    """Greedy joining with every LLR computed anew from the utterances themselves."""
    clusters = [[row] for row in range(len(sides))]
    while len(clusters) > 1:
        whole = []
        for members in clusters:
            whole.append(model.merged(sides.take(members), np.zeros(len(members), np.int64), 1))
        every = joined_sides(whole)
        llrs = model.llrs(every, every)
        llrs = 0.5 * (llrs + llrs.T)
        np.fill_diagonal(llrs, -np.inf)
        one, other = sorted(np.unravel_index(llrs.argmax(), llrs.shape))
        if not llrs[one, other] > threshold:
            break
        clusters[one] += clusters.pop(other)
    labels = np.empty(len(sides), int)
    for number, members in enumerate(clusters):
        labels[members] = number
    return labels


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(6))
def test_by_the_book_is_the_definition(seed):
    model = joint_model(seed)
    sides = single_sides(model.scorer, *utterances(12, seed, people=4))
    for threshold in (-3.0, 0.0, 3.0):
        found = by_the_book(model, sides, threshold)
        assert same_partition(found, written_out(model, sides, threshold))


def test_bad_llrs_are_refused():
    with pytest.raises(InputError, match="expected \\(n, n\\)"):
        average_link(np.zeros((2, 3)), 0.0)
    with pytest.raises(InputError, match="not finite"):
        average_link(np.array([[0.0, np.nan], [0.0, 0.0]]), 0.0)
    with pytest.raises(InputError, match="5 speakers of 3 utterances"):
        average_link(np.zeros((3, 3)), 0.0, 5)
