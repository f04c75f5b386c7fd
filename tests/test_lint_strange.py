"""No rule relies on what a log, an extract, or another compiler may leave out or write otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from hlo_cli import parse_module
from hlo_cli.lint.run import lint_module
from lint_cases import CASES, Case
from lint_cost_cases import COST_CASES
from share import every

ALL_CASES = (*CASES, *COST_CASES)
RESULT = re.compile(r"(?m)^( *(?:ROOT )?%?[\w.\-]+ = )(?:\([^=]*?\)|\w+\[[^\]]*\](?:\{[^}]*\})?)(?= [a-z])")


def _emptied(text: str) -> str:
    """A text whose computations, other than the entry, have no instructions."""
    for each in reversed(parse_module(text).computations):
        if not each.is_entry and each.span is not None:
            brace = text.index("{", text.index(each.name, each.span.start))
            text = f"{text[:brace]}{{\n}}{text[each.span.end :]}"
    return text


STRANGE: dict[str, Callable[[str], str]] = {
    "no operands": lambda text: re.sub(r"(= [^\n]*? [a-z][a-z\-]*)\((?!\d+\))[^()\n]*\)", r"\1()", text),
    "no called computations": lambda text: text.split("\n", 1)[0] + "\n" + text[text.index("ENTRY") :],
    "empty computations": _emptied,
    "no attributes": lambda text: re.sub(r"\), [a-z_]+=[^\n}]*(?=\n)", ")", text),
    "no schedule": lambda text: text.replace("is_scheduled=true", "is_scheduled=false"),
    "tuples": lambda text: RESULT.sub(lambda found: f"{found[1]}({found[0].removeprefix(found[1])}, s32[])", text),
    "tokens": lambda text: RESULT.sub(r"\1token[]", text),
    "empty tuples": lambda text: RESULT.sub(r"\1()", text),
    "scalars": lambda text: RESULT.sub(r"\1f32[]", text),
    "nothing": lambda text: RESULT.sub(r"\1f32[0]{0}", text),
    "dynamic": lambda text: re.sub(r"\[(\d)", r"[<=\1", text),
    "layouts of other ranks": lambda text: text.replace("{1,0", "{2,0"),
    "large numbers": lambda text: re.sub(r"parameter\(\d+\)", f"parameter({'9' * 5000})", text),
    "buffers": lambda text: RESULT.sub(r"\1b(f32[4,8]{1,0})", text),
}


def case_text(case: Case) -> str:
    """The text that breaks the rule."""
    return case.bad.replace("«", "").replace("»", "")


@pytest.mark.parametrize("part", every(4, range(4)))
@pytest.mark.parametrize("strange", STRANGE)
def test_rules_end_well_with_what_is_strange(strange: str, part: int) -> None:
    changed = 0
    for case in ALL_CASES[part::4]:
        given = case_text(case)
        text = STRANGE[strange](given)
        changed += text != given
        lint_module(parse_module(text), replace(case.settings, select=("ALL",)))
    assert changed > 3


OF_SCHEDULES = (
    "HLO103 HLO106 HLO201 HLO202 HLO203 HLO204 HLO301 HLO302 HLO303 HLO304 HLO305 HLO401 HLO402 HLO403 HLO506 HLO507 HLO508 "
    "HLO703 HLO706 HLO707"
)


@pytest.mark.parametrize("code", OF_SCHEDULES.split())
def test_what_a_compiler_may_still_change_is_not_reported(code: str) -> None:
    """Layouts, kernels, their order, and the precision of sums are decided before a module is scheduled."""
    for case in (each for each in ALL_CASES if each.code == code and "is_scheduled=true" in each.bad):
        before = case_text(case).replace("is_scheduled=true", "is_scheduled=false")
        assert code in {found.code for found in lint_module(parse_module(case_text(case)), case.settings)}
        assert code not in {found.code for found in lint_module(parse_module(before), case.settings)}
