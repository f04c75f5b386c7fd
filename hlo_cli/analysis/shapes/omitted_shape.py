"""The shape of an instruction that is written without one; loads the rules only when some text leaves a shape out."""

from __future__ import annotations

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import Shape


def omitted_shape(instruction: Instruction) -> Shape:
    """What `parse_module` takes as `infer`: the shape by the opcode's rule, HloError where it must be written.

    >>> from hlo_cli.syntax.text.parser import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2]{0} parameter(0)  ROOT r = negate(p) }", infer=omitted_shape)
    >>> print(module.entry.root.shape)
    f32[2]{0}
    """
    from hlo_cli.analysis.shapes.inference import infer_shape

    return infer_shape(instruction)
