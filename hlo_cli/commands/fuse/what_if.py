"""What if other instructions were fused? `--run-pass`, `--fuse`, `--into`, and `--unfuse`, as a diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS, costs_among
from hlo_cli.analysis.fusion.cpu_rules import FusionRules
from hlo_cli.analysis.fusion.gpu_model import TRITON
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.analysis.fusion.kernels import kernels_of
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.fuse.gpu_dump import check_target, chip_note, gpu_of_dump, is_for_gpu, state_notes
from hlo_cli.commands.fuse.gpu_pairs import SLOWER, deciding_words, format_ticks
from hlo_cli.commands.fuse.options import FuseOptions, RefusionOptions
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.modules.rewriting import module_diff
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds, list_first, verb
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.transform.fusion.by_request import deciding_rule, fused_pair, unfused
from hlo_cli.transform.fusion.cpu_fusion import MAX_STEPS, FusionDecision, fuse
from hlo_cli.transform.fusion.gemm_fusion import FusedDot
from hlo_cli.transform.fusion.gpu_decisions import pairs_of
from hlo_cli.transform.fusion.gpu_fusion import (
    ALL,
    BETWEEN,
    EXACT,
    TIE,
    DotTiles,
    GpuFusion,
    GpuKernelTimes,
    Pass,
    gpu_fuse,
    gpu_kernel_times,
)
from hlo_cli.transform.fusion.gpu_priority_fusion import UNDECIDED
from hlo_cli.transform.fusion.softmax_fusion import FusedSoftmax
from hlo_cli.transform.in_place_hazards import copies_note

# --- fusions of XLA:GPU ---
# `--run-pass`, `--fuse`, and `--unfuse` for a GPU: fusions that XLA:GPU would make, and the predicted times.


_CERTAINTY_WORDS: Final = {
    EXACT: ("is exact", "are exact"),
    TIE: (
        "depends on a tie, decided by names and the order of the file; protos decide it exactly",
        "depend on a tie, decided by names and the order of the file; protos decide it exactly",
    ),
    UNDECIDED: (f"is {UNDECIDED}, and may grow", f"are {UNDECIDED}, and may grow"),
    BETWEEN: (
        "may differ, as XLA's passes between those on dots and fusion are not modeled",
        "may differ, as XLA's passes between those on dots and fusion are not modeled",
    ),
    TRITON: (
        "is next to a Triton fusion, whose decisions are not modeled",
        "are next to a Triton fusion, whose decisions are not modeled",
    ),
}


def _fusion_tables(fusion: GpuFusion, chip: str) -> Iterator[Table]:
    """Each fusion with what was fused, and how certain it is, those of constants alone last; the steps for programs."""
    members: dict[str, list[str]] = {}
    for step in fusion.fused:
        producers = members.setdefault(step.fusion, [])
        producers += members.get(step.producer, [step.producer])
    columns = (
        Column("fusion", "fusion", "name", role="name", of=lambda name: name),
        Column("certainty", "certainty", of=lambda name: fusion.certainty[name]),
        Column("producers", "fused", rank=2,
               of=lambda name: ", ".join(dict.fromkeys(members[name])) if name in members else None),
        Column("steps", "steps", "count", person=False, of=lambda name: len(members.get(name, ()))),
    )  # fmt: skip
    named = [name for name in members if name in fusion.certainty]
    others = [name for name in fusion.certainty if name not in members]
    rows = rows_from(columns, (*named, *others))
    yield Table("fusions", columns, rows, noun="fusions", title="fusions", main=False)
    parts = (
        Column("producer", "producer", "name", role="name", of=lambda step: step.producer),
        Column("consumer", "consumer", "name", role="name", of=lambda step: step.consumer),
        Column("fusion", "fusion", "name", role="name", of=lambda step: step.fusion),
        Column("pass", "pass", of=lambda step: step.by),
    )
    if fusion.dots or fusion.splits or fusion.swapped:
        yield _dots_table(fusion)
        if fusion.tiles:
            yield _tiles_table(fusion.tiles, chip)
    if fusion.softmaxes:
        yield _softmax_table(fusion.softmaxes)
    steps = rows_from(parts, fusion.fused)
    yield Table("steps", parts, steps, noun="steps", main=False, person=False)


_SIDES: Final = ("left operand", "right operand", "result")
"""Where operations join a dot, by `Stop.side`."""


def _dots_table(fusion: GpuFusion) -> Table:
    """What became of each dot: parts, the kernel with its operations, and where and why it stopped."""
    parts = {split.made: split for split in fusion.splits}
    tiles = {each.kernel: each.tiles for each in fusion.tiles}
    columns: tuple[Column[FusedDot], ...] = (
        Column("dot_name", "dot", "name", role="name",
               of=lambda dot: parts[dot.dot].dot if dot.dot in parts else dot.dot),
        Column("split_k", "split-K", "count", of=lambda dot: parts[dot.dot].parts if dot.dot in parts else 1),
        Column("triton_kernel", "Triton kernel", "name", of=lambda dot: dot.fusion or None),
        Column("is_swapped", "swapped", "flag", of=lambda dot: dot.fusion in fusion.swapped),
        Column("tiles_tried", "tiles tried", "count", of=lambda dot: len(tiles.get(dot.fusion, ())) or None),
        Column("computed", "computes", rank=2, of=lambda dot: ", ".join(dot.operations) or None),
        Column("stops_at", "stops at", rank=2, of=_stops_of),
    )  # fmt: skip
    known = {dot.dot for dot in fusion.dots}
    others = [FusedDot(split.made) for split in fusion.splits if split.made not in known]
    rows = rows_from(columns, (*fusion.dots, *others))
    return Table("dot_kernels", columns, rows, noun="dots", title="dots", main=False)


def _tiles_table(found: Sequence[DotTiles], chip: str) -> Table:
    """Each tile that XLA measures for a kernel of a dot, with its blocks and shared memory; for programs."""
    cores = gpu_device(chip).core_count
    columns = (
        Column("triton_kernel", "Triton kernel", "name", of=lambda dot, tile: dot.kernel),
        Column("tile_rows", "rows", "count", of=lambda dot, tile: tile.rows),
        Column("tile_columns", "columns", "count", of=lambda dot, tile: tile.columns),
        Column("tile_contracted", "contracted", "count", of=lambda dot, tile: tile.contracted),
        Column("block_warps", "warps", "count", of=lambda dot, tile: tile.warps),
        Column("tile_stages", "stages", "count", of=lambda dot, tile: tile.stages),
        Column("is_tma", "TMA", "flag", of=lambda dot, tile: tile.is_tma),
        Column("blocks", "blocks", "count", of=lambda dot, tile: tile.blocks(dot.sizes)),
        # A core takes a block at a time here; how many fit is not known before the code is compiled.
        Column("waves", "waves", "count", of=lambda dot, tile: -(-tile.blocks(dot.sizes) // cores)),
        Column("shared_bytes", "shared memory", "bytes", of=lambda dot, tile: tile.shared_bytes(dot.bits)),
    )
    rows = rows_from_tuples(columns, ((dot, tile) for dot in found for tile in dot.tiles))
    return Table("tiles", columns, rows, noun="tiles", main=False, person=False)


def _softmax_table(softmaxes: Sequence[FusedSoftmax]) -> Table:
    """Each normalization: the kernel of Triton or why there is none, tilings, and XLA's times without launches."""
    columns = (
        Column("normalization", "normalization", "name", role="name", of=lambda each: each.root),
        Column("reads_value", "reads", "name", of=lambda each: each.producer),
        Column("triton_kernel", "Triton kernel", "name", of=lambda each: each.fusion or None),
        Column("reason", "reason", of=lambda each: each.reason or None),
        Column("tilings", "tilings", "count", of=lambda each: each.tilings or None),
        Column("valid_tilings", "valid", "count", of=lambda each: each.valid if each.tilings else None),
        Column("best_tile", "tile",
               of=lambda each: "×".join(map(str, each.tiling.tile)) if each.tiling is not None else None),
        Column("block_warps", "warps", "count", of=lambda each: each.tiling.warps if each.tiling is not None else None),
        Column("fused_seconds", "fused", "seconds",
               of=lambda each: each.tiling.ticks / TICKS_PER_SECOND if each.tiling is not None else None),
        Column("unfused_seconds", "unfused", "seconds", like="fused_seconds",
               of=lambda each: each.unfused_ticks / TICKS_PER_SECOND if each.unfused_ticks is not None else None),
    )  # fmt: skip
    rows = rows_from(columns, softmaxes)
    return Table("normalizations", columns, rows, noun="normalizations", title="normalizations", main=False)


