"""Where an instruction came from, and what is noted on it: metadata, frames, annotations, original values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass, text_in_brackets
from hlo_cli.ir.attributes.enumerations import DebugLogMode
from hlo_cli.ir.notation import dictionary_or_quoted, index_text, quoted
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.lazy_regex import lazy_regex

# --- metadata and stack frames ---
# The source of an instruction in the user's program: its metadata and the stack frames.
#
# Mirrors `OpMetadata` of xla/xla_data.proto and the stack frame index of xla/service/hlo.proto.


@dataclass(frozen=True, slots=True)
class Metadata:
    """The value of `metadata={…}`; empty strings and zeros for missing keys.

    Keys without a field of their own, such as those of forks, stay in the text.

    >>> str(Metadata(op_name="jit(f)/add", source_line=3))
    '{op_name="jit(f)/add" source_line=3}'
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: tuple[int, ...] = ()
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0
    metadata_payload: str = ""

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        shown = (f"{name}={_text(value)}" for name, value in values if value)
        return "{" + " ".join(shown) + "}"


def _text(value: str | int | tuple[int, ...]) -> str:
    if isinstance(value, tuple):
        return index_text(value)
    return quoted(value) if isinstance(value, str) else str(value)


NO_METADATA: Final = Metadata()


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's program; line 0 if only the file is known.

    `columns` are where the expression begins and ends in its line, counted from 0; 0 if that is unknown, as the end of
    an expression of several lines.

    >>> str(SourceLocation("train.py", 12, "loss"))
    'train.py:12'
    """

    file: str
    line: int = 0
    function: str = ""
    columns: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


MOST_CALLS: Final = 1000
"""Calls of a stack that are told: as deep as Python recurses by default, so that stacks of stacks are not quadratic."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """One row of the table FileLocations; names are 1-based rows of their tables."""

    file_name_id: int
    function_name_id: int
    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One row of the table StackFrames, as printed: `parent_frame_id` 1 means no parent, k + 1 means frame k."""

    file_location_id: int
    parent_frame_id: int


@dataclass(frozen=True, slots=True)
class StackFrames:
    """The four tables between the header and the first computation; instructions refer to `frames` by number.

    >>> tables = StackFrames(("a.py",), ("f",), (FileLocation(1, 1, 3, 3, 1, 9),), (StackFrame(1, 1),))
    >>> [str(location) for location in tables.stack(1)]
    ['a.py:3']
    """

    file_names: tuple[str, ...] = ()
    function_names: tuple[str, ...] = ()
    file_locations: tuple[FileLocation, ...] = ()
    frames: tuple[StackFrame, ...] = ()

    def stack(self, frame_id: int) -> tuple[SourceLocation, ...]:
        """The innermost `MOST_CALLS` calls of a frame, innermost first; empty for frames that are not in the table."""
        return tuple(islice((location for _, location in self._calls(frame_id) if location is not None), MOST_CALLS))

    def innermost(self, frame_id: int) -> SourceLocation | None:
        """The innermost call of a frame, without a walk over all the others."""
        return next((location for _, location in self._calls(frame_id) if location is not None), None)

    def stack_sharing(self, frame_id: int, known: dict[int, tuple[SourceLocation, ...]]) -> tuple[SourceLocation, ...]:
        """The same as `stack`; `known` are the stacks of frames, to which those of all frames on the way are added.

        Instructions have frames of their own, most of whose callers are the same: each is read once.
        """
        new: list[tuple[int, SourceLocation | None]] = []
        frames: tuple[SourceLocation, ...] = ()
        for frame, location in self._calls(frame_id):
            if frame in known:
                frames = known[frame]
                break
            new.append((frame, location))
        for frame, location in reversed(new):
            frames = frames if location is None else (location, *frames[: MOST_CALLS - 1])
            known[frame] = frames
        return frames

    def _calls(self, frame_id: int) -> Iterator[tuple[int, SourceLocation | None]]:
        """The frames from the innermost on, each with its location, if the tables have it."""
        for _ in self.frames:  # a limit, as the frames of a corrupt dump may form a cycle
            if not 1 <= frame_id <= len(self.frames):
                break
            frame = self.frames[frame_id - 1]
            yield frame_id, self._location(frame.file_location_id)
            frame_id = frame.parent_frame_id - 1

    def _location(self, number: int) -> SourceLocation | None:
        if not 1 <= number <= len(self.file_locations):
            return None
        row = self.file_locations[number - 1]
        file, function = _row(self.file_names, row.file_name_id), _row(self.function_names, row.function_name_id)
        # JAX writes the begin as the end where Python does not know it, as under PYTHONNODEBUGRANGES.
        end = row.end_column if row.end_line == row.line and row.end_column > row.column else 0
        return SourceLocation(file, row.line, function, (row.column, end))


