"""What did the lint rules find: one finding, those with one cause, and all of them as a part of a report?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from functools import cached_property
from typing import ClassVar, Final, Literal, TypeAlias, TypeVar

from hlo_cli.dataclass import dataclass, text_in_brackets
from hlo_cli.displayed import Displayed
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds
from hlo_cli.report.table import UNKNOWN, Column, Subject, Table, rows_from, rows_from_tuples
from hlo_cli.source import SEVERITIES, Diagnostic, Severity

# --- one finding ---
# The diagnostic of a rule at one place of a module, made by rules and read by all renderers.


_LENGTH: Final = 16
"""Characters of a fingerprint."""
COUNT: Final = "{count}"
"""Where the number of findings belongs in a message about several."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What a finding shares with others: those of the same `pattern` have one cause, such as a copy in each layer.

    `value` identifies the array that several rules may report, empty if there is none. `message` is that of the
    finding without the numbers of layers; `wider` are those for findings with different messages, the last one for all
    of the pattern, and `repeated` is for findings with equal messages: each has `COUNT` where the number of findings
    belongs. `place` is the line or the argument, if these do not name it.
    """

    pattern: str
    value: str = ""
    message: str = ""
    wider: tuple[str, ...] = ()
    place: str = ""
    repeated: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """The kernel in a profile that a finding is about: its module, its name, and its seconds per step or run."""

    module: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Finding(Diagnostic, Displayed):
    """A diagnostic of a rule, with facts about its instruction or computation.

    Names and metadata are read once, when a rule makes it: with an excerpt of its text, it outlives the module and can
    be sent to another process. `structure` is the identity that does not change when instructions are renamed,
    renumbered, or moved; `expectation` is the team's assertion that failed, if any; `nth` counts findings with the
    same fingerprint.

    `cost_bytes` are the bytes that it wastes in all `executions` of the instruction, None for a finding that is not
    about efficiency; `executions` is None if a trip count is unknown: then that loop counts as one iteration. `seconds`
    is how long moving them takes; with `is_held`, they only occupy memory, and with `is_on_chip`, none crosses a link.
    With `is_conditional`, the change that saves them is possible only if its hint's condition holds.
    `scope` and `argument` are where the value comes from; `location` is inferred from other instructions if
    `is_inferred`, and `line` is the text there, if the file is at hand. `key` is what `--by` sums up: the key for all
    layers and for this one, and whether it is inferred.
    `measured` is the kernel that runs the instruction, if a profile was given. `share` is the part of its module in the
    work of all that were checked; `is_of_library` tells that the user's program cannot change it: it is in a helper
    module, or inside of a function of a library, such as the loops of `jax.random.normal`.

    >>> finding = Finding("error", "no done found for s", code="HLO060", instruction="s", computation="e")
    >>> finding.name, finding.where
    ('e/s', '-:e/s')
    """

    _: KW_ONLY
    op_name: str | None = None
    location: str | None = None
    expectation: str | None = None
    structure: str = ""
    nth: int = 1
    cost_bytes: int | None = None
    executions: int | None = 1
    seconds: float | None = None
    cause: Cause | None = None
    scope: str = ""
    argument: str = ""
    key: tuple[str, str, bool] | None = None
    is_inferred: bool = False
    measured: MeasuredKernel | None = None
    line: str = ""
    share: float = 1.0
    is_of_library: bool = False
    is_held: bool = False
    is_on_chip: bool = False
    is_conditional: bool = False

    def __repr__(self) -> str:
        where = self.name or self.where
        return text_in_brackets(self, self.code, f"{where}: {self.severity}: {self.message}")

    @property
    def fails(self) -> bool:
        """Whether it fails a check: an error does, and a warning that the user's program can do something about."""
        return self.severity == "error" or (self.severity == "warning" and not self.is_of_library)

    @property
    def path(self) -> str:
        """The file as the user named it."""
        return self.source.name if self.source is not None and self.source.name else "-"

    @property
    def where(self) -> str:
        """The position as `file:line:column`, or the name if there is no text, such as for a proto."""
        place = self.position
        if place is not None:
            return f"{self.path}:{place.line}:{place.column}"
        return f"{self.path}:{self.name}" if self.name else self.path

    @property
    def named_message(self) -> str:
        """The message, preceded by the name of the instruction if there is no position in a text."""
        return f"{self.name}: {self.message}" if self.name and self.position is None else self.message

    @property
    def rank(self) -> Rank:
        """Its place in the order of findings.

        >>> large, small = Finding("note", "", cost_bytes=8), Finding("warning", "", cost_bytes=7)
        >>> other, internal = Finding("note", ""), Finding("warning", "", cost_bytes=9, is_of_library=True)
        >>> large.rank < small.rank < other.rank < internal.rank
        True
        """
        measured = self.measured.seconds if self.measured is not None else None
        return rank_of(self, self.cost_bytes, self.seconds, measured, is_of_library=self.is_of_library)

    @property
    def fingerprint(self) -> str:
        """A hash of the rule and the structure, the same for text and proto of a module."""
        from hashlib import sha256  # loads all of OpenSSL, which a clean module does not need

        known = f"{self.code}\n{self.structure}"
        return sha256(known.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]

    @property
    def identity(self) -> str:
        """The fingerprint, with a number if it is not the first of its kind."""
        return self.fingerprint if self.nth == 1 else f"{self.fingerprint}:{self.nth}"


