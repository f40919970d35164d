"""A joint model's arrays as a file of the bundle (npz, never pickled, never compressed)."""

import io
import zipfile

import numpy as np

from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.joint.rows import JointModel, read_joint


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
            arrays = {
                member.filename.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(member)), allow_pickle=False
                )
                for member in members
            }
    except BundleError:
        raise
    # zipfile and numpy's headers answer damage with errors of a dozen kinds.
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise BundleError(f"{place}: not readable ({why}); export the model again") from None
    return read_joint(arrays, place)
