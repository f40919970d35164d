"""S-norm and AS-Norm1 against the formula written out over the full cohort matrix."""

import numpy as np
import pytest

from dcaplda.runtime import score_norm
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError


@pytest.fixture(scope="module")
def backend(small_bundle):
    return Backend.load(small_bundle, threads=1)


@pytest.fixture(scope="module")
def voices(backend):
    rng = np.random.default_rng(3)
    dim = backend.info.embedding_dim

    def some(count):
        return backend.voiceprints(rng.standard_normal((count, dim)), rng.uniform(3, 60, count))

    return {"enroll": some(11), "test": some(7), "cohort": some(40)}


def written_out(scores, enroll_rows, test_rows, top_n):
    """AS-Norm1 of a full score matrix, one trial at a time."""
    result = np.empty_like(scores, dtype=np.float64)
    for i, j in np.ndindex(*scores.shape):
        e = np.sort(enroll_rows[i].astype(np.float64))[-top_n:]
        t = np.sort(test_rows[j].astype(np.float64))[-top_n:]
        s = float(scores[i, j])
        result[i, j] = 0.5 * ((s - e.mean()) / e.std() + (s - t.mean()) / t.std())
    return result


@pytest.mark.parametrize("top_n", [None, 2, 13, 40])
@pytest.mark.parametrize("columns", [4096, 9])
def test_normalized_scores_equal_the_formula(backend, voices, top_n, columns, monkeypatch):
    monkeypatch.setattr(score_norm, "COLUMNS", columns)
    monkeypatch.setattr(score_norm, "ROWS", 4)
    enroll, test, cohort = voices["enroll"], voices["test"], voices["cohort"]
    scores = backend.compare(enroll, test)
    expected = written_out(
        scores, backend.compare(enroll, cohort), backend.compare(cohort, test).T, top_n or 40
    )
    e = score_norm.enrolled_statistics(backend, enroll, cohort, top_n)
    t = score_norm.tested_statistics(backend, test, cohort, top_n)
    i, j = (index.reshape(-1) for index in np.indices(scores.shape))
    found = score_norm.normalize(scores.reshape(-1), e, t, i, j)
    np.testing.assert_allclose(found, expected.reshape(-1), rtol=2e-5, atol=2e-5)


def test_a_model_of_several_rows_is_normalized_by_its_averaged_scores(backend, voices):
    offsets = [0, 3, 4, 11]
    found = score_norm.enrolled_statistics(
        backend, voices["enroll"], voices["cohort"], 10, offsets=offsets
    )
    rows = backend.compare(voices["enroll"], voices["cohort"]).astype(np.float64)
    for model, (a, b) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        top = np.sort(rows[a:b].mean(axis=0))[-10:]
        assert found.mean[model] == pytest.approx(top.mean(), rel=1e-5)
        assert found.spread[model] == pytest.approx(top.std(), rel=1e-4)


def test_affine_scores_normalize_to_the_same(rng):
    """Normalization undoes any scale and shift that cohort and trial scores share."""
    raw, cohort = rng.standard_normal(5), rng.standard_normal((5, 30))

    def norm(scale, shift):
        values = scale * cohort + shift
        stats = score_norm.CohortStatistics(values.mean(axis=1), values.std(axis=1))
        return score_norm.normalize(scale * raw + shift, stats, stats, np.arange(5), np.arange(5))

    np.testing.assert_allclose(norm(1.0, 0.0), norm(7.0, -3.0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("top_n", [1, 41])
def test_too_few_or_too_many_highest_scores_are_refused(backend, voices, top_n):
    with pytest.raises(InputError, match=f"top-n = {top_n}: expected from 2 to .* 40"):
        score_norm.tested_statistics(backend, voices["test"], voices["cohort"], top_n)


def test_a_cohort_of_copies_is_refused_by_name(backend, voices):
    copies = np.repeat(voices["cohort"][:1], 5, axis=0)
    with pytest.raises(InputError, match="'a' has the same score"):
        score_norm.tested_statistics(backend, voices["test"], copies, ids=list("abcdefg"))
    with pytest.raises(InputError, match="has 1 voiceprints"):
        score_norm.tested_statistics(backend, voices["test"], copies[:1])
