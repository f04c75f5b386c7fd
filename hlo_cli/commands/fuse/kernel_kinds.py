"""What kind of kernel is an operation, how is it launched, and what bounds it on a chip?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.counting import Cost, Number
from hlo_cli.analysis.fusion.kernels import Fusion, Kernel, execution_cost, reasons_for_other_totals, xla_totals
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import UNKNOWN_KEY, Keys, keys_of
from hlo_cli.commands.modules.loading import Loaded, stage_of
from hlo_cli.commands.options.chips import kernel_times_in_words, time_model, time_notes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import (
    count,
    format_bytes,
    format_count,
    format_flops,
    format_rate,
    format_seconds,
    format_seconds_range,
)
from hlo_cli.report.table import (
    UNKNOWN,
    Cell,
    Column,
    DeferredRows,
    Fact,
    Row,
    Table,
    columns_of_part,
    number_of,
    row_from,
    rows_from,
    unknown_without,
    with_cell,
)
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.fusion.gpu_kernels import GpuKernel
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.schedule.kernel_times import KernelTimes, Prediction


# --- XLA's account of a GPU kernel ---
# XLA's own account of a GPU kernel: how it is launched, what it reads, and what makes it slow.


MODEL_COLUMNS: Final[tuple[Column[GpuKernel], ...]] = (
    Column("arithmetic_seconds", "arithmetic", "seconds", person=False, of=lambda kernel: kernel.arithmetic_seconds),
    Column("memory_seconds", "memory", "seconds", person=False, of=lambda kernel: kernel.memory_seconds),
    Column("emitter", "emitter", person=False, of=lambda kernel: kernel.time.emitter),
    Column("blocks", "blocks", "count", person=False, of=lambda kernel: kernel.time.blocks),
    Column("threads", "threads", "count", person=False, of=lambda kernel: kernel.time.threads),
    Column("busy_cores", "busy cores", "count", person=False, of=lambda kernel: kernel.busy_cores),
    Column("cycles", "cycles", "count", person=False, of=lambda kernel: kernel.time.flops),
    Column("kernel_read_bytes", "kernel reads", "bytes", person=False, of=lambda kernel: kernel.time.bytes_read),
    Column("kernel_written_bytes", "kernel writes", "bytes", person=False, of=lambda kernel: kernel.time.bytes_written),
    Column("is_coalesced", "coalesced", "flag", person=False, of=lambda kernel: kernel.time.is_coalesced),
)
_MIN_REPEATED_READS: Final = 1.5  # chosen: halos of windows and edges of tiles are read twice in any kernel
"""From this many reads of an operand on, they are a reason why a kernel is slow."""
_WHOLE_NUMBERS_FROM: Final = 10
"""From this many reads on, they are shown without a fraction."""
_FULL_SHARE: Final = 0.9  # the time of the whole kernel then is at most a ninth longer
"""The share of busy cores from which on idle ones matter little."""


def model_numbers(prediction: Prediction | None, instruction: Instruction) -> Mapping[str, Cell]:
    """The account of a kernel, for programs; empty without one."""
    if prediction is None or prediction.kernel is None:
        return {}
    names = [operand.name for operand in instruction.operands]
    named = zip((column.name for column in MODEL_COLUMNS), row_from(MODEL_COLUMNS, prediction.kernel), strict=True)
    return {
        "kernel": {
            "kernel_seconds": prediction.kernel_seconds,
            "launch_seconds": prediction.estimate.launch_seconds,
            "estimate_source": ", ".join(sorted(prediction.estimate.sources)),
            **dict(named),
            "cores": prediction.kernel.device.core_count,
            "operands": tuple(
                {"operand": name, "bytes": size, "read_bytes": read}
                # not strict: operands of a damaged text can outnumber those of the model
                for name, size, read in zip(
                    names, prediction.kernel.operand_bytes, prediction.kernel.reads, strict=False
                )
            ),
            "slow_because": tuple(_slow_reasons(prediction, instruction)),
        }
    }


def model_facts(prediction: Prediction | None, instruction: Instruction) -> Iterator[Fact]:
    """The account of a kernel in words: its parts, its launch, its accesses, and what makes it slow."""
    if prediction is None or prediction.kernel is None:
        return
    kernel = prediction.kernel
    time = kernel.time
    parts = f"arithmetic {format_seconds(kernel.arithmetic_seconds)}, memory {format_seconds(kernel.memory_seconds)}"
    launch = f"launch {format_seconds(prediction.estimate.launch_seconds)}"
    yield Fact("XLA model", remark=f"kernel {format_seconds(kernel.seconds)} ({parts}), {launch}", is_whole=True)
    cores = f"{kernel.busy_cores:,} of {format_count(kernel.device.core_count, 'cores')}"
    blocks = f"{format_count(time.blocks, 'blocks')} of {format_count(time.threads, 'threads')} on {cores}"
    yield Fact("launch", remark=f"{time.emitter} emitter, {blocks}, {count(time.flops)} cycles", is_whole=True)
    coalesced = "coalesced" if time.is_coalesced else "not coalesced"
    yield Fact(
        "accesses",
        remark=f"reads {format_bytes(time.bytes_read)}, {coalesced}; writes {format_bytes(time.bytes_written)}",
        is_whole=True,
    )
    if reasons := list(_slow_reasons(prediction, instruction)):
        yield Fact("slow because", remark="; ".join(reasons), is_whole=True)


def _slow_reasons(prediction: Prediction, instruction: Instruction) -> Iterator[str]:
    """What keeps a kernel below the memory bandwidth, most important first."""
    kernel = prediction.kernel
    if kernel is None:
        return
    time, device = kernel.time, kernel.device
    if kernel.seconds < prediction.estimate.launch_seconds:
        yield "the launch takes longer than the kernel"
    if kernel.is_compute_bound:
        yield "its arithmetic takes longer than its memory accesses"
    if not time.is_coalesced:
        yield f"reads are not coalesced: {device.dram_transaction_bytes} B are transferred for each element"
    if kernel.busy_cores < _FULL_SHARE * device.core_count:
        yield f"too few blocks: {device.core_count - time.blocks:,} of {device.core_count:,} cores are idle"
    # gpu_performance_model_base.cc caps the bandwidth by the transactions that the blocks can issue in a clock
    if kernel.bytes_per_second < device.memory_bandwidth:
        yield f"{format_count(time.blocks, 'blocks')} read at most {format_rate(kernel.bytes_per_second, 'B')}"
    extra = [read - size for read, size in zip(kernel.reads, kernel.operand_bytes, strict=True)]
    most = max(range(len(extra)), key=extra.__getitem__, default=None)
    if most is not None and most < len(instruction.operands) and kernel.operand_bytes[most]:
        times = kernel.reads[most] / kernel.operand_bytes[most]
        if times >= _MIN_REPEATED_READS:
            number = f"{times:,.1f}" if times < _WHOLE_NUMBERS_FROM else f"{times:,.0f}"
            yield f"{instruction.operands[most].name} is read {number} times"


# --- --chip: bounds and times ---
# `--chip NAME` of `hlo fuse`: the bound of an operation on a chip, its predicted time, and its minimum time.


_XLA_COSTS: Final = "costs follow XLA's cost analysis"
TIME_TITLES: Final = {False: "est.", True: "est. unfused"}
"""The titles of estimated times of kernels: of those that run, or of operations that are not fused yet."""
_TIME_COLUMNS: Final[tuple[Column[Prediction], ...]] = (
    Column("bottleneck", "bottleneck", of=lambda found: found.roofline.bound),
    Column("estimated_seconds", "est.", "seconds", total="sum", of=lambda found: found.estimate.seconds),
    Column("low_seconds", "low", "seconds", total="sum", person=False, of=lambda found: found.estimate.low),
    Column("high_seconds", "high", "seconds", total="sum", person=False, of=lambda found: found.estimate.high),
    Column("minimum_seconds", "at least", "seconds", total="sum", person=False,
           of=lambda found: found.roofline.at_least_seconds),
    Column("kernel_seconds", "kernel", "seconds", total="sum", person=False, of=lambda found: found.kernel_seconds),
    Column("launch_seconds", "launch", "seconds", total="sum", person=False,
           of=lambda found: found.estimate.launch_seconds),
    Column("estimate_source", "estimate", person=False,
           of=lambda found: ", ".join(sorted(found.estimate.sources)) or None),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimingColumns:
    """A chip and its throughputs; with `module`, as the kernels of that module run on the chip.

    `is_unfused` if the compiler still fuses the operations, each of which is timed as a kernel.
    """

    throughput: ChipSpec
    module: Module | None = field(default=None, repr=False, compare=False)
    is_unfused: bool = False
    times: KernelTimes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        from hlo_cli.analysis.schedule.kernel_times import KernelTimes

        object.__setattr__(self, "times", KernelTimes(self.throughput, module=self.module))

    def prediction(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction | None:
        """The prediction of an operation, None if unknown; `element_type` is that of its flops, if at hand."""
        return self.times.known(instruction, cost, element_type)

    def seconds(self, instruction: Instruction, cost: Cost) -> tuple[float, bool]:
        """The predicted time of an operation as far as it is known, and whether it is known."""
        prediction = self.times.least(instruction, cost)
        return (
            (0.0, False)
            if prediction is None
            else (prediction.estimate.seconds, prediction.roofline.bound != "unknown")
        )

    def describe(self, instruction: Instruction, cost: Cost) -> str:
        """The estimated and the minimum time of an operation, and its bottleneck."""
        prediction = self.times.known(instruction, cost)
        if prediction is None:
            return "unknown"
        bound, estimate, _ = prediction
        bottleneck = "no cost" if bound.bound == "free" else f"{bound.bound}-bound"
        seconds = format_seconds_range(estimate.low, estimate.seconds, estimate.high)
        least = f"; at least {format_seconds(bound.at_least_seconds)}" if bound.at_least_seconds else ""
        return f"about {seconds}, {bottleneck}{least}"


def timing_of(loaded: Loaded, throughput: ChipSpec | None) -> TimingColumns | None:
    """The time columns for a module; None without a chip."""
    if throughput is None:
        return None
    return TimingColumns(throughput, loaded.module, is_unfused=stage_of(loaded) == "before optimization")


def columns_for(timing: TimingColumns | None) -> tuple[Column[Prediction | None], ...]:
    """The columns that a chip adds: the bound of an operation, its predicted and its minimum time; else none."""
    if timing is None:
        return ()
    # times of operations that are yet to be fused must not pass for those of kernels
    titled = (
        replace(each, title=TIME_TITLES[timing.is_unfused]) if each.title == "est." else each for each in _TIME_COLUMNS
    )
    return unknown_without(tuple(titled))


def _model_columns_for(timing: TimingColumns | None) -> tuple[Column[Prediction | None], ...]:
    """XLA's own account of a kernel; empty for one that its model does not cover, and without a chip."""
    return () if timing is None else tuple(with_cell(column, _of_kernel(column)) for column in MODEL_COLUMNS)


