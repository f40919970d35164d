"""Calibration of a joint model: what episodes teach of durations, numbers and places."""

import numpy as np

from dcaplda.eval.metrics.calibration import fit_affine
from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.train.start.calibration import fit_logistic, pair_terms, terms_form
from dcaplda.train.start.covariances import Array
from dcaplda.train.start.episodes import Episode
from dcaplda.train.start.plda import PldaForm

CONDITION_RIDGE = 1e-3
"""Pull of the calibration towards one for all conditions: corpora are few, and what one of them
shows at some condition is partly its own (egs/recordings/RESULTS.md)."""
MOST_ASKED = 40
"""Episodes that what to expect is found from."""
WELL_HEARD = 30
"""Utterances of a place from which on it counts as heard, for what to expect of it."""


def fit_conditions(
    episodes: list[Episode], prior: float, notes: list[str]
) -> tuple[PldaForm, PldaForm]:
    """Scale and shift (eq. 21, 22) on durations, numbers of utterances and knowledge of places.

    An episode counts by its weight, however many trials it has.
    """
    scores = np.concatenate([e.scores for e in episodes])
    targets = np.concatenate([e.targets for e in episodes])
    weights = np.concatenate([_trial_weights(e, prior) for e in episodes])
    weights /= weights.sum()
    start = fit_affine(
        scores[targets],
        scores[~targets],
        prior,
        target_weights=weights[targets],
        nontarget_weights=weights[~targets],
    )
    enroll = np.concatenate([e.enroll for e in episodes])
    test = np.concatenate([e.test for e in episodes])
    terms = pair_terms(enroll, test)
    n_terms = terms.shape[1]
    center = np.zeros(2 * n_terms)
    center[0], center[n_terms] = start
    columns = np.concatenate([scores[:, None] * terms, terms], axis=1)
    signs = np.where(targets, -1.0, 1.0)
    found = fit_logistic(columns, signs, weights, prior, center, CONDITION_RIDGE)
    lowest = float((terms @ found[:n_terms]).min())
    notes.append(
        f"duration stage ({'one place' if episodes[0].one_place else 'two places'}): fitted to "
        f"{len(scores)} trials of {len(episodes)} episodes, lowest scale "
        f"{lowest:.4f}"
    )
    if not lowest > 0:
        notes.append("at some durations the scale is not above 0; try another duration_feature")
    dim = enroll.shape[1]
    return terms_form(found[:n_terms], dim), terms_form(found[n_terms:], dim)


def _trial_weights(episode: Episode, prior: float) -> Array:
    n_targets = int(episode.targets.sum())
    share = np.where(
        episode.targets,
        prior / n_targets,
        (1.0 - prior) / (len(episode.targets) - n_targets),
    )
    weights: Array = episode.weight * share
    return weights


def expected_loss(
    episodes: list[Episode], forms: tuple[PldaForm, PldaForm]
) -> dict[str, float] | None:
    """Share of Cllr at 0.5 that miscalibration costs at places held out, before and after hearing.

    `few`, where there are such episodes, is after fewer than WELL_HEARD utterances. The scorer has
    not seen these places; the calibration has, so it is the least to expect.
    """
    kinds = {
        "before": [e for e in episodes if e.heard == 0],
        "after": [e for e in episodes if e.heard >= WELL_HEARD],
    }
    if not all(kinds.values()):
        return None
    few = [e for e in episodes if 0 < e.heard < WELL_HEARD]
    kinds |= {"few": few} if few else {}
    return {
        key: float(np.mean([_lost_share(e, forms) for e in found[:: -(-len(found) // MOST_ASKED)]]))
        for key, found in kinds.items()
    }


def _lost_share(episode: Episode, forms: tuple[PldaForm, PldaForm]) -> float:
    llrs = calibrated(episode, forms)
    target, nontarget = llrs[episode.targets], llrs[~episode.targets]
    actual = cllr(target, nontarget, 0.5)
    return max(1.0 - min_cllr_lin(target, nontarget, 0.5) / actual, 0.0) if actual > 0 else 0.0


def calibrated(episode: Episode, forms: tuple[PldaForm, PldaForm]) -> Array:
    """LLRs of an episode's trials."""
    scale, shift = (_form_values(form, episode.enroll, episode.test) for form in forms)
    llrs: Array = scale * episode.scores + shift
    return llrs


def _form_values(form: PldaForm, one: Array, other: Array) -> Array:
    """A form of each pair of rows."""
    own = [np.einsum("ij,jk,ik->i", x, form.auto, x) + x @ form.linear for x in (one, other)]
    cross = 2.0 * np.einsum("ij,jk,ik->i", one, form.cross, other)
    values: Array = cross + own[0] + own[1] + form.offset
    return values
