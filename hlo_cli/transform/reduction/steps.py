"""What may be taken away from a module? Each step lists edits, in the order of what they save.

An edit makes a smaller draft of a draft, or None where it no longer applies. It does not know why the module fails, and
need not keep its meaning: the search keeps an edit only if the result is valid and still fails.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.layout import PRIMITIVE_TYPES, default_layout
from hlo_cli.ir.operations import CONTROL_PREDECESSORS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.transform.reduction.draft import Body, Draft, Line, as_parameters, entering, inlined

Edit: TypeAlias = Callable[[Draft], Draft | None]


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of edit, in words, and the edits that a draft offers. `is_for_pairs` if two programs that compute the same
    still do after the same edit of both.
    """

    words: str
    edits: Callable[[Draft], Iterable[Edit]]
    is_for_pairs: bool = False


# --- results, and what they depend on ---


def _single_results(draft: Draft) -> Iterator[Edit]:
    """One element of the result each; the later ones first, as they depend on most."""
    root = draft.entry[draft.entry.root]
    count = len(root.shape.elements) if isinstance(root.shape, TupleShape) else 0
    return (partial(_keep_result, at) for at in reversed(range(count)))


def _keep_result(at: int, draft: Draft) -> Draft | None:
    entry = draft.entry
    root = entry[entry.root]
    if not isinstance(root.shape, TupleShape) or at >= len(root.shape.elements):
        return None
    if root.opcode == opcodes.TUPLE:
        name, mark, _ = root.operands[at].partition("#")
        if not mark:
            return draft.with_entry(replace(entry, root=name))
    element = Line(
        f"{root.name}.element",
        root.shape.elements[at],
        opcodes.GET_TUPLE_ELEMENT,
        (root.name,),
        (Attribute("index", str(at)),),
    )
    return draft.with_entry(replace(entry, lines=(*entry.lines, element), root=element.name))


def _cones(draft: Draft) -> Iterator[Edit]:
    """An earlier value as the result: those that depend on least first, in doubling steps."""
    ordered = _by_cone(draft)
    return (partial(_cut_to, ordered[at]) for at in _doubling(len(ordered)))


def _all_cones(draft: Draft) -> Iterator[Edit]:
    """Any earlier value as the result: when little is left, so that no single cut is forgotten."""
    return (partial(_cut_to, name) for name in _by_cone(draft))


def _by_cone(draft: Draft) -> list[str]:
    """The values of the entry, those that depend on least first."""
    names = [line.name for line in draft.entry.lines if not line.is_parameter and line.name != draft.entry.root]
    sizes = {name: len(draft.entry.cone(name)) for name in names[:_MAX_CONES]}
    return sorted(sizes, key=lambda name: sizes[name])


_MAX_CONES: Final = 4000
"""Values whose cones are measured: that is quadratic, and pieces are cut out of longer modules first."""


def _doubling(count: int) -> Iterator[int]:
    at = 1
    while at <= count:
        yield at - 1
        at *= 2


def _cut_to(name: str, draft: Draft) -> Draft | None:
    entry = draft.entry
    if name not in {line.name for line in entry.lines} or name == entry.root:
        return None
    return draft.with_entry(replace(entry, root=name))


# --- pieces of the entry, and of the computations that it calls ---


def _computations(draft: Draft) -> Iterator[Edit]:
    """A called computation as the entry: those without calls first."""
    return (partial(_enter, body.name) for body in draft.bodies[:-1])


def _enter(name: str, draft: Draft) -> Draft | None:
    return entering(name, draft) if name in [body.name for body in draft.bodies[:-1]] else None


def _pieces(draft: Draft) -> Iterator[Edit]:
    """Halves of the entry alone, then without them, then quarters, down to single lines."""
    names = [line.name for line in draft.entry.lines if not line.is_parameter]
    size = (len(names) + 1) // 2
    while size and len(names) > 1:
        chunks = [tuple(names[at : at + size]) for at in range(0, len(names), size)]
        yield from (partial(_only, chunk) for chunk in chunks)
        # From the end: what nothing depends on goes before what it was made of.
        yield from (partial(_without, chunk) for chunk in reversed(chunks))
        size = size // 2


