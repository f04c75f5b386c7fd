"""Traces as TPUs write them, made from those of a CPU: times and nesting are real, costs and categories are random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import ABSENT, Trace, TracedProgram
from hlo_cli.read_input import read_module
from hlo_cli.source import Source
from traces_writing import Event, PlaneWriter, Statistic, Unsigned, chunk, file_of, number

CATEGORIES = (
    "convolution fusion",
    "loop fusion",
    "custom fusion",
    "data formatting",
    "all-reduce",
    "custom-call",
    "call",
    "while",
    "conditional",
    "megacore fusion",
    "copy-start",
    "infeed",
)


@dataclass(frozen=True)
class Kind:
    """What a file of a TPU holds: see `VARIANTS`."""

    name: str
    seed: int = 0
    has_steps: bool = True
    has_device_clock: bool = False
    steps_have_device_clock: bool = False
    has_breakdown: bool = True
    has_cmem: bool = True
    has_merged_vmem: bool = False
    has_megacore: bool = False
    has_peaks: bool = True
    has_sparse_core: bool = False


VARIANTS = (
    Kind("steps", 1),
    Kind("no steps", 2, has_steps=False),
    Kind("device clock", 3, has_device_clock=True, has_steps=False),
    Kind("device clock of steps too", 4, has_device_clock=True, steps_have_device_clock=True),
    Kind("two clocks", 5, has_device_clock=True),
    Kind("no breakdown", 6, has_breakdown=False),
    Kind("merged vmem", 7, has_cmem=False, has_merged_vmem=True),
    Kind("megacore", 8, has_megacore=True),
    Kind("no peaks", 9, has_peaks=False),
    Kind("sparse core", 10, has_sparse_core=True),
)


@dataclass(frozen=True)
class Call:
    """One event of an instruction on a CPU."""

    device: int
    program: int
    op: str
    run: int
    begin_ps: int
    duration_ps: int

    @property
    def end_ps(self) -> int:
        return self.begin_ps + self.duration_ps


def calls_of(trace: Trace) -> list[Call]:
    """The events of instructions, by time, the outer ones first."""
    found = []
    for plane in trace.planes:
        for line in plane.lines:
            ops = line.statistic("hlo_op")
            columns = [line.statistic(name) for name in ("device_ordinal", "program_id", "run_id")]
            for at in (ops.codes != ABSENT).nonzero()[0].tolist():
                device, program, run = (column.of(at) for column in columns)
                assert isinstance(program, int)
                assert isinstance(run, int)
                op, begin, duration = str(ops.of(at)), int(line.begins_ps[at]), int(line.events.durations_ps[at])
                found.append(Call(device if isinstance(device, int) else 0, program, op, run, begin, duration))
    return sorted(found, key=lambda call: (call.begin_ps, -call.duration_ps))


def host_steps_of(trace: Trace) -> list[tuple[int, int, int]]:
    """Number, begin, and end of the steps that the program annotated."""
    found = []
    for plane in trace.planes:
        for line in plane.lines:
            numbers = line.statistic("step_num")
            for at in (numbers.codes != ABSENT).nonzero()[0].tolist():
                begin, step = int(line.begins_ps[at]), numbers.of(at)
                assert isinstance(step, int)
                found.append((step, begin, begin + int(line.events.durations_ps[at])))
    return sorted(found)


def fingerprint(program: int) -> int:
    """The id of a program on TPUs: 64 bits."""
    return (program * 0x9E3779B97F4A7C15 + 0xF00D) % (1 << 64)


def tpu_file(trace: Trace, kind: Kind) -> bytes:
    """The file that TPUs would have written of the same runs."""
    random = Random(kind.seed)
    calls, programs = calls_of(trace), {each.id: each for each in trace.programs()}
    start_ps = min(call.begin_ps for call in calls)
    modules = {id: read_module(Source(each.name, ""), each.proto) for id, each in programs.items()}
    facts = _facts(calls, modules, kind, random)
    planes = [
        _Device(kind, device, [call for call in calls if call.device == device], programs, facts, start_ps).plane(trace)
        for device in sorted({call.device for call in calls})
    ]
    if kind.has_sparse_core:
        planes += [sparse_core_plane(device, calls, start_ps) for device in sorted({call.device for call in calls})]
    return file_of([*planes, metadata_plane(programs.values(), fingerprint)])


def offloaded(calls: list[Call], device: int) -> list[Call]:
    """The calls of a device that hand work to its SparseCore."""
    return [call for call in calls if call.device == device and call.op.startswith("sort")]


def sparse_core_plane(device: int, calls: list[Call], start_ps: int) -> PlaneWriter:
    """A SparseCore that runs two nested operations, and one after them, for each sort of its TensorCore."""
    plane = PlaneWriter(f"/device:TPU:{device} SparseCore 0", 100 + device)
    ops, modules = [], []
    for place, call in enumerate(offloaded(calls, device), 1):
        begin, length = call.begin_ps - start_ps, call.duration_ps
        owner = {"offload_core_id": Unsigned(device), "tc_offload_start_id": Unsigned(place)}
        modules.append(Event(plane.kind("sparse_module"), begin, length, owner))
        for symbol, (name, first, last) in enumerate((("outer", 0, 8), ("inner", 1, 4), ("after", 8, 10)), 1):
            facts: dict[str, Statistic] = {"program_id": Unsigned(fingerprint(call.program)), "symbol_id": symbol}
            facts["hlo_category"] = "sparse"
            kind = plane.kind(f"%sc.{name} = f32[]", f"sc.{name}", facts, key=str(call.program))
            ops.append(Event(kind, begin + length * first // 10, length * last // 10 - length * first // 10))
    plane.line("Sparse Core Modules", modules, id=2, timestamp_ns=start_ps // 1000)
    plane.line("Sparse Core Ops", ops, id=3, timestamp_ns=start_ps // 1000)
    return plane


def metadata_plane(programs: Iterable[TracedProgram], id_of: object = None) -> PlaneWriter:
    """The plane with the modules of programs."""
    plane = PlaneWriter("/host:metadata")
    for program in programs:
        id = fingerprint(program.id) if id_of is fingerprint else program.id
        name = f"{program.name.partition('(')[0]}({id})"
        plane.kind(name, id=id, statistics={"Hlo Proto": program.proto, "program_id": Unsigned(id)})
    return plane


@dataclass(frozen=True)
class _Facts:
    name: str
    display_name: str
    statistics: dict[str, Statistic]


def _facts(calls: list[Call], modules: dict[int, Module], kind: Kind, random: Random) -> dict[tuple[int, str], _Facts]:
    found: dict[tuple[int, str], _Facts] = {}
    for at, key in enumerate(sorted({(call.program, call.op) for call in calls})):
        program, op = key
        instruction = next(each for each in modules[program].instructions if each.name == op)
        breakdown = {
            (space, operation): random.randrange(1 << 20)
            for space in (1, 2, 3)
            for operation in (1, 2)
            if random.random() < 0.6
        }
        statistics: dict[str, Statistic] = {
            "program_id": Unsigned(fingerprint(program)),
            "symbol_id": Unsigned(at + 7),
            "hlo_category": random.choice(CATEGORIES),
            "bytes_accessed": Unsigned(random.choice((0, random.randrange(1 << 22), sum(breakdown.values())))),
            "tf_op": f"jit(f)/{op}:",
            "source": f"train.py:{random.randrange(1, 99)}",
            "deduplicated_name": op.partition(".")[0],
        }
        if random.random() < 0.8:
            statistics["flops"] = Unsigned(random.choice((0, random.randrange(1 << 24), random.randrange(1 << 34))))
            statistics["model_flops"] = Unsigned(random.choice((0, random.randrange(1 << 24))))
        if kind.has_breakdown and breakdown:
            parts = (chunk(1, number(1, o) + number(2, s) + number(3, size)) for (s, o), size in breakdown.items())
            statistics["memory_access_breakdown"] = b"".join(parts)
        found[key] = _Facts(f"%{op} = {instruction.shape} {instruction.opcode}()", op, statistics)
    return found


@dataclass(frozen=True)
class _Device:
    kind: Kind
    device: int
    calls: list[Call]
    programs: dict[int, TracedProgram]
    facts: dict[tuple[int, str], _Facts]
    start_ps: int

    def plane(self, trace: Trace) -> PlaneWriter:
        plane = PlaneWriter(f"/device:TPU:{self.device}", self.device + 3, self._statistics())
        clock = self.kind.has_device_clock
        if self.kind.has_steps:
            plane.line("Steps", self._steps(plane, trace), id=1, timestamp_ns=self.start_ps // 1000)
        plane.line("XLA Modules", self._runs(plane), id=2, timestamp_ns=self.start_ps // 1000)
        numbers = {call: number for number, call in enumerate(offloaded(self.calls, self.device), 1)}
        ops = [
            self._event(plane, self._op_kind(plane, call), call.begin_ps, call.end_ps, self._own(call, numbers), clock)
            for call in self.calls
        ]
        plane.line("XLA Ops", ops, id=3, timestamp_ns=self.start_ps // 1000)
        return plane

    def _own(self, call: Call, numbers: dict[Call, int]) -> dict[str, Statistic]:
        if not self.kind.has_sparse_core or call not in numbers:
            return {"run_id": call.run}
        return {
            "run_id": call.run,
            "offload_core_id": Unsigned(self.device),
            "tc_offload_start_id": numbers[call],
        }

    def _statistics(self) -> dict[str, Statistic]:
        peaks: dict[str, Statistic] = {
            "peak_teraflops_per_second": 0.05,
            "peak_hbm_bw_gigabytes_per_second": 3.5,
            "peak_sram_rd_bw_gigabytes_per_second": 0.0,
            "peak_sram_wr_bw_gigabytes_per_second": 0.0,
            "peak_cmem_rd_bw_gigabytes_per_second": 4.5 if self.kind.has_cmem else 0.0,
            "peak_cmem_wr_bw_gigabytes_per_second": 2.5 if self.kind.has_cmem else 0.0,
            "peak_vmem_rd_bw_gigabytes_per_second": 5.5,
            "peak_vmem_wr_bw_gigabytes_per_second": 6.5,
            "has_megacore": int(self.kind.has_megacore),
            "has_merged_vmem": int(self.kind.has_merged_vmem),
        }
        return {"device_type_string": "TPU v5p", **(peaks if self.kind.has_peaks else {})}

    def _op_kind(self, plane: PlaneWriter, call: Call) -> int:
        facts = self.facts[call.program, call.op]
        return plane.kind(facts.name, facts.display_name, facts.statistics, key=str(call.program))

    def _steps(self, plane: PlaneWriter, trace: Trace) -> Iterator[Event]:
        for step, begin, end in host_steps_of(trace):
            inside = [call for call in self.calls if begin <= call.begin_ps < end]
            if inside:
                first, last = inside[0].begin_ps, max(call.end_ps for call in inside)
                yield self._event(plane, plane.kind(str(step)), first, last, {}, self.kind.steps_have_device_clock)

    def _runs(self, plane: PlaneWriter) -> Iterator[Event]:
        for program, run in dict.fromkeys((call.program, call.run) for call in self.calls):
            inside = [call for call in self.calls if (call.program, call.run) == (program, run)]
            name = f"{self.programs[program].name.partition('(')[0]}({fingerprint(program)})"
            first, last = inside[0].begin_ps, max(call.end_ps for call in inside)
            yield self._event(plane, plane.kind(name), first, last, {"run_id": run}, self.kind.has_device_clock)

    def _event(
        self, plane: PlaneWriter, kind: int, begin: int, end: int, statistics: dict[str, Statistic], clock: bool
    ) -> Event:
        """An event on the clock of the host, and on that of the device if it has one."""
        own = {"device_offset_ps": begin - self.start_ps + 5_000, "device_duration_ps": end - begin} if clock else {}
        lead, stretch = (1234, 777) if clock else (0, 0)
        return Event(kind, begin - self.start_ps + lead, end - begin + stretch, {**own, **statistics})
