"""Findings in a proto are those in the text of the same module: the same fingerprints, and named in every format."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from hlo_cli import module_from_bytes, module_to_bytes, parse_module
from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
from hlo_cli.analysis.schedule.async_verifier import verify_async
from hlo_cli.cli import main
from hlo_cli.ir.module import Module
from hlo_cli.lint.run import lint_module, rule_of
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Finding
from hlo_cli.source import HloError
from hlo_cli.transform.sugar import desugar
from lint_cases import CASES as FORM_CASES
from lint_cases import Case
from lint_cost_cases import COST_CASES
from lint_examples import CONTEXTS
from protos import PROTOS, read, text_beside
from strategies import dump_text, dumps, name_of

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
UNFINISHED = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  ROOT s = (f32[4], f32[4], u32[]) copy-start(x)
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
    "HLO001": "what cannot be read is not written",
    "HLO003": "a proto leaves nothing out",
    "HLO013": "an order that names a dimension twice is no layout of a proto",
    "HLO016": "protos have no field for the words of result_accuracy",
    "HLO021": "a proto of what runs nothing names no computation",
    "HLO053": "in a proto channel 0 is no channel",
    "HLO073": "an operand of another computation has no number in a proto",
    "HLO083": "what cannot be read is not written",
}
"""Rules whose case no proto can hold, and why."""
LOW = LintSettings(
    select=("ALL",),
    min_padding_bytes=1,
    min_copy_bytes=1,
    min_value_bytes=1,
    min_donation_bytes=1,
    min_donation_fraction=0,
    min_argument_bytes=1,
    min_constant_bytes=1,
    min_prefetch_bytes=1,
    min_kernel_bytes=1,
    min_transfer_bytes=1,
    min_replicated_bytes=1,
    min_accumulated_elements=1,
)
"""Everything that any rule may say."""

Capture = pytest.CaptureFixture[str]


def text_of(case: Case) -> str:
    return case.bad.replace("«", "").replace("»", "")


def known_again(found: tuple[Finding, ...]) -> list[tuple[str, str]]:
    """What a baseline has of findings: one that is written of a module knows another's if both have the same."""
    return sorted((each.code, each.fingerprint) for each in found)


def by_proto(module: Module) -> Module:
    """The module as a proto gives it back."""
    return read(module_to_bytes(desugar(module)))


@lru_cache(maxsize=1)
def _in_both_forms(path: Path) -> tuple[Module, Module]:
    """The module of a dump, and as a proto gives it back."""
    module = parse_module(dump_text(path))
    return module, by_proto(module)


def agree(text: Module, proto: Module, settings: LintSettings) -> None:
    """Whether each finding in one is known by a baseline of the other, and has a name where it has no place."""
    found = lint_module(proto, settings)
    assert known_again(lint_module(text, settings)) == known_again(found)
    assert all(each.span is None for each in found)


@pytest.mark.parametrize("path", [path for path in PROTOS if text_beside(path).exists()], ids=name_of)
def test_a_proto_of_xla_has_the_findings_of_its_text(path: Path) -> None:
    text, proto = parse_module(text_beside(path).read_text()), read(path.read_bytes())
    agree(text, proto, LOW)
    assert {each.name for each in lint_module(text, LOW)} == {each.name for each in lint_module(proto, LOW)}


@pytest.mark.parametrize(
    "settings", [pytest.param(LintSettings(), marks=pytest.mark.slow), LOW], ids=["default", "everything"]
)
@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_a_proto_of_ours_has_the_findings_of_its_text(path: Path, settings: LintSettings) -> None:
    agree(*_in_both_forms(path), settings)


@pytest.mark.parametrize("case", [*FORM_CASES, *COST_CASES], ids=lambda case: case.code)
def test_fingerprints_of_text_and_proto_agree(case: Case) -> None:
    module = parse_module(text_of(case))
    if case.code in OF_TEXT_ALONE or "origin={}" in text_of(case) or "origin={ }" in text_of(case):
        return  # a proto has no word for the shape of an original value without leaves
    own = LintSettings(select=(case.code,)) if case.settings == LintSettings() else case.settings
    assert lint_module(module, own)
    proto = by_proto(module)
    agree(module, proto, own)
    agree(module, proto, replace(LOW, chip=own.chip, max_peak_bytes=own.max_peak_bytes))


