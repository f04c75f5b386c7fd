"""Reader of the warnings about involuntary full rematerialization.

Mirrors the messages of `PartitionedHlo::ReshardNoCache` of xla/service/spmd/spmd_partitioner.cc, from 2022 on.
"""

from __future__ import annotations

import re
from bisect import bisect
from typing import Final

from hlo_cli.ir.compiler_messages import ReshardingWarning
from hlo_cli.lazy_regex import lazy_regex

_BROKEN: Final = r"\s*+"
_START: Final = lazy_regex(
    r"(?:(?<!\w)(\w++\.cc:[0-9]++)\]\s*+)?+(?:\[[Ss]\s*+[Pp]\s*+[Mm]\s*+[Dd]\s*+\]\s*+)?+[Ii]\s*+"
    + _BROKEN.join("nvoluntaryfullrematerialization")
)
_SHARDINGS: Final = lazy_regex(r"f\s*+r\s*+o\s*+m\s*+(?:sharding\s*+)?+(?=\{)")
_TO: Final = lazy_regex(r"\s*+(?:t\s*+o|->)\s*+(?:sharding\s*+)?+(?=\{)")
_OPERATION: Final = lazy_regex(r"for\s*+(?:HLO\s*+operation:?\s*+)?+(?=%)")
_END: Final = lazy_regex(
    r"(?:\.|(?<![\s.]))\s*+(?:You\s*+probably\s*+want|As\s*+the\s*+last\s*+resort|->\s*+SPMD|This\s*+issue\s*+will)"
)
_LIST_BREAK: Final = lazy_regex(
    r"(?<=[0-9])([,\])]) (?=[0-9])|(?<=[0-9]) ([,\])])|(?<=[\[(]) (?=[0-9])|(?<=\]) (?=<=|T\()|(?<=<=) (?=\[)"
)
_WITHOUT_SPACE: Final = lazy_regex(r"(?<=[0-9)\]])(?=last_tile_dims?=?)|(?<=maximal)(?=device)")
_WELL_FORMED: Final = lazy_regex(
    r"\{(?:devices=\[[0-9,]++\](?:<=\[[0-9,]++\](?:T\([0-9,]++\))?+|[0-9,]*+)"
    r"(?: last_tile_dim_replicate| last_tile_dims=\{[a-z, ]++\})?+|(?:maximal )?+[a-z]++(?:=[0-9]++)?+)\}"
)
_INSTRUCTION: Final = lazy_regex(r"%[\w.\-]++ = \(?+[a-z][a-z0-9]*+\[[0-9,<=]*+\]")
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
    found = list[ReshardingWarning]()
    for match, end in zip(starts, ends, strict=True):
        line = bisect(breaks, match.start()) + 1
        rest = text[match.end() : min(end, match.end() + _LONGEST)]
        read = _warning(rest, match[1] or "", line)
        if "\n" in rest:  # a terminal also breaks words
            read = max(read, _warning(rest.replace("\n", ""), match[1] or "", line), key=_certainty)
        found.append(read)
    return tuple(found)


def _certainty(warning: ReshardingWarning) -> int:
    """How much of a warning could be read; the first of equals is taken."""
    shardings = [_WELL_FORMED.fullmatch(each) is not None for each in (warning.before, warning.after)]
    operation = _INSTRUCTION.match(warning.operation) is not None
    return 4 * sum(shardings) + 2 * operation + bool(warning.before) + bool(warning.after)


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
    """The sharding in one line; breaks within its lists are none of its author."""
    one_line = _LIST_BREAK.sub(lambda match: match[1] or match[2] or "", " ".join(text.split()))
    return _WITHOUT_SPACE.sub(" ", one_line)
