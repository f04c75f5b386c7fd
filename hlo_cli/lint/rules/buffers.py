"""HLO04x: buffer values, `b(f32[4])`, which are written in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.shapes.inference import same_layout
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import BufferShape, Shape, ShapeIndex, compatible, subshape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.lint.structure import start_around
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_count

_WRITERS: Final = frozenset(
    (
        opcodes.CUSTOM_CALL,
        opcodes.FUSION,
        opcodes.CALL,
        opcodes.WHILE,
        opcodes.CONDITIONAL,
        opcodes.DYNAMIC_UPDATE_SLICE,
    )
)
_CARRIERS: Final = _WRITERS | frozenset(
    (opcodes.ASYNC_DONE, opcodes.ASYNC_UPDATE, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE)
)
_CONVERSIONS: Final = {"CreateBuffer": 0, "Pin": 1, "Unpin": 1}


@rule("HLO040", "misplaced buffer value")
def misplaced_buffer(context: LintContext) -> Iterator[Finding]:
    """A buffer value is an entry parameter, or is used by an opcode that does not support buffers.

    Why: A buffer is memory, not an array. It can be created, pinned, passed on, or written by a custom call or a
    dynamic-update-slice, but other operations cannot compute with it.

    Example:
        y = b(f32[4]) negate(x)

    Fix: Use an Unpin custom call to get the array first, or Pin after the operation.

    Reference: xla/service/hlo_verifier.cc, the verification of buffer types
    """
    for instruction in context.with_buffers:
        opcode = instruction.opcode
        if opcode == opcodes.PARAMETER and instruction.computation.is_entry:
            message = f"entry parameter {instruction.name} is a buffer; entry parameters must be arrays"
            yield context.finding(message, instruction, shape_span(context.module, instruction))
        elif opcode not in _CARRIERS and not opcode.endswith(("-start", "-update", "-done")):
            yield context.finding(f"{instruction.name}: {opcode} does not support buffers", instruction)


@rule("HLO041", "buffer with two writers")
def two_writers(context: LintContext) -> Iterator[Finding]:
    """Two instructions take the same buffer and can write to it.

    Why: Each of them writes in place and returns the buffer under a new name, so one would see what the other wrote.
    The body of a loop also writes to the buffer that it returns for the next iteration.

    Example:
        b = b(f32[4]) custom-call(x), custom_call_target="Pin"
        y = b(f32[4]) custom-call(b), custom_call_target="f"
        z = b(f32[4]) custom-call(b), custom_call_target="g"

    Fix: Make the second instruction take the buffer that the first one returns.

    Reference: xla/service/hlo_verifier.cc, the verification of buffer types
    """
    for instruction in context.with_buffers:
        for index, leaf in instruction.shape.leaves:
            if isinstance(leaf, BufferShape) and instruction.opcode not in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT):
                writers = list(_writers(context, instruction, index))
                for second in writers[1:]:
                    first = writers[0].name
                    yield context.finding(f"{second.name} and {first} both take the buffer {instruction.name}", second)


@rule("HLO042", "unaliased buffer in custom call")
def unaliased_buffer(context: LintContext) -> Iterator[Finding]:
    """A custom call takes a buffer without returning it, or returns a buffer that it did not take.

    Why: Buffers are written in place, so each buffer operand must be returned in the same memory, with one entry of
    output_to_operand_aliasing and equal shapes. Only Pin, Unpin, and CreateBuffer convert between arrays and buffers.

    Example:
        y = b(f32[4]) custom-call(b), custom_call_target="f"

    Fix: Add output_to_operand_aliasing={{}: (0, {})}.

    Reference: xla/service/hlo_verifier.cc, the verification of buffer types
    """
    starts = (start for start in context.of(opcodes.ASYNC_START) if start.attribute("output_to_operand_aliasing"))
    aliased = {called for start in starts for called in start.called_computations}  # starts hold it
    for call in context.with_buffers:
        if call.opcode not in (opcodes.CUSTOM_CALL, "custom-call-start") or call.computation in aliased:
            continue
        aliases = call.items_of("output_to_operand_aliasing", OutputOperandAlias)
        target = call.string("custom_call_target") or ""
        start = start_around(context.module, call)  # the only one of both in a text with short forms
        named = start if start is not None and len(start.operands) == len(call.operands) else call
        is_conversion = target in _CONVERSIONS
        message = (
            _conversion_problem(context, named, target, aliases) if is_conversion else _alias_problem(named, aliases)
        )
        if message is not None:
            yield context.finding(f"{named.name}: {message}", named)


def _writers(context: LintContext, maker: Instruction, index: ShapeIndex) -> Iterator[Instruction]:
    """Users that may write to a buffer, also through tuples; the root of a loop's body, for the next iteration."""
    bodies = {loop.called_computations[0] for loop in context.of(opcodes.WHILE) if loop.called_computations}
    waiting, seen = [(maker, index)], {(maker, index)}
    while waiting:
        instruction, at = waiting.pop()
        if instruction.is_root and instruction.computation in bodies:
            yield instruction
        for user in context.users.get(instruction, ()):
            for position, operand in enumerate(user.operands):
                if operand is not instruction:
                    continue
                taken = user.operand_index(position)
                rest = at[len(taken) :]
                if at[: len(taken)] != taken:
                    continue
                if user.opcode in _WRITERS or user.opcode.endswith("-start"):
                    yield user
                    continue
                place: tuple[Instruction, ShapeIndex] | None = None
                if user.opcode == opcodes.TUPLE:
                    place = (user, (position, *rest))
                elif user.opcode == opcodes.GET_TUPLE_ELEMENT and rest[:1] == (user.integer("index"),):
                    place = (user, rest[1:])
                if place is not None and place not in seen:
                    seen.add(place)
                    waiting.append(place)


