"""Modules and expectations for the tests of `hlo lint --expect`."""

from __future__ import annotations

from hlo_cli import memory_analysis, parse_module
from hlo_cli.analysis.query.assertions import AssertionResult, check_assertions, check_expectation
from hlo_cli.ir.expressions import Expectation
from hlo_cli.ir.module import Module
from hlo_cli.source import Source
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES
from hlo_cli.syntax.expectations import read_expectations

_MODULE = """HloModule jit_step, is_scheduled=true
{computations}
ENTRY e {{
  p = f32[128,128]{{1,0}} parameter(0)
  k = f32[128,128]{{1,0}} copy(p)
{gather}
  ROOT n = f32[256,128]{{1,0}} negate(g)
}}
"""
_HOW = '(p), channel_id=3, replica_groups={{0,1}}, dimensions={0}, metadata={op_name="step/gather"}'
_PARAMETER = "p = f32[128,128]{1,0} parameter(0)"
_BOTH = "(f32[128,128]{1,0}, f32[256,128]{1,0})"
_CHAIN = "((f32[128,128]{1,0}), f32[256,128]{1,0}, u32[])"
_WRAPPED = f"wrapped {{ {_PARAMETER}  ROOT w = f32[256,128]{{1,0}} all-gather{_HOW} }}"
_FUSED = f"""
begin {{
  {_PARAMETER}
  w = f32[256,128]{{1,0}} all-gather{_HOW}
  ROOT c = {_BOTH} custom-call(p, w), custom_call_target="AsyncCollectiveStart" }}
end {{
  s = {_BOTH} parameter(0)
  ROOT w = f32[256,128]{{1,0}} custom-call(s), custom_call_target="AsyncCollectiveDone" }}
"""
_DONE = "  g = f32[256,128]{1,0} "


def _spelled(computations: str, *lines: str) -> str:
    return _MODULE.format(computations=computations, gather="\n".join(lines))


SPELLINGS = {
    "sync": _spelled("", f"{_DONE}all-gather{_HOW}"),
    "native": _spelled("", f"  s = {_BOTH} all-gather-start{_HOW}", f"{_DONE}all-gather-done(s)"),
    "generic": _spelled(_WRAPPED, f"  s = {_CHAIN} async-start(p), calls=wrapped", f"{_DONE}async-done(s)"),
    "updated": _spelled(
        _WRAPPED,
        f"  s = {_CHAIN} async-start(p), calls=wrapped",
        f"  u = {_CHAIN} async-update(s)",
        f"{_DONE}async-done(u)",
    ),
    "fusion": _spelled(
        _FUSED, f"  s = {_BOTH} fusion(p), kind=kCustom, calls=begin", f"{_DONE}fusion(s), kind=kCustom, calls=end"
    ),
}
"""One program, its all-gather in every spelling that XLA has for it."""


def stated(*lines: str) -> tuple[Expectation, ...]:
    """Expectations, each a line as it would stand in a file."""
    listed = "\n".join(f"  '''{line}'''," for line in lines)
    text = f"expect = [\n{listed}\n]\n"

    def check(each: Expectation) -> None:
        check_expectation(each, ATTRIBUTE_NAMES)

    return read_expectations(Source("expect.toml", text), check)


def judged(module: Module | str, *lines: str) -> list[AssertionResult]:
    """The verdicts on a module."""
    whole = parse_module(module) if isinstance(module, str) else module
    return list(
        check_assertions(whole, stated(*lines), attributes=ATTRIBUTE_NAMES, memory=lambda: memory_analysis(whole))
    )
