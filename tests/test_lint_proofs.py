"""`hlo lint --prove`: hints are applied and measured; what a module cannot show is not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import in_process
from hlo_cli import parse_module
from hlo_cli.commands.lint.proving import Proof, proofs
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings

SETTINGS = LintSettings(min_copy_bytes=1024, min_donation_bytes=1024, min_argument_bytes=1024)
MODULE = """HloModule m, is_scheduled=true

ENTRY e {
  p = f32[256,512]{1,0} parameter(0)
  w = f32[1024,1024]{1,0} parameter(1)
  u = f32[512,512]{1,0} parameter(2)
  n = f32[1024,1024]{1,0} negate(w)
  c = f32[256,512]{0,1} copy(p)
  d = f32[256,512]{0,1} negate(c)
  ROOT t = (f32[1024,1024]{1,0}, f32[256,512]{0,1}) tuple(n, d)
}
"""
KIB = 1024


def proven(text: str) -> dict[str, Proof]:
    module = parse_module(text)
    return {each.finding.code or "": each for each in proofs(module, lint_module(module, SETTINGS), SETTINGS)}


def test_hints_that_a_module_can_show_are_measured() -> None:
    found = proven(MODULE)
    assert {code: (proof.measured_bytes or 0) // KIB for code, proof in found.items() if proof.change} == {
        "HLO102": 2 * 512,  # read and written
        "HLO203": 4096,
        "HLO206": 1024,
    }
    assert {proof.verdict for proof in found.values() if proof.change} == {"true"}
    assert found["HLO203"].promised_bytes == 4096 * KIB


def test_donations_that_only_save_together_are_one_proof() -> None:
    text = """HloModule m, is_scheduled=true
    ENTRY e {
      a = f32[512,512] parameter(0)
      b = f32[512,512] parameter(1)
      k = f32[] constant(2)
      z = f32[512,512] broadcast(k), dimensions={}
      r = f32[512,512] add(a, z)
      q = f32[512,512] negate(b)
      ROOT t = (f32[512,512], f32[512,512]) tuple(r, q)
    }"""
    module = parse_module(text)
    found = [each for each in lint_module(module, SETTINGS) if each.code == "HLO203"]
    (proof,) = proofs(module, found, SETTINGS)
    assert len(found) == proof.count == 2
    assert (proof.change, proof.verdict) == ("a and b donated", "true")
    assert [(bytes_ or 0) // KIB for bytes_ in (proof.promised_bytes, proof.measured_bytes)] == [1024, 1024]


def test_a_copied_result_is_returned_in_the_layout_that_it_has() -> None:
    text = """HloModule m
    ENTRY e { p = f32[256,512]{1,0} parameter(0)  n = f32[256,512]{1,0} negate(p)  ROOT c = f32[256,512]{0,1} copy(n) }"""
    proof = proven(text)["HLO102"]
    assert (proof.change, proof.measured_bytes) == ("the result in layout {1,0}", 2 * 512 * KIB)


def test_what_is_not_applied_is_one_row_for_each_rule_and_reason() -> None:
    text = """HloModule m, is_scheduled=true
    ENTRY e {
      p = f32[8,1000]{0,1:T(8,128)} parameter(0)
      q = f32[8,1000]{0,1:T(8,128)} parameter(1)
      ROOT t = (f32[8,1000]{0,1:T(8,128)}, f32[8,1000]{0,1:T(8,128)}) tuple(p, q)
    }"""
    module = parse_module(text)
    settings = LintSettings(select=("HLO1",), min_padding_bytes=1)
    found = lint_module(module, settings)
    costs = [each.cost_bytes or 0 for each in found]
    assert len(costs) > 1
    for hint, why in ((found[0].hint, "a change of the source"), (None, "no hint to apply")):
        (proof,) = proofs(module, [replace(each, hint=hint) for each in found], settings)
        assert (proof.verdict, proof.why, proof.measured_bytes) == ("not applied", why, None)
        assert (proof.promised_bytes, proof.count) == (sum(costs), len(costs))


def test_a_hint_that_does_not_come_true_is_called_false() -> None:
    finding = proven(MODULE)["HLO203"].finding
    verdicts = [Proof(finding, "x", 100, *found).verdict for found in ((100,), (89,), (-5,), (100, 0), (0, 95))]
    assert verdicts == ["true", "less", "false", "false", "true"]


@pytest.mark.oracle
@pytest.mark.slow
def test_xla_needs_less_with_the_hint(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    (tmp_path / "m.hlo").write_text(MODULE.replace(", is_scheduled=true", ""))
    limits = [word for name in ("copy", "donation", "argument") for word in ("--set", f"min_{name}_bytes=1024")]
    arguments = ["lint", "m.hlo", "--prove", "--python", str(Path(sys.executable).parents[1]), *limits, "--json"]
    out, err, _ = in_process.run(arguments, folder=tmp_path, settings={})
    rows = {row["code"]: row for row in json.loads(out)["tables"]["proofs"]["rows"]}
    assert rows["HLO206"]["compiled_bytes"] == 1024 * KIB, err
    assert rows["HLO102"]["compiled_bytes"] is None
    assert all(row["compiled_bytes"] == 4096 * KIB for code, row in rows.items() if code == "HLO203")
