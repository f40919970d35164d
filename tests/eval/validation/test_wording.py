"""Numbers and lists as the validation says them."""

import math

import pytest

from dcaplda.eval.validation.wording import (
    condition,
    count,
    listed,
    one_in,
    percent,
    ratio,
    seconds,
)


@pytest.mark.parametrize(
    ("lr", "said"),
    [(1, "1"), (1.04, "1"), (1.5, "1.5"), (9.94, "9.9"), (9.96, "10"), (240, "240"),
     (3149, "3,100"), (1 / 240, "1/240"), (0.5, "1/2"), (1 / 1.01, "1"), (123456, "120,000")],
)  # fmt: skip
def test_likelihood_ratios_have_two_digits(lr, said):
    assert ratio(math.log(lr)) == said


def test_extreme_likelihood_ratios_are_powers_or_words():
    assert ratio(50 * math.log(10)) == "10^50" and ratio(-50 * math.log(10)) == "10^-50"
    assert ratio(math.inf) == "infinity" and ratio(-math.inf) == "0"


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0"), (1, "100"), (0.5, "50.0"), (0.00031, "0.03"), (0.0416, "4.2"), (0.9996, "99.96"),
     (0.99999, "99.99"), (0.001, "0.1")],
)  # fmt: skip
def test_shares_never_round_to_all_or_nothing(share, said):
    assert percent(share) == f"{said}\u00a0%"


def test_small_shares_are_one_in_so_many():
    assert one_in(1 / 850) == "1 in 850" and one_in(0.5) == "1 in 2" and one_in(0.0) == "none"


def test_nouns_agree_with_their_number():
    assert [count(n, "person") for n in (1, 40)] == ["1 person", "40 people"]
    assert [count(n, "pair") for n in (1, 14400)] == ["1 pair", "14,400 pairs"]


def test_names_of_durations_are_words_and_others_stay():
    bins = ["<4 s", "4-8 s", "32+ s", "tel-us", "a<b"]
    assert [condition(b) for b in bins] == [
        "under 4 s", "4 to 8 s", "32 s or more", "tel-us", "a<b",
    ]  # fmt: skip
    assert [seconds(x) for x in (0.81, 9.5, 44.6)] == ["0.8\u00a0s", "9.5\u00a0s", "45\u00a0s"]


def test_lists_end_in_and_or_in_how_many_more():
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed(["a", "b"], 2) == "a and b"
