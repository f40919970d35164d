"""The scripts of egs/kaldi on a real Slurm, by conf/slurm.conf."""

from pathlib import Path

import pytest
from kaldi_recipe import DIM, Recipe
from random_models import random_model
from slurm_site import SlurmSite

from dcaplda.export.bundle_writer import export_model

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_the_scores_of_slurm_are_those_of_run(tmp_path: Path, slurm: SlurmSite) -> None:
    recipe = Recipe(tmp_path, slurm.env)
    export_model(random_model("d-plda-dsd", embedding_dim=DIM, lda_dim=8), tmp_path / "model")
    found = []
    for command in ("run.pl", "slurm.pl --config conf/slurm.conf --time 10 --mem 0"):
        place = f"exp/{command.split('.')[0]}"
        scp = "exp/xvectors_test/xvector.scp"
        options = ["--nj", "4", "--cmd", command, "--durations", "data/test/utt2dur"]
        recipe.run("dcaplda_score.sh", *options, "model", scp, scp, "data/test/trials", place)
        found.append((tmp_path / place / "scores").read_bytes())
    assert found[0] == found[1] and found[0]


def test_seeds_are_shared_by_jobs(tmp_path: Path, slurm: SlurmSite) -> None:
    recipe = Recipe(tmp_path, slurm.env)
    few = ("batch.size=40", "init.em_iterations=2", *(f"stage{n}.steps=2" for n in (1, 2, 3)))
    (tmp_path / "conf" / "few.toml").write_text("".join(f"{key}\n" for key in _sections(few)))
    train = ["data/train", "exp/xvectors_train/xvector.scp"]
    for command, place in (("run.pl", "exp/run"), ("slurm.pl", "exp/slurm")):
        options = ["--seeds", "0,3,4", "--nj", "2", "--cmd", command, "--config", "conf/few.toml"]
        recipe.run("dcaplda_train.sh", *options, *train, place)
    names = sorted(path.name for path in (tmp_path / "exp" / "slurm").glob("seed-*"))
    assert names == ["seed-0", "seed-3", "seed-4"]
    models = [(tmp_path / "exp" / p / "model.safetensors").read_bytes() for p in ("run", "slurm")]
    assert models[0] == models[1]
    assert (tmp_path / "exp" / "slurm" / "bundle" / "model.json").is_file()


def _sections(settings: tuple[str, ...]) -> list[str]:
    """`stage1.steps=2` as lines of TOML: dotted keys."""
    return [
        "model.lda_dim = 8",
        "model.side_hidden_dim = 8",
        "model.side_info_dim = 3",
        "held_out.people = 4",
        *settings,
    ]
