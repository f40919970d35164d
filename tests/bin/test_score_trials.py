"""score-trials from the command line: golden scores, every option, every kind of bad input."""

import errno
import fcntl
import gzip
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS, read_columns, reference_roots
from kaldi_files import binary_ark, random_vectors, write_scp
from random_models import DIM, random_model

from dcaplda.bin.score_trials import main
from dcaplda.export import parity
from dcaplda.runtime.decision import bayes_threshold, posterior
from dcaplda.runtime.tables.vector_writer import write_vectors

pytestmark = pytest.mark.torch

COMMAND = [sys.executable, "-m", "dcaplda.bin.score_trials"]


class Case:
    """A folder with tables and trials, a bundle, and what torch says of the trials."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.folder, self.bundle = folder, bundle
        rng = np.random.default_rng(5)
        self.vectors = random_vectors(12, DIM, seed=5)
        self.seconds = {
            key: round(float(s), 2)
            for key, s in zip(self.vectors, rng.uniform(2, 60, 12), strict=True)
        }
        self.scp = write_scp(folder, self.vectors)
        self.ark = folder / "x.ark"
        self.utt2dur = folder / "utt2dur"
        self.utt2dur.write_text("".join(f"{k} {s}\n" for k, s in self.seconds.items()))
        self.pairs = [(f"u{a}", f"u{b}") for a, b in rng.integers(0, 12, (40, 2))]
        self.trials = folder / "trials"
        self.trials.write_text("".join(f"{a} {b} target\n" for a, b in self.pairs))
        self.scores = folder / "scores"

    def torch(self) -> dict[tuple[str, str], float]:
        """LLRs of all pairs, from the torch model in float64."""
        names = list(self.vectors)
        side = np.stack(list(self.vectors.values())), np.array(list(self.seconds.values()))
        llrs = parity.torch_llrs(random_model("d-plda-dsd"), side, side)
        return {(a, b): llrs[i, j] for i, a in enumerate(names) for j, b in enumerate(names)}

    def arguments(self, *options: str, **replace: str) -> list[str]:
        """A command line; a keyword replaces one of the arguments."""
        usual = {
            "model": str(self.bundle),
            "enroll": f"scp:{self.scp}",
            "test": f"scp:{self.scp}",
            "trials": str(self.trials),
            "scores": str(self.scores),
        }
        durations = (
            [] if any("durations" in o for o in options) else [f"--durations={self.utt2dur}"]
        )
        return [*durations, *options, *{**usual, **replace}.values()]

    def run(self, *options: str, **replace: str) -> list[list[str]]:
        """Score, and give the columns of the score file."""
        assert main(self.arguments(*options, **replace)) == 0
        return read_columns(self.scores)


@pytest.fixture
def case(tmp_path: Path, small_bundle: Path) -> Case:
    return Case(tmp_path, small_bundle)


def check(rows: list[list[str]], expected: dict, pairs: list[tuple[str, str]]) -> None:
    """The pairs in their order, with LLRs within 1e-4."""
    assert [(row[0], row[1]) for row in rows] == pairs
    found = [float(row[2]) for row in rows]
    np.testing.assert_allclose(found, [expected[pair] for pair in pairs], atol=1e-4)


# Right scores


@pytest.fixture(scope="module", params=["init", "trained"])
def imported(request, tmp_path_factory) -> tuple[str, Path]:
    from dcaplda.bin.import_model import main as import_model

    bundle = tmp_path_factory.mktemp("imported") / request.param
    checkpoint = EXTRACTS / "reference" / f"{request.param}.pth"
    assert import_model(["--from=dca-plda", str(checkpoint), str(bundle)]) == 0
    return request.param, bundle


@pytest.mark.parametrize("root", reference_roots())
def test_reference_scores_are_reproduced(imported, root: Path, tmp_path: Path) -> None:
    """Every score file of the authors' program, within 1e-4, and in its order."""
    tag, bundle = imported
    checked = 0
    for folder in sorted(path.parent for path in root.glob("*/xvector.scp")):
        for kind, multi in (
            ("single", ""),
            ("multi.score_level", "scores"),
            ("multi.embedding_level", "voiceprints"),
        ):
            golden = folder / f"{tag}.{kind}.scores"
            if not golden.exists():
                continue
            options = [f"--durations={folder}/utt2dur", f"--scp-root={folder}"]
            if multi:
                options += [f"--spk2utt={folder}/spk2utt", f"--multi-enroll={multi}"]
            table, scores = f"scp:{folder}/xvector.scp", tmp_path / "scores"
            trials = f"cut -d' ' -f1,2 {golden} |"
            assert main([*options, str(bundle), table, table, trials, str(scores)]) == 0
            found, expected = read_columns(scores), read_columns(golden)
            assert [row[:2] for row in found] == [row[:2] for row in expected]
            difference = [
                abs(float(a[2]) - float(b[2])) for a, b in zip(found, expected, strict=True)
            ]
            assert max(difference) < 1e-4
            checked += 1
    assert checked >= 3


