"""Which arrays a run gets and gives back: from files, made up, or given; cut into parts of devices, and joined."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import groupby
from math import ceil, floor, inf
from types import MappingProxyType
from typing import Final, TypeAlias
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.layout.relayout import NpyHeader, npy_header
from hlo_cli.analysis.layout.relayout import array_of as array_in_npy
from hlo_cli.analysis.semantics.rules import called, target_of_call
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, array_of, carrier, rounded, settle, wrapped
from hlo_cli.analysis.sharding.entry_arrays import EntryArray, entry_arrays, is_partitioned
from hlo_cli.analysis.sharding.meshes import header_meshes
from hlo_cli.analysis.sharding.placement import Placement, Shard, leaf_shardings, placement_of, shards
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import AxisRef, DimensionSharding, Mesh, NamedSharding, Sharding
from hlo_cli.ir.attributes.value_types import ArrayLiteral
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import MOVES
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import HloError

# --- files of arrays ---
# Arrays in `.npz` and `.npy` files; the same values give the same bytes.


Check = Callable[[str, tuple[int, ...]], None]
"""Raises HloError for the name or the shape of an array that is not wanted."""

_GIB: Final = 2**30  # for messages: sizes are limited and shown in GiB
_HEADER: Final = 1 << 14
"""Bytes that hold the header of any array: numpy reads at most 10,000 characters."""


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The archive; numpy reads it with `load`.

    >>> np.load(BytesIO(npz_bytes({"result": np.arange(3)})))["result"].tolist()
    [0, 1, 2]
    """
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        for name, array in arrays.items():
            data = BytesIO()
            # ascontiguousarray makes a scalar one-dimensional, and npy files in Fortran order would be others for the
            # same values.
            np.save(data, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
            # ZipInfo without a date has 1980: the same arrays give the same bytes at any time.
            file.writestr(ZipInfo(f"{name.replace('/', '_')}.npy"), data.getvalue())
    return archive.getvalue()


def arrays_in(
    data: bytes, name: str, *, check: Check | None = None, max_bytes: int | None = None
) -> Iterator[tuple[str | None, Array]]:
    """The arrays of a file with their names; the one of a `.npy` file has none. HloError for other content.

    An archive of a few MB may hold terabytes of zeros: `check` is called with all names and shapes, and their size is
    compared with `max_bytes`, before anything is inflated.

    >>> [(name, array.tolist()) for name, array in arrays_in(npz_bytes({"p0": np.arange(2)}), "a.npz")]
    [('p0', [0, 1])]
    """
    try:
        # The magic of zip archives; numpy tells `.npz` and `.npy` apart in the same way.
        if not data.startswith(b"PK"):
            yield None, array_in_npy(data)
            return
        with ZipFile(BytesIO(data)) as file:
            headers = {info: _header_in(file, info) for info in file.infolist() if not info.is_dir()}
            total = sum(header.size for header in headers.values()) / _GIB
            for info, header in headers.items():
                if check is not None:
                    check(_array_name(info), header.shape)
            if max_bytes is not None and total * _GIB > max_bytes:
                raise HloError(
                    f"the arrays in {name} have {total:.3g} GiB, above the limit of {max_bytes / _GIB:.3g} GiB",
                    hint="use --max-memory SIZE to raise the limit",
                )
            for info, header in headers.items():
                with file.open(info) as member:
                    # One byte more than the header states, so that a longer member is noticed without being read to its
                    # end.
                    yield _array_name(info), array_in_npy(member.read(header.begin + header.size + 1))
    # What zipfile, zlib, and numpy raise for damaged archives, encrypted members (RuntimeError) included.
    except (ValueError, OSError, EOFError, BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise HloError(f"cannot read {name}: {error}", hint="supported: .npz, .npy, .json") from None


def _header_in(file: ZipFile, member: ZipInfo) -> NpyHeader:
    """The header of an array in an archive, of which no more is inflated."""
    with file.open(member) as stream:
        header = npy_header(stream.read(_HEADER))
    if header.begin + header.size != member.file_size:
        found = member.file_size - header.begin
        raise ValueError(f"the header of {member.filename} states {header.size:,} bytes of data, found {found:,}")
    return header


def _array_name(member: ZipInfo) -> str:
    """The name of an array as numpy gives it."""
    return member.filename.removesuffix(".npy")


def array_of_numbers(value: object) -> Array:
    """Numbers in nested lists as an array; HloError for anything else.

    >>> array_of_numbers([[1, 2]]).shape
    (1, 2)
    """
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise HloError("expected lists of equal lengths") from error
    if found.dtype.kind not in "biufc":
        raise HloError(f"expected numbers, found {type(value).__name__}")
    return found


# --- made-up and given arguments ---
# Arguments of a module: made up by type and seed, or given and checked against its parameters.
#
# Made-up numbers respect what the program needs where that can be seen: second moments of an optimizer are not
# negative, as their square root is taken, and indices are in range. Otherwise a healthy step would be full of NaN.


MAX_INTEGER: Final = 3
"""Integers are from 0 to this: as indices, most of them are within bounds."""


@dataclass(frozen=True, slots=True)
class Range:
    """What numbers a program takes: at least `low`, at most `high`, and not zero if it divides by them.

    >>> Range(low=0).moved(np.array([-2.0, 1.0])).tolist()
    [2.0, 1.0]
    >>> Range(low=0, high=8).integers, Range(high=1).integers, Range(not_zero=True).integers
    ((0, 3), (0, 1), (1, 3))
    """

    low: float = -inf
    high: float = inf
    not_zero: bool = False

    def both(self, range_: Range) -> Range:
        """What satisfies both; without any such number, what satisfies this one."""
        # A contradiction cannot be satisfied: what a user needs last was found first, and stays.
        low, high = max(self.low, range_.low), min(self.high, range_.high)
        return Range(low, high, self.not_zero or range_.not_zero) if low <= high else self

    def moved(self, values: Array) -> Array:
        """Standard normal numbers moved into the range: mirrored at one bound, squeezed between two."""
        if self.low > -inf and self.high < inf:
            # The logistic function reaches no bound, so that an atanh or erf-inv stays finite.
            return np.asarray(self.low + (self.high - self.low) / (1 + np.exp(-values)))
        if self.low > -inf:
            return np.asarray(self.low + np.abs(values))
        return np.asarray(self.high - np.abs(values)) if self.high < inf else values

    @property
    def integers(self) -> tuple[int, int]:
        """The least and the largest integer to draw, of 0 to `MAX_INTEGER` where the range has some of them."""
        least = int(max(0, ceil(self.low)) if self.low > -inf else 0)
        least = max(least, int(self.not_zero))
        # Indices have to be small even in a large range: large ones are constants of the program, not arguments.
        most = max(MAX_INTEGER, least)
        return least, max(least, min(most, floor(self.high))) if self.high < inf else most


ANY: Final = Range()
Ranges: TypeAlias = Mapping[int, Mapping[ShapeIndex, Range]]
"""The ranges of arguments, by the number of the parameter and the index of the array in it."""


def made_up(
    shape: Shape,
    number: int,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    ranges: Mapping[ShapeIndex, Range] = MappingProxyType({}),
) -> Value:
    """A value for parameter `number`: floats are standard normal, integers small and not negative.

    The numbers depend only on the seed, the number of the parameter, its sizes, and the `ranges` of its arrays, so that
    two dumps of one program get the same. None for tokens.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> made_up(parse_shape("s32[4]"), 0).tolist()
    [3, 2, 2, 1]
    """
    if isinstance(shape, TupleShape):
        return tuple(
            made_up(
                each,
                # Apart for tuples of up to 1,000 elements, but for parameter 0: its elements draw what parameters 1, 2,
                # … would.
                number * 1000 + at + 1,
                seed=seed,
                floats=floats,
                ranges={index[1:]: found for index, found in ranges.items() if index[:1] == (at,)},
            )
            for at, each in enumerate(shape.elements)
        )
    if not isinstance(shape, ArrayShape):
        return None
    # A generator for each array: what one array draws does not depend on the arrays before it.
    random = np.random.default_rng([seed, number])
    return _array(random, shape.element_type, shape.dimensions, floats, ranges.get((), ANY))


def _array(
    random: np.random.Generator, kind: PrimitiveType, sizes: tuple[int, ...], floats: Floats, within: Range
) -> Array:
    match kind.kind:
        case "pred":
            return random.integers(0, 2, sizes).astype(bool)
        case "signed" | "unsigned":
            least, most = within.integers
            # Drawn as s64 and wrapped, so that types of other widths get the same numbers.
            return wrapped(np.asarray(random.integers(least, most, sizes, endpoint=True)), kind)
        case "float":
            # Drawn in f32 and rounded, in both modes: a widened run has the numbers of the one as given.
            drawn = within.moved(np.asarray(random.standard_normal(sizes), np.float32))
            return rounded(drawn.astype(np.float32), kind.name).astype(carrier(kind, floats))
        case _:
            parts = random.standard_normal((2, *sizes))
            return np.asarray((parts[0] + 1j * parts[1]).astype(np.complex64)).astype(carrier(kind, floats))


def made_up_arguments(
    module: Module,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    ranges: Ranges | None = None,
    before_each: Callable[[Instruction], None] = lambda parameter: None,
) -> tuple[Value, ...]:
    """Arguments by type and seed, one for each parameter of the entry, within `ranges`: by default, what it needs.

    Two modules get the same arguments if the ranges are the same; see `made_up`, `argument_ranges`, and
    `common_ranges`.
    """
    found, ranges = [], argument_ranges(module) if ranges is None else ranges
    for at, parameter in enumerate(module.entry.parameters):
        before_each(parameter)
        found.append(made_up(parameter.shape, at, seed=seed, floats=floats, ranges=ranges.get(at, {})))
    return tuple(found)


# --- what a program needs of its arguments ---

_MOVES: Final = (MOVES - {opcodes.GET_TUPLE_ELEMENT}) | {
    opcodes.ALL_GATHER, opcodes.COLLECTIVE_PERMUTE, opcodes.CONVERT, opcodes.COPY_DONE, opcodes.DYNAMIC_SLICE,
    opcodes.GATHER, "reduce-precision",
}  # fmt: skip
"""Opcodes whose elements are those of operand 0."""
_SUMS: Final = frozenset((opcodes.ADD, opcodes.ALL_REDUCE, opcodes.REDUCE, opcodes.REDUCE_SCATTER))
_NEEDS: Final[dict[str, Range]] = {
    "sqrt": Range(low=0), "rsqrt": Range(low=0), "log": Range(low=0), "log-plus-one": Range(low=-1),
    # Domains of the functions; log and rsqrt of 0 are infinite, which made-up numbers meet only by chance.
    "acos": Range(-1, 1), "asin": Range(-1, 1), "atanh": Range(-1, 1), "acosh": Range(low=1), "erf-inv": Range(-1, 1),
}  # fmt: skip
"""What an operand must be, so that the result is a number."""
_EPSILON: Final = 0.01
"""What programs add under a square root so that it is not zero: at most this much, whatever the layer."""
_MOST_NEEDS: Final = 200_000
"""Needs to follow at most, so that made-up arguments take no longer than the run: about a second."""


def common_ranges(*modules: Module) -> Ranges:
    """What all modules need of the parameters that they have in common; the first decides on contradictions."""
    common: dict[int, dict[ShapeIndex, Range]] = {}
    for module in modules:
        for number, ranges in argument_ranges(module).items():
            into = common.setdefault(number, {})
            for index, each in ranges.items():
                into[index] = into.get(index, ANY).both(each)
    return common


def argument_ranges(module: Module) -> dict[int, dict[ShapeIndex, Range]]:
    """What a module needs of its parameters, by number and index: followed back from roots, logarithms, and indices.

    Sums and products of what must not be negative must not be negative themselves; `1 - x` must not exceed 1. What
    cannot be seen so simply is not followed: the arguments are then made up as any others.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { v = f32[4] parameter(0)  g = f32[4] parameter(1)  s = f32[4] multiply(g, g)"
    >>> argument_ranges(parse_module(text + "  a = f32[4] add(v, s)  ROOT r = f32[4] sqrt(a) }"))
    {0: {(): Range(low=0, high=inf, not_zero=False)}}
    """
    return cached_per_module(_needs, module)


def _needs(module: Module) -> dict[int, dict[ShapeIndex, Range]]:
    return _Needs(module).found


class _Needs:
    """The needs of all values, followed from users to operands and from called computations to their callers."""

    def __init__(self, module: Module) -> None:
        self.found: dict[int, dict[ShapeIndex, Range]] = {}
        self._entry = module.entry
        self._known: dict[tuple[Instruction, ShapeIndex], Range] = {}
        self._pending: list[tuple[Instruction, ShapeIndex, Range]] = []
        self._callers: dict[Computation, list[Instruction]] = {}
        for each in module.instructions:
            for computation in each.called_computations:
                self._callers.setdefault(computation, []).append(each)
        for each in module.instructions:
            self._begin(each)
        # A fixpoint that loops may prolong; what is missing at the limit is drawn as if nothing were known.
        for _ in range(_MOST_NEEDS):
            if not self._pending:
                break
            self._follow(*self._pending.pop())

    def _begin(self, instruction: Instruction) -> None:
        """The needs of one instruction itself."""
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in _NEEDS and operands:
            self._need(operands[0], (), _NEEDS[opcode])
        elif opcode == "divide" and len(operands) == 2:
            self._need(operands[1], (), Range(not_zero=True))
        elif opcode == "power" and len(operands) == 2:
            exponent = _number(operands[1])
            # Whole exponents keep any base real.
            if exponent is None or exponent != int(exponent):
                self._need(operands[0], (), Range(low=0))
        elif opcode == opcodes.GATHER and len(operands) == 2:
            # XLA clamps starts (operation_semantics, Gather and DynamicSlice): one out of range is legal, but seldom
            # meant.
            self._need(operands[1], (), Range(0, _last_start(instruction)))
        elif opcode == opcodes.DYNAMIC_SLICE and isinstance(shape := instruction.operand_shape(0), ArrayShape):
            sizes = instruction.integers("dynamic_slice_sizes")
            for operand, size, part in zip(operands[1:], shape.dimensions, sizes, strict=False):
                self._need(operand, (), Range(0, size - part))

    def _need(self, value: Instruction, index: ShapeIndex, need: Range) -> None:
        before = self._known.get((value, index), ANY)
        after = before.both(need)
        if after != before:
            # Only narrower needs are followed, so each value is visited a few times.
            self._known[value, index] = after
            self._pending.append((value, index, after))

    def _follow(self, value: Instruction, index: ShapeIndex, need: Range) -> None:
        opcode, operands = value.opcode, value.operands
        if opcode == opcodes.PARAMETER:
            self._follow_parameter(value, index, need)
        elif opcode == opcodes.GET_TUPLE_ELEMENT:
            self._need(operands[0], (value.integer("index") or 0, *index), need)
        elif opcode == opcodes.TUPLE and index and index[0] < len(operands):
            self._need(operands[index[0]], index[1:], need)
        elif opcode == opcodes.COPY_START:
            self._need(operands[0], (), need)
        elif value.called_computations and opcode in _CALLS:
            for computation in value.called_computations:
                # A condition returns a predicate, of which nothing is needed.
                if computation.root is not None and (opcode != opcodes.WHILE or computation is not _condition(value)):
                    self._need(computation.root, index, need)
            if opcode == opcodes.WHILE:
                self._need(operands[0], index, need)
        elif opcode in _MOVES and operands:
            # The index of a move of an array is its own; a copy or barrier may pass a tuple.
            self._need(operands[0], index if opcode in ("copy", opcodes.OPT_BARRIER) else (), need)
        elif opcode in (opcodes.CONCATENATE, opcodes.PAD, opcodes.DYNAMIC_UPDATE_SLICE):
            for each in operands if opcode == opcodes.CONCATENATE else operands[:2]:
                self._need(each, (), need)
        elif opcode == "select":
            self._follow_select(operands, need)
        elif not index:
            self._follow_arithmetic(value, need)

    def _follow_parameter(self, value: Instruction, index: ShapeIndex, need: Range) -> None:
        number = value.parameter_number or 0
        if value.computation is self._entry:
            ranges = self.found.setdefault(number, {})
            ranges[index] = ranges.get(index, ANY).both(need)
            return
        for caller in self._callers.get(value.computation, ()):
            # The value of an iteration is what the one before made: the need is one of the root of the body, too.
            if caller.opcode == opcodes.WHILE:
                body = next((each for each in caller.called_computations if each is not _condition(caller)), None)
                if body is not None and body.root is not None:
                    self._need(body.root, index, need)
            if caller.opcode == opcodes.CONDITIONAL:
                # Operand 0 of a conditional is the predicate or the index.
                number = 1 + caller.called_computations.index(value.computation)
            if caller.opcode in _CALLS and number < len(caller.operands):
                self._need(caller.operands[number], index, need)

    def _follow_select(self, operands: Sequence[Instruction], need: Range) -> None:
        """Both sides; of `select(i < 0, i + size, i)`, with which JAX wraps indices, the index alone."""
        for position, opposite in ((1, 2), (2, 1)):
            # jnp indexing adds the size to negative indices; the made-up ones are not negative.
            shifted = operands[position]
            if shifted.opcode == opcodes.ADD and operands[opposite] in shifted.operands:
                self._need(operands[opposite], (), need)
                return
        for each in operands[1:]:
            self._need(each, (), need)

    def _follow_arithmetic(self, value: Instruction, need: Range) -> None:
        opcode, operands = value.opcode, value.operands
        numbers = [_number(each) for each in operands[:2]]
        if opcode == "negate":
            self._need(operands[0], (), Range(-need.high, -need.low, need.not_zero))
        # They bound their result themselves, or have no second operand to divide the need by.
        elif opcode in ("maximum", "minimum", "clamp") or len(operands) < 2:
            return
        elif opcode == "subtract" and numbers[0] is not None:
            self._need(operands[1], (), Range(numbers[0] - need.high, numbers[0] - need.low))
        elif opcode == "subtract" and numbers[1] is not None:
            self._need(operands[0], (), Range(need.low + numbers[1], need.high + numbers[1]))
        elif opcode == opcodes.ADD and None in numbers and (number := _only(numbers)) is not None:
            self._need(operands[numbers.index(None)], (), Range(need.low - number, need.high - number))
        elif opcode in ("multiply", "divide") and (number := _only(numbers)) is not None and None in numbers:
            self._follow_scaled(value, numbers.index(None), number, need)
        elif opcode == "power" and numbers[0] is not None and 0 < numbers[0] < 1 and need.high <= 1:
            # A decay to the power of a step, as in the bias correction of Adam: at most 1 if no step is negative.
            self._need(operands[1], (), Range(low=0))
        # Sums and products of numbers that are not negative are not negative, which is enough and not necessary.
        elif need.low >= -_EPSILON and (opcode in _SUMS or opcode in ("multiply", "divide")):
            # A square is not negative whatever its base is.
            if opcode == "multiply" and _base(operands[0]) is _base(operands[1]):
                return
            for each in operands[:1] if opcode != opcodes.ADD and opcode in _SUMS else operands:
                self._need(each, (), Range(low=0, not_zero=need.not_zero and opcode == "multiply"))

    def _follow_scaled(self, value: Instruction, position: int, number: float, need: Range) -> None:
        """One operand is a number: its sign and size decide."""
        if value.opcode == "divide" and position == 1:
            # A number over a value: only the sign is known to carry over.
            bounds = (0.0, inf) if need.low >= 0 and number > 0 else (-inf, inf)
        elif number == 0:
            return
        else:
            factor = number if value.opcode == "multiply" else 1 / number
            low, high = need.low / factor, need.high / factor
            bounds = (low, high) if factor > 0 else (high, low)
        self._need(value.operands[position], (), Range(*bounds, need.not_zero))


_CALLS: Final = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE))


