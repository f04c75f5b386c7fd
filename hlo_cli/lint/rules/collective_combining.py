"""HLO5xx: collective operations that could be fewer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_COMBINED: Final = (opcodes.ALL_GATHER, opcodes.ALL_REDUCE, opcodes.REDUCE_SCATTER)
_SAME: Final = ("replica_groups", "dimensions", "use_global_device_ids")

Key = tuple[Computation, str, str]
"""Computation, opcode, and the attributes that must agree."""


@rule("HLO508", "small collectives that could be one", severity="note")
def uncombined(context: LintContext) -> Iterator[Finding]:
    """Several small collective operations of one kind, between the same devices, do not depend on each other.

    Why: each waits for the slowest device and for the way there and back, which takes longer than its bytes do
    (combined_count and more operations, each smaller than transfer_bytes). One could carry all of it.

    Example:
        a = f32[8] all-reduce(w), replica_groups={}, to_apply=add
        b = f32[8] all-reduce(x), replica_groups={}, to_apply=add
        c = f32[8] all-reduce(y), replica_groups={}, to_apply=add
        d = f32[8] all-reduce(z), replica_groups={}, to_apply=add

    Mend: reduce a tuple, or one array that holds all; or raise the size up to which the compiler combines them, as
    xla_gpu_all_reduce_combine_threshold_bytes does.

    Reference: xla/hlo/transforms/collectives/all_reduce_combiner.h; hlo schedule DUMP
    """
    if not context.module.is_scheduled:
        return
    for (_, opcode, _), members in _alike(context).items():
        if len(members) < context.settings.combined_count:
            continue
        for together in _independent(members):
            if len(together) >= context.settings.combined_count:
                moved = format_bytes(sum(each.shape.padded_bytes for each in together))
                yield context.finding(
                    f"{together[0].name} and {len(together) - 1} other {opcode}s of {moved} in all could be one",
                    together[0],
                    hint=f"the last of them is {together[-1].name}",
                )


def _alike(context: LintContext) -> dict[Key, list[Instruction]]:
    """Small collectives in executed computations, by computation, opcode, and attributes."""
    found: dict[Key, list[Instruction]] = {}
    for opcode in _COMBINED:
        for each in context.of(opcode, f"{opcode}-start"):
            is_small = each.shape.padded_bytes < context.settings.transfer_bytes
            if is_small and each.computation in context.analyses.times:
                root = each.called_computations[0].root if each.called_computations else None
                same = [each.attribute(name) for name in _SAME] + [root.opcode if root is not None else None]
                found.setdefault((each.computation, opcode, str(same)), []).append(each)
    return found


def _independent(members: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """The members grouped by the number of others on the longest path to each: those of one group are independent.

    Users come after operands, as in every schedule.
    """
    wanted, depth = set(members), dict[Instruction, int]()
    levels: dict[int, list[Instruction]] = {}
    for instruction in members[0].computation.instructions:
        before = max((depth[operand] for operand in instruction.operands if operand in depth), default=0)
        if instruction in wanted:
            levels.setdefault(before, []).append(instruction)
            before += 1
        depth[instruction] = before
    yield from levels.values()
