"""The errors a user can cause; everything else is a bug and keeps its traceback."""


class DcapldaError(Exception):
    """One line for the user: the place, the value found there, and the way out."""


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
