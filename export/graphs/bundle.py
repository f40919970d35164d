"""The graphs of a bundle, written once over the arithmetic they share.

A voiceprint is, form by form, [a, own(a), 1]: the rotated input, what the side adds by itself,
and a one. Enrolment turns its block into [weights * a, 1, own(a)], so that a plain product of
the two blocks is the whole form: a comparison is one thin matrix product per form and a few
element-wise operations.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from dcaplda.export.graphs import names
from dcaplda.export.graphs.algebra import AffineMap, Array, Compiled, DiagonalForm, compile_backend
from dcaplda.export.graphs.onnx_ops import Graph, OnnxOps, Symbol
from dcaplda.export.graphs.place import axis_block, conditions, place_symbols, placed
from dcaplda.runtime.familiarity import read_side
from dcaplda.runtime.joint.layout import BIAS, PLACE_AT, TAIL, Layout
from dcaplda.runtime.joint.scorer import LENGTHS, JointScorer
from dcaplda.train.model import durations
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.ops import activate


def voiceprint_width(compiled: Compiled) -> int:
    """Values of a voiceprint (K)."""
    layout = joint_layout(compiled)
    return layout.width if layout else sum(form.dim + 2 for form in compiled.forms())


def joint_layout(compiled: Compiled) -> Layout | None:
    """Columns of a joint model's voiceprint; None of any other."""
    if compiled.joint is None:
        return None
    assert compiled.scale_dur is not None, "a joint model has a duration stage"
    return Layout(compiled.score.dim, len(compiled.joint.quadratics), compiled.scale_dur.dim)


def _widths(compiled: Compiled) -> list[int]:
    """Columns of each form's block, then of what no form uses."""
    widths = [form.dim + 2 for form in compiled.forms()]
    layout = joint_layout(compiled)
    if layout is not None:
        widths = [layout.score, *widths[1:], layout.width - layout.tail]
    return widths


def _score_block(ops: OnnxOps, form: DiagonalForm, a: Symbol) -> list[Symbol]:
    """[a, own(a), 1] of the score's form, in three nodes."""
    products = ops.affine(a, form.auto, form.linear) * a
    rows = np.stack([np.ones(form.dim), np.zeros(form.dim)])
    return [a, ops.affine(products, rows, np.array([form.half, 1.0]))]


def _calibration_blocks(
    ops: OnnxOps, forms: Sequence[DiagonalForm], sources: Sequence[Symbol]
) -> Symbol:
    """[a, own(a), 1] of all calibration forms, two forms for each source, in seven nodes.

    The forms are small, so what costs time is the number of nodes: rotations, own parts and
    the order of columns are each one product with a constant matrix for all forms together.
    """
    dims = [form.dim for form in forms]
    ends = np.cumsum(dims)
    rotations = np.zeros((sum(dims[::2]), sum(dims)))
    auto = np.zeros((sum(dims), sum(dims)))
    owns = np.zeros((len(forms), sum(dims)))
    placing = np.zeros((sum(dims) + 2 * len(forms), sum(dims) + len(forms)))
    ones = np.zeros(len(placing))
    row, place = 0, 0
    for number, form in enumerate(forms):
        columns = slice(ends[number] - form.dim, ends[number])
        rotations[row : row + form.dim, columns] = form.basis
        auto[columns, columns] = form.auto
        owns[number, columns] = 1.0
        placing[place : place + form.dim, columns] = np.eye(form.dim)
        placing[place + form.dim, len(auto) + number] = 1.0
        ones[place + form.dim + 1] = 1.0
        row += form.dim if number % 2 else 0
        place += form.dim + 2
    a = ops.concat(sources) @ ops.graph.constant(rotations)
    products = ops.affine(a, auto, np.concatenate([form.linear for form in forms])) * a
    own = ops.affine(products, owns, np.array([form.half for form in forms]))
    return ops.affine(ops.concat([a, own]), placing, ones)


