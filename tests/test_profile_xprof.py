"""Calls, times, shares, and rates of traces of TPUs and GPUs equal those of XProf."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.profile.measure import (
    Measure,
    measure,
    measured_trips,
    operation_measures,
    program_rates,
    rates,
    rates_of,
)
from hlo_cli.analysis.profile.profile import GivenModule, Operation, Profile, Traffic
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS, TracedProgram
from hlo_cli.read_input import read_module
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import Source
from traces_of_gpus import LAUNCHED_BEFORE_PS, kernels_of
from traces_of_tpus import calls_of, host_steps_of, offloaded
from traces_of_xprof import ANSWERS, JSON_FILES, makers, source

MAKERS = makers()
ALL: dict[str, Any] = json.loads(gzip.decompress(ANSWERS.read_bytes()))
TPUS = [name for name in MAKERS if ", TPU, " in name]
RECORDED = [name for name in TPUS if "random" not in name]
GPUS = [name for name in MAKERS if ", GPU, " in name]
COLUMNS = " ".join(ALL["columns"]["hlo_stats"])
GIBI = 1 << 30
Row = tuple[int | None, str]


MODULES: dict[bytes, Module] = {}


def parsed(program: TracedProgram) -> Module:
    if program.proto not in MODULES:
        MODULES[program.proto] = read_module(Source(program.name, ""), program.proto)
    return MODULES[program.proto]


@cache
def profile_of(name: str) -> Profile:
    return measure(read_trace_bytes(MAKERS[name](), name), parsed)


def rows_of(name: str, table: str, names: str) -> dict[Row, dict[str, object]]:
    """The rows of one of XProf's tables by program and operation."""
    found: dict[Row, dict[str, object]] = {}
    for row in ALL[name][table]:
        cells = dict(zip(names.split(), row, strict=True))
        program = str(cells.get("program_id", cells.get("hlo_module_id")))
        op = str(cells.get("hlo_op_name", cells.get("operation")))
        found[int(program), op.partition(" = ")[0].removeprefix("%")] = cells
    return found


def hlo_stats(name: str) -> dict[Row, dict[str, object]]:
    found = rows_of(name, "hlo_stats", COLUMNS)
    return {row: cells for row, cells in found.items() if row[1] != "IDLE" and cells["core_type"] != "SparseCore"}


def roofline(name: str) -> dict[Row, dict[str, object]]:
    return rows_of(name, "roofline", " ".join(ALL["columns"]["roofline"]))


def by_row(profile: Profile) -> dict[Row, tuple[int, Measure]]:
    return {
        (each.program.id if each.program else None, each.name): (at, found)
        for at, (each, found) in enumerate(zip(profile.operations, operation_measures(profile), strict=True))
    }


def xprof_total_ps(profile: Profile) -> int:
    """What XProf's shares are parts of: the time from the first to the last operation of each device, or the sum of self
    times if that is longer, as it is where operations overlap. Ours is the time that passed, steps on the host included.
    """
    rows, total = profile.occurrences, 0
    counted = np.ones(len(rows), np.bool_)
    if profile.platform == "GPU":
        counted = np.array([each.is_joined for each in profile.operations])[profile.codes]
    for device, span in enumerate(profile.spans_ps):
        own = rows.devices == device
        if profile.platform == "GPU":
            span = int(rows.ends_ps[own].max() - rows.begins_ps[own].min())
        total += max(span, int(rows.self_ps[own & counted].sum()))
    return total


def has_one_clock(name: str) -> bool:
    """Whether devices have no clock of their own; else XProf subtracts times of the host from those of the device."""
    return "clock" not in name


def close(value: object) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", TPUS)
def test_calls_and_times_are_those_of_xprof(name: str) -> None:
    profile = profile_of(name)
    ours, theirs = by_row(profile), hlo_stats(name)
    assert set(ours) == set(theirs)
    for row, (_, found) in ours.items():
        cells = theirs[row]
        assert found.calls == found.events == cells["occurrences"], row
        assert found.total * 1e6 == close(cells["total_time"])
        assert found.self_time * 1e6 == close(cells["total_self_time"])
        if has_one_clock(name):
            assert 1e14 * found.self_time / xprof_total_ps(profile) == close(cells["total_self_time_percent"])


