"""What a compiler made differently from the same operations: fusions, library calls, and copies."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hlo_cli.analysis.dataflow.values import sequentially_executed
from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.program import Program
from hlo_cli.analysis.statements.statement import CompilationChange
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NO_KERNELS
from hlo_cli.lazy_regex import lazy_regex

COMPILATION: Final = 70
"""Rank of the draft."""
_MIN_ROWS: Final = 2
_FUSION_KIND: Final = lazy_regex(r'"kind":"_*([A-Za-z0-9_]+?)_*"')


def find_compilation(evidence: Evidence, old: Program, new: Program) -> None:
    """A draft for what a compiler did: the rest of what only one module has, and the operations in other fusions."""
    if not (old.is_compiled and new.is_compiled):
        return
    rest = [each for is_added in (False, True) for each in evidence.unowned(is_added=is_added)]
    rows = [(row, at) for row, at, _, _ in evidence.open_changes("fusion", "computation")]
    if len(rest) + len({row for row, _ in rows}) < _MIN_ROWS:
        return
    kernels = _kernels(evidence.diff.before), _kernels(evidence.diff.after)
    changed = sorted(
        ((kind, kernels[0][kind], kernels[1][kind]) for kind in kernels[0] | kernels[1]),
        key=lambda each: (-abs(each[2] - each[1]), each[0]),
    )
    statement = CompilationChange(
        tuple(each for each in changed if each[1] != each[2]),
        not any(draft.rank < COMPILATION for draft in evidence.drafts),
        len(rest) + len({row for row, _ in rows}),
    )
    draft = evidence.draft(COMPILATION, statement)
    evidence.claim(draft, rest)
    for row, at in rows:
        evidence.claim_change(draft, row, at)


def _kernels(module: Module) -> Counter[str]:
    """How many kernels of each kind the schedule has."""
    sequential = sequentially_executed(module)
    return Counter(_kind(each) for c in sequential for each in c.instructions if each.opcode not in NO_KERNELS)


def _kind(instruction: Instruction) -> str:
    """What a kernel is: its opcode, the kind of its fusion, or the target of its custom call."""
    if instruction.opcode == opcodes.FUSION:
        config = instruction.attribute("backend_config") or ""
        found = _FUSION_KIND.search(config) if "fusion_config" in config or '"kind"' in config else None
        return found[1] if found is not None else opcodes.FUSION
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return (instruction.attribute("custom_call_target") or instruction.opcode).strip('"')
    return instruction.opcode
