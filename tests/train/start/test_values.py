"""Start values: the paper's three cases, and agreement with the authors' own initialization."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden import FULL, needs_full_golden, read_ark, read_columns
from scipy.linalg import subspace_angles
from training_world import DIM, draw

from dcaplda.train.data.batches import make_batch
from dcaplda.train.data.directory import load_training_data
from dcaplda.train.data.folds import speaker_folds
from dcaplda.train.model.config import VARIANTS, ModelConfig
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.plda.generative import fit_generative, form_scores
from dcaplda.train.recipe.files import load_recipe
from dcaplda.train.recipe.sections import InitSection, ModelSection
from dcaplda.train.start.calibration import calibration_batch
from dcaplda.train.start.values import build_model, find_start, too_wide

pytestmark = pytest.mark.torch
SMALL = ["model.lda_dim=10", "model.side_hidden_dim=8", "model.side_info_dim=3"]
SHAPE = {"embedding_dim": DIM, "lda_dim": 10, "side_hidden_dim": 8, "side_info_dim": 3}


@pytest.fixture(scope="module")
def data():
    return draw(2).data()


@pytest.fixture(scope="module")
def config():
    return load_recipe("", [*SMALL, "init.em_iterations=5"])


@pytest.fixture(scope="module")
def start(data, config):
    return find_start(data, config)


def llrs(model, data, rows) -> np.ndarray:
    x, seconds = torch.from_numpy(data.embeddings[rows]), torch.from_numpy(data.seconds[rows])
    with torch.no_grad():
        return model(x, seconds, x, seconds).double().numpy()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("side_init", ["last", "first", "random"])
def test_every_variant_starts_as_plda_with_global_calibration(
    data, start, variant: str, seed: int, side_init: str
):
    model = build_model(
        start, ModelConfig(variant=variant, **SHAPE), InitSection(side_init=side_init), seed
    )
    rows = np.arange(0, len(data.ids), 5)
    raw = start.generative.scores(data.embeddings[rows])
    expected = start.scale * raw + start.shift
    # float32 in the model: 1e-5 of the largest score.
    error = np.abs(llrs(model, data, rows) - expected).max()
    assert error <= 1e-5 * max(1.0, np.abs(expected).max())


def test_variants_agree_with_each_other_before_the_first_step(data, start):
    rows = np.arange(0, len(data.ids), 5)
    results = [
        llrs(build_model(start, ModelConfig(variant=v, **SHAPE), InitSection(), 7), data, rows)
        for v in VARIANTS
    ]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-5)


def test_only_calibration_of_frozen_variants_is_trainable(start):
    for variant, stages in VARIANTS.items():
        model = build_model(start, ModelConfig(variant=variant, **SHAPE), InitSection(), 0)
        for name, parameter in model.named_parameters():
            generative = name.startswith(("preprocess.", "plda."))
            assert parameter.requires_grad == (not (stages.frozen and generative)), name


def test_side_branch_starts_from_the_last_directions(start):
    lda = start.generative.lda
    for side_init, rows in (("last", lda.directions[-8:]), ("first", lda.directions[:8])):
        model = build_model(start, ModelConfig(**SHAPE), InitSection(side_init=side_init), 0)
        weight = model.side_projection.weight.detach().numpy()
        np.testing.assert_allclose(weight, rows, rtol=1e-6)


def test_reduction_is_normal_with_the_given_deviation(start):
    config = ModelConfig(**{**SHAPE, "side_info_dim": 200})
    model = build_model(start, config, InitSection(side_std=0.5), 3)
    weight = model.side_reduction.weight.detach().numpy()
    assert abs(weight.mean()) < 0.05
    assert weight.std() == pytest.approx(0.5, rel=0.05)
    assert not model.side_reduction.bias.any()
    other = build_model(start, config, InitSection(side_std=0.5), 4)
    assert not torch.equal(other.side_reduction.weight, model.side_reduction.weight)


def test_calibration_is_optimal_on_its_own_trials(data, config, start):
    """No other (alpha, beta) nearby has a lower cross-entropy over the calibration trials."""
    from dcaplda.eval.metrics.calibration import cross_entropy

    rows = calibration_batch(data, config.init, config.batch)
    batch = make_batch(data, rows, np.ones(3))
    target, nontarget, target_w, nontarget_w = [], [], [], []
    for block in batch.blocks:
        scores = start.generative.scores(data.embeddings[rows[block.start : block.stop]]).ravel()
        rest = np.setdiff1d(np.arange(scores.size), [*block.targets, *block.excluded])
        target.append(scores[block.targets])
        nontarget.append(scores[rest])
        target_w.append(np.full(len(block.targets), 1 / len(block.targets)))
        nontarget_w.append(np.full(len(rest), 1 / len(rest)))
    t, n, tw, nw = map(np.concatenate, (target, nontarget, target_w, nontarget_w))

    def loss(alpha: float, beta: float) -> float:
        return cross_entropy(
            alpha * t + beta, alpha * n + beta, 0.01, target_weights=tw, nontarget_weights=nw
        )

    best = loss(start.scale, start.shift)
    for d_alpha, d_beta in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
        assert loss(start.scale + d_alpha, start.shift + d_beta) > best


def test_folds_keep_a_person_together_and_spread_domains(data):
    folds = speaker_folds(data, 4)
    for domain in range(3):
        people = np.unique(data.identity[data.domain == domain])
        counts = np.bincount(folds[people], minlength=4)
        assert counts.max() - counts.min() <= 1


def test_cross_fitted_calibration_is_less_sure_of_itself(data, config):
    """Scores of unseen speakers are smaller, so the fitted scale must be smaller too."""
    plain = find_start(data, config)
    folded = find_start(data, replace(config, init=replace(config.init, calibration_folds=4)))
    assert folded.scale < plain.scale
    np.testing.assert_array_equal(
        folded.generative.form.cross, plain.generative.form.cross
    )  # folds touch nothing but the calibration


def test_shrinkage_widens_the_plda_covariances(data, config):
    plain = fit_generative(data, config.init, 10, [])
    section = replace(config.init, shrinkage=0.5, shrinkage_between=0.1)
    wide = fit_generative(data, section, 10, [])
    variance = np.trace(plain.plda.within) / 10
    np.testing.assert_allclose(
        wide.plda.within, plain.plda.within + 0.5 * variance * np.eye(10), rtol=1e-10, atol=1e-14
    )
    assert np.trace(wide.plda.between) == pytest.approx(1.1 * np.trace(plain.plda.between))


def test_one_chunk_per_recording_for_lda_and_plda(data, config):
    section = replace(config.init, subset="one-per-recording")
    found = fit_generative(data, section, 10, [])
    expected = fit_generative(data.subset(data.one_per_recording()), config.init, 10, [])
    np.testing.assert_array_equal(found.form.cross, expected.form.cross)


def test_more_dimensions_than_speakers_is_said_aloud_and_finite():
    data = draw(1, domains=1, speakers=6, sessions=4).data()
    settings = ["model.lda_dim=20", "init.em_iterations=5", "init.balance=flat"]
    start = find_start(data, load_recipe("", settings))
    assert any("only 5 directions can separate speakers" in note for note in start.notes)
    assert any("between-speaker covariance" in note for note in start.notes)
    assert np.isfinite(start.generative.form.cross).all()
    assert np.isfinite([start.scale, start.shift]).all()


def test_projections_wider_than_the_embeddings_are_found():
    both = ModelSection(lda_dim=300, side_hidden_dim=200)
    assert too_wide(both, 24) == {"model.lda_dim": 300, "model.side_hidden_dim": 200}
    assert too_wide(replace(both, lda_dim=24), 24) == {"model.side_hidden_dim": 200}
    assert too_wide(replace(both, lda_dim=24, variant="d-plda-dd"), 24) == {}


# -- the authors' own initialization ------------------------------------------------------------

GOLDEN = FULL / "reference-golden"
GOLDEN_SETTINGS = [
    "model.lda_dim=20",
    "model.side_hidden_dim=10",
    "model.side_info_dim=4",
    "init.em_iterations=20",
    "init.side_init=first",
]


@pytest.fixture(scope="module")
def golden():
    """Our start values from their training data, and their checkpoint."""
    from dcaplda.export.importers.dca_plda import import_checkpoint

    config = load_recipe("", [*GOLDEN_SETTINGS, f"data.scp_root={GOLDEN / 'train'}"])
    data = load_training_data(
        str(GOLDEN / "train"), f"scp:{GOLDEN / 'train' / 'xvector.scp'}", config.data
    )
    return find_start(data, config), import_checkpoint(GOLDEN / "init.pth")


def in_their_order(start) -> PldaForm:
    """Eq. 10 and 11 with the factors in the order that the authors' code has them.

    The paper has Lambda = 1/2 W Lambda~ W; the code computes 1/2 Lambda~ W W (Gamma likewise)
    and symmetrises. The two are equal only if W commutes with Lambda~.
    """
    within = np.linalg.inv(start.generative.plda.within)
    between = np.linalg.inv(start.generative.plda.between)
    pair, single = np.linalg.inv(between + 2 * within), np.linalg.inv(between + within)
    cross = 0.5 * pair @ within @ within
    auto = 0.5 * (pair - single) @ within @ within
    form = start.generative.form
    return PldaForm(0.5 * (cross + cross.T), 0.5 * (auto + auto.T), form.linear, form.offset)


def golden_trials(start, form: PldaForm) -> tuple[np.ndarray, np.ndarray]:
    """Our raw scores and their LLRs of seen0's trials."""
    ids, vectors = read_ark(GOLDEN / "seen0" / "xvector.ark")
    scores = form_scores(form, start.generative.projected(vectors))
    row = {name: i for i, name in enumerate(ids)}
    lines = read_columns(GOLDEN / "seen0" / "init.single.scores")
    ours = np.array([scores[row[enroll], row[test]] for enroll, test, _ in lines])
    return ours, np.array([float(llr) for *_, llr in lines])


