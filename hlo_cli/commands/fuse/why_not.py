"""Why are a producer and a consumer not fused, and what would that save? `--why-not`, also chip by chip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.fusion.cpu_rules import FusionRules
from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelParts
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.analysis.fusion.mutable_graph import fusible_computations
from hlo_cli.analysis.fusion.unfused_pairs import FusionVerdict, UnfusedPair, fusion_outcome, unfused_pairs
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.fuse.gpu_dump import (
    FusionDump,
    check_target,
    chip_note,
    decisions_of,
    dump_notes,
    fusion_dump,
    fusion_with,
    gpu_of_dump,
    is_dump_of,
    is_for_gpu,
    is_same_time,
    module_before,
    report_of_dumped_why_not,
    state_notes,
)
from hlo_cli.commands.fuse.gpu_pairs import (
    ALL_CONSUMERS,
    SLOWER,
    PairRow,
    chosen_pair,
    deciding_words,
    decision_answer,
    decision_numbers,
    decision_parts,
    is_selected,
    next_pair,
    no_pair,
    pairs_table,
    reasons_table,
    seconds,
    sorted_rows,
)
from hlo_cli.commands.fuse.options import FuseOptions
from hlo_cli.commands.modules.instruction_tables import rows_where
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds, verb
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Row, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic
from hlo_cli.transform.fusion.gpu_decisions import GpuPair, may_be_made, pairs_of, pairs_of_dump
from hlo_cli.transform.fusion.gpu_fusion import (
    GpuDecision,
    GpuFusion,
    fusions_by_chip,
    gpu_computations,
    gpu_decisions,
    pairs_by_chip,
)
from hlo_cli.transform.fusion.gpu_priority_fusion import UNDECIDED

# --- computed for a GPU ---
# `hlo fuse DUMP --why-not --chip GPU`: reasons and times of XLA:GPU's priority fusion, computed for a chip.


FASTER: Final = "fusing would take less time now"
"""The reason if nothing prevents a fusion: the module was different during the pass, or XLA kept an older estimate."""
_MICRO: Final = 1e-6  # XLA reports times in microseconds


def _report_of_computed_why_not(
    loaded: Loaded, chip: str, *, within: Computation | None, where: str | None, argument: str
) -> Report:
    """One row for each pair, those with most at stake first."""
    rows = sorted_rows(
        row_of_decision(each)
        for each in gpu_decisions(loaded.module, chip)
        if within is None or each.consumer.computation is within
    )
    everything = pairs_table(rows)
    table = everything if where is None else rows_where(where, everything)
    nothing = f"No matches among {format_count(len(everything.rows), 'pairs')}." if everything.rows else "No pairs."
    reasons = (reasons_table(rows),) if len(rows) > 1 else ()
    return Report(
        "fuse",
        _computed_answer(rows, chip, is_scheduled=loaded.module.is_scheduled),
        numbers={"pairs": len(rows), "decided_by": chip, "decided_pairs": len(rows)},
        parts=(*reasons, *((table,) if table.rows else (Passage("nothing", (nothing,)), table))),
        next=next_pair(argument, rows, f" --chip {chip}"),
        notes=(*(Diagnostic("note", words) for words in _computed_notes(loaded, chip)), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def row_of_decision(decision: GpuDecision) -> PairRow:
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


def _computed_answer(rows: Sequence[PairRow], chip: str, *, is_scheduled: bool) -> str:
    if not rows:
        return "No kernel reads the result of another kernel"
    words = f"{format_count(len(rows), 'producer–consumer pairs')} {verb(len(rows), 'is', 'are')} not fused on {chip}"
    words += "" if is_scheduled else " by priority fusion"
    (reason, number), *_ = Counter(row.reason for row in rows).most_common(1)
    largest = max(row.saving_bytes for row in rows)
    return f"{words}. Most common reason: {reason} ({number:,}). Largest possible saving: {format_bytes(largest)}"


def _computed_notes(loaded: Loaded, chip: str) -> Iterator[str]:
    """Notes on whose reasons and times these are, and of which module."""
    state = "as it is" if loaded.module.is_scheduled else "after priority fusion"
    yield f"reasons and times are computed as XLA of jaxlib 0.10.2 does for {chip}, of the module {state}"
    yield ALL_CONSUMERS
    yield from state_notes(loaded, chip)


# --- one pair on a GPU ---
# `hlo fuse DUMP NAME --why-not` and `PRODUCER,CONSUMER --why-not` for a GPU: one decision, from a dump or computed.


_NO_PARTS: Final = Diagnostic(
    "note", "the parts of these times are unknown: a Triton fusion takes part, or XLA kept an older estimate"
)


def _report_of_computed_pair(
    loaded: Loaded, chip: str, *, names: Sequence[str], within: Computation | None, where: str | None, argument: str
) -> Report:
    """One decision as XLA would make it for a chip."""
    kernels, notes = kernels_of(loaded, names)
    if len(kernels) > 1 and len(set(kernels)) == 1:
        pairs = [GpuPair(kernels[0], kernels[0], emitted_in=kernels[0])]
    else:
        pairs = _within(pairs_of(loaded.module, chip, kernels), within)
    computation = {each.name: each.computation.name for each in loaded.module.instructions}
    rows = [_row_of_pair(pair, computation) for pair in pairs if not pair.is_fused and pair.emitted_in is None]
    notes = (*notes, *_notes_on_fused_names(pairs, kernels))
    all_notes = (*notes, *(Diagnostic("note", words) for words in _computed_notes(loaded, chip)), *notes_of(loaded))
    return _report_of_pair(
        loaded, pairs, rows, kernels, chip, decided_by=chip, notes=all_notes, where=where, argument=argument
    )


def _report_of_dumped_pair(
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
    decisions = decisions_of(loaded, dump, names=names, within=within)
    module = module_before(dump.process)
    if chip is None or module is None:
        return report_of_dumped_why_not(loaded, dump, names=names, within=within, where=where, argument=argument)
    pairs = pairs_of_dump(module, dump.process, chip, decisions.names_in_pass)
    pairs = [_renamed(_confirmed(pair, dump.process, decisions.opaque), decisions.names_now) for pair in pairs]
    if not any(pair.is_fused or pair.reason or pair.fused_ticks is not None for pair in pairs) and decisions.rows:
        return report_of_dumped_why_not(loaded, dump, names=names, within=within, where=where, argument=argument)
    kernels = tuple(decisions.names_now.get(name, name) for name in decisions.names_in_pass)
    notes = (
        *decisions.notes,
        *_notes_on_fused_names(pairs, kernels),
        *dump_notes(dump),
        *notes_of(loaded),
    )
    computation = {each.name: each.computation.name for each in loaded.module.instructions}
    own = {(row.producer, row.consumer): row for row in (_row_of_pair(pair, computation) for pair in pairs)}
    rows = [
        replace(row, kernels=own[pair].kernels) if (pair := (row.producer, row.consumer)) in own else row
        for row in decisions.rows
    ]
    if not loaded.module.is_scheduled:
        rows = [own[pair.producer, pair.consumer] for pair in pairs if not pair.is_fused and pair.emitted_in is None]
    return _report_of_pair(
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


def _report_of_pair(
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
    # without a modeled kernel of both, --fuse has no time to show
    by_hand = pair is not None and not pair.is_fused and pair.kernels[2] is not None
    command = f"hlo fuse {argument} --fuse {pair.producer},{pair.consumer} --chip {chip}" if pair else ""
    names_it = by_hand and pair is not None and _has_both(loaded, pair)
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


def _has_both(loaded: Loaded, pair: GpuPair) -> bool:
    names = {each.name for computation in gpu_computations(loaded.module) for each in computation.instructions}
    return {pair.producer, pair.consumer} <= names


def _notes_on_fused_names(pairs: Sequence[GpuPair], names: Sequence[str]) -> Iterator[Diagnostic]:
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
        # a fusion that the pass is yet to make has no instruction in the module
        if not is_there and not may_be_made(name, loaded.module):
            kernel = fusion_with(name, loaded.module) or loaded.module.instruction(name).name
            notes += [Diagnostic("note", f"{name} is part of {kernel}")] if kernel != name else []
        kernels.append(kernel)
    return tuple(kernels), tuple(notes)


def _within(pairs: Iterable[GpuPair], within: Computation | None) -> list[GpuPair]:
    if within is None:
        return list(pairs)
    # the pass may have replaced one of the two by a fusion with another name
    return [pair for pair in pairs if within.instruction(pair.consumer) or within.instruction(pair.producer)]


def _row_of_pair(pair: GpuPair, computations: dict[str, str]) -> PairRow:
    fused, unfused = pair.fused_ticks, pair.unfused_ticks
    reason = pair.reason
    if reason is None and fused is not None and unfused is not None:
        reason = SLOWER if fused > unfused else FASTER
    producer, consumer, fused_kernel = pair.kernels
    kernels = (
        None
        if producer is None or consumer is None or fused_kernel is None
        else (producer.time, consumer.time, fused_kernel.time)
    )
    return PairRow(
        pair.producer,
        pair.consumer,
        computations.get(pair.consumer) or computations.get(pair.producer, ""),
        # the intermediate array is written once and read once
        2 * producer.time.bytes_written if producer is not None else 0,
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
    # the pass stopped at a rule, before it estimated times
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
    # XLA's times stand; those of the parts would not add up to them
    ticks = [round(time * TICKS_PER_SECOND) for time in (verdict.fused_seconds, verdict.unfused_seconds)]
    return replace(
        pair, reason=None, blocker=None, fused_ticks=ticks[0], unfused_ticks=ticks[1], kernels=blank, users=()
    )


def _renamed(pair: GpuPair, names: Mapping[str, str]) -> GpuPair:
    """The pair with the names that kernels have in the module; those that are gone keep their name in the pass."""

    def name_now(name: str) -> str:
        return names.get(name, name)

    def parts(kernel: KernelParts | None) -> KernelParts | None:
        if kernel is None:
            return None
        return kernel._replace(reads=tuple(read._replace(operand=name_now(read.operand)) for read in kernel.reads))

    producer, consumer, fused = (parts(kernel) for kernel in pair.kernels)
    return replace(
        pair,
        producer=name_now(pair.producer),
        consumer=name_now(pair.consumer),
        blocker=None if pair.blocker is None else name_now(pair.blocker),
        emitted_in=None if pair.emitted_in is None else name_now(pair.emitted_in),
        kernels=(producer, consumer, fused),
        users=tuple(user._replace(name=name_now(user.name)) for user in pair.users),
    )


def _verdict(pair: GpuPair, process: FusionProcess) -> FusionVerdict | None:
    """What XLA wrote last about a producer, before it was fused."""
    steps = process.steps
    if pair.is_fused:
        fused = (
            place for place, step in enumerate(steps) if isinstance(step, FusedStep) and step.producer == pair.producer
        )
        # a fused producer has no kernel any more, and later verdicts under its name are on another one
        steps = steps[: next(fused, len(steps))]
    return fusion_outcome(FusionProcess(steps)).verdicts.get(pair.producer)


# --- one pair on several GPUs ---
# One decision of XLA:GPU on several chips: the times on each, and the part that differs.


def _report_of_decision_by_chip(loaded: Loaded, chips: Sequence[str], names: Sequence[str]) -> Report:
    """The decision on each chip, side by side, and what differs."""
    kernels, notes = kernels_of(loaded, names)
    by_chip: dict[str, GpuPair] = {}
    for chip in chips:
        pairs = pairs_of(loaded.module, chip, kernels)
        if pairs:
            by_chip[chip] = pairs[0] if len(kernels) > 1 else chosen_pair(pairs, kernels[0])
    all_notes = (*notes, *_chips_notes(loaded, chips), *notes_of(loaded))
    numbers: dict[str, Cell] = {"chips": tuple(chips)}
    if not by_chip:
        return Report("fuse", no_pair(kernels), numbers=numbers, notes=all_notes, input=input_facts(loaded))
    parts = [_decisions_table(by_chip), _parts_table(by_chip), _devices_table(chips)]
    words = tuple(_on_chip(chip, pair) for chip, pair in by_chip.items() if deciding_words(pair, chip))
    numbers["decisions"] = tuple({"chip": chip, **decision_numbers(pair, chip)} for chip, pair in by_chip.items())
    return Report(
        "fuse",
        _one_answer(by_chip, kernels),
        numbers=numbers,
        parts=(Passage("deciding", (*words, *_difference(by_chip))), *(table for table in parts if table.rows)),
        notes=all_notes,
        input=input_facts(loaded),
    )


def _on_chip(chip: str, pair: GpuPair) -> str:
    return f"{chip}: {deciding_words(pair, chip)}"


def _one_answer(by_chip: dict[str, GpuPair], names: Sequence[str]) -> str:
    fused = [chip for chip, pair in by_chip.items() if pair.is_fused]
    apart = [chip for chip, pair in by_chip.items() if not pair.is_fused and pair.emitted_in is None]
    # all chips agree, so the answer is that of one of them unless times or reasons differ
    if not fused or not apart:
        chips, (first, *others) = list(by_chip), by_chip.values()
        is_same = all(_essence(pair) == _essence(first) for pair in others) and first.emitted_in is None
        if not is_same:
            return "; ".join(decision_answer(each, chip) for chip, each in by_chip.items())
        reason = first.reason or ("" if first.is_fused or _saved(first) >= 0 else SLOWER)
        words = f"{first.producer} is{'' if first.is_fused else ' not'} fused into {first.consumer} on {_joined(chips)}"
        return f"{words}: {reason}" if reason else words
    if len(names) > 1:
        return f"{names[0]} and {names[1]} are one kernel on {_joined(fused)}, but not on {_joined(apart)}"
    return f"{names[0]} is fused on {_joined(fused)}, but not on {_joined(apart)}"


def _essence(pair: GpuPair) -> tuple[bool, str | None, bool]:
    # times differ on every chip; what decided is the reason or the sign
    return pair.is_fused, pair.reason, _saved(pair) < 0


def _joined(words: Sequence[str]) -> str:
    return _and_list(words) if len(words) > 1 else words[0]


def _decisions_table(by_chip: dict[str, GpuPair]) -> Table:
    columns = (
        Column("chip", "chip", "name", of=lambda chip, pair: chip),
        Column("is_fused", "fused", "flag", of=lambda chip, pair: pair.is_fused),
        Column("unfused_seconds", "separate", "seconds",
               of=lambda chip, pair: None if pair.unfused_ticks is None else seconds(pair.unfused_ticks)),
        Column("fused_seconds", "one kernel", "seconds", like="unfused_seconds",
               of=lambda chip, pair: None if pair.fused_ticks is None else seconds(pair.fused_ticks)),
        Column("saved_seconds", "saves", "seconds", like="unfused_seconds",
               of=lambda chip, pair: (
                   None
                   if pair.unfused_ticks is None or pair.fused_ticks is None else seconds(_saved(pair)))),
        Column("reason", "reason",
               of=lambda chip, pair: pair.reason or (SLOWER if not pair.is_fused and _saved(pair) < 0 else None)),
    )  # fmt: skip
    rows = rows_from_tuples(columns, by_chip.items())
    return Table("decisions", columns, rows, noun="decisions", main=False)


def _saved(pair: GpuPair) -> int:
    return (pair.unfused_ticks or 0) - (pair.fused_ticks or 0)


def _parts_table(by_chip: dict[str, GpuPair]) -> Table:
    """The fused kernel on each chip."""
    columns = (
        Column("chip", "fused kernel", "name", of=lambda chip, kernel: chip),
        Column("cycles", "cycles", "count", of=lambda chip, kernel: kernel.time.flops),
        Column("blocks", "blocks", "count", of=lambda chip, kernel: kernel.time.blocks),
        Column("threads", "threads", "count", of=lambda chip, kernel: kernel.time.threads),
        Column("emitter", "emitter", of=lambda chip, kernel: kernel.time.emitter),
        Column("memory_seconds", "memory", "seconds", of=lambda chip, kernel: seconds(kernel.memory_ticks)),
        Column("compute_seconds", "compute", "seconds", like="memory_seconds",
               of=lambda chip, kernel: seconds(kernel.compute_ticks)),
        Column("kernel_seconds", "time", "seconds", like="memory_seconds",
               of=lambda chip, kernel: seconds(kernel.time.ticks)),
    )  # fmt: skip
    kernels = [(chip, kernel) for chip, pair in by_chip.items() if (kernel := pair.kernels[2]) is not None]
    rows = rows_from_tuples(columns, kernels)
    return Table("fused_kernels", columns, rows, noun="kernels", main=False)


def _devices_table(chips: Sequence[str]) -> Table:
    """The figures of the chips that the model uses."""
    columns = (
        Column("chip", "chip", "name", of=lambda chip, each: chip),
        Column("cores", "cores", "count", of=lambda chip, each: each.core_count),
        Column("fpus", "fpus/core", "count", of=lambda chip, each: each.fpus_per_core),
        Column("clock_ghz", "GHz", "number", of=lambda chip, each: each.clock_rate_ghz),
        Column("memory_rate", "memory", "byte/second", of=lambda chip, each: each.memory_bandwidth),
        Column("l2_cache_bytes", "L2", "bytes", of=lambda chip, each: each.l2_cache_bytes),
        Column("profile", "cycles of", "name", of=lambda chip, each: each.profile),
    )
    devices = {chip: gpu_device(chip) for chip in chips}
    rows = rows_from_tuples(columns, devices.items())
    return Table("devices", columns, rows, noun="chips", main=False)


def _difference(by_chip: dict[str, GpuPair]) -> tuple[str, ...]:
    """The part of the saved time that differs most between the first chip that fuses and the first that does not."""
    chips = [
        next((chip for chip, pair in by_chip.items() if pair.is_fused is is_fused and None not in pair.kernels), None)
        for is_fused in (True, False)
    ]
    fusing, separate = chips
    if fusing is None or separate is None:
        return ()
    costs = {chip: _added_ticks(by_chip[chip]) for chip in (fusing, separate)}
    # the launch that both save is equal, so computing or memory decides
    part = max(costs[fusing], key=lambda name: costs[separate][name] - costs[fusing][name])
    here, there = costs[fusing][part], costs[separate][part]
    why = {"computing": _why_computing, "memory accesses": _why_memory}[part](by_chip, fusing, separate)
    launch = format_seconds(seconds(LAUNCH))
    times = f"one kernel {_more_or_less(here)} on {fusing}, and {_more_or_less(there)} on {separate}"
    words = f"The difference is in {part}: {times}"
    return (f"{words}; both save a launch ({launch}). {why}",)


def _more_or_less(ticks: int) -> str:
    return f"takes {format_seconds(seconds(abs(ticks)))} {'more' if ticks >= 0 else 'less'}"


def _added_ticks(pair: GpuPair) -> dict[str, int]:
    """Ticks that one kernel takes more than two, for computing and for memory accesses."""
    producer, consumer, fused = pair.kernels
    assert producer is not None
    assert consumer is not None
    assert fused is not None
    return {
        "computing": fused.compute_ticks - producer.compute_ticks - consumer.compute_ticks,
        "memory accesses": fused.memory_ticks - producer.memory_ticks - consumer.memory_ticks,
    }


def _why_computing(by_chip: dict[str, GpuPair], fusing: str, separate: str) -> str:
    cycles = [pair.time.flops for chip in (fusing, separate) if (pair := by_chip[chip].kernels[2]) is not None]
    same = (
        f"{cycles[0]:,} on {fusing} and {cycles[1]:,} on {separate}"
        if cycles[0] != cycles[1]
        else f"{cycles[0]:,} on both"
    )
    return f"Cycles: {same}. {_cores(fusing)}, {_cores(separate)}."


def _cores(chip: str) -> str:
    device = gpu_device(chip)
    return f"{chip} has {device.core_count} cores of {device.fpus_per_core} units at {device.clock_rate_ghz:g} GHz"


def _why_memory(_: dict[str, GpuPair], fusing: str, separate: str) -> str:
    return f"{_memory(fusing)}, {_memory(separate)}."


def _memory(chip: str) -> str:
    device = gpu_device(chip)
    bandwidth, cache = device.memory_bandwidth / 1e9, device.l2_cache_bytes / (1 << 20)
    return f"{chip} reads {bandwidth:,.0f} GB/s and has {cache:g} MiB of L2 cache"


def _and_list(words: Sequence[str]) -> str:
    """Words in a sentence.

    >>> _and_list(("a", "b", "c"))
    'a, b and c'
    """
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _chips_notes(loaded: Loaded, chips: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Notes on the chips and on the module."""
    # the release whose compiler the rules and the model were compared with
    words = f"fusions are those of XLA:GPU in jaxlib 0.10.2, computed for {_and_list(chips)}"
    state = dict.fromkeys(each for chip in chips[:1] for each in state_notes(loaded, chip))
    return (Diagnostic("note", words), *(Diagnostic("note", each) for each in state))


