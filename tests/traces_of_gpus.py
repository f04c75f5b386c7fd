"""Traces as GPUs write them, made from those of a CPU: times are real, kernels and streams are those of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from hlo_cli.ir.traces.trace import Trace, TracedProgram
from traces_of_tpus import Call, calls_of, host_steps_of, metadata_plane
from traces_writing import Event, PlaneWriter, Reference, Statistic, Unsigned, file_of

CONTAINERS = ("while", "conditional", "call")
"""The operations that launch no kernel themselves."""
LAUNCHED_BEFORE_PS = 2_000_000
DERIVED = 0xDEADBEEF - (1 << 32)
"""The id of the first line that XProf adds when it loads a file."""


@dataclass(frozen=True)
class Kind:
    """What a file of a GPU holds: see `VARIANTS`."""

    name: str
    seed: int = 0
    has_nested_annotations: bool = False
    has_lost_annotations: bool = False
    has_derived_lines: bool = False
    has_copies: bool = False
    streams: int = 1
    kernels: int = 1
    node_tracing: bool = False
    overlaps: bool = False
    launches_apart: bool = False


VARIANTS = (
    Kind("plain", 1),
    Kind("nested annotations", 2, has_nested_annotations=True),
    Kind("several kernels", 3, kernels=3),
    Kind("lost annotations", 4, has_lost_annotations=True, kernels=2),
    Kind("derived lines", 5, has_derived_lines=True),
    Kind("copies on a stream of their own", 6, has_copies=True, streams=2),
    Kind("graph nodes", 7, node_tracing=True, kernels=2),
    Kind("overlapping streams", 8, streams=4, overlaps=True, has_copies=True),
    Kind("launches of CUPTI", 9, launches_apart=True),
)


def kernels_of(trace: Trace) -> list[Call]:
    """The events of instructions that would launch kernels on a GPU."""
    return [call for call in calls_of(trace) if not call.op.startswith(CONTAINERS)]


def gpu_file(trace: Trace, kind: Kind) -> bytes:
    """The file that GPUs would have written of the same runs."""
    calls = kernels_of(trace)
    programs = {each.id: each for each in trace.programs()}
    start_ps = min(call.begin_ps for call in calls)
    host = PlaneWriter("/host:CPU", 1)
    planes = []
    launches: list[tuple[int, int]] = []
    for device in sorted({call.device for call in calls}):
        own = [call for call in calls if call.device == device]
        planes.append(_Device(kind, device, own, programs, start_ps, launches).plane())
    callers = PlaneWriter("/host:CUPTI", 2) if kind.launches_apart else host
    launch = callers.kind("cuLaunchKernel")
    callers.line(
        "launches",
        [Event(launch, begin - start_ps, 1000, {"correlation_id": id}) for id, begin in launches],
        id=7,
        timestamp_ns=start_ps // 1000,
    )
    steps = [
        Event(host.kind("train"), begin - start_ps, end - begin, {"step_num": step, "_r": 1})
        for step, begin, end in host_steps_of(trace)
    ]
    host.line("python", steps, id=8, timestamp_ns=start_ps // 1000)
    planes += [callers] if kind.launches_apart else []
    return file_of([host, *planes, metadata_plane(programs.values())])


@dataclass(frozen=True)
class _Device:
    kind: Kind
    device: int
    calls: list[Call]
    programs: dict[int, TracedProgram]
    start_ps: int
    launches: list[tuple[int, int]]

    def plane(self) -> PlaneWriter:
        plane = PlaneWriter(
            f"/device:GPU:{self.device}",
            self.device + 3,
            {
                "clock_rate": 1_980_000,
                "core_count": 132,
                "memory_bandwidth": Unsigned(3_350_000_000_000),
                "memory_size": Unsigned(80 << 30),
                "compute_cap_major": Unsigned(9),
                "compute_cap_minor": Unsigned(0),
                "device_vendor": "Nvidia",
            },
        )
        streams: dict[int, list[Event]] = {}
        for stream, event in self._kernels(plane):
            streams.setdefault(stream, []).append(event)
        for stream, events in streams.items():
            name = f"Stream #{stream}({'MemcpyD2D' if stream == 30 else 'Kernel'})"
            plane.line(name, events, id=stream, timestamp_ns=self.start_ps // 1000)
        if self.kind.has_derived_lines:
            ops = [
                Event(plane.kind(f"{call.program}/{call.op}", call.op), call.begin_ps - self.start_ps, call.duration_ps)
                for call in self.calls
            ]
            plane.line("XLA Ops", ops, id=DERIVED + 2, timestamp_ns=self.start_ps // 1000)
        return plane

    def _kernels(self, plane: PlaneWriter) -> Iterator[tuple[int, Event]]:
        random = Random(self.kind.seed * 100 + self.device)
        before = 0
        counts = {op: random.randint(1, self.kind.kernels) for op in sorted({call.op for call in self.calls})}
        for number, call in enumerate(self.calls):
            begin = max(call.begin_ps - self.start_ps, before)
            end = max(call.end_ps - self.start_ps, begin + 1000)
            before = end
            if self.kind.overlaps:
                begin, end = call.begin_ps - self.start_ps, call.begin_ps - self.start_ps + 5 * call.duration_ps
            parts = counts[call.op]
            for part in range(parts):
                id = self.device << 32 | number << 4 | part
                self.launches.append((id, call.begin_ps - LAUNCHED_BEFORE_PS))
                first, last = begin + (end - begin) * part // parts, begin + (end - begin) * (part + 1) // parts
                name = call.op.replace(".", "_").replace("-", "_") + (f"_part_{part}" if part else "")
                is_lost = self.kind.has_lost_annotations and random.random() < 0.1
                statistics: dict[str, Statistic] = {"correlation_id": id, **({} if is_lost else self._annotation(call))}
                statistics["kernel_details"] = Reference("regs:32 static_shared:0 grid:8,1,1 block:128,1,1 occ_pct:100")
                if self.kind.node_tracing:
                    statistics |= {"cuda_graph_id": Unsigned(5), "cuda_graph_node_id": Unsigned(number)}
                stream = 14 + random.randrange(self.kind.streams)
                yield stream, Event(plane.kind(name), first, last - first, statistics)
            if self.kind.has_copies and number % 5 == 0:
                copy: dict[str, Statistic] = {
                    "correlation_id": number,
                    "memcpy_details": "kind_src:device kind_dst:device size:64 dest:0",
                }
                yield 30, Event(plane.kind("MemcpyD2D"), begin, (end - begin) // 2, copy)

    def _annotation(self, call: Call) -> dict[str, Statistic]:
        module = self.programs[call.program].name.partition("(")[0]
        outer = "command_buffer::" if self.kind.has_nested_annotations and call.op < "r" else ""
        return {
            "hlo_module": Reference(module),
            "program_id": Unsigned(call.program),
            "hlo_op": Reference(outer + call.op),
            "name": Reference(f"dot/{call.op}"),
            "tf_op": Reference("XlaModule:"),
        }
