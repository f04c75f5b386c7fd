"""How are the arguments and results of a module divided, and how many bytes does a device hold?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.sharding.entry_arrays import (
    EntryArray,
    EntryArrays,
    array_of_value,
    divided,
    entry_arrays,
    partitions_of,
)
from hlo_cli.analysis.sharding.meshes import KnownMesh, axes_text, header_meshes, known_mesh, mesh_text
from hlo_cli.analysis.sharding.placement import Placement, Spec, partition_spec
from hlo_cli.commands.modules.instruction_tables import chosen
from hlo_cli.commands.modules.loading import Loaded, Many, input_facts, notes_of
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import AxisRef, Mesh, MeshAxis, NamedSharding, Sharding, ShardingType
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import SHARDING_START, index_suffix
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_bytes, format_count, format_part
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import (
    KEEP,
    UNKNOWN,
    Cell,
    Column,
    Share,
    Table,
    columns_of_part,
    rows_from,
    rows_from_tuples,
    unknown_if_none,
)
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import Keys
    from hlo_cli.analysis.query.where import Predicate
    from hlo_cli.commands.shape.argument import NamedShape
    from hlo_cli.commands.shard.options import ShardOptions

# --- parameters and results ---


UNKNOWN_SPEC: Final = "?"


def mesh_of(module: Module, given_mesh: Mesh | None) -> KnownMesh | None:
    """The mesh of a module: given, in its header, or in that of the dump before optimizations; else inferred, or None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis, Mesh
    >>> module = parse_module("HloModule m, num_partitions=4  ENTRY e { ROOT p = f32[8,8] parameter(0) }")
    >>> mesh_of(module, None), mesh_of(module, Mesh((MeshAxis("x", 4),))).origin
    (None, '--mesh')
    """
    return cached_per_module(_mesh_of, module) if given_mesh is None else known_mesh(module, given_mesh)


def _mesh_of(module: Module) -> KnownMesh | None:
    siblings = () if module.program is None else (module.program,)
    if (named := known_mesh(module, None, siblings)) is not None:
        return named
    # without num_partitions in the header, shardings tell the number of devices
    count = partitions_of(module)
    fitting = [mesh for each in (module, *siblings) for mesh in header_meshes(each) if mesh.device_count == count > 1]
    if fitting or SHARDING_START not in module.source.text:
        return KnownMesh(fitting[0], "the header") if fitting else None
    from hlo_cli.analysis.sharding.collectives import mesh_of as inferred

    return inferred(module)


def _spec_of(array: EntryArray, mesh: Mesh | None) -> Spec | None:
    """The axes along which each dimension is divided; None if the mesh does not explain the sharding.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.sharding.entry_arrays import entry_arrays
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis, Mesh
    >>> module = parse_module("HloModule m, num_partitions=4  ENTRY e { ROOT p = f32[8,8] parameter(0), "
    ...     "sharding={devices=[1,4]<=[4]} }")
    >>> _spec_of(entry_arrays(module).parameters[0], Mesh((MeshAxis("x", 4),)))
    ((), (AxisRef(name='x', pre_size=None, size=None),))
    """
    if array.placement is None or mesh is None:
        return None
    spec = _partition_spec(array.placement, mesh)
    return None if spec is None else (*spec, *((),) * (array.shape.rank - len(spec)))


def spec_cell(array: EntryArray, mesh: Mesh | None) -> str:
    """How an array is divided: axes of each dimension, or numbers of parts without a mesh, or the kind of its sharding.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.sharding.entry_arrays import entry_arrays
    >>> module = parse_module("HloModule m, num_partitions=4  ENTRY e { ROOT p = f32[8,8] parameter(0), "
    ...     "sharding={devices=[1,4]<=[4]} }")
    >>> spec_cell(entry_arrays(module).parameters[0], None)
    '-, 4'
    """
    placement, parts = array.placement, array.parts
    if placement is not None and placement.kind is ShardingType.MAXIMAL:
        return f"device {placement.devices[0]}" if placement.devices else "maximal"
    if placement is not None and not placement.is_tiled:
        return str(placement.kind)
    if (spec := _spec_of(array, mesh)) is not None:
        return ", ".join(map(_axes_cell, spec)) if any(spec) else "replicated"
    if parts is None:
        return UNKNOWN_SPEC
    if all(part == 1 for part in parts):
        return "replicated"
    return ", ".join(str(part) if part > 1 else "-" for part in parts)


def name_of(array: EntryArray) -> str:
    """The name of a parameter in the program or the text; of a result, the name of the instruction that makes it."""
    if array.role == "argument":
        return (array.instruction.metadata.op_name or array.instruction.name) + index_suffix(array.index)
    made, index = _definer_of(array)
    return made.name + index_suffix(index)


def _definer_of(array: EntryArray) -> tuple[Instruction, tuple[int, ...]]:
    """The instruction that makes an array, and the index in its result: of a tuple, the operand."""
    made, index = array.instruction, array.index
    # The root tuple only lists results; what made one is the operand.
    if array.role == "result" and made.opcode == "tuple" and index and index[0] < len(made.operands):
        return made.operands[index[0]], index[1:]
    return made, index


def _arrays_where(expression: str, module: Module) -> Predicate[EntryArray]:
    """Whether an expression matches a parameter or result: its shard, and the instruction that makes it."""

    from hlo_cli.analysis.partly_known import AtLeast
    from hlo_cli.analysis.query.fields import fields_of
    from hlo_cli.analysis.query.where import Reader, predicate
    from hlo_cli.syntax.conditions import parse_where

    def instruction_of(array: EntryArray) -> Instruction:
        return _definer_of(array)[0]

    def shape_of(array: EntryArray) -> ArrayShape:
        return array.shape if array.shard is None else array.shard

    fields = fields_of(module, ATTRIBUTE_NAMES, instruction_of, shape_of)
    own: dict[str, Reader[EntryArray]] = {
        opcodes.PARAMETER: Reader("flag", lambda each: each.role == "argument"),
        "number": Reader("count", lambda each: each.number),
        "replication": Reader("count", lambda each: AtLeast(1) if each.replication is None else each.replication),
        "shard_bytes": Reader("bytes", lambda each: AtLeast(0) if each.shard_bytes is None else each.shard_bytes),
        "saving_bytes": Reader("bytes", lambda each: each.saving_bytes),
    }
    return predicate(parse_where(expression), replace(fields, readers={**fields.readers, **own}))


@lru_cache(maxsize=4096)
def _partition_spec(placement: Placement, mesh: Mesh) -> Spec | None:
    return partition_spec(placement, mesh)


def _axes_cell(axes: Sequence[AxisRef]) -> str:
    text = axes_text(axes)
    return f"({text})" if len(axes) > 1 else text or "-"


# --- tables ---


MIN_SAVING: Final = 0.01
"""The smallest share of the bytes of a device that an answer calls a saving."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes of some arrays on each device and in all, and what dividing the replicated ones would save.

    `unknown` arrays have shardings that are not in the text; they count nowhere else.
    """

    arrays: int
    unknown: int
    data_bytes: int
    shard_bytes: int
    whole_bytes: int | None
    saving_bytes: int
    copies_unknown: int
    is_estimated: bool

    @property
    def is_replicated(self) -> bool:
        """Whether dividing the replicated arrays would save bytes that matter: 1% of those of a device."""
        return self.saving_bytes > 0 and self.saving_bytes >= MIN_SAVING * self.shard_bytes


def totals_of(arrays: Iterable[EntryArray]) -> Totals:
    """The sums over arrays; the bytes in all are unknown if those of any array are."""
    all_arrays = tuple(arrays)
    known = [each for each in all_arrays if each.shard is not None]
    whole_sizes = [each.whole.logical_bytes for each in known if each.whole is not None]
    return Totals(
        arrays=len(all_arrays),
        unknown=len(all_arrays) - len(known),
        data_bytes=sum(each.data_bytes or 0 for each in known),
        shard_bytes=sum(each.shard_bytes or 0 for each in known),
        whole_bytes=sum(whole_sizes) if len(whole_sizes) == len(known) else None,
        saving_bytes=sum(each.saving_bytes or 0 for each in known),
        copies_unknown=sum(each.replication is None for each in known),
        is_estimated=any(each.is_estimated for each in known),
    )


def _if_known(totals: Totals, figure: Cell) -> Cell:
    return UNKNOWN if totals.unknown else figure


@dataclass(frozen=True, slots=True)
class _EqualArrays:
    """Arrays of one whole shape that are divided in the same way; shapes are empty texts if they are unknown."""

    whole: str
    spec: str
    shard: str
    copies: int | None
    totals: Totals
    example: EntryArray


def shapes_table(name: str, arrays: Sequence[EntryArray], mesh: Mesh | None, *, person: bool = True) -> Table:
    """One row for each whole shape and the way in which it is divided; what would save most is first, if it matters."""
    groups: dict[tuple[str, str, str, int | None], list[EntryArray]] = {}
    for array in arrays:
        key = (_shape_text(array.whole), spec_cell(array, mesh), _shape_text(array.shard), array.replication)
        groups.setdefault(key, []).append(array)
    equal_arrays = [_EqualArrays(*key, totals_of(members), members[0]) for key, members in groups.items()]
    by_saving = totals_of(arrays).is_replicated
    equal_arrays.sort(
        key=lambda row: (by_saving * -row.totals.saving_bytes, -row.totals.shard_bytes, row.whole, row.spec)
    )
    is_estimated = any(row.totals.is_estimated for row in equal_arrays)
    has_saving = any(row.totals.saving_bytes for row in equal_arrays)
    is_known = any(array.whole is not None for array in arrays)
    columns: tuple[Column[_EqualArrays], ...] = (
        Column("count", "count", "count", total="sum", rank=5, of=lambda row: row.totals.arrays),
        *columns_of_part(_size_columns(is_estimated=is_estimated, has_saving=has_saving), lambda row: row.totals),
        Column("shape", "shape", "shape", person=is_known, of=lambda row: row.whole or UNKNOWN),
        Column("spec", "sharding", person=is_known, of=lambda row: row.spec),
        Column("shard", "shard", "shape", of=lambda row: row.shard or UNKNOWN),
        Column("replication", "copies", "count", person=is_known,
               of=lambda row: unknown_if_none(row.copies)),
        Column("example", "example", "name", role="name", from_width=120, rank=3, of=lambda row: name_of(row.example)),
        Column("annotation", "annotation", from_width=200, rank=2,
               of=lambda row: None if row.example.sharding is None else str(row.example.sharding)),
    )  # fmt: skip
    cells = rows_from(columns, equal_arrays)
    return Table(name, columns, cells, noun="shapes", person=person)


def _instructions_table(name: str, arrays: Sequence[EntryArray], mesh: Mesh | None, *, person: bool = True) -> Table:
    """One row for each array, with its name in the program; what saves most is first."""
    by_saving = totals_of(arrays).is_replicated
    rows = sorted(
        arrays, key=lambda each: (by_saving * -(each.saving_bytes or 0), -(each.shard_bytes or 0), each.number)
    )
    is_estimated, has_saving = any(each.is_estimated for each in rows), any(each.saving_bytes for each in rows)
    is_known = any(each.whole is not None for each in rows)
    columns: tuple[Column[EntryArray], ...] = (
        *columns_of_part(
            _size_columns(is_estimated=is_estimated, has_saving=has_saving), lambda array: totals_of([array])
        ),
        Column("instruction", "instruction", "name", person=False, of=lambda array: _definer_of(array)[0].name),
        Column("role", "role", person=False, of=lambda array: array.role),
        Column("number", "number", "count", person=False, of=lambda array: array.number),
        Column("op_name", "name", "op_name", of=lambda array: name_of(array)),
        Column("shape", "shape", "shape", person=is_known, of=lambda array: _shape_text(array.whole) or UNKNOWN),
        Column("spec", "sharding", person=is_known, of=lambda array: spec_cell(array, mesh)),
        Column("shard", "shard", "shape", rank=6 if is_known else KEEP,
               of=lambda array: _shape_text(array.shard) or UNKNOWN),
        Column("replication", "copies", "count", person=is_known,
               of=lambda array: unknown_if_none(array.replication)),
        Column("annotation", "annotation", from_width=200, rank=2,
               of=lambda array: None if array.sharding is None else str(array.sharding)),
    )  # fmt: skip
    cells = rows_from(columns, rows)
    return Table(name, columns, cells, noun="arrays", person=person)


def causes_table(arrays: Sequence[EntryArray], keys: Keys) -> Table:
    """One row for each source line, scope, argument, or pass; what saves most is first.

    Parameters have the source line and the scope of the nearest instructions that use them.
    """
    from hlo_cli.commands.modules.by import KeyCost, group_by, key_columns

    groups = group_by(arrays, lambda each: keys.of_use(*_definer_of(each)))
    sums = [(totals_of(group.members), totals_of(group.inferred), group) for group in groups]
    sums.sort(key=lambda row: (-row[0].saving_bytes, -row[0].shard_bytes, row[2].key))
    rows = [(totals, KeyCost(group, totals.shard_bytes, inferred.shard_bytes)) for totals, inferred, group in sums]
    is_estimated = any(totals.is_estimated for totals, _ in rows)
    sizes = _size_columns(is_estimated=is_estimated, has_saving=any(totals.saving_bytes for totals, _ in rows))
    key = key_columns(keys.by, "shard_bytes", groups, has_inferred=any(group.inferred for group in groups))
    columns: tuple[Column[Totals, KeyCost], ...] = (
        Column("count", "count", "count", total="sum", of=lambda totals, key: totals.arrays),
        *columns_of_part(sizes, lambda totals, key: totals),
        *columns_of_part(key, lambda totals, key: key),
    )
    cells = rows_from_tuples(columns, rows)
    return Table(f"{keys.by}s" if keys.by != "pass" else "passes", columns, cells, noun="rows")


def _axes_table(arrays: Sequence[EntryArray], mesh: Mesh) -> Table:
    """One row for each axis: the arrays that are divided along it, and those with a copy at each of its positions."""
    columns: tuple[Column[_AlongAxis], ...] = (
        Column("axis", "axis", "name", role="name", of=lambda row: row.axis.name),
        Column("size", "size", "count", of=lambda row: row.axis.size),
        Column("divided_count", "arrays", "count", group="divided", of=lambda row: len(row.divided)),
        Column("divided_bytes", "per device", "bytes", group="divided",
               of=lambda row: sum(array.shard_bytes or 0 for array in row.divided)),
        Column("replicated_count", "arrays", "count", group="replicated", of=lambda row: len(row.replicated)),
        Column("replicated_bytes", "per device", "bytes", group="replicated", like="divided_bytes", role="waste",
               of=lambda row: sum(array.shard_bytes or 0 for array in row.replicated)),
        Column("saving_bytes", "saving", "bytes", role="saving", like="divided_bytes", of=lambda row: row.saving_bytes),
    )  # fmt: skip
    rows = rows_from(columns, (_arrays_along(axis, arrays, mesh) for axis in mesh.axes if axis.size > 1))
    return Table("axes", columns, rows, noun="axes")


@dataclass(frozen=True, slots=True)
class _AlongAxis:
    """The arrays that are divided along an axis, and those that have a copy at each of its positions."""

    axis: MeshAxis
    divided: list[EntryArray]
    replicated: list[EntryArray]

    @property
    def saving_bytes(self) -> int:
        """What dividing the copies along the axis, too, would save on each device."""
        shards = [array.shard for array in self.replicated if array.shard is not None]
        # Padding of the smaller shard may eat the saving, which is never negative: nobody has to divide.
        return sum(max(0, s.padded_bytes - divided(s, self.axis.size).padded_bytes) for s in shards)


def _arrays_along(axis: MeshAxis, arrays: Sequence[EntryArray], mesh: Mesh) -> _AlongAxis:
    along = _AlongAxis(axis, [], [])
    for array in arrays:
        spec = _spec_of(array, mesh)
        if spec is not None and array.shard is not None:
            is_divided = any(each.name == axis.name for axes in spec for each in axes)
            (along.divided if is_divided else along.replicated).append(array)
    return along


def _size_columns(*, is_estimated: bool, has_saving: bool) -> tuple[Column[Totals], ...]:
    title, width = "per device", 120 if has_saving else 0
    whole = Share("data_bytes", "shard_bytes", rest=True)
    return (
        Column("data_bytes", "data", "bytes", total="sum", person=False,
               of=lambda totals: _if_known(totals, totals.data_bytes)),
        Column("shard_bytes", "est. size" if is_estimated else "size", "bytes", total="sum", group=title,
               of=lambda totals: _if_known(totals, totals.shard_bytes)),
        Column("padding", "padding", "percent", role="waste", total=whole, group=title, from_width=width,
               of=lambda totals: (
                   _if_known(totals, 1 - totals.data_bytes / totals.shard_bytes
                   if totals.shard_bytes else 0.0))),
        Column("saving_bytes", "saving", "bytes", role="saving", total="sum", person=has_saving, group=title,
               of=lambda totals: UNKNOWN if totals.unknown or totals.copies_unknown else totals.saving_bytes),
    )  # fmt: skip


def _shape_text(shape: ArrayShape | None) -> str:
    return "" if shape is None else shape.to_string(layout=False)


# --- one dump ---
# `hlo shard DUMP`.


def report_of_dump(loaded: Loaded, options: ShardOptions, argument: str) -> Report:
    """The parameters and results of a module: the shape, the sharding, and the bytes of each on one device."""
    module = loaded.module
    arrays = entry_arrays(module)
    mesh = mesh_of(module, options.given_mesh)
    test = None if options.where is None else _arrays_where(options.where, module)
    parameters, skipped = chosen(test, arrays.parameters, "parameters")
    results, also = chosen(test, arrays.results, "results")
    totals, of_results = totals_of(parameters), totals_of(results)
    return Report(
        "shard",
        _dump_answer(arrays, parameters, totals, mesh, replicas=module.replica_count, is_chosen=test is not None),
        version=1,
        numbers={
            "devices": arrays.partitions,
            "mesh": None if mesh is None else mesh_text(mesh.mesh),
            "parameters": totals.arrays,
            "shard_bytes": totals.shard_bytes,
            "whole_bytes": totals.whole_bytes,
            "saving_bytes": totals.saving_bytes,
            "results": of_results.arrays,
            "result_shard_bytes": of_results.shard_bytes,
        },
        parts=_dump_parts(loaded, arrays, options, mesh, parameters, results),
        next=_next_commands(argument, arrays, totals, options),
        notes=(*_dump_notes(arrays, mesh), *skipped, *also, *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _devices_words(arrays: EntryArrays, mesh: KnownMesh | None) -> str:
    """The devices and the mesh that they are in, such as `8 devices, data=4 × model=2`."""
    words = format_count(arrays.partitions, "devices")
    return words if mesh is None else f"{words}, {_mesh_words(mesh.mesh)}"


def _dump_answer(
    arrays: EntryArrays,
    parameters: Sequence[EntryArray],
    totals: Totals,
    mesh: KnownMesh | None,
    *,
    replicas: int,
    is_chosen: bool,
) -> str:
    """The bytes of a device, and what dividing the copies would save; copies in other replicas do not count."""
    count = format_count(len(parameters), "parameters")
    if is_chosen and not parameters:
        return f"No matches among {format_count(len(arrays.parameters), 'parameters')}"
    if not parameters:
        return f"No parameters: the module takes no arrays ({format_count(len(arrays.results), 'results')})"
    verb = "takes" if len(parameters) == 1 else "take"
    if arrays.partitions < 2:
        runs = "the module runs" if replicas < 2 else f"each of {replicas:,} replicas runs"
        return f"No shardings: {runs} on 1 device ({count}, {format_bytes(totals.shard_bytes)})"
    devices = _devices_words(arrays, mesh)
    if replicas > 1:
        devices = f"{replicas:,} replicas of {devices}"
    # Not one size on a device is known, so a sum would be 0 and look like an answer.
    if totals.unknown == totals.arrays:
        return f"{devices}: no parameter has a sharding ({count})"
    about = "an estimated " if totals.is_estimated else ""
    bytes_ = format_bytes(totals.shard_bytes)
    # Padding can make the shards larger than the data, and then they are no part of it.
    if totals.whole_bytes is not None and totals.whole_bytes >= totals.shard_bytes:
        bytes_ = format_part(totals.shard_bytes, totals.whole_bytes)
    lead = f"{devices}: {count} {verb} {about}{bytes_} per device"
    if totals.unknown:
        return f"{lead}; {format_count(totals.unknown, 'parameters')} without a sharding not counted"
    if totals.is_replicated:
        return f"{lead}; sharding the replicated parts would save {format_bytes(totals.saving_bytes)}"
    return lead if arrays.has_shardings else f"{lead}; this dump has no shardings"


def _dump_parts(
    loaded: Loaded,
    arrays: EntryArrays,
    options: ShardOptions,
    mesh: KnownMesh | None,
    parameters: Sequence[EntryArray],
    results: Sequence[EntryArray],
) -> tuple[Part, ...]:
    axes = None if mesh is None else mesh.mesh
    is_seen = arrays.partitions > 1
    # For machines: screens have one sentence on all results.
    others = shapes_table("results", results, axes, person=False)
    match options.grouping:
        case None:
            if not results or not is_seen:
                return (shapes_table("parameters", parameters, axes, person=is_seen), others)
            return (shapes_table("parameters", parameters, axes), others, _results_passage(results))
        case "instruction":
            each = _instructions_table("results", results, axes, person=False)
            return (_instructions_table("instructions", parameters, axes), each)
        case "axis":
            return (_axes_table(parameters, _required_mesh(axes)), others)
        case grouping:
            from hlo_cli.commands.modules.by import keys_for

            cause = cause_of(grouping)
            assert cause is not None
            return (causes_table(parameters, keys_for(loaded, cause)), others)


def _required_mesh(mesh: Mesh | None) -> Mesh:
    if mesh is None:
        raise HloError("--by axis requires a mesh, and the dump names none", hint="add --mesh, such as data=2,model=4")
    return mesh


def _results_passage(results: Sequence[EntryArray]) -> Passage:
    totals = totals_of(results)
    count = format_count(len(results), "results")
    verb = "takes" if len(results) == 1 else "take"
    if totals.unknown:
        return Passage("results", (f"{count}; the compiler chooses the sharding of {totals.unknown:,}.",))
    about = "an estimated " if totals.is_estimated else ""
    return Passage("results", (f"{count} {verb} {about}{format_bytes(totals.shard_bytes)} per device.",))


def _dump_notes(arrays: EntryArrays, mesh: KnownMesh | None) -> tuple[Diagnostic, ...]:
    notes = list[str]()
    if arrays.partitions < 2:
        return ()
    if arrays.has_siblings:
        notes.append("shardings are from before_optimizations; this dump has none for these arrays")
    elif not arrays.has_shardings:
        where = "shardings are in the dump before optimizations, which is not in the same directory"
        notes.append(where if arrays.is_partitioned else "the compiler chooses the shardings of all parameters")
    if mesh is None and arrays.has_shardings:
        notes.append("no mesh is named, so shardings are numbers of parts; name its axes with --mesh")
    elif mesh is not None and mesh.origin != "--mesh":
        notes.append(mesh.remark)
    if any(each.is_estimated for each in arrays.parameters):
        notes.append("the module is not partitioned; bytes are those of shards in their default layout")
    problems = dict.fromkeys(each.problem for each in (*arrays.parameters, *arrays.results) if each.problem)
    notes.extend(f"sharding not understood: {problem}" for problem in problems)
    return tuple(Diagnostic("note", note) for note in notes)


def _next_commands(argument: str, arrays: EntryArrays, totals: Totals, options: ShardOptions) -> tuple[str, ...]:
    if not argument or argument == "-" or arrays.partitions < 2:
        return ()
    if totals.is_replicated and options.where is None:
        return (f"hlo shard {argument} --by instruction --where 'replication > 1'", f"hlo shard {argument} --comms")
    return (f"hlo shard {argument} --comms", f"hlo shard {argument} --table results")


def _mesh_words(mesh: Mesh) -> str:
    return " × ".join(f"{axis.name}={axis.size}" for axis in mesh.axes)


# --- the array of one instruction ---
# `hlo shard DUMP:NAME`.


@dataclass(frozen=True, slots=True)
class NamedArray:
    """The array of an instruction: its shape on all devices together, in the layout that a shard has, and its sharding.

    `is_estimated` if the layout of the shard is not known from the dump. `notes` say where the sharding is from.
    """

    shape: ArrayShape
    sharding: Sharding | NamedSharding
    mesh: KnownMesh | None
    is_estimated: bool
    notes: tuple[Diagnostic, ...] = ()


def named_array(named: NamedShape, given_mesh: Mesh | None = None) -> NamedArray:
    """The whole array of an instruction of a dump; HloError if the dump does not say how it is divided."""
    module, instruction = named.loaded.module, named.instruction
    array = array_of_value(module, instruction, named.index)
    if array is None or array.sharding is None or array.shard is None:
        problem = None if array is None else array.problem
        text = (
            f"{instruction.name} has no sharding" if problem is None else f"sharding of {instruction.name}: {problem}"
        )
        raise HloError(
            text, instruction.span if problem else None, hint=None if problem else _hint_without_sharding(named)
        )
    whole = array.whole or array.shape
    notes = list[str]()
    if array.origin != "this dump":
        notes.append(f"the sharding of {instruction.name} is from before_optimizations")
    if array.is_estimated:
        notes.append("the module is not partitioned; bytes are those of a shard in its default layout")
    return NamedArray(
        replace(whole, layout=array.shard.layout),
        array.sharding,
        mesh_of(module, given_mesh),
        array.is_estimated,
        tuple(Diagnostic("note", note) for note in notes),
    )


def _hint_without_sharding(named: NamedShape) -> str:
    if named.instruction.opcode.removesuffix("-start") in COLLECTIVES:
        return f"for its devices and axes: hlo parse DUMP --explain {named.instruction.name}"
    if named.loaded.module.program is None:
        return "shardings of all instructions are in the dump after sharding propagation, or give one: SHAPE SHARDING"
    return "give a sharding: hlo shard SHAPE SHARDING"


# --- many modules ---


@dataclass(frozen=True, slots=True)
class _Sharded:
    """The devices of one module, and its parameters on each of them."""

    devices: int
    mesh: str | None
    totals: Totals


def _module_columns() -> tuple[Column[_Sharded], ...]:
    """As for one module, with titles that say of what."""
    data, shard, padding, saving = _size_columns(is_estimated=False, has_saving=True)
    padding = replace(padding, group="", from_width=0, rank=5)
    sizes = (data, replace(shard, title="per device", group=""), padding, replace(saving, group=""))
    return (
        Column("devices", "devices", "count", of=lambda module: module.devices),
        Column("mesh", "mesh", rank=6, of=lambda module: module.mesh),
        Column(
            "parameters", "parameters", "count", total="sum", from_width=120, of=lambda module: module.totals.arrays
        ),
        *columns_of_part(sizes, lambda module: module.totals),
    )


def shard_each(many: Many, reading: InputOptions, options: ShardOptions, output: OutputOptions) -> int:
    """Writes one row for each module and returns the exit code."""
    results = list(map_inputs(many, reading, options.jobs, partial(_sharded, options)))
    answers = [result.answer for result in results if result.answer is not None]
    saving = sum(result.totals.saving_bytes for result in answers)
    shared = f"sharding the replicated parts would save {format_bytes(saving)} per device"
    return finish_each(
        "shard",
        many,
        reading,
        results,
        Rows(_module_columns()),
        answer=f"{format_count(len(answers), 'modules')}: {shared if saving else 'nothing is replicated'}",
        output=output,
    )


def _sharded(options: ShardOptions, module: Module, _input: Input) -> _Sharded:
    arrays, mesh = entry_arrays(module), mesh_of(module, options.given_mesh)
    test = None if options.where is None else _arrays_where(options.where, module)
    parameters, _ = chosen(test, arrays.parameters, "parameters")
    axes = None if mesh is None else mesh_text(mesh.mesh)
    return _Sharded(arrays.partitions, axes, totals_of(parameters))
