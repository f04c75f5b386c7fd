"""Width of text in terminal cells, and cutting of text to a number of cells."""

from __future__ import annotations

from hlo_cli.lazy_regex import lazy_regex

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
