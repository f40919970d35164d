"""score-pairs from the command line: against torch in float64, in parts, and bad input."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from kaldi_files import random_vectors, write_scp
from random_models import DIM, random_model

from dcaplda.bin import enroll_speakers, merge_parts
from dcaplda.bin.score_pairs import main
from dcaplda.export import parity
from dcaplda.runtime import Backend

pytestmark = pytest.mark.torch

COUNT = 1100
"""Utterances: three rows of tiles, the last one short."""


class Case:
    """A table of utterances with durations, in a folder of its own."""

    def __init__(self, folder: Path, bundle: Path, count: int = COUNT) -> None:
        self.folder, self.bundle = folder, bundle
        self.vectors = random_vectors(count, DIM, seed=5)
        self.names = list(self.vectors)
        self.seconds = np.random.default_rng(5).uniform(2, 60, count).round(2)
        self.scp = f"scp:{write_scp(folder, self.vectors)}"
        lines = zip(self.names, self.seconds, strict=True)
        (folder / "utt2dur").write_text("".join(f"{k} {s}\n" for k, s in lines))

    def run(self, target: str, *options: str, tables: tuple[str, ...] = ()) -> int:
        """Run the tool with the durations into a file of the folder."""
        arguments = [str(self.bundle), *(tables or (self.scp,)), str(self.folder / target)]
        return main([f"--durations={self.folder}/utt2dur", *options, *arguments])

    def in_parts(self, target: str, count: int, *options: str) -> int:
        """The same in parts, made here one by one, and put together by --cluster=local."""
        (self.folder / f"{target}.parts").mkdir()
        for part in range(1, count + 1):
            path = f"{target}.parts/{part}-of-{count}"
            assert self.run(path, f"--part={part}", f"--num-parts={count}", *options) == 0
        return self.run(target, "--cluster=local", f"--nj={count}", *options)

    def lines(self, target: str) -> list[tuple[str, str, float]]:
        rows = (line.split(" ") for line in (self.folder / target).read_text().splitlines())
        return [(a, b, float(llr)) for a, b, llr in rows]

    def llrs(self) -> np.ndarray:
        """Torch's LLRs of all utterances against all."""
        side = np.stack(list(self.vectors.values())), self.seconds
        return parity.torch_llrs(random_model("d-plda-dsd"), side, side)


@pytest.fixture(scope="module")
def case(tmp_path_factory, small_bundle: Path) -> Case:
    return Case(tmp_path_factory.mktemp("pairs"), small_bundle)


@pytest.fixture
def few(tmp_path: Path, small_bundle: Path) -> Case:
    return Case(tmp_path, small_bundle, 30)


def test_all_pairs_are_torchs_within_1e_4(case: Case) -> None:
    assert case.run("all") == 0
    found = case.lines("all")
    number = {name: i for i, name in enumerate(case.names)}
    rows, columns = (np.array([number[line[k]] for line in found]) for k in (0, 1))
    assert (rows < columns).all()
    assert len(set(zip(rows, columns, strict=True))) == len(found) == COUNT * (COUNT - 1) // 2
    truth = case.llrs()[rows, columns]
    np.testing.assert_allclose([line[2] for line in found], truth, atol=1e-4, rtol=1e-5)


def test_top_k_is_that_of_a_full_sort(case: Case) -> None:
    assert case.run("best", "--top-k=4") == 0
    truth = case.llrs()
    # A pair is compared once, with the first of the two as enrolment.
    truth = np.triu(truth, 1) + np.triu(truth, 1).T
    np.fill_diagonal(truth, -np.inf)
    found = case.lines("best")
    assert [line[0] for line in found] == [name for name in case.names for _ in range(4)]
    best = -np.sort(-truth, axis=1)[:, :4]
    llrs = np.array([line[2] for line in found]).reshape(-1, 4)
    np.testing.assert_allclose(llrs, best, atol=1e-4, rtol=1e-5)
    number = {name: i for i, name in enumerate(case.names)}
    partners = np.array([number[line[1]] for line in found]).reshape(-1, 4)
    np.testing.assert_allclose(
        np.take_along_axis(truth, partners, axis=1), llrs, atol=1e-4, rtol=1e-5
    )


@pytest.mark.parametrize("parts", [1, 3, 16])
@pytest.mark.parametrize(
    "options", [("--top-k=10",), ("--min-llr=2",), ("--top-k=3", "--min-llr=1"), ()]
)
def test_parts_together_are_one_run_byte_for_byte(
    tmp_path: Path, small_bundle: Path, parts: int, options: tuple[str, ...]
) -> None:
    case = Case(tmp_path, small_bundle, COUNT if options else 700)
    for kind in ("txt", "parquet") if options else ("parquet",):
        assert case.run(f"one.{kind}", *options) == 0
        assert case.in_parts(f"many.{kind}", parts, *options) == 0
        one, many = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("one", "many"))
        assert one == many
        assert one
    assert (tmp_path / "one.ids.parquet").read_bytes() == (
        tmp_path / "many.ids.parquet"
    ).read_bytes()
    assert not list(tmp_path.glob("*.parts"))


