"""HLO2xx: what takes more memory than it must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.uses import uses_of
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.layout.padding import data_values, orders_of
from hlo_cli.analysis.memory.memory_limits import memory_fits
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.memory.peak_reduction import suggestions
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

if TYPE_CHECKING:
    from hlo_cli.ir.compiler_files.buffers import BufferAssignment

_TAKES: Final = {"exact": "takes", "estimated": "takes about"}
_BY_COMPILER: Final = "by the compiler's buffer assignment"
_BY_TEXT: Final = "computed from the text"


@rule("HLO201", "does not fit into memory")
def over_limit(context: LintContext) -> Iterator[Finding]:
    """The module takes more of a memory than there is (peak_limit, or chip).

    Why: it will not load, or ends with an error of memory that ran out. What it takes are its arguments, results,
    constants and temporary values. Where XLA's buffer assignment lies beside the dump, or in the same proto, the
    numbers are the compiler's; else they are computed from the text, as in hlo memspace. The message says which.

    Example:
        HloModule m, is_scheduled=true
        ENTRY main {
          x = f32[4194304,1024] parameter(0)
          ROOT y = f32[4194304,1024] negate(x)
        }

    Mend: the hint names the value that is largest at the fullest moment. Donate arguments, compute values again
    instead of keeping them, spread arrays over more devices, or split the batch.

    Reference: xla/service/buffer_assignment.h; hlo memspace DUMP --limit 16GiB
    """
    settings = context.settings
    chip = find_chip(settings.chip) if settings.chip is not None else None
    if (chip is None and settings.peak_limit is None) or not context.module.is_scheduled:
        return
    assignment = context.module.buffer_assignment
    memory = context.analyses.memory if assignment is None else _as_assigned(context.module, assignment)
    whose = _BY_TEXT if assignment is None else _BY_COMPILER
    for fit in memory_fits(memory, settings.peak_limit, chip):
        space = memory.space(fit.space)
        if fit.excess_bytes > 0 and space is not None and fit.offsets in _TAKES:
            largest = space.live_at(space.peak)[:1]
            yield context.finding(
                f"{fit.name} {_TAKES[fit.offsets]} {format_bytes(fit.needed_bytes)} of "
                f"{format_bytes(fit.limit_bytes)}, {whose}",
                largest[0].instruction if largest else None,
                hint=_hint(context, space),
                about=fit.name,
            )


@rule("HLO202", "value too large", severity="warning")
def large_value(context: LintContext) -> Iterator[Finding]:
    """One temporary value takes value_bytes or more.

    Why: a single value of gigabytes is often made by mistake: by a broadcast, a product of all with all, a one-hot
    encoding. From 2 GiB on, offsets in it need more than 31 bits too, which some kernels are slower with.

    Example:
        y = f32[32768,32768] broadcast(x), dimensions={}

    Mend: compute it in pieces, by a loop over the batch or the sequence; avoid all pairs at once; or spread it over
    devices.

    Reference: hlo memspace DUMP
    """
    least = context.settings.value_bytes
    if not context.module.is_scheduled or not any(each.padded_bytes >= least for each in context.shapes.values()):
        return
    for value in context.analyses.memory.values:
        if value.kind == "temporary" and not value.is_phi and value.padded_bytes >= least:
            yield context.finding(
                f"{value} takes {format_bytes(value.padded_bytes)}",
                value.instruction,
                shape_span(context.module, value.instruction),
            )


@rule("HLO204", "copy makes the same array again", severity="warning")
def keeping_copy(context: LintContext) -> Iterator[Finding]:
    """A copy makes the same array again, in the same layout and memory (copy_bytes and more).

    Why: the compiler puts it in where something writes in place while the old value is still read, or where an
    argument is handed through as a result. It costs the memory of a second array, and a pass over it.

    Example:
        y = f32[256,512]{1,0} copy(x)

    Mend: use the old value before it is updated, do not keep both, or donate the argument that is updated.

    Reference: xla/service/copy_insertion.h; hlo memspace DUMP NAME
    """
    for copy in context.of(opcodes.COPY) if context.module.is_scheduled else ():
        shape = copy.shape
        if copy.computation not in context.analyses.times or not isinstance(shape, ArrayShape):
            continue
        if shape == copy.operand_shape(0) and shape.padded_bytes >= context.settings.copy_bytes:
            user = next(iter(uses_of(copy, context.users)), None)
            yield context.finding(
                f"{copy.name} makes {copy.operands[0].name} again, {format_bytes(shape.padded_bytes)}",
                copy,
                shape_span(context.module, copy),
                hint=f"{user.name} reads the copy" if user is not None else None,
            )


@rule("HLO205", "large constant", severity="warning", needs="instructions")
def large_constant(context: LintContext) -> Iterator[Finding]:
    """A constant takes constant_bytes or more.

    Why: it is part of the compiled program: that becomes large, slow to compile and to load, and every device holds
    the constant even while nothing runs.

    Example:
        c = f32[512,512] constant({...})

    Mend: pass the array as an argument; in jax, do not close over it. If it can be computed, do so where it is used.

    Reference: xla/service/buffer_assignment.h; hlo memspace DUMP
    """
    for constant in context.of(opcodes.CONSTANT):
        if constant.shape.padded_bytes >= context.settings.constant_bytes:
            yield context.finding(
                f"{constant.name} is a constant of {format_bytes(constant.shape.padded_bytes)}",
                constant,
                shape_span(context.module, constant),
            )


@rule("HLO206", "argument that nobody reads", severity="warning")
def unread_argument(context: LintContext) -> Iterator[Finding]:
    """No instruction reads an argument, but it takes memory all the time (argument_bytes and more).

    Why: who calls the module must put it there, and the compiler may not use its place.

    Example:
        ENTRY main {
          x = f32[2] parameter(0)
          lost = f32[1024,1024] parameter(1)
          ROOT y = f32[2] negate(x)
        }

    Mend: do not pass it; jax.jit leaves out unused arguments unless keep_unused=True says otherwise.

    Reference: hlo memspace DUMP
    """
    for parameter in context.module.entry.parameters:
        taken = parameter.shape.padded_bytes
        if taken >= context.settings.argument_bytes and not parameter.is_root and not context.users[parameter]:
            yield context.finding(f"nothing reads {parameter.name}, {format_bytes(taken)}", parameter)


def _as_assigned(module: Module, assignment: BufferAssignment) -> MemoryAnalysis:
    from hlo_cli.analysis.memory.compiler_memory import (
        memory_from_assignment,  # a large import that pages and lists do not need
    )

    return memory_from_assignment(module, assignment)


def _hint(context: LintContext, space: MemorySpaceUsage) -> str | None:
    """A change that lowers the peak, or the largest value at the peak."""
    orders = orders_of(context.module, data_values(context.module))
    for suggestion in suggestions(space, orders, most=1):
        reordered = suggestion.reordered[0]
        order = ",".join(map(str, reordered.better.layout.minor_to_major))
        return f"order {{{order}}} of {reordered.value} makes the peak {format_bytes(suggestion.peak_bytes)}"
    largest = space.live_at(space.peak)[:1]
    return f"at its peak, {largest[0]} takes {format_bytes(largest[0].padded_bytes)}" if largest else None
