"""The TOML of a simulated world: frozen dataclasses, ranges checked, unknown keys refused.

Lengths are in units of the session noise: a recording of an ordinary condition has session
variance 1 on every axis, and every other size is told against that.
"""

import dataclasses
import difflib
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.fields import parse_toml, shown, typed
from dcaplda.runtime.values import SECONDS, are_seconds

ROLES = ("train", "dev", "eval")
# The exact LLR of three enrolment utterances and a test sums over the fourth power of this.
MOST_CONDITIONS = 8


def _require(holds: bool, key: str, value: object, expected: str) -> None:
    if not holds:
        raise UsageError(f"{key} = {shown(value)}: expected {expected}")


def _require_range(key: str, seconds: list[float]) -> None:
    good = len(seconds) == 2 and seconds[0] <= seconds[1] and all(map(are_seconds, seconds))
    _require(good, key, seconds, f"two numbers, the shorter first, {SECONDS}")


@dataclass(frozen=True, kw_only=True)
class SpaceSection:
    """[space]: the embedding space and the speakers in it."""

    dim: int
    """Values of an embedding."""
    speaker_axes: int
    """Axes on which speakers differ; the rest hold nothing but condition and noise."""
    speaker_first: float
    """Between-speaker variance of the most telling axis."""
    speaker_last: float
    """The same of the least telling one; between them it falls geometrically."""
    chunk_seconds: float
    """Speech of so many seconds has as much noise of its own as its session."""
    offset_rank: int = 0
    """Dimension of the subspace in which the domains' own offsets lie; 0: the whole space."""

    def __post_init__(self) -> None:
        """Check ranges."""
        _require(self.dim >= 2, "space.dim", self.dim, "at least 2")
        fits = 1 <= self.speaker_axes <= self.dim
        _require(fits, "space.speaker_axes", self.speaker_axes, "from 1 to space.dim")
        _require(self.offset_rank >= 0, "space.offset_rank", self.offset_rank, "at least 0")
        for key in ("speaker_first", "speaker_last", "chunk_seconds"):
            _require(getattr(self, key) > 0, f"space.{key}", getattr(self, key), "above 0")


@dataclass(frozen=True, kw_only=True)
class QualitySection:
    """[qualities.<name>]: a rough quality of speakers with a few values, such as gender."""

    values: list[str]
    """Names of the values."""
    size: float
    """How far a value moves a speaker: standard deviation per speaker axis."""
    rank: int = 0
    """Dimension of the subspace in which the values lie; 0: the whole speaker space."""

    def __post_init__(self) -> None:
        """Check ranges."""
        _require(self.rank >= 0, "rank", self.rank, "at least 0")
        unique = bool(self.values) and len(set(self.values)) == len(self.values)
        _require(unique, "values", self.values, "one or more names, none twice")
        _require(self.size >= 0, "size", self.size, "at least 0")