@pytest.mark.parametrize("code", [code for code in CONTEXTS if code not in OF_TEXT_ALONE])
def test_fingerprints_of_the_example_of_a_page_agree(code: str) -> None:
    around = CONTEXTS[code]
    module = parse_module(around.text(rule_of(code).page.example))
    agree(module, by_proto(module), around.settings)
    agree(module, by_proto(module), LOW)


def test_a_finding_says_where_in_the_users_program_it_is() -> None:
    text = """HloModule m
    ENTRY e { p = f32[2] parameter(0)
      ROOT n = f32[3] negate(p), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=7} }"""
    for module in (parse_module(text), by_proto(parse_module(text))):
        [found] = lint_module(module)
        assert (found.name, found.op_name, found.location) == ("e/n", "jit(f)/neg", "f.py:7")
    [found] = lint_module(parse_module(text.replace(text[text.index(", meta") : -2], "")))
    assert (found.name, found.op_name, found.location) == ("e/n", None, None)


@pytest.mark.parametrize("code", OF_TEXT_ALONE)
def test_what_only_text_says_is_not_in_a_proto(code: str) -> None:
    case = next(each for each in FORM_CASES if each.code == code)
    try:
        proto = by_proto(parse_module(text_of(case)))
    except HloError:
        return
    assert not [each for each in lint_module(proto, case.settings) if each.code == code]


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


@pytest.mark.parametrize("path", [path for path in PROTOS if text_beside(path).exists()], ids=name_of)
def test_a_baseline_of_either_knows_the_other(path: Path, tmp_path: Path, capsys: Capture) -> None:
    """With what lies beside them: the compiler's own assignment of buffers, which decides on findings about memory."""
    known = str(tmp_path / "known.json")
    lint = ("lint", "--isolated", "--select", "ALL", "--set", "min_donation_bytes=1", "--set", "min_value_bytes=1")
    for first, second in ((path, text_beside(path)), (text_beside(path), path)):
        main([*lint, str(first), "--write-baseline", known], standalone=False)
        capsys.readouterr()
        assert main([*lint, str(second), "--baseline", known, "--format", "concise"], standalone=False) == 0
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("command", "text"), [("schedule", UNFINISHED), ("fuse", FUSED)])
def test_broken_rules_have_names_in_a_proto(command: str, text: str, tmp_path: Path, capsys: Capture) -> None:
    """Other commands tell of the same problems: by place in a text, by name in a proto."""
    proto = tmp_path / "m.hlo.pb"
    proto.write_bytes(module_to_bytes(parse_module(text)))
    [*_, told] = (*verify_async(parse_module(text)), *verify_fusions(parse_module(text)))
    for format_ in ("table", "json"):
        main([command, str(proto), "--format", format_], standalone=False)
        found = capsys.readouterr()
        assert told.message in found.err
        assert f"{proto}:{told.name}\n" in found.err
        assert format_ == "table" or json.loads(found.out)["errors"][-1]["instruction"] == told.instruction


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


def test_an_operand_that_a_schedule_runs_later_is_none() -> None:
    """As a name of a text that is not defined above: no rule and no analysis sees it."""
    text = "HloModule m, is_scheduled=true  ENTRY e { p = f32[2] parameter(0)  a = f32[2] negate(p)  ROOT b = f32[2] sine(a) }"
    data = module_to_bytes(parse_module(text))
    one, two = (bytes([0x80 | number, 0x80, 0x80, 0x80, 0x10]) for number in (1, 2))  # ids are above 2^32
    at = data.rindex(one + two)
    module = module_from_bytes(data[:at] + two + one + data[at + 10 :])
    assert [each.name for each in module.instructions] == ["p", "b", "a"]
    early = module.instruction("b")
    assert (early.opcode, early.operands) == ("sine?", ())
    found = lint_module(module, LintSettings(select=("ALL",)))
    assert [(each.code, each.message) for each in found] == [("HLO010", "sine %b: expected 1 operand, found 0")]
