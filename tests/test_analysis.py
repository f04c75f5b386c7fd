"""Analyses against what the compilers say: values in memory, trip counts, default tiles, targets, better orders."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumps import Dump, compiled_dumps
from hlo_cli.analysis.dataflow.dependencies import Value, passes_on, sequentially_executed, values_of
from hlo_cli.analysis.dataflow.executions import CallTreeNode, call_tree, computation_kinds, trip_count
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import Grouping, data_values, footprints, grouping_key, orders_of
from hlo_cli.analysis.layout.tpu_layout import best_order, default_tpu_layout
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.text.parser import parse_module

GROUPINGS: tuple[Grouping, ...] = ("shape", "instruction", "computation", "opcode", "op_name")
VALUE = re.compile(r" value: <\d+ (\S+?)(\{[\d,]*\})? @\d+> \(size=\d+,offset=\d+\): (.*)")
DUMPS = compiled_dumps()

each_dump = pytest.mark.parametrize("dump", DUMPS, ids=str)


def assigned(dump: Dump) -> set[str]:
    """The arrays to which the compiler's buffer assignment gives memory."""
    found = (VALUE.match(line) for line in dump.sibling("buffer-assignment").splitlines())
    return {
        match[1] + (match[2] if match[2] not in (None, "{}") else "")
        for match in found
        if match and isinstance(parse_shape(match[3]), ArrayShape)
    }


@each_dump
def test_values_are_those_that_the_compiler_puts_into_memory(dump: Dump) -> None:
    """Witness: buffer assignment. It also lists the scalars inside applied computations, which we leave out."""
    module = parse_module(dump.text)
    sugared = {i.name for i in module.instructions if i.opcode.endswith("-start") and i.opcode != "async-start"}
    ours = {str(value) for value in values_of(module)}
    theirs = assigned(dump)
    assert {name for name in ours - theirs if name.partition("{")[0] not in sugared} == set()
    # the contexts of an async-update lie where those of its async-start do
    sequential = {i.name for c in sequentially_executed(module) for i in c.instructions if i.opcode != "async-update"}
    # and what fusions of an async collective hand on lies where its start put it: no array of its own
    handed_on = {
        str(Value(i, index, leaf))
        for i in module.instructions
        for index, leaf in i.shape.leaves
        if isinstance(leaf, ArrayShape) and i.opcode == "fusion" and passes_on(i, index)
    }
    assert {name for name in theirs - ours - handed_on if name.partition("{")[0] in sequential} == set()


@each_dump
def test_the_target_is_read_from_the_text(dump: Dump) -> None:
    """Witness: for which platform the fixture was compiled."""
    assert target_of(parse_module(dump.text)) == dump.platform


def test_trip_counts_equal_what_the_compiler_noted() -> None:
    """Witness: `known_trip_count` in backend_config, which CPU and GPU compilers write; taken away, we must find it."""
    checked = 0
    for dump in DUMPS:
        noted = [trip_count(i) for i in parse_module(dump.text).instructions if i.opcode == "while"]
        bare = parse_module(re.sub(r'"known_trip_count":\{"n":"\d+"\}', '"gone":{}', dump.text))
        loops = [i for i in bare.instructions if i.opcode == "while"]
        for count, loop in zip(noted, loops, strict=True):
            if count is not None and "known_trip_count" in dump.text:
                assert trip_count(loop) in (count, None), loop.name
                checked += trip_count(loop) == count
    assert checked >= 2


