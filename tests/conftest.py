"""Fixtures shared by the tests: seeds, random models, exported bundles."""

import os
import signal

# Two test workers on two cores: numeric libraries must not start threads of their own.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(variable, "1")
# A shell's background job is deaf to Ctrl-C, and so would be the children that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# CI draws the same examples every time; at a desk every run looks somewhere else.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture(scope="session")
def small_bundle(tmp_path_factory: pytest.TempPathFactory):
    """A d-plda-dsd bundle of 24-dimensional embeddings; its directory."""
    from random_models import random_model

    from dcaplda.export.bundle_writer import export_model

    directory = tmp_path_factory.mktemp("bundle") / "model"
    export_model(random_model("d-plda-dsd"), directory)
    return directory


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of our own, as postgres_server.Server."""
    from postgres_server import running_server, why_not

    if why_not():
        pytest.skip(why_not())
    with running_server() as server:
        yield server