def _condition(loop: Instruction) -> Computation:
    return called(loop, "condition")


def _only(numbers: Sequence[float | None]) -> float | None:
    """The one number of two operands, of which the other is not known."""
    return next((each for each in numbers if each is not None), None)


def _number(value: Instruction) -> float | None:
    """The number that all elements of a value are, if it is a constant of one element, or made of one."""
    while value.opcode in ("bitcast", "broadcast", "convert", "copy", "reshape") and value.operands:
        value = value.operands[0]
    literal = value.literal if value.opcode == opcodes.CONSTANT else None
    if not isinstance(literal, ArrayLiteral) or literal.is_elided or literal.shape.elements != 1:
        return None
    array = literal.array()
    return float(array.reshape(-1)[0]) if array.dtype.kind in "fiu" else None


def _base(value: Instruction) -> Instruction:
    """What a value is a positive multiple of: the product of two multiples of one value is not negative."""
    # Squares are often written as (c·x)·x, so factors are removed before bases are compared.
    while value.operands:
        if value.opcode in ("bitcast", "broadcast", "convert", "copy", "reshape"):
            value = value.operands[0]
            continue
        numbers = [_number(each) for each in value.operands] if value.opcode == "multiply" else []
        number = _only(numbers)
        if number is None or number <= 0 or None not in numbers:
            break
        value = value.operands[numbers.index(None)]
    return value


