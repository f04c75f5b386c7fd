"""What rules of lint say of two texts that differ in one thing: a layout, a chip, a schedule, an element."""

from __future__ import annotations

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.origin.scopes_and_moves import Origin
from hlo_cli.ir.layout import default_layout
from hlo_cli.lint.advice import relayout_hint
from hlo_cli.lint.finding_facts import _function_of, _renamed, name_of
from hlo_cli.lint.rule import LintContext
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings

SCHEDULED = "HloModule m, is_scheduled=true  "
ROWS, COLUMNS = "f32[4,8]{1,0}", "f32[4,8]{0,1}"
ASYNC = """w {{ x = {given} parameter(0)  ROOT r = {made} negate(x) }}
ENTRY e {{ a = {passed} parameter(0)  s = (({passed}), {returned}, u32[]) async-start(a), calls=w  ROOT d = {returned} async-done(s) }}"""
FUSION = """w {{ x = {given} parameter(0)  ROOT r = {made} negate(x) }}
ENTRY e {{ a = {passed} parameter(0)  ROOT s = {returned} fusion(a), kind=kLoop, calls=w }}"""
CALL = FUSION.replace("fusion(a), kind=kLoop, calls=w", "call(a), to_apply=w")


def found(text: str, code: str, *, chip: str | None = None) -> list[str]:
    settings = LintSettings(select=(code,), chip=chip)
    return [each.message for each in lint_module(parse_module(text), settings)]


@pytest.mark.parametrize("text", [ASYNC, CALL], ids=["async", "call"])
@pytest.mark.parametrize(
    ("given", "passed", "made", "returned", "message"),
    [
        (ROWS, ROWS, ROWS, ROWS, None),
        (COLUMNS, COLUMNS, ROWS, ROWS, None),
        (ROWS, ROWS, COLUMNS, COLUMNS, None),
        (ROWS, ROWS, ROWS, COLUMNS, f"s is {COLUMNS}, but w returns {ROWS}"),
        (COLUMNS, COLUMNS, ROWS, COLUMNS, f"s is {COLUMNS}, but w returns {ROWS}"),
        (ROWS, COLUMNS, ROWS, ROWS, f" is {COLUMNS}, but parameter x of w is {ROWS}"),
    ],
)
def test_layouts_are_those_of_the_callee(
    text: str, given: str, passed: str, made: str, returned: str, message: str | None
) -> None:
    module = SCHEDULED + text.format(given=given, passed=passed, made=made, returned=returned)
    messages = found(module, "HLO022")
    assert len(messages) == (message is not None)
    assert all(each.endswith(message or "") for each in messages)
    assert found(module.replace("is_scheduled=true", "is_scheduled=false"), "HLO022") == []


@pytest.mark.parametrize("result", [ROWS, COLUMNS])
def test_a_fusion_overwrites_an_operand_of_its_own_layout(result: str) -> None:
    text = FUSION.format(given=ROWS, passed=ROWS, made=result, returned=result)
    text = text.replace("calls=w", "calls=w, output_to_operand_aliasing={{}: (0, {})}")
    assert bool(found(SCHEDULED + text, "HLO032")) == (result != ROWS)


@pytest.mark.parametrize(("chip", "is_found"), [("v5e", True), ("h100", False), (None, False)])
def test_doubles_are_emulated_on_tpus(chip: str | None, is_found: bool) -> None:
    text = "HloModule m  ENTRY e { p = f64[4096] parameter(0)  ROOT n = f64[4096] negate(p) }"
    assert bool(found(text, "HLO701", chip=chip)) == is_found


@pytest.mark.parametrize("header", ["", ", is_scheduled=true"])
def test_only_what_is_to_be_compiled_is_bound_to_a_platform(header: str) -> None:
    call = 'ROOT y = f32[8,8] custom-call(x), custom_call_target="lapack_spotrf_ffi"'
    text = f"HloModule m{header}  ENTRY e {{ x = f32[8,8] parameter(0)  {call} }}"
    assert bool(found(text, "HLO603")) == (not header)


@pytest.mark.parametrize("calls", ["call(x), to_apply=f", "while(x), condition=c, body=f"])
def test_only_loops_communicate_in_every_iteration(calls: str) -> None:
    """However many calls are between the loop and what is in it."""
    text = f"""HloModule m
    g {{ p = f32[8] parameter(0)  ROOT q = f32[8] custom-call(p), custom_call_target="xla_ffi_python_cpu_callback" }}
    f {{ p = f32[8] parameter(0)  ROOT q = f32[8] call(p), to_apply=g }}
    c {{ p = f32[8] parameter(0)  ROOT q = pred[] custom-call(p), custom_call_target="again" }}
    ENTRY e {{ x = f32[8] parameter(0)  ROOT y = f32[8] {calls} }}"""
    assert bool(found(text, "HLO602")) == calls.startswith("while")


