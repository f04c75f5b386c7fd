"""The relevant parts of a very long text: what is near a message or an instruction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hlo_cli.inputs.pasted.envelopes import ENVELOPES
from hlo_cli.lazy_regex import lazy_regex

_LONGEST_WHOLE: Final = 1 << 20
_LONGEST: Final = 3 << 20
_AROUND: Final = 1 << 16
_HUGE: Final = 1 << 24
STEMS: Final = (
    "RESOURCE_EXHAUSTED",
    "ut of memory",
    "an out of ",
    "onstant folding an",
    "nvoluntary full",
    "RET_CHECK",
    "HloModule ",
)
"""The marks that are searched in a text of more than 16 MiB, with instructions in its last 16 MiB."""
_INSTRUCTION: Final = lazy_regex(r" = \(?[a-z]\w{0,16}\[[0-9,]{0,200}\]|HloModule |^ENTRY ", re.MULTILINE)


def relevant_parts(text: str) -> str:
    """The text, or of a longer one than 1 MiB the last 3 MiB of what is near messages and instructions.

    The other lines become blank, so that line numbers stay.

    >>> relevant_parts("step 1\\n"), len(relevant_parts("step 1\\n" * 1_000_000).strip())
    ('step 1\\n', 65536)
    """
    if len(text) <= _LONGEST_WHOLE:
        return text
    size, spans = 0, list[tuple[int, int]]()
    for at in reversed(_marks(text)):
        end = min(at + _AROUND, spans[-1][0]) if spans else at + _AROUND
        start = max(0, at - _AROUND)
        if start < end:
            spans.append((text.rfind("\n", 0, start) + 1, end))
            size += end - start
        if size > _LONGEST:
            break
    return _blanked(text, spans[::-1] or [(0, _AROUND)])


def _message_marks() -> Iterator[str]:
    """The words of messages; documents are read whole, and some of their words are in any log."""
    return (mark for each in ENVELOPES if not each.is_document for mark in each.marks)


def _marks(text: str) -> list[int]:
    found = {0}
    for mark in STEMS if len(text) > _HUGE else _message_marks():
        at = text.find(mark)
        while at >= 0:
            found.add(at)
            at = text.find(mark, at + _AROUND)
    at = 0 if len(text) <= _HUGE else max(0, len(text) - _HUGE)
    while (match := _INSTRUCTION.search(text, at)) is not None:
        found.add(match.start())
        at = match.start() + _AROUND
    return sorted(found)


def _blanked(text: str, kept: list[tuple[int, int]]) -> str:
    parts, at = list[str](), 0
    for start, end in kept:
        parts += ("\n" * text.count("\n", at, start), text[start:end])
        at = end
    return "".join(parts)
