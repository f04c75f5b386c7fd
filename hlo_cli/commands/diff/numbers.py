"""The numbers of two modules in a few lines: those that changed with their ratio, and those that did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.statements.statements import ModuleNumbers
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import space_name
from hlo_cli.report.numbers import format_bytes, format_ratio, format_scaled

_RESULTS: Final = " results"
_CLOSE: Final = 0.91
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
        one, two = self._text(self.before), self._text(self.after)
        if not self.is_changed:
            return one
        if one == two:
            return one
        number, _, unit = one.rpartition(" ")
        return f"{number if unit and two.endswith(f' {unit}') else one} → {two}"

    @property
    def _growth(self) -> str:
        """The factor, or the share if the factor is close to 1."""
        if not (self.before and self.after) or not self.is_changed:
            return ""
        factor = self.after / self.before
        if _CLOSE < factor < 1 / _CLOSE:
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
    least = max(peaks, default=0) // 1000
    return tuple(each for each in numbers if each.kind != "memory" or max(each.before, each.after) > least)


def numbers_between(old: ModuleNumbers, new: ModuleNumbers, target: Target | None) -> Iterator[Number]:
    """Yields every compared number, the most important first."""
    one, two = old.metrics, new.metrics
    for space in sorted({*one.peak_bytes, *two.peak_bytes}):
        name, word = f"peak {space_name(space, target)}", space_name(space, target or "tpu").lower()
        yield Number(name, "memory", "bytes", one.peak_bytes.get(space, 0), two.peak_bytes.get(space, 0), word)
    yield Number("flops", "flops", "work", old.flops, new.flops)
    yield Number("bytes accessed", "bytes", "bytes", old.bytes_accessed, new.bytes_accessed)
    yield Number("padding", "padding", "bytes", one.padding_bytes, two.padding_bytes)
    yield from collectives_between(old, new)
    yield Number("kernels", "kernels", "count", one.kernels, two.kernels)
    yield Number("arguments", "arguments", "bytes", one.argument_bytes, two.argument_bytes)


def collectives_between(old: ModuleNumbers, new: ModuleNumbers) -> Iterator[Number]:
    """Yields the number of collectives of each kind, and the bytes of their results."""
    kinds = sorted({*old.collectives, *new.collectives})
    if not kinds:
        yield Number("collectives", "collectives", "count", 0, 0)
    for kind in kinds:
        one, two = old.collectives.get(kind), new.collectives.get(kind)
        counts = (one.count if one else 0, two.count if two else 0)
        sizes = (one.bytes if one else 0, two.bytes if two else 0)
        yield Number(kind, "collectives", "count", *counts)
        yield Number(f"{kind}{_RESULTS}", "collectives", "bytes", *sizes)


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
    for each in numbers:
        kind = each.name.removesuffix(_RESULTS)
        if kind != each.name and kind in texts:
            texts[kind] += f" ({each.amounts})"
        else:
            texts[each.name] = str(each)
    return list(texts.values())
