"""The verdicts of a page: the answer to each question in a few words, with a tone by a stated rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, MemoryFit, MemorySpaceUsage, memory_fits
from hlo_cli.commands.modules.loading import devices_together, not_partitioned
from hlo_cli.commands.options.chips import mismatch
from hlo_cli.commands.report.exposed import exposed_of
from hlo_cli.commands.report.lines import column_sum
from hlo_cli.commands.report.sources import Sources
from hlo_cli.commands.shared.memory_timeline import step_label
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.report.findings import Findings
from hlo_cli.report.numbers import (
    format_bytes,
    format_count,
    format_part,
    format_percent,
    format_seconds,
    format_seconds_range,
)
from hlo_cli.report.overview import Gauge, Tone, Verdict
from hlo_cli.report.table import Cell, number_of

NEARLY_FULL: Final = 0.95
"""The share of a memory from which on a program that fits gets a warning."""
MUCH_EXPOSED: Final = 0.05
"""The share of exposed time in an execution, or of exposed bytes in all transferred bytes, that gets a warning."""
MUCH_PADDING: Final = 0.1
"""The share of padding in the bytes of all values up to which the verdict is good."""
MUCH_SAVED: Final = 0.01
"""The share of the bytes of all values that better orders have to save for a warning."""


def verdicts_of(sources: Sources) -> tuple[Verdict, ...]:
    """Memory, exposed transfers, padding, findings, and time; first, whether the dump is a complete, final program."""
    return tuple(
        verdict
        for verdict in (
            _of_dump(sources),
            _of_memory(sources),
            _of_exposed(sources),
            _of_padding(sources),
            _of_findings(sources),
            _of_time(sources),
            _of_measured(sources),
        )
        if verdict is not None
    )


def _of_dump(sources: Sources) -> Verdict | None:
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


def _of_memory(sources: Sources) -> Verdict:
    """Bad if a memory of the chip is too small, a warning above 95% of main memory; neutral without a limit.

    Compilers fill the other memories as far as they can, so that they are full is no warning.
    """
    memory, chip = sources.memory_analysis, sources.memory_chip
    fits = memory_fits(memory, None, chip)
    gauges = tuple(_gauges(memory, fits))
    sentence = _sentence(sources.memory.answer)
    peak = memory.fullest
    if peak is None:
        return Verdict("Memory", "neutral", "No values in memory", sentence, section="memory")
    if not fits or chip is None:
        words = _first_upper(f"{peak.name} peaks at {format_bytes(peak.peak_bytes)}")
        return Verdict("Memory", "neutral", words, _peak(memory, peak), section="memory", gauges=gauges)
    fullest = max(fits, key=lambda fit: fit.needed_bytes / fit.limit_bytes)
    if fullest.excess_bytes > 0 and sources.stage != "optimized":
        words = f"At most {format_bytes(fullest.needed_bytes)} of {fullest.name}"
        return Verdict("Memory", "warning", words, sentence, section="memory", gauges=gauges)
    if fullest.excess_bytes > 0:
        words = f"Does not fit {chip.name} ({fullest.name} {format_bytes(fullest.excess_bytes)} over)"
        return Verdict("Memory", "bad", words, sentence, section="memory", gauges=gauges)
    main = next((fit for fit in fits if fit.space == MemorySpace.MAIN), fullest)
    words = f"Fits {chip.name} ({format_part(main.needed_bytes, main.limit_bytes)})"
    is_nearly_full = main.needed_bytes >= NEARLY_FULL * main.limit_bytes
    tone: Tone = "warning" if is_nearly_full else "good"
    return Verdict("Memory", tone, words, sentence, section="memory", gauges=gauges)


def _peak(memory: MemoryAnalysis, space: MemorySpaceUsage) -> str:
    """Where the peak of a memory is, and how to check it against a limit."""
    place = f"At {step_label(memory, space.peak)}, step {space.peak:,} of {len(memory.sequence):,}"
    return f"{place}." if memory.target == "cpu" else f"{place}. Use --chip NAME to check the limits of a chip."


def _gauges(memory: MemoryAnalysis, fits: tuple[MemoryFit, ...]) -> Iterator[Gauge]:
    """The bytes needed in each memory with a limit, and the peaks of the others."""
    limited = {fit.space: fit for fit in fits}
    for space in memory.spaces:
        fit = limited.get(space.number)
        yield Gauge(space.name, *((fit.needed_bytes, fit.limit_bytes) if fit else (space.peak_bytes, None)))


def _of_exposed(sources: Sources) -> Verdict:
    """A warning from 5% of an execution on, or of the bytes of transfers without a chip; good below.

    Synchronous transfers count as exposed. Neutral without transfers, and if nothing is known.
    """
    exposed, sentence = exposed_of(sources.schedule), _sentence(sources.schedule.answer)
    if not exposed.transfers:
        return Verdict("Exposed", "neutral", "No transfers", sentence, section="schedule")
    if sources.chip_spec is None:
        part = format_part(exposed.bytes, exposed.total_bytes)
        words = f"{part} exposed" if exposed.bytes else "All transfers overlap compute"
        tone: Tone = "warning" if exposed.bytes and exposed.bytes >= MUCH_EXPOSED * exposed.total_bytes else "good"
        return Verdict("Exposed", tone, words, sentence, section="schedule")
    if exposed.seconds is None:
        return Verdict("Exposed", "neutral", "Exposed time unknown", sentence, section="schedule")
    least = "" if exposed.is_known else "at least "
    percent = f" ({format_percent(exposed.share)}%)" if exposed.share is not None else ""
    words = f"{least}{format_seconds(exposed.seconds)} exposed{percent}" if exposed.seconds else "No exposed time"
    execution = _number(sources.schedule.numbers, "execution_seconds")
    tone = "warning" if exposed.seconds and exposed.seconds >= MUCH_EXPOSED * execution else "good"
    synchronous = _number(sources.schedule.numbers, "synchronous_seconds")
    if synchronous:
        collectives = format_count(round(_number(sources.schedule.numbers, "synchronous")), "synchronous collectives")
        waiting = _first_upper(f"{least}{format_seconds(max(0.0, exposed.seconds - synchronous))}")
        sentence = f"{waiting} of async operations and {format_seconds(synchronous)} of {collectives} are exposed."
    return Verdict("Exposed", tone, _first_upper(words), sentence, section="schedule")


def _of_padding(sources: Sources) -> Verdict:
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


def _of_findings(sources: Sources) -> Verdict:
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


def _of_time(sources: Sources) -> Verdict | None:
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
    words = f"{format_seconds_range(low, execution, high)}{' plus unknown time' if bounds else ''} per execution"
    return Verdict("Time", "neutral", _first_upper(words), sentence, section="kernels")


def _of_measured(sources: Sources) -> Verdict | None:
    """The measured time of the kernels of a step or run, which is neither good nor bad; None without a profile."""
    if sources.measured is None:
        return None
    numbers = sources.measured.numbers
    seconds, step = _number(numbers, "measured_seconds"), _number(numbers, "step_seconds")
    unit = str(numbers["unit"])
    per = "in the trace" if unit == "trace" else f"per {unit}"
    words = f"Measured {format_seconds(seconds)} {per}" if seconds else "No measured time"
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
