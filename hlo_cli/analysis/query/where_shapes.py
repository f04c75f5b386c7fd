"""Fields of shapes that conditions can use: of all shapes, and of arrays only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from hlo_cli.analysis.cost.matmuls import is_matmul
from hlo_cli.analysis.query.fields import FieldValue, Kind, Reader
from hlo_cli.analysis.query.where_opcodes import EXACT
from hlo_cli.ir.expressions import Comparison, Text, Where
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.ir.type_names import foreign_type, in_xla_types, xla_type
from hlo_cli.source import did_you_mean

T = TypeVar("T")


def shape_fields(instruction_of: Callable[[T], Instruction], shape_of: Callable[[T], Shape]) -> dict[str, Reader[T]]:
    """Fields of an object's shape by name.

    >>> from hlo_cli import parse_module
    >>> call = parse_module('c = (f32[8,8], s8[64]) custom-call(), custom_call_target="__cublas$gemm"').entry.root
    >>> fields = shape_fields(lambda each: each, lambda each: each.shape)
    >>> fields["dtype"].read(call), fields["logical_bytes"].read(call)
    ('f32', 320)
    """

    result_of = result_shape(instruction_of, shape_of)
    arrays = {name: Reader(kind, of_shape(read, result_of)) for name, (kind, read) in _ARRAY_FIELDS.items()}
    arrays["dtype"] = replace(arrays["dtype"], check=_check_type)
    shapes = {name: Reader(kind, of_shape(read, shape_of)) for name, (kind, read) in _SHAPE_FIELDS.items()}
    shapes["shape"] = replace(shapes["shape"], check=_check_shape)
    return arrays | shapes


def _check_type(where: Where, comparison: Comparison) -> None:
    """Raises HloError for an element type under a framework's name, which no module contains."""
    for value in comparison.values if comparison.operator in EXACT else ():
        if isinstance(value, Text) and (name := xla_type(value.text)) is not None:
            raise where.error(f"unknown element type '{value.text}'", value.span, did_you_mean(name))


def _check_shape(where: Where, comparison: Comparison) -> None:
    for value in comparison.values if comparison.operator in EXACT else ():
        if isinstance(value, Text) and foreign_type(value.text) is not None:
            hint = did_you_mean(in_xla_types(value.text))
            raise where.error(f"unknown element type in '{value.text}'", value.span, hint)


def result_shape(instruction_of: Callable[[T], Instruction], shape_of: Callable[[T], Shape]) -> Callable[[T], Shape]:
    """Function that returns an object's shape; of a matmul its first element, as libraries also return scratch
    memory.
    """

    def result_of(thing: T) -> Shape:
        shape = shape_of(thing)
        if isinstance(shape, TupleShape) and shape.elements and is_matmul(instruction_of(thing)):
            return shape.elements[0]
        return shape

    return result_of


def _of_array(read: Callable[[ArrayShape], FieldValue]) -> Callable[[Shape], FieldValue]:
    return lambda shape: read(shape) if isinstance(shape, ArrayShape) else None


_ARRAY_FIELDS: Final[dict[str, tuple[Kind, Callable[[Shape], FieldValue]]]] = {
    "dtype": ("text", _of_array(lambda shape: shape.element_type.name)),
    "rank": ("count", _of_array(lambda shape: shape.rank)),
    "dims": ("text", _of_array(lambda shape: index_text(shape.sizes, "[]"))),
    "layout": ("text", _of_array(lambda shape: str(shape.layout))),
    "memory_space": ("count", _of_array(lambda shape: shape.memory_space)),
    "elements": ("count", _of_array(lambda shape: shape.elements)),
}
_SHAPE_FIELDS: Final[dict[str, tuple[Kind, Callable[[Shape], FieldValue]]]] = {
    "shape": ("shape", lambda shape: str(shape) or None),
    "logical_bytes": ("bytes", lambda shape: shape.logical_bytes),
    "padded_bytes": ("bytes", lambda shape: shape.padded_bytes),
    "padding_bytes": ("bytes", lambda shape: shape.padded_bytes - shape.logical_bytes),
    "padding": ("share", lambda shape: 1 - shape.logical_bytes / shape.padded_bytes if shape.padded_bytes else 0.0),
}


def of_shape(read: Callable[[Shape], FieldValue], shape_of: Callable[[T], Shape]) -> Callable[[T], FieldValue]:
    """Reader of a shape field, cached by shape object, as equal shapes of a module mostly are one object."""
    known: dict[int, FieldValue] = {}

    def read_once(thing: T) -> FieldValue:
        shape = shape_of(thing)
        if id(shape) not in known:
            known[id(shape)] = read(shape)
        return known[id(shape)]

    return read_once


def dimension_reader(place: str, shape_of: Callable[[T], Shape]) -> Reader[T] | None:
    """Reader of the size of dimension `place`, which can be negative; None if `place` is not an integer."""
    try:
        at = int(place[:10])
    except ValueError:
        return None

    def size(shape: ArrayShape) -> int | None:
        return shape.sizes[at] if -shape.rank <= at < shape.rank else None

    return Reader("count", of_shape(_of_array(size), shape_of))
