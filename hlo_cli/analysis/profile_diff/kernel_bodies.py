"""Whether two kernels run the same code: their own operation, and the computations that they call, without names."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import prod
from typing import Final

from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW
from hlo_cli.analysis.matching.graph import content_of
from hlo_cli.analysis.matching.module_diff import ESTIMATES
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import NAMING_ATTRIBUTES, attributes_with
from hlo_cli.ir.shape import ArrayShape, Shape

_CONFIG: Final = "backend_config"
_NO_CODE: Final = NAMING_ATTRIBUTES | (frozenset(attributes_with("annotates")) - {_CONFIG}) | {"channel_id"}
"""Attributes that name, annotate, or number, without an effect on the code of a kernel."""

_NO_CONFIG: Final = ESTIMATES | {"force_earliest_schedule", "operation_queue_id", "wait_on_operation_queues"}
"""Keys of configurations with estimates, and with the order of kernels."""

_MAX_PRINTED: Final = 10
"""The most elements of a constant that XLA prints by default."""


class KernelBodies:
    """Numbers for kernels of any modules, which are equal if the kernels run the same code.

    The code is the operation with its shapes, layouts, and attributes, and that of the computations that it calls, in
    any order of their instructions. Names, metadata, shardings, and channel ids do not count, nor does what the kernel
    reads. Computations that control flow executes are kernels of their own.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e {{ {0} = f32[{1}] parameter(0)  ROOT c = f32[{1}] copy({0}) }}"
    >>> bodies = KernelBodies()
    >>> [bodies.number(parse_module(text.format(*each)).entry.root) for each in (("p", 4), ("q", 4), ("p", 5))]
    [3, 3, 6]
    """

    def __init__(self, *, has_large_constants: bool = True) -> None:
        """Without `has_large_constants`, a text omits the values of large constants, which do not count then."""
        self._has_large_constants = has_large_constants
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[Computation, int] = {}
        self._attributes: dict[str, int] = {}
        self._shapes: dict[int, tuple[Shape, int]] = {}

    def number(self, instruction: Instruction) -> int:
        """The number of the code of a kernel."""
        if instruction.opcode in CONTROL_FLOW:
            return self._of((instruction.opcode,))
        self._read(instruction.called_computations)
        operands = tuple(self._shape(instruction.operand_shape(at)) for at in range(len(instruction.operands)))
        return self._of((self._content(instruction), operands))

    def _read(self, computations: tuple[Computation, ...]) -> None:
        """Numbers computations, the innermost first."""
        waiting = list(computations)
        entered: set[Computation] = set()
        while waiting:
            computation = waiting[-1]
            if computation not in self._computations and computation not in entered:
                entered.add(computation)
                inner = (each for i in computation.instructions for each in i.called_computations)
                waiting += [each for each in inner if each not in self._computations and each not in entered]
                continue
            waiting.pop()
            if computation not in self._computations:
                self._computations[computation] = self._of_computation(computation)

    def _of_computation(self, computation: Computation) -> int:
        """The number of a computation: that of its root, and those of all its instructions in any order."""
        numbers: dict[Instruction, int] = {}
        for instruction in computation.instructions:
            operands = tuple(
                (numbers.get(each, -1), instruction.operand_index(at)) for at, each in enumerate(instruction.operands)
            )
            numbers[instruction] = self._of((self._content(instruction), operands))
        root = None if computation.root is None else numbers[computation.root]
        return self._of((root, tuple(sorted(numbers.values()))))

    def _content(self, instruction: Instruction) -> int:
        argument, text, *_ = content_of(instruction)
        if not self._has_large_constants and instruction.opcode == opcodes.CONSTANT and _is_large(instruction):
            argument = ""
        attributes = self._attributes.get(text, -1)
        if attributes < 0:
            attributes = self._attributes[text] = self._of(_attributes(instruction))
        called = tuple(self._computations.get(each, -1) for each in instruction.called_computations)
        shape = self._shape(instruction.shape)
        return self._of((instruction.written_opcode, shape, argument.strip(), attributes, called))

    def _shape(self, shape: Shape) -> int:
        """The number of a shape; objects are kept, so that their ids stay theirs."""
        known = self._shapes.get(id(shape))
        if known is None:
            known = self._shapes[id(shape)] = shape, self._of(str(shape))
        return known[1]

    def _of(self, content: Hashable) -> int:
        return self._numbers.setdefault(content, len(self._numbers))


def _is_large(constant: Instruction) -> bool:
    """Whether a text may omit the value of a constant."""
    shape = constant.shape
    return not isinstance(shape, ArrayShape) or prod(shape.dimensions) > _MAX_PRINTED


def _attributes(instruction: Instruction) -> tuple[tuple[str, str], ...]:
    """The attributes that have an effect on the code, by name."""
    kept = ((name, value) for name, value in instruction.pairs if name not in _NO_CODE)
    return tuple(sorted((name, _config(instruction, value) if name == _CONFIG else value) for name, value in kept))


def _config(instruction: Instruction, text: str) -> str:
    """A configuration without the keys that do not count."""
    if not any(key in text for key in _NO_CONFIG):
        return text
    config = instruction.backend_config
    if config is None or not isinstance(config.json, Mapping):
        return text
    return str(sorted((key, str(value)) for key, value in config.json.items() if key not in _NO_CONFIG))
