"""A note beside a voiceprint archive that says which model made it.

Voiceprints of two models can have the same size and still mean different things, so
`enroll-speakers` writes `<archive>.json` with the fingerprint of the model's graphs.
"""

import json
import os

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.fields import Table, parse_json
from dcaplda.runtime.tables.formats.registry import find_format
from dcaplda.runtime.tables.scp import read_scp, resolved, starts_of
from dcaplda.runtime.tables.specifiers import (
    kaldi_specifier,
    parse_rspecifier,
    split_offset,
    writing,
)

_KEY = "model_fingerprint"


def tag_name(archive: str) -> str:
    """The note of an archive."""
    return archive + ".json"


def write_tag(archive: str, fingerprint: str) -> None:
    """Write the note of an archive that is a file; there is none for stdout and pipes."""
    if archive != "-" and not archive.startswith("|"):
        with writing(tag_name(archive)) as stream:
            stream.write((json.dumps({_KEY: fingerprint}) + "\n").encode())


def check_tag(rspecifier: str, scp_root: str, fingerprint: str) -> bool:
    """Whether a note beside every archive of the table says that this model made it.

    False if some archive has no note; InputError if one names another model.
    """
    known = True
    for archive in sorted(_archives(rspecifier, scp_root)):
        found = _fingerprint(tag_name(archive))
        if found is not None and found != fingerprint:
            raise InputError(
                f"'{archive}': voiceprints of another model; enrol again with this one"
            )
        known &= found is not None
    return known


def _archives(rspecifier: str, scp_root: str) -> set[str]:
    """The files or the folder that hold a table's data; a pipe or stdin is a name without note."""
    found = find_format(rspecifier)
    if found is not None:
        return {found[1].rstrip("/")}
    specifier = parse_rspecifier(kaldi_specifier(rspecifier))
    if specifier.kind == "ark" or not os.path.isfile(specifier.source):
        return {specifier.source}
    starts = starts_of(specifier, scp_root)
    names = {split_offset(source)[0] for source in read_scp(specifier).values()}
    return {resolved(name, starts) for name in names}


def _fingerprint(name: str) -> str | None:
    """What a note says; None where there is none, or what is there is no note of ours."""
    try:
        with open(name, "rb") as stream:
            note = parse_json(stream.read())
    except OSError:
        return None
    except ValueError as error:
        raise InputError(f"'{name}': a damaged note ({error}); enrol again") from None
    if not isinstance(note, dict) or _KEY not in note:
        return None
    return Table(note, f"'{name}'", InputError, "enrol again").text(_KEY)
