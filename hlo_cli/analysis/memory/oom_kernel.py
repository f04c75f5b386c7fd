"""Which kernel of a module ran out of memory by an error, and which of its windows and scratch hold how much?

A compile that fails leaves modules from before the pass that failed, in some of which the call has another name than in
the error: `pallas_call.1` before optimization is `matmul.1` after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from hlo_cli.analysis.hardware.chips import find_chip, tpu_generation
from hlo_cli.analysis.kernels.kernel_memory import limits_of
from hlo_cli.analysis.kernels.pallas_kernels import KernelScratch, KernelWindow, PallasKernel, pallas_kernels_of
from hlo_cli.analysis.memory.oom_advice import SCRATCH, is_shown, is_shown_as
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.out_of_memory import KERNEL_SPACES, OomAllocation, OutOfMemory

Match = Literal["instruction", "op_name", "kernel name"]
"""What the error and the call in the module have in common."""


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A window, scratch, or prefetched scalars of a kernel in the memory that ran out.

    `type` is the type of the array, or of the scratch; `block` and `index_map` are those of a window. `bytes` are those
    of all `buffers`; `reported_bytes` is the size in the error, None if the error does not list the part.
    """

    label: str
    name: str
    type: str
    bytes: int
    buffers: int = 1
    block: tuple[int, ...] = ()
    index_map: tuple[str, ...] = ()
    reported_bytes: int | None = None

    @property
    def kind(self) -> str:
        """What it is: `windows`, `scratch`, or `prefetched scalars`."""
        return _KINDS.get(self.label.partition(" ")[0], "windows")

    @property
    def words(self) -> str:
        """The label in words, for a sentence.

        >>> HeldPart("in 0", "", "f32[8]", 512).words, HeldPart("scratch 1", "", "f32[8]", 512).words
        ('input 0', 'scratch 1')
        """
        role, _, number = self.label.partition(" ")
        return f"{_ROLES.get(role, role)} {number}"


_KINDS: Final = {"scratch": "scratch", "prefetched": "prefetched scalars"}
_ROLES: Final = {"in": "input", "out": "output", "prefetched": "prefetched operand"}


@dataclass(frozen=True, slots=True)
class FailedKernel:
    """The kernel that an error names, and what of it is in the memory `space` that ran out, the largest first.

    `limit_bytes` is the limit in the error, exact if the kernel or the chip has it, and `limit_origin` whose it is;
    None if neither is known. `match` is what error and module have in common, and `text_name` the kernel's name in the
    error.
    """

    kernel: PallasKernel
    space: TpuMemorySpace
    parts: tuple[HeldPart, ...]
    limit_bytes: int | None
    limit_origin: str
    match: Match
    text_name: str

    @property
    def held_bytes(self) -> int:
        """The bytes of all parts: a lower bound of what the compiler reserves."""
        return sum(part.bytes for part in self.parts)

    @property
    def exceeded_by_bytes(self) -> int | None:
        """The bytes over the limit; below 0 if the parts fit, None without a limit."""
        return None if self.limit_bytes is None else self.held_bytes - self.limit_bytes


def failed_kernel(message: OutOfMemory, module: Module, *, chip: str | None = None) -> FailedKernel | None:
    """The kernel that an error names, in a module: by its instruction, else its op_name, else the kernel's own name.

    Of several with the same name, the one that holds most. None if the error is not about a kernel, or the module has
    no such kernel. `chip` is a TPU.

    >>> from hlo_cli import load
    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.out_of_memory.read_logs import parse_out_of_memory
    >>> text = "Ran out of memory in memory space vmem while allocating on stack for %matmul.7 = bf16[8] "
    >>> text += 'custom-call(a), custom_call_target="tpu_custom_call". Scoped allocation with size 1.25M and limit '
    >>> [message] = parse_out_of_memory(Source("error.txt", text + "1.00M exceeded scoped vmem limit by 256.0K."))
    >>> found = failed_kernel(message, load("fixtures/tpu/v6e_kernels"), chip="v6e")
    >>> found.kernel.instruction.name, found.match, [(part.label, part.bytes) for part in found.parts]
    ('matmul.1', 'kernel name', [('out 0', 524288), ('scratch 0', 524288), ('in 1', 262144), ('in 0', 131072)])
    """
    space = KERNEL_SPACES.get(message.kind)
    if space is None:
        return None
    kernels = pallas_kernels_of(module, chip=chip)
    for name, op_name, own_name in _names(message) if kernels else ():
        rules: tuple[tuple[Match, list[PallasKernel]], ...] = (
            ("instruction", [each for each in kernels if each.instruction.name == name]),
            ("op_name", [each for each in kernels if op_name and each.instruction.metadata.op_name == op_name]),
            ("kernel name", [each for each in kernels if own_name and each.name == own_name]),
        )
        for match, found in rules:
            if found:
                kernel = max(found, key=lambda each: _held_in(each, space))
                limit, origin = _limit_of(message, kernel, space, chip)
                parts = _with_reported(list(_parts_in(kernel, space)), message.culprits)
                largest_first = tuple(sorted(parts, key=lambda part: -part.bytes))
                return FailedKernel(kernel, space, largest_first, limit, origin, match, name or own_name)
    return None


