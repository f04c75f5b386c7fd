"""Expands syntax sugar: `slice-start` to an async-start with a computation, `%t#0` to a get-tuple-element.

Mirrors `HloParserImpl::CreateInstruction` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from hlo_cli.analysis.dataflow.dependencies import Users, users_of
from hlo_cli.analysis.schedule.async_verifier import ALIASING_THEMSELVES
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, free_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.ir.shape import Shape, ShapeIndex, UnknownShape, subshape
from hlo_cli.transform.async_wrapping import (
    SHARED_ATTRIBUTES,
    START_ATTRIBUTES,
    THREAD,
    chain_of,
    is_start,
    late_output,
    shared_attributes,
    wrapped_shapes,
)
from hlo_cli.transform.clone import ComputationCopy, Operand, begin_copies, copied_calls, with_computations

_ALIASING = "output_to_operand_aliasing"


def desugar(module: Module) -> Module:
    """Module without sugar, as XLA has it in memory; the same object if there is none.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = (f32[9], s8[]) parameter(0)  s = ((f32[9]), f32[2], u32[]) slice-start(p#0)"
    >>> module = desugar(parse_module(text + ", slice={[0:2]}  ROOT d = f32[2] slice-done(s) }"))
    >>> [(i.name, i.opcode) for i in module.instructions][2:]
    [('p', 'parameter'), ('p_0', 'get-tuple-element'), ('s', 'async-start'), ('d', 'async-done')]
    >>> print(module.computations[0].root, module.computations[0].root.attributes[0])
    <slice slice> slice={[0:2]}
    """
    if any(map(_is_sugared, module.computations)):
        return _Desugarer(module).run()
    return module


def _is_sugared(computation: Computation) -> bool:
    return bool(computation.operand_indices) or any(
        i.opcode.endswith(("-start", "-update", "-done")) and wrapped_opcode(i.opcode) for i in computation.instructions
    )


@dataclass(slots=True)
class _Desugarer:
    """Module that is being desugared; `computations` are the new ones, callees first."""

    module: Module
    copies: dict[Computation, ComputationCopy] = field(init=False)
    computations: list[Computation] = field(default_factory=list)
    names: set[str] = field(init=False)
    numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.copies = begin_copies(self.module)
        self.names = {computation.name for computation in self.module.computations}

    def run(self) -> Module:
        """Desugars all computations."""
        for computation in self.module.computations:
            self._fill(self.copies[computation])
        return with_computations(self.module, self.computations, self.copies)

    def _fill(self, copy: ComputationCopy) -> None:
        original = copy.original
        users = users_of(original) if any(is_start(i.opcode) for i in original.instructions) else {}
        elements = _TupleElements(copy)
        for instruction in original.instructions:
            operands = [elements.without_index(operand, instruction) for operand in copy.operands(instruction)]
            wrapped = wrapped_opcode(instruction.opcode)
            called = copied_calls(instruction, self.copies)
            if wrapped is None:
                copy.copy(instruction, operands, called)
            elif not is_start(instruction.opcode):
                opcode = "async" + instruction.opcode.removeprefix(wrapped)
                copy.copy(instruction, operands, called, opcode=opcode, attributes=_not_repeated(instruction, wrapped))
            else:
                self._start(copy, instruction, operands, wrapped, users)
        self.computations.append(copy.finish(copy.copies[original.root] if original.root is not None else None))

    def _start(
        self, copy: ComputationCopy, start: Instruction, operands: list[Operand], wrapped: str, users: Users
    ) -> None:
        """Expands a start, with a new wrapped computation; copies it unchanged if its shape is invalid."""
        called = copied_calls(start, self.copies)
        shapes = wrapped_shapes(start.shape, wrapped, start.called_computations)
        if shapes is None:
            copy.copy(start, operands, called)
            return
        thread = next((a.value for a in start.attributes if a.name == THREAD), None)
        chain = chain_of(start, users)
        computation = self._wrapped(start, wrapped, (shapes[0], late_output(shapes[1], chain)), chain)
        computation.execution_thread = "main" if thread is None else thread.strip("\"'")
        assert computation.root is not None
        computation.root.called_computations = called
        attributes = _start_attributes(start, wrapped, Attribute("calls", f"%{computation.name}"))
        copy.copy(start, operands, (computation,), opcode=opcodes.ASYNC_START, attributes=attributes)

    def _wrapped(
        self, start: Instruction, opcode: str, shapes: tuple[tuple[Shape, ...], Shape], chain: list[Instruction]
    ) -> Computation:
        """New computation of a start: parameters, and the wrapped operation as root."""
        name = free_name("async_wrapped", self.names, self.numbers)
        self.names.add(name)
        parameters, result = shapes
        body = ComputationCopy(Computation("", reader=start.computation.reader), Computation(name))
        operands: list[Operand] = []
        for number, shape in enumerate(parameters):
            text = InstructionText((), str(number), start.span)
            wanted = "async_param" + (f".{number}" if number else "")
            operands.append((body.add(wanted, shape, opcodes.PARAMETER, (), source=start, text=text), ()))
        shared = shared_attributes(chain)
        source = shared["metadata"][1] if "metadata" in shared else start
        own = [
            a for a in start.attributes if not _is_start_attribute(a.name, opcode) and a.name not in SHARED_ATTRIBUTES
        ]
        both = [Attribute(attribute, value) for attribute, (value, _) in shared.items()]
        text = InstructionText((*own, *both), span=start.span)
        root = body.add(opcode, result, opcode, operands, source=source, text=text)
        computation = body.finish(root)
        computation.parameters = tuple(parameter for parameter, _ in operands)
        self.computations.append(computation)
        return computation


def _is_start_attribute(attribute: str, wrapped: str) -> bool:
    """Whether an attribute of a sugared start belongs to the start, not to the wrapped operation."""
    return attribute in START_ATTRIBUTES or (attribute == _ALIASING and wrapped not in ALIASING_THEMSELVES)


def _not_repeated(end: Instruction, wrapped: str) -> tuple[Attribute, ...]:
    """The attributes of an update or done without those of the wrapped operation, which some texts repeat."""
    start = end
    while start.operands and not is_start(start.opcode) and wrapped_opcode(start.opcode) == wrapped:
        start = start.operands[0]
    repeated = {
        (each.name, each.value)
        for each in start.attributes
        if not _is_start_attribute(each.name, wrapped) and each.name not in SHARED_ATTRIBUTES
    }
    return tuple(each for each in end.attributes if start is end or (each.name, each.value) not in repeated)


def _start_attributes(start: Instruction, wrapped: str, calls: Attribute) -> Iterator[Attribute]:
    """Yields the attributes of the async-start in XLA's printing order."""
    kept = [a for a in start.attributes if a.name in SHARED_ATTRIBUTES or _is_start_attribute(a.name, wrapped)]
    yield from (a for a in kept if a.name == THREAD)
    yield calls
    yield from (a for a in kept if a.name == _ALIASING)
    yield from (a for a in kept if a.name not in (THREAD, _ALIASING))


@dataclass(slots=True)
class _TupleElements:
    """New get-tuple-elements of one computation, each made once, before its first user."""

    copy: ComputationCopy
    made: dict[tuple[Instruction, int], Instruction] = field(default_factory=dict)

    def without_index(self, operand: Operand, user: Instruction) -> Operand:
        """Operand as an instruction, with get-tuple-elements for its index."""
        value, index = operand
        for number in index:
            if (value, number) not in self.made:
                self.made[value, number] = self._element(value, number, user)
            value = self.made[value, number]
        return value, ()

    def _element(self, value: Instruction, number: int, user: Instruction) -> Instruction:
        index: ShapeIndex = (number,)
        shape = subshape(value.shape, index) or UnknownShape()
        text = InstructionText((Attribute("index", str(number)),), span=user.span)
        name = self.copy.free_name(f"{value.name}_{number}")
        return self.copy.add(name, shape, "get-tuple-element", [(value, ())], source=user, text=text)
