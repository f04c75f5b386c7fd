"""MLIR itself as the judge of the reader of bytecode: what we print is, read by jaxlib, the same program."""

from __future__ import annotations

import io
import random
from importlib.util import find_spec
from pathlib import Path

import pytest

from hlo_cli.mlir.bytecode import read_bytecode, read_locations
from hlo_cli.mlir.mlir_operations import generic_text
from hlo_cli.mlir.mlir_values import Unread
from kernel_bodies import bodies_in, body_in, lowered_kernels, mlir_context, printed
from test_kernels_oracle import SAMPLE, TOPOLOGIES, ask, chunk

pytestmark = pytest.mark.oracle
pytest.importorskip("jaxlib")
pytest.importorskip("jax")

VERSIONS = range(7)
"""The versions that MLIR can write."""
ATTRIBUTES = """
1 : i32; -1 : i64; true; false; 3 : index; -128 : i8; 255 : ui8; -5 : si16; -3 : i24; 7 : i4; -1 : i128
123456789012345678901234567890 : i128
1.0 : f32; -0.0 : f32; 1.0e-5 : f32; 3.4e38 : f32; 0x7F800000 : f32; 0x7FC00000 : f32; 1.0e300 : f64; 0.1 : bf16
0.1 : f16; 65504.0 : f16; 448.0 : f8E4M3FN; 0.1 : f8E5M2; 1.0 : f8E4M3B11FNUZ; 1.0 : f8E5M2FNUZ; 1.0 : f8E4M3FNUZ
1.0 : f8E3M4; 1.0 : f8E4M3; 1.0 : f4E2M1FN; 1.0 : f6E2M3FN; 1.0 : f6E3M2FN; 2.0 : f8E8M0FNU; 1.0e-40 : f32; 1.0 : tf32
[]; [1, 2]; [1 : i32, 2.0 : f64, 2.0 : f32, "a", @x, unit, f32]; {a = 1 : i32, b}; {"x y" = 2 : i8}; {}; unit
"a\\22\\0A\\C3\\A9\\\\"; "typed" : i32; @sym; @"a b"::@c::@"d e"
f32; i1; (i32, f32) -> (); () -> i32; () -> (i32, f32); () -> (() -> i32); (() -> i32) -> i32; complex<f32>; none; index
vector<4x8xf32>; vector<f32>; vector<[4]xf32>; vector<2x[4]xi8>; tensor<4x?xf32>; tensor<f32>; tensor<*xf32>
tensor<4xf32, #tpu.memory_space<vmem>>; tuple<>; tuple<i32, tuple<f32>>; !tpu.dma_semaphore
memref<4x?xf32>; memref<4xf32, 3>; memref<4xf32, strided<[?], offset: ?>>; memref<*xf32>; memref<*xf32, 2 : i32>
memref<4x4xf32, strided<[8, 1]>, #tpu.memory_space<smem>>; memref<4x4xf32, affine_map<(d0, d1) -> (d1, d0)>>
memref<4x4xf32, affine_map<(d0, d1) -> (d0 + d1 * 3 mod 4, d0 floordiv 2 + d1 ceildiv 3)>>
memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
array<i64>; array<i64: 1, -2, 3>; array<i1: true, false>; array<i8: 1, -1>; array<i32: 5>; array<f32: 1.0, 2.5>
dense<1> : tensor<4xi32>; dense<[1, 2, 3]> : tensor<3xi32>; dense<true> : vector<8xi1>; dense<false> : vector<9xi1>
dense<[true, false, true]> : vector<3xi1>; dense<[[1, 2], [3, 4]]> : vector<2x2xi8>; dense<[1, -1, 3]> : vector<3xi4>
dense<[true, true, true, true, true, true, true, true]> : vector<8xi1>; dense<true> : tensor<i1>; dense<1> : vector<3xi4>
dense<[true, false, true, true, true, true, true, true, true]> : vector<9xi1>; dense<1.5> : vector<2xbf16>
dense<[0.1, 0x7FC00000]> : vector<2xf32>; dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>; dense<5> : tensor<2xindex>
dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>; dense<> : tensor<0xi32>; dense<> : tensor<2x0xi32>
dense<2> : tensor<i32>; dense<[1]> : tensor<1xi64>; dense<[1.0, 2.0]> : vector<2xf8E4M3FN>; dense<[200, 2]> : tensor<2xui8>
affine_map<(d0, d1) -> (d0, d1)>; affine_map<(d0, d1)[s0] -> (d0 + s0, d1 * 4)>; affine_map<() -> ()>
affine_map<(d0) -> (d0 mod 4, d0 floordiv 2, d0 ceildiv 3, d0 * -1, -d0 + 5)>; affine_map<(d0, d1, d2) -> (d2, d0)>
affine_map<(d0, d1) -> (d0 * 2 + d1 * 3 + 4, (d0 + d1) mod 4, (d0 + d1) * 5)>; affine_map<(d0, d1) -> (d1, d0)>
strided<[1, ?], offset: 4>; strided<[]>; #tpu.memory_space<vmem>; #tpu.dimension_semantics<parallel>
loc("f.py":1:2); loc("n"("f.py":1:2)); loc(unknown); loc(callsite("a" at "b")); loc(fused["a", "b"])
loc(fused<"m">["a", "b"]); loc("f.py":1:2 to :4); loc("f.py":1:2 to 3:4)
"""
"""One of each form of attributes and types, as MLIR writes them."""


