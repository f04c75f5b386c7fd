"""What depends on what within a computation: users and uses, arrays defined, and operands before their users?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction, Users, users_among
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.operations import (
    ASYNC_COLLECTIVE_DONE,
    ASYNC_COLLECTIVE_START,
    CALLING_ATTRIBUTES,
    CHANNEL_STARTS,
    COLLECTIVES,
    CONTROL_PREDECESSORS,
    DONES,
    ELEMENTWISE,
    FORWARDING,
    OUTPUT_TO_OPERAND_ALIASING,
    RUNNERS,
    wrapped_opcode,
)
from hlo_cli.ir.shape import ArrayShape, BufferShape, ShapeIndex

# --- users ---
# Mirrors `HloInstruction::users`.


def users_of(computation: Computation) -> Users:
    """Returns the users of each instruction, each user once, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[] parameter(0)  ROOT q = f32[] add(p, p) }").entry
    >>> users_of(entry)
    {<parameter p>: (<add q>,), <add q>: ()}
    """
    return users_among(computation.instructions)


def reached(
    starts: Iterable[Instruction],
    next_to: Callable[[Instruction], Iterable[Instruction]],
    *,
    steps: int | None = None,
) -> dict[Instruction, None]:
    """Returns the instructions within a number of steps, or any number, of the starts, which are included.

    `next_to` returns the neighbors of an instruction.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("HloModule m  ENTRY e { p = f32[] parameter(0)  ROOT q = f32[] add(p, p) }").entry
    >>> list(reached([entry.root], lambda instruction: instruction.operands, steps=1))
    [<add q>, <parameter p>]
    """
    visited = dict.fromkeys(starts)
    frontier = list(visited)
    while frontier and steps != 0:
        new = dict.fromkeys(other for instruction in frontier for other in next_to(instruction) if other not in visited)
        visited |= new
        frontier = list(new)
        steps = None if steps is None else steps - 1
    return visited


# --- uses through instructions that forward ---


PASSES_ON_ONE_VALUE: Final = frozenset(
    (opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT, opcodes.COPY_DONE, opcodes.ASYNC_DONE, opcodes.OPT_BARRIER)
)
"""Opcodes that forward their operand or one of its elements."""


def producer_of(instruction: Instruction) -> Instruction:
    """Returns the instruction that computes a value, through all forwarding ones."""
    while instruction.opcode in PASSES_ON_ONE_VALUE and instruction.operands:
        instruction = instruction.operands[0]
    return instruction


def uses_of(definer: Instruction, users: Users) -> tuple[Instruction, ...]:
    """Returns the instructions that use a value, directly or through forwarding ones."""
    uses: dict[Instruction, None] = {}
    worklist, visited = [definer], {definer}
    while worklist:
        for user in users.get(worklist.pop(), ()):
            if user.opcode not in PASSES_ON_ONE_VALUE:
                uses[user] = None
            elif user not in visited:
                visited.add(user)
                worklist.append(user)
    return tuple(uses)


# --- elementwise on an operand ---
# Mirrors `HloInstruction::IsElementwiseOnOperand` of xla/hlo/ir/hlo_instruction.cc.


# XLA counts map and rng, whatever they compute.
_ELEMENTWISE_OPCODES: Final = ELEMENTWISE - {opcodes.BITCAST_CONVERT} | {opcodes.MAP, opcodes.RNG}


def is_elementwise_on(instruction: Instruction, position: int) -> bool:
    """Returns whether an instruction is elementwise on the operand at a position.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry.root
    >>> is_elementwise_on(root, 0), is_elementwise_on(root, 1)
    (True, False)
    """
    if instruction.opcode in _ELEMENTWISE_OPCODES:
        return True
    match instruction.opcode:
        # hlo_instruction.cc, IsElementwiseOnOperand: a dynamic-update-slice counts as elementwise on operand 0.
        case opcodes.DYNAMIC_UPDATE_SLICE:
            return position == 0
        case "bitcast-convert":
            operand = instruction.operand_shape(position)
            return (
                isinstance(instruction.shape, ArrayShape)
                and isinstance(operand, ArrayShape)
                and (instruction.shape.element_type.bits == operand.element_type.bits)
            )
        case opcodes.FUSION:
            return _is_fused_elementwise(instruction, position)
    return False


def _is_fused_elementwise(fusion: Instruction, position: int) -> bool:
    """Returns whether all instructions from a fusion's parameter to its root are elementwise."""
    called = fusion.called_computations[:1]
    if not called or position >= len(called[0].parameters):
        return False
    users = users_of(called[0])
    waiting, seen = [called[0].parameters[position]], set[Instruction]()
    while waiting:
        instruction = waiting.pop()
        for user in users.get(instruction, ()):
            # A fusion within a fusion is not looked into: no is the careful answer.
            if user.opcode == opcodes.FUSION or not is_elementwise_on(user, user.operands.index(instruction)):
                return False
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return True


