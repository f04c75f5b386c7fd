"""What does the page on a module show? Its title, a verdict on each question, what to do first, and the sections."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from hlo_cli.analysis.cache import sharing
from hlo_cli.analysis.hardware.chip_specs import chip_in
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.memory.memory_analysis import (
    MemoryAnalysis,
    MemoryFit,
    MemorySpaceUsage,
    memory_fits,
)
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.sharding.entry_arrays import is_partitioned
from hlo_cli.analysis.sharding.meshes import devices_of
from hlo_cli.commands.memspace.report import fit_in_words
from hlo_cli.commands.memspace.usage import decisive_fit, step_label
from hlo_cli.commands.modules.loading import Loaded, devices_together, input_facts, not_partitioned
from hlo_cli.commands.options.chips import mismatch
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.report.sources import Sources, column_sum, describe_lines, lines_table, sources_of
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import target_texts
from hlo_cli.ir.module import Module
from hlo_cli.report.findings import Findings, Group, worth_seconds
from hlo_cli.report.numbers import (
    format_bytes,
    format_count,
    format_part,
    format_percent,
    format_seconds,
    format_seconds_range,
)
from hlo_cli.report.overview import Action, Certainty, Gauge, Overview, Section, Tone, Verdict
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Table, number_of, rows_from
from hlo_cli.report.text import line_of, plain_text
from hlo_cli.source import Diagnostic, HloError

# --- title and facts ---
# What a page is about: the title with module, chip, and devices, and the line of facts below it.


def title_of(loaded: Loaded, chip: str | None) -> str:
    """The module, the chip that is given or that the dump names, and the number of devices.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.inputs.input import Input
    >>> header, entry = "HloModule jit_f, num_partitions=8", "ENTRY e_spmd { ROOT p = f32[9]{0:T(128)} parameter(0) }"
    >>> module = parse_module(f"{header}  {entry}")
    >>> title_of(Loaded(module, Input(module.source, None)), "v5e")
    'jit_f on TPU v5e, one of 8 partitions'
    """
    module = loaded.module
    name = "part of a module" if module.is_part else module.name
    place = platform_of(loaded, chip)
    return f"{name}{f' on {place}' if place else ''}{_devices(module)}"


def platform_of(loaded: Loaded, chip: str | None) -> str:
    """The chip, such as `TPU v5e` or `H100`, else the kind of chip; empty if the dump does not determine it.

    A chip of another kind than the module's target is not that of the module.
    """
    target = target_of(loaded.module)
    for name in (chip, chip_in(target_texts(loaded.input))):
        known = None
        if name is not None:
            try:
                known = find_chip(name)
            except HloError:
                return f"{target.upper()} {name}" if target else name  # a chip of --chip-file
        if known is not None and target in (None, known.target):
            return f"TPU {known.name}" if known.target == "tpu" else known.name.upper()
    return target.upper() if target else ""


def _devices(module: Module) -> str:
    devices = devices_of(module)
    if not devices.is_stated or module.is_part:
        return ""
    part = "one of " if is_partitioned(module) else ""
    words = f", {part}{devices.partitions:,} partitions" if devices.partitions > 1 else ""
    return f"{words}, {devices.replicas:,} replicas" if devices.replicas > 1 else words


def details_of(loaded: Loaded, steps: int) -> str:
    """The dump, its stage, and its date; the sizes of the module, its arguments, and its results."""
    return " · ".join(_details(loaded, steps))


def _details(loaded: Loaded, steps: int) -> Iterator[str]:
    module = loaded.module
    yield dump_name(loaded.input.path)
    if loaded.input.stage and loaded.input.stage not in dump_name(loaded.input.path):
        yield loaded.input.stage
    if date := _date_of(loaded.input.path):
        yield date
    count = format_count(module.instruction_count, "instructions")
    yield f"{count} in {format_count(len(module.computations), 'computations')}"
    yield format_count(steps, "steps")
    yield from _signature(module)


def _signature(module: Module) -> Iterator[str]:
    parameters, root = module.entry.parameters, module.entry.root
    bytes_ = sum(parameter.shape.padded_bytes for parameter in parameters)
    yield f"{format_count(len(parameters), 'arguments')} ({format_bytes(bytes_)})" if parameters else "no arguments"
    if root is None:
        return
    leaves = [leaf for _, leaf in root.shape.leaves]
    results = f"{format_count(len(leaves), 'results')} ({format_bytes(sum(leaf.padded_bytes for leaf in leaves))})"
    aliased = len(module.input_output_alias)
    verb = "aliases" if aliased == 1 else "alias"
    yield f"{results}, {aliased:,} of which {verb} arguments" if aliased else results


def dump_name(path: str | None) -> str:
    """The dump without directories; a file that is named by its stage alone follows the name of its directory.

    >>> dump_name("/home/ada/dumps/step/after_optimizations.txt.gz"), dump_name("/tmp/module_1.f.txt"), dump_name("-")
    ('step/after_optimizations.txt.gz', 'module_1.f.txt', 'stdin')
    """
    if path is None or path == "-":
        return "stdin"
    folder, name = os.path.split(path)
    is_stage = name.startswith(("before_optimizations", "after_optimizations", "compiled_as_text"))
    parent = os.path.basename(os.path.abspath(folder)) if is_stage else ""
    return f"{parent}/{name}" if parent else name


def _date_of(path: str | None) -> str:
    """The day on which a dump was written, in UTC; empty if it is not a file.

    The environment variable SOURCE_DATE_EPOCH replaces it, as in reproducible builds.

    >>> _date_of("/no/such/file"), _date_of(None)
    ('', '')
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if path is None or not os.path.isfile(path):
        return ""
    seconds = int(epoch) if epoch.isascii() and epoch.isdigit() and len(epoch) < 12 else os.path.getmtime(path)
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


