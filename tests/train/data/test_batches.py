from dataclasses import replace

import numpy as np
import pytest
from training_world import Sample, draw

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.batches import BatchWalker, make_batch
from dcaplda.train.recipe.sections import BatchSection


@pytest.fixture(scope="module")
def data():
    return draw(2).data()


def kinds(batch) -> list[np.ndarray]:
    """Per block: 1 target, 0 nontarget, -1 no trial."""
    found = []
    for block in batch.blocks:
        kind = np.zeros(block.size**2, dtype=int)
        kind[block.targets] = 1
        kind[block.excluded] = -1
        found.append(kind.reshape(block.size, block.size))
    return found


def check_trials(data, batch) -> None:
    """Every pair of a block against the labels themselves."""
    for block, kind in zip(batch.blocks, kinds(batch), strict=True):
        rows = batch.rows[block.start : block.stop]
        assert len(set(data.domain[rows])) == 1
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                if data.session[a] == data.session[b]:
                    expected = -1
                else:
                    expected = int(data.identity[a] == data.identity[b])
                assert kind[i, j] == expected
        assert block.n_nontargets == int((kind == 0).sum())


@pytest.mark.parametrize("balance", ["domain", "flat"])
def test_trials_are_all_same_domain_pairs_of_two_sessions(data, balance: str):
    walker = BatchWalker(data, BatchSection(size=36, balance=balance), 0)
    for _ in range(3):
        check_trials(data, walker.next_batch())


def test_each_domain_brings_its_share_of_speakers_with_two_sessions(data):
    walker = BatchWalker(data, BatchSection(size=48), 1)
    for _ in range(10):
        batch = walker.next_batch()
        assert len(batch.rows) == 48
        assert [block.size for block in batch.blocks] == [16, 16, 16]
        for pair in batch.rows.reshape(-1, 2):
            assert data.speaker[pair[0]] == data.speaker[pair[1]]
            assert data.session[pair[0]] != data.session[pair[1]]


def test_flat_batches_take_speakers_as_they_come():
    """A domain with most of the speakers gets most of the batch."""
    small, large = draw(0, domains=1, speakers=4), draw(1, domains=1, speakers=24, prefix="x")
    merged = Sample(
        small.ids + large.ids,
        np.concatenate([small.vectors, large.vectors]),
        small.speaker | large.speaker,
        small.session | large.session,
        dict.fromkeys(small.ids, "small") | dict.fromkeys(large.ids, "large"),
        small.seconds | large.seconds,
    ).data()
    walker = BatchWalker(merged, BatchSection(size=28, balance="flat"), 0)
    seen = np.zeros(2)
    for _ in range(20):
        seen += np.bincount(merged.domain[walker.next_batch().rows], minlength=2)
    # Names sort as large, small; 14 of 28 speakers are drawn each time, each equally often.
    assert seen[0] / seen.sum() == pytest.approx(24 / 28, abs=0.02)


def test_speakers_sessions_and_samples_are_seen_equally_often(data):
    walker = BatchWalker(data, BatchSection(size=36), 4)
    seen = np.zeros(len(data.ids), dtype=int)
    for _ in range(200):
        np.add.at(seen, walker.next_batch().rows, 1)
    speakers = np.bincount(data.speaker, weights=seen)
    assert np.ptp(speakers) <= 4  # 2 samples, and a list may be one round ahead
    sessions = np.bincount(data.session, weights=seen)
    assert np.ptp(sessions) <= 4
    assert np.ptp(seen) <= 4


def test_degraded_copies_are_other_speakers_of_the_same_person():
    sample = draw(3, domains=1, speakers=6)
    copies = {name: f"{name}x" for name in sample.ids}
    both = Sample(
        sample.ids + list(copies.values()),
        np.concatenate([sample.vectors, sample.vectors + 0.1]).astype(np.float32),
        sample.speaker | {copies[n]: s for n, s in sample.speaker.items()},
        sample.session | {copies[n]: s for n, s in sample.session.items()},
        sample.domain | {copies[n]: "tel" for n in sample.ids},
        sample.seconds | {copies[n]: s for n, s in sample.seconds.items()},
    ).data()
    assert both.n_speakers == 12
    assert len(np.unique(both.identity)) == 6
    batch = BatchWalker(both, BatchSection(size=24), 0).next_batch()
    check_trials(both, batch)
    assert [block.size for block in batch.blocks] == [12, 12]


def test_a_domain_that_cannot_fill_its_share_is_named(data):
    with pytest.raises(InputError, match=r"domain 'dom0' has 14 speakers, a batch takes 20") as e:
        BatchWalker(data, BatchSection(size=120), 0)
    assert "at most 84" in str(e.value)
    BatchWalker(data, BatchSection(size=84), 0).next_batch()


def test_small_domains_may_repeat_speakers_if_told_to(data):
    section = BatchSection(size=120, repeat_speakers=True)
    batch = BatchWalker(data, section, 0).next_batch()
    assert [block.size for block in batch.blocks] == [40, 40, 40]
    check_trials(data, batch)


def test_domain_weights_reach_their_blocks(data):
    section = BatchSection(size=36, domain_weights={"dom1": 3.0})
    batch = BatchWalker(data, section, 0).next_batch()
    assert [block.weight for block in batch.blocks] == [1.0, 3.0, 1.0]
    expected = sum(w * len(b.targets) for w, b in zip([1, 3, 1], batch.blocks, strict=True))
    assert batch.target_mass == expected


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"dom7": 1.0}, "no domain 'dom7'"), (dict.fromkeys(["dom0", "dom1", "dom2"], 0.0), "all")],
)
def test_impossible_domain_weights_are_refused(data, weights: dict, message: str):
    with pytest.raises(InputError, match=message):
        BatchWalker(data, BatchSection(size=36, domain_weights=weights), 0)


def test_saved_state_gives_the_same_batches(data):
    section = BatchSection(size=36)
    walker = BatchWalker(data, section, 0)
    for _ in range(7):
        walker.next_batch()
    state, generator = walker.state(), walker.rng.bit_generator.state
    expected = [walker.next_batch().rows for _ in range(9)]
    other = BatchWalker(data, section, 5)
    other.restore(state, generator)
    found = [other.next_batch().rows for _ in range(9)]
    np.testing.assert_array_equal(found, expected)


def test_seeds_decide_the_batches(data):
    section = BatchSection(size=36)
    one, same, other = (BatchWalker(data, section, seed).next_batch().rows for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_shared_sessions_never_meet_in_a_trial(data):
    """Two speakers of one call: their pair is neither target nor nontarget."""
    session = data.session.copy()
    a, b = np.flatnonzero(data.speaker == 0)[0], np.flatnonzero(data.speaker == 1)[0]
    session[b] = session[a]
    shared = replace(data, session=session)
    batch = make_batch(shared, np.array([a, b]), np.ones(3))
    assert kinds(batch)[0].tolist() == [[-1, -1], [-1, -1]]
