"""Random programs of fusions, slices, loops and calls, for comparing what they cost.

They obey XLA's parser, which looks at operands and attributes, not its verifier, which would look at sizes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

_SIZES = (1, 2, 3, 5, 8, 100, 4097)
_TYPES = ("f32", "f32", "bf16", "s8", "pred", "c64", "s4")
_APPLIED = """
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }
power { x = f32[] parameter(0)  y = f32[] parameter(1)  s = f32[] power(x, y)  ROOT z = f32[] add(s, y) }
"""


@dataclass(frozen=True)
class Made:
    """A value that a program has made: its name and shape, with the sizes if it is an array."""

    name: str
    shape: str
    sizes: tuple[int, ...] = ()
    elements: tuple[str, ...] = ()


class Program:
    """Writes one module, computation by computation."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.computations: list[str] = []

    def text(self) -> str:
        """The module."""
        shapes = [self.shape() for _ in range(self.random.randrange(1, 5))]
        self.computation("ENTRY e", shapes, 0, self.random.randrange(1, 12))
        return "\n".join(("HloModule m", _APPLIED, *self.computations))

    def shape(self) -> Made:
        """An array of random type, sizes and layout, seldom dynamic or of a tuple."""
        random = self.random
        if random.random() < 0.1:
            elements = tuple(self.shape().shape for _ in range(random.randrange(1, 4)))
            return Made("", f"({', '.join(elements)})", elements=elements)
        sizes = tuple(random.choice(_SIZES) for _ in range(random.randrange(4)))
        return self.array(sizes)

    def array(self, sizes: Sequence[int]) -> Made:
        """An array of these sizes."""
        random = self.random
        order = random.sample(range(len(sizes)), len(sizes))
        kind = random.choice(_TYPES)
        properties = random.choice((":E(4)", "")) if kind == "s4" else random.choice(("", "", "", ":T(8,128)"))
        dynamic = random.random() < 0.05
        listed = ",".join(f"{'<=' if dynamic else ''}{size}" for size in sizes)
        layout = f"{{{','.join(map(str, order))}{properties}}}" if sizes else ""
        return Made("", f"{kind}[{listed}]{layout}", tuple(sizes))

    def computation(self, head: str, parameters: Sequence[Made], depth: int, length: int) -> Made:
        """Write a computation of these parameters; what comes back is its root."""
        body = Body(self, depth)
        for number, parameter in enumerate(parameters):
            body.write(parameter, f"parameter({number})")
        for _ in range(length):
            self.random.choice(KINDS)(body)
        if self.random.random() < 0.3:
            taken = [body.any() for _ in range(self.random.randrange(1, 4))]
            elements = tuple(value.shape for value in taken)
            made = Made("", f"({', '.join(elements)})", elements=elements)
            body.write(made, f"tuple({', '.join(value.name for value in taken)})")
        lines = [*body.lines[:-1], "ROOT " + body.lines[-1]]
        self.computations.append("\n  ".join((f"{head} {{", *lines)) + "\n}")
        return body.values[-1]

    def callee(self, parameters: Sequence[Made], depth: int) -> tuple[str, Made]:
        """Write a computation for others to call; its name and root come back."""
        name = f"c{len(self.computations)}_{self.random.randrange(10**9)}"
        return name, self.computation(name, parameters, depth + 1, self.random.randrange(1, 7))