# --- transfers ---
# Which of them overlap no kernel and, on a chip, how much of their time is exposed.


@dataclass(frozen=True, slots=True)
class Exposed:
    """Bytes of all transfers and of those without overlap; with a chip, exposed seconds, and their share of the time.

    `seconds` is None without a chip and if all times are unknown; it is a lower bound unless `is_known`. `share` is
    None unless all times are known.
    """

    transfers: int
    total_bytes: int
    unoverlapped_bytes: int
    seconds: float | None
    is_known: bool
    share: float | None


def exposed_of(schedule: Report) -> Exposed:
    """What the report of `hlo schedule` says of all transfers, async or not.

    >>> numbers = {"pairs": 2, "bytes": 8, "unoverlapped_bytes": 6, "synchronous": 1, "synchronous_bytes": 2}
    >>> times = {"exposed_seconds": 2.0, "execution_seconds": 8.0, "lower_bounds": ()}
    >>> found = exposed_of(Report("schedule", "", numbers={**numbers, **times}))
    >>> found.transfers, found.unoverlapped_bytes, found.total_bytes, found.seconds, found.share
    (3, 6, 10, 2.0, 0.25)
    >>> unknown = {"exposed_seconds": None, "known_exposed_seconds": 0.0, "execution_seconds": 8.0}
    >>> exposed_of(Report("schedule", "", numbers={**numbers, **unknown})).seconds
    """
    numbers = schedule.numbers
    has_times = "execution_seconds" in numbers
    seconds = number_of(numbers.get("exposed_seconds"))
    is_known = has_times and seconds is not None
    # of times of which some are unknown, none that is known says nothing
    seconds = seconds if is_known else number_of(numbers.get("known_exposed_seconds")) or None
    execution = number_of(numbers.get("execution_seconds"))
    is_exact = is_known and not numbers.get("lower_bounds")
    return Exposed(
        transfers=_count(numbers, "pairs") + _count(numbers, "synchronous"),
        total_bytes=_count(numbers, "bytes") + _count(numbers, "synchronous_bytes"),
        unoverlapped_bytes=_count(numbers, "unoverlapped_bytes"),
        seconds=seconds if has_times else None,
        is_known=is_known,
        share=seconds / execution if is_exact and seconds is not None and execution else None,
    )


def _count(numbers: Mapping[str, Cell], name: str) -> int:
    cell = numbers.get(name)
    return cell if isinstance(cell, int) else 0


# --- verdicts ---
# The answer to each question in a few words, with a tone by a stated rule.


NEARLY_FULL: Final = 0.95
"""The share of a memory from which on a program that fits gets a warning."""
MUCH_EXPOSED: Final = 0.05
"""The share of exposed time in an execution, or of bytes without overlap in all transferred ones, for a warning."""
MUCH_PADDING: Final = 0.1
"""The share of padding in the bytes of all values up to which the verdict is good."""
MUCH_SAVED: Final = 0.01
"""The share of the bytes of all values that better orders have to save for a warning."""


def _verdicts_of(sources: Sources) -> tuple[Verdict, ...]:
    """Memory, transfers, padding, findings, and time; first, whether the dump is a complete, final program."""
    return tuple(
        verdict
        for verdict in (
            _dump_verdict(sources),
            _memory_verdict(sources),
            _transfers_verdict(sources),
            _padding_verdict(sources),
            _findings_verdict(sources),
            _time_verdict(sources),
            _measured_verdict(sources),
        )
        if verdict is not None
    )


