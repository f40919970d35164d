"""Models and trials between two domains, so that every person counts alike.

Each person of a domain has the same number of models, each model at most so many target trials
(its tests' sessions in turn), and all models of the domain the same number of nontarget trials,
spread evenly over the other people. No trial compares a session with itself.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dcaplda.eval.protocol.enrolment import (
    Enrolment,
    Register,
    chance_of,
    in_turns,
    several,
    singles,
)
from dcaplda.eval.protocol.utterances import Sessions

KINDS = ("single", "multi", "single_cross", "multi_cross")
"""Lists: models of one or several utterances, tests of their own or of another domain."""
People = dict[str, Sessions]
"""Sessions of each person of a domain."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """How many models and trials there are to be."""

    seed: int = 0
    models: int = 6
    multi_models: int = 3
    enroll_utterances: int = 3
    max_trials: int = 24
    nontargets_per_target: float = 5.0
    min_models: int = 1


@dataclass(frozen=True)
class Model:
    """A model of a person and the tests that it meets."""

    name: str
    person: str
    targets: list[str]
    nontargets: list[str]


@dataclass(frozen=True)
class Part:
    """The trials of one list between an enrolment domain and a test domain."""

    kind: str
    enroll: str
    test: str
    people: int = 0
    models: list[Model] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be made, and why."""

    def trials(self) -> Iterator[tuple[str, str, bool]]:
        """Model, test, and whether it is a target: of each model first the targets."""
        for model in self.models:
            yield from ((model.name, test, True) for test in model.targets)
            yield from ((model.name, test, False) for test in model.nontargets)

    @property
    def where(self) -> str:
        """The domains, in words."""
        return self.enroll if self.enroll == self.test else f"{self.enroll} to {self.test}"


def parts(
    people: dict[str, People], kind: str, design: Design, register: Register
) -> Iterator[Part]:
    """The parts of a list, made one by one: each domain, or each two that share people."""
    for enroll, test in itertools.product(sorted(people), repeat=2):
        own, tests = people[enroll], people[test]
        if (enroll != test) == kind.endswith("_cross") and own.keys() & tests.keys():
            yield _part(own, tests, Part(kind, enroll, test), design, register)


def _part(own: People, tests: People, part: Part, design: Design, register: Register) -> Part:
    """The part with models and trials, or with the reason why it has none."""
    wanted = design.multi_models if _is_multi(part.kind) else design.models
    least = min(design.min_models, wanted)
    both = sorted(own.keys() & tests.keys())
    enrolments = {name: _enrolments(own, tests, name, part, design) for name in both}
    able = [name for name in both if len(enrolments[name]) >= least]
    unable = [name for name in both if len(enrolments[name]) < least]
    notes = _left_out(own, tests, part, unable, least, design.enroll_utterances)
    if len(tests) < 2:
        return replace(part, notes=[f"'{both[0]}' is the only speaker: no nontarget trials"])
    if not able:
        return replace(part, notes=notes)
    poorest = min(able, key=lambda name: len(enrolments[name]))
    count = min(wanted, len(enrolments[poorest]))
    if count < wanted:
        notes.append(
            f"{count} models a person in place of {wanted}: '{poorest}' can give no more; "
            f"--min-models={count + 1} would leave such people out"
        )
    chosen = [(name, enrolment) for name in able for enrolment in enrolments[name][:count]]
    drawn = _drawn(own, tests, chosen, part, design)
    if not any(nontargets for _, nontargets in drawn):
        return replace(part, notes=[*notes, "all other people share a session with each model"])
    models = [
        Model(register.name(person, enrolment), person, *tests_of)
        for (person, enrolment), tests_of in zip(chosen, drawn, strict=True)
    ]
    return replace(part, people=len(able), models=models, notes=notes)


def _is_multi(kind: str) -> bool:
    return kind.startswith("multi")


