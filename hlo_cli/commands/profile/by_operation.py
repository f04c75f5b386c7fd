"""Where did the time go, operation by operation? The longest, the exposed transfers, and the time lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from hlo_cli.analysis.profile.critical_path import waited_by_operation
from hlo_cli.analysis.profile.measure import MAIN, Measure, over_peak, program_rates
from hlo_cli.analysis.profile.operation_times import TransferTime, touched_tiles, transfer_times
from hlo_cli.commands.profile.budget import budget_answer, budget_table, next_of_budget
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import NO_INSTRUCTION, Sum, Timed, longest_of, longest_program, rank, sum_of
from hlo_cli.commands.profile.utilization import utilization_facts, utilization_numbers, utilization_words
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, wrapped_opcode
from hlo_cli.ir.traces.trace import PS
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, list_first, plural
from hlo_cli.report.report import Report
from hlo_cli.report.table import KEEP, Cell, Column, Share, Table, columns_of_part, row_from, rows_from, with_cell
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.executions import ProgramExecutions
    from hlo_cli.analysis.sharding.collectives import Collective

# --- the first line ---


_DEVICE_NOUNS: Final = {"TPU": "core"}
_MAX_NAMED: Final = 3
"""How many instructions above the roof a sentence names."""
_MIN_PART: Final = 3
"""The first line names a kind of instructions if the longest one takes less than this part of the kind's time."""


def answer_of(measured: Measured) -> str:
    """What takes most of the time: an instruction, a kind of instructions, kernels without one, or waiting for work."""
    selected, seconds = measured.selected, measured.whole
    if not selected:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    longest = longest_of(selected)
    if not seconds or not longest.measure.self_time:
        return f"{format_count(sum(each.measure.events for each in selected), 'events')} of no measurable time"
    if measured.is_narrowed:
        words = f"{format_count(len(selected), 'operations')}: {_share(measured, selected)}"
        return f"{words} of {measured.whole_words}"
    if budget := budget_answer(measured):
        return budget
    # A device that is idle for most of the time waits for something else than its kernels.
    if measured.idle > seconds / 2:
        is_one = len(measured.profile.devices) == 1
        subject = f"The {measured.device_noun} is" if is_one else f"The {measured.device_noun}s are"
        idle = f"{subject} idle for {format_percent(measured.idle / seconds)}% of {measured.whole_words}"
        return f"{idle}; {_subject(measured, longest)} takes {_share(measured, [longest])}"
    kind = _largest_kind(selected)
    if len(kind) > 1 and longest.measure.busy_time < sum(each.measure.busy_time for each in kind) / _MIN_PART:
        first = longest_of(kind)
        name, roof = kind[0].operation.category, sum_of(kind).roof
        words = f"{len(kind):,} {plural_of_kind(name)} take {_share(measured, kind)} of {measured.whole_words}"
        words += f" at {format_percent(roof)}% of the roofline" if roof else ""
        return f"{words}; the slowest, {first.operation.name}, takes {_share(measured, [first])}"
    words = f"{_subject(measured, longest)} takes {_share(measured, [longest])} of {measured.whole_words}"
    return words + _roof_words(longest)


def _share(measured: Measured, timed: Sequence[Timed]) -> str:
    """The part of the time of all devices that operations take, in percent."""
    return f"{format_percent(sum(each.measure.busy_time for each in timed) / measured.whole)}%"


def plural_of_kind(category: str) -> str:
    """The plural of a category of a profiler, or of an opcode.

    >>> plural_of_kind("loop fusion"), plural_of_kind("non-fusion elementwise"), plural_of_kind("all-reduce")
    ('loop fusions', 'non-fusion elementwise operations', 'all-reduces')
    """
    return f"{category} operations" if category.endswith(_ADJECTIVES) else plural(category)


_ADJECTIVES: Final = ("elementwise", "formatting", "processing", "handling", "unknown")
"""Ends of categories of XProf that are not countable, such as `data formatting`."""


def _largest_kind(selected: Sequence[Timed]) -> Sequence[Timed]:
    """The instructions of the category that takes most time."""
    kinds: dict[str, list[Timed]] = {}
    for each in selected:
        if each.operation.is_joined and each.operation.category:
            kinds.setdefault(each.operation.category, []).append(each)
    return max(kinds.values(), key=lambda kind: sum(each.measure.busy_time for each in kind), default=[])


