"""What mistakes between a recording and its score cost: the table of docs/audio.md.

    python egs/audio/pitfalls.py EXTRACTOR.onnx BUNDLE FOLDER [--kind=KIND] [--seconds=3]

All ordered pairs of the recordings of a folder are trials; a speaker is what stands in front of the
first hyphen of a file's name. The enrolment side is made as the bundle says; the test side has the
mistake, and LLRs are compared with 0. --seconds cuts every recording after so much speech: short
ones show more.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dcaplda.audio import Extractor, read_audio
from dcaplda.audio.signal.resampling import resampled
from dcaplda.eval.metrics.scalars import cllr, eer
from dcaplda.runtime import Backend, DcapldaError

Signal = NDArray[np.float32]
Load = Callable[..., Extractor]
Side = tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]
"""Embeddings, seconds told, and the recordings that they are of: some may have none."""


@dataclass(frozen=True)
class Mistake:
    """What is done to the test side."""

    name: str
    extractor: Extractor
    change: Callable[[Signal, int], tuple[Signal, int]] = lambda signal, rate: (signal, rate)
    seconds: Callable[[float, float], float] = lambda speech, total: speech
    """What the backend is told, of the seconds of speech and of the recording."""


def level(signal: Signal) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(signal))) + 1e-9)


def louder_by(noise: Signal, signal: Signal, decibel: float) -> Signal:
    """The noise so many decibel below the signal."""
    return (noise * level(signal) / level(noise) * 10 ** (-decibel / 20)).astype(np.float32)


def hiss(count: int) -> Signal:
    """White noise, the same for equal lengths."""
    return np.random.default_rng(count).normal(0, 1, count).astype(np.float32)


def music(count: int, rate: int) -> Signal:
    """Chords of sawtooth-like tones, two a second: a made-up piece."""
    rng = np.random.default_rng(count)
    t = np.arange(count) / rate
    made = np.zeros(count)
    for beat in range(int(2 * count / rate) + 1):
        inside = (t >= beat / 2) & (t < (beat + 1) / 2)
        decay = np.exp(-3 * (t[inside] - beat / 2))
        for semitone in rng.choice([0, 3, 4, 7, 10, 12], 3, replace=False):
            pitch = 220 * 2 ** (semitone / 12)
            partials = (np.sin(2 * np.pi * k * pitch * t[inside]) / k for k in range(1, 9))
            made[inside] += decay * sum(partials)
    return made.astype(np.float32)


def in_silence(signal: Signal, rate: int) -> tuple[Signal, int]:
    """Ten seconds of faint hiss before and after."""
    around = louder_by(hiss(10 * rate), signal, 50)
    return np.concatenate([around, signal, around]), rate


def with_hiss(signal: Signal, rate: int) -> tuple[Signal, int]:
    """A noisy room."""
    return signal + louder_by(hiss(len(signal)), signal, 10), rate


def with_music(signal: Signal, rate: int) -> tuple[Signal, int]:
    """A piece is played."""
    return signal + louder_by(music(len(signal), rate), signal, 10), rate


def telephone(signal: Signal, rate: int) -> tuple[Signal, int]:
    """Half of the band is gone."""
    return resampled(signal, rate, 8000), 8000


def rate_not_told(signal: Signal, rate: int) -> tuple[Signal, int]:
    """Everything is heard twice as fast."""
    return resampled(signal, rate, 8000), rate


def clipped(signal: Signal, rate: int) -> tuple[Signal, int]:
    """The gain is far too high."""
    return np.clip(20 * signal, -1, 1), rate


def mistakes(right: Extractor, load: Load, voices: list[Signal]) -> list[Mistake]:
    """All that is tried; the first is none. `load` opens the extractor with other settings."""

    def with_voice(signal: Signal, rate: int) -> tuple[Signal, int]:
        """Another reader at the same level, as in a mix of the two sides of a call."""
        number = next(k for k, it in enumerate(voices) if it is signal)
        other = voices[(number + len(voices) // 2) % len(voices)]
        return signal + louder_by(np.resize(other, len(signal)), signal, 0), rate

    def whole(speech: float, total: float) -> float:
        return total

    none = load(vad="none")
    return [
        Mistake("as it should be", right),
        Mistake("no speech detection", none),
        Mistake("speech detected, seconds of the file told", right, seconds=whole),
        Mistake("20 s of silence around it, detected", right, in_silence),
        Mistake("the same, seconds of the file told", right, in_silence, whole),
        Mistake("20 s of silence around it, not detected", none, in_silence),
        Mistake("features not normalized", load(feature_normalize="none")),
        Mistake("window of another toolkit (hamming for povey)", load(window="hamming")),
        Mistake("samples scaled by 32768", load(sample_scale=32768.0)),
        Mistake("8 kHz recording, resampled", right, telephone),
        Mistake("8 kHz recording taken for 16 kHz", right, rate_not_told),
        Mistake("hiss 10 dB below the voice", right, with_hiss),
        Mistake("music 10 dB below the voice", right, with_music),
        Mistake("another voice as loud (both sides of a call mixed)", right, with_voice),
        Mistake("clipped: 20 times too loud", right, clipped),
    ]


def side(mistake: Mistake, signals: list[Signal], rate: int) -> Side:
    """The test side, with the mistake."""
    embeddings, seconds, kept = [], [], []
    for number, signal in enumerate(signals):
        heard, told = mistake.change(signal, rate)
        try:
            made = mistake.extractor.extract(heard, told)
        except DcapldaError:
            continue
        embeddings.append(made.embedding)
        seconds.append(mistake.seconds(made.seconds, made.total))
        kept.append(number)
    return np.array(embeddings), np.array(seconds), np.array(kept, np.int64)


def cut(signal: Signal, rate: int, spans: Sequence[tuple[float, float]], limit: float) -> Signal:
    """The recording up to the point where so much speech was heard; pauses stay in."""
    heard = 0.0
    for begin, end in spans:
        if heard + end - begin >= limit:
            return signal[: round((begin + limit - heard) * rate)]
        heard += end - begin
    return signal


def read_folder(
    extractor: Extractor, folder: Path, limit: float
) -> tuple[list[Path], list[Signal], int]:
    """Files, their samples up to `limit` seconds of speech (0: all), and their one rate."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".flac", ".wav"))
    decoded = [read_audio(str(file)) for file in files]
    (rate,) = {found for _, found in decoded}
    signals = [samples for samples, _ in decoded]
    if limit:
        made = (extractor.extract(signal, rate).spans for signal in signals)
        signals = [cut(it, rate, spans, limit) for it, spans in zip(signals, made, strict=True)]
    return files, signals, rate


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extractor")
    parser.add_argument("bundle")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", default="3d-speaker")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    told = parser.parse_args()
    load = functools.partial(Extractor.load, told.extractor, kind=told.kind)
    right = load()
    backend = Backend.load(told.bundle, extractor=right)
    files, signals, rate = read_folder(right, told.folder, told.seconds)
    speakers = np.array([file.stem.split("-")[0] for file in files])
    tried = mistakes(right, load, signals)
    enrolled = side(tried[0], signals, rate)
    prints = backend.voiceprints(*enrolled[:2])
    print("| mistake on the test side | left out | EER % | Cllr | missed % | false alarms % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for mistake in (it for it in tried if told.only in it.name):
        embeddings, seconds, kept = side(mistake, signals, rate)
        llrs = backend.compare(prints, backend.voiceprints(embeddings, seconds))
        same = speakers[enrolled[2]][:, None] == speakers[kept][None, :]
        itself = enrolled[2][:, None] == kept[None, :]
        targets, others = llrs[same & ~itself], llrs[~same]
        print(
            f"| {mistake.name} | {len(signals) - len(kept)} | {100 * eer(targets, others):.1f} | "
            f"{cllr(targets, others):.3f} | {100 * np.mean(targets < 0):.1f} | "
            f"{100 * np.mean(others > 0):.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
