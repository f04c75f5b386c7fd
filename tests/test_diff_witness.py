"""Pairs that XLA's own comparison makes, as its tests in xla/hlo/tools/hlo_diff state them, in modules of our own.

Each case has the structure of one of those tests: which instructions there are, what differs, and which are the same.
Pairs that a test of XLA fixes by hand before the part that it tests are left out, and so is what follows from them.
"""

from __future__ import annotations

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff

ARRAY = "f32[16,256]{1,0:T(8,128)}"
WIDE = "s32[64,8]{0,1:T(1,128)}"


def entry(*lines: str, computations: str = "") -> str:
    """A module with these lines in its entry."""
    return f"HloModule m, is_scheduled=true\n{computations}\nENTRY main {{\n" + "\n".join(lines) + "\n}\n"


def five_zeros(middle: str, number: str) -> str:
    """Two sums, or a sum and a difference, of constants that are all equal, added up with a fifth."""
    return entry(
        *(f"z.{n} = f32[] constant(0)" for n in range(5)),
        "sum.0 = f32[] add(z.0, z.1)",
        f"{number} = f32[] {middle}(z.2, z.3)",
        f"sum.3 = f32[] add(sum.0, {number})",
        "sum.4 = f32[] add(sum.3, z.4)",
    )


def fused(name: str, opcode: str, shape: str, *names: str) -> str:
    """A fused computation of two parameters."""
    return (
        f"{name} {{ {names[0]} = {shape} parameter(0)  {names[1]} = {shape} parameter(1)  "
        f"ROOT {names[2]} = {shape} {opcode}({names[0]}, {names[1]}) }}\n"
    )


def two_fusions(first: str, second: str) -> str:
    """A sum of two fusions of different operations."""
    one = "neg_body { n_in = f32[] parameter(0)  ROOT neg = f32[] negate(n_in) }\n"
    two = "abs_body { a_in = f32[] parameter(0)  ROOT abs = f32[] abs(a_in) }\n"
    return entry(
        "zero = f32[] constant(0)",
        "cast = f32[] bitcast(zero)",
        "copied = f32[] copy(cast)",
        f"fusion.0 = f32[] fusion(cast), kind=kLoop, calls={first}",
        f"fusion.1 = f32[] fusion(copied), kind=kLoop, calls={second}",
        "ROOT total = f32[] add(fusion.0, fusion.1)",
        computations=one + two,
    )


def sums(last: str, opcode: str, third: str, *names: str) -> str:
    """A sum of an argument and a constant, combined with a third value."""
    x, y, z = names
    return entry(
        f"{x} = {ARRAY} parameter(0)",
        f"{y} = {ARRAY} constant(0)",
        f"{z} = {ARRAY} {third}",
        f"inner = {ARRAY} add({x}, {y})",
        f"{last} = {ARRAY} {opcode}(inner, {z})",
    )


