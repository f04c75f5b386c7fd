"""What is shown of a comparison, and what fails a check? The view, the numbers, `--fail-on`, `--against-golden`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.matching.changes import FUSED
from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.analysis.origin.origins import By
from hlo_cli.analysis.statements.operations import is_same_text
from hlo_cli.analysis.statements.statements import ModuleNumbers, Statements, numbers_of
from hlo_cli.commands.diff.options import CONDITIONS, LIMITED
from hlo_cli.commands.diff.sentences import kind_of, sentence_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.memory_space import space_name, space_words
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_ratio, format_scaled
from hlo_cli.report.table import Column, Table, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError, did_you_mean, nearest
from hlo_cli.syntax.byte_sizes import UNITS, parse_size
from hlo_cli.transform.normalize import normalize

# --- the numbers of two modules ---
# The numbers of two modules in a few lines: those that changed with their ratio, and those that did not.


_RESULTS_SUFFIX: Final = " results"
_MIN_CLOSE_FACTOR: Final = 0.91  # within a tenth, a percentage is easier to read than a factor
_WITH_GROWTH: Final = frozenset(("memory", "flops", "bytes"))
"""Kinds of numbers whose growth is shown as well; that of small numbers is seen."""
_SCALES: Final = ((10**15, " P"), (10**12, " T"), (10**9, " G"), (10**6, " M"))


@dataclass(frozen=True, slots=True)
class Number:
    """A number of both modules: its name, its unit, and the kind and memory space that `--fail-on` names it by."""

    name: str
    kind: str
    unit: str
    before: int
    after: int
    space: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether it differs."""
        return self.before != self.after

    def __str__(self) -> str:
        """In words.

        >>> print(Number("peak HBM", "memory", "bytes", 1024, 2048))
        peak HBM 1 → 2 KiB (× 2.0)
        >>> print(Number("kernels", "kernels", "count", 9, 8))
        kernels 9 → 8
        """
        growth = self._growth if self.kind in _WITH_GROWTH else ""
        return f"{self.name} {self.amounts}{growth}"

    @property
    def amounts(self) -> str:
        """Both values, or one if they are equal."""
        before, after = self._text(self.before), self._text(self.after)
        if not self.is_changed:
            return before
        if before == after:
            return before
        number, _, unit = before.rpartition(" ")
        return f"{number if unit and after.endswith(f' {unit}') else before} → {after}"

    @property
    def _growth(self) -> str:
        """The factor, or the share if the factor is close to 1."""
        if not (self.before and self.after) or not self.is_changed:
            return ""
        factor = self.after / self.before
        if _MIN_CLOSE_FACTOR < factor < 1 / _MIN_CLOSE_FACTOR:
            return f" ({'+' if factor > 1 else '-'}{format_scaled(abs(factor - 1) * 100, decimals=1)}%)"
        return f" ({format_ratio(factor)})"

    def _text(self, value: int) -> str:
        if self.unit == "bytes":
            return format_bytes(value)
        for scale, letter in _SCALES:
            if self.unit == "work" and value >= scale:
                return format_scaled(value, scale, 1) + letter
        return f"{value:,}"


def worth_showing(numbers: Sequence[Number]) -> tuple[Number, ...]:
    """The numbers without peaks of memory spaces that are a thousandth of the largest peak, or less."""
    peaks = [max(each.before, each.after) for each in numbers if each.kind == "memory"]
    # chosen: a peak of SMEM in bytes next to one of HBM in gigabytes decides nothing
    least = max(peaks, default=0) // 1000
    return tuple(each for each in numbers if each.kind != "memory" or max(each.before, each.after) > least)


def numbers_between(old: ModuleNumbers, new: ModuleNumbers, target: Target | None) -> Iterator[Number]:
    """Yields every compared number, the most important first."""
    before, after = old.metrics, new.metrics
    for space in sorted({*before.peak_bytes, *after.peak_bytes}):
        name, word = f"peak {space_name(space, target)}", space_name(space, target or "tpu").lower()
        yield Number(name, "memory", "bytes", before.peak_bytes.get(space, 0), after.peak_bytes.get(space, 0), word)
    yield Number("flops", "flops", "work", old.flops, new.flops)
    yield Number("bytes accessed", "bytes", "bytes", old.bytes_accessed, new.bytes_accessed)
    yield Number("padding", "padding", "bytes", before.padding_bytes, after.padding_bytes)
    yield from _collectives_between(old, new)
    yield Number("kernels", "kernels", "count", before.kernels, after.kernels)
    yield Number("arguments", "arguments", "bytes", before.argument_bytes, after.argument_bytes)


