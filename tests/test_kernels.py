"""What Pallas kernels hold, read, and compute: against counts by hand, the compiler's figures, and a walk step by step."""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from dumps import FIXTURES
from hlo_cli import HloError, Module, PallasKernel, cli, kernels_of, load, pallas_kernels_of, parse_module, parse_shape
from hlo_cli.analysis.custom_calls.triton import triton_kernel_of
from hlo_cli.analysis.kernels.index_maps import visits_of
from hlo_cli.analysis.kernels.kernel_body import body_of
from hlo_cli.analysis.kernels.kernel_memory import buffer_bytes, is_contiguous, limits_of
from hlo_cli.analysis.kernels.scalar_code import results_of
from hlo_cli.ir.shape import ArrayShape
from in_process import run
from test_mlir_bytecode import damaged

CHIPS = ("v5e", "v6e")


def module_of(chip: str) -> Module:
    """The dump with all kernels."""
    return load(FIXTURES / "tpu" / f"{chip}_kernels")


def kernel(name: str, chip: str = "v5e") -> PallasKernel:
    """One kernel of the dump."""
    return next(each for each in pallas_kernels_of(module_of(chip), chip=chip) if each.name == name)


# --- windows ---


def test_windows_have_blocks_and_formulas() -> None:
    windows = kernel("maps").windows
    assert [", ".join(window.index_map) for window in windows] == [
        "i // 2, j",
        "i % 3, 0",
        "min(i, 1), j % 2",
        "i if j == 0 else 0, 3 - j",
        "2*i + 1, scalars[i]",
        "0, 0",
        "i, j",
    ]
    assert [window.label for window in windows] == ["in 1", "in 2", "in 3", "in 4", "in 5", "in 6", "out 0"]
    assert [window.buffers for window in windows] == [2, 2, 2, 2, 2, 1, 2]
    assert [window.dimensions for window in windows] == [(0, 1), (0,), (0, 1), (0, 1), (0,), (), (0, 1)]
    assert [window.is_bound for window in windows] == [False] * 4 + [True] + [False] * 2


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("matmul", [48, 48, 12]), ("gather", [96, 96]), ("attention", [16, 64, 64, 16]), ("copied", [None, 1])],
)
def test_blocks_that_are_moved_are_those_counted_by_hand(name: str, blocks: list[int | None]) -> None:
    assert [window.blocks for window in kernel(name).windows] == blocks


@pytest.mark.parametrize("name", ["matmul", "attention", "maps"])
@pytest.mark.parametrize("seed", range(4))
def test_moved_blocks_are_those_of_a_walk_of_the_grid(name: str, seed: int) -> None:
    """Every step one after the other: what is computed at once, by steps that increase the same index, is the same."""
    chance = random.Random(seed)
    body = body_of(kernel(name).instruction)
    grid = [chance.randrange(1, 6) for _ in body.grid or ()]
    for window in body.windows:
        assert window.transform is not None
        block = [chance.randrange(1, 9) for _ in window.block]
        sizes = [chance.randrange(1, 30) for _ in block]
        found = visits_of(window.transform, grid, range(len(grid)), block, sizes)
        moved, elements, last = 0, 0, None
        for step in product(*map(range, grid)):
            at = results_of(window.transform, [np.asarray(index) for index in step])
            if any(number is None for number in at):
                assert found.is_bound
                break
            place = tuple(int(number) for number in at if number is not None)
            if place != last:
                moved += 1
                inside = [
                    max(min((n + 1) * part, size) - max(min(n * part, size), 0), 0)
                    for n, part, size in zip(place, block, sizes, strict=True)
                ]
                elements += prod(inside)
            last = place
        else:
            assert (found.blocks, found.elements, found.is_bound) == (moved, elements, False)


def test_bytes_are_those_of_the_blocks() -> None:
    matmul = kernel("matmul")
    assert matmul.read_bytes == 48 * 256 * 128 * 2 + 48 * 128 * 512 * 2
    assert matmul.written_bytes == 12 * 256 * 512 * 2
    copied = kernel("copied")  # by DMA, block by block
    assert (copied.read_bytes, copied.written_bytes) == (512 * 256 * 4, 64 * 256 * 4)
    [copy] = copied.work.transfers
    assert (copy.source, copy.target, copy.bytes, copy.count) == ("any", "vmem", 64 * 256 * 4, 8)


