"""What do instructions, computations, and kernels cost: flops, transcendentals, and bytes accessed, as in XLA?

Mirrors `HloCostAnalysis` of xla/service/hlo_cost_analysis.cc. XLA counts a loop body once, and -1 for a custom call;
`CostOptions` change that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from math import prod
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.cache import cached_per_module, computed_once
from hlo_cli.analysis.cost import matmuls, opcode_costs
from hlo_cli.analysis.cost.counting import (
    BYTES,
    EXACT,
    FLOPS,
    OPTIMAL_SECONDS,
    RUN,
    TRANSCENDENTALS,
    UNKNOWN,
    Cost,
    CostCounter,
    CostOptions,
    Handler,
    Number,
    Properties,
    int64,
    utilization_key,
)
from hlo_cli.analysis.dataflow.dependencies import callees_first, post_order
from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import ByInstruction
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import ELEMENTWISE, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import expect

# --- instructions, computations, and modules ---
# Mirrors `HloCostAnalysis` of xla/service/hlo_cost_analysis.cc. XLA counts a loop body once, and -1 for a custom call;
# `CostOptions` change that.


# Handlers of hlo_cost_analysis.cc that set the bytes to 0: values that are names for others, or exist already.
_FREE_OPCODES: Final = frozenset(
    (
        *(opcodes.ADD_DEPENDENCY, opcodes.AFTER_ALL, opcodes.BITCAST, opcodes.CONSTANT, opcodes.DOMAIN),
        *(opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER),
    )
)
_HANDLERS: Final[dict[str, Handler]] = {
    opcode: handler
    for handlers in (
        *(
            opcode_costs.ELEMENTWISE_HANDLERS,
            opcode_costs.MOVE_HANDLERS,
            opcode_costs.SLICE_HANDLERS,
            matmuls.MATMUL_HANDLERS,
        ),
        *(opcode_costs.APPLY_HANDLERS, opcode_costs.CONTROL_FLOW_HANDLERS, opcode_costs.FUSION_HANDLERS),
    )
    for opcode, handler in handlers.items()
}
_COUNTED_PROPERTIES: Final = (FLOPS, TRANSCENDENTALS, BYTES, UNKNOWN)
"""Properties that callers of a computation count; the others are of operands and results."""
_MOVING_OPCODES: Final = frozenset((opcodes.COPY, opcodes.SLICE, opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE))
_COSTED_BY_SHAPES: Final = frozenset(
    (
        *(*ELEMENTWISE, *_MOVING_OPCODES, opcodes.BROADCAST, opcodes.TUPLE),
        *(f"{opcode}{end}" for opcode in _MOVING_OPCODES for end in ("-start", "-done")),
    )
)
"""Opcodes whose cost depends on the shapes of the result and of the operands alone."""


def cost_of(instruction: Instruction, *, rules: CostOptions = EXACT) -> Cost:
    """Cost of one instruction, including the computations that it calls.

    >>> from hlo_cli import parse_module
    >>> cost_of(parse_module("r = f32[8] iota(), iota_dimension=0").entry.root).bytes_accessed
    32
    """
    return costs_among([instruction], rules=rules)[instruction]


@of_module
def cost_analysis(module: Module, *, rules: CostOptions = EXACT) -> ByInstruction[Instruction, Cost]:
    """Cost of every instruction, including those in fusions and other called computations; names are keys too.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[4] add(f32[4] a, f32[4] b)")
    >>> {instruction.opcode: cost.flops for instruction, cost in cost_analysis(module).items()}
    {'parameter': 0, 'add': 4}
    >>> cost_analysis(module)["r"].bytes_accessed
    48
    """
    expect(CostOptions, "CostOptions", rules)
    return cached_per_module(_exact_costs, module) if rules == EXACT else computed_once(_cost_analysis, module, rules)


def _exact_costs(module: Module) -> ByInstruction[Instruction, Cost]:
    return _cost_analysis(module, EXACT)


@no_garbage_collection()
def _cost_analysis(module: Module, rules: CostOptions) -> ByInstruction[Instruction, Cost]:
    properties: dict[Instruction, Properties] = {}
    _counted_computations(module.computations, rules, properties)
    cost = _Costs()
    return ByInstruction((instruction, cost.of(properties[instruction])) for instruction in module.instructions)


def costs_among(instructions: Iterable[Instruction], *, rules: CostOptions = EXACT) -> Mapping[Instruction, Cost]:
    """Cost of each given instruction, including the computations that it calls.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("r = f32[4] add(f32[4] a, f32[4] b)").entry.root
    >>> costs_among([root])[root].flops
    4
    """
    wanted = tuple(instructions)
    counter = _counted_computations(
        (called for instruction in wanted for called in instruction.called_computations), rules
    )
    cost, known = _Costs(), dict[tuple[object, ...], Properties]()
    return {instruction: cost.of(_shared_properties(instruction, counter, known)) for instruction in wanted}


def main_costs_among(instructions: Iterable[Instruction], *, rules: CostOptions) -> Iterator[Properties]:
    """Yields the properties of each given instruction, as `costs_among`, of which flops, bytes, and unknown are right.

    Takes half the time, because the computations that they call are counted without the bytes of single operands.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[4] add(f32[4] a, f32[4] b)")
    >>> [properties[FLOPS] for properties in main_costs_among([module.entry.root], rules=EXACT)]
    [4]
    """
    wanted = tuple(instructions)
    counter = CostCounter(rules)
    known: dict[tuple[object, ...], tuple[Number, ...]] = {}
    for computation in callees_first(called for instruction in wanted for called in instruction.called_computations):
        if (first := counter.first(computation)) is not computation:
            counter.totals[computation] = counter.totals[first]
            continue
        parts = [
            _main_part(each, counter, known) for each in computation.instructions if each.opcode not in _FREE_OPCODES
        ]
        # Exact sums, whose order does not matter; only the float form follows XLA's.
        total = zip(_COUNTED_PROPERTIES, map(sum, zip(*parts, strict=True)), strict=False)
        counter.totals[computation] = {name: value for name, value in total if value}
    for instruction in wanted:
        yield dict(zip(_COUNTED_PROPERTIES, _main_part(instruction, counter, known), strict=True))


def _main_part(
    instruction: Instruction, counter: CostCounter, known: dict[tuple[object, ...], tuple[Number, ...]]
) -> tuple[Number, ...]:
    """The main properties of an instruction; `known` has them by opcode and shapes."""
    key = _key(instruction, counter)
    if key and (part := known.get(key)) is not None:
        return part
    properties = _properties_of(instruction, counter)
    part = tuple([properties.get(name, 0) for name in _COUNTED_PROPERTIES])
    if key:
        known[key] = part
    return part


def computation_cost(computation: Computation, *, rules: CostOptions = EXACT) -> Cost:
    """Sum over the instructions of a computation, including all that they call."""
    return _cost(dict(_counted_computations((computation,), rules).totals[computation]))


@of_module
def module_cost(module: Module, *, rules: CostOptions = EXACT) -> Cost:
    """Sum over the entry computation, which XLA reports as the cost of a module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.counting import XLA
    >>> module = parse_module("r = f32[4097,4099] add(f32[4097,4099] a, f32[] b)")
    >>> module_cost(module).output_bytes, module_cost(module, rules=XLA).output_bytes
    (67174412, 67174416.0)
    """
    expect(CostOptions, "CostOptions", rules)
    return computation_cost(module.entry, rules=rules)


def _counted_computations(
    computations: Iterable[Computation], rules: CostOptions, each: dict[Instruction, Properties] | None = None
) -> CostCounter:
    """Counter with the totals of these computations and of their callees; `each` receives the summands."""
    counter, known = CostCounter(rules), dict[tuple[object, ...], Properties]()
    for computation in callees_first(computations):
        if (first := counter.first(computation)) is not computation:
            counter.totals[computation] = counter.totals[first]
            if each is not None:
                each.update(zip(computation.instructions, map(each.__getitem__, first.instructions), strict=True))
            continue
        total: Properties = {}
        for instruction in _in_order(computation, rules):
            properties = _shared_properties(instruction, counter, known)
            counter.add(total, properties)
            if each is not None:
                each[instruction] = properties
        counter.totals[computation] = {name: value for name, value in total.items() if value}
    return counter


def _shared_properties(
    instruction: Instruction, counter: CostCounter, known: dict[tuple[object, ...], Properties]
) -> Properties:
    """The properties of an instruction, which must not be changed; `known` has them by opcode and shapes."""
    if not (key := _key(instruction, counter)):
        return _properties_of(instruction, counter)
    if (properties := known.get(key)) is None:
        properties = known[key] = _properties_of(instruction, counter)
    return properties


def _key(instruction: Instruction, counter: CostCounter) -> tuple[object, ...]:
    """What the cost of an instruction depends on; empty if that is more than shapes and a fused computation.

    A module has thousands of adds on a handful of shapes, and many equal fusions.
    """
    opcode, operands, called = instruction.opcode, instruction.operands, instruction.called_computations
    if opcode in _FREE_OPCODES:
        return opcode, len(operands)
    body: Computation | None = None
    if called:
        if opcode != opcodes.FUSION or len(called) > 1 or opcode_costs.is_custom(instruction):
            return ()
        body = counter.first(called[0])
    elif opcode not in _COSTED_BY_SHAPES:
        return ()
    if instruction.computation.operand_indices:
        return ()
    # By identity, as hashing a shape is slow. Constants of packed types are measured otherwise than other operands.
    return (
        opcode, body, id(instruction.shape), *[id(operand.shape) for operand in operands],
        *[at for at, operand in enumerate(operands) if operand.opcode == opcodes.CONSTANT],
    )  # fmt: skip


def _in_order(computation: Computation, rules: CostOptions) -> Iterator[Instruction]:
    """Instructions in XLA's order, where rounding depends on it, else in the order of the text."""
    # Float sums depend on the order: with that of the text, 121 of 132 dumps agree to the last digit instead of all.
    return post_order(computation) if rules.float32 else iter(computation.instructions)


