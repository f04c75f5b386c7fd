"""HLO1xx: layouts that cost memory or moves."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.analysis.layout.padding import data_values, orders_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.settings import LintSettings
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes, format_percent


@rule("HLO101", "mostly padding", severity="warning", needs="text")
def mostly_padding(context: LintContext) -> Iterator[Finding]:
    """More than half of a buffer is padding, and enough of it to matter (padding_fraction, padding_bytes).

    Why: tiles are filled up to whole ones, most of all along the two most minor dimensions. The padding takes memory,
    and whatever reads the buffer moves it too.

    Example:
        y = f32[65536,2]{1,0:T(8,128)} negate(x)

    Mend: make a larger dimension the minor one, by a transpose in the program or by another order in the layout;
    pad or merge small dimensions. The hint says what another order would take.

    Reference: https://openxla.org/xla/tiled_layout; hlo layout DUMP
    """
    module, settings = context.module, context.settings
    values = data_values(module)
    wasting = [value for value in values if _is_wasting(value.shape, settings)]
    if not wasting:
        return
    orders = orders_of(module, values)
    for value in wasting:
        taken, padding = value.shape.padded_bytes, value.shape.padded_bytes - value.shape.logical_bytes
        better = orders.alternative(value.shape)
        order = index_text(better.layout.minor_to_major) if better is not None else ""
        yield context.finding(
            f"{format_percent(padding / taken)}% of {value} is padding, "
            f"{format_bytes(padding)} of {format_bytes(taken)}",
            value.instruction,
            shape_span(module, value.instruction),
            hint=f"order {order} takes {format_bytes(better.padded_bytes)}" if better is not None else None,
        )


@rule("HLO102", "copy changes only the layout", severity="warning", needs="text")
def layout_copy(context: LintContext) -> Iterator[Finding]:
    """A copy writes the same values in another order of dimensions or other tiles (copy_bytes and more).

    Why: it computes nothing and costs a pass over memory, usually because the producer and the consumer want
    different layouts.

    Example:
        y = f32[256,256]{0,1} copy(x)

    Mend: let the producer write, or the consumer read, the other order: transpose in the program, swap the operands
    of a dot, or fix the layouts of arguments and results when compiling.

    Reference: xla/service/layout_assignment.h; hlo layout DUMP
    """
    for copy in context.of(opcodes.COPY, opcodes.COPY_START):
        read, written = _before_and_after(copy)
        if read is None or written is None or written.padded_bytes < context.settings.copy_bytes:
            continue
        if copy.computation in context.fused:  # part of a larger kernel
            continue
        order, tiles = read.layout.minor_to_major, read.layout.tiles
        if order != written.layout.minor_to_major:
            change = f"order {_order(read)} to {_order(written)}"
        elif tiles != written.layout.tiles:
            change = f"tiles {_tiles(read)} to {_tiles(written)}"
        else:
            continue
        yield context.finding(
            f"{copy.name} copies {format_bytes(written.padded_bytes)} to change {change}",
            copy,
            shape_span(context.module, copy),
            hint=f"{copy.operands[0].name} could be written in that layout",
        )


def _before_and_after(copy: Instruction) -> tuple[ArrayShape | None, ArrayShape | None]:
    if not copy.operands:
        return None, None
    read = copy.operand_shape(0)
    parts = dict(copy.shape.leaves)
    written = parts.get(() if copy.opcode == opcodes.COPY else (0,))
    return (read if isinstance(read, ArrayShape) else None), (written if isinstance(written, ArrayShape) else None)


def _order(shape: ArrayShape) -> str:
    return index_text(shape.layout.minor_to_major)


def _tiles(shape: ArrayShape) -> str:
    return "".join(map(str, shape.layout.tiles)) or "none"


def _is_wasting(shape: ArrayShape, settings: LintSettings) -> bool:
    taken = shape.padded_bytes
    padding = taken - shape.logical_bytes
    return padding >= settings.padding_bytes and padding > settings.padding_fraction * taken
