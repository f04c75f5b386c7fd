"""The source of an instruction in the user's program: its metadata and the stack frames.

Mirrors `OpMetadata` of xla/xla_data.proto and the stack frame index of xla/service/hlo.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.strings import quoted


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

    >>> str(SourceLocation("train.py", 12, "loss"))
    'train.py:12'
    """

    file: str
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


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
        """The calls of a frame, innermost first; empty for 0 and for frames that are not in the table."""
        return tuple(location for _, location in self._calls(frame_id) if location is not None)

    def innermost(self, frame_id: int) -> SourceLocation | None:
        """The innermost call of a frame, without a walk over all the others."""
        return next((location for _, location in self._calls(frame_id) if location is not None), None)

    def stack_sharing(self, frame_id: int, known: dict[int, tuple[SourceLocation, ...]]) -> tuple[SourceLocation, ...]:
        """The same as `stack`; `known` are the stacks of frames, to which those of all frames on the way are added.

        Instructions have frames of their own, most of whose callers are the same: each is read once.
        """
        new: list[tuple[int, SourceLocation | None]] = []
        found: tuple[SourceLocation, ...] = ()
        for frame, location in self._calls(frame_id):
            if frame in known:
                found = known[frame]
                break
            new.append((frame, location))
        for frame, location in reversed(new):
            found = found if location is None else (location, *found)
            known[frame] = found
        return found

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
        return SourceLocation(
            _row(self.file_names, row.file_name_id), row.line, _row(self.function_names, row.function_name_id)
        )


def _row(names: tuple[str, ...], number: int) -> str:
    return names[number - 1] if 1 <= number <= len(names) else "?"
