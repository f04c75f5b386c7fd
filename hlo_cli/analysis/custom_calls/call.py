"""What does a custom call run: its target, its buffers in order, and the C or C++ function that it needs?"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, Literal

from hlo_cli.analysis.custom_calls.config import (
    CustomCallConfig,
    MlirArray,
    MlirAttribute,
    MlirDictionary,
    MlirScalar,
    MlirText,
    read_config,
)
from hlo_cli.analysis.custom_calls.targets import KnownTarget, known_target
from hlo_cli.analysis.dataflow.dependencies import users_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes, generation_of
from hlo_cli.dataclass import brief_count, brief_name, dataclass
from hlo_cli.displayed import Items, NamedItems, WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import CustomCall, Instruction, Users, custom_call
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.shape import (
    ArrayShape,
    BufferShape,
    Leaf,
    OpaqueShape,
    Shape,
    ShapeIndex,
    TokenShape,
    TupleShape,
    subshape,
)

# --- buffers in the order of the call ---
# Buffers of a custom call in the order in which CPU and GPU pass them.
#
# Mirrors docs/custom_call.md, `CustomCallThunk` of xla/backends/cpu/runtime and of xla/backends/gpu/runtime, and the
# emitters before them. A GPU passes all leaves of operands and result in one array, tokens as null pointers. A CPU
# passes a table of operands and the result. Tuples were tables of pointers there; with the thunks of XLA:CPU, and in
# jaxlib 0.10.2, the table has the leaves of all tuples one after the other.


Use = Literal["in", "in, out", "out", "temp"]


@dataclass(frozen=True, slots=True)
class CustomCallBuffer:
    """Leaf of an operand or, if `operand` is None, of the result.

    - `gpu` is its index in `buffers`, None if it has no buffer there.
    - `cpu_path` are the indices from `ins` or `out` if tuples are tables, `cpu` the index among the leaves of operands
      or result.
    - `ffi` is its index among the arguments or results of a typed call.
    - `alias_of` is the index of the operand buffer that it aliases.
    """

    operand: int | None
    index: ShapeIndex
    shape: Leaf
    bytes: int
    gpu: int | None
    cpu_path: tuple[int, ...]
    cpu: int
    ffi: int | None
    use: Use
    alias_of: int | None = None

    @property
    def is_array(self) -> bool:
        """Whether the buffer has data: not a token or opaque value."""
        return not isinstance(self.shape, TokenShape | OpaqueShape)


def _call_buffers(
    operands: tuple[Shape, ...],
    result: Shape,
    aliasing: Collection[OutputOperandAlias] = (),
    unread: Collection[ShapeIndex] = (),
    bytes_of: Callable[[Shape], int] = lambda shape: shape.padded_bytes,
) -> tuple[CustomCallBuffer, ...]:
    """Buffers of a call: the leaves of each operand, then of the result, in pre-order.

    >>> from hlo_cli import parse_shape
    >>> found = _call_buffers((parse_shape("(f32[2], (s8[4], token[]))"),), parse_shape("(f32[], u8[9])"), (), {(1,)})
    >>> [(b.gpu, b.cpu_path, b.use) for b in found[1:]]
    [(1, (0, 1, 0), 'in'), (2, (0, 1, 1), 'in'), (3, (0,), 'out'), (4, (1,), 'temp')]
    """
    overwritten = {(alias.operand_number, alias.operand_index) for alias in aliasing}
    buffers: list[CustomCallBuffer] = []
    leaf_numbers: dict[tuple[int, ShapeIndex], int] = {}
    passed = 0
    for number, shape in enumerate(operands):
        for index, leaf in shape.leaves:
            leaf_numbers[number, index] = len(buffers)
            use: Use = "in, out" if (number, index) in overwritten else "in"
            gpu = passed if _is_passed(leaf) else None
            passed += gpu is not None
            path = (number, *index)
            buffers.append(CustomCallBuffer(number, index, leaf, bytes_of(leaf), gpu, path, len(buffers), gpu, use))
    sources = {alias.output_index: leaf_numbers.get((alias.operand_number, alias.operand_index)) for alias in aliasing}
    arguments, leaves = passed, len(buffers)
    for index, leaf in result.leaves:
        alias_of = sources.get(index)
        # An element of the result that nobody reads is scratch memory by convention of libraries, such as cuBLAS's
        # workspace.
        use = "temp" if index in unread and alias_of is None and not isinstance(leaf, TokenShape) else "out"
        gpu = passed if _is_passed(leaf) else None
        passed += gpu is not None
        ffi = None if gpu is None else gpu - arguments
        place = len(buffers) - leaves
        buffers.append(CustomCallBuffer(None, index, leaf, bytes_of(leaf), gpu, index, place, ffi, use, alias_of))
    return tuple(buffers)


def gpu_place(buffer: CustomCallBuffer) -> str | None:
    """Expression for a buffer in a GPU function.

    >>> gpu_place(_call_buffers((), TokenShape())[0])
    'buffers[0] = NULL'
    """
    if buffer.gpu is None:
        return None
    return f"buffers[{buffer.gpu}]" + ("" if buffer.is_array else " = NULL")


def cpu_place(buffer: CustomCallBuffer, *, nested: bool, is_tuple: bool) -> str:
    """Expression for a buffer in a CPU function, with tuples as tables of pointers if `nested`, else flattened.

    If the result is not a tuple (`is_tuple`), `out` itself is its buffer.

    >>> from hlo_cli import parse_shape
    >>> buffer = _call_buffers((parse_shape("(f32[2], (s8[4]))"),), parse_shape("f32[]"))[1]
    >>> cpu_place(buffer, nested=True, is_tuple=False), cpu_place(buffer, nested=False, is_tuple=False)
    ('ins[0][1][0]', 'ins[1]')
    """
    path = buffer.cpu_path if nested else (buffer.cpu,)
    if buffer.operand is not None:
        return "ins" + "".join(f"[{place}]" for place in path)
    return "out" + ("".join(f"[{place}]" for place in path) if is_tuple else "")


def has_nested_tuples(operands: tuple[Shape, ...], result: Shape) -> bool:
    """Whether tables of pointers and flattened leaves differ for these shapes."""
    inner = result.elements if isinstance(result, TupleShape) else ()
    return any(isinstance(shape, TupleShape) for shape in (*operands, *inner))


def _is_passed(leaf: Leaf) -> bool:
    # CustomCallThunk passes a token as a null pointer, but nothing for an opaque value.
    return not isinstance(leaf, OpaqueShape)


# --- the call ---


@dataclass(frozen=True, slots=True)
class DecodedCall(WithItems):
    """Custom call: attributes (`spec`), known target, configuration, and buffers.

    `result` is the shape that the function returns, also if the instruction is an async start of the call.
    """

    instruction: Instruction
    spec: CustomCall
    target: KnownTarget
    config: CustomCallConfig
    operands: tuple[Shape, ...]
    result: Shape
    buffers: tuple[CustomCallBuffer, ...]

    def __repr__(self) -> str:
        counts = f"{brief_count(len(self.operands), 'operands')}, {brief_count(len(self.buffers), 'buffers')}"
        return f"<DecodedCall {brief_name(self.instruction.name)}: {brief_name(self.spec.target)}, {counts}>"

    @property
    def is_typed(self) -> bool:
        """Whether the call uses XLA's typed FFI."""
        return self.spec.api_version is CustomCallApiVersion.TYPED_FFI

    @property
    def arguments(self) -> tuple[CustomCallBuffer, ...]:
        """Buffers of the operands."""
        return Items(buffer for buffer in self.buffers if buffer.operand is not None)

    @property
    def results(self) -> tuple[CustomCallBuffer, ...]:
        """Buffers of the result."""
        return Items(buffer for buffer in self.buffers if buffer.operand is None)

    @property
    def temps(self) -> tuple[CustomCallBuffer, ...]:
        """Buffers of result elements that are not used and alias no operand."""
        return Items(buffer for buffer in self.buffers if buffer.use == "temp")

    @property
    def has_nested_tuples(self) -> bool:
        """Whether releases of XLA:CPU differ in how they pass the buffers."""
        return has_nested_tuples(self.operands, self.result)

    def value(self, buffer: CustomCallBuffer) -> str:
        """Name of the operand of a buffer, or `result`."""
        if buffer.operand is None:
            return "result"
        taken = self.instruction.operand_index(buffer.operand)
        name = self.instruction.operands[buffer.operand].name
        return name + index_suffix(taken)

    @property
    def layout_changes(self) -> tuple[tuple[int, Shape, Shape], ...]:
        """Operands whose dimension order differs from operand_layout_constraints: number, constraint, and actual
        shape.
        """
        asked = self.spec.operand_layout_constraints or ()
        pairs = zip(asked, self.operands, strict=False)
        return tuple(
            (n, want, there)
            for n, (want, there) in enumerate(pairs)
            if _dimension_orders(want) != _dimension_orders(there)
        )


