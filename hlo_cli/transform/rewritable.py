"""What a module must be to be rewritten: lenient reading lets through what no rewrite can make sense of.

Mirrors the part of `HloVerifier` of xla/service/hlo_verifier.cc that is about which instruction stands where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hlo_cli.analysis.dataflow.post_order import control_predecessors
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import OPCODE_ARITY
from hlo_cli.ir.shape import TupleShape
from hlo_cli.source import Diagnostic, HloError, Span

_NEEDS_COMPUTATION = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE))
_LEAST: dict[str, int] = {
    **dict.fromkeys((opcodes.CONCATENATE, opcodes.CONDITIONAL, opcodes.DYNAMIC_SLICE), 1),
    **dict.fromkeys((opcodes.DYNAMIC_UPDATE_SLICE, opcodes.REDUCE, opcodes.REDUCE_WINDOW), 2),
    opcodes.SCATTER: 3,
}
"""How many operands rewrites count on of operations that may have any number."""


def check_rewritable(module: Module) -> None:
    """HloError with places if values come too late, names are not unique, or fusions and what they call do not fit.

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
        yield f"the parameters of {computation.name} are not numbered from 0 on", computation.span
    seen: set[str] = set()
    controls = control_predecessors(computation, text)
    for instruction in computation.instructions:
        for words in _wrong(instruction, seen, earlier):
            yield words, instruction.span
        if any(index >= instruction.index for index in controls.get(instruction.index, ())):
            yield f"{instruction.name} has a control predecessor below it", instruction.span
        seen.add(instruction.name)


def _wrong(instruction: Instruction, seen: Collection[str], earlier: Collection[Computation]) -> Iterator[str]:
    """What is wrong with an instruction; the names that stand before it, and the computations, are given."""
    name, operands, called = instruction.name, instruction.operands, instruction.called_computations
    if name in seen:
        yield f"two instructions are called {name}"
    for operand in operands:
        if operand.computation is not instruction.computation or operand.index >= instruction.index:
            yield f"{name} takes the value of {operand.name}, which is defined below it"
    if any(each not in earlier for each in called):
        yield f"{name} calls a computation that is defined below it"
    if (least := OPCODE_ARITY.get(instruction.written_opcode) or _LEAST.get(instruction.written_opcode, 0)) > len(
        operands
    ):
        yield f"{name} has {_counted(len(operands), 'operand')}, and a {instruction.written_opcode} needs {least}"
    if instruction.written_opcode == opcodes.TUPLE and _elements(instruction) != len(operands):
        yield f"{name} has {_counted(len(operands), 'operand')}, but {_counted(_elements(instruction), 'element')}"
    if instruction.written_opcode == opcodes.GET_TUPLE_ELEMENT and operands:
        index = instruction.integer("index") or 0
        if index >= _elements(operands[0]):
            yield f"{name} takes element {index} of {_counted(_elements(operands[0]), 'element')}"
    root = called[0].root if instruction.written_opcode == opcodes.FUSION and called else None
    if root is not None and _elements(root) != _elements(instruction):
        yield f"{name} does not have the result of {called[0].name}"
    if instruction.written_opcode in _NEEDS_COMPUTATION and not called:
        yield f"{name} calls no computation"
    if instruction.written_opcode == opcodes.FUSION and called and len(called[0].parameters) != len(operands):
        counts = _counted(len(operands), "operand"), _counted(len(called[0].parameters), "parameter")
        yield f"{name} has {counts[0]}, but {called[0].name} has {counts[1]}"


def _elements(instruction: Instruction) -> int:
    """The elements of its result; none of an array."""
    return len(instruction.shape.elements) if isinstance(instruction.shape, TupleShape) else 0


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
