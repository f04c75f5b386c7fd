"""What a program computed, without its names: fingerprints of all values, and which made which."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from math import floor, inf, isfinite, log
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.analysis.evaluate.program import CACHED
from hlo_cli.analysis.semantics.typed_values import Array, Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

# --- fingerprints of arrays ---
# Numbers that layouts, reshapes, and transposes leave alone, and others that they do not.
#
# Names do not survive compilers, values do: with floats widened, two compilations of a program have arrays with the
# same fingerprints.


TOLERANCE: Final = 1e-6
"""How far numbers of two fingerprints may be apart, relative to the magnitudes of the array."""
_FINE: Final = 1e-11
"""The same for two runs of nearly the same text, which round alike."""
_DEVICE_TURN: Final = 0.37
"""By which share of its weight the order of elements counts more on each next device, so that exchanged parts show."""
_GRAIN: Final = 64.0  # halves to 64ths are constants of any program; chosen, not measured
_MIN_SPREAD: Final = 32  # counts and indices below 32 are in any program; chosen, not measured
_SLOTS_PER_E: Final = 1e4  # slots of 1e-4 of log(squares): TOLERANCE (4e-6 of squares) reaches the next one at most
_WEIGHTS: Final = 4096  # the smallest table of weights that is made: all small arrays share it
_FIRST: Final = 64  # elements that nearly always show a fraction, before all are looked at
_HUGE: Final = 1e90
"""The magnitude from which on arrays are scaled by 1e-240, as their squares would not be finite in sums."""
_SHRUNK: Final = 1e-240  # of 1e308 leaves 1e68, whose squares add up without overflow
# 1/p of the plastic number p, p³ = p + 1: the R2 sequence, which no stride or period of an array follows
_FIRST_TURN: Final = 0.7548776662466927
_SECOND_TURN: Final = 0.5698402909980532  # 1/p², the second coordinate of R2


class Print(NamedTuple):
    """Numbers of an array as given out by `Prints`: equal for equal arrays.

    `free` ignores the order of elements, `ordered` does not, and `fine` does not either and allows less rounding.
    `size` counts elements, and `largest` is their largest finite magnitude. `is_telling` is false for values that are
    found in any program, such as small integers, so that having them means little.
    """

    free: int
    ordered: int
    fine: int
    size: int
    largest: float
    is_telling: bool


class Numbers(NamedTuple):
    """What a fingerprint is made of; all but `weighted` ignore the order of elements, and add up over parts."""

    size: int
    not_finite: float
    total: float
    magnitude: float
    squares: float
    most: float
    least: float
    weighted: float
    is_telling: bool

    @property
    def largest(self) -> float:
        """The largest finite magnitude."""
        return max(abs(self.most), abs(self.least))

    def divided(self, by: float) -> Numbers:
        """Those of one of so many equal copies, or of several if `by` is below 1; without an order."""
        return self._replace(
            size=round(self.size / by),
            not_finite=self.not_finite / by,
            total=self.total / by,
            magnitude=self.magnitude / by,
            squares=self.squares / by,
            weighted=0.0,
        )


def combined(parts: Sequence[Numbers]) -> Numbers:
    """The numbers of the values of all devices together, the first device first."""
    if len(parts) == 1:
        return parts[0]
    return Numbers(
        sum(each.size for each in parts),
        sum(each.not_finite for each in parts),
        sum(each.total for each in parts),
        sum(each.magnitude for each in parts),
        sum(each.squares for each in parts),
        max(each.most for each in parts),
        min(each.least for each in parts),
        # A sum over devices would not see parts that change places; weights 1, 1.37, 1.74, … do, and are equal for
        # equal copies.
        sum((1.0 + at * _DEVICE_TURN) * each.weighted for at, each in enumerate(parts)),
        is_telling=any(each.is_telling for each in parts),
    )


class Prints:
    """Gives equal arrays equal numbers, within rounding.

    >>> prints = Prints()
    >>> one, turned, other = map(prints.of, (np.array([[1.0, 2.5]]), np.array([2.5, 1.0]), np.array([1.0, 2.0])))
    >>> one.free == turned.free, one.ordered == turned.ordered, one.free == other.free
    (True, False, False)
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        # Keyed by what has to be equal exactly, and by the slot of the squares: a lookup compares a handful, not all.
        self._kept: dict[tuple[int, float, int], list[tuple[Numbers, Print]]] = {}
        self._next = 0
        self._tolerance = tolerance
        self._weights = np.zeros(0)
        self._weight_sums: dict[int, float] = {}

    def of(self, array: Array, scale: float = 0.0) -> Print:
        """The fingerprint of an array; elements far below `scale`, the magnitude of the operands, are rounding."""
        return self.print_of(self.numbers_of(array, scale))

    def print_of(self, numbers: Numbers) -> Print:
        """The fingerprint of an array, or of the parts of one, with these numbers."""
        alike = list(self._alike(numbers))
        # The finest match first: two arrays may be equal within rounding and still have prints of their own.
        exact = next((each for each in alike if _is_in_order(each[0], numbers, _FINE)), None)
        if exact is not None:
            return exact[1]
        same_order = next((each for each in alike if _is_in_order(each[0], numbers, self._tolerance)), None)
        new = Print(
            alike[0][1].free if alike else self.number(),
            same_order[1].ordered if same_order is not None else self.number(),
            self.number(),
            numbers.size,
            numbers.largest,
            numbers.is_telling,
        )
        self._kept.setdefault((numbers.size, numbers.not_finite, _slot(numbers)), []).append((numbers, new))
        return new

    def known_print(self, numbers: Numbers) -> Print | None:
        """The fingerprint of an array that was seen, in any order of its elements; None if there is none."""
        return next((each[1] for each in self._alike(numbers)), None)

    def number(self) -> int:
        """A number that no fingerprint has."""
        self._next += 1
        return self._next

    def _alike(self, numbers: Numbers) -> Iterator[tuple[Numbers, Print]]:
        # Rounding moves a value across the border of a slot, never across a whole one.
        at = _slot(numbers)
        for place in (at - 1, at, at + 1) if numbers.squares > 0 else (at,):
            for each in self._kept.get((numbers.size, numbers.not_finite, place), ()):
                if _is_close(each[0], numbers, self._tolerance):
                    yield each

    def numbers_of(self, array: Array, scale: float = 0.0) -> Numbers:
        """The numbers of an array; the cheapest that tell arrays apart, as each value of a run has to get them."""
        values = np.asarray(array)
        if values.size > 1 and not any(values.strides) and values.dtype.kind != "c":  # a scalar that is broadcast
            single = self.numbers_of(values.reshape(-1)[:1].copy(), scale)
            # Infinities and NaN are counted, not multiplied: their broadcast goes the long way.
            if single.not_finite == 0:
                return self._repeated(single, values.size)
        if values.dtype.kind == "c":
            # A complex array counts as twice as many reals, so that real and imaginary parts may not be exchanged
            # unseen.
            wide = np.concatenate([part.astype(np.float64).reshape(-1) for part in (values.real, values.imag)])
        else:
            wide = values.astype(np.float64, copy=False).reshape(-1)
        if not wide.size:
            return _nothing(0, 0.0)
        sums, not_finite = self._sums(wide), 0.0
        if not isfinite(sums.magnitude) or max(sums.most, -sums.least) > _HUGE:
            return self._unusual(wide)
        # What is left where equal terms cancel depends on the order of additions: it counts as zeros.
        if max(sums.most, -sums.least) <= _FINE * scale:
            return _nothing(wide.size, not_finite)
        return Numbers(wide.size, not_finite, *sums, is_telling=_is_telling(wide, sums.most, sums.least))

    def _unusual(self, wide: Array) -> Numbers:
        """The numbers of an array with elements that are not finite, or whose squares would not be."""
        is_finite = np.isfinite(wide)
        nans, infinities = float(np.isnan(wide).sum()), float((wide == np.inf).sum())
        # Dyadic shares are exact, as `not_finite` is compared by ==; that four infinities weigh as one NaN is accepted.
        not_finite = nans + 0.25 * infinities + 0.375 * float((wide == -np.inf).sum())
        finite = wide[is_finite]
        if not finite.size:
            return _nothing(wide.size, not_finite)
        is_telling = _is_telling(finite, float(finite.max()), float(finite.min()))
        whole = np.where(is_finite, wide, 0.0)
        if float(np.abs(finite).max()) > _HUGE:
            whole, not_finite = whole * _SHRUNK, not_finite + 0.125
        sums = self._sums(whole)
        return Numbers(wide.size, not_finite, *sums, is_telling=is_telling)

    def _sums(self, whole: Array) -> _Sums:
        """All sums in one pass, part by part, so that a cache holds what it works on."""
        weights = self._weights_for(whole.size)
        total = magnitude = squares = weighted = 0.0
        most, least = -inf, inf
        for start in range(0, whole.size, CACHED):
            part = whole[start : start + CACHED]
            low, added = float(part.min()), float(part.sum())
            total += added
            magnitude += added if low >= 0 else float(np.abs(part).sum())
            squares += float(np.dot(part, part))
            weighted += float(np.dot(part, weights[start : start + CACHED]))
            most, least = max(most, float(part.max())), min(least, low)
        return _Sums(total, magnitude, squares, most, least, weighted)

    def _repeated(self, single: Numbers, size: int) -> Numbers:
        """The numbers of one element that is repeated."""
        if size not in self._weight_sums:
            self._weight_sums[size] = float(self._weights_for(size).sum())
        return single.divided(1.0 / size)._replace(size=size, weighted=single.total * self._weight_sums[size])

    def _weights_for(self, size: int) -> Array:
        """Weights without a pattern, the same for each place of an array; made once for the largest so far."""
        if size > self._weights.size:
            # Powers of two: growing arrays remake the weights a few times only, and each array gets a prefix of the
            # same.
            places = np.arange(max(_WEIGHTS, 1 << max(0, size - 1).bit_length()), dtype=np.float64)
            # The square makes neighbors differ by more each time, so that no transpose or shift leaves the weighted sum
            # as it was.
            self._weights = np.asarray(np.cos(places * places * _FIRST_TURN + places * _SECOND_TURN))
        return self._weights[:size]


