"""Primitive types: the element types of arrays, and their widths in bits.

Mirrors `PrimitiveType` of xla/xla_data.proto and xla/primitive_util.h.
"""

from __future__ import annotations

from typing import Literal

from hlo_cli.dataclass import dataclass

Kind = Literal["pred", "signed", "unsigned", "float", "complex"]


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """An element type: its name as XLA prints it, its width in bits, and its kind of values.

    >>> PRIMITIVE_TYPES["bf16"].bits, PRIMITIVE_TYPES["s4"].byte_width
    (16, 1)
    """

    name: str
    bits: int
    kind: Kind

    @property
    def byte_width(self) -> int:
        """The default size of an element in bytes; narrow types take a whole byte."""
        return (self.bits + 7) // 8

    @property
    def is_sub_byte(self) -> bool:
        """Whether several elements fit in a byte; they are packed only if the layout has `E(bits)`."""
        return self.bits < 8 and self.name != "pred"

    def __str__(self) -> str:
        return self.name


_FLOATS = {
    4: "f4e2m1fn",
    6: "f6e2m3fn f6e3m2fn",
    8: "f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f8e8m0fnu",
    16: "f16 bf16",
    32: "f32",
    64: "f64",
}

PRIMITIVE_TYPES: dict[str, PrimitiveType] = {
    kind.name: kind
    for kind in (
        PrimitiveType("pred", 1, "pred"),
        *(PrimitiveType(f"s{bits}", bits, "signed") for bits in (1, 2, 4, 8, 16, 32, 64)),
        *(PrimitiveType(f"u{bits}", bits, "unsigned") for bits in (1, 2, 4, 8, 16, 32, 64)),
        *(PrimitiveType(name, bits, "float") for bits, names in _FLOATS.items() for name in names.split()),
        PrimitiveType("c64", 64, "complex"),
        PrimitiveType("c128", 128, "complex"),
    )
}
"""All array element types of XLA, by printed name."""
