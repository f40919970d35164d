"""Kaldi's specifiers and extended file names: what they mean, and streams that fail loudly.

An rspecifier (`scp:x.scp`, `ark,t:-`, `ark:command |`) names a table to read, a wspecifier
(`ark,scp:x.ark,x.scp`) one to write. What follows the colon is an extended file name: a file,
`-` for stdin or stdout, a command whose output is read (`command |`) or that is fed
(`| command`). Commands run in /bin/sh as in Kaldi, and their exit status is always checked.
Only names that the user gave may hold a command; nothing in a model directory passes here.
"""

import contextlib
import gzip
import io
import mmap
import os
import re
import signal
import stat
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dcaplda.runtime.errors import TableError, UsageError
from dcaplda.runtime.files import note_input, refuse_input, replacing
from dcaplda.runtime.tables.formats.registry import has_kaldi_prefix, known_formats

Buffer = bytes | mmap.mmap


class Writer(Protocol):
    """What an output offers."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Write all of the data."""


# Kaldi's options for reading. Sortedness and single use are promises that we never rely on.
_READ_OPTIONS = {"t", "b", "o", "no", "s", "ns", "cs", "ncs", "p", "np", "bg"}
_WRITE_OPTIONS = {"t", "b", "f", "nf", "p", "np"}
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Rspecifier:
    """A table to read: `kind` is ark or scp, `source` the extended file name behind it."""

    text: str
    kind: str
    source: str
    permissive: bool


@dataclass(frozen=True)
class Wspecifier:
    """A table to write: an archive, with an scp beside it if `scp` is not empty."""

    text: str
    ark: str
    scp: str
    as_text: bool


def parse_rspecifier(text: str) -> Rspecifier:
    """Understand `ark:...` or `scp:...`, with Kaldi's options after a comma."""
    head, colon, source = text.partition(":")
    words = head.split(",")
    kinds = [word for word in words if word in ("ark", "scp")]
    if colon and not kinds and re.fullmatch("[a-z0-9,]+", head):
        known = " ".join(f"{name}:" for name in ("ark", "scp", *known_formats()))
        raise UsageError(f"'{text}': no format '{head}:' is known here; known: {known}")
    if not colon or not kinds:
        kind = "scp" if text.endswith(".scp") else "ark"
        raise UsageError(f"'{text}' is not an rspecifier; write '{kind}:{text}' (docs/formats.md)")
    if len(kinds) > 1:
        raise UsageError(f"'{text}': an rspecifier is either ark or scp, not both")
    for word in words:
        if word not in _READ_OPTIONS and word != kinds[0]:
            raise UsageError(f"'{text}': unknown option '{word}'; known: t s cs o p and their kin")
    if not source.strip():
        raise UsageError(f"'{text}': no file name after the colon; write '-' for stdin")
    return Rspecifier(text, kinds[0], source.strip(), "p" in words)


def kaldi_specifier(text: str) -> str:
    """A bare name that ends as Kaldi's tables do, with the prefix that it means."""
    name = text.strip()
    if has_kaldi_prefix(name) or is_pipe(name) or name.startswith("|"):
        return text
    if name.endswith(".scp"):
        return "scp:" + name
    return "ark:" + name if name.endswith((".ark", ".ark.gz")) else text


def parse_wspecifier(text: str) -> Wspecifier:
    """Understand `ark:file`, `ark,t:file` and `ark,scp:file.ark,file.scp`."""
    head, colon, target = text.partition(":")
    words = head.split(",")
    if not colon or not ({"ark", "scp"} & set(words)):
        raise UsageError(f"'{text}' is not a wspecifier; write 'ark:{text}'")
    for word in words:
        if word not in _WRITE_OPTIONS and word not in ("ark", "scp"):
            raise UsageError(f"'{text}': unknown option '{word}'; known: t b f p")
    if "ark" not in words:
        raise UsageError(f"'{text}': an scp alone holds no data; write 'ark,scp:x.ark,x.scp'")
    ark, scp = target.strip(), ""
    if "scp" in words:
        if words.index("scp") < words.index("ark"):
            raise UsageError(f"'{text}': the archive comes first, as 'ark,scp:x.ark,x.scp'")
        ark, comma, scp = (part.strip() for part in target.partition(","))
        if not comma or not scp or not ark:
            raise UsageError(f"'{text}': two names are needed, as 'ark,scp:x.ark,x.scp'")
        if ark == "-" or ark.startswith("|"):
            raise UsageError(f"'{text}': an scp can only point into a file; name the archive")
    if not ark:
        raise UsageError(f"'{text}': no file name after the colon; write '-' for stdout")
    return Wspecifier(text, ark, scp, "t" in words)


def table_source(text: str) -> str:
    """The extended file name of a text table: plain, or behind `ark:` or `ark,t:`."""
    if has_kaldi_prefix(text):
        specifier = parse_rspecifier(text)
        if specifier.kind == "scp":
            raise UsageError(f"'{text}': this table is plain text; name it as 'ark:file' or 'file'")
        return specifier.source
    if not text.strip():
        raise UsageError("the name of a table is empty; name a file, or '-' for stdin")
    return text.strip()


def split_offset(name: str) -> tuple[str, int | None]:
    """Split `file:123` into the file and the byte offset, which is None if there is none."""
    path, colon, digits = name.rpartition(":")
    if colon and path and digits.isascii() and digits.isdigit():
        return path, int(digits)
    return name, None


