"""A window of a kernel's operand or result: the block of an array that is in VMEM or SMEM at a time."""

from __future__ import annotations

from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """The block of an operand or result of a kernel, the whole array, and the number of buffers of the block."""

    role: Literal["input", "output"]
    number: int
    block: ArrayShape
    whole: ArrayShape
    buffers: int
