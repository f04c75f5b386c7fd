"""Which computations the regions of StableHLO are: reductions, loops, branches, calls, and parts that one device runs.

HLO has no values from outside of a computation: constants are copied into it, and what else a loop or a branch uses
becomes one more operand. Mirrors `GetImplicitOperands` of xla/hlo/translate/mhlo_to_hlo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.notation import index_text, quoted
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, compatible
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.stablehlo.building import Body, Unfit, decorations, default_layout
from hlo_cli.syntax.stablehlo.conversion import (
    SCATTER,
    Handler,
    Results,
    channel,
    flags,
    global_ids,
    handler_of,
    indexed,
    numbers_of,
    one_shape,
    opaque,
    read_operation,
    replica_groups,
    window_of,
)
from hlo_cli.syntax.stablehlo.grammar import Argument, Operation, Region, ValueName
from hlo_cli.syntax.stablehlo.scanning import Entries, Number, Text
from hlo_cli.syntax.stablehlo.simplify import is_constant, splat_of
from hlo_cli.syntax.stablehlo.values import hlo_sharding, text_of

NO_NAMES: Final[Mapping[str, ValueName]] = MappingProxyType({})
_RETURNS: Final = ("return", "func.return", "stablehlo.return", "mhlo.return", "sdy.return")

# --- the operations of a region ---


def fill(body: Body, operations: Sequence[Operation]) -> list[Instruction]:
    """Appends the instructions of a region's operations; the values that it returns, empty if it returns none."""
    for operation in operations:
        if operation.name in _RETURNS:
            return body.operands(operation)
        made = list(_made(body, operation))
        at = 0
        for name, count in operation.results:
            body.values[name] = tuple(made[at : at + count])
            at += count
    return []


def _made(body: Body, operation: Operation) -> Results:
    """The results of one operation, of any dialect."""
    name = operation.name
    dialect, _, kind = name.rpartition(".")
    handler = REGIONS.get(kind) if dialect in ("stablehlo", "mhlo") else _OTHERS.get(name)
    made = read_operation(body, operation, handler or handler_of(name))
    if len(made) < operation.result_count:
        message = f"{name} has {len(made)} results in its type, and {operation.result_count} names"
        raise body.program.error(message, operation.span)
    return made


# --- values from outside ---


def free_values(regions: Sequence[Region], renamed: Mapping[str, ValueName] = NO_NAMES) -> list[ValueName]:
    """The values that regions use and do not define, in the order of their use.

    Arguments that are `renamed` are other values, which stay the same in a loop: that the loop returns them is no use.
    """
    captured: dict[ValueName, None] = {}
    for region in regions:
        _collect(region, set(), captured, renamed)
    return list(captured)


def _collect(
    region: Region, outer: set[str], captured: dict[ValueName, None], renamed: Mapping[str, ValueName], depth: int = 0
) -> None:
    defined = outer | {argument.name for argument in region.arguments if argument.name not in renamed}
    for operation in region.operations:
        is_return = not depth and operation.name in _RETURNS
        for operand in operation.operands:
            if operand[0] in renamed:
                captured.update({} if is_return else {renamed[operand[0]]: None})
            elif operand[0] not in defined:
                captured[operand] = None
        for inner in operation.regions:
            _collect(inner, defined, captured, renamed, depth + 1)
        defined.update(name for name, _ in operation.results)


def _captured(
    body: Body, operation: Operation, regions: Sequence[Region], renamed: Mapping[str, ValueName] = NO_NAMES
) -> dict[ValueName, Instruction]:
    """The values of this computation that regions use, without constants, which they copy."""
    found = {}
    for name, index in free_values(regions, renamed):
        value = _visible(body, name, index)
        if value is None:
            found[name, index] = body.value(name, index, operation)  # undefined, an error with its place
        elif not is_constant(value):
            found[name, index] = body.value(name, index, operation)
    return found


def _once(captured: Mapping[ValueName, Instruction]) -> list[Instruction]:
    """The captured values, each once."""
    return list(dict.fromkeys(captured.values()))


