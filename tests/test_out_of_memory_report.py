"""Answers to out-of-memory messages: the sentence, the culprit, and advice whose numbers are computed here again."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

import oom_messages as messages
import oom_other_messages as others
from hlo_cli.cli import main
from hlo_cli.commands.memspace.oom import report_of_message
from hlo_cli.commands.memspace.oom_words import memory_name
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.report import Report
from hlo_cli.report.text import line_of, plain_text
from hlo_cli.source import Source, Span
from hlo_cli.syntax.out_of_memory.allocations import window_of
from timing import is_linear

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TPU_HBM_LIST = """\
RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used {used} of 15.75G hbm. \
Exceeded hbm capacity by {over}.

Total hbm usage >= {used}:
    reserved        258.00M\x20
    program         {program}\x20
    arguments       {arguments}\x20

Output size {output}; shares {shared} with arguments.

Program hbm requirement {program}:
    HLO temp        {program} (90.0% utilization: Unpadded (4.00G) Padded (4.00G), 1.0% fragmentation (64.00M))

  Largest program allocations in hbm:

{rows}"""
ROW = """\
  {number}. Size: {size}
     Operator: op_name="{op_name}" source_file="train.py" source_line={number}
     Shape: {shape}
     Unpadded size: {unpadded}
     XLA label: {name} = fusion(p.1), kind=kLoop, calls=fused
     Allocation type: HLO temp
     ==========================

