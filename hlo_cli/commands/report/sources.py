"""What do the other commands say about one module? Their reports, which share what they compute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.chip_table import Chip, ChipSpec
from hlo_cli.analysis.hardware.chips import find_chip, is_tpu
from hlo_cli.analysis.hardware.target import is_pallas
from hlo_cli.analysis.layout.buffer_sizes import data_values, orders_of
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.origin.origins import UNKNOWN_KEY, Keys
from hlo_cli.analysis.query.module_summary import ProgramStage
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.commands.fuse.costs import report_of_causes as kernels_by_cause
from hlo_cli.commands.fuse.fusion_table import report_of_fusions
from hlo_cli.commands.fuse.kernel_kinds import timing_of
from hlo_cli.commands.layout.dump import report_of_dump as report_of_padding
from hlo_cli.commands.layout.sums import causes_table, footprints_by_cause
from hlo_cli.commands.lint.checking import lint_loaded, new_findings, read_baseline
from hlo_cli.commands.lint.configuration import chip_setting, load_config
from hlo_cli.commands.lint.report import in_order, report_of
from hlo_cli.commands.memspace.compiler_files import compiler_memory
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.report import report_of_memory
from hlo_cli.commands.modules.by import keys_for
from hlo_cli.commands.modules.loading import Loaded, bounded_report, stage_of
from hlo_cli.commands.options.chips import chip_of, chosen_throughput, throughput_for
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.schedule.async_table import report_of_pairs, transfers_by_cause, transfers_of
from hlo_cli.commands.schedule.sequence import report_of_steps
from hlo_cli.commands.shard.comms import report_of_comms
from hlo_cli.commands.shard.dump import report_of_dump as report_of_arguments
from hlo_cli.commands.shard.options import ShardOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Row, Table, number_of, rows_from, rows_from_tuples, with_cell
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:  # numpy is imported for a profile, not for every report
    from hlo_cli.analysis.profile.operation_times import MeanTime, MeanTimes
    from hlo_cli.analysis.profile.profile import Operation
    from hlo_cli.commands.profile.measured import LoadedProfile, Measured

# --- findings ---
# The findings of `hlo lint` on a module that is read already, with the settings of the working directory.


_BY_COST = "cost"


def _report_of_findings(
    loaded: Loaded, options: ReportOptions, argument: str, profile: LoadedProfile | None = None
) -> Report:
    """What `hlo lint` reports: errors first, then the findings that cost most; those of a baseline are only counted.

    With a profile, those on kernels that take most time are first.
    """
    given = {"chip": chip_setting(options.chip, options.chip_file)}
    config = load_config(given, (), isolated=False)
    name = config.settings.chip if options.chip_file is None else options.chip
    result = lint_loaded(loaded, config.settings, chip=chosen_throughput(name, options.chip_file))
    found = result.found
    if config.baseline is not None:
        found = tuple(new_findings(found, read_baseline(config.baseline)))
    measured = None
    if profile is not None:
        from hlo_cli.commands.lint.measured import measured_findings

        measured = measured_findings(found, result, profile, loaded)
    found = found if measured is None else measured.found
    return report_of(result, in_order(found, _BY_COST), config.settings, argument, measured=measured)


# --- costs of source lines ---
# Launches, bytes, flops, time, bytes at the peak, exposed transfers, and padding of each line.


_SOURCE: Final = "source"
_RANKING_COLUMNS: Final = ("measured_seconds", "seconds", "bytes", "peak_bytes")


@dataclass(frozen=True, slots=True)
class LineCosts:
    """The tables of `--by source` of fuse, memspace, schedule, and layout, and measured times if there is a profile."""

    kernels: Table
    memory: Table
    transfers: Table
    padding: Table
    measured: Table | None = None


@dataclass(frozen=True, slots=True)
class _CostColumn:
    """A column of one of the tables under the name that it has among all of them."""

    table: Table
    name: str
    column: Column


def lines_table(costs: LineCosts, space: str | None) -> Table:
    """One row for each source line of any of the tables; those that need most time, or access most bytes, are first.

    `space` is the memory whose peak has a column. A line without a row in a table has none of its costs: 0.
    """
    found = {id(each): _rows_by_line(each, space) for each in _tables_of_costs(costs)}
    columns: tuple[Column[str], ...] = (
        Column("source", "source line", "source", role="name", of=lambda line: line),
        *(with_cell(each.column, _cost_of(each, found[id(each.table)])) for each in _cost_columns(costs, space)),
    )
    rows = rows_from(columns, dict.fromkeys(line for by_line in found.values() for line in by_line))
    ranked = sorted(rows, key=lambda row: _line_rank(columns, row))
    return Table("lines", columns, tuple(ranked), noun="lines", main=False, person=False)


def _cost_of(cost: _CostColumn, rows: Mapping[str, Row]) -> Callable[[str], Cell]:
    return lambda line: _cost_cell(cost, rows.get(line))


def describe_lines(table: Table) -> str:
    """Which line takes most measured or estimated time, or accesses most bytes, and its share in all."""
    name = next((name for name in ("measured_seconds", "seconds", "bytes") if column_sum(table, name)), None)
    if name is None:
        return "No costs by source line."
    at = table.column_index(name)
    line = max(table.rows, key=lambda row: number_of(row[at]) or 0)
    part, whole = number_of(line[at]) or 0, column_sum(table, name)
    amount = format_bytes(part) if name == "bytes" else format_seconds(part)
    verb = {"measured_seconds": "takes", "seconds": "needs", "bytes": "accesses"}[name]
    among = f" among {format_count(len(table.rows), 'lines')}" if len(table.rows) > 1 else ""
    return f"{os.path.basename(str(line[0]))} {verb} most: {amount} ({format_percent(part / whole)}%){among}."


def _cost_columns(costs: LineCosts, space: str | None) -> list[_CostColumn]:
    """The columns, of the tables that have them."""
    place = f"at {space} peak" if space else "at peak"
    measured = costs.measured or Table("by_source", (), ())
    times = Column("seconds", "est. time", "seconds", total="sum")
    wanted = (
        (measured, "measured_seconds", Column("measured_seconds", "measured", "seconds", total="sum")),
        (costs.kernels, "total_seconds", replace(times, title=_time_title(costs.kernels))),
        (costs.kernels, "unknown_times", Column("unknown_times", "unknown time", "count", total="sum")),
        (costs.kernels, "total_bytes", Column("bytes", "accessed", "bytes", total="sum")),
        (costs.kernels, "total_flops", Column("flops", "flops", "flops", total="sum")),
        (costs.kernels, "kernels", Column("kernels", "kernels", "count", total="sum")),
        (costs.kernels, "launches", Column("launches", "launches", "count", total="sum")),
        (costs.memory, "bytes", Column("peak_bytes", place, "bytes", total="sum")),
        (costs.transfers, "exposed_seconds", Column("exposed_seconds", "exposed", "seconds", total="sum")),
        (
            costs.transfers,
            "unoverlapped_bytes",
            Column("unoverlapped_bytes", "no overlap", "bytes", total="sum", role="waste"),
        ),
        (
            costs.transfers,
            "synchronous_bytes",
            Column("synchronous_bytes", "sync", "bytes", total="sum", role="waste"),
        ),
        (costs.padding, "padding_bytes", Column("padding_bytes", "padding", "bytes", total="sum", role="waste")),
        (costs.padding, "saving_bytes", Column("saving_bytes", "saving", "bytes", total="sum", role="saving")),
    )
    return [
        _CostColumn(table, name, column)
        for table, name, column in wanted
        if any(each.name == name for each in table.columns)
    ]  # fmt: skip


def _time_title(kernels: Table) -> str:
    """The title of times: `est. unfused` if those of the table are of operations that are not fused yet."""
    title = next((each.title for each in kernels.columns if each.name == "total_seconds"), "est.")
    return "est. time" if title == "est." else title


def _tables_of_costs(costs: LineCosts) -> Sequence[Table]:
    found = (costs.kernels, costs.memory, costs.transfers, costs.padding)
    return found if costs.measured is None else (*found, costs.measured)


def _rows_by_line(table: Table, space: str | None) -> Mapping[str, Row]:
    """The row of each line; in a table with several memories, that of one."""
    names = [column.name for column in table.columns]
    if _SOURCE not in names:
        return {}
    at, spaces = names.index(_SOURCE), names.index("space") if "space" in names else None
    return {str(row[at]): row for row in table.rows if spaces is None or row[spaces] == space}


def _cost_cell(cost: _CostColumn, row: Row | None) -> Cell:
    return 0 if row is None else row[cost.table.column_index(cost.name)]


def _line_rank(columns: Sequence[Column], row: Row) -> tuple[float, float, float, float, str]:
    """Most measured time first, then most estimated time, then most bytes accessed, then most bytes at the peak."""
    numbers = {column.name: number_of(cell) or 0 for column, cell in zip(columns, row, strict=True)}
    first, second, third, last = (-numbers.get(name, 0) for name in _RANKING_COLUMNS)
    return first, second, third, last, str(row[0])


def column_sum(table: Table, name: str) -> float:
    """The sum of a column as far as it is known; 0 if the table has no such column."""
    if all(column.name != name for column in table.columns):
        return 0
    at = table.column_index(name)
    return sum(number_of(row[at]) or 0 for row in table.rows)


# --- measured times ---
# Those of a module in a profile: by instruction, next to the prediction, and by source line.


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A measured operation with its time, and its instruction in the module of the dump, None if it has none."""

    operation: Operation
    time: MeanTime
    instruction: Instruction | None


