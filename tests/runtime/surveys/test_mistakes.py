"""Tables that cannot be right are named with what went wrong; tables that can, are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.runtime.familiarity import Familiarity, Range, SideInformation
from dcaplda.runtime.surveys.mistakes import (
    DETAIL,
    NOTE,
    UNITS,
    WRONG,
    look_at_distances,
    look_at_lengths,
    look_at_seconds,
)

RANGES = [Range(0.7, 45.0), Range(4.0, 240.0), Range(1.0, 30.0)]
KNOWN = Familiarity(seconds=RANGES[0], norm=Range(4.6, 12.2))
NOTHING = Familiarity()


def like_training(usual: Range, count: int, seed: int) -> np.ndarray:
    """Log-uniform over the range, as speech is; two decimals, as utt2dur has them."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.uniform(np.log(usual.low), np.log(usual.high), count))
    return np.clip(np.round(values, 2), usual.low, usual.high)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(RANGES), st.integers(20, 300), st.integers(0, 9999), st.sampled_from(UNITS[:4])
)
def test_the_unit_is_the_right_one(usual: Range, count: int, seed: int, unit) -> None:
    name, seconds_of, _ = unit
    seconds = like_training(usual, count, seed)
    known = Familiarity(seconds=usual)
    assert look_at_seconds(seconds, known) is None
    found = look_at_seconds(np.round(seconds / seconds_of), known)
    assert found is not None and found.weight == WRONG
    # Rates that differ by a factor of two: the few durations of a table may fit either.
    likely = [u for u in UNITS if u is unit or ("samples" in u[0] and "samples" in name)]
    words = [f"they look like {u[0]}; give seconds of speech, or {u[2]}" for u in likely]
    assert any(text in found.text for text in words)


def test_the_wrong_one_of_two_tables_in_one_is_recognised() -> None:
    seconds = like_training(RANGES[0], 200, 3)
    for share in (0.15, 0.5):
        mixed = np.where(np.arange(200) < 200 * share, np.round(seconds * 1000), seconds)
        found = look_at_seconds(mixed, KNOWN)
        assert found.weight == WRONG
        assert found.text.endswith("they look like milliseconds; give seconds of speech")


def test_minutes_are_recognised() -> None:
    found = look_at_seconds(like_training(RANGES[0], 100, 1) / 60, KNOWN)
    assert found.weight == WRONG and "are they minutes?" in found.text


def test_what_is_no_unit_is_not_made_one() -> None:
    """A minute where training had seconds: outside, and nothing more is known."""
    found = look_at_seconds(np.linspace(50.5, 60.5, 50), Familiarity(seconds=Range(1.0, 2.0)))
    assert found.weight == WRONG
    assert found.text.endswith("trained on 1.0-2.0 s): there LLRs deserve less trust")


def test_long_calls_that_are_no_whole_numbers_are_asked_about() -> None:
    found = look_at_seconds(like_training(Range(100.0, 300.0), 99, 2) + 0.001, KNOWN)
    assert found.weight == WRONG and "are they frames of 10 ms?" in found.text


@pytest.mark.parametrize(("outside", "weight"), [(0, None), (1, DETAIL), (30, NOTE), (150, WRONG)])
def test_a_few_outside_are_no_mistake(outside: int, weight: str | None) -> None:
    seconds = np.full(1000, 5.5)
    seconds[:outside] = 60.5
    lengths = np.linspace(5, 12, 1000)
    lengths[:outside] = 20.0
    side = SideInformation(slice(0, 1), np.eye(1), np.zeros(1), 3.0)
    distances = np.full(1000, 2.0)
    distances[:outside] = 4.0
    for found, words in (
        (look_at_seconds(seconds, KNOWN), "durations lie outside"),
        (look_at_lengths(lengths, KNOWN), "embeddings have an unusual length"),
        (look_at_distances(distances, Familiarity(side=side)), "utterances have side-information"),
    ):
        assert (found and found.weight) == weight
        assert found is None or found.text.startswith(f"{outside} of 1000 {words}")


@pytest.mark.parametrize("length", [1.0, np.sqrt(192), 5.0, 1e-3])
def test_normalized_embeddings_are_recognised(length: float) -> None:
    """To any length, also one that is usual in training."""
    lengths = np.full(40, length) * (1 + 1e-7 * np.arange(40))
    found = look_at_lengths(lengths, KNOWN)
    assert found.weight == WRONG
    assert (
        f"all 40 embeddings have length {length:.4g}, in training 99.9% had 4.60-12" in found.text
    )
    assert "were they normalized?" in found.text


def test_some_normalized_among_others_are_recognised() -> None:
    lengths = np.linspace(5, 12, 1000)
    lengths[::50] = 1.0
    found = look_at_lengths(lengths, KNOWN)
    assert found.weight == WRONG and "20 of 1000 embeddings have length 1" in found.text


def test_where_training_was_normalized_the_others_are_wrong() -> None:
    known = Familiarity(norm=Range(1.0, 1.0))
    assert look_at_lengths(np.ones(50), known) is None
    found = look_at_lengths(np.linspace(5, 12, 50), known)
    assert found.weight == WRONG and found.text.endswith("normalize them as for training")


def test_one_odd_utterance_of_a_few_is_no_mistake() -> None:
    """As outside as one in 200 of real corpora is; one far off, alone in its table, is one."""
    few = np.array([4.5, *np.linspace(5, 12, 9)])
    for count in (1, 2, 5, 10):
        assert look_at_lengths(few[:count], KNOWN).weight == NOTE
        assert look_at_seconds(few[:count] * 0.13, KNOWN).weight == NOTE
    assert look_at_lengths(np.array([700.0]), KNOWN).weight == WRONG
    found = look_at_seconds(np.array([4010.0]), KNOWN)
    assert found.weight == WRONG and "they look like" in found.text


def test_another_scale_is_said() -> None:
    found = look_at_lengths(np.linspace(500, 1200, 50), KNOWN)
    assert found.weight == WRONG and "are they scaled, or of another extractor?" in found.text


def test_one_or_two_of_one_length_are_no_pattern() -> None:
    assert look_at_lengths(np.array([7.0]), KNOWN) is None
    assert look_at_lengths(np.array([7.0, 7.0]), KNOWN) is None
    assert look_at_lengths(np.array([1.0]), KNOWN).weight == WRONG


def test_a_bundle_that_knows_nothing_accuses_nobody_of_what_may_be_right() -> None:
    assert look_at_lengths(np.linspace(5, 12, 50), NOTHING) is None
    found = look_at_lengths(np.ones(50), NOTHING)
    assert found.weight == NOTE and "does not tell whether those of training" in found.text
    assert look_at_seconds(like_training(RANGES[1], 50, 1), NOTHING) is None
    found = look_at_seconds(like_training(RANGES[1], 50, 1) * 1000, NOTHING)
    assert found.weight == WRONG and "frames or milliseconds?" in found.text
    assert look_at_distances(np.ones(3), NOTHING) is None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0, 1e38), min_size=1, max_size=20),
    st.floats(0, 1e7),
    st.floats(1e-6, 1e7),
)
def test_whatever_comes_there_is_an_answer(
    given_values: list[float], low: float, high: float
) -> None:
    known = Familiarity(seconds=Range(min(low, high), high), norm=Range(min(low, high), high))
    for look in (look_at_lengths, look_at_seconds):
        for familiarity in (known, NOTHING):
            found = look(np.array(given_values), familiarity)
            assert found is None or (
                found.weight in (WRONG, NOTE, DETAIL) and "\n" not in found.text
            )
