"""A bundle whose parts do not belong together is refused, hashes put right or not."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from bundles import as_version_1, edit_manifest, put_right, replace_graph
from golden import EXTRACTS
from joint_models import joint_bundle, place_pool
from onnx import TensorProto, helper, numpy_helper
from random_models import DIM, random_model

from dcaplda.export.bundle_writer import export_model
from dcaplda.export.graphs.bundle import build_graphs
from dcaplda.export.importers.kaldi import read_backend
from dcaplda.export.importers.kaldi_graphs import build_graphs as build_kaldi_graphs
from dcaplda.runtime import Backend, BundleError
from dcaplda.runtime.bundle.graph_facts import OPERATORS, read_facts

pytestmark = pytest.mark.torch


@pytest.fixture
def bundle(small_bundle: Path, tmp_path: Path) -> Path:
    """d-plda-dsd: uses durations, averages groups."""
    return Path(shutil.copytree(small_bundle, tmp_path / "bundle"))


@pytest.fixture(scope="module")
def plain_bundle(tmp_path_factory) -> Path:
    """plda: no durations."""
    directory = tmp_path_factory.mktemp("plain") / "bundle"
    export_model(random_model("plda"), directory)
    return directory


def refused(directory: Path, words: str) -> None:
    with pytest.raises(BundleError, match=words) as caught:
        Backend.load(directory)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["variant", "uses_durations", "embedding_dim", "training", "new"])
def test_an_edit_by_hand_is_found_by_the_hash(bundle: Path, key: str) -> None:
    manifest = json.loads((bundle / "model.json").read_text())
    manifest[key] = False
    (bundle / "model.json").write_text(json.dumps(manifest, indent=2) + "\n")
    refused(bundle, "model.json: its sha256 is not the one in SHA256SUMS")


def test_a_bundle_without_its_hashes_is_refused(bundle: Path) -> None:
    (bundle / "SHA256SUMS").unlink()
    refused(bundle, "has no SHA256SUMS; copy or export the model again")


@pytest.mark.parametrize("text", ["", "x", "0" * 64 + " model.json\n", "../etc\n", "\xff"])
def test_damaged_hashes_are_refused(bundle: Path, text: str) -> None:
    (bundle / "SHA256SUMS").write_text(text, encoding="latin-1")
    refused(bundle, "SHA256SUMS")


DISAGREEMENTS = {
    "durations": ({"uses_durations": False}, "its scores depend on '.*durations'"),
    "embedding": ({"embedding_dim": DIM + 1}, "input '.*embeddings' has another size"),
    "voiceprint": ({"voiceprint_dim": 14}, "has another size or kind"),
    "groups": ({"averages_groups": False}, "has the inputs embeddings, durations, groups, not"),
    "extra": ({"voiceprint_inputs": ["num_utts"]}, "has the inputs"),
    "joint": ({"joint": {"file": "model.json", "sha256": "0" * 64}}, "model.json"),
}


@pytest.mark.parametrize("name", DISAGREEMENTS)
@pytest.mark.parametrize("version", [1, 2])
def test_a_manifest_of_other_graphs_is_refused(bundle: Path, name: str, version: int) -> None:
    """With SHA256SUMS made anew, and as a bundle of before there were any."""
    change, words = DISAGREEMENTS[name]
    edit_manifest(bundle, lambda m: m.update(change))
    if version == 1:
        as_version_1(bundle)
    refused(bundle, words)


def test_durations_that_are_not_used_are_not_asked_for(plain_bundle: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(plain_bundle, tmp_path / "copy"))
    edit_manifest(copy, lambda m: m.update(uses_durations=True))
    refused(copy, "its scores do not depend on '.*durations', unlike model.json")


@pytest.mark.parametrize("name", ["prepare", "tile"])
def test_half_of_a_comparison_in_two_steps_is_refused(bundle: Path, name: str) -> None:
    edit_manifest(bundle, lambda m: m["graphs"].pop(name))
    refused(bundle, "'prepare' and 'tile' are two steps of one comparison")


def test_a_joint_model_without_its_file_is_refused(tmp_path: Path) -> None:
    directory = joint_bundle(tmp_path / "bundle")
    edit_manifest(directory, lambda m: m.pop("joint"))
    refused(directory, ".*onnx: is of a joint model, unlike model.json")


def test_a_joint_file_of_another_model_is_refused(tmp_path: Path) -> None:
    """Same sizes, same calibration, other axes."""
    directory, other = joint_bundle(tmp_path / "one"), joint_bundle(tmp_path / "two", seed=5)
    content = (other / "joint.npz").read_bytes()
    (directory / "joint.npz").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    edit_manifest(directory, lambda m: m["joint"].update(sha256=digest))
    refused(directory, "joint.npz: is of another model than .*voiceprint.onnx")


@pytest.mark.parametrize("name", ["pairs", "compare", "verify", "search", "average"])
def test_graphs_that_were_not_made_together_are_refused(bundle: Path, name: str) -> None:
    """A graph of another model of the same sizes has another LLR on the very first run."""
    other = build_graphs(random_model("d-plda-dsd", seed=3))[name]
    replace_graph(bundle, name, other.SerializeToString())
    with pytest.raises(BundleError, match="gives other LLRs than compare.onnx"):
        backend = Backend.load(bundle)
        prints = backend.voiceprints(np.eye(2, DIM), [3.0, 4.0])
        backend.verify(prints[:1], np.eye(2, DIM)[1], 4.0, prior=0.5)
        backend.search_tile(prints[:1], prints)
        backend.voiceprints(np.eye(2, DIM), [3.0, 4.0], groups=[0, 0])


def test_version_1_stays_readable_with_its_fingerprint(bundle: Path) -> None:
    """Galleries and voiceprints keep the fingerprint of the model that made them."""
    new = Backend.load(bundle)
    as_version_1(bundle)
    old = Backend.load(bundle)
    entries = json.loads((bundle / "model.json").read_text())["graphs"]
    hashes = "".join(entries[n]["sha256"] for n in ("backend", "voiceprint", "compare", "pairs"))
    assert old.info.fingerprint == hashlib.sha256(hashes.encode()).hexdigest()
    assert new.info.fingerprint != old.info.fingerprint
    x, seconds = np.eye(3, DIM), [3.0, 4.0, 5.0]
    np.testing.assert_array_equal(
        old.score(x, seconds, x, seconds), new.score(x, seconds, x, seconds)
    )


def test_the_fingerprint_covers_every_graph_and_setting(bundle: Path, tmp_path: Path) -> None:
    own = Backend.load(bundle).info.fingerprint
    found = {own}
    for name in ("backend", "voiceprint", "compare", "pairs", "verify", "search"):
        copy = Path(shutil.copytree(bundle, tmp_path / name))
        model = onnx.load(copy / f"{name}.onnx")
        model.doc_string = "another"
        replace_graph(copy, name, model.SerializeToString())
        found.add(Backend.load(copy).info.fingerprint)
    edit_manifest(bundle, lambda m: m.update(adaptation={"parent": "0" * 64}))
    found.add(Backend.load(bundle).info.fingerprint)
    assert len(found) == 8


# Graphs of strangers


def external(model: onnx.ModelProto, tensor: onnx.TensorProto) -> None:
    """The tensor's bytes are to be read from secret.bin."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="secret.bin")


