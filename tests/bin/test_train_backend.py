"""The command line: every mistake is one line on stderr and exit 1."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from training_world import draw, write_data_dir, write_dev, write_recipe

from dcaplda.bin import train_backend
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
    """train-backend and the runtime: one chain, equal LLRs."""
    import numpy as np
    import torch

    from dcaplda.runtime.backend import Backend as Scorer
    from dcaplda.train.store import load_model

    assert train(world, tmp_path / "exp", "--variant=d-plda-dsd", "--seed=3") == 0
    sample = draw(8, speakers=3)
    seconds = np.array([sample.seconds[n] for n in sample.ids], dtype=np.float32)
    scorer = Scorer.load(tmp_path / "exp" / "bundle")
    found = scorer.score(sample.vectors, seconds, sample.vectors, seconds)
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
        (["--variant=dplda", "--set=stage1.stepz=3"], "2 problems: (1) "),
        (["--set=dev.held.trials=gone"], "recipe.toml: [[dev]] 'held': no such file: gone"),
        (["--resume", "--finish"], "--resume and --finish exclude each other"),
        (["--finish"], "--finish has nothing to make a model of"),
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


def quick(world: Path, directory: Path, *options: str) -> int:
    """A run without steps."""
    none = [f"--set=stage{number}.steps=0" for number in (1, 2, 3)]
    return train(world, directory, *none, *options)


def test_the_extractor_of_the_embeddings_goes_into_the_bundle(world, tmp_path, capsys):
    """From the note beside them, or from the one that is named."""
    from dcaplda.runtime.backend import Backend as Scorer

    note = {"format": "dcaplda-extractor", "format_version": 1, "speech": {"name": "silero"}}
    beside = world / "train" / "extractor.json"
    beside.write_text(json.dumps({**note, "fingerprint": "a" * 64}))
    try:
        assert quick(world, tmp_path / "one") == 0
    finally:
        beside.unlink()
    (tmp_path / "named.json").write_text(json.dumps({**note, "fingerprint": "b" * 64}))
    assert quick(world, tmp_path / "two", f"--extractor={tmp_path}/named.json") == 0
    assert quick(world, tmp_path / "three") == 0
    found = [Scorer.load(tmp_path / name / "bundle").extractor for name in ("one", "two", "three")]
    assert [it.fingerprint[0] if it else None for it in found] == ["a", "b", None]
    assert train(world, tmp_path / "four", "--extractor=none.json") == 1
    assert "'none.json': cannot be read" in capsys.readouterr().err


def test_export_can_be_turned_off(world, tmp_path, capsys):
    assert quick(world, tmp_path / "exp", "--export=false") == 0
    assert not (tmp_path / "exp" / "bundle").exists()
    exp = tmp_path / "exp"
    assert f"export it with: export-onnx {exp} {exp}/bundle" in capsys.readouterr().err


def test_a_finished_run_is_exported_later_and_once(world, tmp_path, capsys):
    assert quick(world, tmp_path / "exp", "--export=false") == 0
    assert quick(world, tmp_path / "exp", "--resume") == 0
    manifest = tmp_path / "exp" / "bundle" / "model.json"
    summary = json.loads((tmp_path / "exp" / "training_summary.json").read_text())
    assert json.loads(manifest.read_text())["training"] == summary
    before = manifest.stat().st_ino
    capsys.readouterr()
    assert quick(world, tmp_path / "exp", "--resume") == 0
    assert manifest.stat().st_ino == before
    said = capsys.readouterr().err
    assert "nothing to do" in said and "exported" not in said and "score-trials" in said
    # A bundle of another result is made again.
    (tmp_path / "exp" / "training_summary.json").write_text(json.dumps({**summary, "seed": 7}))
    assert quick(world, tmp_path / "exp", "--resume") == 0
    assert json.loads(manifest.read_text())["training"]["seed"] == 7


def test_without_onnx_the_model_stays_and_the_command_is_told(world, tmp_path, capsys, monkeypatch):
    import dcaplda

    # What is imported again must not stay behind: neither as a module nor as its package's name.
    monkeypatch.setattr(dcaplda, "export", dcaplda.export)
    for name in [m for m in sys.modules if m.split(".")[0] == "onnx" or ".export" in m]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    exp = tmp_path / "exp"
    assert quick(world, exp) == 0
    said = capsys.readouterr().err
    assert "WARNING" in said and "pip install 'dcaplda[export]'" in said
    assert f"then: export-onnx {exp} {exp}/bundle" in said
    assert (exp / "model.safetensors").exists() and not (exp / "bundle").exists()


def test_a_place_that_is_no_bundle_is_told_before_training(world, tmp_path, capsys):
    (tmp_path / "exp" / "bundle").mkdir(parents=True)
    (tmp_path / "exp" / "bundle" / "mine.txt").write_text("keep")
    assert quick(world, tmp_path / "exp") == 1
    assert "not empty and not a bundle" in capsys.readouterr().err
    assert not (tmp_path / "exp" / "config.toml").exists()


def test_the_lines_at_the_end_can_be_pasted(world, tmp_path, capsys, monkeypatch):
    """With a development set that the tools can read, the commands run as they are."""
    import kaldiio

    from dcaplda.bin.eval_scores import main as evaluate
    from dcaplda.bin.score_trials import main as score

    sample = draw(5, speakers=6, prefix="v")
    vectors = dict(zip(sample.ids, sample.vectors, strict=True))
    kaldiio.save_ark(str(world / "dev" / "x.ark"), vectors, scp=str(world / "dev" / "x.scp"))
    table = f"scp:{world}/dev/x.scp"
    monkeypatch.chdir(tmp_path)
    assert quick(world, Path("exp"), f"--set=dev.held.xvectors={table}") == 0
    said = [line.partition("LOG: ")[2] for line in capsys.readouterr().err.splitlines()]
    lines = {x.partition(": ")[0]: x.partition(": ")[2] for x in said[-2:]}
    assert list(lines) == ["score", "evaluate"]  # nothing to adapt: it is not joint
    for (name, line), tool in zip(lines.items(), (score, evaluate), strict=True):
        assert tool(shlex.split(line)[1:]) == 0, name
    assert Path("exp/scores").is_file() and Path("exp/report.html").is_file()


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
    for word in (
        "--seeds",
        "--resume",
        "--finish",
        "--export",
        "--set",
        "train-backend --select <exp-dir>",
    ):
        assert word in shown


@pytest.mark.parametrize(
    ("lines", "before", "told"), [(10, None, "1"), (200_000, None, "None"), (10, "2", "2")]
)
def test_few_utterances_have_one_thread_of_numpy(tmp_path, monkeypatch, lines, before, told):
    """Set before numpy is loaded, which is asked in a new process, and only where nobody has."""
    (tmp_path / "utt2spk").write_text("utt spk\n" * lines)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if before is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", before)
    code = (
        "import os, sys; from pathlib import Path; from dcaplda.bin import train_backend\n"
        "train_backend._one_thread_of_numpy(Path(sys.argv[1]))\n"
        "print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == told


def test_a_programs_own_threads_are_left_alone(tmp_path, monkeypatch):
    (tmp_path / "utt2spk").write_text("utt spk\n")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    train_backend._one_thread_of_numpy(tmp_path)
    assert "OPENBLAS_NUM_THREADS" not in os.environ
