"""Collectives on simulated devices: the results of all devices at once, from the operands of all devices.

Mirrors xla/backends/cpu/collectives and the thunks of XLA's runtimes. Sums of floats are made in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array, settle
from hlo_cli.analysis.semantics.reducers import plain_reducer
from hlo_cli.analysis.semantics.values import Computed, Value, array_of
from hlo_cli.analysis.sharding.device_groups import Devices, collective_kind, device_groups, device_pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import NATIVE_DONES, PERMUTES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

Exchange: TypeAlias = "Callable[[Sequence[Sequence[Value]]], list[Value]]"
"""From the operands of each device to the result of each."""

Groups: TypeAlias = "Sequence[Sequence[int]]"
"""The members of each group, or the source and the target of each pair, as flattened ids."""


def exchange_of(
    instruction: Instruction, computed: Computed, devices: Devices, members: Groups | None = None
) -> Exchange:
    """The exchange that a collective, or the start of one, carries out; `members` are other groups or pairs."""
    kind = collective_kind(instruction.opcode) or instruction.opcode
    if kind in PERMUTES:
        run = _permute(instruction, devices, members)
    else:
        groups = members or device_groups(instruction, devices)
        run = _EXCHANGES.get(kind, _broadcast)(instruction, computed, tuple(groups), devices.count)
    if kind == instruction.opcode:
        return run
    return _started(instruction, run)


def _started(instruction: Instruction, run: Exchange) -> Exchange:
    """The value of a start: what its done unpacks, in the shape that the opcode has.

    A native start of one array has the array itself as element 0, one of several has their tuple; the sugar of an
    async-start always has a tuple. A permute in place starts from its input alone.
    """
    if instruction.opcode == opcodes.ALL_REDUCE_START:
        return run
    is_native = instruction.opcode in NATIVE_DONES

    def start(given: Sequence[Sequence[Value]]) -> list[Value]:
        results = run(given)
        if is_native and _slice_sizes(instruction):
            given = [each[:1] for each in given]
        operands = [each[0] if is_native and len(each) == 1 else tuple(each) for each in given]
        return [(operand, result) for operand, result in zip(operands, results, strict=True)]

    return start


def _by_operand(
    groups: Sequence[Sequence[int]], count: int, combine: Callable[[list[Array], int], list[Array]]
) -> Exchange:
    """Applies a function to each operand of each group; devices in no group get zeros."""

    def run(given: Sequence[Sequence[Value]]) -> list[Value]:
        width = len(given[0])
        results: list[list[Value]] = [[np.zeros_like(array_of(each)) for each in operands] for operands in given]
        for group in groups:
            for at in range(width):
                made = combine([array_of(given[device][at]) for device in group], at)
                for device, array in zip(group, made, strict=True):
                    results[device][at] = array
        return [each[0] if width == 1 else tuple(each) for each in results]

    return run


def _all_gather(instruction: Instruction, computed: Computed, groups: Groups, count: int) -> Exchange:
    dimension = instruction.integers("dimensions")[0]

    def combine(parts: list[Array], at: int) -> list[Array]:
        whole = np.concatenate(parts, dimension)
        return [whole] * len(parts)

    return _by_operand(groups, count, combine)


def _reduced(instruction: Instruction, computed: Computed) -> Callable[[list[Array], int], Array]:
    """The sum, or another reduction, of the arrays of a group in its order."""
    computation = instruction.called_computations[0]
    is_sum = plain_reducer(computation) is np.add
    combine = computed.vectorized(computation)

    def run(parts: list[Array], at: int) -> Array:
        shape = instruction.operand_shape(at)
        if is_sum and parts[0].dtype.kind in "fc" and isinstance(shape, ArrayShape):
            wide = np.complex128 if parts[0].dtype.kind == "c" else np.float64
            total = np.sum([part.astype(wide) for part in parts], axis=0)
            return settle(total, shape.element_type, computed.floats)
        result = parts[0]
        for part in parts[1:]:
            result = combine([result, part])[0]
        return result

    return run


def _all_reduce(instruction: Instruction, computed: Computed, groups: Groups, count: int) -> Exchange:
    reduced = _reduced(instruction, computed)
    return _by_operand(groups, count, lambda parts, at: [reduced(parts, at)] * len(parts))


def _reduce_scatter(instruction: Instruction, computed: Computed, groups: Groups, count: int) -> Exchange:
    reduced, dimension = _reduced(instruction, computed), instruction.integers("dimensions")[0]
    return _by_operand(groups, count, lambda parts, at: list(np.split(reduced(parts, at), len(parts), dimension)))


def _all_to_all(instruction: Instruction, computed: Computed, groups: Groups, count: int) -> Exchange:
    """Piece k goes to member k; without a dimension, operand k does."""
    dimensions = instruction.integers("dimensions")
    if dimensions:

        def combine(parts: list[Array], at: int) -> list[Array]:
            pieces = [np.split(part, len(parts), dimensions[0]) for part in parts]
            return [np.concatenate([each[k] for each in pieces], dimensions[0]) for k in range(len(parts))]

        return _by_operand(groups, count, combine)

    def run(given: Sequence[Sequence[Value]]) -> list[Value]:
        results: list[Value] = [tuple(operands) for operands in given]
        for group in groups:
            for k, device in enumerate(group):
                results[device] = tuple(given[other][k] for other in group)
        return results

    return run


def _broadcast(instruction: Instruction, computed: Computed, groups: Groups, count: int) -> Exchange:
    """The value of the first member for all; devices in no group get zeros."""
    if instruction.flag("has_dynamic_root"):
        raise HloError(
            f"cannot evaluate {instruction.name}: the sender of a broadcast with a dynamic root is unknown",
            instruction.span,
        )
    return _by_operand(groups, count, lambda parts, at: [parts[0]] * len(parts))


def _ragged(instruction: Instruction, computed: Computed, groups: Groups, count: int) -> Exchange:
    """Rows of the input go to rows of other devices' outputs, by offsets and sizes of each device."""

    def run(given: Sequence[Sequence[Value]]) -> list[Value]:
        results = [array_of(operands[1]).copy() for operands in given]
        for group in groups:
            for sender in group:
                rows, _, *numbers = map(array_of, given[sender])
                starts, sizes, targets = numbers[0], numbers[1], numbers[2]
                each = len(starts) // len(group)
                for k, receiver in enumerate(group):
                    for at in range(k * each, (k + 1) * each):
                        begin, size, into = int(starts[at]), int(sizes[at]), int(targets[at])
                        results[receiver][into : into + size] = rows[begin : begin + size]
        return list(results)

    return run


