"""From real recordings to decisions, with the commands of docs/audio.md and README.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from real_audio import (
    EXTRACTOR,
    KIND,
    REAL,
    needs_audio,
    needs_training_data,
    reader,
    recordings,
)

from dcaplda.bin.extract_embeddings import main as extract
from dcaplda.bin.score_trials import main as score
from dcaplda.bin.train_backend import main as train
from dcaplda.eval.metrics.scalars import cllr, eer

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "first-hour" / "first_hour.py"
pytestmark = [pytest.mark.torch, needs_audio, needs_training_data]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embeddings of the recordings, and a backend of other people's."""
    work = tmp_path_factory.mktemp("first-hour")
    folder = str(EXTRACTOR.parent / "flac")
    assert extract([f"--kind={KIND}", str(EXTRACTOR), folder, str(work / "audio")]) == 0
    note = f"--extractor={work / 'audio' / 'extractor.json'}"
    table = f"scp:{REAL / 'train' / 'xvector.scp'}"
    assert train([note, str(REAL / "train"), table, str(work / "backend")]) == 0
    return work


@pytest.mark.slow
def test_all_pairs_of_readers_are_told_apart(work: Path) -> None:
    files = recordings()
    pairs = [(a, b) for k, a in enumerate(files) for b in files[k + 1 :]]
    lines = [f"{a.stem} {b.stem}\n" for a, b in pairs]
    (work / "trials").write_text("".join(lines))
    table = f"scp:{work / 'audio' / 'xvector.scp'}"
    durations = f"--durations={work / 'audio' / 'utt2dur'}"
    places = [str(work / "backend" / "bundle"), table, table, str(work / "trials")]
    assert score([durations, *places, str(work / "scores")]) == 0
    llrs = [float(line.split()[2]) for line in (work / "scores").read_text().splitlines()]
    same = [reader(a) == reader(b) for a, b in pairs]
    targets = [llr for llr, target in zip(llrs, same, strict=True) if target]
    others = [llr for llr, target in zip(llrs, same, strict=True) if not target]
    assert (len(targets), len(others)) == (100, 1125)
    # Measured: 0.0 % and 0.024.
    assert eer(targets, others) < 0.01
    assert cllr(targets, others) < 0.08


def first_hour(work: Path, enrolled: list[Path], test: Path, pool: Path) -> list[str]:
    bundle = work / "backend" / "bundle"
    command = [sys.executable, str(SCRIPT), str(EXTRACTOR), str(bundle), *map(str, enrolled)]
    made = subprocess.run(
        [*command, str(test), f"--unlabelled={pool}"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return re.findall(r"^LLR \S+, threshold 0.00, accept: (\w+)$", made.stdout, flags=re.M)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3, 7])
def test_the_example_decides_rightly_before_and_after_adapting(work: Path, number: int) -> None:
    by_reader: dict[str, list[Path]] = {}
    for path in recordings():
        by_reader.setdefault(reader(path), []).append(path)
    names = list(by_reader)
    three, own = by_reader[names[number]][:3], by_reader[names[number]][3]
    other = by_reader[names[(number + 1) % len(names)]][3]
    # Recordings of people who are in neither trial.
    pool = work / f"pool{number}"
    pool.mkdir()
    for name in names:
        if name not in (reader(own), reader(other)):
            for path in by_reader[name][:3]:
                (pool / path.name).symlink_to(path)
    assert first_hour(work, three, own, pool) == ["True", "True"]
    assert first_hour(work, three, other, pool) == ["False", "False"]


def test_the_example_fits_on_a_page() -> None:
    assert len(SCRIPT.read_text().splitlines()) <= 60