@dataclass(frozen=True, slots=True)
class MeasuredModule:
    """The measured times of one module: kernels with their times per unit, most time of the trace first.

    `seconds` is the sum per unit, `step_seconds` the median duration of whole steps, None if there are none; `missing`
    is the number of kernels that the module does not have, and `notes` are on its trip counts.
    """

    measured: Measured
    means: MeanTimes
    kernels: tuple[TimedKernel, ...]
    seconds: float
    step_seconds: float | None
    missing: int
    notes: tuple[Diagnostic, ...]

    @property
    def per(self) -> str:
        """The unit in words."""
        from hlo_cli.commands.profile.timed import per_words

        return per_words(self.measured.profile, self.means)


def longest_module(profile: LoadedProfile) -> str | None:
    """The name of the program that takes most time in a profile; None if there is none."""
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import longest_program

    program = longest_program(Measured(profile).every)
    return None if program is None else program.name


def _measured_module(
    profile: LoadedProfile, loaded: Loaded, chip: ChipSpec | None, notes: tuple[Diagnostic, ...] = ()
) -> MeasuredModule:
    """The times of a module in a profile; HloError if it did not run, or if another compilation of it did."""

    from hlo_cli.analysis.profile.executions import steps_of_program
    from hlo_cli.analysis.profile.operation_times import has_steps, mean_times
    from hlo_cli.analysis.profile.profile import MIN_SHARE, program_of
    from hlo_cli.commands.profile.measured import Measured, program_id
    from hlo_cli.ir.traces.trace import PS

    found, module = profile.profile, loaded.module
    names = {instruction.name: instruction for instruction in module.instructions}
    program = program_of(found, module, proto=loaded.input.proto, id=program_id(loaded.input))
    if program is None:
        there = ", ".join(each.name for each in found.programs[:3]) or "no program"
        raise HloError(f"module {module.name} is not in the profile", hint=f"{profile.path} has {there}")
    # The executions of another program are no unit of this one.
    found = steps_of_program(found, program)
    means = mean_times(found)
    pairs = [each for each in zip(found.operations, means.times, strict=True) if each[0].program is program]
    if pairs and not any(time.calls for _, time in pairs):  # all of it ran outside of the steps
        means = mean_times(found, per_unit=False)
        pairs = [each for each in zip(found.operations, means.times, strict=True) if each[0].program is program]
    own = [TimedKernel(operation, time, names.get(operation.name)) for operation, time in pairs]
    missing = sum(each.instruction is None for each in own)
    if missing > (1 - MIN_SHARE) * len(own):
        part = f"{missing:,} of {format_count(len(own), 'kernels')} are not in the dump"
        hint = "profile the same compilation, or report the trace itself"
        raise HloError(f"the profile is of another compilation: {part}", hint=hint)
    steps = [step.duration_ps * PS for step in found.steps if step.is_whole]
    own.sort(key=lambda each: (-each.time.busy_seconds, each.operation.name))
    return MeasuredModule(
        Measured(replace(profile, profile=found), chip=chip),
        means,
        tuple(own),
        sum(each.time.seconds for each in own),
        median(steps) if steps and has_steps(found) else None,
        missing,
        notes,
    )


