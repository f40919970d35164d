"""The fuzzer itself: every target runs, the same bytes mean the same, faults are found."""

import json
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from fuzz.choices import Choices
from fuzz.target import BAD, GOOD, REFUSED
from fuzz.targets import TARGETS, make_target

pytestmark = pytest.mark.torch
RUN = Path(__file__).parent / "run.py"


def inputs(count: int, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(rng.randrange(1, 64)) for _ in range(count)]


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_runs_and_finds_nothing(name: str, tmp_path: Path) -> None:
    target = make_target(name, tmp_path)
    assert target.__doc__ and "Oracle: " in target.__doc__, "each says what it compares with"
    count = 30 if name in ("onnx", "joint", "files", "manifest") else 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [target.run(data) for data in inputs(count)]
    bad = [told for outcome, told in outcomes if outcome in BAD]
    assert not bad, bad[0]
    kinds = {outcome for outcome, _ in outcomes}
    assert REFUSED in kinds and kinds <= set(GOOD)


def test_the_same_bytes_give_the_same_outcome(tmp_path: Path) -> None:
    target = make_target("words", tmp_path)
    first, second = ([target.run(data) for data in inputs(50)] for _ in range(2))
    assert first == second and len({outcome for outcome, _ in first}) > 1


def test_choices_end_with_the_first_possibility() -> None:
    choices = Choices(b"\x05\xff\x01\x00")
    assert choices.below(4) == 1
    assert choices.below(70_000) == 0xFF0100 % 70_000
    assert choices.pick("abc") == "a" and not choices.chance() and choices.bytes(9) == b"\0"


def unchecked_graphs(monkeypatch) -> None:
    from dcaplda.runtime.bundle import agreement

    monkeypatch.setattr(
        agreement, "read_file", lambda directory, file: Path(directory, file.name).read_bytes()
    )


def unchecked_speakers(monkeypatch) -> None:
    from dcaplda.runtime.gallery.database import sums, tables

    monkeypatch.setattr(sums, "check_sum", lambda *arguments: None)
    monkeypatch.setattr(tables, "check_sum", lambda *arguments: None)


def converted_options(monkeypatch) -> None:
    """As before there was a typed reader: int(2.7) is 2, float([1]) a traceback."""
    from dcaplda.bin.common import options

    monkeypatch.setattr(options, "typed", lambda value, kind, place: kind(value))


def order_ignored(monkeypatch) -> None:
    """Columns are taken for rows."""
    from dcaplda.runtime.tables.formats import npy

    read = npy.read_header
    monkeypatch.setattr(npy, "read_header", lambda data: read(data)._replace(fortran=False))


def no_digest(monkeypatch) -> None:
    from dcaplda.train.steps import checkpoints

    monkeypatch.setattr(checkpoints, "tensors_digest", lambda tensors, text: "0")


def other_manifest(monkeypatch) -> None:
    """Nobody compares model.json with the graphs; the use of durations is what somebody turned."""
    from dcaplda.runtime.bundle import agreement

    def turned(choices: Choices, tree: dict) -> dict:
        return {**tree, "uses_durations": not tree["uses_durations"]}

    monkeypatch.setattr("fuzz.targets.bundle.edited_tree", turned)
    monkeypatch.setattr(agreement, "disagreement", lambda info, name, facts: "")


FAULTS = {
    "files": unchecked_graphs,
    "gallery": unchecked_speakers,
    "options": converted_options,
    "npz": order_ignored,
    "training": no_digest,
    "manifest": other_manifest,
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_readers_is_found(name: str, tmp_path: Path, monkeypatch) -> None:
    """A check is taken out: within some hundred inputs the oracle, or a traceback, tells."""
    FAULTS[name](monkeypatch)
    target = make_target(name, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = next((o for o, _ in map(target.run, inputs(1500, seed=7)) if o in BAD), None)
    assert found is not None


def run(*options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(RUN), "--engine=plain", "--seed=1", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("kinds", "patience"),
    # Only what never ends needs little patience: on a busy machine a gigabyte takes seconds.
    [(("hang",), 4), (("crash", "memory", "traceback", "wrong"), 120)],
)
def test_what_kills_or_holds_up_a_process_is_counted(kinds, patience, tmp_path: Path) -> None:
    """A hang, a crash, a gigabyte, a traceback and a wrong answer: each with the input at hand."""
    names = ",".join(f"planted-{kind}" for kind in kinds)
    done = run(
        f"--targets={names}", "--seconds=6", f"--patience={patience}", f"--findings={tmp_path}"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    for kind in kinds:
        records = [json.loads(p.read_text()) for p in tmp_path.glob(f"planted-{kind}-{kind}-*")]
        assert records, f"{kind}: {done.stdout}"
        # The input that is kept is the one that meets the fault: 7 of 8 in its first byte.
        assert all(bytes.fromhex(record["input"])[0] % 8 == 7 for record in records), kind


def test_a_finding_can_be_run_again(tmp_path: Path) -> None:
    run("--targets=planted-wrong", "--seconds=2", f"--findings={tmp_path}")
    again = next(tmp_path.glob("planted-wrong-wrong-*"))
    assert "2 instead of 3" in run(f"--again={again}").stdout


def test_a_fine_target_is_status_0_with_its_counts(tmp_path: Path) -> None:
    done = run(
        "--targets=planted-fine", "--seconds=60", "--inputs=500", f"--findings={tmp_path / 'f'}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"planted-fine +500 ", done.stdout) and "500 inputs in" in done.stdout
    assert not (tmp_path / "f").exists()