"""


def report(text: str) -> Report:
    return report_of_message(Source("error.txt", text))


def advice(found: Report) -> list[str]:
    """The lines of advice without their numbers."""
    lines = [
        plain_text(line_of(text))
        for part in found.parts
        if part.kind == "passage" and part.name == "what_to_do"
        for text in part.paragraphs
    ]
    assert [line.partition(". ")[0] for line in lines] == [str(at + 1) for at in range(len(lines))]
    return [line.partition(". ")[2] for line in lines]


def rows(found: Report, name: str) -> list[dict[str, object]]:
    table = next(part for part in found.parts if part.kind == "table" and part.name == name)
    return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]


def hbm(*listed: str, used: str = "20.00G", over: str = "4.25G", **parts: str) -> str:
    """A message of a TPU compiler with rows and tables."""
    given = {"program": "19.00G", "arguments": "0B", "output": "0B", "shared": "0B", **parts}
    return TPU_HBM_LIST.format(used=used, over=over, rows="".join(listed), **given)


def row(number: int, size: str, shape: str, *, op_name: str = "jit(f)/mul", unpadded: str = "") -> str:
    return ROW.format(
        number=number, size=size, shape=shape, op_name=op_name, unpadded=unpadded or size, name=f"fusion.{number}"
    )


def argument(number: int, size: str, shape: str, *, unpadded: str = "") -> str:
    """The row of an argument of the program."""
    listed = row(number, size, shape, op_name=f"params['w{number}']", unpadded=unpadded)
    return listed.replace(
        f"fusion.{number} = fusion(p.1), kind=kLoop, calls=fused", f"p.{number} = parameter({number})"
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            messages.TPU_HBM,
            (
                "Out of HBM during compilation: the program needs 20 GiB but only 15.5 GiB is available (4.5 GiB over); the "
                "largest allocation is iota.2 (8 GiB, 92% padding)"
            ),
        ),
        (
            messages.TPU_HBM_SHORT,
            (
                "Out of HBM during compilation of jit_step: the program needs 22 GiB but only 15.8 GiB is available (6.3 GiB "
                "over)"
            ),
        ),
        (
            messages.TPU_SCOPED,
            "Out of scoped VMEM during compilation: kernel needs 48.5 MiB but the limit is 32 MiB (16.5 MiB over)",
        ),
        (
            others.TPU_LIMIT,
            "Out of scoped VMEM during compilation: the kernel needs 24 MiB but the limit is 16 MiB (8 MiB over)",
        ),
        (messages.TPU_SCOPED_CUT, "Out of VMEM during compilation of kernel.2; the text does not have the sizes"),
        (
            others.TPU_WINDOW,
            (
                "Out of VMEM during compilation: the output window of result 1 of my_kernel needs 256 MiB but only 64 MiB is "
                "available (192 MiB over)"
            ),
        ),
        (
            others.TPU_SMEM,
            (
                "Out of SMEM during compilation: the prefetched SMEM operand 0 of gather_rows needs 2 MiB but only 1 MiB is "
                "available (1 MiB over)"
            ),
        ),
        (
            others.TPU_SPARSE_CORE_NUMBER,
            (
                "Out of SparseCore memory during compilation: result.7 needs 585.9 KiB but the limit is 512.0 KiB (73.9 KiB "
                "over)"
            ),
        ),
        (
            others.TPU_HOST,
            (
                "Out of host memory during compilation: the output 0 of custom-call.3 needs 2.0 TiB but only 128 GiB is "
                "available (1.8 TiB over)"
            ),
        ),
        (
            messages.TPU_LOAD,
            (
                "Out of HBM while loading the program: the program needs 9 GiB but only 8.3 GiB can be reserved (768 MiB "
                "over)"
            ),
        ),
        (
            messages.TPU_RUN,
            "Out of HBM during execution: 4.5 GiB requested but only 2.3 GiB is free (2.3 GiB over)",
        ),
        (
            others.GPU_ASYNC,
            "Out of GPU memory during execution of jit_train_step: 9 GiB requested but only 4 GiB is free (5 GiB over)",
        ),
        (
            messages.GPU_SHARED,
            (
                "Out of GPU shared memory during compilation: a kernel needs 128 KiB but only 99 KiB is available (29 KiB "
                "over)"
            ),
        ),
        (
            messages.GPU_REMATERIALIZATION,
            "Rematerialization reduces memory from 3 GiB to 2 GiB, 1 GiB over its limit of 1 GiB",
        ),
        (others.GPU_ARGUMENTS, "Arguments and results need 64 GiB but the limit is 32 GiB (32 GiB over)"),
        (others.GPU_CONSTANT, "Out of GPU memory while loading the program: 384 MiB requested"),
        (messages.CPU_RUN, "Out of host memory during execution: 16 GiB requested"),
        (
            others.OTHER_KERNEL,
            (
                "Not an XLA message: Linux killed python3 (pid 2343, 14.0 GiB) because its control group reached its limit "
                "of host memory"
            ),
        ),
        (
            others.OTHER_KUBERNETES,
            (
                "Not an XLA message: Kubernetes killed a container (exit code 137) because it reached its limit of host "
                "memory"
            ),
        ),
        (
            others.OTHER_SLURM,
            "Not an XLA message: Slurm killed a process because job step 440575.0 reached its limit of host memory",
        ),
        (
            others.OTHER_RAY,
            (
                "Not an XLA message: Ray killed load_batch (pid 548, 12 GiB) because its node used 31 GiB of 32 GiB of host "
                "memory"
            ),
        ),
        (
            others.OTHER_TORCH,
            "Not an XLA message: PyTorch requested 2.5 GiB of GPU memory, but only 1.3 GiB of 39.5 GiB is free",
        ),
        (
            others.OTHER_TENSORFLOW,
            "Not an XLA message: transpose_op.cc:198 of TensorFlow requested 512 MiB of device memory",
        ),
    ],
)
def test_the_first_line_is_the_answer(text: str, answer: str) -> None:
    assert report(text).answer == answer


def test_sizes_that_read_the_same_are_not_compared() -> None:
    text = "Ran out of memory in memory space smem. Used 1.00M of 1.00M smem. Exceeded smem capacity by 4.6K.\n"
    found = report(text)
    assert "needs 4.6 KiB more than the 1 MiB available" in found.answer
    assert "1 MiB but only 1 MiB" not in found.answer


@pytest.mark.parametrize("text", [text for name, text in vars(messages).items() if name.isupper()])
def test_every_screen_and_every_pipe_has_the_figures(text: str) -> None:
    if text == messages.GPU_NO_FAILURE:
        return
    found = report(text)
    table = found.main_table
    assert table.rows, "a pipe is never empty"
    listed = next(part.name for part in found.parts if part.name in ("allocations", "ranges"))
    assert table.name == (listed if rows(found, listed) else "messages")
    chosen = rows(found, "messages")[-1 if len(rows(found, "messages")) == 1 else 0]
    assert set(chosen) >= {"used_bytes", "limit_bytes", "exceeded_by_bytes", "kind", "line"}


def test_culprits_come_first_with_all_that_the_text_has() -> None:
    found = report(messages.TPU_HBM)
    facts = next(part for part in found.parts if part.kind == "facts")
    shown = {fact.label: fact.remark or fact.amounts[0].value for fact in facts.facts}
    assert facts.title == "Largest allocation"
    assert shown == {
        "size": 8 * GIB,
        "padding": round(7.38 * GIB),
        "kind": "HLO temp",
        "instruction": "iota.2",
        "shape": "s32[16777216,10]{1,0:T(8,128)}",
        "op_name": "jit(step)/one_hot",
        "source": "train.py:7",
    }
    sizes = [int(str(each["bytes"])) for each in rows(found, "allocations")]
    assert sizes == sorted(sizes, reverse=True)

    names = {part.name for part in found.parts}
    assert names >= {"usage", "program", "allocations", "messages", "what_to_do"}


def test_tags_operands_kernels_and_targets_are_columns() -> None:
    [failed] = rows(report(others.TPU_SMEM), "allocations")
    assert (failed["tag"], failed["operand"], failed["kernel"]) == ("prefetched SMEM operand", 0, "gather_rows")
    [scoped] = rows(report(messages.TPU_SCOPED), "allocations")
    assert (scoped["target"], scoped["instruction"]) == ("tpu_custom_call", "kernel.1")


def tiled_bytes(sizes: tuple[int, ...], minor_to_major: tuple[int, ...], item: int, rows_: int) -> int:
    """Bytes with tiles of 128 lanes and some rows, by rounding up alone."""
    order = [sizes[d] for d in minor_to_major]
    lanes, second = math.ceil(order[0] / 128) * 128, math.ceil(order[1] / rows_) * rows_
    return item * lanes * second * math.prod(order[2:])


def test_the_best_dimension_order_is_first() -> None:
    wide = argument(1, "8.00G", "f32[16777216,10]{1,0:T(8,128)}", unpadded="640.00M")
    full = row(2, "2.00G", "f32[4096,131072]{1,0:T(8,128)}", unpadded="2.00G")
    found = report(hbm(wide, full))
    before, after = (tiled_bytes((1 << 24, 10), order, 4, 8) for order in ((1, 0), (0, 1)))
    assert (before, after) == (8 * GIB, GIB)
    assert advice(found)[0] == (
        "Pass params['w1'] in dimension order {0,1}, for example as f32[10,16777216]: "
        f"{format_bytes(after)} instead of {format_bytes(before)} (saves {format_bytes(before - after)})."
    )
    assert "hlo layout 'f32[16777216,10]{1,0}' --for v5e" in found.next
    assert not any("Shrink" in line for line in advice(found)), "the new order saves more than is missing"


def test_arrays_of_one_shape_are_reordered_together() -> None:
    shape = "bf16[1048576,3,128]{1,2,0:T(8,128)(2,1)}"
    size = tiled_bytes((1 << 20, 3, 128), (1, 2, 0), 2, 8)
    best = min(tiled_bytes((1 << 20, 3, 128), o, 2, 4 if o[1] == 1 else 8) for o in ((2, 1, 0), (2, 0, 1), (0, 2, 1)))
    text = f"{size / GIB:.2f}G"
    lines = advice(report(hbm(argument(1, text, shape), argument(2, text, shape), used="90.00G", over="74.25G")))
    assert lines[0].startswith("Pass params['w1'] and 1 more of that shape in dimension order ")
    saved = 2 * (round(float(text[:-1]) * GIB) - best)
    assert f"(saves {format_bytes(saved)})" in lines[0]


def test_orders_are_for_arguments_not_for_what_the_compiler_lays_out() -> None:
    wide = row(1, "8.00G", "f32[16777216,10]{1,0:T(8,128)}", unpadded="640.00M")
    for text in (hbm(wide), hbm(wide, argument(2, "2.00G", "f32[4096,131072]{1,0:T(8,128)}"))):
        found = report(text)
        assert not any("dimension order" in line for line in advice(found))
        assert not any(line.startswith("hlo layout") for line in found.next)


def test_layouts_of_kernels_and_small_savings_are_no_advice() -> None:
    small = row(1, "1.00M", "f32[65536,1]{1,0:T(8,128)}")
    kernel = row(2, "8.00G", "f32[16777216,10]{1,0:T(8,128)}").replace(
        "fusion(p.1), kind=kLoop, calls=fused", 'custom-call(p.1), custom_call_target="tpu_custom_call"'
    )
    assert not any("dimension order" in line for line in advice(report(hbm(small, kernel))))


def test_donation_is_limited_by_what_both_have_and_share() -> None:
    parts = {"program": "10.00G", "arguments": "6.00G", "output": "5.00G", "shared": "2.00G"}
    line = next(line for line in advice(report(hbm(**parts))) if line.startswith("Donate"))
    assert f"up to {format_bytes((min(6, 5) - 2) * GIB)}:" in line
    assert "arguments (6 GiB) and results (5 GiB) share 2 GiB" in line
    shared = hbm(**(parts | {"shared": "5.00G"}))
    assert not any(line.startswith("Donate") for line in advice(report(shared)))
    gpu = next(line for line in advice(report(messages.GPU_RUN)) if line.startswith("Donate"))
    assert f"up to {format_bytes(512 * MIB - 4)}" in gpu, "1 GiB + 4 B + 512 MiB + 2 GiB less the total of 3.5 GiB"


def test_arguments_that_never_fit_are_sharded() -> None:
    line = advice(report(messages.TPU_HBM_ON_ONE_LINE))[0]
    assert f"over at least {math.ceil(39 / 32)} devices: they alone need 39 GiB, HBM has 32 GiB" in line
    line = advice(report(messages.TPU_OUTPUT))[0]
    assert line.startswith(f"Shard fusion.9{{1}} over at least {math.ceil(20 / 16)} devices")


def test_temporaries_shrink_by_the_excess() -> None:
    line = next(line for line in advice(report(hbm(program="18.00G"))) if line.startswith("Shrink"))
    assert line.startswith(f"Shrink HLO temp by {math.ceil(100 * 4.25 / 18)}% (4.3 GiB of 18 GiB)")
    remat, run = messages.GPU_REMATERIALIZATION, messages.GPU_NEW
    assert advice(report(remat + run))[0].startswith("Shrink the program by 50% (1 GiB of 2 GiB)")
    far = remat.replace("2.00GiB (2147483648", "64.00GiB (68719476736")
    assert (
        advice(report(far))[0] == "Shrink the program from 64 GiB to at most 1 GiB, the memory limit of the compiler."
    )


def test_values_kept_for_gradients_and_wide_types() -> None:
    kept = [row(at, "1.00G", "f32[4096,65536]{1,0:T(8,128)}", op_name="jit(f)/jvp(net)/tanh") for at in (1, 2, 3)]
    back = row(4, "1.00G", "f32[4096,65536]{1,0:T(8,128)}", op_name="jit(f)/transpose(jvp(net))/mul")
    line = next(line for line in advice(report(hbm(*kept, back))) if "jax.checkpoint" in line)
    assert "3 allocations (3 GiB)" in line
    wide = row(1, "4.00G", "f64[8192,65536]{1,0:T(8,128)}")
    assert "Compute mul in f32: 2 GiB instead of 4 GiB." in advice(report(hbm(wide)))
    asked = row(1, "4.00G", "f32[16384,65536]{1,0:T(8,128)}", op_name="jit(f)/dot[preferred_element_type=float32]")
    assert "Compute dot in bf16: 2 GiB instead of 4 GiB." in advice(report(hbm(asked)))
    plain = row(1, "4.00G", "f32[16384,65536]{1,0:T(8,128)}")
    assert not any(line.startswith("Compute") for line in advice(report(hbm(plain))))


def test_blocks_that_fit_a_memory() -> None:
    [block] = advice(report(others.TPU_WINDOW))
    found = re.search(r"f32\[(\d+),8192\] needs (\d+) MiB with 2 buffers", block)
    assert found is not None
    assert int(found[2]) * MIB == 2 * 4 * int(found[1]) * 8192 < 64 * MIB <= 2 * 2 * 4 * int(found[1]) * 8192
    half = others.TPU_WINDOW.replace("268435456", "100663296").replace("[4096,8192]", "[1536,8192]")
    single, block = advice(report(half))
    assert single.endswith(f"it then needs {format_bytes(4 * 1536 * 8192)}.")
    assert f"f32[768,8192] needs {format_bytes(2 * 4 * 768 * 8192)} with 2 buffers" in block
    odd = others.TPU_WINDOW.replace("[4096,8192]", "[4097,8193]")
    assert advice(report(odd)) == ["Use smaller blocks: blocks and scratch must shrink by 75% (192 MiB of 256 MiB)."]
    scratch = (
        "Allocation (size=209715200) would exceed memory (size=134217728) :: #allocation3 [shape = 'f32[51200,1024]"
        "{1,0:T(8,128)}', space=vmem, size = 0xc800000, scoped, tag = 'scratch operand'] :: my_scratch.1\n"
    )
    [line] = advice(report(scratch))
    assert f"f32[25600,1024] needs {format_bytes(4 * 25600 * 1024)} (now f32[51200,1024])" in line


def test_scratch_operands_in_another_order() -> None:
    shape = "f32[4096,9,4,128]{3,2,1,0:T(8,128)}"
    size = tiled_bytes((4096, 9, 4, 128), (3, 2, 1, 0), 4, 8)
    text = others.TPU_VMEM.replace("36.00M", f"{size / MIB:.2f}M").replace("80.00M", "200.00M")
    text = re.sub(r"Shape: f8e4m3fn\S+", f"Shape: {shape}", text).replace("18.00M", f"{size / 2 / MIB:.2f}M")
    best = tiled_bytes((4096, 9, 4, 128), (3, 0, 2, 1), 4, 8)
    line = advice(report(text))[0]
    assert line == (
        "Declare the scratch operand of PAGED-q_256-kv_2048 as f32[9,4,4096,128]: "
        f"{format_bytes(best)} instead of {format_bytes(size)} (saves {format_bytes(size - best)})."
    )


def test_the_limit_of_scoped_vmem_is_raised_for_chips_that_have_it() -> None:
    limit, shrink = advice(report(messages.TPU_SCOPED))
    kib = int(re.search(r"limit_kib=(\d+)", limit)[1])  # type: ignore[index]
    assert kib * KIB == math.ceil(48.505) * MIB
    assert f"vmem_limit_bytes={kib * KIB}" in limit
    assert "128 MiB on v5e and v6e, 64 MiB on v5p and 7x" in limit
    assert "v4" not in limit
    assert shrink.endswith(f"must shrink by {math.ceil(100 * 16.5 / 48.5)}% (16.5 MiB of 48.5 MiB).")
    huge = messages.TPU_SCOPED.replace("48.50M", "200.00M").replace("16.50M", "168.00M")
    assert [line.partition(":")[0] for line in advice(report(huge))] == ["Use smaller blocks"]
    assert "vmem_limit_bytes" not in advice(report(others.TPU_LIMIT))[0], "no kernel is known"


def test_small_memories_hold_so_many_elements() -> None:
    assert advice(report(others.TPU_SMEM)) == [
        f"Keep at most {MIB // 4:,} 32-bit elements in SMEM (now {2 * MIB // 4:,}), the others in HBM."
    ]
    [line] = advice(report(others.TPU_SPARSE_CORE_NUMBER))
    assert f"at most {131071 - (150000 - 20000):,} f32 elements" in line
    semaphores = others.TPU_SMEM.replace("space=smem", "space=sflag").replace(
        "prefetched SMEM operand 0", "scratch operand"
    )
    assert advice(report(semaphores)) == [f"Use at most {MIB // 4:,} semaphores (now {2 * MIB // 4:,})."]
    padded = messages.TPU_ALLOCATION.replace("f32[2048,1024]", "f32[16384,5]")
    assert f"{round(100 * (1 - 16384 * 5 / (2 * MIB)))}% of them padding" in advice(report(padded))[0]


def test_what_has_to_be_freed_at_run_time() -> None:
    assert f"at least {format_bytes(9 * GIB - round(8.25 * GIB))} of arrays" in advice(report(messages.TPU_LOAD))[0]
    assert f"at least {format_bytes(2.25 * GIB)} of arrays" in advice(report(messages.TPU_RUN))[0]
    assert "5 GiB; the largest chunks in use are 784 × 2 MiB" in advice(report(others.GPU_ASYNC))[0]


def test_a_small_program_is_not_to_blame() -> None:
    small = re.sub(r"(total allocation:\s+)3.50GiB", r"\g<1>900.0MiB", messages.GPU_RUN.partition("E0102")[2])
    [line] = advice(report(small))
    assert "this program needs only 900 MiB" in line
    assert not any("needs only" in line for line in advice(report(messages.GPU_RUN)))


def test_fragmentation_is_advice_only_where_the_text_shows_it() -> None:
    free = messages.TPU_LOAD.replace("8.50G free", "9.50G free")
    [first, *_] = advice(report(free))
    assert "9.5 GiB is free, but the largest piece has 8.3 GiB: memory is fragmented" in first
    full = messages.GPU_RUN.partition("E0102")[0]
    split = full.replace("1074790400", "536870912")
    assert "cuda_malloc_async" in advice(report(split))[0]
    for text in (full, messages.GPU_NEW, messages.GPU_DRIVER, messages.TPU_LOAD):
        assert not any("fragmented" in line or "ALLOCATOR" in line for line in advice(report(text)))


def test_host_memory_is_not_device_memory() -> None:
    for text in (others.OTHER_KERNEL, others.OTHER_KUBERNETES, others.OTHER_SLURM, others.OTHER_RAY):
        found = report(text)
        assert any("host memory" in note.message for note in found.notes)
        assert not any("dump" in line.lower() for line in advice(found))
    machine = others.OTHER_KERNEL.replace("CONSTRAINT_MEMCG", "CONSTRAINT_NONE").replace("Memory cgroup out", "Out")
    assert "because host memory ran out" in report(machine).answer
    assert advice(report(machine)) == ["Use less memory on the host, or a machine with more memory."]
    assert "control group above 14.0 GiB" in advice(report(others.OTHER_KERNEL))[0]
    assert f"to save {format_bytes(31 * GIB - 0.95 * 32 * GIB)}" in advice(report(others.OTHER_RAY))[0]


def test_advice_is_short_and_ends_with_the_dump() -> None:
    for text in (value for module in (messages, others) for name, value in vars(module).items() if name.isupper()):
        if text == messages.GPU_NO_FAILURE:
            continue
        lines = advice(report(text))
        assert len(lines) <= 5
        assert len(set(lines)) == len(lines)
        assert [line.startswith("Dump") for line in lines[:-1]].count(True) == 0
    dumped = report(messages.TPU_HBM_SHORT)
    assert "--xla_dump_to=DUMP --xla_dump_hlo_as_text" in advice(dumped)[-1]
    assert dumped.next[0] == "hlo memspace DUMP --oom error.txt"


def test_several_messages_are_listed_with_their_lines() -> None:
    found = rows(report(messages.TPU_HBM_SHORT + messages.TPU_LOAD), "messages")
    assert [(each["kind"], each["line"]) for each in found] == [("tpu-hbm", 1), ("tpu-load", 3)]
    assert [each["module"] for each in found] == ["jit_step", None]


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("input window allocation for operator input 3. The window shape is bf16[8,128].", ("input", 3, "bf16[8,128]", 1)),
        (("input window allocation for\n  operator input 2. The window shape is s8[1, 64], while the full shape is s8[4, 64]"
         ". This allocation has 3 buffering levels."), ("input", 2, "s8[1,64]", 3)),
        ("output window allocation for operator output 0. The window shape is nonsense[8].", None),
        ("scratch operand", None),
    ],
)  # fmt: skip
def test_windows_of_tags(tag: str, expected: tuple[str, int, str, int] | None) -> None:
    found = window_of(tag)
    told = None if found is None else (found.role, found.number, found.block.to_string(layout=False), found.buffers)
    assert told == expected


def test_reading_windows_needs_linear_time() -> None:
    part = "input window allocation for operator input 1. The window shape is f32[1, "
    assert is_linear(lambda count: lambda: window_of(part * count), 500, 4000)


MODULE = """\
HloModule {name}, is_scheduled=true, entry_computation_layout={{(f32[65536,8]{{1,0:T(8,128)}})->f32[65536,8]{{1,0:T(8,128)}}}}