def test_an_element_of_an_argument_has_no_hint_of_its_own() -> None:
    """A program passes the tuple, not what is in it."""
    padded = "f32[40,40,40]{2,1,0:T(8,128)}"
    text = f"""{SCHEDULED} ENTRY e {{ t = ({padded}, s32[]) parameter(0)
    ROOT n = s32[] get-tuple-element(t), index=1 }}"""
    [finding] = lint_module(parse_module(text), LintSettings(select=("HLO101",)))
    assert finding.hint is None


@pytest.mark.parametrize(
    ("factor", "shape", "is_found"),
    [
        ("broadcast(v), dimensions={}", "f32[]", True),  # the same in every sharding
        ("broadcast(v), dimensions={1}", "f32[512]", False),
        ("tanh(v)", "f32[512,512]", False),
    ],
)
def test_data_is_resharded_back_and_forth_around_what_no_sharding_changes(
    factor: str, shape: str, is_found: bool
) -> None:
    swap = "all-to-all({}), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}"
    text = f"""HloModule m, is_scheduled=true, replica_count=4  ENTRY e {{ x = f32[512,512] parameter(0)  v = {shape} parameter(1)
    a = f32[512,512] {swap.format("x")}  b = f32[512,512] {factor}  t = f32[512,512] multiply(a, b)
    ROOT r = f32[512,512] {swap.format("t")} }}"""
    assert bool(found(text, "HLO509")) == is_found


BRANCHES = """HloModule m
a {{ x = f32[8] parameter(0)  ROOT y = f32[8] negate(x), sharding={{{0}}} }}
b {{ x = f32[8] parameter(0)  ROOT z = f32[8] abs(x), sharding={{{1}}} }}
ENTRY e {{ i = pred[] parameter(0)  v = f32[8] parameter(1)
  ROOT c = f32[8] conditional(i, v, v), true_computation=a, false_computation=b, sharding={{devices=[2]0,1}} }}"""


@pytest.mark.parametrize("wrong", ["", "y", "z", "y z"])
def test_each_branch_has_the_sharding_of_the_conditional(wrong: str) -> None:
    shardings = ["replicated" if name in wrong else "devices=[2]0,1" for name in ("y", "z")]
    found = lint_module(parse_module(BRANCHES.format(*shardings)), LintSettings(("HLO081",)))
    assert [each.message.split()[0] for each in found] == [f"{'ab'['yz'.index(name)]}/{name}" for name in wrong.split()]


def test_a_parameter_number_that_is_none_is_shown() -> None:
    [found] = lint_module(
        parse_module("HloModule m\nENTRY e { ROOT x = f32[8] parameter(y) }"), LintSettings(("HLO020",))
    )
    assert found.message == "x has parameter number y, expected 0 in e"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("state['a']", "state['b']"), "state (2 arrays, 6 MiB) could be donated: n and others write results"),
        (("a", "b"), "a (4 MiB) could be donated: n writes a result"),
    ],
)
def test_two_arrays_of_one_argument_are_donated_together(names: tuple[str, str], message: str) -> None:
    one, other = (f'metadata={{op_name="{name}"}}' for name in names)
    text = f"""HloModule m, is_scheduled=true
    ENTRY e {{ p = f32[1024,1024] parameter(0), {one}  q = f32[512,1024] parameter(1), {other}
      n = f32[1024,1024] negate(p)  o = f32[512,1024] negate(q)
      ROOT t = (f32[1024,1024], f32[512,1024]) tuple(n, o) }}"""
    found = lint_module(parse_module(text), LintSettings(("HLO203",)))
    assert found[0].message.startswith(message)
    assert len(found) == len({name.partition("[")[0] for name in names})


def test_a_result_is_returned_in_another_order_only_if_it_is_made_of_an_argument() -> None:
    text = """ENTRY e { p = f32[4,8]{1,0} parameter(0)  a = f32[4,8]{1,0} abs(p)  n = f32[4,8]{0,1} negate(a)
      ROOT r = f32[4,8]{0,1} negate(p) }"""
    module = parse_module(text)
    p, a, n, r = module.entry.instructions
    context = LintContext(module, LintSettings())
    assert relayout_hint(context, r, p, default_layout(2))
    assert relayout_hint(context, r, a, default_layout(2)) is None
    assert relayout_hint(context, n, p, default_layout(2)) is None, "no result"


def test_names_of_values_and_of_what_computes_them() -> None:
    p = parse_module("ENTRY e { p = f32[4] parameter(0)  ROOT a = f32[4] abs(p) }").entry.instructions[0]
    assert name_of(p, Origin("jit(f)/state")) == "jit(f)/state", "an argument, whatever its name is"
    assert _function_of(Origin("jit(f)/mlp/bsd,dhk->bshk/dot_general")) == (" \nmlp", "mlp")
    renamed = [_renamed(text, "p", "*") for text in ("xp p", "p.p p_ _p p", "ppp", "(p)", "p")]
    assert renamed == ["xp *", "*.* p_ _p *", "ppp", "(*)", "*"]
