"""Errors for texts without an out-of-memory message: what the text is instead."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.source import HloError, Source, Span

_CLIPPED: Final = 100
_LONGEST: Final = 100_000
_KILLED: Final = "a process that was killed, which the kernel does when the host has no memory left"
_OTHERS: Final = (
    (
        r"[Qq]uota (?:exceeded|limit)|QUOTA_EXCEEDED|insufficient quota|[Rr]ate limit",
        "a quota or rate limit of a service",
    ),
    (r"(?:[Rr]eceived|[Ss]ent) message larger than max", "a gRPC message over the size limit"),
    (r"no more capacity in the zone|stockout|ZONE_RESOURCE_POOL_EXHAUSTED", "a lack of machines in a cloud zone"),
    (r"Too many open files|EMFILE", "too many open files"),
    (r"No space left on device|ENOSPC", "a full disk"),
    (r"Resource temporarily unavailable|can't start new thread", "too many threads or processes"),
    (r"(?m:^(?:\S{1,40}: )?[Kk]illed(?=\s|$))|[Ee]xit ?[Cc]ode:? 137\b|signal 9\b|SIGKILL", _KILLED),
    (r"The caller indicates that this is not a failure", "a retry of an allocator that is not a failure"),
    (r"Total \w{2,8} usage >=|program HBM usage:", "a report of memory usage without a failure"),
)
_OTHER: Final = tuple((re.compile(pattern), what) for pattern, what in _OTHERS)
_STATUS = re.compile(
    r"\b(INVALID_ARGUMENT|UNIMPLEMENTED|INTERNAL|FAILED_PRECONDITION|DEADLINE_EXCEEDED|UNAVAILABLE|NOT_FOUND|ABORTED"
    r"|CANCEL{1,2}ED|PERMISSION_DENIED|UNAUTHENTICATED|OUT_OF_RANGE|DATA_LOSS|ALREADY_EXISTS|UNKNOWN): ?([^\n]{0,200})"
)
_EXCEPTION = re.compile(
    r"^(?:[\w.]{1,100}\.)?([A-Z]\w{1,60}(?:Error|Exception|Interrupt)): ([^\n]{0,200})", re.MULTILINE
)
_EXHAUSTED = re.compile(r"RESOURCE_EXHAUSTED|[Rr]esource exhausted|ResourceExhausted")


def refusal(source: Source) -> HloError:
    """The error for a text without an out-of-memory message; it names what the text is.

    >>> refusal(Source("", "RESOURCE_EXHAUSTED: Quota exceeded for requests")).diagnostics[0].message
    'no XLA out-of-memory message found; the text reports a quota or rate limit of a service'
    """
    text = source.text
    start = max(0, text.find("RESOURCE_EXHAUSTED") - _LONGEST // 2)
    end = start + _LONGEST
    for pattern, what in _OTHER:
        if found := pattern.search(text, start, end):
            return _error(source, found, f"; the text reports {what}", "")
    if found := _EXHAUSTED.search(text, start, end):
        return _error(source, found, "; RESOURCE_EXHAUSTED does not name a memory")
    if found := _STATUS.search(text, start, end) or _EXCEPTION.search(text, start, end):
        return _error(source, found, f"; the error is {found[1]}: {_clipped(found[2])}", "")
    return _error(source, None, "")


def _error(source: Source, found: re.Match[str] | None, what: str, hint: str | None = None) -> HloError:
    hint = "paste the complete error, starting at RESOURCE_EXHAUSTED" if hint is None else hint
    span = Span(*found.span()) if found else Span(0, 0)
    return HloError(f"no XLA out-of-memory message found{what}", span, source=source, hint=hint or None)


def _clipped(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _CLIPPED else text[: _CLIPPED - 1] + "…"
