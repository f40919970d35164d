import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import DIM, random_model

from dcaplda.runtime.errors import ModelError
from dcaplda.train.model import durations
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import VARIANTS, ModelConfig
from dcaplda.train.model.ops import TORCH
from dcaplda.train.model.quadratic import Quadratic
from dcaplda.train.store import CONFIG, WEIGHTS, load_model, save_model

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("variant", "count"),
    [
        ("plda", 334_203),
        ("d-plda", 334_203),
        ("plda-dd", 334_223),
        ("d-plda-dd", 334_223),
        ("plda-dsd", 438_187),
        ("d-plda-dsd", 438_187),
    ],
)
def test_parameter_counts_at_the_papers_sizes(variant: str, count: int) -> None:
    model = Backend(ModelConfig(embedding_dim=512, variant=variant))
    assert sum(p.numel() for p in model.parameters()) == count


def sides(seed: int = 0, n_enroll: int = 4, n_test: int = 6) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_enroll + n_test, DIM, generator=generator)
    d = torch.exp(torch.rand(n_enroll + n_test, generator=generator) * 5)
    return x[:n_enroll], d[:n_enroll], x[n_enroll:], d[n_enroll:]


def by_hand(model: Backend, x1, d1, x2, d2) -> float:
    """One trial, every equation as the paper prints it, on plain numpy float64."""

    def array(t) -> np.ndarray:
        return t.detach().double().numpy()

    def sym(m: np.ndarray) -> np.ndarray:
        return (m + m.T) / 2

    def form(q: Quadratic, a: np.ndarray, b: np.ndarray) -> float:
        cross, auto, linear = sym(array(q.cross)), sym(array(q.auto)), array(q.linear)
        cross_term = 2 * a @ cross @ b
        own = a @ auto @ a + b @ auto @ b + (a + b) @ linear
        return cross_term + own + float(q.offset.detach())

    def norm(layer, x: np.ndarray) -> np.ndarray:
        y = array(layer.weight) @ x + array(layer.bias)
        return y / math.sqrt((y * y).sum())

    x1, x2 = array(x1), array(x2)
    llr = form(model.plda, norm(model.preprocess, x1), norm(model.preprocess, x2))
    stages = model.config.stages
    if stages.duration_stage:
        e = []
        for d in (float(d1), float(d2)):
            sigma = 1 / (1 + math.exp(-2 * (math.log(d) - math.log(30))))
            e.append(np.array([math.log(d) * sigma, math.log(d) * (1 - sigma)]))
        llr = form(model.scale_dur, *e) * llr + form(model.shift_dur, *e)
    if stages.side_stage:
        z = []
        for x in (x1, x2):
            m = norm(model.side_projection, x)
            z.append(array(model.side_reduction.weight) @ m + array(model.side_reduction.bias))
        llr = form(model.scale_side, *z) * llr + form(model.shift_side, *z)
    if not (stages.duration_stage or stages.side_stage):
        llr = float(model.scale.detach()) * llr + float(model.shift.detach())
    return llr


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_trial_equals_the_equations_by_hand(variant: str) -> None:
    """Within 1e-4 in float32."""
    model = random_model(variant)
    x1, d1, x2, d2 = sides()
    llrs = model(x1, d1, x2, d2).detach()
    assert llrs.shape == (4, 6)
    for i in range(4):
        for j in range(6):
            assert float(llrs[i, j]) == pytest.approx(
                by_hand(model, x1[i], d1[i], x2[j], d2[j]), abs=1e-4
            )


@pytest.mark.parametrize("variant", VARIANTS)
def test_score_does_not_depend_on_the_order_of_sides(variant: str) -> None:
    model = random_model(variant).double()
    x1, d1, x2, d2 = (t.double() for t in sides())
    torch.testing.assert_close(model(x1, d1, x2, d2), model(x2, d2, x1, d1).T, atol=1e-10, rtol=0)


def test_symmetry_survives_an_optimiser_step() -> None:
    form = Quadratic(3)
    optimizer = torch.optim.SGD(form.parameters(), lr=1.0)
    a, b = torch.randn(2, 1, 3, generator=torch.Generator().manual_seed(0))
    (form(a, b) * a[0, 0]).sum().backward()
    with torch.no_grad():
        form.cross.add_(torch.triu(torch.ones(3, 3)))  # make the stored matrix asymmetric
    optimizer.step()
    torch.testing.assert_close(form(a, b), form(b, a), atol=1e-6, rtol=0)


def test_a_new_model_passes_the_score_through() -> None:
    model = Backend(ModelConfig(embedding_dim=DIM, lda_dim=4))
    torch.nn.init.normal_(model.preprocess.weight)
    torch.nn.init.normal_(model.plda.cross)
    torch.nn.init.normal_(model.side_projection.weight)
    x1, d1, x2, d2 = sides()
    score = model.plda(model.projected(x1), model.projected(x2))
    torch.testing.assert_close(model(x1, d1, x2, d2), score)


