"""HLO00x to HLO04x: is each instruction valid: its text, its shape, what it calls, fusions, and buffer values?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.schedule.async_verifier import aliased_parts
from hlo_cli.analysis.shapes.inference import precision_difference, same_layout
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction, custom_call
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.opcodes import CALL, CONDITIONAL, CUSTOM_CALL, FUSION, OPAQUE, PARAMETER, WHILE
from hlo_cli.ir.operations import CALLERS, CALLING_ATTRIBUTES, OUTPUT_TO_OPERAND_ALIASING, is_known, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, TupleShape, compatible, subshape
from hlo_cli.lint.rule import LintContext, attribute_span, rule, shape_span, start_around
from hlo_cli.report.findings import Finding
from hlo_cli.report.numbers import format_count

# --- HLO00x: text that cannot be parsed or checked ---


@rule("HLO001", "syntax error or unresolved name", needs="text")
def syntax_error(context: LintContext) -> Iterator[Finding]:
    """Part of the text is not valid HLO, or refers to a name that does not exist.

    Why: Text that cannot be parsed cannot be checked. Rules that need the whole module are skipped until it is fixed.

    Example:
        x = f32[2] negate(y)

    Fix: Correct the text at the reported position. A text that ends early was truncated when it was written.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in context.module.errors:
        yield context.finding(error.message, span=error.span, hint=error.hint, about=error.message)


