"""The command line: every mistake is one line on stderr and exit 1."""

from pathlib import Path

import pytest
from training_world import draw, write_data_dir, write_dev, write_recipe

from dcaplda.bin.train_backend import main

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_data_dir(root / "train", draw(0))
    write_dev(root / "dev")
    write_recipe(root / "recipe.toml")
    return root


def train(world: Path, directory: Path, *options: str) -> int:
    arguments = [str(world / "train"), str(world / "train" / "xvector.npz"), str(directory)]
    return main([f"--config={world / 'recipe.toml'}", "--threads=1", *options, *arguments])


def test_a_run_exports_and_scores_like_the_model(world, tmp_path, capsys):
    """train-backend, export-onnx and the runtime: one chain, equal LLRs."""
    import numpy as np
    import torch

    from dcaplda.bin.export_onnx import main as export
    from dcaplda.runtime.backend import Backend as Scorer
    from dcaplda.train.store import load_model

    assert train(world, tmp_path / "exp", "--variant=d-plda-dsd", "--seed=3") == 0
    assert export([str(tmp_path / "exp"), str(tmp_path / "bundle")]) == 0
    sample = draw(8, speakers=3)
    seconds = np.array([sample.seconds[n] for n in sample.ids], dtype=np.float32)
    found = Scorer.load(tmp_path / "bundle").score(sample.vectors, seconds, sample.vectors, seconds)
    x, s = torch.from_numpy(sample.vectors), torch.from_numpy(seconds)
    with torch.no_grad():
        expected = load_model(tmp_path / "exp")(x, s, x, s).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert "the model is in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set=stage1.stepz=3"], "did you mean 'steps'?"),
        (["--variant=dplda"], "model.variant = 'dplda'"),
        (["--seeds=x"], "--seeds=x"),
        (["--seed=1", "--seeds=0-2"], "exclude each other"),
        (["--seed=-1"], "--seed=-1"),
        (["--jobs=0"], "--jobs=0"),
        (["--device=tpu9"], "--device=tpu9"),
        (["--set=model.lda_dim=25"], "the embeddings have 24 values"),
        (["--set=batch.size=200"], "batch.repeat_speakers"),
        (["--set=dev.held.trials=nowhere"], "nowhere"),
        (["--set=dev.held.weight=0"], "weight 0"),
        (["--select"], "--select takes one argument"),
    ],
)
def test_mistakes_are_one_line_and_exit_1(world, tmp_path, capsys, options, message: str):
    assert train(world, tmp_path / "exp", "--print-args=false", *options) == 1
    lines = capsys.readouterr().err.splitlines()
    errors = [line for line in lines if "ERROR" in line]
    assert len(errors) == 1
    assert message in errors[0]
    assert lines[-1] == errors[0]
    assert not (tmp_path / "exp" / "model.safetensors").exists()


def test_cuda_is_asked_for_only_where_it_is(world, tmp_path, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    assert train(world, tmp_path / "exp", "--device=cuda") == 1
    assert "use --device=cpu" in capsys.readouterr().err


def test_two_arguments_are_too_few(capsys):
    assert main(["a", "b"]) == 1
    assert "expected 3 arguments, found 2: <exp-dir> is missing" in capsys.readouterr().err


def test_help_lists_the_options_and_needs_no_torch(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("--seeds", "--resume", "--select", "--set", "train-backend --select <exp-dir>"):
        assert word in shown
