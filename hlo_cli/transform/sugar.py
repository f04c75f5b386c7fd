"""How asynchronous operations and tuple elements are written in short, and what the short forms stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import reached, users_of
from hlo_cli.analysis.schedule.async_verifier import ALIASING_THEMSELVES
from hlo_cli.analysis.shapes.calling import STARTED_LATE
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, Users, free_name
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import (
    ASYNC_CONTINUATIONS,
    CONTROL_PREDECESSORS,
    OUTPUT_TO_OPERAND_ALIASING,
    attributes_with,
    wrapped_opcode,
)
from hlo_cli.ir.shape import Shape, ShapeIndex, TupleShape, UnknownShape, subshape
from hlo_cli.transform.rewriting import ComputationCopy, Operand, begin_copies, copied_calls, with_computations

# --- what belongs to the start, what to the operation ---
# Splits the attributes and shapes of a sugared async operation between the start and the wrapped operation.
#
# Mirrors `CreateInstruction` for kAsyncStart and `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.cc.


# HloAsyncInstruction has a thread of its own, not of the wrapped one.
THREAD: Final = "async_execution_thread"
START_ATTRIBUTES: Final = attributes_with("of a start")
"""Attributes of a sugared start that stay on the async-start."""
SHARED_ATTRIBUTES: Final = attributes_with("of what is wrapped")
"""Attributes that the wrapped operation shares; the last operation of the chain with one determines its value."""

_EMPTY_TUPLE: Final = TupleShape(())


def is_start(opcode: str) -> bool:
    """Whether a sugared opcode starts an async operation.

    >>> is_start("slice-start"), is_start("slice-done"), is_start("copy-start")
    (True, False, False)
    """
    return opcode.endswith("-start") and wrapped_opcode(opcode) is not None


def _chain_of(start: Instruction, users: Users) -> list[Instruction]:
    """Start, updates, and done of an async operation, in the order of the text."""
    found = reached([start], lambda i: [user for user in users[i] if user.operands[0] is i and _continues(user, start)])
    return sorted(found, key=lambda instruction: instruction.index)


def _continues(user: Instruction, start: Instruction) -> bool:
    wrapped = wrapped_opcode(start.opcode)
    if wrapped is None:
        # async-update and async-done in full, or with the wrapped opcode in short.
        return user.opcode in ASYNC_CONTINUATIONS
    return user.opcode in (f"{wrapped}-update", f"{wrapped}-done")


def _shared_attributes(chain: list[Instruction]) -> dict[str, tuple[str, Instruction]]:
    """Shared attributes of the wrapped operation: value, and the operation of the chain that has it."""
    attributes_by_name = {
        attribute.name: (attribute.value, instruction) for instruction in chain for attribute in instruction.attributes
    }
    return {name: attributes_by_name[name] for name in SHARED_ATTRIBUTES if name in attributes_by_name}


def _wrapped_shapes(
    start: Shape, opcode: str, called: tuple[Computation, ...]
) -> tuple[tuple[Shape, ...], Shape] | None:
    """Parameter and result shapes of the operation that a start of this shape wraps; None for another shape.

    Operands that are bound after the start are those of the called computation.
    """
    if not isinstance(start, TupleShape) or len(start.elements) < 2 or not isinstance(start.elements[0], TupleShape):
        return None
    bound, result = start.elements[0].elements, start.elements[1]
    # A start before all operands are known has the shapes of the first ones; the others are in the computation.
    if opcode not in STARTED_LATE or not called or called[0].root is None:
        return bound, result
    later = called[0].parameters[len(bound) :]
    return (*bound, *(parameter.shape for parameter in later)), called[0].root.shape if later else result


def _late_output(result: Shape, chain: list[Instruction]) -> Shape:
    """Output of a chain whose start has the output `result`: that of the done, if the start's is empty.

    XLA before mid-2026 does not support late outputs, and reads an empty output.

    >>> from hlo_cli import parse_shape
    >>> from hlo_cli import parse_module
    >>> done = parse_module("ENTRY e { s = ((), (), s32[]) async-start()  ROOT d = f32[3] async-done(s) }").entry.root
    >>> for result, chain in (("f32[2]", []), ("()", [done]), ("()", [done, done.operands[0]]), ("f32[2]", [done])):
    ...     print(_late_output(parse_shape(result), chain))
    f32[2]{0}
    f32[3]{0}
    ()
    f32[2]{0}
    """
    ends = [each for each in chain[-1:] if each.opcode.endswith("-done")]
    return ends[0].shape if result == _EMPTY_TUPLE and ends else result


# --- without sugar ---
# Expands syntax sugar: `slice-start` to an async-start with a computation, `%t#0` to a get-tuple-element.
#
# Mirrors `HloParserImpl::CreateInstruction` of xla/hlo/parser/hlo_parser.cc.


@of_module
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
        # Users are needed for chains only, and are expensive.
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
        self.computations.append(copy.finish())

    def _start(
        self, copy: ComputationCopy, start: Instruction, operands: list[Operand], wrapped: str, users: Users
    ) -> None:
        """Expands a start, with a new wrapped computation; copies it unchanged if its shape is invalid."""
        called = copied_calls(start, self.copies)
        shapes = _wrapped_shapes(start.shape, wrapped, start.called_computations)
        if shapes is None:
            copy.copy(start, operands, called)
            return
        thread = next((a.value for a in start.attributes if a.name == THREAD), None)
        chain = _chain_of(start, users)
        computation = self._wrapped(start, wrapped, (shapes[0], _late_output(shapes[1], chain)), chain)
        # main is XLA's default (HloInstruction::kMainExecutionThread).
        computation.execution_thread = "main" if thread is None else thread.strip("\"'")
        assert computation.root is not None
        computation.root.called_computations = called
        attributes = _start_attributes(start, wrapped, Attribute("calls", f"%{computation.name}"))
        copy.copy(start, operands, (computation,), opcode=opcodes.ASYNC_START, attributes=attributes)

    def _wrapped(
        self, start: Instruction, opcode: str, shapes: tuple[tuple[Shape, ...], Shape], chain: list[Instruction]
    ) -> Computation:
        """New computation of a start: parameters, and the wrapped operation as root."""
        # The name by which HloParserImpl::CreateInstruction makes it.
        name = free_name("async_wrapped", self.names, self.numbers)
        self.names.add(name)
        parameters, result = shapes
        body = ComputationCopy(Computation("", reader=start.computation.reader), Computation(name))
        operands: list[Operand] = []
        for number, shape in enumerate(parameters):
            text = InstructionText((), str(number), start.span)
            wanted = "async_param" + (f".{number}" if number else "")
            operands.append((body.add(wanted, shape, opcodes.PARAMETER, (), source=start, text=text), ()))
        shared = _shared_attributes(chain)
        # The last one of the chain with metadata is the source, as the parser overwrites it each time.
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
    return attribute in START_ATTRIBUTES or (
        attribute == OUTPUT_TO_OPERAND_ALIASING and wrapped not in ALIASING_THEMSELVES
    )


def _not_repeated(end: Instruction, wrapped: str) -> tuple[Attribute, ...]:
    """The attributes of an update or done without those of the wrapped operation, which some texts repeat."""
    start = end
    while start.operands and not is_start(start.opcode) and wrapped_opcode(start.opcode) == wrapped:
        start = start.operands[0]
    # XLA prints them once; some texts repeat them.
    repeated = {
        (each.name, each.value)
        for each in start.attributes
        if not _is_start_attribute(each.name, wrapped) and each.name not in SHARED_ATTRIBUTES
    }
    return tuple(each for each in end.attributes if start is end or (each.name, each.value) not in repeated)


def _start_attributes(start: Instruction, wrapped: str, calls: Attribute) -> Iterator[Attribute]:
    """Yields the attributes of the async-start in XLA's printing order."""
    # Order of HloInstruction::PrintExtraAttributes.
    kept = [a for a in start.attributes if a.name in SHARED_ATTRIBUTES or _is_start_attribute(a.name, wrapped)]
    yield from (a for a in kept if a.name == THREAD)
    yield calls
    # XLA prints the aliasing after calls
    yield from (a for a in kept if a.name == OUTPUT_TO_OPERAND_ALIASING)
    yield from (a for a in kept if a.name not in (THREAD, OUTPUT_TO_OPERAND_ALIASING))


