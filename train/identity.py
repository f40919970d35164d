"""What must be equal for a checkpoint to be gone on with: the recipe and every byte of the data."""

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.recipe.files import config_to_dict
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.selection.losses import Evaluator


def run_identity(
    config: TrainingConfig,
    data: TrainingData,
    evaluator: Evaluator,
    start_model: str,
    threads: int,
    device: torch.device,
) -> dict[str, Any]:
    """JSON that tells this run from others; compared key by key."""
    values = config_to_dict(config)
    values["dev"] = {dev["name"]: dev for dev in values["dev"]}
    del values["run"]["checkpoint_every"]  # may change at any time
    return {
        **values,
        "training data": data_digest(data),
        **({"development data": sets_digest(evaluator)} if evaluator.sets else {}),
        **({"start model": start_model} if start_model else {}),
        "threads": threads,
        "device": str(device),
    }


def data_digest(data: TrainingData) -> str:
    """Of ids, labels, durations and vectors, all bytes in the order of the utterances."""
    digest = hashlib.sha256()
    for names in (data.ids, data.domain_names, data.speaker_names):
        _add(digest, "\n".join(names).encode())
    labels = (data.speaker, data.identity, data.session, data.recording, data.domain)
    for array in (*labels, data.seconds, data.embeddings):
        _add(digest, np.ascontiguousarray(array))
    return digest.hexdigest()[:16]


def sets_digest(evaluator: Evaluator) -> str:
    """Of vectors, durations and trials of the development sets, which select the model."""
    digest = hashlib.sha256()
    for source in evaluator.sources:
        tensors = [source.embeddings, *([] if source.seconds is None else [source.seconds])]
        for dev in source.sets:
            _add(digest, dev.name.encode())
            tensors += [dev.targets, *dev.plan.tensors()]
            tensors += [] if dev.trial_of_pair is None else [dev.trial_of_pair]
        for tensor in tensors:
            _add(digest, np.ascontiguousarray(tensor.cpu().numpy()))
    return digest.hexdigest()[:16]


def _add(digest: Any, content: bytes | NDArray[Any]) -> None:
    """Length first: what stands at the end of one part is not the beginning of the next."""
    if not isinstance(content, bytes):
        # The bytes themselves, not a copy: these may be gigabytes.
        content = content.reshape(-1).view(np.uint8).data  # type: ignore[assignment]
    digest.update(len(content).to_bytes(8, "little"))
    digest.update(content)
