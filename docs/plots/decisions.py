"""Figure and tables of docs/decisions.md: python docs/plots/decisions.py docs/decisions.png

Everything follows from equation 3 and from a world with a known truth: speakers and recordings
from a two-covariance model in which short speech has more noise, so that exact LLRs can be
written down and cosine scores can be compared with them.
"""

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.report.palette import PAPER
from dcaplda.runtime.decision import bayes_threshold

Array = NDArray[np.float64]

DIM, SPEAKERS = 100, 4000
SPEAKER_VARIANCE, SESSION_VARIANCE = 1.0, 0.8
NOISE = {"long speech": 0.2, "short speech": 1.5}
"""Variance of the noise that fades with duration."""
MEAN = 0.5
"""Embeddings have a mean, as real ones do; the cosine does not know it."""
PRIORS = (0.5, 0.1, 0.01, 0.001)
COSTS = ((1.0, 1.0), (10.0, 1.0), (1.0, 10.0), (1.0, 100.0))
APPLICATION = (0.01, 1.0, 1.0)


class Scores(NamedTuple):
    """Scores of target and of nontarget trials."""

    target: Array
    nontarget: Array


def draw(noise: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two recordings of each speaker."""
    speaker = rng.normal(MEAN, np.sqrt(SPEAKER_VARIANCE), (SPEAKERS, DIM))
    spread = np.sqrt(SESSION_VARIANCE + noise)
    first, second = (speaker + rng.normal(0, spread, speaker.shape) for _ in range(2))
    return first, second


def exact_llrs(first: Array, second: Array, noise: float) -> Array:
    """log N(x, y | same) - log N(x, y | different), each dimension by itself."""
    total = SPEAKER_VARIANCE + SESSION_VARIANCE + noise
    x, y = first - MEAN, second - MEAN
    determinant = total**2 - SPEAKER_VARIANCE**2
    same = (total * (x**2 + y**2) - 2 * SPEAKER_VARIANCE * x * y) / determinant
    different = (x**2 + y**2) / total
    return 0.5 * (different - same + np.log(total**2 / determinant)).sum(axis=1)


def cosines(first: Array, second: Array) -> Array:
    """Cosine similarity row by row."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / norms


def world() -> dict[str, dict[str, Scores]]:
    """Per condition: scores by both methods; nontargets pair each speaker with 50 others."""
    rng = np.random.default_rng(0)
    found = {}
    for condition, noise in NOISE.items():
        first, second = draw(noise, rng)
        others = [np.roll(second, shift, axis=0) for shift in range(1, 51)]
        found[condition] = {
            "llr": Scores(
                exact_llrs(first, second, noise),
                np.concatenate([exact_llrs(first, other, noise) for other in others]),
            ),
            "cosine": Scores(
                cosines(first, second),
                np.concatenate([cosines(first, other) for other in others]),
            ),
        }
    return found


def cost(scores: Scores, threshold: float, prior: float, miss: float, fa: float) -> float:
    """Expected cost per trial, over that of the better of always rejecting and always accepting."""
    p_miss = np.mean(scores.target < threshold)
    p_fa = np.mean(scores.nontarget >= threshold)
    best_blind = min(prior * miss, (1 - prior) * fa)
    return float((prior * miss * p_miss + (1 - prior) * fa * p_fa) / best_blind)


def least(scores: Scores, grid: Array) -> tuple[float, float]:
    """Threshold and cost at the least cost of a grid."""
    costs = [cost(scores, t, *APPLICATION) for t in grid]
    best = int(np.argmin(costs))
    return float(grid[best]), costs[best]


GRIDS = {"llr": np.linspace(-10, 20, 301), "cosine": np.linspace(0.0, 0.9, 301)}


def threshold_table() -> str:
    """Thresholds by prior and costs, as Markdown."""
    header = "| prior of the same speaker | " + " | ".join(
        f"miss {m:g}, false acceptance {f:g}" for m, f in COSTS
    )
    lines = [header + " |", "| --- |" + " ---: |" * len(COSTS)]
    for prior in PRIORS:
        cells = (f"{bayes_threshold(prior, m, f):.2f}" for m, f in COSTS)
        lines.append(f"| {prior:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def transfer_table(scores: dict[str, dict[str, Scores]]) -> str:
    """What a threshold costs in each condition: from eq. 3, and tuned on the other one."""
    lines = [
        "| scores | condition | best threshold there | cost with it | cost with ours |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    conditions = list(scores)
    for kind, grid in GRIDS.items():
        tuned = least(scores[conditions[0]][kind], grid)[0]
        ours = bayes_threshold(*APPLICATION) if kind == "llr" else tuned
        origin = "eq. 3" if kind == "llr" else f"tuned on {conditions[0]}"
        for condition in conditions:
            best, paid = least(scores[condition][kind], grid)
            with_ours = cost(scores[condition][kind], ours, *APPLICATION)
            name = "exact LLR" if kind == "llr" else kind
            lines.append(
                f"| {name} | {condition} | {best:.2f} | {paid:.2f} | "
                f"{with_ours:.2f} ({ours:.2f}, {origin}) |"
            )
    return "\n".join(lines)


def draw_figure(scores: dict[str, dict[str, Scores]], target: str) -> None:
    """Three panels: thresholds; cost over the threshold for LLRs; the same for cosines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    priors = np.geomspace(1e-4, 0.9, 200)
    for number, (miss, fa) in enumerate(COSTS):
        lines = [bayes_threshold(p, miss, fa) for p in priors]
        label = f"miss {miss:g}, false acceptance {fa:g}"
        panels[0].plot(priors, lines, color=PAPER.of(number), label=label)
    panels[0].set(xscale="log", xlabel="prior of the same speaker", ylabel="threshold on the LLR")
    panels[0].set_title("The threshold follows from prior and costs")
    panels[0].legend(fontsize=8)
    for panel, (kind, grid) in zip(panels[1:], GRIDS.items(), strict=True):
        for number, condition in enumerate(scores):
            costs = [cost(scores[condition][kind], t, *APPLICATION) for t in grid]
            panel.plot(grid, costs, color=PAPER.of(number), label=condition)
            best, paid = least(scores[condition][kind], grid)
            panel.plot(best, paid, "o", color=PAPER.of(number))
        panel.set(ylim=(0, 2), xlabel="threshold", ylabel="cost, 1 = deciding without listening")
    panels[1].axvline(bayes_threshold(*APPLICATION), color=PAPER.faint, linestyle="--")
    panels[1].set_title("LLRs: one threshold for all conditions")
    panels[2].set_title("Cosines: each condition wants its own")
    for panel in panels:
        panel.grid(color=PAPER.grid, linewidth=0.6)
    panels[1].legend(fontsize=8)
    figure.savefig(target, dpi=110)


def main() -> None:
    """Write the figure; print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", help="PNG or SVG to write")
    scores = world()
    draw_figure(scores, parser.parse_args().figure)
    print(threshold_table(), transfer_table(scores), sep="\n\n")


if __name__ == "__main__":
    main()
