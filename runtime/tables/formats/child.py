"""Files whose library may crash, abort or run for ever on damage are decoded by a child process.

Of some thousand randomly damaged files, polars 2.1 asked for exabytes for one, and HDF5 never came
back from the variable-length ids of another. No `except` turns that into a line for the user.
"""

import importlib
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.files import note_input
from dcaplda.runtime.tables.formats.arrays import Broken
from dcaplda.runtime.tables.formats.registry import Rows

# The package as in bin/_checkout.py: from its folder, whether that is a checkout or installed.
CODE = """
import sys, types
package = types.ModuleType("dcaplda")
package.__path__ = [sys.argv[1]]
sys.modules["dcaplda"] = package
from dcaplda.runtime.tables.formats.child import hand_over
hand_over(*sys.argv[2:])
"""
_PACKAGE = Path(__file__).resolve().parents[3]
PATIENCE = 120.0
"""Seconds that a child gets, and one more for each MB: slower than any disk in use."""


def decode_in_child(module: str, name: str, kind: str) -> Rows:
    """What `decode` of a module here makes of a file; `kind` is the format in messages."""
    if not os.path.isfile(name):
        raise TableError(f"'{name}': no such file; check the name and the directory")
    note_input(os.stat(name))
    command = [sys.executable, "-P", "-c", CODE, str(_PACKAGE), module, os.path.abspath(name)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    stream = cast(io.BufferedReader, process.stdout)
    clock = threading.Timer(PATIENCE + os.path.getsize(name) / 1e6, process.kill)
    clock.start()
    try:
        answer = _answer(stream.readline())
        matrix = np.empty(answer.get("shape", (0, 0)), answer.get("dtype", "<f4"))
        n_bytes = stream.readinto(matrix.reshape(-1).view(np.uint8).data)
    finally:
        clock.cancel()
        process.kill()  # of no effect on one that has ended
        stream.close()
        process.wait()
    if "broken" in answer:
        raise TableError(f"'{name}': {answer['broken']}")
    if "ids" not in answer or n_bytes != matrix.nbytes:
        reason = answer.get("damaged", "damaged")
        raise TableError(f"'{name}': cannot be read as {kind} ({reason}); make it again")
    return answer["ids"], matrix


def _answer(line: bytes) -> dict[str, Any]:
    """What the child says; nothing if it died meanwhile."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def hand_over(module: str, path: str) -> None:
    """What the child does: a line of JSON, then the values, to stdout."""
    try:
        names, matrix = importlib.import_module(module).decode(path)
    except Broken as error:
        answer: dict[str, Any] = {"broken": " ".join(str(error).split())}
    # Damaged files make the libraries raise nearly anything; a panic of polars is no Exception.
    except BaseException as error:
        answer = {"damaged": (str(error).splitlines() or [""])[0][:120]}
    else:
        answer = {"ids": names, "shape": matrix.shape, "dtype": matrix.dtype.str}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    if "ids" in answer:
        sys.stdout.buffer.write(np.ascontiguousarray(matrix).data)
    sys.stdout.buffer.flush()