class Body:
    """One computation while it is being written."""

    def __init__(self, program: Program, depth: int) -> None:
        self.program = program
        self.random = program.random
        self.depth = depth
        self.values: list[Made] = []
        self.lines: list[str] = []

    def write(self, made: Made, operation: str) -> None:
        """Write a line that makes this value."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {made.shape} {operation}")
        self.values.append(Made(name, made.shape, made.sizes, made.elements))

    def any(self) -> Made:
        """Some value."""
        return self.random.choice(self.values)

    def an_array(self) -> Made:
        """Some array, a new one if there is none yet."""
        arrays = [value for value in self.values if not value.elements]
        if not arrays:
            self.write(Made("", "f32[5,3]", (5, 3)), "iota(), iota_dimension=0")
            arrays = self.values[-1:]
        return self.random.choice(arrays)

    def scalar(self) -> str:
        """A number for an index."""
        self.write(Made("", "s32[]"), "constant(0)")
        return self.values[-1].name


def _elementwise(body: Body) -> None:
    a, b = body.an_array(), body.an_array()
    one = ("negate", "tanh", "exponential", "copy", "abs", "reduce-precision", "bitcast", "reverse")
    opcode = body.random.choice((*one, "add", "power", "atan2"))
    more = {"reduce-precision": ", exponent_bits=8, mantissa_bits=7", "reverse": ", dimensions={}"}.get(opcode, "")
    arguments = a.name if opcode in one else f"{a.name}, {b.name}"
    body.write(body.program.array(a.sizes), f"{opcode}({arguments}){more}")


def _slice(body: Body) -> None:
    a = body.an_array()
    sizes = [body.random.randrange(1, size + 1) for size in a.sizes]
    limits = ", ".join(f"[0:{size}]" for size in sizes)
    body.write(body.program.array(sizes), f"slice({a.name}), slice={{{limits}}}")


def _dynamic_slice(body: Body) -> None:
    a, start = body.an_array(), body.scalar()
    sizes = [body.random.randrange(1, size + 1) for size in a.sizes]
    starts = "".join(f", {start}" for _ in sizes or (1,))
    if sizes:
        listed = ",".join(map(str, sizes))
        body.write(body.program.array(sizes), f"dynamic-slice({a.name}{starts}), dynamic_slice_sizes={{{listed}}}")


def _dynamic_update_slice(body: Body) -> None:
    a, start = body.an_array(), body.scalar()
    update = body.an_array()
    if a.sizes:
        starts = "".join(f", {start}" for _ in a.sizes)
        body.write(Made("", a.shape, a.sizes), f"dynamic-update-slice({a.name}, {update.name}{starts})")


def _spread(body: Body) -> None:
    a = body.an_array()
    if body.random.random() < 0.5:
        dimensions = ",".join(str(d) for d in range(len(a.sizes)))
        body.write(body.program.array((*a.sizes, 7)), f"broadcast({a.name}), dimensions={{{dimensions}}}")
    else:
        body.write(body.program.array((1, *a.sizes)), f"reshape({a.name})")


def _transpose(body: Body) -> None:
    a = body.an_array()
    order = body.random.sample(range(len(a.sizes)), len(a.sizes))
    result = body.program.array([a.sizes[d] for d in order])
    body.write(result, f"transpose({a.name}), dimensions={{{','.join(map(str, order))}}}")


def _constant(body: Body) -> None:
    size = body.random.randrange(1, 5)
    body.write(Made("", f"f32[{size}]", (size,)), f"constant({{{','.join('1' * size)}}})")


def _reduce(body: Body) -> None:
    a, name = body.an_array(), body.random.choice(("add", "power"))
    body.write(Made("", "f32[]"), "constant(0)")
    dimensions = ",".join(str(d) for d in range(len(a.sizes)) if d)
    made = body.program.array(a.sizes[:1])
    body.write(made, f"reduce({a.name}, {body.values[-1].name}), dimensions={{{dimensions}}}, to_apply={name}")


def _sort(body: Body) -> None:
    a = body.an_array()
    if a.sizes:
        body.write(body.program.array(a.sizes), f"sort({a.name}), dimensions={{0}}, to_apply=less")


def _take(body: Body) -> None:
    tuples = [value for value in body.values if value.elements]
    if tuples:
        taken = body.random.choice(tuples)
        number = body.random.randrange(len(taken.elements))
        shape = taken.elements[number]
        if not shape.startswith("("):
            listed = shape[shape.index("[") + 1 : shape.index("]")].replace("<=", "")
            sizes = tuple(int(size) for size in listed.split(",") if size)
            body.write(Made("", shape, sizes), f"get-tuple-element({taken.name}), index={number}")


def _custom_call(body: Body) -> None:
    body.write(body.program.shape(), f'custom-call({body.any().name}, {body.any().name}), custom_call_target="f"')


def _call(body: Body) -> None:
    if body.depth > 2:
        return
    random, several = body.random, [body.any() for _ in range(body.random.randrange(1, 4))]
    arguments = ", ".join(value.name for value in several)
    kind = random.choice(("fusion", "fusion", "fusion", "fusion", "call", "while", "conditional", "async-start"))
    name, root = body.program.callee(several[:1] if kind in ("while", "conditional") else several, body.depth)
    made = Made("", root.shape, root.sizes, root.elements)
    if kind == "fusion" and "(" in root.shape[1:]:
        kind = "call"  # what XLA says of fusions with nested tuples depends on chance
    match kind:
        case "fusion":
            word = random.choice(("kLoop", "kLoop", "kInput", "kCustom"))
            body.write(made, f"fusion({arguments}), kind={word}, calls={name}")
        case "call":
            body.write(made, f"call({arguments}), to_apply={name}")
        case "while":
            condition, _ = body.program.callee(several[:1], body.depth)
            body.write(made, f"while({several[0].name}), condition={condition}, body={name}")
        case "conditional":
            other, _ = body.program.callee(several[:1], body.depth)
            which = f"{body.scalar()}, {several[0].name}, {several[0].name}"
            body.write(made, f"conditional({which}), branch_computations={{{name}, {other}}}")
        case _:
            operands = f"({', '.join(value.shape for value in several)})"
            body.write(Made("", f"({operands}, {root.shape}, s32[])"), f"async-start({arguments}), calls={name}")


KINDS: Sequence[Callable[[Body], None]] = (
    *(_elementwise, _elementwise, _elementwise, _slice, _dynamic_slice, _dynamic_update_slice, _spread, _transpose),
    *(_constant, _reduce, _sort, _take, _take, _custom_call, _call, _call, _call),
)
