"""What got better or worse since an earlier evaluation: against draws by hand, and by chance."""

import json

import numpy as np
import pytest
from paired_sets import N_REPLICATES, by_hand, write_set

from dcaplda.bin.eval_scores import main
from dcaplda.eval.comparison import Earlier, compare, kept_draws, read_earlier
from dcaplda.eval.results import Result

PEOPLE = [f"p{i:02d}" for i in range(12)]


@pytest.fixture
def sets(tmp_path):
    """Two sets of one group; systems: the same, a little shifted, far too low."""
    rng = np.random.default_rng(5)
    made = {}
    lines = []
    for name in ("full", "short"):
        shifts = {"good": 0.0, "near": 0.01, "bad": -0.9}
        made[name] = write_set(tmp_path, name, PEOPLE, rng, shifts)
        lines += ["[[set]]", f'name = "{name}"', f'trials = "{name}.trials"', 'group = "all"']
        lines += [f'utt2spk = "{name}.utt2spk"']
    for system in ("good", "near", "bad"):
        own = [*lines, "[[system]]", 'name = "ours"', f'scores = "{{set}}.{system}"']
        (tmp_path / f"{system}.toml").write_text("\n".join(own))
    return tmp_path, made


def run(folder, system, *options):
    table = f"--table={folder / system}.toml"
    return main(["--print-args=false", f"--bootstrap={N_REPLICATES}", *options, table])


def keep(folder, system="good", *options):
    path = folder / "old.json"
    assert run(folder, system, f"--json={path}", *options) == 0
    return path


def test_nothing_changed_is_not_worse(sets, capsys):
    folder, _ = sets
    old = keep(folder)
    assert run(folder, "good", f"--against={old}", "--fail-if-worse") == 0
    told = capsys.readouterr()
    assert f"Difference from {old} (* the interval leaves out zero)" in told.out
    assert "0 worse, 0 better, 6 not told from chance (95 % intervals of all 6 diff" in told.err


def test_worse_fails_only_if_asked_and_better_never(sets, capsys):
    folder, _ = sets
    old = keep(folder)
    assert run(folder, "bad", f"--against={old}") == 0
    assert "WARNING: worse: ours on full, Cllr at 0.5 changed by +" in capsys.readouterr().err
    assert run(folder, "bad", f"--against={old}", "--fail-if-worse") == 1
    told = capsys.readouterr().err
    assert "worse: ours on all (mean), Cllr at 0.5" in told
    assert told.count("ERROR") == 1 and "(--fail-if-worse)" in told
    old = keep(folder, "bad")
    assert run(folder, "good", f"--against={old}", "--fail-if-worse") == 0
    assert "LOG: better: ours on full, Cllr at 0.5 changed by -" in capsys.readouterr().err


def test_intervals_hold_together_as_by_hand(sets):
    """Half-width: the quantile of the largest of all differences in units of their spreads."""
    folder, made = sets
    old = keep(folder, "good", "--prior=0.5")
    new = folder / "new.json"
    options = (f"--against={old}", f"--json={new}", "--prior=0.5")
    assert run(folder, "bad", *options) == 0
    found = {r["set"]: r for r in json.loads(new.read_text())}
    rows = []
    for name in ("full", "short"):
        pairs, truth, scores = made[name]
        drawn = [by_hand(PEOPLE, pairs, truth, scores[system]) for system in ("bad", "good")]
        rows.append(drawn[0] - drawn[1])
    rows.append(np.mean(rows, axis=0))
    spread = [row.std() for row in rows]
    far = np.max([np.abs(r - r.mean()) / s for r, s in zip(rows, spread, strict=True)], axis=0)
    reach = np.quantile(far, 0.95, method="inverted_cdf")
    was = {r["set"]: r["cllr_0.5"] for r in json.loads(old.read_text())}
    for name, s in zip(("full", "short", "all"), spread, strict=True):
        change = found[name]["change"]
        assert change["against"] == str(old)
        centre = found[name]["cllr_0.5"] - was[name]
        assert change["cllr_0.5"] == pytest.approx(centre, abs=1e-12)
        expected = centre - reach * s, centre + reach * s
        # Scores and kept draws are float32.
        assert change["intervals"]["cllr_0.5"] == pytest.approx(expected, abs=1e-5)


