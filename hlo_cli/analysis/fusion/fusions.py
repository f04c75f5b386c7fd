"""Fusions of a module: their fused operations, and the memory traffic that fusion avoids."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost import EXACT, Cost, CostOptions
from hlo_cli.analysis.cost.cost_analysis import cost_analysis, costs_among
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS
from hlo_cli.analysis.fusion.heroes import all_fused, heroes_of
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Results
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fusion with its body and its cost as one kernel and as one kernel per operation.

    `operations` are the fused instructions that would be kernels of their own, with those of nested fusions.
    `unfused_bytes` are the bytes accessed by these; for a single operation, by the fusion.
    """

    instruction: Instruction
    body: Computation
    heroes: tuple[Instruction, ...]
    operations: tuple[Instruction, ...]
    cost: Cost
    unfused_bytes: int

    @property
    def name(self) -> str:
        """Name of the fusion instruction."""
        return self.instruction.name

    @property
    def kind(self) -> str:
        """Fusion kind as XLA prints it, such as `kLoop`."""
        return self.instruction.attribute("kind") or ""

    @property
    def written_bytes(self) -> int:
        """Size of the results in bytes."""
        return round(self.cost.output_bytes)

    @property
    def read_bytes(self) -> int:
        """Bytes read from operands and from large constants."""
        return round(self.cost.bytes_accessed) - self.written_bytes

    @property
    def saved_bytes(self) -> int:
        """Memory traffic in bytes that fusion avoids: bytes accessed by unfused operations minus those of the fusion.

        Negative where XLA counts the slice that a lone gather, scatter, or slice reads, but the whole operand in a
        fusion.
        """
        return self.unfused_bytes - round(self.cost.bytes_accessed)


class FusionList(Results[Fusion, Module]):
    """Fusions of a module, as a tuple that notebooks show as a table; `context` is the module."""


def fusions_of(module: Module, *, costs: Mapping[Instruction, Cost] | None = None) -> FusionList:
    """Fusions of a module in the order of the text, without nested ones.

    `costs` are the costs of all instructions, if already computed.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... f { p = f32[100] parameter(0)  n = f32[100] negate(p)  ROOT t = f32[100] tanh(n) }
    ... ENTRY e { a = f32[100] parameter(0)  ROOT r = f32[100] fusion(a), kind=kLoop, calls=f }'''
    >>> found, = fusions_of(parse_module(text))
    >>> [operation.opcode for operation in found.operations], found.read_bytes, found.written_bytes, found.saved_bytes
    (['negate', 'tanh'], 400, 400, 800)
    """
    return computed_once(_fusions, module, cost_analysis(module) if costs is None else costs)


@no_garbage_collection()
def _fusions(module: Module, costs: Mapping[Instruction, Cost]) -> FusionList:
    bodies = {c for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations}
    outer = (i for c in module.computations if c not in bodies for i in c.instructions if i.opcode == opcodes.FUSION)
    return FusionList.of((_fusion(fusion, costs) for fusion in outer if fusion.called_computations), module)


def fusion_of(fusion: Instruction, *, rules: CostOptions = EXACT) -> Fusion:
    """Fusion data of one instruction, which can be nested; it must call a computation."""
    return _fusion(fusion, costs_among((fusion, *all_fused(fusion.called_computations[0])), rules=rules))


def _fusion(fusion: Instruction, costs: Mapping[Instruction, Cost]) -> Fusion:
    body = fusion.called_computations[0]
    inner = tuple(all_fused(body))
    operations = tuple([each for each in inner if each.opcode not in NO_KERNELS])
    kernels = operations if len(operations) > 1 else (fusion,)
    unfused = sum(round(costs[each].bytes_accessed) for each in kernels)
    return Fusion(fusion, body, heroes_of(body), operations, costs[fusion], unfused)
