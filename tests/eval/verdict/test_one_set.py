"""Every sentence on one set, word for word, and what makes it be said."""

import math
from dataclasses import replace

import numpy as np
import pytest
from judged_results import result

from dcaplda.eval.metrics.measure import Settings
from dcaplda.eval.verdict.costs import CARE, NO, YES, Limits
from dcaplda.eval.verdict.one_set import Judge, listed, number, sentence, verdict

FULL = (
    "At a target prior of 0.01 deciding at the Bayes threshold (4.60) costs 0.330 and the best "
    "threshold would cost 0.300: 0.030 is lost (1 is the cost of deciding without the scores)."
)


def test_usable_scores_get_two_sentences_and_no_reproach():
    judged = verdict(result(half=(0.11, 0.1), rare=(0.33, 0.3)), Judge())
    assert judged.grade == YES
    assert judged.headline == "Usable: decide at the Bayes threshold"
    assert judged.sentences == (FULL, "At 0.5 (threshold 0.00) 0.010 is lost.")


def test_one_prior_needs_one_sentence():
    judge = Judge(Settings(priors=(0.01,)))
    assert verdict(result(rare=(0.33, 0.3)), judge).sentences == (FULL,)


def test_three_priors_are_three_sentences_at_most():
    values = result().values
    extra = {k.replace("0.01", "0.1"): v for k, v in values.items() if k.endswith("_0.01")}
    values |= extra | {"dcf_0.1": 0.9, "min_dcf_0.1": 0.2}
    judged = verdict(replace(result(), values=values), Judge(Settings(priors=(0.5, 0.1, 0.01))))
    assert judged.grade == NO and len(judged.sentences) == 2
    assert judged.sentences[0].startswith("At a target prior of 0.1 deciding")
    assert judged.sentences[1] == (
        "At 0.5 (threshold 0.00) 0.000 is lost and at 0.01 (threshold 4.60) 0.000 is lost."
    )


def test_the_threshold_is_that_of_the_costs():
    judge = Judge(Settings(priors=(0.5,), cost_miss=1.0, cost_fa=10.0))
    assert "Bayes threshold (2.30)" in verdict(result(), judge).sentences[0]


def test_the_interval_is_told_with_its_confidence():
    judged = verdict(result(half=(0.15, 0.1), rare=(0.32, 0.3), spread=0.01), Judge(confidence=0.9))
    assert judged.sentences[0] == (
        "At a target prior of 0.5 deciding at the Bayes threshold (0.00) costs 0.150 and the best "
        "threshold would cost 0.100: 0.050 is lost (90 % interval 0.041 to 0.059; 1 is the cost of "
        "deciding without the scores)."
    )
    assert judged.sentences[1] == "At 0.01 (threshold 4.60) 0.020 is lost (0.011 to 0.029)."
    assert judged.grade == YES


