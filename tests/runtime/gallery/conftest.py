"""A joint model and two places that it is adapted to."""

import pytest
from joint_models import joint_bundle, place_pool

from dcaplda.runtime import Backend


@pytest.fixture(scope="module")
def parent(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


@pytest.fixture(scope="module")
def places(parent: Backend) -> dict[str, Backend]:
    return {
        "office": parent.adapted(place_pool(20, seed=50)),
        "phone": parent.adapted(place_pool(8, seed=51) + 0.5),
    }
