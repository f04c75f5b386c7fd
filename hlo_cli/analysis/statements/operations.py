"""Operations of the program that were added, removed, or replaced by others, by scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import partial
from typing import Final

from hlo_cli.analysis.fusion.kernels import NO_KERNEL_TARGETS
from hlo_cli.analysis.matching.changes import PLACE_KINDS
from hlo_cli.analysis.statements.entry import ARGUMENTS
from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.layers import op_name_of
from hlo_cli.analysis.statements.naming import common_rename
from hlo_cli.analysis.statements.neighbors import Neighbors
from hlo_cli.analysis.statements.program import Program
from hlo_cli.analysis.statements.same_program import name_of_operation
from hlo_cli.analysis.statements.shapes import CONVERSION
from hlo_cli.analysis.statements.statement import OperationChange
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import COLLECTIVES

OPERATIONS, REMAINDER = 45, 76
"""Ranks of the drafts."""
_MOST_GROUPS: Final = 4
"""More groups than these are told as one: nobody reads a list of unrelated instructions as what happened."""
_MIN_ROWS: Final = 3
"""One or two rows are read faster as rows than as a statement about a scope."""
_SILENT: Final = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE))
"""Opcodes that compute nothing: how many there are says nothing about what the program does."""
_MIN_SHARE: Final = 0.05
"""Next to another cause, a scope with fewer of the rows in a compiled module is mostly what the compiler made of it."""
_FOLLOWING: Final = ("shape", "operands", *PLACE_KINDS, "layout", "tiling", "memory_space")
"""Kinds of changes that other operations in the same scope cause; an edit of an attribute is a cause of its own."""
_MOVING: Final = frozenset(
    (
        *(opcodes.BROADCAST, opcodes.FUSION, opcodes.BITCAST, opcodes.RESHAPE, opcodes.COPY, opcodes.TRANSPOSE),
        *(opcodes.CONVERT, opcodes.SLICE, opcodes.CALL),
    )
)
"""Opcodes that move values or hold others: compilers add them to any program, so that they are named last."""
_HEAVY: Final = frozenset(
    (
        *(opcodes.DOT, opcodes.CONVOLUTION, opcodes.SORT, opcodes.SCATTER, opcodes.GATHER, opcodes.WHILE),
        *("fft", "cholesky", "triangular-solve", "rng-bit-generator", "topk", "reduce-window", "select-and-scatter"),
        *COLLECTIVES,
    )
)
"""One of these tells more than many elementwise operations beside it."""

Groups = dict[str, tuple[list[Instruction], list[Instruction]]]
"""For each scope what only the old and what only the new module has."""


def find_operations(evidence: Evidence, old: Program, new: Program, *, has_types: bool) -> None:
    """A draft for each scope in which the program has other operations; it claims them and what belongs to them.

    Before compilation every added or removed instruction is the program's. After it, those are whose operation the
    other module does not have, and with them the rest of their scope, if no other cause was found. With `has_types`,
    conversions of types are no operations.
    """
    is_compiled = old.is_compiled or new.is_compiled
    is_first = not any(draft.rank < ARGUMENTS for draft in evidence.drafts)
    groups = _groups(evidence, old, new, has_types=has_types)
    if is_compiled and is_first and common_rename(evidence) is None:
        _add_scopes(evidence, groups, old, new)
    _claim_users_of_arguments(evidence, groups)
    least = _MIN_ROWS if is_first or not is_compiled else max(_MIN_ROWS, _MIN_SHARE * _rows(evidence))
    for scope, sides in sorted(groups.items(), key=lambda each: (not each[0], -len(each[1][0]) - len(each[1][1]))):
        if not scope:
            _claim_called(evidence, sides)
        instructions = [each for side in sides for each in side if each not in evidence.owner]
        if len(instructions) >= least:
            evidence.claim(evidence.draft(OPERATIONS, OperationChange(scope)), instructions)
            _claim_changed(evidence, scope, old, new)
    for is_added in (True, False):
        spread(evidence, is_added=is_added, ranks=(0, OPERATIONS))
    if not is_compiled:
        rest = [each for is_added in (False, True) for each in evidence.unowned(is_added=is_added)]
        whole = next((each for each in evidence.drafts if each.statement == OperationChange("")), None)
        if whole is not None or len(rest) >= _MIN_ROWS:
            evidence.claim(whole or evidence.draft(OPERATIONS, OperationChange("")), rest)


def _take_connected(first: Instruction, left: set[Instruction], neighbors: Neighbors) -> list[Instruction]:
    """Takes an instruction and those that hang together with it, in the order of the module."""
    left.remove(first)
    todo = [first]
    found = [first]
    while todo:
        for other in neighbors.of(todo.pop()):
            if other in left:
                left.remove(other)
                found.append(other)
                todo.append(other)
    return sorted(found, key=lambda each: (each.computation.name, each.index))


def is_movement(statement: OperationChange) -> bool:
    """Whether only instructions that move, pad, or convert values, or hold others, were added or removed."""
    if statement.counts:
        return all(name == opcodes.CONVERT for name, _, _ in statement.counts)
    both = (*statement.fold.added, *statement.fold.removed)
    return all(each.opcode in _MOVING or each.opcode in _SILENT or each.opcode == opcodes.PAD for each in both)


def find_remainders(evidence: Evidence) -> None:
    """A draft for each group of instructions of one module only that hang together and that nothing explains."""
    alike: dict[tuple[bool, tuple[tuple[str, int], ...]], list[Instruction]] = {}
    for is_added in (True, False):
        unowned = evidence.unowned(is_added=is_added)
        left, neighbors = set(unowned), evidence.neighbors(is_added=is_added)
        for first in unowned:
            if first in left:
                group = _take_connected(first, left, neighbors)
                alike.setdefault((is_added, tally(group)), []).extend(group)
    groups = list(alike.values())
    if len(groups) > _MOST_GROUPS:
        groups = [[each for group in groups for each in group]]
    for group in groups:
        evidence.claim(evidence.draft(REMAINDER, OperationChange("")), group)


def _rows(evidence: Evidence) -> int:
    return len(evidence.diff.changed) + len(evidence.diff.added) + len(evidence.diff.removed)


def _claim_called(evidence: Evidence, sides: tuple[list[Instruction], list[Instruction]]) -> None:
    """Operations without a scope belong to what calls them, or to their neighbors, in the scopes told before."""
    for side, is_added in enumerate((False, True)):
        ours = frozenset(sides[side])
        for draft in evidence.drafts:
            if draft.rank == OPERATIONS:
                seeds = [each for each in evidence.alone(is_added=is_added) if evidence.owner.get(each) is draft]
                evidence.claim(draft, evidence.connected(seeds, ours.__contains__, is_added=is_added))


def _claim_changed(evidence: Evidence, scope: str, old: Program, new: Program) -> None:
    """What became of instructions of the scope: other shapes, operands, fusions, and layouts follow from the change."""
    if not scope:
        return
    draft = evidence.drafts[-1]
    for row, at, each, _ in evidence.open_changes(*_FOLLOWING):
        scopes = (_scope(old.key(op_name_of(each.before))[0]), _scope(new.key(op_name_of(each.after))[0]))
        if scope in scopes and all(change.kind in (*_FOLLOWING, "metadata") for change in each.changes):
            evidence.claim_change(draft, row, at)


def _groups(evidence: Evidence, old: Program, new: Program, *, has_types: bool) -> Groups:
    """The operations that only one of the programs has."""
    groups: Groups = {}
    is_compiled = old.is_compiled or new.is_compiled
    for side, is_added in enumerate((False, True)):
        program, other = (new, old) if is_added else (old, new)
        for each in evidence.unowned(is_added=is_added):
            if not (op_name := op_name_of(each)):
                continue
            key = program.key(op_name)
            if not (is_compiled and (key in other.keys or (has_types and key[1] == CONVERSION))):
                groups.setdefault(_scope(key[0]), ([], []))[side].append(each)
    return groups


def _add_scopes(evidence: Evidence, groups: Groups, old: Program, new: Program) -> None:
    """Adds what else only one module has in these scopes."""
    for side, is_added in enumerate((False, True)):
        program = new if is_added else old
        for each in evidence.unowned(is_added=is_added):
            if (op_name := op_name_of(each)) and (found := groups.get(_scope(program.key(op_name)[0]))) is not None:
                found[side].append(each)
    groups.update({scope: (list(dict.fromkeys(one)), list(dict.fromkeys(two))) for scope, (one, two) in groups.items()})


def _claim_users_of_arguments(evidence: Evidence, groups: Groups) -> None:
    """In scopes where nothing was replaced, added operations that use an added argument belong to it."""
    for side, is_added in enumerate((False, True)):
        alone = evidence.alone(is_added=is_added)
        seeds = [each for each in alone if (draft := evidence.owner.get(each)) is not None and draft.rank == ARGUMENTS]
        if not seeds:
            continue
        replaced = evidence.unowned(is_added=not is_added)
        ours = set(evidence.unowned(is_added=is_added)) if not replaced else set()
        ours.update(each for sides in groups.values() if not sides[1 - side] for each in sides[side])
        rows = evidence.connected(seeds, partial(_follows, ours), is_added=is_added)
        evidence.claim(evidence.owner[seeds[0]], rows)


def _follows(ours: Container[Instruction], instruction: Instruction) -> bool:
    return instruction in ours or not op_name_of(instruction)


def _scope(scope: str) -> str:
    """The two outermost parts of a scope."""
    return "/".join(scope.split("/")[:2])


def tally(instructions: Iterable[Instruction]) -> tuple[tuple[str, int], ...]:
    """How many there are of each opcode, the most telling first, without plumbing; a custom call counts by its target.

    >>> from hlo_cli import parse_module
    >>> tally(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }").entry.instructions)
    (('negate', 1),)
    >>> call, line = "custom-call(p), custom_call_target=", "p = f32[2] parameter(0)  q = f32[2] sine-done(p)"
    >>> text = f'{line}  a = f32[2] {call}"ConcatBitcast"  b = f32[2] {call}"mine"  ROOT n = f32[2] negate(a)'
    >>> [name for name, _ in tally(parse_module(f"ENTRY e {{ {text} }}").entry.instructions)]
    ['custom-call mine', 'negate', 'custom-call ConcatBitcast', 'sine-done']
    """
    counts = Counter(name_of_operation(each) for each in instructions if each.opcode not in _SILENT)
    return tuple(sorted(counts.items(), key=_telling))


def _telling(item: tuple[str, int]) -> tuple[bool, bool, int, str]:
    """Custom calls and heavy operations first, then others, then what only moves values or holds others."""
    name, number = item
    is_quiet = name.removeprefix(opcodes.CUSTOM_CALL).strip() in NO_KERNEL_TARGETS
    is_moving = is_quiet or name in _MOVING or name.endswith(("-start", "-update", "-done"))
    is_named = name.startswith(opcodes.CUSTOM_CALL) or name in _HEAVY
    return not is_named or is_quiet, is_moving, -number, name


def spread(evidence: Evidence, *, is_added: bool, ranks: tuple[int, int]) -> None:
    """Gives unclaimed instructions without op_name to the draft of a neighbor, if its rank is among the ranks."""
    alone = evidence.alone(is_added=is_added)
    neighbors = evidence.neighbors(is_added=is_added)
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
