"""C functions for custom calls that pass pointers, on CPU and GPU.

Signatures are those of docs/custom_call.md and xla/service/custom_call_status.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.custom_calls.c_names import element_name, element_type, escape_comment
from hlo_cli.analysis.custom_calls.call import DecodedCall
from hlo_cli.analysis.custom_calls.calling_convention import CustomCallBuffer
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.shape import TupleShape

YOUR_CODE: Final = "  /* Your code. */"
"""Placeholder for the implementation of the function."""

_OPAQUE: Final = "const char *opaque, size_t opaque_len"
_STATUS: Final = "XlaCustomCallStatus *status"
_PARAMETERS: Final = {
    "cpu": {
        CustomCallApiVersion.ORIGINAL: ("void *out, const void **ins",),
        CustomCallApiVersion.STATUS_RETURNING: ("void *out, const void **ins", _STATUS),
        CustomCallApiVersion.STATUS_RETURNING_UNIFIED: ("void *out, const void **ins", _OPAQUE, _STATUS),
    },
    "gpu": {
        CustomCallApiVersion.ORIGINAL: ("CUstream stream, void **buffers", _OPAQUE),
        CustomCallApiVersion.STATUS_RETURNING: ("CUstream stream, void **buffers", _OPAQUE, _STATUS),
        CustomCallApiVersion.STATUS_RETURNING_UNIFIED: ("CUstream stream, void **buffers", _OPAQUE, _STATUS),
    },
}
_COMPLEX: Final = {"xla_c64": "float", "xla_c128": "double"}


def c_signature(call: DecodedCall, name: str, platform: str) -> str | None:
    """Declaration of the function on `cpu` or `gpu`; None for typed FFI calls.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.custom_calls.call import custom_calls_of
    >>> call, = custom_calls_of(parse_module('r = f32[2] custom-call(f32[2] a), custom_call_target="f"'))
    >>> c_signature(call, "f", "cpu")
    'void f(void *out, const void **ins)'
    """
    parameters = _PARAMETERS[platform].get(call.spec.api_version)
    return None if parameters is None else f"void {name}({', '.join(parameters)})"


def c_prelude(calls: tuple[DecodedCall, ...]) -> Iterator[str]:
    """Yields the lines before the functions: headers, and types of XLA and CUDA."""
    yield "#include <stdbool.h>"
    yield "#include <stddef.h>"
    yield "#include <stdint.h>"
    yield ""
    yield "/* Compile with -DFOR_GPU for the GPU functions; CUstream is the type from cuda.h. */"
    yield "typedef struct CUstream_st *CUstream;"
    yield "typedef struct XlaCustomCallStatus_ XlaCustomCallStatus;"
    used = {element_type(buffer.shape) for call in calls for buffer in call.buffers}
    for name in sorted(used & _COMPLEX.keys()):
        yield f"typedef struct {{ {_COMPLEX[name]} real, imag; }} {name};"
    if any(call.has_nested_tuples for call in calls):
        yield ""
        yield "/* Compile with -DNESTED_TUPLES for XLA:CPU before the thunk runtime: one pointer table per tuple. */"
        yield "#define ELEMENT(tuple, i) (((void *const *)(tuple))[i])"


def c_function(call: DecodedCall, name: str) -> Iterator[str]:
    """Yields the lines of the CPU and GPU function, with a variable for each buffer.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.custom_calls.call import custom_calls_of
    >>> call, = custom_calls_of(parse_module('r = f32[2] custom-call(f32[2] a), custom_call_target="f"'))
    >>> print(*c_function(call, "f"), sep="\\n")
    #ifndef FOR_GPU
    void f(void *out, const void **ins) {
      const float *in0 = (const float *)ins[0];  /* a: f32[2]{0}, 8 bytes */
      float *result = (float *)out;  /* result: f32[2]{0}, 8 bytes */
      (void)out; (void)ins; (void)in0; (void)result;
      /* Your code. */
    }
    #else
    void f(CUstream stream, void **buffers, const char *opaque, size_t opaque_len) {
      const float *in0 = (const float *)buffers[0];  /* a: f32[2]{0}, 8 bytes */
      float *result = (float *)buffers[1];  /* result: f32[2]{0}, 8 bytes */
      (void)stream; (void)buffers; (void)opaque; (void)opaque_len; (void)in0; (void)result;
      /* Your code. */
    }
    #endif
    """
    yield "#ifndef FOR_GPU"
    yield f"{c_signature(call, name, 'cpu')} {{"
    yield from _on_cpu(call)
    yield "}"
    yield "#else"
    yield f"{c_signature(call, name, 'gpu')} {{"
    passed = [buffer for buffer in call.buffers if buffer.gpu is not None and buffer.is_array]
    yield from (_local(call, buffer, f"buffers[{buffer.gpu}]") for buffer in passed)
    yield mark_used(["stream", "buffers", "opaque", "opaque_len", *_status(call), *map(local_name, passed)])
    yield YOUR_CODE
    yield "}"
    yield "#endif"


def local_name(buffer: CustomCallBuffer) -> str:
    """Variable of a buffer: `in1_0` for element 0 of operand 1, `result` for the whole result."""
    if buffer.operand is None:
        return element_name("out", buffer.index) if buffer.index else "result"
    return element_name(f"in{buffer.operand}", buffer.index)


def describe_buffer(call: DecodedCall, buffer: CustomCallBuffer) -> str:
    """Comment that describes a buffer."""
    index = index_suffix(buffer.index)
    use = ", temporary" if buffer.use == "temp" else ""
    if buffer.alias_of is not None:
        use = f", aliases {local_name(call.buffers[buffer.alias_of])}"
    size = "1 byte" if buffer.bytes == 1 else f"{buffer.bytes:,} bytes"
    return escape_comment(f"{call.value(buffer)}{index}: {buffer.shape}, {size}{use}")


def mark_used(names: Iterable[str]) -> str:
    """Line that suppresses compiler warnings for unused variables.

    >>> mark_used(("a", "b"))
    '  (void)a; (void)b;'
    """
    return "  " + " ".join(f"(void){name};" for name in names)


def _on_cpu(call: DecodedCall) -> Iterator[str]:
    arrays = [buffer for buffer in call.buffers if buffer.is_array]
    if call.has_nested_tuples:
        yield "#ifdef NESTED_TUPLES"
        yield from (_local(call, buffer, _nested(call, buffer)) for buffer in arrays)
        yield "#else"
    yield from (_local(call, buffer, _flat(call, buffer)) for buffer in arrays)
    if call.has_nested_tuples:
        yield "#endif"
    unified = call.spec.api_version is CustomCallApiVersion.STATUS_RETURNING_UNIFIED
    yield mark_used(
        ["out", "ins", *(("opaque", "opaque_len") if unified else ()), *_status(call), *map(local_name, arrays)]
    )
    yield YOUR_CODE


def _flat(call: DecodedCall, buffer: CustomCallBuffer) -> str:
    if buffer.operand is not None:
        return f"ins[{buffer.cpu}]"
    return f"((void **)out)[{buffer.cpu}]" if isinstance(call.result, TupleShape) else "out"


def _nested(call: DecodedCall, buffer: CustomCallBuffer) -> str:
    """Expression for a buffer if tuples are tables of pointers."""
    if buffer.operand is None and not isinstance(call.result, TupleShape):
        return "out"
    found, path = ("out", buffer.cpu_path) if buffer.operand is None else (f"ins[{buffer.operand}]", buffer.index)
    for place in path:
        found = f"ELEMENT({found}, {place})"
    return found


def _local(call: DecodedCall, buffer: CustomCallBuffer, place: str) -> str:
    constant = "const " if buffer.use == "in" else ""
    kind = f"{constant}{element_type(buffer.shape)} *"
    return f"  {kind}{local_name(buffer)} = ({kind}){place};  /* {describe_buffer(call, buffer)} */"


def _status(call: DecodedCall) -> list[str]:
    return [] if call.spec.api_version is CustomCallApiVersion.ORIGINAL else ["status"]