CONSTANTS = entry(
    *(f"k{n} = bf16[2]{{0}} constant({{3.5, 4.5}})" for n in range(3)),
    "k3 = bf16[2]{0} constant({6, 7})",
    'k4 = u32[2]{0} constant({8, 9}), metadata={op_name="phase"}',
    'k5 = bf16[1] constant(0), metadata={source_file="a.py" source_line=7}',
    "k6 = s32[4]{0} constant({9, 8, 7, 6})",
    "s1 = bf16[2]{0} add(k2, k3)",
    "s2 = bf16[2]{0} add(k2, k3)",
    "s3 = bf16[2]{0} add(s1, s2)",
)
LEAVES = entry(
    "i = s32[6,2,7]{2,1,0} iota(), iota_dimension=0",
    "b = s32[1,1,6,2,7]{4,3,2,1,0} bitcast(i)",
    "p = bf16[2]{0} parameter(0)",
    "c = bf16[2]{0} constant({3.5, 4.5})",
    "s = bf16[2]{0} add(p, c)",
    "ROOT t = (s32[1,1,6,2,7]{4,3,2,1,0}, bf16[2]{0}) tuple(b, s)",
)
AMBIGUOUS = entry(
    "z.0 = f32[] constant(0)",
    "z.1 = f32[] constant(0)",
    "sum.0 = f32[] add(z.0, z.1)",
    "sum.1 = f32[] add(z.0, z.1)",
    "sum.2 = f32[] add(sum.0, z.0)",
    "rest = f32[] subtract(sum.1, sum.2)",
)
ARGUMENTS = (
    entry(
        'a1 = f32[12]{0} parameter(0), metadata={op_name="phase"}',
        'a2 = f32[12]{0:T(128)} parameter(1), metadata={op_name="phase.many" source_file="a.py" source_line=8}',
        "a3 = f32[24]{0} parameter(2)",
        'a4 = f32[12]{0} parameter(3), metadata={source_file="a.py" source_line=7}',
        "a5 = f32[12]{0} parameter(4), sharding={maximal device=1}",
        "a6 = f32[36]{0} parameter(5), sharding={maximal device=1}",
        "s = f32[12]{0} add(a1, a2)",
    ),
    entry(
        'b1 = f32[12]{0} parameter(0), metadata={op_name="phase"}',
        'b2 = f32[12]{0} parameter(1), metadata={op_name="phase.many"}',
        'b3 = f32[12]{0} parameter(2), metadata={op_name="phase.many"}',
        "b4 = f32[24]{0} parameter(3)",
        'b5 = f32[12]{0} parameter(4), metadata={source_file="a.py" source_line=7}',
        "b6 = f32[12]{0} parameter(5), sharding={maximal device=1}",
        "b7 = f32[36]{0} parameter(6)",
        'b8 = f32[12]{0:T(128)} parameter(7), metadata={source_file="a.py" source_line=8}',
        "ROOT u = f32[12]{0} add(b1, b8)",
    ),
)
ONE_FUSION = tuple(
    entry(
        f"x{n} = {WIDE} parameter(0)",
        f"y{n} = {WIDE} parameter(1)",
        f"ROOT f{n} = {WIDE} fusion(x{n}, y{n}), kind=kLoop, calls=body{n}",
        computations=fused(f"body{n}", "add", WIDE, f"p{n}", f"q{n}", f"r{n}"),
    )
    for n in (1, 2)
)
SIX_ZEROS = entry(
    *(f"z.{n} = f32[] constant(0)" for n in range(6)),
    "sum.0 = f32[] add(z.0, z.1)",
    "sum.1 = f32[] add(z.2, z.3)",
    "sum.2 = f32[] add(z.4, z.5)",
    "sum.3 = f32[] add(sum.0, sum.1)",
    "sum.4 = f32[] add(sum.3, sum.2)",
)
SIZES = tuple(
    entry(
        f'p{n} = bf16[{n}]{{0}} parameter(0), metadata={{op_name="{name}"}}',
        f"c{n} = bf16[{n}]{{0}} constant({{{', '.join(['3.5', '4.5', '5.5'][:n])}}})",
        f"ROOT s{n} = bf16[{n}]{{0}} add(p{n}, c{n})",
    )
    for n, name in ((2, "phase"), (3, "phase.other"))
)
MIXED, SUMS = five_zeros("subtract", "rest.1"), five_zeros("add", "sum.1")

INSTRUCTIONS = {
    "one parameter and one constant": (*SIZES, "p2=p3 c2=c3 s2=s3"),
    "arguments": (*ARGUMENTS, "a1=b1 a2=b8 a3=b4 a4=b5 a5=b6 a6=b7 s=u"),
    "constants": (CONSTANTS, CONSTANTS, "k0=k0 k1=k1 k2=k2 k3=k3 k4=k4 k5=k5 k6=k6 s3=s3"),
    "equal fusions": (*ONE_FUSION, "p1=p2 q1=q2 r1=r2 f1=f2"),
    "leaves": (LEAVES, LEAVES, "i=i p=p c=c t=t"),
    "sums of equal constants": (
        MIXED,
        SUMS,
        "z.0=z.0 z.1=z.1 z.2=z.2 z.3=z.3 z.4=z.4 sum.0=sum.0 sum.3=sum.3 sum.4=sum.4",
    ),
    "ambiguous sums": (AMBIGUOUS, AMBIGUOUS, "z.0=z.0 z.1=z.1 sum.0=sum.0 sum.1=sum.1 sum.2=sum.2 rest=rest"),
    "fusions that swap": (
        two_fusions("neg_body", "abs_body"),
        two_fusions("abs_body", "neg_body"),
        # XLA pairs the copies too: here one is removed and one added, which explains the operands of both fusions.
        "zero=zero cast=cast fusion.0=fusion.1 fusion.1=fusion.0 total=total neg=neg abs=abs n_in=n_in a_in=a_in",
    ),
    "one sum more": (SUMS, SIX_ZEROS, "z.0=z.0 z.1=z.1 sum.0=sum.0 sum.3=sum.3 sum.4=sum.4"),
    "another root": (
        sums("outer", "add", "parameter(1)", "x", "y", "z"),
        sums("outer", "subtract", "parameter(1)", "u", "v", "w"),
        "inner=inner x=u y=v z=w",
    ),
    "another leaf": (
        sums("outer", "add", "parameter(1)", "x", "y", "z"),
        sums("outer", "add", "constant(1)", "x", "y", "z"),
        "inner=inner x=x y=y",
    ),
}
"""Old and new module, and instructions that are the same."""