def _dump_verdict(sources: Sources) -> Verdict | None:
    """Bad if the text is truncated or has errors, a warning if it is a part, not final, or for another kind of chip."""
    module = sources.loaded.module
    if module.is_truncated:
        return Verdict(
            "Dump", "bad", "Truncated", "The text ends early; numbers cover what was read.", section="memory"
        )
    if module.errors:
        count = format_count(len(module.errors), "errors")
        return Verdict("Dump", "bad", count, "The text has errors; numbers cover what was read.", section="memory")
    if module.is_part:
        words = "Live ranges and the schedule end where the text ends."
        return Verdict("Dump", "warning", "Part of a module", words, section="memory")
    if (devices := devices_together(sources.loaded)) > 1:
        words = f"The module is {not_partitioned(devices)}."
        return Verdict("Dump", "warning", "Not partitioned", words, section="memory")
    if sources.stage != "optimized":
        words = "Numbers are upper bounds: the compiler still fuses, schedules, and assigns memory."
        return Verdict("Dump", "warning", _first_upper(sources.stage), words, section="memory")
    target = target_of(module)
    if target is not None and (other := mismatch(sources.memory_chip, target)):
        words = f"{other}; sizes are those of the {target.upper()}, and limits and times those of the chip."
        return Verdict("Dump", "warning", f"Compiled for {target.upper()}", _first_upper(words), section="memory")
    return None


def _memory_verdict(sources: Sources) -> Verdict:
    """Bad if a memory of the chip is too small, a warning above 95% of main memory; neutral without a limit.

    Compilers fill the other memories as far as they can, so that they are full is no warning.
    """
    memory, chip = sources.memory_analysis, sources.memory_chip
    fits = memory_fits(memory, None, chip)
    gauges = tuple(_gauges(memory, fits))
    sentence = _sentence(sources.memory.answer)
    peak = memory.main
    if peak is None:
        return Verdict("Memory", "neutral", "No values in memory", sentence, section="memory")
    fit = decisive_fit(fits)
    if fit is None or chip is None:
        words = _first_upper(f"{peak.name} peaks at {format_bytes(peak.peak_bytes)}")
        return Verdict("Memory", "neutral", words, _peak_sentence(memory, peak), section="memory", gauges=gauges)
    if fit.excess_bytes > 0 and sources.stage != "optimized":
        words = f"At most {format_bytes(fit.needed_bytes)} of {fit.name}"
        return Verdict("Memory", "warning", words, sentence, section="memory", gauges=gauges)
    if fit.excess_bytes > 0:
        words = f"Does not fit {chip.name} ({fit.name} {format_bytes(fit.excess_bytes)} over)"
        return Verdict("Memory", "bad", words, sentence, section="memory", gauges=gauges)
    words = f"Fits {chip.name} ({fit_in_words(fit)})"
    is_nearly_full = fit.needed_bytes >= NEARLY_FULL * fit.limit_bytes
    tone: Tone = "warning" if is_nearly_full else "good"
    brief = f"Fits {chip.name}"
    return Verdict("Memory", tone, words, sentence, section="memory", gauges=gauges, brief=brief)


def _peak_sentence(memory: MemoryAnalysis, space: MemorySpaceUsage) -> str:
    """Where the peak of a memory is, and how to check it against a limit."""
    place = f"At {step_label(memory, space.peak_step)}, step {space.peak_step:,} of {len(memory.sequence):,}"
    return f"{place}." if memory.target == "cpu" else f"{place}. Use --chip NAME to check the limits of a chip."


def _gauges(memory: MemoryAnalysis, fits: tuple[MemoryFit, ...]) -> Iterator[Gauge]:
    """The bytes needed in each memory with a limit, and the peaks of the others."""
    limited = {fit.space: fit for fit in fits}
    for space in memory.spaces:
        fit = limited.get(space.number)
        yield Gauge(space.name, *((fit.needed_bytes, fit.limit_bytes) if fit else (space.peak_bytes, None)))


def _transfers_verdict(sources: Sources) -> Verdict:
    """A warning from 5% of an execution on, or of the bytes of transfers without a chip; good below.

    Synchronous transfers overlap nothing. Neutral without transfers, and if nothing is known.
    """
    exposed, sentence = exposed_of(sources.schedule), _sentence(sources.schedule.answer)
    if not exposed.transfers:
        return Verdict("Transfers", "neutral", "No transfers", sentence, section="schedule")
    if sources.chip_spec is None:
        alone = exposed.unoverlapped_bytes
        words = f"{format_part(alone, exposed.total_bytes)} without overlap" if alone else "All overlap compute"
        is_much = alone and alone >= MUCH_EXPOSED * exposed.total_bytes
        # All of a few bytes, such as of a loss, is nothing to act on.
        tone: Tone = ("warning" if alone >= _LEAST_ACTION_BYTES else "neutral") if is_much else "good"
        return Verdict("Transfers", tone, words, sentence, section="schedule")
    if exposed.seconds is None:
        return Verdict("Transfers", "neutral", "Exposed time unknown", sentence, section="schedule")
    least = "" if exposed.is_known else "at least "
    percent = f" ({format_percent(exposed.share)}%)" if exposed.share is not None else ""
    words = f"{least}{format_seconds(exposed.seconds)} exposed{percent}" if exposed.seconds else "No exposed time"
    execution = _number(sources.schedule.numbers, "execution_seconds")
    tone = "warning" if exposed.seconds and exposed.seconds >= MUCH_EXPOSED * execution else "good"
    return Verdict("Transfers", tone, _first_upper(words), sentence, section="schedule")


