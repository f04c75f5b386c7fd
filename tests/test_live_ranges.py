"""The flattened schedule, dataflow, and live ranges against those that the compiler dumped."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compiler_memory import Key, compiler_positions, compiler_ranges
from dumps import Dump, compiled_dumps
from hlo_cli.analysis.dataflow.flat_schedule import InPlace, Places, async_chains, flat_schedule, places_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow, alias_sets, dataflow_of, simplify_phis
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.ir.module import Module
from hlo_cli.syntax.text.parser import parse_module

DUMPS = compiled_dumps()
each_dump = pytest.mark.parametrize("dump", DUMPS, ids=str)


def flow(module: Module) -> Dataflow:
    places = places_of(module)
    return dataflow_of(places, async_chains(places.instructions))


def key(places: Places, value: int) -> Key:
    return places.instructions[places.owner[value]].name, places.index(value)


@each_dump
def test_the_schedule_is_flattened_as_by_the_compiler(dump: Dump) -> None:
    """Witness: the instruction sequence of the live-range dump."""
    sequence = memory_analysis(parse_module(dump.text)).sequence
    assert [instruction.name for instruction in sequence] == compiler_ranges(dump).sequence


@each_dump
def test_live_ranges_match_the_compilers(dump: Dump) -> None:
    """Witness: the live-range dump, with its peak and all values live there, in unpadded bytes."""
    memory = memory_analysis(parse_module(dump.text))
    theirs = compiler_ranges(dump)
    ours = {(v.instruction.name, v.index): (v.start, v.end) for v in memory.values}
    assert ours == theirs.ranges
    assert memory.live_range_peak_step == theirs.peak
    alive = [v for v in memory.values if v.start <= memory.live_range_peak_step <= v.end]
    assert {(v.instruction.name, v.index): v.logical_bytes for v in alive} == theirs.alive


@each_dump
def test_positions_of_values_match_the_compilers(dump: Dump) -> None:
    """Witness: the positions in the compiler's list of values, where the fixture has it."""
    theirs = compiler_positions(dump)
    if not theirs:
        pytest.skip("no list of values")
    dataflow = flow(parse_module(dump.text))
    places = dataflow.places
    ours: dict[Key, set[Key]] = {}
    for place, value in enumerate(dataflow.value):
        ours.setdefault(key(places, value), set()).add(key(places, place))
    names = {instruction.name for instruction in places.instructions}
    assert ours == {value: stands for value, stands in theirs.items() if value[0] in names}


@each_dump
def test_every_position_has_a_value_with_itself_as_a_position(dump: Dump) -> None:
    dataflow = flow(parse_module(dump.text))
    assert set(dataflow.value) == set(dataflow.values)
    assert all(dataflow.value[value] == value for value in dataflow.values)
    assert dataflow.phis <= set(dataflow.values)


@each_dump
def test_values_of_one_buffer_follow_each_other(dump: Dump) -> None:
    by_buffer: dict[int, list[tuple[int, int]]] = {}
    for value in memory_analysis(parse_module(dump.text)).values:
        by_buffer.setdefault(value.buffer, []).append((value.start, value.end))
    for lives in by_buffer.values():
        lives.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(lives))


@each_dump
def test_runs_are_nested_and_cover_all_positions(dump: Dump) -> None:
    memory = memory_analysis(parse_module(dump.text))
    entry, *others = memory.runs
    assert (entry.start, entry.end, entry.depth) == (0, len(memory.sequence), 0)
    assert Counter(memory.sequence).most_common(1)[0][1] == 1
    for run in others:
        assert run.caller is not None
        assert run.end <= memory.positions[run.caller]
        assert {i.computation for i in memory.sequence[run.start : run.end]} >= {run.computation}