def voiceprints(
    ops: OnnxOps,
    model: Backend,
    compiled: Compiled,
    embeddings: Symbol,
    seconds: Symbol | None,
    groups: Symbol | None = None,
) -> Symbol:
    """Voiceprints (n, K) of utterances, or of groups of them averaged before any form.

    What is averaged are w, m and e (eq. 4, 20, 23-25).
    """
    config = model.config
    layers, widths = [compiled.preprocess], [config.lda_dim]
    if compiled.side_projection is not None:
        layers.append(compiled.side_projection)
        widths.append(config.side_hidden_dim)
    # Both projections are one product: for a single embedding, nodes cost as much as arithmetic.
    weight = np.concatenate([layer.weight for layer in layers])
    bias = np.concatenate([layer.bias for layer in layers])
    places = place_symbols(ops, compiled.joint) if compiled.joint is not None else {}
    reduced = ops.affine(embeddings, weight, places.get(BIAS, bias))
    joined = ops.normalize_blocks(reduced, widths)
    if places:
        reduced, known = placed(ops, places, reduced, joined)
        joined = ops.normalize(reduced, config.lda_dim)
    timed = []
    if compiled.scale_dur is not None:
        assert seconds is not None
        feature, parameters = config.duration_feature, model.duration_parameters
        timed = [durations.apply(ops, feature, parameters, seconds)]
        if compiled.joint is not None:
            sizes = (
                ops.squared_lengths(embeddings, config.embedding_dim),
                ops.squared_lengths(reduced, config.lda_dim),
            )
            lengths = _lengths(ops, compiled.joint, *sizes)
            timed = [conditions(ops, compiled.scale_dur.dim, [timed[0], lengths, known])]
    if groups is None:
        parts = ops.split(joined, widths) + timed
    else:
        widths += [compiled.scale_dur.dim] if compiled.scale_dur is not None else []
        parts = ops.split(
            ops.group_means(ops.concat([joined, *timed]), sum(widths), groups), widths
        )
    sources = []
    if compiled.scale_dur is not None:
        sources.append(parts[-1])
    if compiled.side_reduction is not None:
        side_info = ops.affine(parts[1], *_layer(compiled.side_reduction))
        sources.append(activate(ops, config.side_activation, side_info))
    if compiled.joint is not None:
        told = compiled.forms()[1].dim
        known = ops.columns(parts[-1], [told + at for at in PLACE_AT])
        blocks = axis_block(ops, compiled.joint, places, parts[0], known)
    else:
        blocks = _score_block(ops, compiled.score, parts[0])
    if sources:
        blocks.append(_calibration_blocks(ops, compiled.forms()[1:], sources))
    if places:
        once = ops.ones_like(ops.columns(blocks[0], [0] * TAIL))
        blocks += [once, sources[0]]
    return ops.concat(blocks)


def _lengths(ops: OnnxOps, joint: JointScorer, *squares: Symbol) -> Symbol:
    """Logarithms of lengths over the usual, no farther than their reach, of squared lengths."""
    far = ops.log(ops.concat(squares)) * np.full(LENGTHS, 0.5) - joint.usual
    return ops.graph.node("Max", ops.graph.node("Min", far, joint.reach), -joint.reach)


def _layer(layer: AffineMap) -> tuple[Array, Array]:
    return layer.weight, layer.bias


def combine(values: Sequence[Symbol]) -> Symbol:
    """alpha_s (alpha_d s + beta_d) + beta_s from the values of the forms."""
    llr, rest = values[0], list(values[1:])
    while rest:
        scale, shift, *rest = rest
        llr = scale * llr + shift
    return llr


def compare(ops: OnnxOps, compiled: Compiled, enroll: Symbol, test: Symbol) -> Symbol:
    """LLR of every enrolment voiceprint against every test voiceprint."""
    left = _left_blocks(ops, compiled, enroll)
    return _joined(ops, compiled, left, ops.split(test, _widths(compiled)))


def prepared(ops: OnnxOps, compiled: Compiled, enroll: Symbol) -> Symbol:
    """Enrolment voiceprints as `compare_prepared` takes them: the first half of `compare`."""
    return ops.concat(_left_blocks(ops, compiled, enroll))


def compare_prepared(ops: OnnxOps, compiled: Compiled, ready: Symbol, test: Symbol) -> Symbol:
    """The same LLRs from prepared enrolments: products and what joins them, nothing else.

    Cutting voiceprints up and putting them together costs a tenth of a comparison; who compares
    an enrolment with many tiles of tests does it once.
    """
    left, right = (ops.split(side, _widths(compiled)) for side in (ready, test))
    return _joined(ops, compiled, left, right)


def _joined(
    ops: OnnxOps, compiled: Compiled, left: Sequence[Symbol], right: Sequence[Symbol]
) -> Symbol:
    """LLRs from the blocks of both sides, one product for each form."""
    llr = ops.products(left[0], right[0])
    # A shift is added by its own product, which saves a pass over the LLRs and one over it.
    for number in range(1, len(compiled.forms()), 2):
        scaled = ops.products(left[number], right[number]) * llr
        llr = ops.products(left[number + 1], right[number + 1], scaled)
    return llr