def _visible(body: Body, name: str, index: int) -> Instruction | None:
    values = body.values.get(name)
    if values is not None:
        return values[index] if index < len(values) else None
    return body.outer(name, index)


# --- computations ---


def _inner(body: Body, operation: Operation, name: str) -> Body:
    return Body(body.program, body.program.computation(name, operation.span), body)


def _argument_shapes(body: Body, operation: Operation, arguments: Sequence[Argument]) -> list[Shape]:
    return [body.shape(argument.type, operation) for argument in arguments]


def plain_region(body: Body, operation: Operation, region: Region) -> Computation:
    """The computation of a region whose arguments are its parameters."""
    inner = _inner(body, operation, "region")
    shapes = _argument_shapes(body, operation, region.arguments)
    for argument, shape in zip(region.arguments, shapes, strict=True):
        pairs = _metadata(body, argument)
        inner.values[argument.name] = (inner.parameter(argument.name, shape, argument.span, pairs),)
    return inner.finish(_root(inner, operation, fill(inner, region.operations)))


def _metadata(body: Body, argument: Argument) -> list[tuple[str, str]]:
    metadata = body.program.frames.metadata(argument.location)
    return [("metadata", metadata)] if metadata else []


def _root(
    body: Body, operation: Operation, values: Sequence[Instruction], *, tuple_of_one: bool = False
) -> Instruction:
    """What a computation returns: one value, or a tuple."""
    if len(values) == 1 and not tuple_of_one:
        return values[0]
    shape = TupleShape(tuple([value.shape for value in values]))
    return body.add(Operation("", operation.span), opcodes.TUPLE, shape, values)


def _state_region(
    body: Body,
    operation: Operation,
    region: Region,
    captured: Mapping[ValueName, Instruction],
    same: Mapping[int, ValueName],
    *,
    is_body: bool,
) -> Computation:
    """The body or the condition of a loop: a parameter with all values that change, and those captured."""
    inner = _inner(body, operation, "body" if is_body else "condition")
    varying = [argument for number, argument in enumerate(region.arguments) if number not in same]
    shapes = _argument_shapes(body, operation, varying)
    shapes += [value.shape for value in _once(captured)]
    parts = _parts(inner, operation, shapes, "arg_tuple" if len(shapes) != 1 else "arg")
    for argument, part in zip(varying, parts, strict=False):
        inner.values[argument.name] = (part,)
    passed = parts[len(varying) :]
    _bind(inner, captured, passed)
    for number, (name, index) in same.items():
        if number < len(region.arguments):
            inner.values[region.arguments[number].name] = (inner.value(name, index, operation),)
    returned = fill(inner, region.operations)
    kept = [value for number, value in enumerate(returned) if number not in same]
    return inner.finish(_root(inner, operation, [*kept, *passed] if is_body else returned[:1]))


def _parts(body: Body, operation: Operation, shapes: Sequence[Shape], name: str) -> list[Instruction]:
    """The parameter of a computation that takes values in a tuple, unless there is one: its elements."""
    shapes = [default_layout(shape) for shape in shapes]
    if len(shapes) == 1:
        return [body.parameter(name, shapes[0], operation.span)]
    taken = body.parameter(name, TupleShape(tuple(shapes)), operation.span)
    return body.elements(Operation("", operation.span), taken)


def _bind(body: Body, captured: Mapping[ValueName, Instruction], parts: Sequence[Instruction]) -> None:
    """Names values from outside as they are named there; `parts` are what stands for each of them."""
    part_of = dict(zip(_once(captured), parts, strict=True))
    for (name, index), value in captured.items():
        known = list(body.values.get(name, ()))
        known += [part_of[value]] * (index + 1 - len(known))
        known[index] = part_of[value]
        body.values[name] = tuple(known)


# --- reductions and their like ---


def _need_regions(operation: Operation, count: int) -> None:
    if len(operation.regions) != count or not all(region.is_plain for region in operation.regions):
        raise Unfit(f"it needs {count} region{'s' if count > 1 else ''} of one block")


