"""`hlo fuse DUMP --why-not --chip GPU`: reasons and times of XLA:GPU's priority fusion, computed for a chip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.commands.fuse_gpu.chips import state_notes
from hlo_cli.commands.fuse_gpu.pair_names import ALL_CONSUMERS, next_pair
from hlo_cli.commands.fuse_gpu.pairs_table import SLOWER, PairRow, pairs_table, reasons_table, sorted_rows
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic
from hlo_cli.transform.fusion.gpu_fusion import GpuDecision, gpu_decisions

FASTER: Final = "fusing would take less time now"
"""The reason if nothing prevents a fusion: the module was different during the pass, or XLA kept an older estimate."""
_MICRO: Final = 1e-6


def report_of_computed_why_not(
    loaded: Loaded, chip: str, *, within: Computation | None, where: str | None, argument: str
) -> Report:
    """One row for each pair, those with most at stake first."""
    rows = sorted_rows(
        row_of(each)
        for each in gpu_decisions(loaded.module, chip)
        if within is None or each.consumer.computation is within
    )
    everything = pairs_table(rows)
    table = everything if where is None else rows_where(where, everything)
    nothing = f"No matches among {format_count(len(everything.rows), 'pairs')}." if everything.rows else "No pairs."
    reasons = (reasons_table(rows),) if len(rows) > 1 else ()
    return Report(
        "fuse",
        _answer(rows, chip, is_scheduled=loaded.module.is_scheduled),
        numbers={"pairs": len(rows), "decided_by": chip, "decided_pairs": len(rows)},
        parts=(*reasons, *((table,) if table.rows else (Passage("nothing", (nothing,)), table))),
        next=next_pair(argument, rows, f" --chip {chip}"),
        notes=(*(Diagnostic("note", words) for words in computed_notes(loaded, chip)), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def row_of(decision: GpuDecision) -> PairRow:
    """The row of a decision: the reason in XLA's words, or the comparison of the times."""
    reason = decision.reason
    if reason is None:
        assert decision.us_fused is not None
        assert decision.us_unfused is not None
        reason = SLOWER if decision.us_fused > decision.us_unfused else FASTER
    return PairRow(
        *decision.names,
        decision.consumer.computation.name,
        decision.saved_bytes,
        reason,
        decision.blocker,
        None if decision.us_fused is None else decision.us_fused * _MICRO,
        None if decision.us_unfused is None else decision.us_unfused * _MICRO,
        decision.kernels,
    )


def _answer(rows: Sequence[PairRow], chip: str, *, is_scheduled: bool) -> str:
    if not rows:
        return "No kernel reads the result of another kernel"
    verb = "is" if len(rows) == 1 else "are"
    words = f"{format_count(len(rows), 'producer–consumer pairs')} {verb} not fused on {chip}" + (
        "" if is_scheduled else " by priority fusion"
    )
    (reason, number), *_ = Counter(row.reason for row in rows).most_common(1)
    largest = max(row.saving_bytes for row in rows)
    return f"{words}. Most common reason: {reason} ({number:,}). Largest possible saving: {format_bytes(largest)}"


def computed_notes(loaded: Loaded, chip: str) -> Iterator[str]:
    """Notes on whose reasons and times these are, and of which module."""
    state = "as it is" if loaded.module.is_scheduled else "after priority fusion"
    yield f"reasons and times are computed as XLA of jaxlib 0.10.2 does for {chip}, of the module {state}"
    yield ALL_CONSUMERS
    yield from state_notes(loaded, chip)
