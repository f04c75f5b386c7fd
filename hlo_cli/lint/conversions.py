"""Conversions of a value to another type and back, with nothing computed in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.operations import MOVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.dataflow import origin_of


class RoundTrip(NamedTuple):
    """The conversion from a type, the conversion back to it, and both types."""

    first: Instruction
    last: Instruction
    outer: PrimitiveType
    inner: PrimitiveType


def element_type(instruction: Instruction) -> PrimitiveType | None:
    """The element type of the first array in an instruction's result; None if it has no array.

    >>> from hlo_cli import parse_module
    >>> print(element_type(parse_module("r = (token[], bf16[2]) tuple(token[] t, bf16[2] a)").entry.root))
    bf16
    """
    leaves = (leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape))
    return next((leaf.element_type for leaf in leaves), None)


def round_trips(context: LintContext, min_bytes: int) -> Iterator[RoundTrip]:
    """Values of at least `min_bytes` converted to another type and back, with at most data movement in between.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> text = "ENTRY e { x = bf16[8] parameter(0)  a = f32[8] convert(x)  b = f32[8] copy(a)  c = bf16[8] convert(b) }"
    >>> [(trip.first.name, trip.last.name) for trip in round_trips(LintContext(parse_module(text), LintSettings()), 16)]
    [('a', 'c')]
    """
    for last in context.of(opcodes.CONVERT):
        if last.shape.padded_bytes < min_bytes or not last.operands:
            continue
        first = origin_of(context, last.operands[0], MOVES)
        if first.opcode != opcodes.CONVERT or not first.operands or first is last:
            continue
        begun, inner, outer = element_type(first.operands[0]), element_type(first), element_type(last)
        if outer is not None and inner is not None and begun == outer:
            yield RoundTrip(first, last, outer, inner)
