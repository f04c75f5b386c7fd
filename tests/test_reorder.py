"""Reordered modules: they keep all instructions and dependencies, need no more memory, and give the same results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from random import Random
from typing import get_args

import pytest

from dumps import FIXTURES, Dump, compiled_dumps
from hlo_cli import load, parse_module
from hlo_cli.alignment import longest_increasing
from hlo_cli.analysis.dataflow.dependencies import control_predecessors
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.memory.assignment import peaks_of
from hlo_cli.analysis.memory.buffers import order_independent_facts
from hlo_cli.analysis.memory.memory_analysis import memory_analysis, timeline_of
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap, async_pairs
from hlo_cli.analysis.schedule.step_time import estimate_time
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.reorder import Goal, moved_blocks, reorder, reorder_with_peaks
from hlo_cli.transform.schedule.constraints import ExecutedComputations
from hlo_cli.transform.schedule.latency_scheduler import LatencyModel, _times_by_bytes, times_on_chip
from judge import ask_xla
from running import same_results
from scheduled_programs import scheduled_program
from share import every

GOALS: tuple[Goal, ...] = get_args(Goal)
DUMPS = compiled_dumps()
dumps = pytest.mark.parametrize("dump", every(3, DUMPS), ids=str)
goals = pytest.mark.parametrize("goal", GOALS)

EFFECTS = """HloModule m, is_scheduled=true
w { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  p = f32[8] parameter(0)
  t = token[] after-all()
  i = (f32[4000], token[]) infeed(t)
  s = f32[8] all-reduce(p), replica_groups={}, to_apply=w, channel_id=1
  u = f32[4000] get-tuple-element(i), index=0
  n = f32[4000] custom-call(u), custom_call_target="log", custom_call_has_side_effect=true
  g = f32[8] all-reduce(p), replica_groups={}, to_apply=w, channel_id=2
  r = u64[2] rng-get-and-update-state(), delta=1
  q = u64[2] rng-get-and-update-state(), delta=2
  o = token[] outfeed(p, t)
  a = f32[8] add(s, g)
  k = f32[8] sine(p), control-predecessors={a}
  ROOT z = (f32[8], f32[4000], u64[2], u64[2], f32[8]) tuple(a, n, r, q, k)
}"""
IN_PLACE = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }
body {
  b = (s32[], f32[64], f32[64]) parameter(0)
  c = s32[] get-tuple-element(b), index=0
  x = f32[64] get-tuple-element(b), index=1
  y = f32[64] get-tuple-element(b), index=2
  old = f32[64] sine(x)
  one = s32[] constant(1)
  u = f32[1] slice(y), slice={[3:4]}
  new = f32[64] dynamic-update-slice(x, u, c)
  e = f32[64] add(old, y)
  d = s32[] add(c, one)
  ROOT r = (s32[], f32[64], f32[64]) tuple(d, new, e)
}
condition {
  b = (s32[], f32[64], f32[64]) parameter(0)
  c = s32[] get-tuple-element(b), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(c, n), direction=LT
}
ENTRY e {
  p = f32[64] parameter(0)
  z = s32[] constant(0)
  q = f32[64] cosine(p)
  read = f32[64] bitcast(p)
  wide = f32[64] exponential(read)
  t = (s32[], f32[64], f32[64]) tuple(z, p, q)
  w = (s32[], f32[64], f32[64]) while(t), condition=condition, body=body
  f = f32[64] get-tuple-element(w), index=1
  g = f32[64] get-tuple-element(w), index=2
  h = f32[64] multiply(g, wide)
  ROOT r = (f32[64], f32[64]) tuple(f, h)
}"""
GROUPED = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[8] parameter(0)
  a = f32[8] negate(p), frontend_attributes={_scheduling_group_id="1"}
  c = f32[8] sine(a), frontend_attributes={_scheduling_group_id="1"}
  b = f32[8] cosine(p)
  d = f32[8] negate(b)
  ROOT t = (f32[8], f32[8]) tuple(d, c)
}"""


@cache
def module(dump: Dump) -> Module:
    return parse_module(dump.text)


@cache
def new(dump: Dump, goal: Goal) -> Module:
    return reorder(module(dump), goal)


def names(computation: Computation) -> list[str]:
    return [instruction.name for instruction in computation.instructions]


def places(module: Module, name: str = "e") -> dict[str, int]:
    return {instruction.name: instruction.index for instruction in module.computation(name).instructions}


def peaks(module: Module) -> dict[int, int]:
    return {space.number: space.peak_bytes for space in memory_analysis(module).spaces}


def whole(module: Module) -> dict[int, int]:
    """The peaks with constants live during the whole execution."""
    memory, found = memory_analysis(module), dict[int, int]()
    for space in memory.spaces:
        constants = {value.buffer: value.padded_bytes for value in space.values if value.kind == "constant"}
        others = [value for value in space.values if value.kind != "constant"]
        found[space.number] = max(timeline_of(others, len(memory.sequence))) + sum(constants.values())
    return found


def temporaries(module: Module) -> int:
    """The temporary allocation, with alignment and fragmentation."""
    return sum(space.totals.temporary_bytes for space in memory_analysis(module).spaces)


def lines(module: Module) -> Iterator[Counter[str]]:
    for block in module.to_string().split("\n}"):
        yield Counter(line.strip() for line in block.splitlines() if not line.startswith("HloModule"))


@goals
@dumps
def test_every_line_is_there_once_and_only_computations_that_run_change(dump: Dump, goal: Goal) -> None:
    old, made = module(dump), new(dump, goal)
    assert list(lines(old)) == list(lines(made))
    running = {run.computation.name for run in memory_analysis(old).runs}
    for before, after in zip(old.computations, made.computations, strict=True):
        assert before.name in running or names(before) == names(after)
    assert made.is_scheduled
    assert parse_module(made.to_string()).to_string() == made.to_string()


@goals
@dumps
def test_operands_and_control_predecessors_stay_before(dump: Dump, goal: Goal) -> None:
    for computation in new(dump, goal).computations:
        controls = control_predecessors(computation)
        for instruction in computation.instructions:
            needed = [operand.index for operand in instruction.operands] + controls.get(instruction.index, [])
            assert all(index < instruction.index for index in needed), instruction


@dumps
def test_memory_schedules_need_no_more_in_any_space(dump: Dump) -> None:
    """Whether constants count from their definition or for the whole execution."""
    for count in (peaks, whole):
        given = count(module(dump))
        assert all(peak <= given[space] for space, peak in count(new(dump, "memory")).items())


def unscheduled(text: str) -> Module:
    return parse_module(text.replace("is_scheduled=true", "is_scheduled=false", 1))


def program(seed: int) -> str:
    """A random program; in half of them, a result overwrites an argument."""
    text = scheduled_program(Random(seed))
    root = parse_module(text).entry.root
    assert root is not None
    if seed % 2 and root.operands:
        arguments = [str(parameter.shape) for parameter in parse_module(text).entry.parameters]
        alias = f"input_output_alias={{ {{0}}: ({arguments.index(str(root.operands[0].shape))}, {{}}, may-alias) }}"
        return text.replace("is_scheduled=true", f"is_scheduled=true, {alias}", 1)
    return text


@pytest.mark.parametrize("seed", every(8, range(24)))
def test_memory_schedules_of_random_programs_need_no_more(seed: int) -> None:
    """Loops, calls, branches, in-place updates, and results that overwrite arguments."""
    text = program(seed)
    for old in (parse_module(text), unscheduled(text)):
        made = reorder_with_peaks(old, "memory")
        assert (made.before.from_definition, made.before.whole) == (peaks(old), whole(old))
        assert (made.after.from_definition, made.after.whole) == (peaks(made.module), whole(made.module))
        assert temporaries(made.module) <= temporaries(old)
        if old.is_scheduled:
            assert all(peak <= made.before.whole[space] for space, peak in made.after.whole.items())
            assert all(peak <= made.before.from_definition[space] for space, peak in made.after.from_definition.items())


@pytest.mark.parametrize("name", ["v5e_names", "v5e_conv", "v5p_scan", "v4_sorting"])
def test_memory_schedules_of_tpus_lower_the_total_or_keep_the_order(name: str) -> None:
    """A lower peak of VMEM or SMEM is no gain: nothing else can use that memory, and prefetches overlap less."""
    [dump] = [each for each in DUMPS if each.platform == "tpu" and each.name == name]
    made = reorder_with_peaks(parse_module(dump.text), "memory")
    before, after = (made.before.temporaries[0], made.after.temporaries[0])
    is_moved = bool(moved_blocks(parse_module(dump.text), made.module))
    assert after < before if is_moved else made.before == made.after


def test_moving_constants_is_no_gain() -> None:
    """Compilers keep them for the whole execution."""
    text = """HloModule m, is_scheduled=true
