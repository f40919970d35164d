"""search-speakers from the command line: against a full sort of torch's LLRs, and bad input."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kaldi_files import random_vectors, write_scp
from random_models import DIM, random_model

from dcaplda.bin import enroll_speakers
from dcaplda.bin.search_speakers import main
from dcaplda.export import parity
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.runtime.gallery import side
from dcaplda.runtime.gallery.speakers import Gallery
from dcaplda.runtime.tables.vector_writer import write_vectors

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]


class Case:
    """Twelve utterances of both sides, four speakers of two to four of them."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.folder, self.bundle = folder, bundle
        self.vectors = random_vectors(12, DIM, seed=5)
        self.names = list(self.vectors)
        self.seconds = np.random.default_rng(5).uniform(2, 60, 12).round(2)
        self.scp = f"scp:{write_scp(folder, self.vectors)}"
        lines = zip(self.names, self.seconds, strict=True)
        (folder / "utt2dur").write_text("".join(f"{k} {s}\n" for k, s in lines))
        self.members = {"a": [0, 1], "b": [2, 3, 4], "c": [5, 6, 7, 8], "d": [9]}
        (folder / "spk2utt").write_text(
            "".join(
                f"{name} {' '.join(self.names[i] for i in rows)}\n"
                for name, rows in self.members.items()
            )
        )
        self.out = folder / "matches"

    def run(self, *options: str, enroll: str = "", test: str = "") -> int:
        """Run the tool with the durations; the output is in `out`."""
        arguments = [str(self.bundle), enroll or self.scp, test or self.scp, str(self.out)]
        return main([f"--durations={self.folder}/utt2dur", *options, *arguments])

    def lines(self) -> list[list[str]]:
        return [line.split(" ") for line in self.out.read_text().splitlines()]

    def llrs(self, groups: bool = False) -> np.ndarray:
        """Torch's LLRs of all utterances (or averaged speakers) against all utterances."""
        matrix = np.stack(list(self.vectors.values()))
        enroll: tuple = (matrix, self.seconds)
        if groups:
            rows = [i for members in self.members.values() for i in members]
            numbers = np.repeat(np.arange(4), [len(m) for m in self.members.values()])
            enroll = (matrix[rows], self.seconds[rows], numbers)
        return parity.torch_llrs(random_model("d-plda-dsd"), enroll, (matrix, self.seconds))


@pytest.fixture
def case(tmp_path: Path, small_bundle: Path) -> Case:
    return Case(tmp_path, small_bundle)


def check(case: Case, truth: np.ndarray, speakers: list[str], top_k: int) -> None:
    """Lines are those of a full sort of (speakers, tests) LLRs, within 1e-4."""
    lines = case.lines()
    assert len(lines) == len(case.names) * top_k
    for number, name in enumerate(case.names):
        part = lines[number * top_k : (number + 1) * top_k]
        order = np.argsort(-truth[:, number])[:top_k]
        assert [line[0] for line in part] == [name] * top_k
        assert [line[1] for line in part] == [speakers[i] for i in order]
        found = [float(line[2]) for line in part]
        np.testing.assert_allclose(found, truth[order, number], atol=1e-4)


def test_every_utterance_is_a_speaker_without_spk2utt(case: Case) -> None:
    assert case.run("--top-k=5") == 0
    check(case, case.llrs(), case.names, 5)


@pytest.mark.parametrize("name", ["x.npz", "npy:x", "x.h5", "x.scp"])
def test_speakers_of_any_format_are_a_table_and_no_gallery(
    case: Case, name: str, monkeypatch
) -> None:
    monkeypatch.chdir(case.folder)
    if name != "x.scp":
        write_vectors(name, case.names, np.stack(list(case.vectors.values())))
    assert case.run("--top-k=3", enroll=name, test=name) == 0
    names = sorted(case.names) if name == "npy:x" else case.names
    rows = [case.names.index(key) for key in names]
    assert [line[0] for line in case.lines()[::3]] == names
    case.names = names
    check(case, case.llrs()[rows][:, rows], names, 3)


