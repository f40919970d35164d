"""From the summary and the log of a run to its page."""

import re
from pathlib import Path

import pytest

from dcaplda.train.page import training_page, write_page
from dcaplda.train.summary import where_selected

pytestmark = pytest.mark.torch
STATISTICS = {
    "durations": {"min": 2.04, "max": 53.96},
    "embedding_norm": {"mean": 8.0, "std": 1.0, "p0.05": 4.384, "p99.95": 11.936},
    "side_information": {"distance_percentiles": {"99.9": 2.84}},
}
SUMMARY = {
    "variant": "d-plda-dsd",
    "seed": 3,
    "steps": 40,
    "training_prior": 0.01,
    "speakers": 42,
    "domains": ["tel", "<mic>"],
    "utterances": 252,
    "dropped": {"utterances without a vector": 2, "speakers with one session": 0},
    "selected": {"stage": 2, "step": 5, "total": 25},
    "dev": [],
    "statistics": STATISTICS,
}


def part(name: str, cllr: float, minimum: float, kind: str = "domain") -> dict:
    return {
        "name": name,
        "kind": kind,
        "cllr": cllr,
        "min_cllr": minimum,
        "cllr_rare": 0.7,
        "targets": 30,
        "nontargets": 400,
    }


def dev_set(name: str, cllr: float, minimum: float, group: str = "seen") -> dict:
    figures = {"cllr@0.5": cllr, "min_cllr@0.5": minimum, "cllr@0.01": 0.9, "min_cllr@0.01": 0.8}
    return {"name": name, "group": group, "targets": 5, "nontargets": 50, "eer": 0.1, **figures}


def held_out(*parts: dict) -> dict:
    means = [sum(p[key] for p in parts) / len(parts) for key in ("cllr", "min_cllr")]
    return {"parts": list(parts), "cllr": means[0], "min_cllr": means[1], "verdict": "Use it."}


def log(stages: tuple[int, ...] = (1, 2)) -> list[dict]:
    rows = []
    for total in range(1, 41):
        place = {"stage": stages[0] if total <= 20 else stages[-1], "total": total, "step": total}
        rows.append({**place, "loss": 1.0 / total})
        if total % 4 == 0:
            figures = {"a": 0.5, "b": 0.7}
            rows.append({**place, "average": 0.6, "actual": figures, "minimum": figures})
    return rows


def test_nothing_measured_means_no_page(tmp_path):
    assert training_page("exp", SUMMARY, log()) is None
    assert write_page(tmp_path, SUMMARY, log()) is False
    assert list(tmp_path.iterdir()) == []


def test_held_out_parts_come_first_with_their_own_words():
    summary = {
        **SUMMARY,
        "held_out": held_out(part("tel", 0.30, 0.28), part("fold 1", 0.20, 0.19, "people")),
        "dev": [dev_set("a", 0.9, 0.3)],
        "choices": [
            {"setting": "model.lda_dim", "value": 60, "reason": "42 people"},
            {"setting": "batch.repeat_speakers", "value": True, "reason": "few"},
            {"setting": "stage2.rate", "value": 3e-05, "reason": "held-out steps"},
        ],
    }
    page = training_page("exp", summary, [])
    assert page is not None
    assert [table.title for table in page.tables] == [
        "Calibration on held-out parts",
        "Calibration on the development sets",
    ]
    assert page.grade == "yes"  # 6 % of Cllr is lost, the limit is 10 %
    assert page.sentences[0] == "Use it."
    assert "mean over 2 parts" in page.sentences[1]
    assert "Cllr 0.250" in page.sentences[1] and "6 % is lost" in page.sentences[1]
    assert "Most is lost on tel: 0.300 where 0.280" in page.sentences[2]
    assert [row.kind for row in page.tables[0].rows] == ["domain", "people"]
    assert page.choices[0] == ("model.lda_dim", "60", "42 people")
    assert [choice[1] for choice in page.choices[1:]] == ["yes", "3e-05"]
    assert page.curves is None  # no step in the log


