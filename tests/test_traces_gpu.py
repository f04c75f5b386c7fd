"""Nsight Systems and rocprof: their tables become what XLA's own profiler writes. Columns are those of real exports."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.read_traces import read_trace as read_path
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import HloError
from hlo_cli.syntax.traces import databases

MODULE = "XlaModule:#prefix=jit(f)/jit(main),hlo_module=jit_f,program_id=7#"
Events = list[tuple[str, str, str, int, int, dict[str, object]]]


def events_of(trace: Trace) -> Events:
    """Plane, line, name, begin and duration in ns, and statistics."""
    found: Events = []
    for plane in trace.planes:
        for line in plane.lines:
            times = zip(line.begins_ps.tolist(), line.events.durations_ps.tolist(), strict=True)
            for at, (begin, duration) in enumerate(times):
                name = plane.kinds[int(line.events.kinds[at])].name
                own = dict(line.events.statistics_of(at))
                found.append((plane.name, line.name, name, begin // 1000, duration // 1000, dict(own)))
    return found


def table(header: str, rows: Iterable[Sequence[object]], before: str = "") -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return f"{before}{header}\n{text.getvalue()}".encode()


PROJECTION = (
    "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl,"
    "NumChild,RangeId,ParentId,RangeStack"
)
PREAMBLE = """Generating '/tmp/nsys-report.sqlite'
[1/1] Executing 'nvtx_gpu_proj_trace' stats report

 ** NVTX GPU Projection Trace (nvtx_gpu_proj_trace):