def _subject(measured: Measured, longest: Timed) -> str:
    """The longest operation, with its module if that is not the one that takes most time."""
    operation = longest.operation
    if not longest.is_named:
        return f"kernel {operation.name}"
    kind = operation.category if operation.category not in ("", operation.name.partition(".")[0]) else ""
    words = f"{operation.name} ({kind})" if kind else operation.name
    program, largest = operation.program, longest_program(measured.every)
    return words if program is None or largest in (None, program) else f"{words} of {program.name}"


def _roof_words(longest: Timed) -> str:
    """How much of the peak the longest operation reaches; empty if unknown."""
    rates = longest.rates
    if not rates.efficiency:
        return ""
    limit = {"compute": "flops", MAIN: "memory bandwidth"}.get(rates.bound_by, f"{rates.bound_by} bandwidth")
    reason = over_peak(longest.operation, rates)
    return f", at {format_percent(rates.efficiency)}% of the peak {limit}{f': {reason}' if reason else ''}"


def _over_peak_words(timed: Sequence[Timed]) -> Iterator[str]:
    """A sentence for each reason why instructions exceed the roof."""
    reasons: dict[str, list[str]] = {}
    for each in timed:
        if reason := over_peak(each.operation, each.rates):
            reasons.setdefault(reason, []).append(each.operation.name)
    for reason, names in reasons.items():
        yield f"Over 100% of the roofline: {list_first(names, _MAX_NAMED)}; {reason}."


def facts_of(measured: Measured) -> Passage:
    """Devices, steps, idle time, and programs, in one paragraph."""
    profile, seconds = measured.profile, measured.whole
    named = [each for each in measured.in_module if each.is_named]
    kind = profile.device_type or (profile.peaks.chip.upper() if profile.peaks else "") or profile.platform
    # The name of a GPU is its kind: `8 NVIDIA H100`, but `8 TPU v5e cores`.
    noun = "" if profile.platform == "GPU" and kind != "GPU" else f" {_DEVICE_NOUNS.get(profile.platform, 'device')}"
    count = len(profile.devices)
    facts = [f"{count:,} {kind}{noun}{'s' if noun and count != 1 else ''}", *_steps_words(measured)]
    facts += [f"{format_percent(measured.idle / seconds)}% idle"] if seconds else []
    facts += utilization_facts(measured.utilization)
    facts.append(f"{format_count(len(named), 'instructions')}{_modules_words(named)}")
    if others := [each for each in measured.in_module if not each.is_named]:
        part = sum(each.measure.busy_time for each in others) / seconds if seconds else 0.0
        facts.append(f"{format_count(len(others), 'kernels')} without an instruction ({format_percent(part)}%)")
    return Passage("facts", (" · ".join(facts),))


def _steps_words(measured: Measured) -> list[str]:
    if len(measured.executions) > 1:
        return executions_words(measured.executions)
    steps, noun = measured.profile.steps, measured.step_noun
    durations = [step.duration_ps * PS for step in steps if step.is_whole]
    words = []
    if durations:
        time = format_seconds(median(durations))
        words.append(f"{format_count(len(durations), noun)} of {time}{' (median)' if len(durations) > 1 else ''}")
    if partial := len(steps) - len(durations):
        words.append(format_count(partial, f"partial {noun}"))
    return words or ["no steps"]


def executions_words(several: Sequence[ProgramExecutions]) -> list[str]:
    """How often each of several programs ran, and how long: one median of different programs is that of none."""
    words = []
    for each in several[:_MAX_PROGRAMS]:
        partial = [format_count(each.partial, "partial executions")] if each.partial else []
        whole = [f"{format_count(len(each), 'executions')} of {_duration_words(each)}"] if len(each) else []
        words.append(f"{each.program.name}: {', '.join((*whole, *partial))}")
    if rest := several[_MAX_PROGRAMS:]:
        words.append(f"{format_count(sum(map(len, rest)), 'executions')} of {format_count(len(rest), 'modules')} more")
    return words


def _duration_words(each: ProgramExecutions) -> str:
    """How long the executions of a program were: the median, or both of two."""
    if len(each) == 2:
        return " and ".join(format_seconds(int(duration) * PS) for duration in each.durations_ps)
    return f"{format_seconds(each.median or 0.0)}{' (median)' if len(each) > 1 else ''}"


_MAX_PROGRAMS: Final = 3
"""Of so many programs the executions are named in the line of facts, which is a paragraph; all are in a table."""


