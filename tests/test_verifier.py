"""XLA's own verifier and the rules of well-formed modules say the same of the same modules."""

from __future__ import annotations

import re
from random import Random

import pytest

from hlo_cli import parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from lint_cases import CASES
from mutations import mutated
from random_instructions import Writer
from verifying import verdicts
from versions import IS_NEWER_XLA
from wrong_instructions import TEXT, WRITTEN, XLA_ALONE

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

NOT_ASKED = frozenset(
    ("HLO011", "HLO012", "HLO014", "HLO022", "HLO050", "HLO052", "HLO053", "HLO070", "HLO071", "HLO072", "HLO073")
)
"""Rules of mixed precision, layouts and the header, which this verifier is not asked to look at."""

NOT_LOOKED_AT = ("num_", ":E(", "{0,1} custom-call(x)")
"""What is in bad cases that this verifier takes: the header's numbers, and layouts, which CPUs look at earlier."""


def test_it_rejects_what_is_wrong() -> None:
    """Operands of every kind are made by custom calls: the program of the CPU could not take all as arguments."""
    before, entry = TEXT.split("ENTRY")
    entry = re.sub(r"parameter\(\d+\)", 'custom-call(), custom_call_target="f"', entry)
    entry = re.sub(r"token\[\] custom-call\(.*", "token[] after-all()", entry)
    form = f"{before}ENTRY{entry}".replace("ROOT r = INSTRUCTION", "r = INSTRUCTION\n  ROOT end = f32[] constant(0)")
    instructions = [instruction for instruction, _ in (*WRITTEN, *XLA_ALONE)]
    said = verdicts([form.replace("INSTRUCTION", each) for each in ("f32[2,3] add(a, a)", *instructions)])
    assert said[0] == "accepted"
    assert not [each for each, verdict in zip(instructions, said[1:], strict=True) if verdict == "accepted"]
    assert said.count("rejected") > 0.9 * len(instructions)


def test_it_judges_the_cases_of_the_rules_alike() -> None:
    cases = [case for case in CASES if "HLO010" <= case.code < "HLO090" and case.settings == LintSettings()]
    cases = [case for case in cases if case.code not in NOT_ASKED]
    bad = verdicts([re.sub("[«»]", "", case.bad) for case in cases])
    good = verdicts([case.good for case in cases])
    accepted = [case for case, verdict in zip(cases, bad, strict=True) if verdict == "accepted"]
    assert not [case for case in accepted if not any(words in case.bad for words in NOT_LOOKED_AT)]
    assert not [case for case, verdict in zip(cases, good, strict=True) if verdict == "rejected"]
    assert bad.count("rejected") > len(cases) / 3


def test_it_judges_random_changes_alike() -> None:
    """Whatever is changed: what it accepts has no error, and what it rejects has one."""
    random = Random(7)
    modules = [parse_module(Writer(Random(seed)).text()) for seed in range(100)]
    bases = [module for module in modules if not module.errors]
    texts = [mutated(random.choice(bases), random) for _ in range(400)]
    said = verdicts(texts)
    settings = LintSettings(allow_mixed_precision="always", ignore=tuple(NOT_ASKED))
    found = [_is_wrong(text, settings) for text in texts]
    assert [
        text for text, verdict, wrong in zip(texts, said, found, strict=True) if verdict == "accepted" and wrong
    ] == []
    assert [
        text for text, verdict, wrong in zip(texts, said, found, strict=True) if verdict == "rejected" and not wrong
    ] == []
    assert min(said.count("accepted"), said.count("rejected")) > (30 if IS_NEWER_XLA else 40)  # newer ones reject more


def _is_wrong(text: str, settings: LintSettings) -> bool:
    return any(each.code < "HLO1" and each.severity == "error" for each in lint_module(parse_module(text), settings))


def test_it_judges_scales_alike() -> None:
    """Scales of every rank and size, of which some are none."""
    random = Random(11)
    texts = [_scaled_dot(random) for _ in range(200)]
    said, found = verdicts(texts), [_is_wrong(text, LintSettings(allow_mixed_precision="always")) for text in texts]
    assert ["rejected" if wrong else "accepted" for wrong in found] == said


def _scaled_dot(random: Random) -> str:
    kind, rows, inner, columns = random.choice(("bf16", "f8e4m3fn")), 8, 64, 32
    sizes = ["[]", "[1]", "[1,1]", "[1,1,1]", f"[{rows},1]", f"[2,{inner}]", "[3,1]"]
    scales = [f"{random.choice((kind, 'bf16', 'f8e8m0fnu'))}{random.choice(sizes)}" for _ in range(2)]
    shapes = (f"{kind}[{rows},{inner}]", f"{kind}[{inner},{columns}]", *scales)
    lines = [
        f'{name} = {shape} custom-call(), custom_call_target="f"' for name, shape in zip("abst", shapes, strict=True)
    ]
    says = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines += [f"r = {kind}[{rows},{columns}] scaled-dot(a, b, s, t), {says}", "ROOT z = f32[] constant(0)"]
    return "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n"