# --- arrays that instructions define ---
# Mirrors `HloDataflowAnalysis::InitializeInstructionValueSets` of xla/hlo/analysis/hlo_dataflow_analysis.cc. Arrays in
# fused computations and reducers are not in memory and are omitted.


_DEFINES_NO_ARRAY: Final = (
    FORWARDING
    | DONES
    | frozenset("after-all async-update call conditional get-tuple-element partition-id-done tuple while".split())
)
"""Opcodes that define no arrays."""


@dataclass(frozen=True, slots=True)
class Value:
    """An array that an instruction defines, at an index of its result.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> [str(value) for value in values_of(module)]
    ['p']
    """

    instruction: Instruction
    index: ShapeIndex
    shape: ArrayShape

    @property
    def is_context(self) -> bool:
        """Whether the array is a context of an async operation, such as a semaphore."""
        opcode = self.instruction.opcode
        # send and recv return (data, context, token); other starts (operands, result, contexts…).
        first = 1 if opcode in CHANNEL_STARTS else 2
        return (opcode.endswith("-start") or first == 1) and len(self.index) > 0 and self.index[0] >= first

    def __str__(self) -> str:
        return self.instruction.name + index_suffix(self.index)


def values_of(module: Module) -> Iterator[Value]:
    """Yields the arrays that an execution of the module puts into memory, computation by computation."""
    for computation in sequentially_executed(module):
        for instruction in computation.instructions:
            yield from values_made_by(instruction)


def values_made_by(instruction: Instruction) -> Iterator[Value]:
    """Yields the arrays that one instruction defines."""
    opcode = instruction.opcode
    if opcode in _DEFINES_NO_ARRAY or _is_sugared_end(opcode):
        return
    # Those of callees are the buffers that the caller passes.
    if opcode == opcodes.PARAMETER and not instruction.computation.is_entry:
        return
    for index, leaf in instruction.shape.leaves:
        array = leaf.array if isinstance(leaf, BufferShape) else leaf
        if isinstance(array, ArrayShape) and not _is_forwarded(instruction, index):
            yield Value(instruction, index, array)


def sequentially_executed(module: Module) -> tuple[Computation, ...]:
    """Returns the computations that execute instruction by instruction: entry, loop bodies, branches, and callees."""
    executed = {module.entry: None}
    worklist = [module.entry]
    while worklist:
        for instruction in worklist.pop().instructions:
            if executes_callees(instruction):
                for called in instruction.called_computations:
                    if called not in executed:
                        executed[called] = None
                        worklist.append(called)
    return tuple(computation for computation in module.computations if computation in executed)


def executes_callees(instruction: Instruction) -> bool:
    """Returns whether an instruction executes its callees as control flow, neither fused nor per element."""
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode
    return opcode in RUNNERS and bool(instruction.called_computations)


