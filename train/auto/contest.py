"""A contest by turns: values that rules chose against others, on people and domains held out.

The rule's value stays unless another is better by more than the standard error of the paired
difference. Without steps every candidate is looked at quickly (`sieve.py`), and all that won are
then asked for together, with whole models; the number of steps needs no models of its own, since a
run passes through what shorter ones would have been (`train/steps/unwatched.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from dcaplda.runtime.errors import DcapldaError
from dcaplda.train.auto import families, questions
from dcaplda.train.auto.choose import Choice, choose, family
from dcaplda.train.auto.facts import Facts
from dcaplda.train.auto.paired import Difference, compare, held_out_cllr
from dcaplda.train.auto.parts import Scored
from dcaplda.train.auto.questions import Question, Values, current, step_counts
from dcaplda.train.auto.resolve import Plan, as_written, told
from dcaplda.train.auto.sieve import quick_scores, sieve_turns
from dcaplda.train.auto.whole_models import WholeModels
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.recipe.auto import with_values
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.steps.unwatched import lengths_are_met

QUICK, WHOLE = "quick", "whole"
"""How a candidate was looked at."""


@dataclass(frozen=True)
class Match:
    """One candidate against what the contest had come to."""

    setting: str
    value: str
    against: str
    how: str
    cllr: float | None
    """Held-out Cllr of the candidate; None where it could not be trained."""
    better: float = 0.0
    error: float = 0.0
    beyond: bool = False
    """Whether it is better by more than the error."""

    def line(self) -> str:
        """For the log and the comments of config.toml."""
        tried = f"{self.setting} = {self.value} for {self.against}, {self.how}"
        if self.cllr is None:
            return f"{tried}: cannot be trained without some part"
        beyond = ", beyond its error" if self.beyond else ""
        difference = Difference(self.better, self.error).words()
        return f"{tried}: held-out Cllr {self.cllr:.3f}, {difference}{beyond}"


@dataclass
class Contested:
    """What the contest came to."""

    config: TrainingConfig
    choices: list[Choice]
    matches: list[Match] = field(default_factory=list)
    scored: Scored | None = None
    """Trials of the parts by the models of `config` without them, where they were made."""

    def table(self) -> list[dict[str, Any]]:
        """For training_summary.json."""
        return [asdict(match) for match in self.matches]

    def changes(self, before: Sequence[Choice]) -> list[str]:
        """Lines about choices that are others than before."""
        known = set(before)
        return told([choice for choice in self.choices if choice not in known])


def contest(
    plan: Plan, data: TrainingData, device: torch.device, say: Callable[[str], None]
) -> Contested:
    """Hold it where the plan has [held_out] contest, else leave everything as it is."""
    if not (plan.config.held_out.contest and plan.facts is not None):
        return Contested(plan.config, plan.choices)
    held = _Contest(plan, plan.facts, data, device, say)
    held.hold()
    return held.outcome()


class _Contest:
    def __init__(
        self,
        plan: Plan,
        facts: Facts,
        data: TrainingData,
        device: torch.device,
        say: Callable[[str], None],
    ) -> None:
        self.recipe, self.facts = plan.recipe, facts
        self.config, self.data, self.device, self.say = plan.config, data, device, say
        self.free = set(plan.recipe.auto)
        self.forced = "held_out.contest" not in self.free
        self.choices = {choice.setting: choice for choice in plan.choices}
        self.matches: list[Match] = []
        self.whole = WholeModels(data, device, say)

    def hold(self) -> None:
        """All questions, in order."""
        self._ask_family()
        if not any(stage.steps for stage in self.config.stages):
            self._ask(questions.FEW)
            return
        self.whole.train(self.config, self._lengths(self.config))
        if self.facts.people < families.MOST_SIZES or self.forced:
            self._ask(questions.MANY)
        else:
            reason = f"other sizes are not tried from {families.MOST_SIZES} people on"
            self._explain("model.lda_dim", f"{reason}; held_out.contest = true tries them")
        self._ask_steps()

    def outcome(self) -> Contested:
        """After all questions."""
        scored = None
        if self.whole.knows(self.config):
            scored = self.whole.scored(self.config)
        return Contested(self.config, list(self.choices.values()), self.matches, scored)

    def _ask_family(self) -> None:
        """With or without steps, near the border between the two."""
        many, _, open_ = family(self.recipe, self.facts)
        least, most = families.BORDER
        if not open_ or not least <= self.facts.people <= most:
            return
        other = choose(self.recipe, self.facts, not many)
        parts: Values = {
            key: current(self.config, key)
            for key in ("held_out.people", "held_out.domains")
            if key in self.free
        }
        config = with_values(other.config, parts)
        won, difference = self._whole_match("model.variant", config, config.model.variant)
        if not won:
            name = config.model.variant
            self._explain("model.variant", _kept(self.config.model.variant, name, difference))
            return
        asked = {choice.setting: choice for choice in self.choices.values()}
        self.config = config
        self.choices = {
            choice.setting: replace(choice, value=current(config, choice.setting))
            for choice in other.choices
        }
        instead = f"instead of {asked['model.variant'].value}: {difference.words()}"
        self._explain("model.variant", instead)

    def _ask(self, asked: Sequence[Question]) -> None:
        """Candidates of every question quickly, then all that won with whole models."""
        rule, config = self.config, self.config
        turns = sieve_turns(self.data, config)
        base: Scored | None = None
        winners: dict[str, tuple[Values, Difference]] = {}
        for question in asked:
            candidates = question.asked(config, self.facts, self.free)
            if candidates and base is None:
                base = quick_scores(self.data, config, turns, self.device)
                loss = held_out_cllr(base, self.data)
                self.say(f"contest: the rules' settings, quick: held-out Cllr {loss:.3f}")
            best: tuple[Difference, Values, Scored] | None = None
            shown: list[tuple[Values, Difference]] = []
            for values in candidates:
                assert base is not None
                own = with_values(config, values)
                scored = self._quick(question.setting, own, config)
                if scored is None:
                    continue
                difference = compare(base, scored, self.data)
                shown.append((values, difference))
                ahead = best is None or difference.better > best[0].better
                if difference.beyond and ahead:
                    best = difference, values, scored
                self._record(question.setting, own, config, QUICK, scored, difference)
            if best is not None:
                winners[question.setting] = best[1], best[0]
                config, base = with_values(config, best[1]), best[2]
            elif shown:
                values, difference = max(shown, key=lambda pair: pair[1].better)
                kept = as_written(current(config, question.setting))
                other = as_written(values[question.setting])
                self._explain(question.setting, _kept(kept, other, difference))
        if winners:
            self._confirm(rule, config, winners)

    def _confirm(
        self,
        rule: TrainingConfig,
        config: TrainingConfig,
        winners: dict[str, tuple[Values, Difference]],
    ) -> None:
        """All that won, together, by whole models."""
        settings = " and ".join(winners)
        values = " and ".join(as_written(current(config, key)) for key in winners)
        won, whole = self._whole_match(settings, config, values)
        for setting, (own, quick) in winners.items():
            before = as_written(current(rule, setting))
            after = as_written(own[setting])
            if not won:
                text = f"{before} kept: {after} was {quick.words()} at first sight, but "
                text += "with whole models " if len(winners) == 1 else "all that won together, "
                self._explain(setting, f"{text}{whole.words()}")
                continue
            for key, value in own.items():
                why = self.choices[key].reason if key == setting else f"follows {setting}"
                self.choices[key] = replace(self.choices[key], value=value, reason=why)
            together = "" if len(winners) == 1 else "with the others that won "
            reason = f"instead of {before}: {quick.words()}; {together}{whole.words()} as a whole"
            self._explain(setting, reason)
        if won:
            self.config = config

    def _ask_steps(self) -> None:
        """Other lengths of the run that was made, or will be."""
        rule = self.config
        found: list[tuple[Difference, int]] = []
        for steps in self._lengths(rule):
            own = with_values(rule, {"stage1.steps": steps})
            difference = self._compared("stage1.steps", own, rule)
            found.append((difference, steps))
        if not found:
            return
        difference, steps = max(found, key=lambda pair: (pair[0].beyond, pair[0].better))
        before = rule.stage1.steps
        if not difference.beyond:
            self._explain("stage1.steps", _kept(before, steps, difference))
            return
        self.config = with_values(rule, {"stage1.steps": steps})
        self.choices["stage1.steps"] = replace(self.choices["stage1.steps"], value=steps)
        self._explain("stage1.steps", f"instead of {before}: {difference.words()}")

    def _lengths(self, config: TrainingConfig) -> list[int]:
        """Numbers of steps of stage 1 that are asked about."""
        asked = "stage1.steps" in self.free and lengths_are_met(config)
        return step_counts(config, self.forced) if asked else []

    def _quick(self, setting: str, own: TrainingConfig, against: TrainingConfig) -> Scored | None:
        try:
            return quick_scores(self.data, own, sieve_turns(self.data, own), self.device)
        except DcapldaError:
            self._record(setting, own, against, QUICK, None, Difference(0.0, 0.0))
            return None

    def _whole_match(
        self, setting: str, own: TrainingConfig, value: str
    ) -> tuple[bool, Difference]:
        """Whether `own` is better than what the contest has come to."""
        difference = self._compared(setting, own, self.config, value)
        return difference.beyond, difference

    def _compared(
        self, setting: str, own: TrainingConfig, against: TrainingConfig, value: str = ""
    ) -> Difference:
        shown = value or as_written(current(own, setting))
        try:
            for name, config in (("the settings so far", against), (f"{setting} = {shown}", own)):
                if not self.whole.knows(config):
                    self.say(f"contest: whole models of {name} without each part")
                    self.whole.train(config, self._lengths(config))
            scored = self.whole.judged(own)
        except DcapldaError:
            self._record(setting, own, against, WHOLE, None, Difference(0.0, 0.0), shown)
            return Difference(0.0, 0.0)
        difference = compare(self.whole.judged(against), scored, self.data)
        self._record(setting, own, against, WHOLE, scored, difference, shown)
        return difference

    def _record(
        self,
        setting: str,
        own: TrainingConfig,
        against: TrainingConfig,
        how: str,
        scored: Scored | None,
        difference: Difference,
        value: str = "",
    ) -> None:
        keys = setting.split(" and ")
        match = Match(
            setting,
            value or as_written(current(own, setting)),
            " and ".join(as_written(current(against, key)) for key in keys),
            how,
            None if scored is None else held_out_cllr(scored, self.data),
            difference.better,
            difference.error,
            difference.beyond,
        )
        self.matches.append(match)
        self.say(f"contest: {match.line()}")

    def _explain(self, setting: str, text: str) -> None:
        """Add to the reason of a choice."""
        if setting in self.choices:
            choice = self.choices[setting]
            self.choices[setting] = replace(choice, reason=f"{choice.reason}; {text}")


def _kept(value: object, other: object, difference: Difference) -> str:
    if difference.better > 0:
        return f"{value} kept, {other} is {difference.words()}, not beyond its error"
    return f"{value} kept, {other} is {difference.words()}"
