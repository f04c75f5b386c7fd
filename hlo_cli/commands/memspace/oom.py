"""What answers an out-of-memory message? `hlo memspace --oom FILE`: its sentences, tables, and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Final, Literal

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.memory.oom_advice import Advice, Dump, Reorder, advice_of, with_range_shapes
from hlo_cli.commands.memspace.oom_words import (
    advice_passage,
    answer_of_message,
    culprit_name,
    is_host_only,
    kernel_name,
    memory_name,
    other_ranges_table,
    range_facts,
    ranges_note,
    ranges_table,
    shape_text,
    space_facts,
    tag_of,
)
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.out_of_memory import KernelWindow, MemoryPart, OomAllocation, OutOfMemory
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import (
    Amount,
    Cell,
    Column,
    Fact,
    Facts,
    Share,
    Table,
    rows_from,
    rows_from_tuples,
    unknown_if_none,
)
from hlo_cli.source import Diagnostic, Source
from hlo_cli.syntax.out_of_memory.allocations import window_of
from hlo_cli.syntax.out_of_memory.read_logs import newest, parse_out_of_memory

# --- tables ---


def _messages_table(source: Source, messages: Sequence[OutOfMemory], *, is_main: bool) -> Table:
    """One row for each message of a text, with its figures."""
    culprits = [culprit for message in messages for culprit in message.culprits[:1]]
    columns: tuple[Column[OutOfMemory], ...] = (
        Column("kind", "kind", of=lambda message: message.kind),
        Column("space", "space", person=False, of=lambda message: message.space or None),
        Column("stage", "stage", from_width=120, of=lambda message: message.stage),
        Column("used_bytes", "needed", "bytes",
               of=lambda message: unknown_if_none(message.used_bytes)),
        Column("limit_bytes", "available", "bytes",
               of=lambda message: unknown_if_none(message.limit_bytes)),
        Column("exceeded_by_bytes", "over", "bytes", of=lambda message: message.exceeded_by_bytes),
        Column("instruction", "instruction", "name", role="name", person=any(map(_place_of, messages)),
               of=lambda message: _place_of(message)),
        Column("shape", "shape", "shape", from_width=120, person=any(map(_shape, culprits)),
               of=lambda message: _shape(_culprit_of(message))),
        Column("op_name", "op_name", "op_name", from_width=200, person=any(culprit.op_name for culprit in culprits),
               of=lambda message: next((each.op_name for each in message.culprits), "") or None),
        Column("module", "module", "name", rank=5, person=any(message.module for message in messages),
               of=lambda message: message.module or None),
        Column("executable", "executable", "name", rank=4, from_width=120,
               of=lambda message: message.executable or None),
        Column("device", "device", rank=3, from_width=120, of=lambda message: message.device or None),
        Column("repetitions", "times", "count", rank=2, person=any(message.repetitions != 1 for message in messages),
               of=lambda message: message.repetitions),
        Column("line", "line", "line", of=lambda message: source.position(message.span.start).line),
    )  # fmt: skip
    return Table(
        "messages",
        columns,
        rows_from(columns, messages),
        title="Messages in the text",
        noun="messages",
        main=is_main,
        person=len(messages) > 1,
        limit=10,
    )


def _culprit_of(message: OutOfMemory) -> OomAllocation | None:
    return next(iter(message.culprits), None)


def _place_of(message: OutOfMemory) -> str | None:
    """The name of the allocation that failed, else the place where."""
    culprit = _culprit_of(message)
    place = str(message.cause) if message.cause is not None else ""
    return (culprit_name(culprit) if culprit is not None else "") or place or None


def _shape(culprit: OomAllocation | None) -> str | None:
    if culprit is None:
        return None
    if culprit.range is not None:
        return shape_text(culprit.shape) or None
    return str(culprit.shape) if culprit.shape is not None else None


def _allocations_table(
    message: OutOfMemory, matches: Mapping[int, tuple[str, str]], *, title: str, is_for_people: bool
) -> Table:
    """The allocation that failed, then the listed ones by size; `matches` are names and places in a dump by row."""
    allocations = message.culprits
    matched = [(each, matches.get(at)) for at, each in enumerate(allocations)]
    columns: tuple[Column[OomAllocation, tuple[str, str] | None], ...] = (
        Column("bytes", "", "bytes", total="sum", of=lambda allocation, match: allocation.size_bytes),
        Column("logical_bytes", "data", "bytes", total="sum", person=False,
               of=lambda allocation, match: (
                   None
                   if allocation.size_bytes is None else allocation.size_bytes - allocation.padding_bytes)),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True),
               of=lambda allocation, match: (
                   allocation.padding_bytes / allocation.size_bytes
                   if allocation.size_bytes else None)),
        Column("kind", "kind", rank=6, person=any(map(_kind_of, allocations)),
               of=lambda allocation, match: _kind_of(allocation)),
        Column("tag", "tag", rank=7, person=any(map(tag_of, allocations)),
               of=lambda allocation, match: tag_of(allocation) or None),
        Column("instruction", "instruction", "name", role="name",
               of=lambda allocation, match: (match[0] if match else culprit_name(allocation)) or None),
        Column("shape", "shape", "shape",
               of=lambda allocation, match: str(allocation.shape) if allocation.shape is not None else None),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2,
               of=lambda allocation, match: allocation.op_name or None),
        Column("source", "source", "source", rank=4,
               of=lambda allocation, match: source_of(allocation) or (match[1] if match else "") or None),
        Column("operand", "operand", "count", person=False, of=lambda allocation, match: allocation.operand_number),
        Column("kernel", "kernel", person=False, of=lambda allocation, match: allocation.kernel or None),
        Column("target", "target", person=False, of=lambda allocation, match: allocation.target or None),
    )  # fmt: skip
    rows = rows_from_tuples(columns, matched)
    return Table(
        "allocations",
        columns,
        rows,
        title=title,
        noun="allocations",
        limit=10,
        main=bool(rows),
        person=is_for_people and len(rows) > 1,
    )


def _kind_of(allocation: OomAllocation) -> str | None:
    return allocation.kind or ("argument" if allocation.is_entry_parameter else None)


def source_of(allocation: OomAllocation) -> str:
    """File and line of an allocation, as far as the message has them."""
    line = f":{allocation.source_line}" if allocation.source_line else ""
    return allocation.source_file + line if allocation.source_file else ""


def culprit_facts(message: OutOfMemory, window: KernelWindow | None, match: tuple[str, str] | None) -> Iterator[Facts]:
    """Everything about the first culprit that a narrow table has no room for."""
    allocation = next(iter(message.culprits), None)
    if allocation is None:
        return
    if (place := allocation.range) is not None:
        title = "Largest allocation" if place.is_one_value else "Largest range"
        yield Facts("culprit", tuple(range_facts(allocation, place, match)), title=title)
        return
    facts = tuple(_culprit_facts(allocation, window, match))
    title = "Failed allocation" if allocation is message.failed else "Largest allocation"
    # Without a size, nothing says that it is the largest.
    if allocation.size_bytes is None:
        title = "Allocation"
    if facts:
        yield Facts("culprit", facts, title=title)


def _culprit_facts(
    allocation: OomAllocation, window: KernelWindow | None, match: tuple[str, str] | None
) -> Iterator[Fact]:
    name, place = match or (culprit_name(allocation), "")
    size, padding = allocation.size_bytes, allocation.padding_bytes
    if size is not None:
        yield _fact("size", size)
    if padding:
        yield _fact("padding", padding)
    operand = "" if allocation.operand_number is None else f" {allocation.operand_number}"
    if window is not None:
        buffers = format_count(window.buffers, "buffers")
        block, array = (shape.to_string(layout=False) for shape in (window.block, window.whole))
        operand = f" of {window.role} {window.number}"
        yield Fact("block", remark=f"{block} of {array}, {buffers}")
    is_shape = name.startswith("[")
    is_instruction = allocation.place is not None or bool(allocation.opcode) or match is not None
    labeled = {
        "kind": allocation.kind,
        "tag": (tag_of(allocation) or allocation.tag_text) + operand,
        "shape without type" if is_shape else "instruction" if is_instruction else "name": name,
        "kernel": allocation.kernel if kernel_name(allocation) == allocation.kernel != name else "",
        "target": allocation.target,
        "shape": str(allocation.shape) if allocation.shape is not None else "",
        "op_name": allocation.op_name,
        "source": source_of(allocation) or place,
    }
    yield from (Fact(label, remark=text, is_whole=True) for label, text in labeled.items() if text)


def _fill_facts(message: OutOfMemory) -> Iterator[Facts | Table]:
    """What else fills the memory: the tables of TPU compilers, of a buffer assignment, and of an allocator."""
    output = [MemoryPart("output", message.output_bytes)] if message.output_bytes is not None else []
    shared = [MemoryPart("shared", message.output_shared_bytes)] if message.output_shared_bytes else []
    for name, title, facts in (
        ("usage", "Memory usage", _facts((*message.usage, *output, *shared))),
        ("program", "Program allocations", _facts(_program_parts(message)) + _fragmentation_facts(message)),
        ("assignment", "Buffer assignment", _assignment_facts(message)),
        ("allocator", "Allocator", _allocator_facts(message)),
        ("process", "Process", _process_facts(message)),
    ):
        if facts:
            yield Facts(name, facts, title=title)
    if message.chunks:
        yield _chunks_table(message)


def _program_parts(message: OutOfMemory) -> tuple[MemoryPart, ...]:
    """The parts of the program; the size of its output, which some texts list with them, is not one."""
    return tuple(part for part in message.program if not part.name.lower().startswith("output"))


def _facts(parts: Sequence[MemoryPart]) -> tuple[Fact, ...]:
    return tuple(_fact(part.name, part.size_bytes) for part in parts)


def _fact(name: str, size_bytes: int | None) -> Fact:
    return Fact(name, (Amount("bytes", unknown_if_none(size_bytes), "bytes"),))


def _fragmentation_facts(message: OutOfMemory) -> tuple[Fact, ...]:
    temp = message.temp
    if temp is None or temp.fragmentation_bytes is None:
        return ()
    return (_fact("fragmentation", temp.fragmentation_bytes),)


def _assignment_facts(message: OutOfMemory) -> tuple[Fact, ...]:
    stats = message.stats
    if stats is None:
        return ()
    return (
        _fact("parameters", stats.parameter_bytes),
        _fact("constants", stats.constant_bytes),
        _fact("live-out", stats.maybe_live_out_bytes),
        _fact("temporaries", stats.preallocated_temp_bytes),
        _fact("total", stats.total_bytes),
    )


def _allocator_facts(message: OutOfMemory) -> tuple[Fact, ...]:
    stats = message.allocator
    if stats is None:
        return ()
    sizes = {
        "limit": stats.limit_bytes,
        "in use": stats.in_use_bytes,
        "peak in use": stats.max_in_use_bytes,
        "largest allocation": stats.max_alloc_bytes,
        "largest free block": stats.largest_free_block_bytes or None,
    }
    return tuple(_fact(name, size) for name, size in sizes.items() if size is not None)


def _process_facts(message: OutOfMemory) -> tuple[Fact, ...]:
    process = message.process
    if process is None:
        return ()
    sizes = {"resident": process.resident_bytes, "virtual": process.virtual_bytes}
    texts = {
        "name": process.name,
        "pid": str(process.pid) if process.pid is not None else "",
        "group": process.group,
        "reason": process.reason,
        "exit code": str(process.exit_code) if process.exit_code is not None else "",
    }
    named = tuple(Fact(label, remark=text, is_whole=True) for label, text in texts.items() if text)
    return (*named, *(_fact(name, size) for name, size in sizes.items() if size is not None))


def _chunks_table(message: OutOfMemory) -> Table:
    """The chunks that were allocated when the allocation failed, grouped by size, the largest total first."""
    columns = (
        Column("chunks", "chunks", "count", total="sum", of=lambda group: group.count),
        Column("chunk_bytes", "chunk size", "bytes", of=lambda group: group.size_bytes),
        Column("bytes", "", "bytes", total="sum", of=lambda group: group.count * group.size_bytes),
    )
    groups = sorted(message.chunks, key=lambda group: -group.count * group.size_bytes)
    rows = rows_from(columns, groups)
    return Table("chunks", columns, rows, title="In use", noun="sizes", main=False, limit=10)


# --- the answer ---


_UNNAMED: Final = ("", "-", "<stdin>", "(stdin)")
"""Names of sources that are not files."""


def report_of_message(source: Source) -> Report:
    """The last message in a text: what ran out, the culprits, what else fills the memory, and what to do."""
    messages = parse_out_of_memory(source)
    message = with_range_shapes(newest(messages))
    window = window_of_culprit(message)
    advice = advice_of(message, window, warnings=[each for each in messages if each.is_warning and each != message])
    return Report(
        "memspace",
        answer_of_message(message),
        numbers=numbers_of(message, messages),
        parts=parts_of(source, messages, message, advice, {}),
        next=(*_dump_commands(source, advice), *layout_commands(advice), "hlo help memory"),
        notes=notes_on(message),
        input={"path": source.name, "line": source.position(message.span.start).line},
    )


def window_of_culprit(message: OutOfMemory) -> KernelWindow | None:
    """The window that did not fit, if the message has one."""
    culprit = next(iter(message.culprits), None)
    if culprit is None:
        return None
    if (window := window_of(culprit.tag_text or culprit.tag)) is not None:
        return window
    block, number = culprit.window, culprit.operand_number
    if not isinstance(block, ArrayShape) or number is None:
        return None
    role: Literal["input", "output"] = "output" if culprit.tag.startswith("output") else "input"
    return KernelWindow(role, number, block, block, culprit.buffering or 1)


def parts_of(
    source: Source,
    messages: Sequence[OutOfMemory],
    message: OutOfMemory,
    advice: Sequence[Advice],
    matches: Mapping[int, tuple[str, str]],
) -> tuple[Part, ...]:
    """The culprits, advice, and what else fills the memory; `matches` are names and places in a dump by row."""
    several = len(message.culprits) > 1
    title = "Allocations, the largest first" if several else ""
    if message.has_ranges:
        allocations = ranges_table(message, matches)
    else:
        allocations = _allocations_table(message, matches, title=title, is_for_people=True)
    others = (other_ranges_table(message),) if message.other_ranges else ()
    return (
        *culprit_facts(message, window_of_culprit(message), matches.get(0)),
        allocations,
        *advice_passage(advice, memory_name(message)),
        *_identity_facts(message),
        *_fill_facts(message),
        *space_facts(message),
        *others,
        _messages_table(source, messages, is_main=not allocations.rows),
    )


def numbers_of(message: OutOfMemory, messages: Sequence[OutOfMemory]) -> dict[str, Cell]:
    """The figures of a message, for programs."""
    culprit = next(iter(message.culprits), None)
    name = culprit_name(culprit) if culprit is not None else ""
    return {
        "messages": len(messages),
        "kind": message.kind,
        "space": message.space or None,
        "stage": message.stage,
        "used_bytes": message.used_bytes,
        "limit_bytes": message.limit_bytes,
        "limit_meaning": message.limit_meaning or None,
        "exceeded_by_bytes": message.exceeded_by_bytes,
        "listed_bytes": message.allocated_bytes,
        "padding_bytes": message.padding_bytes,
        "culprit": name or (str(message.cause) if message.cause is not None else None),
        "module": message.module or None,
        "executable": message.executable or None,
    }


def notes_on(message: OutOfMemory) -> tuple[Diagnostic, ...]:
    """Notes that the message is not a failure, not on the memory of a device, or lists ranges that overlap."""
    if message.is_warning:
        return (Diagnostic("note", "the message is a warning; the compiler continues"),)
    if is_host_only(message):
        return (Diagnostic("note", "host memory is the main memory of the machine, not the memory of an accelerator"),)
    return ranges_note(message)


def _dump_commands(source: Source, advice: Sequence[Advice]) -> tuple[str, ...]:
    """The command that explains the text with the dump that is advised."""
    if not any(isinstance(each, Dump) for each in advice):
        return ()
    name = source.name if source.name not in _UNNAMED else "error.txt"
    return (f"hlo memspace DUMP --oom {quote(name)}",)


def layout_commands(advice: Sequence[Advice]) -> tuple[str, ...]:
    """The command that lists the dimension orders of the first array to reorder."""
    shapes = [each.allocations[0].shape for each in advice if isinstance(each, Reorder)]
    if not shapes or not isinstance(shape := shapes[0], ArrayShape):
        return ()
    # The command shows the order of today next to all others, so that the advice can be checked.
    order = index_text(shape.layout.minor_to_major)
    return (f"hlo layout '{shape.to_string(layout=False)}{order}' --for {USUAL_TPU}",)


def _identity_facts(message: OutOfMemory) -> tuple[Facts, ...]:
    named = {
        "module": message.module,
        "executable": message.executable,
        "device": message.device,
        "error code": message.code,
    }
    facts = tuple(Fact(label, remark=text) for label, text in named.items() if text)
    return (Facts("message", facts),) if facts else ()
