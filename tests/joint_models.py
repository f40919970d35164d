"""Small joint models with random weights, their bundles, and their LLRs written out by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from random_models import DIM, random_model
from scipy.stats import multivariate_normal

from dcaplda.export.bundle_writer import export_model
from dcaplda.export.graphs.algebra import compile_backend, joint_model_of
from dcaplda.runtime.joint.rows import JointModel, Sides
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.train.model.axes import AxisScore
from dcaplda.train.model.backend import Backend

CORRELATION = 0.1


def joint_torch_model(
    seed: int = 0,
    correlation: float = CORRELATION,
    variant: str = "plda-dd",
    recordings: bool = False,
    places: int = 0,
) -> Backend:
    """Every parameter matters; strangers rarely pass for one person, LLRs stay within 200."""
    shape = {"duration_feature": "log", "recordings": recordings, "trained_places": places}
    model = random_model(variant, seed, joint=True, **shape)
    generator = torch.Generator().manual_seed(seed + 1000)
    score = model.plda
    assert isinstance(score, AxisScore)
    with torch.no_grad():
        score.turn.mul_(2.0)
        score.centre.mul_(0.3)
        forms = [model.scale_dur, model.shift_dur, model.scale_across, model.shift_across]
        forms += [model.scale_within, model.shift_within] if recordings else []
        for form in forms:
            for part in (form.cross, form.auto, form.linear):
                part.mul_(0.2)
        score.correlation.fill_(correlation)
        score.same_score.fill_(3.0)
        score.embedding_mean.copy_(0.3 * torch.randn(DIM, generator=generator))
        score.length.fill_(2.0)
        score.usual.copy_(torch.tensor([1.5, 1.1]))
        score.reach.copy_(torch.tensor([0.2, 2.5]))
        score.usual_ease.fill_(-1.0)
        score.reach_ease.fill_(0.7)
        score.told_count.fill_(6.0)
    return model


def joint_model(seed: int = 0, correlation: float = CORRELATION) -> JointModel:
    model = joint_torch_model(seed, correlation)
    return joint_model_of(model, compile_backend(model))


def joint_bundle(
    directory: Path, seed: int = 0, recordings: bool = False, calibrated: bool = True
) -> Path:
    """Without calibration the LLR is the score: a random one may turn any order round."""
    model = joint_torch_model(seed, recordings=recordings)
    if not calibrated:
        with torch.no_grad():
            for form, offset in ((model.scale_dur, 1.0), (model.shift_dur, 0.0)):
                for part in (form.cross, form.auto, form.linear):
                    part.zero_()
                form.offset.fill_(offset)
    export_model(model, directory)
    return directory


def utterances(count: int, seed: int, people: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and seconds; of `people` that return, or each of somebody else."""
    rng = np.random.default_rng(seed)
    voices = rng.standard_normal((people or count, DIM))[np.arange(count) % (people or count)]
    noise = 0.0 if people is None else 0.05
    embeddings = voices + noise * rng.standard_normal((count, DIM))
    seconds = np.exp(rng.uniform(0.7, 5.0, count))
    return embeddings.astype(np.float32), seconds.astype(np.float32)


def place_pool(count: int, seed: int = 50) -> np.ndarray:
    """Utterances of strangers in a place of its own."""
    offset = np.random.default_rng(seed + 1).standard_normal(DIM)
    return utterances(count, seed)[0] + offset.astype(np.float32)


def open_to_all(scorer: JointScorer) -> JointScorer:
    """An adapted scorer for which every utterance sounds as if it were of its place."""
    return replace(scorer, edge=-1e3)


def closed_to_all(scorer: JointScorer) -> JointScorer:
    """One for which none does."""
    return replace(scorer, edge=1e3)


def single_sides(scorer: JointScorer, embeddings: np.ndarray, seconds: np.ndarray) -> Sides:
    """Utterances as sides of one each, in float64 and without any graph."""
    count = len(embeddings)
    features = np.log(seconds.astype(np.float64))
    ease, known = scorer.place_conditions(embeddings).T
    conditions = np.column_stack(
        [features, scorer.lengths(embeddings), ease, np.zeros(count), known]
    )
    return Sides(scorer.projected(embeddings), np.ones(count), np.ones(count), conditions)


def one_side(joint: JointModel, embeddings: np.ndarray, seconds: np.ndarray) -> Sides:
    """Utterances of one speaker as one side, in float64."""
    singles = single_sides(joint.scorer, embeddings, seconds)
    return joint.merged(singles, np.zeros(len(singles), np.int64), 1)


def density_llr(model: Backend, scorer: JointScorer, enroll: tuple, test: tuple) -> float:
    """LLR of two speakers' utterances from Gaussian densities of all values, then eq. 16.

    Of `scorer` only what a place changes is taken: bias, centre, offset variance, ease and `known`.
    """
    score = model.plda
    assert isinstance(score, AxisScore)
    n, m = len(enroll[0]), len(test[0])
    side = np.repeat([0, 1], [n, m])
    weight, turn = (p.detach().double().numpy() for p in (model.preprocess.weight, score.turn))
    embeddings = np.concatenate([enroll[0], test[0]]).astype(np.float64)
    w = embeddings @ weight.T + scorer.bias
    x = (w / np.sqrt((w**2).sum(axis=1, keepdims=True))) @ turn.T - scorer.centre
    x = float(score.length) * x / np.sqrt((x**2).sum(axis=1, keepdims=True))
    lengths = np.log([np.sqrt((values**2).sum(axis=1)) for values in (embeddings, w)]).T
    lengths -= score.usual.double().numpy()
    reach = score.reach.double().numpy()
    lengths = np.minimum(np.maximum(lengths, -reach), reach)
    between = np.exp(score.log_between.detach().double().numpy())
    correlation = float(score.correlation)
    same_side = side[:, None] == side[None, :]
    scores = 0.0
    for axis in range(x.shape[1]):
        logs = []
        for one_speaker in (True, False):
            covariance = np.full((n + m, n + m), scorer.offset[axis])
            covariance += between[axis] * (same_side | one_speaker)
            covariance += correlation * same_side + (1.0 - correlation) * np.eye(n + m)
            logs.append(multivariate_normal(np.zeros(n + m), covariance).logpdf(x[:, axis]))
        scores += logs[0] - logs[1]
    conditions = [
        torch.tensor(
            [
                [
                    np.log(seconds.astype(np.float64)).mean(),
                    *lengths[side == number].mean(axis=0),
                    scorer.ease,
                    np.log(len(seconds)),
                    scorer.known,
                ]
            ]
        )
        for number, seconds in enumerate((enroll[1], test[1]))
    ]
    frozen = model.double()
    assert frozen.scale_dur is not None and frozen.shift_dur is not None
    with torch.no_grad():
        alpha, beta = frozen.scale_dur(*conditions), frozen.shift_dur(*conditions)
    return float(alpha) * scores + float(beta)
