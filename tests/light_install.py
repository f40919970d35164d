"""Proof of the light installs, run by CI: `make` writes a bundle and data (full install),
`api` scores them with the base install, `tools` through the command line, `audio` extracts an
embedding from a recording; all without torch.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np


def make(work: Path) -> None:
    """A bundle, vectors, durations and trials, and the LLRs that torch gives."""
    from extractors import write_extractor
    from random_models import DIM, random_model
    from speechlike import babble

    from dcaplda.export import parity
    from dcaplda.export.bundle_writer import export_model

    model = random_model("d-plda-dsd")
    export_model(model, work / "model")
    embeddings, seconds = parity.random_side(DIM, 6, seed=1)
    side = embeddings, seconds
    write_extractor(work / "extractor.onnx", axes="BN")
    np.save(work / "signal.npy", babble(16000))
    np.savez(work / "data.npz", x=embeddings, d=seconds, llrs=parity.torch_llrs(model, side, side))


def check_absent() -> None:
    """The point of the light installs."""
    for name in ("torch", "onnx", "scipy"):
        try:
            __import__(name)
        except ModuleNotFoundError:
            continue
        raise SystemExit(f"{name} is installed here; this proves nothing")


def api(work: Path) -> None:
    """The base install: numpy and onnxruntime."""
    check_absent()
    from dcaplda.runtime import Backend

    data = np.load(work / "data.npz")
    llrs = Backend.load(work / "model").score(data["x"], data["d"], data["x"], data["d"])
    np.testing.assert_allclose(llrs, data["llrs"], atol=1e-4)
    print("light install: the API scores without torch")


def tools(work: Path) -> None:
    """The `tools` extra: score-trials on Kaldi files."""
    check_absent()
    data = np.load(work / "data.npz")
    ids = [f"utt{row}" for row in range(len(data["x"]))]
    lines = (" ".join(f"{value:.9g}" for value in row) for row in data["x"])
    text = "".join(f"{name}  [ {line} ]\n" for name, line in zip(ids, lines, strict=True))
    (work / "xvector.txt").write_text(text)
    times = zip(ids, data["d"], strict=True)
    (work / "utt2dur").write_text("".join(f"{name} {value:.9g}\n" for name, value in times))
    trials = [(a, b) for a in ids for b in ids]
    (work / "trials").write_text("".join(f"{a} {b}\n" for a, b in trials))
    subprocess.run(
        [
            str(Path(sys.executable).parent / "score-trials"),
            f"--durations={work / 'utt2dur'}",
            str(work / "model"),
            *[f"ark,t:{work / 'xvector.txt'}"] * 2,
            str(work / "trials"),
            str(work / "scores"),
        ],
        check=True,
    )
    rows = [line.split() for line in (work / "scores").read_text().splitlines()]
    assert [tuple(row[:2]) for row in rows] == trials
    np.testing.assert_allclose([float(row[2]) for row in rows], data["llrs"].reshape(-1), atol=1e-4)
    model = json.loads((work / "model" / "model.json").read_text())["variant"]
    print(f"light install: score-trials scored {len(rows)} trials with {model} without torch")


def audio(work: Path) -> None:
    """The `audio` extra: extract-embeddings on a folder."""
    check_absent()
    import soundfile

    (work / "recordings").mkdir()
    soundfile.write(work / "recordings" / "ann.flac", np.load(work / "signal.npy"), 16000)
    tool = str(Path(sys.executable).parent / "extract-embeddings")
    places = [str(work / name) for name in ("extractor.onnx", "recordings", "extracted")]
    subprocess.run([tool, "--sample-rate=16000", *places], check=True)
    name, seconds = (work / "extracted" / "utt2dur").read_text().split()
    assert name == "ann" and 0.5 < float(seconds) < 4.0
    print("light install: extract-embeddings finds speech and extracts without torch")


if __name__ == "__main__":
    {"make": make, "api": api, "tools": tools, "audio": audio}[sys.argv[1]](Path(sys.argv[2]))
