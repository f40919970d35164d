"""Steps of a joint scorer: the same scores as the closed form, and better ones afterwards."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from training_world import draw, write_data_dir

from dcaplda.runtime.errors import ModelError
from dcaplda.train.data.folds import Part, speaker_parts
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.plda.generative import fit_generative
from dcaplda.train.recipe.sections import (
    InitSection,
    ModelSection,
    ObjectiveSection,
    TrainingConfig,
)
from dcaplda.train.start import joint
from dcaplda.train.start.conditions import duration_features
from dcaplda.train.start.joint_steps import (
    Blocks,
    JointTrials,
    block_loss,
    improved,
    learn,
    start_calibration,
)
from dcaplda.train.start.values import build_model, find_start

pytestmark = pytest.mark.torch
INIT = InitSection(domain_offsets=True, shared_offset=0.5, em_iterations=0, joint_rate=3e-3)
MODEL = ModelSection(variant="d-plda-dd", lda_dim=10, duration_feature="log", joint=True)


def config(steps: int) -> TrainingConfig:
    return TrainingConfig(model=MODEL, init=replace(INIT, joint_steps=steps))


@pytest.fixture(scope="module")
def data():
    return draw(3, speakers=30).data()


@pytest.fixture(scope="module")
def scorer(data):
    return joint.joint_scorer(fit_generative(data, INIT, 10, []), data, 0.1)


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("n_enroll", "n_test"), [(1, 1), (3, 1), (5, 2), (2, 3)])
def test_scores_are_the_closed_form(data, scorer, float64, n_enroll: int, n_test: int) -> None:
    """JointScorer, which scipy's densities check, within 1e-9; and the lengths it tells of."""
    features = duration_features(data, MODEL)
    model = JointTrials(scorer, features)
    rng = np.random.default_rng(0)
    sides = [rng.integers(0, len(data.ids), (6, n)) for n in (n_enroll, n_test)]
    found = []
    for side in sides:
        flat = data.embeddings[side.ravel()].astype(np.float64)
        vectors = torch.from_numpy(flat).view(*side.shape, -1)
        found.append(model.side(vectors, torch.from_numpy(features[side])))
        lengths = scorer.lengths(flat).reshape(*side.shape, 2).mean(axis=1)
        told = found[-1][1].detach().numpy()
        np.testing.assert_allclose(told[:, 1:3], lengths, atol=1e-9)
        np.testing.assert_allclose(told[:, 3], np.log(side.shape[1]), atol=1e-6)
    scores = model.scores(found[0][0], n_enroll, found[1][0], n_test).detach().numpy()
    means = [
        scorer.projected(data.embeddings[s.ravel()]).reshape(*s.shape, -1).mean(1) for s in sides
    ]
    np.testing.assert_allclose(
        scores, scorer.scores(means[0], n_enroll, means[1], n_test), rtol=1e-9, atol=1e-9
    )


def test_loss_is_the_cross_entropy_of_the_paper() -> None:
    """Eq. 14 written out, at prior 0.1; trials that are neither do not count."""
    llrs = torch.tensor([[2.0, -1.0], [0.5, 9.0]], dtype=torch.float64)
    kinds = torch.tensor([[1, 0], [0, 2]])
    odds = 0.1 / 0.9
    posterior = [1 / (1 + 1 / (odds * np.exp(x))) for x in (2.0, -1.0, 0.5)]
    expected = -0.1 * np.log(posterior[0]) - 0.9 * np.mean(np.log1p(-np.array(posterior[1:])))
    assert float(block_loss(llrs, kinds, 0.1)) == pytest.approx(expected, abs=1e-12)


def test_steps_lower_the_cost_of_other_people() -> None:
    """Of the same domains, one to ten utterances against one to four, by a fifteenth at least."""
    data, others = draw(3, speakers=40).data(), draw(8, speakers=20).data()
    scorer = joint.joint_scorer(fit_generative(data, INIT, 10, []), data)
    features = duration_features(data, MODEL)
    model = JointTrials(scorer, features)
    blocks = Blocks(model, data, features)
    start_calibration(blocks, 0.5)

    def cost() -> float:
        judged = Blocks(model, others, duration_features(others, MODEL))
        with torch.no_grad():
            return float(torch.stack([judged.loss(0.5) for _ in range(40)]).mean())

    before = cost()
    learn(blocks, replace(config(60), objective=ObjectiveSection(prior=0.5)))
    assert cost() < 14 / 15 * before