def _of_kernel(column: Column[GpuKernel]) -> Callable[[Prediction | None], Cell]:
    def cell(prediction: Prediction | None) -> Cell:
        return None if prediction is None or prediction.kernel is None else row_from((column,), prediction.kernel)[0]

    return cell


def model_of(timing: TimingColumns | None) -> Mapping[str, Cell]:
    """The model of the times, for programs; empty without a chip."""
    return {"model": time_model(timing.throughput)} if timing is not None else {}


def notes_on_costs(
    loaded: Loaded, timing: TimingColumns | None, *, counts_loops: bool = False
) -> tuple[Diagnostic, ...]:
    """Notes on how times are estimated and how costs are counted."""
    times: tuple[Diagnostic, ...] = ()
    if timing is not None:
        kernels = Diagnostic("note", kernel_times_in_words(timing.throughput))
        times = (*time_notes(timing.throughput, loaded.module), kernels)
        if timing.is_unfused:
            words = (
                "operations are timed before fusion; `hlo schedule --chip NAME` times the module after fusion by rule"
            )
            times = (*times, Diagnostic("note", words))
    has_loops = counts_loops and any(instruction.opcode == opcodes.WHILE for instruction in loaded.module.instructions)
    assumptions = [
        *(["bytes exclude tile padding"] if target_of(loaded.module) == "tpu" else []),
        *(["loop bodies are counted once"] if has_loops else []),
    ]
    words = f"{_XLA_COSTS}; {', and '.join(assumptions)}" if assumptions else _XLA_COSTS
    return (*times, Diagnostic("note", words))


