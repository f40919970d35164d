"""SpeakerManager in memory and over a gallery: the same verbs, the same answers."""

import threading
from pathlib import Path

import numpy as np
import pytest
from joint_models import joint_bundle, utterances
from random_models import DIM

from dcaplda.runtime import Backend, Gallery, InputError, SpeakerManager

pytestmark = pytest.mark.torch
PEOPLE = ("Ann Lee", "Bob", "100% Eve", "Дина\u00a0Ш", "o'Neil/x")


@pytest.fixture(scope="module")
def voices() -> tuple:
    """Three utterances of each of five people, and one of a stranger."""
    x, seconds = utterances(20, 3, people=6)
    return x, seconds


@pytest.fixture(params=["memory", "gallery"])
def manager(request, small_bundle: Path, tmp_path: Path, voices):
    backend = Backend.load(small_bundle)
    gallery = Gallery.open(tmp_path / "g.db", backend) if request.param == "gallery" else None
    made = SpeakerManager(backend, gallery, prior=0.9)
    x, seconds = voices
    for number, name in enumerate(PEOPLE):
        assert made.add(name, x[number::6][:2], seconds[number::6][:2])
    return made


def test_names_of_people_are_kept_as_they_are(manager) -> None:
    assert manager.all_speakers == list(PEOPLE)
    assert manager.num_speakers == len(manager) == 5 and manager.dim == DIM
    assert all(name in manager for name in PEOPLE)
    assert "Ann" not in manager and "Ann%20Lee" not in manager and 7 not in manager


def test_add_and_remove_say_whether_they_did(manager, voices) -> None:
    x, seconds = voices
    assert not manager.add("Bob", x[0], seconds[0])
    assert manager.remove("Bob") and not manager.remove("Bob")
    assert "Bob" not in manager and manager.num_speakers == 4
    assert manager.add("Bob", x[1], seconds[1])
    assert manager.all_speakers[-1] == "Bob"


def test_scores_are_the_backends(manager, voices) -> None:
    x, seconds = voices
    backend = manager.backend
    ann = backend.enroll(x[0::6][:2], seconds[0::6][:2])
    expected = backend.verify(ann, x[12], seconds[12], prior=0.5).llr
    assert manager.score("Ann Lee", x[12], seconds[12]) == pytest.approx(expected, abs=1e-4)
    assert manager.verify("Ann Lee", x[12], expected - 0.01, seconds[12])
    assert not manager.verify("Ann Lee", x[12], expected + 0.01, seconds[12])
    # Without a threshold, that of prior 0.9.
    assert manager.verify("Ann Lee", x[12], seconds=seconds[12]) == (expected >= -np.log(9))
    with pytest.raises(InputError, match="no speaker 'Zoe' here"):
        manager.score("Zoe", x[0], 3.0)


def test_search_is_open_set_identification(manager, voices) -> None:
    """By posteriors written out: each of five has 0.9 / 5, nobody 0.1."""
    x, seconds = voices
    for probe in range(12, 20):
        llrs = np.array([manager.score(name, x[probe], seconds[probe]) for name in PEOPLE])
        joint = np.append(0.9 / 5 * np.exp(llrs.clip(-300, 300)), 0.1)
        best = int(llrs.argmax())
        expected = PEOPLE[best] if joint[best] / joint.sum() >= 0.5 else ""
        assert manager.search(x[probe], seconds=seconds[probe]) == expected
        assert manager.search(x[probe], llrs.max() - 0.01, seconds[probe]) == PEOPLE[best]
        assert manager.search(x[probe], llrs.max() + 0.01, seconds[probe]) == ""


def test_nobody_is_found_where_nobody_is(small_bundle) -> None:
    manager = SpeakerManager(Backend.load(small_bundle))
    assert manager.search(np.ones(DIM), seconds=5.0) == "" and manager.all_speakers == []


def test_joint_models_keep_one_voiceprint(tmp_path, voices) -> None:
    backend = Backend.load(joint_bundle(tmp_path / "joint", calibrated=False))
    manager = SpeakerManager(backend)
    x, seconds = voices
    for number, name in enumerate(PEOPLE):
        manager.add(name, list(x[number::6][:2]), seconds[number::6][:2])
    llrs = [manager.score(name, x[13], seconds[13]) for name in PEOPLE]
    assert int(np.argmax(llrs)) == 1 and manager.search(x[13], -100.0, seconds[13]) == "Bob"