def target_of_root(instruction: Instruction) -> str | None:
    """The custom-call target of a fusion's root, None if it has another, or if this is no fusion."""
    if instruction.opcode != opcodes.FUSION or not instruction.called_computations:
        return None
    root = instruction.called_computations[0].root
    return root.string("custom_call_target") if root is not None and root.opcode == opcodes.CUSTOM_CALL else None


def passes_on(fusion: Instruction, index: ShapeIndex) -> bool:
    """Returns whether a fusion only hands on the array at an index of its result, as those of async collectives do.

    On TPU, a collective starts in a fusion with the root `AsyncCollectiveStart`, goes on in fusions that compute
    meanwhile, and ends in one with the root `AsyncCollectiveDone`. Each returns the operand, the output, and semaphores
    again, of which the output (element 1 of the start) alone is an array of its own.
    """
    if OUTPUT_TO_OPERAND_ALIASING not in fusion.raw[1] or not fusion.called_computations:
        return False
    root = fusion.called_computations[0].root
    if root is None:
        return False
    if root.opcode == opcodes.CUSTOM_CALL:
        target = root.string("custom_call_target")
        return (target == ASYNC_COLLECTIVE_START and index != (1,)) or target == ASYNC_COLLECTIVE_DONE
    if root.opcode != opcodes.TUPLE or not index or index[0] >= len(root.operands):
        return False
    handed = root.operands[index[0]].opcode
    return (handed == opcodes.PARAMETER or handed in COLLECTIVES) and any(
        alias.output_index == index for alias in fusion.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias)
    )


def _is_forwarded(instruction: Instruction, index: ShapeIndex) -> bool:
    """Returns whether an instruction forwards the array at an index of its result."""
    match instruction.opcode:
        # (destination, source, context): the operand is element 1 here, element 0 in every other start.
        case opcodes.COPY_START:
            return index == (1,)
        case opcodes.ALL_GATHER_START | opcodes.COLLECTIVE_PERMUTE_START:
            return index[:1] == (0,)
        case opcodes.SEND:
            return index == (0,)
        case opcodes.FUSION:
            return passes_on(instruction, index)
        case opcode if opcode == opcodes.ASYNC_START or (
            opcode.endswith("-start") and wrapped_opcode(opcode) is not None
        ):
            return index[:1] == (0,) or (index[:1] == (1,) and executes_callees(instruction))
        case _:
            return False


def _is_sugared_end(opcode: str) -> bool:
    """Returns whether an opcode is a sugared update or done."""
    return opcode.endswith(("-done", "-update")) and wrapped_opcode(opcode) is not None


# --- post-order ---
# Operands before users.
#
# Mirrors `HloComputation::MakeInstructionPostOrder` of xla/hlo/ir/hlo_computation.cc.


_T = TypeVar("_T", bound=Hashable)


def instruction_post_order(computation: Computation, *, text: str = "") -> tuple[int, ...]:
    """Returns the indices of a computation's instructions in post-order.

    The traversal is depth first from each instruction without users. It visits control predecessors from last to
    first, then operands from first to last. `text` is the module's source, used to skip the search for control
    predecessors.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { b = f32[] parameter(1) a = f32[] parameter(0) ROOT c = f32[] add(a, b) }"
    >>> instruction_post_order(parse_module(text).entry)
    (1, 0, 2)
    """
    instructions = computation.instructions
    before = control_predecessors(computation, text)
    used = bytearray(len(instructions))
    for instruction in instructions:
        for operand in instruction.operands:
            used[operand.index] = 1
    for predecessors in before.values():
        for predecessor in predecessors:
            used[predecessor] = 1
    done = bytearray(len(instructions))
    order: list[int] = []
    for first in range(len(instructions)):
        if not used[first]:
            _visit(instructions, before, first, done, order)
    for first in range(len(instructions)):  # instructions in cycles of malformed modules
        _visit(instructions, before, first, done, order)
    return tuple(order)


