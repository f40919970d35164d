"""Results as an evaluation would give them, from costs and Cllr written out."""

from collections.abc import Mapping

import numpy as np

from dcaplda.eval.results import Result

Pair = tuple[float, float]
"""Cost at the Bayes threshold, and at the best one."""


def result(
    system: str = "a",
    name: str = "home",
    *,
    half: Pair = (0.1, 0.1),
    rare: Pair = (0.3, 0.3),
    cllr: float = 0.2,
    affine: Mapping[float, Pair] | Pair = (1.0, 0.0),
    spread: float = 0.0,
) -> Result:
    """A result at priors 0.5 and 0.01; `spread` gives replicates so far around the costs."""
    values = {"eer": 5.0, "auc": 0.9}
    for prior, (cost, best) in (("0.5", half), ("0.01", rare)):
        values |= {f"cllr_{prior}": cllr, f"min_cllr_lin_{prior}": cllr / 2}
        values |= {f"min_cllr_pav_{prior}": cllr / 2, f"calibration_loss_{prior}": 0.5}
        values |= {f"dcf_{prior}": cost, f"min_dcf_{prior}": best}
    maps = affine if isinstance(affine, Mapping) else {0.5: affine, 0.01: affine}
    drawn = None
    if spread:
        drawn = np.tile(list(values.values()), (101, 1))
        for prior in ("0.5", "0.01"):
            drawn[:, list(values).index(f"dcf_{prior}")] += np.linspace(-spread, spread, 101)
            drawn[:, list(values).index(f"cllr_{prior}")] += np.linspace(-spread, spread, 101)
    return Result(system, name, "", 100, 1000, values, dict(maps), replicates=drawn)
