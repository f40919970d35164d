"""The errors a user can cause; everything else is a bug and keeps its traceback."""

import re

# A longer word is cut; one with a '/' may be a path, which is of no use unless whole.
_LONGEST_WORD = 64
_LONGEST_PATH = 240
_LONG_WORD = re.compile(rf"[^\s'\"]{{{_LONGEST_WORD + 1},}}")


def shortened(text: str) -> str:
    """A message whose long words, such as ids, are cut in the middle."""
    return _LONG_WORD.sub(_cut, text) if len(text) > _LONGEST_WORD else text


def _cut(match: re.Match[str]) -> str:
    word = match[0]
    longest = _LONGEST_PATH if "/" in word else _LONGEST_WORD
    if len(word) <= longest:
        return word
    return f"{word[: longest // 2]}...{word[-(longest // 4) :]}"


class DcapldaError(Exception):
    """One line for the user: the place, the value found there, and the way out."""

    def __init__(self, text: str) -> None:
        super().__init__(shortened(text))


class InputError(DcapldaError):
    """Embeddings, durations or trials that cannot be scored."""


class TableError(DcapldaError):
    """A Kaldi table, trial list or other text file that cannot be read."""


class BundleError(DcapldaError):
    """A model directory that is incomplete, altered, or of a newer format."""


class GalleryError(DcapldaError):
    """A gallery that cannot be used, or a speaker that is not or already in it."""


class ModelError(DcapldaError):
    """A torch model, checkpoint or configuration that cannot be used."""


class UsageError(DcapldaError):
    """A command line or configuration that does not make sense."""
