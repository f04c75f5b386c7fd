"""What does a shape mean? Its text checked, its tokens in words, its layout step by step, its drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from hlo_cli.analysis.layout.addresses import Axis, Plane, plane_of, position_in_plane, visible_positions
from hlo_cli.analysis.layout.layout_steps import (
    LayoutStep,
    ShapeToken,
    layout_steps,
    logical_strides,
    overflow_source,
    physical_dimensions,
    physical_strides,
    shape_tokens,
    token_spans,
    true_rank,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import COMBINE, PrimitiveType, Tile, split_sizes
from hlo_cli.ir.memory_space import MemorySpace, describe_memory_space, space_name
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, BufferShape, Shape, TupleShape, UnknownShape, subshape
from hlo_cli.report.figure import Anatomy, Explanation, Figure, Grid, GridCell, Segment, Side
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, rows_from
from hlo_cli.report.text import Line, Passage, Run
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shape_reader import read_shape, with_small_types

# --- the text of a shape, checked ---
# A shape or the shape of an instruction, given as text: read and checked against its layout.


NAMED = re.compile(r"[ \t\n\r]*+(?:ROOT[ \t\n\r]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t\n\r]*+=")
"""The name of an instruction, as its text begins."""
_OPERATION = re.compile(r"[A-Za-z][A-Za-z0-9_\-]*+[ \t\n\r]*+\(")


@dataclass(frozen=True, slots=True)
class TypedShape:
    """A shape and its `text`; `given` is as written, `shape` has no negative dimension numbers."""

    text: str
    given: Shape
    shape: Shape
    notes: tuple[Diagnostic, ...] = ()


def typed_shape(text: str) -> TypedShape:
    """The shape in a text; HloError, with its span, for text that is not a shape or has a layout that does not fit.

    >>> print(typed_shape("y = f32[3,5]{-1,-2} negate(x)").shape)
    f32[3,5]{1,0}
    """
    text = with_small_types(text)
    source = Source("", text)
    written = _checked_shape(source)
    shape = _with_positive_dimensions(written)
    for index, leaf in shape.leaves:
        for array in arrays_of(leaf):
            _check_layout(array, subshape(written, index) or written, source)
    notes = [note for _, leaf in shape.leaves if (note := _type_note(leaf)) is not None]
    if shape != written:
        notes.append(Diagnostic("note", f"negative dimension numbers count from the end: {shape}"))
    return TypedShape(text, written, shape, tuple(notes))


def arrays_of(shape: Shape) -> list[ArrayShape]:
    """The arrays among the leaves of a shape, including those in buffers."""
    leaves = [leaf.array if isinstance(leaf, BufferShape) else leaf for _, leaf in shape.leaves]
    return [leaf for leaf in leaves if isinstance(leaf, ArrayShape)]


def has_layout(shape: Shape, text: str) -> bool:
    """Whether the text has a layout after the shape."""
    bare = "".join(shape.to_string(layout=False).split()).removesuffix(")")
    return bare + "{" in "".join(text.split())


def _checked_shape(source: Source) -> Shape:
    """The shape in a text; a type with a framework's name is the error that is reported first."""
    try:
        shape = _read_shape(source)
    except HloError:
        _check_types(source.text)
        raise
    if any(isinstance(leaf, UnknownShape) for _, leaf in shape.leaves):
        _check_types(source.text)
    return shape


def _check_types(text: str) -> None:
    from hlo_cli.syntax.scanning.error_help import check_types

    check_types(text)


def _type_note(leaf: Shape) -> Diagnostic | None:
    """A note on an element type that XLA does not have, if there is a similar one."""
    if not isinstance(leaf, UnknownShape):
        return None
    from hlo_cli.syntax.scanning.error_help import shape_like

    if (meant := shape_like(leaf.text)) is None:
        return None
    return Diagnostic("note", f"unknown element type '{leaf.text.partition('[')[0]}'", hint=did_you_mean(meant))


def _read_shape(source: Source) -> Shape:
    """The shape in a text that is a shape, or an instruction of that shape."""
    scanner = Scanner(source)
    if not NAMED.match(source.text):
        shape = read_shape(scanner)
        if scanner.at_end():
            return shape
        if not _OPERATION.match(source.text, scanner.pos):
            raise scanner.error("expected the end of the shape")
    return _of_instruction(source)


