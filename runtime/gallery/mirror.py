"""File and memory of a gallery kept alike, also by those who are interrupted half-way."""

from collections.abc import Callable

from dcaplda.runtime.gallery.database.schema import Changes, miscounted
from dcaplda.runtime.gallery.database.storage import Store
from dcaplda.runtime.gallery.memory import Memory


class Mirror:
    """What is in the file, in memory."""

    def __init__(self, store: Store, memory: Memory) -> None:
        self._store = store
        self._memory = memory
        self._change = object()
        """Another one for every change of our own, of which SQLite does not tell."""
        self.now()

    def change(self, write: Callable[[], None]) -> None:
        """Write to the file, then read it again.

        What is in memory is old from before the first step on: an interrupt that comes when the
        change is on the disk, but before this knows, must not leave the memory of before. The lock
        keeps other threads from reading in between, which would make the memory pass for new.
        """
        with self._store.lock:
            try:
                self._change = object()
                write()
            finally:
                # Again, for a handler of signals may have looked before the change was made.
                self._change = object()
            self.now()

    @property
    def last(self) -> Memory:
        """The memory as it was read last."""
        return self._memory

    def now(self) -> Memory:
        """The memory, up to date with the file, whoever changed it."""
        with self._store.lock:
            # First, so that what is read while somebody changes the gallery passes for old.
            version = self._change, self._store.data_version()
            before = self._memory
            if version == before.version:
                return before
            made = self._read(before, version)
            if made is None:  # what was read before does not fit: read all
                made = self._read(before.emptied(), version)
            if made is None:
                raise miscounted(self._store.path)
            self._memory = made
            return made

    def _read(self, before: Memory, version: object) -> Memory | None:
        """Memory with what happened since; None if it has not as many speakers as the file says."""

        def grown(changes: Changes) -> Memory | None:
            made = before.after(changes, version)
            return made if changes.n_speakers in (None, len(made)) else None

        return self._store.read_changes(before.seen, grown)

    def close(self) -> None:
        """Let go of file and memory."""
        self._store.close()
        self._memory = self._memory.emptied()
