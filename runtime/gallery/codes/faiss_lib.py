"""faiss, imported when it is needed, on one thread: its own would not survive a fork."""

import contextlib
from collections.abc import Iterator
from typing import Any

from dcaplda.runtime.errors import InputError


def needed() -> Any:
    """The module, or a line that says how to get it."""
    try:
        import faiss
    except ImportError:
        raise InputError(
            "index='codes' needs faiss: pip install 'dcaplda[index]', or open the gallery without"
        ) from None
    return faiss


@contextlib.contextmanager
def one_thread() -> Iterator[Any]:
    """faiss on the caller's thread alone."""
    faiss = needed()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(before)