def _left_blocks(ops: OnnxOps, compiled: Compiled, enroll: Symbol) -> list[Symbol]:
    """The enrolment's block of each form, [weights * a, 1, own(a)], then what no form uses."""
    forms = compiled.forms()
    layout = joint_layout(compiled)
    sizes = [[form.dim, 1, 1] for form in forms]
    if layout is not None:
        # The other side has weights for the sums of this one, and the other way round.
        sizes[0] += [layout.quadratics, layout.quadratics]
    spare = _widths(compiled)[len(forms) :]
    pieces = ops.split(enroll, [width for block in sizes for width in block] + spare)
    blocks = []
    for number, form in enumerate(forms):
        first = sum(len(block) for block in sizes[:number])
        a, own, one = pieces[first : first + 3]
        # The weights of a joint score are all 1.
        scaled = a if layout is not None and number == 0 else a * form.weights
        left = [scaled, one, own]
        if layout is not None and number == 0:
            left += [pieces[first + 4], pieces[first + 3]]
        blocks.append(ops.concat(left))
    return blocks + pieces[len(pieces) - len(spare) :]


def compare_pairs(ops: OnnxOps, compiled: Compiled, enroll: Symbol, test: Symbol) -> Symbol:
    """LLR of each enrolment voiceprint against the test voiceprint in the same row."""
    forms = compiled.forms()
    weights = np.zeros((voiceprint_width(compiled), len(forms)))
    own_columns, start = [], 0
    for number, (form, width) in enumerate(zip(forms, _widths(compiled), strict=False)):
        weights[start : start + form.dim, number] = form.weights
        own_columns.append(start + form.dim)
        start += width
    # One product of whole voiceprints serves the cross terms of all forms at once.
    cross = (enroll * test) @ ops.graph.constant(weights)
    own = ops.columns(enroll, own_columns) + ops.columns(test, own_columns)
    values = ops.split(cross + own, [1] * len(forms))
    layout = joint_layout(compiled)
    if layout is not None:
        begin, end = layout.sums.start, layout.weights.stop
        middle = layout.quadratics
        swapped = [*range(begin + middle, end), *range(begin, begin + middle)]
        sums = ops.column_range(enroll, begin, end) * ops.columns(test, swapped)
        values[0] = values[0] + ops.row_sum(sums, 2 * middle)
    return ops.flatten(combine(values))


def _one_test(compiled: Compiled) -> tuple[Array, list[int]]:
    """How a single test voiceprint meets any number of enrolments in one plain product per form.

    Weights (forms, K) of its columns, and the order of its columns: own(a) and 1 change places,
    so that the product brings the own parts of both sides.
    """
    forms = compiled.forms()
    width = voiceprint_width(compiled)
    weights, order, start = np.zeros((len(forms), width)), list(range(width)), 0
    for number, (form, columns) in enumerate(zip(forms, _widths(compiled), strict=False)):
        own = start + form.dim
        weights[number, start:own] = form.weights
        weights[number, own : own + 2] = 1.0
        order[own], order[own + 1] = own + 1, own
        start += columns
    layout = joint_layout(compiled)
    if layout is not None:
        weights[0, layout.sums.start : layout.weights.stop] = 1.0
        order[layout.weights] = range(layout.sums.start, layout.sums.stop)
        order[layout.sums] = range(layout.weights.start, layout.weights.stop)
    return weights, order


def compare_with_one(ops: OnnxOps, compiled: Compiled, enroll: Symbol, test: Symbol) -> Symbol:
    """LLR of each of a few enrolment voiceprints against the only test voiceprint."""
    weights, order = _one_test(compiled)
    values = (enroll * ops.columns(test, order)) @ ops.graph.constant(weights.T)
    return ops.flatten(combine(ops.split(values, [1] * len(weights))))


def compare_many_with_one(ops: OnnxOps, compiled: Compiled, enroll: Symbol, test: Symbol) -> Symbol:
    """The same for very many enrolments, whose memory is read once and not copied.

    The score's columns come first, and take part in place: the test's side has zeros for all
    other columns. Only the few columns of the calibration forms are cut out.
    """
    weights, order = _one_test(compiled)
    n_forms, width = weights.shape
    sides = ops.columns(test, order) * ops.graph.constant(weights)  # (forms, K)
    if n_forms == 1:
        return ops.products(sides, enroll)
    first = _widths(compiled)[0]
    score = ops.products(ops.rows(sides, 0, 1), enroll)
    rest = ops.column_range(ops.rows(sides, 1, n_forms), first, width)
    others = ops.products(rest, ops.column_range(enroll, first, width))
    return combine([score, *ops.split_rows(others, n_forms - 1)])


