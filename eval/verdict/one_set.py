"""The verdict on one system and one set, in at most three sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dcaplda.eval.metrics.measure import Settings, prior_name
from dcaplda.eval.results import Interval, Result
from dcaplda.eval.verdict.costs import (
    CARE,
    GRADES,
    NO,
    YES,
    Limits,
    Lost,
    grade_of,
    lost_at,
    one_trial,
    worse,
)
from dcaplda.runtime.decision import bayes_threshold

HOPELESS = 0.98
"""Cost of the best threshold above which the scores save next to nothing."""
LEAST_SCALE, MOST_SCALE, MOST_SHIFT = 0.9, 1.1, 0.3
"""Best affine map within which LLRs are neither too confident, too timid, too high nor too low."""

HEADLINES = {
    YES: "Usable: decide at the Bayes threshold",
    CARE: "Usable with care",
    NO: "Calibrate first: not usable as it is",
}
CONFIDENT, TIMID, LOW, HIGH = "too confident", "too timid", "too low", "too high"
REVERSED, HARD, UNSURE = "reversed", "too hard", "uncertain"


@dataclass(frozen=True)
class Judge:
    """How to judge: operating points, limits, and the confidence of intervals."""

    settings: Settings = Settings()
    limits: Limits = Limits()
    confidence: float = 0.95

    def lost(self, result: Result) -> list[Lost]:
        """What a result loses at every prior, with intervals where there was a bootstrap."""
        drawn = result.replicates
        found = [
            lost_at(result.values, prior, self.settings, drawn, self.confidence)
            for prior in self.settings.priors
        ]
        return self._with_steps(found, result.n_target, result.n_nontarget)

    def lost_of(self, values: Mapping[str, float], n_target: int, n_nontarget: int) -> list[Lost]:
        """The same of bare metrics, as of a condition."""
        found = [lost_at(values, prior, self.settings) for prior in self.settings.priors]
        return self._with_steps(found, n_target, n_nontarget)

    def _with_steps(self, found: list[Lost], n_target: int, n_nontarget: int) -> list[Lost]:
        steps = [one_trial(lost.prior, self.settings, n_target, n_nontarget) for lost in found]
        return [replace(lost, step=step) for lost, step in zip(found, steps, strict=True)]

    def grade(self, values: Mapping[str, float], lost: Lost) -> str:
        """The grade at one prior: where scores save nothing they are not simply usable."""
        grade = grade_of(lost.value, self.limits, lost.span)
        useless = lost.actual >= 1.0 or cllr_at(values, lost.prior) >= 1.0
        return worse(grade, CARE) if useless else grade

    def threshold(self, prior: float) -> float:
        """The Bayes threshold at `prior`."""
        return bayes_threshold(prior, self.settings.cost_miss, self.settings.cost_fa)


@dataclass(frozen=True)
class Verdict:
    """A grade, the same as a phrase, and its reasons in sentences."""

    grade: str
    headline: str
    sentences: tuple[str, ...]


def cllr_at(values: Mapping[str, float], prior: float) -> float:
    """Actual Cllr at a prior."""
    return values[f"cllr_{prior_name(prior)}"]


def number(value: float) -> str:
    """A cost or a Cllr in a sentence."""
    return "infinite" if value == float("inf") else f"{value:.3f}"


def span_words(interval: Interval | None) -> str:
    """An interval behind a number, if there is one."""
    return f" ({number(interval[0])} to {number(interval[1])})" if interval else ""


def listed(words: list[str]) -> str:
    """Words as an enumeration: a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def sentence(text: str) -> str:
    """A capital in front, a full stop behind."""
    return f"{text[0].upper()}{text[1:]}."


@dataclass(frozen=True)
class AtPrior:
    """A result at one prior, judged."""

    result: Result
    lost: Lost
    grade: str

    @property
    def badness(self) -> tuple[int, float]:
        """What sorts from good to bad."""
        return GRADES.index(self.grade), self.lost.value


def by_prior(result: Result, judge: Judge) -> list[AtPrior]:
    """A result judged at every prior."""
    return [AtPrior(result, lost, judge.grade(result.values, lost)) for lost in judge.lost(result)]