def _last_start(gather: Instruction) -> float:
    """The largest index at which every slice of a gather fits."""
    shape, sizes = gather.operand_shape(0), gather.integers("slice_sizes")
    numbers = gather.integers("start_index_map")
    if not isinstance(shape, ArrayShape):
        return inf
    return min((shape.dimensions[at] - sizes[at] for at in numbers if at < min(shape.rank, len(sizes))), default=inf)


def check_count(values: Sequence[Value], module: Module) -> None:
    """HloError if the entry has another number of parameters."""
    count = len(module.entry.parameters)
    if len(values) != count:
        raise HloError(f"the module has {count} parameters, not {len(values)}")


def checked(value: Value, shape: Shape, name: str, floats: Floats) -> Value:
    """A value in the carriers of a shape, rounded to its types; HloError if its sizes are others."""
    if isinstance(shape, TupleShape):
        if not isinstance(value, tuple) or len(value) != len(shape.elements):
            raise HloError(f"{name} has to be a tuple of {len(shape.elements)} values")
        return tuple(
            checked(part, inner, f"{name}, element {at}", floats)
            for at, (part, inner) in enumerate(zip(value, shape.elements, strict=True))
        )
    if not isinstance(shape, ArrayShape):
        return None
    array = np.asarray(value)
    kind = "void" if array.dtype.type is np.void else array.dtype.kind
    if kind in ("void", "S", "U", "O", "M", "m") or (kind == "c" and not shape.element_type.is_complex):
        raise HloError(f"{name} has elements of type {array.dtype}, but the parameter is {shape}")
    if array.shape != shape.dimensions:
        sizes = ",".join(map(str, array.shape))
        raise HloError(f"{name} has sizes [{sizes}], but the parameter is {shape}")
    _check_numbers(array, shape, name)
    # f32 and f64 are converted once, by rounding to the type; a detour over the carrier would round twice.
    is_float = array.dtype in (np.float32, np.float64) and shape.element_type.kind == "float"
    held = array if is_float else array.astype(carrier(shape.element_type, floats))
    # Nothing of an array of the type itself is rounded, but a signaling NaN becomes quiet.
    if array.dtype.name == "bfloat16" and shape.element_type.name == "bf16" and not np.isnan(held).any():
        return held
    return settle(held, shape.element_type, floats)


