"""From facts to settings, each with its reason."""

from dataclasses import dataclass
from typing import Any

from dcaplda.train.auto import families
from dcaplda.train.auto.facts import Facts
from dcaplda.train.auto.parts import MOST_PEOPLE
from dcaplda.train.model.config import VARIANTS
from dcaplda.train.recipe.auto import with_values
from dcaplda.train.recipe.sections import TrainingConfig


@dataclass(frozen=True)
class Choice:
    """What was "auto", what it became, and why."""

    setting: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Resolved:
    """A recipe without "auto", and how it came about."""

    config: TrainingConfig
    choices: list[Choice]


class _Chooser:
    """Collects values for what is "auto"; what the recipe says stays."""

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config
        self.found: dict[str, Choice] = {}

    def set(self, key: str, value: Any, reason: str) -> None:
        if key in self.config.auto:
            self.found[key] = Choice(key, value, reason)

    def value(self, key: str) -> Any:
        """What the key will be."""
        if key in self.found:
            return self.found[key].value
        section, name = key.split(".")
        return getattr(getattr(self.config, section), name)

    def free(self, key: str) -> bool:
        return key in self.config.auto


def choose(config: TrainingConfig, facts: Facts, many: bool | None = None) -> Resolved:
    """Decide everything that is "auto"; `many` where it is known whether to train by steps."""
    chooser = _Chooser(config)
    by_rule, why, _ = family(config, facts)
    if many is None or many == by_rule:
        many = by_rule
    else:
        why = f"{facts.people} people, near the border of {families.MANY_PEOPLE}"
    _variant(chooser, facts, many, why)
    (_many if many else _few)(chooser, facts, why)
    _durations(chooser, facts)
    _sizes(chooser, facts, many)
    _turns(chooser, facts, many)
    chooser.set("data.missing_domains", "guessed", "used only where utt2dom is missing")
    chooser.set("data.missing_sessions", "guessed", "used only where utt2sess is missing")
    # What no rule above is about keeps the paper's value.
    for key in config.auto:
        if key not in chooser.found:
            chooser.set(key, chooser.value(key), "the paper's")
    choices = [chooser.found[key] for key in config.auto]
    return Resolved(with_values(config, {c.setting: c.value for c in choices}), choices)


def family(config: TrainingConfig, facts: Facts) -> tuple[bool, str, bool]:
    """Whether to train by steps, why, and whether only the number of people said so."""
    auto = config.auto
    if "model.joint" not in auto and config.model.joint:
        return False, "model.joint = true is made without steps", False
    stages = [f"stage{number}.steps" for number in (1, 2, 3)]
    fixed = [key for key in stages if key not in auto]
    if len(fixed) == 3:
        steps = any(stage.steps for stage in config.stages)
        return steps, "the recipe's steps" if steps else "the recipe has no steps", False
    if "model.variant" not in auto and not VARIANTS[config.model.variant].frozen:
        return True, f"{config.model.variant} is trained by steps", False
    if "model.variant" not in auto and VARIANTS[config.model.variant].side_stage:
        return True, "side-information is learnt by steps", False
    least = families.MANY_PEOPLE
    free = not fixed and "model.variant" in auto and "model.joint" in auto
    if facts.people >= least:
        why = f"{facts.people} people, from {least} on joint training is better"
        return True, why, free
    return False, f"{facts.people} people are few for training by steps (below {least})", free


def _variant(chooser: _Chooser, facts: Facts, many: bool, why: str) -> None:
    known = facts.seconds is not None
    if many:
        missing = "" if known else "; no durations are known"
        variant = "d-plda-dsd" if known else "d-plda-sd"
        chooser.set("model.variant", variant, why + missing)
        chooser.set("model.joint", False, "joint models are not trained by steps")
        chooser.set("model.recordings", False, "for joint models")
        return
    if known and _scarcity(facts) >= families.TINY:
        reason = f"{facts.people} people are too few for more than one scale and shift"
        chooser.set("model.variant", "plda", reason)
    elif known:
        chooser.set("model.variant", "plda-dd", why)
    else:
        chooser.set("model.variant", "plda", "no durations are known")
    joint = chooser.value("model.variant") in ("plda-dd", "d-plda-dd")
    reason = "several utterances and new places, without steps" if joint else "plda has none"
    offsets = chooser.free("init.domain_offsets") or chooser.config.init.domain_offsets
    if joint and not offsets:
        joint, reason = False, "init.domain_offsets = false"
    chooser.set("model.joint", joint, reason)
    chooser.set("model.recordings", *_recordings(chooser.value("model.joint"), facts))


def _recordings(joint: bool, facts: Facts) -> tuple[bool, str]:
    """Whether utterances of one recording get a calibration of their own, and why."""
    if not joint:
        return False, "for joint models"
    told = f"{facts.in_sessions} people have several utterances of one session"
    if facts.in_sessions < families.IN_SESSIONS:
        return False, f"{told}, fewer than {families.IN_SESSIONS}"
    return True, f"{told}: who speaks when is learnt from them"