def _stops_of(dot: FusedDot) -> str | None:
    """Where a kernel stopped, and why, in XLA's words.

    >>> from hlo_cli.transform.fusion.gemm_fusion import Stop
    >>> _stops_of(FusedDot("d", "k", stops=(Stop("s", 2, "Has several users"),)))
    'result: s (Has several users)'
    """
    if dot.reason:
        return dot.reason
    return "; ".join(f"{_SIDES[stop.side]}: {stop.operation} ({stop.reason})" for stop in dot.stops) or None


PASSES: Final[dict[str, Pass]] = {
    "splitk-rewriter": "split-k",
    "triton-gemm-rewriter": "gemm",
    "hoist-fused-bitcasts": "hoist",
    "gemm-fusion-swap-operands": "swap",
    "triton-softmax-rewriter": "softmax",
    "priority-fusion": "priority",
    "multi_output_fusion": "multi-output",
}
"""Passes of XLA:GPU by the names that dumps have."""


def _certainty_notes(fusion: GpuFusion, chip: str, one: str | None) -> Iterator[str]:
    """Notes on how certain the fusions are."""
    passes = f"only {one}" if one is not None else "priority fusion, then multi-output fusion"
    if fusion.softmaxes and one is None:
        passes = f"Triton kernels of normalizations, {passes}"
    if fusion.dots and one is None:
        passes = f"split-K, Triton kernels of dots, {passes}"
    yield f"fusions are those of XLA:GPU in jaxlib 0.10.2 for {chip}: {passes}"
    if any(dot.fusion for dot in fusion.dots):
        yield "XLA measures on the GPU whether cuBLAS is faster than a Triton kernel of a dot, and the best tile"
    counts = Counter(fusion.certainty.values())
    total = sum(counts.values())
    for certainty, words in _CERTAINTY_WORDS.items():
        if counts[certainty]:
            yield f"{counts[certainty]:,} of {format_count(total, 'fusions')} {verb(counts[certainty], *words)}"


