"""C++ handlers for typed FFI calls.

Mirrors the requirements of xla/ffi/api/ffi.h: arguments, results, and attributes in the order of the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.analysis.custom_calls.c_names import Identifiers, c_string, escape_comment
from hlo_cli.analysis.custom_calls.c_signature import YOUR_CODE, describe_buffer, local_name, mark_used
from hlo_cli.analysis.custom_calls.call import DecodedCall
from hlo_cli.analysis.custom_calls.ffi import attribute_type, buffer_type


def ffi_prelude() -> Iterator[str]:
    """Yields the lines before the handlers: headers, among them that of jaxlib."""
    yield "/* C++17; jax.ffi.include_dir() returns the include directory of this header. */"
    yield "#include <cstdint>"
    yield "#include <string_view>"
    yield ""
    yield '#include "xla/ffi/api/ffi.h"'
    yield ""
    yield "namespace ffi = xla::ffi;"
    yield "#ifdef FOR_GPU"
    yield "typedef struct CUstream_st *CUstream;"
    yield "#endif"


def ffi_handler(call: DecodedCall, name: str, names: Identifiers) -> Iterator[str]:
    """Yields the lines of the implementation and of the handler that calls it; `names` are the identifiers in use.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.custom_calls.call import custom_calls_of
    >>> text = 'custom-call(f32[2] a), custom_call_target="f", api_version=API_VERSION_TYPED_FFI'
    >>> call, = custom_calls_of(parse_module(f"r = f32[2] {text}, backend_config={{n = 3}}"))
    >>> print(*ffi_handler(call, "f", Identifiers()), sep="\\n")
    static ffi::Error f_impl(
    #ifdef FOR_GPU
        CUstream stream,
    #endif
        ffi::Buffer<ffi::F32, 1> in0,  /* a: f32[2]{0}, 8 bytes */
        ffi::Result<ffi::Buffer<ffi::F32, 1>> result,  /* result: f32[2]{0}, 8 bytes */
        int64_t n  /* such as 3 */
    ) {
    #ifdef FOR_GPU
      (void)stream;
    #endif
      (void)in0; (void)result; (void)n;
      /* Your code. */
      return ffi::Error::Success();
    }
    static auto f_binding() {
      return ffi::Ffi::Bind()
    #ifdef FOR_GPU
        .Ctx<ffi::PlatformStream<CUstream>>()
    #endif
        .Arg<ffi::Buffer<ffi::F32, 1>>()
        .Ret<ffi::Buffer<ffi::F32, 1>>()
        .Attr<int64_t>("n")
      ;
    }
    XLA_FFI_DEFINE_HANDLER_SYMBOL(f, f_impl, f_binding());
    """
    parameters = _parameters(call)
    work, binding = names.unique_name(f"{name}_impl"), names.unique_name(f"{name}_binding")
    yield f"static ffi::Error {work}("
    yield from _on_gpu("    CUstream stream" + ("," if parameters else ""))
    for place, (declared, comment) in enumerate(parameters):
        yield f"    {declared}{',' if place < len(parameters) - 1 else ''}  /* {comment} */"
    yield ") {"
    yield from _on_gpu(mark_used(("stream",)))
    if parameters:
        yield mark_used(declared.rpartition(" ")[2] for declared, _ in parameters)
    yield YOUR_CODE
    yield "  return ffi::Error::Success();"
    yield "}"
    yield from _binding(call, binding)
    yield f"XLA_FFI_DEFINE_HANDLER_SYMBOL({name}, {work}, {binding}());"


def _binding(call: DecodedCall, name: str) -> Iterator[str]:
    """Yields the binding of a handler as a function, since `#ifdef` is not possible in macro arguments."""
    bound = [f"    .Arg<{buffer_type(b.shape)}>()" for b in call.arguments if b.ffi is not None]
    bound += [f"    .Ret<{buffer_type(b.shape)}>()" for b in call.results if b.ffi is not None]
    bound += [f"    .Attr<{kind}>({c_string(key)})" for key, kind, _ in _attributes(call)]
    yield f"static auto {name}() {{"
    yield "  return ffi::Ffi::Bind()"
    yield from _on_gpu("    .Ctx<ffi::PlatformStream<CUstream>>()")
    yield from bound
    yield "  ;"
    yield "}"


def _on_gpu(line: str) -> Iterator[str]:
    yield "#ifdef FOR_GPU"
    yield line
    yield "#endif"


def _parameters(call: DecodedCall) -> list[tuple[str, str]]:
    """Parameters of the implementation, each with a comment."""
    found = [
        (f"{buffer_type(b.shape)} {local_name(b)}", describe_buffer(call, b))
        for b in call.arguments
        if b.ffi is not None
    ]
    found += [
        (f"ffi::Result<{buffer_type(b.shape)}> {local_name(b)}", describe_buffer(call, b))
        for b in call.results
        if b.ffi is not None
    ]
    names = Identifiers(("stream", "ffi", *map(local_name, call.buffers)))
    found += [
        (f"{kind} {names.unique_name(key)}", escape_comment(f"such as {text}")) for key, kind, text in _attributes(call)
    ]
    return found


def _attributes(call: DecodedCall) -> list[tuple[str, str, str]]:
    """Name, type, and value of each attribute that XLA passes."""
    entries = call.config.attributes.entries if call.config.attributes is not None else ()
    typed = [(key, attribute_type(value), value) for key, value in entries]
    return [(key, kind, _shortened(str(value))) for key, kind, value in typed if kind is not None]


def _shortened(text: str, room: int = 60) -> str:
    return text if len(text) <= room else f"{text[:room]} ..."
