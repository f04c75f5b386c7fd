"""How the arrays that enter and leave a module are divided, before and after partitioning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Final, Literal

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generations
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import generation_of
from hlo_cli.analysis.layout.tpu_layout import default_order, default_tpu_layout
from hlo_cli.analysis.sharding.placement import (
    Placement,
    devices_of,
    leaf_shardings,
    placement_of,
    shard_shape,
    whole_sizes,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding, ShardingType, TupleSharding
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import SHARDING_START, index_suffix
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape, BufferShape, ShapeIndex
from hlo_cli.source import HloError

# --- whether a module is partitioned ---
# Whether the shapes of a module are those of one device: the partitioner has run, or it has not.
#
# Shardings alone do not tell: the parameters of CPU and GPU programs keep theirs, while their shapes become shards.


# xla/service/spmd/spmd_partitioner.cc appends it to the name of every computation that it rewrites.
_PARTITIONED_SUFFIX: Final = "_spmd"
"""The end of the entry's name that `SpmdPartitioner` adds, as in `main.26_spmd`."""
_UNPARTITIONED_MARKS: Final = (
    # Shardy's attributes of the frontend, which hold whole shapes and so exist before partitioning only.
    "xla.sdy.meshes",
    "xla.sdy.sharding",
    'custom_call_target="Sharding"',
    'custom_call_target="SPMDFullToShardShape"',
    'custom_call_target="SPMDShardToFullShape"',
)
"""Texts that the partitioner removes."""


def is_partitioned(module: Module) -> bool:
    """Whether shapes are those of one device. A module of one partition is: its only device has everything.

    >>> from hlo_cli import parse_module
    >>> parameter = "ROOT p = f32[8] parameter(0), sharding={devices=[2]<=[2]}"
    >>> before = f"HloModule m, num_partitions=2  ENTRY main {{ {parameter} }}"
    >>> is_partitioned(parse_module(before)), is_partitioned(parse_module(before.replace("main", "main_spmd")))
    (False, True)
    """
    return cached_per_module(_is_partitioned, module)


def partitions_of(module: Module) -> int:
    """The number of devices that share a replica: of the header, or as many as a sharding of the entry lists.

    >>> from hlo_cli import parse_module
    >>> parameter = "ROOT p = f32[8] parameter(0), sharding={devices=[2]<=[2]}"
    >>> partitions_of(parse_module(f"HloModule m  ENTRY e {{ {parameter} }}"))
    2
    """
    return cached_per_module(_partitions_of, module)


def devices_in_shapes(module: Module) -> int:
    """The number of devices whose data and work the shapes of a module hold together: 1 after partitioning.

    >>> from hlo_cli import parse_module
    >>> parameter = "ROOT p = f32[8] parameter(0), sharding={devices=[2]<=[2]}"
    >>> before = f"HloModule m, num_partitions=2  ENTRY main {{ {parameter} }}"
    >>> devices_in_shapes(parse_module(before)), devices_in_shapes(parse_module(before.replace("main", "main_spmd")))
    (2, 1)
    """
    return 1 if is_partitioned(module) else partitions_of(module)


def _partitions_of(module: Module) -> int:
    # A part of a text has no header, and then only the shardings tell for how many devices it is.
    if module.num_partitions > 1 or SHARDING_START not in module.source.text:
        return module.num_partitions
    root = module.entry.root
    return max((_listed(each) for each in (*module.entry.parameters, *([root] if root else ()))), default=1)


def _listed(instruction: Instruction) -> int:
    """The number of devices that the sharding of an instruction lists, at least 1."""
    sharding = instruction.sharding
    if sharding is None:
        return 1
    elements = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
    return max((devices_of(each) or 1 for each in elements), default=1)


