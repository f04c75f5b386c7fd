"""Which computations of two programs ran, and with which arguments those run that did not.

A comparison says nothing of a branch that was never taken, nor of the body of a loop without iterations. What decides
on them is followed back to the parameters of the entry, which get other values until everything has run. Nor does it
tell LT from LE where operands were never equal: their parameters get whole numbers that make them equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isqrt, sqrt
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.arguments import MAX_INTEGER
from hlo_cli.analysis.semantics.rules import called
from hlo_cli.analysis.semantics.typed_values import Array, Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ArrayLiteral
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, ShapeIndex

MAX_CHOICES: Final = 24
"""The largest number of argument sets for what did not run: enough for every branch of all models at hand."""
_MAX_CONSTANTS: Final = 16
"""The largest number of constants of one type that are tried as arguments."""
_OPTIONAL: Final = frozenset((opcodes.CONDITIONAL, opcodes.WHILE, "scan"))
"""Opcodes that may run a computation which they call, or not."""


# --- what ran ---

Side: TypeAlias = Literal["first", "second"]
"""One of the two modules."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of two programs was compared: the computations of both that ran, and the number of argument sets.

    `missing` are those that did not run with any arguments; `uncompared` are the results with elements that are NaN in
    both programs, or that have no elements, with all arguments. `unmet` are the comparisons by order of both whose
    operands were never equal; `undecided` are pairs of such comparisons that differ where operands are equal. `endless`
    is the module that does not finish with arguments with which the other one soon does. `is_given` says that arguments
    were given, hence not varied. `kept_nan` counts the elements that are NaN in both programs with all arguments, which
    agree as constants made them.
    """

    ran: int = 0
    computations: int = 0
    argument_sets: int = 1
    missing: tuple[Computation, ...] = ()
    uncompared: tuple[ShapeIndex, ...] = ()
    unmet: tuple[Instruction, ...] = ()
    undecided: tuple[tuple[Instruction, Instruction], ...] = ()
    endless: tuple[Side, Choice] | None = None
    is_given: bool = False
    kept_nan: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything was compared that is known to matter."""
        return not (self.missing or self.uncompared or self.undecided or self.endless)


def missing_in(module: Module, ran: Iterable[Computation]) -> tuple[Computation, ...]:
    """The computations that the entry reaches and that did not run, in the order of the text.

    `ran` are those that ran one instruction after another. A computation of scalars runs with the instruction that
    calls it.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = s8[] parameter(0)  ROOT n = s8[] not(p) }  g { p = s8[] parameter(0)  ROOT n = s8[] abs(p) }
    ... ENTRY e { a = s8[] parameter(0)  c = pred[] parameter(1)
    ...   ROOT d = s8[] conditional(c, a, a), true_computation=f, false_computation=g }'''
    >>> module = parse_module(text)
    >>> [each.name for each in missing_in(module, module.computations[:1])]
    ['g']
    """
    direct = set(ran)
    reached, pending = {module.entry}, [module.entry]
    while pending:
        for instruction in pending.pop().instructions:
            for callee in instruction.called_computations:
                # A branch that did not run is not entered either: what it calls is missing as a consequence, and named
                # by it.
                if callee not in reached and (callee in direct or not _is_optional(instruction, callee)):
                    reached.add(callee)
                    pending.append(callee)
    return tuple(callee for callee in executions_of(module) if callee not in reached)


def _is_optional(instruction: Instruction, computation: Computation) -> bool:
    """Whether a caller may not run a computation: a while loop always runs its condition."""
    if instruction.opcode == opcodes.WHILE:
        return computation is not called(instruction, "condition")
    return instruction.opcode in _OPTIONAL


_TRUE_IF_EQUAL: Final[dict[str | None, bool]] = {"LT": False, "GT": False, "LE": True, "GE": True}
"""Directions by order, and whether they are true for equal operands."""
_MAX_FOLLOWED: Final = 256
"""So many comparisons are followed back to parameters: one without any may take as long as reading the module."""


