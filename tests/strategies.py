"""What tests are fed: the dumps in `fixtures/`, and layouts, shapes and whole modules made up by hypothesis.

A made-up module is a `Model`, which knows its canonical text and any number of other spellings of the same.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from hlo_cli.ir.layout import COMBINE, Layout, SplitConfig, Tile
from hlo_cli.ir.module import Module
from hlo_cli.ir.primitive import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    OpaqueShape,
    Shape,
    TokenShape,
    TupleShape,
    with_index_marks,
)

FIXTURES = Path(__file__).parent.parent / "fixtures"


@cache
def dumps() -> tuple[Path, ...]:
    """Every file in `fixtures/` that holds a module as text."""
    files = sorted(f for f in FIXTURES.glob("*/*/*") if f.name.endswith((".txt", ".txt.gz", ".hlo")))
    return tuple(f for f in files if dump_text(f).startswith("HloModule "))


@cache
def dump_text(path: Path) -> str:
    """The text of a file, compressed or not, with its line breaks as they are."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def name_of(path: Path) -> str:
    """A file in `fixtures/` as tests call it."""
    return path.relative_to(FIXTURES).as_posix()


# Layouts and shapes

types = st.sampled_from(sorted(PRIMITIVE_TYPES.values(), key=str))
_unsigned = st.sampled_from([PRIMITIVE_TYPES[name] for name in ("u8", "u16", "u32", "u64")])
_tile_sizes = st.sampled_from((1, 2, 3, 4, 8, 16, 32, 128, 256, 1024))


@st.composite
def tiles(draw: st.DrawFn, longest: int = 4) -> Tile:
    """A tile that no layout is refused for: it does not end in `*`."""
    front = draw(st.lists(st.one_of(_tile_sizes, st.just(COMBINE)), max_size=longest - 1))
    return Tile((*front, draw(_tile_sizes)))


@st.composite
def layouts(draw: st.DrawFn, sizes: Sequence[int], *, every_field: bool = True) -> Layout:
    """A valid layout for an array of these sizes; without `every_field` no more than order, tiles, L, E and S."""
    order = tuple(draw(st.permutations(range(len(sizes)))))
    plain = Layout(
        order,
        tuple(draw(st.lists(tiles(), max_size=3))),
        tail_padding_alignment_in_elements=draw(st.sampled_from((1, 1, 2, 100, 1024))),
        element_size_in_bits=draw(st.sampled_from((0, 0, 1, 2, 4, 8, 32))),
        memory_space=draw(st.sampled_from((0, 0, 1, 5, 127))),
    )
    if not every_field:
        return plain
    return replace(
        plain,
        index_primitive_type=draw(st.none() | _unsigned),
        pointer_primitive_type=draw(st.none() | _unsigned),
        split_configs=draw(_splits([sizes[d] for d in reversed(order)])),
        dynamic_shape_metadata_prefix_bytes=draw(st.sampled_from((0, 0, 16, 1024))),
    )


@st.composite
def _splits(draw: st.DrawFn, physical: Sequence[int]) -> tuple[SplitConfig, ...]:
    """Some physical dimensions with split points that rise within them."""
    able = [d for d, size in enumerate(physical) if size > 1]
    chosen = draw(st.lists(st.sampled_from(able), unique=True, max_size=2)) if able else []
    points = [draw(st.lists(st.integers(1, physical[d] - 1), unique=True, min_size=1, max_size=3)) for d in chosen]
    return tuple(SplitConfig(d, tuple(sorted(at))) for d, at in zip(chosen, points, strict=True))


sizes_of_arrays = st.lists(
    st.one_of(st.integers(0, 9), st.sampled_from((16, 100, 128, 300, 4096, 2**31))), max_size=5
).map(tuple)


