"""Rows of the heat table: a mean or a set each, a cell for every system."""

import math
from dataclasses import dataclass
from typing import Any

from dcaplda.eval.differences import Difference
from dcaplda.eval.metrics.measure import prior_name
from dcaplda.eval.metrics.scalars import default_cost
from dcaplda.eval.report.findings import Findings
from dcaplda.eval.results import Interval, Part, Result
from dcaplda.eval.verdict.costs import GRADES, Lost
from dcaplda.eval.verdict.one_set import Judge, cllr_at
from dcaplda.eval.verdict.systems import ALL_SETS, over_all_sets

SCALE_END = 2.0
"""The colours end at so many times the limit of `with care`."""
TOO_FEW = len(GRADES)
"""Grade of a condition in which a single trial costs more than the first limit."""
Record = dict[str, Any]


def rounded(value: float, decimals: int = 4) -> float | None:
    """A number for the page; JSON has no infinity, null stands for it."""
    return round(value, decimals) if math.isfinite(value) else None


@dataclass(frozen=True)
class Row:
    """One line of the table; `results` has one for every system."""

    name: str
    results: list[Result]
    is_mean: bool

    @property
    def group(self) -> str:
        """The group that the set stands under."""
        return "" if self.is_mean else self.results[0].group


def mean_rows(findings: Findings) -> list[Row]:
    """Means over all sets, if there are several, and over the groups of sets."""
    names = dict.fromkeys(mean.set for mean in findings.means)
    groups = {name: [mean for mean in findings.means if mean.set == name] for name in names}
    rows = [Row(name, _each_system(found, findings), True) for name, found in groups.items()]
    whole = tuple(findings.sets)
    if len(whole) > 1 and all(row.results[0].average_of != whole for row in rows):
        overall = over_all_sets(findings.results, findings.work.confidence)
        rows.insert(0, Row(ALL_SETS, _each_system(overall, findings), True))
    return rows


def set_rows(findings: Findings) -> list[Row]:
    """A row for every set, in its order."""
    return [
        Row(name, _each_system(findings.of_set(name), findings), False) for name in findings.sets
    ]


def _each_system(results: list[Result], findings: Findings) -> list[Result]:
    """Results in the order of the columns."""
    by_system = {result.system: result for result in results}
    return [by_system[name] for name in findings.systems]


def scale_end(judge: Judge) -> float:
    """Lost cost at which the colours end."""
    return SCALE_END * judge.limits.care or 1.0


def heat(lost: float, judge: Judge) -> float:
    """Colour of a lost cost: 0 cold to 1 hot, the same for all cells of a page."""
    return round(min(lost / scale_end(judge), 1.0), 3)


def shown(value: float) -> str:
    """A number in a cell."""
    if math.isinf(value):
        return "∞"
    return f"{value:.3f}" if value < 10.0 else f"{value:.1f}" if value < 1e4 else f"{value:.0e}"


def first_cells(row: Row, judge: Judge) -> list[Record]:
    """The cells at the first prior as the page shows them before any script runs."""
    cells = []
    for result in row.results:
        lost = judge.lost(result)[0]
        grade = judge.grade(result.values, lost)
        cells.append(
            {
                "text": shown(cllr_at(result.values, lost.prior)),
                "heat": heat(lost.value, judge),
                "grade": GRADES.index(grade),
            }
        )
    return cells


def cell_record(result: Result, judge: Judge, difference: Difference | None) -> Record:
    """All numbers of a system on a set for the script of the page."""
    found: Record = {
        "eer": [rounded(result.values["eer"]), *_ends(result.intervals.get("eer"), 1.0)],
        "auc": rounded(result.values["auc"]),
        "at": [_prior_record(result, lost, judge) for lost in judge.lost(result)],
    }
    if difference is not None:
        found["diff"] = [
            [
                _difference(difference.values[name]),
                *_ends(difference.intervals.get(name), 1.0),
            ]
            for name in (f"cllr_{prior_name(prior)}" for prior in judge.settings.priors)
        ]
    return found


def _difference(value: float) -> float | None:
    return None if math.isnan(value) else rounded(value)


def _ends(interval: Interval | None, unit: float) -> list[float | None]:
    if interval is None or any(math.isnan(end) for end in interval):
        return []
    return [rounded(end / unit) for end in interval]


def _prior_record(result: Result, lost: Lost, judge: Judge) -> Record:
    """Metrics at one prior, each with its interval behind it; costs in units of blind ones."""
    settings = judge.settings
    name = prior_name(lost.prior)
    unit = 1.0
    if not settings.normalize_dcf:
        unit = default_cost(lost.prior, settings.cost_miss, settings.cost_fa)
    units = {"cllr": 1.0, "min_cllr_lin": 1.0, "min_cllr_pav": 1.0, "dcf": unit, "min_dcf": unit}
    short = {"min_cllr_lin": "lin", "min_cllr_pav": "pav", "min_dcf": "best", "dcf": "cost"}
    found: Record = {}
    for metric, scale in units.items():
        key = f"{metric}_{name}"
        ends = _ends(result.intervals.get(key), scale)
        found[short.get(metric, metric)] = [rounded(result.values[key] / scale), *ends]
    found["lost"] = [rounded(lost.value), *_ends(lost.interval, 1.0)]
    found["grade"] = GRADES.index(judge.grade(result.values, lost))
    return found


def part_record(part: Part | None, judge: Judge) -> list[float | None] | None:
    """The numbers of a system on a condition; none where a class has no trial.

    EER, then Cllr, cost, lost cost and grade at each prior: there may be thousands of these.
    """
    if part is None or part.values is None:
        return None
    values = part.values
    numbers: list[float | None] = [rounded(values["eer"], 2)]
    for lost in judge.lost_of(values, part.n_target, part.n_nontarget):
        found = cllr_at(values, lost.prior), lost.actual, lost.value
        numbers += [rounded(value, 3) for value in found]
        few = lost.step > judge.limits.usable
        numbers.append(TOO_FEW if few else GRADES.index(judge.grade(values, lost)))
    return numbers
