"""What values take in memory, how much of it is padding, and what another order of dimensions would save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from hlo_cli.analysis.dataflow.values import Value, values_made_by, values_of
from hlo_cli.analysis.hardware.buffer_sizes import generation_of
from hlo_cli.analysis.layout.default_order import LayoutAlternative, Order, better_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape

Grouping = Literal["shape", "instruction", "computation", "opcode", "op_name", "source"]


@dataclass(frozen=True, slots=True)
class Footprint:
    """Values that share a key (a shape, an opcode …) and what they take together, in bytes.

    `saving_bytes` is what better orders of dimensions would save; `values` stand with the largest first.
    """

    key: str
    values: tuple[Value, ...]
    logical_bytes: int
    padded_bytes: int
    saving_bytes: int

    @property
    def padding_bytes(self) -> int:
        """What is not data."""
        return self.padded_bytes - self.logical_bytes

    @property
    def padding(self) -> float:
        """Padding as a share of all bytes, from 0 to 1."""
        return self.padding_bytes / self.padded_bytes if self.padded_bytes else 0.0

    @property
    def example(self) -> Value:
        """The value that stands for all of them."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Orders:
    """What is known of a module's orders of dimensions: those that occur, by sizes, and whose default tiles hold."""

    known: Mapping[tuple[int, ...], tuple[Order, ...]]
    generation: str

    def better(self, shape: ArrayShape) -> LayoutAlternative | None:
        """The best other order for a shape, or None if none saves anything."""
        return better_order(shape, known=self.known.get(shape.dimensions, ()), generation=self.generation)


def data_values(module: Module, computation: Computation | None = None) -> tuple[Value, ...]:
    """The arrays a run puts into memory, without semaphores; of one computation alone, all that it makes."""
    if computation is None:
        made: Iterable[Value] = values_of(module)
    else:
        made = (value for instruction in computation.instructions for value in values_made_by(instruction))
    return tuple(value for value in made if not value.is_context)


def orders_of(module: Module, values: Iterable[Value]) -> Orders:
    """The orders that the given values have, and the tiles that the module's target gives by default."""
    known: dict[tuple[int, ...], dict[Order, None]] = {}
    for value in values:
        if value.shape.problem is None:
            known.setdefault(value.shape.dimensions, {})[value.shape.layout.minor_to_major] = None
    generation = generation_of(module)
    return Orders({sizes: tuple(orders) for sizes, orders in known.items()}, generation)


def footprints(values: Sequence[Value], orders: Orders, key: Callable[[Value], str]) -> tuple[Footprint, ...]:
    """The values grouped by a key, those that waste most first, then the largest, then by key.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[9,9]{1,0:T(8,128)} parameter(0) }")
    >>> values = data_values(module)
    >>> [(f.key, f.padded_bytes) for f in footprints(values, orders_of(module, values), by("opcode", module))]
    [('parameter', 8192)]
    """
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    measured = _measured(values, orders)
    found = [_footprint(name, group, measured) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda f: (-f.padding_bytes, -f.padded_bytes, f.key)))


def by(grouping: Grouping, module: Module) -> Callable[[Value], str]:
    """The key under which a grouping puts a value; empty where the text does not say."""

    def source(value: Value) -> str:
        location = module.location(value.instruction)
        return str(location) if location else ""

    keys: dict[Grouping, Callable[[Value], str]] = {
        "shape": lambda value: str(value.shape),
        "instruction": str,
        "computation": lambda value: value.instruction.computation.name,
        "opcode": lambda value: value.instruction.opcode,
        "op_name": lambda value: value.instruction.metadata.op_name,
        "source": source,
    }
    return keys[grouping]


def _measured(values: Sequence[Value], orders: Orders) -> dict[int, tuple[int, int, int]]:
    """Logical, padded and saved bytes of every distinct shape, by identity: equal shapes are one object in a module."""
    measured: dict[int, tuple[int, int, int]] = {}
    for value in values:
        shape = value.shape
        if id(shape) not in measured:
            better, padded = orders.better(shape), shape.padded_bytes
            measured[id(shape)] = (shape.logical_bytes, padded, padded - better.padded_bytes if better else 0)
    return measured


def _footprint(key: str, values: list[Value], measured: Mapping[int, tuple[int, int, int]]) -> Footprint:
    sizes = [measured[id(value.shape)] for value in values]
    logical, padded, saving = (sum(column) for column in zip(*sizes, strict=True))
    values.sort(key=lambda value: -measured[id(value.shape)][1])
    return Footprint(key, tuple(values), logical, padded, saving)
