"""What the compiler itself said of a dump's memory, in the files beside it."""

from __future__ import annotations

from hlo_cli.analysis.compiled_memory import assigned_generation, compiled_memory
from hlo_cli.analysis.memory import Memory
from hlo_cli.analysis.memory_of import memory_of
from hlo_cli.commands.loading import Loaded
from hlo_cli.inputs.siblings import read_sibling
from hlo_cli.ir.buffers import BufferAssignment
from hlo_cli.ir.live_ranges import DumpedLiveRanges


def assignment_beside(loaded: Loaded) -> BufferAssignment | None:
    """The buffer assignment that XLA dumped beside the module or within the same proto, or None."""
    if loaded.module.buffer_assignment is not None:
        return loaded.module.buffer_assignment
    source = read_sibling(loaded.input, "buffer-assignment")
    if source is None:
        return None
    from hlo_cli.syntax.siblings.buffer_assignment import parse_buffer_assignment

    return parse_buffer_assignment(source, loaded.module)


def memory_beside(loaded: Loaded) -> Memory:
    """What fills memory: as the compiler itself says where its buffer assignment is at hand, else as computed."""
    assignment = assignment_beside(loaded)
    if assignment is None:
        return memory_of(loaded.module)
    return compiled_memory(memory_of(loaded.module, generation=assigned_generation(assignment)), assignment)


def live_ranges_beside(loaded: Loaded) -> DumpedLiveRanges | None:
    """The live ranges that XLA dumped beside the module, or None."""
    source = read_sibling(loaded.input, "live-range")
    if source is None:
        return None
    from hlo_cli.syntax.siblings.live_ranges import parse_live_ranges

    return parse_live_ranges(source, loaded.module)
