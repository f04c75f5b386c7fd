"""The parts of a large text that can hold out-of-memory messages."""

from __future__ import annotations

from typing import Final

_SIGNS: Final = (
    *(
        "ut of memory",
        "ut of resource",
        "RESOURCE_EXHAUSTED",
        "esource exhausted",
        "ResourceExhausted",
        "Scoped allocation",
    ),
    *(
        "Attempting to ",
        "an out of ",
        "reservable",
        "ailed to alloc",
        "for new constant",
        "memory use below",
        "base limit",
    ),
    *(
        "hared memory size",
        "too much shared",
        "Killed process",
        "OOM",
        "oom",
        "bad_alloc",
        "MemoryError",
        "nable to allocate",
    ),
    *(
        "Peak buffers",
        "Largest program",
        "Chunks of size",
        "HLO temporaries",
        "upper bound (",
        "memory pressure",
        "OutOfMemory",
    ),
    *(
        "low on memory",
        "OUT_OF_MEMORY",
        "BufferAssignment",
        "would exceed",
        "tried to allocate",
        "size_bytes = ",
        "Hbm usage",
    ),
    *("Exceeded hbm", "Exceeded vmem", "Exceeded smem", "memory on the node"),
)
_PARTS_OF_SIGNS: Final = (
    "emory",
    "lloc",
    "xhausted",
    "OOM",
    "oom",
    "Exceeded",
    "EMORY",
    "reservable",
    "out of",
    "Hbm",
    "illed",
)
_MORE_PARTS: Final = ("base limit", "upper bound", "shared data", "Peak buffers", "Chunks", "temporaries", "size_bytes")
MOST_CHARACTERS: Final = 1_500_000
_MOST_LINES: Final = 60_000
_BEFORE: Final = 20_000
_AFTER: Final = 150_000
_LEAST: Final = 20_000


def extracts(text: str) -> tuple[tuple[int, int], ...]:
    """The offsets of the parts to read: all of a text of usual size, else the parts around signs of a message.

    Of many signs the first and the last parts are read.

    >>> extracts("out of memory")
    ((0, 13),)
    """
    if len(text) <= MOST_CHARACTERS and text.count("\n") <= _MOST_LINES:
        return ((0, len(text)),) if text else ()
    if not any(part in text for part in (*_PARTS_OF_SIGNS, *_MORE_PARTS)):
        return ()
    parts: list[tuple[int, int]] = []
    budget = MOST_CHARACTERS // 2
    at = 0
    signs = {literal: text.find(literal) for literal in _SIGNS}
    while budget > 0:
        signs = {
            literal: text.find(literal, at) if place < at else place for literal, place in signs.items() if place >= 0
        }
        sign = min((place for place in signs.values() if place >= at), default=-1)
        if sign < 0:
            return tuple(parts)
        part = _around(text, sign, at)
        parts.append(part)
        budget -= max(part[1] - part[0], _LEAST)
        at = part[1]
    last = max(at, len(text) - MOST_CHARACTERS // 2)
    signs_after = [place for literal in _SIGNS if (place := text.rfind(literal, last)) >= 0]
    if signs_after:
        parts.append(_around(text, max(last, min(signs_after) - _AFTER // 2), last))
        parts.append(_around(text, max(signs_after), parts[-1][1]) if max(signs_after) > parts[-1][1] else parts[-1])
    return tuple(dict.fromkeys(parts))


def _around(text: str, sign: int, least: int) -> tuple[int, int]:
    """The lines around an offset, from another one on; not more than a number of lines."""
    start = max(least, sign - _BEFORE)
    start = max(least, text.rfind("\n", least, start) + 1) if start > least else least
    end = min(len(text), sign + _AFTER)
    if end < len(text) and (line := text.find("\n", end, end + _BEFORE)) >= 0:
        end = line
    while text.count("\n", start, end) > _MOST_LINES // 4:
        end = sign + (end - sign) // 2
    return start, max(end, sign + 1)
