"""Pairs of kernels of two profiles: programs by name, their instructions by the differences of the modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW, contexts_of
from hlo_cli.analysis.matching.module_diff import Changed, ModuleDiff, diff, is_quiet
from hlo_cli.analysis.profile.profile import MeasuredProgram, Operation, Profile
from hlo_cli.analysis.profile_diff.kernel_bodies import KernelBodies
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

_OMITTED: Final = "{...}"
"""What texts have in place of a large constant."""
Body: TypeAlias = Literal["same", "changed", "new", "gone", "unknown"]
"""Whether the code of a kernel is the same; unknown if a module is missing."""


@dataclass(frozen=True, slots=True)
class ProgramPair:
    """A program of both profiles, or of one, with the differences of its modules, None if one of them is missing."""

    before: MeasuredProgram | None
    after: MeasuredProgram | None
    difference: ModuleDiff | None


@dataclass(frozen=True, slots=True)
class BodyDifference:
    """The differences in the code of a kernel: instructions changed, added, and removed.

    `other` is the instruction of the other program that computes what a new or gone kernel does, `owner` the kernel
    that it is a part of, None if it is not timed.
    """

    changed: tuple[Changed, ...] = ()
    added: tuple[Instruction, ...] = ()
    removed: tuple[Instruction, ...] = ()
    other: Instruction | None = None
    owner: Instruction | None = None


@dataclass(frozen=True, slots=True)
class KernelPair:
    """A kernel of two profiles as places in their operations, None where it is not timed."""

    before: int | None
    after: int | None
    body: Body
    difference: BodyDifference = BodyDifference()


@no_garbage_collection()
def matched_kernels(before: Profile, after: Profile) -> tuple[tuple[ProgramPair, ...], tuple[KernelPair, ...]]:
    """The programs and the kernels of two profiles, matched or not, in the order of the operations before."""
    modules = [each.module for each in (*before.programs, *after.programs) if each.module is not None]
    bodies = KernelBodies(has_large_constants=not any(_OMITTED in each.source.text for each in modules))
    programs = tuple(_program_pairs(before.programs, after.programs))
    ones, twos = _by_program(before), _by_program(after)
    found: list[KernelPair] = []
    for pair in (*programs, ProgramPair(None, None, None)):
        one = ones.get(pair.before, ()) if pair.before or not pair.after else ()
        two = twos.get(pair.after, ()) if pair.after or not pair.before else ()
        found += _Kernels(before.operations, after.operations, pair.difference, bodies).pairs(one, two)
    return programs, tuple(sorted(found, key=_order))


def _order(pair: KernelPair) -> tuple[bool, int]:
    return pair.before is None, (pair.after or 0) if pair.before is None else pair.before


def _program_pairs(before: Sequence[MeasuredProgram], after: Sequence[MeasuredProgram]) -> Iterator[ProgramPair]:
    """Programs of one name: first those with equal arguments and results, then the others in their order."""
    for name in dict.fromkeys(_name(each) for each in (*before, *after)):
        one, two = ([each for each in side if _name(each) == name] for side in (before, after))
        for signature in dict.fromkeys(map(_signature, one)):
            equal = [[each for each in side if signature and _signature(each) == signature] for side in (one, two)]
            for x, y in zip(*equal, strict=False):
                one.remove(x)
                two.remove(y)
                yield _pair(x, y)
        for a, b in zip_longest(one, two):
            yield _pair(a, b)


def _pair(before: MeasuredProgram | None, after: MeasuredProgram | None) -> ProgramPair:
    one, two = (None if each is None else each.module for each in (before, after))
    return ProgramPair(before, after, None if one is None or two is None else diff(one, two))


def _name(program: MeasuredProgram) -> str:
    return program.name.partition("(")[0]


def _signature(program: MeasuredProgram) -> str:
    """The shapes of arguments and results as text; empty if the module is missing."""
    if program.module is None or not program.module.has_entry:
        return ""
    entry = program.module.entry
    result = entry.root.shape.to_string(layout=False) if entry.root is not None else ""
    return " ".join((*(each.shape.to_string(layout=False) for each in entry.parameters), "->", result))


def _by_program(profile: Profile) -> Mapping[MeasuredProgram | None, list[int]]:
    found: dict[MeasuredProgram | None, list[int]] = {}
    for at, operation in enumerate(profile.operations):
        found.setdefault(operation.program, []).append(at)
    return found


class _Kernels:
    """Pairs the kernels of one program."""

    def __init__(
        self, before: Sequence[Operation], after: Sequence[Operation], found: ModuleDiff | None, bodies: KernelBodies
    ) -> None:
        self._before, self._after, self._bodies = before, after, bodies
        self._pairs: Mapping[Instruction, Instruction] = found.pairs if found is not None else {}
        self._back = {b: a for a, b in self._pairs.items()}
        self._found = found
        self._rows: _Rows | None = None
        self._is_equal = found is not None and not (found.changed or found.added or found.removed)

    def pairs(self, before: Sequence[int], after: Sequence[int]) -> list[KernelPair]:
        """Pairs by instruction; then those of equal code that are left; then those without an instruction, by name."""
        one, two = self._instructions(self._before, before), self._instructions(self._after, after)
        matched = {a: two[j] for i, a in one.items() if (j := self._pairs.get(i)) is not None and j in two}
        left = [a for a in before if a not in matched]
        free = set(after) - set(matched.values())
        for key_of in (self._code, self._name):
            groups: dict[object, list[int]] = {}
            for b in after:
                if b in free and (key := key_of(self._after[b])) is not None:
                    groups.setdefault(key, []).append(b)
            for group in groups.values():
                group.reverse()
            for a in left:
                if a not in matched and (same := groups.get(key_of(self._before[a]))):
                    matched[a] = same.pop()
            free -= set(matched.values())
        pairs = [self._pair(a, matched[a]) for a in before if a in matched]
        pairs += [KernelPair(a, None, "gone", self._alone(self._before[a])) for a in left if a not in matched]
        return pairs + [KernelPair(None, b, "new", self._alone(self._after[b])) for b in after if b in free]

    @staticmethod
    def _instructions(operations: Sequence[Operation], chosen: Iterable[int]) -> dict[Instruction, int]:
        return {i: at for at in chosen if (i := operations[at].instruction) is not None}

    def _code(self, operation: Operation) -> object:
        return None if operation.instruction is None else self._bodies.number(operation.instruction)

    def _name(self, operation: Operation) -> object:
        """The name of an operation without an instruction, or without differences to match it by."""
        return operation.name if operation.instruction is None or self._found is None else None

    def _pair(self, a: int, b: int) -> KernelPair:
        one, two = self._before[a].instruction, self._after[b].instruction
        if one is None or two is None:
            return KernelPair(a, b, "unknown")
        if self._pairs.get(one) is two and self._is_equal:
            return KernelPair(a, b, "same")
        if self._bodies.number(one) == self._bodies.number(two):
            return KernelPair(a, b, "same")
        if self._rows is None and self._found is not None:
            self._rows = _Rows(self._found)
        return KernelPair(a, b, "changed", self._rows.between(one, two) if self._rows else BodyDifference())

    def _alone(self, operation: Operation) -> BodyDifference:
        """Where the other program computes what a kernel does."""
        instruction, found = operation.instruction, self._found
        if instruction is None or found is None:
            return BodyDifference()
        if (other := self._pairs.get(instruction)) is not None:
            return BodyDifference(other=other, owner=_owner(found.after, other))
        other = self._back.get(instruction)
        return BodyDifference(other=other, owner=None if other is None else _owner(found.before, other))


def _owner(module: Module, instruction: Instruction) -> Instruction | None:
    """The kernel that an instruction is a part of; None if it is not inside one."""
    callers = contexts_of(module).callers.get(instruction.computation, ())
    return callers[0] if callers and callers[0].opcode not in CONTROL_FLOW else None


class _Rows:
    """The rows of a diff by the computations that they are in, on both sides."""

    def __init__(self, found: ModuleDiff) -> None:
        self._of_kernel: dict[Instruction, list[Changed]] = {}
        self._old: dict[Computation, list[Changed]] = {}
        self._new: dict[Computation, list[Changed]] = {}
        self._added: dict[Computation, list[Instruction]] = {}
        self._removed: dict[Computation, list[Instruction]] = {}
        for each in found.changed:
            if not is_quiet(each.changes):
                self._of_kernel.setdefault(each.after, []).append(each)
                self._old.setdefault(each.before.computation, []).append(each)
                self._new.setdefault(each.after.computation, []).append(each)
        for side, instructions in ((self._added, found.added), (self._removed, found.removed)):
            for instruction in instructions:
                side.setdefault(instruction.computation, []).append(instruction)

    def between(self, before: Instruction, after: Instruction) -> BodyDifference:
        """The rows inside a kernel, on either side."""
        old, new = _computations(before), _computations(after)
        changed = [each for c in new for each in self._new.get(c, ())]
        changed += [each for c in old for each in self._old.get(c, ()) if each.after.computation not in new]
        changed += self._of_kernel.get(after, ())
        return BodyDifference(
            tuple(changed),
            tuple(each for c in new for each in self._added.get(c, ())),
            tuple(each for c in old for each in self._removed.get(c, ())),
        )


def _computations(kernel: Instruction) -> dict[Computation, None]:
    """The computations that run inside a kernel."""
    found = dict.fromkeys(() if kernel.opcode in CONTROL_FLOW else kernel.called_computations)
    waiting = list(found)
    while waiting:
        for instruction in waiting.pop().instructions:
            for called in instruction.called_computations:
                if called not in found:
                    found[called] = None
                    waiting.append(called)
    return found
