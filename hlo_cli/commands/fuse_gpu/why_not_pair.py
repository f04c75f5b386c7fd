"""`hlo fuse DUMP NAME --why-not` and `PRODUCER,CONSUMER --why-not` for a GPU: one decision, from a dump or computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.fusion.gpu_model import KernelParts
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.analysis.fusion.mutable_graph import fusible_computations
from hlo_cli.analysis.fusion.unfused_pairs import FusionVerdict, fusion_outcome
from hlo_cli.commands.fuse_gpu.chips import gpu_of_dump
from hlo_cli.commands.fuse_gpu.decision import chosen_pair, decision_answer, decision_numbers, decision_parts
from hlo_cli.commands.fuse_gpu.dump_decisions import decisions_of, fusion_with
from hlo_cli.commands.fuse_gpu.fusion_dump import FusionDump
from hlo_cli.commands.fuse_gpu.pair_names import no_pair
from hlo_cli.commands.fuse_gpu.pairs_table import SLOWER, PairRow, pairs_table, seconds, sorted_rows
from hlo_cli.commands.fuse_gpu.why_not_computed import FASTER, computed_notes
from hlo_cli.commands.fuse_gpu.why_not_dump import (
    dump_notes,
    is_same_time,
    module_before,
    report_of_dumped_why_not,
)
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.numbers import verb
from hlo_cli.report.report import Part, Report
from hlo_cli.source import Diagnostic
from hlo_cli.transform.fusion.gpu_decisions import GpuPair, may_be_made, pairs_of, pairs_of_dump
from hlo_cli.transform.fusion.gpu_fusion import gpu_computations

_NO_PARTS: Final = Diagnostic(
    "note", "the parts of these times are unknown: a Triton fusion takes part, or XLA kept an older estimate"
)


def report_of_computed_pair(
    loaded: Loaded, chip: str, *, names: Sequence[str], within: Computation | None, where: str | None, argument: str
) -> Report:
    """One decision as XLA would make it for a chip."""
    kernels, notes = kernels_of(loaded, names)
    if len(kernels) > 1 and len(set(kernels)) == 1:
        pairs = [GpuPair(kernels[0], kernels[0], emitted_in=kernels[0])]
    else:
        pairs = _within(pairs_of(loaded.module, chip, kernels), loaded, within)
    computation = {each.name: each.computation.name for each in loaded.module.instructions}
    rows = [_row_of(pair, computation) for pair in pairs if not pair.is_fused and pair.emitted_in is None]
    notes = (*notes, *_homes(pairs, kernels))
    said = (*notes, *(Diagnostic("note", words) for words in computed_notes(loaded, chip)), *notes_of(loaded))
    return _report(loaded, pairs, rows, kernels, chip, decided_by=chip, notes=said, where=where, argument=argument)


def report_of_dumped_pair(
    loaded: Loaded,
    dump: FusionDump,
    *,
    names: Sequence[str],
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """One decision of XLA, with the parts of its times by the model, if both agree."""
    chip = gpu_of_dump(loaded, dump.process)
    found = decisions_of(loaded, dump, names=names, within=within)
    module = module_before(dump.process)
    if chip is None or module is None:
        return report_of_dumped_why_not(loaded, dump, names=names, within=within, where=where, argument=argument)
    pairs = pairs_of_dump(module, dump.process, chip, found.names_in_pass)
    pairs = [_renamed(_confirmed(pair, dump.process, found.opaque), found.names_now) for pair in pairs]
    if not any(pair.is_fused or pair.reason or pair.fused_ticks is not None for pair in pairs) and found.rows:
        return report_of_dumped_why_not(loaded, dump, names=names, within=within, where=where, argument=argument)
    kernels = tuple(found.names_now.get(name, name) for name in found.names_in_pass)
    notes = (
        *found.notes,
        *_homes(pairs, kernels),
        *dump_notes(dump),
        *notes_of(loaded),
    )
    computation = {each.name: each.computation.name for each in loaded.module.instructions}
    own = {(row.producer, row.consumer): row for row in (_row_of(pair, computation) for pair in pairs)}
    rows = [
        replace(row, kernels=own[pair].kernels) if (pair := (row.producer, row.consumer)) in own else row
        for row in found.rows
    ]
    if not loaded.module.is_scheduled:
        rows = [own[pair.producer, pair.consumer] for pair in pairs if not pair.is_fused and pair.emitted_in is None]
    return _report(
        loaded,
        pairs,
        rows,
        kernels,
        chip,
        decided_by="priority-fusion",
        notes=notes,
        where=where,
        argument=argument,
    )


def _report(
    loaded: Loaded,
    pairs: Sequence[GpuPair],
    rows: Sequence[PairRow],
    names: Sequence[str],
    chip: str,
    *,
    decided_by: str,
    notes: tuple[Diagnostic, ...],
    where: str | None,
    argument: str,
) -> Report:
    ordered = sorted_rows(rows)
    table = pairs_table(ordered, is_shown=len(ordered) > 1)
    table = table if where is None else rows_where(where, table)
    pair = (pairs[0] if len(names) > 1 else chosen_pair(pairs, names[0])) if pairs else None
    parts: tuple[Part, ...] = () if pair is None else tuple(decision_parts(pair, chip))
    has_parts = pair is None or pair.fused_ticks is None or bool(pair.users)
    by_hand = pair is not None and not pair.is_fused and pair.kernels[2] is not None
    command = f"hlo fuse {argument} --fuse {pair.producer},{pair.consumer} --chip {chip}" if pair else ""
    names_it = by_hand and pair is not None and _has(loaded, pair)
    return Report(
        "fuse",
        no_pair(names) if pair is None else decision_answer(pair, chip),
        numbers={
            "pairs": len(ordered),
            "decided_by": decided_by,
            "decided_pairs": len(ordered),
            "chip": chip,
            **({} if pair is None else decision_numbers(pair, chip)),
        },
        parts=(*parts, table),
        next=(command,) if names_it and argument and argument != "-" else (),
        notes=notes if has_parts else (_NO_PARTS, *notes),
        input=input_facts(loaded),
    )


def _has(loaded: Loaded, pair: GpuPair) -> bool:
    names = {each.name for computation in gpu_computations(loaded.module) for each in computation.instructions}
    return {pair.producer, pair.consumer} <= names


def _homes(pairs: Sequence[GpuPair], names: Sequence[str]) -> Iterator[Diagnostic]:
    """A note on instructions that the pass had fused into the producer or the consumer of the first pair."""
    shown = {name for pair in pairs[:1] for name in (pair.producer, pair.consumer)}
    gone = [name for name in names if shown and name not in shown]
    if gone and len(names) > 1:
        homes = " and ".join(sorted(shown.difference(names)))
        words = f"{' and '.join(gone)} {verb(len(gone), 'is', 'are')} part of {homes}"
        yield Diagnostic("note", f"at this time of the pass, {words}")


def kernels_of(loaded: Loaded, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Diagnostic, ...]]:
    """The kernels that have the named instructions, and notes; HloError for an unknown name."""
    kernels, notes = [], []
    for name in names:
        kernel = name
        is_there = any(each.instruction(name) is not None for each in fusible_computations(loaded.module))
        if not is_there and not may_be_made(name, loaded.module):
            kernel = fusion_with(name, loaded.module) or loaded.module.instruction(name).name
            notes += [Diagnostic("note", f"{name} is part of {kernel}")] if kernel != name else []
        kernels.append(kernel)
    return tuple(kernels), tuple(notes)


def _within(pairs: Iterable[GpuPair], loaded: Loaded, within: Computation | None) -> list[GpuPair]:
    if within is None:
        return list(pairs)
    return [pair for pair in pairs if within.instruction(pair.consumer) or within.instruction(pair.producer)]


def _row_of(pair: GpuPair, computations: dict[str, str]) -> PairRow:
    fused, unfused = pair.fused_ticks, pair.unfused_ticks
    reason = pair.reason
    if reason is None and fused is not None and unfused is not None:
        reason = SLOWER if fused > unfused else FASTER
    one, other, both = pair.kernels
    kernels = None if one is None or other is None or both is None else (one.time, other.time, both.time)
    return PairRow(
        pair.producer,
        pair.consumer,
        computations.get(pair.consumer) or computations.get(pair.producer, ""),
        2 * one.time.bytes_written if one is not None else 0,
        reason or "",
        pair.blocker,
        None if fused is None else seconds(fused),
        None if unfused is None else seconds(unfused),
        kernels,
    )


def _confirmed(pair: GpuPair, process: FusionProcess, opaque: frozenset[str]) -> GpuPair:
    """The pair as XLA decided on it: without parts of times if they are not those that XLA estimated."""
    if pair.emitted_in is not None:
        return pair
    verdict = _verdict(pair, process)
    if verdict is None:
        return pair
    blank = (None, None, None)
    if verdict.fused_seconds is None or verdict.unfused_seconds is None:
        is_same = verdict.reason == pair.reason and not {pair.producer, pair.consumer} & opaque
        if is_same:
            return pair
        return replace(
            pair, reason=verdict.reason, blocker=None, fused_ticks=None, unfused_ticks=None, kernels=blank, users=()
        )
    if pair.fused_ticks is not None and pair.unfused_ticks is not None:
        saved = seconds(pair.unfused_ticks - pair.fused_ticks)
        if is_same_time(saved, verdict.unfused_seconds - verdict.fused_seconds):
            return pair
    ticks = [round(time * TICKS_PER_SECOND) for time in (verdict.fused_seconds, verdict.unfused_seconds)]
    return replace(
        pair, reason=None, blocker=None, fused_ticks=ticks[0], unfused_ticks=ticks[1], kernels=blank, users=()
    )


def _renamed(pair: GpuPair, names: Mapping[str, str]) -> GpuPair:
    """The pair with the names that kernels have in the module; those that are gone keep their name in the pass."""

    def now(name: str) -> str:
        return names.get(name, name)

    def parts(kernel: KernelParts | None) -> KernelParts | None:
        if kernel is None:
            return None
        return kernel._replace(reads=tuple(read._replace(operand=now(read.operand)) for read in kernel.reads))

    one, other, both = (parts(kernel) for kernel in pair.kernels)
    return replace(
        pair,
        producer=now(pair.producer),
        consumer=now(pair.consumer),
        blocker=None if pair.blocker is None else now(pair.blocker),
        emitted_in=None if pair.emitted_in is None else now(pair.emitted_in),
        kernels=(one, other, both),
        users=tuple(user._replace(name=now(user.name)) for user in pair.users),
    )


def _verdict(pair: GpuPair, process: FusionProcess) -> FusionVerdict | None:
    """What XLA wrote last about a producer, before it was fused."""
    steps = process.steps
    if pair.is_fused:
        fused = (
            place for place, step in enumerate(steps) if isinstance(step, FusedStep) and step.producer == pair.producer
        )
        steps = steps[: next(fused, len(steps))]
    return fusion_outcome(FusionProcess(steps)).verdicts.get(pair.producer)
