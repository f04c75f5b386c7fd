"""Where does a value come from and go to: through moves, through conversions and back, unchanged through a loop?"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from hlo_cli.analysis.dataflow.dependencies import PASSES_ON_ONE_VALUE, instruction_post_order, uses_of
from hlo_cli.analysis.fusion.fusion_bodies import roots_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction, Users
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.operations import ASYNCHRONOUS, CHANNEL_OPCODES, CONTROL_FLOW, HOST_FEEDS, MOVES, RANDOM_STATE
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.finding_facts import MAX_STEPS
from hlo_cli.lint.rule import LintContext

# --- producers and uses, through forwarding instructions and into fusions ---


class Use(NamedTuple):
    """An instruction that uses a value, and the operand through which it does."""

    instruction: Instruction
    value: Instruction


def transitive_uses(value: Instruction, users: Users) -> Iterator[Use]:
    """The uses of a value; for a fusion, the uses inside.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.ir.instruction import users_among
    >>> module = parse_module('''HloModule m  f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }''')
    >>> list(transitive_uses(module.entry.parameters[0], users_among(list(module.instructions))))
    [Use(instruction=<negate n>, value=<parameter p>)]
    """
    waiting, seen = [value], {value}
    while waiting:
        made = waiting.pop()
        for user in uses_of(made, users):
            if user.opcode != opcodes.FUSION or not user.called_computations:
                yield from (
                    Use(user, operand) for operand in dict.fromkeys(user.operands) if derives_from(operand, made)
                )
                continue
            taken = zip(user.operands, user.called_computations[0].parameters, strict=False)
            for operand, parameter in taken:
                if parameter not in seen and derives_from(operand, made):
                    seen.add(parameter)
                    waiting.append(parameter)


def derives_from(operand: Instruction, producer: Instruction) -> bool:
    """Whether an operand is `producer` itself, or forwards it.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[4] parameter(0)  ROOT b = f32[2,2] bitcast(p) }").entry
    >>> derives_from(entry.root, entry.parameters[0])
    True
    """
    for _ in range(MAX_STEPS):
        if operand is producer:
            return True
        if operand.opcode not in PASSES_ON_ONE_VALUE or not operand.operands:
            return False
        operand = operand.operands[0]
    return False


def producer_through(context: LintContext, value: Instruction, through: Container[str] = ("bitcast",)) -> Instruction:
    """The producer of a value: through the opcodes in `through`, into a producing fusion, and out of a consuming one.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> module = parse_module('''HloModule m  f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { a = f32[2] parameter(0)  b = f32[2] fusion(a), kind=kLoop, calls=f  ROOT c = f32[2] bitcast(b) }''')
    >>> context = LintContext(module, LintSettings())
    >>> producer_through(context, module.entry.root), producer_through(context, module.computation("f").parameters[0])
    (<negate n>, <parameter a>)
    """
    for _ in range(MAX_STEPS):
        if (before := _step_back(context, value, through)) is None:
            break
        value = before
    return value


def _step_back(context: LintContext, value: Instruction, through: Container[str]) -> Instruction | None:
    called = value.called_computations
    match value.opcode:
        case opcodes.FUSION if called and (root := called[0].root) is not None and root.opcode != opcodes.TUPLE:
            return root
        case opcodes.GET_TUPLE_ELEMENT if value.operands and value.operands[0].opcode == opcodes.FUSION:
            fused = value.operands[0].called_computations
            results = roots_of(fused[0]) if fused else ()
            number = value.integer("index") or 0
            return results[number] if number < len(results) else None
        case opcodes.PARAMETER if value.computation in context.fused:
            # A shared fused computation has no single operand for a parameter.
            [*callers] = context.contexts.callers.get(value.computation, ())
            given = callers[0].operands if len(callers) == 1 else ()
            taken = value.parameter_number
            return given[taken] if taken is not None and taken < len(given) else None
        case opcode if opcode in through and value.operands:
            return value.operands[0]
    return None


# --- conversions to another type and back ---


class RoundTrip(NamedTuple):
    """The conversion from a type, the conversion back to it, and both types."""

    first: Instruction
    last: Instruction
    outer: PrimitiveType
    inner: PrimitiveType


def element_type(instruction: Instruction) -> PrimitiveType | None:
    """The element type of the first array in an instruction's result; None if it has no array.

    >>> from hlo_cli import parse_module
    >>> print(element_type(parse_module("r = (token[], bf16[2]) tuple(token[] t, bf16[2] a)").entry.root))
    bf16
    """
    leaves = (leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape))
    return next((leaf.element_type for leaf in leaves), None)


def round_trips(context: LintContext, min_bytes: int) -> Iterator[RoundTrip]:
    """Values of at least `min_bytes` converted to another type and back, with at most data movement in between.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> text = "ENTRY e { x = bf16[8] parameter(0)  a = f32[8] convert(x)  b = f32[8] copy(a)  c = bf16[8] convert(b) }"
    >>> [(trip.first.name, trip.last.name) for trip in round_trips(LintContext(parse_module(text), LintSettings()), 16)]
    [('a', 'c')]
    """
    for last in context.of(opcodes.CONVERT):
        if last.shape.padded_bytes < min_bytes or not last.operands:
            continue
        first = producer_through(context, last.operands[0], MOVES)
        if first.opcode != opcodes.CONVERT or not first.operands or first is last:
            continue
        begun, inner, outer = element_type(first.operands[0]), element_type(first), element_type(last)
        if outer is not None and inner is not None and begun == outer:
            yield RoundTrip(first, last, outer, inner)


# --- values that are the same in every iteration ---


# Sends, receives, and host transfers happen in each iteration, whatever their operands.
_CHANGING: Final = (
    HOST_FEEDS
    | CHANNEL_OPCODES
    | RANDOM_STATE
    | (CONTROL_FLOW - ASYNCHRONOUS)
    | frozenset("after-all custom-call parameter rng-bit-generator".split())
)
"""Opcodes whose results may differ between runs, or that have side effects."""


def passes_through(body: Computation) -> frozenset[int]:
    """The indices of loop-carried elements that the body returns unchanged.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY b { p = (f32[2], f32[2]) parameter(0)
    ...   x = f32[2] get-tuple-element(p), index=0  y = f32[2] get-tuple-element(p), index=1
    ...   n = f32[2] negate(y)  ROOT r = (f32[2], f32[2]) tuple(x, n) }'''
    >>> sorted(passes_through(parse_module(text).entry))
    [0]
    """
    root = body.root
    if root is None or root.opcode != opcodes.TUPLE:
        return frozenset()
    # An element at another place is another value in the next iteration.
    return frozenset(number for number, each in enumerate(root.operands) if carry_index(each) == number)


def carry_index(instruction: Instruction) -> int | None:
    """The index of the element of the computation's parameter that this is, None if it is something else.

    >>> from hlo_cli import parse_module
    >>> carry_index(parse_module("ROOT r = f32[2] get-tuple-element((s8[], f32[2]) p), index=1").entry.root)
    1
    """
    if instruction.opcode != opcodes.GET_TUPLE_ELEMENT or not instruction.operands:
        return None
    return instruction.integer("index") if instruction.operands[0].opcode == opcodes.PARAMETER else None


def loop_invariants(body: Computation) -> frozenset[Instruction]:
    """The instructions of a loop's body with the same result in every iteration.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY b { p = (f32[2], f32[2]) parameter(0)
    ...   x = f32[2] get-tuple-element(p), index=0  y = f32[2] get-tuple-element(p), index=1
    ...   n = f32[2] negate(x)  m = f32[2] add(n, y)  ROOT r = (f32[2], f32[2]) tuple(x, m) }'''
    >>> sorted(each.name for each in loop_invariants(parse_module(text).entry))
    ['n', 'x']
    """
    unchanged = passes_through(body)
    found: set[Instruction] = set()
    for index in instruction_post_order(body):
        instruction = body.instructions[index]
        # In post-order, operands are decided before users. The parameter changes, and so do all its other elements.
        if carry_index(instruction) in unchanged or (
            instruction.opcode not in _CHANGING and all(operand in found for operand in instruction.operands)
        ):
            found.add(instruction)
    return frozenset(found)
