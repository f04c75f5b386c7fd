"""The canonical printer: computations as XLA's own printer writes them in a dump.

Mirrors `HloModule::ToString` with the options of dumps: `%` before names, program shapes, layouts, and
metadata, no operand shapes. Attributes are printed as they were read.
"""

from __future__ import annotations

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.ir.shape_text import annotate_indices
from hlo_cli.ir.strings import dictionary_or_quoted


def print_computation(computation: Computation) -> str:
    """One computation with its signature, such as `%f (p: f32[2]) -> f32[2] { … }`."""
    lines = [_signature(computation) + " {"]
    lines.extend(
        ("  ROOT " if i is computation.root else "  ") + print_instruction(i) for i in computation.instructions
    )
    thread, config = computation.execution_thread, computation.backend_config
    end = "" if thread == "main" else f', execution_thread="{thread}"'
    lines.append("}" + end + (f", backend_config={dictionary_or_quoted(config)}" if config else ""))
    return "\n".join(lines)


def print_instruction(instruction: Instruction) -> str:
    """One instruction without ROOT, such as `%name = shape opcode(%operands), attribute=value`."""
    argument, attributes = instruction.raw
    shape = (
        "" if isinstance(instruction.shape, UnknownShape) and not instruction.shape.text else f"{instruction.shape} "
    )
    taken = argument or annotate_indices([_operand(instruction, i) for i in range(len(instruction.operands))])
    return f"%{instruction.name} = {shape}{instruction.written_opcode}({taken}){attributes}"


def _operand(instruction: Instruction, position: int) -> str:
    elements = "".join(f"#{i}" for i in instruction.operand_index(position))
    return f"%{instruction.operands[position].name}{elements}"


def _signature(computation: Computation) -> str:
    head = ("ENTRY " if computation.is_entry else "") + f"%{computation.name}"
    root = computation.root
    if root is None or root.shape == UnknownShape() or any(p.shape == UnknownShape() for p in computation.parameters):
        return head
    parameters = ", ".join(f"{p.name}: {p.shape.to_string(layout=False)}" for p in computation.parameters)
    return f"{head} ({parameters}) -> {root.shape.to_string(layout=False)}"
