"""All metrics of many draws of speakers: scores are sorted once, only weights change."""

from collections.abc import Iterator

import numpy as np

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.bootstrap import DrawCounts, TrialSpeakers
from dcaplda.eval.metrics.calibration import TOLERANCE, entropy, misplaced_infinities
from dcaplda.eval.metrics.logistic import Frame, ScoreClass, frame_of
from dcaplda.eval.metrics.measure import Settings, WeightedMeasure, WeightedPoint
from dcaplda.eval.metrics.scores import Floats, checked_pair
from dcaplda.eval.resampling.affine_fits import NodeRegression
from dcaplda.eval.resampling.class_sums import ClassSums, Sums
from dcaplda.eval.resampling.hulls import Masses, equal_error_rates, min_dcfs, pooled_cllrs
from dcaplda.eval.resampling.smooth_nodes import LIMIT, USUAL, SmoothNodes
from dcaplda.eval.resampling.trial_runs import Places, Runs
from dcaplda.runtime.decision import log_odds

MOST_DRAWS = 256
MOST_CELLS = 1 << 19
"""Draws times runs that a batch may have: much more no longer fits the cache."""
FARTHEST = 1e3
"""Scores farther out than so many spreads need the care of `fit_affine`."""


class Resampler:
    """`WeightedMeasure` for many draws at once, equal to it within 1e-9.

    What depends on the order comes from runs of trials (`trial_runs`, `hulls`), what is a sum over
    trials from products of matrices (`class_sums`), the affine minimum from fits at nodes
    (`smooth_nodes`, `affine_fits`). Draws that those cannot answer, as where a threshold separates
    most but not all, are measured one by one; so are all of a set with misplaced infinite scores.
    """

    def __init__(
        self, target: Floats, nontarget: Floats, speakers: TrialSpeakers, settings: Settings
    ) -> None:
        target, nontarget = checked_pair(target, nontarget)
        self.settings = settings
        self.speakers = speakers
        self.plain = WeightedMeasure(target, nontarget, settings)
        self.one_by_one = misplaced_infinities(target, nontarget) > 0
        if not self.one_by_one:
            self._prepare(target, nontarget)

    def _prepare(self, target: Floats, nontarget: Floats) -> None:
        orders = [np.argsort(scores, kind="stable") for scores in (target, nontarget)]
        scores = target[orders[0]], nontarget[orders[1]]
        self.has_infinite = any(np.isinf(s).any() for s in scores)
        runs = Runs.of(*scores)
        self.n_runs = runs.n_runs
        self.frame, self.half_width = self._frame(scores)
        sides = (
            [self.speakers.target],
            [
                self.speakers.nontarget_enroll,
                self.speakers.nontarget_test,
            ],
        )
        points = self.plain.points
        fixed = (
            [f for point in points for f in (point.target_loss, point.missed)],
            [f for point in points for f in (point.nontarget_loss, point.accepted)],
        )
        made = []
        self.columns: list[Places] = []
        for place, run in enumerate((runs.target, runs.nontarget)):
            order = orders[place]
            columns, own = np.unique(run, return_inverse=True)
            self.columns.append(columns)
            made.append(
                ClassSums(
                    [side[order] for side in sides[place]],
                    SmoothNodes.of(scores[place], self.half_width),
                    np.stack([values[order] for values in fixed[place]], axis=1),
                    own.reshape(-1),
                )
            )
        self.classes = made[0], made[1]
        nodes = [cls.smooth.nodes for cls in made]
        self.widest = max(cls.smooth.half_width for cls in made)
        self.regression = NodeRegression.of(nodes[0], nodes[1], self.frame)

    def _frame(self, scores: tuple[Floats, Floats]) -> tuple[Frame, float]:
        """Center and spread of the scores, and the panels' half-width; see `solvable`."""
        finite = [s[np.isfinite(s)] for s in scores]
        self.solvable = all(s.size for s in finite)
        if not self.solvable:
            return Frame(0.0, 1.0), np.inf
        frame, reach = frame_of([ScoreClass(s, None, 1.0, 1.0) for s in finite])
        steepest = max(abs(point.start[0]) for point in self.plain.points)
        self.solvable = 0.0 < frame.spread and reach <= FARTHEST and steepest > 0.0
        if not self.solvable:
            return Frame(0.0, 1.0), np.inf
        return frame, USUAL / steepest

    def batches(self, counts: DrawCounts, threads: int = 1) -> Iterator[DrawCounts]:
        """The draws in pieces that are worked on at a time, some for each thread."""
        size = min(MOST_DRAWS, max(1, -(-counts.shape[0] // threads)))
        if not self.one_by_one:
            size = max(1, min(size, MOST_CELLS // self.n_runs))
        for first in range(0, counts.shape[0], size):
            yield counts[first : first + size]

    def rows(self, counts: DrawCounts) -> Floats:
        """Metrics (draws, `settings.names`) for counts (draws, speakers)."""
        if self.one_by_one:
            return np.array([self.plain(*self.speakers.weights(drawn)) for drawn in counts])
        drawn = np.ascontiguousarray(counts.T, np.float64)
        sums = self.classes[0].of(drawn), self.classes[1].of(drawn)
        masses = np.zeros((2, counts.shape[0], self.n_runs))
        for place in (0, 1):
            masses[place][:, self.columns[place]] = sums[place].runs
        ordered = Masses(masses[0], masses[1])
        pools = ordered.pool()
        rates = pools.rates()
        auc = ordered.auc()
        kaldi = self.settings.eer_method == "kaldi"
        found = [100.0 * equal_error_rates(*(ordered.rates() if kaldi else rates)), auc]
        costs = self.settings.cost_miss, self.settings.cost_fa
        for number, point in enumerate(self.plain.points):
            cllr, dcf = self._actual(number, sums)
            linear = self._linear(point, sums, auc, counts)
            loss = np.array(
                [metrics.calibration_loss(*pair) for pair in zip(cllr, linear, strict=True)]
            )
            least = min_dcfs(*rates, point.prior, costs, self.settings.normalize_dcf)
            found += [cllr, linear, pooled_cllrs(pools, point.prior), loss, dcf, least]
        return np.stack(found, axis=1)

    def _actual(self, number: int, sums: tuple[Sums, Sums]) -> tuple[Floats, Floats]:
        """Cllr and DCF of the scores as they are."""
        prior = self.plain.points[number].prior
        costs = self.settings.cost_miss, self.settings.cost_fa
        loss, wrong = (
            [part.fixed[:, 2 * number + which] / part.total for part in sums] for which in (0, 1)
        )
        cllr = (prior * loss[0] + (1.0 - prior) * loss[1]) / entropy(prior)
        dcf = prior * costs[0] * wrong[0] + (1.0 - prior) * costs[1] * wrong[1]
        if self.settings.normalize_dcf:
            dcf = dcf / metrics.default_cost(prior, *costs)
        return cllr, dcf

    def _linear(
        self, point: WeightedPoint, sums: tuple[Sums, Sums], auc: Floats, counts: DrawCounts
    ) -> Floats:
        """Cllr after the best affine map of each draw."""
        found = np.zeros(auc.size)
        known = (auc == 1.0) | (auc == 0.0)  # a threshold separates the classes: no loss is left
        if self.solvable:
            prior = point.prior, 1.0 - point.prior
            weights = np.hstack(
                [
                    part.nodes * (p / part.total)[:, None]
                    for p, part in zip(prior, sums, strict=True)
                ]
            )
            alpha, beta = point.start
            center, spread = self.frame
            start = alpha * spread, beta + log_odds(point.prior) + alpha * center
            floor = entropy(point.prior)
            todo = np.flatnonzero(~known)
            if todo.size:
                fits = self.regression.fit(weights[todo], start, TOLERANCE * floor)
                sure = fits.done & (np.abs(fits.slope) * self.widest <= LIMIT)
                # Infinite scores would change sides with a falling map.
                sure &= (fits.slope > 0.0) | (not self.has_infinite)
                found[todo[sure]] = fits.loss[sure] / floor
                known[todo[sure]] = True
        for place in np.flatnonzero(~known):
            found[place] = self.plain.linear(point, *self.speakers.weights(counts[place]))
        return found
