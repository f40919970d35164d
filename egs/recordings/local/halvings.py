"""Halves of a place's people: one half is heard without labels, the other half is judged.

    halvings.py [--halvings=5] [--pools=10,30] [--seed=0] <data-dir> <trials> <spk2utt|-> <out-dir>

Reads utt2spk and utt2dom (without it all is one domain) of a Kaldi directory, and a list of trials
with labels; a model is an utterance, or what <spk2utt> says. For each domain and halving writes

    <out-dir>/<domain>/<halving>/pool.10   utterances (one a line) of the people who are heard
    <out-dir>/<domain>/<halving>/pool.30   the same ten and twenty more; fewer if there are no more
    <out-dir>/<domain>/<halving>/trials    trials of the list, both sides of the other people and
                                           the test of this domain

A pool is drawn from all utterances of the half, so that who spoke more is heard more. Domains with
the same people (a recording and its degraded copy) are halved in the same way, and so are several
lists of one folder. Of an odd number of people the larger half is judged. A halving without target
or without nontarget trials is left out.

Standard library only, so that any Python from 3.11 on runs it.
"""

import random
import sys
from pathlib import Path

from tables import columns, fail, write

OPTIONS = {"halvings": "5", "pools": "10,30", "seed": "0"}


def halved(people: set[str], seed: int, halving: int) -> tuple[set[str], set[str]]:
    """Who is heard and who is judged; equal people, seed and number give equal halves."""
    order = sorted(people)
    random.Random(f"people {seed} {halving}").shuffle(order)
    heard = len(order) // 2
    return set(order[:heard]), set(order[heard:])


def pools(utterances: list[str], sizes: list[int], seed: int, halving: int) -> dict[int, list[str]]:
    """Nested draws: a smaller pool is the beginning of a larger one."""
    order = sorted(utterances)
    random.Random(f"utterances {seed} {halving}").shuffle(order)
    return {size: order[:size] for size in sizes}


def trial_sides(row: list[str]) -> tuple[str, str, bool]:
    """Model, test and whether it is a target, of Kaldi's or VoxCeleb's form."""
    if row[0] in ("0", "1"):
        return row[1], row[2], row[0] == "1"
    return row[0], row[1], row[2] in ("target", "tgt", "1")


def speakers_of_models(path: str, speaker: dict[str, str]) -> dict[str, set[str]]:
    """Who is in a model; without a table an utterance is one."""
    if path == "-":
        return {utterance: {person} for utterance, person in speaker.items()}
    return {row[0]: {speaker[u] for u in row[1:]} for row in columns(Path(path))}


def halve(folder: Path, trials: Path, spk2utt: str, out: Path, options: dict[str, str]) -> None:
    """Write the halvings of every domain."""
    sizes = [int(size) for size in options["pools"].split(",")]
    seed = int(options["seed"])
    speaker = {row[0]: row[1] for row in columns(folder / "utt2spk")}
    domain = dict.fromkeys(speaker, folder.name)
    if (folder / "utt2dom").is_file():
        domain = {row[0]: row[1] for row in columns(folder / "utt2dom")}
    models = speakers_of_models(spk2utt, speaker)
    by_domain: dict[str, list[tuple[set[str], bool, str]]] = {}
    for row in columns(trials, 3):
        model, test, target = trial_sides(row)
        if test not in speaker or model not in models:
            raise fail(f"{trials}: '{model} {test}': not in utt2spk, or no such model")
        both = models[model] | {speaker[test]}
        by_domain.setdefault(domain[test], []).append((both, target, " ".join(row)))
    for name, listed in sorted(by_domain.items()):
        own = [u for u in speaker if domain[u] == name]
        for halving in range(int(options["halvings"])):
            heard, judged = halved({speaker[u] for u in own}, seed, halving)
            kept = [(target, line) for both, target, line in listed if both <= judged]
            if len({target for target, _ in kept}) < 2:
                print(f"halvings.py: {name}/{halving}: no trials of both kinds", file=sys.stderr)
                continue
            place = out / name / str(halving)
            drawn = pools([u for u in own if speaker[u] in heard], sizes, seed, halving)
            for size, chosen in drawn.items():
                write(place / f"pool.{size}", chosen)
            write(place / "trials", [line for _, line in kept])


def main(arguments: list[str]) -> None:
    """Options first, as everywhere."""
    options, names = dict(OPTIONS), []
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--"):
            names.append(argument)
        elif name in options:
            options[name] = value
        else:
            raise fail(f"halvings.py has no option '--{name}'; known: {', '.join(options)}")
    if len(names) != 4:
        raise fail("halvings.py: expected <data-dir> <trials> <spk2utt|-> <out-dir>")
    halve(Path(names[0]), Path(names[1]), names[2], Path(names[3]), options)


if __name__ == "__main__":
    main(sys.argv[1:])
