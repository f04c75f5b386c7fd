"""Applies XLA's syntax sugar: `slice-start` for an async-start with one operation, `%t#0` for get-tuple-element.

Mirrors `PrintInstruction` with syntax_sugar_async_ops, and `PrintOperands` with compact get-tuple-elements, of
xla/hlo/ir/hlo_instruction.cc. Unlike XLA, it keeps what would not parse to the same module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import Users, users_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Attribute, Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.transform.async_wrapping import (
    SHARED_ATTRIBUTES,
    START_ATTRIBUTES,
    THREAD,
    chain_of,
    shared_attributes,
    wrapped_shapes,
)
from hlo_cli.transform.clone import ComputationCopy, Operand, begin_copies, copied_calls, with_computations

_SEMANTIC_ATTRIBUTE: Final = "frontend_attributes"
"""Attribute that a wrapped operation shares with its start, and that must not be lost."""
_DROPPED_ATTRIBUTES: Final = ("index", "metadata")
"""Attributes of a get-tuple-element that sugar can drop."""


def sugar(module: Module, *, elements: bool = True) -> Module:
    """Module with sugar for async operations and, if `elements`, for tuple elements; the same object if nothing
    changes.

    As in XLA, sugar loses the names in wrapped computations, metadata of wrapped operations and get-tuple-elements, and
    a backend_config of a wrapped operation that differs from that of the start. jaxlib 0.10.2 parses sugar for
    operations, but not for elements.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  w { a = f32[9] parameter(0)  ROOT r = f32[2] slice(a), slice={[0:2]} }"
    >>> text += " ENTRY e { p = (f32[9], s8[]) parameter(0)  g = f32[9] get-tuple-element(p), index=0"
    >>> text += "  s = ((f32[9]), f32[2], u32[]) async-start(g), calls=w  ROOT d = f32[2] async-done(s) }"
    >>> print(sugar(parse_module(text)).to_string())
    HloModule m
    <BLANKLINE>
    ENTRY %e (p: (f32[9], s8[])) -> f32[2] {
      %p = (f32[9]{0}, s8[]) parameter(0)
      %s = ((f32[9]{0}), f32[2]{0}, u32[]) slice-start(%p#0), slice={[0:2]}
      ROOT %d = f32[2]{0} slice-done(%s)
    }
    <BLANKLINE>
    <BLANKLINE>
    """
    return _Sugarer(module, with_elements=elements).run()


@dataclass(slots=True)
class _Sugarer:
    """Module that is being sugared; `opcodes` are the new opcodes of async operations, `wrapped` the operations by
    start.
    """

    module: Module
    with_elements: bool
    copies: dict[Computation, ComputationCopy] = field(init=False)
    opcodes: dict[Instruction, str] = field(default_factory=dict)
    wrapped: dict[Instruction, Instruction] = field(default_factory=dict)
    elements: dict[Instruction, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.copies = begin_copies(self.module)

    def run(self) -> Module:
        """Applies the sugar to all computations."""
        for computation in self.module.computations:
            self._find(computation)
        if not self.opcodes and not self.elements:
            return self.module
        unused = self._unused()
        kept = [computation for computation in self.module.computations if computation not in unused]
        return with_computations(self.module, [self._rewrite(self.copies[c]) for c in kept], self.copies)

    def _find(self, computation: Computation) -> None:
        """Finds the instructions of a computation that get sugar."""
        opcodes = {instruction.opcode for instruction in computation.instructions}
        wanted = {"async-start"} | ({"get-tuple-element"} if self.with_elements else set())
        if not opcodes & wanted:
            return
        users = users_of(computation)
        pinned = _control_predecessors(computation)
        for instruction in computation.instructions:
            if instruction.opcode == "async-start":
                self._find_start(instruction, users)
            elif instruction.opcode == "get-tuple-element" and self.with_elements:
                number = instruction.integer("index")
                used = (
                    users[instruction]
                    and instruction.operands
                    and not instruction.is_root
                    and instruction.name not in pinned
                )
                if used and number is not None and {a.name for a in instruction.attributes} <= set(_DROPPED_ATTRIBUTES):
                    self.elements[instruction] = number

    def _find_start(self, start: Instruction, users: Users) -> None:
        wrapped = _single_operation(start)
        chain = chain_of(start, users)
        if wrapped is None or any(user not in chain for each in chain[:-1] for user in users[each]):
            return
        if chain[-1].opcode != "async-done" or not _is_lossless(start, wrapped, chain):
            return
        self.wrapped[start] = wrapped
        self.opcodes |= {each: wrapped.opcode + each.opcode.removeprefix("async") for each in chain}

    def _unused(self) -> set[Computation]:
        """Wrapped computations without remaining callers."""
        wrapped = {instruction.computation for instruction in self.wrapped.values()}
        left = (i for i in self.module.instructions if i not in self.opcodes)
        return wrapped - {called for instruction in left for called in instruction.called_computations}

    def _rewrite(self, copy: ComputationCopy) -> Computation:
        for instruction in copy.original.instructions:
            if instruction in self.elements:
                continue
            operands = list(self._operands(instruction, copy))
            opcode = self.opcodes.get(instruction)
            if opcode is None:
                copy.copy(instruction, operands, copied_calls(instruction, self.copies))
                continue
            wrapped = self.wrapped.get(instruction)
            called = () if wrapped is None else copied_calls(wrapped, self.copies)
            attributes = _attributes(instruction, wrapped)
            copy.copy(instruction, operands, called, opcode=opcode, attributes=attributes)
        root = copy.original.root
        return copy.finish(None if root is None else copy.copies[root])

    def _operands(self, instruction: Instruction, copy: ComputationCopy) -> Iterator[Operand]:
        for position, operand in enumerate(instruction.operands):
            index = instruction.operand_index(position)
            while operand in self.elements:
                index = (*operand.operand_index(0), self.elements[operand], *index)
                operand = operand.operands[0]
            yield copy.copies[operand], index


def _control_predecessors(computation: Computation) -> set[str]:
    """Names of control predecessors, which must stay."""
    waiting = [i for i in computation.instructions if "control-predecessors=" in i.raw[1]]
    return {name for instruction in waiting for name in instruction.control_predecessors}


def _single_operation(start: Instruction) -> Instruction | None:
    """Operation of a start whose computation contains only it and its operands in order; None otherwise."""
    if len(start.called_computations) != 1:
        return None
    computation = start.called_computations[0]
    root = computation.root
    if root is None or wrapped_opcode(f"{root.opcode}-start") != root.opcode:
        return None
    is_all = len(computation.instructions) == len(root.operands) + 1
    return root if is_all and root.operands == computation.parameters else None


def _is_lossless(start: Instruction, wrapped: Instruction, chain: list[Instruction]) -> bool:
    """Whether the sugared start determines the wrapped operation."""
    parameters = tuple(operand.shape for operand in wrapped.operands)
    if wrapped_shapes(start.shape, wrapped.opcode, wrapped.called_computations) != (parameters, wrapped.shape):
        return False
    shared = shared_attributes(chain).get(_SEMANTIC_ATTRIBUTE)
    if wrapped.attribute(_SEMANTIC_ATTRIBUTE) != (shared[0] if shared is not None else None):
        return False
    own = {attribute.name for attribute in wrapped.attributes}
    names = {attribute.name for attribute in start.attributes} - {*SHARED_ATTRIBUTES, "calls"}
    return own.isdisjoint({*START_ATTRIBUTES, *names}) and not wrapped.computation.operand_indices


def _attributes(instruction: Instruction, wrapped: Instruction | None) -> Iterator[Attribute]:
    """Yields the attributes of a sugared operation; a start has those of the wrapped operation after its thread."""
    own = [attribute for attribute in instruction.attributes if attribute.name != "calls"]
    if wrapped is None:
        yield from own
        return
    yield from (attribute for attribute in own if attribute.name == THREAD)
    yield from (attribute for attribute in wrapped.attributes if attribute.name not in SHARED_ATTRIBUTES)
    yield from (attribute for attribute in own if attribute.name != THREAD)