def _names(message: OutOfMemory) -> Iterator[tuple[str, str, str]]:
    """The instruction, the op_name, and the own name of each kernel in an error, as far as it has them."""
    for each in message.culprits:
        if each.kernel:
            yield each.place.name if each.place is not None else "", each.op_name, each.kernel
    if message.cause is not None:
        name, _, number = message.cause.name.rpartition(".")
        yield message.cause.name, "", name if number.isdecimal() else message.cause.name


# --- what is held ---


def _held_in(kernel: PallasKernel, space: TpuMemorySpace) -> int:
    return kernel.smem_bytes if space == TpuMemorySpace.SMEM else kernel.vmem_bytes


def _parts_in(kernel: PallasKernel, space: TpuMemorySpace) -> Iterator[HeldPart]:
    """What a kernel keeps in a memory space, in the order of its arguments."""
    name = space.label.lower()

    def is_held(part: KernelWindow | KernelScratch) -> bool:
        return part.space == name and bool(part.bytes) and not part.is_dropped

    for number, scalars in enumerate(kernel.prefetched):
        if is_held(scalars):
            yield HeldPart(f"prefetched {number}", scalars.name, scalars.type, scalars.bytes)
    for window in kernel.windows:
        if is_held(window):
            array, maps = str(window.shape), window.index_map
            yield HeldPart(window.label, window.name, array, window.bytes, window.buffers, window.block, maps)
    for number, scratch in enumerate(kernel.scratch):
        if is_held(scratch):
            yield HeldPart(f"scratch {number}", scratch.name, scratch.type, scratch.bytes)


def _with_reported(parts: Sequence[HeldPart], listed: Sequence[OomAllocation]) -> list[HeldPart]:
    """The parts with the sizes that an error lists for them, by the tags of its allocations."""
    reported: dict[int, int] = {}
    for allocation in listed:
        size = allocation.size_bytes
        at = next((at for at, part in enumerate(parts) if at not in reported and _is_tagged(part, allocation)), None)
        if at is not None and size is not None:
            reported[at] = size
    return [replace(each, reported_bytes=reported.get(at)) for at, each in enumerate(parts)]


_TAGS: Final = {"input window": "in", "output window": "out", "prefetched SMEM operand": "prefetched"}
"""The compiler's words for parts that have a number, which is that of the operand or the result."""


def _is_tagged(part: HeldPart, allocation: OomAllocation) -> bool:
    """Whether an allocation is a part; scratch has no number in errors, so its size must be that of the part."""
    if allocation.tag == SCRATCH:
        size = allocation.size_bytes
        return part.label.startswith("scratch") and size is not None and is_shown_as(part.bytes, size)
    kind = next((kind for tag, kind in _TAGS.items() if allocation.tag.startswith(tag)), None)
    return kind is not None and part.label == f"{kind} {allocation.operand_number}"


# --- the limit ---


def _limit_of(
    message: OutOfMemory, kernel: PallasKernel, space: TpuMemorySpace, chip: str | None
) -> tuple[int | None, str]:
    """The limit of a kernel, and whose it is; errors round it, so that of the kernel or the chip is taken if equal."""
    known = list(_limits(kernel, space, chip))
    if message.limit_meaning == "capacity":
        known.reverse()  # a kernel may ask for more than a chip has, and the compiler then gives it all
    shown = message.limit_bytes
    if shown is None:
        return known[0] if known else (None, "")
    return next((each for each in known if is_shown(each[0], shown)), (shown, "by the text"))


def _limits(kernel: PallasKernel, space: TpuMemorySpace, chip: str | None) -> Iterator[tuple[int, str]]:
    """What may limit a kernel, the strictest first."""
    if space == TpuMemorySpace.VMEM and kernel.limit_bytes is not None:
        yield kernel.limit_bytes, "vmem_limit_bytes of the kernel"
    if chip is None:
        return
    name = tpu_generation(chip).name
    if space == TpuMemorySpace.VMEM:
        limits = limits_of(chip)
        yield limits.default_bytes, f"default of {name}"
        yield limits.largest_bytes, f"{space.label} of {name} for kernels"
    memory = find_chip(name).memories.get(space)
    if memory is not None:
        yield memory.bytes, f"{space.label} of {name}"
