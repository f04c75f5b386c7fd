"""Where do all elements of an array go? Those that move between two layouts, and all indices as a .npy file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.layout.address_map import IntArray
from hlo_cli.analysis.layout.addresses import linear_index
from hlo_cli.analysis.layout.layout_steps import addressable
from hlo_cli.analysis.layout.relayout import (
    BitcastSteps,
    IndexCorrespondence,
    LayoutMoves,
    RelayoutStep,
    bitcast_steps,
    correspondence,
    elements_in,
    layout_moves,
    linear_indices_of,
    npy_bytes,
    relayout_steps,
)
from hlo_cli.commands.options.writing import write_bytes
from hlo_cli.commands.tile_index.options import read_queries
from hlo_cli.commands.tile_index.report import buffer_bytes
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.notation import index_text, tuple_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, LazyRows, Row, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import Selection, read_selection

if TYPE_CHECKING:
    from hlo_cli.commands.tile_index.options import TileIndexOptions


# --- two layouts ---
# `hlo tile-index SHAPE SHAPE`: elements that move between two layouts, or in an instruction that changes a layout.


_OPCODES = (
    opcodes.COPY,
    opcodes.BITCAST,
    opcodes.RESHAPE,
    opcodes.TRANSPOSE,
    opcodes.COPY_START,
    opcodes.BITCAST_CONVERT,
)
_DIMENSION = re.compile(r"[0-9]{1,18}")


def report_of_instruction(instruction: Instruction) -> Report:
    """The effect of a copy, bitcast, reshape, or transpose on the positions of the elements.

    HloError for other opcodes, as they compute.
    """
    if instruction.opcode not in _OPCODES or not instruction.operands:
        raise HloError(
            f"{instruction.name} ({instruction.opcode}) has a single array: pass an INDEX",
            hint=f"for example `hlo tile-index DUMP:{instruction.name} 0,0`",
        )
    before = addressable(instruction.operand_shape(0))
    after = addressable(next(leaf for _, leaf in instruction.shape.leaves))
    order = None
    if instruction.opcode == opcodes.TRANSPOSE:
        order = tuple(map(int, _DIMENSION.findall(instruction.attribute("dimensions") or "")))
    elif instruction.opcode == opcodes.BITCAST and (found := bitcast_steps(before, after)) is not None:
        return _bitcast(before, after, found)
    return _report(before, after, correspondence(before, after, order))


def report_of_pair(before: ArrayShape, after: ArrayShape, requested: Sequence[str], *, everything: bool) -> Report:
    """The elements that move from one layout to the other; for given indices, their old and new positions."""
    by = correspondence(before, after)
    selections = read_queries(
        requested,
        lambda text, name, line: read_selection(text, before.sizes, name=name, line=line),
        ("index", "element"),
    )
    if everything:
        selections.append(Selection(tuple(map(range, before.sizes))))
    return _report(before, after, by, selections)


def _report(
    before: ArrayShape, after: ArrayShape, by: IndexCorrespondence, selections: Sequence[Selection] = ()
) -> Report:
    moves = layout_moves(before, after, by)
    parts: list[Part] = []
    if selections:
        parts.append(_positions(before, after, by, selections))
    parts.append(_layouts(before, after, main=not selections))
    parts += _steps(relayout_steps(before, after, by.order))
    if moves.moved and (found := bitcast_steps(before, after)) is not None and found.kind != "identity":
        parts.append(
            Passage("bitcast", (f"The same bytes can be reinterpreted as the other shape: {_equivalent(found)}.",))
        )
    numbers: dict[str, Cell] = {
        "bitcast": moves.moved == 0,
        "elements": moves.elements,
        "moved": moves.moved,
        "runs": moves.runs,
        "longest_run": moves.longest_run,
    }
    return Report("tile-index", _answer(moves), numbers=numbers, parts=tuple(parts))


def _bitcast(before: ArrayShape, after: ArrayShape, found: BitcastSteps) -> Report:
    answer = f"Bitcast: {_all_in_place(before.elements)}; {_equivalent(found)}"
    numbers: dict[str, Cell] = {"bitcast": True, "elements": before.elements, "moved": 0, "bitcast_kind": found.kind}
    return Report("tile-index", answer, numbers=numbers, parts=(_layouts(before, after, main=True),))


def _answer(moves: LayoutMoves) -> str:
    if not moves.moved:
        return f"Bitcast: {_all_in_place(moves.elements)}"
    longest = "one element" if moves.longest_run == 1 else f"at most {format_count(moves.longest_run, 'elements')}"
    verb = "moves" if moves.moved == 1 else "move"
    return (
        f"Not a bitcast: {moves.moved:,} of {format_count(moves.elements, 'elements')} {verb},"
        f" in {format_count(moves.runs, 'contiguous runs')} of {longest}"
    )


def _all_in_place(elements: int) -> str:
    return f"all {elements:,} elements stay in place" if elements != 1 else "the element stays in place"


def _equivalent(found: BitcastSteps) -> str:
    match found.kind:
        case "identity":
            return "indices are unchanged"
        case "reshape":
            return "a row-major reshape"
        case "transpose":
            return f"transpose {tuple_text(found.order)}"
        case "reshape and transpose":
            return f"reshape to {list(found.factors)}, transpose {tuple_text(found.order)}, reshape"
        case _:
            return "a reshape in physical order"


def _layouts(before: ArrayShape, after: ArrayShape, *, main: bool) -> Table:
    columns = (
        Column("array", "", "text"),
        Column("order", "order", "text"),
        Column("tile", "tile", "text"),
        Column("space", "space", "count", person=False),
        Column("space_name", "space", "text", machine=False, person=before.memory_space != after.memory_space),
        Column("padded_bytes", "padded", "bytes"),
        Column("shown_dimensions", "physical dimensions", "text", machine=False),
        Column("physical_dimensions", "physical", "index", person=False),
        Column("shape", "shape", "shape", person=False),
    )
    return Table("layouts", columns, tuple(_layout(*each) for each in (("from", before), ("to", after))), main=main)


def _layout(name: str, shape: ArrayShape) -> Row:
    order = index_text(shape.layout.minor_to_major)
    tiles = "".join(map(str, shape.layout.tiles))
    physical = shape.tiling.physical
    space = space_name(shape.memory_space, "tpu") if shape.layout.tiles else f"S({shape.memory_space})"
    return (
        name, order, f"T{tiles}" if tiles else "none", shape.memory_space, space, shape.padded_bytes,
        str(list(physical)), physical, str(shape),
    )  # fmt: skip


def _steps(steps: Sequence[RelayoutStep]) -> list[Part]:
    if not steps:
        return []
    columns = (Column("step", "step", "text"), Column("order", "order", "index", align="left"))
    sizes = Column("sizes", "physical sizes", "text", machine=False)
    raw = Column("physical_sizes", "physical", "index", person=False)
    rows = tuple((step.kind, step.order or None, str(list(step.sizes)), step.sizes) for step in steps)
    return [Table("steps", (*columns, sizes, raw), rows, main=False, noun="steps")]


def _positions(before: ArrayShape, after: ArrayShape, by: IndexCorrespondence, requested: Sequence[Selection]) -> Table:
    columns = (
        Column("index", "element", "index", align="left"),
        Column("to_index", "new index", "index", align="left"),
        Column("from_linear_index", "from", "count"),
        Column("to_linear_index", "to", "count"),
        Column("from_byte_offset", "from byte", "count"),
        Column("to_byte_offset", "to byte", "count"),
        Column("moves", "moves", "flag"),
    )

    def rows() -> Iterator[Row]:
        for selection in requested:
            for index in selection.indices:
                there = by.index_of(index, before, after)
                old, new = linear_index(before, index), linear_index(after, there)
                old_byte, new_byte = old * before.element_bits // 8, new * after.element_bits // 8
                yield (index, there, old, new, old_byte, new_byte, old_byte != new_byte)

    count = sum(selection.count for selection in requested)
    return Table("elements", columns, LazyRows(count, rows), noun="elements")


# --- -o x.npy: all indices ---
# `hlo tile-index … -o x.npy`: linear indices, bytes or elements as one array.


def write_addresses(
    array: ArrayShape, requested: Sequence[Selection], options: TileIndexOptions, path: str | None
) -> None:
    """Writes the linear index of each element or, with `--bytes`, its byte; for a whole array, in the array's shape."""
    whole = options.everything and len(requested) == 1
    sizes = array.sizes if whole else (sum(selection.count for selection in requested),)
    blocks: Iterable[IntArray] = linear_indices_of(array, [selection.ranges for selection in requested])
    if options.as_bytes:
        bits = array.element_bits
        blocks = _in_bytes(blocks, bits, _first_byte(array, options))
    write_bytes(npy_bytes(blocks, sizes), path)


def write_elements(array: ArrayShape, requested: Sequence[range], options: TileIndexOptions, path: str | None) -> None:
    """Writes the element at each position or byte, one row each, -1 throughout for padding."""
    front, bits = 0, 8
    if options.as_bytes:
        front, bits = _first_byte(array, options), array.element_bits
    if bits % 8:
        raise HloError("cannot write byte offsets for sub-byte elements", hint="remove --bytes to write linear indices")
    blocks = elements_in(array, requested, front=front, width=bits // 8)
    write_bytes(npy_bytes(blocks, (sum(map(len, requested)), array.rank)), path)


def _first_byte(array: ArrayShape, options: TileIndexOptions) -> int:
    """The address of position 0; HloError if the last address is too large for a .npy file."""
    if (end := buffer_bytes(array, options).stop) > 2**63:
        raise HloError(f"the buffer ends at byte {end:,}, which does not fit in 64 bits")
    return options.address + array.layout.dynamic_shape_metadata_prefix_bytes


def _in_bytes(blocks: Iterable[IntArray], bits: int, front: int) -> Iterator[IntArray]:
    for block in blocks:
        yield block // 8 * bits + block % 8 * bits // 8 + front  # without the split, the product in bits may overflow
