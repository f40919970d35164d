"""The verdict on a system over many sets, and which of several systems is best."""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from dcaplda.eval.differences import differences
from dcaplda.eval.metrics.measure import prior_name
from dcaplda.eval.results import Result, averages
from dcaplda.eval.verdict.costs import CARE, GRADES, NO, YES, worse
from dcaplda.eval.verdict.one_set import (
    CONFIDENT,
    HARD,
    HIGH,
    LOW,
    REVERSED,
    TIMID,
    UNSURE,
    AtPrior,
    Judge,
    Verdict,
    by_prior,
    causes_of,
    listed,
    number,
    span_words,
    verdict,
)

ALL_SETS = "all sets"
NAMED = 3
"""So many of the worst sets are named."""
PHRASES = {
    CONFIDENT: "LLRs too confident on {}",
    TIMID: "LLRs too timid on {}",
    HIGH: "LLRs too high on {}",
    LOW: "LLRs too low on {}",
    REVERSED: "scores reversed on {}",
    HARD: "trials too hard for any threshold on {}",
    UNSURE: "too few people or trials to tell on {}",
}


def over_all_sets(results: Sequence[Result], confidence: float) -> list[Result]:
    """The mean of every system over all sets, with its interval where there was a bootstrap."""
    pooled = [replace(result, group=ALL_SETS, further_groups=()) for result in results]
    return averages(pooled, confidence)


def system_verdict(system: str, results: Sequence[Result], judge: Judge) -> Verdict:
    """One paragraph on a system: at most three sentences, whatever the number of sets."""
    mine = [result for result in results if result.system == system]
    if len(mine) == 1:
        return verdict(mine[0], judge)
    (mean,) = over_all_sets(mine, judge.confidence)
    judged = [max(by_prior(result, judge), key=lambda at: at.badness) for result in mine]
    counts = Counter(one.grade for one in judged)
    grade = _system_grade(mean, counts, judge)
    sentences = (
        f"{_counted(system, counts)}; {_mean_loss(mean, judge)}.",
        _worst_sets(judged),
        _what_to_do(judged, judge),
    )
    return Verdict(grade, _headline(grade, counts), sentences)


def _system_grade(mean: Result, counts: Counter[str], judge: Judge) -> str:
    """That of the mean loss; one set that is not usable keeps the whole from a plain yes."""
    for alike in (YES, NO):
        if counts[alike] == counts.total():
            return alike
    grade = worse(*(at.grade for at in by_prior(mean, judge)))
    return worse(grade, CARE) if counts[NO] else grade


def _headline(grade: str, counts: Counter[str]) -> str:
    n_sets = counts.total()
    if counts[YES] == n_sets:
        return f"Usable on all {n_sets} sets: decide at the Bayes threshold"
    starts = {YES: "Usable: as", CARE: "Usable with care: as", NO: "Calibrate first: usable as"}
    return f"{starts[grade]} it is on {counts[YES]} of {n_sets} sets"


def _counted(system: str, counts: Counter[str]) -> str:
    n_sets = counts.total()
    if counts[YES] == n_sets:
        return f"Of {n_sets} sets {system} is usable on all"
    phrases = {YES: "usable on {}", CARE: "usable with care on {}", NO: "not usable on {}"}
    told = [phrases[grade].format(counts[grade]) for grade in GRADES if counts[grade]]
    return f"Of {n_sets} sets {system} is {listed(told)}"


def _mean_loss(mean: Result, judge: Judge) -> str:
    parts = [
        f"{number(lost.value)}{span_words(lost.interval)} at prior {prior_name(lost.prior)}"
        for lost in judge.lost(mean)
    ]
    return f"on average {listed(parts)} is lost, 1 being the cost of deciding without the scores"


def _worst_sets(judged: list[AtPrior]) -> str:
    losing = [one for one in judged if one.lost.value > 0.0]
    losing.sort(key=lambda one: one.badness, reverse=True)
    if not losing:
        return "Nothing is lost on any set."
    named = [
        f"{one.result.set} ({number(one.lost.value)} at prior {prior_name(one.lost.prior)})"
        for one in losing[:NAMED]
    ]
    return f"Most is lost on {listed(named)}."


def _what_to_do(judged: list[AtPrior], judge: Judge) -> str:
    others = [one for one in judged if one.grade != YES]
    if not others:
        return "No set needs a threshold of its own."
    found = Counter(cause for one in others for cause in causes_of(one, judge))
    causes = found.most_common(NAMED)
    if not causes:
        return "No single cause stands out on the other sets."
    told = listed([PHRASES[cause].format(count) for cause, count in causes])
    which = "that set" if len(others) == 1 else f"those {len(others)} sets"
    return f"What is wrong on {which}: {told}."


def answer(
    results: Sequence[Result], judge: Judge, references: AbstractSet[str] = frozenset()
) -> str:
    """Which system has the lowest mean Cllr, by how much, and whether that may be chance.

    References take no part; their figures are given. Empty where there is nothing to compare.
    """
    means = over_all_sets(results, judge.confidence)
    rivals = [mean for mean in means if mean.system not in references]
    names = [f"cllr_{prior_name(prior)}" for prior in judge.settings.priors]
    if len(rivals) < 2:
        return ""
    told: dict[str, list[str]] = {}
    for prior, name in zip(judge.settings.priors, names, strict=True):
        best, phrase = _best(rivals, name, judge.confidence)
        told.setdefault(best, []).append(f"at prior {prior_name(prior)} {phrase}")
    parts = [f"{best} {listed(phrases)}" for best, phrases in told.items()]
    parts += [
        f"{mean.system}, for reference, has {listed([number(mean.values[name]) for name in names])}"
        for mean in means
        if mean.system in references
    ]
    n_sets = len(means[0].average_of)
    where = f"mean Cllr over {n_sets} sets" if n_sets > 1 else "Cllr"
    return f"Lowest {where}: {'; '.join(parts)}."


def _best(means: list[Result], name: str, confidence: float) -> tuple[str, str]:
    """The best system by a metric, and its figure beside that of the next."""
    first, second = sorted(means, key=lambda mean: mean.values[name])[:2]
    values = number(first.values[name]), number(second.values[name])
    (found,) = differences([first, second], second.system, confidence)
    span = found.intervals.get(name)
    chance = "" if span is None else ", beyond chance" if span[1] < 0.0 else ", perhaps by chance"
    return first.system, f"({values[0]}, next {second.system} {values[1]}{chance})"
