"""People held out before training: a share of those of every domain."""

from collections import defaultdict

from dcaplda.eval.protocol.enrolment import chance_of
from dcaplda.eval.protocol.utterances import Utterances
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.tables.sessions import source_id


def together(utterances: Utterances) -> list[list[str]]:
    """Speakers that must not be parted: those who share a session, and copies by their name."""
    parent = {person: person for person in utterances.speaker.values()}

    def root(person: str) -> str:
        while parent[person] != person:
            parent[person] = parent[parent[person]]
            person = parent[person]
        return person

    owner: dict[str, str] = {}
    for name, person in utterances.speaker.items():
        parent[root(person)] = root(owner.setdefault(utterances.session[name], person))
    for person in parent:
        if source_id(person) in parent:
            parent[root(person)] = root(source_id(person))
    groups = defaultdict(list)
    for person in sorted(parent):
        groups[root(person)].append(person)
    return sorted(groups.values())


def held_out(utterances: Utterances, share: float, seed: int) -> frozenset[str]:
    """About `share` of the people of each combination of domains, by chance.

    People are sorted by the domains that they are in and every 1/share-th is taken, so that no
    combination differs from its share by more than one of them.
    """
    domains = defaultdict(set)
    for name, person in utterances.speaker.items():
        domains[person].add(utterances.domain[name])
    groups = together(utterances)
    chance_of(seed, "split").shuffle(groups)
    groups.sort(key=lambda group: sorted(set().union(*(domains[person] for person in group))))
    # From the middle of a step, so that the number of all is rounded, not cut.
    chosen = [
        person
        for place, group in enumerate(groups)
        if int((place + 1) * share + 0.5) > int(place * share + 0.5)
        for person in group
    ]
    if not chosen or len(chosen) == len(domains):
        linked = "" if len(groups) == len(domains) else " that share sessions"
        raise InputError(
            f"{utterances.place}: --split={share:g} of {len(groups)} people or groups of "
            f"people{linked} leaves one side empty"
        )
    return frozenset(chosen)
