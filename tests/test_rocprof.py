"""Databases and JSON of rocprofv3: kernels, copies, and devices; the same times in each form; damage has an error."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hlo_cli import HloError, Profile, parse_module, profile
from hlo_cli.read_traces import find_traces, read_trace

SUFFIX = "_0000c1a2_4711_5be3_9d2e_a1b2c3d4e5f6"
AGENTS = ((1, "CPU", 0, "EPYC", ""), (2, "GPU", 0, "gfx942", "AMD Instinct MI300X"), (3, "GPU", 1, "gfx942", ""))
KERNELS = {1: "loop_add_fusion.kd", 2: "Cijk_Ailk_Bljk"}
DISPATCHES = (
    # agent, kernel, stream, start, end
    (2, 1, 1, 1_000, 5_000),
    (2, 2, 2, 4_000, 9_000),
    (3, 1, 1, 2_000, 5_500),
    (2, 1, 1, 20_000, 24_000),
)
COPIES = ((1, 2, 500, 900, "MEMORY_COPY_HOST_TO_DEVICE"), (3, 1, 6_000, 7_000, "MEMORY_COPY_DEVICE_TO_HOST"))
DUMP = """HloModule jit_f, is_scheduled=true
body { p = f32[256] parameter(0)  ROOT n = f32[256] add(p, p) }
ENTRY e { a = f32[256] parameter(0)  ROOT loop_add_fusion = f32[256] fusion(a), kind=kLoop, calls=body }
"""


def rocpd(path: Path, suffix: str = SUFFIX) -> Path:
    """A database with tables as rocprofiler-sdk makes them: each has a suffix, and a view without it."""
    connection = sqlite3.connect(path)
    tables = {
        "rocpd_info_agent": "id, guid, nid, pid, type, absolute_index, type_index, name, product_name, extdata",
        "rocpd_info_kernel_symbol": "id, guid, nid, pid, code_object_id, kernel_name, display_name",
        "rocpd_string": "id, guid, string",
        "rocpd_kernel_dispatch": "id, guid, nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, "
        "end, event_id",
        "rocpd_memory_copy": "id, guid, nid, pid, tid, start, end, name_id, dst_agent_id, src_agent_id, size, stream_id",
    }
    for name, columns in tables.items():
        listed = ", ".join(f'"{column}"' for column in columns.split(", "))
        connection.execute(f'CREATE TABLE "{name}{suffix}" ({listed})')
        connection.execute(f'CREATE VIEW "{name}_view" AS SELECT * FROM "{name}{suffix}"')

    def insert(table: str, *values: object) -> None:
        connection.execute(f'INSERT INTO "{table}{suffix}" VALUES ({", ".join("?" * len(values))})', values)

    for id, kind, index, name, product in AGENTS:
        facts = json.dumps({"cu_count": 304} if kind == "GPU" else {})
        insert("rocpd_info_agent", id, "g", 1, 1, kind, id, index, name, product, facts)
    for id, name in KERNELS.items():
        insert("rocpd_info_kernel_symbol", id, "g", 1, 1, 1, name, name.removesuffix(".kd"))
    for number, (agent, kernel, stream, start, end) in enumerate(DISPATCHES):
        insert("rocpd_kernel_dispatch", number, "g", 1, 1, 1, agent, kernel, number, 1, stream, start, end, number)
    for number, (source, target, start, end, name) in enumerate(COPIES):
        insert("rocpd_string", number, "g", name)
        insert("rocpd_memory_copy", number, "g", 1, 1, 1, start, end, number, target, source, 64, 3)
    connection.commit()
    connection.close()
    return path


def in_json(path: Path) -> Path:
    """The same recording as `--output-format json` has it."""

    def handle(number: int) -> dict[str, int]:
        return {"handle": number}

    tool = {
        "metadata": {"pid": 1},
        "agents": [
            {"id": handle(id), "type": 2 if kind == "GPU" else 1, "logical_node_type_id": index, "name": name,
             "product_name": product, "cu_count": 304 if kind == "GPU" else 0}
            for id, kind, index, name, product in AGENTS
        ],
        "kernel_symbols": [
            {"kernel_id": id, "kernel_name": name, "formatted_kernel_name": name.removesuffix(".kd")}
            for id, name in KERNELS.items()
        ],
        "buffer_records": {
            "kernel_dispatch": [
                {"start_timestamp": start, "end_timestamp": end, "stream_id": handle(stream),
                 "dispatch_info": {"agent_id": handle(agent), "queue_id": handle(1), "kernel_id": kernel}}
                for agent, kernel, stream, start, end in DISPATCHES
            ],
            "memory_copy": [
                {"start_timestamp": start, "end_timestamp": end, "stream_id": handle(3), "src_agent_id": handle(source),
                 "dst_agent_id": handle(target)}
                for source, target, start, end, _ in COPIES
            ],
        },
    }  # fmt: skip
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [tool]}))
    return path


def rows_of(found: Profile) -> list[tuple[str, str, int, int]]:
    rows = found.occurrences
    return sorted(
        (found.devices[device], found.operations[code].name, begin // 1000, length // 1000)
        for device, code, begin, length in zip(
            rows.devices.tolist(),
            found.codes.tolist(),
            rows.begins_ps.tolist(),
            rows.durations_ps.tolist(),
            strict=True,
        )
    )


EXPECTED = [
    ("GPU:0", "Cijk_Ailk_Bljk", 4_000, 5_000),
    ("GPU:0", "MemcpyH2D", 500, 400),
    ("GPU:0", "loop_add_fusion", 1_000, 4_000),
    ("GPU:0", "loop_add_fusion", 20_000, 4_000),
    ("GPU:1", "MemcpyD2H", 6_000, 1_000),
    ("GPU:1", "loop_add_fusion", 2_000, 3_500),
]


@pytest.mark.parametrize("suffix", [SUFFIX, ""])
def test_a_database_has_its_kernels_and_copies(suffix: str, tmp_path: Path) -> None:
    found = profile(rocpd(tmp_path / "1_results.db", suffix))
    assert rows_of(found) == EXPECTED
    assert found.device_type == "AMD Instinct MI300X"
    assert found.peaks is not None
    assert found.peaks.chip == "mi300x"


def test_json_has_the_same(tmp_path: Path) -> None:
    found = profile(in_json(tmp_path / "1_results.json"))
    assert rows_of(found) == EXPECTED
    assert found.peaks is not None
    assert found.peaks.chip == "mi300x"


def test_kernels_are_joined_to_a_dump_by_name(tmp_path: Path) -> None:
    found = profile(rocpd(tmp_path / "1_results.db"), parse_module(DUMP))
    joined = {each.name: each.is_joined for each in found.operations}
    assert joined == {"loop_add_fusion": True, "Cijk_Ailk_Bljk": False, "MemcpyH2D": False, "MemcpyD2H": False}


def test_a_folder_has_a_file_for_each_process(tmp_path: Path) -> None:
    for process in (11, 12):
        rocpd(tmp_path / f"{process}_results.db")
    assert [Path(path).name for path in find_traces(str(tmp_path)).paths] == ["11_results.db", "12_results.db"]
    assert len(profile(tmp_path).devices) == 4


@pytest.mark.parametrize("seed", range(12))
def test_damage_is_an_error_or_is_read(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    write = rocpd if seed % 2 else in_json
    path = write(tmp_path / ("1_results.db" if seed % 2 else "1_results.json"))
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 20))):
        data[random.randrange(100, len(data))] = random.randrange(256)
    path.write_bytes(data[: random.choice((len(data), random.randrange(200, len(data))))])
    try:
        trace = read_trace(path)
    except HloError:
        return
    assert trace.planes


def test_a_database_of_neither_profiler_says_what_is_read(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE other (id)")
    connection.close()
    with pytest.raises(HloError, match="not a database of Nsight Systems or rocprofv3"):
        read_trace(tmp_path / "t.db")


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The recording in JSON, after a change of its tool."""
    content = json.loads(in_json(path).read_text())
    change(content["rocprofiler-sdk-tool"][0])
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("id", [[1], {"a": 1}, {"handle": [1]}])
def test_ids_that_are_no_numbers_name_nothing(id: object, tmp_path: Path) -> None:
    path = changed(tmp_path / "1_results.json", lambda tool: tool["kernel_symbols"][0].update(kernel_id=id))
    assert {name for _, name, _, _ in rows_of(profile(path))} >= {"Cijk_Ailk_Bljk", "MemcpyH2D"}

    def change(tool: dict[str, Any]) -> None:
        for each in tool["buffer_records"]["kernel_dispatch"]:
            each["dispatch_info"]["kernel_id"] = id

    assert len(rows_of(profile(changed(path, change)))) == len(EXPECTED)


