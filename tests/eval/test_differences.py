"""Intervals of averages and paired differences, against draws written out by hand."""

import json

import numpy as np
import pytest
from paired_sets import N_PEOPLE, N_REPLICATES, by_hand, write_set

from dcaplda.bin.eval_scores import main
from dcaplda.eval.metrics.scalars import cllr


@pytest.fixture
def evaluated(tmp_path):
    """Two sets of the same people and one of others, two systems."""
    rng = np.random.default_rng(3)
    groups = {"full": "a", "short": "a", "else": "b"}
    made, lines = {}, []
    for name, letter in groups.items():
        people = [f"{letter}{i:02d}" for i in range(N_PEOPLE)]
        made[name] = (people, *write_set(tmp_path, name, people, rng, {"one": 0.0, "two": 0.3}))
        lines += ["[[set]]", f'name = "{name}"', f'trials = "{name}.trials"']
        lines += [f'utt2spk = "{name}.utt2spk"', f'group = ["{letter}", "all"]']
    for system in ("one", "two"):
        lines += ["[[system]]", f'name = "{system}"', f'scores = "{{set}}.{system}"']
    (tmp_path / "sets.toml").write_text("\n".join(lines))
    command = [f"--table={tmp_path}/sets.toml", f"--bootstrap={N_REPLICATES}", "--baseline=one"]
    assert main([*command, f"--json={tmp_path}/out.json"]) == 0
    records = json.loads((tmp_path / "out.json").read_text())
    return made, {(r["set"], r["system"]): r for r in records}


def ends(rows, measured):
    """Percentiles, moved by the bias: the distance of the replicates' mean from the value."""
    return np.quantile(rows, [0.025, 0.975], method="inverted_cdf") - (rows.mean() - measured)


def test_an_average_and_its_interval_are_those_of_the_draws(evaluated):
    """Within 1e-6: the tool reads float32 scores and sums in another order."""
    made, found = evaluated
    rows = {n: by_hand(p, pairs, t, s["two"]) for n, (p, pairs, t, s) in made.items()}
    mean = found["all", "two"]
    assert mean["average_of"] == ["full", "short", "else"]
    exact = [cllr(s["two"][t], s["two"][~t], 0.5) for _, _, t, s in made.values()]
    assert mean["cllr_0.5"] == pytest.approx(np.mean(exact), abs=1e-6)
    expected = ends(np.mean(list(rows.values()), axis=0), np.mean(exact))
    np.testing.assert_allclose(mean["intervals"]["cllr_0.5"], expected, atol=1e-6)


def test_sets_of_the_same_people_share_their_draws(evaluated):
    made, found = evaluated
    rows = [by_hand(*made[name][:3], made[name][3]["one"]) for name in ("full", "short")]
    expected = ends(np.mean(rows, axis=0), found["a", "one"]["cllr_0.5"])
    np.testing.assert_allclose(found["a", "one"]["intervals"]["cllr_0.5"], expected, atol=1e-6)


def test_differences_are_paired(evaluated):
    made, found = evaluated
    people, pairs, truth, scores = made["else"]
    rows = {system: by_hand(people, pairs, truth, scores[system]) for system in ("one", "two")}
    told = found["else", "two"]["difference"]
    assert told["baseline"] == "one"
    exact = found["else", "two"]["cllr_0.5"] - found["else", "one"]["cllr_0.5"]
    assert told["cllr_0.5"] == pytest.approx(exact, abs=1e-12)
    expected = ends(rows["two"] - rows["one"], exact)
    np.testing.assert_allclose(told["intervals"]["cllr_0.5"], expected, atol=1e-6)
    # Paired, the interval is narrower than that of either system.
    width = np.diff(found["else", "one"]["intervals"]["cllr_0.5"])
    assert np.diff(told["intervals"]["cllr_0.5"]) < width
    assert "difference" not in found["else", "one"]


def test_the_table_shows_differences_and_an_unknown_baseline_is_refused(tmp_path, capsys):
    rng = np.random.default_rng(0)
    people = [f"p{i}" for i in range(8)]
    write_set(tmp_path, "set", people, rng, {"one": 0.0, "two": 0.5})
    files = [str(tmp_path / f"set.{word}") for word in ("trials", "one", "two")]
    speakers = f"--utt2spk={tmp_path}/set.utt2spk"
    assert main(["--names=one,two", "--bootstrap=50", speakers, "--baseline=one", *files]) == 0
    shown = capsys.readouterr().out
    assert "Difference from one (* the interval leaves out zero)" in shown
    assert main(["--names=one,two", "--baseline=three", *files]) == 1
    assert "--baseline=three: no such system; there are one, two" in capsys.readouterr().err
