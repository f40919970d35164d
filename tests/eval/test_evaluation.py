"""Sets in threads: the same results in the same order, and the first error as without threads."""

import time

import numpy as np
import pytest
from paired_sets import write_set

from dcaplda.eval.evaluation import Work, evaluate
from dcaplda.eval.sets import SetSpec, SystemSpec
from dcaplda.eval.threads import in_threads
from dcaplda.eval.trials.conditions import SideFiles
from dcaplda.runtime.errors import DcapldaError


@pytest.fixture
def plan(tmp_path):
    rng = np.random.default_rng(0)
    people = [f"p{i}" for i in range(8)]
    for number in range(5):
        write_set(tmp_path, f"s{number}", people, rng, {"one": 0.0, "two": 0.2})
    sets = [
        SetSpec(f"s{n}", f"{tmp_path}/s{n}.trials", "", SideFiles(f"{tmp_path}/s{n}.utt2spk"))
        for n in range(5)
    ]
    return sets, [SystemSpec(name, f"{tmp_path}/{{set}}.{name}") for name in ("one", "two")]


def test_threads_change_nothing(plan):
    done = []
    alone = evaluate(*plan, Work(n_replicates=40, threads=1, advance=done.append))
    assert sum(done) == 5 * 2 * 40
    for threads in (2, 7, 16):
        many = evaluate(*plan, Work(n_replicates=40, threads=threads))
        assert [(r.set, r.system) for r in many] == [(r.set, r.system) for r in alone]
        for one, other in zip(alone, many, strict=True):
            assert one.values == other.values and one.draws == other.draws
            np.testing.assert_allclose(one.replicates, other.replicates, atol=1e-12)


def test_systems_on_the_same_trials_share_their_draws(plan):
    found = evaluate(*plan, Work(n_replicates=10))
    assert len({result.draws for result in found}) == 1  # all sets are of the same people


def test_the_first_error_in_order_is_told(plan):
    sets, systems = plan
    broken = [*sets[:2], SetSpec("gone", "nowhere"), SetSpec("later", "nowhere-either")]
    for threads in (1, 3):
        with pytest.raises(DcapldaError, match="'nowhere': no such file"):
            evaluate(broken, systems[:1], Work(n_replicates=5, threads=threads))


def test_nothing_more_is_begun_after_an_error():
    """The failing item and what the other thread has in hand: quick work does not outrun it."""
    begun = []

    def work(item):
        begun.append(item)
        if item == 0:
            raise ValueError("first")
        time.sleep(0.01)
        return item

    for _ in range(20):
        begun.clear()
        with pytest.raises(ValueError, match="first"):
            list(in_threads(work, range(300), 2))
        assert len(begun) < 100


def test_an_earlier_error_wins_over_a_quicker_one():
    def work(item):
        if item == 1:
            time.sleep(0.05)
            raise ValueError("first")
        if item == 2:
            raise KeyError("second")
        return item

    with pytest.raises(ValueError, match="first"):
        list(in_threads(work, range(50), 4))
