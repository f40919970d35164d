"""The paragraph on a system over many sets, and which system is best, word for word."""

import math
from dataclasses import replace

import numpy as np
import pytest
from judged_results import result

from dcaplda.eval.verdict.costs import CARE, NO, YES
from dcaplda.eval.verdict.one_set import Judge, verdict
from dcaplda.eval.verdict.systems import answer, over_all_sets, system_verdict

GOOD, MIDDLING, BAD = (0.11, 0.1), (0.2, 0.1), (0.4, 0.1)


def sets(*losses, system="a", **more):
    return [result(system, f"set-{i}", half=half, **more) for i, half in enumerate(losses)]


def test_a_system_that_is_usable_everywhere():
    judged = system_verdict("a", sets(GOOD, GOOD, (0.14, 0.1), (0.12, 0.1)), Judge())
    assert judged.grade == YES
    assert judged.headline == "Usable on all 4 sets: decide at the Bayes threshold"
    assert judged.sentences == (
        "Of 4 sets a is usable on all; on average 0.020 at prior 0.5 and 0.000 at prior 0.01 is "
        "lost, 1 being the cost of deciding without the scores.",
        "Most is lost on set-2 (0.040 at prior 0.5), set-3 (0.020 at prior 0.5) and set-0 (0.010 "
        "at prior 0.5).",
        "No set needs a threshold of its own.",
    )


def test_a_system_that_fails_here_and_there():
    losses = [GOOD] * 5 + [MIDDLING, BAD, MIDDLING]
    judged = system_verdict("a", sets(*losses, affine=(0.5, -1.0)), Judge())
    assert judged.grade == CARE
    assert judged.headline == "Usable with care: as it is on 5 of 8 sets"
    assert judged.sentences == (
        "Of 8 sets a is usable on 5, usable with care on 2 and not usable on 1; on average 0.069 "
        "at prior 0.5 and 0.000 at prior 0.01 is lost, 1 being the cost of deciding without the "
        "scores.",
        "Most is lost on set-6 (0.300 at prior 0.5), set-5 (0.100 at prior 0.5) and set-7 (0.100 "
        "at prior 0.5).",
        "What is wrong on those 3 sets: LLRs too confident on 3 and LLRs too high on 3.",
    )


def test_the_mean_loss_has_its_interval():
    judged = system_verdict("a", sets(GOOD, MIDDLING, spread=0.01), Judge(confidence=0.9))
    assert (
        "on average 0.055 (0.046 to 0.064) at prior 0.5 and 0.000 (0.000 to 0.009)"
        in (judged.sentences[0])
    )


@pytest.mark.parametrize(
    ("losses", "grade", "headline"),
    [
        ([GOOD] * 9 + [MIDDLING], YES, "Usable: as it is on 9 of 10 sets"),
        # One set that is not usable keeps the whole from a plain yes.
        ([GOOD] * 19 + [BAD], CARE, "Usable with care: as it is on 19 of 20 sets"),
        ([MIDDLING] * 2, CARE, "Usable with care: as it is on 0 of 2 sets"),
        # On average more than the second limit is lost.
        ([GOOD, (0.9, 0.1)], NO, "Calibrate first: usable as it is on 1 of 2 sets"),
        ([(0.251, 0.1)] * 3, NO, "Calibrate first: usable as it is on 0 of 3 sets"),
    ],
)
def test_grade_and_headline_weigh_the_mean_and_the_worst(losses, grade, headline):
    judged = system_verdict("a", sets(*losses), Judge())
    assert (judged.grade, judged.headline) == (grade, headline)


def test_all_sets_not_usable_is_no_even_if_each_at_another_prior():
    found = [result("a", "x", half=(0.3, 0.1)), result("a", "y", rare=(0.5, 0.3))]
    (mean,) = over_all_sets(found, 0.95)
    assert verdict(mean, Judge()).grade == CARE  # 0.1 at either prior
    assert system_verdict("a", found, Judge()).grade == NO


def test_all_sets_usable_is_yes_even_where_draws_of_the_mean_are_not():
    found = sets(GOOD, GOOD, spread=0.01)
    for one, rows in zip(found, ((0, 1), (2, 3)), strict=True):
        one.replicates[rows, list(one.values).index("dcf_0.5")] = 9.0  # 2 draws of 101
    (mean,) = over_all_sets(found, 0.95)
    assert verdict(mean, Judge()).grade == CARE  # 4 draws of 101
    assert system_verdict("a", found, Judge()).grade == YES


@pytest.mark.parametrize("n_sets", [2, 3, 20, 71])
def test_three_sentences_whatever_the_number_of_sets(n_sets):
    losses = [(0.1 + 0.01 * i, 0.1) for i in range(n_sets)]
    judged = system_verdict("a", sets(*losses, affine=(0.5, 3.0), cllr=1.3), Judge())
    assert len(judged.sentences) == 3
    assert sum(judged.sentences[1].count(f"set-{i} ") for i in range(n_sets)) == min(n_sets - 1, 3)
    assert len(" ".join(judged.sentences)) < 600


def test_the_worst_are_named_by_grade_then_by_loss():
    found = sets(BAD, MIDDLING, GOOD, BAD)
    found[3] = result("a", "worst", rare=(0.9, 0.3))
    judged = system_verdict("a", found, Judge())
    assert judged.sentences[1] == (
        "Most is lost on worst (0.600 at prior 0.01), set-0 (0.300 at prior 0.5) and set-1 (0.100 "
        "at prior 0.5)."
    )