@given(st.floats(0.05, 5000))
@settings(deadline=None)
def test_duration_features_are_the_papers(d: float) -> None:
    seconds = torch.tensor([d], dtype=torch.float64)
    log = durations.apply(TORCH, "log", {}, seconds)
    assert log.tolist() == [[pytest.approx(math.log(d))]]
    sigma = 1 / (1 + (d / 30.0) ** -2)
    wlog = durations.apply(TORCH, "wlog", {"center": 30.0, "slope": 2.0}, seconds)[0].tolist()
    assert wlog == pytest.approx([math.log(d) * sigma, math.log(d) * (1 - sigma)], abs=1e-12)
    thresholds = [1.0, 10.0, 100.0]
    bins = durations.apply(TORCH, "bin", {"thresholds": thresholds}, seconds)[0].tolist()
    assert sum(bins) == 1.0 and bins.index(1.0) == sum(d > t for t in thresholds)


@pytest.mark.parametrize("name", durations.FEATURES)
def test_every_registered_feature_is_finite_and_has_its_width(name: str) -> None:
    parameters = durations.resolve(name, {})
    values = durations.apply(TORCH, name, parameters, torch.tensor([0.01, 1.0, 30.0, 1e5]))
    assert values.shape == (4, durations.width(name, parameters))
    assert torch.isfinite(values).all()


@pytest.mark.parametrize("activation", ["identity", "softmax", "log-softmax"])
def test_side_information_activation(activation: str) -> None:
    model = random_model("d-plda-sd", side_activation=activation)
    x = sides()[0]
    raw = model.side_reduction(model.side_hidden(x)).detach()
    share = raw.exp() / raw.exp().sum(dim=1, keepdim=True)
    expected = {"identity": raw, "softmax": share, "log-softmax": share.log()}[activation]
    torch.testing.assert_close(model.side_info(x), expected)


def test_saved_model_reads_back_equal(tmp_path) -> None:
    model = random_model(
        "d-plda-dsd", duration_feature="bin", duration_parameters={"thresholds": [2, 8]}
    )
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("no config", "has no model_config.json"),
        ("no weights", "has no model.safetensors"),
        ("config", "not a model configuration"),
        ("key", "no key 'lda_dims'; did you mean 'lda_dim'"),
        ("variant", "did you mean 'd-plda-dsd'"),
        ("weights", "not a safetensors file"),
        ("shape", "is not as training wrote it"),
        ("nan", "NaN"),
    ],
)
def test_damaged_model_is_refused_in_one_line(tmp_path, damage: str, message: str) -> None:
    model = random_model("d-plda-dsd")
    if damage == "nan":
        with torch.no_grad():
            model.plda.linear[0] = float("nan")
    save_model(model, tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    if damage == "no config":
        (tmp_path / CONFIG).unlink()
    elif damage == "no weights":
        (tmp_path / WEIGHTS).unlink()
    elif damage == "config":
        (tmp_path / CONFIG).write_text("{")
    elif damage == "key":
        (tmp_path / CONFIG).write_text(json.dumps({**config, "lda_dims": 3}))
    elif damage == "variant":
        (tmp_path / CONFIG).write_text(json.dumps({**config, "variant": "d-plda-dsdd"}))
    elif damage == "weights":
        (tmp_path / WEIGHTS).write_bytes(b"not weights")
    elif damage == "shape":
        (tmp_path / CONFIG).write_text(json.dumps({**config, "lda_dim": 5}))
    with pytest.raises(ModelError, match=message) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"lda_dim": 0}, "lda_dim = 0"),
        ({"duration_feature": "wlogs"}, "known: log, bin, wlog"),
        ({"duration_parameters": {"centre": 3}}, "no parameter 'centre'"),
        ({"duration_parameters": {"center": -3.0}}, "positive"),
        ({"side_activation": "relu"}, "side_activation = 'relu'"),
        ({"duration_feature": "bin", "duration_parameters": {"thresholds": [5, 2]}}, "rising"),
    ],
)
def test_impossible_configuration_is_refused(settings_: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Backend(ModelConfig(embedding_dim=4, **settings_))


def test_a_flipped_bit_of_a_model_is_found(tmp_path) -> None:
    save_model(random_model("d-plda-dsd"), tmp_path)
    content = bytearray((tmp_path / WEIGHTS).read_bytes())
    content[-1000] ^= 1
    (tmp_path / WEIGHTS).write_bytes(content)
    with pytest.raises(ModelError, match="is not as training wrote it; copy the model again"):
        load_model(tmp_path)


def test_a_model_of_before_has_no_digest_and_is_read(tmp_path) -> None:
    from safetensors.torch import save_file

    model = random_model("d-plda-dd")
    save_model(model, tmp_path)
    save_file(model.state_dict(), str(tmp_path / WEIGHTS))
    assert torch.equal(load_model(tmp_path).plda.cross, model.plda.cross)


def test_a_configuration_beyond_its_weights_takes_no_memory(tmp_path) -> None:
    """Sizes of a terabyte: refused by the shapes in the file, before anything is made of them."""
    save_model(random_model("plda"), tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, "lda_dim": 1 << 19}))
    from safetensors.torch import save_file

    save_file(random_model("plda").state_dict(), str(tmp_path / WEIGHTS))
    with pytest.raises(ModelError, match=r"has shape \(12, 24\), expected \(524288, 24\)"):
        load_model(tmp_path)
