"""HLO02x: computations and the instructions that call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.shapes.comparison import same_layout
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import CALL, CONDITIONAL, CUSTOM_CALL, FUSION, PARAMETER, WHILE
from hlo_cli.ir.operations import CALLERS, CALLING_ATTRIBUTES, is_known, wrapped_opcode
from hlo_cli.ir.shape import Shape, TupleShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding

_CALLERS: Final = CALLERS | {"topk"}  # in old dumps, topk calls a comparator
_SAME_THREAD: Final = (WHILE, CONDITIONAL, FUSION)
_APPLYING: Final = (CALL, "reduce", "all-reduce", "all-reduce-start", "reduce-scatter", CUSTOM_CALL, "map")
_CALLING: Final = re.compile(rf", (?:{'|'.join(CALLING_ATTRIBUTES)})=")
_VERSION: Final = re.compile(r"[0-9]{1,18}")


@rule("HLO020", "parameters are not numbered through")
def parameter_numbers(context: LintContext) -> Iterator[Finding]:
    """The parameters of a computation do not have the numbers from 0 on, each once.

    Why: callers hand over operands by number, so a number that is missing or used twice has no value.

    Example:
        ENTRY e {
          x = f32[2] parameter(1)
        }

    Mend: number the parameters 0, 1, 2 …; entry_computation_layout must have as many.

    Reference: HloComputation::parameter_instructions in xla/hlo/ir/hlo_computation.h
    """
    for computation in context.module.computations:
        parameters = [i for i in computation.instructions if i.opcode == PARAMETER]
        numbers = [_number(parameter) for parameter in parameters]
        first: dict[int, Instruction] = {}
        for parameter, number in zip(parameters, numbers, strict=True):
            if number is None or number >= len(parameters):
                expected = f"0 to {len(parameters) - 1}" if len(parameters) > 1 else "0"
                message = f"{parameter.name} is parameter {number} of {computation.name}, which has {expected}"
                yield context.finding(message, parameter)
            elif first.setdefault(number, parameter) is not parameter:
                yield context.finding(
                    f"{parameter.name} is a second parameter {number} of {computation.name}", parameter
                )


@rule("HLO021", "calls a computation, but cannot")
def calls_nothing(context: LintContext) -> Iterator[Finding]:
    """An opcode that runs no computation names one.

    Why: the computation would be dropped or run by nobody; XLA rejects the module.

    Example:
        y = f32[2] negate(x), to_apply=add

    Mend: leave the attribute out, or use call or map.

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
                message = f"{instruction.name} names a computation, but {opcode} runs none"
                yield context.finding(message, instruction, attribute_span(instruction, *CALLING_ATTRIBUTES))


@rule("HLO022", "handed over in another layout")
def other_layout(context: LintContext) -> Iterator[Finding]:
    """A parameter or a result has another layout or memory space in a computation than with its caller.

    Why: once layouts are settled, a call hands over buffers as they are; the callee would read the wrong elements.
    Asked of scheduled modules (layout_sensitive).

    Example:
        y = f32[4,8]{0,1} call(x), to_apply=f

    Mend: write the same layout on both sides, or put a copy between them.

    Reference: HandleFusion, HandleCall, HandleWhile and HandleConditional in xla/service/hlo_verifier.cc
    """
    if not context.is_layout_sensitive:
        return
    told = {problem.at for problem in context.fusion_problems}
    for caller in context.of(FUSION, CALL, WHILE, CONDITIONAL):
        for position, computation in enumerate(caller.called_computations if caller not in told else ()):
            first = position + 1 if caller.opcode == CONDITIONAL else 0
            given = ((caller.operands[at].name, caller.operand_shape(at)) for at in range(first, len(caller.operands)))
            is_condition = caller.opcode == WHILE and position == 1
            result = None if is_condition else caller.shape
            yield from (context.finding(each, caller) for each in _other_layouts(caller, computation, given, result))
    for start in context.of("async-start"):
        parts = start.shape.elements if isinstance(start.shape, TupleShape) else ()
        if len(parts) > 1 and isinstance(parts[0], TupleShape):
            for computation in start.called_computations:
                given = ((f"operand {number} of {start.name}", shape) for number, shape in enumerate(parts[0].elements))
                for message in _other_layouts(start, computation, given, parts[1]):
                    yield context.finding(message, start)


