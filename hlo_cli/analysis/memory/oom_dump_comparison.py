"""What a dump of the program adds to an out-of-memory message, and where the two differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.memory.memory_analysis import LiveValue, MemoryAnalysis, MemorySpaceUsage, allocated_bytes
from hlo_cli.analysis.memory.oom_advice import SIZE_TOLERANCE, is_shown_as
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.out_of_memory import MemoryPart, OomAllocation, OomKind, OutOfMemory
from hlo_cli.ir.shape import ArrayShape, Shape, subshape

# --- candidate instructions ---


def candidate_instructions(allocation: OomAllocation, module: Module) -> tuple[Instruction, ...]:
    """Returns the instruction that the message names, else all with the same opcode, array shape, and op_name.

    GPU messages contain only opcodes. The op_name is ignored if no candidate matches, because the message may come
    from another compilation than the dump.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[8]{0} parameter(0) ROOT r = f32[8]{0} negate(p) }")
    >>> allocation = OomAllocation(32, parse_shape("f32[8]"), opcode="negate")
    >>> [instruction.name for instruction in candidate_instructions(allocation, module)]
    ['r']
    """
    if allocation.place is not None and allocation.place.instruction is not None:
        # A name is unique in its module: nothing else is needed.
        return (allocation.place.instruction,)
    wanted = _arrays(allocation.shape)
    if not wanted or not allocation.opcode:
        return ()
    listed: Iterable[Instruction] = module.entry.parameters if allocation.is_entry_parameter else module.instructions
    alike = [each for each in listed if each.opcode == allocation.opcode and not wanted.isdisjoint(_arrays(each.shape))]
    if allocation.op_name:
        # Names of operations change with every edit of the source.
        alike = [each for each in alike if each.metadata.op_name == allocation.op_name] or alike
    return tuple(alike)


def _arrays(shape: Shape | None) -> set[tuple[str, tuple[int, ...]]]:
    """Returns types and dimensions of the arrays in a shape, without layouts; messages and dumps may differ there."""
    leaves = () if shape is None else shape.leaves
    return {(leaf.element_type.name, leaf.dimensions) for _, leaf in leaves if isinstance(leaf, ArrayShape)}


# --- values in a range ---


_Key = tuple[str, tuple[int, ...]] | str
"""The type and the dimensions of an array, or the text of another shape without layout."""


class RangeValues:
    """Finds the values of a memory space of a dump by shape and size; those at the offset of the range first."""

    def __init__(self, space: MemorySpaceUsage | None) -> None:
        self._values: dict[_Key, list[LiveValue]] = {}
        for value in space.values if space is not None else ():
            self._values.setdefault(_key(value.shape), []).append(value)

    def largest_in(self, allocation: OomAllocation) -> tuple[tuple[LiveValue, ...], bool]:
        """The values that may determine the size of a range, and whether they are at its offset in the dump.

        Those of the shape that the range is shown with come first.
        """
        place, size = allocation.range, allocation.size_bytes
        if place is None or size is None:
            return (), False
        keys = dict.fromkeys(_key(shape) for _, shape in place.shapes)
        fitting = [
            value for key in keys for value in self._values.get(key, ()) if is_shown_as(value.padded_bytes, size)
        ]
        # A value at the offset is in the range; equal shapes elsewhere are only possible.
        at_offset = [value for value in fitting if value.offset == place.offset_bytes]
        shown = _key(allocation.shape) if allocation.shape is not None else ""
        return tuple(sorted(at_offset or fitting, key=lambda value: (_key(value.shape) != shown, value.start))), bool(
            at_offset
        )


def _key(shape: Shape) -> _Key:
    if isinstance(shape, ArrayShape):
        return shape.element_type.name, shape.dimensions
    return shape.to_string(layout=False)


# --- message and dump ---
# An out-of-memory message next to a dump of its program: what the dump has for each allocation, and what differs.


_PARTS_OF_CODE: Final = ("overlays",)
"""Parts of a program that hold no values."""
_SCOPED: Final = "scoped"
# totals add rounded parts, and messages count code that dumps lack; chosen, not measured
_TOTAL_TOLERANCE: Final = 0.05
_SPACES: Final[dict[OomKind, str]] = {
    "tpu-vmem": TpuMemorySpace.VMEM.label,
    "tpu-vmem-scoped": TpuMemorySpace.VMEM.label,
    "tpu-vmem-stack": TpuMemorySpace.VMEM.label,
    "tpu-smem": TpuMemorySpace.SMEM.label,
    "tpu-cmem": TpuMemorySpace.CMEM.label,
}
_PROGRAM_TOTALS: Final[frozenset[OomKind]] = frozenset(("tpu-hbm", "gpu-buffer-assignment"))
"""Kinds whose message has the size of the whole program."""


@dataclass(frozen=True, slots=True)
class MatchedAllocation:
    """An allocation, the instructions of the dump that it may be, and the bytes of its value there, if known.

    `is_certain` if all candidates are in the allocation: their values are at its offset.
    """

    allocation: OomAllocation
    candidates: tuple[Instruction, ...]
    dump_bytes: int | None
    is_certain: bool = False

    @property
    def differs(self) -> bool:
        """Whether the dump has the instruction with another size."""
        size, other = self.allocation.size_bytes, self.dump_bytes
        return bool(size) and other is not None and abs(other - (size or 0)) > SIZE_TOLERANCE * max(size or 0, other)


@dataclass(frozen=True, slots=True)
class DumpComparison:
    """What a dump has for a message: its memory space, and its allocations; the two totals if both are known.

    `other_module` is the name of the dump's module if the message has another one.
    """

    space: MemorySpaceUsage | None
    matches: tuple[MatchedAllocation, ...]
    message_bytes: int | None
    dump_bytes: int | None
    other_module: str

    @property
    def missing(self) -> tuple[MatchedAllocation, ...]:
        """The allocations with an instruction or opcode that the dump does not have."""
        return tuple(each for each in self.matches if not each.candidates and _is_identified(each.allocation))

    @property
    def totals_differ(self) -> bool:
        """Whether message and dump are about programs of different size."""
        ours, dumped = self.message_bytes, self.dump_bytes
        return ours is not None and dumped is not None and abs(ours - dumped) > _TOTAL_TOLERANCE * max(ours, dumped)


def compare(message: OutOfMemory, memory: MemoryAnalysis, *, is_optimized: bool) -> DumpComparison:
    """Compares a message whose instructions were resolved in the module of a dump with the dump.

    Totals and sizes of programs that are not optimized yet are not compared.
    """
    name = _SPACES.get(message.kind, "")
    space = next((each for each in memory.spaces if each.name == name), None) if name else memory.space(0)
    ranges = RangeValues(space)
    module, named = memory.module.name, message.module or message.executable
    ours, dumped = _totals(message, memory, space) if is_optimized and space is not None else (None, None)
    return DumpComparison(
        space if message.space != "host" else None,
        tuple(
            _matched(each, memory, is_optimized=is_optimized) if each.range is None else _matched_range(each, ranges)
            for each in message.culprits
        ),
        ours,
        dumped,
        module if named and not _is_same(named, module) else "",
    )


def _totals(message: OutOfMemory, memory: MemoryAnalysis, space: MemorySpaceUsage) -> tuple[int | None, int | None]:
    """The size of the program in the message and in the dump.

    Where a message has the program, its arguments, and its output, the total is their sum less what is shared; if it
    counts no arguments and no output, temporary values are compared.
    """
    if message.kind not in _PROGRAM_TOTALS or message.failed is not None:
        return None, None
    total = allocated_bytes(memory, space) or space.peak_bytes
    if message.stats is not None:
        return message.stats.total_bytes, total
    if not message.usage:
        return message.used_bytes, total
    parts = {part.name: part.size_bytes for part in message.usage}
    program, arguments, output = parts.get("program"), parts.get("arguments"), message.output_bytes
    if program is None or arguments is None or output is None:
        return None, None
    # Overlays are code that is loaded when needed.
    program -= sum(part.size_bytes or 0 for part in message.program if part.name in _PARTS_OF_CODE)
    if not arguments and not output:
        return program, space.totals.temporary_bytes + space.totals.constant_bytes
    return program + arguments + output - (message.output_shared_bytes or 0), total


def _matched(allocation: OomAllocation, memory: MemoryAnalysis, *, is_optimized: bool) -> MatchedAllocation:
    candidates = candidate_instructions(allocation, memory.module)
    sizes = {_bytes_of(allocation, each, memory) for each in candidates} if is_optimized else set()
    # Candidates of different sizes would make the difference a guess.
    return MatchedAllocation(allocation, candidates, next(iter(sizes)) if len(sizes) == 1 else None)


def _matched_range(allocation: OomAllocation, ranges: RangeValues) -> MatchedAllocation:
    values, is_certain = ranges.largest_in(allocation)
    candidates = tuple(dict.fromkeys(value.instruction for value in values))
    return MatchedAllocation(allocation, candidates, allocation.size_bytes if values else None, is_certain)


def _bytes_of(allocation: OomAllocation, instruction: Instruction, memory: MemoryAnalysis) -> int | None:
    """The bytes of the value that an allocation names; of a tuple without an index, the array of the same type."""
    index = allocation.place.shape_index if allocation.place is not None else ()
    shape = subshape(instruction.shape, index)
    if allocation.kind == _SCOPED or (allocation.tag and not allocation.tag.startswith("output of")):
        return None
    values = [value for value in memory.values_of(instruction) if value.index[: len(index)] == index]
    exact = next((value for value in values if value.index == index and isinstance(shape, ArrayShape)), None)
    if exact is not None:
        return exact.padded_bytes
    return _bytes_of_alike(allocation.shape, values)


def _bytes_of_alike(shape: Shape | None, values: list[LiveValue]) -> int | None:
    if not isinstance(shape, ArrayShape):
        return None
    wanted = (shape.element_type, shape.dimensions)
    for value in values:
        if isinstance(value.shape, ArrayShape) and (value.shape.element_type, value.shape.dimensions) == wanted:
            return value.padded_bytes
    return None


def _is_identified(allocation: OomAllocation) -> bool:
    return allocation.place is not None or bool(allocation.opcode and isinstance(allocation.shape, ArrayShape))


def _is_same(named: str, module: str) -> bool:
    """Whether a name in a message is that of a module; the two may differ in a number that the dump appends."""
    return named == module or module.startswith(f"{named}.") or named.startswith(f"{module}.")


def differing_matches(comparison: DumpComparison) -> Iterator[MatchedAllocation]:
    """The allocations whose size in the dump is another one."""
    yield from (match for match in comparison.matches if match.differs)


# --- messages completed from a dump ---
# For messages without allocations.


def with_allocations_of(message: OutOfMemory, space: MemorySpaceUsage | None) -> OutOfMemory:
    """The message with the values at the peak of a memory space and its totals, if it has no allocations itself.

    What it says of the program's parts is kept.
    """
    if message.culprits or space is None or not space.timeline:
        return message
    totals = space.totals
    usage = message.usage or (MemoryPart("arguments", totals.argument_bytes),)
    program = message.program or (MemoryPart("HLO temp", totals.temporary_bytes),)
    output, shared = message.output_bytes, message.output_shared_bytes
    return replace(
        message,
        allocations=tuple(_allocation(value) for value in space.live_at(space.peak_step)),
        usage=usage,
        program=program,
        output_bytes=totals.output_bytes if output is None else output,
        output_shared_bytes=totals.aliased_bytes if shared is None else shared,
    )


def _allocation(value: LiveValue) -> OomAllocation:
    instruction = value.instruction
    return OomAllocation(
        value.padded_bytes,
        value.shape,
        value.logical_bytes,
        label=str(value),
        opcode=instruction.opcode,
        op_name=instruction.metadata.op_name,
    )
