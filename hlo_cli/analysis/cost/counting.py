"""What is a cost, and how is it counted: its properties, XLA's options, its arithmetic, and the sizes of shapes?"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.dataflow.dependencies import EqualComputations
from hlo_cli.dataclass import brief_count, dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import Tile
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, BufferShape, OpaqueShape, Shape, TupleShape, UnknownShape

# --- costs and options ---
# Mirrors `HloCostAnalysis::Properties` and `HloCostAnalysis::Options` of xla/service/hlo_cost_analysis.h.


Number = int | float
"""Exact count or quotient; with `CostOptions.float32`, a value that a C++ float can hold."""

FLOPS: Final = "flops"
TRANSCENDENTALS: Final = "transcendentals"
BYTES: Final = "bytes accessed"
OUTPUT_BYTES: Final = "bytes accessedout{}"
OPTIMAL_SECONDS: Final = "optimal_seconds"
UNKNOWN: Final = "unknown"
"""Number of operations of unknown cost; not a property of XLA, and not part of `Cost.properties`."""

Properties = dict[str, Number]
"""Values by XLA's property names; missing ones are 0."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Options of the cost analysis; by default values are exact, and operations of unknown cost count as 0.

    - `float32`: every sum is rounded to float, in the order in which XLA visits instructions.
    - `minus_one`: a custom call costs -1 flops and -1 bytes, which XLA sums like other values.
    - `wraps`: an unbounded dimension, printed `?`, is -2^63, with int64 overflow as in XLA; else it counts as 1 and
      makes the cost unknown.
    - `call_markers_are_free`: custom calls that mark a call cost nothing, as since August 2026.
    - `packed_constants`: constants have the bits of their layout; XLA drops `E(n)` when it parses them.
    - `known_calls`: a custom call costs what its configuration states, and always reads its operands and writes its
      result.
    - `padded`: arrays have their padded TPU sizes; untiled ones count as tiled by (8,128).
    - `table_alignment`: a tuple's table has 4 bytes per element, rounded up to this; 0 for 8 bytes per element.
      With `padded`, costs are those of the TPU compiler, which is not public: equal to the last bit to those of libtpu
      0.0.51 but for sorts, SparseCore calls, and collectives in fusions (`tests/test_compilers_costs.py`).
    - `trip_counts`: a loop body counts as often as it runs, if known; XLA counts it once.
    - `gathered_parts`: a gather in a fusion reads the elements of its result, as outside of one, where XLA counts the
      whole array: a few rows of a large table.

    >>> CostOptions() == EXACT, XLA.float32, RUN.trip_counts
    (True, True, True)
    """

    float32: bool = False
    minus_one: bool = False
    wraps: bool = False
    call_markers_are_free: bool = False
    packed_constants: bool = False
    known_calls: bool = False
    padded: bool = False
    table_alignment: int = 0
    trip_counts: bool = False
    gathered_parts: bool = False


EXACT: Final = CostOptions()
"""XLA's properties as exact numbers."""

XLA: Final = CostOptions(float32=True, minus_one=True, wraps=True)
"""XLA's properties to the last bit, as of jaxlib 0.10.2."""

RUN: Final = CostOptions(packed_constants=True, known_calls=True, trip_counts=True)
"""Best estimate of the cost of one execution."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of an instruction, computation, or module: nonzero properties by XLA's names.

    `unknown` is the number of operations of unknown cost, which the properties omit.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[4] add(f32[4] a, f32[4] b)").entry.root)
    >>> cost.flops, cost.bytes_accessed, cost.output_bytes, cost.operand_bytes(1), cost.unknown
    (4, 48, 16, 16, 0)
    >>> dict(cost.properties)["utilization1{}"]
    1
    """

    properties: Mapping[str, Number] = field(default_factory=lambda: MappingProxyType({}))
    unknown: int = 0

    def __repr__(self) -> str:
        unknown = f", {brief_count(self.unknown, 'operations')} of unknown cost" if self.unknown else ""
        return f"<Cost {self.flops:,} flops, {self.bytes_accessed:,} bytes accessed{unknown}>"

    @property
    def flops(self) -> Number:
        """Number of floating-point and integer operations, which XLA counts alike."""
        return self.properties.get(FLOPS, 0)

    @property
    def transcendentals(self) -> Number:
        """Number of elements of exponentials, sines, and similar functions, which are not flops."""
        return self.properties.get(TRANSCENDENTALS, 0)

    @property
    def bytes_accessed(self) -> Number:
        """Bytes read and written, without padding."""
        return self.properties.get(BYTES, 0)

    @property
    def output_bytes(self) -> Number:
        """Bytes written."""
        return self.properties.get(OUTPUT_BYTES, 0)

    def operand_bytes(self, number: int) -> Number:
        """Bytes read from one operand."""
        return self.properties.get(operand_key(number), 0)

    def operand_utilization(self, number: int) -> Number:
        """Fraction of one operand that is used; 1 for all of it."""
        return self.properties.get(utilization_key(number), 0)

    @property
    def intensity(self) -> float | None:
        """Flops per byte accessed; None if no bytes are accessed.

        >>> Cost({"flops": 6, "bytes accessed": 4}).intensity, Cost().intensity
        (1.5, None)
        """
        return self.flops / self.bytes_accessed if self.bytes_accessed > 0 else None


