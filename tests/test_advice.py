"""Advice comes true: a program that a rule finds something in, edited as the hint says and compiled again.

Witness: jaxlib for CPU, libtpu for TPU, and, if it is installed, the CUDA plugin for GPU. None of them needs a device.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from advice_table import ADVICE, ADVICELESS, MENDED, Advice
from advising import Compiled, edits
from hlo_cli import parse_module
from hlo_cli.lint.catalog import RULES, rule_of
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.finding import Finding

SIZE = re.compile(r"(?:needs|needs only|peak to) ([\d.,]+) (B|KiB|MiB|GiB)")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PLUMBING = re.compile(r"\b(?:copy|bitcast|get-tuple-element|tuple|custom-call|fusion)(?:-start|-done)?\.\d+")
ROWS = [(advice, target) for advice in ADVICE for target in advice.targets.split()]


def found_in(advice: Advice, compiled: Compiled) -> tuple[Finding, ...]:
    settings = replace(advice.settings, select=(advice.code,))
    return lint_module(parse_module(compiled.texts[advice.stage]), settings)


def promised(hint: str) -> float:
    """The bytes in a hint."""
    [(number, unit)] = SIZE.findall(hint)
    return float(number.replace(",", "")) * UNITS[unit]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("advice", "target"), ROWS, ids=[f"{advice.name}-{target}" for advice, target in ROWS])
def test_advice_comes_true(advice: Advice, target: str) -> None:
    """The finding is gone, and the compiler's sizes are within 5 % of what the hint promises."""
    before, after = edits(target)[advice.name]
    found = found_in(advice, before)
    hints = [each.hint or "" for each in found]
    assert found
    assert not [hint for hint in hints if PLUMBING.search(hint)]
    if advice.hint:
        assert any(advice.hint in hint for hint in hints), hints
    else:
        assert advice.fix in rule_of(advice.code).page.fix
    assert [each.message for each in found_in(advice, after)] == []
    [hint] = [hint for hint in hints if advice.hint and advice.hint in hint][:1] or [""]
    if advice.less:
        assert before.sizes["total"] - after.sizes["total"] == pytest.approx(promised(hint), rel=0.05)
    if advice.only:
        assert after.sizes[advice.only] == pytest.approx(promised(hint), rel=0.05)
        assert after.sizes[advice.only] < 0.8 * before.sizes[advice.only]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("name", "target"), [(name, target) for name, targets in MENDED for target in targets.split()])
def test_what_compilers_mend_is_not_advised(name: str, target: str) -> None:
    before, _ = edits(target)[name]
    for stage in ("before", "after"):
        found = lint_module(parse_module(before.texts[stage]), LintSettings((name.split()[0],)))
        assert [each.message for each in found] == []


@pytest.mark.slow
@pytest.mark.oracle
def test_donating_gains_nothing_where_results_held_temporaries() -> None:
    before, after = edits("cpu")["HLO203 all"]
    assert after.sizes["alias"] > before.sizes["alias"]
    assert after.sizes["total"] == pytest.approx(before.sizes["total"])


def test_each_rule_about_efficiency_has_a_case() -> None:
    rules = {rule.code for rule in RULES if "HLO100" < rule.code < "HLO800"}
    assert {advice.code for advice in ADVICE} | set(ADVICELESS) == rules
    assert not {advice.code for advice in ADVICE} & set(ADVICELESS)
