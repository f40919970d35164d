"""Where a validation comes from: input files by their hashes, versions, date."""

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dcaplda.eval.sets import SetSpec, SystemSpec
from dcaplda.runtime.errors import UsageError

LIBRARIES = ("numpy", "scipy", "polars")
PIECE = 1 << 20


@dataclass(frozen=True)
class InputFile:
    """A file that was read."""

    role: str
    name: str
    n_bytes: int
    sha256: str


def input_files(
    sets: list[SetSpec], system: SystemSpec, table: str = "", model: str = ""
) -> list[InputFile]:
    """Hash everything that the figures depend on; a file that serves several sets comes once."""
    named = [("table of sets", table)] if table else []
    for spec in sets:
        named.append(("trials and their labels", spec.trials))
        named.append(("likelihood ratios (scores)", system.scores_of(spec.name)))
        files = spec.files
        named += [
            ("who speaks (utt2spk)", files.utt2spk),
            ("sessions (utt2sess)", files.utt2sess),
            ("seconds of speech (utt2dur)", files.utt2dur),
            ("kinds of recordings (utt2dom)", files.utt2dom),
            ("recordings of enrolment models (spk2utt)", files.spk2utt),
        ]
    if model:
        folder = Path(model)
        named += [("model", str(path)) for path in sorted(folder.iterdir()) if path.is_file()]
    return [_hashed(role, name) for name, role in _once(named)]


def _once(named: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Names with their roles, without repeats and empty names."""
    found: dict[str, str] = {}
    for role, name in named:
        if name:
            found.setdefault(name, role)
    return found.items()


def _hashed(role: str, name: str) -> InputFile:
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"--validation: '{name}' is no file; a validation names its inputs by their hashes"
        )
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    return InputFile(role, name, path.stat().st_size, digest.hexdigest())


def versions(own: str) -> dict[str, str]:
    """Versions of what computed the figures."""
    found = {"dcaplda": own, "python": platform.python_version()}
    found |= {name: importlib.metadata.version(name) for name in LIBRARIES}
    found["system"] = f"{platform.system()} {platform.machine()}"
    return found


def today() -> str:
    """The date (UTC); SOURCE_DATE_EPOCH sets it, so that a report can be made again as it was."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return moment.strftime("%Y-%m-%d")
