"""A contest by turns: who wins, what stays, and that it says so."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from training_world import draw

from dcaplda.train.auto import families, questions
from dcaplda.train.auto.contest import QUICK, WHOLE, contest
from dcaplda.train.auto.paired import Difference
from dcaplda.train.auto.questions import Question, step_counts
from dcaplda.train.auto.resolve import judged_by_sets, resolve
from dcaplda.train.auto.turns import model_without, score_turns, turns_of
from dcaplda.train.contests import KEPT, config_text, hold_contest
from dcaplda.train.recipe.files import config_from_dict, load_recipe
from dcaplda.train.steps.unwatched import lengths_are_met

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def plan_of(data, *settings: str):
    parts = ("held_out.people=2", "held_out.domains=0")
    return resolve(load_recipe("", (*parts, *settings), auto=True), data, "data")


def held(plan, data):
    return contest(plan, data, CPU, lambda line: None)


def sizes(*values: int) -> Question:
    return Question("model.lda_dim", lambda config, facts: [{"model.lda_dim": n} for n in values])


@pytest.fixture(scope="module")
def data():
    return draw(0, domains=3, speakers=14, sessions=3).data()


def choice(outcome, setting: str):
    return next(own for own in outcome.choices if own.setting == setting)


def test_a_candidate_that_clearly_wins_is_taken(data, monkeypatch):
    """The rule is made to take 2 of 24 directions in which people differ."""
    monkeypatch.setattr(families, "MOST_LDA_DIM", 2)
    monkeypatch.setattr(questions, "FEW", [sizes(20)])
    plan = plan_of(data)
    assert plan.config.model.lda_dim == 2
    outcome = held(plan, data)
    assert outcome.config == replace(plan.config, model=replace(plan.config.model, lda_dim=20))
    assert [(m.how, m.beyond) for m in outcome.matches] == [(QUICK, True), (WHOLE, True)]
    won = choice(outcome, "model.lda_dim")
    assert won.value == 20
    assert "instead of 2: " in won.reason and "better" in won.reason and "+-" in won.reason
    assert outcome.changes(plan.choices) == [f"auto: model.lda_dim = 20 ({won.reason})"]
    # What judges the result is what whole models of the winner reached.
    fresh = score_turns(
        data, outcome.config, turns_of(data, plan.config.held_out), CPU, lambda line: None
    )
    for (_, ones), (_, twos) in zip(outcome.scored, fresh, strict=True):
        for one, two in zip(ones, twos, strict=True):
            np.testing.assert_array_equal(one.targets, two.targets)
            np.testing.assert_array_equal(one.nontargets, two.nontargets)


def test_where_only_noise_differs_the_rule_stays(monkeypatch):
    """Embeddings that know no speaker: how many directions LDA keeps is luck."""
    world = draw(3, domains=3, speakers=14, sessions=3)
    noise = np.random.default_rng(0).standard_normal(world.vectors.shape).astype(np.float32)
    data = replace(world, vectors=noise).data()
    monkeypatch.setattr(questions, "FEW", [sizes(23, 22)])
    plan = plan_of(data)
    outcome = held(plan, data)
    assert outcome.config == plan.config
    assert outcome.matches and not all(match.beyond for match in outcome.matches)
    assert "24 kept" in choice(outcome, "model.lda_dim").reason


def test_what_won_quickly_is_asked_again_and_may_fail(data, monkeypatch):
    """One direction of 24, which a lucky first look prefers."""
    from dcaplda.train.auto import contest as module

    lucky = iter([Difference(1.0, 0.1)])
    monkeypatch.setattr(
        module, "compare", lambda *pair, kept=module.compare: next(lucky, None) or kept(*pair)
    )
    monkeypatch.setattr(questions, "FEW", [sizes(1)])
    plan = plan_of(data)
    outcome = held(plan, data)
    assert [(m.how, m.beyond) for m in outcome.matches] == [(QUICK, True), (WHOLE, False)]
    assert outcome.config == plan.config
    reason = choice(outcome, "model.lda_dim").reason
    assert "24 kept: 1 was 1.000 +- 0.100 better at first sight, but with whole models" in reason


def test_only_what_is_auto_is_contested(data):
    asked = {question.setting for question in questions.FEW}
    fixed = [
        f"{key}={value}"
        for key, value in {
            "init.lda_shrinkage": 2.0,
            "init.shrinkage_between": 0.5,
            "init.shrinkage": 1.0,
            "model.lda_dim": 20,
            "init.shared_offset": 1.0,
            "model.variant": '"plda"',
        }.items()
    ]
    assert {line.split("=")[0] for line in fixed} == asked
    assert held(plan_of(data, *fixed), data).matches == []
    plan = plan_of(data, *fixed[1:])
    assert {match.setting for match in held(plan, data).matches} <= {"init.lda_shrinkage"}
    off = plan_of(data, "held_out.contest=false")
    outcome = held(off, data)
    assert (outcome.matches, outcome.config, outcome.choices) == ([], off.config, off.choices)
    # A recipe without "auto" has nothing to ask.
    plain = resolve(load_recipe("", ("held_out.people=2", "held_out.contest=true")), data, "data")
    assert held(plain, data).matches == []


def test_recordings_come_and_go_with_joint_models(data, monkeypatch):
    """42 people are too few for a joint model by the rule; a contest may make it one."""
    from dcaplda.train.auto import contest as module

    assert plan_of(data).config.model.variant == "plda"
    monkeypatch.setattr(questions, "FEW", questions.FEW[-1:])
    monkeypatch.setattr(module, "compare", lambda *pair: Difference(1.0, 0.1))
    won = held(plan_of(data), data)
    assert (won.config.model.joint, won.config.model.recordings) == (True, True)
    for setting in ("model.joint", "model.recordings"):
        assert (choice(won, setting).value, choice(won, setting).reason) == (
            True,
            "follows model.variant",
        )
    without = held(plan_of(data, "model.recordings=false"), data)
    assert (without.config.model.joint, without.config.model.recordings) == (True, False)
    # The other way round, and whoever asked for recordings is not asked about the variant.
    question, facts, free = questions.FEW[0], plan_of(data).facts, {"model.variant", "model.joint"}
    assert question.asked(won.config, facts, free) == []
    assert question.asked(won.config, facts, {*free, "model.recordings"}) == [
        {"model.variant": "plda", "model.joint": False, "model.recordings": False}
    ]


def test_models_that_only_judge_learn_nothing_of_recordings(data, monkeypatch):
    plan = plan_of(data, "model.variant=plda-dd", "model.joint=true")
    assert plan.config.model.recordings
    turn = turns_of(data, plan.config.held_out)[0]
    model, _ = model_without(data, plan.config, turn, CPU)
    assert model.config.joint and not model.config.recordings


def test_development_sets_that_choose_end_the_contest(data):
    plan = judged_by_sets(plan_of(data))
    assert not plan.config.held_out.contest
    assert held(plan, data).matches == []


def test_the_contest_is_kept_and_the_same_twice(data, tmp_path, monkeypatch):
    monkeypatch.setattr(families, "MOST_LDA_DIM", 2)
    monkeypatch.setattr(questions, "FEW", questions.FEW[3:4] + [sizes(14)])
    plan = plan_of(data)
    first = hold_contest(plan, data, tmp_path, CPU, 1, lambda line: None)
    kept = (tmp_path / KEPT).read_bytes()
    assert first.matches
    (tmp_path / "again").mkdir()
    hold_contest(plan, data, tmp_path / "again", CPU, 1, lambda line: None)
    assert (tmp_path / "again" / KEPT).read_bytes() == kept

    def never(*arguments):
        raise AssertionError("held twice")

    with monkeypatch.context() as patched:
        patched.setattr("dcaplda.train.contests.contest", never)
        known = hold_contest(plan, data, tmp_path, CPU, 1, lambda line: None)
        assert (known.config, known.choices, known.matches) == (
            first.config,
            first.choices,
            first.matches,
        )
        with pytest.raises(AssertionError, match="held twice"):
            hold_contest(plan, data, tmp_path, CPU, 2, lambda line: None)
    for damage in (b"", b"[]", b"{}", kept[: len(kept) // 2]):
        (tmp_path / KEPT).write_bytes(damage)
        found = hold_contest(plan, data, tmp_path, CPU, 1, lambda line: None)
        assert found.config == first.config
        assert (tmp_path / KEPT).read_bytes() == kept
    text = config_text(first)
    assert config_from_dict(tomllib.loads(text), "config.toml") == first.config
    assert f"# {first.matches[0].line()}\n" in text
    assert json.loads(kept)["matches"] == first.table()


def test_steps_are_chosen_among_those_met_on_the_way(data, monkeypatch):
    """The best that is beyond its error, else the rule; nothing where the recipe has the number."""
    monkeypatch.setitem(families.MANY, "stage2.steps", 10)
    monkeypatch.setattr(families, "STAGE1_STEPS", 100)
    monkeypatch.setattr(questions, "MANY", [])
    few = ("model.variant=d-plda-dd", "batch.size=24", "init.em_iterations=5")
    plan = plan_of(data, *few, "held_out.contest=true")
    assert (plan.config.stage1.steps, plan.config.stage2.steps) == (100, 10)
    assert lengths_are_met(plan.config)
    outcome = held(plan, data)
    assert (
        [m.value for m in outcome.matches]
        == ["20", "60", "160"]
        == [str(n) for n in step_counts(plan.config, longer=True)]
    )
    best = max(outcome.matches, key=lambda match: (match.beyond, match.better))
    expected = int(best.value) if best.beyond else 100
    assert outcome.config.stage1.steps == expected == choice(outcome, "stage1.steps").value
    fresh = score_turns(
        data, outcome.config, turns_of(data, plan.config.held_out), CPU, lambda line: None
    )
    for (_, ones), (_, twos) in zip(outcome.scored, fresh, strict=True):
        for one, two in zip(ones, twos, strict=True):
            np.testing.assert_array_equal(one.targets, two.targets)
    fixed = plan_of(data, *few, "stage1.steps=12")
    assert held(fixed, data).matches == []


def test_near_the_border_both_ways_are_tried(data, monkeypatch):
    monkeypatch.setitem(families.MANY, "stage2.steps", 10)
    monkeypatch.setattr(families, "STAGE1_STEPS", 100)
    monkeypatch.setattr(families, "BORDER", (10, 100))
    monkeypatch.setattr(questions, "FEW", [])
    monkeypatch.setattr(questions, "MANY", [])
    plan = plan_of(data, "batch.size=24")
    outcome = held(plan, data)
    match = outcome.matches[0]
    assert (match.setting, match.how) == ("model.variant", WHOLE)
    assert {match.value, match.against} == {plan.config.model.variant, "d-plda-dsd"}
    stepping = outcome.config.stage1.steps > 0
    assert stepping == match.beyond
    assert "+-" in choice(outcome, "model.variant").reason
    monkeypatch.setattr(families, "BORDER", (100, 200))
    assert held(plan, data).matches == []
