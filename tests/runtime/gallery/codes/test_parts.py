"""What codes rest on: forms against graphs, errors within their bounds, sums within theirs."""

import math
from pathlib import Path

import numpy as np
import pytest
from coded_world import mild_bundle, people
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_models import joint_bundle, utterances
from random_models import DIM, random_model
from scipy import integrate, stats

from dcaplda.export import parity
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, InputError
from dcaplda.runtime.gallery.codes.bounds import Ceiling, Survey, expected_missed
from dcaplda.runtime.gallery.codes.evidence import Total, estimated, known, posteriors
from dcaplda.runtime.gallery.codes.forms import check_forms, combined, read_forms
from dcaplda.runtime.gallery.codes.ladder import ladder_for
from dcaplda.runtime.gallery.codes.quantizer import Quantizer, Query, train_quantizer
from dcaplda.train.model.config import VARIANTS

pytestmark = pytest.mark.torch
pytest.importorskip("faiss")


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_forms_are_the_llrs_of_every_variant(tmp_path: Path, variant: str) -> None:
    model = random_model(variant)
    export_model(model, tmp_path / "m")
    backend = Backend.load(tmp_path / "m", threads=1)
    enroll, test = parity.random_side(DIM, 20, 1), parity.random_side(DIM, 3, 2)
    forms = read_forms(backend)
    rows, probes = backend.voiceprints(*enroll), backend.voiceprints(*test)
    truth = parity.torch_llrs(model, enroll, test)
    for number, probe in enumerate(probes):
        made = forms.llrs(probe, rows)
        np.testing.assert_allclose(made, truth[:, number], atol=2e-4 * np.abs(truth).max())


def test_forms_are_the_llrs_of_joint_bundles_with_several_utterances(tmp_path: Path) -> None:
    backend = Backend.load(joint_bundle(tmp_path / "m"), threads=1)
    x, d = utterances(40, 1)
    rows = np.concatenate(
        [backend.enroll(x[i : i + 1 + i % 3], d[i : i + 1 + i % 3]).voiceprints for i in range(30)]
    )
    probes = backend.voiceprints(x[30:], d[30:])
    forms = read_forms(backend)
    for probe in probes:
        truth = backend.compare(rows, probe[None])[:, 0]
        np.testing.assert_allclose(forms.llrs(probe, rows), truth, atol=1e-3)
    check_forms(backend, forms, np.concatenate([probes, rows]))


def test_a_graph_that_compares_otherwise_is_refused(tmp_path: Path) -> None:
    backend = mild_bundle(tmp_path / "m")
    rows, _ = people(backend, 50)
    forms = read_forms(backend)
    forms.weights[0] *= 1.1
    with pytest.raises(InputError, match="compares in a way that codes do not know; open"):
        check_forms(backend, forms, rows)


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    backend = mild_bundle(tmp_path_factory.mktemp("b") / "m", likeness=False)
    rows, probes = people(backend, 3000)
    forms = read_forms(backend)
    assert len(set(np.sign(forms.weights[0, forms.cross]))) == 2  # signs are the probe's
    quantizer = train_quantizer(forms, rows[:2000])
    survey = Survey(forms, rows[:2000])
    coding = quantizer.encoded(quantizer.items(forms, rows))
    survey.add(rows, coding)
    return backend, forms, quantizer, survey.bounds(), rows, probes, coding.codes


def cross_of(quantizer: Quantizer, query: Query) -> np.ndarray:
    """What a query brings to the cross values, by the codes of pairs; those of tens have it too."""
    values = query.values.astype(np.float64).reshape(quantizer.code_count, -1)
    pairs = len(quantizer.pairs)
    made = values[:pairs, :2].ravel()
    np.testing.assert_array_equal(values[pairs : pairs + len(quantizer.tens)].ravel(), made)
    return made


def levels_of(quantizer: Quantizer, codes: np.ndarray) -> np.ndarray:
    """Codes, two to a byte, one by one."""
    halves = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
    return halves[:, : quantizer.code_count]


