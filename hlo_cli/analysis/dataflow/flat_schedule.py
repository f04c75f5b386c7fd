"""Which places does a module have, what is overwritten in place, and in which order do all instructions run?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.dependencies import target_of_root
from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW, ComputationContexts, contexts_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import (
    ASYNC_COLLECTIVE_DONE,
    ASYNC_COLLECTIVE_START,
    ASYNC_CONTINUATIONS,
    NATIVE_DONES,
    NATIVE_ENDS,
    OUTPUT_TO_OPERAND_ALIASING,
    wrapped_opcode,
)
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape, subshape

# --- parts of shapes ---
# Tuples and leaves, in pre-order. Mirrors xla/shape_tree.h.


@dataclass(frozen=True, slots=True)
class Subshapes:
    """The parts of a shape in pre-order: each tuple before its elements.

    `ordinals` is the inverse of `indices`. `elements[i]` is the ordinal of element i of a tuple shape, with one
    further entry for the end.
    """

    indices: tuple[ShapeIndex, ...]
    shapes: tuple[Shape, ...]
    elements: tuple[int, ...]
    ordinals: Mapping[ShapeIndex, int]

    def __len__(self) -> int:
        return len(self.indices)

    def below(self, index: ShapeIndex) -> range:
        """Returns the ordinals of the part at an index and of all its subparts; empty if there is no such part."""
        first = self.ordinals.get(index)
        if first is None:
            return range(0)
        depth, last = len(index), first + 1
        while last < len(self.indices) and self.indices[last][:depth] == index and len(self.indices[last]) > depth:
            last += 1
        return range(first, last)


def subshapes_of(shape: Shape) -> Subshapes:
    """Returns the parts of a shape.

    >>> from hlo_cli import parse_shape
    >>> parts = subshapes_of(parse_shape("(f32[], (s8[2], token[]))"))
    >>> parts.indices, parts.elements, parts.below((1,))
    (((), (0,), (1,), (1, 0), (1, 1)), (1, 2, 5), range(2, 5))
    """
    if not isinstance(shape, TupleShape):
        return Subshapes(((),), (shape,), (), {(): 0})
    indices: list[ShapeIndex] = []
    shapes: list[Shape] = []
    elements: list[int] = []
    # A stack, as tuples of protos can nest deeper than Python recurses.
    pending: list[tuple[ShapeIndex, Shape]] = [((), shape)]
    while pending:
        index, part = pending.pop()
        if len(index) == 1:
            elements.append(len(indices))
        indices.append(index)
        shapes.append(part)
        if isinstance(part, TupleShape):
            pending.extend(((*index, i), e) for i, e in reversed(tuple(enumerate(part.elements))))
    elements.append(len(indices))
    return Subshapes(tuple(indices), tuple(shapes), tuple(elements), {index: n for n, index in enumerate(indices)})


# --- places ---
# Each instruction with each index of its shape (XLA's `HloPosition`), numbered from 0 over the module.


@dataclass(frozen=True, slots=True)
class Places:
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


def places_of(module: Module) -> Places:
    """Returns the places of a module.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT t = (f32[2], f32[2]) tuple(p, p) }")
    >>> places = places_of(module)
    >>> places.first, places.index(3)
    ((0, 1, 4), (1,))
    """
    return cached_per_module(_number_places, module)


def _number_places(module: Module) -> Places:
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
    return Places(contexts, base, tuple(instructions), tuple(first), tuple(owner), tables, module.source.text)


# --- operands overwritten in place ---
# Mirrors `GetInPlaceInputOutputPairs` of xla/hlo/analysis/alias_info.cc.


# alias_info.cc; ragged-all-to-all writes into its second operand, the output.
_OVERWRITTEN_OPERANDS = {opcodes.DYNAMIC_UPDATE_SLICE: 0, opcodes.SET_DIMENSION_SIZE: 0, opcodes.RAGGED_ALL_TO_ALL: 1}
"""Operand number that an instruction overwrites."""


class InPlacePair(NamedTuple):
    """An element of an operand, and the element of the result that overwrites it."""

    operand_number: int
    operand_index: ShapeIndex
    output_index: ShapeIndex


class InPlace:
    """Finds in-place pairs; those of fused computations are cached.

    `through` are the opcodes allowed between a fused parameter and the in-place operation.
    """

    __slots__ = ("_fused", "_through")

    def __init__(self, through: frozenset[str] = frozenset((opcodes.BITCAST,))) -> None:
        self._through = through
        self._fused: dict[Computation, tuple[InPlacePair, ...]] = {}

    def pairs(self, instruction: Instruction) -> tuple[InPlacePair, ...]:
        """Returns the pairs of a synchronous instruction.

        >>> from hlo_cli import parse_module
        >>> root = parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry.root
        >>> InPlace().pairs(root)
        (InPlacePair(operand_number=0, operand_index=(), output_index=()),)
        """
        match instruction.opcode:
            case opcodes.DYNAMIC_UPDATE_SLICE | "set-dimension-size" | "ragged-all-to-all":
                return (InPlacePair(_OVERWRITTEN_OPERANDS[instruction.opcode], (), ()),)
            case opcodes.SCATTER:
                return _pairs_in_order(len(instruction.operands) // 2)
            case opcodes.ALL_REDUCE_START:
                return _pairs_in_order(len(instruction.operands))
            case opcodes.COLLECTIVE_PERMUTE | opcodes.COLLECTIVE_PERMUTE_START:
                return tuple(_collective_permute_pairs(instruction))
            case opcodes.CUSTOM_CALL:
                return tuple(_declared_pairs(instruction))
            case opcodes.FUSION:
                return (*_declared_pairs(instruction), *self.of_body(instruction))
        return ()

    def of_body(self, fusion: Instruction) -> tuple[InPlacePair, ...]:
        """Returns the pairs that follow from the body of a fusion."""
        if not fusion.called_computations:
            return ()
        computation = fusion.called_computations[0]
        if computation not in self._fused:
            self._fused[computation] = ()  # for recursive computations in malformed modules
            # Kept, as a fusion and those around it ask for the same body.
            self._fused[computation] = tuple(self._pairs_of_body(computation))
        return self._fused[computation]

    def _pairs_of_body(self, computation: Computation) -> Iterator[InPlacePair]:
        """Yields the pairs of a fused computation, from its outputs to its parameters."""
        if computation.root is None:
            return
        for output_index, _ in computation.root.shape.leaves:
            producer, index = self._origin(computation.root, output_index)
            pairs = self.of_body(producer) if producer.opcode == opcodes.FUSION else self.pairs(producer)
            pair = next((pair for pair in pairs if pair.output_index == index), None)
            if pair is None or not 0 <= pair.operand_number < len(producer.operands):
                continue
            producer, index = self._origin(producer.operands[pair.operand_number], pair.operand_index)
            nested_pairs = self.pairs(producer) if producer.opcode == opcodes.FUSION else ()
            for nested in nested_pairs:
                if nested.output_index == index:
                    producer, index = self._origin(producer.operands[nested.operand_number], nested.operand_index)
                    break
            if producer.opcode == opcodes.PARAMETER and producer in computation.parameters:
                yield InPlacePair(computation.parameters.index(producer), index, output_index)

    def _origin(self, instruction: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
        """Follows an element through tuples, then get-tuple-elements, then bitcasts, to its producer."""
        # alias_info.cc: one pass through tuples, then get-tuple-elements, then bitcasts; the sequence is not
        # repeated.
        while instruction.opcode == opcodes.TUPLE and index and index[0] < len(instruction.operands):
            instruction, index = instruction.operands[index[0]], index[1:]
        while instruction.opcode == opcodes.GET_TUPLE_ELEMENT and instruction.operands:
            index = (instruction.integer("index") or 0, *index)
            instruction = instruction.operands[0]
        while instruction.opcode in self._through and instruction.operands and not index:
            instruction = instruction.operands[0]
        return instruction, index


def async_pairs(member: Instruction, start: Instruction) -> Iterator[InPlacePair]:
    """Yields the pairs of a member of an async chain; a done repeats those of the start's output."""
    if member is start or member.opcode.endswith("-update"):
        yield from _declared_pairs(member)
        return
    for pair in _declared_pairs(start):
        # Pairs of the start are within (operands, output, contexts); the done has the output alone.
        if pair.output_index[:1] == (1,):
            yield InPlacePair(0, (0, pair.operand_number, *pair.operand_index), pair.output_index[1:])


