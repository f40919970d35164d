"""Speed of training: a step against the full-matrix definition, and evaluation at every step."""

import os

THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))

import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from models import paper_model  # noqa: E402
from timing import best_of, table  # noqa: E402

from dcaplda.train.data.batches import BatchWalker  # noqa: E402
from dcaplda.train.data.labelled import Labels, TrainingData, assemble  # noqa: E402
from dcaplda.train.recipe.sections import BatchSection, ObjectiveSection  # noqa: E402
from dcaplda.train.selection.devsets import DevSet, DevSource  # noqa: E402
from dcaplda.train.selection.losses import Evaluator  # noqa: E402
from dcaplda.train.selection.pair_plan import PairPlan  # noqa: E402
from dcaplda.train.steps.objective import Optimizer  # noqa: E402
from dcaplda.train.steps.plain_loss import plain_loss  # noqa: E402

DIM, DOMAINS, BATCH = 512, 6, 2048
SETS, TRIALS = 8, 100_000
CPU = torch.device("cpu")


def training_data(rng: np.random.Generator) -> TrainingData:
    """Six domains of 300 speakers with four sessions of two chunks."""
    ids = [
        f"d{d}s{s:03d}-r{r}-c{c}"
        for d in range(DOMAINS)
        for s in range(300)
        for r in range(4)
        for c in range(2)
    ]
    labels = Labels(
        "bench",
        speaker={name: name[: name.index("-")] for name in ids},
        session={name: name[: name.rindex("-")] for name in ids},
        domain={name: name[:2] for name in ids},
        seconds=dict(zip(ids, np.exp(rng.uniform(1.4, 5.4, len(ids))).tolist(), strict=True)),
    )
    return assemble(ids, rng.standard_normal((len(ids), DIM)).astype(np.float32), labels)


def plain_step(data: TrainingData, rows: np.ndarray) -> Callable[[], None]:
    """Forward, backward, L2, clipping and Adam with the full matrix of trials and autograd."""
    model = paper_model("d-plda-dsd")
    section = ObjectiveSection()
    adam = torch.optim.Adam(model.parameters(), lr=1e-9, betas=(0.5, 0.99))
    x, seconds = torch.from_numpy(data.embeddings[rows]), torch.from_numpy(data.seconds[rows])
    labels = [torch.from_numpy(a[rows]).long() for a in (data.identity, data.session, data.domain)]

    def step() -> None:
        adam.zero_grad()
        loss = plain_loss(model, x, seconds, *labels, section.prior)
        objective = section.loss_weight * len(rows) * loss
        for parameter in model.parameters():
            objective = objective + section.l2 * (parameter**2).sum()
        objective.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), section.clip_norm)
        adam.step()

    return step


def steps() -> list[tuple[str, ...]]:
    """One step of d-plda-dsd at the paper's sizes."""
    data = training_data(np.random.default_rng(0))
    rows = []
    walkers = {
        balance: BatchWalker(data, BatchSection(size=BATCH, balance=balance), 0)
        for balance in ("domain", "flat")
    }
    batches = {balance: walker.next_batch() for balance, walker in walkers.items()}
    # By itself first: the optimizer lets all that follows keep its memory, this one too.
    alone = best_of({"full": plain_step(data, batches["domain"].rows)}, rounds=7)["full"]
    optimizer = Optimizer(paper_model("d-plda-dsd"), data, ObjectiveSection(), CPU)
    optimizer.set_rate(1e-9)
    best = best_of(
        {
            "full": plain_step(data, batches["domain"].rows),
            "domain": lambda: optimizer.step(batches["domain"]),
            "flat": lambda: optimizer.step(batches["flat"]),
            "draw": lambda: walkers["domain"].next_batch(),
        },
        rounds=15,
    )
    ours = best["domain"] + best["draw"]
    rows += [
        ("full matrix of trials, autograd", f"{alone * 1e3:.1f} ms", ""),
        ("  in memory that is kept, as ours", f"{best['full'] * 1e3:.1f} ms", ""),
        (
            "step, balanced by domain",
            f"{best['domain'] * 1e3:.1f} ms",
            f"{alone / best['domain']:.1f} x faster (at least 5, aim 10); "
            f"{best['full'] / best['domain']:.1f} x with kept memory",
        ),
        ("step, flat", f"{best['flat'] * 1e3:.1f} ms", ""),
        ("drawing a batch", f"{best['draw'] * 1e3:.1f} ms", ""),
        ("15,100 steps of the paper's recipe", f"{15_100 * ours / 60:.0f} min", "no evaluation"),
    ]
    return rows


def evaluation() -> list[tuple[str, ...]]:
    """Eight sets of 100,000 trials: half of 400 enrolments x 500 tests each."""
    rng = np.random.default_rng(0)
    model = paper_model("d-plda-dsd")
    sources = []
    for number in range(SETS):
        places = rng.choice(400 * 500, TRIALS, replace=False)
        plan = PairPlan.make(places // 500, 400 + places % 500, CPU)
        targets = torch.from_numpy(rng.random(TRIALS) < 0.05)
        dev = DevSet(f"set{number}", "dev", 1.0, targets, plan, None)
        seconds = torch.from_numpy(rng.uniform(4, 240, 900).astype(np.float32))
        sources.append(DevSource(torch.randn(900, DIM), seconds, (dev,)))
    evaluator = Evaluator(sources, 0.01)
    best = best_of(
        {
            "actual": lambda: evaluator.evaluate(model),
            "minimum": lambda: evaluator.evaluate(model, minimum=True),
        },
        rounds=7,
    )
    return [
        (
            f"evaluating {SETS} sets of {TRIALS:,} trials",
            f"{best['actual']:.3f} s",
            "(at most 0.25 s)",
        ),
        ("  with the minimum of each", f"{best['minimum']:.3f} s", ""),
    ]


def main() -> int:
    """Print the table."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    start = time.perf_counter()
    print(table([*steps(), *evaluation()], ("training", "best", "")))
    print(f"({THREADS} threads, {time.perf_counter() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
