"""Conditions on the user's program, such as an op_name, that no operation of a module meets.

`none(op_name ~ mpl and opcode == copy)` passes whatever the module does, if `mlp` is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.query.logical_operations import LogicalOperation
from hlo_cli.analysis.query.measurements import Measurer
from hlo_cli.analysis.query.where import predicate
from hlo_cli.ir.expressions import Both, Call, Comparison, Condition, Expectation, Where, quantities_in

_OF_PROGRAM: Final = ("op_name", "op_type", "source")
"""Fields of the user's program."""
_POSITIVE: Final = ("==", "~", "in")


def unmatched_conditions(expectation: Expectation, measurer: Measurer) -> tuple[str, ...]:
    """Parts of the conditions of an assertion that no operation meets, as written.

    A part that is all of a condition is what the assertion is about: it counts only if the module has no such metadata
    at all, or for an argument that does not exist.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.expectations import read_expectations
    >>> module = parse_module('r = f32[2] negate(f32[2] p), metadata={op_name="f/mlp/neg"}')
    >>> [stated] = read_expectations(Source("e.toml", 'expect = ["none(op_name ~ mpl and opcode == copy)"]'))
    >>> unmatched_conditions(stated, Measurer(module, (), lambda: memory_analysis(module)))
    ('op_name ~ mpl',)
    """
    found: dict[str, None] = {}
    for quantity in (*quantities_in(expectation.quantity), *quantities_in(expectation.limit)):
        condition = quantity.where.condition
        parts = condition.parts if isinstance(condition, Both) else (condition,)
        for part in parts:
            if _is_of_program(part) and not any(_matching(quantity.where, part, measurer)):
                is_whole = len(parts) == 1
                if not is_whole or isinstance(part, Call) or not _has_field(part, measurer):
                    found[_text(quantity.where, part)] = None
    return tuple(found)


def _is_of_program(part: Condition) -> bool:
    if isinstance(part, Comparison):
        return part.field.name in _OF_PROGRAM and part.operator in _POSITIVE
    return isinstance(part, Call) and part.function == "of_argument"


def _matching(where: Where, part: Condition, measurer: Measurer) -> Iterator[LogicalOperation]:
    test = predicate(replace(where, condition=part), measurer.fields)
    return (each for each in measurer.operations if test(each) is not False)


def _has_field(part: Condition, measurer: Measurer) -> bool:
    if not isinstance(part, Comparison):
        return True
    read = measurer.fields.readers[part.field.name].read
    return any(read(each) is not None for each in measurer.operations)


def _text(where: Where, part: Condition) -> str:
    text = where.source.text
    match part:
        case Comparison():
            return " ".join(text[part.span.start : part.span.end].split())
        case Call():
            closed = text.find(")", part.argument.span.end)
            return " ".join(text[part.span.start : closed + 1].split())
        case _:
            return ""
