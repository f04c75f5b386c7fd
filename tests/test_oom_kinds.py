"""Every kind of out-of-memory message is named as what it is, with its figures and culprits."""

from __future__ import annotations

import textwrap

import pytest

import oom_messages as messages
import oom_other_messages as others
from hlo_cli.ir.out_of_memory import AllocatorStats, ChunkGroup, MemoryPart, OutOfMemory
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.out_of_memory.read_logs import newest, parse_out_of_memory

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


def only(text: str) -> OutOfMemory:
    [message] = parse_out_of_memory(Source("error.txt", text))
    return message


@pytest.mark.parametrize(
    ("text", "kind", "used", "limit", "meaning", "over"),
    [
        (messages.TPU_HBM, "tpu-hbm", 20 * GIB, 15.48 * GIB, "capacity", 4.52 * GIB),
        (messages.TPU_SCOPED, "tpu-vmem-scoped", 48.5 * MIB, 32 * MIB, "limit", 16.5 * MIB),
        (messages.TPU_SCOPED_CUT, "tpu-vmem-stack", None, None, "", None),
        (messages.TPU_RUN, "tpu-buffer", 4.5 * GIB, 2.25 * GIB, "free", 2.25 * GIB),
        (messages.TPU_LOAD, "tpu-load", 9 * GIB, 8.25 * GIB, "reservable", 0.75 * GIB),
        (messages.GPU_REMATERIALIZATION, "rematerialization", 2 * GIB, GIB, "limit", GIB),
        (messages.GPU_SHARED, "gpu-shared-memory", 131072, 101376, "capacity", 29696),
        (messages.GPU_DRIVER, "gpu-driver", GIB, None, "", None),
        (messages.GPU_NEW, "device", 1.25 * GIB, None, "", None),
        (others.TPU_CORES, "tpu-hbm", 100 * GIB, 95 * GIB, "capacity", 5 * GIB),
        (others.TPU_ABORTED, "tpu-hbm", 2 * TIB, 90 * GIB, "capacity", 2 * TIB - 90 * GIB),
        (others.TPU_LIMIT, "tpu-vmem-scoped", 24 * MIB, 16 * MIB, "limit", 8 * MIB),
        (others.TPU_SCOPED_UNDER_LOAD, "tpu-vmem-scoped", 40 * MIB, 32 * MIB, "limit", 8 * MIB),
        (others.TPU_VMEM, "tpu-vmem", 80 * MIB, 64 * MIB, "capacity", 16 * MIB),
        (others.TPU_SMEM, "tpu-smem", 2 * MIB, MIB, "capacity", MIB),
        (others.TPU_WINDOW, "tpu-vmem", 256 * MIB, 64 * MIB, "capacity", 192 * MIB),
        (others.TPU_HOST, "tpu-host", 2147483648000, 128 * GIB, "capacity", 2147483648000 - 128 * GIB),
        (others.TPU_SPARSE_CORE_NUMBER, "tpu-sparse-core", 600_000, 524_284, "limit", 75_716),
        (others.TPU_OLD_LOAD, "tpu-load", 4.5 * GIB, 2 * GIB, "reservable", 2.5 * GIB),
        (others.GPU_ASYNC, "gpu-allocator", 9 * GIB, 4 * GIB, "free", 5 * GIB),
        (others.GPU_CONSTANT, "gpu-constant", 384 * MIB, None, "", None),
        (others.GPU_ARGUMENTS, "arguments", 64 * GIB, 32 * GIB, "limit", 32 * GIB),
        (others.GPU_TRITON, "gpu-shared-memory", 196608, 163840, "capacity", 32768),
        (others.GPU_HOST, "gpu-driver", 4 * GIB, None, "", None),
        (others.OTHER_TORCH, "pytorch", 2.5 * GIB, 1.25 * GIB, "free", 1.25 * GIB),
        (others.OTHER_TORCH_OLD, "pytorch", 20 * MIB, 10 * MIB, "free", 10 * MIB),
        (others.OTHER_TORCH_CPU, "pytorch", 64 * GIB, None, "", None),
        (others.OTHER_TENSORFLOW, "tensorflow", 512 * MIB, None, "", None),
        (others.OTHER_KERNEL, "linux-oom-killer", 14692352 * KIB, 16 * GIB, "limit", None),
        (others.OTHER_KUBERNETES, "kubernetes", None, None, "", None),
        (others.OTHER_SLURM, "slurm", None, None, "", None),
        (others.OTHER_RAY, "ray", 31 * GIB, 32 * GIB, "capacity", 0.6 * GIB),
    ],
)
def test_kinds_and_figures(
    text: str, kind: str, used: float | None, limit: float | None, meaning: str, over: float | None
) -> None:
    message = only(text)
    assert (message.kind, message.limit_meaning) == (kind, meaning)
    told = (message.used_bytes, message.limit_bytes, message.exceeded_by_bytes)
    assert told == tuple(None if size is None else pytest.approx(size, abs=1) for size in (used, limit, over))


