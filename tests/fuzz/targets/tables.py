"""Tables of vectors, numbers, words and trials in every format that is read in this process."""

import io
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
from fuzz import corpus
from fuzz.choices import Choices
from fuzz.edits import TELLING, edited_bytes
from fuzz.target import OTHER, SAME, Target, require
from fuzz.targets.bundle import edited_array
from kaldi_files import binary_ark, binary_vector, random_vectors, text_ark, write_scp

from dcaplda.eval.trials.ids import IdTable
from dcaplda.eval.trials.joining import read_scores
from dcaplda.eval.trials.keys import Allowance, read_key
from dcaplda.runtime.tables.columns import Columns
from dcaplda.runtime.tables.kaldi_objects import read_plda_file
from dcaplda.runtime.tables.matrices import iterate_matrices
from dcaplda.runtime.tables.text_tables import read_lists, read_numbers, read_words
from dcaplda.runtime.tables.vectors import iterate_vectors, read_vectors
from dcaplda.runtime.trials.lists import read_trials

PLAIN = bytes(byte for byte in TELLING if byte != ord("|"))
"""No damage makes a command of a line: whoever writes `|` is trusted."""
VECTORS = random_vectors(4, 3)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def narrowed(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32)


class Npz(Target):
    """npz files: arrays of other kinds and shapes, headers and zip directories that lie, bytes.

    Oracle: numpy's own reader (no pickles) on the same file: ids and values are what it gives.
    Where only bytes were damaged, checksums hold: ids and rows are those of the good file.
    """

    name = "npz"

    def attempt(self, choices: Choices) -> str:
        per_id = choices.chance()
        names = corpus.IDS if per_id else ["ids", "vectors"]
        arrays = list(corpus.MATRIX) if per_id else [np.array(corpus.IDS), corpus.MATRIX]
        touched = choices.chance(3)
        if not touched:
            place = choices.below(len(arrays))
            if arrays[place].dtype.kind == "U":
                arrays[place] = self._other_ids(choices)
            else:
                arrays[place] = edited_array(choices, arrays[place])
        stream = io.BytesIO()
        packing = choices.pick((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        with zipfile.ZipFile(stream, "w", packing) as archive:
            for name, array in zip(names, arrays, strict=True):
                member = io.BytesIO()
                np.save(member, array, allow_pickle=False)
                raw = member.getvalue()
                if not touched and choices.chance(4):
                    raw = edited_bytes(choices, raw[:140]) + raw[140:]
                archive.writestr(f"{name}.npy", raw)
        content = stream.getvalue()
        if touched:
            content = edited_bytes(choices, content)
        table = read_vectors(str(self.write("x.npz", content)))
        require(bool(np.isfinite(table.matrix).all()), "a value that is not finite")
        if touched:
            rows = {row.tobytes() for row in corpus.MATRIX}
            require({row.tobytes() for row in table.matrix} <= rows, "rows that nobody wrote")
            require(per_id or table.ids == corpus.IDS, "ids that nobody wrote")
        self._ask_numpy(content, table)
        return SAME

    def _other_ids(self, choices: Choices) -> np.ndarray:
        made = (
            np.array(["u0", "u0", "u1"]), np.array([b"a", b"\xff", b"c"]), np.array([1, 2, 3]),
            np.array(["a b", "c", "d"]), np.array(["", "b", "c"]), np.array(["a\0b", "c", "d"]),
            np.array(["a", "b"]), np.array([["a", "b", "c"]]), np.array([1.5, 2, 3]),
            np.array(["\ud800", "b", "c"]), np.array(["a\x1b", "b", "c"]), np.array([True, False]),
        )  # fmt: skip
        return choices.pick(made)

    def _ask_numpy(self, content: bytes, table) -> None:
        try:
            theirs = np.load(io.BytesIO(content), allow_pickle=False)
            arrays = {name: theirs[name] for name in theirs.files}
        except Exception:
            return  # numpy is pickier about zip files; checksums were compared above
        if "ids" in arrays:
            vectors = arrays["vectors"] if "vectors" in arrays else arrays["data"]
            ids = [i.decode() if isinstance(i, bytes) else str(i) for i in arrays["ids"].tolist()]
            require(table.ids == ids, f"ids {table.ids}, numpy has {ids}")
            require(np.array_equal(table.matrix, narrowed(vectors)), "not numpy's values")
            return
        for name, row in zip(table.ids, table.matrix, strict=True):
            require(np.array_equal(row, narrowed(arrays[name]).reshape(-1)), "not numpy's values")


class Npy(Target):
    """npy files, in a folder and named by an scp.

    Oracle: numpy's own reader gives the same values of the same file.
    """

    name = "npy"

    def attempt(self, choices: Choices) -> str:
        stream = io.BytesIO()
        kind = choices.pick(("<f4", ">f8", "<f2"))
        np.save(stream, corpus.MATRIX[0].astype(kind))
        content = edited_bytes(choices, stream.getvalue())
        (self.folder / "npy").mkdir(exist_ok=True)
        (self.folder / "npy" / "u.npy").write_bytes(content)
        self.write("x.scp", f"u {self.folder}/npy/u.npy\n".encode())
        name = choices.pick((f"npy:{self.folder}/npy", f"scp:{self.folder}/x.scp"))
        table = read_vectors(name)
        require(table.ids == ["u"] and bool(np.isfinite(table.matrix).all()), "not finite")
        theirs = np.load(io.BytesIO(content), allow_pickle=False).reshape(-1)
        require(np.array_equal(table.matrix[0], narrowed(theirs)), "not numpy's values")
        return SAME


class Archives(Target):
    """Kaldi archives, binary (float and double) and text, and matrices.

    Oracle: what is read, written again byte by byte, is the file; a text archive is read by a
    regular expression.
    """

    name = "archives"

    def attempt(self, choices: Choices) -> str:
        kind = choices.pick(("float", "double", "text", "matrix"))
        if kind == "matrix":
            return self._matrices(choices)
        vectors = VECTORS
        if kind == "double":
            vectors = {key: row.astype(np.float64) for key, row in VECTORS.items()}
        good = text_ark(vectors) if kind == "text" else binary_ark(vectors)
        content = edited_bytes(choices, good, PLAIN)
        name = f"ark:{self.write('x.ark', content)}"
        table = read_vectors(name)
        require(bool(np.isfinite(table.matrix).all()), "a value that is not finite")
        require(len(set(table.ids)) == len(table.ids) > 0, "an id twice")
        found = list(iterate_vectors(name))
        require(table.ids == [key for key, _ in found], "two readers, two lists of ids")
        rows = np.array([narrowed(row) for _, row in found])
        require(np.array_equal(rows, table.matrix), "two readers, two values")
        if b"\0B" in content:
            encoded = b"".join(key.encode() + b" " + binary_vector(row) for key, row in found)
            # A tab may stand for the blank after an id, and a newline at the end.
            ours, told = (x.replace(b"\t", b" ").rstrip(b"\n") for x in (encoded, content))
            require(ours == told, "not what the file encodes")
        else:
            require(self._by_hand(content) == [(k, list(v)) for k, v in found], "not what it says")
        return SAME

    def _by_hand(self, content: bytes) -> list[tuple[str, list[float]]]:
        entries = []
        for line in content.decode("utf-8").rstrip("\n").split("\n"):
            match = re.fullmatch(r"([^\x00-\x20\x7f]+)[ \t][ \t\r]*\[(.+)\][ \t\r]*", line)
            words = match[2].split() if match else ["?"]
            require(all(NUMBER.fullmatch(word) for word in words), f"{line[:60]!r} was accepted")
            assert match
            entries.append((match[1], [float(word) for word in words]))
        return entries

    def _matrices(self, choices: Choices) -> str:
        matrices = {"m0": np.eye(2, 3, dtype=np.float32), "m1": np.float64([[0.5], [-3]])}

        def encoded(matrix: np.ndarray) -> bytes:
            kind = b"FM" if matrix.dtype == np.float32 else b"DM"
            sizes = struct.pack("<sBiBi", b" ", 4, len(matrix), 4, len(matrix.T))
            return b"\0B" + kind + sizes + matrix.tobytes()

        good = b"".join(key.encode() + b" " + encoded(m) for key, m in matrices.items())
        content = edited_bytes(choices, good, PLAIN)
        found = list(iterate_matrices(f"ark:{self.write('x.ark', content)}"))
        require(all(np.isfinite(matrix).all() for _, matrix in found), "not finite")
        if b"[" in content or b"CM" in content:
            return OTHER  # text, or packed: another way to write a matrix
        again = b"".join(key.encode() + b" " + encoded(m) for key, m in found)
        # A tab may stand for a blank, and newlines at the end.
        ours, told = (x.replace(b"\t", b" ").rstrip(b"\n") for x in (again, content))
        require(ours == told, "not what it encodes")
        return SAME


class Scp(Target):
    """scp files that point into an archive.

    Oracle: an accepted line names the vector that starts at its offset.
    """

    name = "scp"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.text = write_scp(folder, VECTORS).read_bytes()
        self.starts = {
            int(line.rsplit(b":", 1)[1]): key
            for line, key in zip(self.text.splitlines(), VECTORS, strict=True)
        }

    def attempt(self, choices: Choices) -> str:
        content = edited_bytes(choices, self.text, PLAIN)
        if b"|" in content:
            return SAME  # a bit that flipped made a command of it
        table = read_vectors(f"scp:{self.write('bad.scp', content)}")
        lines = content.decode("utf-8-sig").rstrip("\n").split("\n")
        words = [line.replace("\t", " ").strip(" \r").split(" ") for line in lines]
        require(table.ids == [word[0] for word in words], "other ids than the lines have")
        for word, row in zip(words, table.matrix, strict=True):
            start = self.starts.get(int(word[-1].rsplit(":", 1)[1]))
            require(start is not None, "an offset where no vector starts")
            require(np.array_equal(row, VECTORS[str(start)]), "another vector than at the offset")
        return SAME


def rows_of(content: bytes) -> list[list[str]]:
    """Words of lines by plain Python, of a file that was accepted."""
    text = content.decode("utf-8-sig").replace("\r", "").removesuffix("\n")
    return [re.split("[ \t]+", line.strip(" \t")) for line in text.split("\n")]


class Words(Target):
    """utt2dur, utt2spk and spk2utt.

    Oracle: lines and words by plain Python; a number is what a regular expression takes for one,
    its value Python's; no id twice.
    """

    name = "words"

    def attempt(self, choices: Choices) -> str:
        kind = choices.below(3)
        good = (
            b"u1 3.25\nu2 10\nu3 0.5\nu4 1e2\n",
            b"u1 s1\nu2 s1\nu3 s2\n",
            b"s1 u1 u2\ns2 u3\n",
        )[kind]
        content = edited_bytes(choices, good, PLAIN)
        path = str(self.write("table", content))
        found = (read_numbers, read_words, read_lists)[kind](path)
        if b"\0" in content:
            return OTHER  # Kaldi's binary numbers
        rows = rows_of(content)
        require([row[0] for row in rows] == list(found), "other ids than the lines have")
        if kind == 0:
            require(all(NUMBER.fullmatch(row[1]) for row in rows), "a word was taken for a number")
            require(list(found.values()) == [float(row[1]) for row in rows], "other numbers")
            require(all(map(np.isfinite, found.values())), "a number that is not finite")
        elif kind == 1:
            require(list(found.values()) == [row[1] for row in rows], "other words")
        else:
            require([[key, *words] for key, words in found.items()] == rows, "other lists")
        require(all(len(row) == 2 or kind == 2 for row in rows), "words too many")
        return SAME


LABELS = {"target": True, "tgt": True, "1": True, "nontarget": False, "imp": False, "0": False}


class Trials(Target):
    """Trial lists, with and without labels and header, as score-trials and eval-scores read them.

    Oracle: lines and words by plain Python; both readers give these pairs and labels.
    """

    name = "trials"

    def attempt(self, choices: Choices) -> str:
        good = choices.pick(
            (
                b"u0 u1 target\nu1 u2 nontarget\nu0 u3 target\n",
                b"u0 u1\nu1 u2\nu0 u3\n",
                b"u0\tu1\ttgt\nu1\tu2\timp\n",
                b"1 u0 u1\n0 u1 u2\n",
                b"model\tside\tsegment\nm1\ta\ts1\nm2\tb\ts2\n",
            )
        )
        content = edited_bytes(choices, good, PLAIN)
        path = str(self.write("trials", content))
        if good.startswith(b"model"):
            columns = Columns(enroll=("model",), test=("segment",))
            found = self._pairs(read_trials(path, columns=columns))
            if b'"' in content:
                return OTHER  # csv's quotes
            text = content.decode("utf-8-sig").replace("\r\n", "\n")
            # The last line may lack its newline, of Windows' two characters too.
            text = text.removesuffix("\n").removesuffix("\r")
            mark = next((m for m in "\t," if m in text.split("\n")[0]), " ")
            header, *rows = [line.split(mark) for line in text.split("\n")]
            if mark == " ":
                return OTHER
            names = [name.strip().lower() for name in header]
            places = names.index("model"), names.index("segment")
            require(found == [tuple(row[p] for p in places) for row in rows], "other pairs")
            return SAME
        return self._plain(path, content)

    def _plain(self, path: str, content: bytes) -> str:
        trials = read_trials(path)
        found = self._pairs(trials)
        rows = rows_of(content)
        if len(rows[0]) == 2:
            require(found == [(row[0], row[1]) for row in rows], "other pairs than the lines have")
            return SAME
        last = all(row[2] in LABELS for row in rows)
        place = slice(0, 2) if last else slice(1, 3)
        require(found == [tuple(row[place]) for row in rows], "other pairs than the lines have")
        labels = [LABELS[row[2] if last else row[0]] for row in rows]
        require(trials.targets is not None and trials.targets.tolist() == labels, "other labels")
        key = read_key(path, IdTable(), Allowance.of("duplicate"))
        pairs = dict(zip(found, labels, strict=True))
        require(len(key.enroll) == len(pairs), "eval-scores has other trials")
        require(int(key.labels.sum()) == sum(pairs.values()), "eval-scores has other labels")
        return SAME

    def _pairs(self, trials) -> list[tuple[str, str]]:
        enroll = [trials.enroll_ids[i] for i in trials.enroll_index]
        return list(zip(enroll, [trials.test_ids[i] for i in trials.test_index], strict=True))


class Scores(Target):
    """Score files as eval-scores and calibrate-scores read them.

    Oracle: lines and words by plain Python, the score Python's float of the last word.
    """

    name = "scores"

    def attempt(self, choices: Choices) -> str:
        good = b"u0 u1 1.5\nu1 u2 -2\nu0 u3 1e-3\nu3 u3 7\n"
        content = edited_bytes(choices, good, PLAIN)
        ids = IdTable()
        found = read_scores(str(self.write("scores", content)), ids)
        rows = rows_of(content.rstrip(b"\r\n\t "))
        require(len(found.values) == len(rows), f"{len(found.values)} scores of {len(rows)} lines")
        values = [float(row[2]) for row in rows]
        # Infinite scores are taken (docs/metrics.md), NaN never.
        require(np.allclose(found.values, values, rtol=1e-6, equal_nan=False), "other scores")
        return SAME


class Plda(Target):
    """A PLDA of Kaldi's.

    Oracle: sizes fit, values are finite, and each array stands in the file as it was read.
    """

    name = "plda"

    def attempt(self, choices: Choices) -> str:
        mean, psi = (binary_vector(np.array(v))[2:] for v in ([0.5, -1.0], [3.0, 2.0]))
        sizes = b"\4" + struct.pack("<i", 2) + b"\4" + struct.pack("<i", 2)
        good = b"\0B<Plda> " + mean + b"DM " + sizes + np.eye(2).tobytes() + psi + b"</Plda> "
        content = edited_bytes(choices, good, PLAIN)
        found = read_plda_file(str(self.write("plda", content)))
        size = len(found.mean)
        require(found.transform.shape == (size, size) and len(found.psi) == size, "sizes differ")
        arrays = (found.mean, found.transform, found.psi)
        require(all(np.isfinite(array).all() for array in arrays), "a value that is not finite")
        require(bool((found.psi >= 0).all()), "a variance below zero")
        if content[:2] == b"\0B":
            for array in arrays:
                bare = (array.tobytes(), narrowed(array).tobytes())
                stored = any(values in content for values in bare)
                require(stored, "values that the file does not have")
        return SAME
