"""Constants replaced inside a graph's bytes: what the onnx package reads, and any damage."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_models import joint_model, joint_torch_model, place_pool

from dcaplda.export.graphs.bundle import build_graphs
from dcaplda.runtime.bundle.initializers import with_constants
from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.joint.layout import place_constants
from dcaplda.runtime.joint.place import adapted

pytestmark = pytest.mark.torch

GRAPHS = {
    name: graph.SerializeToString(deterministic=True)
    for name, graph in build_graphs(joint_torch_model()).items()
}
VOICEPRINT = GRAPHS["voiceprint"]


def constants() -> dict[str, np.ndarray]:
    joint = joint_model()
    return place_constants(adapted(joint.scorer, place_pool(9)))


def initializers(content: bytes) -> dict[str, np.ndarray]:
    """As the onnx package has them."""
    graph = onnx.load_from_string(content).graph
    return {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}


@pytest.mark.parametrize("name", ["backend", "voiceprint", "verify"])
def test_named_constants_change_and_nothing_else_does(name: str) -> None:
    before, values = initializers(GRAPHS[name]), constants()
    changed = with_constants(GRAPHS[name], values, "here")
    after = initializers(changed)
    assert after.keys() == before.keys() and len(changed) == len(GRAPHS[name])
    for key, array in after.items():
        expected = values[key].reshape(array.shape) if key in values else before[key]
        np.testing.assert_array_equal(array, expected)
    assert any(not np.array_equal(after[key], before[key]) for key in values)
    onnx.checker.check_model(onnx.load_from_string(changed))


@pytest.mark.parametrize("name", ["backend", "voiceprint", "verify"])
def test_constants_of_the_model_itself_change_nothing(name: str) -> None:
    joint = joint_model()
    values = place_constants(joint.scorer)
    assert with_constants(GRAPHS[name], values, "here") == GRAPHS[name]
    assert with_constants(GRAPHS[name], {}, "here") == GRAPHS[name]


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BundleError, match="^here: has no constant 'joint.bias'; export again$"):
        with_constants(GRAPHS["compare"], {"joint.bias": np.zeros(12, np.float32)}, "here")


def test_another_size_is_an_error() -> None:
    with pytest.raises(BundleError, match="^here: constant 'joint.bias' has another size"):
        with_constants(VOICEPRINT, {"joint.bias": np.zeros(13, np.float32)}, "here")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\xff" * 40,
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x3a\x02\x2a\x7f",
        b"\x3b",
        b"PK\x03\x04",
        b"{}",
    ],
)
def test_what_is_no_graph_is_an_error(content: bytes) -> None:
    with pytest.raises(BundleError, match="^here: "):
        with_constants(content, constants(), "here")


def test_a_field_stays_inside_of_the_one_that_holds_it() -> None:
    """An initializer 'a' of four bytes, in a graph of the right length and of a shorter one."""
    initializer = b"\x42\x01a\x4a\x04\1\2\3\4"
    value = {"a": np.array([2.0], np.float32)}
    whole = b"\x3a\x0b\x2a\x09" + initializer
    assert with_constants(whole, value, "here") == whole[:-4] + np.float32(2.0).tobytes()
    with pytest.raises(BundleError, match="not an ONNX graph"):
        with_constants(b"\x3a\x02\x2a\x09" + initializer, value, "here")


def attempt(content: bytes, values: dict[str, np.ndarray]) -> None:
    """A result of the same length or a BundleError; anything else fails the test."""
    try:
        assert len(with_constants(content, values, "here")) == len(content)
    except BundleError as error:
        assert str(error).startswith("here: ") and "\n" not in str(error)


VALUES = constants()


@given(
    st.lists(
        st.tuples(st.integers(0, len(VOICEPRINT) - 1), st.integers(0, 255)),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=200, deadline=None)
def test_mutated_bytes_give_a_bundle_error_or_a_result(changes) -> None:
    content = bytearray(VOICEPRINT)
    for place, value in changes:
        content[place] = value
    attempt(bytes(content), VALUES)


@given(st.integers(0, len(VOICEPRINT)), st.integers(0, len(VOICEPRINT)), st.binary(max_size=20))
@settings(max_examples=200, deadline=None)
def test_cut_and_spliced_bytes_give_a_bundle_error_or_a_result(begin, end, between) -> None:
    attempt(VOICEPRINT[:begin] + between + VOICEPRINT[end:], VALUES)
    attempt(VOICEPRINT[:begin], VALUES)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_a_bundle_error_or_a_result(content: bytes) -> None:
    attempt(content, VALUES)
    attempt(b"\x3a" + bytes([min(len(content), 127)]) + content, VALUES)
