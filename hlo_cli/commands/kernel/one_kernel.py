"""What is in one Pallas kernel: its grid, its windows, the memory that it holds, its work, and its body?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.kernels.fitting import BlockChoice, block_choices
from hlo_cli.analysis.kernels.index_maps import index_letters
from hlo_cli.analysis.kernels.kernel_body import body_of, kind_of
from hlo_cli.analysis.kernels.kernel_memory import limits_of
from hlo_cli.analysis.kernels.pallas_kernels import KernelScratch, KernelWindow, PallasKernel
from hlo_cli.commands.kernel.kernel_list import Listed, gpu_kernels, grid_text, listed_kernels, rate_notes, used_notes
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.mlir.mlir_operations import Operation, generic_lines
from hlo_cli.mlir.mlir_values import ArrayType, files_of
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import count, format_bytes, format_count, format_flops, format_seconds
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Fact, Facts, Table, rows_from, unknown_if_none
from hlo_cli.report.text import Line, Run
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic, HloError


def find_kernel(loaded: Loaded, name: str, throughput: ChipSpec | None = None) -> Listed:
    """The Pallas kernel that an instruction calls, or whose own name it is; HloError if there is none, or no body."""
    wanted = name.removeprefix("%")
    listed = listed_kernels(loaded, throughput)
    for each in listed:
        if wanted in (each.kernel.instruction.name, each.kernel.name):
            if each.kernel.error:
                raise HloError(f"the kernel {wanted} cannot be read: {each.kernel.error}")
            return each
    if any(each.instruction.name == wanted for each in gpu_kernels(loaded.module)):
        hint = "run `hlo kernel DUMP` to list its configuration"
        raise HloError(f"{wanted} is a kernel for GPUs, whose body is not shown", hint=hint)
    names = [each.kernel.instruction.name for each in listed]
    if not names:
        raise HloError(f"no kernel '{wanted}': the module has no Pallas kernel")
    raise unknown_choice_error("kernel", wanted, names)


def body_lines(loaded: Loaded, name: str) -> Iterator[str]:
    """The MLIR of a kernel, with the place of each operation."""
    body = body_of(find_kernel(loaded, name).kernel.instruction)
    for line in generic_lines(body.program.root, locations=True):
        yield f"{line}\n"


def report_of_kernel(loaded: Loaded, name: str, throughput: ChipSpec | None, argument: str) -> Report:
    """One kernel: windows, memory, work, and operations."""
    listed = find_kernel(loaded, name, throughput)
    kernel = listed.kernel
    parts: list[Part] = [_windows_table(kernel)]
    if kernel.scratch or kernel.prefetched:
        parts.append(_scratch_table(kernel))
    if (choices := _choices_table(listed)) is not None:
        parts.append(choices)
    if (figure := _blocks_figure(kernel)) is not None:
        parts.append(figure)
    parts.append(Facts("kernel", tuple(_facts(listed))))
    parts.append(_operations_table(kernel))
    return Report(
        "kernel",
        _answer(listed),
        version=1,
        numbers=_numbers(listed),
        parts=tuple(parts),
        next=() if not argument or argument == "-" else (f"hlo kernel {argument} {kernel.instruction.name} --body",),
        notes=(
            *program_notes(loaded),
            *[Diagnostic("note", words) for words in kernel.assumptions],
            *used_notes([kernel]),
            *rate_notes((listed,), throughput, loaded.module),
        ),
        input=input_facts(loaded),
    )


def _answer(listed: Listed) -> str:
    kernel = listed.kernel
    grid = f"grid {grid_text(kernel.grid)}" if kernel.grid else "no grid"
    moved = kernel.bytes_accessed
    bytes_moved = f", {format_bytes(moved)} moved" if moved is not None else ""
    limit = f" of {format_bytes(listed.limit_bytes)}" if listed.limit_bytes is not None else ""
    held = f"{format_bytes(kernel.vmem_bytes)}{limit} of VMEM"
    if listed.limit_bytes is not None and max(kernel.vmem_bytes, kernel.used_vmem_bytes or 0) > listed.limit_bytes:
        held = f"does not fit: {held}"
    return f"{kernel.name or kernel.instruction.name}: {grid}, {held}{bytes_moved}"


def _numbers(listed: Listed) -> dict[str, Cell]:
    kernel = listed.kernel
    estimate = kernel.estimate
    return {
        "kernel": kernel.instruction.name,
        "grid": tuple(UNKNOWN if size is None else size for size in kernel.grid),
        "semantics": kernel.semantics,
        "vmem_bytes": kernel.vmem_bytes,
        "smem_bytes": kernel.smem_bytes,
        "used_vmem_bytes": unknown_if_none(kernel.used_vmem_bytes),
        "rest_bytes": unknown_if_none(kernel.rest_bytes),
        "limit_bytes": unknown_if_none(listed.limit_bytes),
        "read_bytes": unknown_if_none(kernel.read_bytes),
        "written_bytes": unknown_if_none(kernel.written_bytes),
        "matmul_flops": kernel.flops,
        "elementwise_flops": kernel.work.elementwise,
        "transcendentals": kernel.work.transcendentals,
        "matmuls": kernel.work.matmuls,
        "intensity": kernel.intensity,
        "declared_flops": None if estimate is None else estimate.flops,
        "declared_bytes": None if estimate is None else estimate.bytes_accessed,
        "bound_seconds": listed.seconds,
        "bound": listed.bound,
        "assumptions": kernel.assumptions,
    }


# --- windows ---


def _sizes(sizes: Sequence[int]) -> str:
    return f"[{','.join(map(str, sizes))}]"


_WINDOW_COLUMNS: Final[tuple[Column[KernelWindow], ...]] = (
    Column("window", "window", of=lambda window: window.label),
    Column("ref", "ref", rank=2, of=lambda window: window.name or None),
    Column("shape", "array", "shape", rank=4, of=lambda window: str(window.shape)),
    Column("block", "block", of=lambda window: _sizes(window.block) if window.index_map else "-"),
    Column("index_map", "index", of=lambda window: f"({', '.join(window.index_map)})" if window.index_map else "-"),
    Column("space", "space", of=lambda window: window.space.upper()),
    Column("is_in_vmem", "array in VMEM", "flag", person=False, of=lambda window: window.is_in_vmem),
    Column("buffers", "buffers", "count", rank=5, of=lambda window: window.buffers),
    Column("reserved_bytes", "held", "bytes", total="sum", of=lambda window: window.bytes),
    Column("blocks", "blocks", "count", of=lambda window: unknown_if_none(window.blocks) if window.index_map else None),
    Column("moved_bytes", "moved", "bytes", total="sum",
           of=lambda window: unknown_if_none(window.moved_bytes) if window.index_map else None),
    Column("stays", "stays", "flag", person=False, of=lambda window: window.stays),
    Column("is_bound", "upper bound", "flag", person=False, of=lambda window: window.is_bound),
)  # fmt: skip


def _windows_table(kernel: PallasKernel) -> Table:
    return Table(
        "windows", _WINDOW_COLUMNS, rows_from(_WINDOW_COLUMNS, kernel.windows), title="windows", noun="windows"
    )


_SCRATCH_COLUMNS: Final[tuple[Column[tuple[str, KernelScratch]], ...]] = (
    Column("kind", "kind", of=lambda each: each[0]),
    Column("ref", "ref", rank=2, of=lambda each: each[1].name or None),
    Column("type", "type", of=lambda each: each[1].type),
    Column("space", "space", of=lambda each: each[1].space.upper().replace("_MEM", "")),
    Column("bytes", "held", "bytes", of=lambda each: 0 if each[1].is_dropped else each[1].bytes),
    Column("declared_bytes", "declared", "bytes", person=False, of=lambda each: each[1].bytes),
    Column("is_dropped", "not kept", "flag", of=lambda each: each[1].is_dropped),
)


def _scratch_table(kernel: PallasKernel) -> Table:
    rows = [
        *[("prefetched", each) for each in kernel.prefetched],
        *[("allocated" if each.is_scoped else "scratch", each) for each in kernel.scratch],
    ]
    return Table(
        "scratch",
        _SCRATCH_COLUMNS,
        rows_from(_SCRATCH_COLUMNS, rows),
        title="scratch and prefetched scalars",
        noun="arrays",
        main=False,
    )


# --- other block shapes ---

_MOST_CHOICES: Final = 5  # the next ones move more
_LEAST_SAVED: Final = 256 * 1024  # bytes: 0.3 us of v5e's memory, 0.16 of v6e's; chosen, as `min_kernel_bytes` of lint
_WORTH: Final = 0.8  # of the bytes of a kernel that fits: less is hard to see in its time; chosen, not measured


def _saves_little(choice: BlockChoice, moved: int) -> bool:
    """Whether other block sizes move about as many bytes, or fewer by what takes no time to speak of."""
    return choice.moved_bytes > _WORTH * moved or moved - choice.moved_bytes < _LEAST_SAVED


def _choices_table(listed: Listed) -> Table | None:
    """Block sizes that fit in VMEM, if the kernel does not, or if they move much less; None if there is nothing to say.

    What the compiler uses beyond windows and scratch is taken to stay as it is.
    """
    kernel, limit = listed.kernel, listed.limit_bytes
    moved = kernel.bytes_accessed
    if limit is None or moved is None:
        return None
    rest = max(kernel.rest_bytes or 0, 0)
    choices = block_choices(kernel, limit_bytes=limit - rest, generation=listed.chip)
    fits = kernel.vmem_bytes + rest <= limit
    if not choices or (fits and (listed.bound == "compute" or _saves_little(choices[0], moved))):
        return None
    letters = " × ".join(choices[0].sizes)
    columns: tuple[Column[BlockChoice], ...] = (
        Column("sizes", letters, of=lambda each: " × ".join(map(str, each.sizes.values()))),
        Column("block_shapes", "blocks", rank=3, of=lambda each: ", ".join(map(_sizes, each.blocks))),
        Column("steps", "steps", "count", of=lambda each: each.steps),
        Column("reserved_bytes", "held", "bytes", of=lambda each: each.vmem_bytes),
        Column("moved_bytes", "moved", "bytes", of=lambda each: each.moved_bytes),
        Column("moved_share", "of now", "percent", of=lambda each: each.moved_bytes / moved if moved else None),
    )
    verdict = "block sizes that fit and move less" if fits else "does not fit; block sizes that do"
    shown = choices[:_MOST_CHOICES]
    return Table("block_choices", columns, rows_from(columns, shown), title=verdict, noun="block sizes", main=False)


# --- memory and work ---


def _facts(listed: Listed) -> Iterator[Fact]:
    for label, words in _fact_words(listed):
        yield Fact(label, remark=words, is_whole=True)


def _fact_words(listed: Listed) -> Iterator[tuple[str, str]]:
    kernel = listed.kernel
    if kernel.grid:
        yield "grid", _grid_words(kernel)
    scratch = sum(part.bytes for part in kernel.scratch if part.space == "vmem" and not part.is_dropped)
    windows = format_bytes(kernel.vmem_bytes - scratch)
    yield (
        TpuMemorySpace.VMEM.label,
        f"{format_bytes(kernel.vmem_bytes)}: {windows} of windows, {format_bytes(scratch)} of scratch",
    )
    yield "compiler", _compiler_words(listed)
    if listed.limit_bytes is not None:
        left = listed.limit_bytes - kernel.vmem_bytes
        over = f"{format_bytes(left)} left" if left >= 0 else f"{format_bytes(-left)} too much"
        yield "limit", f"{format_bytes(listed.limit_bytes)}, {over}"
    if kernel.smem_bytes:
        yield TpuMemorySpace.SMEM.label, format_bytes(kernel.smem_bytes)
    yield "work", _work_words(kernel)
    read, written = kernel.read_bytes, kernel.written_bytes
    if read is not None and written is not None:
        intensity = f", {count(kernel.intensity)} flops per byte" if kernel.intensity else ""
        inside = [window.label for window in kernel.windows if window.is_in_vmem]
        inside_words = f"; already in VMEM: {', '.join(inside)}" if inside else ""
        yield "bytes", f"{format_bytes(read)} read, {format_bytes(written)} written{intensity}{inside_words}"
    for copy in kernel.work.transfers:
        ends = f"{copy.source.upper()} → {copy.target.upper()}"
        yield "DMA", f"{format_count(copy.count, 'copies')} of {format_bytes(copy.bytes)}, {ends}"
    if (estimate := kernel.estimate) is not None:
        declared = f"{format_flops(estimate.flops)}, {format_bytes(estimate.bytes_accessed)}"
        yield "declared", f"{declared} (estimate of the author, which nothing checks)"
    compute, memory = listed.compute_seconds, listed.memory_seconds
    if listed.seconds is not None and listed.throughput is not None and compute is not None and memory is not None:
        times = f"{format_seconds(compute)} of compute, {format_seconds(memory)} of memory"
        yield "time", f"at least {format_seconds(listed.seconds)} on {listed.throughput.chip}: {times}"


def _grid_words(kernel: PallasKernel) -> str:
    kinds = kernel.semantics or ("arbitrary",) * len(kernel.grid)  # the default of Mosaic
    letters = index_letters(len(kernel.grid))
    words = [
        f"{letter} {'?' if size is None else size} ({kind})"
        for letter, size, kind in zip(letters, kernel.grid, kinds, strict=False)
    ]
    steps = f" = {format_count(kernel.steps, 'steps')}" if kernel.steps is not None else ""
    return ", ".join(words) + steps


def _compiler_words(listed: Listed) -> str:
    kernel, rest = listed.kernel, listed.kernel.rest_bytes
    if kernel.used_vmem_bytes is None or rest is None:
        return "its own figure is not in the dump"
    used = f"uses {format_bytes(kernel.used_vmem_bytes)}"
    if rest == 0:
        return f"{used}, as computed"
    if rest < 0:
        return f"{used}, {format_bytes(-rest)} less: it drops what is not used"
    if listed.chip is not None and rest == limits_of(listed.chip).internal_scratch_bytes:
        return f"{used}, {format_bytes(rest)} more: scratch of its own"
    return f"{used}, {format_bytes(rest)} more: scratch of its own and spilled registers"


def _work_words(kernel: PallasKernel) -> str:
    work = kernel.work
    words = [f"{format_flops(flops)} of {kind} matmuls" for kind, flops in work.flops.items()]
    words += [f"{format_flops(work.elementwise)} elementwise"] if work.elementwise else []
    words += [format_count(work.transcendentals, "transcendentals")] if work.transcendentals else []
    return ", ".join(words) or "no arithmetic on vectors"


# --- the blocks of each window ---

_MOST_BLOCKS: Final = 8  # rows and columns: a picture of more is no easier to read
_MOST_WINDOWS: Final = 4  # what fits next to each other in 80 columns


def _blocks_figure(kernel: PallasKernel) -> Figure | None:
    """Each array as a grid of its blocks, in its two most minor dimensions; the first step has the filled one."""
    windows = [each for each in kernel.windows if len(each.block) >= 2 and each.index_map and all(each.block)]
    if not windows or not kernel.grid:
        return None

    def draw(room: int) -> tuple[Line, ...]:
        columns = [_drawn(window) for window in windows[:_MOST_WINDOWS]]
        widths = [max(map(len, lines)) for lines in columns]
        height = max(map(len, columns))
        drawn = []
        for row in range(height):
            cells = [lines[row] if row < len(lines) else "" for lines in columns]
            text = "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            drawn.append((Run(text.rstrip()[:room]),))
        return tuple(drawn)

    return Figure("blocks", draw, title="blocks of the two most minor dimensions, █ at the first step")


def _drawn(window: KernelWindow) -> list[str]:
    counts = [-(-size // part) for size, part in zip(window.shape.sizes, window.block, strict=True)][-2:]
    first = [part if part.isdigit() else "0" for part in window.index_map[-2:]]
    rows, columns = (min(count, _MOST_BLOCKS) for count in counts)
    more = " …" if counts[1] > columns else ""
    lines = [f"{window.label} {counts[0]}×{counts[1]}", f"({', '.join(window.index_map)})"]
    for row in range(rows):
        marks = ["█" if [str(row), str(column)] == first else "·" for column in range(columns)]
        lines.append(" ".join(marks) + more)
    return [*lines, "…"] if counts[0] > rows else lines


# --- the body ---


@dataclass(frozen=True, slots=True)
class _BodyLine:
    """An operation of the body, and how deep it is in conditions and loops."""

    operation: Operation
    depth: int


_ROWS_OF_BODY: Final = 12  # on a screen: the rest is counted, and `--body` prints all

_BODY_COLUMNS: Final[tuple[Column[_BodyLine], ...]] = (
    Column("operation", "operation", of=lambda line: "  " * line.depth + kind_of(line.operation)),
    Column("type", "result", of=lambda line: _types(line.operation)),
    Column("source", "source", "source", of=lambda line: _source(line.operation)),
)
_PLAIN: Final = ("arith.constant", "scf.yield", "func.return")  # a body has many, which say nothing alone


def _types(operation: Operation) -> str | None:
    if not operation.results:
        return None
    kind = operation.results[0].type
    return (
        str(kind) if not isinstance(kind, ArrayType) or kind.kind != "memref" else f"memref {_sizes(kind.shape or ())}"
    )


def _source(operation: Operation) -> str | None:
    place = next(files_of(operation.location), None)
    return None if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"


def _body(operation: Operation, depth: int) -> Iterator[_BodyLine]:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                if kind_of(inner) not in _PLAIN:
                    yield _BodyLine(inner, depth)
                yield from _body(inner, depth + 1)


def _operations_table(kernel: PallasKernel) -> Table:
    lines = [] if kernel.body is None else list(_body(kernel.body.function, 0))
    return Table(
        "operations",
        _BODY_COLUMNS,
        rows_from(_BODY_COLUMNS, lines),
        title="body, without constants",
        noun="operations",
        limit=_ROWS_OF_BODY,
        main=False,
    )
