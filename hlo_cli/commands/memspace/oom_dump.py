"""Where does the program of a dump run out of memory? `--oom FILE DUMP`: the error next to the dump's peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemorySpaceUsage, needed_bytes
from hlo_cli.analysis.memory.oom_advice import Advice, Donate, Reorder, advice_of, with_range_shapes
from hlo_cli.analysis.memory.oom_dump_comparison import (
    DumpComparison,
    MatchedAllocation,
    compare,
    differing_matches,
    with_allocations_of,
)
from hlo_cli.analysis.query.module_summary import ProgramStage
from hlo_cli.commands.memspace.oom import layout_commands, notes_on, numbers_of, parts_of, window_of_culprit
from hlo_cli.commands.memspace.oom_kernel import is_of_kernel, kernel_in, loaded_with_kernel, report_of_kernel
from hlo_cli.commands.memspace.oom_words import answer_of_message, culprit_name
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.report import report_of_memory
from hlo_cli.commands.memspace.usage import step_label
from hlo_cli.commands.modules.loading import Loaded, input_facts, load_one, stage_of
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.inputs.files import STDIN
from hlo_cli.ir.out_of_memory import OomKind, OutOfMemory
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.out_of_memory.read_logs import newest, parse_out_of_memory

_MAX_NAMES = 3
"""Number of instructions named in a sentence."""
_OF_MAIN_MEMORY: Final[frozenset[OomKind]] = frozenset(
    ("tpu-hbm", "gpu-allocator", "gpu-buffer-assignment", "rematerialization")
)
"""Kinds whose limit is that of the memory in which a program has its arguments, results, and temporary values."""


def load_dump(
    source: Source, inputs: Sequence[str], reading: InputOptions, options: Sequence[str]
) -> tuple[Loaded, str]:
    """The dump of a message, and the arguments that name it; of several modules, the one that the message names.

    `options` are the given options that require a single module.
    """
    message = newest(parse_out_of_memory(source))
    if is_of_kernel(message) and reading.module is None and STDIN not in inputs:
        # errors of kernels do not name their module
        with suppress(HloError):
            if (found := loaded_with_kernel(message, inputs, reading)) is not None:
                return found
    named = message.module or message.executable
    if named and reading.module is None:
        of_message = replace(reading, module=named)
        with suppress(HloError):  # the dump may be of another program, with which the message is compared
            return load_one(inputs, of_message, about=options[0]), of_message.command_line(inputs)
    return load_one(inputs, reading, about=options[0]), reading.command_line(inputs)


def report_of_message_and_dump(
    source: Source, loaded: Loaded, memory: MemoryAnalysis, options: MemspaceOptions, argument: str
) -> Report:
    """The answer to a message, its allocations with their instructions in a dump, the dump's peak, and differences."""
    messages = parse_out_of_memory(source, loaded.module)
    message = with_range_shapes(newest(messages), generation=memory.generation)
    comparison = compare(message, memory, is_optimized=stage_of(loaded) == "optimized")
    space = comparison.space
    chosen = replace(
        options,
        oom=None,
        space=str(space.number) if space is not None else None,
        limit=options.limit or _limit_of_message(message, memory, space, options),
    )
    dumped = report_of_memory(loaded, memory, chosen, argument)
    verdict = f". {dumped.answer}" if options.has_limit and "fits" in dumped.numbers else ""
    supporting = dumped.parts if space is not None else ()
    if (kernel := kernel_in(message, loaded, argument, options.chip)) is not None:
        # that the program fits in main memory is no answer to an error of a kernel, unless it is asked for
        unasked = () if options.has_limit else ("fits", "needed_bytes")
        numbers = {name: cell for name, cell in dumped.numbers.items() if name not in unasked} | _numbers(comparison)
        return report_of_kernel(source, messages, message, kernel, verdict, numbers)
    warnings = [each for each in messages if each.is_warning and each != message]
    advice = _advice_without_dump(with_allocations_of(message, space), memory, warnings)
    return Report(
        "memspace",
        answer_of_message(message) + _peak_in_words(memory, space, stage_of(loaded)) + verdict,
        numbers={**numbers_of(message, messages), **_numbers(comparison), **dumped.numbers},
        parts=(
            *parts_of(source, messages, message, advice, _names_in_dump(comparison, loaded)),
            *_differences(comparison, message, loaded),
            *(_supporting(part) for part in supporting),
        ),
        next=(*dumped.next, *layout_commands(advice)),
        notes=(*notes_on(message), *dumped.notes),
        input=input_facts(loaded),
    )