ENTRY e {
  k = f32[1000] constant({...})
  p = f32[1000] parameter(0)
  a = f32[1000] negate(p)
  b = f32[1000] sine(a)
  ROOT c = f32[1000] add(b, k)
}"""
    made = reorder_with_peaks(parse_module(text), "memory")
    assert names(made.module.entry) == ["k", "p", "a", "b", "c"]
    assert made.before == made.after
    assert made.before.constants == {0: 4000}


@pytest.mark.parametrize("seed", every(2, range(8)))
def test_memory_schedules_need_no_more_than_those_of_xla(seed: int) -> None:
    """XLA chooses the best of list, depth-first, and post-order, the CPU compiler depth-first or breadth-first."""
    old = unscheduled(program(seed))
    others: tuple[Goal, ...] = "dfs", "bfs", "postorder"
    assert temporaries(reorder(old, "memory")) <= min(temporaries(reorder(old, goal)) for goal in others)


@pytest.mark.parametrize("seed", every(3, range(6)))
def test_measured_peaks_match_memory_analysis(seed: int) -> None:
    """The peak of an order is the same without building its module."""
    old = parse_module(program(seed))
    facts = order_independent_facts(old)
    for goal in GOALS:
        made = reorder(old, goal)
        orders: dict[Computation, list[Instruction]] = {}
        for before, after in zip(old.computations, made.computations, strict=True):
            by_name = {instruction.name: instruction for instruction in before.instructions}
            orders[before] = [by_name[instruction.name] for instruction in after.instructions]
        assert peaks_of(facts, orders) == peaks_of(order_independent_facts(made), {})
        assert peaks_of(facts, orders).from_definition == peaks(made)


@dumps
def test_peaks_of_dumps_match_memory_analysis(dump: Dump) -> None:
    """Except for spaces without live values, which have only a total."""
    lived = {space: peak for space, peak in peaks(module(dump)).items() if peak}
    assert {
        space: peak
        for space, peak in peaks_of(order_independent_facts(module(dump)), {}).from_definition.items()
        if peak
    } == lived


@dumps
def test_latency_schedules_need_no_more_memory_and_expose_no_more(dump: Dump) -> None:
    for count in (peaks, whole):
        given = count(module(dump))
        assert all(peak <= given[space] for space, peak in count(new(dump, "latency")).items())
    before, after = (
        sum(flight.unoverlapped_bytes for flight in analyze_overlap(each).intervals)
        for each in (module(dump), new(dump, "latency"))
    )
    assert after <= before


@pytest.mark.parametrize("dump", [dump for dump in DUMPS if dump.platform == "cpu"], ids=str)
def test_breadth_first_matches_the_cpu_compiler(dump: Dump) -> None:
    """CPU compilers schedule breadth-first, so nothing moves."""
    assert not moved_blocks(module(dump), new(dump, "bfs"))


@goals
def test_side_effects_keep_their_order(goal: Goal) -> None:
    at = places(reorder(parse_module(EFFECTS), goal))
    for kept in (("i", "n", "o"), ("s", "g"), ("r", "q"), ("a", "k")):
        assert all(at[first] < at[second] for first, second in pairwise(kept))


@goals
def test_readers_stay_before_in_place_updates(goal: Goal) -> None:
    made = reorder(parse_module(IN_PLACE), goal)
    at = places(made)
    assert at["wide"] < at["w"]
    assert at["q"] < at["w"]
    inside = places(made, "body")
    assert inside["old"] < inside["new"]
    assert inside["u"] < inside["e"]  # e lies where y does


@goals
def test_groups_stay_together(goal: Goal) -> None:
    at = places(reorder(parse_module(GROUPED), goal))
    assert at["c"] == at["a"] + 1


def test_groups_are_split_if_others_must_run_between() -> None:
    _, c, b = GROUPED.splitlines()[3:6]
    text = GROUPED.replace(f"{c}\n{b}", f"{b.replace('(p)', '(a)')}\n{c}, control-predecessors={{b}}")
    at = places(reorder(parse_module(text), "dfs"))
    assert at["a"] < at["b"] < at["c"]


def test_latency_schedules_keep_the_memory_limit() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[1000] parameter(0)
  s = (f32[1000], f32[1000], u32[]) copy-start(p)
  d = f32[1000] copy-done(s)
  n = f32[1000] negate(p)
  m = f32[1000] multiply(n, n)
  ROOT a = f32[1000] add(m, d)
}"""
    given = parse_module(text)
    for limit in range(0, 24000, 1000):
        made = reorder(given, "latency", limits={0: limit})
        assert peaks(made)[0] <= limit or names(made.entry) == names(given.entry)
    at = places(reorder(given, "latency", limits={0: 24000}))
    assert at["s"] < at["n"] < at["d"]