def test_the_row_of_a_kernel_has_its_purpose() -> None:
    scratch, window = only(others.TPU_VMEM).allocations
    assert (scratch.tag, scratch.operand_number, scratch.kernel) == ("scratch operand", None, "PAGED-q_256-kv_2048")
    assert (str(scratch.place), scratch.opcode, scratch.target) == (
        "PAGED-q_256-kv_2048.72",
        "custom-call",
        "tpu_custom_call",
    )
    assert (scratch.size_bytes, scratch.padding_bytes, scratch.kind) == (36 * MIB, 18 * MIB, "scoped")
    assert str(scratch.shape) == "f8e4m3fn[2,2048,9,4,256]{4,3,2,1,0:T(8,128)(4,1)}"
    [spills, *_] = only(messages.TPU_VMEM_OLD).allocations
    assert (spills.label, spills.opcode) == ("register allocator spill slots", "")
    assert (window.tag, window.operand_number, window.label, window.place) == ("input window", 3, "", None)


def test_the_culprit_of_a_scoped_allocation_is_its_kernel() -> None:
    message = only(others.TPU_SCOPED_UNDER_LOAD)
    [culprit] = message.culprits
    assert message.failed is culprit
    assert (culprit.size_bytes, str(culprit.shape)) == (40 * MIB, "f32[8192,512]{1,0:T(8,128)}")
    assert (str(culprit.place), culprit.kernel) == ("_bwd.2", "my_kernel")
    assert culprit.op_name == "jit(step)/jit(_bwd)/my_kernel/pallas_call"
    assert message.device == "0x0x0_HBM0"


@pytest.mark.parametrize(
    ("text", "tag", "operand", "place"),
    [
        (others.TPU_SMEM, "prefetched SMEM operand", 0, "gather_rows.5"),
        (others.TPU_WINDOW, "output window", 1, "my_kernel.7"),
        (others.TPU_SCOPED_MEMORY, "scoped memory for gather_matmul_kernel.2", None, "gather_matmul_kernel.2"),
        (messages.TPU_OUTPUT, "output of fusion.9{1}", None, "fusion.9{1}"),
        (others.TPU_HOST, "output", 0, "custom-call.3"),
    ],
)
def test_purposes_of_failed_allocations(text: str, tag: str, operand: int | None, place: str) -> None:
    [culprit] = only(text).culprits
    assert (culprit.tag, culprit.operand_number, str(culprit.place)) == (tag, operand, place)


def test_the_window_of_an_operand() -> None:
    [culprit] = only(others.TPU_WINDOW).culprits
    assert (str(culprit.shape), str(culprit.window), culprit.buffering) == (
        "u8[268435456]{0}",
        "f32[4096,8192]{1,0}",
        2,
    )


def test_the_allocation_of_a_sparse_core() -> None:
    message = only(others.TPU_SPARSE_CORE_NUMBER)
    [culprit] = message.culprits
    assert (message.space, culprit.size_bytes, str(culprit.shape)) == ("tile_spmem", 80_000, "f32[20000]{0}")
    assert (culprit.label, str(culprit.place)) == ("memref.alloca (result.7:12:1)", "result.7")


def test_the_tables_of_an_old_runtime() -> None:
    message = only(others.TPU_OLD_LOAD)
    assert [part.size_bytes for part in message.usage] == [512 * MIB, 5.5 * GIB, 5 * GIB]
    assert [part.name for part in message.usage][1] == "heap allocations (without fragmentation)"
    assert [part.name for part in message.program] == ["reserved", "scoped", "HLO temp", "overlays"]
    assert message.temp is not None
    assert message.temp.utilization_percent == 97.0
    assert (message.free_bytes, message.reserved_bytes) == (2.25 * GIB, 0)
    assert only(others.TPU_CORES).usage == (MemoryPart("TensorCore", 30 * GIB), MemoryPart("SparseCore", 70 * GIB))


