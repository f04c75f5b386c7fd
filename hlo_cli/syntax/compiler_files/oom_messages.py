"""The places of out-of-memory messages in a text, and the figures in their first sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.syntax.compiler_files.byte_texts import byte_number
from hlo_cli.syntax.compiler_files.oom_heads import GPU_HEADS, TPU_HEADS, Head
from hlo_cli.syntax.compiler_files.oom_other_heads import OTHER_HEADS, WEAK_HEADS
from hlo_cli.syntax.compiler_files.oom_squeezed import Squeezed, squeezed_pattern

MESSAGES: Final = tuple(head for head in (*TPU_HEADS, *GPU_HEADS, *OTHER_HEADS) if not head.is_weak)
SIGNS: Final = tuple(head for head in (*OTHER_HEADS, *WEAK_HEADS) if head.is_weak)
SPARSE_CORE_SPACES: Final = {"0": "smem", "201": "tile_spmem", "202": "spmem", "203": "hbm", "204": "sflag"}
"""Memory spaces of SparseCore by their numbers."""

_PLAIN = re.compile(r"[A-Za-z_:,'/-]+(?![?*+{|])")
_LONGEST_BEFORE: Final = 400
_NO_FAILURE = re.compile(r".{0,200}?Thecallerindicatesthatthisisnotafailure")
_KILOBYTES: Final = ("virtual", "anonymous", "file", "shared")
_TPU_LIST = re.compile(
    r"Largestprogramallocationsin(\w{1,12}?):|(?:[0-9]{1,4}\\?\.)?Size:[0-9.]{1,20}[KMGT]?i?B?(?:Operator:[^\n]{0,2000}?)?Shape:"
    r"[^\n]{0,400}?(?:Unpaddedsize:|Allocationtype:)"
)
_GPU_LIST = re.compile(r"Peakbuffers:|Buffer[0-9]{1,6}:Size:[0-9]|BufferAssignmentstats:")
_TOLD_USED = re.compile(
    r"(?:requested|requires?|required|needs?|needed)(?:HBM|VMEM|memory)?:?[~≈]?(?P<used>[0-9]{1,9}(?:\.[0-9]{1,6})?[KMGT]i?B?)"
)
_TOLD_LIMIT = re.compile(
    r"(?:againsta?|available(?:HBM|VMEM|memory)?:?|limit(?:of|:)?)[~≈]?(?P<limit>[0-9]{1,9}(?:\.[0-9]{1,6})?[KMGT]i?B?)"
)
_TOLD_WITHIN: Final = 300
_CODE = re.compile(r"(E[0-9]{4}):\w{1,60}:(?:XLA:TPUcompilepermanenterror\.)?\Z|\b(E[0-9]{4}):\Z")
_CODE_BEFORE: Final = 120


@dataclass(frozen=True, slots=True)
class FoundHead:
    """The first sentence of a message: its place in the text without whitespace, and its named parts."""

    head: Head
    start: int
    end: int
    groups: dict[str, str]
    ends: dict[str, int]
    code: str = ""

    def size(self, *names: str) -> int | None:
        """The first known of several sizes, in bytes."""
        for name in names:
            if text := self.groups.get(name):
                return number_of(text) * (1024 if name in _KILOBYTES else self.head.unit)
        return None


def number_of(text: str) -> int:
    """A number of bytes, decimal with or without thousands separators, or hexadecimal.

    >>> number_of("0x10"), number_of("1,024"), number_of("2.0K")
    (16, 1024, 2048)
    """
    return int(text, 16) if text.startswith("0x") else byte_number(text.replace(",", ""))


def found_heads(squeezed: Squeezed) -> list[FoundHead]:
    """The messages in a text, without retries that are not failures; weak signs only if there is nothing else.

    >>> from hlo_cli.syntax.compiler_files.oom_squeezed import squeeze
    >>> [found] = found_heads(squeeze("E: Out of memory allocating 64 bytes."))
    >>> found.head.target, found.size("used")
    ('cpu', 64)
    """
    strong = [found for found in _matches(squeezed, MESSAGES) if not _is_below_limit(found)]
    if strong:
        return strong
    sign = next(_matches(squeezed, SIGNS), None)
    return [_retold(sign, squeezed)] if sign is not None else []


def _matches(squeezed: Squeezed, heads: tuple[Head, ...]) -> Iterator[FoundHead]:
    """The matches in order; of overlapping ones the first and longest."""
    text = squeezed.text
    found = [(match.start(), -match.end(), number) for number, match in _candidates(text, heads)]
    end = 0
    for start, _, number in sorted(found):
        head, (pattern, before, _) = heads[number], _patterns(heads)[number]
        match = pattern.match(text, start)
        if match is None or start < end or (head.kind == "gpu-allocator" and _NO_FAILURE.match(text, match.end())):
            continue
        end = match.end()
        groups, ends = _groups(match)
        if before is not None and (earlier := before.search(text, max(0, start - _LONGEST_BEFORE), start)):
            more, more_ends = _groups(earlier)
            groups, ends, start = more | groups, more_ends | ends, earlier.start()
        elif head.needs_before:
            continue
        for name in groups.keys() & {"device", "device2"}:
            groups[name] = squeezed.first_word(ends[name] - len(groups[name]), ends[name])
        code = _CODE.search(text, max(0, start - _CODE_BEFORE), start)
        yield FoundHead(head, start, match.end(), groups, ends, (code[1] or code[2]) if code else "")


def _candidates(text: str, heads: tuple[Head, ...]) -> Iterator[tuple[int, re.Match[str]]]:
    for number, (pattern, _, literal) in enumerate(_patterns(heads)):
        if literal in text:
            yield from ((number, match) for match in pattern.finditer(text))


def _groups(match: re.Match[str]) -> tuple[dict[str, str], dict[str, int]]:
    groups = {name: value for name, value in match.groupdict().items() if value is not None}
    return groups, {name: match.end(name) for name in groups}


def _is_below_limit(found: FoundHead) -> bool:
    """Whether a sentence `Used 1G of 2G hbm` by itself is no failure."""
    used, limit = found.size("used"), found.size("limit")
    is_usage = found.head.pattern.startswith("Used") and "over" not in found.groups
    return is_usage and used is not None and limit is not None and used <= limit


def _retold(found: FoundHead, squeezed: Squeezed) -> FoundHead:
    """A sign with the figures that a person wrote after it."""
    end = found.end + _TOLD_WITHIN
    told: dict[str, str] = {}
    for pattern in (_TOLD_USED, _TOLD_LIMIT):
        if match := pattern.search(squeezed.text, found.end, end):
            told |= match.groupdict()
    return FoundHead(found.head, found.start, found.end, found.groups | told, found.ends, found.code)


@cache
def _patterns(heads: tuple[Head, ...]) -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None, str], ...]:
    """For each head its pattern, the one for the text before it, and the plain text with which it begins."""
    return tuple(
        (
            re.compile(squeezed_pattern(head.pattern)),
            re.compile(f"(?:{squeezed_pattern(head.before)})\\Z") if head.before else None,
            _plain_start(squeezed_pattern(head.pattern)),
        )
        for head in heads
    )


def _plain_start(pattern: str) -> str:
    found = _PLAIN.match(pattern)
    return found[0].rstrip("\\") if found else ""


def headless(squeezed: Squeezed) -> list[FoundHead]:
    """A message whose first sentence is missing, if a list of allocations or a buffer assignment is there.

    >>> from hlo_cli.syntax.compiler_files.oom_squeezed import squeeze
    >>> [found] = headless(squeeze("  2. Size: 8.00G\\n  Shape: f32[8]{0}\\n  Allocation type: HLO temp"))
    >>> found.head.kind
    'tpu-hbm'
    """
    text = squeezed.text
    if found := _TPU_LIST.search(text):
        space = found[1] or "hbm"
        head = Head("tpu-other" if space != "hbm" else "tpu-hbm", "compile", "tpu", "", space)
    elif found := _GPU_LIST.search(text):
        head = Head("gpu-buffer-assignment", "run", "gpu", "")
    else:
        return []
    return [FoundHead(head, found.start(), found.start(), {}, {})]
