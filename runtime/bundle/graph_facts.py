"""What an ONNX graph says of itself, read from its bytes; what no bundle needs is refused.

A graph comes from whoever made the bundle. Only plain arithmetic on constants of its own is let
through to onnxruntime: no data in other files, no loops, no functions, no operators of strangers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dcaplda.runtime.bundle.protobuf import BYTES, Field, Known, Message
from dcaplda.runtime.errors import BundleError

FLOAT, INT64 = 1, 7
"""Kinds of numbers (TensorProto.DataType)."""
_INT32 = 6
_WHOLE = {_INT32: "<i4", INT64: "<i8"}
MOST_BRANCHES = 4
"""Levels of `If` within each other; export needs one."""

OPERATORS = frozenset(
    "Abs Add And ArgMax Cast Ceil Clip Concat Constant ConstantOfShape Div Equal Erf Exp Flatten "
    "Floor Gather Gemm Greater GreaterOrEqual Identity If Less LessOrEqual Log LogSoftmax MatMul "
    "Max Mean Min Mul Neg Not Or Pow Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum "
    "Relu Reshape Round ScatterND Shape Sigmoid Sign Slice Softmax Softplus Split Sqrt Squeeze Sub "
    "Sum Tanh Transpose Unsqueeze Where".split()
)
"""What a graph may compute with; no operator here runs for longer than its inputs are large."""

# Numbers of the fields that export-onnx writes, and of those that mean nothing (names, notes).
_MODEL = Known.of("1 2 3 4 5 6 7", "8 14")
_IMPORT = Known.of("1 2")
_GRAPH = Known.of("2 10", "1 5 11 12 13 16")
_NODE = Known.of("3 4 6 7", "1 2 5")
_ATTRIBUTE = Known.of("1 2 3 4 5 6 13 20", "7 8")
_TENSOR = Known.of("2 8 9 12 14", "1 4 5 7 10 13")
_ENTRY = Known.of("1 2")
_PORT = Known.of("1 2 3", "4")
_TYPE = Known.of("1 6")
_TENSOR_TYPE = Known.of("1 2")
_SHAPE = Known.of("", "1")
_SIZE = Known.of("1 2 3")
_EXTERNAL = (13, 14)


@dataclass(frozen=True)
class Port:
    """An input or output: kind of its numbers, and its sizes, None where any will do."""

    kind: int
    sizes: tuple[int | None, ...] | None
    """None: not even the number of dimensions is told."""


@dataclass
class GraphFacts:
    """What a graph takes, gives and holds."""

    inputs: dict[str, Port] = field(default_factory=dict)
    outputs: dict[str, Port] = field(default_factory=dict)
    constants: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where the raw bytes of each constant begin and end in the file; that of an input is what it
    is if left out."""
    used: set[str] = field(default_factory=set)
    """Values that some node looks at, and not only at their shape."""
    stored: int = 0
    """Numbers in all constants."""
    largest: int = 0
    """The largest of the whole numbers among them: a size, a column."""


def read_facts(content: bytes, place: str) -> GraphFacts:
    """Look through a serialized model; BundleError where it is not a graph of a bundle."""
    facts, model = GraphFacts(), Message(content, place)
    graphs = []
    for item in model.fields(_MODEL):
        if item.number == 7:
            graphs.append(model.inner(item))
        elif item.number == 8:
            _check_operators(model.inner(item))
    if not graphs:
        raise model.damaged()
    _read_graph(graphs[0], facts, 0)
    ports = (*facts.inputs.values(), *facts.outputs.values())
    widest = max((size or 0 for port in ports for size in port.sizes or ()), default=0)
    if facts.largest > facts.stored + widest + 8:
        # Sizes of steps between, and columns of an input, are written as constants; one beyond
        # all weights and inputs is a bomb.
        raise BundleError(
            f"{place}: holds the size {facts.largest}, but only {facts.stored} numbers; export "
            "again"
        )
    return facts


def _check_operators(imported: Message) -> None:
    """Only ONNX's own set of operators, which has no name."""
    for item in imported.fields(_IMPORT):
        if item.number == 1 and imported.text(item) not in ("", "ai.onnx"):
            raise _foreign(imported, f"operators of '{imported.text(item)[:40]}'")


