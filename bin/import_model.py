"""import-model: models of other programs become bundles of this one."""

from dataclasses import dataclass

from dcaplda.bin.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

USAGE = """Import a model of another program as an ONNX bundle.

Usage: import-model --from=dca-plda [options] <checkpoint.pth> <bundle-dir>
e.g.: import-model --from=dca-plda --model-out=exp/imported trained.pth exp/bundle
See also: export-onnx, score-trials
"""


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of import-model."""

    from_: str = option("", "where the model comes from: dca-plda (the paper authors' program)")
    model_out: str = option("", "directory for a torch model that training can start from")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Choose the importer."""
    if options.from_ == "dca-plda":
        return _from_dca_plda(options, arguments, log)
    raise UsageError(f"--from={options.from_}: expected dca-plda")


def _from_dca_plda(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.export.bundle_writer import export_model
    from dcaplda.export.dca_plda import import_checkpoint

    if len(arguments) != 2:
        raise UsageError("--from=dca-plda takes <checkpoint.pth> <bundle-dir>; see --help")
    source, target = arguments
    model = import_checkpoint(source)
    worst = max(export_model(model, target).values())
    if options.model_out:
        from dcaplda.train.store import save_model

        save_model(model, options.model_out)
    log.info(f"imported {model.config.variant} to {target}; graphs equal torch within {worst:.1e}")
    return 0


TOOL = Tool("import-model", USAGE, Options, (1, 2), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