def _reduce(body: Body, operation: Operation) -> Results:
    pairs = [("dimensions", index_text(numbers_of(body, operation, "dimensions")))]
    applied = operation.text("applies")
    if applied and not operation.regions:
        called = _applied(body, operation, applied)
    else:
        _need_regions(operation, 1)
        called = plain_region(body, operation, operation.regions[0])
    pairs.append(("to_apply", f"%{called.name}"))
    return body.results(operation, "reduce", body.operands(operation), pairs, [called])


def _applied(body: Body, operation: Operation, name: str) -> Computation:
    """The computation that applies one operation, which the text names only."""
    inner = _inner(body, operation, "region")
    operands = body.operands(operation)
    result = body.result_shapes(operation)
    if not operands or len(result) != 1 or not isinstance(result[0], ArrayShape):
        raise Unfit("it applies one operation to several arrays")
    shape = parse_shape(f"{result[0].element_type.name}[]")
    type_ = operation.operand_types[-1] if operation.operand_types else ""
    for side in ("lhs", "rhs"):
        inner.values[side] = (inner.parameter(side, shape, operation.span),)
    step = Operation(name, operation.span, [("applied", 1)], [("lhs", 0), ("rhs", 0)], result_types=(type_,))
    step.location = operation.location
    made = read_operation(inner, step, handler_of(name))
    return inner.finish(made[0])


def _with_region(opcode: str, *names: tuple[str, str]) -> Handler:
    """Operations with one region and lists of numbers: the name of each, and the attribute of HLO."""

    def handler(body: Body, operation: Operation) -> Results:
        _need_regions(operation, 1)
        pairs = [(other, index_text(numbers_of(body, operation, name))) for name, other in names]
        called = plain_region(body, operation, operation.regions[0])
        pairs.append(("to_apply", f"%{called.name}"))
        return body.results(operation, opcode, body.operands(operation), pairs, [called])

    return handler


def _sort(body: Body, operation: Operation) -> Results:
    _need_regions(operation, 1)
    dimension = numbers_of(body, operation, "dimension")
    operands = body.operands(operation)
    rank = operands[0].shape.rank if operands and isinstance(operands[0].shape, ArrayShape) else 0
    at = dimension[0] if dimension else -1
    called = plain_region(body, operation, operation.regions[0])
    pairs = [("dimensions", index_text([at + rank if at < 0 else at])), *flags(operation, "is_stable")]
    pairs.append(("to_apply", f"%{called.name}"))
    return body.results(operation, "sort", operands, pairs, [called])


def _scatter(body: Body, operation: Operation) -> Results:
    _need_regions(operation, 1)
    pairs = indexed(body, operation.attributes.get("scatter_dimension_numbers"), SCATTER)
    pairs += flags(operation, "indices_are_sorted", "unique_indices")
    called = plain_region(body, operation, operation.regions[0])
    pairs.append(("to_apply", f"%{called.name}"))
    return body.results(operation, "scatter", body.operands(operation), pairs, [called])


def _reduce_window(body: Body, operation: Operation) -> Results:
    _need_regions(operation, 1)
    names = {
        "stride": "window_strides",
        "pad": "padding",
        "lhs_dilate": "base_dilations",
        "rhs_dilate": "window_dilations",
    }
    sizes = numbers_of(body, operation, "window_dimensions")
    pairs = window_of(body, sizes, {name: operation.attributes.get(other) for name, other in names.items()})
    called = plain_region(body, operation, operation.regions[0])
    pairs.append(("to_apply", f"%{called.name}"))
    return body.results(operation, "reduce-window", body.operands(operation), pairs, [called])


def _select_and_scatter(body: Body, operation: Operation) -> Results:
    _need_regions(operation, 2)
    sizes = numbers_of(body, operation, "window_dimensions")
    named = {"stride": operation.attributes.get("window_strides"), "pad": operation.attributes.get("padding")}
    select, scatter = (plain_region(body, operation, region) for region in operation.regions)
    pairs = window_of(body, sizes, named)
    pairs += [("select", f"%{select.name}"), ("scatter", f"%{scatter.name}")]
    operands = body.operands(operation)
    return body.results(operation, "select-and-scatter", operands, pairs, [select, scatter])


