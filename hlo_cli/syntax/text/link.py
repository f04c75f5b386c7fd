"""Resolves calls by name to computations, once all computations of a module are known."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import CALLING_ATTRIBUTES
from hlo_cli.source import Span, did_you_mean, nearest
from hlo_cli.syntax.text.build import Builder, Call


def link_calls(builder: Builder, computations: Sequence[Computation]) -> None:
    """Sets the called computations of every instruction; an unknown name is an error, unless names were omitted."""
    named = {computation.name: computation for computation in reversed(computations)}
    calls: dict[Instruction, list[Call]] = {}
    for call in builder.calls:
        calls.setdefault(call.instruction, []).append(call)
    for instruction, made in calls.items():
        if len(made) == 1 and (called := named.get(made[0].name)) is not None:  # the most common case
            instruction.called_computations = (called,)
            continue
        made.sort(key=_call_order)
        instruction.called_computations = tuple(named[call.name] for call in made if call.name in named)
        for call in made:
            if call.name not in named:
                _undefined(builder, call, named)


def _call_order(call: Call) -> int:
    return CALLING_ATTRIBUTES.index(call.attribute)


def _undefined(builder: Builder, call: Call, named: dict[str, Computation]) -> None:
    if builder.is_full or call.name in builder.lost:
        return
    span = next((a.span for a in call.instruction.attributes if a.name == call.attribute), None)
    span = span or call.instruction.span or Span(0, 0)
    if builder.nameless:
        message = f"cannot resolve calls of {call.instruction.written_opcode}: the text omits computation names"
        builder.notes.add("unresolved", message, span)
        return
    if builder.is_single:
        builder.notes.add("unresolved", f"computation {call.name} is not in this text", span)
        return
    hint = did_you_mean(nearest(call.name, named))
    builder.report(f"computation '{call.name}' not found", span.start, span.end, hint)
