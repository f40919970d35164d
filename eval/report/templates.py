"""Templates of this room: what they say is escaped, and a name that is missing is an error."""

from pathlib import Path
from typing import Any

from dcaplda.runtime.files import replacing


def fill(template: str, **values: Any) -> str:
    """A page as text."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def write_page(path: str | Path, text: str) -> None:
    """Write a page whole or not at all."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
