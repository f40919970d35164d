"""Folds, calibration on held-out scores, and gradients at held-out starts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from training_world import DIM, copies, draw

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.batches import BatchWalker, make_batch
from dcaplda.train.data.folds import domain_parts, speaker_parts
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.model.quadratic import Quadratic
from dcaplda.train.plda.covariances import weighted_covariances
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.plda.generative import fit_generative, form_scores, projected
from dcaplda.train.plda.lda import fit_lda
from dcaplda.train.recipe.files import load_recipe
from dcaplda.train.start.calibration import (
    fit_duration_stage,
    fit_global,
    pair_terms,
    score_calibration_trials,
    terms_form,
)
from dcaplda.train.start.values import build_model, find_start
from dcaplda.train.steps.held_out import HeldOutWalker, aligned, at_held_out_start, find_held_out
from dcaplda.train.steps.objective import Optimizer

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")
SMALL = ["model.lda_dim=10", "model.side_hidden_dim=8", "model.side_info_dim=3"]
SMALL += ["init.em_iterations=5", "batch.size=48", "model.duration_feature=log"]
HELD_OUT = ["batch.held_out_folds=3", "batch.held_out_domains=true"]


@pytest.fixture(scope="module")
def data():
    return copies(draw(2), np.full(DIM, 0.5)).data()


def recipe(*settings: str):
    return load_recipe("", [*SMALL, *settings])


def test_no_person_is_in_a_part_and_among_its_others(data):
    for parts in (speaker_parts(data, 4), domain_parts(data)):
        held = np.concatenate([part.rows for part in parts])
        assert sorted(held) == list(range(len(data.ids)))
        for part in parts:
            assert not set(data.identity[part.rows]) & set(data.identity[part.others])


def test_one_domain_cannot_be_held_out():
    with pytest.raises(InputError, match="calibration_domains"):
        domain_parts(draw(2, domains=1).data())


def test_blocks_of_groups_have_trials_between_copies(data):
    rows = np.arange(len(data.ids))
    batch = make_batch(data, rows, np.ones(4), data.domain_group)
    assert len(batch.blocks) == 3
    block = batch.blocks[0]
    own = batch.rows[block.start : block.stop]
    assert set(data.domain[own]) == {0, 1}
    one, other = np.divmod(block.targets, block.size)
    assert np.any(data.domain[own[one]] != data.domain[own[other]])
    assert np.all(data.identity[own[one]] == data.identity[own[other]])
    assert np.all(data.session[own[one]] != data.session[own[other]])
    # A copy has its original's session: never a trial.
    one, other = np.divmod(block.excluded, block.size)
    assert np.any(data.domain[own[one]] != data.domain[own[other]])
    assert [b.weight for b in batch.blocks] == [0.5, 1.0, 1.0]


def test_terms_and_form_are_the_same_function():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 7, 3))
    values = rng.standard_normal(1 + 3 + 3 * 4)
    form = terms_form(values, 3)
    quadratic = Quadratic(3)
    with torch.no_grad():
        for name in PldaForm._fields:
            getattr(quadratic, name).copy_(torch.as_tensor(getattr(form, name)))
        found = quadratic(torch.tensor(a).float(), torch.tensor(b).float()).diagonal().numpy()
    np.testing.assert_allclose(found, pair_terms(a, b) @ values, rtol=1e-4, atol=1e-4)


def test_fitted_duration_stage_is_the_minimum_of_the_cross_entropy(data):
    config = recipe("init.calibration_speakers=40")
    generative = fit_generative(data, config.init, 10, [])
    trials = score_calibration_trials(generative, data, config)
    start = fit_global(trials, 0.1, [])
    scale, shift = fit_duration_stage(trials, data, config.model, 0.1, start, [])
    (target, target_pairs, tw), (other, other_pairs, ow) = (t.joined() for t in trials)
    seconds = np.log(data.seconds.astype(float))[:, None]

    def loss(flat: np.ndarray) -> float:
        forms = terms_form(flat[:4], 1), terms_form(flat[4:], 1)
        total = 0.0
        for scores, pairs, weights, prior, sign in (
            (target, target_pairs, tw, 0.1, -1.0),
            (other, other_pairs, ow, 0.9, 1.0),
        ):
            e1, e2 = seconds[pairs[:, 0], 0], seconds[pairs[:, 1], 0]
            a, b = (
                2 * f.cross[0, 0] * e1 * e2
                + f.auto[0, 0] * (e1**2 + e2**2)
                + f.linear[0] * (e1 + e2)
                + f.offset
                for f in forms
            )
            logits = a * scores + b + np.log(0.1 / 0.9)
            total += prior * np.average(np.logaddexp(0.0, sign * logits), weights=weights)
        return total

    def flat(form: PldaForm) -> list[float]:
        return [form.offset, form.linear[0], form.auto[0, 0], 2 * form.cross[0, 0]]

    found = np.array(flat(scale) + flat(shift))
    better = minimize(loss, found, method="Nelder-Mead", options={"maxiter": 3000}).fun
    assert loss(found) - better < 1e-5
    global_only = np.array([start[0], 0, 0, 0, start[1], 0, 0, 0])
    assert loss(found) < loss(global_only)


def test_thinned_blocks_keep_their_weight(data):
    config = recipe("init.calibration_speakers=40")
    trials = score_calibration_trials(fit_generative(data, config.init, 10, []), data, config)[1]
    thin = trials.thinned(100)
    for whole, part, weights, kept in zip(
        trials.scores, thin.scores, trials.weights, thin.weights, strict=True
    ):
        assert 50 <= part.size <= 100 and set(part) <= set(whole)
        assert kept.sum() == pytest.approx(weights.sum())


def test_fitted_start_is_what_the_model_computes(data):
    config = recipe("init.duration_start=fitted", "init.calibration_speakers=40")
    start = find_start(data, config)
    shape = {"embedding_dim": DIM, **vars(config.model)}
    model = build_model(start, ModelConfig(**shape), config.init, 0)
    vectors, seconds = torch.from_numpy(data.embeddings[:9]), torch.from_numpy(data.seconds[:9])
    with torch.no_grad():
        found = model(vectors, seconds, vectors, seconds).double().numpy()
    e = np.log(data.seconds[:9].astype(float))[:, None]
    assert start.duration_stage is not None
    a, b = (form_scores(form, e) for form in start.duration_stage)
    expected = a * start.generative.scores(data.embeddings[:9]) + b
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_calibration_trials_are_scored_without_their_people(data, share: float):
    config = recipe(f"init.calibration_domains={share}", "init.calibration_folds=3")
    full = fit_generative(data, config.init, 10, [])
    trials = score_calibration_trials(full, data, config)
    parts = domain_parts(data) if share else speaker_parts(data, 3)
    others = [fit_generative(data.subset(part.others), config.init, 10, []) for part in parts]
    for scores, pairs, _ in (kind.joined() for kind in trials):
        for number in range(0, len(scores), len(scores) // 20):
            pair = pairs[number]
            held = [i for i, part in enumerate(parts) if np.isin(pair, part.rows).all()]
            assert len(held) == 1
            expected = others[held[0]].scores(data.embeddings[pair])[0, 1]
            assert scores[number] == pytest.approx(expected, rel=1e-9)


def test_rotation_leaves_the_scores_alone(data):
    config = recipe()
    full = fit_generative(data, config.init, 10, [])
    part = speaker_parts(data, 3)[0]
    other = fit_generative(data.subset(part.others), config.init, 10, [])
    values = aligned(other, full)
    w = projected(data.embeddings, values["preprocess.weight"], values["preprocess.bias"])
    form = PldaForm(
        values["plda.cross"],
        values["plda.auto"],
        values["plda.linear"],
        float(values["plda.offset"]),
    )
    np.testing.assert_allclose(form_scores(form, w), other.scores(data.embeddings), atol=1e-8)
    near = np.linalg.norm(values["preprocess.weight"] - full.lda.first(10)[0])
    assert near <= np.linalg.norm(other.lda.first(10)[0] - full.lda.first(10)[0])


@pytest.fixture(scope="module")
def trainable(data):
    config = recipe(*HELD_OUT)
    start = find_start(data, config)
    model = build_model(start, ModelConfig(embedding_dim=DIM, **vars(config.model)), config.init, 0)
    return config, start, model, find_held_out(data, config, start.generative, CPU)


def test_model_of_a_part_scores_as_the_plda_without_it(data, trainable):
    config, start, model, held_out = trainable
    before = {name: value.clone() for name, value in model.named_parameters()}
    number = 1
    other = data.subset(held_out.parts[number].others)
    expected = fit_generative(other, config.init, 10, []).scores(data.embeddings[:8])
    with torch.no_grad(), at_held_out_start(model, held_out, number):
        w = model.projected(torch.from_numpy(data.embeddings[:8]))
        found = model.plda(w, w).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name])


def test_batches_have_people_of_their_part_only(data, trainable):
    config, _, _, held_out = trainable
    walker = HeldOutWalker(data, config.batch, 0, held_out.parts)
    seen = set()
    for _ in range(30):
        batch = walker.next_batch()
        seen.add(batch.part)
        assert set(batch.rows) <= set(held_out.parts[batch.part].rows)
        for block in batch.blocks:
            assert len(set(data.domain[batch.rows[block.start : block.stop]])) == 1
    assert len(seen) == len(held_out.parts) == 6


def test_walker_goes_on_where_it_was(data, trainable):
    config, _, _, held_out = trainable
    walker = HeldOutWalker(data, config.batch, 0, held_out.parts)
    walker.next_batch()
    state = {key: value.copy() for key, value in walker.state().items()}
    generator = walker.rng.bit_generator.state
    expected = [walker.next_batch().rows for _ in range(4)]
    other = HeldOutWalker(data, config.batch, 9, held_out.parts)
    other.restore(state, generator)
    for rows in expected:
        np.testing.assert_array_equal(other.next_batch().rows, rows)


def test_gradient_is_taken_at_the_held_out_start(data, trainable):
    config, start, model, held_out = trainable
    batch = HeldOutWalker(data, config.batch, 0, held_out.parts).next_batch()
    optimizer = Optimizer(model, data, config.objective, CPU, held_out)
    optimizer.set_rate(1e-12)
    found = optimizer.step(batch)[0]
    plain = Optimizer(model, data, config.objective, CPU)
    plain.set_rate(1e-12)
    with at_held_out_start(model, held_out, batch.part):
        expected = plain.step(replace(batch, part=None))[0]
    assert found == pytest.approx(expected, rel=1e-6)
    assert found != pytest.approx(plain.step(replace(batch, part=None))[0], rel=1e-3)


def test_l2_towards_the_start_does_not_pull_the_start(data):
    config = recipe("objective.l2_towards=start", "objective.l2=1000.0")
    start = find_start(data, config)
    model = build_model(start, ModelConfig(embedding_dim=DIM, **vars(config.model)), config.init, 0)
    batch = BatchWalker(data, config.batch, 0).next_batch()
    free = Optimizer(model, data, replace(config.objective, l2=0.0), CPU)
    pulled = Optimizer(model, data, replace(config.objective, l2_patterns={}), CPU)
    for optimizer in (free, pulled):
        optimizer.set_rate(0.0)
    assert pulled.step(batch)[1] == pytest.approx(free.step(batch)[1], rel=1e-6)
    with torch.no_grad():
        model.plda.linear += 1.0
    assert pulled.step(batch)[1] > 1000.0


def test_within_scale_gives_unit_within_variance(data):
    covariances = weighted_covariances(data.embeddings, data.speaker)
    rows = fit_lda(covariances, scale="within").directions
    np.testing.assert_allclose(rows @ covariances.within @ rows.T, np.eye(DIM), atol=1e-8)