@pytest.mark.parametrize(
    ("rare", "grade", "headline"),
    [
        ((0.35, 0.3), YES, "Usable: decide at the Bayes threshold"),
        ((0.351, 0.3), CARE, "Usable with care"),
        ((0.45, 0.3), CARE, "Usable with care"),
        ((0.451, 0.3), NO, "Calibrate first: not usable as it is"),
        # What the old verdict called lost: 0.039 paid instead of 0.011.
        ((0.039, 0.011), YES, "Usable: decide at the Bayes threshold"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_the_worst_prior_decides(rare, grade, headline, turned):
    costs = {"half": rare, "rare": (0.1, 0.1)} if turned else {"half": (0.1, 0.1), "rare": rare}
    judged = verdict(result(**costs), Judge())
    assert (judged.grade, judged.headline) == (grade, headline)
    assert f"prior of {'0.5' if turned else '0.01'} deciding" in judged.sentences[0]


def test_a_worse_grade_comes_before_a_larger_loss():
    """Prior 0.5 loses more, but within a wide interval; prior 0.01 is surely not usable."""
    one = result(half=(0.4, 0.2), rare=(0.46, 0.3), spread=0.01)
    column = list(one.values).index("dcf_0.5")
    one.replicates[:, column] += np.linspace(-0.19, 0.19, 101)  # an interval down to no loss
    judged = verdict(one, Judge())
    assert judged.grade == NO and "prior of 0.01 deciding" in judged.sentences[0]


def test_limits_of_the_judge_are_used():
    lenient = Judge(limits=Limits(usable=0.3, care=0.6))
    losses = {0.3: YES, 0.301: CARE, 0.6: CARE, 0.601: NO}
    for lost, grade in losses.items():
        assert verdict(result(half=(0.1 + lost, 0.1)), lenient).grade == grade


@pytest.mark.parametrize(
    ("affine", "words"),
    [
        ((0.89, 0.0), "The LLRs are too confident (the best scale is 0.89)."),
        ((1.11, 0.0), "The LLRs are too timid (the best scale is 1.11)."),
        ((1.0, 0.31), "The LLRs are too low (the best shift is +0.31)."),
        ((1.0, -0.31), "The LLRs are too high (the best shift is -0.31)."),
        (
            (0.5, 2.0),
            "The LLRs are too confident (the best scale is 0.50) and too low (the best shift is "
            "+2.00).",
        ),
        ((0.0, 2.0), "Larger scores do not mean targets here: they are reversed or empty."),
        ((-1.0, -2.0), "Larger scores do not mean targets here: they are reversed or empty."),
    ],
)
def test_what_is_wrong_is_said_where_the_grade_is_not_yes(affine, words):
    assert verdict(result(half=(0.2, 0.1), affine=affine), Judge()).sentences[2] == words
    assert len(verdict(result(affine=affine), Judge()).sentences) == 2


@pytest.mark.parametrize("affine", [(0.9, 0.3), (1.1, -0.3)])
def test_nothing_is_said_to_be_wrong_within_the_usual(affine):
    assert len(verdict(result(half=(0.2, 0.1), affine=affine), Judge()).sentences) == 2


def test_the_repair_is_that_of_the_worst_prior():
    maps = {0.5: (2.0, 0.0), 0.01: (0.5, 0.0)}
    assert "too timid" in verdict(result(half=(0.2, 0.1), affine=maps), Judge()).sentences[2]
    assert "too confident" in verdict(result(rare=(0.5, 0.3), affine=maps), Judge()).sentences[2]


def test_trials_that_no_threshold_helps_are_no_plain_yes():
    judged = verdict(result(rare=(1.0, 0.981)), Judge())
    assert judged.grade == CARE and judged.sentences[2] == (
        "No threshold is of use there: the trials are too hard at this prior."
    )
    judged = verdict(result(rare=(1.0, 0.98)), Judge())
    assert judged.grade == CARE and judged.sentences[2] == ("The scores save nothing there.")
    judged = verdict(result(rare=(1.001, 0.98)), Judge())
    assert judged.grade == CARE and judged.sentences[2] == (
        "Deciding without the scores would be cheaper there."
    )
    assert verdict(result(rare=(0.9999, 0.99)), Judge()).grade == YES


def test_a_cllr_of_one_is_said_and_keeps_from_a_plain_yes():
    judged = verdict(result(cllr=1.0), Judge())
    assert judged.grade == CARE and judged.sentences[2] == (
        "As weights of evidence the scores are worse than none (Cllr 1.000)."
    )
    assert verdict(result(cllr=0.9999), Judge()).grade == YES
    assert "(Cllr infinite)" in verdict(result(cllr=math.inf), Judge()).sentences[2]


def test_a_wide_interval_is_said_to_settle_nothing():
    judged = verdict(result(half=(0.14, 0.1), spread=0.2), Judge())
    assert judged.grade == CARE and judged.sentences[2] == (
        "The interval is too wide to tell: more speakers would settle it."
    )
    judged = verdict(result(half=(0.5, 0.1), spread=0.39), Judge())
    assert judged.grade == CARE and "too wide to tell" in judged.sentences[2]
    judged = verdict(result(half=(0.5, 0.1), spread=0.01), Judge())
    assert judged.grade == NO and len(judged.sentences) == 2


@pytest.mark.parametrize(
    ("rare", "n_nontarget", "grade", "words"),
    [
        ((0.3, 0.3), 660, YES, ""),  # one false alarm costs 0.15
        ((0.3, 0.3), 659, CARE, "Too few trials to tell: one more or less costs 0.150."),
        ((0.5, 0.3), 661, NO, ""),  # 0.2 - 0.1498 is more than 0.05
        ((0.5, 0.3), 659, CARE, "Too few trials to tell: one more or less costs 0.150."),
        ((9.0, 0.3), 30, NO, ""),
    ],
)
def test_what_a_single_trial_could_turn_is_not_told_as_certain(rare, n_nontarget, grade, words):
    judged = verdict(replace(result(rare=rare), n_nontarget=n_nontarget), Judge())
    assert judged.grade == grade
    assert judged.sentences[2:] == ((words,) if words else judged.sentences[2:])
    assert bool(words) == any("Too few trials" in text for text in judged.sentences)


def test_intervals_take_the_place_of_single_trials():
    few = replace(result(rare=(0.31, 0.3), spread=0.001), n_nontarget=100)
    assert verdict(few, Judge()).grade == YES
    assert verdict(replace(few, replicates=None), Judge()).grade == CARE


def test_several_reasons_are_one_sentence():
    judged = verdict(result(half=(1.2, 0.5), cllr=1.5, affine=(0.2, -1.0)), Judge())
    assert judged.grade == NO and judged.sentences[2] == (
        "Deciding without the scores would be cheaper there; as weights of evidence the scores are "
        "worse than none (Cllr 1.500); the LLRs are too confident (the best scale is 0.20) and too "
        "high (the best shift is -1.00)."
    )


def test_words():
    assert [listed(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
    assert sentence("at 0.5 so") == "At 0.5 so." and number(0.12345) == "0.123"
    assert number(math.inf) == "infinite"
