"""Options that several tools share, as groups that a tool's option class is put together from.

A group is a base class: its options have one type, default and line of help wherever they
occur, and its `check` is called whenever such options are made (see CommonOptions). Help lists
the groups from the last base of a class to the first, then the tool's own options. What is done
with the options lies in `sides`, `trial_sides` and `cohort`.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from dcaplda.bin.common.options import CommonOptions, option
from dcaplda.runtime.values import SECONDS, are_seconds

if TYPE_CHECKING:
    from dcaplda.runtime.tables.columns import Columns

# What a model of several utterances is compared by.
MULTI_ENROLL = ("auto", "joint", "scores", "voiceprints")


def shown(name: str, value: object) -> str:
    """An option as it stands on the command line."""
    text = f"{value:g}" if isinstance(value, float) else value
    return f"--{name.replace('_', '-')}={text}"


def check_choice(options: CommonOptions, name: str, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless the option has one of the values."""
    value = getattr(options, name)
    if value not in allowed:
        raise ValueError(f"{shown(name, value)}: expected {' or '.join(allowed)}")


def check_not_negative(options: CommonOptions, name: str) -> None:
    """Raise ValueError for a value below zero, or one that is not a number."""
    value = getattr(options, name)
    if not value >= 0:
        raise ValueError(f"{shown(name, value)}: cannot be negative")


@dataclass(frozen=True, kw_only=True)
class Seed(CommonOptions):
    """Where random numbers start."""

    seed: int = option(0, "seed of everything that is drawn")

    def check(self) -> None:
        """Seeds count from 0."""
        check_not_negative(self, "seed")


@dataclass(frozen=True, kw_only=True)
class Threads(CommonOptions):
    """How much of the machine is used."""

    threads: int = option(0, "threads to use; 0: all cores", counts="never")

    def check(self) -> None:
        """Threads count from 0."""
        check_not_negative(self, "threads")


@dataclass(frozen=True, kw_only=True)
class ScpRoot(CommonOptions):
    """Where an scp's files are."""

    scp_root: str = option(
        "",
        "directory where relative names in an scp start; left out: here, then its folder",
        counts="never",
    )


@dataclass(frozen=True, kw_only=True)
class FrameShift(CommonOptions):
    """The unit of durations."""

    frame_shift: float = option(
        0.0, "if above 0, durations are numbers of frames (utt2num_frames) of so many seconds"
    )

    def check(self) -> None:
        """Time does not run backwards."""
        check_not_negative(self, "frame_shift")


@dataclass(frozen=True, kw_only=True)
class Strict(CommonOptions):
    """What to do about inputs that cannot be right."""

    strict: bool = option(
        False, "embeddings or durations unlike anything in training are an error, not a warning"
    )


@dataclass(frozen=True, kw_only=True)
class Speakers(CommonOptions):
    """Who the utterances belong to."""

    spk2utt: str = option(
        "", "models or speakers of several utterances: 'name utt1 utt2 ...'", counts="table"
    )


@dataclass(frozen=True, kw_only=True)
class Averaged(Speakers):
    """Vectors that stand for several utterances already."""

    num_utts: str = option(
        "", "utterances behind each enrolment vector (imported Kaldi models)", counts="table"
    )

    def check(self) -> None:
        """A vector is averaged, or one of those that a model has."""
        if self.num_utts and self.spk2utt:
            raise ValueError("--num-utts is for averaged vectors, --spk2utt for single ones")


@dataclass(frozen=True, kw_only=True)
class Durations(CommonOptions):
    """How long people spoke."""

    durations: str = option("", "seconds of speech of the utterances (utt2dur)", counts="table")


@dataclass(frozen=True, kw_only=True)
class SideDurations(Durations):
    """How long they spoke on either side of a trial."""

    enroll_durations: str = option("", "seconds of speech of the enrolment side", counts="table")
    test_durations: str = option("", "seconds of speech of the test side", counts="table")


@dataclass(frozen=True, kw_only=True)
class ScoreColumn(CommonOptions):
    """Where the score is in a line of many words."""

    score_column: str = option(
        "", "column of the score: its name if not a usual one, or its number without a header"
    )


@dataclass(frozen=True, kw_only=True)
class Tables(Strict, Durations, Threads, ScpRoot, FrameShift):
    """Tables of embeddings for a model: what is read with them, and what may be missing."""

    allow_missing: bool = option(False, "leave out what is missing, and count it")


@dataclass(frozen=True, kw_only=True)
class SideTables(SideDurations, Tables):
    """Tables of an enrolment side and of a test side."""

    enroll_voiceprints: bool = option(
        False, "the enrolment table holds voiceprints of enroll-speakers, not embeddings"
    )


@dataclass(frozen=True, kw_only=True)
class Embeddings(Speakers, Tables):
    """Embeddings of speakers who may have several."""

    sessions: str = option(
        "",
        "session of each utterance of --spk2utt (utt2sess): several of one tell less (joint)",
        counts="table",
    )

    def check(self) -> None:
        """Sessions count where several utterances are taken together."""
        if self.sessions and not self.spk2utt:
            raise ValueError("--sessions needs --spk2utt: it counts for several utterances")


@dataclass(frozen=True, kw_only=True)
class OfRecordings(Tables):
    """Embeddings of the utterances of recordings."""

    own_place: str = option(
        "auto",
        "true: hear a recording's own utterances as its place first (joint models); auto: where "
        "the model was trained for recordings",
    )

    def check(self) -> None:
        """Yes, no, or what the model is for."""
        check_choice(self, "own_place", ("auto", "true", "false"))

    @property
    def heard_first(self) -> bool | None:
        """`own_place` as the runtime takes it; None: by the model."""
        return None if self.own_place == "auto" else self.own_place == "true"


