"""Training data: Kaldi directories, defaults, what is dropped, what is refused."""

from pathlib import Path

import numpy as np
import pytest
from golden import FULL, needs_full_golden
from training_world import draw, write_data_dir, write_table

from dcaplda.runtime.errors import DcapldaError, InputError
from dcaplda.runtime.tables.sessions import source_id
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.train.data.directory import load_training_data, read_labels
from dcaplda.train.data.labelled import assemble
from dcaplda.train.recipe.sections import DataSection

DATA = DataSection()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_data_dir(tmp_path / "data", draw(0, domains=2, speakers=4))


def load(directory: Path, section: DataSection = DATA, **options):
    return load_training_data(str(directory), str(directory / "xvector.npz"), section, **options)


def rewrite(path: Path, change) -> None:
    """Edit a table as a dictionary."""
    table = dict(line.split() for line in path.read_text().splitlines())
    change(table)
    write_table(path, table)


def test_rows_carry_their_own_labels(directory):
    sample = draw(0, domains=2, speakers=4)
    data = load(directory)
    assert data.embeddings.dtype == np.float32
    assert sorted(data.ids) == sorted(sample.ids)
    row_of = {name: i for i, name in enumerate(sample.ids)}
    session_names: dict[int, str] = {}
    for i, name in enumerate(data.ids):
        np.testing.assert_array_equal(data.embeddings[i], sample.vectors[row_of[name]])
        assert data.domain_names[data.domain[i]] == sample.domain[name]
        expected = f"{sample.domain[name]}:{sample.speaker[name]}"
        assert data.speaker_names[data.speaker[i]] == expected
        assert data.seconds[i] == pytest.approx(sample.seconds[name], rel=1e-6)
        assert (
            session_names.setdefault(int(data.session[i]), sample.session[name])
            == (sample.session[name])
        )
    assert np.all(np.diff(data.speaker) >= 0)


@pytest.mark.parametrize("form", ["ark:{}/x.ark", "h5:{}/x", "npy:{}/x", "{}/x.parquet"])
def test_every_format_gives_the_same_training_data(directory, tmp_path, form: str):
    sample = draw(0, domains=2, speakers=4)
    source = form.format(tmp_path)
    write_vectors(source, sample.ids, sample.vectors)
    found = load_training_data(str(directory), source, DATA)
    expected = load(directory)
    assert found.ids == expected.ids
    np.testing.assert_array_equal(found.embeddings, expected.embeddings)


def test_session_defaults_to_recording_then_utterance(directory):
    (directory / "utt2sess").unlink()
    labels = read_labels(str(directory), DATA)
    assert all(labels.session[name] == name for name in labels.speaker)
    names = list(labels.speaker)
    text = "".join(f"{name} {name[: name.rindex('-')]}-music 0 1\n" for name in names)
    (directory / "segments").write_text(text)
    labels = read_labels(str(directory), DATA)
    assert labels.session["d0s000-r1-c0"] == "d0s000-r1"
    assert labels.recording is not None
    assert labels.recording["d0s000-r1-c0"] == "d0s000-r1-music"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("call7-noise", "call7"),
        ("call7-reverb-aug", "call7"),
        ("call-noise7", "call-noise7"),
        ("call7", "call7"),
        ("a-babble-b-music", "a-babble-b"),
    ],
)
def test_augmented_copies_belong_to_the_session_of_their_source(name: str, source: str):
    assert source_id(name) == source


def test_without_utt2dom_there_is_one_domain(directory):
    (directory / "utt2dom").unlink()
    data = load(directory)
    assert data.domain_names == ["all"]
    assert data.n_speakers == 8


def test_frames_become_seconds(directory):
    (directory / "utt2dur").rename(directory / "old")
    rewrite(directory / "old", lambda t: t.update({k: round(float(v) * 50) for k, v in t.items()}))
    (directory / "old").rename(directory / "utt2num_frames")
    expected = draw(0, domains=2, speakers=4).seconds
    data = load(directory, DataSection(frame_shift=0.02))
    for name, seconds in zip(data.ids, data.seconds, strict=True):
        assert seconds == pytest.approx(expected[name], abs=0.011)


def test_durations_are_needed_only_where_the_variant_uses_them(directory):
    (directory / "utt2dur").unlink()
    with pytest.raises(InputError, match="utt2dur"):
        load(directory)
    data = load(directory, need_durations=False)
    assert np.isnan(data.seconds).all()


def test_what_is_dropped_is_counted(directory):
    rewrite(directory / "utt2spk", lambda t: t.pop("d0s000-r0-c0"))
    rewrite(directory / "utt2sess", lambda t: t.pop("d0s000-r0-c1"))
    rewrite(directory / "utt2dur", lambda t: t.pop("d0s001-r0-c0"))
    rewrite(directory / "utt2spk", lambda t: t.update({"ghost": "d0s001"}))
    one = {f"d1s002-r{r}-c{c}": "d1s002-r0" for r in range(3) for c in range(2)}
    rewrite(directory / "utt2sess", lambda t: t.update(one))
    data = load(directory)
    assert data.dropped == {
        "vectors without a speaker": 1,
        "utterances without a session": 1,
        "utterances without a duration": 1,
        "utterances without a vector": 1,
        "speakers with one session": 1,
        "utterances of speakers with one session": 6,
    }
    assert any(line == "dropped 1 speakers with one session" for line in data.summary())
    assert "dom1:d1s002" not in data.speaker_names


