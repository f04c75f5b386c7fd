"""Steps that convert one memory image of an array to another: slice, reshape, transpose, and pad, as in numpy.

The steps of the first layout are undone and those of the second applied; steps without effect are omitted, and adjacent
steps of one kind merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Bounds, Combine, Extend, Permute, Split
from hlo_cli.ir.shape import ArrayShape

StepKind = Literal["slice", "reshape", "transpose", "pad"]


@dataclass(frozen=True, slots=True)
class RelayoutStep:
    """Step and the dimensions after it; `order` is that of a transpose, as in numpy's `transpose`."""

    kind: StepKind
    sizes: Bounds
    order: tuple[int, ...] = ()


def relayout_steps(
    before: ArrayShape, after: ArrayShape, order: tuple[int, ...] | None = None
) -> tuple[RelayoutStep, ...]:
    """Steps from the memory image of one array to that of the other, with a transpose by `order` in between.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> for step in relayout_steps(parse_shape("f32[3,5]{1,0:T(2,2)}"), parse_shape("f32[3,5]{0,1}")): print(step)
    RelayoutStep(kind='transpose', sizes=(2, 2, 3, 2), order=(0, 2, 1, 3))
    RelayoutStep(kind='reshape', sizes=(4, 6), order=())
    RelayoutStep(kind='slice', sizes=(3, 5), order=())
    RelayoutStep(kind='transpose', sizes=(5, 3), order=(1, 0))
    """
    steps = [*_to_logical(before)]
    if order is not None:
        steps.append(RelayoutStep("transpose", after.sizes, order))
    elif before.sizes != after.sizes:
        steps.append(RelayoutStep("reshape", after.sizes))
    steps.extend(_to_memory(after))
    return _simplified((before.slots,) if before.slots != before.tiling.slots else before.tiling.physical, steps)


def _to_logical(shape: ArrayShape) -> Iterator[RelayoutStep]:
    """Yields the steps from memory to the logical array."""
    tiling = shape.tiling
    if shape.slots != tiling.slots:
        yield RelayoutStep("slice", (tiling.slots,))
        yield RelayoutStep("reshape", tiling.physical)
    for step, bounds in zip(reversed(tiling.steps), tiling.bounds[-2::-1], strict=True):
        match step:
            case Split(sizes=cut):
                kept, count = len(bounds) - len(cut), len(cut)
                counts = [-(-size // tile) for size, tile in zip(bounds[kept:], cut, strict=True)]
                pairs = tuple(i for k in range(count) for i in (kept + k, kept + count + k))
                halves = tuple(size for pair in zip(counts, cut, strict=True) for size in pair)
                yield RelayoutStep("transpose", (*bounds[:kept], *halves), (*range(kept), *pairs))
                padded = (count * tile for count, tile in zip(counts, cut, strict=True))
                yield RelayoutStep("reshape", (*bounds[:kept], *padded))
                yield RelayoutStep("slice", bounds)
            case Permute(order=order):
                yield RelayoutStep("transpose", bounds, tuple(order.index(d) for d in range(len(order))))
            case Extend() | Combine():
                yield RelayoutStep("reshape", bounds)


def _to_memory(shape: ArrayShape) -> Iterator[RelayoutStep]:
    """Yields the steps from the logical array to memory."""
    tiling = shape.tiling
    for step, before, after in zip(tiling.steps, tiling.bounds, tiling.bounds[1:], strict=False):
        match step:
            case Split(sizes=cut):
                kept, count = len(before) - len(cut), len(cut)
                counts = after[kept : kept + count]
                padded = (number * tile for number, tile in zip(counts, cut, strict=True))
                yield RelayoutStep("pad", (*before[:kept], *padded))
                halves = tuple(size for pair in zip(counts, cut, strict=True) for size in pair)
                yield RelayoutStep("reshape", (*before[:kept], *halves))
                moved = range(kept, kept + 2 * count)
                yield RelayoutStep("transpose", after, (*range(kept), *moved[::2], *moved[1::2]))
            case Permute(order=order):
                yield RelayoutStep("transpose", after, order)
            case Extend() | Combine():
                yield RelayoutStep("reshape", after)
    if shape.slots != tiling.slots:
        yield RelayoutStep("reshape", (tiling.slots,))
        yield RelayoutStep("pad", (shape.slots,))


def _simplified(sizes: Bounds, steps: list[RelayoutStep]) -> tuple[RelayoutStep, ...]:
    """Equivalent shorter steps: transposes that keep memory become reshapes, and adjacent steps of a kind are
    merged.
    """
    kept: list[RelayoutStep] = []
    for step in steps:
        before = kept[-1].sizes if kept else sizes
        if step.kind == "transpose" and _keeps_memory(before, step.order):
            step = RelayoutStep("reshape", step.sizes)
        if step.sizes == before and step.kind != "transpose":
            continue
        if kept and kept[-1].kind == step.kind:
            last = kept.pop()
            order = tuple(last.order[d] for d in step.order)
            step = RelayoutStep(step.kind, step.sizes, order)
            before = kept[-1].sizes if kept else sizes
            if step.sizes == before and (step.kind != "transpose" or order == tuple(range(len(order)))):
                continue
        kept.append(step)
    return tuple(kept) if kept == steps else _simplified(sizes, kept)


def _keeps_memory(sizes: Bounds, order: tuple[int, ...]) -> bool:
    """Whether a transpose only moves dimensions of size 1, or the array is empty."""
    large = [d for d in order if sizes[d] != 1]
    return large == sorted(large) or not prod(sizes)
