"""Advice comes true: a program that a rule finds something in, edited as the hint says and compiled again.

Witness: jaxlib for CPU, libtpu for TPU, and, if it is installed, the CUDA plugin for GPU. None of them needs a device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from advice_table import ADVICE, ADVICELESS, MENDED, Advice
from advising import Compiled, edits
from hlo_cli import parse_module
from hlo_cli.lint.run import RULES, lint_module, rule_of
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Finding
from versions import IS_NEWER_XLA

SIZE = re.compile(r"(?:needs|needs only|peak to) ([\d.,]+) (B|KiB|MiB|GiB)")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PLUMBING = re.compile(r"\b(?:copy|bitcast|get-tuple-element|tuple|custom-call|fusion)(?:-start|-done)?\.\d+")
SAMPLE = {"tpu": ("HLO101 passed", "HLO203", "HLO203 step", "HLO301", "HLO403 all-gather", "HLO504", "HLO704")}
"""Of what takes long to compile, the edits that `make oracle` compiles; all others are for `make judge`."""


def cases(edited: Iterable[Advice | tuple[str, str]]) -> Iterator[object]:
    """Advice, or the name of an edit, with each of its targets; what takes long is marked as long."""
    for case in edited:
        name, targets = (case.name, case.targets) if isinstance(case, Advice) else case
        for target in targets.split():
            is_quick = target == "cpu" or name in SAMPLE.get(target, ())
            given = case if isinstance(case, Advice) else name
            yield pytest.param(given, target, marks=() if is_quick else pytest.mark.long, id=f"{name}-{target}")


def compiled(name: str, target: str) -> tuple[Compiled, Compiled]:
    """The programs before and after an edit."""
    sample = SAMPLE.get(target, ())
    return edits(target, sample if name in sample else ())[name]


def found_in(advice: Advice, compiled: Compiled) -> tuple[Finding, ...]:
    settings = replace(advice.settings, select=(advice.code,))
    return lint_module(parse_module(compiled.texts[advice.stage]), settings)


def promised(hint: str) -> float:
    """The bytes in a hint."""
    [(number, unit)] = SIZE.findall(hint)
    return float(number.replace(",", "")) * UNITS[unit]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("advice", "target"), [*cases(ADVICE)])
def test_advice_comes_true(advice: Advice, target: str) -> None:
    """The finding is gone, and the compiler's sizes are within 5 % of what the hint promises."""
    if advice.name == "HLO505" and target == "cpu" and IS_NEWER_XLA:
        pytest.skip("XLA:CPU of jaxlib 0.12 leaves no such collective in the loop")
    before, after = compiled(advice.name, target)
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
        less = sum(map(promised, hints)) if advice.several else promised(hint)
        assert before.sizes["total"] - after.sizes["total"] == pytest.approx(less, rel=0.05)
    if advice.traffic:
        cost = sum(each.cost_bytes or 0 for each in found)
        assert before.sizes["accessed"] - after.sizes["accessed"] == pytest.approx(2 * cost, rel=0.05)
    if advice.only:
        assert after.sizes[advice.only] == pytest.approx(promised(hint), rel=0.05)
        assert after.sizes[advice.only] < 0.8 * before.sizes[advice.only]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("name", "target"), [*cases(MENDED)])
def test_what_compilers_mend_is_not_advised(name: str, target: str) -> None:
    if name in ("HLO301", "HLO706") and target == "cpu" and IS_NEWER_XLA:
        pytest.skip("XLA:CPU of jaxlib 0.12 leaves the barrier between kernels, and the precision of products")
    before, _ = compiled(name, target)
    for stage in ("before", "after"):
        found = lint_module(parse_module(before.texts[stage]), LintSettings((name.split()[0],)))
        assert [each.message for each in found] == []


@pytest.mark.slow
@pytest.mark.oracle
def test_donating_gains_nothing_where_results_held_temporaries() -> None:
    before, after = compiled("HLO203 all", "cpu")
    assert after.sizes["alias"] > before.sizes["alias"]
    assert after.sizes["total"] == pytest.approx(before.sizes["total"])


def test_each_rule_about_efficiency_has_a_case() -> None:
    rules = {rule.code for rule in RULES if "HLO100" < rule.code < "HLO800"}
    assert {advice.code for advice in ADVICE} | set(ADVICELESS) == rules
    assert not {advice.code for advice in ADVICE} & set(ADVICELESS)
