"""A layout in place of a module: the order of its dimensions, its tiles, and its memory space."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.layout.layout_steps import ShapeToken, shape_tokens
from hlo_cli.commands.shape.explained import LABELS
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.memory_space import describe_memory_space
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.figure import Anatomy, Explanation, Segment
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.scanning.shape_reader import parse_shape

_USUAL: Final = "f32"
_PACKED: Final = {"(2,1)": "bf16", "(4,1)": "s8", "(8,1)": "s4"}
"""The element types whose rows are interleaved by a second tile."""
_SIZE: Final = "1024"


def report_of(pasted: PastedText) -> Report:
    """The report on a layout; HloError, with the reason, if XLA does not read it."""
    text = pasted.text.strip().rstrip(",;.")
    layout, element = _read(text)
    order = layout.minor_to_major
    rank = len(order)
    tokens = _tokens(layout, element)
    segments, rows = list[Segment](), list[Explanation]()
    for token in tokens:
        part = None if token.role == "between" else len(rows)
        segments.append(Segment(token.text, part))
        if part is not None:
            rows.append(Explanation(part, LABELS[token.role], token.text, _meaning(token, layout)))
    sizes = ",".join([_SIZE] * rank)
    inner = str(layout.tiles[1]) if len(layout.tiles) > 1 else ""
    return Report(
        "layout",
        f"Invalid layout: {element.problem}" if element.problem else _answer(layout),
        numbers={
            "minor_to_major": order,
            "rank": rank,
            "tiles": tuple(str(tile) for tile in layout.tiles),
            "memory_space": layout.memory_space,
        },
        parts=(Anatomy("layout", tuple(segments), tuple(rows)),),
        next=(f"hlo layout '{_PACKED.get(inner, _USUAL)}[{sizes}]{text}'", "hlo help layout"),
        notes=(Diagnostic("note", "sizes and padding depend on the shape; pass the shape with the layout"),),
        input={"path": pasted.name},
    )


def _read(text: str) -> tuple[Layout, ArrayShape]:
    numbers = text.strip("{}").partition(":")[0].replace(" ", "")
    rank = len(numbers.split(",")) if numbers else 0
    shape = parse_shape(f"{_USUAL}[{','.join(['1024'] * rank)}]{text}")
    if not isinstance(shape, ArrayShape):
        raise HloError(f"{text} is not a layout")
    return shape.layout, shape


def _tokens(layout: Layout, shape: ArrayShape) -> list[ShapeToken]:
    """The tokens of the layout alone."""
    tokens = list(shape_tokens(shape))
    start = next((at for at, token in enumerate(tokens) if "{" in token.text), None)
    return tokens[start:] if start is not None else [ShapeToken(str(layout), "order")]


def _answer(layout: Layout) -> str:
    order = layout.minor_to_major
    rank = len(order)
    words = _order(layout)
    tiles = "tiles of " + ", each in tiles of ".join(_tile(str(tile)) for tile in layout.tiles) if layout.tiles else ""
    space = describe_memory_space(layout.memory_space, "tpu" if layout.tiles else None) if layout.memory_space else ""
    count = format_count(rank, "dimensions")
    return "; ".join(filter(None, (f"{count}, {words}" if rank > 1 else count, tiles, f"in {space}" if space else "")))


def _order(layout: Layout) -> str:
    order = layout.minor_to_major
    if order == tuple(range(len(order) - 1, -1, -1)):
        return "row-major: the last dimension is minor"
    if order == tuple(range(len(order))):
        return "column-major: the first dimension is minor"
    return f"dimension {order[0]} is minor, dimension {order[-1]} is major"


def _tile(text: str) -> str:
    return text.strip("()").replace(",", " × ")


def _meaning(token: ShapeToken, layout: Layout) -> str:
    match token.role:
        case "order":
            names = ", ".join(f"dimension {d}" for d in layout.minor_to_major)
            return f"from minor to major: {names}" if layout.minor_to_major else "a scalar"
        case "tile":
            return _tile_meaning(token, layout)
        case "space":
            return describe_memory_space(layout.memory_space, "tpu" if layout.tiles else None)
        case "element_size":
            return f"each element takes {layout.element_size_in_bits} bits"
        case "alignment":
            return f"padded to a multiple of {layout.tail_padding_alignment_in_elements:,} elements"
        case _:
            return ""


def _tile_meaning(token: ShapeToken, layout: Layout) -> str:
    sizes = layout.tiles[token.number].dimensions
    if token.number == 1 and sizes[-1] == 1 and len(sizes) > 1:
        return f"within each tile, {sizes[0]} rows are interleaved to fill a 32-bit word"
    if token.number:
        return "within each tile, elements are tiled again"
    order = layout.minor_to_major[: len(sizes)]
    named = ", ".join(f"{size} of dimension {d}" for size, d in zip(reversed(sizes), order, strict=False))
    return f"stored in tiles: {named}; sizes are padded to multiples"
