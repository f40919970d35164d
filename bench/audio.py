"""extract-embeddings: speed as a multiple of real time, and of the bare network in the same run.

Takes the recordings and the extractor of ../shared/data/audio, or those that are named:
python bench/audio.py [--kind=KIND] [EXTRACTOR.onnx FOLDER]. One thread, processor time: what others
do on the machine does not count; the last row is the whole tool on all cores by the clock.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from timing import table

from dcaplda.audio import Extractor, read_audio
from dcaplda.audio.corpus.recordings import read_recordings
from dcaplda.audio.extractor import Signal
from dcaplda.bin.extract_embeddings import main as extract

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "audio"
ROUNDS = 3
HEADER = ("what", "ms of processor per s of audio", "times real time", "of the bare network")


def processor_seconds(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least processor time of each, taken in turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="3d-speaker")
    parser.add_argument("extractor", nargs="?", default=str(DATA / "extractor.onnx"))
    parser.add_argument("folder", nargs="?", default=str(DATA / "flac"))
    told = parser.parse_args()
    if not os.path.exists(told.extractor):
        print("no extractor; name one: bench/audio.py EXTRACTOR.onnx FOLDER")
        return
    extractor = Extractor.load(told.extractor, kind=told.kind)
    network, rate = extractor.network, extractor.sample_rate
    paths = [it.source for it in read_recordings(told.folder)]
    signals = [Signal(*read_audio(path), path) for path in paths]
    audio = sum(len(it.samples) / it.rate for it in signals)
    samples = [it.samples for it in signals]
    spans = extractor.detector.spans(samples, rate)
    speech = [
        np.concatenate([x[begin:end] for begin, end in found])
        for x, found in zip(samples, spans, strict=True)
        if found
    ]
    frames = [network.frames(piece) for piece in speech]
    alike = [it[:300] for it in frames if len(it) >= 300][:16]
    batches = {}
    if network.form.axes == "BTF" and not network.form.lengths:
        run = network._session.run
        name, output = network.form.signal, [network.form.output]
        for size in (1, 8):
            parts = [np.stack(alike[k : k + size]) for k in range(0, len(alike) - size + 1, size)]
            batches[f"batches of {size}"] = lambda parts=parts: [
                run(output, {name: part}) for part in parts
            ]
    best = processor_seconds(
        {
            "bare network, on the speech": lambda: [network.embedding(it) for it in frames],
            "decoding": lambda: [read_audio(path) for path in paths],
            "speech detection, side by side": lambda: extractor.detector.spans(samples, rate),
            "speech detection, one by one": lambda: [
                extractor.detector.spans([it], rate) for it in samples
            ],
            "features": lambda: [network.frames(it) for it in speech],
            "all of it, one thread": lambda: extractor.extract_many(
                [Signal(*read_audio(path), path) for path in paths]
            ),
            "all of it, without detection": lambda: [
                network.embedding(network.frames(it)) for it in samples
            ],
            **batches,
        }
    )
    bare = best["bare network, on the speech"]
    few = {name: best.pop(name) for name in batches}
    rows = [
        (name, f"{1e3 * it / audio:.1f}", f"{audio / it:.0f}", f"{it / bare:.2f}")
        for name, it in best.items()
    ]
    print(f"{len(paths)} recordings, {audio:.0f} s, {sum(map(len, speech)) / rate:.0f} s of speech")
    print(table(rows, HEADER))
    if few:
        one, eight = few.values()
        print(f"3 s pieces of equal length: batches of 8 take {eight / one:.2f} of one by one")
    with tempfile.TemporaryDirectory() as work:
        start = time.perf_counter()
        options = [f"--kind={told.kind}", "--print-args=false"]
        extract([*options, told.extractor, told.folder, f"{work}/out"])
        took = time.perf_counter() - start
    cores = len(os.sched_getaffinity(0))
    print(f"the tool, {cores} cores, by the clock: {took:.1f} s, {audio / took:.0f} x real time")


if __name__ == "__main__":
    main()
