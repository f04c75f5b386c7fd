"""Operations that apply a computation again and again: its flops and transcendentals count each time, its bytes never.

Mirrors `HandleReduce`, `HandleReduceWindow`, `HandleSelectAndScatter`, `HandleMap` and `HandleSort` of
xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from math import prod

from hlo_cli.analysis.cost.cost import FLOPS, TRANSCENDENTALS, Figures
from hlo_cli.analysis.cost.counting import CostCounter, ShapeSize
from hlo_cli.ir.attributes.window import WindowDimension
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape


def apply_body(instruction: Instruction, figures: Figures, count: CostCounter, times: int, *, callee: int = 0) -> None:
    """Add what a called computation calculates, a number of times."""
    if callee >= len(instruction.called_computations):
        return
    body = count.totals.get(instruction.called_computations[callee], {})
    for name in (FLOPS, TRANSCENDENTALS):
        if name in body:
            figures[name] = count.sum((figures.get(name, 0), count.times(body[name], times)))


def reduce(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """The body once for every element that vanishes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[4,9] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[4] reduce(a, b), dimensions={1}, to_apply=add }'''
    >>> cost_of(parse_module(text).entry.root).flops
    32
    """
    apply_body(
        instruction, figures, count, count.operand(instruction, 0).elements - _result(instruction, count).elements
    )


def map_(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """The body once for every element of the result."""
    apply_body(instruction, figures, count, _result(instruction, count).elements)


def scan(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """The body once for every element of operand 1."""
    apply_body(instruction, figures, count, count.operand(instruction, 1).elements)


def reduce_window(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """The body for every element of the window but the first, at every place.

    A window that covers the whole dimension from every place is a sum that is then repeated.
    """
    window = instruction.window
    dimensions = window.dimensions if window is not None else ()
    result = _result(instruction, count)
    times = (prod(d.size for d in dimensions) - 1) * result.elements
    if (whole := _whole_dimension(instruction, dimensions, result)) is not None:
        times = result.elements // whole + whole - 1
    apply_body(instruction, figures, count, times)


def select_and_scatter(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """For every element of the source: the selection as often as the window has elements but one, then the scatter."""
    source = count.operand(instruction, 1).elements
    window = instruction.window
    places = prod(d.size for d in window.dimensions) if window is not None else 1
    apply_body(instruction, figures, count, source * (places - 1))
    apply_body(instruction, figures, count, source, callee=1)


def sort(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """n log n comparisons of one flop, whatever the body does.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''less { x = s8[] parameter(0)  y = s8[] parameter(1)  ROOT z = compare(x, y), direction=LT }
    ... ENTRY e { a = s8[2,9] parameter(0)  ROOT r = s8[2,9] sort(a), dimensions={1}, to_apply=less }'''
    >>> cost_of(parse_module(text).entry.root).flops
    90
    """
    elements = count.operand(instruction, 0).elements
    figures[FLOPS] = elements * (max(elements % (1 << 64), 1) - 1).bit_length()


def _result(instruction: Instruction, count: CostCounter) -> ShapeSize:
    """The result, the first of several."""
    shape = instruction.shape
    return count.measure(shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape)


def _whole_dimension(
    instruction: Instruction, dimensions: tuple[WindowDimension, ...], result: ShapeSize
) -> int | None:
    """The size of the only dimension that is reduced, if each place's window reaches all of it."""
    reduced = [d for d in dimensions if d.size != 1]
    padded = [d for d in dimensions if d.padding_low or d.padding_high]
    if len(reduced) != 1 or len(padded) != 1 or isinstance(instruction.shape, TupleShape):
        return None
    d = reduced[0]
    size = result.size(dimensions.index(d))
    is_whole = 0 < d.padding_low == d.padding_high == size - 1 and d.size == 2 * d.padding_low + 1
    return size if is_whole else None
