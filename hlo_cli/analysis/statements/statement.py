"""What can be said of two modules, and what is still open: kinds of statements, who claims which change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.module_diff import Changed, ModuleDiff
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

# --- kinds of statements ---
# Statements about two modules: what an engineer changed or a compiler did, each with the rows that follow from it.


@dataclass(frozen=True, slots=True)
class Fold:
    """The rows of a diff that one statement explains; each row is in one fold at most."""

    changed: tuple[Changed, ...] = ()
    added: tuple[Instruction, ...] = ()
    removed: tuple[Instruction, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows.

        >>> Fold().rows
        0
        """
        return len(self.changed) + len(self.added) + len(self.removed)

    @property
    def before(self) -> Iterator[Instruction]:
        """The instructions of the old module."""
        yield from (each.before for each in self.changed)
        yield from self.removed

    @property
    def after(self) -> Iterator[Instruction]:
        """The instructions of the new module."""
        yield from (each.after for each in self.changed)
        yield from self.added


@dataclass(frozen=True, slots=True)
class Substitution:
    """A number or a word that takes the place of another one throughout."""

    before: str
    after: str

    def __str__(self) -> str:
        """As text.

        >>> print(Substitution("256", "320"))
        256 → 320
        """
        return f"{self.before or 'none'} → {self.after or 'none'}"