def result(name, values, rows, draws="same"):
    return Result("ours", name, "", 9, 9, values, replicates=rows, draws=draws)


def test_by_chance_one_run_in_twenty_finds_anything_among_many():
    """Forty sets without any true change; plain intervals would find some in nearly every run."""
    rng = np.random.default_rng(0)
    n_runs, n_sets, alarms, plain = 300, 40, 0, 0
    for _ in range(n_runs):
        old, new = {}, []
        for number in range(n_sets):
            error = rng.normal(0, 0.01)  # of the measured difference, with the draws' own spread
            rows = rng.normal(0.3, 0.01, 200)
            name = f"s{number}"
            old["ours", name, False] = Earlier({"cllr_0.5": 0.3}, "same", {"cllr_0.5": rows * 0})
            new.append(result(name, {"cllr_0.5": 0.3 + error}, rows[:, None]))
            plain += abs(error) > 1.96 * 0.01
        since = compare(new, old, "old.json", 0.95)
        alarms += bool(since.changed(1) or since.changed(-1))
    assert plain / n_runs > 1.0
    # Binomial(300, 0.05) is at most 30 with probability 0.9998.
    assert alarms <= 30


def test_kept_draws_come_back(tmp_path):
    rows = np.array([[0.25, 7.0], [0.5, 8.0]])
    record = {"system": "a", "set": "b", "cllr_0.5": 0.3, "eer": 4.0}
    record |= kept_draws(result("b", {"cllr_0.5": 0.3, "eer": 4.0}, rows))
    (tmp_path / "old.json").write_text(json.dumps([record]))
    (found,) = read_earlier(str(tmp_path / "old.json")).values()
    assert found.values == {"cllr_0.5": 0.3} and found.draws == "same"
    assert {k: v.tolist() for k, v in found.replicates.items()} == {"cllr_0.5": [0.25, 0.5]}


def test_a_set_that_is_gone_or_unpaired_fails_too(sets, capsys):
    folder, _ = sets
    old = keep(folder)
    assert run(folder, "good", f"--against={old}", "--fail-if-worse", "--seed=3") == 1
    assert "and 2 more has no intervals: other people, another seed" in capsys.readouterr().err
    text = (folder / "good.toml").read_text()
    (folder / "less.toml").write_text(text[: text.index("[[set]]", 9)] + text[text.index("[[sy") :])
    assert run(folder, "less", f"--against={old}", "--fail-if-worse") == 1
    told = capsys.readouterr().err
    assert "ours on short was evaluated then and not now" in told


def test_one_system_may_have_another_name(sets, capsys):
    folder, _ = sets
    old = keep(folder)
    text = (folder / "bad.toml").read_text().replace('"ours"', '"v2"')
    (folder / "v2.toml").write_text(text)
    assert run(folder, "v2", f"--against={old}", "--fail-if-worse") == 1
    assert "worse: v2 on full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("no json", "not a file that eval-scores --json wrote"),
        ('[{"system": "a"}]', "not a file that eval-scores --json wrote"),
        ('[{"system": "ours", "set": "full", "cllr_0.1": 1}]', "give --prior=0.1"),
        ('[{"system": "a", "set": "b", "cllr_0.5": 1}]', "has none of these sets and systems"),
    ],
)
def test_a_file_that_cannot_be_compared_is_one_line(sets, capsys, content, words):
    folder, _ = sets
    if content is not None:
        (folder / "odd.json").write_text(content)
    assert run(folder, "good", f"--against={folder}/odd.json") == 1
    told = capsys.readouterr().err
    assert words in told and told.count("ERROR") == 1 and told.count("\n") == 1


def test_fail_if_worse_needs_an_earlier_file(sets, capsys):
    assert run(sets[0], "good", "--fail-if-worse") == 1
    assert "--fail-if-worse needs --against=FILE" in capsys.readouterr().err
