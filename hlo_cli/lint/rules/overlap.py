"""HLO4xx: transfers that are waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.schedule.async_overlap import AsyncInterval
from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.operations import BLOCK_MOVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.concurrency import independent_kernels
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_AHEAD: Final = "cross_program_prefetch_index"
"""The attribute of a copy that is made once and kept for the next execution."""


@rule("HLO401", "asynchronous operation overlaps nothing", severity="warning")
def exposed(context: LintContext) -> Iterator[Finding]:
    """No kernel runs between a start and its done, though other instructions may stand there.

    From transfer_bytes on, and within a device, which is quicker, from prefetch_bytes on.

    Why: asynchronous operations hide time behind work. This one is waited for in full, as the order of the schedule
    has it or as the compiler noted (is_sync). The hint counts the kernels beside it that neither need its result nor
    make what it is given: so much work could be put between.

    Example:
        s = f32[65536] all-reduce-start(x), replica_groups={}, to_apply=add
        p = (f32[65536]) tuple(z)
        d = f32[65536] all-reduce-done(s)

    Mend: hlo schedule DUMP --reorder latency shows what another order would hide. A scheduler that knows latencies is
    switched on by xla_gpu_enable_latency_hiding_scheduler, or xla_tpu_enable_latency_hiding_scheduler.

    Reference: https://openxla.org/xla/async_ops; hlo schedule DUMP
    """
    for flight, work in _exposed(context):
        if flight.done_step != flight.start_step + 1:
            start = flight.pair.start
            why = "is waited for at once" if flight.is_sync else "overlaps no kernel"
            message = f"{start.name} {why}: {flight.pair.operation} of {_bytes(flight)}"
            yield context.finding(message, start, hint=_beside(work))


@rule("HLO402", "done stands next to its start", severity="warning")
def adjacent(context: LintContext) -> Iterator[Finding]:
    """An asynchronous operation is waited for by the very next instruction.

    From transfer_bytes on, and within a device, which is quicker, from prefetch_bytes on.

    Why: nothing at all can run meanwhile; it might as well not be asynchronous. The hint counts the kernels beside it
    that could stand between.

    Example:
        s = f32[65536] all-reduce-start(x), replica_groups={}, to_apply=add
        d = f32[65536] all-reduce-done(s)

    Mend: hlo schedule DUMP --reorder latency shows what another order would hide. Where no kernel could stand between,
    split what is waited for into parts, so that one is under way while another is worked on.

    Reference: https://openxla.org/xla/async_ops; hlo schedule DUMP
    """
    for flight, work in _exposed(context):
        if flight.done_step == flight.start_step + 1:
            start = flight.pair.start
            yield context.finding(
                f"{start.name} is followed by its done: {flight.pair.operation} of {_bytes(flight)}",
                start,
                hint=_beside(work),
            )


@rule("HLO403", "collective is not asynchronous", severity="note")
def blocking(context: LintContext) -> Iterator[Finding]:
    """A collective operation of a program for TPU or GPU has no start and done, though there are kernels beside it.

    Why: nothing else runs on the device until it is through. The hint counts the kernels that neither need its result
    nor make what it is given, so that they could run meanwhile. Told from transfer_bytes on.

    Example:
        y = f32[65536] all-reduce(x), replica_groups={}, to_apply=add
        z = f32[65536] negate(x)

    Mend: the compiler makes it asynchronous where it is asked to: by default on GPUs, by
    xla_tpu_enable_async_collective_fusion and its like on TPUs.

    Reference: https://openxla.org/xla/async_ops; hlo schedule DUMP
    """
    if context.target not in ("tpu", "gpu") or not context.module.is_scheduled:
        return
    collectives = context.analyses.overlap.synchronous
    large = {each: moved for each, moved in collectives.items() if moved >= context.settings.transfer_bytes}
    beside = independent_kernels([(each, each) for each in large])
    for collective, moved in large.items():
        if work := beside[collective, collective]:
            yield context.finding(
                f"{collective.name} blocks the device: {collective.opcode} of {format_bytes(moved)}",
                collective,
                hint=_beside(work),
            )


def _exposed(context: LintContext) -> Iterator[tuple[AsyncInterval, int]]:
    """Exposed pairs that move enough bytes in all their runs, and the number of kernels that could overlap each."""
    flights = context.analyses.overlap.intervals if context.module.is_scheduled else ()
    large = (flight for flight in flights if flight.is_exposed and flight.total_bytes >= _least(context, flight.pair))
    exposed = [flight for flight in large if flight.pair.start.attribute(_AHEAD) is None]
    ends = [(flight.pair.start, flight.pair.dones[0]) for flight in exposed]
    beside = independent_kernels(ends)
    yield from ((flight, beside[pair]) for flight, pair in zip(exposed, ends, strict=True))


def _least(context: LintContext, pair: AsyncPair) -> int:
    """The smallest transfer to report, in bytes: larger within a device, where transfers are faster."""
    settings = context.settings
    leaves = (leaf for _, leaf in pair.start.shape.leaves if isinstance(leaf, ArrayShape))
    is_near = pair.operation in BLOCK_MOVES and not any(leaf.memory_space == MemorySpace.HOST for leaf in leaves)
    return max(settings.transfer_bytes, settings.prefetch_bytes) if is_near else settings.transfer_bytes


def _bytes(flight: AsyncInterval) -> str:
    times = f" in {flight.times:,} rounds" if flight.times not in (1, None) else ""
    return f"{format_bytes(flight.total_bytes)}{times}"


def _beside(work: int) -> str:
    if not work:
        return "no kernel beside it is independent of it: split it into parts"
    return f"{work:,} {'kernels' if work > 1 else 'kernel'} beside it {'do' if work > 1 else 'does'} not depend on it"
