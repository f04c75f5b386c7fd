"""The parts of the report on one array: its underlined text, its layout steps, its numbers, its drawing."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.layout.layout_steps import (
    LayoutStep,
    ShapeToken,
    layout_steps,
    logical_strides,
    physical_dimensions,
    physical_strides,
    shape_tokens,
    true_rank,
)
from hlo_cli.commands.shared.shape_descriptions import LABELS, dimension_names, meaning_of, stride_meaning
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import COMBINE, Tile
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape
from hlo_cli.report.figure import Anatomy, Explanation, Segment
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

_STEPS = (
    Column("step", "step"),
    Column("shown_sizes", "sizes", "index", machine=False, align="left"),
    Column("elements", "elements", "count"),
    Column("bytes", "bytes", "bytes", exact=True),
    Column("note", ""),
    Column("kind", "kind", person=False),
    Column("sizes", "sizes", person=False),
    Column("padding", "padding", person=False),
    Column("reshape", "reshape", person=False),
    Column("transpose", "transpose", person=False),
)


MAX_DRAWN = 4


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
    from hlo_cli.commands.shared.shape_figure import figure_of

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
    target = "tpu" if array.layout.tiles else None
    pieces = shape_tokens(explained.shape, layout=explained.has_layout)
    segments, explanations = shape_segments(pieces, 0, array, target=target)
    if not explained.has_layout and array.rank:
        order = meaning_of(ShapeToken("", "order"), array)
        explanations.append(Explanation(None, "order", "not specified", order))
        explanations.append(Explanation(None, "tile", "not specified", "not tiled, as on CPU and GPU"))
    return Anatomy("shape", tuple(segments), tuple(explanations))


def _steps_table(array: ArrayShape, steps: Sequence[LayoutStep]) -> Table:
    names = dimension_names(array.rank)
    rows = tuple(
        (
            _step_name(step, array),
            f"[{', '.join(map(str, step.sizes))}]",
            step.elements,
            step.bytes,
            _note(step, array, names),
            step.kind,
            step.sizes,
            step.padding or None,
            step.reshape or None,
            step.transpose or None,
        )
        for step in steps
    )
    return Table("steps", _STEPS, rows, noun="steps", limit=0, main=False)


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


def _note(step: LayoutStep, shape: ArrayShape, names: Sequence[str]) -> str:
    match step.kind:
        case "order":
            return ", ".join(names[d] for d in step.transpose)
        case "extend":
            return "tile has higher rank"
        case "combine":
            at = step.position
            return f"{step.before[at]} × {step.before[at + 1]} = {step.sizes[at]}"
        case "pad":
            return ", ".join(_added(step, shape, names))
        case "tile":
            counts = " × ".join(f"{count:,}" for count in step.counts)
            return f"{counts} {'tiles' if step.counts != (1,) else 'tile'}" if not step.level else f"{counts} per tile"
        case "split":
            return "split by SC"
        case "metadata":
            return f"+ {format_count(shape.metadata_bytes, 'bytes')} for dynamic sizes"
        case _:
            return ""


def _added(step: LayoutStep, shape: ArrayShape, names: Sequence[str]) -> list[str]:
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
    return [sentence for sentence in (physical, stride_meaning(shape)) if sentence]


def _format_tile(tile: Tile) -> str:
    return str(tile) if COMBINE in tile.dimensions else " × ".join(f"{size:,}" for size in tile.dimensions)


def _tile_cells(tile: Tile) -> tuple[Cell, ...]:
    return tuple("*" if size == COMBINE else size for size in tile.dimensions)