def _row(names: tuple[str, ...], number: int) -> str:
    return names[number - 1] if 1 <= number <= len(names) else "?"


class StackTables:
    """The tables after a header, read on first use; a module shares them with its computations."""

    __slots__ = ("_frames", "_read", "_text")

    def __init__(self, text: str = "", read: Callable[[str], StackFrames] | None = None) -> None:
        """`read` reads the tables from their text; without it there are none."""
        self._text = text
        self._read = read
        self._frames: StackFrames | None = None

    @property
    def frames(self) -> StackFrames:
        """The tables; empty if the text has none."""
        if self._frames is None:
            self._frames = self._read(self._text) if self._read is not None else StackFrames()
        return self._frames

    def stack(self, metadata: Metadata) -> tuple[SourceLocation, ...]:
        """The calls that made an instruction, innermost first; of older dumps the place in its metadata alone."""
        if stack := self.frames.stack(metadata.stack_frame_id):
            return stack
        return (SourceLocation(metadata.source_file, metadata.source_line),) if metadata.source_file else ()


NO_STACK_TABLES: Final = StackTables()

_LIBRARIES: Final = (  # where frameworks are installed, and their modules that call the user's code back
    *("/site-packages/", "/dist-packages/", "/lib/python3", "/jax/_src/", "/jax/experimental/"),
    *("/flax/core/", "/flax/linen/", "/flax/nnx/", "/optax/_src/", "/haiku/_src/", "/equinox/nn/"),
    *("/torch_xla/", "/tensorflow/python/"),
)
"""Parts of the paths of files that are not the user's."""


def program_frame(stack: Sequence[SourceLocation]) -> SourceLocation | None:
    """Returns the innermost frame of a stack outside of libraries; if all are in libraries, the innermost; else None.

    A file is in a library if its path contains `/site-packages/`, `/dist-packages/`, the standard library of Python,
    or a package of JAX, Flax, Optax, Haiku, Equinox, PyTorch/XLA, or TensorFlow.

    >>> frames = SourceLocation("/x/site-packages/flax/linen/linear.py", 7), SourceLocation("/home/me/model.py", 92)
    >>> str(program_frame(frames)), str(program_frame(frames[:1])), program_frame(())
    ('/home/me/model.py:92', '/x/site-packages/flax/linen/linear.py:7', None)
    """
    innermost = stack[0] if stack else None
    return next((frame for frame in stack if not is_library_file(frame.file)), innermost)


@lru_cache(maxsize=4096)
def is_library_file(path: str) -> bool:
    """Whether a source file belongs to a library, not to the user's program.

    >>> is_library_file("/x/site-packages/jax/_src/random.py"), is_library_file("/home/me/train.py")
    (True, False)
    """
    return path.startswith("<") or any(part in path for part in _LIBRARIES)


# --- annotations ---
# Annotations of instructions by XLA or a frontend: backend configurations, frontend attributes, statistics.
#
# Mirrors `BackendConfigWrapper` of xla/hlo/ir/backend_config.h, and `FrontendAttributes` and `StatisticsViz` of
# xla/xla_data.proto.