def test_scores_of_several_utterances_are_averaged(case: Case) -> None:
    assert case.run("--top-k=3", f"--spk2utt={case.folder}/spk2utt") == 0
    truth = np.stack([case.llrs()[rows].mean(axis=0) for rows in case.members.values()])
    check(case, truth, list(case.members), 3)


def test_voiceprints_can_be_averaged_instead(case: Case) -> None:
    options = [f"--spk2utt={case.folder}/spk2utt", "--multi-enroll=voiceprints"]
    assert case.run("--top-k=4", *options) == 0
    check(case, case.llrs(groups=True), list(case.members), 4)


def test_more_than_there_are_gives_all(case: Case) -> None:
    assert case.run("--top-k=100") == 0
    check(case, case.llrs(), case.names, 12)


def test_a_gallery_file_gives_the_same_as_its_table(case: Case) -> None:
    kept = case.folder / "callers.db"
    assert case.run(f"--spk2utt={case.folder}/spk2utt", f"--gallery-out={kept}") == 0
    text = case.out.read_bytes()
    assert case.run(enroll=str(kept)) == 0
    assert case.out.read_bytes() == text
    with Gallery.open(kept, Backend.load(case.bundle)) as gallery:
        assert list(gallery) == ["a", "b", "c", "d"]


def test_voiceprints_of_enroll_speakers_are_taken(case: Case) -> None:
    target = f"ark:{case.folder}/v.ark"
    options = [f"--durations={case.folder}/utt2dur", str(case.bundle), case.scp, target]
    assert enroll_speakers.main(options) == 0
    assert case.run("--top-k=5", "--enroll-voiceprints", enroll=target) == 0
    check(case, case.llrs(), case.names, 5)


def test_prior_accepts_at_most_the_first(case: Case) -> None:
    """Bayes' rule written out; prior / 12 for each."""
    assert case.run("--top-k=2", "--prior=0.9", "--cost-miss=5") == 0
    lines = case.lines()
    weights = 0.9 / 12 * np.exp(case.llrs())
    posterior = weights.max(axis=0) / (weights.sum(axis=0) + 0.1)
    verdicts = ["accept" if p * 5 >= 1 - p else "reject" for p in posterior]
    assert [line[3] for line in lines[::2]] == verdicts
    assert {line[3] for line in lines[1::2]} == {"reject"}
    assert set(verdicts) == {"accept", "reject"}


