"""The page of eval-scores as text: all of it inside, names escaped, the words and figures there."""

import html
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from many_sets import drawn, findings

from dcaplda.bin.eval_scores import main
from dcaplda.eval.page.rows import heat
from dcaplda.eval.page.scores_page import render
from dcaplda.eval.verdict.costs import Limits
from dcaplda.eval.verdict.one_set import Judge
from dcaplda.eval.verdict.systems import answer, system_verdict

HOSTILE = "a <b> & co </script><script>alert(1)</script>"
MANY = ("plda", "d-plda", "d-plda-dd", "d-plda-dsd", "plda-asnorm", "cosine")


def write_bundle(folder):
    """A model.json as export-onnx writes it; the report reads nothing else of a bundle."""
    stage = {
        "seconds": [1.0, 10.0, 100.0],
        "alpha": [[0.5, 0.6, 0.7], [0.6, 0.8, 0.9], [0.7, 0.9, 1.0]],
        "beta": [[0.5, 0.2, 0.1], [0.2, 0.0, -0.1], [0.1, -0.1, -0.4]],
    }
    graphs = {
        name: {"file": f"{name}.onnx", "sha256": "0" * 64}
        for name in ("backend", "voiceprint", "compare", "pairs")
    }
    manifest = {
        "format": "dcaplda-bundle",
        "format_version": 1,
        "producer": "dcaplda 0.1.0",
        "variant": "d-plda-dsd",
        "embedding_dim": 32,
        "voiceprint_dim": 42,
        "uses_durations": True,
        "training": {"training_prior": 0.01, "speakers": 1500, "utterances": 22000, "steps": 7,
                     "domains": ["tel", "mic"], "seed": 3, "note": "<script>alert(1)</script>",
                     "durations": {"min": 2.0, "max": 54.25}},
        "calibration": {"duration": stage},
        "graphs": graphs,
    }  # fmt: skip
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(manifest))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of two systems on two sets with everything in it; one set has a hostile name."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    names = [(f"s{s:02d}", f"s{s:02d}-{i}") for s in range(10) for i in range(4)]
    trials, scores = [], {"good": [], "off": []}
    for i, (speaker, name) in enumerate(names):
        for other, test in names[i + 1 :]:
            same = speaker == other
            trials.append(f"{name} {test} {'target' if same else 'nontarget'}")
            llr = rng.normal(4.5 if same else -4.5, 3)
            scores["good"].append(f"{name} {test} {llr:.4f}")
            scores["off"].append(f"{name} {test} {3 * llr + 4:.4f}")
    (folder / "trials").write_text("\n".join(trials) + "\n")
    (folder / "utt2spk").write_text("".join(f"{name} {speaker}\n" for speaker, name in names))
    (folder / "utt2dur").write_text("".join(f"{n} {rng.uniform(2, 50):.1f}\n" for _, n in names))
    (folder / "utt2dom").write_text(
        "".join(f"{name} {'tel' if i % 2 else 'mic'}\n" for i, (_, name) in enumerate(names))
    )
    write_bundle(folder / "bundle")
    tables = "".join(f'{name} = "{name}"\n' for name in ("utt2spk", "utt2dur", "utt2dom"))
    sets = [
        f'[[set]]\nname = "home"\ntrials = "trials"\ngroup = "DEV"\n{tables}',
        f'[[set]]\nname = "a <b> & co"\ntrials = "trials"\ngroup = "DEV"\n{tables}',
    ]
    systems = [
        '[[system]]\nname = "good"\nscores = "good.scores{set}"\nmodel = "bundle"\n',
        '[[system]]\nname = "off"\nscores = "off.scores{set}"\n',
    ]
    for system, lines in scores.items():
        (folder / f"{system}.scoreshome").write_text("\n".join(lines) + "\n")
        shutil.copy(folder / f"{system}.scoreshome", folder / f"{system}.scoresa <b> & co")
    (folder / "sets.toml").write_text("\n".join(sets + systems))
    page = folder / "report.html"
    arguments = ["--bootstrap=20", "--title=Tests & more", f"--table={folder / 'sets.toml'}"]
    arguments += ["--baseline=good", "--usable=0.04", "--with-care=0.5"]
    assert main([*arguments, f"--report={page}", f"--json={folder / 'found.json'}"]) == 0
    return page


