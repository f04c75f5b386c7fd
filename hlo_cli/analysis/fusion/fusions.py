"""The fusions of a module: what each holds, and how many bytes stay inside that would else go through memory."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.cost.cost import EXACT, Cost, CostOptions
from hlo_cli.analysis.cost.cost_analysis import cost_analysis, costs_among
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS
from hlo_cli.analysis.fusion.heroes import all_fused, heroes_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class Fusion:
    """One fusion, its body, and what it costs as one kernel and as one kernel for each of its operations.

    `operations` are those of its body that would be kernels of their own, those of fusions inside it among them.
    A fusion of one operation moves what that moves.
    """

    instruction: Instruction
    body: Computation
    heroes: tuple[Instruction, ...]
    operations: tuple[Instruction, ...]
    cost: Cost
    unfused_bytes: int

    @property
    def name(self) -> str:
        """The fusion's own."""
        return self.instruction.name

    @property
    def kind(self) -> str:
        """Loop, input, output or custom, as XLA writes it."""
        return self.instruction.attribute("kind") or ""

    @property
    def written_bytes(self) -> int:
        """Bytes of the results."""
        return round(self.cost.output_bytes)

    @property
    def read_bytes(self) -> int:
        """Bytes of the operands, as far as they are read, and of larger constants."""
        return round(self.cost.bytes_accessed) - self.written_bytes

    @property
    def saved_bytes(self) -> int:
        """Bytes that stay inside: what the operations would move by themselves, less what the fusion moves.

        It can be negative: XLA counts what a gather, scatter or slice takes when it stands alone, but in a fusion
        that reads through other operations the whole operand.
        """
        return self.unfused_bytes - round(self.cost.bytes_accessed)


@no_garbage_collection()
def fusions_of(module: Module, *, costs: Mapping[Instruction, Cost] | None = None) -> tuple[Fusion, ...]:
    """The fusions of a module in the order of its text, but for those inside of others.

    `costs` are those of all its instructions, where they are at hand.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... f { p = f32[100] parameter(0)  n = f32[100] negate(p)  ROOT t = f32[100] tanh(n) }
    ... ENTRY e { a = f32[100] parameter(0)  ROOT r = f32[100] fusion(a), kind=kLoop, calls=f }'''
    >>> found, = fusions_of(parse_module(text))
    >>> [operation.opcode for operation in found.operations], found.read_bytes, found.written_bytes, found.saved_bytes
    (['negate', 'tanh'], 400, 400, 800)
    """
    known = cost_analysis(module) if costs is None else costs
    bodies = {c for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations}
    outer = (i for c in module.computations if c not in bodies for i in c.instructions if i.opcode == opcodes.FUSION)
    return tuple(_fusion(fusion, known) for fusion in outer if fusion.called_computations)


def fusion_of(fusion: Instruction, *, rules: CostOptions = EXACT) -> Fusion:
    """The same for one fusion, which may be inside of another; it must call a computation."""
    return _fusion(fusion, costs_among((fusion, *all_fused(fusion.called_computations[0])), rules=rules))


def _fusion(fusion: Instruction, costs: Mapping[Instruction, Cost]) -> Fusion:
    body = fusion.called_computations[0]
    inner = tuple(all_fused(body))
    operations = tuple([each for each in inner if each.opcode not in NO_KERNELS])
    kernels = operations if len(operations) > 1 else (fusion,)
    unfused = sum(round(costs[each].bytes_accessed) for each in kernels)
    return Fusion(fusion, body, heroes_of(body), operations, costs[fusion], unfused)
