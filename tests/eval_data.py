"""Golden scores for the tests of dcaplda.eval."""

import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
EXTRACTS = HERE / "data" / "eval"
SHARED = HERE.parent / ".." / "shared" / "data"

RESULT_COLUMNS = (
    ["eer"]
    + [f"{name}_{p}" for p in ("0.01", "0.5") for name in ("cllr", "min_cllr_lin", "min_cllr_pav")]
    + [f"{name}_{p}" for p in ("0.01", "0.5") for name in ("dcf", "min_dcf")]
)


def result_files() -> list[Path]:
    """Every .results file there is: the extract in the repository, and the whole collection."""
    found = sorted(EXTRACTS.glob("*/*.results"))
    return found + sorted((SHARED / "reference-golden").glob("*/*.results"))


def files_of(results: Path) -> tuple[Path, Path]:
    """Trials and scores behind a .results file."""
    trials = results.parent / ("trials_multi" if ".multi." in results.name else "trials")
    return trials, results.with_suffix(".scores")


def printed(results: Path) -> dict[str, str]:
    """The figures of a .results file, as printed."""
    line = results.read_text().splitlines()[2]
    figures = re.findall(r"\d+\.\d+", line.split("|", 2)[2])
    assert len(figures) == len(RESULT_COLUMNS)
    return dict(zip(RESULT_COLUMNS, figures, strict=True))


def split_scores(trials: Path, scores: Path) -> tuple[np.ndarray, np.ndarray]:
    """Target and nontarget scores, joined by ids in plain Python."""
    label = {tuple(line.split()[:2]): line.split()[2] for line in trials.read_text().splitlines()}
    by_label: dict[str, list[float]] = {"target": [], "nontarget": []}
    for line in scores.read_text().splitlines():
        enroll, test, score = line.split()
        by_label[label[enroll, test]].append(float(score))
    return np.array(by_label["target"]), np.array(by_label["nontarget"])
