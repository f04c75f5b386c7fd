"""Traffic between memory spaces: what is copied from which space to which, and how far ahead of its use.

Covers what memory-space assignment and host offloading make of a TPU program: copies, asynchronous copies and slices,
and updates of buffers that lie elsewhere; and what goes to the host and comes from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hlo_cli.analysis.dataflow.users import Users, users_among
from hlo_cli.analysis.dataflow.uses import producer_of, uses_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.operations import BLOCK_MOVES, CHANNEL_STARTS, HOST_FEEDS, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, ShapeIndex, subshape

_HOST_MOVERS: Final = HOST_FEEDS | CHANNEL_STARTS


@dataclass(frozen=True, slots=True)
class Transfer:
    """Data that an instruction moves from one memory space to another.

    `source` is the instruction that made the data, `done` the one that waits for it, None for what is not asynchronous,
    and `used` the first that takes the result; all steps are positions in the schedule.
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
    def ahead(self) -> int | None:
        """How many steps lie between the start and the first use; None if nothing uses it."""
        return None if self.used_step is None else self.used_step - self.start_step

    @property
    def is_prefetch(self) -> bool:
        """Whether it brings data from main memory nearer to the processor."""
        return self.from_space == MemorySpace.MAIN and self.to_space not in (MemorySpace.MAIN, MemorySpace.HOST)


def transfers_of(sequence: Sequence[Instruction]) -> tuple[Transfer, ...]:
    """All transfers of a schedule between different spaces, in the order in which they start.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''HloModule m, is_scheduled=true
    ... ENTRY e {
    ...   p = f32[8,128]{1,0:T(8,128)} parameter(0)
    ...   c = f32[8,128]{1,0:T(8,128)S(1)} copy(p)
    ...   ROOT n = f32[8,128]{1,0:T(8,128)S(1)} negate(c)
    ... }''')
    >>> [(t.instruction.name, t.from_space, t.to_space, t.ahead) for t in transfers_of(module.entry.instructions)]
    [('c', 0, 1, 1)]
    """
    steps = {instruction: step for step, instruction in enumerate(sequence)}
    users = users_among(sequence)
    inside = {
        called for starts in sequence if starts.opcode.endswith("-start") for called in starts.called_computations
    }
    found = (_transfer(instruction, steps, users) for instruction in sequence if instruction.computation not in inside)
    return tuple(transfer for transfer in found if transfer is not None)


@dataclass(frozen=True, slots=True)
class _Move:
    """What an instruction moves: who gives it, the array as it is moved, and between which spaces."""

    source: Instruction
    shape: ArrayShape
    from_space: int
    to_space: int


def _transfer(instruction: Instruction, steps: Mapping[Instruction, int], users: Users) -> Transfer | None:
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
    """What is moved, or None for what moves nothing as it is: a computation's result is a new array."""
    opcode, given_at = _moving_opcode(instruction)
    position = 1 if opcode == opcodes.DYNAMIC_UPDATE_SLICE else 0
    if opcode is None or position >= len(instruction.operands):
        return None
    given, result = instruction.operand_shape(position), subshape(instruction.shape, given_at)
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return None
    moved = given if opcode == opcodes.DYNAMIC_UPDATE_SLICE else result
    return _Move(instruction.operands[position], moved, given.layout.memory_space, result.layout.memory_space)


def _host_move(instruction: Instruction) -> _Move | None:
    """What is sent to the host's program or received from it."""
    opcode = instruction.opcode
    if opcode in CHANNEL_STARTS and not instruction.flag("is_host_transfer"):
        return None
    if opcode in (opcodes.SEND, opcodes.OUTFEED) and instruction.operands:
        arrays = [leaf for _, leaf in instruction.operand_shape(0).leaves if isinstance(leaf, ArrayShape)]
        sent = max(arrays, key=lambda array: array.padded_bytes, default=None)
        if sent is None:
            return None
        return _Move(instruction.operands[0], sent, sent.layout.memory_space, MemorySpace.HOST)
    received = subshape(instruction.shape, (0,))
    if not isinstance(received, ArrayShape):
        return None
    return _Move(instruction, received, MemorySpace.HOST, received.layout.memory_space)


def _moving_opcode(instruction: Instruction) -> tuple[str | None, ShapeIndex]:
    """What moves the data, and where in the instruction's shape its result stands."""
    opcode = instruction.opcode
    if opcode in BLOCK_MOVES:
        return opcode, ()
    if opcode == opcodes.COPY_START:
        return "copy", (0,)
    if not opcode.endswith("-start"):
        return None, ()
    called = instruction.called_computations
    root = called[0].root if called else None
    wrapped = root.opcode if root is not None else wrapped_opcode(opcode)
    return (wrapped if wrapped in BLOCK_MOVES else None), (1,)


def _done(start: Instruction, users: Users) -> Instruction | None:
    """The instruction that waits for a start, behind its updates."""
    found: Instruction | None = start
    while found is not None and not found.opcode.endswith("-done"):
        found = next((u for u in users.get(found, ()) if u.opcode.endswith(("-done", "-update"))), None)
    return found
