"""train-backend without a recipe: it trains, tells what it chose, and measures itself."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from training_world import Sample, draw, write_data_dir, write_table

from dcaplda.bin.train_backend import main
from dcaplda.eval.metrics.calibration import fit_affine
from dcaplda.eval.metrics.scalars import cllr
from dcaplda.train.recipe.auto import AUTO_KEYS

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
FAST = (
    "--threads=1",
    "--set=held_out.people=2",
    "--set=held_out.domains=0",
    "--set=held_out.contest=false",
)


def train(data: Path, directory: Path, *options: str) -> int:
    return main([*options, str(data), str(data / "xvector.npz"), str(directory)])


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if "ERROR" in line]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("auto") / "data", draw(0, sessions=3))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("auto") / "exp"
    assert train(data, directory, "--threads=1") == 0
    return directory


def test_choices_are_in_the_summary_and_in_the_recipe_that_was_used(finished):
    summary = json.loads((finished / "training_summary.json").read_text())
    used = tomllib.loads((finished / "config.toml").read_text())
    assert {choice["setting"] for choice in summary["choices"]} == set(AUTO_KEYS)
    for choice in summary["choices"]:
        section, key = choice["setting"].split(".")
        assert used[section][key] == choice["value"] != "auto"
        assert choice["reason"]


def test_the_run_ends_with_figures_of_parts_held_out_and_a_verdict(finished):
    held_out = json.loads((finished / "training_summary.json").read_text())["held_out"]
    kinds = [part["kind"] for part in held_out["parts"]]
    assert kinds.count("people") == 5 and kinds.count("domain") == 3
    for part in held_out["parts"]:
        assert 0 < part["min_cllr"] <= part["cllr"] + 1e-9
        assert part["targets"] > 0 and part["nontargets"] > 0
    assert held_out["cllr"] == pytest.approx(np.mean([p["cllr"] for p in held_out["parts"]]))
    table = (finished / "summary.txt").read_text()
    assert held_out["verdict"] in table
    assert "unknown" not in table and "nan" not in table


def test_the_same_command_twice_gives_the_same_bytes(data, finished, tmp_path):
    assert train(data, tmp_path / "exp", "--threads=1") == 0
    for name in ("model.safetensors", "config.toml", "training_summary.json", "summary.txt"):
        assert (tmp_path / "exp" / name).read_bytes() == (finished / name).read_bytes()


def test_steps_are_calibrated_by_parts_and_resume_to_the_same_bytes(data, tmp_path, monkeypatch):
    options = ["--threads=1", "--variant=d-plda-dsd", "--set=stage1.steps=6"]
    options += ["--set=stage2.steps=6", "--set=batch.size=24", "--set=run.checkpoint_every=4"]
    options += ["--set=held_out.people=2", "--set=held_out.domains=0"]
    assert train(data, tmp_path / "whole", *options) == 0
    summary = json.loads((tmp_path / "whole" / "training_summary.json").read_text())
    correction = summary["held_out"]["correction"]
    assert (correction["scale"], correction["shift"]) != (1.0, 0.0)
    assert summary["selected"] == {"average": "ema", "last": 12}
    assert "stage1.steps" not in {match["setting"] for match in summary["contest"]}

    from dcaplda.train import run
    from dcaplda.train.steps.objective import Optimizer

    step, held, made = Optimizer.step, run.hold_contest, []

    def dies(self, *arguments):
        made.append(1)
        if len(made) == 7:
            raise KeyboardInterrupt
        return step(self, *arguments)

    def over(*arguments):
        found = held(*arguments)
        made.clear()
        return found

    monkeypatch.setattr(run, "hold_contest", over)
    monkeypatch.setattr(Optimizer, "step", dies)
    # The first time it dies in the contest, then in the training itself, and goes on.
    assert train(data, tmp_path / "parts", *options) == 1
    assert not (tmp_path / "parts" / "contest.json").exists()
    made.extend([1] * 7)
    assert train(data, tmp_path / "parts", *options, "--resume") == 1
    assert (tmp_path / "parts" / "contest.json").exists()
    monkeypatch.setattr(Optimizer, "step", step)
    assert train(data, tmp_path / "parts", *options, "--resume") == 0
    for name in ("model.safetensors", "training_summary.json", "log.jsonl", "config.toml"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_what_was_tried_is_told_everywhere(finished):
    summary = json.loads((finished / "training_summary.json").read_text())
    tried = {match["setting"] for match in summary["contest"]}
    assert {"init.lda_shrinkage", "init.shrinkage", "model.lda_dim"} <= tried
    for match in summary["contest"]:
        assert match["error"] > 0 and 0 < match["cllr"] < 2
        assert match["beyond"] == (match["better"] > match["error"])
    page = (finished / "training.html").read_text()
    assert "What else was tried on held-out parts" in page
    used = (finished / "config.toml").read_text()
    assert f"# init.lda_shrinkage = {summary['contest'][0]['value']} for " in used
    reasons = {choice["setting"]: choice["reason"] for choice in summary["choices"]}
    assert "+-" in reasons["init.lda_shrinkage"]


def simulated(domain: str, people: int, utterances: int, seed: int) -> Sample:
    """People of one domain of the demo's world, each utterance of a recording of its own."""
    from dcaplda.simulate.config import load_world
    from dcaplda.simulate.draws import described, draw_recordings, draw_utterances, log_uniform
    from dcaplda.simulate.world import build_world

    config = load_world(str(ROOT / "egs" / "simulated" / "conf" / "demo-world.toml"))
    world = build_world(config, 0)
    rng = np.random.default_rng(seed)
    drawn = draw_recordings(rng, world, world.domains[domain], people, utterances)
    which = np.arange(people * utterances)
    seconds = log_uniform(rng, [4.0, 60.0], len(which))
    vectors = draw_utterances(rng, world, world.domains[domain], drawn, which, seconds)
    marks = ["-c0"] * len(which)
    found = described(world.domains[domain], drawn, which, seconds, vectors, domain, marks)
    tables = (found.speakers, found.sessions, found.domains, found.seconds.tolist())
    return Sample(
        found.ids, found.embeddings, *(dict(zip(found.ids, t, strict=True)) for t in tables)
    )


