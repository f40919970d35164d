"""extract-embeddings on recordings of every kind, whole and interrupted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from extractors import embedding_of, write_extractor
from kaldi_filters import written_out
from speechlike import babble

from dcaplda.bin.extract_embeddings import main
from dcaplda.runtime.tables.text_tables import read_numbers, read_words
from dcaplda.runtime.tables.vectors import read_vectors

KIND = "--kind=3d-speaker"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_extractor(tmp_path_factory.mktemp("model") / "extractor.onnx")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of six recordings of three speakers, one of them a pipe."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines, speakers = [], []
    for number in range(6):
        path = folder / f"rec{number}.{'flac' if number % 2 else 'wav'}"
        soundfile.write(path, babble(16000, 3.0 + number / 2, seed=number), 16000)
        source = f"cat '{path}' |" if number == 5 else str(path)
        lines.append(f"u{number} {source}\n")
        speakers.append(f"u{number} s{number // 2}\n")
    (folder / "wav.scp").write_text("".join(lines))
    (folder / "utt2spk").write_text("".join(speakers))
    return folder


def embeddings(out: Path) -> dict[str, np.ndarray]:
    table = read_vectors(f"scp:{out}/xvector.scp")
    return dict(zip(table.ids, table.matrix, strict=True))


def written(samples: np.ndarray) -> np.ndarray:
    frames = written_out(samples, 16000, 80, "povey")
    return embedding_of(frames - frames.mean(axis=0))


def test_tables_agree_with_each_other_and_with_the_recordings(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    assert main([KIND, str(model), f"scp:{data}/wav.scp", str(out)]) == 0
    told = capsys.readouterr().err
    assert "extracted 6 utterances, 0 left out" in told and "times real time" in told
    found, seconds = embeddings(out), read_numbers(f"{out}/utt2dur")
    cut, frames = read_numbers(f"{out}/utt2cut"), read_numbers(f"{out}/utt2num_frames")
    assert list(found) == list(seconds) == list(cut) == [f"u{n}" for n in range(6)]
    assert read_words(f"{out}/utt2spk") == read_words(f"{data}/utt2spk")
    spans: dict[str, list[tuple[float, float]]] = {}
    for line in (out / "speech").read_text().splitlines():
        _, name, begin, end = line.split()
        spans.setdefault(name, []).append((float(begin), float(end)))
    for number, name in enumerate(found):
        path = next(data.glob(f"rec{number}.*"))
        samples, _ = soundfile.read(path, dtype="float32")
        pieces = [samples[round(a * 16000) : round(b * 16000)] for a, b in spans[name]]
        speech = np.concatenate(pieces)
        assert seconds[name] == pytest.approx(len(speech) / 16000, abs=1e-6)
        assert cut[name] == pytest.approx((len(samples) - len(speech)) / 16000, abs=1e-6)
        assert frames[name] == 1 + (len(speech) - 400) // 160
        np.testing.assert_allclose(found[name], written(speech), rtol=1e-3, atol=1e-3)
    note = json.loads((out / "extractor.json").read_text())
    assert note["corpus"]["utterances"] == 6 and note["speech"]["name"] == "silero"
    assert not (out / ".parts").exists() and not (out / "left_out").exists()


def test_again_does_nothing_and_another_job_is_refused(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    assert main([KIND, str(model), f"scp:{data}/wav.scp", str(out)]) == 0
    before = (out / "xvector.ark").stat().st_mtime_ns
    assert main([KIND, str(model), f"scp:{data}/wav.scp", str(out)]) == 0
    assert "extracted 6 utterances before" in capsys.readouterr().err
    assert (out / "xvector.ark").stat().st_mtime_ns == before
    assert main([KIND, "--vad=none", str(model), f"scp:{data}/wav.scp", str(out)]) == 1
    assert "another extractor, list or setting" in capsys.readouterr().err
    assert main([KIND, str(model), f"scp:{data}/wav.scp", str(data)]) == 1
    assert "not empty, and not what extract-embeddings wrote" in capsys.readouterr().err
    like = f"--like={out}/extractor.json"
    assert main([like, str(model), f"scp:{data}/wav.scp", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "utt2dur").read_bytes() == (out / "utt2dur").read_bytes()


def test_segments_cut_recordings_and_channels_are_kaldis(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    left, right = babble(16000, 6.0, seed=1), babble(16000, 6.0, seed=2, pitch=210)
    soundfile.write(folder / "call.wav", np.stack([left, right], axis=1), 16000, subtype="FLOAT")
    (folder / "wav.scp").write_text("call call.wav\n")
    lines = ["a call 0.5 3.25 0", "b call 2 -1 1", "c call 1 6.3 0"]
    (folder / "segments").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    options = [KIND, "--vad=none"]
    assert main([*options, str(model), f"scp:{folder}/wav.scp", str(out)]) == 0
    found, seconds = embeddings(out), read_numbers(f"{out}/utt2dur")
    assert seconds == {"a": 2.75, "b": 4.0, "c": 5.0}
    for name, samples in (
        ("a", left[8000:52000]),
        ("b", right[32000:]),
        ("c", left[16000:]),
    ):
        np.testing.assert_allclose(found[name], written(samples), rtol=1e-3, atol=1e-3)
    (folder / "segments").write_text("a call 0.5 3.25 0\nlate call 5.5 9 0\n")
    arguments = [str(model), f"scp:{folder}/wav.scp", str(tmp_path / "late")]
    assert main([*options, *arguments]) == 1
    assert "goes from 5.5 to 9 s, but" in capsys.readouterr().err
    assert main([*options, "--segments=none", "--channel=2", *arguments[:2], f"{out}2"]) == 0
    assert read_numbers(f"{out}2/utt2dur") == {"call": 6.0}


def test_a_folder_of_files_and_an_archive_of_wavs(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    (folder / "ann").mkdir(parents=True)
    signal_of = {}
    for name in ("ann/one two", "bob"):
        signal_of[name.replace(" ", "_")] = babble(16000, 3.0, seed=len(name))
        samples = signal_of[name.replace(" ", "_")]
        soundfile.write(folder / f"{name}.wav", samples, 16000, subtype="FLOAT")
    (folder / "notes.txt").write_text("no sound")
    assert main([KIND, "--vad=none", str(model), str(folder), str(tmp_path / "out")]) == 0
    found = embeddings(tmp_path / "out")
    assert set(found) == {"ann/one_two", "bob"}
    for name, samples in signal_of.items():
        np.testing.assert_allclose(found[name], written(samples), rtol=1e-3, atol=1e-3)
    # Kaldi's archive of WAV files: the bytes follow the id.
    first, second = (folder / "ann/one two.wav").read_bytes(), (folder / "bob.wav").read_bytes()
    (tmp_path / "wav.ark").write_bytes(b"a " + first + b"b " + second)
    lines = f"a wav.ark:2\nb wav.ark:{2 + len(first) + 2}\n"
    (tmp_path / "wav.scp").write_text(lines)
    table = f"scp:{tmp_path}/wav.scp"
    assert main([KIND, "--vad=none", str(model), table, str(tmp_path / "out2")]) == 0
    again = embeddings(tmp_path / "out2")
    np.testing.assert_array_equal(again["a"], found["ann/one_two"])
    np.testing.assert_array_equal(again["b"], found["bob"])


def bad_recordings(folder: Path) -> dict[str, str]:
    """Files that cannot be used, and a word of what is to be said of each."""
    soundfile.write(folder / "noise.flac", np.random.default_rng(0).normal(0, 0.1, 20000), 16000)
    whole = (folder / "noise.flac").read_bytes()
    (folder / "cut.flac").write_bytes(whole[: len(whole) // 2])
    soundfile.write(folder / "none.wav", np.zeros(0), 16000)
    nan = np.zeros(16000)
    nan[5] = np.nan
    soundfile.write(folder / "nan.wav", nan, 16000, subtype="FLOAT")
    soundfile.write(folder / "silent.wav", np.zeros(32000), 16000)
    (folder / "text.wav").write_text("not a sound\n")
    two = np.stack([babble(16000, seed=1), babble(16000, seed=2)], axis=1)
    soundfile.write(folder / "stereo.wav", two, 16000)
    return {
        "cut.flac": "cut short or damaged",
        "none.wav": "no samples",
        "nan.wav": "sample 6 is nan",
        "silent.wav": "0.00 s of speech in 2.00 s",
        "text.wav": "no audio that can be decoded",
        "stereo.wav": "2 different channels",
        "exit 3 |": "ended with status 3",
        "missing.wav": "No such file",
    }


def good_recordings(folder: Path) -> list[str]:
    """Files of every depth and rate."""
    for name, rate, subtype in (
        ("8bit.wav", 8000, "PCM_U8"),
        ("24bit.wav", 44100, "PCM_24"),
        ("96k.flac", 96000, "PCM_24"),
        ("plain.wav", 16000, "PCM_16"),
    ):
        soundfile.write(folder / name, babble(rate), rate, subtype=subtype)
    both = np.repeat(babble(16000)[:, None], 2, axis=1)
    soundfile.write(folder / "twice.wav", both, 16000)
    return ["8bit.wav", "24bit.wav", "96k.flac", "plain.wav", "twice.wav"]


def test_bad_audio_is_counted_and_the_others_are_extracted(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    bad, good = bad_recordings(tmp_path), good_recordings(tmp_path)
    lines = [f"bad{k} {name}\n" for k, name in enumerate(bad)]
    lines[2:2] = [f"good{k} {name}\n" for k, name in enumerate(good)]
    (tmp_path / "wav.scp").write_text("".join(lines))
    out = tmp_path / "out"
    arguments = [str(model), f"scp:{tmp_path}/wav.scp", str(out)]
    # A file that is not there is said before any work.
    assert main([KIND, *arguments]) == 1
    told = capsys.readouterr().err
    assert "1 of 13 recordings are not there" in told and not out.exists()
    assert main([KIND, "--allow-missing", *arguments]) == 0
    told = capsys.readouterr().err
    assert "extracted 5 utterances, 8 left out" in told and "Traceback" not in told
    assert "lower sample rate (8000 Hz)" in told
    left_out = dict(line.split(" ", 1) for line in (out / "left_out").read_text().splitlines())
    assert len(left_out) == len(bad)
    for number, words in enumerate(bad.values()):
        assert words in left_out[f"bad{number}"], left_out[f"bad{number}"]
        assert told.count(f"WARNING: bad{number}: ") == 1
    found, seconds = embeddings(out), read_numbers(f"{out}/utt2dur")
    assert list(found) == [f"good{k}" for k in range(5)]
    # The same sound at other rates and depths has about the same speech.
    plain = seconds["good3"]
    assert all(value == pytest.approx(plain, rel=0.35) for value in seconds.values())
    np.testing.assert_array_equal(found["good4"], found["good3"])


def test_failures_are_tried_again_and_the_rest_is_kept(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    shutil.move(data / "rec2.wav", data / "kept.wav")
    (data / "rec2.wav").write_text("to be recorded")
    arguments = [KIND, str(model), f"scp:{data}/wav.scp", str(out)]
    assert main(arguments) == 1
    told = capsys.readouterr().err
    assert "1 of 6 utterances have no embedding, the first is 'u2'" in told
    assert not (out / "xvector.scp").exists()
    shutil.move(data / "kept.wav", data / "rec2.wav")
    assert main(["--verbose=1", *arguments]) == 0
    assert "extracted 6 utterances, 0 left out" in capsys.readouterr().err
    assert list(embeddings(out)) == [f"u{n}" for n in range(6)]


def test_parts_give_the_bytes_of_one_run(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcaplda.audio.corpus import blocks, work

    monkeypatch.setattr(blocks, "UTTERANCES", 2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    common = [KIND, "--threads=1"]
    assert main([*common, str(model), f"scp:{data}/wav.scp", str(whole)]) == 0
    # However little a thread holds at a time.
    monkeypatch.setattr(work, "HELD", 0.1)
    for part in (2, 1, 3):
        options = [*common, f"--part={part}", "--num-parts=3"]
        assert not (parts / "xvector.scp").exists()
        assert main([*options, str(model), f"scp:{data}/wav.scp", str(parts)]) == 0
    for name in ("xvector.ark", "utt2dur", "utt2num_frames", "speech", "utt2cut", "utt2spk"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_killed_run_goes_on_where_it_was(model: Path, data: Path, tmp_path: Path) -> None:
    """Pipes note that they were read; after a kill none of a finished block is read again."""
    lines, go = [], tmp_path / "go"
    for number in range(40):
        path = data / f"rec{number % 5}.{'flac' if number % 5 % 2 else 'wav'}"
        # The fourth block waits for the kill.
        wait = f" until [ -e {go} ]; do sleep 0.05; done;" if number >= 14 else ""
        lines.append(f"u{number:02d} echo {number} >> {tmp_path}/log;{wait} cat '{path}' |\n")
    (data / "wav.scp").write_text("".join(lines))
    out = tmp_path / "out"
    program = (
        "import sys; from dcaplda.audio.corpus import blocks; blocks.UTTERANCES = 4; "
        "from dcaplda.bin.extract_embeddings import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = [KIND, "--threads=1", str(model), f"scp:{data}/wav.scp", str(out)]
    command = [sys.executable, "-c", program, *arguments]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    last = time.monotonic() + 120
    while len(list(out.glob(".parts/*.npz"))) < 3 and time.monotonic() < last:
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    done = len(list(out.glob(".parts/*.npz")))
    assert done == 3 and not (out / "xvector.scp").exists()
    (tmp_path / "log").unlink()
    go.touch()
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    again = (tmp_path / "log").read_text().split()
    assert again == [str(number) for number in range(12, 40)]
    assert len(embeddings(out)) == 40


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give --kind=wespeaker"),
        ([KIND, "--vad=webrtc"], "expected silero or energy or none"),
        ([KIND, "--channel=left"], "--channel=left: expected 1, 2"),
        ([KIND, "--part=3", "--num-parts=2"], "parts count from 1"),
        ([KIND, "--min-duration=0"], "expected above 0"),
        ([KIND, "--like=nothing.json"], "'nothing.json': cannot be read"),
        ([KIND, "--vad-model=none.onnx"], "none.onnx: cannot be read"),
        (["--kind=waveform"], "takes no samples"),
    ],
)
def test_bad_usage_is_one_line(
    options: list[str], words: str, model: Path, data: Path, capsys: pytest.CaptureFixture
) -> None:
    out = data / "out"
    assert main([*options, str(model), f"scp:{data}/wav.scp", str(out)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert words in error and "ERROR" in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("ark:x.ark", "recordings are named by scp:wav.scp"),
        ("scp:none.scp", "no such file"),
        ("{}/empty", "has no sound files"),
    ],
)
def test_lists_that_are_none_are_refused(
    table: str, words: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "empty").mkdir()
    assert main([KIND, str(model), table.format(tmp_path), str(tmp_path / "out")]) == 1
    assert words in capsys.readouterr().err
