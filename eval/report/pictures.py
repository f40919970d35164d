"""All pictures of an evaluation: what to draw, how to call it, where to write it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dcaplda.eval.metrics.measure import prior_name
from dcaplda.eval.report import curve_pictures, set_pictures
from dcaplda.eval.report.findings import Findings
from dcaplda.eval.report.palette import PAPER, Palette, rc
from dcaplda.eval.results import Result
from dcaplda.runtime.files import replacing


@dataclass(frozen=True)
class Picture:
    """A drawing: its file name without ending, and how to make it."""

    key: str
    draw: Callable[[Palette], Any]


def slug(text: str) -> str:
    """A name that is safe in file names and ids."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "set"


@dataclass(frozen=True)
class Gallery:
    """The pictures of an evaluation, as files for papers and slides."""

    findings: Findings

    def overview(self) -> list[Picture]:
        """Bars over all sets, and over the groups of sets."""
        pictures = []
        for kind, results in (("groups", self.findings.means), ("sets", self.findings.results)):
            if not results:
                continue
            for prior in self.findings.work.settings.priors:
                pictures += self._bars(kind, results, prior_name(prior))
        return pictures

    def _bars(self, kind: str, results: list[Result], prior: str) -> list[Picture]:
        pairs = (("cllr", "min_cllr_lin", "Cllr"), ("dcf", "min_dcf", "DCF"))
        return [
            Picture(
                f"{metric}-{prior}-{kind}",
                partial(
                    set_pictures.bars,
                    results,
                    f"{metric}_{prior}",
                    f"{minimum}_{prior}",
                    f"{name} at prior {prior}",
                ),
            )
            for metric, minimum, name in pairs
        ]

    def set_pictures(self, name: str) -> list[Picture]:
        """The five curves of a set with all systems, and heat maps of each system."""
        results = self.findings.of_set(name)
        systems = {r.system: r.curves for r in results if r.curves is not None}
        known = {
            "det": curve_pictures.det,
            "bayes-error": curve_pictures.bayes_error,
            "pav": curve_pictures.pav,
            "histograms": curve_pictures.histograms,
            "tippett": curve_pictures.tippett,
        }
        pictures = [
            Picture(f"{slug(name)}-{stem}", partial(draw, systems)) for stem, draw in known.items()
        ]
        for result in results:
            pictures += self._heat_maps(result)
        return pictures

    def _heat_maps(self, result: Result) -> list[Picture]:
        """Actual Cllr of each pair of durations, and what calibration for each would leave."""
        parts = [part for part in result.parts if part.kind == "duration"]
        if not parts:
            return []
        prior = prior_name(self.findings.work.settings.priors[0])
        stem = f"{slug(result.set)}-durations-{slug(result.system)}"
        chosen = ((f"cllr_{prior}", "Cllr"), (f"min_cllr_lin_{prior}", "minimum Cllr"))
        return [
            Picture(
                f"{stem}-{metric.split('_')[0]}",
                partial(set_pictures.heat_map, parts, metric, label, f"cllr_{prior}"),
            )
            for metric, label in chosen
        ]

    def model_pictures(self, system: str) -> list[Picture]:
        """The duration stage of a system's model, if it has one."""
        card = self.findings.cards.get(system)
        if card is None or card.stage is None:
            return []
        key = f"{slug(system)}-duration-stage"
        return [Picture(key, partial(set_pictures.duration_stage, card.stage))]

    def all_pictures(self) -> list[Picture]:
        """Every picture once."""
        pictures = self.overview()
        for name in self.findings.sets:
            pictures += self.set_pictures(name)
        for system in self.findings.systems:
            pictures += self.model_pictures(system)
        return pictures

    def write_files(self, folder: str, ending: str) -> int:
        """Write every picture to a file of its own; returns how many."""
        import matplotlib

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        pictures = self.all_pictures()
        with matplotlib.rc_context(rc(PAPER)):
            for picture in pictures:
                figure = picture.draw(PAPER)
                with replacing(place / f"{picture.key}.{ending}") as beside:
                    figure.savefig(beside, format=ending, dpi=200)
        return len(pictures)
