"""What somebody who builds a product meets first: reprs, messages, and what an answer knows."""

import json
import pickle
import time

import numpy as np
import pytest
from random_models import DIM, random_model, statistics

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, DcapldaError, Gallery, InputError, Speaker

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((3000, DIM)).astype(np.float32)


@pytest.fixture(scope="module")
def backend(tmp_path_factory, x) -> Backend:
    """A bundle that knows what training saw: 4 to 240 seconds."""
    model = random_model("d-plda-dsd")
    directory = tmp_path_factory.mktemp("product") / "model"
    export_model(model, directory, statistics(model, x, (4.0, 240.0)))
    return Backend.load(directory, threads=1)


def test_a_speaker_prints_no_vector(backend, x) -> None:
    model = backend.info.fingerprint[:4]
    ann = backend.enroll(x[:3], [21.0, 22.5, 20.0])
    assert repr(ann) == f"Speaker(3 utterances, 63.5 s, model {model}...)"
    assert repr(pickle.loads(pickle.dumps(ann))) == repr(ann)
    assert repr(Speaker(ann.voiceprints)) == "Speaker(3 voiceprints, model not known)"
    assert repr(backend.enroll(x[0], 9.0)).startswith("Speaker(1 utterance, 9.0 s")
    assert repr(ann.utterances[1]) == "Utterance(22.5 s, with embedding)"
    for value in (ann, ann.utterances, backend, [ann]):
        assert "array" not in repr(value) and len(repr(value)) < 250


def test_nobody_is_no_speaker(backend, x, tmp_path) -> None:
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        with pytest.raises(InputError, match="speaker: None, which Gallery.get gives"):
            backend.verify(gallery.get("nobody"), x[0], 9.0, prior=0.5)
        with pytest.raises(DcapldaError, match="there is no speaker 'nobody'"):
            gallery.verify("nobody", x[0], 9.0, prior=0.5)


def test_an_embedding_in_place_of_a_voiceprint_is_told_the_way(backend, x, tmp_path) -> None:
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        for act in (
            lambda: gallery.search(x[0]),
            lambda: gallery.search_many(x[:3]),
            lambda: gallery.identify(x[0], prior=0.5),
            lambda: gallery.add("ann", x[0]),
            lambda: backend.verify(x[0], x[1], 9.0, prior=0.5),
        ):
            with pytest.raises(
                InputError, match=r"as an embedding has.*backend\.enroll\("
            ) as error:
                act()
            assert "\n" not in str(error.value)


def test_an_answer_is_a_line_of_an_audit(backend, x, tmp_path) -> None:
    """Who, how long, with which prior and costs, which model, when."""
    begin = time.time()
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        gallery.add("ann", backend.enroll(x[:2], [20.0, 30.0]))
        answers = [
            gallery.verify("ann", x[2], 9.0, prior=0.01, cost_miss=10),
            backend.verify(gallery.get("ann"), x[2], 9.0, prior=0.01, cost_miss=10),
        ]
        assert answers[0] == answers[1]
        for answer in answers:
            line = json.loads(json.dumps(answer.to_dict()))
            assert begin <= line.pop("time") <= time.time()
            assert line == {
                "llr": answer.llr,
                "posterior": answer.posterior,
                "threshold": answer.threshold,
                "accept": answer.accept,
                "warnings": [],
                "speaker": "ann",
                "seconds": 9.0,
                "prior": 0.01,
                "cost_miss": 10.0,
                "cost_fa": 1.0,
                "model": backend.info.fingerprint,
            }
            assert len(repr(answer)) < 120 and "'ann'" in repr(answer)
        found = gallery.identify(backend.enroll(x[2], 9.0), prior=0.5)
        told = json.loads(json.dumps(found.to_dict()))
        assert (told["best"], told["prior"], told["speakers"]) == ("ann", 0.5, 1)
        assert told["model"] == backend.info.fingerprint and told["seconds"] == 9.0
    bare = backend.verify(np.asarray(backend.enroll(x[0], 9.0)), x[2], 9.0, prior=0.5)
    assert bare.speaker == ""


def test_the_warning_of_a_probe_is_called_so_and_said_once(backend, x, tmp_path) -> None:
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        probe = backend.enroll(x[0], 1.2)
        gallery.add("ann", backend.enroll(x[0], 1.5))
        found = gallery.identify(probe, prior=0.5)
        assert found.warnings == (
            "test: duration 1.2 s, trained on 4.0-240.0 s",
            "enrolment: duration 1.5 s, trained on 4.0-240.0 s",
        )
        assert gallery.identify(gallery.get("ann"), prior=0.5).warnings == (
            "test: duration 1.5 s, trained on 4.0-240.0 s",
            "enrolment: duration 1.5 s, trained on 4.0-240.0 s",
        )


def test_one_more_utterance_keeps_model_and_warnings(backend, x) -> None:
    ann = backend.enroll(x[:2], [20.0, 2.0])
    more = backend.add_utterances(ann, x[2], 1.0)
    whole = backend.enroll(x[:3], [20.0, 2.0, 1.0])
    assert more.model == backend.info.fingerprint and len(more.utterances) == 3
    assert more.warnings == whole.warnings == ("enrolment: duration 1.0 s, trained on 4.0-240.0 s",)
    back = backend.remove_utterances(more, x[2], 1.0)
    assert back.warnings == ann.warnings and more.seconds == 23.0


def test_what_a_speaker_keeps_is_its_own(backend, x) -> None:
    """Whatever the caller does with the array afterwards."""
    calls = x[:2].copy()
    ann = backend.enroll(calls, [20.0, 30.0])
    calls[:] = 0
    np.testing.assert_array_equal([it.embedding for it in ann.utterances], x[:2])