def _decision_note(module: Module, chip: str, producer: str, consumer: str) -> str:
    """Whether XLA would fuse a pair of a module as it is, and why not."""
    pairs = [pair for pair in pairs_of(module, chip, (producer, consumer), as_is=True) if pair.producer == producer]
    if not pairs:
        return f"XLA:GPU makes no such decision: {consumer} does not read {producer}"
    pair = pairs[0]
    if pair.reason is not None:
        why = f", because of {pair.blocker}" if pair.blocker is not None else ""
        return f"XLA:GPU would not fuse these for {chip}{why}: {pair.reason}"
    if pair.fused_ticks is None or pair.unfused_ticks is None:
        return f"XLA:GPU would fuse these for {chip} without an estimate of times"
    is_slower = pair.fused_ticks > pair.unfused_ticks
    times = f"{format_ticks(pair.fused_ticks)} instead of {format_ticks(pair.unfused_ticks)}"
    would = f"would not fuse these for {chip}: {SLOWER}," if is_slower else f"would fuse these for {chip}:"
    several = f" with all {len(pair.users)} consumers" if len(pair.users) > 1 else ""
    because = deciding_words(pair, chip) if is_slower else ""
    return f"XLA:GPU {would} {times}{several}" + (f". {because}".rstrip(".") if because else "")


