"""HLO02x: computations and the instructions that call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.shapes.inference import same_layout
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import CALL, CONDITIONAL, CUSTOM_CALL, FUSION, PARAMETER, WHILE
from hlo_cli.ir.operations import CALLERS, CALLING_ATTRIBUTES, is_known, wrapped_opcode
from hlo_cli.ir.shape import Shape, TupleShape, compatible
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding

_CALLERS: Final = CALLERS | {"topk"}  # in old dumps, topk calls a comparator
_SAME_THREAD: Final = (WHILE, CONDITIONAL, FUSION)
_APPLYING: Final = (CALL, "reduce", "all-reduce", "all-reduce-start", "reduce-scatter", CUSTOM_CALL, "map")
_CALLING: Final = re.compile(rf", (?:{'|'.join(CALLING_ATTRIBUTES)})=")
_VERSION: Final = re.compile(r"[0-9]{1,18}")


@rule("HLO020", "noncontiguous parameter numbers")
def parameter_numbers(context: LintContext) -> Iterator[Finding]:
    """The parameters of a computation are not numbered 0, 1, 2, … exactly once each.

    Why: Callers pass operands by number, so a parameter whose number is out of range or already used has no value.

    Example:
        ENTRY e {
          x = f32[2] parameter(1)
        }

    Fix: Number the parameters from 0. entry_computation_layout must list the same number of parameters.

    Reference: HloComputation::parameter_instructions in xla/hlo/ir/hlo_computation.h
    """
    for computation in context.module.computations:
        parameters = [i for i in computation.instructions if i.opcode == PARAMETER]
        numbers = [_number(parameter) for parameter in parameters]
        first: dict[int, Instruction] = {}
        for parameter, number in zip(parameters, numbers, strict=True):
            if number is None or number >= len(parameters):
                text = parameter.raw[0].strip() if number is None else number
                expected = f"0 to {len(parameters) - 1}" if len(parameters) > 1 else "0"
                message = f"{parameter.name} has parameter number {text}, expected {expected} in {computation.name}"
                yield context.finding(message, parameter)
            elif first.setdefault(number, parameter) is not parameter:
                yield context.finding(
                    f"duplicate parameter number {number} in {computation.name}: {parameter.name}", parameter
                )


@rule("HLO021", "called computation on unsupported opcode")
def unsupported_call(context: LintContext) -> Iterator[Finding]:
    """An opcode that cannot call computations names one.

    Why: The computation would never run, so XLA rejects the module.

    Example:
        y = f32[2] negate(x), to_apply=add

    Fix: Remove the attribute, or use call or map.

    Reference: "Called computations specified for non-caller instruction" in xla/service/hlo_verifier.cc
    """
    calling = {each for each in context.module.computations if _may_call(context.module, each)}
    for opcode, instructions in context.by_opcode.items():
        if opcode in _CALLERS or (wrapped_opcode(opcode) or "") in _CALLERS or not is_known(opcode):
            continue
        for instruction in instructions:
            if instruction.computation not in calling or not _CALLING.search(instruction.raw[1]):
                continue
            if attribute_span(instruction, *CALLING_ATTRIBUTES) is not None:
                message = f"{instruction.name}: {opcode} cannot call a computation"
                yield context.finding(message, instruction, attribute_span(instruction, *CALLING_ATTRIBUTES))


@rule("HLO022", "layout mismatch between caller and callee")
def layout_mismatch(context: LintContext) -> Iterator[Finding]:
    """A parameter or result has a different layout or memory space in the callee than in the caller.

    Why: Once layouts are assigned, a call passes buffers unchanged, so the callee would read the wrong elements.
    Checked in scheduled modules (see the setting layout_sensitive).

    Example:
        y = f32[4,8]{0,1} call(x), to_apply=f

    Fix: Use the same layout on both sides, or insert a copy.

    Reference: HandleFusion, HandleCall, HandleWhile, and HandleConditional in xla/service/hlo_verifier.cc
    """
    if not context.is_layout_sensitive:
        return
    reported = {problem.at for problem in context.fusion_problems}
    for caller in context.of(FUSION, CALL, WHILE, CONDITIONAL):
        for position, computation in enumerate(caller.called_computations if caller not in reported else ()):
            first = position + 1 if caller.opcode == CONDITIONAL else 0
            given = ((caller.operands[at].name, caller.operand_shape(at)) for at in range(first, len(caller.operands)))
            is_condition = caller.opcode == WHILE and position == 1
            result = None if is_condition else caller.shape
            yield from (
                context.finding(each, caller) for each in _layout_mismatches(caller, computation, given, result)
            )
    for start in context.of("async-start"):
        parts = start.shape.elements if isinstance(start.shape, TupleShape) else ()
        if len(parts) > 1 and isinstance(parts[0], TupleShape):
            for computation in start.called_computations:
                given = ((f"operand {number} of {start.name}", shape) for number, shape in enumerate(parts[0].elements))
                for message in _layout_mismatches(start, computation, given, parts[1]):
                    yield context.finding(message, start)


@rule("HLO023", "callee on a different execution thread")
def thread_mismatch(context: LintContext) -> Iterator[Finding]:
    """A loop, branch, or fusion belongs to a different execution thread than its caller.

    Why: Only async operations move work to another thread. Loops, branches, and fusions run on the thread of their
    caller.

    Example:
        body { … }, execution_thread="host"
        y = f32[2] while(x), condition=test, body=body

    Fix: Set the same execution_thread on both, or use async-start.

    Reference: CheckCallableInstructionThreadName in xla/service/hlo_verifier.cc
    """
    yield from _thread_mismatches(context, _SAME_THREAD)


@rule("HLO024", "applied computation on a different execution thread", is_default=False)
def applied_thread_mismatch(context: LintContext) -> Iterator[Finding]:
    """A called or applied computation belongs to a different execution thread than its caller.

    Why: Some XLA pipelines require the same thread. Off by default, because others do not.

    Example:
        add { … }, execution_thread="host"
        y = f32[] reduce(x, zero), dimensions={0}, to_apply=add

    Fix: Set the same execution_thread on both.

    Reference: verify_call_nested_computation_thread_name in xla/service/hlo_verifier.h
    """
    yield from _thread_mismatches(context, _APPLYING)


@rule("HLO025", "composite call without composite attributes")
def composite(context: LintContext) -> Iterator[Finding]:
    """A call with is_composite=true has no composite.name, or invalid composite attributes.

    Why: Backends replace composites by name. Without composite.name, or with an invalid version or empty attributes,
    they cannot recognize the operation.

    Example:
        y = f32[2] call(x), to_apply=f, is_composite=true

    Fix: Add composite.name, composite.attributes, and composite.version to frontend_attributes.

    Reference: HandleCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(CALL):
        if not call.flag("is_composite"):
            continue
        attributes = dict(call.frontend_attributes.entries)
        place = attribute_span(call, "frontend_attributes", "is_composite")
        if not attributes.get("composite.name"):
            yield context.finding(f"{call.name} is a composite call without composite.name", call, place)
        if attributes.get("composite.attributes", "{}") == "":
            yield context.finding(f"{call.name} has empty composite.attributes", call, place)
        if not _VERSION.fullmatch(attributes.get("composite.version", "0")):
            version = attributes["composite.version"]
            yield context.finding(
                f"{call.name} has composite.version '{version}', expected a non-negative integer", call, place
            )


