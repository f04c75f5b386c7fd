"""Arguments of a module: made up by type and seed, or given and checked against its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array, Floats, carrier, rounded, settle, wrapped
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.primitive import PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError

MAX_INTEGER: Final = 3
"""Integers are from 0 to this: as indices, most of them are within bounds."""


def made_up(shape: Shape, number: int, *, seed: int = 0, floats: Floats = "exact") -> Value:
    """A value for parameter `number`: floats are standard normal, integers small and not negative.

    The numbers depend only on the seed, the number of the parameter, and its sizes, so that two dumps of one program
    get the same. None for tokens.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> made_up(parse_shape("s32[4]"), 0).tolist()
    [3, 2, 2, 1]
    """
    if isinstance(shape, TupleShape):
        return tuple(
            made_up(each, number * 1000 + at + 1, seed=seed, floats=floats) for at, each in enumerate(shape.elements)
        )
    if not isinstance(shape, ArrayShape):
        return None
    random = np.random.default_rng([seed, number])
    return _array(random, shape.element_type, shape.dimensions, floats)


def _array(random: np.random.Generator, kind: PrimitiveType, sizes: tuple[int, ...], floats: Floats) -> Array:
    match kind.kind:
        case "pred":
            return random.integers(0, 2, sizes).astype(bool)
        case "signed" | "unsigned":
            return wrapped(np.asarray(random.integers(0, MAX_INTEGER, sizes, endpoint=True)), kind)
        case "float":
            drawn = rounded(np.asarray(random.standard_normal(sizes), np.float32), kind.name)
            return drawn.astype(carrier(kind, floats))
        case _:
            parts = random.standard_normal((2, *sizes))
            return np.asarray((parts[0] + 1j * parts[1]).astype(np.complex64)).astype(carrier(kind, floats))


def made_up_arguments(
    module: Module,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    before_each: Callable[[Instruction], None] = lambda parameter: None,
) -> tuple[Value, ...]:
    """Arguments by type and seed, one for each parameter of the entry; see `made_up`."""
    found = []
    for at, parameter in enumerate(module.entry.parameters):
        before_each(parameter)
        found.append(made_up(parameter.shape, at, seed=seed, floats=floats))
    return tuple(found)


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
    is_float = array.dtype in (np.float32, np.float64) and shape.element_type.kind == "float"
    held = array if is_float else array.astype(carrier(shape.element_type, floats))
    return settle(held, shape.element_type, floats)


def _check_numbers(array: Array, shape: ArrayShape, name: str) -> None:
    """HloError for numbers that integers or booleans cannot hold."""
    kind = shape.element_type
    if kind.kind not in ("pred", "signed", "unsigned") or array.dtype.kind == "b" or not array.size:
        return
    least = -(1 << (kind.bits - 1)) if kind.kind == "signed" else 0
    most = (1 << (kind.bits - (kind.kind == "signed"))) - 1 if kind.kind != "pred" else 1
    is_integral = array.dtype.kind in "iu" or bool((np.isfinite(array) & (array == np.trunc(array))).all())
    if not is_integral or int(array.min()) < least or int(array.max()) > most:
        raise HloError(f"{name} has numbers that {kind} cannot hold, but the parameter is {shape}")
