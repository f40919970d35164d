"""What a place looks like, from unlabelled utterances of it, and what to do about it.

In: the bundle's joint model and embeddings of the place. Out: numbers (`PlaceReport`), and what
they mean by the limits stated here (`verdict`, `rows`). Nothing is adapted.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import checks
from dcaplda.runtime.adaptation import FEWEST_PEOPLE, place_name
from dcaplda.runtime.bundle.manifest import ModelInfo
from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.familiarity import Range, read_familiarity
from dcaplda.runtime.fields import Table
from dcaplda.runtime.joint.mixture import FEWEST, Mixture, find_mixture, relative_scatter
from dcaplda.runtime.joint.place import EASE_REACH, FEWEST_PAIRED, adapted
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.runtime.joint.terms import Array

NEAR = 0.6
"""Offset up to which a place lies near the middle of training: there is little to adapt to."""
WIDE = 1.5
"""Scatter from which utterances lie farther apart than people do."""
LITTLE = 0.5
"""Below so much of the offset known, more utterances help more than anything else."""
CHANCE = 0.05
"""Several places, if so few pools of one place part as much."""
STRANGE = 0.5
"""Share of embeddings of unusual length from which they are of another extractor."""
SOME = 0.1
"""Share of utterances outside of training's range from which on that is worth a word."""
WELL_HEARD = 30
"""Utterances from which on a place counted as heard when training looked what to expect."""
FAR_QUANTILE = 3.09
"""Standard deviations of the 99.9th percentile: places farther off than that are like no place
that training met."""

NOTHING, ADAPT, COLLECT, AVOID = "nothing", "adapt", "collect more", "do not use"


@dataclass(frozen=True)
class Spread:
    """A quantity of the pool beside what training saw of it."""

    least: float
    median: float
    most: float
    trained: Range | None
    """99.9 % of training (lengths), or all of it (durations); None if the bundle does not tell."""
    outside: float
    """Share of the pool outside of that range."""


@dataclass(frozen=True)
class Miscalibration:
    """Share of Cllr lost to miscalibration at places held out of training, as the bundle tells."""

    before: float
    after: float
    few: float | None = None
    """After fewer than WELL_HEARD utterances; None if the bundle does not tell."""

    def expected(self, utterances: int) -> float:
        """After so many utterances."""
        return self.after if self.few is None or utterances >= WELL_HEARD else self.few


@dataclass(frozen=True)
class PlaceReport:
    """Numbers of a place."""

    utterances: int
    people: float
    """Effective number of people heard once."""
    known: float
    """How much of the place's offset these utterances tell, from 0 to 1."""
    offset: float
    """How far the place lies from the middle of training, in units of its prior (with what so few
    people and utterances add), brought to the pool's scatter: 1 for a usual place."""
    far: float
    """The offset that one place of the prior in a thousand exceeds."""
    scatter: float
    """Variance of the utterances over that of people heard once, mean over the axes."""
    lengths: Spread
    durations: Spread | None
    mixture: Mixture | None
    """None where there are too few utterances to tell."""
    miscalibration: Miscalibration | None
    """None where the bundle does not tell."""
    ease: float | None = None
    """How well people who return are recognized, over what is usual at training's places held out,
    in their standard deviations and within EASE_REACH; None where it cannot be told."""
    trained: str | None = None
    """Name of the place of training that the utterances are of; None: of another."""

    @property
    def several(self) -> bool:
        """Whether the utterances seem to come from several places."""
        return self.mixture is not None and self.mixture.chance <= CHANCE


