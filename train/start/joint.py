"""The start as a model of place, speaker and sample on independent axes (runtime/joint)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.joint.layout import COUNT_AT
from dcaplda.runtime.joint.place import difference_scores
from dcaplda.runtime.joint.scorer import LENGTHS, JointScorer, quadratic_basis
from dcaplda.train.data.folds import Part, domain_parts, speaker_parts
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.picked import row_chunks
from dcaplda.train.plda.covariances import Array, class_sums
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.plda.generative import Generative, fit_generative
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.start.conditions import duration_features, expected_loss, fit_conditions
from dcaplda.train.start.ease import told_ease, usual_ease
from dcaplda.train.start.episodes import Episode, Source, episodes_of_part
from dcaplda.train.start.joint_steps import improved
from dcaplda.train.start.own_scores import own_scores
from dcaplda.train.start.recordings import fit_recordings, recordings_of_part
from dcaplda.train.start.trained_places import trained_places

FOLDS = 5
STRANGERS = 0.01
"""Share of pairs of strangers that may count as one speaker where people are counted."""
SAMPLE = 500
REACH = 2.0
"""Standard deviations of an embedding's length from the usual that calibration is told of; beyond,
a form of the second degree would say what nobody has seen."""
MORE = 3
"""Times the recipe's rounds that a place held out has episodes, where people held out beside it
have fewer by as much: places are few, and what is drawn of them decides most. Another draw then
moves Cllr of single trials of corpora left out by 0.001, and not by 0.006."""
# A direction without any variance of places would be known for sure, which nothing is.
LEAST_OFFSET = 1e-3


Say = Callable[[str], None]


def silent(line: str) -> None:
    """For those who do not wait for the steps."""


def joint_scorer(
    generative: Generative, data: TrainingData, correlation: float = 0.0
) -> JointScorer:
    """Axes on which within = 1 and between is diagonal; of the offsets only the diagonal is kept.

    Three covariances cannot all be diagonal. What the offsets have beside the diagonal hardly
    matters for the score (egs/recordings/RESULTS.md), and without it a speaker of any number of
    utterances is one vector.
    """
    from scipy.linalg import eigh

    plda = generative.plda
    between, vectors = eigh(plda.between, plda.within)
    order = np.argsort(between)[::-1]
    turn = vectors[:, order].T
    # An eigenvector's sign is arbitrary; equal data give equal models.
    largest = np.abs(turn).argmax(axis=1)
    turn = turn * np.sign(turn[np.arange(len(turn)), largest])[:, None]
    between = np.maximum(between[order], 1e-6)
    if generative.shared is None:
        raise InputError("several utterances and places (joint) need init.domain_offsets = true")
    offset = np.einsum("ij,jk,ik->i", turn, generative.shared, turn)
    offset = np.maximum(offset, LEAST_OFFSET * between)
    weight, bias = generative.lda.first(generative.lda_dim)
    scorer = JointScorer(
        weight=np.ascontiguousarray(weight, np.float64),
        bias=np.ascontiguousarray(bias, np.float64),
        turn=turn,
        centre=turn @ plda.mean,
        between=between,
        offset=offset,
        correlation=correlation,
        embedding_mean=place_mean(data),
        quadratics=quadratic_basis(between, offset),
        prior_offset=offset,
        same_score=0.0,
        length=1.0,
        usual=np.zeros(LENGTHS),
        reach=np.full(LENGTHS, np.inf),
    )
    chunks = row_chunks(len(data.ids))
    squares = [(scorer.centred(data.embeddings[rows]) ** 2).sum(axis=1) for rows in chunks]
    length = float(np.sqrt(np.concatenate(squares).mean()))
    return measured(replace(scorer, length=length), data)


def measured(scorer: JointScorer, data: TrainingData) -> JointScorer:
    """The scorer with what these data tell: usual lengths, scores of strangers, their places."""
    free = replace(scorer, usual=np.zeros(LENGTHS), reach=np.full(LENGTHS, np.inf))
    chunks = row_chunks(len(data.ids))
    lengths = np.concatenate([free.lengths(data.embeddings[rows]) for rows in chunks])
    return replace(
        scorer,
        same_score=strangers_limit(scorer, data),
        usual=lengths.mean(axis=0),
        reach=REACH * lengths.std(axis=0),
        trained=trained_places(scorer, data),
    )


def fit_scorer(generative: Generative, data: TrainingData, config: TrainingConfig) -> JointScorer:
    """The joint scorer of the start, and where the recipe asks for steps, after them."""
    scorer = joint_scorer(generative, data, config.init.sample_correlation)
    if not config.init.joint_steps:
        return scorer
    return measured(improved(scorer, data, duration_features(data, config.model), config), data)


def strangers_limit(scorer: JointScorer, data: TrainingData) -> float:
    """Score that a pair of strangers of one domain passes in STRANGERS of all cases."""
    rng = np.random.default_rng(0)
    found = []
    for domain in range(len(data.domain_names)):
        rows = np.flatnonzero(data.domain == domain)
        rows = rng.choice(rows, min(len(rows), SAMPLE), replace=False)
        scores = difference_scores(scorer.between, scorer.centred(data.embeddings[rows]))
        people = data.identity[rows]
        strangers = people[:, None] != people[None, :]
        if strangers.any():
            found.append(float(np.quantile(scores[strangers], 1.0 - STRANGERS)))
    return float(np.mean(found)) if found else 0.0


def place_mean(data: TrainingData) -> Array:
    """Mean embedding of the places: groups of domains count once, and so do domains in them."""
    n_domains, groups = len(data.domain_names), data.domain_group
    counts = np.bincount(data.domain, minlength=n_domains)
    means = class_sums(data.embeddings, data.domain, n_domains) / counts[:, None]
    of_groups = class_sums(means, groups, int(groups.max()) + 1) / np.bincount(groups)[:, None]
    mean: Array = of_groups.mean(axis=0)
    return mean


@dataclass(frozen=True)
class JointStart:
    """The scorer of all data, and scale and shift as forms of the conditions."""

    scorer: JointScorer
    same: tuple[PldaForm, PldaForm]
    """Of trials of one place."""
    across: tuple[PldaForm, PldaForm]
    """Of trials between two; those of one place where no people were heard at two."""
    within: tuple[PldaForm, PldaForm] | None = None
    """Of utterances of one recording, where the recipe asks for it."""
    places: dict[str, float] | None = None
    """What to expect of a new place, see `expected_loss`."""


def find_joint_start(
    generative: Generative,
    data: TrainingData,
    config: TrainingConfig,
    notes: list[str],
    say: Say = silent,
) -> JointStart:
    """Everything of a joint model's start; `say` hears how far its steps are."""
    if config.init.joint_steps:
        say(f"{config.init.joint_steps} steps of the joint scorer with everybody")
    scorer = fit_scorer(generative, data, config)
    prior = config.init.calibration_prior or config.objective.prior
    episodes = list(calibration_episodes(data, config, say))
    ease = usual_ease(e for e in episodes if not e.recording)
    episodes = [told_ease(episode, *ease) for episode in episodes]
    scorer = replace(
        scorer, usual_ease=ease[0], reach_ease=ease[1], told_count=most_counted(episodes)
    )
    if not any(episode.one_place for episode in episodes):
        raise InputError(
            "calibration of several utterances: no part of the people has target and nontarget "
            "trials; more people, or more sessions of each, are needed"
        )
    of_recordings = [e for e in episodes if e.recording]
    episodes = [e for e in episodes if not e.recording]
    same = fit_conditions([e for e in episodes if e.one_place], prior, notes)
    within = None
    if config.model.recordings:
        within = fit_recordings(of_recordings, prior, notes) or same
    expected = expected_loss([e for e in episodes if e.one_place and e.unseen], same)
    between, across = [e for e in episodes if not e.one_place], same
    if between:
        across = fit_conditions(between, prior, notes)
    else:
        notes.append(
            "nobody was recorded at two places (domains that share people): trials between places "
            "are calibrated as those of one"
        )
    assert scorer.trained is not None, "training knows its own places"
    own = own_scores(episodes, same, across, len(scorer.trained.own), prior)
    scorer = replace(scorer, trained=scorer.trained._replace(own=own))
    return JointStart(scorer, same, across, within, expected)


