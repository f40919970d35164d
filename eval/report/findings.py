"""Everything that an evaluation found, for pages and pictures."""

from dataclasses import dataclass, field

from dcaplda.eval.differences import Difference
from dcaplda.eval.evaluation import Work
from dcaplda.eval.report.model_card import ModelCard
from dcaplda.eval.results import Result


@dataclass(frozen=True)
class Findings:
    """Results of every system on every set, means of groups, models, differences."""

    results: list[Result]
    means: list[Result]
    work: Work
    cards: dict[str, ModelCard] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    """From a baseline, if one was named."""
    references: frozenset[str] = frozenset()
    """Systems that only show what is possible."""

    @property
    def sets(self) -> list[str]:
        """Names of the sets, in their order."""
        return list(dict.fromkeys(result.set for result in self.results))

    @property
    def systems(self) -> list[str]:
        """Names of the systems, in their order."""
        return list(dict.fromkeys(result.system for result in self.results))

    def of_set(self, name: str) -> list[Result]:
        """Results of all systems on one set."""
        return [result for result in self.results if result.set == name]
