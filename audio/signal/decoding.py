"""Recordings to samples, by libsndfile: wav, flac, ogg, mp3, sph and more, any rate and depth."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from dcaplda.audio.signal.samples import Float32, checked_rate, checked_samples
from dcaplda.runtime.errors import AudioError

_FRAMES_AT_ONCE = 1 << 20
# Sizes that a program writes into a header when it cannot know the length, as into a pipe.
_UNKNOWN_SIZE = 0x7FFF0000


def read_audio(source: str | bytes, channel: str = "", place: str = "") -> tuple[Float32, int]:
    """Samples (n,) and rate of a file, or of its bytes; `place` names it in messages.

    `channel` is a number from 1, `mix` (the mean of all), or nothing: then a recording of several
    channels is refused unless they are equal.

    >>> samples, rate = read_audio("ann.wav")                          # doctest: +SKIP
    """
    place = place or (source if isinstance(source, str) else "audio")
    content = source if isinstance(source, bytes) else _content(source, place)
    if not content:
        raise AudioError(f"'{place}': the file is empty; record or copy it again")
    with _opened(content, place) as stream:
        rate = checked_rate(stream.samplerate, place)
        # A number in a header may be anything: memory is taken for what is there.
        blocks = [stream.read(_FRAMES_AT_ONCE, dtype="float32", always_2d=True)]
        while len(blocks[-1]) == _FRAMES_AT_ONCE:
            blocks.append(stream.read(_FRAMES_AT_ONCE, dtype="float32", always_2d=True))
        # Of mp3 and its kind the length is an estimate.
        least = stream.frames if stream.format == "FLAC" else stream.frames - rate // 4
    samples = np.concatenate(blocks)
    _check_whole(content, len(samples), least, rate, place)
    return checked_samples(one_channel(samples, channel, place), place), rate


def one_channel(samples: NDArray[np.float32], channel: str, place: str) -> NDArray[np.float32]:
    """The channel that is asked for, of samples (n, channels)."""
    count = samples.shape[1]
    if channel == "mix":
        return samples.mean(axis=1, dtype=np.float32)
    if channel:
        number = int(channel) if channel.isdecimal() else 0
        if not 1 <= number <= count:
            raise AudioError(
                f"'{place}': has {count} channel{'s' if count > 1 else ''}, '{channel}' is asked "
                f"for; choose 1 to {count}, or mix"
            )
        return samples[:, number - 1]
    if count > 1 and not (samples == samples[:, :1]).all():
        raise AudioError(
            f"'{place}': has {count} different channels, perhaps of different people; choose one "
            f"by its number (1 to {count}), or mix"
        )
    return samples[:, 0]


def _content(path: str, place: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AudioError(f"'{place}': cannot be read ({reason})") from None


@contextmanager
def _opened(content: bytes, place: str) -> Iterator[Any]:
    """libsndfile's view of the bytes; what it says against them in our words."""
    what, way = "is no audio that can be decoded", "convert it to wav or flac"
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as stream:
            what, way = "is cut short or damaged", "copy it again"
            yield stream
    except soundfile.LibsndfileError as error:
        reason = error.error_string.removeprefix("Error : ").rstrip(". ")
        raise AudioError(f"'{place}': {what} ({reason}); {way}") from None


def _check_whole(content: bytes, found: int, least: int, rate: int, place: str) -> None:
    """Refuse a file that was cut: half an utterance is not what was asked for."""
    wav = _wav_data(content)
    if wav is not None:
        declared, there = wav
        if there < declared < _UNKNOWN_SIZE:
            raise AudioError(
                f"'{place}': is cut short: {there} of {declared} bytes of samples are there; copy "
                "it again"
            )
    # Files whose length nobody wrote down have a huge one.
    elif found < least < _UNKNOWN_SIZE:
        raise AudioError(
            f"'{place}': is cut short or damaged: {found / rate:.2f} of {least / rate:.2f} s can "
            "be decoded; copy it again"
        )


def _wav_data(content: bytes) -> tuple[int, int] | None:
    """Bytes of samples that a WAV file declares, and that follow; None if it is none.

    libsndfile takes what is there without a word.
    """
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        return None
    position = 12
    while position + 8 <= len(content):
        size = int.from_bytes(content[position + 4 : position + 8], "little")
        if content[position : position + 4] == b"data":
            return size, min(size, len(content) - position - 8)
        position += 8 + size + size % 2
    return None