def executions_table(measured: Measured) -> Table | None:
    """One row for each program that ran, where several did and no steps are marked; else None."""
    if len(measured.executions) < 2:
        return None
    columns: tuple[Column[ProgramExecutions], ...] = (
        Column("module_executions", "executions", "count", total="sum", of=len),
        Column("module_partial_executions", "partial", "count", total="sum",
               person=any(each.partial for each in measured.executions), of=lambda each: each.partial),
        Column("execution_median_seconds", "median", "seconds", of=lambda each: each.median),
        Column("execution_first_seconds", "first", "seconds", of=lambda each: each.first),
        Column("execution_greatest_seconds", "max", "seconds", of=lambda each: each.greatest),
        Column("self_seconds", "self", "seconds", total="sum", of=lambda each: each.seconds),
        Column("module", "module", of=lambda each: each.program.name),
    )  # fmt: skip
    rows = rows_from(columns, measured.executions)
    return Table("executions", columns, rows, title="executions of each module", noun="modules", main=False)


def _modules_words(named: Sequence[Timed]) -> str:
    counts: dict[str, int] = {}
    for each in named:
        if each.operation.program is not None:
            counts[each.operation.program.name] = counts.get(each.operation.program.name, 0) + 1
    if not counts:
        return ""
    first = max(counts, key=lambda name: counts[name])
    return f" of {first}" + (f" and {format_count(len(counts) - 1, 'other modules')}" if len(counts) > 1 else "")


def numbers_of(measured: Measured) -> dict[str, Cell]:
    """The numbers of the first lines, for programs; times are those of all devices together."""
    profile = measured.profile
    durations = [step.duration_ps * PS for step in profile.steps if step.is_whole]
    # They count in the sums, but no row can be looked up in a dump: readers of the numbers should know how many.
    others = [each.measure for each in measured.every if not each.operation.is_joined]
    program = program_rates(profile, [each.measure for each in measured.every])
    return {
        "devices": len(profile.devices),
        "steps": len(durations),
        "partial_steps": len(profile.steps) - len(durations),
        "step_seconds": median(durations) if durations else None,
        "seconds": measured.whole,
        "busy_seconds": measured.busy,
        "self_seconds": measured.sum.self_time,
        "idle_seconds": measured.idle,
        "operations": len(measured.every),
        "selected_operations": len(measured.selected),
        "selected_self_seconds": sum(each.measure.self_time for each in measured.selected),
        "events": measured.sum.events,
        "events_without_instruction": sum(measure.events for measure in others),
        "seconds_without_instruction": sum(measure.self_time for measure in others),
        "flop_rate": program.flops,
        "byte_rate": program.bytes,
        "roofline_fraction": program.efficiency,
        **utilization_numbers(measured),
        **measured.roofs.facts,
    }


# --- columns of times ---


EVENT_COLUMNS: Final[tuple[Column[Measure], ...]] = (
    Column("least_seconds", "min", "seconds", from_width=200, of=lambda measure: measure.least),
    Column("median_seconds", "median", "seconds", from_width=200, of=lambda measure: measure.median),
    Column("greatest_seconds", "max", "seconds", from_width=200, of=lambda measure: measure.greatest),
    Column("deviation_seconds", "deviation", "seconds", person=False, of=lambda measure: measure.deviation),
)
"""The spread of the events of an instruction."""


def time_columns(measured: Measured, *, has_kernels: bool = False) -> tuple[Column[Measure | Sum], ...]:
    """Times and calls; for people, those of one device. `has_kernels`: some calls are several events.

    Shares are parts of the time of all devices, idle time included. Where operations run at the same time, their
    shares are those of their parts of the busy time.
    """
    devices = max(len(measured.profile.devices), 1)
    is_many = len(measured.profile.devices) > 1
    group = f"per {measured.device_noun}" if is_many else ""
    return (
        Column("seconds", "self", "seconds", total="sum", group=group, of=lambda spent: spent.self_time / devices),
        Column("busy_seconds", "busy", "seconds", total="sum", group=group, person=measured.overlap > 1,
               of=lambda spent: spent.busy_time / devices),
        Column("device_calls", "calls", "count", total="sum", group=group, person=is_many, rank=6,
               of=lambda spent: _per_device(spent.calls, devices)),
        Column("calls", "calls", "count", total="sum", person=not is_many, rank=6, of=lambda spent: spent.calls),
        Column("device_events", "kernels", "count", total="sum", group=group, person=has_kernels, rank=5,
               of=lambda spent: _per_device(spent.events, devices)),
        Column("events", "kernels", "count", total="sum", person=False, of=lambda spent: spent.events),
        Column("share", "share", "percent", total="sum",
               of=lambda spent: spent.busy_time / measured.whole if measured.whole else None),
        Column("self_seconds", "self", "seconds", total="sum", person=False, of=lambda spent: spent.self_time),
        Column("total_seconds", "total", "seconds", total="sum", person=False, of=lambda spent: spent.total),
    )  # fmt: skip


