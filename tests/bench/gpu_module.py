"""Random modules as XLA:GPU has them before its fusion passes, for measuring."""

from __future__ import annotations

import random

_FULL, _ROWS = "f32[1024,512]{1,0}", "f32[1024]{0}"
_HEAD = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  z = f32[] constant(0)
"""


def gpu_module(instructions: int, seed: int = 1) -> str:
    """Elementwise operations, reductions of rows, and broadcasts of them, with a library call after every 40."""
    chance = random.Random(seed)
    lines = [f"  p{k} = {_FULL} parameter({k})" for k in range(8)]
    full, rows = [f"p{k}" for k in range(8)], ["z0"]
    lines.append(f"  z0 = {_ROWS} reduce(p0, z), dimensions={{1}}, to_apply=add")
    for k in range(instructions):
        kind, one, other = chance.random(), chance.choice(full[-12:]), chance.choice(full[-12:])
        if kind < 0.12:
            rows.append(f"v{k}")
            lines.append(f"  v{k} = {_ROWS} reduce({one}, z), dimensions={{1}}, to_apply=add")
            continue
        full.append(f"v{k}")
        if k % 40 == 39:
            lines.append(f'  v{k} = {_FULL} custom-call({one}, {other}), custom_call_target="library"')
        elif kind < 0.25:
            lines.append(f"  v{k} = {_FULL} broadcast({chance.choice(rows[-12:])}), dimensions={{0}}")
        elif kind < 0.45:
            lines.append(f"  v{k} = {_FULL} {chance.choice(('tanh', 'exponential', 'negate'))}({one})")
        else:
            lines.append(f"  v{k} = {_FULL} {chance.choice(('add', 'multiply', 'maximum'))}({one}, {other})")
    lines.append(f"  ROOT t = ({_FULL}, {_FULL}) tuple({full[-1]}, {full[-2]})")
    return _HEAD + "\n".join(lines) + "\n}\n"