def _declared_pairs(instruction: Instruction) -> Iterator[InPlacePair]:
    """Yields the pairs in the attribute output_to_operand_aliasing."""
    if OUTPUT_TO_OPERAND_ALIASING in instruction.raw[1]:
        for alias in instruction.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias):
            yield InPlacePair(alias.operand_number, alias.operand_index, alias.output_index)


def _pairs_in_order(count: int) -> tuple[InPlacePair, ...]:
    """Returns pairs of the first `count` operands with the elements of the result."""
    if count == 1:
        return (InPlacePair(0, (), ()),)
    return tuple(InPlacePair(n, (), (n,)) for n in range(count))


def _collective_permute_pairs(instruction: Instruction) -> Iterator[InPlacePair]:
    """Yields the pairs of a collective-permute with slices, which writes into its second operand."""
    if len(instruction.operands) != 4 or "slice_sizes" not in instruction.raw[1]:
        return
    place: ShapeIndex = (1,) if instruction.opcode.endswith("-start") else ()
    target = instruction.operands[1].shape
    if isinstance(target, TupleShape):
        # Operands are input, output, and the starts in both: the second is what is written.
        yield from (InPlacePair(1, (n,), (*place, n)) for n in range(len(target.elements)))
    else:
        yield InPlacePair(1, (), place)


