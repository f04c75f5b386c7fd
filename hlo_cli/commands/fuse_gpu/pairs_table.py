"""Tables of `hlo fuse DUMP --why-not` for GPUs: a row for each pair that is not fused, and one for each reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hlo_cli.analysis.fusion.gpu_model import KernelTime
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_seconds
from hlo_cli.report.table import UNKNOWN, Column, Row, Table

SLOWER: Final = "fusing takes longer"
"""The reason if XLA may fuse a pair, but its model predicts that this takes more time."""
ORDER: Final = "pairs on which times decided come first, by the time of the separate kernels; others by memory traffic"


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair that is not fused: why, and by XLA's model the times in seconds of the producer with all its consumers.

    `reason` is empty if it is unknown, `blocker` another consumer whose reason it is, `kernels` are the times of the
    producer, the consumer, and the kernel of both, `saving_bytes` the memory traffic that fusing would avoid.
    """

    producer: str
    consumer: str
    computation: str
    saving_bytes: int
    reason: str
    blocker: str | None = None
    fused_seconds: float | None = None
    unfused_seconds: float | None = None
    kernels: tuple[KernelTime, KernelTime, KernelTime] | None = None
    name_in_pass: str | None = None


def sorted_rows(rows: Iterable[PairRow]) -> list[PairRow]:
    """The rows with most at stake first: those of known times by the time apart, then by bytes; equal ones by name."""
    return sorted(rows, key=lambda row: (-(row.unfused_seconds or 0), -row.saving_bytes, row.producer, row.consumer))


def pairs_table(rows: Sequence[PairRow], *, is_shown: bool = True) -> Table:
    """One row for each pair."""
    has_times = any(row.fused_seconds is not None for row in rows)
    has_reasons = any(row.reason for row in rows)
    is_blocked = any(row.blocker not in (None, row.consumer) for row in rows)
    is_renamed = any(row.name_in_pass not in (None, row.producer) for row in rows)
    columns = (
        Column("possible_saving_bytes", "saving", "bytes", role="saving"),
        Column("unfused_seconds", "separate", "seconds", person=False),
        Column("fused_seconds", "fused", "seconds", person=False),
        Column("unfused_time", "separate", align="right", person=has_times, machine=False),
        Column("fused_time", "fused", align="right", person=has_times, machine=False),
        Column("producer", "producer", "name", role="name"),
        Column("consumer", "consumer", "name", role="name"),
        Column("reason", "XLA's reason", person=has_reasons),
        Column("because_of", "because of", "name", person=is_blocked),
        Column("name_in_pass", "in the pass", "name", from_width=120, person=is_renamed),
        Column("computation", "computation", "name", from_width=120, rank=1),
        Column("emitter", "emitter", from_width=200),
        Column("blocks", "blocks", "count", from_width=200),
        Column("threads", "threads", "count", person=False),
        Column("cycles", "cycles", "count", from_width=200),
        Column("read_bytes", "read", "bytes", from_width=200),
        Column("written_bytes", "written", "bytes", person=False),
        Column("is_coalesced", "coalesced", "flag", from_width=200),
        Column("pair_seconds", "kernel time", "seconds", person=False),
        Column("producer_seconds", "producer time", "seconds", person=False),
        Column("consumer_seconds", "consumer time", "seconds", person=False),
    )
    return Table("pairs", columns, tuple(map(_row, rows)), noun="pairs", person=is_shown, sorted_by="unfused_time")


def _row(row: PairRow) -> Row:
    parts: Row = (None,) * 10
    if row.kernels is not None:
        one, other, both = row.kernels
        times = tuple(seconds(each.ticks) for each in (both, one, other))
        parts = (both.emitter, both.blocks, both.threads, both.flops, both.bytes_read, both.bytes_written)
        parts = (*parts, both.is_coalesced, *times)
    fused, unfused = row.fused_seconds, row.unfused_seconds
    return (
        row.saving_bytes,
        unfused,
        fused,
        None if unfused is None else format_seconds(unfused),
        None if fused is None else format_seconds(fused),
        row.producer,
        row.consumer,
        row.reason or UNKNOWN,
        row.blocker,
        row.name_in_pass,
        row.computation,
        *parts,
    )


def reasons_table(rows: Sequence[PairRow]) -> Table:
    """Each reason in full, with the number of its pairs and the largest saving."""
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(row.reason, []).append(row.saving_bytes)
    columns = (
        Column("pairs", "pairs", "count"),
        Column("largest_saving_bytes", "largest", "bytes"),
        Column("reason", "XLA's reason"),
    )
    ordered = sorted(groups.items(), key=lambda group: (-max(group[1]), group[0]))
    made = tuple((len(sizes), max(sizes), reason) for reason, sizes in ordered)
    return Table("reasons", columns, made, noun="reasons", main=False, limit=10)


def seconds(ticks: int) -> float:
    """Seconds of a time in ticks of the model, a quarter nanosecond each.

    >>> seconds(4000)
    1e-06
    """
    return ticks / TICKS_PER_SECOND