class _Sums(NamedTuple):
    total: float
    magnitude: float
    squares: float
    most: float
    least: float
    weighted: float


def _is_telling(wide: Array, most: float, least: float) -> bool:
    # From 2^20 on integers are hashes, seeds, or large counts, which two programs do not share by chance.
    return max(most, -least) >= 2.0**20 or most - least >= _MIN_SPREAD or _has_fractions(wide)


def _nothing(size: int, not_finite: float) -> Numbers:
    return Numbers(size, not_finite, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, is_telling=False)


def _has_fractions(wide: Array) -> bool:
    """Whether elements are not all small multiples of 1/64; most arrays show it at their beginning."""
    for part in (wide[:_FIRST], wide[_FIRST:]):
        grains = part * _GRAIN
        if not (grains == np.rint(grains)).all():
            return True
    return False


def _slot(numbers: Numbers) -> int:
    return floor(log(numbers.squares) * _SLOTS_PER_E) if numbers.squares > 0 else 0


def _is_close(a: Numbers, b: Numbers, tolerance: float) -> bool:
    # 1e-300 keeps arrays of zeros from a tolerance of 0, where rounding of denormals would tell them apart.
    scale = tolerance * max(a.magnitude, b.magnitude, 1e-300)
    largest = tolerance * max(a.largest, b.largest, 1e-300)
    return (
        abs(a.total - b.total) <= scale
        and abs(a.magnitude - b.magnitude) <= scale
        and abs(a.most - b.most) <= largest
        and abs(a.least - b.least) <= largest
        # Squares double the relative error of an element; twice that again for the sum.
        and abs(a.squares - b.squares) <= 4 * tolerance * max(a.squares, b.squares)
    )


