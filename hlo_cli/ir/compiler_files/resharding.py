"""A warning of the SPMD partitioner that it replicates an array to reshard it."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReshardingWarning:
    """One warning: the two shardings and the instruction as texts, empty if they are not in the warning.

    `raised_at` is the line of XLA that wrote it, `line` that of the text.

    >>> ReshardingWarning("{devices=[2]<=[2]}", "{replicated}", "", "spmd_partitioner.cc:656", 1).before
    '{devices=[2]<=[2]}'
    """

    before: str
    after: str
    operation: str
    raised_at: str
    line: int
