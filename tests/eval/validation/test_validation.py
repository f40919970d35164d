"""eval-scores --validation from files to page and JSON: counts by hand, hashes, the way back."""

import hashlib
import itertools
import json
import math
import shlex

import numpy as np
import pytest
from chromium import Page, executable
from page_looks import contrast

from dcaplda.bin.eval_scores import main
from dcaplda.eval.metrics.forensic import LOG10, devpav, elub
from dcaplda.eval.metrics.scalars import cllr

HOSTILE = "<img src=x onerror='window.hit=1'>"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Twelve people, three recordings each: two of one session, one of another; two domains."""
    rng = np.random.default_rng(0)
    names = [(f"s{s:02d}", f"s{s:02d}-{i}") for s in range(12) for i in range(3)]
    trials, scores = [], []
    for i, (speaker, name) in enumerate(names):
        for other, test in names[i + 1 :]:
            same = speaker == other
            trials.append((name, test, same))
            scores.append(rng.normal(2.5 if same else -2.5, 2.0))
    lines = {
        "trials": [f"{a} {b} {'target' if t else 'nontarget'}" for a, b, t in trials],
        "scores": [f"{a} {b} {x:.4f}" for (a, b, _), x in zip(trials, scores, strict=True)],
        "utt2spk": [f"{name} {speaker}" for speaker, name in names],
        "utt2sess": [f"{name} {speaker}-{'b' if name.endswith('2') else 'a'}"
                     for speaker, name in names],
        "utt2dur": [f"{name} {2 + 3 * k % 40}" for k, (_, name) in enumerate(names)],
        "utt2dom": [f"{name} {'tel' if name.endswith('2') else 'mic'}" for _, name in names],
    }  # fmt: skip
    for name, content in lines.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    same = np.array([t for _, _, t in trials])
    values = np.round(np.array(scores), 4)
    return tmp_path, values[same], values[~same]


TABLES = [f"--{name}={name}" for name in ("utt2spk", "utt2sess", "utt2dur", "utt2dom")]


def validate(*options, files=("trials", "scores")):
    command = ["--print-args=false", "--bootstrap=60", "--validation=v.html", *options, *files]
    return main(command)


def read(folder):
    return json.loads((folder / "v.json").read_text()), (folder / "v.html").read_text()


def test_numbers_are_those_of_the_measures(files):
    folder, target, nontarget = files
    assert validate(*TABLES) == 0
    record, _ = read(folder)
    (found,) = record["sets"]
    assert found["metrics"]["cllr_0.5"] == pytest.approx(cllr(target, nontarget), abs=1e-12)
    evidence = found["evidence"]
    low, high = elub(target, nontarget)
    assert record["bounds"] == {"lower_llr": low, "upper_llr": high}
    assert (evidence["elub"]["lower_log10"], evidence["elub"]["upper_log10"]) == pytest.approx(
        (low / LOG10, high / LOG10)
    )
    both = np.concatenate([target, nontarget])
    assert evidence["elub"]["n_below"] == np.sum(both < low)
    assert evidence["elub"]["n_above"] == np.sum(both > high)
    assert evidence["devpav_log10"] == pytest.approx(devpav(target, nontarget) / LOG10)
    for row in evidence["misleading"]:
        step = math.log(row["lr"])
        above = nontarget > 0 if step == 0 else nontarget >= step
        below = target < 0 if step == 0 else target <= -step
        assert (row["n_nontarget"], row["n_target"]) == (above.sum(), below.sum())
        assert row["most_if_calibrated"] == (None if step == 0 else 1 / row["lr"])
    tippett = evidence["tippett"]
    for k in (0, 150, 399):
        at = tippett["log10_lr"][k] * LOG10
        assert tippett["target_at_or_above"][k] == pytest.approx(np.mean(target >= at), abs=0.02)
    low, high = evidence["elub"]["upper_llr_interval"]
    assert 0.0 <= low <= high


def test_what_was_tested_is_counted_by_hand(files):
    folder, _, _ = files
    assert validate(*TABLES) == 0
    tested = read(folder)[0]["sets"][0]["tested"]
    assert tested["n_recordings"] == 36 and tested["n_people"] == 12
    assert tested["people_with_target"] == 12 and tested["targets_of_a_person"] == [3, 3, 3]
    assert tested["n_sessions"] == 24 and tested["sessions_of_a_person"] == [2, 2, 2]
    assert tested["same_session_targets"] == 12  # recordings 0 and 1 of each person
    assert tested["domains"] == [["mic", 12, 24], ["tel", 12, 12]]
    assert tested["seconds"][0][0] == 2.0


def test_models_of_several_recordings_count_their_recordings(files):
    folder, _, _ = files
    (folder / "spk2utt").write_text("".join(f"m{s:02d} s{s:02d}-0 s{s:02d}-1\n" for s in range(12)))
    rng = np.random.default_rng(1)
    trials, scores = [], []
    for m, s, k in itertools.product(range(12), range(12), (1, 2)):
        pair = f"m{m:02d} s{s:02d}-{k}"
        trials.append(f"{pair} {'target' if m == s else 'nontarget'}\n")
        scores.append(f"{pair} {rng.normal(2 if m == s else -2):.3f}\n")
    (folder / "t").write_text("".join(trials))
    (folder / "s").write_text("".join(scores))
    assert validate(*TABLES, "--spk2utt=spk2utt", files=("t", "s")) == 0
    tested = read(folder)[0]["sets"][0]["tested"]
    assert tested["n_recordings"] == 36 and tested["n_sessions"] == 24
    # A model has session a; recording 1 is of it, recording 2 is not.
    assert tested["same_session_targets"] == 12
    assert any(c["enroll"] == "mic" for c in read(folder)[0]["sets"][0]["conditions"])


def test_the_command_in_the_report_gives_the_same_report(files):
    folder, _, _ = files
    assert validate(*TABLES, "--title=Case 12 / <b>", "--confidence=0.9") == 0
    before = [(folder / name).read_bytes() for name in ("v.json", "v.html")]
    command = json.loads(before[0])["command"]
    assert command.startswith("eval-scores ") and "'--title=Case 12 / <b>'" in command
    for name in ("v.json", "v.html"):
        (folder / name).unlink()
    assert main(shlex.split(command)[1:]) == 0
    assert [(folder / name).read_bytes() for name in ("v.json", "v.html")] == before


def test_every_input_is_named_with_its_hash_and_the_json_by_the_page(files):
    folder, _, _ = files
    assert validate(*TABLES) == 0
    record, page = read(folder)
    assert {entry["name"] for entry in record["inputs"]} == {
        "trials", "scores", "utt2spk", "utt2sess", "utt2dur", "utt2dom",
    }  # fmt: skip
    for entry in record["inputs"]:
        content = (folder / entry["name"]).read_bytes()
        assert entry["n_bytes"] == len(content)
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["sha256"] in page
    assert hashlib.sha256((folder / "v.json").read_bytes()).hexdigest() in page
    assert record["date"] == "2023-11-14" and "Made on 2023-11-14" in page
    assert set(record["versions"]) == {"dcaplda", "python", "numpy", "scipy", "polars", "system"}


def test_the_page_says_what_the_json_says(files):
    folder, _, _ = files
    assert validate(*TABLES) == 0
    record, page = read(folder)
    text = page.replace("&#39;", "'")
    for sentence in record["sets"][0]["summary"] + record["sets"][0]["not_tested"]:
        assert sentence in text
    assert "score-trials --bound=v.json" in page
    assert "12 comparisons of a person with themselves had both recordings" in page
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_without_tables_the_page_says_what_is_not_known(files):
    folder, _, _ = files
    assert validate() == 0
    record, page = read(folder)
    assert record["sets"][0]["tested"]["n_people"] is None and record["sets"][0]["intervals"] == {}
    for table in ("utt2spk", "utt2sess", "utt2dur", "utt2dom"):
        assert f"was not given ({table})" in page
    assert "No ranges are given for the results" in page and "No model was given" in page


def test_several_sets_support_what_each_of_them_does(files):
    folder, _, _ = files
    lines = (folder / "scores").read_text().splitlines()
    worse = [f"{a} {b} {float(x) / 3:.4f}" for a, b, x in (line.split() for line in lines)]
    (folder / f"b {HOSTILE}.scores").write_text("\n".join(worse) + "\n")
    (folder / "a.scores").write_text("\n".join(lines) + "\n")
    table = ['[[set]]\nname = "a"\ntrials = "trials"\nutt2spk = "utt2spk"']
    table += [f'[[set]]\nname = "b {HOSTILE}"\ntrials = "trials"']
    table += ['[[system]]\nname = "ours"\nscores = "{set}.scores"']
    (folder / "sets.toml").write_text("\n".join(table))
    assert main(["--bootstrap=20", "--table=sets.toml", "--validation=v.html"]) == 0
    record, page = read(folder)
    ends = [entry["evidence"]["elub"] for entry in record["sets"]]
    assert record["bounds"]["lower_llr"] == max(end["lower_llr"] for end in ends)
    assert record["bounds"]["upper_llr"] == min(end["upper_llr"] for end in ends)
    assert "2 sets of recordings were tested" in page
    assert HOSTILE not in page and "&lt;img src=x" in page


@pytest.mark.parametrize(
    ("options", "arguments", "words"),
    [
        (["--prior=0.01"], ("trials", "scores"), "--validation needs the prior 0.5"),
        ([], ("trials", "scores", "scores"), "--validation is of one system; there are"),
        ([], ("trials", "cat scores |"), "'cat scores |' is no file"),
        ([], ("-",), "--validation needs ids"),
        (["--validation=v.txt"], ("trials", "scores"), "expected a name that ends in .html"),
        (["--utt2sess=short"], ("trials", "scores"), "'short': has no entry for"),
        (["--model=nowhere"], ("trials", "scores"), "has no model.json"),
    ],
)
def test_what_cannot_be_validated_is_one_line(files, capsys, options, arguments, words):
    folder, _, _ = files
    (folder / "short").write_text("s00-0 a\n")
    if len(arguments) == 3:
        options = ["--names=a,b"]
    assert validate(*options, files=arguments) == 1
    told = capsys.readouterr().err
    assert words in told and told.count("ERROR") == 1 and told.count("\n") == 1
    assert not (folder / "v.html").exists() and not (folder / "v.json").exists()


WIDER = """(() => { const wide = document.documentElement.clientWidth + 1;
  const all = [...document.querySelectorAll('body *')];
  return all.filter(e => !e.parentElement.closest('.scroll, svg')
    && e.getBoundingClientRect().right > wide).map(e => e.tagName + e.textContent.slice(0, 30));
})()"""
INSIDE = """[...document.querySelectorAll('svg.chart')].flatMap(s => {
  const b = s.getBoundingClientRect();
  return [...s.querySelectorAll('text')].filter(t => { const r = t.getBoundingClientRect();
    return r.left < b.left - 1 || r.right > b.right + 1; }).map(t => t.textContent); })"""


@pytest.mark.skipif(executable() is None, reason="chromium is not installed")
def test_the_page_on_a_phone_in_the_dark_and_on_paper(files):
    folder, _, _ = files
    assert validate(*TABLES, f"--title={HOSTILE}") == 0
    browser = Page("about:blank")
    try:
        for width, scheme, medium in (
            (320, "light", ""),
            (390, "dark", ""),
            (1280, "dark", ""),
            (794, "dark", "print"),
        ):
            browser.show(width, scheme, medium)
            browser.visit(f"file://{folder}/v.html")
            assert browser.value("document.documentElement.scrollWidth") <= width
            assert browser.value(WIDER) == []
            assert browser.value("document.querySelectorAll('svg.chart path.line').length") >= 7
            style = "getComputedStyle(document.body)"
            colours = browser.value(f"[{style}.color, {style}.backgroundColor]")
            assert contrast(*colours) > 7.0
            dark = medium == "" and scheme == "dark"
            assert (contrast(colours[1], "#ffffff") > 10.0) is dark
        assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert browser.value("document.title") == HOSTILE and browser.value("window.hit") is None
        assert browser.value(INSIDE) == []  # letters of labels that leave their chart
    finally:
        browser.close()