def _all_reduce(body: Body, operation: Operation) -> Results:
    _need_regions(operation, 1)
    pairs = [*channel(body, operation), *replica_groups(body, operation), *global_ids(operation)]
    called = plain_region(body, operation, operation.regions[0])
    pairs.append(("to_apply", f"%{called.name}"))
    return body.results(operation, "all-reduce", body.operands(operation), pairs, [called])


def _reduce_scatter(body: Body, operation: Operation) -> Results:
    _need_regions(operation, 1)
    pairs = [*channel(body, operation), *replica_groups(body, operation), *global_ids(operation)]
    pairs.append(("dimensions", index_text(numbers_of(body, operation, "scatter_dimension"))))
    called = plain_region(body, operation, operation.regions[0])
    pairs.append(("to_apply", f"%{called.name}"))
    return body.results(operation, "reduce-scatter", body.operands(operation), pairs, [called])


# --- loops and branches ---


def _while(body: Body, operation: Operation) -> Results:
    """A loop: its state is a tuple unless it is one value; what no iteration changes is captured instead."""
    _need_regions(operation, 2)
    condition, step = operation.regions
    same = {number: operation.operands[number] for number in _unchanged(operation, body.program.unchanged)}
    renamed = {
        region.arguments[number].name: value
        for number, value in same.items()
        for region in operation.regions
        if number < len(region.arguments)
    }
    captured = _captured(body, operation, operation.regions, renamed)
    operands = body.operands(operation)
    initial = [operand for number, operand in enumerate(operands) if number not in same]
    initial += _once(captured)
    called = [
        _state_region(body, operation, step, captured, same, is_body=True),
        _state_region(body, operation, condition, captured, same, is_body=False),
    ]
    pairs = [("condition", f"%{called[1].name}"), ("body", f"%{called[0].name}")]
    if len(initial) == 1:
        made = [body.add(operation, opcodes.WHILE, initial[0].shape, initial, pairs, called, is_decorated=True)]
    else:
        shape = TupleShape(tuple([value.shape for value in initial]))
        packed = body.add(operation, opcodes.TUPLE, shape, initial)
        loop = body.add(operation, opcodes.WHILE, shape, [packed], pairs, called, is_decorated=True)
        made = body.elements(operation, loop, count=len(operands) - len(same))
    varying = iter(made)
    return [operand if number in same else next(varying) for number, operand in enumerate(operands)]


def _unchanged(loop: Operation, known: dict[Operation, frozenset[int]]) -> frozenset[int]:
    """The numbers of the values that every iteration of a loop returns as it got them, or as they were before it."""
    if loop in known:
        return known[loop]
    known[loop] = frozenset()
    step = loop.regions[1]
    returned = step.operations[-1].operands if step.operations and step.operations[-1].name in _RETURNS else []
    inner = {
        name: (operation, at)
        for operation in step.operations
        if operation.kind == "while"
        for name, at in _numbered(operation)
    }
    arguments = {argument.name: number for number, argument in enumerate(step.arguments)}
    numbers: set[int] = set()
    for _ in returned:  # each round that finds none is the last
        before = len(numbers)
        for number, value in enumerate(returned[: len(loop.operands)]):
            origin = _origin(value, inner, known)
            passed = arguments.get(origin[0])
            is_same = origin == loop.operands[number] or passed == number
            if is_same or (passed in numbers and loop.operands[passed or 0] == loop.operands[number]):
                numbers.add(number)
        if len(numbers) == before:
            break
    known[loop] = frozenset(numbers) if len(numbers) < len(loop.operands) else frozenset()
    return known[loop]


def _numbered(operation: Operation) -> Iterator[tuple[str, int]]:
    """The names of an operation's results, with the number of the first result of each."""
    at = 0
    for name, count in operation.results:
        yield name, at
        at += count


