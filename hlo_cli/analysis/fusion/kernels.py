"""Kernels of a module with their backends and execution counts."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS
from hlo_cli.analysis.dataflow.executions import Executions, sequential_executions
from hlo_cli.analysis.fusion.kernel_backends import KernelBackend, backend_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Results
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NATIVE_ENDS, wrapped_opcode

NO_KERNEL_TARGETS: Final = frozenset(
    ("AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast", "LayoutConstraint", "control_dep")
)
"""Targets of custom calls that only tell a compiler something, or name memory."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Launched operation, its backend, and how often it runs per execution of the module."""

    instruction: Instruction
    backend: KernelBackend
    executions: Executions

    @property
    def times(self) -> int | None:
        """The number of executions, None if a trip count is unknown."""
        return self.executions.known

    @property
    def is_transfer(self) -> bool:
        """Whether the operation only transfers bytes between memories or devices."""
        return self.backend.kind == "transfer"


class KernelList(Results[Kernel, Module]):
    """Kernels of a module, as a tuple that notebooks show as a table; `context` is the module."""


def kernels_of(module: Module) -> KernelList:
    """Kernels and transfers of a module in the order of the text; a loop body counts once.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  ROOT t = (f32[2]) tuple(a) }"
    >>> [kernel.instruction.name for kernel in kernels_of(parse_module(text))]
    ['a']
    """
    return computed_once(_kernels, module)


def _kernels(module: Module) -> KernelList:
    target = target_of(module)
    async_bodies = {
        called for i in module.instructions if i.opcode == opcodes.ASYNC_START for called in i.called_computations
    }
    found = (
        Kernel(instruction, backend_of(instruction, target, is_asynchronous=computation in async_bodies), executions)
        for computation, executions in sequential_executions(module).items()
        for instruction in computation.instructions
        if is_launched(instruction)
    )
    return KernelList.of(found, module)


def is_launched(instruction: Instruction) -> bool:
    """Whether an operation of a sequentially executed computation launches a kernel or a transfer."""
    opcode = instruction.opcode
    if opcode in NO_KERNELS or opcode in NATIVE_ENDS:
        return False
    if opcode.endswith(("-update", "-done")) and wrapped_opcode(opcode) is not None:
        return False
    if opcode == opcodes.FUSION:
        return not _is_fused_done(instruction)
    return opcode != opcodes.CUSTOM_CALL or instruction.string("custom_call_target") not in NO_KERNEL_TARGETS


def _is_fused_done(fusion: Instruction) -> bool:
    """Whether a TPU fusion only ends a collective that another one started, as the done of other forms does."""
    root = fusion.called_computations[0].root if fusion.called_computations else None
    is_call = root is not None and root.opcode == opcodes.CUSTOM_CALL
    return is_call and root is not None and root.string("custom_call_target") == "AsyncCollectiveDone"