def _report_of_measured(measured: MeasuredModule, kernels: Table | None, keys: Keys) -> Report:
    """The kernels with their measured times; `kernels` has predictions, if a chip is given, and `keys` source lines."""
    from hlo_cli.commands.profile.budget import budget_table
    from hlo_cli.commands.profile.by_operation import executions_table

    predicted, found = _predictions(kernels), measured.measured
    table = _measured_table(measured, predicted, keys)
    others = (each for each in (budget_table(found), executions_table(found)) if each is not None)
    return Report(
        "profile",
        _measured_answer(measured),
        numbers=_measured_numbers(measured, predicted),
        parts=(*others, table),
        notes=(*measured.notes, *_missing_notes(measured), *found.time_notes, *found.loaded.notes),
    )


def _measured_answer(measured: MeasuredModule) -> str:
    """The time per step, of which it is the mean, and the longest kernel with its share as `hlo profile` has it."""
    if not measured.kernels or not measured.seconds:
        return "No measured time"
    first, number = measured.kernels[0], len(measured.kernels)
    from hlo_cli.commands.profile.timed import mean_words
    from hlo_cli.commands.profile.utilization import utilization_facts

    mean = f" ({words})" if (words := mean_words(measured.means)) else ""
    takes = f"{format_count(number, 'kernels')} {verb(number, 'takes', 'take')}"
    words = f"{takes} {format_seconds(measured.seconds)} {measured.per}{mean}"
    whole = measured.measured.whole_words
    facts = "".join(f"; {fact}" for fact in utilization_facts(measured.measured.utilization))
    return f"{words}; {first.operation.name} takes {format_percent(first.time.share)}% of {whole}{facts}"


