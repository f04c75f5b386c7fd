"""How far the results of two runs are apart, and whether rounding alone explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, sqrt
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import element_count, evaluations
from hlo_cli.analysis.dataflow.executions import runs_per_call
from hlo_cli.analysis.evaluate.run import Run
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, arrays_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import FLOAT_FORMATS, PrimitiveType
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CONTROL_FLOW
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex

# --- distances between results ---
# How far the results of two runs are apart, and whether two programs are the same but for rounding.
#
# Each element is judged by what it was computed of, never by other elements: see `magnitudes`.


ROUNDING: Final = 1e-6
"""The widened distance up to which only rounding differs: compilers fold constants in f32, by 16 units in the last
place at most."""
NOISES: Final = (2.0**-42, 2.0**-26)
"""The relative errors of the runs that show what an element is made of: far above the rounding of f64, and small enough
for results to follow them in proportion; the second one is large enough to show where they do not."""
_GROWTH: Final = 2.0**12
"""By which factor a deviation is out of proportion: a comparison, a conversion, or chaos has changed its course, which
shows as 2^16. Errors that happen to cancel in one of the runs make less of it, but for one element in thousands."""
_MISSED: Final = 16.0
"""By which factor large errors may show more than small ones, which happen to cancel in one element of some dozens."""
APPROXIMATION: Final = 1e-3
"""The widened distance up to which a constant was rounded, or an approximation replaced."""
MODES: Final[tuple[Floats, Floats]] = ("exact", "widen")
"""How floats are held in the two runs of a comparison."""

Verdict: TypeAlias = Literal[
    "identical", "rounding", "overflow", "uncovered", "unknown", "approximation", "discontinuity", "different"
]
_WIDE_BITS: Final = 32
"""Narrower floats round small differences away, so that results that are identical as written prove little."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far one result is apart: exactly, and with every float as f64.

    The exact distance is the largest difference over the largest finite magnitude, the widened one the largest of a
    difference over the magnitude of its own element; infinite where only one value is finite. `uncompared` counts the
    elements that are NaN in both widened runs. `ulp` is the largest exact difference in units in the last place of the
    element type; where terms cancel it means little. `nan` and `inf` count such elements of the exact results, before
    and after. `expected` is the exact distance that rounding explains. Not known if the place of the result on devices
    is unknown. Results without an element type are wide floats.
    """

    index: ShapeIndex
    exact: float
    widened: float
    is_known: bool = True
    ulp: float = 0.0
    nan: tuple[int, int] = (0, 0)
    inf: tuple[int, int] = (0, 0)
    expected: Rounding | None = None
    element_type: PrimitiveType | None = None
    uncompared: int = 0

    @property
    def verdict(self) -> Verdict:
        """What the distances mean; constants that are folded in f32 may show in the widened run alone.

        Integers are the same or different. `overflow` is NaN or infinity in one run as written, though both agree
        without rounding.

        >>> Distance((), 0.5, 1e-12).verdict, Distance((), 0.5, 0.1).verdict, Distance((), 0.0, 1e-5).verdict
        ('rounding', 'different', 'identical')
        >>> Distance((), float("inf"), 1e-12).verdict
        'overflow'
        """
        if not self.is_known:
            return "unknown"
        kind = self.element_type
        if kind is not None and kind.kind in ("pred", "signed", "unsigned"):
            return "identical" if self.exact == 0 else "rounding" if self.widened == 0 else "different"
        is_wide = kind is None or kind.bits >= _WIDE_BITS
        if self.exact == 0 and self.widened <= (APPROXIMATION if is_wide else ROUNDING):
            return "identical"
        if self.widened <= ROUNDING:
            return "rounding" if isfinite(self.exact) else "overflow"
        return "approximation" if self.widened <= APPROXIMATION else "different"

    @property
    def is_amplified(self) -> bool:
        """Whether the program enlarges rounding: the exact distance is above what rounding alone explains."""
        return self.expected is not None and self.verdict == "rounding" and self.exact > self.expected.bound


_ORDER: Final[tuple[Verdict, ...]] = (
    "identical", "rounding", "overflow", "uncovered", "unknown", "approximation", "discontinuity", "different",
)  # fmt: skip


def verdict_of(distances: Sequence[Distance]) -> Verdict:
    """The verdict on all results: that of the worst."""
    return max((each.verdict for each in distances), key=_ORDER.index, default="identical")


class Magnitude(NamedTuple):
    """What each element of a result was computed of, at most, and whether a small error has changed its course."""

    sizes: Array
    is_unsteady: Array


def magnitudes(clean: Value, disturbed: Sequence[Sequence[Value]], shape: Shape) -> dict[ShapeIndex, Magnitude]:
    """The magnitude of each element of a result: what a relative error of every step does to it, over the error.

    Where terms cancel, or a small factor follows, that is the size of the terms. `disturbed` are the results of runs
    with errors of the sizes `NOISES`, some of each size. Elements of which errors change the course, such as the
    direction of a comparison, do not follow them in proportion, and have no magnitude; and so have integers. Without
    runs of large errors, the value itself is what small ones may not be out of proportion to.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> clean, small, large = np.zeros(2), np.array([2.0**-42, 1.0]), np.array([2.0**-26, 1.0])
    >>> [found] = magnitudes(clean, ([small], [large]), parse_shape("f32[2]")).values()
    >>> found.sizes.tolist(), found.is_unsteady.tolist()
    ([1.0, 0.0], [False, True])
    """
    by_index: dict[ShapeIndex, Magnitude] = {}
    others = [[dict(_arrays(each, shape)) for each in runs] for runs in disturbed]
    for index, value in _arrays(clean, shape):
        small, large = ([each[index] for each in runs] for runs in others)
        if any(each.shape != value.shape for each in (*small, *large)):
            continue
        # An integer has no magnitude: any change by a small error means that rounding decides on it.
        if value.dtype.kind in "biu":
            changed = np.logical_or.reduce([value != each for each in (*small, *large)])
            by_index[index] = Magnitude(np.zeros(value.shape), changed)
            continue
        # Without large errors the value bounds what small ones may show: a larger deviation came from a jump.
        first = _deviation(value, small, NOISES[0])
        second = _deviation(value, large, NOISES[1]) if large else np.where(np.isfinite(value), np.abs(value), 0.0)
        is_broken = ~(first <= _GROWTH * second) | ~np.isfinite(first)
        is_unsteady = is_broken | (second > _GROWTH * first) if large else is_broken
        # Small errors cancel in some elements, large ones change the course of others: each bounds the other.
        sizes = np.clip(second, first, _MISSED * first) if large else first
        by_index[index] = Magnitude(np.where(is_broken, 0.0, sizes), is_unsteady)
    return by_index


def _arrays(value: Value, shape: Shape) -> list[tuple[ShapeIndex, Array]]:
    return [(index, array) for index, array, _ in arrays_of(value, shape)]


def _deviation(clean: Array, disturbed: Sequence[Array], size: float) -> Array:
    """The largest deviation of each element over the size of the errors; infinite where one of them is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        deviations = [
            np.where((each == clean) | (np.isnan(each) & np.isnan(clean)), 0.0, np.abs(each - clean))
            for each in disturbed
        ]
    found = np.maximum.reduce(deviations) / size
    return np.asarray(np.nan_to_num(found, nan=np.inf, posinf=np.inf))