@pytest.mark.parametrize("name", ["", "   ", 7, None, "x" * 5000])
def test_names_that_are_none_are_refused(manager, voices, name) -> None:
    with pytest.raises(InputError, match="speaker id"):
        manager.add(name, voices[0][0], 3.0)


def test_a_gallery_of_another_model_and_bad_costs_are_refused(
    small_bundle, tmp_path, voices
) -> None:
    backend, other = Backend.load(small_bundle), Backend.load(joint_bundle(tmp_path / "joint"))
    with (
        Gallery.open(tmp_path / "g.db", other) as gallery,
        pytest.raises(InputError, match="another model"),
    ):
        SpeakerManager(backend, gallery)
    with pytest.raises(InputError, match="prior"):
        SpeakerManager(backend, prior=1.5)
    with pytest.raises(InputError, match="cost"):
        SpeakerManager(backend, cost_fa=-1.0)


def test_one_name_is_added_once_from_many_threads(manager, voices) -> None:
    x, seconds = voices
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda: answers.append(manager.add("Flo", x[5], seconds[5])))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and sum(answers) == 1


def test_the_quicker_of_two_processes_adds(small_bundle, tmp_path, voices, monkeypatch) -> None:
    """Between the look and the write of one, the other adds the name."""
    x, seconds = voices
    backend = Backend.load(small_bundle)
    with Gallery.open(tmp_path / "g.db", backend) as one:
        with Gallery.open(tmp_path / "g.db", backend) as other:
            slow, quick = (SpeakerManager(backend, gallery) for gallery in (one, other))
            looked, before = [], Gallery.__contains__

            def between(self, key):
                found = before(self, key)
                if self is one and not looked:
                    looked.append(quick.add("Bob B", x[1], seconds[1]))
                return found

            monkeypatch.setattr(Gallery, "__contains__", between)
            assert not slow.add("Bob B", x[0], seconds[0])
            assert looked == [True] and slow.all_speakers == ["Bob B"]


@pytest.mark.parametrize("threshold", [float("nan"), "0.5", [0.5, 1.0], True])
def test_a_threshold_is_a_number(manager, voices, threshold) -> None:
    x, seconds = voices
    with pytest.raises(InputError, match="threshold"):
        manager.search(x[0], threshold, seconds=seconds[0])
    with pytest.raises(InputError, match="threshold"):
        manager.verify("Bob", x[0], threshold, seconds=seconds[0])


def test_no_name_is_nobody_s_and_sizes_must_agree(manager, voices) -> None:
    x, seconds = voices
    assert "" not in manager and "  " not in manager
    assert not manager.remove("")
    with pytest.raises(InputError, match="of different sizes"):
        manager.add("new", [x[0], x[1][:-1]], seconds[:2])


@pytest.mark.parametrize("place", ["memory", "gallery"])
def test_search_takes_one_utterance_of_a_joint_model_too(tmp_path, voices, place) -> None:
    x, seconds = voices
    backend = Backend.load(joint_bundle(tmp_path / "bundle"))
    gallery = Gallery.open(tmp_path / "g.db", backend) if place == "gallery" else None
    manager = SpeakerManager(backend, gallery)
    assert manager.add("Ann", x[:2], seconds[:2])
    with pytest.raises(InputError, match="one embedding at a time"):
        manager.search(x[:2], seconds=seconds[:2])


@pytest.mark.parametrize("manager", ["gallery"], indirect=True)
def test_the_gallery_has_the_names_themselves(manager) -> None:
    """Also those with blanks, for whoever asks the gallery directly."""
    assert list(manager.gallery) == manager.all_speakers
    assert manager.gallery.get("Ann Lee") is not None
    manager.gallery.add("Cleo K", manager.gallery.get("Bob"))
    assert "Cleo K" in manager


@pytest.mark.parametrize("name", [" Ann", "Ann\n", "\x1b", "", 7, "x" * 5000])
def test_what_is_no_name_is_refused(manager, name) -> None:
    with pytest.raises(InputError, match="expected a name without control"):
        manager.add(name, np.ones(manager.dim, np.float32), 5.0)
    assert manager.num_speakers == len(manager.all_speakers)
