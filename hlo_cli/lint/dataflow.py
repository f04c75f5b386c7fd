"""Producers and uses of a value, through forwarding instructions and into fusions."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.dependencies import PASSES_ON_ONE_VALUE, Users, uses_of
from hlo_cli.analysis.fusion.fusion_bodies import roots_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.lint.context import LintContext

_MOST_STEPS: Final = 100


class Use(NamedTuple):
    """An instruction that uses a value, and the operand through which it does."""

    instruction: Instruction
    value: Instruction


def transitive_uses(value: Instruction, users: Users) -> Iterator[Use]:
    """The uses of a value; for a fusion, the uses inside.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.dependencies import users_among
    >>> module = parse_module('''HloModule m  f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }''')
    >>> list(transitive_uses(module.entry.parameters[0], users_among(list(module.instructions))))
    [Use(instruction=<negate n>, value=<parameter p>)]
    """
    waiting, seen = [value], {value}
    while waiting:
        made = waiting.pop()
        for user in uses_of(made, users):
            if user.opcode != opcodes.FUSION or not user.called_computations:
                yield from (
                    Use(user, operand) for operand in dict.fromkeys(user.operands) if derives_from(operand, made)
                )
                continue
            taken = zip(user.operands, user.called_computations[0].parameters, strict=False)
            for operand, parameter in taken:
                if parameter not in seen and derives_from(operand, made):
                    seen.add(parameter)
                    waiting.append(parameter)


def derives_from(operand: Instruction, made: Instruction) -> bool:
    """Whether an operand is `made` itself, or forwards it.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[4] parameter(0)  ROOT b = f32[2,2] bitcast(p) }").entry
    >>> derives_from(entry.root, entry.parameters[0])
    True
    """
    for _ in range(_MOST_STEPS):
        if operand is made:
            return True
        if operand.opcode not in PASSES_ON_ONE_VALUE or not operand.operands:
            return False
        operand = operand.operands[0]
    return False


def origin_of(context: LintContext, value: Instruction, through: Container[str] = ("bitcast",)) -> Instruction:
    """The producer of a value: through the opcodes in `through`, into a producing fusion, and out of a consuming one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> module = parse_module('''HloModule m  f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { a = f32[2] parameter(0)  b = f32[2] fusion(a), kind=kLoop, calls=f  ROOT c = f32[2] bitcast(b) }''')
    >>> context = LintContext(module, LintSettings())
    >>> origin_of(context, module.entry.root), origin_of(context, module.computation("f").parameters[0])
    (<negate n>, <parameter a>)
    """
    for _ in range(_MOST_STEPS):
        if (before := _before(context, value, through)) is None:
            break
        value = before
    return value


def _before(context: LintContext, value: Instruction, through: Container[str]) -> Instruction | None:
    called = value.called_computations
    match value.opcode:
        case opcodes.FUSION if called and (root := called[0].root) is not None and root.opcode != opcodes.TUPLE:
            return root
        case opcodes.GET_TUPLE_ELEMENT if value.operands and value.operands[0].opcode == opcodes.FUSION:
            fused = value.operands[0].called_computations
            results = roots_of(fused[0]) if fused else ()
            number = value.integer("index") or 0
            return results[number] if number < len(results) else None
        case opcodes.PARAMETER if value.computation in context.fused:
            [*callers] = context.contexts.callers.get(value.computation, ())
            given = callers[0].operands if len(callers) == 1 else ()
            taken = value.parameter_number
            return given[taken] if taken is not None and taken < len(given) else None
        case opcode if opcode in through and value.operands:
            return value.operands[0]
    return None
