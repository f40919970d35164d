"""Bundles of before: tests/data/bundles/version-2 was written when voiceprint.onnx averaged."""

import shutil

import numpy as np
import pytest
from golden import EXTRACTS
from random_models import random_model

from dcaplda.runtime import Backend, Gallery

OLD = EXTRACTS / "bundles" / "version-2"
GROUPS = [0, 0, 1, 1, 1, 2]


@pytest.fixture
def expected():
    """What the program of its time made of six utterances."""
    with np.load(EXTRACTS / "bundles" / "version-2-expected.npz") as content:
        yield {name: content[name] for name in content.files}


def test_a_bundle_of_version_2_works_as_it_did(expected) -> None:
    backend = Backend.load(OLD)
    embeddings, seconds = expected["embeddings"], expected["seconds"]
    singles = backend.voiceprints(embeddings, seconds)
    grouped = backend.voiceprints(embeddings, seconds, groups=GROUPS)
    np.testing.assert_allclose(singles, expected["voiceprints"], atol=1e-5)
    np.testing.assert_allclose(grouped, expected["grouped"], atol=1e-5)
    np.testing.assert_allclose(backend.compare(grouped, singles), expected["llrs"], atol=1e-4)


def test_its_galleries_still_know_it(expected, tmp_path) -> None:
    """The fingerprint, which its galleries have noted, is that of its time."""
    copy = shutil.copytree(OLD, tmp_path / "bundle")
    backend = Backend.load(copy)
    assert backend.info.fingerprint == str(expected["fingerprint"])
    with Gallery.open(tmp_path / "gallery.db", backend) as gallery:
        gallery.add("ann", expected["voiceprints"][:1])
        assert gallery.search(expected["voiceprints"][:1], 1)[0].speaker == "ann"


@pytest.mark.torch
def test_an_export_of_today_makes_the_same_voiceprints(expected, tmp_path) -> None:
    """The same model, now with average.onnx: old voiceprints are as good as new ones."""
    from dcaplda.export.bundle_writer import export_model

    sizes = {"embedding_dim": 16, "lda_dim": 6, "side_hidden_dim": 5, "side_info_dim": 2}
    export_model(random_model("d-plda-dsd", **sizes), tmp_path / "bundle")
    backend = Backend.load(tmp_path / "bundle")
    assert (tmp_path / "bundle/average.onnx").is_file()
    inputs = expected["embeddings"], expected["seconds"]
    made = backend.voiceprints(*inputs), backend.voiceprints(*inputs, groups=GROUPS)
    np.testing.assert_allclose(made[0], expected["voiceprints"], atol=1e-5)
    np.testing.assert_allclose(made[1], expected["grouped"], atol=1e-5)
