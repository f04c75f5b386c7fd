"""Instructions whose shape differs from the one inferred from their operands, or whose operands do not fit."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator

from hlo_cli.analysis.shapes.inference import shape_difference, shape_difference_key
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class ShapeProblem:
    """A problem with an instruction: with its written shape, or else with its operands.

    With `is_precision`, the shapes differ only in the width of a float type.
    """

    instruction: Instruction
    message: str
    is_of_shape: bool
    is_precision: bool = False


@dataclass(frozen=True, slots=True)
class Strictness:
    """The strictness of comparing shapes, and the computations that are bodies of fusions."""

    layout_sensitive: bool
    allow_mixed_precision: bool
    fused: Container[Computation]


def shape_problems(module: Module, strictness: Strictness) -> Iterator[ShapeProblem]:
    """The problems, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = bf16[4] add(f32[4] a, f32[4] b)")
    >>> next(shape_problems(module, Strictness(False, False, ()))).message
    'r: expected the shape f32[4], found bf16[4]'
    """
    valid: set[Hashable] = set()
    for instruction in module.instructions:
        key = shape_difference_key(instruction), instruction.computation in strictness.fused
        if key in valid:
            continue
        try:
            message = _difference(module, instruction, strictness, any_precision=strictness.allow_mixed_precision)
        except HloError as error:
            yield ShapeProblem(instruction, error.diagnostic.message, is_of_shape=False)
            continue
        if message is not None:
            allowed = strictness.allow_mixed_precision
            is_precision = not allowed and _difference(module, instruction, strictness, any_precision=True) is None
            yield ShapeProblem(instruction, f"{instruction.name}: {message}", True, is_precision)
        elif key[0] is not None:
            valid.add(key)


def _difference(module: Module, instruction: Instruction, strictness: Strictness, *, any_precision: bool) -> str | None:
    return shape_difference(
        instruction,
        module,
        layout_sensitive=strictness.layout_sensitive,
        allow_mixed_precision=any_precision,
        is_fused=instruction.computation in strictness.fused,
    )