def test_parts_put_together_are_the_whole_byte_for_byte(imported, tmp_path: Path) -> None:
    tag, bundle = imported
    folder = EXTRACTS / "reference" / "seen0"
    table = f"scp:{folder}/xvector.scp"
    for options, trials in (
        ([], f"cut -d' ' -f1,2 {folder}/{tag}.single.scores |"),
        ([f"--spk2utt={folder}/spk2utt"], str(folder / "trials_multi")),
        (
            [f"--spk2utt={folder}/spk2utt", "--multi-enroll=voiceprints"],
            str(folder / "trials_multi"),
        ),
    ):
        common = [*options, f"--durations={folder}/utt2dur", f"--scp-root={folder}"]
        rest = [str(bundle), table, table, trials]
        assert main([*common, *rest, str(tmp_path / "whole")]) == 0
        for part in range(1, 8):
            option = [f"--part={part}", "--num-parts=7", f"--threads={1 + part % 2}"]
            assert main([*common, *option, *rest, str(tmp_path / f"part.{part}")]) == 0
        parts = b"".join((tmp_path / f"part.{part}").read_bytes() for part in range(1, 8))
        assert parts == (tmp_path / "whole").read_bytes()


def test_scores_equal_torch(case: Case) -> None:
    check(case.run(), case.torch(), case.pairs)


def test_every_way_to_give_the_vectors_gives_the_same_scores(case: Case) -> None:
    expected = case.run()
    packed = case.folder / "x.gz"
    packed.write_bytes(gzip.compress(case.ark.read_bytes()))
    for enroll, test in (
        (f"ark:{case.ark}", f"scp:{case.scp}"),
        (f"ark,s,cs:{case.ark}", f"ark:cat {case.ark} |"),
        (f"scp,p:{case.scp}", f"ark:{packed}"),
    ):
        assert case.run(enroll=enroll, test=test) == expected


def test_a_piped_in_table_may_serve_both_sides(case: Case) -> None:
    expected = case.run()
    command = COMMAND + case.arguments(enroll="ark:-", test="ark:-", scores="-")
    with open(case.ark, "rb") as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()] == expected


@pytest.mark.parametrize("form", ["{a} {b}", "{a}\t{b}\timp", "0 {a} {b}"])
def test_every_form_of_trials_gives_the_same_scores(case: Case, form: str) -> None:
    expected = case.run()
    case.trials.write_text("".join(form.format(a=a, b=b) + "\n" for a, b in case.pairs))
    assert case.run() == expected


def test_trials_with_a_header(case: Case) -> None:
    expected = case.run()
    lines = ["segment,channel,model"] + [f"{b},a,{a}" for a, b in case.pairs]
    case.trials.write_text("\n".join(lines) + "\n")
    assert case.run("--enroll-column=model", "--test_column=segment") == expected
    assert case.run("--header") == expected


