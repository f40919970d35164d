"""The rooms and which may import which: the table behind test_boundary.py and docs/architecture.md.

A room is a folder. Modules that lie loose in a hall (`runtime/backend.py`) are the hall's own room;
those that the hall's other rooms stand on are its ground floor, listed in GROUND.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HALLS = ("runtime", "audio", "eval", "simulate", "train", "export", "bin")

GROUND = {
    "runtime.ground": (
        "errors",
        "files",
        "fields",
        "values",
        "checks",
        "decision",
        "familiarity",
    ),
}
"""Loose modules below a hall's rooms; the rest of the loose ones lie above them."""

MAY_IMPORT = {
    "runtime.ground": "",
    "runtime.tables.formats": "runtime.ground",
    "runtime.tables": "runtime.ground runtime.tables.formats",
    "runtime.bundle": "runtime.ground",
    "runtime.extractors": "runtime.ground runtime.tables runtime.tables.formats",
    "runtime.trials": "runtime.ground runtime.tables",
    "runtime.joint": "runtime.ground",
    "runtime.records": "runtime.ground",
    "runtime.parts": "runtime.ground runtime.tables runtime.tables.formats runtime.bundle",
    "runtime": "runtime.ground runtime.records runtime.bundle runtime.extractors runtime.trials "
    "runtime.joint",
    "runtime.pairs": "runtime.ground runtime.tables runtime.trials",
    "runtime.gallery.stored": "runtime.ground",
    "runtime.gallery.codes": "runtime.ground runtime.bundle runtime.trials runtime "
    "runtime.gallery.stored",
    "runtime.gallery.database": "runtime.ground runtime.extractors runtime.gallery.stored",
    "runtime.gallery.postgres": "runtime.ground runtime.extractors runtime.gallery.database",
    "runtime.gallery": "runtime.ground runtime.records runtime.bundle runtime.trials runtime "
    "runtime.gallery.stored runtime.gallery.codes runtime.gallery.database",
    "runtime.gallery.exchange": "runtime.ground runtime.records runtime.tables runtime "
    "runtime.gallery",
    "runtime.people": "runtime.ground runtime.tables runtime.gallery runtime",
    "runtime.clustering": "runtime.ground runtime.joint runtime",
    "runtime.surveys": "runtime.ground runtime.bundle runtime.joint runtime",
    "audio.signal": "runtime.ground",
    "audio.network": "runtime.ground audio.signal",
    "audio.speech": "runtime.ground audio.signal audio.network",
    "audio": "runtime.ground runtime.extractors audio.signal audio.network audio.speech",
    "audio.corpus": "runtime.ground runtime.extractors runtime.tables runtime.trials "
    "audio.signal audio",
    "simulate": "runtime.ground",
    "eval.metrics": "runtime.ground",
    "eval.trials": "runtime.ground runtime.tables eval.metrics",
    "eval.protocol": "runtime.ground runtime.tables",
    "eval.resampling": "runtime.ground eval.metrics",
    "eval": "runtime.ground runtime.tables eval.metrics eval.trials eval.resampling",
    "eval.verdict": "runtime.ground eval.metrics eval",
    "eval.report": "runtime.ground runtime.bundle eval.metrics eval",
    "eval.validation": "runtime.ground runtime.bundle eval.metrics eval.trials eval eval.report",
    "eval.page": "runtime.ground eval.metrics eval eval.verdict eval.report",
    "train.model": "runtime.ground",
    "train.recipe": "runtime.ground runtime.tables.formats train.model",
    "train.data": "runtime.ground runtime.tables train.recipe",
    "train.plda": "runtime.ground train.recipe train.data",
    "train.start": "runtime.ground runtime.joint eval.metrics train.model train.recipe train.data "
    "train.plda",
    "train.selection": "runtime.ground runtime.tables runtime.trials eval.metrics "
    "train.model train.recipe",
    "train.steps": "runtime.ground eval.metrics train.model train.recipe train.data train.plda "
    "train.selection",
    "train.auto": "runtime.ground eval.metrics train.model train.recipe train.data train.plda "
    "train.start train.steps",
    "train": "runtime.ground eval.verdict eval.report train.model train.recipe train.data "
    "train.start train.selection train.steps train.auto",
    "export.graphs": "runtime.ground runtime.joint train.model",
    "export": "runtime.ground runtime.bundle runtime.joint train.model export.graphs",
    "export.importers": "runtime.ground runtime.tables runtime.tables.formats train.model train "
    "export.graphs export",
    "export.exporters": "runtime.ground runtime.tables train.model export.graphs",
    "bin.common": "runtime.ground runtime.extractors runtime.tables runtime.trials runtime "
    "runtime.surveys",
    "bin.pairs": "runtime.ground runtime.bundle runtime.tables runtime.pairs runtime bin.common",
    "bin.recordings": "runtime.ground runtime.tables runtime runtime.clustering bin.common",
    "bin.cluster": "runtime.ground runtime.tables runtime.parts train.recipe train bin.common",
    "bin": "runtime.ground runtime.bundle runtime.extractors runtime.tables runtime.trials "
    "runtime.parts runtime.pairs runtime.gallery runtime.gallery.exchange runtime runtime.people "
    "runtime.clustering runtime.surveys audio.corpus audio simulate eval.metrics eval.trials "
    "eval.protocol eval.verdict eval.report eval.page eval.validation eval train.recipe "
    "train.steps train export.importers export.exporters export bin.common bin.pairs "
    "bin.recordings bin.cluster",
}
"""Room -> rooms whose modules it may import. Every arrow points up this list, so there is no way
round, and every arrow is used: what nobody needs is not allowed."""


