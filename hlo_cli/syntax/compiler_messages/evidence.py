"""Does a line report a failure, or does it only have the words of one, as settings, programs, and prose do?

The words of a cause are in many texts: `timeout` is a setting, `Connection refused` a string of a program, and
`Evicted` a word of a letter. A line is a report if it has a form that only reports have: a severity of a log, an
exception, a status, the words of strerror(3) behind what failed, or the words of a shell on a process that ended.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.lazy_regex import lazy_regex

# --- forms of reports ---

_STATUSES: Final = (
    "ABORTED|ALREADY_EXISTS|CANCELL?ED|DATA_LOSS|DEADLINE_EXCEEDED|FAILED_PRECONDITION|INTERNAL|INVALID_ARGUMENT|NOT_FOUND"
    "|OUT_OF_RANGE|PERMISSION_DENIED|RESOURCE_EXHAUSTED|UNAUTHENTICATED|UNAVAILABLE|UNIMPLEMENTED|UNKNOWN"
)
_SEVERE: Final = lazy_regex(
    r"\b(?:ERROR|ERR|FATAL|CRITICAL|SEVERE|PANIC|FAILED|WARN(?:ING)?|Warning)\b(?! SUMMARY|[:=] ?0\b)"
    r"|\b(?:[Ee]rror|[Ff]atal|[Pp]anic)(?:\[\w{1,12}\])?: (?=\S)|\[(?:error|fatal|warn(?:ing)?)\]"
    r"|\[Errno \d|\berrno\b|\b[Ee]rror (?:code )?-?[1-9]|\b\w{2,20} error(?:: |$)"
    r"|(?<![\w.])[EFW]\d{4} \S|: [EFW] \S|\[[EFW] \d|\[[EFW]\d{4} "
    r"|\w(?:Error|Exception|Warning|Interrupt|Failure|Exit)\b(?: \w{1,3})?:(?: |$)"
    rf"|\b(?:{_STATUSES})\b(?::|\s*$)|StatusCode\.[A-Z]|rpc error"
    r"|\b(?:level|severity|lvl)\"?[=:] ?\"?(?:err|fatal|crit|warn|panic|ERR|FATAL|CRIT|WARN)"
    r"|Check failed|RET_CHECK|terminate called|core dumped|\*\*\* |Uncaught "
    r"|\b[Ff]ailed(?:: (?!\d)| to \w)|\bmismatch: "
    r"|\b[Cc]ould not \w|^[Cc]annot \w|\b[Uu]nable to \w"
    r"|\b(?:exited|finished|terminated|failed|killed|died|crashed|ended|returned)\b.{0,60}?"
    r"\b(?:code|status|returncode)\b[ :=]{0,3}-?[1-9]"
)
"""A severity, an exception, or a status."""
_PREFIX: Final = (
    r"[ \t>]*+(?:(?:\[[^\]\n]{1,60}\]|\([^)\n]{1,60}\)|\d[\d:./T\-]{3,30}[,.]?\d{0,9}Z?|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun"
    r"|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)|\d{1,9}|[\w./\-]{1,120}\.(?:cc|cu|h|cpp|py|go|c):\d{1,6}[\])]?"
    r"|[\w./\-]{1,60}(?:\[\d{1,7}\])?:|external/xla/\S{1,160})[: \-]{1,4})*+"
)
"""What a log writes before a message: times, ranks, hosts, processes, and places."""
_BARE: Final = re.compile(_PREFIX)
_LOGGED: Final = lazy_regex(
    r"[ \t>]*+(?:\[[^\]\n]{2,60}\]|\(\w{1,60} pid=|\d{2,4}[:\-/.]\d\d|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:|\d{1,6}: "
    r"|[\w./\-]{1,120}\.(?:cc|cu|h|cpp|py|go|c):\d|[\w.\-]{1,60}\[\d{1,7}\]:)"
)
"""A time, a rank, a process, or a place before a message, which no prose has."""
_FAILING: Final = lazy_regex(
    r"\b(?:fail(?:ed|ure)|cannot|could not|couldn't|unable to|timed out|denied|refused|lost|died|crash\w*|killed"
    r"|abort\w*|mismatch\w*|unexpected\w*|exceed\w*|exited|unreachable|not respond\w*)\b",
    re.IGNORECASE,
)
_END: Final = re.compile(r"\s*(?:$|[:.(\[\]'\")])", re.MULTILINE)

# --- forms of other texts ---

_HARMLESS_LEVEL: Final = lazy_regex(
    r"^.{0,80}?(?:\b(?:INFO|DEBUG|TRACE|NOTICE)\b|(?<![\w.])I\d{4} \d|: I \S|\[(?:info|debug|notice)\]"
    r"|\b(?:level|severity|lvl)\"?[=:] ?\"?(?:info|debug|notice|INFO|DEBUG|NOTICE))"
)
_PASSED: Final = lazy_regex(r"\bPASS(?:ED)?\b|\[ {1,8}OK \]|(?:\.\.\.|-) ok\b|^\s*[✓✔]|\bPassed\b")
_CODE: Final = lazy_regex(
    r"[;{]\s*$|^[^\"\n]*\}\s*$|^\s*(?:case|if|elif|return|throw|raise|except|catch|rescue|for|while|switch|func|fn|def|let"
    r"|var|const|static|public|private|trap|echo|puts|import|from|using|namespace|template|SELECT|INSERT|CREATE|SET)\b"
    r"|^\s*(?:#(?:define|include|!)|//|/\*|\* |\*/|--|<\w|</|\\\w)"
    r"|\b(?:log(?:ger|ging)?|console|fmt|System\.out|print(?:f|ln)?|printf|puts|echo)[.(]"
)
"""A line of a program, whose messages are strings and whose codes are constants."""
_OPERATOR: Final = lazy_regex(r" (?:==|!=|&&|\|\||=>|:=) |::\w+\(")
"""What programs have, and those messages that quote a check which failed: these have a severity."""


def is_severe(line: str) -> bool:
    """Whether a line has the form of an error or a warning, whatever its words: an exception, a status, or a severity.

    >>> is_severe("RuntimeError: no engine"), is_severe("the error is 0.2"), is_severe("raise ValueError: x;")
    (True, False, False)
    """
    return not _is_other(line) and _SEVERE.search(line) is not None


def _is_other(line: str) -> bool:
    return _PASSED.search(line) is not None or _CODE.search(line) is not None


_MAX_AROUND: Final = 400
"""Characters of a line before and after a match that are read: a severity is at its begin, a code at its end."""


def is_report(text: str, start: int, end: int, *, is_certain: bool = False) -> bool:
    r"""Whether the lines of a match in a text report a failure; of certain words, whether they are not in a program.

    >>> def of(text, words):
    ...     return is_report(text, start := text.index(words), start + len(words))
    >>> of("E0512 13:37:00 1 a.cc:3] timed out", "timed out"), of("timed out,30,s", "timed out")
    (True, False)
    >>> of("cp: /a/b: No space left on device", "No space left on device"), of("puts('Broken pipe');", "Broken pipe")
    (True, False)
    """
    first = max(text.rfind("\n", 0, start) + 1, start - _MAX_AROUND)
    last = text.find("\n", end, end + _MAX_AROUND)
    line = text[first : min(len(text), end + _MAX_AROUND) if last < 0 else last]
    if _is_other(line):
        return False
    if (
        (is_certain and not _OPERATOR.search(line))
        or _SEVERE.search(line)
        or text.find("Traceback (most recent call last)", 0, start) >= 0
    ):
        return True
    if _HARMLESS_LEVEL.search(line) or _OPERATOR.search(line):
        return False
    content = first + (prefix.end() if (prefix := _BARE.match(line)) else 0)
    is_alone = (start <= content or text.startswith(": ", start - 2)) and _END.match(text, end) is not None
    return is_alone or (_LOGGED.match(line) is not None and _FAILING.search(line) is not None)
