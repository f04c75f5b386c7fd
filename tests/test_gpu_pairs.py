"""Decisions of XLA:GPU's priority fusion on a pair: those of its dump are found by both names, and numbers add up."""

from __future__ import annotations

import pytest

from gpu_fusion_dumps import HOME, Program
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_model import LAUNCH
from hlo_cli.analysis.fusion.gpu_rules import ONLY_BITCASTS
from hlo_cli.analysis.fusion.gpu_work import microseconds
from hlo_cli.commands.fuse.why_not import _within
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess
from hlo_cli.ir.module import Module
from hlo_cli.source import Source
from hlo_cli.syntax.compiler_files.fusion_process import parse_fusion_process
from hlo_cli.transform.fusion.gpu_decisions import GpuPair, kernels_of_dump, may_be_made, pairs_of, pairs_of_dump
from hlo_cli.transform.fusion.gpu_fusion import ChipPair, GpuDecision, GpuFusion, gpu_decisions, gpu_fuse, pairs_by_chip

ARRAY = "f32[4096,256]"
ARRAY_BYTES = 4 * 4096 * 256
CHAIN = f"""HloModule chain
ENTRY main {{
  p = {ARRAY} parameter(0)
  a = {ARRAY} exponential(p)
  b = {ARRAY} negate(a)
  c = {ARRAY} custom-call(b), custom_call_target="library"
  ROOT d = {ARRAY} add(c, b)
}}
"""
SHARED = CHAIN.replace('custom-call(b), custom_call_target="library"', "cosine(b)")
APART = SHARED.replace("HloModule chain", "HloModule chain, is_scheduled=true")
PROGRAMS = [Program(HOME / "h100_sxm" / "rope"), Program(HOME / "a100_sxm_80" / "mlp_stats")]


def _read(program: Program) -> tuple[Module, FusionProcess]:
    process = parse_fusion_process(Source("dump", program.text("priority_fusion_dump")))
    return parse_module(program.text("before_priority_fusion")), process


def _reads(module: Module, one: str, other: str) -> bool:
    entry = {each.name: each for each in module.entry.instructions}
    return one in entry and other in entry and entry[one] in entry[other].operands


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_each_pair_that_xla_fused_is_found_by_its_names_in_any_order(program: Program) -> None:
    module, process = _read(program)
    steps = [step for step in process.steps if isinstance(step, FusedStep)]
    given = [step for step in steps if _reads(module, step.producer, step.consumer)]
    assert given
    for step in given[:6]:
        names = step.producer, step.consumer
        [pair] = pairs_of_dump(module, process, program.chip, names)
        assert (pair.producer, pair.consumer, pair.is_fused, pair.reason) == (*names, True, None)
        assert [pair] == pairs_of_dump(module, process, program.chip, names[::-1])
        alone = pairs_of_dump(module, process, program.chip, names[:1])
        assert pair in alone
        assert all(each.is_fused for each in alone if each.producer == step.producer)
        if module.instruction(step.producer).opcode in ("bitcast", "constant"):
            assert (pair.fused_ticks, pair.unfused_ticks) == (None, None)  # fused wherever they may be
        else:
            _assert_sums(pair)


def test_a_pair_is_found_before_the_pass_and_after_it() -> None:
    [fused] = pairs_of(parse_module(CHAIN), "h100", ("a", "b"))
    [made] = pairs_of(parse_module(CHAIN), "h100", ("fusion", "d"))
    assert (fused.is_fused, fused.reason, fused.emitted_in) == (True, None, None)
    assert (made.producer, made.consumer, made.is_fused) == ("fusion", "d", False)
    assert (made.reason, made.blocker) == ("the consumer is not fusible", "c")
    assert pairs_of(parse_module(CHAIN), "h100", ("a", "d")) == [made]
    assert pairs_of(parse_module(CHAIN), "h100", ("p", "d")) == []
    _assert_sums(fused)


ONE_STEP = FusionProcess((FusedStep("fusion", "a", "b"),))