@dataclass(frozen=True)
class Module:
    """A Python file of a room."""

    path: Path
    room: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Dotted name without `dcaplda`."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module given by its path below the root, such as ("runtime", "errors")."""
    for ground, names in GROUND.items():
        if ".".join(parts[:-1]) == ground.rpartition(".")[0] and parts[-1] in names:
            return ground
    return ".".join(parts[:-1])


def modules() -> Iterator[Module]:
    """Every module of every hall."""
    for hall in HALLS:
        for path in sorted((ROOT / hall).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield Module(path, room_of(parts), ast.parse(path.read_text(encoding="utf-8")))


def imported_rooms(module: Module) -> Iterator[tuple[str, str]]:
    """Rooms and modules that a module imports, also inside of functions and for types only.

    A hall's `__init__.py` that lends names of its rooms (`_HOMES` of runtime) is the hall's front
    door: it is not looked at, and nobody inside goes through it.
    """
    if module.path.name == "__init__.py":
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dcaplda"):
            for alias in node.names:
                whole = (*node.module.split(".")[1:], alias.name)  # type: ignore[union-attr]
                parts = whole if _is_module(whole) else whole[:-1]
                yield (".".join(parts) if _is_folder(parts) else room_of(parts)), ".".join(parts)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("dcaplda."):
                    parts = tuple(alias.name.split(".")[1:])
                    yield room_of(parts), ".".join(parts)


def _is_folder(parts: tuple[str, ...]) -> bool:
    return ROOT.joinpath(*parts).is_dir()


def _is_module(parts: tuple[str, ...]) -> bool:
    return _is_folder(parts) or ROOT.joinpath(*parts).with_suffix(".py").is_file()


def private_names(module: Module) -> Iterator[tuple[int, str]]:
    """Lines and names of private attributes and imports that are not an object's own."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dcaplda"):
            yield from ((node.lineno, a.name) for a in node.names if _is_private(a.name))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def defined_names(trees: list[ast.Module]) -> set[str]:
    """Names that a room's modules define: functions, classes, and attributes of self."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def drawn_arrows() -> list[tuple[str, str]]:
    """The arrows of the picture: those that do not follow from others."""
    reach: dict[str, set[str]] = {}
    arrows = []
    for room, text in MAY_IMPORT.items():
        direct = text.split()
        indirect = set().union(*(reach[other] for other in direct)) if direct else set()
        arrows += [(room, other) for other in direct if other not in indirect]
        reach[room] = indirect | set(direct)
    return arrows


def picture() -> str:
    """The rooms and arrows as a Mermaid diagram, one box per hall."""
    lines = ["```mermaid", "flowchart BT"]
    for hall in HALLS:
        lines.append(f'    subgraph {hall}_hall["{hall}/"]')
        for room in MAY_IMPORT:
            if room.split(".")[0] == hall:
                lines.append(f'        {_node(room)}["{_label(room)}"]')
        lines.append("    end")
    lines += [f"    {_node(room)} --> {_node(other)}" for room, other in drawn_arrows()]
    return "\n".join([*lines, "```"])


def _node(room: str) -> str:
    return room.replace(".", "_")


def _label(room: str) -> str:
    if room in GROUND:
        return ", ".join(GROUND[room])
    if "." in room:
        return "/".join(room.split(".")[1:]) + "/"
    parts = (path.relative_to(ROOT).with_suffix("").parts for path in (ROOT / room).glob("*.py"))
    loose = sorted(p[-1] for p in parts if room_of(p) == room and not p[-1].startswith("_"))
    return ", ".join(loose) if len(loose) < 8 else f"the {room} modules"


if __name__ == "__main__":
    print(picture())
