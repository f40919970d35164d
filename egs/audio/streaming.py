"""Calls in pieces against calls as a whole: how far the LLRs of right and wrong speakers are apart.

    python egs/audio/streaming.py EXTRACTOR.onnx BUNDLE FOLDER

A speaker is what stands in front of the first hyphen of a file's name. Three files of each are
enrolled; the others, joined, are a call, which is compared with every speaker. Joint bundles only.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dcaplda.audio import Embedded, Extractor, read_audio
from dcaplda.runtime import Backend, Speaker

PIECES = (2.0, 3.0, 5.0, 8.0)


def main(model: str, bundle: str, folder: str) -> None:
    """One line for whole calls, one for each length of pieces."""
    extractor = Extractor.load(model, like=bundle)
    backend = Backend.load(bundle, extractor=extractor)
    files: dict[str, list[Path]] = {}
    for path in sorted(Path(folder).glob("*.flac")):
        files.setdefault(path.stem.split("-")[0], []).append(path)
    speakers, calls = {}, {}
    rate = extractor.sample_rate
    for name, paths in files.items():
        three = [extractor.from_file(path) for path in paths[:3]]
        vectors = np.array([it.embedding for it in three])
        speakers[name] = backend.enroll(vectors, [it.seconds for it in three])
        calls[name] = np.concatenate([read_audio(str(path))[0] for path in paths[3:]])

    def together(speaker: Speaker, pieces: list[Embedded]) -> float:
        call = backend.evidence(speaker, prior=0.5)
        return [call.add(*piece) for piece in pieces][-1].llr

    def report(what: str, pieces_of: Callable[[str], list[Embedded]]) -> None:
        heard = {name: pieces_of(name) for name in calls}
        llrs = np.array([[together(speakers[a], heard[b]) for b in calls] for a in speakers])
        right = np.eye(len(calls), dtype=bool)
        lowest, highest = llrs[right].min(), llrs[~right].max()
        told = f"right {lowest:.1f} at least, wrong {highest:.1f} at most"
        print(f"{what}: {told}, apart by {lowest - highest:.1f}", flush=True)

    def pieces(name: str, every: float) -> list[Embedded]:
        stream = extractor.stream(rate, every=every)
        return stream.accept(calls[name]) + stream.finish()

    report("whole calls", lambda name: [extractor(calls[name], rate)])
    for every in PIECES:
        report(f"pieces of {every:g} s", lambda name, every=every: pieces(name, every))


if __name__ == "__main__":
    main(*sys.argv[1:])