@rule("HLO023", "called on another thread")
def other_thread(context: LintContext) -> Iterator[Finding]:
    """A loop, a branch or a fusion belongs to another execution thread than its caller.

    Why: only asynchronous operations take work to another thread; loops, branches and fusions run on their caller's.

    Example:
        body { … }, execution_thread="host"
        y = f32[2] while(x), condition=test, body=body

    Mend: give both the same execution_thread, or start the work with async-start.

    Reference: CheckCallableInstructionThreadName in xla/service/hlo_verifier.cc
    """
    yield from _other_threads(context, _SAME_THREAD)


@rule("HLO024", "applied on another thread", is_default=False)
def applied_on_other_thread(context: LintContext) -> Iterator[Finding]:
    """What is called or applied belongs to another execution thread than its caller.

    Why: some pipelines of XLA ask for it; others leave such calls alone, so this rule is off.

    Example:
        add { … }, execution_thread="host"
        y = f32[] reduce(x, zero), dimensions={0}, to_apply=add

    Mend: give both the same execution_thread.

    Reference: verify_call_nested_computation_thread_name in xla/service/hlo_verifier.h
    """
    yield from _other_threads(context, _APPLYING)


@rule("HLO025", "composite call without its attributes")
def composite(context: LintContext) -> Iterator[Finding]:
    """A call with is_composite=true does not say by its frontend attributes what operation it stands for.

    Why: backends replace composites by name; without composite.name there is nothing to look up, and a version that is
    no number or attributes that are empty cannot be read.

    Example:
        y = f32[2] call(x), to_apply=f, is_composite=true

    Mend: add frontend_attributes={composite.attributes={…},composite.name="…",composite.version="1"}.

    Reference: HandleCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(CALL):
        if not call.flag("is_composite"):
            continue
        attributes = dict(call.frontend_attributes.entries)
        place = attribute_span(call, "frontend_attributes", "is_composite")
        if not attributes.get("composite.name"):
            yield context.finding(f"{call.name} is a composite without composite.name", call, place)
        if attributes.get("composite.attributes", "{}") == "":
            yield context.finding(f"composite.attributes of {call.name} is empty", call, place)
        if not _VERSION.fullmatch(attributes.get("composite.version", "0")):
            version = attributes["composite.version"]
            yield context.finding(
                f"composite.version of {call.name} is {version!r}, not a number from 0 on", call, place
            )


def _may_call(module: Module, computation: Computation) -> bool:
    """Whether one of its attributes may name a computation; always if there is no text."""
    body = computation.span
    return body is None or _CALLING.search(module.source.text, body.start, body.end) is not None


def _number(parameter: Instruction) -> int | None:
    """The number of a parameter, read from its raw text, which is faster than parsing the instruction."""
    argument = parameter.raw[0].strip()
    return int(argument) if argument.isdecimal() and len(argument) < 20 else None


def _other_layouts(
    caller: Instruction, computation: Computation, given: Iterable[tuple[str, Shape]], result: Shape | None
) -> Iterator[str]:
    """Parameters and results of a computation whose layouts differ from those of its caller."""
    for (name, shape), parameter in zip(given, computation.parameters, strict=False):
        if _differ(shape, parameter.shape):
            taken = f"{computation.name} takes it as {parameter.shape}, parameter {parameter.name}"
            yield f"{name} is {shape}, but {taken}"
    root = computation.root
    if root is not None and result is not None and _differ(result, root.shape):
        yield f"{caller.name} is {result}, but {computation.name} gives {root.shape}"


def _differ(a: Shape, b: Shape) -> bool:
    """Whether two compatible shapes differ in layout; other rules report incompatible ones."""
    return a is not b and compatible(a, b) and not same_layout(a, b)


def _other_threads(context: LintContext, opcodes: tuple[str, ...]) -> Iterator[Finding]:
    threads = context.threads
    for caller in context.of(*opcodes):
        own = threads[caller.computation]
        for called in caller.called_computations:
            if threads.get(called, own) != own:
                yield context.finding(f"{caller.name} runs on {own}, but {called.name} on {threads[called]}", caller)
