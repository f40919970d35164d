"""Says in words whether scores can be used with the Bayes threshold."""

from dataclasses import dataclass

from dcaplda.eval.metrics.measure import Settings, prior_name
from dcaplda.eval.results import Result
from dcaplda.runtime.decision import bayes_threshold

GOOD_LOSS, GOOD_EXCESS = 0.10, 0.01
"""Share of Cllr, or Cllr itself, lost to miscalibration up to which scores count as LLRs."""
FAIR_LOSS, FAIR_EXCESS = 0.25, 0.03
"""The same up to which they may be used with care."""

YES, CARE, NO = "yes", "care", "no"
_ORDER = (YES, CARE, NO)
HEADLINES = {
    YES: "Yes: use the Bayes threshold",
    CARE: "With care: some cost is lost to calibration",
    NO: "No: calibrate first",
}


@dataclass(frozen=True)
class Verdict:
    """A grade, the same as a phrase, and its reasons in sentences."""

    grade: str
    headline: str
    sentences: list[str]


def calibration_grade(loss: float, excess: float) -> str:
    """The grade by the share of Cllr, and the Cllr itself, that is lost to miscalibration."""
    if loss <= GOOD_LOSS or excess <= GOOD_EXCESS:
        return YES
    return CARE if loss <= FAIR_LOSS or excess <= FAIR_EXCESS else NO


def _number(value: float) -> str:
    return "infinite" if value == float("inf") else f"{value:.3f}"


def _at(result: Result, prior: float, settings: Settings) -> tuple[str, str]:
    """Grade and sentences for one prior."""
    name = prior_name(prior)
    value = {key.removesuffix(f"_{name}"): v for key, v in result.values.items()}
    cllr, least, loss = value["cllr"], value["min_cllr_lin"], value["calibration_loss"]
    threshold = bayes_threshold(prior, settings.cost_miss, settings.cost_fa)
    where = f"At a target prior of {name} (threshold {threshold:.2f})"
    share = f"{100 * loss:.0f} % of the Cllr of {_number(cllr)} comes from miscalibration"
    span = result.intervals.get(f"calibration_loss_{name}")
    if span:
        share += f" (interval {100 * span[0]:.0f} to {100 * span[1]:.0f} %)"
    grade = calibration_grade(loss, cllr - least)
    text = f"{where}, {share}; the best affine calibration would leave {_number(least)}."
    if cllr >= 1.0:
        grade = NO
        text += " Taken as LLRs the scores are worse than no scores: Cllr is not below 1."
    if settings.normalize_dcf:
        dcf, min_dcf = value["dcf"], value["min_dcf"]
        text += (
            f" Decisions cost {_number(dcf)} of what deciding without the system costs, "
            f"and {_number(min_dcf)} at the best threshold."
        )
        if dcf >= 1.0 and min_dcf > 0.98:
            grade = max(grade, CARE, key=_ORDER.index)
            text += " No threshold is of use here: the trials are too hard at this prior."
        elif dcf >= 1.0:
            grade = NO
            text += " With this threshold the system does harm."
    return grade, text


def _direction(result: Result, settings: Settings) -> str:
    """What is wrong with the scores, from the affine map that would repair them."""
    alpha, beta = result.affine[settings.priors[0]]
    if alpha <= 0.0:
        return "Larger scores do not mean targets here: the scores are reversed or empty."
    words = []
    if alpha < 0.9:
        words.append(f"too confident (the best scale is {alpha:.2f})")
    elif alpha > 1.1:
        words.append(f"too timid (the best scale is {alpha:.2f})")
    if abs(beta) > 0.3:
        side = "low" if beta > 0 else "high"
        words.append(f"too {side} (the best shift is {beta:+.2f})")
    return f"The LLRs are {' and '.join(words)}." if words else ""


def verdict(result: Result, settings: Settings) -> Verdict:
    """The judgement of one system on one set: that of its worst prior."""
    judged = [_at(result, prior, settings) for prior in settings.priors]
    grade = max((grade for grade, _ in judged), key=_ORDER.index)
    sentences = [text for _, text in judged]
    if result.affine and grade != YES:
        direction = _direction(result, settings)
        sentences += [direction] if direction else []
    return Verdict(grade, HEADLINES[grade], sentences)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def summary(system: str, results: list[Result], settings: Settings) -> Verdict:
    """One paragraph on a system over all sets."""
    mine = [result for result in results if result.system == system]
    judged = {result.set: verdict(result, settings) for result in mine}
    if len(mine) == 1:
        return judged[mine[0].set]
    by_grade = {g: [name for name, v in judged.items() if v.grade == g] for g in _ORDER}
    phrases = {
        YES: "can be used with the Bayes threshold on",
        CARE: "can be used with care on",
        NO: "must be calibrated before use on",
    }
    told = [f"{phrases[g]} {_listed(names)}" for g, names in by_grade.items() if names]
    sentences = [f"Of {len(mine)} sets, the scores of {system} {'; they '.join(told)}."]
    worst = max(mine, key=lambda r: max(_losses(r, settings)))
    loss = max(_losses(worst, settings))
    sentences.append(
        f"The largest share of Cllr lost to miscalibration is {100 * loss:.0f} %, on {worst.set}."
    )
    if len(by_grade[YES]) == len(mine):
        sentences.append("No set needs a threshold of its own.")
        return Verdict(YES, "Yes: use the Bayes threshold on every set", sentences)
    if len(by_grade[NO]) == len(mine):
        return Verdict(NO, HEADLINES[NO], sentences)
    headline = f"On {len(by_grade[YES])} of {len(mine)} sets without reservation"
    return Verdict(CARE, headline, sentences)


def _losses(result: Result, settings: Settings) -> list[float]:
    return [result.values[f"calibration_loss_{prior_name(prior)}"] for prior in settings.priors]
