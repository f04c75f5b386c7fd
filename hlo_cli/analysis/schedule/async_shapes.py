"""Verifier rules for shapes of async operations: bound operands, output, and contexts.

Mirrors `CheckAsyncOpComputationShapes` and its callers in xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import AsyncContext
from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.analysis.shapes.asynchronous import is_prefix, output_buffers
from hlo_cli.analysis.shapes.comparison import shape_difference
from hlo_cli.analysis.shapes.operands import sizes_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import NATIVE_DONES
from hlo_cli.ir.shape import Shape, TupleShape, compatible, subshape
from hlo_cli.source import HloError

_UNBOUND: Final = TupleShape(())
"""The shape of an output that is not yet bound."""
_WITH_COMPUTATION: Final = (opcodes.CALL, opcodes.FUSION)
"""Operations whose sugared start refers to a computation."""


def check_async_shape(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports starts and updates whose shape is not ((operands), output, contexts…)."""
    for member in _members_with_binding(pair):
        if parts_of(member) is None:
            yield Problem(
                member, f"{member.name}: expected shape ((operands), output, contexts…), found {member.shape}"
            )
            return


def check_bound_operands(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports operands that differ from the bound part of the shape or from the computation's parameters."""
    wrapped = _wrapped(pair)
    for member, (bound_operands, output) in _bound_parts(pair):
        # hlo_verifier.cc: with late binding, the operand tuple may be a prefix of the parameters, and the output may
        # be ().
        parameters = TupleShape(tuple(parameter.shape for parameter in wrapped.parameters)) if wrapped else None
        if parameters is not None and wrapped is not None and not is_prefix(bound_operands, parameters):
            words = f"the operands in its shape are not the first parameters of {wrapped.name}"
            yield Problem(member, f"{member.name}: {words}")
        earlier = _earlier(member, within)
        if earlier is None:
            yield from _check_operand_shapes(member, bound_operands.elements, 0, ())
        elif _extends(earlier, (bound_operands, output)):
            added = bound_operands.elements[len(earlier[0].elements) :]
            yield from _check_operand_shapes(member, added, 1, output_buffers(earlier[1], output))


def check_output(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports outputs of starts, updates, and dones that differ from the root of the computation."""
    if pair.form == "native":
        of_its_kind = (done for done in pair.dones if done.opcode == NATIVE_DONES[pair.start.opcode])
        for member in (pair.start, *of_its_kind):
            yield from _check_inferred_shape(member, within)
        return
    wrapped = _wrapped(pair)
    for member, (_, output) in _bound_parts(pair):
        if wrapped is not None and wrapped.root is not None and not is_prefix(output, wrapped.root.shape):
            returned = f"{wrapped.name} returns {sizes_of(wrapped.root.shape)}"
            yield Problem(member, f"{member.name}: its output is {sizes_of(output)}, but {returned}")
    for done, (_, output) in _dones_with_parts(pair, within):
        expected = output if wrapped is None or wrapped.root is None else wrapped.root.shape
        is_late = wrapped is None and expected == _UNBOUND
        if not is_late and not compatible(expected, done.shape):
            words = f"expected the shape {sizes_of(expected)}, found {sizes_of(done.shape)}"
            yield Problem(done, f"{done.name}: {words}")


def check_bound_prefix(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports updates that do not extend the bound part of the member before."""
    for member, parts in _bound_parts(pair):
        earlier = _earlier(member, within)
        if earlier is not None and not _extends(earlier, parts):
            words = "its shape binds fewer or different operands than the previous operation"
            yield Problem(member, f"{member.name}: {words}")


def check_all_bound(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports dones before which not all parameters are bound; the output need not be."""
    wrapped = _wrapped(pair)
    for done, (bound_operands, _) in _dones_with_parts(pair, within):
        if wrapped is not None and len(bound_operands.elements) < len(wrapped.parameters):
            unbound = [p.name for p in islice(wrapped.parameters, len(bound_operands.elements), None)]
            parameters = f"parameter {unbound[0]}" if len(unbound) == 1 else f"parameters {', '.join(unbound)}"
            verb = "is" if len(unbound) == 1 else "are"
            yield Problem(done, f"{done.name}: {parameters} of {wrapped.name} {verb} not bound")


def parts_of(member: Instruction) -> tuple[TupleShape, Shape] | None:
    """Returns the operands bound so far and the output, from the shape of a start or update; None if malformed.

    >>> from hlo_cli import parse_module
    >>> bound, output = parts_of(parse_module("s = ((f32[4]), f32[2], u32[]) slice-start(f32[4] p)").entry.root)
    >>> print(bound, output)
    (f32[4]{0}) f32[2]{0}
    """
    bound_operands, output = subshape(member.shape, (0,)), subshape(member.shape, (1,))
    return (bound_operands, output) if isinstance(bound_operands, TupleShape) and output is not None else None


def _members_with_binding(pair: AsyncPair) -> tuple[Instruction, ...]:
    """Returns the start and the updates if their form has bound operands in the shape."""
    return (pair.start, *pair.updates) if pair.form in ("generic", "sugared") else ()


def _bound_parts(pair: AsyncPair) -> Iterator[tuple[Instruction, tuple[TupleShape, Shape]]]:
    """Yields starts and updates with their bound parts, up to the first malformed one."""
    for member in _members_with_binding(pair):
        parts = parts_of(member)
        if parts is None:
            return
        yield member, parts


def _dones_with_parts(pair: AsyncPair, within: AsyncContext) -> Iterator[tuple[Instruction, tuple[TupleShape, Shape]]]:
    """Yields the dones with the parts that are bound before them."""
    if any(parts_of(member) is None for member in _members_with_binding(pair)):
        return
    for done in pair.dones if _members_with_binding(pair) else ():
        before = (each for each in within.found.continues.get(done, ()) if each in pair.members)
        parts = parts_of(next(before, pair.start))
        if parts is not None:
            yield done, parts


def _wrapped(pair: AsyncPair) -> Computation | None:
    """Returns the computation whose parameters are the operands: that of a generic form or of a sugared call."""
    return pair.computation if pair.form == "generic" or pair.operation in _WITH_COMPUTATION else None


def _earlier(member: Instruction, within: AsyncContext) -> tuple[TupleShape, Shape] | None:
    """Returns the bound parts of the member before an update, or None."""
    before = within.found.continues.get(member, ())
    return next((parts for each in before if (parts := parts_of(each))), None)


def _extends(earlier: tuple[TupleShape, Shape], parts: tuple[TupleShape, Shape]) -> bool:
    """Returns whether bound parts extend earlier ones."""
    return is_prefix(earlier[0], parts[0]) and is_prefix(earlier[1], parts[1])


def _check_operand_shapes(
    member: Instruction, bound: tuple[Shape, ...], first: int, buffers: tuple[Shape, ...]
) -> Iterator[Problem]:
    """Reports operands that differ from the shapes bound by a member; `buffers` are those of a late output."""
    operands = range(first, len(member.operands))
    if len(operands) == len(bound) + len(buffers):
        bound = (*bound, *buffers)
    if len(operands) != len(bound):
        more = "more " if first else ""
        noun = "operand" if len(bound) == 1 else "operands"
        words = f"its shape binds {len(bound)} {more}{noun}, but it has {len(operands)}"
        yield Problem(member, f"{member.name}: {words}")
        return
    for position, shape in zip(operands, bound, strict=True):
        if not compatible(member.operand_shape(position), shape):
            found = f"{sizes_of(member.operand_shape(position))}, but its shape binds {sizes_of(shape)}"
            yield Problem(member, f"{member.name}: operand {position} is {found}")


def _check_inferred_shape(member: Instruction, within: AsyncContext) -> Iterator[Problem]:
    """Reports a shape that differs from the inferred one."""
    try:
        difference = shape_difference(
            member, within.module, allow_mixed_precision=True
        )  # element widths have a rule of their own
    except HloError as error:
        difference = error.diagnostic.message
    if difference is not None:
        yield Problem(member, f"{member.name}: {difference}")
