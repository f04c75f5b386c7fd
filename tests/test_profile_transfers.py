"""Exposed and hidden time of asynchronous operations equals counting the cells of a grid of picoseconds."""

from __future__ import annotations

from random import Random

import pytest

from hlo_cli.analysis.profile.critical_path import waited_by_operation
from hlo_cli.analysis.profile.measure import measure
from hlo_cli.analysis.profile.operation_times import TransferTime, transfer_times
from hlo_cli.analysis.profile.profile import GivenModule, Profile
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS, TracedProgram
from hlo_cli.read_input import read_module
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import Source
from hlo_cli.syntax.text.parser import parse_module
from test_step_budget import rendezvous_waits
from traces_of_cpus import Ran, cpu_file
from traces_of_xprof import source
from traces_writing import Event, PlaneWriter, Reference, Statistic, Unsigned, file_of

PROGRAM = 1 << 63
SEEDS = range(12)
PAIRS = 3
HLO = "HloModule jit_f\nENTRY e {\n  p = f32[8] parameter(0)\n%s  ROOT r = f32[8] add(p, p)\n}"
STARTED = """  all-reduce-start.%d = f32[8] all-reduce-start(p), replica_groups={{0,1}}, to_apply=%%sum
  all-reduce-done.%d = f32[8] all-reduce-done(all-reduce-start.%d)
"""
SYNCHRONOUS = "  all-reduce.9 = f32[8] all-reduce(p), replica_groups={{0,1}}, to_apply=%sum\n"
SUM = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"


def module() -> Module:
    text = HLO % (SYNCHRONOUS + "".join(STARTED % (number, number, number) for number in range(PAIRS)))
    return parse_module(text.replace("ENTRY", SUM + "ENTRY"))


def no_program(program: TracedProgram) -> Module:
    raise AssertionError(program)


def parsed(program: TracedProgram) -> Module:
    return read_module(Source(program.name, ""), program.proto)


def profile_of(data: bytes, *, with_module: bool) -> Profile:
    return measure(read_trace_bytes(data, "t"), no_program, [GivenModule(None, module())] if with_module else ())


Counted = dict[str, list[tuple[int, set[int], set[int]]]]
"""For each transfer of a start its device, and the cells of its window and of its start and done."""


def tpu_file(random: Random, *, with_flows: bool) -> tuple[bytes, Counted, list[set[int]]]:
    """A trace of two cores, its transfers, and the cells in which each core ran anything."""
    counted: Counted = {}
    planes = []
    busy = []
    for device in range(2):
        plane = PlaneWriter(f"/device:TPU:{device}", device)
        waiting: dict[int, list[tuple[int, int, int]]] = {}
        events = []
        time = flow = 0
        for _ in range(60):
            time += random.randrange(4)
            length = random.randrange(6)
            number = random.randrange(PAIRS)
            name = random.choice(("r", "all-reduce.9"))
            statistics: dict[str, Statistic] = {}
            if random.random() < 0.4:
                flow += 1
                name, statistics = f"all-reduce-start.{number}", {"flow": Unsigned(flow << 2 | 2)}
                waiting.setdefault(number, []).append((time, time + length, flow))
            elif waiting.get(number) and random.random() < 0.8:
                place = random.randrange(len(waiting[number])) if with_flows else 0
                begin, end, its_flow = waiting[number].pop(place)
                name, statistics = f"all-reduce-done.{number}", {"flow": Unsigned(its_flow << 2 | 1)}
                window, own = set(range(begin, time + length)), {*range(begin, end), *range(time, time + length)}
                counted.setdefault(f"all-reduce-start.{number}", []).append((device, window, own))
            if name == "all-reduce.9":
                alone = set(range(time, time + length))
                counted.setdefault(name, []).append((device, alone, alone))
            kind = plane.kind(f"%{name} = f32[8]", name, {"program_id": Unsigned(PROGRAM), "symbol_id": hash_of(name)})
            events.append(Event(kind, time, length, statistics if with_flows else {}))
            time += length
        plane.line("XLA Modules", [Event(plane.kind(f"jit_f({PROGRAM})"), 0, time + 1, {"run_id": 3})], id=2)
        plane.line("XLA Ops", events, id=3)
        planes.append(plane)
        busy.append({cell for event in events for cell in range(event.offset_ps, event.offset_ps + event.duration_ps)})
    return file_of(planes), counted, busy


