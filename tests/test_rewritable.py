"""Malformed modules are rewritten or rejected with a location: rewriters raise only HloError."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest

from dumps import Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.extract import extract
from hlo_cli.transform.fusion.by_request import fuse_pair, unfuse
from hlo_cli.transform.fusion.cpu_fusion import fuse
from hlo_cli.transform.reorder import reorder
from hlo_cli.transform.rewriting import check_rewritable
from hlo_cli.transform.sugar import desugar, sugar
from rewritten import GOALS

_NAME = re.compile(r"%[\w.\-]+")
F = "f { a = s8[9] parameter(0)  ROOT b = s8[9] negate(a) }"
E = "ENTRY e { p = s8[9] parameter(0)  q = s8[9] fusion(p), kind=kLoop, calls=f  ROOT r = s8[9] abs(q) }"

BROKEN = {
    "a value that comes later": (F, E.replace("p), kind", "r), kind"), "before its definition|0 operands"),
    "a control predecessor that comes later": (
        F,
        E.replace("calls=f", "calls=f, control-predecessors={r}"),
        "defined after it",
    ),
    "a control predecessor of itself": (
        F,
        E.replace("calls=f", "calls=f, control-predecessors={q}"),
        "defined after it",
    ),
    "two of a name": (F, E.replace("r =", "q ="), "duplicate instruction name"),
    "an operand too many": (F, E.replace("fusion(p)", "fusion(p, p)"), "2 operands"),
    "no operand": (F, E.replace("fusion(p)", "fusion()"), "0 operands"),
    "a fusion of nothing": (F, E.replace(", calls=f", ""), "has no called computation"),
    "a body that calls itself": (
        F.replace("negate(a)", "fusion(a), kind=kLoop, calls=f"),
        E,
        "has no called computation",
    ),
    "parameters not from 0 on": (F.replace("parameter(0)", "parameter(1)"), E, "not numbered|has 1|has 0|has 2"),
    "an operation without operand": (F.replace("negate(a)", "negate()"), E, "needs at least 1"),
}


@pytest.mark.parametrize(("called", "entry", "says"), BROKEN.values(), ids=BROKEN)
def test_malformed_modules_are_rejected_with_a_place(called: str, entry: str, says: str) -> None:
    with pytest.raises(HloError, match=says) as refused:
        check_rewritable(parse_module(f"HloModule m\n{called}\n{entry}"))
    assert refused.value.diagnostics[0].span is not None


@pytest.mark.parametrize("dump", compiled_dumps(), ids=str)
def test_modules_of_compilers_are_accepted(dump: Dump) -> None:
    check_rewritable(parse_module(dump.text))


def broken(text: str, random: Random) -> str:
    """A text with a line removed, duplicated, moved, or with another name, number, or computation."""
    lines = text.splitlines()
    able = [number for number, line in enumerate(lines) if " = " in line]
    at, other = random.choice(able), random.choice(able)
    line = lines[at]
    match random.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, line)
        case 2:
            lines[at] = line.replace(random.choice(_NAME.findall(line) or ["%"]), random.choice(_NAME.findall(text)), 1)
        case 3:
            lines[at] = re.sub(r"(calls|body|to_apply)=%?[\w.\-]+", rf"\1={random.choice(_NAME.findall(text))}", line)
        case 4:
            lines[at] = line.replace("ROOT ", "")
        case 5:
            lines[at] = f"{line}, control-predecessors={{{random.choice(_NAME.findall(text))}}}"
        case 6:
            lines[at], lines[other] = lines[other], line
        case 7:
            lines[at] = re.sub(r"parameter\(\d+\)|\(([^(),]*), [^()]*\)", r"(\1)", line, count=1)
    return "\n".join(lines)


def rewrite_all(module: Module, random: Random) -> None:
    """Try every rewriter; only HloError is caught."""
    instructions = list(module.instructions)
    pairs = [(one.name, user.name) for user in instructions for one in user.operands]
    attempts: list[Callable[[], object]] = [
        lambda: unfuse(module),
        lambda: fuse(module),
        lambda: desugar(module),
        lambda: sugar(module),
        lambda: reorder(module, random.choice(GOALS)),
        lambda: extract(module, random.choice(instructions), operands=2, users=2),
        *[lambda: fuse_pair(module, *random.choice(pairs))] * (2 * bool(pairs)),
    ]
    for attempt in attempts:
        try:
            str(attempt())
        except HloError:
            continue


@pytest.mark.slow
def test_rewriting_malformed_modules_raises_only_hlo_errors() -> None:
    texts = [text for dump in compiled_dumps() if len(text := dump.text) < 20_000]
    for seed in range(300):
        random = Random(seed)
        text = random.choice(texts)
        for _ in range(random.choice((1, 1, 2, 4))):
            text = broken(text, random)
        try:
            module = parse_module(text)
        except HloError:
            continue
        rewrite_all(module, random)
