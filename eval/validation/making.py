"""Makes a validation along with an evaluation: checks first, a look at each set, then the files."""

from dcaplda.eval.evaluation import Examined, Work
from dcaplda.eval.report.model_card import ModelCard
from dcaplda.eval.results import Result
from dcaplda.eval.sets import SetSpec, SystemSpec
from dcaplda.eval.validation.page import json_path, write_validation
from dcaplda.eval.validation.provenance import input_files, today, versions
from dcaplda.eval.validation.summary import HALF
from dcaplda.eval.validation.validation import Examination, Model, Origin, Validation, examined
from dcaplda.runtime.bundle.manifest import read_info
from dcaplda.runtime.errors import UsageError


class Maker:
    """What a validation needs besides the results: names, hashes, the command line."""

    def __init__(
        self,
        sets: list[SetSpec],
        systems: list[SystemSpec],
        card: ModelCard | None,
        work: Work,
        table: str = "",
    ) -> None:
        if len(systems) != 1:
            names = ", ".join(system.name for system in systems)
            raise UsageError(f"--validation is of one system; there are {names}")
        if float(HALF) not in work.settings.priors:
            raise UsageError(f"--validation needs the prior {HALF}; add it to --prior")
        self.system = systems[0].name
        self.work = work
        self.model = None if card is None else _model(card)
        self.inputs = input_files(sets, systems[0], table, card.place if card else "")

    def examine(self, seen: Examined) -> Examination:
        """The closer look at each set."""
        return examined(seen, self.work.confidence)

    def write(
        self, path: str, results: list[Result], title: str, command: str, version: str
    ) -> list[str]:
        """Write the page and the JSON file; their names."""
        origin = Origin(command, versions(version), self.inputs, today())
        validation = Validation(
            title or f"Comparison of voices by “{self.system}”",
            self.system,
            results,
            self.model,
            origin,
            self.work.confidence,
            self.work.n_replicates,
        )
        write_validation(path, validation)
        return [path, json_path(path)]


def _model(card: ModelCard) -> Model:
    info = read_info(card.place)
    training = info.manifest.get("training")
    domains = training.get("domains") if isinstance(training, dict) else None
    return Model(card, info.fingerprint, [str(name) for name in domains or []])
