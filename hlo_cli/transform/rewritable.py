"""Checks that a module is well formed enough to be rewritten, as lenient parsing accepts more.

Mirrors the part of `HloVerifier` of xla/service/hlo_verifier.cc that concerns structure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hlo_cli.analysis.dataflow.dependencies import control_predecessors
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import OPCODE_ARITY
from hlo_cli.ir.shape import TupleShape
from hlo_cli.source import Diagnostic, HloError, Span, counted

_NEEDS_COMPUTATION = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE))
_MIN_OPERANDS: dict[str, int] = {
    **dict.fromkeys((opcodes.CONCATENATE, opcodes.CONDITIONAL, opcodes.DYNAMIC_SLICE), 1),
    **dict.fromkeys((opcodes.DYNAMIC_UPDATE_SLICE, opcodes.REDUCE, opcodes.REDUCE_WINDOW), 2),
    opcodes.SCATTER: 3,
}
"""Minimum number of operands that rewrites require for opcodes of variable arity."""


def check_rewritable(module: Module) -> None:
    """Raises HloError for uses before definitions, duplicate names, and fusions that do not match their computations.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { ROOT a = s8[] parameter(0) }
    ... ENTRY e { ROOT x = s8[] fusion(), kind=kLoop, calls=f }'''
    >>> check_rewritable(parse_module(text))
    Traceback (most recent call last):
    hlo_cli.source.HloError: text:2:11: error: x has 0 operands, but f has 1 parameter
    """
    problems: list[Diagnostic] = []
    earlier: set[Computation] = set()
    for computation in module.computations:
        found = _problems(computation, earlier, module.source.text)
        problems += (Diagnostic("error", words, module.source, span) for words, span in found)
        earlier.add(computation)
        if len(problems) > 8:
            break
    if problems:
        raise HloError.of(tuple(problems))


def _problems(
    computation: Computation, earlier: Collection[Computation], text: str
) -> Iterator[tuple[str, Span | None]]:
    if computation.root is None:
        yield f"{computation.name} has no root", computation.span
    if any(p.parameter_number != number for number, p in enumerate(computation.parameters)):
        yield f"the parameters of {computation.name} are not numbered consecutively from 0", computation.span
    seen: set[str] = set()
    controls = control_predecessors(computation, text)
    for instruction in computation.instructions:
        for words in _instruction_problems(instruction, seen, earlier):
            yield words, instruction.span
        if any(index >= instruction.index for index in controls.get(instruction.index, ())):
            yield f"{instruction.name} has a control predecessor that is defined after it", instruction.span
        seen.add(instruction.name)


def _instruction_problems(
    instruction: Instruction, seen: Collection[str], earlier: Collection[Computation]
) -> Iterator[str]:
    """Yields the problems of an instruction, given the names and computations before it."""
    name, operands, called = instruction.name, instruction.operands, instruction.called_computations
    if name in seen:
        yield f"duplicate instruction name '{name}'"
    for operand in operands:
        if operand.computation is not instruction.computation or operand.index >= instruction.index:
            yield f"{name} uses {operand.name} before its definition"
    if any(each not in earlier for each in called):
        yield f"{name} calls a computation that is defined after it"
    if (
        minimum := OPCODE_ARITY.get(instruction.written_opcode) or _MIN_OPERANDS.get(instruction.written_opcode, 0)
    ) > len(operands):
        count = counted(len(operands), "operands")
        yield f"{name} has {count}, but {instruction.written_opcode} needs at least {minimum}"
    if instruction.written_opcode == opcodes.TUPLE and _elements(instruction) != len(operands):
        elements = counted(_elements(instruction), "elements")
        yield f"{name} has {counted(len(operands), 'operands')}, but its shape has {elements}"
    if instruction.written_opcode == opcodes.GET_TUPLE_ELEMENT and operands:
        index = instruction.integer("index") or 0
        if index >= _elements(operands[0]):
            elements = counted(_elements(operands[0]), "elements")
            yield f"{name} selects element {index} of a tuple with {elements}"
    root = called[0].root if instruction.written_opcode == opcodes.FUSION and called else None
    if root is not None and _elements(root) != _elements(instruction):
        yield f"{name} does not have the result shape of {called[0].name}"
    if instruction.written_opcode in _NEEDS_COMPUTATION and not called:
        yield f"{name} has no called computation"
    if instruction.written_opcode == opcodes.FUSION and called and len(called[0].parameters) != len(operands):
        counts = counted(len(operands), "operands"), counted(len(called[0].parameters), "parameters")
        yield f"{name} has {counts[0]}, but {called[0].name} has {counts[1]}"


def _elements(instruction: Instruction) -> int:
    """Number of elements of a tuple result; 0 for an array."""
    return len(instruction.shape.elements) if isinstance(instruction.shape, TupleShape) else 0
