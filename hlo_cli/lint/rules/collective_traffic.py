"""HLO5xx: collective operations that move more than they must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.schedule.async_overlap import synchronous_pair
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, MOVES
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste
from hlo_cli.lint.dataflow import Use, origin_of, transitive_uses
from hlo_cli.lint.loop_invariants import loop_invariants
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes
from hlo_cli.source import HloError

_SLICES: Final = frozenset((opcodes.SLICE, opcodes.DYNAMIC_SLICE))
_RESHARDING: Final = (opcodes.ALL_TO_ALL, opcodes.COLLECTIVE_PERMUTE)
_MOVING: Final = sorted(COLLECTIVES - {opcodes.ALL_REDUCE, opcodes.RAGGED_ALL_TO_ALL, opcodes.REDUCE_SCATTER})
_STARTS: Final = tuple(f"{opcode}-start" for opcode in sorted(COLLECTIVES))
_FORWARDING: Final = MOVES - {opcodes.BROADCAST} | {
    opcodes.ALL_GATHER_DONE,
    opcodes.ALL_REDUCE_DONE,
    opcodes.COLLECTIVE_PERMUTE_DONE,
}


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
        if moved < context.settings.min_transfer_bytes or gather.computation in context.fused:
            continue
        uses = list(transitive_uses(_done(context, gather), context.users))
        if uses and all(use.instruction.opcode in _SLICES for use in uses):
            largest = max((use.instruction for use in uses), key=lambda each: each.shape.padded_bytes)
            kept = largest.shape.padded_bytes
            if kept <= given:
                yield context.finding(
                    f"all-gather of {context.user_name(gather)} gathers {format_bytes(moved)}, but only "
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
        moved = _transferred_bytes(reduce)
        if moved < context.settings.min_transfer_bytes or reduce.computation in context.fused:
            continue
        uses = list(transitive_uses(_done(context, reduce), context.users))
        members = _group_size(reduce, context.module) or 1
        if uses and all(_is_share(use, members) for use in uses):
            kept = sum({use.instruction: use.instruction.shape.padded_bytes for use in uses}.values())
            yield context.finding(
                f"all-reduce of {context.user_name(reduce)} reduces {format_bytes(moved)}, but only "
                f"{format_bytes(kept)} of it are used",
                reduce,
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
        first = origin_of(context, last.operands[0], _FORWARDING)
        opcode = first.opcode.removesuffix("-start")
        if first is not last and opcode in _RESHARDING and opcode == last.opcode.removesuffix("-start"):
            yield context.finding(
                f"{opcode} of {context.user_name(last)} reshards {format_bytes(_transferred_bytes(last))} directly "
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
        body = loop.called_computations[0] if loop.called_computations else None
        inner = [i for i in body.instructions if _operation(i) in COLLECTIVES] if body is not None else []
        if body is None or not inner:
            continue
        same, iterations = loop_invariants(body), context.executions(body).known or 1
        for collective in inner:
            if (
                collective in same
                and _transferred_bytes(collective) * iterations >= context.settings.min_transfer_bytes
            ):
                times = f" in {iterations:,} iterations" if iterations > 1 else " per iteration"
                yield context.finding(
                    f"{_operation(collective)} of {context.user_name(collective)} transfers the same data in every "
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
    for collective in context.of(*groups) if context.module.is_scheduled else ():
        if _operation(collective) == "collective-permute" or _group_size(collective, context.module) != 1:
            continue
        devices = context.replica_count * context.num_partitions
        if devices > 1:
            yield context.finding(
                f"{_operation(collective)} of {context.user_name(collective)} has no effect: each group has only one "
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

    Why: Sent in the narrow type and converted after the transfer, it needs at most half the bytes. Not
    reported are reductions, because they may need the wider type, and modules for CPU, which transfers bf16 as f32.

    Example:
        a = f32[8192,64] convert(x)
        g = f32[32768,64] all-gather(a), dimensions={0}, replica_groups={{0,1,2,3}}

    Fix: Convert after the collective: in JAX, gather first, then astype.

    Reference: xla/hlo/transforms/simplifiers/convert_mover.h
    """
    is_checked = context.module.is_scheduled and context.target != "cpu"
    for collective in context.of(*_MOVING, *(f"{opcode}-start" for opcode in _MOVING)) if is_checked else ():
        if _transferred_bytes(collective) < context.settings.min_transfer_bytes or len(collective.operands) != 1:
            continue
        made = origin_of(context, collective.operands[0], MOVES)
        if made.opcode != opcodes.CONVERT or not made.operands:
            continue
        narrow, wide = made.operand_shape(0), made.shape
        if not isinstance(narrow, ArrayShape) or not isinstance(wide, ArrayShape):
            continue
        if narrow.element_type.bits < wide.element_type.bits:
            yield context.finding(
                f"{_operation(collective)} of {context.user_name(collective)} transfers "
                f"{format_bytes(_transferred_bytes(collective))} of {wide.element_type} converted from "
                f"{narrow.element_type}",
                collective,
                waste=_waste(collective, _narrower_bytes(collective, narrow, wide)),
            )


def _waste(collective: Instruction, wasted: int) -> Waste:
    """Bytes that a collective transfers in vain."""
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
    return isinstance(whole, ArrayShape) and isinstance(part, ArrayShape) and part.elements * members <= whole.elements
