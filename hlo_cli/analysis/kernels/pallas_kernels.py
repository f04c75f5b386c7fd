"""Which Pallas kernels does a module call, and what does each read, write, hold, and compute?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Final

from hlo_cli.analysis.hardware.chips import OLD_TPU, tpu_generation
from hlo_cli.analysis.hardware.target import is_old_tpu, is_pallas
from hlo_cli.analysis.kernels.dropped_memory import dropped_memory
from hlo_cli.analysis.kernels.index_maps import formulas_of, visits_of
from hlo_cli.analysis.kernels.kernel_body import (
    KernelBody,
    WindowAttributes,
    body_of,
    config_of,
    name_of,
    space_of,
)
from hlo_cli.analysis.kernels.kernel_memory import (
    NOTHING,
    Reservation,
    bits_of,
    known_shape,
    prefetched_bytes,
    reservation_of,
    scratch_bytes,
)
from hlo_cli.analysis.kernels.kernel_work import DmaTransfer, KernelWork, work_of
from hlo_cli.analysis.kernels.scalar_code import dependencies
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.ir.attributes.metadata import BackendConfig
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.mlir.mlir_operations import Value
from hlo_cli.mlir.mlir_values import ArrayType
from hlo_cli.source import HloError, expect

# --- what there is to know of a kernel ---


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """An operand or a result of a kernel, and the block of it that the kernel has at each step of its grid.

    `number` counts operands of the call, or, of an `is_output`, its results. `index_map` has the number of the block in
    each dimension as a formula of the grid's indices; it is empty for an array that the kernel moves by itself, in
    `space` `any` or `hbm`. `dimensions` are those of the grid that change the block. `buffers` and `bytes` are what is
    reserved in `space`: none for an array that is used where it is; the compiler does not keep them if it `is_dropped`,
    as one in VMEM that is not read. `blocks` are moved in all steps, with `moved_bytes` between main memory and the
    kernel; these are upper bounds if `is_bound`. Unknown numbers are None.
    """

    number: int
    is_output: bool
    name: str
    shape: ArrayShape
    element_type: str
    block: tuple[int, ...]
    index_map: tuple[str, ...]
    dimensions: tuple[int, ...]
    space: str
    buffers: int
    bytes: int
    blocks: int | None = None
    moved_bytes: int | None = None
    is_bound: bool = False
    is_dropped: bool = False

    @property
    def label(self) -> str:
        """How it is called: `in 0`, `out 1`."""
        return f"{'out' if self.is_output else 'in'} {self.number}"

    @property
    def is_in_vmem(self) -> bool:
        """Whether the array itself is in VMEM."""
        return _is_in_vmem(self.shape)

    @property
    def stays(self) -> bool:
        """Whether the same block stays in all steps."""
        return self.blocks == 1


@dataclass(frozen=True, slots=True)
class KernelScratch:
    """Memory that a kernel has for itself, or scalars that it gets before it begins: type, memory space, and bytes.

    One that `is_scoped` is allocated while the kernel runs. If it `is_dropped`, the kernel reads only what it has just
    written, so the compiler keeps none of it.
    """

    name: str
    type: str
    space: str
    bytes: int
    is_scoped: bool = False
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What the author of a kernel tells the compiler of its cost, which nothing checks."""

    flops: int
    transcendentals: int
    bytes_accessed: int


