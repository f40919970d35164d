"""Every tensor and value of a checkpoint is looked at; a damaged one is one line, never a model."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from training_world import draw, write_data_dir, write_dev, write_recipe

from dcaplda.bin.train_backend import main
from dcaplda.train.steps.checkpoints import CHECKPOINT, checkpoint_header, load_checkpoint

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_data_dir(root / "train", draw(0))
    write_dev(root / "dev")
    write_recipe(root / "recipe.toml")
    return root


def resume(world: Path, directory: Path, average: str = "ema", vectors: str = "train") -> int:
    arguments = [str(world / "train"), str(world / vectors / "xvector.npz"), str(directory)]
    options = [f"--config={world / 'recipe.toml'}", "--threads=1", "--resume", "--export=false"]
    return main([*options, f"--set=averaging.average={average}", *arguments])


def unfinished(world: Path, directory: Path, average: str) -> Path:
    """All steps made, killed before the summary: resuming only takes what the checkpoint has."""
    assert resume(world, directory, average) == 0
    for name in ("training_summary.json", "model.safetensors"):
        (directory / name).unlink()
    return directory


@pytest.fixture(scope="module")
def runs(world, tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    return {kind: unfinished(world, root / kind, kind) for kind in ("ema", "top-k", "none")}


def rewrite(directory: Path, change: Callable[[dict, dict], None]) -> None:
    """Change tensors and values of a checkpoint, and write it as training does."""
    saved = load_checkpoint(directory)
    assert saved is not None
    change(saved.tensors, saved.values)
    header = checkpoint_header(saved.tensors, json.dumps(saved.values))
    save_file(saved.tensors, str(directory / CHECKPOINT), metadata=header)


def set_nan(name: str) -> Callable[[dict, dict], None]:
    def change(tensors: dict, values: dict) -> None:
        tensors[name].view(-1)[0] = math.nan

    return change


def tensor(
    name: str, value: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[dict, dict], None]:
    return lambda tensors, values: tensors.update({name: value(tensors[name]).contiguous()})


def value(*path: str, to: object) -> Callable[[dict, dict], None]:
    def change(tensors: dict, values: dict) -> None:
        table = values
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = to

    return change


def swapped(order: torch.Tensor) -> torch.Tensor:
    """The first and the last item exchanged: they are of different speakers."""
    return torch.cat([order[-1:], order[1:-1], order[:1]])


DAMAGES = {
    "nan-model": (set_nan("model.plda.cross"), "'model.plda.cross' holds NaN"),
    "nan-best": (set_nan("best.scale_dur.offset"), "'best.scale_dur.offset' holds NaN"),
    "nan-moment": (set_nan("adam.plda.cross.exp_avg"), "'adam.plda.cross.exp_avg' holds NaN"),
    "nan-average": (set_nan("averager.average.plda.cross"), "average.plda.cross' holds NaN"),
    "nan-found": (set_nan("averager.found.plda.cross"), "found.plda.cross' holds NaN"),
    "negative-moment": (
        tensor("adam.plda.cross.exp_avg_sq", lambda t: t - 1.0),
        "'adam.plda.cross.exp_avg_sq' holds negative values",
    ),
    "type": (tensor("model.plda.linear", lambda t: t.double()), "holds torch.float64, expected"),
    "shape": (tensor("best.plda.linear", lambda t: t[:-1]), "has shape (9,), expected (10,)"),
    "random-type": (tensor("random", lambda t: t.float()), "'random' holds torch.float32"),
    "random-size": (tensor("random", lambda t: t[:-8]), "'random' has shape"),
    "random-content": (tensor("random", lambda t: torch.full_like(t, 255)), "damaged"),
    "walker-type": (
        tensor("walker.speakers.order", lambda t: t.float()),
        "'walker.speakers.order' holds torch.float32",
    ),
    "walker-content": (
        tensor("walker.samples.order", lambda t: torch.zeros_like(t)),
        "the order of the batches",
    ),
    "walker-groups": (tensor("walker.samples.order", swapped), "the order of the batches"),
    "walker-used": (tensor("walker.sessions.used", lambda t: t + 99), "more of the batches' lists"),
    "missing": (lambda t, v: t.pop("model.plda.auto"), "'model.plda.auto' is missing"),
    "extra": (lambda t, v: t.update(surplus=torch.zeros(2)), "'surplus' is not a part"),
    "no-best": (value("best", to=None), "is not a part of this run"),
    "best-loss": (value("best", "loss", to="low"), "'best' is not a loss and a place"),
    "stage": (value("progress", "stage", to=7), "'progress' is stage 7"),
    "step": (value("progress", "total", to=-1), "'progress' is stage"),
    "progress": (value("progress", to=[1]), "'progress' is not stage"),
    "start": (value("progress", "start", to={"actual": 3}), "'progress.start'"),
    "generator": (value("generator", "state", "state", to="x"), "'generator'"),
    "generator-kind": (value("generator", to={"bit_generator": "MT19937"}), "'generator'"),
    "log": (value("log_bytes", to=-5), "'log_bytes'"),
    "averager": (value("averager", to=[{"loss": 0.5, "place": {}}]), "damaged"),
    "keys": (lambda t, v: v.pop("averager"), "its values are not"),
    "identity": (value("identity", to=3), "'identity' is not a table"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_one_line(world, runs, tmp_path, capsys, name: str):
    change, words = DAMAGES[name]
    shutil.copytree(runs["ema"], tmp_path / "exp")
    rewrite(tmp_path / "exp", change)
    assert resume(world, tmp_path / "exp") == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "ERROR" in line]
    assert len(errors) == 1
    assert words in errors[0] and CHECKPOINT in errors[0]
    assert not (tmp_path / "exp" / "model.safetensors").exists()


@pytest.mark.parametrize("kind", ["ema", "top-k", "none"])
def test_an_undamaged_one_is_taken(world, runs, tmp_path, kind: str):
    shutil.copytree(runs[kind], tmp_path / "exp")
    rewrite(tmp_path / "exp", lambda tensors, values: None)
    assert resume(world, tmp_path / "exp", kind) == 0


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8, 0.999])
def test_a_flipped_bit_is_found(world, runs, tmp_path, capsys, place: float):
    """Whatever it hits, the run is not gone on with, and nothing is written."""
    shutil.copytree(runs["ema"], tmp_path / "exp")
    path = tmp_path / "exp" / CHECKPOINT
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    assert resume(world, tmp_path / "exp") == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "ERROR" in line]
    assert len(errors) == 1 and CHECKPOINT in errors[0]
    assert not (tmp_path / "exp" / "model.safetensors").exists()


def test_a_checkpoint_of_another_version_says_what_to_do(world, runs, tmp_path, capsys):
    shutil.copytree(runs["ema"], tmp_path / "exp")
    saved = load_checkpoint(tmp_path / "exp")
    header = {"format": "2", "state": json.dumps(saved.values)}
    save_file(saved.tensors, str(tmp_path / "exp" / CHECKPOINT), metadata=header)
    assert resume(world, tmp_path / "exp") == 1
    assert "another version; go on with that version, or remove it" in capsys.readouterr().err


def test_a_nan_in_a_model_kept_for_averaging_is_found(world, runs, tmp_path, capsys):
    shutil.copytree(runs["top-k"], tmp_path / "exp")
    rewrite(tmp_path / "exp", set_nan("averager.1.plda.cross"))
    assert resume(world, tmp_path / "exp", "top-k") == 1
    assert "'averager.1.plda.cross' holds NaN" in capsys.readouterr().err


def test_vectors_permuted_among_utterances_are_another_run(world, runs, tmp_path, capsys):
    sample = draw(0)
    (world / "moved").mkdir(exist_ok=True)
    vectors = sample.vectors[np.random.default_rng(0).permutation(len(sample.ids))]
    np.savez(world / "moved" / "xvector.npz", ids=np.array(sample.ids), data=vectors)
    shutil.copytree(runs["ema"], tmp_path / "exp")
    assert resume(world, tmp_path / "exp", vectors="moved") == 1
    assert "is of another run: training data" in capsys.readouterr().err