def _only(names: Sequence[str], draft: Draft) -> Draft | None:
    """The lines of these names alone: others that they use become parameters, and what none of them uses the result."""
    entry = draft.entry
    kept = [line for line in entry.lines if line.name in names and not line.is_parameter]
    if not kept or len(kept) == sum(not line.is_parameter for line in entry.lines):
        return None
    wanted = {line.name for line in kept}
    used = {name for line in kept for name in line.used}
    cut = as_parameters(entry, {line.name for line in entry.lines if line.name not in wanted})
    lines = tuple(line for line in cut.lines if line.name in wanted | used)
    return draft.with_entry(_with_results(replace(cut, lines=lines), [n.name for n in kept if n.name not in used]))


def _without(names: Sequence[str], draft: Draft) -> Draft | None:
    """The entry without the lines of these names: parameters take the place of those that are used."""
    entry = draft.entry
    kept = [line for line in entry.lines if line.is_parameter or line.name not in names]
    if len(kept) == len(entry.lines) or all(line.is_parameter for line in kept):
        return None
    used = {name for line in kept for name in line.used}
    cut = as_parameters(entry, {name for name in names if name in used})
    lines = tuple(line for line in cut.lines if line.name in used or line.name not in names)
    body = replace(cut, lines=lines)
    if entry.root in {line.name for line in lines}:
        return draft.with_entry(body)
    unused = [line.name for line in kept if not line.is_parameter and line.name not in used]
    return draft.with_entry(_with_results(body, unused))


def _with_results(body: Body, names: Sequence[str]) -> Body:
    """The body whose result is the value of this name, or a tuple of several."""
    if len(names) == 1:
        return replace(body, root=names[0])
    taken = {line.name for line in body.lines}
    name = next(name for number in range(len(taken) + 1) if (name := f"results.{number}") not in taken)
    shape = TupleShape(tuple(body[each].shape for each in names))
    return replace(body, lines=(*body.lines, Line(name, shape, opcodes.TUPLE, tuple(names))), root=name)


def _unused_parameters(draft: Draft) -> Iterator[Edit]:
    yield _drop_unused


def _drop_unused(draft: Draft) -> Draft | None:
    entry = draft.entry
    used = {name for line in entry.lines for name in line.used} | {entry.root}
    lines = tuple(line for line in entry.lines if not line.is_parameter or line.name in used)
    return None if len(lines) == len(entry.lines) else draft.with_entry(replace(entry, lines=lines))


def _merged_parameters(draft: Draft) -> Iterator[Edit]:
    """An earlier parameter of the entry in place of each, of the same type and sizes."""
    parameters = draft.entry.parameters
    for at, line in enumerate(parameters):
        earlier = next((each for each in parameters[:at] if _same(each.shape, line.shape)), None)
        if earlier is not None:
            yield partial(_redirect, draft.entry.name, line.name, earlier.name)


# --- single lines ---


def _operands_instead(draft: Draft) -> Iterator[Edit]:
    """A value that it is made of, of the same type and sizes, in place of each value: from the result upward, first
    those far away, so that a long chain takes few edits.
    """
    for body in reversed(draft.bodies):
        lines = {line.name: line for line in body.lines}
        for line in reversed(body.lines):
            nearest = _of_same_shape(line, lines)
            chain = list(nearest[:1])
            while len(chain) < _LONGEST_LEAP and (more := _of_same_shape(lines[chain[-1]], lines) if chain else ()):
                chain.append(more[0])
            far = [chain[at] for at in _doubling(len(chain))]
            yield from (
                partial(_redirect, body.name, line.name, other) for other in dict.fromkeys((*far[::-1], *nearest))
            )