def in_initializer(model: onnx.ModelProto) -> None:
    external(model, model.graph.initializer[0])


def in_attribute(model: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.ones(1, np.float32))
    external(model, tensor)
    model.graph.node.append(helper.make_node("Constant", [], ["unused"], value=tensor))


def in_branch(model: onnx.ModelProto) -> None:
    node = next(node for node in model.graph.node if node.op_type == "If")
    branch = next(a.g for a in node.attribute if a.g.initializer)
    external(model, branch.initializer[0])


@pytest.mark.parametrize("where", [in_initializer, in_attribute, in_branch])
def test_data_in_other_files_are_never_read(
    bundle: Path, tmp_path: Path, monkeypatch, where
) -> None:
    if where is in_branch:  # only graphs of before have any
        bundle = Path(shutil.copytree(EXTRACTS / "bundles/version-2", tmp_path / "old"))
    model = onnx.load(bundle / "voiceprint.onnx")
    where(model)
    replace_graph(bundle, "voiceprint", model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(1 << 16))
    refused(bundle, r"has its data in another file \('secret.bin'\), which is never read")


def test_an_adapted_bundle_with_data_elsewhere_is_refused(tmp_path: Path, monkeypatch) -> None:
    directory = joint_bundle(tmp_path / "bundle")
    Backend.load(directory).adapted(place_pool(9))  # as it is, it can be adapted
    model = onnx.load(directory / "backend.onnx")
    in_initializer(model)
    replace_graph(directory, "backend", model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(1 << 16))
    refused(directory, "backend.onnx: .* in another file")


def loop(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("Loop", ["a", "b"], ["c"], body=body))