def _is_partitioned(module: Module) -> bool:
    if partitions_of(module) < 2 or module.entry.name.endswith(_PARTITIONED_SUFFIX):
        return True
    if (is_divided := _is_divided_since_program(module)) is not None:
        return is_divided
    # Scheduling is the last of the compiler's stages, after partitioning.
    if module.is_scheduled:
        return True
    text = module.source.text
    if any(mark in text for mark in _UNPARTITIONED_MARKS):
        return False
    entry, parameters = module.entry.instructions, frozenset(module.entry.parameters)
    # The partitioner removes the shardings of all but parameters (and of those on TPU).
    if SHARDING_START in text and any(
        each not in parameters and each.attribute("sharding") is not None for each in entry
    ):
        return False
    # Without a mark of either, a collective in the entry is taken as the work of the partitioner.
    return any(each.opcode.removesuffix("-start") in COLLECTIVES for each in entry)


def _is_divided_since_program(module: Module) -> bool | None:
    """The answer from the sizes of parameters before optimizations; None if none is divided, or without that dump."""
    program = module.program
    if program is None or len(program.entry.parameters) != len(module.entry.parameters):
        return None
    for after, before in zip(module.entry.parameters, program.entry.parameters, strict=True):
        whole, sizes = before.shape, _sizes_of_a_shard(before)
        # A parameter whose shard is as large as the whole decides nothing.
        if not isinstance(after.shape, ArrayShape) or not isinstance(whole, ArrayShape) or sizes in (None, whole.sizes):
            continue
        if after.shape.sizes in (sizes, whole.sizes):
            return after.shape.sizes == sizes
    return None


def _sizes_of_a_shard(parameter: Instruction) -> tuple[int, ...] | None:
    sharding = parameter.sharding
    if sharding is None or isinstance(sharding, TupleSharding) or not isinstance(parameter.shape, ArrayShape):
        return None
    try:
        return placement_of(sharding).shard_sizes(parameter.shape.sizes)
    except HloError:
        return None


# --- arrays divided further ---


# The layouts that JAX was asked for, one mode per argument, separated by `;`: read in xla/pjrt/utils.cc.
_LAYOUT_MODES: Final = {"argument": "arg_layout_modes", "result": "out_layout_modes"}
# Measured: 8 ms where no factor is found. Numbers of devices are far below its square.
_MAX_FACTOR: Final = 1 << 16
# LayoutMode::FromString of xla/pjrt/layout_mode.cc; with any of them the compiler chooses.
_DEFAULT_MODES: Final = ("default", "auto", "")


@dataclass(frozen=True, slots=True)
class OwnLayouts:
    """The layouts that shards get, before a compiler has chosen them: by default, or in the order that the user gave.

    `generation` is that of the TPU, None for other targets. `modes` are the layouts that JAX asks for, by role.
    """

    generation: str | None
    modes: dict[str, tuple[str, ...]]
    given: dict[str, tuple[ArrayShape | None, ...]]

    def of(self, shard: ArrayShape, role: str, number: int) -> ArrayShape:
        """A shard of argument or result `number` in its own layout.

        >>> from hlo_cli import parse_shape
        >>> print(OwnLayouts("v5e", {}, {}).of(parse_shape("f32[500,128]"), "argument", 0))
        f32[500,128]{1,0:T(8,128)}
        """
        given = self.given.get(role, ())
        entry = given[number] if number < len(given) else None
        modes = self.modes.get(role, ())
        is_default = number >= len(modes) or modes[number] in _DEFAULT_MODES
        order = None if entry is None or entry.rank != shard.rank else entry.layout.minor_to_major
        # CPU and GPU programs are row-major unless the user says otherwise; only TPU has default orders of its own.
        if self.generation is None:
            row_major = tuple(range(shard.rank))[::-1]
            return replace(shard, layout=Layout(row_major if order is None else order))
        if is_default or order is None:
            order = default_order(_bare(shard), generation=self.generation) or tuple(range(shard.rank))[::-1]
        layout = default_tpu_layout(_bare(shard), generation=self.generation, minor_to_major=order)
        return replace(shard, layout=layout)