ENTRY main {{
  p.1 = f32[65536,8]{{1,0:T(8,128)}} parameter(0)
  fusion.1 = f32[65536,8]{{1,0:T(8,128)}} negate(p.1)
  ROOT fusion.2 = f32[65536,8]{{1,0:T(8,128)}} tanh(fusion.1)
}}
"""


def with_dump(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, *, name: str = "jit_f"
) -> dict[str, object]:
    dump, error = tmp_path / f"module_0001.{name}.after_optimizations.txt", tmp_path / "error.log"
    dump.write_text(MODULE.format(name=name), encoding="utf-8")
    error.write_text(text, encoding="utf-8")
    assert main(["memspace", str(dump), "--oom", str(error), "--format", "json"], standalone=False) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_dump_gives_instructions_its_peak_and_differences(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    size = tiled_bytes((65536, 8), (1, 0), 4, 8)
    text = f"{size / MIB:.2f}M"
    agreeing = hbm(row(1, text, "f32[65536,8]{1,0:T(8,128)}"), row(2, text, "f32[65536,8]{1,0:T(8,128)}"), used="96.00M",
                   over="1.00M", program="32.00M", arguments="32.00M", output="32.00M")  # fmt: skip
    found = with_dump(capsys, tmp_path, agreeing)
    answer = found["answer"]
    assert isinstance(answer, dict)
    assert (answer["matched"], answer["not_in_dump"], answer["other_size_in_dump"]) == (2, 0, 0)
    assert answer["dump_bytes"] == 3 * size
    assert "Text and dump differ" not in json.dumps(found)
    assert '"live_values"' in json.dumps(found["tables"])
    differing = (
        re.sub(f"(?i)(size: ){text}(?=\n)", r"\g<1>16.00M", agreeing)
        .replace("fusion.2 =", "gone.7 =")
        .replace("96.00M", "200.00M")
    )
    differing = differing.replace("program         32.00M", "program        136.00M")
    shown = json.dumps(with_dump(capsys, tmp_path, differing)["text"])
    assert "1 of 2 allocations is not in the dump, such as gone.7" in shown
    assert f"fusion.1 has 16 MiB in the text and {format_bytes(size)} in the dump" in shown
    assert f"needs 200 MiB in the text and {format_bytes(3 * size)} in the dump" in shown


def advice_with_dump(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, *options: str, used: str, limit: str
) -> tuple[int, dict[str, object], str]:
    """The exit code, the answer, and the advice of a dump that needs 96 MiB, for a message with a limit."""
    dump, error = tmp_path / "module_0001.jit_f.after_optimizations.txt", tmp_path / "error.log"
    dump.write_text(MODULE.format(name="jit_f"), encoding="utf-8")
    text = f"Ran out of memory in memory space hbm. Used {used} of {limit} hbm. Exceeded hbm capacity by 1.00M.\n"
    error.write_text(f"RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. {text}", encoding="utf-8")
    code = main(["memspace", str(dump), "--oom", str(error), "--format", "json", *options], standalone=False)
    found = json.loads(capsys.readouterr().out)
    return code, found["answer"], " ".join(found["text"].get("advice", ()))


def test_advice_from_the_dump_keeps_to_the_limit_of_the_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, answer, advice = advice_with_dump(capsys, tmp_path, used="96.00M", limit="80.00M")
    assert (code, answer["fits"], answer["limit_bytes"], answer["needed_bytes"]) == (0, False, 80 * MIB, 96 * MIB)
    assert ", below the limit" in advice
    _, answer, advice = advice_with_dump(capsys, tmp_path, used="96.00M", limit="1.00M")
    assert "still 31 MiB above the limit" in advice
    # A program that needs less shares the memory with others.
    _, answer, advice = advice_with_dump(capsys, tmp_path, used="900.00M", limit="800.00M")
    assert "the limit" not in advice
    assert "fits" not in answer
    assert answer["limit_bytes"] == 800 * MIB


def test_a_given_limit_comes_before_that_of_the_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, answer, advice = advice_with_dump(capsys, tmp_path, "--limit", "1MiB", used="96.00M", limit="80.00M")
    assert (code, answer["fits"], answer["limit_bytes"]) == (1, False, MIB)
    assert "still 31 MiB above the limit" in advice
    code, answer, _ = advice_with_dump(capsys, tmp_path, "--chip", "v5e", used="96.00M", limit="80.00M")
    assert (code, answer["fits"], answer["chip"]) == (0, True, "v5e")
    assert main(["memspace", "--oom", str(tmp_path / "error.log"), "--limit", "1MiB"], standalone=False) == 2
    assert "--limit with --oom requires a dump" in capsys.readouterr().err


def test_a_dump_of_another_module_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = json.dumps(with_dump(capsys, tmp_path, messages.TPU_HBM_SHORT)["text"])
    assert "The text has module jit_step, the dump jit_f" in shown
    same = json.dumps(with_dump(capsys, tmp_path, messages.TPU_HBM_SHORT, name="jit_step")["text"])
    assert "The text has module" not in same


def test_of_several_modules_the_named_one_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for at, name in enumerate(("jit_other", "jit_step")):
        path = tmp_path / f"module_000{at}.{name}.after_optimizations.txt"
        path.write_text(MODULE.format(name=name), encoding="utf-8")
    error = tmp_path / "error.log"
    error.write_text(messages.TPU_HBM_SHORT, encoding="utf-8")
    given = ["memspace", str(tmp_path), "--oom", str(error), "--format", "json"]
    assert main(given, standalone=False) == 0
    assert json.loads(capsys.readouterr().out)["input"]["module"] == "jit_step"


def test_names_of_memories() -> None:
    from hlo_cli.ir.out_of_memory import OutOfMemory

    assert memory_name(OutOfMemory("run", Span(0, 0), "host", "gpu", kind="gpu-driver")) == "pinned host memory"
    assert memory_name(OutOfMemory("compile", Span(0, 0), "tile_spmem", kind="tpu-other")) == "tile_spmem"
