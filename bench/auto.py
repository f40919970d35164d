"""What train-backend without a recipe reaches with few and with many people of a simulated world.

    simulate-xvectors egs/simulated/conf/demo-world.toml data
    python bench/auto.py --people=30,100,300,1000,3000 data exp/sizes

Some people of each training domain are kept, the test sets stay; figures are means over the unseen
evaluation groups (full and short) of actual / minimum Cllr at 0.5. What is done is not done again.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "egs" / "simulated" / "conf" / "demo-train.toml"
RECORDINGS = ROOT / "egs" / "recordings" / "conf"
SYSTEMS = {
    "auto": [],
    "few": ["--set=model.joint=true"],
    "many": ["--variant=d-plda-dsd"],
    # The paper's procedure at the demo's sizes; a batch of it takes 50 speakers of each domain.
    "paper": [f"--config={PAPER}", "--set=batch.repeat_speakers=true"],
    "recordings": [
        f"--config={RECORDINGS / 'train.toml'}",
        "--set=model.lda_dim=60",
        "--set=model.side_hidden_dim=40",
        "--set=batch.repeat_speakers=true",
    ],
    "joint": [f"--config={RECORDINGS / 'joint.toml'}", "--set=model.lda_dim=60"],
}
"""Options of train-backend; `few` and `many` are the two ways that auto chooses between."""


def keep_people(source: Path, target: Path, people: int) -> int:
    """A data directory with about so many people, domains in proportion, four of each at least."""
    tables = {
        name: dict(line.split() for line in (source / name).read_text().splitlines())
        for name in ("utt2spk", "utt2dom", "utt2sess", "utt2dur")
    }
    homes = {tables["utt2spk"][utt]: domain for utt, domain in tables["utt2dom"].items()}
    rng = np.random.default_rng(0)
    kept: set[str] = set()
    for domain in sorted(set(homes.values())):
        own = sorted(person for person, home in homes.items() if home == domain)
        count = max(4, round(people * len(own) / len(homes)))
        kept.update(rng.permutation(own)[:count].tolist())
    target.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        lines = [f"{u} {v}\n" for u, v in table.items() if tables["utt2spk"][u] in kept]
        (target / name).write_text("".join(lines))
    return len(kept)


def unseen_loss(data: Path, model_dir: Path) -> tuple[float, float]:
    """Actual and minimum Cllr at 0.5, mean over the evaluation sets."""
    import torch

    from dcaplda.train.recipe.sections import DevSection
    from dcaplda.train.selection.losses import Evaluator
    from dcaplda.train.store import load_model

    model = load_model(model_dir)
    names = [line.split()[0] for line in (data / "test_sets").read_text().splitlines()]
    sections = [
        DevSection(
            name=name,
            xvectors=f"scp:{data / name / 'xvector.scp'}",
            durations=str(data / name / "utt2dur"),
            trials=str(data / name / "trials_single"),
        )
        for name in names
        if name.startswith("eval-")
    ]
    dim = model.config.embedding_dim
    evaluator = Evaluator.load(sections, dim, True, 0.5, torch.device("cpu"))
    rows = evaluator.report(model)
    return tuple(float(np.mean([row[key] for row in rows])) for key in ("cllr@0.5", "min_cllr@0.5"))


def train(options: list[str], data: Path, vectors: str, run: Path) -> float:
    """Run train-backend; seconds."""
    run.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    command = [str(ROOT / "bin" / "train-backend"), "--threads=1", *options, str(data), vectors]
    with open(f"{run}.log", "w") as log:
        subprocess.run([*command, str(run)], check=True, stdout=log, stderr=log)
    return time.monotonic() - started


def measure(data: Path, exp: Path, system: str, people: int) -> dict:
    """Train and score one system, unless it was done."""
    place = exp / f"{people}-{system}.json"
    if place.exists():
        return json.loads(place.read_text())
    kept = keep_people(data / "train", exp / f"data-{people}", people)
    vectors = f"scp:{data / 'train' / 'xvector.scp'}"
    run = exp / f"{people}-{system}"
    row: dict = {"people": kept, "system": system}
    row["seconds"] = train(SYSTEMS[system], exp / f"data-{people}", vectors, run)
    row["cllr"], row["min_cllr"] = unseen_loss(data, run)
    summary = json.loads((run / "training_summary.json").read_text())
    row["variant"], row["steps"] = summary["variant"], summary["steps"]
    row["held_out"] = summary.get("held_out", {}).get("cllr")
    place.write_text(json.dumps(row))
    return row


def main() -> int:
    """A line per run, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", default="30,100,300,1000,3000")
    parser.add_argument("--systems", default="auto,paper,recordings,joint")
    parser.add_argument("data", type=Path)
    parser.add_argument("exp", type=Path)
    options = parser.parse_args()
    systems = options.systems.split(",")
    print("| people | " + " | ".join(systems) + " |")
    print("| --- " * (len(systems) + 1) + "|")
    for people in (int(word) for word in options.people.split(",")):
        cells = []
        for system in systems:
            row = measure(options.data, options.exp, system, people)
            cells.append(f"{row['cllr']:.3f} / {row['min_cllr']:.3f}")
            print(json.dumps(row), file=sys.stderr, flush=True)
        print(f"| {people} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
