"""`hlo layout --for TPU SHAPE`: the size in each dimension order, and the order that the compiler chooses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import factorial

from hlo_cli.analysis.hardware.chips import tpu_generation
from hlo_cli.analysis.layout.default_layout import OrderCost, default_layout, default_order, order_costs
from hlo_cli.commands.layout.tables import stored_size_text
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.table import ROWS_FOR_A_PERSON, UNKNOWN, Cell, Column, Table
from hlo_cli.source import Diagnostic

_COLUMNS = (
    Column("shown_order", "order", machine=False),
    Column("minor_to_major", "order", person=False),
    Column("tiles", "tile"),
    Column("padded_bytes", "padded", "bytes", exact=True),
    Column("padding", "padding", "percent", role="waste"),
    Column("remark", "", machine=False),
    Column("is_default", "default", "flag", person=False),
    Column("is_given", "given", "flag", person=False),
    Column("layout", "layout", person=False),
)


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """An array laid out for one TPU, and all its orders: the compiler's, then the given one, then the rest.

    `array` has the given order, else the compiler's, else, if that is unknown, row-major. `best` is the smallest; among
    equals it is the compiler's, then the given one.
    """

    array: ArrayShape
    generation: str
    default: OrderCost | None
    given: OrderCost | None
    best: OrderCost
    every: tuple[OrderCost, ...]


def tiled_for(array: ArrayShape, generation: str, *, is_given: bool) -> ArrayShape:
    """The array with the default layout of a TPU; a given order is kept.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(tiled_for(parse_shape("bf16[300,70]"), "v5e", is_given=False))
    bf16[300,70]{0,1:T(8,128)(2,1)}
    """
    order = None if is_given else default_order(array, generation=generation)
    return replace(array, layout=default_layout(array, generation=generation, minor_to_major=order))


def choice_of(array: ArrayShape, generation: str, *, is_given: bool) -> OrderChoice:
    """The orders of an array with their sizes; `is_given` if its order was given explicitly.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> choice = choice_of(parse_shape("f32[64,10]"), "v4", is_given=False)
    >>> str(choice.array), [each.padded_bytes for each in choice.every]
    ('f32[64,10]{0,1:T(8,128)}', [8192, 32768])
    """
    is_given = is_given and array.rank > 1
    priced = order_costs(array, generation=generation)
    by_order = {each.layout.minor_to_major: each for each in priced}
    tiled = tiled_for(array, generation, is_given=is_given)
    order = default_order(array, generation=generation)
    default = by_order[order] if order is not None else None
    given = None
    if is_given:
        as_given = OrderCost(tiled.layout, tiled.padded_bytes, is_normal=False)
        given = by_order.get(tiled.layout.minor_to_major, as_given)
    every = tuple(dict.fromkeys(each for each in (default, given, *priced) if each))
    best = min(every, key=lambda each: each.padded_bytes)
    return OrderChoice(tiled, tpu_generation(generation).name, default, given, best, every)


def choice_answer(choice: OrderChoice) -> str:
    """The compiler's order and its size, and the best order if it is another.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(choice_answer(choice_of(parse_shape("bf16[300,70]"), "v5e", is_given=False)))
    v5e uses {0,1:T(8,128)(2,1)}: 55,296 bytes for 42,000 bytes of data (24% padding)
    >>> print(choice_answer(choice_of(parse_shape("bf16[300,70]{1,0}"), "v5e", is_given=True)))
    {1,0:T(8,128)(2,1)}: 77,824 bytes for 42,000 bytes of data (46% padding); v5e would use {0,1} (55,296 bytes)
    """
    array, default, best = choice.array, choice.default, choice.best
    uses = f"{choice.generation} uses " if default and not choice.given else ""
    parts = [f"{uses}{array.layout}: {stored_size_text(array)}"]
    if default is None:
        parts.append(f"the order that {choice.generation} uses is unknown")
    elif choice.given:
        parts.append(f"{choice.generation} would use {_instead(default, array)}")
    if best.padded_bytes < min((each.padded_bytes for each in (default, choice.given) if each), default=0):
        parts.append(f"order {index_text(best.layout.minor_to_major)} would need {best.padded_bytes:,} bytes")
    return "; ".join(parts)


def orders_table(choice: OrderChoice) -> Table:
    """Every order with its size."""
    rows = tuple(_row(each, choice) for each in choice.every)
    distinct = sum(each.is_normal or each == choice.given for each in choice.every)
    return Table(
        "orders",
        _COLUMNS,
        rows,
        noun="orders",
        limit=min(distinct, ROWS_FOR_A_PERSON),
        person=len(rows) > 1,
        footnote="Only the two minor-most dimensions affect the size." if len(rows) > distinct else "",
        marked=frozenset((0,)) if choice.default else frozenset(),
    )


def choice_numbers(choice: OrderChoice) -> dict[str, Cell]:
    """The numbers of the answer, for programs."""
    default, best = choice.default, choice.best
    return {
        "generation": choice.generation,
        "default_minor_to_major": default.layout.minor_to_major if default else UNKNOWN,
        "default_padded_bytes": default.padded_bytes if default else UNKNOWN,
        "smallest_minor_to_major": best.layout.minor_to_major if default else UNKNOWN,
        "smallest_padded_bytes": best.padded_bytes if default else UNKNOWN,
    }


def choice_notes(choice: OrderChoice) -> tuple[Diagnostic, ...]:
    """A note that not all orders are listed, if there are too many."""
    omitted = factorial(choice.array.rank) - len(choice.every)
    if not omitted:
        return ()
    return (Diagnostic("note", f"{omitted:,} orders that differ only in major dimensions are not shown"),)


def _row(each: OrderCost, choice: OrderChoice) -> tuple[Cell, ...]:
    array, order = choice.array, each.layout.minor_to_major
    data = array.logical_bytes + array.metadata_bytes
    return (
        index_text(order),
        order,
        "T" + "".join(map(str, each.layout.tiles)) if each.layout.tiles else "none",
        each.padded_bytes,
        1 - data / each.padded_bytes if each.padded_bytes else 0.0,
        ", ".join(_remarks(each, choice)),
        each == choice.default if choice.default else UNKNOWN,
        each == choice.given,
        str(each.layout),
    )


def _remarks(each: OrderCost, choice: OrderChoice) -> Iterator[str]:
    if each == choice.default:
        yield f"chosen by {choice.generation}"
    if each == choice.given:
        yield "given"
    if choice.default and each == choice.best != choice.default:
        yield "smallest"


def _instead(default: OrderCost, array: ArrayShape) -> str:
    order = default.layout.minor_to_major
    if order == array.layout.minor_to_major:
        return "the same"
    return f"{index_text(order)} ({default.padded_bytes:,} bytes)"