def _collectives_between(old: ModuleNumbers, new: ModuleNumbers) -> Iterator[Number]:
    """Yields the number of collectives of each kind, and the bytes of their results."""
    kinds = sorted({*old.collectives, *new.collectives})
    if not kinds:
        yield Number("collectives", "collectives", "count", 0, 0)
    for kind in kinds:
        before, after = old.collectives.get(kind), new.collectives.get(kind)
        counts = (before.count if before else 0, after.count if after else 0)
        sizes = (before.bytes if before else 0, after.bytes if after else 0)
        yield Number(kind, "collectives", "count", *counts)
        yield Number(f"{kind}{_RESULTS_SUFFIX}", "collectives", "bytes", *sizes)


def in_words(numbers: tuple[Number, ...]) -> Iterator[str]:
    """Yields a text of the numbers that differ, then of the others.

    >>> list(in_words((Number("kernels", "kernels", "count", 9, 8), Number("padding", "padding", "bytes", 0, 0))))
    ['Kernels 9 → 8; unchanged: padding 0 B']
    """
    changed = ", ".join(_texts([each for each in numbers if each.is_changed]))
    same = ", ".join(_texts([each for each in numbers if not each.is_changed]))
    if text := "; ".join(filter(None, (changed, same and f"unchanged: {same}"))):
        yield text[:1].upper() + text[1:]


def _texts(numbers: Sequence[Number]) -> list[str]:
    """The numbers in words; the number of collectives of a kind and their bytes are one."""
    texts: dict[str, str] = {}
    for number in numbers:
        kind = number.name.removesuffix(_RESULTS_SUFFIX)
        if kind != number.name and kind in texts:
            texts[kind] += f" ({number.amounts})"
        else:
            texts[number.name] = str(number)
    return list(texts.values())


# --- conditions that fail a check ---
# `hlo diff GOLDEN NEW --against-golden --fail-on LIST`: the conditions that fail a check, and which of them hold.


