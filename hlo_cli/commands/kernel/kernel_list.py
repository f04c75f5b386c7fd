"""Which kernels does a program bring along: Pallas kernels for TPUs, and Triton and cuDNN kernels for GPUs?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.custom_calls.triton import TritonKernel, triton_kernel_of
from hlo_cli.analysis.fusion.kernels import backend_of
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.chips import is_tpu, known_chips
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.kernels.kernel_memory import limits_of
from hlo_cli.analysis.kernels.pallas_kernels import PallasKernel, pallas_kernels_of
from hlo_cli.commands.modules.generated_code import GeneratedCode, generated_code, symbol_of
from hlo_cli.commands.modules.instruction_tables import rows_where, source_of
from hlo_cli.commands.modules.loading import Loaded, Many, input_facts, program_notes, stage_of
from hlo_cli.commands.modules.many import UPPER_BOUND, ModuleAnswer, Rows, finish_each, map_inputs
from hlo_cli.commands.options.chips import chip_of, time_notes
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import LAST_STAGE
from hlo_cli.inputs.input import Input
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, rows_from, unknown_if_none
from hlo_cli.source import Diagnostic, HloError

# --- kernels with what is known of the chip ---


@dataclass(frozen=True, slots=True)
class Listed:
    """A Pallas kernel in a dump, the chip that it runs on, and the peak rates that times are estimated with."""

    kernel: PallasKernel
    chip: str | None
    throughput: ChipSpec | None
    source: str | None = None

    @property
    def limit_bytes(self) -> int | None:
        """The VMEM that the kernel may take: by the text, else by the chip; None if neither is known."""
        if self.kernel.limit_bytes is not None or self.chip is None:
            return self.kernel.limit_bytes
        return limits_of(self.chip).default_bytes

    @property
    def compute_seconds(self) -> float | None:
        """The time of all matmuls at the peak rates; None without a chip, or for a type that it does not multiply."""
        if self.throughput is None or self.kernel.error:
            return None
        seconds = 0.0
        for kind, flops in self.kernel.work.flops.items():
            rate = self.throughput.flops_of(_XLA_TYPES.get(kind, kind.lower()))
            if rate is None:
                return None
            seconds += flops / rate.per_second
        return seconds

    @property
    def memory_seconds(self) -> float | None:
        """The time of all bytes at the peak bandwidth; None without a chip or an unknown number of bytes."""
        moved = self.kernel.bytes_accessed
        if self.throughput is None or moved is None or self.kernel.error:
            return None
        return moved / self.throughput.memory.per_second

    @property
    def seconds(self) -> float | None:
        """The longer of both, which the kernel takes at least."""
        times = (self.compute_seconds, self.memory_seconds)
        return None if None in times else max(time for time in times if time is not None)

    @property
    def bound(self) -> str | None:
        """What takes longer, `compute` or `memory`; None if unknown."""
        compute, memory = self.compute_seconds, self.memory_seconds
        if compute is None or memory is None:
            return None
        return "compute" if compute > memory else "memory"


_XLA_TYPES: Final = {"i8": "s8", "i4": "s4", "i16": "s16", "i32": "s32"}  # MLIR's integers have no sign


def listed_kernels(loaded: Loaded, throughput: ChipSpec | None) -> list[Listed]:
    """The Pallas kernels of a module, on the chip that is given, or that the dump names."""
    name = throughput.chip if throughput is not None else chip_of(loaded.input, None)
    chip = name if name is not None and is_tpu(name) else None
    module = loaded.module
    kernels = pallas_kernels_of(module, chip=chip)
    if kernels and name in {each.name for each in known_chips() if each.target != "tpu"}:
        raise HloError(f"{name} does not run Pallas kernels for TPUs", hint="name a TPU, such as --chip v5e")
    return [Listed(kernel, chip, throughput, source_of(module, kernel.instruction)) for kernel in kernels]


def grid_text(grid: Sequence[int | None]) -> str:
    """A grid as `4×3×4`; `?` for a size that is set at run time, and `-` without a grid.

    >>> grid_text((4, None)), grid_text(())
    ('4×?', '-')
    """
    return "×".join("?" if size is None else str(size) for size in grid) or "-"


# --- Pallas kernels for TPUs ---


def _unless_error(listed: Listed, cell: Cell) -> Cell:
    return UNKNOWN if listed.kernel.error else unknown_if_none(cell)


_COLUMNS: Final[tuple[Column[Listed], ...]] = (
    Column("kernel", "kernel", "name", of=lambda each: each.kernel.instruction.name),
    Column("grid", "grid", rank=7, of=lambda each: UNKNOWN if each.kernel.error else grid_text(each.kernel.grid)),
    Column("steps", "steps", "count", person=False, of=lambda each: _unless_error(each, each.kernel.steps)),
    Column("windows", "windows", "count", rank=1, from_width=120,
           of=lambda each: _unless_error(each, len(each.kernel.windows))),
    Column("vmem_bytes", TpuMemorySpace.VMEM.label, "bytes",
           of=lambda each: _unless_error(each, each.kernel.vmem_bytes)),
    Column("used_vmem_bytes", "used", "bytes", rank=3, like="vmem_bytes", from_width=120,
           of=lambda each: unknown_if_none(each.kernel.used_vmem_bytes)),
    Column("limit_bytes", "limit", "bytes", rank=4, like="vmem_bytes",
           of=lambda each: unknown_if_none(each.limit_bytes)),
    Column("smem_bytes", TpuMemorySpace.SMEM.label, "bytes", rank=1, from_width=120,
           of=lambda each: _unless_error(each, each.kernel.smem_bytes)),
    Column("read_bytes", "read", "bytes", total="sum", rank=5,
           of=lambda each: _unless_error(each, each.kernel.read_bytes)),
    Column("written_bytes", "written", "bytes", total="sum", rank=5, like="read_bytes",
           of=lambda each: _unless_error(each, each.kernel.written_bytes)),
    Column("matmul_flops", "matmul flops", "flops", total="sum",
           of=lambda each: _unless_error(each, each.kernel.flops)),
    Column("elementwise_flops", "elementwise", "flops", total="sum", person=False,
           of=lambda each: _unless_error(each, each.kernel.work.elementwise)),
    Column("transcendentals", "transcendentals", "count", person=False,
           of=lambda each: _unless_error(each, each.kernel.work.transcendentals)),
    Column("intensity", "flops/B", "number", rank=3, from_width=120, of=lambda each: _intensity(each)),
    Column("declared_flops", "declared flops", "flops", person=False,
           of=lambda each: None if each.kernel.estimate is None else each.kernel.estimate.flops),
    Column("declared_bytes", "declared bytes", "bytes", person=False,
           of=lambda each: None if each.kernel.estimate is None else each.kernel.estimate.bytes_accessed),
    Column("source", "source", "source", rank=2, from_width=120, of=lambda each: each.source),
)  # fmt: skip
_TIMES: Final[tuple[Column[Listed], ...]] = (
    Column("bound_seconds", "at least", "seconds", of=lambda each: unknown_if_none(each.seconds)),
    Column("bound", "bound", rank=6, of=lambda each: unknown_if_none(each.bound)),
)


def _intensity(listed: Listed) -> Cell:
    if listed.kernel.error or listed.kernel.bytes_accessed is None:
        return UNKNOWN
    return listed.kernel.intensity


def _table_of(listed: Sequence[Listed], throughput: ChipSpec | None) -> Table:
    ranked = sorted(listed, key=lambda each: -(each.kernel.bytes_accessed or 0))
    columns = (*_COLUMNS[:-1], *(_TIMES if throughput is not None else ()), _COLUMNS[-1])
    unread = frozenset(at for at, each in enumerate(ranked) if each.kernel.error)
    return Table(
        "kernels",
        columns,
        rows_from(columns, ranked),
        title="Pallas kernels",
        noun="kernels",
        marked=unread,
        main=True,
    )


# --- kernels for GPUs, of which the configuration is known ---


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """A Triton or cuDNN kernel: its provider, what its configuration says, and what the files of its code say.

    `triton` is the program in a call; of fusions, XLA makes it after the dump.
    """

    instruction: Instruction
    provider: str
    details: str
    source: str | None
    triton: TritonKernel | None = None
    code: GeneratedCode = GeneratedCode()

    @property
    def grid(self) -> str:
        """The programs that are launched, `8×4×1`; empty if unknown."""
        return grid_text(self.triton.grid) if self.triton is not None and self.triton.grid is not None else ""

    @property
    def blocks(self) -> str:
        """The blocks that a program loads and stores; empty if unknown."""
        return "" if self.triton is None else _block_words(self.triton)


_GPU_DETAILS: Final[tuple[Column[GpuKernel], ...]] = (
    Column("block", "blocks", rank=4, of=lambda each: each.blocks or None),
    Column("threads", "threads", "count", rank=1, of=lambda each: each.code.threads),
    Column("shared_bytes", "shared", "bytes", rank=2, of=lambda each: each.code.shared_bytes),
    Column("registers", "registers", "count", rank=2, of=lambda each: each.code.registers),
    Column("spill_bytes", "spills", "bytes", rank=2, of=lambda each: each.code.spill_bytes),
)
"""What few dumps say: Triton calls have blocks, and only PTX or ptxas the rest."""
_GPU_COLUMNS: Final[tuple[Column[GpuKernel], ...]] = (
    Column("kernel", "kernel", "name", of=lambda each: each.instruction.name),
    Column("provider", "provider", of=lambda each: each.provider),
    Column("grid", "grid", rank=5, of=lambda each: each.grid or None),
    Column("details", "configuration", of=lambda each: each.details or None),
    Column("shape", "shape", "shape", rank=3, of=lambda each: str(each.instruction.shape)),
    Column("source", "source", "source", rank=2, from_width=120, of=lambda each: each.source),
)


def gpu_kernels(module: Module, path: str | None = None) -> list[GpuKernel]:
    """The Triton and cuDNN kernels of a module for GPUs, in the order of the text.

    `path` is that of the dump, next to which PTX and the output of ptxas are.
    """
    if target_of(module) != "gpu":
        return []
    found = []
    code = generated_code(path)
    for instruction in module.instructions:
        if instruction.opcode not in (opcodes.FUSION, opcodes.CUSTOM_CALL):
            continue
        backend = backend_of(instruction, "gpu")
        if backend.provider not in ("Triton", "cuDNN") and "triton" not in (
            instruction.string("custom_call_target") or ""
        ):
            continue
        triton = triton_kernel_of(instruction)
        names = (instruction.name, *([triton.name] if triton is not None else []))
        generated = next((code[symbol_of(name)] for name in names if symbol_of(name) in code), GeneratedCode())
        provider, details = backend.provider, backend.details
        if triton is not None:
            provider, details = "Triton", _triton_words(triton)
        found.append(GpuKernel(instruction, provider, details, source_of(module, instruction), triton, generated))
    return found


def _triton_words(kernel: TritonKernel) -> str:
    """The name, the warps, and the stages of a Triton kernel."""
    counts = ((kernel.warps, "warps"), (kernel.stages, "stages"))
    return ", ".join([*filter(None, [kernel.name]), *[format_count(n, noun) for n, noun in counts if n is not None]])


def _block_words(kernel: TritonKernel) -> str:
    """The blocks that a program loads, and those that it stores: `f16[64,128] f16[128,64] → f16[64,64]`."""
    arrow = " → " if kernel.loads and kernel.stores else ""
    return f"{' '.join(kernel.loads)}{arrow}{' '.join(kernel.stores)}"


# --- the report ---


def report_of_kernels(loaded: Loaded, throughput: ChipSpec | None, where: str | None, argument: str) -> Report:
    """All kernels of a module, those that move most bytes first."""
    listed, on_gpu = listed_kernels(loaded, throughput), gpu_kernels(loaded.module, loaded.input.path)
    parts: list[Part] = []
    if listed:
        table = _table_of(listed, throughput)
        parts.append(table if where is None else rows_where(where, table))
    if on_gpu:
        details = [each for each in _GPU_DETAILS if any(each.of(kernel) is not None for kernel in on_gpu if each.of)]
        columns = (*_GPU_COLUMNS[:-2], *details, *_GPU_COLUMNS[-2:])
        table = Table(
            "gpu_kernels",
            columns,
            rows_from(columns, on_gpu),
            title="kernels for GPUs",
            noun="kernels",
            main=not listed,
        )
        parts.append(table if where is None or listed else rows_where(where, table))
    if not parts:
        parts.append(_table_of((), throughput))
    return Report(
        "kernel",
        _answer(listed, on_gpu),
        version=1,
        numbers=_numbers(listed, on_gpu),
        parts=tuple(parts),
        next=_next(listed, argument),
        notes=(*program_notes(loaded), *_notes(listed), *rate_notes(listed, throughput, loaded.module)),
        input=input_facts(loaded),
    )


def _numbers(listed: Sequence[Listed], on_gpu: Sequence[GpuKernel]) -> dict[str, Cell]:
    kernels = [each.kernel for each in listed]
    moved = [kernel.bytes_accessed for kernel in kernels]
    is_known = not any(kernel.error for kernel in kernels)
    return {
        "pallas_kernels": len(kernels),
        "gpu_kernels": len(on_gpu),
        "unread": sum(bool(kernel.error) for kernel in kernels),
        "vmem_bytes": max((kernel.vmem_bytes for kernel in kernels), default=0),
        "bytes": sum(size or 0 for size in moved) if is_known and None not in moved else UNKNOWN,
        "matmul_flops": sum(kernel.flops for kernel in kernels) if is_known else UNKNOWN,
    }


def _answer(listed: Sequence[Listed], on_gpu: Sequence[GpuKernel]) -> str:
    if not listed and not on_gpu:
        return "No kernels: the program has no Pallas, Triton, or cuDNN kernel"
    words = []
    if listed:
        largest = max(listed, key=lambda each: each.kernel.vmem_bytes)
        moved = sum(each.kernel.bytes_accessed or 0 for each in listed)
        limit = f" of {format_bytes(largest.limit_bytes)}" if largest.limit_bytes is not None else ""
        # What the compiler adds to windows and scratch is not in the text: the sum is no upper bound.
        holder = "the largest holds" if len(listed) > 1 else "holds"
        size = f"{holder} {format_bytes(largest.kernel.vmem_bytes)}{limit} of VMEM in windows and scratch"
        words.append(f"{format_count(len(listed), 'Pallas kernels')}: {format_bytes(moved)} moved; {size}")
        if unread := sum(bool(each.kernel.error) for each in listed):
            words.append(f"{unread:,} unreadable")
    if on_gpu:
        providers = " and ".join(sorted({each.provider for each in on_gpu}))
        words.append(format_count(len(on_gpu), f"{providers} kernels"))
    return "; ".join(words)


def rate_notes(listed: Sequence[Listed], throughput: ChipSpec | None, module: Module) -> tuple[Diagnostic, ...]:
    """The rates that times are computed with, if any are shown."""
    if throughput is None or all(each.seconds is None for each in listed):
        return ()
    return time_notes(throughput, module)


def _notes(listed: Sequence[Listed]) -> list[Diagnostic]:
    kernels = [each.kernel for each in listed]
    notes = [Diagnostic("note", f"{each.instruction.name}: {each.error}") for each in kernels if each.error]
    assumed: dict[str, list[str]] = {}
    for kernel in kernels:
        for assumption in kernel.assumptions:
            assumed.setdefault(assumption, []).append(kernel.instruction.name)
    notes += [Diagnostic("note", f"{', '.join(names)}: {assumption}") for assumption, names in assumed.items()]
    return [*notes, *used_notes(kernels)]


def _gpu_notes(kernels: Sequence[GpuKernel]) -> list[Diagnostic]:
    """Which Triton programs cannot be read, and why."""
    named = [(each.instruction.name, each.triton.error) for each in kernels if each.triton is not None]
    return [Diagnostic("note", f"{name}: {error}") for name, error in named if error]


def used_notes(kernels: Sequence[PallasKernel]) -> list[Diagnostic]:
    """A note on what the compiler states of the VMEM of kernels: where it is from, or that the dump lacks it."""
    if any(each.is_used_elsewhere for each in kernels):
        return [Diagnostic("note", f"used VMEM is from {LAST_STAGE}, the dump of the same module")]
    unknown = sum(each.used_vmem_bytes is None and not each.error for each in kernels)
    if not unknown:
        return []
    of_kernels = "" if unknown == len(kernels) else f" of {format_count(unknown, 'kernels')}"
    words = f"the VMEM that the compiler uses{of_kernels} is not in the dump; {LAST_STAGE} and as_text() have it"
    return [Diagnostic("note", words)]


def _next(listed: Sequence[Listed], argument: str) -> tuple[str, ...]:
    if not argument or argument == "-" or not listed:
        return ()
    first = max(listed, key=lambda each: each.kernel.bytes_accessed or 0)
    return (f"hlo kernel {argument} {first.kernel.instruction.name}",)


# --- one row for each of many modules ---

_MODULE_COLUMNS: Final[tuple[Column[ModuleAnswer], ...]] = (
    Column("pallas_kernels", "Pallas", "count", total="sum", of=lambda answer: answer.numbers["pallas_kernels"]),
    Column("gpu_kernels", "GPU", "count", total="sum", of=lambda answer: answer.numbers["gpu_kernels"]),
    Column("unread", "unreadable", "count", total="sum", from_width=120, of=lambda answer: answer.numbers["unread"]),
    Column("vmem_bytes", TpuMemorySpace.VMEM.label, "bytes", of=lambda answer: answer.numbers["vmem_bytes"]),
    Column("bytes", "moved", "bytes", total="sum", of=lambda answer: answer.numbers["bytes"]),
    Column("matmul_flops", "matmul flops", "flops", total="sum", of=lambda answer: answer.numbers["matmul_flops"]),
)


@dataclass(frozen=True, slots=True)
class _ModuleReport:
    """The numbers of one module; called for every module."""

    throughput: ChipSpec | None

    def __call__(self, module: Module, given: Input) -> ModuleAnswer:
        loaded = Loaded(module, given)
        numbers: Mapping[str, Cell] = _numbers(listed_kernels(loaded, self.throughput), gpu_kernels(module, given.path))
        return ModuleAnswer(stage_of(loaded) == "optimized", numbers, ())


def kernel_each(
    many: Many, reading: InputOptions, jobs: int | None, throughput: ChipSpec | None, output: OutputOptions
) -> int:
    """Writes the table and returns the exit code."""
    results = list(map_inputs(many, reading, jobs, _ModuleReport(throughput)))
    answers = [each.answer for each in results if each.answer is not None]
    unfinished = sum(not each.is_program for each in answers)
    kernels = sum(int(str(each.numbers["pallas_kernels"])) + int(str(each.numbers["gpu_kernels"])) for each in answers)
    return finish_each(
        "kernel",
        many,
        reading,
        results,
        Rows((*_MODULE_COLUMNS, replace(UPPER_BOUND, person=unfinished > 0))),
        answer=f"{format_count(len(answers), 'modules')}: {format_count(kernels, 'kernels')}",
        numbers={"kernels": kernels},
        unfinished=unfinished,
        version=1,
        output=output,
    )
