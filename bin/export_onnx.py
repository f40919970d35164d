"""export-onnx: from a trained torch model to the bundle that the runtime scores with."""

from dataclasses import dataclass
from pathlib import Path

from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import ModelError, UsageError

USAGE = """Export a trained model to an ONNX bundle.

The bundle is a directory with backend.onnx (embeddings and durations of both sides to LLRs),
voiceprint.onnx, average.onnx, compare.onnx (in two steps prepare.onnx, tile.onnx), pairs.onnx,
search.onnx, verify.onnx and model.json. Every graph is compared with torch before anything is
written.

--to writes the PLDA that scores as the model does before its calibration instead, for diarizers:
pyannote (xvec_transform.npz, plda.npz), vbx (transform.h5, plda) or kaldi (mean.vec,
transform.mat, plda; score with --normalize-length=false). Directions that no PLDA can have are
clipped and counted.

Usage: export-onnx [options] <exp-dir> <bundle-dir>
   or: export-onnx --to=<program> [options] <exp-dir> <folder>
e.g.: export-onnx exp/dca-plda exp/dca-plda/bundle
      export-onnx --to=pyannote exp/dca-plda exp/pyannote
See also: train-backend, import-model, score-trials
"""

SUMMARY = "training_summary.json"
PYANNOTE_DIM = 128
"""Dimensions that pyannote's PLDA keeps by default."""


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of export-onnx."""

    to: str = option("", "pyannote, vbx or kaldi: the PLDA in their files, not a bundle")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Load, export, report."""
    if options.to:
        return _export_plda(options.to, arguments[0], arguments[1], log)
    export_directory(arguments[0], arguments[1], log)
    return 0


def _export_plda(program: str, source: str, target: str, log: Log) -> int:
    from dcaplda.export.exporters.equivalent import equivalent_plda
    from dcaplda.export.exporters.targets import TARGETS
    from dcaplda.train.store import load_model

    if program not in TARGETS:
        raise UsageError(f"--to={program}: expected {' or '.join(TARGETS)}")
    if Path(target).exists() and not Path(target).is_dir():
        raise ModelError(f"{target}: is a file; give a directory")
    model = load_model(source)
    found = equivalent_plda(model, source)
    Path(target).mkdir(parents=True, exist_ok=True)
    TARGETS[program](found, Path(target))
    rank, clipped = len(found.weight), found.above + found.below
    if clipped:
        log.warning(
            f"{clipped} of {rank} directions are of no PLDA and were clipped ({found.above} with "
            f"a ratio of 1 or more, {found.below} without a positive one): scores differ a little"
        )
    if program == "pyannote" and rank > PYANNOTE_DIM:
        log.warning(
            f"{rank} dimensions: pyannote takes the first {PYANNOTE_DIM} unless told otherwise; "
            "train with a smaller model.lda_dim"
        )
    log.info(
        f"wrote a PLDA of {rank} dimensions for {program} to {target}; the model's scores before "
        f"calibration are its scores plus {found.shift:.4g}"
    )
    return 0


def export_directory(source: str, target: str, log: Log) -> None:
    """Export the model that training left in a directory."""
    from dcaplda.export.bundle_writer import export_model
    from dcaplda.runtime.fields import parse_json
    from dcaplda.train.store import load_model

    model = load_model(source)
    training = None
    summary = Path(source) / SUMMARY
    if summary.is_file():
        try:
            training = parse_json(summary.read_bytes())
        except ValueError as error:
            raise ModelError(f"{summary}: not valid JSON ({error})") from None
        if not isinstance(training, dict):
            raise ModelError(f"{summary}: no table; train again, or remove it")
    else:
        log.warning(f"{source} has no {SUMMARY}: model.json will not tell what training saw")
    differences = export_model(model, target, training)
    worst = max(differences.values())
    log.info(f"exported {model.config.variant} to {target}; graphs equal torch within {worst:.1e}")


TOOL = Tool("export-onnx", USAGE, Options, 2, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
