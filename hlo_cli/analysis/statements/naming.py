"""Metadata that changed: lines of source, and names of operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.statement import HeaderChange, MetadataChange, MetadataKind, Substitution
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.lazy_regex import lazy_regex

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
    is_whole = not evidence.drafts and evidence.diff.is_same_program
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
    start = equal_at_start(one, two)
    end = equal_at_start(one[start:][::-1], two[start:][::-1])
    return "/".join(one[start : len(one) - end]), "/".join(two[start : len(two) - end])


def equal_at_start(one: Sequence[str], two: Sequence[str]) -> int:
    """How many items are equal from the start."""
    return next((at for at, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), min(len(one), len(two)))


def find_header(evidence: Evidence) -> None:
    """A draft for the fields of the header that nothing else explains."""
    if any(draft.rank < NAMES for draft in evidence.drafts):
        evidence.explain_header(*_FOLLOWS_ARGUMENTS)
    if evidence.header:
        fields = ((name, Substitution(each.before, each.after)) for name, each in evidence.header.items())
        evidence.draft(HEADER, HeaderChange(tuple(fields)))


# --- names of the text, which no comparison of programs depends on ---


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names that differ in two texts: of the module, of computations, and of instructions, in the order of the text."""

    module: Substitution | None
    computations: tuple[Substitution, ...]
    instructions: tuple[Substitution, ...]

    @property
    def count(self) -> int:
        """The number of names that differ."""
        return (self.module is not None) + len(self.computations) + len(self.instructions)

    @property
    def changes_cache_key(self) -> bool:
        """Whether a name of a function or of the module differs, apart from numbers that XLA appends.

        JAX hashes the StableHLO of a program without debug information (jax/_src/cache_key.py): names of functions
        stay, while names of values are numbers there. XLA makes names unique by a number after a dot.
        """
        pairs = (*self.computations, *((self.module,) if self.module is not None else ()))
        return any(_NUMBERING.sub("", each.before) != _NUMBERING.sub("", each.after) for each in pairs)


_NUMBERING: Final = lazy_regex(r"[.][0-9]+$")


def renaming_of(comparison: ModuleDiff) -> Renaming:
    """The names that differ between what both modules have.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> text = "HloModule m  clip_0.1 { ROOT p = s8[] parameter(0) } "
    >>> text += "ENTRY e { q = s8[] parameter(0)  ROOT c = s8[] call(q), to_apply=clip_0.1 }"
    >>> found = renaming_of(diff(parse_module(text), parse_module(text.replace("clip_0", "clip_1"))))
    >>> str(found.computations[0]), found.count, found.changes_cache_key
    ('clip_0.1 → clip_1.1', 1, True)
    """
    before, after = comparison.before, comparison.after
    computations = sorted(comparison.computations.items(), key=lambda pair: pair[0].name)
    return Renaming(
        Substitution(before.name, after.name) if before.name != after.name else None,
        tuple(Substitution(one.name, two.name) for one, two in computations if one.name != two.name),
        tuple(Substitution(one.name, two.name) for one, two in comparison.pairs.items() if one.name != two.name),
    )


def is_same_text(comparison: ModuleDiff) -> bool:
    """Whether two modules have the same text, apart from blank lines and blanks around lines."""
    texts = [module.source.text or str(module) for module in (comparison.before, comparison.after)]
    lines = [[line.strip() for line in text.splitlines() if line.strip()] for text in texts]
    return lines[0] == lines[1]


def omitted_constants(comparison: ModuleDiff) -> int:
    """The number of constants of both modules whose values the texts omit, as `{...}`: nobody knows if they differ."""
    pairs = ((one, two) for one, two in comparison.pairs.items() if one.opcode == two.opcode == opcodes.CONSTANT)
    return sum("..." in one.raw[0] and "..." in two.raw[0] for one, two in pairs)
