"""import-gallery: speakers of tables into a gallery."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.option_groups import FrameShift, ScpRoot
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.exchange.reading import Tables

USAGE = """Add the speakers of tables to a gallery, all or none; a new gallery is made if need be.

The tables are a folder of export-gallery, or a table of embeddings in any format with --utt2spk.
Of a folder, voiceprints of the same model are taken as they are, and else its embeddings are
enrolled. --keep-embeddings lets another model take the gallery over later (migrate-gallery).

Usage: import-gallery [options] <model-dir> <folder|embeddings-rspecifier> <gallery>
e.g.: import-gallery --keep-embeddings exp/model exp/callers callers.db
      import-gallery --utt2spk=utt2spk --durations=utt2dur exp/model scp:xvector.scp callers.db
See also: export-gallery, migrate-gallery, search-speakers
"""


@dataclass(frozen=True, kw_only=True)
class Options(ScpRoot, FrameShift):
    """Options of import-gallery."""

    utt2spk: str = option("", "who speaks: 'utterance speaker', for a table of embeddings")
    durations: str = option("", "seconds of speech of the utterances (utt2dur)")
    keep_embeddings: bool = option(False, "keep the embeddings in the gallery")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, enrol, add."""
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.exchange.reading import read_tables
    from dcaplda.runtime.gallery.speakers import Gallery

    model_dir, source, target = arguments
    backend = Backend.load(model_dir, threads=1)
    if options.utt2spk:
        found = _from_table(options, source, backend, log)
    else:
        found = read_tables(backend, source)
    # Only now: what cannot be read leaves no new gallery behind.
    keep = True if options.keep_embeddings else None
    with Gallery.open(target, backend, keep_embeddings=keep) as gallery:
        if not gallery.keep_embeddings and _has_embeddings(found) and not options.utt2spk:
            log.warning(
                f"'{gallery.path}' keeps no embeddings: those of '{source}' are left out, and "
                "another model cannot take it over; --keep-embeddings keeps them"
            )
        gallery.add_many(found.speakers, found.tags)
        log.info(f"added {len(found.speakers)} speakers; '{gallery.path}' has {len(gallery)}")
    return 0


def _has_embeddings(found: "Tables") -> bool:
    utterances = (it for _, speaker in found.speakers for it in speaker.utterances)
    return any(it.embedding is not None for it in utterances)


def _from_table(options: Options, source: str, backend: "Backend", log: Log) -> "Tables":
    from dcaplda.runtime.extractors.agreement import agree_on_table
    from dcaplda.runtime.gallery.exchange.reading import enrolled, plain_tables
    from dcaplda.runtime.tables.text_tables import read_durations, read_words
    from dcaplda.runtime.tables.vectors import read_vectors

    if backend.info.uses_durations and not options.durations:
        raise UsageError("this model needs the seconds of speech: give --durations=utt2dur")
    names = read_words(options.utt2spk)
    root = options.scp_root
    backend.extractor = agree_on_table(backend.extractor, source, root, log.warning)
    table = read_vectors(source, root, set(names))
    seconds = read_durations(options.durations, options.frame_shift) if options.durations else None
    vectors = dict(zip(table.ids, table.matrix, strict=True))
    return enrolled(backend, plain_tables(vectors, seconds, names, source))


TOOL = Tool("import-gallery", USAGE, Options, 3, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
