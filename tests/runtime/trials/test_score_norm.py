"""S-norm and AS-Norm1 against the formula written out over the full cohort matrix."""

import numpy as np
import pytest

from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.trials import score_norm


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


@pytest.fixture
def files(tmp_path, rng, backend):
    """Tables of embeddings, durations, models and trials, as score-trials takes them."""
    from dcaplda.runtime.tables.vector_writer import write_vectors

    dim = backend.info.embedding_dim
    for name, count in (("x", 12), ("cohort", 30)):
        ids = [f"{name}{i}" for i in range(count)]
        write_vectors(f"ark:{tmp_path}/{name}.ark", ids, rng.standard_normal((count, dim)))
        seconds = rng.uniform(3, 60, count).round(2)
        lines = (f"{i} {d}\n" for i, d in zip(ids, seconds, strict=True))
        (tmp_path / f"{name}.dur").write_text("".join(lines))
    (tmp_path / "models").write_text("a x0 x1 x2\nb x3\n")
    (tmp_path / "trials").write_text("".join(f"{m} x{i}\n" for i in range(4, 12) for m in "ab"))
    return tmp_path


def run_tool(files, small_bundle, *options):
    from dcaplda.bin import score_trials

    table, out = f"ark:{files}/x.ark", files / "scores"
    common = [f"--durations={files}/x.dur", f"--spk2utt={files}/models", "--threads=1"]
    arguments = [str(small_bundle), table, table, str(files / "trials"), str(out)]
    status = score_trials.main([*common, *options, *arguments])
    return np.loadtxt(out, usecols=2) if status == 0 else None


@pytest.mark.parametrize(("kind", "top_n"), [("s", 30), ("as", 8)])
def test_score_trials_normalizes_single_and_multi_models(files, small_bundle, backend, kind, top_n):
    from dcaplda.runtime.tables.text_tables import read_durations
    from dcaplda.runtime.tables.vectors import read_vectors

    cohort = [f"--cohort=ark:{files}/cohort.ark", f"--cohort-durations={files}/cohort.dur"]
    choice = [f"--score-norm={kind}", *([f"--top-n={top_n}"] if kind == "as" else [])]
    found = run_tool(files, small_bundle, *choice, *cohort).reshape(8, 2).T
    made = {}
    for name in ("x", "cohort"):
        table = read_vectors(f"ark:{files}/{name}.ark")
        seconds = read_durations(str(files / f"{name}.dur"))
        made[name] = backend.voiceprints(table.matrix, [seconds[i] for i in table.ids])
    rows = {
        "test": backend.compare(made["x"], made["x"][4:]).astype(np.float64),
        "cohort": backend.compare(made["x"], made["cohort"]).astype(np.float64),
    }
    raw, against = (np.stack([part[:3].mean(0), part[3]]) for part in rows.values())
    expected = written_out(raw, against, backend.compare(made["cohort"], made["x"][4:]).T, top_n)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_parts_of_normalized_scores_equal_the_whole(files, small_bundle):
    cohort = [f"--cohort=ark:{files}/cohort.ark", f"--cohort-durations={files}/cohort.dur"]
    whole = run_tool(files, small_bundle, "--score-norm=s", *cohort)
    parts = [
        run_tool(files, small_bundle, "--score-norm=s", *cohort, f"--part={p}", "--num-parts=3")
        for p in (1, 2, 3)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--score-norm=z", "--cohort=ark:c"], "expected s or as"),
        (["--score-norm=s"], "go together"),
        (["--score-norm=as", "--cohort=ark:c"], "needs --top-n"),
        (["--score-norm=s", "--cohort=ark:c", "--prior=0.5"], "not LLRs"),
        (["--score-norm=s", "--cohort=ark:{files}/cohort.ark"], "give --cohort-durations"),
        (
            [
                "--score-norm=s",
                "--cohort=ark:{files}/cohort.ark",
                "--cohort-durations={files}/x.dur",
            ],
            "30 of the cohort are not in it, first 'cohort0'",
        ),
    ],
)
def test_options_that_do_not_fit_are_one_clear_line(files, small_bundle, capsys, options, words):
    given = [word.replace("{files}", str(files)) for word in options]
    assert run_tool(files, small_bundle, *given) is None
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (files / "scores").exists()