def total_words(flops: Number, accessed: Number, *, is_bound: bool = False) -> str:
    """The flops and the bytes accessed of a module; `is_bound` if operations of unknown cost add none."""
    return f"{'at least ' if is_bound else ''}{format_flops(round(flops))} and {format_bytes(accessed)} accessed"


def other_totals(module: Module) -> str:
    """What XLA's cost analysis counts other than one execution does, and why; empty if the totals look the same.

    >>> from hlo_cli import parse_module
    >>> copy = "s = (f32[2], f32[2], u32[]) copy-start(p)  ROOT d = f32[2] copy-done(s)"
    >>> other_totals(parse_module(f"ENTRY e {{ p = f32[2] parameter(0)  {copy} }}"))
    'XLA counts 60 B: async operations twice'
    """
    (xla_flops, xla_bytes), run = xla_totals(module), execution_cost(module)
    if total_words(xla_flops, xla_bytes) == total_words(run.flops, run.bytes):
        return ""
    flops, accessed = format_flops(xla_flops), format_bytes(xla_bytes)
    # libtpu counts padded arrays in tiles, by rules that are not public.
    accessed = f"{accessed} without padding" if target_of(module) == "tpu" else accessed
    theirs = accessed if flops == format_flops(run.flops) else f"{flops} and {accessed}"
    return f"XLA counts {theirs}: {', and '.join(reasons_for_other_totals(module)) or 'other operations'}"


