"""What SpeechBrain, pyannote and WeSpeaker make of small random models: run where they are.

    python make_foreign.py <site-packages> <wespeaker-checkout>

Modules of the first two are loaded by file, since neither needs the rest of its package for this.
"""

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PACKAGES = Path(sys.argv[1])
rng = np.random.default_rng(7)


def loaded(name: str, path: str):
    spec = importlib.util.spec_from_file_location(name, PACKAGES / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def speechbrain() -> None:
    """Its PLDA of 30 made-up speakers in 12 dimensions, and its fast scoring of 9 x 11 trials."""
    program = loaded("speechbrain_plda", "speechbrain/processing/PLDA_LDA.py")

    def statistics(names, vectors):
        none = np.array([None] * len(vectors))
        ones = np.ones((len(vectors), 1))
        segments = np.array([f"u{i}" for i in range(len(vectors))])
        return program.StatObject_SB(np.array(names), segments, none, none, ones, vectors.copy())

    speakers = np.repeat(np.arange(30), 8)
    voices = 1.5 * rng.standard_normal((30, 12)) @ np.diag(np.linspace(1.0, 0.1, 12))
    vectors = voices[speakers] + rng.standard_normal((240, 12)) + 0.3
    model = program.PLDA(rank_f=6, nb_iter=4)
    model.plda(statistics([f"s{i}" for i in speakers], vectors))
    enroll, test = vectors[:90:10] + 0.1, vectors[5:225:20]
    sides = [statistics([f"u{i}" for i in range(len(side))], side) for side in (enroll, test)]
    trials = program.Ndx()
    trials.modelset, trials.segset = sides[0].modelset, sides[1].segset
    trials.trialmask = np.ones((len(enroll), len(test)), bool)
    found = program.fast_PLDA_scoring(*sides, trials, model.mean, model.F, model.Sigma)
    np.savez(HERE / "speechbrain.npz", mean=model.mean, F=model.F, Sigma=model.Sigma)
    np.savez(HERE / "speechbrain-scores.npz", enroll=enroll, test=test, scores=found.scoremat)


def pyannote() -> None:
    """A folder of random arrays, and where its functions bring 20 vectors."""
    program = loaded("pyannote_vbx", "pyannote/audio/utils/vbx.py")
    folder = HERE / "pyannote"
    folder.mkdir(exist_ok=True)
    lda = rng.standard_normal((16, 7)) / 4
    means = {"mean1": rng.standard_normal(16), "mean2": 0.2 * rng.standard_normal(7)}
    np.savez(folder / "xvec_transform.npz", **means, lda=lda)
    turn = np.linalg.qr(rng.standard_normal((7, 7)))[0] * np.linspace(0.5, 2.0, 7)
    psi = np.linspace(4.0, 0.2, 7)
    np.savez(folder / "plda.npz", mu=0.1 * rng.standard_normal(7), tr=turn, psi=psi)
    into, turned, phi = program.vbx_setup(folder / "xvec_transform.npz", folder / "plda.npz")
    vectors = rng.standard_normal((20, 16))
    np.savez(HERE / "pyannote-vectors.npz", vectors=vectors, turned=turned(into(vectors)), phi=phi)


def wespeaker() -> None:
    """Its PLDA of 40 made-up speakers in 12 dimensions, with lengths and without, and its scores.

    Six people are enrolled by three vectors each, taken for one ("average") or counted ("counted").
    """
    import kaldiio

    sys.path.insert(0, sys.argv[2])
    from wespeaker.utils.plda.two_cov_plda import TwoCovPLDA

    chance = np.random.default_rng(11)

    def vectors(people: int, each: int) -> np.ndarray:
        voices = chance.standard_normal((people, 1, 12)) * np.linspace(1.5, 0.2, 12)
        return (voices + 0.7 * chance.standard_normal((people, each, 12)) + 0.4).astype(np.float32)

    train, enroll = vectors(40, 6), vectors(6, 3)
    test = np.concatenate([enroll[:, :1], vectors(9, 1)])
    test[:6] += 0.5 * chance.standard_normal((6, 1, 12)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        place = {}
        for name, people in (("train", train), ("enroll", enroll), ("test", test)):
            own = {f"{name}{i}-{j}": x for i, xs in enumerate(people) for j, x in enumerate(xs)}
            scp, utt2spk = f"{folder}/{name}.scp", Path(folder, f"{name}.utt2spk")
            kaldiio.save_ark(f"{folder}/{name}.ark", own, scp=scp)
            utt2spk.write_text("".join(f"{u} {u.split('-')[0]}\n" for u in own))
            place[name] = scp, str(utt2spk)
        pairs = [f"enroll{i} test{j}-0 target\n" for i in range(6) for j in range(len(test))]
        Path(folder, "trials").write_text("".join(pairs))
        for name, switch in (("normalized", True), ("plain", False)):
            switches = {"normalize_length": switch, "subtract_train_set_mean": switch}
            model = TwoCovPLDA(*place["train"], embed_dim=12, **switches)
            model.train(5)
            model.save_model(str(HERE / f"wespeaker-{name}.h5"))
            model = TwoCovPLDA.load_model(str(HERE / f"wespeaker-{name}.h5"))
            found = {}
            for way in ("average", "counted"):
                names = (*place["enroll"], place["test"][0], f"{folder}/trials", f"{folder}/scores")
                domain = place["train"][0] if switch else None
                model.eval_sv(*names, multisession_avg=way == "average", indomain_scp=domain)
                lines = Path(folder, "scores").read_text().splitlines()
                found[way] = np.array([float(line.split()[2]) for line in lines]).reshape(6, -1)
            mean = train.reshape(-1, 12).mean(axis=0) * switch
            told = {"mean": mean, "enroll": enroll, "test": test[:, 0], **found}
            np.savez(HERE / f"wespeaker-{name}-scores.npz", **told)


speechbrain()
pyannote()
wespeaker()
