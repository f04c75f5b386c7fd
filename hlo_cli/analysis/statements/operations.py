"""Which operations became others: metadata, constants, opcodes, and what compilers made of the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from hlo_cli.analysis.cache import sharing
from hlo_cli.analysis.dataflow.dependencies import sequentially_executed
from hlo_cli.analysis.matching.changes import PLACE_KINDS, Change
from hlo_cli.analysis.matching.module_diff import Changed, ModuleDiff
from hlo_cli.analysis.statements.interface import ARGUMENTS, DONATION
from hlo_cli.analysis.statements.shapes import CONVERSION, DIMENSION_NUMBERS
from hlo_cli.analysis.statements.statement import (
    CompilationChange,
    Draft,
    Evidence,
    HeaderChange,
    MetadataChange,
    MetadataKind,
    Neighbors,
    OperationChange,
    Sameness,
    Substitution,
    ValueChange,
    ValueKind,
)
from hlo_cli.analysis.statements.user_program import (
    Program,
    changed_counts,
    name_of_operation,
    op_name_of,
    same_operations,
    same_values,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, NO_KERNEL_TARGETS, NO_KERNELS, OUTPUT_TO_OPERAND_ALIASING
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lazy_regex import lazy_regex

# --- metadata ---
# Metadata that changed: lines of source, and names of operations.


NAMES, SOURCE, HEADER = 80, 85, 90
"""Ranks of the drafts."""
# A fifth of all pairs: another version of a framework renames much more, an edit of a scope less. Chosen, not measured.
_MIN_RENAMED_SHARE: Final = 0.2
# Lists with one entry for each parameter or result (hlo_module_config.h), so they change with the number of those.
_FOLLOWS_ARGUMENTS: Final = (
    "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
)


def find_metadata(evidence: Evidence) -> None:
    """A draft for other op_names, and one for other lines of source."""
    is_whole = not evidence.drafts and evidence.diff.is_same_program
    # If all else is equal, metadata is the news; else lines of source that moved are noise and are told last.
    names = [found for found in evidence.open_changes("metadata") if found[3].name != "source" or is_whole]
    if is_whole and names:
        kinds = {"source" if change.name == "source" else "names" for _, _, _, change in names}
        kind: MetadataKind = "metadata" if len(kinds) > 1 else "source" if "source" in kinds else "names"
        draft = evidence.draft(NAMES, MetadataChange(kind, len(evidence.diff.changed), is_whole=True))
        for row, at, _, _ in names:
            evidence.claim_change(draft, row, at)
    elif names:
        change = _common_rename(evidence)
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


def _common_rename(evidence: Evidence) -> Substitution | None:
    """What changed in the op_names of much of the module, as another version of a framework does."""
    differences = [
        _difference(change.before, change.after)
        for each in evidence.diff.changed
        for change in each.changes
        if change.name == "op_name"
    ]
    if not differences:
        return None
    # The most frequent part that differs: a common prefix such as a renamed transform.
    pair, number = Counter(differences).most_common(1)[0]
    return Substitution(*pair) if number > _MIN_RENAMED_SHARE * len(evidence.diff.pairs) else None


def _difference(before: str, after: str) -> tuple[str, str]:
    """The parts between slashes that differ.

    >>> _difference("jit(f)/jit(main)/a/dot", "jit(f)/a/dot")
    ('jit(main)', '')
    """
    one, two = before.split("/"), after.split("/")
    start = equal_at_start(one, two)
    end = equal_at_start(one[start:][::-1], two[start:][::-1])
    return "/".join(one[start : len(one) - end]), "/".join(two[start : len(two) - end])


def equal_at_start(old: Sequence[str], new: Sequence[str]) -> int:
    """How many items are equal from the start."""
    return next((at for at, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), min(len(old), len(new)))


def find_header(evidence: Evidence) -> None:
    """A draft for the fields of the header that nothing else explains."""
    # Any change of the program changes the header's layout, so it is explained by it.
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


# Suffixes that XLA's NameUniquer adds say nothing about the program.
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


# --- opcodes, constants, attributes ---
# Opcodes, constants, attributes, configurations, and layouts that changed in the same way in several instructions.


VALUES: Final[dict[str, tuple[int, ValueKind]]] = {
    # Opcodes (43) before operations (45): an instruction that became another is an edit, not one removed and one added.
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
# One or two rows are read faster as rows than as a statement.
_MIN_VALUE_ROWS: Final = 3
DETAILS: Final = 75
"""Rank of the drafts of what nothing else explains."""
_MOST_DETAILS: Final = 12
"""A screen has a dozen lines."""
_OWN: Final = ("opcode", "attributes", "constants", "backend_config")
"""Kinds of changes of an instruction itself, by which it is told."""
_FOLLOWING_VALUE: Final = ("shape", "operands", "layout", "tiling", "memory_space", "sharding", *PLACE_KINDS)
_MAKING: Final = frozenset(("opcode", "attributes", "shape", "operands"))
"""Kinds of changes that can change the shapes of users."""

Place = tuple[int, int, Changed, Change]
"""The row and position of a change, with the pair and the change."""
_REPEATED: Final = frozenset(("constants", "attributes", "opcode", "sharding"))
_BY_NAME: Final = frozenset(("attributes", "sharding"))


def find_values(evidence: Evidence) -> None:
    """A draft for each kind of value that changed in two instructions or more."""
    groups: dict[tuple[str, str], list[Place]] = {}
    # Only equal changes of attributes belong together; layouts differ by shape and are one choice of the compiler.
    for each in evidence.open_changes(*VALUES):
        change = each[3]
        groups.setdefault((change.kind, change.label if change.kind in _BY_NAME else ""), []).append(each)
    for (kind, name), all_places in groups.items():
        places = _repeated(all_places) if kind in _REPEATED else all_places
        rows = {row for row, _, _, _ in places}
        if len(rows) < _MIN_VALUE_ROWS:
            continue
        rank, statement_kind = VALUES[kind]
        counts = Counter((change.before, change.after) for _, _, _, change in places)
        order = sorted(counts.items(), key=lambda item: (-item[1], sorted(item[0])))
        subject = name if kind != "backend_config" else ", ".join(_keys(places))
        changes = tuple((Substitution(*pair), number) for pair, number in order)
        draft = evidence.draft(rank, ValueChange(statement_kind, subject, changes, len(rows)))
        for row, position, _, _ in places:
            evidence.claim_change(draft, row, position)


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
    # First causes in instructions themselves, then what is left: shapes that follow are claimed in between.
    for kinds in (_OWN, _FOLLOWING_VALUE):
        _claim_following(evidence)
        groups: dict[tuple[str, str, str, str], list[Place]] = {}
        for place in evidence.open_changes(*kinds):
            change = place[3]
            # A constant's value is often an array: changes of all constants are one group, without regard for the
            # values.
            values = (change.before, change.after) if change.kind != "constants" else ("", "")
            groups.setdefault((change.kind, change.label, *values), []).append(place)
        for (kind, label, *_), places in groups.items():
            free = [place for place in places if evidence.claims[place[0]][place[1]] is None]
            if free and sum(draft.rank == DETAILS for draft in evidence.drafts) < _MOST_DETAILS:
                _draft_detail(evidence, kind, label, free)
    _claim_following(evidence)


def _draft_detail(evidence: Evidence, kind: str, label: str, places: list[Place]) -> None:
    """One change of one or more instructions, and what else changed in them."""
    statement_kind = VALUES[kind][1] if kind in VALUES else "shape" if kind == "shape" else "operands"
    counts = Counter((change.before, change.after) for _, _, _, change in places).most_common()
    rows = {row: each for row, _, each, _ in places}
    names = tuple(each.after.name for each in rows.values())
    subject = "" if statement_kind in ("constants", "opcode") else label
    changes = tuple((Substitution(*pair), number) for pair, number in counts)
    statement = ValueChange(statement_kind, subject, changes, len(rows), names)
    draft = evidence.draft(DETAILS, statement)
    for row, position, _, _ in places:
        evidence.claim_change(draft, row, position)
    for row in rows:
        for position, other in enumerate(evidence.diff.changed[row].changes):
            if other.kind in _FOLLOWING_VALUE or (other.kind == "metadata" and other.name == "op_name"):
                evidence.claim_change(draft, row, position)


def _claim_following(evidence: Evidence) -> None:
    """Shapes of results follow from other shapes of operands, and from operands that were added or removed."""
    owners: dict[Instruction, Draft] = dict(evidence.owner)
    for pair, claims in zip(evidence.diff.changed, evidence.claims, strict=True):
        for change, owner in zip(pair.changes, claims, strict=True):
            if owner is not None and change.kind in _MAKING:
                owners.setdefault(pair.after, owner)
                owners.setdefault(pair.before, owner)
    for row, position, pair, _ in evidence.open_changes("shape", "layout", "tiling", "memory_space"):
        # An instruction that was itself edited is a cause, so its shape follows from its own edit.
        if any(change.kind in _OWN for change in pair.changes):
            continue
        operands = (*pair.after.operands, *pair.before.operands)
        cause = next((owners[operand] for operand in operands if operand in owners), None)
        if cause is not None:
            evidence.claim_change(cause, row, position)
            owners.setdefault(pair.after, cause)
            owners.setdefault(pair.before, cause)


# --- operations ---
# Operations of the program that were added, removed, or replaced by others, by scope.


OPERATIONS, REMAINDER = 45, 76
"""Ranks of the drafts."""
# Chosen by reading reports, not measured.
_MOST_GROUPS: Final = 4
"""More groups than these are told as one: nobody reads a list of unrelated instructions as what happened."""
_MIN_OPERATION_ROWS: Final = 3
"""One or two rows are read faster as rows than as a statement about a scope."""
_SILENT: Final = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE))
"""Opcodes that compute nothing: how many there are says nothing about what the program does."""
# A twentieth of the rows; chosen, not measured.
_MIN_OPERATION_SHARE: Final = 0.05
"""Next to another cause, a scope with fewer of the rows in a compiled module is mostly what the compiler made of it."""
_FOLLOWING_OPERATION: Final = ("shape", "operands", *PLACE_KINDS, "layout", "tiling", "memory_space")
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
    # Ranks below ARGUMENTS are causes throughout the program, which also add operations as they please.
    is_first = not any(draft.rank < ARGUMENTS for draft in evidence.drafts)
    groups = _groups(evidence, old, new, has_types=has_types)
    # After a rename of scopes, scopes do not tell what was added.
    if is_compiled and is_first and _common_rename(evidence) is None:
        _add_scopes(evidence, groups, old, new)
    _claim_users_of_arguments(evidence, groups)
    least = (
        _MIN_OPERATION_ROWS
        if is_first or not is_compiled
        # In compiled modules another cause makes the compiler fuse differently, so more is needed as evidence.
        else max(_MIN_OPERATION_ROWS, _MIN_OPERATION_SHARE * _rows(evidence))
    )
    # Operations without scope come last: what is called from a named scope belongs to that.
    for scope, sides in sorted(groups.items(), key=lambda each: (not each[0], -len(each[1][0]) - len(each[1][1]))):
        if not scope:
            _claim_called(evidence, sides)
        instructions = [each for side in sides for each in side if each not in evidence.owner]
        if len(instructions) >= least:
            evidence.claim(evidence.draft(OPERATIONS, OperationChange(scope)), instructions)
            _claim_changed(evidence, scope, old, new)
    for is_added in (True, False):
        spread(evidence, is_added=is_added, ranks=(0, OPERATIONS))
    # Before a compiler, all that was added is by the user, so nothing is left for the compiler.
    if not is_compiled:
        rest = [each for is_added in (False, True) for each in evidence.unowned(is_added=is_added)]
        whole = next((each for each in evidence.drafts if each.statement == OperationChange("")), None)
        if whole is not None or len(rest) >= _MIN_OPERATION_ROWS:
            evidence.claim(whole or evidence.draft(OPERATIONS, OperationChange("")), rest)


def _take_connected(first: Instruction, left: set[Instruction], neighbors: Neighbors) -> list[Instruction]:
    """Takes an instruction and those that hang together with it, in the order of the module."""
    left.remove(first)
    todo = [first]
    connected = [first]
    while todo:
        for neighbor in neighbors.of(todo.pop()):
            if neighbor in left:
                left.remove(neighbor)
                connected.append(neighbor)
                todo.append(neighbor)
    return sorted(connected, key=lambda each: (each.computation.name, each.index))


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
    # Then one group, since a list of many small ones is no explanation.
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
    for row, at, each, _ in evidence.open_changes(*_FOLLOWING_OPERATION):
        scopes = (_scope(old.key(op_name_of(each.before))[0]), _scope(new.key(op_name_of(each.after))[0]))
        if scope in scopes and all(change.kind in (*_FOLLOWING_OPERATION, "metadata") for change in each.changes):
            evidence.claim_change(draft, row, at)


def _groups(evidence: Evidence, old: Program, new: Program, *, has_types: bool) -> Groups:
    """The operations that only one of the programs has."""
    groups: Groups = {}
    is_compiled = old.is_compiled or new.is_compiled
    for side, is_added in enumerate((False, True)):
        program, counterpart = (new, old) if is_added else (old, new)
        for instruction in evidence.unowned(is_added=is_added):
            if not (op_name := op_name_of(instruction)):
                continue
            key = program.key(op_name)
            # A compiler makes several instructions of one operation: a key that both programs have is no other
            # operation.
            if not (is_compiled and (key in counterpart.keys or (has_types and key[1] == CONVERSION))):
                groups.setdefault(_scope(key[0]), ([], []))[side].append(instruction)
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
        # Where something was replaced, the added operations may be the replacement, not users of the argument.
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
        instruction
        for instruction in alone
        if (draft := evidence.owner.get(instruction)) is not None and ranks[0] <= draft.rank <= ranks[1]
    ]
    while todo:
        reached: list[Instruction] = []
        for instruction in todo:
            for neighbor in neighbors.of(instruction):
                if neighbor not in evidence.owner and not op_name_of(neighbor):
                    evidence.owner[neighbor] = evidence.owner[instruction]
                    reached.append(neighbor)
        todo = reached


# --- choices of compilers ---
# What a compiler made differently from the same operations: fusions, library calls, and copies.


# After all that the user can have changed: a compiler's choice is what is left.
COMPILATION: Final = 70
"""Rank of the draft."""
# Fewer rows are read faster than a statement about the compiler; chosen, not measured.
_MIN_COMPILER_ROWS: Final = 5
_COMPILED: Final = frozenset(("shape", *PLACE_KINDS))
_OF_COMPILERS: Final = (
    *("opcode", "shape", "layout", "tiling", "memory_space", "operands", "attributes", "sharding"),
    *("backend_config", *PLACE_KINDS, "constants"),
)
# A tenth: as much as a compiler's names may be missing or merged; chosen, not measured.
_MAX_SHARE: Final = 0.1
# kind and aliasing of a fusion are choices of fusion passes (HloFusionInstruction), not of a program.
_OF_FUSIONS: Final = frozenset(("kind", OUTPUT_TO_OPERAND_ALIASING))
_FOLLOWING_COMPILER: Final = DIMENSION_NUMBERS | _OF_FUSIONS | {"calls", "index"}
_WRAPPERS: Final = frozenset((opcodes.BITCAST, opcodes.FUSION))
_FUSION_KIND: Final = lazy_regex(r'"kind":"_*([A-Za-z0-9_]+?)_*"')


def find_compilation(evidence: Evidence) -> None:
    """A draft for what a compiler did: the rest of what only one module has, and the operations in other fusions."""
    unclaimed = [each for is_added in (False, True) for each in evidence.unowned(is_added=is_added)]
    rows = [(row, position) for row, position, _, _ in evidence.open_changes(*PLACE_KINDS)]
    total = len(unclaimed) + len({row for row, _ in rows})
    if not total:
        return
    sameness, counts = _sameness(evidence, total)
    if counts:
        evidence.claim(evidence.draft(COMPILATION - 1, OperationChange("", counts)), _of_counts(unclaimed, counts))
        unclaimed = [each for each in unclaimed if each not in evidence.owner]
        total = len(unclaimed) + len({row for row, _ in rows})
    if total < _MIN_COMPILER_ROWS:
        return
    draft = evidence.draft(COMPILATION, CompilationChange(_changed_kernels(evidence), sameness, total))
    evidence.claim(draft, unclaimed)
    for row, position in rows:
        evidence.claim_change(draft, row, position)
    _claim_shapes(evidence, draft)


def _of_counts(instructions: Iterable[Instruction], counts: Iterable[tuple[str, int, int]]) -> Iterator[Instruction]:
    """The instructions of one module only that are among the operations of which there are more or fewer."""
    names = {name for name, _, _ in counts}
    return (each for each in instructions if name_of_operation(each) in names)


def find_stage(evidence: Evidence) -> None:
    """A draft for all that a compiler did to a program, if only one of the modules is compiled."""
    alone = [each for is_added in (False, True) for each in evidence.unowned(is_added=is_added)]
    rows = [(row, at) for row, at, _, _ in evidence.open_changes(*_OF_COMPILERS)]
    if len(alone) + len(rows) < _MIN_COMPILER_ROWS:
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
    # A cause that changes operations explains why the compiler chose otherwise; then the programs are not the same.
    if any(draft.rank < OPERATIONS or draft.rank == DONATION for draft in drafts):
        return "other", ()
    # More than a tenth of the rows belongs to another cause.
    if sum(draft.rank < COMPILATION for draft in evidence.owner.values()) > _MAX_SHARE * rows:
        return "other", ()
    with sharing():  # both number the values of both modules
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
    for row, position, pair, _ in evidence.open_changes("shape"):
        # The same elements in other dimensions, as a compiler's bitcasts and layout changes make.
        if _elements(pair.before.shape) == _elements(pair.after.shape) or _is_wrapper(pair, wrapped):
            evidence.claim_change(draft, row, position)
    for row, position, pair, change in evidence.open_changes("attributes"):
        is_kept = change.name in _OF_FUSIONS and pair.before.opcode == pair.after.opcode == opcodes.FUSION
        if is_kept or (change.name == "index" and _takes_result(pair.before) and _takes_result(pair.after)):
            evidence.claim_change(draft, row, position)
    for row, position, pair, change in evidence.open_changes(
        "attributes", "operands", "backend_config", "layout", "tiling"
    ):
        owners = zip(pair.changes, evidence.claims[row], strict=True)
        claimed = [other for other, owner in owners if owner is not None]
        is_compiled = any(other.kind in _COMPILED or other.name in _OF_FUSIONS for other in claimed)
        if is_compiled and (change.kind != "attributes" or change.name in _FOLLOWING_COMPILER):
            evidence.claim_change(draft, row, position)


def _is_wrapper(pair: Changed, wrapped: set[Computation]) -> bool:
    """Whether a pair computes nothing of its own: a bitcast or fusion in a fusion, or a fusion of several results."""
    if pair.after.computation in wrapped:
        return {pair.before.opcode, pair.after.opcode} <= _WRAPPERS
    is_fused = pair.before.opcode == pair.after.opcode == opcodes.FUSION
    return is_fused and any(isinstance(i.shape, TupleShape) for i in (pair.before, pair.after))


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
        # GPU: `"kind":"__triton_gemm"` in fusion_backend_config; TPU has no kind and its fusions are one.
        config = instruction.attribute("backend_config") or ""
        found = _FUSION_KIND.search(config) if "fusion_config" in config or '"kind"' in config else None
        return found[1] if found is not None else opcodes.FUSION
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return (instruction.attribute("custom_call_target") or instruction.opcode).strip('"')
    return instruction.opcode
