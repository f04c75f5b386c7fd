"""Sizes, sharing, allocations, and totals against the compiler's buffer assignment and memory analysis."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from compiler_memory import Assignment, Key, compiler_assignment
from dumps import Dump, compiled_dumps
from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes, prefetched_space
from hlo_cli.analysis.memory.memory_analysis import Allocation, MemoryAnalysis, memory_analysis
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.text.parser import parse_module
from placing import verdicts

DUMPS = compiled_dumps()
SPARSE_CORE = "extracted"
"""The part of a module that runs on the sparse core keeps its tuples in a space of its own."""

_TPU_GRAIN = 16384

each_dump = pytest.mark.parametrize("dump", DUMPS, ids=str)


def generation(dump: Dump) -> str:
    """The TPU generation in a fixture's name."""
    return dump.name.partition("_")[0] if dump.platform == "tpu" else USUAL_TPU


@cache
def memory(dump: Dump) -> MemoryAnalysis:
    return memory_analysis(parse_module(dump.text), generation=generation(dump))


def ours(allocation: Allocation) -> frozenset[Key]:
    return frozenset((value.instruction.name, value.index) for value in allocation.values)


def theirs(assignment: Assignment) -> frozenset[Key]:
    return frozenset(place.key for place in assignment.places)


def compared(dump: Dump) -> tuple[list[Allocation], list[Assignment]]:
    """The allocations to compare: only main memory on TPU, and none of applied computations."""
    mine = [a for a in memory(dump).allocations if a.kind != "thread-local" and a.values]
    given = [a for a in compiler_assignment(dump) if not a.is_local]
    if dump.platform == "tpu":
        mine, given = [a for a in mine if not a.space], [a for a in given if not a.colour]
    return mine, given


@each_dump
def test_buffers_have_the_compilers_sizes(dump: Dump) -> None:
    """Witness: the size of every buffer in the buffer assignment, which is that of its largest value."""
    for assignment in compiler_assignment(dump):
        for place in assignment.places:
            if SPARSE_CORE in str(dump.path) or (dump.platform == "tpu" and assignment.is_local):
                continue
            assert buffer_bytes(parse_shape(place.shape), memory(dump).target, generation(dump)) == place.size


@each_dump
def test_values_are_in_the_compilers_memory_spaces(dump: Dump) -> None:
    colours = {place.key: place.colour for a in compiler_assignment(dump) for place in a.places}
    for value in memory(dump).values:
        if SPARSE_CORE not in str(dump.path):
            assert value.space == colours[value.instruction.name, value.index], value


@each_dump
def test_values_share_allocations_as_in_the_compiler(dump: Dump) -> None:
    """Witness: the values of each allocation, its size, and its kind."""
    if SPARSE_CORE in str(dump.path):
        pytest.skip("its tuples lie elsewhere")
    mine, given = compared(dump)
    assert {ours(a) for a in mine} == {theirs(a) for a in given}
    if dump.platform != "tpu":
        assert Counter(a.size for a in mine) == Counter(a.size for a in given)
    parameters = {ours(a): a.parameter is not None for a in mine}
    assert parameters == {theirs(a): ", parameter " in a.words for a in given}
    outputs = {ours(a): a.is_output for a in mine}
    assert outputs == {theirs(a): "maybe-live-out" in a.words for a in given}


@each_dump
def test_offsets_are_the_compilers(dump: Dump) -> None:
    """Witness: the offsets in the buffer assignment; the text lacks those from memory space assignment."""
    if SPARSE_CORE in str(dump.path):
        pytest.skip("its tuples lie elsewhere")
    found = memory(dump)
    elsewhere = prefetched_space(found.target, found.generation)
    assert {space.offsets for space in found.spaces if space.number != elsewhere} == {"exact"}
    assert {space.offsets for space in found.spaces if space.number == elsewhere} <= {"unknown"}
    for space, verdict in verdicts(found, compiler_assignment(dump)).items():
        if space != elsewhere:
            assert verdict.temporaries == verdict.expected
            assert verdict.is_whole, verdict