_LONGEST_LEAP: Final = 32
"""Values that one edit jumps over at most: what is needed between is then found in five more."""


def _of_same_shape(line: Line, lines: Mapping[str, Line]) -> tuple[str, ...]:
    """The operands of the type and sizes of a value."""
    return tuple(o for o in dict.fromkeys(line.operands) if o in lines and _same(lines[o].shape, line.shape))


def _same(one: Shape, other: Shape) -> bool:
    return one.to_string(layout=False) == other.to_string(layout=False)


def _redirect(body_name: str, name: str, other: str, draft: Draft) -> Draft | None:
    body = next((each for each in draft.bodies if each.name == body_name), None)
    names = set() if body is None else {line.name for line in body.lines}
    if body is None or name not in names or other not in names:
        return None
    changed = body.replaced({name: None}).redirected({name: other})
    return draft.with_entry(changed) if body is draft.entry else draft.with_body(changed)


def _zeros(draft: Draft) -> Iterator[Edit]:
    """Zeros in place of each value of a called computation, whose operands cannot become parameters."""
    # In the entry, a parameter is shorter than zeros.
    for body in draft.bodies[:-1]:
        for line in reversed(body.lines):
            if isinstance(line.shape, ArrayShape) and not line.is_parameter and line.opcode != opcodes.CONSTANT:
                yield partial(_zero, body.name, line.name)


def _zero(body_name: str, name: str, draft: Draft) -> Draft | None:
    body = next((each for each in draft.bodies if each.name == body_name), None)
    line = None if body is None else next((each for each in body.lines if each.name == name), None)
    if body is None or line is None or not isinstance(line.shape, ArrayShape):
        return None
    kind = line.shape.element_type
    new: tuple[Line, ...]
    text = "(0, 0)" if kind.is_complex else "false" if kind.kind == "pred" else "0"
    if not line.shape.dimensions:
        new = (Line(name, line.shape, opcodes.CONSTANT, argument=text),)
    else:
        zero = Line(f"{name}.zero", ArrayShape(kind, (), (), default_layout(0)), opcodes.CONSTANT, argument=text)
        spread = Line(name, line.shape, opcodes.BROADCAST, (zero.name,), (Attribute("dimensions", "{}"),))
        new = (zero, spread)
    at = body.lines.index(line)
    return draft.with_body(replace(body, lines=(*body.lines[:at], *new, *body.lines[at + 1 :])))


# --- calls, loops, branches ---


def _opened(draft: Draft) -> Iterator[Edit]:
    """Called computations in place of calls, fusions, loops (one iteration), and conditionals (one branch)."""
    return inlining(draft, (opcodes.CALL, opcodes.FUSION, opcodes.WHILE, opcodes.CONDITIONAL))


def inlining(draft: Draft, kinds: Collection[str] = (opcodes.CALL, opcodes.FUSION)) -> Iterator[Edit]:
    """Called computations in place of what calls them; the meaning stays in place of calls and fusions."""
    for body in reversed(draft.bodies):
        for line in reversed(body.lines):
            if line.opcode in kinds:
                for at in range(len(line.called)):
                    yield partial(_open, body.name, line.name, at)


def _open(body_name: str, name: str, at: int, draft: Draft) -> Draft | None:
    body = next((each for each in draft.bodies if each.name == body_name), None)
    line = None if body is None else next((each for each in body.lines if each.name == name), None)
    if body is None or line is None or at >= len(line.called):
        return None
    callee = draft[line.called[at]]
    arguments = line.operands[at + 1 : at + 2] if line.opcode == opcodes.CONDITIONAL else line.operands
    if not _same(callee[callee.root].shape, line.shape) or len(arguments) != len(callee.parameters):
        return None  # the condition of a loop
    # The body of a loop in its place is one iteration of it.
    changed = inlined(body, line, callee, arguments)
    if changed is body:
        return None
    return draft.with_entry(changed) if body is draft.entry else draft.with_body(changed)


