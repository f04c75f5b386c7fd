"""What a collective does, in the explanation of an instruction: its mesh axes, its groups, and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hlo_cli.analysis.query.fields import rounded
from hlo_cli.report.figure import Explanation
from hlo_cli.report.numbers import format_bytes, format_count

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module
    from hlo_cli.report.table import Cell


def collective_at(instruction: Instruction, module: Module) -> Collective | None:
    """The collective of an instruction, or of an async-start or fusion around one; None for others."""
    from hlo_cli.analysis.sharding.meshes import is_collective

    called = (each for computation in instruction.called_computations for each in computation.instructions)
    if not is_collective(instruction) and not any(map(is_collective, called)):
        return None
    from hlo_cli.analysis.sharding.collectives import collectives_of

    found = [each for each in collectives_of(module) if instruction in (each.instruction, each.caller)]
    return found[0] if len(found) == 1 else None


def collective_rows(collective: Collective, module: Module) -> Iterator[Explanation]:
    """Rows on the axes, the groups, and the bytes of a collective."""
    if (axes := _axes_in_words(collective, module)) is not None:
        yield Explanation(None, "axes", "", axes)
    from hlo_cli.analysis.sharding.collectives import groups_text

    if collective.groups is None:
        yield Explanation(None, "devices", "", collective.problem)
        return
    if collective.groups or collective.pairs:
        yield Explanation(None, "devices", "", groups_text(collective) or "")
    yield Explanation(None, "sends", "", _bytes_in_words(collective))


def collective_numbers(collective: Collective) -> dict[str, Cell]:
    """The axes and bytes of a collective, for programs."""
    return {
        "collective": collective.kind,
        "axis": collective.axis,
        "devices": collective.devices,
        "payload_bytes": collective.payload_bytes,
        "wire_bytes": None if collective.wire_bytes is None else rounded(collective.wire_bytes),
        "trips": collective.runs.known,
    }


def _axes_in_words(collective: Collective, module: Module) -> str | None:
    from hlo_cli.analysis.sharding.collectives import mesh_of
    from hlo_cli.analysis.sharding.meshes import mesh_text

    known = mesh_of(module)
    if known is None or collective.groups is None or known.is_inferred:
        return None
    mesh = f"of mesh {mesh_text(known.mesh)} ({known.origin})"
    if collective.axis is None:
        return f"no axes {mesh}"
    return f"{', '.join(map(str, collective.shifts)) or collective.axis} {mesh}"


def _bytes_in_words(collective: Collective) -> str:
    assert collective.wire_bytes is not None
    bound = "at most " if collective.is_bound else ""
    words = f"{bound}{format_bytes(rounded(collective.wire_bytes))} from each device per run"
    payload = collective.payload_bytes
    words += f", for {format_bytes(payload)}" if payload is not None else ""
    runs = collective.runs.known
    if runs is None:
        return f"{words}; in a loop of unknown trip count"
    return f"{words}; {format_count(runs, 'runs')}" if runs > 1 else words
