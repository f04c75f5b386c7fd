"""Which compiler pass fused an instruction, by the per-pass dumps next to a dump."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from hlo_cli.analysis.fusion.mutable_graph import fusible_computations
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import earlier_dumps, pass_between
from hlo_cli.inputs.input import read_inputs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class FusingPass:
    """The pass after which an instruction is not a kernel any more, and the fusion that has it since; "" if unknown."""

    name: str
    fusion: str


def fusing_pass(loaded: Loaded, name: str) -> FusingPass | None:
    """The pass that fused an instruction, None if no dump of a pass has the instruction as a kernel.

    Reads the dumps of the latest passes first, and only those that have the name.
    """
    given = loaded.input
    if given.path is None or given.dump is None:
        return None
    later, stage = loaded.module, given.stage or ""
    for path, earlier in reversed(earlier_dumps(given.path, given.dump)):
        with suppress(HloError, OSError):
            for each in read_inputs([path]):
                if f"{name} = " not in each.source.text:
                    continue
                module = read_input(each)
                if (found := _kernel(module, name)) is not None:
                    return FusingPass(pass_between(earlier, stage).name, _fusion_with(later, found))
                later = module
        stage = earlier
    return None


def _kernel(module: Module, name: str) -> Instruction | None:
    """The instruction of this name if it is executed on its own."""
    return next(
        (each for computation in fusible_computations(module) if (each := computation.instruction(name)) is not None),
        None,
    )


def _fusion_with(module: Module, instruction: Instruction) -> str:
    """The fusion with an instruction of the same opcode, op_name, and shape, if there is only one."""
    same = Counter(
        fusion.name
        for fusion in module.instructions
        if fusion.opcode == opcodes.FUSION
        for called in fusion.called_computations
        for each in called.instructions
        if each.opcode == instruction.opcode
        and each.shape == instruction.shape
        and each.metadata.op_name == instruction.metadata.op_name
    )
    return next(iter(same)) if len(same) == 1 else ""