def _check_numbers(array: Array, shape: ArrayShape, name: str) -> None:
    """HloError for numbers that integers or booleans cannot hold."""
    kind = shape.element_type
    if kind.kind not in ("pred", "signed", "unsigned") or array.dtype.kind == "b" or not array.size:
        return
    least = -(1 << (kind.bits - 1)) if kind.kind == "signed" else 0
    most = (1 << (kind.bits - (kind.kind == "signed"))) - 1 if kind.kind != "pred" else 1
    # NaN, infinities, and fractions have no integer; numpy would make some number of them.
    is_integral = array.dtype.kind in "iu" or bool((np.isfinite(array) & (array == np.trunc(array))).all())
    if not is_integral or int(array.min()) < least or int(array.max()) > most:
        raise HloError(f"{name} has numbers that {kind} cannot hold, but the parameter is {shape}")


# --- boundaries of manual computations ---
# Boundaries of manual computations on simulated devices: whole arrays become parts of devices, and parts whole arrays.
#
# Mirrors `SPMDFullToShardShape` and `SPMDShardToFullShape` of the SPMD partitioner, and Shardy's `GlobalToLocalShape`
# and `LocalToGlobalShape`. Before partitioning, every simulated device holds whole arrays outside of manual
# computations.


_ENTERS: Final = frozenset(("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"))
_LEAVES: Final = frozenset(("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape"))
# Shardy prints its shardings as MLIR in frontend attributes (xla/service/spmd/shardy/constants.h names them).
_SHARDY: Final = re.compile(r"<@\w++, \[([^\[\]]*+)\]")
_DIMENSION: Final = re.compile(r"\{([^{}]*+)\}")
_AXIS: Final = re.compile(r'\\?"([^"\\]++)\\?"')


