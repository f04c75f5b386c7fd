"""Limits while a module runs: time, which is checked before long kernels, and work in loops of unknown trip count."""

from __future__ import annotations

import time
from math import prod
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.limits import count_text
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

_DRAW_SECONDS: Final = 6e-9
"""For each element of made-up arguments."""


class Clock:
    """Raises HloError, with the instruction, once the time is over, or for a kernel that would end after it."""

    def __init__(self, limits: Limits) -> None:
        self._end = time.monotonic() + limits.max_seconds
        self._seconds = limits.max_seconds

    def __call__(self, instruction: Instruction, seconds: float = 0.0) -> None:
        """Checks the time before an instruction runs that takes so many seconds at least."""
        if time.monotonic() + seconds <= self._end:
            return
        needs = f": {instruction.name} takes {seconds:,.0f} seconds or more" if seconds > 1 else ""
        raise HloError(
            f"evaluation exceeds the limit of {self._seconds:g} seconds{needs}",
            instruction.span,
            hint="use --max-seconds N to raise the limit",
        )


def start(module: Module, limits: Limits, devices: int = 1, *, makes_arguments: bool) -> Clock:
    """The clock of a run; HloError if there is no time to make up its arguments."""
    clock = Clock(limits)
    sizes = {
        each: sum(prod(leaf.dimensions) for _, leaf in each.shape.leaves if isinstance(leaf, ArrayShape))
        for each in module.entry.parameters
    }
    if makes_arguments and sizes:
        clock(max(sizes, key=lambda each: sizes[each]), devices * sum(sizes.values()) * _DRAW_SECONDS)
    return clock


def reserve_for_products() -> None:
    """Lets the library of matrix products allocate its buffers, which it has to have before memory is limited."""
    square = np.ones((256, 256))
    np.matmul(square, square)


def operations_error(limits: Limits, place: Instruction | None) -> HloError:
    """The error for a loop of unknown trip count whose iterations take more operations than the limit."""
    where = "" if place is None else f", in the computation {place.computation.name}"
    return HloError(
        f"evaluation exceeds the limit of {count_text(limits.max_operations)} scalar operations{where}",
        None if place is None else place.span,
        hint="use --max-operations N to raise the limit",
    )
