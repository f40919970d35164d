"""Conditions, tables of sets, averages over groups."""

import numpy as np
import pytest

from dcaplda.eval.results import Result, averages
from dcaplda.eval.sets import named_systems, read_table
from dcaplda.eval.trials.conditions import (
    SideFiles,
    SideTables,
    bin_names,
    check_edges,
    conditions,
    trial_speakers,
)
from dcaplda.eval.trials.joining import Counts, Joined
from dcaplda.runtime.errors import DcapldaError

NAMES = ["m1", "m2", "u1", "u2", "u3"]


def make_joined(pairs, labels):
    enroll, test = np.array(pairs, np.uint32).T
    return Joined(np.zeros(len(pairs)), np.array(labels), enroll, test, Counts())


@pytest.fixture
def tables(tmp_path):
    files = {
        "utt2spk": "u1 ann\nu2 bob\nu3 ann\n",
        "utt2dur": "u1 3\nu2 4\nu3 10\n",
        "utt2dom": "u1 tel\nu2 mic\nu3 tel\n",
        "spk2utt": "m1 u1 u3\nm2 u2 u1\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    paths = {name: str(tmp_path / name) for name in files}
    return SideTables.read(SideFiles(**paths))


def test_models_take_their_values_from_their_utterances(tables):
    assert tables.speaker_of("m1") == "ann"
    assert tables.seconds_of("m1") == 13.0
    assert tables.domain_of("m1") == "tel"
    assert tables.domain_of("m2") == "mixed"
    assert tables.speaker_of("ann") == "ann"  # a model named by its speaker
    with pytest.raises(DcapldaError, match="model 'm2' mixes several speakers"):
        tables.speaker_of("m2")
    with pytest.raises(DcapldaError, match="no entry for 'x9'"):
        tables.seconds_of("x9")


def test_speakers_are_numbered_by_name(tables):
    joined = make_joined([(0, 2), (0, 3), (2, 4)], [True, False, True])
    assert trial_speakers(joined, NAMES, tables).tolist() == [[0, 0, 0], [0, 1, 0]]


def test_every_trial_is_in_one_cell_of_each_kind(tables):
    joined = make_joined([(0, 2), (0, 3), (1, 4), (2, 3)], [True, False, False, False])
    found = list(conditions(joined, NAMES, tables, (4.0, 8.0)))
    for kind in ("duration", "domain"):
        cells = [c for c in found if c.kind == kind]
        assert sum(c.trials.astype(int) for c in cells).tolist() == [1, 1, 1, 1]
    cells = {(c.enroll, c.test): np.flatnonzero(c.trials).tolist() for c in found}
    assert cells["8+ s", "<4 s"] == [0]
    assert cells["8+ s", "4-8 s"] == [1]  # exactly 4 s belongs to the longer bin
    assert cells["4-8 s", "8+ s"] == [2]  # m2: 4 + 3 seconds
    assert cells["mixed", "tel"] == [2]


def test_bins_are_named_and_checked():
    assert bin_names((4.0, 8.0)) == ["<4 s", "4-8 s", "8+ s"]
    for edges in ((), (0.0, 4.0), (8.0, 4.0), (4.0, np.inf)):
        with pytest.raises(DcapldaError, match="rising seconds"):
            check_edges(edges)


def test_averages_are_plain_means_and_the_loss_is_that_of_the_mean():
    def result(name, group, cllr, minimum):
        values = {"cllr_0.5": cllr, "min_cllr_lin_0.5": minimum, "calibration_loss_0.5": 9.0}
        return Result("sys", name, group, 10, 20, values)

    (mean,) = averages(
        [result("a", "G", 0.4, 0.3), result("b", "G", 0.8, 0.3), result("c", "", 5.0, 5.0)]
    )
    assert mean.set == "G" and mean.average_of == ("a", "b")
    assert (mean.n_target, mean.n_nontarget) == (20, 40)
    assert mean.values["cllr_0.5"] == pytest.approx(0.6)
    assert mean.values["min_cllr_lin_0.5"] == pytest.approx(0.3)
    assert mean.values["calibration_loss_0.5"] == pytest.approx(0.5)


TABLE = """
[[set]]
name = "one"
trials = "data/one"
group = "DEV"
utt2dur = "ark:durations"

[[set]]
name = "two"
trials = "gunzip -c two.gz |"

[[system]]
name = "plda"
scores = "exp/{set}.scores"
"""


def test_a_table_names_files_from_its_own_directory(tmp_path):
    path = tmp_path / "sets.toml"
    path.write_text(TABLE)
    sets, systems = read_table(str(path), SideFiles(utt2spk="common"))
    assert [s.name for s in sets] == ["one", "two"]
    assert sets[0].trials == str(tmp_path / "data/one")
    assert sets[0].files.utt2dur == f"ark:{tmp_path / 'durations'}"
    assert sets[0].files.utt2spk == "common" and sets[0].group == "DEV"
    assert sets[1].trials == "gunzip -c two.gz |"
    assert systems[0].scores_of("two") == str(tmp_path / "exp/two.scores")


@pytest.mark.parametrize(
    "change,words",
    [
        (("trials =", "trails ="), "no key 'trails'; did you mean 'trials'"),
        (('name = "two"', 'name = "one"'), "two of .*set.* are named 'one'"),
        (("{set}", "all"), "put {set} into it"),
        (("[[system]]", "[system]"), "has no .*system"),
        (("[[set]]", "[[sets]]"), "no key 'sets'; did you mean 'set'"),
        (('"data/one"', "3"), "needs trials as text, found 3"),
        (("name", "name name"), "not valid TOML"),
    ],
)
def test_a_bad_table_is_one_clear_line(tmp_path, change, words):
    path = tmp_path / "sets.toml"
    path.write_text(TABLE.replace(*change))
    with pytest.raises(DcapldaError, match=words):
        read_table(str(path), SideFiles())


def test_systems_are_named_by_files_or_by_the_user():
    assert [s.name for s in named_systems(["x/a.scores", "y/b.scores"], [])] == [
        "a.scores",
        "b.scores",
    ]
    assert [s.name for s in named_systems(["x/s", "y/s"], [])] == ["x/s", "y/s"]
    assert [s.name for s in named_systems(["x/s", "y/s"], ["p", "q"])] == ["p", "q"]
    with pytest.raises(DcapldaError, match="1 names for 2"):
        named_systems(["a", "b"], ["p"])
