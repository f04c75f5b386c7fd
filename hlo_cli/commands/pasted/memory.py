"""How much memory a text reports: XLA's files about buffers, and the statistics that JAX and allocators print.

Mirrors the printers of xla/service/buffer_assignment.cc, xla/hlo/utils/hlo_live_range.cc, and
xla/tsl/framework/allocator.cc. Sizes that a text rounds stay rounded; sums are of what the text lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.commands.memspace.oom import report_of_message
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import program_frame
from hlo_cli.ir.out_of_memory import KERNEL_SPACES, ChunkGroup, SpaceUsage, UsageRow
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table, rows_from, rows_from_tuples
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.byte_sizes import SIZE, size_of
from hlo_cli.syntax.compiler_files.usage_report import parse_memory_usage_report, stated_total
from hlo_cli.syntax.out_of_memory.allocations import allocator_stats, chunk_groups, details_of
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.traces.device_memory import BUFFER, HeldMemory, read_memory_profile

_MEMORY_SPACE: Final = "Memory Space: "
"""The head of each part of a memory usage report since 2024."""
_WITH_MODULE: Final = "with the dump of the same program, `hlo memspace DUMP` names instructions, sources, and the peak"


def out_of_memory_report(pasted: PastedText) -> Report:
    """The report on a message about memory that ran out; HloError if it has no sizes."""
    source = Source(pasted.name, pasted.text)
    report = report_of_message(source)
    if report.numbers["kind"] in KERNEL_SPACES:
        from hlo_cli.commands.memspace.oom_kernel import report_next_to_dump  # rarely needed

        return report_next_to_dump(source) or report
    return report


# --- memory usage reports: one table an allocation since 2024, one list of allocations before ---

_USAGE: Final = (
    Column("space", "space", "name", of=lambda space, number, used: space.name),
    Column("allocation", "allocation", "count", of=lambda space, number, used: number),
    Column("bytes", "size", "bytes", of=lambda space, number, used: used.size_bytes),
    Column("offset", "offset", "address", of=lambda space, number, used: used.offset_bytes),
    Column("values", "values", "count", of=lambda space, number, used: used.value_count),
    Column("shapes", "shapes", of=lambda space, number, used: used.shapes_text),
)


def usage_report(pasted: PastedText) -> Report | None:
    """The report on XLA's memory usage report, new or old; None if it has none of its numbers."""
    spaces = parse_memory_usage_report(Source(pasted.name, pasted.text), is_part=True).spaces
    is_old = _MEMORY_SPACE not in pasted.text and _OLD_ALLOCATION.search(pasted.text) is not None
    if is_old or not any(space.allocations for space in spaces):
        return _old_usage_report(pasted)
    offsets = (
        (space, number, used)
        for space in spaces
        for number, allocation in enumerate(space.allocations)
        for used in allocation.rows
    )
    numbers: dict[str, Cell] = {"total_bytes": sum(space.total_bytes for space in spaces), "spaces": len(spaces)}
    numbers |= {f"{space.name}_bytes": space.total_bytes for space in spaces}
    omitted = sum(allocation.omitted for space in spaces for allocation in space.allocations)
    notes = (
        [f"{format_count(omitted, 'values')} of less than 5% of an allocation are not in the text"] if omitted else []
    )
    notes += [] if omitted else list(_cut_notes(spaces))
    return text_report(
        pasted,
        f"Memory usage report: {', '.join(_space_words(space, at) for at, space in enumerate(spaces))}",
        means=_MEANING,
        tables=(Table("usage", _USAGE, rows_from_tuples(_USAGE, offsets), noun="offsets", sorted_by=""),),
        advice=(f"The report has shapes but no names: {_WITH_MODULE}.",),
        numbers=numbers,
        notes=notes,
        next=("hlo help memory",),
    )


_LEAST_LISTED: Final = 0.97
"""The part of a total that its tables have at least: sizes are printed with one decimal."""


def _cut_notes(spaces: Sequence[SpaceUsage]) -> Iterator[str]:
    """What is missing in a report that was cut."""
    for space in spaces:
        if not space.is_stated:
            yield "the report is cut: it states no total and no memory space, so this is the sum of what it lists"
        elif space.listed_bytes < _LEAST_LISTED * space.total_bytes:
            yield (
                f"the report is cut: its tables of {space.name} memory have {format_bytes(space.listed_bytes)} of "
                f"{format_bytes(space.total_bytes)}"
            )


_MEANING: Final = (
    (
        "An allocation is one piece of memory. Values at one offset use the same bytes at different "
        "times, so their sizes "
        "do not add up."
    ),
)


