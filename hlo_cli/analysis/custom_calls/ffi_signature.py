"""C++ for the handlers behind typed calls.

Mirrors what xla/ffi/api/ffi.h asks of a handler: arguments, results and attributes in the order of the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.analysis.custom_calls.c_names import Identifiers, c_string, commented
from hlo_cli.analysis.custom_calls.c_signature import YOUR_CODE, about, local_name, used
from hlo_cli.analysis.custom_calls.call import DecodedCall
from hlo_cli.analysis.custom_calls.ffi import attribute_type, buffer_type


def ffi_prelude() -> Iterator[str]:
    """What stands in front of the handlers: the header, which comes with jaxlib."""
    yield "/* jax.ffi.include_dir() says where jaxlib keeps this header; C++17. */"
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
    """The function that does the work, and the handler that checks types and calls it; `names` are those in use.

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
    work, binding = names.near(f"{name}_impl"), names.near(f"{name}_binding")
    yield f"static ffi::Error {work}("
    yield from _on_gpu("    CUstream stream" + ("," if parameters else ""))
    for place, (declared, comment) in enumerate(parameters):
        yield f"    {declared}{',' if place < len(parameters) - 1 else ''}  /* {comment} */"
    yield ") {"
    yield from _on_gpu(used(("stream",)))
    if parameters:
        yield used(declared.rpartition(" ")[2] for declared, _ in parameters)
    yield YOUR_CODE
    yield "  return ffi::Error::Success();"
    yield "}"
    yield from _binding(call, binding)
    yield f"XLA_FFI_DEFINE_HANDLER_SYMBOL({name}, {work}, {binding}());"


def _binding(call: DecodedCall, name: str) -> Iterator[str]:
    """What the handler takes; a function of its own, as macros take no `#ifdef`."""
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
    """The parameters of the function with a comment each."""
    found = [(f"{buffer_type(b.shape)} {local_name(b)}", about(call, b)) for b in call.arguments if b.ffi is not None]
    found += [
        (f"ffi::Result<{buffer_type(b.shape)}> {local_name(b)}", about(call, b))
        for b in call.results
        if b.ffi is not None
    ]
    names = Identifiers(("stream", "ffi", *map(local_name, call.buffers)))
    found += [(f"{kind} {names.near(key)}", commented(f"such as {text}")) for key, kind, text in _attributes(call)]
    return found


def _attributes(call: DecodedCall) -> list[tuple[str, str, str]]:
    """Name, type and value of the attributes that XLA passes on."""
    entries = call.payload.attributes.entries if call.payload.attributes is not None else ()
    typed = [(key, attribute_type(value), value) for key, value in entries]
    return [(key, kind, _shortened(str(value))) for key, kind, value in typed if kind is not None]


def _shortened(text: str, room: int = 60) -> str:
    return text if len(text) <= room else f"{text[:room]} ..."
