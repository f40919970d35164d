"""Enrolment models of a person: single utterances, or several of as many sessions as can be.

What can be a model depends on the tests: at least one session of the tests stays outside of it.
"""

import random
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from dcaplda.eval.protocol.utterances import Sessions

Enrolment = tuple[str, ...]
"""The utterances of a model."""
# Draws for each model of several utterances; more find no other sets where people said little.
_DRAWS = 8


def chance_of(*words: object) -> random.Random:
    """A generator for this purpose only: what is drawn elsewhere does not change what it gives."""
    return random.Random(repr(words))


def in_turns(sessions: Sessions, chance: random.Random) -> list[str]:
    """All utterances by chance, one of each session in turn, so that sessions count alike."""
    order = sorted(sessions)
    chance.shuffle(order)
    mixed = [chance.sample(sorted(sessions[name]), len(sessions[name])) for name in order]
    return [name for turn in zip_longest(*mixed) for name in turn if name is not None]


def singles(own: Sessions, tests: Sessions, chance: random.Random) -> list[Enrolment]:
    """Every utterance that has a test of another session, sessions in turn."""
    home = {name: session for session, names in own.items() for name in names}
    return [(name,) for name in in_turns(own, chance) if tests.keys() - {home[name]}]


def several(
    own: Sessions, tests: Sessions, size: int, wanted: int, words: tuple[object, ...]
) -> list[Enrolment]:
    """Up to `wanted` different sets of `size` utterances that leave a session to be tested.

    The sessions of the tests are kept out of the models in turn, one of each model.
    """
    found: dict[frozenset[str], Enrolment] = {}
    for allowed, chance in _draws(own, tests, wanted, words):
        chosen = tuple(in_turns(allowed, chance)[:size])
        if len(chosen) == size:
            found.setdefault(frozenset(chosen), chosen)
        if len(found) == wanted:
            break
    return list(found.values())


def _draws(
    own: Sessions, tests: Sessions, wanted: int, words: tuple[object, ...]
) -> Iterator[tuple[Sessions, random.Random]]:
    kept_out = sorted(tests)
    chance_of(*words).shuffle(kept_out)
    for number in range(_DRAWS * wanted):
        test = kept_out[number % len(kept_out)]
        allowed = {name: names for name, names in own.items() if name != test}
        yield allowed, chance_of(*words, number)


class Register:
    """Names of models: the utterance itself, or the person with a number."""

    def __init__(self, utterances: Iterable[str]) -> None:
        self._utterances = frozenset(utterances)
        self._names: dict[tuple[str, Enrolment], str] = {}
        self._counts: dict[str, int] = {}

    def name(self, person: str, enrolment: Enrolment) -> str:
        """The same for the same utterances of a person, and never the id of an utterance."""
        if len(enrolment) == 1:
            name = enrolment[0]
        elif (person, enrolment) in self._names:
            return self._names[person, enrolment]
        else:
            name = self._next(person)
            while name in self._utterances:
                name = self._next(person)
        self._names[person, enrolment] = name
        return name

    def _next(self, person: str) -> str:
        number = self._counts.get(person, 0)
        self._counts[person] = number + 1
        return f"{person}-m{number}"

    def maps(self) -> dict[str, list[str]]:
        """Lines `model utt utt ...` of the models of one utterance, and of those of several."""
        found: dict[str, list[str]] = {"enroll_single": [], "enroll_multi": []}
        for (_, enrolment), name in self._names.items():
            kind = "enroll_single" if len(enrolment) == 1 else "enroll_multi"
            found[kind].append(" ".join((name, *enrolment)))
        return {kind: sorted(lines) for kind, lines in found.items()}