@each_dump
def test_totals_are_those_of_the_memory_analysis(dump: Dump) -> None:
    """Witness: the compiler's memory analysis, in which pinned host memory is separate.

    That of TPUs rounds temporaries up, and leaves out those that are tables of tuples alone.
    """
    beside = sorted(dump.path.parent.glob("*truth.json"))
    found = [path for path in beside if path.name == "truth.json" or path.name.split(".")[0] in dump.path.name]
    if not found or SPARSE_CORE in str(dump.path):
        pytest.skip("no memory analysis")
    expected = json.loads(found[0].read_text())["memory_analysis"]
    for number, prefix in ((0, ""), (5, "host_")):
        space = memory(dump).space(number)
        if space is None:
            assert not any(size for name, size in expected.items() if name.startswith("host_") and number)
            continue
        assert space.totals.argument_bytes == expected[f"{prefix}argument_size_in_bytes"]
        assert space.totals.output_bytes == expected[f"{prefix}output_size_in_bytes"]
        assert space.totals.aliased_bytes == expected[f"{prefix}alias_size_in_bytes"]
        temporaries = space.totals.temporary_bytes
        if dump.platform == "tpu" and not number:
            temporaries = -(-temporaries // _TPU_GRAIN) * _TPU_GRAIN
            heap = next((a.values for a in memory(dump).allocations if a.is_heap and not a.space), ())
            temporaries *= any(isinstance(value.shape, ArrayShape) for value in heap)
        assert temporaries == expected[f"{prefix}temp_size_in_bytes"]


@each_dump
def test_values_with_overlapping_live_ranges_do_not_overlap_in_memory(dump: Dump) -> None:
    """In every allocation two values overlap in memory only if one ends before, or where, the other begins."""
    for allocation in memory(dump).allocations:
        placed = [v for v in allocation.values if v.start >= 0 and v.offset is not None and v.padded_bytes]
        placed.sort(key=lambda v: v.start)
        for n, value in enumerate(placed):
            assert value.offset is not None
            assert value.offset + value.padded_bytes <= allocation.size
            for other in placed[n + 1 :]:
                if other.start >= value.end:
                    break
                assert other.offset is not None
                apart = other.offset >= value.offset + value.padded_bytes
                assert apart or value.offset >= other.offset + other.padded_bytes, (str(value), str(other))


@each_dump
def test_the_timeline_is_the_sum_of_live_values(dump: Dump) -> None:
    """At every position the bytes are those of the values listed there, and the peak is the largest."""
    for space in memory(dump).spaces:
        for position in {0, space.peak_step, len(space.timeline) // 2, len(space.timeline) - 1}:
            assert sum(v.padded_bytes for v in space.live_at(position)) == space.timeline[position]
        assert space.peak_bytes == max(space.timeline)
        if space.offsets == "exact":
            assert space.peak_bytes <= sum(a.size for a in memory(dump).allocations if a.space == space.number)


def test_newer_releases_check_every_position_of_the_earlier_value() -> None:
    """In 0.10.2, the unused bitcast keeps the sine from reusing the memory of the negation."""
    text = """HloModule m, is_scheduled=true
    ENTRY e { p = f32[8]{0} parameter(0) a = f32[8]{0} negate(p) b = f32[2,4]{1,0} bitcast(a)
      ROOT c = f32[8]{0} sine(a) }"""
    module = parse_module(text)
    old, new = memory_analysis(module, target="cpu"), memory_analysis(module, target="cpu", release="2026-08")
    assert [space.totals.temporary_bytes for space in (*old.spaces, *new.spaces)] == [32, 0]


def test_a_module_with_a_gpu_fingerprint_is_for_gpu() -> None:
    """GPU heaps are aligned to 256 bytes, CPU heaps to 64: 100 bytes and then 40."""
    header = 'HloModule m, is_scheduled=true, frontend_attributes={fingerprint_before_lhs="0f"}'
    text = f"""{header}
    ENTRY e {{ p = f32[25]{{0}} parameter(0) q = f32[10]{{0}} parameter(1) a = f32[25]{{0}} negate(p)
      b = f32[10]{{0}} negate(q) ROOT r = f32[] custom-call(a, b), custom_call_target="f" }}"""
    found = memory_analysis(parse_module(text))
    assert (found.target, found.spaces[0].totals.temporary_bytes) == ("gpu", 256 + 40)
    assert memory_analysis(parse_module(text), target="cpu").spaces[0].totals.temporary_bytes == 128 + 40


def test_without_tiles_nothing_is_padded() -> None:
    for dump in DUMPS:
        if dump.platform != "tpu":
            for value in memory(dump).values:
                if isinstance(value.shape, ArrayShape) and not value.shape.is_dynamic:
                    assert value.padded_bytes == value.logical_bytes


@pytest.mark.parametrize("taken", ["", "p", "p, p", "p, p, p"])
def test_transfers_with_missing_or_extra_operands_have_memory_too(taken: str) -> None:
    for opcode in ("send", "recv", "copy-start"):
        shape = "(f32[4], u32[], token[])"
        memory = memory_analysis(
            parse_module(f"ENTRY e {{ p = f32[4] parameter(0)  ROOT s = {shape} {opcode}({taken}) }}")
        )
        assert memory.spaces


@pytest.mark.parametrize(("opcode", "temporaries"), [("copy", 4000), ("negate", 0)])
def test_a_copy_never_reuses_the_memory_of_its_operand(opcode: str, temporaries: int) -> None:
    """Witness: jaxlib 0.10.2, whose buffer assignment checks the opcode first."""
    text = f"""HloModule m, is_scheduled=true
    ENTRY e {{ p = f32[1000]{{0}} parameter(0) q = f32[1000]{{0}} parameter(1) t = f32[1000]{{0}} sine(q)
      ROOT c = f32[1000]{{0}} {opcode}(t) }}"""
    assert memory_analysis(parse_module(text), target="cpu").spaces[0].totals.temporary_bytes == temporaries


@pytest.mark.parametrize(("second", "temporaries"), [("b", 0), ("n", 64)])
def test_an_output_fusion_overwrites_only_the_addend_of_a_dot(second: str, temporaries: int) -> None:
    """Witness: XLA's source, which checks nothing else if a dot is added; the operand must have no other use."""
    text = f"""HloModule m, is_scheduled=true
    f {{ a = f32[4,4] parameter(0) b = f32[4,4] parameter(1)
      d = f32[4,4] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      n = f32[4,4] negate(b) ROOT r = f32[4,4] add(d, {second}) }}
    ENTRY e {{ p = f32[4,4] parameter(0) q = f32[4,4] negate(p)
      ROOT z = f32[4,4] fusion(p, q), kind=kOutput, calls=f }}"""
    if second == "b":
        text = text.replace("n = f32[4,4] negate(b)", "")
    assert memory_analysis(parse_module(text), target="cpu").spaces[0].totals.temporary_bytes == temporaries


def test_operands_share_memory_only_where_tpu_compilers_list_it() -> None:
    """Witness: a scalar addition compiled for v3, whose lists are empty, and another whose list names both."""
    text = """HloModule m, is_scheduled=true
    ENTRY e { p = f32[]{:T(256)} parameter(0) a = f32[]{:T(256)S(6)} sine(p)
      b = f32[]{:T(256)S(6)} negate(a), backend_config={"aliasing_operands":{"lists":[LISTED]}}
      ROOT c = f32[]{:T(256)} cosine(b) }"""
    for listed, taken in (('{"indices":["0","1"]}', 1024), ("", 2048)):
        space = memory_analysis(parse_module(text.replace("LISTED", listed)), generation="v3").space(6)
        assert space is not None
        assert space.totals.temporary_bytes == taken


def test_a_nearly_full_tpu_uses_another_strategy() -> None:
    """Above 5,349,826,560 bytes on v2, temporaries may share memory with later results, if the generation is known."""
    text = """HloModule m, is_scheduled=true
    ENTRY e { p = f32[1024]{0:T(1024)} parameter(0) a = f32[1048576,512]{1,0:T(8,128)} broadcast(p), dimensions={}
      b = f32[1048576,512]{1,0:T(8,128)} custom-call(a), custom_call_target="f"
      c = f32[1048576,512]{1,0:T(8,128)} custom-call(b), custom_call_target="f"
      d = f32[] reduce(c) ROOT r = f32[1048576,512]{1,0:T(8,128)} broadcast(d), dimensions={} }"""
    told, guessed = memory_analysis(parse_module(text), generation="v2"), memory_analysis(parse_module(text))
    assert (told.strategy, guessed.strategy) == ("SPATIAL", "FAST_MERGE")
    assert told.spaces[0].totals.temporary_bytes < guessed.spaces[0].totals.temporary_bytes


def test_permutes_of_several_operands_have_no_table_of_them() -> None:
    """Witness: the buffer assignment of a ring attention for H100, whose collective-permute-start has two operands."""
    text = """HloModule m, is_scheduled=true
      ENTRY e { a = f32[64]{0} parameter(0)  b = f32[32]{0} parameter(1)
      s = ((f32[64]{0}, f32[32]{0}), (f32[64]{0}, f32[32]{0})) collective-permute-start(a, b),
        source_target_pairs={{0,1},{1,0}}
      ROOT d = (f32[64]{0}, f32[32]{0}) collective-permute-done(s) }"""
    found = [value.index for value in memory_analysis(parse_module(text)).values if value.instruction.name == "s"]
    assert found == [(), (1,), (1, 0), (1, 1)]


def test_prefetched_operands_are_overwritten_where_aliases_are_listed() -> None:
    """Witness: 189 of 189 pairs in dumps of libtpu, whose operand comes from a copy-done."""
    text = """HloModule m, is_scheduled=true
      b { q = f32[64,128]{1,0:T(8,128)S(1)} parameter(0)  ROOT n = f32[64,128]{1,0:T(8,128)S(1)} negate(q) }
      ENTRY e { a = f32[64,128]{1,0:T(8,128)} parameter(0)
      s = (f32[64,128]{1,0:T(8,128)S(1)}, f32[64,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(a)
      d = f32[64,128]{1,0:T(8,128)S(1)} copy-done(s)
      f = f32[64,128]{1,0:T(8,128)S(1)} fusion(d), kind=kLoop, calls=b, backend_config=CONFIG
      ROOT r = f32[64,128]{1,0:T(8,128)} copy(f) }"""

    def vmem(lists: str) -> tuple[int, int]:
        config = f'{{"aliasing_operands":{{"lists":[{lists}]}}}}'
        spaces = memory_analysis(parse_module(text.replace("CONFIG", config))).spaces
        return next((space.peak_bytes, space.totals.temporary_bytes) for space in spaces if space.number == 1)

    assert vmem('{"indices":["0","1"]}') == (32768, 32768)
    assert vmem("") == (65536, 65536)


def test_prefetched_values_make_room_in_branches_that_do_not_use_them() -> None:
    """Witness: libtpu puts values of one branch where those are that only another branch uses."""
    small, large = "f32[64,128]{1,0:T(8,128)S(1)}", "f32[128,128]{1,0:T(8,128)S(1)}"
    text = f"""HloModule m, is_scheduled=true
      x {{ p = {small} parameter(0)  b = {large} broadcast(p)  ROOT r = f32[] custom-call(b), custom_call_target="f" }}
      y {{ q = {small} parameter(0)  ROOT r = f32[] custom-call(q), custom_call_target="f" }}
      ENTRY e {{ i = pred[] parameter(0)  k = f32[] parameter(1)  v = {small} broadcast(k)  w = {small} broadcast(k)
      ROOT c = f32[] conditional(i, v, w), true_computation=x, false_computation=y }}"""
    memory = memory_analysis(parse_module(text), target="tpu")
    vmem = next(space for space in memory.spaces if space.number == 1)
    assert vmem.totals.temporary_bytes == vmem.peak_bytes == 32768 + 65536  # v is read to make b, w is dead there


def test_copies_of_scalar_parameters_are_not_overwritten() -> None:
    """Witness: the log of libtpu, in which only these copies have S(6) while buffers are assigned."""
    scalar = "f32[1]{0:T(128)S(6)}"
    text = f"""HloModule m, is_scheduled=true
      ENTRY e {{ p = f32[1]{{0:T(128)}} parameter(0)  c = {scalar} copy(p)
      n = {scalar} negate(c)  a = {scalar} abs(n)  ROOT r = f32[1]{{0:T(128)}} copy(a) }}"""
    values = {v.instruction.name: v.offset for v in memory_analysis(parse_module(text)).values if v.space == 6}
    assert values == {"c": 0, "n": 512, "a": 512}


def test_offsets_that_depend_on_the_order_of_computations_are_estimates() -> None:
    """Texts do not list computations in the order in which XLA numbers their values, which decides ties; protos do."""
    text = """HloModule m, is_scheduled=true
      f { u = f32[64]{0} parameter(0)  ROOT a = f32[64]{0} sine(u) }
      g { v = f32[64]{0} parameter(0)  ROOT b = f32[64]{0} cosine(v) }
      ENTRY e { p = f32[64]{0} parameter(0)
      c = f32[64]{0} call(p), to_apply=f  d = f32[64]{0} call(p), to_apply=g
      x = f32[32]{0} slice(c), slice={[0:32]}  y = f32[32]{0} slice(d), slice={[0:32]}
      ROOT t = (f32[32]{0}, f32[32]{0}) tuple(x, y) }"""
    module = parse_module(text)
    assert [space.offsets for space in memory_analysis(module, target="cpu").spaces] == ["estimated"]
    told = replace(module, value_order=module.computations)
    assert [space.offsets for space in memory_analysis(told, target="cpu").spaces] == ["exact"]
    other = replace(module, value_order=module.computations[::-1])
    assert [value_offsets(each) for each in (told, other)] == [{"a": 0, "b": 256}, {"a": 256, "b": 0}]


def test_buffers_that_begin_with_one_fusion_may_be_assigned_in_either_order() -> None:
    """Witness: two results of a fusion that loops of a program for A100 carry, of which one gets an output's memory."""
    body = "b{} {{ p = f32[64]{{0}} parameter(0)  ROOT r{} = f32[64]{{0}} sine(p) }}"
    condition = "c{} {{ p = f32[64]{{0}} parameter(0)  ROOT k = pred[] constant(false) }}"
    text = f"""HloModule m, is_scheduled=true
      {body.format(1, 1)} {condition.format(1)} {body.format(2, 2)} {condition.format(2)}
      f {{ q = f32[64]{{0}} parameter(0)  n = f32[64]{{0}} negate(q)  ROOT t = (f32[64]{{0}}, f32[64]{{0}}) tuple(n, q) }}
      ENTRY e {{ x = f32[64]{{0}} parameter(0)  y = (f32[64]{{0}}, f32[64]{{0}}) fusion(x), kind=kLoop, calls=f
      u = f32[64]{{0}} get-tuple-element(y), index=0  v = f32[64]{{0}} get-tuple-element(y), index=1
      w = f32[64]{{0}} while(u), condition=c1, body=b1  z = f32[64]{{0}} while(v), condition=c2, body=b2
      ROOT a = f32[64]{{0}} add(w, z) }}"""
    module = parse_module(text)
    assert [space.offsets for space in memory_analysis(module, target="cpu").spaces] == ["estimated"]
    told = replace(module, value_order=module.computations)
    assert [space.offsets for space in memory_analysis(told, target="cpu").spaces] == ["exact"]


def value_offsets(module: Module) -> dict[str, int | None]:
    """The offsets of the results of `f` and `g`."""
    values = memory_analysis(module, target="cpu").values
    return {value.instruction.name: value.offset for value in values if value.instruction.name in ("a", "b")}


@pytest.mark.parametrize(
    ("body", "is_shared"),
    [
        ("ROOT n = f32[1024] negate(a)", True),
        ("ROOT n = s32[1024] bitcast-convert(a)", True),
        ("ROOT n = f16[1024] convert(a)", False),
        ("ROOT n = f32[1024] reverse(a), dimensions={0}", False),  # elements are read after their place is written
        ("n = f32[8] slice(a), slice={[0:8]}  ROOT d = f32[1024] dynamic-update-slice(a, n, i)", True),
    ],
)
def test_a_fusion_on_gpu_overwrites_what_it_has_read(body: str, is_shared: bool) -> None:
    """As xla/service/gpu/alias_info.cc has it; a fusion that updates a slice is in place in every program."""
    kind = body.partition("ROOT")[2].split()[2].partition("[")[0]
    text = f"""HloModule m, is_scheduled=true, frontend_attributes={{fingerprint_before_lhs="0f"}}
f {{ a = f32[1024] parameter(0)  i = s32[] parameter(1)  {body} }}
g {{ b = f32[1024] parameter(0)  ROOT n = f32[1024] negate(b) }}
h {{ c = {kind}[1024] parameter(0)  ROOT t = {kind}[8] slice(c), slice={{[0:8]}} }}
ENTRY e {{ x = f32[1024] parameter(0)  k = s32[] parameter(1)
  y = f32[1024] fusion(x), kind=kLoop, calls=g
  z = {kind}[1024] fusion(y, k), kind=kLoop, calls=f
  ROOT r = {kind}[8] fusion(z), kind=kLoop, calls=h }}"""
    own = 0 if is_shared else 2048 if kind == "f16" else 4096
    assert memory_analysis(parse_module(text)).spaces[0].totals.temporary_bytes == 4096 + own
