"""Which calls of the program take the time, from the outermost on, and between which operations is a device idle?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.origin.origins import UNKNOWN_KEY, origins_of
from hlo_cli.analysis.profile.step_budget import Gap, gaps_of
from hlo_cli.commands.profile.by_operation import facts_of, numbers_of
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import NO_INSTRUCTION, PART_WORDS, Timed
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Branch, Column, Table, Tree, row_from, rows_from
from hlo_cli.source import HloError

# --- --by stack ---
# `hlo profile TRACE --by stack`: the calls of the user's program as a tree, each with the time of all that it made.


_MAX_FRAMES: Final = 200  # of a stack; deeper ones are recursion, whose outer calls say nothing more
_JOINED: Final = " > "
"""What stands between calls that only lead to the next one."""


class _Frame:
    """A call: its function and place, the time of what it made itself, and the calls in it."""

    def __init__(self, name: str, place: str) -> None:
        self.name, self.place = name, place
        self.own = 0.0
        self.total = 0.0
        self.calls: dict[tuple[str, str], _Frame] = {}

    def add(self, path: Sequence[tuple[str, str]], seconds: float) -> None:
        """Adds the time of an operation that the calls on a path made, the outermost first."""
        frame = self
        frame.total += seconds
        for key in path:
            frame = frame.calls.setdefault(key, _Frame(*key))
            frame.total += seconds
        frame.own += seconds

    def joined(self) -> _Frame:
        """The same where a call that only leads to another one is joined with it."""
        frame, names = self, [self.name]
        while len(frame.calls) == 1 and not frame.own:
            (frame,) = frame.calls.values()
            names.append(frame.name)
        found = _Frame(_JOINED.join(names), frame.place)
        found.own, found.total, found.calls = frame.own, frame.total, frame.calls
        return found


def report_of_stacks(measured: Measured) -> Report:
    """The calls that made the operations, as a tree; those that take most time first."""
    root = _Frame("", "")
    for timed in measured.selected:
        root.add(_path_of(timed), timed.measure.busy_time)
    columns: tuple[Column[_Frame], ...] = (
        Column("stack_call", "call", of=_words_of),
        Column("busy_seconds", "busy", "seconds", of=lambda frame: measured.per_device(frame.total)),
        Column("own_seconds", "itself", "seconds", of=lambda frame: measured.per_device(frame.own)),
        Column("share", "share", "percent", of=lambda frame: frame.total / measured.whole if measured.whole else None),
        Column("source", "source", "source", person=False, of=lambda frame: frame.place or None),
    )
    branches = tuple(_branch(each, columns) for each in _ordered(root))
    tree = Tree("stacks", columns, branches, noun="calls")
    return Report(
        "profile",
        _stacks_answer(measured, root),
        version=1,
        numbers=numbers_of(measured),
        parts=(facts_of(measured), tree),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _path_of(timed: Timed) -> Sequence[tuple[str, str]]:
    """The calls that made an operation, the outermost first; of one without a stack, the source or a word for it."""
    operation = timed.operation
    program = operation.program
    if operation.instruction is None or program is None or program.module is None:
        return ((NO_INSTRUCTION, ""),)
    stack = origins_of(program.module).of(operation.instruction).stack[:_MAX_FRAMES]
    if not stack:
        return ((UNKNOWN_KEY, ""),)
    path: list[tuple[str, str]] = []
    for location in reversed(stack):
        key = location.function or str(location), str(location)
        # Calls in one line, such as of a function that JAX traces several times, are one.
        if not path or path[-1] != key:
            path.append(key)
    return path


def _ordered(frame: _Frame) -> list[_Frame]:
    return sorted((each.joined() for each in frame.calls.values()), key=lambda each: (-each.total, each.name))


def _words_of(frame: _Frame) -> str:
    """The function and its line, without the folder."""
    return f"{frame.name} ({frame.place.rpartition('/')[2]})" if frame.place else frame.name


def _branch(frame: _Frame, columns: tuple[Column[_Frame], ...]) -> Branch:
    """The tree below a call, which is at most as deep as a stack."""
    return Branch(row_from(columns, frame), tuple(_branch(each, columns) for each in _ordered(frame)))


def _stacks_answer(measured: Measured, root: _Frame) -> str:
    """The innermost call that takes at least half of the time, or the one that takes most."""
    if not root.total:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    frame = _ordered(root)[0]
    while frame.calls and _ordered(frame)[0].total > frame.total / 2:
        frame = _ordered(frame)[0]
    name = frame.name.rpartition(_JOINED)[2]
    share = format_percent(frame.total / measured.whole) if measured.whole else "100"
    place = f" ({frame.place.rpartition('/')[2]})" if frame.place else ""
    return f"{name}{place} takes {share}% of {measured.whole_words}"


# --- --by gap ---
# `hlo profile TRACE --by gap`: idle time of devices, by the operations before and after.


def report_of_gaps(measured: Measured) -> Report:
    """One row for each pair of operations with time between them in which no operation ran."""
    if measured.is_narrowed:
        option = "--where" if measured.where is not None else "--module"
        raise HloError(f"--by gap cannot be used with {option}", hint="idle time belongs to no operation")
    operations, gaps = measured.profile.operations, gaps_of(measured.profile)
    idle = sum(gap.seconds for gap in gaps)
    columns: tuple[Column[Gap], ...] = (
        Column("gaps_seconds", "idle", "seconds", total="sum", role="waste",
               of=lambda gap: measured.per_device(gap.seconds)),
        Column("share", "share", "percent", total="sum",
               of=lambda gap: gap.seconds / measured.whole if measured.whole else None),
        Column("gaps", "gaps", "count", total="sum", of=lambda gap: gap.count),
        Column("mean_seconds", "avg", "seconds", of=lambda gap: gap.seconds / gap.count),
        Column("greatest_seconds", "max", "seconds", rank=4, of=lambda gap: gap.longest),
        Column("gap_before", "after", "name", of=lambda gap: operations[gap.before].name),
        Column("gap_after", "before", "name", of=lambda gap: operations[gap.after].name),
        Column("gap_part", "meanwhile", of=lambda gap: PART_WORDS[gap.part]),
        Column("main_cause", "mostly", rank=5, of=lambda gap: gap.words or None),
    )  # fmt: skip
    return Report(
        "profile",
        _gaps_answer(measured, gaps),
        version=1,
        numbers={**numbers_of(measured), "gaps": sum(gap.count for gap in gaps), "gap_seconds": idle},
        parts=(facts_of(measured), Table("gaps", columns, rows_from(columns, gaps), noun="rows")),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _gaps_answer(measured: Measured, gaps: Sequence[Gap]) -> str:
    if not gaps:
        return "No time between operations in which a device is idle"
    operations, first = measured.profile.operations, gaps[0]
    idle = sum(gap.seconds for gap in gaps)
    words = f"{format_seconds(measured.per_device(idle))} of {measured.whole_words} is between operations"
    place = f"between {operations[first.before].name} and {operations[first.after].name}"
    cause = f": {first.words}" if first.words else ""
    return f"{words}, {format_percent(first.seconds / idle)}% of that {place}{cause}"