def larger(
    old_magnitudes: Mapping[ShapeIndex, Magnitude], new_magnitudes: Mapping[ShapeIndex, Magnitude]
) -> dict[ShapeIndex, Magnitude]:
    """The larger magnitudes of two programs, as compilers cancel terms that one program has."""
    # The larger of both, else a program that has canceled terms would look wrong against one that has not.
    largest = dict(old_magnitudes)
    for index, new in new_magnitudes.items():
        old = old_magnitudes.get(index)
        if old is None or old.sizes.shape != new.sizes.shape:
            largest[index] = new
        else:
            largest[index] = Magnitude(np.maximum(old.sizes, new.sizes), old.is_unsteady | new.is_unsteady)
    return largest


def distances(
    exact: tuple[Run, Run],
    widened: tuple[Run, Run],
    shapes: tuple[Shape, Shape],
    *,
    is_rewrite: bool = False,
    expected: Mapping[ShapeIndex, Rounding] | None = None,
) -> tuple[Distance, ...]:
    """The distance of each array of the results of two programs, which have to have the same arrays.

    With `is_rewrite`, arrays whose place on devices is unknown are at the same place in both. The magnitude of an
    element is the larger of its two values.
    """
    rows = []
    pairs = zip(*(arrays_of(run.result, shape) for run, shape in zip(exact, shapes, strict=True)), strict=True)
    wide = zip(*(arrays_of(run.result, shape) for run, shape in zip(widened, shapes, strict=True)), strict=True)
    unknown = frozenset() if is_rewrite else exact[0].unknown | exact[1].unknown
    for ((index, old, leaf), (_, new, _)), (old_wide, new_wide) in zip(pairs, wide, strict=True):
        if index in unknown:
            rows.append(Distance(index, 0.0, 0.0, is_known=False))
            continue
        rows.append(
            Distance(
                index,
                distance(old, new),
                closeness(old_wide[1], new_wide[1]),
                ulp=ulps(old, new, leaf.element_type),
                nan=(_count(np.isnan, old), _count(np.isnan, new)),
                inf=(_count(np.isinf, old), _count(np.isinf, new)),
                expected=(expected or {}).get(index),
                element_type=leaf.element_type,
                uncompared=int((~are_compared(old_wide[1], new_wide[1])).sum()),
            )
        )
    return tuple(rows)