def test_one_set_of_header_options_serves_score_trials_and_eval_scores(case: Case, capfd) -> None:
    from dcaplda.bin.eval_scores import main as evaluate

    pairs = list(dict.fromkeys(case.pairs))
    lines = ["seg\tvoice\ttruth"]
    lines += [f"{b}\t{a}\t{('imp', 'tgt')[i % 2]}" for i, (a, b) in enumerate(pairs)]
    case.trials.write_text("\n".join(lines) + "\n")
    options = ["--header", "--enroll-column=voice", "--test-column=seg", "--label-column=truth"]
    assert [row[:2] for row in case.run(*options)] == [list(pair) for pair in pairs]
    assert evaluate([*options, "--bootstrap=0", str(case.trials), str(case.scores)]) == 0
    capfd.readouterr()
    bad = [*options[:3], "--label-column=lable"]
    says = "expected one column named lable, found: seg, voice, truth"
    assert says in fails(case, capfd, *bad)
    assert evaluate([*bad, str(case.trials), str(case.scores)]) == 1
    assert says in capfd.readouterr().err


def test_durations_may_differ_by_side_and_be_frames(case: Case) -> None:
    expected = case.run()
    frames = case.folder / "utt2num_frames"
    frames.write_text("".join(f"{k} {round(s * 100)}\n" for k, s in case.seconds.items()))
    assert (
        case.run(f"--enroll-durations={case.utt2dur}", f"--test-durations=ark:{case.utt2dur}")
        == expected
    )
    found = case.run(f"--durations={frames}", "--frame-shift=0.01")
    check(found, case.torch(), case.pairs)


def test_models_average_scores_by_default(case: Case) -> None:
    members = {"m1": ["u0", "u3", "u7"], "m2": ["u1"], "m3": ["u3", "u4"]}
    spk2utt = case.folder / "spk2utt"
    spk2utt.write_text("".join(f"{m} {' '.join(u)}\n" for m, u in members.items()))
    pairs = [(m, f"u{t}") for t in range(12) for m in members]
    case.trials.write_text("".join(f"{a} {b}\n" for a, b in pairs))
    single = case.torch()
    expected = {(m, t): np.mean([single[u, t] for u in members[m]]) for m, t in pairs}
    check(case.run(f"--spk2utt={spk2utt}"), expected, pairs)
    rows = case.run(f"--spk2utt=ark:{spk2utt}", "--multi-enroll=voiceprints")
    other = [float(row[2]) for row in rows]
    assert np.abs(np.array(other) - [expected[pair] for pair in pairs]).max() > 1e-3
    check([row for row in rows if row[0] == "m2"], expected, [p for p in pairs if p[0] == "m2"])


def test_missing_trials_can_be_left_out(case: Case, capfd) -> None:
    expected = case.run()
    with case.trials.open("a") as stream:
        stream.write("ghost u1 target\nu1 spirit target\n")
    assert case.run("--allow-missing") == expected
    assert "2 of 42 trials" in capfd.readouterr().err


def test_parts_line_up_when_trials_are_left_out(case: Case) -> None:
    lines = case.trials.read_text().splitlines()
    for place in (0, 7, 8, 30):
        lines.insert(place, "ghost u1 target")
    case.trials.write_text("\n".join(lines) + "\n")
    whole = case.run("--allow-missing")
    parts = [case.run("--allow-missing", f"--part={j}", "--num-parts=9") for j in range(1, 10)]
    assert sum(parts, []) == whole


def test_a_model_without_one_utterance_is_enrolled_from_the_rest_only_if_allowed(
    case: Case, capfd
) -> None:
    (case.folder / "spk2utt").write_text("m u0 ghost u1\n")
    case.trials.write_text("m u5\n")
    spk2utt = f"--spk2utt={case.folder}/spk2utt"
    assert main(case.arguments(spk2utt)) == 1
    assert "'m': 'ghost' is not in" in capfd.readouterr().err
    found = case.run(spk2utt, "--allow-missing")
    expected = case.torch()
    mean = (expected["u0", "u5"] + expected["u1", "u5"]) / 2
    check(found, {("m", "u5"): mean}, [("m", "u5")])


def test_decisions_follow_the_bayes_threshold(case: Case) -> None:
    llrs = np.array([float(row[2]) for row in case.run()])
    prior = float(1 / (1 + np.exp(np.median(llrs))))  # puts the threshold amid the scores
    options = [f"--prior={prior}", "--cost-miss=2", "--cost-fa=3"]
    rows = case.run(*options)
    threshold = bayes_threshold(prior, 2, 3)
    assert {row[3] for row in rows} == {"accept", "reject"}
    assert [row[3] == "accept" for row in rows] == (llrs >= threshold).tolist()
    rows = case.run(*options, "--output=posterior")
    np.testing.assert_allclose([float(r[2]) for r in rows], posterior(llrs, prior), rtol=1e-5)