def _per_device(amount: float, devices: int) -> float:
    """An amount of all devices, whole if it can be divided."""
    # Devices of one program run it equally often; a fraction tells that they did not.
    return round(amount / devices) if amount % devices == 0 else amount / devices


def rate_columns(
    measured: Measured, works: Sequence[Timed | Sum], *, from_width: int = 0
) -> tuple[Column[Timed | Sum], ...]:
    """The work of all calls, rates, the resource that bounds them, and the part of that resource's peak.

    People see the rates that any of `works` has, on a terminal of that width; the roof is there only if the peaks of
    the device are known.
    """
    has_flops, has_bytes = any(map(_flop_rate, works)), any(map(_byte_rate, works))
    roof: tuple[Column[Timed | Sum], ...] = (
        Column(
            "bound",
            "bound",
            rank=5,
            of=lambda work: work.bound if isinstance(work, Sum) else work.rates.bound_by or None,
        ),
        Column(
            "roofline_fraction",
            "of roof",
            "percent",
            rank=7,
            of=lambda work: work.roof if isinstance(work, Sum) else work.rates.efficiency or None,
        ),
    )
    return (
        Column("flops", "flops", "flops", person=False, of=lambda work: _amount_of_work(work, "flops")),
        Column("bytes", "bytes", "bytes", person=False, of=lambda work: _amount_of_work(work, "bytes")),
        Column(
            "flop_rate",
            "",
            "flop/second",
            rank=7,
            from_width=from_width,
            person=has_flops,
            of=lambda work: _flop_rate(work),
        ),
        Column(
            "byte_rate",
            "",
            "byte/second",
            rank=7,
            from_width=from_width,
            person=has_bytes,
            of=lambda work: _byte_rate(work),
        ),
        *(roof if measured.roofs.is_known else ()),
    )


def _amount_of_work(work: Timed | Sum, name: Literal["flops", "bytes"]) -> float | None:
    """The flops or bytes of all calls."""
    if isinstance(work, Sum):
        return work.flops if name == "flops" else work.bytes
    amount = work.operation.flops if name == "flops" else work.operation.bytes
    return None if amount is None else amount * work.measure.calls


def _flop_rate(work: Timed | Sum) -> float | None:
    if isinstance(work, Sum):
        return work.flop_rate
    return None if work.operation.flops is None else work.rates.flops


def _byte_rate(work: Timed | Sum) -> float | None:
    if isinstance(work, Sum):
        return work.byte_rate
    return None if work.operation.bytes is None else work.rates.bytes


# --- one row for each instruction ---
# `hlo profile TRACE`: one row for each instruction, those that take most time first.


_MAX_ROWS_CHECKED: Final = 10
"""If names of so many instructions are not unique, their modules are shown on narrow screens, too."""