def _space_words(space: SpaceUsage, at: int) -> str:
    """The size of a space; of the first one, also how many allocations it has and what is in the largest."""
    name = f"{space.name} memory" if space.is_stated else "memory of one space, in part,"
    words = f"{name} {'is ' if not at else ''}{_size_words(space.total_bytes)}"
    if at or not space.allocations:
        return words
    sizes = [allocation.listed_bytes for allocation in space.allocations]
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    words += f" in {format_count(len(sizes), 'allocations')}"
    inside = [
        f"{format_bytes(used.size_bytes)} {_holders(used)}" for used in space.allocations[largest].rows[:_MOST_INSIDE]
    ]
    if len(sizes) > 1:
        words += f", the {'larger' if len(sizes) == 2 else 'largest'} {format_bytes(sizes[largest])}"
    return words + (f" ({', '.join(inside)})" if inside else "")


_MOST_INSIDE: Final = 3  # the sentence is one line


def _holders(used: UsageRow) -> str:
    count = used.value_count
    return f"for {used.shapes_text}" if count == 1 else f"shared by {format_count(count, 'values')}"


def _size_words(size: int) -> str:
    return f"{format_bytes(size)} ({size:,} bytes)" if size >= 1024 else f"{size:,} bytes"


_OLD_ALLOCATION: Final = lazy_regex(
    rf"\ballocation (\d{{1,18}}): (?:0x[0-9a-f]+, )?size ({SIZE}),? "
    rf"?([^\n]*)",
    re.MULTILINE,
)
_KINDS: Final = (
    Column("allocation", "allocation", "count", of=lambda index, size, flags, total: index),
    Column("kind", "kind", of=lambda index, size, flags, total: _kind(flags)),
    Column("bytes", "size", "bytes", of=lambda index, size, flags, total: size),
    Column("share", "share", "percent", of=lambda index, size, flags, total: size / total if total else 0.0),
    Column("shape", "shape", "shape", of=lambda index, size, flags, total: _quoted_shape(flags)),
)
_QUOTED_SHAPE: Final = lazy_regex(r"\|([^|\n]+)\|")


def _quoted_shape(flags: str) -> str | None:
    match = _QUOTED_SHAPE.search(flags)
    return match[1] if match is not None else None


def _kind(flags: str) -> str:
    """What an allocation is for, by the words after its size.

    >>> [_kind(each) for each in ("parameter 1, shape |f32[8]|, maybe-live-out:", "preallocated-temp:", "constant:")]
    ['argument, updated in place', 'temporaries', 'constant']
    """
    for mark, kind in (
        ("thread-local", "thread-local"),
        (opcodes.CONSTANT, opcodes.CONSTANT),
        ("preallocated-temp", "temporaries"),
    ):
        if mark in flags:
            return kind
    if "parameter " in flags:
        return "argument, updated in place" if "maybe-live-out" in flags else "argument"
    return "result" if "output shape" in flags or "maybe-live-out" in flags else "other"


_PLURALS: Final = {
    "temporaries": "temporaries",
    "argument": "arguments",
    "argument, updated in place": "arguments",
    "result": "results",
    opcodes.CONSTANT: "constants",
    "thread-local": "thread-local",
    "other": "other",
}


def _old_usage_report(pasted: PastedText) -> Report | None:
    found = {int(match[1]): (size_of(match[2]), match[3]) for match in _OLD_ALLOCATION.finditer(pasted.text)}
    stated = stated_total(pasted.text)
    if not found and stated is None:
        return None
    total = sum(size for size, _ in found.values()) if stated is None else stated
    largest_first = sorted(found.items(), key=lambda each: -each[1][0])
    rows = rows_from_tuples(_KINDS, ((index, size, flags, total) for index, (size, flags) in largest_first))
    kinds = _by_kind((_kind(flags), size) for size, flags in found.values())
    return text_report(
        pasted,
        f"Memory usage report: {_size_words(total)}{_kind_words(kinds)}",
        means=_MEANING,
        tables=(Table("allocations", _KINDS, rows, noun="allocations"),),
        advice=(f"The report has shapes but no names: {_WITH_MODULE}.",),
        numbers={"total_bytes": total, **{f"{kind}_bytes": size for kind, size in kinds.items()}},
        next=("hlo help memory",),
    )


def _by_kind(sizes: Iterator[tuple[str, int]] | Sequence[tuple[str, int]]) -> dict[str, int]:
    """The bytes of each kind of allocation, the largest first."""
    kinds: dict[str, int] = {}
    for kind, size in sizes:
        kinds[_PLURALS[kind]] = kinds.get(_PLURALS[kind], 0) + size
    return dict(sorted(kinds.items(), key=lambda each: -each[1]))


def _kind_words(kinds: Mapping[str, int]) -> str:
    listed = [f"{format_bytes(size)} {kind}" for kind, size in kinds.items() if size]
    return f": {', '.join(listed)}" if listed else ""


# --- buffer assignments ---

