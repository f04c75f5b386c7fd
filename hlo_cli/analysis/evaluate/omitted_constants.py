"""Values of constants that a text omits, from other texts of the same program that have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


def omitted_constants(module: Module, other: Module | None = None) -> dict[Instruction, Literal]:
    """The values of constants that the text omits, as far as they are known.

    They are those of the constants of the same name, type, and sizes in the proto next to the text, in the dump before
    optimizations, or in `other`, another stage of the program, and its proto.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { ROOT c = f32[2] constant({1, 2}) }"
    >>> elided = parse_module(text.replace("{1, 2}", "{...}"))
    >>> [literal] = omitted_constants(elided, parse_module(text)).values()
    >>> print(literal)
    f32[2]{0} {1, 2}
    """
    missing = {each.name: each for each in _constants(module) if is_omitted(each)}
    found: dict[Instruction, Literal] = {}
    for source in _sources(module, other) if missing else ():
        for each in _constants(source):
            wanted, literal = missing.get(each.name), each.literal
            if wanted is not None and literal is not None and not literal.is_elided and _is_same(each, wanted):
                found.setdefault(wanted, literal)
        if len(found) == len(missing):
            break
    return found


def is_omitted(instruction: Instruction) -> bool:
    """Whether an instruction is a constant whose values the text omits."""
    if instruction.opcode != opcodes.CONSTANT:
        return False
    literal = instruction.literal
    return literal is None or literal.is_elided


def _constants(module: Module) -> Iterator[Instruction]:
    for computation in executions_of(module):
        for each in computation.instructions:
            if each.opcode == opcodes.CONSTANT:
                yield each


def _sources(module: Module, other: Module | None) -> Iterator[Module]:
    """The proto first: it is the same module, the others are other stages."""
    for each in (module.proto, module.program, other, None if other is None else other.proto):
        if each is not None and each is not module:
            yield each


def _is_same(a: Instruction, b: Instruction) -> bool:
    return a.shape.to_string(layout=False) == b.shape.to_string(layout=False)


Constants = Mapping[Instruction, Literal]
"""The values of constants that a text omits."""
