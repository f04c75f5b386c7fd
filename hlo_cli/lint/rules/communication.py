"""HLO5xx, HLO6xx: what do devices send each other or the host, or all hold, that they need not?"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.fusion.kernels import backend_of
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.schedule.async_overlap import synchronous_pair
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.analysis.sharding.meshes import Devices, collective_kind, device_groups, device_pairs, devices_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion
from hlo_cli.ir.attributes.sharding import ShardingType
from hlo_cli.ir.instruction import Computation, Instruction, custom_call
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.operations import COLLECTIVES, ELEMENTWISE, MOVES
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lint.finding_facts import Common, Waste
from hlo_cli.lint.rule import LintContext, attribute_span, rule
from hlo_cli.lint.value_flow import Use, loop_invariants, producer_through, transitive_uses
from hlo_cli.report.findings import COUNT, Finding
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.entry_arrays import EntryArray


# --- HLO5xx: collectives that move too much ---


# A gather of which only a slice is used gathered too much.
_SLICES: Final = frozenset((opcodes.SLICE, opcodes.DYNAMIC_SLICE))
# Collectives that only move elements to other devices.
_RESHARDING: Final = (opcodes.ALL_TO_ALL, opcodes.COLLECTIVE_PERMUTE)
# Those that only move elements: a sum may need the wider type.
_ONLY_MOVING: Final = sorted(COLLECTIVES - {opcodes.ALL_REDUCE, opcodes.RAGGED_ALL_TO_ALL, opcodes.REDUCE_SCATTER})
_STARTS: Final = tuple(f"{opcode}-start" for opcode in sorted(COLLECTIVES))
_FORWARDING: Final = MOVES - {opcodes.BROADCAST} | {
    opcodes.ALL_GATHER_DONE,
    opcodes.ALL_REDUCE_DONE,
    opcodes.COLLECTIVE_PERMUTE_DONE,
}


def _passing(opcodes_between: frozenset[str], last: Instruction) -> frozenset[str]:
    """Those of some opcodes that a resharding can be moved past, so that it meets the one before.

    Devices permute whole shards, which each can reverse on its own. An all-to-all splits them: after a reverse it sends
    other parts to other devices. SpmdPartitioningVisitor::HandleReverse of xla/service/spmd/spmd_partitioner.cc needs a
    collective-permute of its own for a sharded dimension.
    """
    is_split = collective_kind(last.opcode) == opcodes.ALL_TO_ALL
    return opcodes_between - {opcodes.REVERSE} if is_split else opcodes_between


@rule("HLO501", "all-gather followed by slice", severity="warning")
def all_gather_then_slice(context: LintContext) -> Iterator[Finding]:
    """The result of an all-gather is only sliced.

    Reported for all-gathers of at least min_transfer_bytes.

    Why: Every device receives the whole array and drops most of it. If each device needs a different part, this is a
    resharding through full replication.

    Example:
        g = f32[8192,64] all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}}
        y = f32[8192,16] dynamic-slice(g, z, i), dynamic_slice_sizes={8192,16}

    Fix: Use one sharding from producer to consumer: in JAX, do not constrain the array to be replicated in between. If
    the sharding must change, use an all-to-all (jax.lax.all_to_all in shard_map), which moves less data.

    Reference: xla/service/spmd/spmd_partitioner.cc; https://openxla.org/shardy
    """
    for gather in context.of(opcodes.ALL_GATHER, opcodes.ALL_GATHER_START):
        given, moved = _operand_bytes(gather), _transferred_bytes(gather)
        # TPU fusions repeat the collective that they take part in, up to 20 times.
        if moved < context.settings.min_transfer_bytes or gather.computation in context.fused:
            continue
        uses = list(transitive_uses(_done(context, gather), context.users))
        if uses and all(use.instruction.opcode in _SLICES for use in uses):
            largest = max((use.instruction for use in uses), key=lambda each: each.shape.padded_bytes)
            kept = largest.shape.padded_bytes
            # A slice of more than a device had before needs the gather.
            if kept <= given:
                yield context.finding(
                    f"{context.operation_on('all-gather', gather)} gathers {format_bytes(moved)}, but only "
                    f"{format_bytes(kept)} of it are used",
                    gather,
                    waste=_waste(gather, moved - kept),
                )


@rule("HLO502", "all-reduce followed by slice", severity="warning")
def all_reduce_then_slice(context: LintContext) -> Iterator[Finding]:
    """The result of an all-reduce is only sliced.

    Reported for all-reduces of at least min_transfer_bytes.

    Why: A reduce-scatter returns one part to each device and transfers half as much data. All-reduces inside fusions
    are not reported, because that is how the TPU compiler represents a reduce-scatter.

    Example:
        s = f32[8192,64] all-reduce(x), replica_groups={{0,1,2,3}}, to_apply=add
        y = f32[2048,64] dynamic-slice(s, i, z), dynamic_slice_sizes={2048,64}

    Fix: Use a reduce-scatter: in JAX, jax.lax.psum_scatter in shard_map instead of psum and a slice.

    Reference: ReduceScatterCreator in xla/service/gpu/transforms
    """
    for reduce in context.of(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START):
        if _transferred_bytes(reduce) < context.settings.min_transfer_bytes or reduce.computation in context.fused:
            continue
        # Unknown groups: one member, so that any slice counts.
        members = _group_size(reduce, context.module) or 1
        results = _results(context, reduce)
        uses_of_each = [list(transitive_uses(each, context.users)) for each in results]
        sliced = [n for n, uses in enumerate(uses_of_each) if uses and all(_is_share(use, members) for use in uses)]
        is_whole = len(sliced) == len(results)
        moved = _transferred_bytes(reduce) if is_whole else sum(results[n].shape.padded_bytes for n in sliced)
        if not sliced or moved < context.settings.min_transfer_bytes:
            continue
        slices = (each for n in sliced for each in {use.instruction for use in uses_of_each[n]})
        kept = format_bytes(sum(each.shape.padded_bytes for each in slices))
        named = context.operation_on("all-reduce", reduce)
        which = "" if is_whole else f" in {len(sliced):,} of its {len(results):,} results"
        yield context.finding(
            f"{named} reduces {format_bytes(moved)}{which}, but only {kept} of it are used",
            reduce,
            # A ring all-reduce is a reduce-scatter and an all-gather of equal size; the second is not needed.
            waste=_waste(reduce, moved // 2),
        )


@rule("HLO503", "consecutive resharding", severity="warning")
def consecutive_resharding(context: LintContext) -> Iterator[Finding]:
    """The result of an all-to-all or collective-permute directly feeds another one.

    Reported for transfers of at least min_transfer_bytes.

    Why: A single collective could move all data to its final device, or the two cancel each other out.

    Example:
        a = f32[1024,64] all-to-all(x), dimensions={0}, replica_groups={{0,1,2,3}}
        b = f32[1024,64] all-to-all(a), dimensions={1}, replica_groups={{0,1,2,3}}

    Fix: Move the data to its final device at once: in JAX, one ppermute in shard_map, or one sharding constraint.

    Reference: xla/service/spmd/spmd_partitioner.cc
    """
    for last in context.of(*_RESHARDING, *(f"{opcode}-start" for opcode in _RESHARDING)):
        if _transferred_bytes(last) < context.settings.min_transfer_bytes or len(last.operands) != 1:
            continue
        first = producer_through(context, last.operands[0], _passing(_FORWARDING, last))
        opcode = first.opcode.removesuffix("-start")
        if first is not last and opcode in _RESHARDING and opcode == last.opcode.removesuffix("-start"):
            yield context.finding(
                f"{context.operation_on(opcode, last)} reshards {format_bytes(_transferred_bytes(last))} directly "
                f"after another {opcode}",
                last,
                waste=_waste(last, _transferred_bytes(last)),
            )


@rule("HLO505", "loop-invariant collective", severity="warning")
def loop_invariant_collective(context: LintContext) -> Iterator[Finding]:
    """A collective in a loop has loop-invariant operands.

    Reported if all iterations together transfer at least min_transfer_bytes.

    Why: The collective returns the same result in every iteration. Before the loop, it would run once, if there is
    memory for the result. Compilers move most such collectives out of loops, but not all of those with a result larger
    than the operands.

    Example:
        w = f32[64,64] get-tuple-element(carried), index=1
        g = f32[256,64] all-gather(w), dimensions={0}, replica_groups={{0,1,2,3}}

    Fix: Move it before the loop: in JAX, out of the function that scan runs. The result is then in memory during the
    whole loop; ignore this if the collective is in the loop to save memory.

    Reference: xla/service/while_loop_invariant_code_motion.h
    """
    for loop in context.of(opcodes.WHILE):
        inner = [i for body in loop.called_computations[:1] for i in body.instructions if _operation(i) in COLLECTIVES]
        if not inner:
            continue
        body = inner[0].computation
        # One execution is enough if the trip count is unknown.
        same, iterations = loop_invariants(body), context.executions(body).known or 1
        for collective in inner:
            if (
                collective in same
                and _transferred_bytes(collective) * iterations >= context.settings.min_transfer_bytes
            ):
                times = f" in {iterations:,} iterations" if iterations > 1 else " per iteration"
                yield context.finding(
                    f"{context.operation_on(_operation(collective), collective)} transfers the same data in every "
                    f"iteration of a loop: {format_bytes(_transferred_bytes(collective) * iterations)}{times}",
                    collective,
                    waste=_waste(collective, _transferred_bytes(collective)),
                )


@rule("HLO506", "single-device collective", severity="warning")
def single_device_collective(context: LintContext) -> Iterator[Finding]:
    """Every group of a collective has one device.

    Reported for scheduled modules, because most compilers remove such collectives.

    Why: The collective transfers no data, but it remains in the program and prevents fusion across it.

    Example:
        y = f32[4,8] all-reduce(x), replica_groups={{0},{1}}, to_apply=add

    Fix: Remove the collective from the program if the mesh axis has size 1.

    Reference: xla/hlo/transforms/simplifiers/algebraic_simplifier.h
    """
    groups = (*sorted(COLLECTIVES - {opcodes.COLLECTIVE_PERMUTE}), *_STARTS)
    # Before optimization these are usual: for a mesh axis of one device. XLA removes them.
    for collective in context.of(*groups) if context.module.is_scheduled else ():
        if _operation(collective) == "collective-permute" or _group_size(collective, context.module) != 1:
            continue
        devices = context.replica_count * context.num_partitions
        if devices > 1:
            yield context.finding(
                f"{context.operation_on(_operation(collective), collective)} has no effect: each group has only one "
                f"of {devices} devices",
                collective,
                attribute_span(collective, "replica_groups"),
                waste=Waste(_transferred_bytes(collective)),
            )


@rule("HLO507", "upcast before collective", severity="warning")
def upcast_before_collective(context: LintContext) -> Iterator[Finding]:
    """A value is converted to a wider type before it is sent to other devices.

    Reported for transfers of at least min_transfer_bytes in scheduled modules, because compilers for GPU convert after
    the collective themselves.

    Why: Sent in the narrow type and converted after the transfer, it needs at most half the bytes. Reductions are not
    reported, because they may need the wider type; modules for CPU are not, because it transfers bf16 as f32.

    Example:
        a = f32[8192,64] convert(x)
        g = f32[32768,64] all-gather(a), dimensions={0}, replica_groups={{0,1,2,3}}

    Fix: Convert after the collective: in JAX, gather first, then astype.

    Reference: xla/hlo/transforms/simplifiers/convert_mover.h
    """
    # Before scheduling, compilers may still move the conversion; XLA:CPU widens narrow floats itself (float
    # normalization).
    is_checked = context.module.is_scheduled and context.target != "cpu"
    for collective in context.of(*_ONLY_MOVING, *(f"{opcode}-start" for opcode in _ONLY_MOVING)) if is_checked else ():
        if _transferred_bytes(collective) < context.settings.min_transfer_bytes or len(collective.operands) != 1:
            continue
        made = producer_through(context, collective.operands[0], MOVES)
        if made.opcode != opcodes.CONVERT or not made.operands:
            continue
        narrow, wide = made.operand_shape(0), made.shape
        if not isinstance(narrow, ArrayShape) or not isinstance(wide, ArrayShape):
            continue
        if narrow.element_type.bits < wide.element_type.bits:
            yield context.finding(
                f"{context.operation_on(_operation(collective), collective)} transfers "
                f"{format_bytes(_transferred_bytes(collective))} of {wide.element_type} converted from "
                f"{narrow.element_type}",
                collective,
                waste=_waste(collective, _narrower_bytes(collective, narrow, wide)),
            )


def _waste(collective: Instruction, wasted: int) -> Waste:
    """Bytes that a collective transfers needlessly."""
    return Waste(wasted, "links", pair=synchronous_pair(collective))


def _narrower_bytes(collective: Instruction, narrow: ArrayShape, wide: ArrayShape) -> int:
    """The bytes that a transfer in the narrower type would not move."""
    moved = _transferred_bytes(collective)
    return moved - moved * narrow.element_type.bits // wide.element_type.bits


def _operation(instruction: Instruction) -> str:
    return instruction.opcode.removesuffix("-start")


def _transferred_bytes(collective: Instruction) -> int:
    """The larger of operand bytes and result bytes."""
    return max(_operand_bytes(collective), _largest(collective.shape))


def _operand_bytes(collective: Instruction) -> int:
    return sum(collective.operand_shape(n).padded_bytes for n in range(len(collective.operands)))


def _largest(shape: Shape) -> int:
    return (
        max((e.padded_bytes for e in shape.elements), default=0)
        if isinstance(shape, TupleShape)
        else shape.padded_bytes
    )


def _done(context: LintContext, collective: Instruction) -> Instruction:
    """The instruction with the result of a collective: its done, if it has one."""
    users: Sequence[Instruction] = context.users[collective] if collective.opcode.endswith("-start") else ()
    return users[0] if len(users) == 1 and users[0].opcode.endswith("-done") else collective


def _results(context: LintContext, collective: Instruction) -> list[Instruction]:
    """The arrays that a collective gives, each as the value that its users read; one value if they read it whole."""
    done = _done(context, collective)
    users = context.users[done]
    elements = [user for user in users if user.opcode == opcodes.GET_TUPLE_ELEMENT]
    return elements if elements and len(elements) == len(users) else [done]


def _group_size(collective: Instruction, module: Module) -> int | None:
    try:
        return subgroup_size(collective, module)
    except HloError:  # reported by other rules
        return None


def _is_share(use: Use, members: int) -> bool:
    """Whether a use is a dynamic-slice that takes at most one device's share of a value."""
    if use.instruction.opcode != opcodes.DYNAMIC_SLICE or use.instruction.operands[0] is not use.value:
        return False
    whole, part = use.value.shape, use.instruction.shape
    # A device's share is at most 1 / n of the value.
    return isinstance(whole, ArrayShape) and isinstance(part, ArrayShape) and part.elements * members <= whole.elements


