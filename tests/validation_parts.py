"""Evidence made up for tests of what a validation says about it."""

import math
from dataclasses import replace

import numpy as np

from dcaplda.eval.validation.evidence import Evidence, EvidenceCurves, Misleading

EMPTY = np.zeros(0)
CURVES = EvidenceCurves(*([EMPTY] * 8))


def row(strength, n_nontarget, n_target, total=1000, spans=(None, None)):
    return Misleading(
        strength, n_nontarget, n_target, n_nontarget / total, n_target / total, *spans
    )


def evidence(**changed):
    rows = (row(1.0, 90, 20), row(10.0, 8, 3), row(100.0, 4, 0), row(1000.0, 0, 0))
    base = Evidence(
        (-math.log(240), math.log(1300)), 0.30, 0.28, (0.979, 0.905), rows, (5, 11), 2000, CURVES
    )
    return replace(base, **changed)