"""


def projected(
    name: str, start: int, duration: int, id: int, parent: object = "", *, tid: int = 5, operations: int = 1
) -> Sequence[object]:
    return (name, start, duration, 1, 2, "PushPop", 1, tid, operations, 0, 0, id, parent, f":{id}")


def execution(start: int, id: int, *, tid: int = 5, operations: int = 2) -> list[Sequence[object]]:
    """A module with a call around a product, and a fusion."""
    return [
        projected(f"TSL:{MODULE}", start, 100, id, tid=tid, operations=operations),
        projected("TSL:Thunk:#hlo_op=call.1#", start, 60, id + 1, id, tid=tid),
        projected("TSL:Thunk:#name=dot_general[a=1,b=2],hlo_op=dot.1#", start, 50, id + 2, id + 1, tid=tid),
        projected("TSL:Thunk:#name=add,hlo_op=fusion.1,unique_hlo_op_id=3#", start + 60, 40, id + 3, id, tid=tid),
    ]


def test_projected_ranges_are_the_deepest_instructions_in_the_deepest_module() -> None:
    rows = [(None, 5, 9, None, None, None, 1, 2, 164, None, 0, None, None, None), *execution(1000, 1)]
    trace = read_trace_bytes(table(PROJECTION, rows, PREAMBLE), "t.csv")
    both = {"hlo_module": "jit_f", "program_id": 7, "run_id": 0}
    assert events_of(trace) == [
        ("/device:GPU:0", "Stream #0", "dot.1", 1000, 50, {**both, "hlo_op": "dot.1", "name": "dot_general[a=1,b=2]"}),
        (
            "/device:GPU:0",
            "Stream #0",
            "fusion.1",
            1060,
            40,
            {**both, "hlo_op": "fusion.1", "name": "add", "unique_hlo_op_id": 3},
        ),
    ]
    assert trace.format == "Nsight Systems"


def test_each_launching_thread_is_a_device_and_executions_have_numbers() -> None:
    rows = [row for tid in (90, 8) for start in (1000, 2000) for row in execution(start, tid * 10 + start, tid=tid)]
    found = events_of(read_trace_bytes(table(PROJECTION, rows), "t.csv"))
    assert [(plane, start, own["run_id"]) for plane, _, _, start, _, own in found] == [
        (f"/device:GPU:{device}", start, run) for device in (0, 1) for start, run in ((1000, 0), (1060, 0), (2000, 1), (2060, 1))
    ]  # fmt: skip


def test_autotuning_truncated_executions_and_ranges_outside_of_modules_are_left_out() -> None:
    rows = [row for at in range(3) for row in execution(at * 1000, at * 10 + 1)]
    rows += execution(5000, 91, operations=1)
    rows += [projected("TSL:XlaModule:#hlo_module=g#", 1, 2, 201), projected("TSL:Thunk:#hlo_op=a#", 1, 2, 202, 201)]
    rows += [projected("TSL:Thunk:#hlo_op=b#", 1, 2, 302, 999)]
    trace = read_trace_bytes(table(PROJECTION, rows), "t.csv")
    assert len(events_of(trace)) == 6
    assert trace.notes == (
        "omitted 1 range outside of any module",
        "omitted 1 range of autotuning",
        "omitted 1 execution truncated by the end of the capture",
    )


def test_repeated_range_ids_are_told_apart_by_time() -> None:
    other = [(*row[:11], *(f"{cell}" for cell in row[11:])) for row in execution(9000, 1)]
    found = events_of(read_trace_bytes(table(PROJECTION, [*execution(1000, 1), *other]), "t.csv"))
    assert [(start, own["run_id"]) for _, _, _, start, _, own in found] == [(1000, 0), (1060, 0), (9000, 1), (9060, 1)]


def test_an_instruction_may_run_on_after_its_module() -> None:
    rows = [projected(f"TSL:{MODULE}", 1000, 10, 1), projected("TSL:Thunk:#hlo_op=all-reduce-start#", 1005, 90, 2, 1)]
    ((_, _, name, begin, duration, own),) = events_of(read_trace_bytes(table(PROJECTION, rows), "t.csv"))
    assert (name, begin, duration, own["program_id"]) == ("all-reduce-start", 1005, 90, 7)


def test_steps_and_other_units() -> None:
    header = PROJECTION.replace("(ns)", "(ms)")
    rows = [("TSL:train#_r=1,step_num=4#", "1.5", "0.25", 1, 2, "PushPop", 1, 7, 9, 0, 0, 50, "", ":50")]
    step = {"_r": 1, "step_num": 4}
    assert events_of(read_trace_bytes(table(header, rows), "t.csv")) == [
        ("/host:CPU", "thread 7", "train", 1_500_000, 250_000, step)
    ]


def test_kernels_of_nsys() -> None:
    header = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
        "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
    )
    row = (
        500,
        100,
        40,
        *[1] * 6,
        36,
        0.0,
        0.0,
        "",
        "",
        "",
        "",
        "NVIDIA GeForce RTX 3090 (1)",
        1,
        "",
        7,
        "f<a, b>(int)",
    )
    odd = (900, 100, "-", *row[3:16], "unknown", 1, "", "?", "g")
    assert events_of(read_trace_bytes(table(header, [row, odd]), "t.csv")) == [
        ("/device:GPU:0", "Stream #0", "g", 900, 100, {}),
        ("/device:GPU:1", "Stream #7", "f<a, b>(int)", 500, 100, {"correlation_id": 40}),
    ]


ROCPROF = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Workgroup_Size_X","Grid_Size_X"'
)
OLD_ROCPROF = (
    '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"'
)


@pytest.mark.parametrize(
    ("header", "row", "stream"),
    [
        (ROCPROF, ("KERNEL_DISPATCH", "Agent 7", 1, 3, 9, 1, 13, "loop_add.kd", 5, 100, 350, 0, 0, 8, 64, 1024), 3),
        (OLD_ROCPROF, ("KERNEL_DISPATCH", 7, 3, 13, "loop_add.kd", 5, 100, 350), 3),
        (
            '"Guid",' + ROCPROF.replace("LDS_", "Lds_"),
            ("0-1", "KERNEL_DISPATCH", "Agent 7", 1, 3, 9, 1, 13, "loop_add.kd", 5, 100, 350, 0, 0, 8, 64, 1024),
            3,
        ),
    ],
)
def test_kernels_of_rocprof_in_three_versions(header: str, row: Sequence[object], stream: int) -> None:
    other = ("MEMORY_COPY", *row[1:]) if row[0] == "KERNEL_DISPATCH" else (row[0], "MEMORY_COPY", *row[2:])
    ((plane, line, name, begin, duration, own),) = events_of(read_trace_bytes(table(header, [row, other]), "t.csv"))
    assert (plane, line, name, begin, duration) == ("/device:GPU:7", f"Stream #{stream}", "loop_add.kd", 100, 250)
    assert (own["correlation_id"], own["kernel_id"]) == (5, 13)


@pytest.mark.parametrize("times", [(350, 100), ("", 100), (100, "x")])
def test_kernels_without_valid_times_are_counted(times: tuple[object, object]) -> None:
    rows = [("KERNEL_DISPATCH", 7, 3, 13, "a", 5, *each) for each in ((100, 350), times)]
    trace = read_trace_bytes(table(OLD_ROCPROF, rows), "t.csv")
    assert len(events_of(trace)) == 1
    assert trace.notes == ("omitted 1 row of t.csv without a valid time",)


def test_sums_of_rocprof_have_no_times() -> None:
    header = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"'
    trace = read_trace_bytes(table(header, [("loop_add", 12, 2400, 200.0, 50.1), ("x", "?", 1, 1, 1)]), "t.csv")
    events = trace.planes[0].lines[0].events
    assert (events.occurrences.tolist(), events.durations_ps.tolist()) == ([12], [2_400_000])
    assert trace.notes == ("omitted 1 row of t.csv without a valid time",)


PID = 77 << 24
STRINGS = {1: "gemm_fusion_dot", 2: "void copy<float>()", 3: f"TSL:{MODULE}", 4: "Thunk:#hlo_op=while.1#"}
SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, textId INTEGER,
  globalTid INTEGER, domainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, graphNodeId INTEGER);
"""


