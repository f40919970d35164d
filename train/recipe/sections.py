"""The recipe of a training run: frozen dataclasses, one per section of its TOML file.

Defaults are the paper's and live only here. The command line beats the file, the file beats
the default; the resolved recipe is saved beside the model.
"""

from dataclasses import dataclass, field

from dcaplda.runtime.fields import shown
from dcaplda.train.model.config import ACTIVATIONS, VARIANTS
from dcaplda.train.recipe.problems import report


def _require(holds: bool, key: str, value: object, expected: str) -> None:
    if not holds:
        report(f"{key} = {shown(value)}: expected {expected}")


def _require_one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    _require(value in known, key, value, f"one of {', '.join(known)}")


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """[model]: the architecture; the embeddings give their own size."""

    variant: str = "d-plda-dsd"
    """One of the eight systems of the paper: plda or d-plda, with -dd, -sd, -dsd or nothing."""
    lda_dim: int = 300
    """Rows of the LDA projection."""
    side_hidden_dim: int = 200
    """Rows of the first side-information layer."""
    side_info_dim: int = 6
    """Values of the side-information vector z."""
    side_activation: str = "identity"
    """f of eq. 19: identity, softmax or log-softmax."""
    duration_feature: str = "wlog"
    """log, bin or wlog."""
    duration_parameters: dict[str, float | list[float]] = field(default_factory=dict)
    """Parameters of the duration feature, such as center and slope of wlog."""
    joint: bool = False
    """Several utterances by the book, and adaptation to places (docs/adaptation.md); takes
    plda-dd or d-plda-dd and init.domain_offsets."""
    recordings: bool = False
    """With joint: a calibration of its own for utterances of one recording, learnt from those of
    one session (docs/diarization.md); other trials stay as they are."""

    def __post_init__(self) -> None:
        """Check names and sizes."""
        _require_one_of("model.variant", self.variant, tuple(VARIANTS))
        _require_one_of("model.side_activation", self.side_activation, ACTIVATIONS)
        for key in ("lda_dim", "side_hidden_dim", "side_info_dim"):
            value = getattr(self, key)
            _require(value >= 1, f"model.{key}", value, "at least 1")


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """[data]: how the data directory is understood."""

    frame_shift: float = 0.01
    """Seconds per frame, where durations come from utt2num_frames."""
    scp_root: str = ""
    """Where relative file names in the xvector scp start; empty: the working directory."""
    allow_shared_sessions: bool = False
    """Accept a session with two speakers (both sides of a call); they never meet in a trial."""
    missing_domains: str = "one"
    """Without utt2dom: one domain for all, or guessed from ids and embeddings (guessed)."""
    missing_sessions: str = "utterance"
    """Without utt2sess and segments: each utterance is a session, or guessed from ids (guessed)."""

    def __post_init__(self) -> None:
        """Check ranges."""
        _require_one_of("data.missing_domains", self.missing_domains, ("one", "guessed"))
        sessions = self.missing_sessions
        _require_one_of("data.missing_sessions", sessions, ("utterance", "guessed"))
        _require(self.frame_shift > 0, "data.frame_shift", self.frame_shift, "seconds above 0")


