"""People on one side only, a share of every domain, all tables on the side of their people."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.eval.protocol.directories import all_at_once, check_target, part_of
from dcaplda.eval.protocol.split import held_out, together
from dcaplda.eval.protocol.utterances import Utterances, Wanted, read_utterances
from dcaplda.runtime.errors import InputError, UsageError


def everyone(homes: dict[str, str], shared: tuple[tuple[str, str], ...] = ()) -> Utterances:
    """People and the domains that they are in, a letter each; pairs that share a session."""
    speaker, session, domain = {}, {}, {}
    for person, domains in homes.items():
        for where in domains:
            name = f"{person}-{where}"
            speaker[name], session[name], domain[name] = person, person, where
    for one, other in shared:
        name = f"{other}-{homes[other][0]}"
        session[name] = one
    return Utterances("world", speaker, session, domain, frozenset(speaker))


HOMES = st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=2, max_size=60)


@settings(max_examples=200, deadline=None)
@given(HOMES, st.floats(0.05, 0.95), st.integers(0, 5))
def test_every_combination_of_domains_gives_its_share(
    homes: list[str], share: float, seed: int
) -> None:
    people = {f"p{number}": domains for number, domains in enumerate(homes)}
    if not 1 <= int(len(homes) * share + 0.5) < len(homes):
        with pytest.raises(InputError, match="leaves one side empty"):
            held_out(everyone(people), share, seed)
        return
    held = held_out(everyone(people), share, seed)
    assert abs(len(held) - share * len(homes)) <= 0.5 + 1e-9
    for domains in set(homes):
        all_of = [p for p, home in people.items() if home == domains]
        assert abs(len(held & set(all_of)) - share * len(all_of)) < 1 + 1e-9
    assert held == held_out(everyone(people), share, seed)


def test_another_seed_holds_out_others() -> None:
    world = everyone({f"p{number}": "a" for number in range(40)})
    assert len({held_out(world, 0.3, seed) for seed in range(4)}) == 4


def test_who_shares_a_session_or_a_name_with_an_ending_stays_together() -> None:
    homes = dict.fromkeys(["ann", "ann-noise", "bob", "cleo", "dan", "eve"], "a")
    world = everyone(homes, (("bob", "cleo"),))
    assert together(world) == [["ann", "ann-noise"], ["bob", "cleo"], ["dan"], ["eve"]]
    for seed in range(8):
        held = held_out(world, 0.5, seed)
        assert ("ann" in held) == ("ann-noise" in held)
        assert ("bob" in held) == ("cleo" in held)


def test_who_all_share_sessions_cannot_be_parted() -> None:
    world = everyone(dict.fromkeys(["ann", "bob"], "a"), (("ann", "bob"),))
    with pytest.raises(InputError, match="1 people or groups of people that share sessions"):
        held_out(world, 0.5, 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ann and Bob: two recordings each, one cut to two utterances."""
    root = tmp_path / "data"
    root.mkdir()
    tables = {
        "utt2spk": "a1 ann|a2 ann|a3 ann|b1 bob|b2 bob|b3 bob",
        "segments": "a1 ra 0 1|a2 ra 1 2|a3 rx 0 1|b1 rb 0 1|b2 rb 1 2|b3 ry 0 1",
        "wav.scp": "ra sox a.wav -t wav - \\||rb rb.wav|rx rx.wav|ry ry.wav",
        "reco2dur": "ra 2|rb 2|rx 1|ry 1",
        "utt2kind": "a1 x|a2 y|a3 x|b1 x|b2 y|b3 x",
        "utt2dur": "a1 1|a2 1|a3 1|b1 1|b2 1|b3 1",
        "spk2gender": "ann f|bob m",
        "spk2utt": "ann a1 a2 a3|bob b1 b2 b3",
        "cmvn.scp": "ann c.ark:5|bob c.ark:9",
        "text": "a1 one word|a2 two  words|a3|b1 b|b2 b|b3 b",
        "xvector.scp": "a1 x.ark:3|a2 x.ark:9|a3 /else/x.ark:1|b1 x.ark:20|b2 x.ark|b3 gone.ark:1",
        "trials": "a1 b1 nontarget",
        "x.ark": "",
    }
    for name, text in tables.items():
        text = text.replace("\\||", "PIPE\n").replace("|", "\n").replace("PIPE", "|")
        (root / name).write_text(text + "\n")
    monkeypatch.chdir(tmp_path)
    return root


def test_every_table_is_cut_by_utterance_speaker_or_recording(folder: Path) -> None:
    part = part_of(read_utterances("data", Wanted()), frozenset({"ann"}))
    ark = (folder / "x.ark").resolve()
    assert part == {
        "utt2spk": ["a1 ann", "a2 ann", "a3 ann"],
        "segments": ["a1 ra 0 1", "a2 ra 1 2", "a3 rx 0 1"],
        "wav.scp": ["ra sox a.wav -t wav - |", "rx rx.wav"],
        "reco2dur": ["ra 2", "rx 1"],
        "utt2kind": ["a1 x", "a2 y", "a3 x"],
        "utt2dur": ["a1 1", "a2 1", "a3 1"],
        "spk2gender": ["ann f"],
        "spk2utt": ["ann a1 a2 a3"],
        "cmvn.scp": ["ann c.ark:5"],
        "text": ["a1 one word", "a2 two words", "a3"],
        "xvector.scp": [f"a1 {ark}:3", f"a2 {ark}:9", "a3 /else/x.ark:1"],
    }
    other = part_of(read_utterances("data", Wanted()), frozenset({"bob"}))
    assert other["xvector.scp"] == [f"b1 {ark}:20", f"b2 {ark}", "b3 gone.ark:1"]


def test_names_that_start_at_the_working_directory_stay(folder: Path) -> None:
    (folder / "xvector.scp").write_text("a1 data/x.ark:3\na2 data/x.ark:9\n")
    part = part_of(read_utterances("data", Wanted()), frozenset({"ann"}))
    assert part["xvector.scp"] == ["a1 data/x.ark:3", "a2 data/x.ark:9"]
    # As every tool reads it: the working directory comes first.
    (folder.parent / "x.ark").touch()
    (folder / "xvector.scp").write_text("a1 x.ark:3\n")
    part = part_of(read_utterances("data", Wanted()), frozenset({"ann"}))
    assert part["xvector.scp"] == ["a1 x.ark:3"]


def test_the_source_is_never_written_over(folder: Path) -> None:
    with pytest.raises(UsageError, match="is the data directory itself"):
        check_target("data", folder / ".." / "data", {})


def test_tables_of_an_earlier_split_are_not_mixed_in(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "split"
    target.mkdir()
    (target / "utt2dom").write_text("a1 x\n")
    with pytest.raises(InputError, match="utt2dom: is there and not of this split"):
        check_target("data", target, {"utt2spk": []})


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), all_at_once(tmp_path / "new" / "deep") as staging:
        (staging / "file").write_text("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("whole")
    with pytest.raises(RuntimeError), all_at_once(tmp_path / "old") as staging:
        (staging / "file").write_text("half")
        raise RuntimeError
    assert [(p.name, p.read_text()) for p in (tmp_path / "old").iterdir()] == [("file", "whole")]
    with all_at_once(tmp_path / "old") as staging:
        (staging / "file").write_text("new")
    assert (tmp_path / "old" / "file").read_text() == "new"
