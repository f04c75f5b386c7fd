"""The peak of XProf's memory viewer: XProf's own answers, laws of the trace, and what the command shows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from random import Random

import pytest

import in_process
from dumps import FIXTURES
from hlo_cli.analysis.memory.memory_analysis import viewer_peaks
from hlo_cli.ir.buffer_assignment import (
    AssignedBuffer,
    BufferAllocation,
    BufferAssignment,
    BufferPlace,
    EventKind,
    HeapEvent,
    HeapSimulatorTrace,
    LogicalBuffer,
)
from hlo_cli.source import Source
from hlo_cli.syntax.proto.read_buffers import assignment_in
from hlo_cli.syntax.proto.read_module import read_proto

ANSWERS = FIXTURES / "memory_viewer.csv"
"""What XProf answers; `fixtures/memory_viewer.py` asks it."""


def _answers() -> dict[str, dict[int, dict[str, int]]]:
    found: dict[str, dict[int, dict[str, int]]] = {}
    with ANSWERS.open() as file:
        for row in csv.DictReader(file):
            proto, color = row.pop("proto"), int(row.pop("color"))
            found.setdefault(proto, {})[color] = {name: int(value) for name, value in row.items()}
    return found


@pytest.mark.parametrize("proto", sorted(_answers()))
def test_every_number_is_that_of_the_viewer(proto: str) -> None:
    module = read_proto((FIXTURES / proto).read_bytes(), Source(proto, ""))
    assert module.buffer_assignment is not None
    found = {peak.color: peak for peak in viewer_peaks(module.buffer_assignment)}
    for color, answer in _answers()[proto].items():
        assert {name: getattr(found[color], name) for name in answer} == answer
    others = (peak for color, peak in found.items() if color not in _answers()[proto])
    assert not any(peak.peak_bytes or peak.total_bytes for peak in others)


@pytest.mark.parametrize("proto", sorted(_answers()))
def test_without_the_module_all_but_unpadded_sizes_are_known(proto: str) -> None:
    data = (FIXTURES / proto).read_bytes()
    module, alone = read_proto(data, Source(proto, "")), assignment_in(data)
    assert module.buffer_assignment is not None
    assert alone is not None
    assert [
        (each.color, each.peak_bytes, each.total_bytes, each.always_bytes, each.position)
        for each in viewer_peaks(alone)
    ] == [
        (each.color, each.peak_bytes, each.total_bytes, each.always_bytes, each.position)
        for each in viewer_peaks(module.buffer_assignment)
    ]


def test_the_peak_of_random_traces_is_the_sum_of_what_is_held() -> None:
    random = Random(5)
    for _ in range(50):
        sizes = [random.randrange(100) for _ in range(12)]
        held, sums, events = set[int](), [0], list[tuple[EventKind, int, int | None]]()
        for number in random.sample(range(12), 12):
            while held and random.random() < 0.4:
                held.remove(gone := random.choice(sorted(held)))
                events.append(("FREE", gone, None))
            held.add(number)
            events.append(("ALLOC", number, None))
            sums.append(sum(sizes[each] for each in held))
        [peak] = viewer_peaks(_assignment(sizes, events))
        assert peak.peak_bytes == max(sums)
        assert sum(buffer.size_bytes for buffer in peak.live) == max(sums)


def test_shared_memory_counts_once_until_its_last_user_frees_it() -> None:
    events: list[tuple[EventKind, int, int | None]] = [("ALLOC", 0, None), ("SHARE_WITH", 1, 0), ("FREE", 0, None)]
    [peak] = viewer_peaks(_assignment([8, 8, 4], [*events, ("ALLOC", 2, None)]))
    assert (peak.peak_bytes, peak.position) == (12, 3)
    [peak] = viewer_peaks(_assignment([8, 8, 4], [*events, ("FREE", 1, None), ("ALLOC", 2, None)]))
    assert (peak.peak_bytes, peak.position) == (8, 0)


@pytest.mark.parametrize(
    "events",
    [
        [("FREE", 0, None)],
        [("ALLOC", 0, None), ("FREE", 0, None), ("FREE", 0, None)],
    ],
)
def test_a_trace_that_contradicts_itself_has_no_peak(events: list[tuple[EventKind, int, int | None]]) -> None:
    assert viewer_peaks(_assignment([8], events)) == ()


def test_long_chains_and_circles_of_shared_memory_take_linear_time() -> None:
    count = 10_000
    chain: list[tuple[EventKind, int, int | None]] = [("ALLOC", 0, None)]
    chain += [("SHARE_WITH", number, number - 1) for number in range(1, count)]
    [peak] = viewer_peaks(_assignment([8] * count, chain))
    assert peak.peak_bytes == 8
    circle: list[tuple[EventKind, int, int | None]] = [("SHARE_WITH", 0, 1), ("SHARE_WITH", 1, 0), ("SHARE_WITH", 1, 1)]
    assert viewer_peaks(_assignment([8, 8], circle))


def _assignment(sizes: list[int], events: list[tuple[EventKind, int, int | None]]) -> BufferAssignment:
    buffers = tuple(LogicalBuffer(number, size, 0, BufferPlace(None)) for number, size in enumerate(sizes))
    assigned = tuple(AssignedBuffer(buffer.id, 0, buffer.size_bytes) for buffer in buffers)
    trace = tuple(HeapEvent(kind, number, "e", "i", other) for kind, number, other in events)
    return BufferAssignment(
        buffers,
        (BufferAllocation(0, sum(sizes), 0, assigned),),
        heap_simulator_traces=(HeapSimulatorTrace(trace, whole_module_simulation=True, buffer_allocation_index=0),),
    )


@pytest.mark.parametrize("dump", ["tpu/v5e_conv/after_optimizations.hlo.pb", "tpu/v5e_conv"])
def test_the_command_reports_both_peaks_from_the_proto_and_next_to_it(dump: str) -> None:
    answer = _answers()["tpu/v5e_conv/after_optimizations.hlo.pb"]
    shown, notes = _memspace(FIXTURES / dump)
    numbers = json.loads(shown)["answer"]
    assert numbers["peak_counts"] == "live values"
    assert list(numbers["xprof_peak_bytes"].values()) == [answer[color]["peak_bytes"] for color in (0, 1, 2)]
    more = answer[0]["peak_bytes"] - numbers["peak_bytes"]["HBM"]
    assert more == 15 * 1024
    assert "it counts all arguments, results, and constants" in notes
    assert "199.8 MiB of HBM (15 KiB more)" in notes


def test_without_a_proto_only_the_live_peak_is_reported(tmp_path: Path) -> None:
    text = tmp_path / "after_optimizations.txt"
    text.write_text((FIXTURES / "tpu/v5e_conv/after_optimizations.txt").read_text())
    shown, notes = _memspace(text)
    numbers = json.loads(shown)["answer"]
    assert numbers["peak_counts"] == "live values"
    assert "xprof_peak_bytes" not in numbers
    assert "XProf" not in notes


def test_a_damaged_proto_next_to_a_text_is_ignored(tmp_path: Path) -> None:
    text = tmp_path / "after_optimizations.txt"
    text.write_text((FIXTURES / "tpu/v5e_conv/after_optimizations.txt").read_text())
    proto = (FIXTURES / "tpu/v5e_conv/after_optimizations.hlo.pb").read_bytes()
    (tmp_path / "after_optimizations.hlo.pb").write_bytes(proto[: len(proto) - 100])
    assert "xprof_peak_bytes" not in json.loads(_memspace(text)[0])["answer"]


def _memspace(dump: Path) -> tuple[str, str]:
    """What the command writes to standard output and standard error."""
    shown, notes, code = in_process.run(["memspace", str(dump), "--format", "json"], folder=FIXTURES, settings={})
    assert code == 0, notes
    return shown, notes