def test_twenty_people_of_one_domain_beat_calibrated_cosine(tmp_path, capsys):
    sample = simulated("mix", people=20, utterances=5, seed=1)
    data = write_data_dir(tmp_path / "data", sample)
    assert train(data, tmp_path / "exp", "--threads=1") == 0
    told = capsys.readouterr().err
    assert "20 people: every figure will be rough" in told
    assert "cannot be learnt or measured here" in told
    held_out = json.loads((tmp_path / "exp" / "training_summary.json").read_text())["held_out"]
    assert "not known" in held_out["verdict"]
    assert len(held_out["parts"]) == 5
    assert held_out["cllr"] < cosine_loss(sample)


def cosine_loss(sample: Sample) -> float:
    """Mean Cllr over the same five folds of people, calibrated on the other four."""
    from dcaplda.train.data.folds import speaker_parts

    data = sample.data()
    x = data.embeddings / np.linalg.norm(data.embeddings, axis=1, keepdims=True)
    found = []
    for part in speaker_parts(data, 5):
        scale, shift = fit_affine(*cosines(x[part.others], data.identity[part.others]), 0.5)
        targets, nontargets = cosines(x[part.rows], data.identity[part.rows])
        found.append(cllr(scale * targets + shift, scale * nontargets + shift, 0.5))
    return float(np.mean(found))


