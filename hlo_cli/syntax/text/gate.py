"""The last step of reading a text: malformed instructions become opaque (`opaque.py`), and are noted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.operations import OPCODE_ARITY
from hlo_cli.source import Span
from hlo_cli.syntax.opaque import CIRCLE, ELEMENT_INDEX, NOT_CALLED, OPERAND_COUNT, set_aside
from hlo_cli.syntax.text.build import Builder

_NOTED_LATER: Final = frozenset((OPERAND_COUNT, ELEMENT_INDEX, NOT_CALLED, "missing-attribute"))
"""The notes on opaque instructions, with the spans of the wrong words, computed on demand."""


def close_gate(builder: Builder, computations: Sequence[Computation]) -> None:
    """Makes malformed instructions opaque, with a note each; a line with an error gets no further notes.

    Calls are not checked where a text omits operands or names, nor where the called computations are not in it, so
    that fusions stay fusions. Nothing is checked in a text without any operands.
    """
    suspects, is_whole = builder.suspects, not (builder.nameless or builder.is_single)
    if builder.is_oversized:
        suspects = [instruction for computation in computations for instruction in computation.instructions]
    if builder.is_elided or (suspects and is_printed_without_operands(computations)):
        suspects, is_whole = [], False
    found = set_aside(suspects, builder.callers, computations, are_calls_whole=is_whole, unresolved=builder.unresolved)
    wrong = {error.position.line for error in builder.diagnostics if error.position is not None} if found else set()
    for opaque in found:
        span, code = opaque.instruction.span or Span(0, 0), opaque.problem.code
        if code == CIRCLE:
            builder.report(f"{opaque.instruction.name}: {opaque.problem.message}", span.start, span.end)
        elif code not in _NOTED_LATER and builder.source.position(span.start).line not in wrong:
            builder.notes.add(code, opaque.message, span)


def is_printed_without_operands(computations: Sequence[Computation]) -> bool:
    """Whether most of several instructions that require operands have none."""
    missing = taking = 0
    for computation in computations:
        for instruction in computation.instructions:
            if instruction.operands:
                taking += 1
            elif OPCODE_ARITY.get(instruction.opcode):
                missing += 1
    return missing > 1 and missing > taking
