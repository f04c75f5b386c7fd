"""HLO3xx: avoidable memory traffic between kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import is_elementwise_on, uses_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.advice import argument_of, is_donated, is_only_reader, is_result
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.conversions import element_type, round_trips
from hlo_cli.lint.costs import Waste
from hlo_cli.lint.dataflow import transitive_uses
from hlo_cli.lint.groups import Common
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_CONVERTING: Final = (opcodes.CONVERT, opcodes.COPY, opcodes.RESHAPE)
_WIDE: Final = ("f32", "f64")
_ADDING: Final = COLLECTIVES | {opcodes.SCATTER, opcodes.SELECT_AND_SCATTER}
_GENERATED: Final = (opcodes.BROADCAST, opcodes.IOTA)


@rule("HLO301", "unfused elementwise kernels", severity="warning")
def unfused_elementwise(context: LintContext) -> Iterator[Finding]:
    """Two consecutive elementwise kernels are not fused.

    Reported for values of at least min_kernel_bytes between them.

    Why: In one kernel, the intermediate value would stay in registers. In two, it is written to memory and read back.

    Example:
        a = f32[65536] exponential(x)
        b = f32[65536] negate(a)

    Fix: Remove what separates them in the program, such as jax.lax.optimization_barrier. Check that no compiler option
    disables fusion, such as xla_disable_hlo_passes.

    Reference: xla/service/instruction_fusion.h; `hlo fuse DUMP --why-not`
    """
    for kernel in _written(context):
        user = _only_user(context, kernel)
        if user is None or not _same_sizes(user, kernel) or not _is_elementwise(kernel):
            continue
        if kernel in user.operands and is_elementwise_on(user, user.operands.index(kernel)):
            yield context.finding(
                f"{context.user_name(kernel)} and {context.user_name(user)} are elementwise but not fused, which costs "
                f"{format_bytes(2 * kernel.shape.padded_bytes)} of memory traffic",
                user,
                waste=Waste(2 * kernel.shape.padded_bytes),
                subject=kernel,
                other=user,
                common=Common(
                    f"{context.user_name(kernel)} and what reads it are elementwise but not fused", "function"
                ),
            )


@rule("HLO302", "kernel that only converts types", severity="warning")
def converting_kernel(context: LintContext) -> Iterator[Finding]:
    """A kernel does nothing except convert the element type.

    Reported for results of at least min_kernel_bytes, except on CPU, which computes bf16 in f32.

    Why: As part of the kernel that produces or consumes the value, a conversion is almost free. As a kernel of its own,
    it costs a pass over memory.

    Example:
        y = bf16[512,512] convert(x)

    Fix: Pass the argument in the type that the program computes in, converted once outside of it.

    Reference: xla/service/instruction_fusion.h; `hlo fuse DUMP`
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
            what = f"a kernel only converts {context.user_name(kernel)} from {' to '.join((begun, *kinds))}"
            hint = _passing_hint(context, kernel, kinds[-1])
            yield context.finding(
                f"{what} ({format_bytes(kernel.shape.padded_bytes)})",
                kernel,
                shape_span(context.module, kernel),
                hint=hint,
                waste=Waste(2 * kernel.shape.padded_bytes),
                common=Common(what, "line" if hint else "function"),
            )


@rule("HLO303", "redundant upcast", severity="warning")
def redundant_upcast(context: LintContext) -> Iterator[Finding]:
    """A value is converted to a wider type and back without any computation in between.

    Reported for values of at least min_kernel_bytes in modules that are scheduled, because compilers remove most such
    conversions, except on CPU, which computes bf16 in f32.

    Why: The value does not change, but operations in between, such as a transpose or slice, move at least twice as many
    bytes.

    Example:
        a = f32[512,512] convert(x)
        b = f32[512,512] transpose(a), dimensions={1,0}
        c = bf16[512,512] convert(b)

    Fix: Remove both conversions from the program.

    Reference: xla/hlo/transforms/simplifiers/algebraic_simplifier.h
    """
    if context.target == "cpu" or not context.module.is_scheduled:
        return
    for trip in round_trips(context, context.settings.min_kernel_bytes):
        if trip.outer.bits < trip.inner.bits:
            message = f"{context.user_name(trip.last)} is converted to {trip.inner} and back to {trip.outer}"
            yield context.finding(message, trip.last, waste=Waste(_excess_bytes(trip.first, trip.outer)))