def _time_answer(before: GpuKernelTimes, after: GpuKernelTimes, chip: str) -> str:
    """The predicted times of both modules, for the answer.

    >>> _time_answer(GpuKernelTimes({"a": 3e-6}, 0), GpuKernelTimes({"b": 1.5e-6}, 0), "h100")
    'predicted time on h100: 3.0 µs → 1.5 µs (50% less)'
    >>> _time_answer(GpuKernelTimes({}, 1), GpuKernelTimes({}, 1), "h100")
    'predicted time on h100 unknown, as no kernel is modeled'
    """
    if _is_unknown(before) or _is_unknown(after):
        return f"predicted time on {chip} unknown, as no kernel is modeled"
    old, new = before.total, after.total
    if old == new:
        return f"predicted time on {chip}: {format_seconds(new)} (unchanged)"
    word = "less" if new < old else "more"
    share = format_percent(abs(old - new) / old) if old else ""
    change = f"{share}% {word}" if share not in ("", "0", "<1") else f"{format_seconds(abs(old - new))} {word}"
    return f"predicted time on {chip}: {format_seconds(old)} → {format_seconds(new)} ({change})"


def _time_numbers(before: GpuKernelTimes, after: GpuKernelTimes, chip: str) -> dict[str, Cell]:
    """The predicted times for programs."""
    return {
        "chip": chip,
        "predicted_seconds_before": None if _is_unknown(before) else before.total,
        "predicted_seconds_after": None if _is_unknown(after) else after.total,
        "unmodeled_kernels": after.unknown,
    }


def _is_unknown(times: GpuKernelTimes) -> bool:
    """Whether no kernel has a predicted time: a sum of nothing is not a time of zero."""
    # kernels that cannot be modeled add nothing to a total
    return times.unknown > 0 and not times.total


def _unknown_note(after: GpuKernelTimes) -> Iterator[str]:
    """Notes on what the predicted times have, and what not."""
    words = "times are predicted by XLA's model for GPU fusion; each kernel runs once and adds 1 µs for its launch"
    left = f"; {format_count(after.unknown, 'kernels')} {verb(after.unknown, 'is', 'are')} not modeled"
    yield words + (left if after.unknown else "")


def _touched_table(before: GpuKernelTimes, after: GpuKernelTimes) -> Table:
    """Kernels whose time changes, or that only one of the modules has; those of the old module first."""
    columns = (
        Column("kernel", "changed kernel", "name", role="name", of=lambda name, old, new: name),
        Column("before_seconds", "before", "seconds", of=lambda name, old, new: old),
        Column("after_seconds", "after", "seconds", like="before_seconds", of=lambda name, old, new: new),
        Column("saved_seconds", "saves", "seconds", like="before_seconds", role="saving",
               of=lambda name, old, new: (old or 0.0) - (new or 0.0)),
    )  # fmt: skip
    names = dict.fromkeys((*before.seconds, *after.seconds))
    times = ((name, before.seconds.get(name), after.seconds.get(name)) for name in names)
    rows = rows_from_tuples(columns, ((name, old, new) for name, old, new in times if old != new))
    return Table("changed_kernels", columns, rows, noun="kernels", main=False, limit=10)


def _several_chips_error(chips: Sequence[str]) -> str:
    """The error for a module of several chips.

    >>> _several_chips_error(("h100", "b200"))
    'a module is for one chip, found h100, b200'
    """
    return f"a module is for one chip, found {', '.join(chips)}"


# --- the GPU ---
# The GPU for which `hlo fuse` changes a module: that of --chip, else the one that the dump was compiled for.


def options_for_gpu(options: FuseOptions, loaded: Loaded, output: OutputOptions) -> FuseOptions:
    """The options with the GPU that a dump was compiled for, if no chip is given; HloError for a module of a TPU."""
    changes = options.changes
    for chip in changes.gpus if changes.apply else ():
        check_target(loaded, chip)
    if len(changes.gpus) > 1 and output.is_module:
        raise HloError(_several_chips_error(changes.gpus), hint="select one chip with --chip NAME")
    if options.chip or options.chip_file or changes.switches or not is_for_gpu(loaded):
        return options
    gpu = gpu_of_dump(loaded)
    return options if gpu is None else replace(options, chip=gpu, is_chip_of_dump=True)


