import copy
import io
import pickle
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import EXTRACTS, read_ark, read_columns, reference_roots
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.bin.import_model import main
from dcaplda.export.importers.checkpoint import read_checkpoint
from dcaplda.export.importers.dca_plda import import_checkpoint
from dcaplda.runtime import Backend
from dcaplda.runtime.errors import ModelError
from dcaplda.train.store import load_model

pytestmark = pytest.mark.torch
TRAINED = EXTRACTS / "reference" / "trained.pth"


@pytest.mark.parametrize("root", reference_roots())
@pytest.mark.parametrize("tag", ["init", "trained"])
def test_every_llr_of_the_authors_is_reproduced(root: Path, tag: str, tmp_path) -> None:
    """Imported, exported, scored by the runtime: within 1e-4 absolute."""
    assert main(["--from=dca-plda", str(root / f"{tag}.pth"), str(tmp_path / "bundle")]) == 0
    backend = Backend.load(tmp_path / "bundle", threads=2)
    files = sorted(root.glob(f"*/{tag}.*.scores"))
    assert len(files) >= 3
    for path in files:
        ids, vectors = read_ark(path.parent / "xvector.ark")
        place = {key: row for row, key in enumerate(ids)}
        seconds = {key: float(value) for key, value in read_columns(path.parent / "utt2dur")}
        times = np.array([seconds[key] for key in ids])
        prints = backend.voiceprints(vectors, times)
        enroll, models, offsets = prints, place, None
        if ".multi." in path.name:
            lists = read_columns(path.parent / "spk2utt")
            models = {line[0]: number for number, line in enumerate(lists)}
            rows = np.array([place[utterance] for line in lists for utterance in line[1:]])
            sizes = [len(line) - 1 for line in lists]
            if "score_level" in path.name:
                enroll, offsets = prints[rows], np.cumsum([0, *sizes])
            else:
                groups = np.repeat(np.arange(len(lists)), sizes)
                enroll = backend.voiceprints(vectors[rows], times[rows], groups=groups)
        lines = read_columns(path)
        first = [models[line[0]] for line in lines]
        second = [place[line[1]] for line in lines]
        llrs = backend.score_trials(enroll, prints, first, second, groups=offsets)
        expected = [float(line[2]) for line in lines]
        np.testing.assert_allclose(llrs, expected, atol=1e-4, rtol=0, err_msg=str(path))


def test_model_out_can_be_trained_on(tmp_path) -> None:
    out = tmp_path / "model"
    assert main(["--from=dca-plda", f"--model-out={out}", str(TRAINED), str(tmp_path / "b")]) == 0
    model = load_model(out)
    assert model.config.variant == "d-plda-dsd"
    assert model.config.duration_parameters == {"center": 30.0, "slope": 2.0}


def test_restricted_loader_reads_what_torch_reads() -> None:
    """Against torch's own loader, with a stand-in for the one foreign class."""
    import sys
    import types

    package, module = types.ModuleType("dca_plda"), types.ModuleType("dca_plda.utils")

    class AttrDict(dict):
        pass

    AttrDict.__module__, AttrDict.__qualname__ = "dca_plda.utils", "AttrDict"
    module.AttrDict = AttrDict
    sys.modules |= {"dca_plda": package, "dca_plda.utils": module}
    try:
        expected = torch.load(TRAINED, weights_only=False)["model"]  # a file of our own
    finally:
        del sys.modules["dca_plda"], sys.modules["dca_plda.utils"]
    found = read_checkpoint(TRAINED)["model"]
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value.numpy())


class Evil:
    def __reduce__(self):
        return Path.touch, (Path("evil-was-here"),)


