"""`hlo shard DUMP`: parameters and results with their shardings and bytes per device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.sharding.entry_arrays import EntryArray, EntryArrays, entry_arrays
from hlo_cli.analysis.sharding.meshes import mesh_text
from hlo_cli.commands.modules.loading import input_facts, notes_of
from hlo_cli.commands.options.filters import chosen
from hlo_cli.commands.shard.array_tables import (
    Totals,
    axes_table,
    causes_table,
    instructions_table,
    shapes_table,
    totals_of,
)
from hlo_cli.commands.shard.arrays import arrays_where, mesh_of
from hlo_cli.report.numbers import format_bytes, format_count, format_part
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.meshes import KnownMesh
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.ir.attributes.sharding import Mesh


def report_of_dump(loaded: Loaded, options: ShardOptions, argument: str) -> Report:
    """The parameters and results of a module: the shape, the sharding, and the bytes of each on one device."""
    module = loaded.module
    options.check_without_comms()
    found = entry_arrays(module)
    known = mesh_of(module, options.given_mesh)
    test = None if options.where is None else arrays_where(options.where, module)
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


def devices_words(found: EntryArrays, known: KnownMesh | None) -> str:
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
    devices = devices_words(found, known)
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
        return f"{lead}; dividing the copies would save {format_bytes(totals.saving_bytes)}"
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
            each = instructions_table("results", results, mesh, person=False)
            return (instructions_table("instructions", parameters, mesh), each)
        case "axis":
            return (axes_table(parameters, _required(mesh)), others)
        case grouping:
            from hlo_cli.commands.modules.by import keys_for
            from hlo_cli.commands.options.declaring import cause_of

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
