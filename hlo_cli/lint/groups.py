"""What findings have in common: the pattern of repeats in other layers, and the value that several rules report.

Findings with equal patterns are one cause, such as the same copy in each of 12 layers: same rule, message, and shape,
and the same place in the program or, if no metadata tells it, the same operands and users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.analysis.dataflow.uses import FORWARDING
from hlo_cli.analysis.origin.origin import Origin
from hlo_cli.analysis.origin.scopes import generalize
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import BLOCK_MOVES
from hlo_cli.lint.names import place_of

_MOST_STEPS: Final = 100
_MOST_USERS: Final = 8
"""The most users that a structural pattern names."""
_MOVING: Final = frozenset((opcodes.COPY, opcodes.COPY_DONE, opcodes.COPY_START, opcodes.ASYNC_DONE))


def pattern_of(message: str, name: str, at: Instruction, origin: Origin, users: Users) -> str:
    """The text that findings of one cause share; `name` is that of the value, as in the message.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.users import users_among
    >>> text = "ENTRY e { p = f32[2] parameter(0)  a = f32[2] copy(p)  b = f32[2] copy(p)  c = f32[2] negate(b) }"
    >>> module = parse_module(text)
    >>> a, b = module.instruction("a"), module.instruction("b")
    >>> users = users_among(list(module.instructions))
    >>> pattern_of("p is copied", "p", a, Origin(), users) == pattern_of("p is copied", "p", b, Origin(), users)
    False
    """
    shape = at.shape.to_string(layout=False)
    general = general_name(name, origin)
    if is_known(origin):
        return "\n".join((message.replace(name, general) if name else message, shape))
    return "\n".join((message.replace(name, "*") if name else message, shape, *_position(at, users)))


def is_known(origin: Origin) -> bool:
    """Whether the origin says where in the program a value is made."""
    return bool(origin.argument_name or origin.op_name or origin.source)


def general_name(name: str, origin: Origin) -> str:
    """The name of a value for all layers; the place in the source stays as it is.

    >>> from hlo_cli.ir.attributes.metadata import SourceLocation
    >>> general_name("layers_3/mlp/add (m.py:4)", Origin("layers_3/mlp/add", (SourceLocation("m.py", 4),)))
    'layers_*/mlp/add (m.py:4)'
    """
    place = place_of(origin)
    return generalize(name.removesuffix(place)) + place if place and name.endswith(place) else generalize(name)


def value_of(instruction: Instruction) -> Instruction:
    """The instruction that makes the array that an instruction moves: through copies, prefetches, and bitcasts.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  b = f32[2,2] bitcast(c) }").entry
    >>> value_of(entry.instruction("b"))
    <parameter p>
    """
    made = instruction
    for _ in range(_MOST_STEPS):
        is_moved = made.opcode in FORWARDING or made.opcode in _MOVING or _starts_move(made)
        if not is_moved or not made.operands:
            break
        made = made.operands[0]
    return made


def _starts_move(instruction: Instruction) -> bool:
    """Whether an instruction starts to move a whole array or part of it."""
    if instruction.opcode != opcodes.ASYNC_START or not instruction.called_computations:
        return False
    root = instruction.called_computations[0].root
    return root is not None and root.opcode in BLOCK_MOVES


def _position(at: Instruction, users: Users) -> Iterator[str]:
    """What surrounds an instruction: its operation, its operands, and its users, without names."""
    yield _kind(at)
    for number, operand in enumerate(at.operands):
        yield f"{_kind(operand)} {at.operand_shape(number).to_string(layout=False)}"
    listed = sorted(
        f"used by {_kind(user)} {user.shape.to_string(layout=False)}" for user in users.get(at, ())[:_MOST_USERS]
    )
    yield from listed


def _kind(instruction: Instruction) -> str:
    """The opcode, and for a fusion those of its root and kind."""
    called = instruction.called_computations
    root = called[0].root if instruction.opcode == opcodes.FUSION and called else None
    return instruction.opcode if root is None else f"{instruction.opcode} {root.opcode} {len(called[0].instructions)}"