# --- kernels by kind and backend ---
# Kernels of a module by kind and backend.
#
# The cost of a custom call is counted where it follows from the text, as for matmuls by cuBLAS and cuDNN.


CUSTOM_CALLS: Final = (
    "custom calls: flops are derived from matmul sizes and bytes from operand and result shapes, because XLA's cost"
    " analysis does not cover them"
)


def kernel_kinds_table(
    kernels: Sequence[Kernel], costs: Mapping[Instruction, Cost], timing: TimingColumns | None
) -> Table:
    """One row for each kind of kernel, with the total cost of all launches of its kernels."""
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.backend.kind, kernel.backend.provider), []).append(kernel)
    repeats = any(kernel.times != 1 for kernel in kernels)
    kinds = [_KernelKind(kind, provider, members) for (kind, provider), members in groups.items()]
    # transfers are no kernels, so they follow whatever their number
    kinds.sort(key=lambda kind: (kind.name == "transfer", -len(kind.kernels), str((kind.name, kind.provider))))
    predictions = {} if timing is None else _predictions(kinds, costs, timing)
    columns: tuple[Column[_KernelKind], ...] = (
        Column("kernel_kind", "kernel kind", of=lambda kind: kind.name),
        Column("provider", "provider", of=lambda kind: kind.provider),
        Column("kernels", "kernels", "count", total="sum",
               of=lambda kind: None if kind.name == "transfer" else len(kind.kernels)),
        Column("transfers", "transfers", "count", total="sum", person=any(k.is_transfer for k in kernels), rank=6,
               of=lambda kind: len(kind.kernels) if kind.name == "transfer" else None),
        Column("launches", "launches", "count", total="sum", person=repeats, of=lambda kind: kind.launches),
        Column("flops", "flops", "flops", total="sum",
               of=lambda kind: _of_launches(kind.kernels, lambda kernel: round(costs[kernel.instruction].flops))),
        Column("bytes", "accessed", "bytes", total="sum",
               of=lambda kind: (
                   _of_launches(kind.kernels, lambda kernel: round(costs[kernel.instruction].bytes_accessed)))),
        *(_of_all_launches(column, predictions) for column in columns_for(timing) if column.total),
        Column("unknown_costs", "unknown cost", "count", person=any(costs[k.instruction].unknown for k in kernels),
               of=lambda kind: sum(costs[kernel.instruction].unknown for kernel in kind.kernels)),
        Column("opcodes", "operations", rank=3, of=lambda kind: kind.opcodes),
    )  # fmt: skip
    rows = rows_from(columns, kinds)
    footnote = CUSTOM_CALLS if any(kernel.instruction.opcode == "custom-call" for kernel in kernels) else ""
    return Table("kernel_kinds", columns, rows, noun="kernel kinds", main=False, person=bool(rows), footnote=footnote)