@dataclass(frozen=True)
class Verdict:
    """What to do, as one of NOTHING, ADAPT, COLLECT and AVOID, and why."""

    action: str
    headline: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A line of the report: a name, the value, what it means."""

    name: str
    value: str
    meaning: str


def describe_place(
    scorer: JointScorer,
    info: ModelInfo,
    embeddings: ArrayLike,
    seconds: NDArray[np.float64] | None = None,
    ids: list[str] | None = None,
) -> PlaceReport:
    """Numbers of the place of these embeddings (n, D); `seconds` are of any of the utterances."""
    pool = checks.embeddings(embeddings, "embeddings", info.embedding_dim, ids).astype(np.float64)
    x = scorer.centred(pool)
    found = adapted(scorer, pool)
    familiar = read_familiarity(info.manifest, "model.json")
    timed = seconds is not None and len(seconds) > 0
    return PlaceReport(
        utterances=len(pool),
        people=found.heard,
        known=found.known,
        offset=offset_of(scorer, x, found.heard),
        far=far_offset(x.shape[1]),
        scatter=relative_scatter(scorer, x),
        lengths=_spread(np.linalg.norm(pool, axis=1), familiar.norm),
        durations=_spread(np.asarray(seconds), familiar.seconds) if timed else None,
        mixture=find_mixture(scorer, x),
        miscalibration=miscalibration_of(info.manifest),
        ease=EASE_REACH * found.ease / scorer.reach_ease if found.ease else None,
        trained=place_name(info, scorer, pool),
    )


def offset_of(scorer: JointScorer, x: Array, people: float) -> float:
    """Length of the mean of a pool (n, R), as PlaceReport.offset has it.

    A model that expects more scatter than there is expects more offset too, and a place far off
    would seem near: so both are compared. One person's scatter tells nothing of that.
    """
    between, count = scorer.between, len(x)
    expected = scorer.prior_offset + between / people + 1.0 / count
    squares = float(np.mean(x.mean(axis=0) ** 2 / expected))
    if people < FEWEST_PEOPLE:
        return math.sqrt(squares)
    usual = (between * (1.0 - 1.0 / people) + 1.0 - 1.0 / count) / (between + 1.0)
    return math.sqrt(squares * float(np.mean(usual)) / max(relative_scatter(scorer, x), 1e-9))


def far_offset(rank: int) -> float:
    """Root of the 99.9th percentile of chi-square over its `rank` (Wilson and Hilferty)."""
    width = 2.0 / (9.0 * rank)
    return math.sqrt((1.0 - width + FAR_QUANTILE * math.sqrt(width)) ** 3)


def verdict(report: PlaceReport) -> Verdict:
    """What to do; the first thing that is wrong decides, and what else is odd is said too."""
    judged = _judged(report)
    return replace(judged, reasons=judged.reasons + tuple(_cautions(report)))


def _cautions(report: PlaceReport) -> Iterator[str]:
    """What lies outside of training's ranges without deciding anything."""
    told = report.durations
    if told is not None and told.trained is not None and told.outside >= SOME:
        yield (
            f"{100 * told.outside:.0f} % of the utterances last less or more than training's "
            f"{told.trained.low:.1f} to {told.trained.high:.1f} s: if the trials do too, their "
            "LLRs deserve less trust, adapted or not."
        )
    if SOME <= report.lengths.outside < STRANGE:
        yield (
            f"{100 * report.lengths.outside:.0f} % of the embeddings have a length that training "
            "did not meet: look at those first."
        )


def _judged(report: PlaceReport) -> Verdict:
    for found in (_strange, _several, _far, _little):
        judged = found(report)
        if judged is not None:
            return judged
    if report.offset <= NEAR:
        reason = f"The place lies near the middle of training (offset {report.offset:.2f}, near is "
        reason += f"up to {NEAR:g}): there is little to adapt to."
        return Verdict(NOTHING, "Nothing: the bundle fits as it is", (reason,))
    reason = f"One place as far off as places are (offset {report.offset:.2f}, {report.far:.2f} is "
    reason += f"too far), {100 * report.known:.0f} % of its offset known."
    return Verdict(ADAPT, "Adapt: use the adapted bundle at this place", (reason,))


def _strange(report: PlaceReport) -> Verdict | None:
    if report.lengths.outside < STRANGE:
        return None
    reason = f"{100 * report.lengths.outside:.0f} % of the embeddings have a length that training "
    reason += "did not meet: is the extractor the one that the model was trained with?"
    return Verdict(AVOID, "Do not use: these are other embeddings", (reason,))


def _several(report: PlaceReport) -> Verdict | None:
    if not report.several or report.mixture is None:
        return None
    one, other = (100 * share for share in report.mixture.cut.shares)
    reason = f"The utterances part in two, {one:.0f} and {other:.0f} %, farther than people of one "
    reason += "place do: sort them by place and adapt to each."
    return Verdict(COLLECT, "Collect more: this looks like several places", (reason,))


def _far(report: PlaceReport) -> Verdict | None:
    reasons = []
    if report.offset > report.far:
        reasons.append(
            f"The place lies farther off than any that training knew (offset {report.offset:.2f}, "
            f"limit {report.far:.2f}): train with data like it."
        )
    if report.scatter > WIDE:
        reasons.append(
            f"The utterances scatter {report.scatter:.1f} times as much as people do (limit "
            f"{WIDE:g}): is it speech of single people?"
        )
    return Verdict(AVOID, "Do not use: unlike training", tuple(reasons)) if reasons else None


