"""Whether the shapes of a module are those of one device: the partitioner has run, or it has not.

Shardings alone do not tell: the parameters of CPU and GPU programs keep theirs, while their shapes become shards.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.sharding.placement import placement_of
from hlo_cli.analysis.sharding.shards import devices_of
from hlo_cli.ir.attributes.sharding import TupleSharding
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

_SUFFIX: Final = "_spmd"
"""The end of the entry's name that `SpmdPartitioner` adds, as in `main.26_spmd`."""
_MARK: Final = "sharding={"
_UNPARTITIONED: Final = (
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
    if module.num_partitions > 1 or _MARK not in module.source.text:
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
    if partitions_of(module) < 2 or module.entry.name.endswith(_SUFFIX):
        return True
    if (found := _by_program(module)) is not None:
        return found
    if module.is_scheduled:
        return True
    text = module.source.text
    if any(mark in text for mark in _UNPARTITIONED):
        return False
    entry, parameters = module.entry.instructions, frozenset(module.entry.parameters)
    if _MARK in text and any(each not in parameters and each.attribute("sharding") is not None for each in entry):
        return False
    return any(each.opcode.removesuffix("-start") in COLLECTIVES for each in entry)


def _by_program(module: Module) -> bool | None:
    """The answer from the sizes of parameters before optimizations; None if none is divided, or without that dump."""
    program = module.program
    if program is None or len(program.entry.parameters) != len(module.entry.parameters):
        return None
    for now, then in zip(module.entry.parameters, program.entry.parameters, strict=True):
        whole, sizes = then.shape, _sizes_of_a_shard(then)
        if not isinstance(now.shape, ArrayShape) or not isinstance(whole, ArrayShape) or sizes in (None, whole.sizes):
            continue
        if now.shape.sizes in (sizes, whole.sizes):
            return now.shape.sizes == sizes
    return None


def _sizes_of_a_shard(parameter: Instruction) -> tuple[int, ...] | None:
    sharding = parameter.sharding
    if sharding is None or isinstance(sharding, TupleSharding) or not isinstance(parameter.shape, ArrayShape):
        return None
    try:
        return placement_of(sharding).shard_sizes(parameter.shape.sizes)
    except HloError:
        return None