def _padding_verdict(sources: Sources) -> Verdict:
    """Good below 10% of the bytes of all values; a warning from there on if better orders save 1% or more."""
    numbers, sentence = sources.padding.numbers, _sentence(sources.padding.answer)
    padded, padding, saving = (_number(numbers, name) for name in ("padded_bytes", "padding_bytes", "saving_bytes"))
    if not padding:
        return Verdict("Padding", "good" if padded else "neutral", "No padding", sentence, section="padding")
    share = f"{format_percent(padding / padded)}% padding"
    if padding < MUCH_PADDING * padded:
        return Verdict("Padding", "good", share, sentence, section="padding")
    if saving >= MUCH_SAVED * padded:
        words = f"{share} ({format_bytes(saving)} avoidable)"
        return Verdict("Padding", "warning", words, sentence, section="padding")
    return Verdict("Padding", "neutral", share, sentence, section="padding")


def _findings_verdict(sources: Sources) -> Verdict:
    """Bad with errors, a warning with warnings, neutral with notes alone, good without findings."""
    found = next((part for part in sources.findings.parts if isinstance(part, Findings)), None)
    numbers, sentence = sources.findings.numbers, _sentence(sources.findings.answer)
    if found is None or not found.found:
        return Verdict("Findings", "good", "No findings", sentence, section="findings")
    counts = {name: round(_number(numbers, name)) for name in ("errors", "warnings", "notes")}
    tone: Tone = "bad" if counts["errors"] else "warning" if counts["warnings"] else "neutral"
    words = ", ".join(format_count(number, name) for name, number in counts.items() if number)
    seconds = [group.seconds for group in found.groups if group.seconds is not None]
    cost = format_bytes(found.cost_bytes) if found.cost_bytes else ""
    if seconds and sources.chip_spec is not None:
        estimate = f"an estimated {format_seconds(sum(seconds))} per execution on {sources.chip_spec.chip}"
        cost = f"{estimate} ({cost})" if cost else estimate
    groups = len(found.groups)
    lead = f"{format_count(groups, 'groups')} {'costs' if groups == 1 else 'cost'} {cost}"
    return Verdict("Findings", tone, words, f"{lead}." if cost else sentence, section="findings")


def _time_verdict(sources: Sources) -> Verdict | None:
    """The estimated time of an execution, which is neither good nor bad; None without a chip."""
    if sources.chip_spec is None:
        return None
    numbers, name = sources.schedule.numbers, sources.chip_spec.chip
    execution, compute = _number(numbers, "execution_seconds"), _number(numbers, "compute_seconds")
    bounds = numbers.get("lower_bounds")
    if not execution:
        return Verdict("Time", "neutral", "Execution time unknown", _sentence(sources.steps.answer), section="kernels")
    low, high = _number(numbers, "execution_low_seconds"), _number(numbers, "execution_high_seconds")
    fused = " after fusion by rule" if numbers.get("is_fused_by_rule") else ""
    sentence = f"Kernels compute for {format_seconds(compute)} on {name}{fused}, as estimated."
    if fused and (unfused := column_sum(sources.costs_by_line.kernels, "total_seconds")):
        sentence = f"{sentence} Not fused, as in the tables of kernels and lines: {format_seconds(unfused)}."
    seconds = f"at least {format_seconds(execution)}" if bounds else format_seconds_range(low, execution, high)
    words = f"{seconds} per execution"
    return Verdict("Time", "neutral", _first_upper(words), sentence, section="kernels")


def _measured_verdict(sources: Sources) -> Verdict | None:
    """The measured time of the kernels of a step or run, which is neither good nor bad; None without a profile."""
    if sources.measured is None:
        return None
    numbers = sources.measured.numbers
    seconds, step = _number(numbers, "measured_seconds"), _number(numbers, "step_seconds")
    unit = str(numbers["unit"])
    per = "in the trace" if unit == "trace" else f"per {unit}"
    words = f"Kernels take {format_seconds(seconds)} {per}" if seconds else "No measured time"
    sentence = _sentence(sources.measured.answer)
    if step:
        sentence = f"A step lasts {format_seconds(step)} (median). {sentence}"
    if predicted := _number(numbers, "predicted_seconds"):
        compared, kernels = _number(numbers, "compared_seconds"), round(_number(numbers, "kernels"))
        left = kernels - round(_number(numbers, "predicted_kernels"))
        of_what = f" of {kernels - left:,} kernels that take {format_seconds(compared)}" if left else ""
        sentence = f"{sentence} Predicted: {format_seconds(predicted)}{of_what}."
    return Verdict("Measured", "neutral", words, sentence, section="measured")


