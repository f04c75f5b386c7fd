"""What tests are fed: the dumps in `fixtures/`, and layouts, shapes and whole modules made up by hypothesis.

A made-up module is a `Model`, which knows its canonical text and any number of other spellings of the same.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from hlo_cli.ir.attributes.value_types import ArrayLiteral
from hlo_cli.ir.layout import COMBINE, FLOAT_FORMATS, PRIMITIVE_TYPES, Layout, PrimitiveType, SplitConfig, Tile
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    OpaqueShape,
    Shape,
    TokenShape,
    TupleShape,
    annotate_indices,
)
from hlo_cli.syntax.literal_reading import PackedValues
from hlo_cli.syntax.scanning.shape_reader import parse_shape

_T = TypeVar("_T")

FIXTURES = Path(__file__).parent.parent / "fixtures"


@cache
def dumps() -> tuple[Path, ...]:
    """Every file in `fixtures/` that holds a module as text."""
    files = sorted(
        f
        for p in ("tpu", "gpu", "cpu")
        for f in FIXTURES.glob(f"{p}/*/*")
        if f.name.endswith((".txt", ".txt.gz", ".hlo"))
    )
    return tuple(f for f in files if dump_text(f).startswith("HloModule "))


@cache
def dump_text(path: Path) -> str:
    """The text of a file, compressed or not, with its line breaks as they are."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def name_of(path: Path) -> str:
    """A file in `fixtures/` as tests call it."""
    return path.relative_to(FIXTURES).as_posix()


# Layouts and shapes. They are made by a `Random`: hypothesis, choosing every field itself, takes a hundred times as long.

seeds = st.integers(0, 2**32)
_SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 100, 128, 300, 4096, 2**31)
_TILE_SIZES = (1, 2, 3, 4, 8, 16, 32, 128, 256, 1024)
_UNSIGNED = tuple(PRIMITIVE_TYPES[name] for name in ("u8", "u16", "u32", "u64"))
TYPES = tuple(PRIMITIVE_TYPES.values())


def a_tile(random: Random, longest: int = 4, sizes: Sequence[int] = _TILE_SIZES) -> Tile:
    """A tile that no layout is refused for: it does not end in `*`."""
    front = random.choices((*sizes, COMBINE, COMBINE), k=random.randrange(longest))
    return Tile((*front, random.choice(sizes)))


def a_layout(random: Random, sizes: Sequence[int]) -> Layout:
    """A valid layout of an array of these sizes; each field is there once in a while."""

    def maybe(default: _T, *others: _T) -> _T:
        return random.choice(others) if random.random() < 0.3 else default

    order = tuple(random.sample(range(len(sizes)), len(sizes)))
    return Layout(
        order,
        tuple(a_tile(random) for _ in range(maybe(0, 1, 2, 3))),
        tail_padding_alignment_in_elements=maybe(1, 2, 100, 1024),
        index_primitive_type=maybe(None, *_UNSIGNED),
        pointer_primitive_type=maybe(None, *_UNSIGNED),
        element_size_in_bits=maybe(0, 1, 2, 4, 8, 32),
        memory_space=maybe(0, 1, 5, 127),
        split_configs=maybe((), _splits(random, [sizes[d] for d in reversed(order)])),
        dynamic_shape_metadata_prefix_bytes=maybe(0, 16, 1024),
    )


def _splits(random: Random, physical: Sequence[int]) -> tuple[SplitConfig, ...]:
    """Some physical dimensions with split points that rise within them."""
    able = [d for d, size in enumerate(physical) if size > 1]
    chosen = random.sample(able, min(len(able), random.randrange(3)))
    return tuple(SplitConfig(d, tuple(sorted({random.randrange(1, physical[d]) for _ in range(3)}))) for d in chosen)


def an_array(random: Random, rank: int) -> ArrayShape:
    """An array of any type and layout, with bounded and unbounded dynamic dimensions."""
    sizes = random.choices(_SIZES, k=rank)
    layout = a_layout(random, sizes)
    dynamic = tuple(random.random() < 0.2 for _ in sizes)
    unbounded = not layout.split_configs and random.random() < 0.3
    dimensions = tuple(UNBOUNDED if d and unbounded else size for d, size in zip(dynamic, sizes, strict=True))
    return ArrayShape(random.choice(TYPES), dimensions, dynamic, layout)


