"""HLO5xx: collective operations that could be fewer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste
from hlo_cli.lint.registry import rule
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes, format_count

_COMBINED: Final = (opcodes.ALL_GATHER, opcodes.ALL_REDUCE, opcodes.REDUCE_SCATTER)
_SAME: Final = ("replica_groups", "dimensions", "use_global_device_ids")

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
        if len(members) < context.settings.min_combinable_count:
            continue
        for group in _independent(members):
            if len(group) >= context.settings.min_combinable_count:
                total = sum(each.shape.padded_bytes for each in group)
                moved = format_bytes(total)
                others = format_count(len(group) - 1, f"other {opcode} operations")
                yield context.finding(
                    f"{opcode} of {context.user_name(group[0])} and {others} ({moved} in total) could be combined",
                    group[0],
                    hint=f"concatenate the arrays and use one {opcode}",
                    waste=Waste(total, "links"),
                )


def _combinable(context: LintContext) -> dict[Key, list[Instruction]]:
    """Small collectives in executed computations, by computation, opcode, and attributes."""
    found: dict[Key, list[Instruction]] = {}
    for opcode in _COMBINED:
        for each in context.of(opcode, f"{opcode}-start"):
            is_small = each.shape.padded_bytes < context.settings.min_transfer_bytes
            if is_small and each.computation in context.analyses.executions:
                root = each.called_computations[0].root if each.called_computations else None
                same = [each.attribute(name) for name in _SAME] + [root.opcode if root is not None else None]
                found.setdefault((each.computation, opcode, str(same)), []).append(each)
    return found


def _independent(members: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """The members grouped by the number of others on the longest path to each: those of one group are independent.

    Users come after operands, as in every schedule.
    """
    selected, depth = set(members), dict[Instruction, int]()
    levels: dict[int, list[Instruction]] = {}
    for instruction in members[0].computation.instructions:
        before = max((depth[operand] for operand in instruction.operands if operand in depth), default=0)
        if instruction in selected:
            levels.setdefault(before, []).append(instruction)
            before += 1
        depth[instruction] = before
    yield from levels.values()
