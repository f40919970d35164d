"""A set's findings in sentences that need no training in statistics."""

import math

from dcaplda.eval.results import Result
from dcaplda.eval.validation.evidence import Evidence, Misleading
from dcaplda.eval.validation.tested import Coverage
from dcaplda.eval.validation.wording import count, fixed, listed, one_in, percent, ratio

HALF = "0.5"
"""The prior of the Cllr of the literature, as it stands in metrics' names."""
MOSTLY = 0.8
"""Share of the distance from calibration in one direction from which it is that direction."""
ENOUGH = 30
"""Target trials from which the figure of a condition is told."""
STRONG = 100.0
"""An LR from which misleading evidence is called strong."""


def what_was_done(result: Result, tested: Coverage) -> str:
    """The test in one sentence."""
    people = f" of {count(tested.n_people, 'person')}" if tested.n_people else ""
    return (
        f"{count(result.n_target, 'pair')} of recordings of one person and "
        f"{count(result.n_nontarget, 'pair')} of recordings of two different people were compared, "
        f"made of {count(tested.n_recordings, 'recording')}{people}. Who spoke was known."
    )


def findings(result: Result, evidence: Evidence) -> list[tuple[str, str]]:
    """Question and answer, in the order of reading."""
    return [
        ("Do they point the right way?", direction(evidence)),
        ("How good are they?", quality(result)),
        ("Do they have the right size?", size(evidence)),
        ("How far can they be relied on?", reach(evidence)),
    ]


def direction(evidence: Evidence) -> str:
    """How often the LRs were on the right side of 1, and how often they misled strongly."""
    same, different = evidence.right_way
    strong = next(row for row in evidence.misleading if row.strength == STRONG)
    words = (
        f"The likelihood ratio was above 1 for {percent(same)} of the pairs of one person, and "
        f"below 1 for {percent(different)} of the pairs of two people."
    )
    return (
        f"{words} Strongly misleading values: {_cases(strong.n_nontarget, strong.nontarget)} of "
        f"the pairs of two people had {ratio(math.log(STRONG))} or more, and "
        f"{_cases(strong.n_target, strong.target)} of the pairs of one person had "
        f"{ratio(-math.log(STRONG))} or less."
    )


def _cases(number: int, share: float) -> str:
    return "none" if number == 0 else f"{number:,} ({one_in(share)})"


def quality(result: Result) -> str:
    """Cllr with its interval, in words."""
    cllr, least = result.values[f"cllr_{HALF}"], result.values[f"min_cllr_pav_{HALF}"]
    span = result.intervals.get(f"cllr_{HALF}")
    words = (
        "On a scale on which 0 is perfect and 1 is no better than knowing nothing, the likelihood "
        f"ratios reach {fixed(cllr)} (Cllr)"
    )
    if span:
        words += (
            f"; as many other people of the same kind would be expected to give between "
            f"{fixed(span[0])} and {fixed(span[1])}"
        )
    if cllr >= 1.0:
        words += ". That is worse than no evidence: they must not be used as they are."
    else:
        words += f". In the same order but with the best sizes they would reach {fixed(least)}."
    return words + _by_kind(result)


def _by_kind(result: Result) -> str:
    """How much Cllr differs between kinds of recordings that have enough pairs to tell."""
    name = f"cllr_{HALF}"
    kinds = [
        (part.values[name], f"{part.enroll} with {part.test}")
        for part in result.parts
        if part.kind == "domain" and part.values is not None and part.n_target >= ENOUGH
    ]
    if len(kinds) < 2:
        return ""
    (least, best), (most, worst) = min(kinds), max(kinds)
    return f" By kind of recording it goes from {fixed(least)} ({best}) to {fixed(most)} ({worst})."


def size(evidence: Evidence) -> str:
    """Distance from calibration, and whether strong LRs mislead too often."""
    words = _distance(evidence)
    excess = [f"{row.strength:,.0f}" for row in evidence.misleading if too_often(row)]
    if excess:
        return (
            f"{words} Misleading likelihood ratios of {listed(excess)} or more came up more often "
            "than they may: the strong ones are too strong."
        )
    return f"{words} Strong misleading ones came up no more often than they may."


def _distance(evidence: Evidence) -> str:
    off = evidence.devpav
    if math.isnan(off):
        return (
            "The two kinds of pairs did not overlap, so this test cannot tell whether the "
            "likelihood ratios have the right size."
        )
    if math.isinf(off):
        return "Infinite likelihood ratios were given where both kinds of pairs occur."
    span = evidence.devpav_interval
    more = f", {fixed(span[0], 2)} to {fixed(span[1], 2)}" if span else ""
    return (
        f"On average over their range the likelihood ratios are {_way(off, evidence.excess)} by a "
        f"factor of {10.0**off:.1f} (devPAV, {fixed(off, 2)} powers of ten{more})."
    )


def _way(distance: float, excess: float) -> str:
    """Whether LRs are off in one direction."""
    if abs(excess) > MOSTLY * distance:
        return "too high" if excess > 0.0 else "too low"
    return "here too high, there too low,"


def too_often(row: Misleading) -> bool:
    """Whether so strong evidence misleads more often than it may, beyond chance and once."""
    if row.limit is None:
        return False
    sides = (
        (row.nontarget, row.nontarget_interval, row.n_nontarget),
        (row.target, row.target_interval, row.n_target),
    )
    return any(
        (span[0] if span else share) > row.limit and number > 1 for share, span, number in sides
    )


def reach(evidence: Evidence) -> str:
    """The range that the test supports, and how much lies outside."""
    low, high = evidence.bounds
    if low == high:
        return "This test supports no likelihood ratio but 1: it does not show that they help."
    words = f"A test of this size supports likelihood ratios from {ratio(low)} to {ratio(high)}"
    if not any(evidence.n_outside):
        return f"{words} (ELUB). All values of this test lie in that range."
    below, above = evidence.n_outside
    return (
        f"{words} (ELUB). Of the {evidence.n_trials:,} values of this test {below:,} are lower and "
        f"{above:,} are higher. In a case such a value should be reported as {ratio(low)} or "
        f"{ratio(high)}, not as it comes out of the formula."
    )