# --- async chains ---
# Async-start, async-updates, and async-done with the operands that each binds.
#
# Mirrors `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.h. An update may bind operands later than the start.
# Sugared syntax (such as `slice-start`) omits the computation; a sugared call refers to the computation that it calls.


BoundOperand: TypeAlias = tuple[Instruction, int]
"""An operand of a chain: the member that takes it, and its operand number there."""


@dataclass(frozen=True, slots=True)
class AsyncChain:
    """The members of an async chain in order, the wrapped computation, and its operands.

    `computation` is None in sugared syntax, except for calls. `binding` is the first member that has bound all
    operands and the output, before which the computation runs. `buffers` are operands of updates that provide memory
    for a late output.
    """

    members: tuple[Instruction, ...]
    computation: Computation | None
    operands: tuple[BoundOperand, ...]
    binding: Instruction
    buffers: tuple[BoundOperand, ...] = ()

    @property
    def start(self) -> Instruction:
        """The async-start."""
        return self.members[0]

    @property
    def done(self) -> Instruction:
        """The async-done, or the last member of an incomplete chain."""
        return self.members[-1]


def async_chains(instructions: Iterable[Instruction]) -> Mapping[Instruction, AsyncChain]:
    """Returns the chain of each async instruction.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[2], u32[]) slice-start(p), slice={[0:2]}
    ...   ROOT d = f32[2] slice-done(s) }'''
    >>> [member.name for member in async_chains(parse_module(text).entry.instructions)]
    ['s', 'd']
    """
    members: dict[Instruction, list[Instruction]] = {}
    start_of: dict[Instruction, Instruction] = {}
    for instruction in instructions:
        if is_async_start(instruction.opcode):
            start_of[instruction] = instruction
            members[instruction] = [instruction]
        elif is_async_end(instruction.opcode) and instruction.operands and instruction.operands[0] in start_of:
            start = start_of[instruction] = start_of[instruction.operands[0]]
            members[start].append(instruction)
    chains = {start: _chain_of(tuple(chain_members)) for start, chain_members in members.items()}
    return {member: chains[start] for member, start in start_of.items()}


@lru_cache(maxsize=1024)
def is_async_start(opcode: str) -> bool:
    """Returns whether an opcode starts a chain: `async-start`, or a sugared one such as `slice-start`."""
    return opcode == opcodes.ASYNC_START or (opcode.endswith("-start") and wrapped_opcode(opcode) is not None)


@lru_cache(maxsize=1024)
def is_async_end(opcode: str) -> bool:
    """Returns whether an opcode continues or ends a chain: updates and dones, including sugared ones."""
    if not opcode.endswith(("-done", "-update")):
        return False
    return opcode in ASYNC_CONTINUATIONS or wrapped_opcode(opcode) is not None


