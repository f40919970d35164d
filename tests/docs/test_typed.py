"""What the pages show for a recipe runs as typed, in a recipe directory of that kind."""

import json
import re
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
from kaldi_files import write_scp
from kaldi_recipe import DIM, ROOT, Recipe

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def block(page: str, word: str) -> str:
    """The first block of code of a page, fenced or indented, that has the word."""
    text = (ROOT / page).read_text()
    fenced = re.findall(r"```sh\n(.*?)```", text, flags=re.S)
    indented = re.findall(r"(?:^    .*\n)+", text, flags=re.M)
    return next(part for part in (*fenced, *indented) if word in part)


def check_bundle(bundle: Path, scores: Path, trials: Path) -> None:
    """One bundle, of a training without a recipe, and a score of every trial."""
    summary = json.loads((bundle.parent / "training_summary.json").read_text())
    assert summary["choices"] and summary["held_out"]["verdict"]
    assert [path.parent for path in bundle.parent.rglob("backend.onnx")] == [bundle]
    ids = [
        [line.split()[:2] for line in path.read_text().splitlines()] for path in (scores, trials)
    ]
    assert ids[0] == ids[1]


def test_readme(tmp_path: Path) -> None:
    said = Recipe(tmp_path).typed(block("README.md", "train-backend"))
    assert "EER" in said and (tmp_path / "report.html").is_file()
    place = tmp_path / "exp/backend"
    check_bundle(place / "bundle", tmp_path / "scores", tmp_path / "data/eval/trials")


def test_kaldi_page(tmp_path: Path) -> None:
    said = Recipe(tmp_path).typed(block("docs/kaldi.md", "train-backend"))
    assert "EER" in said
    trials = tmp_path / "data/test/trials"
    check_bundle(tmp_path / "exp/dcaplda/bundle", tmp_path / "exp/scores/dcaplda", trials)


def test_readme_of_the_kaldi_scripts(tmp_path: Path) -> None:
    said = Recipe(tmp_path).typed(block("egs/kaldi/README.md", "dcaplda.sh"))
    assert "EER" in said
    place = tmp_path / "exp/dcaplda"
    check_bundle(place / "bundle", place / "scores/scores", tmp_path / "data/test/trials")


def test_recipe_page(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    (tmp_path / "egs").symlink_to(ROOT / "egs")
    shutil.copytree(tmp_path / "data/train", tmp_path / "data/mine")
    shutil.copy(tmp_path / "exp/xvectors_train/xvector.scp", tmp_path / "data/mine")
    said = recipe.typed(block("docs/recipe.md", "run.sh data/mine"))
    assert "| backend | " in said
    place, trials = tmp_path / "exp/mine", tmp_path / "exp/mine/data/eval/trials_single"
    check_bundle(place / "backend/bundle", place / "scores/backend/single", trials)


def voxceleb(folder: Path, name: str, people: int, rng: np.random.Generator) -> list[str]:
    """A set as WeSpeaker leaves it: person/video/cut, wav.scp, utt2spk, embeddings."""
    data, vectors = folder / "data" / name, {}
    data.mkdir(parents=True)
    for person in range(people):
        center = 2 * rng.standard_normal(DIM)
        for video in range(3):
            moved = center + 0.5 * rng.standard_normal(DIM)
            for cut in range(2):
                key = f"id{name[-1]}{person:04d}/v{video}/{cut:05d}.wav"
                vectors[key] = (moved + rng.standard_normal(DIM)).astype(np.float32)
                with wave.open(str(folder / f"{len(vectors)}-{name}.wav"), "wb") as stream:
                    stream.setnchannels(1)
                    stream.setsampwidth(2)
                    stream.setframerate(100)  # seconds are what matters here
                    stream.writeframes(bytes(2 * int(rng.integers(400, 2000))))
    keys = list(vectors)
    wavs = [f"{key} {folder}/{number}-{name}.wav\n" for number, key in enumerate(keys, 1)]
    (data / "wav.scp").write_text("".join(wavs))
    (data / "utt2spk").write_text("".join(f"{key} {key.split('/')[0]}\n" for key in keys))
    place = folder / "exp/ResNet/embeddings" / name
    place.mkdir(parents=True)
    write_scp(place, vectors, "xvector")
    return keys


def test_wespeaker_page(tmp_path: Path) -> None:
    recipe, rng = Recipe(tmp_path), np.random.default_rng(2)
    voxceleb(tmp_path, "vox2_dev", 30, rng)
    keys = voxceleb(tmp_path, "vox1", 8, rng)
    (tmp_path / "data/vox1/trials").mkdir()
    for name in ("O", "E", "H"):
        pairs = [(a, b) for a in keys for b in keys if "/v0/" in a and "/v1/" in b]
        same = {True: "target", False: "nontarget"}
        lines = [f"{a} {b} {same[a.split('/')[0] == b.split('/')[0]]}\n" for a, b in pairs]
        (tmp_path / f"data/vox1/trials/vox1_{name}_cleaned.kaldi").write_text("".join(lines))
    text = block("docs/wespeaker.md", "train-backend")
    assert text.startswith("pip install")
    said = recipe.typed("exp_dir=exp/ResNet\n" + text.split("\n", 1)[1])
    assert said.count("EER") >= 3
    for name in ("O", "E", "H"):
        trials = tmp_path / f"data/vox1/trials/vox1_{name}_cleaned.kaldi"
        scores = tmp_path / f"exp/dca/vox1_{name}_cleaned.scores"
        check_bundle(tmp_path / "exp/dca/bundle", scores, trials)
    sessions = {line.split()[1] for line in (tmp_path / "exp/dca/data/utt2sess").open()}
    assert len(sessions) == 30 * 3
