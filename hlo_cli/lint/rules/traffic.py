"""HLO1xx, HLO3xx, HLO8xx: which bytes are moved for nothing: padding, copies, values between kernels and in them?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.dependencies import is_elementwise_on, producer_of, uses_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU, find_chip
from hlo_cli.analysis.layout.buffer_sizes import data_values, orders_of
from hlo_cli.analysis.layout.tpu_layout import default_order, default_tpu_layout
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import COMBINE, Layout, PrimitiveType
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.advice import (
    argument_of,
    is_donated,
    is_only_reader,
    is_result,
    layout_hint,
    merging_hint,
    padding_hint,
    relayout_hint,
    transposing_hint,
)
from hlo_cli.lint.finding_facts import Common, Waste, sized, waste_of_array, waste_of_copy
from hlo_cli.lint.rule import LintContext, rule, shape_span
from hlo_cli.lint.settings import LintSettings
from hlo_cli.lint.value_flow import element_type, round_trips, transitive_uses
from hlo_cli.report.findings import COUNT, Finding
from hlo_cli.report.numbers import format_bytes, format_count, format_percent

if TYPE_CHECKING:
    from hlo_cli.analysis.kernels.pallas_kernels import KernelWindow, PallasKernel

# --- HLO1xx: padding and layout-changing copies ---


_FROM_END: Final = ("the last dimension", "the second-to-last dimension", "the third-to-last dimension")


@rule("HLO101", "mostly padding", severity="warning", needs="text")
def mostly_padding(context: LintContext) -> Iterator[Finding]:
    """More than half of a buffer is padding.

    Reported for buffers with at least min_padding_bytes of padding, if padding is more than max_padding_fraction of the
    buffer.

    Why: A tiled layout rounds dimensions up to whole tiles, most of all the two most minor ones. Padding occupies
    memory, and every kernel that reads or writes the buffer transfers it too.

    Example:
        y = f32[65536,2]{1,0:T(8,128)} negate(x)

    Fix: Change the size of the padded dimension, or merge it with another one. Another dimension order helps for
    arguments and results alone; where one is smaller, the help of the finding names it. The compiler chooses the
    layouts of other values.

    Reference: https://openxla.org/xla/tiled_layout; `hlo layout DUMP`
    """
    module, settings = context.module, context.settings
    values = data_values(module)
    padded = [value for value in values if _is_mostly_padding(value.shape, settings)]
    if not padded:
        return
    # Orders of dimensions are computed only if something is padded.
    orders = orders_of(module, values)
    for value in padded:
        taken, padding = value.shape.padded_bytes, value.shape.padded_bytes - value.shape.logical_bytes
        better = orders.alternative(value.shape)
        name = context.user_name(value.instruction)
        shape, share = value.shape.to_string(layout=False), format_percent(padding / taken)
        amount = f"({format_bytes(padding)} of {format_bytes(taken)})"
        hint = padding_hint(context, value.instruction, value.shape, better) if not value.index else None
        yield context.finding(
            f"{share}% of {name} ({shape}) is padding {amount}",
            value.instruction,
            shape_span(module, value.instruction),
            hint=hint,
            waste=waste_of_array(padding, value.shape, context.target),
            # Where the compiler chooses the layout, only other sizes help, and they are those of all equal shapes.
            common=None if hint else _common(value.shape, f"{share}% of each of {COUNT} {shape} arrays is padding"),
        )


@rule("HLO102", "layout-changing copy", severity="warning", needs="text")
def layout_copy(context: LintContext) -> Iterator[Finding]:
    """A copy writes the same values in a different dimension order or tiling.

    Reported for copies that waste at least min_copy_bytes. A copy to on-chip memory, such as VMEM, is needed in any
    layout, and wastes only the padding that the other layout does not have.

    Why: The copy computes nothing and costs a pass over memory, usually because the producer and the consumer require
    different layouts.

    Example:
        y = f32[256,256]{0,1} copy(x)

    Fix: For an argument or a result, set its layout: in JAX, Format and Layout of
    jax.experimental.layout. Between operations of the program, the compiler chooses layouts.

    Reference: xla/service/layout_assignment.h; `hlo layout DUMP`
    """
    for copy in context.of(opcodes.COPY, opcodes.COPY_START):
        read, written = _before_and_after(copy)
        if read is None or written is None or written.padded_bytes < context.settings.min_copy_bytes:
            continue
        if copy.computation in context.fused:  # part of a larger kernel
            continue
        order, tiles = read.layout.minor_to_major, read.layout.tiles
        if order != written.layout.minor_to_major:
            kind, ends = "the dimension order", (_order(read), _order(written))
        elif tiles != written.layout.tiles:
            kind, ends = "the tiles", (_tiles(read), _tiles(written))
        else:
            continue
        waste = waste_of_copy(read, written)
        if waste.bytes < context.settings.min_copy_bytes:
            continue
        name, hint = context.user_name(copy), layout_hint(context, copy, read, written)
        yield context.finding(
            f"{name} {sized(written, name)} is copied to change {kind} from {ends[0]} to {ends[1]}",
            copy,
            shape_span(context.module, copy),
            hint=hint,
            waste=waste,
            common=None if hint else _common_change(name, written.rank, kind, ends),
        )


def _common(shape: ArrayShape, similar: str) -> Common:
    """What padding has in common where the compiler chooses the layout: only another size of the dimension helps."""
    sizes, order = shape.dimensions, shape.layout.minor_to_major
    tile = shape.layout.tiles[0].dimensions[::-1] if shape.layout.tiles else ()
    # The dimension with the largest factor: the one to change.
    padded = [(at, sizes[at], -(-sizes[at] // size) * size) for at, size in zip(order, tile, strict=False) if size > 0]
    most = max(padded, key=lambda each: each[2] / max(each[1], 1), default=None)
    # Combined dimensions have no single size.
    if most is None or COMBINE in tile:
        return Common(similar, "anywhere")
    at, size, rounded = most
    from_end = len(sizes) - 1 - at
    which = _FROM_END[from_end] if from_end < len(_FROM_END) else f"dimension {at} of {len(sizes)}"
    return Common(f"{COUNT} arrays are padded from {size:,} to {rounded:,} in {which}", "anywhere", similar)


def _before_and_after(copy: Instruction) -> tuple[ArrayShape | None, ArrayShape | None]:
    if not copy.operands:
        return None, None
    read = copy.operand_shape(0)
    return (read if isinstance(read, ArrayShape) else None), _written_array(copy)


def _common_change(name: str, rank: int, kind: str, ends: tuple[str, str]) -> Common:
    """What copies have in common that no argument or result causes: arrays of equal rank in one function."""
    what = f"{COUNT} copies of {name} ({rank} dimensions) change {kind}"
    return Common(what, "function", "{} between {} and {}".format(what, *sorted(ends)))


def _order(shape: ArrayShape) -> str:
    return index_text(shape.layout.minor_to_major)


def _tiles(shape: ArrayShape) -> str:
    return "".join(map(str, shape.layout.tiles)) or "none"


def _is_mostly_padding(shape: ArrayShape, settings: LintSettings) -> bool:
    taken = shape.padded_bytes
    padding = taken - shape.logical_bytes
    return padding >= settings.min_padding_bytes and padding > settings.max_padding_fraction * taken


# --- HLO1xx: kernels that only move data or change layouts ---


_VERBS: Final = frozenset(("copy", "reshape", "transpose"))
"""The opcodes that only move data, which are verbs, too."""


@rule("HLO103", "kernel that only moves data", severity="warning")
def data_movement_kernel(context: LintContext) -> Iterator[Finding]:
    """A kernel does nothing except transpose or change the layout.

    Reported for kernels that waste at least min_copy_bytes. A kernel that also moves the array to on-chip memory, such
    as VMEM, does what is needed in any layout.

    Why: The kernel computes nothing, but reads and writes the whole array. A copy that is not part of a fusion is
    reported by HLO102.

    Example:
        y = f32[256,512]{1,0} transpose(x), dimensions={1,0}

    Fix: For a transposed argument, pass it transposed, and remove the transpose from the program.

    Reference: xla/service/layout_assignment.h; `hlo fuse DUMP`
    """
    if not context.module.is_scheduled:
        return
    for kernel in context.analyses.kernels:
        shape = kernel.shape
        # A lone copy is HLO102's.
        if kernel.opcode == "copy" or not isinstance(shape, ArrayShape) or not kernel.operands:
            continue
        waste = waste_of_copy(kernel.operand_shape(0), shape)
        if waste.bytes >= context.settings.min_copy_bytes and _only_moves_data(context, kernel):
            verbs = dict.fromkeys(each.opcode for each in context.analyses.operations(kernel))
            what = f"nothing but {' and '.join(verbs)} {context.user_name(kernel)}"
            hint = transposing_hint(context, kernel)
            yield context.finding(
                f"a kernel does {what} {sized(shape)}",
                kernel,
                shape_span(context.module, kernel),
                hint=hint,
                waste=waste,
                common=None if hint else Common(f"{COUNT} kernels do {what}", "function"),
            )


@rule("HLO104", "dimensions smaller than a tile", severity="warning", needs="text")
def small_dimensions(context: LintContext) -> Iterator[Finding]:
    """An argument of an uncompiled module will be mostly padding on the configured TPU.

    Reported if the setting chip names a TPU, for arguments with at least min_padding_bytes of padding, if padding is
    more than max_padding_fraction of the buffer.

    Why: TPUs store arrays in tiles, such as 8 by 128, along the two dimensions that need the least padding. If the
    minor dimension is small and no other dimension is large, most of each tile is empty. The predicted layout is the
    one that the compiler assigns to arguments without a layout of their own.

    Example:
        ENTRY main { x = f32[40,40,40] parameter(0) }

    Fix: Pass the argument with merged dimensions: f32[40,1600] instead of f32[40,40,40].

    Reference: https://openxla.org/xla/tiled_layout; `hlo layout SHAPE --for v5e`
    """
    generation = find_chip(context.settings.chip).generation if context.settings.chip is not None else None
    # A compiled module has its real layouts, for which HLO101 is.
    if generation is None or context.target is not None:
        return
    for parameter in context.module.entry.parameters:
        for _, leaf in parameter.shape.leaves:
            order = default_order(leaf, generation=generation) if isinstance(leaf, ArrayShape) else None
            if not isinstance(leaf, ArrayShape) or order is None:
                continue
            layout = default_tpu_layout(leaf, generation=generation, minor_to_major=order)
            padded = replace(leaf, layout=layout)
            taken = padded.padded_bytes
            padding = taken - leaf.logical_bytes
            is_much = padding > context.settings.max_padding_fraction * taken
            if is_much and padding >= context.settings.min_padding_bytes:
                yield context.finding(
                    f"{format_percent(padding / taken)}% of {context.user_name(parameter)} will be padding on "
                    f"{context.settings.chip} ({format_bytes(padding)} of {format_bytes(taken)})",
                    parameter,
                    shape_span(context.module, parameter),
                    hint=merging_hint(padded, verb="pass it", generation=generation),
                    waste=Waste(padding),
                )


@rule("HLO105", "redundant layout round trip", severity="warning")
def layout_round_trip(context: LintContext) -> Iterator[Finding]:
    """A value is copied to another layout and then back.

    Reported for copies of at least min_copy_bytes.

    Why: Consumers that need the first layout could read the original value. If no operation in between needs the second
    layout, both copies are redundant.

    Example:
        b = f32[256,512]{0,1} copy(a)
        c = f32[256,512]{1,0} copy(b)

    Fix: Remove the layout that is required in between, such as one set with with_layout_constraint of
    jax.experimental.layout.

    Reference: xla/service/layout_assignment.h; `hlo layout DUMP`
    """
    for last in context.of("copy", "copy-start"):
        first = producer_of(last.operands[0]) if last.operands else last
        if first.opcode not in ("copy", "copy-start") or not first.operands:
            continue
        begun, between, ended = _array_of(first.operands[0]), _written_array(first), _written_array(last)
        if begun is None or between is None or ended is None or ended.padded_bytes < context.settings.min_copy_bytes:
            continue
        waste = waste_of_copy(between, ended)
        if waste.bytes < context.settings.min_copy_bytes:
            continue
        # Both ends equal, and the middle different: two copies for nothing.
        if _order_and_tiles(begun) == _order_and_tiles(ended) != _order_and_tiles(between):
            yield context.finding(
                f"{context.user_name(last)}, {sized(ended)}, is copied back to the layout that another copy changed",
                last,
                shape_span(context.module, last),
                waste=waste,
            )


@rule("HLO106", "layout-changing elementwise kernel", severity="note")
def elementwise_layout_change(context: LintContext) -> Iterator[Finding]:
    """A kernel reads an array in one layout and writes it element by element in another.

    Reported for results of at least min_copy_bytes.

    Why: Elements that are adjacent in the operand are apart in the result, so the kernel must also rearrange them.

    Example:
        y = f32[1024,256]{0,1:T(8,128)} negate(x)

    Fix: Use the same dimension order for operand and result: in JAX, the same Format in in_shardings and out_shardings.

    Reference: https://openxla.org/xla/tiled_layout; `hlo layout DUMP`
    """
    for kernel in context.analyses.kernels if context.module.is_scheduled else ():
        written = kernel.shape
        if not isinstance(written, ArrayShape) or written.padded_bytes < context.settings.min_copy_bytes:
            continue
        # A kernel that only moves data is HLO103's.
        if _only_moves_data(context, kernel):
            continue
        for position, operand in enumerate(kernel.operands):
            read = kernel.operand_shape(position)
            if not isinstance(read, ArrayShape) or read.dimensions != written.dimensions or written.rank < 2:
                continue
            if _has_same_tiling(read, written) or not is_elementwise_on(kernel, position):
                continue
            name, hint = context.user_name(kernel), relayout_hint(context, kernel, operand, read.layout)
            yield context.finding(
                f"{name} reads {context.user_name(operand)} with layout {_short(read.layout)} "
                f"and writes layout {_short(written.layout)}",
                kernel,
                shape_span(context.module, kernel),
                hint=hint,
                waste=waste_of_array(written.padded_bytes, written, context.target),
                other=operand,
                common=None if hint else Common(f"{COUNT} kernels change the layout of {name}", "function"),
            )
            # One operand is enough: all are read by the same kernel.
            break


def _only_moves_data(context: LintContext, kernel: Instruction) -> bool:
    if not context.analyses.does_only(kernel, *_VERBS):
        return False
    return any(
        each.opcode != "copy" or each.shape != each.operand_shape(0) for each in context.analyses.operations(kernel)
    )


def _array_of(instruction: Instruction) -> ArrayShape | None:
    return instruction.shape if isinstance(instruction.shape, ArrayShape) else None


def _written_array(copy: Instruction) -> ArrayShape | None:
    # A copy-start is a tuple of the new array, the old one, and a context (hlo_verifier.cc, HandleCopyStart).
    leaf = dict(copy.shape.leaves).get(() if copy.opcode == opcodes.COPY else (0,))
    return leaf if isinstance(leaf, ArrayShape) else None


def _order_and_tiles(shape: ArrayShape) -> tuple[object, ...]:
    """Dimensions and layout without the memory space."""
    return shape.dimensions, shape.layout.minor_to_major, shape.layout.tiles


def _has_same_tiling(read: ArrayShape, written: ArrayShape) -> bool:
    """Whether two arrays have the same layout; narrower types are packed in further tiles inside the first."""
    if read.layout.minor_to_major != written.layout.minor_to_major:
        return False
    # Narrower types have additional tiles for packing, not another order.
    if read.element_type.bits != written.element_type.bits:
        return True
    return read.layout.tiles == written.layout.tiles


def _short(layout: Layout) -> str:
    return str(replace(layout, memory_space=0))


# --- HLO3xx: avoidable memory traffic between kernels ---


# What a kernel that only converts may also do.
_CONVERTING_OPCODES: Final = (opcodes.CONVERT, opcodes.COPY, opcodes.RESHAPE)
# Types that take twice the bytes, or more, of what matrix units read.
_WIDE_TYPES: Final = ("f32", "f64")
# These add in the wide type, so the wide store is needed.
_ADDING_OPCODES: Final = COLLECTIVES | {opcodes.SCATTER, opcodes.SELECT_AND_SCATTER}
_GENERATING_OPCODES: Final = (opcodes.BROADCAST, opcodes.IOTA)


@rule("HLO301", "unfused elementwise kernels", severity="warning")
def unfused_elementwise(context: LintContext) -> Iterator[Finding]:
    """Two consecutive elementwise kernels are not fused.

    Reported for values of at least min_kernel_bytes between them; on CPU only if no rule of the compiler prevents the
    fusion.

    Why: In one kernel, the intermediate value would stay in registers. In two, it is written to memory and read back.

    Example:
        a = f32[65536] exponential(x)
        b = f32[65536] negate(a)

    Fix: Remove what separates them in the program, such as jax.lax.optimization_barrier. Check that no compiler option
    disables fusion, such as xla_disable_hlo_passes.

    Reference: xla/service/instruction_fusion.h; `hlo fuse DUMP --why-not`
    """
    is_allowed = _fusion_rules(context)
    for kernel in _writing_kernels(context):
        user = _only_user(context, kernel)
        if user is None or not _is_elementwise(kernel) or kernel not in user.operands:
            continue
        if is_elementwise_on(user, user.operands.index(kernel)) and is_allowed(kernel, user):
            yield context.finding(
                f"{context.user_name(kernel)} and {context.user_name(user)} are elementwise but not fused, which costs "
                f"{format_bytes(2 * kernel.shape.padded_bytes)} of memory traffic",
                user,
                waste=waste_of_array(2 * kernel.shape.padded_bytes, kernel.shape, context.target),
                subject=kernel,
                other=user,
                common=Common(
                    f"{COUNT} elementwise kernels on {context.user_name(kernel)} are not fused with their users",
                    "function",
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

    Fix: Remove the conversion, or let the operation before it write the new type: in JAX, with dtype or
    preferred_element_type. If it converts an argument, pass that in the type that the program computes in.

    Reference: xla/service/instruction_fusion.h; `hlo fuse DUMP`
    """
    for kernel in _writing_kernels(context):
        # The CPU has no narrow arithmetic, so it converts around each operation.
        if context.target == "cpu" or not context.analyses.does_only(kernel, *_CONVERTING_OPCODES):
            continue
        kinds = [
            str(element_type(each)) for each in context.analyses.operations(kernel) if each.opcode == opcodes.CONVERT
        ]
        if kinds and kernel.operands:
            read = kernel.operand_shape(0)
            begun = read.element_type.name if isinstance(read, ArrayShape) else "?"
            what = f"convert {context.user_name(kernel)} from {' to '.join((begun, *kinds))}"
            hint = _passing_hint(context, kernel, kinds[-1])
            yield context.finding(
                f"a kernel does nothing but {what} ({format_bytes(kernel.shape.padded_bytes)})",
                kernel,
                shape_span(context.module, kernel),
                hint=hint,
                waste=waste_of_array(2 * kernel.shape.padded_bytes, kernel.shape, context.target),
                common=Common(f"{COUNT} kernels do nothing but {what}", "line" if hint else "function"),
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
    for kernel in _writing_kernels(context):
        kind = element_type(kernel)
        if kind is None or kind.name not in _WIDE_TYPES or kernel.is_root or context.target == "cpu":
            continue
        # A sum in the wide type needs it until it is done.
        if not _ADDING_OPCODES.isdisjoint(
            each.opcode.removesuffix("-start") for each in context.analyses.operations(kernel)
        ):
            continue
        uses = [use.instruction for use in transitive_uses(kernel, context.users)]
        narrow = {element_type(use) for use in uses}
        if len(narrow) != 1 or not all(use.opcode == opcodes.CONVERT for use in uses):
            continue
        [to] = narrow
        if to is not None and to.bits < kind.bits:
            yield context.finding(
                f"{context.user_name(kernel)} is written as {kind} ({format_bytes(kernel.shape.padded_bytes)}), "
                f"but every reader converts it to {to}",
                kernel,
                shape_span(context.module, kernel),
                waste=waste_of_array(2 * _excess_bytes(kernel, to), kernel.shape, context.target),
            )


@rule("HLO305", "materialized broadcast", severity="warning")
def materialized_broadcast(context: LintContext) -> Iterator[Finding]:
    """A kernel writes a broadcast or iota to memory.

    Reported for results of at least min_kernel_bytes that are read only by elementwise kernels; on CPU only if no rule
    of the compiler prevents the fusion.

    Why: The readers could compute each element themselves and read almost nothing. Broadcasts that are passed to a
    loop, a library, or another device, or that are updated in place, must be in memory and are not reported.

    Example:
        y = f32[512,512] broadcast(x), dimensions={1}

    Fix: If a jax.lax.optimization_barrier separates it from its reader, remove the barrier. If not, a compiler option
    may disable fusion, such as xla_disable_hlo_passes.

    Reference: xla/service/instruction_fusion.h; `hlo fuse DUMP --why-not`
    """
    is_allowed = _fusion_rules(context)
    for kernel in _writing_kernels(context):
        if not context.analyses.does_only(kernel, *_GENERATING_OPCODES):
            continue
        users = uses_of(kernel, context.users)
        is_broadcast = context.analyses.does_any(kernel, opcodes.BROADCAST)
        kind, kinds = ("a broadcast", "broadcasts") if is_broadcast else ("an iota", "iotas")
        # A result has to be in memory.
        if (
            users
            and not kernel.is_root
            and all(_could_fuse(user, kernel) and is_allowed(kernel, user) for user in users)
        ):
            name = context.user_name(kernel)
            yield context.finding(
                f"{name} writes {kind} of {format_bytes(kernel.shape.padded_bytes)} "
                f"that could be fused into {context.user_name(users[0])}",
                kernel,
                shape_span(context.module, kernel),
                waste=waste_of_array(2 * kernel.shape.padded_bytes, kernel.shape, context.target),
                other=users[0],
                common=Common(
                    f"{COUNT} kernels write {kinds} that could be fused into their users: {name}", "function"
                ),
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
    if _sizes(argument) != _sizes(kernel) or not is_only_reader(context, kernel, argument):
        return None
    return f"pass {context.user_name(argument)} as {kind}"


def _writing_kernels(context: LintContext) -> Iterator[Instruction]:
    """The kernels of a scheduled module that write one array of at least `min_kernel_bytes`, except copies."""
    for kernel in context.analyses.kernels if context.module.is_scheduled else ():
        is_array = kernel.opcode != opcodes.COPY and isinstance(kernel.shape, ArrayShape)
        if is_array and kernel.shape.padded_bytes >= context.settings.min_kernel_bytes:
            yield kernel


def _only_user(context: LintContext, kernel: Instruction) -> Instruction | None:
    users = context.users[kernel]
    return users[0] if len(users) == 1 and not kernel.is_root else None


def _sizes(instruction: Instruction) -> tuple[int, ...] | None:
    """The sizes of an array; None if a value is no array."""
    return instruction.shape.dimensions if isinstance(instruction.shape, ArrayShape) else None


def _is_elementwise(kernel: Instruction) -> bool:
    return bool(kernel.operands) and all(is_elementwise_on(kernel, n) for n in range(len(kernel.operands)))


def _fusion_rules(context: LintContext) -> Callable[[Instruction, Instruction], bool]:
    """Whether no rule prevents that a kernel is fused into its reader, as `hlo fuse --why-not` decides it.

    The rules are those of the CPU compiler; of other targets every pair counts.
    """
    if context.target != "cpu":
        return lambda kernel, user: True
    from hlo_cli.analysis.fusion.unfused_pairs import rules_of_pairs  # a large import that few modules need

    rules_in = cache(rules_of_pairs)

    def is_allowed(kernel: Instruction, user: Instruction) -> bool:
        # What reads it through a bitcast is no pair of operations of the pass.
        return kernel not in user.operands or rules_in(kernel.computation)(kernel, user).fuses

    return is_allowed


def _could_fuse(user: Instruction, operand: Instruction) -> bool:
    """Whether a kernel could compute an operand itself: a fusion or an operation that is elementwise on it."""
    if user.opcode == opcodes.FUSION:
        # Through a bitcast or a tuple the operand has another name; then the first one stands for it.
        position = user.operands.index(operand) if operand in user.operands else 0
        return is_elementwise_on(user, position)
    return operand in user.operands and is_elementwise_on(user, user.operands.index(operand))


# --- Pallas kernels ---


_TARGET: Final = "tpu_custom_call"


def _kernels(context: LintContext) -> Iterator[PallasKernel]:
    """The kernels whose bodies can be read, each call once."""
    if not any(True for _ in context.with_attribute_text(_TARGET, "custom-call")):  # only faster
        return
    from hlo_cli.analysis.kernels.pallas_kernels import pallas_kernels_of  # reads MLIR, which few modules have

    for kernel in pallas_kernels_of(context.module, chip=_chip(context)):
        if not kernel.error:
            yield kernel


def _chip(context: LintContext) -> str | None:
    """The TPU that the kernels are for, if it is known."""
    return context.chip.chip if context.chip is not None and context.target == "tpu" else None


def _limit(context: LintContext, kernel: PallasKernel) -> int:
    """The bytes of VMEM that a kernel may hold."""
    from hlo_cli.analysis.kernels.kernel_memory import limits_of

    return kernel.limit_bytes or limits_of(_chip(context) or USUAL_TPU).default_bytes


def _held(kernel: PallasKernel) -> int:
    """The bytes of VMEM that a kernel holds: what the compiler says, or at least what its text says."""
    return max(kernel.vmem_bytes, kernel.used_vmem_bytes or 0)


# --- HLO8xx ---


@rule("HLO801", "window read again that could stay", severity="warning")
def window_read_again(context: LintContext) -> Iterator[Finding]:
    """A Pallas kernel reads an operand several times that fits in VMEM as a whole.

    Reported if at least min_kernel_bytes are read again, and if VMEM has room for the whole operand and the kernel's
    other windows.

    Why: A block is read from main memory whenever its index changes from one step of the grid to the next. An
    operand whose block is the whole array is read once, and needs one buffer instead of two.

    Example:
        r = bf16[1024,1536] custom-call(x, y), custom_call_target="tpu_custom_call",
          backend_config={"custom_call_config":{"body":"TUzvUg…"}}

    Fix: Make the block of the operand larger: pl.BlockSpec without arguments, or a block of all rows that the kernel
    slices itself. Or order the grid so that the dimensions which the operand's index map does not mention run fastest.

    Reference: `hlo kernel DUMP NAME`
    """
    for kernel in _kernels(context):
        room = _limit(context, kernel) - _held(kernel)
        for again, window in sorted(_read_again(kernel), key=lambda each: -each[0]):
            more = window.shape.padded_bytes - window.bytes
            if again < context.settings.min_kernel_bytes or more > room:
                continue
            room -= max(more, 0)
            call = kernel.instruction
            operand = call.operands[window.number]
            name, size = context.user_name(operand), format_bytes(window.shape.logical_bytes)
            times = (window.moved_bytes or 0) / window.shape.logical_bytes
            yield context.finding(
                f"kernel {kernel.name} reads {name} ({size}) {times:.3g} times, although it fits in VMEM",
                call,
                waste=Waste(again),
                other=operand,
                about=window.label,
                common=Common(f"{COUNT} operands of kernels are read several times, but fit in VMEM", "function"),
                hint=f"make its block all of it, {index_text(window.shape.sizes, '()')}, with an index map that "
                f"returns zeros; that needs {format_bytes(max(more, 0))} more VMEM",
            )


def _read_again(kernel: PallasKernel) -> Iterator[tuple[int, KernelWindow]]:
    """Operands in main memory with the bytes read beyond all of them; not those whose blocks an array chooses."""
    for window in kernel.windows:
        if not window.is_output and window.index_map and window.space == "vmem" and not window.is_bound:
            yield (window.moved_bytes or 0) - window.shape.logical_bytes, window


@rule("HLO802", "padded block", severity="note")
def padded_block(context: LintContext) -> Iterator[Finding]:
    """More than max_padding_fraction of the VMEM that a window of a Pallas kernel takes is padding.

    Reported for at least min_padding_bytes.

    Why: VMEM holds tiles of 8 or more rows and 128 columns. A block of one column takes as much as one of 128.

    Example:
        r = f32[8192,1] custom-call(x), custom_call_target="tpu_custom_call",
          backend_config={"custom_call_config":{"body":"TUzvUg…"}}

    Fix: Let the last dimension of the block be a multiple of 128, and the one before a multiple of 8, 16 for 16-bit
    types, or 32 for 8-bit types. Pass a column as a row, or several of them at once.

    Reference: `hlo kernel DUMP NAME`; `hlo layout`
    """
    settings = context.settings
    for kernel in _kernels(context):
        for window in kernel.windows:
            logical = _logical(window)
            padding = window.bytes - logical
            if (
                window.space == "vmem"
                and padding >= settings.min_padding_bytes
                and padding > settings.max_padding_fraction * window.bytes
            ):
                yield context.finding(
                    f"{window.label} of kernel {kernel.name}, {_block_text(window)}, takes "
                    f"{format_bytes(window.bytes)} of VMEM for {format_bytes(logical)}",
                    kernel.instruction,
                    waste=Waste(padding, None),
                    about=window.label,
                    common=Common(f"{COUNT} blocks of kernels are mostly padding", "function"),
                )


def _block_text(window: KernelWindow) -> str:
    buffers = "" if window.buffers < 2 else f", {window.buffers} buffers"
    return f"{window.element_type}[{','.join(map(str, window.block))}]{buffers}"


def _logical(window: KernelWindow) -> int:
    return window.shape.element_bits * prod(window.block) // 8 * window.buffers


@rule("HLO803", "small steps of a kernel", severity="note")
def small_steps(context: LintContext) -> Iterator[Finding]:
    """A Pallas kernel that memory bounds moves less than 256 KiB in a step, and uses less than half of VMEM.

    Reported for kernels that move at least min_kernel_bytes in at least 8 steps.

    Why: To begin each step of the grid takes about as long as moving 256 KiB. Larger blocks are fewer steps, and VMEM
    has room for them.

    Example:
        r = f32[768,512] custom-call(i, x), custom_call_target="tpu_custom_call",
          backend_config={"custom_call_config":{"body":"TUzvUg…"}}

    Fix: Make the blocks larger, so that the grid has fewer steps.

    Reference: `hlo kernel DUMP NAME --chip CHIP`
    """
    least = context.settings.min_kernel_bytes
    for kernel in _kernels(context):
        steps, moved, limit = kernel.steps, kernel.bytes_accessed, _limit(context, kernel)
        if not steps or steps < _FEW_STEPS or not moved or moved < least or moved / steps >= _SMALL_STEP:
            continue
        if _held(kernel) * 2 < limit and kernel.flops < _RIDGE * moved:
            yield context.finding(
                f"kernel {kernel.name} takes {format_count(steps, 'steps')} of {format_bytes(moved // steps)} and "
                f"{format_bytes(_held(kernel))} of {format_bytes(limit)} of VMEM",
                kernel.instruction,
                subject=kernel.instruction,
                common=Common(f"{COUNT} kernels take small steps", "function"),
            )


_SMALL_STEP: Final = 256 * 1024  # 0.3 us of v5e's 819 GB/s, about what a step takes to begin; chosen, not measured
"""Bytes of a step."""
_FEW_STEPS: Final = 8  # with fewer, two buffers cannot hide much; chosen
_RIDGE: Final = 200  # flops a byte of v5e and v5p, 240 and 166, at which compute takes as long as memory
"""Below it, main memory bounds the time of a kernel."""


@rule("HLO804", "missing or wrong cost estimate of a kernel", severity="note")
def wrong_estimate(context: LintContext) -> Iterator[Finding]:
    """A Pallas kernel has no cost_estimate, or one that is wrong by a factor of 2.

    Reported for kernels that move at least min_kernel_bytes. The flops of matmuls and the bytes moved
    in one execution of the kernel are compared.

    Why: XLA does not look into the kernel. It schedules transfers around it by the estimate of its author, which
    nothing checks; estimates of bytes often count each array once, although its blocks are read again.

    Example:
        r = bf16[1024,1536] custom-call(x, y), custom_call_target="tpu_custom_call",
          backend_config={"custom_call_config":{"body":"TUzvUg…"}}

    Fix: Pass cost_estimate=pl.CostEstimate(flops=…, transcendentals=…, bytes_accessed=…) with the numbers in
    the help of the finding.

    Reference: `hlo kernel DUMP NAME`
    """
    for kernel in _kernels(context):
        moved = kernel.bytes_accessed
        if moved is None or moved < context.settings.min_kernel_bytes:
            continue
        estimate, flops = kernel.estimate, kernel.flops or kernel.work.elementwise
        exact = f"{flops:,} flops and {moved:,} bytes"
        message = f"kernel {kernel.name} has no cost_estimate"
        if estimate is not None:
            counts = {flops, kernel.flops + kernel.work.elementwise}  # with and without what is not a matmul
            wrong = ["flops"] if not any(_is_near(estimate.flops, count) for count in counts) else []
            wrong += [] if _is_near(estimate.bytes_accessed, moved) else ["bytes"]
            if not wrong:
                continue
            said = {"flops": f"{estimate.flops:,} flops", "bytes": f"{estimate.bytes_accessed:,} bytes"}
            done = {"flops": f"{flops:,}", "bytes": f"{moved:,}"}
            parts = [f"{said[each]} instead of {done[each]}" for each in wrong]
            message = f"the cost_estimate of kernel {kernel.name} has {' and '.join(parts)}"
        yield context.finding(
            message,
            kernel.instruction,
            subject=kernel.instruction,
            hint=f"the kernel has {exact}",
            common=Common(f"{COUNT} kernels have no cost_estimate or a wrong one", "function"),
        )


def _is_near(estimate: int, count: int) -> bool:
    """Whether a number is right but for less than a factor of 2."""
    return count <= 2 * estimate and estimate <= 2 * count