@of_module
def custom_calls_of(module: Module) -> NamedItems[DecodedCall]:
    """Custom calls of a module in the order of the text.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = (f32[32], (f32[64], f32[128]), f32[256]) parameter(0)
    ... c = (f32[512], f32[1024]) custom-call(p), custom_call_target="do_custom_call"
    ... ROOT r = f32[512] get-tuple-element(c), index=0 }'''
    >>> call, = custom_calls_of(parse_module(text))
    >>> [(buffer.gpu, buffer.index, buffer.bytes) for buffer in call.buffers][2:]
    [(2, (1, 1), 512), (3, (2,), 1024), (4, (0,), 2048), (5, (1,), 4096)]
    >>> [buffer.index for buffer in call.temps]
    [(1,)]
    """
    bytes_of = _buffer_size(module)
    calls: list[DecodedCall] = []
    for computation in module.computations:
        decoded = [
            (instruction, call, read_config(instruction.backend_config))
            for instruction in computation.instructions
            if (call := custom_call(instruction)) is not None
        ]
        if decoded:
            users = users_of(computation)
            calls.extend(_decoded(*each, users, bytes_of) for each in decoded)
    return NamedItems(calls)


def _buffer_size(module: Module) -> Callable[[Shape], int]:
    """Function that returns the buffer size of a shape in bytes, cached by shape object."""
    target, generation = target_of(module), generation_of(module)
    known: dict[int, int] = {}

    def bytes_of(shape: Shape) -> int:
        found = known.get(id(shape))
        if found is None:
            found = known[id(shape)] = buffer_bytes(shape, target, generation)
        return found

    return bytes_of