def _properties_of(instruction: Instruction, counter: CostCounter) -> Properties:
    if instruction.opcode in _FREE_OPCODES:  # half of all instructions
        return {utilization_key(number): 1 for number in range(len(instruction.operands))}
    properties = counter.defaults(instruction)
    handler = _HANDLERS.get(instruction.opcode)
    if handler is not None:
        handler(instruction, properties, counter)
    # XLA's parser turns such a start into an async-start that calls the wrapped operation.
    elif instruction.opcode.endswith("-start") and (wrapped := wrapped_opcode(instruction.opcode)) is not None:
        # HandleAsyncStart resets the time, as it does for a call.
        properties = _properties_of(_wrapped(instruction, wrapped), counter) | {OPTIMAL_SECONDS: 0}
    if counter.has_unbounded(instruction):
        _mark_unbounded(properties, counter.rules)
    return counter.finish(properties)


def _mark_unbounded(properties: Properties, rules: CostOptions) -> None:
    """Wraps values of unbounded sizes to int64, or marks them as unknown."""
    if not rules.wraps:
        # `?` counts as 1 here, so the figure is a lower bound and has to be marked.
        properties.setdefault(UNKNOWN, 1)
        return
    for name, value in properties.items():
        if isinstance(value, int):
            properties[name] = int64(value)