def _of_instruction(source: Source) -> Shape:
    """The shape of the instruction in a text; the module parser is imported only here."""
    from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
    from hlo_cli.syntax.text.parser import parse_module

    module = parse_module(source, infer=omitted_shape)
    if module.errors:
        raise HloError.of(module.errors)
    root = module.entry.root or module.entry.instructions[-1]
    if root.shape == UnknownShape():
        raise HloError(f"'{root.name}' has no shape", Span(0, len(source.text)), source=source)
    return root.shape


def _with_positive_dimensions(shape: Shape) -> Shape:
    """The shape with negative dimension numbers of its orders counted from the last dimension, as in Python."""
    match shape:
        case TupleShape(elements=elements):
            return TupleShape(tuple(map(_with_positive_dimensions, elements)))
        case ArrayShape(layout=layout):
            order = tuple(d + shape.rank if -shape.rank <= d < 0 else d for d in layout.minor_to_major)
            return replace(shape, layout=replace(layout, minor_to_major=order))
        case _:
            return shape


def _check_layout(array: ArrayShape, written: Shape, source: Source) -> None:
    """Raises HloError if the layout does not fit the array; `written` is its written form, somewhere in the source."""
    problem, (role, number) = array.problem, overflow_source(array)
    if problem is None and array.layout.element_size_in_bits < 0:
        problem, role = "E(n) must be a positive number of bits", "element_size"
    if problem is None:
        return
    hint = f"the row-major order is {index_text(range(array.rank - 1, -1, -1))}" if role == "order" else None
    # a default layout is checked too, but is not in the text: then the array itself is underlined
    for pieces in (shape_tokens(written), shape_tokens(written, layout=False)):
        for start, spans in _token_positions(source.text, pieces):
            spans_of_problem = (s for p, s in zip(pieces, spans, strict=True) if p.role == role and p.number == number)
            span = next(spans_of_problem, Span(0, spans[-1].end))
            raise HloError(problem, Span(start + span.start, start + span.end), source=source, hint=hint)
    raise HloError(problem, Span(0, len(source.text)), source=source, hint=hint)


def _token_positions(text: str, pieces: Sequence[ShapeToken]) -> Iterator[tuple[int, tuple[Span, ...]]]:
    """The positions of tokens in a text, and the spans of each, relative to its position."""
    start = text.find(pieces[0].text)
    while start >= 0:
        if (spans := token_spans(text[start:], pieces)) is not None:
            yield start, spans
        start = text.find(pieces[0].text, start + 1)


# --- the meaning of each token ---
# The meaning of each token of a shape in words: the lines below an underlined shape.


LABELS = {
    "type": "type",
    "sizes": "sizes",
    "order": "order",
    "tile": "tile",
    "alignment": "align",
    "index_type": "index",
    "pointer_type": "pointer",
    "element_size": "bits",
    "space": "space",
    "splits": "splits",
    "prefix": "prefix",
    "leaf": "element",
    "whole": "type",
}
"""The label of each role of a token."""

_KIND_WORDS = {"pred": "true or false", "complex": "real and imaginary part"}
_NUMBER_WORDS = {2: "two", 4: "four", 8: "eight"}


def meaning_of(piece: ShapeToken, shape: ArrayShape, *, numbered: bool = False, target: str | None = None) -> str:
    """The meaning of one token of an array's text; dimensions have letters, or numbers if `numbered`.

    >>> from hlo_cli.analysis.layout.layout_steps import shape_tokens
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
    >>> for piece in shape_tokens(shape)[5:9]: print(meaning_of(piece, shape))
    x is minor: row-major, the default
    <BLANKLINE>
    tiles of 8 (y) × 128 (x): 38 × 1 tiles
    within each tile, pairs of rows are interleaved: two bf16 per 32-bit word
    """
    layout = shape.layout
    names = tuple(f"dimension {d}" for d in range(shape.rank)) if numbered else dimension_names(shape.rank)
    match piece.role:
        case "type":
            return _type(shape.element_type, layout.element_size_in_bits)
        case "sizes":
            return _sizes(shape, names, numbered=numbered)
        case "order":
            return _order(shape, names)
        case "tile":
            return _tile(shape, piece.number, names)
        case "alignment":
            return f"padded to a multiple of {format_count(layout.tail_padding_alignment_in_elements, 'elements')}"
        case "index_type" | "pointer_type":
            return "sparse array attribute (removed from XLA)"
        case "element_size":
            return _element_size(shape)
        case "space":
            return describe_memory_space(layout.memory_space, target)
        case "splits":
            return _splits(shape, names)
        case "prefix":
            return f"a {layout.dynamic_shape_metadata_prefix_bytes:,}-byte prefix holds dynamic sizes"
        case _:
            return ""


