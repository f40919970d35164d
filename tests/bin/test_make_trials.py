"""make-trials: files that the other tools take as they are, the same twice, and what it refuses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from eval_data import SHARED
from training_world import DIM, copies, draw, write_data_dir
from trial_rules import Labels, check_balance, check_trials, models, table, trials

from dcaplda.bin.make_trials import main

ROOT = Path(__file__).parents[2]
REAL = SHARED / "real"
LISTS = {
    "trials_single": "enroll_single",
    "trials_multi": "enroll_multi",
    "trials_single_cross": "enroll_single",
    "trials_multi_cross": "enroll_multi",
}
RECIPE = """
[model]
variant = "plda"
lda_dim = 12
[init]
em_iterations = 5
[batch]
size = 48
[stage1]
steps = 0
[stage2]
steps = 0
[stage3]
steps = 0
"""


def write_world(folder: Path) -> Path:
    """Three domains of 14 people and a copy of the first, 3 sessions of 2; names as in a folder."""
    sample = copies(draw(2), np.full(DIM, 0.5))
    write_data_dir(folder, sample)
    vectors = dict(zip(sample.ids, sample.vectors, strict=True))
    kaldiio.save_ark(str(folder / "x.ark"), vectors, scp=str(folder / "xvector.scp"))
    text = (folder / "xvector.scp").read_text().replace(f"{folder}/", "")
    (folder / "xvector.scp").write_text(text)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("trials") / "mine")


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_all_lists_follow_the_rules(world: Path, tmp_path: Path) -> None:
    assert main([str(world), str(tmp_path / "out")]) == 0
    assert set(files(tmp_path / "out")) == {*LISTS, *LISTS.values()}
    labels = Labels.read(world)
    for name, enrolled in LISTS.items():
        made, known = trials(tmp_path / "out" / name), models(tmp_path / "out" / enrolled)
        check_trials(made, known, labels, name.endswith("_cross"))
        check_balance(made, known, labels)
        assert {model for model, _, _ in made} <= known.keys()
    people = {labels.speaker[name] for name in table(world / "utt2spk")}
    single = trials(tmp_path / "out" / "trials_single")
    assert {labels.speaker[model] for model, _, _ in single} == people


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(
    world: Path, tmp_path: Path
) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        words = ["--split=0.3", f"--seed={seed}", str(world), str(tmp_path / name)]
        program = "import sys; from dcaplda.bin.make_trials import main; main(sys.argv[1:])"
        # Each in a process of its own, so that the order of sets is another one.
        subprocess.run([sys.executable, "-c", program, *words], check=True)
    first, second, other = (files(tmp_path / name) for name in "abc")
    assert first == second
    assert first.keys() == other.keys()
    assert first["eval/trials_single"] != other["eval/trials_single"]


def test_a_split_parts_people_and_keeps_every_utterance(
    world: Path, tmp_path: Path, capsys
) -> None:
    assert main(["--split=0.3", str(world), str(tmp_path)]) == 0
    sides = [table(tmp_path / side / "utt2spk") for side in ("train", "eval")]
    assert not set(sides[0].values()) & set(sides[1].values())
    assert {**sides[0], **sides[1]} == table(world / "utt2spk")
    # 0.3 of 14 people of each of three domains, copies with their originals.
    domain = table(world / "utt2dom")
    for name in ("dom0", "dom0_tel", "dom1", "dom2"):
        held = {who for utterance, who in sides[1].items() if domain[utterance] == name}
        assert len(held) in (4, 5)
    for side, speakers in zip(("train", "eval"), sides, strict=True):
        for name in ("utt2sess", "utt2dom", "utt2dur", "xvector.scp"):
            assert table(tmp_path / side / name).keys() == speakers.keys()
        assert set(sum(models(tmp_path / side / "spk2utt").values(), [])) == speakers.keys()
    assert {name for name in files(tmp_path / "eval") if name.startswith("trials")} == set(LISTS)
    assert not (tmp_path / "train" / "trials_single").exists()
    for model, test, _ in trials(tmp_path / "eval" / "trials_single"):
        assert model in sides[1] and test in sides[1]
    assert f"LOG: train: 29 people, {len(sides[0])} utterances" in capsys.readouterr().err


def test_the_base_install_is_enough(world: Path, tmp_path: Path) -> None:
    program = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "polars", "kaldiio", "torch", "scipy"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Blocker())
from dcaplda.bin.make_trials import main
sys.exit(main(sys.argv[1:]))
"""
    words = ["--split=0.3", str(world), str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_the_page_works_as_typed(tmp_path: Path) -> None:
    """Held-out people of a simulated set, by a PLDA of the others: far better than chance."""
    from dcaplda.bin import export_onnx, make_trials, train_backend

    write_world(tmp_path / "all")
    (tmp_path / "plda.toml").write_text(RECIPE)
    (tmp_path / "data").mkdir()
    (tmp_path / "exp").mkdir()
    assert make_trials.main(["--split=0.4", str(tmp_path / "all"), str(tmp_path / "split")]) == 0
    (tmp_path / "split" / "eval").rename(tmp_path / "data" / "mine")
    train = tmp_path / "split" / "train"
    backend = tmp_path / "exp" / "backend"
    words = [f"--config={tmp_path / 'plda.toml'}", "--threads=1", str(train)]
    assert train_backend.main([*words, f"scp:{train}/xvector.scp", str(backend)]) == 0
    assert export_onnx.main([str(backend), str(backend / "bundle")]) == 0
    page = (ROOT / "docs" / "metrics.md").read_text()
    section = page.split("## Your own evaluation in three commands\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, flags=re.S)
    assert len(blocks) == 2
    settings = {
        **os.environ,
        "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}",
        "DCAPLDA_PYTHON": sys.executable,
    }
    for block, name in zip(blocks, ("trials_single", "trials_multi"), strict=True):
        done = subprocess.run(
            ["sh", "-ec", block], cwd=tmp_path, env=settings, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        made = trials(tmp_path / "data" / "mine" / "trials" / name)
        figures = re.search(r"(\d+) +(\d+) +(\d+\.\d+)", done.stdout)
        assert figures, done.stdout
        targets = sum(target for *_, target in made)
        assert (int(figures[1]), int(figures[2])) == (targets, len(made) - targets)
        assert float(figures[3]) < 25.0


def test_what_could_not_be_made_is_told(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = {"a1": "ann", "a2": "ann", "b1": "bob", "b2": "bob", "c1": "cleo"}
    (folder / "utt2spk").write_text("".join(f"{u} {p}\n" for u, p in rows.items()))
    (folder / "utt2dom").write_text("".join(f"{u} {'x' if u < 'c' else 'y'}\n" for u in rows))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "trials_multi").write_text("old\n")
    assert main([str(folder), str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    for line in (
        "WARNING: no utt2sess: 5 sessions taken from the ids",
        "WARNING: single, x: 2 models a person in place of 6: 'ann' can give no more",
        "WARNING: single, y: 'cleo' is the only speaker: no nontarget trials",
        "WARNING: multi, x: 2 of 2 people, such as 'ann', cannot give a model of 3 utterances",
        "WARNING: single_cross: nobody is in two domains",
        "trials_multi is of an earlier run",
        "LOG: single, x: 2 people, 4 models, 4 target and 8 nontarget trials",
    ):
        assert line in said, line
    assert set(files(tmp_path / "out")) == {"trials_single", "enroll_single", "trials_multi"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--models=0"], "--models=0: expected 1 or more"),
        (["--max-trials=-1"], "--max-trials=-1: expected 1 or more"),
        (["--enroll-utterances=1"], "--enroll-utterances=1: expected 2 or more"),
        (["--nontargets-per-target=0"], "--nontargets-per-target=0: expected a number above 0"),
        (["--nontargets-per-target=nan"], "--nontargets-per-target=nan: expected a number"),
        (["--split=1"], "--split=1: expected a share between 0 and 1"),
        (["--split=0.001"], "leaves one side empty"),
        (["--kinds=single,double"], "--kinds=double: expected single or multi"),
        (
            ["--kinds=multi", "--enroll-utterances=9"],
            "no trials can be made; multi, dom0: 14 of 14",
        ),
        (["--min-seconds=1e9"], "no trials can be made"),
        (["--utterances=nowhere"], "'nowhere': no such file"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    world: Path, tmp_path: Path, capsys, options: list[str], words: str
) -> None:
    assert main(["--print-args=false", *options, str(world), str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert words in said[-1] and sum("ERROR" in line for line in said) == 1
    assert not (tmp_path / "out").exists()


def test_a_split_into_the_parent_of_the_source_is_refused(tmp_path: Path, capsys) -> None:
    folder = write_world(tmp_path / "train")
    before = files(tmp_path)
    assert main(["--split=0.3", str(folder), str(tmp_path)]) == 1
    assert "is the data directory itself" in capsys.readouterr().err
    assert files(tmp_path) == before


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the real recordings are not beside the checkout")
@pytest.mark.parametrize("name", ["dev_seen", "dev_unseen"])
def test_real_recordings_get_lists_like_those_that_they_came_with(
    name: str, tmp_path: Path
) -> None:
    """Their makers drew up to 6 (3) models a person, 24 targets and 60 nontargets a model."""
    folder, labels = REAL / name, Labels.read(REAL / name)
    assert main(["--nontargets-per-target=2.5", str(folder), str(tmp_path)]) == 0
    for kind, enrolled in LISTS.items():
        if not (folder / kind).is_file():
            assert not (tmp_path / kind).exists()
            continue
        theirs, ours = trials(folder / kind), trials(tmp_path / kind)
        cross = kind.endswith("_cross")
        check_trials(theirs, models(folder / enrolled), labels, cross)
        check_trials(ours, models(tmp_path / enrolled), labels, cross)
        check_balance(ours, models(tmp_path / enrolled), labels)
        # Theirs of another domain go from an original to its degraded copy only. Where people
        # can give few models (baved), all of a domain have as few; chance moves the rest a little.
        for domain in set(labels.domain.values()) - {"baved"}:
            counts = [
                sum(
                    target and labels.domain[test] == domain and not (cross and "_" in model)
                    for model, test, target in made
                )
                for made in (theirs, _by_utterance(ours, models(tmp_path / enrolled)))
            ]
            assert abs(counts[0] - counts[1]) <= 0.1 * counts[0], (kind, domain, counts)


def _by_utterance(made: list, known: dict[str, list[str]]) -> list:
    """Models named by their first utterance, which begins with the domain, as theirs do."""
    return [(known[model][0], test, target) for model, test, target in made]
