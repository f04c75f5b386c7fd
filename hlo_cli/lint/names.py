"""Names of values as the user knows them: an argument, an operation of the program, or a place in its source."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.dataflow.dependencies import producer_of
from hlo_cli.analysis.origin.scopes_and_moves import Origin
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, ASYNCHRONOUS
from hlo_cli.ir.shape import Shape
from hlo_cli.report.numbers import format_bytes

_PLUMBING: Final = frozenset(
    (opcodes.BITCAST, opcodes.COPY, opcodes.COPY_DONE, opcodes.COPY_START, opcodes.GET_TUPLE_ELEMENT,
     opcodes.OPT_BARRIER, opcodes.TUPLE)
)  # fmt: skip
"""Opcodes of instructions that compilers add to pass values on."""
_WINDOWS: Final = "\\"
"""The separator of folders on Windows."""
_MOST_STEPS: Final = 100


def is_plumbing(instruction: Instruction) -> bool:
    """Whether an instruction only passes on a value, so that a user of the program cannot change it.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  ROOT n = f32[4] negate(c) }").entry
    >>> [is_plumbing(each) for each in entry.instructions]
    [False, True, False]
    """
    return instruction.opcode in _PLUMBING or instruction.opcode in ASYNC_CONTINUATIONS


_LOOPS: Final = frozenset(("while", "body", "cond"))
"""Last parts of op_names that name a loop, not a value."""


def name_of(instruction: Instruction, origin: Origin) -> str:
    """The argument that a value is, else the operation of the program with its place, else the nearest instruction
    that computes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.origin.origins import origins_of
    >>> text = '''ENTRY e { p = f32[4] parameter(0), metadata={op_name="params[\\\\'w\\\\']"}  q = f32[4] copy(p)
    ... ROOT n = f32[4] negate(q), metadata={op_name="jit(f)/mlp/neg" source_file="m.py" source_line=4} }'''
    >>> module = parse_module(text)
    >>> [name_of(each, origins_of(module).own(each)) for each in module.instructions]
    ["params['w']", 'p', 'mlp/neg (m.py:4)']
    """
    if origin.argument_name:
        return origin.argument_name
    if instruction.opcode == opcodes.PARAMETER and origin.op_name:
        return origin.op_name
    operation = _operation(origin)
    if is_loop := operation.rpartition("/")[2] in _LOOPS:
        operation = operation.rpartition("/")[0]
    if operation:
        return operation + place_of(origin)
    made = _computing(instruction)
    name = made.name if not is_loop and not is_plumbing(made) else f"a {made.shape.to_string(layout=False)} value"
    return name + place_of(origin)


def sized(shape: Shape) -> str:
    """A shape without its layout, and its size.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> sized(parse_shape("f32[256,2]{1,0:T(8,128)}"))
    'f32[256,2] (128 KiB)'
    """
    return f"{shape.to_string(layout=False)} ({format_bytes(shape.padded_bytes)})"


def place_of(origin: Origin) -> str:
    """The place in the source at the end of a name; empty if unknown.

    >>> from hlo_cli.ir.attributes.metadata import SourceLocation
    >>> place_of(Origin(stack=(SourceLocation("/home/me/model.py", 92),))), place_of(Origin())
    (' (model.py:92)', '')
    """
    frame = frame_of(origin)
    return f" ({str(frame).replace(_WINDOWS, '/').rpartition('/')[2]})" if frame is not None else ""


def frame_of(origin: Origin) -> SourceLocation | None:
    """The innermost place outside of libraries; None if unknown.

    >>> frame_of(Origin()) is None
    True
    """
    if not origin.stack:
        return None
    from hlo_cli.analysis.origin.origins import (
        program_frame,  # large imports that a module without findings does not need
    )

    return program_frame(origin.stack)


def _operation(origin: Origin) -> str:
    """The scope and the name of the operation; empty if unknown."""
    if not origin.op_name:
        return ""
    return "/".join(filter(None, (origin.scope, origin.op_name.rpartition("/")[2])))


def _computing(instruction: Instruction) -> Instruction:
    """The instruction that computes a value, before those that only pass it on."""
    made = producer_of(instruction)
    for _ in range(_MOST_STEPS):
        if not made.operands or not (
            is_plumbing(made) or (made.opcode in ASYNCHRONOUS and made.opcode != opcodes.FUSION)
        ):
            break
        if made.opcode == opcodes.TUPLE:
            break
        made = producer_of(made.operands[0])
    return made