# --- the order of findings ---


Rank: TypeAlias = tuple[int, float, float, float]
"""The kind of a finding, and its cost in measured seconds, estimated seconds, and bytes, as negative numbers."""
_CORRECTNESS: Final[Mapping[Severity, int]] = {"error": 0, "warning": 1, "note": 3}
"""Kinds of findings without a cost: a wrong program comes before a slow one, and a remark on its form after it."""
_COST: Final = 2
"""Kind of findings with a cost: what is slow is worth a change, a remark on the form of a program hardly."""
_CONDITIONAL: Final = 3
"""Kind of a cost that a change saves only under a condition, which the dump does not show: after what is certain."""
_OF_LIBRARY: Final = 4
"""Kind of what the user's program cannot change, so that it never stands before what it can."""


# Main memory of accelerators has 0.8 (v5e) to 8 TB/s (B200): one value orders findings without a chip by bytes, and
# puts 46.9 GiB that are held before a copy of 17.6 MiB. Chosen.
_NOMINAL_BANDWIDTH: Final = 1e12
"""Bytes per second, to order findings without a time."""
# A TPU reads VMEM about 22 times as fast as HBM: `TPU_VMEM_RATE` of the time model, which this room cannot import.
_NOMINAL_VMEM_BANDWIDTH: Final = 22e12
"""The same of bytes in on-chip memory."""


def rank_of(
    worst: Finding,
    cost_bytes: int | None,
    seconds: float | None,
    measured: float | None,
    *,
    is_of_library: bool,
) -> Rank:
    """The rank of findings with one cause, of which one is the `worst`: what a user should change first has the lowest.

    Errors come first, then warnings about correctness, then what costs most, then other notes, and last what only a
    library could change. A cost is that of all executions in one run of the module, times the share of the module in
    the work of all: a step that takes most of the time runs more often than what initializes it.

    >>> step, init = Finding("note", "", cost_bytes=8, share=0.9), Finding("note", "", cost_bytes=40, share=0.1)
    >>> step.rank < init.rank
    True
    """
    spent = -(measured or 0.0)
    if worst.severity == "error":
        return _CORRECTNESS["error"], spent, 0.0, 0.0
    spent_there = worth_seconds(cost_bytes, seconds, is_on_chip=worst.is_on_chip)
    weight = (-spent_there * worst.share, -(cost_bytes or 0) * worst.share)
    if is_of_library:
        return _OF_LIBRARY, spent, *weight
    # A group with a cost of its own has one cost for all of its members.
    if worst.cost_bytes is None:
        return _CORRECTNESS[worst.severity], spent, 0.0, 0.0
    return (_CONDITIONAL if worst.is_conditional else _COST), spent, *weight


