"""Vectors and labels joined: order, numbers and what is dropped, by the rules written out."""

import numpy as np
import pytest

from dcaplda.train.data.columns import Columns
from dcaplda.train.data.labelled import Labels, assemble


def drawn(seed: int) -> tuple[list[str], np.ndarray, dict[str, dict]]:
    """Ids in any order, some labels missing, sessions of one chunk and of several."""
    rng = np.random.default_rng(seed)
    ids = [f"u{n}" for n in rng.permutation(60)]  # u10 before u9 by name
    person = {name: f"p{rng.integers(7)}" for name in ids}
    domain = {name: str(rng.choice(["a", "a-b", "c"])) for name in ids}
    session = {n: f"{person[n]}-{domain[n]}-{rng.integers(4)}" for n in ids}
    seconds = {name: float(rng.uniform(1, 9)) for name in ids}
    for table in (person, session, seconds):
        for name in rng.choice(ids, 3, replace=False):
            table.pop(name, None)
    person["nobody"] = session["nobody"] = "p0"
    matrix = rng.standard_normal((len(ids), 3)).astype(np.float32)
    tables = {"speaker": person, "session": session, "domain": domain, "seconds": seconds}
    return ids, matrix, tables


def places(words: list) -> list[int]:
    """The number of each word among the different ones in order."""
    known = sorted(set(words))
    return [known.index(word) for word in words]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("recordings", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_rows_are_ordered_and_numbered_by_name(seed, recordings, in_place) -> None:
    ids, matrix, tables = drawn(seed)
    person, session, domain, seconds = tables.values()
    recording = {name: f"r{number % 5}" for number, name in enumerate(ids)} if recordings else None
    usable = [n for n in ids if n in person and n in session and n in seconds]
    sessions: dict[tuple[str, str], set[str]] = {}
    for n in usable:
        sessions.setdefault((domain[n], person[n]), set()).add(session[n])
    kept = [n for n in usable if len(sessions[domain[n], person[n]]) > 1]
    kept.sort(key=lambda n: (domain[n], person[n], session[n], n))
    vectors = {name: row for name, row in zip(ids, matrix.copy(), strict=True)}
    data = assemble(ids, matrix, Labels("x", **tables, recording=recording), in_place=in_place)
    assert data.ids == kept
    np.testing.assert_array_equal(data.embeddings, [vectors[n] for n in kept])
    np.testing.assert_array_equal(data.seconds, np.float32([seconds[n] for n in kept]))
    classes = [(domain[n], person[n]) for n in kept]
    of_recordings = [recording[n] if recording else (domain[n], session[n]) for n in kept]
    for found, words in (
        (data.speaker, classes),
        (data.identity, [person[n] for n in kept]),
        (data.session, [session[n] for n in kept]),
        (data.domain, [domain[n] for n in kept]),
        (data.recording, of_recordings),
    ):
        assert found.dtype == np.int32 and found.tolist() == places(words)
    assert data.domain_names == sorted({domain[n] for n in kept})
    assert data.speaker_names == [f"{d}:{p}" for d, p in sorted(set(classes))]
    alone = [key for key, own in sessions.items() if len(own) == 1]
    expected = {
        "vectors without a speaker": sum(n not in person for n in ids),
        "utterances without a session": sum(n in person and n not in session for n in ids),
        "utterances without a vector": 1,
        "speakers with one session": len(alone),
        "utterances of speakers with one session": len(usable) - len(kept),
    }
    assert expected.items() <= data.dropped.items()


def test_columns_are_the_tables_that_they_are_made_of() -> None:
    """Also where a table has other ids than the first."""
    columns = Columns()
    speaker = {"u2": "b", "u1": "a", "u3": "b"}
    seconds = {"u2": 2.5, "u1": 0.1, "u3": 7.0}
    other = {"u3": "x", "u9": "y", "u2": "x"}
    found = [columns.words(speaker), columns.numbers(seconds), columns.words(other)]
    for column, table in zip(found, (speaker, seconds, other), strict=True):
        assert dict(column) == table and list(column) == list(table)
        assert len(column) == 3 and "u9" in column or table is not other
        with pytest.raises(KeyError):
            column["u4"]
    assert found[0].rows is found[1].rows, "equal ids are held once"