@pytest.mark.parametrize(
    ("cllr", "minimum", "grade"),
    [(0.5, 0.46, "yes"), (0.05, 0.041, "yes"), (0.5, 0.4, "care"), (0.5, 0.3, "no"),
     (1.1, 1.05, "no"), (0.0, 0.0, "yes")],
)  # fmt: skip
def test_the_grade_is_that_of_the_report(cllr: float, minimum: float, grade: str):
    page = training_page("exp", {**SUMMARY, "dev": [dev_set("a", cllr, minimum)]}, [])
    assert page is not None and page.grade == grade


def test_curves_have_groups_stages_and_the_chosen_step():
    sets = [dev_set("a", 0.5, 0.4), dev_set("b", 0.5, 0.4, group="unseen")]
    page = training_page("exp", {**SUMMARY, "dev": sets}, log())
    assert page is not None and page.curves is not None
    names = [line.name for line in page.curves.lines]
    assert names == ["training batches", "seen, actual", "seen, minimum", "unseen, actual",
                     "unseen, minimum"]  # fmt: skip
    assert [line.dashed for line in page.curves.lines] == [False, False, True, False, True]
    assert page.curves.lines[3].losses == [0.7] * 10
    assert page.curves.stages == [(21, "stage 2")]
    assert page.curves.chosen == 25


def test_long_runs_make_no_large_page(tmp_path):
    rows = [
        {"stage": 2, "step": i, "total": i, "loss": 0.5, "actual": {"a": 0.5 + 1e-5 * (i % 7)},
         "minimum": {"a": 0.4}, "average": 0.5}
        for i in range(1, 20_001)
    ]  # fmt: skip
    assert write_page(tmp_path, {**SUMMARY, "dev": [dev_set("a", 0.5, 0.4)]}, rows)
    assert (tmp_path / "training.html").stat().st_size < 100_000


def test_what_the_model_warns_of_is_what_training_saw(tmp_path):
    summary = {**SUMMARY, "dev": [dev_set("a", 0.5, 0.4)], "stopped": {"steps": 40, "asked": 900}}
    page = training_page("exp", summary, log())
    assert page is not None
    ranges = [usual for _, usual, _ in page.warnings]
    assert "2.0 to 54.0 s" in ranges[0]
    assert "shorter than 4.38 or longer than 11.94" in ranges[1]
    assert "farther than 2.8" in ranges[2]
    facts = dict(page.facts)
    assert facts["left out"] == "2 utterances without a vector"
    assert facts["chosen"] == "stage 2 step 5"
    assert facts["finished early"] == "900 steps were asked for"
    bare = {**STATISTICS, "durations": None, "side_information": None}
    page = training_page("exp", {**summary, "statistics": bare}, [])
    assert page is not None and [name for name, *_ in page.warnings] == ["lengths"]


def test_sets_that_did_not_select_are_not_said_to():
    summary = {**SUMMARY, "dev": [dev_set("a", 0.5, 0.4)]}
    for selected, words in (({"last": 40}, False), (SUMMARY["selected"], True)):
        page = training_page("exp", {**summary, "selected": selected}, [])
        assert page is not None
        assert ("selected the model" in page.tables[0].caption) == words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"stage": 1, "step": 0, "total": 0}, "the start, before any step"),
        ({"stage": 3, "step": 2, "total": 22}, "stage 3 step 2"),
        (
            {"average": "ema", "stage": 2, "step": 4, "total": 9},
            "running average at stage 2 step 4",
        ),
        ({"average": "top-k", "models": 3}, "average of the 3 best models"),
        ({"last": 24}, "last model, 24 steps"),
    ],
)
def test_where_the_model_was_met_is_told_in_words(place: dict, words: str):
    assert where_selected(place) == words


def test_the_page_is_written_beside_the_run_and_escaped(tmp_path):
    folder = tmp_path / "exp & co"
    folder.mkdir()
    assert write_page(folder, {**SUMMARY, "dev": [dev_set("<a>", 0.5, 0.4)]}, [])
    text = Path(folder / "training.html").read_text()
    assert "Training of exp &amp; co" in text and "&lt;mic&gt;" in text
    assert not re.search(r"<mic>|<a>", text)