def test_short_segments(case: Case, capfd) -> None:
    """Default: an error; else an LLR of 0 or the usual one, and a count."""
    expected = case.run()
    shortest = min(case.seconds, key=case.seconds.__getitem__)
    least = f"--min-duration={case.seconds[shortest] + 0.001}"
    assert main(case.arguments(least)) == 1
    assert f"'{shortest}' has" in capfd.readouterr().err
    touched = [shortest in pair for pair in case.pairs]
    assert any(touched)
    rows = case.run(least, "--short=zero")
    assert rows == [
        [*row[:2], "0.0"] if hit else row for row, hit in zip(expected, touched, strict=True)
    ]
    assert f"{sum(touched)} with a segment under" in capfd.readouterr().err
    assert case.run(least, "--short=score") == expected


def test_no_speech_at_all_counts_as_short(case: Case) -> None:
    case.utt2dur.write_text(re.sub(r"^u3 .*", "u3 0", case.utt2dur.read_text(), flags=re.M))
    rows = case.run("--min-duration=0.1", "--short=zero")
    assert {row[2] for row in rows if "u3" in row[:2]} == {"0.0"}


def test_outputs_other_than_a_plain_file(case: Case) -> None:
    expected = case.run()
    assert main(case.arguments(scores=str(case.folder / "s.gz"))) == 0
    unpacked = gzip.decompress((case.folder / "s.gz").read_bytes()).decode()
    assert [line.split() for line in unpacked.splitlines()] == expected
    assert main(case.arguments(scores=f"| tac | tac > {case.folder}/piped")) == 0
    assert read_columns(case.folder / "piped") == expected


def test_config_files_and_kaldi_manners(case: Case, capfd) -> None:
    expected = case.run()
    config = case.folder / "score.conf"
    config.write_text(f"--durations={case.utt2dur}  # seconds\n--num_parts=2\n--part=1\n")
    arguments = [a for a in case.arguments() if not a.startswith("--")]
    assert main([f"--config={config}", "--part=2", "--print-args=false", *arguments]) == 0
    assert read_columns(case.scores) == expected[20:]
    errors = capfd.readouterr().err
    assert (
        errors.splitlines()[-1] == "score-trials: LOG: scored 20 trials, 0 skipped for missing ids"
    )


def test_the_example_of_the_help_is_a_command_line_that_parses(capsys) -> None:
    from dcaplda.bin.common.options import parse
    from dcaplda.bin.score_trials import TOOL

    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    example = re.search(r"e\.g\.: score-trials (.+)", text)
    assert example
    options, arguments = parse(TOOL, example[1].split())
    assert len(arguments) == 5


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "onnx", "scipy", "kaldiio", "matplotlib", "h5py"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Blocker())
from dcaplda.bin.score_trials import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_tools_extra_is_all_that_it_needs(case: Case) -> None:
    expected = case.run()
    case.scores.unlink()
    command = [sys.executable, "-c", BLOCKED, *case.arguments()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_columns(case.scores) == expected


def test_a_terminal_gets_a_progress_bar_and_a_log_file_does_not(case: Case) -> None:
    case.trials.write_text("u1 u2\n" * 3000)
    leader, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    command = COMMAND + case.arguments()
    done = subprocess.run(command, stderr=terminal, check=False)
    os.close(terminal)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    assert done.returncode == 0, shown
    assert "3.00k" in shown and "trials/s" in shown
    quiet = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True).stderr
    # The command, that the bundle knows nothing of its training, and the counts.
    assert "trials/s" not in quiet and len(quiet.splitlines()) == 3


# Bad input: one line on stderr, status 1, and no score file


