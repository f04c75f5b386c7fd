"""One sentence on what decided about a pair: repeated reads, recomputation, another launch, or a rule."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.gpu_model import KernelParts, OperandRead
from hlo_cli.analysis.fusion.gpu_rules import meaning_of
from hlo_cli.analysis.hardware.chip_specs import gpu_device
from hlo_cli.commands.fuse_gpu.pairs_table import seconds
from hlo_cli.report.numbers import format_bytes, format_count, format_number, format_seconds
from hlo_cli.transform.fusion.gpu_decisions import GpuPair, UserTimes

_FEW: Final = 1.05
"""Reading or computing an array at most so many times is not called repeated."""


def deciding_words(pair: GpuPair, chip: str) -> str:
    """What decided on a pair; empty if no part of it is known."""
    if pair.reason is not None:
        meaning = meaning_of(pair.reason)
        whose = f", which also reads {pair.producer}" if pair.blocker is not None else ""
        about = f"The reason is that of {pair.blocker}{whose}. " if pair.blocker is not None else ""
        return about + (f"{meaning[0].upper()}{meaning[1:]}." if meaning else "")
    if pair.fused_ticks is None or pair.unfused_ticks is None or not pair.users:
        return ""
    if pair.fused_ticks <= pair.unfused_ticks:
        return _saved(pair)
    worst = max(pair.users, key=_more)
    if worst.name != pair.consumer and len(pair.users) > 1:
        more = format_seconds(seconds(_more(worst)))
        return f"XLA decides on all {len(pair.users)} consumers at once: {worst.name} would take {more} longer."
    return _slower(pair, gpu_device(chip).core_count)


def _more(user: UserTimes) -> int:
    return (user.fused_ticks or 0) - (user.alone_ticks or 0)


def _saved(pair: GpuPair) -> str:
    one, other, both = pair.kernels
    if one is None or other is None or both is None:
        return ""
    words = "One kernel less saves its launch (1 µs)"
    if len(pair.users) > 1:
        return f"{words}, and {format_count(len(pair.users), 'consumers')} compute {pair.producer} themselves."
    traffic = sum(_traffic(each) for each in (one, other)) - _traffic(both)
    if traffic > 0:
        return f"{words} and {format_bytes(traffic)} of memory traffic."
    return (
        f"{words}, which is more than the {format_bytes(-traffic)} that are read again cost."
        if traffic
        else words + "."
    )


def _slower(pair: GpuPair, cores: int) -> str:
    """The part of the fused kernel that takes most time beyond that of the two."""
    one, other, both = pair.kernels
    if one is None or other is None or both is None:
        return ""
    compute = both.compute_ticks - one.compute_ticks - other.compute_ticks
    memory = both.memory_ticks - one.memory_ticks - other.memory_ticks
    if compute >= memory:
        return _slower_compute(pair, one, other, both, cores)
    return _slower_memory(one, other, both, cores)


def _slower_compute(pair: GpuPair, one: KernelParts, other: KernelParts, both: KernelParts, cores: int) -> str:
    before, after = one.compute_ticks + other.compute_ticks, both.compute_ticks
    instead = f"computing takes {format_seconds(seconds(after))} instead of {format_seconds(seconds(before))}"
    if pair.uses > _FEW and one.time.flops:
        cycles = f"{both.time.flops:,} cycles instead of {one.time.flops + other.time.flops:,}"
        return f"Fusing would compute {pair.producer} {times(pair.uses)} ({cycles}): {instead}."
    return f"The fused kernel has {_launch(both, cores)}, the producer {_launch(one, cores)}: {instead}."


def _slower_memory(one: KernelParts, other: KernelParts, both: KernelParts, cores: int) -> str:
    before = {read.operand: read for read in one.reads}
    beside = {read.operand: read for read in other.reads}
    nothing = OperandRead("", 0, 1, 0)

    def ticks_before(read: OperandRead) -> int:
        return before.get(read.operand, nothing).ticks + beside.get(read.operand, nothing).ticks

    worst = max(both.reads, key=lambda read: read.ticks - ticks_before(read), default=nothing)
    old, new = format_seconds(seconds(ticks_before(worst))), format_seconds(seconds(worst.ticks))
    instead = f"reading it takes {new} instead of {old}"
    known = [reads[worst.operand].bytes_read for reads in (before, beside) if worst.operand in reads]
    if worst.size_bytes and worst.bytes_read > _FEW * max(known, default=0):
        return f"Fusing would read {worst.operand} {times(worst.bytes_read / worst.size_bytes)}: {instead}."
    if not both.time.is_coalesced and one.time.is_coalesced:
        return f"Reads of the fused kernel are not coalesced, such as of {worst.operand}: {instead}."
    return f"The fused kernel has {_launch(both, cores)}, too few to read {worst.operand} at full bandwidth: {instead}."


def times(number: float) -> str:
    """How often something is done, in words.

    >>> times(64.0), times(1.25), times(1)
    ('64 times', '1.25 times', 'once')
    """
    return "once" if number == 1 else f"{number:,.0f} times" if number >= 10 else f"{format_number(number)} times"


def _launch(parts: KernelParts, cores: int) -> str:
    words = f"{format_count(parts.time.blocks, 'blocks')} of {parts.time.threads:,} threads"
    return f"{words} for {cores} cores" if parts.time.blocks < cores else words


def _traffic(parts: KernelParts) -> int:
    return parts.time.bytes_read + parts.time.bytes_written
