"""A validation as JSON: the numbers of the page, for programs; score-trials takes its bounds."""

import json
import math
from dataclasses import asdict
from typing import Any

from dcaplda.eval.metrics.forensic import LOG10
from dcaplda.eval.results import Interval, Result
from dcaplda.eval.validation.evidence import PRIOR_POWERS, Evidence, Misleading
from dcaplda.eval.validation.summary import findings, what_was_done
from dcaplda.eval.validation.validation import Validation, examination

FORMAT, VERSION = "dcaplda-validation", 1


def json_text(validation: Validation) -> str:
    """The file's content; what is infinite or not a number is null."""
    return json.dumps(record(validation), indent=2, allow_nan=False) + "\n"


def record(validation: Validation) -> dict[str, Any]:
    """The JSON object."""
    origin, model = validation.origin, validation.model
    low, high = validation.bounds
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": validation.title,
        "date": origin.date,
        "system": validation.system,
        "bounds": {"lower_llr": low, "upper_llr": high},
        "model": None
        if model is None
        else {"fingerprint": model.fingerprint, "facts": dict(model.card.facts)},
        "confidence": validation.confidence,
        "replicates": validation.n_replicates,
        "sets": [_set(validation, result) for result in validation.results],
        "command": origin.command,
        "versions": origin.versions,
        "inputs": [asdict(file) for file in origin.inputs],
    }


def _set(validation: Validation, result: Result) -> dict[str, Any]:
    seen = examination(result)
    return {
        "set": result.set,
        "n_target": result.n_target,
        "n_nontarget": result.n_nontarget,
        "summary": [what_was_done(result, seen.tested), *_answers(result, seen.evidence)],
        "metrics": {name: _number(value) for name, value in result.values.items()},
        "intervals": {name: _span(span) for name, span in result.intervals.items()},
        "evidence": _evidence(seen.evidence),
        "tested": asdict(seen.tested),
        "conditions": [
            {
                "condition": part.kind,
                "enroll": part.enroll,
                "test": part.test,
                "n_target": part.n_target,
                "n_nontarget": part.n_nontarget,
                "metrics": None
                if part.values is None
                else {name: _number(value) for name, value in part.values.items()},
            }
            for part in result.parts
        ],
        "not_tested": validation.untested(result),
    }


def _answers(result: Result, evidence: Evidence) -> list[str]:
    return [answer for _, answer in findings(result, evidence)]


def _evidence(evidence: Evidence) -> dict[str, Any]:
    curves = evidence.curves
    low, high = evidence.bounds
    return {
        "elub": {
            "lower_llr": low,
            "upper_llr": high,
            "lower_log10": low / LOG10,
            "upper_log10": high / LOG10,
            "lower_llr_interval": _span(evidence.lower_interval),
            "upper_llr_interval": _span(evidence.upper_interval),
            "n_below": evidence.n_outside[0],
            "n_above": evidence.n_outside[1],
        },
        "devpav_log10": _number(evidence.devpav),
        "excess_log10": _number(evidence.excess),
        "devpav_log10_interval": _span(evidence.devpav_interval),
        "share_right_way": {"target": evidence.right_way[0], "nontarget": evidence.right_way[1]},
        "misleading": [_misleading(row) for row in evidence.misleading],
        "draws": evidence.n_draws,
        "tippett": {
            "log10_lr": _numbers(curves.grid),
            "target_at_or_above": _numbers(curves.target_above),
            "nontarget_at_or_above": _numbers(curves.nontarget_above),
        },
        "ece": {
            "log10_prior_odds": _numbers(PRIOR_POWERS),
            "bits": _numbers(curves.ece),
            "bits_after_pav": _numbers(curves.ece_pav),
            "bits_without": _numbers(curves.ece_nothing),
        },
    }


def _misleading(row: Misleading) -> dict[str, Any]:
    return {
        "lr": row.strength,
        "n_nontarget": row.n_nontarget,
        "n_target": row.n_target,
        "share_nontarget": row.nontarget,
        "share_target": row.target,
        "share_nontarget_interval": _span(row.nontarget_interval),
        "share_target_interval": _span(row.target_interval),
        "most_if_calibrated": row.limit,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _numbers(values: Any) -> list[float | None]:
    return [_number(round(float(value), 6)) for value in values]


def _span(span: Interval | None) -> list[float | None] | None:
    return None if span is None else [_number(end) for end in span]
