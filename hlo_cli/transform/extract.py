"""Extracts part of a module as a module: an instruction with some of its operands and users.

Similar to `ExtractModule` of xla/hlo/tools/hlo_extractor.cc, which takes all operands up to a height.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import reached, users_of
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.attributes.value_types import AttributeValue, Literal
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, NoText, TextReader, Users
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import CHANNEL_STARTS, CONTROL_PREDECESSORS, attributes_with, header_attributes_with
from hlo_cli.ir.shape import ShapeIndex, TupleShape
from hlo_cli.source import HloError, expect
from hlo_cli.transform.in_place_hazards import RewrittenModule, fix_in_place_hazards

KEPT_OF_OPERANDS: Final = attributes_with("of a value")
"""Attributes of an instruction that stay on the parameter that replaces it."""

_MODULE_ATTRIBUTES: Final = header_attributes_with("of the whole")
# XLA reads these lists in xla/pjrt/utils.cc, one entry for each argument or result: they do not fit the part's.
_MODES = re.compile(r'(?:arg|out)_(?:layout_modes|memory_spaces)="[^"]*"(?:,[ ]*)?')
_INSTRUCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*+")
# Dones and updates must be in one module with their start: hlo_verifier.cc checks chains.
_ENDS: Final = ("-done", "-update")


@of_module
def extract(module: Module, instruction: Instruction | str, *, operands: int = 1, users: int = 1) -> Module:
    """Extracts the neighborhood of an instruction in its computation as a valid module.

    `operands` and `users` are the numbers of steps along operands and users. Other operands become parameters with the
    same names and shapes. Called computations, and both ends of async operations, are included. Instructions without
    users are the result, a tuple if there are several. The order is kept.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[] parameter(0)  q = f32[] negate(p)  ROOT r = f32[] add(q, p) }"
    >>> module = parse_module(text)
    >>> print(extract(module, "r", operands=0).entry.instructions)
    (<parameter p>, <parameter q>, <add r>)
    """
    for name, steps in (("operands", operands), ("users", users)):
        expect(int, f"a number of steps along {name}", steps)
    return extracted(module, module.instruction(instruction), operands=operands, users=users).module


def extracted(module: Module, instruction: Instruction, *, operands: int, users: int) -> RewrittenModule:
    """Extracted part as by `extract`, with the copies that protect its arguments from in-place updates.

    If copies are not sufficient, the part is not scheduled, so that XLA inserts copies.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = s8[9] parameter(0)  ROOT n = s8[9] negate(p) }")
    >>> extracted(module, module.entry.root, operands=1, users=1).copies
    ()
    """
    computation = instruction.computation
    all_users = users_of(computation)
    above = reached([instruction], lambda i: i.operands, steps=operands)
    below = reached([instruction], all_users.__getitem__, steps=users)
    # An asynchronous operation is kept whole, whatever the number of steps: half of one is no valid module.
    kept = reached(above | below, lambda i: _async_partners(i, all_users))
    entry = _Copy(computation, kept).entry()
    called = _called(module, kept)
    part = Module(
        module.name,
        (*called, entry),
        entry,
        module.source,
        tuple(_header(module.header)),
        module.is_scheduled,
        # Frames are looked up by number in tables of the whole module, so these are kept only if something refers to
        # them.
        stack_tables=module.stack_tables if _need_frames((*called, entry)) else "",
        read_stack_tables=module.read_stack_tables,
        read_header_value=module.read_header_value,
    )
    with suppress(HloError):
        # Cut out of its module, an update may come after a read that was ordered by what was left out.
        kept_part = fix_in_place_hazards(part, module)
        if _takes_elements(kept_part.module) == _takes_elements(part):
            return kept_part
    # A part that cannot keep its order is a module before scheduling.
    header = tuple(attribute for attribute in part.header if attribute.name != "is_scheduled")
    return RewrittenModule(replace(part, header=header, is_scheduled=False))


def _takes_elements(module: Module) -> bool:
    """Whether operands have tuple indices, such as `t#0`."""
    return any(computation.operand_indices for computation in module.computations)


def _header(header: Iterable[Attribute]) -> Iterator[Attribute]:
    """Yields the header attributes that do not refer to parameters and results of the whole module."""
    for attribute in header:
        if attribute.name == "frontend_attributes":
            left = _MODES.sub("", attribute.value).removesuffix("}").rstrip(", ")
            if left != "{":
                yield Attribute(attribute.name, left + "}")
        elif attribute.name not in _MODULE_ATTRIBUTES:
            yield attribute


def _async_partners(instruction: Instruction, users: Users) -> Iterator[Instruction]:
    """Yields the start of a done or update, and the dones and updates of a start."""
    if instruction.opcode.endswith(_ENDS):
        yield from instruction.operands[:1]
    if instruction.opcode.endswith(("-start", "-update")) or instruction.opcode in CHANNEL_STARTS:
        yield from (user for user in users[instruction] if user.opcode.endswith(_ENDS))


def _called(module: Module, instructions: Iterable[Instruction]) -> tuple[Computation, ...]:
    """Computations called by the instructions, transitively, in the order of the module."""
    waiting = [called for instruction in instructions for called in instruction.called_computations]
    reached: set[Computation] = set()
    while waiting:
        computation = waiting.pop()
        if computation not in reached:
            reached.add(computation)
            waiting.extend(c for i in computation.instructions for c in i.called_computations)
    return tuple(computation for computation in module.computations if computation in reached)


def _need_frames(computations: Iterable[Computation]) -> bool:
    return any("stack_frame_id=" in i.raw[1] for computation in computations for i in computation.instructions)


@dataclass(frozen=True, slots=True)
class _PartReader(NoText[Instruction]):
    """Reads copied instructions through the reader of their computation; `originals` are the originals by index."""

    reader: TextReader[Instruction]
    originals: Sequence[Instruction]

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """Parsed value of an attribute's text."""
        return self.reader.value(opcode, attribute, text)

    def metadata(self, instruction: Instruction) -> Metadata:
        """Metadata, if the attribute was copied."""
        return instruction.value_of("metadata", Metadata) or NO_METADATA

    def literal(self, instruction: Instruction) -> Literal:
        """Literal of a constant."""
        return self.reader.literal(self.originals[instruction.index])


