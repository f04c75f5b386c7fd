"""How many bytes do arrays take in memory, how many are padding, and which order of dimensions would save some?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.dataflow.dependencies import Value, values_made_by, values_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generation, tpu_generations
from hlo_cli.analysis.hardware.target import Target, is_old_tpu
from hlo_cli.analysis.layout.tpu_layout import LayoutAlternative, Order, best_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.layout import Tile
from hlo_cli.ir.memory_space import TpuMemorySpace, memory_space
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, BufferShape, OpaqueShape, Shape, TupleShape

# --- sizes of buffers ---
# Sizes of buffers in bytes: of the elements alone, and with the padding of the target.
#
# Mirrors `ShapeUtil::ByteSizeOf` of xla/shape_util.h and the size functions of the backends; those of TPU are not
# public and were measured.


_POINTER_BYTES: Final = 8  # tuple tables hold host pointers (`ShapeSizeBytesFunction` of the CPU and GPU compilers)
_TPU_POINTER_BYTES: Final = 4  # measured on compiled modules: 4 bytes for each element, rounded up to a granule
_SPARSE_CORE: Final = '"sparse_core_config"'  # libtpu writes this key for chips with a SparseCore only, from v5p on
_CMEM_TEXT: Final = f"S({TpuMemorySpace.CMEM})"
# S(3) is CMEM of v4; on a CPU or GPU the same number has no tiles. The length is bounded against long lines.
_TILED_CMEM: Final = re.compile(rf":T\([^{{}}\n]{{0,80}}{re.escape(_CMEM_TEXT)}")
_DEFAULT_TILES: Final = (Tile((1024,)), Tile((8, 128)))
"""Default tiles of untiled arrays on TPU: below rank 2, and from rank 2."""


def logical_bytes(shape: Shape) -> int:
    """Returns the bytes of the elements without padding; for a tuple, of its table of pointers.

    >>> from hlo_cli import parse_shape
    >>> logical_bytes(parse_shape("f32[3]{0:T(128)}")), logical_bytes(parse_shape("(f32[3], token[])"))
    (12, 16)
    """
    # As XLA counts a tuple: its table, not its elements, which are values of their own.
    return _POINTER_BYTES * len(shape.elements) if isinstance(shape, TupleShape) else shape.logical_bytes


def generation_of(module: Module) -> str:
    """Returns the TPU generation, which the text rarely determines; otherwise a guess with the most common sizes.

    >>> from hlo_cli import parse_module
    >>> generation_of(parse_module("HloModule m  ENTRY e { ROOT p = f32[9,9]{1,0:T(8,128)S(3)} parameter(0) }"))
    'v4'
    """
    text = module.source.text
    if is_old_tpu(module):
        return next(generation.name for generation in tpu_generations() if generation.has_large_tiles)
    if _SPARSE_CORE in text:
        # The oldest with it: tuple tables of v5p, v6e, and 7x have one size.
        return next(generation.name for generation in tpu_generations() if generation.has_sparse_core)
    if _CMEM_TEXT in text and _TILED_CMEM.search(text):
        return next(generation.name for generation in tpu_generations() if generation.prefetched is TpuMemorySpace.CMEM)
    return USUAL_TPU


def prefetched_space(target: Target | None, generation: str) -> int | None:
    """Returns the memory space that memory-space assignment fills (CMEM or VMEM), None if there is none.

    Its offsets are not in the text. TPU v2 and v3 have no such memory space.

    >>> prefetched_space("tpu", "v4"), prefetched_space("tpu", "v2"), prefetched_space("gpu", "v5e")
    (<TpuMemorySpace.CMEM: 3>, None, None)
    """
    return tpu_generation(generation).prefetched if target == "tpu" else None


def buffer_bytes(shape: Shape, target: Target | None, generation: str = USUAL_TPU) -> int:
    """Returns the bytes of the buffer of a shape, with padding; for a tuple, of its table of pointers.

    >>> from hlo_cli import parse_shape
    >>> shape = parse_shape("(f32[3]{0:T(128)})")
    >>> buffer_bytes(shape.elements[0], "tpu"), buffer_bytes(shape, "tpu"), buffer_bytes(shape, "gpu")
    (512, 512, 8)
    """
    match shape:
        case TupleShape():
            return table_bytes(len(shape.elements), target, generation)
        case BufferShape():
            return buffer_bytes(shape.array, target, generation)
        case ArrayShape():
            return (_tpu_array(shape) if target == "tpu" else shape).padded_bytes
        case OpaqueShape():
            return _POINTER_BYTES
    return 0


def _tpu_array(shape: ArrayShape) -> ArrayShape:
    """Returns the array with the layout that determines its buffer size on TPU."""
    space = memory_space(shape.memory_space, "tpu")
    # Measured on libtpu: S(2) arrays are printed with a tile, but a scalar takes 4 bytes; untiled arrays in S(0),
    # S(4), and S(6) take whole default tiles.
    if space is not None and space.tiles == "never":
        return replace(shape, layout=replace(shape.layout, tiles=()))
    if space is not None and space.tiles == "by default" and not shape.layout.tiles:
        return replace(shape, layout=replace(shape.layout, tiles=(_DEFAULT_TILES[len(shape.dimensions) > 1],)))
    return shape


def table_bytes(elements: int, target: Target | None, generation: str = USUAL_TPU) -> int:
    """Returns the bytes of a tuple's table of pointers; on TPU, rounded up to the granule of the generation.

    >>> table_bytes(3, "cpu"), table_bytes(9, "tpu", "v6e")
    (24, 64)
    """
    if target != "tpu":
        return _POINTER_BYTES * elements
    granule = tpu_generation(generation).table_granule
    return -(-_TPU_POINTER_BYTES * elements // granule) * granule


# --- padding of the values of a module ---


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
        return best_order(shape, known_orders=self.known.get(shape.dimensions, ()), generation=self.generation)


def data_values(module: Module, computation: Computation | None = None) -> tuple[Value, ...]:
    """Arrays in memory during an execution, without semaphores; for one computation, all arrays that it computes."""
    return computed_once(_data_values, module, computation)


def _data_values(module: Module, computation: Computation | None) -> tuple[Value, ...]:
    if computation is None:
        made: Iterable[Value] = values_of(module)
    else:
        made = (value for instruction in computation.instructions for value in values_made_by(instruction))
    # Semaphores of async operations are a few bytes in another memory; their padding would top every list.
    return tuple(value for value in made if not value.is_context)


def orders_of(module: Module, values: Iterable[Value]) -> KnownOrders:
    """Dimension orders of the given values, and the default tiles of the module's target."""
    return computed_once(_orders, module, values)


