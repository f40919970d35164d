"""joint.npz: the same bytes every time, and nothing but a BundleError for a damaged one."""

import io
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from bundles import edit_manifest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_models import joint_bundle, joint_model

from dcaplda.runtime import Backend, BundleError
from dcaplda.runtime.bundle.checksums import sha256
from dcaplda.runtime.joint.scorer import NO_LIMIT
from dcaplda.runtime.joint.stored import joint_bytes, parse_joint

pytestmark = pytest.mark.torch
CONTENT = joint_bytes(joint_model())


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def unpacked(content: bytes = CONTENT) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def test_what_is_stored_comes_back_bit_for_bit() -> None:
    arrays = joint_model().arrays()
    again = parse_joint(CONTENT, "here").arrays()
    assert arrays.keys() == again.keys()
    assert all(np.array_equal(again[name], value) for name, value in arrays.items())
    assert joint_bytes(parse_joint(CONTENT, "here")) == CONTENT
    assert joint_bytes(joint_model()) == CONTENT


def test_numpy_reads_the_file() -> None:
    with np.load(io.BytesIO(CONTENT), allow_pickle=False) as file:
        np.testing.assert_array_equal(file["between"], joint_model().scorer.between)


def header(text: str) -> bytes:
    """An npy file whose header is this text."""
    line = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


BAD_MEMBERS = {
    "pickled": npy(np.array([{"a": 1}], dtype=object)),
    "pickled numbers": npy(np.array([1.0] * 12, dtype=object)),
    "a pickle": pickle.dumps([1.0, 2.0]),
    "text": npy(np.array("x")),
    "structured": npy(np.zeros(12, dtype=[("a", "f8")])),
    "short": npy(np.zeros(11)),
    "cut": npy(np.ones(12))[:-8],
    "nothing": b"",
    "two axes": npy(np.ones((12, 1))),
    "not a number": npy(np.full(12, np.nan)),
    "infinite": npy(np.full(12, np.inf)),
    "zero": npy(np.zeros(12)),
    "negative": npy(np.full(12, -1.0)),
    "huge": header("{'descr': '<f8', 'fortran_order': False, 'shape': (1 << 60,), }"),
    "too large": header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**60},)}}"),
    "negative size": header("{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }"),
    "open bracket": header("{'descr': '<f8', 'shape': (("),
    "open text": header("{'descr': '''"),
    "no dictionary": header("3"),
    "unhashable": header("{[]: 1}"),
    "deep": header("(" * 5000),
    "deep numbers": header("-" * 5000 + "1"),
    "strange type": header("{'descr': '<q9', 'fortran_order': False, 'shape': (1,), }"),
    "listed type": header("{'descr': [1], 'fortran_order': False, 'shape': (1,), }"),
}


@pytest.mark.parametrize("kind", BAD_MEMBERS)
@pytest.mark.parametrize("name", ["offset", "between"])
def test_a_bad_array_is_a_bundle_error(kind: str, name: str) -> None:
    content = packed({**unpacked(), f"{name}.npy": BAD_MEMBERS[kind]})
    with pytest.raises(BundleError, match="^here: .*") as caught:
        parse_joint(content, "here")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["weight", "turn", "quadratics", "scale.basis", "correlation", "known", "scale.linear"]
)
@pytest.mark.parametrize("values", [np.zeros((2, 3)), np.full((), 1.0), np.zeros(0), np.nan])
def test_wrong_shapes_and_values_are_bundle_errors(name: str, values) -> None:
    with pytest.raises(BundleError, match="^here: "):
        parse_joint(packed({**unpacked(), f"{name}.npy": npy(np.array(values))}), "here")


@pytest.mark.parametrize("name", ["length", "turn", "scale.half", "weight", "same_score"])
@pytest.mark.parametrize("size", [1e150, -1e300, np.inf])
def test_values_that_nothing_can_be_made_of_are_bundle_errors(name: str, size: float) -> None:
    """What squares to more than float32, or float64, holds."""
    values = np.full(np.load(io.BytesIO(unpacked()[f"{name}.npy"])).shape, size)
    with pytest.raises(BundleError, match=f"^here: '{name}' has a wrong size or value"):
        parse_joint(packed({**unpacked(), f"{name}.npy": npy(values)}), "here")