def unmet_in(module: Module, ran: Collection[Computation], met: Collection[Instruction]) -> tuple[Instruction, ...]:
    """The comparisons by order that ran and are not among the `met`, whose operands were equal.

    Those that no argument changes are left out: what they compare is always the same.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { a = f32[4] parameter(0)  b = f32[4] iota(), iota_dimension=0"
    >>> text += " c = pred[4] compare(a, b), direction=LT  ROOT d = pred[4] compare(b, b), direction=LT }"
    >>> module = parse_module(text)
    >>> unmet_in(module, module.computations, ())
    (<compare c>,)
    """
    compared = cached_per_module(_comparisons, module)
    return tuple(each for each in compared if each.computation in ran and each not in met)


def _comparisons(module: Module) -> tuple[Instruction, ...]:
    """The comparisons by order that depend on arguments."""
    comparisons = [
        each
        for computation in executions_of(module)
        for each in computation.instructions
        if each.opcode == opcodes.COMPARE and each.attribute("direction") in _TRUE_IF_EQUAL
    ]
    callers = _callers(module) if comparisons else {}
    followed = (
        each
        for each in comparisons[:_MAX_FOLLOWED]
        if any(
            value.parameter_number is not None and value.computation is module.entry
            for value in _all_origins(_compared(each, callers), callers)
        )
    )
    # Comparisons past the limit are kept: unmet is the cautious answer.
    return (*followed, *comparisons[_MAX_FOLLOWED:])


def _compared(
    comparison: Instruction, callers: Mapping[Computation, Sequence[Instruction]]
) -> Iterator[tuple[Instruction, int | None]]:
    """The operands of a comparison, and what decides how often it runs."""
    for at, operand in enumerate(comparison.operands):
        yield operand, next(iter(comparison.operand_index(at)), None)
    seen, pending = {comparison.computation}, [comparison.computation]
    while pending:
        for caller in callers.get(pending.pop(), ()):
            yield from _decisions(caller)
            if caller.computation not in seen:
                seen.add(caller.computation)
                pending.append(caller.computation)


def undecided_among(
    pairs: Iterable[tuple[Instruction, Instruction]],
    ran: Sequence[Collection[Computation]],
    met: Sequence[Collection[Instruction]],
) -> tuple[tuple[Instruction, Instruction], ...]:
    """The pairs of comparisons of two programs that differ if operands are equal, which nothing has looked at.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { a = f32[] parameter(0)  ROOT c = pred[] compare(a, a), direction=LT }"
    >>> one, two = (parse_module(each) for each in (text, text.replace("LT", "GE")))
    >>> undecided_among([(one.entry.root, two.entry.root)], [one.computations, two.computations], [(), ()])
    ((<compare c>, <compare c>),)
    """
    return tuple(
        pair
        for pair in pairs
        # LT and LE (or GT and GE) in place of each other are the only pair that equal operands tell apart.
        if {_TRUE_IF_EQUAL.get(each.attribute("direction")) for each in pair} == {False, True}
        and all(each.computation in its for each, its in zip(pair, ran, strict=True))
        and not all(each in its for each, its in zip(pair, met, strict=True))
    )


# --- what decides on a computation ---


class _Deciding(NamedTuple):
    """The numbers of the parameters of the entry that decide whether computations run, and the constants nearby."""

    parameters: frozenset[int]
    constants: Mapping[str, Sequence[float]]


def _deciding(module: Module, missing: Sequence[Computation]) -> _Deciding:
    callers = _callers(module)
    return _sources(module, [each for one in missing for caller in callers.get(one, ()) for each in _decisions(caller)])


def _callers(module: Module) -> Mapping[Computation, Sequence[Instruction]]:
    callers: dict[Computation, list[Instruction]] = {}
    for computation in executions_of(module):
        for instruction in computation.instructions:
            for each in instruction.called_computations:
                callers.setdefault(each, []).append(instruction)
    return callers


def _sources(
    module: Module,
    values: Iterable[tuple[Instruction, int | None]],
    callers: Mapping[Computation, Sequence[Instruction]] | None = None,
) -> _Deciding:
    """The parameters of the entry, and the constants, that values are computed of."""
    parameters: set[int] = set()
    constants: dict[str, list[float]] = {}
    for instruction in _all_origins(values, _callers(module) if callers is None else callers):
        if instruction.opcode == opcodes.CONSTANT:
            _add_constant(instruction, constants)
        number = instruction.parameter_number
        if number is not None and instruction.computation is module.entry:
            parameters.add(number)
    return _Deciding(frozenset(parameters), constants)


