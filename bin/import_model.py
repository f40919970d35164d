"""import-model: models of other programs become bundles of this one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.arguments import need
from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    from dcaplda.export.importers.kaldi import KaldiBackend

USAGE = """Import a model of another program as an ONNX bundle.

--from=dca-plda takes a checkpoint of the paper authors' program. --from=kaldi takes the files
of a Kaldi backend and computes what ivector-subtract-global-mean, transform-vec,
ivector-normalize-length and ivector-plda-scoring compute in a row. --from=wespeaker takes
WeSpeaker's PLDA (HDF5), --from=vbx the transform (HDF5) and PLDA of VBx, --from=pyannote a folder
with xvec_transform.npz and plda.npz, --from=speechbrain mean, F and Sigma of its PLDA in an .npz
file. --from=cosine makes a bundle of cosine scoring for the embeddings of a table, centred at their
mean. What these give are scores: calibrate-scores --bundle makes them LLRs.

Usage: import-model --from=dca-plda [options] <checkpoint.pth> <bundle-dir>
   or: import-model --from=kaldi --plda=<file> [options] <bundle-dir>
   or: import-model --from=wespeaker [--mean=<file>] <plda.h5> <bundle-dir>
   or: import-model --from=vbx --plda=<file> <transform.h5> <bundle-dir>
   or: import-model --from=pyannote <folder> <bundle-dir>
   or: import-model --from=speechbrain <plda.npz> <bundle-dir>
   or: import-model --from=cosine [options] <embeddings-rspecifier> <bundle-dir>
e.g.: import-model --from=dca-plda --model-out=exp/imported trained.pth exp/bundle
 or: import-model --from=kaldi --plda=plda --transform=transform.mat --mean=mean.vec exp/bundle
 or: import-model --from=wespeaker exp/plda.h5 exp/bundle
See also: export-onnx, calibrate-scores, score-trials
"""


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of import-model."""

    from_: str = option("", "where the model comes from; the lines above name all")
    model_out: str = option("", "dca-plda: directory for a torch model that training starts from")
    plda: str = option("", "a PLDA of others: the model, in Kaldi's format")
    transform: str = option("", "kaldi: the LDA (transform.mat); left out, there is none")
    mean: str = option(
        "", "a PLDA of others: the global mean (mean.vec); left out, none is subtracted"
    )
    normalize_input: bool = option(True, "kaldi: ivector-normalize-length before the PLDA")
    normalize_length: bool = option(True, "kaldi: as that option of ivector-plda-scoring")
    simple_length_normalization: bool = option(
        False, "kaldi: as that option of ivector-plda-scoring"
    )
    smoothing: float = option(0.0, "kaldi: as that option of ivector-copy-plda")
    center: bool = option(True, "cosine: subtract the mean of the embeddings")
    calibration: str = option("", "cosine: calibration of calibrate-scores, to give LLRs")

    def check(self) -> None:
        """Check ranges."""
        if not 0.0 <= self.smoothing < float("inf"):
            raise ValueError(f"--smoothing={self.smoothing:g}: expected a number of at least 0")


