"""Operations of the program that were added, removed, or replaced by others, by scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.layers import op_name_of
from hlo_cli.analysis.statements.neighbors import Neighbors
from hlo_cli.analysis.statements.program import Program
from hlo_cli.analysis.statements.statement import OperationChange
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

OPERATIONS: Final = 45
"""Rank of the drafts."""
_MIN_ROWS: Final = 2
_SILENT: Final = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE))


def find_operations(evidence: Evidence, old: Program, new: Program) -> None:
    """A draft for each scope in which the program has other operations; it claims them and what belongs to them.

    Before compilation every added or removed instruction is the program's. After it, only those are whose operation
    the other module does not have.
    """
    groups: dict[str, tuple[list[Instruction], list[Instruction]]] = {}
    is_compiled = old.is_compiled or new.is_compiled
    for side, is_added in enumerate((False, True)):
        program, other = (new, old) if is_added else (old, new)
        for each in evidence.unowned(is_added=is_added):
            op_name = op_name_of(each)
            if not op_name and is_compiled:
                continue
            key = program.key(op_name)
            if not is_compiled or key not in other.keys:
                groups.setdefault(_scope(key[0]), ([], []))[side].append(each)
    for scope, (removed, added) in sorted(groups.items(), key=lambda each: -len(each[1][0]) - len(each[1][1])):
        if len(removed) + len(added) < _MIN_ROWS:
            continue
        evidence.claim(evidence.draft(OPERATIONS, OperationChange(scope)), (*removed, *added))
    for is_added in (True, False):
        spread(evidence, is_added=is_added, ranks=(OPERATIONS, OPERATIONS))


def _scope(scope: str) -> str:
    """The two outermost parts of a scope."""
    return "/".join(scope.split("/")[:2])


def tally(instructions: Iterable[Instruction]) -> tuple[tuple[str, int], ...]:
    """How many there are of each opcode, most first, without plumbing; a custom call counts by its target.

    >>> from hlo_cli import parse_module
    >>> tally(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }").entry.instructions)
    (('negate', 1),)
    """
    counts = Counter(_word(each) for each in instructions if each.opcode not in _SILENT)
    order = sorted(counts.items(), key=lambda item: (not item[0].startswith(opcodes.CUSTOM_CALL), -item[1], item[0]))
    return tuple(order)


def _word(instruction: Instruction) -> str:
    if instruction.opcode != opcodes.CUSTOM_CALL:
        return instruction.opcode
    target = (instruction.attribute("custom_call_target") or "").strip('"')
    return f"{opcodes.CUSTOM_CALL} {target}".rstrip()


def spread(evidence: Evidence, *, is_added: bool, ranks: tuple[int, int]) -> None:
    """Gives unclaimed instructions without op_name to the draft of a neighbor, if its rank is among the ranks."""
    alone = evidence.alone(is_added=is_added)
    neighbors = Neighbors(alone)
    todo: Sequence[Instruction] = [
        each for each in alone if (draft := evidence.owner.get(each)) is not None and ranks[0] <= draft.rank <= ranks[1]
    ]
    while todo:
        reached: list[Instruction] = []
        for each in todo:
            for other in neighbors.of(each):
                if other not in evidence.owner and not op_name_of(other):
                    evidence.owner[other] = evidence.owner[each]
                    reached.append(other)
        todo = reached