def test_a_sugared_start_hides_ticks() -> None:
    """The wrapped operation and its parameters take positions before the start, and give it its output."""
    text = """HloModule m, is_scheduled=true
    ENTRY e { p = f32[4]{0} parameter(0)
      s = ((f32[4]{0}), f32[2]{0}, u32[]) slice-start(p), slice={[0:2]}
      n = f32[4]{0} negate(p)
      d = f32[2]{0} slice-done(s)
      ROOT t = (f32[2]{0}, f32[4]{0}) tuple(d, n) }"""
    hidden = """%wrapped (a: f32[4]) -> f32[2] {
      %a = f32[4]{0} parameter(0)
      ROOT %r = f32[2]{0} slice(%a), slice={[0:2]} }
    """
    written = text.replace("slice-start(p), slice={[0:2]}", "async-start(p), calls=%wrapped").replace(
        "slice-done", "async-done"
    )
    written = written.replace("    ENTRY", hidden + "ENTRY")
    sugared, plain = (
        memory_analysis(parse_module(text), target="cpu"),
        memory_analysis(parse_module(written), target="cpu"),
    )
    assert len(sugared.sequence) == len(plain.sequence)
    assert [(v.start, v.end) for v in sugared.values] == [(v.start, v.end) for v in plain.values]
    assert sugared.live_range_peak_step == plain.live_range_peak_step


def test_a_loop_invariant_has_no_phi_and_a_carried_value_has() -> None:
    text = """HloModule m, is_scheduled=true
    c { q = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(q), index=0
      n = s32[] get-tuple-element(q), index=1 ROOT r = pred[] compare(i, n), direction=LT }
    b { q = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(q), index=0
      n = s32[] get-tuple-element(q), index=1 j = s32[] add(i, n) ROOT t = (s32[], s32[]) tuple(j, n) }
    ENTRY e { z = s32[] constant(0) n = s32[] parameter(0) t = (s32[], s32[]) tuple(z, n)
      ROOT w = (s32[], s32[]) while(t), condition=c, body=b }"""
    memory = memory_analysis(parse_module(text))
    assert {str(v) for v in memory.values if v.is_phi and v.instruction.opcode == "while"} == {"w", "w{0}"}
    assert {str(v) for v in memory.values if v.instruction.name == "n"} == {"n"}


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 12), min_size=1, max_size=3), max_size=8))
def test_simplified_phis_have_one_source(inputs: dict[int, list[int]]) -> None:
    """A phi is replaced by another value only if no other value reaches it, as a search over all paths shows."""

    def sources(phi: int) -> set[int]:
        seen, waiting = {phi}, [phi]
        while waiting:
            for given_ in inputs.get(waiting.pop(), ()):
                if given_ not in seen:
                    seen.add(given_)
                    waiting.append(given_)
        return {value for value in seen if value not in inputs}

    assume(all(sources(phi) for phi in inputs))  # a value comes from somewhere
    found = simplify_phis(inputs)
    for phi in inputs:
        if phi in found:
            assert sources(found[phi]) | ({found[phi]} - inputs.keys()) == sources(phi)
            assert found[phi] not in found
        else:
            assert len(set(inputs[phi]) - {phi}) > 1


def test_a_phi_may_depend_on_one_that_is_replaced() -> None:
    """Witness: jaxlib's values of a loop in a loop's condition, whose body runs a loop that changes nothing.

    The parameters of the inner loop and its result are that of the condition; the outer loop's result is not.
    """
    text = """HloModule m, is_scheduled=true
    same { ROOT a = f32[4] parameter(0) }
    no { b = f32[4] parameter(0) ROOT n = pred[] constant(false) }
    body { c = f32[4] parameter(0) ROOT inner = f32[4] while(c), condition=no, body=same }
    stop { d = f32[4] parameter(0) ROOT m = pred[] constant(false) }
    work { e = f32[4] parameter(0) ROOT w = f32[4] negate(e) }
    again { f = f32[4] parameter(0) outer = f32[4] while(f), condition=stop, body=body
      g = f32[4] negate(outer) ROOT o = pred[] constant(false) }
    ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] while(p), condition=again, body=work }"""
    names = {str(value) for value in memory_analysis(parse_module(text), target="cpu").values}
    assert {"f", "outer"} <= names
    assert not {"a", "b", "c", "inner"} & names