@dataclass(frozen=True, slots=True)
class DimensionChange:
    """A size of dimensions changed everywhere, and with it its multiples.

    `name` is what users call the dimension, such as `hidden size`; empty where the arguments do not tell. `also` are
    the other sizes with the same factor, `with_it` the sizes that changed in the same shapes by another factor.
    `is_internal` says that no argument of a compiled module has the size, so that compilers may have chosen it.
    """

    name: str
    change: Substitution
    also: tuple[Substitution, ...]
    with_it: tuple[Substitution, ...]
    shapes: int
    is_internal: bool = False
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class TypeChange:
    """An element type took the place of another one; `arguments` is the name that the changed arguments share."""

    change: Substitution
    shapes: int
    converts_added: int
    converts_removed: int
    arguments: str
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class LayerChange:
    """Layers that only one module has; `like` is the layer of both modules that is most alike."""

    is_added: bool
    layers: tuple[str, ...]
    like: str
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class TripCountChange:
    """Loops that run another number of iterations; `shapes` is the number of shapes that have this number too."""

    loops: tuple[str, ...]
    before: int
    after: int
    shapes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class LoopChange:
    """Loops that only one module has, with their trip counts; `others` are instructions of the other module instead."""

    is_added: bool
    loops: int
    trips: tuple[int, ...]
    inside: int
    others: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """Arguments of the entry that only one module has: their labels, and their bytes."""

    is_added: bool
    labels: tuple[str, ...]
    shape: str
    bytes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ResultChange:
    """Results of the entry that only one module has: their numbers there, and the bytes.

    `shape` is empty if there are several, and `opcode` is that of what computes a single one.
    """

    is_added: bool
    numbers: tuple[int, ...]
    shape: str
    opcode: str
    bytes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class InterfaceChange:
    """Arguments or results that both modules have, in another form.

    `places` has for each its name, such as `1 (w2)`, and what changed: its number, label, shape, type, or layout.
    """

    part: Literal["argument", "result"]
    form: InterfaceForm
    places: tuple[tuple[str, Substitution], ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ProductChange:
    """Matrix products and convolutions that take operands of another element type; `names` are the instructions.

    `is_by_compiler` says that no conversion of the program is added or removed: compilers for TPUs round operands.
    """

    opcode: str
    change: Substitution
    names: tuple[str, ...]
    is_by_compiler: bool
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class DonationChange:
    """The number of arrays that arguments and results share, and the labels of the arguments where this changed."""

    before: int
    after: int
    labels: tuple[str, ...]
    bytes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class Collectives:
    """Collectives of one kind: how many, and the bytes of their results."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CollectiveChange:
    """Collectives that took the place of others; one side is empty if they were added or removed."""

    before: tuple[Collectives, ...]
    after: tuple[Collectives, ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ShardingChange:
    """Another mesh, number of devices, or shardings; meshes and numbers are empty where they are equal or unknown.

    `shapes` is the number of shapes that changed with it, `dimensions` how.
    """

    mesh: Substitution | None
    devices: Substitution | None
    shardings: int
    shapes: int
    dimensions: tuple[Substitution, ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class OperationChange:
    """Operations of the program that took the place of others, were added, or removed, in one scope.

    An empty `scope` is the whole program. `counts` has operations with both numbers, if compilers may have
    fused them differently.
    """

    scope: str
    counts: tuple[tuple[str, int, int], ...] = ()
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class RematerializationChange:
    """Values that only one module computes again in the backward pass."""

    is_added: bool
    instructions: int
    scopes: tuple[str, ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ValueChange:
    """Constants, attributes, or configurations that changed in one way; `subject` says what changed.

    `names` are the instructions, and `shapes` is the number of shapes that changed because of it.
    """

    kind: ValueKind
    subject: str
    changes: tuple[tuple[Substitution, int], ...]
    instructions: int
    names: tuple[str, ...] = ()
    shapes: int = 0
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class CompilationChange:
    """Instructions that a compiler made differently from the same operations.

    `kernels` are the kinds of kernels whose number changed; `program` says whether the program is the same, so that
    it is another compiler or other flags; or that only one of the modules is compiled.
    """

    kernels: tuple[tuple[str, int, int], ...]
    program: Sameness
    instructions: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """Metadata that changed; `is_whole` says that nothing else did.

    `change` is what changed in many op_names, and `names` are the instructions.
    """

    kind: MetadataKind
    instructions: int
    is_whole: bool
    change: Substitution | None = None
    names: tuple[str, ...] = ()
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class HeaderChange:
    """Fields of the header that changed by themselves, each with both texts."""

    fields: tuple[tuple[str, Substitution], ...]
    fold: Fold = Fold()


Sameness = Literal["same", "alike", "nearly", "other", "stage", "unknown"]
MetadataKind = Literal["source", "names", "metadata"]
ValueKind = Literal[
    "constants", "attribute", "backend_config", "opcode", "layout", "tiling", "memory_space", "shape", "operands"
]
InterfaceForm = Literal["renamed", "reordered", "transposed", "reshaped", "type", "shape", "layout", "computed"]


Statement: TypeAlias = (
    DimensionChange
    | TypeChange
    | LayerChange
    | TripCountChange
    | LoopChange
    | ArgumentChange
    | ResultChange
    | InterfaceChange
    | ProductChange
    | DonationChange
    | CollectiveChange
    | ShardingChange
    | OperationChange
    | RematerializationChange
    | ValueChange
    | CompilationChange
    | MetadataChange
    | HeaderChange
)


# --- instructions that hang together ---
# Instructions of one module only that hang together: by operands, or as a fusion and what is fused in it.


Signature = tuple[str, str]
"""The opcode and the shape without its layout."""


def signature(instruction: Instruction) -> Signature:
    """What an instruction is, without its layout, operands, and attributes.

    >>> from hlo_cli import parse_module
    >>> signature(parse_module("r = f32[2]{0} iota(), iota_dimension=0").entry.root)
    ('iota', 'f32[2]')
    """
    return instruction.opcode, _text(instruction)


def _text(instruction: Instruction) -> str:
    return instruction.shape.to_string(layout=False)


class Neighbors:
    """The neighbors of each of some instructions of a module, among them."""

    def __init__(self, module: Module, instructions: Sequence[Instruction]) -> None:
        self.order = tuple(instructions)
        # Sets for membership, lists for order: results must not depend on the order of hashes.
        self._among = frozenset(instructions)
        self._users: dict[Instruction, list[Instruction]] = {}
        self._operands: dict[Instruction, list[Instruction]] = {}
        self._inside: dict[Computation, list[Instruction]] = {}
        self._callers: dict[Computation, list[Instruction]] = {}
        fusions = _fusion_callers(module)
        for instruction in instructions:
            self._inside.setdefault(instruction.computation, []).append(instruction)
            for operand in instruction.operands:
                value = _value(operand, self._among, fusions)
                if value in self._among:
                    self._users.setdefault(value, []).append(instruction)
                    self._operands.setdefault(instruction, []).append(value)
            for called in instruction.called_computations:
                self._callers.setdefault(called, []).append(instruction)

    def of(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yields users and operands, also those outside of a fusion, callers, and what called computations hold."""
        yield from self._users.get(instruction, ())
        yield from self._operands.get(instruction, ())
        yield from self._callers.get(instruction.computation, ())
        for called in instruction.called_computations:
            yield from self._inside.get(called, ())

    def connected(self, seeds: Iterable[Instruction], follows: Callable[[Instruction], bool]) -> list[Instruction]:
        """The seeds, and what a path of neighbors that all follow connects with one, in their order.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT s = f32[2] sine(n) }")
        >>> instructions = module.entry.instructions
        >>> Neighbors(module, instructions).connected(instructions[:1], lambda each: each.opcode == "negate")
        [<parameter p>, <negate n>]
        """
        reached = dict.fromkeys(seeds)
        todo = list(reached)
        while todo:
            for neighbor in self.of(todo.pop()):
                if neighbor not in reached and follows(neighbor):
                    reached[neighbor] = None
                    todo.append(neighbor)
        return [each for each in self.order if each in reached]


def _fusion_callers(module: Module) -> dict[Computation, Instruction]:
    """The only caller of each computation that a fusion or a call runs."""
    callers_of: dict[Computation, list[Instruction]] = {}
    for each in module.instructions:
        if each.opcode in _RUNNING:
            for called in each.called_computations:
                callers_of.setdefault(called, []).append(each)
    # Computations with several callers have no single operand to stand for a parameter.
    return {called: callers[0] for called, callers in callers_of.items() if len(callers) == 1}


# Only these two pass their operands on as they are: loops and reducers run with other values each time.
_RUNNING: Final = frozenset((opcodes.FUSION, opcodes.CALL))


def _value(
    operand: Instruction, among: frozenset[Instruction], fusions: Mapping[Computation, Instruction]
) -> Instruction:
    """What an operand is: a parameter of a fusion is the fusion's operand."""
    # A value that enters nested fusions is a parameter at each level.
    while operand not in among and operand.opcode == opcodes.PARAMETER:
        fusion, number = fusions.get(operand.computation), operand.parameter_number
        if fusion is None or number is None or number >= len(fusion.operands):
            break
        operand = fusion.operands[number]
    return operand


# --- claims and open changes ---
# The differences of two modules while they are being explained: who claims which change, and what is open.


class Draft:
    """A statement whose rows are being collected.

    A row that several drafts claim belongs to the one of the lowest `rank`; `statement` has no rows yet.
    """

    __slots__ = ("rank", "statement")

    def __init__(self, rank: int, statement: Statement) -> None:
        self.rank = rank
        self.statement = statement


class Evidence:
    """The changes, the added, and the removed instructions of a diff, and the drafts that claim them."""

    def __init__(self, comparison: ModuleDiff) -> None:
        self.diff = comparison
        self.old: Origins = origins_of(comparison.before)
        self.new: Origins = origins_of(comparison.after)
        self.drafts: list[Draft] = []
        self.claims: list[list[Draft | None]] = [
            [None] * len(instruction.changes) for instruction in comparison.changed
        ]
        self.owner: dict[Instruction, Draft] = {}
        self.added = frozenset(comparison.added)
        self.removed = frozenset(comparison.removed)
        self._neighbors: dict[bool, Neighbors] = {}
        self._callers: dict[bool, dict[Computation, Instruction]] = {}
        self._users: dict[bool, dict[Instruction, list[Instruction]]] = {}
        # Removed one by one as drafts explain fields; what is left is told last.
        self.header = {change.name: change for change in comparison.header}
        """The fields of the header that no draft explains."""

    def origins(self, *, is_added: bool) -> Origins:
        """The origins in the new or the old module."""
        return self.new if is_added else self.old

    def alone(self, *, is_added: bool) -> tuple[Instruction, ...]:
        """The instructions of one module only."""
        return self.diff.added if is_added else self.diff.removed

    def unowned(self, *, is_added: bool) -> list[Instruction]:
        """The instructions of one module only that no draft has claimed."""
        return [each for each in self.alone(is_added=is_added) if each not in self.owner]

    def neighbors(self, *, is_added: bool) -> Neighbors:
        """The neighbors among the instructions of one module only."""
        if is_added not in self._neighbors:
            module = self.diff.after if is_added else self.diff.before
            self._neighbors[is_added] = Neighbors(module, self.alone(is_added=is_added))
        return self._neighbors[is_added]

    def users(self, value: Instruction, *, is_added: bool) -> list[Instruction]:
        """The instructions of the new or the old module that have a value as an operand."""
        # Most diffs need the users in one module only, or none.
        if is_added not in self._users:
            found: dict[Instruction, list[Instruction]] = {}
            for each in (self.diff.after if is_added else self.diff.before).instructions:
                for operand in each.operands:
                    found.setdefault(operand, []).append(each)
            self._users[is_added] = found
        return self._users[is_added].get(value, [])

    def caller(self, computation: Computation, *, is_added: bool) -> Instruction | None:
        """The only fusion or call that runs a computation of the new or the old module."""
        if is_added not in self._callers:
            self._callers[is_added] = _fusion_callers(self.diff.after if is_added else self.diff.before)
        return self._callers[is_added].get(computation)

    def connected(
        self, seeds: Iterable[Instruction], follows: Callable[[Instruction], bool], *, is_added: bool
    ) -> list[Instruction]:
        """The seeds, and the unclaimed neighbors that follow from them, near and far."""
        return self.neighbors(is_added=is_added).connected(seeds, lambda each: each not in self.owner and follows(each))

    def open_changes(self, *kinds: str) -> Iterator[tuple[int, int, Changed, Change]]:
        """Yields the row and position of each unclaimed change of these kinds, with the pair and the change."""
        for row, pair in enumerate(self.diff.changed):
            claims = self.claims[row]
            for position, change in enumerate(pair.changes):
                # Read when it is reached: callers claim changes of the same kinds while they iterate.
                if change.kind in kinds and claims[position] is None:
                    yield row, position, pair, change

    def draft(self, rank: int, statement: Statement) -> Draft:
        """A new draft, which is among the statements."""
        found = Draft(rank, statement)
        self.drafts.append(found)
        return found

    def claim(self, draft: Draft, instructions: Iterable[Instruction]) -> None:
        """Gives added or removed instructions without an owner to a draft."""
        for each in instructions:
            self.owner.setdefault(each, draft)

    def claim_change(self, draft: Draft, row: int, position: int) -> None:
        """Gives a change to a draft if it is unclaimed."""
        if self.claims[row][position] is None:
            self.claims[row][position] = draft

    def explain_header(self, *names: str) -> None:
        """Marks fields of the header as explained."""
        for name in names:
            self.header.pop(name, None)

    def settle(self) -> tuple[list[Statement], Fold]:
        """The statements with their rows, in the order of their drafts, and the rows that are left over."""
        changed: dict[Draft, list[Changed]] = {}
        unexplained: list[Changed] = []
        for pair, claims in zip(self.diff.changed, self.claims, strict=True):
            owners = [draft for draft in claims if draft is not None]
            # A row with one change that nothing explains is shown whole.
            if len(owners) < len(claims):
                unexplained.append(pair)
            else:
                # The lowest rank owns the row; other claims only say that it is explained.
                changed.setdefault(min(owners, key=_rank), []).append(pair)
        added, removed = self._owned(self.diff.added), self._owned(self.diff.removed)
        statements = [
            replace(
                draft.statement,
                fold=Fold(tuple(changed.get(draft, ())), tuple(added.get(draft, ())), tuple(removed.get(draft, ()))),
            )
            for draft in self.drafts
        ]
        left = (tuple(pair for pair in side if pair not in self.owner) for side in (self.diff.added, self.diff.removed))
        return statements, Fold(tuple(unexplained), *left)

    def _owned(self, instructions: Iterable[Instruction]) -> dict[Draft, list[Instruction]]:
        found: dict[Draft, list[Instruction]] = {}
        for each in instructions:
            if (draft := self.owner.get(each)) is not None:
                found.setdefault(draft, []).append(each)
        return found


def _rank(draft: Draft) -> int:
    return draft.rank