def default_space(target: str | None) -> str:
    """The meaning of an omitted memory space; with an unknown target, that on a TPU is named too.

    >>> default_space(None), default_space("cpu")
    ('S(0), main memory; HBM on a TPU', 'S(0), main memory; RAM')
    """
    name = space_name(MemorySpace.MAIN, target or "tpu")
    where = name if target == "cpu" else f"{name} on a {(target or 'tpu').upper()}"
    return f"S({MemorySpace.MAIN}), main memory; {where}"


def _stride_meaning(shape: ArrayShape) -> str:
    """The stride in bytes along each dimension where it is constant.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _stride_meaning(parse_shape("f32[300,70]{1,0}"))
    'stride of y: 280 bytes; of x: 4 bytes'
    """
    strides = zip(dimension_names(shape.rank), logical_strides(shape), strict=True)
    known = [f"of {name}: {format_count(stride, 'bytes')}" for name, stride in strides if stride is not None]
    return f"stride {'; '.join(known)}" if known else ""


def dimension_names(rank: int) -> tuple[str, ...]:
    """The letters for dimensions in XLA's documents for rank 4 and below, else numbers.

    >>> dimension_names(2), dimension_names(4), dimension_names(5)[3:]
    (('y', 'x'), ('p', 'z', 'y', 'x'), ('d3', 'd4'))
    """
    return tuple("pzyx"[4 - rank :]) if rank <= 4 else tuple(f"d{d}" for d in range(rank))


def _type(kind: PrimitiveType, element_size_in_bits: int) -> str:
    if kind.is_sub_byte:
        size = f"{format_count(kind.bits, 'bits')} per element"
        return size if element_size_in_bits else f"{size}, each in a whole byte (no E({kind.bits}))"
    values = f"{_KIND_WORDS[kind.kind]}, " if kind.kind in _KIND_WORDS else ""
    return f"{values}{format_count(kind.byte_width, 'bytes')} per element"


def _order(shape: ArrayShape, names: Sequence[str]) -> str:
    order = shape.layout.minor_to_major
    if shape.rank < 2 or shape.layout.problem(shape.sizes):
        return "minor to major" if shape.rank > 1 else f"{names[0]} is the only dimension" if shape.rank else ""
    minor, major = names[order[0]], names[order[-1]]
    if order == tuple(range(shape.rank))[::-1]:
        return f"{minor} is minor: row-major, the default"
    sizes = "[" + ", ".join(_size(shape.dimensions[d]) for d in reversed(order)) + "]"
    return f"minor to major: {minor} is minor, {major} is major; in physical order {sizes}"


def _tile(shape: ArrayShape, number: int, names: Sequence[str]) -> str:
    if shape.layout.problem(shape.sizes):
        return "does not fit"
    step = next((step for step in layout_steps(shape) if step.kind == "tile" and step.level == number), None)
    if step is None:
        return ""
    tile = shape.layout.tiles[number]
    counts = " × ".join(f"{count:,}" for count in step.counts)
    if not shape.rank and number == 0:
        return f"one tile of {' × '.join(map(str, step.tile))} for the single element"
    if number == 0:
        return f"{_first_tile(shape, names)}: {counts} {'tile' if step.counts == (1,) else 'tiles'}"
    rows, outer = split_sizes(tile)[0], "tile" if number == 1 else "inner tile"
    # (2,1) and (4,1): elements of a column that lie next to each other
    if COMBINE not in tile.dimensions and len(step.tile) == 2 and step.tile[1] == 1 and rows > 1:
        group = "pairs of rows" if rows == 2 else f"groups of {rows} rows"
        return f"within each {outer}, {group} are interleaved" + _in_a_word(shape, rows)
    if len(step.tile) == 1:
        return f"within each {outer}, {format_count(step.counts[0], 'rows')} of {step.tile[0]:,}"
    return f"within each {outer}, {counts} inner tiles of {' × '.join(map(str, step.tile))}"