def _decoded(
    instruction: Instruction,
    spec: CustomCall,
    config: CustomCallConfig,
    users: Users,
    bytes_of: Callable[[Shape], int],
) -> DecodedCall:
    operands = tuple(instruction.operand_shape(n) for n in range(len(instruction.operands)))
    is_start = instruction.opcode != opcodes.CUSTOM_CALL
    # The function returns the same, called or started; the start's tuple is XLA's.
    result = _result(instruction.shape) if is_start else instruction.shape
    # Who reads the result of a start is behind its done.
    unread = () if is_start else _unused_elements(instruction, users, [index for index, _ in result.leaves])
    aliasing = tuple(_each_leaf(spec.output_to_operand_aliasing, result))
    buffers = _call_buffers(operands, result, aliasing, unread, bytes_of)
    return DecodedCall(instruction, spec, known_target(spec.target), config, operands, result, buffers)


def _result(shape: Shape) -> Shape:
    """Result of a call from the shape of its async start: element 1 of operands, result, and contexts."""
    return shape.elements[1] if isinstance(shape, TupleShape) and len(shape.elements) > 1 else shape


def _each_leaf(aliasing: Iterable[OutputOperandAlias], result: Shape) -> Iterator[OutputOperandAlias]:
    """Aliases of each leaf, where an alias is of a tuple."""
    for alias in aliasing:
        part = subshape(result, alias.output_index)
        for below, _ in part.leaves if part is not None else ():
            output, operand = alias.output_index + below, alias.operand_index + below
            yield OutputOperandAlias(output, alias.operand_number, operand)


def _dimension_orders(shape: Shape) -> tuple[tuple[int, ...] | None, ...]:
    """Dimension order of every leaf."""
    return tuple(leaf.layout.minor_to_major if isinstance(leaf, ArrayShape) else None for _, leaf in shape.leaves)


