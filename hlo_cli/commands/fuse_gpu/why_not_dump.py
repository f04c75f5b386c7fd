"""`hlo fuse DUMP --why-not` of a GPU module: XLA's own reasons, from what its priority fusion wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.commands.fuse_gpu.chips import gpu_of_dump
from hlo_cli.commands.fuse_gpu.dump_decisions import COPIED, NOT_SEEN, Decisions, decisions_of
from hlo_cli.commands.fuse_gpu.fusion_dump import FLAGS, FusionDump
from hlo_cli.commands.fuse_gpu.pair_names import ALL_CONSUMERS, next_pair, no_pair
from hlo_cli.commands.fuse_gpu.pairs_table import (
    PairRow,
    pairs_table,
    reasons_table,
    seconds,
)
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.ir.compiler_messages import FusionProcess
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.fusion.gpu_decisions import kernels_of_dump

_UNKNOWN: Final = "unknown"
_ROUNDING: Final = 2e-9
"""Seconds by which sums of times that XLA printed differ from times in whole ticks."""
_EARLIER: Final = "The module is from before fusion; the dump has no decision on a pair of its instructions"
_NAME_A_GPU: Final = "To compute the pairs of kernels that XLA leaves apart, name the GPU with --chip."


def report_of_dumped_why_not(
    loaded: Loaded,
    dump: FusionDump | None,
    *,
    names: Sequence[str] = (),
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """One row for each pair, those with most at stake first; without a dump, all reasons are unknown.

    `names` limit the rows to one instruction or one pair; they can be names from before the pass.
    """
    found = decisions_of(loaded, dump, names=names, within=within)
    if dump is not None:
        found = replace(found, rows=with_kernels(found, dump, gpu_of_dump(loaded, dump.process)))
    rows, chosen = found.rows, found.kernels
    is_earlier = dump is not None and found.fused > 0 and not loaded.module.is_scheduled and not (rows or chosen)
    everything = pairs_table(rows)
    table = everything if where is None else rows_where(where, everything)
    parts: list[Part] = (
        [table]
        if table.rows
        else [Passage("nothing", (_NAME_A_GPU if is_earlier else _nothing(everything, chosen),)), table]
    )
    reasons = reasons_table(rows) if dump is not None and len(rows) > 1 else None
    return Report(
        "fuse",
        _EARLIER if is_earlier else _answer(rows, chosen, has_reasons=dump is not None),
        numbers={
            "pairs": len(rows),
            "fused_pairs": found.fused,
            "decided_by": "priority-fusion" if dump is not None else _UNKNOWN,
            "decided_pairs": sum(row.reason not in ("", NOT_SEEN, COPIED) for row in rows),
        },
        parts=(*((reasons,) if reasons is not None else ()), *parts),
        next=_next(argument, rows, has_reasons=dump is not None),
        notes=(*found.notes, *_notes(dump, found.fused), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def with_kernels(found: Decisions, dump: FusionDump, chip: str | None) -> list[PairRow]:
    """The rows with the times of their kernels, where these are what XLA estimated for the chip."""
    timed = {row.name_in_pass: row for row in found.rows if row.name_in_pass and row.fused_seconds is not None}
    names = timed.keys() - found.opaque
    module = module_before(dump.process) if chip is not None and names else None
    if chip is None or module is None:
        return found.rows
    kernels = {}
    for name, (saved, by_consumer) in kernels_of_dump(module, dump.process, chip, names).items():
        row = timed[name]
        assert row.fused_seconds is not None
        assert row.unfused_seconds is not None
        if is_same_time(seconds(saved), row.unfused_seconds - row.fused_seconds):
            kernels[name] = {found.names_now.get(user, user): times for user, times in by_consumer.items()}
    return [replace(row, kernels=kernels.get(row.name_in_pass or "", {}).get(row.consumer)) for row in found.rows]


def module_before(process: FusionProcess) -> Module | None:
    """The module before the pass, as its dump has it; None if it does not, or is truncated."""
    if not process.module_text or process.is_truncated:
        return None
    try:
        return parse_module(Source("hlo_module_before_fusion", process.module_text))
    except HloError:
        return None


def is_same_time(computed: float, printed: float) -> bool:
    """Whether a computed time is a sum or difference of times that XLA printed with few digits.

    >>> is_same_time(1e-6, 1.0000001e-6), is_same_time(1e-6, 1.1e-6)
    (True, False)
    """
    return abs(computed - printed) <= _ROUNDING + 1e-5 * abs(computed)


def _answer(rows: Sequence[PairRow], names: Sequence[str], *, has_reasons: bool) -> str:
    if not rows:
        if len(names) > 1 and len(set(names)) == 1:
            return f"Both are in one kernel, {names[0]}"
        return no_pair(names) if names else "No kernel reads the result of another kernel"
    verb = "is" if len(rows) == 1 else "are"
    words = f"{format_count(len(rows), 'producer–consumer pairs')} {verb} not fused"
    if not has_reasons:
        return f"{words}; XLA's reasons are not in the dump"
    if len(rows) == 1:
        return one_answer(rows[0])
    (reason, number), *_ = Counter(row.reason for row in rows).most_common(1)
    words += f". Most common reason: {reason} ({number:,})"
    largest = max(row.saving_bytes for row in rows)
    return words + (f". Largest possible saving: {format_bytes(largest)}" if largest > 0 else "")


def one_answer(row: PairRow) -> str:
    """The answer about a single pair."""
    words = f"{row.producer} is not fused into {row.consumer}: {row.reason}"
    if row.fused_seconds is None or row.unfused_seconds is None:
        return words
    return f"{words} ({format_seconds(row.fused_seconds)} instead of {format_seconds(row.unfused_seconds)})"


def _nothing(everything: Table, names: Sequence[str]) -> str:
    if everything.rows:
        return f"No matches among {format_count(len(everything.rows), 'pairs')}."
    return "No pairs have these names." if names else "All kernels read only parameters and constants."


def _notes(dump: FusionDump | None, fused: int) -> Iterator[Diagnostic]:
    if dump is None:
        yield Diagnostic("note", f"to get XLA's reasons, compile with XLA_FLAGS='{FLAGS}'")
        yield Diagnostic(
            "note", "--chip NAME computes them for a GPU, --fusion-rules cpu shows those of the CPU compiler"
        )
        return
    if fused:
        yield Diagnostic("note", f"priority-fusion fused {format_count(fused, 'further pairs')}")
    yield from dump_notes(dump)


def dump_notes(dump: FusionDump) -> Iterator[Diagnostic]:
    """Notes on where the reasons are from, and what they mean."""
    yield Diagnostic("note", f"reasons and times are those that XLA wrote in {dump.path}")
    yield Diagnostic("note", ALL_CONSUMERS)
    if dump.process.is_truncated:
        yield Diagnostic("warning", f"{dump.path} is truncated; later decisions are missing")


def _next(argument: str, rows: Sequence[PairRow], *, has_reasons: bool) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    if has_reasons:
        return next_pair(argument, rows)
    return (f"hlo fuse {argument} --why-not --chip h100", f"hlo fuse {argument} --why-not --fusion-rules cpu")
