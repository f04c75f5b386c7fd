"""`--run-pass`, `--fuse`, and `--unfuse` for a GPU: fusions that XLA:GPU would make, and the predicted times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.commands.fuse_gpu.decision_words import deciding_words
from hlo_cli.commands.fuse_gpu.pairs_table import SLOWER, seconds
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, verb
from hlo_cli.report.table import Cell, Column, Table
from hlo_cli.transform.fusion.gpu_decisions import pairs_of
from hlo_cli.transform.fusion.gpu_fusion import EXACT, TIE, TRITON, GpuFusion, GpuKernelTimes

_WORDS: Final = {
    EXACT: ("is exact", "are exact"),
    TIE: (
        "depends on a tie, decided by names and the order of the file; protos decide it exactly",
        "depend on a tie, decided by names and the order of the file; protos decide it exactly",
    ),
    TRITON: (
        "is next to a Triton fusion, whose decisions are not modeled",
        "are next to a Triton fusion, whose decisions are not modeled",
    ),
}


def fusion_tables(fusion: GpuFusion) -> Iterator[Table]:
    """Each fusion with what was fused, and how certain it is, those of constants alone last; the steps for programs."""
    members: dict[str, list[str]] = {}
    for step in fusion.fused:
        found = members.setdefault(step.fusion, [])
        found += members.get(step.producer, [step.producer])
    columns = (
        Column("fusion", "fusion", "name", role="name"),
        Column("certainty", "certainty"),
        Column("producers", "fused", rank=2),
        Column("steps", "steps", "count", person=False),
    )
    made = [name for name in members if name in fusion.certainty]
    others = [name for name in fusion.certainty if name not in members]
    rows = (
        *((name, fusion.certainty[name], ", ".join(dict.fromkeys(members[name])), len(members[name])) for name in made),
        *((name, fusion.certainty[name], None, 0) for name in others),
    )
    yield Table("fusions", columns, rows, noun="fusions", title="fusions", main=False)
    parts = (
        Column("producer", "producer", "name", role="name"),
        Column("consumer", "consumer", "name", role="name"),
        Column("fusion", "fusion", "name", role="name"),
        Column("pass", "pass"),
    )
    steps = tuple((each.producer, each.consumer, each.fusion, each.by) for each in fusion.fused)
    yield Table("steps", parts, steps, noun="steps", main=False, person=False)


def certainty_notes(fusion: GpuFusion, chip: str) -> Iterator[str]:
    """Notes on how certain the fusions are."""
    yield f"fusions are those of XLA:GPU in jaxlib 0.10.2 for {chip}: priority fusion, then multi-output fusion"
    counts = Counter(fusion.certainty.values())
    total = sum(counts.values())
    for certainty, words in _WORDS.items():
        if counts[certainty]:
            yield f"{counts[certainty]:,} of {format_count(total, 'fusions')} {verb(counts[certainty], *words)}"


def decision_note(module: Module, chip: str, producer: str, consumer: str) -> str:
    """Whether XLA would fuse a pair of a module as it is, and why not."""
    found = [pair for pair in pairs_of(module, chip, (producer, consumer), as_is=True) if pair.producer == producer]
    if not found:
        return f"XLA:GPU makes no such decision: {consumer} does not read {producer}"
    pair = found[0]
    if pair.reason is not None:
        why = f", because of {pair.blocker}" if pair.blocker is not None else ""
        return f"XLA:GPU would not fuse these for {chip}{why}: {pair.reason}"
    if pair.fused_ticks is None or pair.unfused_ticks is None:
        return f"XLA:GPU would fuse these for {chip} without an estimate of times"
    is_slower = pair.fused_ticks > pair.unfused_ticks
    times = f"{_time(pair.fused_ticks)} instead of {_time(pair.unfused_ticks)}"
    would = f"would not fuse these for {chip}: {SLOWER}," if is_slower else f"would fuse these for {chip}:"
    several = f" with all {len(pair.users)} consumers" if len(pair.users) > 1 else ""
    because = deciding_words(pair, chip) if is_slower else ""
    return f"XLA:GPU {would} {times}{several}" + (f". {because}".rstrip(".") if because else "")


def _time(ticks: int) -> str:
    return format_seconds(seconds(ticks))


def time_answer(before: GpuKernelTimes, after: GpuKernelTimes, chip: str) -> str:
    """The predicted times of both modules, for the answer.

    >>> time_answer(GpuKernelTimes({"a": 3e-6}, 0), GpuKernelTimes({"b": 1.5e-6}, 0), "h100")
    'predicted time on h100: 3.0 µs → 1.5 µs (50% less)'
    >>> time_answer(GpuKernelTimes({}, 1), GpuKernelTimes({}, 1), "h100")
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


def time_numbers(before: GpuKernelTimes, after: GpuKernelTimes, chip: str) -> dict[str, Cell]:
    """The predicted times for programs."""
    return {
        "chip": chip,
        "predicted_seconds_before": None if _is_unknown(before) else before.total,
        "predicted_seconds_after": None if _is_unknown(after) else after.total,
        "unmodeled_kernels": after.unknown,
    }


def _is_unknown(times: GpuKernelTimes) -> bool:
    """Whether no kernel has a predicted time: a sum of nothing is not a time of zero."""
    return times.unknown > 0 and not times.total


def unknown_note(after: GpuKernelTimes) -> Iterator[str]:
    """Notes on what the predicted times have, and what not."""
    words = "times are predicted by XLA's model for GPU fusion; each kernel runs once and adds 1 µs for its launch"
    left = f"; {format_count(after.unknown, 'kernels')} {verb(after.unknown, 'is', 'are')} not modeled"
    yield words + (left if after.unknown else "")


def touched_table(before: GpuKernelTimes, after: GpuKernelTimes) -> Table:
    """Kernels whose time changes, or that only one of the modules has; those of the old module first."""
    columns = (
        Column("kernel", "changed kernel", "name", role="name"),
        Column("before_seconds", "before", "seconds"),
        Column("after_seconds", "after", "seconds", like="before_seconds"),
        Column("saved_seconds", "saves", "seconds", like="before_seconds", role="saving"),
    )
    names = dict.fromkeys((*before.seconds, *after.seconds))
    rows = tuple(
        (name, old, new, (old or 0.0) - (new or 0.0))
        for name in names
        if (old := before.seconds.get(name)) != (new := after.seconds.get(name))
    )
    return Table("changed_kernels", columns, rows, noun="kernels", main=False, limit=10)


def several_chips_error(chips: Sequence[str]) -> str:
    """The error for a module of several chips.

    >>> several_chips_error(("h100", "b200"))
    'a module is for one chip, found h100, b200'
    """
    return f"a module is for one chip, found {', '.join(chips)}"
