"""What training keeps of its own places."""

from dataclasses import replace

import numpy as np
import pytest
from training_world import Sample

from dcaplda.runtime.joint.place import SHIFT, TRUST, posterior, trained_place
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.plda.generative import fit_generative
from dcaplda.train.recipe.sections import InitSection
from dcaplda.train.start.joint import joint_scorer

pytestmark = pytest.mark.torch
INIT = InitSection(
    domain_offsets=True, shared_offset=1.0, em_iterations=0, shrinkage=1.0, shrinkage_between=1.0
)


DOMAINS = 5


def people_at_places(seed: int, speakers: int = 30, dim: int = 40) -> TrainingData:
    """Voices that can be told apart, at places that are the same for every seed."""
    places = 1.5 * np.random.default_rng(7).standard_normal((DOMAINS, dim))
    rng = np.random.default_rng(seed)
    ids, rows, tables = [], [], [{}, {}, {}, {}]
    for domain, offset in enumerate(places):
        for speaker in range(speakers):
            voice = rng.standard_normal(dim)
            for session in range(2):
                name = f"d{domain}s{speaker:02d}-{session}"
                ids.append(name)
                rows.append(10.0 + offset + voice + 0.5 * rng.standard_normal(dim))
                values = name[:-2], name, f"dom{domain}", 5.0
                for table, value in zip(tables, values, strict=True):
                    table[name] = value
    return Sample(ids, np.array(rows, np.float32), *tables).data()


@pytest.fixture(scope="module")
def world():
    data = people_at_places(2)
    generative = fit_generative(data, INIT, 30, [])
    return data, joint_scorer(generative, data)


def test_a_place_is_the_posterior_of_all_its_people(world) -> None:
    """People count the same however much they spoke; equation by equation, 1e-9."""
    data, scorer = world
    places = scorer.trained
    for domain in range(len(data.domain_names)):
        rows = np.flatnonzero(data.domain == domain)
        people = np.unique(data.identity[rows])
        vectors = data.embeddings.astype(np.float64)

        def mean(values: np.ndarray, rows=rows, people=people) -> np.ndarray:
            return np.mean([values[rows[data.identity[rows] == p]].mean(axis=0) for p in people], 0)

        variance = (scorer.between / len(people) + 1.0 / len(rows)) / TRUST
        left = scorer.offset * variance / (scorer.offset + variance)
        known = np.mean(1.0 - left / scorer.offset)
        shift = SHIFT * known * (mean(vectors) - scorer.embedding_mean)
        moved = replace(scorer, bias=scorer.bias - scorer.weight @ shift)
        gain = scorer.offset / (scorer.offset + variance)
        np.testing.assert_allclose(places.left[domain], left, rtol=1e-9)
        np.testing.assert_allclose(places.shift[domain], shift, atol=1e-9)
        np.testing.assert_allclose(
            places.centre[domain], gain * mean(moved.centred(vectors)), atol=1e-9
        )
        np.testing.assert_allclose(
            places.mean[domain], gain * mean(scorer.centred(vectors)), atol=1e-9
        )


def test_new_people_of_a_trained_place_are_recognized(world) -> None:
    _, scorer = world
    others = people_at_places(3)
    for domain in range(DOMAINS):
        pool = others.embeddings[others.domain == domain]
        assert trained_place(scorer, pool) == domain
        alone = posterior(replace(scorer, trained=None), pool[:12])
        assert posterior(scorer, pool[:12]).known > alone.known


def test_a_place_left_out_of_training_is_not(world) -> None:
    data, _ = world
    others = people_at_places(3)
    for domain in range(DOMAINS):
        rest = data.subset(np.flatnonzero(data.domain != domain))
        scorer = joint_scorer(fit_generative(rest, INIT, 30, []), rest)
        assert trained_place(scorer, others.embeddings[others.domain == domain]) is None