Json = bool | int | float | str | tuple["Json", ...] | Mapping[str, "Json"] | None
"""A JSON value, with tuples for arrays and immutable mappings for objects."""


_KEY = lazy_regex(r'"(?:[^"\\]|\\.)*+\\?+(?:"|\Z)|(?P<key>\b[A-Za-z_]\w*+)(?=\s*+:)', re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class BackendConfig:
    """The configuration of an instruction by a backend, in most backends as JSON.

    Equality ignores the order of keys: TPU compilers sort them in the text of a dump, not in its proto.

    >>> BackendConfig('{"a":1,"b":2}') == BackendConfig('{"b":2,"a":1}')
    True
    >>> config = BackendConfig('{"n":["3"]}')
    >>> str(config), config.json["n"], str(BackendConfig("raw"))
    ('{"n":["3"]}', ('3',), '"raw"')
    """

    text: str

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        return dictionary_or_quoted(self.text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BackendConfig):
            return NotImplemented
        return self.text == other.text or _sorted_json(self.text) == _sorted_json(other.text)

    def __hash__(self) -> int:
        return hash(_sorted_json(self.text))

    @property
    def json(self) -> Json:
        """The parsed text, immutable; None if it is not JSON, with or without quotes around keys."""
        return _read_json(self.text)

    def get(self, *path: str) -> Json:
        """The value at a path of keys; None if there is none.

        >>> BackendConfig('{"a":{"b":1}}').get("a", "b")
        1
        """
        value = self.json
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True, slots=True)
class FrontendAttributes:
    """Texts by name, which XLA passes on for frontends.

    >>> attributes = FrontendAttributes((("a", "1"), ("b", "{x=2}")))
    >>> str(attributes), attributes.get("a")
    ('{a="1",b={x=2}}', '1')
    """

    entries: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        return "{" + ",".join(f"{name}={dictionary_or_quoted(text)}" for name, text in sorted(self.entries)) + "}"

    def get(self, name: str) -> str | None:
        """The text of this name, or None."""
        return dict(self.entries).get(name)


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number measured by a tool."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name}={self.value:g}"


@dataclass(frozen=True, slots=True)
class StatisticsViz:
    """Numbers measured by tools, and which of them is shown.

    >>> str(StatisticsViz(1, (Statistic("a", 33), Statistic("b", 0.5))))
    '{visualizing_index=1,a=33,b=0.5}'
    """

    stat_index_to_visualize: int
    statistics: tuple[Statistic, ...]

    def __str__(self) -> str:
        return "{" + ",".join((f"visualizing_index={self.stat_index_to_visualize}", *map(str, self.statistics))) + "}"


@lru_cache(maxsize=1 << 16)
def _read_json(text: str) -> Json:
    from json import loads

    try:
        return _frozen(loads(text))
    except (ValueError, RecursionError):
        pass
    try:  # handwritten keys often lack quotes, which protobuf accepts too
        return _frozen(loads(_KEY.sub(_quoted, text)))
    except (ValueError, RecursionError):
        return None


def _quoted(match: re.Match[str]) -> str:
    return f'"{match["key"]}"' if match["key"] else match[0]


@lru_cache(maxsize=1 << 16)
def _sorted_json(text: str) -> str:
    """The same JSON with sorted keys; other text unchanged."""
    from json import dumps, loads

    try:
        return dumps(loads(text), sort_keys=True)  # the order of keys means nothing in JSON
    except (ValueError, RecursionError):
        return text


def _frozen(value: object) -> Json:
    match value:
        case dict():
            return MappingProxyType({str(key): _frozen(inner) for key, inner in value.items()})
        case list():
            return tuple([_frozen(inner) for inner in value])
        case bool() | int() | float() | str():
            return value
    return None