def with_magnitudes(
    distances: Sequence[Distance],
    widened: tuple[Run, Run],
    shapes: tuple[Shape, Shape],
    magnitudes: Mapping[ShapeIndex, Magnitude],
) -> tuple[Distance, ...]:
    """The distances of results, judged by what their elements are made of as well."""
    pairs = zip(*(arrays_of(run.result, shape) for run, shape in zip(widened, shapes, strict=True)), strict=True)
    return tuple(
        replace(each, widened=closeness(old, new, magnitudes.get(each.index))) if each.is_known else each
        for each, ((_, old, _), (_, new, _)) in zip(distances, pairs, strict=True)
    )


def are_compared(old: Array, new: Array) -> Array:
    """Which elements say something: those that are not NaN in both.

    >>> are_compared(np.array([1.0, np.nan]), np.array([1.0, np.nan])).tolist()
    [True, False]
    """
    if old.dtype.kind not in "fc" or old.shape != new.shape:
        return np.ones(old.shape, bool)
    return np.asarray(~(np.isnan(old) & np.isnan(new)))


Steady: TypeAlias = Literal["finite", "all"]
"""Which elements prove something, of those that no small error puts on another course: at whole numbers, compilers may
make another infinity or NaN of a quotient."""


def closeness(old: Array, new: Array, magnitude: Magnitude | None = None, *, steady: Steady | None = None) -> float:
    """The largest difference of an element over its magnitude; infinite for other sizes.

    The magnitude is the larger of both values, and that of `magnitude`. With `steady`, other elements are left out.

    >>> closeness(np.array([1e9, 1.0]), np.array([1e9, 2.0])), closeness(np.array([1.0]), np.array([np.nan]))
    (0.5, inf)
    >>> closeness(np.zeros(1), np.full(1, 1e-9), Magnitude(np.ones(1), np.zeros(1, bool)))
    1e-09
    """
    if old.shape != new.shape:
        return float("inf")
    if steady is not None and magnitude is not None:
        is_kept = ~magnitude.is_unsteady
        magnitude = Magnitude(magnitude.sizes[is_kept], magnitude.is_unsteady[is_kept])
        old, new = old[is_kept], new[is_kept]
    if old.dtype.kind in "biu" or new.dtype.kind in "biu":
        return distance(old, new)
    finite = np.isfinite(old) & np.isfinite(new)
    if steady != "finite" and not (finite | (old == new) | (np.isnan(old) & np.isnan(new))).all():
        return float("inf")
    apart = np.abs(old[finite] - new[finite])
    sizes = np.maximum(np.abs(old[finite]), np.abs(new[finite]))
    # A denominator of 1 where nothing differs avoids 0/0 of elements that are zero in both.
    if magnitude is not None:
        sizes = np.maximum(sizes, magnitude.sizes[finite])
    return float((apart / np.where(apart > 0, sizes, 1.0)).max(initial=0.0))


def _count(test: np.ufunc, array: Array) -> int:
    return int(test(array.astype(np.complex128)).sum()) if array.dtype.kind not in "biu" else 0


def ulps(old: Array, new: Array, kind: PrimitiveType) -> float:
    """The largest difference in units in the last place of the larger magnitude; infinite where only one is finite.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> ulps(np.float32([1, 2]), np.float32([1, 2 + 2**-22]), parse_shape("f32[2]").element_type)
    1.0
    """
    if old.shape != new.shape:
        return float("inf")
    form = FLOAT_FORMATS.get({"c64": "f32", "c128": "f64"}.get(kind.name, kind.name))
    if form is None or not old.size or old.dtype.kind in "biu":
        return 0.0 if not old.size else _largest_difference(old, new)
    parts = ((np.real(old), np.real(new)), (np.imag(old), np.imag(new))) if kind.is_complex else ((old, new),)
    # Units are those of the element type, not of numpy's array, which may be wider.
    most = 0.0
    for old_part, new_part in parts:
        a, b = old_part.astype(np.float64), new_part.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        if not (finite | (a == b) | (np.isnan(a) & np.isnan(b))).all():
            return float("inf")
        a, b = a[finite], b[finite]
        # Below the smallest normal number units stay the same; f64 has none below 2^-1074.
        exponents = np.maximum(np.frexp(np.maximum(np.abs(a), np.abs(b)))[1] - 1, 1 - form.bias)
        units = np.ldexp(1.0, np.maximum(exponents - form.mantissa_bits, -1074))
        most = max(most, float((np.abs(a - b) / units).max(initial=0.0)))
    return most


def _largest_difference(old: Array, new: Array) -> float:
    differs = old != new
    return float(
        max((abs(int(a) - int(b)) for a, b in zip(old[differs].flat, new[differs].flat, strict=True)), default=0)
    )