# --- another module as a diff ---
# `hlo fuse DUMP --run-pass`, `--fuse A,B`, `--into F`, and `--unfuse NAME`: other fusions of a module, as a diff.


_BEFORE_THE_PASS: Final = "before_fusion"  # as --xla_dump_hlo_pass_re names the file, after the pass before it


@dataclass(frozen=True, slots=True)
class Result:
    """The changed module, the decisions on its pairs, and notes.

    `copies` are the instructions added to keep operands until their last read. `undecided` are the names of
    computations in which a pass was ended.
    """

    module: Module
    fused: tuple[FusionDecision, ...] = ()
    rejected: tuple[FusionDecision, ...] = ()
    notes: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    gpu: GpuFusion | None = None
    undecided: tuple[str, ...] = ()


def rules_of(switches: Sequence[str]) -> FusionRules:
    """The fusion rules with the given switches."""
    return FusionRules(
        may_duplicate=not {"no-duplication", "multi-output"} & set(switches),
        multi_output="multi-output" in switches,
        guard_softmax="guard-softmax" in switches,
        wrap="no-wrap" not in switches,
        wrap_transpose="wrap-transpose" in switches,
    )


def what_if(module: Module, options: RefusionOptions) -> Result:
    """Unfuses, fuses by hand, then fuses by the rules, as far as the options select each."""
    notes: list[str] = []
    copies: list[str] = []
    if options.unfuse:
        changed = unfused(module, None if options.unfuse == ("all",) else options.unfuse)
        module = changed.module
        copies += changed.copies
    producers, consumer = _by_hand(options)
    for producer in producers:
        rule = deciding_rule(module, producer, consumer)
        # with --run-pass, the decisions on the pass's own input would be those of another module
        if options.gpu is not None and not options.apply:
            notes.append(_decision_note(module, options.gpu, producer, consumer))
        elif not rule.fuses and target_of(module) != "gpu":
            notes.append(f"the CPU compiler would not fuse these: {rule.explain(producer, consumer)}")
        before = {instruction.name for instruction in module.instructions}
        place = module.instruction(consumer)
        changed = fused_pair(module, producer, consumer, keep=options.keep)
        module = changed.module
        copies += changed.copies
        if place.opcode != opcodes.FUSION:
            # the next producer is fused into the fusion that this step made of the consumer
            consumer = next(i.name for i in module.instructions if i.opcode == opcodes.FUSION and i.name not in before)
    if not options.apply:
        return Result(module, notes=tuple(notes), copies=tuple(copies))
    if options.gpu is not None:
        fusion = gpu_fuse(module, options.gpu, passes=ALL if options.only is None else (PASSES[options.only],))
        notes += _certainty_notes(fusion, options.gpu, options.only)
        return Result(fusion.module, notes=tuple(notes), copies=tuple(copies), gpu=fusion, undecided=fusion.undecided)
    if target_of(module) == "gpu" and not options.switches:
        hint = "add --chip h100 or another GPU, or --fusion-rules cpu for the rules of the CPU compiler"
        raise HloError("--run-pass on a GPU module requires --chip NAME", hint=hint)
    decided = fuse(module, rules_of(options.switches))
    copies += decided.copies
    if decided.undecided:
        names = list_first(decided.undecided, 3)
        notes.append(f"fusion of {names} is not decided within {MAX_STEPS:,} steps: kernels there may grow")
    return Result(
        decided.module, decided.fused, decided.rejected, tuple(notes), tuple(copies), undecided=decided.undecided
    )