def _number(numbers: Mapping[str, Cell], name: str) -> float:
    """A number, 0 if it is absent or unknown."""
    return number_of(numbers.get(name)) or 0


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _first_upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


# --- what to do first ---
# The changes that are worth most: how to lower a peak that is too high, and the findings that cost most.


_MOST_ACTIONS: Final = 5
"""How many are listed: what one person does next, on less than half a screen; the findings have all."""


_COVERED: Final = 0.5
"""The part of what a verdict sums up from which on the findings about single cases say what to do instead."""
_LEAST_ACTION_BYTES: Final = 64 << 10
"""Transfers of fewer bytes are no reason to act if their time is unknown; rules on copies have the same limit."""
_DONATION: Final = "HLO203"
"""The rule that asks to donate what `hlo memspace` suggests to donate."""
_RULES_OF: Final = {"Transfers": "HLO4", "Padding": "HLO1"}
"""How the codes of the rules begin that report single cases of what a verdict sums up."""


def _actions_of(sources: Sources, verdicts: Sequence[Verdict], argument: str) -> tuple[Action, ...]:
    """Changes that a user can make, those worth most first; those that lower the peak lead only if memory is short.

    What only a library could change is none of them, nor is a verdict whose cause nothing is known to change.
    """
    found = next((part for part in sources.findings.parts if isinstance(part, Findings)), None)
    fixes = {} if found is None else {rule.code: rule.fix for rule in found.rules}
    groups = () if found is None else found.groups
    costly = [each for each in groups if (each.severity == "error" or each.cost) and not each.is_of_library]
    reordering = {each.code for each in costly if _REORDER in _first_sentence(fixes.get(each.code, ""))}
    if reordering:  # advice that leads to nothing is none
        order = _better_order(sources, argument)
        fixes |= dict.fromkeys(reordering, "" if order is None else order.fix)
    of_memory = list(_memory_actions(sources))
    if _suggests_donation(sources.memory):
        # The same arguments, and the bytes that donating all of them saves.
        costly = [each for each in costly if each.code != _DONATION]
    ranked = [(each.severity == "error", each.worst.is_on_chip, _action_of_group(each, fixes)) for each in costly]
    for action in _verdict_actions(sources, verdicts):
        family = list(_cases_of(_RULES_OF[action.code], costly))
        if _cost_of(action, family) >= _COVERED * _cost_of(action, (action,)):
            continue
        if action.code != "Transfers":
            ranked.append((False, False, replace(action, code="")))
        elif (order := _better_order(sources, argument)) is not None:  # worth what it gains, not all that is exposed
            ranked.append((False, False, replace(order, message=action.message)))
    is_short = any(each.title == "Memory" and each.tone in ("bad", "warning") for each in verdicts)
    if not is_short:
        ranked += [(False, False, each) for each in of_memory]
    ranked.sort(key=_rank_of)
    actions = (*(of_memory if is_short else ()), *(action for _, _, action in ranked))
    return actions[:_MOST_ACTIONS]


def _rank_of(each: tuple[bool, bool, Action]) -> tuple[bool, float]:
    """Errors first, then what is worth most, by the same measure as lint's groups."""
    is_error, is_on_chip, action = each
    return not is_error, -worth_seconds(action.cost_bytes, action.seconds, is_on_chip=is_on_chip)


def _cases_of(rules: str, groups: Iterable[Group]) -> Iterator[Action]:
    """What rules of one kind report, in the groups of other rules, too, that report the same values."""
    for group in groups:
        if members := tuple(each for each in group.found if each.code.startswith(rules)):
            yield _action_of_group(Group(members), {})


def _verdict_actions(sources: Sources, verdicts: Sequence[Verdict]) -> Iterator[Action]:
    """What a verdict warns of, all transfers or all padding, with the title of the verdict as its code."""
    for verdict in verdicts:
        if verdict.tone != "warning" or verdict.title not in _RULES_OF:
            continue
        if verdict.title == "Padding":
            size = round(_number(sources.padding.numbers, "saving_bytes"))
            fix = "Change the sizes of padded dimensions, or their order; the section Padding has the best one of each."
            yield Action(verdict.sentence, fix, cost_bytes=size, certainty="computed", code=verdict.title)
            continue
        exposed = exposed_of(sources.schedule)
        size, seconds = exposed.unoverlapped_bytes, exposed.seconds
        if size >= _LEAST_ACTION_BYTES or seconds:
            yield Action(verdict.sentence, cost_bytes=size, seconds=seconds, code=verdict.title)


