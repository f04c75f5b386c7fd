"""Loops of numbers as functions of Python against the rules, bit by bit: every opcode and type, loops and branches inside."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest

from evaluation_programs import values
from hlo_cli import HloError, parse_module
from hlo_cli.analysis.evaluate.program import Program
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.evaluate.scalar_loops import scalar_loop
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import Floats
from hlo_cli.ir.module import Module

TYPES = ("pred", "s4", "u4", "s8", "u8", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64")
ANY = ("add", "subtract", "multiply", "maximum", "minimum")
INTEGERS = (
    *(
        "divide",
        "remainder",
        "and",
        "or",
        "xor",
        "shift-left",
        "shift-right-logical",
        "shift-right-arithmetic",
        "power",
    ),
)
UNARY = {
    "pred": ("not",),
    "s": ("negate", "abs", "sign", "not", "popcnt", "count-leading-zeros"),
    "f": ("negate", "abs"),
}
FLOATS = (*("divide", "remainder", "atan2", "power"),)
OF_FLOATS = (
    *(
        "sqrt",
        "rsqrt",
        "exponential",
        "tanh",
        "floor",
        "sign",
        "logistic",
        "round-nearest-even",
        "erf",
        "log",
        "sine",
        "log-plus-one",
    ),
)
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
COUNT = 60
"""Iterations, of which the rules compute the first ones."""


def loop_of(random: Random, kinds: tuple[str, ...], length: int = 14) -> str:
    """A module with a loop over numbers of some types, whose body applies random opcodes to them."""
    lines: list[str] = []
    known: dict[str, list[str]] = {kind: [] for kind in ("pred", *kinds)}
    for at, kind in enumerate(kinds):
        lines.append(f"x{at} = {kind}[] get-tuple-element(s), index={at + 1}")
        known[kind].append(f"x{at}")
    for at in range(length):
        kind = random.choice(kinds)
        letter = "pred" if kind == "pred" else "f" if kind[0] in "fb" else "s"
        x, y = random.choice(known[kind]), random.choice(known[kind])
        match random.randrange(8):
            case 0 if known["pred"] and kind != "pred":
                call = f"select({random.choice(known['pred'])}, {x}, {y})"
            case 1:
                other = random.choice(kinds)
                call = f"convert({random.choice(known[other])})"
            case 2:
                call, kind = f"compare({x}, {y}), direction={random.choice(DIRECTIONS)}", "pred"
            case 3 | 4 if letter == "f":
                call = f"{random.choice(OF_FLOATS)}({x})"
            case 3:
                call = f"{random.choice(UNARY[letter][: 3 if kind[0] == 'u' and kind[1] == '4' else None])}({x})"
            case 4 if letter != "pred":
                call = f"clamp({x}, {y}, {random.choice(known[kind])})"
            case 5 if letter == "f":
                call = f"{random.choice(FLOATS)}({x}, {y})"
            case 5 if letter == "s":
                call = f"{random.choice(INTEGERS)}({x}, {y})"
            case _:
                call = f"{random.choice(ANY)}({x}, {y})"
        lines.append(f"t{at} = {kind}[] {call}")
        known[kind].append(f"t{at}")
    last = ", ".join(known[kind][-1] for kind in kinds)
    state = ", ".join(("s32[]", *(f"{kind}[]" for kind in kinds)))
    given = "\n  ".join(f"p{at} = {kind}[] parameter({at})" for at, kind in enumerate(kinds))
    names = ", ".join(f"p{at}" for at in range(len(kinds)))
    body = "\n  ".join(lines)
    return f"""HloModule m
body {{ s = ({state}) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  {body}
  j = s32[] add(i, one)  ROOT r = ({state}) tuple(j, {last}) }}
condition {{ s = ({state}) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant({COUNT})
  ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ zero = s32[] constant(0)
  {given}
  t = ({state}) tuple(zero, {names})  ROOT w = ({state}) while(t), condition=condition, body=body }}
