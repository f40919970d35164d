"""egs/simulated/adaptation.sh: its tables from made-up figures, and a whole run of few steps."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RECIPE = Path(__file__).parents[2] / "egs" / "simulated"
SHORT = {"DCAPLDA_PYTHON": sys.executable}


def table(folder: Path) -> list[list[str]]:
    command = [sys.executable, RECIPE / "local/places.py", "table", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]


def log2_cost(llrs: list[float], targets: list[bool]) -> float:
    """Cllr at 0.5, written out."""
    signs = np.where(targets, -1.0, 1.0)
    costs = np.log2(1.0 + np.exp(signs * np.array(llrs)))
    picked = np.array(targets)
    return float(0.5 * costs[picked].mean() + 0.5 * costs[~picked].mean())


def test_the_table_has_means_over_sets_and_the_oracle_of_the_same_trials(tmp_path: Path) -> None:
    """Two sets, two pools; the oracle's scores of trials that no halving has do not count."""
    trials = [("a", "b", "target"), ("a", "c", "nontarget"), ("d", "b", "nontarget")]
    trials += [("d", "e", "target")]
    exact = {"far": [2.0, -1.0, 0.5, -0.2], "near": [3.0, -4.0, -1.0, 1.0]}
    for name, llrs in exact.items():
        data, place = tmp_path / "data" / name, tmp_path / "places" / name
        data.mkdir(parents=True)
        for kind, ways in (("single", ["single"]), ("multi", ["joint", "scores"])):
            lines = [f"{a} {b} {x}" for (a, b, _), x in zip(trials, llrs, strict=True)]
            (data / f"oracle_{kind}").write_text("\n".join([*lines, "a z 99.0"]) + "\n")
            (place / kind / name / "0").mkdir(parents=True)
            listed = "".join(" ".join(trial) + "\n" for trial in trials)
            (place / kind / name / "0/trials").write_text(listed)
            rows = []
            for way in ways:
                for pool, cost in (("all", 9.0), ("0", 0.4), ("10", 0.3), ("30", 0.2)):
                    cost += 0.1 if name == "far" else 0.0
                    rows.append(f"{name}\t0\t{way}\t{pool}\t{cost}\t0.1\t0.5\t0.2\t0\n")
            (place / f"{kind}.tsv").write_text("".join(rows))
    head, _, one, joint, scores = table(tmp_path / "places")
    assert head == ["enrolled", "nothing", "10", "30", "oracle"]
    assert one[:4] == ["one", "0.450 / 0.100 [0.500]", "0.350 / 0.100 [0.500]", one[3]]
    assert one[3].startswith("0.250") and joint[0] == "three, joint" and "mean" in scores[0]
    targets = [kind == "target" for *_, kind in trials]
    floor = np.mean([log2_cost(llrs, targets) for llrs in exact.values()])
    assert one[4].startswith(f"{floor:.3f} / ") and joint[4] == one[4]


def test_a_folder_without_sets_is_told(tmp_path: Path) -> None:
    command = [sys.executable, RECIPE / "local/places.py", "table", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "run adaptation.sh" in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_options_are_refused() -> None:
    done = subprocess.run([RECIPE / "adaptation.sh", "--halving=3"], capture_output=True, text=True)
    assert done.returncode == 1 and "no option '--halving'" in done.stderr


@pytest.mark.slow
@pytest.mark.torch
def test_the_whole_recipe_runs_with_a_few_steps(tmp_path: Path) -> None:
    """The demo world: three enrolled cost less than one, the oracle least of all."""
    options = "--set=init.joint_steps=5 --set=init.calibration_rounds=2"
    command = [
        RECIPE / "adaptation.sh",
        f"--dir={tmp_path}",
        "--halvings=1",
        f"--options={options}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **SHORT})
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (tmp_path / "places/adaptation.md").read_text().splitlines()
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in lines if " / 0." in line}
    costs = {name: [float(cell.split("/")[0]) for cell in row[:1]] for name, row in rows.items()}
    assert costs["three, joint"] < costs["one"] and costs["5"] < costs["1"]
    assert all(float(r[3].split("/")[0]) < costs[n][0] for n, r in rows.items() if len(r) == 4)
