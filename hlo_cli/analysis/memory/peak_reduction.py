"""What would lower a peak of memory: better orders of dimensions for the buffers that make it, and what is left then.

Every number is computed anew with the buffers that the change makes smaller: another moment may be the peak then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from hlo_cli.analysis.layout.default_order import LayoutAlternative
from hlo_cli.analysis.layout.padding import KnownOrders
from hlo_cli.analysis.memory.memory_model import LiveValue, SpaceUsage
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape

_WORTH = 0.05
"""The share of the whole peak that a suggestion must save."""
_MOST_BUFFERS = 64
_NO_KERNELS = ("AllocateBuffer", "ConcatBitcast")


@dataclass(frozen=True, slots=True)
class Reordered:
    """A buffer in a better order of dimensions: its largest value, the layout for that, and the bytes it takes then."""

    value: LiveValue
    better: LayoutAlternative


@dataclass(frozen=True, slots=True)
class LayoutSuggestion:
    """Buffers to reorder, all of them and those of the suggestions before, and the peak that is left then."""

    reordered: tuple[Reordered, ...]
    peak_bytes: int
    peak: int


def suggestions(space: SpaceUsage, orders: KnownOrders, *, most: int = 2) -> tuple[LayoutSuggestion, ...]:
    """What to reorder first and what next, as far as each lowers the peak of a space by a twentieth or more.

    At the peak, the buffer that a better order makes smallest is taken first, until the peak is that much lower.
    """
    return tuple(_suggestions(space, orders, most)) if space.peak_bytes else ()


def _suggestions(space: SpaceUsage, orders: KnownOrders, most: int) -> Iterator[LayoutSuggestion]:
    buffers = _buffers(space)
    timeline: Sequence[int] = space.timeline
    peak, changed = space.peak, set[int]()
    for _ in range(most):
        wanted = timeline[peak] - _WORTH * space.peak_bytes
        reordered: list[Reordered] = []
        while timeline[peak] > wanted:
            best = _best(buffers, orders, peak, changed)
            if best is None or len(reordered) >= _MOST_BUFFERS:
                return
            changed.add(best.value.buffer)
            reordered.append(best)
            saved = best.value.padded_bytes - best.better.padded_bytes
            timeline = _lowered(timeline, buffers[best.value.buffer], saved)
            peak = max(range(len(timeline)), key=timeline.__getitem__)
        yield LayoutSuggestion(tuple(reordered), timeline[peak], peak)


def _buffers(space: SpaceUsage) -> dict[int, list[LiveValue]]:
    buffers: dict[int, list[LiveValue]] = {}
    for value in space.values:
        buffers.setdefault(value.buffer, []).append(value)
    return buffers


def _best(
    buffers: Mapping[int, list[LiveValue]], orders: KnownOrders, peak: int, changed: set[int]
) -> Reordered | None:
    """The buffer alive at a step that becomes smaller by the most; all of its values must be arrays that do."""
    found: Reordered | None = None
    for number, values in buffers.items():
        if number in changed or not any(value.start <= peak <= value.end for value in values):
            continue
        option = _reordered(values, orders)
        if option is not None and (found is None or _saving(option) > _saving(found)):
            found = option
    return found


def _reordered(values: Sequence[LiveValue], orders: KnownOrders) -> Reordered | None:
    if any(map(_is_fixed, values)):
        return None
    largest = max(values, key=lambda value: (value.padded_bytes, bool(value.instruction.metadata.op_name)))
    betters = [orders.alternative(value.shape) if isinstance(value.shape, ArrayShape) else None for value in values]
    known = [better for better in betters if better is not None]
    if len(known) < len(values):
        return None
    worst = max(known, key=lambda better: better.padded_bytes)
    return Reordered(largest, worst) if worst.padded_bytes < largest.padded_bytes else None


def _is_fixed(value: LiveValue) -> bool:
    """Whether others decide on the layout: those who wrote the kernel that is called, or the compiler for constants."""
    if value.kind == "constant":
        return True
    instruction = value.instruction
    return instruction.opcode == opcodes.CUSTOM_CALL and instruction.string("custom_call_target") not in _NO_KERNELS


def _saving(option: Reordered) -> int:
    return option.value.padded_bytes - option.better.padded_bytes


def _lowered(timeline: Sequence[int], values: Sequence[LiveValue], saved: int) -> Sequence[int]:
    """The bytes alive at each step when a buffer takes less while any of its values lives."""
    change = [0] * (len(timeline) + 1)
    end = -1
    for value in sorted(values, key=lambda value: value.start):
        start = max(value.start, end + 1)
        if start <= value.end:
            change[start] -= saved
            change[value.end + 1] += saved
            end = value.end
    return [bytes_ + by for bytes_, by in zip(timeline, accumulate(change[:-1]), strict=True)]