@cache
def operand_key(number: int, index: tuple[int, ...] = ()) -> str:
    """XLA's property name for the bytes read from an operand, or from one of its tuple elements.

    >>> operand_key(0), operand_key(2, (1, 0))
    ('bytes accessed0{}', 'bytes accessed2{1,0}')
    """
    return f"bytes accessed{number}{index_text(index)}"


@cache
def output_key(index: tuple[int, ...]) -> str:
    """XLA's property name for the bytes written to a tuple element of the result.

    >>> output_key((1, 0))
    'bytes accessedout{1,0}'
    """
    return f"bytes accessedout{index_text(index)}"


@cache
def utilization_key(number: int) -> str:
    """XLA's property name for the used fraction of an operand.

    >>> utilization_key(0)
    'utilization0{}'
    """
    return f"utilization{number}{{}}"


# --- the counter ---
# Mirrors `HloCostAnalysis::Preprocess`, `GetShapeSize`, and `HloCostAnalysis::DefaultShapeSize` of
# xla/service/hlo_cost_analysis.cc.


_POINTER_BYTES: Final = 8  # tuple tables have pointers of the host, which XLA's default `ShapeSizeFunction` takes
# TPU addresses have 32 bits: measured on the tuple tables of compiled modules, see `table_granule`.
_TPU_POINTER_BYTES: Final = 4
DEFAULT_TILE: Final = Tile((8, 128))
"""Tile with which the TPU compiler counts untiled arrays."""

_DYNAMIC_SIZE_BYTES: Final = 4  # of a dimension's size that is only known when the program runs
_EXACT_IN_FLOAT64: Final = 1 << 53  # integers up to here survive the way through a double


