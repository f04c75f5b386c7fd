"""Metadata that changed: lines of source, and names of operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.statement import HeaderChange, MetadataChange, MetadataKind, Substitution

NAMES, SOURCE, HEADER = 80, 85, 90
"""Ranks of the drafts."""
_MIN_SHARE: Final = 0.2
_FOLLOWS_ARGUMENTS: Final = (
    "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
)


def find_metadata(evidence: Evidence) -> None:
    """A draft for other op_names, and one for other lines of source."""
    is_whole = not evidence.drafts and not evidence.diff.added and not evidence.diff.removed
    is_whole = is_whole and all(c.kind == "metadata" for each in evidence.diff.changed for c in each.changes)
    names = [found for found in evidence.open_changes("metadata") if found[3].name != "source" or is_whole]
    if is_whole and names:
        kinds = {"source" if change.name == "source" else "names" for _, _, _, change in names}
        kind: MetadataKind = "metadata" if len(kinds) > 1 else "source" if "source" in kinds else "names"
        draft = evidence.draft(NAMES, MetadataChange(kind, len(evidence.diff.changed), is_whole=True))
        for row, at, _, _ in names:
            evidence.claim_change(draft, row, at)
    elif names:
        change = common_rename(evidence)
        rows = len({row for row, _, _, _ in names})
        draft = evidence.draft(NAMES, MetadataChange("names", rows, is_whole=False, change=change))
        for row, at, _, _ in names:
            evidence.claim_change(draft, row, at)
    sources = [found for found in evidence.open_changes("metadata") if found[3].name == "source"]
    if sources:
        rows = len({row for row, _, _, _ in sources})
        draft = evidence.draft(SOURCE, MetadataChange("source", rows, is_whole=False))
        for row, at, _, _ in sources:
            evidence.claim_change(draft, row, at)


def common_rename(evidence: Evidence) -> Substitution | None:
    """What changed in the op_names of much of the module, as another version of a framework does."""
    found = [
        _difference(change.before, change.after)
        for each in evidence.diff.changed
        for change in each.changes
        if change.name == "op_name"
    ]
    if not found:
        return None
    pair, number = Counter(found).most_common(1)[0]
    return Substitution(*pair) if number > _MIN_SHARE * len(evidence.diff.pairs) else None


def _difference(before: str, after: str) -> tuple[str, str]:
    """The parts between slashes that differ.

    >>> _difference("jit(f)/jit(main)/a/dot", "jit(f)/a/dot")
    ('jit(main)', '')
    """
    one, two = before.split("/"), after.split("/")
    start = _equal(one, two)
    end = _equal(one[start:][::-1], two[start:][::-1])
    return "/".join(one[start : len(one) - end]), "/".join(two[start : len(two) - end])


def _equal(one: Sequence[str], two: Sequence[str]) -> int:
    """How many items are equal from the start."""
    return next((at for at, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), min(len(one), len(two)))


def find_header(evidence: Evidence) -> None:
    """A draft for the fields of the header that nothing else explains."""
    if any(draft.rank < NAMES for draft in evidence.drafts):
        evidence.explain_header(*_FOLLOWS_ARGUMENTS)
    if evidence.header:
        fields = ((name, Substitution(each.before, each.after)) for name, each in evidence.header.items())
        evidence.draft(HEADER, HeaderChange(tuple(fields)))