def _visit(
    instructions: tuple[Instruction, ...], before: dict[int, list[int]], first: int, done: bytearray, order: list[int]
) -> None:
    """Appends the predecessors of an instruction, then itself; `done` is 1 while it is on the stack, 2 afterwards."""
    stack = [first]
    while stack:
        index = stack[-1]
        if done[index]:
            stack.pop()
            if done[index] == 1:
                done[index] = 2
                order.append(index)
            continue
        done[index] = 1
        # The stack turns the order round: control predecessors end up on top, the last one first.
        needed = [operand.index for operand in reversed(instructions[index].operands)]
        stack.extend(n for n in (*needed, *before.get(index, ())) if not done[n])


def control_predecessors(computation: Computation, text: str = "") -> dict[int, list[int]]:
    """Returns the indices of the control predecessors of each instruction that has any.

    >>> from hlo_cli import parse_module
    >>> text = "a = f32[] parameter(0) b = f32[] negate(a) ROOT c = f32[] sine(a), control-predecessors={b}"
    >>> text = f"HloModule m  ENTRY e {{ {text} }}"
    >>> control_predecessors(parse_module(text).entry)
    {2: [1]}
    """
    predecessors: dict[int, list[int]] = {}
    names: dict[str, int] = {}
    # Few computations have control dependencies; one search of the text spares a look at each instruction.
    if (
        text
        and computation.span is not None
        and text.find(CONTROL_PREDECESSORS, computation.span.start, computation.span.end) < 0
    ):
        return predecessors
    for instruction in computation.instructions:
        if CONTROL_PREDECESSORS in instruction.raw[1]:
            names = names or {i.name: i.index for i in computation.instructions}
            predecessors[instruction.index] = [
                names[name] for name in instruction.control_predecessors if name in names
            ]
    return predecessors


def depth_first(starts: Iterable[_T], below: Callable[[_T], Iterable[_T]]) -> Iterator[_T]:
    """Depth-first post-order from `starts`; a cycle is cut where it closes.

    >>> list(depth_first("a", {"a": "bc", "b": "c", "c": ""}.__getitem__))
    ['c', 'b', 'a']
    """
    visited: set[_T] = set()
    for start in starts:
        if start in visited:
            continue
        visited.add(start)
        open_ = [(start, iter(below(start)))]
        while open_:
            node, remaining = open_[-1]
            inner = next((other for other in remaining if other not in visited), None)
            if inner is None:
                open_.pop()
                yield node
            else:
                visited.add(inner)
                open_.append((inner, iter(below(inner))))


# --- orders in which costs are summed ---
# Callees before callers, and operands before users.
#
# Mirrors `HloComputation::Accept` of xla/hlo/ir/hlo_computation.cc.


def callees_first(computations: Iterable[Computation]) -> Iterator[Computation]:
    """These computations and all their callees, callees first.

    >>> from hlo_cli import parse_module
    >>> text = '''f { ROOT p = f32[] parameter(0) }
    ... ENTRY e { a = f32[] parameter(0)  ROOT r = f32[] call(a), to_apply=f }'''
    >>> [computation.name for computation in callees_first([parse_module(text).entry])]
    ['f', 'e']
    """
    return depth_first(computations, lambda c: [called for i in c.instructions for called in i.called_computations])


def post_order(computation: Computation) -> Iterator[Instruction]:
    """Instructions in XLA's visiting order: those without users, in the order of the text, with all before them; then
    the root.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { b = s8[] parameter(1)  a = s8[] parameter(0)  d = s8[] not(a)  ROOT r = s8[] add(a, b) }"
    >>> [instruction.name for instruction in post_order(parse_module(text).entry)]
    ['a', 'd', 'b', 'r']
    """
    instructions = computation.instructions
    controlled = {
        instructions[index]: [instructions[n] for n in before]
        for index, before in control_predecessors(computation).items()
    }
    root = computation.root
    used = {operand for i in computation.instructions for operand in (*i.operands, *controlled.get(i, ()))}
    # HloComputation::Accept visits dead instructions first and the root last, so sums round in this order.
    ends = [i for i in computation.instructions if i not in used and i is not root]
    last = computation.instructions if root is None else (root, *computation.instructions)  # circles have no end
    return depth_first((*ends, *last), lambda i: [*i.operands, *controlled.get(i, ())])


