"""One decision of XLA:GPU on several chips: the times on each, and the part that differs."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.fusion.gpu_model import LAUNCH
from hlo_cli.analysis.hardware.chip_specs import gpu_device
from hlo_cli.commands.fuse_gpu.chips import state_notes
from hlo_cli.commands.fuse_gpu.decision import chosen_pair, decision_answer, decision_numbers
from hlo_cli.commands.fuse_gpu.decision_words import deciding_words
from hlo_cli.commands.fuse_gpu.pair_names import no_pair
from hlo_cli.commands.fuse_gpu.pairs_table import SLOWER, seconds
from hlo_cli.commands.fuse_gpu.why_not_pair import kernels_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.report.numbers import format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic
from hlo_cli.transform.fusion.gpu_decisions import GpuPair, pairs_of


def report_of_decision_by_chip(loaded: Loaded, chips: Sequence[str], names: Sequence[str]) -> Report:
    """The decision on each chip, side by side, and what differs."""
    kernels, notes = kernels_of(loaded, names)
    found: dict[str, GpuPair] = {}
    for chip in chips:
        pairs = pairs_of(loaded.module, chip, kernels)
        if pairs:
            found[chip] = pairs[0] if len(kernels) > 1 else chosen_pair(pairs, kernels[0])
    said = (*notes, *chips_notes(loaded, chips), *notes_of(loaded))
    numbers: dict[str, Cell] = {"chips": tuple(chips)}
    if not found:
        return Report("fuse", no_pair(kernels), numbers=numbers, notes=said, input=input_facts(loaded))
    parts = [_decisions_table(found), _parts_table(found), _devices_table(chips)]
    words = tuple(_on_chip(chip, pair) for chip, pair in found.items() if deciding_words(pair, chip))
    numbers["decisions"] = tuple({"chip": chip, **decision_numbers(pair, chip)} for chip, pair in found.items())
    return Report(
        "fuse",
        _one_answer(found, kernels),
        numbers=numbers,
        parts=(Passage("deciding", (*words, *_difference(found))), *(table for table in parts if table.rows)),
        notes=said,
        input=input_facts(loaded),
    )


def _on_chip(chip: str, pair: GpuPair) -> str:
    return f"{chip}: {deciding_words(pair, chip)}"


def _one_answer(found: dict[str, GpuPair], names: Sequence[str]) -> str:
    fused = [chip for chip, pair in found.items() if pair.is_fused]
    apart = [chip for chip, pair in found.items() if not pair.is_fused and pair.emitted_in is None]
    if not fused or not apart:
        chips, (first, *others) = list(found), found.values()
        is_same = all(_essence(pair) == _essence(first) for pair in others) and first.emitted_in is None
        if not is_same:
            return "; ".join(decision_answer(each, chip) for chip, each in found.items())
        reason = first.reason or ("" if first.is_fused or _saved(first) >= 0 else SLOWER)
        words = f"{first.producer} is{'' if first.is_fused else ' not'} fused into {first.consumer} on {_list(chips)}"
        return f"{words}: {reason}" if reason else words
    if len(names) > 1:
        return f"{names[0]} and {names[1]} are one kernel on {_list(fused)}, but not on {_list(apart)}"
    return f"{names[0]} is fused on {_list(fused)}, but not on {_list(apart)}"


def _essence(pair: GpuPair) -> tuple[bool, str | None, bool]:
    return pair.is_fused, pair.reason, _saved(pair) < 0


def _list(words: Sequence[str]) -> str:
    return and_list(words) if len(words) > 1 else words[0]


def _decisions_table(found: dict[str, GpuPair]) -> Table:
    columns = (
        Column("chip", "chip", "name"),
        Column("is_fused", "fused", "flag"),
        Column("unfused_seconds", "separate", "seconds"),
        Column("fused_seconds", "one kernel", "seconds", like="unfused_seconds"),
        Column("saved_seconds", "saves", "seconds", like="unfused_seconds"),
        Column("reason", "reason"),
    )
    rows = tuple(
        (
            chip,
            pair.is_fused,
            None if pair.unfused_ticks is None else seconds(pair.unfused_ticks),
            None if pair.fused_ticks is None else seconds(pair.fused_ticks),
            None if pair.unfused_ticks is None or pair.fused_ticks is None else seconds(_saved(pair)),
            pair.reason or (SLOWER if not pair.is_fused and _saved(pair) < 0 else None),
        )
        for chip, pair in found.items()
    )
    return Table("decisions", columns, rows, noun="decisions", main=False)


def _saved(pair: GpuPair) -> int:
    return (pair.unfused_ticks or 0) - (pair.fused_ticks or 0)


def _parts_table(found: dict[str, GpuPair]) -> Table:
    """The fused kernel on each chip."""
    columns = (
        Column("chip", "fused kernel", "name"),
        Column("cycles", "cycles", "count"),
        Column("blocks", "blocks", "count"),
        Column("threads", "threads", "count"),
        Column("emitter", "emitter"),
        Column("memory_seconds", "memory", "seconds"),
        Column("compute_seconds", "compute", "seconds", like="memory_seconds"),
        Column("kernel_seconds", "time", "seconds", like="memory_seconds"),
    )
    rows = tuple(
        (
            chip,
            both.time.flops,
            both.time.blocks,
            both.time.threads,
            both.time.emitter,
            seconds(both.memory_ticks),
            seconds(both.compute_ticks),
            seconds(both.time.ticks),
        )
        for chip, pair in found.items()
        if (both := pair.kernels[2]) is not None
    )
    return Table("fused_kernels", columns, rows, noun="kernels", main=False)


def _devices_table(chips: Sequence[str]) -> Table:
    """The figures of the chips that the model uses."""
    columns = (
        Column("chip", "chip", "name"),
        Column("cores", "cores", "count"),
        Column("fpus", "fpus/core", "count"),
        Column("clock_ghz", "GHz", "number"),
        Column("memory_rate", "memory", "byte/second"),
        Column("l2_cache_bytes", "L2", "bytes"),
        Column("profile", "cycles of", "name"),
    )
    devices = {chip: gpu_device(chip) for chip in chips}
    rows = tuple(
        (
            chip,
            each.core_count,
            each.fpus_per_core,
            each.clock_rate_ghz,
            each.memory_bandwidth,
            each.l2_cache_bytes,
            each.profile,
        )
        for chip, each in devices.items()
    )
    return Table("devices", columns, rows, noun="chips", main=False)


def _difference(found: dict[str, GpuPair]) -> tuple[str, ...]:
    """The part of the saved time that differs most between the first chip that fuses and the first that does not."""
    chips = [
        next((chip for chip, pair in found.items() if pair.is_fused is is_fused and None not in pair.kernels), None)
        for is_fused in (True, False)
    ]
    one, other = chips
    if one is None or other is None:
        return ()
    costs = {chip: _costs(found[chip]) for chip in (one, other)}
    part = max(costs[one], key=lambda name: costs[other][name] - costs[one][name])
    here, there = costs[one][part], costs[other][part]
    why = {"computing": _why_computing, "memory accesses": _why_memory}[part](found, one, other)
    launch = format_seconds(seconds(LAUNCH))
    words = f"The difference is in {part}: one kernel {_more(here)} on {one}, and {_more(there)} on {other}"
    return (f"{words}; both save a launch ({launch}). {why}",)


def _more(ticks: int) -> str:
    return f"takes {format_seconds(seconds(abs(ticks)))} {'more' if ticks >= 0 else 'less'}"


def _costs(pair: GpuPair) -> dict[str, int]:
    """Ticks that one kernel takes more than two, for computing and for memory accesses."""
    one, other, both = pair.kernels
    assert one is not None
    assert other is not None
    assert both is not None
    return {
        "computing": both.compute_ticks - one.compute_ticks - other.compute_ticks,
        "memory accesses": both.memory_ticks - one.memory_ticks - other.memory_ticks,
    }


def _why_computing(found: dict[str, GpuPair], one: str, other: str) -> str:
    cycles = [pair.time.flops for chip in (one, other) if (pair := found[chip].kernels[2]) is not None]
    same = (
        f"{cycles[0]:,} on {one} and {cycles[1]:,} on {other}" if cycles[0] != cycles[1] else f"{cycles[0]:,} on both"
    )
    return f"Cycles: {same}. {_cores(one)}, {_cores(other)}."


def _cores(chip: str) -> str:
    device = gpu_device(chip)
    return f"{chip} has {device.core_count} cores of {device.fpus_per_core} units at {device.clock_rate_ghz:g} GHz"


def _why_memory(_: dict[str, GpuPair], one: str, other: str) -> str:
    return f"{_memory(one)}, {_memory(other)}."


def _memory(chip: str) -> str:
    device = gpu_device(chip)
    bandwidth, cache = device.memory_bandwidth / 1e9, device.l2_cache_bytes / (1 << 20)
    return f"{chip} reads {bandwidth:,.0f} GB/s and has {cache:g} MiB of L2 cache"


def and_list(words: Sequence[str]) -> str:
    """Words in a sentence.

    >>> and_list(("a", "b", "c"))
    'a, b and c'
    """
    return f"{', '.join(words[:-1])} and {words[-1]}"


def chips_notes(loaded: Loaded, chips: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Notes on the chips and on the module."""
    words = f"fusions are those of XLA:GPU in jaxlib 0.10.2, computed for {and_list(chips)}"
    state = dict.fromkeys(each for chip in chips[:1] for each in state_notes(loaded, chip))
    return (Diagnostic("note", words), *(Diagnostic("note", each) for each in state))
