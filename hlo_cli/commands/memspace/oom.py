"""`hlo memspace --oom FILE [DUMP]`: the answer to an out-of-memory error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final, Literal

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.out_of_memory.advice import Advice, Dump, Reorder, advice_of, with_range_shapes
from hlo_cli.commands.memspace.oom_advice import advice_passage
from hlo_cli.commands.memspace.oom_answer import answer_of_message
from hlo_cli.commands.memspace.oom_names import culprit_name, memory_name
from hlo_cli.commands.memspace.oom_other import is_host_only
from hlo_cli.commands.memspace.oom_ranges import other_ranges_table, ranges_note, ranges_table, space_facts
from hlo_cli.commands.memspace.oom_tables import allocations_table, culprit_facts, fill_facts, messages_table
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.out_of_memory import KernelWindow, OutOfMemory
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Fact, Facts
from hlo_cli.source import Diagnostic, Source
from hlo_cli.syntax.out_of_memory.allocations import window_of
from hlo_cli.syntax.out_of_memory.read_logs import newest, parse_out_of_memory

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
        next=(*dump_commands(source, advice), *layout_commands(advice), "hlo help memory"),
        notes=notes_on(message),
        input={"path": source.name, "line": source.position(message.span.start).line},
    )


def window_of_culprit(message: OutOfMemory) -> KernelWindow | None:
    """The window that did not fit, if the message has one."""
    culprit = next(iter(message.culprits), None)
    if culprit is None:
        return None
    if (found := window_of(culprit.tag_text or culprit.tag)) is not None:
        return found
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
        allocations = allocations_table(message, matches, title=title, is_for_people=True)
    others = (other_ranges_table(message),) if message.other_ranges else ()
    return (
        *culprit_facts(message, window_of_culprit(message), matches.get(0)),
        allocations,
        *advice_passage(advice, memory_name(message)),
        *_names(message),
        *fill_facts(message),
        *space_facts(message),
        *others,
        messages_table(source, messages, is_main=not allocations.rows),
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


def dump_commands(source: Source, advice: Sequence[Advice]) -> tuple[str, ...]:
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
    order = index_text(shape.layout.minor_to_major)
    return (f"hlo layout '{shape.to_string(layout=False)}{order}' --for {USUAL_TPU}",)


def _names(message: OutOfMemory) -> tuple[Facts, ...]:
    named = {
        "module": message.module,
        "executable": message.executable,
        "device": message.device,
        "error code": message.code,
    }
    facts = tuple(Fact(label, remark=text) for label, text in named.items() if text)
    return (Facts("message", facts),) if facts else ()
