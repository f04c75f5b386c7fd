"""`hlo diff` of dumps that end too early: only what both texts have is compared, and no cause is reported."""

from __future__ import annotations

from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.report.numbers import format_count


def truncated_sides(comparison: ModuleDiff) -> tuple[str, ...]:
    """The sides whose text is truncated: OLD, NEW, or both."""
    sides = (("OLD", comparison.before), ("NEW", comparison.after))
    return tuple(name for name, module in sides if module.is_truncated)


def answer_of_parts(comparison: ModuleDiff, *, checks_conditions: bool = False) -> str:
    """Which side is truncated, and what differs in the part that both have; empty if both modules are whole.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> text = "HloModule m\\n\\nENTRY e {\\n  p = s8[2] parameter(0)\\n  ROOT n = s8[2] not(p)\\n}\\n"
    >>> answer_of_parts(diff(parse_module(text), parse_module(text[: text.index("  ROOT")])))
    'NEW is truncated; no differences in the 1 instruction that both have'
    """
    sides = truncated_sides(comparison)
    if not sides:
        return ""
    start = f"{' and '.join(sides)} {'are' if len(sides) > 1 else 'is'} truncated"
    if checks_conditions:
        return f"{start}; conditions cannot be checked"
    parts = {"added": len(comparison.added), "removed": len(comparison.removed)}
    both = format_count(comparison.matched, "instructions")
    changed = f"{len(comparison.changed):,} changed" if comparison.changed else "no differences"
    more = "".join(f"; {number:,} {word}" for word, number in parts.items() if number)
    return f"{start}; {changed} in the {both} that both have{more}"