# --- computations that are equal but for names ---
# The layers of a model are compiled one by one: of its fused computations, most are equal to one of another layer.


class EqualComputations:
    """Finds computations that are equal but for names, metadata, and annotations of operations without attributes.

    Whatever depends on neither, such as their cost, is computed once for all of them. Computations must be asked for
    callees first; those that select elements of tuples in their operands are equal to themselves alone.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = s8[] parameter(0)  ROOT n = s8[] not(p) }  g { q = s8[] parameter(0)  ROOT o = s8[] not(q) }
    ... ENTRY e { a = s8[] parameter(0)  b = s8[] call(a), to_apply=f  ROOT c = s8[] call(b), to_apply=g }'''
    >>> equal, module = EqualComputations(), parse_module(text)
    >>> [equal.first(computation).name for computation in callees_first([module.entry])]
    ['f', 'f', 'e']
    """

    __slots__ = ("_first", "_forms", "_only")

    def __init__(self) -> None:
        self._first: dict[Computation, Computation] = {}
        self._forms: dict[tuple[object, ...], Computation] = {}
        self._only: dict[tuple[object, ...], Computation | None] = {}

    def first(self, computation: Computation) -> Computation:
        """Returns the first computation of those that are equal to this one."""
        first = self._first.get(computation)
        if first is None:
            first = self._first[computation] = self._find(computation)
        return first

    def _find(self, computation: Computation) -> Computation:
        root = computation.root
        if computation.operand_indices or root is None:
            return computation
        # The form is made only if another computation looks the same from outside: the largest, the entry, never is.
        outside = len(computation.instructions), len(computation.parameters), root.opcode, id(root.shape), root.index
        if (only := self._only.setdefault(outside, computation)) is computation:
            return computation
        if only is not None:
            self._only[outside] = None
            self._forms[self._form(only)] = only
        return self._forms.setdefault(self._form(computation), computation)

    def _form(self, computation: Computation) -> tuple[object, ...]:
        # Shapes by identity: a reader has one object for all equal texts, and hashing a shape is slow.
        parts: list[object] = [computation.root and computation.root.index, *[p.index for p in computation.parameters]]
        for instruction in computation.instructions:
            opcode, called = instruction.opcode, instruction.called_computations
            text: object = ""
            if called:
                text = tuple([pair for pair in instruction.pairs if pair[0] not in _NOT_COMPARED])
            elif opcode not in _SAID_BY_SHAPES:
                argument, attributes = instruction.raw
                text = argument, _without_metadata(attributes)
            operands = [operand.index for operand in instruction.operands]
            parts.append((opcode, id(instruction.shape), text, *map(self.first, called), *operands))
        return tuple(parts)


_SAID_BY_SHAPES: Final = ELEMENTWISE - {opcodes.COMPARE, opcodes.REDUCE_PRECISION} | {
    opcodes.BITCAST,
    opcodes.PARAMETER,
    opcodes.TUPLE,
}
"""Opcodes without attributes of their own; the numbers of parameters are in their order."""
_NOT_COMPARED: Final = frozenset((*CALLING_ATTRIBUTES, "metadata"))
_METADATA: Final = ", metadata={"


def _without_metadata(attributes: str) -> str:
    """Attributes without their metadata; with it, or with a part of it, if it is unusual.

    >>> _without_metadata(', a={1}, metadata={op_name="f"}, b=2'), _without_metadata(', a=", metadata={"')
    (', a={1}, b=2', ', a=", metadata={"')
    """
    before, separator, rest = attributes.partition(_METADATA)
    # in a string or in a dictionary, it is not metadata
    is_inside = "\\" in before or "'" in before or before.count('"') % 2 or before.count("{") != before.count("}")
    return attributes if not separator or is_inside else before + rest.partition("}")[2]