def _names(pairs: list[GpuPair]) -> list[tuple[str, str, bool]]:
    return [(each.producer, each.consumer, each.is_fused) for each in pairs]


def test_one_name_is_followed_into_the_kernels_that_it_is_fused_into() -> None:
    left = [("fusion", "c", False), ("fusion", "d", False)]
    module = parse_module(CHAIN)
    assert _names(pairs_of(module, "h100", ("a",))) == [("a", "b", True), *left]
    assert _names(pairs_of_dump(module, ONE_STEP, "h100", ("a",))) == [("a", "b", True), *left]
    for names in (("b",), ("fusion",)):
        assert _names(pairs_of(module, "h100", names)) == left
        assert _names(pairs_of_dump(module, ONE_STEP, "h100", names)) == left
    assert pairs_of(module, "h100", ("nope",)) == pairs_of_dump(module, ONE_STEP, "h100", ("nope",)) == []


def test_what_is_not_known_or_not_allowed_has_no_time() -> None:
    """A library call has no kernel of the model, and what may not be fused has none together."""
    module = parse_module(CHAIN)
    [_, to_call, to_sum] = pairs_of(module, "h100", ("a",))
    assert (to_call.reason, to_call.blocker) == ("the consumer is not fusible", None)
    assert [each is None for each in to_call.kernels] == [False, True, True]
    assert (to_sum.fused_ticks, to_sum.unfused_ticks) == (None, None)
    known = {user.name: (user.alone_ticks is None, user.fused_ticks is None) for user in to_sum.users}
    assert known == {"c": (True, True), "d": (False, False)}
    assert kernels_of_dump(module, ONE_STEP, "h100", ("c", "fusion", "nope")) == {}
    found = _decisions(CHAIN)
    assert [(each.us_fused, each.us_unfused) for each in found.values()] == [(None, None)] * 3
    assert found["fusion", "c"].kernels is None
    both = found["fusion", "d"].reason, found["fusion", "d"].blocker
    assert both == ("the consumer is not fusible", "c")


def test_tuples_and_their_elements_are_no_consumers() -> None:
    text = APART.replace("ROOT d", "d").replace("}\n", f"  ROOT r = ({ARRAY}, {ARRAY}) tuple(b, d)\n}}\n")
    assert _decisions(text).keys() == {("a", "b"), ("b", "c"), ("b", "d"), ("c", "d")}
    assert ("b", "r", False) not in _names(pairs_of(parse_module(text), "h100", ("b",)))


def test_all_decisions_on_an_instruction() -> None:
    found = pairs_of(parse_module(APART), "h100", ("b",))
    assert [(each.producer, each.consumer) for each in found] == [("a", "b"), ("b", "c"), ("b", "d")]
    assert [len(each.users) for each in found] == [1, 2, 2]
    for each in found:
        _assert_sums(each)


def test_bitcasts_are_looked_through_and_constants_fused_without_a_time() -> None:
    text = """HloModule m, is_scheduled=true  ENTRY e { p = f32[8,4] parameter(0)  k = f32[] constant(2)
    a = f32[8,4] tanh(p)  v = f32[32] bitcast(a)  w = f32[4,8] bitcast(v)  w2 = f32[32] broadcast(k), dimensions={}
    c = f32[4,8] sine(w)  ROOT r = (f32[4,8], f32[32]) tuple(c, w2) }"""
    [pair] = pairs_of(parse_module(text), "h100", ("c", "a"))
    assert (pair.producer, pair.consumer, pair.kernels[2]) == ("a", "c", None)
    assert pair.reason == ONLY_BITCASTS
    [found] = pairs_of(parse_module(text), "h100", ("a",))
    assert (found.producer, found.consumer) == ("a", "c")
    [constant] = pairs_of(parse_module(text), "h100", ("k", "w2"))
    assert (constant.fused_ticks, constant.unfused_ticks) == (None, None)
    assert pairs_of(parse_module(text), "h100", ("k",)) == []


