"""An out-of-memory message without allocations, completed with those of a dump."""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.memory.memory_model import LiveValue, MemorySpaceUsage
from hlo_cli.ir.out_of_memory import MemoryPart, OomAllocation, OutOfMemory


def completed(message: OutOfMemory, space: MemorySpaceUsage | None) -> OutOfMemory:
    """The message with the values at the peak of a memory space and its totals, if it has no allocations itself.

    What it says of the program's parts is kept.
    """
    if message.culprits or space is None or not space.timeline:
        return message
    totals = space.totals
    usage = message.usage or (MemoryPart("arguments", totals.arguments),)
    program = message.program or (MemoryPart("HLO temp", totals.temporaries),)
    output, shared = message.output_bytes, message.output_shared_bytes
    return replace(
        message,
        allocations=tuple(_allocation(value) for value in space.live_at(space.peak)),
        usage=usage,
        program=program,
        output_bytes=totals.outputs if output is None else output,
        output_shared_bytes=totals.aliased if shared is None else shared,
    )


def _allocation(value: LiveValue) -> OomAllocation:
    instruction = value.instruction
    return OomAllocation(
        value.padded_bytes,
        value.shape,
        value.logical_bytes,
        label=str(value),
        opcode=instruction.opcode,
        op_name=instruction.metadata.op_name,
    )
