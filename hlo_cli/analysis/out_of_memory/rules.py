"""Which advice a message supports, by its kind; the most effective first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.out_of_memory.advice import Advice, Donate, Dump, FreeOthers, Narrow, Reorder
from hlo_cli.analysis.out_of_memory.kernel_advice import block_advice, element_advice, scoped_advice, scratch_advice
from hlo_cli.analysis.out_of_memory.program_advice import (
    donate_advice,
    narrow_advice,
    recompute_advice,
    reorder_advice,
    shard_advice,
    shrink_advice,
)
from hlo_cli.analysis.out_of_memory.range_advice import range_advice
from hlo_cli.analysis.out_of_memory.runtime_advice import (
    chunk_advice,
    defragment_advice,
    driver_advice,
    free_advice,
    host_advice,
    other_advice,
    shared_memory_advice,
)
from hlo_cli.ir.out_of_memory import KernelWindow, OomKind, OutOfMemory

_MOST: Final = 4
"""Number of pieces of advice, without the one on dumps."""
_MOST_REORDERED: Final = 2
_SMALL_MEMORIES: Final[frozenset[OomKind]] = frozenset(("tpu-smem", "tpu-other", "tpu-sparse-core"))
_HOST: Final[frozenset[OomKind]] = frozenset(("linux-oom-killer", "kubernetes", "slurm", "ray"))
_NO_DUMP: Final[frozenset[OomKind]] = frozenset(
    (
        "tpu-vmem-scoped",
        "tpu-vmem-stack",
        "tpu-smem",
        "tpu-sparse-core",
        "tpu-buffer",
        "gpu-driver",
        "gpu-shared-memory",
    )
)
"""Kinds for which a dump of the program shows no more."""
_KERNELS: Final[frozenset[OomKind]] = frozenset((*_SMALL_MEMORIES, "tpu-vmem", "tpu-vmem-scoped", "tpu-vmem-stack"))


def advice_of(
    message: OutOfMemory,
    window: KernelWindow | None = None,
    *,
    warnings: Iterable[OutOfMemory] = (),
    generation: str = USUAL_TPU,
    has_dump: bool = False,
) -> tuple[Advice, ...]:
    """The advice that a message supports: at most four pieces that save memory, then a dump unless there is one.

    `window` is that of the allocation that failed; `warnings` are messages of the compiler before it, whose excess
    counts only if the message has none itself; `generation` is the TPU whose default tiles apply to layouts.

    >>> from hlo_cli.source import Span
    >>> message = OutOfMemory("load", Span(0, 0), "hbm", "tpu", 9 << 30, 8 << 30, 1 << 30, kind="tpu-load")
    >>> [type(each).__name__ for each in advice_of(message)]
    ['FreeBuffers', 'Dump']
    """
    found = list(_advice(message, window, generation))
    has_figures = bool(message.exceeded_by_bytes) and not message.is_warning
    if message.is_xla and message.kind not in _KERNELS:
        for warning in warnings:
            found += [*shard_advice(warning), *(() if has_figures else shrink_advice(warning))]
    chosen = list(dict.fromkeys(found))[:_MOST]
    has_dump = has_dump or any(isinstance(each, FreeOthers) for each in chosen)
    is_kernel = window is not None or (message.kind in _KERNELS and (bool(chosen) or bool(message.space)))
    if message.is_xla and message.kind not in _NO_DUMP and not has_dump and not is_kernel:
        chosen.append(Dump(bool(message.allocations)))
    return tuple(chosen)


def _advice(message: OutOfMemory, window: KernelWindow | None, generation: str) -> Iterator[Advice]:
    kind = message.kind
    if kind in _HOST:
        yield from host_advice(message)
    elif not message.is_xla:
        yield from defragment_advice(message)
        yield from chunk_advice(message)
    elif kind == "tpu-vmem-scoped":
        yield from scoped_advice(message)
    elif window is not None and kind not in _SMALL_MEMORIES:
        yield from block_advice(message, window)
    elif kind in _SMALL_MEMORIES and (kind != "tpu-other" or message.space):
        yield from element_advice(message, message.failed, window)
    elif kind == "tpu-vmem":
        yield from list(reorder_advice(message, generation))[:_MOST_REORDERED]
        yield from scratch_advice(message, message.failed)
    elif kind == "gpu-shared-memory":
        yield from shared_memory_advice(message)
    elif kind == "gpu-driver" and message.space != "host":
        yield from driver_advice(message)
    elif kind in ("tpu-load", "tpu-buffer"):
        fragmented = list(defragment_advice(message))
        yield from fragmented or free_advice(message)
    elif others := list(other_advice(message)):
        yield from others
    else:
        yield from defragment_advice(message)
        yield from _program_advice(message, generation)
        if kind == "gpu-allocator":
            yield from chunk_advice(message)


def _program_advice(message: OutOfMemory, generation: str) -> Iterator[Advice]:
    """Changes of the program, those that certainly save bytes first, the most bytes first."""
    reordered = list(reorder_advice(message, generation))[:_MOST_REORDERED]
    sure: list[Reorder | Narrow | Donate] = [*reordered, *narrow_advice(message), *donate_advice(message)]
    yield from shard_advice(message)
    yield from range_advice(message, generation)
    yield from sorted(sure, key=lambda each: -each.saved_bytes)
    yield from recompute_advice(message)
    over = message.exceeded_by_bytes or 0
    if sum(each.saved_bytes for each in sure if isinstance(each, Reorder)) < over or not over:
        yield from shrink_advice(message)
