import re
import tomllib
from pathlib import Path

import pytest

from dcaplda.runtime.errors import UsageError
from dcaplda.train.recipe.files import anchored, config_from_dict, config_to_toml, load_recipe
from dcaplda.train.recipe.sections import TrainingConfig

REPO = Path(__file__).parents[3]


def test_defaults_are_the_paper_s():
    config = TrainingConfig()
    assert (config.stage1.steps, config.stage1.rate) == (12_000, 5e-4)
    assert (config.stage2.steps, config.stage2.rate) == (3_000, 1e-3)
    assert (config.stage3.steps, config.stage3.rate) == (100, 1e-5)
    assert config.stage2.evaluate_every == config.stage3.evaluate_every == 1
    assert config.batch.size == 2048
    assert (config.model.lda_dim, config.model.side_hidden_dim, config.model.side_info_dim) == (
        300,
        200,
        6,
    )
    assert config.objective.betas == [0.5, 0.99]
    assert (config.objective.l2, config.objective.clip_norm) == (1e-4, 4.0)
    assert config.init.em_iterations == 100
    assert (config.objective.prior, config.objective.loss_weight) == (0.01, 0.056)


@pytest.mark.parametrize("path", sorted((REPO / "conf").glob("*.toml")), ids=lambda p: p.name)
def test_example_recipes_are_valid(path: Path):
    load_recipe(str(path))


def test_the_example_sets_of_the_paper_s_recipe_are_comments_that_can_be_uncommented(tmp_path):
    text = (REPO / "conf" / "dca-plda.toml").read_text()
    assert load_recipe(str(REPO / "conf" / "dca-plda.toml")).dev == ()
    path = tmp_path / "r.toml"
    path.write_text(re.sub(r"(?m)^# (\[\[dev\]\]|\w+ = )", r"\1", text))
    assert [dev.name for dev in load_recipe(str(path)).dev] == ["seen", "unseen"]


def test_written_recipe_reads_the_same(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        """
[model]
variant = "plda-dd"
duration_feature = "bin"
duration_parameters = { thresholds = [2.0, 8.0] }
[batch]
domain_weights = { "a b" = 2, c = 0.5 }
[[dev]]
name = 'quote " and \\\\ back'
xvectors = "scp:x.scp"
trials = "t"
weight = 2
"""
    )
    config = load_recipe(str(path))
    again = config_from_dict(tomllib.loads(config_to_toml(config)), "again")
    assert again == config
    assert again.batch.domain_weights == {"a b": 2.0, "c": 0.5}