def worth_seconds(cost_bytes: int | None, seconds: float | None, *, is_on_chip: bool = False) -> float:
    """What a cost is ranked by: its time, or that of writing its bytes once at a nominal rate if no time is known.

    So times are compared with bytes that only occupy memory.

    >>> worth_seconds(4, 2e-6), worth_seconds(0, None), worth_seconds(1 << 20, None) < worth_seconds(1 << 30, None)
    (2e-06, 0.0, True)
    """
    bandwidth = _NOMINAL_VMEM_BANDWIDTH if is_on_chip else _NOMINAL_BANDWIDTH
    return (cost_bytes or 0) / bandwidth if seconds is None else seconds


# --- groups with one cause ---
# One for each cause, however many layers and rules report it.


_Number = TypeVar("_Number", int, float)
_Value: TypeAlias = tuple[str, str]
"""The path of an input, and an array in it."""


@dataclass(frozen=True)
class Group:
    """Findings with one cause: `members` of one rule, the worst first, and `others` of other rules on their values.

    >>> from hlo_cli.report.findings import Cause
    >>> found = [Finding("note", "w is copied", cost_bytes=n, cause=Cause("copied")) for n in (1, 5, 3)]
    >>> [group] = groups_of(found)
    >>> group.message, group.cost_bytes, group.worst.cost_bytes
    ('w is copied, 3 times', 9, 5)
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
        """The message of the worst member; for several, the most precise one that is true of all, with their number.

        It has no numbers of layers, and ends with the places if it does not name them.

        >>> from hlo_cli.report.findings import Cause
        >>> causes = [Cause("", "", f"{n} is copied", (f"{COUNT} are copied",), f"m.py:{n}") for n in (3, 4, 4, 9)]
        >>> Group(tuple(Finding("note", each.message, cause=each) for each in causes)).message
        '4 are copied, at m.py:3 and 2 other lines'
        >>> causes = [Cause("", "", f"{n} is copied", (f"{COUNT} are copied at m.py:3",), "m.py:3") for n in (3, 4)]
        >>> Group(tuple(Finding("note", each.message, cause=each) for each in causes)).message
        '2 are copied at m.py:3'
        """
        members, message, cause = self.members, self.worst.message, self.worst.cause
        if len(members) == 1:
            return message
        if all(each.message == message for each in members):
            return _repeated(cause.repeated if cause is not None else "", message, len(members))
        causes = [each.cause for each in members if each.cause is not None]
        levels = list(zip(*((each.message, *each.wider) for each in causes), strict=False))
        common = next((number for number, level in enumerate(levels) if len(set(level)) == 1), len(levels) - 1)
        if not levels:
            return _repeated("", message, len(members))
        general = levels[common][0]
        if not common:  # the same in several layers
            words = cause.repeated if cause is not None else ""
            return _repeated(words, "", len(members)) if words else f"{general} ({len(members):,} of these)"
        words, places = general.replace(COUNT, f"{len(members):,}"), {each.place for each in causes}
        # a message that all share may name their only line
        is_told = len(places) == 1 and f"at {next(iter(places))}" in words
        return words if is_told else f"{words}{_places([each.place for each in causes])}"

    @property
    def named_message(self) -> str:
        """The message, preceded by the name of the worst instruction if it has no position in a text."""
        return self.worst.named_message if len(self.members) == 1 else self.message

    @property
    def found(self) -> tuple[Finding, ...]:
        """All findings of the group."""
        return (*self.members, *self.others)

    @cached_property
    def cost_bytes(self) -> int | None:
        """The bytes that all members waste.

        Other rules may count more bytes of the same values, which are theirs: an all-reduce wastes its second half if
        its result is sliced, but all of it is exposed if it is synchronous.

        >>> half, whole = (Finding("note", "", code=code, cost_bytes=size) for code, size in (("A", 1024), ("B", 2048)))
        >>> group = Group((half,), (whole,))
        >>> group.cost, group.remark
        ('1 KiB', 'also B (2 KiB)')
        """
        return _total(each.cost_bytes for each in self.members)

    @cached_property
    def seconds(self) -> float | None:
        """How long moving these bytes takes."""
        return _total(each.seconds for each in self.members)

    @cached_property
    def measured_seconds(self) -> float | None:
        """The measured time of the kernels of all findings, each counted once; None if none was measured."""
        kernels = {(each.measured.module, each.measured.name): each.measured for each in self.found if each.measured}
        return sum(each.seconds for each in kernels.values()) if kernels else None

    @property
    def is_held(self) -> bool:
        """Whether the bytes only occupy memory."""
        return all(each.is_held for each in self.members if each.cost_bytes)

    @property
    def is_at_least(self) -> bool:
        """Whether the cost is that of one iteration of a loop whose trip count is unknown."""
        return any(each.executions is None for each in self.members)

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
    def cost_time(self) -> str:
        """When the bytes are occupied, to follow the cost: values that are not live at the peak have no cost.

        >>> Group(tuple(Finding("note", "", cost_bytes=size, is_held=True) for size in (2048, 0))).remark
        '2 KiB at the peak'
        """
        costs = [each.cost_bytes for each in self.members]
        return " at the peak" if self.is_held and any(costs) and 0 in costs else ""

    @property
    def remark(self) -> str:
        """What one line about the group adds to the message: the total of several findings, and the other rules."""
        parts = [f"{self.cost}{self.cost_time or ' in total'}"] if self.cost and len(self.members) > 1 else []
        others = [f"{code} ({cost})" if (cost := self.larger_cost_of(code)) else code for code in self.other_codes]
        parts += [f"also {' and '.join(others)}"] if others else []
        return "; ".join(parts)

    def larger_cost_of(self, code: str) -> str:
        """What another rule on the same values costs, for people, if that is more than the cost of the group."""
        other = Group(tuple(each for each in self.others if each.code == code))
        return other.cost if (other.cost_bytes or 0) > (self.cost_bytes or 0) else ""

    @cached_property
    def is_of_library(self) -> bool:
        """Whether a library would have to change for all members; never of errors, which are wrong everywhere."""
        return self.severity != "error" and all(each.is_of_library for each in self.members)

    @property
    def fails(self) -> bool:
        """Whether one of its findings fails a check."""
        return any(each.fails for each in self.members)

    @cached_property
    def rank(self) -> Rank:
        """Its place in the order of groups: that of their findings, by total cost."""
        return rank_of(
            self.worst, self.cost_bytes, self.seconds, self.measured_seconds, is_of_library=self.is_of_library
        )


def groups_of(found: Iterable[Finding], *, in_place: bool = False) -> tuple[Group, ...]:
    """The groups of findings, errors first and then by cost; with `in_place`, in the order of their first findings.

    A finding on a value that a stronger rule reports too belongs to the group of the latter; rules are compared by
    severity and by what their findings on the value cost.

    >>> from hlo_cli.report.findings import Cause
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


