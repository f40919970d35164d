import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.train.data.rings import Rings

group_sizes = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def make(sizes: list[int], seed: int = 0) -> Rings:
    return Rings(np.repeat(np.arange(len(sizes)), sizes), np.random.default_rng(seed))


@settings(max_examples=50, deadline=None)
@given(sizes=group_sizes, seed=st.integers(0, 100))
def test_every_round_sees_each_item_once(sizes: list[int], seed: int):
    rings = make(sizes, seed)
    for group, size in enumerate(sizes):
        own = set(range(sum(sizes[:group]), sum(sizes[: group + 1])))
        for _ in range(3):
            assert set(rings.take_run(group, size)) == own


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(2, 5), min_size=1, max_size=4), seed=st.integers(0, 100))
def test_two_items_of_one_draw_differ(sizes: list[int], seed: int):
    rings = make(sizes, seed)
    groups = np.arange(len(sizes))
    for _ in range(20):
        pair = rings.take(groups, 2)
        assert np.all(pair[:, 0] != pair[:, 1])


@settings(max_examples=30, deadline=None)
@given(sizes=group_sizes, seed=st.integers(0, 100))
def test_items_are_seen_equally_often(sizes: list[int], seed: int):
    rings = make(sizes, seed)
    seen = np.zeros(sum(sizes), dtype=int)
    groups = np.arange(len(sizes))
    for _ in range(60):
        np.add.at(seen, rings.take(groups, 2 if min(sizes) > 1 else 1), 1)
    start = np.cumsum([0, *sizes])
    for first, last in zip(start[:-1], start[1:], strict=True):
        # An item may lead another by the list under way and the one just begun.
        assert np.ptp(seen[first:last]) <= 2


def test_a_group_named_twice_goes_on_where_it_was():
    rings = make([4])
    first = rings.take(np.array([0, 0]), 2)
    assert set(first.ravel()) == {0, 1, 2, 3}


def test_items_stay_in_their_group(rng):
    sizes = [3, 1, 5, 2]
    rings = make(sizes)
    group_of = np.repeat(np.arange(4), sizes)
    for _ in range(50):
        groups = rng.integers(0, 4, 10)
        np.testing.assert_array_equal(group_of[rings.take(groups)[:, 0]], groups)


def test_restored_state_repeats_the_draws():
    rng = np.random.default_rng(3)
    rings = Rings(np.repeat(np.arange(5), 4), rng)
    rings.take(np.arange(5), 3)
    state, generator = rings.state(), rng.bit_generator.state
    first = [rings.take(np.arange(5), 2) for _ in range(6)]
    rings.restore(state)
    rng.bit_generator.state = generator
    again = [rings.take(np.arange(5), 2) for _ in range(6)]
    np.testing.assert_array_equal(first, again)


def test_order_is_random():
    orders = {tuple(make([6], seed).take_run(0, 6)) for seed in range(50)}
    assert len(orders) > 40
