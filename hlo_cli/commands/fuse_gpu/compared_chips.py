"""`--chip h100,a100-80gb` with `--why-not` or `--run-pass`: what XLA:GPU fuses for one chip and not for another."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.commands.fuse_gpu.decision_by_chip import and_list, chips_notes, report_of_decision_by_chip
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table
from hlo_cli.report.text import Passage
from hlo_cli.transform.fusion.gpu_fusion import GpuFusion, fusions_by_chip, pairs_by_chip


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
        return report_of_decision_by_chip(loaded, chips, names)
    fusions = fusions_by_chip(loaded.module, chips)
    pairs = [
        each for each in pairs_by_chip(loaded.module, fusions) if within is None or each.consumer.computation is within
    ]
    columns = (
        Column("possible_saving_bytes", "traffic", "bytes", role="saving"),
        Column("producer", "producer", "name", role="name"),
        Column("consumer", "consumer", "name", role="name"),
        Column("fused_on", "fused on"),
        Column("apart_on", "separate on"),
        Column("computation", "computation", "name", from_width=120, rank=1),
    )
    rows = tuple(
        (
            pair.saving_bytes,
            pair.producer.name,
            pair.consumer.name,
            ", ".join(chip for chip in chips if chip in pair.fused_on),
            ", ".join(chip for chip in chips if chip not in pair.fused_on),
            pair.consumer.computation.name,
        )
        for pair in pairs
    )
    everything = Table("pairs", columns, rows, noun="pairs", title="fused on some chips only")
    table = everything if where is None else rows_where(where, everything)
    first = pairs[0] if pairs else None
    pair_names = "" if first is None else f"{first.producer.name},{first.consumer.name}"
    command = f"hlo fuse {argument} {pair_names} --why-not --chip {','.join(chips)}"
    nothing = () if table.rows else (Passage("nothing", ("No pair is fused on one of them only.",)),)
    return Report(
        "fuse",
        _answer(len(pairs), chips, fusions),
        numbers={"pairs": len(pairs), "chips": tuple(chips)},
        parts=(_fusions_table(fusions), *nothing, table),
        next=(command,) if first is not None and argument and argument != "-" else (),
        notes=(*chips_notes(loaded, chips), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _answer(pairs: int, chips: Sequence[str], fusions: dict[str, GpuFusion]) -> str:
    listed = and_list(chips)
    if not pairs:
        return f"XLA fuses the same pairs on {listed}"
    counts = ", ".join(f"{len(fusion.certainty):,} on {chip}" for chip, fusion in fusions.items())
    verb = "is" if pairs == 1 else "are"
    return f"{format_count(pairs, 'producer–consumer pairs')} {verb} fused on some of {listed} only (fusions: {counts})"


def _fusions_table(fusions: dict[str, GpuFusion]) -> Table:
    """Fusions and the predicted time for each chip."""
    columns = (
        Column("chip", "chip", "name"),
        Column("fusions", "fusions", "count"),
        Column("steps", "steps", "count"),
        Column("before_seconds", "before", "seconds"),
        Column("after_seconds", "after", "seconds", like="before_seconds"),
    )
    rows: tuple[Row, ...] = tuple(
        (chip, len(fusion.certainty), len(fusion.fused), fusion.times[0] / 1e6, fusion.times[1] / 1e6)
        for chip, fusion in fusions.items()
    )
    return Table("chips", columns, rows, noun="chips", main=False)
