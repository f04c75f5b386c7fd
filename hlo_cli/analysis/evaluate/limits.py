"""Limits of an evaluation: what a module would take, estimated before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.dependencies import depth_first
from hlo_cli.analysis.dataflow.executions import executions_of, loop_runs
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.evaluate.work import callee_of, work_of
from hlo_cli.analysis.semantics.number_types import Floats, carrier
from hlo_cli.analysis.semantics.shaping import keeps_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

MAX_DEPTH: Final = 100
"""The most computations that may be in each other: Python has a stack of 1,000 calls."""
_MAX_ELEMENTS: Final = 1 << 56
_MAPPED: Final = 1 << 16
"""Elements from which on maps of addresses are counted."""
_NO_VALUES: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.BROADCAST, opcodes.COPY))
"""Opcodes whose result has no memory of its own."""
_RESHAPES: Final = frozenset((opcodes.BITCAST, opcodes.RESHAPE))
"""The same, unless the elements of the operand are not one after another, so that they are copied."""
_SCATTERED: Final = frozenset((opcodes.BROADCAST, opcodes.IOTA, opcodes.SLICE, opcodes.TRANSPOSE))
_PASSING: Final = frozenset((*_RESHAPES, opcodes.COPY, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an evaluation takes: scalar operations, and bytes of the values that are live at once at most.

    `is_bound` tells that a trip count is unknown, so that the operations are only a lower bound.
    """

    operations: int
    live_bytes: int
    is_bound: bool


class _Total(NamedTuple):
    """The same for one run of a computation, with the instructions that take most, and how deep its calls are.

    `held_bytes` are those of values alone, without what kernels allocate besides; `map_bytes` are those of kernels that
    are kept until the end.
    """

    operations: int
    live_bytes: int
    held_bytes: int
    map_bytes: int
    depth: int
    heaviest: Instruction | None
    largest: Instruction | None
    deepest: Instruction | None


_NONE: Final = _Total(0, 0, 0, 0, 0, None, None, None)


def estimate(module: Module, floats: Floats = "exact") -> Estimate:
    """What an evaluation of a module takes, from shapes and trip counts.

    >>> from hlo_cli import parse_module
    >>> estimate(parse_module("r = f32[8] add(f32[8] a, f32[8] b)"))
    Estimate(operations=8, live_bytes=96, is_bound=False)
    """
    return _estimate(module, _totals(module, floats))


def _estimate(module: Module, totals: Mapping[Computation, _Total]) -> Estimate:
    found = totals.get(module.entry, _NONE)
    is_bound = any(not each.is_known for each in executions_of(module).values())
    maps = sum(each.map_bytes for each in totals.values())
    return Estimate(found.operations, found.live_bytes + maps, is_bound)


def check(module: Module, floats: Floats, limits: Limits, devices: int = 1) -> Estimate:
    """The estimate for all devices; HloError with the place if it is beyond a limit."""
    totals = _totals(module, floats)
    single = _estimate(module, totals)
    others = totals[module.entry].held_bytes * (devices - 1)  # kernels run on one device after another
    found = Estimate(single.operations * devices, single.live_bytes + others, single.is_bound)

    def error(message: str, place: Instruction | None, hint: str) -> HloError:
        span = None if place is None else place.span
        named = f", at {place.name}" if place is not None and span is None else ""
        return HloError(f"{message}{named}", span, source=module.source, hint=hint)

    if totals[module.entry].depth > MAX_DEPTH:
        place = _deep(module.entry, totals)
        raise HloError(
            f"computations call each other too deeply: {place.name} is the call number {MAX_DEPTH}",
            place.span,
            source=module.source,
        )
    if found.live_bytes > limits.max_bytes:
        raise error(
            f"evaluation needs {_gibibytes(found.live_bytes)} GiB of memory, above the limit of "
            f"{_gibibytes(limits.max_bytes)} GiB",
            _innermost(module.entry, totals, "largest"),
            "use --max-memory SIZE to raise the limit",
        )
    if found.operations > limits.max_operations:
        raise error(
            f"evaluation needs {count_text(found.operations)} scalar operations, "
            f"above the limit of {count_text(limits.max_operations)}",
            _innermost(module.entry, totals, "heaviest"),
            "use --max-operations N to raise the limit",
        )
    return found


def _innermost(computation: Computation, totals: Mapping[Computation, _Total], what: str) -> Instruction | None:
    """The instruction that takes most, through those that call others."""
    place: Instruction | None = getattr(totals[computation], what)
    while place is not None and callee_of(place) is None:
        inner = [each for each in place.called_computations if getattr(totals.get(each, _NONE), what) is not None]
        if not inner:
            break
        size = "live_bytes" if what == "largest" else "operations"
        place = getattr(totals[max(inner, key=lambda each: int(getattr(totals[each], size)))], what)
    return place


def _deep(computation: Computation, totals: Mapping[Computation, _Total]) -> Instruction:
    """The call at which computations are too deep in each other."""
    place = totals[computation].deepest
    assert place is not None
    for _ in range(MAX_DEPTH - 1):
        below = max(place.called_computations, key=lambda each: totals[each].depth if each in totals else 0)
        if (deeper := totals[below].deepest) is None:
            break
        place = deeper
    return place


