"""The catalog of all rules, and their selection."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Final

from hlo_cli.lint.registry import Rule
from hlo_cli.lint.settings import LintSettings
from hlo_cli.source import HloError

FAMILIES: Final = (
    "hlo_cli.lint.rules.parse_errors",
    "hlo_cli.lint.rules.shapes",
    "hlo_cli.lint.rules.layouts",
    "hlo_cli.lint.rules.computations",
    "hlo_cli.lint.rules.fusions",
    "hlo_cli.lint.rules.buffers",
    "hlo_cli.lint.rules.collectives",
    "hlo_cli.lint.rules.asynchronous",
    "hlo_cli.lint.rules.entry",
    "hlo_cli.lint.rules.shardings",
    "hlo_cli.lint.rules.mesh_axes",
    "hlo_cli.lint.rules.unscheduled_layouts",
    "hlo_cli.lint.rules.padding",
    "hlo_cli.lint.rules.data_movement",
    "hlo_cli.lint.rules.memory",
    "hlo_cli.lint.rules.memory_reuse",
    "hlo_cli.lint.rules.fusion_opportunities",
    "hlo_cli.lint.rules.overlap",
    "hlo_cli.lint.rules.collective_traffic",
    "hlo_cli.lint.rules.resharding",
    "hlo_cli.lint.rules.collective_combining",
    "hlo_cli.lint.rules.placement",
    "hlo_cli.lint.rules.numerics",
    "hlo_cli.lint.rules.expectations",
)
"""The modules with rules; a module added here is included everywhere."""

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (
            each
            for family in dict.fromkeys(FAMILIES)
            for each in vars(import_module(family)).values()
            if isinstance(each, Rule)
        ),
        key=lambda rule: rule.code,
    )
)
"""All rules, sorted by code."""

_LISTED: Final = 6
"""The most rules of a group that an error lists."""
ALL_RULES: Final = "ALL"


def rule_of(code: str) -> Rule:
    """The rule with this code; HloError if there is none.

    >>> rule_of("HLO101").name
    'mostly padding'
    """
    for rule in RULES:
        if rule.code == code.upper():
            return rule
    raise _unknown_rule(code)


def selected_rules(settings: LintSettings) -> tuple[Rule, ...]:
    """The rules that run: a prefix selects rules that are on by default, a full code also others, and ALL every rule.

    `strict` alone selects the rule that reads the text again.

    >>> [rule.code for rule in selected_rules(LintSettings(select=("HLO10",), ignore=("HLO102", "HLO103")))]
    ['HLO101', 'HLO104', 'HLO105', 'HLO106']
    """
    return _selected(settings.select, settings.ignore, tuple(settings.severity), settings.strict)


@lru_cache(maxsize=16)
def _selected(
    select: tuple[str, ...], ignore: tuple[str, ...], with_severity: tuple[str, ...], is_strict: bool
) -> tuple[Rule, ...]:
    select, ignore = _checked(select) or ("HLO",), _checked(ignore)
    _checked(with_severity)
    selected = [rule for rule in RULES if _matches(rule, select) or (rule.reads_again and is_strict)]
    return tuple(rule for rule in selected if not any(rule.code.startswith(prefix) for prefix in ignore))


def _matches(rule: Rule, select: Iterable[str]) -> bool:
    for prefix in select:
        if prefix == rule.code or (prefix == ALL_RULES and not rule.reads_again):
            return True
        if rule.is_default and rule.code.startswith(prefix):
            return True
    return False


def _checked(codes: Iterable[str]) -> tuple[str, ...]:
    given = tuple(code.upper() for code in codes)
    for code in given:
        if code != ALL_RULES and not any(rule.code.startswith(code) for rule in RULES):
            raise _unknown_rule(code)
    return given


def _unknown_rule(code: str) -> HloError:
    group = [rule.code for rule in RULES if code and rule.code.startswith(code.upper())]
    if group:
        listed = ", ".join(group[:_LISTED]) + (", …" if len(group) > _LISTED else "")
        hint = f"its rules are {listed}; run `hlo lint --explain {group[0]}`"
        return HloError(f"'{code}' is a group of {len(group)} rules, not a rule", hint=hint)
    return HloError(f"unknown rule '{code}'", hint="run `hlo lint --list-rules` to list all rules")