_REORDER: Final = "--reorder latency"
# A chain of 20,000 instructions, half of them starts and dones, takes 5 s, in which no page should be late.
_MOST_REORDERED: Final = 5_000
"""The most instructions of a module that a page reorders, to know what that gains."""


def _better_order(sources: Sources, argument: str) -> Action | None:
    """The order that exposes less, with what it gains; None where all that is exposed is synchronous, or if none is
    found.
    """
    numbers = sources.schedule.numbers
    if _count(numbers, "unoverlapped") <= _count(numbers, "synchronous"):
        return None
    if sources.loaded.module.instruction_count > _MOST_REORDERED:
        return None
    return _action_of_order(_reordered(sources), argument)


def _reordered(sources: Sources) -> Report:
    """What `hlo schedule --reorder latency` reports."""
    from hlo_cli.commands.schedule.reorder import new_order, report_of_reordering  # a scheduler that few pages need

    loaded, spec = sources.loaded, sources.chip_spec
    new = new_order(loaded.module, "latency", limit=None, throughput=spec)
    return report_of_reordering(
        loaded,
        analyze_overlap(loaded.module),
        new,
        goal="latency",
        within=None,
        where=None,
        argument="",
        options="",
        throughput=spec,
    )


def _action_of_order(reordered: Report, argument: str) -> Action | None:
    """What a new order gains, and the command; None if it exposes no fewer seconds, or bytes if times are unknown.

    >>> numbers = {"moved_instructions": 2, "exposed_seconds_before": 3e-6, "exposed_seconds_after": 1e-6}
    >>> answer = "Exposed time: 3 µs → 1 µs; 2 instructions moved"
    >>> found = _action_of_order(Report("schedule", answer, numbers=numbers), "step/")
    >>> found.fix.partition("moved ")[2], round(found.seconds, 9)
    ('(hlo schedule step/ --reorder latency).', 2e-06)
    >>> _action_of_order(Report("schedule", answer, numbers={**numbers, "exposed_seconds_after": 3e-6}), "step/")
    """
    numbers = reordered.numbers
    before, after = (number_of(numbers.get(f"exposed_seconds_{when}")) for when in ("before", "after"))
    size = round(_number(numbers, "unoverlapped_bytes_before") - _number(numbers, "unoverlapped_bytes_after"))
    seconds = None if before is None or after is None else before - after
    if not _count(numbers, "moved_instructions") or (size if seconds is None else seconds) <= 0:
        return None
    words = f"Use a better order: {reordered.answer[:1].lower()}{reordered.answer[1:]}"
    is_path = argument not in ("", "-")  # a command on a stream or on a value in Python would read nothing
    fix = f"{words} (hlo schedule {argument} {_REORDER})." if is_path else _sentence(words)
    return Action("", fix, cost_bytes=max(size, 0), seconds=seconds, certainty="computed")


def _cost_of(measure: Action, actions: Sequence[Action]) -> float:
    """What actions cost together, in seconds if `measure` has them, else in bytes."""
    if measure.seconds is not None:
        return sum(action.seconds or 0.0 for action in actions)
    return float(sum(action.cost_bytes or 0 for action in actions))


def _action_of_group(group: Group, fixes: Mapping[str, str]) -> Action:
    """The change that ends a group of findings; its time is the measured one if there is a profile."""
    worst, measured = group.worst, group.measured_seconds
    fix = worst.hint or _first_sentence(fixes.get(group.code, ""))
    return Action(
        group.message,
        _first_upper(_sentence(fix)) if fix else "",
        cost_bytes=group.cost_bytes,
        seconds=group.seconds if measured is None else measured,
        is_measured=measured is not None,
        certainty=("at least" if group.is_at_least else "at most") if group.cost else "",
        source=worst.location or "",
        instruction=worst.instruction or "",
        code=group.code,
    )


def _first_sentence(text: str) -> str:
    """The sentence that says what to do; a rule's page goes on with conditions and alternatives.

    >>> _first_sentence("Donate w. On TPU v5e, set xla_x.")
    'Donate w.'
    """
    first, end, _ = text.partition(". ")
    return f"{first}{end.rstrip()}"


def _memory_actions(sources: Sources) -> Iterator[Action]:
    """The suggestions of `hlo memspace`, each with the bytes by which it lowers the peak."""
    parts = {part.name: part for part in sources.memory.parts}
    advice, table = parts.get("advice"), parts.get("suggestions")
    if advice is None or table is None or advice.kind != "passage" or table.kind != "table":
        return
    before, after, at = (table.column_index(name) for name in ("before_bytes", "after_bytes", "peak_instruction"))
    for line, row in zip(advice.paragraphs, table.rows, strict=True):
        saved = round((number_of(row[before]) or 0) - (number_of(row[after]) or 0))
        if saved > 0:
            instruction = row[at]
            yield Action(
                plain_text(line_of(line)),
                cost_bytes=saved,
                certainty="computed",
                instruction=instruction if isinstance(instruction, str) else "",
            )