def is_pipe(name: str) -> bool:
    """Whether an extended file name is a command to read from."""
    return name.endswith("|")


def read_bytes(name: str) -> bytes:
    """All bytes behind an extended file name, unpacked if they are gzipped."""
    data = read_input(name, map_files=False)
    return data if isinstance(data, bytes) else bytes(data)


def read_input(name: str, map_files: bool = True) -> Buffer:
    """The same, but a regular file is mapped instead of read unless `map_files` is false."""
    name = name.strip()
    if is_pipe(name):
        data: Buffer = _read_pipe(name)
    elif name in ("-", ""):
        data = sys.stdin.buffer.read()
        name = "standard input"
    elif name.startswith("|"):
        raise UsageError(f"'{name}': a command to read from ends with '|', it does not start so")
    else:
        data = read_file(name, map_files)
    return _unpacked(data, name)


def read_file(name: str, map_files: bool = True) -> Buffer:
    """Map a regular file, or read what is not one (a named pipe, /dev/stdin) to its end."""
    try:
        with open(name, "rb") as stream:
            status = os.fstat(stream.fileno())
            if stat.S_ISREG(status.st_mode):
                note_input(status)
            if map_files and stat.S_ISREG(status.st_mode) and status.st_size > 0:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            return stream.read()
    except FileNotFoundError:
        path, offset = split_offset(name)
        if offset is not None and os.path.isfile(path):
            raise TableError(f"'{name}': an offset is of use only inside an scp") from None
        raise TableError(f"'{name}': no such file; check the name and the directory") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TableError(f"'{name}': cannot be read ({reason})") from None


def _unpacked(data: Buffer, name: str) -> Buffer:
    if data[:2] != GZIP_MAGIC:
        if name.endswith(".gz") and len(data):
            raise TableError(f"'{name}': not a gzip file in spite of its name; rename it")
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        reason = "it ends too early" if isinstance(error, EOFError) else str(error)
        raise TableError(f"'{name}': broken gzip data: {reason}; make it again") from None


def _read_pipe(name: str) -> bytes:
    command = name[:-1].strip()
    if not command:
        raise UsageError(f"'{name}': there is no command before the '|'")
    process = subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE)
    try:
        data, _ = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    _check_status(command, process.returncode)
    return data


def _check_status(command: str, status: int) -> None:
    if status == 0:
        return
    if status < 0:
        how = f"was killed ({signal.strsignal(-status) or -status})"
    else:
        how = f"ended with status {status}" + (" (command not found)" if status == 127 else "")
    raise TableError(f"the pipe '{command}' {how}; run it alone to see why")


@contextlib.contextmanager
def writing(name: str) -> Iterator[Writer]:
    """Open an extended file name for writing: a file, `-` for stdout, or `| command`.

    A file appears under its name only when the block has succeeded, and is gzipped if the
    name ends in .gz. What is not a regular file (/dev/null, a named pipe) is written directly.
    """
    name = name.strip()
    if name in ("-", ""):
        stdout = sys.stdout.buffer
        # Under PYTHONUNBUFFERED it is a raw file, which may write a part and say nothing.
        yield _WholeWriter(stdout) if isinstance(stdout, io.RawIOBase) else stdout
        stdout.flush()
    elif name.startswith("|"):
        yield from _writing_pipe(name[1:].strip())
    elif os.path.exists(name) and not os.path.isfile(name):
        if os.path.isdir(name):
            raise UsageError(f"'{name}' is a directory; name a file to write")
        with open(name, "wb") as stream:
            yield stream
    else:
        yield from _writing_file(name)


class _WholeWriter:
    """Makes a raw file write all that it is given."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self.raw = raw

    def write(self, data: bytes | memoryview) -> int:
        """Write again and again until nothing is left."""
        rest = memoryview(data).cast("B")
        while len(rest):
            rest = rest[self.raw.write(rest) or 0 :]
        return len(data)


def _writing_file(name: str) -> Iterator[Writer]:
    check_output(name)
    # A link is followed: the file it points to is replaced, not the link.
    target = os.path.realpath(name)
    try:
        with replacing(target) as beside, open(beside, "wb") as stream:
            if name.endswith(".gz"):
                # No name and no time in the header: equal content gives equal bytes.
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as packed:
                    yield packed
            else:
                yield stream
    except OSError as error:
        # A full disk is reported by a write, which does not know the name.
        if error.filename is None or str(error.filename).startswith(os.path.dirname(target)):
            error.filename = name
        raise


def _writing_pipe(command: str) -> Iterator[Writer]:
    if not command:
        raise UsageError("'|': there is no command after the '|'")
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        yield process.stdin
        process.stdin.close()
    except BrokenPipeError:
        process.wait()
        _check_status(command, process.returncode)
        raise
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.wait()
    _check_status(command, process.returncode)


def check_output(name: str) -> None:
    """Refuse an output that cannot be written, before any work is done for it."""
    name = name.strip()
    if name in ("-", "") or name.startswith("|"):
        return
    if name.endswith("|"):
        raise UsageError(f"'{name}': a command to write to starts with '|', it does not end so")
    if os.path.isdir(name):
        raise UsageError(f"'{name}' is a directory; name a file to write")
    refuse_input(name)
    folder = Path(os.path.realpath(name)).parent
    if not folder.is_dir():
        raise UsageError(f"'{name}': there is no directory '{folder}'; make it first")
    if not os.access(folder, os.W_OK) and not os.path.exists(name):
        raise UsageError(f"'{name}': no permission to write into '{folder}'")