def _by_hand(options: RefusionOptions) -> tuple[tuple[str, ...], str]:
    """The producers, the nearest to the consumer first, and the consumer."""
    names = [name.removeprefix("%") for name in (*options.fuse, *((options.into,) if options.into is not None else ()))]
    if not names:
        return (), ""
    if len(names) < 2:
        raise HloError("--fuse requires two names: PRODUCER,CONSUMER", hint=f"write --fuse {names[0]},CONSUMER")
    # a producer further up reaches the consumer only through those in between
    return tuple(names[-2::-1]), names[-1]


def report_of_what_if(loaded: Loaded, result: Result, options: RefusionOptions, *, argument: str) -> Report:
    """Kernels and memory traffic before and after, the rules that prevent fusions, and the diff."""
    old, new = loaded.module, result.module
    path = loaded.input.path or "-"
    before, after = _kernel_totals(old), _kernel_totals(new)
    diff = module_diff(old, new, old_name=path, new_name=f"{path}, {options.option}")
    parts: list[Part] = [_totals_table(before, after)]
    answer = _change_answer(before, after, has_changed=bool(diff.hunks))
    times: tuple[GpuKernelTimes, GpuKernelTimes] | None = None
    if options.gpu is not None:
        times = gpu_kernel_times(old, options.gpu), gpu_kernel_times(new, options.gpu)
        answer += f"; {_time_answer(*times, options.gpu)}"
        if result.gpu is None:
            parts.append(_touched_table(*times))
    if result.gpu is not None:
        parts += _fusion_tables(result.gpu, options.gpu or "")
    elif options.apply:
        parts += [_rules_table(result.rejected), _decisions_table((*result.fused, *result.rejected))]
    if not diff.hunks:
        parts.append(Passage("nothing", ("No instructions were fused or expanded.",)))
    notes = (*(Diagnostic("note", words) for words in _notes(loaded, result, options, times)), *notes_of(loaded))
    return Report(
        "fuse",
        answer,
        numbers={
            "kernels_before": before[0],
            "kernels_after": after[0],
            "bytes_before": before[1],
            "bytes_after": after[1],
            "fusions_before": before[2],
            "fusions_after": after[2],
            "is_input_of_cpu_fusion": options.apply and options.gpu is None and _is_before_the_pass(loaded),
            "undecided_computations": result.undecided,
            **({} if times is None or options.gpu is None else _time_numbers(*times, options.gpu)),
        },
        parts=(*parts, diff),
        next=_next_of_change(argument, options) if diff.hunks else (),
        notes=notes,
        input=input_facts(loaded),
    )


def _notes(
    loaded: Loaded, result: Result, options: RefusionOptions, times: tuple[GpuKernelTimes, GpuKernelTimes] | None
) -> Iterable[str]:
    gpu: tuple[str, ...] = ()
    if options.gpu is not None and times is not None:
        gpu = (
            *((chip_note(options.gpu),) if options.is_chip_of_dump else ()),
            *(state_notes(loaded, options.gpu) if options.apply else ()),
            *_unknown_note(times[1]),
        )
    first, second = tuple(_reliability_notes(loaded, options)), result.notes
    if gpu:
        first, second = (*second, *gpu), first
    return (*first, *second, *copies_note(result.copies))


_Totals = tuple[int, int, int]


def _kernel_totals(module: Module) -> _Totals:
    """The number of kernels, the bytes that they access when each runs once, and the number of fusions."""
    kernels = [kernel.instruction for kernel in kernels_of(module) if not kernel.is_transfer]
    costs = costs_among(kernels)
    accessed = sum(round(cost.bytes_accessed) for cost in costs.values())
    return len(kernels), accessed, sum(kernel.opcode == opcodes.FUSION for kernel in kernels)


def _change_answer(before: _Totals, after: _Totals, *, has_changed: bool) -> str:
    if not has_changed:
        return f"No change: {format_count(before[0], 'kernels')}, {format_bytes(before[1])} of memory traffic"
    return f"Kernels: {_kernels_change(before[0], after[0])}; memory traffic: {_bytes_change(before[1], after[1])}"


def _kernels_change(before: int, after: int) -> str:
    return f"{after:,} (unchanged)" if before == after else f"{before:,} → {after:,}"


