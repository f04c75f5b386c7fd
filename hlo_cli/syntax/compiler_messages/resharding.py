"""Reader of the warnings about involuntary full rematerialization.

Mirrors the messages of `PartitionedHlo::ReshardNoCache` of xla/service/spmd/spmd_partitioner.cc, from 2022 on.
"""

from __future__ import annotations

import re
from bisect import bisect
from typing import Final

from hlo_cli.ir.compiler_files.resharding import ReshardingWarning
from hlo_cli.lazy_regex import lazy_regex

_START: Final = lazy_regex(
    r"(?:(?<!\w)(\w++\.cc:[0-9]++)\]\s*+)?+(?:\[[Ss][Pp][Mm][Dd]\]\s*+)?+[Ii]nvoluntary\s++full\s++rematerialization"
)
_SHARDINGS: Final = lazy_regex(r"from\s++(?:sharding\s++)?+(?=\{)")
_TO: Final = lazy_regex(r"\s*+(?:to|->)\s++(?:sharding\s++)?+(?=\{)")
_OPERATION: Final = lazy_regex(r"for\s++(?:HLO\s++operation:?\s++)?+(?=%)")
_END: Final = lazy_regex(
    r"(?:\.|(?<![\s.]))\s*+(?:You\s++probably\s++want|As\s++the\s++last\s++resort|->\s++SPMD|This\s++issue\s++will)"
)
_BRACE: Final = re.compile(r"[{}]")
_LONGEST: Final = 1 << 18
_LONGEST_SHARDING: Final = 1 << 16


def parse_resharding_warnings(text: str) -> tuple[ReshardingWarning, ...]:
    """The warnings in a text, in order.

    >>> text = "[spmd] Involuntary full rematerialization. The compiler was not able to go from sharding "
    >>> parse_resharding_warnings(text + "{replicated} to {devices=[4]<=[4]} without")[0].after
    '{devices=[4]<=[4]}'
    """
    starts = list(_START.finditer(text))
    if not starts:
        return ()
    ends = [*(match.start() for match in starts[1:]), len(text)]
    breaks = [at for at, character in enumerate(text) if character == "\n"]
    return tuple(
        _warning(
            text[match.end() : min(end, match.end() + _LONGEST)], match[1] or "", bisect(breaks, match.start()) + 1
        )
        for match, end in zip(starts, ends, strict=True)
    )


def _warning(text: str, raised_at: str, line: int) -> ReshardingWarning:
    before = after = ""
    at = 0
    if (match := _SHARDINGS.search(text)) is not None:
        at = _braced_end(text, match.end())
        before = _joined(text[match.end() : at])
        if (to := _TO.match(text, at)) is not None:
            at = _braced_end(text, to.end())
            after = _joined(text[to.end() : at])
    operation = _OPERATION.search(text, at)
    if operation is None:
        return ReshardingWarning(before, after, "", raised_at, line)
    end = _END.search(text, operation.end())
    return ReshardingWarning(before, after, text[operation.end() : end.start() if end else len(text)], raised_at, line)


def _braced_end(text: str, start: int) -> int:
    """The offset after the brace that closes the one at `start`, or of the end of the text."""
    depth = 0
    for match in _BRACE.finditer(text, start, start + _LONGEST_SHARDING):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.end()
    return min(len(text), start + _LONGEST_SHARDING)


def _joined(text: str) -> str:
    return " ".join(text.split())
