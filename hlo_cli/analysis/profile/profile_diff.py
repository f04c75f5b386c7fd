"""Which kernels of two profiles correspond, by the differences of their programs, and what times both took."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import prod
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.dataflow.executions import CONTROL_FLOW, contexts_of
from hlo_cli.analysis.matching.graph import content_of
from hlo_cli.analysis.matching.module_diff import ESTIMATES, Changed, ModuleDiff, diff, is_quiet
from hlo_cli.analysis.profile.operation_times import Drift, KernelTime, Ranges, Unit, has_steps, ranges_of, unit_times
from hlo_cli.analysis.profile.profile import MeasuredProgram, Operation, Profile
from hlo_cli.dataclass import brief_count, dataclass
from hlo_cli.displayed import Tabular, WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NAMING_ATTRIBUTES, attributes_with
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import expect

# --- kernels of the same code ---


_BACKEND_CONFIG: Final = "backend_config"
_ATTRIBUTES_WITHOUT_CODE: Final = (
    NAMING_ATTRIBUTES | (frozenset(attributes_with("annotates")) - {_BACKEND_CONFIG}) | {"channel_id"}
)
"""Attributes that name, annotate, or number, without an effect on the code of a kernel."""

_KEYS_WITHOUT_CODE: Final = ESTIMATES | {"force_earliest_schedule", "operation_queue_id", "wait_on_operation_queues"}
"""Keys of configurations with estimates, and with the order of kernels."""

_MAX_PRINTED: Final = 10
"""The most elements of a constant that XLA prints by default."""


class KernelBodies:
    """Numbers for kernels of any modules, which are equal if the kernels run the same code.

    The code is the operation with its shapes, layouts, and attributes, and that of the computations that it calls, in
    any order of their instructions. Names, metadata, shardings, and channel ids do not count, nor does what the kernel
    reads. Computations that control flow executes are kernels of their own.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e {{ {0} = f32[{1}] parameter(0)  ROOT c = f32[{1}] copy({0}) }}"
    >>> bodies = KernelBodies()
    >>> [bodies.number(parse_module(text.format(*each)).entry.root) for each in (("p", 4), ("q", 4), ("p", 5))]
    [3, 3, 6]
    """

    def __init__(self, *, has_large_constants: bool = True) -> None:
        """Without `has_large_constants`, a text omits the values of large constants, which do not count then."""
        self._has_large_constants = has_large_constants
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[Computation, int] = {}
        self._attributes: dict[str, int] = {}
        self._shapes: dict[int, tuple[Shape, int]] = {}

    def number(self, instruction: Instruction) -> int:
        """The number of the code of a kernel."""
        if instruction.opcode in CONTROL_FLOW:
            # Loops and calls are no kernels: what they run is compared by itself.
            return self._of((instruction.opcode,))
        self._read(instruction.called_computations)
        operands = tuple(
            self._shape(instruction.operand_shape(position)) for position in range(len(instruction.operands))
        )
        return self._of((self._content(instruction), operands))

    def _read(self, computations: tuple[Computation, ...]) -> None:
        """Numbers computations, the innermost first."""
        waiting = list(computations)
        entered: set[Computation] = set()
        while waiting:
            computation = waiting[-1]
            if computation not in self._computations and computation not in entered:
                entered.add(computation)
                inner = (each for i in computation.instructions for each in i.called_computations)
                waiting += [each for each in inner if each not in self._computations and each not in entered]
                continue
            waiting.pop()
            if computation not in self._computations:
                self._computations[computation] = self._of_computation(computation)

    def _of_computation(self, computation: Computation) -> int:
        """The number of a computation: that of its root, and those of all its instructions in any order."""
        numbers: dict[Instruction, int] = {}
        for instruction in computation.instructions:
            operands = tuple(
                (numbers.get(each, -1), instruction.operand_index(position))
                for position, each in enumerate(instruction.operands)
            )
            numbers[instruction] = self._of((self._content(instruction), operands))
        root = None if computation.root is None else numbers[computation.root]
        # In any order, as schedules differ between compilations of the same code.
        return self._of((root, tuple(sorted(numbers.values()))))

    def _content(self, instruction: Instruction) -> int:
        argument, text, *_ = content_of(instruction)
        # A text that omits constants cannot tell them apart, so the other one must not either.
        if not self._has_large_constants and instruction.opcode == opcodes.CONSTANT and _is_large(instruction):
            argument = ""
        attributes = self._attributes.get(text, -1)
        if attributes < 0:
            attributes = self._attributes[text] = self._of(_attributes(instruction))
        called = tuple(self._computations.get(each, -1) for each in instruction.called_computations)
        shape = self._shape(instruction.shape)
        return self._of((instruction.written_opcode, shape, argument.strip(), attributes, called))

    def _shape(self, shape: Shape) -> int:
        """The number of a shape; objects are kept, so that their ids stay theirs."""
        known = self._shapes.get(id(shape))
        if known is None:
            known = self._shapes[id(shape)] = shape, self._of(str(shape))
        return known[1]

    def _of(self, content: Hashable) -> int:
        return self._numbers.setdefault(content, len(self._numbers))


def _is_large(constant: Instruction) -> bool:
    """Whether a text may omit the value of a constant."""
    shape = constant.shape
    # hlo_instructions.cc prints constants of up to 10 elements, larger ones with print_large_constants.
    return not isinstance(shape, ArrayShape) or prod(shape.dimensions) > _MAX_PRINTED


def _attributes(instruction: Instruction) -> tuple[tuple[str, str], ...]:
    """The attributes that have an effect on the code, by name."""
    kept = ((name, value) for name, value in instruction.pairs if name not in _ATTRIBUTES_WITHOUT_CODE)
    return tuple(
        sorted((name, _config(instruction, value) if name == _BACKEND_CONFIG else value) for name, value in kept)
    )


def _config(instruction: Instruction, text: str) -> str:
    """A configuration without the keys that do not count."""
    if not any(key in text for key in _KEYS_WITHOUT_CODE):
        return text
    config = instruction.backend_config
    if config is None or not isinstance(config.json, Mapping):
        return text
    return str(sorted((key, str(value)) for key, value in config.json.items() if key not in _KEYS_WITHOUT_CODE))


# --- pairs of kernels ---
# Programs by name, their instructions by the differences of the modules.


_OMITTED_CONSTANT: Final = "{...}"
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
    bodies = KernelBodies(has_large_constants=not any(_OMITTED_CONSTANT in each.source.text for each in modules))
    programs = tuple(_program_pairs(before.programs, after.programs))
    before_by_program, after_by_program = _by_program(before), _by_program(after)
    kernels: list[KernelPair] = []
    for pair in (*programs, ProgramPair(None, None, None)):
        numbers_before = before_by_program.get(pair.before, ()) if pair.before or not pair.after else ()
        numbers_after = after_by_program.get(pair.after, ()) if pair.after or not pair.before else ()
        kernels += _KernelMatcher(before.operations, after.operations, pair.difference, bodies).pairs(
            numbers_before, numbers_after
        )
    return programs, tuple(sorted(kernels, key=_order))


def _order(pair: KernelPair) -> tuple[bool, int]:
    return pair.before is None, (pair.after or 0) if pair.before is None else pair.before


def _program_pairs(before: Sequence[MeasuredProgram], after: Sequence[MeasuredProgram]) -> Iterator[ProgramPair]:
    """Programs of one name: first those with equal arguments and results, then the others in their order."""
    for name in dict.fromkeys(_name(each) for each in (*before, *after)):
        unpaired_before, unpaired_after = ([each for each in side if _name(each) == name] for side in (before, after))
        # Equal interfaces first, as compilations may come in another order.
        for signature in dict.fromkeys(map(_signature, unpaired_before)):
            equal = [
                [each for each in side if signature and _signature(each) == signature]
                for side in (unpaired_before, unpaired_after)
            ]
            for x, y in zip(*equal, strict=False):
                unpaired_before.remove(x)
                unpaired_after.remove(y)
                yield _program_pair(x, y)
        for a, b in zip_longest(unpaired_before, unpaired_after):
            yield _program_pair(a, b)


def _program_pair(before: MeasuredProgram | None, after: MeasuredProgram | None) -> ProgramPair:
    module_before, module_after = (None if each is None else each.module for each in (before, after))
    return ProgramPair(
        before, after, None if module_before is None or module_after is None else diff(module_before, module_after)
    )


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
    numbers_by_program: dict[MeasuredProgram | None, list[int]] = {}
    for number, operation in enumerate(profile.operations):
        numbers_by_program.setdefault(operation.program, []).append(number)
    return numbers_by_program


class _KernelMatcher:
    """Pairs the kernels of one program."""

    def __init__(
        self,
        before: Sequence[Operation],
        after: Sequence[Operation],
        difference: ModuleDiff | None,
        bodies: KernelBodies,
    ) -> None:
        self._before, self._after, self._bodies = before, after, bodies
        self._pairs: Mapping[Instruction, Instruction] = difference.pairs if difference is not None else {}
        self._back = {b: a for a, b in self._pairs.items()}
        self._difference = difference
        self._rows: _DifferencesByComputation | None = None
        self._is_equal = difference is not None and not (difference.changed or difference.added or difference.removed)

    def pairs(self, before: Sequence[int], after: Sequence[int]) -> list[KernelPair]:
        """Pairs by instruction; then those of equal code that are left; then those without an instruction, by name."""
        before_by_instruction, after_by_instruction = (
            self._instructions(self._before, before),
            self._instructions(self._after, after),
        )
        matched = {
            a: after_by_instruction[j]
            for i, a in before_by_instruction.items()
            if (j := self._pairs.get(i)) is not None and j in after_by_instruction
        }
        left = [a for a in before if a not in matched]
        free = set(after) - set(matched.values())
        # Instructions of equal code before equal names: names are numbers that shift.
        for key_of in (self._code, self._name):
            groups: dict[object, list[int]] = {}
            for b in after:
                if b in free and (key := key_of(self._after[b])) is not None:
                    groups.setdefault(key, []).append(b)
            for group in groups.values():
                # Reversed, so that `pop` takes kernels in their order.
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
        return {i: number for number in chosen if (i := operations[number].instruction) is not None}

    def _code(self, operation: Operation) -> object:
        return None if operation.instruction is None else self._bodies.number(operation.instruction)

    def _name(self, operation: Operation) -> object:
        """The name of an operation without an instruction, or without differences to match it by."""
        return operation.name if operation.instruction is None or self._difference is None else None

    def _pair(self, a: int, b: int) -> KernelPair:
        instruction_before, instruction_after = self._before[a].instruction, self._after[b].instruction
        if instruction_before is None or instruction_after is None:
            return KernelPair(a, b, "unknown")
        # With no difference at all there is no need to read the code.
        if self._pairs.get(instruction_before) is instruction_after and self._is_equal:
            return KernelPair(a, b, "same")
        if self._bodies.number(instruction_before) == self._bodies.number(instruction_after):
            return KernelPair(a, b, "same")
        if self._rows is None and self._difference is not None:
            self._rows = _DifferencesByComputation(self._difference)
        return KernelPair(
            a,
            b,
            "changed",
            self._rows.between(instruction_before, instruction_after) if self._rows else BodyDifference(),
        )

    def _alone(self, operation: Operation) -> BodyDifference:
        """Where the other program computes what a kernel does."""
        instruction, difference = operation.instruction, self._difference
        if instruction is None or difference is None:
            return BodyDifference()
        if (other := self._pairs.get(instruction)) is not None:
            return BodyDifference(other=other, owner=_owner(difference.after, other))
        other = self._back.get(instruction)
        return BodyDifference(other=other, owner=None if other is None else _owner(difference.before, other))


def _owner(module: Module, instruction: Instruction) -> Instruction | None:
    """The kernel that an instruction is a part of; None if it is not inside one."""
    callers = contexts_of(module).callers.get(instruction.computation, ())
    # A computation with a caller that is no loop or branch is part of a kernel.
    return callers[0] if callers and callers[0].opcode not in CONTROL_FLOW else None


class _DifferencesByComputation:
    """The rows of a diff by the computations that they are in, on both sides."""

    def __init__(self, difference: ModuleDiff) -> None:
        self._of_kernel: dict[Instruction, list[Changed]] = {}
        self._old: dict[Computation, list[Changed]] = {}
        self._new: dict[Computation, list[Changed]] = {}
        self._added: dict[Computation, list[Instruction]] = {}
        self._removed: dict[Computation, list[Instruction]] = {}
        for each in difference.changed:
            if not is_quiet(each.changes):
                self._of_kernel.setdefault(each.after, []).append(each)
                self._old.setdefault(each.before.computation, []).append(each)
                self._new.setdefault(each.after.computation, []).append(each)
        for side, instructions in ((self._added, difference.added), (self._removed, difference.removed)):
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
    inside = dict.fromkeys(() if kernel.opcode in CONTROL_FLOW else kernel.called_computations)
    waiting = list(inside)
    while waiting:
        for instruction in waiting.pop().instructions:
            for called in instruction.called_computations:
                if called not in inside:
                    inside[called] = None
                    waiting.append(called)
    return inside


# --- the comparison ---
# The programs decide what changed, and times only measure it: kernels of unchanged code differ by the machine, unless
# one differs from the others.


CHANGED: tuple[Body, ...] = ("changed", "new", "gone")
"""What the code of a kernel is if the program changed it."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedKernel:
    """A kernel of two profiles, or of one; the time of a side is None if it did not run in a whole step there.

    `ranges` says how the ranges of its calls lie, None for a kernel of one profile. `is_outlier` is True for unchanged
    code whose time differs from that of the rest by the test of `Drift`.
    """

    before: Operation | None
    after: Operation | None
    body: Body
    difference: BodyDifference
    time_before: KernelTime | None
    time_after: KernelTime | None
    ranges: Ranges | None
    is_outlier: bool

    @property
    def operation(self) -> Operation:
        """The kernel after, else the one before."""
        operation = self.after or self.before
        assert operation is not None
        return operation

    @property
    def is_renamed(self) -> bool:
        """Whether the names of the two sides differ."""
        return self.before is not None and self.after is not None and self.before.name != self.after.name

    @property
    def seconds(self) -> tuple[float, float]:
        """The time before and after, per unit; 0 where it did not run."""
        before, after = ((0.0 if each is None else each.time) for each in (self.time_before, self.time_after))
        return before, after

    @property
    def difference_seconds(self) -> float:
        """How much longer it took after, per unit."""
        before, after = self.seconds
        return after - before