def _permute(instruction: Instruction, devices: Devices, members: Groups | None = None) -> Exchange:
    """What each target is sent, of every operand; a device that nobody sends to gets zeros."""
    pairs = members or device_pairs(instruction, devices)
    if _slice_sizes(instruction):
        return _permute_in_place(instruction, pairs)

    def run(given: Sequence[Sequence[Value]]) -> list[Value]:
        results: list[Sequence[Value]] = [[_zeros_like(operand) for operand in operands] for operands in given]
        for source, target in pairs:
            results[target] = given[source]
        return [each[0] if len(each) == 1 else tuple(each) for each in results]

    return run


def _slice_sizes(instruction: Instruction) -> tuple[tuple[int, ...], ...]:
    """The slices of a permute in place, which takes input, output, and the offsets in both."""
    return instruction.integer_lists("slice_sizes") or ()


def _permute_in_place(instruction: Instruction, pairs: Groups) -> Exchange:
    """The output of each device, with the slice that it was sent; HloError where XLA's documents leave the place open.

    That is for several slices, as no pair names its slice, and where sender and receiver have other output offsets.
    No CPU runs such a permute, so that nothing else can be asked.
    """
    sizes = _slice_sizes(instruction)
    if len(sizes) != 1 or not isinstance(instruction.operand_shape(0), ArrayShape):
        raise HloError(
            f"cannot evaluate {instruction.name}: an in-place collective-permute of {len(sizes)} slices",
            instruction.span,
        )

    def slices(offsets: Value) -> tuple[slice, ...]:
        assert isinstance(offsets, tuple)
        starts = [int(array_of(each)) for each in offsets]
        return tuple(slice(start, start + size) for start, size in zip(starts, sizes[0], strict=True))

    def run(given: Sequence[Sequence[Value]]) -> list[Value]:
        results = [array_of(operands[1]).copy() for operands in given]
        for source, target in pairs:
            sent, _, offsets, place = given[source]
            if slices(place) != slices(given[target][3]):
                raise HloError(
                    f"cannot evaluate {instruction.name}: devices {source} and {target} have different output offsets",
                    instruction.span,
                )
            results[target][slices(place)] = array_of(sent)[slices(offsets)]
        return list(results)

    return run


def _zeros_like(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_zeros_like, value))
    return None if value is None else np.zeros_like(value)


def done_value(start: Instruction, value: Value) -> Value:
    """What the done of a start returns."""
    if start.opcode == opcodes.ALL_REDUCE_START:
        return value
    assert isinstance(value, tuple)
    return value[1]


_EXCHANGES: Final[dict[str, Callable[[Instruction, Computed, Groups, int], Exchange]]] = {
    opcodes.ALL_GATHER: _all_gather,
    opcodes.ALL_REDUCE: _all_reduce,
    opcodes.ALL_TO_ALL: _all_to_all,
    opcodes.REDUCE_SCATTER: _reduce_scatter,
    opcodes.RAGGED_ALL_TO_ALL: _ragged,
}
"""The exchange of each collective with groups, but for a broadcast."""