@dataclass(frozen=True, kw_only=True)
class InitSection:
    """[init]: start values from LDA, PLDA and global calibration."""

    balance: str = "domain"
    """domain: a speaker weighs 1 / speakers of its domain; flat: all weigh the same; even: as
    domain, and every speaker of a domain has the same mass, however many samples."""
    classes: str = "speaker"
    """What PLDA takes for one speaker: speaker (of one domain, as the paper), or identity (a
    person with all degraded copies, so that the channel counts as within-speaker)."""
    domain_offsets: bool = False
    """Model the means of domains apart from speakers: covariances around each domain's mean."""
    group_offset: float = 1.0
    """With domain_offsets: multiple of the covariance of the means of domains (of groups of them
    that share people) in that of the offset which both sides of a trial share."""
    lda_group_offset: float = 0.0
    """With domain_offsets: multiple of that covariance that counts as within-speaker in LDA, so
    that it keeps off directions in which domains lie far apart."""
    shared_offset: float = 0.0
    """With domain_offsets: what is added to that covariance, as a multiple of the between-speaker
    one: few domains show few of the directions in which an unseen one may lie."""
    copy_offset: float = 0.0
    """With domain_offsets: multiple of the covariance of the means of domains that share people
    (a channel) that is added to the within-speaker covariance."""
    subset: str = "all"
    """all utterances, or one-per-recording, for LDA and PLDA."""
    em_iterations: int = 100
    """EM iterations of PLDA; 0 keeps the sample covariances (eq. 5-7)."""
    em_min_divergence: bool = False
    """Re-estimate the speaker prior too: the same optimum in fewer iterations."""
    lda_shrinkage: float = 0.0
    """Share of the mean within-speaker variance added before LDA."""
    lda_scale: str = "total"
    """Rows of LDA have unit total variance (the paper), or unit within-speaker variance, which
    keeps the weight of the better directions through the length normalization."""
    shrinkage: float = 0.0
    """Share of the mean within-speaker variance added to the PLDA model."""
    shrinkage_between: float = 0.0
    """Share of the mean between-speaker variance added to the PLDA model."""
    calibration_speakers: int = 1000
    """Speakers whose trials the global calibration is fitted on."""
    calibration_folds: int = 0
    """0: calibrate on scores of the PLDA itself; K: on scores of K PLDAs that have not seen
    the speakers of the trial."""
    calibration_domains: float = 0.0
    """Weight, from 0 to 1, of trials scored by PLDAs that have seen none of the domains of the
    trial's people."""
    calibration_prior: float = 0.0
    """Prior of the calibration start; 0: the objective's."""
    duration_start: str = "global"
    """Start of the duration stage: the global calibration (the paper), or fitted to the
    calibration trials, which is a convex problem."""
    calibration_rounds: int = 24
    """With model.joint: three times as many episodes of each place that is held out in turn, and a
    third of each part of the people; half of them are of single utterances. More are slower and
    calibrate a little better."""
    calibration_apart: bool = False
    """With model.joint: several utterances of a side are all of different sessions (where those of
    one session are pieces of one recording); else of all sessions but one, as many as it takes."""
    joint_steps: int = 0
    """With model.joint: steps in which LDA, axes and variances learn from trials of several
    utterances, before calibration; scorers that hold somebody out make them without those."""
    joint_rate: float = 1e-3
    """Learning rate of these steps."""
    sample_correlation: float = 0.0
    """With model.joint: correlation of the utterances of one side beside their speaker's; above 0
    many of them count as fewer."""
    side_init: str = "last"
    """Rows of LDA that start the side-information branch: last (the paper), first, random."""
    side_std: float = 0.5
    """Standard deviation of the random part."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _require_one_of("init.balance", self.balance, ("domain", "flat", "even"))
        _require_one_of("init.classes", self.classes, ("speaker", "identity"))
        _require_one_of("init.lda_scale", self.lda_scale, ("total", "within"))
        _require_one_of("init.duration_start", self.duration_start, ("global", "fitted"))
        rounds = self.calibration_rounds
        _require(rounds >= 1, "init.calibration_rounds", rounds, "at least 1")
        steps, rate = self.joint_steps, self.joint_rate
        _require(steps >= 0, "init.joint_steps", steps, "at least 0")
        _require(rate > 0, "init.joint_rate", rate, "above 0")
        samples = self.sample_correlation
        _require(0 <= samples < 1, "init.sample_correlation", samples, "from 0 to below 1")
        share, prior = self.calibration_domains, self.calibration_prior
        _require(0 <= share <= 1, "init.calibration_domains", share, "from 0 to 1")
        _require(0 <= prior < 1, "init.calibration_prior", prior, "from 0 to below 1")
        _require_one_of("init.subset", self.subset, ("all", "one-per-recording"))
        _require_one_of("init.side_init", self.side_init, ("last", "first", "random"))
        folds = self.calibration_folds
        _require(folds == 0 or folds >= 2, "init.calibration_folds", folds, "0, or at least 2")
        _require(
            self.calibration_speakers >= 2,
            "init.calibration_speakers",
            self.calibration_speakers,
            "at least 2",
        )
        for key in (
            "em_iterations",
            "lda_shrinkage",
            "shrinkage",
            "shrinkage_between",
            "group_offset",
            "lda_group_offset",
            "shared_offset",
            "copy_offset",
            "side_std",
        ):
            _require(getattr(self, key) >= 0, f"init.{key}", getattr(self, key), "at least 0")


@dataclass(frozen=True, kw_only=True)
class BatchSection:
    """[batch]: which samples meet in a step."""

    size: int = 2048
    """Samples of a batch, two sessions of each speaker."""
    balance: str = "domain"
    """domain: as many speakers of each domain; flat: speakers as they come."""
    repeat_speakers: bool = False
    """Let a speaker come twice in a batch where a domain has too few."""
    domain_weights: dict[str, float] = field(default_factory=dict)
    """Weight in the loss of a domain's trials; 1 where not named."""
    across_domains: bool = False
    """Also trials between domains that share people, such as an original and its degraded copy."""
    offset_noise: float = 0.0
    """Standard deviation of a random offset, new in every batch, that all vectors of a domain get
    (as a share of that of the vectors): domains that training has not seen lie elsewhere."""
    scale_noise: float = 0.0
    """Standard deviation of the logarithm of a random factor, new in every batch, by which a
    domain is stretched along each axis."""
    short_noise: float = 0.0
    """Above 0: every other utterance of a batch is cut to a random length by adding noise as that
    many seconds would have at the within-speaker covariance (train/data/disturbances.py)."""
    side_dropout: float = 0.0
    """Share of a batch's samples whose side-information vector z is set to zero."""
    held_out_folds: int = 0
    """With K, a batch has speakers of one of K folds, and its gradient is taken where LDA and
    PLDA start without that fold: steps then correct what goes wrong with new speakers."""
    held_out_domains: bool = False
    """Also batches of one group of domains, from a start without that group."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _require_one_of("batch.balance", self.balance, ("domain", "flat"))
        even = self.size >= 4 and self.size % 2 == 0
        _require(even, "batch.size", self.size, "an even number of at least 4")
        for key in ("offset_noise", "scale_noise", "short_noise"):
            noise = getattr(self, key)
            _require(noise >= 0, f"batch.{key}", noise, "at least 0")
        dropped = self.side_dropout
        _require(0 <= dropped < 1, "batch.side_dropout", dropped, "from 0 to below 1")
        folds = self.held_out_folds
        _require(folds == 0 or folds >= 2, "batch.held_out_folds", folds, "0, or at least 2")
        for name, weight in self.domain_weights.items():
            _require(weight >= 0, f"batch.domain_weights.{name}", weight, "at least 0")


def _side_stage_l2() -> dict[str, float]:
    return {f"*_side.{part}": 5e-4 for part in ("cross", "auto", "linear")}


@dataclass(frozen=True, kw_only=True)
class ObjectiveSection:
    """[objective]: loss_weight * batch size * loss + sum of l2 * |parameter|^2, and Adam."""

    prior: float = 0.01
    """Prior of a target in the cross-entropy (eq. 14), which is normalized by its entropy."""
    loss_weight: float = 0.056
    """The entropy of the prior 0.01: undoes the normalization at the default prior."""
    l2: float = 1e-4
    """Weight of |parameter|^2 where no pattern matches."""
    l2_towards: str = "zero"
    """What L2 pulls to: zero (the paper), or the start values."""
    l2_patterns: dict[str, float] = field(default_factory=_side_stage_l2)
    """Weights for parameters by name; * stands for anything, the last match counts."""
    clip_norm: float = 4.0
    """Longest gradient; 0 does not clip."""
    betas: list[float] = field(default_factory=lambda: [0.5, 0.99])
    """Adam's two decay rates."""

    def __post_init__(self) -> None:
        """Check ranges."""
        _require(0 < self.prior < 1, "objective.prior", self.prior, "a number between 0 and 1")
        _require(self.loss_weight > 0, "objective.loss_weight", self.loss_weight, "above 0")
        _require(self.clip_norm >= 0, "objective.clip_norm", self.clip_norm, "at least 0")
        _require_one_of("objective.l2_towards", self.l2_towards, ("zero", "start"))
        good = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        _require(good, "objective.betas", self.betas, "two numbers from 0 to below 1")
        for key, value in {"l2": self.l2, **self.l2_patterns}.items():
            _require(value >= 0, f"objective {key}", value, "at least 0")