def test_latency_schedules_use_the_given_latency_model() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[8] parameter(0)
  s = (f32[8], f32[8], u32[]) copy-start(p)
  d = f32[8] copy-done(s)
  n = f32[8] negate(p)
  k = f32[8] sine(p)
  ROOT a = (f32[8], f32[8], f32[8]) tuple(n, d, k)
}"""
    given = parse_module(text)
    for times, order in (
        (LatencyModel(lambda _: 2.5, lambda _: 1.0, "measured"), ["p", "s", "n", "d", "k", "a"]),
        (LatencyModel(lambda _: 2.5, lambda _: 9.0, "measured"), ["p", "s", "n", "k", "d", "a"]),
    ):
        assert names(reorder(given, "latency", limits={0: 4096}, latency_model=times).entry) == order


def test_without_a_model_a_transfer_takes_as_long_as_it_moves_bytes() -> None:
    """Read and written, as by a kernel; between devices eight times that, as the module says of itself."""
    text = """w { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { p = f32[1000] parameter(0)  s = (f32[1000], f32[1000], u32[]) copy-start(p)
  t = f32[1000] all-reduce-start(p), replica_groups={}, to_apply=w  d = f32[1000] copy-done(s)
  ROOT e = (f32[1000], f32[1000]) tuple(d, x)  x = f32[1000] all-reduce-done(t) }"""
    entry = parse_module(text).entry
    model = _times_by_bytes(entry, lambda shape: shape.logical_bytes)
    times = {pair.operation: model.of_pair(pair) for pair in async_pairs(parse_module(text)).pairs}
    assert times == {"copy": 8000, "all-reduce": 8 * 8000}


@pytest.mark.parametrize("tail", range(0, 9000, 500))
def test_latency_schedules_hold_the_peak_that_a_called_computation_has(tail: int) -> None:
    """A loop needs memory of its own while a transfer is in flight: the order has no higher peak than the given one."""
    text = f"""HloModule m, is_scheduled=true
more {{ c = (s32[], f32[500]) parameter(0)  i = s32[] get-tuple-element(c), index=0  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }}
body {{ c = (s32[], f32[500]) parameter(0)  i = s32[] get-tuple-element(c), index=0  x = f32[500] get-tuple-element(c), index=1
  b = f32[500,4] broadcast(x), dimensions={{0}}  k = f32[500,4] tanh(b)  z = f32[] constant(0)
  y = f32[500] custom-call(k), custom_call_target="sum"  ROOT t = (s32[], f32[500]) tuple(i, y) }}
ENTRY e {{
  p = f32[1000] parameter(0)
  q = f32[500] parameter(1)
  o = s32[] constant(0)
  s = (f32[1000], f32[1000], u32[]) copy-start(p)
  d = f32[1000] copy-done(s)
  m = f32[] custom-call(d), custom_call_target="sum"
  h = f32[{tail + 1}] custom-call(m), custom_call_target="make"
  v = f32[] custom-call(h), custom_call_target="sum"
  g = f32[500] negate(q)
  u = (s32[], f32[500]) tuple(o, g)
  w = (s32[], f32[500]) while(u), condition=more, body=body
  a = f32[500] get-tuple-element(w), index=1
  ROOT r = (f32[500], f32[]) tuple(a, v)
}}"""
    given = parse_module(text)
    made = reorder(given, "latency")
    assert peaks(made)[0] <= peaks(given)[0]


@pytest.mark.parametrize("chip", ["h100", "v5e"])
@pytest.mark.parametrize("folder", ["gpu/h100_transformer", "gpu/h100_collectives", "tpu/v5e_offload", "tpu/v5p_scan"])
def test_with_the_times_of_a_chip_no_execution_is_longer(folder: str, chip: str) -> None:
    throughput = chip_spec(chip)
    given = analyze_overlap(load(FIXTURES / folder))
    new = reorder(given.module, "latency", latency_model=times_on_chip(given, throughput))
    before, after = (estimate_time(overlap, throughput) for overlap in (given, analyze_overlap(new)))
    assert after.exposed_seconds <= before.exposed_seconds
    assert after.compute_seconds == pytest.approx(before.compute_seconds)
    assert after.seconds <= before.seconds * (1 + 1e-9)


@goals
def test_computations_with_uses_before_definitions_stay(goal: Goal) -> None:
    text = "HloModule m  ENTRY e { a = f32[8] iota(), iota_dimension=0, control-predecessors={b}"
    text += "  b = f32[8] negate(a)  ROOT c = f32[8] sine(b) }"
    assert names(reorder(parse_module(text), goal).entry) == ["a", "b", "c"]
    assert not list(ExecutedComputations(parse_module(text)).computations())


@goals
@pytest.mark.parametrize("limits", [None, {0: 1 << 12}])
def test_peaks_of_a_new_order_are_those_of_its_module(goal: Goal, limits: dict[int, int] | None) -> None:
    transfer = """HloModule m, is_scheduled=true  ENTRY e { p = f32[64] parameter(0)  n = f32[64] negate(p)
    s = (f32[64], f32[64], u32[]) copy-start(p)  d = f32[64] copy-done(s)  ROOT a = f32[64] add(n, d) }"""
    for text in (IN_PLACE, EFFECTS, transfer, IN_PLACE.replace("is_scheduled=true", "is_scheduled=false")):
        made = reorder_with_peaks(parse_module(text), goal, limits=limits)
        assert str(made.module) == str(reorder(parse_module(text), goal, limits=limits))
        assert str(made.module).count("is_scheduled") == 1
        facts = order_independent_facts(made.module)
        assert made.after.whole == peaks_of(facts, {}).whole
        if goal == "memory":
            assert made.after == peaks_of(facts, {}, with_temporaries=True)


def test_few_instructions_move() -> None:
    random = Random(1)
    for _ in range(200):
        numbers = random.sample(range(9), 9)
        kept = longest_increasing(numbers)
        assert [numbers[place] for place in sorted(kept)] == sorted(numbers[place] for place in kept)
        subsets = (mask for mask in range(1 << 9) if mask.bit_count() > len(kept))
        assert not any(_increases([n for place, n in enumerate(numbers) if mask >> place & 1]) for mask in subsets)


def _increases(numbers: list[int]) -> bool:
    return all(first < second for first, second in pairwise(numbers))


@pytest.mark.oracle
@goals
def test_xla_reads_every_reordered_module(goal: Goal) -> None:
    taken = ask_xla([dump.text for dump in DUMPS])
    texts = [new(dump, goal).to_string() for dump, is_taken in zip(DUMPS, taken, strict=True) if is_taken]
    assert len(texts) > 20
    assert ask_xla(texts) == [True] * len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["names", "sorting"])
def test_xla_computes_the_same_for_dumps(name: str) -> None:
    """Other dumps differ between executions: padding of dynamic shapes is uninitialized, and feeds need a host."""
    dump = next(dump for dump in DUMPS if str(dump) == f"cpu/{name}")
    assert same_results([[dump.text, *(str(new(dump, goal)) for goal in GOALS)]]) == [[True] * len(GOALS)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 40), marks=pytest.mark.long)], ids=str)
def test_xla_computes_the_same(seeds: range) -> None:
    """Loops, in-place updates, reductions: programs in five new orders, and one where the order decides."""
    given = [parse_module(text) for text in (IN_PLACE, *(scheduled_program(Random(seed)) for seed in seeds))]
    made = [[reorder(each, goal) for goal in GOALS] for each in given]
    assert all(any(moved_blocks(old, new) for new in news) for old, news in zip(given, made, strict=True))
    groups = [[str(old), *map(str, news)] for old, news in zip(given, made, strict=True)]
    assert same_results(groups) == [[True] * len(GOALS)] * len(groups)
