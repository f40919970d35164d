"""What a test did not look at, as far as its files can tell: sentences for a reader."""

from collections.abc import Iterator

from dcaplda.eval.results import Part, Result
from dcaplda.eval.validation.evidence import Evidence
from dcaplda.eval.validation.summary import ENOUGH
from dcaplda.eval.validation.tested import Coverage
from dcaplda.eval.validation.wording import condition, count, listed, ratio, seconds

MOST_NAMED = 6


def untested(result: Result, tested: Coverage, evidence: Evidence, trained: list[str]) -> list[str]:
    """Sentences; `trained` are the domains that the model was trained on, if it says so."""
    return [
        *_people(tested),
        *_sessions(tested),
        *_seconds(result, tested),
        *_domains(result, tested, trained),
        *_strength(evidence),
        "Whether people of this test were also used to make the system cannot be seen from these "
        "files. If they were, the results are too good.",
        "The files say nothing of language, sex, age, health, kinship, disguise, imitation or "
        "artificial voices. Where a case differs from the test in such respects, the figures may "
        "not hold.",
        "The test begins with the numbers that were taken from each recording. Who edited, cut or "
        "filtered the recordings before that is outside of it.",
    ]


def _people(tested: Coverage) -> Iterator[str]:
    if tested.n_people is None:
        yield (
            "How many people were recorded was not given (utt2spk), so it is not known how much "
            "the figures would change with other people."
        )
        return
    yield (
        f"Other people than these {tested.n_people:,}. What is true of fewer than about 3 in "
        f"{tested.n_people:,} people may not have shown at all."
    )


def _sessions(tested: Coverage) -> Iterator[str]:
    if tested.same_session_targets is None:
        yield (
            "Whether the two recordings of a person were made on different occasions was not given "
            "(utt2sess). Where they were not, the comparison is easier than in a case."
        )
    elif tested.same_session_targets:
        yield (
            f"{count(tested.same_session_targets, 'comparison')} of a person with themselves had "
            "both recordings from one occasion, which is easier than in a case: the results are "
            "too good."
        )


def _seconds(result: Result, tested: Coverage) -> Iterator[str]:
    if tested.seconds is None:
        yield (
            "How much speech the recordings hold was not given (utt2dur): nothing is known about "
            "short or long ones."
        )
        return
    least = min(side[0] for side in tested.seconds)
    most = max(side[2] for side in tested.seconds)
    yield f"Recordings with less than {seconds(least)} or more than {seconds(most)} of speech."
    yield from _thin(result, "duration", "of speech")


def _domains(result: Result, tested: Coverage, trained: list[str]) -> Iterator[str]:
    if not tested.domains:
        yield (
            "What kinds of recordings were compared was not given (utt2dom). For another kind of "
            "microphone, line or room the results may differ."
        )
        return
    names = [name for name, *_ in tested.domains]
    yield f"Other kinds of recordings than {listed(names, MOST_NAMED)}."
    compared = {frozenset((p.enroll, p.test)) for p in result.parts if p.kind == "domain"}
    pairs = [
        f"{one} with {other}"
        for place, one in enumerate(names)
        for other in names[place:]
        if frozenset((one, other)) not in compared
    ]
    if pairs:
        yield f"These kinds were never compared with one another: {listed(pairs, MOST_NAMED)}."
    yield from _thin(result, "domain", "")
    left = [name for name in trained if name not in names]
    if left:
        yield (
            "Kinds of recordings that the model was trained on, but that this test does not have: "
            f"{listed(left, MOST_NAMED)}."
        )


def _thin(result: Result, kind: str, words: str) -> Iterator[str]:
    """Conditions with so few comparisons of one person that little can be said."""
    thin = [_named(p, words) for p in result.parts if p.kind == kind and p.n_target < ENOUGH]
    if thin:
        yield (
            f"Hardly tested, with fewer than {ENOUGH} comparisons of a person with "
            f"themselves: {listed(thin, MOST_NAMED)}."
        )


def _named(part: Part, words: str) -> str:
    first, second = condition(part.enroll), condition(part.test)
    name = first if first == second else f"{first} with {second}"
    return f"{name} {words}".strip()


def _strength(evidence: Evidence) -> Iterator[str]:
    low, high = evidence.bounds
    yield (
        f"Likelihood ratios below {ratio(low)} or above {ratio(high)}: the test has too few "
        "comparisons to show that they can be relied on."
    )