def database(path: Path, *, nodes: bool = False) -> Path:
    """A module with a loop around a product; a kernel of an autotuned module; one without any range."""
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA)
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", STRINGS.items())
        thread = PID | 5
        ranges = [
            (0, 1000, 59, None, 3, thread, 1),
            (100, 500, 59, None, 4, thread, 1),
            (200, 300, 59, "Thunk:#name=dot,hlo_op=dot.1#", None, thread, 1),
            (2000, 2100, 59, "XlaModule:#hlo_module=autotune#", None, thread, 1),
            (3000, 3500, 59, "train#_r=1,step_num=2#", None, thread, 0),
            (220, 230, 59, "Thunk:#hlo_op=other_thread#", None, PID | 6, 1),
        ]
        connection.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?)", ranges)
        launches = [(at, at + 1, thread, number, 9) for number, at in enumerate((250, 400, 700, 2050, 5000), 1)]
        connection.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", launches)
        kernels: list[tuple[int | None, ...]] = [
            (9000 + 100 * n, 9050 + 100 * n, 0, 1, 7, n, PID, 1, 1, None) for n in range(1, 6)
        ]
        kernels.append((9900, 9910, 0, 1, 7, 1, 99 << 24, 2, 2, None))  # another process: not the same launch
        if nodes:
            kernels.append((9920, 9930, 0, 1, 7, 3, PID, 2, 2, 41))
            connection.execute(
                "CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, graphNodeId INTEGER,"
                " originalGraphNodeId INTEGER)"
            )
            made = [(260, 261, thread, 40, None), (600, 601, thread, 41, 40)]
            connection.executemany("INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (?, ?, ?, ?, ?)", made)
        insert = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        connection.executemany(insert, kernels)
    connection.close()
    return path


def test_kernels_of_a_database_belong_to_the_innermost_range_of_their_launch(tmp_path: Path) -> None:
    path = database(tmp_path / "t.sqlite")
    trace = read_path(path)
    module = {"hlo_module": "jit_f", "program_id": 7}
    found = events_of(trace)
    assert found[0] == ("/host:CPU", "thread 5", "train", 3000, 500, {"_r": 1, "step_num": 2})
    assert [(line, name, start, own) for _, line, name, start, _, own in found[1:]] == [
        ("Stream #7", "gemm_fusion_dot", 9100, {"correlation_id": 1, **module, "hlo_op": "dot.1", "name": "dot"}),
        ("Stream #7", "gemm_fusion_dot", 9200, {"correlation_id": 2, **module, "hlo_op": "while.1"}),
        ("Stream #7", "gemm_fusion_dot", 9300, {"correlation_id": 3, **module}),
        ("Stream #7", "gemm_fusion_dot", 9500, {"correlation_id": 5}),
        ("Stream #7", "void copy<float>()", 9900, {"correlation_id": 1}),
    ]
    assert trace.notes == ("omitted 1 kernel of autotuning",)
    assert events_of(read_trace_bytes(path.read_bytes(), "t")) == found


def test_kernels_of_a_graph_belong_to_the_range_in_which_their_node_was_made(tmp_path: Path) -> None:
    (found,) = [each for each in events_of(read_path(database(tmp_path / "t.sqlite", nodes=True))) if each[3] == 9920]
    assert (found[5]["hlo_op"], found[5]["cuda_graph_node_id"], found[5]["program_id"]) == ("dot.1", 41, 7)


