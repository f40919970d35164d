"""Trials between places: each side with its own offset, against Gaussians written out."""

from pathlib import Path

import numpy as np
import pytest
from joint_models import joint_bundle, place_pool, utterances
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
    (enroll, enroll_seconds), (test, test_seconds) = utterances(count, 1), utterances(1, 2)
    enrolled = places.sides(enroll, enroll_seconds, [sides[0]] * count, np.zeros(count, int))
    tested = places.sides(test, test_seconds, [sides[1]])
    parent = backend.joint
    one, other = (adapted(parent.scorer, np.asarray(pools[s]).reshape(-1, DIM)) for s in sides)
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
                np.log(count),
                one.known,
            ]
        ),
        np.array([np.log(float(test_seconds[0])), *other.lengths(test)[0], 0.0, other.known]),
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pool={pool}"], "--pool needs --places"),
        (["--places={folder}/few"], "'a1' has no place"),
        (["--places={folder}/utt2place", "--score-norm=s", "--cohort={pool}"], "no --score-norm"),
    ],
)
def test_bad_places_are_one_line_and_no_file(case, capsys, options, message) -> None:
    assert run(case, *(option.format(**case) for option in options)) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (Path(case["folder"]) / "scores").exists()
