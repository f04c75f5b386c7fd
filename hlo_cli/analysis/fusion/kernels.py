"""Every kernel that a module launches, how it is made, and how often it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS
from hlo_cli.analysis.cost.traversal import callees_first
from hlo_cli.analysis.dataflow.computation_contexts import CONTROL_FLOW, contexts_of
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.analysis.fusion.kernel_backends import KernelBackend, backend_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NATIVE_ENDS, wrapped_opcode

_FREE_CALLS: Final = frozenset(
    ("AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast", "LayoutConstraint", "control_dep")
)
_RUNNING: Final = CONTROL_FLOW - {opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE}


@dataclass(frozen=True, slots=True)
class Kernel:
    """An operation that is launched by itself, how its kernel is made, and how often it runs, None if nobody knows."""

    instruction: Instruction
    backend: KernelBackend
    times: int | None = 1

    @property
    def is_transfer(self) -> bool:
        """Whether it only moves bytes between memories or devices, for which no kernel is needed."""
        return self.backend.how == "transfer"


def kernels_of(module: Module) -> tuple[Kernel, ...]:
    """The kernels and transfers of a module, in the order of its text; those of a loop's body stand once.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  ROOT t = (f32[2]) tuple(a) }"
    >>> [kernel.instruction.name for kernel in kernels_of(parse_module(text))]
    ['a']
    """
    times, target = times_run_of(module), target_of(module)
    beside = {
        called for i in module.instructions if i.opcode == opcodes.ASYNC_START for called in i.called_computations
    }
    return tuple(
        Kernel(instruction, backend_of(instruction, target, is_asynchronous=computation in beside), often)
        for computation, often in times.items()
        for instruction in computation.instructions
        if is_launched(instruction)
    )


def is_launched(instruction: Instruction) -> bool:
    """Whether an operation begins something by itself, where its computation runs step by step."""
    opcode = instruction.opcode
    if opcode in NO_KERNELS or opcode in NATIVE_ENDS:
        return False
    if opcode.endswith(("-update", "-done")) and wrapped_opcode(opcode) is not None:
        return False
    return opcode != opcodes.CUSTOM_CALL or instruction.string("custom_call_target") not in _FREE_CALLS


def times_run_of(module: Module) -> Mapping[Computation, int | None]:
    """How often each computation that runs step by step does so in one run, None where the text does not tell.

    A branch counts as if it were taken.

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
            if caller.opcode in _RUNNING:
                for called, often in _calls(caller):
                    times[called] = _sum(times.get(called, 0), _product(times.get(computation, 0), often))
    return {computation: times[computation] for computation in module.computations if computation in times}


def _calls(caller: Instruction) -> Iterator[tuple[Computation, int | None]]:
    """What a caller runs, and how often each time that it runs itself; the condition of a loop once more than its body.

    An end names the computation that its start has run.
    """
    trips = trip_count(caller) if caller.opcode == opcodes.WHILE else 1
    for number, called in enumerate(caller.called_computations):
        yield called, trips if trips is None or not (number and caller.opcode == opcodes.WHILE) else trips + 1


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _product(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first * second