# --- all pairs on several GPUs ---
# `--chip h100,a100-80gb` with `--why-not` or `--run-pass`: what XLA:GPU fuses for one chip and not for another.


def report_of_compared_chips(
    loaded: Loaded,
    chips: Sequence[str],
    *,
    names: Sequence[str] = (),
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """The pairs that are fused on some of the chips, or with `names` one decision on each of them."""
    if names:
        return _report_of_decision_by_chip(loaded, chips, names)
    fusions = fusions_by_chip(loaded.module, chips)
    pairs = [
        each for each in pairs_by_chip(loaded.module, fusions) if within is None or each.consumer.computation is within
    ]
    columns = (
        Column("possible_saving_bytes", "traffic", "bytes", role="saving", of=lambda pair: pair.saving_bytes),
        Column("producer", "producer", "name", role="name", of=lambda pair: pair.producer.name),
        Column("consumer", "consumer", "name", role="name", of=lambda pair: pair.consumer.name),
        Column("fused_on", "fused on", of=lambda pair: ", ".join(chip for chip in chips if chip in pair.fused_on)),
        Column(
            "apart_on", "separate on", of=lambda pair: ", ".join(chip for chip in chips if chip not in pair.fused_on)
        ),
        Column(
            "computation", "computation", "name", from_width=120, rank=1, of=lambda pair: pair.consumer.computation.name
        ),
    )
    rows = rows_from(columns, pairs)
    everything = Table("pairs", columns, rows, noun="pairs", title="fused on some chips only")
    table = everything if where is None else rows_where(where, everything)
    first = pairs[0] if pairs else None
    pair_names = "" if first is None else f"{first.producer.name},{first.consumer.name}"
    command = f"hlo fuse {argument} {pair_names} --why-not --chip {','.join(chips)}"
    nothing = () if table.rows else (Passage("nothing", ("No pair is fused on one of them only.",)),)
    return Report(
        "fuse",
        _chips_answer(len(pairs), chips, fusions),
        numbers={"pairs": len(pairs), "chips": tuple(chips)},
        parts=(_fusions_table(fusions), *nothing, table),
        next=(command,) if first is not None and argument and argument != "-" else (),
        notes=(*_undecided_notes(fusions), *_chips_notes(loaded, chips), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _chips_answer(pairs: int, chips: Sequence[str], fusions: dict[str, GpuFusion]) -> str:
    listed = _and_list(chips)
    if not pairs:
        return f"XLA fuses the same pairs on {listed}"
    counts = ", ".join(f"{len(fusion.certainty):,} on {chip}" for chip, fusion in fusions.items())
    some = f"{verb(pairs, 'is', 'are')} fused on some of {listed} only"
    return f"{format_count(pairs, 'producer–consumer pairs')} {some} (fusions: {counts})"


def _undecided_notes(fusions: dict[str, GpuFusion]) -> Iterator[Diagnostic]:
    """Notes on chips for which some fusions may grow."""
    for chip, fusion in fusions.items():
        if fusion.undecided:
            count = list(fusion.certainty.values()).count(UNDECIDED)
            open_ = f"{format_count(count, 'fusions')} {verb(count, 'is', 'are')} {UNDECIDED}, and may grow"
            yield Diagnostic("note", f"{chip}: {open_}")


def _fusions_table(fusions: dict[str, GpuFusion]) -> Table:
    """Fusions and the predicted time for each chip."""
    columns = (
        Column("chip", "chip", "name", of=lambda chip, fusion: chip),
        Column("fusions", "fusions", "count", of=lambda chip, fusion: len(fusion.certainty)),
        Column("steps", "steps", "count", of=lambda chip, fusion: len(fusion.fused)),
        Column("before_seconds", "before", "seconds", of=lambda chip, fusion: fusion.times[0] / 1000000.0),
        Column("after_seconds", "after", "seconds", like="before_seconds",
               of=lambda chip, fusion: fusion.times[1] / 1000000.0),
    )  # fmt: skip
    rows: tuple[Row, ...] = rows_from_tuples(columns, fusions.items())
    return Table("chips", columns, rows, noun="chips", main=False)


# --- all pairs on a GPU ---
# `hlo fuse DUMP --why-not` for a GPU: from XLA's own dump where there is one, else computed for a chip.


def _report_of_gpu_why_not(
    loaded: Loaded,
    chips: tuple[str, ...],
    *,
    names: Sequence[str],
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report | None:
    """The pairs that are not fused, or with `names` one decision in full; None for a module of another target.

    `chips` are GPUs; without one, it is the chip for which the dump was made.
    """
    for chip in chips:
        check_target(loaded, chip)
    if len(chips) > 1:
        return report_of_compared_chips(loaded, chips, names=names, within=within, where=where, argument=argument)
    dump = fusion_dump(loaded)
    if dump is not None and (not chips or is_dump_of(dump.process, chips[0])):
        if names:
            return _report_of_dumped_pair(loaded, dump, names=names, within=within, where=where, argument=argument)

        report = report_of_dumped_why_not(loaded, dump, names=names, within=within, where=where, argument=argument)
        gpu = gpu_of_dump(loaded, dump.process)
        if report.numbers.get("pairs") or loaded.module.is_scheduled or gpu is None:
            return report
        # A module before its fusions has other names than those that the dump's pairs have at the end.
        return _computed(loaded, gpu, names=names, within=within, where=where, argument=argument)
    if not chips and not is_for_gpu(loaded):
        return None
    chosen = chips[0] if chips else gpu_of_dump(loaded)
    if chosen is None:
        return report_of_dumped_why_not(loaded, None, names=names, within=within, where=where, argument=argument)
    report = _computed(loaded, chosen, names=names, within=within, where=where, argument=argument)
    return report if chips else replace(report, notes=(Diagnostic("note", chip_note(chosen)), *report.notes))


def _computed(
    loaded: Loaded, chip: str, *, names: Sequence[str], within: Computation | None, where: str | None, argument: str
) -> Report:
    if names:
        return _report_of_computed_pair(loaded, chip, names=names, within=within, where=where, argument=argument)

    return _report_of_computed_why_not(loaded, chip, within=within, where=where, argument=argument)


# --- all pairs ---
# `hlo fuse DUMP --why-not`: producer–consumer pairs that are not fused, why, and what fusing them would save.


_COLUMNS: Final[tuple[Column[UnfusedPair, str], ...]] = (
    Column("possible_saving_bytes", "saving", "bytes", role="saving", of=lambda pair, reason: pair.saved_bytes),
    Column("producer", "producer", "name", role="name", of=lambda pair, reason: pair.producer.name),
    Column("consumer", "consumer", "name", role="name", of=lambda pair, reason: pair.consumer.name),
    Column("rule", "rule", "name", of=lambda pair, reason: pair.rule.name),
    Column("reason", "reason", rank=2, of=lambda pair, reason: reason),
    Column("is_fusible", "fusible", "flag", person=False, of=lambda pair, reason: pair.rule.fuses),
    Column(
        "computation", "computation", "name", from_width=120, of=lambda pair, reason: pair.consumer.computation.name
    ),
)


def report_of_reasons(loaded: Loaded, options: FuseOptions, *, within: Computation | None, argument: str) -> Report:
    """Reasons of XLA:GPU, unless the rules of the CPU compiler are named, or the module is for another target."""
    if not options.changes.switches:
        report = _report_of_gpu_why_not(
            loaded,
            options.changes.gpus,
            names=options.pair_names,
            within=within,
            where=options.where,
            argument=argument,
        )
        if report is not None:
            return report
    from hlo_cli.commands.fuse.what_if import rules_of

    rules = rules_of(options.changes.switches)
    return _report_of_why_not(
        loaded, rules, names=options.pair_names, within=within, where=options.where, argument=argument
    )


def _report_of_why_not(
    loaded: Loaded,
    rules: FusionRules,
    *,
    names: Sequence[str] = (),
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """One row for each pair, the largest saving first; of one instruction or one pair, if `names` are given."""
    for name in names:
        loaded.module.instruction(name)
    pairs = [
        pair
        for pair in unfused_pairs(loaded.module, rules)
        if (within is None or pair.consumer.computation is within)
        and is_selected(names, pair.producer.name, pair.consumer.name)
    ]
    # names last, so that equal savings do not depend on the order of the text
    pairs.sort(key=lambda pair: (-pair.saved_bytes, pair.producer.name, pair.consumer.name))
    is_compiled = loaded.module.is_scheduled
    rows = rows_from_tuples(_COLUMNS, ((pair, _reason(pair, is_compiled=is_compiled)) for pair in pairs))
    everything = Table("pairs", _COLUMNS, rows, noun="pairs")
    table = everything if where is None else rows_where(where, everything)
    parts: tuple[Part, ...] = (table,) if table.rows else (Passage("nothing", (_nothing(everything),)), table)
    return Report(
        "fuse",
        _pairs_answer(pairs) if pairs or not names else no_pair(names),
        numbers={
            "pairs": len(pairs),
            "fusible_pairs": sum(pair.rule.fuses for pair in pairs),
            **{f"rule_{name}": number for name, number in sorted(Counter(p.rule.name for p in pairs).items())},
        },
        parts=parts,
        next=_next_of_pairs(pairs, argument),
        notes=(*_notes(loaded), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _reason(pair: UnfusedPair, *, is_compiled: bool) -> str:
    """The rule that prevents the fusion; without one, the likely reason."""
    if not pair.rule.fuses:
        return pair.words
    if not is_compiled:
        return "no rule prevents it"
    # CpuCompiler::RunHloPassesAfterLayoutAssn fuses, and copy insertion comes later
    if opcodes.COPY in (pair.producer.opcode, pair.consumer.opcode):
        return "no rule prevents it; the copy was inserted after fusion"
    return "no rule prevents it; the code was different when the fusion pass ran"


def _pairs_answer(pairs: list[UnfusedPair]) -> str:
    if not pairs:
        return "No kernel reads the result of another kernel"
    rejected = Counter(pair.rule.name for pair in pairs if not pair.rule.fuses).most_common()
    would = sum(pair.rule.fuses for pair in pairs)
    words = f"{format_count(len(pairs), 'producer–consumer pairs')} {verb(len(pairs), 'is', 'are')} not fused"
    words += f"; {would:,} could be" if would else ""
    if rejected:
        words += f". Most common reason: {rejected[0][0]} ({rejected[0][1]:,})"
    best = max(pairs, key=lambda pair: pair.saved_bytes)
    return words + (f". Largest possible saving: {format_bytes(best.saved_bytes)}" if best.saved_bytes > 0 else "")


def _nothing(everything: Table) -> str:
    if everything.rows:
        return f"No matches among {format_count(len(everything.rows), 'pairs')}."
    return "All kernels read only parameters and constants."


def _notes(loaded: Loaded) -> tuple[Diagnostic, ...]:
    target = target_of(loaded.module)
    mismatch = f", but this module was compiled for {target.upper()}" if target in ("tpu", "gpu") else ""
    return (
        Diagnostic("note", f"rules are those of the CPU compiler in jaxlib 0.10.2{mismatch}; see `hlo help fusion`"),
        Diagnostic("note", "savings are from XLA's cost analysis, for each pair separately"),
    )


def _next_of_pairs(pairs: list[UnfusedPair], argument: str) -> tuple[str, ...]:
    # --fuse is only offered where a rule permits it and it saves something
    pair = next((pair for pair in pairs if pair.rule.fuses and pair.saved_bytes > 0), None)
    if pair is None or not argument or argument == "-":
        return ()
    return (f"hlo fuse {argument} --fuse {pair.producer.name},{pair.consumer.name}",)
