"""What does a shape or a layout mean that stands in place of a module? In the forms of XLA and of frameworks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.layout.layout_steps import ShapeToken, shape_tokens
from hlo_cli.analysis.sharding.placement import array_of, placement_of, shard_shape
from hlo_cli.commands.layout.shape import report_of_shape, report_of_shapes
from hlo_cli.commands.shape.explained import LABELS
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.pasted.read import listed_shapes
from hlo_cli.ir.attributes.sharding import DimensionSharding, NamedSharding, Sharding
from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout
from hlo_cli.ir.memory_space import describe_memory_space
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.type_names import xla_type
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.figure import Anatomy, Explanation, Segment
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError, joined_by_or
from hlo_cli.syntax.scanning.error_help import type_like
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.values.sharding_forms import read_given_sharding

# --- shapes ---
# A shape in place of a module: the report of `hlo layout`, for shapes in the forms of frameworks too.


_WRAPPED: Final = lazy_regex(r"(?:ShapedArray|AbstractRef|MemRef|Ref|aval|Shape)\s*+[({]\s*+(.*)[)}]", 16)
_STRUCT: Final = lazy_regex(r"\A(?:jax\.)?ShapeDtypeStruct\((?:shape=)?")
_TENSOR: Final = lazy_regex(r"(?:tensor|vector|memref)<((?:[0-9?]++x)*+)([a-z][A-Za-z0-9]*+)[^>]*+>")
_PAIR: Final = lazy_regex(
    r"(?:\((?=\())?+\(([0-9, ]*+)\),?\s*+(?:dtype=)?+['\"]?+((?:[a-z]++\.)?+[a-z][a-"
    r"z0-9_]*+)['\"]?+\)?+"
)
_TYPE: Final = lazy_regex(r"(?<![\w.])((?:[a-z]++\.)?+)([A-Za-z]\w*+)(?=\[)")
_WITHOUT_ORDER: Final = lazy_regex(r"\[([0-9,]*+)\]\{:?+([A-Z](?=\())")
_WEAK: Final = lazy_regex(r",?\s*+weak_type=\w++|\{[^{}:\d]*+\}$|@\w++$")


def shape_report(pasted: PastedText) -> Report:
    """The report on a shape in the form of XLA or of a framework; HloError if it has no type of XLA."""
    bare_text, shardings = without_shardings(pasted.text)
    listed = listed_shapes(bare_text)
    if pasted.kind == "shapes" and listed:
        return _report_of_list(listed, pasted.name)
    given = listed[0] if listed and len(listed) == 1 else bare_text.strip().rstrip(",;.")
    text = shape_text(given)
    notes = []
    if len(shardings) == 1 and (part := shard_of(text, shardings[0])) is not None:
        size = format_bytes(part.logical_bytes)
        notes.append(Diagnostic("note", f"each device holds {part.to_string(layout=False)} ({size}) of it"))
    if text != given:
        notes.append(Diagnostic("note", f"in the form of XLA: {text}"))
    try:
        report = report_of_shape(text)
    except HloError as error:
        bare, _, layout = text.partition("{")
        if not layout:
            raise
        report = report_of_shape(bare)
        notes.append(Diagnostic("warning", f"the layout {{{layout} is ignored: {error.diagnostic.message}"))
    return replace(report, notes=(*notes, *report.notes), input={"path": pasted.name})


def _report_of_list(listed: Sequence[str], name: str) -> Report:
    """The table of several shapes in any form."""
    texts = [shape_text(each) for each in listed]
    report = report_of_shapes(texts)
    respelled = sum(text != each for text, each in zip(texts, listed, strict=True))
    notes = (
        [Diagnostic("note", f"{respelled} of {len(texts)} shapes are shown in the form of XLA")] if respelled else []
    )
    return replace(report, notes=(*notes, *report.notes), input={"path": name})


def shape_text(given: str) -> str:
    """The shape as XLA prints it; HloError, with the nearest type, if a type is unknown.

    >>> [shape_text(each) for each in ("float32[8,128]", "ShapedArray(bfloat16[4])", "tensor<8x128xf32>", "F32[3]")]
    ['f32[8,128]', 'bf16[4]', 'f32[8,128]', 'f32[3]']
    >>> shape_text("((8, 128), dtype=torch.float16)"), shape_text("bf16[8,128]{T(8,128)(2,1)}")
    ('f16[8,128]', 'bf16[8,128]{1,0:T(8,128)(2,1)}')
    """
    text = _STRUCT.sub("(", _WEAK.sub("", given.strip()))
    if (wrapped := _WRAPPED.fullmatch(text)) is not None:
        text = wrapped[1].strip()
    if (tensor := _TENSOR.fullmatch(text)) is not None:
        text = f"{tensor[2]}[{','.join(tensor[1].rstrip('x').split('x')) if tensor[1] else ''}]"
    elif (pair := _PAIR.fullmatch(text)) is not None:
        text = f"{pair[2]}[{','.join(pair[1].replace(' ', '').strip(',').split(','))}]"
    text = _TYPE.sub(lambda match: _type(match[2]), text)
    return _WITHOUT_ORDER.sub(_with_order, text)


def without_shardings(text: str) -> tuple[str, tuple[str, ...]]:
    """A text without the shardings in its prints of arrays, and those.

    >>> without_shardings("ShapeDtypeStruct(shape=(8,), dtype=int32, sharding=NamedSharding(mesh=M(), spec=P('x')))")
    ('ShapeDtypeStruct(shape=(8,), dtype=int32)', ("NamedSharding(mesh=M(), spec=P('x'))",))
    """
    parts, shardings, at = list[str](), list[str](), 0
    for match in _SHARDING.finditer(text):
        if match.start() < at:
            continue
        depth, end = 1, match.end()
        for bracket in _ROUND.finditer(text, match.end(), match.end() + _LONGEST_SHARDING):
            depth += 1 if bracket[0] == "(" else -1
            if not depth:
                end = bracket.end()
                break
        if depth:
            break
        parts.append(text[at : match.start()])
        shardings.append(text[match.start(1) : end])
        at = end
    return "".join(parts) + text[at:], tuple(shardings)


_SHARDING: Final = lazy_regex(r",\s*sharding=(\w{0,40}Sharding\()")
_ROUND: Final = lazy_regex(r"[()]")
_LONGEST_SHARDING: Final = 4_000  # a mesh has a handful of axes; longer ones have the devices, which are not read here


def shard_of(shape: str, sharding: str) -> ArrayShape | None:
    """What each device holds of an array; None if the sharding cannot be read, or does not fit.

    >>> print(shard_of("f32[8,4]", "NamedSharding(mesh=Mesh('x': 2), spec=P('x',), memory_kind=device)"))
    f32[4,4]{1,0}
    """
    try:
        array = array_of(parse_shape(shape))
        found = read_given_sharding(sharding).sharding
        if isinstance(found, NamedSharding) and not found.whole:  # dimensions that a spec does not name are whole
            missing = len(array.dimensions) - len(found.dim_shardings)
            found = replace(found, dim_shardings=(*found.dim_shardings, *[DimensionSharding()] * missing))
        if isinstance(found, Sharding | NamedSharding):
            return shard_shape(array, placement_of(found))
    except HloError:
        return None
    return None


def bytes_of_shape(given: str) -> int | None:
    """The bytes of a shape in the form of XLA or of a framework, without padding; None if it has no size.

    >>> bytes_of_shape("bfloat16[8,128]"), bytes_of_shape("key<fry>[]")
    (2048, None)
    """
    try:
        return parse_shape(shape_text(given)).logical_bytes
    except HloError:
        return None


def _with_order(match: re.Match[str]) -> str:
    """The sizes and the tiles of a layout without an order of dimensions, as JAX prints it, with the default order."""
    rank = len(match[1].split(",")) if match[1] else 0
    order = index_text(reversed(range(rank))).removesuffix("}")
    return f"[{match[1]}]{order}:{match[2]}"


def _type(word: str) -> str:
    if word in PRIMITIVE_TYPES or word in ("token", "opaque"):
        return word
    if (name := xla_type(word)) is not None:
        return name
    like = type_like(word)
    known = [each for each in PRIMITIVE_TYPES if not each.startswith(("f8", "f6", "f4"))]
    hint = f"did you mean '{like}'?" if like else f"XLA has {joined_by_or(known)}, and narrower floats such as f8e4m3fn"
    raise HloError(f"unknown element type '{word}'", hint=hint)


# --- layouts ---
# A layout in place of a module: the order of its dimensions, its tiles, and its memory space.


_USUAL: Final = "f32"
_PACKED: Final = {"(2,1)": "bf16", "(4,1)": "s8", "(8,1)": "s4"}
"""The element types whose rows are interleaved by a second tile."""
_SIZE: Final = "1024"


def layout_report(pasted: PastedText) -> Report:
    """The report on a layout; HloError, with the reason, if XLA does not read it."""
    text = pasted.text.strip().rstrip(",;.")
    layout, element = _read_layout(text)
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
        f"Invalid layout: {element.problem}" if element.problem else _layout_answer(layout),
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


def _read_layout(text: str) -> tuple[Layout, ArrayShape]:
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


def _layout_answer(layout: Layout) -> str:
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
