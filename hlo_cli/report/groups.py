"""Groups of findings: one for each cause, however many layers and rules report it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds
from hlo_cli.source import SEVERITIES, Severity

_Number = TypeVar("_Number", int, float)
_Value: TypeAlias = tuple[str, str]
"""The path of an input, and an array in it."""


@dataclass(frozen=True)
class Group:
    """Findings with one cause: `members` of one rule, the worst first, and `others` of other rules on their values.

    >>> from hlo_cli.report.finding import Cause
    >>> found = [Finding("note", "w is copied", cost_bytes=n, cause=Cause("copied")) for n in (1, 5, 3)]
    >>> [group] = groups_of(found)
    >>> group.message, group.cost_bytes, group.worst.cost_bytes
    ('3 × w is copied', 9, 5)
    """

    members: tuple[Finding, ...]
    others: tuple[Finding, ...] = ()

    @property
    def worst(self) -> Finding:
        """The member that costs most."""
        return self.members[0]

    @property
    def code(self) -> str:
        """The rule of the members."""
        return self.worst.code

    @property
    def severity(self) -> Severity:
        """The severity of the members, which is that of their rule."""
        return self.worst.severity

    @property
    def message(self) -> str:
        """The message of the worst member; for several, with their number and the name of the value in all layers."""
        if len(self.members) == 1:
            return self.worst.message
        return f"{len(self.members):,} × {self.general_message}"

    @property
    def named_message(self) -> str:
        """The message, preceded by the name of the worst instruction if it has no position in a text."""
        return self.worst.named_message if len(self.members) == 1 else self.message

    @property
    def general_message(self) -> str:
        """The most precise message that is true of all members, without the numbers of layers; then where they are.

        >>> from hlo_cli.report.finding import Cause
        >>> causes = [Cause("copied", "", f"{n} is copied", ("all are copied",), f"m.py:{n}") for n in (3, 4, 4, 9)]
        >>> Group(tuple(Finding("note", each.message, cause=each) for each in causes)).general_message
        'all are copied, at m.py:3 and 2 other lines'
        """
        message, cause = self.worst.message, self.worst.cause
        causes = [each.cause for each in self.members if each.cause is not None]
        if cause is None or all(each.message == message for each in self.members):
            return message
        levels = list(zip(*((each.message, *each.wider) for each in causes), strict=False))
        common = next((number for number, level in enumerate(levels) if len(set(level)) == 1), len(levels) - 1)
        general = levels[common][0]
        return f"{general}{_places([each.place for each in causes])}" if common else general

    @property
    def found(self) -> tuple[Finding, ...]:
        """All findings of the group."""
        return (*self.members, *self.others)

    @cached_property
    def cost_bytes(self) -> int | None:
        """The bytes that all members waste; of several rules on one value, those of the most expensive."""
        return _total(self.found, [each.cost_bytes for each in self.found])

    @cached_property
    def seconds(self) -> float | None:
        """How long moving these bytes takes."""
        return _total(self.found, [each.seconds for each in self.found])

    @cached_property
    def measured_seconds(self) -> float | None:
        """The measured time of the kernels of all findings, each counted once; None if none was measured."""
        kernels = {(each.measured.module, each.measured.name): each.measured for each in self.found if each.measured}
        return sum(each.seconds for each in kernels.values()) if kernels else None

    @property
    def is_at_least(self) -> bool:
        """Whether the cost is that of one iteration of a loop whose trip count is unknown."""
        return any(each.executions is None for each in self.found)

    @property
    def other_codes(self) -> tuple[str, ...]:
        """The other rules that report the same values."""
        return tuple(dict.fromkeys(each.code for each in self.others))

    @property
    def cost(self) -> str:
        """What the group costs, for people; empty if that is unknown or it has no cost.

        >>> Group((Finding("note", "", cost_bytes=2048, executions=None, seconds=2e-6),)).cost
        'at least 2 KiB, 2.0 µs'
        """
        parts = [format_bytes(self.cost_bytes)] if self.cost_bytes else []
        parts += [format_seconds(self.seconds)] if self.seconds else []
        return ("at least " if parts and self.is_at_least else "") + ", ".join(parts)

    @property
    def remark(self) -> str:
        """What one line about the group adds to the message: the total of several findings, and the other rules."""
        parts = [f"{self.cost} in total"] if self.cost and len(self.members) > 1 else []
        parts += [f"also {' and '.join(self.other_codes)}"] if self.others else []
        return "; ".join(parts)

    @property
    def rank(self) -> tuple[int, float, float, int]:
        """The order of groups: that of their findings, by total cost."""
        first, measured = self.worst.rank[0], -(self.measured_seconds or 0.0)
        if first != 2:
            return first, measured, 0.0, 0
        return first, measured, -(self.seconds or 0.0), -(self.cost_bytes or 0)


def groups_of(found: Iterable[Finding], *, in_place: bool = False) -> tuple[Group, ...]:
    """The groups of findings, errors first and then by cost; with `in_place`, in the order of their first findings.

    A finding on a value that a stronger rule reports too belongs to the group of the latter; rules are compared by
    severity and by what their findings on the value cost.

    >>> from hlo_cli.report.finding import Cause
    >>> copied, padded = Cause("w is copied", "w"), Cause("w is padded", "w")
    >>> found = [Finding("warning", "w is copied", code="HLO102", cost_bytes=8, cause=copied),
    ...          Finding("warning", "w is padded", code="HLO101", cost_bytes=6, cause=padded)]
    >>> [(group.code, group.other_codes, group.cost_bytes) for group in groups_of(found)]
    [('HLO102', ('HLO101',), 8)]
    """
    listed = list(found)
    strongest = _strongest(listed)
    members: dict[tuple[str, ...], list[Finding]] = {}
    others: list[Finding] = []
    homes: dict[_Value, tuple[str, ...]] = {}
    for number, each in enumerate(listed):
        value = _value(each)
        if value is not None and strongest.get(value, each.code) != each.code:
            others.append(each)
            continue
        cause = each.cause
        key = (str(number),) if cause is None else (each.path, each.code, cause.pattern)
        members.setdefault(key, []).append(each)
        if value is not None:
            homes.setdefault(value, key)
    folded: dict[tuple[str, ...], list[Finding]] = {}
    for each in others:
        value = _value(each)
        assert value is not None
        folded.setdefault(homes[value], []).append(each)
    groups = [
        Group(tuple(sorted(each, key=_rank)), tuple(sorted(folded.get(key, ()), key=_rank)))
        for key, each in members.items()
    ]
    return tuple(groups if in_place else sorted(groups, key=lambda group: group.rank))


def _places(places: Iterable[str]) -> str:
    """Where findings are: the first place and the number of others; empty if unknown."""
    first, *others = tuple(dict.fromkeys(filter(None, places))) or ("",)
    if not first:
        return ""
    is_line = all(each.rpartition(":")[2].isdecimal() for each in (first, *others))
    more = f" and {format_count(len(others), 'other lines' if is_line else 'other places')}" if others else ""
    return f", at {first}{more}"


def _value(each: Finding) -> _Value | None:
    """The array that a finding is about, if other rules may report it."""
    return (each.path, each.cause.value) if each.cause is not None and each.cause.value else None


def _strongest(found: Iterable[Finding]) -> Mapping[_Value, str]:
    """For each array that several rules report, the rule that leads: by severity, then by what its findings cost."""
    by_value: dict[_Value, dict[str, list[Finding]]] = {}
    for each in found:
        if (value := _value(each)) is not None:
            by_value.setdefault(value, {}).setdefault(each.code, []).append(each)
    return {
        value: min(by_code, key=lambda code: _strength(by_code[code]))
        for value, by_code in by_value.items()
        if len(by_code) > 1
    }


def _strength(found: Sequence[Finding]) -> tuple[int, float, int, str]:
    seconds, size = sum(each.seconds or 0.0 for each in found), sum(each.cost_bytes or 0 for each in found)
    return (SEVERITIES.index(found[0].severity), -seconds, -size, found[0].code)


def _rank(each: Finding) -> tuple[int, float, float, int]:
    return each.rank


def _total(found: Sequence[Finding], costs: Sequence[_Number | None]) -> _Number | None:
    """The sum of costs, with those of several rules on one array counted once; None if no cost is known."""
    by_value: dict[object, dict[str, _Number]] = {}
    for number, (each, cost) in enumerate(zip(found, costs, strict=True)):
        if cost is not None:
            by_code = by_value.setdefault(_value(each) or number, {})
            by_code[each.code] = by_code[each.code] + cost if each.code in by_code else cost
    largest = [max(by_code.values()) for by_code in by_value.values()]
    return sum(largest[1:], start=largest[0]) if largest else None
