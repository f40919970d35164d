"""The Slurm that the tests of this folder share."""

from collections.abc import Iterator

import pytest
from slurm_site import SlurmSite, why_not


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmSite]:
    """A running Slurm; skips where it is not installed."""
    reason = why_not()
    if reason:
        pytest.skip(f"no Slurm: {reason}")
    site = SlurmSite()
    try:
        site.start()
        yield site
    finally:
        site.stop()
