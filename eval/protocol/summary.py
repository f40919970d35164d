"""What lists hold and what could not be made, counted while the trials go past to their file."""

from collections.abc import Iterable, Iterator

from dcaplda.eval.protocol.lists import Part

_SHOWN = 40
"""Parts that are told one by one; fifty domains of the same people have 2450."""


class Summary:
    """Counts of one list."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.reasons: list[str] = []
        """What could not be made, and why."""
        self.n_targets = self.n_nontargets = 0

    def passing(self, parts: Iterable[Part]) -> Iterator[str]:
        """Lines of the trials of all parts; the trials themselves are not kept."""
        any_part = False
        for part in parts:
            any_part = True
            for model, test, target in part.trials():
                yield f"{model} {test} {'target' if target else 'nontarget'}"
            targets = sum(len(model.targets) for model in part.models)
            others = sum(len(model.nontargets) for model in part.models)
            self.n_targets += targets
            self.n_nontargets += others
            self.reasons += [f"{self.kind}, {part.where}: {note}" for note in part.notes]
            if part.models:
                self.parts.append(
                    f"{self.kind}, {part.where}: {part.people} people, {len(part.models)} models, "
                    f"{targets} target and {others} nontarget trials"
                )
        if not any_part:
            self.reasons.append(f"{self.kind}: nobody is in two domains")

    def lines(self) -> list[str]:
        """The parts, unless they are too many, and the sum."""
        if not self.parts:
            return []
        total = (
            f"{self.kind}, all {len(self.parts)}: {self.n_targets} target and "
            f"{self.n_nontargets} nontarget trials"
        )
        return [*(self.parts if len(self.parts) <= _SHOWN else []), total]


def told(reasons: list[str]) -> list[str]:
    """The reasons, the last of very many as a number."""
    rest = len(reasons) - _SHOWN
    return reasons if rest <= 0 else [*reasons[:_SHOWN], f"and {rest} more like these"]
