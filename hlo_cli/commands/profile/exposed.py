"""`hlo profile TRACE --exposed`: the time of transfers that other operations overlap, and the time that they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.profile.operation_times import TransferTime, transfer_times
from hlo_cli.commands.profile.operations import source_of
from hlo_cli.commands.profile.words import facts_of, numbers_of
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Share, Table
from hlo_cli.report.text import Passage

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed
    from hlo_cli.ir.instruction import Instruction

_HOW = {
    "TPU": "A transfer lasts from the begin of its start to the end of its done; exposed is the time of these two.",
    "GPU": "Exposed is the time of a transfer in which no other stream of the device ran a kernel.",
    "CPU": "Collectives are synchronous on CPUs: all of their time is exposed, once where several run "
    "at the same time. Wait time is the part in which a device is idle until the others arrive.",
}


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A transfer with its operation and, if it is one, its collective."""

    timed: Timed
    done: str | None
    time: TransferTime
    collective: Collective | None

    @property
    def wire_rate(self) -> float | None:
        """Bytes per second that a device sends during the transfer; None if they are unknown."""
        sent = None if self.collective is None else self.collective.wire_bytes
        return None if sent is None or not self.time.window else float(sent) * self.time.calls / self.time.window


def report_of_exposed(measured: Measured) -> Report:
    """One row for each instruction that transfers, those with the longest exposed time first."""
    found = sorted(_transfers(measured), key=lambda each: (-each.time.exposed, each.timed.operation.name))
    window, exposed = (sum(getattr(each.time, name) for each in found) for name in ("window", "exposed"))
    table = _table(measured, found)
    how = Passage("remarks", (_HOW[measured.profile.platform],))
    return Report(
        "profile",
        _answer(measured, found, window, exposed),
        version=1,
        numbers={
            **numbers_of(measured),
            "transfers": len(found),
            "transfer_seconds": window,
            "exposed_seconds": exposed,
            "overlapped_seconds": window - exposed,
            "waiting_seconds": sum(each.time.waiting for each in found),
        },
        parts=(facts_of(measured), table, how) if found else (facts_of(measured), table),
        next=_next(measured, found),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _transfers(measured: Measured) -> Sequence[_Transfer]:
    operations = measured.profile.operations
    selected = {each.operation: each for each in measured.selected}
    times = [each for each in transfer_times(measured.profile) if operations[each.operation] in selected]
    collectives = _collectives(measured) if times else {}
    found = []
    for each in times:
        operation, done = operations[each.operation], operations[each.done]
        collective = None if operation.instruction is None else collectives.get(operation.instruction)
        found.append(_Transfer(selected[operation], done.name if done is not operation else None, each, collective))
    return found


def _collectives(measured: Measured) -> Mapping[Instruction, Collective]:
    from hlo_cli.analysis.sharding.collectives import collectives_of

    modules = [program.module for program in measured.profile.programs if program.module is not None]
    listed = [each for module in modules for each in collectives_of(module)]
    return {**{each.caller: each for each in listed}, **{each.instruction: each for each in listed}}


def _table(measured: Measured, found: Sequence[_Transfer]) -> Table:
    is_many = len(measured.profile.devices) > 1
    group = f"per {measured.device_noun}" if is_many else ""
    has_overlap = any(each.time.hidden for each in found)
    columns = (
        Column("exposed_seconds", "exposed", "seconds", total="sum", group=group, role="waste"),
        Column("waiting_seconds", "wait time", "seconds", total="sum", group=group, person=_has_waits(found)),
        Column("overlapped_seconds", "overlapped", "seconds", total="sum", group=group, person=has_overlap),
        Column("window_seconds", "all", "seconds", total="sum", group=group, person=has_overlap),
        Column(
            "exposed_share",
            "exposed",
            "percent",
            total=Share("exposed_seconds", "window_seconds"),
            rank=7,
            person=measured.profile.platform != "CPU",
        ),
        Column("calls", "calls", "count", total="sum", rank=5),
        Column("wire_rate", "sent", "byte/second", rank=6, person=any(each.wire_rate for each in found)),
        Column("axis", "axis", rank=6, person=any(each.collective is not None for each in found)),
        Column("instruction", "instruction", "name"),
        Column("done", "done", "name", from_width=120),
        Column("category", "category", from_width=200),
        Column("source", "source", "source", rank=4),
    )
    rows = tuple(
        (
            measured.per_device(each.time.exposed),
            measured.per_device(each.time.waiting) if measured.profile.platform == "CPU" else None,
            measured.per_device(each.time.hidden),
            measured.per_device(each.time.window),
            each.time.exposed / each.time.window if each.time.window else None,
            each.time.calls,
            each.wire_rate,
            None if each.collective is None else each.collective.axis or "(no axes)",
            each.timed.operation.name,
            each.done,
            each.timed.operation.category or None,
            source_of(each.timed),
        )
        for each in found
    )
    return Table("transfers", columns, rows, noun="transfers")


def _has_waits(found: Sequence[_Transfer]) -> bool:
    return any(each.time.waiting for each in found)


def _answer(measured: Measured, found: Sequence[_Transfer], window: float, exposed: float) -> str:
    if not found:
        return f"No transfers among {format_count(len(measured.selected), 'operations')}"
    part = format_percent(exposed / measured.whole) if measured.whole else "0"
    words = f"Exposed transfers take {format_seconds(measured.per_device(exposed))}, {part}% of {measured.whole_words}"
    if measured.profile.platform == "CPU":
        waiting = sum(each.time.waiting for each in found)
        return f"{words}; {format_percent(waiting / exposed) if exposed else 0}% of that is wait time"
    return f"{words}; {format_percent(1 - exposed / window) if window else 0}% of their time is overlapped"


def _next(measured: Measured, found: Sequence[_Transfer]) -> tuple[str, ...]:
    if not measured.command or not found:
        return ()
    return f"{measured.command} --by axis", f"{measured.command} {found[0].timed.operation.name}"
