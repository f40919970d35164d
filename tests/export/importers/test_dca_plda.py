import io
import pickle
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