def _is_done(instruction: Instruction) -> bool:
    """Returns whether a member ends its chain."""
    return instruction.opcode.endswith("-done")


def is_start(instruction: Instruction) -> bool:
    """Returns whether an instruction starts an async operation in any form.

    >>> from hlo_cli import parse_module
    >>> is_start(parse_module("s = ((f32[4]), f32[4], u32[]) negate-start(f32[4] p)").entry.root)
    True
    """
    opcode = instruction.opcode
    return opcode in NATIVE_DONES or is_async_start(opcode) or target_of_root(instruction) == ASYNC_COLLECTIVE_START


def is_end(instruction: Instruction) -> bool:
    """Returns whether an instruction continues or ends an async operation in any form.

    >>> from hlo_cli import parse_module
    >>> is_end(parse_module("d = f32[4] copy-done((f32[4], f32[4], u32[]) s)").entry.root)
    True
    """
    opcode = instruction.opcode
    return opcode in NATIVE_ENDS or is_async_end(opcode) or target_of_root(instruction) == ASYNC_COLLECTIVE_DONE


def _chain_of(members: tuple[Instruction, ...]) -> AsyncChain:
    """Returns the chain of these members."""
    computation = None
    if members[0].opcode in (opcodes.ASYNC_START, "call-start"):
        # With late binding an update names the computation, not the start.
        computation = next((called for member in members for called in member.called_computations), None)
    operands: list[BoundOperand] = []
    buffers: list[BoundOperand] = []
    for member in members:
        taken = [(member, n) for n in range(int(member is not members[0]), len(member.operands))]
        bound = subshape(member.shape, (0,)) if member is not members[0] and not _is_done(member) else None
        # Operands of an update beyond those that its shape binds are buffers for the output (late binding).
        count = len(bound.elements) - len(operands) if isinstance(bound, TupleShape) else len(taken)
        operands += taken[: max(count, 0)]
        buffers += taken[max(count, 0) :]
    return AsyncChain(members, computation, tuple(operands), _binding_member(members, computation), tuple(buffers))


def _binding_member(members: tuple[Instruction, ...], computation: Computation | None) -> Instruction:
    """Returns the first member that has bound all operands and the output.

    If no member has the output, which then first appears at the done, all operands are sufficient. Without a
    computation, the last member before the done defines all operands.
    """
    parts = {m: (subshape(m.shape, (0,)), subshape(m.shape, (1,))) for m in members if not _is_done(m)}
    root = computation.root if computation is not None else None
    bound_operands, output = list(parts.values())[-1]
    wanted = bound_operands.elements if isinstance(bound_operands, TupleShape) else ()
    if computation is not None and root is not None:
        wanted, output = tuple(parameter.shape for parameter in computation.parameters), root.shape
    ready = [m for m, (has, _) in parts.items() if isinstance(has, TupleShape) and len(has.elements) >= len(wanted)]
    bound = [
        m
        for m in ready
        if (member_output := parts[m][1]) is not None and output is not None and has_same_arrays(member_output, output)
    ]
    return next(iter(bound or ready), members[0])


def has_same_arrays(first: Shape, second: Shape) -> bool:
    """Returns whether two shapes have equal tuple structure, element types, and dimensions; layouts are ignored.

    >>> from hlo_cli import parse_shape
    >>> has_same_arrays(parse_shape("(f32[2]{0:T(128)})"), parse_shape("(f32[2])"))
    True
    """
    match first, second:
        case TupleShape(), TupleShape():
            if len(first.elements) != len(second.elements):
                return False
            return all(has_same_arrays(a, b) for a, b in zip(first.elements, second.elements, strict=True))
        case ArrayShape(), ArrayShape():
            # Layouts may differ: async operations can relay out, and values are the same.
            return first.element_type is second.element_type and first.dimensions == second.dimensions
    return type(first) is type(second)


# --- the flattened schedule ---
# All executed instructions as one sequence, callees inlined before their callers.
#
# Mirrors `HloLiveRange::FlattenSchedule` of xla/hlo/utils/hlo_live_range.cc. Loop bodies appear once.


@dataclass(frozen=True, slots=True)
class Run:
    """A computation in the flattened schedule, at positions `start` to `end`, exclusive.

    `caller` is None for the entry; `depth` is the number of enclosing callers.
    """

    computation: Computation
    caller: Instruction | None
    start: int
    end: int
    depth: int