@dataclass(frozen=True, kw_only=True)
class FactorSection:
    """[factors.<name>]: what one unit of a physical factor does to a recording."""

    shift: float
    """How far it moves the embedding: standard deviation per axis."""
    scale: float
    """What it adds to the log variance of the session noise on its axes."""
    axes: float
    """Share of the axes on which it scales the session noise: its direction."""
    chunk: float
    """What it adds to the log variance of the noise that falls with duration, on all axes."""

    def __post_init__(self) -> None:
        """Check ranges."""
        _require(self.shift >= 0, "shift", self.shift, "at least 0")
        _require(0 <= self.axes <= 1, "axes", self.axes, "a share from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class DomainSection:
    """[domains.<name>]: which speakers and conditions occur together."""

    role: str
    """train, dev or eval."""
    speakers: int
    """Speakers of a train domain that are trained on; of others, all of them."""
    full_seconds: list[float]
    """Speech in a whole recording, log-uniform between these."""
    recordings: int = 6
    """Recordings of each training speaker."""
    offset: float = 0.0
    """A shift that only this domain has: standard deviation per axis."""
    conditions: list[dict[str, float]] = field(default_factory=lambda: [{"p": 1.0}])
    """Kinds of recordings: each its probability p, drawn per recording, and its value of every
    factor that is not 0."""
    qualities: dict[str, dict[str, float]] = field(default_factory=dict)
    """Quality -> probability of each value; a quality not named has all values alike."""

    def __post_init__(self) -> None:
        """Check names, ranges and that probabilities add up to 1."""
        _require(self.role in ROLES, "role", self.role, f"one of {', '.join(ROLES)}")
        _require(self.speakers >= 2, "speakers", self.speakers, "at least 2")
        _require(self.recordings >= 2, "recordings", self.recordings, "at least 2")
        _require(self.offset >= 0, "offset", self.offset, "at least 0")
        _require_range("full_seconds", self.full_seconds)
        few = 1 <= len(self.conditions) <= MOST_CONDITIONS
        expected = f"1 to {MOST_CONDITIONS}, or the exact LLR of several utterances takes too long"
        _require(few, "conditions", len(self.conditions), expected)
        _check_distribution("conditions p", [kind.get("p", -1.0) for kind in self.conditions])
        for name, chances in self.qualities.items():
            _check_distribution(f"qualities.{name}", list(chances.values()))


def _check_distribution(key: str, probabilities: list[float]) -> None:
    good = all(p >= 0 for p in probabilities) and math.isclose(sum(probabilities), 1, abs_tol=1e-6)
    _require(good, key, probabilities, "probabilities that add up to 1, none below 0")


@dataclass(frozen=True, kw_only=True)
class SetsSection:
    """[sets]: sizes and durations of what is written."""

    chunks: int = 8
    """Chunks cut from each training recording."""
    chunk_seconds: list[float] = field(default_factory=lambda: [4.0, 240.0])
    """Their seconds of speech, log-uniform."""
    dev_short_seconds: list[float] = field(default_factory=lambda: [4.0, 30.0])
    """The short version of held-out and development sets."""
    eval_short_seconds: list[float] = field(default_factory=lambda: [4.0, 16.0])
    """The short version of evaluation sets."""
    heldout_speakers: int = 50
    """Speakers of each training domain kept for its held-out set, besides those trained on."""
    enroll_recordings: int = 3
    """Recordings of a test speaker used to enrol: one by one, and all together."""
    test_recordings: int = 3
    """Recordings of a test speaker used to test."""
    nontargets: int = 20_000
    """Nontarget trials of a set, at most; target trials are all there are."""
    multi_nontargets: int = 10_000
    """The same of trials that enrol several recordings, whose exact LLR takes longer."""
    cohort: int = 1000
    """Training utterances of each domain in the cohort for score normalization."""
    calibration_speakers: int = 1000
    """Training speakers in the trials for calibrating other systems' scores."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for key in ("chunk_seconds", "dev_short_seconds", "eval_short_seconds"):
            _require_range(f"sets.{key}", getattr(self, key))
        least = dict.fromkeys(("chunks", "enroll_recordings", "test_recordings", "cohort"), 1)
        least |= {"nontargets": 1, "multi_nontargets": 1, "heldout_speakers": 2}
        least |= {"calibration_speakers": 2}
        for key, value in least.items():
            found = getattr(self, key)
            _require(found >= value, f"sets.{key}", found, f"at least {value}")


@dataclass(frozen=True, kw_only=True)
class WorldConfig:
    """A whole world file."""

    space: SpaceSection
    sets: SetsSection
    qualities: dict[str, QualitySection]
    factors: dict[str, FactorSection]
    domains: dict[str, DomainSection]

    def __post_init__(self) -> None:
        """Check that domains name only what exists."""
        _require(bool(self.domains), "domains", "none", "at least one [domains.<name>]")
        for name, domain in self.domains.items():
            for factor in {key for kind in domain.conditions for key in kind} - {"p"}:
                _known(factor, self.factors, f"domains.{name}.conditions")
            for quality, chances in domain.qualities.items():
                _known(quality, self.qualities, f"domains.{name}.qualities")
                for value in chances:
                    place = f"domains.{name}.qualities.{quality}"
                    _known(value, self.qualities[quality].values, place)

    def by_role(self, role: str) -> dict[str, DomainSection]:
        """The domains of a role, in the order of the file."""
        return {name: domain for name, domain in self.domains.items() if domain.role == role}


def _known(name: str, known: typing.Iterable[str], place: str) -> None:
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
        raise UsageError(f"{place} has no '{name}'; {hint}")


def load_world(path: str, scale: float = 1.0) -> WorldConfig:
    """Read a world file; `scale` multiplies the number of training speakers."""
    try:
        values = parse_toml(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML ({error})") from None
    try:
        return _scaled(world_from_dict(values), scale)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _scaled(config: WorldConfig, scale: float) -> WorldConfig:
    _require(scale > 0, "--scale", scale, "above 0")
    domains = {
        name: dataclasses.replace(domain, speakers=max(2, round(scale * domain.speakers)))
        if domain.role == "train"
        else domain
        for name, domain in config.domains.items()
    }
    return dataclasses.replace(config, domains=domains)


def world_from_dict(values: Mapping[str, Any]) -> WorldConfig:
    """Build a checked configuration from parsed TOML."""
    single = {"space": SpaceSection, "sets": SetsSection}
    named = {"qualities": QualitySection, "factors": FactorSection, "domains": DomainSection}
    for key in values:
        _known(key, [*single, *named], "the world")
    sections: dict[str, Any] = {}
    for name, cls in single.items():
        sections[name] = _section(cls, values.get(name, {}), name)
    for name, cls in named.items():
        table = values.get(name, {})
        _require(isinstance(table, Mapping), name, table, f"tables [{name}.<name>]")
        sections[name] = {key: _section(cls, item, f"{name}.{key}") for key, item in table.items()}
    return WorldConfig(**sections)


def _section(cls: type[Any], values: Any, place: str) -> Any:
    _require(isinstance(values, Mapping), place, values, f"a table [{place}]")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    for key in values:
        _known(key, fields, f"[{place}]")
    for key, item in fields.items():
        needed = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if needed and key not in values:
            raise UsageError(f"[{place}] needs the key '{key}'")
    checked = {key: typed(item, hints[key], f"{place}.{key}") for key, item in values.items()}
    try:
        return cls(**checked)
    except UsageError as error:
        raise UsageError(f"[{place}] {error}") from None
