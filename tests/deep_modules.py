"""Modules that are nested or chained so deep that any recursion over their depth ends: of each kind one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

DEPTH: Final = 2000
"""Twice what Python's stack holds by default."""


def _nest(depth: int, inner: str, step: Callable[[int], str], root: str) -> str:
    """Computations `c0`, `c1`, …, each of which calls the one before it, and an entry that calls the last."""
    bodies = [f"c0 {{\n{inner}\n}}\n"] + [f"c{at} {{\n{step(at)}\n}}\n" for at in range(1, depth)]
    return f"HloModule m, is_scheduled=true\n\n{''.join(bodies)}\nENTRY e {{\n{root}\n}}\n"


def whiles(depth: int = DEPTH) -> str:
    """Loops in loops."""
    carried = "(f32[8]{0}, s32[])"
    condition = (
        f"k {{ kp = {carried} parameter(0)  ki = s32[] get-tuple-element(kp), index=1\n"
        "  kn = s32[] constant(2)  ROOT kc = pred[] compare(ki, kn), direction=LT }\n"
    )

    def body(at: int, inner: str) -> str:
        return (
            f"  p{at} = {carried} parameter(0)\n  x{at} = f32[8]{{0}} get-tuple-element(p{at}), index=0\n"
            f"  i{at} = s32[] get-tuple-element(p{at}), index=1\n  o{at} = s32[] constant(1)\n"
            f"  n{at} = s32[] add(i{at}, o{at})\n{inner}"
        )

    def loop(at: int, called: int) -> str:
        return (
            f"  z{at} = s32[] constant(0)\n  t{at} = {carried} tuple(x{at}, z{at})\n"
            f"  w{at} = {carried} while(t{at}), condition=k, body=c{called}\n"
            f"  y{at} = f32[8]{{0}} get-tuple-element(w{at}), index=0\n"
        )

    inner = body(0, "  s0 = f32[8]{0} sine(x0)\n  ROOT r0 = (f32[8]{0}, s32[]) tuple(s0, n0)")
    text = _nest(
        depth,
        inner,
        lambda at: body(at, loop(at, at - 1)) + f"  ROOT r{at} = {carried} tuple(y{at}, n{at})",
        "  x = f32[8]{0} parameter(0)\n"
        + loop(depth, depth - 1).replace(f"tuple(x{depth},", "tuple(x,")
        + f"  ROOT r = f32[8]{{0}} negate(y{depth})",
    )
    return text.replace("\n\nc0", f"\n\n{condition}c0", 1)


def calls(depth: int = DEPTH) -> str:
    """Calls in calls."""
    return _nest(
        depth,
        "  p0 = f32[8]{0} parameter(0)\n  ROOT r0 = f32[8]{0} sine(p0)",
        lambda at: f"  p{at} = f32[8]{{0}} parameter(0)\n  ROOT r{at} = f32[8]{{0}} call(p{at}), to_apply=c{at - 1}",
        f"  p = f32[8]{{0}} parameter(0)\n  ROOT r = f32[8]{{0}} call(p), to_apply=c{depth - 1}",
    )


def conditionals(depth: int = DEPTH) -> str:
    """Conditionals in branches of conditionals."""
    other = "o { q = f32[8]{0} parameter(0)  ROOT qn = f32[8]{0} negate(q) }\n"

    def branch(at: int, called: int) -> str:
        return (
            f"  p{at} = f32[8]{{0}} parameter(0)\n  k{at} = pred[] constant(true)\n  ROOT r{at} = f32[8]{{0}} "
            f"conditional(k{at}, p{at}, p{at}), true_computation=c{called}, false_computation=o"
        )

    text = _nest(
        depth,
        "  p0 = f32[8]{0} parameter(0)\n  ROOT r0 = f32[8]{0} sine(p0)",
        lambda at: branch(at, at - 1),
        branch(depth, depth - 1),
    )
    return text.replace("\n\nc0", f"\n\n{other}c0", 1)


