"""The shape of a model: which stages it has and how large they are."""

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.fields import shown, typed

LARGEST = 1 << 20
"""Size of a layer that no backend reaches."""
ACTIVATIONS = ("identity", "softmax", "log-softmax")


@dataclass(frozen=True)
class Variant:
    """One of the paper's eight systems."""

    frozen: bool
    """LDA and PLDA keep their generative values; only calibration is trained."""
    duration_stage: bool
    """Calibration depends on the durations (eq. 21, 22)."""
    side_stage: bool
    """Calibration depends on side-information (eq. 17-20)."""


VARIANTS = {
    prefix + suffix: Variant(frozen=prefix == "plda", duration_stage=duration, side_stage=side)
    for prefix in ("plda", "d-plda")
    for suffix, duration, side in (
        ("", False, False),
        ("-dd", True, False),
        ("-sd", False, True),
        ("-dsd", True, True),
    )
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Architecture of a backend; saved as JSON beside its weights."""

    embedding_dim: int
    """Values of an embedding (D)."""
    variant: str = "d-plda-dsd"
    """One of the eight names in VARIANTS."""
    lda_dim: int = 300
    """Rows of the LDA projection (R)."""
    side_hidden_dim: int = 200
    """Rows of the first side-information layer (M, eq. 20)."""
    side_info_dim: int = 6
    """Values of the side-information vector (Z, eq. 19)."""
    side_activation: str = "identity"
    """f of eq. 19: identity, softmax or log-softmax."""
    duration_feature: str = "wlog"
    """Name in the registry of durations.py."""
    duration_parameters: dict[str, Any] = field(default_factory=dict)
    """What the duration feature takes besides the seconds; its own defaults where empty."""
    joint: bool = False
    """The score has axes of its own (axes.py), and the duration stage also sees how many
    utterances a side has and how well its place is known."""
    recordings: bool = False
    """A joint model has scale and shift for utterances of one recording too."""
    trained_places: int = 0
    """Places of training that a joint model keeps, to know them again."""

    def __post_init__(self) -> None:
        """Refuse sizes and names that no model can have."""
        for name in ("embedding_dim", "lda_dim", "side_hidden_dim", "side_info_dim"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
                wanted = f"expected a whole number from 1 to {LARGEST}"
                raise ModelError(f"{name} = {shown(value)}: {wanted}")
        _one_of("variant", self.variant, VARIANTS)
        _one_of("side_activation", self.side_activation, ACTIVATIONS)
        places = self.trained_places
        if not isinstance(places, int) or isinstance(places, bool) or not 0 <= places <= LARGEST:
            raise ModelError(
                f"trained_places = {shown(places)}: expected a whole number from 0 to {LARGEST}"
            )
        if places and not self.joint:
            raise ModelError(f"trained_places = {places}: takes a joint model (joint = true)")
        if self.recordings and not self.joint:
            raise ModelError("recordings = true: takes a joint model (joint = true)")
        if self.joint and (self.stages.side_stage or not self.stages.duration_stage):
            raise ModelError(
                f"joint = true with variant = '{self.variant}': several utterances and places are "
                "calibrated by the duration stage alone; use plda-dd or d-plda-dd"
            )

    @property
    def stages(self) -> Variant:
        """Which stages the variant has."""
        return VARIANTS[self.variant]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any, place: str = "model configuration") -> "ModelConfig":
        """Build from parsed JSON or TOML; an unknown key is an error that names the nearest."""
        if not isinstance(values, Mapping):
            raise ModelError(f"{place}: no table of settings")
        known = [f.name for f in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(known)}"
                raise ModelError(f"{place}: no key '{name}'{hint}")
        if "embedding_dim" not in values:
            raise ModelError(f"{place}: 'embedding_dim' is missing")
        hints = typing.get_type_hints(cls)
        try:
            return cls(
                **{key: typed(it, hints[key], key, ModelError) for key, it in values.items()}
            )
        except ModelError as error:
            raise ModelError(f"{place}: {error}") from None


def _one_of(key: str, value: str, known: Any) -> None:
    if value not in known:
        near = difflib.get_close_matches(str(value), list(known), n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
        raise ModelError(f"{key} = '{value}' is unknown; {hint}")