def _few(chooser: _Chooser, facts: Facts, why: str) -> None:
    for key, value in families.FEW.items():
        chooser.set(key, value, "what keeps calibration where people are few")
    scarcity = _scarcity(facts)
    tiny = scarcity >= families.TINY
    scarce = min(1.0, scarcity)
    if tiny and facts.groups == 1:
        chooser.set("init.shared_offset", 0.0, "one domain")
    reason = f"{facts.people} people for covariances of {facts.dim} values"
    chooser.set("init.lda_shrinkage", round(families.LDA_SHRINKAGE * scarce, 3), reason)
    within = max(scarcity, families.SHRINKAGE) if tiny else families.SHRINKAGE * scarce
    chooser.set("init.shrinkage", round(within, 3), reason)
    chooser.set("init.shrinkage_between", round(families.BETWEEN * scarce, 3), reason)
    folds = min(families.FEW_FOLDS, max(2, facts.people // 4))
    chooser.set("init.calibration_folds", folds, f"{facts.people} people take turns")
    if facts.groups < 2:
        chooser.set("init.calibration_domains", 0.0, "one group of domains cannot take turns")
    for number in (1, 2, 3):
        chooser.set(f"stage{number}.steps", 0, why)


def _many(chooser: _Chooser, facts: Facts, why: str) -> None:
    for key, value in families.MANY.items():
        chooser.set(key, value, "joint training of many people")
    if facts.utterances > facts.recordings:
        each = facts.utterances / facts.recordings
        reason = f"{each:.1f} utterances of a recording say much the same"
        chooser.set("init.subset", "one-per-recording", reason)
    else:
        chooser.set("init.subset", "all", "one utterance of each recording")
    growth = max(1.0, facts.people / 3000) ** 0.5
    steps = min(families.MOST_STEPS, int(round(families.STAGE1_STEPS * growth, -2)))
    chooser.set("stage1.steps", steps, f"{facts.people} people; a running average follows")


def _scarcity(facts: Facts) -> float:
    """Values per person."""
    return max(facts.dim, families.LEAST_VALUES) / facts.people


def _durations(chooser: _Chooser, facts: Facts) -> None:
    if facts.seconds is not None:
        least, middle, most = facts.seconds
        # wlog tells long from short around 30 s; where nearly all are on one side it is log.
        both = least < 20 and most > 60
        chooser.set(
            "model.duration_feature",
            "wlog" if both else "log",
            f"{least:.1f} to {most:.0f} s of speech, half below {middle:.1f}",
        )


def _sizes(chooser: _Chooser, facts: Facts, many: bool) -> None:
    share = int(families.LDA_SHARE * facts.dim)
    left = max(2, facts.people_left - 1)
    if many and left < share:
        reason = f"{facts.people_left} people remain where the largest part is held out"
        chooser.set("model.lda_dim", left, reason)
    elif many:
        chooser.set("model.lda_dim", max(1, share), f"of {facts.dim} values")
    else:
        reason = f"{facts.people} people cannot tell which directions matter"
        chooser.set("model.lda_dim", min(facts.dim, families.MOST_LDA_DIM), reason)
    hidden = max(1, facts.dim - chooser.value("model.lda_dim"))
    chooser.set("model.side_hidden_dim", hidden, "the values that LDA leaves")
    chooser.set("model.side_info_dim", min(hidden, 6), "the paper's, at most the hidden layer's")
    flat = facts.smallest_domain < 2
    balance = "flat" if flat else "domain"
    chooser.set("batch.balance", balance, f"smallest domain: {facts.smallest_domain} speakers")
    lists = 1 if chooser.value("batch.balance") == "flat" else facts.domains
    wanted = min(families.MOST_BATCH, max(families.BATCH, facts.people // 5))
    size = 2 * lists * max(2, wanted // 2 // lists)
    chooser.set("batch.size", size, f"{size // 2 // lists} speakers of each of {lists} lists")
    chooser.set("batch.repeat_speakers", True, "parts held out leave domains with few")
    for key, none in (("batch.held_out_folds", 0), ("batch.held_out_domains", False)):
        chooser.set(key, none, "people held out take turns in calibration")


def _turns(chooser: _Chooser, facts: Facts, many: bool) -> None:
    large = many or facts.utterances > families.LARGE
    people, domains = families.MANY_TURNS if large else families.FEW_TURNS
    if _scarcity(facts) > families.SCARCE:
        people = 5
    people = min(people, max(2, facts.people // 4))
    chooser.set("held_out.people", people, f"{facts.people} people")
    if facts.groups < 3:
        domains = 0
        reason = f"{facts.groups} groups of domains; at least three can take turns"
    else:
        domains = min(domains, facts.groups)
        reason = f"{facts.groups} groups of domains"
    chooser.set("held_out.domains", domains, reason)
    if not (chooser.value("held_out.people") or chooser.value("held_out.domains")):
        for key in ("held_out.calibrate", "held_out.contest"):
            chooser.set(key, False, "no parts are held out")
        return
    reason = "steps see their own people; parts held out do not" if many else "has held-out parts"
    chooser.set("held_out.calibrate", many, reason)
    chooser.set("held_out.contest", *_contest(facts, many))


def _contest(facts: Facts, many: bool) -> tuple[bool, str]:
    """Whether parts held out are asked for better settings, by what that would cost."""
    force = "held_out.contest = true tries them"
    if many and facts.people > MOST_PEOPLE:
        reason = f"models without a part see {MOST_PEOPLE} people at most, and cannot tell what "
        return False, f"{reason}{facts.people} need; other settings are not tried ({force})"
    work = facts.utterances * facts.dim**2
    if not many and work > families.MOST_WORK:
        size = f"{facts.utterances} utterances of {facts.dim} values"
        return False, f"{size}: other settings would take long and are not tried ({force})"
    return True, "other settings are tried on parts held out"
