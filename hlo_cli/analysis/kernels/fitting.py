"""Which other block shapes would a kernel have room for, and how many bytes would it move with them?

The block sizes of a dimension of the grid are halved and doubled in all windows at once; index maps stay. That is only
done where each map is made of indices of the grid, so that a block of another size means the same to the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final

from hlo_cli.analysis.kernels.index_maps import index_letters
from hlo_cli.analysis.kernels.kernel_body import KernelBody
from hlo_cli.analysis.kernels.kernel_memory import LANES, SUBLANES, WORD, bits_of, reservation_of, scratch_bytes
from hlo_cli.analysis.kernels.pallas_kernels import KernelWindow, PallasKernel
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.mlir.mlir_values import ArrayType

_DOUBLINGS: Final = range(-6, 7)  # from a 64th to 64 times the size that the author chose
_MOST_CHOICES: Final = 20_000  # each takes some microseconds; three indices of 13 sizes are 2,197
_ZERO: Final = "0"
_OF_REGISTERS: Final = (1, SUBLANES, LANES)  # sizes that scratch has because registers have them


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """Block sizes by the index of the grid, with what the kernel then holds and moves.

    `blocks` are those of the windows in their order. Scratch is taken to be as large as the blocks that it was as large
    as; what the compiler adds, such as registers that it spills, is not known.
    """

    sizes: Mapping[str, int]
    blocks: tuple[tuple[int, ...], ...]
    steps: int
    vmem_bytes: int
    moved_bytes: int


def block_choices(kernel: PallasKernel, *, limit_bytes: int, generation: str | None = None) -> tuple[BlockChoice, ...]:
    """The block sizes with which a kernel fits in `limit_bytes` of VMEM, those that move the fewest bytes first.

    Of those that move as many, the first is where few bytes are moved before the first step, in few steps.

    The kernel's own sizes are among them if they fit. There are none for a kernel whose index maps compute, read
    scalars, or count elements, nor for one that copies by itself.

    >>> from hlo_cli import load, pallas_kernels_of
    >>> matmul = pallas_kernels_of(load("fixtures/tpu/v5e_kernels"))[-1]
    >>> best = block_choices(matmul, limit_bytes=1 << 20)[0]
    >>> dict(best.sizes), best.vmem_bytes >> 10, best.moved_bytes >> 20
    ({'i': 256, 'j': 128, 'k': 512}, 1024, 10)
    """
    tiling = _tiling_of(kernel)
    if tiling is None:
        return ()
    options = [tiling.options(letter) for letter in tiling.letters]
    if prod(map(len, options)) > _MOST_CHOICES:
        return ()
    found = []
    for sizes in product(*options):
        choice = tiling.choice(dict(zip(tiling.letters, sizes, strict=True)), generation)
        if choice.vmem_bytes <= limit_bytes:
            found.append(choice)
    return Items(sorted(found, key=lambda each: (each.moved_bytes, _overhead(each), each.vmem_bytes)))


_BYTES_OF_STEP: Final = 256 * 1024  # about what memory moves while a step begins; chosen, not measured


def _overhead(choice: BlockChoice) -> float:
    """What steps cost in bytes: the first blocks, which no step hides, and what each of them takes to begin."""
    return choice.moved_bytes / max(choice.steps, 1) + choice.steps * _BYTES_OF_STEP


def own_sizes(kernel: PallasKernel) -> Mapping[str, int]:
    """The block sizes of a kernel by the index of its grid; empty if other sizes cannot be computed."""
    tiling = _tiling_of(kernel)
    return {} if tiling is None else tiling.own


@dataclass(frozen=True, slots=True)
class _Tiling:
    """A kernel whose blocks are products of one size for each index: that size, and that of all blocks together."""

    kernel: PallasKernel
    body: KernelBody
    letters: tuple[str, ...]
    own: Mapping[str, int]
    extents: Mapping[str, int]

    def options(self, letter: str) -> tuple[int, ...]:
        """The sizes for an index: whole tiles in all windows, which divide the arrays; all of them, too."""
        size, extent = self.own.get(letter, 1), self.extents.get(letter, 1)
        if letter not in self.own or all(part == 1 for part in self._parts(letter)):
            return (size,)  # a dimension that the kernel does not have in its blocks
        scaled = {int(size * 2.0**power) for power in _DOUBLINGS} | {extent}
        return tuple(sorted(n for n in scaled if n and extent % n == 0 and self._is_tiled(letter, n)))

    def _parts(self, letter: str) -> Iterator[int]:
        for window in self.kernel.windows:
            yield from (part for part, index in zip(window.block, window.index_map, strict=False) if index == letter)

    def _is_tiled(self, letter: str, size: int) -> bool:
        """Whether blocks of this size end where tiles do, as Pallas asks of all but whole arrays."""
        for window in self.kernel.windows:
            for place, index in enumerate(reversed(window.index_map)):
                unit = (LANES, SUBLANES * max(WORD // max(window.shape.element_bits, 1), 1), 1)[min(place, 2)]
                whole = size == window.shape.sizes[-1 - place]
                if index == letter and size % unit and not whole and size != self.own[letter]:
                    return False
        return True

    def choice(self, sizes: Mapping[str, int], generation: str | None) -> BlockChoice:
        """What the kernel holds and moves with these sizes."""
        grid = [self.extents[each] // sizes[each] if each in self.own else n for each, n in self._indices()]
        body = replace(self.body, grid=tuple(grid))
        held = moved = 0
        blocks = []
        for number, window in enumerate(self.kernel.windows):
            block = self._block(window, sizes)
            blocks.append(block)
            if not window.index_map:
                continue
            argument = self.body.arguments[self.body.prefetched + number]
            assert isinstance(argument.type, ArrayType)
            taken = reservation_of(
                body, self.body.windows[number], block, argument.type, window.space, window.shape, generation,
                is_output=window.is_output,
            )  # fmt: skip
            held += taken.bytes if window.space == "vmem" else 0
            if window.moved_bytes:
                moved += _blocks(window, grid, self.letters) * prod(block) * bits_of(argument.type.element) // 8
        held += sum(self._scratch(sizes))
        return BlockChoice(sizes, tuple(blocks), prod(grid), held, moved)

    def _indices(self) -> Iterator[tuple[str, int]]:
        yield from zip(self.letters, (size or 1 for size in self.body.grid or ()), strict=True)

    def _block(self, window: KernelWindow, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(
            [
                sizes[index] if index in self.own and part == self.own[index] else part
                for part, index in zip(window.block, window.index_map, strict=False)
            ]
        )

    def _scratch(self, sizes: Mapping[str, int]) -> Iterator[int]:
        """The bytes of each scratch array, whose dimensions follow the blocks that they are as large as."""
        first = self.body.prefetched + len(self.kernel.windows)
        for argument, part in zip(self.body.arguments[first:], self.kernel.scratch, strict=False):
            kind = argument.type
            if part.space != "vmem" or part.is_dropped or not isinstance(kind, ArrayType):
                continue
            shape = tuple(kind.shape or ())
            followed = tuple([self._followed(size, place, shape, sizes) for place, size in enumerate(shape)])
            is_same = followed == shape
            yield part.bytes if is_same else scratch_bytes(replace(kind, shape=followed), has_large_tiles=False)

    def _followed(self, size: int, place: int, shape: Sequence[int], sizes: Mapping[str, int]) -> int:
        """The size of a dimension of scratch; of several indices whose blocks are as large, the larger one's."""
        if size in _OF_REGISTERS:
            return size
        for window in self.kernel.windows:
            start = len(window.block) - len(shape)
            if window.is_output and start >= 0 and tuple(window.block[start:]) == tuple(shape):
                index = window.index_map[start + place]
                return sizes.get(index, size) if index in self.own else size
        return max((sizes[index] for index, own in self.own.items() if own == size), default=size)