def _enrolments(
    own: People, tests: People, person: str, part: Part, design: Design
) -> list[Enrolment]:
    # Not of the test domain: the same models are tested at home and elsewhere, where they can be.
    words = (design.seed, "models", part.enroll, person)
    if not _is_multi(part.kind):
        return singles(own[person], tests[person], chance_of(*words))
    size, count = design.enroll_utterances, design.multi_models
    return several(own[person], tests[person], size, count, (*words, size))


def _left_out(
    own: People, tests: People, part: Part, names: list[str], least: int, size: int
) -> list[str]:
    """Why these people have no models, by reason."""
    once = [name for name in names if len(own[name].keys() | tests[name].keys()) < 2]
    others = [name for name in names if len(own[name].keys() | tests[name].keys()) > 1]
    notes = []
    if once:
        notes.append(
            f"{len(once)} of {len(own)} people, such as '{once[0]}', have one session: no models"
        )
    if others:
        what = "a model" if least == 1 else f"{least} models"
        if _is_multi(part.kind):
            what += f" of {size} utterances"
        notes.append(
            f"{len(others)} of {len(own)} people, such as '{others[0]}', cannot give {what} and a "
            "test of another session"
        )
    return notes


def _drawn(
    own: People,
    tests: People,
    chosen: list[tuple[str, Enrolment]],
    part: Part,
    design: Design,
) -> list[tuple[list[str], list[str]]]:
    """Targets and nontargets of each of the chosen models."""
    sessions, targets = [], []
    for person, enrolment in chosen:
        mine = {s for s, names in own[person].items() if not set(names).isdisjoint(enrolment)}
        apart = {s: names for s, names in tests[person].items() if s not in mine}
        chance = chance_of(design.seed, "targets", enrolment, part.test)
        sessions.append(mine)
        targets.append(in_turns(apart, chance)[: design.max_trials])
    mean = sum(len(names) for names in targets) / len(targets)
    count = max(1, round(design.nontargets_per_target * mean))
    impostors = Impostors(tests, chance_of(design.seed, "nontargets", part.enroll, part.test))
    return [
        (names, impostors.meet(person, mine, count))
        for (person, _), mine, names in zip(chosen, sessions, targets, strict=True)
    ]


class Impostors:
    """Utterances of other people for nontarget trials, everybody and everything used alike.

    People stand in a circle. Whoever is enrolled meets those to the left in turn and goes on with
    the next model where the last one stopped, so that as many trials lead to each person as from
    each; of the person met it is the utterance that waited longest.
    """

    def __init__(self, tests: People, chance: random.Random) -> None:
        self._circle = sorted(tests)
        chance.shuffle(self._circle)
        self._place = {person: place for place, person in enumerate(self._circle)}
        self._steps = dict.fromkeys(tests, 0)
        self._next = dict.fromkeys(tests, 0)
        self._utterances = {person: in_turns(tests[person], chance) for person in self._circle}
        self._session = {
            name: session
            for sessions in tests.values()
            for session, names in sessions.items()
            for name in names
        }

    def meet(self, person: str, sessions: set[str], count: int) -> list[str]:
        """So many utterances of others, of no session of the model; fewer if there are no more."""
        found: dict[str, None] = {}
        fruitless = 0
        others = len(self._circle) - 1
        while len(found) < count and fruitless < others:
            step = self._steps[person] % others + 1
            self._steps[person] += 1
            other = self._circle[(self._place[person] + step) % len(self._circle)]
            name = self._waiting(other, sessions, found)
            fruitless = fruitless + 1 if name is None else 0
            if name is not None:
                found[name] = None
        return list(found)

    def _waiting(self, person: str, sessions: set[str], found: dict[str, None]) -> str | None:
        names = self._utterances[person]
        for _ in names:
            name = names[self._next[person] % len(names)]
            self._next[person] += 1
            if name not in found and self._session[name] not in sessions:
                return name
        return None
