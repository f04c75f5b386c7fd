"""Where do all elements of an array go? Those that move between two layouts, and all indices as a .npy file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

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
from hlo_cli.commands.tile_index.options import TileIndexOptions, read_queries
from hlo_cli.commands.tile_index.report import buffer_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.notation import index_text, tuple_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, LazyRows, Row, Table, row_from, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import Selection, read_selection

# --- two layouts ---
# `hlo tile-index SHAPE SHAPE`: elements that move between two layouts, or in an instruction that changes a layout.


_LAYOUT_OPCODES = (
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
    if instruction.opcode not in _LAYOUT_OPCODES or not instruction.operands:
        raise HloError(
            f"{instruction.name} ({instruction.opcode}) has a single array: pass an INDEX",
            hint=f"for example `hlo tile-index DUMP:{instruction.name} 0,0`",
        )
    before = addressable(instruction.operand_shape(0))
    after = addressable(next(leaf for _, leaf in instruction.shape.leaves))
    order = None
    if instruction.opcode == opcodes.TRANSPOSE:
        order = tuple(map(int, _DIMENSION.findall(instruction.attribute("dimensions") or "")))
    elif instruction.opcode == opcodes.BITCAST and (steps := bitcast_steps(before, after)) is not None:
        # a bitcast moves nothing by definition, so only what it does to indices is left to say
        return _report_of_bitcast(before, after, steps)
    return _report_of_moves(before, after, correspondence(before, after, order))


def report_of_pair(before: ArrayShape, after: ArrayShape, requested: Sequence[str], *, everything: bool) -> Report:
    """The elements that move from one layout to the other; for given indices, their old and new positions."""
    mapping = correspondence(before, after)
    selections = read_queries(
        requested,
        lambda text, name, line: read_selection(text, before.sizes, name=name, line=line),
        ("index", "element"),
    )
    if everything:
        selections.append(Selection(tuple(map(range, before.sizes))))
    return _report_of_moves(before, after, mapping, selections)


def _report_of_moves(
    before: ArrayShape, after: ArrayShape, mapping: IndexCorrespondence, selections: Sequence[Selection] = ()
) -> Report:
    moves = layout_moves(before, after, mapping)
    parts: list[Part] = []
    if selections:
        parts.append(_positions_table(before, after, mapping, selections))
    parts.append(_layouts_table(before, after, main=not selections))
    parts += _steps_parts(relayout_steps(before, after, mapping.order))
    # the shapes are no bitcast element by element, but the same bytes read as the other shape
    if moves.moved and (steps := bitcast_steps(before, after)) is not None and steps.kind != "identity":
        parts.append(
            Passage("bitcast", (f"The same bytes can be reinterpreted as the other shape: {_bitcast_words(steps)}.",))
        )
    numbers: dict[str, Cell] = {
        "bitcast": moves.moved == 0,
        "elements": moves.elements,
        "moved": moves.moved,
        "runs": moves.runs,
        "longest_run": moves.longest_run,
    }
    return Report("tile-index", _moves_answer(moves), numbers=numbers, parts=tuple(parts))


def _report_of_bitcast(before: ArrayShape, after: ArrayShape, steps: BitcastSteps) -> Report:
    answer = f"Bitcast: {_all_in_place(before.elements)}; {_bitcast_words(steps)}"
    numbers: dict[str, Cell] = {"bitcast": True, "elements": before.elements, "moved": 0, "bitcast_kind": steps.kind}
    return Report("tile-index", answer, numbers=numbers, parts=(_layouts_table(before, after, main=True),))


def _moves_answer(moves: LayoutMoves) -> str:
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


def _bitcast_words(steps: BitcastSteps) -> str:
    match steps.kind:
        case "identity":
            return "indices are unchanged"
        case "reshape":
            return "a row-major reshape"
        case "transpose":
            return f"transpose {tuple_text(steps.order)}"
        case "reshape and transpose":
            return f"reshape to {list(steps.factors)}, transpose {tuple_text(steps.order)}, reshape"
        case _:
            return "a reshape in physical order"


def _layouts_table(before: ArrayShape, after: ArrayShape, *, main: bool) -> Table:
    columns: tuple[Column[str, ArrayShape], ...] = (
        Column("array", "", "text", of=lambda name, shape: name),
        Column("order", "order", "text", of=lambda name, shape: index_text(shape.layout.minor_to_major)),
        Column("tile", "tile", "text",
               of=lambda name, shape: "T" + "".join(map(str, shape.layout.tiles)) if shape.layout.tiles else "none"),
        Column("space", "space", "count", person=False, of=lambda name, shape: shape.memory_space),
        Column("space_name", "space", "text", machine=False, person=before.memory_space != after.memory_space,
               of=lambda name, shape: (
                   space_name(shape.memory_space, "tpu")
                   if shape.layout.tiles else f"S({shape.memory_space})")),
        Column("padded_bytes", "padded", "bytes", of=lambda name, shape: shape.padded_bytes),
        Column("shown_dimensions", "physical dimensions", "text", machine=False,
               of=lambda name, shape: str(list(shape.tiling.physical))),
        Column("physical_dimensions", "physical", "index", person=False, of=lambda name, shape: shape.tiling.physical),
        Column("shape", "shape", "shape", person=False, of=lambda name, shape: str(shape)),
    )  # fmt: skip
    return Table("layouts", columns, rows_from_tuples(columns, [("from", before), ("to", after)]), main=main)


def _steps_parts(steps: Sequence[RelayoutStep]) -> list[Part]:
    if not steps:
        return []
    columns: tuple[Column[RelayoutStep], ...] = (
        Column("step", "step", "text", of=lambda step: step.kind),
        Column("order", "order", "index", align="left", of=lambda step: step.order or None),
        Column("sizes", "physical sizes", "text", machine=False, of=lambda step: str(list(step.sizes))),
        Column("physical_sizes", "physical", "index", person=False, of=lambda step: step.sizes),
    )
    return [Table("steps", columns, rows_from(columns, steps), main=False, noun="steps")]


@dataclass(frozen=True, slots=True)
class _ElementMove:
    """An element with its index, its position, and its byte in both layouts."""

    index: tuple[int, ...]
    to_index: tuple[int, ...]
    linear_index: int
    to_linear_index: int
    byte_offset: int
    to_byte_offset: int


def _positions_table(
    before: ArrayShape, after: ArrayShape, mapping: IndexCorrespondence, requested: Sequence[Selection]
) -> Table:
    columns: tuple[Column[_ElementMove], ...] = (
        Column("index", "element", "index", align="left", of=lambda moved: moved.index),
        Column("to_index", "new index", "index", align="left", of=lambda moved: moved.to_index),
        Column("from_linear_index", "from", "count", of=lambda moved: moved.linear_index),
        Column("to_linear_index", "to", "count", of=lambda moved: moved.to_linear_index),
        Column("from_byte_offset", "from byte", "count", of=lambda moved: moved.byte_offset),
        Column("to_byte_offset", "to byte", "count", of=lambda moved: moved.to_byte_offset),
        Column("moves", "moves", "flag", of=lambda moved: moved.byte_offset != moved.to_byte_offset),
    )

    def moved(index: tuple[int, ...]) -> _ElementMove:
        new_index = mapping.index_of(index, before, after)
        old, new = linear_index(before, index), linear_index(after, new_index)
        return _ElementMove(index, new_index, old, new, old * before.element_bits // 8, new * after.element_bits // 8)

    def rows() -> Iterator[Row]:
        return (row_from(columns, moved(index)) for selection in requested for index in selection.indices)

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
    # .npy has no type for a fraction of a byte
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
