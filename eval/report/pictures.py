"""All pictures of an evaluation: what to draw, how to call it, where to write it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dcaplda.eval.evaluation import Work
from dcaplda.eval.metrics.measure import prior_name
from dcaplda.eval.report import curve_pictures, set_pictures
from dcaplda.eval.report.model_card import ModelCard
from dcaplda.eval.report.palette import PAPER, WEB, Palette, inline_svg, rc
from dcaplda.eval.results import Result
from dcaplda.runtime.files import replacing


@dataclass(frozen=True)
class Picture:
    """A drawing: its file name without ending, title, caption, and how to make it."""

    key: str
    title: str
    caption: str
    draw: Callable[[Palette], Any]
    wide: bool = False


def slug(text: str) -> str:
    """A name that is safe in file names and ids."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "set"


@dataclass(frozen=True)
class Gallery:
    """Results with their pictures."""

    results: list[Result]
    means: list[Result]
    cards: dict[str, ModelCard]
    work: Work

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

    def overview(self) -> list[Picture]:
        """Bars over all sets, and over the groups of sets."""
        pictures = []
        for kind, results in (("groups", self.means), ("sets", self.results)):
            if not results:
                continue
            for prior in self.work.settings.priors:
                pictures += self._bars(kind, results, prior_name(prior))
        return pictures

    def _bars(self, kind: str, results: list[Result], prior: str) -> list[Picture]:
        over = "averages over groups of sets" if kind == "groups" else "every set"
        spans = ", the thin line its confidence interval" if results[0].intervals else ""
        pairs = (
            ("cllr", "min_cllr_lin", "Cllr", "what the best affine calibration would leave"),
            ("dcf", "min_dcf", "DCF", "the cost at the best threshold"),
        )
        return [
            Picture(
                f"{metric}-{prior}-{kind}",
                f"{name} at prior {prior}, {over}",
                f"Bar: actual {name}{spans}. Thick line: {least}. Lower is better.",
                partial(
                    set_pictures.bars,
                    results,
                    f"{metric}_{prior}",
                    f"{minimum}_{prior}",
                    f"{name} at prior {prior}",
                ),
                wide=len(results) > 10,
            )
            for metric, minimum, name, least in pairs
        ]

    def set_pictures(self, name: str) -> list[Picture]:
        """The five curves of a set with all systems, and heat maps of each system."""
        results = self.of_set(name)
        systems = {r.system: r.curves for r in results if r.curves is not None}
        key = slug(name)
        known = (
            ("det", "DET", curve_pictures.det, _DET),
            ("bayes-error", "Bayes error over the prior", curve_pictures.bayes_error, _BAYES),
            ("pav", "Calibration (PAV)", curve_pictures.pav, _PAV),
            ("histograms", "Score histograms", curve_pictures.histograms, _HISTOGRAMS),
            ("tippett", "Tippett", curve_pictures.tippett, _TIPPETT),
        )
        pictures = [
            Picture(f"{key}-{stem}", title, caption, partial(draw, systems))
            for stem, title, draw, caption in known
        ]
        for result in results:
            pictures += self._heat_maps(result)
        return pictures

    def _heat_maps(self, result: Result) -> list[Picture]:
        parts = [part for part in result.parts if part.kind == "duration"]
        if not parts:
            return []
        prior = prior_name(self.work.settings.priors[0])
        stem = f"{slug(result.set)}-durations-{slug(result.system)}"
        chosen = (
            (f"cllr_{prior}", "Cllr", "Actual Cllr of each pair of durations"),
            (f"min_cllr_lin_{prior}", "minimum Cllr", "What calibration for each pair would leave"),
        )
        return [
            Picture(
                f"{stem}-{metric.split('_')[0]}",
                f"{result.system}: {label} by duration",
                f"{caption}, at prior {prior}; small: target trials. Cells without both kinds of "
                "trials are empty.",
                partial(set_pictures.heat_map, parts, metric, label, f"cllr_{prior}"),
            )
            for metric, label, caption in chosen
        ]

    def model_pictures(self, system: str) -> list[Picture]:
        """The duration stage of a system's model, if it has one."""
        card = self.cards.get(system)
        if card is None or card.stage is None:
            return []
        return [
            Picture(
                f"{slug(system)}-duration-stage",
                "Calibration by duration: alpha_d and beta_d",
                "Scale and shift that the duration stage applies to the raw score, over the "
                "seconds of speech of both sides (paper, eq. 21 and 22).",
                partial(set_pictures.duration_stage, card.stage),
                wide=True,
            )
        ]

    def all_pictures(self) -> list[Picture]:
        """Every picture once."""
        pictures = self.overview()
        for name in self.sets:
            pictures += self.set_pictures(name)
        for system in self.systems:
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

    def svg(self, picture: Picture) -> str:
        """A picture as an element of the report."""
        import matplotlib

        with matplotlib.rc_context(rc(WEB)):
            return inline_svg(picture.draw(WEB), slug(picture.key), picture.title)


_DET = (
    "Misses against false alarms at every threshold (ROC convex hull), on normal-deviate axes. "
    "Filled circle: the Bayes threshold; open circle: the best threshold. Dotted: equal errors."
)
_BAYES = (
    "Cost of decisions for every prior, relative to deciding without the system. Solid: at the "
    "Bayes threshold; dashed: at the best one. The gap is miscalibration."
)
_PAV = (
    "Horizontal: the LLR that the system gave. Vertical: the LLR that the data support. Above "
    "the diagonal the system says too little for the target, below it too much."
)
_HISTOGRAMS = "Scores of both classes. Dotted: where the Bayes thresholds of the priors lie."
_TIPPETT = (
    "Share of trials whose LLR is larger than the value below. The curves of a good system are "
    "far apart, and few targets lie below 0, few nontargets above."
)
