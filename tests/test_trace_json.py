"""The reader of traces in JSON: it gives what the xplane of the same profile gives."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from random import Random

import pytest

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import HloError
from hlo_cli.syntax.traces import trace_json
from hlo_cli.syntax.traces.trace_json import picoseconds
from strategies import FIXTURES

FOLDER = FIXTURES / "traces/cpu_steps"
DROPPED = {"program_id", "_p", "_c", "_pt", "_ct", "_r", "symbol_id", "flops", "group_id"}
"""What the profiler leaves out of the JSON."""


def of_events(*events: object, **more: object) -> Trace:
    return read_trace_bytes(
        json.dumps({"displayTimeUnit": "ns", **more, "traceEvents": [*events, {}]}).encode(), "t.json"
    )


def rows(trace: Trace) -> Counter[object]:
    """All events: line, name, begin, duration, and the statistics that both forms have, as text."""
    found: Counter[object] = Counter()
    for plane in trace.planes:
        for line in plane.lines:
            names = [plane.kinds[id].short_name for id in line.events.kinds.tolist()]
            times = zip(line.begins_ps.tolist(), line.events.durations_ps.tolist(), strict=True)
            for at, (begin, duration) in enumerate(times):
                own = {k: str(v) for k, v in line.events.statistics_of(at) if k not in DROPPED}
                found[plane.name, line.name, names[at], begin, duration, frozenset(own.items())] += 1
    return found


def test_both_forms_of_a_profile_hold_the_same_events() -> None:
    packed, xplane = (FOLDER / name for name in ("trace.json.gz", "trace.xplane.pb"))
    found, expected = (
        rows(read_trace_bytes(data, "t")) for data in (gzip.decompress(packed.read_bytes()), xplane.read_bytes())
    )
    assert sum(found.values()) == sum(expected.values()) > 1000
    assert found == expected


def test_numbers_of_known_statistics_are_numbers() -> None:
    args = {
        "run_id": "-3",
        "hlo_op": "7",
        "size": "256",
        "own": 2.5,
        "count": 4,
        "list": [1],
        "long_name": "%a = f32[]",
    }
    trace = of_events({"ph": "X", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2, "name": "a", "args": args})
    (line,) = trace.planes[0].lines
    assert dict(line.events.statistics_of(0)) == {
        "run_id": -3, "hlo_op": "7", "size": "256", "own": 2.5, "count": 4, "list": "[1]",
    }  # fmt: skip
    assert (line.begins_ps.tolist(), line.events.durations_ps.tolist()) == ([1_500_000], [2_000_000])
    (kind,) = trace.planes[0].kinds.values()
    assert (kind.name, kind.display_name) == ("%a = f32[]", "a")


def test_no_picosecond_is_lost() -> None:
    random = Random(1)
    for _ in range(2000):
        ps = random.getrandbits(random.randrange(1, 50))
        assert picoseconds(f"{ps / 1e6:.17g}") == ps  # as XLA writes them
        assert picoseconds(f"{ps // 10**6}.{ps % 10**6:06}") == ps


def test_times_since_1970_count_from_the_first_event() -> None:
    events = [{"ph": "X", "pid": 1, "tid": 1, "ts": ts, "name": "a"} for ts in (1795453653675443.5, 1795453653675444)]
    (line,) = of_events(*events).planes[0].lines
    begins = line.begins_ps - line.begins_ps[0]
    assert (begins.tolist(), line.origin_ns) == ([0, 500_000], 1795453653675000000)


def test_a_bare_list_and_names_after_events() -> None:
    events = [
        {"ph": "X", "pid": 7, "tid": 8, "ts": 0, "dur": 1, "name": "a"},
        {"ph": "M", "pid": 7, "name": "process_name", "args": {"name": "/device:TPU:0"}},
        {"ph": "M", "pid": 7, "tid": 8, "name": "thread_name", "args": {"name": "XLA Ops"}},
    ]
    (plane,) = read_trace_bytes(b"\xef\xbb\xbf \n" + json.dumps(events).encode(), "t").planes
    assert (plane.name, plane.lines[0].name) == ("/device:TPU:0", "XLA Ops")


@pytest.mark.parametrize("piece", [1, 3, 50, 1 << 20])
def test_the_size_of_pieces_does_not_matter(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_json, "_PIECE", piece)
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": i * 1.001, "name": "nä€😀" * i, "args": {"a": [12, 3]}} for i in range(9)
    ]
    text = json.dumps({"n": 12345, "traceEvents": events, "after": 1}, ensure_ascii=False)
    trace = read_trace_bytes(text.encode(), "t")
    assert [kind.name for kind in trace.planes[0].kinds.values()] == ["nä€😀" * i for i in range(9)]
    assert trace.notes == ()


def test_a_truncated_trace_is_read_up_to_the_cut() -> None:
    event = b'{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"name":"a"}'
    whole = b'{"traceEvents":[' + event + b"," + event + b"]}"
    seen = set()
    for cut in range(len(whole)):
        try:
            trace = read_trace_bytes(whole[:cut] or b"{", "t")
        except HloError:
            continue
        seen.add(len(trace.planes[0].lines[0].events) if trace.planes else 0)
        assert len(trace.notes) == 1
    assert seen == {1, 2}


def test_what_cannot_be_read_is_counted() -> None:
    good = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "name": "a"}
    bad = [{**good, "ts": ts} for ts in (float("nan"), 1e300, "x", None)]
    trace = of_events(good, *bad)
    assert len(trace.planes[0].lines[0].events) == 1
    assert trace.notes == ("omitted 4 events of t.json without a valid time",)


def test_a_full_trace_is_said_to_be_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_json, "LIMITS", (2,))
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "name": "a"}
    assert of_events(event).notes == ()
    assert "the limit of the format" in of_events(event, event).notes[0]


@pytest.mark.parametrize(
    "text", ['{"a": 1}', "[" * 100_000, '{"traceEvents": 3}', '{"traceEvents":[' + "9" * 9999, "{1"]
)
def test_other_json_is_an_error(text: str) -> None:
    with pytest.raises(HloError):
        read_trace_bytes(text.encode(), "t")


def test_names_can_be_printed() -> None:
    trace = read_trace_bytes(b'[{"ph":"X","pid":1,"tid":1,"ts":1,"name":"\\ud800","args":{"\\udfff":"\\udc00"}}]', "t")
    shown = str((trace.planes[0].kinds, trace.planes[0].lines[0].events.statistics_of(0)))
    assert shown.encode()