def _all_origins(
    values: Iterable[tuple[Instruction, int | None]], callers: Mapping[Computation, Sequence[Instruction]]
) -> Iterator[Instruction]:
    """The instructions that values are computed of, themselves included."""
    pending = list(values)
    visited = set(pending)
    while pending:
        instruction, index = pending.pop()
        yield instruction
        for following in _origins(instruction, index, callers):
            if following not in visited:
                visited.add(following)
                pending.append(following)


def _decisions(caller: Instruction) -> Iterator[tuple[Instruction, int | None]]:
    """The value that says whether a caller runs what it calls."""
    if caller.opcode == opcodes.CONDITIONAL:
        yield caller.operands[0], next(iter(caller.operand_index(0)), None)
    elif caller.opcode == opcodes.WHILE and (root := called(caller, "condition").root) is not None:
        yield root, None


def _origins(
    instruction: Instruction, index: int | None, callers: Mapping[Computation, Sequence[Instruction]]
) -> Iterator[tuple[Instruction, int | None]]:
    """What the value of an instruction, or an element of it, is computed of."""
    operands = instruction.operands
    if instruction.parameter_number is not None:
        # A parameter of a called computation is the operand of each caller, and for loops what the iteration before
        # left.
        for caller in callers.get(instruction.computation, ()):
            yield from _bound_values(caller, instruction, index)
        return
    if instruction.opcode == opcodes.TUPLE and index is not None and index < len(operands):
        operands = (operands[index],)
        index = None
    elif instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
        index = instruction.integer("index")
    elif instruction.opcode in (opcodes.WHILE, opcodes.CONDITIONAL, opcodes.CALL, opcodes.FUSION):
        # A loop or branch is decided by its condition as well as by its operands.
        yield from _decisions(instruction)
        yield from ((each.root, index) for each in instruction.called_computations if each.root is not None)
    elif instruction.opcode != opcodes.OPT_BARRIER:
        index = None
    if instruction.opcode not in (opcodes.CALL, opcodes.FUSION, opcodes.CONDITIONAL):
        for at, operand in enumerate(operands):
            yield operand, next(iter(instruction.operand_index(at)), index)


def _bound_values(
    caller: Instruction, parameter: Instruction, index: int | None
) -> Iterator[tuple[Instruction, int | None]]:
    """The operands of a caller that are the value of a parameter, and what the iteration before makes of it."""
    operands = caller.operands
    if caller.opcode == opcodes.WHILE:
        yield operands[0], index
        if (root := called(caller, "body").root) is not None:
            yield root, index
    elif caller.opcode == opcodes.CONDITIONAL:
        operand_number = caller.called_computations.index(parameter.computation) + 1
        if operand_number < len(operands):
            yield operands[operand_number], index
    elif caller.opcode in (opcodes.CALL, opcodes.FUSION) and (parameter.parameter_number or 0) < len(operands):
        yield operands[parameter.parameter_number or 0], index
    else:
        yield from ((each, None) for each in operands)


def _add_constant(instruction: Instruction, constants: dict[str, list[float]]) -> None:
    shape, literal = instruction.shape, instruction.literal
    if not isinstance(shape, ArrayShape) or not isinstance(literal, ArrayLiteral) or shape.elements != 1:
        return
    kind = "float" if shape.element_type.kind == "float" else "integer"
    value = literal.array().reshape(()).item()
    known = constants.setdefault(kind, [])
    if isinstance(value, int | float) and np.isfinite(value) and value not in known and len(known) < _MAX_CONSTANTS:
        known.append(float(value))


# --- other arguments ---