@dataclass(frozen=True, kw_only=True)
class StageSection:
    """[stage1], [stage2], [stage3]: steps, learning rate, and how often to evaluate."""

    steps: int
    """Batches of the stage; 0 skips it."""
    rate: float
    """Learning rate."""
    evaluate_every: int
    """Steps from one evaluation on the development sets to the next."""

    def __post_init__(self) -> None:
        """Check ranges."""
        _require(self.steps >= 0, "steps", self.steps, "at least 0")
        _require(self.rate > 0, "rate", self.rate, "a number above 0")
        _require(self.evaluate_every >= 1, "evaluate_every", self.evaluate_every, "at least 1")


@dataclass(frozen=True, kw_only=True)
class AveragingSection:
    """[averaging]: one model out of those met in stages 2 and 3."""

    average: str = "none"
    """none, ema (a running average), or top-k (of the best models met)."""
    ema_decay: float = 0.98
    """Share of the running average that a step keeps."""
    top_k: int = 10
    """Models that top-k keeps."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _require_one_of("averaging.average", self.average, ("none", "ema", "top-k"))
        good = 0 <= self.ema_decay < 1
        _require(good, "averaging.ema_decay", self.ema_decay, "from 0 to below 1")
        _require(self.top_k >= 1, "averaging.top_k", self.top_k, "at least 1")


@dataclass(frozen=True, kw_only=True)
class HeldOutSection:
    """[held_out]: models trained without a part of the data, in turn, to judge the result by."""

    people: int = 0
    """Parts that the people are cut into; 0: none."""
    domains: int = 0
    """Most parts that the groups of domains (that share people) are put into; 0: none."""
    calibrate: bool = False
    """Correct scale and shift of the result by what these models get wrong on whole domains, or
    where there are none of them on people."""
    contest: bool = False
    """Try other values of what is "auto" on these parts (train/auto/contest.py)."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for key in ("people", "domains"):
            value = getattr(self, key)
            _require(value == 0 or value >= 2, f"held_out.{key}", value, "0, or at least 2")
        parts = self.people or self.domains
        _require(not self.calibrate or parts > 0, "held_out.calibrate", True, "people or domains")


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """[run]: bookkeeping that leaves the model alone, and the seed."""

    seed: int = 0
    """Decides the random start of A_z and the order of the batches."""
    minimum_every: int = 10
    """Steps between evaluations that also fit the minimum loss of the curves."""
    checkpoint_every: int = 200
    """Steps from one checkpoint to the next."""

    def __post_init__(self) -> None:
        """Check ranges."""
        _require(self.seed >= 0, "run.seed", self.seed, "at least 0")
        for key in ("minimum_every", "checkpoint_every"):
            _require(getattr(self, key) >= 1, f"run.{key}", getattr(self, key), "at least 1")


