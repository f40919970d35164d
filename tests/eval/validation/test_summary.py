"""The sentences of a validation: each says one thing, and says the other when it should."""

import math
from dataclasses import replace

import pytest
from validation_parts import evidence, row

from dcaplda.eval.results import Part, Result
from dcaplda.eval.validation.summary import (
    direction,
    findings,
    quality,
    reach,
    size,
    too_often,
    what_was_done,
)
from dcaplda.eval.validation.tested import Coverage


def result(cllr=0.217, least=0.167, spans=None):
    values = {"eer": 4.0, "cllr_0.5": cllr, "min_cllr_pav_0.5": least}
    return Result("ours", "set", "", 5731, 14400, values, intervals=spans or {})


def test_what_was_done_counts_pairs_recordings_and_people():
    tested = Coverage(1252, 40, 40, None, None, None, None, None, ())
    assert what_was_done(result(), tested) == (
        "5,731 pairs of recordings of one person and 14,400 pairs of recordings of two different "
        "people were compared, made of 1,252 recordings of 40 people. Who spoke was known."
    )
    unknown = replace(tested, n_people=None)
    assert "made of 1,252 recordings. Who spoke" in what_was_done(result(), unknown)


def test_direction_says_how_often_and_how_strongly_it_was_wrong():
    said = direction(evidence()).replace("\u00a0", " ")
    assert said == (
        "The likelihood ratio was above 1 for 97.9 % of the pairs of one person, and below 1 for "
        "90.5 % of the pairs of two people. Strongly misleading values: 4 (1 in 250) of the pairs "
        "of two people had 100 or more, and none of the pairs of one person had 1/100 or less."
    )


def test_quality_without_interval_with_one_and_harmful():
    assert quality(result()) == (
        "On a scale on which 0 is perfect and 1 is no better than knowing nothing, the likelihood "
        "ratios reach 0.217 (Cllr). In the same order but with the best sizes they would reach "
        "0.167."
    )
    assert "would be expected to give between 0.161 and 0.291. In the same" in quality(
        result(spans={"cllr_0.5": (0.161, 0.291)})
    )
    assert "must not be used" not in quality(result(0.999))
    for cllr in (1.0, 3.2, math.inf):
        assert quality(result(cllr)).endswith(
            "That is worse than no evidence: they must not be used as they are."
        )
    assert "reach infinite (Cllr)" in quality(result(math.inf))


def test_quality_names_the_best_and_the_worst_kind_of_recording():
    def kind(name, value, n_target=30):
        return Part("domain", name, name, n_target, 500, {"cllr_0.5": value})

    kinds = (kind("mic", 0.31), kind("tel", 0.1), kind("few", 0.9, 29), kind("van", 0.2))
    other = Part("duration", "<4 s", "<4 s", 99, 99, {"cllr_0.5": 0.99})
    said = quality(replace(result(), parts=(*kinds, other)))
    assert said.endswith(
        "By kind of recording it goes from 0.100 (tel with tel) to 0.310 (mic with mic)."
    )
    assert "By kind" not in quality(replace(result(), parts=kinds[:1]))


@pytest.mark.parametrize(
    ("excess", "said"),
    [(0.28, "are too high by a factor of 2.0"), (-0.28, "are too low by a factor of 2.0"),
     (0.24, "are here too high, there too low, by a factor of 2.0"), (0.25, "are too high by")],
)  # fmt: skip
def test_size_tells_the_direction_if_there_is_one(excess, said):
    assert said in size(evidence(excess=excess))


def test_size_gives_devpav_with_its_interval():
    assert "(devPAV, 0.30 powers of ten)" in size(evidence())
    assert "(devPAV, 0.30 powers of ten, 0.20 to 0.41)" in size(
        evidence(devpav_interval=(0.2, 0.41))
    )
    assert "cannot tell whether" in size(evidence(devpav=math.nan, excess=math.nan))
    assert size(evidence(devpav=math.inf, excess=math.nan)).startswith("Infinite likelihood ratios")


def test_size_warns_of_strong_values_that_mislead_too_often():
    fine = size(evidence())
    assert fine.endswith("Strong misleading ones came up no more often than they may.")
    rows = (row(1.0, 900, 20), row(10.0, 101, 3), row(100.0, 40, 0), row(1000.0, 1, 0))
    assert size(evidence(misleading=rows)).endswith(
        "Misleading likelihood ratios of 10 and 100 or more came up more often than they may: the "
        "strong ones are too strong."
    )


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (row(1.0, 999, 999), False),  # there is no limit for LRs above 1
        (row(100.0, 10, 0), False),  # exactly 1 in 100 may be
        (row(100.0, 11, 0), True),
        (row(100.0, 0, 11), True),
        (row(1000.0, 1, 0, total=500), False),  # a single pair is chance
        (row(1000.0, 2, 0, total=500), True),
        (row(100.0, 50, 0, spans=((0.009, 0.1), None)), False),  # other people might be fine
        (row(100.0, 50, 0, spans=((0.011, 0.1), None)), True),
    ],
)
def test_too_often_is_beyond_the_limit_beyond_chance_and_more_than_once(found, wanted):
    assert too_often(found) is wanted


def test_reach_names_the_range_and_what_lies_outside():
    assert reach(evidence()) == (
        "A test of this size supports likelihood ratios from 1/240 to 1,300 (ELUB). Of the 2,000 "
        "values of this test 5 are lower and 11 are higher. In a case such a value should be "
        "reported as 1/240 or 1,300, not as it comes out of the formula."
    )
    assert reach(evidence(n_outside=(0, 0))).endswith("All values of this test lie in that range.")
    assert "higher" in reach(evidence(n_outside=(0, 1)))
    assert reach(evidence(bounds=(0.0, 0.0))) == (
        "This test supports no likelihood ratio but 1: it does not show that they help."
    )


def test_findings_are_four_questions_with_these_answers():
    found = findings(result(), evidence())
    assert [question for question, _ in found] == [
        "Do they point the right way?",
        "How good are they?",
        "Do they have the right size?",
        "How far can they be relied on?",
    ]
    seen = evidence()
    answers = [direction(seen), quality(result()), size(seen), reach(seen)]
    assert [answer for _, answer in found] == answers
