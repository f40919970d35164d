"""A bundle for a place, from unlabelled utterances of it: no torch, no labels, seconds of time."""

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import checks
from dcaplda.runtime.bundle.agreement import read_graph
from dcaplda.runtime.bundle.checksums import sha256, with_sums
from dcaplda.runtime.bundle.initializers import float_constants, with_constants
from dcaplda.runtime.bundle.manifest import (
    FORMAT_VERSION,
    JOINT,
    MANIFEST,
    ModelInfo,
    read_file,
)
from dcaplda.runtime.bundle.readme import README, readme
from dcaplda.runtime.bundle.writing import write_files
from dcaplda.runtime.errors import BundleError, InputError
from dcaplda.runtime.joint.layout import place_constants
from dcaplda.runtime.joint.moved import moved_sides
from dcaplda.runtime.joint.place import adapted, trained_place
from dcaplda.runtime.joint.rows import JointModel
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.runtime.joint.stored import joint_bytes, parse_joint
from dcaplda.runtime.several import joint_needed

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

FEWEST_PEOPLE = 1.7
"""Below so many effective people a pool of several utterances is one voice, not a place."""
FEWEST_TO_TELL = 5
"""Utterances from which on one voice can be told from a few."""
ROUNDING = 1e-5
"""Of constants in float32, relative to the largest of them."""
EMBEDDING_GRAPHS = ("backend", "voiceprint", "verify", "average")
"""Graphs that take embeddings, and so know the place."""


@dataclass(frozen=True)
class Adaptation:
    """An adapted bundle, not yet written, and what was found on the way."""

    files: dict[str, bytes]
    utterances: int
    people: float
    """Effective number of people in the pool."""
    known: float
    """How much of a place's offset is known now, from 0 to 1."""
    trained: str | None = None
    """Name of the place of training that the pool is of; None: of another."""
    seconds: tuple[float, float, float] | None = None
    """Seconds of speech in all, of the shortest and of the longest utterance, where told."""


def adapt_bundle(
    directory: str | Path,
    info: ModelInfo,
    embeddings: ArrayLike,
    ids: list[str] | None = None,
    seconds: ArrayLike | None = None,
) -> Adaptation:
    """The bundle in `directory` for the place of these embeddings (n, D).

    `seconds` of speech are written into the manifest and change nothing else: utterances that
    count by their seconds adapt no better (egs/recordings/RESULTS.md).
    """
    joint = joint_of(directory, info)
    if joint is None:
        raise InputError(
            f"{directory}: this model ({info.variant}) cannot be adapted; train with model.joint = "
            "true (docs/adaptation.md)"
        )
    if joint.scorer.known > 0:
        raise InputError(f"{directory}: is adapted already; adapt the bundle that it was made of")
    if is_empty(embeddings):
        raise InputError("no utterance to adapt with; give at least one, better thirty")
    pool = checks.embeddings(embeddings, "embeddings", info.embedding_dim, ids)
    told = None
    if seconds is not None:
        times = checks.seconds(seconds, "durations", len(pool), True, ids).astype(np.float64)
        told = float(times.sum()), float(times.min()), float(times.max())
    found = adapted(joint.scorer, pool)
    refuse_one_voice(len(pool), found.heard)
    model = joint.adapted(found)
    made = Adaptation(
        files={},
        utterances=len(pool),
        people=found.heard,
        known=found.known,
        trained=place_name(info, joint.scorer, pool, str(directory)),
        seconds=told,
    )
    made.files.update(_files(directory, info, model, made))
    return made


def place_name(
    info: ModelInfo, scorer: JointScorer, pool: NDArray[np.floating], directory: str = "bundle"
) -> str | None:
    """Name of the place of training that a pool (n, D) is of; None: of another."""
    number = trained_place(scorer, pool)
    if number is None or scorer.trained is None:
        return None
    training = info.manifest.get("training")
    names = training.get("trained_places") if isinstance(training, dict) else None
    if names is None:
        return f"number {number + 1}"
    count = len(scorer.trained.own)
    if not isinstance(names, list) or len(names) != count or not all(map(_is_name, names)):
        raise BundleError(
            f"{directory}/model.json: 'trained_places' are not the names of the {count} places "
            "that training knew; export again"
        )
    return str(names[number])


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.strip() != "" and name.isprintable()


