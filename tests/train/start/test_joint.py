"""The joint start: its axes, its places, its calibration, and the way to scores of several."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from joint_models import density_llr
from kaldi_files import write_scp
from training_world import copies, draw, write_data_dir, write_dev, write_recipe, write_table

from dcaplda.export.graphs.algebra import joint_scorer_of
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.joint.place import difference_scores
from dcaplda.runtime.joint.scorer import form_scores as joint_form_scores
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.plda.generative import fit_generative, form_scores
from dcaplda.train.plda.offsets import offset_form
from dcaplda.train.recipe.sections import InitSection
from dcaplda.train.start import conditions, joint
from dcaplda.train.start.episodes import Episode
from dcaplda.train.store import load_model

pytestmark = pytest.mark.torch
INIT = InitSection(domain_offsets=True, shared_offset=0.5, em_iterations=3)


@pytest.fixture(scope="module")
def data():
    return copies(draw(3), 0.5 * np.ones(24)).data()


@pytest.fixture(scope="module")
def generative(data):
    return fit_generative(data, INIT, 10, [])


@pytest.fixture(scope="module")
def scorer(generative, data):
    return joint.joint_scorer(generative, data, 0.05)


def test_axes_make_within_one_and_between_diagonal(generative, scorer) -> None:
    """1e-8; the largest variance of speakers comes first."""
    plda, turn = generative.plda, scorer.turn
    np.testing.assert_allclose(turn @ plda.within @ turn.T, np.eye(10), atol=1e-8)
    np.testing.assert_allclose(turn @ plda.between @ turn.T, np.diag(scorer.between), atol=1e-8)
    assert (np.diff(scorer.between) <= 0).all() and (scorer.between > 0).all()
    np.testing.assert_allclose(np.diag(turn @ generative.shared @ turn.T), scorer.offset, rtol=1e-8)
    largest = turn[np.arange(10), np.abs(turn).argmax(axis=1)]
    assert (largest > 0).all()
    assert scorer.correlation == 0.05 and scorer.known == 0.0


def test_single_utterances_score_as_offset_plda_with_those_offsets(
    generative, scorer, data
) -> None:
    """The covariances turned back from the axes, through the form of eq. 9: within 1e-7.

    Before the second normalization, which has its own test.
    """
    plda, back = generative.plda, np.linalg.inv(scorer.turn)
    form = offset_form(plda.between, plda.within, back @ np.diag(scorer.offset) @ back.T, plda.mean)
    w = data.embeddings[:12].astype(np.float64) @ scorer.weight.T + scorer.bias
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    x = scorer.centred(data.embeddings[:12])
    expected = form_scores(form, w)
    found = joint_form_scores(scorer.terms(), x, x)
    np.testing.assert_allclose(found, expected, atol=1e-7 * max(1.0, np.abs(expected).max()))


def test_lengths_are_those_of_training(scorer, data) -> None:
    """Every x is as long as training's are in the square mean; usual lengths are means of logs."""
    x = scorer.centred(data.embeddings)
    sizes = np.sqrt((x**2).sum(axis=1))
    assert scorer.length == pytest.approx(np.sqrt((sizes**2).mean()), rel=1e-12)
    expected = x[:12] * scorer.length / sizes[:12, None]
    np.testing.assert_allclose(scorer.projected(data.embeddings[:12]), expected, rtol=1e-12)
    raw = data.embeddings.astype(np.float64)
    both = [np.log(np.linalg.norm(v, axis=1)) for v in (raw, raw @ scorer.weight.T + scorer.bias)]
    np.testing.assert_allclose(scorer.usual, np.mean(both, axis=1), rtol=1e-12)
    far = np.array(both).T - scorer.usual
    reach = joint.REACH * far.std(axis=0)
    np.testing.assert_allclose(scorer.reach, reach, rtol=1e-10)
    assert (np.abs(far) > reach).any()
    expected = np.where(np.abs(far) > reach, np.sign(far) * reach, far)
    np.testing.assert_allclose(scorer.lengths(raw), expected, atol=1e-10)


def test_a_direction_without_offsets_keeps_a_little(generative, data) -> None:
    flat = replace(generative, shared=np.zeros_like(generative.shared))
    found = joint.joint_scorer(flat, data)
    np.testing.assert_allclose(found.offset, joint.LEAST_OFFSET * found.between)


