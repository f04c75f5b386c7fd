"""Random programs of operations that fusion passes think about; XLA's verifier takes them, and they can be run.

A value may be used again and again, so that fusing it would compute it more than once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from random import Random

_SIZES = (1, 2, 3, 4, 6, 8, 16, 128, 130)
_TYPES = ("f32", "f32", "f32", "bf16", "s32", "s32", "f64", "u8", "c64")
_UNARY = ("negate", "abs", "copy", "sign")
_OF_FLOATS = ("tanh", "exponential", "sine", "rsqrt", "floor", "logistic", "log", "cosine", "is-finite")
_BINARY = ("add", "multiply", "subtract")
_OF_REALS = ("maximum", "minimum", "compare")
_APPLIED = """
add_{t} {{ x = {t}[] parameter(0)  y = {t}[] parameter(1)  ROOT z = {t}[] add(x, y) }}
"""
_REAL_APPLIED = """
max_{t} {{ x = {t}[] parameter(0)  y = {t}[] parameter(1)  ROOT z = {t}[] maximum(x, y) }}
"""


@dataclass(frozen=True)
class Value:
    """An array that a program has made."""

    name: str
    kind: str
    sizes: tuple[int, ...]

    @property
    def shape(self) -> str:
        """Its shape as text."""
        return f"{self.kind}[{','.join(map(str, self.sizes))}]"

    @property
    def is_float(self) -> bool:
        """Whether its elements are real floats."""
        return self.kind[0] in "fb"


def fusible_program(random: Random, *, length: int = 0) -> str:
    """The text of a program of 15 to 45 operations, or of as many as asked for."""
    program = _Program(random)
    for _ in range(random.randrange(2, 5)):
        sizes = tuple(random.choice(_SIZES) for _ in range(random.randrange(4)))
        program.parameter(random.choice(_TYPES), sizes)
    for _ in range(length or random.randrange(15, 46)):
        program.step()
    return program.text()


class _Program:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.values: list[Value] = []
        self.lines: list[str] = []
        self.used: set[str] = set()
        self.parameters = 0

    def parameter(self, kind: str, sizes: tuple[int, ...]) -> Value:
        self.parameters += 1
        return self.write(kind, sizes, f"parameter({self.parameters - 1})")

    def write(self, kind: str, sizes: tuple[int, ...], operation: str, *operands: Value) -> Value:
        value = Value(f"v{len(self.values)}", kind, sizes)
        self.used |= {operand.name for operand in operands}
        self.values.append(value)
        self.lines.append(f"{value.name} = {value.shape} {operation}")
        return value

    def text(self) -> str:
        results = [value for value in self.values if value.name not in self.used]
        results += self.random.sample(self.values, min(2, len(self.values)))
        results = list(dict.fromkeys(results))
        shapes = ", ".join(value.shape for value in results)
        self.lines.append(f"ROOT out = ({shapes}) tuple({', '.join(value.name for value in results)})")
        kinds = sorted(set(_TYPES))
        applied = "".join(_APPLIED.format(t=kind) for kind in kinds)
        applied += "".join(_REAL_APPLIED.format(t=kind) for kind in kinds if kind != "c64")
        return f"HloModule m\n{applied}\nENTRY e {{\n  " + "\n  ".join(self.lines) + "\n}\n"

    def any(self) -> Value:
        """A value, a late one more often."""
        recent = self.values[-8:] if self.random.random() < 0.6 else self.values
        return self.random.choice([value for value in recent if value.kind != "pred"] or self.values[:1])

    def like(self, value: Value) -> Value:
        """A value of the same shape, made of a constant if there is no other."""
        same = [other for other in self.values if other.shape == value.shape]
        if len(same) > 1 and self.random.random() < 0.8:
            return self.random.choice(same)
        scalars = [v for v in self.values if v.kind == value.kind and not v.sizes]
        scalar = self.random.choice(scalars) if scalars and self.random.random() < 0.5 else self.constant(value.kind)
        return self.write(value.kind, value.sizes, f"broadcast({scalar.name}), dimensions={{}}", scalar)

    def constant(self, kind: str) -> Value:
        number = str(self.random.choice((0, 1, 2, 3)))
        text = f"({number}, 1)" if kind == "c64" else "true" if kind == "pred" else number
        return self.write(kind, (), f"constant({text})")

    def step(self) -> None:
        self.random.choice(_STEPS)(self)

    def unary(self) -> None:
        value = self.any()
        opcodes = _UNARY + (_OF_FLOATS * 2 if value.is_float else ())
        if value.kind == "c64":
            opcodes = ("negate", "exponential", "sine", "abs", "copy")
        opcode = self.random.choice([o for o in opcodes if not (value.kind == "u8" and o in ("abs", "sign"))])
        kind = "pred" if opcode == "is-finite" else "f32" if (opcode, value.kind) == ("abs", "c64") else value.kind
        self.write(kind, value.sizes, f"{opcode}({value.name})", value)

    def binary(self) -> None:
        one = self.any()
        other = self.like(one)
        if self.random.random() < 0.5:
            one, other = other, one
        opcodes = _BINARY + (_OF_REALS if one.kind != "c64" else ()) + (("divide", "power") if one.is_float else ())
        opcode = self.random.choice(opcodes)
        operation = f"{opcode}({one.name}, {other.name})" + (", direction=LT" if opcode == "compare" else "")
        self.write("pred" if opcode == "compare" else one.kind, one.sizes, operation, one, other)

    def select(self) -> None:
        masks = [value for value in self.values if value.kind == "pred"]
        if not masks:
            return
        mask = self.random.choice(masks)
        same = [value for value in self.values if value.sizes == mask.sizes and value.kind != "pred"]
        if same:
            one = self.random.choice(same)
            other = self.like(one)
            self.write(one.kind, one.sizes, f"select({mask.name}, {one.name}, {other.name})", mask, one, other)

    def convert(self) -> None:
        value = self.any()
        kinds = ("c64",) if value.kind == "c64" else ("f32", "bf16", "f32", "bf16", "s32", "f64", "u8")
        self.write(self.random.choice(kinds), value.sizes, "x", value)
        made = self.values[-1]
        self.lines[-1] = f"{made.name} = {made.shape} convert({value.name})"

    def broadcast(self) -> None:
        value = self.any()
        if len(value.sizes) > 3 or prod(value.sizes) > 20000:
            return
        place = self.random.randrange(len(value.sizes) + 1)
        sizes = (*value.sizes[:place], self.random.choice(_SIZES), *value.sizes[place:])
        kept = ",".join(str(d) for d in range(len(sizes)) if d != place)
        self.write(value.kind, sizes, f"broadcast({value.name}), dimensions={{{kept}}}", value)

    def reduce(self) -> None:
        value = self.any()
        if not value.sizes:
            return
        place = self.random.randrange(len(value.sizes))
        start = self.constant(value.kind)
        applied = self.random.choice(("add", "max")) if value.kind != "c64" else "add"
        sizes = value.sizes[:place] + value.sizes[place + 1 :]
        operation = f"reduce({value.name}, {start.name}), dimensions={{{place}}}, to_apply={applied}_{value.kind}"
        self.write(value.kind, sizes, operation, value, start)

    def transpose(self) -> None:
        value = self.any()
        order = self.random.sample(range(len(value.sizes)), len(value.sizes))
        listed = ",".join(map(str, order))
        sizes = tuple(value.sizes[d] for d in order)
        self.write(value.kind, sizes, f"transpose({value.name}), dimensions={{{listed}}}", value)

    def reshape(self) -> None:
        value = self.any()
        sizes = list(value.sizes)
        if len(sizes) > 1 and self.random.random() < 0.6:
            place = self.random.randrange(len(sizes) - 1)
            sizes[place : place + 2] = [sizes[place] * sizes[place + 1]]
        else:
            sizes.insert(self.random.randrange(len(sizes) + 1), 1)
        self.write(value.kind, tuple(sizes), f"reshape({value.name})", value)

    def slice(self) -> None:
        value = self.any()
        if not value.sizes:
            return
        starts = [self.random.randrange(size) for size in value.sizes]
        cut = ", ".join(f"[{start}:{size}]" for start, size in zip(starts, value.sizes, strict=True))
        sizes = tuple(size - start for start, size in zip(starts, value.sizes, strict=True))
        self.write(value.kind, sizes, f"slice({value.name}), slice={{{cut}}}", value)

    def concatenate(self) -> None:
        value = self.any()
        if not value.sizes or value.sizes[-1] > 1000:
            return
        parts = [value, *(self.like(value) for _ in range(self.random.choice((1, 1, 2, 9))))]
        place = self.random.randrange(len(value.sizes))
        sizes = tuple(size * (len(parts) if d == place else 1) for d, size in enumerate(value.sizes))
        names = ", ".join(part.name for part in parts)
        self.write(value.kind, sizes, f"concatenate({names}), dimensions={{{place}}}", *parts)

    def pad(self) -> None:
        value = self.any()
        if not value.sizes:
            return
        filler = self.constant(value.kind)
        padding = "x".join("1_2" for _ in value.sizes)
        sizes = tuple(size + 3 for size in value.sizes)
        self.write(value.kind, sizes, f"pad({value.name}, {filler.name}), padding={padding}", value, filler)

    def starts(self, value: Value) -> list[Value]:
        indices = [v for v in self.values if v.shape == "s32[]"]
        return [
            self.random.choice(indices) if indices and self.random.random() < 0.5 else self.constant("s32")
            for _ in value.sizes
        ]

    def dynamic_slice(self) -> None:
        value = self.any()
        if not value.sizes:
            return
        starts = self.starts(value)
        sizes = tuple(max(1, size // 2) for size in value.sizes)
        names = ", ".join(start.name for start in starts)
        cut = ",".join(map(str, sizes))
        operation = f"dynamic-slice({value.name}, {names}), dynamic_slice_sizes={{{cut}}}"
        part = self.write(value.kind, sizes, operation, value, *starts)
        if self.random.random() < 0.5:
            changed = self.write(value.kind, sizes, f"negate({part.name})", part)
            operation = f"dynamic-update-slice({value.name}, {changed.name}, {names})"
            self.write(value.kind, value.sizes, operation, value, changed, *starts)

    def dynamic_update_slice(self) -> None:
        value = self.any()
        if not value.sizes:
            return
        smaller = [
            v
            for v in self.values
            if v.kind == value.kind
            and len(v.sizes) == len(value.sizes)
            and all(a <= b for a, b in zip(v.sizes, value.sizes, strict=True))
        ]
        update, starts = self.random.choice(smaller), self.starts(value)
        names = ", ".join(start.name for start in starts)
        operation = f"dynamic-update-slice({value.name}, {update.name}, {names})"
        self.write(value.kind, value.sizes, operation, value, update, *starts)

    def dot(self) -> None:
        left = self.any()
        fitting = [v for v in self.values if v.kind == left.kind and v.sizes and v.sizes[0] == (left.sizes or (0,))[-1]]
        if not left.sizes or not fitting or len(left.sizes) > 2:
            return
        right = self.random.choice(fitting)
        sizes = left.sizes[:-1] + right.sizes[1:]
        if prod(sizes) > 100_000:
            return
        contracted = f"lhs_contracting_dims={{{len(left.sizes) - 1}}}, rhs_contracting_dims={{0}}"
        self.write(left.kind, sizes, f"dot({left.name}, {right.name}), {contracted}", left, right)

    def iota(self) -> None:
        value = self.any()
        if value.sizes and value.kind != "c64":
            self.write(value.kind, value.sizes, f"iota(), iota_dimension={len(value.sizes) - 1}")

    def reverse(self) -> None:
        value = self.any()
        if value.sizes:
            self.write(value.kind, value.sizes, f"reverse({value.name}), dimensions={{0}}", value)


_STEPS = (
    *(_Program.unary,) * 4,
    *(_Program.binary,) * 6,
    *(_Program.broadcast, _Program.reduce) * 2,
    *(_Program.select, _Program.convert, _Program.transpose, _Program.reshape, _Program.slice, _Program.concatenate),
    *(_Program.pad, _Program.dynamic_slice, _Program.dynamic_update_slice, _Program.dot, _Program.iota),
    _Program.reverse,
)