def hash_of(name: str) -> int:
    return sum(map(ord, name)) + 1


@pytest.mark.parametrize("with_module", [False, True])
@pytest.mark.parametrize("with_flows", [False, True])
def test_transfers_of_tpus_equal_counting(with_flows: bool, with_module: bool) -> None:
    for seed in SEEDS:
        data, counted, busy = tpu_file(Random(seed), with_flows=with_flows)
        profile = profile_of(data, with_module=with_module)
        found = {profile.operations[each.operation].name: each for each in transfer_times(profile)}
        assert set(found) == set(counted)
        for name, transfers in counted.items():
            own = found[name]
            assert own.calls == len(transfers)
            assert round(own.idle / PS) == sum(len(window - busy[device]) for device, window, _ in transfers)
            assert in_ps(own) == (
                sum(len(window) for _, window, _ in transfers),
                sum(len(exposed) for _, _, exposed in transfers),
                sum(len(window - exposed) for _, window, exposed in transfers),
            )


def gpu_file(random: Random) -> tuple[bytes, dict[str, tuple[int, int, int]]]:
    """A trace of two GPUs with three streams, and by collective its calls, its cells, and those where it runs alone."""
    kernels = []
    for device in range(2):
        for stream in range(3):
            time = 0
            for _ in range(25):
                time += random.randrange(7)
                length = random.randrange(9)
                name = "r" if stream < 2 and random.random() < 0.9 else f"all-reduce-start.{random.randrange(PAIRS)}"
                kernels.append((device, stream, name, time, time + length))
                time += length
    counted: dict[str, tuple[int, int, int]] = {}
    for device, stream, name, begin, end in kernels:
        if name != "r":
            own = set(range(begin, end))
            other = {t for d, s, _, b, e in kernels if d == device and s != stream for t in range(b, e)}
            calls, length, exposed = counted.get(name, (0, 0, 0))
            counted[name] = calls + 1, length + len(own), exposed + len(own - other)
    planes = []
    for device in range(2):
        plane = PlaneWriter(f"/device:GPU:{device}", device)
        for stream in range(3):
            events = []
            for d, s, name, begin, end in kernels:
                if (d, s) == (device, stream):
                    annotation: dict[str, Statistic] = {
                        "hlo_op": Reference(name),
                        "hlo_module": Reference("jit_f"),
                        "program_id": Unsigned(7),
                    }
                    events.append(Event(plane.kind(f"kernel_{name}"), begin, end - begin, annotation))
            plane.line(f"Stream #{stream}(Kernel)", events, id=stream)
        planes.append(plane)
    return file_of(planes), counted


def test_transfers_of_gpus_equal_counting() -> None:
    for seed in SEEDS:
        data, counted = gpu_file(Random(seed))
        profile = profile_of(data, with_module=True)
        found = {profile.operations[each.operation].name: each for each in transfer_times(profile)}
        assert set(found) == set(counted)
        for name, (_, length, exposed) in counted.items():
            assert in_ps(found[name]) == (length, exposed, length - exposed)


def test_collectives_of_cpus_wait_for_the_last_begin() -> None:
    """XLA's own begins of a rendezvous judge the wait; its event also has the transfer that follows the last begin."""
    trace = source("cpu_loops")
    profile = measure(trace, parsed)
    found = {profile.operations[each.operation].name: each for each in transfer_times(profile)}
    assert set(found) == {"all-reduce", "all-reduce.1"}
    assert all(each.exposed == each.window for each in found.values())
    assert sum(waited_by_operation(profile)) == pytest.approx(rendezvous_waits(trace), rel=0.05)


def in_ps(found: TransferTime) -> tuple[int, int, int]:
    return round(found.window / PS), round(found.exposed / PS), round(found.hidden / PS)


def test_collectives_on_two_threads_of_a_cpu_are_exposed_once() -> None:
    ran = [Ran("all-reduce.1", 0, 50), Ran("all-reduce.2", 0, 50, line="b"), Ran("all-reduce.1", 80, 20)]
    profile = measure(read_trace_bytes(cpu_file(ran), "t"), parsed)
    found = transfer_times(profile)
    assert [round(each.exposed / PS) for each in found] == [45_000, 25_000]
    assert sum(each.exposed for each in found) == pytest.approx(sum(profile.busy_ps) * PS)