def test_one_utterance_of_each_recording_can_be_taken(directory):
    data = load(directory)
    part = data.subset(data.one_per_recording())
    assert len(part.ids) == len(np.unique(data.session))
    assert len(np.unique(part.session)) == len(part.ids)
    assert part.n_speakers == data.n_speakers


def test_speaker_weights_balance_domains():
    one, two = draw(0, domains=1, speakers=3), draw(1, domains=1, speakers=9, prefix="x")
    one.ids += two.ids
    one.vectors = np.concatenate([one.vectors, two.vectors])
    one.speaker.update(two.speaker)
    one.session.update(two.session)
    one.seconds.update(two.seconds)
    one.domain = {n: "b" if n.startswith("x") else "a" for n in one.ids}
    data = one.data()
    weights = data.speaker_weights("domain")
    np.testing.assert_allclose(np.bincount(data.speaker_domain, weights=weights), [1.0, 1.0])
    assert set(data.speaker_weights("flat")) == {1.0}


def test_a_session_with_two_speakers_is_refused(directory):
    rewrite(directory / "utt2sess", lambda t: t.update({"d0s001-r0-c0": "d0s000-r0"}))
    with pytest.raises(InputError, match="session 'd0s000-r0' has two speakers") as error:
        load(directory)
    assert "allow_shared_sessions" in str(error.value)
    assert load(directory, DataSection(allow_shared_sessions=True)).n_speakers == 8


def test_an_utterance_without_a_domain_is_refused(directory):
    rewrite(directory / "utt2dom", lambda t: t.pop("d1s000-r0-c0"))
    with pytest.raises(InputError, match="'d1s000-r0-c0' has no domain"):
        load(directory)


@pytest.mark.parametrize(
    ("value", "message"), [(0.0, "is all zeros"), (np.nan, "holds nan"), (np.inf, "holds inf")]
)
def test_bad_vectors_are_named(directory, value: float, message: str):
    sample = draw(0, domains=2, speakers=4)
    sample.vectors[sample.ids.index("d1s001-r2-c1")] = value
    write_data_dir(directory, sample)
    with pytest.raises(DcapldaError, match=f"'d1s001-r2-c1' {message}"):
        load(directory)


@pytest.mark.parametrize("value", ["0", "-3.5"])
def test_impossible_durations_are_named(directory, value: str):
    rewrite(directory / "utt2dur", lambda t: t.update({"d0s000-r0-c0": value}))
    with pytest.raises(InputError, match="'d0s000-r0-c0' has"):
        load(directory)


def test_ids_that_do_not_match_are_shown_side_by_side(directory):
    rewrite(directory / "utt2spk", lambda t: [t.update({f"x{k}": t.pop(k)}) for k in list(t)])
    with pytest.raises(InputError, match="no utterance has both") as error:
        load(directory)
    assert "'d0s000-r0-c0'" in str(error.value)
    assert "'xd0s000-r0-c0'" in str(error.value)


def test_speakers_with_one_session_only_are_no_training_data(directory):
    (directory / "utt2sess").unlink()
    rewrite(directory / "utt2spk", lambda t: t.update({k: k for k in t}))
    with pytest.raises(InputError, match="no speaker has two sessions"):
        load(directory)


def test_missing_directory_and_tables_are_named(tmp_path):
    with pytest.raises(InputError, match="no such data directory"):
        read_labels(str(tmp_path / "none"), DATA)
    with pytest.raises(InputError, match="utt2spk"):
        read_labels(str(tmp_path), DATA)


@needs_full_golden
def test_degraded_copies_of_real_data_are_speakers_of_their_own():
    real = FULL / "real" / "train"
    section = DataSection(scp_root=str(real))
    data = load_training_data(str(real), f"scp:{real}/xvector.scp", section)
    assert len(data.domain_names) == 12
    # The README counts 199 people before those with one session are dropped, BASELINE 192 after.
    assert len(np.unique(data.identity)) == 192
    assert data.n_speakers > 192


def test_every_refusal_is_one_line(directory):
    rewrite(directory / "utt2dom", lambda t: t.pop("d1s000-r0-c0"))
    with pytest.raises(DcapldaError) as error:
        load(directory)
    assert "\n" not in str(error.value)


def test_vectors_are_ordered_where_they_lie() -> None:
    """Without a second matrix, also where some rows are dropped; the same data as with one."""
    world = draw(seed=3)
    order = np.random.default_rng(0).permutation(len(world.ids))
    ids = [world.ids[row] for row in order]
    labels = world.labels()
    del labels.seconds[ids[5]]
    matrix = world.vectors[order].astype(np.float32)
    expected = assemble(ids, matrix, labels)
    own = matrix.copy()
    found = assemble(ids, own, labels, in_place=True)
    assert np.shares_memory(found.embeddings, own)
    assert not np.shares_memory(expected.embeddings, matrix)
    assert found.ids == expected.ids
    np.testing.assert_array_equal(found.embeddings, expected.embeddings)


@pytest.mark.parametrize(("factor", "doubted"), [(1.0, False), (1000.0, True)])
def test_milliseconds_in_place_of_seconds_are_doubted(directory, factor: float, doubted: bool):
    def change(table: dict[str, str]) -> None:
        table.update({name: f"{float(value) * factor:.2f}" for name, value in table.items()})

    rewrite(directory / "utt2dur", change)
    assert any("milliseconds or frames" in note for note in load(directory).notes) == doubted
