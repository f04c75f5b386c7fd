"""`hlo shard` on several modules: a row for each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_cli.analysis.sharding.entry_arrays import entry_arrays
from hlo_cli.analysis.sharding.meshes import mesh_text
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs
from hlo_cli.commands.options.filters import chosen
from hlo_cli.commands.shard.array_tables import Totals, size_cells, totals_of
from hlo_cli.commands.shard.arrays import arrays_where, mesh_of
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import Column, Row, Share

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Many
    from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.inputs.input import Input
    from hlo_cli.ir.module import Module

_COLUMNS = (
    Column("devices", "devices", "count"),
    Column("mesh", "mesh", rank=6),
    Column("parameters", "parameters", "count", total="sum", from_width=120),
    Column("data_bytes", "data", "bytes", total="sum", person=False),
    Column("shard_bytes", "per device", "bytes", total="sum"),
    Column("padding", "padding", "percent", role="waste", total=Share("data_bytes", "shard_bytes", rest=True), rank=5),
    Column("saving_bytes", "saving", "bytes", role="saving", total="sum"),
)


@dataclass(frozen=True, slots=True)
class _Sharded:
    """The devices of one module, and its parameters on each of them."""

    devices: int
    mesh: str | None
    totals: Totals

    def cells(self) -> Row:
        return (self.devices, self.mesh, self.totals.arrays, *size_cells(self.totals))


def shard_each(many: Many, reading: InputOptions, options: ShardOptions, output: OutputOptions) -> int:
    """Writes one row for each module, those with the most bytes to save first, and returns the exit code."""
    options.check_without_comms()
    found = list(map_inputs(many, reading, options.jobs, partial(_sharded, options)))
    answers = [each.answer for each in found if each.answer is not None]
    saving = sum(each.totals.saving_bytes for each in answers)
    words = f"dividing copies would save {format_bytes(saving)} per device" if saving else "no copies to divide"
    return finish_each(
        "shard",
        found,
        Rows(_COLUMNS, _Sharded.cells, by="saving_bytes"),
        answer=f"{format_count(len(answers), 'modules')}: {words}",
        output=output,
    )


def _sharded(options: ShardOptions, module: Module, _input: Input) -> _Sharded:
    found, known = entry_arrays(module), mesh_of(module, options.given_mesh)
    test = None if options.where is None else arrays_where(options.where, module)
    parameters, _ = chosen(test, found.parameters, "parameters")
    mesh = None if known is None else mesh_text(known.mesh)
    return _Sharded(found.partitions, mesh, totals_of(parameters))