# --- HLO5xx: collectives that could be fewer ---


# Kinds that XLA's combiners combine: all_gather_combiner.cc, all_reduce_combiner.cc, reduce_scatter_combiner.cc.
_COMBINED: Final = (opcodes.ALL_GATHER, opcodes.ALL_REDUCE, opcodes.REDUCE_SCATTER)
# Attributes that the combiners' keys have.
_KEY_ATTRIBUTES: Final = ("replica_groups", "dimensions", "use_global_device_ids")

Key = tuple[Computation, str, str]
"""Computation, opcode, and the attributes that must agree."""


@rule("HLO508", "uncombined small collectives", severity="note")
def uncombined_collectives(context: LintContext) -> Iterator[Finding]:
    """Several small independent collectives of one kind run between the same devices.

    Reported for groups of at least min_combinable_count collectives, each smaller than min_transfer_bytes.

    Why: For a small transfer, latency and synchronization of the devices take longer than the transfer itself.
    One combined collective has that cost once.

    Example:
        a = f32[8] all-reduce(w), replica_groups={}, to_apply=add
        b = f32[8] all-reduce(x), replica_groups={}, to_apply=add
        c = f32[8] all-reduce(y), replica_groups={}, to_apply=add
        d = f32[8] all-reduce(z), replica_groups={}, to_apply=add

    Fix: Concatenate the arrays, and transfer the result with one collective.

    Reference: xla/hlo/transforms/collectives/all_reduce_combiner.h; `hlo schedule DUMP`
    """
    if not context.module.is_scheduled:
        return
    for (_, opcode, _), members in _combinable(context).items():
        if len(members) < context.settings.min_combinable_count:  # only faster
            continue
        for group in _independent(members):
            if len(group) >= context.settings.min_combinable_count:
                total = sum(each.shape.padded_bytes for each in group)
                moved = format_bytes(total)
                others = format_count(len(group) - 1, f"other {opcode} operations")
                yield context.finding(
                    f"{context.operation_on(opcode, group[0])} and {others} ({moved} in total) could be combined",
                    group[0],
                    hint=f"concatenate the arrays and use one {opcode}",
                    waste=Waste(total, "links"),
                )