def _little(report: PlaceReport) -> Verdict | None:
    if report.utterances > 1 and report.people < FEWEST_PEOPLE:
        reason = f"The {report.utterances} utterances seem to be of one person; a place is learnt "
        reason += "from several."
    elif report.known < LITTLE:
        reason = f"{report.utterances} utterances tell {100 * report.known:.0f} % of the place's "
        reason += f"offset; from {100 * LITTLE:.0f} % on it is worth adapting."
    else:
        return None
    return Verdict(COLLECT, "Collect more: too little is known of the place", (reason,))


def rows(report: PlaceReport) -> list[Row]:
    """The report's lines, each with the limit that it is judged by."""
    people = f"worth {report.people:.1f} people heard once"
    known_from = "the offset starts from what training knows of it"
    if report.trained is None:
        known_from = "the offset is learnt from these utterances alone"
    found = [
        Row("utterances", f"{report.utterances}", people),
        Row("known", f"{100 * report.known:.0f} %", f"of the offset; wanted: {100 * LITTLE:.0f} %"),
        Row(
            "offset",
            f"{report.offset:.2f}",
            f"1 is usual; up to {NEAR:g} is near, above {report.far:.2f} too far",
        ),
        Row("place of training", report.trained or "none", known_from),
        Row("scatter", f"{report.scatter:.2f}", f"1 is of people heard once; limit {WIDE:g}"),
        _ease_row(report),
        _mixture_row(report),
        _spread_row("lengths", report.lengths, "", "not told by the bundle"),
    ]
    if report.durations is None:
        found.append(Row("durations", "not given", "--durations=utt2dur tells them"))
    else:
        found.append(_spread_row("durations", report.durations, " s", "not told by the bundle"))
    told = report.miscalibration
    value = "not known"
    meaning = "the bundle has no figures of places held out of training"
    if told is not None:
        after = told.expected(report.utterances)
        value = f"{100 * told.before:.0f} % before, {100 * after:.0f} % after"
        meaning = "of Cllr: of this bundle, at the training's places held out; not of this place"
        if told.few is not None:
            enough = report.utterances >= WELL_HEARD
            heard = f"{WELL_HEARD} or more" if enough else f"fewer than {WELL_HEARD}"
            meaning += f"; after {heard} utterances"
    return [*found, Row("miscalibration at new places", value, meaning)]


def text(report: PlaceReport) -> list[str]:
    """The report as lines of text, the verdict first."""
    judged = verdict(report)
    lines = [judged.headline, *judged.reasons]
    return lines + [f"{row.name}: {row.value} ({row.meaning})" for row in rows(report)]


def _ease_row(report: PlaceReport) -> Row:
    name = "people who return"
    if report.ease is None:
        return Row(name, "cannot be told", f"from fewer than {FEWEST_PAIRED} utterances")
    meaning = "above 0 recognized better than at training's places held out, below 0 worse; in "
    return Row(name, f"{report.ease:+.1f}", meaning + "standard deviations")


def _mixture_row(report: PlaceReport) -> Row:
    mixture = report.mixture
    if mixture is None:
        return Row("places", "cannot be told", f"from fewer than {FEWEST} utterances")
    meaning = (
        f"the halves lie {mixture.ratio:.2f} times as far apart as those of one place; by chance "
        f"so far in {100 * mixture.chance:.0f} %, limit {100 * CHANCE:.0f} %"
    )
    return Row("places", "several" if report.several else "one", meaning)


def _spread_row(name: str, spread: Spread, unit: str, unknown: str) -> Row:
    value = f"{spread.least:.1f} to {spread.most:.1f}{unit}, median {spread.median:.1f}{unit}"
    if spread.trained is None:
        return Row(name, value, f"range of training {unknown}")
    trained = f"{spread.trained.low:.1f} to {spread.trained.high:.1f}{unit}"
    return Row(name, value, f"training {trained}; {100 * spread.outside:.0f} % outside")


def _spread(values: NDArray[np.float64], trained: Range | None) -> Spread:
    held = [trained is None or trained.holds(float(value)) for value in values]
    least, median, most = (float(v) for v in np.quantile(values, (0.0, 0.5, 1.0)))
    return Spread(least, median, most, trained, 1.0 - float(np.mean(held)))


def miscalibration_of(manifest: Mapping[str, Any]) -> Miscalibration | None:
    """The key `places` of `training` in model.json: {"before", "after" and maybe "few": share}."""
    whole = Table(dict(manifest), "model.json", BundleError, "export again")
    training = whole.optional_table("training")
    told = None if training is None else training.optional_table("places")
    if told is None:
        return None
    few = told.get("few", float | None, None)
    return Miscalibration(told.number("before"), told.number("after"), few)
