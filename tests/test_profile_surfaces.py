"""One quantity, one answer: every screen of a profile, the report, lint, and the library agree on every trace at hand.

Busy time is counted here again, by a sweep over the events; the rest is one screen against another.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.profile.measure import measure, operation_measures
from hlo_cli.analysis.profile.operation_times import mean_times
from hlo_cli.analysis.profile.profile import NO_STEP, Profile
from hlo_cli.analysis.profile.step_budget import PARTS
from hlo_cli.commands.lint.measured import MeasuredKernels
from hlo_cli.commands.profile.budget import budget_answer
from hlo_cli.commands.profile.by_group import report_of_devices, report_of_groups, report_of_steps, report_of_timeline
from hlo_cli.commands.profile.by_operation import report_of_exposed, report_of_lost, report_of_operations
from hlo_cli.commands.profile.instruction import report_of_instruction, report_of_predictions
from hlo_cli.commands.profile.measured import LoadedProfile, Measured
from hlo_cli.commands.profile.timed import longest_of
from hlo_cli.ir.traces.trace import PS
from hlo_cli.library import parse_module
from hlo_cli.read_input import read_module
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.report.numbers import format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell
from hlo_cli.source import Source
from in_process import run
from strategies import FIXTURES
from traces_of_cpus import Ran, cpu_file
from traces_of_xprof import makers

MODULE = """HloModule jit_f
ENTRY e {
  a = f32[256] parameter(0)
  x = f32[256] exponential(a)
  y = f32[256] add(x, x)
  ROOT z = f32[256] negate(y)
}"""
RECORDED = (
    "cpu/trace.xplane.pb",
    "cpu_loops/trace.xplane.pb.gz",
    "cpu_edit/before.xplane.pb.gz",
    "cpu_edit/after.xplane.pb.gz",
    "cpu_steps/trace.xplane.pb",
    "cpu_steps/trace.json.gz",
)
MADE = {
    "overlapping threads": [Ran("x", 0, 50), Ran("y", 0, 50, line="b"), Ran("z", 160, 30, run=2), Ran("x", 150, 20, 2)],
    "work after its step": [Ran("x", 10, 20), Ran("y", 90, 90), Ran("z", 130, 90, run=2), Ran("z", 300, 5, run=3)],
    "devices": [
        Ran("x", 0, 50),
        Ran("x", 20, 60, device=1, line="b"),
        Ran("y", 110, 30, 2),
        Ran("y", 90, 7, 2, 1, "b"),
    ],
    "events in events": [Ran("x", 0, 90), Ran("y", 10, 20), Ran("z", 40, 30), Ran("z", 50, 80, line="b")],
}
"""Events in nanoseconds of a program with steps from 0 to 100 and from 100 to 200."""
EVERY = (*RECORDED, *MADE, *makers())
FEW = (
    "cpu_edit/before.xplane.pb.gz",
    *MADE,
    "cpu, TPU, two clocks",
    "cpu, GPU, overlapping streams",
    "random 5, TPU, any",
)
GROUPS = ("source", "scope", "argument", "opcode", "kind", "axis", "computation", "module")
Row = Mapping[str, Any]


def content_of(name: str) -> bytes:
    if name in MADE:
        return cpu_file(MADE[name], parse_module(MODULE), [(0, 0, 100), (1, 100, 200)])
    if name in RECORDED:
        data = (FIXTURES / "traces" / name).read_bytes()
        return gzip.decompress(data) if name.endswith(".gz") else data
    return makers()[name]()


@cache
def profile_of(name: str) -> Profile:
    return measure(
        read_trace_bytes(content_of(name), name), lambda program: read_module(Source(program.name, ""), program.proto)
    )


def rows_of(report: Report, table: str) -> list[Row]:
    (found,) = (each for each in report.tables if each.name == table)
    names = [column.name for column in found.columns]
    return [dict(zip(names, row, strict=True)) for row in found.rows]


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-9, abs=2e-12)


def total(rows: Sequence[Row], name: str) -> float:
    return sum(row[name] or 0.0 for row in rows)


def swept(profile: Profile, device: int, first: float = -np.inf, last: float = np.inf) -> int:
    """The time from `first` to `last` in which any event of a device ran, by a sweep."""
    rows = profile.occurrences
    chosen = np.flatnonzero((rows.devices == device) & (rows.counts == 1)).tolist()
    begins, ends = rows.begins_ps.tolist(), rows.ends_ps.tolist()
    reached, busy = first, 0
    for begin, end in sorted((begins[at], ends[at]) for at in chosen):
        busy += max(min(end, last) - max(begin, reached), 0)
        reached = max(reached, min(end, last))
    return int(busy)


def surfaces(measured: Measured) -> Iterator[tuple[str, Report]]:
    yield "operations", report_of_operations(measured)
    yield "steps", report_of_steps(measured)
    yield "devices", report_of_devices(measured)
    yield "exposed", report_of_exposed(measured)
    yield "predicted", report_of_predictions(measured)
    yield "lost", report_of_lost(measured)
    for by in GROUPS:
        yield by, report_of_groups(measured, by)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else (pytest.mark.slow,)) for name in EVERY], ids=str
)
def test_screens_agree(name: str) -> None:
    agree(profile_of(name))


def agree(profile: Profile) -> None:
    measured = Measured(LoadedProfile(profile, "t", "t"), chip=chip_spec("h100"))
    reports = dict(surfaces(measured))
    headers_agree(profile, reports)
    steps_and_devices_agree(profile, reports)
    operations_agree(measured, reports)
    pages_agree(measured, reports)


def random_events(random: Random) -> list[Ran]:
    """Events of one or two devices with one or two threads, some of them inside others, in executions of 150 ns."""
    found: list[Ran] = []

    def fill(device: int, line: str, begin: int, end: int, depth: int) -> None:
        while begin < end and random.random() < 0.85:
            begin += random.choice((0, random.randrange(30)))
            length = min(random.choice((0, random.randrange(5), random.randrange(80))), max(end - begin, 0))
            name = random.choice("xyz") + ("" if random.random() < 0.9 else "_kernel")
            found.append(Ran(name, begin, length, 1 + begin // 150, device, line))
            if depth and length > 3 and random.random() < 0.4:
                fill(device, line, begin, begin + length, depth - 1)
            begin += length

    for device in range(random.randint(1, 2)):
        for line in "ab"[: random.randint(1, 2)]:
            fill(device, f"{line}{device}", random.randrange(50), 600, 2)
    return found or [Ran("x", 0, 5)]


def random_steps(random: Random) -> list[tuple[int, int, int]]:
    found, time = [], 0
    for number in range(random.randrange(5)):
        begin = time + random.randrange(40)
        time = begin + random.randrange(150)
        found.append((number if random.random() < 0.8 else 1, begin, time))
    return found


def test_screens_agree_on_random_traces() -> None:
    module = parse_module(MODULE)
    for seed in range(25):
        random = Random(seed)
        given = module if random.random() < 0.8 else None
        data = cpu_file(random_events(random), given, random_steps(random))
        hosts = [read_trace_bytes(data, f"host {number}") for number in range(random.choice((1, 1, 2)))]
        agree(measure(hosts, lambda program: read_module(Source(program.name, ""), program.proto)))


OVERLAP = {
    "traceEvents": [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 100, "name": "train", "args": {"step_num": "0", "_r": "1"}},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 0, "dur": 50, "name": "d", "args": {"hlo_op": "d", "hlo_module": "m"}},
        {"ph": "X", "pid": 1, "tid": 3, "ts": 0, "dur": 50, "name": "a", "args": {"hlo_op": "a", "hlo_module": "m"}},
    ]
}


def test_two_threads_in_the_same_half_of_a_step_leave_it_idle_for_half(tmp_path: Path) -> None:
    path = tmp_path / "overlap.trace.json"
    path.write_text(json.dumps(OVERLAP), encoding="utf-8")
    for by, table in (("step", "steps"), ("device", "devices")):
        found = records("profile", str(path), "--by", by)
        (row,) = found["tables"][table]["rows"]
        assert (row["busy_seconds"], row["idle_seconds"], row["idle_share"]) == (close(5e-5), close(5e-5), close(0.5))
        answer = found["answer"]
        assert (answer["busy_seconds"], answer["idle_seconds"], answer["self_seconds"]) == (
            close(5e-5), close(5e-5), close(1e-4),
        )  # fmt: skip
        assert "100.0 µs in 50.0 µs of busy time" in found["notes"][0]["message"]


HEADER = (
    "seconds", "busy_seconds", "idle_seconds", "self_seconds", "steps", "partial_steps", "step_seconds", "events",
    "operations", "flop_rate", "byte_rate",
)  # fmt: skip


def headers_agree(profile: Profile, reports: Mapping[str, Report]) -> None:
    first = reports["operations"].numbers
    facts = {report.parts[0] for report in reports.values()}
    assert len({str(each) for each in facts}) == 1
    for name, report in reports.items():
        assert {key: report.numbers[key] for key in HEADER} == {key: first[key] for key in HEADER}, name
    busy = sum(swept(profile, device) for device in range(len(profile.devices)))
    assert number(first["busy_seconds"]) == close(busy * PS) == close(sum(profile.busy_ps) * PS)
    assert number(first["seconds"]) == close(number(first["busy_seconds"]) + number(first["idle_seconds"]))
    assert number(first["busy_seconds"]) <= number(first["seconds"]) + 1e-12
    assert all(each >= 0 for each in profile.idle_ps)


def number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return cell


def steps_and_devices_agree(profile: Profile, reports: Mapping[str, Report]) -> None:
    header, many = reports["operations"].numbers, len(profile.devices)
    devices = rows_of(reports["devices"], "devices")
    for column, key in (
        ("time_seconds", "seconds"),
        ("busy_seconds", "busy_seconds"),
        ("idle_seconds", "idle_seconds"),
    ):
        assert total(devices, column) == close(number(header[key])), column
    steps = rows_of(reports["steps"], "steps")
    assert total(steps, "events") == header["events"] or not profile.steps
    if profile.steps:
        together = total(steps, "busy_seconds") * many
        assert together >= number(header["busy_seconds"]) - 2e-12
        assert together == close(number(header["busy_seconds"])) or do_overlap(profile)
        assert total(steps, "self_seconds") == close(number(header["self_seconds"]))
    for step, row in zip(profile.steps, steps, strict=False):
        # A step lasts from the first begin to the last end on any device, which has its own part of that.
        assert row["device_seconds"] <= row["time_seconds"] + 1e-12 or do_overlap(profile)
        assert row["busy_seconds"] + row["idle_seconds"] >= row["device_seconds"] - 1e-12
        if many == 1 and profile.platform != "TPU":
            assert row["busy_seconds"] == close(swept(profile, 0, step.begin_ps, step.end_ps) * PS)
            assert row["busy_seconds"] + row["idle_seconds"] == close(row["time_seconds"])
    if profile.steps and not do_overlap(profile) and total(steps, "device_seconds"):
        share = total(steps, "idle_seconds") / total(steps, "device_seconds")
        assert format_percent(share) == format_percent(number(header["idle_seconds"]) / number(header["seconds"]))
    whole = [row["time_seconds"] for row in steps if row["whole_step"] == "whole"]
    assert len(whole) == header["steps"]
    if whole:
        assert number(header["step_seconds"]) == close(float(np.median(whole)))


def do_overlap(profile: Profile) -> bool:
    """Whether steps overlap on a device, as executions may: then their times add up to more than passed."""
    windows = profile.windows
    for device in range(len(profile.devices)):
        there = windows.devices == device
        found = sorted(zip(windows.begins_ps[there].tolist(), windows.ends_ps[there].tolist(), strict=True))
        if any(end > begin for (_, end), (begin, _) in pairwise(found)):
            return True
    return False


def operations_agree(measured: Measured, reports: Mapping[str, Report]) -> None:
    report, profile = reports["operations"], measured.profile
    header, rows = report.numbers, rows_of(report, "operations")
    for key in ("self_seconds", "events"):
        assert total(rows, key) == close(number(header[key])), key
    assert total(rows, "seconds") * len(profile.devices) == close(number(header["self_seconds"]))
    assert total(rows, "busy_seconds") * len(profile.devices) == close(number(header["busy_seconds"]))
    assert total(rows, "share") * measured.whole == close(number(header["busy_seconds"]))
    for row in rows:
        assert row["share"] is None or row["share"] <= 1 + 1e-9
        assert row["share"] is None or row["busy_seconds"] * len(profile.devices) == close(
            row["share"] * measured.whole
        )
    for by in GROUPS:
        (table,) = [each for each in reports[by].tables if any(c.name == "instructions" for c in each.columns)]
        groups = rows_of(reports[by], table.name)
        for key in ("self_seconds", "busy_seconds", "share", "total_seconds", "calls", "events"):
            assert total(groups, key) == close(total(rows, key)), (by, key)
        for key in ("flops", "bytes") if measured.whole else ():
            assert total(groups, key) == pytest.approx(number(header[f"{key[:-1]}_rate"] or 0) * measured.whole), by
    of_library = zip(profile.operations, operation_measures(profile), strict=True)
    assert {(each.name, found.calls, found.total) for each, found in of_library} == {
        (each.operation.name, each.measure.calls, each.measure.total) for each in measured.every
    }
    longest = longest_of(measured.every)
    if measured.idle <= measured.whole / 2 and longest.is_named and longest.measure.self_time:
        # Where no computation takes most of the steps, the first line names the cause of that instead.
        cause = budget_answer(measured)
        assert (cause or longest.operation.name) in report.answer
        assert not cause or measured.budget is None or max(PARTS, key=measured.budget.seconds) != "compute"
    predicted = rows_of(reports["predicted"], "predictions")
    assert total(predicted, "seconds") * len(profile.devices) == close(number(header["self_seconds"]))
    numbers = reports["predicted"].numbers
    parts = number(numbers["measured_seconds"]) + number(numbers["unpredicted_seconds"])
    assert parts == close(number(header["self_seconds"]))
    assert total(predicted, "predicted_total_seconds") * len(profile.devices) == close(
        number(numbers["predicted_seconds"])
    )
    lost = rows_of(reports["lost"], "lost")
    assert total(lost, "lost_seconds") * len(profile.devices) == close(number(reports["lost"].numbers["lost_seconds"]))
    transfers = rows_of(reports["exposed"], "transfers")
    exposed = number(reports["exposed"].numbers["exposed_seconds"])
    assert total(transfers, "exposed_seconds") * len(profile.devices) == close(exposed)
    means_agree(measured, rows)


def means_agree(measured: Measured, rows: Sequence[Row]) -> None:
    """Means per step in the table, in lint, and by a plain sum over whole steps."""
    profile, means = measured.profile, mean_times(measured.profile)
    assert total(rows, "seconds_per_step") == close(sum(each.seconds for each in means.times))
    assert MeasuredKernels(profile).total == close(sum(each.seconds for each in means.times))
    if means.unit == "step":
        inside = [code != NO_STEP and profile.steps[code].is_whole for code in profile.step_codes.tolist()]
        own = int(profile.occurrences.self_ps[np.array(inside)].sum())
        used = len({code for code, kept in zip(profile.step_codes.tolist(), inside, strict=True) if kept})
        assert sum(each.seconds for each in means.times) == close(own * PS / used / len(profile.devices))


def pages_agree(measured: Measured, reports: Mapping[str, Report]) -> None:
    """The page of an instruction against its row, and the timeline of a step against the row of the step."""
    rows = rows_of(reports["operations"], "operations")
    named = [each for each in measured.every if each.is_named]
    by_name = [
        next(group)
        for _, group in groupby(
            sorted(named, key=lambda each: each.operation.name), key=lambda each: each.operation.name
        )
    ]
    for timed in sorted(by_name, key=lambda each: -each.measure.self_time)[:5]:
        page = report_of_instruction(measured, timed.operation.name).numbers
        of_name = [row for row in rows if row["instruction"] == page["instruction"] and row["module"] == page["module"]]
        keys = ("calls", "events", "total_seconds", "self_seconds", "mean_seconds", "median_seconds")
        for row in of_name:
            assert {key: page[key] for key in keys} == {key: row[key] for key in keys}
            for key in ("flops", "bytes"):
                assert (page[key] or 0) * row["calls"] == close(row[key] or 0)
    for step, row in list(zip(measured.profile.steps, rows_of(reports["steps"], "steps"), strict=False))[:3]:
        if [each.name for each in measured.profile.steps].count(step.name) == 1:
            timeline = report_of_timeline(measured, step.name).numbers
            assert timeline["step_seconds"] == row["time_seconds"]
            assert timeline["step_events"] == row["events"] or len(measured.profile.traces) > 1


def records(*arguments: str) -> dict[str, Any]:
    out, err, code = run((*arguments, "--format", "json"), folder=FIXTURES, settings={})
    assert code in (0, 1), err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("name", ["cpu_steps/trace.xplane.pb", "cpu_edit/before.xplane.pb.gz"])
def test_the_report_and_lint_have_the_times_of_the_profile(name: str) -> None:
    path = str(FIXTURES / "traces" / name)
    report, lint = records("report", "--profile", path), records("lint", "--profile", path)
    module = report["input"]["module"]
    profile = records("profile", path, "--module", module)
    rows = {row["instruction"]: row for row in profile["tables"]["operations"]["rows"]}
    measured = report["tables"]["measured"]["rows"]
    assert [row["instruction"] for row in measured] == list(rows)
    for row in measured:
        own = rows[row["instruction"]]
        assert (row["share"], row["measured_seconds"]) == (close(own["share"]), close(own["seconds_per_step"]))
        assert row["calls"] * report["answer"]["profile"]["units"] == close(own["device_calls"])
    numbers = report["answer"]["profile"]
    assert (numbers["units"], numbers["step_seconds"]) == (
        profile["answer"]["steps"],
        profile["answer"]["step_seconds"],
    )
    first = max(rows.values(), key=lambda row: row["share"])
    verdict = next(row for row in report["tables"]["verdicts"]["rows"] if row["key"] == "measured")
    assert f"{first['instruction']} takes {100 * first['share']:.0f}% of " in verdict["sentence"]
    for found in lint["tables"]["findings"]["rows"]:
        if found.get("measured_seconds"):
            assert found["measured_seconds"] == close(rows[found["kernel"]]["seconds_per_step"])
