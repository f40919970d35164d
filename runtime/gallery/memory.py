"""The speakers of a gallery in memory, sorted by the place whose model made their voiceprints.

What is in memory never changes: news give a new object, which takes the old one's place in one
step. So an interrupt leaves the one or the other, and a search has all of one moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.blocks import Block, Shape, VoiceprintBlocks
from dcaplda.runtime.gallery.database.schema import Changes, Position, Row


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
