"""Memory use and padding of values, and the bytes that another dimension order would save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.dataflow.values import Value, values_made_by, values_of
from hlo_cli.analysis.hardware.buffer_sizes import generation_of
from hlo_cli.analysis.layout.default_order import LayoutAlternative, Order, best_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape

Grouping = Literal["shape", "instruction", "computation", "opcode", "op_name"]


@dataclass(frozen=True, slots=True)
class Footprint:
    """Total size in bytes of values with a common key, such as a shape or opcode.

    `saving_bytes` is what better dimension orders would save; `values` are sorted by size, largest first.
    """

    key: str
    values: tuple[Value, ...]
    logical_bytes: int
    padded_bytes: int
    saving_bytes: int

    @property
    def padding_bytes(self) -> int:
        """Padding in bytes."""
        return self.padded_bytes - self.logical_bytes

    @property
    def padding(self) -> float:
        """Padding as a fraction of all bytes, from 0 to 1."""
        return self.padding_bytes / self.padded_bytes if self.padded_bytes else 0.0

    @property
    def example(self) -> Value:
        """Largest value of the group."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class KnownOrders:
    """Dimension orders that occur in a module, by dimensions, and the TPU generation whose default tiles apply."""

    known: Mapping[tuple[int, ...], tuple[Order, ...]]
    generation: str

    def alternative(self, shape: ArrayShape) -> LayoutAlternative | None:
        """Best other order for a shape, or None if no order saves bytes."""
        return best_order(shape, known=self.known.get(shape.dimensions, ()), generation=self.generation)


def data_values(module: Module, computation: Computation | None = None) -> tuple[Value, ...]:
    """Arrays in memory during an execution, without semaphores; for one computation, all arrays that it computes."""
    return computed_once(_data_values, module, computation)


def _data_values(module: Module, computation: Computation | None) -> tuple[Value, ...]:
    if computation is None:
        made: Iterable[Value] = values_of(module)
    else:
        made = (value for instruction in computation.instructions for value in values_made_by(instruction))
    return tuple(value for value in made if not value.is_context)


def orders_of(module: Module, values: Iterable[Value]) -> KnownOrders:
    """Dimension orders of the given values, and the default tiles of the module's target."""
    known: dict[tuple[int, ...], dict[Order, None]] = {}
    for value in values:
        if value.shape.problem is None:
            known.setdefault(value.shape.dimensions, {})[value.shape.layout.minor_to_major] = None
    generation = generation_of(module)
    return KnownOrders({sizes: tuple(orders) for sizes, orders in known.items()}, generation)


def footprints(values: Sequence[Value], orders: KnownOrders, key: Callable[[Value], str]) -> tuple[Footprint, ...]:
    """Values grouped by key; most padding first, then largest, then by key.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[9,9]{1,0:T(8,128)} parameter(0) }")
    >>> values = data_values(module)
    >>> [(f.key, f.padded_bytes) for f in footprints(values, orders_of(module, values), by("opcode"))]
    [('parameter', 8192)]
    """
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    measured = _measured(values, orders)
    found = [_footprint(name, group, measured) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda f: (-f.padding_bytes, -f.padded_bytes, f.key)))


def by(grouping: Grouping) -> Callable[[Value], str]:
    """Function that returns the key of a value for a grouping; empty if the module has no such information."""
    keys: dict[Grouping, Callable[[Value], str]] = {
        "shape": lambda value: str(value.shape),
        "instruction": str,
        "computation": lambda value: value.instruction.computation.name,
        "opcode": lambda value: value.instruction.opcode,
        "op_name": lambda value: value.instruction.metadata.op_name,
    }
    return keys[grouping]


def _measured(values: Sequence[Value], orders: KnownOrders) -> dict[int, tuple[int, int, int]]:
    """Logical, padded, and saved bytes of each shape by its id: equal shapes of a module are one object."""
    measured: dict[int, tuple[int, int, int]] = {}
    for value in values:
        shape = value.shape
        if id(shape) not in measured:
            alternative, padded = orders.alternative(shape), shape.padded_bytes
            measured[id(shape)] = (shape.logical_bytes, padded, padded - alternative.padded_bytes if alternative else 0)
    return measured


def _footprint(key: str, values: list[Value], measured: Mapping[int, tuple[int, int, int]]) -> Footprint:
    sizes = [measured[id(value.shape)] for value in values]
    logical, padded, saving = (sum(column) for column in zip(*sizes, strict=True))
    values.sort(key=lambda value: -measured[id(value.shape)][1])
    return Footprint(key, tuple(values), logical, padded, saving)
