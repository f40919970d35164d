"""A run that is stopped keeps what it reached: --resume goes on, --finish makes the model of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from training_world import draw, write_data_dir, write_dev, write_recipe

from dcaplda.runtime.errors import UsageError
from dcaplda.train.recipe.files import load_recipe
from dcaplda.train.run import Request, train
from dcaplda.train.steps.checkpoints import load_checkpoint, unprefixed
from dcaplda.train.steps.objective import Optimizer
from dcaplda.train.steps.stopping import Stopped, StopSignals
from dcaplda.train.store import load_model

pytestmark = pytest.mark.torch
FILES = ("model.safetensors", "log.jsonl", "training_summary.json", "summary.txt", "training.html")


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C reaches these tests and what they start, also where a shell in the background had it
    ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_data_dir(root / "train", draw(0))
    write_dev(root / "dev")
    write_recipe(root / "recipe.toml")
    (root / "alone.toml").write_text((root / "recipe.toml").read_text().split("[[dev]]")[0])
    return root


def run(world: Path, directory: Path, *settings: str, recipe="recipe.toml", say=None, **options):
    request = Request(
        data_dir=str(world / "train"),
        vectors=str(world / "train" / "xvector.npz"),
        directory=directory,
        config=load_recipe(str(world / recipe), settings),
        device=torch.device("cpu"),
        threads=1,
        quiet=True,
        **options,
    )
    tell = say or (lambda text: None)
    return train(request, tell, tell)


def stop_at(monkeypatch, *steps: int, number: int = signal.SIGINT) -> None:
    """A signal in the middle of these steps, counted over all runs."""
    real, made = Optimizer.step, 0

    def interrupted(self, batch, disturbance=None):
        nonlocal made
        made += 1
        if made in steps:
            os.kill(os.getpid(), number)
        return real(self, batch, disturbance)

    monkeypatch.setattr(Optimizer, "step", interrupted)


def same(one: Path, other: Path) -> bool:
    page = (one / "training.html").read_text().replace(one.name, other.name)
    assert page == (other / "training.html").read_text()
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in FILES[:-1])


@pytest.fixture(scope="module")
def straight(world, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("straight") / "exp"
    run(world, directory)
    return directory


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_step_is_finished_and_kept_and_the_run_goes_on_bit_for_bit(
    world, straight, tmp_path, monkeypatch, number
):
    # In stage 1 between two checkpoints, at the last step of stage 1, in stages 2 and 3.
    stop_at(monkeypatch, 3, 12, 18, 22, number=number)
    reached = []
    while True:
        try:
            run(world, tmp_path / "exp", resume=True)
            break
        except Stopped as stopped:
            reached.append((stopped.steps, stopped.asked))
            saved = load_checkpoint(tmp_path / "exp")
            assert saved is not None and saved.values["progress"]["total"] == stopped.steps
    assert reached == [(3, 24), (12, 24), (18, 24), (22, 24)]
    assert same(tmp_path / "exp", straight)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_stop_before_the_first_step_keeps_the_start(world, straight, tmp_path, monkeypatch):
    from dcaplda.train.selection.losses import Evaluator

    real = Evaluator.evaluate

    def interrupted(self, model, minimum=False):
        os.kill(os.getpid(), signal.SIGINT)
        return real(self, model, minimum)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "evaluate", interrupted)
        with pytest.raises(Stopped, match="after 0 of 24 steps"):
            run(world, tmp_path / "exp")
    run(world, tmp_path / "exp", resume=True)
    assert same(tmp_path / "exp", straight)


def test_finish_takes_the_best_so_far_and_resume_still_goes_on(
    world, straight, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        stop_at(patch, 15)
        with pytest.raises(Stopped):
            run(world, tmp_path / "exp")
    said: list[str] = []
    summary = run(world, tmp_path / "exp", finish=True, say=said.append)
    assert "finished early, after 15 of 24 steps" in said
    log = [json.loads(x) for x in (tmp_path / "exp" / "log.jsonl").read_text().splitlines()]
    best = min((row for row in log if "average" in row), key=lambda row: row["average"])
    assert max(row["total"] for row in log) == 15
    assert summary["average"] == best["average"]
    assert summary["selected"]["total"] == best["total"]
    assert summary["stopped"] == {"steps": 15, "asked": 24}
    assert summary["dev"][0]["cllr@0.01"] == pytest.approx(best["average"], rel=1e-5)
    assert "finished early" in (tmp_path / "exp" / "training.html").read_text()
    run(world, tmp_path / "exp", resume=True)
    assert same(tmp_path / "exp", straight)


def test_without_sets_finish_takes_the_last(world, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 9)
        with pytest.raises(Stopped):
            run(world, tmp_path / "exp", recipe="alone.toml")
    summary = run(world, tmp_path / "exp", recipe="alone.toml", finish=True)
    assert summary["selected"] == {"last": 9} and summary["steps"] == 9
    saved = load_checkpoint(tmp_path / "exp")
    assert saved is not None
    model = load_model(tmp_path / "exp")
    for name, value in unprefixed("model", saved.tensors).items():
        assert torch.equal(dict(model.named_parameters())[name], value), name
    assert not (tmp_path / "exp" / "training.html").exists()  # nothing was measured


def test_finish_of_held_out_batches_needs_no_start(world, tmp_path, monkeypatch):
    settings = ["batch.held_out_folds=2", "objective.l2_towards=start", "averaging.average=ema"]
    with monkeypatch.context() as patch:
        stop_at(patch, 15)
        with pytest.raises(Stopped):
            run(world, tmp_path / "exp", *settings)
        patch.setattr("dcaplda.train.run.find_start", None)
        assert run(world, tmp_path / "exp", *settings, finish=True)["steps"] == 15


def test_finish_needs_something_reached_and_leaves_a_finished_run_alone(world, straight, tmp_path):
    with pytest.raises(UsageError, match="has no checkpoint.safetensors, so --finish has nothing"):
        run(world, tmp_path / "none", finish=True)
    before = {name: (straight / name).read_bytes() for name in FILES}
    said: list[str] = []
    run(world, straight, finish=True, say=said.append)
    assert any("already finished" in line for line in said)
    assert before == {name: (straight / name).read_bytes() for name in FILES}


def test_another_number_of_steps_is_the_same_run(world, tmp_path, monkeypatch):
    """Stopped in stage 1, gone on with fewer and with more steps: as if asked for at first."""
    for count in (9, 16):
        steps = f"stage1.steps={count}"
        run(world, tmp_path / f"straight{count}", steps)
        with monkeypatch.context() as patch:
            stop_at(patch, 7)
            with pytest.raises(Stopped):
                run(world, tmp_path / f"changed{count}")
        run(world, tmp_path / f"changed{count}", steps, resume=True)
        assert same(tmp_path / f"straight{count}", tmp_path / f"changed{count}")


def test_fewer_steps_than_were_made_end_the_stage(world, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        with pytest.raises(Stopped):
            run(world, tmp_path / "exp")
    settings = [f"stage{number}.steps=0" for number in (1, 2, 3)]
    assert run(world, tmp_path / "exp", *settings, resume=True)["steps"] == 7


def test_a_finished_run_says_where_more_steps_are_made(world, straight):
    said: list[str] = []
    run(world, straight, "stage1.steps=50", resume=True, say=said.append)
    assert any("24 steps, 62 are asked for now" in x and "--start-model" in x for x in said)


def test_the_second_interrupt_does_not_wait():
    said: list[str] = []
    with StopSignals(said.append) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert stop.asked and "Ctrl-C again" in said[0]
        os.kill(os.getpid(), signal.SIGTERM)  # of a parent that heard the same Ctrl-C
        time.sleep(0.01)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals(print) as stop:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            assert not stop.asked
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone():
    before = signal.getsignal(signal.SIGINT)

    def enter() -> None:
        with StopSignals(print):
            assert signal.getsignal(signal.SIGINT) is before

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before


def command(world: Path, directory: Path, *options: str) -> list[str]:
    tool = str(Path(__file__).parents[3] / "bin" / "_checkout.py")
    arguments = [str(world / "train"), str(world / "train" / "xvector.npz"), str(directory)]
    settings = ["--set=stage1.steps=100000", "--set=run.checkpoint_every=100000"]
    recipe = f"--config={world / 'recipe.toml'}"
    return [sys.executable, tool, "train-backend", recipe, "--threads=1", *settings, *options,
            *arguments]  # fmt: skip


def wait_for_steps(log: Path, child: subprocess.Popen) -> None:
    end = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size):
        assert child.poll() is None and time.monotonic() < end
        time.sleep(0.02)


def test_ctrl_c_of_the_tool_says_how_to_go_on_and_both_ways_work(world, tmp_path):
    import shlex

    child = subprocess.Popen(command(world, tmp_path / "exp"), stderr=subprocess.PIPE, text=True)
    wait_for_steps(tmp_path / "exp" / "log.jsonl", child)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[1].splitlines()
    assert child.returncode == 1
    assert "what was reached is kept" in said[-1] and "Traceback" not in "\n".join(said)
    assert "; go on with: train-backend " in said[-1]
    finish = shlex.split(said[-1].partition("make the model of it with: ")[2])
    assert finish[0] == "train-backend" and "--finish" in finish
    done = subprocess.run(
        [*command(world, tmp_path / "exp")[:2], *finish], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "finished early, after" in done.stderr
    assert (tmp_path / "exp" / "bundle" / "model.json").is_file()


@pytest.mark.slow
def test_ctrl_c_of_several_seeds_keeps_each_and_finish_selects(world, tmp_path):
    options = ("--seeds=0-2", "--jobs=2")
    talk = open(tmp_path / "talk", "w")
    child = subprocess.Popen(
        command(world, tmp_path / "exp", *options), stderr=talk, start_new_session=True
    )
    for seed in (0, 1):
        wait_for_steps(tmp_path / "exp" / f"seed-{seed}" / "log.jsonl", child)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    assert child.wait(60) == 1
    for seed in (0, 1):
        assert load_checkpoint(tmp_path / "exp" / f"seed-{seed}") is not None
    assert "--finish" in (tmp_path / "talk").read_text().splitlines()[-1]
    done = subprocess.run(
        command(world, tmp_path / "exp", *options, "--finish"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "is selected" in done.stderr
    assert (tmp_path / "exp" / "bundle" / "model.json").is_file()
    assert not (tmp_path / "exp" / "seed-0" / "bundle").exists()