def test_without_offsets_of_domains_there_is_no_joint_start(data) -> None:
    plain = fit_generative(data, InitSection(em_iterations=1), 10, [])
    with pytest.raises(InputError, match="init.domain_offsets = true"):
        joint.joint_scorer(plain, data)


def test_the_mean_of_places_counts_groups_once_and_domains_in_them_once(data) -> None:
    means = {
        name: data.embeddings[data.domain == number].astype(np.float64).mean(axis=0)
        for number, name in enumerate(data.domain_names)
    }
    expected = (0.5 * (means["dom0"] + means["dom0_tel"]) + means["dom1"] + means["dom2"]) / 3.0
    np.testing.assert_allclose(joint.place_mean(data), expected, atol=1e-5)


def test_one_pair_of_strangers_in_a_hundred_passes_for_one_person(scorer, data) -> None:
    """In each domain by itself; of several domains the limit is the mean of theirs."""
    limits = []
    for domain in range(len(data.domain_names)):
        own = data.subset(np.flatnonzero(data.domain == domain))
        limits.append(joint.strangers_limit(scorer, own))
        x = scorer.centred(own.embeddings)
        strangers = own.identity[:, None] != own.identity[None, :]
        scores = difference_scores(scorer.between, x)[strangers]
        assert 0.005 < (scores > limits[-1]).mean() < 0.012
    assert joint.strangers_limit(scorer, data) == pytest.approx(np.mean(limits))
    assert scorer.same_score == pytest.approx(np.mean(limits))


def gaussian_episode(rng, scale: float, count: int = 3000, weight: float = 1.0) -> Episode:
    """LLRs of mean +-m and variance 2 m, which are calibrated, divided by `scale`."""
    m = 3.0
    targets = np.arange(count) < count // 2
    llrs = np.where(targets, m, -m) + np.sqrt(2.0 * m) * rng.standard_normal(count)
    conditions = rng.standard_normal((2, count, 3))
    return Episode(llrs / scale, targets, *conditions, weight)