def _limit_of_message(
    message: OutOfMemory, memory: MemoryAnalysis, space: MemorySpaceUsage | None, options: MemspaceOptions
) -> str | None:
    """The limit of main memory in a message, if the program of the dump exceeds it; None if an option has another.

    What was free when an allocation failed does not limit the program, of which a part was allocated before.
    """
    if options.has_limit or space is None or space.number or message.kind not in _OF_MAIN_MEMORY:
        return None
    limit = message.limit_bytes if message.limit_meaning in ("capacity", "limit") else None
    if limit is None and message.allocator is not None:
        limit = message.allocator.limit_bytes
    # A program below the limit shares the memory with others: being below it after a change would say nothing.
    return str(limit) if limit is not None and needed_bytes(memory, space) > limit else None


def _advice_without_dump(
    message: OutOfMemory, memory: MemoryAnalysis, warnings: Sequence[OutOfMemory]
) -> tuple[Advice, ...]:
    """The advice of the message but for dimension orders and donation, which the dump decides better."""
    window = window_of_culprit(message)
    advice = advice_of(message, window, warnings=warnings, generation=memory.generation, has_dump=True)
    # The dump has every layout and alias, the message a few of them.
    return tuple(each for each in advice if not isinstance(each, Reorder | Donate))


def _supporting(part: Part) -> Part:
    """A part of the dump's report; the allocations of the message are the main table."""
    return replace(part, main=False) if part.kind == "table" else part


def _peak_in_words(memory: MemoryAnalysis, space: MemorySpaceUsage | None, stage: ProgramStage) -> str:
    if space is None:
        return ""
    live = space.live_at(space.peak_step)
    largest = f"; the largest value is {live[0]} ({format_bytes(live[0].padded_bytes)})" if live else ""
    instruction = step_label(memory, space.peak_step)
    of = "" if stage == "optimized" else f" ({stage})"
    return f". In the dump{of}, {space.name} usage peaks at {format_bytes(space.peak_bytes)} at {instruction}{largest}"


def _names_in_dump(comparison: DumpComparison, loaded: Loaded) -> dict[int, tuple[str, str]]:
    """Name and source line of the instruction of each allocation, by row; the first of those that share a range."""
    names: dict[int, tuple[str, str]] = {}
    for row, match in enumerate(comparison.matches):
        # Of several candidates that may or may not be in the range, none is named.
        if len(match.candidates) == 1 or match.is_certain:
            location = loaded.module.location(match.candidates[0])
            place = match.allocation.place
            name = str(place) if place is not None else match.candidates[0].name
            names[row] = (name, str(location) if location is not None else "")
    return names


def _numbers(comparison: DumpComparison) -> dict[str, Cell]:
    return {
        "matched": sum(bool(match.candidates) for match in comparison.matches),
        "not_in_dump": len(comparison.missing),
        "other_size_in_dump": len(list(differing_matches(comparison))),
        "dump_bytes": comparison.dump_bytes,
    }


def _differences(comparison: DumpComparison, message: OutOfMemory, loaded: Loaded) -> tuple[Passage, ...]:
    """What text and dump disagree on; with allocations, also that they agree."""
    lines = tuple(_difference_lines(comparison, message))
    if lines:
        return (Passage("disagreement", lines, title="Text and dump differ"),)
    matched = [match for match in comparison.matches if match.candidates]
    if not matched:
        return ()
    listed = format_count(len(comparison.matches), "ranges" if message.has_ranges else "allocations")
    return (Passage("disagreement", (f"{len(matched):,} of {listed} of the text are in {loaded.module.name}.",)),)


def _difference_lines(comparison: DumpComparison, message: OutOfMemory) -> Iterator[str]:
    if comparison.other_module:
        named = message.module or message.executable
        yield f"The text has module {named}, the dump {comparison.other_module}; use the dump of {named}."
    if comparison.totals_differ and comparison.message_bytes is not None and comparison.dump_bytes is not None:
        ours, dumped = format_bytes(comparison.message_bytes), format_bytes(comparison.dump_bytes)
        yield f"The program needs {ours} in the text and {dumped} in the dump."
    if missing := comparison.missing:
        of = format_count(len(comparison.matches), "allocations")
        verb = "is" if len(missing) == 1 else "are"
        yield f"{len(missing):,} of {of} {verb} not in the dump, such as {_joined_names(missing)}."
    for match in list(differing_matches(comparison))[:_MAX_NAMES]:
        ours, dumped = format_bytes(match.allocation.size_bytes or 0), format_bytes(match.dump_bytes or 0)
        yield f"{culprit_name(match.allocation)} has {ours} in the text and {dumped} in the dump."


def _joined_names(matches: Sequence[MatchedAllocation]) -> str:
    names = list(dict.fromkeys(culprit_name(match.allocation) for match in matches))
    return ", ".join(names[:_MAX_NAMES])
