"""Memory spaces, the n of `S(n)`: their names and meanings on each target, and how compilers treat them.

Mirrors the constants of xla/layout.h and `MemorySpaceColor` of xla/service/gpu/gpu_memory_space_assignment.h. What TPU
compilers number is not public: it was derived from dumps, whose `S(6)` is not the unpinned host memory of xla/layout.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, Literal, NamedTuple

from hlo_cli.source import HloError, did_you_mean, expect, nearest

Tiles = Literal["from layout", "by default", "never"]
"""The tiles of arrays in a memory space: those of their layout, fixed ones, or none."""


class _Row(NamedTuple):
    """A memory space: its number, name, description, and other names (at least those of `jax.memory_kind`).

    Offsets in it are multiples of `alignment`. A space that `is_prefetched` is filled in advance by memory space
    assignment; one that `follows_strategy` is filled by the strategy chosen for the main memory.
    """

    number: int
    label: str = ""
    meaning: str = ""
    aliases: tuple[str, ...] = ()
    alignment: int = 1
    tiles: Tiles = "from layout"
    is_prefetched: bool = False
    follows_strategy: bool = False
    is_bookkeeping: bool = False


class NamedSpace(IntEnum):
    """A memory space of some target: its number, with its properties."""

    number: int
    label: str
    meaning: str
    aliases: tuple[str, ...]
    alignment: int
    tiles: Tiles
    is_prefetched: bool
    follows_strategy: bool
    is_bookkeeping: bool

    @property
    def is_unnamed(self) -> bool:
        """Whether only its number is known."""
        return self.label == f"S({self.number})"

    def __new__(cls, number: int, *facts: object) -> NamedSpace:
        """Creates the member for a row, which is a tuple."""
        self = int.__new__(cls, number)
        self._value_ = number
        row = _Row._make((number, *facts))
        vars(self).update(row._asdict(), label=row.label or f"S({number})")
        return self


class MemorySpace(NamedSpace):
    """The memory spaces of every target: `kDefaultMemorySpace` and `kHostMemorySpace` of xla/layout.h.

    >>> MemorySpace.HOST == 5, str(MemorySpace.HOST), MemorySpace.HOST.label
    (True, '5', 'host')
    """

    MAIN = _Row(0, "main memory", "the device's main memory", ("device",), 64)
    HOST = _Row(5, "host", "pinned host memory", ("pinned_host",), 64)


class TpuMemorySpace(NamedSpace):
    """The memory spaces of TPUs; 8 and above hold further data of programs on a SparseCore."""

    # libtpu's xla_jf_program_hbm_alignment_in_kib is 16; other alignments are those of its buffer assignments
    HBM = _Row(0, "HBM", "the device's main memory", ("device",), 16384, "by default", follows_strategy=True)
    VMEM = _Row(1, "VMEM", "on-chip vector memory", (), 4096, is_prefetched=True)
    SMEM = _Row(6, "SMEM", "on-chip scalar memory", (), 512, "by default", follows_strategy=True)
    CMEM = _Row(3, "CMEM", "on-chip memory shared by the cores", (), 4096, is_prefetched=True)  # v4 alone
    SFLAG = _Row(2, "SFLAG", "DMA semaphores", (), 4, "never")  # such as the `u32[]{:S(2)}` of a copy-start
    SPARSE_CORE = _Row(4, "SparseCore", "memory of the SparseCores", (), 512, "by default")
    HOST = _Row(5, "host", "pinned host memory", ("pinned_host",))
    S8 = _Row(8, is_bookkeeping=True)  # semaphores, in async-start tuples of v6e and 7x
    S10 = _Row(10, is_bookkeeping=True)
    S11 = _Row(11, is_bookkeeping=True)
    S12 = _Row(12, is_bookkeeping=True)
    S15 = _Row(15, is_bookkeeping=True)


class GpuMemorySpace(NamedSpace):
    """The memory spaces of GPUs, where collectives and temporary buffers may have pools of their own."""

    HBM = _Row(0, "HBM", "the device's main memory", ("device",), 256)
    # `MemorySpaceColor` of gpu_memory_space_assignment.h
    COLLECTIVE = _Row(1, "collective", "memory accessible to other GPUs", (), 256)
    # with xla_gpu_temp_buffer_use_separate_color, which is off by default
    TEMP = _Row(2, "temp", "temporary buffer pool", (), 256)
    HOST = _Row(5, "host", "pinned host memory", ("pinned_host",), 256)
    # `kUnpinnedHostMemorySpace` of xla/layout.h; TPUs have scalar memory there
    UNPINNED_HOST = _Row(6, "unpinned host", "", ("unpinned_host",), 256)


class CpuMemorySpace(NamedSpace):
    """The memory spaces of CPUs, whose main memory is the host's."""

    RAM = _Row(0, "RAM", "host main memory", ("device",), 64)  # alignment as in buffer assignments of jaxlib 0.10.2
    PINNED = _Row(5, "pinned RAM", "", ("pinned_host",), 64)
    UNPINNED = _Row(6, "unpinned RAM", "", ("unpinned_host",), 64)


