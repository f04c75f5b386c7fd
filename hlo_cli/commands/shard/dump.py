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
from hlo_cli.ir.notation import index_suffix
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
_MARK: Final = "sharding={"


def mesh_of(module: Module, given: Mesh | None) -> KnownMesh | None:
    """The mesh of a module: given, in its header, or in that of the dump before optimizations; else inferred, or None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis, Mesh
    >>> module = parse_module("HloModule m, num_partitions=4  ENTRY e { ROOT p = f32[8,8] parameter(0) }")
    >>> mesh_of(module, None), mesh_of(module, Mesh((MeshAxis("x", 4),))).origin
    (None, '--mesh')
    """
    return cached_per_module(_mesh_of, module) if given is None else known_mesh(module, given)


def _mesh_of(module: Module) -> KnownMesh | None:
    siblings = () if module.program is None else (module.program,)
    if (found := known_mesh(module, None, siblings)) is not None:
        return found
    # without num_partitions in the header, shardings tell the number of devices
    count = partitions_of(module)
    fitting = [mesh for each in (module, *siblings) for mesh in header_meshes(each) if mesh.device_count == count > 1]
    if fitting or _MARK not in module.source.text:
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
    spec = _spec(array.placement, mesh)
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
def _spec(placement: Placement, mesh: Mesh) -> Spec | None:
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
    found = tuple(arrays)
    known = [each for each in found if each.shard is not None]
    wholes = [each.whole.logical_bytes for each in known if each.whole is not None]
    return Totals(
        arrays=len(found),
        unknown=len(found) - len(known),
        data_bytes=sum(each.data_bytes or 0 for each in known),
        shard_bytes=sum(each.shard_bytes or 0 for each in known),
        whole_bytes=sum(wholes) if len(wholes) == len(known) else None,
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
    for each in arrays:
        key = (_text(each.whole), spec_cell(each, mesh), _text(each.shard), each.replication)
        groups.setdefault(key, []).append(each)
    found = [_EqualArrays(*key, totals_of(members), members[0]) for key, members in groups.items()]
    by_saving = totals_of(arrays).is_replicated
    found.sort(key=lambda row: (by_saving * -row.totals.saving_bytes, -row.totals.shard_bytes, row.whole, row.spec))
    is_estimated = any(row.totals.is_estimated for row in found)
    has_saving = any(row.totals.saving_bytes for row in found)
    is_known = any(each.whole is not None for each in arrays)
    columns: tuple[Column[_EqualArrays], ...] = (
        Column("count", "count", "count", total="sum", rank=5, of=lambda row: row.totals.arrays),
        *columns_of_part(_size_columns(is_estimated=is_estimated, has_saving=has_saving), lambda row: row.totals),
        Column("shape", "shape", "shape", person=is_known, of=lambda row: row.whole or UNKNOWN),
        Column("spec", "sharding", person=is_known, of=lambda row: row.spec),
        Column("shard", "shard", "shape", of=lambda row: row.shard or UNKNOWN),
        Column("replication", "copies", "count", person=is_known,
               of=lambda row: UNKNOWN if row.copies is None else row.copies),
        Column("example", "example", "name", role="name", from_width=120, rank=3, of=lambda row: name_of(row.example)),
        Column("annotation", "annotation", from_width=200, rank=2,
               of=lambda row: None if row.example.sharding is None else str(row.example.sharding)),
    )  # fmt: skip
    cells = rows_from(columns, found)
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
        Column("shape", "shape", "shape", person=is_known, of=lambda array: _text(array.whole) or UNKNOWN),
        Column("spec", "sharding", person=is_known, of=lambda array: spec_cell(array, mesh)),
        Column("shard", "shard", "shape", rank=6 if is_known else KEEP, of=lambda array: _text(array.shard) or UNKNOWN),
        Column("replication", "copies", "count", person=is_known,
               of=lambda array: UNKNOWN if array.replication is None else array.replication),
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
    found = [(totals_of(group.members), totals_of(group.inferred), group) for group in groups]
    found.sort(key=lambda row: (-row[0].saving_bytes, -row[0].shard_bytes, row[2].key))
    rows = [(totals, KeyCost(group, totals.shard_bytes, inferred.shard_bytes)) for totals, inferred, group in found]
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
    rows = rows_from(columns, (_along(axis, arrays, mesh) for axis in mesh.axes if axis.size > 1))
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
        return sum(max(0, s.padded_bytes - divided(s, self.axis.size).padded_bytes) for s in shards)


def _along(axis: MeshAxis, arrays: Sequence[EntryArray], mesh: Mesh) -> _AlongAxis:
    found = _AlongAxis(axis, [], [])
    for array in arrays:
        spec = _spec_of(array, mesh)
        if spec is not None and array.shard is not None:
            is_divided = any(each.name == axis.name for axes in spec for each in axes)
            (found.divided if is_divided else found.replicated).append(array)
    return found


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


def _text(shape: ArrayShape | None) -> str:
    return "" if shape is None else shape.to_string(layout=False)


# --- one dump ---
# `hlo shard DUMP`.


def report_of_dump(loaded: Loaded, options: ShardOptions, argument: str) -> Report:
    """The parameters and results of a module: the shape, the sharding, and the bytes of each on one device."""
    module = loaded.module
    options.check_without_comms()
    found = entry_arrays(module)
    known = mesh_of(module, options.given_mesh)
    test = None if options.where is None else _arrays_where(options.where, module)
    parameters, skipped = chosen(test, found.parameters, "parameters")
    results, also = chosen(test, found.results, "results")
    totals, of_results = totals_of(parameters), totals_of(results)
    return Report(
        "shard",
        _answer(found, parameters, totals, known, replicas=module.replica_count, is_chosen=test is not None),
        version=1,
        numbers={
            "devices": found.partitions,
            "mesh": None if known is None else mesh_text(known.mesh),
            "parameters": totals.arrays,
            "shard_bytes": totals.shard_bytes,
            "whole_bytes": totals.whole_bytes,
            "saving_bytes": totals.saving_bytes,
            "results": of_results.arrays,
            "result_shard_bytes": of_results.shard_bytes,
        },
        parts=_parts(loaded, found, options, known, parameters, results),
        next=_next(argument, found, totals, options),
        notes=(*_notes(found, known), *skipped, *also, *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _devices_words(found: EntryArrays, known: KnownMesh | None) -> str:
    """The devices and the mesh that they are in, such as `8 devices, data=4 × model=2`."""
    words = format_count(found.partitions, "devices")
    return words if known is None else f"{words}, {_mesh_words(known.mesh)}"


def _answer(
    found: EntryArrays,
    parameters: Sequence[EntryArray],
    totals: Totals,
    known: KnownMesh | None,
    *,
    replicas: int,
    is_chosen: bool,
) -> str:
    """The bytes of a device, and what dividing the copies would save; copies in other replicas do not count."""
    count = format_count(len(parameters), "parameters")
    if is_chosen and not parameters:
        return f"No matches among {format_count(len(found.parameters), 'parameters')}"
    if not parameters:
        return f"No parameters: the module takes no arrays ({format_count(len(found.results), 'results')})"
    verb = "takes" if len(parameters) == 1 else "take"
    if found.partitions < 2:
        runs = "the module runs" if replicas < 2 else f"each of {replicas:,} replicas runs"
        return f"No shardings: {runs} on 1 device ({count}, {format_bytes(totals.shard_bytes)})"
    devices = _devices_words(found, known)
    if replicas > 1:
        devices = f"{replicas:,} replicas of {devices}"
    if totals.unknown == totals.arrays:
        return f"{devices}: no parameter has a sharding ({count})"
    about = "an estimated " if totals.is_estimated else ""
    bytes_ = format_bytes(totals.shard_bytes)
    if totals.whole_bytes is not None and totals.whole_bytes >= totals.shard_bytes:
        bytes_ = format_part(totals.shard_bytes, totals.whole_bytes)
    lead = f"{devices}: {count} {verb} {about}{bytes_} per device"
    if totals.unknown:
        return f"{lead}; {format_count(totals.unknown, 'parameters')} without a sharding not counted"
    if totals.is_replicated:
        return f"{lead}; sharding the replicated parts would save {format_bytes(totals.saving_bytes)}"
    return lead if found.has_shardings else f"{lead}; this dump has no shardings"


def _parts(
    loaded: Loaded,
    found: EntryArrays,
    options: ShardOptions,
    known: KnownMesh | None,
    parameters: Sequence[EntryArray],
    results: Sequence[EntryArray],
) -> tuple[Part, ...]:
    mesh = None if known is None else known.mesh
    is_seen = found.partitions > 1
    others = shapes_table("results", results, mesh, person=False)
    match options.grouping:
        case None:
            if not results or not is_seen:
                return (shapes_table("parameters", parameters, mesh, person=is_seen), others)
            return (shapes_table("parameters", parameters, mesh), others, _results_passage(results))
        case "instruction":
            each = _instructions_table("results", results, mesh, person=False)
            return (_instructions_table("instructions", parameters, mesh), each)
        case "axis":
            return (_axes_table(parameters, _required(mesh)), others)
        case grouping:
            from hlo_cli.commands.modules.by import keys_for

            cause = cause_of(grouping)
            if cause is None:
                raise HloError(f"--by {grouping} requires --comms")
            return (causes_table(parameters, keys_for(loaded, cause)), others)


def _required(mesh: Mesh | None) -> Mesh:
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


def _notes(found: EntryArrays, known: KnownMesh | None) -> tuple[Diagnostic, ...]:
    notes = list[str]()
    if found.partitions < 2:
        return ()
    if found.has_siblings:
        notes.append("shardings are from before_optimizations; this dump has none for these arrays")
    elif not found.has_shardings:
        where = "shardings are in the dump before optimizations, which is not in the same directory"
        notes.append(where if found.is_partitioned else "the compiler chooses the shardings of all parameters")
    if known is None and found.has_shardings:
        notes.append("no mesh is named, so shardings are numbers of parts; name its axes with --mesh")
    elif known is not None and known.origin != "--mesh":
        more = "; the program may have more axes" if known.is_inferred else ""
        notes.append(f"mesh {known.origin}{more}" if known.is_inferred else f"mesh from {known.origin}")
    if any(each.is_estimated for each in found.parameters):
        notes.append("the module is not partitioned; bytes are those of shards in their default layout")
    problems = dict.fromkeys(each.problem for each in (*found.parameters, *found.results) if each.problem)
    notes.extend(f"sharding not understood: {problem}" for problem in problems)
    return tuple(Diagnostic("note", note) for note in notes)


def _next(argument: str, found: EntryArrays, totals: Totals, options: ShardOptions) -> tuple[str, ...]:
    if not argument or argument == "-" or found.partitions < 2:
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


def named_array(named: NamedShape, given: Mesh | None = None) -> NamedArray:
    """The whole array of an instruction of a dump; HloError if the dump does not say how it is divided."""
    module, instruction = named.loaded.module, named.instruction
    found = array_of_value(module, instruction, named.index)
    if found is None or found.sharding is None or found.shard is None:
        problem = None if found is None else found.problem
        text = (
            f"{instruction.name} has no sharding" if problem is None else f"sharding of {instruction.name}: {problem}"
        )
        raise HloError(text, instruction.span if problem else None, hint=None if problem else _hint(named))
    whole = found.whole or found.shape
    notes = list[str]()
    if found.origin != "this dump":
        notes.append(f"the sharding of {instruction.name} is from before_optimizations")
    if found.is_estimated:
        notes.append("the module is not partitioned; bytes are those of a shard in its default layout")
    return NamedArray(
        replace(whole, layout=found.shard.layout),
        found.sharding,
        mesh_of(module, given),
        found.is_estimated,
        tuple(Diagnostic("note", note) for note in notes),
    )


def _hint(named: NamedShape) -> str:
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
    """Writes one row for each module, those with the most bytes to save first, and returns the exit code."""
    options.check_without_comms()
    found = list(map_inputs(many, reading, options.jobs, partial(_sharded, options)))
    answers = [each.answer for each in found if each.answer is not None]
    saving = sum(each.totals.saving_bytes for each in answers)
    shared = f"sharding the replicated parts would save {format_bytes(saving)} per device"
    return finish_each(
        "shard",
        many,
        reading,
        found,
        Rows(_module_columns()),
        answer=f"{format_count(len(answers), 'modules')}: {shared if saving else 'nothing is replicated'}",
        output=output,
    )


def _sharded(options: ShardOptions, module: Module, _input: Input) -> _Sharded:
    found, known = entry_arrays(module), mesh_of(module, options.given_mesh)
    test = None if options.where is None else _arrays_where(options.where, module)
    parameters, _ = chosen(test, found.parameters, "parameters")
    mesh = None if known is None else mesh_text(known.mesh)
    return _Sharded(found.partitions, mesh, totals_of(parameters))
