"""Galleries with speakers of several places, and galleries moved to one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from joint_models import (
    joint_model,
    open_to_all,
    place_pool,
    single_sides,
    utterances,
)
from kaldi_files import write_scp
from scipy.special import logsumexp

from dcaplda.bin.search_speakers import main
from dcaplda.runtime import Backend, Gallery, GalleryError, InputError, Places
from dcaplda.runtime.joint.moved import moved_sides
from dcaplda.runtime.joint.place import adapted as adapted_scorer
from dcaplda.runtime.joint.rows import JointModel

pytestmark = pytest.mark.torch

SPEAKERS = 12


def heard(number: int) -> tuple[str, np.ndarray, np.ndarray]:
    """Place, embeddings and seconds of a speaker; one to three utterances."""
    return ("office", "phone", "itself")[number % 3], *utterances(1 + number % 4 // 2, 100 + number)


@pytest.fixture
def filled(parent, places, tmp_path: Path) -> Gallery:
    gallery = Gallery.open(tmp_path / "g.db", parent, places=places)
    backends = {**places, "itself": parent}
    for number in range(SPEAKERS):
        place, calls, seconds = heard(number)
        gallery.add(f"s{number}", backends[place].enroll(calls, seconds))
    return gallery


def by_places(parent: Backend, places: dict[str, Backend], probe: tuple, place: str) -> np.ndarray:
    """LLRs of all speakers with a probe, from their utterances, by Places.llrs."""
    known = Places.from_backends(parent, {**places, "itself": parent})
    tested = known.sides(*probe, [place] * len(probe[0]), np.zeros(len(probe[0]), int))
    found = []
    for number in range(SPEAKERS):
        own, calls, seconds = heard(number)
        enrolled = known.sides(calls, seconds, [own] * len(calls), np.zeros(len(calls), int))
        found.append(known.llrs(enrolled, tested)[0])
    return np.array(found)


@pytest.mark.parametrize("place", ["office", "phone", "itself"])
@pytest.mark.parametrize("count", [1, 2])
def test_every_speaker_is_scored_with_its_own_offset(filled, parent, places, place, count) -> None:
    probe = utterances(count, 7)
    speaker = {**places, "itself": parent}[place].enroll(*probe)
    truth = by_places(parent, places, probe, place)
    found = filled.search(speaker, SPEAKERS)
    assert [m.speaker for m in found] == [f"s{i}" for i in np.argsort(-truth)]
    np.testing.assert_allclose([m.llr for m in found], np.sort(truth)[::-1], atol=3e-3, rtol=1e-4)
    assert [m.speaker for m in filled.search(speaker, 3)] == [m.speaker for m in found[:3]]
    answer = filled.identify(speaker, prior=0.4)
    best = np.log(0.4 / SPEAKERS) + truth.max()
    everything = logsumexp([*(np.log(0.4 / SPEAKERS) + truth), np.log(0.6)])
    assert answer.posterior == pytest.approx(np.exp(best - everything), abs=1e-3)


def test_probes_of_several_places_at_once(filled, parent, places) -> None:
    probes = [it.enroll(*utterances(1, 9)) for it in (places["phone"], parent, places["office"])]
    assert filled.search_many(probes, 4) == [filled.search(it, 4) for it in probes]
    row = np.asarray(probes[1])
    assert filled.search_many(row, 4) == [filled.search(probes[1], 4)]


def test_speakers_remember_their_place(filled, parent, places, tmp_path: Path) -> None:
    assert list(filled) == [f"s{i}" for i in range(SPEAKERS)]
    filled.remove("s1")
    filled.replace("s0", places["phone"].enroll(*utterances(1, 3)))
    filled.close()
    with Gallery.open(tmp_path / "g.db", parent, places=places) as again:
        assert len(again) == SPEAKERS - 1
        assert list(again) == [*(f"s{i}" for i in range(2, SPEAKERS)), "s0"]
        assert again.get("s0").model == places["phone"].info.fingerprint
        assert again.get("s2").model == parent.info.fingerprint
        office = again.get("s3")
        assert (office.model, office.parent) == (
            places["office"].info.fingerprint,
            parent.info.fingerprint,
        )
        call = utterances(1, 8)
        answer = again.places.verify(office, *call, place="phone", prior=0.1)
        (match,) = [
            m for m in again.search(places["phone"].enroll(*call), SPEAKERS) if m.speaker == "s3"
        ]
        assert answer.llr == pytest.approx(match.llr, abs=1e-3)


def test_the_same_file_seen_by_two_handles(filled, parent, places, tmp_path: Path) -> None:
    with Gallery.open(tmp_path / "g.db", parent, places=places) as other:
        other.add("late", places["office"].enroll(*utterances(1, 4)))
        other.remove("s3")
        probe = places["office"].enroll(*utterances(1, 4))
        found = {m.speaker for m in filled.search(probe, SPEAKERS)}
        assert found == {*(f"s{i}" for i in range(SPEAKERS) if i != 3), "late"}
        assert len(filled) == SPEAKERS and "s3" not in list(filled)


def test_a_gallery_of_one_place_needs_no_places(parent, places, tmp_path: Path) -> None:
    """Opened with places or without, until somebody of a place comes."""
    with Gallery.open(tmp_path / "g.db", parent, places=places) as gallery:
        gallery.add("ann", parent.enroll(*utterances(2, 1)))
    with Gallery.open(tmp_path / "g.db", parent) as gallery:
        assert list(gallery) == ["ann"]
    with Gallery.open(tmp_path / "g.db", parent, places=places) as gallery:
        gallery.add("bob", places["phone"].enroll(*utterances(1, 2)))
    with pytest.raises(GalleryError, match="'bob' was enrolled with the model"):
        Gallery.open(tmp_path / "g.db", parent)


def test_float16_holds_places_too(parent, places, tmp_path: Path) -> None:
    found = []
    for storage in ("float32", "float16"):
        with Gallery.open(tmp_path / storage, parent, storage=storage, places=places) as gallery:
            gallery.add("ann", places["office"].enroll(*utterances(1, 1)))
            gallery.add("bob", places["phone"].enroll(*utterances(1, 2)))
            probe = places["phone"].enroll(*utterances(1, 5))
            found.append({m.speaker: m.llr for m in gallery.search(probe)})
    assert found[0] == pytest.approx(found[1], abs=0.3)


def test_what_does_not_belong_is_refused(filled, parent, places, tmp_path: Path) -> None:
    stranger = parent.adapted(place_pool(9, seed=77))
    with pytest.raises(InputError, match="open the gallery with it as one of its places"):
        filled.add("eve", stranger.enroll(*utterances(1, 1)))
    with pytest.raises(InputError, match="probe: .* as one of its places"):
        filled.search(stranger.enroll(*utterances(1, 1)))
    with pytest.raises(InputError, match="has speakers of several places"):
        filled.blocks()
    with pytest.raises(InputError, match="has speakers of several places"):
        filled.adapt(places["office"], tmp_path / "moved.db")
    filled.close()
    for given in (None, {"office": places["office"]}):
        with pytest.raises(GalleryError, match="'s[01]' was enrolled with the model .* one of its"):
            Gallery.open(tmp_path / "g.db", parent, places=given)
    with pytest.raises(InputError, match="adapted to one place"):
        Gallery.open(tmp_path / "other.db", places["office"], places=places)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("place", ["phone", ""])
def test_search_speakers_takes_bundles_of_places(filled, parent, places, tmp_path, place) -> None:
    vectors, seconds = utterances(2, 31)
    (tmp_path / "utt2dur").write_text(f"t1 {seconds[0]}\nt2 {seconds[1]}\n")
    table = f"scp:{write_scp(tmp_path, {'t1': vectors[0], 't2': vectors[1]}, 'tests')}"
    bundles = ",".join(f"{name}={it.directory}" for name, it in places.items())
    told = [f"--durations={tmp_path / 'utt2dur'}", "--top-k=3", f"--place-bundles={bundles}"]
    arguments = [str(parent.directory), str(tmp_path / "g.db"), table, str(tmp_path / "found")]
    assert main([*told, f"--test-place={place}", *arguments]) == 0
    found = [line.split() for line in (tmp_path / "found").read_text().splitlines()]
    backend = places.get(place, parent)
    for k, name in enumerate(("t1", "t2")):
        wanted = filled.search(backend.enroll(vectors[k], seconds[k]), 3)
        own = [row for row in found if row[0] == name]
        assert [row[1] for row in own] == [m.speaker for m in wanted]
        # One probe and several are not summed in the same order.
        assert [float(row[2]) for row in own] == pytest.approx([m.llr for m in wanted], abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--test-place=phone"], "--test-place needs --place-bundles"),
        (["--place-bundles=office={office}", "--test-place=attic"], "attic: is none of office"),
        (["--place-bundles=office={office}"], "open the gallery with it as one of its places"),
        (["--place-bundles=office={office}", "--spk2utt=x"], "--place-bundles is for galleries"),
        ([], "open the gallery with it as one of its places"),
    ],
)
def test_search_speakers_says_what_is_wrong(
    filled, parent, places, tmp_path, capsys, options, message
) -> None:
    table = f"scp:{write_scp(tmp_path, {'t1': utterances(1, 1)[0][0]}, 'tests')}"
    given = [option.format(office=places["office"].directory) for option in options]
    arguments = [str(parent.directory), str(tmp_path / "g.db"), table, str(tmp_path / "found")]
    assert main([*given, *arguments]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "found").exists()


# Moving to a place


def far_reaching(joint: JointModel) -> JointModel:
    """The model with a calibration that is told any length."""
    return replace(joint, scorer=replace(joint.scorer, reach=np.full(2, 9.0)))


def test_one_utterance_is_moved_exactly() -> None:
    """With the shift before the first normalization and the centre of the second; 1e-9.

    Its length must be among the conditions, so not beyond their reach.
    """
    joint = far_reaching(joint_model())
    adapted = adapted_scorer(joint.scorer, place_pool(20).astype(float))
    assert np.abs(adapted.bias - joint.scorer.bias).max() > 0.01
    calls, seconds = utterances(6, 1)
    found = moved_sides(joint.scorer, adapted, single_sides(joint.scorer, calls, seconds))
    truth = single_sides(adapted, calls, seconds)
    assert np.abs(single_sides(joint.scorer, calls, seconds).x - truth.x).max() > 0.1
    for name in ("x", "count", "spread", "conditions"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), atol=1e-9)


def test_utterances_that_agree_are_moved_nearly_exactly() -> None:
    """Three of one voice, 5 % noise: x within 0.02 of 2, where not moving it is wrong by more."""
    joint = far_reaching(joint_model())
    adapted = open_to_all(adapted_scorer(joint.scorer, place_pool(20).astype(float)))
    calls, seconds = utterances(3, 1, people=1)
    together = np.zeros(3, np.int64)
    before = joint.merged(single_sides(joint.scorer, calls, seconds), together, 1)
    after = joint.adapted(adapted).merged(single_sides(adapted, calls, seconds), together, 1)
    found = moved_sides(joint.scorer, adapted, before)
    np.testing.assert_allclose(found.x, after.x, atol=0.02)
    np.testing.assert_allclose(found.conditions, after.conditions, atol=0.02)
    assert np.abs(before.x - after.x).max() > 0.1


def test_a_gallery_is_moved_to_a_place(parent, tmp_path: Path) -> None:
    """Near what enrolling again gives, nearer than not moving; nothing else is left behind."""
    pool = place_pool(30, seed=60)
    office = parent.adapted(pool)
    calls = {f"s{i}": utterances(1 + i % 3, 200 + i, people=1) for i in range(8)}
    offset = pool.mean(axis=0)
    enrolled = {name: (x + offset, s) for name, (x, s) in calls.items()}
    gallery = Gallery.open(tmp_path / "old.db", parent)
    gallery.add_many((name, parent.enroll(*it)) for name, it in enrolled.items())
    probe = utterances(1, 300)
    test = office.voiceprints(probe[0] + offset, probe[1])
    with gallery.adapt(office, tmp_path / "new.db") as moved:
        assert list(moved) == list(gallery)
        truth = {n: office.compare(office.enroll(*it), test).item() for n, it in enrolled.items()}
        found = {m.speaker: m.llr for m in moved.search(test, 8)}
        stayed = {
            name: office.compare(np.asarray(gallery.get(name)), test).item() for name in enrolled
        }
        errors = [
            np.sqrt(np.mean([(them[name] - truth[name]) ** 2 for name in truth]))
            for them in (found, stayed)
        ]
        assert errors[0] < 0.5 * errors[1]
        assert moved.get("s1").model == office.info.fingerprint
    names = {path.name for path in tmp_path.iterdir()}
    assert {n for n in names if not n.startswith("old.db")} == {"new.db"}


def test_a_gallery_of_the_parent_tells_the_ways_out(parent, tmp_path: Path) -> None:
    office = parent.adapted(place_pool(20))
    with Gallery.open(tmp_path / "g.db", parent) as gallery:
        gallery.add("ann", parent.enroll(*utterances(1, 1)))
        with pytest.raises(
            GalleryError, match="enrol again from stored embeddings, move them by G"
        ):
            Gallery.open(tmp_path / "g.db", office)
        with pytest.raises(GalleryError, match="g.db: is there already"):
            gallery.adapt(office, tmp_path / "g.db")
        with pytest.raises(InputError, match="was not adapted from the model of this gallery"):
            gallery.adapt(parent, tmp_path / "new.db")
    assert not [path for path in tmp_path.iterdir() if "new" in path.name]
