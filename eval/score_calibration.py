"""An affine calibration on disk, and score files passed through it."""

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.duration_calibration import DurationTerms, fit_durations
from dcaplda.eval.metrics.calibration import apply_affine, fit_affine
from dcaplda.eval.metrics.scalars import cllr
from dcaplda.eval.trials.ids import Codes, IdTable
from dcaplda.eval.trials.joining import join, read_scores, score_blocks
from dcaplda.eval.trials.keys import Allowance, read_key
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.fields import Table, parse_json
from dcaplda.runtime.files import replacing
from dcaplda.runtime.tables.specifiers import Writer
from dcaplda.runtime.tables.text_tables import read_durations, read_lists

FORMAT = "dcaplda-calibration"


@dataclass(frozen=True)
class Calibration:
    """llr = alpha * score + beta (paper, eq. 16), and where it comes from."""

    alpha: float
    beta: float
    prior: float
    n_target: int
    n_nontarget: int
    cllr: float
    """Cllr at the prior, on the very trials that it was fitted on."""


def fit(
    trials: str, scores: str, prior: float, allow: Allowance, column: int | None = None
) -> Calibration:
    """Fit by linear logistic regression at `prior` (eq. 14) on labelled trials."""
    ids = IdTable()
    joined = join(read_key(trials, ids, allow), read_scores(scores, ids, column=column), allow)
    target, nontarget = joined.split()
    alpha, beta = fit_affine(target, nontarget, prior)
    if not alpha > 0:
        raise InputError(
            f"'{scores}': higher scores do not go with target trials (alpha = {alpha:g}); "
            "are the labels or the sign of the scores turned round?"
        )
    after = cllr(apply_affine(target, alpha, beta), apply_affine(nontarget, alpha, beta), prior)
    return Calibration(alpha, beta, prior, len(target), len(nontarget), after)


@dataclass(frozen=True)
class DurationCalibration:
    """A calibration by durations, and where it comes from."""

    terms: DurationTerms
    prior: float
    n_target: int
    n_nontarget: int
    cllr: float


def fit_with_durations(
    trials: str,
    scores: str,
    prior: float,
    allow: Allowance,
    tables: tuple[str, str],
    column: int | None = None,
    spk2utt: str = "",
) -> DurationCalibration:
    """The same by the seconds of speech of both sides, whose `tables` are named.

    A model of several utterances (`spk2utt`) has the geometric mean of their seconds.
    """
    ids = IdTable()
    joined = join(read_key(trials, ids, allow), read_scores(scores, ids, column=column), allow)
    sides = [
        _seconds(table, codes, ids, models)
        for table, codes, models in zip(
            tables, (joined.enroll, joined.test), (spk2utt, ""), strict=True
        )
    ]
    terms = fit_durations(joined.scores, joined.labels, sides[0], sides[1], prior)
    llrs = terms.llrs(joined.scores, *sides)
    target, nontarget = llrs[joined.labels], llrs[~joined.labels]
    return DurationCalibration(
        terms, prior, len(target), len(nontarget), cllr(target, nontarget, prior)
    )


def _seconds(table: str, codes: Codes, ids: IdTable, models: str) -> NDArray[np.float64]:
    known = read_durations(table)
    for model, members in (read_lists(models) if models else {}).items():
        if all(name in known for name in members):
            known[model] = float(np.exp(np.mean(np.log([known[name] for name in members]))))
    used, place = np.unique(codes, return_inverse=True)
    names = [ids.names[code] for code in used.tolist()]
    missing = [name for name in names if name not in known]
    if missing:
        raise InputError(
            f"'{table}': no duration of '{missing[0]}'{_and_more(missing)}; every id of the trials "
            "needs one"
        )
    return np.array([known[name] for name in names])[place]


def _and_more(missing: list[str]) -> str:
    return f" and {len(missing) - 1} more" if len(missing) > 1 else ""


def save(calibration: Calibration, path: str) -> None:
    """Write as JSON, whole or not at all."""
    text = json.dumps({"format": FORMAT, **asdict(calibration)}, indent=2) + "\n"
    with replacing(path) as beside:
        Path(beside).write_text(text, encoding="utf-8")


def load(path: str) -> Calibration:
    """Read what `save` wrote."""
    try:
        values = parse_json(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path}: not a calibration; make one with calibrate-scores")
    told = Table(values, path, InputError, "fit the calibration again")
    calibration = Calibration(
        alpha=told.number("alpha"),
        beta=told.number("beta"),
        prior=told.number("prior", 0.0, 1.0),
        n_target=told.whole("n_target", 0, 2**62),
        n_nontarget=told.whole("n_nontarget", 0, 2**62),
        cllr=told.number("cllr"),
    )
    if not calibration.alpha > 0:
        raise told.refused(f"'alpha' = {calibration.alpha}: expected more than 0")
    return calibration


def apply(calibration: Calibration, scores: str, stream: Writer, column: int | None = None) -> int:
    """Write the calibrated lines of a score file, in its order, block by block."""
    import polars as pl

    count = 0
    for enroll, test, values in score_blocks(scores, column):
        with np.errstate(over="ignore", invalid="ignore"):
            llrs = apply_affine(values, calibration.alpha, calibration.beta).astype(np.float32)
        if not np.isfinite(llrs).all():
            row = int(np.argmin(np.isfinite(llrs)))
            raise InputError(
                f"'{scores}': '{enroll[row]}' '{test[row]}' has the score {values[row]:g}, whose "
                f"LLR would be {llrs[row]}; leave it out or score it again"
            )
        lines = io.BytesIO()
        pl.DataFrame({"enroll": enroll, "test": test, "llr": llrs}).write_csv(
            lines, include_header=False, separator=" ", quote_style="never"
        )
        stream.write(lines.getbuffer())
        count += len(llrs)
    return count
