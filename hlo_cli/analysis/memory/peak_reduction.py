"""Suggestions that lower a peak: better dimension orders for buffers live at the peak.

Peaks are recomputed after each change, because another position may become the peak.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from hlo_cli.analysis.layout.default_order import LayoutAlternative
from hlo_cli.analysis.layout.padding import KnownOrders
from hlo_cli.analysis.memory.memory_model import LiveValue, MemorySpaceUsage
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape

_MIN_SAVING = 0.05
"""Minimum share of the peak that a suggestion saves."""
_MAX_BUFFERS = 64
_NO_KERNELS = ("AllocateBuffer", "ConcatBitcast")
"""Custom calls whose layout the compiler may choose, because they run no kernel."""


@dataclass(frozen=True, slots=True)
class Reordered:
    """A buffer with a better dimension order: its largest value, and the layout and bytes of the alternative."""

    value: LiveValue
    better: LayoutAlternative


@dataclass(frozen=True, slots=True)
class LayoutSuggestion:
    """Buffers to reorder in addition to those of earlier suggestions, and the remaining peak."""

    reordered: tuple[Reordered, ...]
    peak_bytes: int
    peak: int


def suggestions(space: MemorySpaceUsage, orders: KnownOrders, *, most: int = 2) -> tuple[LayoutSuggestion, ...]:
    """Returns up to `most` suggestions, each of which lowers the peak by at least 5%.

    At each step, the buffer with the largest saving at the current peak is chosen.
    """
    return tuple(_suggestions(space, orders, most)) if space.peak_bytes else ()


def _suggestions(space: MemorySpaceUsage, orders: KnownOrders, most: int) -> Iterator[LayoutSuggestion]:
    """Yields suggestions for a non-empty memory space."""
    buffers = _buffers(space)
    timeline: Sequence[int] = space.timeline
    peak, changed = space.peak, set[int]()
    for _ in range(most):
        target_bytes = timeline[peak] - _MIN_SAVING * space.peak_bytes
        reordered: list[Reordered] = []
        while timeline[peak] > target_bytes:
            best = _best(buffers, orders, peak, changed)
            if best is None or len(reordered) >= _MAX_BUFFERS:
                return
            changed.add(best.value.buffer)
            reordered.append(best)
            saved = best.value.padded_bytes - best.better.padded_bytes
            timeline = _lowered(timeline, buffers[best.value.buffer], saved)
            peak = max(range(len(timeline)), key=timeline.__getitem__)
        yield LayoutSuggestion(tuple(reordered), timeline[peak], peak)


def _buffers(space: MemorySpaceUsage) -> dict[int, list[LiveValue]]:
    """Returns the values of each buffer."""
    buffers: dict[int, list[LiveValue]] = {}
    for value in space.values:
        buffers.setdefault(value.buffer, []).append(value)
    return buffers


def _best(
    buffers: Mapping[int, list[LiveValue]], orders: KnownOrders, peak: int, changed: set[int]
) -> Reordered | None:
    """Returns the buffer live at the peak with the largest saving; all of its values must become smaller."""
    found: Reordered | None = None
    for number, values in buffers.items():
        if number in changed or not any(value.start <= peak <= value.end for value in values):
            continue
        option = _reordered(values, orders)
        if option is not None and (found is None or _saving(option) > _saving(found)):
            found = option
    return found


def _reordered(values: Sequence[LiveValue], orders: KnownOrders) -> Reordered | None:
    """Returns the buffer in a better dimension order, None if the layout is fixed or no order saves bytes."""
    if any(map(_has_fixed_layout, values)):
        return None
    largest = max(values, key=lambda value: (value.padded_bytes, bool(value.instruction.metadata.op_name)))
    betters = [orders.alternative(value.shape) if isinstance(value.shape, ArrayShape) else None for value in values]
    known = [better for better in betters if better is not None]
    if len(known) < len(values):
        return None
    worst = max(known, key=lambda better: better.padded_bytes)
    return Reordered(largest, worst) if worst.padded_bytes < largest.padded_bytes else None


def _has_fixed_layout(value: LiveValue) -> bool:
    """Returns whether the layout is fixed by a custom kernel or, for constants, by the compiler."""
    if value.kind == "constant":
        return True
    instruction = value.instruction
    return instruction.opcode == opcodes.CUSTOM_CALL and instruction.string("custom_call_target") not in _NO_KERNELS


def _saving(option: Reordered) -> int:
    """Returns the bytes saved."""
    return option.value.padded_bytes - option.better.padded_bytes


def _lowered(timeline: Sequence[int], values: Sequence[LiveValue], saved: int) -> Sequence[int]:
    """Returns the timeline after a buffer has become smaller by `saved` bytes."""
    change = [0] * (len(timeline) + 1)
    end = -1
    for value in sorted(values, key=lambda value: value.start):
        start = max(value.start, end + 1)
        if start <= value.end:
            change[start] -= saved
            change[value.end + 1] += saved
            end = value.end
    return [bytes_ + by for bytes_, by in zip(timeline, accumulate(change[:-1]), strict=True)]
