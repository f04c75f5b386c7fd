"""What the elementwise operations of a kernel compute: `arith`, `math`, and those of `tpu`, on numbers and vectors.

Integers are Python's, floats and vectors are arrays. The functions on arrays are those of HLO's opcodes; a few
operations read signless integers as unsigned ones. Division by zero is undefined in MLIR, and here as in XLA.

Mirrors mlir/include/mlir/Dialect/Arith/IR/ArithOps.td and Math/IR/MathOps.td.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from hlo_cli.analysis.kernel_values.references import Reference, element_kind, repacked
from hlo_cli.analysis.kernels.kernel_body import kind_of
from hlo_cli.analysis.semantics.elementwise import converted, elementwise_function, reinterpreted
from hlo_cli.analysis.semantics.typed_values import Array, Floats, carrier, settle
from hlo_cli.ir.layout import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.mlir.mlir_operations import Operation
from hlo_cli.mlir.mlir_values import ArrayType, IntegerAttribute, Type
from hlo_cli.source import HloError

Operand: TypeAlias = "int | Array | Reference"
"""A value of a kernel: an integer of Python, a float or a vector as an array, or memory."""
Function: TypeAlias = Callable[..., Any]
"""Computes the result of an operation from its operands; None or a tuple for other than one result."""
Rule: TypeAlias = "Callable[[Operation, Floats], Function]"
"""Reads the attributes and types of an operation once."""


def unsupported(operation: Operation, why: str = "") -> HloError:
    """The error for an operation that is not evaluated."""
    return HloError(f"{kind_of(operation)} is not evaluated" + (f": {why}" if why else ""))


def result_type(operation: Operation) -> Type:
    """The type of the only result."""
    return operation.results[0].type


def number_kind(kind: Type) -> PrimitiveType:
    """The element type of a number or a vector; HloError for others."""
    found = element_kind(kind)
    if found is None:
        raise HloError(f"values of type {kind} are not evaluated")
    return found


def is_integer(kind: Type) -> bool:
    """Whether a value is an integer of Python: no vector, and no float."""
    return not isinstance(kind, ArrayType) and number_kind(kind).kind != "float"


def integer_attribute(operation: Operation, name: str, default: int = 0) -> int:
    """The number of an attribute."""
    value = operation.attributes.get(name)
    return value.value if isinstance(value, IntegerAttribute) else default


def as_array(value: Operand, kind: PrimitiveType, floats: Floats) -> Array:
    """A number as an array without dimensions."""
    return np.asarray(value, carrier(kind, floats)) if isinstance(value, int) else np.asarray(value)


def unsigned(kind: PrimitiveType) -> PrimitiveType:
    """The unsigned type of the same width; of booleans, these."""
    return kind if kind.kind == "pred" else PRIMITIVE_TYPES[f"u{kind.bits}"]


def wrapping(kind: PrimitiveType) -> Callable[[int], int]:
    """Cuts integers of Python to the bits of a signed type, or to booleans.

    >>> wrapping(PRIMITIVE_TYPES["s8"])(130), wrapping(PRIMITIVE_TYPES["pred"])(3)
    (-126, 1)
    """
    if kind.kind == "pred":
        return lambda x: x & 1
    half = 1 << (kind.bits - 1)
    mask = 2 * half - 1
    return lambda x: ((x + half) & mask) - half


# --- integers: of Python where they are single numbers ---


def _quotient(x: int, y: int) -> int:
    """Toward zero; -1 for a division by zero, as in XLA."""
    if y == 0:
        return -1
    return -(-x // y) if (x < 0) != (y < 0) else x // y


def _remainder(x: int, y: int) -> int:
    """With the sign of the dividend, which is the remainder of a division by zero."""
    return x if y == 0 else x - y * _quotient(x, y)


def _shifted(x: int, y: int) -> int:
    return x << y if 0 <= y < 64 else 0


_NUMBERS: Final[dict[str, Callable[[int, int], int]]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "divsi": _quotient,
    "remsi": _remainder,
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "maxsi": max,
    "minsi": min,
    "shli": _shifted,
    "floordivsi": lambda x, y: x // y if y else -1,
    "ceildivsi": lambda x, y: -(-x // y) if y else -1,
}
"""Operations on two signed integers of Python; results are wrapped."""
_UNSIGNED_NUMBERS: Final[dict[str, Callable[[int, int], int]]] = {
    "divui": lambda x, y: x // y if y else -1,
    "remui": lambda x, y: x % y if y else x,
    "maxui": max,
    "minui": min,
    "shrui": lambda x, y: x >> y if y < 64 else 0,
}
"""The same for integers that are read as unsigned."""

_OF_INTEGERS: Final = {
    "addi": "add", "subi": "subtract", "muli": "multiply", "divsi": "divide", "remsi": "remainder", "andi": "and",
    "ori": "or", "xori": "xor", "maxsi": "maximum", "minsi": "minimum", "shli": "shift-left",
    "shrsi": "shift-right-arithmetic", "shrui": "shift-right-logical",
}  # fmt: skip
"""The opcode of HLO that computes the same on arrays."""
_OF_UNSIGNED: Final = {"divui": "divide", "remui": "remainder", "maxui": "maximum", "minui": "minimum"}


def _of_integers(operation: Operation, floats: Floats) -> Function:
    """An operation on two integers, or on two vectors of them."""
    name = kind_of(operation).partition(".")[2]
    kind = number_kind(result_type(operation))
    if is_integer(result_type(operation)):
        return _of_numbers(operation, name, kind)
    opcode = _OF_INTEGERS.get(name) or _OF_UNSIGNED.get(name)
    if opcode is None:
        raise unsupported(operation, "its operands are vectors")
    if name not in _OF_UNSIGNED:
        function = elementwise_function(opcode, kind)
        return lambda x, y: settle(np.asarray(function(x, y)), kind)
    other = unsigned(kind)
    of_unsigned = elementwise_function(opcode, other)

    def run(x: Array, y: Array) -> Array:
        found = of_unsigned(converted(x, kind, other, floats), converted(y, kind, other, floats))
        return converted(np.asarray(found), other, kind, floats)

    return run


def _of_numbers(operation: Operation, name: str, kind: PrimitiveType) -> Function:
    wrap = wrapping(kind)
    if (plain := _NUMBERS.get(name)) is not None:
        return lambda x, y: wrap(plain(x, y))
    mask = (1 << kind.bits) - 1
    if (of_unsigned := _UNSIGNED_NUMBERS.get(name)) is not None:
        return lambda x, y: wrap(of_unsigned(x & mask, y & mask))
    if name == "shrsi":
        return lambda x, y: x >> min(y & mask, kind.bits - 1)
    raise unsupported(operation)


_ORDERS: Final = (np.less, np.less_equal, np.greater, np.greater_equal)


def _compared_integers(operation: Operation, floats: Floats) -> Function:
    """`arith.cmpi`: eq, ne, then the four orders of signed integers and those of unsigned ones."""
    number = integer_attribute(operation, "predicate")
    kind = operation.operands[0].type
    element = number_kind(kind)
    compare = (np.equal, np.not_equal, *_ORDERS, *_ORDERS)[number]
    is_signed = number < 2 + len(_ORDERS)
    if is_integer(kind):
        orders: tuple[Callable[[int, int], bool], ...] = (
            *(lambda x, y: x == y, lambda x, y: x != y),
            *(lambda x, y: x < y, lambda x, y: x <= y, lambda x, y: x > y, lambda x, y: x >= y) * 2,
        )
        order, mask = orders[number], (1 << element.bits) - 1
        # as numbers, so that a boolean can be cut and extended as others are
        return (lambda x, y: int(order(x, y))) if is_signed else (lambda x, y: int(order(x & mask, y & mask)))
    if is_signed:
        return compare
    other = unsigned(element)
    return lambda x, y: compare(converted(x, element, other, floats), converted(y, element, other, floats))


def _compared_floats(operation: Operation, floats: Floats) -> Function:
    """`arith.cmpf`: false, the ordered predicates, ord, the unordered ones, uno, and true."""
    number = integer_attribute(operation, "predicate")
    is_single = not isinstance(operation.operands[0].type, ArrayType)
    predicates = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
    never, ordered, unordered, always = 0, 7, 14, 15  # `CmpFPredicate` of ArithBase.td

    def run(x: Array, y: Array) -> Any:
        is_nan = np.isnan(x) | np.isnan(y)
        if number in (never, always):
            found = np.full(np.shape(is_nan), number == always)
        elif number in (ordered, unordered):
            found = ~is_nan if number == ordered else is_nan
        elif number < ordered:
            found = predicates[number - 1](x, y) & ~is_nan
        else:
            found = predicates[number - ordered - 1](x, y) | is_nan
        return int(found) if is_single else found

    return run


def _selected(operation: Operation, floats: Floats) -> Function:
    """`arith.select`: by one condition, or element by element."""
    if isinstance(operation.operands[0].type, ArrayType):
        return np.where
    return lambda chosen, x, y: x if chosen else y


# --- floats ---

_OF_FLOATS: Final = {
    "arith.addf": "add", "arith.subf": "subtract", "arith.mulf": "multiply", "arith.divf": "divide",
    "arith.maximumf": "maximum", "arith.minimumf": "minimum", "arith.remf": "remainder", "arith.negf": "negate",
    "math.absf": "abs", "math.atan2": "atan2", "math.ceil": "ceil", "math.cos": "cosine", "math.erf": "erf",
    "math.exp": "exponential", "math.expm1": "exponential-minus-one", "math.floor": "floor", "math.log": "log",
    "math.log1p": "log-plus-one", "math.powf": "power", "math.round": "round-nearest-afz",
    "math.roundeven": "round-nearest-even", "math.rsqrt": "rsqrt", "math.sin": "sine", "math.sqrt": "sqrt",
    "math.tan": "tan", "math.tanh": "tanh", "math.absi": "abs", "math.ctlz": "count-leading-zeros",
    "math.ctpop": "popcnt", "math.cbrt": "cbrt", "math.sinh": "sinh", "math.cosh": "cosh", "math.asin": "asin",
    "math.acos": "acos",
}  # fmt: skip
"""The opcode of HLO that computes the same."""
_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "math.atan": np.arctan,
    "math.exp2": np.exp2,
    "math.log2": np.log2,
    "math.fma": lambda x, y, z: x * y + z,
    "math.trunc": np.trunc,
    "tpu.reciprocal": lambda x: np.divide(x.dtype.type(1), x),
}
"""Functions that no opcode of HLO computes."""


def _of_floats(operation: Operation, floats: Floats) -> Function:
    """A function of floats, rounded to their type; also of integers, for those of `math` that take them."""
    name = kind_of(operation)
    kind = number_kind(result_type(operation))
    function = _OTHERS[name] if name in _OTHERS else elementwise_function(_OF_FLOATS[name], kind)
    if is_integer(result_type(operation)):
        return lambda *x: int(settle(np.asarray(function(*(as_array(each, kind, floats) for each in x))), kind))
    return lambda *x: settle(np.asarray(function(*x)), kind, floats)


# --- conversions ---


def _converting(source: Callable[[PrimitiveType], PrimitiveType], target: Callable[..., PrimitiveType]) -> Rule:
    """The rule of a conversion, with how it reads the types of its operand and its result."""

    def rule(operation: Operation, floats: Floats) -> Function:
        old, new = operation.operands[0].type, result_type(operation)
        held, kind = number_kind(old), number_kind(new)
        first, last = source(held), target(kind)

        def convert(x: Operand) -> Array:
            array = as_array(x, held, floats)
            array = array if first is held else converted(array, held, first, floats)
            found = converted(array, first, last, floats)
            return found if last is kind else converted(found, last, kind, floats)

        if not is_integer(new):
            return convert
        if is_integer(old):
            return _of_one_number(held, first, kind)
        return lambda x: int(convert(x))

    return rule


def _of_one_number(held: PrimitiveType, read_as: PrimitiveType, kind: PrimitiveType) -> Function:
    """The conversion of an integer of Python."""
    wrap = wrapping(kind)
    if read_as.kind == "signed":
        return lambda x: wrap(x)
    mask = (1 << held.bits) - 1
    return lambda x: wrap(x & mask)


def _same(kind: PrimitiveType) -> PrimitiveType:
    return kind


def _sign_extended(operation: Operation, floats: Floats) -> Function:
    """`arith.extsi`: of a boolean, -1 for true."""
    if number_kind(operation.operands[0].type).kind != "pred":
        return _converting(_same, _same)(operation, floats)
    kind = number_kind(result_type(operation))
    if is_integer(result_type(operation)):
        return lambda x: -(x & 1)
    return lambda x: np.negative(converted(x, PRIMITIVE_TYPES["pred"], kind, floats))


def _truncated(operation: Operation, floats: Floats) -> Function:
    """`arith.trunci`: the low bits; of a boolean, the lowest."""
    kind = number_kind(result_type(operation))
    if kind.kind == "pred" and not is_integer(result_type(operation)):
        return lambda x: (x & 1) != 0
    return _converting(_same, _same)(operation, floats)


def _same_bits(operation: Operation, floats: Floats) -> Function:
    """`arith.bitcast`: the same bits as another type of the same width."""
    old, new = operation.operands[0].type, result_type(operation)
    source, target = number_kind(old), number_kind(new)

    def run(x: Operand) -> Array:
        array = as_array(x, source, floats)
        return reinterpreted(array, source, target, array.shape, floats)

    return (lambda x: int(run(x))) if is_integer(new) else run


def _repacked(operation: Operation, floats: Floats) -> Function:
    """`tpu.bitcast`: the same registers as another type; rows are packed into wider elements."""
    source, target = number_kind(operation.operands[0].type), number_kind(result_type(operation))
    if source.bits == target.bits:
        return _same_bits(operation, floats)
    return lambda x: repacked(x, source, target, floats)


def _is_weird(operation: Operation, floats: Floats) -> Function:
    """`tpu.weird`: whether a float is infinite or NaN."""
    if isinstance(operation.operands[0].type, ArrayType):
        return lambda x: ~np.isfinite(x)
    return lambda x: int(not np.isfinite(x))


def _passed_on(operation: Operation, floats: Floats) -> Function:
    """What says something to the compiler alone."""
    return lambda x, *others: x


ARITHMETIC: Final[dict[str, Rule]] = {
    **{f"arith.{name}": _of_integers for name in (*_NUMBERS, *_UNSIGNED_NUMBERS, "shrsi")},
    **dict.fromkeys((*_OF_FLOATS, *_OTHERS), _of_floats),
    "arith.bitcast": _same_bits,
    "arith.cmpf": _compared_floats,
    "arith.cmpi": _compared_integers,
    "arith.extf": _converting(_same, _same),
    "arith.extsi": _sign_extended,
    "arith.extui": _converting(unsigned, unsigned),
    "arith.fptosi": _converting(_same, _same),
    "arith.fptoui": _converting(_same, unsigned),
    "arith.index_cast": _converting(_same, _same),
    "arith.index_castui": _converting(unsigned, unsigned),
    "arith.select": _selected,
    "arith.sitofp": _converting(_same, _same),
    "arith.truncf": _converting(_same, _same),
    "arith.trunci": _truncated,
    "arith.uitofp": _converting(unsigned, _same),
    "tpu.assume_multiple": _passed_on,
    "tpu.bitcast": _repacked,
    "tpu.extf": _converting(_same, _same),
    "tpu.fptosi": _converting(_same, _same),
    "tpu.mask_cast": _passed_on,
    "tpu.sitofp": _converting(_same, _same),
    "tpu.truncf": _converting(_same, _same),
    "tpu.weird": _is_weird,
}
"""The rule of each elementwise operation."""
