"""export-onnx: from a trained torch model to the bundle that the runtime scores with."""

from dataclasses import dataclass
from pathlib import Path

from dcaplda.bin.common.options import CommonOptions, Log, Tool, run
from dcaplda.runtime.errors import ModelError

USAGE = """Export a trained model to an ONNX bundle.

The bundle is a directory with backend.onnx (embeddings and durations of both sides to LLRs),
voiceprint.onnx, compare.onnx (in two steps prepare.onnx, tile.onnx), pairs.onnx, search.onnx,
verify.onnx and model.json. Every graph is compared with torch before anything is written.

Usage: export-onnx [options] <exp-dir> <bundle-dir>
e.g.: export-onnx exp/dca-plda exp/dca-plda/bundle
See also: train-backend, import-model, score-trials
"""

SUMMARY = "training_summary.json"


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of export-onnx."""


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Load, export, report."""
    export_directory(arguments[0], arguments[1], log)
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
