"""`hlo profile`: what its screens say is what a plain count of the events in the trace gives."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo_cli.analysis.profile.operation_times import histogram, touched_tiles, two_modes
from hlo_cli.cli import main
from hlo_cli.ir.traces.trace import ABSENT
from hlo_cli.library import module_to_bytes, parse_module
from hlo_cli.read_traces import read_trace_bytes
from strategies import FIXTURES
from test_run_progress import terminal
from traces_of_cpus import Ran, cpu_file
from traces_of_tpus import VARIANTS, tpu_file
from traces_writing import Event, PlaneWriter, Statistic, Unsigned, chunk, file_of

LOOPS = FIXTURES / "traces/cpu_loops/trace.xplane.pb.gz"
SMALL = FIXTURES / "traces/cpu/trace.xplane.pb"
MODULE = """HloModule jit_f
body { p = f32[256] parameter(0)  ROOT n = f32[256] negate(p) }
ENTRY e {
  a = f32[256] parameter(0)
  x = f32[256] exponential(a), metadata={op_name="jit(f)/mlp/exp" source_file="m.py" source_line=3}
  y = f32[256] add(x, x), metadata={op_name="jit(f)/mlp/add" source_file="m.py" source_line=4}
  ROOT z = f32[256] fusion(y), kind=kLoop, calls=body
}"""

Answer = dict[str, Any]
Ask = Callable[..., Answer]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def ask(capsys: Capture) -> Ask:
    """The JSON of a command line."""

    def answer(*arguments: str) -> Answer:
        capsys.readouterr()
        code = main(["profile", *arguments, "--json"], standalone=False)
        out, err = capsys.readouterr()
        assert code == 0, err
        found: Answer = json.loads(out)
        return found

    return answer


def fails(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert main([*arguments], standalone=False) == 2
    return capsys.readouterr().err


def made(path: Path, ran: list[Ran], steps: list[tuple[int, int, int]] | None = None, *, module: str = MODULE) -> str:
    """A trace of these events of a module."""
    file = path / "t.xplane.pb"
    file.write_bytes(cpu_file(ran, parse_module(module) if module else None, steps or []))
    return str(file)


def counted(path: Path) -> tuple[Counter[str], Counter[str], int]:
    """Events and picoseconds of each instruction, and the number of events, by a loop over the file."""
    data = path.read_bytes()
    trace = read_trace_bytes(gzip.decompress(data) if path.suffix == ".gz" else data, str(path))
    events, times = Counter[str](), Counter[str]()
    for line in (line for plane in trace.planes for line in plane.lines):
        ops = line.statistic("hlo_op")
        for at in np.flatnonzero(ops.codes != ABSENT).tolist():
            events[str(ops.of(at))] += 1
            times[str(ops.of(at))] += int(line.events.durations_ps[at])
    return events, times, sum(events.values())


@pytest.mark.parametrize("path", [SMALL, LOOPS], ids=["small", "loops"])
def test_rows_are_the_events_of_the_trace(path: Path, ask: Ask) -> None:
    events, times, total = counted(path)
    found = ask(str(path))
    rows = found["tables"]["operations"]["rows"]
    by_name: Mapping[str, list[Answer]] = defaultdict(list)
    for row in rows:
        by_name[row["instruction"]].append(row)
    assert set(by_name) == set(events)
    for name, same in by_name.items():
        assert sum(row["events"] for row in same) == events[name]
        assert all(row["events"] % row["calls"] == 0 for row in same)
        assert math.isclose(sum(row["total_seconds"] for row in same), times[name] * 1e-12)
    answer = found["answer"]
    assert answer["events"] == total
    assert math.isclose(sum(row["self_seconds"] for row in rows), answer["self_seconds"])
    assert math.isclose(sum(row["share"] for row in rows) + answer["idle_seconds"] / answer["seconds"], 1)


@pytest.mark.parametrize("by", ["source", "scope", "argument", "opcode", "kind", "axis", "computation", "module"])
def test_groups_have_all_the_time(by: str, ask: Ask) -> None:
    answer = ask(str(LOOPS), "--by", by)
    (rows,) = (table["rows"] for table in answer["tables"].values() if "instructions" in table["rows"][0])
    assert math.isclose(sum(row["self_seconds"] for row in rows), answer["answer"]["self_seconds"])
    assert sum(row["instructions"] for row in rows) == answer["answer"]["operations"]
    assert len({row[by] for row in rows}) == len(rows)


def test_groups_are_those_of_the_instructions(tmp_path: Path, ask: Ask) -> None:
    path = made(tmp_path, [Ran("x", 0, 100), Ran("y", 100, 50), Ran("z", 200, 30)])
    sources = {row["source"]: row["self_seconds"] for row in ask(path, "--by", "source")["tables"]["sources"]["rows"]}
    assert sources == pytest.approx({"m.py:3": 100e-9, "m.py:4": 80e-9})  # z has that of its operand, inferred
    scopes = {row["scope"]: row["self_seconds"] for row in ask(path, "--by", "scope")["tables"]["scopes"]["rows"]}
    assert scopes == pytest.approx({"mlp": 180e-9})
    kinds = {row["kind"]: row["self_seconds"] for row in ask(path, "--by", "kind")["tables"]["kinds"]["rows"]}
    assert kinds == pytest.approx({"non-fusion elementwise": 150e-9, "loop fusion": 30e-9})


def test_steps_and_devices(tmp_path: Path, ask: Ask) -> None:
    ran = [Ran("x", 10, 20), Ran("y", 40, 20), Ran("x", 110, 50, run=2), Ran("z", 300, 5, run=3)]
    path = made(tmp_path, ran, [(0, 0, 100), (1, 100, 200)])
    rows = ask(path, "--by", "step")["tables"]["steps"]["rows"]
    assert [(row["trace_step"], row["events"]) for row in rows] == [("0", 2), ("1", 1), ("(no step)", 1)]
    assert [row["busy_seconds"] for row in rows] == pytest.approx([40e-9, 50e-9, 5e-9])
    assert [row["idle_seconds"] for row in rows[:2]] == pytest.approx([60e-9, 50e-9])
    (device,) = ask(path, "--by", "device")["tables"]["devices"]["rows"]
    assert device["time_seconds"] == pytest.approx(305e-9)  # from the begin of step 0 to the last operation
    assert device["busy_seconds"] == pytest.approx(95e-9)
    only = ask(path, "--by", "step", "--where", "opcode == add")["tables"]["steps"]["rows"]
    assert [row["events"] for row in only] == [1, 0]


def test_where_has_measured_fields_and_those_of_instructions(tmp_path: Path, ask: Ask, capsys: Capture) -> None:
    path = made(tmp_path, [Ran("x", 0, 100), Ran("y", 100, 50), Ran("y", 160, 50, run=2), Ran("gemm_kernel", 300, 30)])

    def names(expression: str) -> set[str]:
        return {row["instruction"] for row in ask(path, "--where", expression)["tables"]["operations"]["rows"]}

    assert names("time > 0.00000009 and calls == 1") == {"x"}
    assert names("calls == 2 and op_name ~ add") == {"y"}
    assert names("joined") == {"x", "y"}
    assert names("self_time < 4e-8") == names("instruction == '(no instruction)'") == {"(no instruction)"}
    # x reads and writes 1 KiB each in 100 ns: 20.48 GB/s
    assert names("achieved_bandwidth > 20GB and achieved_bandwidth < 21GB") == {"x"}
    kernels = ask(path, "--where", "not joined")["tables"]["kernels"]["rows"]
    assert [row["kernel"] for row in kernels] == ["gemm_kernel"]
    for field in ("self_time", "achieved_bandwidth", "roofline_fraction"):
        assert "only `hlo profile TRACE`" in fails(
            capsys, "parse", str(SMALL), "--module", "jit_step", "--where", f"{field} > 1"
        )
    assert "roofline_fraction" not in ask(path)["tables"]["operations"]["rows"][0]
    rows = ask(path, "--chip", "v5e", "--where", "roofline_fraction > 1%")["tables"]["operations"]["rows"]
    # 2 KiB at 819 GB/s take 2.5 ns of the 100 ns of x; y reads and writes 3 KiB in 50 ns
    found = {row["instruction"]: row["roofline_fraction"] for row in rows}
    assert found == pytest.approx({"x": 2048 / 819e9 / 100e-9, "y": 3072 / 819e9 / 50e-9})


@pytest.mark.parametrize(
    ("ran", "first"),
    [
        ([Ran("x", 0, 100)], "x (non-fusion elementwise) takes 100% of the 100.0 ns"),
        ([Ran("x", 0, 10), Ran("y", 90, 10)], "The device is idle for 80% of the 100.0 ns; x (non-fusion elementwise)"),
        ([Ran("gemm_kernel", 0, 100)], "kernel gemm_kernel takes 100% of the 100.0 ns"),
        ([Ran("x", 0, 0)], "1 event of no measurable time"),
        ([Ran("x", 0, 0), Ran("y", 5, 0)], "2 events of no measurable time"),
    ],
)
def test_the_first_line(ran: list[Ran], first: str, tmp_path: Path, capsys: Capture) -> None:
    path = made(tmp_path, ran)
    assert main(["profile", path, "--format", "screen"], standalone=False) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(first)


def test_what_is_no_profile_is_said(tmp_path: Path, capsys: Capture) -> None:
    empty, text = tmp_path / "e", tmp_path / "m.hlo"
    empty.write_bytes(b"")
    text.write_text(MODULE, encoding="utf-8")
    assert "requires a trace" in fails(capsys, "profile")
    assert "not found" in fails(capsys, "profile", str(tmp_path / "none"))
    assert str(empty) in fails(capsys, "profile", str(empty))
    assert "is a dump" in fails(capsys, "profile", str(text))
    assert "is a dump" in fails(capsys, "profile", str(FIXTURES / "tpu/v5e_conv/after_optimizations.hlo.pb"))
    begin = tmp_path / "begin.xplane.pb"
    begin.write_bytes((STEPS / "trace.xplane.pb").read_bytes()[:100])
    assert "truncated profiler trace" in fails(capsys, "profile", str(begin))
    assert "no timed operations" in fails(capsys, "profile", made(tmp_path, []))
    assert "did you mean 'ynn_fusion'" in fails(capsys, "profile", str(SMALL), "ynn_fusio")
    assert "--chip" in fails(capsys, "profile", str(SMALL), "--lost")
    assert "--chip" in fails(capsys, "profile", str(SMALL), "--predicted")
    assert "unknown step" in fails(capsys, "profile", str(LOOPS), "--timeline", "--step", "none")
    assert "--lost" in fails(capsys, "profile", str(SMALL), "--lost", "--timeline")


def test_a_name_inside_a_fusion_has_no_events(tmp_path: Path, capsys: Capture) -> None:
    path = made(tmp_path, [Ran("z", 0, 100)])
    error = fails(capsys, "profile", path, "n")
    assert "has no events" in error
    assert "part of z" in error
    assert "did not run" in fails(capsys, "profile", path, "x")


def test_one_instruction(ask: Ask) -> None:
    rows = ask(str(LOOPS))["tables"]["operations"]["rows"]
    row = max(rows, key=lambda row: row["calls"])
    found = ask(str(LOOPS), row["instruction"])
    answer, events = found["answer"], found["tables"]["events"]["rows"]
    assert len(events) == answer["events"] == row["events"]
    seconds = sorted(event["seconds"] for event in events)
    assert seconds[0] == pytest.approx(answer["least_seconds"])
    assert seconds[-1] == pytest.approx(answer["greatest_seconds"])
    assert sum(seconds) == pytest.approx(answer["total_seconds"])
    assert np.median(seconds) == pytest.approx(answer["median_seconds"])
    assert events == sorted(events, key=lambda event: (event["device"], event["begin_seconds"]))


def test_neighbors_run_before_and_after_not_inside(tmp_path: Path, ask: Ask) -> None:
    ran = [Ran("x", 0, 10), Ran("y", 20, 100), Ran("n", 30, 10), Ran("n", 50, 10), Ran("z", 125, 10)]
    ran += [Ran("x", 300, 10, line="other"), Ran("y", 313, 100, line="other")]
    path = made(tmp_path, ran)
    rows = ask(path, "y")["tables"]["neighbors"]["rows"]
    found = [(row["when"], row["instruction"], row["events"], row["gap_seconds"]) for row in rows]
    assert found == [("before", "x", 2, pytest.approx(6.5e-9)), ("after", "z", 1, pytest.approx(5e-9))]
    rows = ask(path, "n")["tables"]["neighbors"]["rows"]
    assert {(row["when"], row["instruction"]) for row in rows} == {
        ("before", "x"), ("before", "n"), ("after", "n"), ("after", "z"),
    }  # fmt: skip


def test_times_of_one_mode_are_seldom_taken_for_two() -> None:
    """Of each shape and number of calls, at most 1% of random times with one mode are said to have two."""
    draw = np.random.default_rng(5)
    shapes: list[Callable[[int], np.ndarray[Any, np.dtype[np.float64]]]] = [
        lambda n: 10 + draw.normal(size=n),
        lambda n: np.exp(draw.normal(size=n)),
        lambda n: 1 + draw.exponential(size=n),
        lambda n: draw.uniform(1, 9, size=n),
        lambda n: 1 + draw.pareto(1.5, size=n),
    ]
    for shape, count in product(shapes, (10, 20, 50)):
        alarms = sum(two_modes(shape(count).tolist()) is not None for _ in range(400))
        assert alarms <= 4
    slow = [20 + draw.normal() if number % 3 == 0 else 10 + draw.normal() * 0.5 for number in range(60)]
    modes = two_modes(slow)
    assert modes is not None
    assert (modes.fast, modes.slow) == (40, 20)
    assert two_modes(slow[:9]) is None


@pytest.mark.parametrize(
    ("fast", "slow", "is_found"),
    [
        ([1, 1, 1.125, 1.25, 1.25], [1.75, 1.75, 1.875, 2, 2], False),  # the gap is twice the spread, and no more
        ([1, 1, 1.125, 1.25, 1.25], [1.76, 1.76, 1.88, 2, 2], True),
        ([1, 1.25] * 5, [1.5, 1.75] * 5, False),  # of 20 events, it is the spread once
        ([1, 1.25] * 5, [1.51, 1.76] * 5, True),
        ([1] * 6, [1.2] * 6, True),
        ([1] * 6, [1.19] * 6, False),
        ([1] * 6, [2] * 4, True),  # three outliers are no mode, and less than 15% are none
        ([1] * 7, [2] * 3, False),
        ([1] * 34, [2] * 6, True),
        ([1] * 35, [2] * 6, False),
        ([1] * 5, [2] * 5, True),
        ([1] * 5, [2] * 4, False),  # 9 events are too few
    ],
)
def test_two_modes_are_told_from_their_bounds_on(fast: list[float], slow: list[float], is_found: bool) -> None:
    assert (two_modes([*slow, *fast]) is not None) is is_found


def test_histograms_have_all_events() -> None:
    draw = random.Random(3)
    for _ in range(50):
        seconds = [draw.expovariate(1) for _ in range(draw.randint(1, 40))]
        counts = histogram(seconds, draw.randint(1, 70))
        assert sum(counts) == len(seconds)


def test_touched_tiles_are_those_of_the_elements() -> None:
    """At the first offset, the tiles in which any element of the slice is, counted one element at a time."""
    draw, shown = random.Random(7), 0
    for _ in range(150):
        rank = draw.randint(1, 4)
        sizes = [draw.randint(1, 9) for _ in range(rank)]
        part = [draw.randint(1, size) for size in sizes]
        order = draw.sample(range(rank), rank)
        tile = [draw.randint(1, 4) for _ in range(draw.randint(1, rank))]
        layout = f"{{{','.join(map(str, order))}:T({','.join(map(str, tile))})}}"
        array, piece = (f"f32[{','.join(map(str, each))}]" for each in (sizes, part))
        indices = ", ".join("i" for _ in range(rank))
        root = f"ROOT r = {array}{layout} dynamic-update-slice(a, u, {indices})"
        text = f"a = {array}{layout} parameter(0)  u = {piece} parameter(1)  i = s32[] parameter(2)  {root}"
        instruction = parse_module(f"HloModule m  ENTRY e {{ {text} }}").entry.root
        assert instruction is not None
        physical = [range(part[d]) for d in order[::-1]]
        untiled = rank - len(tile)
        tiles = {
            (*at[:untiled], *(x // t for x, t in zip(at[untiled:], tile, strict=True))) for at in product(*physical)
        }
        expected = len(tiles) * math.prod(tile) * 4
        found = touched_tiles(instruction)
        if expected > math.prod(part) * 4:
            assert [each.bytes for each in found] == [expected]
            shown += 1
        else:
            assert not found
    assert shown > 50


def test_lost_time_is_above_the_roof(tmp_path: Path, ask: Ask) -> None:
    path = made(tmp_path, [Ran("x", 0, 100), Ran("x", 200, 300, run=2), Ran("y", 600, 1), Ran("kernel", 700, 50)])
    found = ask(path, "--lost", "--chip", "v5e")
    rows = {row["instruction"]: row for row in found["tables"]["lost"]["rows"]}
    floor = 2048 / 819e9
    assert rows["x"]["floor_seconds"] == pytest.approx(floor)
    assert rows["x"]["lost_seconds"] == pytest.approx(400e-9 - 2 * floor)
    assert rows["x"]["factor"] == pytest.approx(200e-9 / floor)
    assert rows["y"]["lost_seconds"] == 0  # 3 KiB in 1 ns: 375% of the roof
    assert found["answer"]["lost_seconds"] == pytest.approx(400e-9 - 2 * floor)
    assert "kernel" not in rows


def test_lost_explains_what_is_over_the_roof(tmp_path: Path, capsys: Capture) -> None:
    path = made(tmp_path, [Ran("x", 0, 100), Ran("y", 600, 1)])
    assert main(["profile", path, "--lost", "--chip", "v5e", "--format", "screen"], standalone=False) == 0
    assert "Over 100% of the roofline: y; some bytes may come from a cache, or the peak rate is too low." in " ".join(
        capsys.readouterr().out.split()
    )


def test_timelines_have_the_events_of_a_step(tmp_path: Path, ask: Ask) -> None:
    ran = [Ran("x", 10, 20), Ran("y", 15, 10, line="b"), Ran("z", 150, 50, run=2), Ran("x", 190, 30, run=2)]
    path = made(tmp_path, ran, [(3, 0, 100), (4, 110, 210)])
    found = ask(path, "--timeline", "--step", "4")
    rows = found["tables"]["timeline"]["rows"]
    assert [(row["instruction"], row["begin_seconds"], row["seconds"]) for row in rows] == [
        ("z", pytest.approx(40e-9), pytest.approx(50e-9)),
        ("x", pytest.approx(80e-9), pytest.approx(30e-9)),
    ]
    assert found["answer"]["seconds"] == pytest.approx(110e-9)  # it ends with its last event
    lanes = ask(path, "--timeline", "--step", "3")["figures"]["lanes"]["lanes"]
    assert {lane["line"] for lane in lanes} == {"tf_XLAEigen/1", "b"}
    busy = {lane["line"]: sum(lane["busy"]) / 100 for lane in lanes}
    assert busy == pytest.approx({"tf_XLAEigen/1": 0.2, "b": 0.1}, abs=0.01)


@pytest.mark.parametrize("kind", [VARIANTS[0], VARIANTS[8]], ids=lambda kind: kind.name)
@pytest.mark.parametrize("options", [(), ("--by", "source"), ("--by", "step"), ("--timeline",), ("--lost",)], ids=str)
def test_screens_of_tpus_are_80_columns_wide(
    options: tuple[str, ...], kind: Any, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    trace = read_trace_bytes(gzip.decompress(LOOPS.read_bytes()), "loops")
    Path("t.xplane.pb").write_bytes(tpu_file(trace, kind))
    code = main(["profile", "t.xplane.pb", *options, "--format", "screen"], standalone=False)
    out, err = capsys.readouterr()
    if options == ("--lost",) and not kind.has_peaks:
        assert code == 2
        return
    assert code == 0, err
    assert max(len(line) for line in out.splitlines() if "hlo profile" not in line) <= 80
    assert "2 TPU v5p cores" in out


STEPS = FIXTURES / "traces/cpu_steps"


def test_exposed_time_of_collectives_on_cpus(ask: Ask) -> None:
    operations = {row["instruction"]: row for row in ask(str(STEPS))["tables"]["operations"]["rows"]}
    found = ask(str(STEPS), "--exposed")
    (row,) = found["tables"]["transfers"]["rows"]
    assert row["instruction"] == "psum.7"
    assert row["exposed_seconds"] == pytest.approx(operations["psum.7"]["total_seconds"] / 2)
    assert 0 < row["waiting_seconds"] <= row["exposed_seconds"]
    assert found["answer"]["overlapped_seconds"] == 0
    assert ask(str(STEPS), "--exposed", "--where", "opcode == fusion")["answer"]["transfers"] == 0


def test_predictions_are_compared_with_calls(tmp_path: Path, ask: Ask) -> None:
    path = made(tmp_path, [Ran("x", 0, 100), Ran("x", 200, 300, run=2), Ran("kernel", 700, 50)])
    found = ask(path, "--predicted", "--chip", "v5e")
    row, kernel = sorted(found["tables"]["predictions"]["rows"], key=lambda row: row["instruction"] != "x")
    assert (kernel["instruction"], kernel["predicted_seconds"], kernel["difference_seconds"]) == ("kernel", None, None)
    answer = found["answer"]
    assert answer["measured_seconds"] == pytest.approx(400e-9)  # of what is predicted
    assert answer["unpredicted_seconds"] == pytest.approx(kernel["seconds"]) == pytest.approx(50e-9)
    assert answer["measured_seconds"] + answer["unpredicted_seconds"] == pytest.approx(answer["self_seconds"])
    assert row["call_seconds"] == pytest.approx(200e-9)
    assert row["difference_seconds"] == pytest.approx(400e-9 - 2 * row["predicted_seconds"])
    assert row["within_band"] == (row["predicted_low_seconds"] <= 200e-9 <= row["predicted_high_seconds"])
    one = ask(path, "x", "--chip", "v5e")["answer"]
    assert one["predicted_seconds"] == row["predicted_seconds"]


def test_measured_trip_counts(ask: Ask, capsys: Capture) -> None:
    """One loop of the program runs three times; the other ends by a value, so its text has no trip count."""
    rows = {row["computation"]: row for row in ask(str(STEPS), "--by", "computation")["tables"]["computations"]["rows"]}
    trips = {name: row["trips"] for name, row in rows.items() if row["trips"] is not None}
    assert trips == {"region_0.1_spmd": 3, "region_2.3_spmd": 4}
    assert main(["profile", str(STEPS), "while.22", "--format", "screen"], standalone=False) == 0
    assert "4 measured, unknown from the text" in capsys.readouterr().out


def test_a_dump_has_the_programs_that_a_trace_lacks(ask: Ask, capsys: Capture) -> None:
    file = str(STEPS / "trace.json.gz")
    alone, both = ask(file), ask(file, str(STEPS / "trace.xplane.pb"))
    assert not alone["tables"]["kernels"]["rows"]
    assert any("no HLO for jit_train_step" in note["message"] for note in alone["notes"])
    whole = ask(str(STEPS))

    def times(answer: Answer) -> dict[str, float]:
        return {row["instruction"]: row["self_seconds"] for row in answer["tables"]["operations"]["rows"]}

    assert times(both) == pytest.approx(times(whole))
    assert times(alone) == pytest.approx(times(whole))


def test_times_in_filters_have_units(ask: Ask, capsys: Capture) -> None:
    names = [
        {row["instruction"] for row in ask(str(STEPS), "--where", each)["tables"]["operations"]["rows"]}
        for each in ("mean_time > 300us", "mean_time > 0.3ms", "mean_time > 0.0003", "time / calls > 300us")
    ]
    assert names[0] == {"ynn_fusion", "ynn_fusion.1", "sort.7", "psum.7", "while.21", "while.22", "conditional.1.clone"}
    assert names[1:] == names[:1] * 3
    assert "mean_time is a time" in fails(capsys, "profile", str(STEPS), "--where", "mean_time > 3KiB")
    assert "calls is a number" in fails(capsys, "profile", str(STEPS), "--where", "calls > 3ms")


def test_pages_of_timelines_have_every_event(tmp_path: Path) -> None:
    for name in ("t.html", "t.svg"):
        assert main(["profile", str(STEPS), "--timeline", "-o", str(tmp_path / name)], standalone=False) == 0
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "measured time" in text
        assert "while.22" in text
        assert "CPU:1" in text


SLICES = """HloModule jit_step, is_scheduled=true
ENTRY e {
  a = f32[16,7168,512]{2,0,1:T(8,128)} parameter(0)
  u = f32[1,7168,512]{2,0,1:T(1,128)} parameter(1)
  i = s32[]{:T(128)} parameter(2)
  ROOT dynamic-update-slice.33 = f32[16,7168,512]{2,0,1:T(8,128)} dynamic-update-slice(a, u, i, i, i)
}"""


def tpu_of_slices(path: Path) -> str:
    """A trace of one core that updates a row of every tile 64 times, with the peaks of a v5p core."""
    peaks: dict[str, Statistic] = {
        "peak_teraflops_per_second": 233.4,
        "peak_hbm_bw_gigabytes_per_second": 1382.0,
        "device_type_string": "TPU v5p",
    }
    plane = PlaneWriter("/device:TPU:0", 1, peaks)
    facts: dict[str, Statistic] = {"program_id": Unsigned(5), "symbol_id": Unsigned(1), "bytes_accessed": 14 << 20}
    facts |= {"hlo_category": "dynamic-update-slice", "flops": 0}
    kind = plane.kind("%dynamic-update-slice.33 = f32[] dynamic-update-slice()", "dynamic-update-slice.33", facts)
    events = [Event(kind, at * 391_000_000, 390_700_000, {"run_id": at // 16}) for at in range(64)]
    runs = [
        Event(plane.kind("jit_step(5)"), at * 16 * 391_000_000, 16 * 391_000_000, {"run_id": at}) for at in range(4)
    ]
    plane.line("XLA Modules", runs, id=2)
    plane.line("XLA Ops", events, id=3)
    metadata = PlaneWriter("/host:metadata", 2)
    proto = chunk(1, module_to_bytes(parse_module(SLICES)))
    metadata.kind("jit_step(5)", id=5, statistics={"Hlo Proto": proto, "program_id": Unsigned(5)})
    file = path / "t.xplane.pb"
    file.write_bytes(file_of([plane, metadata]))
    return str(file)


def test_the_tiles_of_slices_explain_part_of_the_time(tmp_path: Path, ask: Ask, capsys: Capture) -> None:
    """The example of a real run: 14 MiB in 390.7 µs, of which 112 MiB of tiles, read and written, take 170.0 µs."""
    path = tpu_of_slices(tmp_path)
    (row,) = ask(path, "--lost")["tables"]["lost"]["rows"]
    assert row["touched_bytes"] == 112 << 20
    assert row["accessed_bytes"] == 14 << 20
    assert row["floor_seconds"] == pytest.approx((14 << 20) / 1382e9)
    assert row["factor"] == pytest.approx(36.8, abs=0.05)
    times = ask(path, "dynamic-update-slice.33")["figures"]["tile_times"]
    found = [round(seconds * 1e6, 1) for name, seconds in times.items() if name != "lines"]
    assert found == [10.6, 85.0, 170.0, 390.7]
    assert main(["profile", path, "dynamic-update-slice.33", "--format", "screen"], standalone=False) == 0
    out = capsys.readouterr().out
    assert "7,168 × 4 of 4 KiB: 112 MiB touched, 1 of 8 rows used" in out
    assert "hlo layout 'f32[16,7168,512]{2,0,1:T(8,128)}'" in out


def test_a_module_selects_its_operations(ask: Ask, capsys: Capture) -> None:
    every = ask(str(LOOPS))["tables"]["operations"]["rows"]
    for module in {row["module"] for row in every}:
        rows = ask(str(LOOPS), "--module", module)["tables"]["operations"]["rows"]
        assert rows == [row for row in every if row["module"] == module]
    calls = [ask(str(LOOPS), "ynn_fusion", "--module", name)["answer"]["calls"] for name in ("jit_step", "jit_repeat")]
    assert sorted(calls) == sorted(row["calls"] for row in every if row["instruction"] == "ynn_fusion")
    assert "use --module" in ask(str(LOOPS), "ynn_fusion")["notes"][0]["message"]
    assert "unknown module" in fails(capsys, "profile", str(LOOPS), "--module", "none")


def test_timelines_of_several_hosts_show_one_clock(tmp_path: Path, ask: Ask) -> None:
    trace = read_trace_bytes(gzip.decompress(LOOPS.read_bytes()), "loops")
    for name in ("a", "b"):
        (tmp_path / f"{name}.xplane.pb").write_bytes(tpu_file(trace, VARIANTS[0]))
    both = ask(str(tmp_path), "--timeline", "--step", "1")
    alone = ask(str(tmp_path / "a.xplane.pb"), "--timeline", "--step", "1")
    rows = both["tables"]["timeline"]["rows"]
    assert len(rows) == len(alone["tables"]["timeline"]["rows"])
    assert len({row["device"] for row in rows}) == 2
    assert "clocks of hosts differ" in both["notes"][0]["message"]
    assert len(ask(str(tmp_path), "--by", "device")["tables"]["devices"]["rows"]) == 4


def test_sums_of_kernels_have_calls_but_no_times(tmp_path: Path, ask: Ask, capsys: Capture) -> None:
    stats, dump = tmp_path / "results.stats.csv", tmp_path / "m.hlo"
    rows = ('"Name","Calls","TotalDurationNs","AverageNs","Percentage"', '"z.kd",40,80000,2000,60.0', '"g",10,9,1,4.0')
    stats.write_text("\n".join(rows), encoding="utf-8")
    dump.write_text(MODULE, encoding="utf-8")
    found = ask(str(stats), str(dump))["tables"]["operations"]["rows"]
    assert {(row["instruction"], row["calls"]) for row in found} == {("z", 40), ("(no instruction)", 10)}
    (device,) = ask(str(stats), "--by", "device")["tables"]["devices"]["rows"]
    assert device["busy_seconds"] == pytest.approx(device["time_seconds"])
    assert ask(str(stats), str(dump), "z")["answer"]["median_seconds"] is None
    assert "only sums of events" in fails(capsys, "profile", str(stats), "--timeline")


@pytest.mark.parametrize(("options", "is_shown"), [((), True), (("-q",), False)])
def test_reading_a_large_trace_is_shown(
    options: tuple[str, ...], is_shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = terminal(monkeypatch)
    monkeypatch.setattr("hlo_cli.commands.profile.measured._LARGE", 100)
    path = made(tmp_path, [Ran("x", 0, 10), Ran("y", 10, 10)])
    assert main(["profile", path, *options], standalone=False) == 0
    assert (f"of events from {path}" in stream.getvalue()) is is_shown
    assert ("2 events" in stream.getvalue()) is is_shown


@pytest.mark.parametrize(
    "trace", ["cpu_steps/trace.xplane.pb", "cpu_edit/before.xplane.pb.gz", "cpu_loops/trace.xplane.pb.gz"]
)
@pytest.mark.parametrize("chip", ["h100", "v5e"])
def test_predictions_account_for_all_of_the_measured_time(trace: str, chip: str, ask: Ask) -> None:
    found = ask(str(FIXTURES / "traces" / trace), "--predicted", "--chip", chip)
    rows = {row["account"]: row for row in found["tables"]["accounts"]["rows"]}
    whole = found["answer"]["seconds"] / found["answer"]["devices"]
    assert sum(row["account_seconds"] for row in rows.values()) == pytest.approx(whole)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert sum(row["operations"] or 0 for row in rows.values()) == found["answer"]["operations"]
    kernels = found["tables"]["predictions"]["rows"]
    for row in kernels:
        is_slower = row["predicted_high_seconds"] is not None and row["call_seconds"] > row["predicted_high_seconds"]
        assert (row["slower_because"] is not None) == is_slower


def test_a_slower_operation_has_the_reason(tmp_path: Path, ask: Ask) -> None:
    """A sum that waits for another device, a small kernel, and one that reads much."""
    module = """HloModule jit_f, num_partitions=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  p = f32[4000,4000] parameter(0)
  small = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})
  large = f32[4000,4000] negate(p)
  tiny = f32[8] negate(small)
  sum = f32[8] all-reduce(tiny), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=add
  ROOT r = (f32[4000,4000], f32[8]) tuple(large, sum)
}"""
    us = 1000
    ran = []
    for device, late in ((0, 0), (1, 9000)):
        line = f"tf_XLAEigen/{device}"
        ran += [
            Ran("large", 0, 5000 * us, 1, device, line),
            Ran("tiny", 5000 * us, 100 * us, 1, device, line),
            Ran("sum", (5100 + late) * us, (9010 - late) * us, 1, device, line),
        ]
    found = ask(made(tmp_path, ran, module=module), "--predicted", "--chip", "h100")
    reasons = {row["instruction"]: row["slower_because"] for row in found["tables"]["predictions"]["rows"]}
    assert reasons == {"large": "bandwidth", "tiny": "small", "sum": "waiting"}