def test_sets_without_loss_are_not_named():
    judged = system_verdict("a", sets((0.1, 0.1), (0.1, 0.1)), Judge())
    assert judged.sentences[1] == "Nothing is lost on any set."
    judged = system_verdict("a", sets((0.1, 0.1), GOOD), Judge())
    assert judged.sentences[1] == "Most is lost on set-1 (0.010 at prior 0.5)."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"affine": (2.0, 0.0)}, "LLRs too timid on 1"),
        ({"affine": (1.0, 2.0)}, "LLRs too low on 1"),
        ({"affine": (-1.0, 2.0)}, "scores reversed on 1"),
        ({"half": (0.1, 0.1), "rare": (1.3, 0.99)}, "trials too hard for any threshold on 1"),
        ({"spread": 0.39}, "too few people or trials to tell on 1"),
    ],
)
def test_what_is_wrong_is_counted(changes, words):
    found = [result("a", "x", **{"half": (0.5, 0.1), **changes}), result("a", "y")]
    if "spread" in changes:
        found[1] = replace(found[1], replicates=np.tile(list(found[1].values.values()), (101, 1)))
    judged = system_verdict("a", found, Judge())
    assert judged.sentences[2] == f"What is wrong on that set: {words}."


def test_a_loss_without_a_known_cause_is_said_to_have_none():
    judged = system_verdict("a", sets(BAD, GOOD), Judge())
    assert judged.sentences[2] == "No single cause stands out on the other sets."


def test_the_commonest_three_causes_are_counted():
    found = sets(BAD, BAD, BAD, affine=(0.5, 0.0)) + sets(BAD, BAD, affine=(1.0, 1.0))
    found += sets(BAD, affine=(2.0, -1.0))
    named = [replace(one, set=f"s{i}") for i, one in enumerate(found)]
    judged = system_verdict("a", named, Judge())
    assert judged.sentences[2] == (
        "What is wrong on those 6 sets: LLRs too confident on 3, LLRs too low on 2 and LLRs too "
        "timid on 1."
    )


def test_other_systems_do_not_count_and_one_set_is_judged_as_such():
    mixed = sets(GOOD, GOOD) + sets(BAD, BAD, system="b")
    assert system_verdict("a", mixed, Judge()).grade == YES
    assert system_verdict("b", mixed, Judge()).grade == NO
    assert system_verdict("b", mixed[:3], Judge()) == verdict(mixed[2], Judge())


def test_the_mean_over_all_sets_is_plain():
    found = over_all_sets(sets((0.2, 0.1), (0.4, 0.1), (0.6, 0.4)), 0.95)
    assert len(found) == 1 and found[0].set == "all sets"
    assert found[0].values["dcf_0.5"] == pytest.approx(0.4)
    assert found[0].average_of == ("set-0", "set-1", "set-2")


def test_the_best_system_is_named_with_the_next():
    found = [result("a", cllr=0.3), result("b", cllr=0.2), result("c", cllr=0.25)]
    assert answer(found, Judge()) == (
        "Lowest Cllr: b at prior 0.5 (0.200, next c 0.250) and at prior 0.01 (0.200, next c 0.250)."
    )
    found += [replace(one, set="away") for one in found]
    assert answer(found, Judge()).startswith("Lowest mean Cllr over 2 sets: b at prior 0.5")


def test_each_prior_may_have_another_best():
    found = [result("a", cllr=0.3), result("b", cllr=0.2)]
    found[0].values["cllr_0.01"] = 0.1
    assert answer(found, Judge()) == (
        "Lowest Cllr: b at prior 0.5 (0.200, next a 0.300); a at prior 0.01 (0.100, next b 0.200)."
    )


def test_chance_is_judged_by_the_paired_interval():
    near = [result("a", cllr=0.3, spread=0.2), result("b", cllr=0.31, spread=0.2)]
    # The same draws for both: the difference does not vary.
    assert "(0.300, next b 0.310, beyond chance)" in answer(near, Judge())
    drawn = near[1].replicates.copy()
    drawn[:, list(near[1].values).index("cllr_0.5")] = np.linspace(0.2, 0.5, 101)[::-1]
    near[1] = replace(near[1], replicates=drawn)
    told = answer(near, Judge())
    assert "at prior 0.5 (0.300, next b 0.310, perhaps by chance)" in told
    assert "at prior 0.01 (0.300, next b 0.310, beyond chance)" in told


def test_references_do_not_compete():
    found = [result("a", cllr=0.3), result("b", cllr=0.2), result("truth", cllr=0.1)]
    told = answer(found, Judge(), {"truth"})
    assert told.startswith("Lowest Cllr: b at prior 0.5 (0.200, next a 0.300)")
    assert told.endswith("; truth, for reference, has 0.100 and 0.100.")
    assert answer(found[1:], Judge(), {"truth"}) == "" == answer(found[:1], Judge())


def test_an_infinite_cllr_is_never_the_best():
    found = [result("a", cllr=math.inf), result("b", cllr=5.0)]
    assert "b at prior 0.5 (5.000, next a infinite)" in answer(found, Judge())
