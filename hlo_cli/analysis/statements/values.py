"""Opcodes, constants, attributes, configurations, and layouts that changed in the same way in several instructions."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hlo_cli.analysis.matching.changes import PLACE_KINDS, Change
from hlo_cli.analysis.matching.module_diff import Changed
from hlo_cli.analysis.statements.evidence import Draft, Evidence
from hlo_cli.analysis.statements.statement import Substitution, ValueChange, ValueKind
from hlo_cli.ir.instruction import Instruction

VALUES: Final[dict[str, tuple[int, ValueKind]]] = {
    "opcode": (43, "opcode"),
    "constants": (60, "constants"),
    "layout": (62, "layout"),
    "tiling": (63, "tiling"),
    "memory_space": (64, "memory_space"),
    "attributes": (66, "attribute"),
    "sharding": (66, "attribute"),
    "backend_config": (68, "backend_config"),
}
"""For each kind of change the rank of its drafts, and the kind of statement."""
_MIN_ROWS: Final = 3
DETAILS: Final = 75
"""Rank of the drafts of what nothing else explains."""
_MOST_DETAILS: Final = 12
"""A screen has a dozen lines."""
_OWN: Final = ("opcode", "attributes", "constants", "backend_config")
"""Kinds of changes of an instruction itself, by which it is told."""
_FOLLOWING: Final = ("shape", "operands", "layout", "tiling", "memory_space", "sharding", *PLACE_KINDS)
_MAKING: Final = frozenset(("opcode", "attributes", "shape", "operands"))
"""Kinds of changes that can change the shapes of users."""

Place = tuple[int, int, Changed, Change]
"""The row and position of a change, with the pair and the change."""
_REPEATED: Final = frozenset(("constants", "attributes", "opcode", "sharding"))
_BY_NAME: Final = frozenset(("attributes", "sharding"))


def find_values(evidence: Evidence) -> None:
    """A draft for each kind of value that changed in two instructions or more."""
    groups: dict[tuple[str, str], list[Place]] = {}
    for each in evidence.open_changes(*VALUES):
        change = each[3]
        groups.setdefault((change.kind, change.label if change.kind in _BY_NAME else ""), []).append(each)
    for (kind, name), found in groups.items():
        places = _repeated(found) if kind in _REPEATED else found
        rows = {row for row, _, _, _ in places}
        if len(rows) < _MIN_ROWS:
            continue
        rank, told = VALUES[kind]
        counts = Counter((change.before, change.after) for _, _, _, change in places)
        order = sorted(counts.items(), key=lambda item: (-item[1], sorted(item[0])))
        subject = name if kind != "backend_config" else ", ".join(_keys(places))
        changes = tuple((Substitution(*pair), number) for pair, number in order)
        draft = evidence.draft(rank, ValueChange(told, subject, changes, len(rows)))
        for row, at, _, _ in places:
            evidence.claim_change(draft, row, at)


def _repeated(places: list[Place]) -> list[Place]:
    """The changes that occur more than once; the others say more by themselves."""
    counts = Counter((change.before, change.after) for _, _, _, change in places)
    return [each for each in places if counts[each[3].before, each[3].after] > 1]


def _keys(places: list[Place]) -> list[str]:
    """The keys of the configurations that changed, most frequent first."""
    return [key for key, _ in Counter(change.name for _, _, _, change in places).most_common()]


# --- what nothing else explains ---


def find_details(evidence: Evidence) -> None:
    """A draft for each change that is left, by what changed from what to what; shapes that follow belong to it.

    There are at most `_MOST_DETAILS`: of more, a reader wants the table of changes.
    """
    for kinds in (_OWN, _FOLLOWING):
        claim_following(evidence)
        groups: dict[tuple[str, str, str, str], list[Place]] = {}
        for each in evidence.open_changes(*kinds):
            change = each[3]
            values = (change.before, change.after) if change.kind != "constants" else ("", "")
            groups.setdefault((change.kind, change.label, *values), []).append(each)
        for (kind, label, *_), places in groups.items():
            free = [each for each in places if evidence.claims[each[0]][each[1]] is None]
            if free and sum(draft.rank == DETAILS for draft in evidence.drafts) < _MOST_DETAILS:
                _draft_detail(evidence, kind, label, free)
    claim_following(evidence)


def _draft_detail(evidence: Evidence, kind: str, label: str, places: list[Place]) -> None:
    """One change of one or more instructions, and what else changed in them."""
    told = VALUES[kind][1] if kind in VALUES else "shape" if kind == "shape" else "operands"
    counts = Counter((change.before, change.after) for _, _, _, change in places).most_common()
    rows = {row: each for row, _, each, _ in places}
    names = tuple(each.after.name for each in rows.values())
    subject = "" if told in ("constants", "opcode") else label
    changes = tuple((Substitution(*pair), number) for pair, number in counts)
    statement = ValueChange(told, subject, changes, len(rows), names)
    draft = evidence.draft(DETAILS, statement)
    for row, at, _, _ in places:
        evidence.claim_change(draft, row, at)
    for row in rows:
        for at, other in enumerate(evidence.diff.changed[row].changes):
            if other.kind in _FOLLOWING or (other.kind == "metadata" and other.name == "op_name"):
                evidence.claim_change(draft, row, at)


def claim_following(evidence: Evidence) -> None:
    """Shapes of results follow from other shapes of operands, and from operands that were added or removed."""
    owners: dict[Instruction, Draft] = dict(evidence.owner)
    for each, claims in zip(evidence.diff.changed, evidence.claims, strict=True):
        for change, owner in zip(each.changes, claims, strict=True):
            if owner is not None and change.kind in _MAKING:
                owners.setdefault(each.after, owner)
                owners.setdefault(each.before, owner)
    for row, at, each, _ in evidence.open_changes("shape", "layout", "tiling", "memory_space"):
        if any(change.kind in _OWN for change in each.changes):
            continue
        operands = (*each.after.operands, *each.before.operands)
        cause = next((owners[operand] for operand in operands if operand in owners), None)
        if cause is not None:
            evidence.claim_change(cause, row, at)
            owners.setdefault(each.after, cause)
            owners.setdefault(each.before, cause)
