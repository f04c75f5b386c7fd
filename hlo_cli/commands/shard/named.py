"""`hlo shard DUMP:NAME`: the whole array of an instruction, its sharding, and the mesh of its module."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.analysis.sharding.entry_arrays import array_of_value
from hlo_cli.commands.shard.arrays import mesh_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.meshes import KnownMesh
    from hlo_cli.commands.shape.argument import NamedShape
    from hlo_cli.ir.attributes.sharding import Mesh, NamedSharding, Sharding
    from hlo_cli.ir.shape import ArrayShape


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
