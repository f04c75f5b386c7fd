"""GPU modules rewritten by `hlo fuse`: read again as they are, valid by our rules and XLA's, and with equal results.

`make judge` takes the programs below `HLO_CORPUS` too, if that names a folder.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from gpu_fusion_dumps import HOME, Program, programs
from hlo_cli import parse_module
from hlo_cli.analysis.comparison.two_runs import compare_runs
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.fusion.by_request import fuse_pair, unfuse
from hlo_cli.transform.fusion.gpu_fusion import BOTH, gpu_fuse
from in_process import run
from share import every
from verifying import Verdict, verdicts

PROGRAMS = programs()
SAMPLE = [each for each in PROGRAMS if str(each) in ("mi300-s28", "a100_sxm_80-s2012", "h100_sxm-r005")]
OTHERS = [Path(os.environ["HLO_CORPUS"])] if "HLO_CORPUS" in os.environ else []
PAIRS = 3
"""Pairs fused by hand in a program."""

INVALID = """HloModule m
f { q = f32[8] parameter(0)  ROOT n = f32[9] negate(q) }
ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] fusion(p), kind=kLoop, calls=f }
"""

Rewrite = tuple[str, Module, Module]


def rewrites(program: Program) -> Iterator[Rewrite]:
    """What was done, the module before, and the module after."""
    random = Random(str(program))
    before = parse_module(program.text("before_priority_fusion"))
    both = gpu_fuse(before, program.chip, passes=BOTH)
    yield "both passes", before, both.module
    yield "priority fusion", before, gpu_fuse(before, program.chip, passes=("priority",)).module
    apart = parse_module(program.text("before_multi_output_fusion"))
    yield "multi-output fusion", apart, gpu_fuse(apart, program.chip, passes=("multi-output",)).module
    known = {each.name for each in before.instructions}
    pairs = [(step.producer, step.consumer) for step in both.fused if {step.producer, step.consumer} <= known]
    for one, other in random.sample(pairs, min(PAIRS, len(pairs))):
        try:
            yield f"--fuse {one},{other}", before, fuse_pair(before, one, other)
        except HloError:  # such as a producer that stays for others
            continue
    compiled = parse_module(program.text("after_multi_output_fusion"))
    yield "--unfuse all", compiled, unfuse(compiled)
    fusions = [each.name for each in compiled.instructions if each.opcode == opcodes.FUSION]
    if fusions:
        name = random.choice(fusions)
        yield f"--unfuse {name}", compiled, unfuse(compiled, [name])


def faults(label: str, before: Module, after: Module) -> Iterator[str]:
    """What is wrong with a rewritten module as text and by our own rules."""
    text = after.to_string()
    again = parse_module(text)
    if again.errors or again.to_string() != text:
        yield f"{label}: not read again"
    if len(list(verify_fusions(again))) > len(list(verify_fusions(before))):
        yield f"{label}: {next(iter(verify_fusions(again)))}"


def verdict(before: Module, after: Module, limits: Limits) -> str:
    """Of the results of both: `identical`, `rounding`, …, or `too large` to run, or `unknown function`."""
    try:
        return compare_runs(before, parse_module(after.to_string()), limits=limits, is_rewrite=True).verdict
    except HloError as error:
        message = error.diagnostics[0].message
        assert "limit" in message or "unknown function" in message, message
        return "too large" if "limit" in message else "unknown function"


def xla_verdicts(texts: list[str]) -> list[Verdict]:
    """What XLA's verifier says of modules, without the settings of the GPU compiler, which that of the CPU cannot read."""
    return verdicts([_without_settings(text) for text in texts])


def _without_settings(text: str) -> str:
    """A text without each `backend_config={…}`."""
    kept, at = [], 0
    while (start := text.find(", backend_config={", at)) >= 0:
        kept.append(text[at:start])
        depth, at = 1, text.index("{", start) + 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
    return "".join((*kept, text[at:]))


@pytest.mark.parametrize("program", every(3, SAMPLE), ids=str)
def test_rewritten_modules_compute_the_same(program: Program) -> None:
    limits = Limits(1 << 28, 20_000_000, 1_000, 10.0)
    found = [(label, verdict(before, after, limits)) for label, before, after in rewrites(program)]
    assert [each for each in found if each[1] != "identical"] == []
    assert len(found) > 5


@pytest.mark.parametrize("program", every(3, PROGRAMS), ids=str)
def test_rewritten_modules_are_valid(program: Program) -> None:
    assert [fault for rewrite in rewrites(program) for fault in faults(*rewrite)] == []


def test_a_wrong_rewrite_is_found() -> None:
    before = parse_module("ENTRY e { p = f32[8] parameter(0)  n = f32[8] negate(p)  ROOT s = f32[8] add(n, n) }")
    after = parse_module(before.to_string().replace("negate(", "abs("))
    assert verdict(before, after, Limits(1 << 20, 1_000, 1, 1.0)) == "different"
    assert list(faults("planted", before, parse_module(INVALID)))


def test_the_command_verifies_changes_of_gpu_modules() -> None:
    program = SAMPLE[0]
    home = str(program.home / "after_multi_output_fusion.txt.gz")
    fusion = next(
        each.name
        for each in parse_module(program.text("after_multi_output_fusion")).instructions
        if each.opcode == opcodes.FUSION
    )
    before = str(program.home / "before_priority_fusion.txt.gz")
    pair = next(label for label, *_ in rewrites(program) if label.startswith("--fuse ")).removeprefix("--fuse ")
    for words in (
        [home, "--unfuse", fusion],
        [before, "--fuse", pair],
        [before, "--run-pass"],
    ):
        shown, notes, code = run(
            ["fuse", *words, "--chip", program.chip, "--verify", "--format", "json"], folder=HOME, settings={}
        )
        assert code == 0, (words, notes)
        assert '"verified": "identical"' in shown


@pytest.mark.oracle
def test_rewritten_modules_keep_the_rules_of_xla() -> None:
    made = [(label, after.to_string()) for program in SAMPLE for label, _, after in rewrites(program)]
    assert list(zip(made, xla_verdicts([text for _, text in made]), strict=True)) == [
        (each, "accepted") for each in made
    ]
    assert xla_verdicts([INVALID]) == ["rejected"]


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize("home", [HOME, *OTHERS], ids=lambda home: home.name)
def test_all_rewritten_modules_are_accepted_and_compute_the_same(home: Path) -> None:
    limits = Limits(2 << 30, 300_000_000, 10_000, 60.0)
    seen: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    wrong = []
    for program in programs(home):
        made = list(rewrites(program))
        for label, before, after in made:
            found = verdict(before, after, limits)
            seen[found] += 1
            if found not in ("identical", "rounding", "too large", "unknown function"):
                wrong.append((str(program), label, found))
        wrong += [(str(program), label, fault) for label, *two in made for fault in faults(label, *two)]
        asked = xla_verdicts([after.to_string() for _, _, after in made])
        accepted.update(asked)
        wrong += [
            (str(program), label, each)
            for (label, *_), each in zip(made, asked, strict=True)
            if each in ("rejected", "unread")
        ]
    assert wrong == []
    assert accepted["accepted"] > 0.9 * accepted.total(), accepted
    assert seen["identical"] > 0.7 * seen.total(), seen
    assert seen["rounding"] < 0.02 * seen.total(), seen
