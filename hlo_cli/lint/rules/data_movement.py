"""HLO1xx: kernels that only move data or change layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import is_elementwise_on, producer_of
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.layout.default_layout import default_layout, default_order
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.advice import merging_hint, relayout_hint, transposing_hint
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste, waste_of_copy
from hlo_cli.lint.groups import Common
from hlo_cli.lint.names import sized
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes, format_percent

_VERBS: Final = {"copy": "copies", "reshape": "reshapes", "transpose": "transposes"}
"""The opcodes that only move data, as verbs."""


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
        if kernel.opcode == "copy" or not isinstance(shape, ArrayShape) or not kernel.operands:
            continue
        waste = waste_of_copy(kernel.operand_shape(0), shape)
        if waste.bytes >= context.settings.min_copy_bytes and _only_moves_data(context, kernel):
            verbs = dict.fromkeys(_VERBS[each.opcode] for each in context.analyses.operations(kernel))
            what = f"a kernel only {' and '.join(verbs)} {context.user_name(kernel)}"
            hint = transposing_hint(context, kernel)
            yield context.finding(
                f"{what}, {sized(shape)}",
                kernel,
                shape_span(context.module, kernel),
                hint=hint,
                waste=waste,
                common=None if hint else Common(what, "function"),
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
    if generation is None or context.target is not None:
        return
    for parameter in context.module.entry.parameters:
        for _, leaf in parameter.shape.leaves:
            order = default_order(leaf, generation=generation) if isinstance(leaf, ArrayShape) else None
            if not isinstance(leaf, ArrayShape) or order is None:
                continue
            layout = default_layout(leaf, generation=generation, minor_to_major=order)
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
        begun, between, ended = _of(first.operands[0]), _written(first), _written(last)
        if begun is None or between is None or ended is None or ended.padded_bytes < context.settings.min_copy_bytes:
            continue
        waste = waste_of_copy(between, ended)
        if waste.bytes < context.settings.min_copy_bytes:
            continue
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
                waste=Waste(written.padded_bytes),
                other=operand,
                common=None if hint else Common(f"{name} is written in another layout than it is read", "function"),
            )
            break


def _only_moves_data(context: LintContext, kernel: Instruction) -> bool:
    if not context.analyses.does_only(kernel, *_VERBS):
        return False
    return any(
        each.opcode != "copy" or each.shape != each.operand_shape(0) for each in context.analyses.operations(kernel)
    )


def _of(instruction: Instruction) -> ArrayShape | None:
    return instruction.shape if isinstance(instruction.shape, ArrayShape) else None


def _written(copy: Instruction) -> ArrayShape | None:
    leaf = dict(copy.shape.leaves).get(() if copy.opcode == "copy" else (0,))
    return leaf if isinstance(leaf, ArrayShape) else None


def _order_and_tiles(shape: ArrayShape) -> tuple[object, ...]:
    """Dimensions and layout without the memory space."""
    return shape.dimensions, shape.layout.minor_to_major, shape.layout.tiles


def _has_same_tiling(read: ArrayShape, written: ArrayShape) -> bool:
    """Whether two arrays have the same layout; narrower types are packed in further tiles inside the first."""
    if read.layout.minor_to_major != written.layout.minor_to_major:
        return False
    if read.element_type.bits != written.element_type.bits:
        return True
    return read.layout.tiles == written.layout.tiles


def _short(layout: Layout) -> str:
    return str(replace(layout, memory_space=0))