def _combinable(context: LintContext) -> dict[Key, list[Instruction]]:
    """Small collectives in executed computations, by computation, opcode, and attributes."""
    groups: dict[Key, list[Instruction]] = {}
    for opcode in _COMBINED:
        for collective in context.of(opcode, f"{opcode}-start"):
            is_small = collective.shape.padded_bytes < context.settings.min_transfer_bytes
            if is_small and collective.computation in context.analyses.executions:
                # The reduction is part of the key, too: sum and maximum cannot be combined.
                root = collective.called_computations[0].root if collective.called_computations else None
                same = [collective.attribute(name) for name in _KEY_ATTRIBUTES] + [
                    root.opcode if root is not None else None
                ]
                groups.setdefault((collective.computation, opcode, str(same)), []).append(collective)
    return groups


def _independent(members: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """The members grouped by the number of others on the longest path to each: those of one group are independent.

    Users come after operands, as in every schedule.
    """
    selected, depth = set(members), dict[Instruction, int]()
    levels: dict[int, list[Instruction]] = {}
    for instruction in members[0].computation.instructions:
        # Depth counts only members, so those at one depth cannot depend on each other.
        before = max((depth[operand] for operand in instruction.operands if operand in depth), default=0)
        if instruction in selected:
            levels.setdefault(before, []).append(instruction)
            before += 1
        depth[instruction] = before
    yield from levels.values()


# --- HLO5xx: resharding back and forth ---


_TAKING_PARTS: Final = frozenset((opcodes.SLICE, opcodes.CONCATENATE, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE))
_KEEPING_SHARDS: Final = MOVES | ELEMENTWISE | _TAKING_PARTS
# Elementwise chains between two reshardings are short; a bound on the search. Chosen.
_MAX_STEPS: Final = 100


@rule("HLO509", "resharding back and forth", severity="warning")
def resharding_back_and_forth(context: LintContext) -> Iterator[Finding]:
    """Between two all-to-alls, or a collective-permute and its inverse, there are only elementwise operations.

    Reported for transfers of at least min_transfer_bytes over the same devices, if the operations have no other array
    as operand.

    Why: Elementwise operations have the same result in every sharding. Without the sharding in between, no
    transfer is necessary if the second one returns to the first sharding, and otherwise one is enough.

    Example:
        a = f32[1024,64] all-to-all(x), dimensions={0}, replica_groups={{0,1,2,3}}
        t = f32[1024,64] tanh(a)
        b = f32[1024,64] all-to-all(t), dimensions={0}, replica_groups={{0,1,2,3}}

    Fix: Use one sharding for these operations: in JAX, remove the sharding constraint in between, or set it to the
    sharding before or after.

    Reference: xla/service/spmd/spmd_partitioner.cc; `hlo shard DUMP --comms`
    """
    devices = devices_of(context.module)
    for last in context.of(*_RESHARDING, opcodes.COLLECTIVE_PERMUTE_START):
        kind = collective_kind(last.opcode) or last.opcode
        moved = sum(last.operand_shape(at).padded_bytes for at in range(len(last.operands)))
        if moved < context.settings.min_transfer_bytes:
            continue
        first = _only_source(last, kind)
        if first is None or not _is_return(first, last, devices):
            continue
        yield context.finding(
            f"{context.operation_on(kind, last)} reshards {format_bytes(moved)} again after elementwise "
            f"operations on the result of another {kind}",
            last,
            # Both reshardings, there and back.
            waste=Waste(2 * moved, "links", pair=synchronous_pair(last)),
        )


def _only_source(last: Instruction, kind: str) -> Instruction | None:
    """The collective of a kind from whose result alone an operand is computed elementwise; None for a direct use."""
    waiting, seen, found, is_direct = list(last.operands), set(last.operands), None, True
    keeping = _passing(_KEEPING_SHARDS, last)
    for _ in range(_MAX_STEPS):
        if not waiting:
            return None if is_direct else found
        value = waiting.pop()
        if value.opcode == opcodes.COLLECTIVE_PERMUTE_DONE and value.operands:
            value = value.operands[0]
        if collective_kind(value.opcode) == kind:
            # From two different collectives, the first did not make all of the value.
            if found not in (None, value):
                return None
            found = value
            continue
        before = _operands_through(value, keeping)
        if before is None:
            return None
        is_direct = is_direct and value.opcode in MOVES | _TAKING_PARTS
        # Scalars are the same in every sharding.
        waiting += [each for each in before if each not in seen and not _is_scalar(each)]
        seen.update(before)
    return None


def _operands_through(value: Instruction, keeping: Container[str]) -> Iterable[Instruction] | None:
    """The operands that an elementwise value is made of, through a fusion; None for a value that is not elementwise."""
    if value.opcode in keeping:
        return value.operands
    if value.opcode != opcodes.FUSION or not value.called_computations:
        return None
    numbers = _parameters_through(value.called_computations[0], keeping)
    return None if numbers is None else [value.operands[n] for n in sorted(numbers) if n < len(value.operands)]


def _parameters_through(body: Computation, keeping: Container[str]) -> set[int] | None:
    """The numbers of the parameters that an elementwise body reads, without scalars; None for other bodies."""
    found = set[int]()
    numbers = {parameter: number for number, parameter in enumerate(body.parameters)}
    for each in body.instructions:
        if (number := numbers.get(each)) is not None:
            if not _is_scalar(each):
                found.add(number)
        elif each.opcode not in keeping and not _is_scalar(each):
            return None
    return found


def _is_scalar(value: Instruction) -> bool:
    """Whether a value is a single element, or made of one, which is the same in every sharding."""
    if value.opcode == opcodes.BROADCAST:
        return _is_scalar(value.operands[0]) if value.operands else False
    return isinstance(value.shape, ArrayShape) and value.shape.elements == 1


def _is_return(first: Instruction, last: Instruction, devices: Devices) -> bool:
    """Whether two collectives are over the same groups; of permutes, whether each device gets back what it has sent."""
    try:
        if collective_kind(last.opcode) == opcodes.COLLECTIVE_PERMUTE:
            there, back = device_pairs(first, devices), device_pairs(last, devices)
            # The inverse of a permute swaps sources and targets.
            return bool(there) and {(target, source) for source, target in there} == set(back)
        return _groups(first, devices) == _groups(last, devices)
    except HloError:  # reported by other rules
        return False


def _groups(collective: Instruction, devices: Devices) -> frozenset[frozenset[int]]:
    return frozenset(map(frozenset, device_groups(collective, devices)))


# --- HLO5xx and HLO6xx: replicated values, custom calls, the host ---


_PLATFORMS: Final[tuple[tuple[Target, str], ...]] = (("cpu", "CPU"), ("gpu", "GPU"))
# ORIGINAL is what the attribute's absence means, and XLA's own calls have none.
_ACCEPTED: Final = (CustomCallApiVersion.ORIGINAL, CustomCallApiVersion.TYPED_FFI)
_MOSAIC: Final = "tpu_custom_call"


@rule("HLO504", "large replicated argument", severity="warning", needs="instructions")
def replicated_argument(context: LintContext) -> Iterator[Finding]:
    """A large argument is replicated on every device.

    Reported for arguments of at least min_replicated_bytes.

    Why: The argument needs its full size on every device. Weights are often better sharded and gathered layer by layer.
    Compiled modules for TPU have no shardings; those of before_optimizations in the same directory are read.

    Example:
        w = f32[65536,4096] parameter(0), sharding={replicated}

    Fix: Shard one of its dimensions over a mesh axis: in JAX, PartitionSpec("data"). Operations that need
    the whole argument gather it first.

    Reference: https://openxla.org/shardy
    """
    devices, arrays = _large_arguments(context)
    least = context.settings.min_replicated_bytes
    if not arrays:
        return
    from hlo_cli.analysis.sharding.entry_arrays import divided

    for array in arrays:
        parameter, taken = array.instruction, array.shape.padded_bytes
        # Only whole copies: HLO510 reports parts.
        if taken < least or array.placement is None or array.placement.kind is not ShardingType.REPLICATED:
            continue
        name = context.user_name(parameter) + index_suffix(array.index)
        needed = divided(array.shape, devices).padded_bytes
        if needed >= taken:  # no dimension to divide
            continue
        yield context.finding(
            f"{name} ({format_bytes(taken)}) is replicated on {devices} devices",
            parameter,
            attribute_span(parameter, "sharding"),
            hint=f"shard it over all devices, so that it needs only {format_bytes(needed)} on each",
            waste=Waste(taken - needed, None),
            common=Common(f"{COUNT} arguments are replicated on {devices} devices: {name}"),
        )


@rule("HLO510", "large partly replicated argument", severity="note", needs="instructions")
def partly_replicated_argument(context: LintContext) -> Iterator[Finding]:
    """Several devices hold the same shard of an argument, and could divide it further.

    Reported if a device would save at least min_replicated_bytes. HLO504 reports arguments that are replicated on every
    device.

    Why: Each copy needs memory on its own device. With tensor parallelism, weights are often divided along one axis of
    the mesh and copied along the axis of the data.

    Example:
        w = f32[65536,4096] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}

    Fix: Shard it over the other axes of the mesh too: in JAX, PartitionSpec(("model", "data")) or
    PartitionSpec("model", "data"). Operations that need the larger shard gather it first.

    Reference: https://openxla.org/shardy; `hlo shard DUMP --where 'replication > 1'`
    """
    devices, arrays = _large_arguments(context)
    least = context.settings.min_replicated_bytes
    for array in arrays:
        copies, saved = array.replication, array.saving_bytes
        # Fully replicated ones are HLO504's.
        if copies is None or saved is None or not 1 < copies < devices or saved < max(least, 1):
            continue
        assert array.shard is not None
        parameter = array.instruction
        name = context.user_name(parameter) + index_suffix(array.index)
        held = array.shard.padded_bytes
        yield context.finding(
            f"{copies} devices each hold the same {format_bytes(held)} of {name}",
            parameter,
            attribute_span(parameter, "sharding"),
            hint=f"divide it among these devices too, so that it needs only {format_bytes(held - saved)} on each",
            waste=Waste(saved, None),
            common=Common(f"{copies} devices each hold the same part of {COUNT} arguments: {name}"),
        )


@rule("HLO601", "Python callback", severity="note", needs="instructions")
def python_callback(context: LintContext) -> Iterator[Finding]:
    """A custom call runs a function in the Python process that compiled the module.

    Why: The device is idle until the Python function returns, and the module cannot be saved or run by another process.

    Example:
        y = f32[8] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI

    Fix: Compute the value in the program. Remove jax.debug.print, pure_callback, and io_callback from production code.

    Reference: https://docs.jax.dev/en/latest/external-callbacks.html; `hlo fuse DUMP --custom-calls`
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        if backend_of(call, "cpu").provider == "Python":
            yield context.finding(
                f"{context.user_name(call)} calls back into Python",
                call,
                attribute_span(call, "custom_call_target"),
                waste=Waste(_host_bytes(call), "host"),
            )


@rule("HLO602", "host transfer in a loop", severity="warning")
def host_transfer_in_loop(context: LintContext) -> Iterator[Finding]:
    """A loop communicates with the host in every iteration.

    Why: An iteration cannot end before the host has answered, which takes longer than most iterations.

    Example:
        body {
          x = f32[8] parameter(0)
          ROOT y = f32[8] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback"
        }

    Fix: Collect the values in an array, and send it after the loop: in JAX, return them from the function that scan
    runs.

    Reference: https://openxla.org/xla/operation_semantics#infeed; `hlo parse DUMP --tree`
    """
    for call in context.of(opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV, opcodes.CUSTOM_CALL):
        if not _communicates_with_host(call) or _loop_around(context, call) is None:
            continue
        iterations = context.executions(call.computation).known
        times = f"in each of {iterations:,} iterations" if iterations else "in every iteration"
        message = f"{context.user_name(call)} communicates with the host {times} of a loop"
        yield context.finding(message, call, waste=Waste(_host_bytes(call), "host"))


@rule("HLO603", "platform-specific custom call", severity="note", needs="instructions")
def platform_specific_call(context: LintContext) -> Iterator[Finding]:
    """An uncompiled module calls a library that exists on only one platform.

    Why: The module was lowered for that platform and cannot be compiled for others.

    Example:
        y = f32[8,8] custom-call(x), custom_call_target="lapack_spotrf_ffi"

    Fix: Export for each platform: in JAX, jax.export with platforms=("cpu", "tpu").

    Reference: https://docs.jax.dev/en/latest/export/export.html; `hlo fuse DUMP --custom-calls`
    """
    # After compilation the platform is decided.
    for call in context.of(opcodes.CUSTOM_CALL) if not context.module.is_scheduled else ():
        target = call.string("custom_call_target") or ""
        platforms = [name for platform, name in _PLATFORMS if backend_of(call, platform).kind in ("library", "Triton")]
        platforms += ["TPU"] if target == _MOSAIC else []
        if len(platforms) == 1:
            message = f"{context.user_name(call)} calls {target}, which is available only on {platforms[0]}"
            yield context.finding(message, call, subject=call)


@rule("HLO604", "deprecated custom call API version", severity="note")
def deprecated_api_version(context: LintContext) -> Iterator[Finding]:
    """A custom call on CPU or GPU does not use API_VERSION_TYPED_FFI.

    Why: Only the typed FFI is stable across versions of XLA; the other API versions will be removed. Calls without an
    API version are not reported, because XLA's own calls have none.

    Example:
        y = f32[8] custom-call(x), custom_call_target="my_kernel", api_version=API_VERSION_STATUS_RETURNING

    Fix: Register the handler with XLA_FFI_DEFINE_HANDLER; in JAX, call it with jax.ffi.ffi_call.

    Reference: https://openxla.org/xla/custom_call; `hlo fuse DUMP --custom-calls`
    """
    for call in context.of(opcodes.CUSTOM_CALL) if context.target in ("cpu", "gpu") else ():
        described = custom_call(call)
        if described is not None and described.api_version not in _ACCEPTED:
            message = f"{context.user_name(call)} calls {described.target} with {described.api_version}"
            yield context.finding(message, call, attribute_span(call, "api_version"), subject=call)


def _host_bytes(call: Instruction) -> int:
    """The bytes that the host receives and returns."""
    return call.shape.padded_bytes + sum(call.operand_shape(n).padded_bytes for n in range(len(call.operands)))


def _communicates_with_host(call: Instruction) -> bool:
    match call.opcode:
        case opcodes.SEND | opcodes.RECV:
            return call.flag("is_host_transfer")
        case opcodes.CUSTOM_CALL:
            return backend_of(call, "cpu").provider == "Python"
    return True


def _loop_around(context: LintContext, instruction: Instruction) -> Instruction | None:
    """The innermost loop that an instruction runs in."""
    computation = instruction.computation
    while callers := context.contexts.callers.get(computation):
        if callers[0].opcode == opcodes.WHILE:
            return callers[0]
        computation = callers[0].computation
    return None


def _large_arguments(context: LintContext) -> tuple[int, Sequence[EntryArray]]:
    """The number of devices, and the arguments if there are several devices and a large argument."""
    least = context.settings.min_replicated_bytes
    if not any(each.shape.padded_bytes >= least for each in context.module.entry.parameters):
        return 1, ()
    from hlo_cli.analysis.sharding.entry_arrays import entry_arrays, partitions_of

    devices = context.settings.num_partitions or partitions_of(context.module)
    return devices, entry_arrays(context.module).parameters if devices > 1 else ()
