"""C identifiers, comments, strings, and types for names and shapes of HLO."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, ShapeIndex

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_KEYWORDS: Final = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break buffers case catch char class compl concept const
    consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline ins int long main mutable
    namespace new noexcept not not_eq nullptr opaque opaque_len operator or or_eq out private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast status stream struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq""".split()
)
_TYPES: Final = {
    "pred": "bool",
    "f32": "float",
    "f64": "double",
    "c64": "xla_c64",
    "c128": "xla_c128",
    **{f"s{width}": f"int{max(width, 8)}_t" for width in (1, 2, 4, 8, 16, 32, 64)},
    **{f"u{width}": f"uint{max(width, 8)}_t" for width in (1, 2, 4, 8, 16, 32, 64)},
}


class Identifiers:
    """Generator of unique C and C++ identifiers that resemble given texts.

    >>> names = Identifiers({"status"})
    >>> [names.unique_name(text) for text in ("xla.my-op", "2d", "new", "f", "xla.my op")]
    ['xla_my_op', '_2d', 'new_', 'f', 'xla_my_op_2']
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """Reserves the identifiers in `taken`."""
        self._numbers = dict.fromkeys(taken, 1)

    def unique_name(self, text: str) -> str:
        """Unique identifier for a text."""
        name = _NOT_IN_NAMES.sub("_", text) or "_"
        if name[0].isdigit():
            name = f"_{name}"
        if name in _KEYWORDS:
            name += "_"
        unique = name
        while unique in self._numbers:
            self._numbers[name] += 1
            unique = f"{name}_{self._numbers[name]}"
        self._numbers[unique] = 1
        return unique


def escape_comment(text: str) -> str:
    """Text that is safe in a C comment: without comment markers and unprintable characters.

    >>> escape_comment("a */ b"), escape_comment("two\\nlines")
    ('a * / b', 'two?lines')
    """
    spaced = text.replace("*/", "* /").replace("/*", "/ *")
    return "".join(letter if letter.isprintable() else "?" for letter in spaced)


def c_string(text: str) -> str:
    r"""C string literal.

    >>> print(c_string('a"\n'))
    "a\"\012"
    """
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else _escape(b) for b in data) + '"'


def element_type(shape: Leaf) -> str:
    """C type of array elements; an unsigned integer of the same size if C has no such type.

    >>> from hlo_cli import parse_shape
    >>> [element_type(parse_shape(text)) for text in ("bf16[2]", "s4[2]", "c64[]", "opaque[]")]
    ['uint16_t', 'int8_t', 'xla_c64', 'void']
    """
    array = shape.array if isinstance(shape, BufferShape) else shape
    if not isinstance(array, ArrayShape):
        return "void"
    kind = array.element_type
    return _TYPES.get(kind.name) or f"uint{8 * kind.byte_width}_t"


def element_name(stem: str, index: ShapeIndex) -> str:
    """Identifier for a tuple element.

    >>> element_name("in0", (1, 0))
    'in0_1_0'
    """
    return "_".join((stem, *map(str, index)))


def _escape(byte: int) -> str:
    return f"\\{chr(byte)}" if byte in b'"\\?' else f"\\{byte:03o}"
