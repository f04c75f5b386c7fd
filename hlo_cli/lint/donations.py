"""Arguments that could be donated: what that saves is computed as if they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from hlo_cli.analysis.dataflow.elementwise import is_elementwise_on
from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.analysis.dataflow.uses import FORWARDING, producer_of, uses_of
from hlo_cli.analysis.memory.memory_limits import allocated_bytes
from hlo_cli.analysis.memory.memory_model import LiveValue, MemoryAnalysis
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.instruction_text import Attribute
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, ShapeIndex
from hlo_cli.lint.dataflow import derives_from

_CARRYING: Final = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.CUSTOM_CALL, opcodes.TUPLE, opcodes.WHILE))
"""Opcodes that pass a value on under other names, so that its last use is hard to find."""
_MOVING: Final = (opcodes.COPY, opcodes.SLICE)
_JOINING: Final = "ConcatBitcast"
_ALIAS: Final = "input_output_alias"
_MOST_STEPS: Final = 100
_KEPT: Final = 0.95
"""The share of the arguments' bytes that donating them saves, if each saves its own."""

Sharing: TypeAlias = Callable[[Instruction, Instruction, LiveValue], bool]
"""Whether a kernel may write a result over an operand."""


@dataclass(frozen=True, slots=True)
class Donation:
    """An argument whose memory a result could use: the argument, the result, and the kernel that makes the result."""

    argument: LiveValue
    result: LiveValue
    kernel: Instruction
    padded_bytes: int


@dataclass(frozen=True, slots=True)
class Donations:
    """Arguments that could be donated, and the bytes that the module needs less if all of them are.

    These are fewer than the arguments need if memory of the results also held temporaries.
    """

    arguments: tuple[Donation, ...] = ()
    saved_bytes: int = 0

    def saved_by(self, donation: Donation) -> int | None:
        """The bytes that donating one argument saves; None if only the savings of all are known."""
        is_sum = self.saved_bytes >= _KEPT * sum(each.padded_bytes for each in self.arguments)
        return donation.padded_bytes if is_sum else None


def donations_of(memory: MemoryAnalysis, users: Users, min_bytes: int) -> Donations:
    """The arguments of at least `min_bytes` that save memory if they are donated.

    An argument can if a result of its shape is made by its last reader, and if that can overwrite what it reads.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> from hlo_cli.analysis.dataflow.users import users_among
    >>> text = "HloModule m, is_scheduled=true ENTRY e { w = f32[8] parameter(0)  ROOT n = f32[8] negate(w) }"
    >>> module = parse_module(text)
    >>> found = donations_of(memory_analysis(module), users_among(list(module.instructions)), 1)
    >>> [str(each.argument) for each in found.arguments], found.saved_bytes
    (['w'], 32)
    """
    module = memory.module
    found = tuple(_candidates(memory, users, min_bytes)) if has_kept_argument(module, min_bytes) else ()
    if not found:
        return Donations()
    from hlo_cli.analysis.memory.memory_analysis import memory_analysis  # a large import, as in analyses.py

    after = memory_analysis(_donated(module, found, memory), target=memory.target, generation=memory.generation)
    saved = needed_bytes(memory) - needed_bytes(after)
    return Donations(found, saved) if saved > 0 else Donations()


def needed_bytes(memory: MemoryAnalysis) -> int:
    """The bytes that the module needs in main and host memory.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> needed_bytes(memory_analysis(parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")))
    32
    """
    spaces = [space for space in memory.spaces if space.number in (MemorySpace.MAIN, MemorySpace.HOST)]
    return sum(allocated_bytes(memory, space) or space.peak_bytes for space in spaces)


def _donated(module: Module, donations: Sequence[Donation], memory: MemoryAnalysis) -> Module:
    """The same instructions with more entries of `input_output_alias`."""
    entries = [
        f"{index_text(alias.output_index)}: ({alias.parameter_number}, {index_text(alias.parameter_index)}, may-alias)"
        for alias in module.input_output_alias
    ]
    places = dict(_result_places(memory))
    for each in donations:
        number = each.argument.instruction.parameter_number
        entries.append(f"{index_text(places[each.result.allocation])}: ({number}, {{}}, may-alias)")
    others = tuple(attribute for attribute in module.header if attribute.name != _ALIAS)
    return replace(module, header=(*others, Attribute(_ALIAS, f"{{ {', '.join(entries)} }}")))


def _result_places(memory: MemoryAnalysis) -> Iterator[tuple[int, ShapeIndex]]:
    """The allocations of the elements of the result, each with an index of the result."""
    root = memory.module.entry.root
    if root is None:
        return
    held = {(v.instruction, v.index): v.allocation for a in memory.allocations if a.kind == "output" for v in a.values}
    elements = [((n,), o) for n, o in enumerate(root.operands)] if root.opcode == opcodes.TUPLE else [((), root)]
    for place, element in elements:
        for _ in range(_MOST_STEPS):
            index = _index_below(element)
            below = element.operands[0] if element.opcode in FORWARDING and element.operands else None
            if (allocation := held.get((element, ()))) is not None:
                yield allocation, place
                break
            if below is not None and (allocation := held.get((below, index))) is not None:
                yield allocation, place
                break
            if below is None:
                break
            element = below


