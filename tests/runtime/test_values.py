"""What comes from outside as a single value: the right kind and range, or one line that says so."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcaplda.runtime import InputError, values
from dcaplda.runtime.decision import bayes_threshold
from dcaplda.runtime.gallery.search import needed_posterior

NO_NUMBERS = [
    None,
    "0.5",
    b"1",
    True,
    np.True_,
    1 + 0j,
    np.complex128(1),
    np.array([0.5]),
    np.array("0.5"),
    [0.5],
    {},
    math.nan,
    math.inf,
    10**400,
    10**5000,  # of too many digits to be shown
    np.ma.masked,
    object(),
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_what_is_no_number_is_one_line(value) -> None:
    for check in (
        lambda: values.number(value, "the answer"),
        lambda: values.prior(value),
        lambda: values.cost(value, "miss"),
    ):
        with pytest.raises(InputError, match=r"(the answer|prior|cost of a miss).* is ") as caught:
            check()
        text = str(caught.value)
        assert "\n" not in text and len(text) < 200
    if not isinstance(value, int) or isinstance(value, bool):
        with pytest.raises(InputError, match="top_k = .*: expected a whole number"):
            values.whole(value, "top_k", 1)


@pytest.mark.parametrize(
    "value", [0.5, np.float32(0.5), np.float16(0.5), Fraction(1, 2), Decimal("0.5"), np.array(0.5)]
)
def test_numbers_of_any_class_are_numbers(value) -> None:
    assert values.prior(value) == values.cost(value, "miss") == 0.5


@pytest.mark.parametrize(
    "value", [2.5, 2.0, np.float64(2), "2", -1, 0, 2**31, 10**400, np.int64(0)]
)
def test_what_is_no_count_is_one_line(value) -> None:
    with pytest.raises(
        InputError, match="top_k = .*: expected a whole number, at least 1"
    ) as caught:
        values.whole(value, "top_k", 1)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_counts_of_any_class_are_counts() -> None:
    assert [values.whole(it, "n", 1) for it in (2, np.int8(2), np.uint64(2), np.array(2))] == [
        2
    ] * 4


@given(
    st.floats(values.LEAST_COST, values.MOST_COST), st.floats(values.LEAST_COST, values.MOST_COST)
)
def test_costs_of_the_range_give_thresholds(miss: float, fa: float) -> None:
    """Against exact fractions; 1e-12 relative."""
    needed = Fraction(fa) / (Fraction(fa) + Fraction(miss))
    assert needed_posterior(miss, fa) == pytest.approx(float(needed), rel=1e-12)
    assert math.isfinite(bayes_threshold(0.01, miss, fa))


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-101, 1e101, 1e308])
def test_costs_outside_of_the_range_are_refused(value: float) -> None:
    with pytest.raises(
        InputError, match="cost of a .* must be a number above 0, from 1e-100 to 1e"
    ):
        needed_posterior(value, 1.0)
    with pytest.raises(InputError, match="false acceptance"):
        needed_posterior(1.0, value)


@pytest.mark.parametrize(
    "name", ["a", "id10270-x_-00001", "ä", "名前", "a/b.wav", "x" * 4095, "\u3000"]
)
def test_ids_are_words(name: str) -> None:
    assert values.is_word(name) and values.word(name, "id") == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a\tb", "a\0", "\x1b[2J", "a\x0cb", "a\x7f", "a\x85", "\ud800", "x" * 4096, 7],
)
def test_other_things_are_no_ids(name) -> None:
    assert not values.is_word(name)
    with pytest.raises(InputError, match="^id .*: expected one word") as caught:
        values.word(name, "id")
    str(caught.value).encode()  # a message must be printable
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)
