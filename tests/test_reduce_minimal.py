"""What `hlo reduce` leaves is minimal: no single step that is written here anew keeps the failure. And crashes of XLA.

The steps of this file know nothing of those of the reducer: they edit lines of text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hlo_cli import load, parse_module
from hlo_cli.source import Source
from hlo_cli.syntax.strict_reader import check_strictly
from hlo_cli.transform.reduction.draft import draft_of
from hlo_cli.transform.reduction.search import Case, Search, stages_of
from test_reduce import GOOD

FIXTURES = Path(__file__).parents[1] / "fixtures"
LINE = re.compile(r"  (ROOT )?%([\w.\-]+) = (\S+|\(.*?\)) ([a-z][a-z\-]*)\((.*?)\)(.*)")
Predicate = Callable[[str], bool]


def chain(*opcodes: str) -> Predicate:
    """Whether a value of the first opcode is, through any others, made of one of the next, and so on."""

    def holds(text: str) -> bool:
        for part in re.split(r"\n\}", text):
            lines = {m[2]: (m[4], re.findall(r"%([\w.\-]+)", m[5])) for m in LINE.finditer(part)}
            reached = {name for name, (opcode, _) in lines.items() if opcode == opcodes[0]}
            for wanted in opcodes[1:]:
                above, left = set[str](), [each for name in reached for each in lines[name][1]]
                while left:
                    name = left.pop()
                    if name in lines and name not in above:
                        above.add(name)
                        left += lines[name][1]
                reached = {name for name in above if lines[name][0] == wanted}
            if reached:
                return True
        return False

    return holds


def one_step(text: str) -> Iterator[str]:
    """Modules with one value of the entry less: a parameter, or an operand of the same shape in its place."""
    before, mark, entry = text.partition("\nENTRY ")
    lines = entry.splitlines()
    found = {at: m for at, line in enumerate(lines) if (m := LINE.fullmatch(line))}
    shapes = {m[2]: m[3] for m in found.values()}
    parameters = sum(m[4] == "parameter" for m in found.values())
    for at, m in found.items():
        if m[4] == "parameter":
            continue
        made = [*lines]
        made[at] = f"  {m[1] or ''}%{m[2]} = {m[3]} parameter({parameters})"
        yield _pruned(before + mark, made)
        for operand in re.findall(r"%([\w.\-]+)", m[5]):
            if shapes.get(operand) == m[3]:
                kept = [re.sub(rf"%{re.escape(m[2])}(?![\w.\-])", f"%{operand}", line) for line in lines]
                kept = [line for number, line in enumerate(kept) if number != at]
                if m[1]:
                    kept = [line.replace(f"  %{operand} =", f"  ROOT %{operand} =") for line in kept]
                yield _pruned(before + mark, kept)


def _pruned(before: str, lines: Sequence[str]) -> str:
    """The module as the reader takes it, without values that nothing uses and without a signature."""
    head = re.sub(r" \(.*\) -> .* \{", " {", lines[0])
    return draft_of(parse_module("\n".join((before + head, *lines[1:])))).to_string()


@pytest.mark.slow
@pytest.mark.parametrize(
    "opcodes",
    [
        ("dot",),
        ("dot", "divide"),
        ("divide", "reduce", "exponential"),
        ("exponential", "subtract", "reduce"),
        ("dot", "divide", "exponential", "subtract"),
    ],
)
def test_no_single_step_of_another_kind_is_left(opcodes: tuple[str, ...]) -> None:
    fails = chain(*opcodes)

    def judge(cases: Sequence[Case]) -> Iterator[bool]:
        return (fails(case.texts[-1]) and not check_strictly(Source("m", case.texts[-1])) for case in cases)

    case = Case((draft_of(load(FIXTURES / "cpu" / "softmax", stage="before_optimizations")),))
    assert fails(case.texts[-1])
    found = Search(judge, max_steps=5000, max_seconds=60).reduce(case, stages_of())
    assert found.is_minimal
    text = found.case.texts[-1]
    size = len(LINE.findall(text))
    steps = [step for step in one_step(text) if len(LINE.findall(step)) < size]
    assert [step for step in steps if fails(step) and not check_strictly(Source("m", step))] == []


# --- texts that XLA's parser refuses, or on which it ends the process ---

NEW = "  w = f32[4] multiply(s, s)\n"
DEFECTS = (
    ("tanh(p)", "tangent(p)", "tangent("),
    ("tanh(p)", "tanh(p), odd_attribute=3", "odd_attribute=3"),
    ("tanh(p)", "tanh(p, p)", "tanh(%p, %p)"),
    ("tanh(p)", "tanh(p), sharding={devices=[0]0}", "devices=[0]0"),
    ("constant(0)", "constant(true)", "constant(true)"),
    ("constant(0)", "constant(0.1.2)", "constant(0.1.2)"),
    ("q = f32[4,4]", "q = f33[4,4]", "f33["),
    ("log(s)", "multiply(s)", "multiply(%s)"),
    (", to_apply=f", "", "reduce("),
    (NEW, "pred[4] compare(s, s), direction=XX", "direction=XX"),
    (NEW, "pred[4] compare(s, s)", "compare("),
    (NEW, "s32[] constant(3.5)", "s32[] constant(3.5)"),
    (NEW, "u8[] constant(300)", "u8[] constant(300)"),
    (NEW, "f32[3] constant({1, 2})", "constant({1, 2})"),
    (NEW, "f32[4] custom-call(s)", "custom-call("),
    (NEW, "f32[4] fusion(s, s), kind=kOdd, calls=f", "kind=kOdd"),
    (NEW, "c64[4] fft(s), fft_type=ODD, fft_length={4}", "fft_type=ODD"),
    (NEW, "f32[2] slice(s), slice={[0:2:x]}", ":x]"),
    (NEW, "f32[4] reduce-window(s, o), window={size=}, to_apply=f", "size="),
    (NEW, "f32[4] all-reduce(s), replica_groups={{0,x}}, to_apply=f", "{0,x}"),
    (NEW, "f32[4] transpose(s)", "transpose("),
    (NEW, "f32[4] convolution(s, s), window={size=1}, dim_labels=odd", "dim_labels=odd"),
)
"""What is replaced in a module, by what, and what of it is the cause; of a new value, which `log` reads."""


def defective(old: str, new: str) -> str:
    """The module with a defect."""
    return GOOD.replace(NEW, f"  k = {new}\n").replace("log(s)", "log(k)") if old == NEW else GOOD.replace(old, new)


def outcome(text: str) -> str:
    """How XLA's parser ends in a process of its own: with a signal, or with an error, without numbers and names."""
    from jaxlib import _hlo

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            _hlo.hlo_module_from_text(text)
        except Exception as error:  # noqa: BLE001 - whatever it says
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        words = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return re.sub(r"'[^']*'|[\w.%\-]*[\d.%][\w.%\-]*", "_", words.partition("error: ")[2].partition("\n")[0])


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "cause"), DEFECTS, ids=[each[-1] for each in DEFECTS])
def test_what_xla_refuses_is_reduced_to_the_defect(old: str, new: str, cause: str) -> None:
    pytest.importorskip("jaxlib")
    text = defective(old, new)
    first = outcome(text)
    assert first

    def judge(cases: Sequence[Case]) -> Iterator[bool]:
        return (outcome(case.texts[-1]) == first for case in cases)

    found = Search(judge, max_steps=2000, max_seconds=60).reduce(Case((draft_of(parse_module(text)),)), stages_of())
    assert found.is_minimal
    left = found.case.texts[-1]
    assert cause in left
    assert len([line for line in left.splitlines() if " = " in line]) <= MOST_LINES, left


MOST_LINES = 6
"""Of the defect, its operands, and the computation that it calls; a value of an unknown type needs one that reads it, as
a signature with that type is another defect.
"""
