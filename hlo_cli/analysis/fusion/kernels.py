"""Kernels of a module with their backends and execution counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.cost.kernel_costs import MAX_EXECUTIONS, NO_KERNELS
from hlo_cli.analysis.cost.traversal import callees_first
from hlo_cli.analysis.dataflow.computation_contexts import CONTROL_FLOW, contexts_of
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.analysis.fusion.kernel_backends import KernelBackend, backend_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NATIVE_ENDS, wrapped_opcode

NO_KERNEL_TARGETS: Final = frozenset(
    ("AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast", "LayoutConstraint", "control_dep")
)
"""Targets of custom calls that only tell a compiler something, or name memory."""
_EXECUTING: Final = CONTROL_FLOW - {opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE}


@dataclass(frozen=True, slots=True)
class Kernel:
    """Launched operation, its backend, and its number of runs per execution; None if unknown."""

    instruction: Instruction
    backend: KernelBackend
    times: int | None = 1

    @property
    def is_transfer(self) -> bool:
        """Whether the operation only transfers bytes between memories or devices."""
        return self.backend.kind == "transfer"


def kernels_of(module: Module) -> tuple[Kernel, ...]:
    """Kernels and transfers of a module in the order of the text; a loop body counts once.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  ROOT t = (f32[2]) tuple(a) }"
    >>> [kernel.instruction.name for kernel in kernels_of(parse_module(text))]
    ['a']
    """
    times, target = times_run_of(module), target_of(module)
    async_bodies = {
        called for i in module.instructions if i.opcode == opcodes.ASYNC_START for called in i.called_computations
    }
    return tuple(
        Kernel(instruction, backend_of(instruction, target, is_asynchronous=computation in async_bodies), often)
        for computation, often in times.items()
        for instruction in computation.instructions
        if is_launched(instruction)
    )


def is_launched(instruction: Instruction) -> bool:
    """Whether an operation of a sequentially executed computation launches a kernel or a transfer."""
    opcode = instruction.opcode
    if opcode in NO_KERNELS or opcode in NATIVE_ENDS:
        return False
    if opcode.endswith(("-update", "-done")) and wrapped_opcode(opcode) is not None:
        return False
    return opcode != opcodes.CUSTOM_CALL or instruction.string("custom_call_target") not in NO_KERNEL_TARGETS


def times_run_of(module: Module) -> Mapping[Computation, int | None]:
    """Number of runs of each sequentially executed computation per execution of the module; None if unknown.

    Every branch of a conditional counts as taken.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  ROOT n = s8[9] not(a) }
    ... ENTRY e { p = s8[9] parameter(0)  c = s8[9] call(p), to_apply=f  ROOT d = s8[9] call(c), to_apply=f }'''
    >>> list(times_run_of(parse_module(text)).values())
    [2, 1]
    """
    contexts = contexts_of(module).context_of
    order = [c for c in callees_first((module.entry,)) if contexts.get(c) == "global"]
    times: dict[Computation, int | None] = {module.entry: 1}
    for computation in reversed(order):
        for caller in computation.instructions:
            if caller.opcode in _EXECUTING:
                for called, often in _calls(caller):
                    times[called] = _sum(times.get(called, 0), _product(times.get(computation, 0), often))
    return {computation: times[computation] for computation in module.computations if computation in times}


def _calls(caller: Instruction) -> Iterator[tuple[Computation, int | None]]:
    """Yields the computations that `caller` runs, with the number of runs; a loop condition runs once more than the
    body.
    """
    trips = trip_count(caller) if caller.opcode == opcodes.WHILE else 1
    for number, called in enumerate(caller.called_computations):
        yield called, trips if trips is None or not (number and caller.opcode == opcodes.WHILE) else trips + 1


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _product(first: int | None, second: int | None) -> int | None:
    product = None if first is None or second is None else first * second
    return product if product is None or product <= MAX_EXECUTIONS else None
