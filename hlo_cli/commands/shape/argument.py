"""Is an argument a shape, and which one? Given as text, or named in a dump as DUMP:NAME."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import index_text
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.commands.options.io_options import InputOptions
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module
    from hlo_cli.ir.shape import Shape, ShapeIndex


# a tuple, a buffer, an element type with sizes, or the name of an instruction with "="
_LOOKS_LIKE_HLO = lazy_regex(
    r"[ \t\n]*"
    r"(?:\(|b\(|(?:[a-z][a-z0-9]*+|[A-Z][A-Z0-9]*+)\[[ 0-9,<=?]*+\]|(?:ROOT[ \t]+)?%?[A-Za-z_][\w.\-]*+[ \t]*+=)"
)
# {0,1} after a name, as ShapeIndex prints; {} is the whole value
_NAMED_ELEMENT = lazy_regex(r"(.+?)\{((?:[0-9]{1,18}(?:, *+[0-9]{1,18})*+)?+)\}")


_SHARDING_START = lazy_regex(
    r"[ \t\n]*+(?:\{[ \t\n]*+(?:\{[ \t\n]*+)?+"
    r"(?:devices=|(?:maximal_)?+mesh\[|replicated|maximal|manual|unreduced|unknown)"
    r"|(?:PartitionSpec|P|NamedSharding)\(|#sdy\.sharding<)"
)


@dataclass(frozen=True, slots=True)
class NamedShape:
    """An instruction of a dump, its shape or that of an element of its tuple, and the dump."""

    instruction: Instruction
    shape: Shape
    loaded: Loaded
    index: ShapeIndex = ()


def shape_text(argument: str, reading: InputOptions) -> str | None:
    """The shape or instruction in an argument or named by DUMP:NAME; None for a dump."""
    if argument == "-" or os.path.exists(argument):
        return None
    if is_hlo_text(argument):
        return argument
    named = resolve_name(argument, reading)
    return str(named.shape) if named is not None else None


def is_hlo_text(argument: str) -> bool:
    """Whether an argument is a shape or an instruction as text."""
    return _LOOKS_LIKE_HLO.match(argument) is not None or _begins_with_a_type(argument)


def is_plain_shape(argument: str) -> bool:
    """Whether an argument is a shape alone: no instruction, no text with spaces, and no file.

    >>> is_plain_shape("f32[8]"), is_plain_shape("r = f32[8] negate(x)")
    (True, False)
    """
    return is_hlo_text(argument) and not any(map(argument.__contains__, " \t\r\n=")) and not os.path.exists(argument)


def is_sharding_text(argument: str) -> bool:
    """Whether an argument begins as a sharding.

    >>> is_sharding_text("{devices=[2]<=[2]}"), is_sharding_text("P('x')"), is_sharding_text("{1,0}")
    (True, True, False)
    """
    return _SHARDING_START.match(argument) is not None


def is_named_element(name: str) -> bool:
    """Whether the NAME of DUMP:NAME selects an element of a tuple.

    >>> is_named_element("while.1{0}"), is_named_element("while.1")
    (True, False)
    """
    return _NAMED_ELEMENT.fullmatch(name) is not None


def _begins_with_a_type(argument: str) -> bool:
    """Whether an element type and a bracket come first, as in an unclosed shape or one with a framework's type."""
    word, bracket, _ = argument.partition("[")
    if not bracket and "<" not in argument:
        return False
    from hlo_cli.ir.layout import PRIMITIVE_TYPES
    from hlo_cli.ir.type_names import foreign_type, xla_type

    foreign = foreign_type(argument) if "<" in argument else None
    if foreign is not None and not argument[: foreign[0]].strip():
        return True
    return bool(bracket) and (word.strip().lower() in PRIMITIVE_TYPES or xla_type(word.strip()) is not None)


def resolve_name(argument: str, reading: InputOptions) -> NamedShape | None:
    """The instruction that DUMP:NAME or DUMP:NAME{1} names; None for other arguments.

    A parameter of the entry may also have its name in the program, such as `params['w']`.
    """
    dump, colon, name = argument.rpartition(":")
    # a file may have a colon in its name, and file names come first
    if not colon or not os.path.exists(dump) or os.path.exists(argument):
        return None
    from hlo_cli.commands.modules.loading import load_one
    from hlo_cli.ir.shape import subshape

    element = _NAMED_ELEMENT.fullmatch(name)
    loaded = load_one((dump,), reading, about=argument)
    instruction = _instruction_of(loaded.module, element[1] if element else name)
    index = tuple(int(part) for part in element[2].split(",") if part.strip()) if element else ()
    shape = subshape(instruction.shape, index)
    if shape is None:
        raise HloError(
            f"{instruction.name} has no tuple element {index_text(index)}", hint=f"its shape is {instruction.shape}"
        )
    return NamedShape(instruction, shape, loaded, index)


def _instruction_of(module: Module, name: str) -> Instruction:
    """The instruction of a name, else the parameter with this op_name; HloError without either."""
    try:
        return module.instruction(name)
    except HloError:
        parameter = next((each for each in module.entry.parameters if each.metadata.op_name == name), None)
        if parameter is None:
            raise
        return parameter
