"""What to type after a training: score, evaluate and adapt, with the paths of this very run."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from dcaplda.runtime.errors import DcapldaError
from dcaplda.runtime.tables.specifiers import parse_rspecifier

FRAMES = "utt2num_frames"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Files of a set of trials; the defaults are the places of a Kaldi recipe."""

    vectors: str = "scp:exp/xvectors_eval/xvector.scp"
    trials: str = "data/eval/trials"
    durations: str = "data/eval/utt2dur"
    spk2utt: str = ""
    scp_root: str = ""

    @property
    def readable(self) -> bool:
        """Whether the scoring tools understand how the vectors are given."""
        try:
            parse_rspecifier(self.vectors)
        except DcapldaError:
            return False
        return True


def next_commands(
    directory: Path, bundle: Path, known: Evaluation | None, uses_durations: bool, joint: bool
) -> list[str]:
    """One line each, to be pasted; `known` is a set that exists, such as a development set.

    Without one the files of the evaluation are for the user to fill in, and the lines say so.
    """
    real = known is not None and known.readable
    files = known if known is not None and real else Evaluation()
    fill_in = "" if real else " (your own files in place of data/eval and exp/xvectors_eval)"
    scores, report = directory / "scores", directory / "report.html"
    vectors = shorter(files.vectors)
    options = []
    if uses_durations:
        options.append(f"--durations={shorter(files.durations)}")
        if os.path.basename(files.durations) == FRAMES:
            options.append("--frame-shift=0.01")
    if files.spk2utt:
        options.append(f"--spk2utt={shorter(files.spk2utt)}")
    root = [f"--scp-root={shorter(files.scp_root)}"] if files.scp_root else []
    trials = shorter(files.trials)
    score = ["score-trials", *options, *root, str(bundle), vectors, vectors, trials, str(scores)]
    evaluate = ["eval-scores", f"--report={report}", trials, str(scores)]
    lines = [f"score{fill_in}: {shlex.join(score)}", f"evaluate: {shlex.join(evaluate)}"]
    if joint:
        adapted = directory / "bundle-adapted"
        adapt = ["adapt-backend", *root, str(bundle), vectors, str(adapted)]
        own = "" if not real else " (unlabelled utterances of the new place for these)"
        lines.append(f"adapt{own or fill_in}: {shlex.join(adapt)}")
    return lines


def shorter(name: str) -> str:
    """A file name or rspecifier with an absolute path below the working directory made relative."""
    head, colon, path = name.partition(":")
    if not colon or not os.path.isabs(path):
        head, colon, path = "", "", name
    if not os.path.isabs(path) or path.endswith("|"):
        return name
    relative = os.path.relpath(path)
    return name if relative.startswith("..") else f"{head}{colon}{relative}"