@rule("HLO002", "rejected by XLA's parser", is_default=False, needs="text", reads_again=True)
def rejected_by_xla(context: LintContext) -> Iterator[Finding]:
    """XLA's own parser would reject this text, although hlo can read it.

    Why: A text that is edited by hand is often read back by XLA. Off by default, because dumps from older versions and
    from forks contain attributes that the current parser rejects; --strict or --select HLO002 enables it.

    Example:
        x = f32[2] parameter(0), unheard_of=1

    Fix: Remove or rewrite the reported part.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in context.rejections:
        yield context.finding(error.message, span=error.span, hint=error.hint, about=error.message)


@rule("HLO003", "text too abbreviated to check", severity="warning", needs="text")
def abbreviated_text(context: LintContext) -> Iterator[Finding]:
    """The text omits operands, attributes, or computation names.

    Why: Rules that check whether a module is valid cannot distinguish an omitted part from a missing one, so they
    are skipped for such a text.

    Example:
        y = f32[4] add(...)

    Fix: Dump with XLA's default print options, which omit only large constants.

    Reference: HloPrintOptions in xla/hlo/ir/hlo_print_options.h
    """
    for note in context.omissions:
        yield context.finding(note.message, span=note.span, hint=note.hint, about=note.message)


@rule("HLO004", "unknown opcode", severity="warning")
def unknown_opcode(context: LintContext) -> Iterator[Finding]:
    """The opcode is unknown to hlo.

    Why: The operands and the shape of the instruction cannot be checked. The opcode may come from a newer version of
    XLA or from a fork; other versions reject it.

    Example:
        y = f32[4] frobnicate(x)

    Fix: Correct the opcode if it is misspelled.

    Reference: xla/hlo/ir/hlo_opcode.h
    """
    for opcode, instructions in context.by_opcode.items():
        for instruction in () if is_known(opcode.removesuffix(OPAQUE)) else instructions:
            yield context.finding(f"unknown opcode '{opcode}' in {instruction.name}", instruction)


# --- HLO01x: shapes, operands, and attributes of each opcode ---


@rule("HLO010", "invalid shape or operands", needs="instructions")
def invalid_shape(context: LintContext) -> Iterator[Finding]:
    """The shape of an instruction does not follow from its opcode, operands, and attributes.

    Why: XLA infers the shape of a result from operands, attributes, and called computations, and rejects a module that
    states a different one. In scheduled modules, layouts must also match wherever data is passed through.

    Example:
        y = f32[3] negate(x)

    Fix: Write the expected shape, or pass operands of the intended shapes.

    Reference: xla/service/shape_inference.cc; ShapeVerifier in xla/service/hlo_verifier.cc
    """
    reported = {problem.instruction for problem in (*context.async_problems, *context.fusion_problems)}
    for problem in context.shape_problems:
        at = problem.instruction
        if not problem.is_precision and at not in reported:  # other rules report asynchronous ones and fusions
            yield context.finding(problem.message, at, shape_span(context.module, at) if problem.is_of_shape else None)


@rule("HLO011", "result precision mismatch", needs="instructions")
def result_precision(context: LintContext) -> Iterator[Finding]:
    """The shape is correct except for the width of its float type.

    Why: XLA rejects it, except where mixed precision is allowed: the TPU compiler replaces f32 by bf16 in late passes,
    so modules that it optimized are not checked (allow_mixed_precision=auto).

    Example:
        y = f16[2] negate(x)

    Fix: Use the type of the operands, or convert them.

    Reference: ShapeVerifier::CheckShape in xla/service/hlo_verifier.cc
    """
    for problem in context.shape_problems:
        if problem.is_precision:
            yield context.finding(problem.message, problem.instruction, shape_span(context.module, problem.instruction))


@rule("HLO012", "operand precision mismatch", needs="instructions")
def operand_precision(context: LintContext) -> Iterator[Finding]:
    """An instruction has float operands of different widths.

    Why: XLA rejects it, because the type of the computation is ambiguous. Modules that the TPU compiler has optimized
    are not checked (allow_mixed_precision=auto).

    Example:
        z = f32[2] add(x, h)

    Fix: Convert one of the operands.

    Reference: CheckMixedPrecisionOperands in xla/service/hlo_verifier.cc
    """
    for instruction in context.module.instructions if not context.allows_mixed_precision else ():
        if (difference := precision_difference(instruction)) is not None:
            yield context.finding(f"{instruction.name}: {difference}", instruction)


# --- HLO02x: computations and what calls them ---


_CALLERS: Final = CALLERS | {"topk"}  # in old dumps, topk calls a comparator
# Two rules, as in hlo_verifier.cc: these always, the applying ones by verify_call_nested_computation_thread_name.
_SAME_THREAD: Final = (WHILE, CONDITIONAL, FUSION)
_APPLYING: Final = (CALL, "reduce", "all-reduce", "all-reduce-start", "reduce-scatter", CUSTOM_CALL, "map")
_CALLING: Final = re.compile(rf", (?:{'|'.join(CALLING_ATTRIBUTES)})=")
# An integer of at most 18 digits fits 64 bits, as composite.version has to (hlo_verifier.cc).
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
            # Numbers must be 0 to n - 1; a number out of range is not also a duplicate.
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
    reported = {problem.instruction for problem in context.fusion_problems}
    for caller in context.of(FUSION, CALL, WHILE, CONDITIONAL):
        for position, computation in enumerate(caller.called_computations if caller not in reported else ()):
            # Operand 0 of a conditional is its index.
            first = position + 1 if caller.opcode == CONDITIONAL else 0
            given = ((caller.operands[at].name, caller.operand_shape(at)) for at in range(first, len(caller.operands)))
            # The condition of a loop returns pred, not the carried value.
            is_condition = caller.opcode == WHILE and position == 1
            result = None if is_condition else caller.shape
            yield from (
                context.finding(each, caller) for each in _layout_mismatches(caller, computation, given, result)
            )
    # The wrapped computation of a start has its shapes in the start's tuple: parameters, then the result.
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
        # Absent attributes are an empty dictionary; an empty text is no dictionary.
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
    # 20 digits are more than an int64 has; Python refuses to read a few thousand.
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


# --- HLO03x: fusions and custom calls ---


# Annotations that passes of XLA insert, not calls of a library with required layouts.
_UNCONSTRAINED: Final = ("LayoutConstraint", "control_dep")
# An attribute by which hlo_verifier.cc skips this check.
_ANY_ALIAS: Final = "xla_skip_custom_call_alias_shape_check"


@rule("HLO030", "malformed fusion")
def malformed_fusion(context: LintContext) -> Iterator[Finding]:
    """A fusion does not match its body, shares its body, or contains operations that cannot be fused.

    Why: A fused computation is the body of one kernel: its parameters are the operands of the fusion, its root is the
    result, every instruction contributes to the root, and no other instruction calls it.

    Example:
        f {
          p = f32[2] parameter(0)
          lost = f32[2] exponential(p)
          ROOT n = f32[2] negate(p)
        }

    Fix: Give each fusion its own computation without dead code. Keep loops, branches, and transfers outside.

    Reference: CheckFusionInstruction in xla/service/hlo_verifier.cc; `hlo fuse DUMP`
    """
    yield from context.findings_of(context.fusion_problems, "error")


@rule("HLO031", "unusual fusion", severity="warning", is_default=False)
def unusual_fusion(context: LintContext) -> Iterator[Finding]:
    """A fusion is valid but unlike those that compilers produce.

    Why: A kind that does not match the body, unused operands, or results that are used as a whole tuple point to a
    manual edit or an incomplete pass. Off by default, because compilers leave some of these.

    Example:
        f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
        y = f32[2] fusion(x), kind=kInput, calls=f

    Fix: See the finding: it names the unusual property.

    Reference: HloInstruction::FusionKind in xla/hlo/ir/hlo_instruction.h; `hlo fuse DUMP`
    """
    yield from context.findings_of(context.fusion_problems, "warning")


@rule("HLO032", "invalid output-to-operand aliasing")
def invalid_alias(context: LintContext) -> Iterator[Finding]:
    """A custom call aliases an operand that does not exist or has a different shape.

    Why: The result is stored in the buffer of the operand, so both must have the same shape, and also the same layout
    once layouts are assigned.

    Example:
        y = f32[8] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (1, {})}

    Fix: Alias an operand with the shape of the result, or remove the alias.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for instruction in context.with_attribute_text(
        OUTPUT_TO_OPERAND_ALIASING, opcodes.CUSTOM_CALL, opcodes.CALL, opcodes.FUSION
    ):
        aliases = instruction.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias)
        place = attribute_span(instruction, OUTPUT_TO_OPERAND_ALIASING)
        match instruction.opcode:
            case opcodes.CUSTOM_CALL:
                for alias in aliases:
                    if (message := _operand_alias_problem(context, instruction, alias)) is not None:
                        yield context.finding(
                            f"invalid alias {alias} on {instruction.name}: {message}", instruction, place
                        )
            case opcodes.CALL:
                yield context.finding(
                    f"{instruction.name}: call does not support {OUTPUT_TO_OPERAND_ALIASING}", instruction, place
                )
            # In unscheduled modules layouts are not final.
            case opcodes.FUSION if context.is_layout_sensitive and instruction.computation not in context.fused:
                for alias in aliases:
                    if (message := _layout_problem(instruction, alias)) is not None:
                        yield context.finding(
                            f"invalid alias {alias} on {instruction.name}: {message}", instruction, place
                        )
    yield from _asynchronous_layouts(context) if context.is_layout_sensitive else ()


