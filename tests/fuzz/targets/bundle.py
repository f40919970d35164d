"""Bundles: model.json, SHA256SUMS, graphs, joint.npz; hashes put right, as a forger would."""

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from fuzz import corpus
from fuzz.choices import Choices
from fuzz.edits import edited_bytes, edited_message, edited_tree, json_bytes
from fuzz.target import OTHER, SAME, Target, require

from dcaplda.eval.report.model_card import read_card
from dcaplda.runtime import Backend
from dcaplda.runtime.bundle.agreement import read_graph
from dcaplda.runtime.bundle.checksums import SUMS, parse_sums, sha256
from dcaplda.runtime.bundle.manifest import MANIFEST, ModelInfo, read_info
from dcaplda.runtime.familiarity import read_familiarity
from dcaplda.runtime.surveys.place import miscalibration_of

CLOSE = 1e-3


def answers(backend: Backend) -> dict[str, np.ndarray]:
    """LLRs of three utterances by every way through a bundle."""
    dim, width = backend.info.embedding_dim, backend.info.voiceprint_dim
    x, seconds = corpus.utterances(dim), corpus.SECONDS
    extra = {name: np.ones(3) for name in backend.info.voiceprint_inputs}
    prints = backend.voiceprints(x, seconds, extra=extra)
    require(prints.shape == (3, width), f"voiceprints of the shape {prints.shape}")
    made = backend.enroll(x[:2], seconds[:2])
    several = backend.verify(made, x[2], float(seconds[2]), prior=0.5)
    single = backend.verify(prints[:1], x[2], float(seconds[2]), prior=0.5)
    found = {
        "compare": backend.compare(prints[:2], prints),
        "one step": backend.tile(prints[:2], prints),
        "pairs": backend.compare_pairs(prints[:2], prints[1:]),
        "several": np.array([several.llr]),
        "verify": np.array([single.llr]),
    }
    if not backend.info.uses_durations:
        untimed = backend.compare(backend.voiceprints(x, extra=extra)[:2], prints)
        require(np.array_equal(untimed, found["compare"]), "without seconds another LLR")
    if "search" in backend.info.further_graphs:
        found["search"] = backend.search_tile(prints[2:], prints[:2])
    if backend.info.averages_groups:
        grouped = backend.voiceprints(x, seconds, groups=[0, 0, 1], extra=extra)
        found["groups"] = backend.compare(grouped, prints)
    return found


def check_numbers(found: dict[str, np.ndarray]) -> None:
    """All finite, and one LLR is one LLR by whichever way it was found."""
    require(all(np.isfinite(llrs).all() for llrs in found.values()), "an LLR that is not finite")
    full = found["compare"]
    limit = 0.02 + 2e-3 * float(np.abs(full).max())
    ways = [found["pairs"] - full[[0, 1], [1, 2]], found["verify"] - full[0, 2]]
    ways.append(found["one step"] - full)
    if "search" in found:
        ways.append(found["search"][0] - full[:, 2])
    require(all(np.abs(way).max() <= limit for way in ways), "two ways, two LLRs")


