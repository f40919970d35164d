"""Sessions and domains from ids and embeddings: found where they are, left alone where not."""

import numpy as np
import pytest
from training_world import copies, draw, write_data_dir

from dcaplda.train.data.clusters import clusters, silhouette
from dcaplda.train.data.directory import load_training_data
from dcaplda.train.recipe.sections import DataSection

GUESSED = DataSection(missing_domains="guessed", missing_sessions="guessed")


def named(sample, person, utterance):
    """The sample with other ids: `person(old speaker)` and `utterance(new speaker, old id)`."""
    from training_world import Sample

    people = {s: person(s) for s in dict.fromkeys(sample.speaker.values())}
    ids = {u: utterance(people[sample.speaker[u]], u) for u in sample.ids}
    return Sample(
        [ids[u] for u in sample.ids],
        sample.vectors,
        {ids[u]: people[s] for u, s in sample.speaker.items()},
        {ids[u]: s for u, s in sample.session.items()},
        {ids[u]: d for u, d in sample.domain.items()},
        {ids[u]: t for u, t in sample.seconds.items()},
    )


def load(directory, sample, *missing, section=GUESSED):
    write_data_dir(directory, sample)
    for name in missing:
        (directory / name).unlink()
    return load_training_data(str(directory), str(directory / "xvector.npz"), section)


def partition(labels) -> set[frozenset]:
    groups: dict = {}
    for name, label in labels.items():
        groups.setdefault(label, set()).add(name)
    return {frozenset(group) for group in groups.values()}


def test_sessions_come_from_ids_without_their_last_word(tmp_path):
    sample = draw(0)  # ids as d0s000-r0-c1, sessions d0s000-r0
    data = load(tmp_path, sample, "utt2sess")
    found = dict(zip(data.ids, data.session.tolist(), strict=True))
    assert partition(found) == partition(sample.session)
    assert any("taken for sessions" in note for note in data.notes)


def test_sessions_of_ids_that_embeddings_contradict_are_not_taken(tmp_path):
    """Numbers in the ids that have nothing to do with the recordings."""
    rng = np.random.default_rng(0)
    number = iter(rng.permutation(10**4))
    sample = named(draw(0), str, lambda s, u: f"{s}-{next(number) % 3}-{next(number)}")
    data = load(tmp_path, sample, "utt2sess")
    assert len(np.unique(data.session)) == len(data.ids)
    assert any(f"really {len(data.ids)} recordings?" in note for note in data.notes)


def test_the_recipe_may_forbid_guesses(tmp_path):
    data = load(tmp_path, draw(0), "utt2sess", "utt2dom", section=DataSection())
    assert len(np.unique(data.session)) == len(data.ids)
    assert data.domain_names == ["all"]
    assert any("are these really" in note for note in data.notes)


def test_domains_come_from_the_first_word_of_speakers_ids(tmp_path):
    home = {f"d{d}": corpus for d, corpus in enumerate(("mai", "asc", "libri"))}
    sample = named(draw(0), lambda s: f"{home[s[:2]]}-{s[2:]}", lambda s, u: s + u[u.index("-") :])
    data = load(tmp_path, sample, "utt2dom")
    assert data.domain_names == ["asc", "libri", "mai"]
    found = dict(zip(data.ids, data.domain.tolist(), strict=True))
    assert partition(found) == partition(sample.domain)


def test_first_words_that_say_nothing_about_the_embeddings_make_no_domains(tmp_path):
    letter = iter("ab" * 100)
    sample = named(
        draw(0, domains=1, speakers=40), lambda s: f"{next(letter)}-{s}", lambda s, u: f"{s}-{u}"
    )
    data = load(tmp_path, sample, "utt2dom")
    assert data.domain_names == ["all"]
    assert any("one domain" in note for note in data.notes)


def test_domains_far_apart_are_found_without_ids(tmp_path):
    number = iter(range(10**4))
    sample = draw(0, speakers=22)
    for row, name in enumerate(sample.ids):
        sample.vectors[row] += 6.0 * np.eye(sample.vectors.shape[1])[int(name[1])]
    sample = named(sample, lambda s: f"{next(number):04d}", lambda s, u: f"{s}{u}")
    data = load(tmp_path, sample, "utt2dom")
    found = dict(zip(data.ids, data.domain.tolist(), strict=True))
    assert partition(found) == partition(sample.domain)


def test_a_word_more_in_the_id_marks_a_copy(tmp_path):
    sample = copies(draw(0, speakers=8), np.full(24, 0.5))  # ids end in -tel
    tel = [u for u in sample.ids if u.endswith("-tel")]
    names = {
        u: u.replace("-r", "_tel-r").removesuffix("-tel") if u in tel else u for u in sample.ids
    }
    sample = named(sample, str, lambda s, u: names[u])
    data = load(tmp_path, sample, "utt2sess", "utt2dom")
    found = dict(zip(data.ids, data.session.tolist(), strict=True))
    assert partition(found) == partition(sample.session)
    marked = [
        data.domain_names[d] for u, d in zip(data.ids, data.domain, strict=True) if "_tel" in u
    ]
    assert marked and all(name.endswith("_tel") for name in marked)
    assert sum(name.endswith("_tel") for name in data.domain_names) == len(set(marked))


def test_labels_that_are_there_are_left_alone(tmp_path):
    sample = draw(0)
    data = load(tmp_path, sample)
    assert data.notes == []
    assert data.domain_names == ["dom0", "dom1", "dom2"]


def test_silhouette_is_its_formula():
    rng = np.random.default_rng(3)
    x, label = rng.standard_normal((12, 2)), np.array([0, 1, 2] * 4)
    values = []
    for i in range(12):
        mean = {
            k: np.mean([np.linalg.norm(x[i] - x[j]) for j in range(12) if label[j] == k and j != i])
            for k in range(3)
        }
        a, b = mean[label[i]], min(mean[k] for k in range(3) if k != label[i])
        values.append((b - a) / max(a, b))
    assert silhouette(x, label) == pytest.approx(np.mean(values), abs=1e-12)


def test_clusters_are_those_that_were_drawn_and_one_where_there_are_none():
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 40)
    x = rng.standard_normal((120, 30)) + 8.0 * np.eye(30)[truth]
    found = clusters(x, 5)
    assert len(set(zip(truth.tolist(), found.tolist(), strict=True))) == 3
    assert found.max() == 2
    assert clusters(rng.standard_normal((120, 30)), 5).max() == 0


def test_no_cluster_is_smaller_than_asked():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((100, 10)) + 9.0 * np.eye(10)[np.repeat([0, 1, 2], [48, 49, 3])]
    assert np.bincount(clusters(x, 5)).min() >= 5