def data_of(text: str):
    """The record behind the page, as its script reads it."""
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def words_of(text: str) -> str:
    """What a reader sees without the script."""
    body = text[text.index("<body>") : text.index('<script type="application/json"')]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_the_page_needs_nothing_but_itself(report):
    text = report.read_text()
    assert set(re.findall(r'https?://[^"<\s]+', text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"@import|<link|<img|\bsrc=|url\(", text)
    assert text.count("<script") == 2  # the record, and the one script that is allowed
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert html.unescape(policy).startswith("default-src 'none'; style-src 'unsafe-inline'; script")
    assert [file.name for file in report.parent.glob("report*")] == ["report.html"]


@pytest.mark.parametrize("n_sets", [1, 2])
def test_names_from_files_are_text_wherever_they_stand(n_sets):
    found = findings(n_sets, (HOSTILE, "b"), name=HOSTILE + "{}", baseline=HOSTILE)
    text = render(found, Limits(), HOSTILE)
    assert "<b>" not in text and text.count("<script") == 2 and text.count("</script") == 2
    assert data_of(text)["systems"][0] == HOSTILE
    assert data_of(text)["rows"][-1]["name"] == f"{HOSTILE}{n_sets - 1}"


def test_what_a_bundle_says_is_text(report):
    text = report.read_text()
    assert "alert(1)" in text and "<script>alert" not in text


def test_the_first_look_has_the_words_and_every_cell(report):
    text = report.read_text()
    seen = words_of(text)
    for words in (
        "Tests & more",
        "A score says how much more likely two recordings are by one person than by two",
        "Lowest mean Cllr over 2 sets: good",
        "Which system, and where does it fail?",
        "Rows are sets, columns are systems. Number: Cllr at prior 0.5 ; lower is better.",
        "Colour: cost lost by deciding at the Bayes threshold instead of the best one",
        "0 0.04 0.5 ≥ 1 ○ usable with care ● not usable 0.123 too few trials to tell",
        "DEV mean of 2 sets",
        "a <b> & co",
        "Can the scores be used as they are?",
        "Usable: at most 0.04 is lost at every prior, and the interval stays within 0.5.",
        "Not usable: more than 0.5 is lost, and the interval stays above 0.04.",
        "With care: between, or too uncertain to tell, or the scores save nothing",
        "--usable and --with-care",
        "95 % intervals from 20 bootstrap replicates",
        "0.00 at prior 0.5, 4.60 at prior 0.01",
        "1,500 speakers, 22,000 utterances",
        "2 systems, 2 sets, 1,560 trials.",
    ):
        assert words in seen, words
    table = text[text.index('<table class="heat"') : text.index("</table>")]
    assert table.count("<td ") == 2 * 3  # two systems; a mean and two sets
    assert text.index("</table>") < text.index('id="data"')  # drawn before the record is read


def test_cells_hold_the_figures_of_the_json(report):
    """Cllr of the first prior as text, and lost cost as colour on one scale, cut at its end."""
    text = report.read_text()
    rows = json.loads((report.parent / "found.json").read_text())
    rows = [row for row in rows if "average_of" in row] + [r for r in rows if "average_of" not in r]
    found = re.findall(r'<td class="g(\d)" style="--t:([\d.]+)">([^<]*)<', text)
    assert len(found) == len(rows) == 6
    for (grade, warmth, shown), row in zip(found, rows, strict=True):
        lost = row["dcf_0.5"] - row["min_dcf_0.5"]
        assert shown == f"{row['cllr_0.5']:.3f}"
        assert float(warmth) == pytest.approx(min(lost / 1.0, 1.0), abs=6e-4)  # ends at 2 x 0.5
        assert grade == ("0" if row["system"] == "good" else "1")


def test_colours_end_at_twice_the_second_limit():
    judge = Judge(limits=Limits(0.1, 0.2))
    assert [heat(lost, judge) for lost in (0.0, 0.1, 0.2, 0.4, 9.0)] == [0, 0.25, 0.5, 1, 1]
    assert heat(0.5, Judge(limits=Limits(0.0, 0.0))) == 0.5  # any scale will do


def test_the_record_holds_the_figures_of_the_json(report):
    rows = json.loads((report.parent / "found.json").read_text())
    cells = {
        (row["name"], row["mean"], system): cell
        for row in data_of(report.read_text())["rows"]
        for system, cell in zip(("good", "off"), row["cells"], strict=True)
    }
    keys = {"cllr": "cllr", "lin": "min_cllr_lin", "pav": "min_cllr_pav", "cost": "dcf",
            "best": "min_dcf"}  # fmt: skip
    assert len(cells) == 6
    for row in rows:
        cell = cells[row["set"], "average_of" in row, row["system"]]
        assert cell["eer"] == pytest.approx([row["eer"], *row["intervals"]["eer"]], abs=6e-5)
        for place, prior in enumerate(("0.5", "0.01")):
            for short, metric in keys.items():
                name = f"{metric}_{prior}"
                expected = [row[name], *row["intervals"][name]]
                assert cell["at"][place][short] == pytest.approx(expected, abs=6e-5), name
            lost = row[f"dcf_{prior}"] - row[f"min_dcf_{prior}"]
            assert cell["at"][place]["lost"][0] == pytest.approx(lost, abs=6e-5)
            if row["system"] == "off":
                difference = row["difference"]
                name = f"cllr_{prior}"
                expected = [difference[name], *difference["intervals"][name]]
                assert cell["diff"][place] == pytest.approx(expected, abs=6e-5)
        assert ("diff" in cell) == (row["system"] == "off")


def test_conditions_are_those_of_the_json(report):
    rows = json.loads((report.parent / "found.json").read_text())
    shown = next(r for r in data_of(report.read_text())["rows"] if r["name"] == "home")
    for number, system in enumerate(("good", "off")):
        row = next(r for r in rows if (r["system"], r["set"]) == (system, "home"))
        expected = {(p["condition"], p["enroll"], p["test"]): p for p in row["conditions"]}
        found = {
            (condition["kind"], *pair["pair"]): (pair["n"], pair["cells"][number])
            for condition in shown["conditions"]
            for pair in condition["pairs"]
        }
        assert found.keys() == expected.keys()
        for key, (counts, cell) in found.items():
            part = expected[key]
            assert counts == [part["n_target"], part["n_nontarget"]]
            if part["eer"] is None:
                assert cell is None
                continue
            lost = part["dcf_0.01"] - part["min_dcf_0.01"]
            assert cell[8] == 3  # with so few nontarget trials one costs more than 0.04
            worth = max(1 / part["n_target"], 1 / part["n_nontarget"])
            assert (cell[4] == 3) == (worth > 0.04)
            assert cell[0] == pytest.approx(part["eer"], abs=6e-3)
            assert cell[5:8] == pytest.approx([part["cllr_0.01"], part["dcf_0.01"], lost], abs=6e-4)
    domain = next(c for c in shown["conditions"] if c["kind"] == "domain")
    rates = {(p["enroll"], p["test"]): p["eer"] for p in rows[0]["conditions"]
             if p["condition"] == "domain"}  # fmt: skip
    low, high = min(rates, key=rates.get), max(rates, key=rates.get)
    assert domain["range"] == (
        f"EER of good from {rates[low]:.1f} % ({low[0]} against {low[1]}) to {rates[high]:.1f} % "
        f"({high[0]} against {high[1]})"
    )


def test_a_condition_that_parts_nothing_is_not_shown():
    found = findings(1)
    one = [
        replace(
            result, parts=tuple(p for p in result.parts if (p.enroll, p.test) == ("tel", "tel"))
        )
        for result in found.results
    ]
    data = data_of(render(replace(found, results=one), Limits(), "t"))
    assert data["rows"][0]["conditions"] == []
    assert len(data_of(render(found, Limits(), "t"))["rows"][0]["conditions"]) == 2


@pytest.mark.parametrize("n_sets", [1, 2, 20])
def test_every_system_has_its_verdict(n_sets):
    found = findings(n_sets, MANY)
    seen = words_of(render(found, Limits(), "t"))
    for name in MANY:
        judged = system_verdict(name, found.results, Judge())
        assert f"{name} {judged.headline} {' '.join(judged.sentences)}" in seen
    assert answer(found.results, Judge()) in seen


def test_one_system_on_one_set_is_told_once():
    found = findings(1, ("plda",))
    text = render(found, Limits(), "t")
    judged = system_verdict("plda", found.results, Judge())
    assert words_of(text).count(judged.headline) == 1
    assert "Lowest" not in words_of(text) and '<table class="heat"' not in text
    assert "the scores do that, and what it costs" in words_of(text)


def test_means_stand_first_then_groups_in_their_order():
    text = render(findings(6, n_groups=2), Limits(), "t")
    table = text[text.index('<table class="heat"') : text.index("</table>")]
    heads = re.findall(r'<th scope="row(?:group)?"[^>]*>([^<]*)', table)
    means = ["all sets", "group-0", "group-1"]
    sets = [f"set-{i}" for i in range(6)]
    assert [head.strip() for head in heads] == [*means, "group-0", *sets[:3], "group-1", *sets[3:]]


def test_a_group_of_all_sets_is_not_shown_twice():
    text = render(findings(4, n_groups=1), Limits(), "t")
    assert words_of(text).count("mean of 4 sets") == 1 and "all sets" not in words_of(text)[:900]


def test_without_intervals_nothing_is_said_of_them():
    found = findings(2)
    bare = [replace(result, intervals={}, replicates=None) for result in found.results]
    seen = words_of(render(replace(found, results=bare), Limits(), "t"))
    assert (
        "Usable: at most 0.05 is lost at every prior. Not usable: more than 0.15 is lost." in seen
    )
    assert "interval" not in seen and "bootstrap" not in seen


def test_infinite_figures_are_shown_as_such():
    values = {**drawn(0).values, "cllr_0.5": float("inf"), "min_cllr_lin_0.5": float("inf")}
    found = findings(2)
    broken = [replace(found.results[0], values=values), *found.results[1:]]
    text = render(replace(found, results=broken, means=[]), Limits(), "t")
    assert ">∞<" in text and data_of(text)["rows"][1]["cells"][0]["at"][0]["cllr"][0] is None


def test_a_page_of_71_sets_and_6_systems_is_small():
    """With curves, intervals, differences, and 29 conditions of every set."""
    text = render(findings(71, MANY, n_groups=6, baseline="plda"), Limits(), "t")
    assert len(text.encode()) < 3_000_000
    paths = re.findall(r'"(M[^"]*)"', text)
    assert len(paths) > 71 * 6 * 8  # no curve is missing
    assert max(path.count(" ") + path.count("-") for path in paths) <= 2 * 200 + 2


def test_ids_are_unique_and_links_lead_somewhere(report):
    text = report.read_text()
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:aria-labelledby|aria-describedby)="([^"]+)"', text))
    assert used <= set(ids)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--usable=-1"], "--usable=-1: cannot be negative"),
        (["--with-care=nan"], "--with-care=nan: expected a number"),
        (["--usable=0.3"], "--with-care=0.15: expected no less than --usable=0.3"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options, message, tmp_path, capsys):
    (tmp_path / "lines").write_text("2 target\n-3 nontarget\n")
    page = tmp_path / "r.html"
    assert main([*options, f"--report={page}", str(tmp_path / "lines")]) == 1
    assert message in capsys.readouterr().err and not page.exists()


