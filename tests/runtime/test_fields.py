"""Values of JSON and TOML: each of one type, or one line that says which and what to do."""

import json
import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcaplda.runtime.errors import BundleError, DcapldaError, UsageError
from dcaplda.runtime.fields import DEEPEST, Table, parse_json, parse_toml, shown, typed

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TREES = st.recursive(
    PLAIN | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=12,
)


@given(TREES)
def test_json_is_read_as_python_reads_it(value) -> None:
    text = json.dumps(value)
    assert parse_json(text) == json.loads(text) == parse_json(text.encode())


@pytest.mark.parametrize(
    "text",
    ['{"a": NaN}', "[Infinity]", "[-Infinity]", "1e999", '{"a": 1, "a": 2}', '"\\ud800"']
    + ['"\\u0000"']
    + ["[" * n + "]" * n for n in (DEEPEST + 1, 5000, 200_000)]
    + ['{"a":' * 100_000, "{", "9" * 5000, "", '{"\\udfff": 1}'],
)  # fmt: skip
def test_json_that_means_different_things_to_different_readers_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["x = " + "[" * 3000, "a" + ".a" * 3000 + " = 1", 'x = "\\u0000"'])
def test_toml_without_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_toml(text)


DATE = tomllib.loads("x = 2020-01-01")["x"]
WRONG = {
    int: [1.0, "1", True, None, [1], {}, DATE, 2**63, -(2**64), math.inf],
    float: ["1", True, None, [1.0], math.nan, math.inf, -math.inf, 10**400, DATE],
    bool: [0, 1, "true", None, []],
    str: [0, b"x", None, ["x"], DATE],
    list[float]: [1.0, [True], ["x"], [[1.0]], {"a": 1.0}, [math.nan], "12"],
    dict[str, int]: [[], {"a": 1.5}, {"a": {"b": 1}}, 3],
    float | list[float]: ["x", None, ["x"], {}],
}


@pytest.mark.parametrize(("hint", "values"), WRONG.items(), ids=str)
def test_values_of_another_type_are_refused(hint, values) -> None:
    for value in values:
        with pytest.raises(UsageError, match=r"^here.* = .*: expected ") as caught:
            typed(value, hint, "here")
        assert "\n" not in str(caught.value)


def test_values_of_the_right_type_are_taken() -> None:
    assert typed(3, float, "x") == 3.0 and isinstance(typed(3, float, "x"), float)
    assert typed([1, 2.5], list[float], "x") == [1.0, 2.5]
    assert typed([1], float | list[float], "x") == [1.0]
    assert typed(2, float | list[float], "x") == 2.0
    assert typed(None, float | None, "x") is None
    assert typed({"a": 1}, dict[str, int], "x") == {"a": 1}
    assert typed(2**63 - 1, int, "x") == 2**63 - 1


@given(
    TREES, st.sampled_from([int, float, bool, str, list[int], dict[str, float], int | list[str]])
)
def test_whatever_is_taken_has_the_type(value, hint) -> None:
    try:
        found = typed(value, hint, "x")
    except DcapldaError:
        return
    assert json.loads(json.dumps(found)) == found == value, "and is what was written"


def test_a_table_names_the_place_the_key_the_value_and_the_way_out() -> None:
    table = Table({"a": {"b": [1]}, "n": 9}, "model.json", BundleError, "export again")
    for ask, words in (
        (lambda: table.table("a").whole("b", 1), "'a.b' = [1]: expected a whole number"),
        (lambda: table.whole("n", 1, 5), "'n' = 9: expected a whole number from 1 to 5"),
        (lambda: table.number("n", 10.0), "'n' = 9.0: expected at least 10"),
        (lambda: table.text("x"), "'x' is missing"),
        (lambda: table.table("n"), "'n' = 9: expected a table"),
        (lambda: table.flag("n"), "'n' = 9: expected true or false"),
    ):
        with pytest.raises(BundleError) as caught:
            ask()
        assert str(caught.value) == f"model.json: {words}; export again"
    assert table.optional_table("y") is None and table.text("x", "usual") == "usual"
    with pytest.raises(BundleError, match="model.json: it is no table"):
        Table([], "model.json", BundleError, "export again")


def test_a_value_is_shown_without_end_to_it() -> None:
    value: list = []
    for _ in range(60):
        value = [value, value]
    assert len(shown(value)) <= 60 and len(shown("x" * 10**6)) <= 60
    assert shown(10**5000) and shown(3) == "3"


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[31mb", "a\ud800b", "a\u2028b", "a\0b", "a\rb"])
def test_an_error_is_one_line_that_a_terminal_shows_as_it_is(text: str) -> None:
    message = str(BundleError(f"here: {text} is wrong"))
    assert message.isprintable() and message.encode()
    assert message.startswith("here: a") and message.endswith("b is wrong")
