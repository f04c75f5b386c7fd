"""Out-of-memory messages: every form gives its numbers, whatever surrounds it, and damage gives no traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

import oom_messages as messages
from hlo_cli import parse_module
from hlo_cli.analysis.memory.oom_dump_comparison import candidate_instructions
from hlo_cli.ir.out_of_memory import AllocatorStats, MemoryPart, OomAllocation, OutOfMemory
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.out_of_memory.read_logs import parse_out_of_memory
from timing import is_linear

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def read(text: str) -> tuple[OutOfMemory, ...]:
    return parse_out_of_memory(Source("error.txt", text))


def only(text: str) -> OutOfMemory:
    [message] = read(text)
    return message


@pytest.mark.parametrize(
    ("text", "stage", "target", "space", "used", "limit", "over"),
    [
        (messages.TPU_HBM, "compile", "tpu", "hbm", 20 * GIB, 15.48 * GIB, 4.52 * GIB),
        (messages.TPU_HBM_SHORT, "compile", "tpu", "hbm", 22 * GIB, 15.75 * GIB, 6.25 * GIB),
        (messages.TPU_HBM_ON_ONE_LINE, "compile", "tpu", "hbm", 40 * GIB, 32 * GIB, 8 * GIB),
        (messages.TPU_VMEM_OLD, "compile", "tpu", "vmem", None, None, None),
        (messages.TPU_SCOPED, "compile", "tpu", "vmem", 48.5 * MIB, 32 * MIB, 16.5 * MIB),
        (messages.TPU_SCOPED_CUT, "compile", "tpu", "vmem", None, None, None),
        (messages.TPU_ALLOCATION, "compile", "tpu", "smem", 8 * MIB, MIB, 7 * MIB),
        (messages.TPU_OUTPUT, "compile", "tpu", "hbm", 20 * GIB, 16 * GIB, 4 * GIB),
        (messages.TPU_SPARSE_CORE, "compile", "tpu", "tile_spmem", 360_000, 260_000, 100_000),
        (messages.TPU_RUN, "run", "tpu", "hbm", 4.5 * GIB, 2.25 * GIB, 2.25 * GIB),
        (messages.TPU_LOAD, "load", "tpu", "hbm", 9 * GIB, 8.25 * GIB, 0.75 * GIB),
        (messages.GPU_REQUEST, "run", None, "", 32 * MIB, None, None),
        (messages.GPU_NEW, "run", None, "", 1.25 * GIB, None, None),
        (messages.GPU_DRIVER, "run", "gpu", "", GIB, None, None),
        (messages.GPU_SHARED, "compile", "gpu", "shared memory", 131072, 101376, 29696),
        (messages.GPU_REMATERIALIZATION, "compile", None, "", 2 * GIB, GIB, GIB),
        (messages.CPU_RUN, "run", "cpu", "host", 16 * GIB, None, None),
    ],
)
def test_every_form_gives_its_numbers(
    text: str,
    stage: str,
    target: str | None,
    space: str,
    used: float | None,
    limit: float | None,
    over: float | None,
) -> None:
    message = only(text)
    assert (message.stage, message.target, message.space) == (stage, target, space)
    told = (message.used_bytes, message.limit_bytes, message.exceeded_by_bytes)
    assert told == tuple(None if size is None else round(size) for size in (used, limit, over))
    if message.used_bytes is not None and message.limit_bytes is not None:
        assert message.exceeded_by_bytes == pytest.approx(message.used_bytes - message.limit_bytes, abs=0.01 * GIB)


def test_the_tables_of_a_tpu_compiler() -> None:
    message = only(messages.TPU_HBM)
    assert message.usage == (
        MemoryPart("reserved", 512 * MIB),
        MemoryPart("program", 19 * GIB),
        MemoryPart("arguments", GIB),
    )
    assert sum(part.size_bytes or 0 for part in message.usage) == round(20.5 * GIB)
    assert (message.output_bytes, message.output_shared_bytes) == (64 * KIB, 32 * KIB)
    assert [part.name for part in message.program] == ["reserved", "global", "scoped", "HLO temp"]
    assert message.temp is not None
    assert (message.temp.unpadded_bytes, message.temp.padded_bytes) == (round(13.5 * GIB), 18 * GIB)
    assert (message.temp.utilization_percent, message.temp.fragmentation_bytes) == (75.0, GIB)
    assert [part.size_bytes for part in only(messages.TPU_HBM_ON_ONE_LINE).usage] == [2 * MIB, None, 39 * GIB]


def test_the_allocations_of_a_tpu_compiler() -> None:
    one_hot, fusion, copy = only(messages.TPU_HBM).allocations
    assert (one_hot.size_bytes, one_hot.unpadded_bytes) == (8 * GIB, 640 * MIB)
    assert one_hot.padding_bytes == round(7.38 * GIB)
    assert (str(one_hot.shape), one_hot.opcode) == ("s32[16777216,10]{1,0:T(8,128)}", "iota")
    assert (one_hot.op_name, one_hot.source_file, one_hot.source_line) == ("jit(step)/one_hot", "train.py", 7)
    assert [str(each.place) for each in (one_hot, fusion, copy)] == ["iota.2", "fusion.3.remat", "copy-start.1"]
    assert [each.opcode for each in (one_hot, fusion, copy)] == ["iota", "fusion", "copy-start"]
    assert [each.kind for each in (one_hot, fusion, copy)] == ["HLO temp", "HLO temp", "scoped"]
    assert fusion.padding_bytes == 0
    message = only(messages.TPU_HBM)
    assert message.allocated_bytes == 11 * GIB
    assert message.padding_bytes == sum(each.padding_bytes for each in message.allocations)


def test_the_allocations_of_old_tpu_compilers_have_no_sizes() -> None:
    spills, fusion = only(messages.TPU_VMEM_OLD).allocations
    assert (spills.label, spills.place, spills.size_bytes) == ("register allocator spill slots", None, None)
    assert (str(fusion.place), fusion.opcode) == ("fusion.7", "fusion")


def test_the_cause_of_small_memories_that_overflow() -> None:
    for text, cause in (
        (messages.TPU_SCOPED, "kernel.1"),
        (messages.TPU_SCOPED_CUT, "kernel.2"),
        (messages.TPU_ALLOCATION, "kernel.1"),
        (messages.TPU_OUTPUT, "fusion.9{1}"),
    ):
        assert str(only(text).cause) == cause
    [allocation] = only(messages.TPU_ALLOCATION).allocations
    assert (allocation.kind, str(allocation.shape), allocation.size_bytes) == ("scoped", "u8[8388608]{0}", 8 * MIB)
    assert (allocation.tag, allocation.operand_number) == ("input window", 0)
    assert allocation.tag_text.startswith("input window allocation")


def test_statistics_of_buffer_assignment_and_allocator() -> None:
    execution = only(messages.GPU_RUN)
    assert execution.allocator == AllocatorStats(limit_bytes=3 * GIB, in_use_bytes=1_074_790_400)
    assert (execution.device, execution.limit_bytes) == ("GPU_0_bfc", 3 * GIB - 1_074_790_400)
    assert (execution.limit_meaning, execution.free_bytes) == ("free", execution.limit_bytes)
    assert [(chunk.count, chunk.size_bytes) for chunk in execution.chunks] == [(2, 512 * MIB), (1, MIB)]
    stats = execution.stats
    assert stats is not None
    assert (stats.parameter_bytes, stats.constant_bytes, stats.preallocated_temp_bytes) == (GIB, 4, 2 * GIB)
    assert (stats.total_bytes, stats.preallocated_temp_fragmentation_bytes) == (round(3.5 * GIB), 24 * KIB)
    product, parameter = execution.allocations
    assert (product.opcode, product.source_line, str(product.shape)) == ("custom-call", 175, "f32[5104,78898]{1,0}")
    assert parameter.is_entry_parameter
    assert (execution.kind, execution.target, execution.repetitions) == ("gpu-buffer-assignment", "gpu", 2)


def test_codes_devices_and_modules() -> None:
    assert (only(messages.TPU_HBM_SHORT).code, only(messages.TPU_HBM_SHORT).module) == ("E1000", "jit_step")
    assert (only(messages.TPU_SCOPED).code, only(messages.TPU_SPARSE_CORE).code) == ("E1001", "E3000")
    assert (only(messages.TPU_RUN).device, only(messages.GPU_REQUEST).device) == ("0x0x1_HBM0", "3")


def test_the_instructions_of_a_module_are_found() -> None:
    module = parse_module(
        "HloModule m  ENTRY e { p = f32[8] parameter(0) ROOT fusion.9 = (f32[8], f32[8]) tuple(p, p) }"
    )
    [message] = parse_out_of_memory(Source("error.txt", messages.TPU_OUTPUT), module)
    assert message.cause is not None
    assert message.cause.instruction is module.entry.root
    assert message.allocations[0].place == message.cause


def test_candidates_of_an_opcode_have_its_shape_and_op_name() -> None:
    module = parse_module(
        "HloModule m  ENTRY e {"
        " big = f16[2048,128000]{1,0} parameter(0) small = f16[8] parameter(1)"
        ' near = f32[5104,78898]{0,1} custom-call(big), custom_call_target="a", metadata={op_name="other"}'
        ' found = (f32[5104,78898]{1,0}, s8[4]) custom-call(big), custom_call_target="a",'
        ' metadata={op_name="jit(step)/dot_general[precision=None]"}'
        ' ROOT wrong = f32[5104,78899] custom-call(big), custom_call_target="a" }'
    )
    [message] = parse_out_of_memory(Source("error.txt", messages.GPU_RUN), module)
    product, parameter = message.allocations
    assert [each.name for each in candidate_instructions(product, module)] == ["found"]
    assert [each.name for each in candidate_instructions(replace(product, op_name="gone"), module)] == ["near", "found"]
    assert [each.name for each in candidate_instructions(parameter, module)] == ["big"]
    assert candidate_instructions(OomAllocation(8, label="register allocator spill slots"), module) == ()
    [named] = parse_out_of_memory(Source("error.txt", messages.TPU_OUTPUT.replace("fusion.9", "near")), module)
    assert [each.name for each in candidate_instructions(named.allocations[0], module)] == ["near"]


ALL = "\n".join(value for name, value in vars(messages).items() if name.isupper())


@pytest.mark.parametrize(
    "prefix",
    [
        "E0528 07:02:44.350251   27487 client.cc:28] ",
        "(MeshHostWorker pid=489) ",
        "\x1b[2m\x1b[36m(pid=, ip=10.0.0.1)\x1b[0m ",
        "2026-05-06T07:08:09.123456Z ",
        "> ",
        "  | ",
    ],
)
def test_prefixes_of_logs_do_not_matter(prefix: str) -> None:
    text = messages.TPU_HBM.replace("\n", "\n" + prefix)
    message, plain = only(prefix + text), only(messages.TPU_HBM)
    assert (message.usage, message.program, message.allocations) == (plain.usage, plain.program, plain.allocations)
    assert (prefix + text)[message.span.start :].startswith("Ran out of memory in memory space hbm")


def test_line_breaks_written_as_two_characters_are_line_breaks() -> None:
    assert only(messages.TPU_HBM.replace("\n", "\\n")).allocations == only(messages.TPU_HBM).allocations


def test_each_message_is_reported_once_and_in_order() -> None:
    found = read(ALL + ALL)
    assert all(first.span.start < second.span.start for first, second in pairwise(found))
    assert len(found) == 19
    assert all(each.repetitions > 1 for each in found)
    assert [replace(each, repetitions=1) for each in found] == [replace(each, repetitions=1) for each in read(ALL)]


def test_retries_are_not_failures() -> None:
    with pytest.raises(HloError, match="no XLA out-of-memory message"):
        read(messages.GPU_NO_FAILURE)


@pytest.mark.parametrize("text", ["", "\n", "HloModule m", "all is well", "\0\1\2" * 100])
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(HloError, match="no XLA out-of-memory message"):
        read(text)


def test_damaged_messages_are_read_as_far_as_they_go() -> None:
    chance = random.Random(5)
    for _ in range(100):
        start, length = chance.randrange(len(ALL)), chance.randrange(1, 400)
        damaged = ALL[:start] + ALL[start + length :]
        assert 13 <= len(read(damaged)) <= 19


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        "Ran out of memory in memory space x while allocating on stack for ",
        "Allocation (size=1) would exceed memory (size=1) :: #",
        "Ran out of memory in memory space hbm. ",
        "Program hbm requirement 1G:\n  a 1",
        "Peak buffers:\n Size: 1\n",
        "%a = (",
        "1. Size: 1G\n XLA label: %a = (f32[], ",
        "\\n",
        "\n",
        " \n",
        "Total hbm usage >= 1G:\n\n",
        "\x1b[0m",
        "oom ",
        "a ",
        "Tag:",
        "Chunks of size 1 totalling ",
        "Limit: 1\n",
        "Attempting to allocate 1G",
        'op_name="',
        "largest allocation f32[1",
        "Killed process 1 (",
        "2026-01-02 10:11:12 ",
        "a/b:1] ",
    ],
)
def test_reading_needs_linear_time(part: str) -> None:
    def reading(count: int) -> Callable[[], object]:
        text = messages.CPU_RUN + "Peak buffers:\nBufferAssignment stats:\n" + part * count
        return lambda: read(text)

    assert is_linear(reading, 300, 2400)