def _read_graph(graph: Message, facts: GraphFacts, depth: int) -> None:
    if depth > MOST_BRANCHES:
        raise graph.damaged()
    for item in graph.fields(_GRAPH):
        if item.number == 1:
            _read_node(graph.inner(item), facts, depth)
        elif item.number == 5:
            name, span = _read_tensor(graph.inner(item), facts)
            if name in facts.constants and depth == 0:
                raise graph.damaged()
            # The constants of a branch are its own; what is replaced by name lies outside.
            if depth == 0:
                facts.constants[name] = span
        elif item.number in (11, 12):
            name, port = _read_port(graph.inner(item))
            ports = facts.inputs if item.number == 11 else facts.outputs
            if depth == 0:
                if name in ports:
                    raise graph.damaged()
                ports[name] = port


def _read_node(node: Message, facts: GraphFacts, depth: int) -> None:
    inputs, operator, attributes = [], "", []
    for item in node.fields(_NODE):
        if item.number == 1:
            inputs.append(node.text(item))
        elif item.number == 4:
            operator = node.text(item)
        elif item.number == 5:
            attributes.append(node.inner(item))
        elif item.number == 7 and node.text(item) not in ("", "ai.onnx"):
            raise _foreign(node, f"an operator of '{node.text(item)[:40]}'")
    if operator not in OPERATORS:
        raise _foreign(node, f"the operator '{operator[:40]}'")
    if operator != "Shape":
        facts.used.update(inputs)
    for attribute in attributes:
        for item in attribute.fields(_ATTRIBUTE):
            if item.number == 5:
                _read_tensor(attribute.inner(item), facts)
            elif item.number == 6:
                if operator != "If":
                    raise node.damaged()
                _read_graph(attribute.inner(item), facts, depth + 1)


def _read_tensor(tensor: Message, facts: GraphFacts) -> tuple[str, tuple[int, int]]:
    """Name of a constant, and where its raw bytes lie; its numbers are counted."""
    name, kind, span, wholes = "", 0, (0, 0), [0]
    found = list(tensor.fields(_TENSOR))
    for item in found:
        if item.number == 8:
            name = tensor.text(item)
    for item in found:
        if item.number in _EXTERNAL:
            raise BundleError(
                f"{tensor.place}: the constant '{name[:40]}' has its data in another file"
                f"{_location(tensor, found)}, which is never read; export again"
            )
        if item.number == 2:
            kind = tensor.whole(item)
        elif item.number in (5, 7):
            wholes += tensor.wholes(item)
        elif item.number == 9:
            span = item.begin, item.end
    raw = tensor.content[slice(*span)]
    if kind in _WHOLE and len(raw) % np.dtype(_WHOLE[kind]).itemsize == 0 and raw:
        wholes += np.frombuffer(raw, _WHOLE[kind]).tolist()
    facts.stored += sum(item.end - item.begin for item in found if item.kind == BYTES) // 4
    facts.largest = max(facts.largest, *map(abs, wholes))
    return name, span


def _location(tensor: Message, found: list[Field]) -> str:
    """How the other file is called, where it is told."""
    for item in found:
        if item.number == 13:
            entry = tensor.inner(item)
            texts = {part.number: entry.text(part) for part in entry.fields(_ENTRY)}
            if texts.get(1) == "location":
                return f" ({texts.get(2, '')[:60]!r})"
    return ""


def _read_port(told: Message) -> tuple[str, Port]:
    """Name, kind and sizes of an input or output; only tensors are known."""
    name, port = "", Port(0, None)
    for item in told.fields(_PORT):
        if item.number == 1:
            name = told.text(item)
        elif item.number == 2:
            kind = told.inner(item)
            for inner in kind.fields(_TYPE):
                if inner.number == 1:
                    port = _tensor_port(kind.inner(inner))
    return name, port


def _tensor_port(told: Message) -> Port:
    kind, sizes = 0, None
    for item in told.fields(_TENSOR_TYPE):
        if item.number == 1:
            kind = told.whole(item)
        else:
            sizes = tuple(_sizes(told.inner(item)))
    return Port(kind, sizes)


def _sizes(shape: Message) -> Iterator[int | None]:
    for dimension in shape.fields(_SHAPE):
        inner = shape.inner(dimension)
        told = [inner.whole(item) for item in inner.fields(_SIZE) if item.number == 1]
        yield told[0] if told else None


def _foreign(message: Message, what: str) -> BundleError:
    return BundleError(
        f"{message.place}: uses {what}, which no graph of a bundle does; export again"
    )
