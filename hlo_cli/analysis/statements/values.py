"""Opcodes, constants, attributes, configurations, and layouts that changed in the same way in several instructions."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.module_diff import Changed
from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.statement import Substitution, ValueChange, ValueKind

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