def is_boundary(instruction: Instruction) -> bool:
    """Whether an instruction begins or ends a manual computation."""
    return instruction.opcode == opcodes.CUSTOM_CALL and target_of_call(instruction) in _ENTERS | _LEAVES


def crossing(
    instruction: Instruction, module: Module, count: int
) -> Callable[[Sequence[Sequence[Value]]], list[Value]]:
    """What a boundary makes of the operands of all devices."""
    enters = target_of_call(instruction) in _ENTERS
    placements = _placements(instruction, module, enters=enters)
    shapes = _arrays(instruction.shape)
    wholes = [instruction.operand_shape(at) for at in range(len(instruction.operands))] if enters else shapes
    if len(placements) != len(shapes):
        raise HloError(f"{instruction.name} has {len(placements)} shardings for {len(shapes)} arrays", instruction.span)

    def run(inputs: Sequence[Sequence[Value]]) -> list[Value]:
        columns = []
        for number, (placement, whole) in enumerate(zip(placements, wholes, strict=True)):
            values = [array_of(each[number]) for each in inputs]
            columns.append((_with_own_parts if enters else _joined)(values, placement, whole, count))
        if isinstance(instruction.shape, TupleShape):
            return [tuple(column[device] for column in columns) for device in range(count)]
        return list(columns[0])

    return run


