"""Grammars of original values, of a module's tables about them, and of statistics and accuracies.

Mirrors `ParseOriginalValueImpl`, `ParseStatisticsViz` and `ParseResultAccuracyType` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyparsing as pp

from hlo_cli.ir.attributes.enumerations import DebugLogMode, ResultAccuracyMode
from hlo_cli.ir.attributes.metadata import (
    DebugAttributes,
    DebuggedArray,
    OriginalArray,
    OriginalTuple,
    OriginalValue,
    Recovery,
    RecoveryTable,
    Statistic,
    StatisticsViz,
)
from hlo_cli.ir.attributes.value_types import ResultAccuracy, Tolerance
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values import grammar_tools as gt

_ARRAY: Final = (
    gt.suppress_literal("{")
    + pp.Opt(gt.STRING - pp.Opt(gt.INDEX))
    - gt.suppress_literal("}", "an original instruction or '}'")
).set_parse_action(lambda found: OriginalArray(*found))
_TREE = pp.Forward()
_TREE.set_name("a tree of original instructions")
_TREES: Final = pp.ZeroOrMore(_TREE + pp.Opt(gt.suppress_literal(",")))
_TREE <<= _ARRAY | (gt.suppress_literal("(") - _TREES - gt.suppress_literal(")")).set_parse_action(
    lambda found: OriginalTuple(tuple(found))
)
_SYNTHETIC: Final = gt.suppress_literal("[") - gt.word("synthetic_call").suppress() - gt.suppress_literal("]")
_HIERARCHY: Final = gt.suppress_literal(",") - gt.suppress_literal("[") - gt.STRING - gt.suppress_literal("]")


def _original_value(found: pp.ParseResults) -> OriginalValue:
    tree, *hierarchy = found
    return OriginalValue(None if hierarchy == [""] else tree, *hierarchy)


_ORIGIN: Final = (
    gt.suppress_literal("{")
    - (_SYNTHETIC.set_parse_action(lambda: [None]) | pp.Opt(_TREE, OriginalArray()) + pp.Opt(_HIERARCHY))
    - gt.suppress_literal("}", "a tree of original instructions")
).set_parse_action(_original_value)

_RECOVERY: Final = (
    _ARRAY - gt.suppress_literal(":") - _ARRAY + pp.Opt(gt.suppress_literal(",") - gt.STRING)
).set_parse_action(lambda found: Recovery(*found))
_RECOVERIES: Final = (gt.suppress_literal("{") - pp.ZeroOrMore(_RECOVERY) - gt.suppress_literal("}")).set_parse_action(
    lambda found: RecoveryTable(tuple(found))
)

_BOOL: Final = gt.symbol("(?:true|false)(?![A-Za-z0-9_.:=-])", "true or false").set_parse_action(
    lambda found: found[0] == "true"
)


def _field(name: str, value: pp.ParserElement) -> pp.ParserElement:
    return (gt.named(name) - value).set_parse_action(lambda found: [(name, found[0])])


_DEBUG_FIELD: Final = (
    _field("log_mode", gt.one_of(DebugLogMode))
    | _field("callback_id", gt.INT)
    | _field("partitioned", _BOOL)
    | _field("op_id", gt.INT)
)
_DEBUG: Final = (
    gt.suppress_literal("{")
    - pp.ZeroOrMore(pp.Opt(gt.suppress_literal(",")) + _DEBUG_FIELD)
    - gt.suppress_literal("}", "a debug attribute or '}'")
).set_parse_action(lambda found: DebugAttributes(**dict(list(found))))
_DEBUGGED: Final = (
    _ARRAY
    - gt.suppress_literal(":")
    - (gt.suppress_literal("(") - gt.listed(_DEBUG) - gt.suppress_literal(")") | _DEBUG)
).set_parse_action(lambda found: DebuggedArray(found[0], tuple(found[1:])))
_DEBUG_TABLE: Final = (gt.suppress_literal("{") - gt.listed(_DEBUGGED) - gt.suppress_literal("}")).set_parse_action(
    lambda found: [tuple(found)]
)

_DECIMAL: Final = gt.symbol(
    r"-?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+\-]?+[0-9]++)?+|-?+inf(?![A-Za-z0-9_.\-])", "a number"
).set_parse_action(lambda found: float(found[0]))
_STATISTIC: Final = (gt.ATTRIBUTE - _DECIMAL).set_parse_action(lambda found: Statistic(found[0], found[1]))
_STATISTICS: Final = (
    gt.suppress_literal("{")
    - pp.Opt(gt.ATTRIBUTE.copy().suppress() - gt.INT + pp.ZeroOrMore(gt.suppress_literal(",") - _STATISTIC))
    - gt.suppress_literal("}")
).set_parse_action(lambda found: StatisticsViz(found[0], tuple(found[1:])) if found else StatisticsViz(0, ()))


def _not_negative(text: str, at: int, found: pp.ParseResults) -> None:
    if not found[0] >= 0:
        raise gt.fail(text, at, "tolerance cannot be negative")


_AMOUNT: Final = _DECIMAL.copy().add_parse_action(_not_negative)
_TOLERANCE: Final = (
    gt.suppress_literal("{")
    - gt.listed(_field("atol", _AMOUNT) | _field("rtol", _AMOUNT) | _field("ulps", _AMOUNT))
    - gt.suppress_literal("}")
).set_parse_action(lambda found: Tolerance(**{name: int(n) if name == "ulps" else n for name, n in found}))
_ACCURACY: Final = (
    gt.suppress_literal("{")
    - (gt.named("mode") - gt.one_of(ResultAccuracyMode) | gt.named("tolerance") - _TOLERANCE)
    - gt.suppress_literal("}")
).set_parse_action(lambda found: ResultAccuracy(found[0]))

read_origin: Final[Callable[[Tokens], OriginalValue]] = gt.reader(_ORIGIN, "origin")
"""`{{"a" {0}}}`, `{({"a"}, {"b"}),["call"]}` or `{[synthetic_call]}`."""
read_recovery_table: Final[Callable[[Tokens], RecoveryTable]] = gt.reader(_RECOVERIES, "origin_recovery_table")
"""`{ {"old"} : {"new"}, "HloModule …" … }`."""
read_debug_attributes: Final[Callable[[Tokens], tuple[DebuggedArray, ...]]] = gt.reader(
    _DEBUG_TABLE, "debug_attributes"
)
"""`{ {"a" {0}}:({log_mode=default}, {op_id=3}) }`."""
read_statistics: Final[Callable[[Tokens], StatisticsViz]] = gt.reader(_STATISTICS, "statistics")
"""`{visualizing_index=0,name=1.5}`; the first number is the index, under any name."""
read_result_accuracy: Final[Callable[[Tokens], ResultAccuracy]] = gt.reader(_ACCURACY, "result_accuracy")
"""`{mode=highest}` or `{tolerance={atol=0.1,rtol=0.2,ulps=3}}`."""
