"""Fusing two instructions on request, and expanding fusions."""

from __future__ import annotations

import pytest

from dumps import FIXTURES
from hlo_cli import parse_module
from hlo_cli.analysis.comparison.two_runs import compare_runs
from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
from hlo_cli.analysis.fusion.unfused_pairs import unfused_pairs
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.fusion.by_request import deciding_rule, fuse_pair, unfuse
from hlo_cli.transform.fusion.cpu_fusion import fuse
from hlo_cli.transform.fusion.gpu_fusion import gpu_fuse
from running import same_results

CHAIN = """HloModule m
f { a = f32[9] parameter(0)  b = f32[9] parameter(1)  c = f32[9] add(a, b)  ROOT d = f32[9] negate(c) }
g { h = f32[9] parameter(0)  k = f32[9] cosine(h), metadata={op_name="wave"}  ROOT l = f32[9] multiply(k, h) }
two { u = f32[9] parameter(0)  v = f32[9] sine(u)  w = f32[9] tanh(u)  ROOT t = (f32[9], f32[9]) tuple(v, w) }
ENTRY e {
  p = f32[9] parameter(0)
  q = f32[9] parameter(1)
  x = f32[9] exponential(p)
  y = f32[9] fusion(x, q), kind=kLoop, calls=f
  z = f32[9] fusion(y), kind=kLoop, calls=g
  n = f32[9] floor(x), control-predecessors={y}
  m = (f32[9], f32[9]) fusion(n), kind=kLoop, calls=two
  m0 = f32[9] get-tuple-element(m), index=0
  m1 = f32[9] get-tuple-element(m), index=1
  s = f32[9] add(m0, m1)
  ROOT r = (f32[9], f32[9], f32[9]) tuple(z, s, x)
}"""
SCHEDULED = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[9] parameter(0)
  i = s32[] parameter(1)
  c = f32[9] copy(p)
  n = f32[9] negate(c)
  u = f32[2] constant({1, 2})
  d = f32[9] dynamic-update-slice(c, u, i)
  ROOT r = f32[9] add(n, d)
}"""


def names(module: Module) -> list[str]:
    return [instruction.name for instruction in module.entry.instructions]


def inside(module: Module, fusion: str) -> list[str]:
    return [i.opcode for i in module.instruction(fusion).called_computations[0].instructions if i.operands]


def is_sound(module: Module) -> bool:
    read = parse_module(str(module))
    return not read.errors and not list(verify_fusions(read)) and str(read) == str(module)


def test_into_a_fusion_that_is_there() -> None:
    made = fuse_pair(parse_module(CHAIN), "x", "y")
    assert inside(made, "y") == ["exponential", "add", "negate"]
    assert [operand.name for operand in made.instruction("y").operands] == ["q", "p"]
    assert "x" in names(made)  # others use it
    assert is_sound(made)


def test_a_fusion_into_a_fusion() -> None:
    made = fuse_pair(parse_module(CHAIN), "y", "z")
    assert inside(made, "z") == ["add", "negate", "cosine", "multiply"]
    assert "y" not in names(made)
    assert [computation.name for computation in made.computations] == ["two", "g", "e"]
    assert is_sound(made)


TWICE = """HloModule m
f { a = f32[8] parameter(0)  ROOT b = f32[8] multiply(a, a) }
g { c = f32[8] parameter(0)  d = f32[8] parameter(1)  k = f32[8] cosine(d)  ROOT l = f32[8] subtract(c, k) }
ENTRY e { p = f32[8] parameter(0)  x = f32[8] fusion(p), kind=kLoop, calls=f
  ROOT y = f32[8] fusion(x, x), kind=kLoop, calls=g }"""


@pytest.mark.parametrize("by", ["hand", "XLA:GPU"])
def test_a_fusion_that_is_an_operand_twice_is_merged_once(by: str) -> None:
    """XLA makes no such operands, but texts have them."""
    before = parse_module(TWICE)
    after = fuse_pair(before, "x", "y") if by == "hand" else gpu_fuse(before, "h100").module
    assert names(after) == ["p", "y"]
    assert inside(after, "y") == ["multiply", "cosine", "subtract"]
    assert is_sound(after)
    assert compare_runs(before, after).verdict == "identical"


@pytest.mark.parametrize("operands", ["x, q", "q, x", "x, x"])
def test_a_fusion_of_nothing_but_its_parameter_is_merged(operands: str) -> None:
    text = f"""HloModule m
    f {{ ROOT a = f32[8] parameter(0) }}
    g {{ c = f32[8] parameter(0)  d = f32[8] parameter(1)  ROOT l = f32[8] subtract(c, d) }}
    ENTRY e {{ p = f32[8] parameter(0)  q = f32[8] parameter(1)  x = f32[8] fusion(p), kind=kLoop, calls=f
      ROOT y = f32[8] fusion({operands}), kind=kLoop, calls=g }}"""
    before = parse_module(text)
    after = fuse_pair(before, "x", "y")
    assert names(after) == ["p", "q", "y"]
    assert {operand.name for operand in after.instruction("y").operands} == set(operands.replace("x", "p").split(", "))
    assert is_sound(after)
    assert compare_runs(before, after).verdict == "identical"


def test_a_producer_without_other_users_is_no_result() -> None:
    """With `keep` too: the two need no common shape, as they would as two results of one loop."""
    text = """ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  b = f32[2,9] broadcast(t), dimensions={1}
        s = f32[9] sine(p)  ROOT r = (f32[2,9], f32[9]) tuple(b, s) }"""
    plain, kept = (fuse_pair(parse_module(text), "t", "b", keep=keep) for keep in (False, True))
    assert str(kept) == str(plain)
    assert inside(kept, "tanh_broadcast_fusion") == ["tanh", "broadcast"]
    with pytest.raises(HloError, match="cannot fuse t and b"):
        fuse_pair(parse_module(text.replace("sine(p)", "sine(t)")), "t", "b", keep=True)


def test_a_new_fusion_waits_for_what_its_parts_waited_for() -> None:
    made = fuse_pair(
        parse_module(
            CHAIN.replace("fusion(n)", "fusion(no)")
            .replace("m = (", "no = f32[9] not-yet(n)\nm = (")
            .replace("not-yet", "ceil")
        ),
        "n",
        "no",
    )
    assert made.instruction("floor_ceil_fusion").control_predecessors == ("y",)
    assert is_sound(made)


def test_what_is_taken_apart_keeps_names_and_metadata() -> None:
    made = unfuse(parse_module(CHAIN))
    assert [i.name for i in made.entry.instructions] == ["p", "q", "x", "c", "d", "k", "l", "n", "v", "w", "s", "r"]
    assert made.instruction("k").metadata.op_name == "wave"
    assert made.instruction("n").control_predecessors == ("d",)
    assert [operand.name for operand in made.instruction("s").operands] == ["v", "w"]
    assert is_sound(made)


def test_one_fusion_is_taken_apart_and_no_other() -> None:
    made = unfuse(parse_module(CHAIN), ["%z"])
    assert [i.name for i in made.entry.instructions if i.opcode == "fusion"] == ["y", "m"]
    assert is_sound(made)


@pytest.mark.parametrize(
    ("producer", "consumer", "says"),
    [
        ("y", "x", "x does not|not the reverse"),
        ("x", "z", "does not use"),
        ("p", "x", "cannot fuse p into x"),
        ("c", "d", "is a fused or applied computation"),
        ("s", "r", "cannot fuse s into r"),
        ("m", "m0", "cannot"),
        ("x", "nope", "instruction 'nope' not found"),
    ],
)
def test_what_cannot_be_fused_says_why(producer: str, consumer: str, says: str) -> None:
    with pytest.raises(HloError, match=says):
        fuse_pair(parse_module(CHAIN), producer, consumer)


@pytest.mark.parametrize("users", ["b", "b, c"])
@pytest.mark.parametrize(
    ("consumer", "is_fused"),
    [("sort(a), dimensions={0}, to_apply=less", False), ("tanh(a)", True), ("reverse(a), dimensions={0}", True)],
)
def test_on_cpu_both_are_loops(consumer: str, is_fused: bool, users: str) -> None:
    """Of fusions those of loops alone, whether the compiler would compute them again for another user or not."""
    less = "less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }"
    less += "  plus { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }"
    shapes = ", ".join("f32[9]" for _ in users.split(","))
    window = "k = f32[] constant(0)  ROOT y = f32[9] reduce-window(x, k), window={size=1}, to_apply=plus"
    sort = "ROOT y = f32[9] sort(x), dimensions={0}, to_apply=less"
    for inside, is_loop in (("ROOT y = f32[9] cosine(x)", True), (window, True), (sort, False)):
        text = f"""{less}  f {{ x = f32[9] parameter(0)  {inside} }}
        ENTRY e {{ p = f32[9] parameter(0)  a = f32[9] fusion(p), kind=kLoop, calls=f  b = f32[9] {consumer}
        c = f32[9] negate(a)  ROOT r = ({shapes}) tuple({users}) }}"""
        if is_fused and is_loop:
            assert is_sound(fuse_pair(parse_module(text), "a", "b"))
        else:
            with pytest.raises(HloError, match="cannot fuse a into b"):
                fuse_pair(parse_module(text), "a", "b")


@pytest.mark.parametrize("is_between", [True, False])
def test_siblings_are_fused_unless_something_is_overwritten_between_them(is_between: bool) -> None:
    update = "d = f32[9] dynamic-update-slice(n, u, i)"
    lines = [update, "b = f32[9] cosine(p)"] if is_between else ["b = f32[9] cosine(p)", update]
    text = f"""HloModule m, is_scheduled=true  ENTRY e {{ p = f32[9] parameter(0)  i = s32[] parameter(1)  u = f32[2] parameter(2)
    n = f32[9] negate(p)  a = f32[9] sine(p)  {"  ".join(lines)}  ROOT r = (f32[9], f32[9], f32[9]) tuple(a, b, d) }}"""
    if is_between:
        with pytest.raises(HloError, match="cannot fuse a and b"):
            fuse_pair(parse_module(text), "a", "b")
    else:
        assert is_sound(fuse_pair(parse_module(text), "a", "b"))


@pytest.mark.parametrize(
    ("layout", "sizes", "other", "says"),
    [
        ("{1,0:T(8,128)}", "8,9", "{1,0:T(8,128)}", None),
        ("{1,0:T(8,128)}", "8,9", "{0,1:T(8,128)}", None),  # TPUs and GPUs compute each result in its own layout
        ("{1,0:T(8,128)}", "8,8", "{1,0:T(8,128)}", "their shapes differ"),
        ("{1,0}", "8,9", "{1,0}", None),
        ("{1,0}", "8,9", "{0,1}", "their shapes differ"),
        ("{1,0}", "8,8", "{1,0}", "their shapes differ"),
    ],
)
def test_results_of_one_fusion_are_of_one_size(layout: str, sizes: str, other: str, says: str | None) -> None:
    """On CPU of one layout, too: its kernels are one loop over all results."""
    ends = sizes.split(",")
    module = parse_module(f"""ENTRY e {{ p = f32[8,9]{layout} parameter(0)  n = f32[8,9]{layout} negate(p)
      s = f32[{sizes}]{other} slice(p), slice={{[0:{ends[0]}], [0:{ends[1]}]}}
      ROOT r = (f32[8,9]{layout}, f32[{sizes}]{other}) tuple(n, s) }}""")
    if says is None:
        assert is_sound(fuse_pair(module, "n", "s"))
    else:
        with pytest.raises(HloError, match="cannot fuse n and s") as refused:
            fuse_pair(module, "n", "s")
        assert says in str(refused.value.diagnostics[0].hint)


def test_two_updates_of_one_array_are_taken_apart_in_their_order() -> None:
    """Each should come after the other, which reads what it overwrites: copies keep what is read."""
    text = """HloModule m, is_scheduled=true
    f { a = f32[8] parameter(0)  u = f32[2] parameter(1)  i = s32[] parameter(2)  v = f32[8] dynamic-update-slice(a, u, i)
      w = f32[8] dynamic-update-slice(a, u, i)  ROOT s = f32[8] subtract(v, w) }
    ENTRY e { p = f32[8] parameter(0)  q = f32[2] parameter(1)  i = s32[] parameter(2)  n = f32[8] negate(p)
      ROOT r = f32[8] fusion(n, q, i), kind=kLoop, calls=f }"""
    made = unfuse(parse_module(text))
    assert [name for name in names(made) if "copy" not in name] == ["p", "q", "i", "n", "v", "w", "s"]
    assert made.instruction("v").operands[0] is not made.instruction("w").operands[0]
    assert is_sound(made)


def test_one_name_is_a_list_of_one() -> None:
    fused = parse_module(CHAIN.replace("z", "wave"))
    assert str(unfuse(fused, "wave")) == str(unfuse(fused, ["wave"]))


def test_what_is_no_fusion_cannot_be_taken_apart() -> None:
    with pytest.raises(HloError, match=r"'x' is not a fusion: its opcode"):
        unfuse(parse_module(CHAIN), ["x"])


def test_nothing_is_read_behind_what_overwrites_it() -> None:
    module = parse_module(SCHEDULED)
    with pytest.raises(HloError, match="cannot fuse n into r") as refused:
        fuse_pair(module, "n", "r")
    assert "overwritten" in str(refused.value.diagnostics[0].hint)
    assert [decision.rule.name for decision in fuse(module).rejected if decision.producer.name == "n"] == [
        "overwritten"
    ]
    free = parse_module(SCHEDULED.replace(", is_scheduled=true", ""))
    assert "n" not in names(fuse_pair(free, "n", "r"))


@pytest.mark.oracle
@pytest.mark.slow
def test_by_hand_computes_the_same() -> None:
    text = CHAIN.replace("HloModule m", "HloModule m, is_scheduled=true", 1)
    given = parse_module(text)
    made = [unfuse(given), fuse_pair(given, "x", "y"), fuse_pair(given, "y", "z"), fuse_pair(given, "x", "n")]
    assert same_results([[text, *map(str, made)]], exactly=False) == [[True] * len(made)]


def test_one_rule_decides_on_a_pair_for_both_screens() -> None:
    """`--why-not` and `--fuse` state the same rule: of the operations that the pass saw, not of the fusions it made."""
    module = parse_module((FIXTURES / "cpu" / "wide" / "after_optimizations.txt").read_text())
    pairs = unfused_pairs(module)
    assert len({pair.rule.name for pair in pairs}) > 3
    for pair in pairs:
        if pair.producer in pair.consumer.operands:
            assert deciding_rule(module, pair.producer.name, pair.consumer.name) is pair.rule
