"""Which devices a module runs on: one, those that its header states, or as many as its text requires."""

from __future__ import annotations

from hlo_cli.analysis.evaluate.devices import needs_devices
from hlo_cli.analysis.sharding.device_groups import Devices, devices_of
from hlo_cli.analysis.sharding.meshes import header_meshes
from hlo_cli.analysis.sharding.stages import is_partitioned
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError


def runs_on_devices(module: Module) -> bool:
    """Whether a module runs on several devices: it is partitioned, or its devices exchange data.

    >>> from hlo_cli import parse_module
    >>> runs_on_devices(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}"))
    True
    """
    return needs_devices(module.entry) or (module.replica_count * module.num_partitions > 1 and is_partitioned(module))


def chosen_devices(module: Module, wanted: int | None) -> Devices:
    """The devices of the header, else those that are wanted, else as many as a mesh has or collectives name.

    HloError if the header states another number than the wanted one.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}"
    >>> chosen_devices(parse_module(text), None).count, chosen_devices(parse_module(text), 8).count
    (4, 8)
    """
    stated = devices_of(module)
    if stated.is_stated:
        if wanted not in (None, stated.count):
            raise HloError(f"the module runs on {stated.count} devices, not {wanted}")
        return stated
    meshes = header_meshes(module)
    count = wanted or max(stated.count, *(mesh.device_count for mesh in meshes), 1)
    has_partitions = bool(meshes) or any(each.opcode == opcodes.PARTITION_ID for each in module.instructions)
    return Devices(1, count) if has_partitions else Devices(count, 1)
