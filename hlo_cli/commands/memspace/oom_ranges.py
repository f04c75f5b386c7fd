"""Ranges of memory that an out-of-memory message lists: their table, the largest one, and the memory spaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hlo_cli.analysis.out_of_memory.advice import ShardValues, ShrinkRange
from hlo_cli.commands.memspace.oom_names import memory_name
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.out_of_memory import MemoryRange, OomAllocation, OutOfMemory
from hlo_cli.ir.shape import Shape
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import UNKNOWN, Amount, Cell, Column, Fact, Facts, Row, Table
from hlo_cli.report.text import Run, Text
from hlo_cli.source import Diagnostic

_MAIN: Final = "default"
_MISNAMED: Final = {"hbm": "S(3)"}
"""Names of XLA's report that are not those of the memory space on TPUs."""
_MAX_SHAPES: Final = 8
_OVERLAP: Final = 1.02
"""The sum of listed sizes, as a multiple of the total, above which ranges certainly overlap."""


def ranges_table(message: OutOfMemory, matches: Mapping[int, tuple[str, str]]) -> Table:
    """The ranges in the memory space that ran out, the largest first; `matches` are instructions in a dump by row.

    Sizes have no sum, because ranges overlap.
    """
    rows = tuple(_row(each, matches.get(at)) for at, each in enumerate(message.culprits))
    are_whole = all(each.range is not None and each.range.is_one_value for each in message.culprits)
    title = f"{'Allocations in' if are_whole else 'Ranges of'} {memory_name(message)}, the largest first"
    return _table("ranges", rows, title if len(rows) > 1 else "", is_main=True)


def other_ranges_table(message: OutOfMemory) -> Table:
    """The ranges in the other memory spaces, for programs."""
    return _table("other_ranges", tuple(_row(each, None) for each in message.other_ranges), "", is_main=False)


def _table(name: str, rows: tuple[Row, ...], title: str, *, is_main: bool) -> Table:
    columns = (
        Column("bytes", "", "bytes"),
        Column("padding_bytes", "padding", "bytes", person=False),
        Column("padding", "padding", "percent", role="waste"),
        Column("values", "values", "count"),
        Column("shape", "largest value", "shape"),
        Column("instruction", "instruction", "name", role="name", person=any(row[5] for row in rows)),
        Column("source", "source", "source", rank=4, person=any(row[6] for row in rows)),
        Column("offset", "offset", "bytes", rank=5, from_width=100),
        Column("allocation", "allocation", "count", person=False),
        Column("is_one_value", "one value", person=False),
        Column("shapes", "all shapes", person=False),
        Column("space", "space", person=False),
    )
    is_shown = is_main and len(rows) > 1
    return Table(name, columns, rows, title=title, noun="ranges", limit=10, main=is_main, person=is_shown)


def _row(allocation: OomAllocation, match: tuple[str, str] | None) -> Row:
    place, size = allocation.range, allocation.size_bytes
    if place is None:
        return (size, UNKNOWN, UNKNOWN, None, None, None, None, None, None, None, None, None)
    padding: Cell = allocation.padding_bytes if allocation.has_padding else UNKNOWN
    share: Cell = allocation.padding_bytes / size if size and allocation.has_padding else UNKNOWN
    name, source = match or ("", "")
    return (
        size,
        padding,
        share,
        place.value_count,
        shape_text(allocation.shape) or None,
        name or None,
        source or None,
        place.offset_bytes,
        place.allocation,
        "yes" if place.is_one_value else "no",
        _shapes(place, len(place.shapes)),
        place.space or None,
    )


def shape_text(shape: Shape | None) -> str:
    """A shape without its layout, which reports on memory usage do not have.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape_text(parse_shape("f32[8,70]{0,1}")), shape_text(None)
    ('f32[8,70]', '')
    """
    return shape.to_string(layout=False) if shape is not None else ""


