"""Which blocks of an array does a kernel visit, and by which formula of the grid's indices?

The map of a window is a function from a step of the grid to the number of a block in each dimension. Pallas writes it
as scalar operations; the formula is simplified as far as indices are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hlo_cli.analysis.kernels.kernel_body import kind_of, name_of
from hlo_cli.analysis.kernels.scalar_code import COMPARED, Numbers, results_of
from hlo_cli.dataclass import dataclass
from hlo_cli.mlir.mlir_operations import Operation, Value
from hlo_cli.mlir.mlir_values import IntegerAttribute

# --- formulas ---

LETTERS: Final = "ijklmnopqrstuvw"
"""The indices of a grid, from the first dimension, which changes slowest."""
_MOST: Final = 1 << 62  # no index is larger
_SHORT: Final = 60  # characters; beyond, a formula says less than its letters
"""The longest formula that is written whole."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a formula: its operation and parts, and between which numbers its value is.

    `name` is a letter, `?`, or an operation; a constant has neither name nor parts, and `low` equal to `high`.
    """

    name: str
    parts: tuple[Term, ...] = ()
    low: int = -_MOST
    high: int = _MOST

    @property
    def constant(self) -> int | None:
        """The number, if it is always the same."""
        return self.low if self.low == self.high else None

    def letters(self) -> set[str]:
        """The names in it that are not operations."""
        return set().union(*[part.letters() for part in self.parts]) if self.parts else {self.name} - {""}


def _constant(number: int) -> Term:
    return Term("", (), number, number)


_ZERO: Final = _constant(0)


def index_letters(count: int) -> tuple[str, ...]:
    """The names of a grid's indices.

    >>> index_letters(3)
    ('i', 'j', 'k')
    """
    return tuple([LETTERS[n] if n < len(LETTERS) else f"d{n}" for n in range(count)])


def formulas_of(function: Operation, grid: Sequence[int | None]) -> tuple[str, ...]:
    """The number of the block in each dimension, as a formula of the grid's indices; `?` for what is not known here."""
    if not function.regions:
        return ()
    arguments = function.regions[0].arguments
    letters = index_letters(len(grid))
    terms: dict[Value, Term] = {}
    for number, value in enumerate(arguments):
        if number < len(grid):
            size = grid[number]
            terms[value] = Term(letters[number], (), 0, _MOST if size is None else max(size - 1, 0))
        else:
            terms[value] = Term(name_of(value) or f"scalars{number - len(grid) or ''}")
    returned = _follow(function.regions[0].operations, terms, "func.return")
    return tuple([_written(terms.get(value, Term("?"))) for value in returned])


def _follow(operations: Sequence[Operation], terms: dict[Value, Term], end: str) -> Sequence[Value]:
    """Adds the terms of all results; the operands of the operation at the end."""
    for operation in operations:
        if kind_of(operation) == end:
            return operation.operands
        if kind_of(operation) == "scf.if" and len(operation.regions) == 2:
            yielded = [_follow(region.operations, terms, "scf.yield") for region in operation.regions]
            condition = terms.get(operation.operands[0], Term("?"))
            for value, true, false in zip(operation.results, *yielded, strict=False):
                terms[value] = _select(condition, terms.get(true, Term("?")), terms.get(false, Term("?")))
        elif len(operation.results) == 1:
            terms[operation.results[0]] = _term(operation, [terms.get(each, Term("?")) for each in operation.operands])
    return ()


def _term(operation: Operation, parts: Sequence[Term]) -> Term:
    kind = kind_of(operation)
    match kind.partition(".")[2], parts:
        case "constant", _:
            value = operation.attributes.get("value")
            return _constant(value.value) if isinstance(value, IntegerAttribute) else Term("?")
        case (("index_cast" | "index_castui" | "extui" | "trunci" | "assume_multiple"), [part, *_]):
            return part
        case "load", [array, *indices] if kind.startswith("memref."):
            return Term("load", (array, *indices))
        case "select", [condition, true, false]:
            return _select(condition, true, false)
        case "cmpi", [left, right]:
            return _compared(operation, left, right)
        case name, [left, right] if name in _SIMPLIFIED:
            return _SIMPLIFIED[name](left, right)
    if any(not part.letters() - {"?"} and part.constant is None for part in parts):
        return Term("?")
    return Term(kind.rpartition(".")[2], tuple(parts))


# --- simplification ---


def _sum(left: Term, right: Term) -> Term:
    low, high = left.low + right.low, left.high + right.high
    if left.constant is not None and right.constant is not None:
        return _constant(low)
    if left.constant is not None:
        left, right = right, left
    if right.constant == 0:
        return left
    if right.constant is not None and left.name == "+" and (inner := left.parts[1].constant) is not None:
        return _sum(left.parts[0], _constant(inner + right.constant))
    return Term("+", (left, right), low, high)


