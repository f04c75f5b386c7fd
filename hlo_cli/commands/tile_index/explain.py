"""`hlo tile-index --explain`: the formula of XLA's tiled-layout page with the numbers of one element in every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.layout.addresses import ElementPosition
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Combine, Extend, Permute, Split
from hlo_cli.ir.notation import tuple_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.figure import Figure, fixed
from hlo_cli.report.table import Cell


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    quantity: str
    formula: str
    value: tuple[int, ...]


def explanation(shape: ArrayShape, place: ElementPosition, *, named: bool = False) -> Figure:
    """Every step from the index to the position: the divisions and the sum; `named` puts the element in the title.

    >>> from hlo_cli.analysis.layout.addresses import position_of
    >>> from hlo_cli.report.text import plain_text
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
    >>> for line in explanation(shape, position_of(shape, (2, 3))).draw(80): print(plain_text(line))
    tile T(2,2)  tile index     (⌊2/2⌋, ⌊3/2⌋)      = (1,1)
                 tile grid      (⌈3/2⌉, ⌈5/2⌉)      = (2,3)
                 index in tile  (2 mod 2, 3 mod 2)  = (0,1)
                 tile size                            (2,2)
    <BLANKLINE>
      linear_index_with_tile((2,3), (3,5), (2,2))
    = linear_index((1,1,0,1), (2,3,2,2))
    = linear_index((1,1), (2,3)) · 2 · 2 + linear_index((0,1), (2,2))
    = ((1 · 3 + 1) · 2 + 0) · 2 + 1
    = 17
    """
    lines = list(_steps(shape, place.index))
    widths = [max((len(text) for text in column), default=0) for column in zip(*_texts(lines), strict=True)]
    table = [
        "  ".join((label.ljust(widths[0]), quantity.ljust(widths[1]), formula.ljust(widths[2]), value)).rstrip()
        for label, quantity, formula, value in _texts(lines)
    ]
    data: dict[str, Cell] = {
        "steps": tuple(
            {"step": line.label, "quantity": line.quantity, "formula": line.formula, "value": line.value}
            for line in lines
        ),
        "index": place.index,
        "linear_index": place.linear_index,
    }
    name = f"explanation of {tuple_text(place.index)}" if named else "explanation"
    return Figure(name, fixed(*table, *([""] if table else []), *_sum(shape, place)), data=data)


def _texts(lines: Sequence[_Line]) -> list[tuple[str, str, str, str]]:
    return [
        (line.label, line.quantity, line.formula, f"{'=' if line.formula else ' '} {tuple_text(line.value)}")
        for line in lines
    ]


def _steps(shape: ArrayShape, index: Sequence[int]) -> Iterator[_Line]:
    tiling, tiles = shape.tiling, iter(shape.layout.tiles)
    now, label = tuple(index), ""
    levels = 0
    for step, bounds in zip(tiling.steps, tiling.bounds, strict=False):
        after, sizes = step.forward(now, bounds), step.bounds(bounds)
        match step:
            case Permute(order=order):
                if order != tuple(range(len(order))):
                    yield _Line("physical", "major to minor", f"dimensions {tuple_text(order)}", after)
                    yield _Line("", "sizes", "", sizes)
                label = _label(next(tiles, None), levels)
            case Extend(count=count):
                yield _Line(label, "added", f"{count} of size 1", after)
                label = ""
            case Combine(position=at):
                product = f"{now[at]} · {bounds[at + 1]} + {now[at + 1]}"
                yield _Line(label, "combined", product, after)
                yield _Line("", "sizes", f"{bounds[at]} · {bounds[at + 1]}", sizes)
                label = ""
            case Split(sizes=cut):
                kept, count = len(bounds) - len(cut), len(cut)
                inside, room = now[kept:], bounds[kept:]
                pairs = list(zip(inside, room, cut, strict=True))
                yield _Line(label, "tile index", _list(f"⌊{i}/{t}⌋" for i, _, t in pairs), after[kept : kept + count])
                yield _Line("", "tile grid", _list(f"⌈{d}/{t}⌉" for _, d, t in pairs), sizes[kept : kept + count])
                yield _Line("", "index in tile", _list(f"{i} mod {t}" for i, _, t in pairs), after[kept + count :])
                yield _Line("", "tile size", "", cut)
                levels += 1
                label = _label(next(tiles, None), levels)
        now = after


def _label(tile: object, level: int) -> str:
    return "" if tile is None else f"tile {'' if level else 'T'}{tile}"


def _sum(shape: ArrayShape, place: ElementPosition) -> Iterator[str]:
    tiling = shape.tiling
    final, bounds = tuple(place.index), tiling.bounds[0]
    for step, before in zip(tiling.steps, tiling.bounds, strict=False):
        final = step.forward(final, before)
    bounds = tiling.physical
    arguments = f"{tuple_text(place.index)}, {tuple_text(shape.sizes)}"
    tiles = shape.layout.tiles
    name = "linear_index" if not tiles else "linear_index_with_tile" if len(tiles) == 1 else "linear_index_with_tiles"
    if tiles:
        yield f"  {name}({arguments}, {''.join(map(str, tiles))})"
        yield f"= linear_index({tuple_text(final)}, {tuple_text(bounds)})"
    else:
        yield f"  linear_index({tuple_text(final)}, {tuple_text(bounds)})"
    last = place.tiles[-1].sizes if place.tiles else ()
    if len(tiles) == 1 and len(final) > len(last):
        cut = len(final) - len(last)
        sizes = " · ".join(map(str, last))
        yield (
            f"= linear_index({tuple_text(final[:cut])}, {tuple_text(bounds[:cut])}) · {sizes}"
            f" + linear_index({tuple_text(final[cut:])}, {tuple_text(last)})"
        )
    if len(final) > 1:
        yield f"= {_horner(final, bounds)}"
    yield f"= {place.linear_index}"


def _horner(index: Sequence[int], bounds: Sequence[int]) -> str:
    text = str(index[0])
    for at, (position, bound) in enumerate(zip(index[1:], bounds[1:], strict=True)):
        text = f"({text})" if at else text
        text = f"{text} · {bound} + {position}"
    return text


def _list(parts: Iterator[str]) -> str:
    return "(" + ", ".join(parts) + ")"