def _wrapped(start: Instruction, opcode: str) -> Instruction:
    """Operation that a sugared start begins; its result is element 1 of the start's tuple (operands, result,
    context).
    """
    is_tuple = isinstance(start.shape, TupleShape) and len(start.shape.elements) > 1
    # A start returns (operands, result, context), whatever the operation is.
    shape = start.shape.elements[1] if is_tuple and isinstance(start.shape, TupleShape) else start.shape
    inner = Instruction(start.name, shape, opcode, start.operands, start.computation, start.index)
    inner.called_computations = start.called_computations
    return inner


def _cost(properties: Properties) -> Cost:
    unknown = properties.pop(UNKNOWN, 0)
    return Cost(MappingProxyType(properties), int(unknown))


class _Costs:
    """Costs with these properties: one for all instructions that share them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # by identity; a cost keeps its properties, so that no other ones have their id
        self._known: dict[int, Cost] = {}

    def of(self, properties: Properties) -> Cost:
        cost = self._known.get(id(properties))
        if cost is None:
            cost = self._known[id(properties)] = _cost(properties)
        return cost


# --- kernels ---


NO_KERNELS: Final = operations.NO_KERNELS | CONTROL_FLOW
"""Opcodes that launch no kernel of their own; computations that control flow runs are in the schedule themselves."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Number of kernels with their total flops and bytes accessed.

    `unknown` is the number of operations of unknown cost, which add no flops.
    """

    kernels: int = 0
    flops: int = 0
    bytes: int = 0
    unknown: int = field(default=0, repr=False)

    def __add__(self, other: KernelCost) -> KernelCost:
        return KernelCost(
            self.kernels + other.kernels,
            self.flops + other.flops,
            self.bytes + other.bytes,
            self.unknown + other.unknown,
        )

    def __sub__(self, other: KernelCost) -> KernelCost:
        return self + other * -1

    def __mul__(self, times: int) -> KernelCost:
        return KernelCost(self.kernels * times, self.flops * times, self.bytes * times, self.unknown * times)

    def __floordiv__(self, times: int) -> KernelCost:
        # For averages over executions; whole kernels and bytes are what screens show.
        return KernelCost(self.kernels // times, self.flops // times, self.bytes // times, self.unknown // times)


def kernel_costs(instructions: Iterable[Instruction]) -> Mapping[Instruction, KernelCost]:
    """Cost of one run of each kernel among the instructions.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }").entry
    >>> kernel_costs(entry.instructions)
    {<add a>: KernelCost(kernels=1, flops=2, bytes=24)}
    """
    return {each: kernel_cost_of(cost) for each, cost in costs_of_kernels(instructions).items()}


def inclusive_costs(instructions: Iterable[Instruction]) -> Mapping[Instruction, KernelCost]:
    """Cost of each instruction; loops and calls include all that they run.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  f { a = s8[9] parameter(0) ROOT n = s8[9] not(a) }"
    >>> entry = parse_module(text + " ENTRY e { p = s8[9] parameter(0) ROOT c = s8[9] call(p), to_apply=f }").entry
    >>> inclusive_costs(entry.instructions)
    {<call c>: KernelCost(kernels=1, flops=9, bytes=18)}
    """
    costs = costs_among((i for i in instructions if i.opcode not in NO_KERNELS or i.opcode in CONTROL_FLOW), rules=RUN)
    return {each: kernel_cost_of(cost) for each, cost in costs.items()}


def costs_of_kernels(instructions: Iterable[Instruction]) -> Mapping[Instruction, Cost]:
    """All cost properties of one run of each kernel among the instructions.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }").entry
    >>> [(kernel.name, cost.bytes_accessed) for kernel, cost in costs_of_kernels(entry.instructions).items()]
    [('a', 24)]
    """
    return costs_among((i for i in instructions if i.opcode not in NO_KERNELS), rules=RUN)


def kernel_cost_of(cost: Cost) -> KernelCost:
    """Kernel cost of one kernel with these properties.

    >>> kernel_cost_of(Cost({"flops": 2.0, "bytes accessed": 24}))
    KernelCost(kernels=1, flops=2, bytes=24)
    """
    return KernelCost(1, round(cost.flops), round(cost.bytes_accessed), cost.unknown)


# --- evaluation element by element ---


MAX_FOLDED_ELEMENTS: Final = 45_000_000
"""Constant folding skips instructions whose result or operands have more elements, since 2019."""
_WINDOWED_OPCODES: Final = frozenset(("reduce-window", "select-and-scatter"))


def evaluations(instruction: Instruction) -> int | None:
    """The number of scalar operations; None if it depends on what is not in the text.

    >>> from hlo_cli import parse_module
    >>> evaluations(parse_module("r = f32[5] reduce-window(f32[7] a, f32[] b), window={size=3}, to_apply=f").entry.root)
    15
    >>> evaluations(parse_module("r = f32[] reduce(f32[7] a, f32[] b), dimensions={0}, to_apply=f").entry.root)
    7
    """
    elements = element_count(instruction.shape)
    opcode = instruction.opcode
    if opcode in _WINDOWED_OPCODES:
        window = instruction.window
        # The evaluator visits every place of the window, padding included.
        size = prod(dimension.size for dimension in window.dimensions) if window is not None else None
        return None if size is None or elements is None else elements * size
    if opcode == opcodes.REDUCE:
        return _elements_of_operands(instruction, len(instruction.operands) // 2)
    if opcode in (opcodes.DOT, opcodes.CONVOLUTION):
        # A dot evaluates a product and a sum as one step.
        return None if operand_elements(instruction) is None else int(cost_of(instruction).flops) // 2
    return elements


def operand_elements(instruction: Instruction) -> int | None:
    """The elements of all operands; None if the shape of one is not in the text."""
    return _elements_of_operands(instruction, len(instruction.operands))


def _elements_of_operands(instruction: Instruction, number: int) -> int | None:
    counts = [element_count(instruction.operand_shape(position)) for position in range(number)]
    return None if any(count is None for count in counts) else sum(count or 0 for count in counts)


def element_count(shape: Shape) -> int | None:
    """The elements of all arrays of a shape; None if they are unknown.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> element_count(parse_shape("(f32[2,3], s32[])"))
    7
    """
    leaves = [leaf for _, leaf in shape.leaves]
    if not all(isinstance(leaf, ArrayShape) for leaf in leaves) or not leaves:
        return None
    return sum(leaf.elements for leaf in leaves if isinstance(leaf, ArrayShape))
