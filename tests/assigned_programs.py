"""Random scheduled modules for asking XLA's buffer assignment, which need compute nothing sensible, nor run at all.

All that decides where values lie comes up: copies, donated arguments, loops in loops, branches, calls, asynchronous
chains, tuples in tuples, and operations in place, within fusions too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

_SIZES = (4, 16, 64, 64, 256, 1000)
_UNARY = ("negate", "sine", "tanh", "abs", "floor", "exponential")
_BINARY = ("add", "multiply", "subtract", "maximum")
_APPLIED = """
plus { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
both { x1 = f32[] parameter(0)  x2 = f32[] parameter(1)  y1 = f32[] parameter(2)  y2 = f32[] parameter(3)
  z1 = f32[] add(x1, y1)  z2 = f32[] multiply(x2, y2)  ROOT z = (f32[], f32[]) tuple(z1, z2) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }
lesser { x = f32[] parameter(0)  y = f32[] parameter(1)  u = f32[] parameter(2)  v = f32[] parameter(3)
  ROOT z = pred[] compare(x, y), direction=LT }
later { x = f32[] parameter(0)  ROOT y = f32[] parameter(1) }
twice { x = f32[] parameter(0)  ROOT y = f32[] add(x, x) }
"""


@dataclass(frozen=True)
class Array:
    """The shape of an array of at most two dimensions."""

    sizes: tuple[int, ...]
    kind: str = "f32"

    def __str__(self) -> str:
        order = ",".join(map(str, reversed(range(len(self.sizes)))))
        return f"{self.kind}[{','.join(map(str, self.sizes))}]" + (f"{{{order}}}" if self.sizes else "")


Shape: TypeAlias = "Array | tuple[Shape, ...]"

SCALAR, INDEX, TRUTH = Array(()), Array((), "s32"), Array((), "pred")


def text_of(shape: Shape) -> str:
    """A shape as XLA writes it."""
    return str(shape) if isinstance(shape, Array) else f"({', '.join(map(text_of, shape))})"


def parts_of(shape: Shape, index: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Shape]]:
    """All parts of a shape, each with its index."""
    below = [] if isinstance(shape, Array) else [p for n, s in enumerate(shape) for p in parts_of(s, (*index, n))]
    return [(index, shape), *below]


class _Body:
    """One computation while it is written; `there` are its values."""

    def __init__(self, module: _Module, depth: int) -> None:
        self.module, self.random, self.depth = module, module.random, depth
        self.lines: list[str] = []
        self.there: dict[str, Shape] = {}
        self.parameters = 0

    def add(self, shape: Shape, operation: str) -> str:
        """One more instruction."""
        name = self.module.name()
        self.lines.append(f"{name} = {text_of(shape)} {operation}")
        self.there[name] = shape
        return name

    def parameter(self, shape: Shape) -> str:
        self.parameters += 1
        return self.add(shape, f"parameter({self.parameters - 1})")

    def any(self, accepts: Callable[[Shape], bool]) -> str | None:
        """A value, the newer the likelier."""
        found = [name for name, shape in self.there.items() if accepts(shape)]
        if not found:
            return None
        return self.random.choice(found[-6:] if self.random.random() < 0.6 else found)

    def vector(self, size: int | None = None) -> str:
        """A vector of floats, made if there is none."""
        name = self.any(
            lambda s: (
                isinstance(s, Array)
                and s.kind == "f32"
                and s.sizes in ((size,), s.sizes[:1])
                and len(s.sizes) == 1
                and size in (None, s.sizes[0])
            )
        )
        return name or self.spread(size or self.random.choice(_SIZES))

    def size(self, name: str) -> int:
        shape = self.there[name]
        assert isinstance(shape, Array)
        return shape.sizes[0]

    def spread(self, size: int) -> str:
        return self.add(Array((size,)), f"broadcast({self.of(SCALAR)}), dimensions={{}}")

    def of(self, shape: Shape) -> str:
        """A value of a shape, made if there is none, or now and then all the same."""
        name = self.any(lambda s: s == shape)
        if name is not None and self.random.random() < 0.8:
            return name
        if not isinstance(shape, Array):
            return self.add(shape, f"tuple({', '.join([self.of(part) for part in shape])})")
        if not shape.sizes:
            value = {"pred": "false", "s32": "1"}.get(shape.kind, "0.5")
            return self.add(shape, f"constant({value})")
        if shape.kind == "f32" and len(shape.sizes) == 1 and self.random.random() < 0.5:
            return self.add(shape, f"{self.random.choice(_UNARY)}({self.vector(shape.sizes[0])})")
        return self.add(shape, f"broadcast({self.of(Array((), shape.kind))}), dimensions={{}}")

    def fill(self, count: int) -> None:
        """More instructions of all kinds."""
        kinds = _PLAIN + (_DEEP if self.depth < 3 else ())
        for _ in range(count):
            self.random.choice(kinds)(self)

    def write(self, head: str, root: str) -> None:
        """Into the module, with one line as the root."""
        lines = [f"  {'ROOT ' if line.startswith(f'{root} = ') else ''}{line}" for line in self.lines]
        self.module.computations.append(f"{head} {{\n" + "\n".join(lines) + "\n}\n")

    def prune(self, root: str) -> list[Shape]:
        """Takes out what the root does not need, as fusions have nothing of it; the shapes of parameters left."""
        needed, kept = {root}, list[str]()
        for line in reversed(self.lines):
            if line.partition(" = ")[0] in needed:
                kept.append(line)
                needed.update(re.findall(r"\bv\d+\b", line))
        self.lines, shapes = [], list[Shape]()
        for line in reversed(kept):
            if " parameter(" in line:
                self.lines.append(re.sub(r"parameter\(\d+\)", f"parameter({len(shapes)})", line))
                shapes.append(self.there[line.partition(" = ")[0]])
            else:
                self.lines.append(line)
        return shapes

    # what computes

    def unary(self) -> None:
        name = self.vector()
        self.add(self.there[name], f"{self.random.choice(_UNARY)}({name})")

    def binary(self) -> None:
        name = self.vector()
        other = name if self.random.random() < 0.2 else self.vector(self.size(name))
        self.add(self.there[name], f"{self.random.choice(_BINARY)}({name}, {other})")

    def selected(self) -> None:
        name = self.vector()
        mask = self.add(
            Array((self.size(name),), "pred"), f"compare({name}, {self.vector(self.size(name))}), direction=LT"
        )
        self.add(self.there[name], f"select({mask}, {name}, {self.vector(self.size(name))})")

    def converted(self) -> None:
        name = self.vector()
        size = self.size(name)
        kind = self.random.choice(("s32", "bf16", "f64"))
        other = self.add(Array((size,), kind), f"convert({name})")
        self.add(Array((size,)), f"{'bitcast-convert' if kind == 's32' else 'convert'}({other})")

    def copied(self) -> None:
        name = self.any(lambda s: True)
        if name is not None:
            self.add(self.there[name], f"copy({name})")

    def bitcast(self) -> None:
        name = self.vector()
        flat = self.size(name)
        square = self.add(Array((flat // 4, 4)), f"bitcast({name})")
        if self.random.random() < 0.7:
            new = self.add(Array((flat // 4, 4)), f"{self.random.choice(_UNARY)}({square})")
            self.add(Array((flat,)), f"{self.random.choice(('bitcast', 'reshape'))}({new})")

    def sliced(self) -> None:
        name = self.vector()
        size = self.random.choice([s for s in _SIZES if s <= self.size(name)])
        if self.random.randrange(2):
            self.add(Array((size,)), f"slice({name}), slice={{[0:{size}]}}")
        else:
            self.add(Array((size,)), f"dynamic-slice({name}, {self.of(INDEX)}), dynamic_slice_sizes={{{size}}}")

    def padded(self) -> None:
        name = self.vector()
        size = self.size(name)
        self.add(Array((2 * size,)), f"concatenate({name}, {self.vector(size)}), dimensions={{0}}")

    def reduced(self) -> None:
        name, zero = self.vector(), self.of(SCALAR)
        if self.random.randrange(2):
            self.add(SCALAR, f"reduce({name}, {zero}), dimensions={{0}}, to_apply=plus")
        else:
            other = self.vector(self.size(name))
            self.add((SCALAR, SCALAR), f"reduce({name}, {other}, {zero}, {zero}), dimensions={{0}}, to_apply=both")

    def mapped(self) -> None:
        name = self.vector()
        self.add(self.there[name], f"map({name}), dimensions={{0}}, to_apply=twice")

    def multiplied(self) -> None:
        name = self.any(lambda s: isinstance(s, Array) and len(s.sizes) == 2 and s.kind == "f32")
        if name is not None:
            shape = self.there[name]
            other = self.of(Array((4, 4)))
            self.add(shape, f"dot({name}, {other}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")

    # in place

    def updated(self) -> None:
        name = self.vector()
        part = self.vector(self.random.choice([s for s in _SIZES if s <= self.size(name)]))
        self.add(self.there[name], f"dynamic-update-slice({name}, {part}, {self.of(INDEX)})")

    def scattered(self) -> None:
        name, two = self.vector(), self.random.random() < 0.4
        shape, size = self.there[name], self.size(name)
        where, new = self.of(Array((4, 1), "s32")), self.of(Array((4,)))
        settings = (
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
        )
        if two:
            other, more = self.vector(size), self.of(Array((4,)))
            given = f"{name}, {other}, {where}, {new}, {more}"
            self.add((shape, shape), f"scatter({given}), {settings}, to_apply=both")
        else:
            self.add(shape, f"scatter({name}, {where}, {new}), {settings}, to_apply=later")

    def sorted(self) -> None:
        name = self.vector()
        if self.random.randrange(2):
            self.add(self.there[name], f"sort({name}), dimensions={{0}}, to_apply=less")
        else:
            other = self.vector(self.size(name))
            shape = self.there[name], self.there[other]
            self.add(shape, f"sort({name}, {other}), dimensions={{0}}, to_apply=lesser")

    def custom(self) -> None:
        """A call of foreign code that may say what it overwrites."""
        name = self.any(lambda s: True) or self.vector()
        shape, other = self.there[name], self.vector()
        parts = [index for index, part in parts_of(shape) if isinstance(part, Array)]
        index = self.random.choice(parts)
        said = "{" + ",".join(map(str, index)) + "}"
        kind = self.random.randrange(4)
        if kind == 0:
            self.add(shape, f'custom-call({name}, {other}), custom_call_target="f"')
        elif kind == 1:
            aliasing = f"output_to_operand_aliasing={{{said}: (0, {said})}}"
            self.add(shape, f'custom-call({name}, {other}), custom_call_target="f", {aliasing}')
        else:
            inner = "{" + ",".join(map(str, (1, *index))) + "}"
            aliasing = f"{inner}: (0, {said})" + (", {0}: (1, {})" if kind == 3 else "")
            made = self.there[other], shape
            call = f'custom-call({name}, {other}), custom_call_target="f"'
            self.add(made, f"{call}, output_to_operand_aliasing={{{aliasing}}}")

    # what hands on

    def tupled(self) -> None:
        count = self.random.randrange(1, 4)
        names = [self.any(lambda s: True) or self.vector() for _ in range(count)]
        shape = tuple(self.there[name] for name in names)
        if len(parts_of(shape)) < 20:
            self.add(shape, f"tuple({', '.join(names)})")

    def element(self) -> None:
        name = self.any(lambda s: not isinstance(s, Array) and len(s) > 0)
        while name is not None:
            shape = self.there[name]
            if isinstance(shape, Array) or not shape:
                return
            at = self.random.randrange(len(shape))
            name = self.add(shape[at], f"get-tuple-element({name}), index={at}")

    def barrier(self) -> None:
        name = self.any(lambda s: True)
        if name is not None:
            self.add(self.there[name], f"opt-barrier({name})")

    def transferred(self) -> None:
        """A copy in two halves, something between them."""
        name = self.vector()
        shape = str(self.there[name])
        started = self.module.name()
        self.lines.append(f"{started} = ({shape}, {shape}, u32[]) copy-start({name})")
        self.fill(self.random.randrange(3))
        self.add(self.there[name], f"copy-done({started})")

    def collected(self) -> None:
        """A collective in two halves, something between them."""
        name, started = self.vector(), self.module.name()
        shape, groups = self.there[name], "replica_groups={{0}}"
        twice = Array((2 * self.size(name),))
        match self.random.randrange(4):
            case 0:
                self.lines.append(f"{started} = {shape} all-reduce-start({name}), {groups}, to_apply=plus")
                done = shape, "all-reduce-done"
            case 1:
                other = self.vector(self.size(name))
                both = f"({shape}, {shape})"
                given = f"all-reduce-start({name}, {other}), {groups}, to_apply=plus"
                self.lines.append(f"{started} = {both} {given}")
                done = (shape, shape), "all-reduce-done"
            case 2:
                whole = f"({shape}, {twice})"
                self.lines.append(f"{started} = {whole} all-gather-start({name}), {groups}, dimensions={{0}}")
                done = twice, "all-gather-done"
            case _:
                given = f"collective-permute-start({name}), source_target_pairs={{{{0,0}}}}"
                self.lines.append(f"{started} = ({shape}, {shape}, u32[], u32[]) {given}")
                done = shape, "collective-permute-done"
        self.fill(self.random.randrange(3))
        self.add(done[0], f"{done[1]}({started})")

    def waited(self) -> None:
        """A value behind a token."""
        name, token = self.vector(), self.module.name()
        self.lines.append(f"{token} = token[] after-all()")
        self.add(self.there[name], f"add-dependency({name}, {token})")

    def solved(self) -> None:
        name = self.of(Array((4, 4)))
        settings = "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"
        self.add(Array((4, 4)), f"triangular-solve({name}, {self.of(Array((4, 4)))}), {settings}")

    # what calls

    def fused(self) -> None:
        """A kernel, plain, or with something in place at its root, or of several results."""
        body = _Body(self.module, 9)
        size = self.random.choice(_SIZES)
        given = [body.parameter(Array((size,))) for _ in range(self.random.randrange(1, 4))]
        index = body.parameter(INDEX)
        plain = (_Body.unary, _Body.binary, _Body.selected)
        for _ in range(self.random.randrange(1, 4)):
            self.random.choice(plain)(body)
        if self.random.random() < 0.2:
            first = body.add(Array((size // 4, 4)), f"bitcast({given[0]})")
            given[0] = body.add(Array((size,)), f"bitcast({first})")
        roots = [self.fused_root(body, given, index) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        shapes = tuple(body.there[root] for root in roots)
        root = roots[0] if len(roots) == 1 else body.add(shapes, f"tuple({', '.join(roots)})")
        name = self.module.name()
        operands = ", ".join(self.of(shape) for shape in body.prune(root))
        body.write(name, root)
        kind = self.random.choice(("kLoop", "kLoop", "kInput", "kCustom", "kOutput"))
        self.add(body.there[root], f"fusion({operands}), kind={kind}, calls={name}")

    def fused_root(self, body: _Body, given: Sequence[str], index: str) -> str:
        target = self.random.choice(given)
        size = body.size(target)
        value = body.vector(size)
        match self.random.randrange(6):
            case 0:
                part = body.add(Array((4,)), f"slice({value}), slice={{[0:4]}}")
                return body.add(Array((size,)), f"dynamic-update-slice({target}, {part}, {index})")
            case 1:
                return body.add(Array((size,)), f"dynamic-update-slice({target}, {value}, {index})")
            case 2:
                return body.add(Array((size,)), f"{self.random.choice(_BINARY)}({target}, {value})")
            case 3:
                part = body.add(Array((4,)), f"slice({value}), slice={{[0:4]}}")
                new = body.add(Array((size,)), f"dynamic-update-slice({target}, {part}, {index})")
                return body.add(Array((size // 4, 4)), f"bitcast({new})")
            case 4:
                return body.add(Array((size,)), f"reverse({value}), dimensions={{0}}")
        return value

    def inner(self, shapes: Sequence[Shape], returns: Shape | None = None) -> tuple[str, Shape]:
        """A computation of these parameters that returns such a shape, or any."""
        body = _Body(self.module, self.depth + 1)
        given = [body.parameter(shape) for shape in shapes]
        for name in given:
            if not isinstance(body.there[name], Array):
                body.element()
        body.fill(self.random.randrange(1, 7))
        if returns is None:
            root = body.any(lambda s: True) or body.vector()
        elif isinstance(returns, Array):
            root = body.of(returns)
        elif self.random.random() < 0.1 and returns in shapes:
            root = given[list(shapes).index(returns)]
        else:
            root = body.add(returns, f"tuple({', '.join([body.taken(part, shapes, given) for part in returns])})")
        body.fill(self.random.choice((0, 0, 0, 1)))
        name = self.module.name()
        body.write(name, root)
        return name, body.there[root]

    def taken(self, shape: Shape, shapes: Sequence[Shape], given: Sequence[str]) -> str:
        """A value of a shape, be it an element of a parameter just as it came."""
        if self.random.random() < 0.4:
            for whole, name in zip(shapes, given, strict=True):
                places = [] if isinstance(whole, Array) else [n for n, s in enumerate(whole) if s == shape]
                if places:
                    return self.add(shape, f"get-tuple-element({name}), index={self.random.choice(places)}")
        return self.of(shape)

    def carried(self) -> tuple[str, Shape]:
        """Something for a loop or a branch to take: mostly a tuple."""
        kind = self.random.random()
        if kind < 0.15:
            name = self.vector()
        elif kind < 0.3:
            name = self.any(lambda s: not isinstance(s, Array) and len(s) > 0) or self.of((INDEX, Array((64,))))
        else:
            names = [self.of(INDEX), *(self.vector() for _ in range(self.random.randrange(1, 4)))]
            if self.random.random() < 0.5:
                names = [self.add(self.there[n], f"copy({n})") for n in names]
            if self.random.random() < 0.2:
                names.append(self.any(lambda s: True) or names[0])
            shape = tuple(self.there[n] for n in names)
            name = self.add(shape, f"tuple({', '.join(names)})")
        return name, self.there[name]

    def looped(self) -> None:
        name, shape = self.carried()
        body, _ = self.inner([shape], shape)
        condition, _ = self.inner([shape], TRUTH)
        self.add(shape, f"while({name}), condition={condition}, body={body}")

    def branched(self) -> None:
        count = self.random.choice((2, 2, 3))
        given = [self.carried() for _ in range(count)]
        first, shape = self.inner([given[0][1]])
        others = [self.inner([each], shape)[0] for _, each in given[1:]]
        sides = ", ".join((first, *others))
        names = ", ".join(name for name, _ in given)
        if count == 2 and self.random.randrange(2):
            words = f"true_computation={first}, false_computation={others[0]}"
            self.add(shape, f"conditional({self.of(TRUTH)}, {names}), {words}")
        else:
            self.add(shape, f"conditional({self.of(INDEX)}, {names}), branch_computations={{{sides}}}")

    def called(self) -> None:
        names = [self.any(lambda s: True) or self.vector() for _ in range(self.random.randrange(1, 3))]
        body, shape = self.inner([self.there[name] for name in names])
        self.add(shape, f"call({', '.join(names)}), to_apply={body}")

    def asynchronous(self) -> None:
        """A chain, maybe with updates, and what happens meanwhile."""
        names = [self.any(lambda s: isinstance(s, Array)) or self.vector() for _ in range(self.random.randrange(1, 3))]
        body, shape = self.wrapped([self.there[name] for name in names])
        given = tuple(self.there[name] for name in names)
        whole = text_of((given, shape)).removesuffix(")") + self.random.choice((")", ", u32[])"))
        chain = self.module.name()
        self.lines.append(f"{chain} = {whole} async-start({', '.join(names)}), calls={body}")
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self.fill(self.random.randrange(2))
            chain, before = self.module.name(), chain
            self.lines.append(f"{chain} = {whole} async-update({before})")
        self.fill(self.random.randrange(3))
        self.add(shape, f"async-done({chain})")

    def wrapped(self, shapes: Sequence[Shape]) -> tuple[str, Shape]:
        """A computation of one operation that can be asynchronous."""
        body = _Body(self.module, 9)
        given = [body.parameter(shape) for shape in shapes]
        shape = body.there[given[0]]
        kind = self.random.randrange(5)
        if kind == 0 or not isinstance(shape, Array) or len(shape.sizes) != 1 or shape.kind != "f32":
            results: Shape = (shape, Array((16,))) if self.random.randrange(2) else shape
            root = body.add(results, f'custom-call({", ".join(given)}), custom_call_target="f"')
        elif kind == 1:
            root = body.add(shape, f"sort({given[0]}), dimensions={{0}}, to_apply=less")
        elif kind == 2 and self.depth < 3:
            called, results = self.inner(shapes)
            root = body.add(results, f"call({', '.join(given)}), to_apply={called}")
        else:
            root = body.add(Array((4,)), f"slice({given[0]}), slice={{[0:4]}}")
        name = self.module.name()
        body.write(name, root)
        return name, body.there[root]


_PLAIN: tuple[Callable[[_Body], None], ...] = (
    *(_Body.unary, _Body.unary, _Body.binary, _Body.binary, _Body.selected, _Body.converted, _Body.copied),
    *(_Body.copied, _Body.bitcast, _Body.sliced, _Body.padded, _Body.reduced, _Body.mapped, _Body.multiplied),
    *(_Body.updated, _Body.updated, _Body.scattered, _Body.sorted, _Body.custom, _Body.tupled, _Body.element),
    *(_Body.element, _Body.barrier, _Body.fused, _Body.fused, _Body.fused),
)
_DEEP: tuple[Callable[[_Body], None], ...] = (
    *(_Body.looped, _Body.looped, _Body.branched, _Body.called, _Body.asynchronous, _Body.transferred),
    *(_Body.collected, _Body.waited, _Body.solved),
)


class _Module:
    """All computations, the entry last."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.computations: list[str] = []
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def text(self) -> str:
        """The module."""
        random, entry = self.random, _Body(self, 0)
        shapes: list[Shape] = [self.argument() for _ in range(random.randrange(1, 6))]
        late = random.randrange(len(shapes)) if random.random() < 0.3 else len(shapes)
        for shape in shapes[:late]:
            entry.parameter(shape)
        entry.element()
        entry.fill(random.randrange(3, 12))
        for shape in shapes[late:]:
            entry.parameter(shape)
        entry.fill(random.randrange(2, 10))
        root = self.root(entry)
        entry.fill(random.choice((0, 0, 0, 2)))
        aliases = self.aliases(shapes, entry.there[root])
        entry.write("ENTRY e", root)
        header = "HloModule m, is_scheduled=true" + (f", input_output_alias={{ {aliases} }}" if aliases else "")
        return header + "\n" + _APPLIED + "\n".join(self.computations)

    def argument(self) -> Shape:
        return self.random.choice((*(Array((size,)) for size in _SIZES), SCALAR, INDEX))

    def root(self, entry: _Body) -> str:
        """An array or a tuple of such: the other module could not have more."""
        random = self.random
        kind = random.random()
        if kind < 0.1:
            return entry.vector()
        whole = entry.any(lambda s: not isinstance(s, Array) and len(s) > 1 and all(isinstance(p, Array) for p in s))
        if kind < 0.4 and whole is not None:
            return whole
        names = [entry.any(lambda s: isinstance(s, Array)) or entry.vector() for _ in range(random.randrange(2, 7))]
        return entry.add(tuple(entry.there[name] for name in names), f"tuple({', '.join(names)})")

    def aliases(self, shapes: Sequence[Shape], result: Shape) -> str:
        """Which parts of the result overwrite an argument of their shape."""
        random = self.random
        found: list[str] = []
        places = [(n, index, part) for n, shape in enumerate(shapes) for index, part in parts_of(shape)]
        random.shuffle(places)
        if random.random() < 0.3:
            return ""
        for output, part in parts_of(result):
            if isinstance(part, Array) and random.random() < 0.7:
                fitting = [place for place in places if place[2] == part]
                if fitting:
                    number, index, _ = fitting[0]
                    places.remove(fitting[0])
                    there, here = (",".join(map(str, at)) for at in (output, index))
                    kind = random.choice(("may-alias", "must-alias"))
                    found.append(f"{{{there}}}: ({number}, {{{here}}}, {kind})")
        return ", ".join(found)


def assigned_program(random: Random) -> str:
    """A module of some dozens of instructions, and what they call."""
    return _Module(random).text()
