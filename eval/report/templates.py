"""Templates of pages: what they say is escaped, and a name that is missing is an error."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from dcaplda.runtime.files import replacing

HERE = Path(__file__).parent


def fill(template: str, folder: Path = HERE, /, **values: Any) -> str:
    """A page as text; what `template` includes is looked for in `folder`, then in this room."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def script_data(record: Any) -> str:
    """JSON for a <script> element: nothing in it can end the element."""
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def script_hash(script: str) -> str:
    """How a page's Content-Security-Policy allows this one script, and no other."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def write_page(path: str | Path, text: str) -> None:
    """Write a page whole or not at all."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
