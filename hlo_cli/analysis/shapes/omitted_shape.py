"""Inference of shapes that the text omits; the rules are loaded on first use."""

from __future__ import annotations

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import Shape


def omitted_shape(instruction: Instruction) -> Shape:
    """Returns the inferred shape, as the argument `infer` of `parse_module`; raises HloError if it must be declared.

    >>> from hlo_cli.syntax.text.parser import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2]{0} parameter(0)  ROOT r = negate(p) }", infer=omitted_shape)
    >>> print(module.entry.root.shape)
    f32[2]{0}
    """
    from hlo_cli.analysis.shapes.inference import infer_shape

    return infer_shape(instruction)