def fails(case: Case, capfd, *options: str, **replace: str) -> str:
    """Run, expect failure with an older score file untouched; the one line of the error."""
    case.scores.write_text("older\n")
    before = sorted(os.listdir(case.folder))
    assert main(["--print-args=false", *case.arguments(*options, **replace)]) == 1
    lines = capfd.readouterr().err.splitlines()
    errors = [line for line in lines if line.startswith("score-trials: ERROR: ")]
    others = [line for line in lines if "WARNING" not in line and "does not tell" not in line]
    assert errors == others and len(errors) == 1, lines
    assert case.scores.read_text() == "older\n"
    assert sorted(os.listdir(case.folder)) == before
    return errors[0]


def test_a_missing_id_is_an_error_with_count_ids_and_table(case: Case, capfd) -> None:
    with case.trials.open("a") as stream:
        stream.writelines(f"ghost{i} u1 target\n" for i in range(9))
    message = fails(case, capfd)
    assert "9 of 49 trials" in message
    assert "9 not in 'scp:" in message
    assert "'ghost0', 'ghost1'" in message
    assert "--allow-missing" in message


def test_a_header_line_is_suspected(case: Case, capfd) -> None:
    case.trials.write_text("modelid segmentid\nu1 u2\n")
    assert "is line 1 a header?" in fails(case, capfd)


def test_enrolment_ids_that_are_no_utterances_lead_to_spk2utt(case: Case, capfd) -> None:
    case.trials.write_text("spk1 u1 target\nspk2 u2 target\n")
    assert "if they are speakers or models, give --spk2utt" in fails(case, capfd)
    assert "--spk2utt" in fails(case, capfd, "--allow-missing")
    # Not where some are utterances, nor where the table was given.
    case.trials.write_text("spk1 u1 target\nu3 u2 target\n")
    assert "--spk2utt" not in fails(case, capfd)
    case.trials.write_text("spk1 u1 target\n")
    (case.folder / "spk2utt").write_text("spk2 u1 u2\n")
    assert "give --spk2utt" not in fails(case, capfd, f"--spk2utt={case.folder}/spk2utt")


def test_ids_that_match_without_wav_are_recognised(case: Case, capfd) -> None:
    expected = case.run()
    good = case.trials.read_text()
    case.trials.write_text("".join(f"1 {a}.wav {b}.wav\n" for a, b in case.pairs))
    capfd.readouterr()
    message = fails(case, capfd)
    assert "the ids match once '.wav' is cut" in message
    command = re.search(r"cut: (sed .*) > trials.cut", message)
    assert command is not None
    cut = subprocess.run(command[1], shell=True, capture_output=True, text=True, check=True)
    case.trials.write_text(cut.stdout)
    assert case.run() == expected
    capfd.readouterr()
    # The other way round, and in another format.
    case.trials.write_text(good)
    named = [f"{key}.wav" for key in case.vectors]
    write_vectors(f"{case.folder}/w.npz", named, np.stack(list(case.vectors.values())))
    both = dict.fromkeys(("enroll", "test"), f"{case.folder}/w.npz")
    assert "the table's ids end in '.wav'" in fails(case, capfd, **both)
    # Utterances of a speaker: the ending stands in spk2utt, not in the trials.
    (case.folder / "spk2utt").write_text("spk u1.wav u2.wav\n")
    case.trials.write_text("spk u3\n")
    message = fails(case, capfd, f"--spk2utt={case.folder}/spk2utt")
    assert re.search(r"sed 's/\\.wav//g' \S*/spk2utt > spk2utt.cut", message)
    case.trials.write_text(good)
    # What cannot be read twice is not.
    piped = dict.fromkeys(("enroll", "test"), f"ark:cat {case.ark} |")
    case.trials.write_text("u1.wav u2.wav\n")
    assert "is cut" not in fails(case, capfd, **piped)


def test_long_ids_are_cut_and_paths_are_not(case: Case, capfd) -> None:
    long = "x" * 5000
    case.trials.write_text(f"{long} u1\nu2 u1\n")
    message = fails(case, capfd)
    assert "x" * 32 + "..." + "x" * 16 in message
    assert len(message) < 600
    assert str(case.trials) in message


