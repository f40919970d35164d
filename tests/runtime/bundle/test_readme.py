"""The card of a bundle: from model.json, with what hubs read at its top."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from bundles import edit_manifest
from golden import EXTRACTS
from joint_models import joint_bundle, place_pool
from random_models import DIM, random_model, statistics

from dcaplda.export.bundle_writer import export_model
from dcaplda.export.importers.kaldi import read_backend
from dcaplda.export.importers.kaldi_bundle import export_backend
from dcaplda.runtime import Backend
from dcaplda.runtime.adaptation import adapt_bundle, write_adaptation
from dcaplda.runtime.bundle.checksums import SUMS, parse_sums, sha256
from dcaplda.runtime.bundle.readme import readme

pytestmark = pytest.mark.torch


def card(directory: Path) -> str:
    text = (directory / "README.md").read_text(encoding="utf-8")
    listed = parse_sums((directory / SUMS).read_bytes(), "sums")["README.md"]
    assert listed == sha256((directory / "README.md").read_bytes())
    top = re.match(r"---\n(.*?)\n---\n\n# ", text, flags=re.S)
    assert top and "library_name: dcaplda" in top[1] and "- speaker-verification" in top[1]
    return text


def test_a_trained_model_tells_what_it_was_trained_on(tmp_path: Path) -> None:
    model = random_model("d-plda-dsd")
    x = np.random.default_rng(0).standard_normal((200, DIM)).astype(np.float32)
    training = {**statistics(model, x), "speakers": 1200, "utterances": 34567}
    training |= {"domains": ["tele|phone", "<b>mic</b>\nx"], "durations": {"min": 1.5, "max": 60.0}}
    export_model(model, tmp_path / "b", training)
    text = card(tmp_path / "b")
    assert "(d-plda-dsd)" in text and "1,200 speakers, 34,567 utterances" in text
    assert "| seconds of speech | 1.5 to 60 |" in text
    assert r"tele\|phone, \<b\>mic\</b\> x" in text, "names cannot break the table"
    assert f"(n, {DIM}), seconds of speech (n,)" in text
    assert "scored with a warning" in text


def test_imported_and_adapted_models_say_so(tmp_path: Path) -> None:
    files = (f"{EXTRACTS}/kaldi/{name}" for name in ("plda", "transform.mat", "mean.vec"))
    export_backend(read_backend(*files), tmp_path / "kaldi")
    text = card(tmp_path / "kaldi")
    assert "cannot warn" in text and "may not be calibrated" in text and "seconds of" in text
    source = joint_bundle(tmp_path / "joint")
    assert "adapted" not in card(source)
    info = Backend.load(source).info
    write_adaptation(adapt_bundle(source, info, place_pool(9)), tmp_path / "place")
    assert "| adapted to a place | 9 utterances of about" in card(tmp_path / "place")


def test_the_example_on_the_card_runs(tmp_path: Path) -> None:
    export_model(random_model("d-plda-dsd"), tmp_path / "b")
    code = re.search(r"```python\n(.*?)```", card(tmp_path / "b"), flags=re.S)
    assert code
    rng = np.random.default_rng(1)
    names = {"embeddings": rng.standard_normal((2, DIM)), "seconds": [3.0, 4.0]}
    names["embedding"] = rng.standard_normal(DIM)
    exec(code[1].replace("path/to/this/folder", str(tmp_path / "b")), names)  # noqa: S102


@pytest.mark.parametrize("training", [None, 3, "x", [], {"domains": None}, {"durations": {}}])
def test_any_model_json_has_a_card(small_bundle, training) -> None:
    manifest = json.loads((small_bundle / "model.json").read_text())
    assert readme({**manifest, "training": training, "familiarity": training})
    assert readme({})


def test_an_edited_card_changes_no_score(small_bundle, tmp_path) -> None:
    import shutil

    copy = Path(shutil.copytree(small_bundle, tmp_path / "copy"))
    (copy / "README.md").write_text("mine")
    edit_manifest(copy, lambda manifest: None)
    one, other = (Backend.load(path).info.fingerprint for path in (small_bundle, copy))
    assert one == other
