"""Checkpoints of a training, trained models, and the authors' checkpoints."""

import io
import json
import struct
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz.choices import Choices
from fuzz.edits import TELLING, edited_bytes, edited_tree, json_bytes
from fuzz.target import OTHER, SAME, Target, require
from random_models import random_model
from safetensors.torch import save
from training_world import draw

from dcaplda.export.importers.dca_plda import import_checkpoint
from dcaplda.train.model.backend import Backend
from dcaplda.train.recipe.files import load_recipe
from dcaplda.train.steps.checkpoints import CHECKPOINT, checkpoint_header, load_checkpoint
from dcaplda.train.steps.loop import Trainer
from dcaplda.train.store import CONFIG, WEIGHTS, load_model, save_model


def edited_tensors(choices: Choices, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors of other values, kinds, shapes and names."""
    made = dict(tensors)
    for _ in choices.times(3):
        if not made:
            break
        name = choices.pick(sorted(made))
        tensor = made[name]
        kind = choices.below(6)
        if kind == 0 and tensor.numel():
            flat = tensor.reshape(-1).clone()
            value = choices.pick((0.0, 1.0, -1.0, 255.0, float("nan"), float("inf"), 1e30))
            if tensor.is_floating_point() or np.isfinite(value) and abs(value) < 100:
                flat[choices.below(len(flat))] = abs(value) if flat.dtype == torch.uint8 else value
            made[name] = flat.reshape(tensor.shape)
        elif kind == 1:
            made[name] = tensor.to(
                choices.pick((torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool))
            )
        elif kind == 2 and tensor.ndim:
            made[name] = tensor[: choices.below(len(tensor) + 1)].clone()
        elif kind == 3:
            made[name] = tensor[None].clone()
        elif kind == 4:
            made[choices.pick((f"{name}x", name[1:], "random", "model.plda.cross"))] = made.pop(
                name
            )
        else:
            made.pop(name)
    return made


def damaged_safetensors(choices: Choices, content: bytes) -> bytes:
    """The header, which is JSON, as a tree; or bytes anywhere."""
    if choices.chance():
        return edited_bytes(choices, content)
    (size,) = struct.unpack_from("<Q", content)
    header = json_bytes(choices, edited_tree(choices, json.loads(content[8 : 8 + size])))
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


class Training(Target):
    """The checkpoint of a training, its digest as it was or put right.

    Oracle: without a right digest it is refused, or every tensor and value is as it was saved. With
    one, it is refused, or the model that goes on is finite, in all its parts.
    """

    name = "training"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.trainer = self._trainer(folder)
        self.trainer.run(lambda progress, figures: None)
        self.content = (folder / "exp" / CHECKPOINT).read_bytes()
        self.good = load_checkpoint(folder / "exp")
        assert self.good is not None

    def _trainer(self, folder: Path) -> Trainer:
        from dcaplda.train.selection.losses import Evaluator

        steps = [f"stage{n}.steps={count}" for n, count in ((1, 2), (2, 2), (3, 0))]
        config = load_recipe("", [*steps, "batch.size=16", "averaging.average=ema"])
        sample = draw(0, domains=2, speakers=6, dim=8)
        model = random_model("d-plda-dd", embedding_dim=8, lda_dim=4)
        (folder / "exp").mkdir(exist_ok=True)
        (folder / "exp" / "log.jsonl").unlink(missing_ok=True)
        return Trainer(
            model, sample.data(), Evaluator([], config.objective.prior), config, {"a": 1},
            folder / "exp", torch.device("cpu"),
        )  # fmt: skip

    def attempt(self, choices: Choices) -> str:
        righted = choices.chance()
        if righted:
            tensors = edited_tensors(choices, self.good.tensors)
            values = self.good.values
            if choices.chance():
                values = edited_tree(choices, values)
            state = json.dumps(values)
            content = save(tensors, metadata=checkpoint_header(tensors, state))
        else:
            content = damaged_safetensors(choices, self.content)
        self.write(f"exp/{CHECKPOINT}", content)
        found = load_checkpoint(self.folder / "exp")
        assert found is not None
        if not righted:
            same = found.values == self.good.values and same_tensors(
                found.tensors, self.good.tensors
            )
            require(same, "a damaged checkpoint was taken")
        self.trainer.resume(found)
        state = {**self.trainer.model.state_dict(), **self.trainer.optimizer.state()}
        for name, tensor in state.items():
            if tensor.is_floating_point():
                require(bool(torch.isfinite(tensor).all()), f"{name} is not finite")
        return OTHER if righted else SAME


def same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return set(one) == set(other) and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


class Model(Target):
    """A trained model: model.safetensors and model_config.json, the digest kept or left out.

    Oracle: with the digest, refused or tensor by tensor the saved model; without it (models of
    before), refused or finite tensors of the shapes that the configuration says.
    """

    name = "model"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        model = random_model("d-plda-dsd", embedding_dim=8, lda_dim=4, side_hidden_dim=3)
        save_model(model, folder / "m")
        self.state = model.state_dict()
        self.weights = (folder / "m" / WEIGHTS).read_bytes()
        self.config = (folder / "m" / CONFIG).read_bytes()
        self.bare = save({name: tensor.contiguous() for name, tensor in self.state.items()})

    def attempt(self, choices: Choices) -> str:
        signed = choices.chance()
        weights = self.weights if signed else self.bare
        config = self.config
        if choices.chance():
            config = json_bytes(choices, edited_tree(choices, json.loads(config)))
        elif not signed and choices.chance():
            weights = save(edited_tensors(choices, dict(self.state)))
        else:
            weights = damaged_safetensors(choices, weights)
        self.write(f"m/{WEIGHTS}", weights)
        self.write(f"m/{CONFIG}", config)
        model = load_model(self.folder / "m")
        found = model.state_dict()
        require(all(bool(torch.isfinite(t).all()) for t in found.values()), "not finite")
        if b'"sha256"' in weights[:20000]:
            require(same_tensors(found, self.state), "a damaged model was taken")
            return SAME
        self._check_shapes(model)
        return OTHER

    def _check_shapes(self, model: Backend) -> None:
        config = model.config
        require(
            model.preprocess.weight.shape == (config.lda_dim, config.embedding_dim),
            "an LDA of another size",
        )


class AttrDict(dict):
    """The authors' class, for torch's own loader."""


def authors_checkpoint() -> dict[str, Any]:
    """Weights and settings as their program saves them; the smallest with all stages."""
    rng = torch.Generator().manual_seed(0)

    def weights(*shape: int) -> torch.Tensor:
        return 0.1 * torch.randn(shape, generator=rng)

    model = {
        "lda_stage.W": weights(6, 4), "lda_stage.b": weights(4),
        "si_stage1.W": weights(6, 3), "si_stage1.b": weights(3),
        "si_stage2.W": weights(3, 2), "si_stage2.b": weights(2),
    }  # fmt: skip
    for name, dim in (
        ("plda_stage", 4), ("cal_stage.durdep_alpha", 2), ("cal_stage.durdep_beta", 2),
        ("cal_stage.sidep_alpha", 2), ("cal_stage.sidep_beta", 2),
    ):  # fmt: skip
        model |= {f"{name}.{part}": weights(dim, dim) for part in "LG"}
        model |= {f"{name}.C": weights(dim, 1), f"{name}.k": weights()}
    calibration = {
        "duration_dependent": True, "sideinfo_dependent": True, "si_cal_first": False,
        "duration_representation": "siglog", "duration_thresholds": [30.0],
        "duration_sigmoid_scale": 2.0,
    }  # fmt: skip
    config = {"calibration_parameters": calibration, "sideinfo_parameters": {}}
    return {"model": model, "in_dim": 6, "config": config}


class Pth(Target):
    """Checkpoints of the authors' program: settings and tensors changed, the pickle's or the zip's
    bytes changed with checksums put right, or any bytes.

    Oracle: refused, or torch's own loader (weights only) reads the same tensors from the file, and
    the model's LDA is theirs, transposed. (Weights only: torch refuses what could run code; what it
    refuses and we take holds no more than plain containers.)
    """

    name = "pth"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        stream = io.BytesIO()
        torch.save(authors_checkpoint(), stream)
        self.content = stream.getvalue()
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            self.members = {name: archive.read(name) for name in archive.namelist()}
        self.pickle = next(name for name in self.members if name.endswith("data.pkl"))
        module = types.ModuleType("dca_plda.utils")
        module.AttrDict = AttrDict  # type: ignore[attr-defined]
        sys.modules.setdefault("dca_plda", types.ModuleType("dca_plda"))
        sys.modules.setdefault("dca_plda.utils", module)

    def attempt(self, choices: Choices) -> str:
        way = choices.below(4)
        if way == 0:
            content = edited_bytes(choices, self.content)
        elif way == 1:
            content = self._settings(choices)
        else:
            members = dict(self.members)
            name = self.pickle if way == 2 else choices.pick(sorted(members))
            members[name] = edited_bytes(choices, members[name], TELLING + b"cqRbQtuse}])(\x85\x86")
            packing = choices.pick((zipfile.ZIP_STORED,) * 5 + (zipfile.ZIP_DEFLATED,))
            content = zipped(members, packing)
        path = self.write("x.pth", content)
        model = import_checkpoint(path)
        state = model.state_dict()
        require(all(bool(torch.isfinite(t).all()) for t in state.values()), "not finite")
        theirs = self._ask_torch(path)
        if theirs is None:
            return OTHER
        lda = theirs["model"]["lda_stage.W"].to(torch.float32).T
        require(torch.equal(lda, state["preprocess.weight"]), "another LDA than torch reads")
        plda = theirs["model"]["plda_stage.k"].to(torch.float32)
        require(torch.equal(plda, state["plda.offset"]), "another PLDA than torch reads")
        return SAME

    def _settings(self, choices: Choices) -> bytes:
        whole = authors_checkpoint()
        if choices.chance():
            whole["model"] = edited_tensors(choices, whole["model"])
        else:
            whole["config"] = edited_tree(choices, whole["config"])
        if choices.chance(4):
            whole["in_dim"] = choices.pick((0, -1, 5, 10**9, "6", None, 6.0))
        stream = io.BytesIO()
        torch.save(whole, stream)
        return stream.getvalue()

    def _ask_torch(self, path: Path) -> Any:
        try:
            return torch.load(path, weights_only=True)
        except Exception:
            return None  # pickier than we are about zip files and byte orders


def zipped(members: dict[str, bytes], packing: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()
