"""`hlo fuse DUMP PRODUCER,CONSUMER --why-not` for a GPU: one decision in full, with the kernels that it compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelParts
from hlo_cli.commands.fuse_gpu.decision_words import deciding_words
from hlo_cli.commands.fuse_gpu.pairs_table import SLOWER, seconds
from hlo_cli.report.numbers import format_seconds
from hlo_cli.report.report import Part
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.report.text import Passage
from hlo_cli.transform.fusion.gpu_decisions import GpuPair

_ROLES: Final = ("producer", "consumer", "fused")


def chosen_pair(pairs: Sequence[GpuPair], name: str) -> GpuPair:
    """The pair that stands for the decision on an instruction: as a producer, with the consumer that decides.

    Instructions that are only consumers have that with the largest times.
    """
    own = [pair for pair in pairs if pair.producer == name] or list(pairs)
    blocked = next((pair for pair in own if pair.reason is not None and pair.blocker is None), None)
    if blocked is not None and own[0].producer == name:
        return blocked
    return max(own, key=_extra)


def _extra(pair: GpuPair) -> int:
    user = next((user for user in pair.users if user.name == pair.consumer), None)
    return 0 if user is None else (user.fused_ticks or 0) - (user.alone_ticks or 0)


def decision_answer(pair: GpuPair, chip: str) -> str:
    """The decision in one sentence, with its reason or its times."""
    if pair.emitted_in is not None:
        return f"Both are in one kernel on {chip}, {pair.emitted_in}, through other instructions"
    into = f"{pair.producer} is{'' if pair.is_fused else ' not'} fused into {pair.consumer} on {chip}"
    if pair.reason is not None:
        return f"{into}: {pair.reason}"
    if pair.fused_ticks is None or pair.unfused_ticks is None:
        return into
    instead = f"{_shown(pair.fused_ticks)} instead of {_shown(pair.unfused_ticks)}"
    if pair.is_fused:
        return f"{into}: {instead}"
    if pair.fused_ticks <= pair.unfused_ticks:
        return f"{into}, although fusing would take less time now: {instead}"
    return f"{into}: {SLOWER}, {instead}"


def decision_numbers(pair: GpuPair, chip: str) -> dict[str, Cell]:
    """The decision for programs; times are in seconds."""
    fused, unfused = pair.fused_ticks, pair.unfused_ticks
    return {
        "producer": pair.producer,
        "consumer": pair.consumer,
        "is_fused": pair.is_fused,
        "reason": pair.reason,
        "because_of": pair.blocker,
        "unfused_seconds": None if unfused is None else seconds(unfused),
        "fused_seconds": None if fused is None else seconds(fused),
        "saved_seconds": None if fused is None or unfused is None else seconds(unfused - fused),
        "deciding": deciding_words(pair, chip) or None,
    }


def decision_parts(pair: GpuPair, chip: str) -> Iterator[Part]:
    """What decided, the sums of times, the kernels side by side, their operands, and all consumers."""
    if words := deciding_words(pair, chip):
        yield Passage("deciding", (words,))
    if pair.fused_ticks is not None and pair.unfused_ticks is not None and pair.users:
        yield _times_table(pair, pair.fused_ticks, pair.unfused_ticks)
    if any(pair.kernels):
        yield _kernels_table(pair)
        yield _launches_table(pair)
        yield _reads_table(pair)
    if len(pair.users) > 1:
        yield _users_table(pair)


def _times_table(pair: GpuPair, fused: int, unfused: int) -> Table:
    """How the two times come about: launches, the producer, and all consumers."""
    users = len(pair.users)
    columns = (
        Column("choice", ""),
        Column("launches", "launches", "count"),
        Column("launch_seconds", "launch", "seconds"),
        Column("producer_seconds", "producer", "seconds", like="launch_seconds"),
        Column("consumer_seconds", "consumers" if users > 1 else "consumer", "seconds", like="launch_seconds"),
        Column("total_seconds", "total", "seconds", like="launch_seconds"),
    )
    consumers = sum(user.alone_ticks or 0 for user in pair.users)
    producer = unfused - consumers - LAUNCH * (users + 1)
    apart = ("separate", users + 1, seconds(LAUNCH * (users + 1)), seconds(producer), seconds(consumers))
    together = ("fused", users, seconds(LAUNCH * users), None, seconds(fused - LAUNCH * users))
    rows: tuple[Row, ...] = ((*apart, seconds(unfused)), (*together, seconds(fused)))
    marked = frozenset((1 if fused <= unfused else 0,))
    return Table("times", columns, rows, noun="rows", main=False, marked=marked)


def _kernels_of(pair: GpuPair) -> Iterator[tuple[str, str, KernelParts]]:
    names = (pair.producer, pair.consumer, f"{pair.producer} in {pair.consumer}")
    for role, name, parts in zip(_ROLES, names, pair.kernels, strict=True):
        if parts is not None:
            yield role, name, parts


def _kernels_table(pair: GpuPair) -> Table:
    columns = (
        Column("kernel", "kernel"),
        Column("name", "name", "name", role="name", from_width=120),
        Column("read_bytes", "read", "bytes"),
        Column("written_bytes", "written", "bytes", like="read_bytes"),
        Column("cycles", "cycles", "count"),
        Column("memory_seconds", "memory", "seconds"),
        Column("compute_seconds", "compute", "seconds", like="memory_seconds"),
        Column("kernel_seconds", "time", "seconds", like="memory_seconds"),
    )
    rows = tuple(
        (
            role,
            name,
            parts.time.bytes_read,
            parts.time.bytes_written,
            parts.time.flops,
            seconds(parts.memory_ticks),
            seconds(parts.compute_ticks),
            seconds(parts.time.ticks),
        )
        for role, name, parts in _kernels_of(pair)
    )
    return Table("fused_kernels", columns, rows, noun="kernels", main=False)


def _launches_table(pair: GpuPair) -> Table:
    columns = (
        Column("kernel", "kernel"),
        Column("emitter", "emitter"),
        Column("blocks", "blocks", "count"),
        Column("threads", "threads", "count"),
        Column("is_coalesced", "coalesced", "flag"),
    )
    rows = tuple(
        (role, parts.time.emitter, parts.time.blocks, parts.time.threads, parts.time.is_coalesced)
        for role, _, parts in _kernels_of(pair)
    )
    return Table("launches", columns, rows, noun="kernels", main=False)


def _reads_table(pair: GpuPair) -> Table:
    """The operands of the kernels, with what each reads of them."""
    columns = (
        Column("operand", "operand", "name", role="name"),
        Column("size_bytes", "size", "bytes"),
        Column("producer_bytes", "producer", "bytes", like="size_bytes"),
        Column("consumer_bytes", "consumer", "bytes", like="size_bytes"),
        Column("fused_bytes", "fused", "bytes", like="size_bytes"),
        Column("repeats", "repeats", "ratio"),
        Column("fused_seconds", "time", "seconds"),
    )
    reads = [{read.operand: read for read in parts.reads} if parts is not None else {} for parts in pair.kernels]
    one, other, both = reads
    sizes = {name: read for each in reads for name, read in each.items()}
    rows: list[Row] = []
    for name, read in sizes.items():
        by = [each[name].bytes_read if name in each else None for each in (one, other, both)]
        repeats = by[2] / read.size_bytes if by[2] is not None and read.size_bytes else None
        rows.append((name, read.size_bytes, *by, repeats, seconds(both[name].ticks) if name in both else None))
    rows.sort(key=lambda row: (-_number(row[-1]), -_number(row[1]), str(row[0])))
    return Table("reads", columns, tuple(rows), noun="operands", title="reads", main=False, limit=8)


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else -1.0


def _users_table(pair: GpuPair) -> Table:
    columns = (
        Column("consumer", "consumer", "name", role="name"),
        Column("separate_seconds", "separate", "seconds"),
        Column("fused_seconds", "fused", "seconds", like="separate_seconds"),
        Column("reason", "reason"),
    )
    rows = tuple(
        (
            user.name,
            None if user.alone_ticks is None else seconds(user.alone_ticks),
            None if user.fused_ticks is None else seconds(user.fused_ticks),
            user.reason,
        )
        for user in pair.users
    )
    return Table("consumers", columns, rows, noun="consumers", title="all consumers", main=False, limit=8)


def _shown(ticks: int) -> str:
    return format_seconds(seconds(ticks))