def _unused_elements(call: Instruction, users: Users, leaves: Iterable[ShapeIndex]) -> frozenset[ShapeIndex]:
    """Leaves of a result that no instruction uses through get-tuple-element.

    A value that is passed on as a whole counts as used, and so does the root.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.dependencies import users_of
    >>> text = '''ENTRY e { c = (f32[2], f32[4]) custom-call(), custom_call_target="f"
    ... ROOT g = f32[2] get-tuple-element(c), index=0 }'''
    >>> entry = parse_module(text).entry
    >>> _unused_elements(entry.instructions[0], users_of(entry), ((0,), (1,)))
    frozenset({(1,)})
    """
    read = set(_read_parts(call, users))
    return frozenset(leaf for leaf in leaves if not any(leaf[:depth] in read for depth in range(len(leaf) + 1)))


def _read_parts(call: Instruction, users: Users) -> Iterable[ShapeIndex]:
    """Yields the indices of parts of a result that are used as a whole; they can overlap."""
    waiting: list[tuple[Instruction, ShapeIndex]] = [(call, ())]
    while waiting:
        value, index = waiting.pop()
        # What the computation returns is read by its caller.
        if value.is_root:
            yield index
        for user in users.get(value, ()):
            for taken in _taken(user, value):
                part = user.integer("index") if user.opcode == opcodes.GET_TUPLE_ELEMENT else None
                if part is None:
                    yield (*index, *taken)
                else:
                    waiting.append((user, (*index, *taken, part)))


def _taken(user: Instruction, value: Instruction) -> set[ShapeIndex]:
    """Elements of a value that a user selects directly, such as `%t#0`; () if it uses the whole value."""
    places = user.computation.operand_indices.get(user.index)
    if places is None:
        return {()}
    return {place for operand, place in zip(user.operands, places, strict=True) if operand is value}


# --- identifiers and types of C ---
# C identifiers, comments, strings, and types for names and shapes of HLO.


_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_KEYWORDS: Final = frozenset(  # of C and C++, and the parameter names of the functions below
    """alignas alignof and and_eq asm auto bitand bitor bool break buffers case catch char class compl concept const
    consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline ins int long main mutable
    namespace new noexcept not not_eq nullptr opaque opaque_len operator or or_eq out private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast status stream struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq""".split()
)
# Sub-byte integers are unpacked, one a byte, unless the layout packs them; C has no narrower type.
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
        # A trailing underscore is what Python and C++ styles have for this.
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
    # Names of HLO are any text, and the file is to be compiled.
    spaced = text.replace("*/", "* /").replace("/*", "/ *")
    return "".join(letter if letter.isprintable() else "?" for letter in spaced)


def _c_string(text: str) -> str:
    r"""C string literal.

    >>> print(_c_string('a"\n'))
    "a\"\012"
    """
    data = text.encode("utf-8", "surrogateescape")
    # `?` too, as two of them begin a trigraph; octal escapes end after three digits, hexadecimal ones do not.
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


def _element_name(stem: str, index: ShapeIndex) -> str:
    """Identifier for a tuple element.

    >>> _element_name("in0", (1, 0))
    'in0_1_0'
    """
    return "_".join((stem, *map(str, index)))


def _escape(byte: int) -> str:
    return f"\\{chr(byte)}" if byte in b'"\\?' else f"\\{byte:03o}"


# --- C functions that take pointers ---
# C functions for custom calls that pass pointers, on CPU and GPU.
#
# Signatures are those of docs/custom_call.md and xla/service/custom_call_status.h.


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


def _c_prelude(calls: tuple[DecodedCall, ...]) -> Iterator[str]:
    """Yields the lines before the functions: headers, and types of XLA and CUDA."""
    # No header of XLA or CUDA is needed, so that the file compiles where it is written.
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