def _origin(
    value: ValueName, loops: Mapping[str, tuple[Operation, int]], known: dict[Operation, frozenset[int]]
) -> ValueName:
    """The value that loops in the same region pass through unchanged."""
    for _ in range(_LONGEST_CHAIN):
        if value[0] not in loops:
            break
        loop, at = loops[value[0]]
        number = at + value[1]
        if len(loop.regions) != 2 or number not in _unchanged(loop, known):
            break
        value = loop.operands[number]
    return value


_LONGEST_CHAIN: Final = 1000
"""Loops one after the other that pass a value through."""


def _conditional(body: Body, operation: Operation) -> Results:
    """`case` and `if`: what a branch uses from outside is its operand."""
    is_if = operation.kind == "if"
    if not operation.regions or (is_if and len(operation.regions) != 2):
        raise Unfit("it has no branches")
    _need_regions(operation, len(operation.regions))
    operands, called = body.operands(operation)[:1], []
    taken = splat_of(operands[0]) if operands else None
    if taken is not None:
        return _inlined(body, operation, taken)
    for region in operation.regions:
        captured = _captured(body, operation, [region])
        inner = _inner(body, operation, "branch")
        shapes = [value.shape for value in _once(captured)]
        parts = _parts(inner, operation, shapes, "arg" if len(shapes) == 1 else "arg_tuple")
        _bind(inner, captured, parts)
        called.append(inner.finish(_root(inner, operation, fill(inner, region.operations))))
        operands.append(_root(body, operation, _once(captured)))
    names = [f"%{computation.name}" for computation in called]
    pairs = [("branch_computations", f"{{{', '.join(names)}}}")]
    if is_if:
        pairs = [("true_computation", names[0]), ("false_computation", names[1])]
    return body.results(operation, opcodes.CONDITIONAL, operands, pairs, called)


def _inlined(body: Body, operation: Operation, index: str) -> Results:
    """The only branch that is ever taken, in the place of the conditional."""
    number = {"true": 0, "false": 1}.get(index, int(index) if index.isdecimal() and len(index) < 9 else -1)
    last = len(operation.regions) - 1
    outer = dict(body.values)
    made = fill(body, operation.regions[number if 0 <= number <= last else last].operations)
    body.values = outer
    return made


# --- calls ---


def _call(body: Body, operation: Operation) -> Results:
    name = operation.symbol("callee") or operation.symbol("decomposition")
    called = body.program.called.get(name)
    if called is None:
        raise Unfit(f"function @{name} is not in the text, or calls itself")
    pairs = [("to_apply", f"%{called.name}")]
    if operation.kind == "composite":
        pairs.append(("is_composite", "true"))
        pairs.append(("frontend_attributes", _composite(body, operation)))
        return _called(body, operation, called, body.operands(operation), pairs)
    return _called(body, operation, called, body.operands(operation), [*pairs, *body.decorations(operation)])


def _called(
    body: Body, operation: Operation, called: Computation, operands: Sequence[Instruction], pairs: list[tuple[str, str]]
) -> Results:
    """A call, whose result has the layout of what the computation returns."""
    shapes = body.result_shapes(operation)
    shape = shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))
    if called.root is not None and compatible(shape, called.root.shape):
        shape = called.root.shape
    made = body.add(operation, opcodes.CALL, shape, operands, pairs, [called])
    return [made] if len(shapes) == 1 else body.elements(operation, made)


def _composite(body: Body, operation: Operation) -> str:
    """The name, the attributes, and the version of a composite, as XLA keeps them."""
    name = operation.text("name") or next(iter(operation.words), "")
    attributes = operation.attributes.get("composite_attributes")
    version = operation.attributes.get("version")
    listed = {
        "composite.attributes": text_of(attributes, body.source) if isinstance(attributes, Entries) else "{}",
        "composite.name": name,
        "composite.version": version.text if isinstance(version, Number) else "0",
    }
    return "{" + ",".join(f"{key}={quoted(value)}" for key, value in listed.items()) + "}"


# --- Shardy ---

_TO_LOCAL, _TO_GLOBAL = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_BODY: Final = "xla.sdy.manual_computation_body"


