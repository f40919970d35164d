"""--place-bundles: which bundle was adapted to which place."""

from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.tables.text_tables import read_words


def read_bundles(given: str) -> dict[str, str]:
    """Directory of the bundle of each place, from 'office=dir,phone=dir' or a file."""
    if not given:
        return {}
    if "=" not in given:
        return read_words(given)
    found: dict[str, str] = {}
    for part in given.split(","):
        name, _, directory = part.partition("=")
        if not name or not directory or name in found:
            raise UsageError(f"--place-bundles={given}: '{part}' is not one place=dir")
        found[name] = directory
    return found