def _own_layouts(module: Module) -> OwnLayouts:
    """The layouts of shards of a module that is not partitioned; on TPU, its header has layouts with tiles.

    >>> from hlo_cli import parse_module
    >>> _own_layouts(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }")).generation is None
    True
    """
    layout = module.entry_computation_layout
    shapes_by_role = dict[str, tuple[ArrayShape | None, ...]]()
    if layout is not None:
        results = [leaf for _, leaf in layout.result.leaves]
        for role, shapes in (("argument", list(layout.parameters)), ("result", results)):
            shapes_by_role[role] = tuple(each if isinstance(each, ArrayShape) else None for each in shapes)
    has_tiles = any(each is not None and each.layout.tiles for shapes in shapes_by_role.values() for each in shapes)
    is_tpu = has_tiles or target_of(module) == "tpu"
    texts = {role: module.frontend_attributes.get(name) or "" for role, name in _LAYOUT_MODES.items()}
    modes = {role: tuple(text.split(";")) if text else () for role, text in texts.items()}
    return OwnLayouts(generation_of(module) if is_tpu else None, modes, shapes_by_role)


@lru_cache(maxsize=4096)
def divided(shape: ArrayShape, count: int) -> ArrayShape:
    """The array on each of `count` devices that share it evenly, in the way that needs the fewest bytes.

    What is left of `count` after its primes that divide no dimension remains replicated.

    >>> from hlo_cli import parse_shape
    >>> print(divided(parse_shape("f32[500,128]{1,0:T(8,128)}"), 8), divided(parse_shape("f32[3]"), 2))
    f32[125,64]{1,0:T(8,128)} f32[3]{0}
    """
    # The largest prime first: it fits the fewest dimensions, and small ones fit in what is left.
    for prime in reversed(prime_factors(count)):
        candidates = [
            _with_size(shape, d, size // prime) for d, size in enumerate(shape.sizes) if size and size % prime == 0
        ]
        if candidates:
            shape = min(candidates, key=lambda each: each.padded_bytes)
    return shape


def prime_factors(number: int) -> list[int]:
    """The prime factors of a number, ascending; what has no factor below 65,536 counts as prime.

    >>> prime_factors(12), prime_factors(2 * (2**61 - 1)) == [2, 2**61 - 1]
    ([2, 2, 3], True)
    """
    factors, prime = list[int](), 2
    while prime * prime <= number and prime < _MAX_FACTOR:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
        prime += 1
    return [*factors, number] if number > 1 else factors


def _with_size(shape: ArrayShape, dimension: int, size: int) -> ArrayShape:
    sizes = (*shape.dimensions[:dimension], size, *shape.dimensions[dimension + 1 :])
    smaller = replace(shape, dimensions=sizes, layout=replace(shape.layout, split_configs=()))
    generation = _generation_of_tiles(shape)
    return (
        smaller if generation is None else replace(smaller, layout=default_tpu_layout(smaller, generation=generation))
    )


@lru_cache(maxsize=4096)
def _generation_of_tiles(shape: ArrayShape) -> str | None:
    """A TPU generation whose default tiles the layout has, so that smaller arrays have smaller tiles; None without."""
    if not shape.layout.tiles:
        return None
    with_large_tiles = next(each.name for each in tpu_generations() if each.has_large_tiles)
    generations = (USUAL_TPU, with_large_tiles)
    # Only the size of large tiles tells the generations apart in a layout.
    return next((each for each in generations if default_tpu_layout(shape, generation=each) == shape.layout), None)


def _bare(shape: ArrayShape) -> ArrayShape:
    """The shape in row-major order without tiles."""
    return replace(shape, layout=Layout(tuple(range(shape.rank))[::-1], memory_space=shape.memory_space))


# --- arrays of the entry ---
# After partitioning, the shapes of the entry are those of one device. The parameters of CPU and GPU programs then still
# have their shardings; those of TPU programs and results have none, and the dump before optimizations has them.


Role = Literal["argument", "result"]
Origin = Literal["this dump", "before_optimizations"]
# Characters of an unreadable sharding in a message, one line of a terminal with its text.
_MAX_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class EntryArray:
    """An array that enters or leaves a module: a parameter, a result, or an element of one, at `index` of its shape.

    `shape` is that of the text, `whole` that of all devices together, and `shard` that of one device in its own layout;
    None if unknown. `parts` is the number of tiles along each dimension, and `replication` the number of devices that
    hold the same data. `number` is that of the parameter. `problem` says why the sharding is not understood.
    """

    role: Role
    number: int
    index: ShapeIndex
    instruction: Instruction
    shape: ArrayShape
    whole: ArrayShape | None
    shard: ArrayShape | None
    sharding: Sharding | NamedSharding | None = None
    placement: Placement | None = None
    parts: tuple[int, ...] | None = None
    replication: int | None = None
    is_estimated: bool = False
    origin: Origin = "this dump"
    problem: str | None = None

    def __str__(self) -> str:
        return self.instruction.name + index_suffix(self.index)

    @property
    def data_bytes(self) -> int | None:
        """The bytes of a device without padding; None if the shard is unknown."""
        return None if self.shard is None else self.shard.logical_bytes

    @property
    def shard_bytes(self) -> int | None:
        """The bytes that each device holds, with padding; None if the shard is unknown."""
        return None if self.shard is None else self.shard.padded_bytes

    @property
    def saving_bytes(self) -> int | None:
        """The bytes that a device would save if the copies were divided among their devices; None if unknown."""
        if self.shard is None or self.replication is None:
            return None
        return max(0, self.shard.padded_bytes - divided(self.shard, self.replication).padded_bytes)


@dataclass(frozen=True, slots=True)
class EntryArrays:
    """The parameters and results of a module; `is_partitioned` if the shapes of its text are those of one device."""

    partitions: int
    is_partitioned: bool
    parameters: tuple[EntryArray, ...]
    results: tuple[EntryArray, ...]

    @property
    def has_shardings(self) -> bool:
        """Whether the sharding of any parameter or result is known."""
        return any(each.sharding is not None for each in (*self.parameters, *self.results))

    @property
    def has_siblings(self) -> bool:
        """Whether a sharding is that of the dump before optimizations."""
        return any(each.origin != "this dump" for each in (*self.parameters, *self.results))


def entry_arrays(module: Module) -> EntryArrays:
    """The parameters of the entry computation in their order, and the leaves of its result.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m, num_partitions=8  ENTRY main { p = f32[64,8] parameter(0), sharding={devices=[4,1,2]<=[8] "
    >>> module = parse_module(text + "last_tile_dim_replicate}  ROOT r = f32[64,8] negate(p) }")
    >>> [found] = entry_arrays(module).parameters
    >>> found.shard.sizes, found.replication, found.shard_bytes, found.saving_bytes
    ((16, 8), 2, 512, 256)
    """
    program = module.program
    if program is not None and len(program.entry.parameters) != len(module.entry.parameters):
        # Parameters may be removed or added between the stages; then numbers no longer correspond.
        program = None
    reader, parameters_before = _reader_of(module), None if program is None else program.entry.parameters
    parameters = tuple(
        array
        for number, parameter in enumerate(module.entry.parameters)
        for array in reader.arrays(
            "argument", parameter, parameters_before[number] if parameters_before else None, number
        )
    )
    root = module.entry.root
    root_before = None if program is None else program.entry.root
    results = () if root is None else tuple(reader.arrays("result", root, root_before, 0))
    return EntryArrays(partitions_of(module), is_partitioned(module), parameters, results)


def array_of_value(module: Module, instruction: Instruction, index: ShapeIndex = ()) -> EntryArray | None:
    """A parameter of the entry, or the array at `index` of another instruction with a sharding; None without one.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=2  ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] "
    ...     "negate(p), sharding={devices=[2]<=[2]} }")
    >>> array_of_value(module, module.entry.root).shard_bytes
    16
    """
    return _reader_of(module).of_value(module, instruction).get(index)


def arrays_of_instruction(module: Module, instruction: Instruction) -> tuple[EntryArray, ...]:
    """The arrays of an instruction that is not a parameter of the entry; none without a sharding in the text.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=2  ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] "
    ...     "negate(p), sharding={replicated} }")
    >>> [each.replication for each in arrays_of_instruction(module, module.entry.root)]
    [2]
    """
    if instruction.attribute("sharding") is None:
        return ()
    return tuple(_reader_of(module).arrays("result", instruction, None, 0))


def _reader_of(module: Module) -> _Reader:
    return cached_per_module(_Reader, module)


class _Reader:
    """Reads the arrays of one module."""

    def __init__(self, module: Module) -> None:
        self._is_partitioned = is_partitioned(module)
        self._partitions = partitions_of(module)
        self._layouts = None if self._is_partitioned else _own_layouts(module)
        self._values = dict[Instruction, dict[ShapeIndex, EntryArray]]()

    def of_value(self, module: Module, instruction: Instruction) -> dict[ShapeIndex, EntryArray]:
        """The arrays of a parameter of the entry, or of another instruction with a sharding, each read once."""
        if instruction not in self._values:
            number, before, program = 0, None, module.program
            arrays_of_value: Iterable[EntryArray] = ()
            if instruction in module.entry.parameters:
                number = module.entry.parameters.index(instruction)
                if program is not None and len(program.entry.parameters) == len(module.entry.parameters):
                    before = program.entry.parameters[number]
                arrays_of_value = self.arrays("argument", instruction, before, number)
            elif instruction.attribute("sharding") is not None:
                arrays_of_value = self.arrays("result", instruction, None, 0)
            self._values[instruction] = {each.index: each for each in arrays_of_value}
        return self._values[instruction]

    def arrays(
        self, role: Role, instruction: Instruction, before: Instruction | None, number: int
    ) -> Iterator[EntryArray]:
        """The arrays of an instruction; `before` is the same one before optimizations."""
        shardings, problem = _shardings(instruction)
        wholes = dict(_leaves(before)) if before is not None else {}
        shardings_before = _shardings(before)[0] if before is not None else {}
        for leaf_number, (index, shape) in enumerate(_leaves(instruction)):
            origin: Origin = "this dump"
            whole, sharding = wholes.get(index), shardings.get(index)
            # TPU programs after optimization have no sharding on parameters (0 of 3,133 seen), their first stage has.
            if sharding is None and index in shardings_before:
                sharding, origin = shardings_before[index], "before_optimizations"
            base = EntryArray(role, number, index, instruction, shape, None, None, sharding, origin=origin)
            array = self._placed(base, whole, number if role == "argument" else leaf_number)
            yield replace(array, problem=problem) if problem is not None and sharding is None else array

    def _placed(self, base: EntryArray, whole: ArrayShape | None, number: int) -> EntryArray:
        """The array with what its sharding says; `whole` is its shape before optimizations."""
        placement, problem = _placement(base.sharding) if base.sharding is not None else (None, None)
        if self._partitions < 2:
            array = replace(base, placement=placement, problem=problem, whole=base.shape, shard=base.shape)
            return replace(array, parts=(1,) * base.shape.rank, replication=1)
        if self._is_partitioned:
            return self._after(replace(base, placement=placement, problem=problem), whole)
        if placement is None or placement.kind is ShardingType.UNKNOWN:
            return replace(base, whole=base.shape, problem=problem)
        try:
            shard = shard_shape(base.shape, placement)
        except HloError as error:
            return replace(base, whole=base.shape, problem=error.diagnostic.message)
        assert self._layouts is not None
        is_manual = placement.kind is ShardingType.MANUAL
        return replace(
            base,
            placement=placement,
            # The shape of a manual sharding is already that of one device; the whole is known to the program only.
            whole=None if is_manual else base.shape,
            shard=self._layouts.of(shard, base.role, number),
            parts=None if is_manual else _parts(placement, shard.rank),
            replication=self._copies(placement),
            is_estimated=True,
        )

    def _after(self, base: EntryArray, whole: ArrayShape | None) -> EntryArray:
        """The array of a partitioned module: its shape is the shard."""
        placement, shape = base.placement, base.shape
        if whole is not None and (whole.element_type != shape.element_type or whole.rank != shape.rank):
            whole = None
        if placement is not None and placement.is_tiled:
            if (problem := placement.rank_problem(shape.rank)) is not None:
                return replace(base, shard=shape, placement=None, problem=problem)
            if whole is not None and placement.shard_sizes(whole.sizes) != shape.sizes:
                # Auto sharding, or propagation into parameters, may replace what the user has written.
                if base.origin == "before_optimizations":  # the partitioner has chosen another one
                    return self._unplaced(replace(base, placement=None, sharding=None), whole)
                whole = None
        if placement is None or placement.kind is ShardingType.UNKNOWN:
            return self._unplaced(base, whole)
        if whole is None and (sizes := whole_sizes(shape.sizes, placement)) is not None:
            # An upper bound where the division is uneven: the rounded-up shard times the parts.
            whole = replace(shape, dimensions=sizes, dynamic_dimensions=shape.dynamic_dimensions)
        is_manual = placement.kind is ShardingType.MANUAL
        parts = None if is_manual else _parts(placement, shape.rank)
        return replace(base, whole=whole, shard=shape, parts=parts, replication=self._copies(placement))

    def _unplaced(self, base: EntryArray, whole: ArrayShape | None) -> EntryArray:
        """The array of a partitioned module without a sharding: the sizes before and after say into how many parts."""
        shard = base.shape
        # Parts can be read from sizes only if they divide evenly.
        if whole is None or any(n % s if s else n for n, s in zip(whole.sizes, shard.sizes, strict=True)):
            return replace(base, whole=whole, shard=shard)
        parts = tuple(n // s if s else 1 for n, s in zip(whole.sizes, shard.sizes, strict=True))
        copies, rest = divmod(self._partitions, prod(parts))
        return replace(base, whole=whole, shard=shard, parts=parts, replication=None if rest else copies)

    def _copies(self, placement: Placement) -> int | None:
        """The number of devices with the same data; None if the program decides what each device has."""
        match placement.kind:
            case ShardingType.TILED:
                return placement.copies
            case ShardingType.REPLICATED:
                return self._partitions
            case ShardingType.MAXIMAL | ShardingType.UNREDUCED:
                # No two devices hold the same data: one device has all, or each has another term of the sum.
                return 1
            case _:
                return None


def _parts(placement: Placement, rank: int) -> tuple[int, ...]:
    return placement.parts if placement.is_tiled else (1,) * rank


def _leaves(instruction: Instruction) -> Iterator[tuple[ShapeIndex, ArrayShape]]:
    """The arrays of an instruction, those in buffers too."""
    for index, leaf in instruction.shape.leaves:
        array = leaf.array if isinstance(leaf, BufferShape) else leaf
        if isinstance(array, ArrayShape):
            yield index, array


def _shardings(instruction: Instruction) -> tuple[dict[ShapeIndex, Sharding | NamedSharding], str | None]:
    """The shardings of the leaves of an instruction, and the reason why its sharding is not understood."""
    sharding = instruction.sharding
    if sharding is None:
        text = instruction.attribute("sharding")
        return {}, None if text is None else f"could not parse {text[:_MAX_SHOWN]}"
    try:
        return {index: each for index, _, each in leaf_shardings(instruction.shape, sharding)}, None
    except HloError as error:
        return {}, error.diagnostic.message


@lru_cache(maxsize=4096)
def _placement(sharding: Sharding | NamedSharding) -> tuple[Placement | None, str | None]:
    """The normal form, or the reason why there is none."""
    try:
        return placement_of(sharding), None
    except HloError as error:
        return None, error.diagnostic.message
