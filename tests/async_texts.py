"""Async operations in every form that XLA has for them, and such as break their rules."""

from __future__ import annotations

_WORK = "w { a = f32[64] parameter(0)  ROOT n = f32[64] negate(a) }"
_SIDE = """w { a = f32[64] parameter(0)  b = f32[64] parameter(1)  ROOT n = f32[64] add(a, b) }, execution_thread="side"
"""


def _module(body: str, before: str = "") -> str:
    return f"HloModule m, is_scheduled=true\n\n{before}\n\nENTRY e {{\n{body}\n}}\n"


Expected = tuple[str, str, list[str], int]

EXAMPLES: dict[str, tuple[str, Expected]] = {
    "any operation can be wrapped": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w
            ROOT d = f32[64] async-done(s)""",
            _WORK,
        ),
        ("negate", "generic", ["s", "d"], 256),
    ),
    "updates go on between": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w
            u = ((f32[64]), f32[64], u32[]) async-update(s), calls=w
            v = ((f32[64]), f32[64], u32[]) async-update(u)
            ROOT d = f32[64] async-done(v), calls=w""",
            _WORK,
        ),
        ("negate", "generic", ["s", "u", "v", "d"], 256),
    ),
    "sugar leaves the computation out": (
        _module("""p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) negate-start(p)
            u = ((f32[64]), f32[64], u32[]) negate-update(s)
            ROOT d = f32[64] negate-done(u)"""),
        ("negate", "sugared", ["s", "u", "d"], 256),
    ),
    "a custom call": (
        _module("""p = f32[10] parameter(0)
            s = ((f32[10]), f32[20], s32[]) custom-call-start(p), custom_call_target="foo"
            u = ((f32[10]), f32[20], s32[]) custom-call-update(s)
            ROOT d = f32[20] custom-call-done(u)"""),
        ("custom-call", "sugared", ["s", "u", "d"], 80),
    ),
    "operands and output come late": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), (), u32[]) async-start(p), async_execution_thread="side", calls=w
            q = f32[64] sine(p)
            u = ((f32[64], f32[64]), f32[64], u32[]) async-update(s, q)
            ROOT d = f32[64] async-done(u)""",
            _SIDE,
        ),
        ("add", "generic", ["s", "u", "d"], 256),
    ),
    "nothing is bound at the start": (
        _module(
            """p = f32[64] parameter(0)
            s = ((), (), u32[]) async-start(), async_execution_thread="side", calls=w
            u = ((f32[64], f32[64]), f32[64], u32[]) async-update(s, p, p)
            ROOT d = f32[64] async-done(u)""",
            _SIDE,
        ),
        ("add", "generic", ["s", "u", "d"], 256),
    ),
    "the output overwrites an operand": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w, output_to_operand_aliasing={{1}: (0, {})}
            ROOT d = f32[64] async-done(s)""",
            _WORK,
        ),
        ("negate", "generic", ["s", "d"], 256),
    ),
    "all-reduce, whose start is no tuple": (
        _module(
            """p = f32[64] parameter(0)
            s = f32[64] all-reduce-start(p), replica_groups={}, to_apply=f
            ROOT d = f32[64] all-reduce-done(s)""",
            "f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT n = f32[] add(a, b) }",
        ),
        ("all-reduce", "native", ["s", "d"], 256),
    ),
    "all-gather": (
        _module("""p = f32[64] parameter(0)
            s = (f32[64], f32[128]) all-gather-start(p), replica_groups={{0,1}}, dimensions={0}
            ROOT d = f32[128] all-gather-done(s)"""),
        ("all-gather", "native", ["s", "d"], 512),
    ),
    "collective-permute": (
        _module("""p = f32[64] parameter(0)
            s = (f32[64], f32[64], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,1}}
            ROOT d = f32[64] collective-permute-done(s)"""),
        ("collective-permute", "native", ["s", "d"], 256),
    ),
    "copy, whose destination comes first": (
        _module("""p = f32[64] parameter(0)
            s = (f32[64], f32[64], u32[]) copy-start(p)
            ROOT d = f32[64] copy-done(s)"""),
        ("copy", "native", ["s", "d"], 256),
    ),
    "send": (
        _module("""p = f32[64] parameter(0)
            t = token[] after-all()
            s = (f32[64], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true
            ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true"""),
        ("send", "native", ["s", "d"], 256),
    ),
    "receive": (
        _module("""t = token[] after-all()
            s = (f32[64], u32[], token[]) recv(t), channel_id=1
            ROOT d = (f32[64], token[]) recv-done(s), channel_id=1"""),
        ("recv", "native", ["s", "d"], 256),
    ),
    "a part is written": (
        _module("""p = f32[64] parameter(0)
            q = f32[8] parameter(1)
            i = s32[] parameter(2)
            s = ((f32[64], f32[8], s32[]), f32[64], u32[]) dynamic-update-slice-start(p, q, i)
            ROOT d = f32[64] dynamic-update-slice-done(s)"""),
        ("dynamic-update-slice", "sugared", ["s", "d"], 32),
    ),
    "handed on in a tuple": (
        _module("""p = f32[64] parameter(0)
            s = (f32[64], f32[64], u32[]) copy-start(p)
            t = ((f32[64], f32[64], u32[]), f32[64]) tuple(s, p)
            b = ((f32[64], f32[64], u32[]), f32[64]) opt-barrier(t)
            g = (f32[64], f32[64], u32[]) get-tuple-element(b), index=0
            ROOT d = f32[64] copy-done(g)"""),
        ("copy", "native", ["s", "d"], 256),
    ),
}