def test_no_step_is_the_start_and_equal_runs_are_equal(data, scorer) -> None:
    features = duration_features(data, MODEL)
    assert improved(scorer, data, features, config(0)) is scorer
    one, other = (improved(scorer, data, features, config(3)).arrays() for _ in range(2))
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])
    assert np.abs(one["turn"] - scorer.turn).max() > 1e-6
    np.testing.assert_array_equal(one["prior_offset"], one["offset"])


def test_steps_that_break_down_are_told(data, scorer) -> None:
    wild = replace(config(5), init=replace(INIT, joint_steps=5, joint_rate=1e30))
    with pytest.raises(ModelError, match="joint step 2: the loss is .* lower init.joint_rate"):
        improved(scorer, data, duration_features(data, MODEL), wild)


def test_who_is_held_out_takes_no_part_in_steps(data) -> None:
    """The scorer without a part is the same whatever the part's vectors are."""
    part = speaker_parts(data, 3)[0]
    other = replace(data, embeddings=data.embeddings.copy())
    other.embeddings[part.rows] = np.random.default_rng(2).standard_normal(
        (len(part.rows), data.embeddings.shape[1])
    )
    one, two, none = (
        joint.scorer_without(d, Part(part.name, part.rows, part.others), config(steps))[1]
        for d, steps in ((data, 4), (other, 4), (data, 0))
    )
    for name, values in one.arrays().items():
        np.testing.assert_array_equal(values, two.arrays()[name])
    assert np.abs(one.weight - none.weight).max() > 1e-6


def test_the_model_has_what_the_steps_found(data) -> None:
    """LDA too, which the start alone does not know."""
    start = find_start(data, config(4))
    shape = ModelConfig(embedding_dim=24, **vars(MODEL))
    model = build_model(start, shape, INIT, 0)
    assert start.joint is not None
    weight = model.preprocess.weight.detach().numpy()
    np.testing.assert_allclose(weight, start.joint.weight, atol=1e-6)
    assert np.abs(weight - start.generative.lda.first(10)[0]).max() > 1e-6


RECIPE = """
[model]
variant = "{variant}"
lda_dim = 10
duration_feature = "log"
joint = {joint}
[init]
balance = "even"
classes = "identity"
domain_offsets = {joint}
em_iterations = 0
calibration_folds = 2
calibration_domains = 0.5
calibration_rounds = 4
joint_steps = {steps}
[stage1]
steps = 0
[stage2]
steps = 0
[stage3]
steps = 0
"""


def run(folder: Path, **values: object) -> int:
    from dcaplda.bin.train_backend import main

    (folder / "recipe.toml").write_text(RECIPE.format(**values))
    given = [str(folder / "train"), str(folder / "train/xvector.npz"), str(folder / "exp")]
    return main([f"--config={folder / 'recipe.toml'}", "--threads=1", *given])


def test_train_backend_makes_the_steps_and_a_bundle(tmp_path: Path, capsys) -> None:
    """Export compares its graphs with torch; the bundle is one for several utterances."""
    write_data_dir(tmp_path / "train", draw(3))
    assert run(tmp_path, variant="d-plda-dd", joint="true", steps=5) == 0
    said = capsys.readouterr().err
    assert "5 steps of the joint scorer" in said and "steps without fold 1, 2 of 5" in said
    manifest = json.loads((tmp_path / "exp/bundle/model.json").read_text())
    assert manifest["variant"] == "d-plda-dd"
    assert (tmp_path / "exp/bundle/joint.npz").exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"variant": "plda-dd", "joint": "true", "steps": 5}, "plda-dd keeps LDA and PLDA"),
        ({"variant": "d-plda-dd", "joint": "false", "steps": 5}, "set model.joint = true"),
        ({"variant": "d-plda-dd", "joint": "true", "steps": -1}, "init.joint_steps"),
    ],
)
def test_steps_that_cannot_be_made_are_told(values, said: str, tmp_path: Path, capsys) -> None:
    write_data_dir(tmp_path / "train", draw(3))
    assert run(tmp_path, **values) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "exp/bundle").exists()