# --- attributes ---

_OF_NO_MEANING: Final = (
    "metadata", "frontend_attributes", "backend_config", "origin", "statistics", CONTROL_PREDECESSORS, "sharding",
    "operand_precision", "output_to_operand_aliasing", "outer_dimension_partitions", "inner_dimension_partitions",
    "is_stable", "indices_are_sorted", "unique_indices", "operand_layout_constraints", "has_side_effect", "channel_id",
    "schedule", "async_execution_thread", "parameter_replication", "exact", "algorithm", "xla_original_value",
)  # fmt: skip
"""Attributes without which an instruction is whole: annotations first, then what a compiler may need."""


def _annotations(draft: Draft) -> Iterator[Edit]:
    yield partial(_drop_attributes, _OF_NO_MEANING[:2], is_with_tables=True)


def _attributes(draft: Draft) -> Iterator[Edit]:
    present = {each.name for body in draft.bodies for line in body.lines for each in line.attributes}
    # All at once is one candidate; most failures need none of them.
    yield partial(_drop_attributes, _OF_NO_MEANING)
    yield from (partial(_drop_attributes, (name,)) for name in _OF_NO_MEANING if name in present)
    if draft.header:
        yield _drop_header
    yield from (partial(_drop_from_header, each.name) for each in draft.header)


def _drop_attributes(names: Sequence[str], draft: Draft, *, is_with_tables: bool = False) -> Draft | None:
    changed = draft.mapped(lambda line: line.without(names))
    changed = replace(changed, tables="") if is_with_tables else changed
    return None if changed == draft else changed


def _drop_header(draft: Draft) -> Draft | None:
    return replace(draft, header=()) if draft.header else None


def _drop_from_header(name: str, draft: Draft) -> Draft | None:
    header = tuple(each for each in draft.header if each.name != name)
    return None if header == draft.header else replace(draft, header=header)


# --- sizes and types ---

_MOST_SIZES: Final = 12  # of the dimensions that occur most often; a module of a few lines has fewer
_NUMBER: Final = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
_SIZED: Final = frozenset(
    (opcodes.SLICE, "dynamic_slice_sizes", "slice_sizes", "window", "fft_length", "dynamic_slice_size")
)
"""Attributes that repeat sizes of dimensions."""
PLAIN_TYPES: Final = {"bf16": "f32", "f16": "f32", "f64": "f32", "c128": "c64", "s64": "s32", "u64": "u32", "s8": "s32"}
"""A usual type for each unusual one."""


