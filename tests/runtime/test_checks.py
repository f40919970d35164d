"""Arrays from outside: what numpy would quietly make numbers of is refused; limits hold."""

import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dcaplda.runtime import InputError, checks


class Rude:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("first line\nsecond line")


MASKED = np.ma.array([[1.0, 2.0]], mask=[[False, True]])


@pytest.mark.parametrize(
    ("given_values", "message"),
    [
        (MASKED, "masked"),
        ([MASKED[0], MASKED[0]], "masked"),
        ([[1 + 2j, 3]], "holds complex numbers"),
        (np.array([[1, 2]], np.complex64), "holds complex numbers"),
        ([["1", "2"]], "holds text"),
        (np.array([[b"1", b"2"]]), "holds text"),
        (np.array([["1", 2.0]], object), "expected real numbers"),
        ([[True, False]], "holds truth values"),
        (np.array([["2020-01-01", "2020-01-02"]], "M8[D]"), "holds datetime64"),
        ([[1.0, None]], "row 0 holds nan"),
        ([[1.0], [1.0, 2.0]], "not an array of numbers"),
        ([[10**400, 1]], "not an array of numbers"),
        (Rude(), "not an array of numbers .first line."),
        ({}, "not an array of numbers"),
        ([[1e300, 0.0]], "row 0 holds inf"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_one_line(given_values, message: str) -> None:
    with pytest.raises(InputError, match=f"x: .*{message}") as caught:
        checks.as_matrix(given_values, "x", 2)
    assert "\n" not in str(caught.value)
    if not isinstance(given_values, Rude) and np.size(np.asarray(given_values, object)) == 2:
        with pytest.raises(InputError):
            checks.seconds(given_values, "seconds", 2, True)


def test_a_mask_that_hides_nothing_does_no_harm() -> None:
    np.testing.assert_array_equal(checks.as_matrix(np.ma.array([[1, 2]]), "x", 2), [[1, 2]])


@given(
    hnp.arrays(np.float32, (5, 3), elements=st.floats(-(2.0**66), 2.0**66, width=32)),
    st.sampled_from([1e-3, 1.0, 1e5, 1e15]),
)
def test_a_long_row_is_found_wherever_it_is(matrix: np.ndarray, longest: float) -> None:
    """Against float64; rows within 1e-5 of the limit may count either way."""
    lengths = np.sqrt((matrix.astype(np.float64) ** 2).sum(axis=1))
    found = checks.long_row(matrix, longest)
    if found is None:
        assert (lengths <= longest * 1.00001).all()
    else:
        assert lengths[found] > longest and (lengths[:found] <= longest).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_a_row_that_is_not_finite_is_long(value) -> None:
    matrix = np.ones((4, 3), np.float32)
    matrix[2, 1] = value
    assert checks.long_row(matrix, 1e15) == 2


@pytest.mark.parametrize("factor", [1e-44, 1e-30, 1e-10, 1.0, 1e10, 1e18, 1e30])
def test_lengths_of_any_size(factor: float) -> None:
    """Within 1e-6 of float64, also where squares are beyond float32."""
    x = (np.random.default_rng(0).standard_normal((3, 20)) * factor).astype(np.float32)
    expected = np.linalg.norm(x.astype(np.float64), axis=1)
    np.testing.assert_allclose(checks.lengths(x), expected, rtol=1e-6)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_llr_that_is_not_finite_goes_nowhere(value, dtype) -> None:
    llrs = np.full((4, 5), 1e30, dtype)
    assert checks.finite_llrs(llrs) is llrs  # large, and still numbers
    llrs[2, 3] = value
    with pytest.raises(InputError, match=f"an LLR is {value} .of rows 2 and 3."):
        checks.finite_llrs(llrs)
    with pytest.raises(InputError, match="of rows 13"):
        checks.finite_llrs(llrs.reshape(-1))


def test_an_llr_beyond_float32_is_not_finite() -> None:
    with pytest.raises(InputError, match="an LLR is 1e[+]39"):
        checks.finite_llrs(np.array([0.0, 1e39]))


@pytest.mark.parametrize("value", [0.001, 1.0, 1e7])
def test_seconds_of_the_range(value: float) -> None:
    assert checks.seconds(value, "d", 1, True) == np.float32(value)


@pytest.mark.parametrize("value", [0.0, -2.0, 1e-300, 0.0009, 1.001e7, 1e300, np.inf, np.nan])
def test_seconds_outside_are_named_with_the_range(value: float) -> None:
    words = f"'b' has {value:g} seconds .1 such rows.; expected from 0.001 to 10,000,000 seconds"
    with pytest.raises(InputError, match=words.replace("+", "[+]")):
        checks.seconds([1.0, value], "durations", 2, True, ["a", "b"])


@pytest.mark.parametrize("value", [0, -1, 1.5, np.inf, np.nan, 2**31])
def test_numbers_of_utterances_are_counts(value) -> None:
    assert checks.counts([1, 7.0], "num_utts", 2).tolist() == [1.0, 7.0]
    with pytest.raises(InputError, match="num_utts: row 1 has .* expected a whole number above 0"):
        checks.counts([1, value], "num_utts", 2)


@pytest.mark.parametrize(
    "groups",
    [[0, 2], [0, 1.5], [0, 10**12], [-1, 0], [0], "ab", [0, None], np.array([0, 2**63], np.uint64)],
)
def test_groups_are_numbers_of_groups(groups) -> None:
    """10**12 once asked for terabytes."""
    with pytest.raises(InputError, match="^groups: "):
        checks.group_numbers(groups, 2)


@pytest.mark.parametrize("rows", [[2.7], [True], [[0]], ["0"], [5], [-1], [10**30], None])
def test_row_numbers_are_numbers_of_rows(rows) -> None:
    assert checks.indices([], "i", 5).tolist() == []
    with pytest.raises(InputError, match="^i: "):
        checks.indices(rows, "i", 5)


def test_an_import_of_masked_arrays_that_is_under_way_does_not_matter(monkeypatch) -> None:
    """Another thread may be in the middle of it."""
    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    assert checks.numbers([[1.0, 2.0]], "rows", np.float32).shape == (1, 2)
