"""Progress of a run on a terminal: what is expected, said before it starts, and the executed instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from hlo_cli.render.progress import counted

if TYPE_CHECKING:
    from hlo_cli.ir.module import Module

_SECONDS_PER_PRODUCT: Final = 1e-10
_SECONDS_PER_OPERATION: Final = 2e-9
_SECONDS_PER_EXECUTION: Final = 8e-6
_SECONDS_PER_INSTRUCTION: Final = 8e-5
"""Multiplications of dots and convolutions, other scalar operations, executed instructions, and those of the text.

Fitted to the processor time of 115 runs of dumps of CPU, GPU, and TPU on one thread: the 13 that took 0.5 to 6
seconds are expected to take 0.6 to 1.5 times that.
"""


def shown_progress(
    modules: Sequence[Module], *, runs: int = 1, quiet: bool = False
) -> AbstractContextManager[Callable[[int], None] | None]:
    """The function that shows progress while the modules run, each of them `runs` times; None without a terminal."""
    return counted("executed instructions", expect=lambda: expectation(modules, runs), quiet=quiet)


def expectation(modules: Sequence[Module], runs: int = 1) -> str:
    """What the runs take, in one sentence if that is more than a second, else nothing.

    >>> from hlo_cli import parse_module
    >>> expectation([parse_module("r = f32[20000,20000] negate(f32[20000,20000] a)")], 2)
    'Evaluating 8.0e+08 scalar operations, in about 2 s'
    >>> expectation([parse_module("r = f32[8] negate(f32[8] a)")])
    ''
    """
    from hlo_cli.analysis.evaluate.limits import estimate

    sound = [module for module in modules if not module.errors]
    seconds = runs * sum(map(_seconds, sound))
    if seconds <= 1:
        return ""
    found = [estimate(module) for module in sound]
    operations = runs * sum(each.operations for each in found)
    least = "at least " if any(each.is_bound for each in found) else "about "
    return f"Evaluating {operations:.1e} scalar operations, in {least}{seconds:,.0f} s"


def _seconds(module: Module) -> float:
    """The processor time that a run of a module takes on all of its devices."""
    from hlo_cli.analysis.dataflow.executions import executions_of
    from hlo_cli.analysis.evaluate.devices import runs_on_devices
    from hlo_cli.analysis.evaluate.limits import work_of
    from hlo_cli.analysis.sharding.meshes import devices_of
    from hlo_cli.ir.operations import MATMULS, NO_KERNELS

    seconds, instructions = 0.0, 0
    for computation, found in executions_of(module).items():
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode in NO_KERNELS:
                continue
            instructions += 1
            seconds += found.count * _SECONDS_PER_EXECUTION
            each = _SECONDS_PER_PRODUCT if opcode in MATMULS else _SECONDS_PER_OPERATION
            seconds += work_of(instruction).operations * found.count * each
    devices = devices_of(module).count if runs_on_devices(module) else 1
    return seconds * devices + instructions * _SECONDS_PER_INSTRUCTION