def distance(old: Array, new: Array) -> float:
    """The largest difference over the largest finite magnitude of the first; infinite for other sizes.

    >>> distance(np.array([1.0, 4.0]), np.array([1.0, 3.0])), distance(np.array([1.0]), np.array([np.nan]))
    (0.25, inf)
    """
    if old.shape != new.shape:
        return float("inf")
    if not old.size:
        return 0.0
    if old.dtype.kind in "biu" and new.dtype.kind in "biu":
        differs = old != new
        if not differs.any():
            return 0.0
        # Python ints, as the difference of two u64 or s64 may not fit into either.
        return _largest_difference(old, new) / max(1, max(abs(int(old.max())), abs(int(old.min()))))
    a, b = old.astype(np.complex128), new.astype(np.complex128)
    finite = np.isfinite(a) & np.isfinite(b)
    same = finite | (a == b) | (np.isnan(a) & np.isnan(b))
    if not same.all():
        return float("inf")
    if not finite.any():
        return 0.0
    apart_ = float(np.abs(a[finite] - b[finite]).max())
    return apart_ / (float(np.abs(a[finite]).max()) or 1.0) if apart_ else 0.0


# --- what rounding alone explains ---

_SUMS: Final = frozenset((opcodes.DOT, opcodes.CONVOLUTION, opcodes.REDUCE, opcodes.REDUCE_WINDOW))
_CONSTANT: Final = 4.0
"""Units of roundoff within which all sums of up to 343 terms were, of programs at random against XLA:CPU."""
_WIDEST: Final = 52
"""The mantissa bits of f64."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """The number of terms that are added one after another, and the mantissa bits of the narrowest float."""

    terms: int
    mantissa_bits: int

    @property
    def bound(self) -> float:
        """The relative distance that rounding explains: (4 + √terms) units of roundoff.

        >>> Rounding(16, 23).bound == 8 * 2**-24
        True
        """
        return float((_CONSTANT + sqrt(self.terms)) * 2.0 ** -(self.mantissa_bits + 1))


def rounding_of(module: Module) -> Mapping[ShapeIndex, Rounding]:
    """The rounding of each array of the result.

    Sums on the way to a result follow each other; those of a loop count once for each iteration that is known.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = bf16[64] parameter(0)  z = f32[] constant(0)  c = f32[64] convert(p) "
    >>> module = parse_module(text + " ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply=f }")
    >>> rounding_of(module)
    {(): Rounding(terms=64, mantissa_bits=7)}
    """
    computed: dict[Computation, Mapping[Instruction, Rounding]] = {}
    found = _rounding_in(module.entry, computed)
    root = module.entry.root
    if root is None:
        return {}
    is_tuple = root.opcode == opcodes.TUPLE
    return {index: found[root.operands[index[0]] if is_tuple and index else root] for index, _ in root.shape.leaves}


def _rounding_in(
    computation: Computation, computed: dict[Computation, Mapping[Instruction, Rounding]]
) -> Mapping[Instruction, Rounding]:
    if computation in computed:
        return computed[computation]
    roundings: dict[Instruction, Rounding] = {}
    computed[computation] = roundings
    for instruction in computation.instructions:
        # The longest chain of sums counts, not all of them: errors of parallel sums do not add up on one element.
        before = [roundings[each] for each in instruction.operands if each in roundings]
        terms = max((each.terms for each in before), default=0) + _own_terms(instruction)
        bits = min((each.mantissa_bits for each in before), default=_WIDEST)
        bits = min(bits, _mantissa_bits(instruction))
        if instruction.opcode in CONTROL_FLOW or instruction.opcode == opcodes.FUSION:
            for called in instruction.called_computations:
                inner = _rounding_in(called, computed)
                last = inner.get(called.root) if called.root is not None else None
                if last is not None:
                    # An unknown trip count is one: the bound may be too low then, never too high.
                    terms += last.terms * (runs_per_call(instruction, called) or 1)
                    bits = min(bits, last.mantissa_bits)
        roundings[instruction] = Rounding(terms, bits)
    return roundings


def _own_terms(instruction: Instruction) -> int:
    if instruction.opcode not in _SUMS:
        return 0
    # Evaluations of all elements over elements: the terms of one.
    terms, elements = evaluations(instruction), element_count(instruction.shape)
    return terms // elements if terms and elements else 0


def _mantissa_bits(instruction: Instruction) -> int:
    forms = (
        FLOAT_FORMATS.get({"c64": "f32", "c128": "f64"}.get(leaf.element_type.name, leaf.element_type.name))
        for _, leaf in instruction.shape.leaves
        if isinstance(leaf, ArrayShape)
    )
    return min((form.mantissa_bits for form in forms if form is not None), default=_WIDEST)