def _sizes(shape: ArrayShape, names: Sequence[str], *, numbered: bool) -> str:
    parts = [_numbered(shape) if numbered else _elements(shape, names)]
    if true_rank(shape) < shape.rank and shape.elements and shape.rank > 1:
        parts.append(f"true rank {true_rank(shape)} (without dimensions of size 1)")
    if UNBOUNDED in shape.dimensions:
        parts.append("? is known only at run time; assumed to be 1")
    return "; ".join(parts)


def _elements(shape: ArrayShape, names: Sequence[str]) -> str:
    if shape.rank > 4:
        sizes = [f"d0 to d{shape.rank - 1}"]
    else:
        dynamic = (shape.dynamic_dimensions[d] and shape.dimensions[d] != UNBOUNDED for d in range(shape.rank))
        bounds = ("at most " if is_bounded else "" for is_bounded in dynamic)
        sizes = [f"{n} is {m}{_size(d)}" for n, m, d in zip(names, bounds, shape.dimensions, strict=True)]
    return f"{', '.join(sizes)}: {format_count(shape.elements, 'elements')}"


def _numbered(shape: ArrayShape) -> str:
    words = "of dimension 0" if shape.rank == 1 else "of dimensions " + ", ".join(map(str, range(shape.rank)))
    bounded = [d for d in range(shape.rank) if shape.dynamic_dimensions[d] and shape.dimensions[d] != UNBOUNDED]
    return words + "".join(f"; {d} is dynamic, at most {shape.dimensions[d]}" for d in bounded)


def _first_tile(shape: ArrayShape, names: Sequence[str]) -> str:
    tile = split_sizes(shape.layout.tiles[0])
    dimensions = physical_dimensions(shape)[-len(tile) :]
    labels = [" * ".join(names[d] for d in each.dimensions) or "added dimension" for each in dimensions]
    if shape.rank == len(tile) == 1:
        return f"tiles of {format_count(tile[0], 'elements')}"
    return "tiles of " + " × ".join(f"{size:,} ({label})" for size, label in zip(tile, labels, strict=True))


def _in_a_word(shape: ArrayShape, rows: int) -> str:
    # packing into words of 32 bits is what the second tile of a TPU layout is for
    if rows * shape.element_bits != 32:
        return ""
    return f": {_NUMBER_WORDS.get(rows, rows)} {shape.element_type.name} per 32-bit word"


def _element_size(shape: ArrayShape) -> str:
    bits = shape.layout.element_size_in_bits
    if bits < 8 and 8 % bits == 0:
        return f"{format_count(bits, 'bits')} per element: {8 // bits} per byte, lowest bits first"
    return f"{format_count(bits, 'bits')} per element (the type has {shape.element_type.bits})"


def _splits(shape: ArrayShape, names: Sequence[str]) -> str:
    return "; ".join(_split(shape, names))


def _split(shape: ArrayShape, names: Sequence[str]) -> Iterator[str]:
    if shape.layout.problem(shape.sizes):
        return
    for split in shape.layout.split_configs:
        name = names[shape.layout.minor_to_major[::-1][split.dimension]]
        yield f"{name} is split across memories at {', '.join(map(str, split.split_indices))}"


def _size(size: int) -> str:
    return "?" if size == UNBOUNDED else str(size)


# --- the array as a drawing ---
# An array as a drawing: the rows and columns that fit, their labels, and what is omitted.


MAX_LINES = 24
"""The most lines of a drawing; with its answer it fits one screen."""
MAX_SAMPLED_ROWS = 7  # of an axis that does not fit: the ends and a gap
_MIN_COLUMN_WIDTH = 3  # a digit and a space on each side
_MACHINE_WIDTH = 80  # a picture in a pipe is as wide as on a small terminal

Place = tuple[int, int]