def _c_function(call: DecodedCall, name: str) -> Iterator[str]:
    """Yields the lines of the CPU and GPU function, with a variable for each buffer.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.custom_calls.call import custom_calls_of
    >>> call, = custom_calls_of(parse_module('r = f32[2] custom-call(f32[2] a), custom_call_target="f"'))
    >>> print(*_c_function(call, "f"), sep="\\n")
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
    yield _mark_used(["stream", "buffers", "opaque", "opaque_len", *_status(call), *map(_local_name, passed)])
    yield YOUR_CODE
    yield "}"
    yield "#endif"


def _local_name(buffer: CustomCallBuffer) -> str:
    """Variable of a buffer: `in1_0` for element 0 of operand 1, `result` for the whole result."""
    if buffer.operand is None:
        return _element_name("out", buffer.index) if buffer.index else "result"
    return _element_name(f"in{buffer.operand}", buffer.index)


def _describe_buffer(call: DecodedCall, buffer: CustomCallBuffer) -> str:
    """Comment that describes a buffer."""
    index = index_suffix(buffer.index)
    use = ", temporary" if buffer.use == "temp" else ""
    if buffer.alias_of is not None:
        use = f", aliases {_local_name(call.buffers[buffer.alias_of])}"
    size = "1 byte" if buffer.bytes == 1 else f"{buffer.bytes:,} bytes"
    return escape_comment(f"{call.value(buffer)}{index}: {buffer.shape}, {size}{use}")


def _mark_used(names: Iterable[str]) -> str:
    """Line that suppresses compiler warnings for unused variables.

    >>> _mark_used(("a", "b"))
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
    yield _mark_used(
        ["out", "ins", *(("opaque", "opaque_len") if unified else ()), *_status(call), *map(_local_name, arrays)]
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
    return f"  {kind}{_local_name(buffer)} = ({kind}){place};  /* {_describe_buffer(call, buffer)} */"


def _status(call: DecodedCall) -> list[str]:
    return [] if call.spec.api_version is CustomCallApiVersion.ORIGINAL else ["status"]


# --- types of the typed FFI ---
# C++ types of arguments, results, and attributes in XLA's typed FFI.
#
# Mirrors xla/ffi/api/ffi.h and `BuildAttributesMap` of xla/ffi/attribute_map.cc.


# Types with a C++ representation in ffi.h; others come as AnyBuffer.
_NATIVE: Final = frozenset("pred u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 c64 c128".split())
_WIDTHS: Final = (8, 16, 32, 64)  # attribute_map.cc has integers of these widths
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
            # attribute_map.cc builds spans of numbers only.
            return None if element in (None, "bool") else f"ffi::Span<const {element}>"
        case MlirText():
            return "std::string_view"
        case MlirDictionary():
            return "ffi::Dictionary"
    return None


# --- handlers of the typed FFI ---
# C++ handlers for typed FFI calls.
#
# Mirrors the requirements of xla/ffi/api/ffi.h: arguments, results, and attributes in the order of the call.


def _ffi_prelude() -> Iterator[str]:
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


def _ffi_handler(call: DecodedCall, name: str, names: Identifiers) -> Iterator[str]:
    """Yields the lines of the implementation and of the handler that calls it; `names` are the identifiers in use.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.custom_calls.call import custom_calls_of
    >>> text = 'custom-call(f32[2] a), custom_call_target="f", api_version=API_VERSION_TYPED_FFI'
    >>> call, = custom_calls_of(parse_module(f"r = f32[2] {text}, backend_config={{n = 3}}"))
    >>> print(*_ffi_handler(call, "f", Identifiers()), sep="\\n")
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
    yield from _on_gpu(_mark_used(("stream",)))
    if parameters:
        yield _mark_used(declared.rpartition(" ")[2] for declared, _ in parameters)
    yield YOUR_CODE
    yield "  return ffi::Error::Success();"
    yield "}"
    yield from _binding(call, binding)
    yield f"XLA_FFI_DEFINE_HANDLER_SYMBOL({name}, {work}, {binding}());"


def _binding(call: DecodedCall, name: str) -> Iterator[str]:
    """Yields the binding of a handler as a function, since `#ifdef` is not possible in macro arguments."""
    bound = [f"    .Arg<{buffer_type(b.shape)}>()" for b in call.arguments if b.ffi is not None]
    bound += [f"    .Ret<{buffer_type(b.shape)}>()" for b in call.results if b.ffi is not None]
    bound += [f"    .Attr<{kind}>({_c_string(key)})" for key, kind, _ in _attributes(call)]
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
    parameters = [
        (f"{buffer_type(b.shape)} {_local_name(b)}", _describe_buffer(call, b))
        for b in call.arguments
        if b.ffi is not None
    ]
    parameters += [
        (f"ffi::Result<{buffer_type(b.shape)}> {_local_name(b)}", _describe_buffer(call, b))
        for b in call.results
        if b.ffi is not None
    ]
    # Attributes are named by users, and must not hide a buffer.
    names = Identifiers(("stream", "ffi", *map(_local_name, call.buffers)))
    parameters += [
        (f"{kind} {names.unique_name(key)}", escape_comment(f"such as {text}")) for key, kind, text in _attributes(call)
    ]
    return parameters


def _attributes(call: DecodedCall) -> list[tuple[str, str, str]]:
    """Name, type, and value of each attribute that XLA passes."""
    entries = call.config.attributes.entries if call.config.attributes is not None else ()
    typed = [(key, attribute_type(value), value) for key, value in entries]
    return [(key, kind, _shortened(str(value))) for key, kind, value in typed if kind is not None]


# Chosen: the comment shows what kind of value it is, and need not hold all of it.
def _shortened(text: str, room: int = 60) -> str:
    return text if len(text) <= room else f"{text[:room]} ..."


# --- a source file with these functions ---
# C or C++ source file with a function for each distinct custom call that requires a user-defined one.


# Names that the prelude defines.
_RESERVED: Final = frozenset(("CUstream", "ELEMENT", "XlaCustomCallStatus", "ffi", "xla", "xla_c64", "xla_c128"))


def source_of(calls: Sequence[DecodedCall]) -> Iterator[str]:
    """Yields the lines of the file; calls with different shapes or attribute types have separate functions.

    Calls without a user-defined function are listed in comments.
    """
    groups = list(_distinct([call for call in calls if call.target.is_user_defined]))
    typed = [group for group in groups if group[0].is_typed]
    plain = [group for group in groups if not group[0].is_typed]
    for target, words in dict.fromkeys(
        (c.spec.target, c.target.description) for c in calls if not c.target.is_user_defined
    ):
        yield f"/* {escape_comment(target)} needs no user-defined function: {words}. */"
    names = Identifiers(_RESERVED)
    if plain:
        yield from _c_prelude(tuple(group[0] for group in plain))
        yield ""
        yield from ("#ifdef __cplusplus", 'extern "C" {', "#endif")
        yield from _functions(plain, names)
        yield from ("", "#ifdef __cplusplus", "}", "#endif")
    if typed:
        if plain:
            yield from ("", "#ifdef __cplusplus")
        yield from _ffi_prelude()
        yield from _functions(typed, names)
        if plain:
            yield "#endif"


def _functions(groups: Sequence[Sequence[DecodedCall]], names: Identifiers) -> Iterator[str]:
    for group in groups:
        call = group[0]
        name = names.unique_name(call.spec.target)
        callers = ", ".join(each.instruction.name for each in group[:3])
        more = f", and {len(group) - 3:,} more" if len(group) > 3 else ""
        yield ""
        target = escape_comment(call.spec.target)
        yield f"/* {target}, {call.spec.api_version}; called by {escape_comment(callers)}{more}. */"
        yield from _ffi_handler(call, name, names) if call.is_typed else _c_function(call, name)


def _distinct(calls: Sequence[DecodedCall]) -> Iterator[list[DecodedCall]]:
    """Calls grouped by the signature of their functions."""
    groups: dict[tuple[object, ...], list[DecodedCall]] = {}
    for call in calls:
        entries = call.config.attributes.entries if call.config.attributes is not None else ()
        names = tuple((name, attribute_type(value)) for name, value in entries)
        shapes = (*map(str, call.operands), str(call.result))
        shared = tuple((buffer.use, buffer.alias_of) for buffer in call.buffers)
        groups.setdefault((call.spec.target, call.spec.api_version, shapes, names, shared), []).append(call)
    yield from groups.values()