def _predictions(kernels: Table | None) -> Mapping[str, float]:
    """Predicted seconds per call by the name of the kernel."""
    names = [] if kernels is None else [column.name for column in kernels.columns]
    if kernels is None or "estimated_seconds" not in names:
        return {}
    at, name = names.index("estimated_seconds"), names.index("instruction")
    return {str(row[name]): seconds for row in kernels.rows if (seconds := number_of(row[at])) is not None}


def _measured_table(measured: MeasuredModule, predicted: Mapping[str, float], keys: Keys) -> Table:
    group = measured.per

    def seconds(kernel: TimedKernel) -> float | None:
        name = kernel.operation.name
        return predicted[name] * kernel.time.calls if name in predicted else None

    def factor(kernel: TimedKernel) -> float | None:
        expected = seconds(kernel)
        return kernel.time.seconds / expected if expected else None

    columns: tuple[Column[TimedKernel], ...] = (
        Column("measured_seconds", "measured", "seconds", total="sum", group=group,
               of=lambda kernel: kernel.time.seconds),
        Column("share", "share", "percent", total="sum", of=lambda kernel: kernel.time.share),
        Column("calls", "calls", "count", group=group, rank=6, of=lambda kernel: kernel.time.calls),
        Column("mean_seconds", "avg", "seconds", rank=6,
               of=lambda kernel: kernel.time.seconds / kernel.time.calls if kernel.time.calls else None),
        *(
            (
                Column(
                    "predicted_total_seconds",
                    "predicted",
                    "seconds",
                    total="sum",
                    like="measured_seconds",
                    group=group,
                    of=seconds,
                ),
                Column("factor", "factor", "ratio", of=factor),
            )
            if predicted
            else ()
        ),
        Column("instruction", "instruction", "name", of=lambda kernel: kernel.operation.name),
        Column("category", "category", rank=5, of=lambda kernel: kernel.operation.category or None),
        Column("source", "source", "source", rank=5,
               of=lambda kernel: None if kernel.instruction is None else keys(kernel.instruction)),
        Column("op_name", "op_name", "op_name", rank=4, from_width=120,
               of=lambda kernel: kernel.operation.op_name or None),
    )  # fmt: skip
    rows = rows_from(columns, measured.kernels)
    return Table("measured", columns, rows, noun="kernels", main=False)


