"""What an extractor's graph says of itself: its inputs and output, and sherpa-onnx's metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dcaplda.audio.network.settings import (
    KINDS,
    MEAN,
    MEAN_VARIANCE,
    NORMALIZATIONS,
    WAVEFORM,
    Asked,
    Features,
    Settings,
)
from dcaplda.runtime.errors import ExtractorError

EMBEDDINGS = ("embs", "embedding", "embeddings", "emb", "xvector", "xvectors")
"""Names that tell an embedding among several outputs."""
_NORMALIZED = {"global-mean": MEAN, "per_feature": MEAN_VARIANCE}
_FLOAT = "tensor(float)"
_WHOLE = {"tensor(int64)": "int64", "tensor(int32)": "int32"}


@dataclass(frozen=True)
class Form:
    """Which tensors a graph takes and gives."""

    signal: str
    """Input of features or samples."""
    axes: str
    """Its axes: B batch, T frames, F features, N samples, 1 a channel."""
    bins: int | None
    """Features of a frame, where the graph says it."""
    lengths: str
    """Input of the number of frames or samples; empty where there is none."""
    lengths_type: str
    output: str

    @property
    def takes_samples(self) -> bool:
        """Whether the graph makes its features itself."""
        return "N" in self.axes


def form_of(session: Any, asked: Asked, place: str) -> Form:
    """The tensors of a graph; an error tells what cannot be known."""
    inputs = session.get_inputs()
    signals = [item for item in inputs if item.type == _FLOAT]
    lengths = [item for item in inputs if item.type in _WHOLE and len(item.shape) <= 1]
    told = ", ".join(f"{item.name} {_shown(item.shape)} {item.type}" for item in inputs)
    if len(signals) != 1 or len(lengths) > 1 or len(signals) + len(lengths) != len(inputs):
        raise ExtractorError(
            f"{place}: takes {told or 'nothing'}; expected one float input (features or samples) "
            "and at most one of lengths"
        )
    (signal,) = signals
    axes, bins = _axes(list(signal.shape), asked, f"{place}: takes {told}")
    return Form(
        signal=signal.name,
        axes=axes,
        bins=bins,
        lengths=lengths[0].name if lengths else "",
        lengths_type=_WHOLE[lengths[0].type] if lengths else "",
        output=_output(session, asked, place),
    )


def _axes(shape: list[Any], asked: Asked, told: str) -> tuple[str, int | None]:
    """Axes of the signal, and its features where they are features."""
    fixed = [size if isinstance(size, int) and size > 1 else None for size in shape]
    wants_samples = asked.kind == WAVEFORM
    if len(shape) == 1 and fixed == [None]:
        return "N", None
    if len(shape) == 2:
        if fixed == [None, None]:
            return "BN", None
        if fixed[0] is None and not wants_samples:
            return "TF", fixed[1]
    if len(shape) == 3 and fixed[0] is None:
        if fixed[1:] == [None, None]:
            # [B, 1, N] is a waveform; with nothing fixed only the user can tell.
            if shape[1] == 1 or wants_samples:
                return "B1N", None
            if asked.mel_bins:
                return "BTF", None
            raise ExtractorError(
                f"{told}: cannot tell features from samples; give --kind=waveform, or "
                "--mel-bins=80 for features [B, T, 80]"
            )
        if fixed[1] is None and not wants_samples:
            return "BTF", fixed[2]
        if fixed[2] is None and not wants_samples:
            return "BFT", fixed[1]
    if wants_samples:
        raise ExtractorError(f"{told}: takes no samples; leave out --kind=waveform")
    raise ExtractorError(
        f"{told}: expected [B, T, features], [B, features, T] or samples [B, N] of any length; "
        "export it with a dynamic axis of time"
    )


def _output(session: Any, asked: Asked, place: str) -> str:
    names = [item.name for item in session.get_outputs()]
    if asked.output:
        if asked.output not in names:
            raise ExtractorError(
                f"{place}: has no output '{asked.output}'; it has {', '.join(names)}"
            )
        return asked.output
    likely = [name for name in names if name.lower() in EMBEDDINGS]
    if len(names) == 1 or len(likely) == 1:
        return (likely or names)[0]
    raise ExtractorError(
        f"{place}: has outputs {', '.join(names)}; name the embedding by --output=NAME"
    )


def settings_of(form: Form, metadata: Mapping[str, str], asked: Asked, place: str) -> Settings:
    """How samples become the graph's input: by the user, else by metadata, else by the kind."""
    framework = metadata.get("framework", "")
    kind = asked.kind or (framework if framework in KINDS else "")
    if form.takes_samples:
        return _of_samples(metadata, asked, place)
    if kind == WAVEFORM:
        raise ExtractorError(f"{place}: takes features; kind waveform is for samples")
    base = KINDS.get(kind)
    rate = asked.sample_rate or _number(metadata, "sample_rate", place)
    normalize = asked.feature_normalize or _normalization(metadata, place)
    if base is None:
        if not rate or not normalize:
            shape = f"{form.signal} [{', '.join(form.axes)}]".replace("F", str(form.bins or "F"))
            lacking = [
                *(() if rate else ("--sample-rate=N",)),
                *(() if normalize else (f"--feature-normalize={'|'.join(NORMALIZATIONS)}",)),
            ]
            raise ExtractorError(
                f"{place}: takes {shape}, and does not say how they are made; give "
                f"{' or '.join(f'--kind={name}' for name in KINDS)}, or {' and '.join(lacking)}"
            )
        base = Settings(kind="custom", sample_rate=rate, features=Features(), normalize=normalize)
    scale = asked.sample_scale
    if scale is None and "normalize_samples" in metadata:
        scale = 1.0 if _number(metadata, "normalize_samples", place) else 32768.0
    assert base.features is not None
    return replace(
        base,
        sample_rate=rate or base.sample_rate,
        sample_scale=base.sample_scale if scale is None else scale,
        features=_features(base.features, form, metadata, asked, place),
        normalize=normalize or base.normalize,
    )