def form_values(form, enroll: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Eq. 9 pair by pair, written out."""
    values = []
    for a, b in zip(enroll, test, strict=True):
        value = 2.0 * a @ form.cross @ b + a @ form.auto @ a + b @ form.auto @ b
        values.append(value + form.linear @ (a + b) + form.offset)
    return np.array(values)


def test_calibration_of_calibrated_scores_undoes_their_scale(rng) -> None:
    """Scores 4 times too small: scale 4 and shift 0, near the usual conditions within 0.5."""
    episode = gaussian_episode(rng, 4.0)
    notes: list[str] = []
    scale, shift = conditions.fit_conditions([episode], 0.5, notes)
    usual = np.zeros((1, 3))
    assert form_values(scale, usual, usual)[0] == pytest.approx(4.0, abs=0.5)
    assert form_values(shift, usual, usual)[0] == pytest.approx(0.0, abs=0.3)
    assert "3000 trials of 1 episodes" in notes[0]


def test_forms_of_conditions_are_the_same_before_and_after_centring(rng) -> None:
    """Value at e against value at (e - centre) / unit, pair by pair; within 1e-10."""
    centre, unit = rng.standard_normal(3), np.exp(rng.standard_normal(3))
    cross, auto = rng.standard_normal((2, 3, 3))
    inner = PldaForm(cross + cross.T, auto + auto.T, rng.standard_normal(3), 0.7)
    enroll, test = rng.standard_normal((2, 9, 3))
    expected = form_values(inner, (enroll - centre) / unit, (test - centre) / unit)
    found = form_values(conditions.uncentred(inner, centre, unit), enroll, test)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_an_episode_counts_by_its_weight_not_by_its_trials(rng) -> None:
    """Every trial three times changes nothing; within 1e-5."""
    one, other = gaussian_episode(rng, 1.0, 600), gaussian_episode(rng, 3.0, 600, weight=0.3)
    repeated = Episode(
        *(np.concatenate([part] * 3) for part in (one.scores, one.targets, one.enroll, one.test)),
        one.weight,
    )
    first, second = (conditions.fit_conditions([e, other], 0.1, []) for e in (one, repeated))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(
            form_values(a, one.enroll[:9], one.test[:9]),
            form_values(b, one.enroll[:9], one.test[:9]),
            rtol=1e-5,
            atol=1e-5,
        )
    lighter = conditions.fit_conditions([one, replace(other, weight=3.0)], 0.1, [])
    usual = np.zeros((1, 3))
    assert form_values(lighter[0], usual, usual)[0] > form_values(first[0], usual, usual)[0] + 0.1


# From train-backend to scores

# As egs/recordings/conf/joint.toml; directions with hardly any variance are not blown up.
JOINT_INIT = """
[init]
balance = "even"
domain_offsets = true
shared_offset = 1.0
lda_shrinkage = 4.0
lda_scale = "within"
shrinkage = 1.0
"""
NO_STEPS = [f"--set=stage{number}.steps=0" for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_data_dir(root / "train", draw(0))
    write_dev(root / "dev")
    recipe = write_recipe(root / "recipe.toml")
    text = recipe.read_text().replace("duration_parameters = { center = 8.0 }\n", "joint = true\n")
    recipe.write_text(text.replace("[init]\n", JOINT_INIT))
    return root


def train(world: Path, directory: Path, *options: str) -> int:
    from dcaplda.bin.train_backend import main

    given = [
        f"--config={world / 'recipe.toml'}",
        "--threads=1",
        "--variant=plda-dd",
        "--set=model.duration_feature=log",
        "--set=init.calibration_domains=0.5",
        "--set=init.calibration_folds=2",
        "--set=init.sample_correlation=0.1",
        *NO_STEPS,
        *options,
    ]
    return main([*given, str(world / "train"), str(world / "train/xvector.npz"), str(directory)])


@pytest.fixture(scope="module")
def trained(world: Path, tmp_path_factory) -> Path:
    """exp/ and bundle/ of a joint model."""
    from dcaplda.bin.export_onnx import main as export

    root = tmp_path_factory.mktemp("trained")
    assert train(world, root / "exp") == 0
    assert export([str(root / "exp"), str(root / "bundle")]) == 0
    return root


def test_places_keep_their_names_when_training_goes_on(
    trained: Path, world: Path, tmp_path
) -> None:
    """The places are those of the model that was started with, whatever the new domains are."""
    from dcaplda.train.summary import read_summary

    summary = read_summary(trained / "exp")
    assert summary["trained_places"] == summary["domains"]
    names = [f"place {number}" for number, _ in enumerate(summary["domains"])]
    start = shutil.copytree(trained / "exp", tmp_path / "start")
    text = json.dumps({**summary, "trained_places": names})
    (start / "training_summary.json").write_text(text)
    assert train(world, tmp_path / "exp", f"--start-model={start}") == 0
    assert read_summary(tmp_path / "exp")["trained_places"] == names


class Scoring:
    """Tables of new people: models of two utterances and of one, tests of another session."""

    def __init__(self, folder: Path) -> None:
        sample = draw(8, speakers=3)
        self.folder = folder
        self.vectors = dict(zip(sample.ids, sample.vectors, strict=True))
        self.seconds = sample.seconds
        self.scp = write_scp(folder, self.vectors)
        write_table(folder / "utt2dur", sample.seconds)
        self.members: dict[str, list[str]] = {}
        for number, speaker in enumerate(dict.fromkeys(sample.speaker.values())):
            own = [name for name in sample.ids if sample.speaker[name] == speaker]
            self.members[speaker] = [own[0], own[2]] if number % 2 == 0 else own[:1]
        lines = {speaker: " ".join(names) for speaker, names in self.members.items()}
        write_table(folder / "spk2utt", lines)
        tests = [name for name in sample.ids if "-r2-c0" in name]
        self.pairs = [(speaker, test) for speaker in self.members for test in tests]
        (folder / "trials").write_text("".join(f"{a} {b}\n" for a, b in self.pairs))

    def run(self, bundle: Path, *options: str) -> np.ndarray:
        from dcaplda.bin.score_trials import main

        tables = [f"--durations={self.folder}/utt2dur", f"--spk2utt={self.folder}/spk2utt"]
        ends = [str(self.folder / "trials"), str(self.folder / "scores")]
        sides = [f"scp:{self.scp}"] * 2
        assert main([*tables, *options, str(bundle), *sides, *ends]) == 0
        rows = [line.split() for line in (self.folder / "scores").read_text().splitlines()]
        assert [(a, b) for a, b, _ in rows] == self.pairs
        return np.array([float(llr) for *_, llr in rows])

    def side(self, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.stack([self.vectors[name] for name in names]),
            np.array([self.seconds[name] for name in names]),
        )


@pytest.fixture
def scoring(tmp_path: Path) -> Scoring:
    return Scoring(tmp_path)


def test_scores_of_several_are_those_of_the_trained_model_s_densities(trained, scoring) -> None:
    """train-backend, export-onnx, score-trials --multi-enroll=joint: Gaussians within 1e-3."""
    model = load_model(trained / "exp")
    place = joint_scorer_of(model)
    assert place.correlation == pytest.approx(0.1)
    expected = [
        density_llr(model, place, scoring.side(scoring.members[speaker]), scoring.side([test]))
        for speaker, test in scoring.pairs
    ]
    found = scoring.run(trained / "bundle", "--multi-enroll=joint")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    own = np.array([test.startswith(speaker) for speaker, test in scoring.pairs])
    assert found[own].mean() > found[~own].mean()


def test_auto_is_joint_or_scores_as_the_log_says(trained, scoring, small_bundle, capsys) -> None:
    auto = scoring.run(trained / "bundle")
    assert "models of several utterances: joint" in capsys.readouterr().err
    np.testing.assert_array_equal(auto, scoring.run(trained / "bundle", "--multi-enroll=joint"))
    averaged = scoring.run(trained / "bundle", "--multi-enroll=scores")
    several = np.array([len(scoring.members[speaker]) > 1 for speaker, _ in scoring.pairs])
    assert (np.abs(auto - averaged)[several] > 1e-3).any()
    np.testing.assert_allclose(auto[~several], averaged[~several], atol=1e-4)
    capsys.readouterr()
    plain = scoring.run(small_bundle)
    assert "models of several utterances: scores" in capsys.readouterr().err
    np.testing.assert_array_equal(plain, scoring.run(small_bundle, "--multi-enroll=scores"))


def test_voiceprints_of_speakers_score_like_their_utterances(trained, scoring) -> None:
    """enroll-speakers, then score-trials --enroll-voiceprints: joint scores, within 1e-4."""
    from dcaplda.bin.enroll_speakers import main as enroll
    from dcaplda.bin.score_trials import main as score

    folder, bundle = scoring.folder, str(trained / "bundle")
    durations, spk2utt = f"--durations={folder}/utt2dur", f"--spk2utt={folder}/spk2utt"
    made, table = f"ark,scp:{folder}/v.ark,{folder}/v.scp", f"scp:{scoring.scp}"
    assert enroll([durations, spk2utt, bundle, table, made]) == 0
    ends = [f"scp:{folder}/v.scp", table, f"{folder}/trials", f"{folder}/again"]
    assert score(["--enroll-voiceprints", durations, bundle, *ends]) == 0
    again = [float(line.split()[2]) for line in (folder / "again").read_text().splitlines()]
    np.testing.assert_allclose(again, scoring.run(trained / "bundle"), atol=1e-4)


def test_joint_scores_are_refused_of_another_model(scoring, small_bundle, capsys) -> None:
    from dcaplda.bin.score_trials import main

    tables = [f"--durations={scoring.folder}/utt2dur", f"--spk2utt={scoring.folder}/spk2utt"]
    ends = [str(scoring.folder / "trials"), str(scoring.folder / "scores")]
    sides = [f"scp:{scoring.scp}"] * 2
    assert main([*tables, "--multi-enroll=joint", str(small_bundle), *sides, *ends]) == 1
    assert "was not trained for several utterances" in capsys.readouterr().err.splitlines()[-1]
    assert not (scoring.folder / "scores").exists()


def test_the_same_command_gives_the_same_bytes(world, trained, tmp_path) -> None:
    from dcaplda.bin.export_onnx import main as export

    assert train(world, tmp_path / "exp") == 0
    assert export([str(tmp_path / "exp"), str(tmp_path / "bundle")]) == 0
    for file in ("exp/model.safetensors", "bundle/joint.npz", "bundle/voiceprint.onnx"):
        assert (tmp_path / file).read_bytes() == (trained / file).read_bytes(), file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variant=d-plda-dsd"], "use plda-dd or d-plda-dd"),
        (["--set=init.domain_offsets=false"], "init.domain_offsets = true"),
        (["--set=stage2.steps=3"], "steps to 0"),
    ],
)
def test_what_cannot_be_joint_is_one_line(world, tmp_path, capsys, options, message) -> None:
    assert train(world, tmp_path / "exp", *options) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "ERROR" in line] == lines[-1:]
    assert message in lines[-1]