def _sizes(draft: Draft) -> Iterator[Edit]:
    """The same smaller size in place of a size, everywhere: 1, 2, and halves."""
    found: Counter[int] = Counter()
    for body in draft.bodies:
        for line in body.lines:
            for _, leaf in line.shape.leaves:
                found.update(leaf.dimensions if isinstance(leaf, ArrayShape) else ())
    for size, _ in found.most_common(_MOST_SIZES):
        smaller = dict.fromkeys((1, 2, 3, size // 2))
        yield from (partial(resized, size, new) for new in smaller if 0 < new < size)


def resized(size: int, new: int, draft: Draft) -> Draft | None:
    """The draft with another size everywhere that a size occurs.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.reduction.draft import draft_of
    >>> module = parse_module("ENTRY e { p = f32[8,4] parameter(0)  ROOT r = f32[4,8] transpose(p), dimensions={1,0} }")
    >>> [str(line.shape) for line in resized(8, 2, draft_of(module)).entry.lines]
    ['f32[2,4]{1,0}', 'f32[4,2]{1,0}']
    """

    def change(line: Line) -> Line:
        shape = _resized_shape(line.shape, size, new)
        attributes = tuple(
            Attribute(each.name, _NUMBER.sub(lambda m: str(new) if int(m[1]) == size else m[1], each.value))
            if each.name in _SIZED
            else each
            for each in line.attributes
        )
        return replace(line, shape=shape, attributes=attributes)

    if any(  # the literal of an array has its old size
        line.opcode == opcodes.CONSTANT and _resized_shape(line.shape, size, new) != line.shape
        for body in draft.bodies
        for line in body.lines
    ):
        return None
    changed = draft.mapped(change)
    return None if changed == draft else _without_layout(changed)


def _resized_shape(shape: Shape, size: int, new: int) -> Shape:
    match shape:
        case ArrayShape() if size in shape.dimensions:
            return replace(shape, dimensions=tuple(new if each == size else each for each in shape.dimensions))
        case TupleShape():
            return TupleShape(tuple(_resized_shape(each, size, new) for each in shape.elements))
        case _:
            return shape


def _types(draft: Draft) -> Iterator[Edit]:
    """A usual type in place of each unusual one, everywhere."""
    found = {
        leaf.element_type.name
        for body in draft.bodies
        for line in body.lines
        for _, leaf in line.shape.leaves
        if isinstance(leaf, ArrayShape)
    }
    return (partial(_retyped, name, PLAIN_TYPES[name]) for name in sorted(found & PLAIN_TYPES.keys()))


def _retyped(name: str, other: str, draft: Draft) -> Draft | None:
    def change(shape: Shape) -> Shape:
        match shape:
            case ArrayShape() if shape.element_type.name == name:
                return replace(shape, element_type=PRIMITIVE_TYPES[other])
            case TupleShape():
                return TupleShape(tuple(map(change, shape.elements)))
            case _:
                return shape

    changed = draft.mapped(lambda line: replace(line, shape=change(line.shape)))
    return None if changed == draft else _without_layout(changed)


def _layouts(draft: Draft) -> Iterator[Edit]:
    yield _drop_layouts


def _drop_layouts(draft: Draft) -> Draft | None:
    """The draft with default layouts; a bitcast may then mean something else, which the search will see."""

    def change(shape: Shape) -> Shape:
        match shape:
            case ArrayShape():
                return replace(shape, layout=default_layout(shape.rank))
            case TupleShape():
                return TupleShape(tuple(map(change, shape.elements)))
            case _:
                return shape

    changed = draft.mapped(lambda line: replace(line, shape=change(line.shape)))
    return None if changed == draft else _without_layout(changed)


def _without_layout(draft: Draft) -> Draft:
    return replace(draft, header=tuple(each for each in draft.header if each.name != "entry_computation_layout"))


# --- devices ---


def _devices(draft: Draft) -> Iterator[Edit]:
    for name in ("num_partitions", "replica_count"):
        count = next((int(each.value) for each in draft.header if each.name == name and each.value.isdecimal()), 1)
        yield from (partial(_with_devices, name, new) for new in (1, 2) if new < count)


def _with_devices(name: str, count: int, draft: Draft) -> Draft | None:
    header = tuple(Attribute(name, str(count)) if each.name == name else each for each in draft.header)
    return None if header == draft.header else replace(draft, header=header)


STEPS: Final = (
    Step("annotations dropped", _annotations, is_for_pairs=True),
    Step("one result kept", _single_results),
    Step("one computation kept", _computations),
    Step("cut to an earlier value", _cones),
    Step("instructions replaced by parameters", _pieces),
    Step("called computations inlined", _opened),
    Step("values replaced by operands", _operands_instead),
    Step("values replaced by zeros", _zeros),
    Step("one parameter for several", _merged_parameters),
    Step("cut to any earlier value", _all_cones),
    Step("unused parameters dropped", _unused_parameters),
    Step("fewer devices", _devices),
    Step("attributes dropped", _attributes, is_for_pairs=True),
    Step("smaller sizes", _sizes, is_for_pairs=True),
    Step("usual types", _types, is_for_pairs=True),
    Step("default layouts", _layouts, is_for_pairs=True),
)
"""All steps, in the order in which the search tries them."""
