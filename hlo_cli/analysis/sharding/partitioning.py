"""What does the partitioner make of a module: which part of each operation is left to a device, which collectives does
it add?

A model of xla/service/spmd, not its result: parts of arrays flow from operands to results, and where those of two
operands do not fit together, the collective that the partitioner would use is counted. Which axis of the mesh cuts a
dimension is not followed, only in how many parts; halos are not, either. Of twelve programs that JAX partitioned for 8
devices (data, tensor, and fully sharded parallelism, a loop, attention, a convolution), it has the bytes of the
collectives within 20%.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Final, TypeAlias

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, Executions, executions_of
from hlo_cli.analysis.sharding.collectives import Collective
from hlo_cli.analysis.sharding.entry_arrays import is_partitioned, partitions_of
from hlo_cli.analysis.sharding.placement import leaf_shardings, placement_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import convolution_dimension_numbers, dot_dimension_numbers
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape, ShapeIndex
from hlo_cli.source import HloError

Parts: TypeAlias = tuple[int, ...]
"""In how many parts each dimension of an array is cut."""
_Value: TypeAlias = dict[ShapeIndex, Parts]
"""The parts of each array of a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Partitioning:
    """What is left to each of `devices`: of each operation one of so many parts, and the collectives that are added.

    Operations that `parts` does not have are whole on each device.
    """

    devices: int
    parts: Mapping[Instruction, int]
    collectives: tuple[Collective, ...]


def predicted_partitioning(module: Module) -> Partitioning | None:
    """What the partitioner makes of a module, as predicted; None if it is partitioned already.

    >>> from hlo_cli import parse_module
    >>> rows, sides = "sharding={devices=[8,1]<=[8]}", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> text = f'''HloModule m, num_partitions=8
    ... ENTRY main {{ x = f32[64,64] parameter(0), {rows}
    ...   w = f32[64,64] parameter(1), {rows}
    ...   ROOT y = f32[64,64] dot(x, w), {sides}, {rows} }}'''
    >>> found = predicted_partitioning(parse_module(text))
    >>> [(each.kind, each.payload_bytes, each.devices) for each in found.collectives], list(found.parts.values())[-1]
    ([('all-gather', 16384, 8)], 8)
    """
    return None if is_partitioned(module) else cached_per_module(_partitioning, module)


def _partitioning(module: Module) -> Partitioning:
    return _Partitioner(module).run()


_MAX_NESTING: Final = 50  # deeper calls than any program has; the text may be made up