def most_counted(episodes: Iterable[Episode]) -> float:
    """Utterances of the largest side that calibration sees."""
    logs = [side[:, COUNT_AT].max() for e in episodes for side in (e.enroll, e.test)]
    return float(np.exp(max(logs, default=0.0)))


def calibration_episodes(
    data: TrainingData, config: TrainingConfig, say: Say = silent
) -> Iterator[Episode]:
    """Episodes of people held out, and of whole groups of domains held out, in turn."""
    features = duration_features(data, config.model)
    source = Source(data, features, config.init.calibration_apart)
    share = config.init.calibration_domains
    folds = config.init.calibration_folds or FOLDS
    plans: list[tuple[Part, bool, float]] = []
    if share < 1:
        plans += [(part, False, (1.0 - share) / folds) for part in speaker_parts(data, folds)]
    if share > 0:
        plans += [(part, True, share) for part in domain_parts(data)]
    # One generator for all: what is drawn depends on the data and the recipe alone.
    # Recordings have one of their own, so that they change nothing of the others.
    rng, of_recordings = np.random.default_rng(0), np.random.default_rng(1)
    for number, (part, whole, weight) in enumerate(plans, 1):
        if config.init.joint_steps:
            say(f"steps without {part.name}, {number} of {len(plans)} that calibrate")
        _, held_out = scorer_without(data, part, config)
        rounds = config.init.calibration_rounds
        drawn = rounds * MORE if whole else rounds if share == 0 else -(-rounds // MORE)
        yield from episodes_of_part(source, part, held_out, whole, weight, drawn, rng)
        if config.model.recordings:
            yield from recordings_of_part(source, part, held_out, weight, rounds, of_recordings)


def scorer_without(
    data: TrainingData, part: Part, config: TrainingConfig
) -> tuple[Generative, JointScorer]:
    """LDA, PLDA and the joint scorer of everybody but the part."""
    others = data.subset(part.others)
    fitted = fit_generative(others, config.init, config.model.lda_dim, [])
    return fitted, fit_scorer(fitted, others, config)
