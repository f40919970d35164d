"""Trials between places: each side with its own offset, against Gaussians written out."""

from pathlib import Path

import numpy as np
import pytest
from joint_models import joint_bundle, open_to_all, place_pool, utterances
from kaldi_files import write_scp
from random_models import DIM
from scipy.stats import multivariate_normal

from dcaplda.bin.score_trials import main
from dcaplda.runtime import Backend, InputError
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.places import Places

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def backend(tmp_path_factory) -> Backend:
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"), threads=1)


@pytest.fixture(scope="module")
def pools() -> dict[str, np.ndarray]:
    return {"office": place_pool(20, seed=50), "phone": place_pool(8, seed=51) + 0.5, "car": []}


def gaussian(x: np.ndarray, y: np.ndarray, variances, shared: np.ndarray) -> float:
    """log p of two means, axis by axis."""
    total = 0.0
    for axis in range(len(x)):
        one, other = variances[0][axis], variances[1][axis]
        covariance = [[one, shared[axis]], [shared[axis], other]]
        total += multivariate_normal([0.0, 0.0], covariance).logpdf([x[axis], y[axis]])
    return total


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("sides", [("office", "phone"), ("office", "car"), ("phone", "phone")])
def test_the_llr_is_that_of_the_places_densities(backend, pools, count, sides) -> None:
    places = Places(backend, pools)
    places.models = [model.adapted(open_to_all(model.scorer)) for model in places.models]
    (enroll, enroll_seconds), (test, test_seconds) = utterances(count, 1), utterances(1, 2)
    enrolled = places.sides(enroll, enroll_seconds, [sides[0]] * count, np.zeros(count, int))
    tested = places.sides(test, test_seconds, [sides[1]])
    parent = backend.joint
    one, other = (
        open_to_all(adapted(parent.scorer, np.asarray(pools[s]).reshape(-1, DIM))) for s in sides
    )
    x, y = one.projected(enroll).mean(axis=0), other.projected(test)[0]
    b, u = one.between, one.correlation + (1.0 - one.correlation) / count
    variances = one.offset + b + u, other.offset + b + 1.0
    same = sides[0] == sides[1]
    score = gaussian(x, y, variances, one.offset + b if same else b)
    score -= gaussian(x, y, variances, one.offset if same else np.zeros_like(b))
    conditions = [
        np.array(
            [
                np.mean(np.log(enroll_seconds.astype(float))),
                *one.lengths(enroll).mean(axis=0),
                one.ease,
                np.log(count),
                one.known,
            ]
        ),
        np.array(
            [np.log(float(test_seconds[0])), *other.lengths(test)[0], other.ease, 0.0, other.known]
        ),
    ]
    scale, shift = (parent.scale, parent.shift) if same else parent.across
    expected = scale.values(*(c[None] for c in conditions))[0, 0] * score
    expected += shift.values(*(c[None] for c in conditions))[0, 0]
    # The duration feature comes out of a float32 graph.
    assert places.llrs(enrolled, tested)[0] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_one_place_is_what_its_adapted_bundle_gives(backend, pools) -> None:
    (enroll, enroll_seconds), (test, test_seconds) = utterances(6, 3), utterances(6, 4)
    places = Places(backend, pools)
    found = places.llrs(
        places.sides(enroll, enroll_seconds, ["office"] * 6),
        places.sides(test, test_seconds, ["office"] * 6),
    )
    office = backend.adapted(pools["office"])
    expected = office.score(enroll, enroll_seconds, test, test_seconds).diagonal()
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-5)


@pytest.fixture(scope="module")
def adapted_backends(backend, pools) -> dict[str, Backend]:
    return {name: backend.adapted(pools[name]) for name in ("office", "phone")}


