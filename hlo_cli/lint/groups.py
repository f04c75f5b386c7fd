"""What findings have in common: the pattern of repeats in other layers, and the value that several rules report.

Findings with equal patterns are one cause, such as the same copy in each of 12 layers: same rule, message, and shape,
and the same place in the program or, if no metadata tells it, the same operands and users.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Final, Literal, NamedTuple, TypeAlias

from hlo_cli.analysis.dataflow.dependencies import PASSES_ON_ONE_VALUE, Users
from hlo_cli.analysis.origin.scopes_and_moves import Origin, generalize
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import BLOCK_MOVES, wrapped_opcode
from hlo_cli.lint.costs import Waste
from hlo_cli.lint.names import frame_of, place_of
from hlo_cli.report.finding import Cause

_MOST_STEPS: Final = 100
_MOST_USERS: Final = 8
"""The most users that a structural pattern names."""
_EQUATION: Final = "->"
"""Part of the scopes that `jnp.einsum` adds, such as `bsd,dhk->bshk`."""
_UNNAMED: Final = ("<lambda>", "<locals>", ".")
"""Endings of the name of a function that are not the name of one that contains it."""
_MOVING: Final = frozenset((opcodes.COPY, opcodes.COPY_DONE, opcodes.COPY_START, opcodes.ASYNC_DONE))


class Named(NamedTuple):
    """A value in a message, its name there, and its origin."""

    value: Instruction
    name: str
    origin: Origin


Reach: TypeAlias = Literal["line", "function", "argument", "anywhere"]
"""Which values one change can fix: those of one line, of one function and named scope, of a whole argument of the
program, or all. Arguments are one cause with the others in their part of the tree, such as the weights of all layers.
"""


class Common(NamedTuple):
    """The message without sizes, if one change would fix findings on arrays of different shapes or at several lines.

    `reach` says which. Of findings `anywhere`, those with this message are one cause. `similar` is the message of those
    that agree on more than that, such as the shape; for findings in a function, too.
    """

    message: str
    reach: Reach = "line"
    similar: str = ""


def cause_of(
    message: str,
    at: Instruction,
    named: tuple[Named, Named | None],
    waste: Waste | None,
    common: Common | None,
    users: Users,
) -> Cause:
    """What a finding shares with those in other layers and with those of other rules on the same array.

    `named` are the value that the message is about and a second one that it names; `users` are required if the origin
    of the value is unknown.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  a = f32[2] copy(p) }")
    >>> a = module.instruction("a")
    >>> cause = cause_of("p is copied", a, (Named(a, "p", Origin()), None), Waste(8), None, {a: ()})
    >>> cause.value, cause.pattern.splitlines()
    ('memory e/p', ['* is copied', 'copy f32[2]', 'parameter f32[2]'])
    """
    about, other = named
    if other is not None:
        message = _renamed(message, other.name, general_name(other.name, other.origin))
    general = _renamed(message, about.name, general_name(about.name, about.origin))
    shared = ""
    if waste is not None and waste.link is not None:
        made = value_of(about.value) if waste.link == "memory" else at
        shared = f"{waste.link} {made.computation.name}/{made.name}"
    if (cause := _common_cause(common, general, about, shared)) is not None:
        return cause
    if is_known(about.origin):
        return Cause(f"{general}\n{at.shape.to_string(layout=False)}", shared, general)
    pattern = "\n".join((_renamed(message, about.name, "*"), *_position(at, users)))
    return Cause(pattern, shared, general)


def _common_cause(common: Common | None, general: str, about: Named, shared: str) -> Cause | None:
    """The cause of a finding that one change would fix together with others; None if that is not known."""
    if common is None:
        return None
    if common.reach == "anywhere":
        levels = (common.similar, common.message) if common.similar else (common.message,)
        return Cause(common.message, shared, general, levels, _short_place(about))
    container = _container_of(about.origin, is_whole=common.reach == "argument")
    if not container and not is_known(about.origin):
        return None
    messages = (common.similar or common.message, common.message)
    if container:
        similar, wide = (_renamed(each, about.name, container) for each in messages)
        return Cause(wide, shared, general, (similar, wide))
    if common.reach == "function" and (function := _function_of(about.origin)) is not None:
        key, words = function
        similar, wide = (_renamed(each, about.name, f"a value of {words}") for each in messages)
        return Cause(f"{wide}\n{key}", shared, general, (similar, wide), _short_place(about))
    if common.reach == "function":  # without functions in the metadata, equal lines have equal messages
        return None
    wide = _renamed(common.message, about.name, general_name(about.name, about.origin))
    return Cause(wide, shared, general, (wide,))


def _function_of(origin: Origin) -> tuple[str, str] | None:
    """The function and named scope that compute a value, as a key and for people; None if neither is known.

    >>> from hlo_cli.ir.attributes.metadata import SourceLocation
    >>> frame = SourceLocation("m.py", 4, "train.<locals>.step.<locals>.<lambda>")
    >>> _function_of(Origin("jit(f)/layers_3/mlp/add", (frame,))), _function_of(Origin("jit(f)/add", (frame,)))[1]
    (('m.py train.<locals>.step\\nlayers_*/mlp', 'step in layers_*/mlp'), 'step')
    """
    scope = "/".join(part for part in generalize(origin.scope).split("/") if _EQUATION not in part)
    frame = frame_of(origin)
    function = (frame.function or "") if frame is not None else ""
    while (shorter := reduce(str.removesuffix, _UNNAMED, function)) != function:
        function = shorter
    if not scope and not function:
        return None
    if function:  # of one function, numbered scopes are calls of it, such as block0 and block1
        scope = "/".join(_unnumbered(part) for part in scope.split("/"))
    file = frame.file if frame is not None else ""
    name = next((part for part in reversed(function.split(".")) if not part.startswith("__")), function)
    return f"{file} {function}\n{scope}", " in ".join(filter(None, (name, scope)))


def _unnumbered(part: str) -> str:
    """A part of a scope with `*` for a number at its end.

    >>> _unnumbered("block12"), _unnumbered("layers_*"), _unnumbered("7")
    ('block*', 'layers_*', '7')
    """
    name = part.rstrip("0123456789")
    return f"{name}*" if name and name != part else part


def _short_place(about: Named) -> str:
    """The argument that a value is, else its line in the source, for a list of places; empty if unknown."""
    return generalize(about.origin.argument_name) or place_of(about.origin).strip(" ()")


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


def _renamed(message: str, name: str, to: str) -> str:
    """A message with another name for a value, which is not part of a word.

    >>> _renamed("p is copied", "p", "*")
    '* is copied'
    """
    at, before = message.find(name), 0
    parts: list[str] = []
    while name and at >= 0:
        end = at + len(name)
        if not (_continues(message[at - 1 : at]) or _continues(message[end : end + 1])):
            parts += (message[before:at], to)
            before = end
        at = message.find(name, end)
    return "".join((*parts, message[before:]))


def _continues(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _container_of(origin: Origin, *, is_whole: bool) -> str:
    """The part of the tree to which an argument belongs; empty for values that are not arguments in a tree."""
    general = generalize(origin.argument_name)
    root, bracket, _ = general.partition("[")
    if is_whole:
        return f"{root}[…]" if bracket else ""
    layer, star, rest = general.rpartition("[*]")
    if star and rest:
        return f"{layer}{star}[…]"
    above = general.rpartition("[")[0]
    return f"{above}[…]" if "[" in above else ""


def value_of(instruction: Instruction) -> Instruction:
    """The instruction that makes the array that an instruction moves: through copies, prefetches, and bitcasts.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  b = f32[2,2] bitcast(c) }").entry
    >>> value_of(entry.instruction("b"))
    <parameter p>
    """
    made = instruction
    for _ in range(_MOST_STEPS):
        is_moved = made.opcode in PASSES_ON_ONE_VALUE or made.opcode in _MOVING or _starts_move(made)
        if not is_moved or not made.operands:
            break
        made = made.operands[0]
    return made


def _starts_move(instruction: Instruction) -> bool:
    """Whether an instruction starts to move a whole array or part of it."""
    if instruction.opcode != opcodes.ASYNC_START or not instruction.called_computations:
        return wrapped_opcode(instruction.opcode) in BLOCK_MOVES
    root = instruction.called_computations[0].root
    return root is not None and root.opcode in BLOCK_MOVES


def _position(at: Instruction, users: Users) -> Iterator[str]:
    """What surrounds an instruction: its operation, its operands, and its users, without names."""
    yield f"{_kind(at)} {at.shape.to_string(layout=False)}"
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