def _with_own_parts(values: Sequence[Array], placement: Placement, whole: Shape, count: int) -> list[Value]:
    wholes: list[Value] = list(values)
    if not placement.is_tiled:
        return wholes
    # Manual computations see the part alone; without tiles every device has the whole array.
    for each in parts_of(whole, placement, count):
        wholes[each.device] = values[each.device][each.slices]
    return wholes


def _joined(values: Sequence[Array], placement: Placement, whole: Shape, count: int) -> list[Value]:
    if not placement.is_tiled or not isinstance(whole, ArrayShape):
        return list(values)
    return [joined(values, whole, placement)] * count


def parts_of(whole: Shape, placement: Placement, count: int) -> Iterator[Shard]:
    """The part of each device; HloError if there are more parts than devices."""
    for each in shards(whole, placement, device_count=count):
        if each.device >= count:
            raise HloError(f"a sharding of {whole} names device {each.device}, but there are {count} devices")
        yield each


def joined(parts: Sequence[Array], whole: ArrayShape, placement: Placement) -> Array:
    """The parts of all devices as one array, without the padding of uneven ones; of copies, the first one."""
    result = np.zeros(whole.dimensions, parts[0].dtype)
    # In reverse, so that of several copies the one of the lowest device remains.
    for each in reversed(tuple(parts_of(whole, placement, len(parts)))):
        result[each.slices] = parts[each.device][tuple(map(slice, each.sizes))]
    return result


def _arrays(shape: Shape) -> list[ArrayShape]:
    leaves = [leaf for _, leaf in shape.leaves]
    return [leaf for leaf in leaves if isinstance(leaf, ArrayShape)]