def _from_dca_plda(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.export.bundle_writer import export_model
    from dcaplda.export.importers.dca_plda import import_checkpoint

    need(USAGE, 0, arguments)
    source, target = arguments
    model = import_checkpoint(source)
    worst = max(export_model(model, target).values())
    if options.model_out:
        from dcaplda.train.store import save_model

        save_model(model, options.model_out)
    log.info(f"imported {model.config.variant} to {target}; graphs equal torch within {worst:.1e}")
    return 0


def _from_kaldi(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.export.importers.kaldi import read_backend

    if not options.plda:
        raise UsageError("--from=kaldi takes --plda=<file> and one argument, <bundle-dir>")
    need(USAGE, 1, arguments)
    normalization = "simple" if options.simple_length_normalization else "plda"
    backend = read_backend(
        options.plda,
        options.transform,
        options.mean,
        smoothing=options.smoothing,
        normalize_input=options.normalize_input,
        normalization=normalization if options.normalize_length else "none",
    )
    return _write(backend, options.plda, arguments[0], log)


def _from_wespeaker(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.export.importers.wespeaker import read_wespeaker
    from dcaplda.runtime.tables.kaldi_objects import read_vector_file

    need(USAGE, 2, arguments)
    mean = read_vector_file(options.mean) if options.mean else None
    backend, centred = read_wespeaker(arguments[0], mean)
    if centred and mean is None:
        log.warning(
            f"{arguments[0]}: was trained on vectors whose mean was subtracted, and does not hold "
            "it; give the mean of in-domain vectors by --mean"
        )
    return _write(backend, arguments[0], arguments[1], log)


def _from_vbx(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.export.importers.diarizers import read_vbx

    if not options.plda:
        raise UsageError("--from=vbx takes --plda=<file>, <transform.h5> and <bundle-dir>")
    need(USAGE, 3, arguments)
    return _write(read_vbx(arguments[0], options.plda), options.plda, arguments[1], log)


def _from_pyannote(_: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.export.importers.diarizers import read_pyannote

    need(USAGE, 4, arguments)
    return _write(read_pyannote(arguments[0]), arguments[0], arguments[1], log)


def _from_speechbrain(_: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.export.importers.speechbrain import read_speechbrain

    need(USAGE, 5, arguments)
    return _write(read_speechbrain(arguments[0]), arguments[0], arguments[1], log)


def _write(backend: "KaldiBackend", source: str, target: str, log: Log) -> int:
    """The bundle of a PLDA of Kaldi's form."""
    from dcaplda.export.importers.kaldi_bundle import export_backend
    from dcaplda.runtime.errors import ModelError

    if not backend.plda.psi.any():
        raise ModelError(
            f"{source}: all between-speaker variances are 0, so that every score would be; train "
            "again, with several vectors of each speaker"
        )
    worst = export_backend(backend, target)
    log.info(
        f"imported a PLDA of {backend.dim} dimensions to {target}; graphs equal float64 arithmetic "
        f"within {worst:.1e}"
    )
    return 0


def _from_cosine(options: Options, arguments: list[str], log: Log) -> int:
    import numpy as np

    from dcaplda.eval import score_calibration
    from dcaplda.export.bundle_writer import export_model
    from dcaplda.export.importers.cosine import cosine_model
    from dcaplda.runtime.tables.vectors import read_vectors

    need(USAGE, 6, arguments)
    source, target = arguments
    alpha, beta = 1.0, 0.0
    if options.calibration:
        found = score_calibration.load(options.calibration)
        alpha, beta = found.alpha, found.beta
    matrix = read_vectors(source).matrix
    mean = matrix.mean(axis=0, dtype=np.float64) * float(options.center)
    worst = max(export_model(cosine_model(mean, alpha, beta), target).values())
    what = "LLRs" if options.calibration else "plain cosines: calibrate them"
    log.info(
        f"cosine scoring of {matrix.shape[1]} dimensions in {target} gives {what}; graphs equal "
        f"torch within {worst:.1e}"
    )
    return 0


SOURCES = {
    "dca-plda": _from_dca_plda,
    "kaldi": _from_kaldi,
    "wespeaker": _from_wespeaker,
    "vbx": _from_vbx,
    "pyannote": _from_pyannote,
    "speechbrain": _from_speechbrain,
    "cosine": _from_cosine,
}
"""Importers by the value of --from."""
KALDI_ALONE = "transform normalize_input normalize_length simple_length_normalization smoothing"
TAKEN_BY = {
    "model_out": ("dca-plda",),
    "plda": ("kaldi", "vbx"),
    "mean": ("kaldi", "wespeaker"),
    **dict.fromkeys(KALDI_ALONE.split(), ("kaldi",)),
    **dict.fromkeys(("center", "calibration"), ("cosine",)),
}
"""Who looks at an option; to the others it would be a wish that nobody heard."""


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Choose the importer."""
    if options.from_ not in SOURCES:
        raise UsageError(f"--from={options.from_}: expected {' or '.join(SOURCES)}")
    for name, sources in TAKEN_BY.items():
        given = getattr(options, name) != getattr(Options(), name)
        if given and options.from_ not in sources:
            only = " or ".join(f"--from={source}" for source in sources)
            raise UsageError(f"--{name.replace('_', '-')} goes with {only} only")
    return SOURCES[options.from_](options, arguments, log)


TOOL = Tool("import-model", USAGE, Options, (1, 2), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