def test_operands_in_vmem_are_not_read_from_main_memory() -> None:
    """On v6e, the compiler has copied them there; their blocks are no pieces of memory, so windows are kept."""
    matmul = kernel("matmul", "v6e")
    assert [window.is_in_vmem for window in matmul.windows] == [True, True, False]
    assert [window.moved_bytes for window in matmul.windows] == [0, 0, 12 * 256 * 512 * 2]
    assert [window.buffers for window in matmul.windows] == [2, 2, 2]


# --- work ---


def test_flops_are_those_counted_by_hand() -> None:
    assert kernel("matmul").work.flops == {"bf16": 2 * 1024 * 512 * 1536}
    # two matmuls of 256 × 128 × 256 for each of 10 blocks at or below the diagonal of 4 × 4, in 4 heads
    attention = kernel("attention")
    assert attention.work.flops == {"bf16": 4 * 10 * 2 * 2 * 256 * 128 * 256}
    assert attention.work.matmuls == 80
    assert attention.work.transcendentals == 4 * 10 * (256 * 256 + 256)
    assert attention.assumptions == ()


def test_conditions_are_followed_step_by_step() -> None:
    """Each of 8 iterations copies the next block, but the last; the first one is copied before."""
    assert kernel("copied").work.transfers[0].count == 1 + 7


def test_an_authors_estimate_is_kept_beside() -> None:
    estimate = kernel("matmul").estimate
    assert estimate is not None
    assert (estimate.flops, estimate.bytes_accessed) == (1234567, 1 << 20)


# --- memory ---


def test_memory_is_what_the_compiler_reserves() -> None:
    """Sizes that libtpu 0.0.52 lists for these kernels (`--xla_jf_dump_llo_text`)."""
    sizes = {
        each.name: [window.bytes for window in each.windows] for each in pallas_kernels_of(module_of("v5e"), chip="v5e")
    }
    assert sizes == {
        "matmul": [131072, 262144, 524288],
        "gather": [32768, 32768],
        "attention": [131072] * 4,
        "copied": [0, 65536],
        "maps": [8192] * 5 + [4096, 8192],
    }
    assert [part.bytes for part in kernel("attention").scratch] == [131072] * 3
    assert (kernel("gather").smem_bytes, kernel("matmul").smem_bytes) == (512, 0)


def test_memory_is_that_of_the_compiler_or_less() -> None:
    """What libtpu uses for these kernels after compilation; it keeps scratch of `maps` that is read by half a tile."""
    used = {"matmul": 1441792, "gather": 65536, "copied": 196608}
    assert {name: kernel(name).vmem_bytes for name in used} == used
    assert kernel("maps").vmem_bytes == 61440


def test_the_compilers_figure_is_that_of_the_generated_code(tmp_path: Path) -> None:
    """libtpu's dump after optimizations has an empty list for each kernel; that of the generated code has the sizes."""
    text = (FIXTURES / "tpu" / "v5e_kernels" / "after_optimizations.txt").read_text()
    names = [each.name for each in pallas_kernels_of(module_of("v5e"))]
    sizes = dict(zip(names, (1441792, 0, 4096, 8192, 16384), strict=True))
    filled = iter(sizes.values())

    def filled_in(match: re.Match[str]) -> str:
        used = f'"used_scoped_memory_configs":[{{"memory_space":"1","offset":"0","size":"{next(filled)}"}}]'
        return match[0].replace('"used_scoped_memory_configs":[]', used)

    (tmp_path / "module_0001.jit_run.after_optimizations.txt").write_text(text)
    alone = pallas_kernels_of(load(tmp_path))
    assert [each.used_vmem_bytes for each in alone] == [None] * len(sizes)
    (tmp_path / "module_0002.jit_run.after_codegen.txt").write_text(re.sub('"custom_call_config".*', filled_in, text))
    assert pallas_kernels_of(load(tmp_path, module="module_0001.jit_run"))[0].used_vmem_bytes is None
    (tmp_path / "module_0002.jit_run.after_codegen.txt").rename(tmp_path / "module_0001.jit_run.after_codegen.txt")
    module = load(tmp_path)
    assert module.source.name.endswith("after_optimizations.txt")
    assert {each.name: each.used_vmem_bytes for each in pallas_kernels_of(module)} == sizes
    assert all(each.is_used_elsewhere for each in pallas_kernels_of(module))


