"""HLO08x: groups of devices and the axes of the mesh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.sharding.meshes import device_groups, devices_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import Groups
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.source import HloError

_GROUPED: Final = tuple(
    opcode for each in sorted(COLLECTIVES - {opcodes.COLLECTIVE_PERMUTE}) for opcode in (each, f"{each}-start")
)
_PERMUTES: Final = (opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START)
_OF_DEVICES: Final[dict[str, tuple[str, ...]]] = {
    "replica_groups": _GROUPED,
    "source_target_pairs": _PERMUTES,
    "sharding": (),
}
"""Attributes that name devices, and the opcodes that have them; none for all."""
_SHOWN: Final = 60


@rule("HLO082", "device groups not along mesh axes", severity="warning")
def groups_off_axes(context: LintContext) -> Iterator[Finding]:
    """No axes of the mesh, or parts of axes, result in the groups of a collective.

    Reported if the mesh is named: in the header, in before_optimizations in the same directory, or in shardings.

    Why: Devices are usually arranged so that each axis of the mesh has its own links. Groups across axes share links
    with other groups. They are often the result of a sharding over another mesh, or of groups written by hand.

    Example:
        HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2]>}}
        ENTRY main {
          x = f32[8] parameter(0)
          ROOT y = f32[16] all-gather(x), dimensions={0}, channel_id=1, replica_groups={{0,3},{1,2}},
            use_global_device_ids=true
        }

    Fix: Use one mesh for all shardings of a program, and name its axes in collectives.

    Reference: `hlo shard DUMP --comms`; xla/hlo/ir/mesh_and_axis.h
    """
    module, devices = context.module, devices_of(context.module)
    collectives = list(context.of(*_GROUPED)) if devices.count > 1 else []
    if not collectives:
        return
    from hlo_cli.analysis.sharding.meshes import (
        axes_of_groups,  # for the few modules that have collectives
        known_mesh,
        mesh_text,
    )

    known = known_mesh(module, None, () if module.program is None else (module.program,))
    if known is None:
        return
    meshes = (known.mesh, *known.others)
    are_axes: dict[Groups, bool] = {}
    for collective in collectives:
        try:
            groups = device_groups(collective, devices)
        except HloError:  # reported by other rules
            continue
        if groups not in are_axes:
            is_alone = all(len(group) < 2 for group in groups)
            are_axes[groups] = is_alone or any(axes_of_groups(groups, mesh) is not None for mesh in meshes)
        if not are_axes[groups]:
            yield context.finding(
                f"the groups of {collective.opcode} {context.user_name(collective)} are not along axes of the mesh "
                f"{mesh_text(known.mesh)}",
                collective,
                attribute_span(collective, "replica_groups"),
            )


@rule("HLO083", "unreadable sharding or device groups", severity="warning", needs="instructions")
def unreadable_devices(context: LintContext) -> Iterator[Finding]:
    """A sharding, replica groups, or source–target pairs could not be parsed.

    Why: The devices of the operation are unknown, so it is not checked, and bytes and times of it are not computed. It
    is not the same as an operation without groups, which all devices take part in.

    Example:
        y = f32[4] all-reduce(x), replica_groups=torus(2,4), to_apply=add

    Fix: Correct the text. If XLA wrote it, a newer version of this tool may read it.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for name, having in _OF_DEVICES.items():
        for instruction in context.with_attribute_text(f"{name}=", *having):
            if _is_unread(instruction, name):
                text = (instruction.attribute(name) or "")[:_SHOWN]
                yield context.finding(
                    f"{instruction.name}: could not parse {name}={text}",
                    instruction,
                    attribute_span(instruction, name),
                )


def _is_unread(instruction: Instruction, name: str) -> bool:
    return isinstance(instruction.value(name), UnparsedText)
