"""The speakers of a gallery in memory, sorted by the place whose model made their voiceprints."""

from collections.abc import Sequence

import numpy as np

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.blocks import Block, VoiceprintBlocks
from dcaplda.runtime.gallery.schema import Changes, Row


class SpeakersByPlace:
    """Blocks of the gallery's own model under "", of others under the model's fingerprint.

    One thread may change it at a time.
    """

    def __init__(self, path: str, width: int, dtype: np.dtype, places: Sequence[str]) -> None:
        self.path, self.width, self.dtype = path, width, dtype
        self.known = places
        """Fingerprints of models whose speakers can be here."""
        self._blocks = {"": self._nobody()}

    def _nobody(self) -> VoiceprintBlocks:
        return VoiceprintBlocks(self.path, self.width, self.dtype)

    def __len__(self) -> int:
        """Speakers."""
        return sum(map(len, self._blocks.values()))

    def parts(self) -> dict[str, tuple[Block, ...]]:
        """Blocks as of now, the gallery's own first; of other places those that have speakers."""
        return {place: it.blocks for place, it in self._blocks.items() if not place or len(it)}

    def clear(self) -> None:
        """Let go of all memory."""
        self._blocks = {"": self._nobody()}

    def update(self, changes: Changes) -> None:
        """Take in what happened, all or nothing."""
        before = {place: it.blocks for place, it in self._blocks.items()}
        try:
            for speakers in self._blocks.values() if changes.removed else ():
                speakers.remove(changes.removed)
            for rows in changes.speakers:
                self._append(rows, changes.places)
        except BaseException:
            self._blocks = {place: self._blocks[place] for place in before}
            for place, blocks in before.items():
                self._blocks[place].blocks = blocks
            raise

    def _append(self, rows: list[Row], places: dict[int, str]) -> None:
        if not places:
            self._blocks[""].append(rows)
            return
        sorted_rows: dict[str, list[Row]] = {}
        for row in rows:
            place = places.get(row[0], "")
            if place and place not in self.known:
                raise GalleryError(
                    f"{self.path}: '{row[1]}' was enrolled with the model {place[:12]}, adapted "
                    "from this one; open the gallery with it as one of its places"
                )
            sorted_rows.setdefault(place, []).append(row)
        for place, own in sorted_rows.items():
            self._blocks.setdefault(place, self._nobody()).append(own)
