"""The errors a user can cause; everything else is a bug and keeps its traceback."""

import re

# A longer word is cut; one with a '/' may be a path, which is of no use unless whole.
_LONGEST_WORD = 64
_LONGEST_PATH = 240
_LONGEST_LINE = 6000
_LONG_WORD = re.compile(rf"[^\s'\"]{{{_LONGEST_WORD + 1},}}")


def shortened(text: str) -> str:
    """A message whose long words, such as ids, are cut in the middle, and so is a long whole."""
    if len(text) > _LONGEST_WORD:
        text = _LONG_WORD.sub(_cut, text)
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE - 300]} ... {text[-250:]}"
    return text


def _cut(match: re.Match[str]) -> str:
    word = match[0]
    longest = _LONGEST_PATH if "/" in word else _LONGEST_WORD
    if len(word) <= longest:
        return word
    return f"{word[: longest // 2]}...{word[-(longest // 4) :]}"


def one_line(text: str) -> str:
    """A message on one line that any terminal shows as it is, whatever a file or an id put in."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.splitlines()))


class DcapldaError(Exception):
    """One line for the user: the place, the value found there, and the way out."""

    def __init__(self, text: str) -> None:
        super().__init__(shortened(one_line(text)))


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


class AudioError(DcapldaError):
    """A recording that cannot be decoded, or that holds too little speech."""


class ExtractorError(DcapldaError):
    """An extractor, or a model of its speech detection, that cannot be used."""


class PartError(DcapldaError):
    """A part of a long job that is missing, failed, altered, or made of other inputs."""


class UsageError(DcapldaError):
    """A command line or configuration that does not make sense."""
