"""HLO5xx: collective operations that move more than they must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, MOVES
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.dataflow import Use, origin_of, transitive_uses
from hlo_cli.lint.loop_invariants import is_loop_invariant
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes
from hlo_cli.source import HloError

_SLICES: Final = frozenset((opcodes.SLICE, opcodes.DYNAMIC_SLICE))
_RESHARDING: Final = (opcodes.ALL_TO_ALL, opcodes.COLLECTIVE_PERMUTE)
_MOVING: Final = sorted(COLLECTIVES - {opcodes.ALL_REDUCE, opcodes.RAGGED_ALL_TO_ALL, opcodes.REDUCE_SCATTER})
_STARTS: Final = tuple(f"{opcode}-start" for opcode in sorted(COLLECTIVES))
_HANDED_ON: Final = MOVES - {opcodes.BROADCAST} | {
    opcodes.ALL_GATHER_DONE,
    opcodes.ALL_REDUCE_DONE,
    opcodes.COLLECTIVE_PERMUTE_DONE,
}


@rule("HLO501", "gathers what it then slices", severity="warning")
def gathered_then_sliced(context: LintContext) -> Iterator[Finding]:
    """All that is done with the result of an all-gather is to take a part of it (transfer_bytes and more).

    Why: every device fetches the whole and drops most of it. Where each wants its own part, this changes one sharding
    into another by way of no sharding at all.

    Example:
        g = f32[8192,64] all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}}
        y = f32[8192,16] dynamic-slice(g, z, i), dynamic_slice_sizes={8192,16}

    Mend: give the value one sharding from where it is made to where it is used; in jax, with_sharding_constraint. If it
    must change, an all-to-all moves a part to each.

    Reference: xla/service/spmd/spmd_partitioner.cc; https://openxla.org/shardy
    """
    for gather in context.of(opcodes.ALL_GATHER, opcodes.ALL_GATHER_START):
        given, moved = _operand_bytes(gather), _moved(gather)
        if moved < context.settings.transfer_bytes or gather.computation in context.fused:
            continue
        uses = list(transitive_uses(_done(context, gather), context.users))
        if uses and all(use.instruction.opcode in _SLICES for use in uses):
            kept = max(use.instruction.shape.padded_bytes for use in uses)
            if kept <= given:
                names = uses[0].instruction.name
                yield context.finding(
                    f"{gather.name} gathers {format_bytes(moved)} of which {names} takes {format_bytes(kept)}", gather
                )


@rule("HLO502", "reduces what it then slices", severity="warning")
def reduced_then_sliced(context: LintContext) -> Iterator[Finding]:
    """All that is done with the result of an all-reduce is to take a part of it (transfer_bytes and more).

    Why: a reduce-scatter gives each device its part and moves half as much. In fusions the two are left alone: that is
    how TPU compilers write a reduce-scatter.

    Example:
        s = f32[8192,64] all-reduce(x), replica_groups={{0,1,2,3}}, to_apply=add
        y = f32[2048,64] dynamic-slice(s, i, z), dynamic_slice_sizes={2048,64}

    Mend: compilers turn this into a reduce-scatter where the offsets are plainly those of the device; in jax, use
    psum_scatter, or constrain the sharding of the sum itself.

    Reference: ReduceScatterCreator in xla/service/gpu/transforms
    """
    for reduce in context.of(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START):
        moved = _moved(reduce)
        if moved < context.settings.transfer_bytes or reduce.computation in context.fused:
            continue
        uses = list(transitive_uses(_done(context, reduce), context.users))
        members = _group_size(reduce, context.module) or 1
        if uses and all(_is_share(use, members) for use in uses):
            first = uses[0].instruction
            yield context.finding(
                f"{reduce.name} sums {format_bytes(moved)} of which {first.name} takes "
                f"{format_bytes(first.shape.padded_bytes)}",
                reduce,
            )


@rule("HLO503", "resharded twice in a row", severity="warning")
def resharded_twice(context: LintContext) -> Iterator[Finding]:
    """What an all-to-all or a collective-permute gives goes, with nothing computed in between, into another one.

    Why: one exchange could bring everything to its last place, or two of them undo each other (transfer_bytes).

    Example:
        a = f32[1024,64] all-to-all(x), dimensions={0}, replica_groups={{0,1,2,3}}
        b = f32[1024,64] all-to-all(a), dimensions={1}, replica_groups={{0,1,2,3}}

    Mend: name the last sharding where the value is made, not one in between.

    Reference: xla/service/spmd/spmd_partitioner.cc
    """
    for last in context.of(*_RESHARDING, *(f"{opcode}-start" for opcode in _RESHARDING)):
        if _moved(last) < context.settings.transfer_bytes or len(last.operands) != 1:
            continue
        first = origin_of(context, last.operands[0], _HANDED_ON)
        opcode = first.opcode.removesuffix("-start")
        if first is not last and opcode in _RESHARDING and opcode == last.opcode.removesuffix("-start"):
            yield context.finding(
                f"{last.name} exchanges {format_bytes(_moved(last))} that {first.name} has just exchanged",
                last,
            )


@rule("HLO505", "collective computes the same in every round", severity="warning")
def unchanging_collective(context: LintContext) -> Iterator[Finding]:
    """A collective operation in a loop is given what no round changes (transfer_bytes in all rounds).

    Why: it brings the same result each time. Before the loop it would run once, if there is memory for the result.
    Compilers take most of these out of loops themselves, but leave some whose result is larger than what is given.

    Example:
        w = f32[64,64] get-tuple-element(carried), index=1
        g = f32[256,64] all-gather(w), dimensions={0}, replica_groups={{0,1,2,3}}

    Mend: gather before the loop, in jax outside of the function that scan runs. Where it is in the loop to save memory,
    ignore this.

    Reference: xla/service/while_loop_invariant_code_motion.h
    """
    for loop in context.of(opcodes.WHILE):
        body = loop.called_computations[0] if loop.called_computations else None
        inner = [i for i in body.instructions if _operation(i) in COLLECTIVES] if body is not None else []
        if body is None or not inner:
            continue
        same, rounds = is_loop_invariant(body), context.analyses.times.get(body) or 1
        for collective in inner:
            if collective in same and _moved(collective) * rounds >= context.settings.transfer_bytes:
                times = f" in {rounds:,} rounds" if rounds > 1 else " each time"
                yield context.finding(
                    f"{collective.name} moves the same in every round of {loop.name}, "
                    f"{format_bytes(_moved(collective) * rounds)}{times}",
                    collective,
                )


@rule("HLO506", "collective of one device alone", severity="warning")
def lonely(context: LintContext) -> Iterator[Finding]:
    """The groups of a collective operation hold one device each.

    Why: nothing is exchanged, but the operation is there, and keeps others from being fused across it.

    Example:
        y = f32[4,8] all-reduce(x), replica_groups={{0},{1}}, to_apply=add

    Mend: leave it out where the mesh has one device along that axis.

    Reference: xla/hlo/transforms/simplifiers/algebraic_simplifier.h
    """
    for collective in context.of(*sorted(COLLECTIVES - {opcodes.COLLECTIVE_PERMUTE}), *_STARTS):
        if _operation(collective) == "collective-permute" or _group_size(collective, context.module) != 1:
            continue
        devices = context.replica_count * context.num_partitions
        if devices > 1:
            yield context.finding(
                f"{collective.name} exchanges nothing: each of its groups is one of {devices} devices",
                collective,
                attribute_span(collective, "replica_groups"),
            )


@rule("HLO507", "moved wider than it was made", severity="warning")
def moved_wide(context: LintContext) -> Iterator[Finding]:
    """A value is converted to a wider type and then sent to other devices (transfer_bytes and more).

    Why: it could be sent as it was, and converted where it arrives: half the bytes. Sums are left alone, for they may
    need the wider type, and so are CPUs, which exchange bf16 as f32.

    Example:
        a = f32[8192,64] convert(x)
        g = f32[32768,64] all-gather(a), dimensions={0}, replica_groups={{0,1,2,3}}

    Mend: convert behind the operation; in jax, gather first and then astype.

    Reference: xla/hlo/transforms/simplifiers/convert_mover.h
    """
    for collective in context.of(*_MOVING, *(f"{opcode}-start" for opcode in _MOVING)):
        if _moved(collective) < context.settings.transfer_bytes or len(collective.operands) != 1:
            continue
        if context.target == "cpu":
            break
        made = origin_of(context, collective.operands[0], MOVES)
        if made.opcode != opcodes.CONVERT or not made.operands:
            continue
        narrow, wide = made.operand_shape(0), made.shape
        if not isinstance(narrow, ArrayShape) or not isinstance(wide, ArrayShape):
            continue
        if narrow.element_type.bits < wide.element_type.bits:
            yield context.finding(
                f"{collective.name} moves {format_bytes(_moved(collective))} of {wide.element_type} that {made.name} "
                f"made of {narrow.element_type}",
                collective,
            )


def _operation(instruction: Instruction) -> str:
    return instruction.opcode.removesuffix("-start")


def _moved(collective: Instruction) -> int:
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
