"""Development sets: the same LLRs and losses as the model and the metrics give trial by trial."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import random_model
from training_world import all_trials, draw, write_data_dir, write_dev, write_table

from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.runtime.errors import DcapldaError, InputError
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.train.model.forms import Factors, model_forms
from dcaplda.train.recipe.sections import DevSection
from dcaplda.train.selection.devsets import load_dev_source
from dcaplda.train.selection.losses import Evaluator
from dcaplda.train.selection.pair_plan import PairPlan

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def section_of(directory: Path, **settings) -> DevSection:
    return DevSection(
        **{
            "name": "held",
            "xvectors": str(directory / "xvector.npz"),
            "durations": str(directory / "utt2dur"),
            "trials": str(directory / "trials"),
            **settings,
        }
    )


def load(section: DevSection, dim: int = 24, durations: bool = True):
    return load_dev_source(section, dim, durations, CPU)


def evaluator(*sections: DevSection) -> Evaluator:
    return Evaluator.load(sections, 24, True, 0.01, CPU)


@pytest.fixture(scope="module")
def dev(tmp_path_factory) -> Path:
    return write_dev(tmp_path_factory.mktemp("dev"))


@pytest.fixture(scope="module")
def model():
    return random_model("d-plda-dsd")


def written_out(model, directory: Path, trials: list) -> tuple[np.ndarray, np.ndarray]:
    """LLR of every trial by the model's own forward pass, one by one; and the labels."""
    sample = draw(5, speakers=6, prefix="v")
    row = {name: i for i, name in enumerate(sample.ids)}
    x = torch.from_numpy(sample.vectors)
    seconds = torch.tensor([sample.seconds[n] for n in sample.ids], dtype=torch.float32)
    with torch.no_grad():
        full = model(x, seconds, x, seconds).double().numpy()
    llrs = np.array([full[row[a], row[b]] for a, b, _ in trials])
    return llrs, np.array([label == "target" for *_, label in trials])


