"""Cost of operations that apply a computation to elements: its flops and transcendentals count per application.

Its bytes never count. Mirrors `HandleReduce`, `HandleReduceWindow`, `HandleSelectAndScatter`, `HandleMap`, and
`HandleSort` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from math import prod
from typing import Final

from hlo_cli.analysis.cost.cost import FLOPS, TRANSCENDENTALS, Properties
from hlo_cli.analysis.cost.counting import CostCounter, Handler, ShapeSize
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape


def apply_body(
    instruction: Instruction, properties: Properties, counter: CostCounter, times: int, *, callee: int = 0
) -> None:
    """Adds the flops and transcendentals of a called computation, multiplied by `times`."""
    if callee >= len(instruction.called_computations):
        return
    body = counter.totals.get(instruction.called_computations[callee], {})
    for name in (FLOPS, TRANSCENDENTALS):
        if name in body:
            properties[name] = counter.sum((properties.get(name, 0), counter.times(body[name], times)))


def reduce(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body once for every operand element minus the number of result elements.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[4,9] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[4] reduce(a, b), dimensions={1}, to_apply=add }'''
    >>> cost_of(parse_module(text).entry.root).flops
    32
    """
    apply_body(
        instruction,
        properties,
        counter,
        counter.operand(instruction, 0).elements - _result(instruction, counter).elements,
    )


def map_(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body once for every element of the result."""
    apply_body(instruction, properties, counter, _result(instruction, counter).elements)


def scan(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body once for every element of operand 1."""
    apply_body(instruction, properties, counter, counter.operand(instruction, 1).elements)


def reduce_window(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body for every window element but one, at every position.

    A cumulative window, which covers the whole dimension at every position, counts as one reduction and a broadcast.
    """
    window = instruction.window
    dimensions = window.dimensions if window is not None else ()
    result = _result(instruction, counter)
    times = (prod(d.size for d in dimensions) - 1) * result.elements
    if (whole := _cumulative_dimension(instruction, dimensions, result)) is not None:
        times = result.elements // whole + whole - 1
    apply_body(instruction, properties, counter, times)


def select_and_scatter(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts, for every source element, the selection for all window elements but one, and the scatter once."""
    source = counter.operand(instruction, 1).elements
    window = instruction.window
    places = prod(d.size for d in window.dimensions) if window is not None else 1
    apply_body(instruction, properties, counter, source * (places - 1))
    apply_body(instruction, properties, counter, source, callee=1)


def sort(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts n log n comparisons of one flop, whatever the body does.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''less { x = s8[] parameter(0)  y = s8[] parameter(1)  ROOT z = compare(x, y), direction=LT }
    ... ENTRY e { a = s8[2,9] parameter(0)  ROOT r = s8[2,9] sort(a), dimensions={1}, to_apply=less }'''
    >>> cost_of(parse_module(text).entry.root).flops
    90
    """
    elements = counter.operand(instruction, 0).elements
    # Unsigned, like the count that HandleSort passes to Log2Ceiling; the body is ignored.
    properties[FLOPS] = elements * (max(elements % (1 << 64), 1) - 1).bit_length()


def _result(instruction: Instruction, counter: CostCounter) -> ShapeSize:
    """Size of the result; of a tuple, its first element."""
    shape = instruction.shape
    return counter.measure(shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape)


def _cumulative_dimension(
    instruction: Instruction, dimensions: tuple[WindowDimension, ...], result: ShapeSize
) -> int | None:
    """Size of the only reduced dimension if the window covers all of it at every position, else None."""
    reduced = [d for d in dimensions if d.size != 1]
    padded = [d for d in dimensions if d.padding_low or d.padding_high]
    if len(reduced) != 1 or len(padded) != 1 or isinstance(instruction.shape, TupleShape):
        return None
    d = reduced[0]
    size = result.size(dimensions.index(d))
    is_whole = 0 < d.padding_low == d.padding_high == size - 1 and d.size == 2 * d.padding_low + 1
    return size if is_whole else None


HANDLERS: Final[dict[str, Handler]] = {
    "map": map_,
    "reduce": reduce,
    "reduce-window": reduce_window,
    "scan": scan,
    "select-and-scatter": select_and_scatter,
    "sort": sort,
}
"""What counts the cost of each opcode of this family."""
