"""Attributes of the operations in async computations as XLA sets them when it reads a text: more than the text has.

Mirrors `ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc, which copies the attributes of an asynchronous
instruction to the wrapped operation: the last of start, updates, and done that has an attribute determines it.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Instruction, InstructionText
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, ASYNCHRONOUS, attributes_with
from hlo_cli.syntax.proto.reader import ProtoReader

_GIVEN: Final = attributes_with("of what is wrapped")


def wrapped_operations(module: Module) -> dict[Instruction, Instruction]:
    """The wrapped operations of a text with their inherited attributes; empty for a proto, which has them all itself.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { p = f32[2] parameter(0)  s = ((f32[2]), f32[2]) async-start(p), calls=f, backend_config="b"
    ... ROOT d = f32[2] async-done(s) }'''
    >>> [(i.name, kept.raw[1]) for i, kept in wrapped_operations(parse_module(text)).items()]
    [('n', ', backend_config="b"')]
    """
    given: dict[Instruction, dict[str, str]] = {}
    for computation in module.computations:
        if isinstance(computation.reader, ProtoReader):
            continue
        for instruction in computation.instructions:
            if instruction.opcode in ASYNCHRONOUS and (root := _wrapped(instruction)) is not None:
                kept = {name: value for name, value in instruction.pairs if name in _GIVEN}
                given.setdefault(root, {}).update(kept)
    return {root: _with(root, kept) for root, kept in given.items() if kept}


def _wrapped(instruction: Instruction) -> Instruction | None:
    """The operation at the other end of a chain, or None without a start."""
    while instruction.opcode in ASYNC_CONTINUATIONS and instruction.operands:
        instruction = instruction.operands[0]
    called = instruction.called_computations
    return called[0].root if instruction.opcode == opcodes.ASYNC_START and called else None


def _with(root: Instruction, kept: dict[str, str]) -> Instruction:
    own = dict(root.pairs) | kept
    text = InstructionText(tuple(Attribute(name, value) for name, value in own.items()), root.raw[0])
    made = Instruction(root.name, root.shape, root.written_opcode, root.operands, root.computation, root.index, text)
    made.called_computations = root.called_computations
    return made
