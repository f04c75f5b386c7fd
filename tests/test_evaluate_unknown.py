"""Functions of unknown meaning that two programs have in common: equal operands give equal results."""

from __future__ import annotations

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.comparison.two_runs import compare_runs
from hlo_cli.source import HloError

KERNEL = 'custom-call({}), custom_call_target="my_kernel", backend_config={}'


def program(*lines: str) -> str:
    body = "\n".join(lines)
    return f"ENTRY e {{ a = f32[4] parameter(0)  b = f32[4] parameter(1)\n{body} }}"


def a_kernel(name: str, operands: str, *, config: str = "1", effect: str = "") -> str:
    return f"{name} = f32[4] {KERNEL.format(operands, config)}{effect}"


OLD = program(a_kernel("k", "a, b"), "ROOT r = f32[4] add(k, a)")


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (program(a_kernel("z", "a, b"), "ROOT r = f32[4] add(a, z)"), "identical"),
        (program("c = f32[4] add(a, b)", "d = f32[4] subtract(c, b)", a_kernel("k", "d, b"), "ROOT r = f32[4] add(k, a)"),
         "identical"),
        (program(a_kernel("k", "b, a"), "ROOT r = f32[4] add(k, a)"), "different"),
        (program("c = f32[4] reverse(a), dimensions={0}", a_kernel("k", "c, b"), "ROOT r = f32[4] add(k, a)"),
         "different"),
        (program(a_kernel("k", "a, b"), "ROOT r = f32[4] add(k, b)"), "different"),
    ],
)  # fmt: skip
def test_equal_operands_give_equal_results(new: str, verdict: str) -> None:
    found = compare_runs(parse_module(OLD), parse_module(new))
    assert found.verdict == verdict
    assert found.assumed == ("my_kernel",)


def test_calls_that_a_compiler_merged_are_equal() -> None:
    """Two calls with the same operands are one."""
    twice = program(a_kernel("k", "a, b"), a_kernel("l", "a, b"), "ROOT r = f32[4] add(k, l)")
    once = program(a_kernel("k", "a, b"), "ROOT r = f32[4] add(k, k)")
    assert compare_runs(parse_module(twice), parse_module(once)).verdict == "identical"


def test_calls_with_effects_differ_each_time() -> None:
    effect = ", custom_call_has_side_effect=true"
    twice = program(
        a_kernel("k", "a, b", effect=effect), a_kernel("l", "a, b", effect=effect), "ROOT r = f32[4] subtract(k, l)"
    )
    once = program(a_kernel("k", "a, b", effect=effect), "ROOT r = f32[4] subtract(k, k)")
    assert compare_runs(parse_module(twice), parse_module(twice)).verdict == "identical"
    assert compare_runs(parse_module(twice), parse_module(once)).verdict == "different"


def test_calls_of_a_loop_are_told_apart() -> None:
    """The order of calls does not matter, their operands do."""
    step = """f { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      x = f32[4] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
      y = f32[4] custom-call(x), custom_call_target="my_kernel"
      ROOT t = (s32[], f32[4]) tuple(j, y) }
    c { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
      ROOT l = pred[] compare(i, n), direction=LT }
    """
    loop = (
        step
        + """ENTRY e { a = f32[4] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[4]) tuple(z, a)
      w = (s32[], f32[4]) while(t), condition=c, body=f  ROOT r = f32[4] get-tuple-element(w), index=1 }"""
    )
    straight = "ENTRY e { a = f32[4] parameter(0)"
    for new, old in zip("xyz", "axy", strict=True):
        straight += f' {new} = f32[4] custom-call({old}), custom_call_target="my_kernel"\n'
    assert (
        compare_runs(parse_module(loop), parse_module(straight + " ROOT r = f32[4] copy(z) }")).verdict == "identical"
    )
    assert (
        compare_runs(parse_module(loop), parse_module(straight + " ROOT r = f32[4] copy(y) }")).verdict == "different"
    )


@pytest.mark.parametrize(
    "other",
    [
        a_kernel("k", "a, b").replace("my_kernel", "another"),
        a_kernel("k", "a, b", config="2"),
        a_kernel("k", "a"),
    ],
)
def test_other_functions_are_refused(other: str) -> None:
    new = program(other, "ROOT r = f32[4] add(k, a)")
    with pytest.raises(HloError, match="my_kernel is unknown"):
        compare_runs(parse_module(OLD), parse_module(new))


def test_kernels_are_the_same_if_their_bodies_are() -> None:
    """Compilers add settings of their own."""
    old = OLD.replace("backend_config=1", 'backend_config={"custom_call_config":{"body":"TUzv"}}')
    new = OLD.replace("backend_config=1", 'backend_config={"custom_call_config":{"body":"TUzv","x":[]},"y":1}')
    other = old.replace("TUzv", "TUzw")
    assert old != new
    assert compare_runs(parse_module(old), parse_module(new)).verdict == "identical"
    with pytest.raises(HloError, match="my_kernel is unknown"):
        compare_runs(parse_module(old), parse_module(other))


def test_a_call_without_results_computes_nothing() -> None:
    text = program('d = () custom-call(a), custom_call_target="log"', "ROOT r = f32[4] add(a, b)")
    found = compare_runs(parse_module(text), parse_module(text))
    assert (found.verdict, found.assumed) == ("identical", ())


def callback(sent: str, *, rendezvous: int = 5) -> str:
    to, back = (f'frontend_attributes={{_xla_host_transfer_rendezvous="{at}"}}' for at in (4, rendezvous))
    return program(
        "c = f32[4] add(a, b)",
        "t = token[] after-all()",
        f"s = (f32[4], u32[], token[]) send({sent}, t), channel_id=1, is_host_transfer=true, {to}",
        f"u = token[] send-done(s), channel_id=1, is_host_transfer=true, {to}",
        f"v = (f32[4], u32[], token[]) recv(u), channel_id=2, is_host_transfer=true, {back}",
        f"w = (f32[4], token[]) recv-done(v), channel_id=2, is_host_transfer=true, {back}",
        "ROOT r = f32[4] get-tuple-element(w), index=0",
    )


def test_the_host_returns_the_same_for_what_it_is_sent() -> None:
    old = parse_module(callback("c"))
    assert compare_runs(old, parse_module(callback("c"))).verdict == "identical"
    assert compare_runs(old, parse_module(callback("b"))).verdict == "different"
    with pytest.raises(HloError, match="exchanges data with the host"):
        compare_runs(old, parse_module(callback("c", rendezvous=6)))