@dataclass(slots=True)
class _Copy:
    """Entry computation of the new module: kept instructions, and parameters for other operands."""

    original: Computation
    extracted: dict[Instruction, None]
    copies: dict[Instruction, Instruction] = field(default_factory=dict)
    originals: list[Instruction] = field(default_factory=list)
    parameters: list[Instruction] = field(default_factory=list)
    elements: dict[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)
    names: frozenset[str] = field(init=False)
    computation: Computation = field(init=False)

    def __post_init__(self) -> None:
        self.names = frozenset(instruction.name for instruction in self.extracted)
        reader = _PartReader(self.original.reader, self.originals)
        self.computation = Computation(
            self.original.name,
            is_entry=True,
            execution_thread=self.original.execution_thread,
            backend_config=self.original.backend_config,
            reader=reader,
        )

    def entry(self) -> Computation:
        """Copies all instructions and returns the computation."""
        taken = dict.fromkeys(operand for instruction in self.extracted for operand in instruction.operands)
        for instruction in self.original.instructions:
            if instruction in self.extracted and instruction.opcode != opcodes.PARAMETER:
                self._copy(instruction)
            elif instruction in self.extracted or instruction in taken:
                self._parameter(instruction)
        # Values without users are results, as otherwise the compiler would remove them.
        unused = [copy for each, copy in self.copies.items() if each not in taken]
        results = () if len(unused) == 1 else (self._tuple(unused),)
        self.computation.instructions = Items((*self.copies.values(), *results))
        self.computation.parameters = tuple(self.parameters)
        self.computation.root = (*unused, *results)[-1]
        # Compact tuple elements (`%t#0`) are by position of the operand, so they go with the copy.
        self.computation.operand_indices = self.elements
        return self.computation

    def _copy(self, instruction: Instruction) -> None:
        operands = tuple(self.copies[operand] for operand in instruction.operands)
        attributes = tuple(self._attributes(instruction))
        copy = self._add(instruction, instruction.opcode, operands, attributes, instruction.text.argument)
        copy.called_computations = instruction.called_computations
        if (indices := instruction.computation.operand_indices.get(instruction.index)) is not None:
            self.elements[copy.index] = indices

    def _parameter(self, instruction: Instruction) -> None:
        """Appends a parameter: one of the computation, or a replacement of an operand that is not kept."""
        if instruction.opcode == opcodes.PARAMETER:
            attributes = tuple(self._attributes(instruction))
        else:
            attributes = tuple(a for a in instruction.attributes if a.name in KEPT_OF_OPERANDS)
        self.parameters.append(self._add(instruction, opcodes.PARAMETER, (), attributes, str(len(self.parameters))))

    def _add(
        self,
        instruction: Instruction,
        opcode: str,
        operands: tuple[Instruction, ...],
        attributes: tuple[Attribute, ...],
        argument: str,
    ) -> Instruction:
        text = InstructionText(attributes, argument)
        copy = Instruction(
            instruction.name, instruction.shape, opcode, operands, self.computation, len(self.copies), text
        )
        self.copies[instruction] = copy
        self.originals.append(instruction)
        return copy

    def _attributes(self, instruction: Instruction) -> Iterator[Attribute]:
        """Yields the attributes, without control predecessors that are not in the new module."""
        for attribute in instruction.attributes:
            if attribute.name != CONTROL_PREDECESSORS:
                yield attribute
            elif left := [name for name in _INSTRUCTION_NAME.findall(attribute.value) if name in self.names]:
                yield Attribute(attribute.name, "{" + ", ".join(f"%{name}" for name in left) + "}")

    def _tuple(self, unused: list[Instruction]) -> Instruction:
        """Tuple of all instructions without users."""
        names = {copy.name for copy in self.copies.values()}
        name = next(name for n in range(len(names) + 1) if (name := f"slice.{n}") not in names)
        shape = TupleShape(tuple(copy.shape for copy in unused))
        return Instruction(
            name, shape, opcodes.TUPLE, tuple(unused), self.computation, len(self.copies), InstructionText(())
        )
