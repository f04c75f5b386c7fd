"""Transfers between memory spaces: source and destination, and distance from the first use.

Covers the results of memory-space assignment and host offloading on TPU: copies, async copies and slices, and updates
across memory spaces; and transfers to and from the host program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import Users, producer_of, users_among, uses_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.operations import BLOCK_MOVES, CHANNEL_STARTS, HOST_FEEDS, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, ShapeIndex, subshape

_HOST_MOVERS: Final = HOST_FEEDS | CHANNEL_STARTS


@dataclass(frozen=True, slots=True)
class Transfer:
    """Data that an instruction transfers from one memory space to another.

    `source` is the instruction that computed the data, `done` the end of an async transfer, None if it is
    synchronous. `used_step` is that of the first use of the result. Steps are positions in the schedule.
    """

    instruction: Instruction
    done: Instruction | None
    source: Instruction
    shape: ArrayShape
    from_space: int
    to_space: int
    start_step: int
    done_step: int | None
    used_step: int | None

    @property
    def prefetch_distance(self) -> int | None:
        """The number of steps from start to first use; None without a use."""
        return None if self.used_step is None else self.used_step - self.start_step

    @property
    def is_prefetch(self) -> bool:
        """Whether data moves from main memory to a faster memory of the device."""
        return self.from_space == MemorySpace.MAIN and self.to_space not in (MemorySpace.MAIN, MemorySpace.HOST)


def transfers_of(sequence: Sequence[Instruction]) -> tuple[Transfer, ...]:
    """Returns the transfers between different memory spaces in the order of their starts.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''HloModule m, is_scheduled=true
    ... ENTRY e {
    ...   p = f32[8,128]{1,0:T(8,128)} parameter(0)
    ...   c = f32[8,128]{1,0:T(8,128)S(1)} copy(p)
    ...   ROOT n = f32[8,128]{1,0:T(8,128)S(1)} negate(c)
    ... }''')
    >>> [(t.instruction.name, t.from_space, t.to_space) for t in transfers_of(module.entry.instructions)]
    [('c', 0, 1)]
    """
    steps = {instruction: step for step, instruction in enumerate(sequence)}
    users = users_among(sequence)
    # Operations of async computations are told by their starts.
    inside = {
        called for starts in sequence if starts.opcode.endswith("-start") for called in starts.called_computations
    }
    found = (_transfer(instruction, steps, users) for instruction in sequence if instruction.computation not in inside)
    return tuple(transfer for transfer in found if transfer is not None)


@dataclass(frozen=True, slots=True)
class _Move:
    """The operand and array that an instruction moves, and both memory spaces."""

    source: Instruction
    shape: ArrayShape
    from_space: int
    to_space: int


def _transfer(instruction: Instruction, steps: Mapping[Instruction, int], users: Users) -> Transfer | None:
    """Returns the transfer of an instruction, None if it is not one."""
    move = _host_move(instruction) if instruction.opcode in _HOST_MOVERS else _move(instruction)
    if move is None or move.from_space == move.to_space:
        return None
    is_async = instruction.opcode.endswith("-start") or instruction.opcode in CHANNEL_STARTS
    done = _done(instruction, users) if is_async else None
    ready = done if is_async else instruction
    return Transfer(
        instruction,
        done,
        producer_of(move.source),
        move.shape,
        move.from_space,
        move.to_space,
        steps[instruction],
        steps.get(done) if done is not None else None,
        min((steps[use] for use in uses_of(ready, users)), default=None) if ready is not None else None,
    )


def _move(instruction: Instruction) -> _Move | None:
    """Returns the move within the device, None for instructions that compute a new array."""
    opcode, given_at = _moving_opcode(instruction)
    # An update moves the part that is written, not the array around it.
    position = 1 if opcode == opcodes.DYNAMIC_UPDATE_SLICE else 0
    if opcode is None or position >= len(instruction.operands):
        return None
    given, result = instruction.operand_shape(position), subshape(instruction.shape, given_at)
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return None
    moved = given if opcode == opcodes.DYNAMIC_UPDATE_SLICE else result
    return _Move(instruction.operands[position], moved, given.layout.memory_space, result.layout.memory_space)


def _host_move(instruction: Instruction) -> _Move | None:
    """Returns the move to or from the host program."""
    opcode = instruction.opcode
    if opcode in CHANNEL_STARTS and not instruction.flag("is_host_transfer"):
        return None
    if opcode in (opcodes.SEND, opcodes.OUTFEED) and instruction.operands:
        arrays = [leaf for _, leaf in instruction.operand_shape(0).leaves if isinstance(leaf, ArrayShape)]
        # One row a transfer: the largest array stands for those that are sent together.
        sent = max(arrays, key=lambda array: array.padded_bytes, default=None)
        if sent is None:
            return None
        return _Move(instruction.operands[0], sent, sent.layout.memory_space, MemorySpace.HOST)
    received = subshape(instruction.shape, (0,))
    if not isinstance(received, ArrayShape):
        return None
    return _Move(instruction, received, MemorySpace.HOST, received.layout.memory_space)


def _moving_opcode(instruction: Instruction) -> tuple[str | None, ShapeIndex]:
    """Returns the opcode that moves the data, None if there is none, and the index of its result."""
    opcode = instruction.opcode
    if opcode in BLOCK_MOVES:
        return opcode, ()
    # copy-start returns (destination, source, context); other starts return ((operands), result, contexts…).
    if opcode == opcodes.COPY_START:
        return "copy", (0,)
    if not opcode.endswith("-start"):
        return None, ()
    called = instruction.called_computations
    root = called[0].root if called else None
    wrapped = root.opcode if root is not None else wrapped_opcode(opcode)
    return (wrapped if wrapped in BLOCK_MOVES else None), (1,)


def _done(start: Instruction, users: Users) -> Instruction | None:
    """Returns the done of a start, following its updates."""
    found: Instruction | None = start
    while found is not None and not found.opcode.endswith("-done"):
        found = next((u for u in users.get(found, ()) if u.opcode.endswith(("-done", "-update"))), None)
    return found