def _sharding_constraint(body: Body, operation: Operation) -> Results:
    given = operation.text("angle") or operation.text("sharding").removeprefix("#sdy.sharding")
    sharding = hlo_sharding(given, body.program.meshes)
    operands = body.operands(operation)
    pairs = [("custom_call_target", quoted("Sharding"))]
    pairs += [("sharding", sharding)] if sharding is not None else []
    stated = quoted(f"#sdy.sharding_per_value<[{given}]>")
    pairs.append(("frontend_attributes", f"{{xla.sdy.sharding={stated}}}"))
    return [body.add(operation, opcodes.CUSTOM_CALL, one_shape(body, operation), operands, pairs)]


def _manual_computation(body: Body, operation: Operation) -> Results:
    """A part that each device runs on its own data: from global to local shapes, a call, and back."""
    _need_regions(operation, 1)
    region = operation.regions[0]
    captured = _captured(body, operation, [region])
    operands = body.operands(operation)
    manual = operation.text("manual_axes")
    axes = ("xla.sdy.manual_axes", manual if manual.startswith("#") else f"#sdy<manual_axes{manual}>")
    inward = ("xla.sdy.in_shardings", _per_value(operation.text("in_shardings")))
    outward = ("xla.sdy.out_shardings", _per_value(operation.text("out_shardings")))
    shapes = _argument_shapes(body, operation, region.arguments)
    local = _converted(body, operation, _TO_LOCAL, operands, shapes, (inward, axes)) if operands else []
    inner = _inner(body, operation, _BODY)
    for argument, shape in zip(region.arguments, shapes, strict=True):
        inner.values[argument.name] = (inner.parameter(argument.name, shape, argument.span),)
    _bind(inner, captured, [inner.parameter(value.name, value.shape, operation.span) for value in _once(captured)])
    returned = fill(inner, region.operations)
    called = inner.finish(_root(inner, operation, returned))
    pairs = [("to_apply", f"%{called.name}"), ("frontend_attributes", '{inlineable="false"}')]
    assert called.root is not None
    made = body.add(operation, opcodes.CALL, called.root.shape, [*local, *_once(captured)], pairs, [called])
    results = [made] if len(returned) == 1 else body.elements(operation, made)
    return _converted(body, operation, _TO_GLOBAL, results, body.result_shapes(operation), (axes, outward))


def _per_value(text: str) -> str:
    return text if text.startswith("#") else f"#sdy.sharding_per_value<{text}>"


def _converted(
    body: Body,
    operation: Operation,
    target: str,
    values: Sequence[Instruction],
    shapes: Sequence[Shape],
    frontend: Sequence[tuple[str, str]],
) -> list[Instruction]:
    """Values in the shapes that one device has, or that all have together."""
    listing = ",".join(f"{key}={quoted(text)}" for key, text in frontend)
    pairs = [("custom_call_target", quoted(target)), ("custom_call_has_side_effect", "true")]
    pairs.append(("frontend_attributes", f"{{{listing}}}"))
    if len(shapes) == 1:
        return [body.add(operation, opcodes.CUSTOM_CALL, shapes[0], values, pairs)]
    made = body.add(operation, opcodes.CUSTOM_CALL, TupleShape(tuple(shapes)), values, pairs)
    return body.elements(operation, made)


def _named_computation(body: Body, operation: Operation) -> Results:
    """A part with a name: a call."""
    _need_regions(operation, 1)
    region = operation.regions[0]
    inner = _inner(body, operation, next(iter(operation.words), "") or "named_computation")
    for argument, shape in zip(region.arguments, _argument_shapes(body, operation, region.arguments), strict=True):
        inner.values[argument.name] = (inner.parameter(argument.name, shape, argument.span),)
    called = inner.finish(_root(inner, operation, fill(inner, region.operations)))
    return _called(body, operation, called, body.operands(operation), [("to_apply", f"%{called.name}")])


def _passed_on(body: Body, operation: Operation) -> Results:
    """Operations that only state a sharding: their operand."""
    operands = body.operands(operation)
    return operands if len(operands) == 1 else opaque(body, operation)


# --- functions ---