@dataclass(frozen=True, slots=True)
class _KernelKind:
    """The kernels of one kind and provider."""

    name: str
    provider: str
    kernels: Sequence[Kernel]

    @property
    def launches(self) -> Cell:
        """How often they are launched together; unknown if that of one is. Transfers are not launched."""
        if self.name == "transfer":
            return None
        known = [kernel.times for kernel in self.kernels if kernel.times is not None]
        return sum(known) if len(known) == len(self.kernels) else UNKNOWN

    @property
    def opcodes(self) -> str:
        """Their operations with numbers, most first."""
        counts = Counter(kernel.instruction.opcode for kernel in self.kernels)
        return ", ".join(f"{opcode} {number:,}" for opcode, number in counts.most_common())


def _predictions(
    kinds: Iterable[_KernelKind], costs: Mapping[Instruction, Cost], timing: TimingColumns
) -> dict[Kernel, Prediction | None]:
    """Those of all kernels but transfers."""
    return {
        kernel: timing.prediction(kernel.instruction, costs[kernel.instruction])
        for kind in kinds
        if not kind.kernels[0].is_transfer
        for kernel in kind.kernels
    }


def _of_all_launches(
    column: Column[Prediction | None], predictions: Mapping[Kernel, Prediction | None]
) -> Column[_KernelKind]:
    """The sum of a column over kernels: unknown if one is, None for transfers, which others overlap."""

    def cell(kind: _KernelKind) -> Cell:
        if kind.kernels[0].is_transfer:
            return None
        return _of_launches(kind.kernels, lambda kernel: row_from((column,), predictions[kernel])[0])

    return with_cell(column, cell)


def _of_launches(kernels: Sequence[Kernel], cost_of: Callable[[Kernel], Cell]) -> Cell:
    """The cost of all launches of kernels; unknown if that of one is, or how often a kernel with a cost is launched."""
    total: int | float = 0
    for kernel in kernels:
        cost = number_of(cost_of(kernel))
        # nothing times an unknown number is still nothing
        if cost is None or (cost and kernel.times is None):
            return UNKNOWN
        total += cost * (kernel.times or 0)
    return total


