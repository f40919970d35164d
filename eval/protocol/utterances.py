"""Who spoke each utterance, in which session and domain: the tables of a data directory, checked.

Everything that is wrong with them is said in one message.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dcaplda.runtime.errors import DcapldaError, InputError
from dcaplda.runtime.tables.sessions import default_sessions, read_recordings, source_id
from dcaplda.runtime.tables.text_lines import read_lines
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_words
from dcaplda.runtime.values import check_seconds

Sessions = dict[str, list[str]]
"""Utterances of each session of a person."""
Table = TypeVar("Table")
ONE_DOMAIN = "all"
"""Name of the domain where no table tells domains, as in training."""


@dataclass(frozen=True)
class Utterances:
    """Speaker, session and domain of every utterance of a data directory."""

    place: str
    speaker: dict[str, str]
    session: dict[str, str]
    domain: dict[str, str]
    usable: frozenset[str]
    """Utterances that trials may use: long enough, and with a vector where that is known."""
    notes: list[str] = field(default_factory=list)
    """What a user should know of how the tables were taken."""

    def people(self, held_out: frozenset[str] | None = None) -> dict[str, dict[str, Sessions]]:
        """Usable utterances by domain, person and session; of these people, or of all."""
        found: dict[str, dict[str, Sessions]] = {}
        for name in sorted(self.usable):
            person = self.speaker[name]
            if held_out is None or person in held_out:
                sessions = found.setdefault(self.domain[name], {}).setdefault(person, {})
                sessions.setdefault(self.session[name], []).append(name)
        return found


@dataclass(frozen=True)
class Wanted:
    """Which utterances of a data directory may be in trials."""

    listed_in: str = ""
    """A table whose ids may; empty: xvector.scp of the directory, where there is one."""
    min_seconds: float = 0.0
    allow_shared_sessions: bool = False


class _Problems(list[str]):
    """What is wrong so far."""

    def attempt(self, read: Callable[[], Table]) -> Table | None:
        """What `read` gives; None if that is wrong in itself."""
        try:
            return read()
        except DcapldaError as error:
            self.append(str(error))
            return None


def read_utterances(directory: str, wanted: Wanted) -> Utterances:
    """The tables of a Kaldi data directory; InputError with all problems if they do not fit."""
    root = Path(directory)
    if not root.is_dir():
        raise InputError(f"{directory}: no such data directory")
    if not (root / "utt2spk").is_file():
        raise InputError(f"{directory}: has no utt2spk; is it a Kaldi data directory?")
    problems, notes = _Problems(), list[str]()

    def words(name: str) -> dict[str, str] | None:
        path = root / name
        return problems.attempt(lambda: read_words(str(path))) if path.is_file() else None

    speaker, session, domain = words("utt2spk"), words("utt2sess"), words("utt2dom")
    if speaker is None:
        raise InputError("; ".join(problems))
    if session is None:
        recordings = problems.attempt(lambda: read_recordings(root / "segments"))
        session = default_sessions(speaker, recordings)
        notes.append(f"no utt2sess: {len(set(session.values()))} sessions taken from the ids")
        if recordings is not None:
            notes[-1] = notes[-1].replace("the ids", "segments")
    domain = domain if domain is not None else dict.fromkeys(speaker, ONE_DOMAIN)
    for name, table in (("utt2sess", session), ("utt2dom", domain)):
        _compare(root / name, table, speaker, problems, notes)
    usable = _usable(root, speaker, wanted, problems, notes)
    _check_people(root, speaker, session, wanted, problems)
    names = set(speaker.values())
    copies = sorted(name for name in names if source_id(name) != name and source_id(name) in names)
    if copies:
        notes.append(
            f"speaker '{copies[0]}' looks like a degraded copy of '{source_id(copies[0])}' but "
            f"counts as another person ({len(copies)} such); give copies their original's speaker"
        )
    if problems:
        raise InputError("; ".join(problems))
    return Utterances(directory, speaker, session, domain, usable, notes)


def _compare(
    path: Path, table: Iterable[str], speaker: dict[str, str], problems: list[str], notes: list[str]
) -> None:
    """Refuse utterances that a table lacks; ids that only the table has do no harm."""
    known = set(table)
    absent = [name for name in speaker if name not in known]
    if absent:
        problems.append(
            f"{path}: lacks {len(absent)} of {len(speaker)} utterances of utt2spk, "
            f"such as '{absent[0]}'"
        )
    extra = len(known - speaker.keys())
    if extra:
        notes.append(f"{path}: {extra} ids that utt2spk does not have are ignored")


def _usable(
    root: Path, speaker: dict[str, str], wanted: Wanted, problems: _Problems, notes: list[str]
) -> frozenset[str]:
    usable = set(speaker)
    source = wanted.listed_in or (root / "xvector.scp")
    if wanted.listed_in or (root / "xvector.scp").is_file():
        lines = problems.attempt(lambda: read_lines(str(source)))
        if lines is not None:
            usable &= {line.partition(" ")[0] for line in lines}
            if not usable:
                problems.append(f"{source}: has no utterance of utt2spk")
            elif len(usable) < len(speaker):
                notes.append(f"{len(speaker) - len(usable)} utterances are not in {source}")
    if wanted.min_seconds > 0:
        if not (root / "utt2dur").is_file():
            problems.append(f"{root}: --min-seconds needs utt2dur; compute-durations makes one")
            return frozenset(usable)
        seconds = problems.attempt(lambda: read_durations(str(root / "utt2dur")))
        if seconds is not None:
            _compare(root / "utt2dur", seconds, speaker, problems, notes)
            short = {name for name in usable if seconds.get(name, 0.0) < wanted.min_seconds}
            usable -= short
            kept = {name: value for name, value in seconds.items() if name in usable}
            problems.attempt(lambda: check_seconds(kept, str(root / "utt2dur")))
            notes.append(f"{len(short)} utterances are shorter than {wanted.min_seconds:g} s")
    return frozenset(usable)


def _check_people(
    root: Path,
    speaker: dict[str, str],
    session: dict[str, str],
    wanted: Wanted,
    problems: _Problems,
) -> None:
    if (root / "spk2utt").is_file():
        lists = problems.attempt(lambda: read_lists(str(root / "spk2utt"))) or {}
        for person, names in lists.items():
            odd = [name for name in names if speaker.get(name) != person]
            if odd:
                other = speaker.get(odd[0], "nobody")
                problems.append(
                    f"{root}/spk2utt: '{odd[0]}' is of '{person}', in utt2spk of '{other}'"
                )
                break
    owner: dict[str, str] = {}
    heard: dict[str, set[str]] = {}
    shared = ""
    for name, person in speaker.items():
        if name in session:
            heard.setdefault(person, set()).add(session[name])
            first = owner.setdefault(session[name], person)
            if first != person and not shared and not wanted.allow_shared_sessions:
                shared = f"session '{session[name]}' has two speakers, '{first}' and '{person}'"
    if shared:
        problems.append(
            f"{root}: {shared}; correct utt2sess, or say --allow-shared-sessions if they are two "
            "sides of a call"
        )
    if len(set(speaker.values())) < 2:
        only = next(iter(speaker.values()))
        problems.append(f"{root}/utt2spk: '{only}' is the only speaker; nontarget trials need two")
    if all(len(sessions) < 2 for sessions in heard.values()):
        way = "check utt2sess" if (root / "utt2sess").is_file() else "tell sessions by utt2sess"
        problems.append(f"{root}: nobody has two sessions, so there are no target trials; {way}")
