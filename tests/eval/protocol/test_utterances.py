"""Tables of a data directory: defaults, what is left out, and everything wrong in one message."""

from pathlib import Path

import pytest

from dcaplda.eval.protocol.utterances import Wanted, read_utterances
from dcaplda.runtime.errors import InputError, TableError


def write(folder: Path, **tables: str) -> str:
    """Tables from texts `a 1, b 2`; `xvector_scp` is xvector.scp."""
    folder.mkdir(exist_ok=True)
    for name, text in tables.items():
        lines = text.replace(", ", "\n") + "\n" if text else ""
        (folder / name.replace("_scp", ".scp")).write_text(lines)
    return str(folder)


GOOD = "a1 ann, a2 ann, b1 bob, b2 bob"


def test_without_other_tables_an_utterance_is_a_session_of_one_domain(tmp_path: Path) -> None:
    found = read_utterances(
        write(tmp_path, utt2spk="a1 ann, a2 ann, b1 bob, b1-noise bob"), Wanted()
    )
    assert found.session == {"a1": "a1", "a2": "a2", "b1": "b1", "b1-noise": "b1"}
    assert found.people() == {
        "all": {"ann": {"a1": ["a1"], "a2": ["a2"]}, "bob": {"b1": ["b1", "b1-noise"]}}
    }
    assert found.notes == ["no utt2sess: 3 sessions taken from the ids"]


def test_sessions_of_segments_and_of_utt2sess(tmp_path: Path) -> None:
    place = write(
        tmp_path, utt2spk=GOOD, segments="a1 r1 0 1, a2 r1-reverb 0 1, b1 r2 0 1, b2 r3 0 1"
    )
    assert set(read_utterances(place, Wanted()).session.values()) == {"r1", "r2", "r3"}
    write(tmp_path, utt2sess="a1 s1, a2 s2, b1 s3, b2 s3")
    found = read_utterances(place, Wanted())
    assert found.session == {"a1": "s1", "a2": "s2", "b1": "s3", "b2": "s3"}
    assert not found.notes


def test_utterances_without_a_vector_or_too_short_are_in_no_trial(tmp_path: Path) -> None:
    place = write(
        tmp_path,
        utt2spk=GOOD,
        xvector_scp="a1 x:1, a2 x:2, b1 x:3",
        utt2dur="a1 3, a2 1, b1 2, b2 9",
    )
    found = read_utterances(place, Wanted(min_seconds=2.0))
    assert found.usable == {"a1", "b1"}
    assert "1 utterances are not in" in found.notes[1]
    assert found.notes[2] == "1 utterances are shorter than 2 s"
    own = write(tmp_path, mine="a2, b2")
    assert read_utterances(place, Wanted(listed_in=f"{own}/mine")).usable == {"a2", "b2"}


def test_ids_that_only_other_tables_have_do_no_harm(tmp_path: Path) -> None:
    place = write(tmp_path, utt2spk=GOOD, utt2dom="a1 x, a2 x, b1 x, b2 y, c1 y")
    found = read_utterances(place, Wanted())
    assert found.notes[1].endswith("utt2dom: 1 ids that utt2spk does not have are ignored")


def test_speakers_named_as_copies_are_told(tmp_path: Path) -> None:
    place = write(tmp_path, utt2spk="a1 ann, a2 ann, b1 ann-noise, b2 ann-noise")
    notes = read_utterances(place, Wanted()).notes
    assert notes[1].startswith("speaker 'ann-noise' looks like a degraded copy of 'ann'")


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"utt2spk": "a1 ann, a2 ann"}, "'ann' is the only speaker; nontarget trials need two"),
        (
            {"utt2spk": "a1 ann, b1 bob"},
            "nobody has two sessions, so there are no target trials; tell sessions by utt2sess",
        ),
        ({"utt2sess": "a1 s, a2 s, b1 t, b2 t"}, "no target trials; check utt2sess"),
        (
            {"utt2sess": "a1 s, a2 t, b1 s, b2 u"},
            "session 's' has two speakers, 'ann' and 'bob'; correct utt2sess, or say "
            "--allow-shared-sessions",
        ),
        ({"utt2sess": "a1 s, a2 t"}, "utt2sess: lacks 2 of 4 utterances of utt2spk, such as 'b1'"),
        ({"utt2dom": "a1 x, a2 x, b1 x"}, "utt2dom: lacks 1 of 4 utterances of utt2spk"),
        ({"spk2utt": "ann a1 b1, bob b2"}, "spk2utt: 'b1' is of 'ann', in utt2spk of 'bob'"),
        ({"xvector_scp": "z1 x:1"}, "xvector.scp: has no utterance of utt2spk"),
        ({"utt2dom": "a1 x y"}, "line 1: expected an id and one word, found 'a1 x y'"),
        ({"segments": "a1 r1 0"}, "line 1: expected 'utterance recording start end'"),
        ({"utt2spk": ""}, "the table is empty"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, tables: dict, words: str) -> None:
    place = write(tmp_path, **{"utt2spk": GOOD, **tables})
    with pytest.raises(InputError) as caught:
        read_utterances(place, Wanted())
    assert words in str(caught.value)


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    place = write(
        tmp_path,
        utt2spk="a1 ann, a2 ann",
        utt2sess="a1 s, a2 s",
        utt2dom="a1 x",
        spk2utt="bob a1",
        utt2dur="a1 long",
    )
    with pytest.raises(InputError) as caught:
        read_utterances(place, Wanted(min_seconds=1.0))
    text = str(caught.value)
    for words in ("utt2dom: lacks 1", "utt2dur' line 1", "spk2utt: 'a1'", "only speaker"):
        assert words in text
    assert "nobody has two sessions" in text and "\n" not in text


def test_sides_of_a_call_may_share_a_session_if_said(tmp_path: Path) -> None:
    place = write(tmp_path, utt2spk=GOOD, utt2sess="a1 s, a2 t, b1 s, b2 u")
    found = read_utterances(place, Wanted(allow_shared_sessions=True))
    assert found.session["a1"] == found.session["b1"]


@pytest.mark.parametrize("missing", ["folder", "table"])
def test_no_directory_and_no_utt2spk(tmp_path: Path, missing: str) -> None:
    with pytest.raises((InputError, TableError), match="data directory"):
        read_utterances(str(tmp_path / missing if missing == "folder" else tmp_path), Wanted())