@dataclass(frozen=True, slots=True, eq=False)
class KernelSum:
    """How many kernels, with the sums of their times before and after, in seconds per unit."""

    kernels: int
    before: float
    after: float

    @property
    def difference(self) -> float:
        """How much longer they took after."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, eq=False)
class ProfileComparison(WithItems, Tabular):
    """Two profiles in times per `unit`, of which they have `units_before` and `units_after`.

    `drift` is the common ratio of times after to times before of unchanged code.
    """

    before: Profile
    after: Profile
    unit: Unit
    units_before: int
    units_after: int
    programs: tuple[ProgramPair, ...]
    kernels: tuple[ComparedKernel, ...]
    drift: float

    def __repr__(self) -> str:
        counts = f"{brief_count(len(self.kernels), 'kernels')} of {brief_count(len(self.programs), 'programs')}"
        return f"<ProfileComparison per {self.unit}: {counts}, drift {self.drift:.4g}>"

    def of(self, *bodies: Body) -> Iterator[ComparedKernel]:
        """The kernels whose code is one of these."""
        return (each for each in self.kernels if each.body in bodies)

    def sum_of(self, *bodies: Body) -> KernelSum:
        """The sum of the kernels whose code is one of these."""
        return self._sum(self.of(*bodies))

    def sum_of_changed_code(self) -> KernelSum:
        """The sum of the changed, new, and gone kernels of programs that both profiles have."""
        alone = self._alone
        return self._sum(each for each in self.of(*CHANGED) if each.operation.program not in alone)

    def sum_of_program(self, program: MeasuredProgram) -> KernelSum:
        """The sum of the kernels of a program of one of the profiles."""
        return self._sum(each for each in self.kernels if each.operation.program is program)

    @property
    def _alone(self) -> frozenset[MeasuredProgram | None]:
        """The programs that only one of the profiles has."""
        return frozenset(p.before or p.after for p in self.programs if p.before is None or p.after is None)

    @staticmethod
    def _sum(kernels: Iterable[ComparedKernel]) -> KernelSum:
        listed = list(kernels)
        seconds = [each.seconds for each in listed]
        return KernelSum(len(listed), sum(each[0] for each in seconds), sum(each[1] for each in seconds))

    @property
    def is_same_program(self) -> bool:
        """Whether all programs have modules that are equal but for names, metadata, and order."""
        return all(each.difference is not None and each.difference.is_empty for each in self.programs) and not any(
            self.of(*CHANGED, "unknown")
        )

    @property
    def has_few_calls(self) -> bool:
        """Whether no kernel of unchanged code has enough calls on both sides to be tested."""
        tested = [each.ranges for each in self.of("same", "unknown") if each.ranges is not None]
        return bool(tested) and all(each == "too few calls" for each in tested)


def compare_profiles(before: Profile, after: Profile) -> ProfileComparison:
    """Compares two profiles: per whole step if both have some, else per run of their largest program.

    Time and memory are linear in the events, besides the cost of `diff` for each pair of programs.

    >>> from hlo_cli import profile
    >>> found = profile("fixtures/traces/cpu/trace.xplane.pb")
    >>> compared = compare_profiles(found, found)
    >>> compared.is_same_program, compared.unit, [each.body for each in compared.kernels], compared.has_few_calls
    (True, 'run', ['same', 'same', 'same'], True)
    """
    for profile in (before, after):
        expect(Profile, "a profile", profile, "use hlo_cli.profile(trace)")
    per_step = has_steps(before) and has_steps(after)
    times_before, times_after = unit_times(before, per_step=per_step), unit_times(after, per_step=per_step)
    programs, pairs = matched_kernels(before, after)
    rows = [
        (
            pair,
            None if pair.before is None else times_before.times[pair.before],
            None if pair.after is None else times_after.times[pair.after],
        )
        for pair in pairs
    ]
    # Only kernels of unchanged code show the drift of the machine.
    calm = [(x.durations_ps, y.durations_ps) for pair, x, y in rows if pair.body in ("same", "unknown") and x and y]
    drift = Drift(calm)
    kernels = tuple(
        ComparedKernel(
            None if pair.before is None else before.operations[pair.before],
            None if pair.after is None else after.operations[pair.after],
            pair.body,
            pair.difference,
            x,
            y,
            None if x is None or y is None else ranges_of(x.durations_ps, y.durations_ps),
            pair.body in ("same", "unknown")
            and x is not None
            and y is not None
            and drift.is_outlier(x.durations_ps, y.durations_ps),
        )
        for pair, x, y in rows
    )
    # Two profiles in other units are compared as they are.
    unit: Unit = times_before.unit if times_before.unit == times_after.unit else "trace"
    return ProfileComparison(before, after, unit, times_before.count, times_after.count, programs, kernels, drift.ratio)
