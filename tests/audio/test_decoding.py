"""Recordings of every kind: decoded to the samples that went in, or refused in one line."""

import io
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dcaplda.audio.signal.decoding import read_audio
from dcaplda.audio.signal.resampling import Resampler, resampled
from dcaplda.audio.signal.samples import checked_samples
from dcaplda.runtime.errors import AudioError, DcapldaError


def tone(rate: int, seconds: float = 0.5, frequency: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(round(rate * seconds)) / rate)


def wav(samples: np.ndarray, rate: int, width: int) -> bytes:
    """A PCM file by the standard library's writer; samples are whole numbers (n,) or (n, c)."""
    target = io.BytesIO()
    with wave.open(target, "wb") as stream:
        stream.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        stream.setsampwidth(width)
        stream.setframerate(rate)
        if width == 3:
            flat = samples.reshape(-1).astype("<i4").tobytes()
            stream.writeframes(b"".join(flat[i : i + 3] for i in range(0, len(flat), 4)))
        else:
            stream.writeframes(samples.astype({1: "u1", 2: "<i2", 4: "<i4"}[width]).tobytes())
    return target.getvalue()


@pytest.mark.parametrize(("width", "bits"), [(2, 16), (3, 24), (4, 32)])
@pytest.mark.parametrize("rate", [8000, 16000, 44100, 96000])
def test_pcm_of_every_depth_and_rate_gives_its_samples(width: int, bits: int, rate: int) -> None:
    whole = np.round(tone(rate) * (1 << (bits - 1)))
    samples, found = read_audio(wav(whole, rate, width))
    assert found == rate and samples.dtype == np.float32
    np.testing.assert_allclose(samples, whole / (1 << (bits - 1)), atol=1e-7)


def test_eight_bits_are_unsigned_around_128() -> None:
    whole = np.round(tone(8000) * 128) + 128
    samples, _ = read_audio(wav(whole, 8000, 1))
    np.testing.assert_allclose(samples, (whole - 128) / 128, atol=1e-7)


@pytest.mark.parametrize(
    ("form", "subtype", "tolerance"),
    [
        ("FLAC", "PCM_16", 1 / 32768),
        ("FLAC", "PCM_24", 1e-6),
        ("WAV", "FLOAT", 1e-7),
        ("WAV", "ULAW", 0.02),
        ("OGG", "VORBIS", 0.05),
        ("AIFF", "PCM_16", 1 / 32768),
        ("NIST", "PCM_16", 1 / 32768),
    ],
)
def test_other_formats_are_read(form: str, subtype: str, tolerance: float) -> None:
    target = io.BytesIO()
    soundfile.write(target, tone(16000), 16000, format=form, subtype=subtype)
    samples, rate = read_audio(target.getvalue())
    assert rate == 16000
    np.testing.assert_allclose(samples[:8000], tone(16000), atol=tolerance)


def test_a_header_without_a_length_is_read_to_the_end_as_from_a_pipe() -> None:
    whole = bytearray(wav(np.round(tone(16000) * 32768), 16000, 2))
    whole[4:8] = whole[40:44] = struct.pack("<I", 0x7FFFFFFF)
    assert len(read_audio(bytes(whole))[0]) == 8000


def cut_flac() -> bytes:
    target = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.1, 16000)
    soundfile.write(target, noise, 16000, format="FLAC")
    return target.getvalue()[:-900]


def nan_wav() -> bytes:
    target = io.BytesIO()
    samples = tone(16000)
    samples[100] = np.nan
    soundfile.write(target, samples, 16000, format="WAV", subtype="FLOAT")
    return target.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (cut_flac(), "cut short"),
        (wav(np.round(tone(16000) * 32768), 16000, 2)[:-1000], "cut short: 15000 of 16000 bytes"),
        (wav(np.zeros(0), 16000, 2), "no samples"),
        (nan_wav(), "sample 101 is nan (1 such)"),
        (b"these are words, not sound\n" * 40, "no audio that can be decoded"),
        (b"", "the file is empty"),
        (wav(np.zeros(100), 100, 2), "sample rate 100"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "no audio that can be decoded"),
    ],
)
def test_bad_audio_is_refused_in_one_line(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(content)
    with pytest.raises(AudioError) as caught:
        read_audio(str(tmp_path / "bad.wav"))
    assert words in str(caught.value) and "bad.wav" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"none\.wav': cannot be read \(No such file"):
        read_audio(str(tmp_path / "none.wav"))


def test_channels_are_chosen_or_asked_for() -> None:
    left, right = np.round(tone(16000) * 20000), np.round(tone(16000, frequency=300) * 10000)
    stereo = wav(np.stack([left, right], axis=1), 16000, 2)
    np.testing.assert_allclose(read_audio(stereo, "2")[0], right / 32768, atol=1e-7)
    np.testing.assert_allclose(read_audio(stereo, "mix")[0], (left + right) / 65536, atol=1e-6)
    with pytest.raises(AudioError, match="2 different channels.*1 to 2"):
        read_audio(stereo)
    with pytest.raises(AudioError, match="has 2 channels, '3' is asked for"):
        read_audio(stereo, "3")
    # Two copies of one channel are no question.
    twice = wav(np.stack([left, left], axis=1), 16000, 2)
    np.testing.assert_allclose(read_audio(twice)[0], left / 32768, atol=1e-7)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.array([0.1, np.inf]), "sample 2 is inf"),
        (np.array([0.0, 12000.0]), "reach 12000; floats go from -1 to 1"),
        (np.zeros((5, 2)), r"shape \(5, 2\); expected one channel"),
        (np.array(["a"]), "samples of type str"),
        (np.zeros(3, np.int8), "samples of type int8"),
        ([], "no samples"),
    ],
)
def test_samples_that_cannot_be_right_are_refused(samples: np.ndarray, words: str) -> None:
    with pytest.raises(DcapldaError, match=words):
        checked_samples(samples, "call")


def test_integers_are_scaled_to_one() -> None:
    np.testing.assert_array_equal(
        checked_samples(np.array([-32768, 16384], np.int16), "x"), [-1.0, 0.5]
    )
    np.testing.assert_array_equal(checked_samples(np.array([1 << 30], np.int32), "x"), [0.5])


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_a_tone_is_the_same_tone_at_another_rate(rate: int) -> None:
    made = resampled(tone(rate, 1.0).astype(np.float32), rate, 16000)
    assert abs(len(made) - 16000) <= 1
    # Away from the ends, where the filter sees zeros.
    np.testing.assert_allclose(made[800:15000], tone(16000, 1.0)[800:15000], atol=1e-3)


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_pieces_are_resampled_as_the_whole(rate: int, rng: np.random.Generator) -> None:
    signal = rng.normal(0, 0.1, rate).astype(np.float32)
    resampler = Resampler(rate, 16000)
    cuts = np.sort(rng.integers(0, rate, 12))
    pieces = [resampler.accept(piece) for piece in np.split(signal, cuts)]
    pieces.append(resampler.accept(np.zeros(0, np.float32), last=True))
    made, whole = np.concatenate(pieces), resampled(signal, rate, 16000)
    assert len(made) == len(whole)
    np.testing.assert_allclose(made, whole, atol=1e-5)
