"""`hlo fuse DUMP --run-pass --chip GPU`: fusions that XLA:GPU would make, and times by its model of any change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.ir.module import Module
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count, format_seconds
from hlo_cli.report.table import Table
from hlo_cli.transform.gpu_fuse import EXACT, TIE, TRITON, GpuFusion, gpu_time

_WORDS = {
    EXACT: "are exact",
    TIE: "depend on a tie, decided by names and the order of the file; protos decide it exactly",
    TRITON: "are next to a Triton fusion, whose decisions are not modeled",
}


def fusions_table(fusion: GpuFusion) -> Table:
    """Each fusion that was made or extended, with what was fused, and how certain it is."""
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
    rows = tuple(
        (name, fusion.certainty[name], ", ".join(dict.fromkeys(found)), len(found))
        for name, found in members.items()
        if name in fusion.certainty
    )
    return Table("gpu_fusions", columns, rows, noun="fusions", title="fusions", main=False)


def certainty_notes(fusion: GpuFusion, chip: str) -> Iterator[str]:
    """Notes on how certain the fusions are."""
    yield f"fusions are those of XLA:GPU in jaxlib 0.10.2 for {chip}: priority fusion, then multi-output fusion"
    if not gpu_device(chip).is_checked:
        yield f"the figures of {chip} are those of XLA's target file; no compiler for it was compared with"
    counts = Counter(fusion.certainty.values())
    total = sum(counts.values())
    for certainty, words in _WORDS.items():
        if counts[certainty]:
            yield f"{counts[certainty]:,} of {total:,} fusions {words}"


def time_note(before: Module, after: Module, chip: str) -> str:
    """The predicted time of both modules."""
    (old, unknown), (new, _) = gpu_time(before, chip), gpu_time(after, chip)
    words = f"predicted time on {chip} by XLA's model: {format_seconds(old / 1e6)} → {format_seconds(new / 1e6)}"
    verb = "is" if unknown == 1 else "are"
    left = f"; {format_count(unknown, 'kernels')} {verb} not modeled" if unknown else ""
    return f"{words}, each kernel once{left}"