def checkpoint_bytes(content: object) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps(content, protocol=2))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a torch checkpoint"),
        (b"PK\x03\x04 but broken", "not a torch checkpoint"),
        (pickle.dumps({"model": 1}), "not a torch checkpoint"),
        (checkpoint_bytes({"model": Evil()}), "refused.*only tensors and plain containers"),
        (checkpoint_bytes([1, 2]), "not a checkpoint dictionary"),
        (checkpoint_bytes({"model": {}, "config": {}}), "has no 'in_dim'"),
        (checkpoint_bytes({"model": {}, "config": {}, "in_dim": 3}), "no LDA stage"),
        (checkpoint_bytes({"model": {}, "config": {"front_dim": 9}, "in_dim": 3}), "front_dim"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path, monkeypatch, capsys, content, message) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.pth"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message):
        import_checkpoint(path)
    assert main(["--from=dca-plda", str(path), str(tmp_path / "bundle")]) == 1
    assert not (tmp_path / "bundle").exists()
    assert not (tmp_path / "evil-was-here").exists()
    assert "Traceback" not in capsys.readouterr().err


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_mutated_checkpoint_gives_a_model_or_a_clear_error(data, tmp_path_factory) -> None:
    content = bytearray(TRAINED.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("mutated") / "x.pth"
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        import_checkpoint(path)
    except ModelError as error:
        assert str(path) in str(error)


# Files that were made to do harm: refused, at once, without memory


def archived(pickled: bytes, compress: int = zipfile.ZIP_STORED, **parts: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("m/data.pkl", pickled)
        for name, content in parts.items():
            archive.writestr(f"m/data/{name}", content, compress)
    return buffer.getvalue()


def text(word: str) -> bytes:
    return b"X" + len(word).to_bytes(4, "little") + word.encode()


def storage(key: str, count: int) -> bytes:
    """A reference to a storage, as torch writes it."""
    number, kind = b"J" + count.to_bytes(4, "little"), b"ctorch\nFloatStorage\n"
    return b"".join((b"(", text("storage"), kind, text(key), text("cpu"), number, b"tQ"))


def tensor(key: str, stored: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(b"J" + v.to_bytes(4, "little") for v in values) + b"t"

    call = b"ctorch._utils\n_rebuild_tensor_v2\n("
    return call + storage(key, stored) + b"K\0" + numbers(size) + numbers(stride) + b"\x89NtR"


def table(entries: dict[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def whole(**entries: bytes) -> bytes:
    """The pickle of a checkpoint."""
    return b"\x80\2" + table(entries) + b"."


def nested(levels: int) -> bytes:
    """Tuples of twice the same tuple: a few bytes a level, twice the work each."""
    return b")" + b"".join(b"q" + bytes([n]) + b"h" + bytes([n]) + b"\x86" for n in range(levels))


MB = 1 << 20
LDA = table({"lda_stage.W": tensor("0", 1, (1, 1), (1, 1))})
MANY = b"](" + 300 * tensor("0", MB // 4, (MB // 4,), (1,)) + b"e"
HARM = {
    "memo index": (archived(b"\x80\2}r\xff\xff\xff\x1f."), "has no 'model'"),
    "memo index read": (archived(b"\x80\2j\xff\xff\xff\x1f."), "refers to what is not there"),
    "deflated storage": (
        archived(
            whole(model=tensor("0", 16 * MB, (1,), (1,))),
            zipfile.ZIP_DEFLATED,
            **{"0": bytes(64 * MB)},
        ),
        "is compressed",
    ),
    "nested key": (archived(b"\x80\2}" + nested(40) + b"Ns."), "has a tuple for a key"),
    "nested value": (
        archived(whole(model=LDA, in_dim=nested(40), config=b"}"), **{"0": bytes(4)}),
        "'in_dim' = .*: expected a whole number",
    ),
    "nested switch": (
        archived(whole(model=b"}", in_dim=b"K\3", config=table({"front_dim": nested(40)}))),
        "uses front_dim = ",
    ),
    "one storage, many tensors": (
        archived(whole(model=MANY), **{"0": bytes(MB)}),
        "its tensors are larger than the file",
    ),
    "a view without end": (
        archived(whole(model=tensor("0", 4, (4, 1 << 30), (1, 0))), **{"0": bytes(16)}),
        "larger than its storage",
    ),
    "a type is built": (
        archived(b"\x80\2ctorch\nFloatStorage\n" + table({"dtype": b"K\1"}) + b"b."),
        "sets attributes of a Name",
    ),
    "a name is called": (
        archived(b"\x80\2cos\nsystem\n(" + text("true") + b"tR."),
        "asks for 'os.system'",
    ),
    "an instance": (archived(b"\x80\2(ios\nsystem\n."), "opcode INST"),
    "an extension": (archived(b"\x80\2\x82\1."), "opcode EXT1"),
    "the end": (archived(b"\x80\2}"), "damaged checkpoint"),
}


@pytest.mark.parametrize("name", HARM)
def test_files_made_to_do_harm_are_refused(tmp_path, name: str) -> None:
    """Within 16 MB beyond the file, and within seconds."""
    content, words = HARM[name]
    (tmp_path / "x.pth").write_bytes(content)
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(ModelError, match=words) as caught:
            import_checkpoint(tmp_path / "x.pth")
        spent = time.process_time() - started
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MB and spent < 5.0
    assert len(str(caught.value)) < 1000


def test_parts_that_overlap_are_refused(tmp_path) -> None:
    """A zip directory can name the same bytes a thousand times; here, three storages are one."""
    size = MB // 4
    tensors = b"".join(tensor(str(n), size, (1,), (1,)) for n in range(3))
    pickled = whole(model=b"](" + tensors + b"e")
    path = tmp_path / "x.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", pickled)
        archive.writestr("m/data/0", bytes(MB))
        first = archive.getinfo("m/data/0")
        for number in (1, 2):
            twin = copy.copy(first)
            twin.filename = f"m/data/{number}"
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    with pytest.raises(ModelError, match="larger than the file|damaged|not a torch"):
        import_checkpoint(path)


def test_a_malicious_file_leaves_nothing_behind(tmp_path) -> None:
    expected = read_checkpoint(TRAINED)["model"]
    for name, (content, _) in HARM.items():
        (tmp_path / "x.pth").write_bytes(content)
        with pytest.raises(ModelError):
            import_checkpoint(tmp_path / "x.pth")
        found = read_checkpoint(TRAINED)["model"]
        assert all(np.array_equal(found[key], value) for key, value in expected.items()), name


def test_a_model_that_claims_to_be_large_takes_no_memory(tmp_path) -> None:
    """An LDA of one input and 250,000 outputs fits in a file of 1 MB; its PLDA in no memory."""
    size = 250_000
    weights = table({"lda_stage.W": tensor("0", size, (1, size), (size, 1))})
    pickled = whole(model=weights, in_dim=b"K\1", config=b"}")
    (tmp_path / "x.pth").write_bytes(archived(pickled, **{"0": bytes(4 * size)}))
    with pytest.raises(ModelError, match="'lda_stage.b' is missing"):
        import_checkpoint(tmp_path / "x.pth")