@pytest.mark.parametrize("name", TPUS)
def test_rates_and_bounds_are_those_of_xprof(name: str) -> None:
    profile = profile_of(name)
    measured = operation_measures(profile)
    found = rates(profile, measured)
    stats, lines = hlo_stats(name), roofline(name)
    for row, (at, _) in by_row(profile).items():
        cells, line, own = stats[row], lines[row], found[at]
        assert (own.flops or 0) / 1e9 == close(cells["normalized_flop_rate"])
        assert (own.model_flops or 0) / 1e9 == close(cells["model_flop_rate"])
        assert (own.bytes or 0) / GIBI == close(cells["measured_memory_bw"])
        assert (own.main_bytes or 0) / GIBI == close(cells["hbm_bw"])
        assert (own.intensity or 0) == close(cells["operational_intensity"])
        assert (own.bound_by.lower() or "unknown") == str(cells["bound_by"]).lower()
        assert (own.efficiency or 0) == close(line["roofline_efficiency"])
        assert (own.compute_use or 0) == close(line["compute_efficiency"])
        assert (own.memory_use or 0) == close(line["max_mem_bw_utilization"])
    program, whole = lines[0, "Program"], program_rates(profile, measured)
    if has_one_clock(name):
        longer = xprof_total_ps(profile) / profile.total_ps
        assert (whole.flops or 0) / 1e9 / longer == close(program["measured_flop_rate"])
        assert (whole.main_bytes or 0) / GIBI / longer == close(program["hbm_bw"])
        assert (whole.efficiency or 0) / longer == close(program["roofline_efficiency"])
        assert (whole.bound_by.lower() or "unknown") == str(program["bound_by"]).lower()


@pytest.mark.parametrize("name", [name for name in TPUS if "clock" in name])
def test_the_time_of_a_device_is_by_its_own_clock(name: str) -> None:
    trace = source(name.partition(",")[0])
    calls = calls_of(trace)
    spans = [
        max(call.end_ps for call in own) - min(call.begin_ps for call in own)
        for device in sorted({call.device for call in calls})
        for own in [[call for call in calls if call.device == device]]
    ]
    assert list(profile_of(name).spans_ps) == spans


@pytest.mark.parametrize("name", GPUS)
def test_kernels_of_gpus_are_those_of_xprof(name: str) -> None:
    profile = profile_of(name)
    ours, theirs = by_row(profile), hlo_stats(name)
    joined = {row: found for row, found in ours.items() if profile.operations[found[0]].is_joined}
    assert set(joined) == set(theirs)
    for row, (at, found) in joined.items():
        cells = theirs[row]
        assert found.events == cells["occurrences"], row
        assert found.total * 1e6 == close(cells["total_time"])
        assert found.self_time * 1e6 == close(cells["total_self_time"])
        assert 1e14 * found.self_time / xprof_total_ps(profile) == close(cells["total_self_time_percent"])
        assert profile.operations[at].category == cells["category"]


@pytest.mark.parametrize("name", [name for name in GPUS if "lost" not in name])
def test_calls_of_gpus_are_executions_of_instructions(name: str) -> None:
    trace = source(name.partition(",")[0])
    calls = Counter((call.program, call.op) for call in calls_of(trace))
    if name.startswith("cpu_loops"):
        calls[6, "sort.20"] //= 2  # it first copies what it sorts, as an event of the same name
    profile = profile_of(name)
    ours = {row: found for row, (at, found) in by_row(profile).items() if profile.operations[at].is_joined}
    assert {row: found.calls for row, found in ours.items()} == {row: calls[row] for row in ours}  # type: ignore[index]


@pytest.mark.parametrize("name", [GPUS[0], RECORDED[0]])
def test_measured_trips_are_those_of_the_text(name: str) -> None:
    profile = profile_of(name)
    found = measured_trips(profile, [each.calls for each in operation_measures(profile)])
    assert {loop.name: trips for loop, trips in found.items()} == {"while.26": 5, "while.28": 3, "while.5": 4}
    assert {loop.name for loop in found if trip_count(loop) is None} == {"while.5"}


@pytest.mark.parametrize("name", [GPUS[0], "cpu_loops, GPU, launches of CUPTI"])
def test_gpu_operations_belong_to_the_step_in_which_the_host_launched_them(name: str) -> None:
    profile = profile_of(name)
    assert [step.name for step in profile.steps] == ["0", "1", "2", "3"]
    assert all(step.is_whole for step in profile.steps)
    trace = source(name.partition(",")[0])
    steps = host_steps_of(trace)
    for step, begin, end in steps:
        count = sum(begin <= call.begin_ps - LAUNCHED_BEFORE_PS < end for call in kernels_of(trace))
        assert (profile.step_codes == step).sum() == count


