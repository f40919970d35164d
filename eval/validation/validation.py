"""A validation: what was found on each set, of which system, from which files."""

from dataclasses import dataclass

from dcaplda.eval.evaluation import Examined
from dcaplda.eval.report.model_card import ModelCard
from dcaplda.eval.results import Result
from dcaplda.eval.validation.evidence import Evidence, evidence_of
from dcaplda.eval.validation.provenance import InputFile
from dcaplda.eval.validation.tested import Coverage, coverage_of
from dcaplda.eval.validation.untested import untested


@dataclass(frozen=True)
class Examination:
    """What a closer look at the LLRs of a set found."""

    evidence: Evidence
    tested: Coverage


def examined(seen: Examined, confidence: float) -> Examination:
    """Look closer; called while the set's scores are at hand."""
    return Examination(evidence_of(seen, confidence), coverage_of(seen))


@dataclass(frozen=True)
class Origin:
    """How a validation came about, so that it can be repeated."""

    command: str
    versions: dict[str, str]
    inputs: list[InputFile]
    date: str


@dataclass(frozen=True)
class Model:
    """The model behind the scores."""

    card: ModelCard
    fingerprint: str
    domains: list[str]
    """Kinds of recordings that it was trained on, if it says so."""


@dataclass(frozen=True)
class Validation:
    """Everything that the page and the JSON file tell."""

    title: str
    system: str
    results: list[Result]
    """One for each set, with an Examination in `examined`."""
    model: Model | None
    origin: Origin
    confidence: float
    n_replicates: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of LLRs that every set supports."""
        found = [examination(result).evidence.bounds for result in self.results]
        return max(low for low, _ in found), min(high for _, high in found)

    def untested(self, result: Result) -> list[str]:
        """What was not tested on a set, in sentences."""
        seen = examination(result)
        domains = self.model.domains if self.model else []
        return untested(result, seen.tested, seen.evidence, domains)


def examination(result: Result) -> Examination:
    """The closer look at a result."""
    found = result.examined
    assert isinstance(found, Examination)
    return found
