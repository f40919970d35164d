"""Command lines in Kaldi's manner, from one dataclass per tool.

A tool declares its options as a frozen dataclass whose fields are made by `option`, and its
`main` calls `run`. Options come before the arguments, as `--name=value`; `_` and `-` are the
same in names; a boolean may stand alone. `--config=FILE` (TOML, or Kaldi's lines of
`--name=value`) gives values that the command line overrides.
"""

import dataclasses
import difflib
import errno
import os
import re
import shlex
import signal
import sys
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcaplda.bin.common.arguments import check_count, refuse_written_inputs
from dcaplda.bin.common.version import version
from dcaplda.runtime.errors import DcapldaError, UsageError, one_line, shortened
from dcaplda.runtime.fields import parse_toml, typed
from dcaplda.runtime.files import noting_inputs

# What a missing import means to the user: the extra that brings it.
EXTRA_OF_MODULE = {
    "polars": "tools",
    "tqdm": "tools",
    "kaldiio": "tools",
    "scipy": "eval",
    "matplotlib": "eval",
    "jinja2": "eval",
    "torch": "train",
    "safetensors": "train",
    "h5py": "hdf5",
    "psycopg": "postgres",
    "onnx": "export",
    "soundfile": "audio",
    "soxr": "audio",
    "kaldi_native_fbank": "audio",
    "submitit": "scale",
    "cloudpickle": "scale",
}

# Numbers on the command line: no `1_000`, no `inf`, no digits of other scripts.
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 40