def read_function(body: Body, function: Operation) -> Computation:
    """The computation of a function; what it returns is in a tuple if there are several values or none."""
    region = function.regions[0]
    program = body.program
    for argument in region.arguments:
        name = program.frames.name_of(argument.location)
        pairs = [*decorations(argument.attributes, program.meshes), *_metadata(body, argument)]
        shape = body.shape(argument.type, function)
        body.values[argument.name] = (body.parameter(name or argument.name, shape, argument.span, pairs),)
    returned = fill(body, region.operations)
    if body.computation.is_entry and any(
        "sdy.sharding" in result_attribute for result_attribute in function.result_attributes
    ):
        return body.finish(_sharded_results(body, function, returned))
    return body.finish(_plain_results(body, function, returned))


def _plain_results(body: Body, function: Operation, returned: Sequence[Instruction]) -> Instruction:
    """What a function returns, with the shardings that its results state as text."""
    root = _root(body, function, returned)
    texts = [result_attribute.get("mhlo.sharding") for result_attribute in function.result_attributes]
    stated = [text.value for text in texts if isinstance(text, Text)]
    if not body.computation.is_entry or not stated or len(stated) != len(returned):
        return root
    step = Operation("", function.span)
    if len(returned) > 1:
        pairs = [("sharding", f"{{{', '.join(stated)}}}")]
        return body.add(step, opcodes.TUPLE, root.shape, returned, pairs)
    return _element_with(body, step, root, stated[0])


def _element_with(body: Body, step: Operation, value: Instruction, sharding: str) -> Instruction:
    """A value with a sharding of its own, without changing the instruction: the element of a tuple of it."""
    packed = body.add(step, opcodes.TUPLE, TupleShape((value.shape,)), [value])
    return body.add(step, opcodes.GET_TUPLE_ELEMENT, value.shape, [packed], [("index", "0"), ("sharding", sharding)])


def _sharded_results(body: Body, function: Operation, returned: Sequence[Instruction]) -> Instruction:
    """Results with Shardy's shardings, each of which is a custom call (`SdyRoundTripShardMapExport`)."""
    step, values, shardings = Operation("", function.span), [], list[str]()
    attributes = [*function.result_attributes, *({},) * len(returned)]
    for value, attribute in zip(returned, attributes, strict=False):
        text = getattr(attribute.get("sdy.sharding"), "text", "")
        shardings.append((hlo_sharding(text, body.program.meshes) if text else None) or "{replicated}")
        if text:
            per_value = quoted(f"#sdy.sharding_per_value<[{text.removeprefix('#sdy.sharding')}]>")
            pairs = [("custom_call_target", quoted("xla.sdy.FuncResultSharding"))]
            pairs += [("custom_call_has_side_effect", "true")]
            pairs.append(("frontend_attributes", f"{{xla.sdy.sharding={per_value}}}"))
            metadata = value.attribute("metadata")
            pairs += [("metadata", metadata)] if metadata else []
            value = body.add(step, opcodes.CUSTOM_CALL, value.shape, [value], pairs)
        values.append(value)
    if len(values) == 1:
        return _element_with(body, step, values[0], shardings[0])
    shape = TupleShape(tuple([value.shape for value in values]))
    return body.add(step, opcodes.TUPLE, shape, values, [("sharding", f"{{{', '.join(shardings)}}}")])


REGIONS: Final[Mapping[str, Handler]] = {
    "reduce": _reduce,
    "sort": _sort,
    "scatter": _scatter,
    "map": _with_region("map", ("dimensions", "dimensions")),
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "while": _while,
    "case": _conditional,
    "if": _conditional,
    "composite": _call,
}
"""Operations of StableHLO and MHLO with regions or functions."""

_OTHERS: Final[Mapping[str, Handler]] = {
    "call": _call,
    "func.call": _call,
    "sdy.sharding_constraint": _sharding_constraint,
    "sdy.manual_computation": _manual_computation,
    "sdy.named_computation": _named_computation,
    "sdy.propagation_barrier": _passed_on,
    "sdy.reshard": _sharding_constraint,
}
"""Operations of other dialects."""