def test_the_figure_of_another_body_is_not_taken(tmp_path: Path) -> None:
    text = (FIXTURES / "tpu" / "v5e_kernels" / "after_optimizations.txt").read_text()
    used = '"used_scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"4096"}]'
    later = text.replace('"used_scoped_memory_configs":[]', used)
    later = re.sub('"body":"....', '"body":"AAAA', later)
    assert later.count('"body":"AAAA') == len(pallas_kernels_of(module_of("v5e")))
    (tmp_path / "module_0001.jit_run.after_optimizations.txt").write_text(text)
    (tmp_path / "module_0001.jit_run.after_codegen.txt").write_text(later)
    assert {each.used_vmem_bytes for each in pallas_kernels_of(load(tmp_path))} == {None}


@pytest.mark.parametrize(
    ("block", "bits", "rows", "expected"),
    [
        ((), 32, 8, 512),
        ((100,), 32, 8, 512),
        ((100,), 16, 8, 512),
        ((300,), 8, 8, 512),
        ((8, 128), 32, 8, 4096),
        ((3, 5), 32, 8, 2048),
        ((1, 128), 32, 8, 512),
        ((5, 200), 16, 8, 4096),
        ((2, 3, 130), 32, 4, 8192),
        ((3, 24, 128), 8, 32, 9216),
    ],
)
def test_a_buffer_is_filled_up_to_tiles(block: tuple[int, ...], bits: int, rows: int, expected: int) -> None:
    assert buffer_bytes(block, bits, rows) == expected


def test_old_generations_have_larger_tiles() -> None:
    assert buffer_bytes((1, 128), 32, 8, has_large_tiles=True) == 1024
    assert buffer_bytes((100,), 32, has_large_tiles=True) == 1024


@pytest.mark.parametrize("seed", range(30))
def test_contiguous_blocks_are_one_piece_of_memory(seed: int) -> None:
    """Against the addresses of all elements of the first block, which numpy gives for the tiled array."""
    chance = random.Random(seed)
    rows, columns, lead = 8 * chance.randrange(1, 4), 128 * chance.randrange(1, 4), chance.randrange(1, 4)
    shape = parse_shape(f"f32[{lead},{rows},{columns}]{{2,1,0:T(8,128)S(1)}}")
    assert isinstance(shape, ArrayShape)
    block = (
        chance.randrange(1, lead + 1),
        4 * chance.randrange(1, rows // 4 + 1),
        64 * chance.randrange(1, columns // 64 + 1),
    )
    addresses = np.arange(lead * rows * columns).reshape(lead, rows // 8, columns // 128, 8, 128)
    places = addresses.transpose(0, 1, 3, 2, 4).reshape(lead, rows, columns)[: block[0], : block[1], : block[2]]
    is_piece = places.max() - places.min() + 1 == places.size
    # blocks that end inside of a tile are no pieces for the compiler, even where they are
    in_tiles = (block[1] % 8 == 0 or block[1] == rows) and (block[2] % 128 == 0 or block[2] == columns)
    assert is_contiguous(block, shape, 8) == (bool(is_piece) and in_tiles)


def test_a_block_beyond_the_array_is_read_where_it_is_but_not_written() -> None:
    """As libtpu 0.0.52 decides for random kernels."""
    array = parse_shape("bf16[1,104,64]{2,1,0:T(8,128)(2,1)S(1)}")
    assert isinstance(array, ArrayShape)
    assert is_contiguous((1, 128, 64), array, 8)
    assert not is_contiguous((1, 128, 64), array, 8, is_output=True)
    several = parse_shape("f32[2,52,200]{2,1,0:T(8,128)S(1)}")
    assert isinstance(several, ArrayShape)
    assert not is_contiguous((2, 128, 200), several, 8)


def test_limits_are_those_that_libtpu_names() -> None:
    assert {chip: limits_of(chip).default_bytes >> 20 for chip in ("v3", "v4", "v5e", "v5p", "v6e", "7x")} == {
        "v3": 16, "v4": 16, "v5e": 16, "v5p": 16, "v6e": 32, "7x": 32,
    }  # fmt: skip
    assert kernel("matmul").limit_bytes == limits_of("v5e").default_bytes
    assert kernel("attention", "v6e").limit_bytes == 24 << 20  # as the program sets it
    with pytest.raises(HloError, match="unknown TPU generation 'h100'"):
        limits_of("h100")


# --- what cannot be read ---


def call(config: dict[str, object]) -> PallasKernel:
    """A kernel with a configuration."""
    text = json.dumps(config, separators=(",", ":"))
    text = f'ENTRY e {{ p = f32[8,128] parameter(0)  ROOT k = f32[8,128] custom-call(p), custom_call_target="tpu_custom_call", backend_config={text} }}'
    [found] = pallas_kernels_of(parse_module(text))
    return found


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "k has no kernel body in its backend_config"),
        ("é", "'body' is not base64"),
        (base64.b64encode(b"ELF").decode(), "expected b'ML"),
        (base64.b64encode(b"ML\xefR\x01MLIR99\x00").decode(), r"version 0 by MLIR99, byte 12"),
    ],
)
def test_a_body_that_cannot_be_read_is_an_error_with_its_place(body: str | None, message: str) -> None:
    import re

    found = call({"custom_call_config": {} if body is None else {"body": body}})
    assert re.search(message, found.error)
    assert (found.windows, found.vmem_bytes) == ((), 0)


