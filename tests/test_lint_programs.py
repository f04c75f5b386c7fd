"""Rules on programs in jax, compiled as this is read: they find the wasteful ones, and nothing of the kind in the others."""

from __future__ import annotations

import pytest

from hlo_cli import parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Finding
from versions import IS_NEWER_XLA
from wasteful_programs import CODES, programs


def found_in(code: str, text: str) -> tuple[Finding, ...]:
    return lint_module(parse_module(text), LintSettings((code,)))


@pytest.mark.oracle
@pytest.mark.parametrize("code", CODES)
def test_a_rule_finds_what_compilers_leave(code: str) -> None:
    """In at least one of both stages, at an instruction; in neither of the program that does without."""
    if code == "HLO505" and IS_NEWER_XLA:
        pytest.skip("XLA:CPU of jaxlib 0.12 leaves no such collective in the loop")
    bad, good = programs()[code]
    told = [each for text in bad for each in found_in(code, text)]
    assert told
    assert all(each.name for each in told)
    assert [each.message for text in good for each in found_in(code, text)] == []