_CHANGE_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
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
# Another number of iterations is another loop to whoever asks for it.
_STATEMENT_KINDS: Final = {"loops": ("loops", "trip_count")}
_CONDITION: Final = lazy_regex(r"([a-z_-]+)(?:\.([a-z0-9]+))?(?:>([0-9]+(?:\.[0-9]+)?)([A-Za-z%]*))?")
_IN_BYTES: Final = ("memory", "bytes", "padding", "arguments", "collectives")
"""Limited conditions on bytes; collectives also count."""
_UNIT_SPELLINGS: Final[Mapping[str, str]] = {unit.lower(): unit for unit in UNITS}


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
        # by growth alone: a check is not to fail because something became better
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
      help: did you mean 'layouts'?
    """
    words = [word for word in (word.strip() for word in text.split(",")) if word]
    if not words:
        # line numbers and op_names follow every edit of the source
        return tuple(Condition(kind, text=kind) for kind in CONDITIONS if kind != "metadata")
    return tuple(map(_condition, words))


def _condition(word: str) -> Condition:
    match = _CONDITION.fullmatch(word.replace(" ", ""))
    if match is None:
        raise HloError(
            f"expected KIND or KIND>LIMIT in --fail-on, got '{word}'", hint="for example --fail-on 'memory>2%'"
        )
    # kinds of --ignore have an underscore, so both forms are typed
    kind, space, value, unit = match[1].replace("_", "-"), match[2] or "", match[3], match[4]
    if kind not in CONDITIONS:
        meant = nearest(kind, CONDITIONS)
        raise HloError(
            f"unknown condition '{match[1]}' in --fail-on",
            hint=did_you_mean(meant) if meant else f"available: {', '.join(CONDITIONS)}",
        )
    if space and (kind != "memory" or space not in space_words()):
        words = ", ".join(f"memory.{each}" for each in space_words())
        raise HloError(f"unknown condition '{match[1]}.{space}' in --fail-on", hint=f"memory spaces: {words}")
    if value is None:
        return Condition(kind, text=word, space=space)
    if kind not in LIMITED:
        raise HloError(f"'{kind}' in --fail-on has no limit", hint=f"limits are supported for {', '.join(LIMITED)}")
    if unit == "%":
        return Condition(kind, share=float(value) / 100, text=word, space=space)
    if not unit:
        return Condition(kind, amount=float(value), text=word, space=space)
    if kind not in _IN_BYTES:
        raise HloError(f"'{kind}' in --fail-on is not a size: {word}", hint="use % or a number")
    try:
        # units are accepted in any case, and parse_size takes one
        size = parse_size(f"{value}{_UNIT_SPELLINGS.get(unit.lower(), unit)}")
    except HloError as error:
        hint = error.diagnostics[0].hint or ""
        raise HloError(f"unknown unit '{unit}' in --fail-on {word}", hint=hint) from None
    return Condition(kind, amount=size, text=word, space=space)


def _failures(
    conditions: Sequence[Condition], comparison: ModuleDiff, statements: Statements, numbers: Sequence[Number]
) -> Iterator[Failure]:
    """Yields the conditions that do not hold, each with what changed."""
    for condition in conditions:
        if condition.kind in LIMITED:
            for number in numbers:
                if condition.is_about(number) and condition.exceeds(number):
                    yield Failure(condition, str(number), number.before, number.after)
        if condition.share is None and condition.amount is None:
            yield from _change_failures(condition, comparison, statements)


def _change_failures(condition: Condition, comparison: ModuleDiff, statements: Statements) -> Iterator[Failure]:
    """Yields a failure if instructions, arguments, or the header changed in the way that a condition names."""
    if kinds := _CHANGE_KINDS.get(condition.kind):
        rows = sum(any(change.kind in kinds for change in each.changes) for each in comparison.changed)
        if rows:
            verb = "have other" if rows > 1 else "has other"
            yield Failure(condition, f"{format_count(rows, 'instructions')} {verb} {condition.kind.replace('-', ' ')}")
    if condition.kind == "operations":
        yield from _operation_failures(condition, comparison)
    elif condition.kind == "arguments":
        yield from _argument_failures(condition, comparison)
    elif condition.kind == "header" and comparison.header:
        names = ", ".join(change.name for change in comparison.header)
        yield Failure(condition, f"header fields changed: {names}")
    elif condition.kind in _STATEMENTS:
        wanted = _STATEMENT_KINDS.get(condition.kind, (condition.kind,))
        yield from (Failure(condition, sentence_of(each)) for each in statements.ordered if kind_of(each) in wanted)


def _operation_failures(condition: Condition, comparison: ModuleDiff) -> Iterator[Failure]:
    added, removed = len(comparison.added), len(comparison.removed)
    if added or removed:
        yield Failure(condition, f"{format_count(added, 'instructions')} added, {removed:,} removed")


def _argument_failures(condition: Condition, comparison: ModuleDiff) -> Iterator[Failure]:
    added, removed = (
        sum(each.opcode == opcodes.PARAMETER and each.computation.is_entry for each in side)
        for side in (comparison.added, comparison.removed)
    )
    if added or removed:
        yield Failure(condition, f"{format_count(added, 'arguments')} added, {removed:,} removed")


def _limit_text(condition: Condition) -> str:
    """A condition in words, for the report.

    >>> _limit_text(Condition("memory", share=0.02)), _limit_text(Condition("layouts"))
    ('memory may grow by 2%', 'layouts must not change')
    """
    name = f"{condition.kind}.{condition.space}" if condition.space else condition.kind
    if condition.share is not None:
        return f"{name} may grow by {condition.share * 100:g}%"
    if condition.amount is not None:
        amount = format_bytes(condition.amount) if condition.kind in _IN_BYTES else f"{condition.amount:,g}"
        return f"{name} may grow by {amount}"
    return f"{name} must not change"


# --- the view ---
# Which differences are shown, and in how much detail.


@dataclass(frozen=True, slots=True)
class View:
    """The selected view: `name` is the option that selects it, or `statements`.

    With `conditions`, only what they name is a difference, from a golden dump; with `exact`, every other text is one.
    """

    name: str
    ignored: tuple[str, ...]
    with_schedule: bool
    conditions: tuple[Condition, ...] = ()
    by: By | None = None
    exact: bool = False

    def compare(self, before: Module, after: Module) -> ModuleDiff:
        """The differences between two modules, without the ignored ones."""
        return diff(before, after).without(self.ignored)

    def differs(self, comparison: ModuleDiff) -> bool:
        """Whether there is something to show; moves alone count only if selected."""
        return not comparison.is_empty or (self.with_schedule and bool(comparison.moved))

    def is_finding(self, comparison: ModuleDiff) -> bool:
        """Whether there is a difference for exit codes and counts of modules.

        Other lines of source and op_names are the same program; with `exact`, any other text is a difference.
        """
        if self.exact:
            return not is_same_text(comparison)
        return (not comparison.is_same_program) or (self.with_schedule and bool(comparison.moved))


# --- a golden dump ---
# `hlo diff GOLDEN NEW --against-golden`: the failed conditions before the statements.


_MAX_SHOWN: Final = 8  # as many as a screen has room for beside the answer; all are in the table for programs
_CONDITION_COLUMNS: Final[tuple[Column[Condition, Failure | None], ...]] = (
    Column("condition", "condition", of=lambda condition, failure: condition.text),
    Column("result", "result", of=lambda condition, failure: "failed" if failure else "passed"),
    Column("before", "before", "count", of=lambda condition, failure: failure.before if failure else None),
    Column("after", "after", "count", of=lambda condition, failure: failure.after if failure else None),
    Column("difference", "difference",
           of=lambda condition, failure: failure.text if failure else _limit_text(condition)),
)  # fmt: skip


def numbers_against(comparison: ModuleDiff, view: View) -> tuple[ModuleNumbers, ModuleNumbers]:
    """The numbers of both modules.

    With conditions, those of the new one go by the order of the golden dump if `--normalize` took its schedule away.
    """
    old, new = comparison.before, comparison.after
    # peaks of another order would differ for a golden dump that has none
    is_unordered = bool(view.conditions) and new.is_scheduled and not old.is_scheduled
    return numbers_of(old), numbers_of(normalize(new) if is_unordered else new)


def without_form(comparison: ModuleDiff) -> ModuleDiff:
    """The differences without those that come from the form of a golden dump: what `--normalize` does not write."""
    golden, new = comparison.before, comparison.after
    ignored = ["is_scheduled"] if new.is_scheduled and not golden.is_scheduled else []
    # these fields differ between runs of the compiler, and --normalize does not write them
    if not any(each.name == "frontend_attributes" for each in golden.header):
        ignored.append("frontend_attributes")
    kept = tuple(change for change in comparison.header if change.name not in ignored)
    has_metadata = any("metadata=" in each.raw[1] for each in golden.instructions)
    comparable = comparison if has_metadata else comparison.without(("metadata",))
    return replace(comparable, header=kept)


def failures_of(
    conditions: Sequence[Condition],
    comparison: ModuleDiff,
    statements: Statements,
    numbers: tuple[ModuleNumbers, ModuleNumbers],
) -> tuple[Failure, ...]:
    """The conditions that do not hold."""
    target = target_of(comparison.after) or target_of(comparison.before)
    return tuple(_failures(conditions, comparison, statements, tuple(numbers_between(*numbers, target))))


def answer_of_failures(conditions: Sequence[Condition], failed: Sequence[Failure]) -> str:
    """How many conditions do not hold."""
    number = len({each.condition for each in failed})
    of = format_count(len(conditions), "conditions")
    return (
        f"{number:,} of {of} failed" if failed else f"All {of} hold" if len(conditions) > 1 else "The condition holds"
    )


def parts_of_failures(conditions: Sequence[Condition], failed: Sequence[Failure]) -> Iterator[Passage | Table]:
    """Yields the failed conditions for people, and all conditions for programs."""
    lines = [f"{each.condition.text}: {each.text}" for each in failed[:_MAX_SHOWN]]
    if len(failed) > _MAX_SHOWN:
        lines.append(f"{len(failed) - _MAX_SHOWN:,} more")
    if lines:
        yield Passage("failures", tuple(lines))
    failed_conditions = {each.condition for each in failed}
    results = [(failure.condition, failure) for failure in failed]
    passed = [(condition, None) for condition in conditions if condition not in failed_conditions]
    rows = rows_from_tuples(_CONDITION_COLUMNS, (*results, *passed))
    yield Table("conditions", _CONDITION_COLUMNS, rows, noun="conditions", person=False, main=False)
