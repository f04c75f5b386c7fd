"""Are logs of jobs answered: allocators, communicators, the coordination service, torch.distributed, TPU hosts?

The forms are those of the files that each rule names; the sizes, ranks, and hosts are the test's own.
"""

from __future__ import annotations

import pytest

from hlo_cli.commands.pasted.answer import _report_of
from hlo_cli.commands.pasted.warnings import spills_report
from hlo_cli.inputs.pasted.envelopes import PastedText, PastedTextError
from hlo_cli.inputs.pasted.read import read_text
from hlo_cli.report.report import Report

TASK = "/job:jax_worker/replica:0/task:"
MIB = 1 << 20
REQUEST = (
    "2026-01-02 10:11:12.345678: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_1_bfc) ran out "
    "of memory trying to allocate 3.00MiB (rounded to 3145728)requested by op \n"
)
CHUNKS = "".join(
    f"2026-01-02 10:11:12.345679: I external/xla/xla/tsl/framework/bfc_allocator.cc:1100] {kind} at 7f00{at:x}00000 of "
    f"size {size * MIB} next {at + 1}\n"
    for at, (kind, size) in enumerate((("InUse", 4), ("Free ", 2), ("InUse", 4), ("Free ", 1), ("InUse", 1)))
)
BINS = (
    "I0000 bfc_allocator.cc:1046] Bin (1048576): \tTotal Chunks: 4, Chunks in use: 1. 6.0MiB allocated for chunks. "
    "1.5MiB in use in bin. 1.5MiB client-requested in use in bin.\n"
    "I0000 bfc_allocator.cc:1046] Bin (2097152): \tTotal Chunks: 2, Chunks in use: 2. 4.0MiB allocated for chunks. "
    "4.0MiB in use in bin. 4.0MiB client-requested in use in bin.\n"
)
SUMMARY = (
    "I0000 bfc_allocator.cc:1180] Allocator memory summary: rounded request 5.00GiB, total free in pool 6.00GiB, "
    "largest "
    "free chunk usable by upper end 4.00GiB, unallocated bytes 0B, pool size 24.00GiB, pool limit 24.00GiB\n"
)
STATE = (
    "I0000 bfc_allocator.cc:1073]   Size: 2.0MiB | Requested Size: 1.0MiB | in_use: 0 | bin_num: 13, prev:   "
    "Size: 9.0MiB | "
    "Requested Size: 9.0MiB | in_use: 1 | bin_num: -1\n"
    "I0000 bfc_allocator.cc:1114] Total bytes in pool: 12582912 memory_limit_: 12582912 available bytes: 0 "
    "curr_region_allocation_bytes_: 25165824\nI0000 bfc_allocator.cc:1112] Sum Total of in-use chunks: 8.5MiB\n"
)

PASSES = (  # the pipeline ends after the passes in it, so its own time is 15 us
    "I0102 10:00:00.000000   7 hlo_pass_pipeline.cc:303] Running HLO pass pipeline on module m: simple\n"
    "I0102 10:00:00.000050   7 hlo_pass_pipeline.cc:176] HLO pass: fold time: 50 us (cumulative: 50 us, #called: 1)\n"
    "I0102 10:00:00.000060   7 hlo_pass_pipeline.cc:176] HLO pass: fold time: 0 us (cumulative: 50 us, #called: 2)\n"
    "I0102 10:00:00.000065   7 hlo_pass_pipeline.cc:176] HLO pass: simple time: 65 us {} (cumulative: 65 us)\n"
)


def report(text: str) -> Report:
    """The report on a text."""
    with pytest.raises(PastedTextError) as caught:
        read_text(text, "-")
    return _report_of(caught.value.pasted)


