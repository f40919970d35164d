"""The examples of docs/embedding.md and docs/galleries.md run; formats.md names graphs' inputs."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from random_models import DIM, random_model

from dcaplda.export import parity
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend

pytestmark = pytest.mark.torch

DOCS = Path(__file__).parents[2] / "docs"
STATISTICS = {"statistics": {"durations": {"min": 10.0, "max": 240.0}}}


@pytest.mark.parametrize("page", ["embedding.md", "galleries.md"])
def test_the_examples_run(tmp_path: Path, page: str) -> None:
    """Ann's calls are alike, and she is the one whom the random model finds most like herself."""
    export_model(random_model("d-plda-dsd"), tmp_path / "model", STATISTICS)
    backend = Backend.load(tmp_path / "model")
    x, d = parity.random_side(DIM, 300, 4)
    prints, tests = backend.voiceprints(x, d), backend.voiceprints(x, np.full(300, 9.0))
    seconds = (31.0, 12.5, 20.0)
    own = [backend.compare_pairs(backend.voiceprints(x, np.full(300, s)), tests) for s in seconds]
    ann = int(np.mean(own, axis=0).argmax())
    against = backend.compare(prints, tests[ann])[:, 0]
    others = [i for i in np.argsort(-against) if against[i] < np.mean(own, axis=0)[ann] - 5]
    names = {
        "model_dir": tmp_path / "model",
        "gallery_file": tmp_path / "gallery.db",
        "three_calls": np.repeat(x[ann : ann + 1], 3, axis=0),
        "fourth_call": x[ann],
        "bobs_voiceprints": prints[others[0]],
        "eves_voiceprints": prints[others[-1]],
    }
    found = doctest.testfile(
        str(DOCS / page), module_relative=False, globs=names, optionflags=doctest.ELLIPSIS
    )
    assert found.attempted > 10
    assert found.failed == 0


def test_graphs_have_the_inputs_that_the_text_names(small_bundle: Path) -> None:
    import onnxruntime

    text = (DOCS / "formats.md").read_text()
    for graph in ("backend", "voiceprint", "pairs", "compare", "search", "verify"):
        session = onnxruntime.InferenceSession(small_bundle / f"{graph}.onnx")
        for value in (*session.get_inputs(), *session.get_outputs()):
            assert re.search(rf"`{value.name}`", text), value.name
