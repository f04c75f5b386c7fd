"""Random scheduled programs that XLA can run as they stand: nothing is overwritten in place that is still needed."""

from __future__ import annotations

from random import Random

_SIZES = (8, 64, 512, 4096)
_UNARY = ("negate", "sine", "cosine", "tanh", "abs", "floor")
_BINARY = ("add", "multiply", "subtract", "maximum", "minimum")
_BODY = """NAME {
  b = (s32[], f32[N], f32[N]) parameter(0)
  c = s32[] get-tuple-element(b), index=0
  x = f32[N] get-tuple-element(b), index=1
  y = f32[N] get-tuple-element(b), index=2
  old = f32[N] OP(x)
  one = s32[] constant(1)
  part = f32[1] slice(y), slice={[2:3]}
  new = f32[N] dynamic-update-slice(x, part, c)
  e = f32[N] add(old, y)
  d = s32[] add(c, one)
  ROOT r = (s32[], f32[N], f32[N]) tuple(d, new, e)
}
"""
_CONDITION = """NAME {
  b = (s32[], f32[N], f32[N]) parameter(0)
  c = s32[] get-tuple-element(b), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(c, n), direction=LT
}
"""
_CALLED = """NAME {
  a = f32[N] parameter(0)
  b = f32[N] OP(a)
  c = f32[N] negate(a)
  ROOT r = f32[N] add(c, b)
}
"""


class _Program:
    """The entry while it is written: `there` are the values that may be read, `fresh` those that may be overwritten."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.called = ["plus { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }\n"]
        self.lines: list[str] = []
        self.there: dict[str, int] = {}
        self.fresh: set[str] = set()

    def text(self) -> str:
        """The module."""
        for number, size in enumerate(_SIZES):
            self.lines.append(f"p{number} = f32[{size}] parameter({number})")
            self.there[f"p{number}"] = size
        self.lines.append("zero = f32[] constant(0)")
        self.lines.extend(f"at{number} = s32[] constant({number})" for number in range(3))
        self.lines.append("less = pred[] compare(at0, at1), direction=LT")
        kinds = self.unary, self.binary, self.spread, self.gathered, self.updated, self.looped, self.branched
        while len(self.lines) < 70:
            self.random.choice(kinds)()
        kept = sorted(self.fresh & self.there.keys())[-6:]
        shapes = ", ".join(f"f32[{self.there[name]}]" for name in kept)
        self.lines.append(f"ROOT root = ({shapes}) tuple({', '.join(kept)})")
        entry = "ENTRY e {\n" + "\n".join(f"  {line}" for line in self.lines) + "\n}\n"
        return "HloModule m, is_scheduled=true\n" + "".join(self.called) + entry

    def made(self, size: int, operation: str) -> None:
        """A new array."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = f32[{size}] {operation}")
        self.there[name] = size
        self.fresh.add(name)

    def any(self, size: int | None = None) -> str:
        """The name of an array that may be read."""
        return self.random.choice([name for name, each in self.there.items() if size in (None, each)])

    def taken(self, size: int) -> str | None:
        """An array that nobody will read again, to be overwritten."""
        names = [name for name, each in self.there.items() if each == size and name in self.fresh]
        if not names:
            return None
        name = self.random.choice(names)
        del self.there[name]
        return name

    def unary(self) -> None:
        name = self.any()
        self.made(self.there[name], f"{self.random.choice(_UNARY)}({name})")

    def binary(self) -> None:
        name = self.any()
        size = self.there[name]
        self.made(size, f"{self.random.choice(_BINARY)}({name}, {self.any(size)})")

    def spread(self) -> None:
        name = f"sum{len(self.lines)}"
        self.lines.append(f"{name} = f32[] reduce({self.any()}, zero), dimensions={{0}}, to_apply=plus")
        self.made(self.random.choice(_SIZES), f"broadcast({name}), dimensions={{}}")

    def gathered(self) -> None:
        name = self.any()
        if self.there[name] > _SIZES[0]:
            self.made(self.there[name] // 8, f"slice({name}), slice={{[0:{self.there[name]}:8]}}")

    def updated(self) -> None:
        size = self.random.choice(_SIZES[1:])
        name = self.taken(size)
        if name is not None:
            part = self.any(size // 8)
            self.made(size, f"dynamic-update-slice({name}, {part}, at{self.random.randrange(3)})")

    def branched(self) -> None:
        name, at = self.any(), len(self.lines)
        size = self.there[name]
        for side in ("yes", "no"):
            body = _CALLED.replace("OP", self.random.choice(_UNARY)).replace("NAME", f"{side}{at}")
            self.called.append(body.replace("[N]", f"[{size}]"))
        if self.random.randrange(2):
            self.made(size, f"call({name}), to_apply=yes{at}")
            self.called.pop()
        else:
            sides = f"true_computation=yes{at}, false_computation=no{at}"
            self.made(size, f"conditional(less, {name}, {self.any(size)}), {sides}")

    def looped(self) -> None:
        size = self.random.choice(_SIZES)
        first, second = self.taken(size), self.taken(size)
        if first is None or second is None:
            self.there.update(dict.fromkeys((name for name in (first, second) if name is not None), size))
            return
        at, shape = len(self.lines), f"(s32[], f32[{size}], f32[{size}])"
        body = _BODY.replace("OP", self.random.choice(_UNARY))
        for text, name in ((body, f"body{at}"), (_CONDITION, f"condition{at}")):
            self.called.append(text.replace("NAME", name).replace("[N]", f"[{size}]"))
        # each loop counts in a buffer of its own, which it overwrites
        self.lines.append(f"n{at} = s32[] add(at0, at0)")
        self.lines.append(f"t{at} = {shape} tuple(n{at}, {first}, {second})")
        self.lines.append(f"w{at} = {shape} while(t{at}), condition=condition{at}, body=body{at}")
        self.made(size, f"get-tuple-element(w{at}), index=1")
        self.made(size, f"get-tuple-element(w{at}), index=2")


def scheduled_program(random: Random) -> str:
    """A module of about 70 instructions in the entry, and of loops, calls and branches."""
    return _Program(random).text()