def build_graphs(
    model: Backend, known: Mapping[str, Any] | None = None
) -> dict[str, onnx.ModelProto]:
    """All graphs of a backend, by name; `known` is the key `familiarity` of model.json."""
    compiled = compile_backend(model)
    dim, width = model.config.embedding_dim, voiceprint_width(compiled)
    timed = model.config.stages.duration_stage
    facts = {
        "variant": model.config.variant,
        "embedding_dim": dim,
        "voiceprint_dim": width,
        "uses_durations": timed,
    }

    def side(graph: Graph, prefix: str, size: str) -> tuple[Symbol, Symbol | None]:
        """Inputs of one side; every bundle takes durations, used or not, in backend.onnx."""
        embeddings = graph.input(prefix + names.EMBEDDINGS, [size, dim])
        seconds = graph.input(prefix + names.DURATIONS, [size])
        return embeddings, seconds if timed else None

    graphs = {}

    graph = Graph(names.BACKEND)
    ops = OnnxOps(graph)
    enroll = voiceprints(ops, model, compiled, *side(graph, names.ENROLL_PREFIX, "E"))
    test = voiceprints(ops, model, compiled, *side(graph, names.TEST_PREFIX, "T"))
    graph.output(names.LLRS, compare(ops, compiled, enroll, test), ["E", "T"])
    graphs[names.BACKEND] = graph.build(
        "LLR of every enrolment against every test utterance", facts
    )

    graph = Graph(names.VOICEPRINT)
    made = voiceprints(OnnxOps(graph), model, compiled, *side(graph, "", "N"))
    graph.output(names.VOICEPRINTS, made, ["N", width])
    graphs[names.VOICEPRINT] = graph.build("Voiceprints of utterances", facts)

    graph = Graph(names.AVERAGE)
    inputs, groups = side(graph, "", "N"), graph.indices(names.GROUPS, "N")
    made = voiceprints(OnnxOps(graph), model, compiled, *inputs, groups)
    graph.output(names.VOICEPRINTS, made, ["G", width])
    graphs[names.AVERAGE] = graph.build("Voiceprints of groups of utterances, averaged", facts)

    graph = Graph(names.COMPARE)
    sides = graph.input(names.ENROLL, ["E", width]), graph.input(names.TEST, ["T", width])
    graph.output(names.LLRS, compare(OnnxOps(graph), compiled, *sides), ["E", "T"])
    graphs[names.COMPARE] = graph.build(
        "LLR of every enrolment voiceprint against every test one", facts
    )

    graph = Graph(names.PAIRS)
    sides = graph.input(names.ENROLL, ["N", width]), graph.input(names.TEST, ["N", width])
    graph.output(names.LLRS, compare_pairs(OnnxOps(graph), compiled, *sides), ["N"])
    graphs[names.PAIRS] = graph.build("LLR of voiceprints row by row", facts)

    graph = Graph(names.SEARCH)
    sides = graph.input(names.ENROLL, ["N", width]), graph.input(names.TEST, [1, width])
    llrs = compare_many_with_one(OnnxOps(graph), compiled, *sides)
    graph.output(names.LLRS, llrs, [1, "N"])
    graphs[names.SEARCH] = graph.build("LLR of many voiceprints against one", facts)

    graph = Graph(names.PREPARE)
    enroll = graph.input(names.ENROLL, ["E", width])
    graph.output(names.PREPARED, prepared(OnnxOps(graph), compiled, enroll), ["E", width])
    graphs[names.PREPARE] = graph.build("Enrolment voiceprints made ready for tile.onnx", facts)

    graph = Graph(names.TILE)
    sides = graph.input(names.PREPARED, ["E", width]), graph.input(names.TEST, ["T", width])
    llrs = compare_prepared(OnnxOps(graph), compiled, *sides)
    graph.output(names.LLRS, llrs, ["E", "T"])
    graphs[names.TILE] = graph.build("compare.onnx after prepare.onnx: LLR of every pair", facts)

    graph = Graph(names.VERIFY)
    ops = OnnxOps(graph)
    enroll = graph.input(names.ENROLL, ["E", width])
    embeddings = graph.input(names.EMBEDDINGS, [1, dim])
    seconds = graph.input(names.DURATIONS, [1])
    test = voiceprints(ops, model, compiled, embeddings, seconds if timed else None)
    graph.output(names.LLRS, compare_with_one(ops, compiled, enroll, test), ["E"])
    # For the warnings; sums inside the graph are cheaper than around it.
    length = graph.node("Sqrt", ops.row_sum(embeddings * embeddings, dim))
    graph.output(names.NORMS, length, [1, 1])
    if known and known["side_information"]:
        graph.output(names.DISTANCES, _distances(ops, known["side_information"], test), [1, 1])
    graphs[names.VERIFY] = graph.build(
        "LLR of one utterance against each enrolment voiceprint, and how usual it is", facts
    )
    return graphs


def _distances(ops: OnnxOps, told: Mapping[str, Any], prints: Symbol) -> Symbol:
    """Mahalanobis distance of a voiceprint's z from the training mean."""
    side = read_side(told)
    z = ops.columns(prints, range(side.columns.start, side.columns.stop))
    white = ops.affine(z, side.whitening.T, -side.centre)
    return ops.graph.node("Sqrt", ops.row_sum(white * white, len(side.centre)))
