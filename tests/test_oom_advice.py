"""What is advised against an out-of-memory message: from which size on, how much is saved, how many devices hold it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hlo_cli import parse_shape
from hlo_cli.analysis.memory.oom_advice import (
    Advice,
    Defragment,
    Donate,
    Dump,
    FewerElements,
    FreeBuffers,
    FreeChunks,
    FreeOthers,
    ListProcesses,
    Narrow,
    RaiseHostLimit,
    RaiseScopedLimit,
    Recompute,
    Reorder,
    Shard,
    ShardValues,
    Shrink,
    ShrinkRange,
    SingleBuffer,
    SmallerBlock,
    advice_of,
    free_bytes,
)
from hlo_cli.ir.buffer_assignment import AllocationStats
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.out_of_memory import (
    AllocatorStats,
    ChunkGroup,
    KernelWindow,
    MemoryPart,
    MemoryRange,
    OomAllocation,
    OomProcess,
    OutOfMemory,
)
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import Span

MIB, GIB = 1 << 20, 1 << 30
HBM = OutOfMemory("compile", Span(0, 0), "hbm", "tpu", kind="tpu-hbm")


def array(text: str) -> ArrayShape:
    """A shape that is an array."""
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def over(used: int, limit: int, message: OutOfMemory = HBM) -> OutOfMemory:
    """A message that as many bytes are used as that, of a limit."""
    return replace(message, used_bytes=used, limit_bytes=limit, exceeded_by_bytes=used - limit)


def advised(message: OutOfMemory, window: KernelWindow | None = None) -> list[Advice]:
    """The advice but for a dump."""
    return [each for each in advice_of(message, window) if not isinstance(each, Dump)]


# --- programs ---


@pytest.mark.parametrize(
    ("arguments", "devices"), [(100, None), (101, 2), (200, 2), (201, 3)], ids=["fits", "just not", "two", "three"]
)
def test_arguments_are_sharded_over_the_fewest_devices_that_hold_them(arguments: int, devices: int | None) -> None:
    message = replace(over(300, 100), usage=(MemoryPart("arguments", arguments),), program=(MemoryPart("x", 1),))
    expected = [] if devices is None else [Shard(arguments, 100, devices)]
    assert advised(message) == expected


@pytest.mark.parametrize(("used", "devices"), [(GIB, None), (GIB + 1, 2), (2 * GIB, 2), (2 * GIB + 1, 3)])
def test_arguments_of_a_whole_memory_are_sharded(used: int, devices: int | None) -> None:
    message = over(used, GIB, replace(HBM, kind="tpu-other", space=""))
    assert [each for each in advised(message) if isinstance(each, Shard)] == (
        [] if devices is None else [Shard(used, GIB, devices, OomAllocation(used))]
    )
    small = over(used, GIB - 1, replace(HBM, kind="tpu-other", space=""))
    assert not [each for each in advised(small) if isinstance(each, Shard)]


@pytest.mark.parametrize(("size", "devices"), [(99, None), (100, None), (101, 2), (301, 4)])
def test_a_result_that_no_device_holds_is_sharded(size: int, devices: int | None) -> None:
    failed = OomAllocation(size)
    message = replace(over(size, 100), failed=failed)
    found = [each for each in advised(message) if isinstance(each, Shard)]
    assert found == ([] if devices is None else [Shard(size, 100, devices, failed)])


@pytest.mark.parametrize(
    ("temporaries", "excess", "expected"),
    [
        (40, 10, Shrink("HLO temp", 40, 10)),
        (11, 10, Shrink("HLO temp", 11, 10)),
        (10, 10, None),
        (40, 0, None),
        (40, -1, None),
    ],
)
def test_temporaries_shrink_by_the_excess(temporaries: int, excess: int, expected: Shrink | None) -> None:
    message = replace(over(100 + excess, 100), program=(MemoryPart("HLO temp", temporaries),))
    assert advised(message) == ([] if expected is None else [expected])


def test_a_program_without_parts_shrinks_as_a_whole() -> None:
    assert advised(over(110, 100)) == [Shrink("the program", 110, 10)]
    rounded = replace(over(1000, 99), exceeded_by_bytes=903)  # more than 0.9 of it: the limit is more exact
    assert advised(rounded) == [Shrink("the program", 1000, 901)]
    assert advised(replace(rounded, exceeded_by_bytes=900)) == [Shrink("the program", 1000, 900)]
    limited = replace(over(110, 100), kind="rematerialization")
    assert Shrink("the program", 110, 10, is_compiler_limit=True) in advised(limited)


@pytest.mark.parametrize(("saved", "is_found"), [(49, False), (50, True)])
def test_donation_is_advised_from_a_twentieth_on(saved: int, is_found: bool) -> None:
    message = replace(
        over(1000, 900),
        usage=(MemoryPart("arguments", 300),),
        output_bytes=saved + 20,
        output_shared_bytes=20,
        program=(MemoryPart("x", 1),),
    )
    assert advised(message) == ([Donate(300, saved + 20, 20, saved)] if is_found else [])
    fewer = replace(message, usage=(MemoryPart("arguments", saved + 20),), output_bytes=300)
    assert advised(fewer) == ([Donate(saved + 20, 300, 20, saved)] if is_found else [])


def test_what_arguments_and_results_share_is_what_a_total_counts_once() -> None:
    stats = AllocationStats(parameter_bytes=4 * GIB, constant_bytes=GIB, maybe_live_out_bytes=3 * GIB,
                            preallocated_temp_bytes=2 * GIB, total_bytes=9 * GIB)  # fmt: skip
    assert advised(replace(over(9 * GIB, 8 * GIB), stats=stats, program=(MemoryPart("x", 1),))) == [
        Donate(4 * GIB, 3 * GIB, GIB, 2 * GIB)
    ]


@pytest.mark.parametrize(
    ("shape", "op_name", "narrower"),
    [
        ("f64[100]", "", ("f32", 400)),
        ("c128[50]", "", ("c64", 400)),
        ("f32[200]", "jit(f)/dot_general[preferred_element_type=float32]", ("bf16", 400)),
        ("f32[200]", "jit(f)/add", None),
        ("bf16[400]", "jit(f)/convert_element_type[new_dtype=float32]", None),
    ],
)
def test_wide_types_are_narrowed(shape: str, op_name: str, narrower: tuple[str, int] | None) -> None:
    wide = OomAllocation(800, array(shape), op_name=op_name)
    message = replace(over(1000, 900), allocations=(wide,), program=(MemoryPart("x", 1),))
    assert advised(message) == ([Narrow(800, narrower[1], wide, narrower[0])] if narrower else [])
    few = replace(message, used_bytes=8001)  # less than a twentieth is no advice
    assert advised(few) == []
    assert advised(replace(few, used_bytes=8000)) == advised(message)


@pytest.mark.parametrize(
    ("op_name", "is_found"), [("jvp(f)/dot", True), ("transpose(jvp(f))/dot", False), ("f/dot", False)]
)
def test_values_of_the_forward_pass_are_recomputed(op_name: str, is_found: bool) -> None:
    stored = OomAllocation(50, op_name=op_name)
    message = replace(over(1000, 900), allocations=(stored, OomAllocation(9)), program=(MemoryPart("x", 1),))
    assert advised(message) == ([Recompute((stored,), 50)] if is_found else [])
    assert advised(replace(message, used_bytes=1001)) == []


def test_arguments_of_one_shape_are_reordered_together() -> None:
    shape = array("f32[1024,4]{1,0:T(8,128)}")  # 1024 × 128 words; 4 × 1024 the other way round, in tiles of 4 rows
    given = tuple(OomAllocation(shape.padded_bytes, shape, label=name, is_entry_parameter=True) for name in "ab")
    message = replace(over(2 * shape.padded_bytes, 1 << 19), allocations=given, program=(MemoryPart("x", 1),))
    [found] = [each for each in advised(message) if isinstance(each, Reorder)]
    assert (found.before_bytes, found.after_bytes) == (2 * 4 * 1024 * 128, 2 * 4 * 4 * 1024)
    assert found.layout.minor_to_major == (0, 1)
    assert found.allocations == given
    for other in ({"is_entry_parameter": False}, {"size_bytes": shape.padded_bytes * 103 // 100}):
        changed = tuple(replace(each, **other) for each in given)
        assert not [e for e in advised(replace(message, allocations=changed)) if isinstance(e, Reorder)]


def test_nothing_is_said_of_programs_that_fit_any_device() -> None:
    def stats(total: int) -> AllocationStats:
        return AllocationStats(0, 0, 0, 0, total)

    message = replace(HBM, kind="gpu-allocator", target="gpu", used_bytes=10)
    assert advice_of(replace(message, stats=stats(GIB - 1))) == (FreeOthers(GIB - 1),)
    assert not [e for e in advised(replace(message, stats=stats(GIB))) if isinstance(e, FreeOthers)]


# --- ranges ---


def test_values_alone_in_their_allocations_are_sharded_together() -> None:
    ranges = tuple(
        OomAllocation(size, extra_bytes=0, range=MemoryRange("default", at, 0, 1, is_alone=True))
        for at, size in enumerate((60, 50, 4))
    )
    message = replace(over(100, 100), exceeded_by_bytes=0, allocations=ranges, program=(MemoryPart("x", 1),))
    assert advised(message) == [ShardValues(2, 110, 100, 2)]
    assert advised(replace(message, limit_bytes=110)) == []
    assert advised(replace(message, limit_bytes=109)) == [ShardValues(2, 110, 109, 2)]
    assert advised(replace(message, limit_bytes=55)) == [ShardValues(2, 110, 55, 2)]


@pytest.mark.parametrize(("size", "is_found"), [(5, True), (4, False)])
def test_the_largest_range_shrinks(size: int, is_found: bool) -> None:
    shared = OomAllocation(size, range=MemoryRange("default", 0, 0, 3))
    message = replace(over(100, 90), exceeded_by_bytes=0, allocations=(shared,), program=(MemoryPart("x", 1),))
    assert advised(message) == ([ShrinkRange(shared, None)] if is_found else [])


# --- kernels ---

VMEM = OutOfMemory("compile", Span(0, 0), "vmem", "tpu", kind="tpu-vmem")
SMEM = OutOfMemory("compile", Span(0, 0), "smem", "tpu", kind="tpu-smem")


@pytest.mark.parametrize(
    ("block", "size", "limit", "halved"),
    [
        ("f32[8,128]", 8, 8, None),  # a full tile is not halved
        ("f32[16,128]", 8, 8, "f32[8,128]"),
        ("f32[16,128]", 8, 9, "f32[16,128]"),
        ("bf16[16,128]", 8, 8, None),
        ("bf16[32,128]", 8, 8, "bf16[16,128]"),
        ("f32[8,256]", 8, 8, "f32[8,128]"),
        ("f32[6,8,128]", 8, 8, "f32[3,8,128]"),
        ("f32[6,8,128]", 8, 4, None),
        ("f32[4,16,128]", 8, 1, None),
        ("f32[4,16,128]", 8, 2, "f32[1,8,128]"),
        ("f32[3,24,128]", 8, 8, None),  # 12 rows are not of full tiles
        ("f32[3,17,128]", 8, 8, None),
    ],
)
def test_blocks_are_halved_as_long_as_tiles_are_full(block: str, size: int, limit: int, halved: str | None) -> None:
    window = KernelWindow("input", 0, array(block), array(block), 1)
    found = [each for each in advised(over(size, limit, VMEM), window) if isinstance(each, SmallerBlock)]
    assert [str(each.block).partition("{")[0] for each in found] == ([] if halved is None else [halved])
    assert all(each.size_bytes * window.block.elements == size * each.block.elements for each in found)


@pytest.mark.parametrize(("limit", "is_found"), [(50, False), (51, True)])
def test_one_buffer_is_advised_if_it_fits(limit: int, is_found: bool) -> None:
    window = KernelWindow("input", 0, array("f32[8,128]"), array("f32[64,128]"), 2)
    found = advised(over(100, limit, VMEM), window)
    assert found == [*([SingleBuffer(window, 50)] if is_found else []), Shrink("blocks and scratch", 100, 100 - limit)]
    assert not [e for e in advised(over(100, 101, VMEM), replace(window, buffers=1)) if isinstance(e, SingleBuffer)]


def test_the_limit_of_scoped_memory_is_raised_to_whole_mebibytes() -> None:
    scoped = replace(VMEM, kind="tpu-vmem-scoped")
    raised, shrunk = advised(over(17 * MIB, 16 * MIB, scoped))
    assert isinstance(raised, RaiseScopedLimit)
    assert (raised.limit_bytes, raised.limit_kib, raised.is_kernel) == (18 * MIB, 18 * 1024, False)
    assert all(size > 18 * MIB for _, size in raised.vmem_bytes)
    assert shrunk == Shrink("blocks and scratch", 17 * MIB, MIB)
    assert advised(over(16 * MIB, 16 * MIB, scoped)) == []
    assert advised(over(1024 * MIB, 16 * MIB, scoped)) == [Shrink("blocks and scratch", 1024 * MIB, 1008 * MIB)]
    least = next(e for e in advised(over(17 * MIB - MIB // 200, 16 * MIB, scoped)) if isinstance(e, RaiseScopedLimit))
    assert least.limit_bytes == 17 * MIB
    for kernel in ({"target": "tpu_custom_call"}, {"opcode": "custom-call"}):
        failed = OomAllocation(1, **kernel)  # type: ignore[arg-type]
        found = advised(replace(over(17 * MIB, 16 * MIB, scoped), failed=failed))[0]
        assert isinstance(found, RaiseScopedLimit)
        assert found.is_kernel


def test_a_small_memory_holds_so_many_words() -> None:
    failed = OomAllocation(800, array("s32[150]"))
    message = replace(over(1000, 900, SMEM), failed=failed)
    assert advised(message) == [FewerElements(failed, "s32", (900 - 200) // 4, 200, 200)]
    window = KernelWindow("input", 0, array("s32[75]"), array("s32[150]"), 2)
    assert advised(message, window) == [FewerElements(failed, "s32", 175, 200, 150)]
    narrow = replace(failed, shape=array("s8[150]"))
    assert advised(replace(message, failed=narrow)) == [FewerElements(narrow, "32-bit", 175, 200, 200)]
    full = replace(over(1000, 203, SMEM), failed=failed)  # not one word is left beside the rest
    assert advised(full) == [Shrink("scalars and semaphores", 1000, 797)]
    assert advised(replace(full, limit_bytes=204)) == [FewerElements(failed, "s32", 1, 200, 200)]
    for other in (None, OomAllocation(801), OomAllocation()):
        assert advised(replace(message, failed=other)) == [Shrink("scalars and semaphores", 1000, 100)]
    assert advised(replace(message, failed=None, exceeded_by_bytes=1000)) == []


def test_scratch_is_halved_and_shared_memory_shrinks() -> None:
    scratch = OomAllocation(800, array("f32[64,128]"), tag="scratch operand")
    [*_, found] = advised(replace(over(800, 500, VMEM), failed=scratch))
    assert isinstance(found, SmallerBlock)
    assert (str(found.block), found.size_bytes) == ("f32[32,128]{1,0}", 400)
    assert advised(over(800, 500, VMEM)) == [Shrink("blocks and scratch", 800, 300)]
    assert advised(over(500, 500, VMEM)) == []
    shared = replace(VMEM, kind="gpu-shared-memory", target="gpu")
    assert advised(over(800, 500, shared)) == [Shrink("shared memory", 800, 300)]
    assert advised(over(500, 500, shared)) == []


# --- run time ---

GPU = OutOfMemory("run", Span(0, 0), "", "gpu", kind="gpu-allocator", used_bytes=100)


@pytest.mark.parametrize(("free", "is_enough"), [(99, False), (100, True)])
def test_free_memory_in_pieces_is_no_lack_of_memory(free: int, is_enough: bool) -> None:
    chunks = (ChunkGroup(3, 50), ChunkGroup(1, 140))
    message = replace(GPU, free_bytes=free, chunks=chunks)
    assert advised(message) == ([Defragment(100, 100, None, False)] if is_enough else [FreeChunks(1, chunks[0])])
    stats = AllocatorStats(limit_bytes=free + 7, in_use_bytes=7, largest_free_block_bytes=40)
    found = advised(replace(GPU, allocator=stats))
    assert found == ([Defragment(100, 100, 40, False)] if is_enough else [FreeChunks(1, None)])


def test_the_free_memory_of_a_message() -> None:
    stats = AllocatorStats(limit_bytes=8, in_use_bytes=5)
    assert free_bytes(replace(GPU, free_bytes=2, allocator=stats)) == 2
    assert free_bytes(replace(GPU, limit_bytes=4, limit_meaning="free", allocator=stats)) == 4
    assert free_bytes(replace(GPU, limit_bytes=4, limit_meaning="capacity", allocator=stats)) == 3
    assert free_bytes(replace(GPU, allocator=replace(stats, in_use_bytes=9))) == 0
    assert free_bytes(replace(GPU, allocator=replace(stats, in_use_bytes=None))) is None


def test_arrays_are_deleted_before_a_program_is_loaded() -> None:
    load = OutOfMemory("load", Span(0, 0), "hbm", "tpu", kind="tpu-load")
    assert advice_of(over(9, 8, load)) == (FreeBuffers(1, True), Dump(False))
    assert advice_of(over(9, 8, replace(load, kind="tpu-buffer"))) == (FreeBuffers(1, False),)
    assert advised(over(8, 8, load)) == []
    reservable = replace(over(9, 8, load), free_bytes=9, limit_meaning="reservable")
    assert advised(reservable) == [Defragment(9, 9, 8, True)]


@pytest.mark.parametrize(
    ("kind", "reason", "setter"),
    [
        ("linux-oom-killer", "CONSTRAINT_MEMCG", "group"),
        ("linux-oom-killer", "CONSTRAINT_NONE", "machine"),
        ("kubernetes", "OOMKilled", "container"),
        ("slurm", "", "job"),
        ("ray", "", "node"),
    ],
)
def test_who_limits_the_memory_of_a_host(kind: str, reason: str, setter: str) -> None:
    process = OomProcess(resident_bytes=70, reason=reason)
    message = OutOfMemory("run", Span(0, 0), kind=kind, process=process, limit_bytes=60)  # type: ignore[arg-type]
    assert advice_of(message) == (RaiseHostLimit(setter, 70, 60, None),)  # type: ignore[arg-type]
    assert advice_of(replace(message, used_bytes=80)) == (RaiseHostLimit(setter, 80, 60, None),)  # type: ignore[arg-type]


def test_the_driver_of_a_gpu_refuses_memory() -> None:
    assert advice_of(replace(GPU, kind="gpu-driver")) == (ListProcesses(100),)
    assert not [e for e in advice_of(replace(GPU, kind="gpu-driver", space="host")) if isinstance(e, ListProcesses)]


def test_a_layout_is_advised_under_the_tiles_of_the_kernel() -> None:
    shape = array("f32[1024,4]{1,0:T(8,128)}")
    scratch = OomAllocation(shape.padded_bytes, shape, tag="scratch operand")
    [found, *_] = advised(replace(over(shape.padded_bytes, 100, VMEM), failed=scratch))
    assert isinstance(found, Reorder)
    assert found.layout == Layout((0, 1), shape.layout.tiles)
    assert (found.before_bytes, found.after_bytes) == (4 * 1024 * 128, 4 * 8 * 1024)
