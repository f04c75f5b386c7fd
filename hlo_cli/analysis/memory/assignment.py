"""Buffer assignment: which buffers get an allocation of their own and which share one.

Mirrors xla/service/buffer_assignment.cc. Buffers without an allocation of their own go to the heap of their memory
space. At the end, all temporary allocations of a memory space are combined into one.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.dataflow.flat_schedule import Positions
from hlo_cli.analysis.hardware.chips import tpu_generation
from hlo_cli.analysis.layout.padding import prefetched_space
from hlo_cli.analysis.memory.allocation_builder import AllocationBuilder, AssignedAllocation, Role, combine_temporaries
from hlo_cli.analysis.memory.buffers import Buffer, assignment_order, spaces_with_loose_ties, time_order
from hlo_cli.analysis.memory.heaps import heaps, preset
from hlo_cli.analysis.memory.interference import Interference, Release
from hlo_cli.analysis.memory.live_ranges import LiveRanges
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.memory.reuse import Reuse
from hlo_cli.analysis.memory.sparse_core import SparseCore
from hlo_cli.analysis.memory.strategies import DEFAULT_STRATEGY, TPU_STRATEGIES, Strategy, StrategyName
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class Assignment:
    """The allocations of a module, temporary ones last, and the strategy that filled the heaps.

    `limit` is the largest total of main-memory allocations, in bytes, that a strategy may reach; None if unknown.
    """

    allocations: tuple[AssignedAllocation, ...]
    strategy: StrategyName
    limit: int | None


def assign(
    facts: OrderIndependentFacts, ranges: LiveRanges, release: Release = "0.10.2", *, with_offsets: bool = True
) -> Assignment:
    """Assigns every buffer of a module to an allocation.

    With `with_offsets=False`, heaps have no size and no offsets; only the sharing of buffers is computed. `release`
    has no effect on TPU, whose compilers are newer than jaxlib 0.10.2.
    """
    is_tpu = facts.target == "tpu"
    sharing = OperandSharing(facts.dataflow, facts.in_place, facts.target)
    rules: Release = "2026-08" if is_tpu else release
    interference = Interference(facts.dataflow, facts.aliases, ranges, sharing, rules)
    limit = tpu_generation(facts.generation).heap_limit if is_tpu and facts.is_generation_known else None
    strategy, *others = TPU_STRATEGIES if is_tpu else (DEFAULT_STRATEGY,)
    builders = combine_temporaries(_allocate(facts, interference, strategy, with_offsets=with_offsets), facts.target)
    while others and limit is not None and with_offsets and sum(d.size for d in builders if _is_limited(d)) > limit:
        strategy = others.pop(0)
        builders = combine_temporaries(
            _allocate(facts, interference, strategy, with_offsets=with_offsets), facts.target
        )
    return Assignment(tuple(builder.build() for builder in builders if builder.buffers), strategy.name, limit)


def _is_limited(builder: AllocationBuilder) -> bool:
    """Returns whether an allocation counts toward the limit of main memory."""
    return not builder.space and builder.role != "thread-local"


def _allocate(
    facts: OrderIndependentFacts, interference: Interference, strategy: Strategy, *, with_offsets: bool
) -> list[AllocationBuilder]:
    """Returns the allocations under one strategy, before temporary ones are combined."""
    module, buffers, target = facts.module, facts.buffers, facts.target
    order = assignment_order(facts.dataflow, module, buffers)
    places = [number for number in order if not buffers[number].is_local]
    if strategy.by_time:
        places = time_order(places, buffers, interference)
    builders: list[AllocationBuilder] = []
    prefetched = prefetched_space(target, facts.generation)
    # buffer_assignment.cc, AssignPresetBuffers: preset allocations come first, even if empty. CombineTempAllocations
    # therefore swaps them with others, which moves every tuple table and the heap.
    if prefetched is not None:
        inside = [number for number in places if buffers[number].space == prefetched]
        builders.append(preset(buffers, inside, prefetched, interference))
    sparse_core = SparseCore(buffers, interference) if target == "tpu" else None
    if sparse_core is not None:
        builders += sparse_core.bookkeeping(places)
    left = _assign_or_defer(facts, places, interference, builders, sparse_core, strategy)
    builders.extend(heaps(buffers, left, interference, target, strategy.placing if with_offsets else None))
    loose = spaces_with_loose_ties(facts.dataflow, module, buffers, interference)
    for builder in builders:
        builder.is_certain = builder.is_certain and builder.space not in loose
    for number in order:
        if buffers[number].is_local:
            role: Role = "constant" if buffers[number].is_constant else "thread-local"
            builder = AllocationBuilder(buffers[number].size, buffers[number].space, role)
            builder.put(number)
            builders.append(builder)
    return builders


def _assign_or_defer(
    facts: OrderIndependentFacts,
    order: Sequence[int],
    interference: Interference,
    builders: list[AllocationBuilder],
    sparse_core: SparseCore | None,
    strategy: Strategy,
) -> list[int]:
    """Assigns buffers to existing or new allocations; returns the buffers that go to the heap.

    New allocations are appended to `builders`.
    """
    left: list[int] = []
    reuse = Reuse(interference)
    writable = _aliased_parameters(facts.module, facts.places)
    placed = {number for builder in builders for number in builder.buffers}
    for number in order:
        if number in placed:
            continue
        buffer = facts.buffers[number]
        builder = _own_allocation(buffer, writable) or reuse.operand_allocation(buffer)
        if builder is None and sparse_core is not None:
            builder = sparse_core.allocation_for(number)
        if builder is None and not strategy.by_time:
            builder = reuse.newest_free(buffer)
        if builder is None and buffer.is_live_out:
            builder = AllocationBuilder(buffer.size, buffer.space, "output", is_open=True)
        if builder is None:
            left.append(number)
            continue
        if not builder.buffers:
            builders.append(builder)
        reuse.put(builder, number, buffer)
    return left


def _aliased_parameters(module: Module, places: Positions) -> set[int]:
    """Returns the places of entry parameters that `input_output_alias` lets the result overwrite."""
    parameters, found = module.entry.parameters, set[int]()
    for alias in module.input_output_alias:
        if alias.parameter_number < len(parameters):
            parameter = parameters[alias.parameter_number]
            given = places.parts(parameter).ordinals.get(alias.parameter_index)
            if given is not None:
                found.add(places.first_of(parameter) + given)
    return found


def _own_allocation(buffer: Buffer, writable: set[int]) -> AllocationBuilder | None:
    """Returns a new allocation if the buffer needs its own: constants, entry parameters, and tuple tables."""
    # buffer_assignment.cc, AssignSingleHloBuffer: a constant keeps its own allocation even if it is returned or
    # aliased.
    if buffer.is_constant:
        return AllocationBuilder(buffer.size, buffer.space, "constant", is_live_out=buffer.is_live_out)
    if buffer.parameter is not None:
        is_open = buffer.parameter in writable and not buffer.is_tuple
        return AllocationBuilder(buffer.size, buffer.space, "parameter", buffer.parameter, buffer.is_live_out, is_open)
    if buffer.is_tuple:
        return AllocationBuilder(buffer.size, buffer.space, "output" if buffer.is_live_out else "temporary")
    return None
