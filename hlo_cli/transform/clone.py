"""Copies a module with changes: new computations whose instructions still read the original text.

Mirrors `HloModule::Clone` with a context that replaces instructions, of xla/hlo/ir/hlo_clone_context.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, Pairs, free_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, ShapeIndex
from hlo_cli.source import HloError, Span

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.metadata import Metadata
    from hlo_cli.ir.attributes.value_types import AttributeValue, Literal

Operand = tuple[Instruction, ShapeIndex]
"""New instruction, and the tuple index of the element that is used."""


class CopyReader:
    """Reads the content of copied instructions from their originals, given in `sources` by index."""

    __slots__ = ("_original", "_sources")

    def __init__(self, original: Computation, sources: Sequence[Instruction]) -> None:
        self._original = original
        self._sources = sources

    def whole(self) -> str:
        """Empty text, as copies can differ from the original."""
        return ""

    def read(self, index: int) -> InstructionText:
        """Text of the original instruction."""
        return self._sources[index].text

    def raw(self, index: int) -> tuple[str, str]:
        """Argument and attributes of the original as text."""
        return self._sources[index].raw

    def pairs(self, index: int) -> Pairs:
        """Attributes of the original without their spans."""
        return self._sources[index].pairs

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """Parsed value of an attribute's text."""
        return self._original.reader.value(opcode, attribute, text)

    def span(self, index: int) -> Span | None:
        """Span of the original instruction."""
        return self._sources[index].span

    def metadata(self, instruction: Instruction) -> Metadata:
        """Metadata of the original, or of the instruction for which a new one was made."""
        return self._sources[instruction.index].metadata

    def literal(self, instruction: Instruction) -> Literal:
        """Literal of a constant."""
        literal = self._sources[instruction.index].literal
        if literal is None:
            raise HloError(f"the value of {instruction.name} is unknown")
        return literal


@dataclass(slots=True)
class ComputationCopy:
    """Computation that is being copied; `copies` maps old instructions to new ones."""

    original: Computation
    computation: Computation
    copies: dict[Instruction, Instruction] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)
    _instructions: list[Instruction] = field(default_factory=list)
    _sources: list[Instruction] = field(default_factory=list)
    _elements: dict[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names.update(instruction.name for instruction in self.original.instructions)
        self.computation.reader = CopyReader(self.original, self._sources)

    def free_name(self, wanted: str) -> str:
        """Unused instruction name that resembles `wanted`."""
        name = free_name(wanted, self._names, self._numbers)
        self._names.add(name)
        return name

    def operands(self, instruction: Instruction) -> list[Operand]:
        """New operands of an old instruction; HloError if one is not copied yet."""
        for operand in instruction.operands:
            if operand not in self.copies:
                raise HloError(f"{instruction.name} uses {operand.name} before its definition")
        return [(self.copies[o], instruction.operand_index(i)) for i, o in enumerate(instruction.operands)]

    def copy(
        self,
        old: Instruction,
        operands: Sequence[Operand],
        called: tuple[Computation, ...],
        *,
        opcode: str = "",
        attributes: Iterable[Attribute] | None = None,
    ) -> Instruction:
        """Appends a copy of an instruction, with its attributes unless others are given."""
        text = None if attributes is None else InstructionText(tuple(attributes), old.text.argument, old.span)
        new = self.add(old.name, old.shape, opcode or old.opcode, operands, source=old, text=text)
        new.called_computations = called
        self.copies[old] = new
        return new

    def add(
        self,
        name: str,
        shape: Shape,
        opcode: str,
        operands: Sequence[Operand],
        *,
        source: Instruction,
        text: InstructionText | None,
    ) -> Instruction:
        """Appends a new instruction; `source` provides its metadata and span."""
        index = len(self._instructions)
        new = Instruction(name, shape, opcode, tuple([o for o, _ in operands]), self.computation, index, text)
        if any(element for _, element in operands):
            self._elements[index] = tuple([element for _, element in operands])
        self._instructions.append(new)
        self._sources.append(source)
        return new

    def finish(self, root: Instruction | None) -> Computation:
        """Completes and returns the new computation."""
        computation = self.computation
        computation.instructions = tuple(self._instructions)
        computation.parameters = tuple(self.copies[parameter] for parameter in self.original.parameters)
        computation.root = root
        computation.operand_indices = self._elements
        return computation


def begin_copies(module: Module) -> dict[Computation, ComputationCopy]:
    """Empty copy of every computation, to be filled in any order."""
    return {
        old: ComputationCopy(
            old,
            Computation(
                old.name,
                is_entry=old.is_entry,
                execution_thread=old.execution_thread,
                backend_config=old.backend_config,
                span=old.span,
            ),
        )
        for old in module.computations
    }


def copied_calls(instruction: Instruction, copies: Mapping[Computation, ComputationCopy]) -> tuple[Computation, ...]:
    """Copies of the computations that an instruction calls."""
    return tuple([copies[called].computation for called in instruction.called_computations])


def with_computations(
    module: Module, computations: Iterable[Computation], copies: Mapping[Computation, ComputationCopy]
) -> Module:
    """Module with new computations; everything else is unchanged."""
    return replace(module, computations=tuple(computations), entry=copies[module.entry].computation)
