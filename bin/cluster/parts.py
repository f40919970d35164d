"""One part of a tool's work: the options, what the whole work is, and whether a part is done."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.options import CommonOptions, Log, option
from dcaplda.bin.common.version import version

if TYPE_CHECKING:
    from dcaplda.runtime.parts.stamps import Work

Inputs = Sequence[tuple[str, str]]
"""Role and kind (see `_digest`) of each argument that a tool reads; what it writes follows them."""


@dataclass(frozen=True, kw_only=True)
class Parts(CommonOptions):
    """Which part of the work is done."""

    part: int = option(1, "which of --num-parts parts to do, from 1", counts="never")
    num_parts: int = option(
        0,
        "parts of the work; cat of their files equals the whole, byte for byte (merge-parts)",
        counts="never",
    )

    def check(self) -> None:
        """Parts count from 1."""
        if self.num_parts < 0 or not 1 <= self.part <= max(1, self.num_parts):
            raise ValueError(f"--part={self.part} --num-parts={self.num_parts}: parts count from 1")

    def cut(self, count: int) -> tuple[int, int]:
        """Where this part of `count` things begins and ends."""
        return cut(count, self.part, max(1, self.num_parts))


def cut(count: int, part: int, num_parts: int) -> tuple[int, int]:
    """Where part `part`, from 1, of `count` things begins and ends."""
    return count * (part - 1) // num_parts, count * part // num_parts


def do_part(
    options: Parts,
    work: "Callable[[], Work]",
    target: str,
    log: Log,
    make: Callable[[], int],
) -> int:
    """Make the part of the options into the file `target`, unless it is done; the exit status.

    Only a regular file can say later what it was made of: what goes to a pipe is made, and no more.
    """
    if not options.num_parts or not _can_be_stamped(target):
        return make()
    from dcaplda.runtime.parts.stamps import is_done, write_stamp

    described = work()
    if is_done(target, described, options.part):
        log.info(f"part {options.part} of {options.num_parts} is done already: {target}")
        return 0
    status = make()
    if status == 0:
        write_stamp(target, described, options.part)
    return status


def work_of(
    tool: str, options: CommonOptions, arguments: list[str], inputs: Inputs, num_parts: int
) -> "Work":
    """All that makes the result of these options and arguments what it is."""
    from dcaplda.runtime.parts.stamps import Work

    root = getattr(options, "scp_root", "")
    digests: dict[tuple[str, str], str] = {}

    def digest(kind: str, name: str) -> str:
        # The same table on both sides is hashed once.
        if (kind, name) not in digests:
            digests[kind, name] = _digest(kind, name, root)
        return digests[kind, name]

    named = zip(inputs, arguments, strict=False)
    found = {role: digest(kind, name) for (role, kind), name in named}
    settings = {"version": version()}
    for field in dataclasses.fields(options):
        counts, value = field.metadata["counts"], getattr(options, field.name)
        if counts == "value":
            settings[field.name] = str(value)
        elif counts != "never" and value:
            found[field.name] = digest(counts, value)
    return Work(tool, num_parts, found, settings)


def _digest(kind: str, name: str, scp_root: str) -> str:
    from dcaplda.bin.common.place_bundles import read_bundles
    from dcaplda.runtime.parts import digests

    if kind == "bundle":
        return digests.of_bundle(name)
    if kind == "bundles":
        places = sorted(read_bundles(name).items())
        return digests.of_text(*(w for p, d in places for w in (p, digests.of_bundle(d))))
    if kind == "vectors":
        return digests.of_vectors(name, scp_root)
    if kind == "gallery":
        return digests.of_gallery_or_vectors(name, scp_root)
    if kind == "file or value":
        return digests.of_path(name) if os.path.exists(name) else digests.of_text(name)
    assert kind == "table", kind
    return digests.of_table(name)


def _can_be_stamped(target: str) -> bool:
    name = target.strip()
    if name in ("-", "") or name.startswith("|"):
        return False
    return os.path.isfile(name) or not os.path.exists(name)