def test_parquet_has_numbers_a_dictionary_and_the_model(case: Case) -> None:
    for target in ("kept.parquet", "kept"):
        assert case.run(target, "--min-llr=1") == 0
    path = case.folder / "kept.parquet"
    frame = pl.read_parquet(path)
    assert dict(frame.schema) == {"enroll": pl.UInt32, "test": pl.UInt32, "llr": pl.Float32}
    ids = pl.read_parquet(case.folder / "kept.ids.parquet")["id"]
    assert ids.to_list() == case.names
    named = zip(ids.gather(frame["enroll"]), ids.gather(frame["test"]), frame["llr"], strict=True)
    told = [(a, b, np.float32(llr)) for a, b, llr in case.lines("kept")]
    assert [(a, b, np.float32(llr)) for a, b, llr in named] == told
    metadata = pl.read_parquet_metadata(path)
    assert metadata["dcaplda.model"] == Backend.load(case.bundle).info.fingerprint
    assert metadata["dcaplda.min_llr"] == "1.0"


def test_two_tables_are_every_enrolment_with_every_test(few: Case) -> None:
    other = few.folder / "other"
    other.mkdir()
    chosen = dict(list(few.vectors.items())[:7])
    tables = (f"scp:{write_scp(other, chosen)}", few.scp)
    assert few.run("two", tables=tables) == 0
    found = few.lines("two")
    assert [line[:2] for line in found] == [(a, b) for a in chosen for b in few.names]
    truth = few.llrs()[:7].reshape(-1)
    np.testing.assert_allclose([line[2] for line in found], truth, atol=1e-4, rtol=1e-5)
    assert few.run("two.parquet", tables=tables) == 0
    frame = pl.read_parquet(few.folder / "two.parquet")
    ids = pl.read_parquet(few.folder / "two.ids.parquet")["id"]
    assert ids.gather(frame["test"]).to_list() == [line[1] for line in found]


def test_voiceprints_of_enroll_speakers_serve(few: Case) -> None:
    prints = few.folder / "prints.ark"
    arguments = [f"--durations={few.folder}/utt2dur", str(few.bundle), few.scp, f"ark:{prints}"]
    assert enroll_speakers.main(arguments) == 0
    assert few.run("embeddings") == 0
    assert few.run("prints", "--enroll-voiceprints", tables=(f"ark:{prints}",)) == 0
    one, other = ((few.folder / name).read_bytes() for name in ("embeddings", "prints"))
    assert one == other


def test_more_parts_than_tiles(few: Case) -> None:
    assert few.run("one", "--top-k=2") == 0
    assert few.in_parts("many", 3, "--top-k=2") == 0
    assert (few.folder / "one").read_bytes() == (few.folder / "many").read_bytes()


def test_a_part_of_other_settings_is_made_again(few: Case) -> None:
    (few.folder / "out.parts").mkdir()
    assert few.run("out.parts/1-of-1", "--num-parts=1", "--top-k=2") == 0
    assert few.run("out", "--cluster=local", "--nj=1", "--top-k=3") == 0
    assert few.run("one", "--top-k=3") == 0
    assert (few.folder / "out").read_bytes() == (few.folder / "one").read_bytes()


def test_merge_parts_sends_to_the_tool(few: Case, capsys) -> None:
    assert few.run("part", "--num-parts=1") == 0
    assert merge_parts.main([str(few.folder / "part"), str(few.folder / "merged")]) == 1
    assert "--cluster=local --nj=1" in capsys.readouterr().err
    assert not (few.folder / "merged").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--top-k=-1",), "--top-k=-1: cannot be negative"),
        (("--durations=",), "needs the seconds of speech"),
        (("--durations=-",), "'-': is read twice"),
    ],
)
def test_bad_options_get_one_line(few: Case, capsys, options, expected) -> None:
    assert few.run("out", *options) == 1
    assert expected in capsys.readouterr().err
    assert not (few.folder / "out").exists()


def test_a_missing_duration_is_an_error_or_left_out(few: Case, capsys) -> None:
    lines = (few.folder / "utt2dur").read_text().splitlines(keepends=True)
    (few.folder / "utt2dur").write_text("".join(lines[1:]))
    assert few.run("out") == 1
    assert f"'{few.names[0]}': not in" in capsys.readouterr().err
    assert few.run("out", "--allow-missing") == 0
    assert len(few.lines("out")) == 29 * 28 // 2


def test_one_utterance_makes_no_pair(tmp_path: Path, small_bundle: Path, capsys) -> None:
    assert Case(tmp_path, small_bundle, 1).run("out") == 1
    assert "one utterance makes no pair" in capsys.readouterr().err


def test_parquet_is_not_written_by_a_command(few: Case, capsys) -> None:
    arguments = [f"--durations={few.folder}/utt2dur", str(few.bundle), few.scp, "| cat > x.parquet"]
    assert main(arguments) == 1
    assert "not written by a command" in capsys.readouterr().err