@pytest.mark.parametrize("name", ["x.npz", "npy:folder", "x.h5", "x.parquet"])
def test_embeddings_of_any_format_give_the_same_scores(case: Case, name: str, monkeypatch) -> None:
    expected = case.run()
    monkeypatch.chdir(case.folder)
    write_vectors(name, list(case.vectors), np.stack(list(case.vectors.values())))
    assert case.run(enroll=name, test=name) == expected
    assert case.run(enroll=name) == expected


def test_nothing_left_to_score_is_an_error(case: Case, capfd) -> None:
    case.trials.write_text("ghost u1\n")
    assert "no trial is left" in fails(case, capfd, "--allow-missing")


@pytest.mark.parametrize(
    ("content", "says"),
    [("u1 u2\nu1\n", "line 2"), ("", "no trials"), ("u1 u2 what\n", "line 1")],
)
def test_bad_trials(case: Case, capfd, content: str, says: str) -> None:
    case.trials.write_text(content)
    assert says in fails(case, capfd)


def test_bad_vectors(case: Case, capfd) -> None:
    good = case.ark.read_bytes()
    narrow = {key: vector[:-1] for key, vector in case.vectors.items()}
    nan = {**case.vectors, "u4": np.full(DIM, np.nan, np.float32)}
    zero = {**case.vectors, "u4": np.zeros(DIM, np.float32)}
    for content, says in (
        (good[:-5], "'u11': truncated"),
        (good + good, "'u0' occurs twice"),
        (binary_ark(narrow), f"vectors of {DIM - 1} values, the model takes {DIM}"),
        (binary_ark(nan), "'u4' holds nan"),
        (binary_ark(zero), "'u4' is all zero"),
        (b"", "the table is empty"),
    ):
        path = case.folder / "bad.ark"
        path.write_bytes(content)
        for side in ("enroll", "test"):
            assert says in fails(case, capfd, **{side: f"ark:{path}"})


def test_pointers_pipes_and_models_that_lead_nowhere(case: Case, capfd) -> None:
    (case.folder / "bad.scp").write_text("".join(f"u{i} nowhere.ark:5\n" for i in range(12)))
    assert "'u0' points to 'nowhere.ark:5'" in fails(case, capfd, test=f"scp:{case.folder}/bad.scp")
    assert "'exit 3' ended with status 3" in fails(case, capfd, enroll="ark:exit 3 |")
    assert "'false' ended" in fails(case, capfd, trials="false |")
    assert "no such file" in fails(case, capfd, trials=str(case.folder / "none"))
    assert "no model.json" in fails(case, capfd, model=str(case.folder))
    assert "write 'scp:" in fails(case, capfd, enroll=f"ark:{case.scp}")


def test_durations_are_never_guessed(case: Case, capfd) -> None:
    assert "needs the seconds of speech" in fails(case, capfd, "--test-durations=x")
    case.utt2dur.write_text(case.utt2dur.read_text().replace("u3 ", "v3 "))
    message = fails(case, capfd)
    assert "not in '" in message and "utt2dur' ('u3')" in message
    case.utt2dur.write_text(case.utt2dur.read_text().replace("v3 ", "u3 -"))
    assert "'u3' has -" in fails(case, capfd)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--part=3", "--num-parts=2"], "parts count from 1"),
        (["--short=perhaps"], "expected error or zero or score"),
        (["--output=posterior"], "need --prior"),
        (["--cost-fa=5"], "need --prior"),
        (["--prior=1.5"], "prior"),
        (["--multi-enroll=both"], "expected auto or joint or scores or voiceprints"),
        (["--min-duration=-1"], "--min-duration=-1: expected from 0.001 to"),
        (["--treads=2"], "did you mean '--threads'"),
        (["--num-utts=x"], "does not use it"),
        (["--enroll-voiceprints"], "vectors of 24 values, voiceprints of this model have"),
    ],
)
def test_bad_options(case: Case, capfd, options: list[str], says: str) -> None:
    assert says in fails(case, capfd, *options)


def test_an_output_that_cannot_be_written_is_found_first(case: Case, capfd) -> None:
    message = fails(case, capfd, scores=str(case.folder / "no" / "scores"))
    assert "there is no directory" in message


