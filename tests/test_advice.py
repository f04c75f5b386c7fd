"""Advice comes true: a program that a rule finds something in, edited as the hint says and compiled again.

Witness: jaxlib for CPU, libtpu for TPU, and, if it is installed, the CUDA plugin for GPU. None of them needs a device.
"""

from __future__ import annotations

import pytest

from advising import Compiled, edits
from hlo_cli import parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.finding import Finding

AFTER_OPTIMIZATIONS = {
    "HLO102 result": "tpu",
    "HLO103": "cpu gpu",
    "HLO202": "cpu",
    "HLO203": "cpu tpu gpu",
    "HLO204 returned": "cpu gpu",
    "HLO204 updated": "cpu tpu gpu",
    "HLO205": "cpu tpu gpu",
    "HLO206": "cpu tpu gpu",
    "HLO301": "tpu gpu",
    "HLO302": "tpu gpu",
    "HLO305": "tpu gpu",
    "HLO501": "cpu tpu gpu",
    "HLO502": "cpu tpu gpu",
    "HLO503": "cpu tpu gpu",
    "HLO505": "cpu tpu gpu",
    "HLO506": "cpu",
    "HLO507": "tpu",
    "HLO508": "cpu tpu",
    "HLO601": "cpu",
    "HLO602": "cpu",
    "HLO701": "tpu",
    "HLO702": "cpu gpu",
    "HLO703": "gpu",
    "HLO704": "cpu tpu gpu",
    "HLO705": "tpu",
    "HLO706": "tpu gpu",
    "HLO707": "cpu gpu",
}
"""The edits, and the compilers after which there is still something to edit."""

BEFORE_OPTIMIZATIONS = {"HLO104": "tpu", "HLO504": "cpu tpu gpu"}
"""Edits for rules that look at modules that are not compiled."""


def _rows(edits_of: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, target) for name, targets in edits_of.items() for target in targets.split()]


def _found(name: str, compiled: Compiled, stage: str) -> tuple[Finding, ...]:
    code = name.split()[0]
    chip = "v5e" if code == "HLO104" else None
    return lint_module(parse_module(compiled.texts[stage]), LintSettings((code,), chip=chip))


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("name", "target"), _rows(AFTER_OPTIMIZATIONS))
def test_compiled_again_the_finding_is_gone(name: str, target: str) -> None:
    before, after = edits(target)[name]
    assert _found(name, before, "after")
    assert [each.message for each in _found(name, after, "after")] == []


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("name", "target"), _rows(BEFORE_OPTIMIZATIONS))
def test_lowered_again_the_finding_is_gone(name: str, target: str) -> None:
    before, after = edits(target)[name]
    assert _found(name, before, "before")
    assert [each.message for each in _found(name, after, "before")] == []