@dataclass(frozen=True, kw_only=True)
class TwoSides(Embeddings, SideTables):
    """Embeddings of an enrolment side, of speakers who may have several, and of a test side."""

    multi_enroll: str = option(
        "auto",
        "models of several utterances: joint (by the book, where the model was trained for it), "
        "scores (mean of the scores), voiceprints (mean of their inputs); auto: joint, else scores",
    )

    def check(self) -> None:
        """Voiceprints are made: their inputs cannot be averaged any more."""
        check_choice(self, "multi_enroll", MULTI_ENROLL)
        if self.enroll_voiceprints and self.multi_enroll in ("voiceprints", "joint"):
            raise ValueError("--enroll-voiceprints: averaging belongs to enroll-speakers")
        if self.enroll_voiceprints and self.sessions:
            raise ValueError("--enroll-voiceprints: --sessions belongs to enroll-speakers")


@dataclass(frozen=True, kw_only=True)
class TrialSides(Averaged, TwoSides):
    """Both sides of a list of trials."""

    min_duration: float = option(0.0, "segments with less seconds of speech count as short")
    short: str = option("error", "what a short segment means: error, zero (LLR 0) or score")

    def check(self) -> None:
        """Check choices and ranges."""
        check_choice(self, "short", ("error", "zero", "score"))
        if self.min_duration and not are_seconds(self.min_duration):
            raise ValueError(f"{shown('min_duration', self.min_duration)}: expected {SECONDS}")
        if self.enroll_voiceprints and self.num_utts:
            raise ValueError("--enroll-voiceprints: --num-utts belongs to enroll-speakers")


@dataclass(frozen=True, kw_only=True)
class PlaceBundles(CommonOptions):
    """Bundles that were adapted to places, all from one."""

    place_bundles: str = option(
        "",
        "bundles adapted to places: office=dir,phone=dir, or a file of lines 'place dir'",
        counts="bundles",
    )


@dataclass(frozen=True, kw_only=True)
class PlaceTables(PlaceBundles, Strict, ScpRoot):
    """Utterances of several places (microphones, lines), and what was heard there unlabelled."""

    places: str = option(
        "", "place of each utterance: 'utterance place' (joint models)", counts="table"
    )
    pool: str = option(
        "", "rspecifier of unlabelled embeddings of these places, for --places", counts="vectors"
    )

    def check(self) -> None:
        """A pool needs to know where it was heard, and bundles who was there."""
        if self.pool and not self.places:
            raise ValueError("--pool needs --places=utt2place, which also names its utterances")
        if self.place_bundles and not self.places:
            raise ValueError("--place-bundles needs --places=utt2place, the place of utterances")


@dataclass(frozen=True, kw_only=True)
class Cohort(Strict, ScpRoot, FrameShift):
    """Score normalization by a cohort."""

    score_norm: str = option("", "normalize by a cohort: s (S-norm) or as (AS-Norm1); not LLRs")
    cohort: str = option(
        "", "rspecifier of the cohort's embeddings, for --score-norm", counts="vectors"
    )
    cohort_durations: str = option("", "seconds of speech of the cohort", counts="table")
    top_n: int = option(0, "highest cohort scores that AS-Norm1 takes for each side")

    def check(self) -> None:
        """Refuse combinations that mean nothing."""
        if self.score_norm:
            check_choice(self, "score_norm", ("s", "as"))
        if bool(self.score_norm) != bool(self.cohort):
            raise ValueError("--score-norm and --cohort go together")
        if (self.score_norm == "as") != bool(self.top_n):
            raise ValueError("--score-norm=as needs --top-n=N, and only it does")


@dataclass(frozen=True, kw_only=True)
class Costs(CommonOptions):
    """Costs of the two errors."""

    cost_miss: float = option(1.0, "cost of a miss")
    cost_fa: float = option(1.0, "cost of a false acceptance")


@dataclass(frozen=True, kw_only=True)
class Decision(Costs):
    """Accept or reject, by Bayes' rule (eq. 3)."""

    prior: float | None = option(
        None, "prior of a target trial, for the costs: adds a column accept or reject"
    )

    def check(self) -> None:
        """Costs without a prior decide nothing."""
        if self.prior is None and (self.cost_miss, self.cost_fa) != (1.0, 1.0):
            raise ValueError("--cost-miss and --cost-fa need --prior")


@dataclass(frozen=True, kw_only=True)
class TrialList(CommonOptions):
    """How a list of trials is written."""

    trials_form: str = option(
        "auto", "auto, enroll-test, enroll-test-label or label-enroll-test (VoxCeleb)"
    )
    header: bool = option(False, "header line (NIST's tsv, csv); usual column names are known")
    enroll_column: str = option("", "column of the enrolment id, if not a usual name")
    test_column: str = option("", "column of the test id, if not a usual name")
    label_column: str = option("", "column of the label, if not a usual name")

    def columns(self, **more: str) -> "Columns | None":
        """What the header has, `more` names included; None if nothing speaks of one."""
        from dcaplda.runtime.tables.columns import Columns

        return Columns.chosen(
            self.header,
            enroll=self.enroll_column,
            test=self.test_column,
            label=self.label_column,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class Joined(CommonOptions):
    """Trials and scores that are joined by their ids, and what may be odd about them."""

    allow_missing: bool = option(False, "trials without a score are left out")
    allow_extra: bool = option(False, "scores without a trial are ignored")

    def allowed(self) -> list[str]:
        """What the user accepts, of all that the tool has an option `allow_...` for."""
        names = [field.name for field in fields(self) if field.name.startswith("allow_")]
        return [name.removeprefix("allow_") for name in names if getattr(self, name)]
