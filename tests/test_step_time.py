"""Time on a chip: overlapped and exposed times add up, and results do not depend on the unit of time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from dumps import Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate, chip_spec
from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.hardware.time_model import TPU_FLOOR_SECONDS
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, analyze_overlap
from hlo_cli.analysis.schedule.step_time import TimeEstimate, critical_path, estimate_time, path_seconds

DUMPS = compiled_dumps()
dumps = pytest.mark.parametrize("dump", DUMPS, ids=str)
ONE = ChipSpec("one", {"f32": Rate(1.0, "")}, Rate(1.0, ""), Rate(1.0, ""), Rate(1.0, ""))
"""A chip with a rate of 1 per second for everything, so that seconds are bytes."""


@cache
def overlap(dump: Dump) -> OverlapAnalysis:
    return analyze_overlap(parse_module(dump.text))


@cache
def on_v5e(dump: Dump) -> TimeEstimate:
    return estimate_time(overlap(dump), chip_spec("v5e"))


def timed(text: str, throughput: ChipSpec = ONE) -> TimeEstimate:
    return estimate_time(analyze_overlap(parse_module(f"HloModule m, is_scheduled=true\n{text}")), throughput)


def faster(throughput: ChipSpec, times: float) -> ChipSpec:
    def scaled(rate: Rate | None) -> Rate | None:
        return None if rate is None else Rate(rate.per_second * times, rate.source)

    memory = scaled(throughput.memory)
    assert memory is not None
    flops = {kind: Rate(rate.per_second * times, rate.source) for kind, rate in throughput.flops.items()}
    return ChipSpec(throughput.chip, flops, memory, scaled(throughput.links), scaled(throughput.host))


def adds_up(found: TimeEstimate) -> None:
    total = found.compute_seconds + found.exposed_seconds
    assert found.seconds == pytest.approx(total, rel=1e-9)
    for interval in found.intervals:
        if interval.total_seconds is None:
            assert interval.overlapped_seconds is interval.exposed_seconds is None
            continue
        assert interval.overlapped_seconds is not None
        assert interval.exposed_seconds is not None
        assert interval.overlapped_seconds >= 0
        assert 0 <= interval.exposed_seconds <= interval.total_seconds
        assert interval.overlapped_seconds + interval.exposed_seconds == pytest.approx(interval.total_seconds)


@dumps
def test_an_execution_is_compute_and_exposed_time(dump: Dump) -> None:
    adds_up(on_v5e(dump))


@dumps
def test_a_chip_twice_as_fast_needs_half_the_time(dump: Dump) -> None:
    """Of a chip of which only rates are known; each operation of a known TPU takes at least what was measured on one."""
    own = replace(chip_spec("v5e"), chip="own")
    once, twice = (estimate_time(overlap(dump), each) for each in (own, faster(own, 2)))
    assert twice.seconds == pytest.approx(once.seconds / 2)
    assert twice.exposed_seconds == pytest.approx(once.exposed_seconds / 2)
    for before, after in zip(once.intervals, twice.intervals, strict=True):
        assert after.compute_seconds == pytest.approx(before.compute_seconds / 2)


@dumps
def test_a_tpu_twice_as_fast_needs_half_to_all_of_the_time(dump: Dump) -> None:
    once, twice = on_v5e(dump), estimate_time(overlap(dump), faster(chip_spec("v5e"), 2))
    assert once.seconds / 2 * (1 - 1e-9) <= twice.seconds <= once.seconds * (1 + 1e-9)
    for kernel, estimate in once.predicted.items():
        assert not estimate.seconds or estimate.seconds >= TPU_FLOOR_SECONDS
        assert estimate.seconds / 2 <= twice.predicted[kernel].seconds <= estimate.seconds


@dumps
def test_faster_links_never_make_an_execution_longer(dump: Dump) -> None:
    chip = chip_spec("h100")
    links = chip.links
    assert links is not None
    slow, fast = (replace(chip, links=Rate(links.per_second * factor, "")) for factor in (0.1, 10))
    lengths = [estimate_time(overlap(dump), each).seconds for each in (fast, chip, slow)]
    assert lengths == sorted(lengths)


@dumps
def test_start_times_of_steps_ascend(dump: Dump) -> None:
    played = on_v5e(dump).simulation
    begins = list(played.start_seconds)
    assert begins == sorted(begins)
    assert not begins or begins[-1] <= played.axis_seconds


@dumps
def test_no_execution_is_shorter_than_its_critical_path(dump: Dump) -> None:
    found = on_v5e(dump)
    weights = path_seconds(found, overlap(dump))
    path = critical_path(overlap(dump).module.entry, weights)
    assert 0 <= path.length <= path.whole
    assert path.length <= found.seconds * (1 + 1e-9)


@dumps
def test_pairs_exposed_without_a_chip_have_exposed_time(dump: Dump) -> None:
    """Without a kernel between, a pair overlaps at most with the wait time of other pairs."""
    found = on_v5e(dump)
    for interval, time in zip(overlap(dump).intervals, found.intervals, strict=True):
        if interval.is_unoverlapped and interval.times == 1 and not interval.is_sync:
            assert time.compute_seconds == pytest.approx(0, abs=1e-15)


def test_random_programs_add_up() -> None:
    for seed in range(200):
        random = Random(seed)
        found = timed(random_program(random), faster(ONE, random.choice((1, 3))))
        adds_up(found)


def random_program(random: Random) -> str:
    """Copies, collectives, and kernels in any valid order, in an entry and in a loop that may run often."""
    body = random_steps(random, random.randrange(8), "x")
    lines = random_steps(random, random.randrange(12), "p")
    rounds = random.choice((0, 1, 2, 3, 100))
    return f"""
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
body {{ x = f32[64] parameter(0)
{body} ROOT last = f32[64] negate(x) }}
condition {{ y = f32[64] parameter(0) ROOT is = pred[] constant(false) }}
ENTRY e {{ p = f32[64] parameter(0)
 early = (f32[64], f32[64], u32[]) copy-start(p)
 w = f32[64] while(p), condition=condition, body=body, backend_config={{"known_trip_count":{{"n":"{rounds}"}}}}
 late = f32[64] copy-done(early)
{lines} ROOT end = f32[64] add(w, late) }}"""


def random_steps(random: Random, count: int, given: str) -> str:
    lines, open_ = [], []
    for number in range(count):
        name = f"{given}{number}"
        kind = random.choice(("copy", "reduce", "kernel", "plain"))
        if kind == "copy":
            lines.append(f" {name} = (f32[64], f32[64], u32[]) copy-start({given})")
            open_.append(f" {name}d = f32[64] copy-done({name})")
        elif kind == "reduce":
            lines.append(f" {name} = f32[64] all-reduce-start({given}), replica_groups={{{{0,1}}}}, to_apply=sum")
            open_.append(f" {name}d = f32[64] all-reduce-done({name})")
        elif kind == "plain":
            lines.append(f" {name} = f32[64] all-reduce({given}), replica_groups={{{{0,1,2}}}}, to_apply=sum")
        else:
            lines.append(f" {name} = f32[64] exponential({given})")
        if open_ and random.random() < 0.4:
            lines.append(open_.pop(random.randrange(len(open_))))
    random.shuffle(open_)
    return "\n".join([*lines, *open_])


COPIES = """
ENTRY e { p = f32[25] parameter(0) q = f32[15] parameter(1)
  a = (f32[25]{0:S(1)}, f32[25], u32[]) copy-start(p)
  b = (f32[25]{0:S(1)}, f32[25], u32[]) copy-start(p)
  n = f32[15] negate(q)
  da = f32[25]{0:S(1)} copy-done(a)
  ROOT db = f32[25]{0:S(1)} copy-done(b) }"""


def test_two_transfers_on_one_link_share_the_compute_between() -> None:
    """Each copy needs 100 s, the kernel 120: it overlaps the first and a fifth of the second."""
    found = timed(COPIES)
    assert [interval.exposed_seconds for interval in found.intervals] == [0, 80]
    assert (found.compute_seconds, found.seconds) == (120, 200)


def test_transfers_on_two_links_overlap_with_the_same_compute() -> None:
    found = timed("""
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[25] parameter(0) q = f32[15] parameter(1)
  a = (f32[25]{0:S(1)}, f32[25], u32[]) copy-start(p)
  b = f32[25] all-reduce-start(p), replica_groups={{0,1}}, to_apply=sum
  n = f32[15] negate(q)
  da = f32[25]{0:S(1)} copy-done(a)
  ROOT db = f32[25] all-reduce-done(b) }""")
    assert [interval.transfer.link for interval in found.intervals] == ["memory", "links"]
    assert [interval.exposed_seconds for interval in found.intervals] == [0, 0]
    assert found.seconds == found.compute_seconds == 120


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_loop_counts_with_its_trip_count(rounds: int) -> None:
    """An iteration is a kernel of 40 s within a copy of 100."""
    found = timed(f"""
