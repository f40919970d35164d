"""SHA256SUMS of a bundle: the hash of every file, in the form that `sha256sum -c` reads.

Whoever signs this one file has signed the whole bundle (docs/embedding.md).
"""

import hashlib
import re
from collections.abc import Mapping

from dcaplda.runtime.errors import BundleError

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9._-]+)")


def sha256(content: bytes) -> str:
    """Hexadecimal digest."""
    return hashlib.sha256(content).hexdigest()


def with_sums(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a bundle and the one that lists their hashes."""
    lines = [f"{sha256(content)}  {name}\n" for name, content in sorted(files.items())]
    return {**files, SUMS: "".join(lines).encode()}


def parse_sums(content: bytes, place: str) -> dict[str, str]:
    """Hash of each file name."""
    found: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise BundleError(
                f"{place}: not lines of a hash and a file, each once; copy or export the model "
                "again"
            )
        found[match[2]] = match[1]
    return found
