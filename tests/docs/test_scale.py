"""The recipes of docs/scale.md, run as they stand, find what was planted."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from dcaplda.bin.score_pairs import main
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.plda.form import plda_form

pytestmark = pytest.mark.torch

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
DIM, PEOPLE, EACH = 40, 6, 7
SHARE = 0.9
"""Of the variance that is the speaker's."""


def recipe(heading: str) -> tuple[list[str], str]:
    """The command and the program below a heading."""
    part = PAGE.read_text().split(f"### {heading}\n")[1].split("\n#")[0]
    command, program = (re.search(rf"```{k}\n(.*?)```", part, re.S)[1] for k in ("sh", "python"))
    words = shlex.split(command)
    assert words[0] == "score-pairs"
    return words[1:], program


def export_sure_model(directory: Path) -> None:
    """A PLDA whose variances are those of the embeddings below."""
    model = Backend(ModelConfig(variant="plda", embedding_dim=DIM, lda_dim=DIM))
    form = plda_form(np.eye(DIM) * DIM / SHARE, np.eye(DIM) * DIM / (1.0 - SHARE), np.zeros(DIM))
    with torch.no_grad():
        model.preprocess.weight.copy_(torch.eye(DIM))
        model.preprocess.bias.zero_()
        model.plda.cross.copy_(torch.tensor(form.cross))
        model.plda.auto.copy_(torch.tensor(form.auto))
        model.plda.linear.copy_(torch.tensor(form.linear))
        model.plda.offset.fill_(form.offset)
        model.scale.fill_(1.0)
        model.shift.zero_()
    export_model(model, directory)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Six people of seven utterances; one has a wrong label, one is there twice."""
    folder = tmp_path_factory.mktemp("archive")
    rng = np.random.default_rng(1)
    voices = np.sqrt(SHARE) * rng.standard_normal((PEOPLE, DIM))
    people = np.repeat(np.arange(PEOPLE), EACH)
    noise = np.sqrt(1.0 - SHARE) * rng.standard_normal((len(people), DIM))
    vectors = voices[people] + noise
    vectors[10] = 1.7 * vectors[8]  # louder, and under another name
    ids = [f"utt{i:02d}" for i in range(len(people))]
    labels = [f"person{p}" for p in people]
    labels[20] = "person4"
    (folder / "exp").mkdir()
    export_sure_model(folder / "exp/model")
    with contextlib.chdir(folder):
        write_vectors("ark,scp:xvector.ark,xvector.scp", ids, vectors.astype(np.float32))
    (folder / "utt2spk").write_text("".join(map("{} {}\n".format, ids, labels)))
    (folder / "utt2dur").write_text("".join(f"{name} 10\n" for name in ids))
    (folder / "segments").write_text(
        "".join(f"{name} show{i % 3} {i}.5 {i + 1}.25\n" for i, name in enumerate(ids))
    )
    return folder


def run(folder: Path, heading: str) -> list[str]:
    """Lines that the recipe prints."""
    words, program = recipe(heading)
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        assert main(words) == 0
        exec(compile(program, heading, "exec"), {})
    return said.getvalue().splitlines()


def groups_of_people() -> set[frozenset[str]]:
    return {
        frozenset(f"utt{i:02d}" for i in range(p * EACH, (p + 1) * EACH)) for p in range(PEOPLE)
    }


def test_duplicate_detection(folder: Path) -> None:
    assert run(folder, "Duplicate detection") == ["utt08 utt10"]


def test_data_cleaning(folder: Path) -> None:
    expected = ["utt20 is labelled person4 and sounds like person2"]
    assert run(folder, "Data cleaning") == expected


def test_link_analysis(folder: Path) -> None:
    found = {frozenset(line.split(" ")) for line in run(folder, "Link analysis")}
    assert found == groups_of_people()


def test_diarization_of_archives(folder: Path) -> None:
    lines = [line.split(" ") for line in run(folder, "Diarization of archives")]
    assert lines[4][:5] == ["SPEAKER", "show1", "1", "4.5", "0.75"]
    by_name: dict[str, set[str]] = {}
    for number, words in enumerate(lines):
        by_name.setdefault(words[7], set()).add(f"utt{number:02d}")
    assert {frozenset(members) for members in by_name.values()} == groups_of_people()


@pytest.mark.parametrize(
    "heading",
    ["Duplicate detection", "Data cleaning", "Link analysis", "Diarization of archives"],
)
def test_a_recipe_is_ten_lines(heading: str) -> None:
    assert recipe(heading)[1].count("\n") <= 10
