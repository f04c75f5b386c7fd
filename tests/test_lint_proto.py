"""Findings in a proto are those in the text of the same module: the same fingerprints, and named in every format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hlo_cli import module_to_bytes, parse_module
from hlo_cli.cli import main
from hlo_cli.ir.module import Module
from hlo_cli.lint.fingerprint import fingerprint
from hlo_cli.lint.run import Found, lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.source import HloError
from hlo_cli.transform.desugar import desugar
from lint_cases import CASES as FORM_CASES
from lint_cases import Case
from lint_cost_cases import COST_CASES
from protos import PROTOS, read, text_beside
from strategies import name_of

FUSED = """HloModule m
body {
  p = f32[2] parameter(0)
  lost = f32[2] exponential(p)
  ROOT n = f32[2] negate(p)
}
ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] fusion(x), kind=kLoop, calls=body
}
"""
SUGARED = """HloModule m, is_scheduled=true
ENTRY e {
  x = f32[4096,64] parameter(0)
  s = ((f32[4096,64]), f32[4096,64], u32[]) negate-start(x)
  u = ((f32[4096,64]), f32[4096,64], u32[]) negate-update(s)
  d = f32[4096,64] negate-done(u)
  ROOT t = f32[64,4096] transpose(d), dimensions={1,0}
}
"""
OF_TEXT_ALONE = {
    "HLO003": "a proto leaves nothing out",
    "HLO021": "a proto of what runs nothing names no computation",
    "HLO053": "in a proto channel 0 is no channel",
    "HLO013": "an order that names a dimension twice is no layout of a proto",
    "HLO073": "an operand of another computation has no number in a proto",
    "HLO016": "protos have no field for the words of result_accuracy",
}
"""Rules whose case no proto can hold, and why."""
OF_WHAT_IS_WRAPPED = ("HLO042",)
"""Rules whose case is a sugared start: of its two instructions in a proto, it is the inner one that they mean."""

Capture = pytest.CaptureFixture[str]


def text_of(case: Case) -> str:
    return case.bad.replace("«", "").replace("»", "")


def known_again(found: tuple[Found, ...]) -> list[tuple[str, str]]:
    return sorted((each.rule.code, fingerprint(each)) for each in found)


def by_proto(module: Module) -> Module:
    """The module as a proto gives it back."""
    return read(module_to_bytes(desugar(module)))


@pytest.mark.parametrize("path", [path for path in PROTOS if text_beside(path).exists()], ids=name_of)
def test_a_proto_of_xla_has_the_findings_of_its_text(path: Path) -> None:
    everything = LintSettings(select=("ALL",), padding_bytes=1, copy_bytes=1)
    text = lint_module(parse_module(text_beside(path).read_text()), everything)
    proto = lint_module(read(path.read_bytes()), everything)
    assert known_again(text) == known_again(proto)
    assert {getattr(each.finding.at, "name", None) for each in text} == {
        getattr(each.finding.at, "name", None) for each in proto
    }


@pytest.mark.parametrize("case", [*FORM_CASES, *COST_CASES], ids=lambda case: case.code)
def test_fingerprints_of_text_and_proto_agree(case: Case) -> None:
    module = parse_module(text_of(case))
    if case.code in (*OF_TEXT_ALONE, *OF_WHAT_IS_WRAPPED) or module.errors:
        return
    settings = LintSettings(select=(case.code,)) if case.settings == LintSettings() else case.settings
    text, proto = lint_module(module, settings), lint_module(by_proto(module), settings)
    assert text
    assert known_again(text) == known_again(proto)


@pytest.mark.parametrize("code", OF_TEXT_ALONE)
def test_what_only_text_says_is_not_in_a_proto(code: str) -> None:
    case = next(each for each in FORM_CASES if each.code == code)
    try:
        proto = by_proto(parse_module(text_of(case)))
    except (HloError, KeyError):
        return
    assert not [each for each in lint_module(proto, case.settings) if each.rule.code == code]


def test_both_spellings_of_an_asynchronous_operation_have_one_fingerprint() -> None:
    everything = LintSettings(select=("ALL",))
    module = parse_module(SUGARED)
    text = known_again(lint_module(module, everything))
    assert {"HLO402", "HLO401", "HLO301"} & {code for code, _ in text}
    assert text == known_again(lint_module(by_proto(module), everything))
    assert text == known_again(lint_module(desugar(module), everything))


@pytest.mark.parametrize("text", [FUSED, *(text_of(case) for case in FORM_CASES if case.code in ("HLO030", "HLO060"))])
def test_a_baseline_of_the_text_knows_the_proto(text: str, tmp_path: Path, capsys: Capture) -> None:
    module, proto, known = tmp_path / "m.hlo", tmp_path / "m.hlo.pb", tmp_path / "known.json"
    module.write_text(text)
    proto.write_bytes(module_to_bytes(parse_module(text)))
    lint = ("lint", "--isolated")
    main([*lint, str(module), "--write-baseline", str(known)], standalone=False)
    assert main([*lint, str(proto)], standalone=False) == 1
    assert main([*lint, str(proto), "--baseline", str(known)], standalone=False) == 0
    capsys.readouterr()


@pytest.mark.parametrize("format_", "full concise github gitlab junit sarif json jsonl csv tsv md html screen".split())
def test_every_format_names_the_instruction_of_a_proto(format_: str, tmp_path: Path, capsys: Capture) -> None:
    """Its name and its computation's, though the message names other things: there is no line to point to."""
    proto = tmp_path / "m.hlo.pb"
    text = "HloModule m\nENTRY whole { p = f32[2] parameter(0)  ROOT s = f32[3] negate(p) }"
    proto.write_bytes(module_to_bytes(parse_module(text)))
    assert main(["lint", "--isolated", str(proto), "--format", format_], standalone=False) == 1
    found = capsys.readouterr().out
    assert re.search(r"\bwhole\b", found)
    assert re.search(r"\bs\b", found)
