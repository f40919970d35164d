"""Models of other programs in `.npz` files, and what diarizers write."""

import io
from pathlib import Path

import numpy as np
from fuzz.choices import Choices
from fuzz.edits import edited_bytes
from fuzz.target import OTHER, SAME, Target, require
from fuzz.targets.models import zipped

from dcaplda.export.importers.diarizers import PLDA, TRANSFORM, read_pyannote
from dcaplda.runtime.people.rttm import read_rttm

DIM, RANK = 5, 3


def pyannote_arrays() -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    means = {"mean1": rng.standard_normal(DIM), "mean2": rng.standard_normal(RANK)}
    return {
        TRANSFORM: {**means, "lda": rng.standard_normal((DIM, RANK))},
        PLDA: {"mu": rng.standard_normal(RANK), "tr": np.eye(RANK), "psi": np.ones(RANK)},
    }


def npz_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


class Pyannote(Target):
    """pyannote's folder: an array of another value, kind, shape or name, or bytes changed.

    Oracle: refused, or numpy reads the same arrays from the files, all of them finite, and a vector
    of the LDA's size gets a finite place in the PLDA's space.
    """

    name = "pyannote"

    def attempt(self, choices: Choices) -> str:
        content = pyannote_arrays()
        file = choices.pick(sorted(content))
        files = {name: npz_bytes(arrays) for name, arrays in content.items()}
        if choices.chance():
            files[file] = npz_bytes(self._edited(choices, content[file]))
        elif choices.chance():
            files[file] = edited_bytes(choices, files[file])
        else:
            members = {f"{k}.npy": _npy(v) for k, v in content[file].items()}
            key = choices.pick(sorted(members))
            members[key] = edited_bytes(choices, members[key])
            files[file] = zipped(members, 0)
        for name, data in files.items():
            self.write(name, data)
        backend = read_pyannote(str(self.folder))
        theirs = {k: v for name in files for k, v in self._ask_numpy(self.folder / name).items()}
        if len(theirs) < 6:
            return OTHER
        require(np.array_equal(backend.weight, theirs["lda"].T.astype(float)), "another LDA")
        require(np.array_equal(backend.plda.psi, theirs["psi"].astype(float)), "another psi")
        with np.errstate(all="ignore"):
            place = backend.transform(np.ones((1, backend.weight.shape[1])), np.ones(1))
        require(place.shape == (1, len(theirs["psi"])), "another size")
        return SAME

    def _edited(self, choices: Choices, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        made = dict(arrays)
        name = choices.pick(sorted(made))
        value = made.pop(name)
        kind = choices.below(6)
        if kind == 0:
            value = value.copy()
            value.flat[0] = choices.pick((np.nan, np.inf, -1.0, 0.0, 1e300))
        elif kind == 1:
            value = value.astype(choices.pick((np.float16, np.int64, np.bool_, np.complex64, "U4")))
        elif kind == 2:
            value = value[: choices.below(len(value) + 1)]
        elif kind == 3:
            value = value[None]
        elif kind == 4:
            return made
        return {**made, (name + "x" if kind == 5 else name): value}

    def _ask_numpy(self, path: Path) -> dict[str, np.ndarray]:
        try:
            with np.load(path, allow_pickle=False) as content:
                return {key: content[key] for key in content.files}
        except Exception:
            return {}  # pickier than we are


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


class Rttm(Target):
    """RTTM: bytes of a good file changed.

    Oracle: refused, or the turns are what Python's own split and float make of the SPEAKER lines,
    none before 0 s, none without a length.
    """

    name = "rttm"
    GOOD = (
        b"SPEAKER m 1 0.50 2.25 <NA> <NA> A <NA> <NA>\nSPKR-INFO m 1\nSPEAKER m 1 3 1 <NA> <NA> B\n"
    )

    def attempt(self, choices: Choices) -> str:
        content = edited_bytes(choices, self.GOOD, b"0123456789.-+eEnainf \t\nSPEAKR<>")
        turns = read_rttm(str(self.write("x.rttm", content)))
        rows = [line.split() for line in content.decode().replace("\r", "").split("\n")]
        rows = [row for row in rows if row and row[0].removeprefix("\ufeff") == "SPEAKER"]
        expected = [(row[1], float(row[3]), float(row[4]), row[7]) for row in rows]
        require([tuple(turn) for turn in turns] == expected, "other turns")
        require(all(turn.start >= 0 and turn.seconds > 0 for turn in turns), "times")
        return SAME