def test_items_and_queries_are_the_score(coded) -> None:
    _, forms, quantizer, _, rows, probes, _ = coded
    items = quantizer.items(forms, rows)
    for probe in probes[:20]:
        query = quantizer.query(forms, probe)
        score = rows.astype(np.float64) @ forms.sides(probe)[0]
        made = items.cross.astype(np.float64) @ cross_of(quantizer, query) + items.own + query.alone
        np.testing.assert_allclose(made, score, atol=1e-4 * np.abs(score).max())


def test_a_scan_is_within_its_rounding_and_codes_within_their_bound(coded) -> None:
    _, forms, quantizer, bounds, rows, probes, codes = coded
    levels = levels_of(quantizer, codes)
    shelf = quantizer.shelf(codes)
    for probe in probes[:100]:
        query = quantizer.query(forms, probe)
        scores, found = shelf.search(query.values[None], len(rows))
        assert sorted(found[0].tolist()) == list(range(len(rows)))
        brought = query.values.astype(np.float64).reshape(quantizer.code_count, -1)
        table = np.einsum("mld,md->ml", quantizer.centroids.astype(np.float64), brought)
        of_codes = table[np.arange(quantizer.code_count), levels].sum(axis=1)
        true = rows.astype(np.float64) @ forms.sides(probe)[0] - query.alone
        assert np.abs(scores[0] - of_codes[found[0]]).max() <= quantizer.rounding(query)
        assert (true[found[0]] - scores[0]).max() <= bounds.score_error(quantizer, query)
        # Normal in truth: the deviation that is expected is that which there is, within a third.
        above = true - of_codes
        deviation = np.sqrt(np.mean(above[above > 0] ** 2))
        assert deviation == pytest.approx(quantizer.usual_error(query), rel=0.33)


def test_every_row_has_a_bound_of_its_own(coded) -> None:
    """Cauchy-Schwarz with the length of that row's errors, as its codes tell it, and no more."""
    _, forms, quantizer, bounds, rows, probes, codes = coded
    levels = levels_of(quantizer, codes)
    items = quantizer.items(forms, rows)
    pairs, tens = len(quantizer.pairs), len(quantizer.tens)
    made = np.zeros(items.cross.shape)
    for code in range(pairs):
        made[:, 2 * code : 2 * code + 2] += quantizer.pairs[code, levels[:, code]]
    for code in range(tens):
        made[:, 10 * code : 10 * code + 10] += quantizer.tens[code, levels[:, pairs + code]]
    wrong = (items.cross - made) * quantizer.balance
    lengths = np.sqrt((wrong**2).sum(axis=1))
    own = quantizer.own.values(levels[:, pairs + tens : pairs + tens + quantizer.own.codes])
    told = quantizer.errors.values(levels[:, -quantizer.errors.codes :])
    assert (lengths <= told + bounds.beyond + 1e-6).all()
    assert np.median(told - lengths) <= 2.1 * quantizer.errors.grain
    assert quantizer.usual == pytest.approx(lengths.mean(), rel=0.05)
    assert (items.own - own).max() <= bounds.own + 1e-6
    for probe in probes[:20]:
        query = quantizer.query(forms, probe)
        cross = cross_of(quantizer, query)
        assert query.length == pytest.approx(np.linalg.norm(cross / quantizer.balance), rel=1e-6)
        error = (items.cross - made) @ cross
        assert (np.abs(error) <= query.length * lengths * (1 + 1e-6)).all()


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=40), st.integers(1, 6))
def test_a_ladder_is_within_its_grain(numbers: list[float], copies: int) -> None:
    values = np.array(numbers)
    ladder = ladder_for(values, 0.1, copies)
    levels = ladder.levels(values)
    assert levels.shape == (len(values), copies + 1) and levels.max() < 16
    assert np.abs(ladder.values(levels) - values).max() <= ladder.grain * (1 + 1e-6) + 1e-9
    assert (ladder.values(ladder.levels(values + ladder.grain)) >= values - 1e-9).all()
    assert ladder.steps().sum(axis=0)[0] == pytest.approx(
        ladder.bottom - ladder.step / 2 + ladder.grain
    )


