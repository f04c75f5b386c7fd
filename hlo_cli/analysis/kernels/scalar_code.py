"""Which integers the scalar operations of a kernel compute, for all steps of a grid at once.

Values are numpy arrays that broadcast over the grid, or None where the body alone does not tell: what is loaded from
memory, or computed by an operation that is not known here. Mirrors mlir/lib/Dialect/Arith: integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from hlo_cli.analysis.kernels.kernel_body import kind_of
from hlo_cli.mlir.mlir_operations import Operation, Value
from hlo_cli.mlir.mlir_values import IntegerAttribute, IntegerType, NamedType

Numbers: TypeAlias = "np.ndarray[Any, Any] | None"
"""Integers that broadcast over a grid; None if unknown."""
Environment: TypeAlias = MutableMapping[Value, Numbers]
"""The numbers of values; those that are not in it are unknown."""

# --- arithmetic ---


def _divided(a: Any, b: Any) -> Any:
    """Division toward zero; by zero, which is undefined, 0."""
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.where(b == 0, 1, np.abs(b)))


def _floored(a: Any, b: Any) -> Any:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _shifted(a: Any, b: Any) -> Any:
    return a << np.clip(b, 0, 62)  # what is shifted further is undefined


BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": _divided,
    "divui": _divided,
    "remsi": lambda a, b: a - _divided(a, b) * b,
    "remui": lambda a, b: a - _divided(a, b) * b,
    "floordivsi": _floored,
    "ceildivsi": lambda a, b: -_floored(-a, b),
    "ceildivui": lambda a, b: -_floored(-a, b),
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "minui": np.minimum,
    "maxui": np.maximum,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "shli": _shifted,
    "shrsi": lambda a, b: a >> np.clip(b, 0, 63),
    "shrui": lambda a, b: a >> np.clip(b, 0, 63),
}
"""Operations of `arith` on two integers. Those on unsigned ones agree with them below half of their range."""
COMPARED: Final[Sequence[Callable[[Any, Any], Any]]] = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    *(lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b) * 2,
)
"""Comparisons by their predicate: eq, ne, slt, sle, sgt, sge, and the same of unsigned integers."""
SAME: Final = ("index_cast", "index_castui", "extui", "trunci", "assume_multiple")
"""Operations that leave a number as it is, as far as its type holds it."""


def evaluate(operation: Operation, environment: Environment) -> Numbers:
    """The result of a scalar operation without regions; None if it, or one of its operands, is unknown."""
    dialect, _, name = kind_of(operation).partition(".")
    if dialect not in ("arith", "tpu") or len(operation.results) != 1:
        return None
    if name == "constant":
        value = operation.attributes.get("value")
        return np.asarray(value.value) if isinstance(value, IntegerAttribute) else None
    given = [environment.get(value) for value in operation.operands]
    if name == "select" and len(given) == 3:
        return _selected(*given)
    known = [number for number in given if number is not None]
    if len(known) != len(given) or not known:
        return None
    with np.errstate(all="ignore"):  # integers wrap around
        return _fitted(_computed(operation, name, known), operation)


def _computed(operation: Operation, name: str, given: Sequence[Any]) -> Numbers:
    if len(given) == 2 and name in BINARY:
        return np.asarray(BINARY[name](*given))
    if len(given) == 2 and name == "cmpi":
        predicate = operation.attributes.get("predicate")
        code = predicate.value if isinstance(predicate, IntegerAttribute) else -1
        return np.asarray(COMPARED[code](*given)).astype(np.int64) if 0 <= code < len(COMPARED) else None
    if name == "extsi":
        return np.asarray(-given[0] if operation.operands[0].type == IntegerType(1) else given[0])
    return np.asarray(given[0]) if name in SAME else None


def _selected(condition: Numbers, true: Numbers, false: Numbers) -> Numbers:
    if condition is None:
        return None
    if condition.all():
        return true
    if not condition.any():
        return false
    return None if true is None or false is None else np.where(condition, true, false)


def _fitted(number: Numbers, operation: Operation) -> Numbers:
    """The number as its type holds it."""
    kind = operation.results[0].type
    bits = kind.bits if isinstance(kind, IntegerType | NamedType) else None
    if number is None or not bits or bits >= 64:
        return number
    if bits == 1:
        return number & 1
    half = 1 << (bits - 1)
    return ((number + half) & ((1 << bits) - 1)) - half


# --- functions without effects ---


def results_of(function: Operation, arguments: Sequence[Numbers]) -> tuple[Numbers, ...]:
    """What a function returns for arguments, such as the map of a window; conditions may be inside of it."""
    if not function.regions:
        return ()
    region = function.regions[0]
    environment: dict[Value, Numbers] = dict(zip(region.arguments, arguments, strict=False))
    for operation in region.operations:
        if kind_of(operation) == "func.return":
            return tuple([environment.get(value) for value in operation.operands])
        run(operation, environment)
    return ()


def run(operation: Operation, environment: Environment) -> None:
    """Adds the results of an operation to the environment."""
    if kind_of(operation) != "scf.if":
        if len(operation.results) == 1 and not operation.regions:
            environment[operation.results[0]] = evaluate(operation, environment)
        return
    branches = [_yielded(region.operations, environment) for region in operation.regions]
    condition = environment.get(operation.operands[0])
    for number, value in enumerate(operation.results):
        if len(branches) == 2 and all(number < len(branch) for branch in branches):
            environment[value] = _selected(condition, branches[0][number], branches[1][number])


def _yielded(operations: Sequence[Operation], environment: Environment) -> tuple[Numbers, ...]:
    for operation in operations:
        if kind_of(operation) == "scf.yield":
            return tuple([environment.get(value) for value in operation.operands])
        run(operation, environment)
    return ()


# --- what values depend on ---


def sources_of(value: Value) -> Iterator[Value]:
    """The values that a value is computed from directly, through the ends of regions too."""
    block = value.argument_of
    owner = value.operation if block is None else block.parent.parent
    if owner is None or kind_of(owner) == "func.func":
        return
    # what a loop carries is its first value, or the one at the end of an iteration
    yield from owner.operands
    for region in owner.regions:
        for each in region.blocks:
            if each.operations:
                yield from each.operations[-1].operands


def dependencies(values: Sequence[Value], *, cut_at_zero: bool = False) -> set[Value]:
    """All values that these are computed from, themselves among them.

    With `cut_at_zero`, a product with the constant 0 depends on nothing, as in Mosaic's pipeline.
    """
    found: set[Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        operation = value.operation
        is_product = operation is not None and kind_of(operation) == "arith.muli"
        if cut_at_zero and is_product and 0 in [constant_of(each) for each in sources_of(value)]:
            continue
        waiting += sources_of(value)
    return found


def constant_of(value: Value) -> int | None:
    """The number of a constant, through casts; None for other values."""
    while (operation := value.operation) is not None and kind_of(operation) == "arith.index_cast":
        value = operation.operands[0]
    if operation is None or kind_of(operation) != "arith.constant":
        return None
    found = operation.attributes.get("value")
    return found.value if isinstance(found, IntegerAttribute) else None
