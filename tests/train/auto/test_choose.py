"""Facts of data, and what is chosen from them."""

from dataclasses import replace

import numpy as np
import pytest
from training_world import copies, draw

from dcaplda.runtime.errors import InputError
from dcaplda.train.auto import families
from dcaplda.train.auto.choose import choose, family
from dcaplda.train.auto.facts import Facts, count, refuse_nonsense
from dcaplda.train.auto.resolve import reading, resolve
from dcaplda.train.recipe.files import load_recipe

FACTS = Facts(
    people=192,
    domains=12,
    groups=7,
    largest_group=39,
    smallest_domain=12,
    utterances=7659,
    recordings=1587,
    in_sessions=192,
    dim=192,
    seconds=(0.7, 3.1, 45.0),
)
MANY = replace(
    FACTS, people=2834, domains=6, groups=6, largest_group=1426, dim=100, seconds=(4.0, 30.0, 240.0)
)


def auto(*settings: str):
    return load_recipe("", settings, auto=True)


def chosen(facts: Facts, *settings: str):
    return choose(auto(*settings), facts).config


def test_facts_are_counts():
    data = copies(draw(0, speakers=8), np.zeros(24)).data()
    facts = count(data)
    assert (facts.people, facts.domains, facts.groups, facts.dim) == (24, 4, 3, 24)
    assert facts.largest_group == 8
    assert facts.smallest_domain == 8
    assert facts.utterances == len(data.ids)
    assert facts.people_left == 16
    assert facts.in_sessions == 24
    least, middle, most = facts.seconds
    assert (least, most) == (data.seconds.min(), data.seconds.max())
    assert middle == np.median(data.seconds)


def test_few_people_get_the_recordings_way_without_steps():
    config = chosen(FACTS)
    assert (config.model.variant, config.model.joint) == ("plda-dd", True)
    assert [stage.steps for stage in config.stages] == [0, 0, 0]
    assert config.model.lda_dim == 192
    assert (config.init.lda_shrinkage, config.init.shrinkage) == (64.0, 3.0)
    assert config.init.calibration_domains == 0.5
    assert config.auto == ()


def test_people_in_sessions_are_those_that_can_be_told_apart_there():
    """Of three domains one has a single utterance of each session, one a single talker."""
    data = draw(0, domains=3, speakers=8, sessions=3, chunks=3).data()
    _, first = np.unique(np.stack([data.domain, data.session]), axis=1, return_index=True)
    talker = data.identity[data.domain == 1][0]
    alone = (data.domain == 0) | ((data.domain == 1) & (data.identity != talker))
    kept = np.sort(np.unique(np.concatenate([first, np.flatnonzero(~alone)])))
    assert count(data.subset(kept)).in_sessions == 8
    assert count(data.subset(np.sort(first))).in_sessions == 0


def test_sessions_of_several_utterances_give_recordings_a_calibration():
    def recordings(facts: Facts, *settings: str):
        found = choose(auto(*settings), facts)
        reasons = {c.setting: c.reason for c in found.choices}
        return found.config.model.recordings, reasons.get("model.recordings", "")

    few = replace(FACTS, in_sessions=families.IN_SESSIONS - 1)
    assert recordings(FACTS)[0]
    assert recordings(FACTS)[1].startswith("192 people have several utterances of one session")
    assert recordings(few) == (
        False,
        "29 people have several utterances of one session, fewer than 30",
    )
    assert not recordings(MANY)[0] and recordings(MANY, "model.joint=true")[0]
    for setting in ("model.recordings=false", "model.joint=false", 'model.variant="plda"'):
        assert not recordings(FACTS, setting)[0]
    assert recordings(few, "model.recordings=true")[0]


def test_many_people_get_joint_training_of_the_paper_s_proportions():
    config = chosen(MANY)
    assert (config.model.variant, config.model.joint) == ("d-plda-dsd", False)
    assert (config.model.lda_dim, config.model.side_hidden_dim) == (60, 40)
    assert config.stage1.steps > 0 and config.stage2.steps > 0
    assert config.averaging.average == "ema"
    assert config.init.subset == "one-per-recording"
    assert config.held_out.calibrate


def test_what_the_recipe_says_stays():
    config = chosen(FACTS, "model.lda_dim=17", "init.shrinkage=0.25", "held_out.people=0")
    assert (config.model.lda_dim, config.init.shrinkage, config.held_out.people) == (17, 0.25, 0)
    assert chosen(FACTS, "model.variant=d-plda-dd").stage1.steps > 0
    assert chosen(MANY, "model.joint=true").model.variant == "plda-dd"
    assert not chosen(MANY, *(f"stage{n}.steps=0" for n in (1, 2, 3))).model.variant.startswith(
        "d-"
    )


def test_without_parts_nothing_is_calibrated_by_them():
    config = chosen(MANY, "held_out.people=0", "held_out.domains=0")
    assert not config.held_out.calibrate


def test_every_choice_has_a_reason_and_a_value_that_is_used():
    for facts in (FACTS, MANY):
        resolved = choose(auto(), facts)
        assert {c.setting for c in resolved.choices} == set(auto().auto)
        for choice in resolved.choices:
            section, name = choice.setting.split(".")
            assert getattr(getattr(resolved.config, section), name) == choice.value
            assert choice.reason