def _suggests_donation(memory: Report) -> bool:
    table = next((part for part in memory.parts if part.kind == "table" and part.name == "suggestions"), None)
    if table is None or table.kind != "table":
        return False
    kind = table.column_index("kind")
    return any(row[kind] == "donation" for row in table.rows)


_CERTAINTIES: Final[Mapping[Certainty, str]] = {
    "computed": "computed: the saving with the change applied",
    "at most": "at most: what it costs today",
    "at least": "at least: the cost of one iteration of a loop whose trip count is unknown",
}
"""What the page says of how sure savings are, each where a change has it."""


def _describe_actions(sources: Sources, actions: Sequence[Action]) -> str:
    """How much of the cost of all findings the listed ones have, or why none is listed."""
    found = next((part for part in sources.findings.parts if isinstance(part, Findings)), None)
    if not actions:
        words = "No finding has a cost, and no change that would lower the peak is known"
        return f"{words}." if found is None or not found.found else f"{words}; see the findings."
    listed = {(action.code, action.message) for action in actions if action.code}
    groups = () if found is None else found.groups
    shown = [group for group in groups if (group.code, group.message) in listed]
    share = None if found is None or not shown else found.share(shown)
    left = len(groups) - len(shown)
    order = ", those worth most first" if len(actions) > 1 else ""
    words = f"{format_count(len(actions), 'changes')}{order}"
    if share is not None and left > 0:
        words = f"{words}: {format_percent(share)}% of the cost of all findings ({format_count(left, 'more groups')})"
    meanings = [meaning for name, meaning in _CERTAINTIES.items() if any(name == each.certainty for each in actions)]
    words = f"{words}. {_first_upper('; '.join(meanings))}" if meanings else words
    has_chip = sources.chip_spec is not None or sources.memory_analysis.target == "cpu"
    if not has_chip and all(action.seconds is None for action in actions):
        words = f"{words}. Use --chip NAME for the time of each"
    return f"{words}."


# --- sections ---
# Each has a sentence that answers its question, and the tables that show why.


def _sections_of(sources: Sources, lines: Table, actions: Sequence[Action]) -> tuple[Section, ...]:
    """All sections in the order of the page; one without rows has only its sentence."""
    return (
        Section("first", "What to do first", _describe_actions(sources, actions)),
        *_profile_sections(sources),
        _section("memory", "Memory", _describe_memory(sources), sources.memory, "spaces", "buffers"),
        _section("schedule", "Schedule", sources.steps.answer, sources.steps, "steps"),
        _section("transfers", "Transfers", sources.schedule.answer, sources.schedule, "operations", "pairs"),
        *_device_sections(sources),
        _section("kernels", "Kernels", sources.fusions.answer, sources.fusions, "kernels", "fusions"),
        *_pallas_sections(sources),
        _section("arguments", "Arguments", sources.arguments.answer, sources.arguments, "parameters", "results"),
        Section("lines", "Source lines", describe_lines(lines), ("lines",) if lines.rows else ()),
        _section("padding", "Padding", sources.padding.answer, sources.padding, "shapes"),
        _section("findings", "Findings", sources.findings.answer, sources.findings, "groups", "findings"),
    )


def _describe_memory(sources: Sources) -> str:
    """Where main memory is fullest, and what of it no buffer uses; gauges have the limits."""
    memory = sources.memory_analysis
    space = memory.main
    if space is None:
        return sources.memory.answer
    where = step_label(memory, space.peak_step)
    place = f"step {space.peak_step:,} of {len(memory.sequence):,}" + (f", {where}" if where else "")
    words = f"{space.name} peaks at {format_bytes(space.peak_bytes)} at {place}"
    unused = space.totals.fragmentation_bytes
    return f"{words}; {format_bytes(unused)} more is fragmentation" if unused else words


def _profile_sections(sources: Sources) -> tuple[Section, ...]:
    """The measured times, if there is a profile."""
    if sources.measured is None:
        return ()
    names = "step_parts", "executions", "measured"
    measured = _section("measured", "Measured time", sources.measured.answer, sources.measured, *names)
    if sources.timeline is None:
        return (measured,)
    return (measured, _section("timeline", "Timeline", sources.timeline.answer, sources.timeline, "timeline"))


def _device_sections(sources: Sources) -> tuple[Section, ...]:
    """The collectives, if there are several devices."""
    if devices_of(sources.loaded.module).count < 2:
        return ()
    answer = sources.collectives.answer
    return (_section("collectives", "Collectives", answer, sources.collectives, "collectives"),)