@dataclass(frozen=True, slots=True)
class FlatSchedule:
    """Every executed instruction by position, and the computations in the order of their starts.

    `ticks[n]` is the position of instruction number n of `Places`, -1 if it is not executed on its own. A sugared
    async-start occupies several positions, for the parameters and the operation that its syntax omits; its own is the
    last.
    """

    sequence: tuple[Instruction, ...]
    runs: tuple[Run, ...]
    spans: Mapping[Computation, Run]
    ticks: tuple[int, ...]

    @property
    def end(self) -> int:
        """One past the last position: the end of the program."""
        return len(self.sequence)


@dataclass(slots=True)
class _Frame:
    """A computation whose instructions are being appended."""

    computation: Computation
    caller: Instruction | None
    start: int
    run: int
    next: int = 0


def flat_schedule(
    places: Places,
    entry: Computation,
    chains: Mapping[Instruction, AsyncChain],
    orders: Mapping[Computation, Sequence[Instruction]] | None = None,
) -> FlatSchedule:
    """Flattens the computations reachable from the entry; `orders` replace the order of the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.flat_schedule import places_of
    >>> text = '''HloModule m
    ... f { ROOT a = f32[] parameter(0) }
    ... ENTRY e { p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=f }'''
    >>> module = parse_module(text)
    >>> [i.name for i in flat_schedule(places_of(module), module.entry, {}).sequence]
    ['p', 'a', 'c']
    """
    sequence: list[Instruction] = []
    ticks = [-1] * len(places.instructions)
    runs: list[Run | None] = [None]
    placed = {entry}
    frames = [_Frame(entry, None, 0, 0)]
    remaining: dict[Instruction, Iterator[Computation]] = {}
    while frames:
        frame = frames[-1]
        instructions = (orders or {}).get(frame.computation, frame.computation.instructions)
        base = places.base[frame.computation]
        called = None
        for n in range(frame.next, len(instructions)):
            instruction = instructions[n]
            if instruction.opcode in CONTROL_FLOW:
                remaining_callees = remaining.get(instruction)
                if remaining_callees is None:
                    remaining_callees = remaining[instruction] = iter(_executed_callees(instruction, chains))
                # hlo_live_range.cc, FlattenSchedule: a computation with several callers is placed once, before the
                # first of them.
                called = next((c for c in remaining_callees if c not in placed and c in places.base), None)
                is_sugared = instruction in chains and wrapped_opcode(instruction.opcode) is not None
                if called is not None:
                    # hlo_live_range.cc gives a tick to each parameter of the wrapped computation, which sugared syntax
                    # hides.
                    sequence.extend([instruction] * (len(chains[instruction].operands) if is_sugared else 0))
                    placed.add(called)
                    frame.next = n
                    frames.append(_Frame(called, instruction, len(sequence), len(runs)))
                    runs.append(None)
                    break
                if is_sugared and chains[instruction].binding is instruction:
                    sequence.append(instruction)
            elif instruction.opcode.endswith("-start") and wrapped_opcode(instruction.opcode) is not None:
                sequence.extend([instruction] * (len(instruction.operands) + 1))
            ticks[base + instruction.index] = len(sequence)
            sequence.append(instruction)
        if called is None:
            frames.pop()
            runs[frame.run] = Run(frame.computation, frame.caller, frame.start, len(sequence), len(frames))
    finished = tuple(run for run in runs if run is not None)
    return FlatSchedule(tuple(sequence), finished, {run.computation: run for run in finished}, tuple(ticks))


def _executed_callees(caller: Instruction, chains: Mapping[Instruction, AsyncChain]) -> tuple[Computation, ...]:
    """Returns the computations that execute right before an instruction."""
    match caller.opcode:
        case opcodes.WHILE:
            # hlo_live_range.cc, FlattenSchedule: the condition comes before the body; called_computations lists the
            # body first.
            return caller.called_computations[::-1]
        case opcodes.CALL | opcodes.CONDITIONAL:
            return caller.called_computations
    chain = chains.get(caller)
    return (chain.computation,) if chain and chain.computation and chain.binding is caller else ()
