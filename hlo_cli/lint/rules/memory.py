"""HLO2xx: memory usage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemorySpaceUsage, memory_fits
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.advice import argument_of, donation_hint, is_donated, is_result
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste, waste_of_copy
from hlo_cli.lint.donations import Donations, donations_of
from hlo_cli.lint.groups import Common
from hlo_cli.lint.names import sized
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.peak_advice import Change
    from hlo_cli.ir.buffer_assignment import BufferAssignment

_NEEDS: Final = {"exact": "needs", "estimated": "needs about"}
_FROM_COMPILER: Final = "from the compiler's buffer assignment"
_FROM_HLO: Final = "computed from the HLO"


@rule("HLO201", "insufficient device memory")
def memory_limit(context: LintContext) -> Iterator[Finding]:
    """The module needs more memory than is available.

    The limit is max_peak_bytes, or else the memory of the device in the setting chip; without either, nothing is
    checked.

    Why: The module fails to load or runs out of memory. The total includes arguments, results, constants, and
    temporaries. It is the compiler's own if XLA's buffer assignment is in the same proto or in a file next to the dump;
    otherwise it is computed from the HLO, as by `hlo memspace`. The finding states which.

    Example:
        HloModule m, is_scheduled=true
        ENTRY main {
          x = f32[4194304,1024] parameter(0)
          ROOT y = f32[4194304,1024] negate(x)
        }

    Fix: Donate the arguments in the hint, or reduce the largest value at the peak: shard it, or reduce the batch size.
    `hlo memspace` has more suggestions.

    Reference: xla/service/buffer_assignment.h; `hlo memspace DUMP --limit 16GiB`
    """
    settings = context.settings
    chip = find_chip(settings.chip) if settings.chip is not None else None
    if (chip is None and settings.max_peak_bytes is None) or not context.module.is_scheduled:
        return
    assignment = context.module.buffer_assignment
    memory = context.analyses.memory if assignment is None else _as_assigned(context.module, assignment)
    source = _FROM_HLO if assignment is None else _FROM_COMPILER
    for fit in memory_fits(memory, settings.max_peak_bytes, chip):
        space = memory.space(fit.space)
        if fit.excess_bytes > 0 and space is not None and fit.offsets in _NEEDS:
            largest = space.live_at(space.peak)[:1]
            yield context.finding(
                f"{fit.name} {_NEEDS[fit.offsets]} {format_bytes(fit.needed_bytes)}, more than the limit of "
                f"{format_bytes(fit.limit_bytes)} ({source})",
                largest[0].instruction if largest else None,
                hint=_hint(context, memory, space),
                about=fit.name,
            )


@rule("HLO202", "very large temporary", severity="warning")
def large_temporary(context: LintContext) -> Iterator[Finding]:
    """One temporary is at least min_value_bytes in size.

    Why: Values of several gigabytes are often unintended, such as a broadcast, an all-pairs product, or a one-hot
    encoding. From 2 GiB, offsets also need more than 31 bits, which slows down some kernels.

    Example:
        y = f32[32768,32768] broadcast(x), dimensions={}

    Fix: Compute it in chunks: in JAX, jax.lax.map with batch_size, or a scan over the batch or sequence. This helps if
    what is returned is smaller than the value.

    Reference: `hlo memspace DUMP`
    """
    least = context.settings.min_value_bytes
    if not context.module.is_scheduled or not any(each.padded_bytes >= least for each in context.shapes.values()):
        return
    for value in context.analyses.memory.values:
        is_large = value.kind == "temporary" and not value.is_phi and value.padded_bytes >= least
        if is_large and not context.analyses.memory.allocations[value.allocation].is_output:
            yield context.finding(
                f"the temporary {context.user_name(value.instruction)} needs {format_bytes(value.padded_bytes)}",
                value.instruction,
                shape_span(context.module, value.instruction),
                waste=Waste(value.padded_bytes, None),
            )


@rule("HLO204", "redundant copy", severity="warning")
def redundant_copy(context: LintContext) -> Iterator[Finding]:
    """A copy produces an identical array in the same layout and memory space.

    Reported for copies of at least min_copy_bytes.

    Why: The compiler inserts such a copy if a value is updated in place while the old value is still needed, or if an
    argument is returned as a result. It needs the memory of a second array and a pass over memory.

    Example:
        y = f32[256,512]{1,0} copy(x)

    Fix: Donate an argument that is updated, and do not return an argument that is not: the caller has it already.

    Reference: xla/service/copy_insertion.h; `hlo memspace DUMP --value NAME`
    """
    least = context.settings.min_copy_bytes
    donations = cache(lambda: donations_of(context.analyses.memory, least))
    for copy in context.of(opcodes.COPY) if context.module.is_scheduled else ():
        shape = copy.shape
        if copy.computation not in context.analyses.executions or not isinstance(shape, ArrayShape):
            continue
        if shape == copy.operand_shape(0) and shape.padded_bytes >= least:
            yield context.finding(
                f"{context.user_name(copy)}, {sized(shape)}, is copied without changes",
                copy,
                shape_span(context.module, copy),
                hint=_copy_hint(context, copy, donations),
                waste=waste_of_copy(shape, shape),
            )


@rule("HLO205", "large constant", severity="warning", needs="instructions")
def large_constant(context: LintContext) -> Iterator[Finding]:
    """A constant is at least min_constant_bytes in size.

    Why: Constants are part of the compiled program, which becomes large and slow to compile and load. Every device
    keeps them in memory, even while the program is not running.

    Example:
        c = f32[512,512] constant({...})

    Fix: Pass the array as an argument. In JAX, do not close over it. If it can be computed, compute it in the program
    with jax.numpy instead of NumPy.

    Reference: xla/service/buffer_assignment.h; `hlo memspace DUMP`
    """
    for constant in context.of(opcodes.CONSTANT):
        if constant.shape.padded_bytes >= context.settings.min_constant_bytes:
            yield context.finding(
                f"the constant {context.user_name(constant)} needs {format_bytes(constant.shape.padded_bytes)}",
                constant,
                shape_span(context.module, constant),
                hint="pass the array as an argument instead of closing over it",
                waste=Waste(constant.shape.padded_bytes, None),
            )


@rule("HLO206", "unused argument", severity="warning")
def unused_argument(context: LintContext) -> Iterator[Finding]:
    """No instruction reads this argument, but it occupies memory.

    Reported for arguments of at least min_argument_bytes.

    Why: The caller has to transfer the argument to the device, and the compiler cannot reuse its memory.

    Example:
        ENTRY main {
          x = f32[2] parameter(0)
          lost = f32[1024,1024] parameter(1)
          ROOT y = f32[2] negate(x)
        }

    Fix: Do not pass it. jax.jit drops unused arguments unless keep_unused=True.

    Reference: `hlo memspace DUMP`
    """
    for parameter in context.module.entry.parameters:
        taken = parameter.shape.padded_bytes
        if taken >= context.settings.min_argument_bytes and not parameter.is_root and not context.users[parameter]:
            name = f"the argument {context.user_name(parameter)}"
            yield context.finding(
                f"{name} ({format_bytes(taken)}) is never read",
                parameter,
                hint="do not pass it: jax.jit drops unused arguments unless keep_unused=True",
                waste=Waste(taken, None),
                common=Common(f"{name} is never read"),
            )


def _as_assigned(module: Module, assignment: BufferAssignment) -> MemoryAnalysis:
    from hlo_cli.analysis.memory.memory_analysis import memory_from_assignment

    return memory_from_assignment(module, assignment)


def _hint(context: LintContext, memory: MemoryAnalysis, space: MemorySpaceUsage) -> str | None:
    """A change that lowers the peak, the arguments to donate, or the largest value at the peak."""
    from hlo_cli.analysis.memory.peak_advice import suggestions  # a large import that few runs need

    for suggestion in suggestions(memory, most=1) if not space.number else ():
        return f"{_change(suggestion.change)} to lower the peak to {format_bytes(suggestion.peak_bytes)}"
    donations = donations_of(context.analyses.memory, context.settings.min_donation_bytes)
    if donations.arguments:
        most = max(donations.arguments, key=lambda each: each.padded_bytes)
        return donation_hint(context, donations, most)
    largest = space.live_at(space.peak)[:1]
    if not largest:
        return None
    name, needed = context.user_name(largest[0].instruction), format_bytes(largest[0].padded_bytes)
    return f"reduce {name}, the largest value at the peak ({needed})"


def _change(change: Change) -> str:
    """What to change, in a few words."""
    from hlo_cli.analysis.memory.donation import Argument
    from hlo_cli.analysis.memory.peak_advice import ChangeLayouts, Donate, RecomputeScan

    match change:
        case Donate(donors=donors):
            return f"donate {', '.join(donor.name for donor in donors)}"
        case ChangeLayouts(layouts=layouts):
            first = layouts[0]
            name = first.array.label if isinstance(first.array, Argument) else f"result {index_text(first.array.index)}"
            return f"use dimension order {index_text(first.layout.minor_to_major)} for {name}"
        case RecomputeScan(stored=stored):
            return f"recompute the body of the scan {stored.forward.name} for the gradient"


def _copy_hint(context: LintContext, copy: Instruction, donations: Callable[[], Donations]) -> str | None:
    """What to do about an argument that is copied: not return it, or donate it. None for other values."""
    argument = argument_of(copy.operands[0])
    if argument is None or context.module.is_part or is_donated(context, argument):
        return None
    if is_result(context, copy):
        return f"do not return {context.user_name(argument)}, which the program does not change"
    found = next((each for each in donations().arguments if each.argument is argument), None)
    return donation_hint(context, donations(), found) if found is not None else None