@needs_full_golden
def test_lda_is_the_authors(golden):
    start, theirs = golden
    ours = start.generative.lda.first(20)[0]
    reference = theirs.preprocess.weight.detach().double().numpy()
    assert np.max(subspace_angles(ours.T, reference.T)) < 1e-5
    signs = np.sign((ours * reference).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(signs * ours, reference, atol=1e-6)
    bias = signs[:, 0] * start.generative.lda.first(20)[1]
    np.testing.assert_allclose(bias, theirs.preprocess.bias.detach().numpy(), atol=1e-6)


@needs_full_golden
def test_plda_scores_are_the_authors_in_their_order_of_factors(golden):
    start, theirs = golden
    scale, shift = (form.offset.item() for form in (theirs.scale_dur, theirs.shift_dur))
    ours, llrs_of_theirs = golden_trials(start, in_their_order(start))
    raw = (llrs_of_theirs - shift) / scale
    assert np.abs(ours - raw).max() <= 1e-3 * np.abs(raw).std()  # measured: 2e-6
    np.testing.assert_allclose(scale * ours + shift, llrs_of_theirs, atol=2e-3)


@needs_full_golden
def test_the_paper_s_order_differs_from_the_authors_by_a_few_percent(golden):
    """Ours is eq. 10 and 11, whose score is the true likelihood ratio (test_plda.py)."""
    start, theirs = golden
    scale, shift = (form.offset.item() for form in (theirs.scale_dur, theirs.shift_dur))
    ours, llrs_of_theirs = golden_trials(start, start.generative.form)
    raw = (llrs_of_theirs - shift) / scale
    error = np.sqrt(np.mean((ours - raw) ** 2) / np.mean(raw**2))
    assert 0.005 < error < 0.05
    assert np.corrcoef(ours, raw)[0, 1] > 0.999


@needs_full_golden
def test_calibration_is_near_the_authors(golden):
    """Their random trials cannot be drawn again; ours are nearly all trials there are."""
    start, theirs = golden
    assert start.scale == pytest.approx(theirs.scale_dur.offset.item(), abs=0.02)
    assert start.shift == pytest.approx(theirs.shift_dur.offset.item(), abs=0.05)