def test_a_whole_graph_is_one_event(tmp_path: Path) -> None:
    path = database(tmp_path / "t.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, graphId INTEGER,"
            " graphExecId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER)"
        )
        connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (9940, 9990, 0, 3, 12, 7, 1, {PID})")
    connection.close()
    (found,) = [each for each in events_of(read_path(path)) if each[3] == 9940]
    assert found[2] == "CudaGraphExec:12"
    assert (found[5]["hlo_op"], found[5]["cuda_graph_exec_id"]) == ("dot.1", 12)


@pytest.mark.parametrize("table", ["StringIds", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"])
def test_missing_tables_are_done_without(tmp_path: Path, table: str) -> None:
    path = database(tmp_path / "t.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    assert len([each for each in events_of(read_path(path)) if each[0] == "/device:GPU:0"]) >= 4


def test_launches_agree_with_a_search_through_all_ranges(tmp_path: Path) -> None:
    """Random nested ranges in two threads; the innermost is found by trying all."""
    random = Random(1)
    ranges: list[tuple[int, int, int, str, None, int, int]] = []

    def nest(low: int, high: int, thread: int, depth: int) -> None:
        while high - low > 20 and random.random() < 0.9:
            start = random.randrange(low, high - 10)
            end = random.randrange(start + 5, high)
            text = MODULE if depth == 0 else f"Thunk:#hlo_op=op.{len(ranges)}#"
            ranges.append((start, end, 59, text, None, thread, 1))
            if depth < 5:
                nest(start + 1, end - 1, thread, depth + 1)
            low = end + 1

    for thread in (PID | 1, PID | 2):
        nest(0, 20_000, thread, 0)
    points = [(random.randrange(20_000), PID | random.choice((1, 2))) for _ in range(500)]
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?)", random.sample(ranges, len(ranges))
        )
        launches = [(time, time, thread, number, 9) for number, (time, thread) in enumerate(points)]
        connection.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", launches)
        kernels = [(at, at + 1, 0, 1, 7, at, PID, 1, 1, None) for at in range(len(points))]
        insert = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        connection.executemany(insert, kernels)
    connection.close()
    found = {own["correlation_id"]: own.get("hlo_op") for *_, own in events_of(read_path(tmp_path / "t.sqlite"))}
    for number, (time, thread) in enumerate(points):
        around = [each for each in ranges if each[5] == thread and each[0] <= time <= each[1]]
        innermost = max(around, default=None)
        op = innermost[3].partition("hlo_op=")[2].rstrip("#") if innermost else ""
        assert found[number] == (op or None)


def test_hostile_databases_have_a_bounded_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = database(tmp_path / "t.sqlite").read_bytes()
    random = Random(2)
    for seed in range(60):
        data = bytearray(whole[: random.randrange(len(whole))] if seed % 2 else whole)
        for _ in range(random.randrange(30)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            events_of(read_trace_bytes(bytes(data), "t"))
        except HloError:
            continue
    endless = tmp_path / "endless.sqlite"
    with sqlite3.connect(endless) as connection:
        connection.execute(
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM c)"
            " SELECT start, 1 AS globalTid FROM c"
        )
    connection.close()
    with pytest.raises(HloError, match="not a database of Nsight Systems"):
        read_path(endless)
    monkeypatch.setattr(databases, "MAX_STEPS", 10)
    monkeypatch.setattr(databases, "_STEPS_AT_ONCE", 10)
    with pytest.raises(HloError, match="interrupted"):
        read_trace_bytes(whole, "t")


def test_nothing_is_written_next_to_a_database(tmp_path: Path) -> None:
    path = database(tmp_path / "a?b#.sqlite")
    before = path.stat()
    read_path(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("data", [table(PROJECTION, []), table(ROCPROF, []), b"SQLite format 3\0" + bytes(100)])
def test_tables_without_kernels_are_an_error(data: bytes) -> None:
    with pytest.raises(HloError):
        read_trace_bytes(data, "t")


@pytest.mark.parametrize("seed", range(20))
def test_damaged_tables_are_read_or_an_error(seed: int) -> None:
    random = Random(seed)
    data = bytearray(
        table(PROJECTION, execution(1000, 1), PREAMBLE) if seed % 2 else table(ROCPROF, [["a,b"] * 16] * 9)
    )
    for _ in range(20):
        data[random.randrange(len(data))] = random.choice(b'",\n\r\0\xff1z')
    try:
        events_of(read_trace_bytes(bytes(data), "t"))
    except HloError:
        return
