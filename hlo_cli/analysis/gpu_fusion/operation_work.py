"""Cycles and bytes of single operations on a GPU, as the rules of each opcode give them.

Mirrors the handlers of xla/service/gpu/model/gpu_hlo_cost_analysis.cc and xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.durations import f32
from hlo_cli.analysis.gpu_fusion.shapes import arrays_of, bytes_of, elements_of, first_array, sizes_of, type_of
from hlo_cli.analysis.hardware.gpu_op_cycles import DEFAULT_CYCLES, op_cycles
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape, TupleShape

_COUNTED: Final = ELEMENTWISE - {opcodes.COPY}
_CONCATENATE_CYCLES: Final = 6
_UNALIGNED_CONCATENATE_CYCLES: Final = 400
_NO_WORK: Final = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST))


class Basic(NamedTuple):
    """Cycles of an operation, and how often it uses each element of each operand.

    `hands_groups_on`: its operands are used as often as its result, element by element.
    """

    flops: float
    utilization: tuple[float, ...]
    hands_groups_on: bool


class OperationWork:
    """Work of operations by the cycles of a profile; remembers what was asked for, once for all clones."""

    __slots__ = ("_applied", "_cycles", "_known")

    def __init__(self, profile: str) -> None:
        self._cycles = op_cycles(profile)
        self._known: dict[Node | Instruction, Basic] = {}
        self._applied: dict[Computation, float] = {}

    def of(self, node: Node) -> Basic:
        """Cycles and utilization of an operation that is not a fusion."""
        key = node.instruction if node.opcode == node.instruction.opcode else node
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Basic(self._flops(node), _utilization(node), _hands_groups_on(node))
        return found

    def bytes_of(self, node: Node) -> tuple[list[float], float]:
        """Bytes that an operation reads of each operand, and writes."""
        reads: list[float] = [bytes_of(operand.shape) for operand in node.operands]
        written: float = sum(bytes_of(array) for array in arrays_of(node.shape))
        match node.opcode:
            case opcode if opcode in _NO_WORK:
                return [0.0] * len(reads), 0.0
            case opcodes.BROADCAST | opcodes.SLICE | opcodes.DYNAMIC_SLICE | opcodes.GATHER:
                reads[0] = written
            case opcodes.DYNAMIC_UPDATE_SLICE:
                reads[0], written = 0.0, reads[1]
            case opcodes.SCATTER:
                count = len(reads) // 2
                reads[:count] = reads[count + 1 :]
                written = sum(reads[:count])
            case opcodes.REDUCE:
                for place in range(len(reads) // 2, len(reads)):
                    reads[place] = elements_of(first_array(node.shape)) * reads[place]
            case opcodes.REDUCE_WINDOW:
                window, _ = _window_counts(node)
                shape = node.operands[0].shape
                width = shape.element_type.byte_width if isinstance(shape, ArrayShape) else 0
                reads[0] = elements_of(first_array(node.shape)) * window * width
        return [f32(count) for count in reads], f32(written)

    def _flops(self, node: Node) -> float:
        elements = elements_of(node.shape)
        match node.opcode:
            case opcodes.CONCATENATE:
                return f32(_concatenate_cycles(node) * elements)
            case opcodes.REDUCE:
                count = elements_of(node.operands[0].shape) - elements_of(first_array(node.shape))
                return self._applications(node, count)
            case opcodes.REDUCE_WINDOW:
                return self._applications(node, _window_counts(node)[1])
            case opcodes.SCATTER:
                return self._applications(node, elements_of(node.operands[len(node.operands) // 2 + 1].shape))
            case opcodes.MAP:
                return self._applications(node, elements)
            case opcode if opcode in _COUNTED:
                return f32(self._cycles.get((opcode, type_of(node)), DEFAULT_CYCLES) * elements)
        return 0.0

    def _applications(self, node: Node, count: int) -> float:
        called = node.instruction.called_computations
        return f32(self._flops_of(called[0]) * f32(count)) if called else 0.0

    def _flops_of(self, applied: Computation) -> float:
        """Cycles of a computation of scalars."""
        total = self._applied.get(applied)
        if total is None:
            total = 0.0
            for each in applied.instructions:
                if each.opcode in _COUNTED and isinstance(each.shape, ArrayShape):
                    cycles = self._cycles.get((each.opcode, each.shape.element_type.name), DEFAULT_CYCLES)
                    total = f32(total + cycles * each.shape.elements)
            self._applied[applied] = total
        return total


def _concatenate_cycles(node: Node) -> int:
    (dimension,) = node.instruction.integers("dimensions")[:1] or (0,)
    is_aligned = dimension == 0 or sizes_of(node.operands[0])[dimension] % 32 == 0
    return _CONCATENATE_CYCLES if is_aligned else _UNALIGNED_CONCATENATE_CYCLES


def _utilization(node: Node) -> tuple[float, ...]:
    """How often each element of each operand is used, on average."""
    found = [1.0] * len(node.operands)
    result = elements_of(first_array(node.shape))
    match node.opcode:
        case opcodes.BROADCAST | opcodes.SLICE | opcodes.DYNAMIC_SLICE | opcodes.GATHER:
            found[0] = _ratio(result, elements_of(node.operands[0].shape))
        case opcodes.DYNAMIC_UPDATE_SLICE:
            found[0] = _ratio(result - elements_of(node.operands[1].shape), result)
        case opcodes.REDUCE:
            for place in range(len(found) // 2, len(found)):
                found[place] = _ratio(result, elements_of(node.operands[place].shape))
        case opcodes.REDUCE_WINDOW:
            window, _ = _window_counts(node)
            found[0] = _ratio(result * window, elements_of(node.operands[0].shape))
    return tuple(found)


def _hands_groups_on(node: Node) -> bool:
    """Whether the operands of an operation are used as its result is."""
    if node.opcode in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT):
        return True
    if node.opcode == opcodes.BITCAST:
        given, result = node.operands[0].shape, node.shape
        return (
            isinstance(given, ArrayShape)
            and isinstance(result, ArrayShape)
            and given.dimensions == result.dimensions
            and given.layout == result.layout
        )
    return is_elementwise(node)


def _ratio(one: int, other: int) -> float:
    return f32(one / other) if other else 0.0


def _window_counts(node: Node) -> tuple[int, int]:
    """Elements of a window, and applications of the computation of a reduce-window."""
    window = node.instruction.window
    dimensions = window.dimensions if window is not None else ()
    result = elements_of(first_array(node.shape))
    size = prod(d.size for d in dimensions)
    if (whole := _cumulative_size(node, dimensions)) is not None:
        return whole, result // whole + whole - 1
    return size, (size - 1) * result


def _cumulative_size(node: Node, dimensions: tuple[WindowDimension, ...]) -> int | None:
    """Size of the only reduced dimension if the window covers all of it at every position, else None."""
    reduced = [place for place, d in enumerate(dimensions) if d.size != 1]
    padded = [d for d in dimensions if d.padding_low or d.padding_high]
    if len(reduced) != 1 or len(padded) != 1 or isinstance(node.shape, TupleShape):
        return None
    d, size = dimensions[reduced[0]], sizes_of(node)[reduced[0]]
    is_whole = 0 < d.padding_low == d.padding_high == size - 1 and d.size == 2 * d.padding_low + 1
    return size if is_whole else None