def custom(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Add", ["a", "b"], ["c"], domain="com.evil"))


def custom_set(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.evil", 1))


def function(model: onnx.ModelProto) -> None:
    model.functions.append(helper.make_function("f", "g", [], [], [], []))


def sparse(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add()


def bomb(model: onnx.ModelProto) -> None:
    huge = numpy_helper.from_array(np.array([1 << 40]), "huge")
    model.graph.initializer.append(huge)


STRANGE = {
    loop: "uses the operator 'Loop'",
    custom: "uses an operator of 'com.evil'",
    custom_set: "uses operators of 'com.evil'",
    function: "not an ONNX graph as export-onnx writes it",
    sparse: "not an ONNX graph as export-onnx writes it",
    bomb: "holds the size 1099511627776, but only",
}


@pytest.mark.parametrize("change", STRANGE)
def test_what_no_graph_of_a_bundle_does_is_refused(bundle: Path, change) -> None:
    model = onnx.load(bundle / "pairs.onnx")
    change(model)
    replace_graph(bundle, "pairs", model.SerializeToString())
    refused(bundle, STRANGE[change])


def test_a_joint_model_of_wide_embeddings_is_no_bomb(tmp_path: Path) -> None:
    """Its compare.onnx has columns of voiceprints as constants, and few other numbers."""
    model = random_model("plda-dd", joint=True, embedding_dim=192, lda_dim=192)
    export_model(model, tmp_path / "wide")
    assert Backend.load(tmp_path / "wide").info.embedding_dim == 192


def test_a_second_graph_in_a_file_is_not_merged(bundle: Path) -> None:
    """protobuf would merge the two, and show its own reader something else than ours."""
    content = (bundle / "pairs.onnx").read_bytes()
    replace_graph(bundle, "pairs", content + content)
    refused(bundle, "not an ONNX graph as export-onnx writes it")


def every_graph() -> list[tuple[str, onnx.ModelProto]]:
    made = []
    for variant in ("plda", "d-plda-dd", "d-plda-sd", "d-plda-dsd"):
        for activation in ("identity", "softmax", "log-softmax"):
            made += build_graphs(random_model(variant, side_activation=activation)).items()
    for feature in ("log", "wlog", "bin"):
        made += build_graphs(random_model("d-plda-dd", duration_feature=feature)).items()
    names = {"plda": "plda", "transform": "transform.mat", "mean": "mean.vec"}
    files = {key: str(EXTRACTS / "kaldi" / name) for key, name in names.items()}
    for normalization in ("plda", "simple", "none"):
        backend = read_backend(**files, normalization=normalization)
        made += build_kaldi_graphs(backend).items()
    return made


def test_everything_that_is_exported_can_be_read() -> None:
    """And the reader sees what the onnx package sees."""
    for name, model in every_graph():
        facts = read_facts(model.SerializeToString(deterministic=True), name)
        assert list(facts.inputs) == [value.name for value in model.graph.input]
        assert list(facts.outputs) == [value.name for value in model.graph.output]
        assert list(facts.constants) == [tensor.name for tensor in model.graph.initializer]
        for value in (*model.graph.input, *model.graph.output):
            port = {**facts.inputs, **facts.outputs}[value.name]
            told = value.type.tensor_type
            sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in told.shape.dim)
            assert (port.kind, port.sizes) == (told.elem_type, sizes)
        assert {node.op_type for node in model.graph.node} <= OPERATORS


# Hashes and signatures for other people's tools


def shell(script: str, directory: Path) -> str:
    done = subprocess.run(
        ["bash", "-euc", script], cwd=directory, capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr if done.returncode == 0 else f"FAILED {done.stderr}"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="coreutils' sha256sum is not there")
def test_sha256sum_agrees(bundle: Path) -> None:
    assert shell("sha256sum -c SHA256SUMS", bundle).count(": OK") == 11
    (bundle / "model.json").write_text("{}")
    assert "FAILED" in shell("sha256sum -c SHA256SUMS", bundle)


def signing(tool: str) -> tuple[str, str]:
    """The commands of docs/embedding.md that sign, and those that verify, with a tool."""
    page = (Path(__file__).parents[3] / "docs" / "embedding.md").read_text()
    start = page.index("## Where a bundle comes from")
    blocks = [b for b in page[start:].split("```sh\n")[1:] if tool in b.split("```")[0]]
    signs, verifies = (b.split("```")[0] for b in blocks[:2])
    return signs, verifies


@pytest.mark.parametrize("tool", ["ssh-keygen", "minisign"])
def test_signatures_as_the_page_types_them(bundle: Path, tmp_path: Path, tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    (tmp_path / "exp").mkdir()
    bundle.rename(tmp_path / "exp" / "bundle")
    keys = {
        "ssh-keygen": "ssh-keygen -q -t ed25519 -N '' -f key; "
        'echo "dcaplda $(cat key.pub)" > signers',
        "minisign": "minisign -G -W -p minisign.pub -s key",
    }
    assert "FAILED" not in shell(keys[tool], tmp_path)
    signs, verifies = signing(tool)
    for name in ("HOME", "USER"):
        assert f"${name}" not in signs + verifies
    assert "FAILED" not in shell(signs, tmp_path)
    assert "FAILED" not in shell(verifies, tmp_path)
    Backend.load(tmp_path / "exp" / "bundle")  # signatures beside the files do not disturb
    manifest = tmp_path / "exp" / "bundle" / "model.json"
    manifest.write_text(manifest.read_text() + " ")
    assert "FAILED" in shell(verifies, tmp_path), "an altered file"
    put_right(tmp_path / "exp" / "bundle")
    os.sync()
    assert "FAILED" in shell(verifies, tmp_path), "hashes put right, not signed"