def _difference(left: Term, right: Term) -> Term:
    if right.constant is not None:
        return _sum(left, _constant(-right.constant))
    if left == right:
        return _ZERO
    return Term("-", (left, right), left.low - right.high, left.high - right.low)


def _product(left: Term, right: Term) -> Term:
    if left.constant is not None and right.constant is not None:
        return _constant(left.low * right.low)
    if right.constant is not None:
        left, right = right, left
    if left.constant in (0, 1):
        return right if left.constant else _ZERO
    if left.constant is not None and left.constant > 0:
        return Term("*", (left, right), left.low * right.low, left.high * right.high)
    low, high = (0, left.high * right.high) if left.low >= 0 and right.low >= 0 else (-_MOST, _MOST)
    return Term("*", (left, right), low, high)


def _quotient(left: Term, right: Term) -> Term:
    divisor = right.constant
    if left.low >= 0 and divisor is not None and divisor > 0:
        if left.high < divisor or left.constant is not None:
            return _constant(left.high // divisor)
        return left if divisor == 1 else Term("//", (left, right), left.low // divisor, left.high // divisor)
    return Term("div", (left, right))


def _remainder(left: Term, right: Term) -> Term:
    divisor = right.constant
    if left.low >= 0 and divisor is not None and divisor > 0:
        if left.high < divisor:
            return left
        return _constant(left.low % divisor) if left.constant is not None else Term("%", (left, right), 0, divisor - 1)
    return Term("rem", (left, right))


def _smaller(left: Term, right: Term) -> Term:
    if left.high <= right.low:
        return left
    if right.high <= left.low:
        return right
    return Term("min", (left, right), min(left.low, right.low), min(left.high, right.high))


def _larger(left: Term, right: Term) -> Term:
    if left.low >= right.high:
        return left
    if right.low >= left.high:
        return right
    return Term("max", (left, right), max(left.low, right.low), max(left.high, right.high))


def _both(left: Term, right: Term) -> Term:
    """`and` of conditions, which are 0 or 1."""
    for one, other in ((left, right), (right, left)):
        if one.constant is not None and (one.constant == 0 or (one.constant == 1 and other.high <= 1)):
            return other if one.constant else _ZERO
    return Term("and", (left, right), 0, max(left.high, right.high))


def _exclusive(left: Term, right: Term) -> Term:
    if right.constant == 0:
        return left
    return right if left.constant == 0 else Term("xor", (left, right), 0, max(left.high, right.high))


_SIMPLIFIED: Final[Mapping[str, Callable[[Term, Term], Term]]] = {
    "addi": _sum,
    "subi": _difference,
    "muli": _product,
    "divsi": _quotient,
    "divui": _quotient,
    "floordivsi": _quotient,
    "remsi": _remainder,
    "remui": _remainder,
    "minsi": _smaller,
    "minui": _smaller,
    "maxsi": _larger,
    "maxui": _larger,
    "andi": _both,
    "xori": _exclusive,
}
_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")  # by the predicate of `arith.cmpi`


def _compared(operation: Operation, left: Term, right: Term) -> Term:
    predicate = operation.attributes.get("predicate")
    code = predicate.value if isinstance(predicate, IntegerAttribute) else -1
    if not 0 <= code < len(_SIGNS):
        return Term("?")
    if left.name in _SIGNS and right.constant == 0 and _SIGNS[code] == "!=":
        return left  # a condition that was made a number and is a condition again
    # a comparison holds for all numbers if it does for those at both ends, or for none
    corners = {bool(COMPARED[code](a, b)) for a in (left.low, left.high) for b in (right.low, right.high)}
    is_order = _SIGNS[code] not in ("==", "!=")
    is_apart = left.high < right.low or right.high < left.low
    if len(corners) == 1 and (is_order or is_apart or (left.constant is not None and right.constant is not None)):
        return _constant(int(corners.pop()))
    return Term(_SIGNS[code], (left, right), 0, 1)


def _select(condition: Term, true: Term, false: Term) -> Term:
    if condition.constant is not None:
        return true if condition.constant else false
    if true == false:
        return true
    # `x // n` of JAX rounds down by taking 1 from the quotient if signs differ, which is so for 0 only: without effect
    if false.name == "//" and condition.name == "and" and true == _sum(false, _constant(-1)) and false.low >= 0:
        return false
    return Term("if", (condition, true, false), min(true.low, false.low), max(true.high, false.high))


# --- text ---


def _written(term: Term) -> str:
    text = _text(term, 0)
    if len(text) <= _SHORT:
        return text
    letters = sorted(term.letters() - {"?"})
    return f"f({', '.join(letters)})" if letters else "?"


_RANKS: Final = {"if": 1, "and": 2, **dict.fromkeys(_SIGNS, 3), "+": 4, "-": 4, "*": 5, "//": 5, "%": 5}
"""How closely the operations bind that stand between their parts."""


def _text(term: Term, rank: int) -> str:
    if term.constant is not None:
        return str(term.constant)
    if not term.parts:
        return term.name
    own = _RANKS.get(term.name)
    match term.name, term.parts:
        case "load", (array, *indices):
            return f"{_text(array, 9)}[{', '.join(_text(each, 0) for each in indices)}]"
        case "if", (condition, true, false):
            text = f"{_text(true, 2)} if {_text(condition, 2)} else {_text(false, 1)}"
        case "+", (left, right) if (number := right.constant) is not None and number < 0:
            text = f"{_text(left, 4)} - {-number}"
        case _, (left, right) if own is not None:
            text = f"{_text(left, own)} {term.name} {_text(right, own + 1)}".replace(" * ", "*")
        case _:
            return f"{term.name}({', '.join(_text(each, 0) for each in term.parts)})"
    return f"({text})" if own is not None and own < rank else text


# --- visits ---

MAX_POINTS: Final = 1 << 22  # four million: a second of numpy
"""The most steps for which the map of a window is computed."""


@dataclass(frozen=True, slots=True)
class Visits:
    """How often a window gets another block, and how many bytes all of these have, the ragged ones at the edge cut.

    `is_bound` means that these are upper bounds, as the blocks depend on numbers that only the program knows.
    """

    blocks: int
    elements: int
    is_bound: bool = False


def visits_of(
    function: Operation,
    grid: Sequence[int],
    used: Sequence[int],
    block: Sequence[int],
    sizes: Sequence[int],
    *,
    is_element: bool = False,
) -> Visits:
    """The blocks that a window is given while the grid runs, in row-major order.

    `used` are the grid's dimensions that the map depends on. A block is moved at the first step, and at each step whose
    block differs from that of the step before. Its elements are those within the array, whose sizes are `sizes`.
    """
    if not prod(grid):
        return Visits(0, 0)
    used = [dimension for dimension in used if grid[dimension] > 1]
    if prod(grid[dimension] for dimension in used) > MAX_POINTS:
        count = prod(grid[: max(used) + 1])
        return Visits(count, count * prod(block), is_bound=True)
    whole = _elements_of(_blocks_at(function, grid, {}), block, sizes, is_element=is_element)
    first = prod(block) if whole is None else int(whole.sum())
    blocks, elements, is_bound = 1, first, whole is None
    for dimension in range(max(used, default=-1) + 1):
        size = grid[dimension]
        if size < 2:
            continue
        # from a step to the next, one index grows by 1, and all behind it go back from their last value to 0
        times = prod(grid[:dimension]) * (size - 1)
        before, after = _neighbors(grid, used, dimension)
        old, new = _blocks_at(function, grid, before), _blocks_at(function, grid, after)
        if any(number is None for number in (*old, *new)):
            blocks, elements, is_bound = blocks + times, elements + times * prod(block), True
            continue
        shape = [grid[n] if n in used and n < dimension else 1 for n in range(len(grid))]
        shape[dimension] = size - 1 if dimension in used else 1
        changed = np.zeros(shape, bool)
        for one, other in zip(old, new, strict=True):
            changed = changed | (one != other)
        counted = _elements_of(new, block, sizes, is_element=is_element)
        assert counted is not None
        each = times // prod(shape)  # steps that differ in indices which the map does not depend on
        blocks += each * int(changed.sum())
        elements += each * int((changed * counted).sum())
    return Visits(blocks, elements, is_bound)


def _neighbors(
    grid: Sequence[int], used: Sequence[int], dimension: int
) -> tuple[dict[int, np.ndarray[Any, Any]], dict[int, np.ndarray[Any, Any]]]:
    """The indices before and after all steps that increase the index of a dimension; those not in it are 0."""
    before: dict[int, np.ndarray[Any, Any]] = {}
    after: dict[int, np.ndarray[Any, Any]] = {}
    for other in used:
        shape = [1] * len(grid)
        if other > dimension:
            before[other] = np.asarray(grid[other] - 1)
            continue
        shape[other] = -1
        numbers = np.arange(grid[other]).reshape(shape)
        before[other] = numbers if other < dimension else np.arange(grid[other] - 1).reshape(shape)
        after[other] = numbers if other < dimension else before[other] + 1
    return before, after


def _blocks_at(
    function: Operation, grid: Sequence[int], indices: Mapping[int, np.ndarray[Any, Any]]
) -> tuple[Numbers, ...]:
    zero = np.asarray(0)
    return results_of(function, [indices.get(dimension, zero) for dimension in range(len(grid))])


def _elements_of(
    indices: Sequence[Numbers], block: Sequence[int], sizes: Sequence[int], *, is_element: bool
) -> np.ndarray[Any, Any] | None:
    """The elements of blocks that are within the array; None if a number is unknown."""
    found = np.asarray(1)
    for index, size, whole in zip(indices, block, sizes, strict=False):
        if index is None:
            return None
        start = index if is_element else index * size
        found = found * (np.clip(start + size, 0, whole) - np.clip(start, 0, whole))
    return found
