"""HLO3xx: values that go through memory though they need not, or wider than they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.dataflow.elementwise import is_elementwise_on
from hlo_cli.analysis.dataflow.uses import producer_of, uses_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.conversions import element_type, round_trips
from hlo_cli.lint.dataflow import transitive_uses
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_CONVERTING: Final = (opcodes.CONVERT, opcodes.COPY, opcodes.RESHAPE)
_WIDE: Final = ("f32", "f64")
_ADDING: Final = COLLECTIVES | {opcodes.SCATTER, opcodes.SELECT_AND_SCATTER}
_MADE_FROM_LITTLE: Final = (opcodes.BROADCAST, opcodes.IOTA)


@rule("HLO301", "elementwise kernels in a row", severity="warning")
def unfused_chain(context: LintContext) -> Iterator[Finding]:
    """Two kernels stand one behind the other that both compute each element from the one at the same place.

    Why: in one kernel, what goes between them would stay in registers; as it is, it is written to memory and read back
    (kernel_bytes and more).

    Example:
        a = f32[65536] exponential(x)
        b = f32[65536] negate(a)

    Mend: see what stands between them in the program: a custom call, a barrier, a sharding that forces a value to be
    there; or a compiler option that turns fusion off.

    Reference: xla/service/instruction_fusion.h; hlo fuse DUMP --why-not
    """
    for kernel in _written(context):
        user = _only_user(context, kernel)
        if user is None or not _same_sizes(user, kernel) or not _is_elementwise(kernel):
            continue
        if kernel in user.operands and is_elementwise_on(user, user.operands.index(kernel)):
            yield context.finding(
                f"{kernel.name} and {user.name} work element by element, but "
                f"{format_bytes(2 * kernel.shape.padded_bytes)} go through memory between them",
                user,
            )


@rule("HLO302", "kernel only converts", severity="warning")
def converting_kernel(context: LintContext) -> Iterator[Finding]:
    """A kernel does nothing but change the element type (kernel_bytes and more).

    Why: whoever reads the result could convert while reading, whoever writes the operand while writing: a conversion
    costs nothing inside of another kernel, and a pass over memory by itself. Not looked for on CPUs, which compute bf16
    by way of f32.

    Example:
        y = bf16[512,512] convert(x)

    Mend: where it stands between two kernels of one program, see what keeps it from being fused; where it converts an
    argument, pass the argument in the type that is computed with, or keep it so from one call to the next.

    Reference: xla/service/instruction_fusion.h; hlo fuse DUMP
    """
    for kernel in _written(context):
        if context.target == "cpu" or not context.analyses.does_only(kernel, *_CONVERTING):
            continue
        kinds = [
            str(element_type(each)) for each in context.analyses.operations(kernel) if each.opcode == opcodes.CONVERT
        ]
        if kinds and kernel.operands:
            read = kernel.operand_shape(0)
            begun = read.element_type.name if isinstance(read, ArrayShape) else "?"
            yield context.finding(
                f"{kernel.name} only converts {' to '.join((begun, *kinds))}, "
                f"{format_bytes(kernel.shape.padded_bytes)}",
                kernel,
                shape_span(context.module, kernel),
                hint=f"{producer_of(kernel.operands[0]).name} could be converted where it is made or read",
            )


@rule("HLO303", "converted up and back", severity="warning")
def needless_upcast(context: LintContext) -> Iterator[Finding]:
    """A value is converted to a wider type and back, with nothing computed in between (kernel_bytes and more).

    Why: it comes out as it went in. What stands between, a transpose or a slice, moves twice the bytes or more. Not
    looked for on CPUs, which compute bf16 by way of f32.

    Example:
        a = f32[512,512] convert(x)
        b = f32[512,512] transpose(a), dimensions={1,0}
        c = bf16[512,512] convert(b)

    Mend: leave both conversions out.

    Reference: xla/hlo/transforms/simplifiers/algebraic_simplifier.h
    """
    if context.target == "cpu":
        return
    for trip in round_trips(context, context.settings.kernel_bytes):
        if trip.outer.bits < trip.inner.bits:
            message = f"{trip.last.name} converts back to {trip.outer} what {trip.first.name} converted to {trip.inner}"
            yield context.finding(message, trip.last)


@rule("HLO304", "stored wider than it is used", severity="warning")
def stored_wide(context: LintContext) -> Iterator[Finding]:
    """A kernel writes an array of a wide type, and all that read it convert it to a narrower one (kernel_bytes).

    Why: written in the narrow type it would take half the memory, and half the time to write and to read. Not looked
    for on CPUs, which compute bf16 by way of f32, nor where sums grow in memory or between devices.

    Example:
        a = f32[512,512] fusion(x), kind=kLoop, calls=f
        b = bf16[512,512] convert(a)

    Mend: convert in the program right behind the operation that makes the value; in jax, x.astype(jnp.bfloat16)
    before what is saved for the backward pass.

    Reference: xla/service/instruction_fusion.h; hlo fuse DUMP
    """
    for kernel in _written(context):
        kind = element_type(kernel)
        if kind is None or kind.name not in _WIDE or kernel.is_root or context.target == "cpu":
            continue
        if not _ADDING.isdisjoint(each.opcode.removesuffix("-start") for each in context.analyses.operations(kernel)):
            continue
        uses = [use.instruction for use in transitive_uses(kernel, context.users)]
        narrow = {element_type(use) for use in uses if use.opcode == opcodes.CONVERT}
        if len(narrow) != 1 or not all(use.opcode == opcodes.CONVERT for use in uses):
            continue
        [to] = narrow
        if to is not None and to.bits < kind.bits:
            yield context.finding(
                f"{kernel.name} writes {format_bytes(kernel.shape.padded_bytes)} of {kind}, "
                f"and all that read it convert that to {to}",
                kernel,
                shape_span(context.module, kernel),
            )


@rule("HLO305", "broadcast goes through memory", severity="warning")
def written_broadcast(context: LintContext) -> Iterator[Finding]:
    """A kernel writes an array that is made of little: a broadcast, or numbers counted up (kernel_bytes and more).

    Why: whoever reads it could make each element anew, and read next to nothing. What is handed to a loop, a library
    or another device, or is written into, must be there, and is not counted.

    Example:
        y = f32[512,512] broadcast(x), dimensions={1}

    Mend: see what keeps it from being fused into what reads it; mask by comparing indices where the mask is used.

    Reference: xla/service/instruction_fusion.h; hlo fuse DUMP
    """
    for kernel in _written(context):
        if not context.analyses.does_only(kernel, *_MADE_FROM_LITTLE):
            continue
        users = uses_of(kernel, context.users)
        if users and not kernel.is_root and all(_could_make(user, kernel) for user in users):
            yield context.finding(
                f"{kernel.name} writes {format_bytes(kernel.shape.padded_bytes)} that {users[0].name} "
                "could make itself",
                kernel,
                shape_span(context.module, kernel),
            )


def _written(context: LintContext) -> Iterator[Instruction]:
    """The kernels of a scheduled module that write one array of at least `kernel_bytes`, except copies."""
    for kernel in context.analyses.kernels if context.module.is_scheduled else ():
        is_array = kernel.opcode != opcodes.COPY and isinstance(kernel.shape, ArrayShape)
        if is_array and kernel.shape.padded_bytes >= context.settings.kernel_bytes:
            yield kernel


def _only_user(context: LintContext, kernel: Instruction) -> Instruction | None:
    users = context.users[kernel]
    return users[0] if len(users) == 1 and not kernel.is_root else None


def _same_sizes(a: Instruction, b: Instruction) -> bool:
    first, second = a.shape, b.shape
    if not isinstance(first, ArrayShape) or not isinstance(second, ArrayShape):
        return False
    return first.dimensions == second.dimensions


def _is_elementwise(kernel: Instruction) -> bool:
    return bool(kernel.operands) and all(is_elementwise_on(kernel, n) for n in range(len(kernel.operands)))


def _could_make(user: Instruction, operand: Instruction) -> bool:
    """Whether a kernel could compute an operand itself: a fusion or an operation that is elementwise on it."""
    if user.opcode == opcodes.FUSION:
        position = user.operands.index(operand) if operand in user.operands else 0
        return is_elementwise_on(user, position)
    return operand in user.operands and is_elementwise_on(user, user.operands.index(operand))
