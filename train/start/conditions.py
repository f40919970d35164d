"""Calibration of a joint model: what episodes teach of durations, numbers and places."""

import numpy as np
import torch

from dcaplda.eval.metrics.calibration import fit_affine
from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model import durations
from dcaplda.train.model.ops import TORCH
from dcaplda.train.plda.covariances import Array
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.recipe.sections import ModelSection
from dcaplda.train.start.calibration import fit_logistic, pair_terms, terms_form
from dcaplda.train.start.episodes import Episode

CONDITION_RIDGE = 3e-5
"""Pull of the calibration towards one for all conditions: corpora are few, and what one of them
shows at some condition is partly its own (egs/recordings/RESULTS.md)."""
LEAST_UNIT = 1e-6
MOST_ASKED = 40
"""Episodes that what to expect is found from."""
WELL_HEARD = 30
"""Utterances of a place from which on it counts as heard, for what to expect of it."""


def duration_features(data: TrainingData, model: ModelSection) -> Array:
    """e of every utterance without the conditions, float64."""
    parameters = durations.resolve(model.duration_feature, model.duration_parameters)
    seconds = torch.from_numpy(data.seconds.astype(np.float64))
    features: Array = durations.apply(TORCH, model.duration_feature, parameters, seconds).numpy()
    return features


def fit_conditions(
    episodes: list[Episode], prior: float, notes: list[str]
) -> tuple[PldaForm, PldaForm]:
    """Scale and shift (eq. 21, 22) on durations, numbers of utterances and knowledge of places.

    An episode counts by its weight, however many trials it has.
    """
    scores = np.concatenate([e.scores for e in episodes])
    targets = np.concatenate([e.targets for e in episodes])
    weights = np.concatenate([trial_weights(e, prior) for e in episodes])
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
    centre, unit = _middle(np.concatenate([enroll, test]), np.concatenate([weights, weights]))
    terms = pair_terms((enroll - centre) / unit, (test - centre) / unit)
    n_terms = terms.shape[1]
    center = np.zeros(2 * n_terms)
    center[0], center[n_terms] = start
    columns = np.concatenate([scores[:, None] * terms, terms], axis=1)
    signs = np.where(targets, -1.0, 1.0)
    found = fit_logistic(columns, signs, weights, prior, center, CONDITION_RIDGE)
    lowest = float((terms @ found[:n_terms]).min())
    notes.append(
        f"duration stage ({_of_what(episodes[0])}): fitted to "
        f"{len(scores)} trials of {len(episodes)} episodes, lowest scale "
        f"{lowest:.4f}"
    )
    if not lowest > 0:
        notes.append("at some durations the scale is not above 0; try another duration_feature")
    dim = enroll.shape[1]
    scale, shift = (
        uncentred(terms_form(values, dim), centre, unit)
        for values in (found[:n_terms], found[n_terms:])
    )
    return scale, shift


def _of_what(episode: Episode) -> str:
    if episode.recording:
        return "one recording"
    return "one place" if episode.one_place else "two places"


def _middle(conditions: Array, weights: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each condition: the pull is the same on all of them."""
    centre = np.average(conditions, axis=0, weights=weights)
    unit = np.sqrt(np.average((conditions - centre) ** 2, axis=0, weights=weights))
    # A condition that never changes teaches nothing and is left alone.
    return centre, np.where(unit > LEAST_UNIT, unit, 1.0)


def uncentred(form: PldaForm, centre: Array, unit: Array) -> PldaForm:
    """The form of e whose value is that of `form` at (e - centre) / unit."""
    cross, auto = (matrix / np.outer(unit, unit) for matrix in (form.cross, form.auto))
    linear = form.linear / unit
    through = (cross + auto) @ centre
    offset = form.offset + 2.0 * centre @ through - 2.0 * linear @ centre
    return PldaForm(cross, auto, linear - 2.0 * through, float(offset))


def trial_weights(episode: Episode, prior: float) -> Array:
    """Of an episode's trials, both kinds together as much as the episode."""
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
    scale, shift = (form_values(form, episode.enroll, episode.test) for form in forms)
    llrs: Array = scale * episode.scores + shift
    return llrs


def form_values(form: PldaForm, one: Array, other: Array) -> Array:
    """A form of each pair of rows."""
    own = [np.einsum("ij,jk,ik->i", x, form.auto, x) + x @ form.linear for x in (one, other)]
    cross = 2.0 * np.einsum("ij,jk,ik->i", one, form.cross, other)
    values: Array = cross + own[0] + own[1] + form.offset
    return values
