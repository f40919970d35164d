"""Files of tensors (safetensors): read whole, with one hash over everything in them."""

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from dcaplda.runtime.fields import parse_json, typed


class Unreadable(Exception):
    """Why a file is not one of tensors."""


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and the text that its header holds by name.

    In memory of their own: whatever becomes of the file, they stay as they were checked.
    """
    try:
        content = path.read_bytes()
        (size,) = struct.unpack_from("<Q", content)
        header = parse_json(content[8 : 8 + size])
        told = header.get("__metadata__", {}) if isinstance(header, dict) else None
        metadata = typed(told, dict[str, str], "__metadata__")
        return load(content), metadata
    except OSError as error:
        raise Unreadable(f"{error.strerror}") from None
    # The library and torch answer damage with errors of many kinds.
    except (SafetensorError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise Unreadable(str(error)[:200]) from None
    except (RuntimeError, struct.error) as error:
        raise Unreadable(str(error)[:200]) from None


def tensors_digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Of a text, and of names, types, shapes and bytes of tensors on the CPU."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        about = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        digest.update(f"\n{about}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
