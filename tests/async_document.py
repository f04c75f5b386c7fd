"""The examples of XLA's document on asynchronous operations, docs/async_ops.md with late binding, made whole.

Each is a scheduled module, by the name of what the document shows with it. Operands are computed, so that nothing but
the asynchronous operation keeps them alive.
"""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A module; what is started and how, its members, the bytes that it moves, and the member that binds the rest."""

    text: str
    operation: str
    spelling: str
    members: tuple[str, ...]
    moved_bytes: int
    binding: str
    is_read_by_jaxlib: bool = True


def _module(body: str, before: str = "") -> str:
    computed = "x = f32[64] parameter(0)\n  a = f32[64] sine(x)\n  b = f32[64] cosine(x)"
    return f"HloModule m, is_scheduled=true\n\n{before}\n\nENTRY main {{\n  {computed}\n  {body}\n}}\n"


_HALVE = "op { p = f32[64] parameter(0)  ROOT r = f32[32] slice(p), slice={[0:32]} }"
_PAIR = """op { p = f32[64] parameter(0)  q = f32[64] parameter(1)
  ROOT r = (f32[32], f32[32]) custom-call(p, q), custom_call_target="halves" }"""
_ADD = "f { p = f32[64] parameter(0)  q = f32[64] parameter(1)  ROOT r = f32[64] add(p, q) }"
_TUPLE = "f { p = f32[64] parameter(0)  n = f32[64] negate(p)  ROOT r = (f32[64]) tuple(n) }"
_SIDE = ', execution_thread="side"'
_THREAD = 'async_execution_thread="side"'

EXAMPLES = {
    "a start and a done": Example(
        _module(
            """s = ((f32[64]), f32[32], s32[]) async-start(a), calls=op
  ROOT d = f32[32] async-done(s)""",
            _HALVE,
        ),
        "slice", "generic", ("s", "d"), 128, "s",
    ),
    "several operands and results": Example(
        _module(
            """s = ((f32[64], f32[64]), (f32[32], f32[32]), s32[]) async-start(a, b), calls=op
  ROOT d = (f32[32], f32[32]) async-done(s)""",
            _PAIR,
        ),
        "custom-call", "generic", ("s", "d"), 256, "s",
    ),
    "two updates": Example(
        _module(
            """s = ((f32[64]), f32[32], s32[]) async-start(a), calls=op
  u = ((f32[64]), f32[32], s32[]) async-update(s)
  v = ((f32[64]), f32[32], s32[]) async-update(u)
  ROOT d = f32[32] async-done(v)""",
            _HALVE,
        ),
        "slice", "generic", ("s", "u", "v", "d"), 128, "s",
    ),
    "sugar": Example(
        _module("""s = ((f32[64]), f32[32], s32[]) custom-call-start(a), custom_call_target="foo"
  u = ((f32[64]), f32[32], s32[]) custom-call-update(s)
  ROOT d = f32[32] custom-call-done(u)"""),
        "custom-call", "sugared", ("s", "u", "d"), 128, "s",
    ),
    "what sugar stands for": Example(
        _module(
            """s = ((f32[64]), f32[32], s32[]) async-start(a), calls=op
  u = ((f32[64]), f32[32], s32[]) async-update(s)
  ROOT d = f32[32] async-done(u)""",
            'op { p = f32[64] parameter(0)  ROOT r = f32[32] custom-call(p), custom_call_target="foo" }',
        ),
        "custom-call", "generic", ("s", "u", "d"), 128, "s",
    ),
    "an exception: copy has opcodes of its own": Example(
        _module("""s = (f32[64], f32[64], u32[]) copy-start(a)
  ROOT d = f32[64] copy-done(s)"""),
        "copy", "native", ("s", "d"), 256, "s",
    ),
    "an exception: collective-permute has opcodes of its own": Example(
        _module("""s = (f32[64], f32[64], u32[], u32[]) collective-permute-start(a), source_target_pairs={{0,1}}
  ROOT d = f32[64] collective-permute-done(s)"""),
        "collective-permute", "native", ("s", "d"), 256, "s",
    ),
    "an operand comes late, in sugar": Example(
        _module(
            f"""s = ((f32[64]), (), s32[]) call-start(a), {_THREAD}, to_apply=f
  u = ((f32[64], f32[64]), f32[64], s32[]) call-update(s, b)
  ROOT d = f32[64] call-done(u)""",
            _ADD + _SIDE,
        ),
        "call", "sugared", ("s", "u", "d"), 256, "u", False,
    ),
    "an operand comes late": Example(
        _module(
            f"""s = ((f32[64]), (), s32[]) async-start(a), {_THREAD}, calls=f
  u = ((f32[64], f32[64]), f32[64], s32[]) async-update(s, b)
  ROOT d = f32[64] async-done(u)""",
            _ADD + _SIDE,
        ),
        "add", "generic", ("s", "u", "d"), 256, "u", False,
    ),
    "an update gives the output a buffer, in sugar": Example(
        _module(
            f"""s = ((f32[64]), (), s32[]) call-start(a), {_THREAD}, to_apply=f
  u = ((f32[64]), (f32[64]), s32[]) call-update(s, b)
  ROOT d = (f32[64]) call-done(u)""",
            _TUPLE + _SIDE,
        ),
        "call", "sugared", ("s", "u", "d"), 256, "u", False,
    ),
    "an update gives the output a buffer": Example(
        _module(
            f"""s = ((f32[64]), (), s32[]) async-start(a), {_THREAD}, calls=f
  u = ((f32[64]), (f32[64]), s32[]) async-update(s, b)
  ROOT d = (f32[64]) async-done(u)""",
            _TUPLE + _SIDE,
        ),
        "tuple", "generic", ("s", "u", "d"), 256, "u", False,
    ),
    "the done says what the output is, in sugar": Example(
        _module(
            f"""s = ((f32[64]), (), s32[]) call-start(a), {_THREAD}, to_apply=f
  ROOT d = (f32[64]) call-done(s)""",
            _TUPLE + _SIDE,
        ),
        "call", "sugared", ("s", "d"), 256, "s", False,
    ),
    "the done says what the output is": Example(
        _module(
            f"""s = ((f32[64]), (), s32[]) async-start(a), {_THREAD}, calls=f
  ROOT d = (f32[64]) async-done(s)""",
            _TUPLE + _SIDE,
        ),
        "tuple", "generic", ("s", "d"), 256, "s",
    ),
    "operands at an update and the output at the done, in sugar": Example(
        _module(
            f"""s = ((), (), s32[]) call-start(), {_THREAD}, to_apply=f
  u = ((f32[64], f32[64]), (), s32[]) call-update(s, a, b)
  ROOT d = f32[64] call-done(u)""",
            _ADD + _SIDE,
        ),
        "call", "sugared", ("s", "u", "d"), 256, "u", False,
    ),
    "operands at an update and the output at the done": Example(
        _module(
            f"""s = ((), (), s32[]) async-start(), {_THREAD}, calls=f
  u = ((f32[64], f32[64]), (), s32[]) async-update(s, a, b)
  ROOT d = f32[64] async-done(u)""",
            _ADD + _SIDE,
        ),
        "add", "generic", ("s", "u", "d"), 256, "u", False,
    ),
}  # fmt: skip
