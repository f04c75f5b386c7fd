"""Custom calls: buffers in the order of XLA's page and of the compilers' tables, configurations, and C that runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from ctypes import c_float, c_void_p
from io import BytesIO
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calling import answered_by_xla, called, compiled, source_for, table
from dumps import Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.custom_calls.call import DecodedCall, attribute_type, cpu_place, custom_calls_of, gpu_place
from hlo_cli.analysis.custom_calls.config import (
    MlirArray,
    MlirDictionary,
    MlirScalar,
    MlirText,
    embedded_program,
    read_bytecode,
    read_config,
    read_dictionary,
)
from hlo_cli.ir.attributes.metadata import BackendConfig
from timing import is_linear

# The call that XLA's page on custom calls has under "Passing tuples to custom-calls".
TUPLES = """HloModule tuple_example
ENTRY main {
  a = f32[32] parameter(0)
  b = f32[64] parameter(1)
  c = f32[128] parameter(2)
  d = f32[256] parameter(3)
  bc = (f32[64], f32[128]) tuple(b, c)
  p0 = (f32[32], (f32[64], f32[128]), f32[256]) tuple(a, bc, d)
  call = (f32[512], f32[1024]) custom-call(p0), custom_call_target="do_custom_call"
  ROOT result = f32[512] get-tuple-element(call), index=0
}
"""
SUM = "  out_1[0] = in0_0[0] + 10 * in0_1_0[0]; out_0[0] = out_1[0] + 100 * in0_1_1[0] + 1000 * in0_2[0];"

TYPED = """HloModule typed
ENTRY main {
  a = f32[8] parameter(0)
  b = f32[2] parameter(1)
  call = (f32[8], f32[2]) custom-call(a, b), custom_call_target="typed", api_version=API_VERSION_TYPED_FFI,
    backend_config={b = true, dense = dense<[2, 3]> : tensor<2xi64>, f = 0.5 : f32, g = 0.25, i = 3 : ui8, inner =
    {k = 1 : i16}, list = array<i32: 4, 5>, n = -6, new = "x\\22y"}
  ROOT result = f32[8] get-tuple-element(call), index=0
}
"""
TYPED_SUM = """
  if (!b || dense.size() != 2 || new_ != "x\\"y" || inner.get<int16_t>("k").value() != 1) {
    return ffi::Error::InvalidArgument("attributes");
  }
  out_0->typed_data()[0] = in0.typed_data()[0] + 10 * in1.typed_data()[0] + dense[1] + f + g + i + list[1] + n;
