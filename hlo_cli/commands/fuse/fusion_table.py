"""`hlo fuse DUMP`: one row for each fusion, the memory traffic that fusion avoids, and the kinds of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo_cli.analysis.cost.cost_analysis import cost_analysis, costs_among
from hlo_cli.analysis.cost.counting import RUN, Cost
from hlo_cli.analysis.fusion.kernels import Fusion, Kernel, estimated_cycles, fusions_of, kernels_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.commands.fuse.kernel_kinds import fused_operations, kernel_kinds_table, kernels_table
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, columns_for, model_of, notes_on_costs
from hlo_cli.commands.modules.by import with_origins
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, plural
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Column, Row, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError

_MAX_OPCODES = 3
"""The most opcodes of kernels that the answer names."""

_OF_LAUNCHES = Diagnostic("note", "costs of fusions are per execution; those of kernel kinds are of all launches")
_SAVED = Diagnostic("note", "saved is the memory traffic of the operations without fusion, minus that of the fusion")


@dataclass(frozen=True, slots=True)
class _Found:
    """A module with its costs, kernels, and fusions."""

    loaded: Loaded
    costs: Mapping[Instruction, Cost]
    kernels: Mapping[Instruction, Kernel]
    fusions: tuple[Fusion, ...]
    timing: TimingColumns | None
    is_compiled: bool

    def times(self, instruction: Instruction) -> int | None:
        """The number of executions of an instruction; 0 for instructions in applied or dead computations."""
        kernel = self.kernels.get(instruction)
        return kernel.times if kernel is not None else 0


def report_of_fusions(
    loaded: Loaded, *, within: Computation | None, where: str | None, timing: TimingColumns | None, argument: str
) -> Report:
    """The fusions, those that avoid most traffic first, and the number of kernels of each kind."""
    module = loaded.module
    costs = cost_analysis(module)
    kernels = {kernel.instruction: kernel for kernel in kernels_of(module)}
    listed = {i: k for i, k in kernels.items() if within is None or i.computation is within}
    fusions = fusions_of(module, costs=costs)
    if fusion := next((each for each in fusions if each.body is within), None):
        raise HloError(f"{fusion.body.name} is the body of {fusion.name}", hint=f"run `hlo fuse DUMP {fusion.name}`")
    chosen = tuple(fusion for fusion in fusions if within is None or fusion.instruction.computation is within)
    found = _Found(loaded, costs, listed, chosen, timing, target_of(module) is not None)
    everything = _table(found)
    table = everything if where is None else _narrowed(everything, found, where)
    return Report(
        "fuse",
        _answer(found),
        numbers={**_numbers(found, within), **model_of(timing)},
        parts=_parts(found, everything, table),
        next=_next(found, table, argument),
        notes=(*program_notes(loaded), *_notes(found)),
        input=input_facts(loaded),
    )


def _narrowed(everything: Table, found: _Found, where: str) -> Table:
    ranked = {fusion.name: fusion.instruction for fusion in found.fusions}
    at = everything.column_index("fusion")
    places = [(ranked[str(row[at])], ()) for row in everything.rows]
    return rows_where(where, with_origins(everything, places, found.loaded.module, where))


def _parts(found: _Found, everything: Table, table: Table) -> tuple[Part, ...]:
    launched = tuple(found.kernels.values())
    calls = (kernel.instruction for kernel in launched if kernel.instruction.opcode == "custom-call")
    costs = {**found.costs, **costs_among(calls, rules=RUN)}
    kinds = kernel_kinds_table(launched, costs, found.timing)
    every = kernels_table(launched, costs, found.timing, fusions=found.fusions, module=found.loaded.module)
    if not everything.rows:
        return Passage("nothing", (_why_nothing(found),)), table, replace(kinds, person=found.is_compiled), every
    if not table.rows:
        return Passage("nothing", (f"No matches among {format_count(len(everything.rows), 'fusions')}.",)), table, every
    return table, kinds, every


def _why_nothing(found: _Found) -> str:
    if not found.is_compiled:
        return "The module is not optimized yet, so it has no fusions."
    return f"Checked {format_count(found.loaded.module.instruction_count, 'instructions')}."


def _answer(found: _Found) -> str:
    kernels = [kernel for kernel in found.kernels.values() if not kernel.is_transfer]
    opcodes = Counter(kernel.instruction.opcode.removesuffix("-start") for kernel in kernels).most_common()
    named = [format_count(number, plural(opcode)) for opcode, number in opcodes[:_MAX_OPCODES]]
    rest = sum(number for _, number in opcodes[_MAX_OPCODES:])
    named += [format_count(rest, "others")] if rest else []
    if not found.fusions and not found.is_compiled:
        return f"No fusions yet in {format_count(len(kernels), 'operations')}{_in_detail(named)}"
    words = f"{format_count(len(kernels), 'kernels')}{_in_detail(named)}" if kernels else "No kernels"
    launches = _launches(kernels)
    if launches != len(kernels):
        words += (
            "; launch count unknown (loops without a known trip count)"
            if launches is None
            else f"; {format_count(launches, 'launches')}"
        )
    if not found.fusions:
        return f"{words}; no fusions"
    saved = sum(fusion.saved_bytes for fusion in found.fusions)
    whole = sum(fusion.unfused_bytes for fusion in found.fusions)
    return f"{words}; {avoided_traffic(saved, whole)}"


def avoided_traffic(saved: int, unfused: int) -> str:
    """The memory traffic that fusion avoids, out of that of the unfused operations.

    >>> avoided_traffic(1024, 4096), avoided_traffic(0, 4096)
    ('fusion avoids 1 KiB (25%) of memory traffic', 'fusion avoids no memory traffic')
    >>> avoided_traffic(-1024, 4096)
    "by XLA's cost analysis, fusion adds 1 KiB of memory traffic"
    """
    if saved < 0:
        return f"by XLA's cost analysis, fusion adds {format_bytes(-saved)} of memory traffic"
    amount = f"{format_bytes(saved)} ({format_percent(saved / unfused)}%) of" if saved else "no"
    return f"fusion avoids {amount} memory traffic"


def _in_detail(named: Sequence[str]) -> str:
    return f" ({', '.join(named)})" if named else ""


def _launches(kernels: Sequence[Kernel]) -> int | None:
    times = [kernel.times for kernel in kernels]
    return sum(known) if len(known := [each for each in times if each is not None]) == len(times) else None


def _numbers(found: _Found, within: Computation | None) -> dict[str, int | float | str | None]:
    kernels = [kernel for kernel in found.kernels.values() if not kernel.is_transfer]
    summed = [found.costs[each] for each in (within or found.loaded.module.entry).instructions]
    return {
        "kernels": len(kernels),
        "launches": _launches(kernels),
        "transfers": len(found.kernels) - len(kernels),
        "fusions": len(found.fusions),
        "read_bytes": sum(fusion.read_bytes for fusion in found.fusions),
        "written_bytes": sum(fusion.written_bytes for fusion in found.fusions),
        "saved_bytes": sum(fusion.saved_bytes for fusion in found.fusions),
        "unfused_bytes": sum(fusion.unfused_bytes for fusion in found.fusions),
        "flops": sum(round(cost.flops) for cost in summed),
        "transcendentals": sum(round(cost.transcendentals) for cost in summed),
        "bytes": sum(round(cost.bytes_accessed) for cost in summed),
        "operations_of_unknown_cost": sum(cost.unknown for cost in summed),
    }


def _table(found: _Found) -> Table:
    module = found.loaded.module
    origins = origins_of(module)
    cycles = any(estimated_cycles(fusion.instruction) is not None for fusion in found.fusions)
    repeats = any(found.times(fusion.instruction) not in (0, 1) for fusion in found.fusions)
    columns = (
        Column("saved_bytes", "saved", "bytes", role="saving", total="sum"),
        Column("read_bytes", "read", "bytes", total="sum"),
        Column("written_bytes", "written", "bytes", total="sum"),
        Column("flops", "flops", "count", total="sum"),
        Column("transcendentals", "transc.", "count", total="sum", from_width=120, rank=5),
        Column("intensity", "flops/B", "count", from_width=120, rank=5),
        *columns_for(found.timing),
        Column("execution_count", "executions", "count", person=repeats, rank=7),
        Column("estimated_cycles", "cycles", "count", total="sum", person=cycles, rank=7),
        Column("kind", "kind", rank=6),
        Column("operations", "ops", "count", total="sum"),
        Column("hero", "hero", from_width=120),
        Column("operands", "in", "count", from_width=120, rank=5),
        Column("outputs", "out", "count", from_width=120, rank=5),
        Column("provider", "provider", from_width=120, rank=7),
        Column("fusion", "fusion", "name", role="name"),
        Column("details", "details", from_width=120, rank=2),
        Column("source", "source", "source", rank=4),
        Column("op_name", "op_name", "op_name", from_width=120, rank=3),
        Column("fused", "fused operations", from_width=200, rank=1),
        Column("kernel_kind", "kernel kind", person=False),
        Column("unknown_costs", "unknown cost", "count", person=False),
        Column("bytes", "accessed", "bytes", person=False),
        Column("unfused_bytes", "unfused", "bytes", person=False),
        Column("called_computation", "body", "name", person=False),
        Column("computation", "computation", "name", person=False),
        Column("op_names", "op_names", person=False),
        Column("sources", "sources", person=False),
    )
    ranked = sorted(
        found.fusions, key=lambda each: (-each.saved_bytes * (found.times(each.instruction) or 1), each.name)
    )
    rows = tuple(_row(found, fusion, origins) for fusion in ranked)
    return Table("fusions", columns, rows, noun="fusions", footnote=_on_negative(found.fusions))


def _on_negative(fusions: Sequence[Fusion]) -> str:
    """The reason why some fusions have negative savings; empty if there are none."""
    if not (number := sum(fusion.saved_bytes < 0 for fusion in fusions)):
        return ""
    verb = "has" if number == 1 else "have"
    return (
        f"{number:,} of {format_count(len(fusions), 'fusions')} {verb} a negative saving: XLA's cost analysis counts"
        " only the accessed part of a gather or slice operand outside a fusion, but the whole operand inside one"
    )


def _row(found: _Found, fusion: Fusion, origins: Origins) -> Row:
    instruction, cost = fusion.instruction, fusion.cost
    kernel = found.kernels.get(instruction)
    op_names, sources = origins.of_all(fusion.body.instructions)
    origin = origins.own(instruction)
    times = found.times(instruction)
    return (
        fusion.saved_bytes,
        fusion.read_bytes,
        fusion.written_bytes,
        round(cost.flops),
        round(cost.transcendentals),
        cost.intensity,
        *(found.timing.cells(instruction, cost) if found.timing is not None else ()),
        UNKNOWN if times is None else times,
        estimated_cycles(instruction),
        fusion.kind or None,
        len(fusion.operations),
        ", ".join(dict.fromkeys(hero.opcode for hero in fusion.heroes)) or None,
        len(instruction.operands),
        sum(1 for _ in instruction.shape.leaves),
        kernel.backend.provider if kernel is not None else None,
        instruction.name,
        (kernel.backend.details or None) if kernel is not None else None,
        origin.source or None,
        origin.op_name or None,
        fused_operations(fusion),
        kernel.backend.kind if kernel is not None else None,
        cost.unknown,
        round(cost.bytes_accessed),
        fusion.unfused_bytes,
        fusion.body.name,
        instruction.computation.name,
        op_names,
        sources,
    )


def _notes(found: _Found) -> tuple[Diagnostic, ...]:
    """Notes on how costs are counted, if any are shown."""
    if not (found.fusions or found.is_compiled):
        return ()
    costs = notes_on_costs(found.loaded, found.timing)
    if any(kernel.times != 1 for kernel in found.kernels.values()):
        costs = (*costs, _OF_LAUNCHES)
    return (*costs, _SAVED) if found.fusions else costs


def _next(found: _Found, table: Table, argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    if not found.fusions:
        return (f"hlo fuse {argument} {'--why-not' if found.is_compiled else '--run-pass'}",) if found.kernels else ()
    if not table.rows:
        return ()
    first = table.rows[0][table.column_index("fusion")]
    return (f"hlo fuse {argument} {first}", f"hlo fuse {argument} --cost")