def _is_in_order(a: Numbers, b: Numbers, tolerance: float) -> bool:
    scale = tolerance * max(a.magnitude, b.magnitude, 1e-300)
    return (
        abs(a.weighted - b.weighted) <= scale
        and abs(a.total - b.total) <= scale
        and abs(a.squares - b.squares) <= 4 * tolerance * max(a.squares, b.squares)
    )


# --- values in the order of time ---
# What a program computed, instruction by instruction in the order of time: fingerprints, and which made which.
#
# On several devices, one execution of an instruction is that of all devices together: the fingerprint of its value is
# that of all parts. So a value that one program has whole is found in another that has it in parts, however it is cut.


# No node: places in a trace start at 0.
NONE: Final = -1
_MAX_NODES: Final = 300_000
"""The largest number of executed instructions that a trace keeps."""
_SUMS: Final = frozenset((opcodes.DOT, opcodes.REDUCE, opcodes.CONVOLUTION, opcodes.SCATTER, opcodes.REDUCE_WINDOW))
"""Opcodes whose results devices compute as partial sums, to add them later."""
_SUM_TOLERANCE: Final = 1e-7
"""How far the total of partial sums may be apart: below the tolerance of values, as one number proves less than six."""
_MIN_TOTAL: Final = 1e-3
"""The least total, as a share of the magnitudes, that is compared: others are near 0 in any program."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array that an execution takes: its fingerprint, and the place in the trace of what made it.

    The place is NONE for arguments.
    """

    print: Print
    maker: int


