"""What a compiler made differently from the same operations: fusions, library calls, and copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import sequentially_executed
from hlo_cli.analysis.matching.changes import PLACE_KINDS
from hlo_cli.analysis.matching.module_diff import Changed
from hlo_cli.analysis.statements.entry import DONATION
from hlo_cli.analysis.statements.evidence import Draft, Evidence
from hlo_cli.analysis.statements.operations import OPERATIONS
from hlo_cli.analysis.statements.same_program import changed_counts, name_of_operation, same_operations, same_values
from hlo_cli.analysis.statements.shapes import DIMENSION_NUMBERS
from hlo_cli.analysis.statements.statement import CompilationChange, OperationChange, Sameness
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NO_KERNELS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lazy_regex import lazy_regex

COMPILATION: Final = 70
"""Rank of the draft."""
_MIN_ROWS: Final = 5
_COMPILED: Final = frozenset(("shape", *PLACE_KINDS))
_OF_COMPILERS: Final = (
    *("opcode", "shape", "layout", "tiling", "memory_space", "operands", "attributes", "sharding"),
    *("backend_config", *PLACE_KINDS, "constants"),
)
_MAX_SHARE: Final = 0.1
_OF_FUSIONS: Final = frozenset(("kind", "output_to_operand_aliasing"))
_FOLLOWING: Final = DIMENSION_NUMBERS | _OF_FUSIONS | {"calls", "index"}
_WRAPPERS: Final = frozenset((opcodes.BITCAST, opcodes.FUSION))
_FUSION_KIND: Final = lazy_regex(r'"kind":"_*([A-Za-z0-9_]+?)_*"')


def find_compilation(evidence: Evidence) -> None:
    """A draft for what a compiler did: the rest of what only one module has, and the operations in other fusions."""
    rest = [each for is_added in (False, True) for each in evidence.unowned(is_added=is_added)]
    rows = [(row, at) for row, at, _, _ in evidence.open_changes(*PLACE_KINDS)]
    total = len(rest) + len({row for row, _ in rows})
    if not total:
        return
    sameness, counts = _sameness(evidence, total)
    if counts:
        evidence.claim(evidence.draft(COMPILATION - 1, OperationChange("", counts)), _of_counts(rest, counts))
        rest = [each for each in rest if each not in evidence.owner]
        total = len(rest) + len({row for row, _ in rows})
    if total < _MIN_ROWS:
        return
    draft = evidence.draft(COMPILATION, CompilationChange(_changed_kernels(evidence), sameness, total))
    evidence.claim(draft, rest)
    for row, at in rows:
        evidence.claim_change(draft, row, at)
    _claim_shapes(evidence, draft)


def _of_counts(instructions: Iterable[Instruction], counts: Iterable[tuple[str, int, int]]) -> Iterator[Instruction]:
    """The instructions of one module only that are among the operations of which there are more or fewer."""
    names = {name for name, _, _ in counts}
    return (each for each in instructions if name_of_operation(each) in names)


def find_stage(evidence: Evidence) -> None:
    """A draft for all that a compiler did to a program, if only one of the modules is compiled."""
    alone = [each for is_added in (False, True) for each in evidence.unowned(is_added=is_added)]
    rows = [(row, at) for row, at, _, _ in evidence.open_changes(*_OF_COMPILERS)]
    if len(alone) + len(rows) < _MIN_ROWS:
        return
    draft = evidence.draft(
        COMPILATION,
        CompilationChange(_changed_kernels(evidence), "stage", len(alone) + len({row for row, _ in rows})),
    )
    evidence.claim(draft, alone)
    for row, at in rows:
        evidence.claim_change(draft, row, at)
    evidence.explain_header("is_scheduled")


def _changed_kernels(evidence: Evidence) -> tuple[tuple[str, int, int], ...]:
    """The kinds of kernels whose number changed, with both numbers, the largest change first."""
    old, new = _kernels(evidence.diff.before), _kernels(evidence.diff.after)
    found = [(kind, old[kind], new[kind]) for kind in old | new if old[kind] != new[kind]]
    return tuple(sorted(found, key=lambda each: (-abs(each[2] - each[1]), each[0])))


def _sameness(evidence: Evidence, rows: int) -> tuple[Sameness, tuple[tuple[str, int, int], ...]]:
    """Whether the program is the same, and else the operations of which one program has more, if that is the cause.

    It is the same only if the results are known to be equal; the same numbers of all operations are the next best. It
    is nearly the same if what other causes explain is little beside this, and most operations are equal.
    """
    before, after = evidence.diff.before, evidence.diff.after
    drafts = [draft for draft in evidence.drafts if draft.rank < COMPILATION]
    if any(draft.rank < OPERATIONS or draft.rank == DONATION for draft in drafts):
        return "other", ()
    if sum(draft.rank < COMPILATION for draft in evidence.owner.values()) > _MAX_SHARE * rows:
        return "other", ()
    if not drafts and same_values(before, after):
        return "same", ()
    share = same_operations(before, after)
    counts = changed_counts(before, after) if not drafts else ()
    if share is None or share < 1 - _MAX_SHARE:
        return "other" if drafts or counts else "unknown", counts or ()
    is_alike = share == 1.0 and not drafts and counts == ()
    return "alike" if is_alike else "nearly", counts or ()


def _claim_shapes(evidence: Evidence, draft: Draft) -> None:
    """Arrays with the same elements in other dimensions, their dimension numbers, and the operands of other fusions.

    So are the results that a compiler gives a fusion of several, which of these a get-tuple-element takes, and what
    only wraps a value inside of a fusion.
    """
    wrapped = set(evidence.diff.after.computations) - set(sequentially_executed(evidence.diff.after))
    for row, at, each, _ in evidence.open_changes("shape"):
        if _elements(each.before.shape) == _elements(each.after.shape) or _is_wrapper(each, wrapped):
            evidence.claim_change(draft, row, at)
    for row, at, each, change in evidence.open_changes("attributes"):
        is_kept = change.name in _OF_FUSIONS and each.before.opcode == each.after.opcode == opcodes.FUSION
        if is_kept or (change.name == "index" and _takes_result(each.before) and _takes_result(each.after)):
            evidence.claim_change(draft, row, at)
    for row, at, each, change in evidence.open_changes("attributes", "operands", "backend_config", "layout", "tiling"):
        owners = zip(each.changes, evidence.claims[row], strict=True)
        claimed = [other for other, owner in owners if owner is not None]
        is_compiled = any(other.kind in _COMPILED or other.name in _OF_FUSIONS for other in claimed)
        if is_compiled and (change.kind != "attributes" or change.name in _FOLLOWING):
            evidence.claim_change(draft, row, at)


def _is_wrapper(each: Changed, wrapped: set[Computation]) -> bool:
    """Whether a pair computes nothing of its own: a bitcast or fusion in a fusion, or a fusion of several results."""
    if each.after.computation in wrapped:
        return {each.before.opcode, each.after.opcode} <= _WRAPPERS
    is_fused = each.before.opcode == each.after.opcode == opcodes.FUSION
    return is_fused and any(isinstance(i.shape, TupleShape) for i in (each.before, each.after))


def _takes_result(element: Instruction) -> bool:
    """Whether a get-tuple-element takes one of the results of a fusion."""
    return bool(element.operands) and element.operands[0].opcode == opcodes.FUSION


def _elements(shape: Shape) -> tuple[str, int] | Shape:
    """The type and number of elements of an array; all tuples are alike, whose elements have rows of their own."""
    if isinstance(shape, ArrayShape):
        return str(shape.element_type), shape.elements
    return ("tuple", 0) if isinstance(shape, TupleShape) else shape


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
