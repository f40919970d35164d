"""The simulated world: its file, its draws, its moments."""

from pathlib import Path

import numpy as np
import pytest
from small_world import small_config, small_values, small_world

from dcaplda.runtime.errors import UsageError
from dcaplda.simulate.config import load_world, world_from_dict
from dcaplda.simulate.draws import (
    draw_recordings,
    draw_utterances,
    evaluation_sets,
    log_uniform,
)
from dcaplda.simulate.training import cohort_rows, training_sets
from dcaplda.simulate.world import build_world


def moments_of(world, domain):
    """Mean and covariance of the speaker and of the session part, summed over g and k."""
    g_mean = domain.quality_weights @ domain.quality_means
    k_mean = domain.condition_weights @ domain.shifts
    g_cov = (domain.quality_means - g_mean).T * domain.quality_weights
    g_cov = g_cov @ (domain.quality_means - g_mean)
    k_cov = (domain.shifts - k_mean).T * domain.condition_weights
    k_cov = k_cov @ (domain.shifts - k_mean)
    session = np.diag(domain.condition_weights @ domain.session)
    chunk = np.diag(domain.condition_weights @ domain.chunk)
    mixing = world.mixing
    mean = mixing @ (g_mean + k_mean) + world.origin
    speaker = mixing @ (np.diag(world.between) + g_cov) @ mixing.T
    return mean, speaker, mixing @ (k_cov + session) @ mixing.T, mixing @ chunk @ mixing.T


def test_drawn_embeddings_have_the_written_out_moments():
    """Mean, and covariances across recordings, across chunks and of one utterance; each
    within 4% of its norm with 60,000 speakers."""
    world = small_world()
    domain = world.domains["street"]
    rng = np.random.default_rng(1)
    made = draw_recordings(rng, world, domain, 60_000, 2)
    which = np.repeat(np.arange(len(made.speaker)), 2)
    seconds = np.full(len(which), 5.0)
    x = draw_utterances(rng, world, domain, made, which, seconds).astype(np.float64)
    x = x.reshape(60_000, 2, 2, world.dim)  # speaker, recording, chunk
    mean, speaker, session, chunk = moments_of(world, domain)
    flat = x.reshape(-1, world.dim)
    np.testing.assert_allclose(flat.mean(axis=0), mean, atol=0.04)

    def cross(a, b):
        return (a - mean).T @ (b - mean) / len(a)

    expected = {
        "other recording": (cross(x[:, 0, 0], x[:, 1, 1]), speaker),
        "other chunk": (cross(x[:, 0, 0], x[:, 0, 1]), speaker + session),
        "itself": (cross(x[:, 0, 0], x[:, 0, 0]), speaker + session + chunk / 5.0),
    }
    for place, (found, wanted) in expected.items():
        assert np.linalg.norm(found - wanted) < 0.04 * np.linalg.norm(wanted), place


def test_a_factor_shifts_scales_and_directs_the_session_noise():
    world, config = small_world(), small_config()
    domain = world.domains["home"]
    shift = domain.shifts[1] - domain.shifts[0]
    assert np.linalg.norm(shift) > 0.1
    ratio = np.log(domain.session[1] / domain.session[0])
    noise = config.factors["noise"]
    assert sorted(np.round(ratio, 9)) == pytest.approx([0.0, noise.scale, noise.scale])
    np.testing.assert_allclose(domain.chunk[1] / domain.chunk[0], np.exp(noise.chunk))


def test_latent_inverts_embeddings(rng):
    world = small_world()
    u = rng.standard_normal((7, world.dim))
    np.testing.assert_allclose(world.latent(world.embeddings(u)), u, atol=1e-12)


def test_a_new_domain_leaves_the_parameters_of_the_others_alone():
    values = small_values()
    values["domains"]["new"] = {**values["domains"]["hall"], "speakers": 9}
    before, after = small_world(), build_world(world_from_dict(values), 5)
    for name, domain in before.domains.items():
        np.testing.assert_array_equal(domain.shifts, after.domains[name].shifts)
        np.testing.assert_array_equal(domain.session, after.domains[name].session)


def test_log_durations_are_uniform(rng):
    drawn = np.log(log_uniform(rng, [4.0, 240.0], 20_000))
    assert drawn.min() >= np.log(4.0) - 2e-3 and drawn.max() <= np.log(240.0) + 1e-4
    counts, _ = np.histogram(drawn, bins=8)
    assert abs(counts / 2500 - 1).max() < 0.1


def test_training_sets_have_chunks_whole_recordings_and_proportions():
    config, world = small_config(), small_world()
    made = training_sets(config, world, 0)
    chunks, whole = made["train"], made["train_full"]
    assert len(chunks.ids) == len(set(chunks.ids)) == 8 * 2 * 3
    assert len(whole.ids) == len(set(whole.ids)) == 8 * 2
    assert set(whole.sessions) == set(chunks.sessions) and len(set(chunks.speakers)) == 8
    assert ((whole.seconds >= 10) & (whole.seconds <= 60)).all()
    rows = cohort_rows(config, chunks, 0)
    assert len(rows) == len(set(rows)) == 5