def a_shape(random: Random, size: int) -> Shape:
    """Any shape; `size` bounds the rank, the nesting and the number of elements."""
    kind = random.randrange(10)
    if kind == 0:
        return random.choice((TokenShape(), OpaqueShape()))
    if kind == 1:
        return BufferShape(an_array(random, random.randrange(size + 1)))
    if kind < 5 and size:
        return TupleShape(tuple(a_shape(random, size - 1) for _ in range(random.randrange(size + 4))))
    return an_array(random, random.randrange(size + 1))


shapes: st.SearchStrategy[Shape] = st.builds(lambda seed, size: a_shape(Random(seed), size), seeds, st.integers(0, 4))


# Literals


def a_literal(random: Random, element_type: PrimitiveType) -> ArrayLiteral:
    """Values of a type that a text can hold, as any bits, in any small array and order of dimensions."""
    rank = random.choice((0, 1, 1, 2, 2, 3, 4, 5))
    sizes = tuple(random.choice((0, 1, 1, 2, 3, 4) if rank > 1 else (0, 1, 2, 9, 10, 11, 40)) for _ in range(rank))
    shape = ArrayShape(
        element_type, sizes, (False,) * rank, Layout(tuple(random.sample(range(rank), rank)), (a_tile(random),))
    )
    parts, width = (2, element_type.bits // 2) if element_type.kind == "complex" else (1, element_type.bits)
    elements = [_bits(random, element_type, width) for _ in range(parts * prod(sizes))]
    data = b"".join(bits.to_bytes((width + 7) // 8, "little") for bits in elements)
    return ArrayLiteral(shape, PackedValues(data))


def _bits(random: Random, element_type: PrimitiveType, width: int) -> int:
    """Any bits, often few or many of them set; complex numbers have no NaN, whose payload XLA does not read."""
    bits = random.choice((random.getrandbits(width), random.getrandbits(3), -1 - random.getrandbits(3))) % (1 << width)
    if element_type.kind != "complex":
        return bits
    form = FLOAT_FORMATS[f"f{width}"]
    return bits if bits & ~form.sign <= form.nan(0) else bits & ~form.nan(0)


def spelled_literal(text: str, random: Random) -> str:
    """The text of a literal as somebody else might have written it, with commas and spaces wherever XLA takes them."""
    tokens = re.findall(r"/\*.*?\*/|\([^()]*,[^()]*\)|[{},]|[^\s{},]+", text)
    return "".join(
        f"{random.choice((',', ' ', ', ,', _gap(random) or ' ')) if token == ',' else token}{_gap(random, rarely=True)}"
        for token in tokens
    )


def spaced(text: str, random: Random) -> str:
    """A shape's text with white space and comments between its tokens, wherever XLA takes them."""
    tokens = re.findall(r"/\*.*?\*/|-?[0-9]+|[A-Za-z]+[A-Za-z0-9]*|<=|.", text, re.DOTALL)
    return "".join(token + _gap(random, rarely=True) for token in tokens)


# Modules


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand by name, with the element that is taken of it."""

    op: Op
    elements: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One instruction; the bodies of an attribute stand in place of its text."""

    name: str
    shape: Shape
    opcode: str
    operands: tuple[Operand, ...] = ()
    argument: str = ""
    attributes: tuple[tuple[str, str | tuple[Body, ...]], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A computation. `root` is not always the last of `ops`."""

    name: str
    ops: tuple[Op, ...]
    root: Op
    thread: str = "main"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A module: bodies stand before those that call them, the entry last."""

    name: str
    header: tuple[str, ...]
    bodies: tuple[Body, ...]

    def canonical(self) -> str:
        """The text as XLA prints it into a dump."""
        head = ", ".join((f"HloModule {self.name}", *self.header))
        return head + "\n\n" + "".join(_canonical_body(b, is_entry=b is self.bodies[-1]) + "\n\n" for b in self.bodies)

    def spelled(self, seed: int) -> str:
        """Another text of the same module: odd spacing, comments, with or without %, bodies written in place."""
        return _Spelling(Random(seed)).module(self)


def _canonical_body(body: Body, *, is_entry: bool) -> str:
    parameters = ", ".join(f"{o.name}: {o.shape.to_string(layout=False)}" for o in body.ops if o.opcode == "parameter")
    head = f"{'ENTRY ' * is_entry}%{body.name} ({parameters}) -> {body.root.shape.to_string(layout=False)} {{"
    lines = [f"  {'ROOT ' * (op is body.root)}{_canonical_op(op)}" for op in body.ops]
    return "\n".join([head, *lines, "}" + (f', execution_thread="{body.thread}"' if body.thread != "main" else "")])


def _canonical_op(op: Op) -> str:
    operands = op.argument or annotate_indices([f"%{o.op.name}{_elements(o)}" for o in op.operands])
    attributes = "".join(f", {name}={_names(name, value)}" for name, value in op.attributes)
    return f"%{op.name} = {op.shape} {op.opcode}({operands}){attributes}"


def _elements(operand: Operand) -> str:
    return "".join(f"#{i}" for i in operand.elements)


def _names(attribute: str, value: str | tuple[Body, ...]) -> str:
    if isinstance(value, str):
        return value
    names = ", ".join(f"%{body.name}" for body in value)
    return f"{{{names}}}" if attribute in ("branch_computations", "called_computations") else names


_RESERVED = {*PRIMITIVE_TYPES, *"token opaque true false inf nan ROOT ENTRY manual replicated maximal b".split()}
_GAPS = ("  ", "\t", "\n", "\n\n    ", " /* not \"closed' { ( */ ", "/**/", " // ROOT x = } \n", "/* * / ** */\n")


def _gap(random: Random, *, rarely: bool = False) -> str:
    """Nothing, or what XLA takes between two tokens."""
    return random.choice(_GAPS) if random.random() < (0.05 if rarely else 0.2) else ""


@dataclass
class _Spelling:
    """Writes a module as somebody else might have; bodies called once may stand where they are called."""

    random: Random
    in_place: set[int] = field(default_factory=set)

    def module(self, model: Model) -> str:
        called = [
            id(b)
            for body in model.bodies
            for op in body.ops
            for _, v in op.attributes
            if not isinstance(v, str)
            for b in v
        ]
        alone = {id(b) for b in model.bodies if called.count(id(b)) == 1 and b.thread == "main"}
        self.in_place = {b for b in sorted(alone) if self.random.random() < 0.3}
        header = f"HloModule {self.some()}" + f"{self.some()},{self.some()}".join((model.name, *model.header))
        outside = [body for body in model.bodies if id(body) not in self.in_place]
        texts = [self.body(body, is_entry=body is model.bodies[-1]) for body in outside]
        return self.some() + header + "\n" + "".join(f"{text}{self.between()}" for text in texts)

    def some(self) -> str:
        return _gap(self.random, rarely=True)

    def between(self) -> str:
        return _gap(self.random) or " "

    def name(self, name: str, *, percent: bool | None = None) -> str:
        if percent is None:
            percent = self.random.random() < 0.7 or name in _RESERVED
        return f"%{name}" if percent else name

    def body(self, body: Body, *, is_entry: bool) -> str:
        signature = ""
        if self.random.random() < 0.5:
            listed = [f"{o.name}:{self.between()}{self.shape(o.shape)}" for o in body.ops if o.opcode == "parameter"]
            signature = (
                f"({f',{self.between()}'.join(listed)}){self.between()}->{self.between()}{self.shape(body.root.shape)}"
            )
        head = ("ENTRY " if is_entry else "") + self.name(body.name) + self.between() + signature + self.between()
        thread = f',{self.some()}execution_thread={self.some()}"{body.thread}"' if body.thread != "main" else ""
        return head + self.block(body) + thread

    def block(self, body: Body) -> str:
        rows = self.random.random() < 0.5
        ops = [("ROOT" + self.between() if op is body.root else "") + self.op(op) for op in body.ops]
        return "{" + "".join(("\n  " if rows else self.between()) + op for op in ops) + self.between() + "}"

    def op(self, op: Op) -> str:
        operands = op.argument or f"{self.some()},{self.between()}".join(map(self.operand, op.operands))
        attributes = "".join(
            f"{self.some()},{self.between()}{name}={self.some()}{self.value(name, v)}" for name, v in op.attributes
        )
        return f"{self.name(op.name)}{self.between()}={self.between()}{self.shape(op.shape, whole=True)}{self.between()}{op.opcode}{self.some()}({operands}){attributes}"

    def operand(self, operand: Operand) -> str:
        shown = not operand.elements and self.random.random() < 0.3
        shape = self.shape(operand.op.shape) + self.between() if shown else ""
        return shape + self.name(operand.op.name) + _elements(operand)

    def shape(self, shape: Shape, *, whole: bool = False) -> str:
        text = shape.to_string(layout=whole or self.random.random() < 0.5)
        return spaced(text, self.random) if self.random.random() < 0.1 else text

    def value(self, name: str, value: str | tuple[Body, ...]) -> str:
        if isinstance(value, str):
            return value
        several = name in ("branch_computations", "called_computations")
        listed = f",{self.between()}".join(
            self.block(b) if id(b) in self.in_place else self.name(b.name) for b in value
        )
        return f"{{{self.some()}{listed}{self.some()}}}" if several else listed


_POOL: tuple[Shape, ...] = tuple(
    parse_shape(text)
    for text in (
        "f32[]", "pred[]", "s32[]", "bf16[]{:T(256)}", "f32[4]{0}", "f32[4,5]{1,0}", "f32[4,5]{0,1:T(8,128)}",
        "bf16[300,70]{1,0:T(8,128)(2,1)}", "s4[8,8]{1,0:T(8,128)(8,1)E(4)S(1)}", "u8[0]{0}", "c64[2,3,4]{0,2,1}",
        "f32[16]{0:T(1)L(128)S(4)}", "f8e4m3fn[2,2,2,2]{3,1,2,0:T(*,8,128)S(5)}", "s32[7]{0:SC(0:3)M(1024)}",
        "(f32[4]{0}, s32[])", "(f32[], f32[], f32[], f32[], f32[], s32[3]{0}, f32[])", "()", "((f32[]), ())",
        "(pred[], token[])",
    )
)  # fmt: skip
_F32, _PRED, _S32 = _POOL[:3]
_WITH_ARGUMENT: tuple[tuple[str, str], ...] = (
    ("f32[]", "1.5"), ("f32[]", "-inf"), ("f32[]", "nan"), ("pred[]", "true"), ("s32[]", "-7"), ("c64[]", "(1, -2)"),
    ("s32[3]{0}", "{1, 2, 3}"), ("f32[2,2]{1,0}", "{ { 1, 2 }, { 3, 4.5 } }"), ("f32[40]{0}", "{...}"), ("f32[0]{0}", "{}"),
)  # fmt: skip
_UNARY = ("negate", "abs", "exponential", "copy", "log-plus-one", "round-nearest-even")
_BINARY = ("add", "multiply", "maximum", "power")
_STEMS = (
    "x",
    "fusion",
    "add",
    "w_1",
    "a-b",
    "Tensor",
    "_p",
    "param.0",
    "f32",
    "true",
    "ROOT",
    "nan",
    "body",
    "ENTRY",
    "calls",
)
_ODD = "ab/ \\\"'\n\t{}()[],=%é☃\x1b\x7f*#:;"


def quoted(text: str) -> str:
    """A string as XLA prints it: C escapes, bytes beyond ASCII in octal.

    >>> print(quoted("a'é"))
    "a\\'\\303\\251"
    """
    simple = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return '"' + "".join(simple.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'


class _Maker:
    """Makes one module of about `size` instructions a computation; every name in it is used once.

    Only `size` shrinks.
    """

    def __init__(self, random: Random, size: int, *, elements: bool) -> None:
        self.random = random
        self.size = size
        self.elements = elements
        self.names: set[str] = set()
        self.bodies: list[Body] = []

    def model(self) -> Model:
        self.body(self.random.choices(_POOL, k=self.random.randrange(4)), depth=0)
        headers = ((), ("is_scheduled=true",), ("replica_count=2", "num_partitions=4"))
        return Model(self.name("m"), self.random.choice(headers), tuple(self.bodies))

    def rarely(self, one_in: int = 6) -> bool:
        return self.random.randrange(one_in) == 0

    def name(self, stem: str = "") -> str:
        """A name that is not used yet; a stem that is a keyword gets a number, as in XLA."""
        stem = stem or self.random.choice(_STEMS)
        number = 1 if stem in _RESERVED else 0
        name = f"{stem}.{number}" if number else stem
        while name in self.names:
            number += 1
            name = f"{stem}.{number}"
        self.names.add(name)
        return name

    def text(self) -> str:
        return quoted("".join(self.random.choices(_ODD, k=self.random.randrange(12))))

    def body(self, parameters: Iterable[Shape], depth: int, result: Shape | None = None) -> Body:
        """A new body with these parameters and, if it is given, this shape of result."""
        name = self.name()
        ops = [Op(self.name(), shape, "parameter", argument=str(i)) for i, shape in enumerate(parameters)]
        for _ in range(self.random.randrange(0 if ops else 1, self.size + 2)):
            ops.append(self.dressed(self.op(ops, depth), ops))
        if result is not None and ops[-1].shape != result:
            ops.append(self.custom_call(ops, result))
        root = ops[-1] if result is not None else self.random.choice(ops)
        body = Body(name, tuple(ops), root)
        self.bodies.append(body)
        return body

    def op(self, ops: Sequence[Op], depth: int) -> Op:
        makers: list[Callable[[Sequence[Op]], Op]] = [self.constant, self.custom_call]
        if ops:
            makers += [self.elementwise, self.elementwise, self.tuple]
        if any(_elements_of(op) for op in ops):
            makers += [self.element, self.element]
        made = self.random.choice(makers)
        if ops and depth < 2 and self.rarely(3):
            calling = (self.fusion, self.reduce, self.while_loop, self.conditional, self.call)
            return self.random.choice(calling)(ops, depth + 1)
        return made(ops)

    def operand(self, ops: Sequence[Op]) -> Operand:
        op = self.random.choice(ops)
        if self.elements and _elements_of(op) and self.rarely(2):
            return Operand(op, (self.random.randrange(len(_elements_of(op))),))
        return Operand(op)

    def some(self, ops: Sequence[Op], most: int) -> list[Op]:
        return self.random.choices(ops, k=self.random.randrange(most + 1)) if ops else []

    def constant(self, ops: Sequence[Op]) -> Op:
        shape, literal = self.random.choice(_WITH_ARGUMENT)
        return Op(self.name(), parse_shape(shape), "constant", argument=literal)

    def custom_call(self, ops: Sequence[Op], shape: Shape | None = None) -> Op:
        operands = tuple(self.operand(ops) for _ in self.some(ops, 7))
        shape = shape or self.random.choice((*_POOL, TokenShape(), OpaqueShape()))
        return Op(self.name(), shape, "custom-call", operands, attributes=(("custom_call_target", self.text()),))

    def elementwise(self, ops: Sequence[Op]) -> Op:
        op = self.random.choice(ops)
        if not isinstance(op.shape, ArrayShape):
            return Op(self.name(), op.shape, "opt-barrier", (Operand(op),))
        if self.rarely(2):
            return Op(self.name(), op.shape, self.random.choice(_UNARY), (Operand(op),))
        other = self.random.choice([other for other in ops if other.shape == op.shape])
        return Op(self.name(), op.shape, self.random.choice(_BINARY), (Operand(op), Operand(other)))

    def tuple(self, ops: Sequence[Op]) -> Op:
        chosen = self.some(ops, 7)
        return Op(self.name(), TupleShape(tuple(op.shape for op in chosen)), "tuple", tuple(map(Operand, chosen)))

    def element(self, ops: Sequence[Op]) -> Op:
        op = self.random.choice([op for op in ops if _elements_of(op)])
        index = self.random.randrange(len(_elements_of(op)))
        attributes = (("index", str(index)),)
        return Op(self.name(), _elements_of(op)[index], "get-tuple-element", (Operand(op),), attributes=attributes)

    def fusion(self, ops: Sequence[Op], depth: int) -> Op:
        chosen = self.some(ops, 3)
        body = self.body([op.shape for op in chosen], depth)
        kind = self.random.choice(("kLoop", "kInput", "kOutput", "kCustom"))
        operands = tuple(map(Operand, chosen))
        return Op(self.name(), body.root.shape, "fusion", operands, attributes=(("kind", kind), ("calls", (body,))))

    def call(self, ops: Sequence[Op], depth: int) -> Op:
        chosen = self.some(ops, 3)
        body = self.body([op.shape for op in chosen], depth)
        return Op(
            self.name(), body.root.shape, "call", tuple(map(Operand, chosen)), attributes=(("to_apply", (body,)),)
        )

    def reduce(self, ops: Sequence[Op], depth: int) -> Op:
        flat = [op for op in ops if isinstance(op.shape, ArrayShape) and not op.shape.dimensions]
        if not flat:
            return self.fusion(ops, depth)
        op = self.random.choice(flat)
        body = self.body([op.shape, op.shape], depth, op.shape)
        operands = (Operand(op), Operand(op))
        return Op(self.name(), op.shape, "reduce", operands, attributes=(("dimensions", "{}"), ("to_apply", (body,))))

    def while_loop(self, ops: Sequence[Op], depth: int) -> Op:
        op = self.random.choice(ops)
        condition, body = self.body([op.shape], depth, _PRED), self.body([op.shape], depth, op.shape)
        attributes = (("condition", (condition,)), ("body", (body,)))
        return Op(self.name(), op.shape, "while", (Operand(op),), attributes=attributes)

    def conditional(self, ops: Sequence[Op], depth: int) -> Op:
        op, which = self.random.choice(ops), next((o for o in ops if o.shape in (_PRED, _S32)), None)
        if which is None:
            return self.call(ops, depth)
        first, second = (self.body([op.shape], depth, op.shape) for _ in range(2))
        attributes: tuple[tuple[str, tuple[Body, ...]], ...] = (("branch_computations", (first, second)),)
        if which.shape == _PRED:
            attributes = (("true_computation", (first,)), ("false_computation", (second,)))
        return Op(
            self.name(), op.shape, "conditional", (Operand(which), Operand(op), Operand(op)), attributes=attributes
        )

    def dressed(self, op: Op, ops: Sequence[Op]) -> Op:
        """The instruction with attributes that any may have."""
        more: list[tuple[str, str]] = []
        choice = self.random.choice
        if self.rarely() and not isinstance(op.shape, TupleShape):
            more.append(("sharding", choice(("{replicated}", "{maximal device=0}", "{manual}"))))
        if self.rarely():
            value = choice((self.text(), '{"a": {"b": [1, "}"]}}', '{"a":\n  "b  c"\n}'))
            more.append(("frontend_attributes", f"{{k={value}}}"))
        if ops and self.rarely():
            more.append(
                ("control-predecessors", "{" + ", ".join(f"%{o.name}" for o in {*self.some(ops, 3), ops[0]}) + "}")
            )
        if self.rarely(2):
            name, file, line = self.text(), self.text(), self.random.randrange(1, 10**6)
            more.append(("metadata", f'{{op_name="x{name[1:]} source_file="y{file[1:]} source_line={line}}}'))
        if self.rarely():
            more.append(("backend_config", choice(('{"a":{"b":[1,2]},"c":"}{"}', quoted("x{\n'")))))
        return replace(op, attributes=(*op.attributes, *more))


def _elements_of(op: Op) -> tuple[Shape, ...]:
    return op.shape.elements if isinstance(op.shape, TupleShape) else ()


def models(*, elements: bool = True) -> st.SearchStrategy[Model]:
    """Whole modules, valid by construction; without `elements` none is taken of a tuple by `%t#0`."""
    return st.builds(lambda size, seed: _Maker(Random(seed), size, elements=elements).model(), st.integers(0, 8), seeds)


# The same module?

Structure = tuple[object, ...]


def structure(module: Module) -> Structure:
    """All that a module says, less the names of computations: two spellings of one module have equal structures."""
    names = {c.name for c in module.computations}
    seen: dict[int, int] = {}

    def of(name: str) -> Structure:
        computation = module.computation(name)
        if id(computation) in seen:
            return ("again", seen[id(computation)])
        seen[id(computation)] = len(seen)
        rows = tuple(
            (
                i.name, i.opcode, str(i.shape), i.text.argument,
                tuple(o.index for o in i.operands), computation.operand_indices.get(i.index, ()),
                tuple((a.name, _nameless(a.value, names)) for a in i.attributes),
                tuple(of(c.name) for c in i.called_computations),
            )
            for i in computation.instructions
        )  # fmt: skip
        root = computation.root.index if computation.root else None
        return (
            rows,
            root,
            tuple(p.index for p in computation.parameters),
            computation.execution_thread,
            computation.is_entry,
        )

    header = tuple(map(str, module.header))
    return module.name, header, module.is_scheduled, of(module.entry.name), len(module.computations)


def _nameless(value: str, computations: set[str]) -> str:
    """An attribute's text; where it names computations, only how many."""
    names = re.findall(r"[A-Za-z_][A-Za-z0-9_.\-]*", value)
    if names and computations.issuperset(names) and re.fullmatch(r"[\s{},%A-Za-z0-9_.\-]*", value):
        return f"{len(names)} computations"
    return value.replace("%", "")