def test_a_body_of_another_call_is_an_error() -> None:
    config = kernel("matmul").instruction.backend_config
    assert config is not None
    found = call({"custom_call_config": {"body": config.get("custom_call_config", "body")}})
    assert found.error == "the kernel has 4 arguments, but the call has 3 arrays"


def test_before_compilation_windows_have_default_tiles() -> None:
    before = load(FIXTURES / "tpu" / "v5e_kernels" / "before_optimizations.txt")
    found = {each.name: each for each in pallas_kernels_of(before)}
    assert not any(each.is_compiled for each in found.values())
    assert found["matmul"].used_vmem_bytes is None
    assert found["matmul"].vmem_bytes == kernel("matmul").vmem_bytes


def test_launched_kernels_have_windows() -> None:
    found = {each.instruction.name: each for each in kernels_of(module_of("v6e"))}
    assert [window.block for window in found["matmul.1"].windows] == [(256, 128), (128, 512), (256, 512)]
    assert found["copy-start"].windows == ()
    assert found["copy-start"].pallas is None


@pytest.mark.parametrize("count", [60, pytest.param(5_000, marks=pytest.mark.long)])
def test_damaged_bodies_are_read_or_named(count: int) -> None:
    """No traceback, and nothing that takes long."""
    chance = random.Random(count)
    whole = pallas_kernels_of(module_of("v5e"))
    refused = 0
    for _ in range(count):
        instruction = chance.choice(whole).instruction
        config = instruction.backend_config
        assert config is not None
        body = str(config.get("custom_call_config", "body"))
        other = base64.b64encode(damaged(base64.b64decode(body), chance)).decode()
        text = (config.text).replace(body, other)
        names = ", ".join(f"p{n}" for n in range(len(instruction.operands)))
        parameters = "".join(f"  p{n} = {each.shape} parameter({n})\n" for n, each in enumerate(instruction.operands))
        line = f'  ROOT k = {instruction.shape} custom-call({names}), custom_call_target="tpu_custom_call", backend_config={text}\n'
        [found] = pallas_kernels_of(parse_module(f"HloModule m\n\nENTRY e {{\n{parameters}{line}}}\n"))
        refused += bool(found.error)
        assert found.error or found.vmem_bytes >= 0
    assert 0.4 * count < refused < count


# --- the command ---


def shown(*arguments: str) -> str:
    """What `hlo kernel` prints on 80 columns."""
    settings = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}
    out, error, code = run(("kernel", *arguments), folder=FIXTURES, settings=settings)
    assert code == 0, error
    return out


@pytest.mark.parametrize("before", [True, False])
def test_the_body_is_printed_wherever_the_option_is(before: bool, tmp_path: Path) -> None:
    words = ("tpu/v6e_kernels/", "gather.1")
    body = shown("--body", *words) if before else shown(*words, "--body")
    assert body.startswith('"builtin.module"() ({')
    assert "stable_mosaic.func.func" in body
    shown(*words, "--body", "-o", str(tmp_path / "gather.mlir"))
    assert (tmp_path / "gather.mlir").read_text() == body


def test_the_body_has_no_other_format() -> None:
    arguments = ("kernel", "tpu/v6e_kernels/", "gather.1", "--body", "--json")
    out, error, code = run(arguments, folder=FIXTURES, settings={})
    assert code == 2
    assert "--body cannot be used with --json" in out + error