def test_settings_beat_the_file_and_the_file_the_default(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("[stage1]\nsteps = 7\nrate = 0.25\n")
    config = load_recipe(str(path), ["stage1.steps=9", "init.balance=flat"])
    assert (config.stage1.steps, config.stage1.rate) == (9, 0.25)
    assert config.stage1.evaluate_every == TrainingConfig().stage1.evaluate_every
    assert config.init.balance == "flat"


def test_settings_reach_tables_and_development_sets(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text('[[dev]]\nname = "x"\nxvectors = "a"\ntrials = "b"\n')
    config = load_recipe(
        str(path), ["dev.x.weight=2.5", "batch.domain_weights.vox=3", "objective.betas=[0.9, 0.9]"]
    )
    assert config.dev[0].weight == 2.5
    assert config.batch.domain_weights == {"vox": 3.0}
    assert config.objective.betas == [0.9, 0.9]


def test_paths_of_development_sets_start_at_the_recipe(tmp_path):
    (tmp_path / "conf").mkdir()
    path = tmp_path / "conf" / "r.toml"
    path.write_text(
        '[[dev]]\nname = "x"\nxvectors = "scp:../d/x.scp"\ntrials = "t"\nspk2utt = "/abs/s"\n'
    )
    dev = load_recipe(str(path)).dev[0]
    assert dev.xvectors == f"scp:{tmp_path}/d/x.scp"
    assert dev.trials == f"{tmp_path}/conf/t"
    assert dev.spk2utt == "/abs/s"
    assert dev.durations == ""


@pytest.mark.parametrize("name", ["ark:gunzip -c x.gz |", "-", "ark:-", "/a/b", "scp:/a/b"])
def test_pipes_and_absolute_names_stay(name: str):
    assert anchored(name, Path("/elsewhere")) == name


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("npz:x", "npz:/here/x"),
        ("npy:../x", "npy:/x"),
        ("h5:/a/x.h5", "h5:/a/x.h5"),
        ("x.parquet", "/here/x.parquet"),
        ("ark,t:x", "ark,t:/here/x"),
        ("odd:x", "/here/odd:x"),
    ],
)
def test_specifiers_of_every_format_start_at_the_recipe(name: str, moved: str):
    assert anchored(name, Path("/here")) == moved


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[stage1]\nstep = 3\n", r"\[stage1\] has no key 'step'; did you mean 'steps'"),
        ("[stagee1]\nsteps = 3\n", r"no key 'stagee1'; did you mean 'stage1'"),
        ("[stage1]\nsteps = 1.5\n", r"\[stage1\] steps = 1.5: expected a whole number"),
        ("[stage2]\nrate = -1\n", r"\[stage2\] rate = -1"),
        ("[stage2]\nrate = 'fast'\n", "rate = 'fast': expected a number"),
        ("[stage2]\nrate = nan\n", "rate = nan: expected a number"),
        ("[init]\nbalance = 'equal'\n", "init.balance = 'equal': expected one of domain, flat"),
        ("[init]\ncalibration_folds = 1\n", "calibration_folds = 1: expected 0, or at least 2"),
        ("[model]\nvariant = 'pldaa'\n", "model.variant = 'pldaa'"),
        ("[batch]\nsize = 7\n", "batch.size = 7: expected an even number"),
        ("[objective]\nprior = 1.0\n", "objective.prior = 1.0"),
        ("[objective]\nbetas = [1]\n", "objective.betas"),
        ("[objective]\nl2_patterns = { x = 'a' }\n", "l2_patterns.x = 'a': expected a number"),
        ("[averaging]\naverage = 'mean'\n", "averaging.average = 'mean'"),
        ("[run]\nseed = true\n", "seed = True: expected a whole number"),
        ("[[dev]]\nname = 'x'\ntrials = 't'\n", r"\[\[dev\]\] 'x' needs the key 'xvectors'"),
        ("[dev]\nname = 'x'\n", r"write \[\[dev\]\]"),
        ("[[dev]]\nname = 'x'\nxvectors = 'a'\ntrials = 't'\nsplit = 'domain'\n", "'x' utt2dom"),
        ("[[dev]]\nname='x'\nxvectors='a'\ntrials='t'\n" * 2, "no other set has"),
        ("dev = [3]\n", r"\[\[dev\]\] number 1: is not a section"),
        ("[model]\nduration_parameters = { center = 'a' }\n", "center = 'a': expected a number"),
        ("[model]\nduration_parameters = { thresholds = ['a'] }\n", r"thresholds\[0\] = 'a'"),
        (f"[run]\nseed = {2**70}\n", "at most 63 bits"),
        (f"[stage1]\nrate = {10**400}\n", r"rate = inf: expected a number"),
        ("[[dev]]\nname='x'\nxvectors='a'\ntrials='t'\nweight=0\n", "have weight 0"),
        ("stage1 = 3\n", r"'stage1' is a section"),
        ("[stage1\n", "not valid TOML"),
    ],
)
def test_mistakes_are_one_clear_line_with_the_file(tmp_path, content: str, message: str):
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=message) as error:
        load_recipe(str(path))
    assert "bad.toml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("setting", ["steps=3", "stage1.steps", "dev.none.weight=1", "stage1=3"])
def test_malformed_settings_are_refused(setting: str):
    with pytest.raises(UsageError, match="--set"):
        load_recipe("", [setting])


def test_missing_file_is_named():
    with pytest.raises(UsageError, match="nowhere.toml"):
        load_recipe("nowhere.toml")


MANY = """
stage2 = 3
[model]
variant = "pldaa"
lda_dim = 0
[stage1]
stepz = 5
rate = "fast"
evaluate_every = 0
[objective]
betas = ["a", 0.9]
prior = 2
[batch]
size = 7
[modle]
[[dev]]
trials = "t"
weight = -1
[[dev]]
name = "unseen"
xvectors = "x"
trials = "t"
split = "speaker"
wait = 1
"""


def test_all_mistakes_of_all_sections_are_in_one_message(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(MANY)
    with pytest.raises(UsageError) as error:
        load_recipe(str(path), ["run.seed=-1", "averaging.top_k=many", "nonsense"])
    said = str(error.value)
    assert said.startswith(f"{path}: 18 problems: (1) ")
    assert "\n" not in said
    for words in (
        "--set=nonsense: expected section.key=value",
        "the recipe has no key 'modle'; did you mean 'model'?",
        "'stage2' is a section",
        "model.variant = 'pldaa'",
        "model.lda_dim = 0",
        "[stage1] has no key 'stepz'; did you mean 'steps'?",
        "[stage1] rate = 'fast': expected a number",
        "[stage1] evaluate_every = 0",
        "[objective] betas[0] = 'a': expected a number",
        "objective.prior = 2.0",
        "batch.size = 7",
        "run.seed = -1",
        "[averaging] top_k = 'many': expected a whole number",
        "[[dev]] number 1 needs the key 'name'; ",
        "[[dev]] number 1 needs the key 'xvectors'; ",
        "[[dev]] number 1 weight = -1.0: expected at least 0",
        "[[dev]] 'unseen' has no key 'wait'",
        "[[dev]] 'unseen' split = 'speaker'",
    ):
        assert words in said, words