_ALLOCATION: Final = lazy_regex(
    r"^[ \t\"']*allocation (\d{1,18}): (?:0x[0-9a-f]+, )?size "
    r"(\d{1,18})([^\n]*)",
    re.MULTILINE,
)
_VALUE: Final = lazy_regex(
    r"^[ \t]*value: <(\d{1,18}) ([^\s@{>]+)(\{[\d,]*\})?[^>]*> \(size=(\d{1,18}),offset=(\d{1,18})\): "
    r"([^\n]*)",
    re.MULTILINE,
)
_STATISTIC: Final = lazy_regex(
    rf"^[ \t]*(parameter|constant|maybe_live_out|preallocated temp|total) allocation: +({SIZE})", re.MULTILINE
)
_BUFFERS: Final = (
    Column("bytes", "size", "bytes", of=lambda allocation, value: value.size_bytes),
    Column("value", "value", "name", role="name", of=lambda allocation, value: value.name),
    Column("allocation", "allocation", "count", of=lambda allocation, value: allocation.index),
    Column("kind", "kind", of=lambda allocation, value: allocation.kind),
    Column("offset", "offset", "address", of=lambda allocation, value: value.offset_bytes),
    Column("shape", "shape", "shape", of=lambda allocation, value: value.shape),
)


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A value in an allocation."""

    id: int
    name: str
    size_bytes: int
    offset_bytes: int
    shape: str


@dataclass(frozen=True, slots=True)
class _Allocation:
    """An allocation of a buffer assignment with its values."""

    index: int
    size_bytes: int
    kind: str
    values: tuple[_Buffer, ...]


def assignment_report(pasted: PastedText) -> Report | None:
    """The report on a buffer assignment; None if it has none of its numbers."""
    allocations = list(_listed_allocations(pasted.text))
    if not allocations:
        return _assignment_statistics(pasted)
    total = sum(each.size_bytes for each in allocations)  # as XLA, with thread-local ones
    kinds = _by_kind([(each.kind, each.size_bytes) for each in allocations])
    stated = stated_total(pasted.text)
    notes = []
    if stated is not None and stated != total:
        notes.append(f"the text states {stated:,} bytes, its allocations have {total:,}")
    values = sorted(
        ((allocation, value) for allocation in allocations for value in allocation.values),
        key=lambda each: (-each[1].size_bytes, each[0].index, each[1].offset_bytes),
    )
    return text_report(
        pasted,
        f"Buffer assignment: {total:,} bytes "
        f"in {format_count(len(allocations), 'allocations')}{_kind_words_exact(kinds)}",
        means=tuple(_assignment_words(allocations)),
        tables=(Table("buffers", _BUFFERS, rows_from_tuples(_BUFFERS, values), noun="values"),),
        advice=(f"The text has no instructions: {_WITH_MODULE}.",),
        numbers={"total_bytes": total, "allocations": len(allocations), **{f"{k}_bytes": n for k, n in kinds.items()}},
        notes=notes,
        next=("hlo help memory",),
    )


def _listed_allocations(text: str) -> Iterator[_Allocation]:
    heads = list(_ALLOCATION.finditer(text))
    for at, head in enumerate(heads):
        end = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        values = tuple(
            _Buffer(int(v[1]), f"{v[2]}{v[3] or ''}", int(v[4]), int(v[5]), v[6].strip())
            for v in _VALUE.finditer(text, head.end(), end)
        )
        yield _Allocation(int(head[1]), int(head[2]), _kind(head[3]), values)


def _kind_words_exact(kinds: Mapping[str, int]) -> str:
    listed = [f"{kind} {size:,}" for kind, size in kinds.items() if size]
    return f": {', '.join(listed)}" if listed else ""


def _assignment_words(allocations: Sequence[_Allocation]) -> Iterator[str]:
    """Sentences on the largest temporaries, and on arguments that are updated in place."""
    temporaries = [v for a in allocations if a.kind == "temporaries" for v in a.values]
    largest = sorted(temporaries, key=lambda value: -value.size_bytes)[:_MOST_NAMED]
    if largest:
        listed = ", ".join(f"{value.name} {value.size_bytes:,}" for value in largest)
        yield f"The largest temporaries: {listed} bytes. Values at one offset use the same bytes at different times."
    for each in [a for a in allocations if a.kind == "argument, updated in place"][:_MOST_NAMED]:
        values = sorted(each.values, key=lambda value: value.id)
        if len(values) > 1:
            writers = ", ".join(value.name for value in values[1:])
            yield f"{values[0].name} is updated in place by {writers} (aliased, {each.size_bytes:,} bytes)."
        elif values:
            yield f"{values[0].name} is an argument that is also a result (aliased, {each.size_bytes:,} bytes)."


_MOST_NAMED: Final = 5  # the largest ones explain the memory; the table has all


def _assignment_statistics(pasted: PastedText) -> Report | None:
    found = {match[1]: size_of(match[2]) for match in _STATISTIC.finditer(pasted.text)}
    if not found:
        return None
    columns = (
        Column("kind", "kind", of=lambda kind, size: kind.replace("_", "-")),
        Column("bytes", "size", "bytes", of=lambda kind, size: size),
    )
    total = found.get("total", sum(found.values()))
    return text_report(
        pasted,
        f"Buffer assignment: {format_bytes(total)} in all allocations",
        tables=(Table("allocation_sizes", columns, rows_from_tuples(columns, found.items()), noun="kinds"),),
        advice=(f"The text has only totals: {_WITH_MODULE}.",),
        numbers={"total_bytes": total},
        next=("hlo help memory",),
    )


# --- live ranges ---

_SEQUENCE: Final = lazy_regex(r"^[ \t]*(\d{1,18}):([^\s{}:]+)[ \t]*$", re.MULTILINE)
_RANGE: Final = lazy_regex(r"^[ \t]*([^\s{}:]+)(?:\{([\d,]*)\})?:(\d{1,18})-(\d{1,18})[ \t]*$", re.MULTILINE)
_PEAK_HEAD: Final = lazy_regex(r"Live ranges at (\d{1,18})(?: \(peak\))?:")
_PEAK: Final = lazy_regex(r"^[ \t]*([^\s{}:]+)(\{[\d,]*\})?: (\d{1,18}) bytes", re.MULTILINE)
_LIVE: Final = (
    Column("bytes", "size", "bytes", total="sum", of=lambda name, size, steps: size),
    Column("value", "value", "name", role="name", of=lambda name, size, steps: name),
    Column("start", "from step", "step", of=lambda name, size, steps: steps[0] if steps else None),
    Column("end", "to step", "step", of=lambda name, size, steps: steps[1] if steps else None),
)


def live_range_report(pasted: PastedText) -> Report | None:
    """The report on a table of live ranges; None if it has none of its numbers."""
    text = pasted.text
    head = _PEAK_HEAD.search(text)
    steps = len(_SEQUENCE.findall(text))
    ranges = {(m[1], m[2] or ""): (int(m[3]), int(m[4])) for m in _RANGE.finditer(text)}
    if head is None:
        if not ranges and not steps:
            return None
        lived = sorted(ranges.items(), key=lambda each: each[1][0] - each[1][1])
        rows = rows_from_tuples(_LIVE, ((name, None, span) for (name, _), span in lived))
        return text_report(
            pasted,
            f"Live ranges of {format_count(len(ranges), 'values')} over {format_count(steps, 'steps')}, without sizes",
            tables=(Table("live_ranges", _LIVE, rows, noun="values"),),
            advice=(f"The text has no sizes: {_WITH_MODULE}.",),
            numbers={"values": len(ranges), "steps": steps or None},
        )
    peak = [(m[1], (m[2] or "").strip("{}"), int(m[3])) for m in _PEAK.finditer(text, head.end())]
    total = sum(size for _, _, size in peak)
    peak.sort(key=lambda each: -each[2])
    rows = rows_from_tuples(_LIVE, ((name, size, ranges.get((name, index))) for name, index, size in peak))
    names = ", ".join(name for name, _, _ in peak[:_MOST_NAMED])
    more = f", and {len(peak) - _MOST_NAMED} more" if len(peak) > _MOST_NAMED else ""
    of_steps = f" of {steps:,}" if steps else ""
    return text_report(
        pasted,
        f"Live ranges: memory peaks at step {int(head[1]):,}{of_steps} with {total:,} bytes: {names}{more}",
        means=("Sizes are without padding, as XLA prints them here.",),
        tables=(Table("peak_values", _LIVE, rows, noun="values"),),
        advice=(f"The text has no instructions: {_WITH_MODULE}.",),
        numbers={"peak_step": int(head[1]), "steps": steps or None, "total_bytes": total, "live": len(peak)},
        next=("hlo help memory",),
    )


# --- values of a buffer assignment ---

_USED: Final = lazy_regex(r"^<(\d{1,18}) ([^\s@{>]+)(\{[\d,]*\})?[^>\n]*>\n((?:(?!<\d)[^\n]*\n?)*)", re.MULTILINE)
_USE: Final = lazy_regex(r"^[ \t]+[^\n]*, operand \d{1,18}", re.MULTILINE)
_FROM: Final = lazy_regex(r"from instruction: (?:ROOT )?%?[\w.\-]+ = ((?:\([^\n]*?\)|\S+)) [a-z][\w\-]*\(")
_LISTED_VALUES: Final = (
    Column("bytes", "size", "bytes", of=lambda name, uses, shape: _bytes_of(shape)),
    Column("value", "value", "name", role="name", of=lambda name, uses, shape: name),
    Column("uses", "uses", "count", of=lambda name, uses, shape: uses),
    Column("shape", "shape", "shape", of=lambda name, uses, shape: shape),
)


def values_report(pasted: PastedText) -> Report | None:
    """The report on the values of a buffer assignment; None if it has none of its numbers."""
    total = stated_total(pasted.text)
    values = list[tuple[str, int, str | None]]()
    for match in _USED.finditer(pasted.text):
        origin = _FROM.search(match[4])
        shape = origin[1] if origin and not match[3] else None
        values.append((f"{match[2]}{match[3] or ''}", len(_USE.findall(match[4])), shape))
    if not values and total is None:
        return None
    values.sort(key=lambda value: -(_bytes_of(value[2]) or 0))
    size = f", {total:,} bytes in total" if total is not None else ""
    return text_report(
        pasted,
        f"List of {format_count(len(values), 'buffer values')} (part of a buffer assignment){size}",
        means=(
            (
                "Each value has the positions that hold it and the operands that use it. Values that "
                "share memory count "
                "once in the total."
            ),
        ),
        tables=(Table("buffer_values", _LISTED_VALUES, rows_from_tuples(_LISTED_VALUES, values), noun="values"),),
        advice=(f"The text has no offsets: {_WITH_MODULE}.",),
        numbers={"values": len(values), "total_bytes": total},
        next=("hlo help memory",),
    )


def _bytes_of(shape: str | None) -> int | None:
    if shape is None:
        return None
    try:
        return parse_shape(shape).logical_bytes
    except HloError:
        return None


# --- statistics of programs and allocators ---

_FIELD: Final = lazy_regex(
    r"\b((?:host_)?(?:generated_code|argument|output|alias|temp)_size_in_bytes"
    r"|peak_memory_in_bytes)['\"]?\s*[=:]\s*(\d{1,18})"
)
_PARTS: Final = (("argument", "arguments"), ("output", "results"), ("alias", "aliased"), ("temp", "temporaries"))


def program_statistics_report(pasted: PastedText) -> Report | None:
    """The report on the memory of a compiled program; None if it has none of its numbers."""
    prints = _prints(pasted.text)
    if not prints:
        return None
    fields = max(prints, key=_device_total)
    total = _device_total(fields)
    words = [
        f"{sign}{format_bytes(fields.get(f'{key}_size_in_bytes', 0))} {noun}"
        for (key, noun), sign in zip(_PARTS, ("", "+ ", "− ", "+ "), strict=True)
        if f"{key}_size_in_bytes" in fields
    ]
    code = fields.get("generated_code_size_in_bytes", 0)
    host = _device_total(fields, "host_")
    extra = [f"{format_bytes(code)} of code"] if code else []
    extra += [f"{format_bytes(host)} of host memory"] if host else []
    signs = {"alias_size_in_bytes": "minus", "generated_code_size_in_bytes": "no", "peak_memory_in_bytes": "no"}
    columns = (
        Column("memory", "memory", of=lambda name, size: name.removesuffix("_size_in_bytes").replace("_", " ")),
        Column("bytes", "size", "bytes", of=lambda name, size: size),
        Column(
            "counted", "counted", of=lambda name, size: "no" if name.startswith("host_") else signs.get(name, "yes")
        ),
    )
    rows = rows_from_tuples(columns, fields.items())
    peak = fields.get("peak_memory_in_bytes")
    notes = [f"the text has {len(prints)} statistics; this is the largest"] if len(prints) > 1 else []
    return text_report(
        pasted,
        f"Memory of the program: {_size_words(total)} = {' '.join(words)}",
        means=(f"A device needs arguments + results − aliased + temporaries; {' and '.join(extra)} are not counted.",)
        if extra
        else (),
        tables=(Table("program_memory", columns, rows, noun="kinds"),),
        advice=("What is in the temporaries: `hlo memspace` on compiled.as_text() lists the values at the peak.",),
        numbers={"total_bytes": total, "peak_bytes": peak, **fields},
        notes=notes,
        next=("hlo help memory",),
    )


def _prints(text: str) -> list[dict[str, int]]:
    """The fields of each printed object; a field that is repeated begins the next one."""
    found = list[dict[str, int]]()
    for match in _FIELD.finditer(text):
        if not found or match[1] in found[-1]:
            found.append({})
        found[-1][match[1]] = int(match[2])
    return found


def _device_total(fields: Mapping[str, int], space: str = "") -> int:
    """The bytes that a program needs on a device, or with "host_" in the memory of the host."""
    argument, output, alias, temp = (fields.get(f"{space}{key}_size_in_bytes", 0) for key, _ in _PARTS)
    return argument + output - alias + temp


_STAT: Final = lazy_regex(
    rf"(?:^|(?<=[{{,\s]))['\"]?((?:Num|Peak|Max|In|Largest|Limit|Reserved|Reservable|Pool|num_|bytes_|peak_|largest_"
    rf"|pool_)[A-Za-z _]{{0,40}}?)['\"]?\s*[:=]\s+({SIZE})",
    re.MULTILINE,
)
_NAMES: Final = {
    "inuse": "in_use", "bytesinuse": "in_use", "peakinuse": "peak", "maxinuse": "peak", "peakbytesinuse": "peak",
    "limit": "limit", "byteslimit": "limit", "reserved": "reserved", "bytesreserved": "reserved",
    "peakreserved": "peak_reserved", "peakbytesreserved": "peak_reserved", "largestfreeblock": "largest_free",
    "largestfreeblockbytes": "largest_free", "numallocs": "allocations", "reservablelimit": "reservable",
    "reservablebyteslimit": "reservable", "bytesreservablelimit": "reservable", "largestallocsize": "largest",
    "maxallocsize": "largest",
}  # fmt: skip
"""The statistic that each spelling of a name means, of tsl::AllocatorStats, libtpu, and Device.memory_stats()."""


def allocator_statistics_report(pasted: PastedText) -> Report | None:
    """The report on the memory of a device; None if it has none of its numbers."""
    devices = list[dict[str, int]]()
    listed = list[tuple[str, str, int]]()
    for match in _STAT.finditer(pasted.text):
        name = _NAMES.get(match[1].replace(" ", "").replace("_", "").lower())
        if name is None:
            continue
        if not devices or name in devices[-1]:
            devices.append({})
        devices[-1][name] = size_of(match[2])
        listed.append((match[1].strip(), name, devices[-1][name]))
    devices = [each for each in devices if "in_use" in each]
    if not devices or _CHUNK.search(pasted.text) is not None:
        return _chunks_report(pasted)
    fullest = max(devices, key=lambda each: each["in_use"] / (each.get("limit") or 1))

    columns = (
        Column("statistic", "statistic", of=lambda label, name, size: label),
        Column("bytes", "size", "bytes", of=lambda label, name, size: None if name == "allocations" else size),
        Column("count", "count", "count", of=lambda label, name, size: size if name == "allocations" else None),
    )
    rows = rows_from_tuples(columns, listed)
    return text_report(
        pasted,
        f"Device memory: {_allocator_words(fullest)}",
        means=_allocator_meaning(fullest),
        tables=(Table("allocator_statistics", columns, rows, noun="statistics"),),
        numbers=dict(fullest.items()),
        notes=[f"the text has {len(devices)} devices; this is the fullest"] if len(devices) > 1 else [],
        next=("hlo help memory",),
    )


_CHUNK: Final = lazy_regex(r"(?:InUse|Free) {1,2}at (?:0x)?[0-9a-f]{1,16} of size \d")
_BIN: Final = lazy_regex(
    r"Bin \((?P<least>\d{1,19})\):\s{1,4}Total Chunks: (?P<chunks>\d{1,9}), Chunks in use: (?P<used>\d{1,9})\. "
    rf"(?P<size>{SIZE}) allocated for chunks\. (?P<in_use>{SIZE}) in use in bin"
)
_ROUNDED_REQUEST: Final = lazy_regex(rf"(?:rounded request|Bin for) (?P<size>{SIZE})")
_CHUNK_SIZES: Final[tuple[Column[ChunkGroup], ...]] = (
    Column("chunk_bytes", "size", "bytes", of=lambda group: group.size_bytes),
    Column("count", "in use", "count", of=lambda group: group.count),
    Column("bytes", "total", "bytes", total="sum", of=lambda group: group.count * group.size_bytes),
)


def _chunks_report(pasted: PastedText) -> Report | None:
    """The report on the chunks of a best-fit allocator without a message on a failure; None if there are none.

    Mirrors `BFCAllocator::DumpMemoryLog` of xla/tsl/framework/bfc_allocator.cc.
    """
    details = details_of(pasted.text)
    stats, groups = allocator_stats(details), chunk_groups(details)
    request = _ROUNDED_REQUEST.search(pasted.text)
    requested = size_of(request["size"]) if request else None
    if stats is None or stats.in_use_bytes is None:
        return _bins_report(pasted)
    found = {"in_use": stats.in_use_bytes, "limit": stats.limit_bytes, "largest_free": stats.largest_free_block_bytes}
    known = {name: size for name, size in found.items() if size}
    known.setdefault("in_use", 0)
    asked = f"; {format_bytes(requested)} was requested" if requested else ""
    groups = tuple(sorted(groups, key=lambda group: -group.count * group.size_bytes))
    largest = (
        (f"Most is in {groups[0].count:,} × {format_bytes(groups[0].size_bytes)}.",)
        if groups and groups[0].count > 1
        else ()
    )
    return text_report(
        pasted,
        f"Device memory: {_allocator_words(known)}{asked}",
        means=(*_allocator_meaning(known), *largest),
        tables=(Table("chunk_sizes", _CHUNK_SIZES, rows_from(_CHUNK_SIZES, groups), noun="sizes"),) if groups else (),
        numbers={**known, **({"requested": requested} if requested else {})},
        next=("hlo help memory",),
    )


def _bins_report(pasted: PastedText) -> Report | None:
    """The report on the bins of an allocator, whose free chunks are those that are not in use."""
    bins = list(_BIN.finditer(pasted.text))
    total, used = (sum(size_of(each[name]) for each in bins) for name in ("size", "in_use"))
    if not total:
        return None
    free = [each for each in bins if int(each["chunks"]) > int(each["used"])]
    count = sum(int(each["chunks"]) - int(each["used"]) for each in free)
    least = f", the largest in the bin from {format_bytes(int(free[-1]['least']))} on" if free else ""
    return text_report(
        pasted,
        f"Device memory: {format_bytes(used)} of {format_bytes(total)} in arrays ({format_percent(used / total)}%); "
        f"{format_bytes(total - used)} is free in {format_count(count, 'chunks')}{least}",
        means=(
            "A bin has chunks from its size to twice that, the last one also larger ones; an array needs one chunk.",
        ),
        numbers={"in_use": used, "limit": total, "free_chunks": count},
        next=("hlo help memory",),
    )


def _allocator_words(stats: Mapping[str, int]) -> str:
    limit = stats.get("limit")
    words = f"{format_bytes(stats['in_use'])}{f' of {format_bytes(limit)}' if limit else ''} in arrays"
    if limit:
        words += f" ({format_percent(stats['in_use'] / limit)}%)"
    if stats.get("reserved"):
        words += f", {format_bytes(stats['reserved'])} reserved for programs (temporaries)"
    elif "peak" in stats and stats["peak"] > stats["in_use"]:
        words += f", at most {format_bytes(stats['peak'])} so far"
    if stats.get("largest_free"):
        words += f", largest free block {format_bytes(stats['largest_free'])}"
    return words


def _allocator_meaning(stats: Mapping[str, int]) -> tuple[str, ...]:
    if "limit" not in stats or not stats.get("largest_free"):
        return ()
    free = stats["limit"] - stats["in_use"] - stats.get("reserved", 0)
    if free <= stats["largest_free"]:
        return ()
    return (
        (
            f"{format_bytes(free)} are free in all, but an array needs one block: the rest is in smaller pieces "
            "(fragmentation)."
        ),
    )


# --- what `pprof -top` prints of a memory profile ---

_TOP_TOTAL: Final = lazy_regex(
    r"^Showing nodes accounting for (?P<shown>\S{2,30}), \S{1,12} of (?P<total>\S{2,30}) total", re.MULTILINE
)
_TOP_ROW: Final = lazy_regex(
    r"^ *(?P<flat>\d[\d.]{0,18}(?:[kMGTP]?B)?) +[\d.]{1,8}% +[\d.]{1,8}% +(?P<cumulative>\d[\d.]{0,18}(?:[kMGTP]?B)?) +"
    r"[\d.]{1,8}% +(?P<name>\S[^\n]{0,400})",
    re.MULTILINE,
)
_TOP: Final[tuple[Column[re.Match[str]], ...]] = (
    Column("bytes", "size", "bytes", of=lambda node: _pprof_bytes(node["flat"])),
    Column("with_callees_bytes", "with callees", "bytes", of=lambda node: _pprof_bytes(node["cumulative"])),
    Column("function", "function", "name", role="name", of=lambda node: node["name"].strip()),
)


def _pprof_bytes(text: str) -> int:
    """A size as pprof prints it: its kB and MB are powers of 1024 (pprof/internal/measurement).

    >>> _pprof_bytes("8kB"), _pprof_bytes("0")
    (8192, 0)
    """
    return size_of(text.replace("k", "K"))


def pprof_report(pasted: PastedText) -> Report | None:
    """The report on a table of pprof; None if it has none of its numbers."""
    head = _TOP_TOTAL.search(pasted.text)
    nodes = list(_TOP_ROW.finditer(pasted.text))
    if head is None or not nodes:
        return None
    total = _pprof_bytes(head["total"])
    nodes.sort(key=lambda node: -_pprof_bytes(node["flat"]))
    listed = ", ".join(
        f"{node['name'].strip()} {format_bytes(size)} ({format_percent(size / max(1, total))}%)"
        for node in nodes[:3]
        if (size := _pprof_bytes(node["flat"]))
    )
    return text_report(
        pasted,
        f"{format_bytes(total)} in use when the profile was taken: {listed}",
        means=("A size is what the function allocated itself; `with callees` adds what functions called by it did.",),
        tables=(Table("allocating_functions", _TOP, rows_from(_TOP, nodes), noun="functions"),),
        advice=(
            (
                "`hlo memspace memory.prof` shows the arrays themselves with their lines, and apart from them what "
                "programs hold; `hlo diff OLD.prof NEW.prof` shows what grew."
            ),
        ),
        numbers={"total_bytes": total, "functions": len(nodes)},
        next=("hlo help memory",),
    )


# --- arrays on devices: profiles that JAX saves, and what grew between two of them ---

_GROWS: Final = "A line whose arrays grow from step to step keeps what it no longer needs, in a list or a cache."
_NO_STACK: Final = "a line that is not in the profile"


@dataclass(frozen=True, slots=True)
class _HeldLine:
    """What one line of the program holds on one device, and what it held before, if that is known."""

    source: str
    function: str
    device: str
    arrays: int
    size_bytes: int
    arrays_before: int = 0
    bytes_before: int = 0

    @property
    def place(self) -> str:
        """The line with the function, for a sentence."""
        return f"{os.path.basename(self.source)} ({self.function})" if self.function else self.source

    @property
    def growth(self) -> int:
        """The bytes that came since."""
        return self.size_bytes - self.bytes_before


def held_memory_report(pasted: PastedText) -> Report:
    """The report on a profile: the lines that hold most, each device apart."""
    held = read_memory_profile(pasted.data, pasted.name)
    lines = _by_line(_held_arrays(held))
    total, arrays = sum(line.size_bytes for line in lines), sum(line.arrays for line in lines)
    programs = sum(each.count for each in held if each.kind != BUFFER)
    devices = sorted({line.device for line in lines})
    where = f"on {devices[0]}" if len(devices) == 1 else f"on {format_count(len(devices), 'devices')}"
    columns: tuple[Column[_HeldLine], ...] = (
        Column("bytes", "size", "bytes", total="sum", of=lambda line: line.size_bytes),
        Column("share", "share", "percent", of=lambda line: line.size_bytes / total if total else None),
        Column("arrays", "arrays", "count", total="sum", of=lambda line: line.arrays),
        Column("device", "device", person=len(devices) > 1, of=lambda line: line.device),
        Column("source", "source", "source", role="name", of=lambda line: line.source),
        Column("function", "function", of=lambda line: line.function),
    )
    return text_report(
        pasted,
        f"{format_count(arrays, 'arrays')} {where} hold {format_bytes(total)}{_largest_line(lines, total)}",
        means=(
            "Live arrays are counted at the line that made them, once for each device that holds a part.",
            "Memory that a program uses while it runs is not in the profile: `hlo memspace DUMP` shows it.",
        ),
        tables=(Table("held_arrays", columns, rows_from(columns, lines), noun="lines"),),
        numbers={"total_bytes": total, "arrays": arrays, "programs": programs, "devices": len(devices)},
        next=("hlo help memory",),
    )


def growth_report(old: PastedText, new: PastedText) -> Report:
    """The report on what the program holds in the newer of two profiles and not in the older one."""
    before, after = (_by_line(_held_arrays(read_memory_profile(each.data, each.name))) for each in (old, new))
    known = {(line.source, line.function, line.device): line for line in before}
    lines = [_since(line, known.pop((line.source, line.function, line.device), None)) for line in after]
    lines += [
        _HeldLine(each.source, each.function, each.device, 0, 0, each.arrays, each.size_bytes)
        for each in known.values()
    ]
    changed = sorted((line for line in lines if line.growth or line.arrays != line.arrays_before), key=_by_growth)
    growth = sum(line.growth for line in lines)
    totals = [sum(line.size_bytes for line in each) for each in (before, after)]
    columns: tuple[Column[_HeldLine], ...] = (
        Column("growth_bytes", "growth", "bytes", total="sum", of=lambda line: line.growth),
        Column("before_bytes", "before", "bytes", total="sum", like="growth_bytes", of=lambda line: line.bytes_before),
        Column("after_bytes", "after", "bytes", total="sum", like="growth_bytes", of=lambda line: line.size_bytes),
        Column("arrays", "new arrays", "count", total="sum", of=lambda line: line.arrays - line.arrays_before),
        Column("device", "device", machine=True, person=False, of=lambda line: line.device),
        Column("source", "source", "source", role="name", of=lambda line: line.source),
        Column("function", "function", of=lambda line: line.function),
    )
    change = "grew" if growth > 0 else "shrank"
    answer = (
        f"Arrays {change} by {format_bytes(abs(growth))}, from {format_bytes(totals[0])} to {format_bytes(totals[1])}"
        if growth
        else f"Arrays hold {format_bytes(totals[1])} in both profiles"
    )
    most = f"; most at {changed[0].place}" if growth > 0 and changed[0].growth > 0 else ""
    return text_report(
        new,
        answer + most,
        means=(
            "A line whose arrays grow from step to step keeps what it no longer needs, such as in a list or a cache.",
        )
        if growth > 0
        else (),
        tables=(Table("grown_arrays", columns, rows_from(columns, changed), noun="lines"),) if changed else (),
        numbers={"growth_bytes": growth, "before_bytes": totals[0], "total_bytes": totals[1], "lines": len(changed)},
    )


def _by_growth(line: _HeldLine) -> tuple[int, str]:
    return -line.growth, line.source


def _since(line: _HeldLine, before: _HeldLine | None) -> _HeldLine:
    """What a line holds now, with what it held before."""
    return line if before is None else replace(line, arrays_before=before.arrays, bytes_before=before.size_bytes)


def _held_arrays(held: Iterable[HeldMemory]) -> Iterable[HeldMemory]:
    return (each for each in held if each.kind == BUFFER)


def _by_line(held: Iterable[HeldMemory]) -> list[_HeldLine]:
    """What each line outside of libraries holds, the most first."""
    groups: dict[tuple[str, str, str], list[HeldMemory]] = {}
    for each in held:
        frame = program_frame(each.frames)
        place = (str(frame), frame.function) if frame is not None else (_NO_STACK, "")
        groups.setdefault((*place, each.device), []).append(each)
    lines = [
        _HeldLine(*place, sum(each.count for each in group), sum(each.size_bytes for each in group))
        for place, group in groups.items()
    ]
    return sorted(lines, key=lambda line: (-line.size_bytes, line.source))


def _largest_line(lines: Sequence[_HeldLine], total: int) -> str:
    if not total:
        return ""
    share = format_percent(lines[0].size_bytes / total)
    return f"; {lines[0].place} holds {format_bytes(lines[0].size_bytes)} ({share}%)"
