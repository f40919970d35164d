"""Does model.json say what the graphs are? Names, sizes, kinds of numbers, the use of durations.

A hash finds a graph that was altered; here is found a manifest that belongs to other graphs, or
that somebody edited and hashed anew.
"""

from collections.abc import Iterator
from pathlib import Path

from dcaplda.runtime.bundle.graph_facts import FLOAT, INT64, GraphFacts, Port, read_facts
from dcaplda.runtime.bundle.manifest import (
    AVERAGE,
    MANIFEST,
    PREPARE,
    TILE,
    VERIFY,
    ModelInfo,
    read_file,
)
from dcaplda.runtime.errors import BundleError

GROUPS, DURATIONS, DISTANCES = "groups", "durations", "side_distances"
JOINT_CONSTANTS = "joint."
"""How the names of constants begin that only graphs of joint models have."""
ANY = None
"""A size that may be any."""


def read_graph(directory: str | Path, info: ModelInfo, name: str) -> bytes:
    """The bytes of a graph, if they are the ones that were exported and fit model.json."""
    content = read_file(directory, info.graphs[name])
    place = f"{directory}/{info.graphs[name].name}"
    problem = disagreement(info, name, read_facts(content, place))
    if problem:
        raise BundleError(f"{place}: {problem}, unlike {MANIFEST}; export the model again")
    return content


def disagreement(info: ModelInfo, name: str, facts: GraphFacts) -> str:
    """In what a graph is not as model.json says; empty if in nothing."""
    inputs, outputs = dict(_inputs(info, name)), dict(_outputs(info, name))
    for what, expected, found in (
        ("input", inputs, facts.inputs),
        ("output", outputs, facts.outputs),
    ):
        if list(expected) != list(found) and not (
            what == "input" and sorted(expected) == sorted(found)
        ):
            return f"has the {what}s {', '.join(found) or 'none'}, not {', '.join(expected)}"
        for key, port in expected.items():
            if not _fits(found[key], port):
                return f"its {what} '{key}' has another size or kind of numbers"
    if name in ("voiceprint", AVERAGE) and (info.joint is None) == bool(joint_constants(facts)):
        return f"is {'' if info.joint is None else 'not '}of a joint model"
    for key in inputs:
        # Only `groups` of older bundles may be left out; any other input would be computed with
        # whatever stands there.
        optional = key == GROUPS and name == "voiceprint"
        if (key in facts.constants) != optional:
            return f"its input '{key}' may {'not ' if optional else ''}be left out"
        if key.endswith(DURATIONS) and (key in facts.used) != info.uses_durations:
            return f"its scores {'' if key in facts.used else 'do not '}depend on '{key}'"
    return ""


def joint_constants(facts: GraphFacts) -> dict[str, tuple[int, int]]:
    """Where those constants lie that a place changes; graphs of other models have none."""
    return {k: span for k, span in facts.constants.items() if k.startswith(JOINT_CONSTANTS)}


def _inputs(info: ModelInfo, name: str) -> Iterator[tuple[str, Port]]:
    """What a graph of this name takes."""
    rows, prints = Port(FLOAT, (ANY,)), Port(FLOAT, (ANY, info.voiceprint_dim))
    one = Port(FLOAT, (1, info.voiceprint_dim))
    embeddings = Port(FLOAT, (ANY, info.embedding_dim))
    if name == "backend":
        for side in ("enroll", "test"):
            yield f"{side}_embeddings", embeddings
            yield f"{side}_{DURATIONS}", rows
        # A test is one utterance: only of an enrolment there is more to tell.
        yield from ((f"enroll_{extra}", rows) for extra in info.voiceprint_inputs)
    elif name in ("voiceprint", AVERAGE):
        yield "embeddings", embeddings
        yield DURATIONS, rows
        yield from ((extra, rows) for extra in info.voiceprint_inputs)
        if info.averages_groups and name == info.averaging_graph:
            yield GROUPS, Port(INT64, (ANY,))
    elif name == VERIFY:
        yield "enroll", prints
        yield "embeddings", Port(FLOAT, (1, info.embedding_dim))
        yield DURATIONS, Port(FLOAT, (1,))
    elif name == PREPARE:
        yield "enroll", prints
    else:
        yield "prepared" if name == TILE else "enroll", prints
        yield "test", one if name == "search" else prints


def _outputs(info: ModelInfo, name: str) -> Iterator[tuple[str, Port]]:
    """What it gives, in this order."""
    figure = Port(FLOAT, (1, 1))
    if name in ("voiceprint", AVERAGE, PREPARE):
        made = "prepared" if name == PREPARE else "voiceprints"
        yield made, Port(FLOAT, (ANY, info.voiceprint_dim))
        return
    sizes = {"pairs": (ANY,), VERIFY: (ANY,), "search": (1, ANY)}.get(name, (ANY, ANY))
    yield "llrs", Port(FLOAT, sizes)
    if name == VERIFY:
        yield "norms", figure
        known = info.manifest.get("familiarity")
        if isinstance(known, dict) and known.get("side_information"):
            yield DISTANCES, figure


def _fits(found: Port, expected: Port) -> bool:
    """Whether kind and sizes are those expected; a size that is not told is settled by use."""
    if found.kind != expected.kind or found.sizes is None or expected.sizes is None:
        return False
    pairs = zip(found.sizes, expected.sizes, strict=False)
    return len(found.sizes) == len(expected.sizes) and all(a == b for a, b in pairs)
