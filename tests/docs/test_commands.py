"""Every command line in the pages about the tools is one that the tool understands."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from dcaplda.bin.common.options import parse

ROOT = Path(__file__).parents[2]
TOOLS = (
    "extract-embeddings",
    "score-trials",
    "score-pairs",
    "compute-durations",
    "copy-vectors",
    "enroll-speakers",
    "import-model",
    "export-onnx",
    "train-backend",
    "eval-scores",
    "make-trials",
    "adapt-backend",
    "search-speakers",
    "migrate-gallery",
    "export-gallery",
    "import-gallery",
    "calibrate-scores",
)
PAGES = ("docs/cli.md", "docs/kaldi.md", "docs/wespeaker.md", "docs/metrics.md", "docs/recipe.md")
PAGES += ("docs/galleries.md",)
PAGES += (
    "docs/diarization.md",
    "docs/audio.md",
    "docs/training.md",
    "README.md",
    "egs/kaldi/README.md",
)


def commands(page: str) -> list[list[str]]:
    """Words of each command line in the code blocks of a page, from the tool's name on."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.S)
    names = "|".join(TOOLS)
    blocks += re.findall(rf"^    ((?:{names}) (?:.*\\\n)*.*)", text, flags=re.M)
    found = []
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        starts = [place for place, word in enumerate(words) if word in TOOLS]
        found += [words[place:] for place in starts[:1]]
    return found


@pytest.mark.parametrize("page", PAGES[:-1])
def test_commands_parse(page: str) -> None:
    lines = commands(page)
    assert lines
    for name, *words in lines:
        module = importlib.import_module(f"dcaplda.bin.{name.replace('-', '_')}")
        replaced = [
            word.replace("JOB", "1").replace("$J", "1") for word in words if word not in ("|", "-")
        ]
        replaced = [word for word in replaced if not word.startswith((">", "<"))]
        # A recipe is read by the tool itself; here only the command line matters.
        options = [word for word in replaced if not word.startswith("--config=")]
        parse(module.TOOL, options)


@pytest.mark.parametrize("page", ("docs/cli.md", "docs/kaldi.md", "docs/wespeaker.md", PAGES[-1]))
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    for name in re.findall(r"`((?:egs|tests|docs)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`([\w-]+\.md)`", text):
        assert (ROOT / "docs" / name).exists(), name


def test_no_page_exports_what_training_has_exported() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("egs/**/*.md")]
    for page in pages:
        for block in re.findall(r"```sh\n.*?```|(?:^    [^\n]*\n)+", page.read_text(), re.S | re.M):
            trained = "train-backend" in block and "--export=false" not in block
            assert not (trained and "export-onnx" in block), page
