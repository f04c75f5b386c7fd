"""Original values: the arrays of the program before compiler passes that XLA recorded for an instruction."""

from __future__ import annotations

from hlo_cli.ir.attributes.metadata import OriginalArray, OriginalTuple, OriginalValue
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ShapeIndex


def original_array(instruction: Instruction, index: ShapeIndex = ()) -> OriginalArray | None:
    """Returns the array that an element of an instruction's result was, None if XLA did not record it.

    >>> from hlo_cli import parse_module
    >>> root = parse_module('r = (f32[2], f32[2]) tuple(a, b), origin={({"dot.1"}, {})}').entry.root
    >>> str(original_array(root, (0,))), original_array(root, (1,))
    ('{"dot.1"}', None)
    """
    if "origin={" not in instruction.raw[1]:
        return None
    value = instruction.value_of("origin", OriginalValue)
    tree = value.tree if value is not None else None
    for at in index:
        tree = tree.elements[at] if isinstance(tree, OriginalTuple) and at < len(tree.elements) else None
    return tree if isinstance(tree, OriginalArray) and tree.instruction_name else None