def test_loops_that_count_down_and_by_steps() -> None:
    """Each row: start, step, operation, comparison, limit, trips."""
    rows = [
        (0, 1, "add", "LT", 10, 10),
        (0, 3, "add", "LT", 10, 4),
        (10, 1, "subtract", "GT", 0, 10),
        (5, 2, "add", "LE", 9, 3),
        (0, 2, "add", "NE", 8, 4),
        (0, 3, "add", "NE", 8, None),
        (9, 1, "add", "LT", 3, 0),
    ]
    for start, step, operation, direction, limit, trips in rows:
        module = parse_module(
            f"""HloModule m
            c {{ p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant({limit})
                ROOT r = pred[] compare(i, n), direction={direction} }}
            b {{ p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant({step})
                j = s32[] {operation}(i, n) ROOT r = (s32[]) tuple(j) }}
            ENTRY e {{ z = s32[] constant({start}) t = (s32[]) tuple(z)
                ROOT w = (s32[]) while(t), condition=c, body=b }}"""
        )
        assert module.entry.root is not None
        assert trip_count(module.entry.root) == trips, (start, step, operation, direction, limit)


@each_dump
def test_arguments_have_default_tiles(dump: Dump) -> None:
    """Witness: the layouts that the TPU compiler gave to entry parameters nobody laid out."""
    if dump.platform != "tpu":
        pytest.skip("only TPUs tile")
    generation = dump.name.partition("_")[0]
    for parameter in parse_module(dump.text).entry.parameters:
        for _, leaf in parameter.shape.leaves:
            if isinstance(leaf, ArrayShape) and not leaf.is_dynamic:
                assert replace(leaf, layout=default_tpu_layout(leaf, generation=generation)) == leaf


@given(
    st.lists(st.integers(1, 300), min_size=2, max_size=4),
    st.sampled_from(["f32", "bf16", "s8", "s4", "pred"]),
    st.data(),
)
def test_no_order_beats_the_better_order(sizes: list[int], kind: str, data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(sizes)))))
    plain = parse_shape(f"{kind}[{','.join(map(str, sizes))}]")
    assert isinstance(plain, ArrayShape)
    shape = replace(plain, layout=default_tpu_layout(plain, minor_to_major=order))
    every = [
        replace(shape, layout=default_tpu_layout(shape, minor_to_major=tuple(other))).padded_bytes
        for other in permutations(range(len(sizes)))
    ]
    better = best_order(shape)
    assert (better.padded_bytes if better else shape.padded_bytes) == min(every)
    if better:
        assert replace(shape, layout=better.layout).padded_bytes == better.padded_bytes
        assert better.layout.memory_space == shape.layout.memory_space


@each_dump
def test_every_grouping_holds_the_same_bytes(dump: Dump) -> None:
    module = parse_module(dump.text)
    values = data_values(module)
    orders = orders_of(module, values)
    sums = {}
    for grouping in GROUPINGS:
        found = footprints(values, orders, grouping_key(grouping))
        sums[grouping] = (
            sum(len(f.values) for f in found),
            sum(f.logical_bytes for f in found),
            sum(f.padded_bytes for f in found),
            sum(f.saving_bytes for f in found),
        )
    assert len(set(sums.values())) == 1
    assert sums["shape"][2] == sum(value.shape.padded_bytes for value in values)


@each_dump
def test_every_computation_has_one_kind_and_the_tree_holds_what_runs(dump: Dump) -> None:
    module = parse_module(dump.text)
    kinds = computation_kinds(module)
    assert set(kinds) == set(module.computations)
    fused = {c for i in module.instructions if i.opcode == "fusion" for c in i.called_computations}
    assert {c for c, kind in kinds.items() if kind == "fused"} == fused
    found = set()
    waiting: list[CallTreeNode] = [call_tree(module)]
    while waiting:
        node = waiting.pop()
        found |= {node.computation} - {None}
        waiting.extend(node.children)
    run = set(sequentially_executed(module))
    conditions = {c for i in module.instructions if i.opcode == "while" for c in i.called_computations[1:]}
    assert found | conditions >= run
    assert found <= run


def test_a_call_that_never_ends_is_cut() -> None:
    """No module of XLA calls itself; a broken text may."""
    module = parse_module("HloModule m\nENTRY e { p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=e }")
    assert call_tree(module).children == ()
    assert [error.message for error in module.errors] == ["c: recursive call of e"]