def report_of_operations(measured: Measured) -> Report:
    """The instructions of a profile with their times, rates, and shares."""
    return Report(
        "profile",
        answer_of(measured),
        version=1,
        numbers=numbers_of(measured),
        parts=(
            facts_of(measured),
            *(table for table in (budget_table(measured), executions_table(measured)) if table is not None),
            _operations_table(measured),
            kernels_table(measured),
            *_sparse_core_tables(measured),
            *_operations_remarks(measured),
        ),
        next=_next_of_operations(measured),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _operations_remarks(measured: Measured) -> Iterator[Passage]:
    texts = (*utilization_words(measured), *_over_peak_words(sorted(measured.selected, key=rank)))
    if texts:
        yield Passage("remarks", texts)


def _sparse_core_tables(measured: Measured) -> Iterator[Table]:
    """What ran on the SparseCores of a TPU, next to the operations of the TensorCores."""
    profile = measured.profile.sparse_core
    if profile is not None:
        inner = Measured(replace(measured.loaded, profile=profile), chip=measured.roofs.chip, where=measured.where)
        table = _operations_table(inner)
        yield replace(table, name="sparse_core", title="on SparseCores", main=False, limit=5)


def _operations_table(measured: Measured) -> Table:
    """One row for each instruction, and one for all kernels without one; of a trace of kernels only, one for each."""
    has_named = any(each.is_named for each in measured.every)
    timed = sorted((each for each in measured.selected if each.is_named or not has_named), key=rank)
    others = [each for each in measured.selected if has_named and not each.is_named]
    means = dict(zip(measured.profile.operations, measured.means.times, strict=True))
    rows: list[Timed | Sum] = list(timed)
    if others:
        kernels = sum_of(others)
        # All kernels without an instruction are one row, where their sum belongs in the order.
        rows.insert(sum(each.measure.busy_time >= kernels.busy_time for each in timed), kernels)
    has_modules = len({each.operation.program for each in timed}) > 1
    longest = [each.operation.name for each in timed[:_MAX_ROWS_CHECKED]]
    is_unique = len(set(longest)) == len(longest)

    def per_step(work: Timed | Sum) -> float:
        return sum(means[each.operation].seconds for each in ([work] if isinstance(work, Timed) else others))

    named: tuple[Column[Timed], ...] = (
        Column("instruction", "instruction", "name", of=lambda each: each.operation.name),
        Column("opcode", "opcode", "opcode", person=False, of=_opcode_of),
        Column("category", "category", from_width=120, of=lambda each: each.operation.category),
        Column("module", "module", rank=2 if is_unique else KEEP, from_width=120 * is_unique, person=has_modules,
               of=lambda each: None if each.operation.program is None else each.operation.program.name),
        Column("source", "source", "source", rank=8, of=source_of),
        Column("op_name", "op_name", "op_name", rank=4, from_width=120, of=lambda each: each.operation.op_name or None),
    )  # fmt: skip
    columns: tuple[Column[Timed | Sum], ...] = (
        *columns_of_part(time_columns(measured, has_kernels=_has_kernels(timed)), _times_of),
        Column("seconds_per_step", "per step", "seconds", total="sum", person=False, of=per_step),
        Column("mean_seconds", "avg", "seconds", of=_mean_of),
        # In 80 columns the source line, which names what to change, is worth more than rates.
        *rate_columns(measured, timed, from_width=100),
        *_columns_without(EVENT_COLUMNS, lambda work: None if isinstance(work, Sum) else work.measure),
        *_columns_without(named, lambda work: None if isinstance(work, Sum) else work, name=NO_INSTRUCTION),
    )
    return Table("operations", columns, rows_from(columns, rows), noun="instructions")


Part = TypeVar("Part")


def _columns_without(
    columns: Sequence[Column[Part]], part: Callable[[Timed | Sum], Part | None], *, name: str | None = None
) -> tuple[Column[Timed | Sum], ...]:
    """The columns of what only instructions have; in a row for all kernels, the first is `name`, the others None."""
    nothing = (name, *(None for _ in columns[1:]))
    return tuple(
        with_cell(column, _unless_missing(column, part, cell)) for column, cell in zip(columns, nothing, strict=True)
    )


def _unless_missing(
    column: Column[Part], part: Callable[[Timed | Sum], Part | None], otherwise: Cell
) -> Callable[[Timed | Sum], Cell]:
    def cell(work: Timed | Sum) -> Cell:
        subject = part(work)
        return otherwise if subject is None else row_from((column,), subject)[0]

    return cell


def _times_of(work: Timed | Sum) -> Measure | Sum:
    return work if isinstance(work, Sum) else work.measure


def _mean_of(work: Timed | Sum) -> float:
    return work.total / work.events if isinstance(work, Sum) else work.measure.mean


def _opcode_of(timed: Timed) -> str | None:
    return None if timed.operation.instruction is None else timed.operation.instruction.opcode


def kernels_table(measured: Measured) -> Table:
    """One row for each kernel without an instruction."""
    has_named = any(each.is_named for each in measured.every)
    timed = sorted((each for each in measured.selected if has_named and not each.is_named), key=rank)
    columns: tuple[Column[Timed], ...] = (
        *columns_of_part(time_columns(measured), lambda kernel: kernel.measure),
        Column("mean_seconds", "avg", "seconds", of=lambda kernel: kernel.measure.mean),
        *columns_of_part(EVENT_COLUMNS, lambda kernel: kernel.measure),
        Column("kernel", "kernel", of=lambda kernel: kernel.operation.name),
    )
    rows = rows_from(columns, timed)
    title = "kernels without an instruction"
    return Table("kernels", columns, rows, title=title, noun="kernels", main=False, limit=5)


def source_of(timed: Timed) -> str | None:
    """The source line of an operation: that in the trace, else that in the metadata of the instruction."""
    operation = timed.operation
    # The trace is of the program that ran; a dump that was given with it may be of another compilation.
    if operation.source or operation.instruction is None or operation.program is None:
        return operation.source or None
    module = operation.program.module
    location = None if module is None else module.location(operation.instruction)
    return None if location is None else str(location)


def _has_kernels(timed: Sequence[Timed]) -> bool:
    """Whether calls of some instructions are several events."""
    return any(each.measure.events != each.measure.calls for each in timed)


_MAX_NEXT: Final = 2  # the lines of a screen that name commands


def _next_of_operations(measured: Measured) -> tuple[str, ...]:
    command = measured.command
    timed: Sequence[Timed] = [each for each in measured.selected if each.operation.is_joined]
    if not command or not timed:
        return ()
    longest = min(timed, key=rank)
    by_module = (f"{command} --by module",) if len(measured.executions) > 1 else ()
    others = f"{command} --by source", f"{command} {longest.operation.name}"
    return (*next_of_budget(measured), *by_module, *others)[:_MAX_NEXT]


# --- --exposed: transfers that wait ---
# `hlo profile TRACE --exposed`: the time of transfers that other operations overlap, and the time that they do not.


_EXPOSED_MEANS = {
    "TPU": "A transfer lasts from the begin of its start to the end of its done; exposed is the time of these two.",
    "GPU": "Exposed is the time of a transfer in which no other stream of the device ran a kernel.",
    "CPU": "Collectives are synchronous on CPUs: all of their time is exposed, once where several run "
    "at the same time. Wait time is the part before the last device that meets in the collective begins it.",
}


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A transfer with its operation and, if it is one, its collective."""

    timed: Timed
    done: str | None
    time: TransferTime
    waiting: float
    """Seconds of `time.exposed`, of all devices, before the last device that meets in the collective has begun it."""
    collective: Collective | None

    @property
    def wire_rate(self) -> float | None:
        """Bytes per second that a device sends during the transfer; None if they are unknown."""
        sent = None if self.collective is None else self.collective.wire_bytes
        return None if sent is None or not self.time.window else float(sent) * self.time.calls / self.time.window


def report_of_exposed(measured: Measured) -> Report:
    """One row for each instruction that transfers, those with the longest exposed time first."""
    transfers = sorted(_transfers(measured), key=lambda each: (-each.time.exposed, each.timed.operation.name))
    window, exposed = (sum(getattr(each.time, name) for each in transfers) for name in ("window", "exposed"))
    table = _exposed_table(measured, transfers)
    meaning = Passage("remarks", (_EXPOSED_MEANS[measured.profile.platform],))
    return Report(
        "profile",
        _exposed_answer(measured, transfers, window, exposed),
        version=1,
        numbers={
            **numbers_of(measured),
            "transfers": len(transfers),
            "transfer_seconds": window,
            "exposed_seconds": exposed,
            "overlapped_seconds": window - exposed,
            "waiting_seconds": sum(each.waiting for each in transfers),
        },
        parts=(facts_of(measured), table, meaning) if transfers else (facts_of(measured), table),
        next=_next_of_exposed(measured, transfers),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _transfers(measured: Measured) -> Sequence[_Transfer]:
    operations = measured.profile.operations
    selected = {each.operation: each for each in measured.selected}
    times = [each for each in transfer_times(measured.profile) if operations[each.operation] in selected]
    modules = [program.module for program in measured.profile.programs if program.module is not None]
    collectives = collectives_by_instruction(modules) if times else {}
    # Not for TPUs and GPUs: there a collective is in flight while others run, so a late partner may cost nothing.
    waited = waited_by_operation(measured.profile) if measured.profile.platform == "CPU" and times else None
    transfers = []
    for each in times:
        operation, done = operations[each.operation], operations[each.done]
        collective = None if operation.instruction is None else collectives.get(operation.instruction)
        waiting = 0.0 if waited is None else min(waited[each.operation], each.exposed)
        done_name = done.name if done is not operation else None
        transfers.append(_Transfer(selected[operation], done_name, each, waiting, collective))
    return transfers


def collectives_by_instruction(modules: Iterable[Module]) -> dict[Instruction, Collective]:
    """The collectives of modules by their instructions, and by the start or fusion around each."""
    from hlo_cli.analysis.sharding.collectives import collectives_of

    listed = [each for module in modules for each in collectives_of(module)]
    return {**{each.caller: each for each in listed}, **{each.instruction: each for each in listed}}


def _exposed_table(measured: Measured, transfers: Sequence[_Transfer]) -> Table:
    is_many = len(measured.profile.devices) > 1
    group = f"per {measured.device_noun}" if is_many else ""
    has_overlap = any(each.time.hidden for each in transfers)
    columns: tuple[Column[_Transfer], ...] = (
        Column("exposed_seconds", "exposed", "seconds", total="sum", group=group, role="waste",
               of=lambda transfer: measured.per_device(transfer.time.exposed)),
        Column("waiting_seconds", "wait time", "seconds", total="sum", group=group, person=_has_waits(transfers),
               of=lambda transfer: (
                   measured.per_device(transfer.waiting)
                   if measured.profile.platform == "CPU" else None)),
        Column("overlapped_seconds", "overlapped", "seconds", total="sum", group=group, person=has_overlap,
               of=lambda transfer: measured.per_device(transfer.time.hidden)),
        Column("window_seconds", "all", "seconds", total="sum", group=group, person=has_overlap,
               of=lambda transfer: measured.per_device(transfer.time.window)),
        Column("exposed_share", "exposed", "percent", total=Share("exposed_seconds", "window_seconds"), rank=7,
               person=measured.profile.platform != "CPU",
               of=lambda transfer: transfer.time.exposed / transfer.time.window if transfer.time.window else None),
        Column("device_calls", "calls", "count", total="sum", group=group, person=is_many, rank=5,
               of=lambda transfer: _per_device(transfer.time.calls, len(measured.profile.devices))),
        Column("calls", "calls", "count", total="sum", person=not is_many, rank=5,
               of=lambda transfer: transfer.time.calls),
        Column("wire_rate", "sent", "byte/second", rank=6, person=any(each.wire_rate for each in transfers),
               of=lambda transfer: transfer.wire_rate),
        Column("axis", "axis", rank=6, person=any(each.collective is not None for each in transfers),
               of=lambda transfer: None if transfer.collective is None else transfer.collective.axis or "(no axes)"),
        Column("instruction", "instruction", "name", of=lambda transfer: transfer.timed.operation.name),
        Column("done", "done", "name", from_width=120, of=lambda transfer: transfer.done),
        Column("category", "category", from_width=200, of=lambda transfer: transfer.timed.operation.category or None),
        Column("source", "source", "source", rank=4, of=lambda transfer: source_of(transfer.timed)),
    )  # fmt: skip
    rows = rows_from(columns, transfers)
    return Table("transfers", columns, rows, noun="transfers")


def _has_waits(transfers: Sequence[_Transfer]) -> bool:
    return any(each.waiting for each in transfers)


def _exposed_answer(measured: Measured, transfers: Sequence[_Transfer], window: float, exposed: float) -> str:
    if not transfers:
        return f"No transfers among {format_count(len(measured.selected), 'operations')}"
    part = format_percent(exposed / measured.whole) if measured.whole else "0"
    words = f"Exposed transfers take {format_seconds(measured.per_device(exposed))}, {part}% of {measured.whole_words}"
    if measured.profile.platform == "CPU":
        waiting = sum(each.waiting for each in transfers)
        if not waiting:
            return f"{words}; 0% of that is wait time"
        left = exposed - waiting
        # The table of a step calls only this rest exposed, and the wait for other devices is a row of its own.
        rest = f"{format_seconds(measured.per_device(left))} ({format_percent(left / measured.whole)}%) without it"
        return f"{words}; {format_percent(waiting / exposed)}% of that is wait time, {rest}"
    return f"{words}; {format_percent(1 - exposed / window) if window else 0}% of their time is overlapped"


def _next_of_exposed(measured: Measured, transfers: Sequence[_Transfer]) -> tuple[str, ...]:
    if not measured.command or not transfers:
        return ()
    return f"{measured.command} --by axis", f"{measured.command} {transfers[0].timed.operation.name}"


# --- --lost: time above the least ---
# `hlo profile TRACE --lost`: measured time above the least time at the peak rates, the largest first.


def report_of_lost(measured: Measured) -> Report:
    """One row for each instruction, those that lose most time first; HloError if no peak rates are known."""
    if not measured.roofs.is_known:
        hint = "add --chip NAME; run `hlo help chips` to list all chips"
        raise HloError(f"--lost requires peak rates, which {measured.loaded.path} does not have", hint=hint)
    ranked = sorted((each for each in measured.selected if each.operation.is_joined), key=_rank_by_lost)
    lost_seconds = sum(each.lost or 0.0 for each in ranked)
    return Report(
        "profile",
        _lost_answer(measured, ranked, lost_seconds),
        version=1,
        numbers={**numbers_of(measured), "lost_seconds": lost_seconds},
        parts=(facts_of(measured), _lost_table(measured, ranked), *_lost_remarks(ranked)),
        next=_next_of_lost(measured, ranked),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _rank_by_lost(timed: Timed) -> tuple[bool, float, float, str]:
    return timed.lost is None, -(timed.lost or 0.0), -timed.measure.self_time, timed.operation.name


def _lost_table(measured: Measured, ranked: Sequence[Timed]) -> Table:
    has_tiles = any(_touched_bytes(timed) is not None for timed in ranked)
    columns: tuple[Column[Timed], ...] = (
        # Per device, as the first line says.
        Column("lost_seconds", "lost", "seconds", total="sum",
               of=lambda timed: None if timed.lost is None else measured.per_device(timed.lost)),
        Column("call_seconds", "measured", "seconds", of=lambda timed: _call_seconds(timed)),
        Column("floor_seconds", "floor", "seconds", like="call_seconds", of=lambda timed: _floor_seconds(timed)),
        Column("factor", "factor", "ratio", of=lambda timed: _factor(timed)),
        Column("accessed_bytes", "accessed", "bytes", person=has_tiles, rank=5, of=lambda timed: timed.operation.bytes),
        Column("touched_bytes", "in tiles", "bytes", person=has_tiles, rank=5, of=lambda timed: _touched_bytes(timed)),
        Column("roofline_fraction", "of roof", "percent", from_width=120,
               of=lambda timed: timed.rates.efficiency or None),
        Column("bound", "bound", from_width=120, of=lambda timed: timed.rates.bound_by or None),
        Column("calls", "calls", "count", from_width=120, of=lambda timed: timed.measure.calls),
        Column("instruction", "instruction", "name", of=lambda timed: timed.operation.name),
        Column("category", "category", rank=6, of=lambda timed: timed.operation.category),
        Column("source", "source", "source", from_width=120, of=lambda timed: source_of(timed)),
    )  # fmt: skip
    return Table("lost", columns, rows_from(columns, ranked), noun="instructions")


def _call_seconds(timed: Timed) -> float:
    return timed.measure.total / max(timed.measure.calls, 1)


def _floor_seconds(timed: Timed) -> float | None:
    return None if timed.floor is None else timed.floor / max(timed.measure.calls, 1)


def _factor(timed: Timed) -> float | None:
    floor = _floor_seconds(timed)
    return _call_seconds(timed) / floor if floor else None


def _touched_bytes(timed: Timed) -> int | None:
    """The bytes of the tiles that slices touch, if they are more than those of the slices."""
    touched = () if timed.operation.instruction is None else touched_tiles(timed.operation.instruction)
    return sum(tiles.bytes for tiles in touched) or None


def _lost_answer(measured: Measured, ranked: Sequence[Timed], lost_seconds: float) -> str:
    if not ranked:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    known = [each for each in ranked if each.lost is not None]
    if not known:
        return f"The work of {format_count(len(ranked), 'instructions')} is unknown, so no time above the roofline is"
    chip = measured.roofs.chip
    # Against another kind of chip, nothing is lost: the sentence is what running there would save at most.
    roofline = f"the roofline of another chip, {chip.chip}" if chip and measured.other_chip_words else "the roofline"
    words = f"{format_seconds(measured.per_device(lost_seconds))} of {measured.whole_words} is above {roofline}"
    if not lost_seconds:
        return f"No time of {measured.whole_words} is above {roofline}"
    by_kind: dict[str, list[Timed]] = {}
    for each in known:
        by_kind.setdefault(each.operation.category or each.operation.name, []).append(each)
    kind, members = max(by_kind.items(), key=lambda each: sum(one.lost or 0.0 for one in each[1]))
    part = sum(each.lost or 0.0 for each in members)
    largest = members[0]
    if len(by_kind) == 1 or (largest.lost or 0.0) > part / 2:
        return f"{words}: {format_percent((largest.lost or 0.0) / lost_seconds)}% of that in {largest.operation.name}"
    number = format_count(len(members), "instructions")
    return f"{words}: {format_percent(part / lost_seconds)}% of that in {number} ({kind})"


def _lost_remarks(ranked: Sequence[Timed]) -> Iterator[Passage]:
    texts = [*_over_peak_words(ranked)]
    collectives = [each for each in ranked if each.lost and _is_collective(each)]
    if collectives:
        names = format_count(len(collectives), "collectives")
        texts.append(f"The floor of {names} counts memory traffic only, not the time on links.")
    if texts:
        yield Passage("remarks", tuple(texts))


def _is_collective(timed: Timed) -> bool:
    instruction = timed.operation.instruction
    if instruction is None:
        return False
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start").removesuffix("-done")
    return opcode in COLLECTIVES


def _next_of_lost(measured: Measured, ranked: Sequence[Timed]) -> tuple[str, ...]:
    if not measured.command or not ranked or not ranked[0].lost:
        return ()
    return (f"{measured.command} {ranked[0].operation.name}",)
