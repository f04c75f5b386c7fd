"""Fusions told apart by what they compute, not by their names, which every copy changes.

The value of an instruction is a hash of its opcode, shape, attributes and the values of its operands; fusions are looked
through, but for those of a library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

_BESIDES = frozenset(
    ("metadata", "backend_config", "sharding", "frontend_attributes", "control-predecessors", "origin")
)
Signature = tuple[object, ...]


def fusions_of(module: Module) -> Counter[Signature]:
    """The fusions of a module: where, root, kind, all that is inside, and the operands in order."""
    return _signatures(module, only_fusions=True)


def kernels_of(module: Module) -> Counter[Signature]:
    """The fusions of a module, and every other instruction that runs by itself."""
    return _signatures(module, only_fusions=False)


def _signatures(module: Module, *, only_fusions: bool) -> Counter[Signature]:
    bodies = {called for i in module.instructions if i.opcode == "fusion" for called in i.called_computations}
    found: Counter[Signature] = Counter()
    for computation in module.computations:
        if computation in bodies:
            continue
        values = _values(computation, {})
        for instruction in computation.instructions:
            operands = tuple(values[operand] for operand in instruction.operands)
            if instruction.opcode == "fusion":
                inside = _values(instruction.called_computations[0], dict(enumerate(operands)))
                body = sorted(value for inner, value in inside.items() if inner.opcode != "parameter")
                kind = instruction.attribute("kind")
                found[computation.name, values[instruction], kind, tuple(body), operands] += 1
            elif not only_fusions:
                found[computation.name, values[instruction]] += 1
    return found


def _values(computation: Computation, given: dict[int, int]) -> dict[Instruction, int]:
    values: dict[Instruction, int] = {}
    waiting: list[Instruction] = list(reversed(computation.instructions))
    while waiting:
        instruction = waiting[-1]
        missing = [operand for operand in instruction.operands if operand not in values]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        if instruction not in values:
            values[instruction] = _value(instruction, [values[operand] for operand in instruction.operands], given)
    return values


def _value(instruction: Instruction, operands: Iterable[int], given: dict[int, int]) -> int:
    number = instruction.parameter_number
    if number is not None and number in given:
        return given[number]
    operands = tuple(operands)
    if instruction.opcode == "fusion" and instruction.attribute("kind") != "kCustom":
        body = instruction.called_computations[0]
        assert body.root is not None
        return _values(body, dict(enumerate(operands)))[body.root]
    said = tuple(sorted((a.name, a.value) for a in instruction.attributes if a.name not in _BESIDES))
    if instruction.opcode == "fusion":
        said = (("kind", "kCustom"),)
    return hash((instruction.opcode, str(instruction.shape), instruction.text.argument.strip(), said, operands))