def _repeated(words: str, message: str, count: int) -> str:
    """The message of equal findings: words with `COUNT`, else the message of each and how often it is found.

    >>> _repeated("", "w is copied", 2), _repeated(f"{COUNT} kernels copy w", "a kernel copies w", 1200)
    ('w is copied, twice', '1,200 kernels copy w')
    >>> _repeated("", "w is copied needlessly", 2)
    'w is copied needlessly, twice'
    """
    if words:
        return words.replace(COUNT, f"{count:,}")
    times = "twice" if count == 2 else f"{count:,} times"
    for reason in _REASONS:
        if (head := message.removesuffix(reason)) != message:
            return f"{head} {times}{reason}"
    return f"{message}, {times}"


# Ends of messages, before which a number reads better.
_REASONS: Final = (" because it is not donated",)


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


def _rank(each: Finding) -> Rank:
    return each.rank


def _total(costs: Iterable[_Number | None]) -> _Number | None:
    """The sum of costs; None if no cost is known."""
    first, *others = [cost for cost in costs if cost is not None] or (None,)
    return None if first is None else sum(filter(None, others), start=first)


# --- all findings ---
# A part of a report, with the rules and the inputs that were checked.


_NAMED: Final = 3
"""The number of rules that a summary names."""
LIBRARIES: Final = "helper modules and libraries"
"""Where findings are that no line of the user's program can change."""
_COLUMNS: Final[tuple[Column[Finding], ...]] = (
    Column("code", "rule", of=lambda each: each.code),
    Column("severity", "severity", rank=3, of=lambda each: each.severity),
    Column("path", "path", "source", of=lambda each: each.path),
    Column("line", "line", "line", of=lambda each: each.position.line if each.position else None),
    Column("column", "column", "line", rank=1, of=lambda each: each.position.column if each.position else None),
    Column("end_line", "end line", "line", person=False, of=lambda each: _end_of(each, "line")),
    Column("end_column", "end column", "line", person=False, of=lambda each: _end_of(each, "column")),
    Column("message", "message", of=lambda each: each.message),
    Column("hint", "help", person=False, of=lambda each: each.hint),
    Column("instruction", "instruction", "name", person=False, of=lambda each: each.instruction),
    Column("computation", "computation", "name", person=False, of=lambda each: each.computation),
    Column("op_name", "op_name", "op_name", person=False, of=lambda each: each.op_name),
    Column("source", "source", "source", from_width=200, of=lambda each: each.location),
    Column("source_line", "source line", "text", person=False, of=lambda each: each.line or None),
    Column("cost_bytes", "cost", "bytes", rank=2, of=lambda each: each.cost_bytes),
    Column("executions", "runs", "count", person=False,
           of=lambda each: (
               UNKNOWN if each.executions is None else each.executions
               if each.cost_bytes is not None else None)),
    Column("seconds", "est. time", "seconds", person=False, of=lambda each: each.seconds),
    Column("measured_seconds", "measured", "seconds", person=False, machine=False,
           of=lambda each: None if each.measured is None else each.measured.seconds),
    Column("kernel", "kernel", "name", person=False, machine=False,
           of=lambda each: None if each.measured is None else each.measured.name),
    Column("scope", "scope", "op_name", person=False, of=lambda each: each.scope or None),
    Column("argument", "argument", "op_name", person=False, of=lambda each: each.argument or None),
    Column("inferred", "inferred", person=False, of=lambda each: each.is_inferred),
    Column("of_library", "of library", person=False, of=lambda each: each.is_of_library),
    Column("fingerprint", "fingerprint", person=False, of=lambda each: each.identity),
)  # fmt: skip