def test_an_unscheduled_module_runs_in_the_order_of_its_text() -> None:
    text = "HloModule m  ENTRY e { p = f32[8]{0} parameter(0) a = f32[8]{0} negate(p) ROOT b = f32[8]{0} sine(a) }"
    assert memory_analysis(parse_module(text)).order == "text"
    scheduled = memory_analysis(parse_module(text.replace("HloModule m", "HloModule m, is_scheduled=true")))
    assert scheduled.order == "schedule"
    unscheduled = memory_analysis(parse_module(text), target=scheduled.target)
    assert [(v.start, v.end) for v in unscheduled.values] == [(v.start, v.end) for v in scheduled.values]


def test_donated_parameters_end_at_their_last_use_and_share_the_result() -> None:
    text = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }
    ENTRY e { p = f32[8]{0} parameter(0) q = f32[8]{0} parameter(1) ROOT a = f32[8]{0} add(p, q) }"""
    memory = memory_analysis(parse_module(text), target="cpu")
    lives = {str(v): (v.start, v.end, v.kind) for v in memory.values}
    assert lives == {"p": (0, 2, "aliased"), "q": (0, 3, "argument"), "a": (2, 3, "aliased")}
    assert memory.spaces[0].totals.aliased_bytes == 32


def test_in_place_updates_inside_fusions_share_a_buffer() -> None:
    text = """HloModule m, is_scheduled=true
    f { a = f32[8]{0} parameter(0) u = f32[2]{0} parameter(1) i = s32[] parameter(2) x = f32[8]{0} bitcast(a)
      ROOT d = f32[8]{0} dynamic-update-slice(x, u, i) }
    ENTRY e { p = f32[8]{0} parameter(0) c = f32[8]{0} copy(p) u = f32[2]{0} parameter(1) i = s32[] parameter(2)
      ROOT r = f32[8]{0} fusion(c, u, i), kind=kLoop, calls=f }"""
    dataflow = flow(module := parse_module(text))
    aliases = alias_sets(module, dataflow, InPlace())
    root, copy = (dataflow.places.first_of(module.instruction(name)) for name in ("r", "c"))
    assert aliases.buffer[root] == aliases.buffer[copy]
    assert len(flat_schedule(dataflow.places, module.entry, dataflow.chains).sequence) == 5


def test_a_module_that_calls_itself_comes_to_an_end() -> None:
    """XLA has no such modules; malformed text may."""
    text = """HloModule m
    f { a = f32[] parameter(0) ROOT c = f32[] call(a), to_apply=f }
    ENTRY e { p = f32[] parameter(0) ROOT r = f32[] call(p), to_apply=f }"""
    assert [i.name for i in memory_analysis(parse_module(text)).sequence] == ["p", "a", "c", "r"]


REDUCED = """HloModule rs, is_scheduled=true
    plus { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
    wrapped { a = f32[8] parameter(0) b = f32[8] parameter(1)
      ROOT rs = (f32[4], f32[4]) reduce-scatter(a, b), replica_groups={{0,1}}, dimensions={0}, to_apply=plus }
    ENTRY e { p = f32[8] parameter(0) q = f32[8] parameter(1)
      s = ((f32[8], f32[8]), (f32[4], f32[4])) async-start(p, q), calls=wrapped
      UPDATE
      ROOT d = (f32[4], f32[4]) async-done(s) }"""


def lives(text: str, target: Target) -> dict[str, tuple[int, int]]:
    memory = memory_analysis(parse_module(text), target=target)
    return {str(value): (value.start, value.end) for value in memory.values}


def test_an_async_tuple_result_has_a_table_at_every_member() -> None:
    """Witness: the live ranges that jaxlib 0.10.2 dumps of these texts."""
    expected = {"rs": (4, 6), "rs{0}": (4, 7), "rs{1}": (4, 7), "p": (0, 7), "q": (0, 7)}
    expected |= {"s": (5, 6), "s{0}": (5, 6), "s{1}": (5, 6), "d": (6, 7)}
    assert lives(REDUCED.replace("UPDATE", ""), "cpu") == expected
    update = "u = ((f32[8], f32[8]), (f32[4], f32[4])) async-update(s)"
    found = lives(REDUCED.replace("UPDATE", update).replace("async-done(s)", "async-done(u)"), "cpu")
    assert {"u", "u{0}", "u{1}"} <= found.keys()
    assert not {"u{0,0}", "u{0,1}", "u{1,0}", "u{1,1}"} & found.keys()


@pytest.mark.parametrize("aliasing", ["", ", output_to_operand_aliasing={{2}: (0, {2})}"])
def test_an_update_keeps_the_context_unless_it_declares_an_alias(aliasing: str) -> None:
    """Witness: jaxlib 0.10.2 without, libtpu 0.0.51 with the attribute."""
    text = f"""HloModule m, is_scheduled=true
    w {{ a = f32[8] parameter(0) ROOT r = f32[4] slice(a), slice={{[0:4]}} }}
    ENTRY e {{ p = f32[8] parameter(0) s = ((f32[8]), f32[4], u32[]) async-start(p), calls=w
      u = ((f32[8]), f32[4], u32[]) async-update(s){aliasing} n = f32[8] negate(p)
      ROOT d = f32[4] async-done(u) }}"""
    found = lives(text, "cpu")
    assert ("u{2}" in found) == bool(aliasing)
    assert found["s{2}"] == ((3, 6) if not aliasing else (3, 4))


def test_the_result_of_an_async_in_place_update_is_live_from_the_start_on_tpu() -> None:
    """Witness: a loop that writes to host memory, compiled for v5e; the operand it overwrites ends where it starts."""
    text = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }
    w { a = f32[8] parameter(0) b = f32[2] parameter(1) i = s32[] parameter(2)
      ROOT r = f32[8] dynamic-update-slice(a, b, i) }
    ENTRY e { p = f32[8] parameter(0) q = f32[2] parameter(1) i = s32[] parameter(2)
      s = ((f32[8], f32[2], s32[]), f32[8], u32[]) async-start(p, q, i), calls=w
      ROOT d = f32[8] async-done(s) }"""
    assert (lives(text, "cpu")["r"], lives(text, "tpu")["r"]) == ((6, 9), (7, 9))
    assert (lives(text, "cpu")["p"], lives(text, "tpu")["p"]) == ((0, 6), (0, 7))


def test_the_last_position_of_a_value_is_its_definition_if_that_lasts_until_the_done() -> None:
    """Not the done, which ends at the same step; so its memory cannot be reused there, as in jaxlib 0.10.2."""
    text = """HloModule m, is_scheduled=true
    w { a = f32[8] parameter(0) ROOT r = f32[4] slice(a), slice={[0:4]} }
    ENTRY e { p = f32[8] parameter(0) s = ((f32[8]), f32[4], u32[]) async-start(p), calls=w
      d = f32[4] async-done(s) ROOT n = f32[4] negate(d) }"""
    memory = memory_analysis(parse_module(text), target="cpu")
    offsets = {str(value): value.allocation for value in memory.values}
    assert offsets["r"] != offsets["n"]


def test_of_two_positions_at_one_step_that_of_the_callee_counts() -> None:
    """The result of a call is also at the callee's root, which ends at the call: the sum does not use it."""
    text = """HloModule m, is_scheduled=true
    f { a = f32[8] parameter(0) ROOT b = f32[8] sine(a) }
    ENTRY e { p = f32[8] parameter(0) c = f32[8] call(p), to_apply=f ROOT n = f32[8] add(c, c) }"""
    memory = memory_analysis(parse_module(text), target="cpu")
    offsets = {str(value): value.allocation for value in memory.values}
    assert offsets["b"] != offsets["n"]


def test_an_async_start_of_a_computation_that_a_fusion_calls_has_a_range() -> None:
    """Invalid, but read: what a fusion calls has no live ranges of its own."""
    text = """HloModule m, is_scheduled=true
f { c = f32[8]{0:T(128)} constant({...})  ROOT n = f32[8]{0:T(128)} negate(c) }
ENTRY e {
  k = f32[8]{0:T(128)} fusion(), kind=kLoop, calls=f
  s = ((), f32[8]{0:T(128)}, u32[]) async-start(), calls=f
  ROOT d = f32[8]{0:T(128)} async-done(s)
}"""
    space = memory_analysis(parse_module(text), target="tpu").spaces[0]
    assert space.peak_bytes > 0