def _pallas_sections(sources: Sources) -> tuple[Section, ...]:
    """The grids, the memory, and the work of Pallas kernels, if there are any."""
    if sources.pallas is None:
        return ()
    return (_section("pallas", "Pallas kernels", sources.pallas.answer, sources.pallas, "pallas_kernels"),)


def _section(key: str, title: str, answer: str, report: Report, *names: str) -> Section:
    there = {part.name for part in report.parts if part.name in names and _has_content(part)}
    sentence = answer if answer.endswith(".") else f"{answer}."
    return Section(key, title, sentence, tuple(name for name in names if name in there))


def _has_content(part: Part) -> bool:
    if part.kind == "table":
        return bool(part.rows)
    return part.kind == "timeline" or (part.kind == "findings" and bool(part.found))


# --- the page ---
# `hlo report DUMP`: the reports of the other commands as sections of one report.


def report_of_module(loaded: Loaded, options: ReportOptions, argument: str) -> Report:
    """All sections on a module; their tables have the names and the rows that the other commands give them."""
    with sharing():
        return report_of(sources_of(loaded, options, argument), options, argument)


def report_of(sources: Sources, options: ReportOptions, argument: str) -> Report:
    """The same for results of analyses; tables are computed when they are read, best within `sharing`."""
    loaded = sources.loaded
    lines = lines_table(sources.costs_by_line, _opening_space(sources))
    verdicts = _verdicts_of(sources)
    actions = _actions_of(sources, verdicts, argument)
    sections = _sections_of(sources, lines, actions)
    overview = Overview(
        "overview",
        title_of(loaded, options.chip),
        details_of(loaded, len(sources.memory_analysis.sequence)),
        verdicts,
        sections,
        actions,
    )
    return Report(
        "report",
        _answer_of(overview.title, verdicts),
        version=1,
        numbers=sources.numbers,
        parts=(overview, _verdicts_table(verdicts), *_parts(sources, sections), *([lines] if lines.rows else ())),
        next=_next(sources, options, argument),
        notes=tuple(_notes(sources)),
        input=input_facts(loaded),
    )


def _opening_space(sources: Sources) -> str | None:
    """The memory on which the page opens."""
    main = sources.memory_analysis.main
    return None if main is None else main.name


def _answer_of(title: str, verdicts: Sequence[Verdict]) -> str:
    """The title, and the headlines as one sentence."""
    words = "; ".join(_in_sentence(each) for each in verdicts if each.headline)
    return f"{title}: {words}"


def _in_sentence(verdict: Verdict) -> str:
    """A headline in lower case, unless it begins with a name; one of a word has its title too."""
    headline = verdict.headline
    if headline[1:2].islower() or headline[1:2] == " ":
        headline = f"{headline[:1].lower()}{headline[1:]}"
    return headline if " " in headline else f"{verdict.title.lower()} {headline}"


def _parts(sources: Sources, sections: Sequence[Section]) -> Iterator[Part]:
    """The parts of the sections, each once, without what a command shows of them only to people."""
    wanted = {name for section in sections for name in section.parts}
    for report in sources.reports:
        for part in report.parts:
            if part.kind in ("table", "timeline", "findings") and part.name in wanted:
                wanted.discard(part.name)
                yield _hidden_part(part)


def _hidden_part(part: Part) -> Part:
    """A part that screens do not show; findings as rows, because lint alone writes them in formats of their own."""
    if part.kind == "timeline":
        return replace(part, person=False)
    table = part.as_table()
    assert table is not None
    return replace(table, main=False, person=False)


def _verdicts_table(verdicts: Sequence[Verdict]) -> Table:
    """The verdicts as rows, for pipes."""
    columns: tuple[Column[Verdict], ...] = (
        Column("key", "key", of=lambda verdict: verdict.title.lower()),
        Column("tone", "tone", of=lambda verdict: verdict.tone),
        Column("headline", "headline", of=lambda verdict: verdict.headline),
        Column("sentence", "sentence", of=lambda verdict: verdict.sentence),
        Column("section", "section", of=lambda verdict: verdict.section),
    )
    rows = rows_from(columns, verdicts)
    return Table("verdicts", columns, rows, noun="verdicts", person=False)


def _next(sources: Sources, options: ReportOptions, argument: str) -> tuple[str, ...]:
    """The command that writes the page, with the chip that is given or that the dump names."""
    if not argument or argument == "-":
        return ()
    chip = options.chip or (sources.memory_chip.name if sources.memory_chip is not None else None)
    given = (("--chip", chip), ("--chip-file", options.chip_file), ("--profile", options.profile))
    view = format_options((*given, ("-o", "report.html")))
    return (f"hlo report {argument} {view}",)


def _notes(sources: Sources) -> Iterator[Diagnostic]:
    """The notes of all reports, each once."""
    yield from dict.fromkeys(note for report in sources.reports for note in report.notes)