def _orders(module: Module, values: Iterable[Value]) -> KnownOrders:
    orders_by_sizes: dict[tuple[int, ...], dict[Order, None]] = {}
    for value in values:
        if value.shape.problem is None:
            orders_by_sizes.setdefault(value.shape.dimensions, {})[value.shape.layout.minor_to_major] = None
    generation = generation_of(module)
    return KnownOrders({sizes: tuple(orders) for sizes, orders in orders_by_sizes.items()}, generation)


def footprints(values: Sequence[Value], orders: KnownOrders, key: Callable[[Value], str]) -> tuple[Footprint, ...]:
    """Values grouped by key; most padding first, then largest, then by key.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[9,9]{1,0:T(8,128)} parameter(0) }")
    >>> values = data_values(module)
    >>> [(f.key, f.padded_bytes) for f in footprints(values, orders_of(module, values), grouping_key("opcode"))]
    [('parameter', 8192)]
    """
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    measured = computed_once(_measured, values, orders)
    # Measured once for each shape: several groupings of one report ask for the same sizes.
    grouped = [_footprint(name, group, measured) for name, group in groups.items()]
    return tuple(sorted(grouped, key=lambda f: (-f.padding_bytes, -f.padded_bytes, f.key)))


def grouping_key(grouping: Grouping) -> Callable[[Value], str]:
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
