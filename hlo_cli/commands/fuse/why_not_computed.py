"""`hlo fuse DUMP --why-not --chip GPU`: reasons and times of XLA:GPU's priority fusion, computed for a chip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hlo_cli.analysis.gpu_fusion.durations import TICKS_PER_SECOND
from hlo_cli.analysis.gpu_fusion.model import KernelTime
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.commands.fuse.why_not import is_selected, no_pair
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.commands.shared.where import rows_where
from hlo_cli.ir.compiler_files.fusion_process import FusionProcess
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.cell import Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic
from hlo_cli.transform.gpu_fuse import GpuDecision, gpu_decisions

_SLOWER = "fusing takes longer"
_EQUAL = "XLA would fuse these now"
_MICRO = 1e-6
_COLUMNS = (
    Column("possible_saving_bytes", "saving", "bytes", role="saving"),
    Column("unfused_seconds", "separate", "seconds"),
    Column("fused_seconds", "fused", "seconds"),
    Column("producer", "producer", "name", role="name"),
    Column("consumer", "consumer", "name", role="name"),
    Column("reason", "XLA's reason"),
    Column("because_of", "because of", "name", from_width=120),
    Column("computation", "computation", "name", from_width=120),
    Column("pair_seconds", "pair", "seconds", from_width=200),
    Column("emitter", "emitter", from_width=200),
    Column("blocks", "blocks", "count", from_width=200),
    Column("threads", "threads", "count", person=False),
    Column("cycles", "cycles", "count", from_width=200),
    Column("read_bytes", "read", "bytes", from_width=200),
    Column("written_bytes", "written", "bytes", person=False),
    Column("is_coalesced", "coalesced", "flag", from_width=200),
    Column("producer_seconds", "producer time", "seconds", person=False),
    Column("consumer_seconds", "consumer time", "seconds", person=False),
)


def report_of_computed_why_not(
    loaded: Loaded,
    chip: str,
    *,
    names: Sequence[str] = (),
    within: Computation | None,
    where: str | None,
) -> Report:
    """One row for each pair, those with most traffic between them first."""
    decisions = [
        each
        for each in gpu_decisions(loaded.module, chip)
        if (within is None or each.consumer.computation is within) and is_selected(names, *each.names)
    ]
    everything = Table("pairs", _COLUMNS, tuple(map(_row, decisions)), noun="pairs")
    table = everything if where is None else rows_where(where, everything)
    nothing = f"No matches among {format_count(len(everything.rows), 'pairs')}." if everything.rows else "No pairs."
    return Report(
        "fuse",
        _answer(decisions, chip) if decisions or not names else no_pair(names),
        numbers={"pairs": len(decisions), "decided_by": chip, "decided_pairs": len(decisions)},
        parts=(table,) if table.rows else (Passage("nothing", (nothing,)), table),
        notes=(*_notes(loaded, chip), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def reason_of(decision: GpuDecision) -> str:
    """The reason in XLA's words, or the comparison of the times."""
    if decision.reason is not None:
        return decision.reason
    assert decision.us_fused is not None
    assert decision.us_unfused is not None
    return _SLOWER if decision.us_fused > decision.us_unfused else _EQUAL


def is_dump_of(process: FusionProcess, chip: str) -> bool:
    """Whether XLA wrote its decisions while it compiled for this chip, by the bandwidth of its memory."""
    return process.memory_bandwidth == gpu_device(chip).memory_bandwidth


def _row(decision: GpuDecision) -> Row:
    apart = None if decision.us_unfused is None else decision.us_unfused * _MICRO
    fused = None if decision.us_fused is None else decision.us_fused * _MICRO
    kernels: tuple[KernelTime | None, ...] = decision.kernels or (None, None, None)
    one, other, pair = kernels
    parts: tuple[Cell, ...] = (None,) * 8
    if pair is not None:
        parts = (
            _seconds(pair),
            pair.emitter,
            pair.blocks,
            pair.threads,
            pair.flops,
            pair.bytes_read,
            pair.bytes_written,
            pair.is_coalesced,
        )
    return (
        decision.saved_bytes,
        apart,
        fused,
        *decision.names,
        reason_of(decision),
        decision.blocker,
        decision.consumer.computation.name,
        *parts,
        None if one is None else _seconds(one),
        None if other is None else _seconds(other),
    )


def _seconds(kernel: KernelTime) -> float:
    return kernel.ticks / TICKS_PER_SECOND


def _answer(decisions: Sequence[GpuDecision], chip: str) -> str:
    if not decisions:
        return "No kernel reads the result of another kernel"
    verb = "is" if len(decisions) == 1 else "are"
    words = f"{format_count(len(decisions), 'producer–consumer pairs')} {verb} not fused on {chip}"
    (reason, number), *_ = Counter(map(reason_of, decisions)).most_common(1)
    largest = max(each.saved_bytes for each in decisions)
    return f"{words}. Most common reason: {reason} ({number:,}). Largest traffic: {format_bytes(largest)}"


def _notes(loaded: Loaded, chip: str) -> tuple[Diagnostic, ...]:
    state = "as it is" if loaded.module.is_scheduled else "after priority fusion"
    return (
        Diagnostic(
            "note", f"reasons and times are computed as XLA of jaxlib 0.10.2 does for {chip}, of the module {state}"
        ),
        Diagnostic(
            "note",
            "XLA fuses a producer into all of its consumers or into none: a reason can be that of another consumer, "
            "and times include all of them",
        ),
    )