def _conversion_problem(
    context: LintContext, call: Instruction, target: str, aliases: tuple[OutputOperandAlias, ...]
) -> str | None:
    """The problem of a call that converts an array to a buffer, or a buffer to an array."""
    expected = _CONVERSIONS[target]
    if len(call.operands) != expected:
        return f"{target} takes {format_count(expected, 'operands')}, got {len(call.operands)}"
    result = _result_of(call)
    is_buffer = isinstance(result, BufferShape)
    if result is None or is_buffer == (target == "Unpin"):
        return f"{target} cannot return {result or call.shape}"
    if target == "CreateBuffer":
        return None
    operand = call.operand_shape(0)
    if isinstance(operand, BufferShape) == is_buffer:
        return f"{target} cannot take {operand}"
    if len(aliases) != 1:
        return f"{target} must alias its operand exactly once, got {format_count(len(aliases), 'aliases')}"
    is_alike = same_layout if context.is_layout_sensitive else compatible
    fits = is_alike(_bare(operand), _bare(result))
    return None if fits else f"{target} cannot turn {operand} into {result}"


def _alias_problem(call: Instruction, aliases: tuple[OutputOperandAlias, ...]) -> str | None:
    given = [(alias.operand_number, alias.operand_index) for alias in aliases]
    results = [alias.output_index for alias in aliases]
    for position in range(len(call.operands)):
        for index, leaf in call.operand_shape(position).leaves:
            if isinstance(leaf, BufferShape) and given.count((position, index)) != 1:
                times = given.count((position, index))
                return f"buffer {call.operands[position].name} is returned {times} times, expected once"
    result = _result_of(call)
    for index, leaf in result.leaves if result is not None else ():
        if isinstance(leaf, BufferShape) and results.count(index) != 1:
            return f"the returned buffer aliases {results.count(index)} operands, expected one"
    return None


def _result_of(call: Instruction) -> Shape | None:
    """The result shape of a call; for an async-start, the result of its done, None if it has no such shape."""
    return call.shape if call.opcode == opcodes.CUSTOM_CALL else subshape(call.shape, (1,))


def _bare(shape: Shape) -> Shape:
    return shape.array if isinstance(shape, BufferShape) else shape