def judged(text: str, version: int) -> tuple[str, str]:
    """What MLIR prints of an attribute, and of what we print of the bytes that it writes."""
    from jaxlib.mlir import ir

    source = f'"builtin.module"() ({{ "m.x"() {{a = {text}}} : () -> () }}) : () -> ()'
    with mlir_context():
        module = ir.Module.parse(source)
        data = io.BytesIO()
        module.operation.write_bytecode(data, desired_version=version)
        program = read_bytecode(data.getvalue())
        assert not any(isinstance(each, Unread) for each in program.root.regions[0].operations[0].attributes.values())
        return printed(source), printed(generic_text(program.root))


@pytest.mark.parametrize("line", ATTRIBUTES.strip().splitlines())
def test_attributes_and_types(line: str) -> None:
    for text in line.split("; "):
        for version in VERSIONS:
            theirs, ours = judged(text, version)
            assert ours == theirs, f"{text} in version {version}"


def test_random_floats() -> None:
    chance = random.Random(5)
    for kind, bits in (("f32", 32), ("f64", 64), ("bf16", 16), ("f16", 16), ("f8E4M3FN", 8), ("f8E5M2", 8)):
        for _ in range(100):
            number = chance.getrandbits(bits)
            theirs, ours = judged(f"0x{number:0{bits // 4}X} : {kind}", 0)
            assert ours == theirs


def test_kernels_of_the_installed_jax() -> None:
    for text in lowered_kernels().values():
        body, locations = body_in(text), body_in(text, "debug_locations")
        program = read_bytecode(body)
        assert printed(generic_text(program.root)) == printed(body)
        if locations:  # since jax 0.12
            read_locations(program, locations)
        else:
            assert printed(generic_text(program.root, locations=True), locations=True) == printed(body, locations=True)


@pytest.mark.parametrize(
    ("topology", "names"),
    [
        pytest.param(TOPOLOGIES[0], SAMPLE, id="sample"),
        *(
            pytest.param(TOPOLOGIES[at % len(TOPOLOGIES)], chunk(1000 + at), id=f"chunk-{at}", marks=pytest.mark.long)
            for at in range(64)
        ),
    ],
)
def test_random_kernels(topology: str, names: tuple[str, ...], tmp_path: Path) -> None:
    """64 chunks are 1,024 programs, some with several kernels."""
    if find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed")
    ask(tmp_path, "lower", topology, str(tmp_path), *names)
    bodies = {name: bodies_in((tmp_path / f"{name}.mlir").read_text()) for name in names}
    assert all(bodies.values())
    for name, several in bodies.items():
        for body in several:
            assert printed(generic_text(read_bytecode(body).root)) == printed(body), name