class _Partitioner:
    """Follows parts through the computations that the entry runs."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.devices = partitions_of(module)
        self.executions = executions_of(module)
        self.parts: dict[Instruction, int] = {}
        self.collectives: list[Collective] = []
        self.results: dict[Computation, _Value] = {}
        self.gathered: set[tuple[Instruction, tuple[int, ...]]] = set()
        self.runs = NO_EXECUTIONS
        self.nesting = 0

    def run(self) -> Partitioning:
        """The entry, from the shardings of its parameters."""
        self._computation(self.module.entry, ())
        return Partitioning(self.devices, self.parts, tuple(self.collectives))

    def _computation(self, computation: Computation, given: Sequence[_Value]) -> _Value:
        """The parts of the result of a computation; all its callers together are what its executions count."""
        if computation in self.results:
            return dict(self.results[computation])
        self.results[computation] = {}  # for a text in which a computation calls itself
        outer, self.runs = self.runs, self.executions.get(computation, NO_EXECUTIONS)
        values: dict[Instruction, _Value] = dict(zip(computation.parameters, map(dict, given), strict=False))
        for instruction in computation.instructions:
            operands = [values.get(operand, {}) for operand in instruction.operands]
            found = self._value(instruction, operands, values.get(instruction, {}))
            annotated = self._annotated(instruction)
            for index, wanted in annotated.items():
                if index in found and instruction.opcode != opcodes.PARAMETER:
                    self._reshard(instruction, _array(instruction, index), found[index], wanted)
                found[index] = wanted
            values[instruction] = found
            everything = [*found.values(), *(each for value in operands for each in value.values())]
            count = max(self.parts.get(instruction, 1), *(prod(each) for each in everything), 1)
            self.parts[instruction] = min(count, self.devices)
        self.runs = outer
        self.results[computation] = values.get(computation.root, {}) if computation.root is not None else {}
        return dict(self.results[computation])

    def _annotated(self, instruction: Instruction) -> _Value:
        """The parts that the sharding of an instruction asks for."""
        sharding = instruction.sharding
        found: _Value = {}
        if sharding is None:
            return found
        with suppress(HloError):  # a sharding that does not fit its shape says nothing
            for index, shape, each in leaf_shardings(instruction.shape, sharding):
                placement = placement_of(each)
                if isinstance(shape, ArrayShape):
                    found[index] = placement.parts if placement.is_tiled else (1,) * shape.rank
        return found

    def _value(self, instruction: Instruction, operands: Sequence[_Value], given: _Value) -> _Value:
        """The parts of a result as they follow from the operands; of a parameter, as they are given."""
        opcode = instruction.opcode
        if opcode == opcodes.PARAMETER:
            return given
        if opcode == opcodes.TUPLE:
            return {(number, *index): parts for number, value in enumerate(operands) for index, parts in value.items()}
        if opcode == opcodes.GET_TUPLE_ELEMENT and operands:
            number = instruction.integer("index") or 0
            return {index[1:]: parts for index, parts in operands[0].items() if index[:1] == (number,)}
        if opcode in (opcodes.CALL, opcodes.WHILE) and self.nesting < _MAX_NESTING:
            return self._called(instruction, operands)
        if opcode in COLLECTIVES or not isinstance(instruction.shape, ArrayShape):
            return {}  # of the program itself: written for one device, within a shard_map
        arrays = [value.get((), ()) for value in operands]
        return {(): self._array_parts(instruction, instruction.shape, arrays)}

    def _called(self, instruction: Instruction, operands: Sequence[_Value]) -> _Value:
        """The result of a call or a loop; the state of a loop keeps its parts."""
        called = instruction.called_computations
        if not called:
            return {}
        self.nesting += 1
        found = self._computation(called[0], operands)
        if instruction.opcode == opcodes.WHILE and operands and (root := called[0].root) is not None:
            # The state has one sharding in all iterations, so the body ends with that of its beginning.
            outer, self.runs = self.runs, self.executions.get(called[0], NO_EXECUTIONS)
            for index, parts in operands[0].items():
                if index in found:
                    self._reshard(root, _array(root, index), found[index], parts)
            self.runs, found = outer, dict(operands[0])
        self.nesting -= 1
        return found

    def _array_parts(self, instruction: Instruction, shape: ArrayShape, operands: Sequence[Parts]) -> Parts:
        """The parts of an array."""
        if instruction.opcode == opcodes.DOT and len(operands) > 1:
            return self._dot(instruction, shape, operands)
        if instruction.opcode == opcodes.CONVOLUTION and len(operands) > 1:
            return self._convolution(instruction, shape, operands)
        whole = (1,) * shape.rank
        first = operands[0] if operands else ()
        match instruction.opcode:
            case opcodes.BROADCAST if first:
                found = list(whole)
                for position, dimension in enumerate(instruction.integers("dimensions")):
                    if dimension < shape.rank and position < len(first):
                        found[dimension] = first[position]
                return tuple(found)
            case opcodes.TRANSPOSE if len(first) == shape.rank:
                return tuple(first[each] for each in instruction.integers("dimensions") if each < len(first))
            case opcodes.RESHAPE | opcodes.BITCAST if first:
                return _through_reshape(_array(instruction.operands[0]), shape, first)
            case opcodes.REDUCE if first:
                reduced = set(instruction.integers("dimensions"))
                self._sum(instruction, shape, prod(each for d, each in enumerate(first) if d in reduced), first)
                return tuple(each for d, each in enumerate(first) if d not in reduced)
        if instruction.opcode in ELEMENTWISE or instruction.opcode in _LIKE_OPERANDS:
            fitting = [each for each in operands if len(each) == shape.rank]
            return max(fitting, key=prod, default=whole)
        # Dimensions that keep their size keep their parts: slices, pads, concatenations, sorts, gathers of rows.
        before = _array(instruction.operands[0]) if instruction.operands else None
        if before is None or before.rank != shape.rank or len(first) != shape.rank:
            return whole
        same = zip(first, before.sizes, shape.sizes, strict=True)
        return tuple(parts if old == new else 1 for parts, old, new in same)

    # --- products ---

    def _dot(self, dot: Instruction, shape: ArrayShape, operands: Sequence[Parts]) -> Parts:
        numbers = dot_dimension_numbers(dot)
        lhs, rhs = (_array(each) for each in dot.operands[:2])
        if numbers is None or lhs is None or rhs is None:
            return (1,) * shape.rank
        left, right = (list(_fit(parts, each)) for parts, each in zip(operands, (lhs, rhs), strict=False))
        contracted = list(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=False))
        batch = list(zip(numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions, strict=False))
        rows = [d for d in range(lhs.rank) if d not in {a for a, _ in (*contracted, *batch)}]
        columns = [d for d in range(rhs.rank) if d not in {b for _, b in (*contracted, *batch)}]
        for a, b in batch:
            left[a] = right[b] = max(left[a], right[b])
        kept = prod(left[a] for a, _ in batch) * prod(left[d] for d in rows)
        # Two cuts that need more devices than there are lie along the same devices: the smaller array is gathered.
        if kept * prod(right[d] for d in columns) > self.devices:
            if rhs.logical_bytes <= lhs.logical_bytes:
                self._gather(dot, 1, rhs, right, columns)
            else:
                self._gather(dot, 0, lhs, left, rows)
            kept = prod(left[a] for a, _ in batch) * prod(left[d] for d in rows)
        kept *= prod(right[d] for d in columns)
        summed = self._contract(dot, (lhs, rhs), (left, right), contracted, kept)
        result = (
            *(left[a] for a, _ in batch),
            *(left[d] for d in rows),
            *(right[d] for d in columns),
        )[: shape.rank]
        self.parts[dot] = kept * summed
        self._sum(dot, shape, summed, result)
        return result

    def _contract(
        self,
        dot: Instruction,
        arrays: tuple[ArrayShape, ArrayShape],
        sides: tuple[list[int], list[int]],
        contracted: Sequence[tuple[int, int]],
        kept: int,
    ) -> int:
        """In how many parts a sum over contracted dimensions is computed, after gathering what does not fit."""
        summed = 1
        for a, b in contracted:
            found = max(sides[0][a], sides[1][b])
            if found == 1:
                continue
            if kept * summed * found <= self.devices:
                # A side that is whole is sliced where it is, which costs nothing.
                summed *= found
                continue
            for number, (array, parts, dimension) in enumerate(zip(arrays, sides, (a, b), strict=True)):
                self._gather(dot, number, array, parts, (dimension,))
        return summed

    def _convolution(self, conv: Instruction, shape: ArrayShape, operands: Sequence[Parts]) -> Parts:
        numbers = convolution_dimension_numbers(conv)
        lhs, rhs = (_array(each) for each in conv.operands[:2])
        whole = [1] * shape.rank
        if numbers is None or lhs is None or rhs is None:
            return tuple(whole)
        left, right = (list(_fit(parts, each)) for parts, each in zip(operands, (lhs, rhs), strict=False))
        with suppress(IndexError):  # dim_labels that do not fit the shapes
            whole[numbers.output_batch_dimension] = left[numbers.input_batch_dimension]
            features = right[numbers.kernel_output_feature_dimension]
            if prod(whole) * features <= self.devices:
                whole[numbers.output_feature_dimension] = features
            pair = (numbers.input_feature_dimension, numbers.kernel_input_feature_dimension)
            summed = self._contract(conv, (lhs, rhs), (left, right), (pair,), prod(whole))
            self.parts[conv] = prod(whole) * summed
            self._sum(conv, shape, summed, tuple(whole))
        return tuple(whole)

    # --- collectives ---

    def _gather(
        self, user: Instruction, number: int, shape: ArrayShape, parts: list[int], dimensions: Sequence[int]
    ) -> None:
        """Makes dimensions of an operand whole: each device receives the others' parts, once for all users."""
        group = prod(parts[each] for each in dimensions)
        for each in dimensions:
            parts[each] = 1
        key = user.operands[number], tuple(dimensions)
        if key in self.gathered:
            return
        self.gathered.add(key)
        self._add(user, opcodes.ALL_GATHER, shape.logical_bytes // max(prod(parts) * group, 1), group)

    def _sum(self, user: Instruction, shape: ArrayShape, group: int, parts: Parts) -> None:
        """Adds partial results; where the result is asked for in more parts, each device needs its own only."""
        wanted = self._annotated(user).get((), parts)
        kept = prod(wanted) if len(wanted) == shape.rank else 1
        scatters = kept >= prod(parts) * group > prod(parts)
        kind = opcodes.REDUCE_SCATTER if scatters else opcodes.ALL_REDUCE
        self._add(user, kind, shape.logical_bytes // max(_product_fitting(parts, shape), 1), group)

    def _reshard(self, user: Instruction, shape: ArrayShape | None, source: Parts, target: Parts) -> None:
        """From one sharding to another: gathered, exchanged, or sliced, which costs nothing."""
        if shape is None or len(source) != len(target) or source == target:
            return
        lost = prod(a for a, b in zip(source, target, strict=True) if a > b)
        gained = prod(b for a, b in zip(source, target, strict=True) if b > a)
        share = shape.logical_bytes // max(prod(source), 1)
        if lost > 1 and gained > 1:
            self._add(user, opcodes.ALL_TO_ALL, share, min(lost, gained))
        elif lost > 1:
            self._add(user, opcodes.ALL_GATHER, share, lost)

    def _add(self, user: Instruction, kind: str, operand_bytes: int, group: int) -> None:
        if group < 2 or not operand_bytes or not self.runs.count:
            return
        # Which devices are in a group does not matter for its time; neighbors are taken.
        count = max(self.devices // group, 1)
        groups = tuple(tuple(range(number * group, (number + 1) * group)) for number in range(count))
        runs: Executions = self.runs
        self.collectives.append(
            Collective(user, user, kind, groups, (), self.devices, None, (), operand_bytes, runs, is_async=False)
        )


_LIKE_OPERANDS: Final = frozenset(
    (
        opcodes.COPY,
        opcodes.CONVERT,
        opcodes.BITCAST_CONVERT,
        opcodes.DYNAMIC_UPDATE_SLICE,
        opcodes.CUSTOM_CALL,
    )
)
"""Operations whose result is cut as their operands of the same rank are."""


def _array(instruction: Instruction, index: ShapeIndex = ()) -> ArrayShape | None:
    """An array of the result of an instruction."""
    found = next((leaf for at, leaf in instruction.shape.leaves if at == index), None)
    return found if isinstance(found, ArrayShape) else None


def _fit(parts: Parts, shape: ArrayShape) -> Parts:
    """Parts with one number for each dimension; whole without them."""
    return parts if len(parts) == shape.rank else (1,) * shape.rank


def _product_fitting(parts: Parts, shape: ArrayShape) -> int:
    return prod(parts) if len(parts) == shape.rank else 1


def _through_reshape(before: ArrayShape | None, after: ArrayShape, parts: Parts) -> Parts:
    """Parts after a reshape: a dimension that begins a run of equal size keeps those that divide it.

    >>> from hlo_cli import parse_shape
    >>> shapes = [parse_shape(each) for each in ("f32[8,6]", "f32[4,2,6]")]
    >>> _through_reshape(shapes[0], shapes[1], (4, 2)), _through_reshape(shapes[1], shapes[0], (4, 1, 3))
    ((4, 1, 2), (4, 3))
    """
    if before is None or len(parts) != before.rank:
        return (1,) * after.rank
    starts, at = {}, 1
    for size, count in zip(before.sizes, parts, strict=True):
        if size > 1:
            starts[at] = count
        at *= size
    found, at = [], 1
    for size in after.sizes:
        count = starts.get(at, 1) if size > 1 else 1
        found.append(count if size % count == 0 else 1)
        at *= size
    return tuple(found)


def groups_in_words(collectives: Sequence[Collective]) -> Iterator[str]:
    """How many of each kind there are.

    >>> list(groups_in_words([]))
    []
    """
    kinds = [each.kind for each in collectives]
    for kind in dict.fromkeys(kinds):
        number = kinds.count(kind)
        yield f"{number} {kind}" if number > 1 else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
