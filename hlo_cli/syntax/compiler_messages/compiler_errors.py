"""Reader of error messages of XLA and the compilers next to it: status, place, check, and the rule that is violated.

Mirrors xla/status_macros.cc (RET_CHECK), absl/status, and the context and pass names that
xla/hlo/pass/hlo_pass_pipeline.cc and xla/service/hlo_verifier.cc add.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final

from hlo_cli.ir.compiler_messages import CompilerError, ErrorRule
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.compiler_messages.program_rules import PROGRAM_RULES
from hlo_cli.syntax.compiler_messages.shape_rules import SHAPE_RULES
from hlo_cli.syntax.compiler_messages.verifier_rules import VERIFIER_RULES

_STATUS: Final = lazy_regex(
    r"\b(?:(INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|FAILED_PRECONDITION|NOT_FOUND|UNKNOWN|ABORTED|UNAVAILABLE"
    r"|OUT_OF_RANGE|DEADLINE_EXCEEDED|CANCEL{1,2}ED|ALREADY_EXISTS|PERMISSION_DENIED|DATA_LOSS|RESOURCE_EXHAUSTED)"
    r"|(Internal|Invalid ?[Aa]rgument|Unimplemented|Failed ?[Pp]recondition|Not ?[Ff]ound|Unknown))(?= ?: )"
)
_CODE: Final = lazy_regex(r"\(code=([0-9]{1,2})\)")
_CODES: Final = {"2": "UNKNOWN", "3": "INVALID_ARGUMENT", "5": "NOT_FOUND", "9": "FAILED_PRECONDITION"} | {
    "11": "OUT_OF_RANGE", "12": "UNIMPLEMENTED", "13": "INTERNAL", "14": "UNAVAILABLE"
}  # fmt: skip
_CONTEXT: Final = lazy_regex(r"during context \[([^\]\n]{1,200}+)\]")
_NO_CONTEXT: Final = "Unknown"
"""What XLA prints in the place of a context that it does not have."""
_FAILED_AFTER: Final = lazy_regex(r"Failed after ([\w\-.]++)")
_RAISED: Final = lazy_regex(r"(?:RET_CHECK failure \(|\b)([\w./\-]{1,200}\.(?:cc|h|cu)):([0-9]++)(?:\)|\])")
_CHECK: Final = lazy_regex(r"(?:RET_CHECK failure \([^)\n]{1,300}\)|Check failed:) ([^\n]{1,600})")
_EXCEPTION: Final = lazy_regex(
    r"^[ \t]*+(?:E   )?+(?:\*\* \()?+[\w.]{0,120}?(?:Error|Exception)\b\)?+:? [^\n]{1,2000}", re.MULTILINE
)
_FRAME: Final = lazy_regex(r"^[ \t]*+File \"([^\"\n]{1,400}+)\", line ([0-9]{1,7}+)", re.MULTILINE)
_LIBRARIES: Final = ("site-packages", "dist-packages", "<frozen", "/lib/python")
_MARK: Final = re.compile(
    r"INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|FAILED_PRECONDITION|NOT_FOUND|UNKNOWN:|Check failed|RET_CHECK|rror\b"
    r"|Expected |must |disallowed|Unbounded|halted|Halted|No such"
)
_WINDOW: Final = 1 << 14
_LEAD: Final = 1 << 12
_MOST_ERRORS: Final = 10
_BEFORE: Final = 2000


def parse_compiler_errors(text: str) -> tuple[CompilerError, ...]:
    """The errors in a text, each distinct one once: those with a known rule first, or else the most telling line.

    >>> [found] = parse_compiler_errors("INVALID_ARGUMENT: Binary op with incompatible shapes: f32[2,3] and f32[3,2].")
    >>> found.status, found.rule.key, found.fields["left"]
    ('INVALID_ARGUMENT', 'operand shapes', 'f32[2,3]')
    >>> [found] = parse_compiler_errors("E] INTERNAL: RET_CHECK failure (xla/a/b.cc:7) x < 3 too many\\nStack:")
    >>> found.raised_at, found.condition
    ('xla/a/b.cc:7', 'x < 3 too many')
    """
    text = essential_text(text)
    breaks = [match.start() for match in re.finditer(r"\n", text)]
    found = dict[tuple[str, tuple[str, ...]], CompilerError]()
    for rule, match in _matches(text):
        fields = {name: " ".join(value.split()) for name, value in match.groupdict(default="").items()}
        error = _error(text, rule, match.start(), match.end(), fields, breaks)
        place = (fields.get("row", ""), fields.get("column", ""))
        key = ("syntax", place) if any(place) else (rule.key, tuple(fields.values()))
        found.setdefault(key, error)
    return tuple(found.values()) or tuple(_unknown(text, breaks))


def essential_text(text: str) -> str:
    """The text around its first and last message; of the rest of a long text, only the line breaks remain.

    >>> essential_text("a\\n" * 50_000 + "Check failed: x").strip()[-15:]
    'Check failed: x'
    """
    if len(text) <= 2 * _WINDOW:
        return text
    first = _MARK.search(text)
    start = max(0, (first.start() if first else 0) - _LEAD)
    last = _last_mark(text, start)
    end = min(len(text), start + _WINDOW)
    tail = max(end, last - _LEAD)
    parts = (_breaks(text[:start]), text[start:end], _breaks(text[end:tail]), text[tail : tail + _WINDOW])
    return "".join(parts)


def _last_mark(text: str, start: int) -> int:
    """The offset of the last mark, looked for in pieces from the end; `start` if there is none after it."""
    for at in range(len(text) - _WINDOW, start, -_WINDOW):
        found = [match.start() for match in _MARK.finditer(text, at, at + _WINDOW)]
        if found:
            return found[-1]
    return start


def _breaks(text: str) -> str:
    return "\n" * text.count("\n")


def _matches(text: str) -> Iterator[tuple[ErrorRule, re.Match[str]]]:
    """The messages with a rule, in the order of the text; of overlapping ones the first rule."""
    taken = list[re.Match[str]]()
    ordered = list[tuple[int, ErrorRule, re.Match[str]]]()
    for pattern, rule in _rules():
        for match in islice(pattern.finditer(text), _MOST_ERRORS):
            if not any(each.start() < match.end() and match.start() < each.end() for each in taken):
                taken.append(match)
                ordered.append((match.start(), rule, match))
    general = {"unsupported operation", "StableHLO or MLIR", "Mosaic kernel", "syntax", "halted device"}
    is_special = any(rule.key not in general for _, rule, _ in ordered)
    for _, rule, match in sorted(ordered, key=lambda each: each[0]):
        if not (is_special and rule.key in general):
            yield rule, match


@cache
def _rules() -> tuple[tuple[re.Pattern[str], ErrorRule], ...]:
    return tuple(
        (re.compile(_spaced(pattern)), rule) for pattern, rule in (*VERIFIER_RULES, *SHAPE_RULES, *PROGRAM_RULES)
    )


def _spaced(pattern: str) -> str:
    """The pattern with any white space in place of each space outside of brackets."""
    parts = re.split(r"(\[(?:\\.|[^\]\\])*+\])", pattern)
    return "".join(part if at % 2 else part.replace(" ", r"\s++") for at, part in enumerate(parts))


def _unknown(text: str, breaks: list[int]) -> Iterator[CompilerError]:
    """The error without a rule: the last exception of a traceback, else the first line with a status or a check."""
    exceptions = list(_EXCEPTION.finditer(text))
    with_status = [match for match in exceptions if _STATUS.search(match[0])]
    chosen = with_status or exceptions
    match = chosen[-1] if chosen else _CHECK.search(text) or _STATUS.search(text)
    if match is not None:
        yield _error(text, None, match.start(), match.end(), {}, breaks)
    elif end := len(text.rstrip()):
        yield _error(text, None, text.rfind("\n", 0, end) + 1, end, {}, breaks)


def _error(
    text: str, rule: ErrorRule | None, start: int, end: int, fields: dict[str, str], breaks: list[int]
) -> CompilerError:
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    if rule is None and text.endswith(":", 0, line_end):  # the next line has the message
        line_end = max(line_end, text.find("\n", line_end + 1))
    around = text[max(0, start - _BEFORE) : line_end]
    status = _last(_STATUS, around)
    checked = _CHECK.search(text, line_start, line_end)
    failed = _FAILED_AFTER.search(text, start, min(len(text), end + _BEFORE))
    context = _last(_CONTEXT, around)
    raised = _RAISED.search(text, line_start, line_end)
    return CompilerError(
        rule,
        " ".join(text[line_start:line_end].split()),
        fields,
        bisect(breaks, start) + 1,
        status=_code(status, around),
        context=context[1] if context and context[1] != _NO_CONTEXT else "",
        failed_after=failed[1].rstrip(".") if failed else "",
        raised_at=f"{raised[1].removeprefix('external/xla/')}:{raised[2]}" if raised else "",
        condition=_condition(" ".join(checked[1].split())) if checked else "",
        user_line=_user_line(text),
    )


def _condition(text: str) -> str:
    """The check, without the sentence after it where brackets tell its end.

    >>> _condition("!(a != b) Reshape must not move"), _condition("a == b (1 vs. 2)")
    ('!(a != b)', 'a == b (1 vs. 2)')
    """
    start = text.find("(")
    if start not in (0, 1) or (start == 1 and text[0] != "!"):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and not depth:
            return text[: at + 1] if text[at + 1 : at + 3].lstrip()[:1].isupper() else text
    return text


def _code(status: re.Match[str] | None, around: str) -> str:
    if status is not None:
        return status[1] or status[2].upper().replace(" ", "_").replace("INVALIDARGUMENT", "INVALID_ARGUMENT")
    code = _last(_CODE, around)
    return _CODES.get(code[1], "") if code else ""


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _user_line(text: str) -> str:
    """The last line of a traceback that is not in a library."""
    frames = [match for match in _FRAME.finditer(text) if not any(part in match[1] for part in _LIBRARIES)]
    return f"{frames[-1][1]}:{frames[-1][2]}" if frames else ""
