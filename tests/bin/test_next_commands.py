"""The lines that a training ends with: understood by the tools, with the paths of the run."""

import shlex
from pathlib import Path

import pytest

from dcaplda.bin import adapt_backend, eval_scores, score_trials
from dcaplda.bin.common.next_commands import Evaluation, next_commands, shorter
from dcaplda.bin.common.options import command, parse
from dcaplda.bin.train_backend import TOOL, Options

TOOLS = {
    "score-trials": score_trials.TOOL,
    "eval-scores": eval_scores.TOOL,
    "adapt-backend": adapt_backend.TOOL,
}
EXP = Path("exp/my run")


def lines(known: Evaluation | None, durations: bool = True, joint: bool = True) -> list[str]:
    return next_commands(EXP, EXP / "bundle", known, durations, joint)


def parsed(line: str):
    tool, *words = shlex.split(line.split(": ", 1)[1])
    return (tool, *parse(TOOLS[tool], words))


@pytest.mark.parametrize("known", [None, Evaluation(vectors="scp:d/x.scp", scp_root="d")])
def test_every_line_is_understood_by_its_tool(known):
    found = [parsed(line) for line in lines(known)]
    assert [tool for tool, *_ in found] == ["score-trials", "eval-scores", "adapt-backend"]
    (_, scoring, words), (_, _, judged), (_, _, adapted) = found
    assert words[0] == adapted[0] == str(EXP / "bundle")
    assert words[3:] == judged == [words[3], str(EXP / "scores")]
    assert scoring.durations == "data/eval/utt2dur"
    assert scoring.scp_root == ("d" if known else "")


def test_what_a_set_has_goes_into_the_options():
    known = Evaluation(
        vectors="ark:x.ark", trials="t", durations="d/utt2num_frames", spk2utt="d/spk2utt"
    )
    _, options, words = parsed(lines(known)[0])
    assert (options.durations, options.frame_shift) == ("d/utt2num_frames", 0.01)
    assert options.spk2utt == "d/spk2utt" and words[1:4] == ["ark:x.ark", "ark:x.ark", "t"]
    _, options, _ = parsed(lines(known, durations=False)[0])
    assert options.durations == "" and options.spk2utt == "d/spk2utt"


def test_only_joint_bundles_are_adapted():
    assert len(lines(None, joint=False)) == 2


def test_vectors_that_the_tools_do_not_read_are_for_the_user_to_fill_in():
    assert "your own files" in lines(None)[0]
    assert "your own files" in lines(Evaluation(vectors="no:such:thing"))[0]
    assert "your own files" not in lines(Evaluation(vectors="scp:x.scp"))[0]


def test_paths_below_the_working_directory_are_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shorter(f"scp:{tmp_path}/a/x.scp") == "scp:a/x.scp"
    assert shorter(f"{tmp_path}/a/trials") == "a/trials"
    for name in ("/elsewhere/x", "scp:/elsewhere/x.scp", "a/b", "ark:gunzip -c x |", "-"):
        assert shorter(name) == name


def test_a_command_line_is_put_together_again():
    words = ["--config=a b.toml", "--set=x.y=1", "--set=z.w=2", "--threads=2", "--export=false"]
    options, arguments = parse(TOOL, [*words, "d", "scp:x y.scp", "e"])
    assert isinstance(options, Options)
    again = shlex.split(command(TOOL, options, arguments, resume=True))
    assert again[0] == "train-backend" and "--resume" in again
    found, rest = parse(TOOL, again[1:])
    assert rest == arguments
    assert vars(found) == {**vars(options), "resume": True}
