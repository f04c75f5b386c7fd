"""Shapes as XLA prints them. Mirrors `ShapeUtil::HumanStringWithLayout` of xla/shape_util.cc."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hlo_cli.ir.layout import Layout
    from hlo_cli.ir.primitive import PrimitiveType

UNBOUNDED: Final = -(2**63)
"""The size of a dimension written as `?`: dynamic without a bound (`Shape::kUnboundedSize`)."""


def annotate_indices(texts: Sequence[str]) -> str:
    """Texts joined by commas, with XLA's `/*index=5*/` before every fifth.

    >>> annotate_indices("abcdefg")
    'a, b, c, d, e, /*index=5*/f, g'
    """
    if len(texts) <= 5:
        return ", ".join(texts)
    return ", ".join(f"/*index={i}*/{text}" if i and i % 5 == 0 else text for i, text in enumerate(texts))


@lru_cache(maxsize=8192)
def array_text(
    element_type: PrimitiveType, sizes: tuple[int, ...], dynamic: tuple[bool, ...], layout: Layout | None, _prefix: int
) -> str:
    """The text of an array; the prefix is an argument because layouts that differ only in it are equal."""
    text = f"{element_type.name}[{','.join(map(_dimension, sizes, dynamic))}]"
    if layout is None or (not sizes and not layout.properties()):
        return text
    return text + str(layout)


def _dimension(size: int, dynamic: bool) -> str:
    if not dynamic:
        return str(size)
    return "?" if size == UNBOUNDED else f"<={size}"
