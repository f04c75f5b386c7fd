"""C++ types of arguments, results, and attributes in XLA's typed FFI.

Mirrors xla/ffi/api/ffi.h and `BuildAttributesMap` of xla/ffi/attribute_map.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.custom_calls.mlir_text import MlirArray, MlirAttribute, MlirDictionary, MlirScalar, MlirText
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, TokenShape

_NATIVE: Final = frozenset("pred u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 c64 c128".split())
_WIDTHS: Final = (8, 16, 32, 64)
_SCALARS: Final = {
    "i1": "bool",
    **{f"{sign}{width}": f"int{width}_t" for sign in ("i", "si") for width in _WIDTHS},
    **{f"ui{width}": f"uint{width}_t" for width in _WIDTHS},
    "f32": "float",
    "f64": "double",
}


def buffer_type(shape: Leaf) -> str:
    """FFI type of an argument: element type and rank, or `AnyBuffer` if C++ has no such element type.

    >>> from hlo_cli import parse_shape
    >>> [buffer_type(parse_shape(text)) for text in ("f32[2,3]", "f8e5m2[4]", "token[]")]
    ['ffi::Buffer<ffi::F32, 2>', 'ffi::AnyBuffer', 'ffi::Token']
    """
    array = shape.array if isinstance(shape, BufferShape) else shape
    if isinstance(array, TokenShape):
        return "ffi::Token"
    if isinstance(array, ArrayShape) and array.element_type.name in _NATIVE:
        return f"ffi::Buffer<ffi::{array.element_type.name.upper()}, {array.rank}>"
    return "ffi::AnyBuffer"


def attribute_type(attribute: MlirAttribute) -> str | None:
    """C++ type of an attribute; None if XLA does not pass it.

    >>> attribute_type(MlirScalar(76, "ui8")), attribute_type(MlirArray("i64", 2, "array<i64: 1, 2>"))
    ('uint8_t', 'ffi::Span<const int64_t>')
    """
    match attribute:
        case MlirScalar(type=type_name):
            return _SCALARS.get(type_name)
        case MlirArray(type=type_name):
            element = _SCALARS.get(type_name)
            return None if element in (None, "bool") else f"ffi::Span<const {element}>"
        case MlirText():
            return "std::string_view"
        case MlirDictionary():
            return "ffi::Dictionary"
    return None
