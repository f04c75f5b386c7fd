"""Resolves calls by name to computations, once all computations of a module are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import CALLING_ATTRIBUTES
from hlo_cli.source import Span, did_you_mean, nearest
from hlo_cli.syntax.text.build import Builder, Call

_MOST_NAMED: Final = 3
"""The most missing computations that get a note each."""


def link_calls(builder: Builder, computations: Sequence[Computation]) -> None:
    """Sets the called computations of every instruction; an unknown name is an error, unless names were omitted.

    In a text that may be a part of a module, instructions that call a computation that is not in it, or of which only
    a part is in it, call nothing.
    """
    named = {computation.name: computation for computation in reversed(computations)}
    for computation in builder.incomplete:
        named.pop(computation.name, None)
    calls: dict[Instruction, list[Call]] = {}
    for call in builder.calls:
        calls.setdefault(call.instruction, []).append(call)
    missing: dict[str, Call] = {}
    for instruction, made in calls.items():
        if len(made) == 1 and (called := named.get(made[0].name)) is not None:  # the most common case
            instruction.called_computations = (called,)
            continue
        made.sort(key=_call_order)
        instruction.called_computations = tuple(named[call.name] for call in made if call.name in named)
        unknown = [call for call in made if call.name not in named and call.name not in builder.lost]
        if not builder.is_open or builder.nameless:
            for call in unknown:
                _undefined(builder, call, named)
        elif unknown:
            instruction.called_computations = ()
            builder.unresolved.add(instruction)
            for call in unknown:
                missing.setdefault(call.name, call)
    _note_missing(builder, missing)


def _call_order(call: Call) -> int:
    return CALLING_ATTRIBUTES.index(call.attribute)


def _undefined(builder: Builder, call: Call, named: dict[str, Computation]) -> None:
    if builder.is_full:
        return
    span = _place(call)
    if builder.nameless:
        message = f"cannot resolve calls of {call.instruction.written_opcode}: the text omits computation names"
        builder.notes.add("unresolved", message, span)
        return
    hint = did_you_mean(nearest(call.name, named))
    builder.report(f"computation '{call.name}' not found", span.start, span.end, hint)


def _note_missing(builder: Builder, missing: Mapping[str, Call]) -> None:
    """Notes the computations that are elsewhere: each of a few, or the number of many."""
    incomplete = {computation.name for computation in builder.incomplete}
    if len(missing) > _MOST_NAMED and not builder.is_single:
        message = f"{len(missing):,} called computations are not in this text"
        builder.notes.add("unresolved", message, _place(next(iter(missing.values()))))
        return
    for name, call in missing.items():
        where = "incomplete" if name in incomplete else "not"
        builder.notes.add("unresolved", f"computation {name} is {where} in this text", _place(call))


def _place(call: Call) -> Span:
    span = next((a.span for a in call.instruction.attributes if a.name == call.attribute), None)
    return span or call.instruction.span or Span(0, 0)