def test_kernels_without_a_valid_time_are_counted(tmp_path: Path) -> None:
    def change(tool: dict[str, Any]) -> None:
        tool["buffer_records"]["memory_copy"] = []
        for each in tool["buffer_records"]["kernel_dispatch"]:
            each["end_timestamp"] = each["start_timestamp"] - 1

    with pytest.raises(HloError, match="no kernels with a valid time: 4 rows without one"):
        read_trace(changed(tmp_path / "1_results.json", change))


def test_an_agent_that_is_a_cpu_is_not_a_gpu(tmp_path: Path) -> None:
    def change(tool: dict[str, Any]) -> None:
        tool["buffer_records"]["kernel_dispatch"][0]["dispatch_info"]["agent_id"]["handle"] = 1

    trace = read_trace(changed(tmp_path / "1_results.json", change))
    assert [plane.name for plane in trace.planes] == ["/device:GPU:0", "/device:GPU:1"]
    assert trace.event_count == len(EXPECTED) - 1
    assert any("agents that are not GPUs" in note for note in trace.notes)


def test_truncated_json_has_the_kernels_before_the_end(tmp_path: Path) -> None:
    path = in_json(tmp_path / "1_results.json")
    text = path.read_text()
    place = text.index('"start_timestamp": 20000')
    path.write_text(text[: place - 1])
    trace = read_trace(path)
    assert trace.event_count == 3
    assert any("is truncated or corrupt JSON" in note for note in trace.notes)
    path.write_text(text[: text.index('"kernel_dispatch"')])
    with pytest.raises(HloError, match=r"contains no kernels .*is truncated or corrupt JSON"):
        read_trace(path)


def test_each_beginning_of_json_is_read_or_is_an_error(tmp_path: Path) -> None:
    path = in_json(tmp_path / "1_results.json")
    text = path.read_text()
    counts = []
    for end in range(30, len(text), 37):
        path.write_text(text[:end])
        try:
            counts.append(read_trace(path).event_count)
        except HloError:
            assert not counts, "what was read of a shorter text is in a longer one"
    assert counts == sorted(counts)
    assert counts[-1] > 0
