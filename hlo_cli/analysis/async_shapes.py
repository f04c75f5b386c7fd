"""The shapes of asynchronous operations: what a start has bound, what an update adds, and what a done gives.

Mirrors `CheckAsyncOpComputationShapes` and its callers of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from hlo_cli.analysis.async_pairs import NATIVE_DONES, AsyncPair, is_end
from hlo_cli.analysis.inference.operands import sizes_of
from hlo_cli.analysis.shape_comparison import shape_difference
from hlo_cli.ir.aliasing import OutputOperandAlias
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, TupleShape, subshape
from hlo_cli.source import HloError

Problem = tuple[Instruction, str]


def shape_problems(
    module: Module, pair: AsyncPair, before: Mapping[Instruction, tuple[Instruction, ...]]
) -> Iterator[Problem]:
    """What is wrong with the shapes of a pair's members, and with what they say is aliased.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.async_pairs import async_pairs
    >>> text = '''HloModule m
    ... w { a = f32[4] parameter(0) ROOT n = f32[4] negate(a) }
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[8], u32[]) async-start(p), calls=w
    ...   ROOT d = f32[4] async-done(s) }'''
    >>> module = parse_module(text)
    >>> found = async_pairs(module)
    >>> list(shape_problems(module, found.pairs[0], found.continues))
    [(<async-start s>, 'its output is f32[8], but w gives f32[4]')]
    """
    if pair.spelling == "native":
        of_its_kind = (done for done in pair.dones if done.opcode == NATIVE_DONES[pair.start.opcode])
        for member in (pair.start, *of_its_kind):
            yield from _native_problems(module, member)
    elif pair.spelling != "fusion":
        yield from _generic_problems(pair, before)
        for member in (pair.start, *pair.updates):
            yield from _alias_problems(pair, member)


def is_prefix(first: Shape, second: Shape) -> bool:
    """Whether a shape is the beginning of another: the same, an empty tuple, or a tuple of beginnings.

    >>> from hlo_cli import parse_shape
    >>> is_prefix(parse_shape("(f32[2])"), parse_shape("(f32[2], f32[3])"))
    True
    """
    if isinstance(first, TupleShape) and not first.elements:
        return True
    if not isinstance(first, TupleShape) or not isinstance(second, TupleShape):
        return compatible(first, second)
    if len(first.elements) > len(second.elements):
        return False
    return all(is_prefix(a, b) for a, b in zip(first.elements, second.elements, strict=False))


def _native_problems(module: Module, member: Instruction) -> Iterator[Problem]:
    try:
        difference = shape_difference(member, module)
    except HloError as error:
        difference = error.diagnostic.message
    if difference is not None:
        yield member, difference


def _generic_problems(pair: AsyncPair, before: Mapping[Instruction, tuple[Instruction, ...]]) -> Iterator[Problem]:
    wrapped = pair.computation if pair.spelling == "generic" else None
    for member in (pair.start, *pair.updates):
        parts = _parts(member)
        if parts is None:
            yield member, f"its shape is not ((operands), output, contexts…): {member.shape}"
            return
        given, output = parts
        if wrapped is not None:
            yield from _wrapped_problems(member, given, output, wrapped)
        earlier = next((found for each in before.get(member, ()) if (found := _parts(each))), None)
        had = earlier[0].elements if earlier is not None else ()
        if earlier is not None and not (is_prefix(earlier[0], given) and is_prefix(earlier[1], output)):
            yield member, "it has less bound than the operation before it, or something else"
        else:
            yield from _operand_problems(member, given.elements[len(had) :], 0 if earlier is None else 1)
    for done in pair.dones:
        yield from _done_problems(pair, done, wrapped, before)


def _parts(member: Instruction) -> tuple[TupleShape, Shape] | None:
    """The operands bound so far and the output, as the shape of a start or an update has them."""
    given, output = subshape(member.shape, (0,)), subshape(member.shape, (1,))
    return (given, output) if isinstance(given, TupleShape) and output is not None else None


def _wrapped_problems(member: Instruction, given: TupleShape, output: Shape, wrapped: Computation) -> Iterator[Problem]:
    if not is_prefix(given, TupleShape(tuple(parameter.shape for parameter in wrapped.parameters))):
        yield member, f"the operands in its shape are not the first parameters of {wrapped.name}"
    if wrapped.root is not None and not is_prefix(output, wrapped.root.shape):
        yield member, f"its output is {sizes_of(output)}, but {wrapped.name} gives {sizes_of(wrapped.root.shape)}"


def _operand_problems(member: Instruction, bound: tuple[Shape, ...], first: int) -> Iterator[Problem]:
    operands = range(first, len(member.operands))
    if len(operands) != len(bound):
        more = "more " if first else ""
        noun = "operand" if len(bound) == 1 else "operands"
        yield member, f"its shape says that it binds {len(bound)} {more}{noun}, but it is given {len(operands)}"
        return
    for position, shape in zip(operands, bound, strict=True):
        if not compatible(member.operand_shape(position), shape):
            found = sizes_of(member.operand_shape(position))
            yield member, f"operand {position} is {found}, but its shape says {sizes_of(shape)}"


def _done_problems(
    pair: AsyncPair,
    done: Instruction,
    wrapped: Computation | None,
    before: Mapping[Instruction, tuple[Instruction, ...]],
) -> Iterator[Problem]:
    earlier = next((each for each in before.get(done, ()) if each in pair.members), pair.start)
    parts = _parts(earlier)
    if parts is None:
        return
    if wrapped is not None and len(parts[0].elements) < len(wrapped.parameters):
        unbound = ", ".join(p.name for p in islice(wrapped.parameters, len(parts[0].elements), None))
        yield done, f"{unbound} of {wrapped.name} is not bound when it is waited for"
    expected = parts[1] if wrapped is None or wrapped.root is None else wrapped.root.shape
    is_late = wrapped is None and isinstance(expected, TupleShape) and not expected.elements
    if not is_late and not compatible(expected, done.shape):
        yield done, f"expected the shape {sizes_of(expected)}, found {sizes_of(done.shape)}"


def _alias_problems(pair: AsyncPair, member: Instruction) -> Iterator[Problem]:
    """Whether what overwrites an operand has its shape: of a start, the parameter's; of an update, a context's."""
    parameters = pair.computation.parameters if pair.computation is not None else ()
    for alias in member.items_of("output_to_operand_aliasing", OutputOperandAlias):
        output = subshape(member.shape, alias.output_index)
        if is_end(member):
            contexts = alias.output_index[:1] == alias.operand_index[:1] == (2,) and alias.operand_number == 0
            given = subshape(member.operand_shape(0), alias.operand_index) if contexts else None
        elif pair.spelling == "generic":
            known = alias.operand_number < len(parameters) and alias.output_index
            given = subshape(parameters[alias.operand_number].shape, alias.operand_index) if known else None
            output = _late(pair, alias.output_index) or output
        else:
            return
        if given is None or output is None or not compatible(given, output):
            yield member, f"it cannot alias {alias}: there are no two such parts of one shape"


def _late(pair: AsyncPair, index: tuple[int, ...]) -> Shape | None:
    """What stands at an index of a start that has bound all: output and operands as the computation has them."""
    computation = pair.computation
    if computation is None or computation.root is None or not index:
        return None
    if index[0] == 1:
        return subshape(computation.root.shape, index[1:])
    if index[0] == 0:
        return subshape(TupleShape(tuple(parameter.shape for parameter in computation.parameters)), index[1:])
    return None
