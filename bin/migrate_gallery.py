"""migrate-gallery: a gallery taken over by a new model, or moved to another storage."""

from dataclasses import dataclass

from dcaplda.bin.common.option_groups import Threads, check_choice
from dcaplda.bin.common.options import Log, Tool, option, run

USAGE = """Make a gallery of a new model of what another gallery keeps, or move it elsewhere.

Speakers are enrolled again from the embeddings that the gallery kept (Gallery.open with
keep_embeddings, import-gallery --keep-embeddings). With the same model twice, all speakers are
copied as they are: from a file to a server (postgresql://...) or back. What was interrupted goes on
where it was. The old gallery can be used until the new one is complete and appears by one rename;
then it takes no more changes.

Usage: migrate-gallery [options] <old-model-dir> <old-gallery> <new-model-dir> <new-gallery>
e.g.: migrate-gallery exp/model callers.db exp/better better.db
      migrate-gallery exp/model callers.db exp/model postgresql://voices@db/voices
See also: export-gallery, import-gallery, docs/galleries.md
"""


@dataclass(frozen=True, kw_only=True)
class Options(Threads):
    """Options of migrate-gallery."""

    missing: str = option(
        "refuse", "speakers without embeddings: refuse (an error names them) or leave (behind)"
    )

    def check(self) -> None:
        """One of two."""
        check_choice(self, "missing", ("refuse", "leave"))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Open both models and the old gallery, migrate."""
    from dcaplda.bin.common.progress import Progress
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.errors import GalleryError
    from dcaplda.runtime.gallery.migration import named
    from dcaplda.runtime.gallery.speakers import Gallery

    old_model, old_gallery, new_model, new_gallery = arguments
    old = Backend.load(old_model, threads=options.threads or None)
    new = Backend.load(new_model, threads=options.threads or None)
    with Gallery.open(old_gallery, old, create=False) as gallery:
        with Progress(len(gallery), "migrating speakers", log) as progress:

            def count(done: int, _: int) -> None:
                progress.advance(max(done - progress.done, 0))

            try:
                made = gallery.migrate(new, new_gallery, missing=options.missing, progress=count)
            except KeyboardInterrupt:
                raise GalleryError(
                    "interrupted; what is done is kept beside the new gallery (.migrating): the "
                    "same command goes on, or remove that file"
                ) from None
    made.gallery.close()
    if made.left:
        log.warning(f"{len(made.left)} speakers must be enrolled again: {named(made.left, 20)}")
    log.info(f"migrated {made.moved} speakers to '{made.gallery.path}'")
    return 0


TOOL = Tool("migrate-gallery", USAGE, Options, 4, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