def test_bundles_from_before_counts_had_a_limit_are_read() -> None:
    """They tell calibration of any number, as they did."""
    former = unpacked()
    del former["told_count.npy"]
    assert parse_joint(packed(former), "here").scorer.told_count == NO_LIMIT
    with pytest.raises(BundleError, match="told_count"):
        parse_joint(packed({**unpacked(), "told_count.npy": npy(np.array(0.5))}), "here")


def test_compressed_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(BundleError, match="is compressed"):
        parse_joint(packed(unpacked(), zipfile.ZIP_DEFLATED), "here")


def test_encrypted_is_refused() -> None:
    content = bytearray(CONTENT)
    start = content.index(b"PK\x01\x02")
    content[start + 8] |= 1  # the first member's flag, in the directory
    content[6] |= 1
    with pytest.raises(BundleError, match="^here: "):
        parse_joint(bytes(content), "here")


@given(st.integers(0, len(CONTENT)))
@settings(max_examples=50, deadline=None)
def test_a_file_cut_short_is_a_bundle_error(length: int) -> None:
    if length < len(CONTENT):
        with pytest.raises(BundleError):
            parse_joint(CONTENT[:length], "here")


@given(
    st.lists(
        st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), min_size=1, max_size=6
    ),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_mutated_files_are_bundle_errors_or_models(changes, in_directory: bool) -> None:
    """Half of the changes hit the archive's directory, which no checksum guards."""
    content = bytearray(CONTENT)
    directory = content.index(b"PK\x01\x02")
    for place, value in changes:
        if in_directory:
            place = directory + place % (len(content) - directory)
        content[place] = value
    try:
        parse_joint(bytes(content), "here")
    except BundleError:
        pass


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return joint_bundle(tmp_path / "bundle")


def replace_joint(bundle: Path, content: bytes) -> None:
    """Another joint.npz whose sha256 model.json believes."""
    (bundle / "joint.npz").write_bytes(content)
    edit_manifest(bundle, lambda m: m["joint"].update(sha256=sha256(content)))


def test_a_bundle_with_a_damaged_file_does_not_load(bundle: Path, tmp_path: Path) -> None:
    assert Backend.load(bundle).joint is not None
    altered = bytearray(CONTENT)
    altered[200] ^= 1
    shutil.copytree(bundle, tmp_path / "copy")
    (bundle / "joint.npz").write_bytes(altered)
    with pytest.raises(BundleError, match="sha256"):
        Backend.load(bundle)
    (bundle / "joint.npz").unlink()
    with pytest.raises(BundleError, match="missing"):
        Backend.load(bundle)
    replace_joint(tmp_path / "copy", CONTENT[:100])
    with pytest.raises(BundleError, match="not readable"):
        Backend.load(tmp_path / "copy")


def test_a_file_of_another_model_does_not_load(bundle: Path) -> None:
    arrays = joint_model().arrays()
    arrays["weight"] = arrays["weight"][:, :-1]
    arrays["embedding_mean"] = arrays["embedding_mean"][:-1]
    members = {f"{name}.npy": npy(value) for name, value in arrays.items()}
    replace_joint(bundle, packed(members))
    with pytest.raises(BundleError, match="does not fit model.json"):
        Backend.load(bundle)


@pytest.mark.parametrize("entry", ["x", [], {}, {"file": "joint.npz"}, {"sha256": 3}, 7])
def test_a_wrong_entry_of_model_json_is_a_bundle_error(bundle: Path, entry) -> None:
    edit_manifest(bundle, lambda m: m.update(joint=entry))
    with pytest.raises(BundleError):
        Backend.load(bundle)


def test_a_file_outside_the_bundle_is_not_read(bundle: Path) -> None:
    (bundle.parent / "joint.npz").write_bytes(CONTENT)
    edit_manifest(bundle, lambda m: m["joint"].update(file="../joint.npz"))
    with pytest.raises(BundleError, match="outside"):
        Backend.load(bundle)