@dataclass(frozen=True, slots=True)
class Sums:
    """Whole numbers with small sums, so that sums meet the `level` with which they are compared.

    As many numbers are 1 as are -1, in each row if `by_rows`: their sum is zero. Parameters that decide are the level
    on average if `is_mean`. Else so many of their elements are 1, and the others zero, so that the sum of all elements
    is the level, and that of their squares, too; with fewer elements, one is the level. With `is_everywhere`, all are.
    `kinds` are the kinds of arrays that are compared: others that decide stay as they are, as they may say how often.
    """

    kinds: str
    level: int | None = None
    is_mean: bool = False
    is_everywhere: bool = False
    by_rows: bool = False

    def array(self, like: Array, random: np.random.Generator, *, is_deciding: bool) -> Array:
        """An array like another one: without negative numbers if that has none, as a program may need that.

        >>> like, random = np.array([0.3, -0.7, 1.2, 4.0]), np.random.default_rng(0)
        >>> Sums("f", 5).array(like, random, is_deciding=True).tolist()
        [0.0, 0.0, 0.0, 5.0]
        >>> sorted(Sums("f", 5, is_mean=True).array(like, random, is_deciding=True).tolist())
        [4.0, 5.0, 5.0, 6.0]
        """
        is_signed = bool((like < 0).any())
        values = self._balanced(like.shape, random) if is_signed else np.clip(np.rint(like), 0, 2)
        if is_deciding and self.level is not None:
            if self.is_mean:
                values = values + self.level
            elif self.is_everywhere:
                values = np.full(like.shape, self.level)
            else:
                is_spread = 0 < self.level <= like.size
                places = random.permutation(like.size)[: self.level if is_spread else 1]
                values = np.zeros(like.shape)
                values.reshape(-1)[places] = 1 if is_spread else self.level
        if like.dtype.kind in "iu":
            range_of_type = np.iinfo(like.dtype)
            # Types such as s64 hold more than loops can run to.
            values = np.clip(values, max(int(range_of_type.min), -_MAX_BOUND), min(int(range_of_type.max), _MAX_BOUND))
        return np.asarray(values).astype(like.dtype)

    def _balanced(self, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
        """A third 1, a third -1, and the others zero, in random order; a number alone is 1."""
        length = sizes[-1] if self.by_rows and sizes else int(np.prod(sizes))
        # A third of each sign: sums of zero exist for any length, and zeros are compared as well.
        ones = max(length // 3, 1)
        row = np.zeros(length)
        row[-ones:] = -1
        row[:ones] = 1
        rows = np.broadcast_to(row, (int(np.prod(sizes)) // max(length, 1), length))
        return np.asarray(random.permuted(rows, axis=1).reshape(sizes))


@dataclass(frozen=True, slots=True)
class Choice:
    """How arguments are made: with a seed of their own, whole floats or not, and others for parameters that decide.

    `number` counts the choices, from 1; `truths` has a bit for each predicate that decides. With `is_initial`, matrices
    have the size of an initialization. Two programs with the same parameters get the same arguments.
    """

    number: int
    seed: int
    words: str
    is_whole: bool = False
    is_positive: bool = False
    is_initial: bool = False
    factor: float = 1.0
    bounds: tuple[int, ...] = ()
    is_low: bool = False
    sizes: tuple[tuple[int, int], ...] = ()
    truths: int = 0
    deciding: frozenset[int] = frozenset()
    floats: tuple[float, ...] = ()
    integers: tuple[int, ...] = ()
    sums: Sums | None = None

    def applied(self, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """The arguments of this choice, made of those of its seed.

        >>> choice = Choice(1, 0, "", is_whole=True)
        >>> [each.tolist() for each in choice.applied((np.array([0.4, -1.7]), np.array([True])))]
        [[0.0, -2.0], [False]]
        """
        return tuple(self._applied(value, at) for at, value in enumerate(arguments))

    def _applied(self, value: Value, parameter: int) -> Value:
        if isinstance(value, tuple):
            return tuple(self._applied(each, parameter) for each in value)
        if value is None or not (array := np.asarray(value)).size:
            return value
        place = sorted(self.deciding).index(parameter) if parameter in self.deciding else None
        if self.sums is not None and array.dtype.kind in ("f" if place is None else self.sums.kinds):
            return self.sums.array(array, np.random.default_rng([self.seed, parameter]), is_deciding=place is not None)
        match array.dtype.kind:
            case "b":
                is_set = place is not None
                return np.full(array.shape, bool(self.truths >> (place or 0) & 1)) if is_set else ~array
            case "i" | "u":
                if (size := dict(self.sizes).get(parameter)) is not None:
                    return np.full(array.shape, size, array.dtype)
                if place is not None and self.integers:
                    return self._integers(array, place)
                return self._near_bounds(array, parameter) if self.bounds else array
            case "f":
                if place is not None:
                    return self._floats(array, place)
                values = np.clip(np.rint(array), -2, 2) if self.is_whole else array
                values = np.abs(values) if self.is_positive else values
                values = values / sqrt(array.shape[-2]) if self.is_initial and array.ndim > 1 else values
                return np.asarray(values * self.factor).astype(array.dtype)
        return array

    def _integers(self, array: Array, place: int) -> Array:
        """A number for all elements, another one for each choice and parameter."""
        # Steps of 5 and 3 (for floats) are coprime to most counts of values, so that parameters vary independently.
        value = self.integers[(self.truths + 5 * place) % len(self.integers)]
        held = np.iinfo(array.dtype)
        return np.full(array.shape, min(max(value, int(held.min)), int(held.max)), array.dtype)

    def _near_bounds(self, array: Array, parameter: int) -> Array:
        """Each of the bounds as often as another, in any order; a number alone is below all if `is_low`."""
        range_of_type = np.iinfo(array.dtype)
        bounds = (min(self.bounds),) if self.is_low and array.size == 1 else self.bounds
        values = np.resize(np.array(bounds, np.int64), array.size)
        if array.size < len(bounds):
            values = np.random.default_rng([self.seed, parameter]).permutation(np.array(bounds, np.int64))[: array.size]
        order = np.random.default_rng([self.seed, parameter]).permutation(array.size)
        return (
            np.clip(
                values[order], max(int(range_of_type.min), -_MAX_BOUND - 1), min(int(range_of_type.max), _MAX_BOUND + 1)
            )
            .astype(array.dtype)
            .reshape(array.shape)
        )

    def _floats(self, array: Array, place: int) -> Array:
        """Other signs and sizes, and what is near the constants that decide."""
        # The ways come in the order of use: sign, size, zero, and overflow of an exponential.
        ways = [np.abs(array), -np.abs(array), 100 * array, array / 100, np.zeros_like(array), 1e4 * np.abs(array)]
        for each in self.floats:
            near = [array + each, np.full_like(array, 2 * each), np.full_like(array, each), np.full_like(array, -each)]
            ways = [*near, *ways]
        return np.asarray(ways[(self.truths + 3 * place) % len(ways)]).astype(array.dtype)


_LARGE: Final = 1024.0
"""By which factor floats are large or small: squares pass most bounds, and epsilons count."""
_USUAL: Final = (0, 1, 2, -1, 3, 8, 100)
"""Integers that decide in most programs: counts, indices of branches, and steps."""


def choices(
    modules: Sequence[Module],
    seed: int,
    missing: Callable[[], Sequence[Sequence[Computation]]],
    is_nan: Callable[[], bool],
    *,
    is_infinite: bool = False,
    is_large: bool = False,
    unmet: Callable[[], Sequence[Sequence[Instruction]]] = lambda: (),
) -> Iterator[Choice]:
    """Choices of arguments: whole floats first, at which comparisons meet equal numbers.

    Before them, if results are large, such as gradients through several layers of weights of N(0, 1), matrices are as
    large as `jax.nn.initializers` make them, over √(size of dimension -2), so that no term vanishes beside another.

    Then those that may run what is `missing` of each module, and small floats that are not negative while NaN hides
    elements, or if they are infinite. When all has run, a few more follow, with which comparisons come out in both
    ways, and indices are others; and at last those with which comparisons that are `unmet` may meet equal sums.
    """
    number = 1
    if is_large:
        yield Choice(number, seed, "matrices of the size of an initialization", is_initial=True)
        number += 1
    yield Choice(number, seed, "whole floats, predicates inverted", is_whole=True)
    if is_infinite or is_nan():
        number += 1
        # 1/16 keeps exponentials and squares finite, which made infinity or NaN.
        yield Choice(number, seed + 1, "small floats that are not negative", is_positive=True, factor=1 / 16)
    for choice in _revealing(modules, seed, missing(), is_nan=is_nan()):
        if not any(missing()) and not is_nan():
            break
        number += 1
        yield replace(choice, number=number)
    yield Choice(number + 1, seed + 1, "large floats", factor=_LARGE)
    yield Choice(number + 2, seed + 2, "small floats", factor=1 / _LARGE)
    yield Choice(number + 3, seed + 3, f"seed {seed + 3}")
    if sizes := _full_sizes(modules):
        yield Choice(number + 4, seed + 4, "dimensions of their largest sizes", sizes=sizes)
    # Sizes beyond a bound are undefined, so integers near bounds are not tried where sizes are.
    if not _has_sizes(modules):
        for further, (where, by) in enumerate((("at", (0,)), ("above", (0, 1)), ("below", (0, -1)))):
            bounds = _bounds(modules, by)
            words, is_low = f"integers {where} bounds", where == "below"
            yield Choice(number + 4 + further, seed + 4 + further, words, bounds=bounds, is_low=is_low)
    number += _OTHERS
    for further, choice in enumerate(_meeting(modules, unmet())):
        if not any(unmet()):
            break
        yield replace(choice, number=number + further, seed=seed + number + further)


_OTHERS: Final = 7
"""The number of choices that follow when all has run, before those for comparisons that did not meet equal sums."""
_MAX_LEVELS: Final = 4
"""The largest number of levels that are tried: each takes three runs of both programs."""


def _meeting(modules: Sequence[Module], unmet: Sequence[Sequence[Instruction]]) -> Iterator[Choice]:
    """Choices with which operands of comparisons may be equal: sums are zero, or a number that they are compared with.

    Those of floats come first, then those of integers, each of which leave the parameters of the others as they are.
    """
    for kinds, names in (("f", ("float",)), ("iu", ("signed", "unsigned"))):
        compared = [
            [
                one
                for one in each
                if isinstance(shape := one.operand_shape(0), ArrayShape) and shape.element_type.kind in names
            ]
            for each in unmet
        ]
        if (chosen := _parameters_of(modules, compared)) and any(compared):
            yield from _with_sums(kinds, chosen, [one for each in compared for one in each])


def _parameters_of(modules: Sequence[Module], compared: Sequence[Sequence[Instruction]]) -> frozenset[int]:
    """The numbers of the parameters that comparisons depend on, but for sizes of dimensions."""
    parameters: set[int] = set()
    for module, each in zip(modules, compared, strict=False):
        callers = _callers(module)
        values = {value: None for one in each[:_MAX_FOLLOWED] for value in _compared(one, callers)}
        parameters |= _sources(module, values, callers).parameters
    return frozenset(parameters - {number for number, _ in _full_sizes(modules)} if parameters else ())


def _with_sums(kinds: str, chosen: frozenset[int], compared: Sequence[Instruction]) -> Iterator[Choice]:
    """Choices with sums of zero, of the numbers in comparisons, and of their square roots, as of norms."""
    choice = Choice(0, 0, "whole floats with small sums", is_whole=True, deciding=chosen)
    for by_rows in (True, False):
        yield replace(choice, sums=Sums(kinds, by_rows=by_rows))
    found = dict.fromkeys(level for one in compared for operand in one.operands for level in _whole_number(operand))
    roots = (isqrt(each) for each in found if each > 0 and isqrt(each) ** 2 == each)
    for level in list(dict.fromkeys((*found, *roots, 0)))[:_MAX_LEVELS]:
        yield replace(choice, sums=Sums(kinds, level))
        if level:
            yield replace(choice, sums=Sums(kinds, level, is_mean=True))
            yield replace(choice, sums=Sums(kinds, level, is_everywhere=True))


def _whole_number(operand: Instruction) -> Iterator[int]:
    """The whole number that an operand is everywhere, if it is a constant."""
    yield from (int(value) for value in _constant_of(operand).values() if value == int(value))


_BOUNDING: Final = frozenset((opcodes.COMPARE, "clamp", "maximum", "minimum"))
_PASSING: Final = frozenset((opcodes.BROADCAST, opcodes.BITCAST, opcodes.CONVERT, opcodes.RESHAPE, "copy"))
_MAX_BOUNDS: Final = 24  # more than a model has bounds of loops and indices; chosen, not measured
_MAX_BOUND: Final = 1 << 20
"""Larger bounds are those of types; loops up to them would not end in time."""


def _bounds(modules: Sequence[Module], offsets: Sequence[int]) -> tuple[int, ...]:
    """The integers that values are compared with, and those that are further by some numbers; 0 and 8 without any.

    An index that is out of bounds often makes NaN of all results, so those above and below are sets of their own.
    """
    bounds: dict[int, None] = {}
    for module in modules:
        for computation in executions_of(module):
            for instruction in computation.instructions:
                if instruction.opcode in _BOUNDING:
                    bounds |= dict.fromkeys(value for operand in instruction.operands for value in _integer(operand))
    # 0 and 8: without constants, bounds are sizes of arrays of tests.
    return tuple(dict.fromkeys(value + offset for value in list(bounds or (0, 8))[:_MAX_BOUNDS] for offset in offsets))


def _integer(operand: Instruction) -> Iterator[int]:
    """The integer that an operand is everywhere, if it is a constant."""
    value = _constant_of(operand).get("integer", inf)
    if abs(value) <= _MAX_BOUND:
        yield int(value)


def _constant_of(operand: Instruction) -> Mapping[str, float]:
    """The number that an operand is everywhere, by its type; empty if it is not a constant."""
    while operand.opcode in _PASSING and operand.operands:
        operand = operand.operands[0]
    constants: dict[str, list[float]] = {}
    if operand.opcode == opcodes.CONSTANT:
        _add_constant(operand, constants)
    return {kind: values[0] for kind, values in constants.items() if values}


def _full_sizes(modules: Sequence[Module]) -> tuple[tuple[int, int], ...]:
    """The parameters that are sizes of dynamic dimensions, each with the smallest of their bounds: with them, all
    elements are there to be compared.
    """
    smallest: dict[int, int] = {}
    for module in modules:
        for computation in executions_of(module):
            for instruction in computation.instructions:
                for operand, bound in _sizes_of(instruction):
                    for number in _sources(module, [(operand, None)]).parameters:
                        smallest[number] = min(bound, smallest.get(number, bound))
    return tuple(sorted(smallest.items()))


def _sizes_of(instruction: Instruction) -> Iterator[tuple[Instruction, int]]:
    """The operands that are sizes of the result at run time, with their bounds."""
    shape = instruction.shape
    if not isinstance(shape, ArrayShape):
        return
    if instruction.opcode == opcodes.SET_DIMENSION_SIZE:
        for dimension in instruction.integers("dimensions"):
            yield instruction.operands[1], shape.dimensions[dimension]
    elif instruction.attribute("custom_call_target") == '"SliceToDynamic"':
        yield from zip(instruction.operands[1:], shape.dimensions, strict=False)


def _has_sizes(modules: Sequence[Module]) -> bool:
    """Whether a number is the size of a dimension: what a size above its bound does is undefined."""
    return any(
        each.opcode == opcodes.SET_DIMENSION_SIZE or each.opcode == opcodes.CUSTOM_CALL
        for module in modules
        for computation in module.computations
        for each in computation.instructions
    )


def _revealing(
    modules: Sequence[Module], seed: int, missing: Sequence[Sequence[Computation]], *, is_nan: bool
) -> Iterator[Choice]:
    """Choices that may run what is missing, or make numbers of NaN."""
    deciding = [_deciding(module, each) for module, each in zip(modules, missing, strict=True) if each]
    parameters = frozenset[int]().union(*(each.parameters for each in deciding))
    if not parameters and not is_nan:
        return
    floats = dict.fromkeys(value for each in deciding for value in each.constants.get("float", ()))
    near = dict.fromkeys(
        int(value) + by for each in deciding for value in each.constants.get("integer", ()) for by in (0, 1, -1)
    )
    integers = tuple(dict.fromkeys((*near, *_USUAL)))
    # A dimension cannot have a negative size, nor one above what made-up arrays have.
    if _has_sizes(modules):
        integers = tuple(each for each in integers if 0 <= each <= MAX_INTEGER)
    for number in range(MAX_CHOICES):
        yield Choice(
            number,
            seed + number + 1,
            "other predicates, indices, and sizes",
            is_positive=is_nan and not number % 2,
            truths=number,
            deciding=parameters,
            floats=tuple(floats),
            integers=integers,
        )
