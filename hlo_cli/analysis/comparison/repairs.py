"""Tries other forms of instructions until two programs agree: the proof that an instruction is the one that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from hlo_cli.analysis.comparison.compare import ROUNDING, distance
from hlo_cli.analysis.comparison.variants import Material, OnDevices, Variant, graft_of, variants
from hlo_cli.analysis.dataflow.executions import loop_runs
from hlo_cli.analysis.evaluate.clock import Clock
from hlo_cli.analysis.evaluate.devices import DeviceProgram, Lockstep
from hlo_cli.analysis.evaluate.program import MISFITS, Program
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.evaluate.sharded import assembled, device_arguments
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Kernel, Value, arrays_of
from hlo_cli.analysis.sharding.device_groups import Devices
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError

_MAX_EXECUTED: Final = 4_000_000
"""The largest number of instructions that all attempts execute together: some ten seconds, of large modules."""
_MAX_OPERATIONS: Final = 1e10
"""The largest number of scalar operations of all attempts: some seconds."""
_MORE_ITERATIONS: Final = 16
_MAX_SECONDS: Final = 60.0
"""A last resort, as what is found must not depend on how busy the machine is."""


class _Exhausted(Exception):
    """All attempts together have executed as much as they may."""


class _Varied(Program):
    """A program in which one instruction at a time has another form."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("widen", limits=limits, clock=Clock(limits))
        self.varied: Instruction | None = None
        self.variant: Variant | None = None
        self.devices: Devices | None = None
        self.together: set[Instruction] = set()

    def current(self) -> int:
        """The device that runs now."""
        return self.device

    def kernel(self, instruction: Instruction, *, on_arrays: bool = False) -> Kernel:
        """The function that computes an instruction, or its other form."""
        own = super().kernel(instruction, on_arrays=on_arrays)

        def run(*operands: Value) -> Value:
            if instruction is not self.varied or self.variant is None:
                return own(*operands)
            return self.variant.kernel(own, operands)

        return run

    def count(self, steps: int, computation: Computation, operations: int = 0) -> None:
        """Counts executed instructions, and ends all attempts after too many."""
        try:
            super().count(steps, computation, operations)
        except HloError as error:
            raise _Exhausted from error
        if self.executed > _MAX_EXECUTED:
            raise _Exhausted


class _VariedDevices(DeviceProgram):
    """The same on several devices: an instruction may exchange other parts, or have another form on each."""

    def __init__(self, program: Program, devices: Devices, module: Module) -> None:
        super().__init__(program, devices, module)
        loops = (each for each in module.instructions if each.opcode == opcodes.WHILE and loop_runs(each))
        self._counted = {computation for each in loops for computation in each.called_computations}

    def is_lockstep(self, computation: Computation) -> bool:
        """Also loops of a known trip count, in which a sum over devices may be missing."""
        return super().is_lockstep(computation) or computation in self._counted

    def _is_pure(self, instruction: Instruction) -> bool:
        return False

    def _step(self, instruction: Instruction) -> Lockstep:
        own, program = super()._step(instruction), self.program
        assert isinstance(program, _Varied)
        program.together.add(instruction)

        def run(given: Sequence[Sequence[Value]]) -> list[Value]:
            if instruction is not program.varied or program.variant is None or program.variant.exchange is None:
                return own(given)
            return program.variant.exchange(own, given)

        return run


Runner: TypeAlias = "Callable[[_Varied], Callable[[], Iterable[Array]]]"
"""From a program to a function that runs it and returns the arrays of its results."""


def runner_of(module: Module, arguments: Sequence[Value], devices: Devices | None) -> Runner:
    """Runs the entry of a module, on several devices if they are given."""
    root = module.entry.root
    assert root is not None

    def on_one(program: _Varied) -> Callable[[], Iterable[Array]]:
        function = program.function(module.entry)
        return lambda: [each for _, each, _ in arrays_of(function(arguments), root.shape)]

    def on_several(program: _Varied) -> Callable[[], Iterable[Array]]:
        assert devices is not None
        program.devices = devices
        given = device_arguments(module, arguments, devices.count)
        function = _VariedDevices(program, devices, module).function(module.entry)
        return lambda: [each for _, each, _ in arrays_of(assembled(module, function(given))[0], root.shape)]

    return on_one if devices is None else on_several


def find_repair(
    runner: Runner,
    expected: Sequence[Array | None],
    suspects: Sequence[Instruction],
    material: Material,
    *,
    executions: int = 1,
    operations: float = 0.0,
) -> tuple[Instruction, Variant] | None:
    """The first suspect that has a form with which all results are the expected ones, and that form.

    `executions` is how often one instruction runs as it is, and loops may not run much longer; `operations` are those
    of one run. Expected ones that are
    None may be anything. None if there is no such suspect, and if finding it takes too much.

    >>> from hlo_cli import parse_module
    >>> new = parse_module("ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  ROOT n = f32[2] negate(a) }")
    >>> runner = runner_of(new, [np.array([2.0, 3.0])], None)
    >>> suspect, variant = find_repair(runner, [np.array([-4.0, -9.0])], new.entry.instructions[1:], Material({}))
    >>> suspect, variant.words
    (<add a>, 'multiply')
    """
    program = _Varied(Limits(max_iterations=executions + _MORE_ITERATIONS, max_seconds=_MAX_SECONDS))
    attempts = int(_MAX_OPERATIONS / max(operations, 1.0))
    try:
        with np.errstate(all="ignore"):
            run = runner(program)
            for is_unlikely in (False, True):
                for suspect in dict.fromkeys(suspects):
                    for variant in _variants_of(suspect, program, material):
                        if variant.is_unlikely is not is_unlikely:
                            continue
                        if (attempts := attempts - 1) < 0:
                            return None
                        program.varied, program.variant = suspect, variant
                        program.states.clear()
                        if _agrees(run, expected):
                            return suspect, variant
    except (_Exhausted, RecursionError, MemoryError):
        pass
    return None


def is_healed(
    runner: Runner,
    expected: Sequence[Array | None],
    suspect: Instruction,
    values: Mapping[tuple[int, int], Value],
) -> bool | None:
    """Whether all results agree if an instruction has the values of the other program, by device and execution.

    If they do not, something else is wrong too, or instead. None if it cannot be tried.
    """
    program = _Varied(Limits(max_seconds=_MAX_SECONDS))
    program.varied, program.variant = suspect, graft_of(values, program.current)
    with np.errstate(all="ignore"):
        try:
            results = list(runner(program)())
        except (_Exhausted, HloError, RecursionError, MemoryError, *MISFITS):
            return None
    return _are_as_expected(results, expected)


def _variants_of(suspect: Instruction, program: _Varied, material: Material) -> Sequence[Variant]:
    on = None if program.devices is None else OnDevices(program.devices, program.current)
    try:
        found = variants(suspect, program, material, on)
        return [each for each in found if each.exchange is None or suspect in program.together]
    except (HloError, *MISFITS):
        return ()


def _agrees(run: Callable[[], Iterable[Array]], expected: Sequence[Array | None]) -> bool:
    try:
        return _are_as_expected(run(), expected)
    except (HloError, *MISFITS):
        return False


def _are_as_expected(results: Iterable[Array], expected: Sequence[Array | None]) -> bool:
    return all(
        old is None or distance(old, new) <= (0 if old.dtype.kind in "biu" else ROUNDING)
        for old, new in zip(expected, results, strict=True)
    )
