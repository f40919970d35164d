"""What export can simplify and training cannot: each form in the basis that diagonalizes it.

With Lambda = Q diag(l) Q', the cross term 2 a'Lambda b of eq. 9 is a sum of products
2 l_i (Q'a)_i (Q'b)_i, and everything else in the form belongs to one side alone. All of it is
done in float64; the graphs then work in float32.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.runtime.joint.rows import CalibrationForm, JointModel
from dcaplda.runtime.joint.scorer import JointScorer, quadratic_basis
from dcaplda.runtime.joint.trained import TrainedPlaces
from dcaplda.train.model.axes import AxisScore
from dcaplda.train.model.backend import Affine, Backend
from dcaplda.train.model.quadratic import Quadratic

Array = NDArray[np.float64]


def float64(tensor: torch.Tensor) -> Array:
    """A parameter as a float64 array."""
    return tensor.detach().cpu().numpy().astype(np.float64)


@dataclass(frozen=True)
class DiagonalForm:
    """A form of eq. 9 on rotated inputs a = basis'x.

    form(a, b) = sum_i weights_i a_i b_i + own(a) + own(b), own(a) = a'auto a + linear'a + half,
    where `half` is half of the offset k, so that the two sides together bring it whole.
    """

    basis: Array
    weights: Array
    auto: Array
    linear: Array
    half: float

    @property
    def dim(self) -> int:
        """How many values a side brings to the cross term."""
        return len(self.weights)


def diagonalize(form: Quadratic, scale: float = 1.0, shift: float = 0.0) -> DiagonalForm:
    """The form scale * form + shift in the basis of its cross term."""
    cross = scale * float64(form.cross)
    auto = scale * float64(form.auto)
    values, basis = np.linalg.eigh(0.5 * (cross + cross.T))
    return DiagonalForm(
        basis=basis,
        weights=2.0 * values,
        auto=basis.T @ (0.5 * (auto + auto.T)) @ basis,
        linear=basis.T @ (scale * float64(form.linear)),
        half=0.5 * (scale * float(form.offset.detach().double()) + shift),
    )


@dataclass(frozen=True)
class AffineMap:
    """y = weight x + bias."""

    weight: Array
    bias: Array


def affine_map(layer: Affine, basis: Array | None = None) -> AffineMap:
    """A layer in float64, with its output rotated if a basis is given."""
    weight, bias = float64(layer.weight), float64(layer.bias)
    return AffineMap(weight, bias) if basis is None else AffineMap(basis.T @ weight, basis.T @ bias)


@dataclass(frozen=True)
class Compiled:
    """A backend ready for graph building; what a variant does not have is None.

    `preprocess` already rotates into the score's basis: a rotation commutes with length
    normalization, so it costs nothing at run time. A global calibration (alpha, beta of
    eq. 16) is folded into the score.
    """

    score: DiagonalForm
    preprocess: AffineMap
    scale_dur: DiagonalForm | None
    shift_dur: DiagonalForm | None
    side_projection: AffineMap | None
    side_reduction: AffineMap | None
    scale_side: DiagonalForm | None
    shift_side: DiagonalForm | None
    joint: JointScorer | None = None
    """Of a joint model; its score's form then works on sqrt(cross) x."""

    def forms(self) -> list[DiagonalForm]:
        """The forms in the order of their blocks in a voiceprint."""
        every = [self.score, self.scale_dur, self.shift_dur, self.scale_side, self.shift_side]
        return [form for form in every if form is not None]


def compile_backend(model: Backend) -> Compiled:
    """Do the algebra of every stage."""
    stages = model.config.stages
    joint = None
    preprocess = None
    if isinstance(model.plda, AxisScore):
        joint = joint_scorer_of(model)
        score = axis_form(joint)
        preprocess = AffineMap(joint.weight, joint.bias)
    elif stages.duration_stage or stages.side_stage:
        score = diagonalize(model.plda)
    else:
        score = diagonalize(model.plda, float(model.scale.detach()), float(model.shift.detach()))
    side = stages.side_stage
    return Compiled(
        score=score,
        preprocess=preprocess or affine_map(model.preprocess, score.basis),
        scale_dur=diagonalize(model.scale_dur) if model.scale_dur is not None else None,
        shift_dur=diagonalize(model.shift_dur) if model.shift_dur is not None else None,
        side_projection=affine_map(model.side_projection) if side else None,
        side_reduction=affine_map(model.side_reduction) if side else None,
        scale_side=diagonalize(model.scale_side) if model.scale_side is not None else None,
        shift_side=diagonalize(model.shift_side) if model.shift_side is not None else None,
        joint=joint,
    )


def joint_scorer_of(model: Backend) -> JointScorer:
    """The scorer of a joint model, of a place of which nothing is known."""
    score = model.plda
    assert isinstance(score, AxisScore)
    between, offset = np.exp(float64(score.log_between)), np.exp(float64(score.log_offset))
    return JointScorer(
        weight=float64(model.preprocess.weight),
        bias=float64(model.preprocess.bias),
        turn=float64(score.turn),
        centre=float64(score.centre),
        between=between,
        offset=offset,
        correlation=float(score.correlation),
        same_score=float(score.same_score),
        embedding_mean=float64(score.embedding_mean),
        quadratics=quadratic_basis(between, offset),
        prior_offset=offset,
        length=float(score.length),
        usual=float64(score.usual),
        reach=float64(score.reach),
        usual_ease=float(score.usual_ease),
        reach_ease=float(score.reach_ease),
        told_count=float(score.told_count),
        trained=_trained_places(score),
    )


def _trained_places(score: AxisScore) -> TrainedPlaces | None:
    if not score.places:
        return None
    names = TrainedPlaces._fields
    return TrainedPlaces(*(float64(getattr(score, f"trained_{name}")) for name in names))


def joint_model_of(model: Backend, compiled: Compiled) -> JointModel:
    """The scorer and the calibration of a joint model, for the runtime."""
    assert compiled.joint is not None and compiled.scale_dur and compiled.shift_dur

    def form(found: DiagonalForm) -> CalibrationForm:
        return CalibrationForm(found.basis, found.weights, found.auto, found.linear, found.half)

    def both(scale: Quadratic, shift: Quadratic) -> tuple[CalibrationForm, CalibrationForm]:
        return form(diagonalize(scale)), form(diagonalize(shift))

    return JointModel(
        compiled.joint,
        form(compiled.scale_dur),
        form(compiled.shift_dur),
        both(model.scale_across, model.shift_across),
        both(model.scale_within, model.shift_within) if model.config.recordings else None,
    )


def axis_form(joint: JointScorer) -> DiagonalForm:
    """The score of two single utterances on z = sqrt(cross) x, whose weights are all 1."""
    terms = joint.terms()
    return DiagonalForm(
        basis=np.eye(len(terms.cross)),
        weights=np.ones(len(terms.cross)),
        auto=np.diag(terms.enroll / terms.cross),
        linear=np.zeros(len(terms.cross)),
        half=0.5 * terms.constant,
    )
