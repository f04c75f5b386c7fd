"""Which part of a kernel does not fit? An out-of-memory error next to the kernel in a dump: what holds how much."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from shlex import quote
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, is_tpu, tpu_generation
from hlo_cli.analysis.hardware.target import PALLAS
from hlo_cli.analysis.kernels.kernel_memory import limits_of
from hlo_cli.analysis.memory.oom_advice import Advice, RaiseScopedLimit, advice_of, is_shown
from hlo_cli.analysis.memory.oom_kernel import FailedKernel, HeldPart, failed_kernel
from hlo_cli.commands.memspace.oom import notes_on, numbers_of, parts_of, window_of_culprit
from hlo_cli.commands.memspace.oom_words import answer_of_message, culprit_name
from hlo_cli.commands.modules.loading import (
    Loaded,
    Many,
    every_module,
    input_facts,
    number_of_module,
    program_notes,
    read_one,
    stage_of,
)
from hlo_cli.commands.options.chips import chip_of
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import parse_dump_name, read_directory
from hlo_cli.inputs.files import is_file
from hlo_cli.inputs.input import Input, ModuleRef, read_module_ref
from hlo_cli.ir.buffer_assignment import BufferPlace
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.out_of_memory import KERNEL_SPACES, OomAllocation, OutOfMemory
from hlo_cli.ir.shape import Shape
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Fact, Facts, Table, rows_from
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError, Source, joined_by_and
from hlo_cli.syntax.out_of_memory.read_logs import newest, parse_out_of_memory


@dataclass(frozen=True, slots=True)
class KernelInDump:
    """The kernel of an error in a dump, with the arguments that name the dump, and its chip, if that is known."""

    failed: FailedKernel
    loaded: Loaded
    argument: str
    chip: str | None

    @property
    def name(self) -> str:
        """The name of the call in the dump."""
        return self.failed.kernel.instruction.name

    @property
    def command(self) -> tuple[str, ...]:
        """The command that shows the kernel on its chip; empty if the dump has no path."""
        if not self.argument or self.argument == "-":
            return ()
        chip = f" --chip {quote(self.chip)}" if self.chip is not None else ""
        return (f"hlo kernel {self.argument} {quote(self.name)}{chip}",)


# --- finding the kernel ---


def is_of_kernel(message: OutOfMemory) -> bool:
    """Whether an error may be about the memory of a kernel, and names an instruction."""
    return message.kind in KERNEL_SPACES and (
        message.cause is not None or any(each.kernel for each in message.culprits)
    )


def kernel_in(message: OutOfMemory, loaded: Loaded, argument: str, chip: str | None = None) -> KernelInDump | None:
    """The kernel of an error in a module; None if there is none. `chip` is the one that is selected."""
    if not is_of_kernel(message):
        return None
    name = chip_of(loaded.input, chip)
    tpu = name if name is not None and is_tpu(name) else None
    failed = failed_kernel(message, loaded.module, chip=tpu)
    return None if failed is None else KernelInDump(failed, loaded, argument, tpu)


_MOST_MODULES: Final = 64  # of a folder with thousands: a program with kernels is large, and few are read
_MOST_FOLDERS: Final = 16  # next to an error: a working directory has a few, a home directory hundreds


def loaded_with_kernel(message: OutOfMemory, inputs: Sequence[str], reading: InputOptions) -> tuple[Loaded, str] | None:
    """The module with the kernel of an error, and the arguments that name it; None if none has it."""
    many = every_module(inputs, reading)
    for chosen in islice(_inputs_of(many), _MOST_MODULES):
        if PALLAS not in chosen.source.text and chosen.proto is None:
            continue
        with suppress(HloError):  # one of many that cannot be read is not the one that is looked for
            loaded = read_one(chosen, reading)
            if kernel_in(message, loaded, "") is not None:
                number = number_of_module(chosen.path or "")
                name = f"{loaded.module.name} ({number})" if number else loaded.module.name
                note = f"using {name}, which has the kernel of the error"
                choice = note if len(many.pieces) > 1 else chosen.module_choice
                argument = _argument_of(chosen, many, inputs, reading)
                return replace(loaded, input=replace(chosen, module_choice=choice)), argument
    return None


def _inputs_of(many: Many) -> Iterator[Input]:
    """The modules of several inputs, those that can be read."""
    for piece in many.pieces:
        with suppress(HloError, OSError):
            yield from read_module_ref(piece)


def _argument_of(chosen: Input, many: Many, inputs: Sequence[str], reading: InputOptions) -> str:
    """The arguments that name one of several modules: by its name if no other has it, else by its path."""
    if len(many.pieces) == 1:
        return reading.command_line(inputs)
    names = [_name_of(piece) for piece in many.pieces]
    name = chosen.dump.module if chosen.dump is not None else ""
    if name and names.count(name) == 1:
        return replace(reading, module=name).command_line(inputs)
    return quote(chosen.path) if chosen.path else reading.command_line(inputs)


def _name_of(piece: ModuleRef) -> str:
    dump = parse_dump_name(os.path.basename(piece.path))
    return (dump.module or "") if dump is not None else ""


def _kernel_next_to(path: str, message: OutOfMemory) -> KernelInDump | None:
    """The kernel of an error in a dump next to its file: in its directory, else in a directory in that one."""
    if not is_of_kernel(message) or not is_file(path):
        return None
    folder = os.path.dirname(path) or "."
    for place in _folders_with_dumps(folder):
        with suppress(HloError, OSError):
            if (found := loaded_with_kernel(message, [place], InputOptions())) is not None:
                return kernel_in(message, *found)
    return None


def _folders_with_dumps(folder: str) -> Iterator[str]:
    with suppress(HloError):
        directory = read_directory(folder)
        if directory.dumps:
            yield folder if folder == "." else os.path.join(folder, "")
            return
        for name in directory.subdirectories[:_MOST_FOLDERS]:
            inside = os.path.join(folder if folder != "." else "", name)
            if read_directory(inside).dumps:
                yield os.path.join(inside, "")


# --- the report ---


def report_next_to_dump(source: Source) -> Report | None:
    """The answer to a message on a kernel whose file is next to a dump that has the kernel; None for others."""
    messages = parse_out_of_memory(source)
    message = newest(messages)
    found = _kernel_next_to(source.name, message)
    return None if found is None else report_of_kernel(source, messages, message, found)


def report_of_kernel(
    source: Source,
    messages: Sequence[OutOfMemory],
    message: OutOfMemory,
    found: KernelInDump,
    verdict: str = "",
    numbers: Mapping[str, Cell] = MappingProxyType({}),
) -> Report:
    """The answer to a message on a kernel: what the kernel holds in the dump, in place of the values of the program.

    `verdict` ends the answer, and `numbers` are those of the dump.
    """
    message = _with_call(message, found)
    advice = _advice(found, message)
    location = found.loaded.module.location(found.failed.kernel.instruction)
    place = str(location) if location is not None else ""
    names = {at: (culprit_name(each), place) for at, each in enumerate(message.culprits) if _is_of(each, found)}
    lines = tuple(_difference_lines(found, message))
    others = parts_of(source, messages, message, advice, names)
    return Report(
        "memspace",
        answer_of_message(message) + _words(found, message) + verdict,
        numbers={**numbers, **numbers_of(message, messages), **_numbers(found)},
        parts=(
            *_kernel_parts(found),
            *(_supporting(part, found) for part in others),
            *((Passage("disagreement", lines, title="Text and dump differ"),) if lines else ()),
        ),
        next=(*found.command, "hlo help memory"),
        notes=(
            *notes_on(message),
            *program_notes(found.loaded),
        ),
        input=input_facts(found.loaded),
    )


def _supporting(part: Part, found: KernelInDump) -> Part:
    """A part of the answer without a dump; people need no list of allocations that the table of the kernel has."""
    if part.kind != "table":
        return part
    is_repeated = part.name == "allocations" and len(part.rows) == sum(
        each.reported_bytes is not None for each in found.failed.parts
    )
    return replace(part, main=False, person=part.person and not is_repeated)


def _is_of(allocation: OomAllocation, found: KernelInDump) -> bool:
    place = allocation.place
    return place is not None and place.instruction is found.failed.kernel.instruction


# --- the message with the kernel ---


def _with_call(message: OutOfMemory, found: KernelInDump) -> OutOfMemory:
    """The message with its allocations at the call in the dump, which may have another name there."""
    call, name = found.failed.kernel.instruction, found.failed.text_name

    def placed(place: BufferPlace | None) -> BufferPlace | None:
        is_call = place is not None and place.name == name and place.instruction is None
        return BufferPlace(call, place.shape_index, name) if is_call and place is not None else place

    allocations = tuple(replace(each, place=placed(each.place)) for each in message.allocations)
    failed = message.failed
    at = next((at for at, each in enumerate(message.allocations) if each is failed), None)
    if failed is not None:
        failed = allocations[at] if at is not None else replace(failed, place=placed(failed.place))
    return replace(message, allocations=allocations, failed=failed, cause=placed(message.cause))


def _advice(found: KernelInDump, message: OutOfMemory) -> tuple[Advice, ...]:
    """The advice of the message for what the kernel needs in all: libtpu prints what is reserved when it gives up.

    A limit is only raised to what the chip has, if that is known.
    """
    failed, chip = found.failed, found.chip
    limit, needed = failed.limit_bytes, max(message.used_bytes or 0, failed.held_bytes)
    if message.kind == "tpu-vmem-scoped" and limit is not None and needed > limit:
        message = replace(message, used_bytes=needed, limit_bytes=limit, exceeded_by_bytes=needed - limit)
    generation = USUAL_TPU if chip is None else tpu_generation(chip).name
    advice = advice_of(message, window_of_culprit(message), generation=generation, has_dump=True)
    if chip is None:
        return advice
    most = limits_of(chip).largest_bytes
    return tuple(
        replace(each, vmem_bytes=((generation, most),)) if isinstance(each, RaiseScopedLimit) else each
        for each in advice
        if not isinstance(each, RaiseScopedLimit) or each.limit_bytes <= most
    )


# --- words ---


def _words(found: KernelInDump, message: OutOfMemory) -> str:
    """What the kernel holds in the dump, and by how much that is over the limit, as the end of a sentence."""
    failed = found.failed
    of = "" if stage_of(found.loaded) == "optimized" else f" ({stage_of(found.loaded)})"
    if failed.kernel.error:
        return f". In the dump{of}, the kernel {found.name} cannot be read: {failed.kernel.error}"
    space, held, limit, over = failed.space.label, failed.held_bytes, failed.limit_bytes, failed.exceeded_by_bytes
    if over is not None and over > 0 and is_shown(held, message.used_bytes or 0):
        return f". In the dump{of}, {_named(failed.parts, found.name)}"
    holds = f". In the dump{of}, {found.name} holds {format_bytes(held)} of {space}"
    if over is None or limit is None:
        return holds
    if over <= 0:
        exceeded = message.exceeded_by_bytes
        rest = "" if exceeded is None else f"{format_bytes(exceeded - over)} "
        own = f"the compiler needs {rest}more for itself{_OWN[failed.space]}"
        why = _OTHER if _other_result(found, message) else own if _lists_all(failed.parts) else f"{own}, or {_OTHER}"
        return f"{holds}, which is within the limit of {format_bytes(limit)}: {why}"
    return f"{holds} in all, {format_bytes(over)} over the limit of {format_bytes(limit)}"


_MOST_NAMED: Final = 4  # parts in a sentence; the table has all


def _named(parts: Sequence[HeldPart], kernel: str) -> str:
    """The largest parts with their sizes, in words."""
    verbs = (f" of {kernel} holds", *("" for _ in parts))
    named = [f"{part.words}{verb} {format_bytes(part.bytes)}" for part, verb in zip(parts, verbs, strict=False)]
    rest = parts[_MOST_NAMED:]
    more = [f"{len(rest):,} more {format_bytes(sum(part.bytes for part in rest))}"] if rest else []
    return joined_by_and([*named[:_MOST_NAMED], *more])


_OWN: Final = {TpuMemorySpace.VMEM: ", such as for registers that it spills", TpuMemorySpace.SMEM: ""}
_OTHER: Final = "the dump is of another version of the program"


def _lists_all(parts: Sequence[HeldPart]) -> bool:
    """Whether the message lists all parts with the size that they have in the dump."""
    return bool(parts) and all(
        part.reported_bytes is not None and is_shown(part.bytes, part.reported_bytes) for part in parts
    )


def _kinds(parts: Sequence[HeldPart]) -> dict[str, int]:
    """The bytes of windows, scratch, and scalars, of those that there are."""
    kinds = ("windows", "scratch", "prefetched scalars")
    sums = {kind: sum(part.bytes for part in parts if part.kind == kind) for kind in kinds}
    return {kind: size for kind, size in sums.items() if size}


def _difference_lines(found: KernelInDump, message: OutOfMemory) -> Iterator[str]:
    """What error and dump disagree on: the name of the call, and its result."""
    failed = found.failed
    if failed.match != "instruction":
        yield f"{failed.text_name} of the text is {found.name} in the dump, by the same {failed.match}."
    if (result := _other_result(found, message)) is not None:
        ours, theirs = (each.to_string(layout=False) for each in (result, failed.kernel.instruction.shape))
        yield f"{failed.text_name} has the result {ours} in the text and {theirs} in the dump."


def _other_result(found: KernelInDump, message: OutOfMemory) -> Shape | None:
    """The result of the call in the message, if it is another one in the dump."""
    result = next((each.shape for each in message.culprits if each.target and not each.tag), None)
    dumped = found.failed.kernel.instruction.shape
    return result if result is not None and _types(result) != _types(dumped) else None


def _types(shape: Shape) -> list[str]:
    """The arrays in a shape without layouts; a tuple of one array is that array."""
    return [leaf.to_string(layout=False) for _, leaf in shape.leaves]


# --- tables ---


def _kernel_parts(found: KernelInDump) -> tuple[Part, ...]:
    """The windows and scratch in the memory that ran out, the largest first, and their sum next to the limit."""
    failed = found.failed
    if failed.kernel.error:
        return ()
    return (_table(found), Facts("kernel", tuple(_facts(failed))))


def _table(found: KernelInDump) -> Table:
    failed = found.failed
    held, has_windows = failed.held_bytes, any(part.block for part in failed.parts)
    columns: tuple[Column[HeldPart], ...] = (
        Column("part", "part", of=lambda part: part.label),
        Column("ref", "ref", rank=2, person=any(part.name for part in failed.parts), of=lambda part: part.name or None),
        Column("shape", "array", "shape", rank=4, of=lambda part: part.type),
        Column("block", "block", person=has_windows, of=lambda part: _sizes(part.block) if part.block else None),
        Column("index_map", "index", rank=3, person=has_windows,
               of=lambda part: f"({', '.join(part.index_map)})" if part.index_map else None),
        Column("buffers", "buffers", "count", of=lambda part: part.buffers),
        Column("reserved_bytes", "held", "bytes", total="sum", of=lambda part: part.bytes),
        Column("share", "share", "percent", of=lambda part: part.bytes / held if held else None),
        Column("reported_bytes", "in the text", "bytes", person=any(part.reported_bytes for part in failed.parts),
               like="reserved_bytes", of=lambda part: part.reported_bytes),
    )  # fmt: skip
    contents = joined_by_and(list(_kinds(failed.parts))).capitalize()
    title = f"{contents} of {found.name} in {failed.space.label}, the largest first"
    return Table("kernel_parts", columns, rows_from(columns, failed.parts), title=title, noun="parts")


def _sizes(sizes: Sequence[int]) -> str:
    return f"[{','.join(map(str, sizes))}]"


def _facts(failed: FailedKernel) -> Iterator[Fact]:
    for label, words in _fact_words(failed):
        yield Fact(label, remark=words, is_whole=True)


def _fact_words(failed: FailedKernel) -> Iterator[tuple[str, str]]:
    kinds = [f"{format_bytes(size)} of {kind}" for kind, size in _kinds(failed.parts).items()]
    total = f"{format_bytes(failed.held_bytes)}: " if len(kinds) > 1 else ""
    yield "held", f"{total}{', '.join(kinds)}"
    if failed.limit_bytes is not None:
        yield "limit", f"{format_bytes(failed.limit_bytes)} ({failed.limit_origin})"
    over = failed.exceeded_by_bytes
    if over is not None and over > 0:
        yield "over", format_bytes(over)


def _numbers(found: KernelInDump) -> dict[str, Cell]:
    """The figures of the kernel, for programs."""
    failed = found.failed
    return {
        "kernel": found.name,
        "matched_by": failed.match,
        "kernel_bytes": failed.held_bytes,
        "kernel_limit_bytes": failed.limit_bytes,
        "kernel_limit_origin": failed.limit_origin or None,
        "kernel_exceeded_by_bytes": failed.exceeded_by_bytes,
    }
