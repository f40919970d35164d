"""make-trials: trial lists, enrolment maps and held-out people from a Kaldi data directory."""

import os
from dataclasses import dataclass, fields
from pathlib import Path

from dcaplda.bin.common.option_groups import Seed, check_not_negative, shown
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.eval.protocol import directories
from dcaplda.eval.protocol.enrolment import Register
from dcaplda.eval.protocol.lists import KINDS, Design, parts
from dcaplda.eval.protocol.split import held_out
from dcaplda.eval.protocol.summary import Summary, told
from dcaplda.eval.protocol.utterances import Utterances, Wanted, read_utterances
from dcaplda.runtime.errors import InputError, UsageError

USAGE = """Make trials for an evaluation of your own, or hold people out before training.

Reads utt2spk, and utt2sess, utt2dom, segments where they are there. Writes into <out-dir>

  trials_single         an utterance against an utterance
  trials_multi          a model of several utterances against an utterance
  trials_single_cross   the model of one domain, the test of another with the same people
  trials_multi_cross    the same with models of several utterances
  enroll_single, enroll_multi   'model utt utt ...', for --spk2utt

No trial compares a session with itself. Without utt2sess, a session is a recording of segments, or
else an utterance; the endings of Kaldi's degraded copies are cut (-noise, -music, -babble, -reverb,
-aug). Nontarget trials compare people of one domain (cross: of the two domains). Each person of a
domain has the same number of models, and each model of a domain the same number of nontarget
trials, spread evenly over the other people. The same seed gives the same bytes.

With --split, <out-dir>/train and <out-dir>/eval become data directories of different people, with
all their tables; the trials are those of eval and stand there.

Usage: make-trials [options] <data-dir> <out-dir>
e.g.: make-trials data/mine data/mine/trials
 or: make-trials --split=0.2 --seed=1 data/all data/split
See also: score-trials, eval-scores, train-backend
"""


@dataclass(frozen=True, kw_only=True)
class Options(Seed):
    """Options of make-trials."""

    kinds: str = option(",".join(KINDS), "lists to make")
    models: int = option(Design.models, "models of one utterance of each person of a domain")
    multi_models: int = option(
        Design.multi_models, "models of several utterances of each person of a domain"
    )
    enroll_utterances: int = option(Design.enroll_utterances, "utterances of a model of several")
    min_models: int = option(
        Design.min_models, "people who can give fewer models in a domain have none there"
    )
    max_trials: int = option(Design.max_trials, "most target trials of a model")
    nontargets_per_target: float = option(
        Design.nontargets_per_target, "nontarget trials for each target trial of a domain"
    )
    utterances: str = option(
        "", "table of the utterances to use; if not given, xvector.scp of <data-dir>, or else all"
    )
    min_seconds: float = option(
        0.0, "utterances with less seconds of speech (utt2dur) are in no trial"
    )
    allow_shared_sessions: bool = option(False, "a session may have two speakers (sides of a call)")
    split: float = option(0.0, "share of the people of each domain for eval; 0: no split")

    def check(self) -> None:
        """Counts and shares."""
        for name in ("models", "multi_models", "min_models", "max_trials"):
            if getattr(self, name) < 1:
                raise ValueError(f"{shown(name, getattr(self, name))}: expected 1 or more")
        if self.enroll_utterances < 2:
            found = shown("enroll_utterances", self.enroll_utterances)
            raise ValueError(f"{found}: expected 2 or more; one is what the single lists have")
        if not 0 < self.nontargets_per_target < float("inf"):
            found = shown("nontargets_per_target", self.nontargets_per_target)
            raise ValueError(f"{found}: expected a number above 0")
        if not 0 <= self.split < 1:
            raise ValueError(f"{shown('split', self.split)}: expected a share between 0 and 1")
        check_not_negative(self, "min_seconds")
        for word in self.wanted():
            if word not in KINDS:
                raise ValueError(f"--kinds={word}: expected {' or '.join(KINDS)}")

    def wanted(self) -> list[str]:
        """The lists to make, each once."""
        return list(dict.fromkeys(word.strip() for word in self.kinds.split(",")))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, split, make, and write everything or nothing."""
    source, target = arguments[0], Path(arguments[1])
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target}: is a file; give a directory")
    if not options.split and os.path.realpath(source) == os.path.realpath(target):
        _refuse_lists_of_the_data(target)
    wanted = Wanted(options.utterances, options.min_seconds, options.allow_shared_sessions)
    utterances = read_utterances(source, wanted)
    for note in utterances.notes:
        log.warning(note)
    with directories.all_at_once(target) as staging:
        if not options.split:
            names = make_lists(utterances, None, staging, options, log)
            warn_of_older(target, names, log)
            return 0
        people = held_out(utterances, options.split, options.seed)
        sides = {"train": frozenset(utterances.speaker.values()) - people, "eval": people}
        for name, side in sides.items():
            part = directories.part_of(utterances, side)
            directories.check_target(source, target / name, part)
            directories.write_part(staging / name, part)
            log.info(f"{name}: {len(side)} people, {len(part['utt2spk'])} utterances")
        names = make_lists(utterances, people, staging / "eval", options, log)
        warn_of_older(target / "eval", names, log)
    return 0


def make_lists(
    utterances: Utterances, people: frozenset[str] | None, target: Path, options: Options, log: Log
) -> set[str]:
    """Write the lists of these people, or of all; returns the names of the files."""
    by_domain = utterances.people(people)
    register = Register(utterances.speaker)
    design = Design(**{field.name: getattr(options, field.name) for field in fields(Design)})
    lines: list[str] = []
    reasons: list[str] = []
    written = set()
    for kind in options.wanted():
        path, summary = target / f"trials_{kind}", Summary(kind)
        made = parts(by_domain, kind, design, register)
        if directories.write_lines(path, summary.passing(made)):
            written.add(path.name)
        else:
            path.unlink()
        lines += summary.lines()
        reasons += summary.reasons
    if not written:
        raise InputError(f"{utterances.place}: no trials can be made; {'; '.join(told(reasons))}")
    for name, enrolled in register.maps().items():
        if enrolled:
            directories.write_lines(target / name, enrolled)
            written.add(name)
    for reason in told(reasons):
        log.warning(reason)
    for line in lines:
        log.info(line)
    return written


LISTS = {f"trials_{kind}" for kind in KINDS} | {"enroll_single", "enroll_multi"}
"""Files that the tool writes."""


def _refuse_lists_of_the_data(target: Path) -> None:
    """Lists that lie with the data may be their makers', and nobody could make them again."""
    found = sorted(name for name in LISTS if (target / name).exists())
    if found:
        raise UsageError(
            f"{target}: has {', '.join(found)} already, which may have come with the data; name "
            "another <out-dir>, or move them away"
        )


def warn_of_older(target: Path, names: set[str], log: Log) -> None:
    """Lists of an earlier run may name models that the new maps do not have."""
    for name in sorted(LISTS - names):
        if (target / name).exists():
            log.warning(f"{target / name} is of an earlier run and does not belong to these lists")


TOOL = Tool("make-trials", USAGE, Options, 2, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
