"""simulate-xvectors: the files it writes, and what it refuses."""

import json

import numpy as np
import pytest
from small_world import small_values

from dcaplda.bin import simulate_xvectors
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_words
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.simulate import oracle
from dcaplda.simulate.config import world_from_dict
from dcaplda.simulate.world import build_world


def toml(values) -> str:
    """The small world as a file; inline tables are enough here."""

    def shown(value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {shown(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(shown, value)) + "]"
        return json.dumps(value)

    return "".join(f"{key} = {shown(value)}\n" for key, value in values.items())


@pytest.fixture
def world_file(tmp_path):
    path = tmp_path / "world.toml"
    path.write_text(toml(small_values()))
    return path


def run(*words) -> int:
    return simulate_xvectors.main([str(word) for word in words])


def test_files_are_whole_kaldi_directories_that_agree_with_each_other(tmp_path, world_file):
    out = tmp_path / "data"
    assert run("--seed=3", world_file, out) == 0
    sets = [line.split() for line in (out / "test_sets").read_text().splitlines()]
    assert len(sets) == 6 and ["eval-hall-short", "hall"] in sets
    for name in ["train", "train_full", "cohort", "calibration", *(name for name, _ in sets)]:
        place = out / name
        table = read_vectors(f"scp:{place}/xvector.scp")
        assert np.array_equal(table.matrix, read_vectors(f"ark:{place}/xvector.ark").matrix)
        for words in ("utt2spk", "utt2sess", "utt2dom"):
            assert list(read_words(str(place / words))) == table.ids
        assert list(read_durations(str(place / "utt2dur"))) == table.ids
        members = read_lists(str(place / "spk2utt"))
        assert sorted(utt for utts in members.values() for utt in utts) == sorted(table.ids)


def test_oracle_scores_follow_from_the_written_files_alone(tmp_path, world_file):
    """Within 2e-4: files hold float32 embeddings and hundredths of seconds, as any system gets."""
    out = tmp_path / "data"
    assert run("--seed=3", world_file, out) == 0
    world = build_world(world_from_dict(small_values()), 3)
    place = out / "dev-street-short"
    table = read_vectors(f"scp:{place}/xvector.scp")
    rows = table.rows()
    seconds = read_durations(str(place / "utt2dur"))
    models = read_lists(str(place / "models"))
    for kind in ("single", "multi"):
        lines = [line.split() for line in (place / f"trials_{kind}").read_text().splitlines()]
        scores = [line.split() for line in (place / f"oracle_{kind}").read_text().splitlines()]
        assert [line[:2] for line in lines] == [line[:2] for line in scores]
        names = list(dict.fromkeys(line[0] for line in lines))
        members = [[rows[u] for u in models.get(name, [name])] for name in names]
        trials = oracle.Trials(
            members,
            np.array([names.index(line[0]) for line in lines]),
            np.array([rows[line[1]] for line in lines]),
        )
        times = np.array([seconds[utt] for utt in table.ids])
        found = oracle.score(world, "street", table.matrix, times, trials)
        np.testing.assert_allclose(found, [float(s[2]) for s in scores], atol=2e-4, rtol=1e-5)


def test_calibration_trials_are_of_training_speakers_across_sessions(tmp_path, world_file):
    out = tmp_path / "data"
    assert run(world_file, out) == 0
    speaker = read_words(str(out / "train" / "utt2spk"))
    session = read_words(str(out / "train" / "utt2sess"))
    lines = (out / "calibration" / "trials_single").read_text().splitlines()
    labels = []
    for enroll, test, label in map(str.split, lines):
        assert session[enroll] != session[test]
        assert (speaker[enroll] == speaker[test]) == (label == "target")
        labels.append(label)
    assert labels.count("target") == 8 and labels.count("nontarget") == 56


def test_the_same_seed_writes_the_same_bytes(tmp_path, world_file):
    for name in ("a", "b"):
        assert run("--seed=4", world_file, tmp_path / name) == 0
    for table in (
        "train/xvector.ark",
        "eval-hall-full/trials_single",
        "eval-hall-full/oracle_multi",
    ):
        assert (tmp_path / "a" / table).read_bytes() == (tmp_path / "b" / table).read_bytes()


@pytest.mark.parametrize(
    ("options", "target", "words"),
    [
        (["--seed=-1"], "data", "--seed=-1"),
        (["--scale=0"], "data", "--scale"),
        ([], "a b", "path with blanks"),
    ],
)
def test_bad_requests_are_one_clear_line(tmp_path, world_file, capsys, options, target, words):
    assert run(*options, world_file, f"{tmp_path}/{target}") == 1
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / target).exists()


def test_a_missing_world_file_is_named(tmp_path, capsys):
    assert run(tmp_path / "none.toml", tmp_path / "data") == 1
    assert "none.toml: cannot be read" in capsys.readouterr().err


def contents(folder) -> dict[str, bytes]:
    """Every file below a folder, the name of the folder itself left out of its scp files."""
    return {
        str(path.relative_to(folder)): path.read_bytes().replace(str(folder).encode(), b"")
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_parts_are_the_whole_and_come_to_it_only_together(tmp_path, world_file, capsys):
    assert run("--seed=3", world_file, tmp_path / "whole") == 0
    out = tmp_path / "parts"
    for part in (3, 1):
        assert run("--seed=3", f"--part={part}", "--num-parts=3", world_file, out) == 0
    assert not (out / "test_sets").exists()
    assert run("--seed=3", "--part=1", "--num-parts=3", world_file, out) == 0
    assert "part 1 of 3 is done already" in capsys.readouterr().err
    assert run("--seed=3", "--cluster=local", "--nj=3", world_file, out) == 0
    assert "2 of 3 parts are done already" in capsys.readouterr().err
    assert contents(out) == contents(tmp_path / "whole")
    # Another seed is other work.
    assert run("--seed=4", "--part=1", "--num-parts=3", world_file, out) == 0
    assert "is done already" not in capsys.readouterr().err