def _shapes(place: MemoryRange, most: int) -> str:
    """Shapes with their counts, such as `2×f32[8]`, at most a number of them."""
    texts = [f"{count}×{shape_text(shape)}" if count > 1 else shape_text(shape) for count, shape in place.shapes]
    more = f", and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def largest_range(allocation: OomAllocation, place: MemoryRange) -> str:
    """What the largest range is, for a sentence.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> largest_range(OomAllocation(64, parse_shape("f32[16]")), MemoryRange("default", 1, 0, 3))
    'the largest range of memory holds f32[16] and 2 other values one after another'
    """
    shape, others = shape_text(allocation.shape), place.value_count - 1
    if place.is_one_value:
        return f"the largest allocation holds {shape}" if shape else "the largest allocation holds one value"
    if not shape or others < 0:
        return "the largest range of memory"
    more = f" and {format_count(others, 'other values')} one after another" if others else ""
    return f"the largest range of memory holds {shape}{more}"


def range_facts(allocation: OomAllocation, place: MemoryRange, match: tuple[str, str] | None) -> Iterator[Fact]:
    """The facts on the largest range: its padding is unknown unless a shape explains its size."""
    padding = allocation.padding_bytes if allocation.has_padding else UNKNOWN
    yield Fact("size", (Amount("bytes", allocation.size_bytes, "bytes"),))
    yield Fact("padding", (Amount("bytes", padding, "bytes"),))
    yield Fact("offset", (Amount("bytes", place.offset_bytes, "bytes"),))
    yield Fact("values", (Amount("count", place.value_count),))
    yield Fact("shapes", remark=_shapes(place, _MAX_SHAPES), is_whole=True)
    if match is not None:
        yield Fact("instruction", remark=match[0], is_whole=True)
        if match[1]:
            yield Fact("source", remark=match[1], is_whole=True)


def range_words(advice: ShardValues | ShrinkRange, memory: str) -> Text:
    """Advice on ranges, in words; `memory` is the name of the memory that ran out."""
    size = format_bytes(advice.size_bytes)
    if isinstance(advice, ShardValues):
        return (
            f"Shard the largest values over at least {advice.devices:,} devices: {advice.count:,} allocations with one "
            f"value each (arguments, results, constants, or others) alone need {size}, {memory} has "
            f"{format_bytes(advice.available_bytes)}."
        )
    allocation, better = advice.allocation, advice.better
    shape = shape_text(allocation.shape)
    if not shape:
        return f"Shrink the values in the largest range ({size})."
    others = " and the other values" if allocation.range is not None and allocation.range.value_count > 1 else ""
    words = ("Shrink ", Run(shape, "name"), f"{others} in the largest range ({size})")
    if better is None:
        return (*words, ".")
    order = index_text(better.layout.minor_to_major)
    return (*words, f": in dimension order {order} that array has {format_bytes(better.padded_bytes)}.")


def space_facts(message: OutOfMemory) -> Iterable[Facts]:
    """The totals of the memory spaces in the report."""
    if message.spaces:
        facts = tuple(
            Fact(
                _space_name(part.name, message),
                (Amount("bytes", UNKNOWN if part.size_bytes is None else part.size_bytes, "bytes"),),
            )
            for part in message.spaces
        )
        yield Facts("spaces", facts, title="Memory spaces")


def _space_name(name: str, message: OutOfMemory) -> str:
    if name == _MAIN and message.target == "tpu":
        return f"{name} (HBM)"
    return _MISNAMED.get(name, name)


def ranges_note(message: OutOfMemory) -> tuple[Diagnostic, ...]:
    """How the sizes of ranges relate to the total."""
    if not message.has_ranges:
        return ()
    listed, used = sum(each.size_bytes or 0 for each in message.allocations), message.used_bytes
    text = "a range is as large as its largest value, and ranges may overlap: their sizes"
    if used is None:
        return (Diagnostic("note", f"{text} have no meaningful sum"),)
    if listed <= _OVERLAP * used:
        return ()
    sizes = f"({format_bytes(listed)} in all) do not add up to the {format_bytes(used)} needed"
    return (Diagnostic("note", f"{text} {sizes}"),)
