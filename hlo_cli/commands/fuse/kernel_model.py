"""XLA's own account of a GPU kernel: how it is launched, what it reads, and what makes it slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.numbers import count, format_bytes, format_count, format_rate, format_seconds
from hlo_cli.report.table import Cell, Column, Fact, Row

if TYPE_CHECKING:  # only GPUs need the model
    from hlo_cli.analysis.fusion.gpu_kernels import GpuKernel
    from hlo_cli.analysis.schedule.kernel_times import Prediction

MODEL_COLUMNS: Final = (
    Column("arithmetic_seconds", "arithmetic", "seconds", person=False),
    Column("memory_seconds", "memory", "seconds", person=False),
    Column("emitter", "emitter", person=False),
    Column("blocks", "blocks", "count", person=False),
    Column("threads", "threads", "count", person=False),
    Column("busy_cores", "busy cores", "count", person=False),
    Column("cycles", "cycles", "count", person=False),
    Column("kernel_read_bytes", "kernel reads", "bytes", person=False),
    Column("kernel_written_bytes", "kernel writes", "bytes", person=False),
    Column("is_coalesced", "coalesced", "flag", person=False),
)
_REPEATED: Final = 1.5
"""From this many reads of an operand on, they are a reason why a kernel is slow."""
_WHOLE: Final = 10
"""From this many reads on, they are shown without a fraction."""
_FULL: Final = 0.9
"""The share of busy cores from which on idle ones matter little."""


def model_cells(kernel: GpuKernel | None) -> Row:
    """The cells of a kernel for `MODEL_COLUMNS`; empty for one that XLA's model does not cover."""
    if kernel is None:
        return (None,) * len(MODEL_COLUMNS)
    time = kernel.time
    return (
        kernel.arithmetic_seconds,
        kernel.memory_seconds,
        time.emitter,
        time.blocks,
        time.threads,
        kernel.busy_cores,
        time.flops,
        time.bytes_read,
        time.bytes_written,
        time.is_coalesced,
    )


def model_numbers(found: Prediction | None, instruction: Instruction) -> Mapping[str, Cell]:
    """The account of a kernel, for programs; empty without one."""
    if found is None or found.kernel is None:
        return {}
    names = [operand.name for operand in instruction.operands]
    named = zip((column.name for column in MODEL_COLUMNS), model_cells(found.kernel), strict=True)
    return {
        "kernel": {
            "kernel_seconds": found.kernel_seconds,
            "launch_seconds": found.estimate.launch_seconds,
            "estimate_source": ", ".join(sorted(found.estimate.sources)),
            **dict(named),
            "cores": found.kernel.device.core_count,
            "operands": tuple(
                {"operand": name, "bytes": size, "read_bytes": read}
                for name, size, read in zip(names, found.kernel.operand_bytes, found.kernel.reads, strict=False)
            ),
            "slow_because": tuple(slow_reasons(found, instruction)),
        }
    }


def model_facts(found: Prediction | None, instruction: Instruction) -> Iterator[Fact]:
    """The account of a kernel in words: its parts, its launch, its accesses, and what makes it slow."""
    if found is None or found.kernel is None:
        return
    kernel = found.kernel
    time = kernel.time
    parts = f"arithmetic {format_seconds(kernel.arithmetic_seconds)}, memory {format_seconds(kernel.memory_seconds)}"
    launch = f"launch {format_seconds(found.estimate.launch_seconds)}"
    yield Fact("XLA model", remark=f"kernel {format_seconds(kernel.seconds)} ({parts}), {launch}", is_whole=True)
    cores = f"{kernel.busy_cores:,} of {format_count(kernel.device.core_count, 'cores')}"
    blocks = f"{format_count(time.blocks, 'blocks')} of {format_count(time.threads, 'threads')} on {cores}"
    yield Fact("launch", remark=f"{time.emitter} emitter, {blocks}, {count(time.flops)} cycles", is_whole=True)
    coalesced = "coalesced" if time.is_coalesced else "not coalesced"
    yield Fact(
        "accesses",
        remark=f"reads {format_bytes(time.bytes_read)}, {coalesced}; writes {format_bytes(time.bytes_written)}",
        is_whole=True,
    )
    if reasons := list(slow_reasons(found, instruction)):
        yield Fact("slow because", remark="; ".join(reasons), is_whole=True)


def slow_reasons(found: Prediction, instruction: Instruction) -> Iterator[str]:
    """What keeps a kernel below the memory bandwidth, most important first."""
    kernel = found.kernel
    if kernel is None:
        return
    time, device = kernel.time, kernel.device
    if kernel.seconds < found.estimate.launch_seconds:
        yield "the launch takes longer than the kernel"
    if kernel.is_compute_bound:
        yield "its arithmetic takes longer than its memory accesses"
    if not time.is_coalesced:
        yield f"reads are not coalesced: {device.dram_transaction_bytes} B are transferred for each element"
    if kernel.busy_cores < _FULL * device.core_count:
        yield f"too few blocks: {device.core_count - time.blocks:,} of {device.core_count:,} cores are idle"
    if kernel.bytes_per_second < device.memory_bandwidth:
        yield f"{format_count(time.blocks, 'blocks')} read at most {format_rate(kernel.bytes_per_second, 'B')}"
    extra = [read - size for read, size in zip(kernel.reads, kernel.operand_bytes, strict=True)]
    most = max(range(len(extra)), key=extra.__getitem__, default=None)
    if most is not None and most < len(instruction.operands) and kernel.operand_bytes[most]:
        times = kernel.reads[most] / kernel.operand_bytes[most]
        if times >= _REPEATED:
            number = f"{times:,.1f}" if times < _WHOLE else f"{times:,.0f}"
            yield f"{instruction.operands[most].name} is read {number} times"