def cosines(x: np.ndarray, people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    upper = np.triu(np.ones((len(x), len(x)), dtype=bool), 1)
    same = people[:, None] == people[None, :]
    scores = (x @ x.T).astype(np.float64)
    return scores[same & upper], scores[~same & upper]


def test_missing_labels_are_made_up_for_and_told(tmp_path, capsys):
    data = write_data_dir(tmp_path / "data", draw(0))
    for name in ("utt2sess", "utt2dom"):
        (data / name).unlink()
    assert train(data, tmp_path / "exp", *FAST) == 0
    told = capsys.readouterr().err
    assert "no utt2sess: ids without their last word are taken for sessions" in told
    assert "no utt2dom" in told


def test_data_without_durations_are_trained_on(tmp_path, capsys):
    data = write_data_dir(tmp_path / "data", draw(0))
    (data / "utt2dur").unlink()
    assert train(data, tmp_path / "exp", *FAST) == 0
    assert "no durations (utt2dur)" in capsys.readouterr().err


def nobody_twice(data: Path, sample: Sample) -> None:
    write_table(data / "utt2sess", sample.speaker)


def one_speaker(data: Path, sample: Sample) -> None:
    chosen = {u: s for u, s in sample.speaker.items() if s == "d0s000"}
    write_table(data / "utt2spk", chosen)


def all_equal(data: Path, sample: Sample) -> None:
    ones = np.ones_like(sample.vectors)
    np.savez(data / "xvector.npz", ids=np.array(sample.ids), data=ones)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (nobody_twice, "no speaker has two sessions"),
        (one_speaker, "1 people with two sessions; at least 4 are needed"),
        (all_equal, "embeddings are the same"),
    ],
)
def test_nonsense_gets_one_line(tmp_path, capsys, spoil, message: str):
    sample = draw(0)
    data = write_data_dir(tmp_path / "data", sample)
    spoil(data, sample)
    assert train(data, tmp_path / "exp", "--print-args=false") == 1
    found = errors(capsys.readouterr().err)
    assert len(found) == 1
    assert message in found[0]
    assert not (tmp_path / "exp" / "model.safetensors").exists()


def recipe_with_dev(directory: Path, **sizes: int) -> Path:
    """A recipe in which all is "auto" but a development set."""
    from training_world import all_trials

    sample = draw(5, prefix="v", **sizes)
    dev = write_data_dir(directory / "dev", sample)
    lines = [" ".join(trial) + "\n" for trial in all_trials(sample)]
    (dev / "trials").write_text("".join(lines))
    auto = "".join(
        f"{section}.{key} = 'auto'\n" for section, key in (k.split(".") for k in AUTO_KEYS)
    )
    recipe = directory / "recipe.toml"
    recipe.write_text(
        auto + "[[dev]]\nname = 'own'\nxvectors = 'dev/xvector.npz'\ndurations = 'dev/utt2dur'\n"
        "trials = 'dev/trials'\n"
    )
    return recipe


STEPS = ("--variant=d-plda-dsd", "--set=stage1.steps=2", "--set=stage2.steps=2")
STEPS += ("--set=batch.size=24",)


def test_small_development_sets_are_reported_and_change_nothing(data, tmp_path, capsys):
    recipe = recipe_with_dev(tmp_path, speakers=4, sessions=2, chunks=1)
    assert train(data, tmp_path / "exp", f"--config={recipe}", *FAST, *STEPS) == 0
    said = capsys.readouterr().err
    assert "12 target trials, too few to choose a model by" in said
    assert "parts held out judge the result and correct its calibration" in said
    summary = json.loads((tmp_path / "exp" / "training_summary.json").read_text())
    assert [row["name"] for row in summary["dev"]] == ["own"]
    assert summary["average"] is None
    assert summary["held_out"]["parts"]
    assert train(data, tmp_path / "none", *FAST, *STEPS) == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("exp", "none")]
    assert models[0] == models[1]


def test_development_sets_that_choose_leave_the_calibration_alone(data, tmp_path, capsys):
    recipe = recipe_with_dev(tmp_path, speakers=12)
    assert train(data, tmp_path / "exp", f"--config={recipe}", *FAST, *STEPS) == 0
    assert "too few to choose" not in capsys.readouterr().err
    summary = json.loads((tmp_path / "exp" / "training_summary.json").read_text())
    assert sum(row["targets"] for row in summary["dev"]) >= 200
    assert summary["held_out"]["correction"] == {"scale": 1.0, "shift": 0.0}
    choice = next(c for c in summary["choices"] if c["setting"] == "held_out.calibrate")
    assert choice["value"] is False and "development sets" in choice["reason"]