def figure_of(shape: ArrayShape, *, elements: Sequence[tuple[int, ...]] = (), title: str = "") -> Figure:
    """The drawing of an array's positions; `elements` are logical indices to mark, the first one chooses the plane.

    >>> from hlo_cli.report.text import plain_text
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> for line in figure_of(parse_shape("f32[3]{0:T(4)}")).draw(80): print(plain_text(line))
    x     0  1  2 ·3
       ┌─────────────┐
       │  0  1  2 ·3 │
       └─────────────┘
    """
    plane = plane_of(shape, elements[0] if elements else ())
    positions = [position_in_plane(shape, plane, element) for element in elements]
    marked = frozenset(place for place in positions if place is not None)

    def draw(room: int) -> tuple[Line, ...]:
        if not shape.slots:
            return ((Run("The array is empty."),),)
        grid = grid_for(shape, plane, room, marked)
        return (*grid.lines(), *_omissions(shape, plane, grid, room, len(positions) - len(marked)))

    return Figure("figure", draw, title=title, data=_figure_data(shape, plane, marked))


def grid_for(shape: ArrayShape, plane: Plane, room: int, marked: frozenset[Place] = frozenset()) -> Grid:
    """The largest grid of a plane that fits the room and MAX_LINES lines."""
    rows, has_dashes = _visible_rows(plane, [row for row, _ in marked])
    wanted = [*(column for _, column in marked), *_last_of_fold(plane)]
    count = min(plane.columns.padded, max(room // _MIN_COLUMN_WIDTH, 1))
    grid = _grid(shape, plane, rows, visible_positions(plane.columns, count, wanted), marked, has_dashes=has_dashes)
    while grid.width > room and count > 1:
        # numbers differ in width, so how many columns fit is found by trying; larger steps while far from it
        count -= max(1, (grid.width - room) // (room // _MIN_COLUMN_WIDTH + 1))
        grid = _grid(shape, plane, rows, visible_positions(plane.columns, count, wanted), marked, has_dashes=has_dashes)
    return grid


def _visible_rows(plane: Plane, wanted: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """The rows to draw, and whether the edges of inner tiles fit between them."""
    axis = plane.rows
    for count in (axis.padded, MAX_SAMPLED_ROWS):
        rows = visible_positions(axis, min(count, MAX_LINES), wanted)
        joints = axis.joints(rows)
        # the labels of columns and the two edges of the frame take 3 lines
        height = 3 + len(rows) + sum(joint in ("tile", "gap") for joint in joints)
        for has_dashes in (True, False):
            if height + (joints.count("part") if has_dashes else 0) <= MAX_LINES:
                return rows, has_dashes
    return visible_positions(axis, MAX_SAMPLED_ROWS), False


def _last_of_fold(plane: Plane) -> tuple[int, ...]:
    """The columns around the end of the data of a folded array; its last row may end early."""
    size = plane.tail.bounds[0][-1] if plane.fold else 0
    # the last data and the first padding: where the array ends is what the drawing is for
    return ((size - 1) % plane.fold, size % plane.fold) if plane.fold and size % plane.fold else ()


def _grid(
    shape: ArrayShape,
    plane: Plane,
    rows: Sequence[int],
    columns: Sequence[int],
    marked: frozenset[Place],
    *,
    has_dashes: bool,
) -> Grid:
    cells = tuple(tuple(_cell(plane, row, column, (row, column) in marked) for column in columns) for row in rows)
    names = dimension_names(shape.rank)
    labels = tuple(_label(plane.rows, row, plane.fold) for row in rows)
    if plane.rows.padded == 1 and not plane.rows.dimensions and not plane.fold:
        labels = ("",) * len(rows)
    return Grid(
        Side(_axis_label(plane.rows, names), labels, plane.rows.joints(rows)),
        Side(
            _axis_label(plane.columns, names),
            tuple(_label(plane.columns, c) for c in columns),
            plane.columns.joints(columns),
        ),
        cells,
        has_parts=bool(plane.columns.part),
        has_dashes=has_dashes,
    )


def _cell(plane: Plane, row: int, column: int, is_marked: bool) -> GridCell:
    across = column // plane.columns.tile if plane.columns.tile else 0
    down = row // plane.rows.tile if plane.rows.tile else 0
    # shaded like a chessboard, so that neighboring tiles differ without lines
    return GridCell(plane.linear_index(row, column), plane.is_padding(row, column), is_marked, (across + down) % 2 == 1)


def _label(axis: Axis, position: int, fold: int = 0) -> str:
    return ("·" if position >= axis.size else "") + str(position * (fold or 1))


def _axis_label(axis: Axis, names: Sequence[str]) -> str:
    return "".join(names[d] for d in axis.dimensions)


def _omissions(shape: ArrayShape, plane: Plane, grid: Grid, room: int, elsewhere: int) -> Iterator[Line]:
    """A description of what the drawing omits."""
    omitted = []
    for count, axis, noun in (
        (len(grid.rows.labels), plane.rows, "rows"),
        (len(grid.columns.labels), plane.columns, "columns"),
    ):
        if count < axis.padded:
            omitted.append(f"{axis.padded - count:,} of {format_count(axis.padded, noun)}")
    if (planes := prod(plane.tail.bounds[0][:-2])) > 1:
        names = [_axis_name(shape, dimension) for dimension in range(len(plane.lead))]
        where = ", ".join(f"{name} {at}" for name, at in zip(names, plane.lead, strict=True))
        omitted.append(f"{planes - 1:,} of {format_count(planes, 'planes')} (all except {where})")
    if omitted:
        yield from _wrapped("not shown: " + "; ".join(omitted), room)
    if (more := shape.slots - planes * plane.rows.padded * plane.columns.padded) > 0:
        yield from _wrapped(
            f"{format_count(more, 'more padding positions')} {'is' if more == 1 else 'are'} not shown", room
        )
    if elsewhere:
        yield from _wrapped(
            f"{format_count(elsewhere, 'requested elements')} {'is' if elsewhere == 1 else 'are'} in other planes", room
        )


def _axis_name(shape: ArrayShape, physical: int) -> str:

    dimensions = physical_dimensions(shape)[physical].dimensions
    return "".join(dimension_names(shape.rank)[d] for d in dimensions) or "added"


def _wrapped(text: str, room: int) -> Iterator[Line]:
    line = ""
    # by hand, as textwrap would also break at the hyphens of names
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > room:
            yield (Run(line, "quiet"),)
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield (Run(line, "quiet"),)


def _figure_data(shape: ArrayShape, plane: Plane, marked: frozenset[Place]) -> dict[str, Cell]:
    """The drawing for 80 columns as data: positions, linear indices, and which of them are padding."""
    if not shape.slots:
        return {"rows": (), "columns": (), "linear_indices": (), "padding": ()}
    rows, _ = _visible_rows(plane, [row for row, _ in marked])
    grid = grid_for(shape, plane, _MACHINE_WIDTH, marked)
    columns = tuple(int(label.removeprefix("·")) for label in grid.columns.labels)
    return {
        "rows": rows,
        "columns": columns,
        "fold": plane.fold,
        "plane": plane.lead,
        "tile": (plane.rows.tile, plane.columns.tile),
        "part": (plane.rows.part, plane.columns.part),
        "linear_indices": tuple(tuple(cell.number for cell in row) for row in grid.cells),
        "padding": tuple(tuple(cell.is_padding for cell in row) for row in grid.cells),
    }


# --- the parts of the report ---
# The parts of the report on one array: its underlined text, its layout steps, its numbers, its drawing.


MAX_DRAWN = 4  # more pictures than these do not fit a screen


@dataclass(frozen=True, slots=True)
class Explained:
    """A given shape: whether it has an explicit layout, and the TPU whose default layout it got."""

    shape: Shape
    is_layout_given: bool
    generation: str | None = None
    notes: tuple[Diagnostic, ...] = ()

    @property
    def has_layout(self) -> bool:
        """Whether there is a layout to show."""
        return self.is_layout_given or self.generation is not None


def explaining_parts(explained: Explained, array: ArrayShape) -> list[Part]:
    """The underlined text, the layout steps if there are any, and the strides."""
    parts: list[Part] = [_anatomy(explained, array)]
    steps = layout_steps(array)
    if len(steps) > 1:
        parts.append(_steps_table(array, steps))
    sentences = [*_sentences(steps), *_stride_sentences(array)]
    return [*parts, Passage("arithmetic", tuple(sentences))] if sentences else parts


def shape_numbers(shape: ArrayShape) -> dict[str, Cell]:
    """All numbers of an array, for programs.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> numbers = shape_numbers(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    >>> numbers["physical_dimensions"], numbers["tile_counts"], numbers["padding_bytes"]
    ((38, 1, 4, 128, 2, 1), ((38, 1), (4, 128)), 35824)
    """
    layout = shape.layout
    return {
        "type": shape.element_type.name,
        "dimensions": tuple(UNKNOWN if d == UNBOUNDED else d for d in shape.dimensions),
        "dynamic_dimensions": shape.dynamic_dimensions,
        "minor_to_major": layout.minor_to_major,
        "tiles": tuple(_tile_cells(tile) for tile in layout.tiles),
        "elements": shape.elements,
        "positions": shape.slots,
        "logical_bytes": shape.logical_bytes,
        "padded_bytes": shape.padded_bytes,
        "padding_bytes": shape.padded_bytes - shape.metadata_bytes - shape.logical_bytes,
        "metadata_bytes": shape.metadata_bytes,
        "physical_dimensions": shape.tiling.physical,
        "tile_counts": tuple(step.counts for step in layout_steps(shape) if step.kind == "tile"),
        "stride_bytes": logical_strides(shape),
        "physical_stride_bytes": physical_strides(shape),
        "true_rank": true_rank(shape),
        "memory_space": layout.memory_space,
        "element_size_in_bits": shape.element_bits,
    }


def drawing_answer(shape: ArrayShape) -> str:
    """The sentence above a drawing: the number of positions, and a legend.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> drawing_answer(parse_shape("f32[3,5]{1,0:T(2,2)}"))
    '24 positions for 15 elements; boxes are 2 × 2 tiles; · marks padding'
    """
    if not shape.slots:
        return "Empty array"
    is_padded, positions = shape.slots != shape.elements, format_count(shape.slots, "positions")
    parts = [f"{positions} for {format_count(shape.elements, 'elements')}" if is_padded else f"{positions}, no padding"]
    sizes = [_format_tile(tile) for tile in shape.layout.tiles]
    if len(sizes) > 1 and all(len(tile.dimensions) == 1 for tile in shape.layout.tiles[:2]):
        inner = f", ┊ {sizes[2]}" if len(sizes) > 2 else ""
        parts.append(f"tiles of {sizes[0]} in rows of {sizes[1]}{inner}")
    elif len(sizes) > 1:
        parts.append(f"tiles {sizes[0]}, ┊ {sizes[1]}")
    elif sizes:
        is_row = len(shape.layout.tiles[0].dimensions) == 1
        parts.append(f"boxes are tiles of {sizes[0]}" if is_row else f"boxes are {sizes[0]} tiles")
    return "; ".join([*parts, "· marks padding"] if is_padded else parts)


def drawing_parts(shapes: Sequence[tuple[str, ArrayShape]], elements: Sequence[tuple[int, ...]] = ()) -> list[Part]:
    """One drawing for each shape, with titles if there are several; of many only the first."""

    drawn = [(name, shape) for name, shape in shapes if shape.slots]
    parts: list[Part] = [
        figure_of(shape, elements=elements, title=f"{name} {shape}".strip() if len(shapes) > 1 else "")
        for name, shape in drawn[:MAX_DRAWN]
    ]
    if (more := len(shapes) - len(parts)) and len(shapes) > 1:
        parts.append(
            Passage("not_drawn", (f"{format_count(more, 'more arrays')} {'is' if more == 1 else 'are'} not drawn",))
        )
    return parts


def shape_segments(
    pieces: Sequence[ShapeToken], first: int, shape: ArrayShape, *, numbered: bool = False, target: str | None = None
) -> tuple[list[Segment], list[Explanation]]:
    """The tokens of an array as segments of an anatomy, with parts numbered from `first`, and their meanings."""
    segments: list[Segment] = []
    explanations: list[Explanation] = []
    for piece in pieces:
        part = None if piece.role == "between" else first + len(explanations)
        segments.append(Segment(piece.text, part))
        if part is not None:
            value = piece.text.replace(",", " ") if piece.role in ("sizes", "order") else piece.text
            meaning = meaning_of(piece, shape, numbered=numbered, target=target)
            explanations.append(Explanation(part, LABELS[piece.role], value, meaning))
    return segments, explanations


def _anatomy(explained: Explained, array: ArrayShape) -> Anatomy:
    # no other backend prints tiles
    target = "tpu" if array.layout.tiles else None
    pieces = shape_tokens(explained.shape, layout=explained.has_layout)
    segments, explanations = shape_segments(pieces, 0, array, target=target)
    # XLA's default for a shape without a layout, see LayoutUtil::GetDefaultLayoutForRank
    if not explained.has_layout and array.rank:
        order = meaning_of(ShapeToken("", "order"), array)
        explanations.append(Explanation(None, "order", "not specified", order))
        explanations.append(Explanation(None, "tile", "not specified", "not tiled, as on CPU and GPU"))
    return Anatomy("shape", tuple(segments), tuple(explanations))


def _steps_table(array: ArrayShape, steps: Sequence[LayoutStep]) -> Table:
    names = dimension_names(array.rank)
    columns: tuple[Column[LayoutStep], ...] = (
        Column("step", "step", of=lambda step: _step_name(step, array)),
        Column("shown_sizes", "sizes", "index", machine=False, align="left",
               of=lambda step: f"[{', '.join(map(str, step.sizes))}]"),
        Column("elements", "elements", "count", of=lambda step: step.elements),
        Column("bytes", "bytes", "bytes", exact=True, of=lambda step: step.bytes),
        Column("note", "", of=lambda step: _step_note(step, array, names)),
        Column("kind", "kind", person=False, of=lambda step: step.kind),
        Column("sizes", "sizes", person=False, of=lambda step: step.sizes),
        Column("padding", "padding", person=False, of=lambda step: step.padding or None),
        Column("reshape", "reshape", person=False, of=lambda step: step.reshape or None),
        Column("transpose", "transpose", person=False, of=lambda step: step.transpose or None),
    )  # fmt: skip
    rows = rows_from(columns, steps)
    return Table("steps", columns, rows, noun="steps", limit=0, main=False)


def _step_name(step: LayoutStep, shape: ArrayShape) -> str:
    match step.kind:
        case "tile":
            return f"tile ({','.join(map(str, step.tile))})"
        case "order":
            return f"order {index_text(shape.layout.minor_to_major)}"
        case "extend":
            return "extend rank"
        case "combine":
            return "combine *"
        case "align":
            return f"align to {format_count(shape.layout.tail_padding_alignment_in_elements, 'elements')}"
        case "split":
            return "largest part"
        case _:
            return step.kind


def _step_note(step: LayoutStep, shape: ArrayShape, names: Sequence[str]) -> str:
    match step.kind:
        case "order":
            return ", ".join(names[d] for d in step.transpose)
        case "extend":
            return "tile has higher rank"
        case "combine":
            at = step.position
            return f"{step.before[at]} × {step.before[at + 1]} = {step.sizes[at]}"
        case "pad":
            return ", ".join(_padding_note(step, shape, names))
        case "tile":
            counts = " × ".join(f"{count:,}" for count in step.counts)
            return f"{counts} {'tiles' if step.counts != (1,) else 'tile'}" if not step.level else f"{counts} per tile"
        case "split":
            return "split by SC"
        case "metadata":
            return f"+ {format_count(shape.metadata_bytes, 'bytes')} for dynamic sizes"
        case _:
            return ""


def _padding_note(step: LayoutStep, shape: ArrayShape, names: Sequence[str]) -> list[str]:
    groups = [each.dimensions for each in physical_dimensions(shape)] if not step.level else []
    labels = ["".join(names[d] for d in group) for group in groups]
    return [
        f"{(labels[at] if at < len(labels) else '') or step.before[at]} + {extra:,}"
        for at, extra in enumerate(step.padding)
        if extra
    ]


def _sentences(steps: Sequence[LayoutStep]) -> list[str]:
    """Each tiling step that moves elements, in the terms of XLA's page on tiled layout."""
    return [
        f"tile ({','.join(map(str, step.tile))}): reshape to [{', '.join(map(str, step.reshape))}], "
        f"transpose ({', '.join(map(str, step.transpose))})"
        for step in steps
        if step.kind == "tile" and step.transpose != tuple(range(len(step.transpose)))
    ]


def _stride_sentences(shape: ArrayShape) -> list[str]:
    if not shape.slots or not shape.rank:
        return []
    strides = ", ".join("-" if stride is None else str(stride) for stride in physical_strides(shape))
    physical = f"physical strides: [{strides}] bytes" if shape.layout.tiles else ""
    return [sentence for sentence in (physical, _stride_meaning(shape)) if sentence]


def _format_tile(tile: Tile) -> str:
    return str(tile) if COMBINE in tile.dimensions else " × ".join(f"{size:,}" for size in tile.dimensions)


def _tile_cells(tile: Tile) -> tuple[Cell, ...]:
    return tuple("*" if size == COMBINE else size for size in tile.dimensions)