def verdict(result: Result, judge: Judge) -> Verdict:
    """The judgement of one system on one set: that of its worst prior."""
    judged = by_prior(result, judge)
    worst = max(judged, key=lambda at: at.badness)
    sentences = [_in_full(worst.lost, judge)]
    others = [_in_short(at.lost, judge) for at in judged if at is not worst]
    if others:
        sentences.append(sentence(listed(others)))
    reasons = _reasons(worst, judge)
    if reasons:
        sentences.append(sentence("; ".join(reasons)))
    return Verdict(worst.grade, HEADLINES[worst.grade], tuple(sentences))


def _in_full(lost: Lost, judge: Judge) -> str:
    span = ""
    if lost.interval:
        low, high = map(number, lost.interval)
        span = f"{100 * judge.confidence:g} % interval {low} to {high}; "
    return (
        f"At a target prior of {prior_name(lost.prior)} deciding at the Bayes threshold "
        f"({judge.threshold(lost.prior):.2f}) costs {number(lost.actual)} and the best threshold "
        f"would cost {number(lost.least)}: {number(lost.value)} is lost "
        f"({span}1 is the cost of deciding without the scores)."
    )


def _in_short(lost: Lost, judge: Judge) -> str:
    where = f"at {prior_name(lost.prior)} (threshold {judge.threshold(lost.prior):.2f})"
    return f"{where} {number(lost.value)} is lost{span_words(lost.interval)}"


def _reasons(at: AtPrior, judge: Judge) -> list[str]:
    """Why the grade is not better, as parts of one sentence."""
    if at.grade == YES:
        return []
    causes = causes_of(at, judge)
    reasons = []
    if HARD in causes:
        reasons.append("no threshold is of use there: the trials are too hard at this prior")
    elif at.lost.actual > 1.0:
        reasons.append("deciding without the scores would be cheaper there")
    elif at.lost.actual == 1.0:
        reasons.append("the scores save nothing there")
    cllr = cllr_at(at.result.values, at.lost.prior)
    if cllr >= 1.0:
        reasons.append(
            f"as weights of evidence the scores are worse than none (Cllr {number(cllr)})"
        )
    reasons += _direction(at, causes)
    if UNSURE in causes:
        few = f"too few trials to tell: one more or less costs {number(at.lost.step)}"
        wide = "the interval is too wide to tell: more speakers would settle it"
        reasons.append(wide if at.lost.interval else few)
    return reasons


def _direction(at: AtPrior, causes: list[str]) -> list[str]:
    """What is wrong with the LLRs, with the affine map that would repair them."""
    if REVERSED in causes:
        return ["larger scores do not mean targets here: they are reversed or empty"]
    alpha, beta = at.result.affine.get(at.lost.prior, (1.0, 0.0))
    repair = dict.fromkeys((CONFIDENT, TIMID), f"the best scale is {alpha:.2f}")
    repair |= dict.fromkeys((LOW, HIGH), f"the best shift is {beta:+.2f}")
    words = [f"{cause} ({repair[cause]})" for cause in causes if cause in repair]
    return [f"the LLRs are {listed(words)}"] if words else []


def causes_of(at: AtPrior, judge: Judge) -> list[str]:
    """What keeps scores from a better grade at a prior, as words that can be counted."""
    lost = at.lost
    causes = [HARD] if lost.actual >= 1.0 and lost.least > HOPELESS else []
    alpha, beta = at.result.affine.get(lost.prior, (1.0, 0.0))
    if alpha <= 0.0:
        causes.append(REVERSED)
    elif not LEAST_SCALE <= alpha <= MOST_SCALE:
        causes.append(CONFIDENT if alpha < LEAST_SCALE else TIMID)
    if alpha > 0.0 and abs(beta) > MOST_SHIFT:
        causes.append(LOW if beta > 0.0 else HIGH)
    if grade_of(lost.value, judge.limits) != grade_of(lost.value, judge.limits, lost.span):
        causes.append(UNSURE)
    return causes