@rule("HLO033", "invalid operand layout constraints")
def layout_constraints(context: LintContext) -> Iterator[Finding]:
    """A custom call has a different number of layout constraints than operands, or constraints with different shapes.

    Why: Each constraint states the layout that a library requires for one operand.

    Example:
        y = f32[2] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[3]{0}}

    Fix: List the shape of every operand with its required layout.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        described = custom_call(call)
        constraints = described.operand_layout_constraints if described is not None else None
        if constraints is None or described is None or described.target in _UNCONSTRAINED:
            continue
        place = attribute_span(call, "operand_layout_constraints")
        if len(constraints) != len(call.operands):
            operands = format_count(len(call.operands), "operands")
            message = f"{call.name} has {format_count(len(constraints), 'layout constraints')} but {operands}"
            yield context.finding(message, call, place)
            continue
        for position, constraint in enumerate(constraints):
            if not compatible(constraint, call.operand_shape(position)):
                shape = call.operand_shape(position)
                yield context.finding(
                    f"operand {position} of {call.name} is {shape}, but its layout constraint is {constraint}",
                    call,
                    place,
                )


@rule("HLO034", "invalid GetRngSeed call")
def rng_seed(context: LintContext) -> Iterator[Finding]:
    """A GetRngSeed call has operands or does not return a u64 scalar.

    Why: The runtime supplies one 64-bit seed and takes no arguments.

    Example:
        seed = u32[] custom-call(), custom_call_target="GetRngSeed"

    Fix: Return u64[] and convert afterwards.

    Reference: HandleCustomCall in xla/service/hlo_verifier.cc
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        if call.string("custom_call_target") == "GetRngSeed":
            shape = call.shape
            # The seed is a u64 scalar (hlo_verifier.cc, GetRngSeed).
            is_seed = isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.name == "u64"
            if call.operands or not is_seed:
                operands = format_count(len(call.operands), "operands")
                message = (
                    f"{call.name} returns {shape} and has {operands}; GetRngSeed returns u64[] and has no operands"
                )
                yield context.finding(message, call)