def option(default: Any, help: str, bare: str | None = None, counts: str = "value") -> Any:
    """Declare one option of a tool: its default and a line of help.

    `bare` is the value that the option has when it stands alone, without `=value`. `counts` says
    what of it tells jobs apart (see `cluster/parts`): its value, the content of what it names
    (`table`, `vectors`, `bundles`, `file or value`), or nothing (`never`).
    """
    metadata = {"help": help, "bare": bare, "counts": counts}
    if isinstance(default, list):
        values = list(default)
        return dataclasses.field(default_factory=lambda: list(values), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What every tool understands."""

    config: str = option("", "file of options (TOML, or lines of --name=value)", counts="never")
    print_args: bool = option(True, "echo the command line to stderr", counts="never")
    verbose: int = option(0, "higher numbers say more", counts="never")

    def __post_init__(self) -> None:
        """Call every `check` that the classes of these options have, the bases' first.

        A check raises ValueError; it need not call those of its bases.
        """
        for cls in reversed(type(self).__mro__):
            if "check" in vars(cls):
                vars(cls)["check"](self)


class Log:
    """Messages on stderr as `tool: LEVEL: text`; data never goes there."""

    def __init__(self, tool: str, verbose: int = 0) -> None:
        self.tool = tool
        self.verbose = verbose

    def _say(self, text: str) -> None:
        print(f"{self.tool}: {shortened(one_line(text))}", file=sys.stderr, flush=True)

    def info(self, text: str) -> None:
        """Say what was done."""
        self._say(f"LOG: {text}")

    def debug(self, text: str, level: int = 1) -> None:
        """Say a detail, if --verbose is at least `level`."""
        if self.verbose >= level:
            self._say(f"VLOG[{level}]: {text}")

    def warning(self, text: str) -> None:
        """Say what may surprise the user."""
        self._say(f"WARNING: {text}")

    def error(self, text: str) -> None:
        """Say why the tool stops."""
        self._say(f"ERROR: {text}")


@dataclass(frozen=True)
class Tool:
    """A tool: its name, usage text, option class, number of arguments and body.

    `body(options, arguments, log)` returns the exit status. `arguments` is the exact number
    of positional arguments, or a (least, most) pair. With `own_config`, the file of --config
    is not a file of options: the body reads it. The last argument of most tools is written
    (`writes_last`), and must not be one of the files that others name.
    """

    name: str
    usage: str
    options: type[CommonOptions]
    arguments: int | tuple[int, int]
    body: Callable[[Any, list[str], Log], int]
    own_config: bool = False
    writes_last: bool = True


def _field_types(cls: type[CommonOptions]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _plain_type(hint: Any) -> Any:
    """The type to convert to: `float | None` is float, `list[str]` stays list."""
    if isinstance(hint, types.UnionType):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return typing.get_origin(hint) or hint


def _convert(name: str, value: Any, hint: Any) -> Any:
    """A value of the command line, which is text, or of a TOML file, as the option's type."""
    kind, place = _plain_type(hint), _shown(name)
    if isinstance(value, str):
        return _from_text(place, value, kind)
    if kind is bool and type(value) is int and value in (0, 1):
        return bool(value)
    if kind is str and type(value) in (int, float):
        return str(typed(value, type(value), place))
    return typed(value, kind, place)


def _from_text(place: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() in ("true", "t", "1", ""):
            return True
        if text.lower() in ("false", "f", "0"):
            return False
        raise UsageError(f"{place}={text}: expected true or false")
    if kind is int:
        if not _WHOLE.fullmatch(text) or len(text) > _LONGEST_NUMBER:
            raise UsageError(f"{place}={text}: expected a whole number")
        return typed(int(text), int, place)
    if kind is float:
        if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
            raise UsageError(f"{place}={text}: expected a number")
        return typed(float(text), float, place)
    return text


def _shown(key: str) -> str:
    """A field's name on the command line; `from_` avoids Python's keyword `from`."""
    return "--" + key.rstrip("_").replace("_", "-")


def _known_name(name: str, hints: dict[str, Any], place: str) -> str:
    key = name.replace("-", "_")
    for candidate in (key, key + "_"):
        if candidate in hints:
            return candidate
    near = difflib.get_close_matches(key, hints, n=1)
    hint = f"; did you mean '{_shown(near[0])}'?" if near else "; see --help"
    raise UsageError(f"{place}: no option '--{name.replace('_', '-')}'{hint}")


def _store(values: dict[str, Any], key: str, text: Any, hints: dict[str, Any]) -> None:
    """Add one setting; an option whose type is a list collects every mention."""
    if _plain_type(hints[key]) is list:
        items = text if isinstance(text, list) else [text]
        values.setdefault(key, []).extend(_convert(key, item, str) for item in items)
    else:
        values[key] = _convert(key, text, hints[key])


def _read_config(path: str, hints: dict[str, Any]) -> dict[str, Any]:
    try:
        content = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config={path}: cannot be read ({error})") from None
    values: dict[str, Any] = {}
    if path.endswith(".toml"):
        try:
            table = parse_toml(content)
        except ValueError as error:
            raise UsageError(f"{path}: not valid TOML ({error})") from None
        for name, value in table.items():
            key = _known_name(name, hints, path)
            if key in values:
                raise UsageError(f"{path}: '{_shown(key)}' is given twice; leave one out")
            try:
                _store(values, key, value, hints)
            except UsageError as error:
                raise UsageError(f"{path}: {error}") from None
        return values
    for number, raw in enumerate(content.splitlines(), 1):
        line = raw.split("#")[0].strip()
        if not line:
            continue
        if not line.startswith("--"):
            raise UsageError(f"{path}:{number}: expected --name=value, found '{line}'")
        name, _, text = line[2:].partition("=")
        _store(values, _known_name(name.strip(), hints, f"{path}:{number}"), text.strip(), hints)
    return values


def _help_text(tool: Tool) -> str:
    lines = [tool.usage.strip(), "", "Options:"]
    rows = []
    for field in dataclasses.fields(tool.options):
        name = _shown(field.name)
        default = field.default
        if default is dataclasses.MISSING or default is None or default == "":
            shown = ""
        else:
            text = str(default).lower() if isinstance(default, bool) else str(default)
            shown = f" (default: {text})"
        rows.append((name, field.metadata.get("help", "") + shown))
    rows += [("--version", "print the version"), ("--help", "print this")]
    width = max(len(name) for name, _ in rows)
    lines += [f"  {name:<{width}}  {text}" for name, text in rows]
    return "\n".join(lines) + "\n"


def parse(tool: Tool, argv: list[str]) -> tuple[CommonOptions, list[str]]:
    """Split a command line into checked options and arguments."""
    hints = _field_types(tool.options)
    bare = {field.name: field.metadata.get("bare") for field in dataclasses.fields(tool.options)}
    given: dict[str, Any] = {}
    position = 0
    while position < len(argv) and argv[position].startswith("--"):
        word = argv[position]
        position += 1
        if word == "--":
            break
        name, equals, text = word[2:].partition("=")
        key = _known_name(name, hints, "command line")
        if not equals and _plain_type(hints[key]) is not bool:
            if bare[key] is None:
                raise UsageError(f"{word} needs a value, as {word}=value")
            text = str(bare[key])
        _store(given, key, text, hints)
    arguments = argv[position:]
    for word in arguments:
        if word.startswith("--") and len(word) > 2:
            raise UsageError(f"options come before the arguments; move '{word}'")
    reads = bool(given.get("config")) and not tool.own_config
    values = _read_config(given["config"], hints) if reads else {}
    try:
        options = tool.options(**{**values, **given})
    except ValueError as error:  # of a check
        raise UsageError(str(error)) from None
    check_count(tool.usage, tool.arguments, arguments)
    return options, arguments


def command(tool: Tool, options: CommonOptions, arguments: list[str], **changed: Any) -> str:
    """The command line of these options, some of them changed, to be pasted into a shell."""
    return shlex.join([tool.name, *words_of(options, **changed), *arguments])


def words_of(options: CommonOptions, **changed: Any) -> list[str]:
    """These options as they stand on a command line, some of them changed."""
    words = []
    for field in dataclasses.fields(options):
        value = changed.get(field.name, getattr(options, field.name))
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        if value == default:
            continue
        for item in value if isinstance(value, list) else [value]:
            text = str(item).lower() if isinstance(item, bool) else str(item)
            words.append(_shown(field.name) if item is True else f"{_shown(field.name)}={text}")
    return words


def run(tool: Tool, argv: list[str] | None = None) -> int:
    """Parse, run the body, and turn every foreseeable failure into one line and exit 1.

    Without `argv` this is the process's own tool, and a SIGTERM unwinds it like Ctrl-C, so
    that temporary files are removed.
    """
    if argv is None:
        argv = sys.argv[1:]
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = Log(tool.name)
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(_help_text(tool))
        return 0
    if "--version" in argv:
        sys.stdout.write(f"{tool.name} of dcaplda {version()}\n")
        return 0
    try:
        options, arguments = parse(tool, argv)
        log.verbose = options.verbose
        if options.print_args:
            print(shlex.join([tool.name, *argv]), file=sys.stderr, flush=True)
        if tool.writes_last and arguments:
            refuse_written_inputs(arguments[-1], [*arguments[:-1], *_words(options)])
        with noting_inputs():
            return tool.body(options, arguments, log)
    except DcapldaError as error:
        log.error(str(error))
    except KeyboardInterrupt:
        log.error("interrupted; no output was written")
    except BrokenPipeError:
        # As in `score-trials ... - | head`.
        log.error("output: its reader closed it before everything was written")
        _drop_stdout()
    except ModuleNotFoundError as error:
        extra = EXTRA_OF_MODULE.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        log.error(f"needs '{error.name}'; install it with: pip install 'dcaplda[{extra}]'")
    except OSError as error:
        if error.errno is None:
            raise
        reason = "the disk is full" if error.errno == errno.ENOSPC else os.strerror(error.errno)
        log.error(f"{error.filename or 'output'}: {reason}")
        _drop_stdout()
    except MemoryError:
        log.error("out of memory; score in parts with --num-parts or use fewer --threads")
    return 1


def _words(options: CommonOptions) -> Iterator[str]:
    """The values of options that are words, or lists of them."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and item:
                yield item


def _drop_stdout() -> None:
    """If stdout cannot be written, keep Python from complaining again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