def test_no_llr_is_above_its_ceiling(coded) -> None:
    _, forms, _, bounds, rows, probes, _ = coded
    for probe in probes[:50]:
        ceiling = bounds.ceiling(forms, probe)
        score = rows.astype(np.float64) @ forms.sides(probe)[0]
        llr = forms.llrs(probe, rows)
        for edge in np.quantile(score, [0.1, 0.5, 0.9, 0.999]):
            assert llr[score <= edge].max() <= ceiling.largest_llr(float(edge))
        for wanted in np.quantile(llr, [0.5, 0.99]):
            assert score[llr >= wanted].min() >= ceiling.needed_score(float(wanted)) - 1e-3


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_a_ceiling_holds_for_all_scales_and_shifts_of_its_boxes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lowest = rng.uniform(0.0, 1.0, (3, 4)) - [0.0, 0.5, 0.0, 0.5]
    highest = lowest + rng.uniform(0.0, 1.0, (3, 4))
    ceiling = Ceiling(lowest, highest)
    cells = rng.integers(0, 3, 200)
    values = rng.uniform(lowest[cells], highest[cells])
    score = rng.normal(0.0, 5.0, 200)
    llr = combined(np.column_stack([score, values]))
    edge = float(np.quantile(score, rng.uniform()))
    assert llr[score <= edge].max(initial=-np.inf) <= ceiling.largest_llr(edge)
    wanted = float(np.quantile(llr, rng.uniform()))
    assert score[llr >= wanted].min() >= ceiling.needed_score(wanted) - 1e-9


def test_a_scale_that_may_be_negative_proves_nothing() -> None:
    assert Ceiling(np.array([[-0.1, 0.0]]), np.array([[1.0, 0.0]])).largest_llr(-5.0) == math.inf


@pytest.mark.parametrize("gap", [0.5, 3.0, 8.0])
def test_expected_misses_are_the_integral(gap: float) -> None:
    scores = np.sort(np.random.default_rng(0).exponential(2.0, 400))[::-1].astype(np.float32)
    rate, deviation = 1.0 / float((scores - scores[-1]).mean()), 1.3

    def density(below: float) -> float:
        reached = stats.norm.sf((gap + below) / deviation)
        return 400 * rate * math.exp(rate * below) * float(reached)

    wanted, _ = integrate.quad(density, 0.0, 60.0, limit=200)
    found = expected_missed(scores, float(scores[-1]) + gap, deviation)
    assert found == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("deviation", [0.3, 2.0, 4.0])
def test_sums_of_drawn_speakers_are_within_their_error(deviation: float) -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        llrs = rng.normal(-(deviation**2) / 2, deviation, 50_000)
        llrs = np.sort(llrs)[:-2000]  # the likeliest are known
        drawn = rng.choice(llrs, 3000, replace=False)
        top, most = float(llrs.max()) + 1.0, float(llrs.max())
        truth = float(np.exp(llrs - top).sum())
        made = estimated(drawn, len(llrs), top, most)
        inside += abs(made.value - truth) <= made.error
    assert inside >= 198


def test_sums_with_nothing_to_estimate_are_exact() -> None:
    llrs = np.array([0.5, -1.0, 2.0])
    assert known(llrs, 2.0).value == pytest.approx(np.exp(llrs - 2.0).sum())
    assert estimated(llrs, 3, 2.0, 9.0) == known(llrs, 2.0)
    assert estimated(llrs[:0], 0, 2.0, 9.0) == Total(0.0)
    assert estimated(llrs[:1], 10, 2.0, 1.0).error == pytest.approx(10 * math.exp(-1.0))


def test_posteriors_are_bayes() -> None:
    llrs = np.array([3.0, 1.0, -2.0, 0.0])
    prior = 0.2
    weights = prior / 4 * np.exp(llrs)
    wanted = weights[0] / (weights.sum() + 1 - prior)
    found, error = posteriors(3.0, 3.0, known(llrs, 3.0), 4, prior)
    assert (found, error) == (pytest.approx(wanted), 0.0)
    total = known(llrs[:2], 3.0).plus(Total(0.0, float(np.exp(llrs[2:] - 3.0).sum())))
    found, error = posteriors(3.0, 3.0, total, 4, prior)
    assert 0.0 < abs(found - wanted) <= error < 0.03