_TARGETS: Final[Mapping[str | None, type[NamedSpace]]] = {
    "tpu": TpuMemorySpace,
    "gpu": GpuMemorySpace,
    "cpu": CpuMemorySpace,
    None: MemorySpace,
}
_BY_NUMBER: Final[Mapping[str | None, Mapping[int, NamedSpace]]] = {
    target: {space.number: space for space in spaces} for target, spaces in _TARGETS.items()
}


def memory_space(number: int, target: str | None) -> NamedSpace | None:
    """The memory space S(n) of a target; None if it has no row.

    >>> memory_space(1, "tpu"), memory_space(1, "cpu")
    (<TpuMemorySpace.VMEM: 1>, None)
    """
    return _BY_NUMBER.get(target, _BY_NUMBER[None]).get(number)


def space_name(number: int, target: str | None) -> str:
    """The name of a memory space S(n) on a target; `S(n)` without one.

    >>> space_name(1, "tpu"), space_name(0, "gpu"), space_name(9, "tpu")
    ('VMEM', 'HBM', 'S(9)')
    """
    space = memory_space(number, target)
    return space.label if space is not None else f"S({number})"


def describe_memory_space(number: int, target: str | None) -> str:
    """The name and the description of a memory space.

    >>> describe_memory_space(1, "tpu"), describe_memory_space(9, None)
    ('VMEM, on-chip vector memory', 'device-specific memory space')
    """
    space = memory_space(number, target)
    if space is None or space.is_unnamed:
        return "device-specific memory space"
    return (
        space.label if space.meaning.endswith(space.label) or not space.meaning else f"{space.label}, {space.meaning}"
    )


def space_number(text: str, target: str | None) -> int | None:
    """The number of a memory space by its name, another name for it, `S(n)`, or n.

    >>> [space_number(text, "tpu") for text in ("vmem", "pinned_host", "S(9)", "7", "collective")]
    [1, 5, 9, 7, None]
    """
    number = text.removeprefix("S(").removesuffix(")")
    if number.isascii() and number.isdigit():
        return int(number)
    known = _TARGETS.get(target, MemorySpace)
    return next((space.number for space in known if text.lower() in (space.label.lower(), *space.aliases)), None)


def wanted_space(wanted: int | str, target: str | None, names: Sequence[str]) -> int:
    """The number of a memory space that a program names by it, or in words; HloError, with `names`, for other words.

    >>> wanted_space(1, "tpu", ()), wanted_space("VMEM", "tpu", ())
    (1, 1)
    """
    if not isinstance(wanted, str):
        expect(int, "the number or the name of a memory space", wanted)
        return wanted
    if (number := space_number(wanted, target)) is None:
        hint = did_you_mean(nearest(wanted, names)) or f"available: {', '.join(names)}"
        raise HloError(f"unknown memory space '{wanted}'", hint=hint)
    return number


def space_words() -> tuple[str, ...]:
    """The one-word names of memory spaces on all targets, in lower case.

    >>> space_words()[:3]
    ('hbm', 'vmem', 'smem')
    """
    spaces = (space for target in ("tpu", "gpu", "cpu") for space in _TARGETS[target])
    return tuple(dict.fromkeys(space.label.lower() for space in spaces if space.label.isalpha()))
