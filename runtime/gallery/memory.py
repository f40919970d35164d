"""The speakers of a gallery in memory, sorted by the place whose model made their voiceprints.

What is in memory never changes: news give a new object, which takes the old one's place in one
step. So an interrupt leaves the one or the other, and a search has all of one moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.blocks import Block, Shape, VoiceprintBlocks
from dcaplda.runtime.gallery.database.schema import Changes, Position, Row

if TYPE_CHECKING:
    from dcaplda.runtime.gallery.codes.coded import Coded


@dataclass(frozen=True, eq=False)
class Memory:
    """Blocks of the gallery's own model under "", of others under the model's fingerprint."""

    path: str
    shape: Shape
    known: Sequence[str]
    """Fingerprints of models whose speakers can be here."""
    blocks: dict[str, tuple[Block, ...]] = field(default_factory=lambda: {"": ()})
    seen: Position = Position()
    """How far the file was read."""
    version: object = None
    """What the file's version was then; None: nothing was read yet."""

    def __len__(self) -> int:
        """Speakers."""
        return sum(len(block.numbers) for blocks in self.blocks.values() for block in blocks)

    def parts(self) -> dict[str, tuple[Block, ...]]:
        """The gallery's own blocks first; of other places those that have speakers."""
        return {place: blocks for place, blocks in self.blocks.items() if not place or blocks}

    def only(self, numbers: Sequence[int]) -> dict[str, tuple[Block, ...]]:
        """The same of speakers with these numbers alone."""
        found = {}
        for place, blocks in self.parts().items():
            made = self._holding(blocks)
            made.keep(numbers)
            found[place] = made.blocks
        return {place: blocks for place, blocks in found.items() if not place or blocks}

    def emptied(self) -> "Memory":
        """Of which nothing was read yet."""
        return Memory(self.path, self.shape, self.known)

    def after(self, changes: Changes, version: object) -> "Memory":
        """What is there after changes since `seen`."""
        made = {}
        for place, blocks in self.blocks.items():
            made[place] = self._holding(blocks)
            if changes.removed:
                made[place].remove(changes.removed)
        for rows in changes.speakers:
            for place, own in self._by_place(rows, changes.places).items():
                made.setdefault(place, self._holding(())).append(own)
        found = {place: speakers.blocks for place, speakers in made.items()}
        return replace(self, blocks=found, seen=changes.now, version=version)

    def with_placed(self, rows: list[Row], places: dict[int, str]) -> dict[str, tuple[Block, ...]]:
        """The blocks of memory with these speakers of other places among them."""
        found = dict(self.blocks)
        for place, own in self._by_place(rows, places).items() if rows else ():
            made = self._holding(found.get(place, ()))
            made.append(own)
            found[place] = made.blocks
        return found

    def _holding(self, blocks: tuple[Block, ...]) -> VoiceprintBlocks:
        made = VoiceprintBlocks(self.path, self.shape)
        made.blocks = blocks
        return made

    def _by_place(self, rows: list[Row], places: dict[int, str]) -> dict[str, list[Row]]:
        if not places:
            return {"": rows}
        found: dict[str, list[Row]] = {}
        for row in rows:
            place = places.get(row[0], "")
            if place and place not in self.known:
                raise GalleryError(
                    f"{self.path}: '{row[1]}' was enrolled with the model {str(place)[:12]}, "
                    "adapted from this one; open the gallery with it as one of its places"
                )
            found.setdefault(place, []).append(row)
        return found


@dataclass(frozen=True, eq=False)
class CodedMemory(Memory):
    """`blocks` are those whom every search compares: who came after the file was made, and
    speakers of other places."""

    coded: "Coded" = None  # type: ignore[assignment]
    gone: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Speakers of the file who were removed since, ascending."""

    @property
    def tail(self) -> tuple[Block, ...]:
        """Speakers of the gallery's own model who came since."""
        return self.blocks[""]

    @property
    def others(self) -> dict[str, tuple[Block, ...]]:
        """Speakers of other places."""
        return {place: blocks for place, blocks in self.blocks.items() if place and blocks}

    def __len__(self) -> int:
        """Speakers."""
        return super().__len__() + len(self.coded.rows_file) - len(self.gone)

    def after(self, changes: Changes, version: object) -> "Memory":
        """What is there after changes since `seen`."""
        made = super().after(changes, version)
        gone = self.coded.rows_file.where(changes.removed)
        return replace(made, gone=np.union1d(self.gone, gone)) if len(gone) else made  # type: ignore[call-arg]

    def parts(self) -> dict[str, tuple[Block, ...]]:
        """All speakers; the rows of the file are read when they are used."""
        return {"": (*self._mapped, *self.tail), **self.others}

    @cached_property
    def _mapped(self) -> tuple[Block, ...]:
        made = self._holding(())
        made.adopt(self.coded.rows_file)
        if len(self.gone):
            made.remove(self.coded.rows_file.numbers[self.gone].tolist())
        return made.blocks
