"""The report on memory usage in errors of TPU compilers: ranges of allocations, and the shapes of the values in them.

Mirrors `BufferAllocation::MemoryUsageReport` of xla/service/buffer_assignment.cc, which the compiler logs after an
error; the text may be wrapped, and cut at its start or end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.out_of_memory import MemoryPart, MemoryRange, OomAllocation, OutOfMemory
from hlo_cli.ir.shape import Shape, UnknownShape
from hlo_cli.syntax.compiler_files.byte_texts import BYTES, byte_number
from hlo_cli.syntax.compiler_files.names import NUMBER, Shapes, stretches
from hlo_cli.syntax.out_of_memory.labels import shape_end
from hlo_cli.syntax.out_of_memory.tables import Details

_ROW: Final = (
    r"[0-9.]{1,10}+[KMGTPE]?i?B\((?:-?nan|[0-9]{1,3})%\);"
    rf"(?P<size>{BYTES});(?P<offset>{NUMBER});(?P<count>{NUMBER});"
)
_EVENT = re.compile(
    rf"MemorySpace:(?P<space>\w{{1,40}}?)\(color=(?P<color>{NUMBER})\)|Totalbytes:(?P<total>{NUMBER})\("
    rf"|(?P<table>cumulative_size;size;offset;)|{_ROW}"
)
_COUNT = re.compile(rf"({NUMBER})(?:×|x|&times;|Ã.|\\{{1,8}}u00d7|(?:\\{{1,8}}x(?:c3|97|d7)){{1,2}})")
_MAIN: Final = "default"
_MAIN_MEMORY: Final = "hbm"
_FIRST_COLORS: Final = ("0", "1")


@dataclass(frozen=True, slots=True)
class UsageText:
    """A report in a text: the totals of the memory spaces, and the ranges of all of them in the text's order."""

    spaces: tuple[MemoryPart, ...] = ()
    ranges: tuple[OomAllocation, ...] = ()


def usage_text(details: Details, shapes: Shapes) -> UsageText:
    """The report in a part of a text; empty if there is none.

    >>> from hlo_cli.syntax.out_of_memory.tables import details_of
    >>> text = "Memory Space: default (color=0)\\nTotal bytes: 8192 (8.0KiB)\\n"
    >>> text += "cumulative_size; size; offset; used_by_n_values; shapes_list\\n---\\n"
    >>> text += "8.0KiB(100%); 8.0KiB; 512; 3; f32[16,128], 2×(s32[8], u32[])\\n"
    >>> [found] = usage_text(details_of(text), Shapes()).ranges
    >>> found.size_bytes, found.range.offset_bytes, [(count, str(shape)) for count, shape in found.range.shapes]
    (8192, 512, [(1, 'f32[16,128]{1,0}'), (2, '(s32[8]{0}, u32[])')])
    """
    text = details.squeezed.text
    space, allocation = "", 0
    totals: dict[str, int | None] = {}
    ranges: list[OomAllocation] = []
    for event, end in stretches(list(details.finditer(_EVENT)), details.end):
        if event["space"]:
            if ranges and not totals and event["color"] in _FIRST_COLORS:
                totals[_MAIN] = None
                ranges = [_in_space(each, _MAIN) for each in ranges]
            space, allocation = event["space"], 0
            totals[space] = None
        elif event["total"]:
            totals[space] = int(event["total"])
        elif event["table"]:
            allocation += 1
        else:
            listed = tuple(_shapes(text, event.end(), end, shapes))
            place = MemoryRange(space, allocation, int(event["offset"]), int(event["count"]), listed)
            ranges.append(OomAllocation(byte_number(event["size"]), _only_shape(listed), range=place))
    rows = Counter(_table(each) for each in ranges)
    last = (space, allocation)
    marked = (
        _marked(each, is_alone=rows[_table(each)] == 1 and _table(each) not in (last, ("", 0))) for each in ranges
    )
    return UsageText(tuple(MemoryPart(name, size) for name, size in totals.items()), tuple(marked))


def with_usage(message: OutOfMemory, usage: UsageText) -> OutOfMemory:
    """A message with a report: the ranges of the memory space that ran out are its allocations.

    The main memory is `default`; ranges whose space is unknown count as in it if there is no other text.

    >>> from hlo_cli.source import Span
    >>> row = OomAllocation(64, range=MemoryRange("default", 1, 0, 1))
    >>> found = with_usage(OutOfMemory("compile", Span(0, 0), "hbm", "tpu"), UsageText((), (row,)))
    >>> found.allocations == (row,), found.other_ranges
    (True, ())
    """
    if not usage.ranges and not usage.spaces:
        return message
    name = _MAIN if message.space == _MAIN_MEMORY else message.space
    names = {name} if usage.spaces else {name, ""}
    here = tuple(each for each in usage.ranges if each.range is not None and each.range.space in names)
    others = tuple(each for each in usage.ranges if each.range is not None and each.range.space not in names)
    return replace(message, allocations=message.allocations or here, spaces=usage.spaces, other_ranges=others)


def _shapes(text: str, start: int, end: int, shapes: Shapes) -> Iterator[tuple[int, Shape]]:
    """The counts and shapes of a row, up to the first text that is not one."""
    at = start
    while at < end:
        count = _COUNT.match(text, at, end)
        begin = count.end() if count else at
        stop = shape_end(text, begin, end)
        shape = shapes.of(text[begin:stop]) if stop > begin else None
        if shape is None or isinstance(shape, UnknownShape):
            return
        yield int(count[1]) if count else 1, shape
        if not text.startswith(",", stop):
            return
        at = stop + 1


def _only_shape(listed: tuple[tuple[int, Shape], ...]) -> Shape | None:
    return listed[0][1] if len(listed) == 1 else None


def _table(allocation: OomAllocation) -> tuple[str, int]:
    place = allocation.range
    return (place.space, place.allocation) if place is not None else ("", 0)


def _in_space(allocation: OomAllocation, space: str) -> OomAllocation:
    place = allocation.range
    return replace(allocation, range=replace(place, space=space)) if place is not None else allocation


def _marked(allocation: OomAllocation, *, is_alone: bool) -> OomAllocation:
    place = allocation.range
    return replace(allocation, range=replace(place, is_alone=is_alone)) if place is not None else allocation