@dataclass(frozen=True, slots=True)
class Node:
    """One execution of an instruction; `execution` counts those of one instruction on one device, from 0.

    `operands` has the arrays of each operand, and `results` those of the result with the places in the trace of what
    made them. `is_passing` means that other instructions made all of them: in tuples, calls, fusions, and loops.
    """

    instruction: Instruction
    execution: int
    operands: tuple[tuple[Leaf, ...], ...]
    results: tuple[Print, ...]
    makers: tuple[int, ...]
    is_passing: bool

    @property
    def leaves(self) -> Iterator[Leaf]:
        """The arrays of all operands."""
        return (leaf for operand in self.operands for leaf in operand)


class _Slot:
    """A value of all devices: the numbers of its part on each, and the place of what made it."""

    __slots__ = ("maker", "parts")

    def __init__(self, maker: int) -> None:
        self.maker = maker
        self.parts: dict[int, Numbers] = {}


class _Entry:
    """An execution while it is recorded: the slots of its operands and of its results."""

    __slots__ = ("execution", "instruction", "operands", "results")

    def __init__(self, instruction: Instruction, execution: int) -> None:
        self.instruction = instruction
        self.execution = execution
        self.operands: list[list[_Slot]] = []
        self.results: list[_Slot] = []


class Trace:
    """Records the executions of a program as an observer of its run; those of device 0, with the parts of all others.

    Values of computations of scalars, such as that of a reduce, are not recorded. `partial` are the fingerprints of
    values that devices have yet to add up.
    """

    def __init__(self, prints: Prints) -> None:
        self.is_whole = True
        self.partial: set[int] = set()
        self.devices = 1
        self._prints = prints
        self._entries: list[_Entry] = []
        self._at: dict[tuple[Instruction, int], int] = {}
        self._counts: dict[tuple[Instruction, int], int] = {}
        self._seen: dict[int, tuple[object, Numbers, _Slot | None]] = {}
        self._replaced: dict[int, Print] = {}

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Records a value that was just computed."""
        # Memory is bounded by dropping what comes late; `is_whole` then forbids answers that need all values.
        if len(self._entries) >= _MAX_NODES:
            self.is_whole = False
            return
        execution = self._counts.get((instruction, device), 0)
        self._counts[instruction, device] = execution + 1
        if device:
            self.devices = max(self.devices, device + 1)
            self._add_parts(instruction, execution, device, value, operands)
            return
        position, entry = len(self._entries), _Entry(instruction, execution)
        # Device 0 stands for all: every device runs the same program, and its order of executions is that of the trace.
        scale = 0.0
        for operand in operands:
            slots = []
            for array in arrays_in(operand):
                numbers, slot = self._numbers(array)
                if slot is None:
                    slot = _Slot(NONE)
                    self._keep(array, numbers, slot)
                slot.parts.setdefault(0, numbers)
                scale = max(scale, numbers.largest)
                slots.append(slot)
            entry.operands.append(slots)
        for array in arrays_in(value):
            numbers, slot = self._numbers(array, scale)
            if slot is None or type(array).__name__ == "bool":  # numpy has one True for all
                slot = _Slot(position)
                self._keep(array, numbers, slot)
                slot.parts[0] = numbers
            entry.results.append(slot)
        self._entries.append(entry)
        self._at[instruction, execution] = position

    def _add_parts(
        self, instruction: Instruction, execution: int, device: int, value: Value, operands: Sequence[Value]
    ) -> None:
        """Adds the parts of another device to what device 0 computed and took at the same time."""
        if (position := self._at.get((instruction, execution))) is None:
            return
        entry, scale = self._entries[position], 0.0
        for slots, operand in zip(entry.operands, operands, strict=True):
            for slot, array in zip(slots, arrays_in(operand), strict=False):
                numbers, _ = self._numbers(array)
                scale = max(scale, numbers.largest)
                if slot.maker == NONE:
                    slot.parts.setdefault(device, numbers)
        for slot, array in zip(entry.results, arrays_in(value), strict=False):
            if slot.maker == position:
                slot.parts.setdefault(device, self._numbers(array, scale)[0])

    # Keyed by id, with a weak reference beside: an id is used again after its array is freed.
    def _numbers(self, array: Array, scale: float = 0.0) -> tuple[Numbers, _Slot | None]:
        """The numbers of an array, and its slot: that of the array itself, not of an equal one."""
        kept = self._seen.get(id(array))
        if kept is not None:
            holder, numbers, slot = kept
            held = holder() if isinstance(holder, weakref.ref) else holder
            if held is array:
                return numbers, slot
        numbers = self._prints.numbers_of(array, scale)
        self._keep(array, numbers, None)
        return numbers, None

    def _keep(self, array: Array, numbers: Numbers, slot: _Slot | None) -> None:
        holder: object = weakref.ref(array) if type(array) is np.ndarray else array
        self._seen[id(array)] = holder, numbers, slot

    def _all_slots(self) -> Iterator[tuple[_Slot, Instruction | None]]:
        """Each slot once, with what made it."""
        seen: set[int] = set()
        for entry in self._entries:
            for slot in (*(slot for operand in entry.operands for slot in operand), *entry.results):
                if id(slot) not in seen:
                    seen.add(id(slot))
                    yield slot, None if slot.maker == NONE else self._entries[slot.maker].instruction

    def explain_by(self, old: Trace) -> None:
        """Gives values the fingerprints of those of an old program that has them in other parts, or in other numbers of
        copies; before the nodes of this trace are asked for.
        """
        slots = [(slot, combined(list(slot.parts.values())), maker) for slot, maker in old._all_slots()]
        old_numbers = {self._prints.print_of(numbers).free: numbers for _, numbers, _ in slots}
        sums = sorted(
            (numbers.total, numbers)
            for _, numbers, maker in slots
            if maker is not None and maker.opcode in _SUMS and numbers.is_telling
        )
        ratios = _ratios(self.devices, old.devices)
        for slot, maker in self._all_slots():
            numbers = combined(list(slot.parts.values()))
            own = self._prints.print_of(numbers)
            if own.free in old_numbers:
                continue
            # Replication multiplies sums by the number of copies: 8 devices may have a value once, twice, four times,
            # or eight times.
            divided = (self._prints.known_print(numbers.divided(ratio)) for ratio in ratios)
            old_print = next((each for each in divided if each is not None and each.free in old_numbers), None)
            if old_print is not None:
                self._replaced[id(slot)] = own._replace(
                    free=old_print.free, size=old_print.size, is_telling=old_print.is_telling
                )
            # A partial sum is in no trace of the whole program, yet its parts add up to a value that is: it is right so
            # far.
            elif maker is not None and numbers.is_telling and _is_sum(slot, sums, (1.0, *ratios)):
                self.partial.add(own.free)

    @cached_property
    def nodes(self) -> Sequence[Node]:
        """The executions of device 0 in the order of time."""
        prints: dict[int, Print] = {}

        def print_of(slot: _Slot) -> Print:
            if id(slot) not in prints:
                own = self._prints.print_of(combined(list(slot.parts.values())))
                prints[id(slot)] = self._replaced.get(id(slot), own)
            return prints[id(slot)]

        nodes = []
        for position, entry in enumerate(self._entries):
            operands = tuple(tuple(Leaf(print_of(slot), slot.maker) for slot in slots) for slots in entry.operands)
            makers = tuple(slot.maker for slot in entry.results)
            is_passing = position not in makers and bool(operands)
            results = tuple(map(print_of, entry.results))
            nodes.append(Node(entry.instruction, entry.execution, operands, results, makers, is_passing))
        return nodes

    def device_apart(self, position: int, trace: Trace, node: Node) -> int:
        """The first device on which the results of an execution and of one of another program differ; 0 if they are on
        other numbers of devices.
        """
        other_position = trace._at[node.instruction, node.execution]
        for mine, theirs in zip(self._entries[position].results, trace._entries[other_position].results, strict=False):
            if mine.parts.keys() == theirs.parts.keys():
                for device, numbers in mine.parts.items():
                    if self._prints.print_of(numbers).fine != self._prints.print_of(theirs.parts[device]).fine:
                        return device
        return 0

    def callers_of(self, position: int) -> tuple[tuple[Instruction, int], ...]:
        """The instructions around an execution, the outermost first, each with the iteration that it was in, from 0."""
        callers: list[tuple[Instruction, int]] = []
        inner = position
        while (outer := self._caller(inner)) is not None:
            node, start = self._entries[inner], self._before(outer)
            iteration = sum(each.instruction is node.instruction for each in self._entries[start + 1 : inner])
            callers.append((self._entries[outer].instruction, iteration))
            inner = outer
        return tuple(reversed(callers))

    def _caller(self, position: int) -> int | None:
        """The execution that called the computation of an execution: the first afterwards that calls it."""
        # Calls are recorded when they return, after all that they ran.
        computation = self._entries[position].instruction.computation
        for place in range(position + 1, len(self._entries)):
            if computation in self._entries[place].instruction.called_computations:
                return place
        return None

    def _before(self, position: int) -> int:
        """The previous execution of the same instruction; NONE if there is none."""
        entry = self._entries[position]
        return self._at[entry.instruction, entry.execution - 1] if entry.execution else NONE


def _ratios(new: int, old: int) -> list[float]:
    """By how much the copies of a value that one program has may be more than those of another, without 1."""
    counts = [[each for each in range(1, devices + 1) if devices % each == 0] for devices in (new, old)]
    return sorted({mine / theirs for mine in counts[0] for theirs in counts[1]} - {1.0})


def _is_sum(slot: _Slot, sums: Sequence[tuple[float, Numbers]], ratios: Sequence[float]) -> bool:
    """Whether the parts of a value add up to a sum that the old program has: by the total of the elements alone."""
    parts = list(slot.parts.values())
    if len(parts) < 2:
        return False
    total = sum(each.total for each in parts)
    for ratio in ratios:
        wanted, size = total / ratio, parts[0].size
        # The list is sorted by totals: all candidates are next to each other.
        margin = _SUM_TOLERANCE * abs(wanted) / _MIN_TOTAL
        first = bisect_left(sums, wanted - margin, key=lambda each: each[0])
        for old_total, numbers in sums[first:]:
            if old_total > wanted + margin:
                break
            # Of totals near 0 the relative error is large, and any program has some.
            is_near = abs(old_total - wanted) <= _SUM_TOLERANCE * numbers.magnitude
            if is_near and abs(old_total) >= _MIN_TOTAL * numbers.magnitude and numbers.size % max(1, size) == 0:
                return True
    return False


def arrays_in(value: Value) -> Iterator[Array]:
    """The arrays of a value, those in tuples included."""
    if isinstance(value, tuple):
        for part in value:
            yield from arrays_in(part)
    elif value is not None:
        yield value