def nccl(rank: int, ranks: int, what: str = "START", name: str = " commId 0x9a5") -> str:
    """A line of NCCL on one rank of a communicator."""
    return (
        f"n{rank}:100:201 [0] NCCL INFO ncclCommInitRank comm 0x55{rank} rank {rank} nranks {ranks} cudaDev 0 "
        f"nvmlDev 0 "
        f"busId 1b000{name} - Init {what}\n"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REQUEST + CHUNKS, "3 MiB requested; 3 MiB is free, the largest piece 2 MiB"),
        (REQUEST + STATE, "3 MiB requested; 3.5 MiB is free, the largest piece 2 MiB"),
        (CHUNKS, "9 MiB of 12 MiB in arrays (75%), largest free block 2 MiB"),
        (SUMMARY, "18 GiB of 24 GiB in arrays (75%), largest free block 4 GiB; 5 GiB was requested"),
        (BINS, "5.5 MiB of 10 MiB in arrays (55%); 4.5 MiB is free in 3 chunks, the largest in the bin from 1 MiB on"),
        (nccl(0, 4) + nccl(3, 4) + nccl(1, 4), "of 4 ranks: 3 began, and the log has no line of rank 2"),
        (nccl(0, 2) + nccl(1, 2) + nccl(1, 2, "COMPLETE"), "of 2 ranks: all began, and rank 0 is not complete"),
        (
            "UserWarning: Some donated buffers were not usable: float32[8@x,4], bfloat16<host>[2], int32[].",
            "3 donated arguments (136 bytes in all)",
        ),
        (
            (
                "E0909 09:41:06.1 31 collective_ops_utils.h:306] This thread has been waiting for 5000ms for and may "
                "be stuck: "
                "participant AllReduceParticipantData{rank=2, element_count=1, type=F32} waiting for all "
                "participants to arrive "
                "at rendezvous RendezvousKey{run_id=RunId: 7, global_devices=[0,1,2], num_local_participants=3, "
                "op_id=3}"
            ),
            "An all-reduce of run 7 is not complete: it needs 3 devices; 1 thread is in it here, 2 not",
        ),
        (f"I0 coordination_service.cc:7] Waiting for 1/8 tasks to connect.\nExample stragglers:\n{TASK}6\n", "task 6"),
        (f"W0 a.cc:1] Stopping coordination service as heartbeat has timed out for {TASK}5 and", "task 5 sent no"),
        (
            "DEADLINE_EXCEEDED: GetKeyValue() timed out with key: cuda:local_topology/cuda/12 and duration: 2m",
            "process 12",
        ),
        (
            (
                "Getting local topologies failed: Error 1: GetKeyValue() timed out with key: "
                "cpu:local_topology/cpu/9 and "
                "duration: 2m\n\nError 2: GetKeyValue() timed out with key: cpu:local_topology/cpu/3 and duration: 2m"
            ),
            "processes 3, 9 did not announce devices",
        ),
        (
            "INTERNAL: Barrier (save::3) is invoked by the task, but the service thinks it is the 5-th instance.",
            "3 of save",
        ),
        (
            f"INTERNAL: Coordination service has stopped. RecordHeartbeat() from task: {TASK}2 failed.",
            "when task 2 called",
        ),
        ("RuntimeError: [Rank 0]: Ranks 4, 6 failed to pass monitoredBarrier in 9000 ms", "after 9000 ms: rank 4, 6"),
        (
            "DistStoreError: Timed out after 61 seconds waiting for clients. 3/8 clients joined.",
            "3 of 8 came within 61 s",
        ),
        (
            (
                "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
                "CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[16, 8], TensorDtypes=Float), "
                "but Rank 3 "
                "is running collective: CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[12, 8], "
            ),
            "rank 0 runs ALLREDUCE [16, 8] (number 4), rank 3 runs ALLREDUCE [12, 8] (number 4)",
        ),
        (
            "n1:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab to 9637892 bytes",
            "9.2 MiB",
        ),
        (
            (
                "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed: "
                "open(/dev/accel2): "
                "Operation not permitted (set JAX_PLATFORMS='' to automatically choose an available backend)"
            ),
            "/dev/accel2 cannot be opened: Operation not permitted",
        ),
        ("RuntimeError: Bad StatusOr access: INTERNAL: Error code: 13", "code 13 (INTERNAL) without a text"),
        (
            (
                "ValueError: The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto "
                "axes of the "
                "mesh. Got spec=P(None, ('m', 'd')) and mesh=Mesh('d': 4, 'm': 2, axis_types=(Auto, Explicit))"
            ),
            "P(None, ('m', 'd')) names m (Explicit)",
        ),
        ("RuntimeError: Expecting scope to be empty but it is fit.2", "the graph ends within fit.2"),
        (
            (
                "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=17, OpType=BROADCAST, Timeout(ms)=60000) ran for 60100 milliseconds before timing out."
            ),
            "Rank 3 waited 60 s for collective 17 (broadcast)",
        ),
        (PASSES.format("(65 us)"), "Passes of m took 65.0 µs in 3 pass runs; fold took 50.0 µs (77%)"),
        (PASSES.format("(max: 65 us)"), "Passes of m took 65.0 µs in 3 pass runs; fold took 50.0 µs (77%)"),
    ],
)
def test_logs_of_jobs_are_answered_with_their_numbers(text: str, words: str) -> None:
    assert words in report(text).answer


def test_spills_of_an_unknown_kernel_are_not_denied() -> None:
    assert spills_report(PastedText("spills", "-", "0 bytes stack frame, 8 bytes spill stores, 4 bytes")) is None


def test_chunks_of_an_allocator_are_summed_by_size() -> None:
    found = report(CHUNKS)
    assert found.numbers.items() >= {"in_use": 9 * MIB, "limit": 12 * MIB, "largest_free": 2 * MIB}.items()
    [table] = found.tables
    assert [tuple(row) for row in table.rows] == [(4 * MIB, 2, 8 * MIB), (MIB, 1, MIB)]
