"""What does the compiler itself say about the memory of a module, in the files next to a dump?"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from hlo_cli.inputs.dumps import proto_of
from hlo_cli.inputs.files import read_file
from hlo_cli.inputs.input import Input, read_plain, read_sibling
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.live_ranges import Release
    from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, ViewerPeak
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.ir.buffer_assignment import BufferAssignment, DumpedLiveRanges
    from hlo_cli.ir.module import Module


_ASSIGNMENT: Final = "buffer-assignment"


def compiler_assignment(loaded: Loaded) -> BufferAssignment | None:
    """The buffer assignment that XLA dumped next to the module or within the same proto, or None."""
    attach_compiler_assignment(loaded.module, loaded.input)
    return loaded.module.buffer_assignment


def attach_compiler_assignment(module: Module, dump: Input) -> None:
    """Attaches the buffer assignment next to its dump to a module, read on demand, unless it has one."""
    path = dump.siblings.get(_ASSIGNMENT)
    if module.read_buffer_assignment is None and path is not None:
        module.read_buffer_assignment = partial(_read_assignment, path)


def estimate_and_assignment(
    loaded: Loaded, *, chip: str | None = None, release: Release = "0.10.2"
) -> tuple[MemoryAnalysis, BufferAssignment | None]:
    """The memory usage estimated from the text, and the compiler's buffer assignment if available.

    The assignment determines the generation of a TPU, else the chip does.
    """
    from hlo_cli.analysis.hardware.chips import find_chip  # imports many modules that a linter does not need
    from hlo_cli.analysis.memory.memory_analysis import assigned_generation, memory_analysis

    assignment = compiler_assignment(loaded)
    generation = assigned_generation(assignment) if assignment is not None else None
    # The compiler's own file knows better than --chip, which may name a chip to compare with.
    if chip is not None and generation is None:
        generation = find_chip(chip).generation
    return memory_analysis(loaded.module, generation=generation, release=release), assignment


def compiler_memory(loaded: Loaded, *, chip: str | None = None, release: Release = "0.10.2") -> MemoryAnalysis:
    """The memory usage by the compiler's buffer assignment if available, else as estimated."""
    from hlo_cli.analysis.memory.memory_analysis import compiled_memory

    estimate, assignment = estimate_and_assignment(loaded, chip=chip, release=release)
    return estimate if assignment is None else compiled_memory(estimate, assignment)


def compiler_viewer_peaks(loaded: Loaded) -> tuple[ViewerPeak, ...]:
    """The peaks of XProf's memory viewer, from the proto of the dump or next to it; empty without a proto."""
    dump = loaded.input
    if dump.proto is not None:
        assignment = loaded.module.buffer_assignment
    else:
        assignment = _assignment_in_proto(dump.path) if dump.path is not None and dump.dump is not None else None
    if assignment is None:
        return ()
    from hlo_cli.analysis.memory.memory_analysis import viewer_peaks

    return viewer_peaks(assignment)


def compiler_live_ranges(loaded: Loaded) -> DumpedLiveRanges | None:
    """The live ranges that XLA dumped next to the module, or None."""
    source = read_sibling(loaded.input, "live-range")
    if source is None:
        return None
    from hlo_cli.syntax.compiler_files.memory_files import parse_live_ranges

    return parse_live_ranges(source, loaded.module)


def _assignment_in_proto(path: str) -> BufferAssignment | None:
    """The buffer assignment in the proto next to a text; None without one, or if it cannot be read."""
    with suppress(HloError):
        proto = proto_of(path)
        data = read_file(proto) if proto is not None else ""
        if isinstance(data, bytes):
            from hlo_cli.syntax.proto.read_buffers import assignment_in

            return assignment_in(data)
    return None


def _read_assignment(path: str, module: Module) -> BufferAssignment:
    from hlo_cli.syntax.compiler_files.memory_files import parse_buffer_assignment

    return parse_buffer_assignment(read_plain(path), module)
