"""The tool eval-scores from the command line's side."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from eval_data import EXTRACTS, files_of, printed, result_files

from dcaplda.bin.eval_scores import main

SEEN = EXTRACTS / "seen1short"
KALDI = EXTRACTS / "kaldi"
SPEC_KEYS = ["system", "set", "n_target", "n_nontarget", "eer", "auc"] + [
    f"{name}_{p}"
    for p in ("0.5", "0.01")
    for name in ("cllr", "min_cllr_lin", "min_cllr_pav", "dcf", "min_dcf")
]


def run(capsys, *arguments):
    """Exit status, stdout and stderr of a command line."""
    status = main(["--print-args=false", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys, *arguments):
    status, out, err = run(capsys, "--json", *arguments)
    assert status == 0, err
    return json.loads(out)


@pytest.mark.parametrize("results", result_files(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_json_reproduces_every_figure_of_the_reference(capsys, results):
    (found,) = run_json(capsys, *files_of(results))
    for name, figure in printed(results).items():
        assert f"{found[name]:.{2 if name == 'eer' else 4}f}" == figure, name


def test_json_has_the_promised_keys(capsys):
    files = SEEN / "trials_multi", SEEN / "trained.multi.score_level.scores"
    (found,) = run_json(capsys, *files)
    assert [key for key in SPEC_KEYS if key not in found] == []
    assert found["set"] == "trials_multi"
    assert (found["n_target"], found["n_nontarget"]) == (40, 760)


def test_text_table_is_aligned_and_shows_the_figures(capsys):
    status, out, _ = run(
        capsys, "--names=a,long-name", SEEN / "trials_multi",
        SEEN / "trained.multi.score_level.scores", SEEN / "trained.multi.score_level.scores",
    )  # fmt: skip
    lines = out.splitlines()
    assert status == 0 and len(lines) == 4
    assert "13.31" in lines[2] and "0.5421" in lines[2] and "0.9500" in lines[2]
    # Every column ends at the same place in all rows: bars stand below each other.
    bars = [[i for i, c in enumerate(line) if c == "|"] for line in lines]
    assert len(bars[0]) == 2 and all(bar == bars[0] for bar in bars)
    assert len({len(line) for line in lines[1:]}) == 1


def test_csv_holds_the_same_numbers(capsys):
    files = SEEN / "trials_multi", SEEN / "trained.multi.score_level.scores"
    (expected,) = run_json(capsys, *files)
    status, out, _ = run(capsys, "--csv", *files)
    (row,) = csv.DictReader(io.StringIO(out))
    assert status == 0
    for key in SPEC_KEYS[4:]:
        assert float(row[key]) == expected[key]


@pytest.mark.parametrize("name,trials", [("single", "trials"), ("multi", "trials_multi")])
def test_score_label_lines_on_stdin_give_kaldis_eer(name, trials):
    scores = [line.split()[2] for line in (KALDI / f"scores.{name}").read_text().splitlines()]
    labels = [line.split()[2] for line in (KALDI / trials).read_text().splitlines()]
    piped = "".join(f"{s} {label}\n" for s, label in zip(scores, labels, strict=True))
    done = subprocess.run(
        [sys.executable, "-m", "dcaplda.bin.eval_scores", "--eer=kaldi", "--json", "-"],
        input=piped, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (found,) = json.loads(done.stdout)
    assert f"{found['eer']:.4g}" == (KALDI / f"eer.{name}.out").read_text()


def test_priors_and_costs_are_taken_from_the_command_line(capsys):
    files = KALDI / "trials", KALDI / "scores.single"
    (found,) = run_json(capsys, "--prior=0.1,0.02", "--cost-fa=5", *files)
    assert "cllr_0.1" in found and "dcf_0.02" in found and "cllr_0.5" not in found
    (raw,) = run_json(capsys, "--prior=0.1", "--cost-fa=5", "--normalize-dcf=false", *files)
    # The better blind answer rejects all: 0.1 * 1 against 0.9 * 5.
    assert raw["dcf_0.1"] == pytest.approx(found["dcf_0.1"] * 0.1)


@pytest.fixture
def small_set(tmp_path):
    """Trials of 12 speakers with three utterances each, scores, and tables about them."""
    rng = np.random.default_rng(0)
    names = [(f"s{s:02d}", f"s{s:02d}-{i}") for s in range(12) for i in range(3)]
    trials, scores = [], []
    for i, (speaker, name) in enumerate(names):
        for other, test in names[i + 1 :]:
            same = speaker == other
            trials.append(f"{name} {test} {'target' if same else 'nontarget'}")
            scores.append(f"{name} {test} {rng.normal(3 if same else -3, 2):.4f}")
    files = {
        "trials": trials,
        "scores": [scores[i] for i in rng.permutation(len(scores))],
        "utt2spk": [f"{name} {speaker}" for speaker, name in names],
        "utt2dur": [f"{name} {rng.uniform(2, 40):.2f}" for _, name in names],
        "utt2dom": [f"{name} {'tel' if i % 2 else 'mic'}" for i, (_, name) in enumerate(names)],
    }
    for name, content in files.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
    return tmp_path


def test_intervals_surround_the_values(capsys, small_set):
    arguments = ("--bootstrap=60", f"--utt2spk={small_set / 'utt2spk'}")
    files = small_set / "trials", small_set / "scores"
    (found,) = run_json(capsys, *arguments, *files)
    for name in ("eer", "auc", "cllr_0.5", "dcf_0.01"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
    status, out, _ = run(capsys, *arguments, "--confidence=0.8", *files)
    assert status == 0 and "80 % from" in out and "80 % to" in out


def test_conditions_add_up_to_the_set(capsys, small_set):
    (found,) = run_json(
        capsys, f"--utt2dur={small_set / 'utt2dur'}", f"--utt2dom={small_set / 'utt2dom'}",
        "--duration-bins=10,20", small_set / "trials", small_set / "scores",
    )  # fmt: skip
    for kind in ("duration", "domain"):
        cells = [c for c in found["conditions"] if c["condition"] == kind]
        assert sum(c["n_target"] for c in cells) == found["n_target"]
        assert sum(c["n_nontarget"] for c in cells) == found["n_nontarget"]
    assert {c["enroll"] for c in found["conditions"] if c["condition"] == "domain"} == {
        "mic",
        "tel",
    }


def test_a_table_evaluates_sets_systems_and_groups(capsys, small_set):
    table = small_set / "sets.toml"
    sets = "".join(
        f'[[set]]\nname = "{name}"\ntrials = "trials"\ngroup = "G"\n' for name in ("x", "y")
    )
    systems = (
        '[[system]]\nname = "p"\nscores = "{set}.p"\n[[system]]\nname = "q"\nscores = "{set}.q"\n'
    )
    table.write_text(sets + systems)
    lines = (small_set / "scores").read_text().splitlines()
    for number, name in enumerate(("x.p", "x.q", "y.p", "y.q")):
        moved = (f"{a} {b} {float(s) + number}" for a, b, s in (line.split() for line in lines))
        (small_set / name).write_text("\n".join(moved) + "\n")
    found = run_json(capsys, f"--table={table}")
    assert [(r["system"], r["set"]) for r in found] == [
        ("p", "x"), ("q", "x"), ("p", "y"), ("q", "y"), ("p", "G"), ("q", "G"),
    ]  # fmt: skip
    assert found[4]["average_of"] == ["x", "y"]
    assert found[4]["cllr_0.5"] == pytest.approx((found[0]["cllr_0.5"] + found[2]["cllr_0.5"]) / 2)
    status, out, _ = run(capsys, f"--table={table}")
    assert status == 0 and "G (mean of 2)" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('reference = "yes"', "system 'p' needs reference as true or false, found 'yes'"),
        ("refrence = true", "[[system]] has no key 'refrence'; did you mean 'reference'?"),
    ],
)
def test_a_table_with_an_odd_reference_is_refused(capsys, small_set, line, message):
    table = small_set / "odd.toml"
    table.write_text(
        '[[set]]\nname = "x"\ntrials = "trials"\n'
        f'[[system]]\nname = "p"\nscores = "scores"\n{line}\n'
    )
    status, _, said = run(capsys, f"--table={table}")
    assert status == 1 and message in said


def test_files_are_written_beside_the_table(capsys, small_set):
    place = small_set / "out.json"
    status, out, _ = run(
        capsys, f"--json={place}", f"--csv={small_set / 'out.csv'}", small_set / "trials",
        small_set / "scores",
    )  # fmt: skip
    assert status == 0 and "EER %" in out
    assert json.loads(place.read_text())[0]["set"] == "trials"
    assert (small_set / "out.csv").read_text().startswith("system,set,group")


def test_infinite_metrics_are_null_in_json_and_inf_in_text(capsys, small_set):
    lines = (small_set / "scores").read_text().splitlines()
    first_target = (small_set / "trials").read_text().splitlines()[0].split()
    wrong = [
        f"{' '.join(first_target[:2])} -inf" if line.split()[:2] == first_target[:2] else line
        for line in lines
    ]
    (small_set / "scores").write_text("\n".join(wrong) + "\n")
    (found,) = run_json(capsys, small_set / "trials", small_set / "scores")
    assert found["cllr_0.5"] is None and found["min_cllr_lin_0.5"] < 1
    status, out, _ = run(capsys, small_set / "trials", small_set / "scores")
    assert status == 0 and "inf" in out


def test_allowed_oddities_are_counted_and_told(capsys, small_set):
    with (small_set / "trials").open("a") as stream:
        stream.write("nobody nothing target\n")
    files = small_set / "trials", small_set / "scores"
    status, out, err = run(capsys, *files)
    assert status == 1 and out == "" and "--allow-missing" in err
    status, out, err = run(capsys, "--json", "--allow-missing", *files)
    assert status == 0 and json.loads(out)[0]["n_missing"] == 1
    assert "WARNING" in err and "1 trials have no score" in err


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["--prior=0", "T", "S"], "prior of a target trial is 0"),
        (["--prior=1.2", "T", "S"], "prior of a target trial is 1.2"),
        (["--prior=half", "T", "S"], "expected numbers between commas"),
        (["--cost-miss=-1", "T", "S"], "cost of a miss is -1"),
        (["--eer=best", "T", "S"], "expected rocch or kaldi"),
        (["--bootstrap=-1", "T", "S"], "--bootstrap=-1: expected 0 or more"),
        (["--confidence=2", "T", "S"], "--confidence=2: expected between 0 and 1"),
        (["--duration-bins=4,2", "T", "S"], "expected rising seconds"),
        (["--plot-format=gif", "T", "S"], "expected pdf, png or svg"),
        (["--trials-form=odd", "T", "S"], "--trials-form=odd: expected one of"),
        (["--names=a,b", "T", "S"], "2 names for 1 score files"),
        (["--json", "--csv", "T", "S"], "cannot both go to stdout"),
        (["--report=/no/where/r.html", "T", "S"], "no directory '/no/where'"),
        (["--table=/no/table.toml"], "cannot be read"),
        (["--table=x.toml", "T", "S"], "takes the place of"),
        ([], "nothing to evaluate"),
        (["T", "/no/scores"], "no such file"),
        (["--utt2spk=/no/utt2spk", "T", "S"], "no such file"),
        (["--utt2spk=x", "S"], "--utt2spk needs ids"),
        (["--model=/no/bundle", "--report=R", "T", "S"], "has no model.json"),
    ],
)
def test_bad_usage_is_one_line_and_exit_1(capsys, small_set, arguments, words):
    stand_in = {"T": small_set / "trials", "S": small_set / "scores"}
    real = [
        str(stand_in.get(word, word)).replace("=R", f"={small_set / 'r.html'}")
        for word in arguments
    ]
    status, out, err = run(capsys, *real)
    assert status == 1
    assert words in err and err.count("ERROR") == 1 and err.count("\n") == 1
    assert not (small_set / "r.html").exists()


@pytest.mark.parametrize("missing,label", [("target", "nontarget"), ("nontarget", "target")])
def test_a_missing_class_is_told(capsys, tmp_path, missing, label):
    (tmp_path / "t").write_text(f"a b {label}\n")
    (tmp_path / "s").write_text("a b 1\n")
    status, _, err = run(capsys, tmp_path / "t", tmp_path / "s")
    assert status == 1 and f"no {missing} trials" in err and "set 't'" in err


def test_labels_that_contradict_utt2spk_are_told(capsys, small_set):
    path = small_set / "utt2spk"
    path.write_text(path.read_text().replace("s00-0 s00", "s00-0 s05"))
    status, _, err = run(
        capsys, f"--utt2spk={path}", "--bootstrap=5", small_set / "trials", small_set / "scores"
    )
    assert status == 1 and "'s00-0' and 's00-1' are 's05' and 's00'" in err


def test_help_shows_an_example_that_works(capsys, tmp_path, monkeypatch):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    example = next(line for line in text.splitlines() if "printf" in line)
    command = example.split("or: ", 1)[1].replace(
        "eval-scores -", f"{sys.executable} -m dcaplda.bin.eval_scores --json -"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0]["eer"] == 0.0
