"""Parameters and results in tables: how each is divided along the axes of the mesh, and which of them match --where."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.sharding.entry_arrays import partitions_of
from hlo_cli.analysis.sharding.meshes import KnownMesh, axes_text, header_meshes, known_mesh
from hlo_cli.analysis.sharding.placement import Spec, partition_spec
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import ShardingType

if TYPE_CHECKING:
    from hlo_cli.analysis.query.where import Predicate
    from hlo_cli.analysis.sharding.entry_arrays import EntryArray
    from hlo_cli.analysis.sharding.placement import Placement
    from hlo_cli.ir.attributes.sharding import AxisRef, Mesh
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module
    from hlo_cli.ir.shape import ArrayShape

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


def spec_of(array: EntryArray, mesh: Mesh | None) -> Spec | None:
    """The axes along which each dimension is divided; None if the mesh does not explain the sharding.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.sharding.entry_arrays import entry_arrays
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis, Mesh
    >>> module = parse_module("HloModule m, num_partitions=4  ENTRY e { ROOT p = f32[8,8] parameter(0), "
    ...     "sharding={devices=[1,4]<=[4]} }")
    >>> spec_of(entry_arrays(module).parameters[0], Mesh((MeshAxis("x", 4),)))
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
    if (spec := spec_of(array, mesh)) is not None:
        return ", ".join(map(_axes_cell, spec)) if any(spec) else "replicated"
    if parts is None:
        return UNKNOWN_SPEC
    if all(part == 1 for part in parts):
        return "replicated"
    return ", ".join(str(part) if part > 1 else "-" for part in parts)


def name_of(array: EntryArray) -> str:
    """The name of a parameter in the program or the text; of a result, the name of the instruction that makes it."""
    from hlo_cli.ir.notation import index_suffix

    if array.role == "argument":
        return (array.instruction.metadata.op_name or array.instruction.name) + index_suffix(array.index)
    made, index = definer_of(array)
    return made.name + index_suffix(index)


def definer_of(array: EntryArray) -> tuple[Instruction, tuple[int, ...]]:
    """The instruction that makes an array, and the index in its result: of a tuple, the operand."""
    made, index = array.instruction, array.index
    if array.role == "result" and made.opcode == "tuple" and index and index[0] < len(made.operands):
        return made.operands[index[0]], index[1:]
    return made, index


def arrays_where(expression: str, module: Module) -> Predicate[EntryArray]:
    """Whether an expression matches a parameter or result: its shard, and the instruction that makes it."""
    from dataclasses import replace

    from hlo_cli.analysis.partly_known import AtLeast
    from hlo_cli.analysis.query.fields import fields_of
    from hlo_cli.analysis.query.where import Reader, predicate
    from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES
    from hlo_cli.syntax.conditions import parse_where

    def instruction_of(array: EntryArray) -> Instruction:
        return definer_of(array)[0]

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
