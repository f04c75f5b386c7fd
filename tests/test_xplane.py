"""The reader of `*.xplane.pb`: every event and statistic is as the plain reader and JAX's own reader have them."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.read_traces import read_trace_bytes
from strategies import FIXTURES
from xspaces import Lines, entry, field, message, plain_lines, random_xspace, statistic
from xspaces import plane as plane_of

TRACES = tuple(sorted(FIXTURES.glob("traces/*/*.xplane.pb")))


def lines_of(trace: Trace) -> list[tuple[str, Lines]]:
    """All events of a trace in the form of the plain reader."""
    found = []
    for plane in trace.planes:
        lines = []
        for line in plane.lines:
            events = line.events
            columns = (events.kinds, events.offsets_ps, events.durations_ps, events.occurrences)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            own = [list(events.statistics_of(at)) for at in range(len(events))]
            lines.append((line.id, line.name, line.timestamp_ns, [(*row, s) for row, s in zip(rows, own, strict=True)]))
        found.append((plane.name, lines))
    return found


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.parent.name)
def test_recorded_traces_are_read_as_plainly(path: Path) -> None:
    data = path.read_bytes()
    assert lines_of(read_trace_bytes(data, "t")) == plain_lines(data)


@pytest.mark.parametrize("seed", range(24))
def test_random_traces_are_read_as_plainly(seed: int) -> None:
    data = random_xspace(seed)
    assert repr(lines_of(read_trace_bytes(data, "t"))) == repr(plain_lines(data))


@pytest.mark.parametrize("seed", range(10))
def test_a_statistic_of_all_events_is_the_last_of_each(seed: int) -> None:
    for plane in read_trace_bytes(random_xspace(seed), "t").planes:
        for line in plane.lines:
            own = [dict(line.events.statistics_of(at)) for at in range(len(line.events))]
            for name in {name for each in own for name in each}:
                column = line.events.statistic(name)
                found = [column.of(at) for at in range(len(own))]
                assert repr(found) == repr([each.get(name) for each in own])


def test_many_events_are_read_at_once_like_few() -> None:
    random = Random(1)
    events = [
        message((1, 7), (2, random.getrandbits(50)), (3, random.getrandbits(at % 64)), (4, statistic(1, 4, -at)))
        for at in range(9000)
    ]
    data = plane_of("/device:GPU:0", [b"".join(field(4, each) for each in events)], [], ["run_id"])
    assert lines_of(read_trace_bytes(data, "t")) == plain_lines(data)


def test_ids_and_numbers_at_the_limits_of_varints() -> None:
    """Enough events for the reader of many; ids of statistics and their values take one more byte from each on."""
    limits = [(1 << bits) - less for bits in (7, 14, 21, 28, 35, 49, 56, 63) for less in (1, 0)]
    names = [entry(id, (2, f"s{id}")) for id in limits]
    events = [
        message((1, 1), (2, offset), (4, statistic(id, number, offset)), (4, statistic(id, 5, "x" * (offset % 300))))
        for number in (3, 4, 7)
        for id in limits
        for offset in limits
    ]
    data = field(1, message((3, message(*((4, each) for each in events))), *((5, each) for each in names)))
    assert lines_of(read_trace_bytes(data, "t")) == plain_lines(data)
    (line,) = read_trace_bytes(data, "t").planes[0].lines
    for event in (-1, len(events)):
        with pytest.raises(IndexError):
            line.events.statistics_of(event)


def test_metadata_and_programs() -> None:
    kinds = [
        entry(1, (2, "jit_f"), (5, statistic(1, 6, b"proto")), (5, statistic(2, 4, -2))),
        entry(-3, (2, "jit_g"), (4, "g"), (5, statistic(1, 6, b"other")), (6, 5), (6, bytes((6, 7))), (3, b"\xff")),
    ]
    trace = read_trace_bytes(plane_of("/host:metadata", [], kinds, ["Hlo Proto", "program_id"]), "t")
    assert [(each.id, each.name, each.proto) for each in trace.programs()] == [
        ((1 << 64) - 2, "jit_f", b"proto"),  # the statistic, unsigned
        ((1 << 64) - 3, "jit_g", b"other"),  # else the id of the metadata
    ]
    other = trace.planes[0].kinds[-3]
    assert (other.display_name, other.children, other.metadata) == ("g", (5, 6, 7), b"\xff")


def test_times_since_1970_exceed_64_bits_only_apart_from_their_origin() -> None:
    now = 1_795_453_653_675_443_111
    lines = [message((3, now + start), (4, message((1, 1), (2, 500)))) for start in (7, 0)]
    trace = read_trace_bytes(plane_of("/device:GPU:0", lines, [], []), "t")
    assert [(line.origin_ns, line.begins_ps.tolist()) for line in trace.planes[0].lines] == [
        (now, [7500]),
        (now, [500]),
    ]
    (line,) = (
        read_trace_bytes(plane_of("/host:CPU", [message((3, 5), (4, message((2, -6000))))], [], []), "t")
        .planes[0]
        .lines
    )
    assert (line.origin_ns, line.begins_ps.tolist()) == (0, [-1000])


def test_a_statistic_of_the_kind_stands_in_for_the_own_one() -> None:
    kinds = [entry(1, (2, "a"), (5, statistic(1, 5, "of kind")))]
    events = [message((1, 1)), message((1, 1), (4, statistic(1, 7, 2))), message((1, 9))]
    data = plane_of("/device:GPU:0", [message(*((4, each) for each in events))], kinds, ["hlo_op", "own"])
    column = read_trace_bytes(data, "t").planes[0].lines[0].statistic("hlo_op")
    assert [column.of(at) for at in range(3)] == ["of kind", "own", None]


def same_as_profile_data(data: bytes) -> int:
    """Compares a trace with JAX's own reader, which drops picoseconds; returns the number of statistics."""
    profile = pytest.importorskip("jax.profiler").ProfileData.from_serialized_xspace(data)
    trace, count = read_trace_bytes(data, "t"), 0
    theirs = list(profile.planes)
    assert [each.name for each in theirs] == [each.name for each in trace.planes]
    for plane, other in zip(trace.planes, theirs, strict=True):
        assert statistics(plane.statistics.items()) == statistics(dict(known(other.stats)).items())
        other_lines = list(other.lines)
        assert [each.name for each in other_lines] == [each.name for each in plane.lines]
        for line, other_line in zip(plane.lines, other_lines, strict=True):
            kinds = [plane.kinds[id].name if id in plane.kinds else "" for id in line.events.kinds.tolist()]
            begins = [wrapped(line.timestamp_ns + truncated(ps)) for ps in line.events.offsets_ps.tolist()]
            durations = [float(truncated(ps)) for ps in line.events.durations_ps.tolist()]
            events = list(other_line.events)
            assert [(each.name, each.start_ns, each.duration_ns) for each in events] == [
                *zip(kinds, begins, durations, strict=True)
            ]
            for at, event in enumerate(events):
                own = line.events.statistics_of(at)
                assert statistics(own) == statistics(known(event.stats))
                count += len(own)
    return count


