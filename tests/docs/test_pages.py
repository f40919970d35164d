"""Pages name what exists, each has one reader, and the map knows all of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("egs/**/*.md"))]
ROOMS = "audio bin eval export runtime simulate train"
FOLDERS = f"{ROOMS} bench docs egs examples tests".split()
SUFFIXES = "py|sh|md|mjs|toml|txt|png"
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def links(text: str) -> list[tuple[str, str]]:
    """File and heading of each link that stays inside the project."""
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text)
    return [link for link in found if "://" not in link[0]]


def anchors(text: str) -> set[str]:
    """Headings as a link writes them."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def files(text: str) -> list[str]:
    """What looks like a Python file in a folder, and any file in a folder of this project."""
    words = re.findall(rf"(?<![\w./<>{{}}*-])(?:[\w.-]+/)+[\w.-]+\.(?:{SUFFIXES})\b", text)
    return [word for word in words if word.endswith(".py") or word.split("/")[0] in FOLDERS]


def modules(text: str) -> list[str]:
    """Modules of this package, with or without a name in them."""
    return re.findall(rf"\bdcaplda(\.(?:{ROOMS.replace(' ', '|')})\b(?:\.\w+)*)", text)


def module_exists(dotted: str) -> bool:
    """The module is there, or the one that would have the last word as a name."""
    place = ROOT.joinpath(*dotted.strip(".").split("."))
    return any(
        place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()
        for place in (place, place.parent)
        if place != ROOT
    )


def test_what_is_looked_for_is_found() -> None:
    text = "[a](b.md#c) [d](#e) `train/x.py` dcaplda.eval.metrics dcaplda.sh exp/y.md, my/z.py."
    assert links(text) == [("b.md", "c"), ("", "e")]
    assert files(text) == ["train/x.py", "my/z.py"]
    assert modules(text) == [".eval.metrics"]
    assert anchors("# From C++, Java and the rest\n") == {"from-c-java-and-the-rest"}
    assert module_exists(".runtime") and not module_exists(".nothing.here")


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for name, heading in links(page.read_text()):
        goal = page.parent / name if name else page
        assert goal.exists(), f"({name})"
        if heading:
            assert heading in anchors(goal.read_text()), f"({name}#{heading})"


@pages
def test_files_and_modules_exist(page: Path) -> None:
    text = page.read_text()
    for name in files(text):
        # A recipe's page may count from its own folder.
        assert (ROOT / name).exists() or (page.parent / name).exists(), name
    for name in modules(text):
        assert module_exists(name), f"dcaplda{name}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_page_names_its_reader(page: Path) -> None:
    title, blank, reader = page.read_text().splitlines()[:3]
    assert title.startswith("# ") and not blank
    assert re.fullmatch(r"\*For [^*]+\*", reader), f"the third line is: {reader}"


def test_every_page_is_in_the_map_once() -> None:
    rows = [line for line in (ROOT / "docs/README.md").read_text().splitlines() if "|" in line]
    named = re.findall(r"\]\(([\w-]+\.md)\)", "\n".join(rows))
    assert len(named) == len(set(named))
    assert {page.name for page in DOCS} - {"README.md"} <= set(named)