def _of_samples(metadata: Mapping[str, str], asked: Asked, place: str) -> Settings:
    for name, value in (
        ("--feature-normalize", asked.feature_normalize),
        ("--window", asked.window),
        ("--mel-bins", asked.mel_bins),
    ):
        if value:
            raise ExtractorError(f"{place}: takes samples, and makes its features: no {name}")
    rate = asked.sample_rate or _number(metadata, "sample_rate", place)
    if not rate:
        raise ExtractorError(
            f"{place}: takes samples, and does not say at which rate; give --sample-rate=N "
            "(16000 for most)"
        )
    return Settings(kind=WAVEFORM, sample_rate=rate, sample_scale=asked.sample_scale or 1.0)


def _features(
    base: Features, form: Form, metadata: Mapping[str, str], asked: Asked, place: str
) -> Features:
    bins = asked.mel_bins or _number(metadata, "feat_dim", place) or form.bins or base.bins
    if form.bins is not None and bins != form.bins:
        raise ExtractorError(
            f"{place}: takes {form.bins} features a frame; {bins} are asked for or in its metadata"
        )
    return replace(
        base,
        bins=bins,
        window=asked.window or metadata.get("window_type") or base.window,
        frame_length=float(_number(metadata, "window_size_ms", place) or base.frame_length),
        frame_shift=float(_number(metadata, "window_stride_ms", place) or base.frame_shift),
    )


def _number(metadata: Mapping[str, str], key: str, place: str) -> int:
    """A whole number of the metadata; 0 where it is not there."""
    text = metadata.get(key, "0").strip() or "0"
    if not text.isdecimal():
        raise ExtractorError(f"{place}: metadata {key} is {text[:40]!r}; expected a whole number")
    return int(text)


def _normalization(metadata: Mapping[str, str], place: str) -> str:
    told = metadata.get("feature_normalize_type", "")
    if told and told not in _NORMALIZED:
        raise ExtractorError(
            f"{place}: metadata feature_normalize_type is {told[:40]!r}, which is not known; give "
            f"--feature-normalize={'|'.join(NORMALIZATIONS)}"
        )
    return _NORMALIZED.get(told, "")


def _shown(shape: list[Any]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
