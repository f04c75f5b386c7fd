"""Names of element types in frameworks and other languages, and the element types that they are in XLA.

The names are those of PyTorch, NumPy, JAX and ml_dtypes, TensorFlow, Triton, MLIR (StableHLO), and C.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.layout import PRIMITIVE_TYPES

_TABLE: Final = {
    "bf16": "bfloat bfloat16 brain",
    "c64": "cfloat complex64 complex<f32>",
    "c128": "cdouble complex complex128 complex<f64>",
    "f16": "half",
    "f32": "float single tf32 tensorfloat32",
    "f64": "double",
    "f4e2m1fn": "e2m1 e2m1fn float4 fp4 mxfp4 nvfp4 float4_e2m1fn_x2",
    "f8e4m3b11fnuz": "e4m3b11 e4m3b11fnuz float8_e4m3b11 fp8e4b15",
    "f8e4m3fn": "e4m3 e4m3fn f8 float8 fp8 fp8_e4m3 fp8e4m3 fp8e4nv float8e4nv",
    "f8e4m3fnuz": "e4m3fnuz fp8e4b8 float8e4b8",
    "f8e5m2": "e5m2 fp8e5 float8e5",
    "f8e5m2fnuz": "e5m2fnuz fp8e5b16 float8e5b16",
    "f8e8m0fnu": "e8m0 e8m0fnu",
    "pred": "bool bool_ boolean i1 logical",
    "s8": "char qint8",
    "s16": "short",
    "s32": "int qint32",
    "s64": "long longlong",
    "u8": "byte quint8 uchar",
    "u16": "ushort",
    "u32": "uint",
    "u64": "ulong",
}
_TYPES: Final = {other: name for name, others in _TABLE.items() for other in others.split()}
_MODULES: Final = r"(?:[a-z_]\w{0,30}+(?:\.|::)){1,4}+"  # such as `torch.`, `jnp.`, or `at::`
_QUALIFIED: Final = re.compile(rf"(?:{_MODULES}|dt_|!)?+(.+?)(?:_t)?")
_SIZED: Final = re.compile(
    r"(float|fp|int|uint|si|i|ui)_?([0-9]{1,3})(?:_?(e[0-9]m[0-9](?:b[0-9]{2})?(?:fn|fnu|fnuz)?))?"
)
# si and ui are MLIR's; its signless i is signed in StableHLO
_LETTER: Final = {"float": "f", "fp": "f", "int": "s", "i": "s", "si": "s", "uint": "u", "ui": "u"}
_TENSOR: Final = re.compile(
    r"(?:tensor|memref|vector)<((?:[0-9?]{1,18}x){0,12}+)([a-z]\w{0,30}+(?:<\w{1,30}>)?)(?:,[^<>]{0,200}+)?>"
)
_ARRAY: Final = re.compile(r"(?<![\w.:%\"])([A-Za-z_!][\w.:]{0,80}+)(?=(\[[ 0-9,<=?]*+\]))")


def xla_type(word: str) -> str | None:
    """The element type that a framework's name stands for; None for other words, and for XLA's own names.

    >>> [xla_type(word) for word in ("bfloat16", "torch.float8_e5m2", "jnp.int4", "F8E4M3FN", "ui8", "i1", "fp8")]
    ['bf16', 'f8e5m2', 's4', 'f8e4m3fn', 'u8', 'pred', 'f8e4m3fn']
    >>> xla_type("bf16"), xla_type("f33")
    (None, None)
    """
    # no name of a type is longer; the expressions are not run over texts
    if word in PRIMITIVE_TYPES or len(word) > 100:
        return None
    match = _QUALIFIED.fullmatch(word.lower())
    name = match[1] if match else word.lower()
    if name in _TYPES:
        return _TYPES[name]
    if (sized := _SIZED.fullmatch(name)) is not None:
        name = _LETTER[sized[1]] + sized[2] + (sized[3] or "")
    name = name.replace("_", "")
    return name if name in PRIMITIVE_TYPES else None


def foreign_type(text: str) -> tuple[int, int, str] | None:
    """Where a text about shapes names the type of an array as a framework does, and the shape as XLA prints it.

    >>> foreign_type("(f32[8], torch.float16[8,128]{1,0})")
    (9, 22, 'f16[8,128]')
    >>> foreign_type("tensor<8x?xui8>")
    (0, 15, 'u8[8,?]')
    >>> foreign_type("f32[8]")
    """
    for match in _ARRAY.finditer(text):
        if (name := xla_type(match[1])) is not None:
            return match.start(1), match.end(1), name + match[2]
    for match in _TENSOR.finditer(text):
        name = match[2] if match[2] in PRIMITIVE_TYPES else xla_type(match[2])
        if name is not None:
            return match.start(), match.end(), f"{name}[{match[1].removesuffix('x').replace('x', ',')}]"
    return None


def in_xla_types(text: str) -> str:
    """A text about shapes with the types of arrays as XLA prints them.

    >>> in_xla_types("(bfloat16[8], tensor<2x3xi32>)")
    '(bf16[8], s32[2,3])'
    """

    def array(match: re.Match[str]) -> str:
        return xla_type(match[1]) or match[1]

    def tensor(match: re.Match[str]) -> str:
        type_ = foreign_type(match[0])
        return type_[2] if type_ else match[0]

    return _ARRAY.sub(array, _TENSOR.sub(tensor, text))
