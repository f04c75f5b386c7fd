"""Texts of the kinds that people paste, each with the words of the right answer; `data/wild` was written for us."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hlo_cli import cli
from hlo_cli.inputs.logs import AFTER_BLOCK, has_odd_characters, is_cut_header
from share import every

WILD = Path(__file__).parent / "data" / "wild"

ANSWERS: dict[str, tuple[str, ...]] = {
    "report_new_gpu.txt": (
        "default memory is 852.0 MiB (893,419,520 bytes) in 2 allocations",
        "the larger 640 MiB (400 MiB shared by 3 values, 240 MiB",
        "collective memory 1 MiB",
    ),
    "report_new_cpu.txt": (
        "default memory is 5.0 MiB (5,242,948 bytes) in 3 allocations",
        "the largest 3 MiB",
        "f32[768,1024]",
    ),
    "report_old.txt": (
        "Memory usage report: 217.4 MiB",
        "205.0 MiB temporaries",
        "8.5 MiB arguments",
        "3.8 MiB results",
    ),
    "assignment_alone.txt": (
        "320,864,256 bytes",
        "temporaries 251,658,240",
        "arguments 69,206,016",
        "gelu.3 167,772,160, dot.5 83,886,080",
        "w.1 is updated in place by fusion.7 (aliased",
    ),
    "live_range_alone.txt": ("peaks at step 3 of 5 with 314,572,800 bytes: gelu.3, dot.5, w.1",),
    "assignment_values.txt": ("4 buffer values (part of a buffer assignment), 14,556 bytes in total",),
    "memory_stats.txt": (
        "5,637,145,088 bytes",
        "256 MiB arguments + 128 MiB results − 128 MiB aliased + 5.0 GiB temporaries",
    ),
    "allocator_stats.txt": (
        "3.1 GiB of 31.2 GiB in arrays",
        "25.0 GiB reserved for programs",
        "free block 1.2 GiB",
        "3.1 GiB are free in all",
    ),
    "unknown_context.txt": ("RET_CHECK failure (xla/service/x.cc:12)",),
    "shapes_three.txt": ("3 shapes", "134,217,728", "8,192"),
    "hlo_then_stablehlo.md": ("jit_g", "lines 16 to 21 are StableHLO (MLIR)"),
    "hlo_then_cpp.txt": ("jit_g", "line 7 is C++"),
    "readme_with_python.md": ("exponential.1", "2 instructions", "lines 11 to 13 are Python"),
    "colors.txt": ("1 kernel, 8 flops, 96 B accessed",),
    "no_break_spaces.txt": ("1 kernel, 9 flops, 108 B accessed",),
    "julia_box.txt": ("1 kernel, 10 flops, 120 B accessed",),
    "divisible_device_put.txt": (
        "Dimension 0 (42) is not divisible by 16 = batch 8 × fsdp 2",
        "Pad it to 48, or shard it by fsdp alone (2 divides 42)",
    ),
    "divisible_shard_map.txt": (
        "args[0] q (float32[3,1280,16,64]): axis 0 (3) is not divisible by 2 = dp",
        "Dimension 1 (1,280) is divisible, by sp = 4",
    ),
    "sharding_rank.txt": ("The spec names 3 dimensions, the value has 2", "Drop the last None"),
    "donation_two.txt": ("2 donated arguments (1,105,920 and 640 bytes)", "no result of the same shape and type"),
    "donation_deleted.txt": (
        "an earlier call donated it (donate_argnums)",
        "array that the donating call returned",
        "no dump",
    ),
    "cost_dict.txt": ("26.5 Gflop, 84 MiB accessed, 301 flop per byte",),
    "flag_tpu.txt": ("it belongs in LIBTPU_INIT_ARGS, not in XLA_FLAGS",),
    "flag_dash.txt": ("en dash (U+2013) as its second character, not a hyphen; the flag exists",),
    "flag_removed.txt": (
        "--xla_gpu_enable_async_all_gather and --xla_gpu_simplify_all_fp_conversions were removed",
        "on by default; --xla_gpu_disable_async_collectives switches them off",
    ),
    "spills.txt": (
        "2 kernels spill registers: gemm_fusion_dot_4141 (892 + 892 bytes per thread)",
        "loop_add_subtract_fusion_49 (224 + 224",
        "Triton candidate of autotuning, which probably drops",
        "a warning, not an error",
    ),
    "stuck.txt": (
        "A collective-permute of run 31 is not complete: it needs 8 devices; 2 threads are in it here, 6 not",
        "ended after 40 s",
        "59040, 59041, so 6 others of this process have not come",
    ),
    "unstuck.txt": ("False alarm", "went on after 14.2 s"),
    "host_compute.txt": ("scatter.9 and lt.4 run on the host, because their inputs are in host memory", "device_put"),
    "nsys_kernels.txt": (
        "2 kernels, 28.3 ms: gemm_fusion_dot_12 40 × 455.1 µs, loop_add_subtract_fusion_4 40 × 252.3 µs",
    ),
    "xla_execution_profile.txt": ("fusion.81: 12.3 µs measured, 2.0 µs possible, 239 GiB/s",),
    "hlo_stats.csv": ("2 instructions", "fusion 412.5 µs, dot.3 301.2 µs"),
    "autotune_results.pbtxt": (
        "2 autotuning results on an H100",
        "the dot 4096 × 512 × 1024 by Triton, tiles 128 × 128 × 64, 31.8 µs (135 Tflop/s)",
        "cuBLAS gemm",
        "6.1 µs",
    ),
    "thunks.txt": (
        "Thunk sequence of 4 thunks: copy, kernel loop_add_fusion, gemm, all-reduce",
        "001 after 000; 003 after 001",
    ),
    "cublas_launch.txt": (
        "cuBLAS could not start cublas-gemm.4 of jit_train_step when the program ran",
        "GPU memory is full",
        "its dump exists",
    ),
    "illegal_address.txt": (
        "loop_dynamic_update_slice_fusion_3 (40,960 × 128 threads)",
        "loop_dynamic_update_slice_fusion.3",
        "may be of an earlier kernel",
    ),
    "argument_size.txt": ("Argument 3 of jit_decode", "dimension 0 is 16, compiled for 32"),
    "header_cut.txt": (
        "ends inside the header of SyncTensorsGraph.30: 4 arguments (5.5 MiB), first result f32[160,960]",
    ),
    "pallas_debug.txt": ("A Pallas kernel (jaxpr and Mosaic module) xor_rows", "2 × 4 KiB in VMEM"),
    "stablehlo_generic.mlir": (
        "a reduce-scatter by subtract, which XLA:GPU does not support (only sum, product, min, max, and, or)",
    ),
    "groups_with_attributes.txt": (
        "4 groups of 2 devices",
        "0, 2",
        "1, 3",
        "4, 6",
        "5, 7",
        "global device ids",
    ),
    "saved_residuals.txt": (
        "5 saved values, 7.1 MiB: arguments 4.1 MiB, computed 3 MiB",
        "mlp.py:30 2 MiB, mlp.py:21 512 KiB, mlp.py:23 512 KiB",
    ),
    "captured_constants.txt": ("3.2 GB of arrays are closed over", "constants of the program", "as arguments"),
    "compile_time_constant.txt": ("shape of Reshape", "depends on data", "a dump does not help", "static"),
    "dus_space.txt": (
        "dynamic-update-slice.3 takes a device array (p) and gives a host array, S(5)",
        "`!(operand_memory_space != output_memory_space)`",
    ),
    "report_part.txt": ("is 192 MiB (201,326,592 bytes) in 1 allocation", "the report is cut"),
    "nsys_copies.txt": ("1 kernel, 5.0 µs: input_reduce_fusion 5 × 1.0 µs",),
    "nsys_sections.txt": ("2 kernels, 28.3 ms: gemm_fusion_dot_12",),
    "rocprof.csv": ("kernel loop_add_fusion.kd takes 67% of the 30.0 µs", "2 kernels without an instruction"),
    "stuck_arrived.txt": ("it needs 4 devices; 3 threads are in it here, 1 not", "so 1 other of this process has not"),
    "unstuck_all_reduce.txt": ("False alarm: the thread in an all-reduce of run 4 went on after 31.07 s",),
    "hlo_stats_occurrences.csv": ("fusion.12 10 × 150.0 µs, all-reduce.3 10 × 100.0 µs",),
    "saved_residuals_types.txt": (
        "6 saved values, 9.5 KiB: arguments 4 KiB, constants 36 B, computed 5.5 KiB",
        "m.py:13 1 KiB, m.py:10 512 B",
    ),
    "cache_miss.txt": ("x is f32[16,128], before it was f32[8,128]",),
    "groups_after_channel.txt": ("2 groups of 4 devices, strided by 2", "ids are global device ids"),
    "divisible_lambda.txt": ("axis 0 (6) is not divisible by 8 = i 4 × j 2", "by j alone (2 divides 6)"),
    "wide_spaces.txt": ("m3: needs at most 96 B of main memory",),
    "pallas_jaxpr.txt": ("matmul_kernel", "128 KiB in VMEM"),
    "symbol_missing.txt": ("No function is registered for the custom call blend_rows on CPU",),
}
"""Words of the answer to each text, from the table of the texts; white space does not count."""
NEVER: dict[str, tuple[str, ...]] = {
    "report_new_gpu.txt": ("Needs", "elements"),
    "report_new_cpu.txt": ("Needs", "elements"),
    "report_old.txt": ("buffer assignment",),
    "assignment_values.txt": ("Part of a module", "duplicate"),
    "unknown_context.txt": ("check Unknown", "Unknown]"),
    "hlo_then_stablehlo.md": ("unmatched",),
    "readme_with_python.md": ("jax.random",),
    "donation_two.txt": ("elements",),
    "cublas_launch.txt": ("StableHLO",),
    "pallas_debug.txt": ("StableHLO",),
    "thunks.txt": ("Copies an array",),
    "argument_size.txt": ("total",),
    "illegal_address.txt": ("INTERNAL: an internal check",),
    "report_part.txt": ("default memory is 0 bytes",),
}
"""Words that an answer must not have."""


NUMBERS: dict[str, dict[str, object]] = {
    "report_new_gpu.txt": {
        "total_bytes": 893_419_520 + 2**20,
        "spaces": 2,
        "default_bytes": 893_419_520,
        "collective_bytes": 2**20,
    },
    "report_new_cpu.txt": {"total_bytes": 5_242_948, "spaces": 1, "default_bytes": 5_242_948},
    "assignment_alone.txt": {
        "total_bytes": 320_864_256,
        "allocations": 3,
        "temporaries_bytes": 251_658_240,
        "arguments_bytes": 69_206_016,
    },
    "live_range_alone.txt": {"peak_step": 3, "steps": 5, "total_bytes": 314_572_800, "live": 3},
    "assignment_values.txt": {"values": 4, "total_bytes": 14_556},
    "allocator_stats.txt": {
        "allocations": 51,
        "in_use": 3_341_484_556,
        "peak": 3_341_484_556,
        "largest": 220_200_960,
        "limit": 33_550_137_033,
        "reserved": 26_847_840_567,
        "peak_reserved": 26_847_840_567,
        "reservable": 30_884_036_084,
        "largest_free": 1_289_563_931,
    },
    "divisible_device_put.txt": {"dimension": 0, "size": 42, "parts": 16, "remainder": 10},
    "divisible_shard_map.txt": {"dimension": 0, "size": 3, "parts": 2, "remainder": 1},
    "divisible_lambda.txt": {"dimension": 0, "size": 6, "parts": 8, "remainder": 6},
    "sharding_rank.txt": {"spec_dimensions": 3, "value_dimensions": 2},
    "donation_two.txt": {"arguments": 2, "bytes": 4 * 160 * 24 * 24 * 3 + 4 * 160},
    "flag_removed.txt": {"flags": 2, "flag": "--xla_gpu_enable_async_all_gather", "status": "removed"},
    "spills.txt": {"kernels": 2, "bytes": 2 * 892 + 2 * 224},
    "stuck.txt": {"rendezvous": 1, "expected": 8, "threads": 2, "seconds": 20},
    "stuck_arrived.txt": {"rendezvous": 1, "expected": 4, "threads": 3, "seconds": 5},
    "unstuck.txt": {"rendezvous": 1, "expected": 4, "threads": 1, "seconds": 10},
    "unstuck_all_reduce.txt": {"rendezvous": 1, "expected": None, "threads": None, "seconds": None},
    "host_compute.txt": {"instructions": 2, "warnings": 2},
    "xla_execution_profile.txt": {"instructions": 1, "seconds": 12.3e-6, "optimal_seconds": 2e-6},
    "hlo_stats_occurrences.csv": {"instructions": 2, "seconds": 0.0025},
    "autotune_results.pbtxt": {"results": 2, "device": "an H100"},
    "thunks.txt": {"thunks": 4, "kernels": 1},
    "cublas_launch.txt": {
        "library": "cuBLAS",
        "instruction": "cublas-gemm.4",
        "module": "jit_train_step",
        "error": None,
    },
    "illegal_address.txt": {
        "kernel": "loop_dynamic_update_slice_fusion_3",
        "error": "CUDA_ERROR_ILLEGAL_ADDRESS",
        "blocks": 40_960,
        "threads": 128,
    },
    "argument_size.txt": {
        "program": "jit_decode",
        "argument": 3,
        "expected_bytes": 8_388_608,
        "actual_bytes": 4_194_304,
    },
    "header_cut.txt": {"module": "SyncTensorsGraph.30", "arguments": 4, "bytes": 5_738_752},
    "pallas_jaxpr.txt": {
        "kernels": 1,
        "kernel": "matmul_kernel",
        "bytes": 4 * (128 * 256 + 256 * 512 + 128 * 512),
    },
    "stablehlo_generic.mlir": {"operations": 1, "defects": 1},
    "saved_residuals.txt": {
        "values": 5,
        "bytes": 7_471_104,
        "arguments_bytes": 4_325_376,
        "computed_bytes": 3_145_728,
    },
    "saved_residuals_types.txt": {
        "values": 6,
        "bytes": 9_764,
        "arguments_bytes": 4_096,
        "constants_bytes": 36,
        "computed_bytes": 5_632,
    },
    "compile_time_constant.txt": {"node": "model/reshape/Reshape", "op": "Reshape"},
    "cache_miss.txt": {
        "functions": 1,
        "compilations": 0,
        "misses": 1,
        "seconds": pytest.approx(0.123456),
        "cache_hits": 0,
        "cache_misses": 0,
    },
}
"""The numbers of the answer to each text that has some: those of the text, and sums of them."""


def answer(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command line, and what it writes to both streams, on one line."""
    code = cli.main([*arguments, "--format", "screen"], standalone=False)
    written = capsys.readouterr()
    return code, " ".join(f"{written.out} {written.err}".split())