# --- original values ---
# Original values, the values of the program before compiler passes, and the tables of a module about them.
#
# Mirrors xla/hlo/ir/hlo_original_value.h and `DebugAttributesProto` of xla/service/hlo.proto.


@dataclass(frozen=True, slots=True)
class OriginalArray:
    """An array of an instruction of the original program; without a name it is unknown.

    >>> str(OriginalArray("foo", (1,))), str(OriginalArray("foo")), str(OriginalArray())
    ('{"foo" {1}}', '{"foo"}', '{}')
    """

    instruction_name: str = ""
    shape_index: ShapeIndex = ()

    def __str__(self) -> str:
        if not self.instruction_name:
            return "{}"
        index = f" {index_text(self.shape_index)}" if self.shape_index else ""
        return f'{{"{self.instruction_name}"{index}}}'


@dataclass(frozen=True, slots=True)
class OriginalTuple:
    """A tuple of original values."""

    elements: tuple[OriginalArray | OriginalTuple, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.elements)) + ")"


@dataclass(frozen=True, slots=True)
class OriginalValue:
    """The original value of an instruction: a tree like its shape, or None for a call that the compiler made.

    `call_hierarchy` are the calls around the original instruction. Since jaxlib 0.12, an empty one marks a call that
    the compiler made; without one, such a call is printed as before.

    >>> str(OriginalValue(OriginalTuple((OriginalArray("a"), OriginalArray()))))
    '{({"a"}, {})}'
    >>> str(OriginalValue(OriginalArray("a"), "call.1")), str(OriginalValue(None, "")), str(OriginalValue(None))
    ('{{"a"},["call.1"]}', '{(),[""]}', '{[synthetic_call]}')
    """

    tree: OriginalArray | OriginalTuple | None
    call_hierarchy: str | None = None

    def __str__(self) -> str:
        if self.call_hierarchy is None:
            return "{[synthetic_call]}" if self.tree is None else f"{{{self.tree}}}"
        return f"{{{'()' if self.tree is None else self.tree},[{quoted(self.call_hierarchy)}]}}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The computation of an array of the original program from one that still exists, as a module in text form."""

    old: OriginalArray
    new: OriginalArray
    module: str = ""

    def __str__(self) -> str:
        module = self.module.replace("\\", "\\\\").replace('"', '\\"')
        return f"{self.old} : {self.new}" + (f', "{module}"' if module else "")


@dataclass(frozen=True, slots=True)
class RecoveryTable:
    """The recovery of lost arrays of the original program; printed on one line, where XLA uses several.

    >>> str(RecoveryTable((Recovery(OriginalArray("a"), OriginalArray("b")),)))
    '{ {"a"} : {"b"} }'
    """

    entries: tuple[Recovery, ...]

    def __str__(self) -> str:
        return "{ " + " ".join((*map(str, self.entries), "}"))


@dataclass(frozen=True, slots=True)
class DebugAttributes:
    """The log settings of an instruction.

    >>> str(DebugAttributes(DebugLogMode.DEFAULT, op_id=3))
    '{log_mode=default,op_id=3}'
    """

    log_mode: DebugLogMode | None = None
    callback_id: int = 0
    partitioned: bool = False
    op_id: int = 0

    def __str__(self) -> str:
        fields = [f"log_mode={self.log_mode}"] if self.log_mode is not None else []
        fields += [f"callback_id={self.callback_id}"] if self.callback_id else []
        fields += ["partitioned=true"] if self.partitioned else []
        fields += [f"op_id={self.op_id}"] if self.op_id else []
        return "{" + ",".join(fields) + "}"


@dataclass(frozen=True, slots=True)
class DebuggedArray:
    """An array of the original program, and its log settings."""

    array: OriginalArray
    attributes: tuple[DebugAttributes, ...]

    def __str__(self) -> str:
        return f"{self.array}:({', '.join(map(str, self.attributes))})"
