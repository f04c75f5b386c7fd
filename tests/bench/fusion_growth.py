"""How does the time of the fusion passes grow with a module that becomes a few large kernels?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import log
from random import Random

from hlo_cli import parse_module
from hlo_cli.transform.fusion.gpu_fusion import gpu_fuse

_VECTOR = "f32[64]{0}"
_ARRAY = "f32[1024,8]{1,0}"
_SIZES = (100, 200, 400)  # below the limit up to which passes are run again to find ties


def random_graph(count: int) -> str:
    """Sums of two values of the last twenty: most are fused into several kernels."""
    random, names = Random(1), ["p"]
    lines = [f"p = {_VECTOR} parameter(0)"]
    for k in range(count):
        lines.append(f"x{k} = {_VECTOR} add({random.choice(names)}, {random.choice(names)})")
        names = [*names, f"x{k}"][-20:]
    shapes = ", ".join([_VECTOR] * len(names))
    return _module([*lines, f"ROOT r = ({shapes}) tuple({', '.join(names)})"])


def chain(count: int) -> str:
    """Each operation reads the one before."""
    lines = [f"x = {_VECTOR} parameter(0)"]
    opcodes = ("negate", "exponential", "tanh")
    lines += [f"x{k} = {_VECTOR} {opcodes[k % 3]}({f'x{k - 1}' if k else 'x'})" for k in range(count)]
    return _module([*lines, f"ROOT r = {_VECTOR} copy(x{count - 1})"])


def diamonds(count: int) -> str:
    """Two operations read a value, and one reads both; the next diamond begins there."""
    lines, last = [f"p = {_VECTOR} parameter(0)"], "p"
    for k in range(count // 3):
        lines += [f"l{k} = {_VECTOR} negate({last})", f"r{k} = {_VECTOR} exponential({last})"]
        last = f"j{k}"
        lines.append(f"{last} = {_VECTOR} add(l{k}, r{k})")
    return _module([*lines, f"ROOT r = {_VECTOR} copy({last})"])


def updates(count: int) -> str:
    """Each dynamic-update-slice updates the result of the one before."""
    lines = [f"d = {_ARRAY} parameter(0)", "u = f32[1,8]{1,0} parameter(1)", "z = s32[] parameter(2)"]
    lines += [f"d{k} = {_ARRAY} dynamic-update-slice({f'd{k - 1}' if k else 'd'}, u, z, z)" for k in range(count)]
    return _module([*lines, f"ROOT r = {_ARRAY} copy(d{count - 1})"])


def _module(lines: list[str]) -> str:
    return "HloModule m\n\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n"


GENERATORS: dict[str, Callable[[int], str]] = {
    "random graph": random_graph,
    "chain": chain,
    "diamonds": diamonds,
    "dynamic-update-slices": updates,
}


def exponents(rounds: int) -> Iterator[tuple[str, list[float], float]]:
    """For each kind of module its name with the sizes, the seconds at each, and the exponent from first to last."""
    for name, generator in GENERATORS.items():
        modules = [parse_module(generator(size)) for size in _SIZES]
        seconds = [0.0] * len(modules)
        for turn in range(max(2, rounds // 2)):
            for place, module in enumerate(modules):
                started = time.process_time()
                gpu_fuse(module, "h100")
                used = time.process_time() - started
                seconds[place] = min(used, seconds[place]) if turn else used
        exponent = log(seconds[-1] / seconds[0]) / log(_SIZES[-1] / _SIZES[0])
        yield f"{name}, {_SIZES[0]} to {_SIZES[-1]}", seconds, exponent
