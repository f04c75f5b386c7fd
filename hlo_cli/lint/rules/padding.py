"""HLO1xx: padding and layout-changing copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.layout.padding import data_values, orders_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import COMBINE
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.advice import layout_hint, padding_hint
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste, waste_of_copy
from hlo_cli.lint.groups import Common
from hlo_cli.lint.names import sized
from hlo_cli.lint.registry import rule
from hlo_cli.lint.settings import LintSettings
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes, format_percent

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

    Fix: For arguments and results, use the dimension order or the merged dimensions in the hint, which has the size
    that they need then. For other values, the compiler chooses the layout.

    Reference: https://openxla.org/xla/tiled_layout; `hlo layout DUMP`
    """
    module, settings = context.module, context.settings
    values = data_values(module)
    padded = [value for value in values if _is_mostly_padding(value.shape, settings)]
    if not padded:
        return
    orders = orders_of(module, values)
    for value in padded:
        taken, padding = value.shape.padded_bytes, value.shape.padded_bytes - value.shape.logical_bytes
        better = orders.alternative(value.shape)
        name = context.user_name(value.instruction)
        shape, share = value.shape.to_string(layout=False), format_percent(padding / taken)
        amount = f"({format_bytes(padding)} of {format_bytes(taken)})"
        hint = padding_hint(context, value.instruction, value.shape, better) if not value.index else None
        yield context.finding(
            f"{share}% of {name}, {shape}, is padding {amount}",
            value.instruction,
            shape_span(module, value.instruction),
            hint=hint,
            waste=Waste(padding),
            # Where the compiler chooses the layout, only other sizes help, and they are those of all equal shapes.
            common=None if hint else _common(value.shape, f"{share}% of each {shape} array is padding {amount}"),
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

    Fix: For an argument or a result, set its layout as in the hint: in JAX, Format and Layout of
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
            f"{name}, {sized(written)}, is copied to change {kind} from {ends[0]} to {ends[1]}",
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
    padded = [(at, sizes[at], -(-sizes[at] // size) * size) for at, size in zip(order, tile, strict=False) if size > 0]
    most = max(padded, key=lambda each: each[2] / max(each[1], 1), default=None)
    if most is None or COMBINE in tile:
        return Common(similar, "anywhere")
    at, size, rounded = most
    from_end = len(sizes) - 1 - at
    which = _FROM_END[from_end] if from_end < len(_FROM_END) else f"dimension {at} of {len(sizes)}"
    return Common(f"{which} of an array, {size:,}, is padded to {rounded:,}", "anywhere", similar)


def _before_and_after(copy: Instruction) -> tuple[ArrayShape | None, ArrayShape | None]:
    if not copy.operands:
        return None, None
    read = copy.operand_shape(0)
    parts = dict(copy.shape.leaves)
    written = parts.get(() if copy.opcode == opcodes.COPY else (0,))
    return (read if isinstance(read, ArrayShape) else None), (written if isinstance(written, ArrayShape) else None)


def _common_change(name: str, rank: int, kind: str, ends: tuple[str, str]) -> Common:
    """What copies have in common that no argument or result causes: arrays of equal rank in one function."""
    what = f"{name}, of {rank} dimensions, is copied to change {kind}"
    return Common(what, "function", "{} between {} and {}".format(what, *sorted(ends)))


def _order(shape: ArrayShape) -> str:
    return index_text(shape.layout.minor_to_major)


def _tiles(shape: ArrayShape) -> str:
    return "".join(map(str, shape.layout.tiles)) or "none"


def _is_mostly_padding(shape: ArrayShape, settings: LintSettings) -> bool:
    taken = shape.padded_bytes
    padding = taken - shape.logical_bytes
    return padding >= settings.min_padding_bytes and padding > settings.max_padding_fraction * taken