def _bytes_change(before: int, after: int) -> str:
    if before == after:
        return f"{format_bytes(after)} (unchanged)"
    words = "less" if after < before else "more"
    # equal at the shown precision: the difference itself is shown
    if format_bytes(before) == format_bytes(after):
        return f"{format_bytes(after)} ({format_bytes(abs(before - after))} {words})"
    change = f" ({format_percent(abs(before - after) / before)}% {words})" if before else ""
    return f"{format_bytes(before)} → {format_bytes(after)}{change}"


def _totals_table(before: _Totals, after: _Totals) -> Table:
    columns = (
        Column("when", "", of=lambda when, totals: when),
        Column("kernels", "kernels", "count", of=lambda when, totals: totals[0]),
        Column("fusions", "fusions", "count", of=lambda when, totals: totals[2]),
        Column("bytes", "accessed", "bytes", of=lambda when, totals: totals[1]),
    )
    rows = rows_from_tuples(columns, [("before", before), ("after", after)])
    return Table("totals", columns, rows, noun="rows", main=False)


def _rules_table(rejected: Iterable[FusionDecision]) -> Table:
    """The number of pairs that each rule prevents from being fused."""
    # a pair with a parameter or a tuple saves nothing, whatever the rule
    kernels = [d for d in rejected if NO_KERNELS.isdisjoint((d.producer.opcode, d.consumer.opcode))]
    pairs = Counter(decision.rule for decision in kernels)
    example = {decision.rule: decision for decision in reversed(kernels)}
    columns = (
        Column("pairs", "pairs", "count", of=lambda rule, number: number),
        Column("rule", "rule", "name", of=lambda rule, number: rule.name),
        Column("example", "example", of=lambda rule, number: example[rule].words),
    )
    rows = rows_from_tuples(columns, pairs.most_common())
    return Table("rules", columns, rows, noun="rules", title="not fused", main=False)


def _decisions_table(decisions: Sequence[FusionDecision]) -> Table:
    """Every decision, for programs."""
    columns: tuple[Column[FusionDecision], ...] = (
        Column("producer", "producer", "name", role="name", of=lambda decision: decision.producer.name),
        Column("consumer", "consumer", "name", role="name", of=lambda decision: decision.consumer.name),
        Column("is_fused", "fused", "flag", of=lambda decision: decision.rule.fuses),
        Column("rule", "rule", "name", of=lambda decision: decision.rule.name),
        Column("reason", "reason", of=lambda decision: decision.words),
        Column("computation", "computation", "name", of=lambda decision: decision.consumer.computation.name),
    )
    rows = rows_from(columns, decisions)
    return Table("decisions", columns, rows, noun="decisions", main=False, person=False)


def _is_before_the_pass(loaded: Loaded) -> bool:
    """Whether the CPU compiler's fusion pass comes next, by the name of the file."""
    return _BEFORE_THE_PASS in (loaded.input.path or "") + (loaded.input.stage or "") and target_of(
        loaded.module
    ) not in ("tpu", "gpu")


def _reliability_notes(loaded: Loaded, options: RefusionOptions) -> Iterable[str]:
    """Notes on how reliable the answer is."""
    if options.gpu is not None:
        pass
    elif options.apply and _is_before_the_pass(loaded):
        yield "by its file name, this is the input of the CPU fusion pass; jaxlib 0.10.2 produces the same fusions"
    elif options.apply:
        target = target_of(loaded.module)
        module = f"a module compiled for {target.upper()}" if target in ("tpu", "gpu") else "this module as it is"
        yield f"what-if result: the CPU compiler's fusion rules applied to {module}"
    if options.apply and "multi-output" in options.switches:
        yield "XLA may form multi-output fusions with equal savings in a different order"
    yield "bytes are from XLA's cost analysis; each kernel counts once"


def _next_of_change(argument: str, options: RefusionOptions) -> tuple[str, ...]:
    return (f"hlo fuse {argument} {options.option} -o new.hlo",) if argument and argument != "-" else ()
