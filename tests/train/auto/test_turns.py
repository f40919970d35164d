"""Parts held out in turn: who is in them, what trials they make, what the correction does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_world import SMALL_RECIPE, copies, draw

from dcaplda.eval.metrics.scalars import cllr
from dcaplda.train.auto.parts import Turn, score_part, training_rows, turns_of
from dcaplda.train.auto.turns import correct, take_turns
from dcaplda.train.auto.verdict import verdict
from dcaplda.train.data.folds import Part
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import VARIANTS, ModelConfig
from dcaplda.train.recipe.files import config_from_dict, load_recipe
from dcaplda.train.recipe.sections import HeldOutSection
from dcaplda.train.start.values import build_model, find_start

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def small(**held_out):
    import tomllib

    values = tomllib.loads(SMALL_RECIPE)
    values["model"]["variant"] = "plda-dd"
    for number in (1, 2, 3):
        values[f"stage{number}"]["steps"] = 0
    values["held_out"] = held_out
    return config_from_dict(values, "small")


@pytest.fixture(scope="module")
def data():
    return copies(draw(0, domains=4, speakers=8), np.full(24, 0.3)).data()


def test_every_person_and_every_group_is_held_out_once(data):
    turns = turns_of(data, HeldOutSection(people=3, domains=3))
    assert [turn.kind for turn in turns] == ["people"] * 3 + ["domain"] * 3
    for kind in ("people", "domain"):
        rows = np.concatenate([turn.part.rows for turn in turns if turn.kind == kind])
        assert sorted(rows.tolist()) == list(range(len(data.ids)))
    for turn in turns:
        inside, outside = (
            set(data.identity[r].tolist()) for r in (turn.part.rows, turn.part.others)
        )
        assert not inside & outside
        assert len(turn.part.rows) + len(turn.part.others) == len(data.ids)
        if turn.kind == "domain":
            assert not set(data.domain[turn.part.rows]) & set(data.domain[turn.part.others])
    # Four groups in three parts: two share one; dom0 is there with its copy.
    groups = [len(np.unique(data.domain_group[np.unique(data.domain[t.part.rows])])) for t in turns]
    assert sorted(groups[3:]) == [1, 1, 2]


def test_trials_of_a_part_are_pairs_of_one_domain_and_two_sessions(data):
    class Pairs:
        """In place of a model: tells which rows met."""

        def __call__(self, x, xs, y, ys):
            return x[:, :1].double() * 1e6 + y[:, 0].double()

    numbered = replace(
        data,
        embeddings=np.repeat(np.arange(len(data.ids), dtype=np.float32)[:, None], 24, axis=1),
    )
    rows = np.flatnonzero(data.identity % 2 == 0)
    found = score_part(Pairs(), numbered, rows, CPU)
    assert [trials.domain for trials in found] == data.domain_names
    for trials in found:
        for values, target in ((trials.targets, True), (trials.nontargets, False)):
            one, other = (a.astype(int) for a in np.divmod(values, 1e6))
            assert set(one) | set(other) <= set(rows)
            assert ((data.identity[one] == data.identity[other]) == target).all()
            assert (data.session[one] != data.session[other]).all()
            assert (data.domain[one] == data.domain[other]).all()
            assert len({frozenset(p) for p in zip(one, other, strict=True)}) == len(one)


def test_balanced_batches_leave_out_domains_of_one_speaker(data):
    lonely = data.identity[data.domain == 0]
    others = np.flatnonzero((data.domain != 0) | (data.identity == lonely[0]))
    assert 0 in data.domain[training_rows(data, others, balanced=False)]
    assert 0 not in data.domain[training_rows(data, others, balanced=True)]


def test_figures_are_those_of_a_model_trained_without_the_part(data):
    config = small(people=2)
    result = take_turns(data, config, CPU, lambda text: None)
    turn = turns_of(data, config.held_out)[1]
    others = data.subset(turn.part.others)
    shape = ModelConfig(embedding_dim=24, **vars(config.model))
    model = build_model(find_start(others, config), shape, config.init, 0)
    expected = [
        cllr(t.targets, t.nontargets, 0.5) for t in score_part(model, data, turn.part.rows, CPU)
    ]
    assert result.parts[1]["cllr"] == pytest.approx(np.mean(expected), rel=1e-12)
    assert result.to_dict()["cllr"] == pytest.approx(
        np.mean([part["cllr"] for part in result.parts])
    )
    assert all(part["min_cllr"] <= part["cllr"] + 1e-9 for part in result.parts)


def test_the_correction_is_found_on_the_domains_and_undoes_a_wrong_scale(data):
    """The calibration of one fold is spoilt for all: the parts must ask for its inverse."""
    from dcaplda.train.auto.parts import DomainTrials
    from dcaplda.train.auto.turns import find_correction

    rng = np.random.default_rng(0)
    # LLRs of N(+-m, 2m): calibrated as they are.
    tar, non = rng.normal(4, np.sqrt(8), 4000), rng.normal(-4, np.sqrt(8), 40000)
    part = Part("x", np.array([0]), np.array([1]))
    good = DomainTrials("a", tar, non)
    spoilt = DomainTrials("b", 2.0 * tar + 1.0, 2.0 * non + 1.0)
    scored = [(Turn(part, "people"), [good]), (Turn(part, "domain"), [spoilt])]
    scale, shift = find_correction(scored, 0.1)
    assert scale == pytest.approx(0.5, abs=0.03)
    assert shift == pytest.approx(-0.5, abs=0.15)
    scale, shift = find_correction(scored[:1], 0.1)
    assert (scale, shift) == (pytest.approx(1.0, abs=0.05), pytest.approx(0.0, abs=0.15))


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_the_correction_maps_every_llr(variant: str):
    torch.manual_seed(1)
    model = Backend(
        ModelConfig(embedding_dim=6, lda_dim=4, side_hidden_dim=2, side_info_dim=2, variant=variant)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
        x, seconds = torch.randn(5, 6), torch.rand(5) * 30 + 1
        before = model(x, seconds, x, seconds)
        correct(model, (0.7, -1.3))
        torch.testing.assert_close(
            model(x, seconds, x, seconds), 0.7 * before - 1.3, rtol=1e-4, atol=1e-4
        )


def test_verdicts_say_how_good_and_what_is_not_known():
    def part(kind, actual, minimum, targets=1000):
        return {"name": "p", "kind": kind, "cllr": actual, "min_cllr": minimum, "targets": targets}

    assert "Good: held-out Cllr 0.210" in verdict([part("people", 0.21, 0.2)])
    assert "new domains cost is not known" in verdict([part("people", 0.21, 0.2)])
    words = verdict([part("people", 0.21, 0.2), part("domain", 0.6, 0.3)])
    assert "With care: held-out Cllr 0.600 (minimum 0.300) on new domains; 50 %" in words
    assert "not known" not in words
    assert "Not usable" in verdict([part("people", 1.2, 0.9)])
    assert "rough" in verdict([part("people", 0.2, 0.2, targets=20)])
    assert load_recipe("").held_out == HeldOutSection()
