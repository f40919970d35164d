"""Ids become numbers by a guess that is checked: never wrong, whatever the guess was."""

import numpy as np
import polars as pl
import pytest

from dcaplda.eval.trials import ids as module
from dcaplda.eval.trials.ids import IdTable


@pytest.mark.parametrize("bits", [2, 20])
def test_numbers_stand_for_the_same_ids_even_if_guesses_collide(monkeypatch, bits):
    """With four slots for ninety ids nearly every guess is wrong."""
    monkeypatch.setattr(module, "SLOT_BITS", bits)
    monkeypatch.setattr(module, "LEAST_GUESSED", 10)
    rng = np.random.default_rng(0)
    table, code_of = IdTable(), {}
    for part in range(4):  # later parts have ids that earlier ones had not
        words = [f"utterance-{n:03d}" for n in rng.integers(0, 30 * (part + 1), 500)]
        codes = table.codes(pl.Series(words))
        assert [table.names[code] for code in codes] == words
        for word, code in zip(words, codes.tolist(), strict=True):
            assert code_of.setdefault(word, code) == code
    assert len(set(code_of.values())) == len(code_of) == len(table.names)


def test_equal_compares_names_row_by_row():
    table = IdTable()
    column = pl.Series(["a", "b", "a"])
    assert not table.equal(np.zeros(3, np.uint32), column).any()  # nothing is known yet
    codes = table.codes(column)
    assert table.equal(codes, column).all()
    assert table.equal(codes, pl.Series(["a", "a", "a"])).tolist() == [True, False, True]


def test_too_many_ids_are_looked_up(monkeypatch):
    monkeypatch.setattr(module, "MOST_GUESSED", 5)
    monkeypatch.setattr(module, "LEAST_GUESSED", 2)
    table = IdTable()
    words = [str(n % 11) for n in range(200)]
    for _ in range(2):
        assert [table.names[code] for code in table.codes(pl.Series(words))] == words
