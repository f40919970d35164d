"""A bundle whose scores pass through a calibration: any model's graphs, with a few nodes more.

Affine: llr = alpha s + beta (paper, eq. 16). By durations: alpha and beta are quadratic forms of
x = log seconds of both sides (eq. 21, 22), and a voiceprint carries its x in one more column.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from dcaplda.export.bundle_files import write_bundle
from dcaplda.export.graphs import names
from dcaplda.export.graphs.onnx_ops import Graph, OnnxOps, Symbol
from dcaplda.runtime.bundle.agreement import read_graph
from dcaplda.runtime.bundle.manifest import ModelInfo, read_info
from dcaplda.runtime.errors import ModelError

SCORED = "scored_by"
"""Key of model.json: what a calibration was fitted on."""
FIRST_VERSION = 3
"""Bundles of before have branches in their graphs."""


@dataclass(frozen=True)
class ScoreMap:
    """Coefficients of alpha and beta: one each, or four of a form of durations."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]
    centre: float = 0.0
    low: float = 0.0
    high: float = 0.0
    """Of log seconds less centre, which are clipped to these."""

    @property
    def timed(self) -> bool:
        """Whether durations count."""
        return len(self.scale) > 1


def write_calibrated(
    source: str | Path, target: str | Path, score_map: ScoreMap, told: Mapping[str, Any]
) -> None:
    """The bundle in `source` with calibrated LLRs; `told` goes into model.json."""
    info = read_info(source)
    _check(source, info, score_map)
    inner = {name: onnx.load_from_string(read_graph(source, info, name)) for name in info.graphs}
    builder = _Builder(info, score_map)
    graphs = {name: builder.graph(name, model) for name, model in inner.items()}
    manifest: dict[str, Any] = json.loads(json.dumps(info.manifest))
    for key in ("format", "format_version", "producer", "graphs", "opset"):
        manifest.pop(key, None)
    manifest["calibration"] = {SCORED: dict(told)}
    manifest["uses_durations"] = info.uses_durations or score_map.timed
    manifest["voiceprint_dim"] = builder.width
    write_bundle(target, graphs, manifest)


def _check(source: str | Path, info: ModelInfo, score_map: ScoreMap) -> None:
    if info.joint is not None:
        raise ModelError(
            f"{source}: a joint model is calibrated by its training; adapt it to a place instead"
        )
    if info.version < FIRST_VERSION:
        raise ModelError(f"{source}: a bundle of version {info.version}; export or import it again")
    if score_map.timed and SCORED in (info.manifest.get("calibration") or {}):
        raise ModelError(f"{source}: is calibrated already; calibrate the bundle it was made of")


SIDES = names.ENROLL, names.PREPARED, names.TEST
"""Inputs that are voiceprints; with durations the last value of each is the side's x."""


class _Builder:
    """Graphs of one bundle, each around the one of before."""

    def __init__(self, info: ModelInfo, score_map: ScoreMap) -> None:
        self._info, self._map = info, score_map
        self.width = info.voiceprint_dim + score_map.timed
        self._facts = {
            "variant": info.variant,
            "embedding_dim": info.embedding_dim,
            "voiceprint_dim": self.width,
            "uses_durations": info.uses_durations or score_map.timed,
        }

    def graph(self, name: str, model: onnx.ModelProto) -> onnx.ModelProto:
        """The graph of this name around an old one."""
        makes = name in (names.VOICEPRINT, names.AVERAGE, names.PREPARE)
        if makes and not self._map.timed:
            return model
        graph = Graph(name)
        ops = OnnxOps(graph)
        ports = {port.name: self._input(graph, port) for port in model.graph.input}
        given, logs = dict(ports), {}
        for key, symbol in ports.items():
            if self._map.timed and key in SIDES:
                given[key], logs[key] = ops.split(symbol, [self.width - 1, 1])
            elif self._map.timed and key.endswith(names.DURATIONS):
                logs[key] = self._logs(ops, symbol)
        found = graph.include(model, given)
        if name == names.PREPARE:
            ready = ops.concat([found[names.PREPARED], logs[names.ENROLL]])
            graph.output(names.PREPARED, ready, ["E", self.width])
        elif makes:
            values = logs[names.DURATIONS]
            if name == names.AVERAGE:
                values = ops.group_means(values, 1, ports[names.GROUPS])
            made = ops.concat([found[names.VOICEPRINTS], values])
            rows = "G" if name == names.AVERAGE else "N"
            graph.output(names.VOICEPRINTS, made, [rows, self.width])
        else:
            for port in model.graph.output:
                value = found[port.name]
                if port.name == names.LLRS:
                    value = self._calibrated(ops, name, value, logs)
                graph.output(port.name, value, _sizes(port))
        return graph.build(model.graph.doc_string, self._facts)

    def _input(self, graph: Graph, port: onnx.ValueInfoProto) -> Symbol:
        sizes = _sizes(port)
        if port.name == names.GROUPS:
            return graph.indices(port.name, str(sizes[0]))
        if port.name in SIDES:
            sizes[1] = self.width
        return graph.input(port.name, sizes)

    def _logs(self, ops: OnnxOps, seconds: Symbol) -> Symbol:
        """x of seconds (n,), as a column."""
        far = ops.log(ops.stack([seconds])) - self._map.centre
        return ops.graph.node("Max", ops.graph.node("Min", far, self._map.high), self._map.low)

    def _calibrated(
        self, ops: OnnxOps, name: str, scores: Symbol, logs: Mapping[str, Symbol]
    ) -> Symbol:
        """alpha s + beta in the shape of the scores."""
        if not self._map.timed:
            return scores * self._map.scale[0] + self._map.shift[0]
        keys = names.ENROLL, names.PREPARED, names.ENROLL_PREFIX + names.DURATIONS
        x = next(logs[key] for key in keys if key in logs)
        y = next(value for key, value in logs.items() if value is not x)
        form = self._rows if name in (names.PAIRS, names.VERIFY) else self._matrix
        if name == names.SEARCH:
            x, y = y, x
        return form(ops, self._map.scale, x, y) * scores + form(ops, self._map.shift, x, y)

    def _matrix(self, ops: OnnxOps, c: tuple[float, ...], x: Symbol, y: Symbol) -> Symbol:
        """The form of every row of x with every row of y."""
        one = ops.ones_like
        left = ops.concat([_own(c, x) + c[0], one(x), x * c[3]])
        return ops.products(left, ops.concat([one(y), _own(c, y), y]))

    def _rows(self, ops: OnnxOps, c: tuple[float, ...], x: Symbol, y: Symbol) -> Symbol:
        """The form row by row; a single y goes with every x."""
        return ops.flatten(_own(c, x) + _own(c, y) + x * y * c[3] + c[0])


def _own(c: tuple[float, ...], x: Symbol) -> Symbol:
    return (x * c[2] + c[1]) * x


def _sizes(port: onnx.ValueInfoProto) -> list[int | str]:
    dims = port.type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]
