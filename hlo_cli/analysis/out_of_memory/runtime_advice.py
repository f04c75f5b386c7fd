"""Advice on memory at run time: arrays that fill the device, fragmentation, and limits of host memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from hlo_cli.analysis.out_of_memory.advice import (
    Defragment,
    FreeBuffers,
    FreeChunks,
    FreeOthers,
    ListProcesses,
    RaiseHostLimit,
    Shrink,
)
from hlo_cli.ir.out_of_memory import OomKind, OutOfMemory

_SETTERS: Final[dict[OomKind, Literal["group", "container", "job", "node"]]] = {
    "kubernetes": "container",
    "slurm": "job",
    "ray": "node",
}
_GROUP: Final = "CONSTRAINT_MEMCG"
"""The reason of the kernel that is the limit of a control group."""
_SMALL_PROGRAM: Final = 1 << 30
"""Size of a program that fits every device."""


def free_bytes(message: OutOfMemory) -> int | None:
    """The memory that was free, in pieces or not; None if the message does not have it.

    >>> from hlo_cli.ir.out_of_memory import AllocatorStats
    >>> from hlo_cli.source import Span
    >>> free_bytes(OutOfMemory("run", Span(0, 0), allocator=AllocatorStats(limit_bytes=8, in_use_bytes=5)))
    3
    """
    if message.free_bytes is not None:
        return message.free_bytes
    if message.limit_meaning == "free":
        return message.limit_bytes
    stats = message.allocator
    if stats is None or stats.limit_bytes is None or stats.in_use_bytes is None:
        return None
    return max(stats.limit_bytes - stats.in_use_bytes, 0)


def defragment_advice(message: OutOfMemory) -> Iterator[Defragment]:
    """That enough memory is free, but not in one piece."""
    free, requested = free_bytes(message), message.used_bytes
    if free is None or requested is None or free < requested:
        return
    largest = message.allocator.largest_free_block_bytes if message.allocator is not None else None
    if message.limit_meaning == "reservable":
        largest = message.limit_bytes
    yield Defragment(free, requested, largest or None, is_tpu=message.target == "tpu")


def free_advice(message: OutOfMemory) -> Iterator[FreeBuffers]:
    """The size of arrays to delete: the program compiled, so it fits a device without them."""
    if message.exceeded_by_bytes and message.exceeded_by_bytes > 0:
        yield FreeBuffers(message.exceeded_by_bytes, message.kind == "tpu-load")


def other_advice(message: OutOfMemory) -> Iterator[FreeOthers]:
    """Whatever else fills a device on which even a small program does not fit."""
    if message.stats is not None and 0 < message.stats.total_bytes < _SMALL_PROGRAM:
        yield FreeOthers(message.stats.total_bytes)


def chunk_advice(message: OutOfMemory) -> Iterator[FreeChunks]:
    """The size that an allocator lacks, and the chunks that hold the most."""
    free, requested = free_bytes(message), message.used_bytes
    if free is None or requested is None or free >= requested:
        return
    largest = max(message.chunks, key=lambda group: group.count * group.size_bytes, default=None)
    yield FreeChunks(requested - free, largest)


def driver_advice(message: OutOfMemory) -> Iterator[ListProcesses]:
    """Other processes on the GPU, whose driver has less free memory than was requested."""
    if message.used_bytes:
        yield ListProcesses(message.used_bytes)


def shared_memory_advice(message: OutOfMemory) -> Iterator[Shrink]:
    """The share by which the blocks of a GPU kernel must shrink."""
    if message.used_bytes and message.limit_bytes and message.used_bytes > message.limit_bytes:
        yield Shrink("shared memory", message.used_bytes, message.used_bytes - message.limit_bytes)


def host_advice(message: OutOfMemory) -> Iterator[RaiseHostLimit]:
    """The limit of host memory that a process exceeded."""
    process = message.process
    used = message.used_bytes if message.used_bytes is not None else process.resident_bytes if process else None
    setter: Literal["group", "container", "job", "node", "machine"] = _SETTERS.get(message.kind, "group")
    if message.kind == "linux-oom-killer" and (process is None or process.reason != _GROUP):
        setter = "machine"
    yield RaiseHostLimit(setter, used, message.limit_bytes, message.exceeded_by_bytes)