def test_test_sets_come_in_two_lengths_with_the_same_people_and_trials():
    config, world = small_config(), small_world()
    sets = {made.name: made for made in evaluation_sets(config, world, 0)}
    names = [
        f"{r}-{v}" for r in ("trnh-home", "dev-street", "eval-hall") for v in ("full", "short")
    ]
    assert list(sets) == names
    assert [sets[name].group for name in names[::2]] == ["trnh", "dev", "hall"]
    full, short = sets["eval-hall-full"], sets["eval-hall-short"]
    assert full.utterances.sessions == short.utterances.sessions
    assert (short.utterances.seconds <= 16).all() and (full.utterances.seconds >= 20).all()
    for kind, targets, nontargets in (("single", 6 * 9, 60), ("multi", 6 * 3, 40)):
        a, b = getattr(full, kind), getattr(short, kind)
        np.testing.assert_array_equal(a.rows.test_index, b.rows.test_index)
        assert a.is_target.sum() == targets and (~a.is_target).sum() == nontargets


def test_no_trial_compares_a_recording_with_itself_and_labels_are_right():
    config, world = small_config(), small_world()
    for made in evaluation_sets(config, world, 3):
        of = dict(zip(made.utterances.ids, made.utterances.speakers, strict=True))
        session = dict(zip(made.utterances.ids, made.utterances.sessions, strict=True))
        owner = {**of, **{m: made.utterances.speakers[r[0]] for m, r in made.models.items()}}
        for trials in (made.single, made.multi):
            pairs = list(zip(trials.enroll, trials.test, strict=True))
            assert len(set(pairs)) == len(pairs)
            for (enroll, test), is_target in zip(pairs, trials.is_target, strict=True):
                assert (owner[enroll] == of[test]) == is_target
                rows = made.models.get(enroll)
                used = [made.utterances.sessions[r] for r in rows] if rows else [session[enroll]]
                assert session[test] not in used


def test_the_same_seed_gives_the_same_and_another_seed_another_world():
    config = small_config()
    a, b, c = (training_sets(config, build_world(config, s), s)["train"] for s in (1, 1, 2))
    np.testing.assert_array_equal(a.embeddings, b.embeddings)
    assert np.abs(a.embeddings - c.embeddings).max() > 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["space"].update(dims=3), "did you mean 'dim'"),
        (lambda v: v["space"].pop("dim"), "needs the key 'dim'"),
        (lambda v: v["space"].update(dim="3"), "space.dim = '3': expected a whole number"),
        (lambda v: v["space"].update(speaker_axes=9), "speaker_axes = 9"),
        (lambda v: v["domains"]["home"].update(role="test"), "role = 'test'"),
        (lambda v: v["domains"]["home"].update(conditions=[{"p": 0.5}]), "add up to 1"),
        (lambda v: v["domains"]["home"].update(conditions=[{"p": 1.0, "nois": 1}]), "'noise'"),
        (lambda v: v["domains"]["home"].update(qualities={"tongue": {"d": 1.0}}), "no 'd'"),
        (lambda v: v["domains"]["home"].update(full_seconds=[9, 3]), "the shorter first"),
        (lambda v: v.update(domains={}), "at least one"),
        (lambda v: v["factors"]["noise"].update(shift=float("nan")), "expected a number"),
    ],
)
def test_a_bad_world_file_gets_one_clear_line(change, words):
    values = small_values()
    change(values)
    with pytest.raises(UsageError) as caught:
        world_from_dict(values)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_load_world_names_the_file_and_scales_training_speakers_only(tmp_path):
    path = tmp_path / "world.toml"
    with pytest.raises(UsageError, match="world.toml: cannot be read"):
        load_world(str(path))
    path.write_text("[space\n")
    with pytest.raises(UsageError, match="world.toml: not valid TOML"):
        load_world(str(path))
    demo = Path(__file__).parents[2] / "egs/simulated/conf/demo-world.toml"
    whole, half = load_world(str(demo)), load_world(str(demo), 0.5)
    assert half.domains["vox"].speakers == round(0.5 * whole.domains["vox"].speakers)
    assert half.domains["far"].speakers == whole.domains["far"].speakers


@pytest.mark.parametrize("name", ["demo-world.toml", "full-world.toml"])
def test_training_domains_are_in_the_proportion_of_the_paper(name):
    config = load_world(str(Path(__file__).parents[2] / "egs/simulated/conf" / name))
    sizes = np.array([domain.speakers for domain in config.by_role("train").values()])
    paper = np.array([7129, 2389, 2713, 1322, 328, 286])
    np.testing.assert_allclose(sizes / sizes.sum(), paper / paper.sum(), atol=1e-3)
    assert config.sets.chunks == 8 and config.sets.chunk_seconds == [4.0, 240.0]
    assert len(config.by_role("dev")) == 2 and len(config.by_role("eval")) == 4