def _operand_alias_problem(context: LintContext, call: Instruction, alias: OutputOperandAlias) -> str | None:
    output = subshape(call.shape, alias.output_index)
    if output is None:
        return f"the result ({call.shape}) has no element {index_text(alias.output_index)}"
    if not 0 <= alias.operand_number < len(call.operands):
        return f"the call has {format_count(len(call.operands), 'operands')}"
    operand = subshape(call.operand_shape(alias.operand_number), alias.operand_index)
    if operand is None:
        shape = call.operand_shape(alias.operand_number)
        return f"operand {alias.operand_number} ({shape}) has no element {index_text(alias.operand_index)}"
    if call.frontend_attributes.get(_ANY_ALIAS) is not None:
        return None
    operand, output = _of_buffer(operand), _of_buffer(output)
    is_alike = compatible(operand, output)
    if is_alike and context.is_layout_sensitive:
        is_single = isinstance(operand, ArrayShape) and operand.elements == 1  # may be in another memory space
        is_alike = is_single or same_layout(operand, output)
    return None if is_alike else f"the operand is {operand}, but the result is {output}"


def _layout_problem(fusion: Instruction, alias: OutputOperandAlias) -> str | None:
    """The problem if only layouts differ; other differences are reported by the rules of fusions."""
    if not 0 <= alias.operand_number < len(fusion.operands):
        return None
    operand = subshape(fusion.operand_shape(alias.operand_number), alias.operand_index)
    return _layout_difference(operand, subshape(fusion.shape, alias.output_index))


def _asynchronous_layouts(context: LintContext) -> Iterator[Finding]:
    """Aliases of starts and updates that differ only in layout; asynchronous rules report other differences."""
    for pair in (
        context.async_pairs.pairs
        if next(context.with_attribute_text(OUTPUT_TO_OPERAND_ALIASING), None) is not None
        else ()
    ):
        # Other forms have no aliasing on their starts.
        for member in (pair.start, *pair.updates) if pair.form in ("generic", "sugared") else ():
            for alias in member.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias):
                if (message := _layout_difference(*aliased_parts(pair, member, alias))) is not None:
                    message = f"invalid alias {alias} on {member.name}: {message}"
                    yield context.finding(message, member, attribute_span(member, OUTPUT_TO_OPERAND_ALIASING))


def _layout_difference(operand: Shape | None, output: Shape | None) -> str | None:
    if operand is None or output is None or not compatible(operand, output) or same_layout(operand, output):
        return None
    return f"the operand is {operand}, but the result is {output}"


def _of_buffer(shape: Shape) -> Shape:
    return shape.array if isinstance(shape, BufferShape) else shape


# --- HLO04x: buffer values, `b(f32[4])`, which are written in place ---


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
# Numbers of operands of the calls that make and release buffers, see hlo_verifier.cc on buffers.
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
        # Short forms of async operations carry what their operation takes.
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
                # The first writer is fine; every other one overwrites it.
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
    starts = (start for start in context.of(opcodes.ASYNC_START) if start.attribute(OUTPUT_TO_OPERAND_ALIASING))
    aliased = {called for start in starts for called in start.called_computations}  # starts hold it
    for call in context.with_buffers:
        if call.opcode not in (opcodes.CUSTOM_CALL, "custom-call-start") or call.computation in aliased:
            continue
        aliases = call.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias)
        target = call.string("custom_call_target") or ""
        start = start_around(context.module, call)  # the only one of both in a text with short forms
        named = start if start is not None and len(start.operands) == len(call.operands) else call
        is_conversion = target in _CONVERSIONS
        message = (
            _conversion_problem(context, named, target, aliases)
            if is_conversion
            else _buffer_alias_problem(named, aliases)
        )
        if message is not None:
            yield context.finding(f"{named.name}: {message}", named)


def _writers(context: LintContext, maker: Instruction, index: ShapeIndex) -> Iterator[Instruction]:
    """Users that may write to a buffer, also through tuples; the root of a loop's body, for the next iteration."""
    bodies = {loop.called_computations[0] for loop in context.of(opcodes.WHILE) if loop.called_computations}
    waiting, seen = [(maker, index)], {(maker, index)}
    # Through tuples and elements, at an index: a buffer is followed leaf by leaf.
    while waiting:
        instruction, at = waiting.pop()
        # A loop's body hands the buffer on to the next iteration, so its root counts as a writer.
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
    fits = is_alike(_of_buffer(operand), _of_buffer(result))
    return None if fits else f"{target} cannot turn {operand} into {result}"


def _buffer_alias_problem(call: Instruction, aliases: tuple[OutputOperandAlias, ...]) -> str | None:
    given = [(alias.operand_number, alias.operand_index) for alias in aliases]
    results = [alias.output_index for alias in aliases]
    for position in range(len(call.operands)):
        for index, leaf in call.operand_shape(position).leaves:
            # Exactly once: a buffer is neither lost nor returned twice.
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
