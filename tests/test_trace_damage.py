"""Damaged traces: what is whole before the damage is read, with a note, or an HloError says where the damage is."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path
from random import Random

import pytest

import hlo_cli
from damaging_traces import damaged_trace, look_at_all
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import HloError
from hlo_cli.syntax.traces import xplane, xplane_columns
from hlo_cli.syntax.traces.xplane import MAX_LINES
from strategies import FIXTURES
from xspaces import entry, field, message, plane, statistic, varint

SMALL = (FIXTURES / "traces/cpu/trace.xplane.pb").read_bytes()


@pytest.mark.parametrize("step", [41, pytest.param(3, marks=pytest.mark.slow)])
def test_a_file_truncated_anywhere_is_read_up_to_the_cut(step: int) -> None:
    cuts = range(0, len(SMALL), step)
    traces = [look_at_all(SMALL[:cut]) for cut in cuts]
    assert sum(trace is not None and len(trace.notes) == 1 for trace in traces) > len(cuts) // 2


def test_whole_planes_before_the_cut_are_kept() -> None:
    whole = plane("/device:TPU:0", [message((4, message((1, 1))))], [entry(1, (2, "a"))], [])
    cut = plane("/device:TPU:1", [message((4, message((1, 1))))], [entry(1, (2, "a"))], [])
    trace = read_trace_bytes(whole + cut[:-1], "t")
    assert [each.name for each in trace.planes] == ["/device:TPU:0"]
    (note,) = trace.notes
    assert re.fullmatch(
        r"t is truncated at byte \d+; plane /device:TPU:1 is omitted: the names of its 1 event are missing", note
    )
    for rest in (whole[:1], whole[:2] + b"\xff", b"\x0b"):
        trace = read_trace_bytes(whole + cut + rest, "t")
        assert (len(trace.planes), len(trace.notes)) == (2, 1)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_an_error_with_a_place_or_is_read(seed: int) -> None:
    look_at_all(damaged_trace(Random(seed)))


HOSTILE = {
    "zeros": bytes(1 << 20),
    "a length beyond the end": b"\x0a" + varint(1 << 62) + SMALL,
    "the largest length": b"\x0a" + varint((1 << 64) - 1) + b"\x12\x01a",
    "an endless varint": b"\x0a" + b"\xff" * 100_000,
    "groups": b"\x0b" * 100_000 + b"\x0c" * 100_000,
    "the end of a group": b"\x0c" * 10,
    "groups in an event": plane("/device:GPU:0", [field(4, b"\x4b" * 1000)], [], []),
    "fields of no number": plane("/device:GPU:0", [field(4, b"\0\0\0")], [], []),
    "a wrong wire type": plane("/device:GPU:0", [field(4, b"\x0f\x01")], [], []),
    "many statistics in one event": plane("/d", [field(4, field(4, b"\x08\1\x20\1") * 100_000)], [], ["a"]),
    "many texts": field(2, "") * 100_000,
    "many numbers in a line": field(1, field(3, b"\x08\1" * 100_000)),
    "many fields in some events": plane("/d", [field(4, b"\x08\1" * 3000) * 40], [], []),
    "many empty events": plane("/d", [field(4, b"") * 50_000], [], []),
    "many empty planes": field(1, b"") * 4000,
    "many empty lines": field(1, field(3, b"") * 4000),
    "many kinds": plane("/d", [], [entry(at, (2, "")) for at in range(9000)], []),
    "one text in many statistics": plane("/d", [field(4, field(4, message((1, 1), (5, "x" * 99)))) * 9000], [], ["a"]),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_have_a_bounded_answer(name: str) -> None:
    look_at_all(HOSTILE[name])


@pytest.mark.slow
def test_there_is_a_limit_for_planes_and_lines() -> None:
    whole = plane("/device:TPU:0", [message((4, message((1, 1))))], [entry(1, (2, "a"))], [])
    trace = read_trace_bytes(whole + field(1, b"") * 200_000, "t")
    assert len(trace.planes) == MAX_LINES - 1  # one of them has a line
    assert "is corrupt at byte" in trace.notes[0]


def test_there_is_a_limit_for_the_fields_of_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xplane_columns, "MAX_FIELDS", 100)
    (line,) = read_trace_bytes(plane("/d", [field(4, b"\x08\1" * 200)], [], []), "t").planes[0].lines
    with pytest.raises(HloError, match="corrupt profiler trace"):
        _ = line.events
    monkeypatch.setattr(xplane, "MAX_EVENTS", 100)
    with pytest.raises(HloError, match="corrupt profiler trace"):
        read_trace_bytes(plane("/d", [field(4, b"") * 3_000_000], [], []), "t")


def test_a_damaged_event_has_its_place() -> None:
    bad = message((4, message((1, 1)))) + field(4, b"\x08")
    data = plane("/device:GPU:0", [bad], [entry(1, (2, "a"))], [])
    (line,) = read_trace_bytes(data, "t").planes[0].lines
    with pytest.raises(HloError, match=r"t is a truncated profiler trace \(at byte \d+\)"):
        _ = line.events


def test_texts_that_are_not_utf8_and_escapes_are_kept() -> None:
    kinds = [entry(1, (2, b"\xff\x1b[31m"), (5, statistic(1, 5, b"\xfe")))]
    trace = read_trace_bytes(plane("/device:GPU:0", [], kinds, ["hlo_op"]), "t")
    (kind,) = trace.planes[0].kinds.values()
    assert (kind.name, kind.statistics) == ("\ufffd\x1b[31m", {"hlo_op": "\ufffd"})


def test_gzip_is_not_a_trace_yet() -> None:
    with pytest.raises(HloError):
        read_trace_bytes(gzip.compress(SMALL), "t")
    with pytest.raises(HloError, match="empty"):
        read_trace_bytes(b"", "t")


@pytest.mark.parametrize("part", [0.0, 0.02, 0.3, 0.6, 0.9, 0.96, 0.97, 0.98, 0.99])
def test_events_of_a_truncated_file_are_those_in_json_next_to_it(part: float, tmp_path: Path) -> None:
    """The names follow all events of a plane, so that a cut loses them all; JAX writes the same events as JSON."""
    folder = FIXTURES / "traces/cpu_steps"
    data = (folder / "trace.xplane.pb").read_bytes()
    (tmp_path / "trace.xplane.pb").write_bytes(data[: int(part * len(data))])
    if part < 0.98:  # later, the names of operations are there, but not those of all their statistics
        with pytest.raises(HloError):
            hlo_cli.profile(tmp_path / "trace.xplane.pb")
    shutil.copy(folder / "trace.json.gz", tmp_path / "trace.trace.json.gz")
    whole, cut = hlo_cli.profile(folder / "trace.xplane.pb"), hlo_cli.profile(tmp_path)
    assert cut.busy_ps == whole.busy_ps
    assert [step.name for step in cut.steps] == [step.name for step in whole.steps]
    assert any("truncated" in note for trace in cut.traces for note in trace.notes) or part < 0.1
    assert any("trace.trace.json.gz" in note for trace in cut.traces for note in trace.notes)
    if part > 0.6:  # the plane with the programs is before the events, and whole
        assert all(each.is_joined for each in cut.operations)


def test_of_two_damaged_files_the_error_is_that_of_the_named_one(tmp_path: Path) -> None:
    path = tmp_path / "t.xplane.pb"
    path.write_bytes((FIXTURES / "traces/cpu_steps/trace.xplane.pb").read_bytes()[:10])
    with pytest.raises(HloError) as alone:
        hlo_cli.read_trace(path)
    (tmp_path / "t.trace.json").write_text('{"traceEvents": [{')
    with pytest.raises(HloError) as both:
        hlo_cli.read_trace(path)
    assert str(both.value) == str(alone.value)
    assert str(path) in str(both.value)


def test_the_error_of_a_truncated_profile_says_that_it_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "t.xplane.pb"
    path.write_bytes((FIXTURES / "traces/cpu_steps/trace.xplane.pb").read_bytes()[:60_000])
    with pytest.raises(HloError, match=r"no timed operations: .* is truncated at byte"):
        hlo_cli.profile(path)