def is_empty(embeddings: ArrayLike) -> bool:
    """Whether there is no utterance at all; what is no array is refused later."""
    try:
        return np.size(embeddings) == 0
    except Exception:  # whatever the class of a caller's object raises
        return False


def seems_one_voice(utterances: int, people: float) -> bool:
    """Whether several utterances seem to be of one person; of very few nobody can say."""
    return utterances >= FEWEST_TO_TELL and people < FEWEST_PEOPLE


def refuse_one_voice(utterances: int, people: float, what: str = "") -> None:
    """Raise if a pool of several utterances seems to be of one person; `what` names the pool."""
    if seems_one_voice(utterances, people):
        raise InputError(
            f"{what}the {utterances} utterances seem to be of one person; a place is learnt from "
            "several people: add some, or do without"
        )


def joint_of(directory: str | Path, info: ModelInfo) -> JointModel | None:
    """The joint model of a bundle, if it has one."""
    if info.joint is None:
        return None
    content = read_file(directory, info.joint)
    joint = parse_joint(content, f"{directory}/{info.joint_file}")
    scorer = joint.scorer
    if scorer.weight.shape[1] != info.embedding_dim or joint.layout.width != info.voiceprint_dim:
        raise BundleError(f"{directory}/{info.joint_file}: does not fit model.json; export again")
    _check_constants(directory, info, joint)
    return joint


def _check_constants(directory: str | Path, info: ModelInfo, joint: JointModel) -> None:
    """Refuse a joint model that is not the one in the graphs, up to roundings."""
    expected = place_constants(joint.scorer)
    place = f"{directory}/voiceprint.onnx"
    found = float_constants(read_graph(directory, info, "voiceprint"), expected, place)
    for name, value in expected.items():
        limit = ROUNDING * float(np.abs(value).max())
        near = found[name].size == value.size
        if not near or not (np.abs(found[name] - value.reshape(-1)) <= limit).all():
            raise BundleError(
                f"{directory}/{info.joint_file}: is of another model than {place}; export again"
            )


def write_adaptation(made: Adaptation, directory: str | Path) -> None:
    """Write the adapted bundle, whole or not at all."""
    write_files(directory, made.files)


def moved_voiceprints(
    parent: "Backend", adapted: "Backend", voiceprints: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Voiceprints (n, K) of a model as those of one adapted from it, as near as they tell."""
    here, there = joint_needed(parent), joint_needed(adapted)
    return there.rows(moved_sides(here.scorer, there.scorer, here.sides(voiceprints)))


def _files(
    directory: str | Path, info: ModelInfo, model: JointModel, made: Adaptation
) -> dict[str, bytes]:
    manifest: dict[str, Any] = json.loads(json.dumps(info.manifest))
    constants = place_constants(model.scorer)
    files = {}
    manifest["format_version"], manifest["graphs"] = FORMAT_VERSION, {}
    for name in info.graphs:
        content = read_graph(directory, info, name)
        if name in EMBEDDING_GRAPHS:
            content = with_constants(content, constants, f"{directory}/{name}.onnx")
        files[f"{name}.onnx"] = content
        manifest["graphs"][name] = {"file": f"{name}.onnx", "sha256": sha256(content)}
    assert info.joint_file is not None
    files[info.joint_file] = joint_bytes(model)
    manifest[JOINT] = {"file": info.joint_file, "sha256": sha256(files[info.joint_file])}
    manifest["adaptation"] = {
        "utterances": made.utterances,
        "people": round(made.people, 2),
        "known": round(made.known, 4),
        "parent": info.fingerprint,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    if made.trained is not None:
        manifest["adaptation"]["trained_place"] = made.trained
    if made.seconds is not None:
        total, least, most = (round(value, 2) for value in made.seconds)
        manifest["adaptation"]["seconds"] = {"total": total, "least": least, "most": most}
    text = json.dumps(manifest, indent=2, allow_nan=False) + "\n"
    return with_sums({**files, MANIFEST: text.encode(), README: readme(manifest)})