MEASURED = ("nsys_kernels.txt", "nsys_copies.txt", "nsys_sections.txt", "rocprof.csv", "xla_execution_profile.txt")


@pytest.mark.parametrize("name", ANSWERS)
def test_only_measured_times_are_answered_in_place_of_a_trace(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = answer(["profile", str(WILD / name)], capsys)
    if name in MEASURED or name.startswith("hlo_stats"):
        assert name == "rocprof.csv" or ANSWERS[name][0] in text
        assert code == 0
    else:
        assert ", not a profiler's trace" in text
        assert "run `hlo " in text
        assert code == 2


@pytest.mark.parametrize("name", ANSWERS)
def test_a_text_is_answered_rightly(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = answer([str(WILD / name)], capsys)
    assert [words for words in ANSWERS[name] if words not in text] == [], text
    assert [words for words in NEVER.get(name, ()) if words in text] == []
    assert code == 0


@pytest.mark.parametrize("name", NUMBERS)
def test_programs_get_the_numbers_of_a_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(WILD / name), "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)["answer"]
    assert {key: value for key, value in found.items() if key != "text"} == NUMBERS[name]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["memspace", "report_new_gpu.txt"], 0, "collective memory 1 MiB"),
        (["memspace", "assignment_alone.txt"], 0, "320,864,256 bytes"),
        (["memspace", "donation_two.txt"], 0, "2 donated arguments"),
        (["memspace", "memory_stats.txt", "--limit", "4GiB"], 1, "Exceeds the limit of 4GiB by 1.3 GiB"),
        (["memspace", "memory_stats.txt", "--limit", "6GiB"], 0, "within the limit of 6GiB"),
        (["memspace", "report_new_gpu.txt", "--limit", "0.5GiB"], 1, "Exceeds the limit"),
        (["fuse", "cost_dict.txt", "--chip", "v5e"], 0, "bound by compute"),
        (["profile", "nsys_kernels.txt"], 0, "2 kernels, 28.3 ms"),
        (["profile", "decoded.xplane.pb"], 2, "not a trace any more: bytes were replaced by U+FFFD"),
        (["profile", "rocprof.csv"], 0, "67% of the 30.0 µs"),
        (["profile", "nsys_api.txt"], 0, "These are calls of the host, not kernels"),
        (["parse", "nsys_api.txt"], 0, "1 function, 90.0 µs: cuLaunchKernel 3 × 30.0 µs"),
        (["parse", "model_check.txt"], 2, "no HLO found"),
        (["parse", "numpy_print.txt"], 2, "no HLO found"),
        (["parse", "prose_stablehlo.txt"], 2, "no HLO found"),
        (["parse", "decoded.xplane.pb"], 2, "bytes were replaced by U+FFFD"),
        (["layout", "shapes_three.txt"], 0, "3 shapes"),
        (["memspace", "hlo_then_stablehlo.md"], 0, "StableHLO"),
        (["lint", "hlo_then_stablehlo.md"], 0, "StableHLO"),
        (["lint", "hlo_then_cpp.txt"], 0, "line 7 is C++"),
        (["lint", "memory_stats.txt"], 2, "is memory statistics of a program, not a module, so it cannot be checked"),
        (["lint", "memory_stats.txt"], 2, "5,637,145,088 bytes"),
        (["lint", "stablehlo_generic.mlir"], 1, "a reduce-scatter by subtract, which XLA:GPU does not support"),
        (["lint", "stablehlo_generic.mlir", "--exit-zero"], 0, "reduce-scatter by subtract"),
        (["lint", "memory_stats.txt", "cost_dict.txt"], 2, "Nothing was checked: 2 inputs unreadable"),
    ],
)
def test_other_commands_answer_too(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, text = answer([str(WILD / each) if (WILD / each).is_file() else each for each in arguments], capsys)
    assert words in text
    assert found == code


@pytest.mark.parametrize(("block", "is_found"), [(40, False), (39, True)])
def test_memory_is_in_pieces_if_no_block_has_all_that_is_free(
    block: int, is_found: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stats.txt"
    path.write_text(f"{{'bytes_in_use': 60, 'bytes_limit': 100, 'largest_free_block_bytes': {block}}}")
    assert ("40 B are free in all" in answer([str(path)], capsys)[1]) is is_found


def test_times_of_one_table_share_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = answer([str(WILD / "xla_execution_profile.txt")], capsys)
    assert "measured possible share µs µs %" in text


def test_a_false_alarm_names_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert "hlo help sharding" in answer([str(WILD / "stuck.txt")], capsys)[1]
    assert "hlo help" not in answer([str(WILD / "unstuck.txt")], capsys)[1]


def test_advice_on_several_flags_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """At 80 columns: it is in sentences, which wrap, with the name of its flag."""
    _, text = answer([str(WILD / "flag_removed.txt")], capsys)
    assert "…" not in text
    assert "--xla_gpu_enable_async_all_gather: Asynchronous collectives are on by default" in text


def _log(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.rstrip("\n").split("\n"))


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "a sentence before": lambda text: f"I get this today, what does it mean?\n\n{text}",
    "a sentence after": lambda text: f"{text}\n\nThanks for any hints.\n",
    "a fence": lambda text: f"See:\n\n```\n{text}\n```\n",
    "a quote": lambda text: _log("> ", text),
    "a container": lambda text: _log("2026-05-21T12:04:45.883123456Z stderr F ", text),
    "Python logging": lambda text: _log("2026-05-21 12:04:45,883 - absl - WARNING - ", text),
    "a pod": lambda text: _log("[pod/train-0/main] ", text),
    "colors": lambda text: "".join(f"\x1b[33m{line}\x1b[0m\n" for line in text.split("\n")),
}
"""How texts are pasted: none of it may change the answer."""
WRAPPED = sorted(
    set(ANSWERS)
    - {
        "shapes_three.txt",
        "groups_with_attributes.txt",
        "groups_after_channel.txt",
        "header_cut.txt",
        "unknown_context.txt",
    }
)
WRAPPED = [
    each
    for each in WRAPPED
    # rocprof.csv is a trace by itself, which `hlo profile` answers; with other text around it is a table
    if not each.endswith(".md") and each not in ("colors.txt", "hlo_then_cpp.txt", "julia_box.txt", "rocprof.csv")
]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("part", every(3, range(3)))
def test_what_is_around_a_text_does_not_change_its_answer(
    part: int, wrapping: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = list[str]()
    for name in WRAPPED[(part + len(wrapping)) % 3 :: 3]:
        path = tmp_path / "pasted.txt"
        path.write_text(WRAPPINGS[wrapping]((WILD / name).read_text()), newline="")
        code, text = answer([str(path)], capsys)
        if code or any(words not in text for words in ANSWERS[name][:1]):
            missing.append(f"{name}: {text[:300]}")
    assert missing == []


MESH = "NamedSharding(mesh=Mesh('data': 4, 'model': 2), spec=PartitionSpec('data', 'model'), memory_kind=device)"
RENDEZVOUS = (
    "F0521 10:00:00.000001 77 rendezvous.cc:127] [id=5] Termination timeout for `rendezvous of all-reduce; run_id=7`"
)
HLO = """HloModule jit_g

ENTRY %main.2 (p.0: f32[40]) -> f32[40] {
  %p.0 = f32[40]{0} parameter(0)
  ROOT %cosine.1 = f32[40]{0} cosine(f32[40]{0} %p.0)
}
"""
REDUCER = """%0 = "stablehlo.reduce_scatter"(%arg0) <{scatter_dimension = 0 : i64}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  OPERATIONS
  stablehlo.return %1 : tensor<f32>
}) : (tensor<4xf32>) -> tensor<2xf32>
"""
VARIANTS: tuple[tuple[str, str], ...] = (
    (
        (
            f"IndivisibleError: Sharding {MESH} implies that array axis 1 is partitioned 2 times, but the dimension size is "
            "511 (full shape: (1024, 511), per-dimension tiling factors: [4, 2] should evenly divide the shape)"
        ),
        "Dimension 1 (511) is not divisible by 2 = model",
    ),
    (
        (
            "ValueError: One of pjit arguments with pytree key path params['w'] was given the sharding of NamedSharding(mesh="
            "Mesh('x': 4), spec=PartitionSpec(None, 'x')), which implies that the global size of its dimension 1 should be "
            "divisible by 4, but it is equal to 1001 (full shape: (8, 1001))"
        ),
        "params['w']: dimension 1 (1,001) is not divisible by 4 = x",
    ),
    ("RuntimeError: Array has been deleted with shape=float32[128,256].", "array float32[128,256] that was deleted"),
    (
        "Executable expected parameter 2 of size 1 but got buffer with incompatible size 2",
        "Argument 2 does not fit: 2 bytes, compiled for 1",
    ),
    (
        (
            "Executable(jit_f) expected parameter 0 of size 6144 (f32[5,4,3]{0,1,2:T(4,128)}) but got buffer with incompatible "
            "size 10240 (f32[5,4,3]{2,1,0})"
        ),
        "Argument 0 of jit_f does not fit: its layout differs",
    ),
    (
        "ptxas info : Function properties for fusion_3\n 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
        "No kernel spills registers",
    ),
    (
        "Some donated buffers were not usable: float32[64,64], bfloat16[8].\nDonation is not implemented for ('cpu',).\n",
        "2 donated arguments not used (16,384 and 16 bytes)",
    ),
    (
        "{'num_allocs': 5, 'bytes_in_use': 3341000000, 'bytes_limit': 33550000000}",
        "3.1 GiB of 31.2 GiB in arrays (10%)",
    ),
    (
        "Limit:      33550000000\nInUse:       3341000000\nMaxInUse:    5341000000\n",
        "3.1 GiB of 31.2 GiB in arrays (10%)",
    ),
    ("[{'flops': 1000.0, 'bytes accessed': 4000.0}]", "1 kflop, 3.9 KiB accessed, 0.25 flop per byte"),
    (
        (
            "One of pjit arguments was given the sharding of NamedSharding(mesh=Mesh('x': 4),\nspec=PartitionSpec('x',)), "
            "which implies that the global size of its dimension\n0 should be\ndivisible by 4, but it is equal to 6 (full "
            "shape: (6, 2))"
        ),
        "Dimension 0 (6) is not divisible by 4 = x",
    ),
    (
        '{"name": "jit_f", "cost": {"flops": 10, "bytes accessed": 40, "bytes accessed0{}": 40}}',
        "Cost analysis: 10 flop, 40 B accessed, 0.25 flop per byte",
    ),
    (
        "{'utilization operand 0 {}': 1.0, 'bytes accessed operand 0 {}': 8.0, 'bytes accessed': 16.0, 'flops': 2.0}",
        "Cost analysis: 2 flop, 16 B accessed",
    ),
    ("argument_size_in_bytes: 1024\noutput_size_in_bytes: 512\ntemp_size_in_bytes: 4096\n", "5.5 KiB (5,632 bytes)"),
    (
        (
            "Time (%),Total Time (ns),Instances,Avg (ns),Name\n 60.0,3000000,10,300000.0,loop_fusion_2\n"
            ' 40.0,2000000,20,100000.0,"void cutlass::Kernel<a, b>(x)"\n'
        ),
        "2 kernels, 5.0 ms: loop_fusion_2 10 × 300.0 µs, void cutlass::Kernel<a, b>(x) 20 × 100.0 µs",
    ),
    (
        (
            "Rank,HLO op category,HLO op name,Occurrences,Total time (us),Total self time (us),Total self time (%)\n"
            "1,fusion,fusion.2,100,2000.0,1900.0,60%\n2,dot,dot.1,100,1000.0,1000.0,40%\n"
        ),
        "2 instructions, 2.9 ms: fusion.2 100 × 19.0 µs, dot.1 100 × 10.0 µs",
    ),
    (
        (
            f"{RENDEZVOUS} of 40 seconds exceeded. Exiting to ensure a consistent program state. Expected 8 threads to join the "
            "rendezvous, but only 7 of them arrived on time."
        ),
        "An all-reduce of run 7 is not complete: it needs 8 devices; 7 threads are in it here, 1 not; the process ended",
    ),
    (
        "f32[8,4] from the argument at flattened index 0\nf32[8] from a literal\nf32[8,8] named 'attn' from a/b.py:12 (f)\n",
        "3 saved values, 416 B: arguments 128 B, constants 32 B, computed 256 B (b.py:12 256 B)",
    ),
    (
        "E0000 cuda_dnn.cc:429] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\n",
        "cuDNN could not be initialized (CUDNN_STATUS_INTERNAL_ERROR)",
    ),
    (
        (
            "Failed to launch CUDA kernel: triton_gemm_dot_0 with block dimensions: 128x1x1 and grid dimensions: 4x1x102400 and "
            "shared memory size: 65536: CUDA_ERROR_INVALID_VALUE: invalid argument"
        ),
        "The grid has 102,400 blocks along y or z; CUDA allows 65,535 there.",
    ),
    (
        "INTERNAL: CUDA error: Failed to end stream capture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed",
        "The GPU runtime reports CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed",
    ),
    (
        "Unknown flags in XLA_FLAGS: \u201c--xla_dump_to=d\u201d",
        "has a quotation mark, which XLA takes for a part of it",
    ),
    ('{"msg": "Unknown flag in XLA_FLAGS: --xla_dump_hlo_as_txt"}', "the nearest is --xla_dump_hlo_as_text"),
    (
        "Unknown flags in XLA_FLAGS: '--xla_dump_to=d --xla_dump_hlo_as_text'",
        "'--xla_dump_to=d --xla_dump_hlo_as_text' has a",
    ),
    (
        "Buffer passed to Execute() as argument 2 to replica 0 has been deleted or donated.",
        "reads an array (argument 2) that was deleted",
    ),
    (
        (
            "* kwargs['y'] of shape int32[12], where kwargs['y'] is bound to g's parameter 'y', corresponds to in_specs['y'] of "
            "value PartitionSpec('z',), which maps array axis 0 (of size 12) to mesh axes ('z',) (of total size 8), but 8 does "
            "not evenly divide 12"
        ),
        "kwargs['y'] y (int32[12]): axis 0 (12) is not divisible by 8",
    ),
    (
        "Some donated buffers were not usable: ShapedArray(float32[8,8]), ShapedArray(float32[8]), ShapedArray(s8[2]).",
        "3 donated arguments (290 bytes in all)",
    ),
    ("Unknown flags in XLA_FLAGS: = true", "=, true (no flag)"),
    (
        "Unknown flags in XLA_FLAGS: --xla_dump_to=/t,--xla_dump_hlo_as_text",
        "is several flags with commas between them",
    ),
    ("{'flops': -1.0, 'bytes accessed': 4096.0}", "unknown flop (−1: a custom call), 4 KiB accessed"),
    (
        "Executable(jit_f) expected parameter 1 of size 8 (f32[2]{0}) but got buffer with incompatible size 4 (f32[2]{0})",
        "Argument 1 of jit_f does not fit: 4 bytes, compiled for 8",
    ),
    (
        (
            "INVALID_ARGUMENT: Attempt to donate the same buffer twice in Execute() (flattened argument 3, replica 0, "
            "partition 0, first use: 1)."
        ),
        "donates the same array as arguments 1 and 3",
    ),
    (
        (
            "Failed to launch ROCm kernel: loop_fusion_2; block dims: 256x1x1; grid dims: 4x1x1; shared memory size: 0: "
            "hipError_t(700)"
        ),
        "an access outside of memory (hipErrorIllegalAddress, 700)",
    ),
    (
        (
            "Failed to launch CUDA kernel: fusion_9; block dims: 64x1x1; grid dims: 4x1x1; shared memory size: 300000: "
            "CUDA_ERROR_INVALID_VALUE: invalid argument"
        ),
        "It requests 300,000 bytes of shared memory; a block has 232,448 at most.",
    ),
    (
        (
            "E 9 cuda_dnn.cc:522] Loaded runtime CuDNN library: 8.9.2 but source was compiled with: 9.1.0.  CuDNN library "
            "needs to have matching major version and equal or higher minor version."
        ),
        "cuDNN 8.9.2 is loaded, but XLA was compiled with 9.1.0",
    ),
    ("INTERNAL: CUDNN_STATUS_EXECUTION_FAILED in cuda_dnn.cc(5120)", "The status alone does not show the cause"),
    (REDUCER.replace("OPERATIONS", "%1 = stablehlo.divide %a, %b : tensor<f32>"), "by divide, which XLA:GPU does not"),
    (
        REDUCER.replace(
            "OPERATIONS",
            "%1 = stablehlo.convert %a : (tensor<bf16>) -> tensor<f32>\n%2 = stablehlo.add %1, %b : tensor<f32>",
        ),
        "a reduce-scatter by add The text",
    ),
    ("Unknown flag in XLA_FLAGS: --xla_dump_hlo_as_txt", "the nearest is --xla_dump_hlo_as_text"),
    ("ERROR: Unknown command line flag 'xla_gpu_autotune_level'", "it belongs in XLA_FLAGS, not in LIBTPU_INIT_ARGS"),
    ("Couldn't interpret value yes for flag xla_gpu_autotune_level.", "does not take the value yes"),
    (
        (
            "INVALID_ARGUMENT: Argument does not match host shape or layout of computation parameter 2: want "
            "f32[128,64]{1,0}, got f32[128,32]{1,0}"
        ),
        "Argument 2 does not fit: dimension 1 is 32, compiled for 64",
    ),
    (
        "INVALID_ARGUMENT: Execution supplied 3 buffers but compiled program expected 5 buffers",
        "The program takes 5 arguments, but 3 were passed",
    ),
    (
        "Some donated buffers were not usable: ShapedArray(float32[8,8]), ShapedArray(key<fry>[4]).",
        "2 donated arguments (256 bytes, 1 of unknown size) found no result",
    ),
    (
        "key<fry>[] from the argument rng\nui8[4] output of foo from q.py:2 (f)\n",
        "2 saved values, 4 B: arguments 0 B, computed 4 B",
    ),
    (
        (
            "The kernel jaxpr for pallas_call quant at /h/q.py:5:\n{ lambda ; a:MemRef<vmem>{float8_e4m3fn[128,256]} "
            "b:MemRef<smem>{int32[4]}. let\n  in () }"
        ),
        "arguments of 32 KiB in VMEM, 16 B in SMEM",
    ),
    (
        (
            "Memory Space: default (color=0)\nTotal bytes: 893419520 (852.0MiB)\n"
            "  cumulative_size;       size;       offset; used_by_n_values; shapes_list\n"
            "   400.0MiB( 62%);  400.0MiB;            0;                3; 2×f32[5120,20480], bf16[10240,20480]\n"
        ),
        "its tables of default memory have 400 MiB of 852.0 MiB",
    ),
    (
        (
            "  1400 cycles ( 50.00% 50Σ) :: 1.0 usec ( 0.5 optimal) :: :: :: 2.50GiB/s :: 1B/cycle :: %a.1 = f32[8] "
            "add(f32[8] %x, f32[8] %y)"
        ),
        "a.1: 1.0 µs measured, 500.0 ns possible, 2.5 GiB/s",
    ),
    (
        (
            "RET_CHECK failure (xla/service/hlo_verifier.cc:100) !(a != b) DynamicUpdateSlice instruction shouldn't change "
            "layout memory space from host to device: %dus.1 = f32[8,8]{1,0} dynamic-update-slice(f32[8,8]{1,0:S(5)} %p, "
            "f32[1,8]{1,0} %u, s32[] %i, s32[] %j)"
        ),
        "dus.1 takes a host array (p) and gives a device array Operand 0",
    ),
    (
        (
            "BufferAssignment stats:\n             parameter allocation:    1.00GiB\n"
            "        maybe_live_out allocation:  512.00MiB\n     preallocated temp allocation:    2.50GiB\n"
            "                 total allocation:    4.00GiB\n"
        ),
        "Buffer assignment: 4 GiB in all allocations",
    ),
    ("source_target_pairs={{0,1},{1,0}}, channel_id=5", "2 transfers between 2 devices"),
    ("w1: float32[128,256]\nw2: (256, 10) float32\n", "141,312 bytes in 2 shapes"),
    ("```\nHloModule jit_f, entry_computation_layout={(f32[8]{0}, f32[4\n```", "inside the header of jit_f"),
    (
        "TRACING CACHE MISS at /w/a.py:3 (f): never seen input type signature:\n  * at x, now f32[6,32] and before f32[4,32]",
        "f was traced again at /w/a.py:3: x is f32[6,32], before it was f32[4,32]",
    ),
    ("Finished XLA compilation of jit(f) in 12.34 sec", "Compiling 1 function took 12.3 s"),
    (f"{HLO}\nif (a) {{\n  foo(b);\n}}\n", "jit_g: needs at most 320 B of main memory"),
    (f"{HLO}Some donated buffers were not usable: ShapedArray(float32[8]).\n", "has a warning about donated arguments"),
    (f"{HLO}\nThe jaxpr is\n{{ lambda ; a:f32[40]. let b:f32[40] = cos a in (b,) }}\n", "is a jaxpr"),
    (HLO.partition("\n\n")[2] + "\nmodule @jit_g {\n  func.func @main(%arg0: tensor<4xf32>) {\n  }\n}\n", "StableHLO"),
)


@pytest.mark.parametrize(("text", "words"), VARIANTS)
def test_other_wordings(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(text)
    code, found = answer([str(path)], capsys)
    assert words in found
    assert code == 0


OTHERS: tuple[tuple[str, str], ...] = (
    ('{"args": {"bytes accessed": 100}, "metrics": [{"flops": 10}]}', "is JSON, not HLO"),
    ('{"model": "resnet", "flops": 4100000000, "params": 25600000}', "is JSON, not HLO"),
    ('[{"name": "fusion.1", "flops": 12.0, "bytes accessed": 48.0, "time_us": 3.1}]', "is JSON, not HLO"),
    ("{'flops': 1000.0}", "no HLO found"),
    ("ValueError: the batch axis of size 16 must be divisible by the mesh axis 8", "no HLO found"),
)
"""Texts that only look like a kind."""


@pytest.mark.parametrize(("text", "words"), OTHERS)
def test_other_texts_are_not_answered(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(text)
    code, found = answer([str(path)], capsys)
    assert words in found
    assert code == 2


def test_dumps_are_not_taken_for_pasted_texts() -> None:
    """What the reader of a plain dump asks first is false for each dump at hand: it is read without a copy."""
    fixtures = Path(__file__).parent.parent / "fixtures"
    for path in sorted(fixtures.rglob("*.txt"))[:400]:
        text = path.read_text("utf-8", "surrogateescape")
        if text.startswith("HloModule "):
            found = AFTER_BLOCK.search(text) is not None, has_odd_characters(text), is_cut_header(text)
            assert found == (False, False, False), path
