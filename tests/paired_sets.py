"""Small sets on disk whose systems differ by a shift, and their replicates written out by hand."""

import zlib

import numpy as np

N_PEOPLE, N_REPLICATES = 12, 150


def write_set(folder, name, people, rng, shifts):
    """All pairs of two utterances of each person; systems differ by a shift of all scores."""
    utterances = [(f"{person}-{k}", person) for person in people for k in range(2)]
    (folder / f"{name}.utt2spk").write_text("".join(f"{u} {p}\n" for u, p in utterances))
    pairs = [(a, b) for i, a in enumerate(utterances) for b in utterances[i + 1 :]]
    truth = np.array([a[1] == b[1] for a, b in pairs])
    own = {person: rng.normal() for person in people}
    scores = np.where(truth, 2.0, -2.0) + [own[a[1]] + own[b[1]] for a, b in pairs]
    words = ("nontarget", "target")
    (folder / f"{name}.trials").write_text(
        "".join(f"{a[0]} {b[0]} {words[int(t)]}\n" for (a, b), t in zip(pairs, truth, strict=True))
    )
    found = {}
    for system, shift in shifts.items():
        values = np.float32(scores * (1 + shift) + shift)
        (folder / f"{name}.{system}").write_text(
            "".join(f"{a[0]} {b[0]} {v}\n" for (a, b), v in zip(pairs, values, strict=True))
        )
        found[system] = values.astype(np.float64)
    return pairs, truth, found


def by_hand(people, pairs, truth, scores, seed=0):
    """Cllr at 0.5 of each replicate: speakers drawn from a seed that names the people."""
    place = {person: i for i, person in enumerate(sorted(people))}
    rng = np.random.default_rng([seed, zlib.crc32("\n".join(sorted(people)).encode())])
    one = np.array([place[a[1]] for a, _ in pairs])
    other = np.array([place[b[1]] for _, b in pairs])
    rows = []
    for _ in range(N_REPLICATES):
        drawn = rng.multinomial(len(people), np.full(len(people), 1 / len(people)))
        weights = np.where(truth, drawn[one], drawn[one] * drawn[other]).astype(float)
        loss = np.log1p(np.exp(np.where(truth, -scores, scores)))
        halves = [np.average(loss[c], weights=weights[c]) for c in (truth, ~truth)]
        rows.append(0.5 * sum(halves) / np.log(2))
    return np.array(rows)