def test_it_runs_from_a_checkout_and_writes_to_stdout(case: Case) -> None:
    command = [str(ROOT / "bin" / "search-speakers"), f"--durations={case.folder}/utt2dur"]
    command += ["--top-k=1", str(case.bundle), case.scp, case.scp, "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 12
    assert "searched 12 speakers for each of 12 utterances" in done.stderr


def test_torch_and_polars_are_not_needed(case: Case) -> None:
    program = (
        "import sys\n"
        "for name in ('torch', 'onnx', 'polars', 'scipy'): sys.modules[name] = None\n"
        "from dcaplda.bin.search_speakers import main; sys.exit(main(sys.argv[1:]))"
    )
    options = [f"--durations={case.folder}/utt2dur", str(case.bundle), case.scp, case.scp, "-"]
    done = subprocess.run([sys.executable, "-c", program, *options], capture_output=True)
    assert done.returncode == 0, done.stderr


def bad(case: Case, kind: str) -> int:
    if kind == "no durations":
        return main([str(case.bundle), case.scp, case.scp, str(case.out)])
    if kind == "no gallery":
        return case.run(enroll=str(case.folder / "nowhere.db"))
    if kind == "empty gallery":
        Gallery.open(case.folder / "empty.db", Backend.load(case.bundle)).close()
        return case.run(enroll=str(case.folder / "empty.db"))
    if kind == "table options":
        return case.run("--spk2utt=x", enroll="g.db")
    if kind == "other model":
        Gallery.open(case.folder / "g.db", Backend.load(case.bundle)).close()
        export_model(random_model("d-plda-dsd", seed=3), case.folder / "other")
        case.bundle = case.folder / "other"
        return case.run(enroll=str(case.folder / "g.db"))
    if kind == "missing duration":
        lines = (case.folder / "utt2dur").read_text().splitlines()[1:]
        (case.folder / "utt2dur").write_text("\n".join(lines) + "\n")
        return case.run()
    if kind == "unknown utterance":
        (case.folder / "spk2utt").write_text("a nobody\n")
        return case.run(f"--spk2utt={case.folder}/spk2utt")
    if kind == "twice":
        kept = f"--gallery-out={case.folder}/g.db"
        assert case.run(kept) == 0
        case.out.unlink()
        return case.run(kept)
    return case.run(kind)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no durations", "needs the seconds of speech"),
        ("no gallery", "nowhere.db: no such gallery"),
        ("empty gallery", "the gallery is empty"),
        ("table options", "is a gallery; the options of tables"),
        ("other model", "made with another model"),
        ("missing duration", "1 are missing, the first is 'u0'"),
        ("unknown utterance", "'a': not in"),
        ("twice", "already there"),
        ("--top-k=0", "--top-k=0: expected at least 1"),
        ("--cost-fa=3", "need --prior"),
        ("--prior=2", "prior of a target trial is 2"),
        ("--multi-enroll=mean", "expected auto or joint or scores or voiceprints"),
    ],
)
def test_bad_input_is_one_line_and_no_file(case: Case, capsys, kind: str, message: str) -> None:
    assert bad(case, kind) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "ERROR" in line]
    assert len(errors) == 1 and message in errors[0], errors
    assert not case.out.exists()


def test_missing_may_be_left_out(case: Case) -> None:
    lines = (case.folder / "utt2dur").read_text().splitlines()[1:]
    (case.folder / "utt2dur").write_text("\n".join(lines) + "\n")
    assert case.run("--allow-missing", "--top-k=1") == 0
    assert len(case.lines()) == 11


def test_codes_find_what_exact_search_finds(case: Case, monkeypatch, capsys) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(side, "LEAST_CODED", 500)
    path = case.folder / "many.db"
    backend = Backend.load(case.bundle, threads=1)
    with Gallery.open(path, backend) as gallery:
        prints = backend.voiceprints(*parity.random_side(DIM, 600, 4))
        gallery.add_many((f"s{i}", row) for i, row in enumerate(prints))
    assert case.run("--top-k=200", enroll=str(path)) == 0
    wanted = case.lines()
    assert case.run("--top-k=200", "--index=codes", enroll=str(path)) == 0
    assert [line[:2] for line in case.lines()] == [line[:2] for line in wanted]
    assert "not proved" not in capsys.readouterr().err
    assert case.run("--top-k=1", "--index=codes", enroll=str(path)) == 0
    assert "12 of 12 searches are not proved to be exact" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--index=hnsw"], "--index=hnsw: expected codes"),
        (["--index=codes", "--place-bundles=p"], "without --place-bundles"),
        (["--index=codes"], "--index=codes is for galleries; make one by --gallery-out first"),
    ],
)
def test_codes_are_refused_in_a_line(case: Case, options: list[str], message: str, capsys) -> None:
    assert case.run(*options) == 1
    assert message in capsys.readouterr().err


def test_a_speakers_name_is_one_word_and_an_llr_the_shortest_decimal(case: Case) -> None:
    backend = Backend.load(case.bundle, threads=1)
    with Gallery.open(case.folder / "people.db", backend) as gallery:
        gallery.add("Ann Lee", backend.enroll(case.vectors[case.names[0]], case.seconds[0]))
    assert case.run(enroll=str(case.folder / "people.db")) == 0
    truth = case.llrs()[0]
    for line, name, llr in zip(case.lines(), case.names, truth, strict=True):
        assert line[:2] == [name, "Ann%20Lee"] and len(line) == 3
        assert float(line[2]) == pytest.approx(llr, abs=1e-4)
        assert line[2] == str(np.float32(line[2]))
