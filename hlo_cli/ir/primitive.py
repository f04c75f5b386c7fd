"""Primitive types: the element types of arrays, and their widths in bits.

Mirrors `PrimitiveType` of xla/xla_data.proto and xla/primitive_util.h.
"""

from __future__ import annotations

from math import ceil, log10
from typing import Final, Literal

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

    @property
    def is_complex(self) -> bool:
        """Whether values have a real and an imaginary part."""
        return self.kind == "complex"

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

Special = Literal["ieee", "fn", "fnuz", "finite", "scale"]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The bits of a float type, and the codes that are not finite numbers.

    `ieee` has infinities and NaN with payloads; `fn` has one NaN of either sign, `fnuz` one NaN in place of negative
    zero, `finite` none, and `scale` is a bare exponent with one NaN.

    >>> FLOAT_FORMATS["f8e5m2"].payload_bits, FLOAT_FORMATS["f8e4m3fn"].payload_bits
    (2, 0)
    >>> FLOAT_FORMATS["bf16"].digits
    4
    """

    bits: int
    mantissa_bits: int
    bias: int
    special: Special

    @property
    def payload_bits(self) -> int:
        """The number of bits in the payload of a NaN; 0 if there is only one NaN."""
        return self.mantissa_bits if self.special == "ieee" else 0

    @property
    def digits(self) -> int:
        """Decimal digits that distinguish any two values (`std::numeric_limits::max_digits10`)."""
        return 1 + ceil((self.mantissa_bits + 1) * log10(2))

    @property
    def sign(self) -> int:
        """The sign bit of a code; 0 without one."""
        return 0 if self.special == "scale" else 1 << (self.bits - 1)

    def nan(self, payload: int) -> int:
        """The code of a positive NaN with a payload, which must fit."""
        return self.sign - (1 << self.mantissa_bits) + payload

    def value(self, code: int) -> float:
        """The value of a code.

        >>> [FLOAT_FORMATS["f8e4m3fn"].value(code) for code in (0x38, 0xB8, 0x7E, 0x7F)]
        [1.0, -1.0, 448.0, nan]
        """
        magnitude = code & ~self.sign
        if self.special == "scale":
            return 2.0 ** (code - self.bias) if code != (1 << self.bits) - 1 else float("nan")
        if self.special == "fnuz" and code == self.sign:
            return float("nan")
        exponent, fraction = magnitude >> self.mantissa_bits, magnitude & ((1 << self.mantissa_bits) - 1)
        sign = -1.0 if code & self.sign else 1.0
        if self.special == "ieee" and magnitude >= self.nan(0):
            return sign * float("inf") if magnitude == self.nan(0) else float("nan")
        if self.special == "fn" and magnitude == self.sign - 1:
            return float("nan")
        significand = fraction + (1 << self.mantissa_bits) if exponent else fraction
        return sign * significand * 2.0 ** (max(exponent, 1) - self.bias - self.mantissa_bits)


FLOAT_FORMATS: Final = {
    "f4e2m1fn": FloatFormat(4, 1, 1, "finite"),
    "f6e2m3fn": FloatFormat(6, 3, 1, "finite"),
    "f6e3m2fn": FloatFormat(6, 2, 3, "finite"),
    "f8e3m4": FloatFormat(8, 4, 3, "ieee"),
    "f8e4m3": FloatFormat(8, 3, 7, "ieee"),
    "f8e4m3b11fnuz": FloatFormat(8, 3, 11, "fnuz"),
    "f8e4m3fn": FloatFormat(8, 3, 7, "fn"),
    "f8e4m3fnuz": FloatFormat(8, 3, 8, "fnuz"),
    "f8e5m2": FloatFormat(8, 2, 15, "ieee"),
    "f8e5m2fnuz": FloatFormat(8, 2, 16, "fnuz"),
    "f8e8m0fnu": FloatFormat(8, 0, 127, "scale"),
    "f16": FloatFormat(16, 10, 15, "ieee"),
    "bf16": FloatFormat(16, 7, 127, "ieee"),
    "f32": FloatFormat(32, 23, 127, "ieee"),
    "f64": FloatFormat(64, 52, 1023, "ieee"),
}
"""Every float type of XLA."""
