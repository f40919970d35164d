"""Digests of inputs: equal if the content is, whatever the files are called and where they lie.

Files are hashed, not looked at: 1.8 GB a second here, which is little beside reading and scoring
them. Nothing is held in memory.
"""

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from dcaplda.runtime.bundle.manifest import read_info
from dcaplda.runtime.errors import TableError, UsageError
from dcaplda.runtime.tables.formats.registry import find_format, has_kaldi_prefix
from dcaplda.runtime.tables.scp import read_scp, resolved, starts_of
from dcaplda.runtime.tables.specifiers import (
    Rspecifier,
    is_pipe,
    kaldi_specifier,
    parse_rspecifier,
    split_offset,
    table_source,
)

_SHOWN = 16
"""Hexadecimal digits that a digest keeps."""
_AT_ONCE = 1 << 20


def of_text(*words: str) -> str:
    """Digest of some words; where one ends counts."""
    digest = hashlib.sha256()
    for word in words:
        content = word.encode("utf-8", "surrogateescape")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:_SHOWN]


def of_bundle(directory: str) -> str:
    """Digest of a model: its fingerprint."""
    return read_info(directory).fingerprint[:_SHOWN]


def of_table(name: str) -> str:
    """Digest of a text table or a list of trials: a file, or what a command writes."""
    return of_source(table_source(name))


def of_vectors(rspecifier: str, scp_root: str = "") -> str:
    """Digest of a table of vectors in any format; of an scp, and of all files that it names."""
    found = find_format(rspecifier)
    if found is not None:
        return of_path(found[1])
    specifier = parse_rspecifier(kaldi_specifier(rspecifier))
    if specifier.kind == "ark":
        return of_source(specifier.source)
    if specifier.source == "-":
        raise _not_twice(rspecifier)
    sources = read_scp(specifier)
    places = {split_offset(source)[0] for source in sources.values()}
    contents = {place: _of_named(place, specifier, scp_root) for place in sorted(places)}
    lines = (f"{key} {_moved(source, contents)}" for key, source in sources.items())
    return of_text("\n".join(lines))


def of_gallery_or_vectors(name: str, scp_root: str = "") -> str:
    """Digest of a table of vectors, or of a gallery: the database and what is not yet in it."""
    if find_format(name) is not None or has_kaldi_prefix(kaldi_specifier(name)):
        return of_vectors(name, scp_root)
    log = f"{name}-wal"
    return of_text(of_path(name), of_path(log) if os.path.exists(log) else "")


def of_source(name: str) -> str:
    """Digest of what an extended file name holds: a file, or what a command writes."""
    if is_pipe(name):
        return of_command(name[:-1].strip())
    if name == "-":
        raise _not_twice(name)
    return of_path(name)


def of_path(path: str) -> str:
    """Digest of a file, or of all files of a folder with their names in it."""
    try:
        if os.path.isdir(path):
            files = sorted(p for p in Path(path).rglob("*") if p.is_file())
            words = [w for p in files for w in (str(p.relative_to(path)), of_path(str(p)))]
            return of_text(*words)
        with open(path, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _not_twice(path)
            return hashlib.file_digest(stream, "sha256").hexdigest()[:_SHOWN]
    except FileNotFoundError:
        raise TableError(f"'{path}': no such file; check the name and the directory") from None
    except OSError as error:
        raise TableError(f"'{path}': cannot be read ({error.strerror})") from None


def of_command(command: str) -> str:
    """Digest of what a command writes."""
    digest = hashlib.sha256()
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for content in _pieces(process.stdout.read):
            digest.update(content)
    if process.returncode:
        raise TableError(
            f"the pipe '{command}' ended with status {process.returncode}; run it alone to see why"
        )
    return digest.hexdigest()[:_SHOWN]


def _pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while content := read(_AT_ONCE):
        yield content


def _of_named(place: str, specifier: Rspecifier, scp_root: str) -> str:
    """Digest of what a line of an scp names; what is not there is told when it is read."""
    if is_pipe(place):
        return of_command(place[:-1].strip())
    path = resolved(place, starts_of(specifier, scp_root))
    return of_path(path) if os.path.isfile(path) else "missing"


def _moved(source: str, contents: dict[str, str]) -> str:
    """A line of an scp with the content of its file in the place of the name."""
    place, offset = split_offset(source)
    return f"{contents[place]}:{offset}"


def _not_twice(name: str) -> UsageError:
    return UsageError(
        f"'{name}': parts of a job are told apart by their inputs, which are read twice; "
        "put this one into a file"
    )
