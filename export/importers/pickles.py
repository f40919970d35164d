"""A pickle read as data: no opcode here can call, import or change anything but plain containers.

Python's own unpickler calls what a file names, keeps a table as long as the file's largest index
says, and sets attributes of whatever object it is told to. Here a few dozen opcodes build lists,
tuples, dictionaries, text and numbers; what a name stands for is decided by the caller.
"""

import io
import pickletools
from collections.abc import Callable
from typing import Any, Protocol


class Refused(Exception):
    """Why a pickle is not read."""


class Names(Protocol):
    """What the names and references of a pickle stand for; each may raise Refused."""

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """What `name(*arguments)` gives."""

    def built(self, made: Any, state: Any) -> None:
        """Take over the attributes of something that `call` gave."""

    def referenced(self, reference: Any) -> Any:
        """What stands outside of the pickle under a reference."""


class Name(str):
    """A dotted name that a pickle mentions; nothing is imported."""


_PLAIN = frozenset(
    "NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 INT BINFLOAT FLOAT BINUNICODE "
    "SHORT_BINUNICODE BINBYTES SHORT_BINBYTES".split()
)
"""Opcodes whose argument is the value."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset(("PROTO", "FRAME"))


def read_pickle(data: bytes, names: Names) -> Any:
    """The value that a pickle describes; Refused if it does more, ValueError if it is damaged.

    Time and memory are proportional to its bytes, apart from what `names` makes.
    """
    reader = _Reader(names)
    # genops looks at one opcode at a time, and reads no argument that is longer than the file.
    for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
        if opcode.name == "STOP":
            return reader.pop()
        reader.step(opcode.name, argument)
    raise ValueError("it ends too early")


class _Reader:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise ValueError("it takes more than it gave")
        return self._stack.pop()

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in _PLAIN:
            self._stack.append(_CONSTANTS.get(opcode, argument))
        elif opcode in _EMPTY:
            self._stack.append(_EMPTY[opcode]())
        elif opcode in _TUPLES:
            self._stack.append(tuple(self._last(_TUPLES[opcode])))
        elif opcode not in _IGNORED:
            method = getattr(self, f"_do_{opcode.lower()}", None)
            if method is None:
                raise Refused(f"it has the opcode {opcode}, which no checkpoint needs")
            method(argument)

    def _last(self, count: int) -> list[Any]:
        return [self.pop() for _ in range(count)][::-1]

    def _marked(self) -> list[Any]:
        """All since the last mark."""
        if not self._marks:
            raise ValueError("it has no mark")
        begin = self._marks.pop()
        found = self._stack[begin:]
        del self._stack[begin:]
        return found

    def _top(self, kind: type[Any]) -> Any:
        value = self.pop()
        if not isinstance(value, kind):
            raise ValueError(f"a {type(value).__name__} where a {kind.__name__} belongs")
        self._stack.append(value)
        return value

    # -- opcodes by their names --------------------------------------------------------------

    def _do_mark(self, _: Any) -> None:
        self._marks.append(len(self._stack))

    def _do_tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._marked()))

    def _do_append(self, _: Any) -> None:
        value = self.pop()
        self._top(list).append(value)

    def _do_appends(self, _: Any) -> None:
        values = self._marked()
        self._top(list).extend(values)

    def _do_setitem(self, _: Any) -> None:
        self._set_items(self._last(2))

    def _do_setitems(self, _: Any) -> None:
        self._set_items(self._marked())

    def _set_items(self, items: list[Any]) -> None:
        if len(items) % 2:
            raise ValueError("a key without a value")
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Of tuples within tuples a hash alone can take for ever.
            if type(key) not in (str, int):
                raise Refused(f"it has a {type(key).__name__} for a key")
            target[key] = value

    def _do_binput(self, index: int) -> None:
        value = self.pop()
        self._memo[index] = value
        self._stack.append(value)

    _do_long_binput = _do_binput

    def _do_memoize(self, _: Any) -> None:
        self._do_binput(len(self._memo))

    def _do_binget(self, index: int) -> None:
        if index not in self._memo:
            raise ValueError("it refers to what is not there")
        self._stack.append(self._memo[index])

    _do_long_binget = _do_binget

    def _do_global(self, name: str) -> None:
        self._stack.append(Name(name.replace(" ", ".")))

    def _do_stack_global(self, _: Any) -> None:
        module, name = self._last(2)
        self._stack.append(Name(f"{module}.{name}"))

    def _do_reduce(self, _: Any) -> None:
        function, arguments = self._last(2)
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise ValueError("it calls what is no name")
        self._stack.append(self._names.call(str(function), arguments))

    _do_newobj = _do_reduce

    def _do_build(self, _: Any) -> None:
        state = self.pop()
        made = self.pop()
        self._names.built(made, state)
        self._stack.append(made)

    def _do_binpersid(self, _: Any) -> None:
        self._stack.append(self._names.referenced(self.pop()))