def known(statistics: object) -> list[tuple[str, object]]:
    """Without those that have no name or no value, which JAX gives as None."""
    return [(name, value) for name, value in statistics if name is not None]  # type: ignore[attr-defined]


def statistics(given: object) -> list[tuple[str, object]]:
    """JAX gives bytes as text."""
    pairs = [(name, value.decode() if isinstance(value, bytes) else value) for name, value in given]  # type: ignore[attr-defined]
    return [(name, repr(value) if isinstance(value, float) and math.isnan(value) else value) for name, value in pairs]


def truncated(ps: int) -> int:
    """Nanoseconds, toward zero."""
    return abs(ps) // 1000 * (-1 if ps < 0 else 1)


def wrapped(ns: int) -> float:
    return float((ns + (1 << 63)) % (1 << 64) - (1 << 63))


@pytest.mark.oracle
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.parent.name)
def test_recorded_traces_equal_those_of_jax(path: Path) -> None:
    assert same_as_profile_data(path.read_bytes()) > 10


@pytest.mark.oracle
def test_random_traces_equal_those_of_jax() -> None:
    assert sum(same_as_profile_data(random_xspace(seed)) for seed in range(40)) > 5000


@pytest.mark.long
def test_many_random_traces_equal_those_of_jax() -> None:
    assert sum(same_as_profile_data(random_xspace(seed)) for seed in range(40, 500)) > 50_000
