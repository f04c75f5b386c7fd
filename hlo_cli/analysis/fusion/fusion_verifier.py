"""Verifies the invariants of fusions. Mirrors `CheckFusionInstruction` of xla/service/hlo_verifier.cc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.analysis.fusion.heroes import all_fused, roots_of
from hlo_cli.analysis.problem import Problem
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_OPCODES, HOST_FEEDS, MATMULS, OPCODE_ARITY, OWN_KERNELS, RUNNERS
from hlo_cli.ir.shape import Shape, TupleShape, compatible, same_order, subshape
from hlo_cli.source import Diagnostic

FUSION_KINDS: Final = ("kLoop", "kInput", "kOutput", "kCustom")

_NOT_FUSIBLE: Final = (
    HOST_FEEDS
    | CHANNEL_OPCODES
    | {opcodes.CONDITIONAL, opcodes.DOMAIN, opcodes.RNG_GET_AND_UPDATE_STATE, opcodes.WHILE}
)
"""Opcodes that cannot be part of a kernel: control flow and communication."""


_ALLOWED_UNUSED: Final = _NOT_FUSIBLE | {opcodes.CUSTOM_CALL, opcodes.PARAMETER, opcodes.RNG}
"""Opcodes that are allowed in a body without a user."""

_KIND_OPCODES: Final = {
    "kInput": frozenset("concatenate dynamic-update-slice reduce reduce-window scatter sort transpose".split()),
    "kOutput": MATMULS | {opcodes.REDUCE, opcodes.REDUCE_WINDOW},
}
"""Opcodes of which a fusion of a kind contains at least one."""

_TUPLE_USERS: Final = (RUNNERS - {opcodes.ASYNC_START}) | {
    opcodes.ASYNC_DONE,
    opcodes.FUSION,
    opcodes.GET_TUPLE_ELEMENT,
    opcodes.TUPLE,
}
"""Opcodes that are allowed to use a tuple as a whole."""

_OMITTED_OPERANDS: Final = "...(+"
_CONTROL: Final = "control-predecessors="


def verify_fusions(module: Module) -> Iterator[Diagnostic]:
    """Yields a diagnostic for every violation of an invariant of fusions, in the order of the text.

    Yields none for a module with parse errors or omitted operands. Unusual fusions that XLA accepts are warnings.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  ROOT n = s8[9] not(a) }
    ... ENTRY e { p = s8[9] parameter(0)  x = s8[9] fusion(p), kind=kLoop, calls=f
    ...   ROOT y = s8[9] fusion(x), kind=kLoop, calls=f }'''
    >>> for found in verify_fusions(parse_module(text)): print(found.code, found.message)
    fusion-callers body f of y is also called by x
    """
    return (problem.diagnostic(module.source) for problem in fusion_problems(module))


def fusion_problems(module: Module) -> Iterator[Problem]:
    """Yields the problems that `verify_fusions` reports, each with its instruction, which identifies the place in a
    proto.

    >>> from hlo_cli import parse_module
    >>> text = "f { ROOT a = s8[9] parameter(0) }  ENTRY e { ROOT x = s8[9] fusion(), kind=kLoop, calls=f }"
    >>> [(problem.at.name, problem.code) for problem in fusion_problems(parse_module(text))]
    [('x', 'fusion-parameters')]
    """
    if module.errors or not _has_operands(module):
        return
    callers: dict[Computation, list[Instruction]] = {}
    for instruction in module.instructions:
        for called in instruction.called_computations:
            callers.setdefault(called, []).append(instruction)
    for computation in module.computations:
        fusions = [each for each in computation.instructions if each.written_opcode == opcodes.FUSION]
        several = any(isinstance(fusion.shape, TupleShape) for fusion in fusions)
        users = users_of(computation) if several else {}
        for fusion in fusions:
            yield from _problems(module, fusion, callers, users)


def _has_operands(module: Module) -> bool:
    """Whether the text has all operands; XLA can print modules without operands or with the first four only."""
    is_cut = _OMITTED_OPERANDS in module.source.text
    return not is_cut and all(i.operands or not OPCODE_ARITY.get(i.written_opcode, 0) for i in module.instructions)


def _problems(
    module: Module, fusion: Instruction, callers: Mapping[Computation, list[Instruction]], users: Users
) -> Iterator[Problem]:
    number = len(fusion.called_computations)
    if number > 1:
        yield Problem(fusion, f"{fusion.name} calls {number} computations, expected one", code="fusion-computation")
    if number != 1:  # a text may leave out what is called
        return
    body = fusion.called_computations[0]
    if body.is_entry:
        yield Problem(
            fusion, f"{fusion.name} uses the entry computation {body.name} as its body", code="fusion-callers"
        )
    if (first := callers[body][0]) is not fusion:
        yield Problem(
            fusion, f"body {body.name} of {fusion.name} is also called by {first.name}", code="fusion-callers"
        )
    else:
        yield from _body_problems(module, fusion, body)
    yield from _shape_problems(module, fusion, body)
    yield from _kind_problems(fusion, body)
    yield from _output_problems(fusion, users)
    yield from _alias_problems(fusion)


def _shape_problems(module: Module, fusion: Instruction, body: Computation) -> Iterator[Problem]:
    """Compares parameters with operands and the root with the result; in a scheduled module also their dimension
    orders.
    """
    given, taken = len(fusion.operands), len(body.parameters)
    if given != taken:
        message = f"{fusion.name} has {given} operands, but its body {body.name} has {taken} parameters"
        yield Problem(fusion, message, "error" if taken > given else "warning", code="fusion-parameters")
    for number, parameter in enumerate(body.parameters[:given]):
        shape = fusion.operand_shape(number)
        if parameter.parameter_number != number:
            yield Problem(parameter, f"{body.name} has no parameter {number}", code="fusion-parameters")
        elif not _same(shape, parameter.shape, module):
            operand = fusion.operands[number].name
            found = f"operand {operand} of {fusion.name} has {shape}"
            message = f"parameter {parameter.name} has shape {parameter.shape}, but {found}"
            yield Problem(parameter, message, code="fusion-parameters")
    if body.root is not None and not _same(body.root.shape, fusion.shape, module):
        message = f"{fusion.name} has shape {fusion.shape}, but its root {body.root.name} has {body.root.shape}"
        yield Problem(fusion, message, code="fusion-result")


def _same(a: Shape, b: Shape, module: Module) -> bool:
    return same_order(a, b) if module.is_scheduled else compatible(a, b)


def _body_problems(module: Module, fusion: Instruction, body: Computation) -> Iterator[Problem]:
    """Yields unused operations, opcodes that cannot be fused, and control dependencies in a body."""
    is_waited = _may_contain(module, body, _CONTROL)
    used = {operand for each in body.instructions for operand in each.operands}
    for each in body.instructions:
        if each is body.root:
            if each in used:
                yield Problem(each, f"root {each.name} of {body.name} also has users", code="fusion-root")
        elif each not in used and each.opcode not in _ALLOWED_UNUSED:
            yield Problem(each, f"dead instruction {each.name} in {body.name}", code="fusion-unused")
        if each.opcode in _NOT_FUSIBLE:
            yield Problem(
                each, f"{each.name} cannot be in {fusion.name}: {each.opcode} cannot be fused", code="fusion-inside"
            )
        if is_waited and _CONTROL in each.raw[1]:
            yield Problem(each, f"{each.name} has a control dependency inside {fusion.name}", code="fusion-control")
    kernels = [each for each in all_fused(body) if each.opcode in OWN_KERNELS]
    if len(kernels) > 1:
        names = ", ".join(each.name for each in kernels)
        message = f"{fusion.name} contains {len(kernels)} operations that each need their own kernel: {names}"
        yield Problem(fusion, message, code="fusion-kernels")


def _may_contain(module: Module, computation: Computation, mark: str) -> bool:
    """Whether the text of a computation contains `mark`; true if it has no text."""
    body = computation.span
    return body is None or module.source.text.find(mark, body.start, body.end) >= 0


def _kind_problems(fusion: Instruction, body: Computation) -> Iterator[Problem]:
    kind = fusion.attribute("kind")
    if kind is None:  # as texts without extra attributes are
        return
    if kind not in FUSION_KINDS:
        yield Problem(
            fusion,
            f"{fusion.name} has unknown kind={kind}; expected {', '.join(FUSION_KINDS[:-1])}, or {FUSION_KINDS[-1]}",
            code="fusion-kind",
        )
    elif kind in _KIND_OPCODES and not any(each.opcode in _KIND_OPCODES[kind] for each in all_fused(body)):
        message = f"{fusion.name} is {kind}, but contains none of {', '.join(sorted(_KIND_OPCODES[kind]))}"
        yield Problem(fusion, message, "warning", code="fusion-kind")


def _output_problems(fusion: Instruction, users: Users) -> Iterator[Problem]:
    """Yields users of a multi-output fusion other than get-tuple-element, and nested tuples."""
    if not isinstance(fusion.shape, TupleShape):
        return
    if any(root.opcode == opcodes.TUPLE for root in roots_of(fusion.called_computations[0])):
        yield Problem(fusion, f"{fusion.name} returns a nested tuple", "warning", code="fusion-outputs")
    for user in users.get(fusion, ()):
        if user.opcode not in _TUPLE_USERS:
            message = f"{user.name} uses {fusion.name} as a tuple instead of through get-tuple-element"
            yield Problem(user, message, "warning", code="fusion-outputs")


def _alias_problems(fusion: Instruction) -> Iterator[Problem]:
    """Checks that aliased outputs and operands exist and have the same size."""
    if "output_to_operand_aliasing=" not in fusion.raw[1]:
        return
    for alias in fusion.items_of("output_to_operand_aliasing", OutputOperandAlias):
        number = alias.operand_number
        given = fusion.operand_shape(number) if 0 <= number < len(fusion.operands) else None
        place = subshape(given, alias.operand_index) if given is not None else None
        result = subshape(fusion.shape, alias.output_index)
        if place is None or result is None:
            missing = "result" if result is None else "operand"
            message = f"aliasing {alias} of {fusion.name} names a nonexistent {missing}"
        elif not compatible(place, result):
            message = f"{fusion.name} aliases {place} with {result}, which has a different shape"
        else:
            continue
        yield Problem(fusion, message, code="fusion-aliasing")