"""


def outcome(
    module: Module, arguments: list[npt.NDArray[Any]], floats: Floats = "exact", limits: Limits | None = None
) -> Any:
    """The bits of a result, or the message of the error, with what was counted."""
    program = Program(floats, limits=limits)
    try:
        found = program.function(module.entry)(arguments)
    except HloError as error:
        return str(error)
    assert isinstance(found, tuple)
    numbers = [(np.asarray(each).dtype.str, np.asarray(each).tobytes()) for each in found]
    return numbers, program.executed, program.operations_left, {each.name for each in program.ran}


def by_rules(
    module: Module, arguments: list[npt.NDArray[Any]], floats: Floats = "exact", limits: Limits | None = None
) -> Any:
    """The same without functions of Python."""
    with patch.object(Program, "advance", lambda self, instruction: None):
        return outcome(module, arguments, floats, limits)


@pytest.mark.parametrize("seed", range(24))
@np.errstate(all="ignore")
def test_any_opcode_and_type_as_the_rules(seed: int) -> None:
    random = Random(seed)
    kinds = tuple(random.sample(TYPES, 3))
    module = parse_module(loop_of(random, kinds))
    draw = np.random.default_rng(seed)
    arguments = [values(draw, kind, (), None) for kind in kinds]
    floats: Floats = "widen" if seed % 3 == 0 else "exact"
    if floats == "widen":
        arguments = [each.astype(np.float64) if each.dtype.kind == "f" else each for each in arguments]
    assert outcome(module, arguments, floats) == by_rules(module, arguments, floats)


NESTED = """HloModule m
halved { x = s32[] parameter(0)  two = s32[] constant(2)  ROOT r = s32[] divide(x, two) }
tripled { x = s32[] parameter(0)  three = s32[] constant(3)  one = s32[] constant(1)
  y = s32[] multiply(x, three)  ROOT r = s32[] add(y, one) }
is_odd { x = s32[] parameter(0)  one = s32[] constant(1)  y = s32[] and(x, one)  ROOT r = pred[] compare(y, one), direction=EQ }
step { s = (s32[], s32[]) parameter(0)  x = s32[] get-tuple-element(s), index=0  n = s32[] get-tuple-element(s), index=1
  odd = pred[] fusion(x), kind=kLoop, calls=is_odd
  y = s32[] conditional(odd, x, x), true_computation=tripled, false_computation=halved
  one = s32[] constant(1)  m = s32[] add(n, one)  ROOT r = (s32[], s32[]) tuple(y, m) }
goes_on { s = (s32[], s32[]) parameter(0)  x = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  ROOT r = pred[] compare(x, one), direction=GT }
body { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  most = s32[] get-tuple-element(s), index=1
  zero = s32[] constant(0)  t = (s32[], s32[]) tuple(i, zero)
  w = (s32[], s32[]) while(t), condition=goes_on, body=step
  n = s32[] get-tuple-element(w), index=1  longer = s32[] maximum(n, most)
  three = s32[] constant(3)  at = s32[] remainder(i, three)
  moved = s32[] conditional(at, longer, longer, longer), branch_computations={same, more, same}
  one = s32[] constant(1)  j = s32[] add(i, one)  ROOT r = (s32[], s32[]) tuple(j, moved) }