class BundleTarget(Target):
    """Common to all that damage one file of a bundle."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.good = corpus.bundles(folder / "good")
        self.work = {
            name: corpus.fresh_copy(source, folder / "work" / name)
            for name, source in self.good.items()
        }
        self.names = list(self.good)
        self.truth = {name: answers(Backend.load(self.good[name])) for name in self.names}
        self.info = {name: read_info(self.good[name]) for name in self.names}

    def mend(self, name: str, *files: str) -> None:
        """The files as they were, before the next input."""
        for file in (*files, MANIFEST, SUMS):
            shutil.copyfile(self.good[name] / file, self.work[name] / file)

    def put_right(self, name: str, files: dict[str, bytes]) -> None:
        """Write files, and SHA256SUMS that says so."""
        sums = parse_sums((self.good[name] / SUMS).read_bytes(), SUMS)
        for file, content in files.items():
            (self.work[name] / file).write_bytes(content)
            sums[file] = sha256(content)
        lines = [f"{digest}  {file}\n" for file, digest in sums.items()]
        (self.work[name] / SUMS).write_text("".join(lines))

    def compare(self, name: str, found: dict[str, np.ndarray], exact: bool) -> None:
        """Against the LLRs of the good bundle."""
        for way, llrs in found.items():
            truth = self.truth[name][way]
            require(llrs.shape == truth.shape, f"{way}: shape {llrs.shape}")
            same = np.array_equal(llrs, truth) if exact else np.allclose(llrs, truth, CLOSE, CLOSE)
            require(same, f"{way}: {llrs.tolist()} instead of {truth.tolist()}")


class Manifest(BundleTarget):
    """model.json, damaged as a tree or as text; SHA256SUMS as it was, put right, or gone.

    Oracle: refused, or the very LLRs of the undamaged bundle (within 1e-3 where a graph was left
    out, which only a manifest with hashes put right can say, and which has another fingerprint).
    """

    name = "manifest"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.trees = {n: json.loads((p / MANIFEST).read_text()) for n, p in self.good.items()}
        for tree in self.trees.values():
            _shorten(tree)
        # A backend is a function of these and of files that do not change.
        self.known: dict[Any, dict[str, np.ndarray]] = {}

    def attempt(self, choices: Choices) -> str:
        name = choices.pick(self.names)
        work = self.work[name]
        self.mend(name)
        tree = edited_tree(choices, self.trees[name])
        (work / MANIFEST).write_bytes(json_bytes(choices, tree))
        righted = choices.below(3)
        if righted == 1:
            self.put_right(name, {MANIFEST: (work / MANIFEST).read_bytes()})
        elif righted == 2:
            (work / SUMS).unlink()
        info = read_info(work)
        familiarity = read_familiarity(info.manifest, str(work))
        key = name, _essence(info), repr(familiarity)
        if key not in self.known:
            self.known[key] = answers(Backend.load(work, threads=1))
        same = info.fingerprint == self.info[name].fingerprint
        require(same or righted > 0, "another fingerprint under the old hashes")
        self.compare(name, self.known[key], exact=info.graphs == self.info[name].graphs)
        read_card(str(work))
        miscalibration_of(info.manifest)
        return SAME if same else OTHER


def _shorten(tree: dict[str, Any]) -> None:
    """Three durations instead of forty in the grid for plots: thousands of numbers alike."""
    grid = tree["calibration"].get("duration")
    if grid:
        grid["seconds"] = grid["seconds"][:3]
        for name in ("alpha", "beta"):
            grid[name] = [row[:3] for row in grid[name][:3]]


def _essence(info: ModelInfo) -> str:
    return repr(info)  # all but the manifest itself


def told_of(sums: bytes, names: list[str]) -> dict[str, str]:
    """What SHA256SUMS says of these files."""
    found = parse_sums(sums, SUMS)
    return {name: found[name] for name in names}


class Files(BundleTarget):
    """Bytes of any file of a bundle, hashes as they were.

    Oracle: refused, or the file is byte for byte as it was.
    """

    name = "files"

    def attempt(self, choices: Choices) -> str:
        name = choices.pick(self.names)
        info, work = self.info[name], self.work[name]
        files = [MANIFEST, SUMS, *(file.name for file in info.graphs.values())]
        files += [info.joint.name] if info.joint else []
        file = choices.pick(files)
        good = (self.good[name] / file).read_bytes()
        content = edited_bytes(choices, good)
        (work / file).write_bytes(content)
        try:
            found = read_info(work)
            for graph in found.graphs:
                read_graph(work, found, graph)
            Backend.load(work, threads=1)
        finally:
            self.mend(name, file)
        # In SHA256SUMS a newline at the end, or another order, says the same; and what it says of
        # README.md, which people write on, is for `sha256sum -c` alone.
        used = [name for name in files if name != SUMS]
        same = file == SUMS and told_of(content, used) == told_of(good, used)
        require(content == good or same, f"{file}: damage was not noticed")
        return SAME


class Onnx(BundleTarget):
    """A graph, damaged as a protobuf message or as bytes, hashes put right.

    Oracle: refused, or finite LLRs of the right shapes, the same by every way that leads to them;
    and unless the file is byte for byte the old one, another fingerprint.
    """

    name = "onnx"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.models = {
            (name, graph): onnx.load(self.good[name] / file.name)
            for name, info in self.info.items()
            for graph, file in info.graphs.items()
        }
        self.keys = list(self.models)

    def attempt(self, choices: Choices) -> str:
        name, graph = choices.pick(self.keys)
        info, work = self.info[name], self.work[name]
        file = info.graphs[graph].name
        if choices.chance(4):
            content = edited_bytes(choices, (self.good[name] / file).read_bytes())
        else:
            model = onnx.ModelProto()
            model.CopyFrom(self.models[name, graph])
            edited_message(choices, model)
            content = model.SerializeToString()
        manifest = json.loads((self.good[name] / MANIFEST).read_text())
        manifest["graphs"][graph]["sha256"] = sha256(content)
        try:
            self.put_right(name, {file: content, MANIFEST: json.dumps(manifest).encode()})
            found = answers_or_refusal(work)
            fingerprint = read_info(work).fingerprint
        finally:
            self.mend(name, file)
        check_numbers(found)
        same = content == (self.good[name] / file).read_bytes()
        require((fingerprint == info.fingerprint) == same, "another graph, the same fingerprint")
        return SAME if same else OTHER


def answers_or_refusal(work: Path) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        return answers(Backend.load(work, threads=1))


class Joint(BundleTarget):
    """joint.npz: arrays of other values, shapes and kinds, or bytes of the file; hashes put right.

    Oracle: refused, or the LLRs of single utterances are unchanged and those of several are finite.
    """

    name = "joint"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.content = (self.good["joint"] / "joint.npz").read_bytes()
        with np.load(io.BytesIO(self.content)) as arrays:
            self.arrays = {key: arrays[key] for key in arrays.files}

    def attempt(self, choices: Choices) -> str:
        work = self.work["joint"]
        content = (
            edited_bytes(choices, self.content) if choices.chance(3) else self._packed(choices)
        )
        manifest = json.loads((self.good["joint"] / MANIFEST).read_text())
        manifest["joint"]["sha256"] = sha256(content)
        try:
            files = {"joint.npz": content, MANIFEST: json.dumps(manifest).encode()}
            self.put_right("joint", files)
            found = answers_or_refusal(work)
        finally:
            self.mend("joint", "joint.npz")
        check_numbers(found)
        single = {way: llrs for way, llrs in found.items() if way != "several"}
        self.compare("joint", single, exact=True)
        return SAME if content == self.content else OTHER

    def _packed(self, choices: Choices) -> bytes:
        arrays = dict(self.arrays)
        for _ in choices.times(3):
            key = choices.pick(list(arrays))
            arrays[key] = edited_array(choices, arrays[key])
            if choices.chance(8):
                arrays.pop(key)
        stream = io.BytesIO()
        packing = choices.pick((zipfile.ZIP_STORED,) * 4 + (zipfile.ZIP_DEFLATED,))
        with zipfile.ZipFile(stream, "w", packing) as archive:
            for key, array in arrays.items():
                member = io.BytesIO()
                np.save(member, array, allow_pickle=False)
                raw = member.getvalue()
                raw = edited_bytes(choices, raw) if choices.chance(30) else raw
                archive.writestr(f"{key}.npy", raw)
        return stream.getvalue()


@np.errstate(all="ignore")
def edited_array(choices: Choices, array: np.ndarray) -> np.ndarray:
    """Another value, kind, shape or order."""
    kind = choices.below(6)
    if kind == 0 and array.size:
        flat = array.reshape(-1).copy()
        values = (0.0, -1.0, np.nan, np.inf, 1e300, 1e-300, 1.0)
        flat[choices.below(array.size)] = choices.pick(values)
        return flat.reshape(array.shape)
    if kind == 1:
        return array.astype(choices.pick(("f4", "f2", "i8", "c16", "?", "U8", "S4", ">f8")))
    if kind == 2 and array.ndim:
        return array[: choices.below(len(array) + 1)]
    if kind == 3:
        return array[None] if choices.chance() else array.reshape(-1)
    if kind == 4:
        return array.T
    return array * choices.pick((0.0, 2.0, -1.0, 1 + 1e-9, 1e200))
