"""`hlo diff GOLDEN NEW --against-golden --fail-on LIST`: the conditions that fail a check, and which of them hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.matching.changes import FUSED
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.statements.statements import Statements
from hlo_cli.commands.diff.numbers import Number
from hlo_cli.commands.diff.options import CONDITIONS, LIMITED
from hlo_cli.commands.diff.sentences import kind_of, sentence_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.memory_space import space_words
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.source import HloError, did_you_mean, nearest
from hlo_cli.syntax.byte_sizes import UNITS, parse_size

CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "shapes": ("shape",),
    "layouts": ("layout", "tiling"),
    "memory-spaces": ("memory_space",),
    "constants": ("constants",),
    "attributes": ("attributes",),
    "shardings": ("sharding",),
    "backend-configs": ("backend_config",),
    "fusions": (FUSED,),
    "operations": ("opcode",),
    "operands": ("operands", "computation"),
    "metadata": ("metadata",),
    "header": (),
}
"""Changes of instructions that conditions name, by their kinds."""
_STATEMENTS: Final = frozenset(("layers", "donation", "rematerialization", "loops"))
_STATEMENT_KINDS: Final = {"loops": ("loops", "trip_count")}
_CONDITION: Final = lazy_regex(r"([a-z_-]+)(?:\.([a-z0-9]+))?(?:>([0-9]+(?:\.[0-9]+)?)([A-Za-z%]*))?")
_SIZES: Final = ("memory", "bytes", "padding", "arguments", "collectives")
"""Limited conditions on bytes; collectives also count."""
_UNITS: Final[Mapping[str, str]] = {unit.lower(): unit for unit in UNITS}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: what must not change, or by how much a number may grow, as a share or an amount."""

    kind: str
    share: float | None = None
    amount: float | None = None
    text: str = ""
    space: str = ""

    def is_about(self, number: Number) -> bool:
        """Whether the condition is on this number: of its kind, and in its memory space if it names one.

        >>> Condition("memory", space="hbm").is_about(Number("peak VMEM", "memory", "bytes", 1, 2, space="vmem"))
        False
        """
        return number.kind == self.kind and self.space in ("", number.space)

    def exceeds(self, number: Number) -> bool:
        """Whether a number changed, or grew by more than the limit.

        >>> Condition("flops", share=0.02).exceeds(Number("flops", "flops", "work", 100, 103))
        True
        """
        if self.share is not None:
            return number.after > number.before * (1 + self.share)
        if self.amount is not None:
            return number.after - number.before > self.amount
        return number.is_changed


@dataclass(frozen=True, slots=True)
class Failure:
    """A condition that does not hold: the condition, and what changed, in words and as numbers if it is a number."""

    condition: Condition
    text: str
    before: int | None = None
    after: int | None = None


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """The conditions of `--fail-on`; all but `metadata` if the text is empty.

    >>> [(c.kind, c.share, c.amount) for c in parse_conditions("memory>2%,kernels>5,layouts")]
    [('memory', 0.02, None), ('kernels', None, 5.0), ('layouts', None, None)]
    >>> [c.amount for c in parse_conditions("memory.hbm>4kB, padding>1.5KiB, bytes>2M")]
    [4000, 1536, 2097152]
    >>> parse_conditions("layout")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: unknown condition 'layout' in --fail-on
    """
    words = [word for word in (word.strip() for word in text.split(",")) if word]
    if not words:
        return tuple(Condition(kind, text=kind) for kind in CONDITIONS if kind != "metadata")
    return tuple(map(_condition, words))


