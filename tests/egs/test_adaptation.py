"""The recipe of unlabelled utterances: who is heard, who is judged, and a whole run of it."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from training_world import all_trials, copies, draw, write_data_dir

RECIPE = Path(__file__).parents[2] / "egs" / "recordings"
HALVINGS, POOLS = 4, (5, 12)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def words(path: Path) -> dict[str, str]:
    return dict(line.split() for line in lines(path))


def halve(data: Path, out: Path, *, seed: int = 0, trials: str = "trials", models: str = "-"):
    options = [f"--halvings={HALVINGS}", "--pools=5,12", f"--seed={seed}"]
    command = [sys.executable, RECIPE / "local/halvings.py", *options]
    names = [data, data / trials, models if models == "-" else data / models, out]
    return subprocess.run([*command, *names], capture_output=True, text=True)


@pytest.fixture
def data(tmp_path) -> Path:
    """Five people in each of two domains, and models of two utterances."""
    sample = draw(5, domains=2, speakers=5)
    folder = write_data_dir(tmp_path / "data", sample)
    trials = all_trials(sample)
    (folder / "trials").write_text("".join(f"{' '.join(trial)}\n" for trial in trials))
    second = {u: u.replace("-c0", "-c1") for u in sample.ids if u.endswith("-c0")}
    (folder / "models").write_text("".join(f"m-{u} {u} {v}\n" for u, v in second.items()))
    of_models = [f"m-{' '.join(t)}\n" for t in trials if t[0] in second]
    (folder / "trials_models").write_text("".join(of_models))
    return folder


def halvings(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.glob("*/*/trials"))


@pytest.mark.parametrize("list_of", ["utterances", "models"])
def test_nobody_is_heard_and_judged(data, tmp_path, list_of: str) -> None:
    names = {"trials": "trials_models", "models": "models"} if list_of == "models" else {}
    assert halve(data, tmp_path / "out", **names).returncode == 0
    speaker, domain = words(data / "utt2spk"), words(data / "utt2dom")
    places = halvings(tmp_path / "out")
    assert len(places) == 2 * HALVINGS
    whole = set(lines(data / names.get("trials", "trials")))
    for place in places:
        heard = {speaker[u] for size in POOLS for u in lines(place / f"pool.{size}")}
        assert len(heard) == 2  # of five; the larger half is judged
        judged = set()
        for line in lines(place / "trials"):
            model, test, _ = line.split()
            judged |= {speaker[model.removeprefix("m-")], speaker[test]}
            assert line in whole and domain[test] == place.parent.name
        assert len(judged) == 3 and not heard & judged


def test_every_trial_of_the_judged_half_is_there(data, tmp_path) -> None:
    halve(data, tmp_path / "out")
    speaker = words(data / "utt2spk")
    for place in halvings(tmp_path / "out"):
        kept = [line.split() for line in lines(place / "trials")]
        judged = {speaker[u] for row in kept for u in row[:2]}
        expected = [
            row
            for row in (line.split() for line in lines(data / "trials"))
            if {speaker[row[0]], speaker[row[1]]} <= judged
        ]
        assert kept == expected


def test_pools_are_nested_and_of_the_place(data, tmp_path) -> None:
    halve(data, tmp_path / "out")
    domain = words(data / "utt2dom")
    for place in halvings(tmp_path / "out"):
        few, more = (lines(place / f"pool.{size}") for size in POOLS)
        assert (len(few), len(more)) == POOLS and more[: len(few)] == few
        assert len(set(more)) == len(more)
        assert {domain[u] for u in more} == {place.parent.name}


def test_a_seed_gives_the_same_halves_another_seed_others(data, tmp_path) -> None:
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        halve(data, tmp_path / name, seed=seed)
    one, again, other = (
        [lines(place / "pool.12") for place in halvings(tmp_path / name)]
        for name in ("one", "again", "other")
    )
    assert one == again != other


def test_degraded_copies_are_halved_as_their_originals(tmp_path) -> None:
    sample = copies(draw(5, domains=1, speakers=6), 0.5)
    folder = write_data_dir(tmp_path / "data", sample)
    trials = "".join(f"{' '.join(trial)}\n" for trial in all_trials(sample))
    (folder / "trials").write_text(trials)
    halve(folder, tmp_path / "out")
    speaker = words(folder / "utt2spk")
    for number in range(HALVINGS):
        judged = [
            {speaker[u] for line in lines(place / "trials") for u in line.split()[:2]}
            for place in halvings(tmp_path / "out")
            if place.name == str(number)
        ]
        assert len(judged) == 2 and judged[0] == judged[1]


def test_mistakes_are_one_line(data, tmp_path) -> None:
    done = halve(data, tmp_path / "out", trials="nowhere")
    assert done.returncode == 1 and "no such file" in done.stderr
    (data / "trials").write_text("stranger nobody target\n")
    done = halve(data, tmp_path / "out")
    assert done.returncode == 1 and "'stranger nobody'" in done.stderr
    assert "Traceback" not in done.stderr


PLAN = """
train = ["train"]
[[dev]]
name = "single"
folder = "dev"
trials = "trials"
[[dev]]
name = "multi"
folder = "dev"
trials = "trials_models"
spk2utt = "models"
"""


@pytest.mark.slow
@pytest.mark.torch
def test_the_whole_recipe(tmp_path) -> None:
    """Tables of development sets, corpora left out and wrong pools; the tools give the same."""
    import kaldiio

    root, exp = tmp_path / "root", tmp_path / "exp"
    for name, sample in (("train", draw(2, domains=4)), ("dev", draw(5, speakers=9, prefix="v"))):
        write_data_dir(root / name, sample)
        table = dict(zip(sample.ids, sample.vectors, strict=True))
        kaldiio.save_ark(str(root / name / "x.ark"), table, scp=str(root / name / "xvector.scp"))
    trials = all_trials(sample)
    (root / "dev/trials").write_text("".join(f"{' '.join(trial)}\n" for trial in trials))
    firsts = [u for u in sample.ids if u.endswith("-c0")]
    pairs = [f"m-{u} {u} {u.replace('-c0', '-c1')}\n" for u in firsts]
    (root / "dev/models").write_text("".join(pairs))
    of_models = [f"m-{' '.join(t)}\n" for t in trials if t[0] in firsts]
    (root / "dev/trials_models").write_text("".join(of_models))
    (tmp_path / "plan.toml").write_text(PLAN)
    options = ["--sets=single multi", "--halvings=2", "--seeds=0-1", "--lodo=true", "--wrong=true"]
    options += ["--numbers=true"]
    options += ["--options=--set=model.lda_dim=10", f"--data={tmp_path}/plan.toml"]
    command = [RECIPE / "adaptation.sh", *options, root, exp]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| multi, joint |" in (exp / "joint/adaptation.md").read_text()
    assert "| 0 to 30 |" in (exp / "joint/lodo.md").read_text()
    assert "| left out | half of another corpus |" in (exp / "joint/wrong.md").read_text()
    assert "| 2 against 1 |" in (exp / "joint/numbers.md").read_text()
    # Again: nothing is left to do, and the tables are the same.
    before = (exp / "joint/lodo.md").read_text()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and (exp / "joint/lodo.md").read_text() == before
    for way in ("joint", "scores"):
        check_with_tools(exp, way)


def check_with_tools(exp: Path, way: str) -> None:
    """adapt-backend, score-trials and eval-scores give the row of the table."""
    tools, place = RECIPE.parents[1] / "bin", exp / "halvings/multi/dom0/0"
    data, out = exp / "data/dev", exp / "tools"
    out.mkdir(exist_ok=True)
    chosen = set(lines(place / "pool.30"))
    pool = [line for line in lines(data / "xvector.scp") if line.split()[0] in chosen]
    (out / "pool.scp").write_text("".join(f"{line}\n" for line in pool))
    table = f"scp:{data}/xvector.scp"
    for command in (
        ["adapt-backend", exp / "joint/bundle", f"scp:{out}/pool.scp", out / f"bundle-{way}"],
        [
            "score-trials", f"--multi-enroll={way}", f"--spk2utt={data}/models",
            f"--durations={data}/utt2dur", out / f"bundle-{way}", table, table,
            place / "trials", out / way,
        ],
        ["eval-scores", "--bootstrap=0", f"--csv={out}/{way}.csv", place / "trials", out / way],
    ):  # fmt: skip
        done = subprocess.run([tools / command[0], *command[1:]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    head, values = (line.split(",") for line in lines(out / f"{way}.csv")[:2])
    found = dict(zip(head, values, strict=True))
    row = next(r for r in lines(exp / "joint/multi.tsv") if r.startswith(f"dom0\t0\t{way}\t30\t"))
    assert float(found["cllr_0.5"]) == pytest.approx(float(row.split("\t")[4]), abs=2e-6)


@pytest.fixture
def several(monkeypatch):
    """The recipe's program, as a module."""
    monkeypatch.syspath_prepend(str(RECIPE / "local"))
    return importlib.import_module("numbers_enrolled")


