"""Whether `hlo diff` says "same program": only if the results or the named operations are known to be the same.

Pairs are XLA's: modules before and after fusion for a GPU, without metadata.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from dumps import FIXTURES
from hlo_cli import parse_module
from hlo_cli.analysis.statements.user_program import same_operations, same_values
from hlo_cli.ir.instruction import Instruction
from test_diff_statements import metadata, told

GPU_PAIRS = sorted(path.parent for path in (FIXTURES / "gpu_fusion").glob("*/*/ids.json.gz"))
PLANTED = (("tanh(", "sine("), ("maximum(", "tanh("), ("add(", "subtract("), ("exponential(", "sqrt("))


def gpu_stage(home: Path, stage: str) -> str:
    return gzip.decompress((home / f"{stage}.txt.gz").read_bytes()).decode()


@pytest.mark.parametrize("home", GPU_PAIRS, ids=lambda path: path.name)
def test_fused_modules_are_the_same_program_and_changed_ones_are_not(home: Path) -> None:
    """Names are kept as they were: only the operations tell."""
    before, after = gpu_stage(home, "before_priority_fusion"), gpu_stage(home, "after_multi_output_fusion")
    module = parse_module(before)
    assert same_values(module, parse_module(after))
    for old, new in PLANTED:
        for found in re.finditer(f" {re.escape(old)}", before):
            changed = f"{before[: found.start()]} {new}{before[found.end() :]}"
            assert not same_values(module, parse_module(changed)) or is_dead(before, found.start())


def is_dead(text: str, place: int) -> bool:
    """Whether nothing that is executed needs the instruction at a place: its value may be omitted."""
    line = text[text.rindex("\n", 0, place) + 1 : place]
    name = line.split(" = ")[0].removeprefix("  ROOT").strip(" %")
    module = parse_module(text)
    needed: set[Instruction] = set()
    waiting = [module.entry.root]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in needed:
            needed.add(each)
            waiting += [*each.operands, *(called.root for called in each.called_computations)]
    return name not in {each.name for each in needed}


def activation(body: str, *, fused: bool) -> str:
    """A layer with another activation, as one kernel or as several."""
    lines = f"a = f32[64]{{0}} add(p, p), {metadata('jit(f)/add')} {body}"
    if not fused:
        return f"HloModule m, is_scheduled=true ENTRY e {{ p = f32[64]{{0}} parameter(0) {lines} }}"
    call = "ROOT k = f32[64]{0} fusion(q), kind=kLoop, calls=g"
    inner = f"g {{ p = f32[64]{{0}} parameter(0) {lines} }}"
    return f"HloModule m, is_scheduled=true {inner} ENTRY e {{ q = f32[64]{{0}} parameter(0) {call} }}"


def tower(*, opcode: str, name: str, fused: bool) -> str:
    """Eight steps of one operation."""
    other = ", a" if opcode in ("add", "subtract", "maximum") else ""
    steps = [
        f"s{at} = f32[64]{{0}} {opcode}({f's{at - 1}' if at else 'a'}{other}), {metadata(f'jit(f)/{name}')}"
        for at in range(8)
    ]
    return activation(" ".join((*steps[:-1], f"ROOT {steps[-1]}")), fused=fused)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("tanh", "tanh"), ("logistic", "gelu")),
        (("maximum", "relu"), ("tanh", "tanh")),
        (("add", "add"), ("subtract", "add")),
    ],
    ids=lambda pair: "-".join(pair),
)
def test_another_operation_is_not_another_compiler(old: tuple[str, str], new: tuple[str, str]) -> None:
    """Compiled differently, and one operation is another: with another name, or with the same."""
    one = parse_module(tower(opcode=old[0], name=old[1], fused=False))
    same, other = (parse_module(tower(opcode=o, name=n, fused=True)) for o, n in (old, new))
    assert any(sentence.startswith("same program") for sentence in told(one, same))
    assert not any("same program" in sentence for sentence in told(one, other))


def test_the_same_operations_by_name() -> None:
    """Without equal results: constants are omitted."""
    text = tower(opcode="tanh", name="tanh", fused=False).replace("add(p, p)", "add(p, c)")
    text = text.replace("parameter(0)", "parameter(0) c = f32[64]{0} constant({...})", 1)
    one = parse_module(text)
    assert not same_values(one, one)
    assert same_operations(one, one) == 1
    assert same_operations(one, parse_module(text.replace("tanh(", "sine("))) == 0.5
    assert same_operations(one, parse_module(re.sub(r", metadata=\{[^}]*\}", "", text))) is None