def _stated_placement(value: Instruction, element: int, module: Module) -> Placement | None:
    """The placement that the text states for a value, or for one `element` of it; None if it states none.

    It is that of its sharding, or of the boundary of a manual computation that it comes out of.
    """
    # Both spellings name no mesh: with one in the header it is that one.
    while value.opcode in (opcodes.GET_TUPLE_ELEMENT, opcodes.COPY, opcodes.BITCAST):
        element = value.integer("index") or 0 if value.opcode == opcodes.GET_TUPLE_ELEMENT else element
        value = value.operands[0]
    sharding = value.sharding
    if isinstance(sharding, Sharding | NamedSharding):
        return placement_of(sharding)
    if value.opcode != opcodes.CUSTOM_CALL:
        return None
    target = target_of_call(value)
    if target in _LEAVES:
        placements = _placements(value, module, enters=False)
        return placements[element] if element < len(placements) else None
    if target == "xla.sdy.FuncResultSharding":
        text = value.frontend_attributes.get("xla.sdy.sharding") or ""
        meshes, match = header_meshes(module), _SHARDY.search(text)
        return _shardy(match[1], meshes[0]) if match is not None and len(meshes) == 1 else None
    return None


def _placements(instruction: Instruction, module: Module, *, enters: bool) -> list[Placement]:
    """The placement of each array: that of the operand on the way in, that of the result on the way out."""
    key = "xla.sdy.in_shardings" if enters else "xla.sdy.out_shardings"
    text = instruction.frontend_attributes.get(key)
    # One mesh in the header is the one of all shardings; with several, the text does not say which.
    if text is not None:
        meshes = header_meshes(module)
        if len(meshes) != 1:
            raise HloError(f"{instruction.name}: the mesh of its shardings is unknown", instruction.span)
        return [_shardy(found[1], meshes[0]) for found in _SHARDY.finditer(text)]
    holder = instruction.operands[0] if enters else instruction
    sharding = holder.sharding
    if not isinstance(sharding, Sharding | NamedSharding):
        raise HloError(f"{holder.name} has no sharding, so the parts of devices are unknown", instruction.span)
    return [placement_of(sharding)]


def _shardy(text: str, mesh: Mesh) -> Placement:
    """The placement of `{"x"}, {}`: the axes of each dimension."""
    dimensions = tuple(
        DimensionSharding(tuple(AxisRef(axis) for axis in _AXIS.findall(found))) for found in _DIMENSION.findall(text)
    )
    return placement_of(NamedSharding(mesh, dimensions))


# --- parts of devices ---
# Arguments cut into the parts of devices, and results put together, by the shardings of a module.


def whole_arguments(
    module: Module,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    ranges: Ranges | None = None,
    before_each: Callable[[Instruction], None] = lambda parameter: None,
) -> tuple[Value, ...]:
    """Made-up arguments of the whole program, from the shapes of all devices together."""
    arguments: list[Value] = []
    ranges = argument_ranges(module) if ranges is None else ranges
    for _, arrays in groupby(entry_arrays(module).parameters, key=lambda each: each.number):
        listed = list(arrays)
        parameter = module.entry.parameters[listed[0].number]
        before_each(parameter)
        shape = parameter.shape
        whole = _whole_shape(shape, {each.index: each for each in listed})
        number = len(arguments)
        arguments.append(made_up(whole, number, seed=seed, floats=floats, ranges=ranges.get(number, {})))
    return tuple(arguments)


def _whole_shape(shape: Shape, arrays: dict[ShapeIndex, EntryArray], index: ShapeIndex = ()) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_whole_shape(each, arrays, (*index, n)) for n, each in enumerate(shape.elements)))
    if index not in arrays:
        return shape
    whole = arrays[index].whole
    return shape if whole is None else whole


def device_arguments(module: Module, whole: Sequence[Value], count: int) -> list[list[Value]]:
    """The arguments of each device: its part of each array, padded to the shape of its parameter."""
    arrays = {(each.number, each.index): each for each in entry_arrays(module).parameters}

    def part(value: Value, shape: Shape, number: int, index: ShapeIndex) -> list[Value]:
        if isinstance(shape, TupleShape):
            assert isinstance(value, tuple)
            parts = [
                part(v, s, number, (*index, n)) for n, (v, s) in enumerate(zip(value, shape.elements, strict=True))
            ]
            return [tuple(each[device] for each in parts) for device in range(count)]
        if not isinstance(shape, ArrayShape):
            # Tokens have no part.
            return [None] * count
        return list(_cut_for_devices(array_of(value), shape, arrays.get((number, index)), count))

    columns = [
        part(value, parameter.shape, number, ())
        for number, (value, parameter) in enumerate(zip(whole, module.entry.parameters, strict=True))
    ]
    return [[column[device] for column in columns] for device in range(count)]


