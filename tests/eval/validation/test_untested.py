"""What was not tested: each gap has its sentence, and no gap has none."""

import math
from dataclasses import replace

from validation_parts import evidence

from dcaplda.eval.results import Part, Result
from dcaplda.eval.validation.tested import Coverage
from dcaplda.eval.validation.untested import untested

TESTED = Coverage(
    120, 40, 40, (3, 3, 3), 80, (2, 2, 2), 0, ((0.8, 4, 30), (1.5, 4, 45)),
    (("mic", 40, 60), ("tel", 40, 60)),
)  # fmt: skip


def part(kind, enroll, test, n_target=100):
    return Part(kind, enroll, test, n_target, 500, None)


PARTS = tuple(
    part(kind, a, b)
    for kind, names in (("domain", ("mic", "tel")), ("duration", ("<4 s", "32+ s")))
    for a in names
    for b in names
)


def said(tested=TESTED, parts=PARTS, trained=(), seen=None):
    result = Result("ours", "set", "", 9, 9, {}, parts=parts)
    found = untested(result, tested, seen or evidence(), list(trained))
    return "\n".join(found).replace("\u00a0", " ")


def test_a_full_test_names_what_it_covers_and_what_no_file_tells():
    text = said()
    assert "Other people than these 40. What is true of fewer than about 3 in 40 people" in text
    assert "Recordings with less than 0.8 s or more than 45 s of speech." in text
    assert "Other kinds of recordings than mic and tel." in text
    assert "Likelihood ratios below 1/240 or above 1,300" in text
    assert "also used to make the system cannot be seen" in text
    assert "language, sex, age, health, kinship, disguise" in text
    for gap in ("not given", "Hardly tested", "never compared", "one occasion", "trained on"):
        assert gap not in text


def test_tables_that_are_missing_are_gaps():
    bare = replace(TESTED, n_people=None, same_session_targets=None, seconds=None, domains=())
    text = said(bare, ())
    for table in ("utt2spk", "utt2sess", "utt2dur", "utt2dom"):
        assert f"was not given ({table})" in text
    assert "Other kinds" not in text and "Recordings with less" not in text


def test_pairs_of_one_session_are_told():
    text = said(replace(TESTED, same_session_targets=7))
    assert "7 comparisons of a person with themselves had both recordings from one occasion" in text
    assert "1 comparison of a person" in said(replace(TESTED, same_session_targets=1))


def test_kinds_that_never_met_are_told_either_way_round():
    one_way = tuple(p for p in PARTS if (p.enroll, p.test) != ("tel", "mic"))
    assert "never compared" not in said(parts=one_way)
    apart = tuple(p for p in one_way if (p.enroll, p.test) != ("mic", "tel"))
    assert "These kinds were never compared with one another: mic with tel." in said(parts=apart)


def test_conditions_with_few_target_pairs_are_told():
    thin = (part("duration", "<4 s", "<4 s", 29), part("duration", "<4 s", "32+ s", 30))
    assert "Hardly tested, with fewer than 30 comparisons" in said(parts=(*PARTS, *thin))
    text = said(parts=(*PARTS, *thin))
    assert "themselves: under 4 s of speech." in text


def test_kinds_of_the_training_that_the_test_lacks_are_told():
    text = said(trained=("mic", "sat", "radio"))
    assert "trained on, but that this test does not have: sat and radio." in text
    assert "trained on" not in said(trained=("mic", "tel"))


def test_bounds_are_those_of_the_evidence():
    assert "below 1/10 or above 100" in said(seen=evidence(bounds=(-math.log(10), math.log(100))))