def _gibibytes(size: int) -> str:
    """A size in GiB.

    >>> _gibibytes(8 << 30), _gibibytes(1 << 20), _gibibytes(5 << 40)
    ('8', '0.000977', '5,120')
    """
    return f"{size / 2**30:,.0f}" if size >= 100 << 30 else f"{size / 2**30:.3g}"


def count_text(operations: int) -> str:
    """A number of operations, short if it is long.

    >>> count_text(16), count_text(40_000_000_000), count_text(10**400)
    ('16', '4e+10', '1e+400')
    """
    if operations < 1_000_000:
        return f"{operations:,}"
    return f"{operations:.3g}" if operations < 10**300 else f"1e+{len(str(operations >> 900)) + 270}"


def _totals(module: Module, floats: Floats) -> dict[Computation, _Total]:
    """The total of every computation that the entry reaches, callees first."""
    found: dict[Computation, _Total] = {}
    order = depth_first((module.entry,), lambda c: [called for i in c.instructions for called in i.called_computations])
    for computation in order:
        found[computation] = _total(computation, found, floats)
    return found


def _total(computation: Computation, totals: Mapping[Computation, _Total], floats: Floats) -> _Total:
    operations = maps = 0
    heaviest: tuple[int, Instruction | None] = (0, None)
    deepest: tuple[int, Instruction | None] = (0, None)
    scratch: dict[Instruction, int] = {}
    for instruction in computation.instructions:
        callee = callee_of(instruction)
        inner = _NONE if callee is None else totals.get(callee, _NONE)
        work = work_of(instruction, inner.operations, inner.live_bytes)
        own = work.operations + _called_operations(instruction, totals)
        if work.scratch:
            scratch[instruction] = work.scratch
        maps += _map_bytes(instruction)
        operations += own
        if own > heaviest[0]:
            heaviest = own, instruction
        for each in instruction.called_computations:
            depth = totals.get(each, _NONE).depth + 1
            if depth > deepest[0]:
                deepest = depth, instruction
    live, held, largest = _live_bytes(computation, totals, scratch, floats)
    return _Total(operations, live, held, maps, deepest[0], heaviest[1], largest, deepest[1])


def _called_operations(instruction: Instruction, totals: Mapping[Computation, _Total]) -> int:
    """The operations of the computations that an instruction runs as they are."""
    called = [totals.get(each, _NONE).operations for each in instruction.called_computations]
    if not called or callee_of(instruction) is not None or instruction.opcode in ASYNC_CONTINUATIONS:
        return 0
    if instruction.opcode == opcodes.CONDITIONAL:
        return max(called)
    if instruction.opcode == opcodes.WHILE and (runs := loop_runs(instruction)) is not None:
        return sum(each * runs[at == 0] for at, each in enumerate(reversed(called)))
    return sum(called)


def _live_bytes(
    computation: Computation, totals: Mapping[Computation, _Total], scratch: Mapping[Instruction, int], floats: Floats
) -> tuple[int, int, Instruction | None]:
    """The bytes that are live at once at most, those of values alone, and the instruction at which they are."""
    last = {operand: at for at, each in enumerate(computation.instructions) for operand in each.operands}
    ends: dict[int, int] = {}
    scattered: dict[Instruction, int] = {}
    now = most = held = 0
    place = None
    for at, instruction in enumerate(computation.instructions):
        opcode = instruction.opcode
        given = sum(scattered.get(each, 0) for each in instruction.operands) if scattered else 0
        if opcode in _SCATTERED:
            scattered[instruction] = sum(_sizes(instruction, floats))
        elif given and opcode in _PASSING:
            scattered[instruction] = given if opcode == opcodes.TUPLE else min(given, sum(_sizes(instruction, floats)))
        own = 0
        if opcode not in _NO_VALUES and (opcode not in _RESHAPES or given):
            own = sum(_sizes(instruction, floats))
        called = [totals.get(each, _NONE) for each in instruction.called_computations]
        inner = max((each.live_bytes for each in called), default=0)
        if called and callee_of(instruction) is None:
            inner += given  # what is called may reshape it
        now += own
        held = max(held, now + max((each.held_bytes for each in called), default=0))
        if now + inner + scratch.get(instruction, 0) > most:
            most, place = now + inner + scratch.get(instruction, 0), instruction
        if (end := last.get(instruction)) is not None:
            ends[end] = ends.get(end, 0) + own
        now -= ends.pop(at, 0)
    return most, held, place


def _map_bytes(instruction: Instruction) -> int:
    """Bytes of the maps of addresses by which a bitcast moves elements."""
    if instruction.opcode != opcodes.BITCAST:
        return 0
    old, new = instruction.operand_shape(0), instruction.shape
    if not isinstance(old, ArrayShape) or not isinstance(new, ArrayShape) or new.elements < _MAPPED:
        return 0
    return 0 if keeps_order(old, new) else 8 * (old.elements + new.elements)


def _sizes(instruction: Instruction, floats: Floats) -> Iterator[int]:
    for _, leaf in instruction.shape.leaves:
        if isinstance(leaf, ArrayShape):
            elements = prod(leaf.dimensions)
            if not elements and (others := prod(max(1, each) for each in leaf.dimensions)) > _MAX_ELEMENTS:
                elements = others  # numpy has no such arrays, even without elements
            yield elements * carrier(leaf.element_type, floats).itemsize
