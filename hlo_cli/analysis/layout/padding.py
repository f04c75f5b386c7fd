"""Memory use and padding of values, and the bytes that another dimension order would save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from typing import Literal

from hlo_cli.analysis.dataflow.values import Value, values_made_by, values_of
from hlo_cli.analysis.hardware.default_tiles import default_layout
from hlo_cli.analysis.hardware.target import is_old_tpu
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape

Order = tuple[int, ...]
Grouping = Literal["shape", "instruction", "computation", "opcode", "op_name", "source"]


@dataclass(frozen=True, slots=True)
class LayoutAlternative:
    """Layout of the same array with fewer bytes; `is_known` if the module already uses its order for these
    dimensions.
    """

    layout: Layout
    padded_bytes: int
    is_known: bool


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
    generation = "v2" if is_old_tpu(module) else "v5e"
    return KnownOrders({sizes: tuple(orders) for sizes, orders in known.items()}, generation)


def footprints(values: Sequence[Value], orders: KnownOrders, key: Callable[[Value], str]) -> tuple[Footprint, ...]:
    """Values grouped by key; most padding first, then largest, then by key.

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
    """Function that returns the key of a value for a grouping; empty if the module has no such information."""

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


@lru_cache(maxsize=4096)
def best_order(
    shape: ArrayShape, *, known: tuple[Order, ...] = (), generation: str = "v5e"
) -> LayoutAlternative | None:
    """Dimension order with the fewest bytes under default TPU tiles, if it saves bytes; None for arrays without tiles.

    Only the two most minor dimensions matter, so only these are permuted. On ties, a known order comes first.

    >>> from hlo_cli.syntax.shapes import parse_shape
    >>> alternative = best_order(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    >>> str(alternative.layout), alternative.padded_bytes
    ('{0,1:T(8,128)(2,1)}', 55296)
    """
    if not shape.layout.tiles or shape.rank < 2 or shape.problem is not None or not shape.elements:
        return None
    best: tuple[int, bool, Order] | None = None
    for order in dict.fromkeys((*known, *_orders(shape.layout.minor_to_major))):
        layout = default_layout(shape, generation=generation, minor_to_major=order)
        candidate = (replace(shape, layout=layout).padded_bytes, order not in known, order)
        if best is None or candidate[:2] < best[:2]:
            best = candidate
    if best is None or best[0] >= shape.padded_bytes:
        return None
    layout = default_layout(shape, generation=generation, minor_to_major=best[2])
    return LayoutAlternative(layout, best[0], best[2] in known)


def _orders(order: Order) -> Iterator[Order]:
    for first, second in permutations(sorted(order, reverse=True), 2):
        yield (first, second, *(d for d in order if d not in (first, second)))


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