def _condition(word: str) -> Condition:
    found = _CONDITION.fullmatch(word.replace(" ", ""))
    if found is None:
        raise HloError(
            f"expected KIND or KIND>LIMIT in --fail-on, got '{word}'", hint="for example --fail-on 'memory>2%'"
        )
    kind, space, value, unit = found[1].replace("_", "-"), found[2] or "", found[3], found[4]
    if kind not in CONDITIONS:
        meant = nearest(kind, CONDITIONS)
        raise HloError(
            f"unknown condition '{found[1]}' in --fail-on",
            hint=did_you_mean(meant) if meant else f"available: {', '.join(CONDITIONS)}",
        )
    if space and (kind != "memory" or space not in space_words()):
        words = ", ".join(f"memory.{each}" for each in space_words())
        raise HloError(f"unknown condition '{found[1]}.{space}' in --fail-on", hint=f"memory spaces: {words}")
    if value is None:
        return Condition(kind, text=word, space=space)
    if kind not in LIMITED:
        raise HloError(f"'{kind}' in --fail-on has no limit", hint=f"limits are supported for {', '.join(LIMITED)}")
    if unit == "%":
        return Condition(kind, share=float(value) / 100, text=word, space=space)
    if not unit:
        return Condition(kind, amount=float(value), text=word, space=space)
    if kind not in _SIZES:
        raise HloError(f"'{kind}' in --fail-on is not a size: {word}", hint="use % or a number")
    try:
        size = parse_size(f"{value}{_UNITS.get(unit.lower(), unit)}")
    except HloError as error:
        hint = error.diagnostics[0].hint or ""
        raise HloError(f"unknown unit '{unit}' in --fail-on {word}", hint=hint) from None
    return Condition(kind, amount=size, text=word, space=space)


def failures(
    conditions: Sequence[Condition], comparison: ModuleDiff, told: Statements, numbers: Sequence[Number]
) -> Iterator[Failure]:
    """Yields the conditions that do not hold, each with what changed."""
    for condition in conditions:
        if condition.kind in LIMITED:
            for number in numbers:
                if condition.is_about(number) and condition.exceeds(number):
                    yield Failure(condition, str(number), number.before, number.after)
        if condition.share is None and condition.amount is None:
            yield from _changes(condition, comparison, told)


def _changes(condition: Condition, comparison: ModuleDiff, told: Statements) -> Iterator[Failure]:
    """Yields a failure if instructions, arguments, or the header changed in the way that a condition names."""
    if kinds := CHANGES.get(condition.kind):
        rows = sum(any(change.kind in kinds for change in each.changes) for each in comparison.changed)
        if rows:
            verb = "have other" if rows > 1 else "has other"
            yield Failure(condition, f"{format_count(rows, 'instructions')} {verb} {condition.kind.replace('-', ' ')}")
    if condition.kind == "operations":
        yield from _alone(condition, comparison)
    elif condition.kind == "arguments":
        yield from _arguments(condition, comparison)
    elif condition.kind == "header" and comparison.header:
        names = ", ".join(change.name for change in comparison.header)
        yield Failure(condition, f"header fields changed: {names}")
    elif condition.kind in _STATEMENTS:
        wanted = _STATEMENT_KINDS.get(condition.kind, (condition.kind,))
        yield from (Failure(condition, sentence_of(each)) for each in told.told if kind_of(each) in wanted)


def _alone(condition: Condition, comparison: ModuleDiff) -> Iterator[Failure]:
    added, removed = len(comparison.added), len(comparison.removed)
    if added or removed:
        yield Failure(condition, f"{format_count(added, 'instructions')} added, {removed:,} removed")


def _arguments(condition: Condition, comparison: ModuleDiff) -> Iterator[Failure]:
    added, removed = (
        sum(each.opcode == opcodes.PARAMETER and each.computation.is_entry for each in side)
        for side in (comparison.added, comparison.removed)
    )
    if added or removed:
        yield Failure(condition, f"{format_count(added, 'arguments')} added, {removed:,} removed")


def limit_text(condition: Condition) -> str:
    """A condition in words, for the report.

    >>> limit_text(Condition("memory", share=0.02)), limit_text(Condition("layouts"))
    ('memory may grow by 2%', 'layouts must not change')
    """
    name = f"{condition.kind}.{condition.space}" if condition.space else condition.kind
    if condition.share is not None:
        return f"{name} may grow by {condition.share * 100:g}%"
    if condition.amount is not None:
        amount = format_bytes(condition.amount) if condition.kind in _SIZES else f"{condition.amount:,g}"
        return f"{name} may grow by {amount}"
    return f"{name} must not change"
