"""Code that XLA writes beside a dump answers alone, and names the instruction of the module that it was generated from.

The files in data/code_files are those of jaxlib 0.10.2 and its CUDA plugin; sizes of functions are those of `nm -S`.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from hlo_cli import cli
from hlo_cli.inputs.stablehlo import is_stablehlo
from hlo_cli.syntax.compiler_files.code_files import read_drawing, read_emitter, read_llvm, read_object, read_ptx

DATA = Path(__file__).parent / "data" / "code_files"
MODULE = """HloModule jit_f, is_scheduled=true

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %wrapped_transpose.2 = f32[8]{0} negate(%p), metadata={op_name="jit(f)/neg"}
}
"""


def text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def answer(capsys: pytest.CaptureFixture[str], *line: str) -> tuple[int, str]:
    code = cli.main([*line, "--format", "screen"], standalone=False)
    out, err = capsys.readouterr()
    return code, " ".join((out or err).split())


def test_ptx() -> None:
    [kernel] = read_ptx(text("conv.ptx")).functions
    assert (kernel.name, kernel.is_kernel, kernel.threads, kernel.shared_bytes) == (
        "wrapped_transpose_2",
        True,
        128,
        4224,
    )
    assert kernel.instructions == sum(
        line.endswith(";") and not line.lstrip().startswith(".") for line in text("conv.ptx").split("\n")
    )
    dynamic = read_ptx(
        ".extern .shared .align 16 .b8 s[];\n.visible .entry k(\n)\n{\n\t.local .align 4 .b8 \td[28];\n\tret;\n}\n"
    )
    assert (dynamic.functions[0].shared_bytes, dynamic.functions[0].local_bytes) == (None, 28)


def test_llvm() -> None:
    code = read_llvm(text("gpu.ll"))
    assert code.target == "nvptx64-nvidia-cuda"
    assert [(each.name, each.argument_bytes) for each in code.functions] == [("loop_reduce_fusion", 262144 + 65536)]
    assert not read_llvm("define internal void @h() {\n  ret void\n}\n").functions[0].is_kernel


def test_emitters_are_no_programs() -> None:
    for name in ("cpu.mlir", "tanh.mlir"):
        assert not is_stablehlo(text(name))
    assert [(each.name, each.argument_bytes) for each in read_emitter(text("cpu.mlir")).functions] == [
        ("slice_bitcast_fusion.1", 12)
    ]
    assert [(each.name, each.is_kernel) for each in read_emitter(text("tanh.mlir")).functions] == [
        ("wrapped_tanh", True),
        ("wrapped_tanh_impl", False),
    ]


def test_objects() -> None:
    data = (DATA / "tanh.o").read_bytes()
    code = read_object(data)
    assert code is not None
    assert code.target == "x86-64"
    assert [(each.name, each.size_bytes) for each in code.functions] == [("wrapped_tanh", 0x2CB)]
    for at in range(0, len(data), 7):  # cut or changed anywhere: functions, or none
        read_object(data[:at])
        read_object(data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :])


def test_drawings() -> None:
    drawing = read_drawing(text("before.dot"))
    assert drawing is not None
    assert (drawing.dump, drawing.computation) == ("module_0000.jit_mlp.before_optimizations", "main.1")
    assert (drawing.nodes, drawing.edges) == (6, 5)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "conv.ptx",
            "PTX for sm_90a: 1 kernel: wrapped_transpose_2, 128 threads a block, 4.1 KiB of static shared memory",
        ),
        ("gpu.ll", "LLVM IR for nvptx64-nvidia-cuda: 1 kernel: loop_reduce_fusion"),
        ("cpu.mlir", "MLIR of an emitter: 1 kernel: slice_bitcast_fusion.1"),
        ("tanh.o", "Machine code for x86-64: 1 kernel: wrapped_tanh, 715 B"),
        ("before.dot", "Drawing of computation main.1 of module_0000.jit_mlp.before_optimizations: 6 nodes, 5 edges"),
    ],
)
def test_each_answers_alone(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, "overview", str(DATA / name))
    assert (code, words in found) == (0, True), found


def test_a_kernel_names_its_instruction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "module_0007.jit_f.sm_9.0a_gpu_after_optimizations.txt").write_text(MODULE)
    shutil.copy(DATA / "conv.ptx", tmp_path / "module_0007.jit_f.3.ptx")
    cli.main(["overview", f"{tmp_path}/module_0007.jit_f.3.ptx", "--format", "csv"], standalone=False)
    row = capsys.readouterr().out.split("\n")[1]
    assert row == "wrapped_transpose_2,true,wrapped_transpose.2,f32[8]{0},jit(f)/neg,63,128,4224"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("num_replicas: 2\ndevice_assignment {\n}\nnum_partitions: 4\nuse_shardy_partitioner: true\n", "2 replicas, 4 partitions, partitioned by Shardy"),
        ('optimized_hlo_instruction_count: 25\nmodule_name: "jit_mlp"\n', "jit_mlp has 25 instructions after optimizations"),
        ("version: 3\n", "Autotuning results without entries"),
        ("entry_computation_layout {\n}\nreplica_count: 1\nnum_partitions: 2\ndebug_options {\n  xla_dump_hlo_as_text: true\n}\n", "1 of 1 flag is not the default: --xla_dump_hlo_as_text 1 replica, 2 partitions"),
    ],
)  # fmt: skip
def test_descriptions(content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.txt").write_text(content)
    code, found = answer(capsys, "overview", str(tmp_path / "m.txt"))
    assert (code, words in found) == (0, True), found


def test_an_object_without_functions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.o").write_bytes(b"\x7fELF\x02\x01" + struct.pack("<58x"))
    assert answer(capsys, "overview", str(tmp_path / "m.o"))[0] == 2
