"""A joint model's arrays as a file of the bundle (npz, never pickled, never compressed)."""

import io
import re
import zipfile

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.joint.rows import JointModel, read_joint

LARGEST = 1e9
"""Of any value that is stored. No model comes near it but for `told_count`, and products of two or
three stay within float32."""
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<f8', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,9}(?:, [0-9]{1,9})*,?)?)\), \} *\n",
    re.S,
)


def joint_bytes(model: JointModel) -> bytes:
    """The file's content; the same arrays give the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, values in model.arrays().items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(values, order="C"), allow_pickle=False)
            # A date of its own would make every export another file.
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), member.getvalue()
            )
    return stream.getvalue()


def parse_joint(content: bytes, place: str) -> JointModel:
    """The model of a file's content."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            # Stored members are no larger than the file: nothing to blow up.
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise BundleError(f"{place}: is compressed; export the model again")
            raw = {member.filename.removesuffix(".npy"): archive.read(member) for member in members}
            arrays = {name: _array(data) for name, data in raw.items()}
            for name, values in arrays.items():
                if (np.abs(values) > LARGEST).any():
                    raise BundleError(f"{place}: '{name}' has a wrong size or value; export again")
    except BundleError:
        raise
    # zipfile answers damage with errors of a dozen kinds.
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise BundleError(f"{place}: not readable ({why}); export the model again") from None
    return read_joint(arrays, place)


def _array(data: bytes) -> NDArray[np.float64]:
    """An array exactly as joint_bytes writes it: nothing is converted, nothing evaluated."""
    found = _HEADER.match(data)
    if found is None:
        raise ValueError("an array that is not of float64")
    shape = tuple(int(size) for size in found[1].replace(b" ", b"").split(b",") if size)
    values = np.frombuffer(data, "<f8", offset=found.end())
    return values.reshape(shape)