body {{ x = (f32[25], f32[5]) parameter(0)
  v = f32[25] get-tuple-element(x), index=0
  q = f32[5] get-tuple-element(x), index=1
  s = (f32[25]{{0:S(1)}}, f32[25], u32[]) copy-start(v)
  n = f32[5] negate(q)
  d = f32[25]{{0:S(1)}} copy-done(s)
  ROOT t = (f32[25], f32[5]) tuple(v, n) }}
condition {{ y = (f32[25], f32[5]) parameter(0) ROOT is = pred[] constant(false) }}
ENTRY e {{ p = (f32[25], f32[5]) parameter(0)
  ROOT w = (f32[25], f32[5]) while(p), condition=condition, body=body,
    backend_config={{"known_trip_count":{{"n":"{rounds}"}}}} }}""")
    interval = found.intervals[0]
    assert (interval.compute_seconds, interval.total_seconds) == (40, 100 * rounds)
    assert (interval.overlapped_seconds, interval.exposed_seconds) == (40 * rounds, 60 * rounds)
    assert (found.compute_seconds, found.seconds, found.simulation.axis_seconds) == (40 * rounds, 100 * rounds, 100)


def test_trip_counts_may_be_very_large() -> None:
    """Thirty nested loops, each with a trip count of 10¹⁸."""
    rounds = 'backend_config={"known_trip_count":{"n":"999999999999999999"}}'
    loops = [
        f"b{n} {{ x = f32[9] parameter(0) ROOT w = f32[9] while(x), condition=c{n}, body=b{n - 1}, {rounds} }}"
        for n in range(1, 30)
    ]
    conditions = [f"c{n} {{ y = f32[9] parameter(0) ROOT is = pred[] constant(false) }}" for n in range(1, 31)]
    found = timed("\n".join((
        "b0 { x = f32[9] parameter(0) s = (f32[9], f32[9], u32[]) copy-start(x) ROOT d = f32[9] copy-done(s) }",
        *conditions,
        *loops,
        f"ENTRY e {{ p = f32[9] parameter(0) ROOT w = f32[9] while(p), condition=c30, body=b29, {rounds} }}",
    )))  # fmt: skip
    adds_up(found)
    assert 0 < found.seconds < 1e100


@pytest.mark.parametrize("chip", sorted(chip.name for chip in known_chips()))
def test_every_chip_is_supported(chip: str) -> None:
    found = estimate_time(overlap(DUMPS[-1]), chip_spec(chip))
    adds_up(found)
    assert found.seconds > 0