def _measured_numbers(measured: MeasuredModule, predicted: Mapping[str, float]) -> dict[str, Cell]:
    from hlo_cli.commands.profile.utilization import utilization_numbers

    timed = [each for each in measured.kernels if each.operation.name in predicted]
    compared = sum(each.time.seconds for each in timed)
    return {
        "unit": measured.means.unit,
        "units": measured.means.count,
        "devices": len(measured.measured.profile.devices),
        "measured_seconds": measured.seconds,
        "step_seconds": measured.step_seconds,
        "kernels": len(measured.kernels),
        "missing": measured.missing,
        "predicted_seconds": sum(predicted[each.operation.name] * each.time.calls for each in timed) if timed else None,
        "predicted_kernels": len(timed) if timed else None,
        "compared_seconds": compared if timed else None,
        **utilization_numbers(measured.measured),
    }


def _missing_notes(measured: MeasuredModule) -> Iterator[Diagnostic]:
    if measured.missing:
        subject = f"{format_count(measured.missing, 'measured operations')} {verb(measured.missing, 'is', 'are')}"
        yield Diagnostic("note", f"{subject} not in the module")


def _measured_by_source(measured: MeasuredModule, keys: Keys) -> Table:
    """Measured seconds by source line."""
    found: dict[str, float] = {}
    for each in measured.kernels:
        source = UNKNOWN_KEY if each.instruction is None else keys(each.instruction)
        found[source] = found.get(source, 0.0) + each.time.seconds
    columns = (
        Column("source", "source", "source", of=lambda source, seconds: source),
        Column("measured_seconds", "measured", "seconds", total="sum", of=lambda source, seconds: seconds),
    )
    return Table("by_source", columns, rows_from_tuples(columns, found.items()), noun="lines")


# --- all reports ---
# Those of the other commands on one module, which share what they compute.


@dataclass(frozen=True, slots=True)
class Sources:
    """The report of each command, and what the verdicts need besides.

    `memory_chip` is the chip whose memories limit the program, `chip_spec` the rates of time estimates.
    """

    loaded: Loaded
    stage: ProgramStage
    memory_analysis: MemoryAnalysis
    memory_chip: Chip | None
    chip_spec: ChipSpec | None
    memory: Report
    schedule: Report
    steps: Report
    fusions: Report
    collectives: Report
    arguments: Report
    padding: Report
    findings: Report
    costs_by_line: LineCosts
    measured: Report | None = None
    timeline: Report | None = None
    pallas: Report | None = None

    @property
    def reports(self) -> tuple[Report, ...]:
        """All of them, in the order of the page."""
        first = (self.memory, self.schedule, self.steps, self.fusions)
        measured = tuple(each for each in (self.measured, self.timeline) if each is not None)
        pallas = () if self.pallas is None else (self.pallas,)
        return (*measured, *first, *pallas, self.collectives, self.arguments, self.padding, self.findings)

    @property
    def numbers(self) -> Mapping[str, Cell]:
        """The numbers of each command, by the name of the command."""
        named = {
            "memspace": self.memory,
            "schedule": self.schedule,
            "fuse": self.fusions,
            "comms": self.collectives,
            "shard": self.arguments,
            "layout": self.padding,
            "lint": self.findings,
        }
        if self.measured is not None:
            named["profile"] = self.measured
        if self.pallas is not None:
            named["kernel"] = self.pallas
        return {name: dict(report.numbers) for name, report in named.items()}


