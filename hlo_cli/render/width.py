"""How wide is a text on a screen, and what does it lose first where there is no room?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from hlo_cli.lazy_regex import lazy_regex

# --- width in cells ---
# Width of text in terminal cells, and cutting of text to a number of cells.


# ASCII and the glyphs of hlo's screens take one cell each; most measured text has only these
_ONE_CELL_EACH = lazy_regex("[ -~…·→×µ▼▲✓✕●○━│─┌┬┐├┼┤└┴┘┊–⌊⌋⌈⌉▁-█]*")


def cell_width(text: str) -> int:
    """The number of cells that printable text takes: two for wide characters, none for combining ones.

    >>> cell_width("32 × 11"), cell_width("層"), cell_width("e\u0301")
    (7, 2, 1)
    """
    if text.isascii() or _ONE_CELL_EACH.fullmatch(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def take(text: str, room: int) -> str:
    """The longest beginning of a text that fits into `room` cells.

    >>> take("abcd", 3), take("層層", 3)
    ('abc', '層')
    """
    if room <= 0:
        return ""
    low, high = 0, len(text)
    if cell_width(text[: min(room, high)]) == min(room, high):
        low = min(room, high)
        if low == high or cell_width(text[: low + 1]) > room:
            return text[:low]
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cell_width(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def take_last(text: str, room: int) -> str:
    """The longest end of a text that fits into `room` cells.

    >>> take_last("abcd", 3), take_last("層層", 3)
    ('bcd', '層')
    """
    if room <= 0:
        return ""
    if text.isascii():
        return text[-room:]
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cell_width(text[middle:]) <= room else (middle + 1, high)
    return text[low:]


def pad(text: str, room: int, *, right: bool = False) -> str:
    """A text padded with blanks to `room` cells; on the left if it is right-aligned.

    >>> pad("ab", 4), pad("ab", 4, right=True)
    ('ab  ', '  ab')
    """
    blanks = " " * (room - cell_width(text))
    return blanks + text if right else text + blanks


# --- shortening ---
# Shortening of text that does not fit a screen: each kind loses its least important part.


ELLIPSIS = "…"
_NUMBER = re.compile(r"(?:\.[0-9]+)?(?:\{[0-9,]*\})?$")
_MAX_NUMBER_LENGTH = 24  # a number and a tuple index; the pattern is not run over names of many KB


def shorten_text(text: str, room: int, dots: str = ELLIPSIS) -> str:
    """Text loses its end.

    >>> shorten_text("parameter, convert, broadcast", 12)
    'parameter, …'
    """
    if cell_width(text) <= room:
        return text
    return take(text, room - len(dots)) + dots if room > len(dots) else take(dots, room)


def _shorten_start(text: str, room: int, dots: str = ELLIPSIS) -> str:
    """Text loses its beginning.

    >>> _shorten_start("a/long/path", 6)
    '…/path'
    """
    if cell_width(text) <= room:
        return text
    return dots + take_last(text, room - len(dots)) if room > len(dots) else take(dots, room)


def shorten_name(name: str, room: int, dots: str = ELLIPSIS) -> str:
    """A name loses its middle and keeps its number and tuple index.

    >>> shorten_name("bitcast_dynamic-update-slice_fusion.14", 25)
    'bitcast_dynamic…fusion.14'
    >>> shorten_name("all-reduce-start.1024{0}", 12)
    'all….1024{0}'
    """
    if cell_width(name) <= room:
        return name
    left = room - len(dots)
    number = _NUMBER.search(name[-_MAX_NUMBER_LENGTH:])
    tail = max(len(number[0]) if number else 0, left * 2 // 5)
    if tail >= left:
        return shorten_text(name, room, dots)
    return take(name, left - tail) + dots + take_last(name, tail)


def shorten_shape(shape: str, room: int, dots: str = ELLIPSIS) -> str:
    """A shape loses its tiles, then its layout, then its sizes, the last ones first; a tuple its tail.

    Sizes tell more than a mark that there is a layout, which is left out first.

    >>> for room in (40, 38, 24, 16, 9): print(shorten_shape("f32[4,4,4,32,11]{2,0,1,4,3:T(4,128)S(1)}", room))
    f32[4,4,4,32,11]{2,0,1,4,3:T(4,128)S(1)}
    f32[4,4,4,32,11]{2,0,1,4,3:T(4,128)S…}
    f32[4,4,4,32,11]{…}
    f32[4,4,4,32,11]
    f32[4,…]
    >>> shorten_shape("(f32[64,128], s32[], s32[], s32[])", 24)
    '(f32[64,128], … 3 more)'
    """
    if cell_width(shape) <= room:
        return shape
    if shape.startswith("("):
        return _shorten_tuple(shape, room, dots)
    head, brace, inside = shape.partition("{")
    layout = f"{{{dots}}}" if brace else ""
    if brace and cell_width(head) + len(layout) <= room:
        kept = take(inside, room - cell_width(head) - len(layout))
        return f"{head}{{{kept if ':' in kept else ''}{dots}}}"  # half a dimension order would mislead
    if cell_width(head) <= room:
        return head
    element_type, bracket, sizes = head.partition("[")
    shortest = f"{element_type}[{dots}]"
    if bracket and cell_width(shortest) <= room:
        kept = take(sizes.rstrip("]"), room - cell_width(shortest))
        return f"{element_type}[{kept[: kept.rfind(',') + 1]}{dots}]"
    return shorten_text(shape, room, dots)


def _shorten_op_name(op_name: str, room: int, dots: str = ELLIPSIS) -> str:
    """An op_name loses its head, at a slash if there is one.

    >>> _shorten_op_name("jit(step)/transpose/jvp(jit(log_softmax))/sub", 30)
    '…/jvp(jit(log_softmax))/sub'
    """
    if cell_width(op_name) <= room:
        return op_name
    rest = take_last(op_name, room - len(dots))
    slash = rest.find("/")
    return dots + rest[slash:] if slash >= 0 and room > len(dots) else _shorten_start(op_name, room, dots)


def _shorten_source(source: str, room: int, dots: str = ELLIPSIS) -> str:
    """A source loses its directory, then its beginning.

    >>> _shorten_source("/home/me/gen_corpus.py:303", 20)
    'gen_corpus.py:303'
    """
    return source if cell_width(source) <= room else _shorten_start(source.rpartition("/")[2], room, dots)


def elements_of(shape: str) -> list[str]:
    """The complete elements of a tuple's text.

    >>> elements_of("(f32[2,3]{1,0}, (s32[], pred[]))")
    ['f32[2,3]{1,0}', '(s32[], pred[])']
    """
    elements, depth, start = [], 0, 1
    for match in re.finditer(r"[][(){},]", shape):
        mark = match[0]
        if mark in "[({":
            depth += 1
        elif mark in "])}":
            depth -= 1
        elif depth == 1:
            elements.append(shape[start : match.start()].strip())
            start = match.end()
    last = shape[start:].removesuffix(")").strip()
    return [*elements, last] if last else elements


def _shorten_tuple(shape: str, room: int, dots: str) -> str:
    elements = elements_of(shape)
    for kept in range(min(len(elements) - 1, room), 0, -1):
        text = f"({', '.join(elements[:kept])}, {dots} {len(elements) - kept:,} more)"
        if cell_width(text) <= room:
            return text
    if len(elements) > 1:
        tail = f", {dots} {len(elements) - 1:,} more)"
        first = shorten_shape(elements[0], room - len(tail) - 1, dots) if room - len(tail) > 8 else ""
        whole = first.endswith(("]", "}", ")"))  # an element cut anywhere else would look like a short one
        for text in (f"({first}{tail}" if whole else "", f"({dots} {len(elements):,})"):
            if text and cell_width(text) <= room:
                return text
    return shorten_text(shape, room, dots)


def shorten_apart(
    texts: Sequence[str], room: int, shorten: Callable[[str, int, str], str], dots: str = ELLIPSIS
) -> list[str]:
    """Each text shortened, and those that would look alike from where they differ on.

    >>> names = [f"dumps/module_{number:04d}.jit_multiply.after_optimizations.txt" for number in (8, 62)]
    >>> shorten_apart(names, 16, shorten_name), shorten_apart(names[:1], 16, shorten_name)
    (['…0008.jit_multi…', '…0062.jit_multi…'], ['dumps/mod…ns.txt'])
    """
    short = {text: shorten(text, room, dots) for text in dict.fromkeys(texts)}
    pending = _alike(short, short)
    while pending:
        alike = pending.pop()
        start = _difference(alike, room - len(dots))
        window = {text: shorten_text(dots + text[start:], room, dots) for text in alike}
        if len(set(window.values())) == 1:
            continue  # no more room for where they differ
        short |= window
        pending += _alike(window, alike)
    return [short[text] for text in texts]


def _difference(texts: Sequence[str], room: int) -> int:
    """Where texts begin to differ, or before, if the rest of the longest fits into `room`; numbers are kept whole."""
    first, last = min(texts), max(texts)
    start = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    start = min(start, max(0, max(map(len, texts)) - room))
    while start and first[start - 1].isdigit():
        start -= 1
    return start


def _alike(short: Mapping[str, str], texts: Iterable[str]) -> list[list[str]]:
    """The different texts that look the same, by what they look like."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(short[text], []).append(text)
    return [group for group in groups.values() if len(group) > 1]


SHORTENERS: Mapping[str, Callable[[str, int, str], str]] = MappingProxyType(
    {"name": shorten_name, "shape": shorten_shape, "op_name": _shorten_op_name, "source": _shorten_source}
)
"""By the unit of a column; other texts lose their end."""