def test_who_enrols_is_met_in_the_session_that_is_left(several) -> None:
    """Sessions in turn, each left out once; nobody with too few utterances."""
    own = {"ann": {"s": ["a", "b"], "t": ["c"], "u": ["d", "e", "f"]}, "bob": {"v": ["g", "h"]}}
    assert several.shared_out(own["ann"]) == ["a", "c", "d", "b", "e", "f"]
    enrolled, tested = several.sides_of(own, 3, 2)
    assert enrolled == [
        ("ann", "s", ["c", "d", "e"]),
        ("ann", "t", ["a", "d", "b"]),
        ("ann", "u", ["a", "c", "b"]),
    ]
    assert tested == [("ann", "s", ["a", "b"]), ("ann", "u", ["d", "e"]), ("bob", "v", ["g", "h"])]
    assert [side[1] for side in several.sides_of(own, 4, 1)[0]] == ["s", "t"]


@pytest.mark.torch
def test_numbers_are_those_of_the_backend(data, tmp_path, several) -> None:
    """Two utterances against two: by `enroll` and `verify`, pair by pair, 1e-4; and the table."""
    from joint_models import joint_bundle, place_pool
    from kaldi_files import write_scp

    from dcaplda.eval.metrics.scalars import cllr
    from dcaplda.runtime import Backend

    speaker, session = words(data / "utt2spk"), words(data / "utt2sess")
    write_scp(data, dict(zip(speaker, place_pool(len(speaker)), strict=True)), "xvector")
    bundle = joint_bundle(tmp_path / "bundle")
    backend, place = Backend.load(bundle, threads=1), several.Place(data)
    own: dict[str, dict[str, list[str]]] = {}
    for name, person in speaker.items():
        own.setdefault(person, {}).setdefault(session[name], []).append(name)
    enrolled, tested = several.sides_of(own, 2, 2)

    def side(names: list[str]) -> tuple:
        return place.embeddings(names), [place.seconds[place.row[u]] for u in names]

    llrs: dict[bool, list[float]] = {True: [], False: []}
    for person, left, utterances in enrolled:
        stored = backend.enroll(*side(utterances))
        for other, met, heard in tested:
            if person != other or left == met:
                llrs[person == other].append(backend.verify(stored, *side(heard), prior=0.5).llr)
    found = list(several.figures(backend, place, enrolled, tested))
    expected = cllr(np.array(llrs[True]), np.array(llrs[False]), 0.5)
    assert found[0] == pytest.approx(expected, abs=1e-4)
    assert list(several.figures(backend, place, enrolled, [])) == []

    assert halve(data, tmp_path / "out").returncode == 0
    several.measure(str(bundle), str(data), str(tmp_path / "out"), str(tmp_path / "found.tsv"))
    tool = [sys.executable, RECIPE / "local/numbers_enrolled.py"]
    done = subprocess.run(
        [*tool, "numbers", tmp_path / "found.tsv"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "| 2 against 1 |" in done.stdout
    wrong = subprocess.run([*tool, "sums"], capture_output=True, text=True)
    assert wrong.returncode == 1 and len(wrong.stderr.splitlines()) == 1


@pytest.mark.torch
def test_moved_voiceprints_are_measured_against_enrolling_again(data, tmp_path) -> None:
    """Enrolling again differs by nothing from itself, and moving by less than the centre alone."""
    from joint_models import joint_bundle, place_pool
    from kaldi_files import write_scp

    names = list(words(data / "utt2spk"))
    vectors = place_pool(len(names))  # of the size that the small model takes
    write_scp(data, dict(zip(names, vectors, strict=True)), "xvector")
    models = {"trials": "trials_models", "models": "models"}
    assert halve(data, tmp_path / "out", **models).returncode == 0
    command = [sys.executable, RECIPE / "local/moved_voiceprints.py"]
    given = [joint_bundle(tmp_path / "bundle"), data, tmp_path / "out", data / "models"]
    done = subprocess.run([*command, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows[:3]] == [
        ["12", way] for way in ("enrolled again", "moved", "left")
    ]
    again, moved, centre = (float(row[3]) for row in rows[:3])
    assert again == 0.0 < moved < centre
    wrong = subprocess.run([*command, data], capture_output=True, text=True)
    assert wrong.returncode == 1 and len(wrong.stderr.splitlines()) == 1


@pytest.mark.torch
def test_places_that_training_knew_are_counted(data, tmp_path) -> None:
    """A model that knows dom0's place well: every pool of it is its own, of dom1 none."""
    import torch
    from joint_models import joint_torch_model, place_pool
    from kaldi_files import write_scp

    from dcaplda.export.bundle_writer import export_model
    from dcaplda.export.graphs.algebra import joint_scorer_of

    domain = words(data / "utt2dom")
    rows = {name: iter(place_pool(len(domain), seed)) for name, seed in (("dom0", 3), ("dom1", 90))}
    vectors = {u: next(rows[place]) for u, place in domain.items()}
    write_scp(data, vectors, "xvector")
    model = joint_torch_model(places=4)
    here = np.stack([v for u, v in vectors.items() if domain[u] == "dom0"])
    mean = joint_scorer_of(model).centred(here).mean(axis=0)
    far = 8.0 * np.random.default_rng(5).standard_normal((4, len(mean)))
    far[1] = 0.0
    with torch.no_grad():
        for centres in (model.plda.trained_mean, model.plda.trained_centre):
            centres.copy_(torch.from_numpy(mean + far))
        model.plda.trained_left.fill_(0.01)
    names = ["car", "dom0", "phone", "studio"]
    export_model(model, tmp_path / "bundle", training={"trained_places": names})
    assert halve(data, tmp_path / "out").returncode == 0
    for other in ("dom0", "dom1"):
        kept = tmp_path / "kept" / other
        kept.mkdir(parents=True)
        (tmp_path / "out" / other).rename(kept / other)
        command = [sys.executable, RECIPE / "local/known_places.py", tmp_path / "bundle"]
        done = subprocess.run([*command, data, kept], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        last = [cell.strip() for cell in done.stdout.splitlines()[-1].split("|")[1:-1]]
        own, another, none, refused = (int(cell.rstrip("%")) for cell in last[2:6])
        assert last[:2] == ["12", str(HALVINGS)] and own + another + none + refused == 100
        assert (own, another) == ((100, 0) if other == "dom0" else (0, 0)), done.stdout
    wrong = subprocess.run(command, capture_output=True, text=True)
    assert wrong.returncode == 1 and len(wrong.stderr.splitlines()) == 1
