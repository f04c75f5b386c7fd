"""Rules of the shapes of asynchronous operations: what a start has bound, what an update adds, what a done gives.

Mirrors `CheckAsyncOpComputationShapes` and its callers of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import Asynchronous
from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.analysis.shapes.asynchronous import is_prefix, output_buffers
from hlo_cli.analysis.shapes.comparison import shape_difference
from hlo_cli.analysis.shapes.operands import sizes_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import NATIVE_DONES
from hlo_cli.ir.shape import Shape, TupleShape, subshape
from hlo_cli.source import HloError

_NOTHING: Final = TupleShape(())
_RUNNING: Final = (opcodes.CALL, opcodes.FUSION)
"""What a sugared start hands its operands to a computation by."""


def no_async_shape(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """A start or update is a tuple of its operands' tuple, its output, and contexts."""
    for member in _bearers(pair):
        if parts_of(member) is None:
            yield Problem(member, f"{member.name}: its shape is not ((operands), output, contexts…): {member.shape}")
            return


def other_operands(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """Operands are those that the shape says, in number and shape, and the first parameters of the computation."""
    wrapped = _wrapped(pair)
    for member, (given, output) in _told(pair):
        parameters = TupleShape(tuple(parameter.shape for parameter in wrapped.parameters)) if wrapped else None
        if parameters is not None and wrapped is not None and not is_prefix(given, parameters):
            words = f"the operands in its shape are not the first parameters of {wrapped.name}"
            yield Problem(member, f"{member.name}: {words}")
        earlier = _earlier(member, within)
        if earlier is None:
            yield from _unlike_shape(member, given.elements, 0, ())
        elif _goes_on(earlier, (given, output)):
            added = given.elements[len(earlier[0].elements) :]
            yield from _unlike_shape(member, added, 1, output_buffers(earlier[1], output))


def other_output(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """The output of starts, updates and dones is that of the computation, as far as it is bound."""
    if pair.spelling == "native":
        of_its_kind = (done for done in pair.dones if done.opcode == NATIVE_DONES[pair.start.opcode])
        for member in (pair.start, *of_its_kind):
            yield from _unlike_inferred(member, within)
        return
    wrapped = _wrapped(pair)
    for member, (_, output) in _told(pair):
        if wrapped is not None and wrapped.root is not None and not is_prefix(output, wrapped.root.shape):
            gives = f"{wrapped.name} gives {sizes_of(wrapped.root.shape)}"
            yield Problem(member, f"{member.name}: its output is {sizes_of(output)}, but {gives}")
    for done, (_, output) in _ends(pair, within):
        expected = output if wrapped is None or wrapped.root is None else wrapped.root.shape
        is_late = wrapped is None and expected == _NOTHING
        if not is_late and not compatible(expected, done.shape):
            words = f"expected the shape {sizes_of(expected)}, found {sizes_of(done.shape)}"
            yield Problem(done, f"{done.name}: {words}")


def less_bound(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """An update has bound what the operation before it has bound, and maybe more."""
    for member, parts in _told(pair):
        earlier = _earlier(member, within)
        if earlier is not None and not _goes_on(earlier, parts):
            words = "it has less bound than the operation before it, or something else"
            yield Problem(member, f"{member.name}: {words}")


def not_bound(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """All operands are bound when something waits for the result; the output need not be."""
    wrapped = _wrapped(pair)
    for done, (given, _) in _ends(pair, within):
        if wrapped is not None and len(given.elements) < len(wrapped.parameters):
            unbound = ", ".join(p.name for p in islice(wrapped.parameters, len(given.elements), None))
            yield Problem(done, f"{done.name}: {unbound} of {wrapped.name} is not bound when it is waited for")


def parts_of(member: Instruction) -> tuple[TupleShape, Shape] | None:
    """The operands bound so far and the output, as the shape of a start or an update has them.

    >>> from hlo_cli import parse_module
    >>> bound, output = parts_of(parse_module("s = ((f32[4]), f32[2], u32[]) slice-start(f32[4] p)").entry.root)
    >>> print(bound, output)
    (f32[4]{0}) f32[2]{0}
    """
    given, output = subshape(member.shape, (0,)), subshape(member.shape, (1,))
    return (given, output) if isinstance(given, TupleShape) and output is not None else None


def _bearers(pair: AsyncPair) -> tuple[Instruction, ...]:
    """The start and the updates, where their shape says what is bound."""
    return (pair.start, *pair.updates) if pair.spelling in ("generic", "sugared") else ()


def _told(pair: AsyncPair) -> Iterator[tuple[Instruction, tuple[TupleShape, Shape]]]:
    """Starts and updates with what they have bound, up to the first that does not say so."""
    for member in _bearers(pair):
        parts = parts_of(member)
        if parts is None:
            return
        yield member, parts


def _ends(pair: AsyncPair, within: Asynchronous) -> Iterator[tuple[Instruction, tuple[TupleShape, Shape]]]:
    """The dones, with what is bound by then."""
    if any(parts_of(member) is None for member in _bearers(pair)):
        return
    for done in pair.dones if _bearers(pair) else ():
        before = (each for each in within.found.continues.get(done, ()) if each in pair.members)
        parts = parts_of(next(before, pair.start))
        if parts is not None:
            yield done, parts


def _wrapped(pair: AsyncPair) -> Computation | None:
    """The computation whose parameters the operands are: that of a generic operation, or what a sugared call runs."""
    return pair.computation if pair.spelling == "generic" or pair.operation in _RUNNING else None


def _earlier(member: Instruction, within: Asynchronous) -> tuple[TupleShape, Shape] | None:
    before = within.found.continues.get(member, ())
    return next((parts for each in before if (parts := parts_of(each))), None)


def _goes_on(earlier: tuple[TupleShape, Shape], parts: tuple[TupleShape, Shape]) -> bool:
    return is_prefix(earlier[0], parts[0]) and is_prefix(earlier[1], parts[1])


def _unlike_shape(
    member: Instruction, bound: tuple[Shape, ...], first: int, buffers: tuple[Shape, ...]
) -> Iterator[Problem]:
    """Where operands are not those that a shape says are bound, and `buffers` for an output that is bound late."""
    operands = range(first, len(member.operands))
    if len(operands) == len(bound) + len(buffers):
        bound = (*bound, *buffers)
    if len(operands) != len(bound):
        more = "more " if first else ""
        noun = "operand" if len(bound) == 1 else "operands"
        words = f"its shape says that it binds {len(bound)} {more}{noun}, but it is given {len(operands)}"
        yield Problem(member, f"{member.name}: {words}")
        return
    for position, shape in zip(operands, bound, strict=True):
        if not compatible(member.operand_shape(position), shape):
            found = f"{sizes_of(member.operand_shape(position))}, but its shape says {sizes_of(shape)}"
            yield Problem(member, f"{member.name}: operand {position} is {found}")


def _unlike_inferred(member: Instruction, within: Asynchronous) -> Iterator[Problem]:
    try:
        difference = shape_difference(member, within.module, allow_mixed_precision=True)  # widths are another rule's
    except HloError as error:
        difference = error.diagnostic.message
    if difference is not None:
        yield Problem(member, f"{member.name}: {difference}")
