"""Loops that run another number of iterations, and loops that only one of the modules has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.statements.evidence import Draft, Evidence
from hlo_cli.analysis.statements.layers import op_name_of
from hlo_cli.analysis.statements.program import Program
from hlo_cli.analysis.statements.shapes import DIMENSION_NUMBERS, ShapeChanges
from hlo_cli.analysis.statements.statement import LoopChange, TripCountChange
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape

TRIPS, LOOPS = 5, 8
"""Ranks of the drafts."""
_MIN_INSIDE = 8
"""Compilers unroll and make small loops; a loop that the program lost or got is told in any size."""


def find_trips(evidence: Evidence, changes: ShapeChanges) -> None:
    """A draft for each number of iterations that changed; it takes the sizes that changed with it."""
    found: dict[tuple[int, int], list[tuple[Instruction, Instruction]]] = {}
    for before in _loops(evidence.diff.before.computations):
        after = evidence.diff.pairs.get(before)
        if after is None or after.opcode != opcodes.WHILE:
            continue
        one, two = trip_count(before), trip_count(after)
        if one is not None and two is not None and one != two:
            found.setdefault((one, two), []).append((before, after))
    for (one, two), loops in found.items():
        group = next((group for group in changes.sizes.groups if group.base == (one, two)), None)
        statement = TripCountChange(
            tuple(after.name for _, after in loops), one, two, group.shapes if group is not None else 0
        )
        draft = evidence.draft(TRIPS, statement)
        if group is not None:
            changes.drafts[group.base] = draft
        conditions = {called for _, after in loops for called in after.called_computations}
        for row, at, each, change in evidence.open_changes("backend_config", "constants"):
            known = change.name.startswith("known_trip_count") or change.name.startswith("known_init_step")
            limit = each.after.computation in conditions and (change.before, change.after) == (str(one), str(two))
            if known or limit:
                evidence.claim_change(draft, row, at)


def find_loops(evidence: Evidence, old: Program, new: Program) -> None:
    """A draft for the loops that were added and for those that were removed, with what took their place."""
    for is_added in (True, False):
        alone = evidence.unowned(is_added=is_added)
        loops = [each for each in alone if each.opcode == opcodes.WHILE and _is_written(each, old, new)]
        if not loops:
            continue
        among = frozenset(alone)
        inside = [each for each in _inside(loops) if each in among]
        if len(inside) < _MIN_INSIDE and (old.is_compiled or new.is_compiled):
            continue
        program, others = (new, old) if is_added else (old, new)
        rows = evidence.connected([*loops, *inside], _is_of_loop, is_added=is_added)
        keys = {program.key(name)[1] for each in inside if (name := op_name_of(each))}
        instead = [
            each
            for each in evidence.unowned(is_added=not is_added)
            if (name := op_name_of(each)) and others.key(name)[1] in keys
        ]
        statement = LoopChange(
            is_added,
            len(loops),
            tuple(dict.fromkeys(n for each in loops if (n := trip_count(each)) is not None)),
            len(inside),
            len(instead),
        )
        draft = evidence.draft(LOOPS, statement)
        _claim_stacked(evidence, draft, statement.trips)
        evidence.claim(draft, rows)
        evidence.claim(draft, evidence.connected(instead, lambda each: not op_name_of(each), is_added=not is_added))


def _is_of_loop(instruction: Instruction) -> bool:
    return not (op_name := op_name_of(instruction)) or "/while" in op_name


def _claim_stacked(evidence: Evidence, draft: Draft, trips: Sequence[int]) -> None:
    """Arrays of all iterations in place of those of one."""
    for row, at, each, _ in evidence.open_changes("shape"):
        one, two = each.before.shape, each.after.shape
        if isinstance(one, ArrayShape) and isinstance(two, ArrayShape):
            small, large = sorted((one.dimensions, two.dimensions), key=len)
            if large[1:] == small and large[:1] and large[0] in trips:
                evidence.claim_change(draft, row, at)
                for other, change in enumerate(each.changes):
                    if change.kind == "sharding" or change.name in ("frontend_attributes", *DIMENSION_NUMBERS):
                        evidence.claim_change(draft, row, other)


def _is_written(loop: Instruction, old: Program, new: Program) -> bool:
    """Whether the user's program has the loop; compilers make loops of scatters and sorts."""
    return not (old.is_compiled or new.is_compiled) or "while" in op_name_of(loop).rpartition("/")[2]


def _loops(computations: Sequence[Computation]) -> Iterator[Instruction]:
    for computation in computations:
        yield from (each for each in computation.instructions if each.opcode == opcodes.WHILE)


def _inside(loops: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yields the instructions of the called computations, and of what those call, once each."""
    seen: set[Computation] = set()
    todo = [called for each in loops for called in each.called_computations]
    while todo:
        computation = todo.pop()
        if computation not in seen:
            seen.add(computation)
            yield from computation.instructions
            todo += [called for each in computation.instructions for called in each.called_computations]