def _tiling_of(kernel: PallasKernel) -> _Tiling | None:
    """The sizes of a kernel's blocks by index; None if an index map is more than indices, or sizes do not agree."""
    body = kernel.body
    if body is None or not kernel.grid or None in kernel.grid or kernel.prefetched or kernel.work.transfers:
        return None
    letters = index_letters(len(kernel.grid))
    own: dict[str, int] = {}
    extents: dict[str, int] = {}
    for number, window in enumerate(kernel.windows):
        if not window.index_map or body.windows[number].is_element or len(window.block) != len(window.shape.sizes):
            return None
        for part, size, index in zip(window.block, window.shape.sizes, window.index_map, strict=True):
            if index == _ZERO:
                continue
            if index not in letters or size % part:
                return None
            if own.setdefault(index, part) != part or extents.setdefault(index, size) != size:
                return None
    grid = dict(zip(letters, kernel.grid, strict=True))
    if any(extents[each] // own[each] != grid[each] for each in own):
        return None
    tiling = _Tiling(kernel, body, letters, own, extents)
    sizes = [size or 1 for size in kernel.grid]
    # the count of blocks is that of the walk through the grid, or the kernel is left alone
    is_counted = all(window.blocks in (None, _blocks(window, sizes, letters)) for window in kernel.windows)
    return tiling if is_counted else None


def _blocks(window: KernelWindow, grid: Sequence[int], letters: Sequence[str]) -> int:
    """How many blocks are moved: one for each step of the dimensions up to the last one that changes the block."""
    used = [n for n, letter in enumerate(letters) if letter in window.index_map and grid[n] > 1]
    return prod(grid[: max(used, default=-1) + 1])
