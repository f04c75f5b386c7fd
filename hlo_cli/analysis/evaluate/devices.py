"""How a module runs on simulated devices: all in lockstep, so that collectives, sends, and receives meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

import numpy as np

from hlo_cli.analysis.evaluate.arguments import crossing, is_boundary
from hlo_cli.analysis.evaluate.host import fused_part, inputs_of
from hlo_cli.analysis.evaluate.program import Program, element_of, misfit
from hlo_cli.analysis.semantics.rules import called, iterations_error, start_of
from hlo_cli.analysis.semantics.scatter_and_reduce import plain_reducer
from hlo_cli.analysis.semantics.typed_values import (
    MISFITS,
    Array,
    Computed,
    Form,
    Kernel,
    Value,
    array_of,
    form_of,
    has_form,
    settle,
    zeros_of,
)
from hlo_cli.analysis.sharding.entry_arrays import is_partitioned
from hlo_cli.analysis.sharding.meshes import (
    Devices,
    collective_kind,
    device_groups,
    device_pairs,
    devices_of,
    header_meshes,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_OPCODES, CHANNEL_STARTS, COLLECTIVES, DEVICE_IDS, NATIVE_DONES, PERMUTES
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.source import HloError

# --- collectives ---
# Collectives on simulated devices: the results of all devices at once, from the operands of all devices.
#
# Mirrors xla/backends/cpu/collectives and the thunks of XLA's runtimes. Sums of floats are made in f64.


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
    # A start carries out the exchange; its done unpacks the value.
    if kind == instruction.opcode:
        return run
    return _started(instruction, run)


def _started(instruction: Instruction, run: Exchange) -> Exchange:
    """The value of a start: what its done unpacks, in the shape that the opcode has.

    A native start of one array has the array itself as element 0, one of several has their tuple; the sugar of an
    async-start always has a tuple. A permute in place starts from its input alone.
    """
    # all-reduce-start has the shape of the result alone (xla/service/shape_inference.cc, InferAllReduceStartShape).
    if instruction.opcode == opcodes.ALL_REDUCE_START:
        return run
    is_native = instruction.opcode in NATIVE_DONES

    def start(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        results = run(inputs)
        if is_native and _slice_sizes(instruction):
            inputs = [each[:1] for each in inputs]
        operands = [each[0] if is_native and len(each) == 1 else tuple(each) for each in inputs]
        return [(operand, result) for operand, result in zip(operands, results, strict=True)]

    return start


def _by_operand(
    groups: Sequence[Sequence[int]], count: int, combine: Callable[[list[Array], int], list[Array]]
) -> Exchange:
    """Applies a function to each operand of each group; devices in no group get zeros."""

    def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        width = len(inputs[0])
        # XLA does not define the value of a device in no group; zeros are what a collective-permute gives.
        results: list[list[Value]] = [[np.zeros_like(array_of(each)) for each in operands] for operands in inputs]
        for group in groups:
            for position in range(width):
                made = combine([array_of(inputs[device][position]) for device in group], position)
                for device, array in zip(group, made, strict=True):
                    results[device][position] = array
        return [each[0] if width == 1 else tuple(each) for each in results]

    return run


def _all_gather(instruction: Instruction, computed: Computed, groups: Groups, count: int) -> Exchange:
    dimension = instruction.integers("dimensions")[0]

    def combine(parts: list[Array], position: int) -> list[Array]:
        whole = np.concatenate(parts, dimension)
        return [whole] * len(parts)

    return _by_operand(groups, count, combine)


def _reduced(instruction: Instruction, computed: Computed) -> Callable[[list[Array], int], Array]:
    """The sum, or another reduction, of the arrays of a group in its order."""
    computation = instruction.called_computations[0]
    is_sum = plain_reducer(computation) is np.add
    combine = computed.vectorized(computation)

    def run(parts: list[Array], position: int) -> Array:
        shape = instruction.operand_shape(position)
        # XLA adds in an order of its own, so sums of floats are made in f64: then the order does not show.
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
    # The form with a dimension has one operand and splits it; the tuple form has an operand for each member.
    dimensions = instruction.integers("dimensions")
    if dimensions:

        def combine(parts: list[Array], position: int) -> list[Array]:
            pieces = [np.split(part, len(parts), dimensions[0]) for part in parts]
            return [np.concatenate([each[k] for each in pieces], dimensions[0]) for k in range(len(parts))]

        return _by_operand(groups, count, combine)

    def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        results: list[Value] = [tuple(operands) for operands in inputs]
        for group in groups:
            for k, device in enumerate(group):
                results[device] = tuple(inputs[other][k] for other in group)
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

    def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        # Rows that no sender writes keep the output operand (operation_semantics, RaggedAllToAll).
        results = [array_of(operands[1]).copy() for operands in inputs]
        for group in groups:
            for sender in group:
                rows, _, *numbers = map(array_of, inputs[sender])
                starts, sizes, targets = numbers[0], numbers[1], numbers[2]
                # Several rows for each receiver are allowed: offsets come in equal runs, one for each member.
                each = len(starts) // len(group)
                for k, receiver in enumerate(group):
                    for position in range(k * each, (k + 1) * each):
                        begin, size, into = int(starts[position]), int(sizes[position]), int(targets[position])
                        results[receiver][into : into + size] = rows[begin : begin + size]
        return list(results)

    return run


def _permute(instruction: Instruction, devices: Devices, members: Groups | None = None) -> Exchange:
    """What each target is sent, of every operand; a device that nobody sends to gets zeros."""
    pairs = members or device_pairs(instruction, devices)
    if _slice_sizes(instruction):
        return _permute_in_place(instruction, pairs)

    def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        # Zeros for devices that are no target: operation_semantics, CollectivePermute.
        results: list[Sequence[Value]] = [[_zeros_like(operand) for operand in operands] for operands in inputs]
        for source, target in pairs:
            results[target] = inputs[source]
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
    # XLA's documents do not state which slice a pair sends, so several slices are refused.
    if len(sizes) != 1 or not isinstance(instruction.operand_shape(0), ArrayShape):
        raise HloError(
            f"cannot evaluate {instruction.name}: an in-place collective-permute of {len(sizes)} slices",
            instruction.span,
        )

    def slices(offsets: Value) -> tuple[slice, ...]:
        assert isinstance(offsets, tuple)
        starts = [int(array_of(each)) for each in offsets]
        return tuple(slice(start, start + size) for start, size in zip(starts, sizes[0], strict=True))

    def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        results = [array_of(operands[1]).copy() for operands in inputs]
        for source, target in pairs:
            sent, _, offsets, place = inputs[source]
            if slices(place) != slices(inputs[target][3]):
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


def _done_value(start: Instruction, value: Value) -> Value:
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


# --- sends and receives ---
# Sends and receives between simulated devices: what is sent on a channel waits there until it is taken.
#
# Compilers make them of collective permutes, and state the devices as those do; mirrors
# collective_permute_decomposer.cc.


# collective_permute_decomposer.cc writes the pairs into this frontend attribute when it splits a permute.
_ATTRIBUTE: Final = "_xla_send_recv_source_target_pairs"
_PAIR: Final = re.compile(r"\{(\d{1,9}),(\d{1,9})\}")


def transfer_problem(instruction: Instruction) -> str:
    """Why a send or receive cannot be evaluated; empty if it goes between devices that are stated."""
    if instruction.flag("is_host_transfer"):
        return f"{instruction.opcode} exchanges data with the host, which a dump does not have"
    is_stated = instruction.opcode not in CHANNEL_STARTS or instruction.frontend_attributes.get(_ATTRIBUTE) is not None
    return "" if is_stated else f"{instruction.opcode} does not state its source_target_pairs"


def _transfer_of(
    instruction: Instruction, computed: Computed, sent: dict[int | None, list[Value]], count: int
) -> Exchange:
    """What a send, a receive, or the end of one does on all devices; `sent` holds what is on its way, by channel."""
    channel = instruction.integer("channel_id")
    if instruction.opcode == "send-done":
        # A send is complete when it is sent: simulated devices run in lockstep.
        return lambda given: [None] * count
    if instruction.opcode == opcodes.RECV:
        # The context of a receive: data, request id, token; the data come with its done.
        return lambda given: [(None, None, None)] * count
    if instruction.opcode == opcodes.RECV_DONE:
        return lambda given: _received(instruction, channel, sent, count)
    found = _PAIR.findall(instruction.frontend_attributes.get(_ATTRIBUTE) or "")
    pairs = [(int(source), int(target)) for source, target in found]
    for pair in pairs:
        if max(pair) >= count:
            raise HloError(f"{instruction.name} names device {max(pair)}, of {count}", instruction.span)
    shape = instruction.operand_shape(0)

    def send(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        values = [zeros_of(shape, computed) for _ in range(count)]
        for source, target in pairs:
            values[target] = inputs[source][0]
        sent[channel] = values
        return [(each[0], None, None) for each in inputs]

    return send


def _received(
    instruction: Instruction, channel: int | None, sent: dict[int | None, list[Value]], count: int
) -> list[Value]:
    """What each device was sent."""
    if channel not in sent:
        raise HloError(f"{instruction.name} receives from channel {channel}, where nothing was sent", instruction.span)
    values = sent.pop(channel)
    # A value may be received once; a loop sends again in the next iteration.
    is_tuple = isinstance(instruction.shape, TupleShape)
    return [(value, None) if is_tuple else value for value in values]


# --- devices in lockstep ---
# A partitioned module on simulated devices: all devices run in lockstep, so that collectives meet.
#
# Computations without collectives run device by device. A loop or branch with a collective inside has to go the same
# way on all devices; else the program would wait forever on real ones, and that is an error here.


Lockstep = Callable[[Sequence[Sequence[Value]]], list[Value]]
"""From the arguments of each device to the result of each."""


@dataclass(frozen=True, slots=True)
class _Step:
    instruction: Instruction
    slot: int
    run: Lockstep
    operands: tuple[int, ...]
    ended: tuple[int, ...]
    form: Form


def _needs_devices(computation: Computation) -> bool:
    """Whether a computation, or one that it calls, has a collective or asks which device it runs on."""
    reached, pending = {computation}, [computation]
    while pending:
        current = pending.pop()
        if _meets(current):
            return True
        new = {called for each in current.instructions for called in each.called_computations} - reached
        reached |= new
        pending += new
    return False


@cache
# A property of the text, asked again for each level of calls.
def _meets(computation: Computation) -> bool:
    return any(
        collective_kind(each.opcode) is not None
        or each.opcode in DEVICE_IDS
        or (each.opcode in CHANNEL_OPCODES and not each.flag("is_host_transfer"))
        or is_boundary(each)
        for each in computation.instructions
    )


def _meets_in(start: Instruction) -> bool:
    """Whether devices meet in an asynchronous operation."""
    return collective_kind(start.opcode) is not None or any(map(_needs_devices, start.called_computations))


class DeviceProgram:
    """The computations of a module as functions of all devices."""

    def __init__(self, program: Program, devices: Devices, module: Module) -> None:
        self.program = program
        self.module = module
        self.devices = devices
        self._functions: dict[Computation, Lockstep] = {}
        self._sent: dict[int | None, list[Value]] = {}

    def function(self, computation: Computation) -> Lockstep:
        """Runs a computation on all devices."""
        if computation not in self._functions:
            self._functions[computation] = self._compiled(computation)
        return self._functions[computation]

    def is_lockstep(self, computation: Computation) -> bool:
        """Whether all devices run a computation together; else one after another, which may go different ways."""
        return _needs_devices(computation)

    def _compiled(self, computation: Computation) -> Lockstep:
        if not self.is_lockstep(computation):
            single = self.program.function(computation)
            return self._one_by_one(single)
        # Values are freed after their last use, as otherwise all devices hold all values at once.
        slots = {instruction: position for position, instruction in enumerate(computation.instructions)}
        last = {
            operand: position for position, each in enumerate(computation.instructions) for operand in inputs_of(each)
        }
        steps, parameters = [], []
        assert computation.root is not None
        root = slots[computation.root]
        for position, instruction in enumerate(computation.instructions):
            if (number := instruction.parameter_number) is not None:
                parameters.append((position, number))
                continue
            operands = tuple(slots[operand] for operand in inputs_of(instruction))
            ended = {slots[each] for each in inputs_of(instruction) if last[each] == position} - {root}
            form = form_of(instruction.shape, self.program.floats)
            steps.append(_Step(instruction, position, self._step(instruction), operands, tuple(ended), form))
        size, count = len(slots), self.devices.count
        is_seen = self.program.is_seen(computation)

        def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
            self.program.ran.add(computation)
            values: list[list[Value]] = [[] for _ in range(size)]
            for slot, number in parameters:
                values[slot] = [each[number] for each in inputs]
            for step in steps:
                taken = [[values[operand][device] for operand in step.operands] for device in range(count)]
                try:
                    values[step.slot] = step.run(taken)
                except MISFITS as error:
                    raise misfit(step.instruction, error) from error
                for value in values[step.slot]:
                    if not has_form(value, step.form):
                        self.program.check(step.instruction, value)
                if is_seen:
                    self._see(step.instruction, values[step.slot], taken)
                for each in step.ended:
                    values[each] = []
            self.program.count(len(steps) * count, computation)
            return values[root]

        return run

    def _one_by_one(self, single: Callable[[Sequence[Value]], Value]) -> Lockstep:
        def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
            results = []
            for device, each in enumerate(inputs):
                self.program.device = device
                results.append(single(each))
            return results

        return run

    def _see(self, instruction: Instruction, values: Sequence[Value], operands: Sequence[Sequence[Value]]) -> None:
        for device, (value, given) in enumerate(zip(values, operands, strict=True)):
            self.program.device = device
            self.program.see(instruction, value, given)

    # What no result depends on may break rules, so that it has no kernel.
    def _step(self, instruction: Instruction) -> Lockstep:
        opcode = instruction.opcode
        if instruction in self.program.host.skipped:
            return lambda given: [None] * len(given)
        if opcode in DEVICE_IDS:
            return self._ids(instruction)
        # Transfers between devices, before the host: both have the same opcodes.
        if opcode in CHANNEL_OPCODES and not self.program.host.has_meaning(instruction):
            return _selecting(instruction, _transfer_of(instruction, self.program, self._sent, self.devices.count))
        if is_boundary(instruction):
            return _selecting(instruction, crossing(instruction, self.module, self.devices.count))
        if (part := fused_part(instruction, self.program)) is not None:
            return part
        if collective_kind(opcode) is not None:
            run = exchange_of(instruction, self.program, self.devices)
            # An observer tells values apart by identity, so shared arrays become views of their own.
            return _selecting(instruction, _renewed(run) if self.program.is_seen(instruction.computation) else run)
        if (start := _start_of(instruction)) is not None:
            return lambda given: [_done_value(start, each[0]) for each in given]
        if opcode.endswith("-update") and _meets_in(begin := start_of(instruction)):
            return _selecting(instruction, self._updating(begin))
        if any(map(self.is_lockstep, instruction.called_computations)):
            return _selecting(instruction, self._calling(instruction))
        # Devices with the same array objects need one evaluation: weights and constants are computed once.
        kernel = self.program.kernel(instruction)
        return self._once_for_equal(kernel) if self._is_pure(instruction) else self._one_by_one(lambda e: kernel(*e))

    def _is_pure(self, instruction: Instruction) -> bool:
        """Whether equal operands give equal results, and nobody has to see what happens inside."""
        if instruction.opcode in _OWN_STATE:
            return False
        if not instruction.called_computations or instruction.opcode in _REGIONS:
            return True
        [called, *others] = instruction.called_computations
        is_simple = not others and all(
            each.opcode not in _OWN_STATE and not each.called_computations for each in called.instructions
        )
        return instruction.opcode == opcodes.FUSION and is_simple and not self.program.is_seen(called)

    def _once_for_equal(self, kernel: Kernel) -> Lockstep:
        """Computes a value once for all devices that have the same operands, such as weights that all have whole."""

        def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
            computed_values: dict[tuple[int, ...], Value] = {}
            results = []
            for device, operands in enumerate(inputs):
                # By identity: comparing contents would cost as much as many kernels.
                key = tuple(map(id, operands))
                if key not in computed_values:
                    self.program.device = device
                    computed_values[key] = kernel(*operands)
                results.append(computed_values[key])
            return results

        return run

    def _ids(self, instruction: Instruction) -> Lockstep:
        partitions = self.devices.partitions
        is_partition = instruction.opcode == opcodes.PARTITION_ID
        ids: list[Value] = [
            # Device d is partition d mod n of replica d div n, as in a device assignment in row-major order.
            np.array(device % partitions if is_partition else device // partitions, np.uint32)
            for device in range(self.devices.count)
        ]
        return lambda given: ids

    def _calling(self, instruction: Instruction) -> Lockstep:
        """An instruction that runs a computation in which devices meet."""
        match instruction.opcode:
            case opcodes.WHILE:
                return self._while(instruction)
            case opcodes.CONDITIONAL:
                return self._conditional(instruction)
            case opcodes.ASYNC_START:
                return self._starting(instruction)
            case opcodes.CALL | opcodes.FUSION:
                return self.function(instruction.called_computations[0])
        raise HloError(f"cannot run {instruction.opcode} {instruction.name} on several devices", instruction.span)

    def _starting(self, start: Instruction) -> Lockstep:
        """Runs the wrapped computation when all of its operands are there, with the start or with an update."""
        computation = start.called_computations[0]
        inner, count = self.function(computation), len(computation.parameters)

        def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
            # SparseCore dumps start without operands, which come with an update: it runs when all are there.
            results: Sequence[Value] = inner(inputs) if len(inputs[0]) >= count else [None] * len(inputs)
            return [(tuple(each), result) for each, result in zip(inputs, results, strict=True)]

        return run

    def _updating(self, start: Instruction) -> Lockstep:
        """Adds operands that come late; without any, passes on what was started."""
        run = self._starting(start) if start.opcode == opcodes.ASYNC_START else None

        def update(inputs: Sequence[Sequence[Value]]) -> list[Value]:
            if run is None or len(inputs[0]) == 1:
                return [each[0] for each in inputs]
            operands: list[Sequence[Value]] = []
            for started, *late in inputs:
                assert isinstance(started, tuple)
                assert isinstance(started[0], tuple)
                operands.append((*started[0], *late))
            return run(operands)

        return update

    def _while(self, instruction: Instruction) -> Lockstep:
        condition = self.program.iterations.counting(self.function(called(instruction, "condition")))
        body = self.function(called(instruction, "body"))
        most = self.program.limits.max_iterations

        def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
            states = [each[0] for each in inputs]
            iterations = 0
            with self.program.iterations.loop():
                while _agreed(instruction, condition([[state] for state in states])):
                    if iterations == most:
                        raise iterations_error(instruction, most)
                    states = body([[state] for state in states])
                    iterations += 1
            return states

        return run

    def _conditional(self, instruction: Instruction) -> Lockstep:
        branches = [self.function(each) for each in instruction.called_computations]

        def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
            index = _agreed(instruction, [each[0] for each in inputs])
            # With a predicate, the first branch is that of true (operation_semantics, Conditional).
            if np.asarray(inputs[0][0]).dtype == np.bool_:
                index = 1 - index
            # XLA runs the last branch for an index out of range (operation_semantics, Conditional).
            index = index if 0 <= index < len(branches) else len(branches) - 1
            return branches[index]([[each[index + 1]] for each in inputs])

        return run


def _agreed(instruction: Instruction, values: Sequence[Value]) -> int:
    """The number that all devices computed; HloError if they go different ways."""
    numbers = {int(np.asarray(value)) for value in values}
    # Real devices would wait for each other without end; XLA reports that only as a timeout.
    if len(numbers) > 1:
        raise HloError(
            f"{instruction.name} has collectives inside, and goes different ways on different devices: a deadlock",
            instruction.span,
        )
    return numbers.pop()


_OWN_STATE: Final = frozenset(
    (
        opcodes.CUSTOM_CALL, opcodes.INFEED, opcodes.OUTFEED, opcodes.RNG, opcodes.RNG_GET_AND_UPDATE_STATE,
        opcodes.SEND, opcodes.RECV,
    )
)  # fmt: skip
"""Opcodes whose results may be other ones the next time, or on another device, although the operands are the same."""


_REGIONS: Final = frozenset(
    (opcodes.REDUCE, opcodes.REDUCE_WINDOW, opcodes.SCATTER, opcodes.SELECT_AND_SCATTER, opcodes.SORT, opcodes.MAP)
)
"""Opcodes that call computations of scalars, whose values no observer sees."""


def _renewed(run: Lockstep) -> Lockstep:
    """An exchange whose results are arrays of their own, even where a device gets what it had, or another one sent: an
    observer tells values apart by their arrays. Unseen, the devices of a group share one, and what follows runs once.
    """

    def view(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(view, value))
        return value.view() if isinstance(value, np.ndarray) else value

    return lambda given: list(map(view, run(given)))


def _start_of(instruction: Instruction) -> Instruction | None:
    """The native start of a collective that an instruction is the done of."""
    # Only native collectives have the value in element 1, see `_started`.
    if not instruction.opcode.endswith("-done") or instruction.opcode.removesuffix("-done") not in COLLECTIVES:
        return None
    return instruction.operands[0] if instruction.operands else None


def _selecting(instruction: Instruction, run: Lockstep) -> Lockstep:
    """The same for operands that are elements of tuples."""

    indices = [instruction.operand_index(at) for at in range(len(instruction.operands))]
    if not any(indices):
        return run

    def selected(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        return run([[element_of(value, index) for value, index in zip(each, indices, strict=True)] for each in inputs])

    return selected


# --- the devices of a module ---
# Which devices a module runs on: one, those that its header states, or as many as its text requires.


def runs_on_devices(module: Module) -> bool:
    """Whether a module runs on several devices: it is partitioned, or its devices exchange data.

    >>> from hlo_cli import parse_module
    >>> runs_on_devices(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}"))
    True
    """
    # Partitioned modules run on devices even without collectives: parts are no whole arrays.
    return _needs_devices(module.entry) or (module.replica_count * module.num_partitions > 1 and is_partitioned(module))


def chosen_devices(module: Module, wanted: int | None) -> Devices:
    """The devices of the header, else those that are wanted, else as many as a mesh has or collectives name.

    HloError if the header states another number than the wanted one.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}"
    >>> chosen_devices(parse_module(text), None).count, chosen_devices(parse_module(text), 8).count
    (4, 8)
    """
    stated = devices_of(module)
    if stated.is_stated:
        if wanted not in (None, stated.count):
            raise HloError(f"the module runs on {stated.count} devices, not {wanted}")
        return stated
    meshes = header_meshes(module)
    # Without a stated number, the largest device that anything names decides.
    count = wanted or max(stated.count, *(mesh.device_count for mesh in meshes), 1)
    # partition-id and meshes count partitions; a module without either has replicas.
    has_partitions = bool(meshes) or any(each.opcode == opcodes.PARTITION_ID for each in module.instructions)
    return Devices(1, count) if has_partitions else Devices(count, 1)