def _may_call(module: Module, computation: Computation) -> bool:
    """Whether one of its attributes may name a computation; always if there is no text."""
    body = computation.span
    return body is None or _CALLING.search(module.source.text, body.start, body.end) is not None


def _number(parameter: Instruction) -> int | None:
    """The number of a parameter, read from its raw text, which is faster than parsing the instruction."""
    argument = parameter.raw[0].strip()
    return int(argument) if argument.isdecimal() and len(argument) < 20 else None


def _layout_mismatches(
    caller: Instruction, computation: Computation, given: Iterable[tuple[str, Shape]], result: Shape | None
) -> Iterator[str]:
    """Parameters and results of a computation whose layouts differ from those of its caller."""
    for (name, shape), parameter in zip(given, computation.parameters, strict=False):
        if _differ(shape, parameter.shape):
            expected = f"parameter {parameter.name} of {computation.name} is {parameter.shape}"
            yield f"{name} is {shape}, but {expected}"
    root = computation.root
    if root is not None and result is not None and _differ(result, root.shape):
        yield f"{caller.name} is {result}, but {computation.name} returns {root.shape}"


def _differ(a: Shape, b: Shape) -> bool:
    """Whether two compatible shapes differ in layout; other rules report incompatible ones."""
    return a is not b and compatible(a, b) and not same_layout(a, b)


def _thread_mismatches(context: LintContext, opcodes: tuple[str, ...]) -> Iterator[Finding]:
    threads = context.threads
    for caller in context.of(*opcodes):
        own = threads[caller.computation]
        for called in caller.called_computations:
            if threads.get(called, own) != own:
                yield context.finding(
                    f"{caller.name} is on thread {own}, but {called.name} is on {threads[called]}", caller
                )
