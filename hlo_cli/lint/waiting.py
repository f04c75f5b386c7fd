"""Sends, or receives, that wait for their counterpart, and whether all of them can be served at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hlo_cli.ir.instruction import Instruction

Pairs = tuple[tuple[int, int], ...]
Transfer = tuple[str, Pairs, Instruction]
"""The text of the pairs of devices, the pairs, and the instruction."""


class Waiting:
    """Transfers in the order in which they came; says at once what a look at the pairs of all of them would.

    Links between devices are kept only while no device has two of a kind; a circle that is taken apart, too, has them
    put together anew when somebody asks.

    >>> waiting = Waiting()
    >>> waiting.problem() is None, len(waiting)
    (True, 0)
    """

    __slots__ = (
        "_by_text",
        "_circle",
        "_following",
        "_is_stale",
        "_last",
        "_preceding",
        "_sources",
        "_targets",
        "_there",
    )

    def __init__(self) -> None:
        self._there: dict[int, Transfer] = {}
        self._by_text: dict[str, dict[int, None]] = {}
        self._last = 0
        self._sources: Counter[int] = Counter()
        self._targets: Counter[int] = Counter()
        self._is_stale = False
        self._link_nothing()

    def __len__(self) -> int:
        return len(self._there)

    def __iter__(self) -> Iterator[Transfer]:
        return iter(self._there.values())

    def __contains__(self, text: str) -> bool:
        return bool(self._by_text.get(text))

    def add(self, transfer: Transfer) -> None:
        """One more that waits."""
        text, pairs, _ = transfer
        self._last += 1
        self._there[self._last] = transfer
        self._by_text.setdefault(text, {})[self._last] = None
        for at, (source, target) in enumerate(pairs):
            self._sources[source] += 1
            self._targets[target] += 1
            if self._sources[source] > 1 or self._targets[target] > 1:
                self._is_stale = True
            if not self._is_stale:
                self._link(source, target, (self._last, at))

    def remove(self, text: str) -> None:
        """The first with these pairs waits no more."""
        number = next(iter(self._by_text[text]))
        del self._by_text[text][number]
        _, pairs, _ = self._there.pop(number)
        self._is_stale = self._is_stale or self._circle is not None
        for source, target in pairs:
            _take_one(self._sources, source)
            _take_one(self._targets, target)
            if not self._is_stale:
                del self._following[source], self._preceding[target]

    def problem(self) -> str | None:
        """Why all together cannot be served: a device sends or receives twice, or there is a circle."""
        if len(self._sources) < self._sources.total():
            return "sends from one device twice"
        if len(self._targets) < self._targets.total():
            return "sends to one device twice"
        if self._is_stale:
            self._link_nothing()
            for number, (_, pairs, _) in self._there.items():
                for at, (source, target) in enumerate(pairs):
                    self._link(source, target, (number, at))
            self._is_stale = False
        return None if self._circle is None else f"sends in a circle through device {self._circle[1]}"

    def _link_nothing(self) -> None:
        self._following: dict[int, tuple[int, tuple[int, int]]] = {}
        self._preceding: dict[int, int] = {}
        self._circle: tuple[tuple[int, int], int] | None = None

    def _link(self, source: int, target: int, place: tuple[int, int]) -> None:
        """One more link; a circle that it closes counts by the device in it that came first."""
        self._following[source], self._preceding[target] = (target, place), source
        ahead, back = target, source
        while ahead != source:  # both ways at once, so that the shorter one decides
            if ahead not in self._following or back not in self._preceding:
                return
            ahead, back = self._following[ahead][0], self._preceding[back]
        first, device = place, source
        at = target
        while at != source:
            following, theirs = self._following[at]
            if theirs < first:
                first, device = theirs, at
            at = following
        if self._circle is None or first < self._circle[0]:
            self._circle = first, device


def _take_one(counts: Counter[int], device: int) -> None:
    counts[device] -= 1
    if not counts[device]:
        del counts[device]