def test_a_repeated_operand_is_used_as_often() -> None:
    text = """HloModule m, is_scheduled=true  ENTRY e { p = f32[64] parameter(0)  a = f32[64] tanh(p)
    ROOT r = f32[64] multiply(a, a) }"""
    [pair] = pairs_of(parse_module(text), "h100", ("a", "r"))
    assert pair.uses == 2


def test_pairs_of_a_computation_have_one_of_their_kernels_in_it() -> None:
    """The pass may have replaced the other one, by a fusion with another name."""
    module = parse_module(CHAIN.replace("ENTRY", "other { ROOT x = f32[] parameter(0) }\nENTRY"))
    pairs = [GpuPair("a", "b"), GpuPair("fusion", "c"), GpuPair("c", "fusion"), GpuPair("fusion", "fusion.1")]
    assert _within(pairs, None) == pairs
    assert _within(pairs, module.entry) == pairs[:3]
    assert _within(pairs, module.computation("other")) == []


def test_names_that_the_pass_may_make() -> None:
    made = {name: may_be_made(name, parse_module(SHARED)) for name in ("fusion", "fusion.1", "fusion.a", "a", "b.1")}
    assert made == {"fusion": True, "fusion.1": True, "fusion.a": False, "a": False, "b.1": False}
    assert not may_be_made("fusion", parse_module(APART))


def _assert_sums(pair: GpuPair) -> None:
    """Times are of the producer with all its users: a kernel each when fused, one more when not."""
    assert pair.fused_ticks is not None
    assert pair.unfused_ticks is not None
    assert pair.kernels[0] is not None
    alone = [user.alone_ticks for user in pair.users if user.alone_ticks is not None]
    fused = [user.fused_ticks for user in pair.users if user.fused_ticks is not None]
    assert len(alone) == len(fused) == len(pair.users)
    assert pair.fused_ticks == sum(fused) + len(fused) * LAUNCH
    assert pair.unfused_ticks == pair.kernels[0].time.ticks + LAUNCH + sum(alone) + len(alone) * LAUNCH


def _decisions(text: str) -> dict[tuple[str, str], GpuDecision]:
    return {each.names: each for each in gpu_decisions(parse_module(text), "h100")}


def test_a_pair_apart_writes_and_reads_its_array() -> None:
    assert {each.saved_bytes for each in _decisions(CHAIN).values()} == {2 * ARRAY_BYTES}
    small = CHAIN.replace(f"c = {ARRAY} custom-call(b)", "c = f32[4096,1] custom-call(b)")
    small = small.replace("add(c, b)", 'custom-call(c, b), custom_call_target="library"')
    found = gpu_decisions(parse_module(small), "h100")
    assert [(each.names, each.saved_bytes) for each in found] == [
        (("fusion", "c"), 2 * ARRAY_BYTES), (("fusion", "d"), 2 * ARRAY_BYTES), (("c", "d"), 2 * 4 * 4096),
    ]  # fmt: skip


def test_times_apart_are_of_the_producer_with_all_its_users() -> None:
    found = _decisions(APART)
    assert found.keys() == {("a", "b"), ("b", "c"), ("b", "d"), ("c", "d")}
    for (name, _), each in found.items():
        users = [other for other in found.values() if other.names[0] == name]
        assert each.kernels is not None
        parts = [other.kernels for other in users if other.kernels is not None]
        assert len(parts) == len(users)
        assert each.us_fused == microseconds(sum(LAUNCH + both.ticks for _, _, both in parts))
        apart = LAUNCH + each.kernels[0].ticks + sum(LAUNCH + alone.ticks for _, alone, _ in parts)
        assert each.us_unfused == microseconds(apart)


def test_pairs_that_only_some_chips_fuse_save_their_array_twice() -> None:
    module = parse_module(CHAIN)
    a, b = module.instruction("a"), module.instruction("b")
    some = {"h100": gpu_fuse(module, "h100"), "none": GpuFusion(module, (), {})}
    assert pairs_by_chip(module, some) == [ChipPair(a, b, frozenset({"h100"}), 2 * ARRAY_BYTES)]
    assert pairs_by_chip(module, {"h100": some["h100"]}) == []
    assert pairs_by_chip(module, {"none": some["none"]}) == []