same { ROOT x = s32[] parameter(0) }
more { x = s32[] parameter(0)  zero = s32[] constant(0)  ROOT y = s32[] add(x, zero) }
condition { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(90)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { i = s32[] parameter(0)  most = s32[] parameter(1)  t = (s32[], s32[]) tuple(i, most)
  ROOT w = (s32[], s32[]) while(t), condition=condition, body=body }
"""
BOTH = [np.array(1, np.int32), np.array(0, np.int32)]


def test_loops_and_branches_inside_are_as_by_the_rules() -> None:
    module = parse_module(NESTED)
    assert outcome(module, BOTH) == by_rules(module, BOTH)
    # The 3n + 1 problem: of the numbers below 90, 73 takes the most steps.
    found = evaluate(module, BOTH).result
    assert isinstance(found, tuple)
    assert found[1] == 115


@pytest.mark.parametrize(
    "limits",
    [Limits(max_iterations=most) for most in (20, 23, 24, 25, 50, 89, 110, 115)]
    + [Limits(max_operations=most) for most in (50, 3_000, 7_000, 9_999, 10_500)],
    ids=str,
)
def test_limits_end_a_loop_where_the_rules_end_it(limits: Limits) -> None:
    module = parse_module(NESTED)
    assert outcome(module, BOTH, limits=limits) == by_rules(module, BOTH, limits=limits)


def test_a_loop_without_an_end_ends_with_the_time() -> None:
    endless = NESTED.replace(
        "ROOT r = pred[] compare(x, one), direction=GT", "ROOT r = pred[] compare(x, x), direction=EQ"
    )
    with pytest.raises(HloError, match="the limit of 0"):
        evaluate(parse_module(endless), BOTH, limits=Limits(max_seconds=0.2, max_iterations=10**9))


NOT_A_NUMBER = """HloModule m
body { s = (s32[], f32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1  y = f32[] get-tuple-element(s), index=2
  one = s32[] constant(1)  j = s32[] add(i, one)  z = f32[] multiply(x, x)  w = f32[] subtract(z, z)  v = f32[] add(y, w)
  ROOT t = (s32[], f32[], f32[]) tuple(j, z, v) }
condition { s = (s32[], f32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(200)
  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  z = s32[] constant(0)  t = (s32[], f32[], f32[]) tuple(z, x, y)
  ROOT r = (s32[], f32[], f32[]) while(t), condition=condition, body=body }
"""


@np.errstate(all="ignore")
def test_the_bits_of_nan_are_those_of_the_rules() -> None:
    module = parse_module(NOT_A_NUMBER)
    for x in (1.0000001, -1.5, np.nan, -np.nan, np.inf):
        arguments = [np.array(x, np.float32), np.array(-np.nan, np.float32)]
        assert outcome(module, arguments) == by_rules(module, arguments)
        arguments[1] = np.array(0, np.float32)
        assert outcome(module, arguments) == by_rules(module, arguments)


def test_iterations_are_computed_by_a_function() -> None:
    module = parse_module(NOT_A_NUMBER)
    [loop] = [each for each in module.entry.instructions if each.opcode == "while"]
    program = Program()
    advance = scalar_loop(loop, program)
    assert advance is not None
    state, count = advance((np.array(0, np.int32), np.array(0.5, np.float32), np.array(2, np.float32)), 0)
    assert isinstance(state, tuple)
    # Nine instructions of the body and three of the condition; the last condition is left to the rules.
    assert (count, program.executed, [np.asarray(each).item() for each in state]) == (200, 2400, [200, 0.0, 2.0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f32[] multiply(x, x)", "f32[] reduce-precision(x), exponent_bits=5, mantissa_bits=2"),
        ("f32[] multiply(x, x)", "f32[] multiply(x, i)"),
        ("compare(i, n), direction=LT", "compare(x, x), direction=LT, type=TOTALORDER"),
    ],
)
def test_what_is_unknown_is_left_to_the_rules(old: str, new: str) -> None:
    text = NOT_A_NUMBER.replace(old, new)
    if "TOTAL" in new:
        text = text.replace("n = s32[] constant(200)", "x = f32[] get-tuple-element(s), index=1")
    module = parse_module(text)
    [loop] = [each for each in module.entry.instructions if each.opcode == "while"]
    assert scalar_loop(loop, Program()) is None


def test_observed_loops_are_left_to_the_rules() -> None:
    module = parse_module(NESTED)
    seen: list[str] = []
    [loop] = [each for each in module.entry.instructions if each.opcode == "while"]
    observed = Program(observe=lambda instruction, device, value, operands: seen.append(instruction.name))
    assert scalar_loop(loop, observed) is None
    [body] = [each for each in module.computations if each.name == "body"]
    watched = Program(watch=[body.instructions[-1]])
    assert scalar_loop(loop, watched) is None