@dataclass(frozen=True, kw_only=True)
class DevSection:
    """[[dev]]: a development set; paths are relative to the recipe's file."""

    name: str
    """Name in logs and tables."""
    xvectors: str
    """Rspecifier of the embeddings, or an npz or hdf5 file."""
    trials: str
    """Trials `enroll test target|nontarget`, or `1|0 enroll test`."""
    durations: str = ""
    """Seconds of each utterance; needed by variants with a duration stage."""
    spk2utt: str = ""
    """Utterances of each enrolment model; empty: a model is an utterance."""
    scp_root: str = ""
    """Where relative file names in the scp start; empty: the working directory."""
    split: str = ""
    """`domain` makes one set of each domain of the test utterance."""
    utt2dom: str = ""
    """Domain of each test utterance, for split."""
    group: str = "dev"
    """Sets of one group share a curve."""
    weight: float = 1.0
    """Weight in the average that selects the model; each part of a split set has it."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _require(bool(self.name), "name", self.name, "a name")
        _require(self.split in ("", "domain"), "split", self.split, "domain, or nothing")
        missing = self.split == "domain" and not self.utt2dom
        _require(not missing, "utt2dom", self.utt2dom, "a file, since split = 'domain'")
        _require(self.weight >= 0, "weight", self.weight, "at least 0")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """A whole recipe."""

    model: ModelSection = ModelSection()
    data: DataSection = DataSection()
    init: InitSection = InitSection()
    batch: BatchSection = BatchSection()
    objective: ObjectiveSection = ObjectiveSection()
    stage1: StageSection = StageSection(steps=12_000, rate=5e-4, evaluate_every=50)
    stage2: StageSection = StageSection(steps=3_000, rate=1e-3, evaluate_every=1)
    stage3: StageSection = StageSection(steps=100, rate=1e-5, evaluate_every=1)
    averaging: AveragingSection = AveragingSection()
    held_out: HeldOutSection = HeldOutSection()
    run: RunSection = RunSection()
    dev: tuple[DevSection, ...] = ()
    auto: tuple[str, ...] = ()
    """Keys, as `model.lda_dim`, that are "auto": the data decide them before training
    (train/auto); until then their sections hold the default."""

    def __post_init__(self) -> None:
        """Development sets are told apart by their names."""
        names = [section.name for section in self.dev]
        for name in dict.fromkeys(names):
            once = names.count(name) == 1
            _require(once, "[[dev]] name", name, "a name that no other set has")
        if self.dev and not any(section.weight for section in self.dev):
            report("all development sets ([[dev]]) have weight 0; one must count")

    @property
    def stages(self) -> tuple[StageSection, StageSection, StageSection]:
        """The three stages in order."""
        return self.stage1, self.stage2, self.stage3
