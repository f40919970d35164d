"""Opening somebody else's ONNX file: by its bytes, so that what runs is what was hashed."""

import hashlib
from pathlib import Path

import onnxruntime

from dcaplda.runtime.errors import ExtractorError

# An entry `location` of a tensor whose values lie in another file, as protobuf writes it.
_EXTERNAL = b"\n\x08location\x12"


def open_session(path: str | Path) -> tuple[onnxruntime.InferenceSession, str]:
    """The graph on one thread, and the sha256 of its file."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ExtractorError(f"{path}: cannot be read ({reason}); name an ONNX file") from None
    if _EXTERNAL in content:
        raise ExtractorError(
            f"{path}: keeps its weights in another file, which its hash would not cover; save it "
            "as one file (onnx.save_model(..., save_as_external_data=False))"
        )
    options = onnxruntime.SessionOptions()
    # Files are worked on side by side, each on one thread.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no public base
        raise ExtractorError(
            f"{path}: onnxruntime {onnxruntime.__version__} cannot open it ({first_line(error)}); "
            "is it an ONNX file?"
        ) from None
    return session, hashlib.sha256(content).hexdigest()


def first_line(error: Exception) -> str:
    """What onnxruntime says, without its stack."""
    return (str(error).splitlines() or [type(error).__name__])[0]
