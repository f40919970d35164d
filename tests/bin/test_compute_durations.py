import struct
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from kaldi_files import binary_ark, text_ark, write_scp

from dcaplda.bin.compute_durations import main
from dcaplda.runtime.tables.text_tables import read_numbers

VAD = {
    "a": np.float32([0, 1, 1, 0, 1]),
    "b": np.float32([1] * 250),
    "silent": np.float32([0, 0]),
}


@pytest.mark.parametrize("form", ["scp", "ark", "ark,t"])
def test_voice_activity_is_summed(tmp_path: Path, capfd, form: str) -> None:
    scp = write_scp(tmp_path, VAD)
    (tmp_path / "t.ark").write_bytes(text_ark(VAD))
    source = {
        "scp": f"scp:{scp}",
        "ark": f"ark:{tmp_path}/x.ark",
        "ark,t": f"ark,t:{tmp_path}/t.ark",
    }
    assert main([f"--vad={source[form]}", str(tmp_path / "utt2dur")]) == 0
    assert (tmp_path / "utt2dur").read_text() == "a 0.03\nb 2.5\n"
    assert "'silent' has no speech" in capfd.readouterr().err


def int_ark(**vectors: list[int]) -> bytes:
    """An archive of int32 vectors: each number behind a byte 4."""
    return b"".join(
        key.encode() + b" \0B" + b"".join(struct.pack("<Bi", 4, x) for x in (len(row), *row))
        for key, row in vectors.items()
    )


def test_voice_activity_may_be_int32(tmp_path: Path) -> None:
    (tmp_path / "vad.ark").write_bytes(int_ark(a=[0, 1, 1, 0, 1], b=[1] * 250))
    assert main([f"--vad=ark:{tmp_path}/vad.ark", str(tmp_path / "utt2dur")]) == 0
    assert (tmp_path / "utt2dur").read_text() == "a 0.03\nb 2.5\n"


def test_without_kaldiio_the_extra_is_named(tmp_path: Path, capfd, monkeypatch) -> None:
    scp = write_scp(tmp_path, VAD)
    monkeypatch.setitem(sys.modules, "kaldiio", None)
    assert main([f"--vad=scp:{scp}", str(tmp_path / "utt2dur")]) == 1
    assert "pip install 'dcaplda[tools]'" in capfd.readouterr().err


@pytest.mark.parametrize("tag", [3, 7, 17, 0xFFFE])
def test_only_pcm_has_a_length_that_can_be_trusted(tmp_path: Path, capfd, tag: int) -> None:
    """Float, mu-law, ADPCM, extensible: kaldiio would take 100 samples of ADPCM for 50."""
    form = struct.pack("<HHIIHH", tag, 1, 16000, 8000, 1, 4 if tag == 17 else 8)
    chunks = (
        b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", 50) + bytes(50)
    )
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(chunks)) + chunks)
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\n")
    assert main([f"--wav=scp:{tmp_path}/wav.scp", f"{tmp_path}/out"]) == 1
    assert "no readable PCM WAV file" in capfd.readouterr().err


def test_frames_and_another_shift(tmp_path: Path) -> None:
    (tmp_path / "frames").write_text("a 300\nb 7\n")
    target = f"ark,t:{tmp_path}/out"
    assert main([f"--num-frames=ark:{tmp_path}/frames", "--frame-shift=0.016", target]) == 0
    assert read_numbers(f"{tmp_path}/out") == {"a": 4.8, "b": 0.112}


def test_segments(tmp_path: Path) -> None:
    (tmp_path / "segments").write_text("a rec1 0.5 3.25\nb rec1 3.25 10 1\n")
    assert main([f"--segments={tmp_path}/segments", f"{tmp_path}/out"]) == 0
    assert (tmp_path / "out").read_text() == "a 2.75\nb 6.75\n"


def test_recordings(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as stream:
        stream.setparams((1, 2, 16000, 0, "NONE", ""))
        stream.writeframes(bytes(2 * 24000))
    (tmp_path / "wav.scp").write_text(f"a a.wav\nb cat {tmp_path}/a.wav |\n")
    options = [f"--wav=scp:{tmp_path}/wav.scp", f"--scp-root={tmp_path}"]
    assert main([*options, f"{tmp_path}/out"]) == 0
    assert (tmp_path / "out").read_text() == "a 1.5\nb 1.5\n"
    # Without a root: beside the scp.
    assert main([options[0], f"{tmp_path}/again"]) == 0
    assert (tmp_path / "again").read_text() == "a 1.5\nb 1.5\n"


def test_rounding_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "frames").write_text("".join(f"u{n} {n}\n" for n in range(1, 3000)))
    assert main([f"--num-frames={tmp_path}/frames", f"{tmp_path}/out"]) == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert max(len(line.split()[1]) for line in lines) <= len("29.99")


@pytest.mark.parametrize(
    ("option", "content", "says"),
    [
        ("--segments={}", b"a rec 1\n", "line 1: expected 'utterance recording start end'"),
        ("--segments={}", b"a rec 0 1\nb rec 5 x\n", "line 2"),
        ("--segments={}", b"a rec 5 3\n", "from 5 to 3 s"),
        ("--segments={}", b"a rec 5 -1\n", "in place of -1"),
        ("--segments={}", b"a rec 0 1\na rec 0 1\n", "'a' occurs twice"),
        ("--num-frames={}", b"a 3.5\n", "a whole number"),
        ("--num-frames={}", b"a -3\n", "'a' has -3 frames"),
        ("--num-frames={}", b"a 0\n", "no utterance has any speech"),
        ("--vad=ark:{}", binary_ark({"a": np.float32([0, 0.5])}), "'a' holds 0.5"),
        ("--vad=ark:{}", b"", "the table is empty"),
        ("--vad=ark:{}", b"a \0B\4\2\0\0\0\4\1\0\0\0\4\2\0\0\0", "'a' holds 2"),
        ("--vad=ark:{}", b"a \0B\4\2\0\0\0\4\1\0\0\0\4\1\0\0", "truncated"),
        ("--vad=ark:cat {}; exit 3 |", binary_ark(VAD), "status 3"),
        ("--vad=ark:{}", binary_ark(VAD)[:-2], "truncated"),
        ("--vad={}", b"", "is not an rspecifier"),
        ("--wav=scp:{}", b"a nowhere.wav\n", "'a' points to 'nowhere.wav'"),
        ("--wav=scp:{}", b"a /dev/null\n", "no readable PCM WAV file"),
        ("--vad=ark:{0} --num-frames={0}", b"", "give one of"),
        ("--frame-shift=0 --num-frames={}", b"", "expected seconds above 0"),
    ],
)
def test_bad_input(tmp_path: Path, capfd, option: str, content: bytes, says: str) -> None:
    (tmp_path / "in").write_bytes(content)
    target = tmp_path / "out"
    options = [
        f"--{word}" for word in option.format(tmp_path / "in").removeprefix("--").split(" --")
    ]
    assert main([*options, str(target)]) == 1
    errors = capfd.readouterr().err
    assert says in errors
    assert not target.exists()
