"""The rules of trial lists, told over files: for lists that make-trials wrote and for others."""

from collections import Counter, defaultdict
from pathlib import Path

Trial = tuple[str, str, bool]


def table(path: Path) -> dict[str, str]:
    return dict(line.split() for line in path.read_text().splitlines())


def models(path: Path) -> dict[str, list[str]]:
    rows = [line.split() for line in path.read_text().splitlines()]
    assert len({row[0] for row in rows}) == len(rows), "a model twice"
    return {row[0]: row[1:] for row in rows}


def trials(path: Path) -> list[Trial]:
    rows = [line.split() for line in path.read_text().splitlines()]
    assert {row[2] for row in rows} == {"target", "nontarget"}
    assert len({tuple(row[:2]) for row in rows}) == len(rows), "a trial twice"
    return [(row[0], row[1], row[2] == "target") for row in rows]


class Labels:
    """Speaker, session and domain of utterances."""

    def __init__(self, speaker: dict, session: dict, domain: dict) -> None:
        self.speaker, self.session, self.domain = speaker, session, domain

    @classmethod
    def read(cls, folder: Path) -> "Labels":
        return cls(*(table(folder / name) for name in ("utt2spk", "utt2sess", "utt2dom")))

    def group(self) -> dict[str, str]:
        """Domains that share people have one name."""
        name = {domain: domain for domain in self.domain.values()}
        seen: dict[str, str] = {}
        for utterance, person in self.speaker.items():
            one = name[seen.setdefault(person, self.domain[utterance])]
            other = name[self.domain[utterance]]
            name = {key: one if value == other else value for key, value in name.items()}
        return name


def check_trials(
    made: list[Trial], enrolled: dict[str, list[str]], labels: Labels, cross: bool
) -> None:
    """Labels are right, no target shares a session, people of one domain (or group) meet."""
    group = labels.group()
    for model, test, target in made:
        people = {labels.speaker[name] for name in enrolled[model]}
        domains = {labels.domain[name] for name in enrolled[model]}
        assert len(people) == len(domains) == 1, model
        assert target == (people == {labels.speaker[test]})
        if target:
            assert labels.session[test] not in {labels.session[name] for name in enrolled[model]}
        assert (domains == {labels.domain[test]}) != cross
        assert group[domains.pop()] == group[labels.domain[test]]


def check_balance(made: list[Trial], enrolled: dict[str, list[str]], labels: Labels) -> None:
    """Models of each person, and who is met in nontarget trials, between two domains."""
    parts: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in made:
        parts[labels.domain[enrolled[trial[0]][0]], labels.domain[trial[1]]].append(trial)
    for (_, domain), part in parts.items():
        of_person = defaultdict(set)
        for model, _, _ in part:
            of_person[labels.speaker[enrolled[model][0]]].add(model)
        assert len({len(names) for names in of_person.values()}) == 1, "models per person"
        said = Counter(labels.speaker[u] for u, where in labels.domain.items() if where == domain)
        for person, names in of_person.items():
            for model in names:
                met = Counter(
                    labels.speaker[test]
                    for name, test, target in part
                    if name == model and not target
                )
                most = max(met.values())
                for other in said.keys() - {person}:
                    # Whoever said no more than that cannot be met more often.
                    assert met[other] >= most - 1 or met[other] == said[other], (model, other)
