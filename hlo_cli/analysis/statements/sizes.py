"""Sizes that take the place of others throughout a module: which ones are causes, and what follows from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from hlo_cli.analysis.statements.shape_changes import ShapeDelta, SizePair
from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

_NUMBER: Final = lazy_regex(r"[0-9]+")
_MAX_OFFSET: Final = 2
_MAX_POWER: Final = 4
_MIN_SHAPES: Final = 3
_MIN_SHARE: Final = 0.1
_MAX_RATIOS: Final = 3
_TOLERANCE: Final = 2e-5
_NARROW_TOLERANCE: Final = 1e-2


@dataclass(frozen=True, slots=True)
class SizeGroup:
    """Sizes that changed by one factor: `base` is the one that the others are multiples or parts of."""

    base: SizePair
    also: tuple[SizePair, ...]
    shapes: int

    @property
    def ratio(self) -> Fraction:
        """The factor.

        >>> SizeGroup((256, 320), (), 9).ratio
        Fraction(5, 4)
        """
        return Fraction(self.base[1], self.base[0])


class Sizes:
    """The sizes that changed, in groups of one factor, most frequent first.

    >>> deltas = [ShapeDelta(frozenset({pair}), frozenset()) for pair in [(256, 320)] * 4 + [(1024, 1280)] * 2]
    >>> sizes = Sizes(deltas, deltas[:1])
    >>> sizes.groups
    (SizeGroup(base=(256, 320), also=((1024, 1280),), shapes=6),)
    >>> sizes.explain_text("{0:256, 0:8}", "{0:320, 0:8}"), sizes.explain_text("{0:256}", "{0:257}")
    (True, False)
    >>> sizes.explain_constant("0.00390625", "0.003125"), sizes.explain_constant("16", "17.8885441")
    (True, True)
    """

    def __init__(
        self,
        deltas: Iterable[ShapeDelta],
        arguments: Iterable[ShapeDelta],
        occurrences: Callable[[], tuple[Mapping[int, int], Mapping[int, int]]] | None = None,
    ) -> None:
        """Finds the causes; `occurrences` counts the shapes of both modules that have a size."""
        given = list(deltas)
        self._occurrences = occurrences
        self._counts: Counter[SizePair] = Counter(pair for each in given for pair in each.sizes)
        self._in_arguments: Counter[SizePair] = Counter(pair for each in arguments for pair in each.sizes)
        self._explained: dict[SizePair, SizeGroup | None] = {}
        self.groups: tuple[SizeGroup, ...] = ()
        changed = sum(bool(each.sizes) for each in given)
        found = [self._group(pairs, given) for pairs in _by_ratio(self._counts) if self._is_enough(pairs, changed)]
        found.sort(key=lambda each: (-self._in_arguments[each.base], -each.shapes, sorted(each.base)))
        known: frozenset[SizePair] = frozenset()
        for group in found:
            own = frozenset((group.base, *group.also))
            if not self._explains(group.base) and (self._is_everywhere(group) or _are_together(own, known, given)):
                self.groups = (*self.groups, group)
                self._explained.clear()
                known |= own

    def _is_enough(self, pairs: list[SizePair], changed: int) -> bool:
        """Whether sizes changed often enough to be a cause rather than an accident."""
        if any(1 in pair or 0 in pair for pair in pairs) and len(pairs) == 1 and not self._in_arguments[pairs[0]]:
            return False
        shapes = sum(self._counts[pair] for pair in pairs)
        if any(self._in_arguments[pair] for pair in pairs):
            return shapes > 1
        return shapes >= max(_MIN_SHAPES, _MIN_SHARE * changed)

    def _is_everywhere(self, group: SizeGroup) -> bool:
        """Whether the size changed in most of its places, or in an argument."""
        if self._in_arguments[group.base] or self._occurrences is None:
            return True
        old, new = self._occurrences()
        x, y = group.base
        return 2 * self._counts[group.base] >= min(old.get(x, 0), new.get(y, 0))

    def _group(self, pairs: list[SizePair], deltas: Iterable[ShapeDelta]) -> SizeGroup:
        known = frozenset(pairs)
        base = min(pairs, key=lambda pair: (-self._in_arguments[pair], -self._counts[pair], sorted(pair)))
        also = sorted((pair for pair in pairs if pair != base), key=lambda pair: (-self._counts[pair], sorted(pair)))
        return SizeGroup(base, tuple(also), sum(not known.isdisjoint(each.sizes) for each in deltas))

    def group_of(self, pair: SizePair) -> SizeGroup | None:
        """The cause of a changed size: it has the factor, or is a multiple and a small number more."""
        if pair not in self._explained:
            self._explained[pair] = self._find(pair)
        return self._explained[pair]

    def _find(self, pair: SizePair) -> SizeGroup | None:
        x, y = pair
        if x <= 0 or y <= 0:
            return None
        ratio = Fraction(y, x)
        for group in self.groups:
            if ratio == group.ratio:
                return group
        for group in self.groups:
            a, b = group.base
            times, rest = divmod(y - x, b - a)
            offset = x - times * a
            if not rest and times > 0 and abs(offset) <= _MAX_OFFSET and abs(b - a) > 2 * _MAX_OFFSET:
                return group
        few = self.groups[:_MAX_RATIOS]
        products = (one for one in few for two in few if one.base < two.base and one.ratio * two.ratio == ratio)
        return next(products, None)

    def _explains(self, pair: SizePair) -> bool:
        return self.group_of(pair) is not None

    def is_of_arguments(self, group: SizeGroup) -> bool:
        """Whether an argument has a size of a group."""
        return any(self._in_arguments[pair] for pair in (group.base, *group.also))

    def explain(self, delta: ShapeDelta) -> bool:
        """Whether every changed size of a shape has a cause."""
        return all(map(self._explains, delta.sizes))

    def cause(self, delta: ShapeDelta) -> SizeGroup | None:
        """The first cause of a shape's changed sizes."""
        found = [group for pair in delta.sizes if (group := self.group_of(pair)) is not None]
        return min(found, key=self.groups.index) if found else None

    def _explains_integer(self, one: int, two: int) -> bool:
        """Whether a number is a size, or the last index of one."""
        return self._explains((one, two)) or any(
            (one + 1, two + 1) == pair for group in self.groups for pair in (group.base, *group.also)
        )

    def explain_elements(self, before: int, after: int) -> bool:
        """Whether a number of elements changed by the factors of causes, each once or twice."""
        if not before or not after or before == after:
            return False
        wanted = Fraction(after, before)
        found = {Fraction(1)}
        for group in self.groups[:_MAX_RATIOS]:
            found = {each * group.ratio**power for each in found for power in (0, 1, 2)}
        return wanted in found

    def explain_text(self, before: str, after: str) -> bool:
        """Whether two texts are equal but for whole numbers, each of which has a cause."""
        if not self.groups or _NUMBER.sub("#", before) != _NUMBER.sub("#", after):
            return False
        numbers = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
        return all(
            one == two or self._explains((int(one), int(two))) for one, two in numbers if max(len(one), len(two)) < 19
        )

    def explain_constant(self, before: str, after: str, *, is_narrow: bool = False) -> bool:
        """Whether a scalar changed by a product of powers and roots of the factors, or as a size does."""
        one, two = _number(before), _number(after)
        if one is None or two is None or not self.groups:
            return False
        if one == int(one) and two == int(two) and self._explains_integer(abs(int(one)), abs(int(two))):
            return (one < 0) == (two < 0)
        if not one or not two or (one < 0) != (two < 0):
            return False
        wanted = math.log(two / one)
        factors = [math.log(group.ratio) / 2 for group in self.groups[:_MAX_RATIOS]]
        tolerance = _NARROW_TOLERANCE if is_narrow else _TOLERANCE
        return any(abs(wanted - power) < tolerance for power in _sums(factors))


def _are_together(own: frozenset[SizePair], known: frozenset[SizePair], deltas: Sequence[ShapeDelta]) -> bool:
    """Whether most of the shapes with one of the sizes have a known one too."""
    shapes = [each.sizes for each in deltas if not own.isdisjoint(each.sizes)]
    return 2 * sum(not known.isdisjoint(sizes) for sizes in shapes) >= len(shapes)


def _sums(factors: list[float]) -> list[float]:
    """Sums of small multiples of the logarithms, the empty one not counted."""
    found = [0.0]
    for factor in factors:
        found = [each + n * factor for each in found for n in range(-_MAX_POWER, _MAX_POWER + 1)]
    return [each for each in found if each]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _by_ratio(counts: Iterable[SizePair]) -> list[list[SizePair]]:
    groups: dict[Fraction, list[SizePair]] = {}
    for x, y in counts:
        if x > 0 and y > 0:
            groups.setdefault(Fraction(y, x), []).append((x, y))
    return list(groups.values())