def test_bundles_of_places_are_what_their_pools_are(backend, pools, adapted_backends) -> None:
    """Bit for bit: a bundle keeps the place in float64."""
    by_pool = Places(backend, {name: pools[name] for name in adapted_backends})
    by_bundle = Places.from_backends(backend, adapted_backends)
    (enroll, enroll_seconds), (test, test_seconds) = utterances(4, 3), utterances(2, 4)
    llrs = []
    for places in (by_pool, by_bundle):
        enrolled = places.sides(enroll, enroll_seconds, ["office"] * 4, [0, 0, 0, 1])
        tested = places.sides(test, test_seconds, ["phone", "office"])
        llrs.append(places.llrs(enrolled, tested, [0, 0, 1, 1], [0, 1, 0, 1]))
    np.testing.assert_array_equal(*llrs)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("place", ["office", "phone"])
def test_speakers_of_a_place_are_compared_at_another(backend, adapted_backends, count, place):
    """A voiceprint of the office's bundle is what `sides` makes of its utterances (float32)."""
    places = Places.from_backends(backend, adapted_backends)
    (enroll, enroll_seconds), (test, test_seconds) = utterances(count, 3), utterances(2, 4)
    ann = adapted_backends["office"].enroll(enroll, enroll_seconds)
    assert ann.parent == backend.info.fingerprint
    enrolled = places.sides(enroll, enroll_seconds, ["office"] * count, np.zeros(count, int))
    tested = places.sides(test, test_seconds, [place] * 2, [0, 0])
    expected = places.llrs(enrolled, tested)
    found = places.llrs(places.speakers([ann]), tested)
    np.testing.assert_allclose(found, expected, atol=2e-3, rtol=1e-4)
    answer = places.verify(ann, test, test_seconds, place=place, prior=0.1)
    assert answer.llr == pytest.approx(found[0], abs=1e-6)
    assert answer.threshold == pytest.approx(np.log(9.0))


def test_bundles_of_other_models_are_refused(backend, adapted_backends, tmp_path) -> None:
    other = Backend.load(joint_bundle(tmp_path / "other", seed=1), threads=1)
    stranger = other.adapted(place_pool(9))
    with pytest.raises(InputError, match="place 'car': .* is adapted from .*; adapt that model"):
        Places.from_backends(backend, {**adapted_backends, "car": stranger})
    with pytest.raises(InputError, match="place 'car': .* is not adapted"):
        Places.from_backends(backend, {"car": other})
    places = Places.from_backends(backend, adapted_backends)
    with pytest.raises(InputError, match="place 'office' is known already"):
        places.add("office", adapted_backends["phone"])
    calls = utterances(2, 3)
    with pytest.raises(InputError, match="none of office, phone .*; give its bundle"):
        places.speakers([backend.enroll(*calls)])
    with pytest.raises(InputError, match="none of office, phone .*; enrol again"):
        places.speakers([stranger.enroll(*calls)])
    scores = adapted_backends["office"].enroll(*calls, multi_enroll="scores")
    with pytest.raises(InputError, match="2 voiceprints; enrol with multi_enroll='joint'"):
        places.speakers([scores])
    with pytest.raises(InputError, match="speakers: none"):
        places.speakers([])
    ann = adapted_backends["office"].enroll(*calls)
    with pytest.raises(InputError, match="enrol again, or compare the two places by Places.from_"):
        adapted_backends["phone"].verify(ann, calls[0][0], 3.0, prior=0.1)


def test_mistakes_are_named(backend, pools) -> None:
    vectors, seconds = utterances(2, 5)
    places = Places(backend, pools)
    with pytest.raises(InputError, match="place 'attic' is none of office, phone, car"):
        places.sides(vectors, seconds, ["office", "attic"])
    with pytest.raises(InputError, match="number 0 has utterances of two places"):
        places.sides(vectors, seconds, ["office", "phone"], [0, 0])
    with pytest.raises(InputError, match="places: 1 for 2 embeddings"):
        places.sides(vectors, seconds, ["office"])
    with pytest.raises(InputError, match="'office' is one word"):
        places.sides(vectors, seconds, "office")
    side = places.sides(vectors, seconds, ["office", "phone"])
    with pytest.raises(InputError, match="enroll_index: 2 is outside 0 to 1"):
        places.llrs(side, side, [2], [0])
    one = np.tile(vectors[:1], (9, 1)) + 0.001 * np.random.default_rng(0).standard_normal((9, DIM))
    with pytest.raises(InputError, match="place 'car': the 9 utterances seem to be of one person"):
        Places(backend, {"car": one})
    with pytest.raises(InputError, match="place 'car'"):
        Places(backend, {"car": [[1.0, 2.0], [3.0]]})
    with pytest.raises(InputError, match="adapted to one place"):
        Places(backend.adapted(pools["office"]), pools)


