"""HLO1xx: work that only changes layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.dataflow.elementwise import is_elementwise_on
from hlo_cli.analysis.dataflow.uses import producer_of
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.default_tiles import default_layout
from hlo_cli.analysis.layout.default_order import default_order
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes, format_percent

_REARRANGING: Final = ("copy", "reshape", "transpose")


@rule("HLO103", "kernel only rearranges", severity="warning")
def rearranging_kernel(context: LintContext) -> Iterator[Finding]:
    """A kernel does nothing but transpose, or copy into another layout (copy_bytes and more).

    Why: it computes nothing and reads and writes all of the array. A copy that stands by itself is HLO102.

    Example:
        y = f32[256,512]{1,0} transpose(x), dimensions={1,0}

    Mend: hand the operand over in the order that is wanted: swap the operands of a dot, choose other dimension
    numbers, store the weights transposed.

    Reference: xla/service/layout_assignment.h; hlo fuse DUMP
    """
    if not context.module.is_scheduled:
        return
    for kernel in context.analyses.kernels:
        shape = kernel.shape
        if kernel.opcode == "copy" or not isinstance(shape, ArrayShape) or not kernel.operands:
            continue
        if shape.padded_bytes >= context.settings.copy_bytes and _only_rearranges(context, kernel):
            opcodes = dict.fromkeys(each.opcode for each in context.analyses.operations(kernel))
            yield context.finding(
                f"{kernel.name} does nothing but {' and '.join(opcodes)} {format_bytes(shape.padded_bytes)}",
                kernel,
                shape_span(context.module, kernel),
                hint=f"{producer_of(kernel.operands[0]).name} could be made in the layout that is wanted",
            )


@rule("HLO104", "dimensions too small for tiles", severity="warning", needs="text")
def small_dimensions(context: LintContext) -> Iterator[Finding]:
    """An argument of a module that is not compiled yet will be mostly padding on the TPU that is named (chip).

    Why: a TPU keeps arrays in tiles of 8 by 128 or so, along the two dimensions that pad least. Where the last
    dimension is small, and no other is large, most of each tile stays empty. The layout that is foretold is the one
    that the compiler gives to arguments whose layout nobody chose. padding_fraction and padding_bytes hold as for
    HLO101.

    Example:
        ENTRY main { x = f32[40,40,40] parameter(0) }

    Mend: merge small dimensions into one, as f32[40,1600].

    Reference: https://openxla.org/xla/tiled_layout; hlo layout SHAPE --target v5e
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
            taken = replace(leaf, layout=layout).padded_bytes
            padding = taken - leaf.logical_bytes
            is_much = padding > context.settings.padding_fraction * taken
            if is_much and padding >= context.settings.padding_bytes:
                yield context.finding(
                    f"{format_percent(padding / taken)}% of {parameter.name} will be padding on "
                    f"{context.settings.chip}, {format_bytes(padding)} of {format_bytes(taken)}",
                    parameter,
                    shape_span(context.module, parameter),
                    hint=f"its layout will be {layout}",
                )


@rule("HLO105", "layout changes there and back", severity="warning")
def there_and_back(context: LintContext) -> Iterator[Finding]:
    """A value is copied into another layout, and from there into the one that it had (copy_bytes and more).

    Why: what needs the first layout could have read the value before both copies; and if nothing in between needs the
    second, both are wasted.

    Example:
        b = f32[256,512]{0,1} copy(a)
        c = f32[256,512]{1,0} copy(b)

    Mend: fix one layout for what stands between, or let the reader of the last copy read the first value.

    Reference: xla/service/layout_assignment.h; hlo layout DUMP
    """
    for last in context.of("copy", "copy-start"):
        first = producer_of(last.operands[0]) if last.operands else last
        if first.opcode not in ("copy", "copy-start") or not first.operands:
            continue
        begun, between, ended = _of(first.operands[0]), _written(first), _written(last)
        if begun is None or between is None or ended is None or ended.padded_bytes < context.settings.copy_bytes:
            continue
        if _placing(begun) == _placing(ended) != _placing(between):
            yield context.finding(
                f"{last.name} turns {format_bytes(ended.padded_bytes)} back into the layout that {first.name} "
                "turned it from",
                last,
                shape_span(context.module, last),
                hint=f"read {producer_of(first.operands[0]).name}",
            )


@rule("HLO106", "producer and consumer differ in tiles", severity="note")
def other_tiles(context: LintContext) -> Iterator[Finding]:
    """A kernel reads an array in one layout and writes one of the same sizes in another, element by element.

    Why: elements that stand together in the operand stand apart in the result, so that the kernel must sort them anew
    besides what it computes (copy_bytes and more).

    Example:
        y = f32[1024,256]{0,1:T(8,128)} negate(x)

    Mend: give the operand and the result one order of dimensions; where arguments or results are concerned, choose
    their layouts when compiling.

    Reference: https://openxla.org/xla/tiled_layout; hlo layout DUMP
    """
    for kernel in context.analyses.kernels if context.module.is_scheduled else ():
        written = kernel.shape
        if not isinstance(written, ArrayShape) or written.padded_bytes < context.settings.copy_bytes:
            continue
        if _only_rearranges(context, kernel):
            continue
        for position, operand in enumerate(kernel.operands):
            read = kernel.operand_shape(position)
            if not isinstance(read, ArrayShape) or read.dimensions != written.dimensions or written.rank < 2:
                continue
            if _tiled_alike(read, written) or not is_elementwise_on(kernel, position):
                continue
            yield context.finding(
                f"{kernel.name} reads {operand.name} in {_short(read.layout)} and writes {_short(written.layout)}",
                kernel,
                shape_span(context.module, kernel),
            )
            break


def _only_rearranges(context: LintContext, kernel: Instruction) -> bool:
    if not context.analyses.does_only(kernel, *_REARRANGING):
        return False
    return any(
        each.opcode != "copy" or each.shape != each.operand_shape(0) for each in context.analyses.operations(kernel)
    )


def _of(instruction: Instruction) -> ArrayShape | None:
    return instruction.shape if isinstance(instruction.shape, ArrayShape) else None


def _written(copy: Instruction) -> ArrayShape | None:
    leaf = dict(copy.shape.leaves).get(() if copy.opcode == "copy" else (0,))
    return leaf if isinstance(leaf, ArrayShape) else None


def _placing(shape: ArrayShape) -> tuple[object, ...]:
    """Dimensions and layout without the memory space."""
    return shape.dimensions, shape.layout.minor_to_major, shape.layout.tiles


def _tiled_alike(read: ArrayShape, written: ArrayShape) -> bool:
    """Whether two arrays have the same layout; narrower types are packed in further tiles inside the first."""
    if read.layout.minor_to_major != written.layout.minor_to_major:
        return False
    if read.element_type.bits != written.element_type.bits:
        return True
    return read.layout.tiles == written.layout.tiles


def _short(layout: Layout) -> str:
    return str(replace(layout, memory_space=0))