def fusions(depth: int = DEPTH) -> str:
    """Fusions in fusions, which XLA has two or three deep."""

    def fusion(at: int, called: int) -> str:
        return (
            f"  p{at} = f32[8]{{0}} parameter(0)\n  ROOT r{at} = f32[8]{{0}} fusion(p{at}), kind=kLoop, calls=c{called}"
        )

    return _nest(
        depth,
        "  p0 = f32[8]{0} parameter(0)\n  ROOT r0 = f32[8]{0} sine(p0)",
        lambda at: fusion(at, at - 1),
        fusion(depth, depth - 1),
    )


def async_calls(depth: int = DEPTH) -> str:
    """Asynchronous computations in asynchronous computations."""

    def start(at: int, called: int) -> str:
        return (
            f"  p{at} = f32[8]{{0}} parameter(0)\n"
            f"  s{at} = ((f32[8]{{0}}), f32[8]{{0}}, s32[]) async-start(p{at}), calls=c{called}\n"
            f"  ROOT r{at} = f32[8]{{0}} async-done(s{at})"
        )

    return _nest(
        depth,
        "  p0 = f32[8]{0} parameter(0)\n  ROOT r0 = f32[8]{0} sine(p0)",
        lambda at: start(at, at - 1),
        start(depth, depth - 1),
    )


def tuples(depth: int = 300) -> str:
    """A tuple in a tuple, and so on: each level has a shape of its own, so that the text grows with the square."""
    lines, shape = ["  p = f32[8]{0} parameter(0)"], "f32[8]{0}"
    name = "p"
    for at in range(depth):
        shape = f"({shape})"
        lines.append(f"  t{at} = {shape} tuple({name})")
        name = f"t{at}"
    for at in range(depth):
        shape = shape[1:-1]
        lines.append(f"  g{at} = {shape} get-tuple-element({name}), index=0")
        name = f"g{at}"
    return (
        "HloModule m, is_scheduled=true\n\nENTRY e {\n"
        + "\n".join(lines)
        + f"\n  ROOT r = f32[8]{{0}} negate({name})\n}}\n"
    )


def tuple_shape(depth: int = DEPTH) -> str:
    """One parameter whose shape is a tuple so deep."""
    shape = "(" * depth + "f32[8]{0}" + ")" * depth
    return f"HloModule m, is_scheduled=true\n\nENTRY e {{\n  ROOT p = {shape} parameter(0)\n}}\n"


def operands(depth: int = DEPTH) -> str:
    """A chain of operands, with kinds of operations that analyses look through."""
    kinds = ("negate({})", "bitcast({})", "copy({})", "reshape({})", "add({0}, {0})", "transpose({}), dimensions={{0}}")
    lines = ["  a0 = f32[8]{0} parameter(0)"]
    lines += [f"  a{at} = f32[8]{{0}} {kinds[at % len(kinds)].format(f'a{at - 1}')}" for at in range(1, depth)]
    lines[-1] = lines[-1].replace("  a", "  ROOT a", 1)
    return "HloModule m, is_scheduled=true\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


def scopes(depth: int = DEPTH) -> str:
    """An op_name of so many scopes."""
    scope = "/".join(f"s{at}" for at in range(depth))
    return (
        "HloModule m, is_scheduled=true\n\nENTRY e {\n  p = f32[8]{0} parameter(0)\n"
        f'  ROOT r = f32[8]{{0}} negate(p), metadata={{op_name="{scope}"}}\n}}\n'
    )


NESTS: Final[Mapping[str, Callable[[int], str]]] = MappingProxyType(
    {
        "whiles": whiles,
        "calls": calls,
        "conditionals": conditionals,
        "fusions": fusions,
        "async_calls": async_calls,
        "tuples": tuples,
        "tuple_shape": tuple_shape,
        "operands": operands,
        "scopes": scopes,
    }
)