_GROUP_COLUMNS: Final[tuple[Column[int, Group], ...]] = (
    Column("group", "group", "count", person=False, of=lambda number, group: number),
    Column("cost_bytes", "cost", "bytes", of=lambda number, group: group.cost_bytes),
    Column("seconds", "est. time", "seconds", rank=2, person=False, of=lambda number, group: group.seconds),
    Column("measured_seconds", "measured", "seconds", person=False, machine=False,
           of=lambda number, group: group.measured_seconds),
    Column("count", "count", "count", of=lambda number, group: len(group.members)),
    Column("code", "rule", of=lambda number, group: group.code),
    Column("severity", "severity", rank=3, of=lambda number, group: group.severity),
    Column("message", "message", of=lambda number, group: group.message),
    Column("hint", "help", person=False, of=lambda number, group: group.worst.hint),
    Column("path", "path", "source", rank=1, of=lambda number, group: group.worst.path),
    Column("line", "line", "line", rank=1,
           of=lambda number, group: group.worst.position.line if group.worst.position else None),
    Column("instruction", "instruction", "name", person=False, of=lambda number, group: group.worst.instruction),
    Column("computation", "computation", "name", person=False, of=lambda number, group: group.worst.computation),
    Column("scope", "scope", "op_name", person=False, of=lambda number, group: group.worst.scope or None),
    Column("argument", "argument", "op_name", person=False, of=lambda number, group: group.worst.argument or None),
    Column("source", "source", "source", from_width=200, of=lambda number, group: group.worst.location),
    Column("source_line", "source line", "text", person=False, of=lambda number, group: group.worst.line or None),
    Column("of_library", "of library", person=False, of=lambda number, group: group.is_of_library),
    Column("at_least", "at least", person=False, of=lambda number, group: group.is_at_least),
    Column("other_rules", "other rules", from_width=120, of=lambda number, group: ", ".join(group.other_codes) or None),
    Column("instructions", "instructions", person=False,
           of=lambda number, group: tuple(each.instruction for each in group.found)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RuleWords:
    """The texts of a rule for all formats: a short name, a summary, the reason, and a fix."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str = ""
    fix: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """An assertion without a finding: passed, or not checked for the given reason."""

    assertion: str
    path: str
    has_passed: bool
    reason: str = ""


@dataclass(frozen=True)
class Findings:
    """All findings in the order in which they are reported, their rules, and the checked inputs.

    With `in_place`, groups are in the order of the text too, and not in that of their cost. `checks` are the assertions
    without findings. `measured_per` says what measured times are of, such as `per step`; empty without a profile.

    >>> found = Finding("warning", "97% is padding", code="HLO101")
    >>> findings = Findings("findings", (found,), (RuleWords("HLO101", "mostly padding", "warning", "…"),))
    >>> findings.as_table().rows[0][:2], findings.summary
    (('HLO101', 'warning'), 'Found 1 warning: 1 × HLO101 mostly padding')
    """

    kind: ClassVar[Literal["findings"]] = "findings"
    name: str
    found: tuple[Finding, ...]
    rules: tuple[RuleWords, ...]
    paths: tuple[str, ...] = ()
    title: str = ""
    checks: tuple[Check, ...] = ()
    in_place: bool = False
    measured_per: str = ""

    def first(self, most: int | None) -> tuple[Finding, ...]:
        """The first `most` findings; all of them for 0 and None.

        >>> len(Findings("findings", (Finding("note", ""),) * 3, ()).first(2))
        2
        """
        return self.found[:most] if most else self.found

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The findings by cause."""
        return groups_of(self.found, in_place=self.in_place)

    @cached_property
    def cost_bytes(self) -> int:
        """The bytes that all groups waste."""
        return sum(group.cost_bytes or 0 for group in self.groups)

    @cached_property
    def own_groups(self) -> tuple[Group, ...]:
        """The groups that the user's program can change; all groups if there are no others and one input."""
        own = tuple(group for group in self.groups if not group.is_of_library)
        return own if own or len(self.paths) > 1 else self.groups

    @property
    def library_groups(self) -> tuple[Group, ...]:
        """The groups in helper modules and inside of functions of libraries, which are last in the order by cost."""
        own = set(map(id, self.own_groups))
        return tuple(group for group in self.groups if id(group) not in own)

    def share(self, groups: Iterable[Group]) -> float | None:
        """The share of groups in the cost of all that the user can change: in time if that is known, else in bytes.

        None without costs, for groups of libraries, which have no part in it, and for groups whose costs are of
        another kind than those of others: bytes that only occupy memory have no share of a time, and are not to be
        added to bytes that are moved. Bytes that are moved without taking time have no share of it, either.

        >>> moved = Finding("note", "a", cost_bytes=4, seconds=1e-6)
        >>> held = Finding("note", "b", cost_bytes=1 << 34, is_held=True)
        >>> findings = Findings("findings", (moved, held), ())
        >>> [findings.share((group,)) for group in findings.groups], findings.share(findings.groups)
        ([None, 1.0], 1.0)
        >>> findings = Findings("findings", (replace(moved, seconds=None), held), ())
        >>> [findings.share((group,)) for group in findings.groups]
        [None, None]
        """
        listed, own = tuple(groups), [group for group in self.own_groups if group.cost_bytes]
        if any(group.is_of_library for group in listed) and not all(group.is_of_library for group in own):
            return None
        if any(group.seconds is not None for group in own):
            whole = sum(group.seconds or 0.0 for group in own)
            part = sum(group.seconds or 0.0 for group in listed)
            return part / whole if part or not any(group.cost_bytes for group in listed) else None
        if len({group.is_held for group in own}) != 1:
            return None
        size = sum(group.cost_bytes or 0 for group in own)
        return sum(group.cost_bytes or 0 for group in listed) / size

    @property
    def summary(self) -> str:
        """The number of findings of each severity, and what the rules that cost most found; those of libraries last.

        >>> found = (Finding("warning", "", code="HLO204"), Finding("note", "", code="HLO103", is_of_library=True))
        >>> Findings("findings", found, (), ("a", "b")).summary
        'Found 1 warning: 1 × HLO204; 1 more in helper modules and libraries'
        """
        if not self.found:
            return ""
        own = [each for group in self.own_groups for each in group.found]
        others = len(self.found) - len(own)
        if not own:
            return f"Found nothing to change in the program, and {_severities(self.found)} in {LIBRARIES}"
        total = _severities(own)
        if len(self.own_groups) < len(own):
            total += f" in {format_count(len(self.own_groups), 'groups')}"
        rules = [_rule_words(each) for each in self._totals_of(own, self.own_groups)]
        more = len(rules) - _NAMED
        if more > 1:
            rules[_NAMED:] = [f"{more} more rules"]
        return f"Found {total}: {', '.join(rules)}" + (f"; {others:,} more in {LIBRARIES}" if others else "")

    def as_table(self) -> Table:
        """One row for each finding; people see the name columns if a finding has no position in a text."""
        has_places = all(each.position is not None or not each.name for each in self.found)
        columns = self._with_measured(_COLUMNS if has_places else tuple(map(_with_names, _COLUMNS)))
        numbers = {id(each): number for number, group in enumerate(self.groups, 1) for each in group.found}
        number = Column("group", "group", "count", person=False, of=lambda each: numbers[id(each)])
        columns = (*columns, number)
        return Table(self.name, columns, rows_from(columns, self.found), noun="findings")

    @property
    def folded_words(self) -> str:
        """The number of groups that only libraries can change and what they cost; empty if there are none.

        >>> own, internal = Finding("note", "a"), Finding("note", "b", is_of_library=True, cost_bytes=4096)
        >>> Findings("findings", (own, internal), ()).folded_words
        '1 group in helper modules and libraries: 4 KiB'
        """
        if not self.library_groups:
            return ""
        size = sum(group.cost_bytes or 0 for group in self.library_groups)
        cost = f": {format_bytes(size)}" if size else ""
        return f"{format_count(len(self.library_groups), 'groups')} in {LIBRARIES}{cost}"

    def groups_table(self, *, person: bool, among: Sequence[Group] | None = None) -> Table:
        """One row for each group, with the place of its worst finding; `among` are those that are shown, if not all."""
        has_places = all(each.position is not None or not each.name for each in self.found)
        columns = self._with_measured(_GROUP_COLUMNS if has_places else tuple(map(_with_names, _GROUP_COLUMNS)))
        if any(each.seconds is not None for each in self.found):
            columns = tuple(replace(each, person=True) if each.name == "seconds" else each for each in columns)
        if person:
            columns = tuple(map(self._for_reading, columns))
        listed = self.groups if among is None else among
        rows = rows_from_tuples(columns, enumerate(listed, 1))
        return Table("groups", columns, rows, noun="groups", person=person, main=person)

    def _for_reading(self, column: Column[int, Group]) -> Column[int, Group]:
        """A column as documents and pages have it: with what to do, by default the fix of the rule."""
        fixes = {rule.code: rule.fix for rule in self.rules}
        match column.name:
            case "hint":

                def fix_of(_number: int, group: Group) -> str | None:
                    return group.worst.hint or fixes.get(group.code) or None

                return replace(column, title="fix", person=True, of=fix_of)
            case "path":
                return replace(column, person=len({each.path for each in self.found}) > 1)
        return column

    def _with_measured(self, columns: tuple[Column[*Subject], ...]) -> tuple[Column[*Subject], ...]:
        """The columns with those of measured times, if there is a profile."""
        if not self.measured_per:
            return columns
        names = ("measured_seconds", "kernel")
        return tuple(
            replace(each, person=each.unit == "seconds", machine=True) if each.name in names else each
            for each in columns
        )

    def statistics(self) -> Table:
        """One row for each rule with findings: errors first, then the rules whose findings cost most."""

        columns = (
            Column("code", "rule", of=lambda rule: rule.code),
            Column("severity", "severity", of=lambda rule: rule.severity),
            Column("groups", "groups", "count", total="sum", of=lambda rule: rule.groups),
            Column("count", "count", "count", total="sum", of=lambda rule: rule.count),
            Column("cost_bytes", "cost", "bytes", of=lambda rule: rule.cost_bytes),
            Column("seconds", "est. time", "seconds", person=any(each.seconds is not None for each in self._totals),
                   of=lambda rule: rule.seconds),
            Column("name", "name", of=lambda rule: rule.name),
        )  # fmt: skip
        rows = rows_from(columns, self._totals)
        return Table("rules", columns, rows, noun="rules")

    @cached_property
    def _totals(self) -> tuple[RuleTotal, ...]:
        return self._totals_of(self.found, self.groups)

    def _totals_of(self, findings: Iterable[Finding], groups: Iterable[Group]) -> tuple[RuleTotal, ...]:
        names = {rule.code: rule.name for rule in self.rules}
        by_rule: dict[str, list[Finding]] = {}
        for each in findings:
            by_rule.setdefault(each.code, []).append(each)
        numbers = Counter(code for group in groups for code in (group.code, *group.other_codes))
        totals = [RuleTotal.of(found, names.get(code, ""), numbers[code]) for code, found in by_rule.items()]
        return tuple(sorted(totals, key=lambda each: (each.rank, -each.count, each.code)))


@dataclass(frozen=True, slots=True)
class RuleTotal:
    """What one rule found: groups, findings, and what they cost together."""

    code: str
    name: str
    severity: Severity
    groups: int
    count: int
    cost_bytes: int | None
    seconds: float | None
    rank: Rank

    @staticmethod
    def of(found: Sequence[Finding], name: str, groups: int) -> RuleTotal:
        """The total of the findings of a rule."""
        whole = Group(tuple(found))
        worst = found[0]
        return RuleTotal(
            worst.code, name, worst.severity, groups, len(found), whole.cost_bytes, whole.seconds, whole.rank
        )


def _severities(found: Iterable[Finding]) -> str:
    """The number of findings of each severity."""
    by_severity = Counter(each.severity for each in found)
    return ", ".join(
        format_count(by_severity[severity], f"{severity}s") for severity in SEVERITIES if by_severity[severity]
    )


def _rule_words(total: RuleTotal) -> str:
    """What a rule found, for a sentence."""
    words = f"{total.count:,} × {total.code} {total.name}".rstrip()
    details = [format_count(total.groups, "groups")] if total.groups < total.count else []
    details += [format_bytes(total.cost_bytes)] if total.cost_bytes else []
    return f"{words} ({', '.join(details)})" if details else words


def stopped_by(error: Diagnostic) -> str:
    """The consequence of an error: an input could not be read, or the command did not check anything.

    >>> stopped_by(Diagnostic("error", "no option --hlep"))
    'not checked'
    """
    return "unreadable" if error.source is not None else "not checked"


def _with_names(column: Column) -> Column:
    """The column as shown to people if a finding has a name but no position."""
    return replace(column, person=True) if column.name in ("instruction", "computation") else column


def _end_of(each: Finding, part: Literal["line", "column"]) -> int | None:
    """Where its part of the text ends."""
    if each.source is None or each.span is None:
        return None
    end = each.source.position(each.span.end)
    return end.line if part == "line" else end.column
