"""The texts with which TPU compilers tag the windows of a kernel's operands and results."""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.ir.out_of_memory import KernelWindow
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shapes import parse_shape

_SHAPE: Final = r"([a-z][a-z0-9]{0,15}\[[0-9, ]{0,400}\])"
_WINDOW = lazy_regex(
    r"(input|output) window allocation for\s++operator (?:input|output) ([0-9]{1,6})\.\s++The window\s++shape is\s++"
    rf"{_SHAPE}(?:,\s++while\s++the\s++full\s++shape\s++is\s++{_SHAPE})?"
)
_BUFFERS = lazy_regex(r"has\s++([0-9]{1,3})\s++buffering\s++levels")


def window_of(tag: str) -> KernelWindow | None:
    """The window in the tag of an allocation; None if it has no window. It has one buffer unless the tag has more.

    >>> tag = "input window allocation for operator input 0. The window shape is f32[8192,8192], while the full "
    >>> window = window_of(tag + "shape is f32[32768,8192]. This allocation has 2 buffering levels.")
    >>> window.role, window.number, str(window.block), window.buffers
    ('input', 0, 'f32[8192,8192]{1,0}', 2)
    """
    if (found := _WINDOW.search(tag)) is None:
        return None
    role: Literal["input", "output"] = "input" if found[1] == "input" else "output"
    block = _array(found[3])
    whole = _array(found[4]) if found[4] else block
    if block is None or whole is None:
        return None
    buffers = _BUFFERS.search(tag, found.end())
    return KernelWindow(role, int(found[2]), block, whole, int(buffers[1]) if buffers else 1)


def _array(text: str) -> ArrayShape | None:
    try:
        shape = parse_shape(text)
    except HloError:
        return None
    return shape if isinstance(shape, ArrayShape) else None
