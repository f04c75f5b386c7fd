"""Traces as CPUs write them, of any module and any events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hlo_cli.ir.module import Module
from hlo_cli.library import module_to_bytes
from traces_writing import Event, PlaneWriter, Statistic, chunk, file_of

PS = 10**12


@dataclass(frozen=True)
class Ran:
    """One event of an instruction, in nanoseconds; `line` is its thread."""

    op: str
    begin: int
    duration: int
    run: int = 1
    device: int = 0
    line: str = "tf_XLAEigen/1"


def cpu_file(
    ran: Iterable[Ran], module: Module | None = None, steps: Sequence[tuple[int, int, int]] = (), *, id: int = 7
) -> bytes:
    """The file of one program's events; `steps` have a number, a begin, and an end, in nanoseconds."""
    plane = PlaneWriter("/host:CPU", 1)
    name = "jit_f" if module is None else module.name
    lines: dict[str, list[Event]] = {}
    for each in ran:
        statistics: dict[str, Statistic] = {"hlo_op": each.op, "hlo_module": name, "program_id": id, "run_id": each.run}
        statistics["device_ordinal"] = each.device
        event = Event(plane.kind(each.op), each.begin * 1000, each.duration * 1000, statistics)
        lines.setdefault(each.line, []).append(event)
    for line, events in lines.items():
        plane.line(line, events)
    annotated = [
        Event(plane.kind("train"), begin * 1000, (end - begin) * 1000, {"step_num": number, "_r": 1})
        for number, begin, end in steps
    ]
    if annotated:
        plane.line("python", annotated)
    if module is None:
        return file_of([plane])
    metadata = PlaneWriter("/host:metadata", 2)
    metadata.kind(f"{name}({id})", statistics={"Hlo Proto": chunk(1, module_to_bytes(module)), "program_id": id})
    return file_of([metadata, plane])