@st.composite
def arrays(
    draw: st.DrawFn, *, every_field: bool = True, dynamic: bool = True, kind: PrimitiveType | None = None
) -> ArrayShape:
    """An array of any type and layout, with bounded and unbounded dynamic dimensions."""
    sizes = draw(sizes_of_arrays)
    layout = draw(layouts(sizes, every_field=every_field))
    marks = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))) if dynamic else [False] * len(sizes)
    dims = list(sizes)
    for i, mark in enumerate(marks):
        if mark and not layout.split_configs and draw(st.integers(0, 3)) == 0:
            dims[i] = UNBOUNDED
    return ArrayShape(kind or draw(types), tuple(dims), tuple(marks), layout)


_leaves = st.one_of(arrays(), arrays(), st.just(TokenShape()), st.just(OpaqueShape()), arrays().map(BufferShape))
shapes: st.SearchStrategy[Shape] = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=7).map(lambda elements: TupleShape(tuple(elements))), max_leaves=12
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
    operands = op.argument or with_index_marks([f"%{o.op.name}{_elements(o)}" for o in op.operands])
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


_words = st.from_regex(r"[a-z_][a-zA-Z0-9_.\-]{0,12}", fullmatch=True).filter(
    lambda word: word not in _RESERVED and not word.startswith("__")
)
_odd_texts = st.text(st.sampled_from("ab/ \\\"'\n\t{}()[],=%é☃\x1b\x7f*#:;"), max_size=12)
_F32 = ArrayShape(PRIMITIVE_TYPES["f32"], (), (), Layout(()))
_PRED = replace(_F32, element_type=PRIMITIVE_TYPES["pred"])
_S32 = replace(_F32, element_type=PRIMITIVE_TYPES["s32"])
_UNARY = ("negate", "abs", "exponential", "copy", "log-plus-one", "round-nearest-even")
_BINARY = ("add", "multiply", "maximum", "power")


