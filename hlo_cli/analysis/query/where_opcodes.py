"""Checks opcodes in conditions: an unknown opcode is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

from hlo_cli.ir.expressions import Both, Comparison, Condition, Either, Not, Text, Where
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import OPCODE_ARITY, is_known
from hlo_cli.source import did_you_mean, nearest

EXACT: Final = ("==", "!=", "in", "not in")
"""Operators that compare a whole text."""

_ASYNC: Final = re.compile(r"(.+)-(?:start|update|done)")


def opcode_check(
    existing: Callable[[], Collection[str]], *, is_opcode: Callable[[str], bool] = is_known
) -> Callable[[Where, Comparison], None]:
    """Check that raises HloError, with the nearest opcode, for an opcode that XLA does not have.

    `existing` returns the opcodes of the module, which can be those of a fork.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> where = parse_where("opcode == cpoy")
    >>> opcode_check(lambda: ("frob",))(where, where.condition)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:11: error: unknown opcode 'cpoy'
    """

    def check(where: Where, comparison: Comparison) -> None:
        for value in comparison.values if comparison.operator in EXACT else ():
            if isinstance(value, Text) and not is_opcode(value.text) and value.text not in existing():
                hint = did_you_mean(nearest(value.text, (*OPCODE_ARITY, *existing())))
                hint = hint or f'for a custom opcode, write opcode ~ "^{value.text}$"'
                raise where.error(f"unknown opcode '{value.text}'", value.span, hint)

    return check


def check_operation_opcode(where: Where, comparison: Comparison) -> None:
    """Raises HloError for an unknown opcode, and for the async form of a logical operation.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> where = parse_where("opcode == all-gather-start")
    >>> check_operation_opcode(where, where.condition)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:11: error: all-gather-start is matched as all-gather
    """
    for value in comparison.values:
        match = _ASYNC.fullmatch(value.text) if isinstance(value, Text) else None
        if match and (match[1] in OPCODE_ARITY or match[1] == "async"):
            is_any = match[1] == "async"
            and_async = f"use opcode == {match[1]}, and add `async` to require an async operation"
            hint = "use `async`" if is_any else and_async
            message = f"{value.text} is matched as {'the operation that it starts' if is_any else match[1]}"
            raise where.error(message, value.span, hint)
    opcode_check(lambda: (), is_opcode=OPCODE_ARITY.__contains__)(where, comparison)


def opcodes_of(module: Module) -> tuple[str, ...]:
    """Distinct opcodes of a module.

    >>> from hlo_cli import parse_module
    >>> opcodes_of(parse_module("r = f32[2] negate(f32[2] p)"))
    ('parameter', 'negate')
    """
    return tuple(dict.fromkeys(instruction.opcode for instruction in module.instructions))


def comparisons_in(condition: Condition) -> Iterator[Comparison]:
    """Yields all comparisons of a condition.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> [str(each.field) for each in comparisons_in(parse_where("a == 1 and not (b == 2 or c)").condition)]
    ['a', 'b']
    """
    match condition:
        case Comparison():
            yield condition
        case Not(part):
            yield from comparisons_in(part)
        case Both(parts) | Either(parts):
            for part in parts:
                yield from comparisons_in(part)