def test_a_reference_is_shown_and_does_not_compete():
    found = replace(findings(3, ("oracle", "a", "b")), references=frozenset({"oracle"}))
    seen = words_of(render(found, Limits(), "t"))
    told = answer(found.results, Judge(), {"oracle"})
    assert told in seen and "oracle, for reference, has" in told
    assert "Lowest mean Cllr over 3 sets: oracle" not in seen


TERMS = {
    "Score, LLR": "Natural logarithm of how much more likely two recordings are by one person than "
    "by two.",
    "Target trial": "Two recordings of one person; a nontarget trial is of two people. The target "
    "prior is the share of target trials that is expected in use.",
    "Bayes threshold": "log(cost of a false acceptance / cost of a miss) − log(prior / (1 − "
    "prior)): follows from costs and prior, needs no data; 0.00 at prior 0.5, 4.60 at prior 0.01. "
    "A miss costs 1, a false acceptance 1.",
    "Cost (DCF)": "Expected cost of the decisions at the Bayes threshold, divided by that of the "
    "better answer without scores (all accepted or all rejected).",
    "Lost": "Cost minus what the best threshold on the same trials would cost (min DCF).",
    "Cllr": "Cross-entropy of the scores taken as LLRs, divided by the entropy of the prior: cost "
    "over all thresholds. 0 is perfect, 1 is what knowing only the prior gives, more is harm.",
    "min lin, min PAV": "Cllr after the best affine and after the best monotone calibration on the "
    "same trials; the latter is optimistic for small sets.",
    "EER, AUC": "Equal error rate in percent, from the convex hull of the ROC; probability that a "
    "target scores higher than a nontarget.",
    "Intervals": "95 % intervals from 40 bootstrap replicates over speakers, on both sides of a "
    "trial: how much other people would change a figure.",
    "Cllr − plda": "Cllr of a system minus that of plda; below 0 is better. A star: the paired "
    "interval leaves out 0.",
}


def test_terms_mean_what_docs_say():
    text = render(findings(2, baseline="plda"), Limits(), "t")
    part = text[text.index('<dl class="terms">') : text.index("</dl>", text.index('"terms">'))]
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", part, re.DOTALL)
    assert {html.unescape(k): html.unescape(v) for k, v in found} == TERMS


def test_what_a_model_is_stands_in_a_few_rows(report):
    text = report.read_text()
    card = text[text.index('<article class="card model">') :]
    facts = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", card[: card.index("</dl>")])
    assert dict(facts) | {"fingerprint": ""} == {
        "variant": "d-plda-dsd",
        "takes": "embeddings of 32 values and seconds of speech",
        "trained on": "1,500 speakers, 22,000 utterances",
        "domains": "tel, mic",
        "seconds of speech": "2 to 54.25",
        "prior of training": "0.01",
        "steps and seed": "7, 3",
        "made by": "dcaplda 0.1.0",
        "fingerprint": "",
    }
    folded = card[card.index("Everything that model.json says") :]
    assert "training / training prior" in folded
