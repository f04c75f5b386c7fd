"""A partitioned module on simulated devices: all devices run in lockstep, so that collectives meet.

Computations without collectives run device by device. A loop or branch with a collective inside has to go the same
way on all devices; else the program would wait forever on real ones, and that is an error here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.boundaries import crossing, is_boundary
from hlo_cli.analysis.evaluate.channels import transfer_of
from hlo_cli.analysis.evaluate.collectives import done_value, exchange_of
from hlo_cli.analysis.evaluate.fused_collectives import fused_part, inputs_of
from hlo_cli.analysis.evaluate.program import MISFITS, Program, misfit
from hlo_cli.analysis.semantics.asynchronous import start_of
from hlo_cli.analysis.semantics.control import called, iterations_error
from hlo_cli.analysis.semantics.values import Form, Kernel, Value, form_of, has_form
from hlo_cli.analysis.sharding.device_groups import Devices, collective_kind
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_OPCODES, COLLECTIVES, DEVICE_IDS
from hlo_cli.source import HloError

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


def needs_devices(computation: Computation) -> bool:
    """Whether a computation, or one that it calls, has a collective or asks which device it runs on."""
    seen, pending = {computation}, [computation]
    while pending:
        current = pending.pop()
        if _meets(current):
            return True
        new = {called for each in current.instructions for called in each.called_computations} - seen
        seen |= new
        pending += new
    return False


@cache
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
    return collective_kind(start.opcode) is not None or any(map(needs_devices, start.called_computations))


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
        return needs_devices(computation)

    def _compiled(self, computation: Computation) -> Lockstep:
        if not self.is_lockstep(computation):
            single = self.program.function(computation)
            return self._one_by_one(single)
        slots = {instruction: at for at, instruction in enumerate(computation.instructions)}
        last = {operand: at for at, each in enumerate(computation.instructions) for operand in inputs_of(each)}
        steps, parameters = [], []
        assert computation.root is not None
        root = slots[computation.root]
        for at, instruction in enumerate(computation.instructions):
            if (number := instruction.parameter_number) is not None:
                parameters.append((at, number))
                continue
            operands = tuple(slots[operand] for operand in inputs_of(instruction))
            ended = {slots[each] for each in inputs_of(instruction) if last[each] == at} - {root}
            form = form_of(instruction.shape, self.program.floats)
            steps.append(_Step(instruction, at, self._step(instruction), operands, tuple(ended), form))
        size, count = len(slots), self.devices.count
        is_seen = self.program.is_seen(computation)

        def run(given: Sequence[Sequence[Value]]) -> list[Value]:
            self.program.ran.add(computation)
            values: list[list[Value]] = [[] for _ in range(size)]
            for slot, number in parameters:
                values[slot] = [each[number] for each in given]
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
        def run(given: Sequence[Sequence[Value]]) -> list[Value]:
            found = []
            for device, each in enumerate(given):
                self.program.device = device
                found.append(single(each))
            return found

        return run

    def _see(self, instruction: Instruction, values: Sequence[Value], operands: Sequence[Sequence[Value]]) -> None:
        for device, (value, given) in enumerate(zip(values, operands, strict=True)):
            self.program.device = device
            self.program.see(instruction, value, given)

    def _step(self, instruction: Instruction) -> Lockstep:
        opcode = instruction.opcode
        if instruction in self.program.host.skipped:
            return lambda given: [None] * len(given)
        if opcode in DEVICE_IDS:
            return self._ids(instruction)
        if opcode in CHANNEL_OPCODES and not self.program.host.has_meaning(instruction):
            return _selecting(instruction, transfer_of(instruction, self.program, self._sent, self.devices.count))
        if is_boundary(instruction):
            return _selecting(instruction, crossing(instruction, self.module, self.devices.count))
        if (part := fused_part(instruction, self.program)) is not None:
            return part
        if collective_kind(opcode) is not None:
            run = exchange_of(instruction, self.program, self.devices)
            return _selecting(instruction, _renewed(run) if self.program.is_seen(instruction.computation) else run)
        if (start := _start_of(instruction)) is not None:
            return lambda given: [done_value(start, each[0]) for each in given]
        if opcode.endswith("-update") and _meets_in(begin := start_of(instruction)):
            return _selecting(instruction, self._updating(begin))
        if any(map(self.is_lockstep, instruction.called_computations)):
            return _selecting(instruction, self._calling(instruction))
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

        def run(given: Sequence[Sequence[Value]]) -> list[Value]:
            known: dict[tuple[int, ...], Value] = {}
            found = []
            for device, each in enumerate(given):
                key = tuple(map(id, each))
                if key not in known:
                    self.program.device = device
                    known[key] = kernel(*each)
                found.append(known[key])
            return found

        return run

    def _ids(self, instruction: Instruction) -> Lockstep:
        partitions = self.devices.partitions
        is_partition = instruction.opcode == opcodes.PARTITION_ID
        ids: list[Value] = [
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

        def run(given: Sequence[Sequence[Value]]) -> list[Value]:
            results: Sequence[Value] = inner(given) if len(given[0]) >= count else [None] * len(given)
            return [(tuple(each), result) for each, result in zip(given, results, strict=True)]

        return run

    def _updating(self, start: Instruction) -> Lockstep:
        """Adds operands that come late; without any, passes on what was started."""
        run = self._starting(start) if start.opcode == opcodes.ASYNC_START else None

        def update(given: Sequence[Sequence[Value]]) -> list[Value]:
            if run is None or len(given[0]) == 1:
                return [each[0] for each in given]
            operands: list[Sequence[Value]] = []
            for started, *late in given:
                assert isinstance(started, tuple)
                assert isinstance(started[0], tuple)
                operands.append((*started[0], *late))
            return run(operands)

        return update

    def _while(self, instruction: Instruction) -> Lockstep:
        condition = self.program.iterations.counting(self.function(called(instruction, "condition")))
        body = self.function(called(instruction, "body"))
        most = self.program.limits.max_iterations

        def run(given: Sequence[Sequence[Value]]) -> list[Value]:
            states = [each[0] for each in given]
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

        def run(given: Sequence[Sequence[Value]]) -> list[Value]:
            index = _agreed(instruction, [each[0] for each in given])
            if np.asarray(given[0][0]).dtype == np.bool_:
                index = 1 - index
            index = index if 0 <= index < len(branches) else len(branches) - 1
            return branches[index]([[each[index + 1]] for each in given])

        return run


def _agreed(instruction: Instruction, values: Sequence[Value]) -> int:
    """The number that all devices computed; HloError if they go different ways."""
    found = {int(np.asarray(value)) for value in values}
    if len(found) > 1:
        raise HloError(
            f"{instruction.name} has collectives inside, and goes different ways on different devices: a deadlock",
            instruction.span,
        )
    return found.pop()


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
    if not instruction.opcode.endswith("-done") or instruction.opcode.removesuffix("-done") not in COLLECTIVES:
        return None
    return instruction.operands[0] if instruction.operands else None


def _selecting(instruction: Instruction, run: Lockstep) -> Lockstep:
    """The same for operands that are elements of tuples."""
    from hlo_cli.analysis.evaluate.program import element_of

    indices = [instruction.operand_index(at) for at in range(len(instruction.operands))]
    if not any(indices):
        return run

    def selected(given: Sequence[Sequence[Value]]) -> list[Value]:
        return run([[element_of(value, index) for value, index in zip(each, indices, strict=True)] for each in given])

    return selected
