"""Sizes and element types that took the place of others everywhere, and all that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Final

from hlo_cli.analysis.matching.changes import FUSED
from hlo_cli.analysis.matching.module_diff import Changed
from hlo_cli.analysis.statements.arguments import argument_of, shared_label
from hlo_cli.analysis.statements.dimension_names import dimension_name
from hlo_cli.analysis.statements.evidence import Draft, Evidence
from hlo_cli.analysis.statements.shape_changes import ShapeDelta, SizePair, shape_delta
from hlo_cli.analysis.statements.sizes import SizeGroup, Sizes
from hlo_cli.analysis.statements.statement import DimensionChange, Substitution, TypeChange
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

SIZES: Final = 20
TYPES: Final = 30
"""Ranks of the drafts."""
_MIN_TYPES: Final = 3
_MIN_SHARE: Final = 0.1
_FOLLOWING: Final = frozenset(("layout", "tiling", "memory_space", "backend_config", FUSED))
_NARROW: Final = ("bf16", "f16", "f8")
_ROUNDING: Final = {"bf16": 8, "f16": 11}
"""The number of significant bits of narrow types, one more than a rounding error has zeros."""

DIMENSION_NUMBERS: Final = frozenset(
    (
        "dimensions",
        "lhs_batch_dims",
        "rhs_batch_dims",
        "lhs_contracting_dims",
        "rhs_contracting_dims",
        "dim_labels",
        "window",
        "slice",
        "padding",
    )
)
"""Attributes that number dimensions, which change with the rank."""

TypePair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ShapeChanges:
    """The changed shapes of a diff, by row: the position of the change among those of the row, and its delta."""

    rows: Mapping[int, tuple[int, ShapeDelta]]
    sizes: Sizes
    types: tuple[TypePair, ...]
    drafts: dict[SizePair, Draft] = field(default_factory=dict)
    """The draft for each group of sizes, by its base."""


def shape_changes_of(evidence: Evidence) -> ShapeChanges:
    """Reads the changed shapes of a diff, and finds the sizes and types that changed throughout."""
    deltas: dict[tuple[str, str], ShapeDelta | None] = {}
    rows: dict[int, tuple[int, ShapeDelta]] = {}
    in_arguments: list[ShapeDelta] = []
    for row, at, each, change in evidence.open_changes("shape"):
        key = change.before, change.after
        if key not in deltas:
            deltas[key] = shape_delta(each.before.shape, each.after.shape)
        if (delta := deltas[key]) is not None:
            rows[row] = at, delta
            if is_argument(each):
                in_arguments.append(delta)
    found = [delta for _, delta in rows.values()]
    return ShapeChanges(
        rows,
        Sizes(found, in_arguments, cache(lambda: _occurrences(evidence))),
        _types(found, in_arguments, max(len(found), len(evidence.diff.pairs))),
    )


def _occurrences(evidence: Evidence) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """How many paired arrays of the old and of the new module have a dimension of each size."""
    old: Counter[int] = Counter()
    new: Counter[int] = Counter()
    for before, after in evidence.diff.pairs.items():
        for counts, shape in ((old, before.shape), (new, after.shape)):
            if isinstance(shape, ArrayShape):
                counts.update(set(shape.dimensions))
    return old, new


def is_argument(each: Changed) -> bool:
    """Whether a pair is an argument of the entry in both modules."""
    return all(i.opcode == opcodes.PARAMETER and i.computation.is_entry for i in (each.before, each.after))


def _types(deltas: Sequence[ShapeDelta], arguments: Sequence[ShapeDelta], pairs: int) -> tuple[TypePair, ...]:
    """The types that changed in several arguments, or else in much of the module."""
    counts = Counter(pair for each in deltas for pair in each.types)
    given = Counter(pair for each in arguments for pair in each.types)
    least = max(_MIN_TYPES, _MIN_SHARE * pairs)
    found = [pair for pair, number in counts.items() if number >= least or (given[pair] and number > 1)]
    return tuple(sorted(found, key=lambda pair: (-given[pair], -counts[pair], sorted(pair))))


def find_types(evidence: Evidence, changes: ShapeChanges) -> dict[TypePair, Draft]:
    """A draft for each element type that took the place of another one; it claims the conversions between them."""
    drafts: dict[TypePair, Draft] = {}
    for pair in changes.types:
        converts = {
            is_added: [each for each in evidence.unowned(is_added=is_added) if _converts(each, pair)]
            for is_added in (True, False)
        }
        statement = TypeChange(
            Substitution(*pair),
            sum(pair in delta.types for _, delta in changes.rows.values()),
            len(converts[True]),
            len(converts[False]),
            _arguments(evidence, changes, pair),
        )
        drafts[pair] = draft = evidence.draft(TYPES, statement)
        for instructions in converts.values():
            evidence.claim(draft, instructions)
    return drafts


def _converts(instruction: Instruction, pair: TypePair) -> bool:
    if instruction.opcode != opcodes.CONVERT or len(instruction.operands) != 1:
        return False
    types = {str(each.shape).partition("[")[0] for each in (instruction, instruction.operands[0])}
    return types == set(pair)


def _arguments(evidence: Evidence, changes: ShapeChanges, pair: TypePair) -> str:
    labels = [
        argument_of(evidence.diff.changed[row].after).label
        for row, (_, delta) in changes.rows.items()
        if pair in delta.types and is_argument(evidence.diff.changed[row])
    ]
    return shared_label(labels)


def find_sizes(evidence: Evidence, changes: ShapeChanges) -> None:
    """A draft for each size that changed throughout and has none yet; two that change in the same shapes share one."""
    partners = _partners(changes)
    for group in changes.sizes.groups:
        if group.base not in changes.drafts:
            others = [other for other in partners[group.base] if other.base not in changes.drafts]
            draft = evidence.draft(SIZES, _statement(evidence, changes, group, others))
            changes.drafts.update(dict.fromkeys((group.base, *(other.base for other in others)), draft))


def _partners(changes: ShapeChanges) -> Mapping[SizePair, list[SizeGroup]]:
    """For each group the smaller groups of which most shapes also have a size of the group."""
    groups = changes.sizes.groups
    together: Counter[tuple[SizePair, SizePair]] = Counter()
    alone: Counter[SizePair] = Counter()
    for _, delta in changes.rows.values():
        found = {group.base for pair in delta.sizes if (group := changes.sizes.group_of(pair)) is not None}
        alone.update(found)
        together.update((one, two) for one in found for two in found if one != two)
    order = [group.base for group in groups]
    return {
        group.base: [
            other
            for at, other in enumerate(groups)
            if at > order.index(group.base) and 2 * together[group.base, other.base] >= alone[other.base]
        ]
        for group in groups
    }


def _statement(
    evidence: Evidence, changes: ShapeChanges, group: SizeGroup, others: Sequence[SizeGroup]
) -> DimensionChange:
    arguments = [
        (argument_of(each.before), delta)
        for row, (_, delta) in changes.rows.items()
        if is_argument(each := evidence.diff.changed[row])
    ]
    rest = [argument_of(each) for each in evidence.diff.before.entry.parameters]
    bases = {group.base, *(other.base for other in others)}
    shapes = sum(
        any((found := changes.sizes.group_of(pair)) is not None and found.base in bases for pair in delta.sizes)
        for _, delta in changes.rows.values()
    )
    return DimensionChange(
        dimension_name(changes.sizes, group, arguments, rest) if not others else "",
        substitution(group.base),
        tuple(map(substitution, group.also)),
        tuple(substitution(other.base) for other in others),
        shapes,
    )


def substitution(pair: SizePair) -> Substitution:
    """The texts of two sizes.

    >>> print(substitution((1024, 1280)))
    1,024 → 1,280
    """
    return Substitution(f"{pair[0]:,}", f"{pair[1]:,}")


def claim_shapes(evidence: Evidence, changes: ShapeChanges, types: Mapping[TypePair, Draft]) -> None:
    """Gives the changed shapes to the drafts of their sizes and types, and what follows from them in the same rows."""
    for row, (at, delta) in changes.rows.items():
        if (
            not (delta.sizes or delta.types)
            or delta.is_rearranged
            or not changes.sizes.explain(delta)
            or not delta.types <= types.keys()
        ):
            continue
        cause = changes.sizes.cause(delta)
        draft = changes.drafts[cause.base] if cause is not None else types[min(delta.types, key=changes.types.index)]
        evidence.claim_change(draft, row, at)
        for other, change in enumerate(evidence.diff.changed[row].changes):
            if change.kind in _FOLLOWING:
                evidence.claim_change(draft, row, other)
    _claim_numbers(evidence, changes)
    _claim_types(evidence, types)


def claim_reshaped(evidence: Evidence, changes: ShapeChanges) -> None:
    """Arrays of another rank whose number of elements changed by the factors of sizes, and their dimension numbers."""
    groups = changes.sizes.groups
    if not groups:
        return
    for row, at, each, _ in evidence.open_changes("shape"):
        one, two = each.before.shape, each.after.shape
        if (
            isinstance(one, ArrayShape)
            and isinstance(two, ArrayShape)
            and one.element_type is two.element_type
            and changes.sizes.explain_elements(one.elements, two.elements)
        ):
            draft = changes.drafts[groups[0].base]
            evidence.claim_change(draft, row, at)
            for other, change in enumerate(each.changes):
                if change.kind in _FOLLOWING or change.name in DIMENSION_NUMBERS:
                    evidence.claim_change(draft, row, other)


def _claim_numbers(evidence: Evidence, changes: ShapeChanges) -> None:
    """Constants and attributes in which only sizes changed."""
    if not changes.sizes.groups:
        return
    draft = changes.drafts[changes.sizes.groups[0].base]
    for row, at, each, change in evidence.open_changes("constants", "attributes", "backend_config", "sharding"):
        if change.kind == "constants":
            is_narrow = str(each.after.shape).startswith(_NARROW)
            explained = changes.sizes.explain_constant(change.before, change.after, is_narrow=is_narrow)
        else:
            explained = changes.sizes.explain_text(change.before, change.after)
        if explained:
            evidence.claim_change(draft, row, at)


def _claim_types(evidence: Evidence, types: Mapping[TypePair, Draft]) -> None:
    """Constants that are the same number in another type, and callees that differ by it."""
    if not types:
        return
    draft = next(iter(types.values()))
    narrow = {name for pair in types for name in pair if name in _ROUNDING}
    for row, at, _, change in evidence.open_changes("constants"):
        if any(is_rounded(change.before, change.after, name) for name in narrow):
            evidence.claim_change(draft, row, at)


def is_rounded(before: str, after: str, element_type: str) -> bool:
    """Whether two constants are one number, in one of the modules rounded to an element type.

    >>> is_rounded("0.01", "0.0100097656", "bf16"), is_rounded("0.01", "0.02", "bf16")
    (True, False)
    """
    try:
        one, two = float(before), float(after)
    except ValueError:
        return False
    tolerance = 2.0 ** -_ROUNDING[element_type]
    return abs(one - two) <= tolerance * max(abs(one), abs(two))
