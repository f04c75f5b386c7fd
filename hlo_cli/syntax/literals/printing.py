"""Numbers to the text of a literal, exactly as XLA prints it.

Mirrors `DenseArrayPrintHelper` of xla/literal.cc and `RoundTripFpToString` of xla/util.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.layout import FLOAT_FORMATS
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError
from hlo_cli.syntax.literals.floats import decode

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


_MOST_EMPTY: Final = 10**6
"""The most pairs of empty braces that are printed."""


def array_text(stored: npt.NDArray[np.generic], shape: ArrayShape) -> str:
    """The elements of an array, given as stored bits, as text with braces.

    >>> import numpy as np
    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> array_text(np.array([[0.1, 1e10], [1, np.nan]], np.float32), parse_shape("f32[2,2]"))
    '{ { 0.1, 1e+10 }, { 1, nan } }'
    """
    if stored.size == 0 and prod(stored.shape[:-1]) > _MOST_EMPTY:
        raise HloError(f"{shape} is too large to print")
    return nested(_element_texts(stored.ravel(), shape), stored.shape)


def nested(texts: Sequence[str], sizes: Sequence[int]) -> str:
    """Elements in the braces of an array of these sizes; above three dimensions, with index comments.

    >>> nested("abcd", (2, 2)), nested("ab", (2, 1)), nested("", (2, 0))
    ('{ { a, b }, { c, d } }', '{ {a}, {b} }', '{ {}, {} }')
    >>> nested("a", (1, 1, 1, 1))
    '{ { /*i0=0*/ { /*i1=0*/ {a} } } }'
    """
    rank = len(sizes)
    if rank == 0:
        return texts[0]
    space = " " if rank > 1 and sizes[-1] > 1 else ""
    blocks = _braced(texts, sizes, rank - 1, f"{{{space}", f"{space}}}")
    for level in reversed(range(rank - 1)):
        blocks = _braced(blocks, sizes, level, "{ ", " }")
    return blocks[0]


def _braced(texts: Sequence[str], sizes: Sequence[int], level: int, opened: str, closed: str) -> list[str]:
    """The blocks of one dimension, each with its texts."""
    rank, size = len(sizes), sizes[level]
    blocks = []
    for block in range(prod(sizes[:level])):
        start = opened
        if rank > 3 and 0 < level < rank - 1:
            start = f"{{ /*i{level - 1}={block % sizes[level - 1]}*/" + (" " if size else "")
        blocks.append(start + ", ".join(texts[block * size : (block + 1) * size]) + closed)
    return blocks


def _element_texts(stored: npt.NDArray[np.generic], shape: ArrayShape) -> list[str]:
    import numpy as np

    name, kind = shape.element_type.name, shape.element_type.kind
    if kind == "pred":
        words = ("0", "1") if shape.rank else ("false", "true")
        return [words[value] for value in stored.tolist()]
    if kind == "complex":
        parts = _wide_texts(stored.view(stored.real.dtype), "f32" if name == "c64" else "f64")
        return [f"({real}, {imaginary})" for real, imaginary in zip(parts[::2], parts[1::2], strict=True)]
    if kind != "float":
        return list(map(str, stored.tolist()))
    if stored.dtype.itemsize > 2:
        return _wide_texts(stored, name)
    codes = stored.view(np.uint16) if name == "f16" else stored
    return [_text_of_code(name, code) for code in codes.tolist()]


@cache
def _text_of_code(name: str, code: int) -> str:
    """One float of 16 bits or less, with enough digits to be unique."""
    import numpy as np

    form = FLOAT_FORMATS[name]
    if name == "f16":
        value = float(np.uint16(code).view(np.float16))
    else:
        value = float(decode(name, np.array([code], np.uint16 if name == "bf16" else np.uint8))[0])
    if value != value:
        return _nan_text(name, code)
    return f"{value:.{form.digits}g}"


def _nan_text(name: str, code: int) -> str:
    form = FLOAT_FORMATS[name]
    text = "-nan" if code & form.sign else "nan"
    payload = code & ((1 << form.payload_bits) - 1)
    return text if form.payload_bits == 0 or payload == 1 << (form.payload_bits - 1) else f"{text}(0x{payload:x})"


def _wide_texts(values: npt.NDArray[np.generic], name: str) -> list[str]:
    """Floats with the digits that round-trip from decimal or, if those are too few, from binary."""
    import numpy as np

    form = FLOAT_FORMATS[name]
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = values.astype(np.float64).tolist()
        texts = [f"{number:.{6 if name == 'f32' else 15}g}" for number in numbers]
        read = np.fromiter(map(float, texts), np.float64, len(texts)).astype(values.dtype)
    for index in np.flatnonzero(read != values).tolist():
        number = numbers[index]
        if number == number:
            texts[index] = f"{number:.{form.digits}g}"
        else:
            texts[index] = _nan_text(name, int(values.view(f"<u{form.bits // 8}")[index]))
    return texts