def sources_of(loaded: Loaded, options: ReportOptions, argument: str) -> Sources:
    """Runs every analysis of the page once."""
    loaded, profile, measured = _with_profile(loaded, options)
    spec = throughput_for(loaded.input, options.chip, options.chip_file)
    timing = timing_of(loaded, spec)
    chip = _memory_chip(loaded, options)
    name = None if chip is None else chip.name
    memory = compiler_memory(loaded, chip=name)
    overlap = analyze_overlap(loaded.module)
    sharding = ShardOptions(comms=True, chip=options.chip, chip_file=options.chip_file)
    of_memory = report_of_memory(loaded, memory, MemspaceOptions(space="all", chip=name), argument)
    kernels = kernels_by_cause(loaded, "source", within=None, where=None, timing=timing, argument=argument)
    transfers = transfers_of(loaded, overlap, None, spec)
    pairs = report_of_pairs(loaded, overlap, within=None, where=None, argument=argument, selected=transfers)
    steps = report_of_steps(loaded, overlap, space=None, within=None, where=None, throughput=spec, memory=memory)
    fusions = report_of_fusions(loaded, within=None, where=None, timing=timing, argument=argument)
    keys = keys_for(loaded, "source")
    return Sources(
        loaded=loaded,
        stage=stage_of(loaded),
        memory_analysis=memory,
        memory_chip=chip,
        chip_spec=spec,
        memory=of_memory,
        schedule=_bounded(pairs, loaded, spec),
        steps=_bounded(steps, loaded, spec),
        fusions=_bounded(fusions, loaded, spec),
        collectives=report_of_comms(loaded, sharding, argument),
        arguments=report_of_arguments(loaded, ShardOptions(), argument),
        padding=report_of_padding(loaded, argument=argument),
        findings=_report_of_findings(loaded, options, argument, profile),
        costs_by_line=LineCosts(
            kernels=_table_by_source(kernels),
            memory=_table_by_source(of_memory),
            transfers=transfers_by_cause(loaded, transfers, "source"),
            padding=_padding_by_source(loaded),
            measured=None if measured is None else _measured_by_source(measured, keys),
        ),
        measured=None if measured is None else _report_of_measured(measured, _kernels_of(fusions), keys),
        timeline=None if measured is None else _report_of_events(measured.measured),
        pallas=_report_of_pallas(loaded, spec, argument),
    )


def _report_of_pallas(loaded: Loaded, spec: ChipSpec | None, argument: str) -> Report | None:
    """What `hlo kernel` reports, under a name that no other table has; None for a module without Pallas kernels."""
    if not any(map(is_pallas, loaded.module.instructions)):
        return None
    from hlo_cli.commands.kernel.kernel_list import report_of_kernels

    report = report_of_kernels(loaded, spec if spec is None or is_tpu(spec.chip) else None, None, argument)
    tables = [replace(each, name="pallas_kernels") for each in report.tables if each.name == "kernels"]
    return replace(report, parts=tuple(tables))


def _report_of_events(measured: Measured) -> Report | None:
    """What ran when in the step of median duration; None of a trace that has only sums."""
    from hlo_cli.commands.profile.by_group import has_event_times, report_of_timeline

    if not has_event_times(measured):
        return None
    timeline = report_of_timeline(measured, None)
    return replace(timeline, notes=())


def _with_profile(loaded: Loaded, options: ReportOptions) -> tuple[Loaded, LoadedProfile | None, MeasuredModule | None]:
    """The module with measured trip counts, the profile, and the measured times of the module.

    Of many modules, those that did not run have none.
    """
    if options.profile is None:
        return loaded, None, None
    from hlo_cli.commands.profile.measured import read_profile, with_measured_trips

    profile = read_profile(options.profile, (loaded.input.path,) if loaded.input.path else (), InputOptions())
    try:
        loaded, notes = with_measured_trips(loaded, profile.profile)
        chip = chosen_throughput(options.chip, options.chip_file)
        return loaded, profile, _measured_module(profile, loaded, chip, notes)
    except HloError:
        if not options.each:
            raise
        return loaded, profile, None


def _kernels_of(report: Report) -> Table | None:
    """The table of kernels, with predictions if a chip is given."""
    return next((table for table in report.tables if table.name == "kernels"), None)


def _memory_chip(loaded: Loaded, options: ReportOptions) -> Chip | None:
    """The chip that is given, else the one that the dump names; None for one that only a file describes."""
    name = chip_of(loaded.input, options.chip, options.chip_file)
    return None if name is None else find_chip(name)


def _bounded(report: Report, loaded: Loaded, spec: ChipSpec | None) -> Report:
    """A report with times, as the commands bound it."""
    return bounded_report(report, loaded, has_times=spec is not None)


def _padding_by_source(loaded: Loaded) -> Table:
    """The table of `hlo layout --by source`."""
    values, keys = data_values(loaded.module), keys_for(loaded, "source")
    return causes_table(footprints_by_cause(values, orders_of(loaded.module, values), keys), keys)


def _table_by_source(report: Report) -> Table:
    found = next((part for part in report.parts if isinstance(part, Table) and part.name == "by_source"), None)
    return found if found is not None else Table("by_source", (), ())