def _cut_for_devices(array: Array, shape: ArrayShape, entry: EntryArray | None, count: int) -> list[Array]:
    # An array that is given in the size of a part is the part of each device.
    if entry is None or entry.placement is None or array.shape == shape.dimensions:
        return [array] * count
    # Ceiling division: XLA pads uneven parts at the end.
    sizes = [-(-size // part) for size, part in zip(array.shape, entry.placement.parts, strict=False)]
    if array.ndim != len(shape.dimensions) or tuple(sizes) != shape.dimensions:
        given, parts = ",".join(map(str, array.shape)), "×".join(map(str, entry.placement.parts))
        raise HloError(f"{entry.instruction.name} has sizes [{given}], which {parts} parts of {shape} do not make")
    found: list[Array] = [np.zeros(shape.dimensions, array.dtype) for _ in range(count)]
    whole = replace(entry.shape, dimensions=array.shape)
    for each in parts_of(whole, entry.placement, count):
        taken = array[each.slices]
        found[each.device][tuple(map(slice, taken.shape))] = taken
    return found


def assembled(module: Module, results: Sequence[Value]) -> tuple[Value, frozenset[ShapeIndex]]:
    """The result of all devices as one value, and the indices of arrays whose place on devices is unknown.

    Before partitioning, every device has whole arrays. After it, an array is put together by its sharding, by that of
    the parameter whose buffer it takes, or, if it is whole on every device, is that of device 0; else it is unknown,
    and only the part of device 0.
    """
    root = module.entry.root
    assert root is not None
    arrays = {each.index: each for each in entry_arrays(module).results}
    donors, stated = _donors(module), _stated(module)
    unknown: set[ShapeIndex] = set()

    def whole_of(values: Sequence[Value], shape: Shape, index: ShapeIndex) -> Value:
        if isinstance(shape, TupleShape):
            return tuple(
                whole_of([value[n] if isinstance(value, tuple) else None for value in values], each, (*index, n))
                for n, each in enumerate(shape.elements)
            )
        if not isinstance(shape, ArrayShape):
            return None
        parts = [array_of(value) for value in values]
        # Before partitioning, devices hold whole arrays, and all of them the same.
        if not is_partitioned(module):
            return parts[0]
        whole, placement = _place(arrays.get(index), donors.get(index))
        if placement is None and index in stated:
            whole, placement = stated[index]
        if placement is not None and placement.is_tiled and whole is not None:
            return joined(parts, whole, placement)
        # Without a sharding, parts of the whole size are copies; smaller ones could be anywhere.
        if placement is None and (whole is None or whole.dimensions != parts[0].shape):
            unknown.add(index)
        return parts[0]

    return whole_of(results, root.shape, ()), frozenset(unknown)


def _donors(module: Module) -> dict[ShapeIndex, EntryArray]:
    """The parameter whose buffer each result takes."""
    arrays = {(each.number, each.index): each for each in entry_arrays(module).parameters}
    found = {}
    for alias in module.input_output_alias:
        donor = arrays.get((alias.parameter_number, alias.parameter_index))
        if donor is not None:
            found[alias.output_index] = donor
    return found


def _stated(module: Module) -> dict[ShapeIndex, tuple[ArrayShape, Placement]]:
    """The whole shape and the placement of results that the program before partitioning states at their origin, or
    that the partitioner chose, as the proto next to the text states."""
    program = module.program
    root = None if program is None else program.entry.root
    if program is None or root is None:
        return {}
    stated: dict[ShapeIndex, tuple[ArrayShape, Placement]] = {}
    chosen = _chosen(module, root.shape)
    for index, leaf in root.shape.leaves:
        # Only elements of the root tuple have an origin of their own.
        value = root.operands[index[0]] if root.opcode == opcodes.TUPLE and len(index) == 1 else root
        placement = _stated_placement(value, index[0] if value is root and index else 0, program) or chosen.get(index)
        if placement is not None and isinstance(leaf, ArrayShape):
            stated[index] = leaf, placement
    return stated


def _chosen(module: Module, whole: Shape) -> dict[ShapeIndex, Placement]:
    """The placements that the partitioner chose for results, if they fit the shapes of devices."""
    sharding, root = (module.proto or module).spmd_output_sharding, module.entry.root
    if sharding is None or root is None:
        return {}
    parts = dict(root.shape.leaves)
    # A sharding that does not fit the parts is of another stage of the program.
    placements: dict[ShapeIndex, Placement] = {}
    with suppress(HloError):
        for index, leaf, leaf_sharding in leaf_shardings(whole, sharding):
            part, placement = parts.get(index), placement_of(leaf_sharding)
            if not isinstance(part, ArrayShape) or not isinstance(leaf, ArrayShape):
                continue
            if placement.shard_sizes(leaf.dimensions) == part.dimensions:
                placements[index] = placement
    return placements


def _place(entry: EntryArray | None, donor: EntryArray | None) -> tuple[ArrayShape | None, Placement | None]:
    """The whole shape of a result, and where its parts are."""
    for each in (entry, donor):
        if each is not None and each.placement is not None and each.whole is not None:
            return each.whole, each.placement
    return (None if entry is None else entry.whole), None