def kernels_table(
    kernels: Sequence[Kernel],
    costs: Mapping[Instruction, Cost],
    timing: TimingColumns | None,
    *,
    fusions: Sequence[Fusion],
    module: Module,
) -> Table:
    """One row for each kernel and transfer, for programs; computed when it is read."""
    columns: tuple[Column[_KernelRow], ...] = (
        Column("instruction", "instruction", "name", role="name", of=lambda row: row.kernel.instruction.name),
        Column("opcode", "opcode", "opcode", of=lambda row: row.kernel.instruction.opcode),
        Column("kernel_kind", "kernel kind", of=lambda row: row.kernel.backend.kind),
        Column("provider", "provider", of=lambda row: row.kernel.backend.provider),
        Column("details", "details", of=lambda row: row.kernel.backend.details or None),
        Column("execution_count", "executions", "count",
               of=lambda row: UNKNOWN if row.kernel.times is None else row.kernel.times),
        Column("flops", "flops", "flops", of=lambda row: round(row.cost.flops)),
        Column("bytes", "accessed", "bytes", of=lambda row: round(row.cost.bytes_accessed)),
        Column("total_flops", "flops", "flops", of=lambda row: round(row.cost.flops) * row.runs),
        Column("total_bytes", "accessed", "bytes", of=lambda row: round(row.cost.bytes_accessed) * row.runs),
        *columns_of_part((*columns_for(timing), *_model_columns_for(timing)), lambda row: row.prediction),
        Column("read_bytes", "read", "bytes",
               of=lambda row: (
                   None
                   if row.written_bytes is None else round(row.cost.bytes_accessed) - row.written_bytes)),
        Column("written_bytes", "written", "bytes", of=lambda row: row.written_bytes),
        Column("saved_bytes", "saved", "bytes",
               of=lambda row: row.fusion.saved_bytes if row.fusion is not None else None),
        Column("total_saved_bytes", "saved", "bytes",
               of=lambda row: row.fusion.saved_bytes * row.runs if row.fusion is not None else None),
        Column("fused", "fused operations",
               of=lambda row: fused_operations(row.fusion) if row.fusion is not None else None),
        Column("computation", "computation", "name", of=lambda row: row.kernel.instruction.computation.name),
        Column("op_name", "op_name", "op_name", of=lambda row: row.kernel.instruction.metadata.op_name or None),
        Column("source", "source", "source", of=lambda row: str(row.location) if row.location is not None else None),
        Column("origin", "origin", "source", of=lambda row: row.origin if row.origin != UNKNOWN_KEY else None),
    )  # fmt: skip

    def rows() -> tuple[Row, ...]:
        keys, fused = keys_of(module, "source"), {fusion.instruction: fusion for fusion in fusions}
        return rows_from(columns, (_kernel_row(kernel, costs, timing, fused, module, keys) for kernel in kernels))

    return Table("kernels", columns, DeferredRows(rows), noun="kernels", main=False, person=False)


def fused_operations(fusion: Fusion) -> str | None:
    """The opcodes that a fusion contains, with how often each occurs; None for an empty one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.kernels import fusions_of
    >>> body = "f { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT t = f32[9] add(n, n) }"
    >>> text = f"HloModule m  {body}  ENTRY e {{ a = f32[9] parameter(0)  ROOT r = f32[9] fusion(a), calls=f }}"
    >>> fused_operations(fusions_of(parse_module(text))[0])
    'negate 1, add 1'
    """
    counts = Counter(each.opcode for each in fusion.operations)
    return ", ".join(f"{opcode} {number}" for opcode, number in counts.most_common()) or None


@dataclass(frozen=True, slots=True)
class _KernelRow:
    """A kernel with all that its row says; `origin` is the source of others that it is computed from."""

    kernel: Kernel
    cost: Cost
    prediction: Prediction | None
    fusion: Fusion | None
    location: SourceLocation | None
    origin: str

    @property
    def runs(self) -> int:
        """How often its costs count in those of an execution; once an iteration of a loop of unknown trip count."""
        return self.kernel.executions.count

    @property
    def written_bytes(self) -> int | None:
        """The bytes of its results; None if nothing is known of its memory accesses."""
        return round(self.cost.output_bytes) if self.cost.bytes_accessed or not self.cost.unknown else None


def _kernel_row(
    kernel: Kernel,
    costs: Mapping[Instruction, Cost],
    timing: TimingColumns | None,
    fused: Mapping[Instruction, Fusion],
    module: Module,
    keys: Keys,
) -> _KernelRow:
    instruction = kernel.instruction
    cost, location = costs[instruction], module.location(instruction)
    prediction = None if timing is None else timing.prediction(instruction, cost)
    # an inferred origin is only looked up where the instruction has none
    origin = keys(instruction) if location is None else UNKNOWN_KEY
    return _KernelRow(kernel, cost, prediction, fused.get(instruction), location, origin)
