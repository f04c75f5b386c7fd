"""What the compiler says of memory in the files beside a dump, read for comparison: as little as tests need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

Key = tuple[str, tuple[int, ...]]
"""A value by its instruction's name and its index."""

_RANGE = re.compile(r" {4}(\S+?)(\{[\d,]*\})?:(\d+)-(\d+)")
_ALIVE = re.compile(r" {4}(\S+?)(\{[\d,]*\})?: (\d+) bytes")
_ALLOCATION = re.compile(r"allocation \d+: size (\d+)(.*):")
_COLOUR = re.compile(r", color (\d+)")
_VALUE = re.compile(r" value: <\d+ (\S+?)(\{[\d,]*\})?( \(phi\))? @(\d+)> \(size=(\d+),offset=(\d+)\): (.*)")
_DEFINED = re.compile(r"<\d+ (\S+?)(\{[\d,]*\})?( \(phi\))? @\d+>")
_POSITION = re.compile(r"  (\S+)(?: (\{[\d,]*\}))?")


class Siblings(Protocol):
    """A module with the files that the compiler wrote about it."""

    def sibling(self, kind: str) -> str:
        """The text of a file beside the dump, such as `buffer-assignment`."""
        ...


@dataclass(frozen=True)
class Ranges:
    """The live-range dump: the sequence, when values live, and what is alive at the peak, with its bytes."""

    sequence: list[str]
    ranges: dict[Key, tuple[int, int]]
    peak: int
    alive: dict[Key, int]


@dataclass(frozen=True)
class Place:
    """One value in an allocation."""

    key: Key
    colour: int
    size: int
    offset: int
    shape: str


@dataclass(frozen=True)
class Assignment:
    """One allocation of the buffer assignment."""

    size: int
    colour: int
    words: str
    places: tuple[Place, ...]

    @property
    def is_local(self) -> bool:
        """Whether it belongs to an applied computation."""
        return "thread-local" in self.words

    @property
    def is_heap(self) -> bool:
        """Whether it holds temporary buffers."""
        return "preallocated-temp" in self.words


def compiler_ranges(dump: Siblings) -> Ranges:
    """What the live-range dump says."""
    sequence, ranges, peak, alive = [], {}, -1, {}
    for line in dump.sibling("live-range").partition("  Stack trace breakdown")[0].splitlines():
        if match := _RANGE.fullmatch(line):
            ranges[match[1], index(match[2])] = int(match[3]), int(match[4])
        elif match := _ALIVE.match(line):
            alive[match[1], index(match[2])] = int(match[3])
        elif match := re.fullmatch(r" {4}\d+:(.*)", line):
            sequence.append(match[1])
        elif match := re.match(r"  Live ranges at (\d+) \(peak\)", line):
            peak = int(match[1])
    return Ranges(sequence, ranges, peak, alive)


def compiler_assignment(dump: Siblings) -> list[Assignment]:
    """What the buffer assignment says."""
    found: list[tuple[int, str, list[Place]]] = []
    for line in dump.sibling("buffer-assignment").splitlines():
        if match := _ALLOCATION.fullmatch(line):
            found.append((int(match[1]), match[2], []))
        elif match := _VALUE.match(line):
            key = match[1], index(match[2])
            found[-1][2].append(Place(key, int(match[4]), int(match[5]), int(match[6]), match[7]))
    colours = (_COLOUR.search(words) for _, words, _ in found)
    return [
        Assignment(size, int(colour[1]) if colour else 0, words, tuple(places))
        for (size, words, places), colour in zip(found, colours, strict=True)
    ]


def compiler_positions(dump: Siblings) -> dict[Key, set[Key]]:
    """At which places each value stands; nothing where the compiler's list of values was not kept."""
    try:
        text = dump.sibling("buffer-assignment-values")
    except (KeyError, StopIteration):
        return {}
    found: dict[Key, set[Key]] = {}
    for part in re.split(r"\n(?=<\d+ )", text)[1:]:
        head, _, rest = part.partition("\n positions:\n")
        match = _DEFINED.fullmatch(head)
        assert match is not None
        places = (_POSITION.fullmatch(line) for line in rest.partition("\n uses:")[0].splitlines())
        found[match[1], index(match[2])] = {(place[1], index(place[2])) for place in places if place}
    return found


def index(text: str | None) -> tuple[int, ...]:
    """A shape index from its text, `{}` or none for the whole shape."""
    return tuple(map(int, text[1:-1].split(","))) if text and text != "{}" else ()
