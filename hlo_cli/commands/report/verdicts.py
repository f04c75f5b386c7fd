"""The verdicts of a page: the answer to each question in a few words, with a tone by a stated rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.memory.memory_limits import MemoryFit, memory_fits
from hlo_cli.analysis.memory.memory_model import MemoryAnalysis
from hlo_cli.commands.report.sources import Sources
from hlo_cli.commands.shared.chips import time_notes
from hlo_cli.commands.shared.stage_notes import bounded
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.report.cell import Cell, number_of
from hlo_cli.report.findings import Findings
from hlo_cli.report.numbers import format_bytes, format_count, format_part, format_percent, format_seconds
from hlo_cli.report.overview import Gauge, Tone, Verdict

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
        )
        if verdict is not None
    )


def _of_dump(sources: Sources) -> Verdict | None:
    """Bad if the text is truncated or has errors, a warning if it is a part or not the final program."""
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
    if sources.stage != "optimized":
        words = "Numbers are upper bounds: the compiler still fuses, schedules, and assigns memory."
        return Verdict("Dump", "warning", _first_upper(sources.stage), words, section="memory")
    return None


def _of_memory(sources: Sources) -> Verdict:
    """Bad if a memory of the chip is too small, a warning above 95% of main memory; neutral without a limit.

    Compilers fill the other memories as far as they can, so that they are full is no warning.
    """
    memory, chip = sources.memory_analysis, sources.memory_chip
    fits = memory_fits(memory, None, chip)
    gauges = tuple(_gauges(memory, fits))
    sentence = _sentence(sources.memory.answer)
    peak = max((space for space in memory.spaces), key=lambda space: (space.peak_bytes, -space.number), default=None)
    if peak is None:
        return Verdict("Memory", "neutral", "No values in memory", sentence, section="memory")
    if not fits or chip is None:
        words = f"{peak.name} peaks at {format_bytes(peak.peak_bytes)}"
        return Verdict("Memory", "neutral", words, sentence, section="memory", gauges=gauges)
    fullest = max(fits, key=lambda fit: fit.needed_bytes / fit.limit_bytes)
    if fullest.excess_bytes > 0 and sources.stage != "optimized":
        words = f"At most {format_bytes(fullest.needed_bytes)} of {fullest.name}"
        return Verdict("Memory", "warning", words, sentence, section="memory", gauges=gauges)
    if fullest.excess_bytes > 0:
        words = f"Does not fit {chip.name}: {fullest.name} {format_bytes(fullest.excess_bytes)} over"
        return Verdict("Memory", "bad", words, sentence, section="memory", gauges=gauges)
    main = next((fit for fit in fits if fit.space == MemorySpace.MAIN), fullest)
    words = f"Fits {chip.name}: {format_part(main.needed_bytes, main.limit_bytes)}"
    is_nearly_full = main.needed_bytes >= NEARLY_FULL * main.limit_bytes
    tone: Tone = "warning" if is_nearly_full else "good"
    return Verdict("Memory", tone, words, sentence, section="memory", gauges=gauges)


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
    numbers, sentence = sources.schedule.numbers, _sentence(sources.schedule.answer)
    pairs, synchronous = _number(numbers, "pairs"), _number(numbers, "synchronous")
    if not pairs and not synchronous:
        return Verdict("Exposed", "neutral", "No transfers", sentence, section="schedule")
    total = _number(numbers, "bytes") + _number(numbers, "synchronous_bytes")
    exposed = _number(numbers, "exposed_bytes") + _number(numbers, "synchronous_bytes")
    if sources.chip_spec is None:
        words = f"{format_part(round(exposed), round(total))} exposed" if exposed else "All transfers overlap compute"
        tone: Tone = "warning" if exposed and exposed >= MUCH_EXPOSED * total else "good"
        return Verdict("Exposed", tone, words, sentence, section="schedule")
    names = ("exposed_seconds", "synchronous_seconds")
    is_known = all(numbers.get(name) is not None for name in names)
    seconds = sum(_number(numbers, name) or _number(numbers, f"known_{name}") for name in names)
    execution, bounds = _number(numbers, "execution_seconds"), numbers.get("lower_bounds")
    if not is_known and not seconds:
        return Verdict("Exposed", "neutral", "Unknown", sentence, section="schedule")
    least = "" if is_known else "at least "
    share = seconds / execution if execution else 0.0
    percent = f" ({format_percent(share)}%)" if is_known and execution and not bounds else ""
    words = _first_upper(f"{least}{format_seconds(seconds)} exposed{percent}") if seconds else "Nothing exposed"
    return Verdict("Exposed", "warning" if share >= MUCH_EXPOSED else "good", words, sentence, section="schedule")


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
        words = f"{share}; {format_bytes(saving)} avoidable"
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
    lead = f"{format_count(len(found.groups), 'groups')} {_verb(len(found.groups), 'cost')} {cost}. " if cost else ""
    return Verdict("Findings", tone, words, f"{lead}{sentence}", section="findings")


def _verb(number: int, plural: str) -> str:
    return f"{plural}s" if number == 1 else plural


def _of_time(sources: Sources) -> Verdict | None:
    """The estimated time of an execution, which is neither good nor bad; None without a chip."""
    if sources.chip_spec is None:
        return None
    numbers, name = sources.schedule.numbers, sources.chip_spec.chip
    execution, compute = _number(numbers, "execution_seconds"), _number(numbers, "compute_seconds")
    bounds = numbers.get("lower_bounds")
    if not execution:
        return Verdict("Time", "neutral", "Unknown", _sentence(sources.steps.answer), section="kernels")
    least = "at least " if bounds else ""
    rates = ", ".join(
        note.message.partition(": ")[2] for note in time_notes(sources.chip_spec, sources.loaded.module)[:1]
    )
    sentence = f"Kernels compute for {format_seconds(compute)}. Estimates for {name} assume {rates.partition(';')[0]}."
    words = f"{least}{format_seconds(execution)} per execution (estimate)"
    return Verdict("Time", "neutral", _first_upper(words), bounded(sentence, sources.stage), section="kernels")


def _number(numbers: Mapping[str, Cell], name: str) -> float:
    """A number, 0 if it is absent or unknown."""
    return number_of(numbers.get(name)) or 0


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _first_upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