"""

HOSTILE = """HloModule hostile
ENTRY main {
  p = (f32[2], (c64[3], pred[]), token[]) parameter(0)
  x = s4[3] parameter(1)
  y = f8e5m2[3,4] parameter(2)
  a = () custom-call(p, x, p), custom_call_target="main", api_version=API_VERSION_STATUS_RETURNING
  b = (c128[5], (u2[4], token[])) custom-call(), custom_call_target="*/ 2\\n??/", api_version=API_VERSION_STATUS_RETURNING_UNIFIED
  c = bf16[5] custom-call(x, y), custom_call_target="new"
  d = f32[5] custom-call(x, y), custom_call_target="new", output_to_operand_aliasing={{}: (0, {})}
  e = (s4[3], token[], opaque[]) custom-call(p, y), custom_call_target="new", api_version=API_VERSION_TYPED_FFI,
    backend_config={"*/ \\22" = "*/", in0 = 1 : i8, in0_ = f32, class = {a = 1}, stream = [1], u}
  f = f32[2] custom-call(), custom_call_target="new__impl", api_version=API_VERSION_TYPED_FFI
  ROOT r = f32[] constant(0)
}
"""


def test_the_tuples_of_xlas_page_have_the_numbers_it_gives() -> None:
    (call,) = custom_calls_of(parse_module(TUPLES))
    places = [
        (gpu_place(b), call.value(b), b.index, b.bytes, b.use, cpu_place(b, nested=True, is_tuple=True))
        for b in call.buffers
    ]
    assert places == [
        ("buffers[0]", "p0", (0,), 128, "in", "ins[0][0]"),
        ("buffers[1]", "p0", (1, 0), 256, "in", "ins[0][1][0]"),
        ("buffers[2]", "p0", (1, 1), 512, "in", "ins[0][1][1]"),
        ("buffers[3]", "p0", (2,), 1024, "in", "ins[0][2]"),
        ("buffers[4]", "result", (0,), 2048, "out", "out[0]"),
        ("buffers[5]", "result", (1,), 4096, "temp", "out[1]"),
    ]


@pytest.mark.parametrize("language", ["c", "c++"])
def test_every_convention_reads_the_same_buffers(tmp_path: Path, language: str) -> None:
    """One body of code, with the buffers handed over as GPUs do, in nested tables and in one."""
    source = source_for(TUPLES, SUM)
    sizes = (32, 64, 128, 256)
    a, b, c, d = inputs = [(c_float * size)(*([n + 1.0] * size)) for n, size in enumerate(sizes)]
    handed: dict[tuple[str, ...], Callable[[tuple[object, object]], tuple[c_void_p | int | None, ...]]] = {
        ("-DFOR_GPU",): lambda outs: (None, table(*inputs, *outs), None, 0),
        ("-DNESTED_TUPLES",): lambda outs: (table(*outs), table(table(a, table(b, c), d))),
        (): lambda outs: (table(*outs), table(*inputs)),
    }
    for flags, arguments in handed.items():
        outs = (c_float * 512)(), (c_float * 1024)()
        given = arguments(outs)
        called(compiled(source, tmp_path, *flags, language=language), "do_custom_call", *given)
        assert (outs[0][0], outs[1][0]) == (4321.0, 21.0), flags


@pytest.mark.oracle
def test_xla_hands_over_the_leaves_of_tuples_as_we_say(tmp_path: Path) -> None:
    library = compiled(source_for(TUPLES, SUM), tmp_path)
    assert answered_by_xla(TUPLES, library, "do_custom_call", (32, 64, 128, 256), typed=False) == 4321.0


@pytest.mark.oracle
def test_xla_passes_to_a_handler_what_we_declare(tmp_path: Path) -> None:
    """XLA refuses a handler one of whose types, ranks or attributes is not what the call passes."""
    library = compiled(source_for(TYPED, TYPED_SUM), tmp_path, language="c++")
    assert answered_by_xla(TYPED, library, "typed", (8, 2), typed=True) == 1 + 20 + 3 + 0.5 + 0.25 + 3 + 5 - 6


@pytest.mark.parametrize(
    ("language", "flags"),
    [
        *(("c", flags) for flags in ((), ("-DFOR_GPU",), ("-DNESTED_TUPLES",))),
        *(pytest.param("c++", flags, marks=pytest.mark.slow) for flags in (("-DFOR_GPU",), ())),
    ],
)
def test_c_compiles_whatever_names_and_types_there_are(tmp_path: Path, language: str, flags: tuple[str, ...]) -> None:
    compiled(source_for(HOSTILE, ""), tmp_path, *flags, language=language)


def test_what_compilers_and_frameworks_do_themselves_needs_no_function() -> None:
    source = source_for('r = f32[2] custom-call(f32[2] a), custom_call_target="__cublas$gemm"')
    assert source == "/* __cublas$gemm needs no user-defined function: cuBLAS matmul. */\n"


@pytest.mark.parametrize("dump", compiled_dumps(), ids=str)
def test_buffers_have_the_bytes_that_the_compiler_gave_them(dump: Dump) -> None:
    listed = re.finditer(
        r"value: <\d+ ([^ {>]+)(?:\{([\d,]*)\})? @\d+> \(size=(\d+)", dump.sibling("buffer-assignment")
    )
    sizes = {(found[1], tuple(map(int, found[2].split(",") if found[2] else ()))): int(found[3]) for found in listed}
    for call in custom_calls_of(parse_module(dump.text)):
        for buffer in call.buffers:
            name = call.instruction.name if buffer.operand is None else call.instruction.operands[buffer.operand].name
            assert sizes.get((name, buffer.index), buffer.bytes) == buffer.bytes, (name, buffer)


@pytest.mark.parametrize("dump", compiled_dumps(), ids=str)
def test_every_configuration_of_a_compiler_is_decoded(dump: Dump) -> None:
    for call in custom_calls_of(parse_module(dump.text)):
        assert call.config.kind in ("none", "JSON", "MLIR dictionary"), call.config
        assert call.target.category != "unknown", call.spec.target
        if call.config.attributes is not None:
            assert all(attribute_type(value) is not None for _, value in call.config.attributes.entries)


@pytest.mark.parametrize(
    ("users", "temps"),
    [
        ("ROOT r = f32[2] get-tuple-element(c), index=0", [(1, 0), (1, 1)]),
        ("g = (s8[], u8[]) get-tuple-element(c), index=1  ROOT r = s8[] get-tuple-element(g), index=0", [(0,), (1, 1)]),
        ("g = (s8[], u8[]) get-tuple-element(c), index=1  ROOT r = ((s8[], u8[])) tuple(g)", [(0,)]),
        ("g = (s8[], u8[]) get-tuple-element(c), index=1  ROOT r = f32[] constant(0)", [(0,), (1, 0), (1, 1)]),
        ("ROOT r = ((f32[2], (s8[], u8[]))) tuple(c)", []),
        ("ROOT r = f32[2] negate(c#0)", [(1, 0), (1, 1)]),
        ("ROOT r = f32[] constant(0), control-predecessors={c}", [(0,), (1, 0), (1, 1)]),
    ],
)
def test_elements_that_no_one_reads_are_temporary(users: str, temps: list[tuple[int, ...]]) -> None:
    text = f'ENTRY e {{ c = (f32[2], (s8[], u8[])) custom-call(), custom_call_target="f"  {users} }}'
    (call,) = custom_calls_of(parse_module(text))
    assert [buffer.index for buffer in call.temps] == temps


def test_what_is_overwritten_is_no_temporary() -> None:
    text = """ENTRY e { p = (f32[2], s8[4]) parameter(0)
    ROOT c = (s8[4], f32[2]) custom-call(p), custom_call_target="f", output_to_operand_aliasing={{1}: (0, {0})} }"""
    (call,) = custom_calls_of(parse_module(text))
    assert [(buffer.use, buffer.alias_of) for buffer in call.buffers] == [
        ("in, out", None), ("in", None), ("out", None), ("out", 0)
    ]  # fmt: skip


def test_the_start_of_a_call_gives_what_the_call_gives() -> None:
    text = """ENTRY e { p = f32[2] parameter(0)
    s = ((f32[2]), f32[4], u32[]) custom-call-start(p), custom_call_target="f"
    ROOT d = f32[4] custom-call-done(s) }"""
    (call,) = custom_calls_of(parse_module(text))
    assert [(buffer.operand, buffer.bytes, buffer.use) for buffer in call.buffers] == [
        (0, 8, "in"),
        (None, 16, "out"),
    ]


def _attribute(random: Random, depth: int) -> tuple[str, object]:
    """A random attribute as MLIR reads it, with what it means."""
    kind = random.choice(["integer", "float", "string", "array", "truth", "dictionary"][: 6 if depth else 5])
    match kind:
        case "integer":
            width = random.choice((8, 16, 32, 64))
            number = random.randrange(-(2 ** (width - 1)), 2 ** (width - 1))
            return f"{number} : i{width}", MlirScalar(number, f"i{width}")
        case "float":
            real = random.randrange(-1000, 1000) / 8
            return f"{real:e} : f64", MlirScalar(real, "f64")
        case "string":
            text = "".join(random.choices('ab ,{}<>"\\\n', k=random.randrange(8)))
            return '"' + "".join(c if c.isalnum() or c == " " else f"\\{ord(c):02X}" for c in text) + '"', MlirText(
                text
            )
        case "array":
            numbers = [random.randrange(100) for _ in range(random.randrange(4))]
            listed = f"array<i32{': ' if numbers else ''}{', '.join(map(str, numbers))}>"
            return listed, MlirArray("i32", len(numbers), listed)
        case "truth":
            truth = random.random() < 0.5
            return str(truth).lower(), MlirScalar(truth, "i1")
    return _dictionary(random, depth - 1)


def _dictionary(random: Random, depth: int) -> tuple[str, MlirDictionary]:
    entries = {f"k{n}": _attribute(random, depth) for n in range(random.randrange(5))}
    meant = MlirDictionary(tuple((name, value) for name, (_, value) in entries.items()))  # type: ignore[misc]
    return "{" + ", ".join(f"{name} = {text}" for name, (text, _) in entries.items()) + "}", meant


@given(seed=st.integers(0, 2**32))
def test_dictionaries_mean_what_was_written(seed: int) -> None:
    text, meant = _dictionary(Random(seed), 3)
    assert read_dictionary(text) == meant


@pytest.mark.oracle
@given(seed=st.integers(0, 2**32))
def test_mlir_prints_dictionaries_that_mean_the_same(seed: int) -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    text, meant = _dictionary(Random(seed), 3)
    with ir.Context():
        printed = str(ir.Attribute.parse(text))
    assert read_dictionary(printed) == meant


@pytest.mark.oracle
@pytest.mark.parametrize("version", range(7))
def test_bytecode_of_every_version_is_read(version: int) -> None:
    mlir = pytest.importorskip("jax._src.interpreters.mlir")
    ir = pytest.importorskip("jaxlib.mlir.ir")
    text = """module { func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>  %1 = stablehlo.sine %0 : tensor<4xf32>  return %1 : tensor<4xf32> } }"""
    written = BytesIO()
    with mlir.make_ir_context():
        ir.Module.parse(text).operation.write_bytecode(written, desired_version=version)
    read = read_bytecode(written.getvalue())
    assert read is not None
    assert (read.version, read.producer.startswith("MLIR")) == (version, True)
    assert set(read.operations) == {"builtin.module", "func.func", "func.return", "stablehlo.add", "stablehlo.sine"}


@given(cut=st.integers(0, 400), place=st.integers(0, 400), byte=st.integers(0, 255))
def test_damaged_bytecode_is_said_to_be_what_it_is(cut: int, place: int, byte: int) -> None:
    data = bytearray(b"ML\xefR\x01MLIR1\0\x01\x0f\x05\x05\x05a\0b\0\x03\x0b\x03\x00\x00\x03\x03")
    data[min(place, len(data) - 1)] = byte
    read = read_bytecode(bytes(data[:cut]))
    assert read is None or all("." in operation for operation in read.operations)


def test_packed_programs_are_unpacked_up_to_a_limit() -> None:
    from base64 import b64encode
    from zlib import compress

    packed = compress(b"module { }" + b" " * (1 << 25))
    body = embedded_program(b64encode(packed).decode())
    assert body is not None
    assert (body.kind, body.packing, body.bytes) == ("MLIR text", "base64, zlib", 1 << 24)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("raw text", "text"),
        ("\x01\x02", "bytes"),
        ("{" * 3000 + "}" * 3000, "text"),
        ("{a = " * 3000 + "1" + "}" * 3000, "MLIR dictionary"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "text"),
        ("{a = }", "text"),
        ("{a = 1", "text"),
        ("{}", "none"),
    ],
)
def test_configurations_of_any_kind_are_kept(text: str, kind: str) -> None:
    assert read_config(BackendConfig(text)).kind == kind


@pytest.mark.parametrize(
    "unit",
    ["{a = {", "a = dense<", 'a = "\\', "{a = [<({", "{a = 1 : tensor<1x", "dense<> : tensor<1x1x", "a = array<i1: "],
)
def test_no_dictionary_takes_long(unit: str) -> None:
    def reading(times: int) -> Callable[[], object]:
        texts = [f"{{a = {unit * times}}}", "{" + unit * times]
        return lambda: [read_dictionary(text) for text in texts]

    assert is_linear(reading, 4000, 32_000)


@pytest.mark.slow
def test_calls_with_many_results_are_linear() -> None:
    def finding(number: int) -> Callable[[], object]:
        shape = "(" + ", ".join(["f32[2]"] * number) + ")"
        reads = " ".join(f"g{n} = f32[2] get-tuple-element(d), index={n}" for n in range(number))
        aliases = ", ".join(f"{{{n}}}: (0, {{{n}}})" for n in range(number))
        module = parse_module(f"""ENTRY e {{ p = {shape} parameter(0)
        c = {shape} custom-call(p), custom_call_target="f", output_to_operand_aliasing={{{aliases}}}
        d = {shape} custom-call(p), custom_call_target="f"
        {reads} ROOT r = ({shape}) tuple(c) }}""")
        return lambda: check(number, *custom_calls_of(module))

    def check(number: int, first: DecodedCall, second: DecodedCall) -> None:
        assert sum(buffer.alias_of is not None for buffer in first.buffers) == number
        assert len(second.temps) == number

    assert is_linear(finding, 4_000, 16_000)  # both more than what is remembered
