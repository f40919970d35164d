"""Many inputs together: are they what training saw, and if not, what went wrong?

One utterance outside of training's ranges is a new condition, and gets its own warning
(`familiarity`). Where a tenth of a table lies outside, the table is mostly wrong in a way that has
a name: embeddings that somebody normalized, durations in frames or milliseconds. Of bundles that
do not tell what training saw, only what no training can have seen is named.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.familiarity import SLACK, Familiarity, Range, shown_length

Floats = NDArray[np.float64]

MANY = 0.1
"""Share outside of training's ranges from which on the table is taken to be wrong; of corpora that
training did not see it was at most 0.02 (docs/embedding.md)."""
MOSTLY = 0.5
"""Share of utterances from elsewhere from which on an adapted bundle is the wrong one; of the right
place at most 0.25, mostly below 0.1; of nine in ten other pools above half (egs/recordings)."""
ELSEWHERE = 0.2
"""Share of them from which on it is worth more than a detail."""
SOME = 0.01
"""Share from which on it is worth a word."""
FEW, FAR = 3, 2.0
"""Of fewer outside than FEW, all have to be so by a factor of FAR."""
SAME = 1.001
"""Lengths that differ by less than so much are one length."""
TELLING = 10
"""So many embeddings of one length are no coincidence, also where that length is usual."""
FITTING = 0.9
"""Share of durations that another unit has to bring into training's range to be the likely one."""
HOUR = 3600.0
UNITS = (
    ("frames of 10 ms", 0.01, "--frame-shift=0.01"),
    ("milliseconds", 0.001, "--frame-shift=0.001"),
    ("samples at 16 kHz", 1 / 16000, "--frame-shift=0.0000625"),
    ("samples at 8 kHz", 1 / 8000, "--frame-shift=0.000125"),
    ("minutes", 60.0, ""),
)
"""What durations are given in by mistake, its seconds, and the option that takes it."""


WRONG, NOTE, DETAIL = "wrong", "note", "detail"


@dataclass(frozen=True)
class Finding:
    """A line about a table, and how much it matters: WRONG, NOTE or DETAIL."""

    text: str
    weight: str


def look_at_lengths(lengths: Floats, known: Familiarity) -> Finding | None:
    """What the lengths of embeddings (n,) say."""
    count, usual = len(lengths), known.norm
    least, most = float(lengths.min()), float(lengths.max())
    one_length = count > 1 and most <= least * SAME
    if usual is None:
        if one_length and (count >= TELLING or _is_one(lengths).all()):
            text = f"all {count} embeddings have length {least:.4g}; this bundle does "
            return Finding(f"{text}not tell whether those of training were normalized", NOTE)
        return None
    trained = f"in training 99.9% had {usual.low:.2f}-{usual.high:.2f}"
    outside = _outside(lengths, usual)
    share, n_outside = outside.mean(), int(outside.sum())
    trained_on_one = usual.high <= usual.low * SAME
    if one_length and not trained_on_one and (count >= TELLING or n_outside):
        text = f"all {count} embeddings have length {least:.4g}, {trained}: were they "
        return Finding(f"{text}normalized? give them as the extractor makes them", WRONG)
    ones = int(np.count_nonzero(outside & _is_one(lengths)))
    if ones and ones >= SOME * count:
        text = f"{ones} of {count} embeddings have length 1, {trained}: were these normalized? "
        return Finding(f"{text}give them as the extractor makes them", WRONG)
    if not n_outside:
        return None
    text = f"{n_outside} of {count} embeddings have an unusual length (all: {shown_length(least)}-"
    text += f"{shown_length(most)}, {trained})"
    if not _are_many(lengths, outside, usual):
        return Finding(text, NOTE if share >= SOME else DETAIL)
    if trained_on_one:
        return Finding(f"{text}: normalize them as for training", WRONG)
    return Finding(f"{text}: are they scaled, or of another extractor?", WRONG)


