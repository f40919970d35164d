"""log.jsonl: one JSON object per step or evaluation, identical for identical runs.

It holds no times: a resumed run's log equals the uninterrupted one byte for byte.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.fields import parse_json
from dcaplda.train.steps.checkpoints import named_errors

LOG = "log.jsonl"


class TrainingLog:
    """Appends rows; `length` bytes are safe on disk after `flush`."""

    def __init__(self, directory: Path, keep_bytes: int = 0) -> None:
        """Open the log and cut off what came after the checkpoint that is resumed from."""
        self.path = directory / LOG
        found = self.path.stat().st_size if self.path.exists() else 0
        if found < keep_bytes:
            raise ModelError(
                f"{self.path}: has {found} bytes, the checkpoint knows of {keep_bytes}; put the "
                "log back, or train in another directory"
            )
        self._stream = open(self.path, "ab")
        self._stream.truncate(keep_bytes)
        self._stream.seek(0, os.SEEK_END)

    def write(self, row: dict[str, Any]) -> None:
        """Add a row."""
        with named_errors(self.path):
            self._stream.write((json.dumps(row) + "\n").encode())

    def flush(self) -> int:
        """Bring all rows to the disk; returns the length of the log in bytes."""
        with named_errors(self.path):
            self._stream.flush()
            os.fsync(self._stream.fileno())
            return self._stream.tell()

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        with named_errors(self.path):
            self._stream.close()


def read_log(directory: Path) -> Iterator[dict[str, Any]]:
    """The rows of a log; a last line that a kill cut short is left out."""
    with open(directory / LOG, "rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = parse_json(line)
            except ValueError as error:
                raise ModelError(f"{directory / LOG}:{number}: damaged ({error})") from None
            if not isinstance(row, dict):
                raise ModelError(f"{directory / LOG}:{number}: damaged (no table)")
            yield row