@dataclass(slots=True)
class _TupleElements:
    """New get-tuple-elements of one computation, each made once, before its first user."""

    copy: ComputationCopy
    made: dict[tuple[Instruction, int], Instruction] = field(default_factory=dict)

    def without_index(self, operand: Operand, user: Instruction) -> Operand:
        """Operand as an instruction, with get-tuple-elements for its index."""
        value, index = operand
        for number in index:
            # One element instruction for each value and number, before its first user.
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


# --- with sugar ---
# Applies XLA's syntax sugar: `slice-start` for an async-start with one operation, `%t#0` for get-tuple-element.
#
# Mirrors `PrintInstruction` with syntax_sugar_async_ops, and `PrintOperands` with compact get-tuple-elements, of
# xla/hlo/ir/hlo_instruction.cc. Unlike XLA, it keeps what would not parse to the same module.


_SEMANTIC_ATTRIBUTE: Final = "frontend_attributes"
"""Attribute that a wrapped operation shares with its start, and that must not be lost."""
_DROPPED_ATTRIBUTES: Final = ("index", "metadata")
"""Attributes of a get-tuple-element that sugar can drop."""


@of_module
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
        wanted = {"async-start"} | ({"get-tuple-element"} if self.with_elements else set())  # only faster
        if not opcodes & wanted:
            return
        users = users_of(computation)
        # Control edges name the instruction, so it must stay.
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
        chain = _chain_of(start, users)
        # A chain that others read from outside cannot be written in short.
        if wrapped is None or any(user not in chain for each in chain[:-1] for user in users[each]):
            return
        if chain[-1].opcode != "async-done" or not _is_lossless(start, wrapped, chain):
            return
        self.wrapped[start] = wrapped
        self.opcodes |= {each: wrapped.opcode + each.opcode.removeprefix("async") for each in chain}

    def _unused(self) -> set[Computation]:
        """Wrapped computations without remaining callers."""
        # Computations of chains that stay long are still called.
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
        return copy.finish()

    def _operands(self, instruction: Instruction, copy: ComputationCopy) -> Iterator[Operand]:
        for position, operand in enumerate(instruction.operands):
            index = instruction.operand_index(position)
            while operand in self.elements:
                index = (*operand.operand_index(0), self.elements[operand], *index)
                operand = operand.operands[0]
            yield copy.copies[operand], index


def _control_predecessors(computation: Computation) -> set[str]:
    """Names of control predecessors, which must stay."""
    waiting = [i for i in computation.instructions if CONTROL_PREDECESSORS in i.raw[1]]  # only faster
    return {name for instruction in waiting for name in instruction.control_predecessors}


def _single_operation(start: Instruction) -> Instruction | None:
    """Operation of a start whose computation contains only it and its operands in order; None otherwise."""
    # Operands in the order of parameters and nothing else: only then the short form can be read back.
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
    if _wrapped_shapes(start.shape, wrapped.opcode, wrapped.called_computations) != (parameters, wrapped.shape):
        return False
    shared = _shared_attributes(chain).get(_SEMANTIC_ATTRIBUTE)
    # Frontend attributes can change what is computed, so a difference must not be lost.
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
    # Thread first, as XLA prints.
    yield from (attribute for attribute in wrapped.attributes if attribute.name not in SHARED_ATTRIBUTES)
    yield from (attribute for attribute in own if attribute.name != THREAD)