def look_at_seconds(seconds: Floats, known: Familiarity) -> Finding | None:
    """What durations (n,) say; those of nothing at all say nothing."""
    seconds = seconds[seconds > 0]
    count, usual = len(seconds), known.seconds
    if not count:
        return None
    middle = _middle(seconds)
    if usual is None:
        if middle > HOUR:
            text = f"half of the {count} durations are longer than {middle / HOUR:.1f} hours: are "
            return Finding(f"{text}they frames or milliseconds? give seconds of speech", WRONG)
        return None
    outside = _outside(seconds, usual)
    share, n_outside = outside.mean(), int(outside.sum())
    if not n_outside:
        return None
    text = f"{n_outside} of {count} durations lie outside of what training saw (median "
    text += f"{middle:g} s, trained on {usual.low:.1f}-{usual.high:.1f} s)"
    unit = _likely_unit(seconds, usual)
    all_whole = _are_whole(seconds)
    # Whole numbers tell also where some of them happen to be usual as seconds.
    if not _are_many(seconds, outside, usual) and not (unit and all_whole and share >= SOME):
        return Finding(text, NOTE if share >= SOME else DETAIL)
    odd = seconds[outside]  # of two tables in one, the wrong one
    unit = unit or _likely_unit(odd, usual)
    if unit is None:
        return Finding(f"{text}: there LLRs deserve less trust", WRONG)
    name, option = unit
    way = f", or {option}" if option and all_whole else ""
    sure = _are_whole(odd) or _middle(odd) > HOUR
    asked = f"they look like {name}" if sure else f"are they {name}?"
    return Finding(f"{text}: {asked}; give seconds of speech{way}", WRONG)


def _are_whole(values: Floats) -> bool:
    return bool((values == np.floor(values)).all())


def look_at_distances(distances: Floats, known: Familiarity) -> Finding | None:
    """What distances of side-information (n,) from training's say."""
    if known.side is None:
        return None
    n_outside = int(np.count_nonzero(~(distances <= known.side.limit)))
    if not n_outside:
        return None
    text = f"{n_outside} of {len(distances)} utterances have side-information farther off than "
    text += f"99.9% of training (up to {distances.max():.1f}, training's up to "
    text += f"{known.side.limit:.1f})"
    share, limit = n_outside / len(distances), known.side.limit
    if not _are_many(distances, ~(distances <= limit), Range(0.0, limit)):
        return Finding(text, NOTE if share >= SOME else DETAIL)
    return Finding(
        f"{text}: of another extractor, or of conditions unlike all of training's?", WRONG
    )


def look_at_place(told: Floats, known: float, place: str = "") -> Finding | None:
    """How many of the voiceprints of an adapted bundle, or of a place by name, sound of there.

    `told` is what each says to be known of its place, (n,); `known` what the bundle knows of it.
    """
    n_outside = int(np.count_nonzero(told < 0.5 * known * (1.0 - 1e-3)))
    if not n_outside:
        return None
    where = f"place '{place}'" if place else "the place that this bundle was adapted to"
    text = f"{n_outside} of {len(told)} do not sound of {where} and are scored as of an unknown one"
    share = n_outside / len(told)
    if share < MOSTLY:
        return Finding(text, NOTE if share >= ELSEWHERE else DETAIL)
    heard = "heard of it" if place else "that it was adapted with"
    return Finding(f"{text}: were the utterances {heard} of this place?", WRONG)


def _are_many(values: Floats, outside: NDArray[np.bool_], usual: Range) -> bool:
    """Whether so many lie outside that it is the table; of one or two, if they lie far outside."""
    if outside.mean() < MANY:
        return False
    if outside.sum() >= FEW:
        return True
    far = (values * FAR <= usual.low) | (values >= usual.high * FAR)
    return bool(far.all())


def _middle(values: Floats) -> float:
    """The median, or its upper neighbour; numpy's own imports more than this needs."""
    return float(np.partition(values, len(values) // 2)[len(values) // 2])


def _outside(values: Floats, usual: Range) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (values * SLACK >= usual.low) & (values <= usual.high * SLACK)
    return ~inside


def _is_one(lengths: Floats) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.abs(lengths - 1.0) < SAME - 1.0
    return found


def _likely_unit(seconds: Floats, usual: Range) -> tuple[str, str] | None:
    """Name and option of the unit in which most durations would be usual; None if there is none.

    Of two, the one that brings them nearer to the middle of training's range.
    """
    best: tuple[float, float, str, str] | None = None
    middle = 0.5 * math.log(max(usual.low, 1e-3) * usual.high)
    typical = _middle(seconds)
    for name, unit, option in UNITS:
        share = 1.0 - float(_outside(seconds * unit, usual).mean())
        off = abs(math.log(max(typical * unit, 1e-30)) - middle)
        if share >= FITTING and (best is None or (share, -off) > best[:2]):
            best = share, -off, name, option
    return None if best is None else best[2:]