@dataclass(frozen=True, slots=True)
class ShapeSize:
    """Size of a shape: bytes, bytes of its leaves, and elements of an array.

    The bytes of a tuple are those of its pointer table. `has_unbounded` if a dimension is unbounded, and `wraps` if it
    then counts as XLA's -2^63.
    """

    shape: Shape
    bytes: int
    leaf_bytes: tuple[int, ...]
    elements: int
    wraps: bool = False
    has_unbounded: bool = False

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Dimensions of an array; empty for other shapes."""
        array = array_of(self.shape)
        if array is None:
            return ()
        return array.dimensions if self.wraps else array.sizes

    def size(self, dimension: int) -> int:
        """Size of one dimension; 1 if it does not exist."""
        return size_in(self.dimensions, dimension)


def size_in(dimensions: tuple[int, ...], dimension: int) -> int:
    """Size of one dimension; 1 if it does not exist.

    >>> size_in((3, 5), -1), size_in((3, 5), 2)
    (5, 1)
    """
    return dimensions[dimension] if -len(dimensions) <= dimension < len(dimensions) else 1


@dataclass(slots=True)
class CostCounter:
    """State of a cost analysis; callees are counted before their callers.

    `totals` has the sums of computations, `reads` the bytes that fusions read from their parameters, of equal
    computations only those of the `first`.
    """

    rules: CostOptions
    totals: dict[Computation, Properties] = field(default_factory=dict)
    reads: dict[Instruction, int] = field(default_factory=dict)
    _equal: EqualComputations = field(default_factory=lambda: computed_once(EqualComputations))
    _firsts: dict[Computation, Computation] = field(default_factory=dict)
    _has_unbounded: bool = False
    _measures: dict[int, ShapeSize] = field(default_factory=dict)

    def first(self, computation: Computation) -> Computation:
        """The computation equal to this one that is counted for all of them: the first one asked for."""
        return self._firsts.setdefault(self._equal.first(computation), computation)

    def measure(self, shape: Shape) -> ShapeSize:
        """Size of a shape, cached by identity, as many instructions share a shape object.

        >>> from hlo_cli import parse_shape
        >>> counter = CostCounter(CostOptions())
        >>> counter.measure(parse_shape("(f32[3,5], u4[3]{0:E(4)}, (pred[7], token[]))")).leaf_bytes
        (60, 2, 7, 0)
        """
        size = self._measures.get(id(shape))
        if size is None:
            size = self._measures[id(shape)] = measure(
                shape, self.rules
            )  # keeps a reference to the shape, so that its id is not reused
            # Kept for the whole counter: almost no module has one, and each instruction would be asked.
            self._has_unbounded |= size.has_unbounded
        return size

    def has_unbounded(self, instruction: Instruction) -> bool:
        """Whether the result or an operand has an unbounded dimension."""
        if not self._has_unbounded:
            return False
        return any(each.has_unbounded for each in (self.measure(instruction.shape), *self.operands(instruction)))

    def value(self, instruction: Instruction) -> ShapeSize:
        """Size of the result of an instruction.

        >>> from hlo_cli import parse_module
        >>> constant = parse_module("c = s4[3]{0:E(4)} constant({1, 2, 3})").entry.root
        >>> packed = CostCounter(CostOptions(packed_constants=True))
        >>> CostCounter(CostOptions()).value(constant).bytes, packed.value(constant).bytes
        (3, 2)
        """
        shape = instruction.shape
        # XLA's parser drops `E(n)` from the shape of a constant.
        if instruction.opcode == opcodes.CONSTANT and not self.rules.packed_constants:
            shape = _unpacked(shape)
        return self.measure(shape)

    def operand(self, instruction: Instruction, number: int) -> ShapeSize:
        """Size of an operand; NO_SIZE if it does not exist, as in malformed input."""
        if number >= len(instruction.operands):
            return NO_SIZE
        # Operands that name an element of a tuple, as TPU texts can: only that element is read.
        if instruction.computation.operand_indices and instruction.operand_index(number):
            return self.measure(instruction.operand_shape(number))
        return self.value(instruction.operands[number])

    def operands(self, instruction: Instruction) -> list[ShapeSize]:
        """Sizes of all operands."""
        return [self.operand(instruction, number) for number in range(len(instruction.operands))]

    def sum(self, terms: Iterable[Number]) -> Number:
        """Sum of `terms`; with `float32`, rounded at each step.

        >>> terms = (2**24, 1, 1)
        >>> CostCounter(CostOptions()).sum(terms), CostCounter(CostOptions(float32=True)).sum(terms)
        (16777218, 16777216.0)
        """
        if not self.rules.float32:
            return sum(terms)
        total = 0.0
        for term in terms:
            # The sum of two floats in a double, rounded once, equals their sum in single precision.
            total = array("f", (total + float32(term),))[0]
        return total

    def add(self, properties: Properties, more: Properties) -> None:
        """Adds `more` to `properties` in place."""
        if self.rules.float32:
            for name, value in more.items():
                properties[name] = array("f", (properties.get(name, 0.0) + value,))[0]
        else:
            for name, value in more.items():
                properties[name] = properties.get(name, 0) + value

    def times(self, value: Number, count: int) -> Number:
        """Product; with `float32`, both factors and the product are rounded."""
        return float32(float32(value) * float32(int64(count))) if self.rules.float32 else value * count

    def finish(self, properties: Properties) -> Properties:
        """Nonzero properties; with `float32`, rounded."""
        if not self.rules.float32:
            # hlo_cost_analysis.h never keeps a zero: a missing property and one of 0 are the same to it.
            return {name: value for name, value in properties.items() if value}
        return {name: float32(value) for name, value in properties.items() if value}

    def defaults(self, instruction: Instruction) -> Properties:
        """Cost of an operation that reads its operands, writes its result, and computes nothing."""
        result, operands = self.measure(instruction.shape), self.operands(instruction)
        properties: Properties = {
            OUTPUT_BYTES: self.sum(result.leaf_bytes),
            # XLA's asymmetry: leaves of the result, but of a tuple operand only its table.
            BYTES: self.sum((*result.leaf_bytes, *[operand.bytes for operand in operands])),
        }
        for number, operand in enumerate(operands):
            properties[operand_key(number)] = operand.bytes
            properties[utilization_key(number)] = 1
        return properties


Handler = Callable[[Instruction, Properties, CostCounter], None]
"""Function that corrects the default properties of one kind of operation."""


def measure(shape: Shape, rules: CostOptions = EXACT) -> ShapeSize:
    """Size of a shape, with padding if `rules.padded`; 0 for invalid layouts.

    >>> from hlo_cli import parse_shape
    >>> measure(parse_shape("f32[<=3,5]{1,0:T(8,128)}")).bytes, measure(parse_shape("(f32[9], f32[])")).bytes
    (68, 16)
    >>> measure(parse_shape("f32[3,5]{1,0:T(8,128)}"), CostOptions(padded=True)).bytes
    4096
    """
    if isinstance(shape, TupleShape):
        leaves = tuple(_bytes(leaf, rules) for _, leaf in shape.leaves)
        has_unbounded = any(_is_unbounded(leaf) for _, leaf in shape.leaves)
        return ShapeSize(shape, _table_bytes(len(shape.elements), rules), leaves, 0, has_unbounded=has_unbounded)
    array = array_of(shape)
    # Such a layout cannot be measured; the text is damaged, and the rest of the module is still worth counting.
    if array is not None and array.problem is not None:  # no array can be so
        return ShapeSize(shape, 0, (0,), 0)
    size, has_unbounded = _bytes(shape, rules), _is_unbounded(shape)
    elements = 0 if array is None else array.elements
    if has_unbounded and rules.wraps and array is not None:
        # `?` is stored as the least int64, with which XLA multiplies on.
        elements = int64(prod(array.dimensions))
    return ShapeSize(shape, size, (size,), elements, has_unbounded and rules.wraps, has_unbounded)


def int64(number: int) -> int:
    """Value of a number in int64 arithmetic with overflow.

    >>> int64(3), int64(1 << 63), int64(-(1 << 63) * 6)
    (3, -9223372036854775808, 0)
    """
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def array_of(leaf: Shape) -> ArrayShape | None:
    """Array of a shape or buffer; None for other shapes.

    >>> from hlo_cli import parse_shape
    >>> str(array_of(parse_shape("b(f32[4])"))), array_of(parse_shape("token[]"))
    ('f32[4]{0}', None)
    """
    array = leaf.array if isinstance(leaf, BufferShape) else leaf
    return array if isinstance(array, ArrayShape) else None


def _is_unbounded(leaf: Shape) -> bool:
    array = array_of(leaf)
    return array is not None and UNBOUNDED in array.dimensions


def _table_bytes(elements: int, rules: CostOptions) -> int:
    if not rules.table_alignment:
        return _POINTER_BYTES * elements
    # Rounded up to what the chip allocates: 1024 bytes on v2 and v3, 512 on v4 and v5e, 32 on later ones.
    return -(-_TPU_POINTER_BYTES * elements // rules.table_alignment) * rules.table_alignment


def _unpacked(shape: Shape) -> Shape:
    """Shape without `E(n)`; itself if it has none."""
    if isinstance(shape, TupleShape):
        return replace(shape, elements=tuple(map(_unpacked, shape.elements)))
    if isinstance(shape, ArrayShape) and shape.layout.element_size_in_bits:
        return replace(shape, layout=replace(shape.layout, element_size_in_bits=0))
    return shape


def _bytes(leaf: Shape, rules: CostOptions) -> int:
    match leaf:
        case ArrayShape():
            if rules.padded:
                return _padded_bytes(leaf)
            if rules.wraps and UNBOUNDED in leaf.dimensions:
                return int64(prod(leaf.dimensions) * -(-leaf.element_bits // 8) + _DYNAMIC_SIZE_BYTES * leaf.rank)
            # One dynamic dimension is enough for XLA to store the sizes of all of them.
            return leaf.logical_bytes + (_DYNAMIC_SIZE_BYTES * leaf.rank if leaf.is_dynamic else 0)
        case BufferShape():
            return _bytes(leaf.array, rules)
        # A handle is a pointer on the host; TPU modules have none in memory.
        case OpaqueShape() if not rules.padded:
            return _POINTER_BYTES
        case _:
            return 0


def _padded_bytes(array: ArrayShape) -> int:
    if not array.layout.tiles:
        # The TPU compiler tiles before it counts, so untiled arrays of its dumps have a tile by then.
        array = replace(array, layout=replace(array.layout, tiles=(DEFAULT_TILE,)))
    return array.padded_bytes


NO_SIZE: Final = measure(UnknownShape())


def float32(value: Number) -> float:
    """Nearest C++ float; integers are rounded once, not through a double.

    >>> float32(2**24 + 1), float32(2**54 + 2**30 + 1)
    (16777216.0, 1.801440065696563e+16)
    """
    if isinstance(value, int) and abs(value) > _EXACT_IN_FLOAT64:
        # Beyond 2⁵³ the double would round first; a sticky bit for the dropped ones makes the second rounding right.
        value = float(value >> 12 << 12 | bool(value & 0xFFF) << 12) if abs(value) < 1 << 63 else float(value)
    return array("f", (value,))[0]