def test_losses_equal_the_metrics_of_the_model_s_own_llrs(dev, model):
    losses = evaluator(section_of(dev)).evaluate(model, minimum=True)
    llrs, targets = written_out(model, dev, all_trials(draw(5, speakers=6, prefix="v")))
    expected = cllr(llrs[targets], llrs[~targets], 0.01)
    assert losses.actual["held"] == pytest.approx(expected, rel=1e-5)
    assert losses.average == losses.actual["held"]
    expected = min_cllr_lin(llrs[targets], llrs[~targets], 0.01)
    assert losses.minimum["held"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("sparse_cost", [0, 1000])
@pytest.mark.parametrize("tile", [16, 1 << 19])
def test_tiles_and_single_pairs_give_the_same(model, rng, monkeypatch, sparse_cost, tile):
    from dcaplda.train.selection import pair_plan

    monkeypatch.setattr(pair_plan, "SPARSE_COST", sparse_cost)
    monkeypatch.setattr(pair_plan, "TILE_VALUES", tile)
    monkeypatch.setattr(pair_plan, "PAIRS_AT_ONCE", 7)
    x = torch.from_numpy(rng.standard_normal((30, 24)).astype(np.float32))
    seconds = torch.from_numpy(rng.uniform(2, 60, 30).astype(np.float32))
    enroll, test = rng.integers(0, 30, 50), rng.integers(0, 30, 50)
    plan = PairPlan.make(enroll, test, CPU)
    assert bool(plan.tiles) == (sparse_cost > 0)
    with torch.no_grad():
        values = plan.values([Factors(form) for form in model_forms(model, x, seconds)])
        expected = model(x, seconds, x, seconds)[enroll, test]
    np.testing.assert_allclose(values.numpy(), expected.numpy(), rtol=1e-4, atol=1e-3)


def test_models_of_several_utterances_average_their_scores(dev, tmp_path, model):
    sample = draw(5, speakers=6, prefix="v")
    models = {
        speaker: [n for n in sample.ids if sample.speaker[n] == speaker and "-r0-" in n]
        + [n for n in sample.ids if sample.speaker[n] == speaker and "-r1-c0" in n]
        for speaker in ("vd0s000", "vd0s001")
    }
    (tmp_path / "spk2utt").write_text("".join(f"{m} {' '.join(u)}\n" for m, u in models.items()))
    tests = [n for n in sample.ids if n.startswith(("vd0s000-r2", "vd0s001-r2"))]
    trials = [
        (m, t, "target" if sample.speaker[t] == m else "nontarget") for m in models for t in tests
    ]
    (tmp_path / "trials").write_text("".join(" ".join(t) + "\n" for t in trials))
    section = section_of(dev, trials=str(tmp_path / "trials"), spk2utt=str(tmp_path / "spk2utt"))
    found = evaluator(section).llrs(model)["held"].double().numpy()
    for (name, test, _), llr in zip(trials, found, strict=True):
        singles = written_out(model, dev, [(u, test, "target") for u in models[name]])[0]
        assert llr == pytest.approx(singles.mean(), rel=1e-4, abs=1e-3)


def test_split_makes_one_set_of_each_domain_of_the_test(dev, model):
    whole = evaluator(section_of(dev))
    parts = evaluator(section_of(dev, split="domain", utt2dom=str(dev / "utt2dom"), group="g"))
    assert [d.name for d in parts.sets] == ["held/dom0", "held/dom1", "held/dom2"]
    assert {d.group for d in parts.sets} == {"g"}
    assert sum(d.n_trials for d in parts.sets) == whole.sets[0].n_trials
    llrs, targets = written_out(model, dev, all_trials(draw(5, speakers=6, prefix="v")))
    domains = [a[:3] for a, *_ in all_trials(draw(5, speakers=6, prefix="v"))]
    losses = parts.evaluate(model)
    for i in range(3):
        own = np.array([d == f"vd{i}" for d in domains])
        expected = cllr(llrs[own & targets], llrs[own & ~targets], 0.01)
        assert losses.actual[f"held/dom{i}"] == pytest.approx(expected, rel=1e-5)
    assert losses.average == pytest.approx(np.mean(list(losses.actual.values())))


def test_weights_decide_the_average(dev, model):
    one = section_of(dev, name="a", weight=3.0)
    flipped = replace(one, name="b", weight=1.0)
    losses = evaluator(one, flipped).evaluate(model)
    assert losses.average == pytest.approx(
        (3 * losses.actual["a"] + losses.actual["b"]) / 4, rel=1e-12
    )


def test_a_variant_without_duration_stage_needs_no_durations(dev):
    section = section_of(dev, durations="")
    source = load(section, durations=False)
    assert source.seconds is None
    with pytest.raises(InputError, match="uses durations"):
        load(section)


@pytest.fixture
def broken(tmp_path) -> Path:
    return write_dev(tmp_path / "dev")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def test_a_set_without_targets_is_named(broken):
    kept = [line for line in lines(broken / "trials") if " nontarget" in line]
    (broken / "trials").write_text("".join(kept))
    with pytest.raises(InputError, match="'held'.* has no target trials"):
        load(section_of(broken))


def test_a_set_without_nontargets_is_named(broken):
    kept = [line for line in lines(broken / "trials") if " target" in line]
    (broken / "trials").write_text("".join(kept))
    with pytest.raises(InputError, match="'held'.* has no nontarget trials"):
        load(section_of(broken))


def test_a_part_of_a_split_set_without_targets_is_named(broken):
    kept = [
        line for line in lines(broken / "trials") if not line.startswith("vd1") or " non" in line
    ]
    (broken / "trials").write_text("".join(kept))
    with pytest.raises(InputError, match="'held/dom1'"):
        load(section_of(broken, split="domain", utt2dom=str(broken / "utt2dom")))


@pytest.mark.parametrize("table", ["utt2dur", "utt2dom"])
def test_an_id_without_its_label_is_named(broken, table: str):
    kept = [line for line in lines(broken / table) if not line.startswith("vd2s005-r2-c1 ")]
    (broken / table).write_text("".join(kept))
    with pytest.raises(InputError, match="vd2s005-r2-c1"):
        load(section_of(broken, split="domain", utt2dom=str(broken / "utt2dom")))


def test_an_id_without_its_vector_is_named(broken):
    sample = draw(5, speakers=6, prefix="v")
    np.savez(broken / "xvector.npz", ids=np.array(sample.ids[:-1]), data=sample.vectors[:-1])
    with pytest.raises(InputError, match=f"{sample.ids[-1]}.*1 missing"):
        load(section_of(broken))


def test_unlabelled_trials_are_refused(broken):
    unlabelled = [" ".join(line.split()[:2]) + "\n" for line in lines(broken / "trials")]
    (broken / "trials").write_text("".join(unlabelled))
    with pytest.raises(InputError, match="no labels"):
        load(section_of(broken))


def test_vectors_of_another_size_are_refused(broken):
    with pytest.raises(InputError, match="24 values per vector, the training data 30"):
        load(section_of(broken), dim=30)


def test_an_unknown_model_is_named(broken):
    write_table(broken / "spk2utt", {"someone": "vd0s000-r0-c0"})
    with pytest.raises(InputError, match="has no model 'vd0s000-r0-c0'"):
        load(section_of(broken, spk2utt=str(broken / "spk2utt")))


def test_missing_files_are_one_line(tmp_path):
    write_data_dir(tmp_path, draw(5, speakers=6, prefix="v"))
    with pytest.raises(DcapldaError) as error:
        load(section_of(tmp_path))
    assert "\n" not in str(error.value)
    assert "trials" in str(error.value)


@pytest.mark.parametrize("name", ["npz:x", "npy:x", "h5:x", "x.parquet"])
def test_vectors_of_a_dev_set_may_have_any_format(dev, tmp_path, name: str, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = read_vectors(str(dev / "xvector.npz"))
    write_vectors(name, table.ids, table.matrix)
    found, expected = load(section_of(dev, xvectors=name)), load(section_of(dev))
    assert torch.equal(found.embeddings, expected.embeddings)


def test_enrolments_that_are_no_utterances_lead_to_spk2utt(dev, tmp_path):
    (tmp_path / "trials").write_text("somebody v-nobody target\n")
    with pytest.raises(InputError, match="if it is a speaker or model, add spk2utt"):
        load(section_of(dev, trials=str(tmp_path / "trials")))