@rule("HLO304", "value stored in a wider type than needed", severity="warning")
def stored_wide(context: LintContext) -> Iterator[Finding]:
    """A kernel writes a wide type, but every reader converts it to a narrower one.

    Reported for results of at least min_kernel_bytes, except on CPU, which computes bf16 in f32, and except for
    collectives and scatters, which may accumulate.

    Why: In the narrow type, the array would need at most half the memory and half the time to write and read.

    Example:
        a = f32[512,512] fusion(x), kind=kLoop, calls=f
        b = bf16[512,512] convert(a)

    Fix: Convert right after the producer: in JAX, x.astype(jnp.bfloat16) before a jax.lax.optimization_barrier instead
    of after it.

    Reference: xla/service/instruction_fusion.h; `hlo fuse DUMP`
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
                f"{context.user_name(kernel)} is written as {kind} ({format_bytes(kernel.shape.padded_bytes)}), "
                f"but every reader converts it to {to}",
                kernel,
                shape_span(context.module, kernel),
                waste=Waste(2 * _excess_bytes(kernel, to)),
            )


@rule("HLO305", "materialized broadcast", severity="warning")
def materialized_broadcast(context: LintContext) -> Iterator[Finding]:
    """A kernel writes a broadcast or iota to memory.

    Reported for results of at least min_kernel_bytes that are read only by elementwise kernels.

    Why: The readers could compute each element themselves and read almost nothing. Broadcasts that are passed to a
    loop, a library, or another device, or that are updated in place, must be in memory and are not reported.

    Example:
        y = f32[512,512] broadcast(x), dimensions={1}

    Fix: Remove what separates it from its reader in the program, such as jax.lax.optimization_barrier.

    Reference: xla/service/instruction_fusion.h; `hlo fuse DUMP`
    """
    for kernel in _written(context):
        if not context.analyses.does_only(kernel, *_GENERATED):
            continue
        users = uses_of(kernel, context.users)
        kind = "a broadcast" if context.analyses.does_any(kernel, opcodes.BROADCAST) else "an iota"
        if users and not kernel.is_root and all(_could_fuse(user, kernel) for user in users):
            name = context.user_name(kernel)
            yield context.finding(
                f"{name} writes {kind} of {format_bytes(kernel.shape.padded_bytes)} "
                f"that could be fused into {context.user_name(users[0])}",
                kernel,
                shape_span(context.module, kernel),
                waste=Waste(2 * kernel.shape.padded_bytes),
                other=users[0],
                common=Common(f"{name} writes {kind} that could be fused into what reads it", "function"),
            )


def _excess_bytes(wide: Instruction, narrow: PrimitiveType) -> int:
    """The bytes that an array would not need in a narrower type."""
    kind = element_type(wide)
    taken = wide.shape.padded_bytes
    return 0 if kind is None else taken - taken * narrow.bits // kind.bits


def _passing_hint(context: LintContext, kernel: Instruction, kind: str) -> str | None:
    """Which argument to pass in another type; None if the kernel converts something else, or an updated argument."""
    argument = argument_of(kernel.operands[0])
    if argument is None or context.module.is_part or is_donated(context, argument) or is_result(context, kernel):
        return None
    if not _same_sizes(argument, kernel) or not is_only_reader(context, kernel, argument):
        return None
    return f"pass {context.user_name(argument)} as {kind}"


def _written(context: LintContext) -> Iterator[Instruction]:
    """The kernels of a scheduled module that write one array of at least `min_kernel_bytes`, except copies."""
    for kernel in context.analyses.kernels if context.module.is_scheduled else ():
        is_array = kernel.opcode != opcodes.COPY and isinstance(kernel.shape, ArrayShape)
        if is_array and kernel.shape.padded_bytes >= context.settings.min_kernel_bytes:
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


def _could_fuse(user: Instruction, operand: Instruction) -> bool:
    """Whether a kernel could compute an operand itself: a fusion or an operation that is elementwise on it."""
    if user.opcode == opcodes.FUSION:
        position = user.operands.index(operand) if operand in user.operands else 0
        return is_elementwise_on(user, position)
    return operand in user.operands and is_elementwise_on(user, user.operands.index(operand))