@pytest.fixture
def case(tmp_path: Path, backend, pools) -> dict[str, str]:
    """Tables of an enrolment in the office, tests on the phone, and what was heard at both."""
    vectors, seconds = utterances(5, 6)
    names = ["a1", "a2", "a3", "t1", "t2"]
    heard = {f"o{i}": row for i, row in enumerate(pools["office"])}
    heard |= {f"p{i}": row for i, row in enumerate(pools["phone"])}
    places = dict(zip(names, ["office"] * 3 + ["phone"] * 2, strict=True))
    places |= {name: "office" if name.startswith("o") else "phone" for name in heard}
    text = {
        "utt2dur": "".join(f"{n} {s}\n" for n, s in zip(names, seconds, strict=True)),
        "utt2place": "".join(f"{n} {place}\n" for n, place in places.items()),
        "spk2utt": "ann a1 a2\nbob a3\n",
        "few": "t1 phone\n",
        "moved": "a1 office\na2 phone\na3 office\nt1 phone\nt2 phone\n",
        "trials": "ann t1\nbob t2\nann t2\n",
    }
    for name, content in text.items():
        (tmp_path / name).write_text(content)
    rows = dict(zip(names, vectors, strict=True))
    floats = {k: np.asarray(v, np.float32) for k, v in heard.items()}
    return {
        "folder": str(tmp_path),
        "vectors": f"scp:{write_scp(tmp_path, rows, 'all')}",
        "pool": f"scp:{write_scp(tmp_path, floats, 'pool')}",
        "model": str(backend.directory),
    }


def run(case: dict[str, str], *options: str) -> int:
    folder, vectors = case["folder"], case["vectors"]
    told = [f"--durations={folder}/utt2dur", f"--spk2utt={folder}/spk2utt", *options]
    return main([*told, case["model"], vectors, vectors, f"{folder}/trials", f"{folder}/scores"])


def test_score_trials_compares_across_places(case, backend, pools, capsys) -> None:
    folder = Path(case["folder"])
    assert run(case, f"--places={folder}/utt2place", f"--pool={case['pool']}") == 0
    assert "place office: 20 utterances heard" in capsys.readouterr().err
    found = [float(line.split()[2]) for line in (folder / "scores").read_text().splitlines()]
    vectors, seconds = utterances(5, 6)
    places = Places(backend, {key: pools[key] for key in ("office", "phone")})
    enrolled = places.sides(vectors[:3], seconds[:3], ["office"] * 3, [0, 0, 1])
    tested = places.sides(vectors[3:], seconds[3:], ["phone"] * 2)
    np.testing.assert_allclose(
        found, places.llrs(enrolled, tested, [0, 1, 0], [0, 1, 1]), rtol=1e-5
    )


@pytest.mark.parametrize("as_file", [False, True])
def test_score_trials_takes_bundles_of_places(case, adapted_backends, capsys, as_file) -> None:
    folder = Path(case["folder"])
    told = [f"--places={folder}/utt2place"]
    assert run(case, *told, f"--pool={case['pool']}") == 0
    expected = (folder / "scores").read_text()
    named = {name: str(it.directory) for name, it in adapted_backends.items()}
    given = ",".join(f"{name}={directory}" for name, directory in named.items())
    if as_file:
        lines = "".join(f"{name} {directory}\n" for name, directory in named.items())
        (folder / "bundles").write_text(lines)
        given = f"{folder}/bundles"
    (folder / "scores").unlink()
    capsys.readouterr()
    assert run(case, *told, f"--place-bundles={given}") == 0
    assert "place phone: 8 utterances heard" in capsys.readouterr().err
    assert (folder / "scores").read_text() == expected


