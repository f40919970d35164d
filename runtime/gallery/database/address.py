"""The address of a gallery on a server: where, which gallery there, and how fresh searches are.

    postgresql://user@host/database?gallery=callers&lag=1

`gallery` is the schema of its tables (default `dcaplda`); `lag` lets searches go on for so many
seconds without asking the server. All else is libpq's.
"""

import math
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dcaplda.runtime.errors import GalleryError

USUAL = "dcaplda"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True)
class Address:
    """What a URL says."""

    server: str
    """For libpq: without what is ours."""
    gallery: str
    """Name of the schema."""
    lag: float
    """Seconds for which a search need not ask for changes; 0: it always asks."""
    files: str
    """Folder of this machine for files of rows and codes; "": the account's own for such files."""
    shown: str
    """For messages: without the password."""


def parse_address(url: str) -> Address:
    """Understand a URL; its password is in no message."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=False))
    except ValueError:
        raise GalleryError("the address of the gallery is no URL (postgresql://...)") from None
    gallery, lag = options.pop("gallery", USUAL), options.pop("lag", "0")
    files = options.pop("files", "")
    host = parts.netloc.rpartition("@")[2]
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    name = urlunsplit(("postgresql", f"{user}@{host}" if user else host, parts.path, "", ""))
    shown = name if gallery == USUAL else f"{name}?gallery={gallery}"
    if not _NAME.fullmatch(gallery):
        raise GalleryError(
            f"{name}: gallery={gallery!r} is no name: small letters, digits and _, at most 48"
        )
    try:
        seconds = float(lag)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 3600:
        raise GalleryError(f"{shown}: lag={lag!r}: expected seconds, from 0 to 3600")
    server = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(options)))
    return Address(server, gallery, seconds, files, shown)
