"""The changed lines of two modules, by computation.

Old lines have the names of the new module, so that only real changes show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hlo_cli.analysis.matching.graph import renamed_value
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NAMING_ATTRIBUTES
from hlo_cli.report.diff import Diff, DiffLine, Hunk, Sign

_AROUND = 1


def text_diff(comparison: ModuleDiff, before: str, after: str, *, with_schedule: bool = False) -> Diff:
    """One hunk for each computation that differs: its new lines, each preceded by the lines removed there.

    With `with_schedule`, lines that moved in the schedule are shown in both places.
    """
    return _TextDiff(comparison, with_schedule=with_schedule).diff(before, after)


class _TextDiff:
    """Writes instructions; those of the old module get the names of their counterparts."""

    def __init__(self, comparison: ModuleDiff, *, with_schedule: bool) -> None:
        self._comparison = comparison
        self._changed = {each.after: each for each in comparison.changed}
        self._added = frozenset(comparison.added)
        self._names = {old.name: new.name for old, new in comparison.pairs.items()}
        self._names |= {old.name: new.name for old, new in comparison.computations.items()}
        self._before: dict[Instruction, Instruction] = {new: old for old, new in comparison.pairs.items()}
        self._moved = {each.before: each.after for each in comparison.moved} if with_schedule else {}
        self._moved_to = frozenset(self._moved.values())
        self._removed: dict[Computation, list[Instruction]] = {}
        for instruction in sorted((*comparison.removed, *self._moved), key=lambda each: each.index):
            self._removed.setdefault(instruction.computation, []).append(instruction)

    def diff(self, before: str, after: str) -> Diff:
        """The whole diff."""
        hunks: list[Hunk] = []
        folded = 0
        old_of = {new: old for old, new in self._comparison.computations.items()}
        for computation in sorted(
            self._comparison.after.computations, key=lambda computation: not computation.is_entry
        ):
            folded = _add(hunks, list(self._lines(computation, old_of.get(computation))), computation.name, folded)
        for computation, gone in self._removed.items():
            if computation not in self._comparison.computations:
                folded = _add(hunks, [self._line_gone(i) for i in gone], computation.name, folded)
        return Diff("changed_lines", tuple(hunks), folded=folded, old_name=before, new_name=after)

    def _lines(self, computation: Computation, old: Computation | None) -> Iterator[DiffLine]:
        """The lines of a computation; removed lines come before the first kept line that followed them."""
        gone = self._removed.get(old, []) if old is not None else []
        at = 0
        for instruction in computation.instructions:
            pair = self._before.get(instruction) if instruction not in self._moved_to else None
            while at < len(gone) and pair is not None and pair.computation is old and gone[at].index < pair.index:
                yield self._line_gone(gone[at])
                at += 1
            yield self._line(instruction)
        yield from map(self._line_gone, gone[at:])

    def _line(self, instruction: Instruction) -> DiffLine:
        number = _line_number(self._comparison.after, instruction)
        if instruction in self._added:
            return DiffLine("+", None, _text(instruction, {}), None, number)
        if instruction in self._moved_to:
            return self._line_of_both(">", self._before[instruction], instruction)
        if instruction in self._changed:
            return self._line_of_both("~", self._before[instruction], instruction)
        return DiffLine(" ", _text(instruction, {}), _text(instruction, {}), number, number)

    def _line_gone(self, instruction: Instruction) -> DiffLine:
        """The line of an instruction that was removed or moved away."""
        if (new := self._moved.get(instruction)) is not None:
            return self._line_of_both("<", instruction, new)
        text = _text(instruction, self._names)
        return DiffLine("-", text, None, _line_number(self._comparison.before, instruction), None)

    def _line_of_both(self, sign: Sign, before: Instruction, after: Instruction) -> DiffLine:
        changed = self._changed.get(after)
        with_metadata = changed is not None and any(change.kind == "metadata" for change in changed.changes)
        old = _text(before, self._names, with_metadata=with_metadata)
        new = _text(after, {}, with_metadata=with_metadata)
        numbers = _line_number(self._comparison.before, before), _line_number(self._comparison.after, after)
        return DiffLine(sign, old, new, *numbers)


def _line_number(module: Module, instruction: Instruction) -> int | None:
    span = instruction.span
    return module.source.position(span.start).line if span is not None and module.source.text else None


def _text(instruction: Instruction, names: Mapping[str, str], *, with_metadata: bool = False) -> str:
    """The text of an instruction with other names, and with metadata only if `with_metadata`."""
    taken = ", ".join(
        names.get(operand.name, operand.name) + "".join(f"#{i}" for i in instruction.operand_index(at))
        for at, operand in enumerate(instruction.operands)
    )
    attributes = "".join(
        f", {a.name}={renamed_value(a.value, names) if a.name in NAMING_ATTRIBUTES else a.value}"
        for a in instruction.attributes
        if a.name != "metadata" or with_metadata
    )
    name = names.get(instruction.name, instruction.name)
    root = "ROOT " if instruction.is_root else ""
    return f"{root}{name} = {instruction.shape} {instruction.opcode}({instruction.raw[0] or taken}){attributes}"


def _add(hunks: list[Hunk], lines: Sequence[DiffLine], heading: str, folded: int) -> int:
    """Adds the visible lines of a computation, in as many hunks as needed; returns the number of lines omitted."""
    near = {
        at
        for here, line in enumerate(lines)
        if line.sign != " "
        for at in range(max(here - _AROUND, 0), min(here + _AROUND + 1, len(lines)))
    }
    held: list[DiffLine] = []
    for at, line in enumerate(lines):
        if at in near:
            held.append(line)
            continue
        if held:
            hunks.append(Hunk(tuple(held), heading, folded))
            held, folded = [], 0
        folded += 1
    if held:
        hunks.append(Hunk(tuple(held), heading, folded))
        folded = 0
    return folded
