"""The differences of two modules while they are being explained: who claims which change, and what is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.module_diff import Changed, ModuleDiff
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.analysis.statements.neighbors import Neighbors, fusion_callers
from hlo_cli.analysis.statements.statement import Fold, Statement
from hlo_cli.ir.instruction import Computation, Instruction


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
        self.claims: list[list[Draft | None]] = [[None] * len(each.changes) for each in comparison.changed]
        self.owner: dict[Instruction, Draft] = {}
        self.added = frozenset(comparison.added)
        self.removed = frozenset(comparison.removed)
        self._neighbors: dict[bool, Neighbors] = {}
        self._callers: dict[bool, dict[Computation, Instruction]] = {}
        self._users: dict[bool, dict[Instruction, list[Instruction]]] = {}
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
            self._callers[is_added] = fusion_callers(self.diff.after if is_added else self.diff.before)
        return self._callers[is_added].get(computation)

    def connected(
        self, seeds: Iterable[Instruction], follows: Callable[[Instruction], bool], *, is_added: bool
    ) -> list[Instruction]:
        """The seeds, and the unclaimed neighbors that follow from them, near and far."""
        return self.neighbors(is_added=is_added).connected(seeds, lambda each: each not in self.owner and follows(each))

    def open_changes(self, *kinds: str) -> Iterator[tuple[int, int, Changed, Change]]:
        """Yields the row and position of each unclaimed change of these kinds, with the pair and the change."""
        for row, each in enumerate(self.diff.changed):
            claims = self.claims[row]
            for at, change in enumerate(each.changes):
                if change.kind in kinds and claims[at] is None:
                    yield row, at, each, change

    def draft(self, rank: int, statement: Statement) -> Draft:
        """A new draft, which is among the statements."""
        found = Draft(rank, statement)
        self.drafts.append(found)
        return found

    def claim(self, draft: Draft, instructions: Iterable[Instruction]) -> None:
        """Gives added or removed instructions without an owner to a draft."""
        for each in instructions:
            self.owner.setdefault(each, draft)

    def claim_change(self, draft: Draft, row: int, at: int) -> None:
        """Gives a change to a draft if it is unclaimed."""
        if self.claims[row][at] is None:
            self.claims[row][at] = draft

    def explain_header(self, *names: str) -> None:
        """Marks fields of the header as explained."""
        for name in names:
            self.header.pop(name, None)

    def settle(self) -> tuple[list[Statement], Fold]:
        """The statements with their rows, in the order of their drafts, and the rows that are left over."""
        changed: dict[Draft, list[Changed]] = {}
        rest: list[Changed] = []
        for each, claims in zip(self.diff.changed, self.claims, strict=True):
            found = [draft for draft in claims if draft is not None]
            if len(found) < len(claims):
                rest.append(each)
            else:
                changed.setdefault(min(found, key=_rank), []).append(each)
        added, removed = self._owned(self.diff.added), self._owned(self.diff.removed)
        statements = [
            replace(
                draft.statement,
                fold=Fold(tuple(changed.get(draft, ())), tuple(added.get(draft, ())), tuple(removed.get(draft, ()))),
            )
            for draft in self.drafts
        ]
        left = (tuple(each for each in side if each not in self.owner) for side in (self.diff.added, self.diff.removed))
        return statements, Fold(tuple(rest), *left)

    def _owned(self, instructions: Iterable[Instruction]) -> dict[Draft, list[Instruction]]:
        found: dict[Draft, list[Instruction]] = {}
        for each in instructions:
            if (draft := self.owner.get(each)) is not None:
                found.setdefault(draft, []).append(each)
        return found


def _rank(draft: Draft) -> int:
    return draft.rank