def test_the_allocator_of_a_gpu() -> None:
    message = only(others.GPU_ASYNC)
    assert (message.device, message.executable) == ("gpu_async_3", "jit_train_step")
    assert message.chunks == (ChunkGroup(56, 256), ChunkGroup(784, 2 * MIB))
    assert message.allocator == AllocatorStats(
        limit_bytes=80 * GIB,
        in_use_bytes=61982909300,
        max_in_use_bytes=61982909300,
        num_allocs=21841,
        max_alloc_bytes=5974366617,
        reserved_bytes=0,
        peak_reserved_bytes=0,
        largest_free_block_bytes=4 * GIB,
    )


def test_the_allocator_of_another_framework() -> None:
    old, new = only(others.OTHER_TORCH_OLD), only(others.OTHER_TORCH)
    assert old.allocator is not None
    assert (old.device, old.allocator.limit_bytes, old.reserved_bytes) == ("0", 4 * GIB, round(2.99 * GIB))
    assert new.allocator == AllocatorStats(limit_bytes=round(39.5 * GIB))
    assert new.device == "1"


def test_processes_that_were_killed() -> None:
    killed = only(others.OTHER_KERNEL).process
    assert killed is not None
    assert (killed.name, killed.pid, killed.group) == ("python3", 2343, "/kubepods/pod7/c1")
    assert (killed.virtual_bytes, killed.anonymous_bytes) == (30 * GIB, 14 * GIB)
    assert killed.reason == "CONSTRAINT_MEMCG"
    container, step, task = (
        only(text).process for text in (others.OTHER_KUBERNETES, others.OTHER_SLURM, others.OTHER_RAY)
    )
    assert container is not None
    assert step is not None
    assert task is not None
    assert (container.reason, container.exit_code) == ("OOMKilled", 137)
    assert step.group == "440575.0"
    assert (task.name, task.pid, task.resident_bytes) == ("load_batch", 548, 12 * GIB)


def test_only_messages_of_xla_are_xlas() -> None:
    for name, text in (*vars(messages).items(), *vars(others).items()):
        if name.isupper() and name != "GPU_NO_FAILURE":
            assert only(text).is_xla == (not name.startswith("OTHER"))
    assert only(messages.GPU_REMATERIALIZATION).is_warning
    assert only(others.GPU_ARGUMENTS).is_warning


def test_the_newest_failure_is_answered_rather_than_warnings_and_other_programs() -> None:
    text = messages.TPU_HBM + messages.GPU_REMATERIALIZATION + others.OTHER_SLURM
    assert newest(parse_out_of_memory(Source("error.txt", text))).kind == "tpu-hbm"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("429 RESOURCE_EXHAUSTED: Quota exceeded for requests per minute", "quota"),
        ("RESOURCE_EXHAUSTED: Received message larger than max (5242952 vs 4194304)", "gRPC message"),
        ("StatusCode.RESOURCE_EXHAUSTED: Sent message larger than max (9 vs. 4)", "gRPC message"),
        ("OSError: [Errno 24] Too many open files", "open files"),
        (messages.GPU_NO_FAILURE, "retry of an allocator"),
        ("Total hbm usage >= 260.14M:\n  reserved 204B\n  program 70.0K", "report of memory usage"),
        ("zsh: killed     python train.py\n", "process that was killed"),
        ("step 12\nKilled\n", "process that was killed"),
        ("RESOURCE_EXHAUSTED: something else", "does not name a memory"),
        ("INVALID_ARGUMENT: Executable(jit_f) expected parameter 2 of size 64 but got", "INVALID_ARGUMENT: Executable"),
        ("ModuleNotFoundError: No module named 'jax'", "ModuleNotFoundError: No module"),
    ],
)
def test_other_errors_are_named(text: str, what: str) -> None:
    with pytest.raises(HloError, match=f"no XLA out-of-memory message found; .*{what}"):
        only(text)


def test_tags_of_windows_have_their_blanks_where_lines_are_wrapped_between_words() -> None:
    tag = "input window allocation for operator input 3. The window shape is f32[64,512,128], while the full shape is "
    text = (
        "RESOURCE_EXHAUSTED: Allocation (size=16777216) would exceed memory (size=8388608)\n"
        f"shape = u8[16777216]{{0}}, space=vmem, scoped, tag = '{tag}f32[64,512,128]. This allocation is single buffered.'\n"
    )
    for width in (80, 81, 90):
        wrapped = "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, width))
        failed = only(wrapped).failed
        assert failed is not None
        assert (failed.tag, failed.operand_number, failed.buffering) == ("input window", 3, 1)
        assert failed.tag_text.startswith(tag), width
