"""Symbolic tensors that record ONNX nodes: the same `ops` as train/model/ops.py, for graphs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from dcaplda.export.graphs.names import IR_VERSION, OPSET, doc


class Symbol:
    """A value inside a graph under construction."""

    def __init__(self, graph: "Graph", name: str) -> None:
        self.graph = graph
        self.name = name

    def _binary(self, op: str, left: Any, right: Any) -> "Symbol":
        return self.graph.node(op, left, right)

    def __add__(self, other: Any) -> "Symbol":
        return self._binary("Add", self, other)

    def __radd__(self, other: Any) -> "Symbol":
        return self._binary("Add", other, self)

    def __sub__(self, other: Any) -> "Symbol":
        return self._binary("Sub", self, other)

    def __rsub__(self, other: Any) -> "Symbol":
        return self._binary("Sub", other, self)

    def __mul__(self, other: Any) -> "Symbol":
        return self._binary("Mul", self, other)

    def __rmul__(self, other: Any) -> "Symbol":
        return self._binary("Mul", other, self)

    def __truediv__(self, other: Any) -> "Symbol":
        return self._binary("Div", self, other)

    def __matmul__(self, other: Any) -> "Symbol":
        return self._binary("MatMul", self, other)


class Graph:
    """Collects nodes, constants, inputs and outputs, and builds a checked model.

    Python and numpy numbers become float32 constants; equal constants are stored once.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}

    def input(self, name: str, shape: Sequence[int | str]) -> Symbol:
        """Declare a float input; a string in its shape is a free size."""
        self._inputs.append(_port(name, TensorProto.FLOAT, shape))
        return Symbol(self, name)

    def indices(self, name: str, size: str) -> Symbol:
        """Declare an input of whole numbers."""
        self._inputs.append(_port(name, TensorProto.INT64, [size]))
        return Symbol(self, name)

    def output(self, name: str, value: Symbol, shape: Sequence[int | str]) -> None:
        """Declare an output."""
        self._nodes.append(helper.make_node("Identity", [value.name], [name], f"output_{name}"))
        self._outputs.append(_port(name, TensorProto.FLOAT, shape))

    def constant(self, value: Any, dtype: Any = np.float32) -> Symbol:
        """A constant tensor."""
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = numpy_helper.from_array(array, name)
        return Symbol(self, self._constants[key].name)

    def named(self, name: str, value: NDArray[np.float32]) -> Symbol:
        """A float constant under a name of its own, by which it can be found and replaced."""
        key = (name, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(value, name)
        return Symbol(self, name)

    def nodes(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> list[Symbol]:
        """Add a node with any number of outputs."""
        symbols = [x if isinstance(x, Symbol) else self.constant(x) for x in inputs]
        name = f"{op.lower()}_{len(self._nodes)}"
        names = [f"{name}_{i}" for i in range(outputs)]
        node = helper.make_node(op, [s.name for s in symbols], names, name, **attributes)
        self._nodes.append(node)
        return [Symbol(self, name) for name in names]

    def node(self, op: str, *inputs: Any, **attributes: Any) -> Symbol:
        """Add a node with one output."""
        return self.nodes(op, *inputs, **attributes)[0]

    def include(self, model: onnx.ModelProto, inputs: Mapping[str, Symbol]) -> dict[str, Symbol]:
        """The nodes of a finished graph as a part of this one; its outputs by name."""
        inner = model.graph
        known = {name: symbol.name for name, symbol in inputs.items()}
        for tensor in inner.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = known[tensor.name] = f"inner_{tensor.name}"
            self._constants[copy.name, tuple(copy.dims), b""] = copy
        for node in inner.node:
            made = onnx.NodeProto()
            made.CopyFrom(node)
            made.name = f"inner_{node.name}"
            known |= {name: f"inner_{name}" for name in node.output}
            made.input[:] = [known[name] for name in node.input]
            made.output[:] = [known[name] for name in node.output]
            self._nodes.append(made)
        return {port.name: Symbol(self, known[port.name]) for port in inner.output}

    def build(self, about: str, facts: Mapping[str, object]) -> onnx.ModelProto:
        """The finished model, checked by the onnx package; `facts` are its metadata_props."""
        constants = list(self._constants.values())
        model = helper.make_model(
            helper.make_graph(
                self._nodes, self.name, self._inputs, self._outputs, constants, doc_string=about
            ),
            producer_name="dcaplda",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )
        told = {"graph": self.name, **facts, "llr": "natural logarithm", "durations": "seconds"}
        helper.set_model_props(model, {f"dcaplda.{key}": str(told[key]) for key in sorted(told)})
        onnx.checker.check_model(model, full_check=True)
        return model


def _port(name: str, kind: int, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape), doc_string=doc(name))


class OnnxOps:
    """The operations of train/model/ops.py and the few more that the graphs need."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def log(self, x: Symbol) -> Symbol:
        """Natural logarithm."""
        return self.graph.node("Log", x)

    def sigmoid(self, x: Symbol) -> Symbol:
        """1 / (1 + exp(-x))."""
        return self.graph.node("Sigmoid", x)

    def softmax(self, x: Symbol) -> Symbol:
        """Softmax over each row."""
        return self.graph.node("Softmax", x, axis=1)

    def log_softmax(self, x: Symbol) -> Symbol:
        """Logarithm of the softmax over each row."""
        return self.graph.node("LogSoftmax", x, axis=1)

    def above(self, x: Symbol, threshold: float) -> Symbol:
        """1.0 where x > threshold, else 0.0."""
        return self.graph.node(
            "Cast", self.graph.node("Greater", x, threshold), to=TensorProto.FLOAT
        )

    def stack(self, columns: Sequence[Symbol]) -> Symbol:
        """Vectors of n values to a matrix with these columns."""
        axis = self.graph.constant([1], np.int64)
        return self.concat([self.graph.node("Unsqueeze", column, axis) for column in columns])

    def normalize(self, x: Symbol, width: int) -> Symbol:
        """Each row of `width` values divided by its Euclidean length."""
        return x / self.graph.node("Sqrt", self.squared_lengths(x, width))

    def squared_lengths(self, x: Symbol, width: int) -> Symbol:
        """Squared Euclidean length of each row of `width` values, as a column."""
        return self.row_sum(x * x, width)

    def normalize_blocks(self, x: Symbol, widths: Sequence[int]) -> Symbol:
        """Each row's blocks, so many columns wide, divided by their own Euclidean lengths.

        The same number of nodes for any number of blocks: lengths are found, and brought back
        to their columns, by products with a matrix of zeros and ones.
        """
        if len(widths) == 1:
            return self.normalize(x, widths[0])
        member = np.repeat(np.eye(len(widths)), widths, axis=0)
        lengths = self.graph.node("Sqrt", (x * x) @ self.graph.constant(member))
        return x / (lengths @ self.graph.constant(member.T))

    def concat(self, parts: Sequence[Symbol]) -> Symbol:
        """Matrices side by side."""
        return parts[0] if len(parts) == 1 else self.graph.node("Concat", *parts, axis=1)

    def split(self, x: Symbol, widths: Sequence[int]) -> list[Symbol]:
        """The inverse of concat."""
        if len(widths) == 1:
            return [x]
        sizes = self.graph.constant(list(widths), np.int64)
        return self.graph.nodes("Split", x, sizes, outputs=len(widths), axis=1)

    def affine(self, x: Symbol, weight: NDArray[Any], bias: NDArray[Any] | Symbol) -> Symbol:
        """x A' + b with A (out, in)."""
        return self.graph.node("Gemm", x, np.transpose(weight), bias)

    def products(self, left: Symbol, right: Symbol, added: Symbol | None = None) -> Symbol:
        """Dot product of every row on the left with every row on the right, added to what is."""
        inputs = (left, right) if added is None else (left, right, added)
        return self.graph.node("Gemm", *inputs, transB=1)

    def row_sum(self, x: Symbol, width: int) -> Symbol:
        """Sum over each row of `width` values, kept as a column.

        A product with ones: onnxruntime's ReduceSum adds in an order that depends on where a
        row lies in memory, so an utterance's voiceprint would depend on its place in a batch.
        """
        return x @ self.graph.constant(np.ones((width, 1)))

    def ones_like(self, x: Symbol) -> Symbol:
        """Ones of the same shape."""
        one = numpy_helper.from_array(np.ones(1, dtype=np.float32))
        return self.graph.node("ConstantOfShape", self.graph.node("Shape", x), value=one)

    def columns(self, x: Symbol, indices: Sequence[int]) -> Symbol:
        """A few columns by number."""
        return self.graph.node("Gather", x, self.graph.constant(list(indices), np.int64), axis=1)

    def _range(self, x: Symbol, begin: int, end: int, axis: int) -> Symbol:
        edges = (self.graph.constant([edge], np.int64) for edge in (begin, end, axis))
        return self.graph.node("Slice", x, *edges)

    def rows(self, x: Symbol, begin: int, end: int) -> Symbol:
        """Neighbouring rows."""
        return self._range(x, begin, end, 0)

    def column_range(self, x: Symbol, begin: int, end: int) -> Symbol:
        """Neighbouring columns."""
        return self._range(x, begin, end, 1)

    def split_rows(self, x: Symbol, count: int) -> list[Symbol]:
        """All rows, each as a matrix of one row."""
        if count == 1:
            return [x]
        return self.graph.nodes("Split", x, outputs=count, axis=0)

    def flatten(self, x: Symbol) -> Symbol:
        """A matrix of one column as a vector."""
        return self.graph.node("Squeeze", x, self.graph.constant([1], np.int64))

    def group_means(self, x: Symbol, width: int, groups: Symbol) -> Symbol:
        """Mean of the rows of x (n, width) that share a number; all from 0 to the highest occur."""
        graph = self.graph
        one, first = graph.constant(1, np.int64), graph.constant([0], np.int64)
        top = graph.node("ReduceMax", groups, keepdims=0)
        count = graph.node("Unsqueeze", graph.node("Add", top, one), first)
        # A column of ones is summed along with the rows, so that one node also counts them.
        counted = self.concat([x, self.ones_like(self.columns(x, [0]))])
        shape = graph.node("Concat", count, graph.constant([width + 1], np.int64), axis=0)
        none = numpy_helper.from_array(np.zeros(1, dtype=np.float32))
        zeros = graph.node("ConstantOfShape", shape, value=none)
        place = graph.node("Unsqueeze", groups, graph.constant([1], np.int64))
        sums = graph.node("ScatterND", zeros, place, counted, reduction="add")
        total, members = self.split(sums, [width, 1])
        return total / members