def loops(activations: int) -> str:
    """Three equal loops, one of which has an op_name."""
    bodies = "".join(
        f"body_{n} {{ p = s32[2] parameter(0)  g = s32[4] all-gather(p), replica_groups={{}}, dimensions={{0}}  "
        f"ROOT s = s32[2] slice(g), slice={{[0:2]}} }}\n"
        f"until_{n} {{ p = s32[2] parameter(0)  c = pred[] constant(true)  ROOT d = pred[] copy(c) }}\n"
        for n in (1, 2, 3)
    )
    named = ', metadata={op_name="activations"}'
    return entry(
        "k = s32[2] constant({0,0})",
        *(
            f"w.{n} = s32[2] while(k), condition=until_{n}, body=body_{n}{named * (n == activations)}"
            for n in (1, 2, 3)
        ),
        "s.1 = s32[2] add(w.1, w.2)",
        "ROOT s.2 = s32[2] add(s.1, w.3)",
        computations=bodies,
    )


def fusions(opcode: str, count: int, suffix: str = "") -> str:
    """Fusions of one operation: of arrays and of scalars by turns if there are four."""
    shapes = [WIDE, "s32[]"] * 2 if count == 4 else [WIDE] * count
    names = [("x", "y") if shape == WIDE else ("u", "v") for shape in shapes]
    lines = [
        f"fusion.{n} = {shape} fusion({a}, {b}), kind=kLoop, calls=body.{n}{suffix}"
        + ', metadata={op_name="of_sums"}' * (n == 3)
        for n, (shape, (a, b)) in enumerate(zip(shapes, names, strict=True), 1)
    ]
    scalars = ["u = s32[] parameter(2)", "v = s32[] parameter(3)"] if count == 4 else []
    total = [f"ROOT total = {WIDE} add(fusion.1, fusion.2)"] if count == 2 else []
    computations = "".join(
        fused(f"body.{n}{suffix}", opcode, shape, f"p.{n}", f"q.{n}", f"r.{n}") for n, shape in enumerate(shapes, 1)
    )
    return entry(
        f"x = {WIDE} parameter(0)", f"y = {WIDE} parameter(1)", *scalars, *lines, *total, computations=computations
    )


COMPUTATIONS = {
    "equal": (fusions("add", 2), fusions("add", 2, "x"), "body.1=body.1x body.2=body.2x main=main"),
    "one fewer": (fusions("add", 2), fusions("add", 1, "x"), "main=main"),
    "loops by op_name": (
        loops(2),
        loops(1),
        "body_1=body_2 body_2=body_1 body_3=body_3 until_1=until_2 until_2=until_1 until_3=until_3 main=main",
    ),
    "by their callers": (
        fusions("add", 4),
        fusions("subtract", 4, "x"),
        "body.1=body.1x body.2=body.2x body.3=body.3x body.4=body.4x main=main",
    ),
}
"""Old and new module, and computations that are the same."""


def missed(found: dict[str, str], expected: str) -> list[str]:
    """The pairs that were not found, with what was found instead."""
    pairs = [pair.split("=") for pair in expected.split()]
    return [f"{old}: {found.get(old)}, not {new}" for old, new in pairs if found.get(old) != new]


def compared(old: str, new: str) -> ModuleDiff:
    return diff(parse_module(old), parse_module(new))


@pytest.mark.parametrize("case", INSTRUCTIONS)
def test_instructions_are_paired_as_by_xla(case: str) -> None:
    old, new, expected = INSTRUCTIONS[case]
    found = compared(old, new).pairs
    assert not missed({one.name: two.name for one, two in found.items()}, expected)


@pytest.mark.parametrize("case", COMPUTATIONS)
def test_computations_are_paired_as_by_xla(case: str) -> None:
    old, new, expected = COMPUTATIONS[case]
    found = compared(old, new).computations
    assert not missed({one.name: two.name for one, two in found.items()}, expected)