_START = "s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w"
_COPY = "s = (f32[64], f32[64], u32[]) copy-start(p)"

REJECTED_BY_JAXLIB = (
    "a done of a done", "a done that binds", "a start that is taken by its update twice", "nothing to run",
    "two starts of one computation", "an update in another thread", "a sugared done in another thread",
    "an update that leads nowhere", "another computation", "channels differ", "no tuple of operands", "an update takes back", "an update that overwrites its operand",
    "a done of an argument of the program", "a sugared call whose operands are bound in another order",
)  # fmt: skip
"""Those of the broken texts that jaxlib does not even read."""

ACCEPTED = {
    "two computations that are alike": _module(
        """p = f32[64] parameter(0)
        s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w
        ROOT d = f32[64] async-done(s), calls=x""",
        _WORK + "\n\nx { c = f32[64] parameter(0)  ROOT k = f32[64] negate(c) }",
    ),
    "a done of a parameter of what nothing calls, which may be a start": _module(
        "ROOT p = f32[64] parameter(0)",
        "f { p = (f32[64], f32[64], u32[]) parameter(0)\n ROOT d = f32[64] copy-done(p) }",
    ),
    "what leaves operands out cannot be judged": _module(
        """p = f32[64] parameter(0)
        s = (f32[64], f32[64], u32[]) copy-start()
        ROOT d = f32[64] copy-done()"""
    ),
    "several operations in another thread": _module(
        """p = f32[64] parameter(0)
        s = ((f32[64]), f32[64], u32[]) async-start(p), async_execution_thread="side", calls=w
        ROOT d = f32[64] async-done(s)""",
        """w { a = f32[64] parameter(0)  b = f32[64] sine(a)  ROOT n = f32[64] negate(b) }, execution_thread="side" """,
    ),
}

BROKEN: dict[str, tuple[str, str, str, str]] = {
    "no done": (_module(f"ROOT p = f32[64] parameter(0)\n{_COPY}"), "s", "async-no-done", "s has no copy-done"),
    "a loop carries a start, and nothing waits for it": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) sine-start(p)
            t = (((f32[64]), f32[64], u32[])) tuple(s)
            ROOT l = (((f32[64]), f32[64], u32[])) while(t), condition=c, body=b""",
            """c { q = (((f32[64]), f32[64], u32[])) parameter(0)  ROOT k = pred[] constant(false) }

