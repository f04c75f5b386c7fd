"""Advice on the memory of custom kernels: blocks of operands, the limit of scoped VMEM, arrays in small memories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.layout.default_layout import LANES, SUBLANES, WORD_BITS
from hlo_cli.analysis.out_of_memory.advice import FewerElements, RaiseScopedLimit, Shrink, SingleBuffer, SmallerBlock
from hlo_cli.analysis.out_of_memory.program_advice import SCRATCH
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.out_of_memory import KernelWindow, OomAllocation, OutOfMemory
from hlo_cli.ir.shape import ArrayShape

_MIB: Final = 1 << 20
_ROUNDING: Final = _MIB // 200
"""Half of the last digit of a size in MiB with two decimals."""
_WORD_BYTES: Final = WORD_BITS // 8


def block_advice(message: OutOfMemory, window: KernelWindow) -> Iterator[SmallerBlock | SingleBuffer | Shrink]:
    """The block of a window that does not fit with one buffer, if that fits, and a smaller block.

    If no halved block has full tiles, the share by which it must shrink.
    """
    size, limit = message.used_bytes, message.limit_bytes
    if not size or not limit:
        return
    if window.buffers > 1 and size // window.buffers < limit:
        yield SingleBuffer(window, size // window.buffers)
    if (found := smaller_block(window.block, size, limit)) is not None:
        yield SmallerBlock(window, window.block, *found)
    elif size > limit:
        yield Shrink("blocks and scratch", size, size - limit)


def smaller_block(block: ArrayShape, size_bytes: int, limit_bytes: int) -> tuple[ArrayShape, int] | None:
    """The block after as few halvings as make it smaller than the limit, and its size; None if none is known.

    Major dimensions are halved first, then rows and lanes as long as tiles stay full, so that every halving halves
    the size as well.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> block, size_bytes = smaller_block(parse_shape("f32[8192,8192]"), 512 << 20, 128 << 20)
    >>> str(block), size_bytes >> 20
    ('f32[1024,8192]{1,0}', 64)
    """
    sizes = list(block.dimensions)
    order = tuple(reversed(block.layout.minor_to_major))
    rows = SUBLANES * max(WORD_BITS // block.element_type.bits, 1) if block.element_type.bits else SUBLANES
    granules = {order[-1]: LANES, **({order[-2]: rows} if len(order) > 1 else {})} if order else {}
    while size_bytes >= limit_bytes:
        halved = next((d for d in order if _can_halve(sizes[d], granules.get(d, 1))), None)
        if halved is None:
            return None
        sizes[halved] //= 2
        size_bytes //= 2
    return replace(block, dimensions=tuple(sizes)), size_bytes


def scratch_advice(message: OutOfMemory, failed: OomAllocation | None) -> Iterator[SmallerBlock | Shrink]:
    """A smaller scratch operand, or the share by which the allocations of a kernel must shrink."""
    used, limit = message.used_bytes, message.limit_bytes
    if not used or not limit or used <= limit:
        return
    shape = failed.shape if failed is not None and failed.tag == SCRATCH else None
    if isinstance(shape, ArrayShape) and (found := smaller_block(shape, used, limit)) is not None:
        yield SmallerBlock(None, shape, *found)
    else:
        yield Shrink("blocks and scratch", used, used - limit)


def scoped_advice(message: OutOfMemory) -> Iterator[RaiseScopedLimit | Shrink]:
    """A higher limit of scoped VMEM, if a chip has that much, and the share by which blocks must shrink."""
    used, limit = message.used_bytes, message.limit_bytes
    if not used or not limit or used <= limit:
        return
    wanted = -(-(used + _ROUNDING) // _MIB) * _MIB
    space = TpuMemorySpace.VMEM
    chips = {chip.generation or "": chip.memories[space].bytes for chip in known_chips() if space in chip.memories}
    enough = tuple((name, size) for name, size in chips.items() if size > wanted and size > limit)
    if enough:
        culprit = next(iter(message.culprits), None)
        is_kernel = culprit is not None and (bool(culprit.target) or culprit.opcode == "custom-call")
        yield RaiseScopedLimit(wanted, is_kernel, enough)
    yield Shrink("blocks and scratch", used, used - limit)


def element_advice(
    message: OutOfMemory, failed: OomAllocation | None, window: KernelWindow | None
) -> Iterator[FewerElements | Shrink]:
    """The number of 32-bit words that a small memory holds beside what else is there, or the share to shrink by."""
    used, limit, over = message.used_bytes, message.limit_bytes, message.exceeded_by_bytes
    if not used or not limit:
        return
    size = failed.size_bytes if failed is not None else None
    if failed is None or not size or size % _WORD_BYTES:
        if over is not None and 0 < over < used:
            yield Shrink("scalars and semaphores", used, over)
        return
    shape = failed.shape
    has_words = isinstance(shape, ArrayShape) and shape.element_type.bits == WORD_BITS
    name = shape.element_type.name if has_words and isinstance(shape, ArrayShape) else "32-bit"
    most = (limit - max(used - size, 0)) // _WORD_BYTES
    if most > 0:
        words = size // _WORD_BYTES
        data = words if window is None else min(window.buffers * window.block.elements, words)
        yield FewerElements(failed, name, most, words, data)
    else:
        yield Shrink("scalars and semaphores", used, used - limit)


def _can_halve(size: int, granule: int) -> bool:
    return size % 2 == 0 and size >= 2 * granule and size // 2 % granule == 0
