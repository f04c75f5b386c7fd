"""Places: each instruction with each index of its shape (XLA's `HloPosition`), numbered from 0 over the module."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.computation_contexts import ComputationContexts, contexts_of
from hlo_cli.analysis.dataflow.subshapes import Subshapes, subshapes_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, ShapeIndex


@dataclass(frozen=True, slots=True)
class Positions:
    """The places of all computations that are not fused, in the order of the text.

    Instructions are numbered too. Instruction number n has the places `range(first[n], first[n + 1])`, one for each
    part of its shape in pre-order. `owner[place]` is the number of its instruction, `base` the number of a
    computation's first instruction. `tables` are keyed by `id(shape)`. `text` is the source of the module.
    """

    contexts: ComputationContexts
    base: Mapping[Computation, int]
    instructions: tuple[Instruction, ...]
    first: tuple[int, ...]
    owner: tuple[int, ...]
    tables: Mapping[int, Subshapes]
    text: str

    def __len__(self) -> int:
        return len(self.owner)

    def number(self, instruction: Instruction) -> int:
        """Returns the number of an instruction."""
        return self.base[instruction.computation] + instruction.index

    def first_of(self, instruction: Instruction) -> int:
        """Returns the place of an instruction's whole result."""
        return self.first[self.base[instruction.computation] + instruction.index]

    def parts(self, instruction: Instruction) -> Subshapes:
        """Returns the parts of an instruction's shape."""
        return self.tables[id(instruction.shape)]

    def operand_place(self, instruction: Instruction, position: int) -> int:
        """Returns the place of an operand; with nested operands, that of an element of the operand's result."""
        operand = instruction.operands[position]
        place = self.first_of(operand)
        if instruction.computation.operand_indices:
            place += self.parts(operand).ordinals.get(instruction.operand_index(position), 0)
        return place

    def index(self, place: int) -> ShapeIndex:
        """Returns the shape index of a place."""
        number = self.owner[place]
        return self.tables[id(self.instructions[number].shape)].indices[place - self.first[number]]

    def shape(self, place: int) -> Shape:
        """Returns the shape at a place."""
        number = self.owner[place]
        return self.tables[id(self.instructions[number].shape)].shapes[place - self.first[number]]


def places_of(module: Module) -> Positions:
    """Returns the places of a module.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT t = (f32[2], f32[2]) tuple(p, p) }")
    >>> places = places_of(module)
    >>> places.first, places.index(3)
    ((0, 1, 4), (1,))
    """
    return cached_per_module(_places, module)


def _places(module: Module) -> Positions:
    """Numbers instructions and places."""
    contexts = contexts_of(module)
    base: dict[Computation, int] = {}
    instructions: list[Instruction] = []
    for computation, context in contexts.context_of.items():
        if context != "fused":
            base[computation] = len(instructions)
            instructions.extend(computation.instructions)
    tables: dict[int, Subshapes] = {}
    first, owner = [0], list[int]()
    for number, instruction in enumerate(instructions):
        parts = tables.get(id(instruction.shape))
        if parts is None:
            parts = tables[id(instruction.shape)] = subshapes_of(instruction.shape)
        owner.extend([number] * len(parts.indices))
        first.append(len(owner))
    return Positions(contexts, base, tuple(instructions), tuple(first), tuple(owner), tables, module.source.text)
