"""What instructions, computations and modules cost: flops, transcendentals and bytes, as XLA counts them.

Mirrors `HloCostAnalysis` of xla/service/hlo_cost_analysis.cc. XLA counts a loop's body once, and -1 for what it does
not know; `CostOptions` say what is done instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.cost.apply_ops import map_, reduce, reduce_window, scan, select_and_scatter, sort
from hlo_cli.analysis.cost.control_flow import async_start, call, conditional, custom_call, while_
from hlo_cli.analysis.cost.cost import EXACT, OPTIMAL_SECONDS, UNKNOWN, Cost, CostOptions, Figures, utilization_key
from hlo_cli.analysis.cost.counting import CostCounter, Handler, int64
from hlo_cli.analysis.cost.data_movement import all_reduce, infeed, outfeed, transpose, tuple_
from hlo_cli.analysis.cost.dots_and_convs import cholesky, convolution, dot, fft, ragged_dot, triangular_solve
from hlo_cli.analysis.cost.elementwise import FLOP_OPCODES, one_flop_an_element, one_transcendental_an_element
from hlo_cli.analysis.cost.fusions import fusion
from hlo_cli.analysis.cost.slices import dynamic_slice, dynamic_update_slice, gather, scatter, slice_
from hlo_cli.analysis.cost.traversal import callees_first, post_order
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import TRANSCENDENTAL, wrapped_opcode
from hlo_cli.ir.shape import TupleShape

_FREE: Final = frozenset(
    (
        *(opcodes.ADD_DEPENDENCY, opcodes.AFTER_ALL, opcodes.BITCAST, opcodes.CONSTANT, opcodes.DOMAIN),
        *(opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER),
    )
)
_HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(FLOP_OPCODES, one_flop_an_element),
    **dict.fromkeys((*TRANSCENDENTAL, "rng", "rng-bit-generator"), one_transcendental_an_element),
    "all-reduce": all_reduce,
    "all-reduce-start": all_reduce,
    "async-start": async_start,
    "call": call,
    "cholesky": cholesky,
    "conditional": conditional,
    "convolution": convolution,
    "custom-call": custom_call,
    "dot": dot,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "fft": fft,
    "fusion": fusion,
    "gather": gather,
    "infeed": infeed,
    "map": map_,
    "outfeed": outfeed,
    "ragged-dot": ragged_dot,
    "reduce": reduce,
    "reduce-window": reduce_window,
    "scaled-dot": dot,
    "scan": scan,
    "scatter": scatter,
    "select-and-scatter": select_and_scatter,
    "slice": slice_,
    "sort": sort,
    "transpose": transpose,
    "triangular-solve": triangular_solve,
    "tuple": tuple_,
    "while": while_,
}


def cost_of(instruction: Instruction, *, rules: CostOptions = EXACT) -> Cost:
    """What one instruction costs, with the computations that it calls.

    >>> from hlo_cli import parse_module
    >>> cost_of(parse_module("r = f32[8] iota(), iota_dimension=0").entry.root).bytes_accessed
    32
    """
    return costs_among([instruction], rules=rules)[instruction]


@no_garbage_collection()
def cost_analysis(module: Module, *, rules: CostOptions = EXACT) -> Mapping[Instruction, Cost]:
    """What every instruction costs, those inside fusions and other called computations too.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[4] add(f32[4] a, f32[4] b)")
    >>> {instruction.opcode: cost.flops for instruction, cost in cost_analysis(module).items()}
    {'parameter': 0, 'add': 4}
    """
    each: dict[Instruction, Figures] = {}
    _counted(module.computations, rules, each)
    return {instruction: _cost(each[instruction]) for instruction in module.instructions}


def costs_among(instructions: Iterable[Instruction], *, rules: CostOptions = EXACT) -> Mapping[Instruction, Cost]:
    """What each of some instructions costs, with the computations that it calls.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("r = f32[4] add(f32[4] a, f32[4] b)").entry.root
    >>> costs_among([root])[root].flops
    4
    """
    wanted = tuple(instructions)
    count = _counted((called for instruction in wanted for called in instruction.called_computations), rules)
    return {instruction: _cost(_figures_of(instruction, count)) for instruction in wanted}


def computation_cost(computation: Computation, *, rules: CostOptions = EXACT) -> Cost:
    """The sum over the instructions of a computation, with all that they call."""
    return _cost(dict(_counted((computation,), rules).totals[computation]))


def module_cost(module: Module, *, rules: CostOptions = EXACT) -> Cost:
    """The sum over the entry computation, which is what XLA calls the cost of a module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost import XLA
    >>> module = parse_module("r = f32[4097,4099] add(f32[4097,4099] a, f32[] b)")
    >>> module_cost(module).output_bytes, module_cost(module, rules=XLA).output_bytes
    (67174412, 67174416.0)
    """
    return computation_cost(module.entry, rules=rules)


def _counted(
    computations: Iterable[Computation], rules: CostOptions, each: dict[Instruction, Figures] | None = None
) -> CostCounter:
    """A count in which these computations, and all that they call, have their sums; `each` keeps what is summed."""
    count = CostCounter(rules)
    for computation in callees_first(computations):
        total: Figures = {}
        for instruction in _visited(computation, rules):
            figures = _figures_of(instruction, count)
            count.add(total, figures)
            if each is not None:
                each[instruction] = figures
        count.totals[computation] = {name: value for name, value in total.items() if value}
    return count


def _visited(computation: Computation, rules: CostOptions) -> Iterator[Instruction]:
    """The instructions in XLA's order where rounding depends on it, else in that of the text."""
    return post_order(computation) if rules.float32 else iter(computation.instructions)


def _figures_of(instruction: Instruction, count: CostCounter) -> Figures:
    if instruction.opcode in _FREE:  # half of all instructions
        return {utilization_key(number): 1 for number in range(len(instruction.operands))}
    figures = count.defaults(instruction)
    handler = _HANDLERS.get(instruction.opcode)
    if handler is not None:
        handler(instruction, figures, count)
    elif instruction.opcode.endswith("-start") and (wrapped := wrapped_opcode(instruction.opcode)) is not None:
        figures = _figures_of(_wrapped(instruction, wrapped), count) | {OPTIMAL_SECONDS: 0}
    if count.is_unbounded(instruction):
        _leave_open(figures, count.rules)
    return count.finished(figures)


def _leave_open(figures: Figures, rules: CostOptions) -> None:
    """Figures of sizes that nobody knows: as an int64 holds them, or as unknown."""
    if not rules.wraps:
        figures.setdefault(UNKNOWN, 1)
        return
    for name, value in figures.items():
        if isinstance(value, int):
            figures[name] = int64(value)


def _wrapped(start: Instruction, opcode: str) -> Instruction:
    """The operation that a sugared start begins: the result of a start is a tuple of operands, result and context."""
    is_tuple = isinstance(start.shape, TupleShape) and len(start.shape.elements) > 1
    shape = start.shape.elements[1] if is_tuple and isinstance(start.shape, TupleShape) else start.shape
    inner = Instruction(start.name, shape, opcode, start.operands, start.computation, start.index)
    inner.called_computations = start.called_computations
    return inner


def _cost(figures: Figures) -> Cost:
    unknown = figures.pop(UNKNOWN, 0)
    return Cost(MappingProxyType(figures), int(unknown))
