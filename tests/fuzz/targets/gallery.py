"""Gallery files: pages of SQLite, and values in them."""

import shutil
import sqlite3
from pathlib import Path

import numpy as np
from fuzz import corpus
from fuzz.choices import Choices
from fuzz.edits import STRANGE, edited_bytes
from fuzz.target import OTHER, SAME, Target, require

from dcaplda.runtime import Backend
from dcaplda.runtime.gallery.speakers import Gallery

SPEAKERS, WITH_UTTERANCES = 24, 5


class GalleryPages(Target):
    """A gallery of speakers: bytes anywhere in its pages, or values of its tables by SQL.

    Oracle: refused when it is opened or asked, or every speaker that is listed has the voiceprints
    that it was enrolled with, bit for bit, and a search finds finite LLRs.
    """

    name = "gallery"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        directory = corpus.bundles(folder / "good")["full"]
        self.backend = Backend.load(directory, threads=1)
        rng = np.random.default_rng(5)
        x = rng.standard_normal((SPEAKERS, 8)).astype(np.float32)
        prints = self.backend.voiceprints(x, np.full(SPEAKERS, 10.0))
        self.truth = {f"speaker{n}": prints[n : n + 1] for n in range(SPEAKERS)}
        path = folder / "good.db"
        with Gallery.open(path, self.backend, keep_embeddings=True) as gallery:
            for name, row in list(self.truth.items())[:WITH_UTTERANCES]:
                made = self.backend.enroll(x[len(gallery)], 10.0)
                self.truth[name] = made.voiceprints
                gallery.add(name, made, source="a call", tags={"tenant": "acme"})
                assert np.allclose(made.voiceprints, row, atol=1e-4)
            gallery.add_many(list(self.truth.items())[WITH_UTTERANCES:])
            gallery.add("gone", prints[:1])
            gallery.remove("gone")
        self.content = path.read_bytes()
        self.probe = prints[3:4]

    def attempt(self, choices: Choices) -> str:
        for path in self.folder.glob("x.db*"):
            path.unlink()
        if choices.chance(3):
            self._by_sql(choices)
        else:
            self.write("x.db", self._damaged(choices))
        with Gallery.open(self.folder / "x.db", self.backend, create=False) as gallery:
            names = list(gallery)
            require(len(names) == len(set(names)) == len(gallery), "a speaker twice")
            for name in names:
                speaker = gallery.get(name)
                require(speaker is not None, f"{name!r} is listed and not there")
                assert speaker is not None
                known = self.truth.get(name)
                require(known is not None, f"{name!r} was never enrolled")
                require(np.array_equal(speaker.voiceprints, known), f"{name!r} has another voice")
                heard = [it.voiceprint for it in gallery.utterances(name)]
                require(np.array_equal(heard, known), f"{name!r} was heard otherwise")
                gallery.tags(name)
            gallery.decisions()
            found = gallery.search(self.probe, 3)
            require(all(np.isfinite(match.llr) for match in found), "an LLR that is not finite")
            require(bool(found) == bool(names), "nobody was found")
        return SAME if len(names) == SPEAKERS else OTHER

    def _damaged(self, choices: Choices) -> bytes:
        """Bytes of one page; or, as SQLite writes pages whole, a page that is lost or doubled."""
        page = 16384
        content = bytearray(self.content)
        pages = len(content) // page
        start = page * choices.below(pages)
        kind = choices.below(6)
        if kind == 0:
            content[start : start + page] = bytes(page)
        elif kind == 1:
            other = page * choices.below(pages)
            content[start : start + page] = content[other : other + page]
        elif kind == 2:
            del content[start:]
        else:
            changed = edited_bytes(choices, bytes(content[start : start + page]))
            content[start : start + page] = changed[:page].ljust(page, b"\0")
        return bytes(content)

    def _by_sql(self, choices: Choices) -> None:
        shutil.copyfile(self.folder / "good.db", self.folder / "x.db")
        column = choices.pick(
            (("settings", "value"), ("settings", "name"), ("speakers", "id"))
            + (("speakers", "warnings"), ("speakers", "voiceprints"), ("removals", "number"))
            + (("speakers", "way"), ("utterances", "speaker"), ("utterances", "seconds"))
            + (("utterances", "embedding"), ("utterances", "heard"), ("tags", "value"))
        )
        value = choices.pick(
            tuple(v for v in STRANGE if isinstance(v, (int, float, str, type(None))))
            + (b"", b"x", b"\xff" * 40, "[1]", "[[", "99", "float16", "-1")
        )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            value = str(value)[:20]
        connection = sqlite3.connect(self.folder / "x.db", isolation_level=None)
        try:
            row = choices.below(4)
            table, name = column
            connection.execute(
                f"UPDATE {table} SET {name} = ? WHERE rowid IN "
                f"(SELECT rowid FROM {table} LIMIT 1 OFFSET {row})",
                (value,),
            )
        except (sqlite3.Error, UnicodeEncodeError):
            pass
        finally:
            connection.close()