b { ROOT q = (((f32[64]), f32[64], u32[])) parameter(0) }""",
        ),
        "s",
        "async-no-done", "s has no sine-done",
    ),
    "an update that leads nowhere": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) sine-start(p)
            t = (((f32[64]), f32[64], u32[])) tuple(s)
            l = (((f32[64]), f32[64], u32[])) while(t), condition=c, body=b
            g = ((f32[64]), f32[64], u32[]) get-tuple-element(l), index=0
            ROOT d = f32[64] sine-done(g)""",
            """c { q = (((f32[64]), f32[64], u32[])) parameter(0)  ROOT k = pred[] constant(false) }

b { q = (((f32[64]), f32[64], u32[])) parameter(0)
  h = ((f32[64]), f32[64], u32[]) get-tuple-element(q), index=0
  u = ((f32[64]), f32[64], u32[]) sine-update(h)
  ROOT r = (((f32[64]), f32[64], u32[])) tuple(h) }""",
        ),
        "u",
        "async-no-done", "u has no sine-done",
    ),
    "sends and receives together": (
        _module(
            """p = f32[64] parameter(0)
            t = token[] after-all()
            s = ((f32[64], token[]), ((f32[64], u32[], token[]), (f32[64], u32[], token[])), u32[]) async-start(p, t), calls=w
            ROOT d = ((f32[64], u32[], token[]), (f32[64], u32[], token[])) async-done(s)""",
            """w { a = f32[64] parameter(0)  t = token[] parameter(1)
  x = (f32[64], u32[], token[]) send(a, t), channel_id=1
  y = (f32[64], u32[], token[]) recv(t), channel_id=1
  ROOT r = ((f32[64], u32[], token[]), (f32[64], u32[], token[])) tuple(x, y) }""",
        ),
        "s",
        "async-group", "allows one operation, not 3",
    ),
    "an operand before the first": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w, output_to_operand_aliasing={{1}: (-1, {})}
            ROOT d = f32[64] async-done(s)""",
            _WORK,
        ),
        "s",
        "async-aliasing", "invalid alias {1}: (-1, {})",
    ),
    "two dones": (
        _module(f"p = f32[64] parameter(0)\n{_COPY}\nc = f32[64] copy-done(s)\nROOT d = f32[64] copy-done(s)"),
        "d",
        "async-duplicate-use", "uses s, which c already uses",
    ),
    "a done of no start": (
        _module("p = f32[64] parameter(0)\nq = f32[64] sine(p)\nROOT d = f32[64] copy-done(q)"),
        "d",
        "async-no-start", "not an async operation",
    ),
    "a done of an argument of the program": (
        _module("p = ((f32[64]), f32[64], u32[]) parameter(0)\nROOT d = f32[64] async-done(p), calls=w", _WORK),
        "d",
        "async-no-start", "not an async operation",
    ),
    "an update of an element of an argument": (
        _module(
            """p = ((f32[64], f32[64], u32[]), f32[]) parameter(0)
            g = (f32[64], f32[64], u32[]) get-tuple-element(p), index=0
            ROOT d = f32[64] copy-done(g)"""
        ),
        "d",
        "async-no-start", "not an async operation",
    ),
    "a sugared call whose operands are bound in another order": (
        _module(
            """p = f32[] parameter(0)
            q = s32[] parameter(1)
            s = ((), (), u32[]) call-start(), to_apply=f
            u = ((s32[], f32[]), f32[], u32[]) call-update(s, q, p)
            ROOT d = f32[] call-done(u)""",
            "f { a = f32[] parameter(0)  b = s32[] parameter(1)  ROOT c = f32[] convert(b) }",
        ),
        "u",
        "async-operands", "not the first parameters of f",
    ),
    "a sugared fusion with an operand that is never bound": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) fusion-start(p), kind=kLoop, calls=f
            ROOT d = f32[64] fusion-done(s)""",
            "f { a = f32[64] parameter(0)  b = f32[64] parameter(1)  ROOT c = f32[64] add(a, b) }",
        ),
        "d",
        "async-unbound", "b of f is not bound",
    ),
    "a done of another kind": (
        _module(f"p = f32[64] parameter(0)\n{_COPY}\nROOT d = f32[64] all-reduce-done(s)"),
        "d",
        "async-kind", "s (copy-start) requires copy-done",
    ),
    "used while under way": (
        _module(
            """p = f32[64] parameter(0)
            s = f32[64] all-reduce-start(p), replica_groups={}, to_apply=f
            q = f32[64] sine(s)
            d = f32[64] all-reduce-done(s)
            ROOT t = (f32[64], f32[64]) tuple(q, d)""",
            "f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT n = f32[] add(a, b) }",
        ),
        "q",
        "async-in-flight", "uses s while it is in flight",
    ),
    "two chains through one start": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w
            u = ((f32[64]), f32[64], u32[]) async-update(s)
            v = ((f32[64]), f32[64], u32[]) async-update(s)
            ROOT d = f32[64] async-done(u)""",
            _WORK,
        ),
        "v",
        "async-duplicate-use", "uses s, which u already uses",
    ),
    "channels differ": (
        _module("""t = token[] after-all()
            s = (f32[64], u32[], token[]) recv(t), channel_id=1
            ROOT d = (f32[64], token[]) recv-done(s), channel_id=2"""),
        "d",
        "async-channel", "have different channel_id",
    ),
    "the output is another": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[32], u32[]) async-start(p), calls=w
            ROOT d = f32[64] async-done(s)""",
            _WORK,
        ),
        "s",
        "async-output", "its output is f32[32], but w returns f32[64]",
    ),
    "too many operands": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p, p), calls=w
            ROOT d = f32[64] async-done(s)""",
            _WORK,
        ),
        "s",
        "async-operands", "binds 1 operand, but it has 2",
    ),
    "an operand of another shape": (
        _module("""p = f32[32] parameter(0)
            s = ((f32[64]), f32[64], u32[]) negate-start(p)
            ROOT d = f32[64] negate-done(s)"""),
        "s",
        "async-operands", "operand 0 is f32[32], but its shape binds f32[64]",
    ),
    "the result is another": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w
            ROOT d = f32[32] async-done(s)""",
            _WORK,
        ),
        "d",
        "async-output", "expected the shape f32[64], found f32[32]",
    ),
    "not all is bound": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), async_execution_thread="side", calls=w
            ROOT d = f32[64] async-done(s)""",
            _SIDE,
        ),
        "d",
        "async-unbound", "b of w is not bound",
    ),
    "an update takes back": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64], f32[64]), f32[64], u32[]) async-start(p, p), async_execution_thread="side", calls=w
            u = ((f32[64]), f32[64], u32[]) async-update(s)
            v = ((f32[64], f32[64]), f32[64], u32[]) async-update(u, p)
            ROOT d = f32[64] async-done(v)""",
            _SIDE,
        ),
        "u",
        "async-bound-prefix", "binds fewer or different operands",
    ),
    "no tuple of operands": (
        _module("""p = f32[64] parameter(0)
            s = (f32[64]) negate-start(p)
            ROOT d = f32[64] negate-done(s)"""),
        "s",
        "async-shape", "expected shape ((operands), output, contexts…)",
    ),
    "an alias of another shape": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[32], u32[]) async-start(p), calls=w, output_to_operand_aliasing={{1}: (0, {})}
            ROOT d = f32[32] async-done(s)""",
            "w { a = f32[64] parameter(0)  ROOT n = f32[32] slice(a), slice={[0:32]} }",
        ),
        "s",
        "async-aliasing", "invalid alias {1}: (0, {})",
    ),
    "another computation": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w
            ROOT d = f32[64] async-done(s), calls=x""",
            _WORK + "\n\nx { c = f32[64] parameter(0)  ROOT k = f32[64] sine(c) }",
        ),
        "d",
        "async-computation", "d runs x, but s runs w",
    ),
    "several operations in the main thread": (
        _module(
            """p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p), calls=w
            ROOT d = f32[64] async-done(s)""",
            "w { a = f32[64] parameter(0)  b = f32[64] sine(a)  ROOT n = f32[64] negate(b) }",
        ),
        "s",
        "async-group", "allows one operation, not 2",
    ),
    "a copy of another shape": (
        _module("""p = f32[64] parameter(0)
            s = (f32[64], f32[64], u32[]) copy-start(p)
            ROOT d = f32[32] copy-done(s)"""),
        "d",
        "async-output", "expected the shape f32[64], found f32[32]",
    ),
    "a done of a done": (
        _module(
            f"""p = f32[64] parameter(0)
            {_START}
            c = f32[64] async-done(s)
            ROOT d = f32[64] async-done(c)""",
            _WORK,
        ),
        "d", "async-after-done", "continues c, but s is already complete",
    ),
    "a done that binds": (
        _module(f"p = f32[64] parameter(0)\n{_START}\nROOT d = f32[64] async-done(s, p)", _WORK),
        "d", "async-done-operands", "d has an extra operand, p; only an update",
    ),
    "a start that is taken by its update twice": (
        _module(
            f"""p = f32[64] parameter(0)
            {_START}
            u = ((f32[64]), f32[64], u32[]) async-update(s, s)
            ROOT d = f32[64] async-done(u)""",
            _WORK,
        ),
        "u", "async-operands", "binds 0 more operands, but it has 1",
    ),
    "nothing to run": (
        _module("""p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) async-start(p)
            ROOT d = f32[64] async-done(s)"""),
        "s", "async-computation", "s has no called computation",
    ),
    "a call of what runs asynchronously": (
        _module(
            f"""p = f32[64] parameter(0)
            {_START}
            d = f32[64] async-done(s)
            ROOT c = f32[64] call(d), to_apply=w""",
            _WORK,
        ),
        "c", "async-shared-computation", "cannot call w, which s runs asynchronously",
    ),
    "two starts of one computation": (
        _module(
            f"""p = f32[64] parameter(0)
            {_START}
            d = f32[64] async-done(s)
            t = ((f32[64]), f32[64], u32[]) async-start(d), calls=w
            ROOT e = f32[64] async-done(t)""",
            _WORK,
        ),
        "t", "async-shared-computation", "t runs w, which s also runs",
    ),
    "an update in another thread": (
        _module(
            f"""p = f32[64] parameter(0)
            {_START}
            u = ((f32[64]), f32[64], u32[]) async-update(s), async_execution_thread="side"
            ROOT d = f32[64] async-done(u)""",
            _WORK,
        ),
        "u", "async-thread", "specifies thread side, but s runs on main",
    ),
    "a sugared done in another thread": (
        _module("""p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) negate-start(p), async_execution_thread="side"
            ROOT d = f32[64] negate-done(s), async_execution_thread="other" """),
        "d", "async-thread", "specifies thread other, but s runs on side",
    ),
    "a computation in another thread": (
        _module(
            f"p = f32[64] parameter(0)\n{_START}\nROOT d = f32[64] async-done(s)",
            _WORK + ', execution_thread="side"',
        ),
        "s", "async-thread", "s runs w on thread main, but w is on side",
    ),
    "sugar that overwrites what it is not given": (
        _module("""p = f32[64] parameter(0)
            s = ((f32[64]), f32[64], u32[]) negate-start(p), output_to_operand_aliasing={{1}: (1, {})}
            ROOT d = f32[64] negate-done(s)"""),
        "s", "async-aliasing", "invalid alias {1}: (1, {})",
    ),
    "a custom call that overwrites another shape": (
        _module("""p = f32[64] parameter(0)
            s = ((f32[64]), f32[32], u32[]) custom-call-start(p), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}
            ROOT d = f32[32] custom-call-done(s)"""),
        "s", "async-aliasing", "invalid alias {}: (0, {})",
    ),
    "an update that overwrites its operand": (
        _module(
            f"""p = f32[64] parameter(0)
            {_START}
            u = ((f32[64]), f32[64], u32[]) async-update(s), output_to_operand_aliasing={{{{1}}: (0, {{}})}}
            ROOT d = f32[64] async-done(u)""",
            _WORK,
        ),
        "u", "async-aliasing", "invalid alias {1}: (0, {})",
    ),
    "the channel is to the host": (
        _module("""p = f32[64] parameter(0)
            t = token[] after-all()
            s = (f32[64], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true
            ROOT d = token[] send-done(s), channel_id=1"""),
        "d", "async-channel", "have different is_host_transfer",
    ),
}  # fmt: skip