def test_two_inputs_from_stdin(case: Case, capfd) -> None:
    assert "only one input" in fails(case, capfd, enroll="ark:-", trials="-")


def test_a_full_disk_is_one_line(case: Case, capfd, monkeypatch) -> None:
    """Once while a file is written beside its place, once on a device that is always full."""
    if os.path.exists("/dev/full"):
        assert main(case.arguments(scores="/dev/full")) == 1
        assert "the disk is full" in capfd.readouterr().err

    class Full:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.stream.close()

        def write(self, _):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = open
    monkeypatch.setattr(
        "dcaplda.runtime.tables.specifiers.open",
        lambda name, mode: Full(real(name, mode)) if "w" in mode else real(name, mode),
        raising=False,
    )
    message = fails(case, capfd)
    assert f"{case.scores}: the disk is full" in message


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_traceback(case: Case, unbuffered: str) -> None:
    """As in `score-trials ... - | head`, with more scores than a pipe holds.

    Under PYTHONUNBUFFERED, Python's stdout would write a part and report success.
    """
    case.trials.write_text("u1 u2 target\n" * 200_000)
    command = COMMAND + case.arguments(scores="-")
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read().decode()
    assert process.wait() == 1
    assert "Traceback" not in errors
    assert "Exception" not in errors
    assert "closed" in errors.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(case: Case, number: int) -> None:
    case.scores.write_text("older\n")
    before = sorted(os.listdir(case.folder))
    started = case.folder / "started"
    trials = f"touch {started}; exec sleep 60 |"
    process = subprocess.Popen(COMMAND + case.arguments(trials=trials), stderr=subprocess.PIPE)
    deadline = time.time() + 120
    while not started.exists() and time.time() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert (
        errors.decode().splitlines()[-1]
        == "score-trials: ERROR: interrupted; no output was written"
    )
    started.unlink()
    assert sorted(os.listdir(case.folder)) == before
    assert case.scores.read_text() == "older\n"


def test_bounded_llrs_are_written_and_counted(case, capsys):
    plain = [float(row[2]) for row in case.run()]
    low, high = float(np.quantile(plain, 0.4)), 0.01
    assert min(plain) < low < 0.0
    found = [float(row[2]) for row in case.run(f"--bound={low!r},{high!r}")]
    np.testing.assert_allclose(found, np.clip(plain, low, high), atol=1e-6)
    n_below, n_above = sum(x < low for x in plain), sum(x > high for x in plain)
    assert (
        f"bounded {n_below + n_above} of 40 LLRs: {n_below} were below" in capsys.readouterr().err
    )
    rows = case.run(f"--bound={low!r},{high!r}", "--prior=0.5")
    assert [row[3] == "accept" for row in rows] == [x >= 0.0 for x in plain]


def test_bounds_of_a_validation_are_for_its_model(case, capsys, tmp_path, small_bundle):
    """The JSON that eval-scores writes of this very model is taken; another model's is not."""
    from dcaplda.bin.eval_scores import main as eval_scores

    case.run()
    words = ("nontarget", "target")
    lines = [f"{a} {b} {words[(int(a[1:]) + int(b[1:])) % 2]}\n" for a, b in case.pairs]
    case.trials.write_text("".join(lines))
    page = tmp_path / "v.html"
    options = [f"--validation={page}", f"--model={small_bundle}", "--allow-duplicate"]
    assert eval_scores([*options, str(case.trials), str(case.scores)]) == 0
    path = tmp_path / "v.json"
    capsys.readouterr()
    case.run(f"--bound={path}")
    assert f"LLRs of {path}:" in capsys.readouterr().err
    path.write_text(re.sub(r'"fingerprint": "\w', '"fingerprint": "!', path.read_text()))
    case.scores.unlink()
    assert main(case.arguments(f"--bound={path}")) == 1
    assert "was made of another model" in capsys.readouterr().err
    assert not case.scores.exists()


def test_bounds_are_not_for_normalized_scores(case, capsys):
    options = ("--bound=-1,1", "--score-norm=s", f"--cohort=scp:{case.scp}")
    assert main(case.arguments(*options)) == 1
    assert "no --bound" in capsys.readouterr().err
