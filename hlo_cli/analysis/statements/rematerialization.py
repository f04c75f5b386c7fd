"""Values that are computed again in the backward pass, as `jax.checkpoint` asks for, in only one of the modules."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.layers import op_name_of
from hlo_cli.analysis.statements.program import scopes_of
from hlo_cli.analysis.statements.statement import RematerializationChange
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

REMATERIALIZATION: Final = 15
"""Rank of the drafts."""
_AGAIN: Final = ("rematted_computation", "checkpoint", "remat")


def _is_again(instruction: Instruction) -> bool:
    return "rematted_computation" in op_name_of(instruction)


def _count(module: Module) -> int:
    return sum(map(_is_again, module.instructions)) if "rematted_computation" in module.source.text else 0


def find_rematerialization(evidence: Evidence) -> None:
    """A draft for rematerialization that was added or removed; it claims the operations, and their other op_names."""
    counts = _count(evidence.diff.before), _count(evidence.diff.after)
    if counts[0] == counts[1]:
        return
    is_added = counts[1] > counts[0]
    alone = evidence.unowned(is_added=is_added)
    seeds = [each for each in alone if any(word in op_name_of(each) for word in _AGAIN)]
    if not seeds:
        return
    statement = RematerializationChange(is_added, sum(map(_is_again, alone)), scopes_of(filter(_is_again, alone)))
    draft = evidence.draft(REMATERIALIZATION, statement)
    evidence.claim(draft, evidence.connected(seeds, lambda each: not op_name_of(each), is_added=is_added))
    for row, at, _, change in evidence.open_changes("metadata"):
        words = (change.before, change.after)
        if change.name == "op_name" and any((word in words[0]) != (word in words[1]) for word in _AGAIN):
            evidence.claim_change(draft, row, at)
