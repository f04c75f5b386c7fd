"""Analyses of a module for rules about costs, each computed once and on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS
from hlo_cli.analysis.dataflow.executions import Executions, sequential_executions
from hlo_cli.analysis.fusion.fusion_bodies import all_fused
from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, analyze_overlap
from hlo_cli.analysis.schedule.transfers import Transfer, transfers_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import FUSION


@dataclass(eq=False)
class Analyses:
    """Analyses of a module's memory, kernels, and transfers.

    >>> from hlo_cli import parse_module
    >>> analyses = Analyses(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"))
    >>> analyses.kernels, analyses.memory.spaces[0].peak_bytes
    ((<negate n>,), 16)
    """

    module: Module
    _operations: dict[Instruction, tuple[Instruction, ...]] = field(default_factory=dict)

    @cached_property
    def memory(self) -> MemoryAnalysis:
        """The memory usage of the module."""
        from hlo_cli.analysis.memory.memory_analysis import (
            memory_analysis,  # a large import that pages and lists of rules do not need
        )

        return memory_analysis(self.module)

    @cached_property
    def overlap(self) -> OverlapAnalysis:
        """The async operations and the compute that overlaps them."""
        return analyze_overlap(self.module)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """The transfers between memory spaces."""
        return transfers_of(self.overlap.sequence)

    @cached_property
    def executions(self) -> Mapping[Computation, Executions]:
        """How often each computation runs that is executed instruction by instruction."""
        return sequential_executions(self.module)

    @cached_property
    def kernels(self) -> tuple[Instruction, ...]:
        """The instructions that are launched as kernels, including fusions, in the order of the text."""
        return tuple(each for computation in self.executions for each in computation.instructions if is_launched(each))

    def operations(self, kernel: Instruction) -> tuple[Instruction, ...]:
        """The operations of a kernel: those fused into it, or the kernel itself.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m  f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
        ... ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }'''
        >>> module = parse_module(text)
        >>> Analyses(module).operations(module.entry.root)
        (<negate n>,)
        """
        if kernel.opcode != FUSION or not kernel.called_computations:
            return (kernel,)
        if kernel not in self._operations:
            inner = all_fused(kernel.called_computations[0])
            self._operations[kernel] = tuple([each for each in inner if each.opcode not in NO_KERNELS])
        return self._operations[kernel]

    def does_any(self, kernel: Instruction, *opcodes: str) -> bool:
        """Whether one of a kernel's operations has one of these opcodes."""
        return any(each.opcode in opcodes for each in self.operations(kernel))

    def does_only(self, kernel: Instruction, *opcodes: str) -> bool:
        """Whether a kernel has at least one operation, and all have one of these opcodes."""
        operations = self.operations(kernel)
        return bool(operations) and all(each.opcode in opcodes for each in operations)