@dataclass(frozen=True, slots=True, eq=False)
class PallasKernel:
    """A Pallas kernel in a module.

    `grid` is empty for a kernel without one; a size that is set at run time is None in it. `work` has flops and copies.
    `used_vmem_bytes` is the compiler's own figure, None in dumps from before it is known. It is that of another dump of
    the same module, after its code was generated, if `is_used_elsewhere`. `limit_bytes` is the limit that the program
    or the compiler sets, None if there is none in the text. With an `error`, the body cannot be read,
    and all else is empty. `assumptions` say what the numbers rest on.
    """

    instruction: Instruction
    name: str = ""
    grid: tuple[int | None, ...] = ()
    semantics: tuple[str, ...] = ()
    windows: tuple[KernelWindow, ...] = ()
    prefetched: tuple[KernelScratch, ...] = ()
    scratch: tuple[KernelScratch, ...] = ()
    work: KernelWork = KernelWork()
    used_vmem_bytes: int | None = None
    limit_bytes: int | None = None
    estimate: CostEstimate | None = None
    is_compiled: bool = False
    is_used_elsewhere: bool = False
    assumptions: tuple[str, ...] = ()
    error: str = ""
    body: KernelBody | None = field(default=None, compare=False)

    @property
    def steps(self) -> int | None:
        """The steps of the grid; None if a size is set at run time."""
        sizes = [size for size in self.grid if size is not None]
        return prod(sizes) if len(sizes) == len(self.grid) else None

    @property
    def first_window(self) -> int:
        """The number of operands before those with windows: sizes of the grid, if set at run time, and scalars."""
        return sum(size is None for size in self.grid) + len(self.prefetched)

    @property
    def vmem_bytes(self) -> int:
        """VMEM of windows and of scratch that is kept: a lower bound of what the compiler reserves."""
        return self._bytes_in("vmem")

    @property
    def smem_bytes(self) -> int:
        """Scalar memory of prefetched scalars, windows, and scratch."""
        return self._bytes_in("smem")

    def _bytes_in(self, space: str) -> int:
        others = (*self.prefetched, *self.scratch)
        parts: tuple[KernelWindow | KernelScratch, ...] = (*self.windows, *others)
        return sum(part.bytes for part in parts if part.space == space and not part.is_dropped)

    @property
    def rest_bytes(self) -> int | None:
        """VMEM that the compiler uses beyond windows and scratch; below 0 if it drops some that are not used."""
        return None if self.used_vmem_bytes is None else self.used_vmem_bytes - self.vmem_bytes

    @property
    def semaphores(self) -> int:
        """The number of arguments that are semaphores."""
        spaces = [*[part.space for part in self.scratch], *[window.space for window in self.windows]]
        return sum("semaphore" in space for space in spaces)

    @property
    def flops(self) -> int:
        """The flops of all matmuls, in all steps."""
        return sum(self.work.flops.values())

    @property
    def read_bytes(self) -> int | None:
        """Bytes read from main memory in all steps; None if unknown."""
        moved = [window.moved_bytes for window in self.windows if not window.is_output and window.index_map]
        copied = [copy for copy in self.work.transfers if self._is_main(copy.source, copy.source_argument)]
        return _sum(moved, copied, self._prefetched_bytes())

    @property
    def written_bytes(self) -> int | None:
        """Bytes written to main memory in all steps; None if unknown."""
        moved = [window.moved_bytes for window in self.windows if window.is_output and window.index_map]
        copied = [copy for copy in self.work.transfers if self._is_main(copy.target, copy.target_argument)]
        return _sum(moved, copied, [])

    def copied_bytes(self, operand: int) -> int:
        """Bytes that the kernel itself copies from an operand of the call in main memory, in all steps."""
        argument = operand - sum(size is None for size in self.grid)  # the sizes of the grid are no arguments
        copies = (copy for copy in self.work.transfers if copy.source_argument == argument)
        return sum(copy.bytes * copy.count for copy in copies if self._is_main(copy.source, argument))

    def _prefetched_bytes(self) -> list[int]:
        first = sum(size is None for size in self.grid)
        operands = self.instruction.operands[first : first + len(self.prefetched)]
        return [-(-shape.elements * shape.element_bits // 8) for shape in _leaves([each.shape for each in operands])]

    def _is_main(self, space: str, argument: int | None) -> bool:
        """Whether one end of a copy is in main memory: an array in any memory is where its layout says."""
        number = -1 if argument is None else argument - len(self.prefetched)
        is_window = 0 <= number < len(self.windows)
        return space in ("any", "hbm") and not (is_window and self.windows[number].is_in_vmem)

    @property
    def bytes_accessed(self) -> int | None:
        """Bytes read and written; None if unknown."""
        read, written = self.read_bytes, self.written_bytes
        return None if read is None or written is None else read + written

    @property
    def intensity(self) -> float | None:
        """Flops of matmuls for each byte; None if unknown or nothing is moved."""
        return self.flops / self.bytes_accessed if self.bytes_accessed else None


def _sum(moved: Sequence[int | None], copied: Sequence[DmaTransfer], other: Sequence[int]) -> int | None:
    known = [size for size in moved if size is not None]
    if len(known) != len(moved):
        return None
    return sum(known) + sum(copy.bytes * copy.count for copy in copied) + sum(other)


# --- the kernels of a module ---


@of_module
def pallas_kernels_of(module: Module, *, chip: str | None = None) -> tuple[PallasKernel, ...]:
    """The Pallas kernels for TPUs that a module calls, in the order of the text.

    `chip` is a TPU, whose generation decides some sizes; by default, what all generations since v4 have in common. The
    memory of windows and scratch is what the compiler reserves for them; what it adds is in `rest_bytes`.

    >>> from hlo_cli import load
    >>> kernels = pallas_kernels_of(load("fixtures/tpu/v6e_kernels"), chip="v6e")
    >>> [(kernel.instruction.name, kernel.grid, kernel.vmem_bytes) for kernel in kernels][-1]
    ('matmul.1', (4, 3, 4), 1441792)
    >>> [(window.label, window.block, ", ".join(window.index_map), window.blocks) for window in kernels[-1].windows]
    [('in 0', (256, 128), 'i, k', 48), ('in 1', (128, 512), 'k, j', 48), ('out 0', (256, 512), 'i, j', 12)]
    """
    expect(str | None, "the name of a TPU", chip, 'such as "v5e"')
    generation = tpu_generation(chip).name if chip is not None else OLD_TPU if is_old_tpu(module) else None
    return _with_used(
        [kernel_of(each, generation=generation) for each in module.instructions if is_pallas(each)], module
    )


def _with_used(kernels: Sequence[PallasKernel], module: Module) -> tuple[PallasKernel, ...]:
    """Kernels with the compiler's figures, which are in the dump of the generated code if they are not in this one."""
    is_known = all(each.used_vmem_bytes is not None for each in kernels if each.is_compiled)
    generated = None if is_known else module.generated
    if generated is None:
        return tuple(kernels)
    configs = {each.name: config_of(each) for each in generated.instructions if is_pallas(each)}
    found = []
    for kernel in kernels:
        config = configs.get(kernel.instruction.name)
        used = None if config is None else _scoped(config, "used_scoped_memory_configs")
        is_same = config is not None and config.get(*_BODY) == config_of(kernel.instruction).get(*_BODY)
        is_missing = kernel.is_compiled and kernel.used_vmem_bytes is None
        if is_missing and is_same and used is not None:
            kernel = replace(kernel, used_vmem_bytes=used, is_used_elsewhere=True)
        found.append(kernel)
    return tuple(found)


_BODY: Final = ("custom_call_config", "body")


def kernel_of(call: Instruction, *, generation: str | None = None) -> PallasKernel:
    """The kernel of a custom call; with an `error` if its body cannot be read."""
    configured = _configured(call)
    try:
        return _described(configured, body_of(call), generation)
    except HloError as error:
        return replace(configured, error=error.diagnostic.message)


def _configured(call: Instruction) -> PallasKernel:
    """What the configuration says beside the body."""
    config = config_of(call)
    used = config.get("used_scoped_memory_configs")
    return PallasKernel(
        call,
        used_vmem_bytes=_scoped(config, "used_scoped_memory_configs"),
        limit_bytes=_scoped(config, "scoped_memory_configs"),
        estimate=_estimate(config),
        is_compiled=used is not None,
    )


def _scoped(config: BackendConfig, name: str) -> int | None:
    """The bytes of VMEM in a list of memory spaces."""
    listed = config.get(name)
    for entry in listed if isinstance(listed, tuple) else ():
        if isinstance(entry, Mapping) and str(entry.get("memory_space")) == str(int(TpuMemorySpace.VMEM)):
            return _number(entry.get("size"))
    return None


def _number(value: object) -> int | None:
    """A number, which compilers write in quotes."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else None


_DIGITS: Final = 20  # an int64 has fewer


def _estimate(config: BackendConfig) -> CostEstimate | None:
    path = ("custom_call_config", "cost_estimate")
    if config.get(*path) is None:
        return None
    names = ("flops", "transcendentals", "bytes_accessed")
    return CostEstimate(*[_number(config.get(*path, name)) or 0 for name in names])


def _described(configured: PallasKernel, body: KernelBody, generation: str | None) -> PallasKernel:
    call, arguments = configured.instruction, body.arguments
    # a size of the grid that is set at run time is an operand, before all others
    first = body.bounds + body.prefetched
    inputs = _leaves([operand.shape for operand in call.operands])[first:]
    outputs = _leaves([call.shape])
    count = len(inputs) + len(outputs)
    expected = body.prefetched + count + body.scratch
    if len(arguments) != expected:
        raise HloError(f"the kernel has {len(arguments)} arguments, but the call has {expected} arrays")
    is_large = generation is not None and tpu_generation(generation).has_large_tiles
    windows = []
    for number, shape in enumerate((*inputs, *outputs)):
        attributes = body.windows[number] if number < len(body.windows) else None
        argument = arguments[body.prefetched + number]
        is_output = number >= len(inputs)
        position = number - len(inputs) if is_output else number + first
        windows.append(_window(body, attributes, argument, shape, position, is_output=is_output, generation=generation))
    work = work_of(body)
    shapes = dict(zip(arguments[body.prefetched :], (*inputs, *outputs), strict=False))
    dropped = dropped_memory(body, {each: shape for each, shape in shapes.items() if _is_on_chip(shape)}, generation)
    notes = [*body.notes, *work.assumptions]
    if any(window.is_bound for window in windows):
        notes.append("blocks depend on prefetched scalars: each step is assumed to move one")
    return replace(
        configured,
        name=body.name,
        grid=body.grid or (),
        semantics=body.semantics,
        windows=Items(
            [replace(each, is_dropped=value in dropped) for each, value in zip(windows, shapes, strict=True)]
        ),
        prefetched=Items([_scratch(each, large=is_large, prefetched=True) for each in arguments[: body.prefetched]]),
        scratch=Items(
            replace(_scratch(each, large=is_large), is_scoped=at >= body.scratch, is_dropped=each in dropped)
            for at, each in enumerate((*arguments[body.prefetched + count :], *body.allocated))
        ),
        work=work,
        assumptions=tuple(notes),
        body=body,
    )


def _is_in_vmem(shape: ArrayShape) -> bool:
    return shape.layout.memory_space == TpuMemorySpace.VMEM


def _is_on_chip(shape: ArrayShape) -> bool:
    return shape.layout.memory_space in (TpuMemorySpace.VMEM, TpuMemorySpace.SMEM)


def _leaves(shapes: Sequence[Shape]) -> list[ArrayShape]:
    return [leaf for shape in shapes for _, leaf in shape.leaves if isinstance(leaf, ArrayShape)]


def _scratch(argument: Value, *, large: bool, prefetched: bool = False) -> KernelScratch:
    kind, space = argument.type, space_of(argument)
    size = 0
    if isinstance(kind, ArrayType) and kind.kind == "memref" and space in ("vmem", "smem"):
        size = (prefetched_bytes if prefetched else scratch_bytes)(kind, has_large_tiles=large)
    text = "×".join(map(str, known_shape(kind))) if isinstance(kind, ArrayType) else ""
    name = str(kind.element if isinstance(kind, ArrayType) else kind)
    return KernelScratch(name_of(argument), f"{name}[{text.replace('×', ',')}]", space, size)


def _window(
    body: KernelBody,
    attributes: WindowAttributes | None,
    argument: Value,
    shape: ArrayShape,
    number: int,
    *,
    is_output: bool,
    generation: str | None,
) -> KernelWindow:
    kind, space = argument.type, space_of(argument)
    if not isinstance(kind, ArrayType):
        raise HloError(f"argument {number} of the kernel is a {kind}, not an array")
    element = str(kind.element)
    is_moved = attributes is not None and attributes.transform is not None
    if not is_moved and (attributes is not None or space not in ("vmem", "smem")):
        return KernelWindow(number, is_output, name_of(argument), shape, element, (), (), (), space, 0, 0)
    attributes = attributes or WindowAttributes()
    block = attributes.block or tuple(shape.sizes)
    if any(size < 0 for size in block):
        raise HloError(f"the size {min(block)} of a block of the kernel is below 0")
    taken: Reservation = NOTHING
    if space in ("vmem", "smem"):
        taken = reservation_of(body, attributes, block, kind, space, shape, generation, is_output=is_output)
    blocks, elements, dimensions, is_bound = _moved(body, attributes, block, shape)
    moved = None if elements is None else -(-elements * bits_of(kind.element) // 8)
    if shape.layout.memory_space in (TpuMemorySpace.VMEM, TpuMemorySpace.SMEM):
        moved = 0  # it is not in main memory
    grid = body.grid or ()
    maps = formulas_of(attributes.transform, grid) if attributes.transform is not None else ("0",) * len(block)
    window = KernelWindow(number, is_output, name_of(argument), shape, element, block, maps, dimensions, space, 0, 0)
    return replace(
        window, buffers=taken.buffers, bytes=taken.bytes, blocks=blocks, moved_bytes=moved, is_bound=is_bound
    )


def _moved(
    body: KernelBody, attributes: WindowAttributes, block: Sequence[int], shape: ArrayShape
) -> tuple[int | None, int | None, tuple[int, ...], bool]:
    """Blocks and elements that all steps move, the grid's dimensions that change them, and whether these are bounds."""
    if attributes.transform is None or body.grid is None:
        return 1, shape.elements, (), False
    region = attributes.transform.regions[0]
    used = dependencies(region.operations[-1].operands if region.operations else (), cut_at_zero=True)
    sizes = [size for size in body.grid if size is not None]
    numbers = [n for n, value in enumerate(region.arguments[: len(body.grid)]) if value in used]
    if len(sizes) != len(body.grid):
        return None, None, tuple(numbers), False
    visits = visits_of(attributes.transform, sizes, numbers, block, shape.sizes, is_element=attributes.is_element)
    changing = tuple([number for number in numbers if sizes[number] > 1])
    return visits.blocks, visits.elements, changing, visits.is_bound