def test_times_are_on_the_chip_of_the_dump(tmp_path: Path) -> None:
    """As in other commands: no option is needed for a chip that the dump names."""
    text = (FIXTURES / "tpu" / "v5e_kernels" / "after_optimizations.txt").read_text()
    (tmp_path / "module_0001.jit_run.after_optimizations.txt").write_text(text)
    words = (str(tmp_path), "--json")
    assert "bound_seconds" not in json.loads(shown(*words))["tables"]["kernels"]["rows"][0]
    (tmp_path / "module_0001.jit_run.target_arguments.txt").write_text(
        'version: TPU_VERSION_VIPERFISH\nvariant: "lite"\n'
    )
    rows = json.loads(shown(*words))["tables"]["kernels"]["rows"]
    assert rows == json.loads(shown(*words, "--chip", "v5e"))["tables"]["kernels"]["rows"]
    assert all(row["bound_seconds"] > 0 for row in rows)
    head = shown(str(tmp_path), "--format", "screen").split("─")[0].split()
    assert {"grid", "bound", "matmul"} <= set(head)


def test_flops_of_matmuls_and_of_the_rest_are_those_of_fuse() -> None:
    rows = json.loads(shown("tpu/v6e_kernels/", "--json"))["tables"]["kernels"]["rows"]
    out, _, _ = run(("fuse", "tpu/v6e_kernels/", "--cost", "--json"), folder=FIXTURES, settings={})
    costs = {row["instruction"]: row["flops"] for row in json.loads(out)["tables"]["costs"]["rows"]}
    for row in rows:
        assert row["matmul_flops"] + row["elementwise_flops"] == costs[row["kernel"]]


def test_windows_and_scratch_are_no_upper_bound() -> None:
    """The compiler adds scratch and spilled registers of its own."""
    first = " ".join(shown("tpu/v6e_kernels/", "--format", "screen").split("\n\n")[0].split())
    assert first.endswith("the largest holds 1.4 MiB of 32 MiB of VMEM in windows and scratch")


# --- Triton ---

TRITON = Path(__file__).parent / "data" / "triton_call.hlo"
"""A product of f16[512,512] and f16[512,256] in blocks of 64 × 64, whose sums are over 4 blocks of 128, as JAX lowers it."""


def test_a_triton_call_has_its_grid_and_its_blocks() -> None:
    found = triton_kernel_of(load(TRITON).instruction("pallas_call.1"))
    assert found is not None
    assert (found.name, found.grid, found.warps, found.stages) == ("mm", (8, 4, 1), 4, 3)
    assert found.loads == ("f16[64,128]", "f16[128,64]")
    assert found.stores == ("f16[64,64]",)
    assert found.dots == (("f16[64,128]", "f16[128,64]", "f32[64,64]"),) * 4
    assert found.error == ""


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_triton_call_is_read_or_named(seed: int) -> None:
    chance = random.Random(seed)
    text = TRITON.read_text()
    start = text.index('ir = "') + 6
    bytes_ = re.split(r"(\\[0-9A-F]{2})", text[start : text.index('"', start)])
    at = chance.randrange(1, len(bytes_) // 2) * 2 - 1
    bytes_[at] = f"\\{chance.randrange(256):02X}"
    module = parse_module(text[:start] + "".join(bytes_) + text[text.index('"', start) :])
    found = triton_kernel_of(module.instruction("pallas_call.1"))
    assert found is not None
    assert found.name == "mm"
    assert found.error or found.loads


def test_generated_code_says_what_a_triton_kernel_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = tmp_path / "module_0001.jit_f"
    shutil.copy(TRITON, f"{group}.sm_9.0_gpu_after_optimizations.txt")
    Path(f"{group}.ptx").write_text(
        "//\n// Generated by LLVM NVPTX Back-End\n//\n.version 8.3\n.target sm_90a\n.address_size 64\n"
        ".visible .entry mm(\n.param .u64 mm_param_0\n)\n.reqntid 128\n{\nret;\n}\n"
    )
    assert cli.main(["kernel", str(tmp_path), "--format", "json"], standalone=False) == 0
    [row] = json.loads(capsys.readouterr().out)["tables"]["gpu_kernels"]["rows"]
    assert (row["grid"], row["block"]) == ("8×4×1", "f16[64,128] f16[128,64] → f16[64,64]")
    assert (row["threads"], "registers" in row, "spill_bytes" in row) == (128, False, False)
    Path(f"{group}.ptxas.log").write_text(
        "ptxas info    : Compiling entry function 'mm' for 'sm_90a'\nptxas info    : Function properties for mm\n"
        "    0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 168 registers, 49152 bytes smem\n"
    )
    assert cli.main(["kernel", str(tmp_path), "--format", "json"], standalone=False) == 0
    [row] = json.loads(capsys.readouterr().out)["tables"]["gpu_kernels"]["rows"]
    assert (row["registers"], row["spill_bytes"], row["shared_bytes"]) == (168, 20, 49152)