def test_one_domain_takes_no_turns():
    config = chosen(replace(FACTS, people=20, domains=1, groups=1, largest_group=20))
    assert config.init.calibration_domains == 0.0
    assert config.held_out.domains == 0
    assert config.held_out.people >= 2
    assert config.init.calibration_folds >= 2


def test_joint_training_has_no_more_lda_rows_than_people_remain():
    facts = replace(MANY, people=500, largest_group=470)
    assert chosen(facts).model.lda_dim == 29


def test_too_few_people_to_choose_directions_keep_all_of_them():
    assert chosen(replace(FACTS, people=20)).model.lda_dim == 192
    assert chosen(replace(FACTS, people=20, dim=512)).model.lda_dim == families.MOST_LDA_DIM


def test_shrinkage_is_in_proportion_to_values_per_person():
    found = [chosen(replace(FACTS, people=people)).init for people in (20, 96, 192, 384)]
    assert [init.lda_shrinkage for init in found] == [64.0, 64.0, 64.0, 32.0]
    assert [init.shrinkage for init in found] == [9.6, 3.0, 3.0, 1.5]
    assert [init.shrinkage_between for init in found] == [1.0, 1.0, 1.0, 0.5]


def test_two_dozen_people_get_one_scale_and_shift():
    config = chosen(replace(FACTS, people=24, domains=1, groups=1, largest_group=24))
    assert (config.model.variant, config.model.joint) == ("plda", False)
    assert config.init.shared_offset == 0.0


def test_without_durations_no_stage_needs_them():
    assert chosen(replace(FACTS, seconds=None)).model.variant == "plda"
    assert not chosen(replace(FACTS, seconds=None)).model.joint
    assert chosen(replace(MANY, seconds=None)).model.variant == "d-plda-sd"


def test_a_domain_of_one_speaker_makes_flat_batches():
    assert chosen(replace(MANY, smallest_domain=1)).batch.balance == "flat"


def test_sizes_of_a_hundred_thousand_people_are_capped():
    facts = replace(
        MANY,
        people=100_000,
        domains=50,
        groups=50,
        utterances=2_000_000,
        recordings=400_000,
        dim=512,
    )
    config = chosen(facts)
    assert (config.model.lda_dim, config.model.side_hidden_dim) == (307, 205)
    assert config.batch.size <= families.MOST_BATCH
    assert config.batch.size % (2 * 50) == 0
    assert config.stage1.steps <= families.MOST_STEPS
    assert config.held_out.domains <= 6


def test_a_contest_is_held_where_it_can_tell_and_does_not_take_long():
    def contest(facts: Facts, *settings: str):
        found = choose(auto(*settings), facts)
        reason = next((c.reason for c in found.choices if c.setting == "held_out.contest"), "")
        return found.config.held_out.contest, reason

    assert contest(FACTS)[0] and contest(MANY)[0]
    held, reason = contest(replace(MANY, people=100_000, largest_group=5000))
    assert not held and "100000 need" in reason and "held_out.contest = true" in reason
    held, reason = contest(replace(FACTS, utterances=100_000))
    assert not held and "100000 utterances of 192 values" in reason
    assert contest(replace(MANY, people=100_000), "held_out.contest=true")[0]
    assert contest(FACTS, "held_out.people=0", "held_out.domains=0") == (
        False,
        "no parts are held out",
    )


def test_the_other_way_near_the_border_is_what_it_would_be_there():
    facts = replace(MANY, people=300, largest_group=100)
    few, many = choose(auto(), facts).config, choose(auto(), facts, many=True).config
    assert few.model.joint and not any(stage.steps for stage in few.stages)
    assert many.model.variant == "d-plda-dsd" and many.stage1.steps == 500
    assert family(auto(), facts)[2] and not family(auto("model.joint=true"), facts)[2]
    assert not family(auto("stage1.steps=10"), facts)[2]


def test_data_are_read_before_anything_is_chosen():
    section, needed = reading(auto())
    assert (section.missing_domains, section.missing_sessions, needed) == (
        "guessed",
        "guessed",
        False,
    )
    assert reading(auto("model.variant=plda-dd"))[1]
    assert not reading(auto("model.variant=plda"))[1]


def test_nonsense_is_one_line_that_says_what_is_missing():
    few = draw(0, domains=1, speakers=2).data()
    with pytest.raises(InputError, match="2 people with two sessions; at least 4"):
        refuse_nonsense(few, count(few), "data")
    data = draw(0).data()
    same = replace(data, embeddings=np.ones_like(data.embeddings))
    with pytest.raises(InputError, match="all 252 embeddings are the same"):
        resolve(auto(), same, "data")


def test_what_cannot_be_known_is_said():
    data = draw(0, domains=1, speakers=20).data()
    doubts = " ".join(resolve(auto(), data, "data").doubts)
    assert "20 people: every figure will be rough" in doubts
    assert "one domain" in doubts
    same = replace(data, seconds=np.full_like(data.seconds, 2.0))
    doubts = " ".join(resolve(auto(), same, "data").doubts)
    assert "all durations are 2 s: what shorter and longer utterances do" in doubts
    assert resolve(load_recipe(""), data, "data").choices == []