def test_peaks_of_gpus_are_those_of_xprof() -> None:
    found, theirs = profile_of(GPUS[0]).peaks, ALL[GPUS[0]]["peaks"]
    assert found is not None
    assert isinstance(theirs, Mapping)
    assert found.flops / 1e9 == pytest.approx(float(theirs["peak_flop_rate"]), rel=1e-5)
    assert found.main_bytes / GIBI == pytest.approx(float(theirs["peak_hbm_bw"]), rel=1e-5)
    assert found.shared / GIBI == pytest.approx(float(theirs["peak_vmem_write_bw"]), rel=1e-5)


@pytest.mark.parametrize("name", GPUS)
def test_rooflines_of_gpus_are_those_of_xprof_for_the_costs_that_it_assumes(name: str) -> None:
    profile = profile_of(name)
    stats, lines = hlo_stats(name), roofline(name)
    for row, (at, found) in by_row(profile).items():
        if not profile.operations[at].is_joined:
            continue
        cells, seconds = stats[row], found.total / found.calls
        flops, main = (number(cells[key]) for key in ("normalized_flop_rate", "hbm_bw"))
        traffic = Traffic(main * GIBI * seconds, main * GIBI * seconds)
        own = rates_of(Operation("", None, None, flops=flops * 1e9 * seconds, traffic=traffic), found, profile.peaks)
        assert BOUNDS[own.bound_by] == cells["bound_by"]
        assert (own.efficiency or 0) == close(lines[row]["roofline_efficiency"])


BOUNDS = {"": "Unknown", "compute": "Compute", "HBM": "HBM", "shared memory": "Shm/L1"}


def number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def test_sparse_cores_have_a_profile_of_their_own() -> None:
    name = "cpu_loops, TPU, sparse core"
    profile = profile_of(name)
    assert profile.sparse_core is not None
    assert profile_of(RECORDED[0]).sparse_core is None
    assert [note.partition(" ms ")[2] for note in profile.notes] == ["of operations on SparseCores"]
    assert profile.sparse_core.devices == ("TPU:0 SparseCore 0", "TPU:1 SparseCore 0")
    found = {each.name: at for at, each in enumerate(profile.sparse_core.operations)}
    trace = source("cpu_loops")
    calls = [call for device in (0, 1) for call in offloaded(calls_of(trace), device)]
    whole = sum(call.duration_ps * 8 // 10 for call in calls)
    inner = sum(call.duration_ps * 4 // 10 - call.duration_ps // 10 for call in calls)
    outer = operation_measures(profile.sparse_core)[found["sc.outer"]]
    assert (outer.calls, outer.total, outer.self_time) == (len(calls), close(whole * PS), close((whole - inner) * PS))
    cells = {each["hlo_op_name"]: each for each in rows_of(name, "hlo_stats", COLUMNS).values()}
    for op, at in found.items():  # XProf shows the first call alone
        rows = profile.sparse_core.occurrences
        first = next(row for row in range(len(rows)) if profile.sparse_core.codes[row] == at)
        assert rows.durations_ps[first] / 1e6 == close(cells[op]["total_time"])
        assert rows.self_ps[first] / 1e6 == close(cells[op]["total_self_time"])


@pytest.mark.parametrize("name", [name for name in RECORDED if ALL[name]["steps"]])
def test_steps_of_tpus_are_those_of_xprof(name: str) -> None:
    assert [step.name for step in profile_of(name).steps] == ALL[name]["steps"]


@pytest.mark.parametrize("name", RECORDED)
def test_every_operation_of_a_program_in_the_trace_is_joined(name: str) -> None:
    assert all(each.is_joined for each in profile_of(name).operations)


@pytest.mark.parametrize("name", JSON_FILES)
def test_the_json_of_a_trace_has_the_same_operations(name: str) -> None:
    whole = profile_of(name)
    given = [GivenModule(None, parsed(program)) for program in source("cpu_loops").programs()]
    found = measure(read_trace_bytes(gzip.decompress(JSON_FILES[name].read_bytes()), name), parsed, given)
    assert times_of(found) == times_of(whole)
    assert found.total_ps == whole.total_ps
    assert [step.name for step in found.steps] == [step.name for step in whole.steps]
    assert found.step_codes.tolist().count(-1) == whole.step_codes.tolist().count(-1)


def times_of(profile: Profile) -> dict[tuple[str, str], tuple[object, ...]]:
    """Calls, events, and times in picoseconds of each operation, and what its metadata say, by program and name."""
    return {
        (each.program.name if each.program else "", each.name): (
            found.calls,
            found.events,
            round(found.total / PS),
            round(found.self_time / PS),
            each.is_joined,
            each.category,
            each.source,
        )
        for each, found in zip(profile.operations, operation_measures(profile), strict=True)
    }
