"""The report of a place on pools drawn from a known model, and the verdict by its limits."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from dcaplda.runtime.bundle.manifest import ModelInfo
from dcaplda.runtime.errors import BundleError, InputError
from dcaplda.runtime.familiarity import Range
from dcaplda.runtime.joint.mixture import Cut, Mixture, find_mixture, two_means
from dcaplda.runtime.joint.scorer import JointScorer, quadratic_basis
from dcaplda.runtime.surveys.place import (
    ADAPT,
    AVOID,
    COLLECT,
    NOTHING,
    Miscalibration,
    PlaceReport,
    Spread,
    describe_place,
    far_offset,
    offset_of,
    rows,
    text,
    verdict,
)

RANK = 40


@pytest.fixture(scope="module")
def scorer() -> JointScorer:
    """Speakers of variance 2 on the first axes and 0.5 on the last, places of 1.5 and 0.5."""
    between, offset = np.linspace(2.0, 0.5, RANK), np.linspace(1.5, 0.5, RANK)
    nothing = np.zeros(RANK)
    return JointScorer(
        weight=np.eye(RANK),
        bias=nothing,
        turn=np.eye(RANK) * 10.0,
        centre=nothing,
        between=between,
        offset=offset,
        correlation=0.0,
        embedding_mean=nothing,
        quadratics=quadratic_basis(between, offset),
        prior_offset=offset,
        same_score=3.0,
        length=10.0,
        usual=np.zeros(2),
        reach=np.ones(2),
    )


def draw(scorer: JointScorer, rng, people: int, each: int, offset: float = 1.0) -> np.ndarray:
    """x of a place of the model, whose offset is so many times a usual one."""
    place = offset * rng.standard_normal(RANK) * np.sqrt(scorer.prior_offset)
    voices = rng.standard_normal((people, RANK)) * np.sqrt(scorer.between)
    count = people * each
    return place + np.repeat(voices, each, axis=0) + rng.standard_normal((count, RANK))


def share_of_several(pools: list[np.ndarray], scorer: JointScorer) -> float:
    found = [find_mixture(scorer, pool) for pool in pools]
    return float(np.mean([m is not None and m.chance <= 0.05 for m in found]))


@pytest.mark.parametrize(("people", "each"), [(30, 1), (10, 3), (5, 6)])
def test_one_place_is_called_one_and_two_are_called_several(scorer, people: int, each: int) -> None:
    """By construction about one in twenty is called several; 20 pools give at most 5 or so."""
    rng = np.random.default_rng(people)
    one = [draw(scorer, rng, people, each) for _ in range(20)]
    assert share_of_several(one, scorer) <= 0.25
    two = [
        np.concatenate([draw(scorer, rng, people // 2, each), draw(scorer, rng, people // 2, each)])
        for _ in range(20)
    ]
    assert share_of_several(two, scorer) >= 0.9


def test_the_same_pool_gives_the_same_answer(scorer) -> None:
    pool = draw(scorer, np.random.default_rng(3), 25, 1)
    assert find_mixture(scorer, pool) == find_mixture(scorer, pool)
    assert find_mixture(scorer, pool[:19]) is None
    large = draw(scorer, np.random.default_rng(3), 400, 1)
    assert find_mixture(scorer, large) == find_mixture(scorer, large)


def test_two_means_finds_two_heaps() -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((40, 6))
    z[:12] += 8.0
    side = two_means(z)
    assert set(side[:12]) != set(side[12:]) and len(set(side[:12])) == len(set(side[12:])) == 1
    two_means(np.zeros((5, 3)))  # nothing to part, and no end without one


@pytest.mark.parametrize("length", [0.5, 1.0, 2.0])
def test_the_offset_is_in_units_of_the_prior(scorer, length: float) -> None:
    """Of 200 people the noise is small: the mean over 50 places is the length within 5 %."""
    rng = np.random.default_rng(4)
    found = [offset_of(scorer, draw(scorer, rng, 200, 1, length), 200.0) for _ in range(50)]
    assert np.mean(found) == pytest.approx(length, rel=0.05)


@pytest.mark.parametrize("rank", [20, 100, 300])
def test_too_far_is_what_one_place_in_a_thousand_exceeds(rank: int) -> None:
    assert far_offset(rank) == pytest.approx(np.sqrt(chi2.ppf(0.999, rank) / rank), rel=2e-3)


USUAL = PlaceReport(
    utterances=30,
    people=12.0,
    known=0.8,
    offset=0.9,
    far=1.22,
    scatter=0.9,
    lengths=Spread(5.0, 6.0, 7.0, Range(4.0, 8.0), 0.0),
    durations=None,
    mixture=Mixture(Cut(1.0, 0.5, (0.6, 0.4)), 0.98, 0.6),
    miscalibration=None,
)
TWO = Mixture(Cut(2.0, 1.0, (0.6, 0.4)), 1.5, 0.0)


@pytest.mark.parametrize(
    ("change", "action", "says"),
    [
        ({}, ADAPT, "80 % of its offset known"),
        ({"offset": 0.3}, NOTHING, "near the middle"),
        ({"offset": 1.5}, AVOID, "train with data like it"),
        ({"scatter": 2.0}, AVOID, "scatter 2.0 times"),
        ({"lengths": Spread(50, 60, 70, Range(4, 8), 1.0)}, AVOID, "is the extractor the one"),
        ({"mixture": TWO}, COLLECT, "60 and 40 %"),
        ({"known": 0.3, "utterances": 3, "mixture": None}, COLLECT, "3 utterances tell 30 %"),
        ({"people": 1.2}, COLLECT, "seem to be of one person"),
    ],
)
def test_the_verdict_follows_from_the_limits(change: dict, action: str, says: str) -> None:
    judged = verdict(replace(USUAL, **change))
    assert judged.action == action
    assert says in " ".join(judged.reasons)
    assert text(replace(USUAL, **change))[0] == judged.headline


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"durations": Spread(1, 2, 3, Range(2, 9), 0.3)}, "30 % of the utterances last less or"),
        ({"lengths": Spread(5, 6, 9, Range(4, 8), 0.2)}, "20 % of the embeddings have a length"),
        ({"durations": Spread(1, 2, 3, Range(2, 9), 0.05)}, None),
        ({"durations": Spread(1, 2, 3, None, 0.0)}, None),
    ],
)
def test_what_lies_outside_of_training_is_said_with_the_verdict(change: dict, says) -> None:
    judged, usual = verdict(replace(USUAL, **change)), verdict(USUAL)
    assert (judged.action, judged.reasons[0]) == (usual.action, usual.reasons[0])
    if says is None:
        assert judged == usual
    else:
        assert len(judged.reasons) == 2 and says in judged.reasons[1]


def test_what_to_expect_depends_on_how_much_was_heard() -> None:
    told = Miscalibration(0.3, 0.1, few=0.2)
    for utterances, after, heard in ((29, "20 %", "fewer than 30"), (30, "10 %", "30 or more")):
        shown = rows(replace(USUAL, miscalibration=told, utterances=utterances))[-1]
        assert shown.value == f"30 % before, {after} after"
        assert f"after {heard} utterances" in shown.meaning


def test_what_is_not_known_is_said() -> None:
    told = {row.name: row for row in rows(replace(USUAL, mixture=None))}
    assert told["miscalibration at new places"].value == "not known"
    assert told["durations"].value == "not given"
    assert told["places"].value == "cannot be told"
    assert told["people who return"].value == "cannot be told"
    told = {row.name: row for row in rows(replace(USUAL, ease=-1.234))}
    assert told["people who return"].value == "-1.2"


def info(places: object = None, familiar: dict | None = None) -> ModelInfo:
    manifest = {"training": {"places": places}, "familiarity": familiar, "voiceprint_dim": 9}
    fields = dict.fromkeys(ModelInfo.__dataclass_fields__)
    made = object.__new__(ModelInfo)
    for name, value in {**fields, "embedding_dim": RANK, "manifest": manifest}.items():
        object.__setattr__(made, name, value)
    return made


def test_lengths_and_durations_are_compared_with_training(scorer) -> None:
    pool = np.random.default_rng(5).standard_normal((10, RANK))
    pool *= np.r_[np.full(8, 5.0), 1.0, 9.0][:, None] / np.linalg.norm(pool, axis=1)[:, None]
    familiar = {"norm": {"min": 4.0, "max": 6.0}, "seconds": {"min": 2.0, "max": 20.0}}
    found = describe_place(scorer, info(familiar=familiar), pool, np.array([1.0, 3.0, 5.0, 30.0]))
    assert found.lengths.outside == pytest.approx(0.2)
    assert (found.lengths.least, found.lengths.most) == pytest.approx((1.0, 9.0))
    assert found.durations is not None and found.durations.outside == pytest.approx(0.5)
    assert found.durations.median == pytest.approx(4.0)
    bare = describe_place(scorer, info(), pool)
    assert bare.lengths.trained is None and bare.lengths.outside == 0.0
    assert "not told by the bundle" in " ".join(text(bare))


ODD = {"before": 0.3, "after": 0.1, "few": "inf"}


def test_miscalibration_is_read_where_the_bundle_tells_it(scorer) -> None:
    pool = np.random.default_rng(5).standard_normal((10, RANK))
    told = describe_place(scorer, info({"before": 0.3, "after": 0.1}), pool)
    assert "30 % before, 10 % after" in " ".join(text(told))
    for wrong in (
        {"before": 0.3},
        {"before": "x", "after": 1},
        {"before": "nan", "after": 1},
        3,
        ODD,
    ):
        with pytest.raises(BundleError, match="training.places"):
            describe_place(scorer, info(wrong), pool)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_embeddings(scorer, bad: float) -> None:
    pool = np.ones((5, RANK))
    pool[2, 1] = bad
    with pytest.raises(InputError, match="row 2"):
        describe_place(scorer, info(), pool)
    with pytest.raises(InputError, match="the model takes 40"):
        describe_place(scorer, info(), np.ones((5, RANK + 1)))


@pytest.mark.torch
def test_the_tool_writes_page_and_text(tmp_path: Path, capsys) -> None:
    from joint_models import joint_bundle, place_pool
    from kaldi_files import write_scp

    from dcaplda.bin.adapt_backend import main

    pool = place_pool(25)
    table = write_scp(tmp_path, {f"u{i}": row for i, row in enumerate(pool)})
    (tmp_path / "utt2dur").write_text("".join(f"u{i} {i + 1}.5\n" for i in range(25)))
    bundle = joint_bundle(tmp_path / "bundle")
    page, words = tmp_path / "place.html", tmp_path / "place.txt"
    given = [str(bundle), f"scp:{table}", str(tmp_path / "adapted")]
    options = [f"--report={page}", f"--report-text={words}", f"--durations={tmp_path / 'utt2dur'}"]
    assert main([*options, *given]) == 0
    assert json.loads((tmp_path / "adapted" / "model.json").read_text())["adaptation"]
    lines = words.read_text().splitlines()
    assert "durations: 1.5 to 25.5 s" in words.read_text()
    err = capsys.readouterr().err
    assert all(line in err for line in lines) and lines[0] in page.read_text()
    (tmp_path / "other").write_text("nobody 3.0\n")
    assert main([f"--report={page}", f"--durations={tmp_path / 'other'}", *given]) == 1
    assert "25 of 25 utterances have no duration, the first is 'u0'" in capsys.readouterr().err


@pytest.mark.torch
def test_one_voice_is_described_though_it_cannot_be_adapted_with(tmp_path: Path, capsys) -> None:
    from joint_models import joint_bundle, place_pool
    from kaldi_files import write_scp

    from dcaplda.bin.adapt_backend import main

    one = place_pool(1)
    pool = {f"u{i}": (one[0] + 1e-4 * i).astype(np.float32) for i in range(8)}
    bundle, words = joint_bundle(tmp_path / "bundle"), tmp_path / "place.txt"
    given = [str(bundle), f"scp:{write_scp(tmp_path, pool)}", str(tmp_path / "adapted")]
    assert main([f"--report-text={words}", *given]) == 1
    assert "Collect more" in words.read_text()
    assert "seem to be of one person" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "adapted").exists()
