"""Copies small extracts of the golden sets here: python make_extracts.py GOLDEN_ROOT."""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent


def every(source: Path, target: Path, step: int) -> None:
    """Every step-th line of a file."""
    lines = source.read_text().splitlines(keepends=True)
    target.write_text("".join(lines[::step]))


def reference(golden: Path) -> None:
    """Checkpoints, and one development set with every 30th single and all multi trials."""
    source, target = golden / "reference-golden", HERE / "reference"
    (target / "seen0").mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "init.pth", target)
    shutil.copy(source / "trained.pth", target)
    for name in ("xvector.ark", "xvector.scp", "utt2dur", "spk2utt", "trials_multi"):
        shutil.copy(source / "seen0" / name, target / "seen0")
    for tag in ("init", "trained"):
        every(source / f"seen0/{tag}.single.scores", target / f"seen0/{tag}.single.scores", 30)
        for level in ("score_level", "embedding_level"):
            for ending in ("scores", "results"):
                shutil.copy(source / f"seen0/{tag}.multi.{level}.{ending}", target / "seen0")


def kaldi(golden: Path) -> None:
    """A Kaldi backend, its vectors, and every fifth trial with its scores."""
    source, target = golden / "kaldi-golden", HERE / "kaldi"
    target.mkdir(exist_ok=True)
    models = ("plda", "plda.txt", "plda.adapted", "transform.mat", "mean.vec")
    tables = ("test_xvector", "enroll_mean_xvector")
    vectors = [f"{name}.{ending}" for name in tables for ending in ("ark", "scp")]
    for name in (*models, *vectors, "num_utts.ark", "num_utts.bin.ark", "enroll_spk2utt"):
        shutil.copy(source / name, target)
    for path in source.glob("scores.*"):
        if path.name != "scores.cosine":
            every(path, target / path.name, 5)
    for name in ("trials", "trials_multi"):
        every(source / name, target / name, 5)


if __name__ == "__main__":
    reference(Path(sys.argv[1]))
    kaldi(Path(sys.argv[1]))
