"""Buffer assignment: which buffers get memory of their own, and which share it.

Mirrors xla/service/buffer_assignment.cc. Buffers that no rule places are left to the heap, and everything that is only
needed while the program runs is put into one temporary allocation for each memory space in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.dataflow.positions import Positions
from hlo_cli.analysis.hardware.buffer_sizes import prefetched_space
from hlo_cli.analysis.hardware.chips import tpu_generation
from hlo_cli.analysis.memory.buffers import Buffer, assignment_order, time_order
from hlo_cli.analysis.memory.drafts import Assigned, Draft, Role, combined
from hlo_cli.analysis.memory.heaps import heaps, preset
from hlo_cli.analysis.memory.interference import Interference, Release
from hlo_cli.analysis.memory.live_ranges import LiveRanges
from hlo_cli.analysis.memory.operand_sharing import OperandSharing
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.analysis.memory.reuse import Reuse
from hlo_cli.analysis.memory.sparse_core import SparseCore
from hlo_cli.analysis.memory.strategies import OF_TPUS, USUAL, Strategy, StrategyName
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class Assignment:
    """The allocations of a module, temporary ones last, and the strategy by which heaps were filled.

    `limit` is what all allocations of the main memory may take in a strategy, None where that is not known.
    """

    allocations: tuple[Assigned, ...]
    strategy: StrategyName
    limit: int | None


def assign(
    facts: OrderIndependentFacts, ranges: LiveRanges, release: Release = "0.10.2", *, with_offsets: bool = True
) -> Assignment:
    """The assignment of a module; without offsets, heaps have no size: what shares is told.

    Compilers for TPUs are newer than jaxlib 0.10.2, so there the release makes no difference.
    """
    is_tpu = facts.target == "tpu"
    sharing = OperandSharing(facts.dataflow, facts.in_place, facts.target)
    rules: Release = "2026-08" if is_tpu else release
    interference = Interference(facts.dataflow, facts.aliases, ranges, sharing, rules)
    limit = tpu_generation(facts.generation).heap_limit if is_tpu and facts.is_generation_told else None
    strategy, *others = OF_TPUS if is_tpu else (USUAL,)
    drafts = combined(_drafts(facts, interference, strategy, with_offsets=with_offsets), facts.target)
    while others and limit is not None and with_offsets and sum(d.size for d in drafts if _is_limited(d)) > limit:
        strategy = others.pop(0)
        drafts = combined(_drafts(facts, interference, strategy, with_offsets=with_offsets), facts.target)
    return Assignment(tuple(draft.finished() for draft in drafts if draft.buffers), strategy.name, limit)


def _is_limited(draft: Draft) -> bool:
    return not draft.space and draft.role != "thread-local"


def _drafts(
    facts: OrderIndependentFacts, interference: Interference, strategy: Strategy, *, with_offsets: bool
) -> list[Draft]:
    module, buffers, target = facts.module, facts.buffers, facts.target
    order = assignment_order(facts.dataflow, module, buffers)
    places = [number for number in order if not buffers[number].is_local]
    if strategy.by_time:
        places = time_order(places, buffers, interference)
    drafts: list[Draft] = []
    prefetched = prefetched_space(target, facts.generation)
    if prefetched is not None:  # memory space assignment has filled it before
        inside = [number for number in places if buffers[number].space == prefetched]
        drafts.append(preset(buffers, inside, prefetched, interference))
    sparse_core = SparseCore(buffers, interference) if target == "tpu" else None
    if sparse_core is not None:
        drafts += sparse_core.bookkeeping(places)
    left = _assigned_or_left(facts, places, interference, drafts, sparse_core, strategy)
    drafts.extend(heaps(buffers, left, interference, target, strategy.placing if with_offsets else None))
    for number in order:
        if buffers[number].is_local:
            role: Role = "constant" if buffers[number].is_constant else "thread-local"
            draft = Draft(buffers[number].size, buffers[number].space, role)
            draft.put(number)
            drafts.append(draft)
    return drafts


def _assigned_or_left(
    facts: OrderIndependentFacts,
    order: Sequence[int],
    interference: Interference,
    drafts: list[Draft],
    sparse_core: SparseCore | None,
    strategy: Strategy,
) -> list[int]:
    """Puts buffers into allocations, new ones behind the drafts, and returns those that are left to the heap."""
    left: list[int] = []
    reuse = Reuse(interference)
    writable = _writable(facts.module, facts.places)
    placed = {number for draft in drafts for number in draft.buffers}
    for number in order:
        if number in placed:
            continue
        buffer = facts.buffers[number]
        draft = _own(buffer, writable) or reuse.of_operand(buffer)
        if draft is None and sparse_core is not None:
            draft = sparse_core.draft(number)
        if draft is None and not strategy.by_time:
            draft = reuse.newest(buffer)
        if draft is None and buffer.is_live_out:
            draft = Draft(buffer.size, buffer.space, "output", is_open=True)
        if draft is None:
            left.append(number)
            continue
        if not draft.buffers:
            drafts.append(draft)
        reuse.put(draft, number, buffer)
    return left


def _writable(module: Module, places: Positions) -> set[int]:
    """The places of arguments that the result overwrites."""
    parameters, found = module.entry.parameters, set[int]()
    for alias in module.input_output_alias:
        if alias.parameter_number < len(parameters):
            parameter = parameters[alias.parameter_number]
            given = places.parts(parameter).ordinals.get(alias.parameter_index)
            if given is not None:
                found.add(places.first_of(parameter) + given)
    return found


def _own(buffer: Buffer, writable: set[int]) -> Draft | None:
    """The allocation of a buffer that must have its own."""
    if buffer.is_constant:
        return Draft(buffer.size, buffer.space, "constant", is_live_out=buffer.is_live_out)
    if buffer.parameter is not None:
        is_open = buffer.parameter in writable and not buffer.is_tuple
        return Draft(buffer.size, buffer.space, "parameter", buffer.parameter, buffer.is_live_out, is_open)
    if buffer.is_tuple:
        return Draft(buffer.size, buffer.space, "output" if buffer.is_live_out else "temporary")
    return None