def test_a_place_may_have_a_bundle_and_another_a_pool(case, pools, adapted_backends) -> None:
    folder = Path(case["folder"])
    told = [f"--places={folder}/utt2place"]
    assert run(case, *told, f"--pool={case['pool']}") == 0
    expected = (folder / "scores").read_text()
    rows = {f"p{i}": np.asarray(row, np.float32) for i, row in enumerate(pools["phone"])}
    pool = f"--pool=scp:{write_scp(folder, rows, 'phone')}"
    bundle = f"--place-bundles=office={adapted_backends['office'].directory}"
    assert run(case, *told, pool, bundle) == 0
    assert (folder / "scores").read_text() == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("office={office},office={office}", "is not one place=dir"),
        ("office=", "'office=' is not one place=dir"),
        ("attic={office}", "is of 'attic'; are the names the same?"),
        ("office={folder}/nowhere", "has no model.json"),
        ("office={stranger}", "place 'office': {stranger} is not adapted"),
        ("{folder}/nofile", "nofile"),
    ],
)
def test_bad_bundles_are_one_line(case, adapted_backends, tmp_path, capsys, given, message) -> None:
    stranger = joint_bundle(tmp_path / "stranger", seed=1)
    names = {**case, "office": adapted_backends["office"].directory, "stranger": stranger}
    folder = Path(case["folder"])
    told = f"--place-bundles={given.format(**names)}"
    assert run(case, f"--places={folder}/utt2place", told) == 1
    assert message.format(**names) in capsys.readouterr().err.splitlines()[-1]
    assert not (folder / "scores").exists()


def test_a_pool_and_a_bundle_of_one_place_are_one_too_many(case, adapted_backends, capsys) -> None:
    folder = Path(case["folder"])
    bundle = f"--place-bundles=office={adapted_backends['office'].directory}"
    assert run(case, f"--places={folder}/utt2place", f"--pool={case['pool']}", bundle) == 1
    assert "'o0' is of 'office', which has the bundle" in capsys.readouterr().err.splitlines()[-1]


def test_sessions_count_between_places_too(case, backend, pools) -> None:
    folder = Path(case["folder"])
    (folder / "utt2sess").write_text("a1 s1\na2 s2\na3 s1\n")
    told = [f"--places={folder}/utt2place", f"--pool={case['pool']}"]
    assert run(case, *told, f"--sessions={folder}/utt2sess") == 0
    found = [float(line.split()[2]) for line in (folder / "scores").read_text().splitlines()]
    vectors, seconds = utterances(5, 6)
    places = Places(backend, {key: pools[key] for key in ("office", "phone")})
    sessions = ["s1", "s2", "s1"]
    enrolled = places.sides(vectors[:3], seconds[:3], ["office"] * 3, [0, 0, 1], sessions)
    assert enrolled.sides.spread[0] == pytest.approx(0.5)
    tested = places.sides(vectors[3:], seconds[3:], ["phone"] * 2)
    expected = places.llrs(enrolled, tested, [0, 1, 0], [0, 1, 1])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pool={pool}"], "--pool needs --places"),
        (["--place-bundles=office=x"], "--place-bundles needs --places"),
        (["--places={folder}/few"], "'a1' has no place"),
        (["--places={folder}/utt2place", "--score-norm=s", "--cohort={pool}"], "no --score-norm"),
        (["--places={folder}/utt2place", "--multi-enroll=scores"], "not --multi-enroll=scores"),
        (
            ["--places={folder}/moved"],
            "moved': 'a1' and 'a2' of one model are of two places, 'office' and 'phone'",
        ),
    ],
)
def test_bad_places_are_one_line_and_no_file(case, capsys, options, message) -> None:
    assert run(case, *(option.format(**case) for option in options)) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (Path(case["folder"]) / "scores").exists()