def _index_below(forwarding: Instruction) -> ShapeIndex:
    """The index of the operand's element that an instruction forwards."""
    match forwarding.opcode:
        case opcodes.GET_TUPLE_ELEMENT:
            return (forwarding.integer("index") or 0,)
        case opcodes.COPY_DONE:
            return (0,)
        case opcodes.ASYNC_DONE:
            return (1,)
    return ()


def has_kept_argument(module: Module, min_bytes: int) -> bool:
    """Whether a large enough argument is not donated; faster to check than the memory analysis.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")
    >>> has_kept_argument(module, 32), has_kept_argument(module, 33)
    (True, False)
    """
    donated = module.donated_parameters
    return any(each.shape.padded_bytes >= min_bytes for each in module.entry.parameters if each not in donated)


def _candidates(memory: MemoryAnalysis, users: Users, min_bytes: int) -> Iterator[Donation]:
    """The arguments that a result of their shape could overwrite."""
    written = _results(memory)
    returned = dict(_result_places(memory))
    sharing = _sharing(memory)
    for allocation in memory.allocations:
        given = next((value for value in allocation.values if value.instruction.opcode == opcodes.PARAMETER), None)
        if allocation.kind != "argument" or allocation.is_donated or given is None or given.index:
            continue
        if allocation.size < min_bytes or given.instruction not in users:
            continue
        last = _last_use(memory, given.instruction, users)
        fitting = (
            each
            for each in written
            if each.shape == given.shape and 0 <= last <= each.start and each.allocation in returned
        )
        result = next((each for each in fitting if _updates(each, given.instruction, sharing)), None)
        if result is not None:
            written.remove(result)
            made = _before_copies(result.instruction)
            kernel = result.instruction if made is given.instruction else made
            yield Donation(given, result, kernel, allocation.size)


def _results(memory: MemoryAnalysis) -> list[LiveValue]:
    """First values in output allocations that no argument aliases."""
    found: list[LiveValue] = []
    for allocation in memory.allocations:
        if allocation.kind == "output":
            held = [value for value in allocation.values if value.kind == "output"]
            first = min(held, key=lambda value: value.start, default=None)
            if first is not None and isinstance(first.shape, ArrayShape):
                found.append(first)
    return found


def _last_use(memory: MemoryAnalysis, given: Instruction, users: Users) -> int:
    """The step of the last use; after the last step if the value is passed on under other names, -1 if it is unused."""
    uses = uses_of(given, users)
    if any(use.opcode in _CARRYING for use in uses):
        return len(memory.sequence) + 1
    return max((memory.positions.get(use, len(memory.sequence)) for use in uses), default=-1)


def _updates(result: LiveValue, argument: Instruction, sharing: Sharing) -> bool:
    """Whether the kernel that makes a result reads an argument, or the result begins as a copy of it.

    A kernel that reads the argument itself must be able to write over it; XLA copies the argument otherwise.
    """
    kernel = _before_copies(result.instruction)
    if kernel is argument:
        return True
    if not any(_before_copies(operand) is argument for operand in kernel.operands):
        return False
    read = [operand for operand in kernel.operands if derives_from(operand, argument)]
    return all(sharing(operand, kernel, result) for operand in read)


def _sharing(memory: MemoryAnalysis) -> Sharing:
    """A function that returns whether a kernel may write a result over an operand."""
    from hlo_cli.analysis.memory.operand_sharing import OperandSharing  # large imports, as in analyses.py
    from hlo_cli.analysis.memory.order_independent import order_independent_facts

    facts = order_independent_facts(memory.module, memory.target, memory.generation)
    operands = OperandSharing(facts.dataflow, facts.in_place, facts.target)

    def may_share(operand: Instruction, kernel: Instruction, result: LiveValue) -> bool:
        if kernel.opcode == opcodes.SORT or result.instruction is not kernel:
            return False
        if memory.target == "tpu" and is_elementwise_on(kernel, kernel.operands.index(operand)):
            return True  # lists in the dump do not have arguments that are not donated
        return operands.may_share(facts.places.first_of(operand), kernel, result.index)

    return may_share


def _before_copies(instruction: Instruction) -> Instruction:
    """The producer of a value, before any moves."""
    made = producer_of(instruction)
    while (moved := _moved(made)) is not None:
        made = producer_of(moved)
    return made


def _moved(made: Instruction) -> Instruction | None:
    """The value that an instruction only moves: as a whole, or in pieces, as TPU compilers fetch large values."""
    match made.opcode:
        case opcodes.COPY | opcodes.COPY_START if made.operands:
            return made.operands[0]
        case opcodes.ASYNC_START if made.operands and made.called_computations:
            root = made.called_computations[0].root
            return made.operands[0] if root is not None and root.opcode in _MOVING else None
        case opcodes.CUSTOM_CALL if made.string("custom_call_target") == _JOINING:
            sources = {_before_copies(piece) for piece in made.operands}
            return sources.pop() if len(sources) == 1 else None
    return None