def quoted(text: str) -> str:
    """A string as XLA prints it: C escapes, bytes beyond ASCII in octal.

    >>> quoted("a\\"é")
    '"a\\\\"\\\\303\\\\251"'
    """
    simple = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return '"' + "".join(simple.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'


class _Maker:
    """Draws one module; every name in it is used once."""

    def __init__(self, draw: st.DrawFn, *, elements: bool) -> None:
        self.draw = draw
        self.elements = elements
        self.names: set[str] = set()
        self.bodies: list[Body] = []

    def model(self) -> Model:
        name = self.name()
        self.body(self.draw(st.lists(self.operand_shapes(), max_size=3)), depth=0)
        header = self.draw(st.sampled_from(((), ("is_scheduled=true",), ("replica_count=2", "num_partitions=4"))))
        return Model(name, header, tuple(self.bodies))

    def operand_shapes(self) -> st.SearchStrategy[Shape]:
        array = arrays(every_field=False, dynamic=False)
        pair = st.lists(array, max_size=7).map(lambda elements: TupleShape(tuple(elements)))
        return st.one_of(array, array, pair)

    def name(self) -> str:
        word = self.draw(_words)
        name, number = word, 0
        while name in self.names:
            number += 1
            name = f"{word}.{number}"
        self.names.add(name)
        return name

    def body(self, parameters: Iterable[Shape], depth: int, result: Shape | None = None) -> Body:
        """A new body with these parameters and, if it is given, this shape of result."""
        name = self.name()
        ops = [Op(self.name(), shape, "parameter", argument=str(i)) for i, shape in enumerate(parameters)]
        for _ in range(self.draw(st.integers(0 if ops else 1, 5))):
            ops.append(self.dressed(self.op(ops, depth), ops))
        if result is not None and ops[-1].shape != result:
            ops.append(self.custom_call(ops, result))
        thread = "main" if depth or not self.draw(st.booleans()) else "main"
        root = ops[-1] if result is not None else self.draw(st.sampled_from(ops))
        self.bodies.append(Body(name, tuple(ops), root, thread))
        return self.bodies[-1]

    def op(self, ops: Sequence[Op], depth: int) -> Op:
        makers = [self.constant, self.custom_call]
        if ops:
            makers += [self.elementwise, self.tuple, self.tuple]
        if any(isinstance(op.shape, TupleShape) and op.shape.elements for op in ops):
            makers += [self.element, self.element]
        if ops and depth < 2:
            calling = (self.fusion, self.reduce, self.while_loop, self.conditional, self.call)
            makers += [lambda ops, make=make: make(ops, depth + 1) for make in calling]
        return self.draw(st.sampled_from(makers))(ops)

    def operand(self, ops: Sequence[Op]) -> Operand:
        op = self.draw(st.sampled_from(ops))
        if self.elements and isinstance(op.shape, TupleShape) and op.shape.elements and self.draw(st.booleans()):
            return Operand(op, (self.draw(st.integers(0, len(op.shape.elements) - 1)),))
        return Operand(op)

    def constant(self, ops: Sequence[Op]) -> Op:
        vector = replace(_S32, dimensions=(3,), dynamic_dimensions=(False,), layout=Layout((0,)))
        matrix = replace(_F32, dimensions=(2, 2), dynamic_dimensions=(False,) * 2, layout=Layout((1, 0)))
        large = replace(_F32, dimensions=(40,), dynamic_dimensions=(False,), layout=Layout((0,)))
        choices: tuple[tuple[Shape, str], ...] = (
            (_F32, "1.5"), (_F32, "-inf"), (_F32, "nan"), (_PRED, "true"), (_S32, "-7"), (vector, "{1, 2, 3}"),
            (matrix, "{ { 1, 2 }, { 3, 4.5 } }"), (large, "{...}"),
        )  # fmt: skip
        shape, literal = self.draw(st.sampled_from(choices))
        return Op(self.name(), shape, "constant", argument=literal)

    def custom_call(self, ops: Sequence[Op], shape: Shape | None = None) -> Op:
        operands = tuple(self.operand(ops) for _ in range(self.draw(st.integers(0, 7)))) if ops else ()
        shape = shape or self.draw(st.one_of(self.operand_shapes(), st.just(TokenShape()), st.just(OpaqueShape())))
        target = ("custom_call_target", quoted(self.draw(_odd_texts)))
        return Op(self.name(), shape, "custom-call", operands, attributes=(target,))

    def elementwise(self, ops: Sequence[Op]) -> Op:
        op = self.draw(st.sampled_from(ops))
        if not isinstance(op.shape, ArrayShape):
            return Op(self.name(), op.shape, "opt-barrier", (Operand(op),))
        alike = [Operand(other) for other in ops if other.shape == op.shape]
        if self.draw(st.booleans()):
            return Op(self.name(), op.shape, self.draw(st.sampled_from(_UNARY)), (Operand(op),))
        return Op(
            self.name(), op.shape, self.draw(st.sampled_from(_BINARY)), (Operand(op), self.draw(st.sampled_from(alike)))
        )

    def tuple(self, ops: Sequence[Op]) -> Op:
        chosen = self.draw(st.lists(st.sampled_from(ops), max_size=7))
        return Op(self.name(), TupleShape(tuple(op.shape for op in chosen)), "tuple", tuple(map(Operand, chosen)))

    def element(self, ops: Sequence[Op]) -> Op:
        op = self.draw(st.sampled_from([o for o in ops if isinstance(o.shape, TupleShape) and o.shape.elements]))
        assert isinstance(op.shape, TupleShape)
        index = self.draw(st.integers(0, len(op.shape.elements) - 1))
        attributes = (("index", str(index)),)
        return Op(self.name(), op.shape.elements[index], "get-tuple-element", (Operand(op),), attributes=attributes)

    def fusion(self, ops: Sequence[Op], depth: int) -> Op:
        chosen = self.draw(st.lists(st.sampled_from(ops), max_size=3))
        body = self.body([op.shape for op in chosen], depth)
        kind = self.draw(st.sampled_from(("kLoop", "kInput", "kOutput", "kCustom")))
        operands = tuple(map(Operand, chosen))
        return Op(self.name(), body.root.shape, "fusion", operands, attributes=(("kind", kind), ("calls", (body,))))

    def call(self, ops: Sequence[Op], depth: int) -> Op:
        chosen = self.draw(st.lists(st.sampled_from(ops), max_size=3))
        body = self.body([op.shape for op in chosen], depth)
        return Op(
            self.name(), body.root.shape, "call", tuple(map(Operand, chosen)), attributes=(("to_apply", (body,)),)
        )

    def reduce(self, ops: Sequence[Op], depth: int) -> Op:
        flat = [op for op in ops if isinstance(op.shape, ArrayShape) and not op.shape.dimensions]
        if not flat:
            return self.fusion(ops, depth)
        op = self.draw(st.sampled_from(flat))
        body = self.body([op.shape, op.shape], depth, op.shape)
        operands = (Operand(op), Operand(op))
        return Op(self.name(), op.shape, "reduce", operands, attributes=(("dimensions", "{}"), ("to_apply", (body,))))

    def while_loop(self, ops: Sequence[Op], depth: int) -> Op:
        op = self.draw(st.sampled_from(ops))
        condition = self.body([op.shape], depth, _PRED)
        body = self.body([op.shape], depth, op.shape)
        attributes = (("condition", (condition,)), ("body", (body,)))
        return Op(self.name(), op.shape, "while", (Operand(op),), attributes=attributes)

    def conditional(self, ops: Sequence[Op], depth: int) -> Op:
        op, which = self.draw(st.sampled_from(ops)), next((o for o in ops if o.shape in (_PRED, _S32)), None)
        if which is None:
            return self.call(ops, depth)
        branches = [self.body([op.shape], depth, op.shape) for _ in range(2)]
        attributes: tuple[tuple[str, tuple[Body, ...]], ...] = (("branch_computations", tuple(branches)),)
        if which.shape == _PRED:
            attributes = (("true_computation", (branches[0],)), ("false_computation", (branches[1],)))
        return Op(
            self.name(), op.shape, "conditional", (Operand(which), Operand(op), Operand(op)), attributes=attributes
        )

    def dressed(self, op: Op, ops: Sequence[Op]) -> Op:
        """The instruction with attributes that any may have."""
        more: list[tuple[str, str]] = []
        draw = self.draw
        if draw(st.integers(0, 5)) == 0 and not isinstance(op.shape, TupleShape):
            more.append(("sharding", draw(st.sampled_from(("{replicated}", "{maximal device=0}", "{manual}")))))
        if draw(st.integers(0, 5)) == 0:
            values = st.one_of(_odd_texts.map(quoted), st.just('{"a": {"b": [1, "}"]}}'))
            more.append(("frontend_attributes", f"{{k={draw(values)}}}"))
        if ops and draw(st.integers(0, 5)) == 0:
            before = draw(st.lists(st.sampled_from(ops), min_size=1, max_size=3, unique=True))
            more.append(("control-predecessors", "{" + ", ".join(f"%{o.name}" for o in before) + "}"))
        if draw(st.integers(0, 2)) == 0:
            name, file = quoted(draw(_odd_texts) + "x"), quoted(draw(_odd_texts) + "y")
            more.append(
                ("metadata", f"{{op_name={name} source_file={file} source_line={draw(st.integers(1, 10**6))}}}")
            )
        if draw(st.integers(0, 5)) == 0:
            more.append(("backend_config", draw(st.sampled_from(('{"a":{"b":[1,2]},"c":"}{"}', quoted("x{\n'"))))))
        return replace(op, attributes=(*op.attributes, *more))


@st.composite
def models(draw: st.DrawFn, *, elements: bool = True) -> Model:
    """A whole module, valid by construction; without `elements` none is taken of a tuple by `%t#0`."""
    return _Maker(draw, elements=elements).model()


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


def ascending(values: Sequence[int]) -> bool:
    """Whether every value is larger than the one before."""
    return all(a < b for a, b in pairwise(values))
