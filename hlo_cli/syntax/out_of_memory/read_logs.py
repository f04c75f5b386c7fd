"""Which memory ran out, by a traceback, the logs of many workers, or prose with a message in it."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module
from hlo_cli.ir.out_of_memory import OutOfMemory
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.compiler_files.memory_files import Places, Shapes
from hlo_cli.syntax.out_of_memory.allocations import Details, usage_text, with_usage
from hlo_cli.syntax.out_of_memory.message_heads import FoundHead, found_heads, headless, squeeze
from hlo_cli.syntax.out_of_memory.one_message import join_messages, message_of, with_tables_before

# --- logs as they were printed ---
# Logs and tracebacks without the marks of terminals, loggers, and quoting: messages as they were printed.


_LINE = re.compile(r"[^\n]++")
_ESCAPED_BREAK = re.compile(r"\\{1,4}+n|<br ?/?>")
_MARKS = re.compile(
    r"(?:\x1b|\^\[|\\x1b|\\u001b|\\033|\\e)?\[[0-9]{0,3}(?:;[0-9]{1,3}){0,6}[mK](?!\w*\])|\x1b\[[0-9;?]{0,12}[A-Za-z]"
    r"|\x1b\][^\x07\n]{0,200}\x07|[\r\u200b\ufeff]"
)
_MARKED = re.compile(r"[\x1b\r\u200b\ufeff]|\[[0-9;]{1,12}m")
_QUOTE = re.compile(r"(?:[ \t]*+(?:>|&gt;|#{1,6}(?= |$)|//|[|│║])[ ]?)++")
_SUFFIX = re.compile(r"(?<![ │║\\])(?: *\[repeated [0-9]++x[^\]\n]*+\]| *\(repeated [0-9]++x\)| *[│║]| *\\)++$")
_TAG = re.compile(
    r"</?(?:div|span|pre|code|p|b|i|em|strong|li|ul|ol|td|tr|th|table|a|h[1-6]|blockquote)\b[^<>]{0,500}>"
)
_ESCAPES = re.compile(r"""\\++(["'t])""")
_TIME: Final = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_RECORD: Final = (
    r"[ \t]*[0-9]{1,7}(?:\t|(?=\([\w. -]{1,80}pid=))"
    rf"|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T]{_TIME}(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})?:?[ \t]*+"
    rf"|[IWEF][0-9]{{4,8}} (?:{_TIME}|[0-9]{{2}}:[0-9]{{2}}:[0-9.]{{4,20}})[ \t]++"
    rf"|(?:ERROR|INFO|WARNING|DEBUG|CRITICAL) (?:[0-9]{{2}}-[0-9]{{2}} )?(?:{_TIME} )?\[[\w./-]++:[0-9]++\](?:[ ]|$)"
    rf"|[A-Z][a-z]{{2}} {{1,2}}[0-9]{{1,2}} {_TIME} [\w.-]++ [\w./-]++(?:\[[0-9]++\])?:(?: |$)"
    r"|\[ {0,6}[0-9]{1,9}\.[0-9]{3,9}\](?:[ ]|$)"
    r"|\((?:[\w.:/ -]{1,80}[ ,])?(?:pid|ip)=[^)\n]{0,80}\)(?:[ ]|$)|\(raylet[^)\n]{0,80}\)(?:[ ]|$)"
    r"|(?:stdout|stderr) [FP](?:[ ]|$)|\[(?:rank|default|pod/|worker)[^\]\n]{0,120}\]:?(?:[ ]|$)"
    r"|\[[0-9]{1,4},[0-9]{1,5}\]<std(?:out|err)>:[ ]?|[0-9]{1,5}:(?:[ ]|$)|[\w.-]{1,80}[ \t]{1,20}\|(?:[ ]|$)"
    r"|(?:worker|host|node|task|rank)[-_ ]?[0-9]{1,5}(?::|[ ]\|)(?:[ ]|$)"
)
"""What begins a line of a log: a time, a process, a pod."""

_PATH: Final = (
    r"(?:[IWEF][ \t]++)?(?:[0-9]++[ \t]++)?[\w./\\:+-]{1,200}+(?<=:[0-9])[0-9]*+\](?:[ ]|$)"
    r"|(?:[IWEF][ \t]++)?(?:[0-9]++[ \t]++)?[\w./\\+-]{1,200}:[0-9]{1,6}\](?:[ ]|$)"
)
_BEGINS_RECORD = re.compile(_RECORD)
_PREFIX = re.compile(rf"(?:{_RECORD}|{_PATH})++")
_OPENS_LINE = re.compile(
    r"\s*(?:[0-9]{1,4}\. |={8}|Size: |Shape: |Operator: |XLA [Ll]abel: |Traceback |See |Allocation type: |Tag: "
    r"|Unpadded size: |Extra memory due|Entry Parameter|Buffer [0-9]"
    r"|Memory Space: |Total bytes: |cumulative_size; |[0-9.]{1,10}+[KMGTPE]?i?B\( *[0-9]{1,3}%\); |-{20}"
    r"|(?:parameter|constant|maybe_live_out|(?:preallocated )?temp|total) "
    r"(?:allocation|fragmentation): )"
)
_USUAL_WIDTHS: Final = (80, 100, 120, 132, 160, 200)
_MARGIN = re.compile(
    r"[ \t]*(?=[^ \t]{0,120}[0-9|\[(])(?![^ \t]{0,120}(?:[Ss]ize|%))[\w.\-/@\[\]():|,]{1,120}(?<=[|:\])])[ \t]{1,8}"
)
_LEAST_WIDTH: Final = 16  # no terminal is narrower; shorter lines that end alike are coincidence
_MOST_BLANKS: Final = 2  # two lines of the same width, or a margin on more than two lines, are not coincidence
_MOST_LONGER: Final = 2  # the quotes around a text and the last line can be longer than the terminal
_MOST_LOG_LINES: Final = 100_000  # a bound on the objects made: one for each line
_SNIPPET: Final = 12  # enough characters to find the place again after marks were removed from the line
_LONGEST_SUFFIX: Final = 400  # `[repeated 3x across cluster]` and colors; the pattern is not run over lines of many MB


@dataclass(frozen=True, slots=True)
class LogText:
    """A text without marks, and the offset of each of its pieces in the whole text."""

    text: str
    _source: str
    _starts: tuple[int, ...]
    _origins: tuple[int, ...]
    _ends: tuple[int, ...]

    def span(self, start: int, end: int) -> Span:
        """The span in the whole text of a part of this text."""
        first = self._origin(start)
        return Span(first, max(first, self._origin(max(start, end - 1)) + 1))

    def _origin(self, offset: int) -> int:
        piece = max(bisect_right(self._starts, offset) - 1, 0)
        origin = min(self._origins[piece] + max(offset - self._starts[piece], 0), self._ends[piece])
        known = self.text[offset : offset + _SNIPPET].partition("\n")[0]
        place = self._source.find(known, origin, self._ends[piece]) if known else -1
        return origin if place < 0 else place


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    origin: int
    end: int
    joins: bool = False
    width: int = 0


def _without_prefixes(text: str, start: int = 0, end: int | None = None) -> LogText:
    r"""Lines without log prefixes, quoting, and markup; wrapped lines are joined, a line break written as `\n` is one.

    >>> log = _without_prefixes("E0528 07:02:44.350251   27487 a.cc:28] no memory\\nleft [repeated 3x across cluster]")
    >>> log.text, log.span(0, 9)
    ('no memory\nleft\n', Span(start=39, end=48))
    """
    lines = _without_margins(islice(_decoded(text, start, len(text) if end is None else end), _MOST_LOG_LINES))
    pieces, starts, origins, ends, at = [], [], [], [], 0
    for line in _joined(lines):
        piece = line.text if line.joins else line.text + "\n"
        pieces.append(piece)
        starts.append(at)
        origins.append(line.origin)
        ends.append(line.end)
        at += len(piece)
    return LogText("".join(pieces), text, tuple(starts) or (0,), tuple(origins) or (start,), tuple(ends) or (start,))


def _decoded(text: str, start: int, end: int) -> Iterator[_Line]:
    """The lines, without terminal marks, markup, and escapes; of several empty lines in a row, one.

    Empty lines after every line are none of the text's.
    """
    filled = [line.span() for line in _LINE.finditer(text, start, end) if not line[0].isspace()]
    gaps = [text.count("\n", one[1], two[0]) for one, two in pairwise(filled)]
    least = min(gaps, default=1) if len(gaps) > 1 else 1
    for (begin, stop), gap in zip(filled, (least, *gaps), strict=False):
        if gap > least:
            yield _Line("", begin, begin)
        raw = text[begin:stop]
        if _MARKED.search(raw):
            raw = _MARKS.sub("", raw)
        raw = raw.rstrip() if raw.endswith("  ") else raw
        if "\\n" in raw or "<br" in raw:
            yield from _unescaped(raw, begin, stop)
        else:
            line = _without_markup(raw)
            yield _Line(line, begin, stop, width=len(line.expandtabs()))


def _unescaped(raw: str, origin: int, end: int) -> Iterator[_Line]:
    at = 0
    ends = [(match.start(), match.end()) for match in _ESCAPED_BREAK.finditer(raw)]
    for stop, after in (*ends, (len(raw), len(raw))):
        line = _without_markup(_ESCAPES.sub(_escape, raw[at:stop]))
        yield _Line(line, origin + at, end, width=len(line.expandtabs()))
        at = after


def _escape(match: re.Match[str]) -> str:
    return "\t" if match[1] == "t" else match[1]


def _without_markup(line: str) -> str:
    if "<" in line and ">" in line:
        line = _TAG.sub("", line)
    return html.unescape(line) if "&" in line and ";" in line else line


def _without_margins(decoded: Iterable[_Line]) -> list[_Line]:
    """The lines without quoting, and without the prefix and the indentation that all of them have."""
    lines = [_cut(line, _QUOTE.match(line.text)) for line in decoded]
    filled = [line.text for line in lines if line.text.strip()]
    common = _common_start(min(filled), max(filled)) if len(filled) > 1 else ""
    margin = _MARGIN.match(common) if len(filled) > _MOST_BLANKS else None
    size = margin.end() if margin else len(common) - len(common.lstrip())
    return (
        [_Line(line.text[size:], line.origin + size, line.end, width=line.width) for line in lines] if size else lines
    )


def _common_start(first: str, second: str) -> str:
    for index, (one, two) in enumerate(zip(first, second, strict=False)):
        if one != two:
            return first[:index]
    return min(first, second, key=len)


def _cut(line: _Line, prefix: re.Match[str] | None) -> _Line:
    if prefix is None or not prefix.end():
        return line
    return _Line(line.text[prefix.end() :], line.origin + prefix.end(), line.end, line.joins, line.width)


def _joined(lines: Sequence[_Line]) -> Iterator[_Line]:
    """The lines without log prefixes; a line that fills the width of the terminal has no line break after it."""
    sizes = Counter(line.width for line in lines)
    width = _width(sizes)
    whole: list[_Line] = []
    for number, line in enumerate(lines):
        whole.append(line)
        after = lines[number + 1].text if width and number + 1 < len(lines) else ""
        is_full = after and line.width == width
        if not is_full or _BEGINS_RECORD.match(after) or _OPENS_LINE.match(after):
            yield from _without_prefix(whole)
            whole = []


def _width(sizes: Counter[int]) -> int:
    """The width of the terminal that broke lines, 0 if none did; quotes around the text make some lines longer."""
    longer = 0
    for width in sorted(sizes, reverse=True)[: _MOST_LONGER + 1]:
        if width < _LEAST_WIDTH or longer > _MOST_LONGER:
            return 0
        if sizes[width] >= _MOST_BLANKS or (width in _USUAL_WIDTHS and not longer):
            return width
        longer += sizes[width]
    return 0


def _without_prefix(pieces: Sequence[_Line]) -> Iterator[_Line]:
    """The pieces of one line without its prefix and suffix; all but the last piece join the next one."""
    text = pieces[0].text if len(pieces) == 1 else "".join(piece.text for piece in pieces)
    prefix = _PREFIX.match(text)
    skipped = prefix.end() if prefix else 0
    for piece in pieces[:-1]:
        if skipped < len(piece.text):
            yield _Line(piece.text[skipped:], piece.origin + skipped, piece.end, joins=True)
        skipped = max(skipped - len(piece.text), 0)
    last = pieces[-1]
    at = max(skipped, len(last.text) - _LONGEST_SUFFIX)
    suffix = _SUFFIX.search(last.text, at)
    end = suffix.start() if suffix else len(last.text)
    yield _Line(last.text[skipped:end], last.origin + skipped, last.end)


# --- parts of a large text ---
# The parts of a large text that can hold out-of-memory messages.


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
# A log of this size is read in 0.2 s (measured); of longer ones, the first and last half of this.
MOST_CHARACTERS: Final = 1_500_000
_MOST_EXTRACT_LINES: Final = 60_000  # lines cost more than characters: each loses its prefix by a pattern
_BEFORE_SIGN: Final = 20_000  # the table of an allocator or the lines of the kernel come before the message
_AFTER: Final = 150_000  # the longest part of a message: lists of the largest allocations with their op_names
_LEAST: Final = 20_000  # what a part counts at least, so that a text full of signs does not give thousands of parts


def _extracts(text: str) -> tuple[tuple[int, int], ...]:
    """The offsets of the parts to read: all of a text of usual size, else the parts around signs of a message.

    Of many signs the first and the last parts are read.

    >>> _extracts("out of memory")
    ((0, 13),)
    """
    if len(text) <= MOST_CHARACTERS and text.count("\n") <= _MOST_EXTRACT_LINES:
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
    start = max(least, sign - _BEFORE_SIGN)
    start = max(least, text.rfind("\n", least, start) + 1) if start > least else least
    end = min(len(text), sign + _AFTER)
    if end < len(text) and (line := text.find("\n", end, end + _BEFORE_SIGN)) >= 0:
        end = line
    while text.count("\n", start, end) > _MOST_EXTRACT_LINES // 4:
        end = sign + (end - sign) // 2
    return start, max(end, sign + 1)


# --- texts without a message ---
# Errors for texts without an out-of-memory message: what the text is instead.


_CLIPPED: Final = 100  # of a status that the error quotes, about a line of a terminal
_LONGEST: Final = 100_000  # some ten patterns run over the text around the status
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


def _refusal(source: Source) -> HloError:
    """The error for a text without an out-of-memory message; it names what the text is.

    >>> _refusal(Source("", "RESOURCE_EXHAUSTED: Quota exceeded for requests")).diagnostics[0].message
    'no XLA out-of-memory message found; the text reports a quota or rate limit of a service'
    """
    text = source.text
    start = max(0, text.find("RESOURCE_EXHAUSTED") - _LONGEST // 2)
    end = start + _LONGEST
    for pattern, what in _OTHER:
        if match := pattern.search(text, start, end):
            return _error(source, match, f"; the text reports {what}", "")
    if match := _EXHAUSTED.search(text, start, end):
        return _error(source, match, "; RESOURCE_EXHAUSTED does not name a memory")
    if match := _STATUS.search(text, start, end) or _EXCEPTION.search(text, start, end):
        return _error(source, match, f"; the error is {match[1]}: {_clipped(match[2])}", "")
    return _error(source, None, "")


def _error(source: Source, match: re.Match[str] | None, what: str, hint: str | None = None) -> HloError:
    hint = "paste the complete error, starting at RESOURCE_EXHAUSTED" if hint is None else hint
    span = Span(*match.span()) if match else Span(0, 0)
    return HloError(f"no XLA out-of-memory message found{what}", span, source=source, hint=hint or None)


def _clipped(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _CLIPPED else text[: _CLIPPED - 1] + "…"


# --- reading ---
# Out-of-memory messages found in surrounding text: tracebacks, logs of many workers, prose.


# Thousands of workers print the same; the first failures cause the others, the last are fatal.
_MOST_FAILURES: Final = 400
_BEFORE_MESSAGE: Final = 200_000  # a GPU's allocator prints a line for each chunk before the message that counts


def parse_out_of_memory(source: Source, module: Module | None = None) -> tuple[OutOfMemory, ...]:
    """The failures in a text, in order, each once with the number of its repetitions; HloError if there is none.

    Instructions are resolved in a module if one is given.

    >>> text = "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for "
    >>> text += "HLO temporaries (20.00G) exceeds available HBM (15.75G). HLO module: jit_f.\\n"
    >>> [message] = parse_out_of_memory(Source("error.txt", text))
    >>> message.space, message.code, message.module, message.exceeded_by_bytes
    ('hbm', 'E1000', 'jit_f', 4563402752)
    """
    places, shapes = Places(module), Shapes()
    found = [
        message
        for start, end in _extracts(source.text)
        for message in _messages(_without_prefixes(source.text, start, end), places, shapes)
    ]
    if not found:
        raise _refusal(source)
    return join_messages(found)


def newest(messages: Sequence[OutOfMemory]) -> OutOfMemory:
    """The last failure, or the one before it if that has more detail; warnings only if alone.

    >>> from hlo_cli.ir.out_of_memory import OomAllocation
    >>> from hlo_cli.source import Span
    >>> small = OutOfMemory("run", Span(9, 10), used_bytes=8)
    >>> large = OutOfMemory("run", Span(0, 5), used_bytes=8, allocations=(OomAllocation(8),))
    >>> newest((large, small)) is large
    True
    """
    failures = [message for message in messages if not message.is_warning] or list(messages)
    failures = [message for message in failures if message.is_xla] or failures
    detailed = [message for message in failures if message.allocations or message.usage or message.chunks]
    last = failures[-1] if failures[-1].kind != "device" or not detailed else detailed[-1]
    same = [message for message in failures if message.used_bytes == last.used_bytes]
    return max(same, key=lambda message: (len(message.allocations) + len(message.usage), message.span.start))


def _messages(log: LogText, places: Places, shapes: Shapes) -> Iterator[OutOfMemory]:
    squeezed = squeeze(log.text)
    heads = _without_stack_pairs(found_heads(squeezed) or headless(squeezed))
    if len(heads) > _MOST_FAILURES:
        heads = heads[: _MOST_FAILURES // 2] + heads[-_MOST_FAILURES // 2 :]
    before, is_first_tpu = 0, True
    for number, (head, stack_end) in enumerate(heads):
        after = heads[number + 1][0].start if number + 1 < len(heads) else len(squeezed.text)
        details = Details(squeezed, head.end, max(after, head.end))
        message = message_of(head, stack_end, details, places, shapes)
        if message.target != "tpu":
            message = with_tables_before(
                message, Details(squeezed, max(before, head.start - _BEFORE_MESSAGE), head.start)
            )
        else:
            message = with_usage(message, usage_text(details, shapes))
            if is_first_tpu and not message.spaces and not message.allocations:
                message = with_usage(message, usage_text(Details(squeezed, 0, head.start), shapes))
            is_first_tpu = False
        before = head.end
        span = log.span(squeezed.origin(head.start), squeezed.end_origin(head.end))
        yield replace(message, span=span)


def _without_stack_pairs(heads: Sequence[FoundHead]) -> list[tuple[FoundHead, int | None]]:
    """The heads; one on a stack with the sentence about its scoped allocation is one head.

    The offset is the end of the label of such a head, None for other heads.
    """
    merged: list[tuple[FoundHead, int | None]] = []
    skips = False
    for number, head in enumerate(heads):
        if skips:
            skips = False
            continue
        following = heads[number + 1] if number + 1 < len(heads) else None
        if "stack" in head.groups and following is not None and following.head.kind == "tpu-vmem-scoped":
            groups = head.groups | {name: following.groups[name] for name in following.groups}
            merged.append(
                (FoundHead(following.head, head.start, following.end, groups, head.ends, head.code), following.start)
            )
            skips = True
        else:
            merged.append((head, None))
    return merged
