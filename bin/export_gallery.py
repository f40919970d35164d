"""export-gallery: all that a gallery keeps, as tables, or as a copy of one moment."""

from dataclasses import dataclass

from dcaplda.bin.common.option_groups import check_choice
from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run

USAGE = """Write what a gallery keeps as tables, or copy it as of one moment while others write.

A target that ends in .db is a copy of the gallery. Else it is a new folder: utt2spk, spk2utt and
utt2dur as Kaldi has them, embeddings (where they were kept) and voiceprints as ark and scp or as
Parquet, and lines of JSON with times, sources, sessions and tags. import-gallery reads it, and
every other tool its tables.

Usage: export-gallery [options] <model-dir> <gallery> <folder|copy.db>
e.g.: export-gallery --format=parquet exp/model callers.db exp/callers
      export-gallery exp/model postgresql://voices@db/voices backup.db
See also: import-gallery, migrate-gallery, docs/galleries.md
"""


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of export-gallery."""

    format: str = option("kaldi", "of the vectors: kaldi (ark and scp) or parquet")

    def check(self) -> None:
        """One of two."""
        check_choice(self, "format", ("kaldi", "parquet"))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Open the gallery, write."""
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.files import check_new_folder
    from dcaplda.runtime.gallery.exchange.writing import write_tables
    from dcaplda.runtime.gallery.speakers import Gallery

    model_dir, source, target = arguments
    if not target.endswith(".db"):
        check_new_folder(target)
    backend = Backend.load(model_dir, threads=1)
    with Gallery.open(source, backend, create=False) as gallery:
        if target.endswith(".db"):
            gallery.backup(target)
            log.info(f"copied {len(gallery)} speakers")
            return 0
        speakers, utterances = write_tables(gallery, target, options.format)
    log.info(f"wrote {speakers} speakers of {utterances} utterances")
    return 0


TOOL = Tool("export-gallery", USAGE, Options, 3, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
